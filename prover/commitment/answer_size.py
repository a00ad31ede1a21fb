# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the answers from an index can be, known before there is a question.  SPEC A.4.3.

An answer opens the texts of K slots at most.  Were it found too long when it is made, its record would tell, without
noise, that long documents are among the nearest.  So no index is committed of which any K documents are too long for
one answer together.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragseal.kernel.attestation import MAX_OPENINGS_BYTES, Openings, SlotOpening, TextOpening
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.slot_text import (
    MAX_ID,
    MAX_KEY,
    MAX_PAIRS,
    MAX_TEXT_BYTES,
    MAX_VALUE,
    NO_METADATA,
    Metadata,
    MetadataPair,
    SlotText,
)
from ragseal.prover.commitment.slots import Readable, document_slots

NAMED = 5  #: documents that a refusal names
UTF8 = 4  #: bytes of a character at most

_NO_TEXT = SlotText("x", "", NO_METADATA)
_HASH = bytes(32)
_FRAME = len(Openings(0, (), "").encode())  #: of an answer without slots
_SLOT = len(SlotOpening(0, True, ()).encode())  #: of a slot without a text
_TEXT = len(TextOpening(_NO_TEXT, _HASH, ()).encode()) - len(NO_METADATA.encode()) - 1  #: beside path and content
_PAIR = len(MetadataPair("x", "").encode()) - 1 + UTF8 * (MAX_KEY + MAX_VALUE)
_LONGEST = UTF8 * MAX_ID + MAX_TEXT_BYTES + len(Metadata(()).encode()) + MAX_PAIRS * _PAIR  #: bytes of a document


@dataclass(frozen=True, slots=True)
class AnswerBound:
    """What an answer may take."""

    returned: int  #: the most slots that it opens
    slots: int  #: of the index: the more there are, the longer is each text's path
    most: int = MAX_OPENINGS_BYTES  #: bytes of openings that are sent

    def length(self, contents: list[int]) -> int:
        """Bytes of openings in which texts of these lengths stand, each with its id and metadata; K at most."""
        path = len(_HASH) * (self.slots - 1).bit_length()
        return _FRAME + self.returned * _SLOT + sum(_TEXT + path + content for content in contents)

    def require(self, source: Readable, tenant: str) -> None:
        """Nothing is looked up where no K documents can be too long.

        Raises:
            CommitmentError: K documents of this tenant are too long for one answer; names the longest.
        """
        if self.length([_LONGEST] * self.returned) <= self.most:
            return
        longest = document_slots(source, tenant).longest(self.returned)
        found = self.length([content for _, content in longest])
        if found <= self.most:
            return
        named = ", ".join(f"{name[:80]!r} ({content} bytes)" for name, content in longest[:NAMED])
        more = ", ..." if len(longest) > NAMED else ""
        raise CommitmentError(
            f"an answer returns up to {self.returned} documents, and those of tenant {tenant!r} can come to {found} "
            f"bytes in one answer, where {self.most} can be sent: nothing was changed. The longest documents are "
            f"{named}{more}. Split or shorten them, or take a class that returns fewer"
        )
