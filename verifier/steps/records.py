# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B as the auditor checks it: the registry and the window's records.  SPEC B and D.6."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragseal.kernel.attestation import COARSE_TIME, NO_RECEIPT, Record
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.commitment import Registry, registry_leaves
from ragseal.kernel.enrolment import Enrolment, Enrolments, check_lines, enrolment_leaves, places
from ragseal.kernel.errors import AttestationError, AuditError, BudgetError
from ragseal.ledger.merkle import MerkleTree
from ragseal.verifier.evidence.evidence import Refused, held
from ragseal.verifier.steps.asking import Asker
from ragseal.verifier.steps.lifespan import WindowSpan
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Entered
from ragseal.verifier.steps.recorder import Recorder, quiet
from ragseal.verifier.steps.versions import IndexVersion, Versions

# --- 6 records -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Placed:
    """One record of the window and where it stands in the log."""

    index: int
    record: Record
    digest: bytes
    version: IndexVersion  #: of the index that its request names


@dataclass(frozen=True, slots=True)
class LoggedRecord(Placed):
    """One record of the window and whose it is."""

    tenant: str  #: from the registry, never from the record (SPEC B.11)


def check_registry(
    window: Entered, versions: Versions, asker: Asker, say: Recorder = quiet, *, closed: bool = True
) -> Mapping[str, Enrolment]:
    """The accounts of the window by pseudonym: they give the manifest's root, and every tenant of theirs has an index.

    Where accounts come and go with versions of the indices, they also give the root of every update.

    Args:
        closed: ``versions`` are all that the window will ever have.  Else an honest provider may be further by the time
            that it is asked, and what came or left with later versions is left out.

    Raises:
        Refused: what the provider delivered under its signature is not the registry of its manifest, or is none.
        TransportError, Undecided: it delivered nothing.
    """
    manifest = window.manifest
    data = asker.registry()
    if versions.every:
        with held():
            delivered = Enrolments.decode(data)
            return _enrolled(window, versions, delivered if closed else _so_far(delivered, versions), say)
    with held():
        accounts = Registry.decode(data).accounts
        root = MerkleTree(registry_leaves(accounts)).root()
        say(accounts=len(accounts), registry_root=root)
        if root != manifest.registry_root or len(accounts) != manifest.accounts:
            raise Refused("the registry is not the one of the manifest", stated=manifest.registry_root, computed=root)
        for account in accounts:
            manifest.index_of(account.tenant)
    return {account.pseudonym: Enrolment(account, place) for place, account in enumerate(accounts)}


def _so_far(delivered: Enrolments, versions: Versions) -> Enrolments:
    """The accounts up to the newest of these versions."""
    newest = len(versions.updates)
    lines = (replace(one, until=0) if one.until > newest else one for one in delivered.lines if one.since <= newest)
    return replace(delivered, lines=tuple(lines))


def _enrolled(window: Entered, versions: Versions, delivered: Enrolments, say: Recorder) -> Mapping[str, Enrolment]:
    """The accounts of a window with ticks, held against the manifest and every update of it."""
    manifest, size = window.manifest, places(window.manifest)
    check_lines(manifest, delivered.lines, len(versions.updates))
    first = delivered.registry()
    root = MerkleTree(registry_leaves(first)).root()
    say(accounts=len(delivered.lines), registry_root=root)
    if root != manifest.registry_root or len(first) != manifest.accounts:
        raise Refused("the registry is not the one of the manifest", stated=manifest.registry_root, computed=root)
    for index, update in versions.updates:
        leaves = enrolment_leaves(delivered.secret, update.number, delivered.lines, size)
        root = MerkleTree(leaves).root()
        if root != update.registry_root:
            raise Refused(
                f"the accounts that may ask over version {update.number} are not those that its update commits to",
                stated=update.registry_root,
                computed=root,
                ledger_index=index,
            )
    return {line.account.pseudonym: line for line in delivered.lines}


def check_order(
    group: Group, log: LogView, entered: Entered, life: WindowSpan, versions: Versions, say: Recorder = quiet
) -> tuple[Placed, ...]:
    """Step 6, from the log alone: the window's records are in it in order, without gaps, in budget and in time.

    Args:
        versions: of the window's indices, each with its place in the log.

    Raises:
        Refused: names the record by its seq and its place in the log.
    """
    found: list[Placed] = []
    for index, message in enumerate(log.messages):
        if not isinstance(message, Record):
            continue
        mine = message.manifest == entered.digest
        if mine != (life.open_index < index < life.close_index):
            where = "stands outside its window" if mine else "of another window stands inside this one"
            raise Refused(f"the record at entry {index} {where}", ledger_index=index, seq=message.seq)
        if mine:
            found.append(_placed(index, message, entered, versions))
    _follow(found, entered, life)
    if life.close is not None and life.close.records != len(found):
        raise Refused(
            f"the closing entry counts {life.close.records} records, the log holds {len(found)}",
            stated=life.close.records,
            counted=len(found),
        )
    try:
        group.check(b"".join(one.record.signed.request.c_e + one.record.c_y for one in found))
    except AuditError:
        raise _bad_point(group, found) from None
    counts = Counter(one.record.signed.request.account for one in found)
    say(
        records=len(found),
        accounts_that_asked=len(counts),
        most_by_one_account=max(counts.values(), default=0),
        n_max=entered.manifest.policy.n_max,
    )
    return tuple(found)


def _placed(index: int, record: Record, entered: Entered, versions: Versions) -> Placed:
    """One record on its own: of this window, over one of its indices as they are just then."""
    request, manifest = record.signed.request, entered.manifest
    try:
        if (request.origin, request.window) != (manifest.origin, manifest.window):
            raise AttestationError(f"the request is for window {request.window!r} of {request.origin!r}")
        shards = manifest.policy.shards
        if len(record.c_y) != POINT_BYTES * shards:
            raise AttestationError(
                f"it commits to scores of {len(record.c_y) // POINT_BYTES} shards, the window's indices have {shards}"
            )
        if manifest.policy.checked and not request.checked:
            raise AttestationError("its account did not check the embedding, which the policy demands")
        version = versions.answering(index, record)
        if (request.ctr == 1) != (request.last_receipt == NO_RECEIPT):
            raise AttestationError("an account's first request acknowledges no receipt, every later one a receipt")
    except AuditError as error:
        raise Refused(f"record {record.seq}: {error}", seq=record.seq, ledger_index=index) from None
    return Placed(index, record, record.digest(), version)


def check_accounts(
    placed: Sequence[Placed], entered: Entered, accounts: Mapping[str, Enrolment], say: Recorder = quiet
) -> tuple[LoggedRecord, ...]:
    """Step 6, with the registry: every record is signed by a registered account and over its tenant's index.

    Raises:
        Refused: names the record by its seq and its place in the log.
    """
    found = tuple(_logged(one, entered, accounts) for one in placed)
    for tenant in entered.manifest.tenants:
        say(**{f"records[{tenant.tenant}]": sum(one.tenant == tenant.tenant for one in found)})
    return found


def _logged(one: Placed, entered: Entered, accounts: Mapping[str, Enrolment]) -> LoggedRecord:
    record, request = one.record, one.record.signed.request
    try:
        line = accounts.get(request.account)
        if line is None:
            raise AttestationError(f"account {request.account!r} is not registered")
        account = line.account
        record.signed.verify(account.public_key)
        if not line.in_force(one.version.number):
            raise AttestationError(
                f"account {request.account!r} may not ask over version {one.version.number} of the index: it "
                f"came with version {line.since}" + (f" and left with version {line.until}" if line.until else "")
            )
        if one.version.tenant != account.tenant:
            raise AttestationError(f"the request names an index other than that of tenant {account.tenant!r}")
    except AuditError as error:
        raise Refused(f"record {record.seq}: {error}", seq=record.seq, ledger_index=one.index) from None
    return LoggedRecord(one.index, record, one.digest, one.version, account.tenant)


def _follow(found: Sequence[Placed], entered: Entered, life: WindowSpan) -> None:
    """What records say together: seq and ctr without gaps, budgets, times, nothing signed used twice."""
    policy = entered.manifest.policy
    ctrs: Counter[str] = Counter()
    used: set[tuple[str, str, bytes]] = set()
    earliest = life.open.time - life.open.time % COARSE_TIME
    over = policy.ends(life.open.time)
    latest = over if life.close is None else min(over, life.close.time)
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


def _bad_point(group: Group, found: Sequence[Placed]) -> Refused:
    for one in found:
        try:
            group.check(one.record.signed.request.c_e + one.record.c_y)
        except AuditError as error:
            return Refused(f"record {one.record.seq}: {error}", seq=one.record.seq, ledger_index=one.index)
    return Refused("a commitment of some record is not a point of the curve")
