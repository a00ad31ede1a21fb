# SPDX-License-Identifier: GPL-3.0-or-later
"""Openings whose numbers do not fit are refused before anything is computed with them.  SPEC B.7."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragseal.backends.group import default_group
from ragseal.kernel import field
from ragseal.kernel.bn254 import PurePythonGroup
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import Opening, Relation, prove_opening, verify_opening

GROUPS = {"native where it is installed": default_group(), "plain": PurePythonGroup()}
SIZE = 4
BASES = PurePythonGroup().hash_to_curve(b"shapes", SIZE + 1)
WITNESS, NONCES = field.pack([3, 1, 4, 1]), field.pack([2, 7, 1, 8])
COMMITTED = PurePythonGroup().msm(BASES[: 64 * SIZE], WITNESS)
RELATION = Relation(BASES[: 64 * SIZE], ((0, SIZE),), (COMMITTED,))


def proven(group: str, relation: Relation = RELATION) -> Opening:
    return prove_opening(GROUPS[group], "shapes", b"context", [relation], WITNESS, NONCES)


@pytest.mark.parametrize("group", GROUPS)
def test_no_commitment_no_proof(group: str) -> None:
    """What holds of every commitment of an empty batch is nothing; such a "proof" must not count as one."""
    verify_opening(GROUPS[group], "shapes", b"context", [RELATION], SIZE, proven(group))
    empty = replace(RELATION, commitments=())
    with pytest.raises(ProofError, match="a batch of no commitments"):
        verify_opening(GROUPS[group], "shapes", b"context", [empty], SIZE, proven(group))
    with pytest.raises(ProofError, match="a batch of no commitments"):
        proven(group, empty)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("nonces", [b"", NONCES[:-32], NONCES + bytes(32)])
def test_as_many_nonces_as_witness_entries(group: str, nonces: bytes) -> None:
    with pytest.raises(ProofError, match="as many nonces"):
        prove_opening(GROUPS[group], "shapes", b"context", [RELATION], WITNESS, nonces)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("count", [SIZE - 1, SIZE + 1])
def test_a_base_for_every_slot(group: str, count: int) -> None:
    wrong = replace(RELATION, bases=BASES[: 64 * count])
    with pytest.raises(ProofError, match="bases and witness slots differ"):
        verify_opening(GROUPS[group], "shapes", b"context", [wrong], SIZE, proven(group))


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("announcements", [0, 2])
def test_an_announcement_for_every_relation(group: str, announcements: int) -> None:
    proof = proven(group)
    changed = replace(proof, announcements=proof.announcements * announcements)
    with pytest.raises(ProofError, match="1 announcements expected"):
        verify_opening(GROUPS[group], "shapes", b"context", [RELATION], SIZE, changed)
