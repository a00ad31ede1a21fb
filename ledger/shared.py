# SPDX-License-Identifier: GPL-3.0-or-later
"""A log of one owner that several of its processes append to, one after the other, and others read.

:class:`ragseal.ledger.log.Log` belongs to one process, which keeps it open.  Here each process has it for the moment of
an append or a read, and waits for its turn.  The folder holds what a log's holds and the log's keys
(:mod:`ragseal.ledger.log_keys`), and beside it lies ``.<folder>.turn``, the file whose lock is the turn; the operating
system ends a turn whose process has died.

The folder is made in one step, key and empty log together, so a crash leaves all of it or nothing.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.log import Appended, Builder, Log
from ragseal.ledger.log_keys import LOG_KEY_FILE, load_signers, log_key, rotate, settle
from ragseal.ledger.merkle import MerkleTree, leaf_hash
from ragseal.ledger.note import NoteSigner, NoteVerifier
from ragseal.ledger.signing import LogSigner
from ragseal.ledger.turns import LogKey, TurnError, TurnProof
from ragseal.runtime.durable import place_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.edges.locks import holder, try_lock
from ragseal.runtime.keyfile import load_key, save_key

PATIENCE = 60.0  #: seconds to wait for a turn
_POLL = 0.02
_PAGE = 1024
_CHECKPOINT = "checkpoint"


class SharedLog:
    """The log in a folder, made when it is first needed.  Any thread, any process of the folder's owner."""

    def __init__(self, directory: Path, origin: str, patience: float = PATIENCE) -> None:
        """``origin``: the log's name; ``patience``: seconds to wait for a turn.  Touches nothing."""
        self.directory, self._origin, self._patience = directory, origin, patience

    def verifier(self) -> NoteVerifier:
        """The log's public key with its turns; the log is made if there is none.

        Raises:
            ConfigurationError: a key cannot be read, or the folder not be made.
            LedgerError: another process has the turn for too long, or storage fails.
        """
        if not (self.directory / LOG_KEY_FILE).is_file():
            with self._turn():
                self._make()
        return log_key(self.directory, self._signers()[0])

    def append(self, build: Builder, known: NoteVerifier | None = None) -> Appended:
        """Append one entry, durable and under a signed checkpoint on return.

        Args:
            known: the log's key as what is entered says it.

        Raises:
            ConfigurationError, LedgerError: as :meth:`verifier`; whether the entry is there then, only the log tells.
            TurnError: the key has turned since it was ``known``; nothing was appended.
            AuditError: whatever ``build`` raises; nothing was appended.
        """
        with self._turn(), self._opened() as log:
            if known is not None and known.vkey() == log.verifier.vkey() and known.keys != log.verifier.keys:
                raise TurnError(f"the key of {self._origin} has turned meanwhile")
            outcome = log.append_now([build])[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def copy(self, known: LogCopy | None = None) -> LogCopy:
        """The log as it stands now, hashed to its signed root; what is ``known`` of it is not read again.

        Raises:
            ConfigurationError, LedgerError: as :meth:`verifier`, or it is not what was known before.
        """
        if known is not None and known.note == self._note():
            return known
        with self._turn(), self._opened() as log:
            entries = list(known.all) if known is not None else []
            size, note = log.published()
            while len(entries) < size:
                entries += log.entries(len(entries), min(_PAGE, size - len(entries)))
            return LogCopy(log.signer, entries, note)

    def rotate(self, overlap: int) -> LogKey:
        """Sign the log with a new key from here on (SPEC G.6.13); gives its key behind the turn.

        Raises:
            ConfigurationError, LedgerError: as :meth:`verifier`, or as :func:`ragseal.ledger.log_keys.rotate`.
            EncodingError: an overlap out of range.
        """
        with self._turn(), self._opened() as log:
            return rotate(self.directory, log, overlap, Ed25519PrivateKey.generate())

    # --- folder ---

    def _signers(self) -> tuple[NoteSigner, ...]:
        return load_signers(self.directory, self._origin)

    def _note(self) -> bytes:
        """It may be older than the log by the time it is used: then it is read once more, in turn."""
        self.verifier()
        try:
            return (self.directory / _CHECKPOINT).read_bytes()
        except OSError as error:
            raise LedgerError(
                f"cannot read {self.directory / _CHECKPOINT}: {why(error, self.directory / _CHECKPOINT)}"
            ) from None

    @contextmanager
    def _opened(self) -> Iterator[Log]:
        self._make()
        with Log.open(self.directory, *self._signers()) as log:
            settle(self.directory, log)
            yield log

    def _make(self) -> None:
        """Key and empty log, in one step; in this process's turn."""
        if self.directory.exists():
            return
        made = self.directory.with_name(f".{self.directory.name}.new")
        try:
            shutil.rmtree(made, ignore_errors=True)  # what a crash left
            made.mkdir(mode=0o700, parents=True)
            save_key(made / LOG_KEY_FILE, Ed25519PrivateKey.generate())
            Log.create(made, NoteSigner(self._origin, load_key(made / LOG_KEY_FILE))).close()
            place_durably(made, self.directory)
        except OSError as error:
            raise ConfigurationError(f"cannot make {self.directory}: {why(error, self.directory)}") from None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Nobody else has the log meanwhile."""
        path = self.directory.with_name(f".{self.directory.name}.turn")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(f"cannot open {path}: {why(error, path)}") from None
        end = time.monotonic() + self._patience
        try:
            while True:
                if try_lock(descriptor, path):
                    break
                if time.monotonic() >= end:
                    raise LedgerError(
                        f"another process{holder(descriptor)} has had {self.directory} for {self._patience:g} s: end "
                        "it, or try again"
                    )
                time.sleep(_POLL)
            yield
        finally:
            os.close(descriptor)


class LogCopy:
    """A log as it was at one moment, in memory: what :class:`ragseal.ledger.published.ReadableLog` reads."""

    def __init__(self, signer: LogSigner, entries: Sequence[bytes], note: bytes) -> None:
        """Raises LedgerError: the entries do not give the root that the note signs."""
        self._signer, self.all, self.note = signer, tuple(entries), note
        self._tree = MerkleTree(self.all)
        self._proofs: list[TurnProof] = []
        point = open_checkpoint(note, signer.verifier).checkpoint
        if (point.size, point.root) != (len(self.all), self._tree.root()):
            raise LedgerError(
                f"the entries of {signer.name} are not those that its key signed: restore the newest copy"
            )

    @property
    def origin(self) -> str:
        return self._signer.name

    @property
    def verifier(self) -> NoteVerifier:
        return self._signer.verifier

    def published(self) -> tuple[int, bytes]:
        return len(self.all), self.note

    def checkpoint_at(self, size: int) -> bytes:
        """The signed note of an earlier size, by the key that counts there: these are the bytes of back then."""
        return self._signer.note(Checkpoint(self.origin, size, self._tree.root(size)))

    def entries(self, start: int, count: int) -> list[bytes]:
        return list(self.all[start : start + count])

    def leaf_hashes(self, start: int, count: int) -> list[bytes]:
        return [leaf_hash(entry) for entry in self.all[start : start + count]]

    def inclusion(self, index: int, size: int) -> list[bytes]:
        return self._tree.path(index, size)

    def consistency(self, old: int, new: int) -> list[bytes]:
        return self._tree.consistency(old, new)

    def turns(self) -> list[TurnProof]:
        """Every turn with what proves it to whoever does not hash the log."""
        if len(self._proofs) < len(self._signer.log.turns):
            self._proofs = [
                TurnProof(turn, tuple(self.inclusion(turn.index, turn.index + 1)), self.checkpoint_at(turn.index + 1))
                for turn in self._signer.log.turns
            ]
        return self._proofs


class LiveCopy:
    """A :class:`SharedLog` as its readers see it: each look at its end reads what other processes have appended.

    Where that is impossible for the moment, the last copy stands: a reader is shown an older end, never a wrong one.
    """

    def __init__(self, log: SharedLog) -> None:
        """Raises as :meth:`SharedLog.copy`."""
        self._log, self._lock = log, threading.Lock()
        self._copy = log.copy()

    def _now(self) -> LogCopy:
        with self._lock:
            with suppress(LedgerError, ConfigurationError):
                self._copy = self._log.copy(self._copy)
            return self._copy

    @property
    def origin(self) -> str:
        return self._copy.origin

    @property
    def verifier(self) -> NoteVerifier:
        return self._copy.verifier

    def published(self) -> tuple[int, bytes]:
        return self._now().published()

    def checkpoint_at(self, size: int) -> bytes:
        return self._copy.checkpoint_at(size)

    def entries(self, start: int, count: int) -> list[bytes]:
        return self._copy.entries(start, count)

    def leaf_hashes(self, start: int, count: int) -> list[bytes]:
        return self._copy.leaf_hashes(start, count)

    def inclusion(self, index: int, size: int) -> list[bytes]:
        return self._copy.inclusion(index, size)

    def consistency(self, old: int, new: int) -> list[bytes]:
        return self._copy.consistency(old, new)

    def turns(self) -> list[TurnProof]:
        return self._copy.turns()


class CopySource:
    """A copy as an exporter of tiles reads it (:class:`ragseal.ledger.tiles.TileSource`)."""

    def __init__(self, copy: LogCopy) -> None:
        self._copy = copy

    async def checkpoint(self) -> bytes:
        return self._copy.note

    async def rotations(self) -> list[bytes]:
        return [proof.encode() for proof in self._copy.turns()]

    async def cosigned(self) -> bytes | None:
        """Witnesses' lines are with whoever serves the log: none here."""
        return None

    async def entries(self, start: int, count: int) -> list[bytes]:
        return self._copy.entries(start, count)
