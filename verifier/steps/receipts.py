# SPDX-License-Identifier: GPL-3.0-or-later
"""Receipts that accounts hand in, against the log.  SPEC B.4 and D.7.

A receipt file comes from an account, and anybody can change it.  Only two things in it are the provider's word: the
body, if the key of the window that it names signed it, and the note inside, if the log's key did.  What else a file
holds (the path, an answer that is not the one whose digests the body has, a body that nobody of this log signed)
contradicts nothing: it is set aside, listed with the reason, and the audit goes on.  So is a body about another window
of this log that does not hold: whoever has that window's key can make it, and it says nothing of this one.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ragseal.backends.poseidon import commit_lists
from ragseal.kernel.attestation import Answer, Record, check_withheld
from ragseal.kernel.commitment import Manifest, text_leaf
from ragseal.kernel.errors import AttestationError, AuditError
from ragseal.ledger.checkpoint import SignedCheckpoint, recall
from ragseal.ledger.merkle import leaf_hash, verify_inclusion
from ragseal.ledger.note import NoteVerifier
from ragseal.verifier.evidence.evidence import ReceiptFile, Refused, held
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Entered, Window
from ragseal.verifier.steps.recorder import Recorder, quiet
from ragseal.verifier.steps.records import LoggedRecord, Placed
from ragseal.verifier.steps.versions import Versions


@dataclass(frozen=True, slots=True)
class SetAside:
    """A file that was handed in and says nothing about the provider."""

    file: str
    why: str


@dataclass(frozen=True, slots=True)
class Promise:
    """A receipt whose body the key of its window signed, over a checkpoint that a key of this log signed."""

    file: ReceiptFile
    checkpoint: SignedCheckpoint
    window: str | None  #: which it names; None: its manifest stands in no place of this log

    def elsewhere(self, digest: bytes) -> bool:
        """Whether it is about a window of this log other than this one."""
        return self.window is not None and self.file.receipt.body.manifest != digest


class _NotSignedError(AuditError):
    """What does not hold is a part of the file that the provider's signature does not cover."""


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


# --- 1 whose word a file is ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Noted:
    """A receipt file with a checkpoint in it that this log's key signed."""

    file: ReceiptFile
    checkpoint: SignedCheckpoint

    @property
    def whose(self) -> str:
        return f"the checkpoint of receipt {self.file.name}"


def sort_notes(
    files: Sequence[ReceiptFile], log_key: NoteVerifier, beside: Sequence[NoteVerifier] = ()
) -> tuple[list[Noted], list[SetAside]]:
    """Which files hold a note that the log's key signed: it is the log's word, whoever signed the rest.

    A note that only a key has signed which does not count for its size is ``void``: a thief can make it, so it is
    nobody's word by itself.  Who signed the body around it is for :func:`sort_receipts`.  So is one that a key of
    ``beside`` signed, which this log does not have.
    """
    noted, aside = [], []
    for file in files:
        try:
            noted.append(Noted(file, recall(file.receipt.body.checkpoint, log_key, beside)))
        except AuditError as error:
            aside.append(SetAside(file.name, f"its checkpoint is none of this log: {error}"))
    return noted, aside


def sort_receipts(log: LogView, noted: Sequence[Noted]) -> tuple[list[Promise], list[SetAside]]:
    """Which files are the provider's word.

    Those over a longer log than this one wait until that is shown, and so do those for an entry beyond what this build
    can read.

    Raises:
        Refused: a provider of this log signed a body around a note that does not count (SPEC G.6.13.8).
    """
    signers = _Signers.of(log) if noted else _Signers({}, {}, frozenset())
    promises, aside = [], []
    unread = len(log.messages) < log.size
    for one in noted:
        void, promise = one.checkpoint.void, signers.promise(one)
        if void and promise is None:
            aside.append(SetAside(one.file.name, "its checkpoint is signed by a key alone that does not count there"))
        elif void and promise is not None and promise.window is None:
            _refuse_off_the_log(promise)
        elif not void and unread and one.file.receipt.body.index >= len(log.messages):
            continue
        elif promise is None:
            aside.append(SetAside(one.file.name, "no provider of this log signed it"))
        elif void or one.checkpoint.checkpoint.size <= log.size:
            promises.append(promise)
    return promises, aside


def _refuse_off_the_log(one: Promise) -> None:
    """The answer is in a log that was kept beside this one by whoever signs receipts: no thief of a log key can.

    Raises:
        Refused: always.
    """
    raise Refused(
        f"receipt {one.file.name}: the provider signed it over {one.checkpoint.checkpoint.size} entries that a key "
        "alone has signed which does not count there: its answer is in no log that others see",
        file=one.file.name,
        receipt=one.file.receipt.encode(),
    )


@dataclass(frozen=True, slots=True)
class _Signers:
    """Whose signatures of receipts are a provider's of this log."""

    windows: Mapping[bytes, bytes]  #: keys of windows by the digests of their manifests, which stand in the log
    names: Mapping[bytes, str]  #: of the same
    providers: frozenset[tuple[str, bytes, bytes]]  #: (origin, log, provider key) of those manifests

    @classmethod
    def of(cls, log: LogView) -> _Signers:
        windows, names, providers = {}, {}, set()
        for _, signed in log.manifests():
            with contextlib.suppress(AuditError):
                signed.verify()
                digest = signed.manifest.digest()
                windows[digest], names[digest] = signed.manifest.window_key, signed.manifest.window
                providers.add(_provider(signed.manifest))
        return cls(windows, names, frozenset(providers))

    def promise(self, one: Noted) -> Promise | None:
        """What the provider said by this file, if it said anything."""
        if not self.signed(one.file):
            return None
        return Promise(one.file, one.checkpoint, self.names.get(one.file.receipt.body.manifest))

    def signed(self, file: ReceiptFile) -> bool:
        """By the key of the window that it names, which is in the log, or which its provider keeps beside the log."""
        named = file.receipt.body.manifest
        try:
            key = self.windows[named] if named in self.windows else self._certified(file, named)
            file.receipt.verify(key)
        except AuditError:
            return False
        return True

    def _certified(self, file: ReceiptFile, named: bytes) -> bytes:
        """The window's key by a manifest beside the file.  AttestationError: no provider of this log signed one."""
        one = file.manifests.get(named)
        if one is None or _provider(one.manifest) not in self.providers:
            raise AttestationError("no provider of this log signed a manifest of the receipt's window")
        one.verify()
        return one.manifest.window_key


def _provider(manifest: Manifest) -> tuple[str, bytes, bytes]:
    return manifest.origin, manifest.log, manifest.provider_key


# --- 7 what the provider's word says ---------------------------------------------------------------------------------


Shown = Mapping[bytes, Promise]  #: by the digest of the record that it promises


def check_promises(log: LogView, entered: Entered, promises: Sequence[Promise], say: Recorder = quiet) -> Shown:
    """Step 7, from receipts and log alone: no promise about this window contradicts the log or another promise.

    Raises:
        Refused: names the receipt's file; its bytes and the log entry are the evidence.
    """
    shown: dict[bytes, Promise] = {}
    for promise in promises:
        if promise.elsewhere(entered.digest):
            continue
        if promise.checkpoint.void:
            _refuse_off_the_log(promise)
            continue
        file = promise.file
        with held(f"receipt {file.name}: ", file=file.name, receipt=file.receipt.encode()):
            other = shown.setdefault(_promised(log, promise).digest(), promise).file.receipt
            if other.body != file.receipt.body:
                raise Refused("another receipt was given for the same record", other_receipt=other.encode())
    say(receipts=len(promises), with_answer=sum(promise.file.answer is not None for promise in promises))
    return shown


def check_answers(
    log: LogView, window: Window, versions: Versions, promises: Sequence[Promise], say: Recorder = quiet
) -> list[SetAside]:
    """Step 7, the rest of the files, whose bodies :func:`check_promises` and whose records step 6 found to hold.

    Returns:
        Files whose unsigned parts do not belong to their signed ones, and those about other windows that do not hold.

    Raises:
        Refused: openings whose digest the provider signed do not hold.
    """
    aside: list[SetAside] = []
    foreign = 0
    for promise in promises:
        file = promise.file
        if promise.elsewhere(window.digest):
            foreign += 1
            aside += _of_another_window(log, promise)
            continue
        if promise.checkpoint.void:
            continue
        with held(f"receipt {file.name}: ", file=file.name, receipt=file.receipt.encode()):
            record = _promised(log, promise)
            try:
                _rest(log, window, versions, promise, record)
            except _NotSignedError as error:
                aside.append(SetAside(file.name, f"{error}; its signed body holds"))
    say(of_other_windows=foreign)
    return aside


def _of_another_window(log: LogView, promise: Promise) -> list[SetAside]:
    """What an audit of the window that it names has to look at: that window's key is no witness of this one."""
    try:
        if promise.checkpoint.void:
            _refuse_off_the_log(promise)
        _promised(log, promise)
    except Refused as error:
        why = f"it is about window {promise.window!r}, which this audit is not of, and does not hold: {error}"
        return [SetAside(promise.file.name, f"{why}; audit that window with it")]
    return []


def tally(entered: Entered, records: Sequence[LoggedRecord], acknowledged: Collection[bytes]) -> tuple[Tally, ...]:
    """What was checked of each tenant's records."""
    total = Counter(one.tenant for one in records)
    checked = Counter(one.tenant for one in records if one.record.signed.request.checked)
    known = Counter(one.tenant for one in records if one.digest in acknowledged)
    names = [tenant.tenant for tenant in entered.manifest.tenants]
    return tuple(Tally(name, total[name], checked[name], known[name]) for name in names)


def _promised(log: LogView, promise: Promise) -> Record:
    """The record that a signed body promises.  Step 1 found its checkpoint in the log."""
    body, at = promise.file.receipt.body, promise.checkpoint.checkpoint
    if body.index >= at.size:
        raise Refused(f"its record would be entry {body.index}, the log of its checkpoint has {at.size}")
    record, entry = log.messages[body.index], log.entries[body.index]
    if not isinstance(record, Record) or record.digest() != body.record_digest:
        raise Refused(f"entry {body.index} of the log is not the record that was promised", entry=entry)
    if body.manifest != record.manifest:
        raise Refused("it names a window different from its record's", entry=entry)
    if body.seq != record.seq or body.request_digest != record.signed.request.digest():
        raise Refused("it names a seq or request different from its record's", entry=entry)
    return record


def _rest(log: LogView, window: Window, versions: Versions, promise: Promise, record: Record) -> None:
    """The path, which nobody signed, and the answer, of which the body has digests.

    Raises:
        _NotSignedError: a part of the file that the body does not vouch for.
        AuditError: openings whose digest the provider signed do not hold.
    """
    file, at = promise.file, promise.checkpoint.checkpoint
    body = file.receipt.body
    try:
        verify_inclusion(leaf_hash(log.entries[body.index]), body.index, at.size, file.receipt.path, at.root)
    except AuditError as error:
        raise _NotSignedError(f"its path is not its record's ({error})") from None
    if file.answer is None:
        return
    if file.answer.record != record:
        raise _NotSignedError("the answer holds a record different from the log's")
    if file.answer.openings.digest() != body.openings_digest:
        raise _NotSignedError("the answer's openings are not those that the receipt signs")
    _openings(window, versions, file.answer, record)


def _openings(window: Window, versions: Versions, answer: Answer, record: Record) -> None:
    """The openings that the provider signed are of this window's record and texts."""
    known = versions.known[record.signed.request.index_digest]  # step 6 found it there, in the log alone
    cls, policy = window.cls, window.manifest.rules(known.tenant)
    slots, capacity = answer.openings.slots, policy.capacity(cls)
    ids = [slot.slot for slot in slots]
    least, most = cls.least_ids(policy.shards), cls.most_ids(policy.shards)
    if not least <= len(ids) <= most or any(a >= b for a, b in itertools.pairwise([*ids, capacity])):
        due = cls.length_in_words(policy.shards)
        raise AttestationError(f"the answer does not hold {due} slots in increasing order")
    if commit_lists(cls, answer.openings.t_salt, answer.openings.returned(), policy.shards) != record.t_commits:
        raise AttestationError("the answer's slots and flags are not those that the record commits to")
    answer.openings.check_claim(policy)
    check_withheld(policy, answer.openings)
    root = policy.read_from(known.text_root)
    for slot in slots:
        if len(slot.texts) > slot.flag:
            raise AttestationError(f"the answer opens a text of slot {slot.slot}, whose flag is not set")
        for opened in slot.texts:
            leaf = leaf_hash(text_leaf(opened.salt, slot.slot, opened.content))
            verify_inclusion(leaf, slot.slot, capacity, opened.path, root)


def check_acknowledgements(log: LogView, records: Sequence[Placed], shown: Shown, say: Recorder = quiet) -> set[bytes]:
    """Step 7, from receipts and log alone: accounts acknowledge the very receipts that they hold.

    Returns:
        Digests of the records whose receipt the account acknowledged in its next request, or has shown here.

    Raises:
        Refused: two receipts were issued for one request.
    """
    acknowledged = {one.digest for one in records if one.digest in shown}
    last: dict[str, Placed] = {}
    for one in records:
        request = one.record.signed.request
        before = last.get(request.account)
        if before is not None:
            promise = shown.get(before.digest)
            if promise is not None and _issued(log, promise) != request.last_receipt:
                raise Refused(
                    f"record {one.record.seq} acknowledges a receipt different from the one shown for record "
                    f"{before.record.seq}: two receipts were issued for one request",
                    seq=one.record.seq,
                    acknowledged=request.last_receipt,
                    shown=promise.file.receipt.encode(),
                )
            acknowledged.add(before.digest)
        last[request.account] = one
    say(acknowledged=len(acknowledged))
    return acknowledged


def _issued(log: LogView, promise: Promise) -> bytes:
    """Digest of a receipt as it was issued: with the only path that its checkpoint allows, whatever the file has."""
    receipt = promise.file.receipt
    path = log.tree.path(receipt.body.index, promise.checkpoint.checkpoint.size)
    return replace(receipt, path=tuple(path)).digest()
