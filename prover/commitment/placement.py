# SPDX-License-Identifier: GPL-3.0-or-later
"""Which place the n-th document of a period gets.  SPEC A.3.1.

A place is a block of ``block_slots`` aligned slots, the most that one document may fill.  The n-th insertion of a
tenant in a period goes to pi(n), pi a secret permutation of the places: nothing else decides, above all not which
places hold a document just then.  So a slot number says nothing about content, age, or what was there before, and a
place whose document was deleted is not met a second time before the period ends, but by a document of its id.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from ragseal.kernel.errors import CommitmentError
from ragseal.prover.commitment.answer_size import AnswerBound

KEY_BYTES = 32  #: of a period's placement key
ASIDE = 1 << 40  #: added to slots while documents change places: beyond every index


@dataclass(frozen=True, slots=True)
class IndexShape:
    """What circuit class, embedder and policy fix of an index."""

    capacity: int  #: N, slots
    dimension: int  #: d, entries of a row
    block_slots: int = 1  #: aligned slots that one document may fill
    answers: AnswerBound | None = None  #: how long answers from it may be; None: none of its texts is sent
    most: int = 0  #: slots that later windows may give it; 0: it does not grow

    @property
    def places(self) -> int:
        """How many documents a period takes, deleted ones included; slots behind the last whole block stay empty."""
        return self.capacity // self.block_slots

    @property
    def most_places(self) -> int:
        """How many documents there may be, those that wait for a later window included."""
        return max(self.capacity, self.most) // self.block_slots


def permutation(key: bytes, places: int) -> list[int]:
    """pi(0), pi(1), ...: all of range(places), in the order of HMAC-SHA256 of their numbers under ``key``.

    Whoever does not know the key cannot tell it from a uniformly drawn permutation.
    """
    return sorted(range(places), key=lambda place: hmac.digest(key, place.to_bytes(8, "big"), "sha256"))


def next_slots(key: bytes, used: int, count: int, shape: IndexShape) -> list[int]:
    """The first slot of each of the next ``count`` insertions of a period that has had ``used``.

    Raises:
        CommitmentError: the period has fewer places left.
    """
    if used + count > shape.places:
        raise CommitmentError(f"{count} more documents do not fit: {shape.places - used} places are unused")
    if not count:
        return []  # the permutation is what an edit or a deletion would cost most
    return [place * shape.block_slots for place in permutation(key, shape.places)[used : used + count]]
