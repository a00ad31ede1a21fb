# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes of the thinning's circuit, its tables, and what is asked of its verifying key.  docs/proofs/thinning.md.

A coin element is ``sum_k coin_k 2^(8 k) + 2^208 top`` with its top below LIMIT.  A top is a start of :data:`TOPS` and
TOP_CHUNKS bytes above it: 2^40 numbers from each start on, which together are exactly those below LIMIT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ragseal.kernel.coin import COINS_PER_ELEMENT, TOP_POSITION
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import COIN_BITS, R

CLEAR_NAMES = ("c_coin", "context", "alpha", "beta")  #: the circuit's clear inputs, in order
SLOT_NAMES = ("placed", "mixed")  #: behind the blinder: N each
HINT_NAMES = ("hides", "byte", "topCount", "byteCount", "coinCount")  #: behind them, the last 2 PAIRS of them

PAIRS = 1 << COIN_BITS  #: coins there are, so pairs (h, coin) of one j
TOP_CHUNKS = 5
LIMIT = R >> TOP_POSITION
_ABOVE = TOP_CHUNKS * COIN_BITS
TOPS = (*(k << _ABOVE for k in range(LIMIT >> _ABOVE)), LIMIT - (1 << _ABOVE))  #: starts of tops


@dataclass(frozen=True)
class ThinningClass:
    """One size of circuits/thinning.circom.  Its public inputs, in order: clear, blind, N of each slot name, hints."""

    name: str
    N: int  #: capacity in slots, that of the attestation's class

    def __post_init__(self) -> None:
        if not 1 <= self.N < 1 << 31 or self.name != f"thinning-{self.N}":
            raise PolicyError(f"thinning class {self.name!r}: a class of {self.N} slots is thinning-N, 1 <= N < 2^31")

    @property
    def elements(self) -> int:
        """Field elements of coins."""
        return -(-self.N // COINS_PER_ELEMENT)

    @property
    def bytes(self) -> int:
        """That are looked up: of tops, then coins of the last element that no slot has."""
        return TOP_CHUNKS * self.elements + COINS_PER_ELEMENT * self.elements - self.N

    @property
    def clear(self) -> int:
        return len(CLEAR_NAMES)

    @property
    def blind_at(self) -> int:
        """Index of the blinder among the public inputs."""
        return self.clear

    @property
    def placed_at(self) -> int:
        """Index of w_0."""
        return self.blind_at + 1

    @property
    def mixed_at(self) -> int:
        """Index of slot 0's w' - beta coin w + beta^2 h + beta^3 coin."""
        return self.placed_at + self.N

    @property
    def hints_at(self) -> int:
        return self.mixed_at + self.N

    @property
    def plain_hints(self) -> int:
        """Hints before the numbers of pairs."""
        return self.elements + self.bytes + len(TOPS) + PAIRS

    @property
    def hints(self) -> int:
        """That are committed to: of the pairs those alone that are in the table of one j."""
        return self.plain_hints + PAIRS

    @property
    def pairs_at(self) -> int:
        """Index of the number of pairs (0, 0): those of h = 0 are followed by those of h = 1."""
        return self.hints_at + self.plain_hints

    @property
    def public(self) -> int:
        return self.pairs_at + 2 * PAIRS


def thinning_class(capacity: int) -> ThinningClass:
    """The class that goes with attestation classes of this capacity.  PolicyError: there is none."""
    return ThinningClass(f"thinning-{capacity}", capacity)


class ThinningKey(Protocol):
    """What the checks ask of the thinning's verifying key (:class:`ragseal.groth16.views.ThinningView` is one)."""

    @property
    def cls(self) -> ThinningClass: ...

    @property
    def digest(self) -> bytes: ...

    @property
    def scores(self) -> ScoreBases: ...  #: Y^t_i and B^t, on which placed columns and w are committed

    @property
    def mixed(self) -> ScoreBases: ...  #: Y'^t_i and B^t, on which w', products, h and coins are

    def hints(self, hidden: int) -> bytes: ...  #: H_k and B^t: of the numbers of pairs, those in the table of this j

    def verify(self, clear: Sequence[int], committed: Sequence[bytes], proof: bytes) -> None: ...
