# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats against a list of decoys.

Each forged statement is completed as well as it can be, so that one rule stands against it: the circuit rejects it, and
accepts it once the rows of that rule are dropped.  Two chunks a distance; test_attacks_one_chunk.py has what differs.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.circuits.r1cs import P
from tests.circuits.rules import fractions
from tests.decoys.drafts import (
    HALF,
    LO,
    TINY,
    Draft,
    Element,
    Rule,
    Setting,
    both,
    refused,
    row_over,
    scene,
    scenes,
)

pytestmark = pytest.mark.slow

N = TINY.N
#: With decoys, and of a claim without them.
RATES = pytest.mark.parametrize("rate", [2 << 16, 0])
#: Two results, a tie among them, and what does not match.
MARKS = ({10: 300, 20: 150, 30: 150, 40: 140, 50: 50, 55: LO},)


@pytest.fixture(scope="module")
def tiny() -> Setting:
    return Setting(TINY)


def quotients(setting: Setting, *patterns: str) -> Rule:
    return fractions(setting.r1cs, *patterns)


def place(d: Draft, one: int) -> int:
    """The number of an id's element in its shard's list."""
    return d.shards[one // N].elements.index(d.element(one))


def win(setting: Setting, d: Draft, one: int) -> Rule:
    return quotients(setting, rf"element\[{place(d, one)}\]\.f\[[02]\]")


def flag(setting: Setting, d: Draft, one: int) -> Rule:
    return quotients(setting, rf"element\[{place(d, one)}\]\.f\[[13]\]")


# --- slots -----------------------------------------------------------------------------------------------------------


@RATES
@pytest.mark.parametrize("score", [150, pow(3, 1000, P)])
def test_a_slot_that_matches_is_withheld_from_a_short_list(tiny: Setting, score: int, rate: int) -> None:
    """Also one whose score is no integer in range: what it has cannot be proven, whatever it is."""
    d = scene(tiny, MARKS, 8, rate, least=int(rate > 0))
    assert d.short
    d.shards[0].y[20] = score
    d.settle({i for i in d.everything if i in d.drawn or d.score(i) > LO} - {20}, jump=False)
    refused(tiny, d, quotients(tiny, r"slots\.f(High)?\[20\]"))


def test_a_wild_score_that_does_not_match_cannot_be_proven_either(tiny: Setting) -> None:
    d = scene(tiny, MARKS, 8)
    T = set(d.drawn) | set(d.ranked())
    d.shards[0].y[50] = -(1 << 17)
    d.settle(T, jump=False)
    refused(tiny, d, quotients(tiny, r"slots\.f(High)?\[50\]"))


def test_a_high_chunk_that_only_multiplicities_read(tiny: Setting) -> None:
    """Broken before: the worst slot's distance less 2^c times what its wire says is a winner's."""
    d = scene(tiny, MARKS, 2)
    worst = 50
    d.threshold, d.last = 151, len(d.everything) - 1
    d.settle(d.drawn | {10, worst}, jump=False)
    one, e = d.shards[0], d.element(worst)
    one.high[worst] = (e.x >> TINY.c) + 1
    e.x -= one.high[worst] << TINY.c
    assert -256 <= e.x < 0
    e.flag = 1
    refused(tiny, d, quotients(tiny, rf"slots\.fHigh\[{worst}\]"))


def test_a_threshold_between_integers(tiny: Setting) -> None:
    d = scene(tiny, MARKS, 2)
    d.threshold = (d.threshold - HALF) % P
    d.settle(d.drawn | {10, 20})
    assert not tiny.accepts(d)


# --- elements --------------------------------------------------------------------------------------------------------


def test_an_element_that_is_no_slot(tiny: Setting) -> None:
    d = scene(tiny, MARKS, 2)
    d.threshold, d.last = 151, len(d.everything) - 1
    d.settle(d.drawn | {10}, jump=False)
    one = d.shards[0]
    one.elements[len(d.drawn) + 1] = Element(N + 1, -1, flag=1)
    d.total += 1
    d.pad(0)
    refused(tiny, d, quotients(tiny, rf"element\[{len(d.drawn) + 1}\]\.fSlot"))


@RATES
def test_the_best_is_left_out(tiny: Setting, rate: int) -> None:
    """And the next one returned in its place: the cut lies behind slot 30."""
    d = scene(tiny, MARKS, 2, rate, least=int(rate > 0))
    d.last = 30
    d.settle(d.drawn | {20, 30})
    refused(tiny, d, quotients(tiny, r"slots\.f(High)?\[10\]"))


@RATES
def test_a_loser_is_returned_instead_of_the_last_winner(tiny: Setting, rate: int) -> None:
    d = scene(tiny, MARKS, 2, rate, least=int(rate > 0))
    d.threshold, d.last = 151, len(d.everything) - 1
    d.settle(d.drawn | {10, 40}, jump=False)
    refused(tiny, d, win(tiny, d, 40))


@RATES
def test_the_higher_of_two_equal_ids_is_returned(tiny: Setting, rate: int) -> None:
    """Broken before: with any other tie rule than -1 - X >= 0.  The threshold is said to lie behind slot 10."""
    d = scene(tiny, MARKS, 2, rate, least=int(rate > 0))
    d.last = 10
    d.settle(d.drawn | {10, 30})
    refused(tiny, d, win(tiny, d, 30))


def test_a_list_that_is_not_in_order_has_a_wrong_flag(tiny: Setting) -> None:
    """With the last winner's element first, b of a drawn slot before it would count, and lo would be lo + 1."""
    for d in scenes(tiny, ({10: 300, 20: 150, 30: 150},), 2):
        decoy = min(d.drawn)
        if decoy > 19:
            continue
        d.shards[0].y[decoy] = LO
        d.settle(d.drawn | {10, 20})
        one = d.shards[0]
        first, last = place(d, decoy), place(d, 20)
        moved = one.elements.pop(last)
        one.elements.insert(first, moved)
        for e in one.elements[first : last + 1]:
            e.after = 1
        d.element(decoy).flag = 1
        assert tiny.accepts(d) is False
        patterns = [rf"increasing\.f\[{k}\]\[\d+\]" for k in range(first, last + 1)]
        between = [e for e in one.elements[first + 1 : last + 1] if e.slot != decoy and d.shards[0].y[e.slot] == LO]
        assert not between
        if first:
            patterns.append(rf"increasing\.f\[{first - 1}\]\[\d+\]")
        rows, zero = quotients(tiny, *patterns)
        refused(tiny, d, (rows, zero))
        return
    raise AssertionError


def test_a_wrong_flag(tiny: Setting) -> None:
    for score, said in ((LO, 1), (LO + 1, 0)):
        d = next(scenes(tiny, MARKS, 2))
        decoy = min(d.drawn)
        d.shards[0].y[decoy] = score
        d.choose()
        assert tiny.accepts(d)
        d.element(decoy).flag = said
        refused(tiny, d, flag(tiny, d, decoy))


def test_a_flag_that_is_no_bit_names_another_slot(tiny: Setting) -> None:
    """2 id + 2 is the next slot without a flag."""
    d = scene(tiny, MARKS, 2)
    d.element(10).flag = 2
    d.shards[0].packed = [2 * e.slot + e.flag for e in d.shards[0].elements if e.used]
    refused(tiny, d, row_over(tiny.r1cs, f"flag[{place(d, 10)}]"))


def test_a_list_with_a_hole(tiny: Setting) -> None:
    d = scene(tiny, MARKS, 2)
    one = d.shards[0]
    at = place(d, 20)
    hole = dataclasses.replace(
        one.elements[at], slot=11, x=d.threshold - 1 - LO, used=0, after=0, hits=0, drawn=0, flag=0
    )
    before = next(k for k, e in enumerate(one.elements) if e.slot > 10)
    if one.elements[before].slot == 11:
        pytest.skip("slot 11 is drawn")
    one.elements.insert(before, hole)
    one.elements.pop()
    one.packed = [e.used * (2 * e.slot + e.flag) for e in one.elements]
    steps = (row_over(tiny.r1cs, f"used[{k}]", f"used[{k + 1}]") for k in (before - 1, before))
    refused(tiny, d, both(*steps))


# --- drawn slots -----------------------------------------------------------------------------------------------------


def test_a_slot_that_was_not_drawn_is_called_a_decoy(tiny: Setting) -> None:
    """As if it had been drawn once, and as if a slot could be drawn no times."""
    for hits in (1, 0):
        d = scene(tiny, MARKS, 2)
        d.threshold, d.last = 151, len(d.everything) - 1
        d.settle(d.drawn | {10, 50}, jump=False)
        e = d.element(50)
        e.hits, e.drawn = hits, 1
        k = place(d, 50)
        names = [f"{name}[{k}]" for name in ("inverse", "hits", "drawn")]
        refused(tiny, d, quotients(tiny, rf"element\[{k}\]\.fHits") if hits else row_over(tiny.r1cs, *names))


def once(d: Draft, h: int = 0) -> tuple[int, int] | None:
    """The last draw that counts, of a slot that was drawn once, and its number."""
    own = d.ids[h]
    if own and own[-1] < N and own.count(own[-1]) == 1:
        return own[-1], len(own) - 1
    return None


def withheld(tiny: Setting, last: bool = False) -> tuple[Draft, int, int]:
    """A decoy that the list leaves out, whatever proves it; another result comes in its place."""
    for d in scenes(tiny, MARKS, 2):
        found = once(d)
        if found is None or (last and found[0] < max([*d.drawn, 30])):
            continue
        d.threshold, d.last = 150, len(d.everything) - 1
        d.settle((d.drawn | {10, 20, 30}) - {found[0]}, jump=False)
        return d, *found
    raise AssertionError


def test_a_decoy_is_withheld(tiny: Setting) -> None:
    d, _, j = withheld(tiny)
    refused(tiny, d, quotients(tiny, rf"draw\[{j}\]\.fDraw"))


@pytest.mark.parametrize("drawn", [0, 1])
def test_a_decoy_is_an_element_that_is_not_used(tiny: Setting, drawn: int) -> None:
    d, slot, _ = withheld(tiny, last=True)
    one = d.shards[0]
    k = next(k for k, e in enumerate(one.elements) if not e.used)
    for step, e in enumerate(one.elements[k:]):
        e.slot = slot + step
    one.elements[k].hits, one.elements[k].drawn = 1, drawn
    one.elements[k].inverse = drawn
    names = (f"drawn[{k}]", f"used[{k}]") if drawn else (f"hits[{k}]", f"drawn[{k}]")
    refused(tiny, d, row_over(tiny.r1cs, *names))


def test_a_decoy_is_called_void(tiny: Setting) -> None:
    d, _, j = withheld(tiny)
    d.shards[0].void[j] = 1
    refused(tiny, d, quotients(tiny, rf"draw\[{j}\]\.range"))  # one chunk: the sum is the quotient


def test_a_void_id_is_called_a_slot(tiny: Setting) -> None:
    """It has no slot, so that no element has it: nothing else needs to refuse it."""
    for d in scenes(tiny, MARKS, 2):
        void = next((j for j, i in enumerate(d.ids[0]) if i >= N), None)
        if void is not None:
            d.shards[0].void[void] = 0
            refused(tiny, d, quotients(tiny, rf"draw\[{void}\]\.fDraw"))
            return


def test_a_draw_counts_where_none_may(tiny: Setting) -> None:
    """A decoy in a list that is said to have none: F(0) is the whole, so no uniform lies behind it."""
    d = scene(tiny, MARKS, 2, 0, least=0)
    d.shards[0].act[0] = 1
    (drawn,) = d.ids[0]
    assert drawn < N
    d.K = 3
    d.choose()
    assert d.drawn == {drawn}
    refused(tiny, d, quotients(tiny, r"number\.f\[\d+\]"))


@pytest.mark.parametrize("more", [-1, 1])
def test_another_number_of_draws(tiny: Setting, more: int) -> None:
    """One less, or one more: the last draw's slot is withheld, or the next one's is a decoy."""
    d = scene(tiny, MARKS, 2)
    one = d.shards[0]
    number = sum(one.act) + more
    one.act = [int(j < number) for j in range(TINY.draws)]
    d.choose()
    refused(tiny, d, quotients(tiny, r"number\.f\[\d+\]"))


def test_a_draw_in_the_middle_does_not_count(tiny: Setting) -> None:
    """1, 0, 1: the steps down add up to 1, and the uniform may lie between what they make of the table."""
    for d in scenes(tiny, MARKS, 2, rate=4 << 16, least=2):
        one, steps = d.shards[0], []
        number = sum(one.act)
        for j in range(1, number - 1):
            act = list(one.act)
            act[j] = 0
            steps = [a - b for a, b in zip([1, *act], [*act, 0], strict=True)]
            first = sum(s * f for s, f in zip(steps[1:], d.rows, strict=False))
            beyond = sum(s * f for s, f in zip(steps, d.rows, strict=True))
            uniform = sum(v << (TINY.L * k) for k, v in enumerate(one.values[: TINY.uniform_ids]))
            if first <= uniform < beyond and one.values[TINY.uniform_ids + j] < N:
                one.act = act
                d.choose()
                rows = [row_over(tiny.r1cs, f"act[{k - 1}]", f"act[{k}]") for k in (j, j + 1)]
                refused(tiny, d, both(*rows))
                return
    raise AssertionError


def test_an_id_of_more_than_l_bits_borrows_from_the_next(tiny: Setting) -> None:
    """v + 2^L and the next one less 1: the first is void then."""
    u, per = TINY.uniform_ids, TINY.per_element
    for d in scenes(tiny, MARKS, 2):
        one, found = d.shards[0], once(d)
        if found is None or one.values[u + found[1] + 1] == 0 or (u + found[1]) % per == per - 1:
            continue
        j = found[1]
        one.values[u + j] += 1 << TINY.L
        one.values[u + j + 1] -= 1
        d.K = len(d.drawn) + 2
        d.choose()
        element, at = divmod(u + j, per)
        refused(tiny, d, quotients(tiny, rf"block\[0\]\.f\[{element}\]\[{2 * at + 1}\]"))
        return
    raise AssertionError


def test_an_output_plus_the_modulus(tiny: Setting) -> None:
    for d in scenes(tiny, MARKS, 2, least=0):
        one = d.shards[0]
        if one.outputs[0] + P >= 1 << 254:
            continue
        one.outputs[0] += P
        per = TINY.per_element
        one.values = [(e >> (TINY.L * j)) & ((1 << TINY.L) - 1) for e in one.outputs for j in range(per)]
        uniform = sum(v << (TINY.L * k) for k, v in enumerate(one.values[: TINY.uniform_ids]))
        number = next(j for j, f in enumerate(d.rows) if uniform < f)
        one.act = [int(j < number) for j in range(TINY.draws)]
        d.choose()
        if d.drawn & set(MARKS[0]):
            continue
        last = per * 2 + TINY.filler + 2 * TINY.top - 1
        refused(tiny, d, quotients(tiny, rf"block\[0\]\.f\[0\]\[{last}\]"))
        return
    raise AssertionError


# --- the threshold and ties ------------------------------------------------------------------------------------------


def test_b_steps_up_at_a_slot_that_is_not_returned(tiny: Setting) -> None:
    """A result at lo + 1 behind it is withheld from a list that is called short."""
    d = scene(tiny, ({10: 300, 30: LO + 1},), 8)
    one, at = d.shards[0], 20
    if at in d.drawn:
        pytest.skip("slot 20 is drawn")
    d.settle(d.drawn | {10}, jump=False)
    one.b = [int(i > at) for i in range(N + 1)]
    for e in one.elements:
        if e.used:
            e.x = d.x(0, e.slot)
    one.high = [0 if m else d.x(0, i) >> TINY.c for i, m in enumerate(one.members)]
    refused(tiny, d, quotients(tiny, rf"slots\.f\[{at}\]"))


def test_b_steps_down(tiny: Setting) -> None:
    """Behind the element of slot 25 equal scores would win, before it they lose."""
    d = scene(tiny, ({20: 150, 25: 300, 30: 150},), 2)
    d.threshold, d.last = 151, 25
    d.settle(d.drawn | {25, 30}, jump=False)
    one = d.shards[0]
    one.b = [-int(i > 25) for i in range(N + 1)]
    for e in one.elements:
        if e.used:
            e.x, e.after = d.x(0, e.slot), one.b[e.slot + 1]
    d.pad(0)
    one.high = [0 if m else d.x(0, i) >> TINY.c for i, m in enumerate(one.members)]
    k = place(d, 25)
    refused(tiny, d, row_over(tiny.r1cs, *(f"behind[{j}]" for j in (k - 1, k) if j >= 0)))


def test_a_threshold_at_lo_fills_a_list_up(tiny: Setting) -> None:
    d = scene(tiny, MARKS, 6)
    assert d.short
    d.threshold, d.last, d.short = 50, len(d.everything) - 1, 0
    d.settle(d.drawn | {10, 20, 30, 40, 50, 55}, jump=False)
    assert d.total == d.K
    refused(tiny, d, quotients(tiny, r"limits\.f\[[12]\]"))


# --- how a list ends -------------------------------------------------------------------------------------------------


def test_a_list_is_called_short_above_lo(tiny: Setting) -> None:
    d = scene(tiny, MARKS, 2)
    d.threshold, d.last, d.short = 151, len(d.everything) - 1, 1
    d.settle(d.drawn | {10}, jump=False)
    refused(tiny, d, row_over(tiny.r1cs, "short", "threshold", "lo"))


def test_a_list_is_called_short_behind_a_last_winner(tiny: Setting) -> None:
    d = scene(tiny, ({10: 300, 20: LO + 1, 30: LO + 1},), 2)
    d.threshold, d.last, d.short, d.K = LO + 1, 20, 1, d.K + 2
    d.settle(d.drawn | {10, 20})
    refused(tiny, d, row_over(tiny.r1cs, "short", "past", f"behind[{TINY.room - 1}]"))


def test_a_short_list_is_longer_than_k(tiny: Setting) -> None:
    d = scene(tiny, MARKS, 2)
    d.threshold, d.last, d.short = LO + 1, len(d.everything) - 1, 1
    d.settle(d.drawn | {10, 20, 30, 40}, jump=False)
    refused(tiny, d, quotients(tiny, r"limits\.f\[3\]"))


def test_decoys_alone_where_they_are_too_few(tiny: Setting) -> None:
    d = scene(tiny, MARKS, 2)
    d.threshold, d.last, d.over = 301, len(d.everything) - 1, 1
    d.settle(set(d.drawn), jump=False)
    refused(tiny, d, quotients(tiny, r"limits\.f\[3\]"))


def test_a_result_too_many_in_a_list_of_decoys(tiny: Setting) -> None:
    d = scene(tiny, MARKS, 2)
    d.threshold, d.last, d.over = 150, len(d.everything) - 1, 1
    d.settle(d.drawn | {10, 20, 30}, jump=False)
    names = ["over", "count", *(f"drawn[{k}]" for k in range(TINY.room))]
    refused(tiny, d, row_over(tiny.r1cs, *names))


@pytest.mark.parametrize("T", [{10}, {10, 20, 30}])
def test_a_list_that_is_neither_has_k_ids(tiny: Setting, T: set[int]) -> None:
    d = scene(tiny, MARKS, 2)
    d.threshold, d.last = 150 if len(T) == 3 else 151, len(d.everything) - 1
    d.settle(d.drawn | T, jump=False)
    refused(tiny, d, row_over(tiny.r1cs, "short", "over", "total", "k"))


def test_short_and_over_may_be_any_numbers(tiny: Setting) -> None:
    """They add up to 1 or the list has K ids: where neither is 0, both say what they say, and T is the same."""
    for marks, T, right in (({}, set(), True), ({10: 300}, {10}, False), ({10: 300}, set(), False)):
        d = scene(tiny, (marks,), 2)
        d.short, d.over = HALF, HALF
        d.settle(d.drawn | T, jump=False)
        assert tiny.accepts(d) == right


# --- shards ----------------------------------------------------------------------------------------------------------

#: Ties at 150 in two shards: slots 20 and 30 of the first, 5 of the second.
TWO = ({10: 300, 20: 150, 30: 150}, {5: 150, 7: 300})


def test_a_last_winner_in_another_place(tiny: Setting) -> None:
    """The first shard steps at its slot 20, the second one at its slot 5: slot 30 lies between them."""
    d = scene(tiny, TWO, 4)
    d.last = N + 5
    d.settle(d.drawn | {10, 20, N + 5, N + 7})
    one = d.shards[0]
    one.b = [int(i > 20) for i in range(N + 1)]
    for e in one.elements:
        if e.used:
            e.x, e.after = d.x(0, e.slot), one.b[e.slot + 1]
    d.pad(0)
    one.high = [0 if m else d.x(0, i) >> TINY.c for i, m in enumerate(one.members)]
    k = place(d, 20)
    names = [f"behind[{j}]" for j in (k - 1, k) if j >= 0]
    refused(tiny, d, row_over(tiny.r1cs, *names, "shard", f"id[{k}]", "thresholdSlot"))


def test_a_shard_behind_the_last_winner_returns_equal_scores(tiny: Setting) -> None:
    d = scene(tiny, TWO, 4)
    d.last = 20
    d.settle(d.drawn | {10, 20, N + 5, N + 7})
    two = d.shards[1]
    two.past = 0
    for e in two.elements:
        e.x = d.x(1, e.slot) if e.used else d.threshold - 1 - LO
    two.high = [0 if m else d.x(1, i) >> TINY.c for i, m in enumerate(two.members)]
    refused(tiny, d, quotients(tiny, r"limits\.f\[0\]"), 1)


def test_a_shard_before_the_last_winner_withholds_equal_scores(tiny: Setting) -> None:
    d = scene(tiny, ({10: 300, 30: 150}, {5: 150, 7: 300}), 3)
    d.last = N + 5
    d.settle(d.drawn | {10, N + 5, N + 7})
    one = d.shards[0]
    one.past = 1
    for e in one.elements:
        e.x = d.x(0, e.slot) if e.used else d.threshold - LO
    one.high = [0 if m else d.x(0, i) >> TINY.c for i, m in enumerate(one.members)]
    refused(tiny, d, quotients(tiny, r"limits\.f\[0\]"))


def test_a_shard_s_place_is_a_bit(tiny: Setting) -> None:
    """2 before the very next slot: a distance of -3 (-1) - 2, in range, and a threshold two higher."""
    d = scene(tiny, ({10: 300, 59: 150}, {5: 151}), 2)
    d.threshold, d.last = 150, N - 1
    d.settle(d.drawn | {10, N - 1})
    two = d.shards[1]
    two.past = 2
    for e in two.elements:
        e.x = d.x(1, e.slot) if e.used else d.threshold + 1 - LO
    two.high = [0 if m else d.x(1, i) >> TINY.c for i, m in enumerate(two.members)]
    refused(tiny, d, row_over(tiny.r1cs, "past"), 1)


def test_a_list_is_called_short_behind_another_shard_s_last_winner(tiny: Setting) -> None:
    """Of shards alone: a shard behind i* leaves out what scores lo + 1."""
    d = scene(tiny, ({10: LO + 1}, {5: LO + 1, 7: 300}), 8)
    assert d.short
    d.last = 10
    d.settle(d.drawn | {10, N + 7}, jump=False)
    d.last = N - 1
    d.settle(d.drawn | {10, N + 7}, jump=False)
    refused(tiny, d, row_over(tiny.r1cs, "short", "past", f"behind[{TINY.room - 1}]"), 1)
