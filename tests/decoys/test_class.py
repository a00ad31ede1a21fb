# SPDX-License-Identifier: GPL-3.0-or-later
"""Classes of decoys: their parameters, what fits them, and what the selection refuses."""

from __future__ import annotations

import dataclasses
import itertools
import random
from fractions import Fraction

import pytest

from ragseal.circuits.circuit import load_classes
from ragseal.kernel.attestation import Openings, SlotOpening
from ragseal.kernel.decoys import law
from ragseal.kernel.decoys.bounds import set_masses, size_law, visible_ratio
from ragseal.kernel.decoys.decoys_class import DecoysClass, check_scores
from ragseal.kernel.decoys.law import read_draws, select
from ragseal.kernel.decoys.table import build_table
from ragseal.kernel.errors import AttestationError, PolicyError, UnprovableError
from ragseal.kernel.params import R
from ragseal.prover.attestation.retrieval import QuerySecrets

TINY = DecoysClass("tiny", N=60, draws=14, room=12, c=8, chunks=2, S=3)
TABLE = build_table(6, 1 << 16, 14)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"N": 1, "room": 1}, "2 slots"),
        ({"S": 0}, "1 <= S"),
        ({"S": 65}, "1 <= S"),
        ({"N": 1 << 30}, "below|2\\^31"),
        ({"draws": 0}, "needs a draw"),
        ({"room": 0}, "room for 1 to N"),
        ({"room": 61}, "room for 1 to N"),
        ({"N": 1 << 16, "room": 1 << 15, "S": 5}, "131072 ids at most"),
        ({"c": 1}, "2 <= c"),
        ({"c": 19}, "2 <= c"),
        ({"chunks": 3}, "1 or 2 chunks"),
        ({"N": (1 << 24) + 1, "S": 1}, "24 bits"),
    ],
)
def test_a_class_that_contradicts_itself_is_refused(change: dict[str, int], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        dataclasses.replace(TINY, **change)


def test_a_class_is_read_as_it_was_written() -> None:
    assert DecoysClass.from_mapping(TINY.to_mapping()) == TINY
    with pytest.raises(PolicyError, match="unknown or missing"):
        DecoysClass.from_mapping({**TINY.to_mapping(), "K": 3})
    with pytest.raises(PolicyError, match="law must be"):
        DecoysClass.from_mapping({**TINY.to_mapping(), "law": "raffle"})


def test_the_longest_list_of_every_class_is_kept_and_sent() -> None:
    """One that a message cannot hold would be refused, and how long a list is depends on scores."""
    most = max(cls.most_ids(cls.S) for cls in load_classes().values())
    sent = Openings(1, tuple(SlotOpening(i, False, ()) for i in range(most)))
    assert Openings.decode(sent.encode()) == sent
    kept = QuerySecrets(b"", 1, 1, 1, 1, tuple(range(most)), bytes(64), (1,))
    assert QuerySecrets.decode(kept.encode()) == kept


def test_scores_of_384_dimensions_take_16_bits() -> None:
    """X spans 33,324, and 45,135 with rights: a class of 15 bits refuses the policy."""
    one = DecoysClass("one", N=60, draws=14, room=12, c=16, chunks=1)
    for least in (-16_662, -28_473):
        for cls in (one, dataclasses.replace(one, c=8, chunks=2)):
            check_scores(cls, 4_850, least, 16_661)
        with pytest.raises(PolicyError, match="15 bits"):
            check_scores(dataclasses.replace(one, c=15), 4_850, least, 16_661)
    check_scores(one, 0, 0, (1 << 16) - 2)
    for lo, least, most in ((0, 0, (1 << 16) - 1), ((1 << 16) - 1, 0, 5), (0, -1, (1 << 16) - 2)):
        with pytest.raises(PolicyError, match="do not fit"):
            check_scores(one, lo, least, most)
    for lo, least, most in ((-1, 0, 5), (0, 1, 5), (0, -5, -1)):
        with pytest.raises(PolicyError, match="empty slot"):
            check_scores(one, lo, least, most)


def test_what_does_not_fit_a_class_is_not_selected() -> None:
    y = [[0] * 60]
    for scores, lo, why in (([[0] * 59], 0, "1 to 3 shards"), (y * 4, 0, "1 to 3 shards"), (y, -1, "lo is 0")):
        with pytest.raises(AttestationError, match=why):
            select(TINY, TABLE, 1, scores, lo, 3)
    for table, K in ((TABLE, 0), (TABLE, 13), (build_table(7, 1 << 16, 14), 3)):
        with pytest.raises(PolicyError, match="takes 1 to 12 ids a shard"):
            select(TINY, table, 1, y, 0, K)
    with pytest.raises(PolicyError, match="larger class"):
        select(TINY, build_table(6, 1 << 16, 15), 1, y, 0, 3)


def test_a_list_is_no_longer_than_k_or_what_is_drawn_but_once_in_2_to_64() -> None:
    """By the law of one shard, three times; room would let a list have 36 ids."""
    wide, rate = dataclasses.replace(TINY, draws=40), 1 << 15
    table = wide.table(rate)
    one = size_law(table, 60, table.draws)
    every = {0: Fraction(1)}
    for _ in range(3):
        more: dict[int, Fraction] = {}
        for (k, p), (more_k, q) in itertools.product(every.items(), enumerate(one)):
            more[k + more_k] = more.get(k + more_k, Fraction(0)) + p * q
        every = more
    most = wide.most_listed(3, 3, rate)
    beyond = [sum(p for k, p in every.items() if k > size) for size in (most, most - 1)]
    assert beyond[0] <= Fraction(1, 1 << 64) < beyond[1]
    assert 12 < most < wide.most_ids(3) == 36
    assert wide.most_listed(30, 3, rate) == 30
    assert wide.most_listed(3, 3, 0) == 3


def test_a_query_that_draws_more_than_a_list_may_have_is_refused_whatever_its_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a draw does not come (2^-64): the longest list is made short instead."""
    rng = random.Random(1)
    for key in range(20):
        scores = [[rng.randrange(9) for _ in range(60)] for _ in range(3)]
        total = sum(map(len, select(TINY, TABLE, key, [[0] * 60] * 3, 0, 1).returned))
        for y in (scores, [[0] * 60] * 3):
            monkeypatch.setattr(law, "most_listed", lambda *_, most=total: max(1, most))
            select(TINY, TABLE, key, y, 0, 1)
            if total > 1:
                monkeypatch.setattr(law, "most_listed", lambda *_, most=total: most - 1)
                with pytest.raises(UnprovableError, match="more is drawn than a list may have"):
                    select(TINY, TABLE, key, y, 0, 1)
            monkeypatch.undo()


def test_an_output_with_the_modulus_own_top_is_refused() -> None:
    outputs = [R - 1] * TINY.elements
    with pytest.raises(UnprovableError, match="canonical"):
        read_draws(TINY, TABLE, outputs)
    assert read_draws(TINY, TABLE, [0] * TINY.elements).slots(60) == ((0,) if TABLE.number(0) else ())


def test_numbers_out_of_range_have_no_bound() -> None:
    for N, most in ((0, 0), (65, 1), (3, 4)):
        with pytest.raises(PolicyError, match="slots, and sets"):
            set_masses(TABLE, N, most)
    for K, m in ((0, 1), (3, 0), (3, 61)):
        with pytest.raises(PolicyError, match="a list has an id"):
            visible_ratio(TABLE, 60, K, m)
    for L, rate in ((0, 5), (25, 5), (6, -1), (6, 1 << 40)):
        with pytest.raises(PolicyError, match="a table of draws needs"):
            build_table(L, rate)
