# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B at the account: what it checks before it signs, what it signs, and what it checks in the answer.

SPEC B.1 to B.4.  Pure: bytes and messages in, nothing or an error out; no I/O, clock or randomness.  Whatever a
provider could get wrong in its own favour is one named check here, and each of them raises instead of warning: a wrong
commitment to e before the nonce is known, an answer to other bytes than those signed, returned slots or texts that are
not the committed ones, a receipt that no ledger entry backs.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ragseal.backends.poseidon import commit_lists
from ragseal.kernel import attestation as messages
from ragseal.kernel.attestation import (
    Answer,
    Openings,
    Prepare,
    Prepared,
    Receipt,
    Record,
    Request,
    SignedRequest,
    check_withheld,
)
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import Account, Manifest, embedding_commitment, text_leaf
from ragseal.kernel.errors import AttestationError, BudgetError, EncodingError, LedgerError
from ragseal.kernel.fixedpoint import check_embedding
from ragseal.kernel.policy import Policy
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.merkle import leaf_hash, verify_inclusion
from ragseal.ledger.note import NoteVerifier

NONCE_BYTES = 16


class IndexVersion(Protocol):
    """A version of a tenant's index (:class:`ragseal.kernel.commitment.TenantIndex` is one)."""

    @property
    def text_root(self) -> bytes: ...

    def digest(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Window:
    """An open window as one account sees it, accepted by :mod:`ragseal.client.commitment`."""

    manifest: Manifest
    digest: bytes  #: of the manifest
    account: Account  #: this account's line of the registry
    index: IndexVersion  #: its tenant's: the manifest's, or that of an update
    cls: AttestationClass

    @property
    def rules(self) -> Policy:
        """The policy that holds for this account's tenant: of its claim."""
        return self.manifest.rules(self.account.tenant)


def encode_embedding(e: Sequence[int]) -> bytes:
    """int8 entries as bytes, one an entry.

    Raises:
        AttestationError: an entry that is no int8.
    """
    try:
        return struct.pack(f"{len(e)}b", *(int(x) for x in e))
    except struct.error:
        raise AttestationError("an embedding entry does not fit int8") from None


def decode_embedding(data: bytes) -> list[int]:
    """Inverse of :func:`encode_embedding`."""
    return list(struct.unpack(f"{len(data)}b", data))


def check_prepared(
    group: Group, generators: bytes, window: Window, prepare: Prepare, prepared: Prepared, own: Sequence[int] | None
) -> bool:
    """Check the provider's first message.

    Args:
        generators: H_0 .. H_d of the window's dimension.
        own: this client's e, None without an embedder.

    Returns:
        Whether the committed e equals ``own`` entry by entry: the request's ``checked`` flag.

    Raises:
        AttestationError: another request id or index version, an e that is no quantised unit vector, or a C_e that
            does not open to it.
        ProofError: C_e is no point of the curve, or the identity.
    """
    if prepared.request_id != prepare.request_id:
        raise AttestationError("the provider prepared a request id different from the one that was sent")
    if prepared.index_digest != window.index.digest():
        raise AttestationError("the provider prepared an index version different from this tenant's in the window")
    e = decode_embedding(prepared.embedding)
    check_embedding(e, window.manifest.policy.dimension)
    group.check(prepared.c_e)
    if embedding_commitment(group, generators, e, prepared.blinder) != prepared.c_e:
        raise AttestationError("C_e does not open to the embedding and blinder that the provider states")
    return own is not None and list(own) == e


def check_budget(window: Window, ctr: int, renews_at: int | None = None) -> None:
    """Raises BudgetError when request number ``ctr`` exceeds the window's n_max.

    Args:
        renews_at: when the window is over, where that is known.
    """
    policy = window.manifest.policy
    if ctr > policy.n_max:
        raise BudgetError(
            f"account {window.account.name!r} has used its {policy.n_max} queries of window "
            f"{window.manifest.window!r}: ask again when the next window is open",
            renews_at=renews_at,
        )


def build_request(
    window: Window,
    prepare: Prepare,
    prepared: Prepared,
    *,
    ctr: int,
    checked: bool,
    nonce: bytes,
    last_receipt: bytes,
    seal_key: bytes,
) -> Request:
    """The request to sign, after :func:`check_prepared`.

    Args:
        ctr: 1, 2, 3, ... for this account in this window.
        nonce: 16 fresh random bytes that nobody has seen before C_e was fixed.
        last_receipt: digest of the last receipt in this window, NO_RECEIPT for the first request.
        seal_key: fresh X25519 public key, to which the answer will be sealed.

    Raises:
        AttestationError: a nonce of another length, or an acknowledgement that contradicts ctr.
        BudgetError: ctr exceeds n_max.
    """
    check_budget(window, ctr)
    if len(nonce) != NONCE_BYTES:
        raise AttestationError(f"a nonce has {NONCE_BYTES} bytes, not {len(nonce)}")
    if ctr < 1 or (ctr == 1) != (last_receipt == messages.NO_RECEIPT):
        raise AttestationError("the first request acknowledges no receipt, every later one the receipt before it")
    return Request(
        origin=window.manifest.origin,
        window=window.manifest.window,
        manifest=window.digest,
        account=window.account.pseudonym,
        ctr=ctr,
        request_id=prepare.request_id,
        query_digest=prepare.query_digest(),
        c_e=prepared.c_e,
        index_digest=prepared.index_digest,
        checked=checked,
        nonce=nonce,
        last_receipt=last_receipt,
        seal_key=seal_key,
    )


def check_own(window: Window, public_key: bytes, ctr: int, last_receipt: bytes, signed: SignedRequest) -> None:
    """A request that the provider shows is one that this account's key signed, and the one behind its last receipt.

    Args:
        public_key: this account's.
        ctr: the number that was asked for.
        last_receipt: digest of the last receipt that is kept of the window, NO_RECEIPT before the first.

    Raises:
        AttestationError: another's request, of another window or number, or one that continues another history.
    """
    request, manifest = signed.request, window.manifest
    try:
        signed.verify(public_key)
    except AttestationError:
        raise AttestationError("the provider shows a request as this account's that its key has not signed") from None
    shown = request.origin, request.window, request.manifest, request.account, request.ctr
    if shown != (manifest.origin, manifest.window, window.digest, window.account.pseudonym, ctr):
        raise AttestationError(
            f"the provider was asked for request {ctr} of window {manifest.window!r} and shows request {request.ctr} "
            f"of window {request.window!r}"
        )
    if request.last_receipt != last_receipt:
        raise AttestationError(
            f"request {ctr} of this account acknowledges a receipt different from the one that is kept here: the "
            "provider has signed two for one number. `ragseal-client receipts export` gives the kept one to an auditor"
        )


def check_record(group: Group, policy: Policy, mine: SignedRequest, record: Record) -> None:
    """The record carries exactly the signed request (and a decoded record is of its request's window).

    Raises:
        AttestationError: another request or signature, or C_y of another number of shards than the index has.
        ProofError: C_y is no point of the curve, or the identity.
    """
    if record.signed != mine:
        raise AttestationError("the record carries a request different from the one this account signed")
    if len(record.c_y) != POINT_BYTES * policy.shards:
        raise AttestationError(
            f"the record commits to the scores of {len(record.c_y) // POINT_BYTES} shards, the window's indices have "
            f"{policy.shards}"
        )
    group.check(record.c_y)


def check_time(policy: Policy, opened: int, record: Record) -> None:
    """The record's time lies in the window.  SPEC B.4.10.

    Args:
        opened: when the window was opened, as the opening in the log states, in seconds since 1970.

    Raises:
        AttestationError: the time lies before the opening, or after the window's end.
    """
    first, last = opened - opened % messages.COARSE_TIME, policy.ends(opened)
    if not first <= record.time <= last:
        raise AttestationError(
            f"the record states the time {record.time}, its window goes from {first} to {last}: no audit passes it"
        )


def check_openings(window: Window, record: Record, openings: Openings) -> None:
    """The returned slots and flags are those the record commits to, and every text is the one committed for its slot.

    Raises:
        AttestationError: a wrong number or order of slots, a slot outside the capacity, a commitment that does not
            open, a text without a flag, or more or fewer flags without a text than the policy's guard withholds.
        LedgerError: a text that the text tree of the version does not hold.
    """
    cls, policy = window.cls, window.rules
    capacity = policy.capacity(cls)
    ids = [slot.slot for slot in openings.slots]
    least, most = cls.least_ids(policy.shards), cls.most_ids(policy.shards)
    if not least <= len(ids) <= most:
        due = cls.length_in_words(policy.shards)
        raise AttestationError(f"the answer returns {len(ids)} slots, the policy's class returns {due}")
    if any(a >= b for a, b in itertools.pairwise(ids)):
        raise AttestationError("the returned slots are not strictly increasing: their order could carry information")
    if ids and ids[-1] >= capacity:
        raise AttestationError(f"slot {ids[-1]} is outside the index of {capacity} slots")
    if commit_lists(cls, openings.t_salt, openings.returned(), policy.shards) != record.t_commits:
        raise AttestationError("the returned slots and flags are not those that the record commits to")
    check_withheld(policy, openings)
    openings.check_claim(policy)
    root = policy.read_from(window.index.text_root)
    for slot in openings.slots:
        if len(slot.texts) > slot.flag:
            raise AttestationError(f"slot {slot.slot} comes with a text although its flag is not set")
        for opened in slot.texts:
            leaf = text_leaf(opened.salt, slot.slot, opened.content)
            try:
                verify_inclusion(leaf_hash(leaf), slot.slot, capacity, opened.path, root)
            except LedgerError as error:
                raise LedgerError(
                    f"the text of slot {slot.slot} is not the one committed in its index: {error}"
                ) from None


def check_receipt(
    manifest: Manifest, log: NoteVerifier, record: Record, openings_digest: bytes | None, receipt: Receipt
) -> Checkpoint:
    """The receipt is signed, speaks of this record, and the ledger holds the record.

    Args:
        openings_digest: what the answer's openings hash to; None where they are not at hand (an auditor's view).

    Returns:
        The checkpoint that covers the record, with a verified log signature.

    Raises:
        AttestationError: the signature, a digest or the sequence number does not hold.
        LedgerError: a checkpoint of another log, without the log's signature, or that does not include the record.
        EncodingError: a malformed checkpoint.
    """
    body = receipt.body
    try:
        receipt.verify(manifest.window_key)
    except AttestationError:
        raise AttestationError("the receipt is not signed by the window key of the manifest") from None
    if body.manifest != record.manifest:
        raise AttestationError("the receipt is of another window")
    if body.request_digest != record.signed.request.digest():
        raise AttestationError("the receipt is for another request")
    if body.record_digest != record.digest():
        raise AttestationError("the receipt is for another record than the one delivered with it")
    if body.seq != record.seq:
        raise AttestationError(f"the receipt says seq {body.seq}, the record {record.seq}")
    if openings_digest is not None and body.openings_digest != openings_digest:
        raise AttestationError("the receipt is for other openings than the ones delivered with it")
    if log.name != manifest.origin:
        raise LedgerError(f"the window is kept in the log {manifest.origin!r}, the pinned log key is of {log.name!r}")
    try:
        checkpoint = open_checkpoint(body.checkpoint, log).checkpoint
    except (LedgerError, EncodingError) as error:
        raise type(error)(f"the receipt's checkpoint does not hold: {error}") from None
    try:
        verify_inclusion(leaf_hash(record.encode()), body.index, checkpoint.size, receipt.path, checkpoint.root)
    except LedgerError as error:
        raise LedgerError(f"the ledger does not hold the record as the receipt says: {error}") from None
    return checkpoint


def check_answer(
    group: Group,
    window: Window,
    log: NoteVerifier,
    mine: SignedRequest,
    answer: Answer,
    previous: Receipt | None,
) -> Checkpoint:
    """Everything about an answer that can be checked without asking anyone.

    Args:
        mine: the signed request exactly as it was sent.
        previous: this account's receipt before this one in the window; None for the first.

    Returns:
        The verified checkpoint, still to be compared with the one this account remembers.

    Raises:
        AttestationError, LedgerError, ProofError, EncodingError: see the single checks.
    """
    check_record(group, window.manifest.policy, mine, answer.record)
    check_openings(window, answer.record, answer.openings)
    checkpoint = check_receipt(window.manifest, log, answer.record, answer.openings.digest(), answer.receipt)
    if previous is not None:
        earlier, later = previous.body, answer.receipt.body
        if earlier.seq >= later.seq or earlier.index >= later.index:
            raise LedgerError("the record does not come after this account's previous one in the ledger")
    return checkpoint
