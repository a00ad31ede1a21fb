# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A at the account: whether a window may be used at all.  Protocol section 3.

Pure.  The manifest is signed by the provider key this account pinned, names the pinned log, and its registry lists
this account with its own public key: the verifier reads a record's tenant from there, so a wrong line would move the
account's queries to another index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragseal.client.attestation import Window
from ragseal.kernel.commitment import Account, SignedManifest, registry_leaves
from ragseal.kernel.errors import AttestationError, CommitmentError
from ragseal.kernel.params import CircuitClass
from ragseal.kernel.policy import Policy
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteVerifier

ClassOf = Callable[[Policy], CircuitClass]  #: the circuit class a policy names; PolicyError if it is unknown here


def check_window(
    signed: SignedManifest,
    accounts: Sequence[Account],
    *,
    name: str,
    public_key: bytes,
    log: NoteVerifier,
    provider_key: bytes | None,
    class_of: ClassOf,
) -> Window:
    """Accept a window for one account.

    Args:
        accounts: the whole registry as the provider delivers it.
        name: this account, ``public_key`` its key.
        provider_key: the pinned provider key, None on first contact.
        class_of: finds the circuit class, from the client's own parameter files.

    Raises:
        CommitmentError: signature, provider key, log, registry or account line does not hold.
        PolicyError: a policy that is inconsistent or of a class that this installation does not know.
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
        )
    if len(accounts) != manifest.accounts or MerkleTree(registry_leaves(accounts)).root() != manifest.registry_root:
        raise CommitmentError("the account registry delivered is not the one the manifest commits to")
    mine = next((account for account in accounts if account.name == name), None)
    if mine is None:
        raise CommitmentError(
            f"account {name!r} is not in the registry of window {manifest.window!r}: give the provider the line that "
            f"`ragseal-client register-line` prints; it takes effect with the next window"
        )
    if mine.public_key != public_key:
        raise CommitmentError(f"the registry lists account {name!r} with another public key than this account's")
    return Window(manifest, manifest.digest(), mine, manifest.index_of(mine.tenant), class_of(manifest.policy))
