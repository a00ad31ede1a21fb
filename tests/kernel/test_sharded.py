# SPDX-License-Identifier: GPL-3.0-or-later
"""Selection over several shards: the top K of all slots' exact noise, wherever they lie.  docs/proofs/shards.md."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from ragseal.circuits.circuit import load_classes, load_sharded_classes
from ragseal.circuits.search import complete_sharded
from ragseal.kernel import overflow
from ragseal.kernel.classes import attestation_class
from ragseal.kernel.errors import AttestationError, PolicyError, ProofError, UnprovableError
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.params import GRID_EXPONENT, OVERFLOW_EXPONENT, TAG_COARSE, TAG_FINE
from ragseal.kernel.policy import ANSWERS, check_shards
from ragseal.kernel.proofs import Statement, challenges
from ragseal.kernel.ranked_class import RankedClass
from ragseal.kernel.ranked_hints import ranked_hints
from ragseal.kernel.ranked_mechanism import at_threshold, clipped, digit, open_places, select_ranked, wide_elements
from ragseal.kernel.sharded_class import ShardedClass, shards_overflow_bound, shards_overflow_bound_holds
from ragseal.kernel.sharded_hints import sharded_hints
from ragseal.kernel.sharded_mechanism import select_sharded
from ragseal.kernel.sharded_statement import ShardedLayout, shard_statements
from ragseal.prover.provider.assembly import circuit_class
from tests import simulator
from tests.circuits.sharded_scene import STEPS, scores_of, sharded_tiny

CLASSES = load_sharded_classes()
KEY = noise_key((3, 4), 5, 6)


@pytest.fixture(scope="module")
def tiny() -> ShardedClass:
    return sharded_tiny()


def exact_noise(cls: ShardedClass, w: list[list[int]], shard: int, rng: random.Random) -> list[int]:
    """v of every slot of a shard: places have their rank's fine bits, others any."""
    opened = open_places(cls, KEY, w[shard], STEPS, shard)
    fine = {p.slot: p.fine for p in opened.places}
    out = []
    for i, u in enumerate(opened.coarse):
        low = fine.get(i, rng.getrandbits(cls.fine_bits))
        out.append(clipped(digit(cls, w[shard][i]), STEPS) + cls.table.inverse((u << cls.fine_bits) | low))
    return out


SCORES: dict[str, Callable[[random.Random, int], int]] = {
    "random": lambda rng, shard: rng.randrange(-900, 300),
    "equal": lambda rng, shard: 7,
    "all winners in one shard": lambda rng, shard: 128 if shard == 2 else -1000,
    "empty": lambda rng, shard: -900,
    "ties at the top": lambda rng, shard: rng.choice((200, -900)),
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("shards", [1, 4])
def test_t_is_the_top_k_of_all_slots_exact_noise(tiny: ShardedClass, kind: str, shards: int) -> None:
    rng = random.Random(kind)
    w = [scores_of(tiny, [SCORES[kind](rng, s) for _ in range(tiny.N)], rng) for s in range(shards)]
    chosen = select_sharded(tiny, KEY, w, STEPS)
    values = [(v, -(s * tiny.N + i)) for s in range(shards) for i, v in enumerate(exact_noise(tiny, w, s, rng))]
    best = sorted(values, reverse=True)[: tiny.K]
    assert list(chosen.ids) == sorted(-i for _, i in best)
    assert (chosen.threshold, -chosen.threshold_slot) == best[-1]
    assert [one.flag for one in chosen.returned] == [w[i // tiny.N][i % tiny.N] >> tiny.c >= 1 for i in chosen.ids]
    if kind == "all winners in one shard" and shards == 4:
        assert [len(one.ids) for one in chosen.shards] == [0, 0, tiny.K, 0]


def test_one_shard_is_the_ranked_mechanism(tiny: ShardedClass) -> None:
    """Shard 0's noise is that of an index without shards, and so are its places, threshold and hints of places."""
    values = {f.name: getattr(tiny, f.name) for f in dataclasses.fields(RankedClass)}
    whole, w = RankedClass(**values), scores_of(tiny, [i - 60 for i in range(tiny.N)], random.Random(1))
    one, all_ = select_ranked(whole, KEY, w, STEPS), select_sharded(tiny, KEY, [w], STEPS)
    assert dataclasses.replace(all_.shards[0], theta=one.theta) == one
    assert len(ranked_hints(whole, one, w, STEPS)) != len(sharded_hints(tiny, all_, 0, w, STEPS))


def test_no_two_shards_share_an_element(tiny: ShardedClass) -> None:
    seen: set[int] = set()
    for shard in range(5):
        for tag in (TAG_COARSE, TAG_FINE):
            seen |= set(wide_elements(KEY, tag, 40, shard))
    assert len(seen) == 5 * 2 * 40


def test_a_shard_that_overflows_refuses_the_query(tiny: ShardedClass) -> None:
    """Its own entry lies above the threshold of all: slots that are no places could win."""
    w = [[0] * tiny.N, [-2000 << tiny.c] * tiny.N]
    crowded = dataclasses.replace(tiny, K=4, R=6)
    with pytest.raises(UnprovableError, match="could win"):
        select_sharded(crowded, noise_key((574, 1), 2, 3), w, STEPS)  # about one request in a hundred does
    opened = open_places(tiny, KEY, w[0], STEPS)
    assert at_threshold(tiny, opened, opened.entry, 0).threshold == opened.entry
    with pytest.raises(UnprovableError, match="could win"):
        at_threshold(tiny, opened, opened.entry - 1, 0)


@pytest.mark.parametrize("shards", [0, 65])
def test_a_number_of_shards_that_the_class_has_not_is_refused(tiny: ShardedClass, shards: int) -> None:
    with pytest.raises(AttestationError, match="has 1 to 64"):
        select_sharded(tiny, KEY, [[0] * tiny.N] * shards, STEPS)
    with pytest.raises(ProofError, match="has 1 to 64"):
        shard_statements(tiny, Statement(1, 2, 3, 4, 5), shards)


def test_a_verifier_numbers_the_shards_itself(tiny: ShardedClass) -> None:
    made = shard_statements(tiny, Statement(1, 2, 3, 4, 5), 3)
    assert [one.clear() for one in made] == [[1, 2, 3, 4, 5, shard, 3] for shard in range(3)]


def test_challenges_hash_the_threshold_and_the_shard(tiny: ShardedClass) -> None:
    one, two = shard_statements(tiny, Statement(1, 2, 3, 4, 5), 2)
    given = b"k" * 32, b"r" * 32, one, b"w" * 64, b"h" * 128 + b"v" * 64
    others = (*given[:4], b"h" * 128 + b"u" * 64), (*given[:2], two, *given[3:])
    assert len({x for one in (given, *others) for x in challenges(*one)}) == 6


@pytest.mark.parametrize("name", CLASSES)
def test_places_and_grid_of_every_class_are_enough_for_all_its_shards(name: str) -> None:
    cls = CLASSES[name]
    assert shards_overflow_bound_holds(cls)
    bound = shards_overflow_bound(cls, cls.S)
    one = overflow.overflow_bound(cls.N, cls.K, cls.R - 1, cls.m, cls.a, cls.b, cls.table)
    assert bound == cls.S**2 * one <= Fraction(1, 1 << OVERFLOW_EXPONENT)
    fewer = dataclasses.replace(cls, R=cls.R - 2)
    assert not shards_overflow_bound_holds(fewer)
    outside = overflow.few_exceed_bound(cls.N, cls.R, cls.grid, cls.m)
    assert cls.S * outside <= Fraction(1, 1 << GRID_EXPONENT)
    assert cls.S * overflow.few_exceed_bound(cls.N, cls.R, cls.grid - 1, cls.m) > Fraction(1, 1 << GRID_EXPONENT)


def test_a_shard_of_many_needs_more_places_than_an_index_alone(tiny: ShardedClass) -> None:
    assert complete_sharded("new", tiny.law, tiny.N, tiny.K, tiny.m, tiny.q, tiny.c, tiny.S) == dataclasses.replace(
        tiny, name="new"
    )
    assert tiny.R > load_classes()["ranked-tiny-two"].R  # type: ignore[union-attr]


@pytest.mark.parametrize("S", [1, 1 << 25])
def test_an_impossible_number_of_shards_is_refused(tiny: ShardedClass, S: int) -> None:
    with pytest.raises(PolicyError, match="needs 2 <= S"):
        dataclasses.replace(tiny, S=S)


def test_a_policy_has_as_many_shards_as_its_class_is_for(tiny: ShardedClass) -> None:
    one = load_classes()["ranked-tiny-two"]
    assert attestation_class(tiny.to_mapping()) == tiny == circuit_class(tiny.name)
    for cls, shards, why in ((tiny, 65, "1..64"), (replace(tiny, S=8), 9, "at most 8 shards"), (one, 2, "one index")):
        made = replace(simulator.policy(), shards=shards)
        with pytest.raises(PolicyError, match=why):
            (made.validate(), check_shards(made, cls))
    with pytest.raises(PolicyError, match="keywords of one index"):
        check_shards(replace(simulator.policy(), claim=ANSWERS), tiny)
    with pytest.raises(PolicyError, match="shards must be 1"):
        replace(simulator.policy(), shards=2).whole(one)


def test_an_accountant_sees_all_slots_and_a_packer_the_class(tiny: ShardedClass) -> None:
    policy = replace(simulator.policy(), shards=3)
    whole = policy.whole(tiny)
    assert (whole.N, policy.capacity(tiny), whole.K) == (3 * tiny.N, 3 * tiny.N, tiny.K)
    assert (whole.L, whole.ids_per_element, whole.returned_chunks) == (
        tiny.L,
        tiny.ids_per_element,
        tiny.returned_chunks,
    )
    assert policy.whole(whole) is whole
    assert replace(policy, shards=1).whole(tiny) is tiny


def test_the_threshold_is_no_hint(tiny: ShardedClass) -> None:
    layout = ShardedLayout(tiny)
    assert not {"threshold", "thresholdSlot"} & set(layout.by_name)
    assert layout.public == layout.threshold_at + 2 == 1 + layout.clear + tiny.N + layout.size + tiny.N + 2
