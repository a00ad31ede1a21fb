# SPDX-License-Identifier: GPL-3.0-or-later
"""Selection over several shards: the top K of all slots' exact noise, wherever they lie.  docs/proofs/noise.md."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from ragseal.circuits.circuit import load_classes
from ragseal.circuits.search import complete_noise
from ragseal.kernel import overflow
from ragseal.kernel.classes import Asked, attestation_class
from ragseal.kernel.errors import AttestationError, PolicyError, ProofError, UnprovableError
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.noise_class import NoiseClass, overflow_bound, with_noise
from ragseal.kernel.noise_mechanism import at_threshold, clipped, digit, open_places, select_noise, wide_elements
from ragseal.kernel.noise_statement import NoiseLayout
from ragseal.kernel.params import GRID_EXPONENT, OVERFLOW_EXPONENT, TAG_COARSE, TAG_FINE
from ragseal.kernel.policy import ANSWERS, check_shards
from ragseal.kernel.proofs import Statement, challenges
from ragseal.kernel.record_proofs import statements_of
from ragseal.prover.provider.assembly import circuit_class
from tests import simulator
from tests.circuits.noise_records import STEPS, scores_of
from tests.classes import DECOYS, TINY

CLASSES = {name: cls for name, cls in load_classes().items() if isinstance(cls, NoiseClass)}
KEY = noise_key((3, 4), 5, 6)


@pytest.fixture(scope="module")
def tiny() -> NoiseClass:
    return TINY


def exact_noise(cls: NoiseClass, w: list[list[int]], shard: int, rng: random.Random) -> list[int]:
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
def test_t_is_the_top_k_of_all_slots_exact_noise(tiny: NoiseClass, kind: str, shards: int) -> None:
    rng = random.Random(kind)
    w = [scores_of(tiny, [SCORES[kind](rng, s) for _ in range(tiny.N)], rng) for s in range(shards)]
    chosen = select_noise(tiny, KEY, w, STEPS)
    values = [(v, -(s * tiny.N + i)) for s in range(shards) for i, v in enumerate(exact_noise(tiny, w, s, rng))]
    best = sorted(values, reverse=True)[: tiny.K]
    assert list(chosen.ids) == sorted(-i for _, i in best)
    assert (chosen.threshold, -chosen.threshold_slot) == best[-1]
    assert [one.flag for one in chosen.returned] == [w[i // tiny.N][i % tiny.N] >> tiny.c >= 1 for i in chosen.ids]
    if kind == "all winners in one shard" and shards == 4:
        assert [len(one.ids) for one in chosen.shards] == [0, 0, tiny.K, 0]


def test_shard_0_is_the_same_whatever_lies_behind_it(tiny: NoiseClass) -> None:
    """One shard is no special case: its noise, places and threshold are those of the first of two, if it wins alone."""
    w = scores_of(tiny, [i - 60 for i in range(tiny.N)], random.Random(1))
    one, two = (select_noise(tiny, KEY, [w, *more], STEPS) for more in ([], [[-2000 << tiny.c] * tiny.N]))
    assert one.shards[0] == two.shards[0]
    assert (one.returned, one.threshold, one.threshold_slot) == (two.returned, two.threshold, two.threshold_slot)


def test_no_two_shards_share_an_element(tiny: NoiseClass) -> None:
    seen: set[int] = set()
    for shard in range(5):
        for tag in (TAG_COARSE, TAG_FINE):
            seen |= set(wide_elements(KEY, tag, 40, shard))
    assert len(seen) == 5 * 2 * 40


def test_a_shard_that_overflows_refuses_the_query(tiny: NoiseClass) -> None:
    """Its own entry lies above the threshold of all: slots that are no places could win."""
    w = [[0] * tiny.N, [-2000 << tiny.c] * tiny.N]
    crowded = dataclasses.replace(tiny, K=4, R=6)
    with pytest.raises(UnprovableError, match="could win"):
        select_noise(crowded, noise_key((574, 1), 2, 3), w, STEPS)  # about one request in a hundred does
    opened = open_places(tiny, KEY, w[0], STEPS, 0)
    assert at_threshold(tiny, opened, opened.entry, 0).threshold == opened.entry
    with pytest.raises(UnprovableError, match="could win"):
        at_threshold(tiny, opened, opened.entry - 1, 0)


@pytest.mark.parametrize("shards", [0, 65])
def test_a_number_of_shards_that_the_class_has_not_is_refused(tiny: NoiseClass, shards: int) -> None:
    with pytest.raises(AttestationError, match="has 1 to 64"):
        select_noise(tiny, KEY, [[0] * tiny.N] * shards, STEPS)
    with pytest.raises(ProofError, match="has 1 to 64"):
        statements_of(tiny, Statement(1, 2, 3, Asked((4,)), (5,)), shards)


def test_a_verifier_numbers_the_shards_itself(tiny: NoiseClass) -> None:
    made = statements_of(tiny, Statement(1, 2, 3, Asked((4,)), (5,)), 3)
    assert list(made) == [[1, 2, 3, 4, 5, shard, 3] for shard in range(3)]


def test_challenges_hash_the_threshold_and_the_shard(tiny: NoiseClass) -> None:
    one, two = statements_of(tiny, Statement(1, 2, 3, Asked((4,)), (5,)), 2)
    given = b"k" * 32, b"r" * 32, one, b"w" * 64, b"h" * 128 + b"v" * 64
    others = (*given[:4], b"h" * 128 + b"u" * 64), (*given[:2], two, *given[3:])
    assert len({x for one in (given, *others) for x in challenges(*one)}) == 6


@pytest.mark.parametrize("name", CLASSES)
def test_places_and_grid_of_every_class_are_enough_for_all_its_shards(name: str) -> None:
    cls = CLASSES[name]
    assert cls.overflow_bound_holds()
    bound = overflow_bound(cls, cls.S)
    one = overflow.overflow_bound(cls.N, cls.K, cls.R - 1, cls.m, cls.a, cls.b, cls.table)
    assert bound == cls.S**2 * one <= Fraction(1, 1 << OVERFLOW_EXPONENT)
    fewer = dataclasses.replace(cls, R=cls.R - 2)
    assert not fewer.overflow_bound_holds()
    outside = overflow.few_exceed_bound(cls.N, cls.R, cls.grid, cls.m)
    assert cls.S * outside <= Fraction(1, 1 << GRID_EXPONENT)
    assert cls.S * overflow.few_exceed_bound(cls.N, cls.R, cls.grid - 1, cls.m) > Fraction(1, 1 << GRID_EXPONENT)


def test_a_shard_of_many_needs_more_places_than_an_index_alone(tiny: NoiseClass) -> None:
    assert complete_noise("new", tiny.law, tiny.N, tiny.K, tiny.m, tiny.q, tiny.c, tiny.S) == dataclasses.replace(
        tiny, name="new"
    )
    assert tiny.R > complete_noise("one", tiny.law, tiny.N, tiny.K, tiny.m, tiny.q, tiny.c, 1).R


@pytest.mark.parametrize("S", [0, 65])
def test_an_impossible_number_of_shards_is_refused(tiny: NoiseClass, S: int) -> None:
    with pytest.raises(PolicyError, match="needs 1 <= S <= 64"):
        dataclasses.replace(tiny, S=S)


def test_a_policy_has_as_many_shards_as_its_class_is_for(tiny: NoiseClass) -> None:
    one = replace(DECOYS, S=1)
    assert attestation_class(tiny.to_mapping()) == tiny == circuit_class(tiny.name)
    for cls, shards, why in ((tiny, 65, "1..64"), (replace(tiny, S=8), 9, "1 to 8 shards"), (one, 2, "1 to 1 shards")):
        made = replace(simulator.policy(), shards=shards)
        with pytest.raises(PolicyError, match=why):
            (made.validate(), check_shards(made, cls))
    check_shards(replace(simulator.policy(), claim=ANSWERS), tiny)
    with pytest.raises(PolicyError, match="keywords in one shard"):
        check_shards(replace(simulator.policy(), claim=ANSWERS, shards=2), tiny)


def test_an_accountant_sees_all_slots_and_a_packer_the_class(tiny: NoiseClass) -> None:
    policy = replace(simulator.policy(), shards=3)
    whole = with_noise(policy.whole(tiny))
    assert (whole.N, policy.capacity(tiny), whole.K) == (3 * tiny.N, 3 * tiny.N, tiny.K)
    assert (whole.L, whole.ids_per_element, whole.returned_chunks) == (
        tiny.L,
        tiny.ids_per_element,
        tiny.returned_chunks,
    )
    assert policy.whole(whole) is whole
    alone = with_noise(replace(policy, shards=1).whole(tiny))
    assert (alone.N, alone.L, alone.R) == (tiny.N, tiny.L, tiny.R)
    with pytest.raises(PolicyError, match="1 to 64 together"):
        replace(policy, shards=65).whole(tiny)


def test_the_threshold_is_no_hint(tiny: NoiseClass) -> None:
    layout = NoiseLayout(tiny)
    assert not {"threshold", "thresholdSlot"} & set(layout.by_name)
    assert layout.public == layout.shared_at + 2 == 1 + layout.clear + tiny.N + layout.size + tiny.N + 2
