# SPDX-License-Identifier: GPL-3.0-or-later
"""The append-only log: entries in SQLite (pymerkle), one writer, group commit, signed checkpoints.

Order of every commit: build entries, one durable transaction, sign the checkpoints, make the last one durable in a
file of its own, answer.  Nothing is signed before it is durable, nothing is answered before it is signed, so there is
no promise stage.  Every file that a commit needs is open from the start: a program whose descriptors strangers have
taken goes on appending.

Every entry is answered with the checkpoint of the size at which it is the last one: its proof is a function of the
log alone, so that whoever asks again, after whatever crash, gets the same bytes.

Appending, turning the key and reading stand in one file, because each of them answers for the checkpoint signed last.

Trust: whoever can change these files can stop the log, and is caught by :meth:`Log.fsck`, by the comparison at start,
and by every witness and receipt; only the private key can make another history look signed.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ragseal.kernel.errors import AuditError, LedgerError
from ragseal.kernel.rotation import Rotation
from ragseal.ledger import stored_tree
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.log_folder import LogFolder
from ragseal.ledger.merkle import Frontier, consistency_path, inclusion_path, leaf_hash
from ragseal.ledger.note import ED25519, NoteSigner, NoteVerifier
from ragseal.ledger.receipt import InclusionBundle
from ragseal.ledger.signing import LogSigner
from ragseal.ledger.storage import TransientError, storage
from ragseal.ledger.turned_tree import Roots
from ragseal.ledger.turns import TurnProof, is_turn
from ragseal.runtime.group_commit import Batches

MAX_ENTRY_BYTES = 65_535  #: C2SP tlog-tiles prefixes an entry with 16 bits of length
MAX_BATCH = 256  #: appends that share one commit

Builder = Callable[[int], bytes]
Watcher = Callable[[int, bytes], None]


@dataclass(frozen=True, slots=True)
class Appended:
    """What one caller of append gets: its entry and where the log has it."""

    entry: bytes
    bundle: InclusionBundle

    @property
    def index(self) -> int:
        return self.bundle.index


class Log:
    """One open log.  Make it with :meth:`create` once, :meth:`open` afterwards, and :meth:`close` it.

    Reads may come from any thread; :meth:`append` belongs to one event loop; :meth:`append_now` is for programs without
    one.  At most one process can have a directory open.
    """

    def __init__(self, folder: LogFolder) -> None:
        """For :meth:`create` and :meth:`open`."""
        self._folder, self._signer, self._tree, self._note = folder, folder.signer, folder.tree, folder.note
        self._checkpoint = open_checkpoint(folder.note, folder.signer.verifier).checkpoint
        self._frontier = stored_tree.frontier(folder.tree, self._checkpoint.size)
        self._file = folder.checkpoint_file()
        self._watcher: Watcher = lambda size, note: None
        self._proofs: dict[int, TurnProof] = {}  #: of turns, by number
        self._writing = threading.Lock()
        self._failure: str | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ledger")
        self._queue: Batches[Builder, Appended] = Batches(self._commit_queued, MAX_BATCH, self._worker)

    # --- open and close

    @classmethod
    def create(cls, directory: Path, signer: NoteSigner | LogSigner) -> Log:
        """Start a new, empty log whose origin is the signer's name; a copy of another takes that one's signer.

        Raises:
            LedgerError, ConfigurationError: as :meth:`ragseal.ledger.log_folder.LogFolder.create`.
        """
        folder = LogFolder.create(directory, signer)
        try:
            return cls(folder)
        except BaseException:
            folder.let_go()
            raise

    @classmethod
    def open(cls, directory: Path, signer: NoteSigner, *others: NoteSigner, frozen: str | None = None) -> Log:
        """Open an existing log, compare it with its last signed checkpoint, and sign what a crash left unsigned.

        Args:
            signer: its newest key, as far as the caller knows.
            others: a key that it may have turned to meanwhile, and one that it was given up for (SPEC G.6.13).
            frozen: why nothing may be signed here, of a copy (SPEC G.6.2).

        Raises:
            LedgerError: as :meth:`ragseal.ledger.log_folder.LogFolder.open`.
        """
        folder = LogFolder.open(directory, (signer, *others), frozen)
        try:
            log = cls(folder)
            if folder.stored > log.size:
                log._sign_tail(folder.stored)
            return log
        except BaseException:
            folder.let_go()
            raise

    def _sign_tail(self, size: int) -> None:
        """Sign what a crash left stored and unsigned."""
        frontier = stored_tree.frontier(self._tree, size)
        self._publish(frontier, self._signer.note(Checkpoint(self.origin, size, frontier.root())))

    def watch(self, watcher: Watcher) -> None:
        """Tell ``watcher`` (size, note) of every checkpoint that is signed, before anybody is answered.

        It runs in the writer's thread; what it raises stops the log as failing storage does.
        """
        self._watcher = watcher

    def close(self) -> None:
        """Finish what is being written, then let go of the directory.  Appends still waiting get LedgerError."""
        self._failure = self._failure or "the ledger is closed"
        self._queue.refuse(LedgerError(self._failure))
        self._worker.shutdown(wait=True)
        with self._writing, contextlib.suppress(sqlite3.Error):
            self._tree.close()
        self._file.close()
        self._folder.lock.release()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- append

    async def append(self, build: Builder) -> Appended:
        """Queue one entry; returns when it is durable, under a signed checkpoint and provable.

        ``build(index)`` makes the entry (at most 65,535 bytes).  The single writer calls it in queue order, in a worker
        thread, at most once, with the index that the entry gets: sequence number and time belong in there.  What it
        raises reaches this caller alone and the index goes to the next one.  Cancelling a waiting call withdraws it;
        once the writer has it, it is recorded all the same (callers retry with their own request id).

        Raises:
            LedgerError: storage failed, so nothing of this batch was signed, or the log is closed or stopped.
        """
        self._check_usable()
        return await self._queue.submit(build)

    def append_now(self, builders: Sequence[Builder]) -> list[Appended | Exception]:
        """Append a batch from this thread: per builder what it appended, or what it raised.

        Raises:
            LedgerError: as :meth:`append`.
        """
        return self._commit(builders)

    def rotate(self, new: NoteSigner, overlap: int = 0) -> Rotation:
        """Sign the log with another key from here on: one entry, then a note that both keys sign.  SPEC G.6.13.

        The new key has to be durable before; a crash behind the entry leaves a log that :meth:`open` opens with both.

        Args:
            overlap: for so many entries more the old key signs every note as well.

        Raises:
            LedgerError: as :meth:`append`; or a key of another name, that the log had, or in the last turn's overlap.
            EncodingError: an overlap out of range.
        """
        if new.name != self.origin or new.algorithm != ED25519:
            raise LedgerError(f"the new key has the name of the log, {self.origin}, and type 0x01")
        with self._writing:
            self._check_usable()
            signer, index = self._signer, self._checkpoint.size
            turn = signer.turn(new, index, self._checkpoint.root, overlap)
            self._signer = replace(signer, signers=(new, *signer.signers)).turned(turn)
            try:
                self._store([turn.encode()], index)
            except LedgerError:
                if self._failure is None:  # certainly nothing was stored
                    self._signer = signer
                raise
            return turn

    def turns(self) -> list[TurnProof]:
        """Every turn with what proves it to whoever does not hash the log; each is made once, whoever asks."""
        return [self.turn_proof(turn) for turn in self._signer.log.turns]

    def turn_proof(self, turn: Rotation) -> TurnProof:
        if turn.number not in self._proofs:
            size = turn.index + 1
            path = tuple(self.inclusion(turn.index, size))
            self._proofs[turn.number] = TurnProof(turn, path, self.checkpoint_at(size))
        return self._proofs[turn.number]

    def give_up_keys(self) -> list[bytes]:
        """Keep the lines of every key that has signed all it will; gives those public keys: they may be removed now.

        Raises:
            LedgerError: a line cannot be made or kept.
        """
        over = self._signer.over(self.size)
        for number in over:
            if self._signer.key(self._signer.log.keys[number].public_key) is not None:
                self._signer.keep_lines(
                    number, Roots(partial(stored_tree.frontier, self._tree), self.leaf_hashes, self.size).at
                )
        return [self._signer.log.keys[number].public_key for number in over]

    def _commit_queued(self, builders: Sequence[Builder]) -> list[Appended | Exception]:
        try:
            return self._commit(builders)
        except AuditError:
            raise
        except Exception as error:
            raise LedgerError(f"append: {error}") from error

    def _commit(self, builders: Sequence[Builder]) -> list[Appended | Exception]:
        """One transaction and one checkpoint for all builders that give an entry."""
        with self._writing:
            self._check_usable()
            first = self._checkpoint.size
            entries: list[bytes] = []
            outcomes: list[int | Exception] = []
            for build in builders:
                try:
                    entry = build(first + len(entries))
                    if not isinstance(entry, bytes) or len(entry) > MAX_ENTRY_BYTES:
                        raise LedgerError(f"a ledger entry is at most {MAX_ENTRY_BYTES} bytes: log a digest instead")
                    if is_turn(entry) and Rotation.decode(entry) not in self._signer.log.turns:
                        raise LedgerError("a log's key is turned by rotate(), so that the new key is there to sign")
                except Exception as error:
                    outcomes.append(error)
                else:
                    outcomes.append(len(entries))
                    entries.append(entry)
            bundles = self._store(entries, first) if entries else []
            return [
                outcome if isinstance(outcome, Exception) else Appended(entries[outcome], bundles[outcome])
                for outcome in outcomes
            ]

    def _store(self, entries: list[bytes], first: int) -> list[InclusionBundle]:
        """Durable transaction, then signatures.  Stops the log if it cannot tell what storage holds."""
        try:
            with storage("append", self._folder.database):
                self._tree.append_entries(entries)
        except LedgerError as error:
            try:
                unchanged = self._tree.get_size() == first
            except sqlite3.Error:
                unchanged = False
            if not unchanged or not isinstance(error, TransientError):
                # After a failed sync nobody knows what is on disk: reopening reads it again and signs what is there.
                self._failure = f"the ledger stopped after a storage failure ({error}); restart to recover"
            raise
        try:
            return self._sign(entries, first)
        except LedgerError as error:
            self._failure = f"the ledger stopped after a storage failure ({error}); restart to recover"
            raise

    def _sign(self, entries: list[bytes], first: int) -> list[InclusionBundle]:
        """A checkpoint for every entry, all of them durable; the last one is kept before anyone can see any."""
        frontier, bundles = self._frontier.copy(), []
        for index, entry in enumerate(entries, first):
            # The left siblings of a tree's last leaf are its frontier, the smallest first: RFC 9162's inclusion path.
            path = tuple(reversed(frontier.roots))
            frontier.add(leaf_hash(entry))
            note = self._signer.note(Checkpoint(self.origin, index + 1, frontier.root()))
            bundles.append(InclusionBundle(index, path, note))
        self._publish(frontier, bundles[-1].checkpoint)
        return bundles

    def _publish(self, frontier: Frontier, note: bytes) -> None:
        """Keep a signed note of durable entries before anyone can see it."""
        with storage("publish a checkpoint", self._folder.database):
            self._file.write(note)
        try:
            self._watcher(frontier.size, note)
        except AuditError as error:
            raise LedgerError(f"publish a checkpoint: {error}") from None
        self._checkpoint = Checkpoint(self._signer.name, frontier.size, frontier.root())
        self._frontier, self._note = frontier, note

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise LedgerError(self._failure)

    # --- read: what is signed, never more

    @property
    def origin(self) -> str:
        return self._signer.name

    @property
    def signer(self) -> LogSigner:
        """What signs this log: a copy of it is made with the same."""
        return self._signer

    @property
    def verifier(self) -> NoteVerifier:
        """The log's public key, with its turns: every reader must be given the first by another way than this log."""
        return self._signer.verifier

    @property
    def size(self) -> int:
        """Number of entries under the last signed checkpoint."""
        return self._checkpoint.size

    def checkpoint(self) -> bytes:
        """The last signed checkpoint, as a note."""
        return self._note

    def published(self) -> tuple[int, bytes]:
        """Size and note of the last signed checkpoint, of one moment."""
        note = self._note
        return open_checkpoint(note, self.verifier).checkpoint.size, note

    def checkpoint_at(self, size: int) -> bytes:
        """The signed note of an earlier size.  Ed25519 is deterministic, so these are the bytes published back then."""
        self._check_size(size)
        with storage("read"):
            root = self._tree.get_root(size)
        return self._signer.note(Checkpoint(self.origin, size, root))

    def entry(self, index: int) -> bytes:
        """Entry ``index``, counting from 0.  LedgerError beyond the size."""
        return self.entries(index, 1)[0]

    def entries(self, start: int, count: int) -> list[bytes]:
        """Entries [start, start + count), all of them.  LedgerError if one is beyond the size."""
        return self._stored("entry", start, count)

    def leaf_hashes(self, start: int, count: int) -> list[bytes]:
        """Leaf hashes of entries [start, start + count) as they are stored; :meth:`fsck` holds them to the entries."""
        return self._stored("hash", start, count)

    def _stored(self, column: stored_tree.Column, start: int, count: int) -> list[bytes]:
        if start < 0 or count < 1 or start + count > self.size:
            raise LedgerError(f"entries {start} to {start + count - 1} are not all in a log of {self.size}")
        return stored_tree.rows(self._tree, column, start, count)

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """RFC 9162 inclusion path of entry ``index`` in the first ``size`` entries."""
        self._check_size(size)
        with storage("read"), self._tree.lock:
            return inclusion_path(index, size, self._tree._get_root)

    def consistency(self, old: int, new: int) -> list[bytes]:
        """RFC 9162 consistency path from ``old`` to ``new`` entries (pymerkle's own proofs have another shape)."""
        self._check_size(new)
        with storage("read"), self._tree.lock:
            return consistency_path(old, new, self._tree._get_root)

    def fsck(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Hash every entry again, rebuild the tree, and compare with stored hashes and the signed checkpoint.

        ``progress(done, total)`` is called about every thousand entries.

        Raises:
            LedgerError: the first entry whose stored hash is not its own, or a root that is not the signed one.
        """
        stored_tree.check(self._tree, self._checkpoint, progress)

    def _check_size(self, size: int) -> None:
        if not 0 <= size <= self.size:
            raise LedgerError(f"size {size} is beyond the signed size {self.size}")
