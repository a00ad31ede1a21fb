# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B, proofs: one Groth16 proof a record, and the batched openings they are delivered with.  SPEC B.5 to B.8.

Statements are fixed once a record is in the ledger, so proofs are made whenever it suits: eagerly by a worker, or when
an audit asks.  Hints are recomputed from the seed, never stored.  Every proof and opening is verified exactly as the
auditor does before anyone sees it; a failure stops the key.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ragseal.backends.mechanism import Engine
from ragseal.groth16.assignments import assignment_of
from ragseal.groth16.keys import KeyView
from ragseal.groth16.provers import AttestationBackend
from ragseal.kernel import field, mechanism, proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import Group
from ragseal.kernel.errors import AttestationError, AuditError, ProofError, UnprovableError
from ragseal.kernel.hint_opening import scaled_blinder
from ragseal.kernel.opening import Opening, batching_challenge, powers, prove_opening
from ragseal.kernel.proofs import BatchItem, ProofBatch, ProofEntry, SameEmbeddingOpening, Statement
from ragseal.kernel.transcript import challenge
from ragseal.prover.attestation.kept_deliveries import KeptDeliveries, proofs_ask
from ragseal.prover.attestation.retrieval import (
    COUNT,
    QUERY_KEY,
    QuerySecrets,
    decode_embedding,
    query_key,
    record_scores,
)
from ragseal.prover.attestation.turns import Turns
from ragseal.prover.commitment.columns import embedding_generators
from ragseal.prover.commitment.index import Version
from ragseal.prover.randomness import Draw, packed_scalars
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.retirement import is_retired, require_kept
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window
from ragseal.prover.storage.window_secrets import WindowSecrets

KEPT_BATCHES = 2  #: delivered batches that are remembered: the same request gets the same bytes without new work

log = logging.getLogger("ragseal.provider")


@dataclass(frozen=True)
class _Case:
    """A record with everything its proof is about."""

    record: Record
    digest: bytes
    statement: Statement
    kept: QuerySecrets
    version: Version
    key: int  #: of the noise

    def __repr__(self) -> str:
        return f"_Case({self.record.seq})"


def hint_blinders(secret: int, packed: bytes, count: int) -> list[int]:
    """rho' of C_h, and of C_1 where there is one: functions of the record's secret and of the hints that they blind.

    Were a lost proof made again by software that fills in other hints, one rho' for both would leave C_h - C_h'
    unblinded.
    """
    return [challenge(name, field.to_bytes(secret), packed) for name in ("hint-blinder", "bound-blinder")[:count]]


def stopped(state: State, key_digest: bytes) -> str | None:
    """Why nothing is proven under a key any more, None if it works.

    It survives restarts: under a crafted key each attempt could tell whoever made it something about the witness.
    """
    found = state.row("SELECT reason FROM stopped_keys WHERE key_digest = ?", (key_digest,))
    return None if found is None else str(found[0])


def release(state: State, key_digest: bytes) -> None:
    """Let a stopped key be used again: the operator knows why it failed."""
    with state.transaction() as db:
        db.execute("DELETE FROM stopped_keys WHERE key_digest = ?", (key_digest,))


def stop_key(state: State, key_digest: bytes, reason: str) -> None:
    with state.transaction() as db:
        db.execute("INSERT OR REPLACE INTO stopped_keys VALUES (?, ?)", (key_digest, reason))


class Proofs:
    """Makes, keeps and delivers the proofs of one provider.  Methods block and may be called from any thread."""

    def __init__(
        self,
        state: State,
        journal: Journal,
        group: Group,
        engine: Engine,
        key_of: Callable[[bytes], KeyView],
        backend_of: Callable[[bytes], AttestationBackend],
        secrets_of: Callable[[bytes], WindowSecrets],
        version_of: Callable[[Window, str, bytes], Version],
        draw: Draw,
        turns: Turns | None = None,
    ) -> None:
        """
        Args:
            version_of: the version of a tenant's index in a window that has this digest; blocks.
            turns: shared with whatever else takes every core as a proof does.
        """
        self._state = state
        self._journal = journal
        self._group = group
        self._engine = engine
        self._key_of = key_of
        self._backend_of = backend_of
        self._secrets_of = secrets_of
        self._version_of = version_of
        self._draw = draw
        self._turns = turns or Turns()
        self._kept = KeptDeliveries(state)
        self._delivered: OrderedDict[tuple[bytes, tuple[int, ...]], bytes] = OrderedDict()
        self._jobs: queue.Queue[tuple[bytes, int] | None] = queue.Queue()
        self._worker: threading.Thread | None = None

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

    def prove(self, manifest: bytes, seq: int) -> ProofEntry:
        """The proof of one record: stored, or made, verified and stored now.

        Raises:
            ProofError: the back end fails, or its proof does not hold; the key is stopped then.
            AttestationError: no such record.
        """
        with self._turns:
            known = self.stored(manifest, seq)
            if known is not None:
                return known
            require_kept(self._state, manifest)
            window, secrets = self._journal.history.window(manifest), self._secrets_of(manifest)
            key_digest = window.manifest.key_digest
            reason = stopped(self._state, key_digest)
            if reason is not None:
                raise ProofError(
                    f"proving under this key was stopped by a failure ({reason}): find out why before `release-key`"
                )
            case = self._case(window, secrets, seq)
            try:
                entry = self._make(window, secrets, case)
            except ProofError as error:
                stop_key(self._state, key_digest, str(error))
                log.error("record %d cannot be proven, the key is stopped: %s", seq, error)
                raise
            with self._state.transaction() as db:
                db.execute("INSERT INTO proofs VALUES (?, ?, ?)", (manifest, seq, entry.encode()))
            return entry

    def _case(self, window: Window, secrets: WindowSecrets, seq: int) -> _Case:
        if not 0 <= seq < len(window.records):
            raise AttestationError(f"window {window.manifest.window!r} has no record {seq}, only {len(window.records)}")
        record = Record.decode(self._journal.data(window.records[seq]))
        request = record.signed.request
        place = query_key(window.digest, record.signed)
        stored = self._state.row(f"SELECT secrets FROM queries WHERE {QUERY_KEY}", place)
        if stored is None or window.beacon is None:
            require_kept(self._state, window.digest)
            raise ProofError(f"the secrets of record {seq} are missing: restore state.db from a backup")
        kept = QuerySecrets.decode(stored[0])
        if (kept.c_y, kept.t_commit) != (record.c_y, record.t_commit):
            raise ProofError(f"the stored secrets of record {seq} belong to another record")
        return _Case(
            record=record,
            digest=record.digest(),
            statement=Statement(
                c_seed=window.manifest.c_seed,
                beacon=window.beacon,
                ctx=request.ctx(),
                hmax=window.manifest.policy.hmax(self._key(window).cls),
                t_commit=record.t_commit,
            ),
            kept=kept,
            version=self._version_of(window, secrets.account(request.account).tenant, request.index_digest),
            key=mechanism.noise_key(secrets.limbs, window.beacon, request.ctx()),
        )

    def _hints(self, window: Window, case: _Case) -> bytes:
        policy = window.manifest.policy
        w = record_scores(policy, self._key(window).cls, case.version, case.kept)
        return self._engine.hints(case.key, w, case.statement.hmax)

    def _key(self, window: Window) -> KeyView:
        return self._key_of(window.manifest.key_digest)

    def _c_w(self, window: Window, record: Record) -> bytes:
        key, policy = self._key(window), window.manifest.policy
        return proofs.shifted_scores(self._group, [record.c_y], key.sum_y, policy, key.cls)[0]

    def _make(self, window: Window, secrets: WindowSecrets, case: _Case) -> ProofEntry:
        policy, kept, key = window.manifest.policy, case.kept, self._key(window)
        e, columns = ([], ()) if policy.answers else (decode_embedding(kept.embedding), case.version.in_force.blinders)
        try:
            packed = self._hints(window, case)
        except (AttestationError, UnprovableError) as error:
            raise ProofError(f"record {case.record.seq}: {error}") from None
        blinders = hint_blinders(kept.rho_hint, packed, key.hint_bases.count)
        c_h = key.hint_bases.commit(self._group, packed, blinders)
        c_w = self._c_w(window, case.record)
        alpha, beta = proofs.challenges(key.digest, case.digest, case.statement, c_w, c_h)
        clear = (*case.statement.clear(), alpha, beta)
        proof = self._backend_of(key.digest).prove(
            assignment_of(key.cls)(
                clear=clear,
                w=tuple(int(x) for x in record_scores(policy, key.cls, case.version, kept)),
                h=packed,
                blind=proofs.total_blinder(
                    policy.factor(key.cls), e, columns, kept.rho, scaled_blinder(blinders, beta)
                ),
                seed=secrets.limbs,
                t_salt=kept.t_salt,
            )
        )
        self._group.check(c_h)
        key.verify(clear, c_w, c_h, proof)
        return ProofEntry(case.record.seq, case.digest, c_h, proof)

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
        secrets = self._secrets_of(manifest)
        entries = []
        for seq in wanted:
            wanted_still()
            entries.append(self.prove(manifest, seq))
        cases, items = [], []
        for entry in entries:
            wanted_still()
            case = self._case(window, secrets, entry.seq)
            c_w = self._c_w(window, case.record)
            cases.append(case)
            items.append(
                BatchItem(
                    case.record, case.digest, case.version.tenant, case.statement, c_w, entry, case.version.number
                )
            )
        context = proofs.batch_context(window.manifest.key_digest, manifest, items)
        versions = {item.version: case.version for item, case in zip(items, cases, strict=True)}
        opens = self._open_histograms if window.manifest.policy.answers else self._open_link
        links = tuple(
            SameEmbeddingOpening(tenant, opens(window, version, context, items, cases, wanted_still), number)
            for (tenant, number), version in sorted(versions.items(), key=lambda one: one[0])
        )
        opening = self._open_hints(window, context, items, cases, wanted_still)
        made = ProofBatch(manifest, tuple(entries), links, opening).encode()
        self._kept.keep(manifest, proofs_ask(wanted), made, always)
        self._delivered[manifest, wanted] = made
        while len(self._delivered) > KEPT_BATCHES:
            self._delivered.popitem(last=False)
        return made

    def _open_hints(
        self,
        window: Window,
        context: bytes,
        items: Sequence[BatchItem],
        cases: Sequence[_Case],
        wanted_still: Callable[[], None],
    ) -> Opening:
        bases = self._key(window).hint_bases
        size = bases.size
        weights = powers(batching_challenge("hints", context), len(items))
        witness = bytes(32 * size)
        for case, weight in zip(cases, weights, strict=True):  # one at a time: a hint vector is megabytes
            with self._turns:
                wanted_still()
                packed = self._hints(window, case)
                vector = bases.witness(packed, hint_blinders(case.kept.rho_hint, packed, bases.count))
                witness = self._group.combine([witness, vector], [1, weight])
        with self._turns:
            wanted_still()
            relations = bases.relations([item.entry.c_h for item in items])
            nonces = packed_scalars(self._draw, size)
            opening = prove_opening(self._group, "hints", context, relations, witness, nonces)
            proofs.verify_hints(self._group, bases, context, items, opening)
        return opening

    def _open_link(
        self,
        window: Window,
        version: Version,
        context: bytes,
        items: Sequence[BatchItem],
        cases: Sequence[_Case],
        wanted_still: Callable[[], None],
    ) -> Opening:
        mine = version.tenant, version.number
        chosen = [(item, case) for item, case in zip(items, cases, strict=True) if item.version == mine]
        own = [item for item, _ in chosen]
        here = proofs.link_context(context, version.tenant, version.digest)
        weights = powers(batching_challenge("link", here), len(own))
        dimension = version.matrix.shape[1]
        vectors = []
        for _, case in chosen:
            wanted_still()
            vectors.append(field.pack([*decode_embedding(case.kept.embedding), case.kept.blinder, case.kept.rho]))
        generators = embedding_generators(self._group, dimension)
        columns, b = version.in_force.points, self._key(window).scores.b
        with self._turns:
            wanted_still()
            opening = prove_opening(
                self._group,
                "link",
                here,
                proofs.link_relations(generators, columns, b, own),
                self._group.combine(vectors, weights),
                packed_scalars(self._draw, dimension + 2),
            )
            proofs.verify_link(self._group, generators, columns, b, here, own, opening)
        return opening

    def _open_histograms(
        self,
        window: Window,
        version: Version,
        context: bytes,
        items: Sequence[BatchItem],
        cases: Sequence[_Case],
        wanted_still: Callable[[], None],
    ) -> Opening:
        mine = version.tenant, version.number
        chosen = [(item, case) for item, case in zip(items, cases, strict=True) if item.version == mine]
        own = [item for item, _ in chosen]
        here = proofs.histogram_context(context, version.tenant, version.digest)
        weights = powers(batching_challenge("histogram", here), len(own))
        scores = self._key(window).scores
        vectors = []
        for _, case in chosen:
            wanted_still()
            vectors.append(field.pack([*map(int, np.frombuffer(case.kept.counts, dtype=COUNT)), case.kept.rho]))
        with self._turns:
            wanted_still()
            opening = prove_opening(
                self._group,
                "histogram",
                here,
                proofs.histogram_relations(scores, own),
                self._group.combine(vectors, weights),
                packed_scalars(self._draw, scores.capacity + 1),
            )
            proofs.verify_histograms(self._group, scores, here, own, opening)
        return opening

    # --- the worker ---

    def submit(self, manifest: bytes, seq: int) -> None:
        """Queue a record for the worker."""
        self._jobs.put((manifest, seq))

    def start(self, manifest: bytes | None) -> None:
        """Start the eager worker, first with what a restart left unproven in ``manifest``."""
        if manifest is not None:
            done = {seq for (seq,) in self._state.rows("SELECT seq FROM proofs WHERE manifest = ?", (manifest,))}
            for seq in range(len(self._journal.history.window(manifest).records)):
                if seq not in done:
                    self.submit(manifest, seq)
        self._worker = threading.Thread(target=self._run, name="proofs", daemon=True)
        self._worker.start()

    def stop(self, timeout: float = 60.0) -> None:
        """Let the worker finish the proof at hand; what is queued is made after the next start."""
        if self._worker is None:
            return
        while True:
            try:
                self._jobs.get_nowait()
            except queue.Empty:
                break
        self._jobs.put(None)
        self._worker.join(timeout)
        self._worker = None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self.prove(*job)
            except AuditError as error:
                log.error("no proof of record %d: %s", job[1], error)
            except Exception as error:  # the worker must outlive a bug; details could hold secrets
                log.error("no proof of record %d: %s", job[1], type(error).__name__)
