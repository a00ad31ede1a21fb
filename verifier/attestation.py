# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B as the auditor checks it: the window's records and the receipts that accounts hold.  SPEC B, D.6 and D.7."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragseal.kernel.attestation import COARSE_TIME, NO_RECEIPT, Answer, Receipt, Record
from ragseal.kernel.commitment import Account, Registry, registry_leaves, text_leaf
from ragseal.kernel.curve import Group
from ragseal.kernel.errors import AttestationError, AuditError, BudgetError
from ragseal.kernel.hints import places_commitment
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.merkle import MerkleTree, leaf_hash, verify_inclusion
from ragseal.ledger.note import NoteVerifier
from ragseal.verifier.asking import Asker
from ragseal.verifier.commitment import Life, Say, Window, quiet
from ragseal.verifier.evidence import ReceiptFile, Refused
from ragseal.verifier.log import LogView

# --- 6 records -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Logged:
    """One record of the window with where it stands and whose it is."""

    index: int
    record: Record
    digest: bytes
    tenant: str  #: from the registry, never from the record (claim A4)


def check_registry(window: Window, asker: Asker, say: Say = quiet) -> Mapping[str, Account]:
    """The accounts of the window by pseudonym: they give the manifest's root, and every tenant of theirs has an index.

    Raises:
        AuditError: whatever does not hold.
    """
    manifest = window.manifest
    accounts = Registry.decode(asker.registry()).accounts
    root = MerkleTree(registry_leaves(accounts)).root()
    say(accounts=len(accounts), registry_root=root)
    if root != manifest.registry_root or len(accounts) != manifest.accounts:
        raise Refused("the registry is not the one of the manifest", stated=manifest.registry_root, computed=root)
    for account in accounts:
        manifest.index_of(account.tenant)
    return {account.pseudonym: account for account in accounts}


def check_records(
    group: Group, log: LogView, window: Window, life: Life, accounts: Mapping[str, Account], say: Say = quiet
) -> tuple[Logged, ...]:
    """Step 6: every record of the window, in order, signed by a registered account within its budget.

    Raises:
        Refused: names the record by its seq and its place in the log.
    """
    found: list[Logged] = []
    for index, message in enumerate(log.messages):
        if not isinstance(message, Record):
            continue
        mine = message.manifest == window.digest
        if mine != (life.open_index < index < life.close_index):
            where = "stands outside its window" if mine else "of another window stands inside this one"
            raise Refused(f"the record at entry {index} {where}", ledger_index=index, seq=message.seq)
        if mine:
            found.append(_logged(index, message, window, accounts))
    _follow(found, window, life)
    if life.close.records != len(found):
        raise Refused("the closing entry counts other records", stated=life.close.records, counted=len(found))
    try:
        group.check(b"".join(one.record.signed.request.c_e + one.record.c_y for one in found))
    except AuditError:
        raise _bad_point(group, found) from None
    for tenant in window.manifest.tenants:
        say(**{f"records[{tenant.tenant}]": sum(one.tenant == tenant.tenant for one in found)})
    counts = Counter(one.record.signed.request.account for one in found)
    say(
        records=len(found),
        accounts_that_asked=len(counts),
        most_by_one_account=max(counts.values(), default=0),
        n_max=window.manifest.policy.n_max,
    )
    return tuple(found)


def _logged(index: int, record: Record, window: Window, accounts: Mapping[str, Account]) -> Logged:
    """One record on its own: well-formed, of this window, by a registered account, over its tenant's index."""
    request = record.signed.request
    try:
        account = accounts.get(request.account)
        if account is None:
            raise AttestationError(f"account {request.account!r} is not registered")
        record.signed.verify(account.public_key)
        manifest = window.manifest
        if (request.origin, request.window) != (manifest.origin, manifest.window):
            raise AttestationError(f"the request is for window {request.window!r} of {request.origin!r}")
        if request.index_digest != manifest.index_of(account.tenant).digest():
            raise AttestationError(f"the request names another index than that of tenant {account.tenant!r}")
        if (request.ctr == 1) != (request.last_receipt == NO_RECEIPT):
            raise AttestationError("an account's first request acknowledges no receipt, every later one a receipt")
    except AuditError as error:
        raise Refused(f"record {record.seq}: {error}", seq=record.seq, ledger_index=index) from None
    return Logged(index, record, record.digest(), account.tenant)


def _follow(found: Sequence[Logged], window: Window, life: Life) -> None:
    """What records say together: seq and ctr without gaps, budgets, times, nothing signed used twice."""
    policy = window.manifest.policy
    ctrs: Counter[str] = Counter()
    used: set[tuple[str, str, bytes]] = set()
    earliest = life.open.time - life.open.time % COARSE_TIME
    latest = min(policy.closes, life.close.time)
    for seq, one in enumerate(found):
        record, request = one.record, one.record.signed.request
        try:
            if record.seq != seq:
                raise AttestationError(f"seq {seq} is missing: a record was dropped or reordered")
            ctrs[request.account] += 1
            if request.ctr != ctrs[request.account]:
                raise AttestationError(
                    f"account {request.account!r} jumps to request {request.ctr}, expected {ctrs[request.account]}"
                )
            if request.ctr > policy.n_max:
                raise BudgetError(f"account {request.account!r} exceeds its {policy.n_max} queries")
            if not earliest <= record.time <= latest:
                raise AttestationError(f"its time {record.time} is outside the window [{earliest}, {latest}]")
            earliest = record.time
            for kind, value in (("request id", request.request_id), ("nonce", request.nonce)):
                if (request.account, kind, value) in used:
                    raise AttestationError(f"the {kind} was used by this account before")
                used.add((request.account, kind, value))
        except AuditError as error:
            raise Refused(f"record {record.seq}: {error}", seq=record.seq, ledger_index=one.index) from None


def _bad_point(group: Group, found: Sequence[Logged]) -> Refused:
    for one in found:
        try:
            group.check(one.record.signed.request.c_e + one.record.c_y)
        except AuditError as error:
            return Refused(f"record {one.record.seq}: {error}", seq=one.record.seq, ledger_index=one.index)
    return Refused("a commitment of some record is no point of the curve")


# --- 7 receipts ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tally:
    """A tenant's records: how many, with an e that the client checked, acknowledged by the account."""

    tenant: str
    total: int
    checked: int
    acknowledged: int

    @property
    def unchecked(self) -> int:
        return self.total - self.checked


def check_receipts(
    log: LogView,
    window: Window,
    records: Sequence[Logged],
    receipts: Sequence[ReceiptFile],
    log_key: NoteVerifier,
    say: Say = quiet,
) -> tuple[Tally, ...]:
    """Step 7: no receipt contradicts the log, and accounts acknowledge the receipts that they hold.

    Raises:
        Refused: names the receipt's file; its bytes and the log entry are the evidence.
    """
    shown: dict[bytes, Receipt] = {}
    foreign = answers = 0
    for file in receipts:
        try:
            record = _receipt(log, window, file, log_key)
        except AuditError as error:
            more = error.evidence if isinstance(error, Refused) else {}
            proof = {"file": file.name, "receipt": file.receipt.encode(), **more}
            raise Refused(f"receipt {file.name}: {error}", **proof) from None
        foreign += record.manifest != window.digest
        answers += file.answer is not None
        digest = record.digest()
        if shown.setdefault(digest, file.receipt) != file.receipt:
            raise Refused(f"receipt {file.name}: another receipt was given for the same record", file=file.name)
    acknowledged = _acknowledgements(records, shown)
    say(receipts=len(receipts), of_other_windows=foreign, with_answer=answers, acknowledged=len(acknowledged))
    return tuple(
        Tally(
            tenant.tenant,
            sum(one.tenant == tenant.tenant for one in records),
            sum(one.tenant == tenant.tenant and one.record.signed.request.checked for one in records),
            sum(one.tenant == tenant.tenant and one.digest in acknowledged for one in records),
        )
        for tenant in window.manifest.tenants
    )


def _receipt(log: LogView, window: Window, file: ReceiptFile, log_key: NoteVerifier) -> Record:
    """One receipt against the log; returns the record that it is for.  Step 1 found its checkpoint in the log."""
    body = file.receipt.body
    _signed(log, file.receipt)
    checkpoint = open_checkpoint(body.checkpoint, log_key)
    if body.index >= log.size:
        raise AttestationError(f"its record would be entry {body.index}, the log has {log.size}")
    record = log.messages[body.index]
    entry = log.entries[body.index]
    if not isinstance(record, Record) or record.digest() != body.record_digest:
        raise Refused(f"entry {body.index} of the log is another record than the one promised", entry=entry)
    if body.seq != record.seq or body.request_digest != record.signed.request.digest():
        raise AttestationError("it names another seq or request than its record")
    at = checkpoint.checkpoint
    verify_inclusion(leaf_hash(entry), body.index, at.size, file.receipt.path, at.root)
    if file.answer is not None:
        _answer(window, file.answer, record, entry)
    return record


def _signed(log: LogView, receipt: Receipt) -> None:
    """First of all a receipt is the provider's word; what anybody else wrote contradicts nothing."""
    for key in {signed.manifest.provider_key for _, signed in log.manifests()}:
        with contextlib.suppress(AttestationError):
            receipt.verify(key)
            return
    raise AttestationError("no provider of this log signed it, so it says nothing about one: leave it out")


def _answer(window: Window, answer: Answer, record: Record, entry: bytes) -> None:
    """A whole answer: its openings are those of the receipt, and of this window's record and texts."""
    if answer.record.encode() != entry:
        raise AttestationError("the answer holds another record than the log")
    if answer.openings.digest() != answer.receipt.body.openings_digest:
        raise AttestationError("the answer's openings are not those that the receipt signs")
    if record.manifest != window.digest:
        return
    cls = window.cls
    slots = answer.openings.slots
    ids = [slot.slot for slot in slots]
    if len(ids) != cls.K or any(a >= b for a, b in itertools.pairwise(ids)) or ids[-1] >= cls.N:
        raise AttestationError(f"the answer does not hold {cls.K} slots in increasing order")
    if places_commitment(cls, answer.openings.t_salt, ids) != record.t_commit:
        raise AttestationError("the answer's slots are not those that the record commits to")
    roots = {index.digest(): index.text_root for index in window.manifest.tenants}
    root = roots[record.signed.request.index_digest]  # step 6 found it to be one of them
    for slot in slots:
        text = slot.text.encode("utf-8") if slot.present else None
        verify_inclusion(leaf_hash(text_leaf(slot.salt, slot.slot, text)), slot.slot, cls.N, slot.path, root)


def _acknowledgements(records: Sequence[Logged], shown: Mapping[bytes, Receipt]) -> set[bytes]:
    """Digests of the records whose receipt the account acknowledged in its next request, or has shown here."""
    acknowledged = {one.digest for one in records if one.digest in shown}
    last: dict[str, Logged] = {}
    for one in records:
        request = one.record.signed.request
        before = last.get(request.account)
        if before is not None:
            receipt = shown.get(before.digest)
            if receipt is not None and receipt.digest() != request.last_receipt:
                raise Refused(
                    f"record {one.record.seq} acknowledges another receipt than the one shown for record "
                    f"{before.record.seq}: two receipts were issued for one request",
                    seq=one.record.seq,
                    acknowledged=request.last_receipt,
                    shown=receipt.digest(),
                )
            acknowledged.add(before.digest)
        last[request.account] = one
    return acknowledged
