# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A at the account: whether a window may be used at all.  SPEC A.

Pure.  The manifest is signed by the provider key this account pinned, names the pinned log, and its registry holds
this account's line with its own public key: the verifier reads a record's tenant from there, so a wrong line would move
the account's queries to another index.  The other lines are nobody's business but the auditor's.
"""

from __future__ import annotations

from collections.abc import Callable

from ragseal.client.attestation import Window
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import Manifest, Membership, SignedManifest
from ragseal.kernel.enrolment import LateMembership, places
from ragseal.kernel.errors import AttestationError, CommitmentError, LedgerError
from ragseal.kernel.policy import Policy
from ragseal.kernel.verdict import log_digest
from ragseal.kernel.versions import IndexUpdate
from ragseal.ledger.merkle import leaf_hash, verify_inclusion
from ragseal.ledger.note import NoteVerifier

ClassOf = Callable[[Policy], AttestationClass]  #: the circuit class a policy names; PolicyError if it is unknown here


def check_manifest(
    signed: SignedManifest, *, log: NoteVerifier, provider_key: bytes | None, auditor_key: bytes | None = None
) -> None:
    """Whose manifest it is: before this account tells anybody its name.

    Args:
        provider_key: the pinned provider key, None on first contact.
        auditor_key: the auditor that this account insists on, None for any.

    Raises:
        CommitmentError: signature, provider key, log or auditor is not the expected one.
    """
    manifest = signed.manifest
    if provider_key is not None and manifest.provider_key != provider_key:
        raise CommitmentError(
            f"the manifest is by the provider key {manifest.provider_key.hex()}, this account has pinned "
            f"{provider_key.hex()}: another provider, or a changed key; compare it with the provider by other means"
        )
    try:
        signed.verify()
    except AttestationError:
        raise CommitmentError("the manifest is not signed by the provider key that it names") from None
    if manifest.origin != log.name:
        raise CommitmentError(
            f"the manifest belongs to the log {manifest.origin!r}, this account has pinned the log key of {log.name!r}"
            ": give the right --log-key (log_key=), or the right provider"
        )
    if manifest.log != log_digest(log.vkey()):
        raise CommitmentError(
            f"the manifest belongs to a log {log.name!r} with a different key than the one that this account has "
            "pinned: compare the log key with the provider's by other means"
        )
    if auditor_key is not None and manifest.auditor_of(auditor_key) is None:
        named = ", ".join(f"{one.owner} {one.public_key.hex()}" for one in manifest.auditors)
        raise CommitmentError(
            f"window {manifest.window!r} names {named}; this account wants the auditor {auditor_key.hex()}"
        )


def check_window(
    signed: SignedManifest,
    membership: Membership | LateMembership,
    update: IndexUpdate | None = None,
    *,
    name: str,
    public_key: bytes,
    class_of: ClassOf,
) -> Window:
    """Accept a window, after :func:`check_manifest`, for one account.

    Args:
        membership: this account's line of the registry, with its path.
        update: of an account that came after the manifest, the log's entry that has its line.
        name: this account, ``public_key`` its key.
        class_of: finds the circuit class, from the client's own parameter files.

    Raises:
        CommitmentError: the line is another account's, or not in the registry of manifest or update.
        PolicyError: a policy that is inconsistent or of a class that this installation does not know.
    """
    manifest, mine = signed.manifest, membership.account
    if mine.name != name:
        raise CommitmentError(f"the provider shows the line of an account other than {name!r}")
    if mine.public_key != public_key:
        raise CommitmentError(f"the registry lists account {name!r} with a public key different from this account's")
    if isinstance(membership, LateMembership):
        _check_late(manifest, membership, update)
    else:
        try:
            leaf = leaf_hash(mine.encode())
            verify_inclusion(leaf, membership.index, manifest.accounts, membership.path, manifest.registry_root)
        except LedgerError as error:
            raise CommitmentError(f"this account's line is not in the registry of the manifest: {error}") from None
    return Window(manifest, manifest.digest(), mine, manifest.index_of(mine.tenant), class_of(manifest.policy))


def _check_late(manifest: Manifest, late: LateMembership, update: IndexUpdate | None) -> None:
    """The line of an account that came with a version of the indices is in the registry of that window's update."""
    if not manifest.policy.version_every:
        raise CommitmentError("the provider shows an account that came later, in a window whose registry is fixed")
    if update is None or update.manifest != manifest.digest():
        raise CommitmentError("the update in which the provider shows this account's line is another window's")
    try:
        leaf = leaf_hash(late.leaf())
        verify_inclusion(leaf, late.place, places(manifest), late.path, update.registry_root)
    except LedgerError as error:
        raise CommitmentError(f"this account's line is not in the registry of the update: {error}") from None
