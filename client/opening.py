# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a window is open, as the log says: an account believes no announcement.  SPEC A.8, B.2.

Pure.  A request that is signed before the beacon is complete would meet noise that somebody may still choose, and a
record that precedes its window's opening is worth nothing to an auditor.  So the account reads the beacon's entries
itself: sealed by the provider, opened by everybody whom the seal names, by the manifest's auditor last, and the window
opened with exactly the value that these nonces give.  Where the claim has a coin, the indices were thinned in between,
once: what the coins hide was decided when nobody could choose it any more, and is the same for everybody.

All that may happen while the window before takes queries; but that one was closed before this one was opened, and no
newer one was committed: of two that may be opened, the provider could choose the one whose beacon it likes.
"""

from __future__ import annotations

from collections.abc import Iterable

from ragseal.kernel import signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import (
    MESSAGES,
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    Manifest,
    SignedManifest,
    Thinning,
    WindowClose,
    WindowOpen,
    beacon_commitment,
    beacon_value,
)
from ragseal.kernel.encoding import Message, decode_any
from ragseal.kernel.errors import AuditError, CommitmentError

PROVIDER, AUDITOR = "provider", "auditor"
MOST_ENTRIES = 1 << 18  #: between a manifest and its opening: the window before may take queries all the while
MOST_BYTES = 1 << 28  #: of them


class Opening:
    """Looks for the opening of a window among the entries that follow its manifest, one after the other."""

    def __init__(self, manifest: Manifest, digest: bytes) -> None:
        self._manifest, self._digest = manifest, digest
        self._commits: dict[str, BeaconCommit] = {}
        self._openings: dict[str, bytes] = {}
        self._order: list[str] = []
        self._seal: BeaconSeal | None = None
        self._thinned: Thinning | None = None
        self._others: set[bytes] = set()  #: windows that take queries by what they last showed

    def opens(self, entry: bytes) -> bool:
        """Whether the log's next entry opens the window.

        Raises:
            CommitmentError: it does, but not by a complete beacon of the manifest's auditor, or beside another window
                that is open; or it says that the window can never open.
        """
        message = decode_any(entry, (*MESSAGES, Record))
        if isinstance(message, SignedManifest):
            raise CommitmentError("a newer window was committed before this one had opened: it never may")
        if getattr(message, "manifest", None) != self._digest:
            self._other(message)
            return False
        if isinstance(message, BeaconCommit):
            if self._seal is None:  # later ones could be chosen knowing a nonce
                self._commits.setdefault(message.owner, message)
        elif isinstance(message, BeaconSeal):
            if AUDITOR in self._openings:
                raise CommitmentError("the window's beacon was sealed again after its auditor had opened")
            self._seal = message
        elif isinstance(message, BeaconOpening):
            if self._seal is not None and message.owner in self._seal.owners:
                self._openings.setdefault(message.owner, message.nonce)
                self._order.append(message.owner)
        elif isinstance(message, Thinning):
            if self._thinned is not None or AUDITOR not in self._openings:
                raise CommitmentError("the window's indices were thinned twice, or before its auditor had opened")
            self._thinned = message
        elif isinstance(message, WindowOpen):
            found = self._commits, self._seal, self._openings, self._order
            _complete(self._manifest, self._digest, *found, message)
            _thinned(self._manifest, self._thinned)
            if self._others:
                raise CommitmentError("the window was opened while another one took queries: windows may not overlap")
            return True
        elif isinstance(message, Record):
            raise CommitmentError("the log holds a record of the window before its opening")
        return False

    def _other(self, message: Message) -> None:
        if isinstance(message, WindowOpen | Record):
            self._others.add(message.manifest)
        elif isinstance(message, WindowClose):
            self._others.discard(message.manifest)


def find_opening(manifest: Manifest, digest: bytes, entries: Iterable[bytes]) -> int | None:
    """Which of the log's entries after the manifest opens its window; None if none does yet.

    Args:
        entries: what follows the manifest in the log, as far as it is known, each proven to stand there.

    Raises:
        CommitmentError: as :meth:`Opening.opens`.
    """
    opening = Opening(manifest, digest)
    return next((at for at, entry in enumerate(entries) if opening.opens(entry)), None)


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
