# SPDX-License-Identifier: GPL-3.0-or-later
"""The batched proof of opening: honest ones pass, components outside the span and reused openings do not."""

from __future__ import annotations

import dataclasses
import random

import pytest

from ragseal.kernel import field, opening
from ragseal.kernel.bn254 import POINT_BYTES, PurePythonGroup
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import Opening, Relation
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
