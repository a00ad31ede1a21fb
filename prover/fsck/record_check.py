# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold between the ledger's records and the secrets kept for them; one pass a window.

The quick pass compares bytes and decodes nothing, so that it costs microseconds a record and can run at every start.
The whole pass opens every commitment with the kept secrets, selects T again from the seed, makes the answer again and
checks it as an account would, and verifies stored proofs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from ragseal.backends.poseidon import commit_lists, noise_key
from ragseal.kernel import field, proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.commitment import embedding_commitment
from ragseal.kernel.errors import AuditError, ProofError
from ragseal.kernel.proofs import BatchItem, ProofEntry, statement_of
from ragseal.kernel.record_proofs import proof_equations
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.merkle import leaf_hash, verify_inclusion
from ragseal.prover.attestation.answers import Answers, secrets_of_record
from ragseal.prover.attestation.open_window import OpenWindow
from ragseal.prover.attestation.retrieval import QuerySecrets, decode_embedding, record_commitment, record_scores
from ragseal.prover.commitment.columns import embedding_generators
from ragseal.prover.provider.backends import Backends
from ragseal.prover.storage.journal import Journal, read_page
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window

PAGE = 512  #: records read at a time

#: A record's fixed-width environment: what stands before its signed request, and behind it.
_HEAD = 1 + len(Record.TAG) + 2 + 32 + 8
_POINTS, _LIST, _TAIL = 1, 32, 8 + 1  #: count of C_y; a list; time and mode


def request_digest(entry: bytes, shards: int = 1, lists: int = 1) -> bytes:
    """Of an encoded record: the digest under which its request's secrets are kept (``query_key``)."""
    behind = _POINTS + POINT_BYTES * shards + _width(lists) + _TAIL
    return hashlib.sha256(entry[_HEAD:-behind]).digest()


def _width(lists: int) -> int:
    """Bytes of a record's commitments to T: several have a byte before them."""
    return _LIST * lists + (lists > 1)


def kept_commitments(secrets: bytes) -> bytes:
    """C_y and the commitments to T that a row of secrets is of; nothing where it is damaged."""
    try:
        kept = QuerySecrets.decode(secrets)
    except AuditError:
        return b""
    return kept.c_y + field.pack(kept.t_commits)


def commitments(entry: bytes, shards: int = 1, lists: int = 1) -> bytes:
    """Of an encoded record: C_y of every shard, and the commitments to T."""
    end = len(entry) - _TAIL
    points = end - _width(lists)
    return entry[points - POINT_BYTES * shards : points] + entry[end - _LIST * lists : end]


#: Told how many more records were looked at.
Progress = Callable[[int], None]


class RecordCheck:
    """The records of one window against the state."""

    def __init__(self, state: State, journal: Journal, window: Window) -> None:
        self._state = state
        self._journal = journal
        self._window = window

    def _entries(self) -> Iterator[tuple[int, int, bytes]]:
        """(seq, ledger index, entry) of every record, read in pages."""
        records = self._window.records
        for at in range(0, len(records), PAGE):
            wanted = records[at : at + PAGE]
            found = read_page(self._journal.ledger, wanted)
            for seq, (index, entry) in enumerate(zip(wanted, found, strict=True), at):
                yield seq, index, entry

    def quick(self, progress: Progress) -> Iterator[str]:
        """Every problem found: a record without its own secrets, proofs beyond the records."""
        digest, manifest = self._window.digest, self._window.manifest
        rows = self._state.rows("SELECT account, ctr, request, secrets FROM queries WHERE manifest = ?", (digest,))
        kept = {request: (account, ctr, secrets) for account, ctr, request, secrets in rows}
        owners = {seq: place for place, seq in self._window.seq_of.items()}
        shards = manifest.policy.shards
        lists = (
            shards if manifest.policy.decoy_rate or manifest.policy.form.plain else 1
        )  # of noise one, of decoys one a shard
        for seq, index, entry in self._entries():
            found = kept.get(request_digest(entry, shards, lists))
            where = f"record {seq} of window {manifest.window!r} (ledger entry {index})"
            if found is None:
                yield f"{where}: its secrets are missing, so it can be neither answered again nor proven"
            elif found[:2] != owners[seq] or kept_commitments(found[2]) != commitments(entry, shards, lists):
                yield f"{where}: the secrets kept for it belong to another record"
            progress(1)
        query = (
            "SELECT seq FROM proofs WHERE manifest = ?1 AND seq >= ?2 UNION "
            "SELECT seq FROM shard_proofs WHERE manifest = ?1 AND seq >= ?2"
        )
        for (seq,) in self._state.rows(query, (digest, len(self._window.records))):
            yield f"a proof of record {seq} of window {manifest.window!r} is kept, the ledger has no such record"

    def unrecorded(self) -> int:
        """How many requests have secrets and no record: stopped between the two, harmless."""
        found = self._state.row("SELECT COUNT(*) FROM queries WHERE manifest = ?", (self._window.digest,))
        return (int(found[0]) if found else 0) - len(self._window.records)

    def whole(self, opened: OpenWindow, tools: Backends, progress: Progress) -> Iterator[str]:
        """Every problem found; :meth:`quick` comes first."""
        answers = Answers(self._state)
        for seq, _, entry in self._entries():
            try:
                record = Record.decode(entry)
                kept = secrets_of_record(self._state, record)
                self._check_commitments(opened, tools, record, kept)
                self._check_answer(answers, opened, record)
                self._check_proof(opened, tools.group, record)
            except AuditError as error:
                yield f"record {seq} of window {self._window.manifest.window!r}: {error}"
            progress(1)

    def _check_commitments(self, opened: OpenWindow, tools: Backends, record: Record, kept: QuerySecrets) -> None:
        """C_e, C_y and the commitment to T open to what is kept, and T is what the seed's noise gives."""
        window, request, group = self._window, record.signed.request, tools.group
        account = opened.secrets.account(request.account)
        record.signed.verify(account.public_key)
        version, e = opened.version(account.tenant, request.index_digest), decode_embedding(kept.embedding)
        if embedding_commitment(group, embedding_generators(group, len(e)), e, kept.blinder) != request.c_e:
            raise ProofError("C_e does not open to the embedding kept for it")
        policy, cls = opened.rules(account.tenant), opened.key.cls
        if record_commitment(group, opened.key, version, policy, kept) != record.c_y:
            raise ProofError("C_y does not open to the scores and blinder kept for it")
        if commit_lists(cls, kept.t_salt, kept.returned, policy.shards) != record.t_commits:
            raise ProofError("the commitment to T does not open to the slots kept for it")
        if window.beacon is None:
            raise ProofError("its window was never opened")
        key = noise_key(opened.secrets.limbs, window.beacon, request.ctx())
        w = record_scores(policy, cls, version, kept)
        if tools.engine.answer(key, w, policy.asked(cls)) != kept.returned:
            raise ProofError("the slots and flags kept for it are not those that the committed seed gives")

    def _check_answer(self, answers: Answers, opened: OpenWindow, record: Record) -> None:
        """The answer, made again, convinces an account."""
        request = record.signed.request
        version = opened.version(opened.tenant(request.account), request.index_digest)
        answer = answers.again(opened.secrets, version, self._journal.entry(self._window.records[record.seq]))
        receipt, body = answer.receipt, answer.receipt.body
        receipt.verify(self._window.manifest.window_key)
        point = open_checkpoint(body.checkpoint, self._journal.ledger.verifier).checkpoint
        verify_inclusion(leaf_hash(record.encode()), body.index, point.size, receipt.path, point.root)

    def _check_proof(self, opened: OpenWindow, group: Group, record: Record) -> None:
        """A stored proof is of this record and holds."""
        window, key = self._window, opened.key
        query = "SELECT entry FROM proofs WHERE manifest = ? AND seq = ?"
        stored = self._state.row(query, (window.digest, record.seq))
        if stored is None:
            return
        entry = ProofEntry.decode(stored[0])
        if (entry.seq, entry.record_digest) != (record.seq, record.digest()):
            raise ProofError("the proof kept for it is of a different record")
        assert window.beacon is not None
        request, c_seed = record.signed.request, window.manifest.c_seed
        rules = opened.rules(opened.tenant(request.account))
        statement = statement_of(rules, key.cls, c_seed, window.beacon, request.ctx(), record.t_commits)
        (c_w,) = proofs.shifted_scores(group, [record.c_y], key.sum_y, rules, key.cls)
        item = BatchItem(record, entry.record_digest, "", statement, c_w, entry)
        for one in proof_equations(key.cls, key.digest, key.committed, item):
            key.verify(one.clear, one.c_w, one.committed, one.proof)
