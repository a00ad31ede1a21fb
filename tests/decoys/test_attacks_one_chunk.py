# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats where a distance has one chunk and every id is a slot; and every list that a prover may claim, one by one."""

from __future__ import annotations

import itertools

import pytest

from tests.circuits.rules import fractions
from tests.decoys.drafts import FULL, LO, TINY, Draft, Setting, refused, row_over, scene

pytestmark = pytest.mark.slow

MARKS = ({10: 300, 20: 150, 30: 150, 40: 140, 50: 50},)


@pytest.fixture(scope="module")
def full() -> Setting:
    return Setting(FULL)


@pytest.fixture(scope="module")
def tiny() -> Setting:
    return Setting(TINY)


def test_a_slot_that_matches_is_withheld(full: Setting) -> None:
    d = scene(full, MARKS, 8)
    assert d.short
    d.settle(d.drawn | {10, 20, 40}, jump=False)
    refused(full, d, fractions(full.r1cs, r"slots\.f\[30\]"))


def test_a_slot_is_too_low_for_its_chunk(full: Setting) -> None:
    """Else X + 2^c would be as good as X, and a winner's distance that of a loser."""
    d = scene(full, MARKS, 2)
    d.shards[0].y[50] = d.threshold - 1 - FULL.reach
    d.settle(d.drawn | {10, 20})
    refused(full, d, fractions(full.r1cs, r"slots\.f\[50\]"))


def test_a_decoy_is_withheld(full: Setting) -> None:
    d = scene(full, MARKS, 2)
    own = d.ids[0]
    j = next(j for j, i in enumerate(own) if own.count(i) == 1)
    d.threshold, d.last = 150, len(d.everything) - 1
    d.settle((d.drawn | {10, 20, 30}) - {own[j]}, jump=False)
    refused(full, d, fractions(full.r1cs, rf"draw\[{j}\]\.fDraw"))


def test_a_list_s_length_is_the_number_of_its_elements(full: Setting) -> None:
    """One id less than K, and a length of K: in C_n, C_v and the list's commitment."""
    d = scene(full, MARKS, 2)
    d.threshold, d.last = 151, len(d.everything) - 1
    d.settle(d.drawn | {10}, jump=False)
    d.total = d.shards[0].length = d.K
    names = ["count", *(f"used[{k}]" for k in range(FULL.room))]
    refused(full, d, row_over(full.r1cs, *names))


def test_a_list_s_commitment_is_to_its_length(full: Setting) -> None:
    """Packed ids alone are those of a list with slot 0 and no flag besides (broken before)."""
    d = scene(full, ({},), 2)
    d.shards[0].packed = [one.packed for one in d.returned(0)]
    assert full.accepts(d)
    other = d.hashed(d.shards[0].packed, d.total + 1)
    inputs = d.inputs()
    wire = full.r1cs.wire_of["t_commit"]
    assert inputs[wire] != other
    inputs[wire] = other
    assert full.r1cs.violations(full.r1cs.solve(inputs))


def lists(d: Draft, marked: set[int]) -> list[set[int]]:
    """All lists of what was drawn or not, and any marked slots."""
    ids = sorted(marked | d.drawn)
    return [set(one) for size in range(len(ids) + 1) for one in itertools.combinations(ids, size)]


@pytest.mark.parametrize(
    ("marks", "results", "rate"),
    [
        (({20: LO + 2, 30: LO + 2},), 1, 1 << 16),  # a tie at the end
        (({20: LO + 1, 30: LO},), 2, 1 << 16),  # short, and a slot at lo
        (({20: LO + 1},), -1, 1 << 16),  # decoys alone
        (({20: LO + 2}, {5: LO + 2}), 1, 1 << 16),  # a tie of two shards
        (({20: LO + 1}, {5: LO + 2}), 3, 1 << 16),  # short, in two shards
        (({20: LO + 2, 30: LO + 2},), 1, 0),  # without decoys: a tie at the end
        (({10: LO + 1, 20: LO + 2, 30: LO},), 1, 0),  # the best is not the first
        (({20: LO + 1, 30: LO},), 2, 0),  # short
        (({20: LO + 2}, {5: LO + 2}), 1, 0),  # a tie of two shards
    ],
)
def test_no_other_list_is_accepted_whatever_threshold_is_said(
    tiny: Setting, marks: tuple[dict[int, int], ...], results: int, rate: int
) -> None:
    """Every set of slots, threshold, last winner, step, short and over: what all shards accept is T.

    With a rate of 0 nothing is drawn, and T is the best K.
    """
    d = scene(tiny, marks, results if results > 0 else 1, rate, least=int(rate > 0))
    assert rate or not d.drawn
    if results < 0:
        d.K = max(1, len(d.drawn) - 1)
        d.choose()
        assert d.over or len(d.drawn) == d.K
    right = {h * TINY.N + one.slot for h in range(len(d.shards)) for one in d.returned(h)}
    marked = {h * TINY.N + i for h, own in enumerate(marks) for i in own}
    ends = sorted({*marked, len(d.everything) - 1})
    accepted = tried = 0
    for T in lists(d, marked):
        if abs(len(T) - len(right)) > 1:
            continue
        for threshold, last, jump in itertools.product((LO, LO + 1, LO + 2, LO + 3), ends, (True, False)):
            if jump and last not in T:
                continue
            for short, over in ((0, 0), (1, 0), (0, 1)):
                if not short and not over and len(T) != d.K:
                    continue  # test_a_list_that_is_neither_has_k_ids
                d.threshold, d.last, d.short, d.over = threshold, last, short, over
                d.settle(T, jump)
                tried += 1
                if all(tiny.accepts(d, h) for h in range(len(d.shards))):
                    assert right == T
                    accepted += 1
    assert 0 < accepted < tried
