# SPDX-License-Identifier: GPL-3.0-or-later
"""The log's book of cosignatures: the newest line of every witness, in order of arrival, beside the log.

Anybody may hand one in.  Witnesses that the operator named have places of their own, which nothing that others send can
take or hide, and then only they stand in notes; the rest share a limited room, from which the oldest line goes when a
new one comes.  Trust: none is
needed for the contents (every line verifies by itself); losing the book loses the witnesses' newest lines, and each
hands in another one at its next look.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ragseal.kernel.errors import AuditError, BudgetError, ConfigurationError, EncodingError, LedgerError
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.note import (
    COSIGNATURE,
    Note,
    NoteSignature,
    NoteVerifier,
    decode_base64,
    decode_decimal,
    encode_base64,
)
from ragseal.ledger.policy import Policy
from ragseal.ledger.published import PublicLog
from ragseal.ledger.quorum import QuorumNote
from ragseal.runtime.durable import append_durably, write_durably
from ragseal.runtime.edges.filesystem import why

MAX_CLOCK_SKEW = 60  #: seconds that a witness's clock may be ahead
MIN_INTERVAL = 5  #: seconds between two cosignatures of one witness, by its own clock
MAX_STRANGERS = 64  #: witnesses that the operator did not name
MAX_NAMED = 32  #: witnesses that the operator named
MAX_NOTE_LINES = 40  #: cosignatures shown with a checkpoint; more than MAX_NAMED
MAX_WAITING = 4  #: strangers' cosignatures that may wait for the disk at once
FILE_LINES = 4 * (MAX_STRANGERS + MAX_NAMED)  #: from here on the file is written anew with the newest lines only

_log = logging.getLogger("ragseal.ledger")


@dataclass(frozen=True, slots=True)
class Cosigned:
    """One cosignature: over which size, by whom, the line itself, its time in seconds."""

    size: int
    witness: NoteVerifier
    signature: NoteSignature

    @property
    def time(self) -> int:
        return int.from_bytes(self.signature.blob[:8], "big")

    def encode(self) -> bytes:
        """Its line in the book's file."""
        return f"{self.size} {self.witness.vkey()} {encode_base64(self.signature.blob)}\n".encode()


class CosignatureBook:
    """Accepts, keeps (file ``cosignatures`` in the ledger's directory) and serves cosignatures.  Thread-safe.

    The file grows by one synced line a cosignature and is replaced as a whole, in one step, after FILE_LINES of them.
    """

    def __init__(
        self,
        directory: Path,
        log: PublicLog,
        named: Iterable[NoteVerifier] = (),
        *,
        policy: Policy | None = None,
        repair: bool = True,
    ) -> None:
        """``named`` witnesses, and those of the ``policy``, never compete with strangers for room.

        Args:
            policy: whose quorum makes the note that :meth:`latest` gives.
            repair: remove what a crash left unfinished; otherwise :attr:`torn` says how much of the file that is.

        Raises:
            ConfigurationError: too many named, the key of a log, or two named keys that readers cannot tell apart.
            LedgerError: the book is damaged, or the log is shorter than what was cosigned.
        """
        wanted = () if policy is None else policy.of(log.verifier).verifiers()
        self._log, self._named = log, check_named((*named, *wanted), log.verifier)
        self._quorum = None if policy is None else QuorumNote(directory, log, policy)
        self._path = directory / "cosignatures"
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._newest: dict[str, Cosigned] = {}  # by vkey, in order of arrival; replaced, never changed: read unlocked
        self._lines = 0
        self._size = 0  #: bytes of the file that count
        self.torn = 0  #: bytes behind them
        try:
            if repair:
                for unfinished in directory.glob(f".{self._path.name}.*"):  # a crash while the file was written anew
                    unfinished.unlink()
            self._read()
            if repair and self.torn:
                _log.warning("%s: its last line was not written whole and is cut off", self._path)
                os.truncate(self._path, self._size)
        except OSError as error:
            raise LedgerError(f"cannot read {self._path}: {why(error, self._path)}") from None

    def _read(self) -> None:
        """Take the file's lines; the last one may be torn, if the power went while it was written."""
        data = self._path.read_bytes() if self._path.exists() else b""
        *lines, rest = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                item = _parse(line)
            except AuditError as error:
                if number == len(lines) and not rest:
                    break
                raise self._damaged(number, error) from None
            try:
                self._load(item)
            except AuditError as error:
                raise self._damaged(number, error) from None
            self._size += len(line) + 1
        self.torn = len(data) - self._size

    def _damaged(self, number: int, error: AuditError) -> LedgerError:
        return LedgerError(f"{self._path} line {number}: {error}. Move the file away to start anew")

    def add(self, size: int, vkey: str, line: str, now: int) -> None:
        """Verify a cosignature over the checkpoint of ``size`` and keep it; the same one again changes nothing.

        Raises:
            EncodingError: a malformed key or line.
            LedgerError: beyond the log, older than this witness's last, from the future, it does not verify, or a
                stranger's key that readers would take for another one.
            BudgetError: too soon after this witness's last one, or too many strangers at once.
        """
        witness = NoteVerifier.from_vkey(vkey)
        if witness.algorithm != COSIGNATURE:
            raise EncodingError("a witness key has type 0x04")
        signature = NoteSignature.parse(line)
        point = open_checkpoint(self._log.checkpoint_at(size), self._log.verifier).checkpoint
        time = witness.verify(point.text(), signature)
        if time > now + MAX_CLOCK_SKEW:
            raise LedgerError(f"the cosignature's time is {time - now} s ahead of this log's clock")
        new = Cosigned(size, witness, signature)
        if vkey in self._named:
            self._keep(new)
            return
        if not self._waiting.acquire(blocking=False):
            raise BudgetError("too many witnesses at once: try again, or ask the operator to name this key")
        try:
            self._keep(new)
        finally:
            self._waiting.release()

    def _keep(self, new: Cosigned) -> None:
        """A verified cosignature takes its place if its turn has come."""
        with self._lock:
            last = self._newest.get(new.witness.vkey())
            if last == new:
                return
            if last is not None:
                if new.size < last.size or new.time < last.time:
                    raise LedgerError(
                        f"{new.witness.name} cosigned size {last.size} at {last.time} already: only later ones"
                    )
                if new.time < last.time + MIN_INTERVAL:
                    raise BudgetError(f"one cosignature every {MIN_INTERVAL} s is enough: wait")
            following = self._with(new)
            if self._lines >= FILE_LINES:
                self._rewrite(following)
            else:
                self._write(new)
            self._newest = following
            if self._quorum is not None and new.size > self._quorum.size:
                self._quorum.offer(self.decorate(self._log.checkpoint_at(new.size), new.size))

    def newest(self, witness: NoteVerifier) -> Cosigned | None:
        """The newest line of a witness; None before its first."""
        return self._newest.get(witness.vkey())

    def latest(self) -> bytes | None:
        """The note of the largest cosigned size with its cosignatures; None before the first.

        With a policy, the largest size that a quorum of it cosigned, once there is one.  Where witnesses are named only
        theirs count: no stranger can put a note or a line of its own before a reader (SPEC G.6.8).
        """
        if self._quorum is not None and self._quorum.note is not None:
            return self.decorate(self._quorum.note, self._quorum.size)
        size = max((item.size for item in self._shown()), default=None)
        return None if size is None else self.decorate(self._log.checkpoint_at(size), size)

    def decorate(self, note: bytes, size: int) -> bytes:
        """A note of ``size`` with the last cosignature of every witness that stands at that size.

        Where witnesses are named, of those alone: a stranger's key may have been searched for until it has the name and
        id of a witness that only a reader knows, who would then refuse the note for its line.
        """
        found = [item for item in self._shown() if item.size == size]
        found.sort(key=lambda item: item.witness.vkey())
        return Note.parse(note).with_signatures(item.signature for item in found[:MAX_NOTE_LINES]).encode()

    def _shown(self) -> list[Cosigned]:
        """The newest lines that notes may carry: those of the named witnesses, or everybody's where none is named."""
        items = list(self._newest.values())
        return [item for item in items if item.witness.vkey() in self._named] if self._named else items

    def youngest(self) -> Cosigned | None:
        """The latest of the lines that notes may carry, by its witness's clock; None before the first."""
        return max(self._shown(), key=lambda item: item.time, default=None)

    def page(self, start: int, count: int) -> list[Cosigned]:
        """Newest cosignatures [start, start + count) in order of arrival, fewer at the end; at most one a witness."""
        return list(self._newest.values())[start : start + count]

    def _with(self, new: Cosigned) -> dict[str, Cosigned]:
        """The newest lines once ``new`` has arrived; LedgerError for a stranger that could be taken for another."""
        vkey = new.witness.vkey()
        named = vkey in self._named
        others = {key: item for key, item in self._newest.items() if key != vkey}
        if not named:
            # A key id has four bytes, so that a key with another's name and id can be searched for.  Its line would
            # make every reader who knows the other key refuse the whole note.  A line under the log's own name looks
            # like one by a key that it has turned to: readers would hash the whole log for that (SPEC G.6.13.11).
            if new.witness.name == self._log.verifier.name:
                raise LedgerError(f"a witness has a name of its own, not the log's {new.witness.name}")
            for known in (*self._log.verifier.keys, *self._named.values(), *(item.witness for item in others.values())):
                if known.owns(new.signature):
                    raise LedgerError(f"another key has the name {known.name} and the id {known.key_id.hex()}")
            strangers = [key for key in others if key not in self._named]
            for key in strangers[: max(0, len(strangers) + 1 - MAX_STRANGERS)]:
                del others[key]
        return {**others, vkey: new}

    def _load(self, item: Cosigned) -> None:
        if item.size > self._log.size:
            raise LedgerError(f"size {item.size} was cosigned, the log has {self._log.size}: it was rolled back")
        self._lines += 1
        with contextlib.suppress(LedgerError):  # a stranger whose name and id belong to a key that was named since
            self._newest = self._with(item)

    def _write(self, item: Cosigned) -> None:
        try:
            self._size = append_durably(self._path, item.encode(), self._size)
        except OSError as error:
            raise LedgerError(f"cannot keep the cosignature: {why(error)}") from None
        self._lines += 1

    def _rewrite(self, newest: dict[str, Cosigned]) -> None:
        data = b"".join(item.encode() for item in newest.values())
        try:
            write_durably(self._path, data)
        except OSError as error:
            raise LedgerError(f"cannot keep the cosignature: {why(error)}") from None
        self._size, self._lines = len(data), len(newest)


def check_named(keys: Iterable[NoteVerifier], log: NoteVerifier) -> dict[str, NoteVerifier]:
    """The witnesses that an operator names, by vkey.

    Raises:
        ConfigurationError: too many, a key that is no witness's, or two that readers cannot tell apart.
    """
    named = {key.vkey(): key for key in keys}
    if len(named) > MAX_NAMED:
        raise ConfigurationError(f"{len(named)} witnesses are named, at most {MAX_NAMED} can be")
    for key in named.values():
        if key.algorithm != COSIGNATURE:
            raise ConfigurationError(
                f"the key of {key.name} is not a witness's: those have type 0x04 (`ragseal-observer keygen`)"
            )
    seen = [(key.name, key.key_id) for key in (*log.keys, *named.values())]
    if len(set(seen)) != len(seen):
        raise ConfigurationError("two of the named witnesses have one name and one key id: name one of them")
    return named


def _parse(line: bytes) -> Cosigned:
    try:
        size, vkey, blob = line.decode("utf-8").split(" ")
    except ValueError:  # also UnicodeDecodeError
        raise EncodingError("expected size, key and signature") from None
    witness = NoteVerifier.from_vkey(vkey)
    signature = NoteSignature(witness.name, witness.key_id, decode_base64(blob, "signature"))
    if witness.algorithm != COSIGNATURE or len(signature.blob) != 72:
        raise EncodingError("not a cosignature")
    return Cosigned(decode_decimal(size, "size"), witness, signature)
