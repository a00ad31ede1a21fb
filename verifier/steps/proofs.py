# SPDX-License-Identifier: GPL-3.0-or-later
"""The proofs of a window's records: statements rebuilt from the auditor's own log, batches verified.  SPEC B and D.8.

Nothing that a proof states is taken from its delivery.  C_w follows from C_y, the key and the policy; alpha and beta
are recomputed; C_y is tied to C_e over the columns of the tenant that the registry names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragseal.kernel import commitment, proofs
from ragseal.kernel.bn254 import Group
from ragseal.kernel.errors import ProofError
from ragseal.kernel.proofs import BatchItem, ProofBatch, ProofEntry, Statement
from ragseal.verifier.asking import Asker
from ragseal.verifier.evidence import Key, Refused, held
from ragseal.verifier.steps.manifest import Window
from ragseal.verifier.steps.recorder import Recorder, quiet
from ragseal.verifier.steps.records import LoggedRecord

BATCH = 256  #: records asked for at once: a failure names its batch, and progress shows


@dataclass(frozen=True, slots=True)
class ProofContext:
    """What every batch of a window is checked against."""

    group: Group
    window: Window
    key: Key
    columns: Mapping[str, bytes]  #: of each tenant, opened in step 4
    beacon: int
    generators: bytes  #: H_0 .. H_d

    @classmethod
    def of(cls, group: Group, window: Window, key: Key, columns: Mapping[str, bytes], beacon: int) -> ProofContext:
        dimension = window.manifest.policy.dimension
        return cls(group, window, key, columns, beacon, commitment.generators(group, dimension))


def check_proofs(basis: ProofContext, asker: Asker, wanted: Sequence[LoggedRecord], say: Recorder = quiet) -> None:
    """Step 8: every wanted record's proof, hint opening and link, in batches.

    Raises:
        Refused: names the batch and, where one proof is to blame, the record.
    """
    for batches, start in enumerate(range(0, len(wanted), BATCH)):
        part = wanted[start : start + BATCH]
        first, last = part[0].record.seq, part[-1].record.seq
        seqs = [one.record.seq for one in part]
        data = asker.proofs(seqs)
        with held(f"proofs of records {first}..{last}: ", batch=batches):
            check_batch(basis, part, ProofBatch.decode(data))
        say(batches=batches + 1, proofs=start + len(part))


def check_batch(basis: ProofContext, part: Sequence[LoggedRecord], batch: ProofBatch) -> None:
    """One batch against exactly the records it was asked for.

    Raises:
        AuditError: whatever does not hold.
    """
    if batch.manifest != basis.window.digest:
        raise ProofError("the batch belongs to another window")
    delivered = [(entry.seq, entry.record_digest) for entry in batch.entries]
    if delivered != [(one.record.seq, one.digest) for one in part]:
        raise Refused(
            "the batch does not hold exactly the records that were asked for",
            asked=[one.record.seq for one in part],
            delivered=[seq for seq, _ in delivered],
        )
    policy = basis.window.manifest.policy
    c_w = proofs.shifted_scores(basis.group, [one.record.c_y for one in part], basis.key.sum_y, policy)
    items = [_item(basis, *one) for one in zip(part, batch.entries, c_w, strict=True)]
    _pairings(basis, items)
    context = proofs.batch_context(basis.key.digest, basis.window.digest, items)
    proofs.verify_hints(basis.group, basis.key.hint_bases, context, items, batch.hints)
    _links(basis, items, batch, context)


def _item(basis: ProofContext, one: LoggedRecord, entry: ProofEntry, c_w: bytes) -> BatchItem:
    manifest = basis.window.manifest
    statement = Statement(
        c_seed=manifest.c_seed,
        beacon=basis.beacon,
        ctx=one.record.signed.request.ctx(),
        hmax=manifest.policy.hmax(basis.window.cls),
        t_commit=one.record.t_commit,
    )
    return BatchItem(one.record, one.digest, one.tenant, statement, c_w, entry)


def _pairings(basis: ProofContext, items: Sequence[BatchItem]) -> None:
    """All Groth16 proofs in one product with the auditor's own random weights; one by one to name a culprit."""
    equations = []
    for item in items:
        challenges = proofs.challenges(basis.key.digest, item.record_digest, item.statement, item.c_w, item.entry.c_h)
        equations.append((item.statement.clear() + challenges, item.c_w, item.entry.c_h, item.entry.proof))
    try:
        basis.key.verify_batch(equations)
    except ProofError as error:
        for item, equation in zip(items, equations, strict=True):
            try:
                basis.key.verify(*equation)
            except ProofError as single:
                seq = item.record.seq
                raise Refused(
                    f"the proof of record {seq} does not hold: {single}", seq=seq, proof=item.entry.proof
                ) from None
        raise error


def _links(basis: ProofContext, items: Sequence[BatchItem], batch: ProofBatch, context: bytes) -> None:
    """C_e and C_y of one e, over each tenant's own columns: that is SPEC B.11."""
    tenants = sorted({item.tenant for item in items})
    if [link.tenant for link in batch.links] != tenants:
        raise ProofError(f"the batch needs one link opening for each of {tenants}")
    for link in batch.links:
        own = [item for item in items if item.tenant == link.tenant]
        index_digest = basis.window.manifest.index_of(link.tenant).digest()
        proofs.verify_link(
            basis.group,
            basis.generators,
            basis.columns[link.tenant],
            basis.key.scores.b,
            proofs.link_context(context, link.tenant, index_digest),
            own,
            link.opening,
        )
