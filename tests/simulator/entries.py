# SPDX-License-Identifier: GPL-3.0-or-later
"""Log entries with their signatures, for whoever is to have signed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconSeal,
    beacon_commitment,
)
from ragseal.kernel.commitment import (
    Manifest,
    SignedManifest,
)


def signed_manifest(manifest: Manifest, key: Ed25519PrivateKey) -> SignedManifest:
    return SignedManifest(manifest, signature.sign(key, "manifest", manifest.encode()))


def beacon_commit(manifest: bytes, owner: str, nonce: bytes, key: Ed25519PrivateKey) -> BeaconCommit:
    """A participant's commitment to its nonce."""
    body = BeaconCommit(manifest, owner, signature.public_bytes(key), beacon_commitment(owner, nonce), bytes(64))
    return replace(body, signature=signature.sign(key, "beacon-commit", body.body()))


def beacon_seal(manifest: bytes, owners: Sequence[str], key: Ed25519PrivateKey) -> BeaconSeal:
    """The provider's list of those who take part."""
    body = BeaconSeal(manifest, tuple(owners), bytes(64))
    return replace(body, signature=signature.sign(key, "beacon-seal", body.body()))
