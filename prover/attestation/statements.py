# SPDX-License-Identifier: GPL-3.0-or-later
"""What is proven of a record: its statement, from the ledger and from the secrets kept for it.  SPEC B.5, B.6.

Statements are fixed once a record is in the ledger.  Hints are recomputed from the seed, never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ragseal.backends.asked import Scores
from ragseal.backends.mechanism import Engine, ShardHints
from ragseal.groth16.assignments import Assignment, assign_attestation
from ragseal.groth16.keys import KeyView
from ragseal.groth16.views import committed_threshold
from ragseal.kernel import mechanism, proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import Group, split_points
from ragseal.kernel.errors import AttestationError, ProofError, UnprovableError
from ragseal.kernel.hint_opening import scaled_blinder
from ragseal.kernel.params import R
from ragseal.kernel.proofs import ProofEntry, statement_of
from ragseal.kernel.record_proofs import statements_of
from ragseal.prover.attestation.batch_openings import Case, hint_blinders, threshold_blinder
from ragseal.prover.attestation.open_window import OpenWindow
from ragseal.prover.attestation.retrieval import QUERY_KEY, QuerySecrets, decode_embedding, query_key, record_scores
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.retirement import require_kept
from ragseal.prover.storage.state import State


@dataclass(frozen=True)
class ShardProving:
    """All that the proof of one shard of a record is made from and checked with."""

    c_h: bytes
    c_v: bytes  #: nothing of a class without one
    c_w: bytes
    assignment: Assignment
    key: KeyView

    def __repr__(self) -> str:
        return "ShardProving(...)"

    def check(self, proof: bytes) -> None:
        """As an auditor does; ProofError: it does not hold for this record."""
        self.key.verify(self.assignment.clear, self.c_w, self.c_h + self.c_v, proof)


@dataclass(frozen=True)
class Proving:
    """All that a record's proofs are made from: one of every shard of its index, with one threshold."""

    seq: int
    digest: bytes
    c_v: bytes
    shards: int
    shard: Callable[[int], ShardProving]  #: computes its hints, megabytes, anew whenever it is asked

    def __repr__(self) -> str:
        return f"Proving({self.seq})"

    def entry(self, made: Sequence[tuple[bytes, bytes]]) -> ProofEntry:
        """The record's, from (C_h, proof) of every shard in order."""
        c_h, proof = (b"".join(parts) for parts in zip(*made, strict=True))
        return ProofEntry(self.seq, self.digest, c_h, proof, (self.c_v,) if self.c_v else ())


class Statements:
    """The statements of one provider's records.  Methods block and may be called from any thread."""

    def __init__(
        self,
        state: State,
        journal: Journal,
        group: Group,
        engine: Engine,
    ) -> None:
        self._state = state
        self._journal = journal
        self._group = group
        self._engine = engine

    def case(self, opened: OpenWindow, seq: int) -> Case:
        """Record ``seq`` of a window.

        Raises:
            AttestationError: no such record, or the window is retired.
            ProofError: its secrets are missing, or another record's.
        """
        window = opened.window
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
        return Case(
            record=record,
            digest=record.digest(),
            statement=statement_of(
                window.manifest.policy,
                opened.key.cls,
                c_seed=window.manifest.c_seed,
                beacon=window.beacon,
                ctx=request.ctx(),
                t_commit=record.t_commit,
            ),
            kept=kept,
            version=opened.version(opened.tenant(request.account), request.index_digest),
            key=mechanism.noise_key(opened.secrets.limbs, window.beacon, request.ctx()),
        )

    def hints(self, opened: OpenWindow, case: Case) -> ShardHints:
        """The packed hints of every shard of a record, megabytes each; they are never stored."""
        return self._hints(opened, case, self._scores(opened, case))

    def _hints(self, opened: OpenWindow, case: Case, scores: Scores) -> ShardHints:
        prizes = opened.policy.prizes(opened.key.cls)
        return self._engine.shard_hints(case.key, scores, case.statement.hmax, prizes)

    def _scores(self, opened: OpenWindow, case: Case) -> Scores:
        return record_scores(opened.policy, opened.key.cls, case.version, case.kept)

    def c_w(self, opened: OpenWindow, record: Record) -> bytes:
        """The commitment to a record's shifted scores."""
        key, policy = opened.key, opened.policy
        return proofs.shifted_scores(self._group, [record.c_y], key.sum_y, policy, key.cls)[0]

    def proving(self, opened: OpenWindow, case: Case) -> Proving:
        """What a record's proofs are made from.  ProofError: nothing can be proven about it."""
        policy, kept, key = opened.policy, case.kept, opened.key
        e = [] if policy.answers else decode_embedding(kept.embedding)
        columns = () if policy.answers else case.version.in_force.blinders
        rhos, c_w = kept.shard_rhos, split_points(self.c_w(opened, case.record))
        statements = statements_of(key.cls, case.statement, policy.shards)
        with _named(case):
            w = self._scores(opened, case)
            hints = self._hints(opened, case, w)
        threshold, scores = hints.threshold, np.reshape(w, (len(statements), -1))
        rho_v = 0 if threshold is None else threshold_blinder(kept.rho_hint, threshold)
        c_v = committed_threshold(self._group, key, threshold, rho_v)

        def shard(at: int) -> ShardProving:
            with _named(case):
                packed = hints[at]
            blinders = hint_blinders(kept.rho_hint, packed, key.hint_bases.count, at)
            c_h = key.hint_bases.commit(self._group, packed, blinders)
            alpha, beta = proofs.challenges(key.digest, case.digest, statements[at], c_w[at], c_h + c_v)
            own = columns[len(e) * at : len(e) * (at + 1)]
            inside = proofs.total_blinder(policy.factor(key.cls), e, own, rhos[at], scaled_blinder(blinders, beta))
            assigned = assign_attestation(
                key.cls,
                clear=(*statements[at].clear(), alpha, beta),
                w=tuple(int(x) for x in scores[at]),
                h=packed,
                blind=(inside + rho_v) % R,
                seed=opened.secrets.limbs,
                t_salt=kept.t_salt,
                threshold=threshold,
            )
            self._group.check(c_h + c_v)
            return ShardProving(c_h, c_v, c_w[at], assigned, key)

        return Proving(case.record.seq, case.digest, c_v, len(statements), shard)


@contextmanager
def _named(case: Case) -> Iterator[None]:
    """What cannot be proven names its record."""
    try:
        yield
    except (AttestationError, UnprovableError) as error:
        raise ProofError(f"record {case.record.seq}: {error}") from None
