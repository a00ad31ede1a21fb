# SPDX-License-Identifier: GPL-3.0-or-later
"""The batched proof of opening: honest ones pass, components outside the span and reused openings do not."""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from ragseal.backends.group import default_group
from ragseal.kernel import field, opening
from ragseal.kernel.bn254 import POINT_BYTES, PurePythonGroup
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import Opening, Relation, prove_opening, verify_opening
from ragseal.kernel.params import R

GROUP = PurePythonGroup()
SIZE = 5  # too short to fold: tests/kernel/test_folding.py has the long ones
BASES = GROUP.hash_to_curve(b"test bases", SIZE)
OUTSIDE = GROUP.hash_to_curve(b"not a base", 1)
RNG = random.Random(7)


def commit(values: list[int]) -> bytes:
    return GROUP.msm(BASES, field.pack(values))


def combine(vectors: list[list[int]], chi: int) -> bytes:
    weights = opening.powers(chi, len(vectors))
    return GROUP.combine([field.pack(v) for v in vectors], weights)


def nonces(n: int) -> bytes:
    return field.pack(RNG.randrange(R) for _ in range(n))


def batch(vectors: list[list[int]], commitments: list[bytes]) -> tuple[Relation, bytes, Opening]:
    relation = Relation(BASES, ((0, 5),), tuple(commitments))
    context = b"".join(commitments)
    witness = combine(vectors, opening.batching_challenge("test", context))
    return relation, context, opening.prove_opening(GROUP, "test", context, [relation], witness, nonces(SIZE))


@pytest.fixture
def honest() -> tuple[Relation, bytes, Opening]:
    vectors = [[RNG.randrange(R) for _ in range(5)] for _ in range(3)]
    return batch(vectors, [commit(v) for v in vectors])


def check(relation: Relation, context: bytes, proof: Opening) -> None:
    opening.verify_opening(GROUP, "test", context, [relation], SIZE, proof)


def test_honest(honest: tuple[Relation, bytes, Opening]) -> None:
    check(*honest)


def test_component_outside_the_span() -> None:
    vectors = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    commitments = [commit(v) for v in vectors]
    commitments[1] = GROUP.msm(commitments[1] + OUTSIDE, field.pack([1, 1]))
    with pytest.raises(ProofError, match="not what it claims"):
        check(*batch(vectors, commitments))


def test_errors_that_cancel_for_a_predictable_chi() -> None:
    """Two commitments whose outside parts cancel under a guessed chi are caught, as the real one hashes them."""
    guess = 12345
    vectors = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    first = GROUP.msm(commit(vectors[0]) + OUTSIDE, field.pack([1, guess]))
    second = GROUP.msm(commit(vectors[1]) + OUTSIDE, field.pack([1, -1]))
    with pytest.raises(ProofError, match="not what it claims"):
        check(*batch(vectors, [first, second]))


def test_reused_for_another_batch(honest: tuple[Relation, bytes, Opening]) -> None:
    relation, context, proof = honest
    with pytest.raises(ProofError, match="not what it claims"):
        check(relation, context + b"other", proof)
    shorter = dataclasses.replace(relation, commitments=relation.commitments[:-1])
    with pytest.raises(ProofError, match="not what it claims"):
        check(shorter, context, proof)
    with pytest.raises(ProofError, match="not what it claims"):
        opening.verify_opening(GROUP, "other use", context, [relation], SIZE, proof)


def test_malformed(honest: tuple[Relation, bytes, Opening]) -> None:
    relation, context, proof = honest
    with pytest.raises(ProofError, match="responses expected"):
        check(relation, context, dataclasses.replace(proof, responses=proof.responses[1:]))
    with pytest.raises(ProofError, match="0 rounds of folding expected"):
        check(relation, context, dataclasses.replace(proof, folds=(BASES[:64], BASES[64:128])))
    with pytest.raises(ProofError, match="announcements expected"):
        check(relation, context, dataclasses.replace(proof, announcements=()))
    with pytest.raises(ProofError, match="identity"):
        check(relation, context, dataclasses.replace(proof, announcements=(bytes(POINT_BYTES),)))
    with pytest.raises(ProofError, match="identity"):
        check(dataclasses.replace(relation, commitments=(bytes(64),) * 3), context, proof)


def test_two_relations_share_their_witness() -> None:
    """The link: the same e under two sets of bases (SPEC B.7)."""
    other = GROUP.hash_to_curve(b"second bases", 4)

    def build(e_left: list[int], e_right: list[int]) -> None:
        left = GROUP.msm(BASES[: 4 * 64], field.pack([*e_left, 11]))
        right = GROUP.msm(other, field.pack([*e_right, 13]))
        relations = [Relation(BASES[: 4 * 64], ((0, 4),), (left,)), Relation(other, ((0, 3), (4, 5)), (right,))]
        context = left + right
        witness = field.pack([*e_left, 11, 13])
        proof = opening.prove_opening(GROUP, "link", context, relations, witness, nonces(5))
        opening.verify_opening(GROUP, "link", context, relations, 5, proof)

    build([1, 2, 3], [1, 2, 3])
    with pytest.raises(ProofError, match="not what it claims"):
        build([1, 2, 3], [1, 2, 4])


# --- equations that are checked together ------------------------------------------------------------------------------


def deferred(*batches: tuple[Relation, bytes, Opening], random: Callable[[int], bytes] = os.urandom) -> bool:
    later = opening.Equations(GROUP, random)
    for relation, context, proof in batches:
        opening.verify_opening(GROUP, "test", context, [relation], SIZE, proof, later)
    return later.hold()


def many(count: int) -> list[tuple[Relation, bytes, Opening]]:
    vectors = [[[RNG.randrange(R) for _ in range(5)] for _ in range(2)] for _ in range(count)]
    return [batch(own, [commit(v) for v in own]) for own in vectors]


def spoiled(one: tuple[Relation, bytes, Opening]) -> tuple[Relation, bytes, Opening]:
    relation, context, proof = one
    return relation, context, replace(proof, responses=((proof.responses[0] + 1) % R, *proof.responses[1:]))


def test_openings_over_the_same_bases_hold_together_or_not() -> None:
    batches = many(3)
    assert deferred(*batches)
    assert deferred()
    for at in range(3):
        assert not deferred(*(spoiled(one) if k == at else one for k, one in enumerate(batches)))


def test_errors_that_would_cancel_do_not() -> None:
    """The same error once with each sign: only factors that its maker cannot foresee tell."""
    five = field.pack([1, 2, 3, 4, 5])
    point = commit([1, 2, 3, 4, 5])
    up, down = ([commit([1, 2, 3, 4, 5 + d]), point] for d in (1, -1))

    def held(random: Callable[[int], bytes]) -> bool:
        later = opening.Equations(GROUP, random)
        for points in (up, down):
            later.add(BASES, five, [points[0]], [R - 1])
        return later.hold()

    assert not held(os.urandom)
    assert held(lambda n: b"\0" * (n - 1) + b"\1")
    draws = iter([bytes(16), bytes(16), b"\0" * 15 + b"\2", b"\0" * 15 + b"\3"])
    assert not held(lambda n: next(draws))  # a factor of zero would hide its equation: it is drawn again


def test_other_bases_are_added_by_themselves() -> None:
    later = opening.Equations(GROUP, os.urandom)
    other = BASES[64:] + BASES[:64]
    later.add(BASES, field.pack([1, 2, 3, 4, 5]), [commit([1, 2, 3, 4, 5])], [R - 1])
    later.add(other, field.pack([2, 3, 4, 5, 1]), [commit([1, 2, 3, 4, 5])], [R - 1])
    assert later.hold()
    later.add(other, field.pack([1, 2, 3, 4, 5]), [commit([1, 2, 3, 4, 5])], [R - 1])
    assert not later.hold()
    assert later.hold()  # what was asked about is over


# Openings whose numbers do not fit are refused before anything is computed with them. SPEC B.7.


GROUPS = {"native where it is installed": default_group(), "plain": PurePythonGroup()}
SMALL = 4
SMALL_BASES = PurePythonGroup().hash_to_curve(b"shapes", SMALL + 1)
WITNESS, NONCES = field.pack([3, 1, 4, 1]), field.pack([2, 7, 1, 8])
COMMITTED = PurePythonGroup().msm(SMALL_BASES[: 64 * SMALL], WITNESS)
RELATION = Relation(SMALL_BASES[: 64 * SMALL], ((0, SMALL),), (COMMITTED,))


def proven(group: str, relation: Relation = RELATION) -> Opening:
    return prove_opening(GROUPS[group], "shapes", b"context", [relation], WITNESS, NONCES)


@pytest.mark.parametrize("group", GROUPS)
def test_no_commitment_no_proof(group: str) -> None:
    """What holds of every commitment of an empty batch is nothing; such a "proof" must not count as one."""
    verify_opening(GROUPS[group], "shapes", b"context", [RELATION], SMALL, proven(group))
    empty = replace(RELATION, commitments=())
    with pytest.raises(ProofError, match="a batch of no commitments"):
        verify_opening(GROUPS[group], "shapes", b"context", [empty], SMALL, proven(group))
    with pytest.raises(ProofError, match="a batch of no commitments"):
        proven(group, empty)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("nonces", [b"", NONCES[:-32], NONCES + bytes(32)])
def test_as_many_nonces_as_witness_entries(group: str, nonces: bytes) -> None:
    with pytest.raises(ProofError, match="as many nonces"):
        prove_opening(GROUPS[group], "shapes", b"context", [RELATION], WITNESS, nonces)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("count", [SMALL - 1, SMALL + 1])
def test_a_base_for_every_slot(group: str, count: int) -> None:
    wrong = replace(RELATION, bases=SMALL_BASES[: 64 * count])
    with pytest.raises(ProofError, match="bases and witness slots differ"):
        verify_opening(GROUPS[group], "shapes", b"context", [wrong], SMALL, proven(group))


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("announcements", [0, 2])
def test_an_announcement_for_every_relation(group: str, announcements: int) -> None:
    proof = proven(group)
    changed = replace(proof, announcements=proof.announcements * announcements)
    with pytest.raises(ProofError, match="1 announcements expected"):
        verify_opening(GROUPS[group], "shapes", b"context", [RELATION], SMALL, changed)
