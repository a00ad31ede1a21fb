# SPDX-License-Identifier: GPL-3.0-or-later
"""Honest statements satisfy the lottery's circuit, edge cases included; its layout, its rows, what determines what."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable

import pytest

from ragseal.circuits import stats
from ragseal.circuits.build import build
from ragseal.circuits.circuit import circuit_of, load_classes, lottery_sources
from ragseal.circuits.independence import check_independent
from ragseal.circuits.r1cs import read_r1cs
from ragseal.circuits.search import complete_lottery, count_rows, fill_lottery
from ragseal.kernel import field
from ragseal.kernel.errors import PolicyError, ProofError
from ragseal.kernel.hint_opening import packed_bounds
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.lottery_hints import lottery_hints
from ragseal.kernel.lottery_mechanism import select_lottery
from ragseal.kernel.lottery_statement import CLEAR_NAMES, LotteryLayout
from ragseal.kernel.params import ELEMENTS_PER_BLOCK, R
from tests.circuits.determination import (
    DERIVED,
    check_quotients,
    check_sources,
    check_what_follows,
    group_wires,
    loose_of_places,
)
from tests.circuits.lottery_drafts import WIDTH, LotteryDraft, LotterySetting, lottery_tiny
from tests.circuits.r1cs import R1cs
from tests.circuits.scene import CACHE
from tests.circuits.test_independence import without_rows_of

pytestmark = pytest.mark.slow

CLASSES = {name: cls for name, cls in load_classes().items() if isinstance(cls, LotteryClass)}


@pytest.fixture(scope="module")
def tiny() -> LotterySetting:
    return LotterySetting.of(lottery_tiny())


@pytest.fixture(scope="module", params=["tiny", "probe"])
def setting(request: pytest.FixtureRequest, tiny: LotterySetting) -> LotterySetting:
    """The probe's ids need two chunks, its coarse bits several blocks."""
    if request.param == "tiny":
        return tiny
    return LotterySetting.of(complete_lottery("lottery-probe", N=2060, K=4, m=9, q=20, c=11, prizes=2))


def reference(d: LotteryDraft) -> list[int]:
    """The kernel's own hints for the draft's statement."""
    chosen = select_lottery(d.cls, d.key, d.w, d.width, d.prizes)
    assert list(chosen.returned) == d.returned()
    return lottery_hints(d.cls, chosen, d.w, d.width, d.prizes)


def test_public_signals_stand_in_layout_order(setting: LotterySetting) -> None:
    layout, names = LotteryLayout(setting.cls), [name.split("[")[0] for name in setting.r1cs.names[1:]]
    assert setting.r1cs.public == layout.public == circuit_of(setting.cls).public
    assert tuple(names[: layout.clear]) == CLEAR_NAMES
    assert names[layout.blind_at] == "blind"
    assert names[layout.scores_at : layout.hints_at] == ["w"] * setting.cls.N
    for group in layout.groups:
        at = layout.hints_at + group.offset
        assert names[at : at + group.count] == [group.name] * group.count
    assert names[layout.scaled_at : layout.public] == ["scaledBound"] * setting.cls.N
    assert names[layout.public : layout.public + 3] == ["s_hi", "s_lo", "t_salt"]


ROOM = lottery_tiny().room
CASES: dict[str, Callable[[random.Random, int], tuple[list[int] | None, int]]] = {
    "random": lambda rng, n: (None, WIDTH),
    "zero": lambda rng, n: ([0] * n, WIDTH),
    "equal": lambda rng, n: ([777] * n, WIDTH),
    "full": lambda rng, n: ([WIDTH] * n, WIDTH),
    "empty": lambda rng, n: ([-5 * WIDTH] * n, WIDTH),
    "all above the window": lambda rng, n: ([3 * WIDTH + i % 9 for i in range(n)], WIDTH),
    "edges of the window": lambda rng, n: ([(0, 1, -1, WIDTH, WIDTH + 1, WIDTH - 1)[i % 6] for i in range(n)], WIDTH),
    "one far out": lambda rng, n: ([-5 * WIDTH] * (n - 1) + [ROOM], WIDTH),
    "two clusters": lambda rng, n: ([rng.choice((0, WIDTH // 2)) for _ in range(n)], WIDTH),
    "at the class's limits": lambda rng, n: ([rng.choice((WIDTH - ROOM + 1, ROOM, 0)) for _ in range(n)], WIDTH),
    "widest window": lambda rng, n: ([rng.randrange(-9, ROOM) for _ in range(n)], ROOM - 1024),
    "narrowest window": lambda rng, n: ([rng.randrange(-2, 4) for _ in range(n)], 1),
    "empty slots": lambda rng, n: ([-3 * WIDTH if i % 3 else rng.randrange(-WIDTH, WIDTH) for i in range(n)], WIDTH),
}


@pytest.mark.parametrize("case", CASES)
def test_honest_statements_are_accepted(setting: LotterySetting, case: str) -> None:
    w, width = CASES[case](random.Random(case), setting.cls.N)
    for prizes in {1, setting.cls.prizes}:
        d = setting.honest(100 + len(case), w, width, prizes)
        assert d.hints() == reference(d)
        assert list(field.unpack(packed_bounds(field.pack(d.hints()), d.cls.N))) == [b % R for b in d.b]
        assert setting.r1cs.violations(setting.r1cs.solve(d.inputs())) == []


def test_every_number_of_prizes_that_come_is_accepted(tiny: LotterySetting) -> None:
    """None, some, exactly K, and more than K, with the fullest scores and with none."""
    seen: dict[int, list[int]] = {}
    for number in range(400):
        d = tiny.draft(number, [0] * tiny.cls.N)
        seen.setdefault(min(4, sum(u >= d.first_prize for u in d.u)), []).append(number)
    assert sorted(seen) == [0, 1, 2, 3, 4]
    for numbers in seen.values():
        for w in ([0] * tiny.cls.N, [WIDTH] * tiny.cls.N, [-4 * WIDTH] * tiny.cls.N):
            d = tiny.honest(numbers[0], w)
            assert d.hints() == reference(d)
            assert tiny.r1cs.violations(tiny.r1cs.solve(d.inputs())) == []


def test_changing_any_public_input_is_rejected(tiny: LotterySetting) -> None:
    """Every clear input and a sample of every hint group, one at a time, all else recomputed."""
    d = tiny.honest(7)
    inputs, r1cs, rng = d.inputs(), tiny.r1cs, random.Random(5)
    layout = LotteryLayout(d.cls)
    wires = [*range(1, 1 + layout.clear - 2)]  # alpha and beta may be anything
    wires += [1 + layout.hints_at + g.offset + rng.randrange(g.count) for g in layout.groups]
    wires.append(1 + layout.scaled_at + rng.randrange(d.cls.N))
    for w in wires:
        assert r1cs.violations(r1cs.solve({**inputs, w: inputs[w] + 1})), r1cs.names[w]


# --- rows -------------------------------------------------------------------------------------------------------------


def test_the_formula_is_the_compilers(setting: LotterySetting) -> None:
    built, rows = build(setting.cls, CACHE), count_rows(setting.cls)
    assert (rows.constraints, rows.public) == (built.constraints, built.public)
    assert stats.read()["lottery-tiny"] == stats.measured(build(lottery_tiny(), CACHE))


@pytest.mark.parametrize("name", CLASSES)
def test_places_are_proven_enough_and_rows_fit(name: str) -> None:
    """The overflow bound holds for the file's R, and not for one place less."""
    cls, rows = CLASSES[name], count_rows(CLASSES[name])
    assert cls.overflow_bound_holds()
    assert not dataclasses.replace(cls, R=cls.R - 1).overflow_bound_holds()
    assert rows.rows <= rows.domain == 1 << (13 if "tiny" in name else 16)
    if "tiny" not in name:
        assert rows.scaling < 8 * cls.N
        assert cls.N % (ELEMENTS_PER_BLOCK * cls.q) == 0


def test_the_search_fills_a_domain() -> None:
    found = fill_lottery("test", 50, 10, 11, 4, 1 << 16)
    assert (found.N, found.q, found.R) == (8000, 20, 99)
    assert count_rows(found).rows <= 1 << 16
    more = complete_lottery("more", found.N + ELEMENTS_PER_BLOCK * found.q, 50, 10, found.q, 11, 4)
    assert count_rows(more).rows > 1 << 16
    with pytest.raises(PolicyError, match="fits"):
        fill_lottery("test", 50, 10, 11, 4, 1 << 12)


# --- determination ----------------------------------------------------------------------------------------------------

_MADE = DERIVED + r"|limits\.range|place\[\d+\]\.f\w*|coarseTable"  #: made from challenges by linear rows and products


def loose(r1cs: R1cs, without: set[int]) -> set[int]:
    """As :func:`loose_of_places`."""
    return loose_of_places(r1cs, without, _MADE)


def test_everything_is_determined_without_a_challenge(setting: LotterySetting) -> None:
    assert loose(setting.r1cs, set()) == set()


def test_quotients_have_one_defining_row_and_all_else_follows(setting: LotterySetting) -> None:
    check_quotients(setting.r1cs)
    check_what_follows(setting.r1cs)


def test_every_input_but_the_blinder_is_used_and_every_row_solved(setting: LotterySetting) -> None:
    r1cs = setting.r1cs
    assert [r1cs.names[w] for w in r1cs.inputs if not r1cs.rows_of[w]] == ["blind"]
    assert len(r1cs.plan(r1cs.inputs)) == r1cs.wires - 1 - len(r1cs.inputs)


#: Of a place, each follows from the other two by the row of its prize.
TIED = ("placeCoarse", "placeBound", "placePrize")


def test_every_commitment_is_needed(tiny: LotterySetting) -> None:
    """Live: leave any one group out of the commitments, or two of the tied ones, and all its wires are loose."""
    names = ["w", *(g.name for g in LotteryLayout(tiny.cls).groups if g.name not in TIED)]
    for left_out in [*((name,) for name in names), *itertools.combinations(TIED, 2)]:
        wires = set.union(*(group_wires(tiny.r1cs, name) for name in left_out))
        assert wires
        assert wires <= loose(tiny.r1cs, wires), f"{left_out} could be left out of the commitment unnoticed"
    for private in ("s_hi", "s_lo"):
        assert loose(tiny.r1cs, {tiny.r1cs.wire_of[private]})


def test_only_quotients_are_assigned_in_the_sources() -> None:
    check_sources(lottery_sources())


def test_a_commitment_has_one_opening(tiny: LotterySetting, tmp_path: object) -> None:
    """The independence check passes, covers every committed wire, and misses none whose rows are emptied."""
    built, circuit = build(tiny.cls, CACHE), circuit_of(tiny.cls)
    check_independent(read_r1cs(built.r1cs), circuit.kept, circuit.relations)
    covered = [wire for relation in circuit.relations for wire in relation]
    assert [*range(1, circuit.kept + 1), *covered] == list(range(1, built.public + 1))
    layout = LotteryLayout(tiny.cls)
    for name in ("placePrize", "prizeChoice", "placeFloor", "thresholdLow"):
        wire = 1 + layout.hints_at + layout.by_name[name].offset
        with pytest.raises(ProofError, match=f"wire {wire} of the circuit is not bound"):
            check_independent(read_r1cs(without_rows_of(built, wire, tmp_path)), circuit.kept, circuit.relations)  # type: ignore[arg-type]
