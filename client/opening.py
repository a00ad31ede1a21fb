# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a window is open, as the log says: an account believes no announcement.  SPEC A.8, B.2.

Pure.  A request that is signed before the beacon is complete would meet noise that somebody may still choose, and a
record that precedes its window's opening is worth nothing to an auditor.  So the account reads the beacon's entries
itself: sealed by the provider, opened by everybody whom the seal names, by the manifest's auditor last, and the window
opened with exactly the value that these nonces give.  Where the claim has a coin, the indices were thinned in between,
once: what the coins hide was decided when nobody could choose it any more, and is the same for everybody.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.kernel import signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import (
    MAX_PARTICIPANTS,
    MESSAGES,
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    Manifest,
    Thinning,
    WindowOpen,
    beacon_commitment,
    beacon_value,
)
from ragseal.kernel.encoding import decode_any
from ragseal.kernel.errors import AuditError, CommitmentError

PROVIDER, AUDITOR = "provider", "auditor"
MOST_ENTRIES = 4 * MAX_PARTICIPANTS + 9  #: that lie between a manifest and its opening: of the beacon, and a thinning


def find_opening(manifest: Manifest, digest: bytes, entries: Sequence[bytes]) -> int | None:
    """Which of the log's entries after the manifest opens its window; None if none does yet.

    Args:
        entries: what follows the manifest in the log, as far as it is known, each proven to stand there.

    Raises:
        CommitmentError: the window was opened, but not by a complete beacon of the manifest's auditor.
    """
    commits: dict[str, BeaconCommit] = {}
    openings: dict[str, bytes] = {}
    order: list[str] = []
    seal: BeaconSeal | None = None
    thinned: Thinning | None = None
    for at, data in enumerate(entries):
        message = decode_any(data, (*MESSAGES, Record))
        if getattr(message, "manifest", None) != digest:
            continue
        if isinstance(message, BeaconCommit):
            if seal is None:  # later ones could be chosen knowing a nonce
                commits.setdefault(message.owner, message)
        elif isinstance(message, BeaconSeal):
            if AUDITOR in openings:
                raise CommitmentError("the window's beacon was sealed again after its auditor had opened")
            seal = message
        elif isinstance(message, BeaconOpening):
            if seal is not None and message.owner in seal.owners:
                openings.setdefault(message.owner, message.nonce)
                order.append(message.owner)
        elif isinstance(message, Thinning):
            if thinned is not None or AUDITOR not in openings:
                raise CommitmentError("the window's indices were thinned twice, or before its auditor had opened")
            thinned = message
        elif isinstance(message, WindowOpen):
            _complete(manifest, digest, commits, seal, openings, order, message)
            _thinned(manifest, thinned)
            return at
        elif isinstance(message, Record):
            raise CommitmentError("the log holds a record of the window before its opening")
    return None


def _thinned(manifest: Manifest, thinned: Thinning | None) -> None:
    """The window answers from thinned indices if its claim has a coin, and from no others."""
    if manifest.policy.coined and thinned is None:
        raise CommitmentError("the window was opened without its coins: nothing says which slots they hide")
    if thinned is not None:
        if not manifest.policy.coined:
            raise CommitmentError("the window's indices were thinned, although its claim has no coin")
        if [one.tenant for one in thinned.tenants] != [one.tenant for one in manifest.tenants]:
            raise CommitmentError("the thinned indices are not those of the manifest's tenants")


def _complete(
    manifest: Manifest,
    digest: bytes,
    commits: dict[str, BeaconCommit],
    seal: BeaconSeal | None,
    openings: dict[str, bytes],
    order: list[str],
    opened: WindowOpen,
) -> None:
    if seal is None or seal.owners[:1] != (PROVIDER,) or seal.owners[-1:] != (AUDITOR,):
        raise CommitmentError(
            "the window was opened without a beacon that begins with the provider and ends with an auditor"
        )
    try:
        signature.verify(manifest.provider_key, "beacon-seal", seal.body(), seal.signature)
        commits[AUDITOR].verify()
    except (AuditError, KeyError):
        raise CommitmentError("the window's beacon is not sealed by the provider over an auditor's nonce") from None
    if commits[AUDITOR].public_key != manifest.auditor_key:
        raise CommitmentError("the window's beacon ends with somebody who is not the auditor that the manifest names")
    for owner in seal.owners:
        expected = manifest.beacon_commitment if owner == PROVIDER else getattr(commits.get(owner), "commitment", None)
        if owner not in openings or beacon_commitment(owner, openings[owner]) != expected:
            raise CommitmentError(f"the window was opened although {owner} has not opened what it committed to")
    if any(owner in seal.owners for owner in order[order.index(AUDITOR) + 1 :]):
        raise CommitmentError("the window's auditor did not open last: whoever did could choose the beacon")
    if opened.beacon != beacon_value(digest, [(owner, openings[owner]) for owner in seal.owners]):
        raise CommitmentError("the window was opened with a beacon different from what its nonces give")
