# SPDX-License-Identifier: GPL-3.0-or-later
"""Making the public file of an index version whose hidden slots are empty.  docs/proofs/thinning.md.

It is the thinning circuit with one index in both places: what is placed is what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.groth16.assignments import assign_thinning
from ragseal.groth16.provers import ThinningBackend
from ragseal.groth16.thinning import Matrix, combine_rows, folded
from ragseal.kernel import field
from ragseal.kernel.bn254 import Group
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.emptied import EmptiedFile, EmptiedStatement, prove_emptied_link, verify_emptied
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import R


@dataclass(frozen=True)
class EmptiedSecrets:
    """What only the provider has.  Both rho and ``nonces`` are drawn afresh for every file."""

    seed: tuple[int, int]
    blinders: Sequence[int]  #: beta'_j of C'_j
    rho: tuple[int, int]  #: of W and of W'
    nonces: bytes  #: N + 3 packed scalars

    def __repr__(self) -> str:
        return "EmptiedSecrets(...)"


def make_emptied(
    group: Group,
    backend: ThinningBackend,
    bases: ScoreBases,
    statement: EmptiedStatement,
    matrix: Matrix,
    opening: Opening,
    secrets: EmptiedSecrets,
) -> EmptiedFile:
    """A tenant's file, checked as an auditor does before it leaves.

    Args:
        bases: Y_i and B of the attestation key.
        matrix: E', the index in force: the rows of hidden slots are zero.
        opening: of its columns over ``bases``.

    Raises:
        ProofError: the inputs satisfy no witness, as where a hidden slot is filled, or what was made does not verify:
            the key must not be used again.
    """
    key, weights = backend.key, statement.weights()
    scores = combine_rows(matrix, weights)
    before = group.msm(key.scores.y + key.scores.b, field.pack([*scores, secrets.rho[0]]))
    after = group.msm(key.thinned.y + key.thinned.b, field.pack([*scores, secrets.rho[1]]))
    blind = sum(secrets.rho) % R
    proof = backend.prove(assign_thinning(key.cls, statement.clear(), scores, scores, blind, secrets.seed))
    witness = field.pack([*scores, folded(weights, secrets.blinders), *secrets.rho])
    link = prove_emptied_link(group, statement, key, bases, (before, after), proof, witness, secrets.nonces)
    file = EmptiedFile(statement.columns, opening, before, after, link, proof)
    verify_emptied(group, statement, key, bases, file)
    return file
