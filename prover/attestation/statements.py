# SPDX-License-Identifier: GPL-3.0-or-later
"""What is proven of a record: its statement, from the ledger and from the secrets kept for it.  SPEC B.5, B.6.

Statements are fixed once a record is in the ledger.  Hints are recomputed from the seed, never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ragseal.backends.asked import Scores
from ragseal.backends.mechanism import Engine, Hidden
from ragseal.groth16.assignments import Assignment, assign_attestation
from ragseal.groth16.keys import KeyView
from ragseal.kernel import mechanism, proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import Group, split_points
from ragseal.kernel.errors import AttestationError, ProofError, UnprovableError
from ragseal.kernel.params import R
from ragseal.kernel.proofs import ProofEntry, statement_of
from ragseal.kernel.record_proofs import statements_of
from ragseal.prover.attestation.batch_openings import Case, shard_blinders, shared_blinder
from ragseal.prover.attestation.open_window import OpenWindow
from ragseal.prover.attestation.retrieval import QUERY_KEY, QuerySecrets, decode_embedding, query_key, record_scores
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.retirement import require_kept
from ragseal.prover.storage.state import State


@dataclass(frozen=True)
class ShardProving:
    """All that the proof of one shard of a record is made from and checked with."""

    committed: bytes
    c_v: bytes
    c_w: bytes
    assignment: Assignment
    key: KeyView

    def __repr__(self) -> str:
        return "ShardProving(...)"

    def check(self, proof: bytes) -> None:
        """As an auditor does; ProofError: it does not hold for this record."""
        self.key.verify(self.assignment.clear, self.c_w, self.committed + self.c_v, proof)


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
        """The record's, from (commitments, proof) of every shard in order."""
        committed, proof = (b"".join(parts) for parts in zip(*made, strict=True))
        return ProofEntry(self.seq, self.digest, committed, proof, self.c_v)


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
        if (kept.c_y, kept.t_commits) != (record.c_y, record.t_commits):
            raise ProofError(f"the stored secrets of record {seq} belong to another record")
        tenant = opened.tenant(request.account)
        return Case(
            record=record,
            digest=record.digest(),
            statement=statement_of(
                opened.rules(tenant),
                opened.key.cls,
                c_seed=window.manifest.c_seed,
                beacon=window.beacon,
                ctx=request.ctx(),
                t_commits=record.t_commits,
            ),
            kept=kept,
            version=opened.version(tenant, request.index_digest),
            key=mechanism.noise_key(opened.secrets.limbs, window.beacon, request.ctx()),
        )

    def hidden(self, opened: OpenWindow, case: Case) -> Hidden:
        """What the commitments of every shard of a record open to, megabytes each; it is never stored."""
        return self._engine.hidden(case.key, self._scores(opened, case), case.statement.asked)

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
            hidden = self._engine.hidden(case.key, w, case.statement.asked)
        scores, bases = np.reshape(w, (len(statements), -1)), key.committed
        rho_v = shared_blinder(kept.rho_hint, hidden.shared)
        c_v = bases.commit_shared(self._group, hidden.shared, rho_v)

        def shard(at: int) -> ShardProving:
            with _named(case):
                witnesses = hidden[at]
            blinders = shard_blinders(kept.rho_hint, bases, witnesses, at)
            committed = bases.commit(self._group, witnesses, blinders)
            alpha, beta = proofs.challenges(key.digest, case.digest, statements[at], c_w[at], committed + c_v)
            own = columns[len(e) * at : len(e) * (at + 1)]
            inside = proofs.total_blinder(policy.factor(key.cls), e, own, rhos[at])
            every = (inside, *chain.from_iterable(blinders), rho_v)
            assigned = assign_attestation(
                key.cls,
                clear=(*statements[at], alpha, beta),
                w=scores[at].tolist(),
                witnesses=witnesses,
                shared=hidden.shared,
                blind=sum(scale * rho for scale, rho in zip(key.stated.scales(beta), every, strict=True)) % R,
                secret=(opened.secrets.limbs, kept.t_salt),
            )
            self._group.check(committed + c_v)
            return ShardProving(committed, c_v, c_w[at], assigned, key)

        return Proving(case.record.seq, case.digest, c_v, len(statements), shard)


@contextmanager
def _named(case: Case) -> Iterator[None]:
    """What cannot be proven names its record."""
    try:
        yield
    except (AttestationError, UnprovableError) as error:
        raise ProofError(f"record {case.record.seq}: {error}") from None
