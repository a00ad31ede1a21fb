# SPDX-License-Identifier: GPL-3.0-or-later
"""What lists of decoys tell, against the law of every view of small indexes; wrong variants are seen breaking."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import pytest

from ragseal.kernel.decoys.bounds import (
    FIXED_BITS,
    _together,
    certified_ratio,
    denominator,
    drawn_probability,
    excess,
    over_shards,
    own_slots,
    power_ratio,
    return_ratio,
    set_masses,
    size_law,
    smallest_room,
    visible_ratio,
)
from ragseal.kernel.decoys.law import choose
from ragseal.kernel.decoys.table import DrawTable, build_table
from ragseal.kernel.errors import PolicyError
from tests.decoys import brute
from tests.decoys.brute import ETA, HIDDEN, Scene, Setting

#: Of the number of draws, out of 16: all of both ends, void ids (3 slots of 4) and none, sets that are never drawn.
MASSES = ((4, 5, 4, 2, 1), (1, 3, 5, 4, 3), (0, 0, 8, 4, 4), (2, 6, 8), (6, 8, 2), (16,), (0, 16))
SETTINGS = [
    Setting(N, K, masses, own=own)
    for N, K, masses in itertools.product((3, 4), (1, 2, 3), MASSES)
    for own in ((0,), (1,), (N - 1,), (0, 1), (0, N - 1))
]


def name(one: Setting) -> str:
    return "-".join(map(str, (one.N, one.K, *one.masses, "own", *one.own, one.shards)))


UNIT = 1 << FIXED_BITS
COMMON = Setting(4, 2, MASSES[0])


def bound(setting: Setting) -> Fraction | None:
    return visible_ratio(setting.table, setting.N, setting.K, len(setting.own))


# --- the law of what is drawn -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("N", [1, 2, 3, 4])
@pytest.mark.parametrize("masses", MASSES)
def test_the_formula_gives_the_law_of_every_set(N: int, masses: tuple[int, ...]) -> None:
    setting = Setting(N, 1, masses)
    drawn, whole = brute.drawn_law(setting), denominator(setting.table)
    formula = set_masses(setting.table, N, N)
    for k in range(N + 1):
        for one in itertools.combinations(range(N), k):
            assert drawn.get(frozenset(one), 0) == Fraction(formula[k], whole)
    assert sum(size_law(setting.table, N, N)) == 1
    assert drawn_probability(setting.table, N) == sum(p for one, p in drawn.items() if 0 in one)


def test_the_kernel_chooses_as_the_enumeration_does() -> None:
    rng = random.Random(1)
    for _ in range(300):
        n, lo, K = rng.randrange(1, 7), rng.randrange(3), rng.randrange(1, 6)
        y = [rng.randrange(6) for _ in range(n)]
        drawn = frozenset(i for i in range(n) if rng.random() < 0.4)
        results = choose([sorted(drawn)], [y], lo, K)
        T = drawn | {slot for _, slot in results}
        assert brute.answer(drawn, tuple(max(0, x - lo) for x in y), K) == T
        cut = rng.randrange(n)  # as two shards: ids go on counting
        parts = [[i for i in drawn if i < cut], [i - cut for i in drawn if i >= cut]]
        apart = choose(parts, [y[:cut], y[cut:]], lo, K)
        assert [shard * cut + slot for shard, slot in apart] == [slot for _, slot in results]


# --- one list ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS, ids=name)
def test_the_bound_of_a_return_holds_and_is_reached(setting: Setting) -> None:
    """Over all scores of all slots; lists are short, full, and longer than K."""
    A = bound(setting)
    assert brute.worst_return(setting) == (math.inf if A is None else A)
    assert (brute.lost_mass(setting) > 0) == (A is None)


@pytest.mark.parametrize("setting", SETTINGS, ids=name)
def test_a_list_without_the_document_is_no_likelier_with_it(setting: Setting) -> None:
    assert brute.worst_without(setting) <= 1


@pytest.mark.parametrize("setting", SETTINGS, ids=name)
def test_the_excess_is_above_the_hockey_stick_and_reached_by_one_slot(setting: Setting) -> None:
    """In an index where all slots match, each of one slot's lists is worst at once."""
    for A in (Fraction(1), Fraction(3, 2), Fraction(2), Fraction(3)):
        proven = excess(setting.table, setting.N, setting.K, A, len(setting.own))
        found = brute.worst_excess(setting, A)
        assert found <= proven
        if len(setting.own) == 1:
            assert found == proven
    with pytest.raises(PolicyError, match="below 1"):
        excess(setting.table, setting.N, setting.K, Fraction(99, 100))


def test_slots_that_do_not_match_are_others_in_the_excess() -> None:
    """Sets beside the slots that match are of all other slots, the document's own among them: fewer is too little."""
    setting = Setting(4, 1, (1, 3, 5, 4, 3), own=(0, 1))
    masses, whole = set_masses(setting.table, 4, 1), denominator(setting.table)
    fewer = Fraction(math.comb(2, 1) * (masses[0] + masses[1] - masses[1]), whole)
    assert brute.worst_excess(setting, Fraction(1)) <= excess(setting.table, 4, 1, Fraction(1), 2)
    assert fewer > 0
    found = [
        one
        for one in SETTINGS
        if len(one.own) == 2 and brute.worst_excess(one, Fraction(1)) > _of_the_sets_of(one, Fraction(1))
    ]
    assert found


def _of_the_sets_of(setting: Setting, A: Fraction) -> Fraction:
    """Too little: the largest of one size of S instead of the sum over them."""
    N, most = setting.N, min(setting.K, setting.N)
    masses, found = set_masses(setting.table, N, most), [Fraction(0)]
    for s in range(1, min(len(setting.own), most) + 1):
        over = (
            math.comb(N - s, k)
            * max(Fraction(0), sum(math.comb(s, t) * masses[k + t] for t in range(s + 1)) - A * masses[k + s])
            for k in range(most - s + 1)
        )
        found.append(sum(over, Fraction(0)) / denominator(setting.table))
    return max(found)


def test_a_budget_buys_the_sizes_that_are_never_drawn() -> None:
    setting = Setting(4, 3, (6, 8, 2))
    assert bound(setting) is None
    lost = brute.lost_mass(setting)
    assert certified_ratio(setting.table, 4, 3, Fraction(0)) is None
    assert certified_ratio(setting.table, 4, 3, lost / 2) is None
    bought = certified_ratio(setting.table, 4, 3, lost)
    assert bought is not None
    assert brute.worst_excess(setting, bought) <= lost
    assert certified_ratio(COMMON.table, 4, 2, Fraction(0)) == bound(COMMON)


def test_draws_cut_off_at_the_length_of_a_list_lose_mass() -> None:
    """Broken before: a cap of the draws that is no quantile.  With J_max below K a set of K slots is never drawn."""
    enough, capped = Setting(4, 3, (4, 5, 4, 3)), Setting(4, 3, (4, 5, 7))
    assert brute.lost_mass(enough) == 0
    assert brute.lost_mass(capped) > Fraction(1, 20)


@pytest.mark.parametrize(
    ("rule", "least"),
    [
        (brute.with_reserve, 0.04),
        (brute.exact_on_top, 0.6),
        (brute.refused_over(1), 0.28),
        (brute.matching_drawn_only, 0.8),
    ],
)
def test_wrong_variants_lose_mass(rule: brute.Rule, least: float) -> None:
    """A reserve of results, decoys on top of an exact list, a refusal inside the room, no decoys without a text."""
    for K in (2, 3):
        setting = dataclasses.replace(COMMON, K=K, rule=rule)
        assert brute.worst_return(setting) == math.inf
        assert brute.lost_mass(setting) > least


def test_a_fixed_number_of_draws_loses_mass() -> None:
    setting = Setting(4, 2, (0, 16))
    assert brute.worst_return(setting) == math.inf
    assert brute.lost_mass(setting) == Fraction(3, 4)


def test_ids_that_are_drawn_again_exceed_the_bound() -> None:
    """Repeated ids have to be spent: what redraws them has another law, and with it another bound."""
    setting = dataclasses.replace(COMMON, redrawn=True)
    assert brute.worst_return(setting) > (bound(setting) or math.inf)


def test_filling_up_by_scores_below_lo_tells_of_documents_that_do_not_match() -> None:
    """What does not match has to be as an empty slot: -1 is a document below lo, -9 an empty slot."""
    for rule, worst in ((brute.answer, Fraction(1)), (brute.filled_by_score, Fraction(2000, 583))):
        setting = dataclasses.replace(COMMON, rule=rule)
        there, empty = brute.law(setting, (-1, -2, -3, 1)), brute.law(setting, (-9, -2, -3, 1))
        assert max(p / empty[T] for T, p in there.items()) == worst


def test_a_guard_that_takes_a_slot_out_of_the_list_speaks_for_its_presence() -> None:
    """A list without i does not change when i is taken out; one from which i was dropped does."""
    setting = dataclasses.replace(COMMON, rule=brute.guarded(0))
    assert brute.worst_without(COMMON) <= 1
    assert brute.worst_without(setting) > 3


def test_a_cap_and_a_fixed_filling_cost_nothing_but_what_they_are_for() -> None:
    """No fault: of more than K drawn slots the first K are returned, or the first empty slots fill a short list up.

    Either is a function of the drawn set and of the list alone.  A cap by scores is none, and breaks.
    """
    for K, rule in itertools.product((1, 2, 3), (brute.capped, brute.filled)):
        setting = dataclasses.replace(COMMON, K=K, rule=rule)
        assert brute.worst_return(setting) <= (bound(setting) or 0)
        assert brute.worst_without(setting) <= 1
    worst = [brute.worst_return(dataclasses.replace(COMMON, K=K, rule=brute.capped_by_score)) for K in (1, 2, 3)]
    assert max(worst) > (bound(COMMON) or math.inf)


# --- shards -----------------------------------------------------------------------------------------------------------


#: The document's slots in shards of two, of three slots and of three shards; by K and what is drawn.
SHARDED = [
    Setting(N, K, masses, L=N - 1, own=own, shards=shards)
    for N, shards, own in (
        (2, 2, (0, 1)), (2, 2, (0, 2)), (2, 2, (0, 1, 2)), (2, 2, (1, 2, 3)), (2, 2, (0, 1, 2, 3)),
        (2, 3, (0, 2, 4)), (2, 3, (0, 1, 4)), (3, 2, (0, 1, 2, 3)), (3, 2, (0, 3, 5)),
    )
    for K, masses in itertools.product((2, 4), ((4, 5, 4, 2, 1), (6, 8, 2)))
]  # fmt: skip


def by_shard(setting: Setting, slots: Iterable[int]) -> list[int]:
    """How many of them lie in each shard."""
    found = [0] * setting.shards
    for i in slots:
        found[i // setting.N] += 1
    return found


def values(setting: Setting) -> tuple[int, ...]:
    """Scores that are tried: six slots of three values take long, and equal scores go by slot."""
    return (0, 1, 2) if setting.slots < 6 else (0, 1)


def test_a_document_in_two_shards_has_the_largest_product() -> None:
    """Two slots of four draw apart from the two others; one document in both, or twice in one."""
    part = SHARDED[0]
    one, two = (visible_ratio(part.table, 2, 2, m) for m in (1, 2))
    assert one is not None
    assert two is not None
    found = [brute.worst_return(dataclasses.replace(part, own=own)) for own in ((0, 1), (0, 2))]
    assert found == [max(one, two), one * one]
    assert over_shards([one, two]) == max(two, one * one)


@pytest.mark.parametrize("setting", SHARDED, ids=name)
def test_what_shards_leave_adds_up(setting: Setting) -> None:
    """At ratios that each shard's part has, from 1 on: by enumeration, by fibres, and as it is charged.

    And the other way round: what has no slot of the document is no likelier with it.
    """
    own = [m for m in by_shard(setting, setting.own) if m]
    apart = [list(fibres(setting, there)) for there, _ in brute.worlds(setting, values(setting))]
    for ratios in itertools.product((Fraction(1), Fraction(2), Fraction(5)), repeat=len(own)):
        A = math.prod(ratios, start=Fraction(1))
        charged = sum(
            (excess(setting.table, setting.N, setting.K, a, m) for a, m in zip(ratios, own, strict=True)), Fraction(0)
        )
        found = brute.worst_excess(setting, A, values(setting))
        assert found <= max(of_fibres(setting, one, A) for one in apart) <= charged
    assert brute.worst_without(setting, values(setting)) <= 1


def fibres(setting: Setting, there: brute.Scores) -> Iterator[tuple[brute.Slots, brute.Slots]]:
    """(Q, the drawn sets with the same slots outside of B and the same list, as the least and the largest of them).

    Each is all sets between the two, and the largest has the slots of B that the list has.
    """
    B = frozenset(i for i in setting.own if there[i])
    found: dict[tuple[brute.Slots, brute.List], list[brute.Slots]] = {}
    every = range(setting.slots)
    for k in range(setting.slots + 1):
        for one in map(frozenset, itertools.combinations(every, k)):
            found.setdefault((one - B, setting.rule(one, there, setting.K)), []).append(one)
    for (Q, T), sets in found.items():
        least, most = frozenset.intersection(*sets), frozenset.union(*sets)
        assert not isinstance(T, str)
        assert len(sets) == 1 << len(most - least)
        assert most == Q | (T & B)
        assert most == least or len(most) <= setting.K
        yield least, most


def of_fibres(setting: Setting, apart: Sequence[tuple[brute.Slots, brute.Slots]], A: Fraction) -> Fraction:
    """sum over fibres of (P_D - A P_D0)_+, by the formula of the law."""
    masses, whole = set_masses(setting.table, setting.N, setting.N), denominator(setting.table)
    total = Fraction(0)
    for least, most in apart:
        sizes = list(zip(by_shard(setting, least), by_shard(setting, most), strict=True))
        with_it: int = math.prod(own_slots(masses, low, high - low) for low, high in sizes)
        total += max(Fraction(0), with_it - A * math.prod(masses[high] for _, high in sizes))
    return total / Fraction(whole) ** setting.shards


def test_what_is_left_in_one_shard_alone_is_too_little() -> None:
    """The largest of the shards' excesses instead of their sum."""

    def largest(setting: Setting, A: Fraction) -> Fraction:
        own = [m for m in by_shard(setting, setting.own) if m]
        return max(excess(setting.table, setting.N, setting.K, A, m) for m in own)

    several = [one for one in SHARDED if one.slots < 6 and min(by_shard(one, one.own))]
    assert any(brute.worst_excess(one, Fraction(4)) > largest(one, Fraction(2)) for one in several)


@pytest.mark.parametrize("setting", [*SHARDED, *SETTINGS], ids=name)
def test_the_power_of_one_slot_s_ratio_holds_with_what_it_leaves(setting: Setting) -> None:
    m = len(setting.own)
    for budget in (Fraction(0), Fraction(1, 20), Fraction(1, 4), Fraction(1)):
        found = power_ratio(setting.table, setting.N, setting.K, m, budget, setting.shards)
        if found is not None:
            alone, left = found
            assert left <= budget
            assert brute.worst_excess(setting, alone**m, values(setting)) <= left


def test_a_bound_of_sizes_that_forgets_the_document_s_slots_is_exceeded() -> None:
    """Wrong: sets of more than ``top`` slots are left out, as if a fibre had no larger top than what is drawn."""
    found = []
    for setting in [*SHARDED, *SETTINGS]:
        if setting.slots > 4:
            continue
        masses = set_masses(setting.table, setting.N, setting.N)
        law, m = size_law(setting.table, setting.N, setting.N), len(setting.own)
        for top in range(1, setting.N):
            if not all(masses[: top + 1]):
                continue
            alone = max(1 + Fraction(masses[j], masses[j + 1]) for j in range(top))
            found.append(brute.worst_excess(setting, alone**m) - setting.shards * sum(law[top + 1 :]))
    assert max(found) > 0


def by_what_is_drawn(room: int) -> brute.Rule:
    """As the mechanism: two shards of two slots; refused where the results, wherever they lie, may not fit."""

    def rule(drawn: brute.Slots, scores: brute.Scores, K: int) -> brute.List:
        missing = max(0, K - len(drawn))
        fullest = max(len(drawn & {0, 1}), len(drawn & {2, 3})) + missing
        return "refused" if fullest > room else brute.answer(drawn, scores, K)

    return rule


def by_what_is_returned(room: int) -> brute.Rule:
    """Wrong: refused where a shard returns more, which depends on where the results lie."""

    def rule(drawn: brute.Slots, scores: brute.Scores, K: int) -> brute.List:
        T = brute.answer(drawn, scores, K)
        return "refused" if not isinstance(T, str) and max(len(T & {0, 1}), len(T & {2, 3})) > room else T

    return rule


@pytest.mark.parametrize("own", [(0,), (0, 1), (0, 2)])
def test_a_shard_without_room_for_all_results_is_refused_by_what_is_drawn(own: tuple[int, ...]) -> None:
    """K 2 and room for 1: with less drawn than K, all results might lie in one shard."""
    setting = Setting(4, 2, MASSES[0], own=own, rule=by_what_is_drawn(1))
    assert brute.worst_return(setting) <= (bound(setting) or 0)
    assert brute.worst_without(setting) <= 1
    laws = [brute.law(setting, scores) for scores in itertools.product((0, 1, 2), repeat=4)]
    assert len({law["refused"] for law in laws}) == 1
    assert 0 < laws[0]["refused"] < 1


def test_a_refusal_by_what_is_returned_tells_of_it() -> None:
    setting = Setting(4, 2, MASSES[0], own=(0,), rule=by_what_is_returned(1))
    assert brute.worst_without(setting) > 1


def test_a_shard_s_room_is_for_its_draws_and_what_others_leave() -> None:
    """By force: the probability that room is missing, of three shards."""
    table, N, K, shards = DrawTable(2, 4, (4, 5, 4, 2, 1)), 4, 5, 3
    law = size_law(table, N, 4)
    assert smallest_room(table, N, K, shards) == N  # all probabilities here are above 2^-64
    for room in range(5):
        exact = Fraction(0)
        for sizes in itertools.product(range(5), repeat=shards):
            if max(sizes) + max(0, K - sum(sizes)) > room:
                exact += math.prod(law[k] for k in sizes)
        fixed = [-(-one.numerator * UNIT // one.denominator) for one in law]
        few = list(itertools.accumulate(_together(fixed, shards - 1, K)))
        proven = shards * (sum(law[room + 1 :]) + (Fraction(few[K - room - 1], UNIT) if room < K else 0))
        assert exact <= proven
    wide = build_table(13, 300 << 16)
    room = smallest_room(wide, 8000, 1000, 4)
    assert smallest_room(wide, 8000, 1) < room < 1000


# --- several questions ------------------------------------------------------------------------------------------------

QUESTIONS = ((2, 1, 0, 0), (0, 2, 2, 1), (1, 0, 2, 0))
SCENES = [
    Scene(Setting(4, 2, MASSES[0], own=(0,)), QUESTIONS),
    Scene(Setting(4, 2, MASSES[0], own=(0, 1)), QUESTIONS[:2]),
    Scene(Setting(3, 1, MASSES[1], own=(0,)), tuple(q[:3] for q in QUESTIONS)),
]


def charged(scene: Scene) -> Fraction:
    A = bound(scene.setting)
    assert A is not None
    return return_ratio(A, HIDDEN)


@pytest.mark.parametrize("scene", SCENES)
def test_no_view_up_to_the_return_is_likelier_than_one_return(scene: Scene) -> None:
    assert brute.likelier(scene, 2) <= charged(scene)


def test_one_return_of_a_coin_s_document_is_reached() -> None:
    """The document's slots before all others, and as good as they are."""
    for own, question in (((0,), (2, 0, 0, 0)), ((0, 1), (2, 2, 0, 0))):
        scene = Scene(Setting(4, 2, MASSES[0], own=own), (question,))
        assert brute.likelier(scene, 1) == charged(scene)


@pytest.mark.parametrize("scene", [*SCENES, Scene(COMMON, QUESTIONS[:2], throws=2)])
def test_no_whole_view_is_rarer_than_the_coin_says(scene: Scene) -> None:
    assert ETA**scene.throws <= brute.rarer(scene, 2)


@pytest.mark.parametrize("own", [(0,), (0, 1)])
def test_without_decoys_the_coin_bounds_absence_and_nothing_bounds_a_return(own: tuple[int, ...]) -> None:
    """Claim unseen: a view that comes without the document is no likelier with it, and every view of any length is at
    most 1 / eta times as likely without; both are reached.  A list that has it comes without it never."""
    scene = Scene(Setting(4, 2, (16,), own=own), QUESTIONS[:2])
    assert bound(scene.setting) is None
    assert brute.likelier(scene, 1) == math.inf
    for n in (1, 2, 3):
        assert max(p / q for p, q in brute.views(scene, n, True) if q) == 1
        assert brute.rarer(scene, n) == ETA
    assert brute.rarer(dataclasses.replace(scene, each=True), 2) < ETA
    assert brute.rarer(dataclasses.replace(scene, throws=2), 2) == ETA**2


def test_what_would_be_charged_too_little_is_exceeded() -> None:
    """A view that goes on after the return, a coin a question, two coin periods charged as one, two slots as one."""
    scene = SCENES[0]
    assert brute.likelier(dataclasses.replace(scene, goes_on=True), 2) > charged(scene)
    assert brute.rarer(dataclasses.replace(scene, each=True), 2) < ETA
    assert brute.rarer(dataclasses.replace(scene, throws=2), 2) < ETA
    A = visible_ratio(COMMON.table, 4, 2)
    assert A is not None
    assert brute.likelier(Scene(dataclasses.replace(COMMON, own=(0, 1)), ((2, 2, 0, 0),)), 1) > return_ratio(A, HIDDEN)


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("N", "L", "K", "R", "draws", "room"),
    [(5184, 13, 42, 6, 71, 55), (5184, 13, 74, 5, 131, 97), (7000, 13, 49, 6, 71, 65), (16384, 14, 64, 6, 107, 107)],
)
def test_a_poisson_table_gives_one_over_p0(N: int, L: int, K: int, R: int, draws: int, room: int) -> None:
    """The return is that of independent slots, ln((1 - eta) / p0 + eta), to a millionth, and needs no delta."""
    eta = 13 / 256
    p0 = (1 - eta) / (math.exp(R) - eta)
    table = build_table(L, round(-(2**L) * math.log1p(-p0) * 65536))
    A = visible_ratio(table, N, K)
    assert A is not None
    assert excess(table, N, K, A) == 0
    assert abs(math.log(return_ratio(A, 13)) - R) < 1e-6
    assert abs(float(drawn_probability(table, N) * A) - 1) < 1e-6
    assert (table.draws, smallest_room(table, N, 1)) == (draws, room)
    assert smallest_room(table, N, K) == max(K, room)
    limit = Fraction(1, 1 << 64)
    assert 1 - sum(size_law(table, N, room)) <= limit < 1 - sum(size_law(table, N, room - 1))


def test_a_long_list_of_few_decoys_has_a_return_for_a_delta() -> None:
    """K far above what is ever drawn: 2^-64 buys the ratio of the sizes that come."""
    table = build_table(13, round(2.7 * 65536))
    A = visible_ratio(table, 5184, 60)
    bought = certified_ratio(table, 5184, 60, Fraction(1, 1 << 60))
    assert A is None
    assert bought is not None
    assert abs(float(drawn_probability(table, 5184) * bought) - 1) < 1e-3
    assert 0 < excess(table, 5184, 60, bought) <= Fraction(1, 1 << 60)


def test_a_cap_at_the_length_of_a_list_costs_what_the_design_says() -> None:
    """2^-8.7 of a return's mass is above 1 / p0 at N 5184, K 32, R 6 (broken before)."""
    p0 = (1 - 13 / 256) / (math.exp(6) - 13 / 256)
    rate = round(-(2**13) * math.log1p(-p0) * 65536)
    wide, capped = build_table(13, rate), build_table(13, rate, 32)
    A = visible_ratio(wide, 5184, 32)
    assert A is not None
    assert excess(wide, 5184, 32, A) == 0
    assert -12 < math.log2(excess(capped, 5184, 32, A)) < -7


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_has_one_digest_and_number() -> None:
    """By hand: length and tag, protocol version, L, bits, draws, masses."""
    table = DrawTable(2, 4, (4, 5, 4, 2, 1))
    data = bytes([18]) + b"ragseal.draw-table" + bytes([0, 1, 2, 0, 4, 0, 0, 0, 4, 4, 5, 4, 2, 1])
    assert table.canonical_bytes() == data
    assert [table.number(u) for u in range(16)] == [0] * 4 + [1] * 5 + [2] * 4 + [3] * 2 + [4]
    assert table.rows(6) == (4, 9, 13, 15, 16, 16, 16)
    with pytest.raises(PolicyError, match="larger class"):
        table.rows(3)
    for u in (-1, 16):
        with pytest.raises(PolicyError, match="uniform"):
            table.number(u)
    for masses in ((16, 1), (17, -1), ()):
        with pytest.raises(PolicyError, match="masses"):
            DrawTable(2, 4, masses)
    assert len({build_table(L, rate).digest() for L in (4, 5) for rate in (65536, 65537)}) == 4


@pytest.mark.parametrize("rate", [1, 65536, 3 * 65536 + 7, 40 * 65536])
def test_masses_are_poisson_s_and_the_cut_is_the_smallest(rate: int) -> None:
    table, mean = build_table(8, rate), rate / 65536
    for j, mass in enumerate(table.masses):
        exact = math.exp(j * math.log(mean) - mean - math.lgamma(j + 1))
        assert abs(mass / 2**table.bits - exact) <= 1e-12 * exact + table.draws * 2.0**-table.bits + 2**-64
    tail = [math.exp(j * math.log(mean) - mean - math.lgamma(j + 1)) for j in range(table.draws, table.draws + 80)]
    assert sum(tail[1:]) < 1.001 * 2.0**-64 < 1.01 * sum(tail)
