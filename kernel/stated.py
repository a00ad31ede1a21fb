# SPDX-License-Identifier: GPL-3.0-or-later
"""What a class's circuit states, and how: its inputs, the commitments among them, and the lists that a record names.

A kind of law has one :class:`Stated`.  Everything that proves or verifies a record goes through it and asks nothing
else of the law.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from ragseal.kernel.bn254 import Group
from ragseal.kernel.committed import CommittedBases
from ragseal.kernel.poseidon import poseidon
from ragseal.kernel.statement import HintLayout, Returned

Points = Callable[[int, int], bytes]  #: points of so many public inputs, from one on
Poseidon = Callable[..., int]


class Stated(ABC):
    """What the circuit of one class states."""

    wide_hints: ClassVar[frozenset[str]] = frozenset()  #: groups of hints beyond 31 bits
    wide_scores: ClassVar[bool] = False  #: so are the inputs of slots

    @property
    @abstractmethod
    def layout(self) -> HintLayout:
        """Its public inputs, in order."""

    @abstractmethod
    def bases(self, points: Points, group: Group) -> CommittedBases:
        """What the commitments of its proofs are made over, under one key."""

    @abstractmethod
    def scales(self, beta: int) -> tuple[int, ...]:
        """What a verifier multiplies a proof's points by before it adds them to vk_x: C_w, its commitments, C_v."""

    @abstractmethod
    def wires(self, w: Sequence[int], witnesses: Sequence[bytes], beta: int) -> bytes:
        """The hidden inputs of a shard's proof, packed: of the first score up to what all shards share.

        Args:
            w: the shard's scores, as C_w has them.
            witnesses: as :meth:`ragseal.kernel.committed.CommittedBases.commit` takes them.
        """

    @abstractmethod
    def lists(
        self, salt: int, returned: Sequence[Returned], shards: int, hashed: Poseidon = poseidon
    ) -> tuple[int, ...]:
        """What a record commits to T with; SPEC B.6.5.

        Args:
            returned: T, by slot of the whole index.
            hashed: Poseidon, or something faster that computes it.

        Raises:
            EncodingError: more ids than there is room for.
        """

    @abstractmethod
    def lists_due(self, shards: int) -> int:
        """How many of them a record has."""
