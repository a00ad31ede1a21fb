# SPDX-License-Identifier: GPL-3.0-or-later
"""The theorems of docs/proofs/until-delivered.md against every adaptive strategy; and wrong mechanisms, each broken."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tests.accounting.until_delivered_brute import (
    D0,
    D,
    Scene,
    coin_a_slot,
    every_query,
    excess,
    log_ratio,
    own_queries,
    per,
    released,
    transcripts,
)

pytestmark = pytest.mark.slow

DRAWN = Fraction(1, 4)
ETA = Fraction(1, 4)
U = math.log(4)
A = 1 / DRAWN  #: of a visible document of one slot
RETURN = float((1 - ETA) * A + ETA)  #: e^R
NEAR = 1e-9

# N, K, queries, scores that a slot may have
CASES = [(3, 1, 4, (0, 2)), (3, 2, 3, (0, 2)), (3, 1, 2, (0, 1, 2)), (4, 2, 2, (0, 2)), (4, 1, 2, (0, 2))]


def mechanism(N: int, K: int, n: int, scores: tuple[int, ...], slot: int, **rest: Any) -> Scene:
    """The mechanism as it is: one secret coin for each slot, of which the coalition knows none."""
    return Scene(DRAWN, K, (slot,), (every_query(N, scores),) * n, ETA, N, coin_a_slot, **rest)


@pytest.mark.parametrize(("N", "K", "n", "scores"), CASES)
def test_nothing_speaks_for_presence_and_absence_grows_by_the_coin_alone(
    N: int, K: int, n: int, scores: tuple[int, ...]
) -> None:
    """Theorems 1 and 2, on transcripts with flags that nothing stops.  The coin's number is attained."""
    for slot in (0, N - 1):
        scene = mechanism(N, K, n, scores, slot)
        assert log_ratio(transcripts(scene, without="handed"), D, D0) <= NEAR
        every = transcripts(scene)
        assert log_ratio(every, D, D0) == math.inf  # the list that hands it over is left out, rightly
        assert U - 0.2 < log_ratio(every, D0, D) <= U + NEAR


@pytest.mark.parametrize(("N", "K", "n", "scores"), [*CASES[1:], (3, 1, 3, (0, 2))])
def test_a_return_is_that_of_one_query_however_many_there_are(N: int, K: int, n: int, scores: tuple[int, ...]) -> None:
    """Theorem 3 without a delta: best strategies by dynamic programming.  R is attained."""
    for slot in (0, N - 1):
        scene = mechanism(N, K, n, scores, slot, stopped=True)
        assert excess(scene, RETURN) <= NEAR
        assert excess(scene, RETURN - 0.1) > 0.001


def test_the_law_of_a_list_by_hand() -> None:
    """Two slots: drawn ones are in every list, and the one that matches is in it unless another takes its place."""
    assert released(DRAWN, (0, 0), 1) == {(): 9 / 16, (0,): 3 / 16, (1,): 3 / 16, (0, 1): 1 / 16}
    assert released(DRAWN, (0, 1), 1) == {(1,): 12 / 16, (0,): 3 / 16, (0, 1): 1 / 16}


# --- wrong mechanisms: each has to break -----------------------------------------------------------------------------

SLOT = (1,)


def scene(kind: str, bits: int, steps: tuple[Any, ...], **rest: Any) -> Scene:
    """Only the document's own coin is open; its neighbours are visible."""
    return Scene(DRAWN, 1, SLOT, steps, ETA, bits, per(kind, SLOT), **rest)


ASK = own_queries(3, 2, SLOT)
ACCOUNTS = tuple(replace(query, account=a) for a in (0, 1, 2) for query in ASK)
BEFORE = tuple(replace(query, before=True) for query in ASK)
ELSEWHERE = ASK + tuple(replace(query, tenant=1) for query in ASK)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        pytest.param(scene("none", 0, (ASK,) * 3), scene("slot", 1, (ASK,) * 3), id="no coin"),
        pytest.param(scene("query", 3, (ASK,) * 3), scene("slot", 1, (ASK,) * 3), id="a coin for each query"),
        pytest.param(scene("account", 3, (ACCOUNTS,) * 3), scene("slot", 1, (ACCOUNTS,) * 3), id="for each account"),
        pytest.param(
            scene("slot", 1, (BEFORE, ASK, ASK, ASK)),
            scene("content", 2, (BEFORE, ASK, ASK, ASK)),
            id="the predecessor's coin",
        ),
        pytest.param(
            scene("slot", 1, (ELSEWHERE,) * 4), scene("tenant", 2, (ELSEWHERE,) * 4), id="one coin key for two tenants"
        ),
    ],
)
def test_other_coins_do_not_bound_absence(wrong: Scene, right: Scene) -> None:
    assert U - 0.2 < log_ratio(transcripts(right), D0, D) <= U + NEAR
    assert log_ratio(transcripts(wrong), D0, D) > U + 0.3


def test_two_coin_periods_cost_the_coin_twice() -> None:
    """Two queries in each of two windows with a coin each."""
    twice = log_ratio(transcripts(scene("window", 2, (ASK,) * 4)), D0, D)
    assert U + 0.3 < twice <= 2 * U + NEAR


@pytest.mark.parametrize(("N", "K", "n"), [(3, 2, 3), (4, 2, 2)])
def test_two_slots_of_a_document_cost_the_coin_and_the_return_twice(N: int, K: int, n: int) -> None:
    """WRONG: U for coins apart, and R for a list with both.  RIGHT: 2 U, 2 R."""
    both = (0, 1)
    asks = (every_query(N, (0, 2)),) * n
    apart = Scene(DRAWN, K, both, asks, ETA, N, coin_a_slot)
    assert U + 0.3 < log_ratio(transcripts(apart), D0, D) <= 2 * U + NEAR
    assert log_ratio(transcripts(apart, without="handed"), D, D0) <= NEAR
    stopped = replace(apart, stopped=True)
    assert excess(stopped, RETURN) > 0.1
    assert excess(stopped, RETURN**2) <= NEAR


def test_a_transcript_that_goes_on_after_the_return_is_not_bounded() -> None:
    """Not even where lists show ids alone: every further return counts."""
    steps = (own_queries(3, 2, SLOT),) * 4
    stopped = Scene(DRAWN, 1, SLOT, steps, ETA, 1, per("slot", SLOT), stopped=True)
    on = replace(stopped, stopped=False, drop_flags=True)
    assert log_ratio(transcripts(stopped), D, D0) <= math.log(RETURN) + NEAR
    assert log_ratio(transcripts(on), D, D0) > math.log(RETURN) + 2
    assert excess(on, RETURN) > 0.1
    assert log_ratio(transcripts(replace(on, drop_flags=False)), D, D0) == math.inf


def test_a_flag_on_a_chance_return_gives_presence_away() -> None:
    """A query at which the document scores at or below lo stops nothing, so its flag has to be 0 there."""
    right = mechanism(3, 1, 2, (0, 2), 1, stopped=True)
    wrong = replace(right, flag_presence=True)
    assert log_ratio(transcripts(right), D, D0) <= math.log(RETURN) + NEAR
    assert log_ratio(transcripts(wrong), D, D0) == math.inf
    assert excess(wrong, 1e6) > 0.1


def test_a_document_that_is_withheld_from_its_list_shows_itself() -> None:
    """A guard after the selection leaves a gap that an index without the document does not have."""
    right = mechanism(3, 1, 2, (0, 2), 1)
    assert log_ratio(transcripts(right, without="handed"), D, D0) <= NEAR
    assert log_ratio(transcripts(replace(right, withhold=True), without="handed"), D, D0) > 0.3
