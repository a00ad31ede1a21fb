# SPDX-License-Identifier: GPL-3.0-or-later
"""Coins and the thinning's statement against the same computed apart, and what their messages refuse."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.kernel import coin
from ragseal.kernel.beacon import Seat
from ragseal.kernel.coin import coin_commitment, coin_context, coins, hidden_slots
from ragseal.kernel.coin_period import check_continues, same_coins
from ragseal.kernel.coin_proof import Coined, CoinPoints, CoinProof
from ragseal.kernel.commitment import IndexFile, Manifest, ThinnedIndex, Thinning
from ragseal.kernel.errors import AuditError, CommitmentError, EncodingError, PolicyError, ProofError, UnprovableError
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import COIN_BITS, R
from ragseal.kernel.thinning import (
    ThinnedFile,
    ThinnedShard,
    ThinningStatement,
    check_keys,
    verify_thinning,
)
from ragseal.kernel.thinning_class import LIMIT, PAIRS, TOP_CHUNKS, TOPS, ThinningClass, thinning_class
from tests import apart
from tests.apart import be, canonical, element, h
from tests.simulator.coined import CoinedWorld

SEED, CONTEXT = (3, 5), 7
POINTS = [apart.generator(b"thinning", j) for j in range(4)]
NORTH = ThinnedIndex("north", b"c" * 32, b"o" * 32, b"p" * 32)
OPENING = Opening((POINTS[0],), (POINTS[1],), (1, 2))
HELD = CoinPoints(tuple(POINTS[:2]), tuple(POINTS[1:3]), tuple(POINTS[2:]), POINTS[3])
SHOWN = CoinProof(HELD, b"q" * 256, replace(OPENING, responses=(3,)), OPENING)
SHARD = ThinnedShard(POINTS[2], SHOWN)
FILE = ThinnedFile(POINTS[0] + POINTS[1], OPENING, (SHARD,))


def statement(**changes: object) -> ThinningStatement:
    values = {
        "thinning_key": b"t" * 32, "attestation_key": b"a" * 32, "manifest": b"m" * 32, "c_coin": 11, "context": 12,
        "hidden": 13, "placed": POINTS[0] + POINTS[1], "thinned": POINTS[2] + POINTS[3],
    }  # fmt: skip
    return ThinningStatement(**{**values, **changes})  # type: ignore[arg-type]


# --- coins -----------------------------------------------------------------------------------------------------------


def test_coins_apart() -> None:
    """26 of 8 bits an element, 16 elements a permutation, two permutations."""
    key = apart.poseidon(7, *SEED, CONTEXT)
    blocks = [apart.permuted([0, key, k + 8 * 2**32] + [0] * 14)[1:] for k in range(2)]
    drawn = [x >> 8 * k & 255 for x in (*blocks[0], *blocks[1]) for k in range(26)]
    assert coins(SEED, CONTEXT, 430) == drawn[:430]
    assert coins(SEED, CONTEXT, 1) == drawn[:1]
    for hidden in (1, 100, 255):
        assert hidden_slots(SEED, CONTEXT, 60, hidden) == [x < hidden for x in drawn[:60]]
    assert coin_commitment(SEED) == apart.poseidon(6, *SEED)
    assert (COIN_BITS, coin.COINS_PER_ELEMENT, coin.TOP_POSITION) == (8, 26, 208)


def test_context_apart() -> None:
    for shard in (0, 1, 258):
        want = element("coin-context", b"m" * 32, be(9), "nord-süd".encode(), be(shard, 2))
        assert coin_context(b"m" * 32, 9, "nord-süd", shard) == want
    assert coin_context(b"m" * 32, 9, "nord-süd") == coin_context(b"m" * 32, 9, "nord-süd", 0)


def test_seeds_and_contexts_have_coins_of_their_own() -> None:
    drawn = {tuple(coins(seed, ctx, 52)) for seed in (SEED, SEED[::-1], (3, 6)) for ctx in (CONTEXT, 8)}
    assert len(drawn) == 6


def test_hidden_shares_are_what_they_say() -> None:
    """5,184 coins of one seed: within five standard deviations at every share tried."""
    drawn = coins(SEED, CONTEXT, 5184)
    for hidden in (1, 13, 64, 255):
        p = hidden / 256
        assert abs(sum(x < hidden for x in drawn) - 5184 * p) < 5 * (5184 * p * (1 - p)) ** 0.5


@pytest.mark.parametrize("at", [0, 1])
def test_an_element_with_the_modulus_own_top(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the last element too, although it has one slot only."""
    limit = R >> 208

    def held(top: int) -> list[int]:
        drawn = [5 << 208, 6 << 208]
        drawn[at] = top << 208 | 77
        monkeypatch.setattr(coin, "coin_elements", lambda *_: drawn)
        return coins(SEED, CONTEXT, 27)

    assert held(limit - 1)[26 * at] == 77
    with pytest.raises(UnprovableError, match="cannot be thinned"):
        held(limit)


# --- the statement ---------------------------------------------------------------------------------------------------


def test_weights_apart() -> None:
    one = statement()
    parts = (b"t" * 32, b"a" * 32, b"m" * 32, be(11) + be(12) + be(13), POINTS[0] + POINTS[1], POINTS[2] + POINTS[3])
    assert one.digest == h("thinning-statement", *parts)
    assert one.weights() == [element("thinning-weight", one.digest, be(j, 4)) for j in range(2)]
    assert one.dimension == 2


def coined(name: str = "thinning", sides: int = 2) -> Coined:
    bases = SimpleNamespace(y=b"", b=b"")
    made: Any = tuple((bases, POINTS[k]) for k in range(sides))
    return Coined(name, statement(), SimpleNamespace(cls=thinning_class(4)), made)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["thinning", "emptied"])
def test_challenges_apart(name: str) -> None:
    """They hash the statement, the commitments to w' and all that is committed to about coins."""
    one = coined(name)
    parts = statement().digest, POINTS[0] + POINTS[1], canonical(HELD)
    alpha, beta = element(f"{name}-alpha", *parts), element(f"{name}-beta", *parts)
    assert one.challenges(HELD) == (alpha, beta)
    assert one.clear(HELD) == [11, 12, alpha, beta]
    assert one.context(HELD, b"proof") == h(f"{name}-link", *parts, b"proof")


@pytest.mark.parametrize("name", ["products", "hides", "coins"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_coins_are_committed_under_every_keys_points(name: str, count: int) -> None:
    assert coined().commitments(HELD)[0] == ((POINTS[0], POINTS[1]), HELD.products, HELD.hides, HELD.coins)
    with pytest.raises(ProofError, match="each over 2 keys' points"):
        coined().commitments(replace(HELD, **{name: tuple(POINTS[:count])}))  # type: ignore[arg-type]


def test_tops_are_all_numbers_below_the_limit() -> None:
    """Each start has 2^40 of them, without a gap, from 0 to the modulus' own top."""
    assert (LIMIT, TOP_CHUNKS, PAIRS) == (R >> 208, 5, 256)
    assert TOPS[0] == 0
    assert all(a < b <= a + (1 << 40) for a, b in itertools.pairwise(TOPS))
    assert TOPS[-1] + (1 << 40) == LIMIT
    assert LIMIT << 208 <= R


def test_a_weight_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragseal.kernel.transcript.tagged_element", lambda *_: 0)
    with pytest.raises(ProofError, match="zero"):
        statement().weights()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"hidden": 0}, "a slot is hidden"),
        ({"hidden": 256}, "a slot is hidden"),
        ({"hidden": -1}, "a slot is hidden"),
        ({"placed": b"", "thinned": b""}, "malformed"),
        ({"placed": POINTS[0][1:], "thinned": POINTS[0][1:]}, "malformed"),
        ({"placed": bytes(64 * 4097), "thinned": bytes(64 * 4097)}, "malformed"),
        ({"thinned": POINTS[2]}, "bytes of thinned columns"),
        ({"thinned": b"".join(POINTS)}, "bytes of thinned columns"),
    ],
)
def test_statements_that_are_none(changes: dict[str, object], match: str) -> None:
    with pytest.raises(CommitmentError, match=match):
        statement(**changes)


@pytest.mark.parametrize("count", [0, 2])
def test_a_file_thins_every_shard_and_no_other(count: int) -> None:
    """Before anything is computed: neither group nor keys are looked at."""
    with pytest.raises(CommitmentError, match=f"thins {count} shards, not 1"):
        verify_thinning(None, [statement()], None, None, replace(FILE, shards=(SHARD,) * count))  # type: ignore[arg-type]


def test_keys_are_the_statements_own_and_of_one_capacity() -> None:
    key, bases = SimpleNamespace(digest=b"t" * 32, cls=thinning_class(4)), SimpleNamespace(capacity=4)
    check_keys(b"t" * 32, key, bases)  # type: ignore[arg-type]
    with pytest.raises(CommitmentError, match="names another thinning key"):
        check_keys(b"u" * 32, key, bases)  # type: ignore[arg-type]
    with pytest.raises(CommitmentError, match="of 4 slots for an attestation key of 5"):
        check_keys(b"t" * 32, key, SimpleNamespace(capacity=5))  # type: ignore[arg-type]


def test_a_file_is_of_the_thinned_columns_that_the_statements_are_about() -> None:
    key, bases = SimpleNamespace(digest=b"t" * 32, cls=thinning_class(4)), SimpleNamespace(capacity=4)
    with pytest.raises(CommitmentError, match="about other thinned columns than the file's"):
        verify_thinning(None, [statement()], key, bases, FILE)  # type: ignore[arg-type]


def test_numbers_that_are_no_elements() -> None:
    with pytest.raises(EncodingError):
        _ = statement(context=R).digest


# --- messages --------------------------------------------------------------------------------------------------------


def test_digests_of_a_file() -> None:
    assert FILE.index == IndexFile(FILE.columns, FILE.opening)
    assert FILE.columns_digest() == h("columns", FILE.columns)
    assert FILE.opening_digest() == h("columns-opening", canonical(FILE.opening))
    assert FILE.proof_digest() == h("thinning-proof", canonical(SHARD))
    assert replace(FILE, shards=(SHARD, SHARD)).proof_digest() == h(
        "thinning-proof", canonical(SHARD), canonical(SHARD)
    )
    assert FILE.entry("north") == ThinnedIndex(
        "north", FILE.columns_digest(), FILE.opening_digest(), FILE.proof_digest()
    )
    assert FILE.encode() == canonical(FILE)
    assert ThinnedFile.decode(FILE.encode()) == FILE


def test_every_part_of_a_file_is_in_its_entry() -> None:
    changed = [
        replace(FILE, columns=FILE.columns[::-1]),
        replace(FILE, opening=SHOWN.slots),
        *(
            replace(FILE, shards=(replace(SHARD, **change),))  # type: ignore[arg-type]
            for change in (
                {"scores": POINTS[3]},
                {"shown": replace(SHOWN, points=replace(HELD, hints=POINTS[0]))},
                {"shown": replace(SHOWN, proof=b"r" * 256)},
                {"shown": replace(SHOWN, slots=OPENING)},
                {"shown": replace(SHOWN, hints=SHOWN.slots)},
            )
        ),
        replace(FILE, shards=(SHARD, SHARD)),
    ]
    assert len({one.entry("north") for one in (FILE, *changed)}) == 9


def test_tenants_of_a_thinning() -> None:
    south = replace(NORTH, tenant="south")
    both = Thinning(b"m" * 32, (NORTH, south))
    assert Thinning.decode(both.encode()) == both
    assert both.encode() == canonical(both)
    for tenants in ((), (south, NORTH), (NORTH, NORTH)):
        with pytest.raises(CommitmentError, match="distinct and sorted, at least one"):
            Thinning.decode(Thinning(b"m" * 32, tenants).encode())


def test_files_cut_anywhere() -> None:
    data, rng = FILE.encode(), random.Random(1)
    for cut in rng.sample(range(len(data)), 40):
        with pytest.raises(AuditError):
            ThinnedFile.decode(data[:cut])


def test_classes() -> None:
    cls = thinning_class(5184)
    assert (cls.name, cls.clear, cls.blind_at, cls.placed_at, cls.mixed_at, cls.hints_at, cls.elements) == (
        "thinning-5184", 4, 4, 5, 5189, 10373, 200,
    )  # fmt: skip
    assert cls.bytes == 5 * 200 + 26 * 200 - 5184
    assert cls.plain_hints == 200 + cls.bytes + 49 + 256
    assert (cls.hints, cls.pairs_at, cls.public) == (
        cls.plain_hints + 256, 10373 + cls.plain_hints, 10373 + cls.plain_hints + 512,
    )  # fmt: skip
    for name, capacity in (("thinning-5", 6), ("thinning-0", 0), ("thinning-2147483648", 1 << 31), ("base", 5184)):
        with pytest.raises(PolicyError, match="a class of"):
            ThinningClass(name, capacity)


# Which coins a window may carry on, each rule alone: every other rule holds in each case. SPEC A.11.


@pytest.fixture(scope="module")
def first() -> Manifest:
    """It threw the coins; its tenants are north and south."""
    world = CoinedWorld()
    world.commit("w0")
    return world.manifest


def second(first: Manifest, **changes: Any) -> Manifest:
    """The next window on the same coins; ``changes`` of its policy or of itself."""
    of_policy = {name: value for name, value in changes.items() if name in type(first.policy).__slots__}
    of_itself = {name: value for name, value in changes.items() if name not in of_policy}
    carried = replace(first.coin, thrown_by=(first.digest(),))
    made = replace(first, window="w1", policy=replace(first.policy, **of_policy), coins=(carried,))
    return replace(made, **of_itself)


@pytest.mark.slow
def test_the_next_window_and_one_of_fewer_tenants_carry_coins_on(first: Manifest) -> None:
    assert [one.tenant for one in first.tenants] == ["north", "south"]
    check_continues(second(first), first)
    check_continues(second(first, tenants=first.tenants[:1]), first)
    check_continues(second(first, gain=first.policy.gain + 1), first)


@pytest.mark.slow
def test_an_auditor_more_or_less_takes_new_coins(first: Manifest) -> None:
    """Whether it comes or leaves: the coins rest on the nonces of those who were there."""
    other = Seat("auditor-b", b"b" * 32)
    more = (*first.auditors, other)
    for before, after in ((first.auditors, more), (more, first.auditors), (first.auditors, (other,))):
        with pytest.raises(CommitmentError, match="a new auditor takes new coins"):
            check_continues(second(first, auditors=after), replace(first, auditors=before))


@pytest.mark.slow
def test_a_tenant_that_had_no_part_takes_new_coins(first: Manifest) -> None:
    west = replace(first.tenants[1], tenant="west")
    for tenants in ((*first.tenants, west), (first.tenants[0], west)):
        with pytest.raises(CommitmentError, match="and 'west' had no part"):
            check_continues(second(first, tenants=tenants), first)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"coins": ()}, "one of the two windows has no coin"),
        ({"origin": "other.example/log"}, "another ledger or provider"),
        ({"log": b"l" * 32}, "another ledger or provider"),
        ({"provider_key": b"p" * 32}, "another ledger or provider"),
        ({"hidden": 14}, "which slots lie between"),
        ({"shards": 2, "class_digest": b"c" * 32}, "are of other shards"),
        ({"period_start": 1}, "only where it is counted"),
    ],
)
def test_what_may_not_be_carried_on(first: Manifest, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CommitmentError, match=words):
        check_continues(second(first, **changes), first)


@pytest.mark.slow
def test_coins_are_those_of_the_first(first: Manifest) -> None:
    carried = second(first)
    other = replace(carried, coins=(replace(carried.coin, c_coin=carried.coin.c_coin + 1),))
    with pytest.raises(CommitmentError, match="with another C_coin"):
        check_continues(other, first)
    with pytest.raises(CommitmentError, match="one of the two windows has no coin"):
        check_continues(carried, replace(first, coins=()))


@pytest.mark.slow
def test_shards_are_as_large_where_there_are_several(first: Manifest) -> None:
    one = first.policy
    assert same_coins(one, replace(one, class_digest=b"c" * 32))
    assert same_coins(replace(one, shards=2), replace(one, shards=3))
    assert not same_coins(replace(one, shards=2), replace(one, class_digest=b"c" * 32))
    assert not same_coins(replace(one, shards=2), replace(one, shards=2, class_digest=b"c" * 32))
