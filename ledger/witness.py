# SPDX-License-Identifier: GPL-3.0-or-later
"""The cosigning rule of a witness (C2SP tlog-witness): one growing history per log, or evidence against it.

A witness remembers the last checkpoint that it cosigned, cosigns a newer one only if that provably continues it, and
lets no signature out before the new state is on disk: a crash can cost a cosignature, never make a contradicting one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ragseal.kernel.errors import ConfigurationError, EncodingError, LedgerError
from ragseal.ledger.checkpoint import Checkpoint, SignedCheckpoint, open_foreign
from ragseal.ledger.merkle import verify_consistency
from ragseal.ledger.note import (
    COSIGNATURE,
    Note,
    NoteSignature,
    NoteSigner,
    NoteVerifier,
    encode_base64,
    line_of,
    verify_note,
)
from ragseal.ledger.turns import LogKey
from ragseal.runtime.durable import DirectoryLock, write_durably
from ragseal.runtime.edges.filesystem import why

LogKeys = NoteVerifier | Sequence[NoteVerifier]  #: one log's key, or several (a new one beside the one given up)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Two notes of one log, both signed by it, that cannot both be true; or two turns of its key (``turned-twice``).

    ``kind``: ``fork`` (same size, other root: both signatures convict the log by themselves), ``rewritten`` (the
    entries that give the newer root do not begin with those that gave the older one: whoever hashes the log finds it).
    """

    kind: str
    older: bytes
    newer: bytes


class UnprovenError(LedgerError):
    """The log has not shown that it only grew: an older note, no proof, or a wrong one.

    None of that is signed as such: whoever stands in between can replay an old note or spoil a proof, and a busy log
    gives none.  So nothing is cosigned, nothing is concluded, and the log is asked again.
    """


class ForkError(LedgerError):
    """A log contradicts itself by its own signatures.  ``evidence`` is what to show to others."""

    def __init__(self, message: str, evidence: Evidence) -> None:
        super().__init__(message)
        self.evidence = evidence


def check_growth(older: SignedCheckpoint, newer: SignedCheckpoint, path: Sequence[bytes]) -> None:
    """Check that ``newer`` continues ``older``; both are verified notes of one log.

    Raises:
        ForkError: two roots of one size, with the evidence.
        UnprovenError: an older note, or a path that proves nothing.
    """
    old, new = older.checkpoint, newer.checkpoint
    notes = older.note.encode(), newer.note.encode()
    if new.size < old.size:
        raise UnprovenError(
            f"{new.origin} shows an older checkpoint of {new.size} entries, {old.size} were signed before: it was "
            "rolled back, or somebody replays old notes"
        )
    if new.size == old.size and new.root != old.root and older.void:
        raise void_memory(older)
    if new.size == old.size and new.root != old.root:
        raise ForkError(f"{new.origin} signed two different logs of {new.size} entries", Evidence("fork", *notes))
    if new.size == old.size or old.size == 0:
        if path:
            raise UnprovenError("nothing to prove between these sizes, but a proof was given")
        return
    try:
        verify_consistency(old.size, new.size, path, old.root, new.root)
    except LedgerError as error:
        raise UnprovenError(f"{new.origin} does not prove that it continues what it signed before ({error})") from None


def void_memory(older: SignedCheckpoint) -> UnprovenError:
    """What is remembered was signed by a key alone that the log had given up by that size: it convicts nobody."""
    return UnprovenError(
        f"{older.checkpoint.origin} does not continue the {older.checkpoint.size} entries remembered here, which a key "
        "signed that the log had given up by then: a thief of that key showed them, or the log did. Compare with "
        "others what they were shown, then use a different state folder"
    )


def keys_of(log: LogKeys) -> Sequence[NoteVerifier]:
    """The keys of one log, all of one name, which is its origin.

    Raises:
        ConfigurationError: none, or of different names.
    """
    keys = [log] if isinstance(log, NoteVerifier) else list(log)  # one with turns knows which counts at which size
    if len({key.name for key in keys}) != 1:
        raise ConfigurationError("the keys of one log have one name, which is its origin")
    return keys


def state_name(origin: str) -> str:
    """File name for what is remembered about a log."""
    return hashlib.sha256(origin.encode("utf-8")).hexdigest()


class Witness:
    """A cosigner with its memory in a directory (one file per log, one process at a time)."""

    def __init__(self, directory: Path, signer: NoteSigner) -> None:
        """Raises ConfigurationError for a key that is no witness key, LedgerError if another process has the memory."""
        if signer.algorithm != COSIGNATURE:
            raise ConfigurationError(f"{signer.name}: a witness signs with a key of type 0x04 of its own")
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot make {directory}: {why(error, directory)}") from None
        self._directory, self._signer = directory, signer
        self._lock = DirectoryLock(
            directory, "what this observer remembers", "; or give this one a folder and key of its own (keygen --state)"
        )

    def close(self) -> None:
        self._lock.release()

    @property
    def verifier(self) -> NoteVerifier:
        return self._signer.verifier

    def remembered(self, log: LogKeys) -> SignedCheckpoint | None:
        """The last checkpoint of this log that this witness cosigned; None at first contact.

        Raises:
            LedgerError: the memory is unreadable or not what this witness signed.
        """
        keys = keys_of(log)
        path = self._path(keys)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(f"cannot read the witness's memory {path}: {why(error, path)}") from None
        try:
            note = Note.parse(data)
        except EncodingError as error:
            raise LedgerError(f"the witness's memory {path} is damaged ({error}): use another state folder") from None
        known = [one for key in keys for one in key.keys]
        found = verify_note(note, [*known, self.verifier])  # a key that the log has given up may be no more known here
        own = tuple(one for one in found if one.verifier == self.verifier)
        if not own:
            raise LedgerError(f"{path} was not written by this witness (or with another key): use another state folder")
        checkpoint = Checkpoint.parse(note.text, extensions=True)
        if checkpoint.origin != keys[0].name:
            raise LedgerError(f"{path} is about the log {checkpoint.origin!r}: it was moved here by somebody")
        counted = [key.at(checkpoint.size) for key in keys]
        void = len(known) > len(keys) and not any(one.verifier in counted for one in found)
        return SignedCheckpoint(checkpoint, note, own, void)

    def cosign(self, note: bytes, log: LogKeys, path: Sequence[bytes], time: int) -> NoteSignature:
        """Check a checkpoint against memory, remember it, and cosign it at ``time`` (seconds).

        ``path`` proves consistency from the remembered size (empty at first contact, from size 0, or the same size).
        The same checkpoint again within a second gets the same line, and nothing is written.  One caller at a time.
        Of each key of the log one line is remembered that verifies, however many the note has, and what is written can
        be read again (SPEC G.6.10).

        Raises:
            EncodingError: the note is malformed, or too long to be remembered with this witness's line.
            LedgerError: it does not hold, the memory is unreadable, or the clock went backwards.
            ForkError: it contradicts what this witness cosigned before; nothing is signed or forgotten.
            UnprovenError: it is not proven to continue that; ask again.
        """
        keys = keys_of(log)
        newer = open_foreign(note, keys)
        older = self.remembered(keys)
        if older is None:
            if path:
                raise UnprovenError("a proof was given, but nothing is remembered of this log")
        else:
            check_growth(older, newer, path)
            last = older.witnesses[-1]
            if time < last.time:
                raise LedgerError("the clock of this witness went backwards: set it right before cosigning again")
            if time == last.time and newer.note.text == older.note.text:
                return last.signature
        signature = self._signer.sign(newer.note.text, time)
        known = [one for key in keys for one in key.keys]
        lines = [line_of(newer.note, key) for key in known]  # one that does not verify is whoever's stood in between
        state = Note(newer.note.text, (*(line for line in lines if line is not None), signature)).encode()
        Note.parse(state)  # whatever is written over the old memory can be read: else this log is lost to the witness
        try:
            write_durably(self._path(keys), state, mode=0o600)
        except OSError as error:
            raise LedgerError(f"cannot keep the witness's memory: {why(error)}; nothing was cosigned") from None
        return signature

    def _path(self, keys: Sequence[NoteVerifier]) -> Path:
        return self._directory / f"{state_name(keys[0].name)}.note"


# --- evidence --------------------------------------------------------------------------------------------------------


def standing_alarm(directory: Path, origin: str) -> tuple[str, Path] | None:
    """An alarm about a log that nobody has moved away: what happened, and the folder with the evidence."""
    for folder in sorted(directory.glob(f"alarm-{state_name(origin)[:16]}-*")):
        try:
            return str(json.loads((folder / "alarm.json").read_text("utf-8"))["message"]), folder
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return "(its description is unreadable)", folder
    return None


def keep_evidence(directory: Path, log: LogKeys, error: ForkError, now: datetime) -> Path:
    """Write the evidence to a folder of its own: both signed notes verify with the log's keys and their turns alone.

    Raises:
        LedgerError: it cannot be written.
    """
    keys = keys_of(log)
    folder = directory / f"alarm-{state_name(keys[0].name)[:16]}-{now:%Y%m%dT%H%M%SZ}"
    evidence = error.evidence
    about: dict[str, Any] = {
        "kind": evidence.kind,
        "message": str(error),
        "log_key": " ".join(key.vkey() for key in keys),
        "turns": [encode_base64(turn.encode()) for key in keys if isinstance(key, LogKey) for turn in key.turns],
        "time": now.isoformat(),
    }
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for name, note in (("older.note", evidence.older), ("newer.note", evidence.newer)):
            if evidence.kind == "turned-twice":  # the statements, as they would stand in the log
                write_durably((folder / name).with_suffix(".rotation"), note, mode=0o600)
            elif note:
                write_durably(folder / name, Note.parse(note).encode(), mode=0o600)
        write_durably(folder / "alarm.json", json.dumps(about, indent=1).encode(), mode=0o600)
    except OSError as problem:
        raise LedgerError(f"{error}; and the evidence cannot be kept: {why(problem)}") from None
    return folder
