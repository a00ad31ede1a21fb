# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B, proofs: one Groth16 proof of every shard of a record, and batched openings with them.  SPEC B.5 to B.8.

Statements are fixed once a record is in the ledger, so proofs are made whenever it suits: eagerly in the background,
or when an audit asks; by this process, or by workers (SPEC B.12).  Every proof and opening is verified as the
auditor does, before anyone sees it; a failure stops the key.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

from ragseal.backends.mechanism import Engine
from ragseal.groth16.provers import AttestationBackend
from ragseal.kernel import proofs
from ragseal.kernel.bn254 import Group
from ragseal.kernel.errors import AttestationError, ProofError
from ragseal.kernel.proofs import BatchItem, ProofBatch, ProofEntry
from ragseal.prover.attestation.backlog import Backlog
from ragseal.prover.attestation.batch_openings import BatchOpenings, Case
from ragseal.prover.attestation.open_window import OpenWindow, OpenWindows
from ragseal.prover.attestation.shard_proofs import ShardProofs
from ragseal.prover.attestation.statements import Statements
from ragseal.prover.base.randomness import Draw
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.kept_deliveries import KeptDeliveries, proofs_ask
from ragseal.prover.storage.retirement import is_retired, require_kept
from ragseal.prover.storage.state import State
from ragseal.prover.storage.stopped_keys import stop_key, stopped
from ragseal.prover.workers.checked import checked_proof
from ragseal.prover.workers.in_order import InOrder
from ragseal.prover.workers.interface import UnreachedError, Workers
from ragseal.prover.workers.turns import Turns

KEPT_BATCHES = 2  #: delivered batches that are remembered: the same request gets the same bytes without new work

log = logging.getLogger("ragseal.provider")


class Proofs:
    """Makes, keeps and delivers the proofs of one provider.  Methods block and may be called from any thread."""

    def __init__(
        self,
        state: State,
        journal: Journal,
        group: Group,
        engine: Engine,
        windows: OpenWindows,
        draw: Draw,
        turns: Turns | None = None,
        workers: Workers | None = None,
    ) -> None:
        """
        Args:
            turns: shared with whatever else takes every core as a proof does.
            workers: who makes the Groth16 proofs; None: this process.
        """
        self._state = state
        self._journal = journal
        self._group = group
        self._statements = Statements(state, journal, group, engine)
        self._windows = windows
        self._draw = draw
        self._turns = turns or Turns()
        self._kept = KeptDeliveries(state)
        self._made = ShardProofs(state)
        self._delivered: OrderedDict[tuple[bytes, tuple[int, ...]], bytes] = OrderedDict()
        self._workers = workers
        self._asking, self._shards = InOrder(self._records_at_once, "asked"), InOrder(self._proofs_at_once, "shard")
        self._mutex = threading.Lock()
        self._flights: dict[tuple[bytes, int], Future[ProofEntry]] = {}  #: records that are being proven
        self.backlog = Backlog(self._in_the_background, workers, self._records_at_once)

    def _proofs_at_once(self) -> int:
        return 1 if self._workers is None else self._workers.places

    def _records_at_once(self) -> int:
        """As many as keep the workers busy: more of them would lie here half proven, with the scores of all shards."""
        newest = self._journal.history.newest
        shards = 1 if newest is None else newest.manifest.policy.shards
        if self._workers is None or shards == 1:
            return self._proofs_at_once()
        return self._proofs_at_once() // shards + 2  # the one that ends, and the one that begins

    # --- one record ---

    def count(self, manifest: bytes) -> int:
        """How many records of a window are proven."""
        found = self._state.row("SELECT COUNT(*) FROM proofs WHERE manifest = ?", (manifest,))
        return int(found[0]) if found else 0

    def missing(self, manifest: bytes, records: int) -> list[int]:
        """Numbers of a window's records that have no proof yet; ``records``: how many it has."""
        rows = self._state.rows("SELECT seq FROM proofs WHERE manifest = ?", (manifest,))
        proven = {int(seq) for (seq,) in rows}
        return [seq for seq in range(records) if seq not in proven]

    def stored(self, manifest: bytes, seq: int) -> ProofEntry | None:
        """A proof that was made before."""
        found = self._state.row("SELECT entry FROM proofs WHERE manifest = ? AND seq = ?", (manifest, seq))
        return None if found is None else ProofEntry.decode(found[0])

    def prove(self, manifest: bytes, seq: int, asked: bool = True) -> ProofEntry:
        """The proof of one record: stored, or made, verified and stored now.

        Args:
            asked: somebody waits for it: where no worker is reached, this process makes it.

        Raises:
            ProofError: the back end fails, or its proof does not hold; the key is stopped then.
            AttestationError: no such record.
            UnreachedError: no worker finished it, and nobody asked.
        """
        while True:
            with self._mutex:
                flight = self._flights.get((manifest, seq))
                if flight is None:
                    mine = self._flights[manifest, seq] = Future()
            if flight is None:
                return self._flown(mine, manifest, seq, asked)
            try:
                return flight.result()
            except UnreachedError:
                if not asked:
                    raise  # who asks makes it now

    def _flown(self, flight: Future[ProofEntry], manifest: bytes, seq: int, asked: bool) -> ProofEntry:
        """Prove, for whoever else waits for the same record as well."""
        try:
            entry = self._proven(manifest, seq, asked)
        except BaseException as error:
            with self._mutex:
                del self._flights[manifest, seq]
            flight.set_exception(error)
            raise
        with self._mutex:
            del self._flights[manifest, seq]
        flight.set_result(entry)
        return entry

    def prove_each(
        self, manifest: bytes, seqs: Sequence[int], wanted_still: Callable[[], None] = lambda: None
    ) -> Iterator[ProofEntry]:
        """The proofs of records, in order; as many at once as there are workers for.

        Args:
            wanted_still: asked before each; raises when nobody waits any more.

        Raises:
            AuditError: as :meth:`prove`; what is under way then is finished and kept, nothing new is begun.
        """
        if self._workers is None or len(seqs) < 2:
            for seq in seqs:
                wanted_still()
                yield self.prove(manifest, seq)
            return
        yield from self._asking.results(self._asked_for, ((manifest, seq) for seq in seqs), wanted_still)

    def _asked_for(self, record: tuple[bytes, int]) -> ProofEntry:
        return self.prove(*record)

    def _proven(self, manifest: bytes, seq: int, asked: bool) -> ProofEntry:
        known = self.stored(manifest, seq)
        if known is not None:
            return known
        require_kept(self._state, manifest)
        opened = self._windows.of(manifest)
        key_digest = opened.key.digest
        self._require_working(key_digest)
        with self._turns:
            case = self._statements.case(opened, seq)
        own = self._own_ahead(opened)
        try:  # from here on a ProofError is the statement's or its proof's, not that of a file that is away
            entry = self._make(opened, case, own, asked)
        except ProofError as error:
            if stopped(self._state, key_digest) is None:
                stop_key(self._state, key_digest, str(error))
                log.error("record %d cannot be proven, the key is stopped: %s", seq, error)
            raise
        with self._state.transaction() as db:
            self._require_working(key_digest)  # in here: no other record's proof can fail between look and entry
            db.execute("INSERT INTO proofs VALUES (?, ?, ?)", (manifest, seq, entry.encode()))
            self._made.forget(db, manifest, seq)
        return entry

    def _require_working(self, key_digest: bytes) -> None:
        reason = stopped(self._state, key_digest)
        if reason is not None:
            raise ProofError(
                f"proving under this key was stopped by a failure ({reason}): find out why before `release-key`"
            )

    def _own_ahead(self, opened: OpenWindow) -> Callable[[], AttestationBackend]:
        """This process's own back end: without workers loaded now, before it takes a turn; with them, if need be."""
        if self._workers is not None:
            return opened.backend
        backend = opened.backend()
        return lambda: backend

    def _make(self, opened: OpenWindow, case: Case, own: Callable[[], AttestationBackend], asked: bool) -> ProofEntry:
        key, workers = opened.key, self._workers
        with self._turns:
            self._require_working(key.digest)
            made = self._statements.proving(opened, case)

        def proven(shard: int) -> tuple[bytes, bytes]:
            place = opened.digest, made.seq, shard
            with self._turns:
                self._require_working(key.digest)
                one = made.shard(shard)
                proof = self._made.find(*place, one) if made.shards > 1 else None
                if proof is not None:
                    return one.committed, proof
                if workers is None:
                    proof = own().prove(one.assignment)
                    one.check(proof)
            if workers is not None:
                circuit, assignment = key.cls.name, one.assignment
                proof = checked_proof(workers, self._turns, own, circuit, key.digest, assignment, one.check, asked)
            assert proof is not None
            if made.shards > 1:
                with self._state.transaction() as db:
                    self._require_working(key.digest)  # in here, as for the whole entry
                    self._made.keep(db, *place, proof)
            return one.committed, proof

        if workers is None or made.shards == 1:
            return made.entry([proven(shard) for shard in range(made.shards)])
        return made.entry(list(self._shards.results(proven, range(made.shards), lambda: None)))

    # --- batches ---

    def batch(
        self,
        manifest: bytes,
        seqs: Sequence[int],
        wanted_still: Callable[[], None] = lambda: None,
        always: bool = False,
    ) -> bytes:
        """A ProofBatch of the records ``seqs`` (strictly increasing; empty: all of the window).

        The openings' nonces are fresh for every batch, so overlapping batches reveal nothing about each other.  Of a
        retired window there are those that were made before.

        Args:
            always: keep it for when the window is retired, whatever else was kept of it.
            wanted_still: asked before every proof, and once for every record whenever the openings go through them;
                raises when nobody waits for the batch any more.

        Raises:
            AttestationError: no records, unknown ones, not increasing, or the window is retired.
            ProofError: a record cannot be proven.
        """
        window = self._journal.history.window(manifest)
        wanted = tuple(seqs) or tuple(range(len(window.records)))
        if not wanted:
            raise AttestationError(f"window {window.manifest.window!r} has no records to prove")
        if len(wanted) > proofs.MAX_BATCH or any(a >= b for a, b in itertools.pairwise(wanted)):
            raise AttestationError(f"ask for at most {proofs.MAX_BATCH} records, in strictly increasing order")
        if wanted[-1] >= len(window.records):
            raise AttestationError(f"there is no record {wanted[-1]}: the window has {len(window.records)}")
        known = self._delivered.get((manifest, wanted))
        if known is None and (always or is_retired(self._state, manifest)):
            known = self._kept.find(manifest, proofs_ask(wanted))
        if known is not None:
            if always:
                self._kept.keep(manifest, proofs_ask(wanted), known, always)
            return known
        opened = self._windows.of(manifest)
        entries = list(self.prove_each(manifest, wanted, wanted_still))
        cases, items = [], []
        for entry in entries:
            wanted_still()
            case = self._statements.case(opened, entry.seq)
            c_w = self._statements.c_w(opened, case.record)
            cases.append(case)
            items.append(
                BatchItem(
                    record=case.record,
                    record_digest=case.digest,
                    tenant=case.version.tenant,
                    statement=case.statement,
                    c_w=c_w,
                    entry=entry,
                    number=case.version.number,
                )
            )
        opens = BatchOpenings(
            group=self._group,
            opened=opened,
            items=items,
            cases=cases,
            hidden=self._statements.hidden,
            draw=self._draw,
            turns=self._turns,
            wanted_still=wanted_still,
        )
        made = ProofBatch(manifest, tuple(entries), opens.links(), opens.committed()).encode()
        self._kept.keep(manifest, proofs_ask(wanted), made, always)
        self._delivered[manifest, wanted] = made
        while len(self._delivered) > KEPT_BATCHES:
            self._delivered.popitem(last=False)
        return made

    # --- in the background ---

    def submit(self, manifest: bytes, seq: int) -> None:
        """Queue a record for a proof in the background."""
        self.backlog.submit(manifest, seq)

    def _in_the_background(self, manifest: bytes, seq: int) -> None:
        if not is_retired(self._state, manifest):  # else nobody can make it any more
            self.prove(manifest, seq, asked=False)

    def start(self, manifest: bytes | None) -> None:
        """Prove in the background, first what a restart left unproven in ``manifest``."""
        records = 0 if manifest is None else len(self._journal.history.window(manifest).records)
        self.backlog.start((manifest, seq) for seq in self.missing(manifest or b"", records) if manifest is not None)

    def stop(self, timeout: float = 60.0) -> None:
        """Finish the proofs at hand; what is queued is made after the next start, and what a record lacks."""
        self._asking.stop()
        self._shards.stop()
        self.backlog.stop(timeout)
