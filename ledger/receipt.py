# SPDX-License-Identifier: GPL-3.0-or-later
"""The inclusion half of a receipt: leaf index, path and checkpoint, checked offline against the log's key alone.

Two forms of one thing: canonical bytes (to sign and send) and the text of C2SP tlog-proof (a ``.tlog-proof`` file).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel.encoding import HASH, U64, Blob, Codec, Many, Message
from ragseal.kernel.errors import EncodingError
from ragseal.ledger.checkpoint import SignedCheckpoint, open_checkpoint
from ragseal.ledger.merkle import HASH_SIZE, leaf_hash, verify_inclusion
from ragseal.ledger.note import MAX_NOTE_BYTES, NoteVerifier, decode_base64, decode_decimal, encode_base64

MAX_PATH = 63  #: a log has fewer than 2^63 entries

_HEADER = "c2sp.org/tlog-proof@v1"


@dataclass(frozen=True, slots=True)
class InclusionBundle(Message):
    """An entry is in the log: its path, and the signed note that the path leads to."""

    TAG: ClassVar[str] = "inclusion"
    CODECS: ClassVar[Sequence[Codec]] = (U64, Many(HASH, MAX_PATH), Blob(MAX_NOTE_BYTES))

    index: int  #: of the entry, from 0
    path: tuple[bytes, ...]  #: RFC 6962 inclusion path
    checkpoint: bytes  #: the signed note whose size and root the path leads to

    def verify(self, entry: bytes, log: NoteVerifier, witnesses: Iterable[NoteVerifier] = ()) -> SignedCheckpoint:
        """Check that ``entry`` is number ``index`` of the log that ``log`` signs; gives the verified checkpoint.

        Raises:
            EncodingError: the checkpoint is malformed.
            LedgerError: its signature, or the inclusion, does not hold.
        """
        signed = open_checkpoint(self.checkpoint, log, witnesses)
        point = signed.checkpoint
        verify_inclusion(leaf_hash(entry), self.index, point.size, self.path, point.root)
        return signed

    def to_text(self) -> bytes:
        """The ``.tlog-proof`` file, without extra data."""
        lines = [_HEADER, f"index {self.index}", *(encode_base64(node) for node in self.path), "", ""]
        return "\n".join(lines).encode("ascii") + self.checkpoint

    @classmethod
    def from_text(cls, data: bytes) -> InclusionBundle:
        """Strict inverse of :meth:`to_text`; an ``extra`` line is refused, since nothing authenticates it.

        Raises:
            EncodingError: anything else.
        """
        head, blank, checkpoint = data.partition(b"\n\n")
        if not blank or len(data) > MAX_NOTE_BYTES + 64 * (MAX_PATH + 2):
            raise EncodingError("proof file: expected a proof, an empty line and a checkpoint")
        try:
            lines = head.decode("ascii").split("\n")
        except UnicodeDecodeError:
            raise EncodingError("proof file: the proof is not ASCII") from None
        if len(lines) < 2 or lines[0] != _HEADER or not lines[1].startswith("index "):
            raise EncodingError(f"proof file: expected {_HEADER!r} and an index line")
        index = decode_decimal(lines[1].removeprefix("index "), "proof file index")
        path = tuple(decode_base64(line, "proof file hash") for line in lines[2:])
        if len(path) > MAX_PATH or any(len(node) != HASH_SIZE for node in path):
            raise EncodingError(f"proof file: at most {MAX_PATH} hashes of {HASH_SIZE} bytes")
        return cls(index, path, checkpoint)
