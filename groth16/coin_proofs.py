# SPDX-License-Identifier: GPL-3.0-or-later
"""Making what a shard shows about its coins: commitments, the circuit's proof, openings.  docs/proofs/thinning.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.groth16.assignments import CoinWitness, ThinningAssignment, assign_thinning, coin_witness
from ragseal.groth16.provers import ThinningBackend
from ragseal.kernel import field
from ragseal.kernel.bn254 import Group
from ragseal.kernel.coin_proof import Coined, CoinPoints, CoinProof, commit_coins, nonces_needed, prove_coins
from ragseal.kernel.params import R
from ragseal.kernel.thinning_class import ThinningClass


def scalars_needed(cls: ThinningClass, sides: int) -> int:
    """Fresh uniform scalars of one shard whose w' stands under ``sides`` commitments."""
    return 3 * sides + 1 + nonces_needed(cls, sides)


@dataclass(frozen=True)
class CoinSecrets:
    """What only the provider has."""

    seed: tuple[int, int]
    fresh: bytes  #: as many packed scalars as :func:`scalars_needed` says, drawn afresh for every shard of every file

    def __repr__(self) -> str:
        return "CoinSecrets(...)"


@dataclass(frozen=True)
class CoinScores:
    """w and w' of one shard, and what blinds their commitments."""

    placed: Sequence[int]
    thinned: Sequence[int]
    placed_blinder: int  #: of W
    blinders: Sequence[int]  #: of every commitment to w', in order

    def __repr__(self) -> str:
        return "CoinScores(...)"


@dataclass(frozen=True)
class Opened:
    """What all commitments of one shard hold."""

    scores: CoinScores
    witness: CoinWitness
    products: Sequence[int]  #: coin_i w_i
    blinders: Sequence[Sequence[int]]  #: of every C_p, C_h and C_c, then of C_x

    def __repr__(self) -> str:
        return "Opened(...)"

    @property
    def slots(self) -> tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]:
        """w', products, h and coins."""
        return self.scores.thinned, self.products, self.witness.hides, self.witness.coins

    def commit(self, group: Group, coined: Coined) -> CoinPoints:
        slots = [field.pack(one) for one in self.slots[1:]]
        return commit_coins(group, coined, slots, field.pack(self.witness.hints), self.blinders)

    def assignment(self, coined: Coined, points: CoinPoints, seed: tuple[int, int]) -> ThinningAssignment:
        """What the circuit is given, its blinder that of its commitments as the verifier adds them."""
        cls, clear = coined.key.cls, coined.clear(points)
        beta = clear[-1]
        products, hides, coins, (hints,) = self.blinders
        mixed = self.scores.blinders[-1] - beta * products[-1] + beta**2 * hides[-1] + beta**3 * coins[-1]
        blind = (self.scores.placed_blinder + mixed + hints) % R
        own = coined.statement.hidden, self.witness.hints
        return assign_thinning(cls, clear, self.scores.placed, self.slots, own, blind, seed)

    def vectors(self) -> list[list[bytes]]:
        """What the openings open, in order."""
        *masks, last = (self.scores.blinders, *self.blinders)
        slots = [field.pack([*one, *own]) for one, own in zip(self.slots, masks, strict=True)]
        return [slots, [field.pack([*self.witness.hints, *last])]]


def opened(coined: Coined, scores: CoinScores, seed: tuple[int, int], masks: Sequence[int]) -> Opened:
    """What an honest prover commits to; ``masks``: every C_p's, C_h's and C_c's, then that of C_x."""
    witness = coin_witness(coined.key.cls, seed, coined.statement.context, coined.statement.hidden)
    products = [coin * w % R for coin, w in zip(witness.coins, scores.placed, strict=True)]
    sides = len(coined.sides)
    return Opened(scores, witness, products, [masks[at : at + sides] for at in range(0, len(masks), sides)])


def make_coins(
    group: Group, backend: ThinningBackend, coined: Coined, scores: CoinScores, secrets: CoinSecrets
) -> CoinProof:
    """In the order that soundness asks for: all commitments, alpha and beta, the circuit's proof, the openings.

    Raises:
        ProofError: the inputs satisfy no witness.
    """
    cut = (3 * len(coined.sides) + 1) * field.FIELD_BYTES
    held = opened(coined, scores, secrets.seed, field.unpack(secrets.fresh[:cut]))
    points = held.commit(group, coined)
    proof = backend.prove(held.assignment(coined, points, secrets.seed))
    return prove_coins(group, coined, points, proof, held.vectors(), secrets.fresh[cut:])
