# SPDX-License-Identifier: GPL-3.0-or-later
"""Making what a thinned index shows of one shard: w, w' and the proof about its coins.  docs/proofs/thinning.md.

Columns and their openings are made before, as those of any index version: placed ones over the thinning key's
``scores``, thinned ones over the attestation key's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragseal.groth16.coin_proofs import CoinScores, CoinSecrets, make_coins
from ragseal.groth16.provers import ThinningBackend
from ragseal.kernel import field
from ragseal.kernel.bn254 import Group
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.params import R
from ragseal.kernel.thinning import ThinnedShard, ThinningStatement, thinned_coins, verify_thinned_shard

Matrix = npt.NDArray[np.int8]  #: (N, d)

_LIMB, _LIMBS = 16, 16  # of a weight of 31 bytes: sums over 4,096 columns of int8 stay far below 2^63


@dataclass(frozen=True)
class ThinningSecrets:
    """What only the provider has."""

    coins: CoinSecrets
    placed_blinders: Sequence[int]  #: beta_j of C_j
    thinned_blinders: Sequence[int]  #: beta'_j of C'_j, fresh ones: not those of C_j
    rho: int  #: of W', drawn afresh as well

    def __repr__(self) -> str:
        return "ThinningSecrets(...)"


def thin(matrix: Matrix, hidden: Sequence[bool]) -> Matrix:
    """E': the matrix with the rows of hidden slots zero."""
    thinned = matrix.copy()
    thinned[np.asarray(hidden, dtype=bool)] = 0
    return thinned


def combine_rows(matrix: Matrix, weights: Sequence[int]) -> list[int]:
    """E r: sum_j r_j E[i][j] mod r of every row, for weights of 31 bytes."""
    mask = (1 << _LIMB) - 1
    limbs = np.array([[(weight >> (_LIMB * k)) & mask for k in range(_LIMBS)] for weight in weights], dtype=np.int64)
    return [sum(part << (_LIMB * k) for k, part in enumerate(row)) % R for row in (matrix @ limbs).tolist()]


def folded(weights: Sequence[int], blinders: Sequence[int]) -> int:
    """sum_j r_j beta_j mod r."""
    return sum(r * beta for r, beta in zip(weights, blinders, strict=True)) % R


def make_thinned(
    group: Group,
    backend: ThinningBackend,
    bases: ScoreBases,
    statement: ThinningStatement,
    matrix: Matrix,
    hidden: Sequence[bool],
    secrets: ThinningSecrets,
) -> ThinnedShard:
    """What a tenant's thinned file has of one shard, checked as an auditor does before it leaves.

    Args:
        bases: Y_i and B of the attestation key.
        matrix: E, the shard as placed.
        hidden: the coins' verdict on each slot (:func:`ragseal.kernel.coin.hidden_slots`).

    Raises:
        ProofError: the inputs satisfy no witness, or what was made does not verify: the key must not be used again.
    """
    key, weights = backend.key, statement.weights()
    placed = combine_rows(matrix, weights)
    thinned = [0 if hides else x for x, hides in zip(placed, hidden, strict=True)]
    scores = group.msm(key.mixed.y + key.mixed.b, field.pack([*thinned, secrets.rho]))
    coined = thinned_coins(group, statement, key, bases, scores)
    blinders = folded(weights, secrets.thinned_blinders), secrets.rho
    values = CoinScores(placed, thinned, folded(weights, secrets.placed_blinders), blinders)
    made = ThinnedShard(scores, make_coins(group, backend, coined, values, secrets.coins))
    verify_thinned_shard(group, statement, key, bases, made)
    return made
