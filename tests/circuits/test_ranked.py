# SPDX-License-Identifier: GPL-3.0-or-later
"""Honest statements satisfy the ranked circuit, edge cases included; its layout, its rows, and what determines what."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import pytest

from ragseal.circuits.build import build
from ragseal.circuits.circuit import circuit_of, one_index_classes, ranked_sources
from ragseal.circuits.search import complete_ranked, count_rows, fill_ranked
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import ELEMENTS_PER_BLOCK, RANKED_LAWS
from ragseal.kernel.ranked_class import RankedClass, overflow_bound_holds, ranked_class_from_mapping
from ragseal.kernel.ranked_hints import ranked_hints
from ragseal.kernel.ranked_mechanism import select_ranked
from ragseal.kernel.ranked_statement import RankedLayout, bounds_of
from ragseal.kernel.statement import CLEAR, CLEAR_NAMES
from tests.circuits.determination import (
    DERIVED,
    check_quotients,
    check_sources,
    check_what_follows,
    group_wires,
    loose_of_places,
)
from tests.circuits.r1cs import R1cs
from tests.circuits.ranked_drafts import RankedDraft, RankedSetting
from tests.circuits.scene import CACHE, compiled, ranked_probe, ranked_tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[*RANKED_LAWS, "probe"])
def setting(request: pytest.FixtureRequest) -> RankedSetting:
    cls = ranked_probe() if request.param == "probe" else ranked_tiny(request.param)
    return RankedSetting(cls, compiled(cls))


@pytest.fixture(scope="module")
def tiny() -> RankedSetting:
    return RankedSetting(ranked_tiny(), compiled(ranked_tiny()))


def reference(d: RankedDraft) -> list[int]:
    """The kernel's own hints for the draft's statement."""
    chosen = select_ranked(d.cls, d.key, d.w, d.steps)
    assert list(chosen.returned) == d.returned()
    return ranked_hints(d.cls, chosen, d.w, d.steps)


def test_public_signals_stand_in_layout_order(setting: RankedSetting) -> None:
    layout = RankedLayout(setting.cls)
    names = [name.split("[")[0] for name in setting.r1cs.names[1:]]
    assert setting.r1cs.public == layout.public == circuit_of(setting.cls).public
    assert tuple(names[:CLEAR]) == CLEAR_NAMES
    assert names[layout.blind_at] == "blind"
    assert names[layout.scores_at : layout.hints_at] == ["w"] * setting.cls.N
    for group in layout.groups:
        at = layout.hints_at + group.offset
        assert names[at : at + group.count] == [group.name] * group.count
    assert names[layout.scaled_at : layout.public] == ["scaledBound"] * setting.cls.N
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
def test_honest_statements_are_accepted(setting: RankedSetting, case: str) -> None:
    digits, steps = CASES[case](random.Random(case), setting.cls.N)
    d = setting.honest(100 + len(case), digits, steps)
    assert d.hints() == reference(d)
    assert bounds_of(d.hints(), d.cls) == d.b
    assert setting.r1cs.violations(setting.r1cs.solve(d.inputs())) == []


def test_every_row_is_solved_or_checked_from_the_inputs_alone(setting: RankedSetting) -> None:
    r1cs = setting.r1cs
    assert len(r1cs.plan(r1cs.inputs)) == r1cs.wires - 1 - len(r1cs.inputs)


def test_every_input_but_the_blinder_is_used(setting: RankedSetting) -> None:
    r1cs = setting.r1cs
    assert [r1cs.names[w] for w in r1cs.inputs if not r1cs.rows_of[w]] == ["blind"]


def test_changing_any_public_input_is_rejected(tiny: RankedSetting) -> None:
    """Every clear input and a sample of every hint group, one at a time, all else recomputed."""
    d = tiny.honest(7)
    inputs, r1cs, rng = d.inputs(), tiny.r1cs, random.Random(5)
    layout = RankedLayout(d.cls)
    wires = [*range(1, 1 + CLEAR - 2)]  # alpha and beta may be anything
    wires += [1 + layout.hints_at + g.offset + rng.randrange(g.count) for g in layout.groups]
    wires.append(1 + layout.scaled_at + rng.randrange(d.cls.N))
    for w in wires:
        forged = {**inputs, w: inputs[w] + 1}
        assert r1cs.violations(r1cs.solve(forged)), r1cs.names[w]


# --- rows -------------------------------------------------------------------------------------------------------------


def test_the_formula_is_the_compilers(setting: RankedSetting) -> None:
    built, rows = build(setting.cls, CACHE), count_rows(setting.cls)
    assert (rows.constraints, rows.public) == (built.constraints, built.public)


CLASSES = {name: cls for name, cls in one_index_classes().items() if isinstance(cls, RankedClass)}
DOMAINS = {"tiny": 14, "mini": 15, "small": 16, "base": 17, "large": 18}
#: Slots that were asked for, by domain and results.
LEAST = {("small", 10): 7000, ("large", 10): 30000, ("small", 50): 6500, ("large", 50): 29000, ("small", 128): 5184}


@pytest.mark.parametrize("name", CLASSES)
def test_places_are_proven_enough_and_rows_fit(name: str) -> None:
    """The overflow bound holds for the file's R, a, b, and not for two places less; no block more has room."""
    cls, size = CLASSES[name], name.split("-")[1]
    rows = count_rows(cls)
    assert overflow_bound_holds(cls)
    assert not overflow_bound_holds(dataclasses.replace(cls, R=cls.R - 2))
    assert rows.rows <= rows.domain == 1 << DOMAINS[size]
    assert LEAST.get((size, cls.K), 0) <= cls.N
    if size != "tiny":
        assert rows.scaling <= 7 * cls.N
        block = ELEMENTS_PER_BLOCK * cls.q
        more = complete_ranked("more", cls.law, cls.N + block, cls.K, cls.m, cls.q, cls.c)
        assert cls.N % block == 0
        assert count_rows(more).rows > rows.domain


def test_the_search_fills_a_domain() -> None:
    cls = fill_ranked("test", RANKED_LAWS[1], 32, 9, 11, 1 << 15)
    assert (cls.N, cls.R % 2) == (2576, 0)
    assert count_rows(cls).rows <= 1 << 15
    with pytest.raises(PolicyError, match="fits"):
        fill_ranked("test", RANKED_LAWS[1], 32, 9, 11, 1 << 12)


@pytest.mark.parametrize(
    ("change", "why"),
    [({"N": "7"}, "must be an integer"), ({"a": "x"}, "rational"), ({"law": 3}, "must be text"), ({"s": 3}, "unknown")],
)
def test_a_class_is_read_strictly(change: dict[str, object], why: str) -> None:
    plain = CLASSES["ranked-tiny-two"].to_mapping()
    assert ranked_class_from_mapping(plain) == CLASSES["ranked-tiny-two"]
    with pytest.raises(PolicyError, match=why):
        ranked_class_from_mapping({**plain, **change})


# --- determination ----------------------------------------------------------------------------------------------------

_MADE = DERIVED + r"|limits\.range|place\[\d+\]\.f\w*"  #: made from challenges by linear rows and products


def loose(r1cs: R1cs, without: set[int]) -> set[int]:
    """As :func:`loose_of_places`."""
    return loose_of_places(r1cs, without, _MADE)


def test_everything_is_determined_without_a_challenge(setting: RankedSetting) -> None:
    """Scaled bounds are challenges' work too: beta times what another commitment holds."""
    assert loose(setting.r1cs, set()) == set()


def test_every_quotient_has_one_defining_row(setting: RankedSetting) -> None:
    check_quotients(setting.r1cs)


def test_exempt_wires_follow_from_quotients(setting: RankedSetting) -> None:
    check_what_follows(setting.r1cs)


def test_every_commitment_is_needed(tiny: RankedSetting) -> None:
    """Live: leave any one group out of the commitments, and all its wires are loose."""
    for name in ["w", *(g.name for g in RankedLayout(tiny.cls).groups)]:
        wires = group_wires(tiny.r1cs, name)
        if name == "placeFull":  # the last place is not full, by a row of its own
            wires -= {tiny.r1cs.wire_of[f"placeFull[{tiny.cls.R - 1}]"]}
        assert wires
        assert wires <= loose(tiny.r1cs, wires), f"{name} could be left out of the commitment unnoticed"
    for private in ("s_hi", "s_lo"):
        assert loose(tiny.r1cs, {tiny.r1cs.wire_of[private]})


def test_only_quotients_are_assigned_in_the_sources() -> None:
    check_sources(ranked_sources())
