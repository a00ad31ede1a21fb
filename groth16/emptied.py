# SPDX-License-Identifier: GPL-3.0-or-later
"""Making what an index version shows of one shard, that its hidden slots are empty.  docs/proofs/thinning.md.

It is the thinning circuit with one index in both places: what is placed is what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.groth16.coin_proofs import CoinScores, CoinSecrets, make_coins
from ragseal.groth16.provers import ThinningBackend
from ragseal.groth16.thinning import Matrix, combine_rows, folded
from ragseal.kernel import field
from ragseal.kernel.bn254 import Group
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.emptied import EmptiedShard, EmptiedStatement, emptied_coins, verify_emptied_shard


@dataclass(frozen=True)
class EmptiedSecrets:
    """What only the provider has."""

    coins: CoinSecrets
    blinders: Sequence[int]  #: beta'_j of C'_j
    rho: tuple[int, int]  #: of W and of W', drawn afresh as well

    def __repr__(self) -> str:
        return "EmptiedSecrets(...)"


def make_emptied(
    group: Group,
    backend: ThinningBackend,
    bases: ScoreBases,
    statement: EmptiedStatement,
    matrix: Matrix,
    secrets: EmptiedSecrets,
) -> EmptiedShard:
    """What a tenant's file has of one shard, checked as an auditor does before it leaves.

    Args:
        bases: Y_i and B of the attestation key.
        matrix: E', the shard as it is in force: the rows of hidden slots are zero.

    Raises:
        ProofError: the inputs satisfy no witness, as where a hidden slot is filled, or what was made does not verify:
            the key must not be used again.
    """
    key, weights = backend.key, statement.weights()
    scores = combine_rows(matrix, weights)
    before = group.msm(key.scores.y + key.scores.b, field.pack([*scores, secrets.rho[0]]))
    after = group.msm(key.mixed.y + key.mixed.b, field.pack([*scores, secrets.rho[1]]))
    coined = emptied_coins(group, statement, key, bases, (before, after))
    blinders = folded(weights, secrets.blinders), *secrets.rho
    values = CoinScores(scores, scores, secrets.rho[0], blinders)
    made = EmptiedShard(before, after, make_coins(group, backend, coined, values, secrets.coins))
    verify_emptied_shard(group, statement, key, bases, made)
    return made
