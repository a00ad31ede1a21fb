# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a window is open, as the log says: an account believes no announcement.  SPEC A.8, B.2.

Pure.  A request that is signed before the beacon is complete would meet noise that somebody may still choose, and a
record that precedes its window's opening is worth nothing to an auditor.  So the account reads the beacon's entries
itself: sealed by the provider, opened by everybody whom the seal names, by the manifest's auditors last, and the window
opened with exactly the value that these nonces give.  Where the claim has a coin, the indices were thinned in between,
once: what the coins hide was decided when nobody could choose it any more, and is the same for everybody.

All that may happen while the window before takes queries; but that one was closed before this one was opened, and no
newer one was committed: of two that may be opened, the provider could choose the one whose beacon it likes.
"""

from __future__ import annotations

from collections.abc import Iterable

from ragseal.kernel import signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.beacon import (
    PROVIDER,
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    beacon_commitment,
    beacon_value,
    is_auditor,
    is_observer,
)
from ragseal.kernel.commitment import (
    MESSAGES,
    Manifest,
    SignedManifest,
    Thinning,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.encoding import Message, decode_any
from ragseal.kernel.errors import AuditError, CommitmentError

MOST_ENTRIES = 1 << 18  #: between a manifest and its opening: the window before may take queries all the while
MOST_BYTES = 1 << 28  #: of them


class Opening:
    """Looks for the opening of a window among the entries that follow its manifest, one after the other."""

    def __init__(self, manifest: Manifest, digest: bytes, auditor_key: bytes | None = None) -> None:
        """``auditor_key``: the auditor that must have had a part in the beacon; None for any."""
        self._manifest, self._digest, self._wanted = manifest, digest, auditor_key
        self._commits: dict[str, BeaconCommit] = {}
        self._openings: dict[str, bytes] = {}
        self._order: list[str] = []
        self._seal: BeaconSeal | None = None
        self._thinned: Thinning | None = None
        self._others: set[bytes] = set()  #: windows that take queries by what they last showed

    def opens(self, entry: bytes) -> bool:
        """Whether the log's next entry opens the window.

        Raises:
            CommitmentError: it does, but not by a complete beacon that ends with the manifest's auditors, or beside
                another window that is open; or it says that the window can never open.
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
            self._again(message)
            self._seal = message
        elif isinstance(message, BeaconOpening):
            if self._seal is not None and message.owner in self._seal.owners:
                self._openings.setdefault(message.owner, message.nonce)
                self._order.append(message.owner)
        elif isinstance(message, Thinning):
            if self._thinned is not None or not any(map(is_auditor, self._openings)):
                raise CommitmentError("the window's indices were thinned twice, or before an auditor had opened")
            self._thinned = message
        elif isinstance(message, WindowOpen):
            self._complete(message)
            _thinned(self._manifest, self._thinned)
            if not self._manifest.policy.may_open(message.time):
                raise CommitmentError(
                    "the window was opened outside the time that its policy names: no audit passes it"
                )
            if self._others:
                raise CommitmentError("the window was opened while another one took queries: windows may not overlap")
            return True
        elif isinstance(message, Record):
            raise CommitmentError("the log holds a record of the window before its opening")
        return False

    def _again(self, seal: BeaconSeal) -> None:
        """A later seal may leave out who has not opened, but no auditor: else the provider could choose the beacon."""
        if any(map(is_auditor, self._openings)):
            raise CommitmentError("the window's beacon was sealed again after an auditor had opened")
        if self._seal is None:
            return
        before = self._seal.owners
        left_out = set(before) - set(seal.owners)
        if not left_out or tuple(owner for owner in before if owner not in left_out) != seal.owners:
            raise CommitmentError("the window's beacon was sealed again with others than some of those before")
        if any(owner in self._openings or is_auditor(owner) for owner in left_out):
            raise CommitmentError("the window's beacon was sealed again without somebody whose nonce it needs")

    def _complete(self, opened: WindowOpen) -> None:
        """The beacon that the window was opened with is that of its newest seal, drawn in order."""
        manifest, seal, commits = self._manifest, self._seal, self._commits
        there = tuple(one for one in manifest.auditors if one.owner in commits)
        named = tuple(one.owner for one in there)
        if seal is None or not there or seal.owners[:1] != (PROVIDER,) or seal.owners[-len(there) :] != named:
            raise CommitmentError(
                "the window was opened without a beacon that begins with the provider and ends with the auditors"
            )
        others = seal.owners[1 : -len(there)]
        if not all(map(is_observer, others)) or len(set(others)) < len(others):
            raise CommitmentError(
                "the window's beacon names a participant between provider and auditors that is not an observer"
            )
        try:
            signature.verify(manifest.window_key, "beacon-seal", seal.body(), seal.signature)
            for one in there:
                commits[one.owner].verify()
        except AuditError:
            raise CommitmentError(
                "the window's beacon is not sealed by the provider over nonces of its auditors"
            ) from None
        if any(commits[one.owner].public_key != one.public_key for one in there):
            raise CommitmentError("the window's beacon ends with a participant that is not an auditor of the manifest")
        if self._wanted is not None and self._wanted not in {one.public_key for one in there}:
            raise CommitmentError("the auditor that this account wants had no part in the window's beacon")
        self._opened(seal, opened)

    def _opened(self, seal: BeaconSeal, opened: WindowOpen) -> None:
        """Everybody has opened what they committed to, auditors after all others; the value is what that gives."""
        committed = {PROVIDER: self._manifest.beacon_commitment}
        committed |= {owner: commit.commitment for owner, commit in self._commits.items()}
        for owner in seal.owners:
            nonce = self._openings.get(owner)
            if nonce is None or beacon_commitment(owner, nonce) != committed.get(owner):
                raise CommitmentError(f"the window was opened although {owner} has not opened what it committed to")
        order = [owner for owner in self._order if owner in seal.owners]
        if any(map(is_auditor, order[: -sum(map(is_auditor, seal.owners))])):
            raise CommitmentError(
                "an auditor of the window did not open last: the party that did could choose the beacon"
            )
        if opened.beacon != beacon_value(self._digest, [(owner, self._openings[owner]) for owner in seal.owners]):
            raise CommitmentError("the window was opened with a beacon different from what its nonces give")

    def _other(self, message: Message) -> None:
        if isinstance(message, WindowOpen | Record):
            self._others.add(message.manifest)
        elif isinstance(message, WindowClose):
            self._others.discard(message.manifest)


def find_opening(
    manifest: Manifest, digest: bytes, entries: Iterable[bytes], auditor_key: bytes | None = None
) -> int | None:
    """Which of the log's entries after the manifest opens its window; None if none does yet.

    Args:
        entries: what follows the manifest in the log, as far as it is known, each proven to stand there.
        auditor_key: as of :class:`Opening`.

    Raises:
        CommitmentError: as :meth:`Opening.opens`.
    """
    opening = Opening(manifest, digest, auditor_key)
    return next((at for at, entry in enumerate(entries) if opening.opens(entry)), None)


def _thinned(manifest: Manifest, thinned: Thinning | None) -> None:
    """The window answers from thinned indices if its claim has a coin, and from no others."""
    if manifest.coins and thinned is None:
        raise CommitmentError("the window was opened without its coins: nothing says which slots they hide")
    if thinned is not None and tuple(one.tenant for one in thinned.tenants) != manifest.coined:
        raise CommitmentError("the thinned indices are not those of the manifest's tenants with a coin")
