# SPDX-License-Identifier: GPL-3.0-or-later
"""The proofs of a window's records: statements rebuilt from the auditor's own log, batches verified.  SPEC B and D.8.

Nothing that a proof states is taken from its delivery.  C_w follows from C_y, the key and the policy; alpha and beta
are recomputed; C_y is tied to C_e over the columns of the tenant that the registry names; of answers, to the score
bases.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ragseal.kernel import commitment, proofs
from ragseal.kernel.bn254 import Group
from ragseal.kernel.errors import AuditError, ProofError
from ragseal.kernel.opening import Equations
from ragseal.kernel.proofs import BatchItem, ProofBatch, ProofEntry, statement_of
from ragseal.kernel.record_proofs import ProofEquation, proof_equations
from ragseal.verifier.evidence.evidence import OWN_MISTAKE, Key, Refused, Undecided, held
from ragseal.verifier.steps.asking import Asker
from ragseal.verifier.steps.manifest import Window
from ragseal.verifier.steps.recorder import Recorder, quiet
from ragseal.verifier.steps.records import LoggedRecord

BATCH = proofs.ASKED_TOGETHER
TOGETHER = 16  #: batches whose openings are checked by one multi-scalar multiplication, over bases that they share


@dataclass(frozen=True, slots=True)
class ProofContext:
    """What every batch of a window is checked against."""

    group: Group
    window: Window
    key: Key
    columns: Mapping[bytes, bytes]  #: of each version of an index by its digest, opened in step 4
    beacon: int
    generators: bytes  #: H_0 .. H_d

    @classmethod
    def of(cls, group: Group, window: Window, key: Key, columns: Mapping[bytes, bytes], beacon: int) -> ProofContext:
        dimension = window.manifest.policy.dimension
        return cls(group, window, key, columns, beacon, commitment.generators(group, dimension))


def check_proofs(basis: ProofContext, asker: Asker, wanted: Sequence[LoggedRecord], say: Recorder = quiet) -> None:
    """Step 8: every wanted record's proof, hint opening and link, in batches.

    Raises:
        Refused: names the batch and, where one proof is to blame, the record.
    """
    later, waiting = Equations(basis.group, secrets.token_bytes), list[_Delivered]()
    for number, start in enumerate(range(0, len(wanted), BATCH)):
        part = wanted[start : start + BATCH]
        try:
            data = asker.proofs([one.record.seq for one in part])
        except AuditError:
            _settle(basis, later, waiting)  # withholding the next ones takes nothing back
            raise
        with _naming(number, part):
            waiting.append(_Delivered(number, part, ProofBatch.decode(data)))
            check_batch(basis, part, waiting[-1].batch, later)
        if len(waiting) == TOGETHER or start + BATCH >= len(wanted):
            _settle(basis, later, waiting)
            waiting = []
        say(batches=number + 1, proofs=start + len(part))


@dataclass(frozen=True, slots=True)
class _Delivered:
    """A batch whose openings are still to be checked."""

    number: int
    part: Sequence[LoggedRecord]
    batch: ProofBatch


def _naming(number: int, part: Sequence[LoggedRecord]) -> AbstractContextManager[None]:
    """What is refused inside names the batch and its records."""
    return held(f"proofs of records {part[0].record.seq}..{part[-1].record.seq}: ", batch=number)


def _settle(basis: ProofContext, later: Equations, waiting: Sequence[_Delivered]) -> None:
    """The openings of these batches hold; where they do not, one batch after the other is checked to name it.

    Raises:
        Refused: names the batch.
        Undecided: each of them does: this machine's arithmetic is wrong.
    """
    if later.hold():
        return
    for one in waiting:
        with _naming(one.number, one.part):
            check_batch(basis, one.part, one.batch)
    raise Undecided("openings that hold one by one do not hold together", OWN_MISTAKE)


def check_batch(
    basis: ProofContext, part: Sequence[LoggedRecord], batch: ProofBatch, later: Equations | None = None
) -> None:
    """One batch against exactly the records it was asked for.

    Args:
        later: takes the equations of the batch's openings; without it they are checked here.

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
    c_y = [one.record.c_y for one in part]
    c_w = proofs.shifted_scores(basis.group, c_y, basis.key.sum_y, policy, basis.window.cls)
    items = [_item(basis, *one) for one in zip(part, batch.entries, c_w, strict=True)]
    _pairings(basis, items)
    context = proofs.batch_context(basis.key.digest, basis.window.digest, items)
    proofs.verify_committed(basis.group, basis.key.committed, context, items, batch.openings, later)
    _links(basis, items, batch, context, later)


def _item(basis: ProofContext, one: LoggedRecord, entry: ProofEntry, c_w: bytes) -> BatchItem:
    manifest = basis.window.manifest
    statement = statement_of(
        manifest.rules(one.tenant),
        basis.window.cls,
        c_seed=manifest.c_seed,
        beacon=basis.beacon,
        ctx=one.record.signed.request.ctx(),
        t_commits=one.record.t_commits,
    )
    return BatchItem(
        record=one.record,
        record_digest=one.digest,
        tenant=one.tenant,
        statement=statement,
        c_w=c_w,
        entry=entry,
        number=one.version.number,
    )


def _pairings(basis: ProofContext, items: Sequence[BatchItem]) -> None:
    """All Groth16 proofs in one product with the auditor's own random weights; one by one to name a culprit."""
    key, equations = basis.key, list[tuple[BatchItem, ProofEquation]]()
    for item in items:
        equations += [(item, one) for one in proof_equations(basis.window.cls, key.digest, key.committed, item)]
    try:
        key.verify_batch([(one.clear, one.c_w, one.committed, one.proof) for _, one in equations])
    except ProofError as error:
        for item, one in equations:
            try:
                key.verify(one.clear, one.c_w, one.committed, one.proof)
            except ProofError as single:
                seq = item.record.seq
                raise Refused(
                    f"the proof of record {seq} does not hold: {single}", seq=seq, proof=item.entry.proof
                ) from None
        raise error


def _links(
    basis: ProofContext, items: Sequence[BatchItem], batch: ProofBatch, context: bytes, later: Equations | None
) -> None:
    """C_e and C_y of one e, over each tenant's own columns in the version that is named: that is SPEC B.11.

    Where the claim is answers there is no column that a histogram would come of: C_y opens over the score bases, and
    whose it is follows from who signed the request (SPEC B.7.8).
    """
    versions = sorted({item.version for item in items})
    if [(link.tenant, link.number) for link in batch.links] != versions:
        raise ProofError(f"the batch needs one link opening for each of {versions}")
    for link in batch.links:
        own = [item for item in items if item.version == (link.tenant, link.number)]
        index_digest = own[0].record.signed.request.index_digest  # step 6 found it to be this version's
        if basis.window.manifest.policy.answers:
            here = proofs.histogram_context(context, link.tenant, index_digest)
            proofs.verify_histograms(basis.group, basis.key.scores, here, own, link.opening, later)
            continue
        proofs.verify_link(
            basis.group,
            basis.generators,
            basis.columns[index_digest],
            basis.key.scores.b,
            proofs.link_context(context, link.tenant, index_digest),
            own,
            link.opening,
            later,
        )
