# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints (C2SP tlog-checkpoint v1.0.0): origin, size and root of a log, as the text of a signed note.

Extension lines are refused: nothing here needs them, witnesses do not judge them, and they would let two different
texts say the same about one tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragseal.kernel.errors import AuditError, EncodingError, LedgerError
from ragseal.ledger.merkle import EMPTY_ROOT, HASH_SIZE, MAX_SIZE
from ragseal.ledger.note import (
    COSIGNATURE,
    ED25519,
    Note,
    NoteSignature,
    NoteSigner,
    NoteVerifier,
    Verified,
    check_name,
    decode_base64,
    decode_decimal,
    encode_base64,
    line_of,
    verify_note,
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a log says about itself: its name, its number of entries, and their Merkle root (32 bytes)."""

    origin: str
    size: int
    root: bytes

    def __post_init__(self) -> None:
        check_name(self.origin)
        if not isinstance(self.size, int) or isinstance(self.size, bool) or not 0 <= self.size <= MAX_SIZE:
            raise EncodingError("checkpoint: the size is an integer in [0, 2^63)")
        if len(self.root) != HASH_SIZE:
            raise EncodingError(f"checkpoint: the root has {HASH_SIZE} bytes")
        if self.size == 0 and self.root != EMPTY_ROOT:
            raise EncodingError("checkpoint: an empty log has the root of the empty tree")

    def text(self) -> str:
        """The note's text: three lines, each with its newline."""
        return f"{self.origin}\n{self.size}\n{encode_base64(self.root)}\n"

    @classmethod
    def parse(cls, text: str, extensions: bool = False) -> Checkpoint:
        """Strict inverse of :meth:`text`.

        Args:
            extensions: lines that are not empty may follow, as other logs have them; they are not kept here.

        Raises:
            EncodingError: anything that is not exactly origin, size and root.
        """
        lines = text.split("\n")
        if extensions and len(lines) > 4 and all(lines[3:-1]):
            del lines[3:-1]
        if len(lines) != 4 or lines[3]:
            raise EncodingError("checkpoint: expected the three lines origin, size and root, without extensions")
        size = decode_decimal(lines[1], "checkpoint size")
        return cls(lines[0], size, decode_base64(lines[2], "checkpoint root"))

    def sign(self, signer: NoteSigner) -> bytes:
        """The signed note.  The signer's name must be the origin.

        Raises:
            LedgerError: a signer of another name, or one that is no log key (type 0x01).
        """
        if signer.name != self.origin or signer.algorithm != ED25519:
            raise LedgerError(f"checkpoints of {self.origin} are signed by the log key of that name")
        return Note(self.text(), (signer.sign(self.text()),)).encode()


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint whose log signature verified, the note it came in, and the cosignatures of known witnesses."""

    checkpoint: Checkpoint
    note: Note
    witnesses: tuple[Verified, ...]
    void: bool = False  #: only of what is remembered: signed by a key of the log that does not count at its size


def open_checkpoint(data: bytes, log: NoteVerifier, witnesses: Iterable[NoteVerifier] = ()) -> SignedCheckpoint:
    """Parse a signed note and verify it as a checkpoint of ``log``, one of this product.

    Raises:
        EncodingError: not the canonical form.
        LedgerError: not signed by the log, another log's checkpoint, or a known witness's line that fails.
    """
    return _open(data, [log], list(witnesses), extensions=False)


def has_unknown_line(note: Note, log: NoteVerifier) -> bool:
    """Whether a note has a line under the log's name by a key that is not known: maybe one that the log has turned to.

    A line of another length is a witness's, or nobody's.
    """
    lines = [line for line in note.signatures if line.name == log.name and _is_of_a_log_key(line)]
    return any(not any(key.owns(line) for key in log.keys) for line in lines)


def _is_of_a_log_key(line: NoteSignature) -> bool:
    return len(line.blob) == NoteVerifier.SIGNATURE_SIZES[ED25519]


def lacks_line(data: bytes, log: NoteVerifier) -> bool:
    """Whether a note is of this log by its text and has no line of the key that counts at its size.

    Then another's key signed it, or one that the log has turned to (SPEC G.6.13).
    """
    try:
        note = Note.parse(data)
        checkpoint = Checkpoint.parse(note.text)
    except AuditError:
        return False
    return checkpoint.origin == log.name and not any(map(log.at(checkpoint.size).owns, note.signatures))


def recall(data: bytes, log: NoteVerifier, beside: Sequence[NoteVerifier] = ()) -> SignedCheckpoint:
    """A note that was opened and kept here, maybe before its reader knew of a turn of the log's key (SPEC G.6.13).

    It is ``void`` where another key of the log signed it and the key that counts at its size did not: whoever stole an
    old key can show such a note to somebody who has not learnt of the turn.  A line that claims to be by the key that
    counts and does not verify is nobody's: to that reader it was a stranger's.  ``beside``: more keys whose notes are
    void.

    Raises:
        EncodingError, LedgerError: as :func:`open_checkpoint`, for a note that no key of the log signed.
    """
    try:
        return open_checkpoint(data, log)
    except AuditError:
        note = Note.parse(data)
        point = Checkpoint.parse(note.text)
        if point.origin != log.name or not any(
            line_of(note, key) for key in (*log.keys, *beside) if key != log.at(point.size)
        ):
            raise
        return SignedCheckpoint(point, note, (), void=True)


def open_foreign(data: bytes, log: Sequence[NoteVerifier], witnesses: Iterable[NoteVerifier] = ()) -> SignedCheckpoint:
    """A checkpoint of anybody's log: signed by one of its keys at least, with whatever extension lines it has.

    ``log`` has keys of one name, which is the log's origin.  The note keeps all lines of its text.

    Raises:
        EncodingError, LedgerError: as :func:`open_checkpoint`.
    """
    return _open(data, log, list(witnesses), extensions=True)


def _open(
    data: bytes, log: Sequence[NoteVerifier], witnesses: Sequence[NoteVerifier], extensions: bool
) -> SignedCheckpoint:
    note = Note.parse(data)
    if any(len(key.keys) > 1 for key in log):  # which key counts depends on the size
        size = Checkpoint.parse(note.text, extensions).size
        log = [key.at(size) for key in log]
    verify_note(note, log)
    checkpoint = Checkpoint.parse(note.text, extensions)
    if checkpoint.origin != log[0].name:
        raise LedgerError(f"the checkpoint is of the log {checkpoint.origin!r}, not of {log[0].name!r}")
    if any(key.algorithm != COSIGNATURE for key in witnesses):
        raise LedgerError("a witness key has type 0x04; this one was made for another purpose")
    signed = any(key.owns(signature) for key in witnesses for signature in note.signatures)
    return SignedCheckpoint(checkpoint, note, tuple(verify_note(note, witnesses)) if signed else ())
