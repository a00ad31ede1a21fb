# SPDX-License-Identifier: GPL-3.0-or-later
"""What a thinning and a later version show alike: commitments, challenges, openings.  docs/proofs/thinning.md.

w' is committed to under several keys' points, and p_i = coin_i w_i, h_i and coin_i under the same ones, each with a
blinder of its own: one opening, batched, holds all of them.  What the thinning's circuit sees of a slot the verifier
makes of commitments over Y^t_i and Y'^t_i:

    placed   w_i                                            of W
    mixed    w'_i - beta p_i + beta^2 h_i + beta^3 coin_i   of W', C_p, C_h and C_c

and its two rows of a slot say, in powers of beta, ``h_i = [coin_i < j]``, ``p_i = coin_i w_i`` and ``w'_i = (1 - h_i)
w_i``.  Everything is committed before alpha and beta.  The order is: statement; all commitments; alpha and beta, which
hash them; the circuit's proof; the openings, whose challenges hash that, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from ragseal.kernel import field
from ragseal.kernel.bn254 import Group, split_points
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.committed import Over, Use
from ragseal.kernel.encoding import POINT, Codec, Fixed, Many, Message, Nested
from ragseal.kernel.errors import CommitmentError, ProofError
from ragseal.kernel.opening import Opening, batching_challenge, powers, prove_opening, verify_opening
from ragseal.kernel.params import COIN_BITS
from ragseal.kernel.proofs import PROOF_BYTES
from ragseal.kernel.thinning_class import ThinningClass, ThinningKey
from ragseal.kernel.transcript import nonzero_element, tagged_hash

MAX_SIDES = 3  #: commitments to w'


# --- messages --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CoinPoints(Message):
    """Commitments to one shard's coins and to what shows them, made before alpha and beta."""

    TAG: ClassVar[str] = "coin-points"
    CODECS: ClassVar[Sequence[Codec]] = (
        Many(POINT, MAX_SIDES), Many(POINT, MAX_SIDES), Many(POINT, MAX_SIDES), POINT,
    )  # fmt: skip

    products: tuple[
        bytes, ...
    ]  #: C_p over the points of every commitment to w', in their order: coin times w of each slot
    hides: tuple[bytes, ...]  #: C_h, over the same: whether each slot is hidden
    coins: tuple[bytes, ...]  #: C_c, over the same: the coin of each slot
    hints: bytes  #: C_x


@dataclass(frozen=True, slots=True)
class CoinProof(Message):
    """Proof of one shard's statement about its coins, and that commitments hold what the circuit takes from them."""

    TAG: ClassVar[str] = "coin-proof"
    CODECS: ClassVar[Sequence[Codec]] = (Nested(CoinPoints), Fixed(PROOF_BYTES), Nested(Opening), Nested(Opening))

    points: CoinPoints  #: commitments to coins and what shows them
    proof: bytes  #: Groth16, of the thinning circuit
    slots: Opening  #: of all commitments to w', products, h and coins
    hints: Opening  #: of C_x


# --- what is proven --------------------------------------------------------------------------------------------------


class CoinStatement(Protocol):
    """Everything about one shard that is fixed before its commitments."""

    @property
    def c_coin(self) -> int: ...

    @property
    def context(self) -> int: ...

    @property
    def hidden(self) -> int: ...

    @property
    def digest(self) -> bytes: ...


@dataclass(frozen=True)
class Coined:
    """One shard's statement and commitments to w', those over the thinning key's Y'^t_i last."""

    name: str  #: of the opening of slots, in its challenges
    statement: CoinStatement
    key: ThinningKey
    sides: tuple[tuple[ScoreBases, bytes], ...]  #: each with its bases

    @property
    def uses(self) -> tuple[Use, Use]:
        """What the two openings are over: slots, and hints."""
        n, hints = self.key.cls.N, self.key.cls.hints
        slots = (Over(on.y + on.b, ((0, n), (n + k, n + k + 1))) for k, (on, _) in enumerate(self.sides))
        own = Over(self.key.hints(self.statement.hidden), ((0, hints + 1),))
        return Use(self.name, n, tuple(slots)), Use(f"{self.name}-hints", hints, (own,))

    @property
    def scores(self) -> tuple[bytes, ...]:
        """The commitments to w'."""
        return tuple(committed for _, committed in self.sides)

    def _hashed(self, points: CoinPoints) -> tuple[bytes, ...]:
        return self.statement.digest, b"".join(self.scores), points.encode()

    def challenges(self, points: CoinPoints) -> tuple[int, int]:
        """alpha and beta, 31 bytes each.  ProofError: one of them is zero by chance (2^-248)."""
        parts = self._hashed(points)
        return nonzero_element(f"{self.name}-alpha", *parts), nonzero_element(f"{self.name}-beta", *parts)

    def clear(self, points: CoinPoints) -> list[int]:
        """The circuit's clear inputs, in order."""
        return [self.statement.c_coin, self.statement.context, *self.challenges(points)]

    def context(self, points: CoinPoints, proof: bytes) -> bytes:
        """What the challenges of the openings hash."""
        return tagged_hash(f"{self.name}-link", *self._hashed(points), proof)

    def commitments(self, points: CoinPoints) -> tuple[Sequence[tuple[bytes, ...]], Sequence[tuple[bytes, ...]]]:
        """What each of :attr:`uses` opens: of every witness its commitments.

        Raises:
            ProofError: another number of them than of commitments to w'.
        """
        slots = self.scores, points.products, points.hides, points.coins
        if {len(one) for one in slots} != {len(self.sides)}:
            raise ProofError(f"commitments to coins, each over {len(self.sides)} keys' points, are expected")
        return slots, ((points.hints,),)


def check_share(hidden: int) -> None:
    """CommitmentError: by j / 2^COIN_BITS no slot is hidden, or every one is: no table has both."""
    if not 1 <= hidden < 1 << COIN_BITS:
        raise CommitmentError(f"a slot is hidden in 1..{(1 << COIN_BITS) - 1} of {1 << COIN_BITS} cases")


# --- proofs ----------------------------------------------------------------------------------------------------------


def commit_coins(
    group: Group, coined: Coined, slots: Sequence[bytes], hints: bytes, blinders: Sequence[Sequence[int]]
) -> CoinPoints:
    """C_p, C_h, C_c and C_x.

    Args:
        slots: packed: products, h, coins.
        hints: packed.
        blinders: of the commitments to each of ``slots``, then that of C_x.
    """
    use, other = coined.uses
    *own, last = blinders
    products, hides, coins = (
        tuple(split_points(use.commit(group, one, masks))) for one, masks in zip(slots, own, strict=True)
    )
    return CoinPoints(products, hides, coins, other.commit(group, hints, last))


def nonces_needed(cls: ThinningClass, sides: int) -> int:
    """Scalars of both openings."""
    return cls.N + sides + cls.hints + 1


def prove_coins(
    group: Group, coined: Coined, points: CoinPoints, proof: bytes, vectors: Sequence[Sequence[bytes]], nonces: bytes
) -> CoinProof:
    """The openings, once there is the circuit's proof.

    Args:
        vectors: packed, of every use and of each witness of it: its entries, then a blinder for every commitment.
        nonces: as many fresh uniform ones as :func:`nonces_needed` says, packed.
    """
    context, made, at = coined.context(points, proof), list[Opening](), 0
    for use, committed, own in zip(coined.uses, coined.commitments(points), vectors, strict=True):
        end = at + use.size * field.FIELD_BYTES
        witness = group.combine(own, powers(batching_challenge(use.name, context), len(own)))
        made.append(prove_opening(group, use.name, context, use.relations(committed), witness, nonces[at:end]))
        at = end
    return CoinProof(points, proof, *made)


def verify_coins(group: Group, coined: Coined, placed: bytes, shown: CoinProof) -> None:
    """One shard's openings and its circuit.

    Args:
        placed: W, which the caller knows to hold w over {Y^t_i, B^t}.

    Raises:
        ProofError: says what does not hold.
    """
    points, context = shown.points, coined.context(shown.points, shown.proof)
    openings = shown.slots, shown.hints
    for use, committed, opening in zip(coined.uses, coined.commitments(points), openings, strict=True):
        verify_opening(group, use.name, context, use.relations(committed), use.size, opening)
    verify_circuit(coined, placed, points, shown.proof)


def verify_circuit(coined: Coined, placed: bytes, points: CoinPoints, proof: bytes) -> None:
    """ProofError: the circuit's proof does not hold for what the commitments hold."""
    last = (one[-1] for one in coined.commitments(points)[0])
    try:
        coined.key.verify(coined.clear(points), (placed, *last, points.hints), proof)
    except ProofError as error:
        raise ProofError(f"the proof that hidden slots are empty does not hold: {error}") from None
