# SPDX-License-Identifier: GPL-3.0-or-later
"""A log's directory, for one process at a time: ``log.sqlite``, ``checkpoint`` (the last signed note) and ``lock``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pymerkle import SqliteTree

from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.ledger import stored_tree
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.merkle import EMPTY_ROOT
from ragseal.ledger.note import NoteSigner
from ragseal.ledger.signing import LogSigner
from ragseal.ledger.storage import connect, storage
from ragseal.ledger.turned_tree import TURNS_INDEX, read_turns
from ragseal.runtime.durable import DirectoryLock, DurableFile, sync_directory, write_durably
from ragseal.runtime.edges.filesystem import why

APPLICATION_ID = 0x52414753

_DATABASE, _CHECKPOINT = "log.sqlite", "checkpoint"


@dataclass(frozen=True, slots=True)
class LogFolder:
    """A directory that this process holds.  Make it with :meth:`create` once, with :meth:`open` afterwards."""

    directory: Path
    lock: DirectoryLock
    tree: SqliteTree
    note: bytes  #: the last signed checkpoint
    signer: LogSigner
    stored: int  #: entries in the database: those under the note, and what a crash left unsigned

    @classmethod
    def create(cls, directory: Path, signer: NoteSigner | LogSigner) -> LogFolder:
        """Start a new, empty log.

        Raises:
            LedgerError: the directory holds a log already, or storage fails.
            ConfigurationError: the directory cannot be made.
        """
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_directory(directory.parent)
        except OSError as error:
            raise ConfigurationError(f"cannot make the ledger directory {directory}: {why(error, directory)}") from None
        lock = DirectoryLock(directory, "the ledger")
        try:
            for name in (_DATABASE, _CHECKPOINT):
                if (directory / name).exists():
                    raise LedgerError(
                        f"{directory} holds a ledger already ({name}): open it, or choose an empty directory"
                    )
            signer = LogSigner.of(signer, directory)
            note = signer.note(Checkpoint(signer.name, 0, EMPTY_ROOT))
            with storage("create the ledger", directory / _DATABASE):
                tree = connect(directory / _DATABASE)
                tree.con.execute(f"PRAGMA application_id={APPLICATION_ID}")
                sync_directory(directory)
                tree.con.execute(TURNS_INDEX)
                write_durably(directory / _CHECKPOINT, note)
            return cls(directory, lock, tree, note, signer, 0)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, directory: Path, signers: Sequence[NoteSigner], frozen: str | None) -> LogFolder:
        """Open an existing log, and compare it with its last signed checkpoint.

        Args:
            signers: as :meth:`ragseal.ledger.log.Log.open` takes them, the newest first.
            frozen: why nothing may be signed here, of a copy (SPEC G.6.2).

        Raises:
            LedgerError: no log there, in use by another process, signed by another key, or fewer or other entries
                than were signed (a restored backup: continuing it would fork the history that others hold); or more,
                where nothing may be signed.
        """
        for name in (_DATABASE, _CHECKPOINT):
            if not (directory / name).is_file():
                raise LedgerError(
                    f"no ledger in {directory} ({name} is missing): restore the whole folder from a backup, or fix the "
                    "path; a new log in its place would contradict what others hold of this one"
                )
        lock = DirectoryLock(directory, "the ledger")
        tree: SqliteTree | None = None
        try:
            with storage("open the ledger", directory / _DATABASE):
                for unfinished in directory.glob(f".{_CHECKPOINT}.*"):  # a crash while a checkpoint was written
                    unfinished.unlink()
                note = (directory / _CHECKPOINT).read_bytes()
                tree = connect(directory / _DATABASE)
                if tree.con.execute("PRAGMA application_id").fetchone() != APPLICATION_ID:
                    raise LedgerError(f"{directory / _DATABASE} is not a ragseal ledger")
                turns = read_turns(tree)
            known = LogSigner.among(signers, turns, directory)
            signed = open_checkpoint(note, known.verifier).checkpoint
            size = stored_tree.compared(tree, signed)
            if size > signed.size and frozen is not None:
                raise LedgerError(
                    f"the ledger in {directory} goes on behind its checkpoint, from {signed.size} to {size} entries: "
                    f"to open it would sign them, and {frozen}"
                )
            return cls(directory, lock, tree, note, known, size)
        except BaseException:
            if tree is not None:
                tree.close()
            lock.release()
            raise

    @property
    def database(self) -> Path:
        """The file of the entries."""
        return self.directory / _DATABASE

    def checkpoint_file(self) -> DurableFile:
        """The file of the last signed note, opened to be written again and again."""
        with storage("open the ledger", self.database):
            return DurableFile(self.directory / _CHECKPOINT)

    def let_go(self) -> None:
        """Of a folder that could not be made a log of."""
        self.tree.close()
        self.lock.release()
