# SPDX-License-Identifier: GPL-3.0-or-later
"""Following a log: verify, re-hash every entry, cosign; keep evidence and stop when the log contradicts itself.

Entries are hashed again here, not only proven consistent: a log can serve entries that are not those under its
signature, and only somebody who hashes them finds out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ragseal.kernel.errors import AuditError, BudgetError, EncodingError, LedgerError, TransportError
from ragseal.ledger.beacon_place import BeaconPlace
from ragseal.ledger.checkpoint import SignedCheckpoint, open_checkpoint
from ragseal.ledger.learning import keep_turns, learn, load_turns, refuse_unknown_turn
from ragseal.ledger.merkle import Frontier, leaf_hash
from ragseal.ledger.note import NoteSignature, NoteVerifier, decode_base64, decode_decimal, encode_base64
from ragseal.ledger.policy import Policy, QuorumError
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.witness import (
    Evidence,
    ForkError,
    UnprovenError,
    Witness,
    check_growth,
    keep_evidence,
    standing_alarm,
    state_name,
    void_memory,
)
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why

PAGE = 1024

Progress = Callable[[int, int], None]


class AlarmError(LedgerError):
    """The log contradicted itself; ``folder`` holds the evidence.  Nothing is cosigned until somebody moves it away."""

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder


@dataclass(frozen=True, slots=True)
class Step:
    """One look at the log: what was verified, and whether the log took the cosignature."""

    origin: str
    size: int
    root: str  #: hexadecimal
    new_entries: int
    first_contact: bool
    time: int  #: seconds, of the cosignature
    delivered: bool
    delivery: str  #: why it was not delivered, else empty


@dataclass(frozen=True, slots=True)
class Status:
    """What the observer says about a log between two looks; ``status.json`` in its folder."""

    origin: str
    size: int
    consistent_since: int  #: seconds; first contact
    last_checked: int
    alarm: str  #: empty, or what happened and where the evidence lies
    trouble: str = ""  #: empty, or what the log could not show at the last look


class Observer:
    """Follows one log with a memory in ``directory`` (that of the :class:`Witness`)."""

    def __init__(
        self,
        remote: RemoteLedger,
        log: NoteVerifier,
        directory: Path,
        witness: Witness,
        clock: Callable[[], float],
        policy: Policy | None = None,
        place: BeaconPlace | None = None,
    ) -> None:
        """
        Args:
            policy: follow only what a quorum of it cosigned, so that nobody is followed into a log of his own.
            place: is given what it wants of the entries, once they are the log's.
        """
        self._place = place
        self._begin, self._wanted = 0, list[bytes]()  # of entries hashed in this look: the first, and what it keeps
        self._remote, self._directory = remote, directory
        self._turns = (directory / state_name(log.name)).with_suffix(".turns")
        self._log = self._kept = load_turns(self._turns, log)
        self._witness, self._clock, self._policy = witness, clock, policy
        self._stem = directory / state_name(log.name)

    async def step(self, progress: Progress | None = None) -> Step:
        """Look once: signature, growth, entries, then cosign and hand the cosignature in.

        Raises:
            AlarmError: the log contradicts itself by its own signatures (or an alarm is still standing).
            UnprovenError: an older note, a proof that fails or is refused, entries that are not the signed ones:
                whoever stands in between can bring all of that about, so nothing is concluded; the status says it.
            TransportError: the log cannot be reached; nothing is concluded from that.
            AuditError: anything else, such as a note that is not signed by the log.
        """
        standing = self.alarm()
        if standing is not None:
            raise AlarmError(f"an alarm is standing: {standing[0]}. Evidence: {standing[1]}", standing[1])
        known = self._log
        try:
            return await self._look(progress)
        finally:
            if self._kept is not self._log:  # what was shown does not continue what is remembered: nothing of it stays
                self._log = known

    async def _look(self, progress: Progress | None) -> Step:
        try:
            return await self._step(progress)
        except ForkError as error:
            folder = self._keep(error)
            self._save_status(self._size(), alarm=f"{error} (evidence: {folder.name})")
            raise AlarmError(f"{error}. Evidence: {folder}", folder) from None
        except UnprovenError as error:
            self._save_status(self._size(), trouble=str(error))
            raise

    async def _step(self, progress: Progress | None) -> Step:
        newer = await self._served()
        older = self._witness.remembered(self._log)
        path: list[bytes] = []
        if older is not None and newer.checkpoint.size <= older.checkpoint.size:
            check_growth(older, newer, path)
        frontier = await self._rehash(older, newer, progress)
        if older is not None:
            path = await self._proof(older, newer)
            check_growth(older, newer, path)
        self._keep_turns()
        if self._place is not None:
            self._place.take(self._begin, self._wanted, newer.checkpoint.size)
        now = int(self._clock())
        line = self._witness.cosign(newer.note.encode(), self._log, path, now)
        self._save_frontier(frontier)
        self._save_status(newer.checkpoint.size)
        problem = await self._deliver(newer.checkpoint.size, line)
        return Step(
            origin=self._log.name,
            size=newer.checkpoint.size,
            root=newer.checkpoint.root.hex(),
            new_entries=newer.checkpoint.size - (older.checkpoint.size if older else 0),
            first_contact=older is None,
            time=now,
            delivered=not problem,
            delivery=problem,
        )

    @property
    def log(self) -> NoteVerifier:
        """The log's key, with the turns that were seen of it."""
        return self._log

    async def _learn(self, note: bytes) -> None:
        found = await learn(self._remote, note, self._log)
        if len(found.keys) > len(self._log.keys):
            self._log = found

    def _keep_turns(self) -> None:
        """Before anything is kept that rests on them, and behind the comparison with what is remembered."""
        if self._kept is not self._log:
            keep_turns(self._turns, self._log)
            self._kept = self._log

    async def _served(self) -> SignedCheckpoint:
        """The note to be looked at: the newest, or the newest with a quorum."""
        if self._policy is None or self._policy.asks_nobody:
            newest = await self._remote.checkpoint()
            await self._learn(newest)
            return open_checkpoint(newest, self._log)
        note = await self._remote.cosigned()
        if note is None:
            raise UnprovenError(f"no witness has cosigned {self._log.name} yet, and the policy asks for a quorum")
        await self._learn(note)
        try:
            return self._policy.open(note, self._log)
        except QuorumError as error:
            raise UnprovenError(f"{self._log.name}: {error}; ask again when its witnesses had time") from None

    async def _proof(self, older: SignedCheckpoint, newer: SignedCheckpoint) -> list[bytes]:
        old, new = older.checkpoint.size, newer.checkpoint.size
        if not 0 < old < new:
            return []
        try:
            return await self._remote.consistency(old, new)
        except TransportError:
            raise
        except AuditError as error:
            raise UnprovenError(f"{self._log.name} gives no proof that it only grew ({error})") from None

    async def _rehash(
        self, older: SignedCheckpoint | None, newer: SignedCheckpoint, progress: Progress | None
    ) -> Frontier:
        """Hash every entry that was not hashed yet; the result has the new root, and had the old one on the way.

        What does not fit is hashed again from the beginning: entries that give the newer root and do not begin with
        what gave the older one convict the log; entries that do not even give the newer root convict nobody.
        """
        target, past = newer.checkpoint, older.checkpoint if older else None
        known = self._load_frontier()
        if self._place is not None and self._place.size != known.size:
            known = Frontier()  # it has not seen what was hashed before: from the beginning again
        if past is not None and known.size == past.size and known.root() == past.root:
            self._begin, self._wanted = known.size, []
            found = await self._hash_on(known, target.size, progress)
            if found.root() == target.root:
                return found
        self._begin, self._wanted = 0, []
        begun = await self._hash_on(Frontier(), past.size if past else 0, progress)
        found = await self._hash_on(begun, target.size, progress)
        if found.root() != target.root:
            raise UnprovenError(f"{target.origin} serves entries that do not give the root it signed: ask again")
        if older is not None and begun.root() != older.checkpoint.root and older.void:
            raise void_memory(older)
        if older is not None and begun.root() != older.checkpoint.root:
            evidence = Evidence("rewritten", older.note.encode(), newer.note.encode())
            raise ForkError(f"{target.origin} signed other entries before, up to {older.checkpoint.size}", evidence)
        return found

    async def _hash_on(self, frontier: Frontier, size: int, progress: Progress | None) -> Frontier:
        """A frontier with what follows it in the log, up to ``size`` entries."""
        frontier = frontier.copy()
        while frontier.size < size:
            for entry in await self._remote.entries(frontier.size, min(PAGE, size - frontier.size)):
                refuse_unknown_turn(self._log, frontier.size, entry)
                if self._place is not None and self._place.wants(entry):
                    self._wanted = self._place.joined(self._wanted, entry)
                frontier.add(leaf_hash(entry))
            if progress is not None:
                progress(frontier.size, size)
        return frontier

    async def _deliver(self, size: int, line: NoteSignature) -> str:
        try:
            await self._remote.add_cosignature(size, self._witness.verifier.vkey(), line.line())
        except BudgetError as error:  # a log keeps one every few seconds: nothing is lost
            return f"not now, the next look brings another ({error})"
        except AuditError as error:
            return str(error)
        return ""

    # --- memory

    def _load_frontier(self) -> Frontier:
        """The frontier after the last look; an empty one (hash everything) when it is missing or damaged."""
        try:
            lines = self._stem.with_suffix(".frontier").read_text("ascii").split("\n")
            roots = [decode_base64(line, "frontier") for line in lines[1:-1]]
            return Frontier(decode_decimal(lines[0], "frontier size"), roots)
        except (OSError, UnicodeDecodeError, EncodingError, LedgerError):
            return Frontier()

    def _save_frontier(self, frontier: Frontier) -> None:
        lines = [str(frontier.size), *(encode_base64(root) for root in frontier.roots), ""]
        self._write(self._stem.with_suffix(".frontier"), "\n".join(lines).encode("ascii"))

    def _size(self) -> int:
        remembered = self._witness.remembered(self._log)
        return remembered.checkpoint.size if remembered else 0

    def status(self) -> Status | None:
        """What the last look left; None before the first."""
        try:
            return Status(**json.loads(self._stem.with_suffix(".status.json").read_text("utf-8")))
        except (OSError, ValueError, TypeError, RecursionError):
            return None

    def remembered(self) -> SignedCheckpoint | None:
        """The last checkpoint that was verified and cosigned here."""
        return self._witness.remembered(self._log)

    def _save_status(self, size: int, alarm: str = "", trouble: str = "") -> None:
        now, last = int(self._clock()), self.status()
        status = Status(self._log.name, size, last.consistent_since if last else now, now, alarm, trouble)
        self._write(self._stem.with_suffix(".status.json"), json.dumps(asdict(status), indent=1).encode())

    def alarm(self) -> tuple[str, Path] | None:
        """A standing alarm of this log: what happened, and the folder with the evidence."""
        return standing_alarm(self._directory, self._log.name)

    def _keep(self, error: ForkError) -> Path:
        return keep_evidence(self._directory, self._log, error, datetime.fromtimestamp(int(self._clock()), UTC))

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        try:
            write_durably(path, data, mode=0o600)
        except OSError as error:
            raise LedgerError(f"cannot write {path}: {why(error, path)}") from None
