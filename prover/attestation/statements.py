# SPDX-License-Identifier: GPL-3.0-or-later
"""What is proven of a record: its statement, from the ledger and from the secrets kept for it.  SPEC B.5, B.6.

Statements are fixed once a record is in the ledger.  Hints are recomputed from the seed, never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ragseal.backends.mechanism import Engine
from ragseal.groth16.assignments import Assignment, assignment_of
from ragseal.groth16.keys import KeyView
from ragseal.kernel import mechanism, proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import Group
from ragseal.kernel.errors import AttestationError, ProofError, UnprovableError
from ragseal.kernel.hint_opening import scaled_blinder
from ragseal.kernel.proofs import ProofEntry, statement_of
from ragseal.prover.attestation.batch_openings import Case, hint_blinders
from ragseal.prover.attestation.retrieval import QUERY_KEY, QuerySecrets, decode_embedding, query_key, record_scores
from ragseal.prover.commitment.index import Version
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.retirement import require_kept
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window
from ragseal.prover.storage.window_secrets import WindowSecrets


@dataclass(frozen=True)
class Proving:
    """All that a record's proof is made from and checked with."""

    seq: int
    digest: bytes
    c_h: bytes
    c_w: bytes
    assignment: Assignment
    key: KeyView

    def __repr__(self) -> str:
        return f"Proving({self.seq})"

    def check(self, proof: bytes) -> None:
        """As an auditor does; ProofError: it does not hold for this record."""
        self.key.verify(self.assignment.clear, self.c_w, self.c_h, proof)

    def entry(self, proof: bytes) -> ProofEntry:
        return ProofEntry(self.seq, self.digest, self.c_h, proof)


class Statements:
    """The statements of one provider's records.  Methods block and may be called from any thread."""

    def __init__(
        self,
        state: State,
        journal: Journal,
        group: Group,
        engine: Engine,
        key_of: Callable[[bytes], KeyView],
        version_of: Callable[[Window, str, bytes], Version],
    ) -> None:
        """``version_of``: the version of a tenant's index in a window that has this digest; blocks."""
        self._state = state
        self._journal = journal
        self._group = group
        self._engine = engine
        self._key_of = key_of
        self._version_of = version_of

    def case(self, window: Window, secrets: WindowSecrets, seq: int) -> Case:
        """Record ``seq`` of a window.

        Raises:
            AttestationError: no such record, or the window is retired.
            ProofError: its secrets are missing, or another record's.
        """
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
                self.key(window).cls,
                c_seed=window.manifest.c_seed,
                beacon=window.beacon,
                ctx=request.ctx(),
                t_commit=record.t_commit,
            ),
            kept=kept,
            version=self._version_of(window, secrets.account(request.account).tenant, request.index_digest),
            key=mechanism.noise_key(secrets.limbs, window.beacon, request.ctx()),
        )

    def hints(self, window: Window, case: Case) -> bytes:
        """The packed hints of a record, megabytes; they are never stored."""
        policy = window.manifest.policy
        cls = self.key(window).cls
        w = record_scores(policy, cls, case.version, case.kept)
        return self._engine.hints(case.key, w, case.statement.hmax, policy.prizes(cls))

    def key(self, window: Window) -> KeyView:
        """The key under which a window is proven."""
        return self._key_of(window.manifest.key_digest)

    def c_w(self, window: Window, record: Record) -> bytes:
        """The commitment to a record's shifted scores."""
        key, policy = self.key(window), window.manifest.policy
        return proofs.shifted_scores(self._group, [record.c_y], key.sum_y, policy, key.cls)[0]

    def proving(self, window: Window, secrets: WindowSecrets, case: Case) -> Proving:
        """What a record's proof is made from.  ProofError: nothing can be proven about it."""
        policy, kept, key = window.manifest.policy, case.kept, self.key(window)
        e, columns = ([], ()) if policy.answers else (decode_embedding(kept.embedding), case.version.in_force.blinders)
        try:
            packed = self.hints(window, case)
        except (AttestationError, UnprovableError) as error:
            raise ProofError(f"record {case.record.seq}: {error}") from None
        blinders = hint_blinders(kept.rho_hint, packed, key.hint_bases.count)
        c_h = key.hint_bases.commit(self._group, packed, blinders)
        c_w = self.c_w(window, case.record)
        alpha, beta = proofs.challenges(key.digest, case.digest, case.statement, c_w, c_h)
        clear = (*case.statement.clear(), alpha, beta)
        assignment = assignment_of(key.cls)(
            clear=clear,
            w=tuple(int(x) for x in record_scores(policy, key.cls, case.version, kept)),
            h=packed,
            blind=proofs.total_blinder(policy.factor(key.cls), e, columns, kept.rho, scaled_blinder(blinders, beta)),
            seed=secrets.limbs,
            t_salt=kept.t_salt,
        )
        self._group.check(c_h)
        return Proving(case.record.seq, case.digest, c_h, c_w, assignment, key)
