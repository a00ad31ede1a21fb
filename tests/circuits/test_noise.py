# SPDX-License-Identifier: GPL-3.0-or-later
"""Honest statements satisfy the circuit with noise, edge cases included; its layout, rows, and what determines what."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import pytest

from ragseal.circuits import stats
from ragseal.circuits.build import build
from ragseal.circuits.circuit import circuit_of, load_classes, noise_sources
from ragseal.circuits.search import complete_noise, count_rows, fill_noise
from ragseal.kernel import field
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_hints import noise_hints
from ragseal.kernel.noise_mechanism import select_noise
from ragseal.kernel.noise_stated import packed_bounds
from ragseal.kernel.noise_statement import CLEAR_NAMES, THRESHOLD, NoiseLayout
from ragseal.kernel.params import NOISE_LAWS, R
from tests.circuits.determination import (
    DERIVED,
    check_quotients,
    check_sources,
    check_what_follows,
    group_wires,
    loose_of_places,
)
from tests.circuits.noise_drafts import PLACES, NoiseDraft, NoiseSetting
from tests.circuits.noise_forgeries import requests
from tests.circuits.r1cs import R1cs
from tests.circuits.scene import CACHE, compiled, noise_probe, noise_tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[*NOISE_LAWS, "probe"])
def setting(request: pytest.FixtureRequest) -> NoiseSetting:
    """One shard alone."""
    cls = noise_probe() if request.param == "probe" else noise_tiny(request.param)
    return NoiseSetting(cls, compiled(cls))


@pytest.fixture(scope="module", params=PLACES, ids=str)
def tiny(request: pytest.FixtureRequest) -> NoiseSetting:
    return NoiseSetting(noise_tiny(), compiled(noise_tiny()), *request.param)


def reference(d: NoiseDraft) -> list[int]:
    """The kernel's own hints for the draft's statement."""
    chosen = select_noise(d.cls, d.key, [d.w], d.steps)
    assert list(chosen.returned) == d.t()
    return noise_hints(d.cls, chosen, 0, d.w, d.steps)


def test_public_signals_stand_in_layout_order(setting: NoiseSetting) -> None:
    layout = NoiseLayout(setting.cls)
    names = [name.split("[")[0] for name in setting.r1cs.names[1:]]
    assert setting.r1cs.public == layout.public == circuit_of(setting.cls).public
    assert tuple(names[: layout.clear]) == CLEAR_NAMES
    assert names[layout.blind_at] == "blind"
    assert names[layout.scores_at : layout.hints_at] == ["w"] * setting.cls.N
    for group in layout.groups:
        at = layout.hints_at + group.offset
        assert names[at : at + group.count] == [group.name] * group.count
    assert names[layout.behind_at : layout.shared_at] == ["scaledBound"] * setting.cls.N
    assert tuple(names[layout.shared_at : layout.public]) == THRESHOLD
    assert names[layout.public : layout.public + 3] == ["s_hi", "s_lo", "t_salt"]


CASES: dict[str, Callable[[random.Random, int], tuple[list[int] | None, int]]] = {
    "random": lambda rng, n: (None, 128),
    "equal": lambda rng, n: ([7] * n, 128),
    "all below the window": lambda rng, n: ([-1300] * n, 128),
    "all above the window": lambda rng, n: ([640 + i % 9 for i in range(n)], 128),
    "edges of the window": lambda rng, n: ([(0, 1, -1, 128, 129, 127)[i % 6] for i in range(n)], 128),
    "one far out": lambda rng, n: ([-1300] * (n - 1) + [1500], 128),
    "two clusters": lambda rng, n: ([rng.choice((0, 90)) for _ in range(n)], 128),
    "extreme": lambda rng, n: ([rng.choice((-1500, 1500)) for _ in range(n)], 400),
    "at the class's limits": lambda rng, n: ([rng.choice((128 - 2047, 2048, 0)) for _ in range(n)], 128),
    "narrowest window": lambda rng, n: ([rng.randrange(-2, 4) for _ in range(n)], 1),
    "empty slots": lambda rng, n: ([-900 if i % 3 else rng.randrange(-200, 150) for i in range(n)], 96),
}


@pytest.mark.parametrize("case", CASES)
def test_honest_statements_are_accepted(setting: NoiseSetting, case: str) -> None:
    digits, steps = CASES[case](random.Random(case), setting.cls.N)
    d = setting.honest(100 + len(case), digits, steps)
    assert d.hints() == reference(d)
    assert list(field.unpack(packed_bounds(field.pack(d.hints()), d.cls.N))) == [b % R for b in d.b]
    assert setting.r1cs.violations(setting.r1cs.solve(d.inputs())) == []


def test_every_row_is_solved_or_checked_from_the_inputs_alone(setting: NoiseSetting) -> None:
    r1cs = setting.r1cs
    assert len(r1cs.plan(r1cs.inputs)) == r1cs.wires - 1 - len(r1cs.inputs)


def test_every_input_but_the_blinder_is_used(setting: NoiseSetting) -> None:
    r1cs = setting.r1cs
    assert [r1cs.names[w] for w in r1cs.inputs if not r1cs.rows_of[w]] == ["blind"]


def test_changing_any_public_input_is_rejected(tiny: NoiseSetting) -> None:
    """Every clear input and a sample of every hint group, one at a time, all else recomputed."""
    d = next(requests(tiny))
    inputs, r1cs, rng = d.inputs(), tiny.r1cs, random.Random(5)
    assert not r1cs.violations(r1cs.solve(inputs))
    layout = NoiseLayout(d.cls)
    wires = [*range(1, 1 + layout.clear - 2)]  # alpha and beta may be anything
    wires += [1 + layout.hints_at + g.offset + rng.randrange(g.count) for g in layout.groups]
    wires += [1 + layout.behind_at + rng.randrange(d.cls.N), 1 + layout.shared_at, 2 + layout.shared_at]
    for w in wires:
        forged = {**inputs, w: inputs[w] + 1}
        if r1cs.names[w] == "shards" and d.shards == 1:
            continue  # with one shard more there is room for T as well: the number is the verifier's own
        assert r1cs.violations(r1cs.solve(forged)), r1cs.names[w]


# --- rows -------------------------------------------------------------------------------------------------------------


def test_the_formula_is_the_compilers(setting: NoiseSetting) -> None:
    built, rows = build(setting.cls, CACHE), count_rows(setting.cls)
    assert (rows.constraints, rows.public) == (built.constraints, built.public)
    if setting.cls.name in CLASSES:
        assert stats.read()[setting.cls.name] == stats.measured(built)


CLASSES = {name: cls for name, cls in load_classes().items() if isinstance(cls, NoiseClass)}
DOMAINS = {"noise-tiny-gaussian": 15, "tiny": 14, "mini": 15, "small": 16, "large": 18}
#: Slots that were asked for.
LEAST = {
    "noise-mini-two-10": 3000,
    "noise-small-two-50": 6800,
    "noise-small-gaussian-50": 5700,
    "noise-large-gaussian-50": 32900,
}


@pytest.mark.parametrize("name", CLASSES)
def test_places_are_proven_enough_and_rows_fit(name: str) -> None:
    """The overflow bound holds for the file's R, a, b, and not for two places less; no element more has room."""
    cls, size = CLASSES[name], name.split("-")[1]
    rows = count_rows(cls)
    assert cls.overflow_bound_holds()
    assert not dataclasses.replace(cls, R=cls.R - 2).overflow_bound_holds()
    assert rows.rows <= rows.domain == 1 << DOMAINS.get(name, DOMAINS[size])
    assert LEAST.get(name, 0) <= cls.N
    if size != "tiny":  # N is as large as the domain allows
        more = complete_noise("more", cls.law, cls.N + cls.q, cls.K, cls.m, cls.q, cls.c, cls.S)
        assert count_rows(more).rows > rows.domain
        assert rows.scaling <= 7.1 * cls.N


def test_there_are_six_classes() -> None:
    """So few that one reads them all."""
    assert len(CLASSES) == 6


def test_the_search_fills_a_domain() -> None:
    want = CLASSES["noise-mini-two-10"]
    cls = fill_noise(want.name, want.law, want.K, want.m, want.c, want.S, 1 << 15)
    assert cls == want
    with pytest.raises(PolicyError, match="fits"):
        fill_noise("test", NOISE_LAWS[1], 32, 9, 11, 60, 1 << 12)


@pytest.mark.parametrize(
    ("change", "why"),
    [({"N": "7"}, "must be an integer"), ({"a": "x"}, "rational"), ({"law": 3}, "must be text"), ({"s": 3}, "unknown")],
)
def test_a_class_is_read_strictly(change: dict[str, object], why: str) -> None:
    plain = CLASSES["noise-tiny-two"].to_mapping()
    assert NoiseClass.from_mapping(plain) == CLASSES["noise-tiny-two"]
    with pytest.raises(PolicyError, match=why):
        NoiseClass.from_mapping({**plain, **change})


# --- determination ----------------------------------------------------------------------------------------------------

_MADE = (
    DERIVED + r"|limits\.range|place\[\d+\]\.f\w*|inside\[\d+\]\.f\w*"
)  #: made from challenges by linear rows and products


def loose(r1cs: R1cs, without: set[int]) -> set[int]:
    """As :func:`loose_of_places`."""
    return loose_of_places(r1cs, without, _MADE)


def test_everything_is_determined_without_a_challenge(setting: NoiseSetting) -> None:
    """Scaled bounds are challenges' work too: beta times what another commitment holds."""
    assert loose(setting.r1cs, set()) == set()


def test_every_quotient_has_one_defining_row(setting: NoiseSetting) -> None:
    check_quotients(setting.r1cs)


def test_exempt_wires_follow_from_quotients(setting: NoiseSetting) -> None:
    check_what_follows(setting.r1cs)


def test_every_commitment_is_needed() -> None:
    """Live: leave any one group out of the commitments, and all its wires are loose."""
    tiny = NoiseSetting(noise_tiny(), compiled(noise_tiny()))
    for name in ["w", *(g.name for g in NoiseLayout(tiny.cls).groups), *THRESHOLD]:
        wires = group_wires(tiny.r1cs, name)
        if name == "placeFull":  # the last place is not full, by a row of its own
            wires -= {tiny.r1cs.wire_of[f"placeFull[{tiny.cls.R - 1}]"]}
        assert wires
        assert wires <= loose(tiny.r1cs, wires), f"{name} could be left out of the commitment unnoticed"
    for private in ("s_hi", "s_lo"):
        assert loose(tiny.r1cs, {tiny.r1cs.wire_of[private]})


def test_only_quotients_are_assigned_in_the_sources() -> None:
    check_sources(noise_sources())
