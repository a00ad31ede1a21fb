# SPDX-License-Identifier: GPL-3.0-or-later
"""Which version of its index an account is answered from, in windows whose indices change on a tick.  SPEC A.12.

The provider names a version with its first message.  Before the account signs, the entry of that version has to be in
the log that everybody sees, behind the window's opening, and none may be older than the newest that this account has
used: else the provider could go back to what was deleted.  What was signed is finished over the version that it names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ragseal.client.attestation import Window
from ragseal.client.evidence import Evidence
from ragseal.client.history import History
from ragseal.client.window import WindowState
from ragseal.kernel.errors import CommitmentError, LedgerError
from ragseal.kernel.versions import IndexUpdate


@dataclass(frozen=True, slots=True)
class PinnedVersion:
    """One version of the account's index, as the log's entry has it."""

    named: bytes  #: how requests call it
    text_root: bytes

    def digest(self) -> bytes:
        """The index-version digest."""
        return self.named


class Versions:
    """What one account knows of the versions of its index."""

    def __init__(self, history: History) -> None:
        self._history = history

    def of(self, window: Window, memory: WindowState, digest: bytes, update: int, evidence: Evidence) -> Window:
        """The window with the version of this digest, which may be signed over.

        Args:
            update: index of the log's entry that names it, as the provider says; 0: the manifest does.

        Raises:
            CommitmentError: an entry of another window, of another version or tenant, or older than one used before.
            LedgerError: the log does not hold it where the provider says, or before the window's opening.
            EncodingError: no such entry.
            TransportError: the ledger is out of reach, or does not show it yet.
        """
        if not window.manifest.policy.version_every:
            if update:
                raise CommitmentError("the provider names an update of an index that stays as it is in this window")
            return window
        newest = memory.newest_version()
        known = memory.version(digest)
        if known is None:
            known = self._fetched(memory, update, evidence)
        made = _over(window, known, digest)
        if newest is not None and known.number < newest.number:
            raise CommitmentError(
                f"the provider goes back to version {known.number} of the index, this account has used version "
                f"{newest.number}: what was deleted since would be in it"
            )
        if newest is not None and known.number == newest.number and known != newest:
            raise CommitmentError(f"the provider shows two versions {known.number} of this window's indices")
        memory.remember_version(digest, known)
        return made

    def signed(self, window: Window, memory: WindowState, digest: bytes) -> Window:
        """The window with the version that a signed request names.

        Raises:
            CommitmentError: this account never looked it up.
        """
        if not window.manifest.policy.version_every:
            return window
        known = memory.version(digest)
        if known is None:
            raise CommitmentError(f"{memory.folder} holds no version of the index that the signed request names")
        return _over(window, known, digest)

    def _fetched(self, memory: WindowState, update: int, evidence: Evidence) -> IndexUpdate:
        """The entry that the provider points to, proven to stand there."""
        if update <= memory.opened_at:
            raise LedgerError("the provider names a version of the index from before the window's opening")
        return self._history.update(update, evidence)


def _over(window: Window, update: IndexUpdate, digest: bytes) -> Window:
    """The window with its index as this update has it.

    Raises:
        CommitmentError: it is another window's, or has no version with this digest for the account's tenant.
    """
    if update.manifest != window.digest:
        raise CommitmentError("the version of the index that the provider names belongs to another window")
    tenant = window.account.tenant
    if update.index_digest(tenant) != digest:
        raise CommitmentError("the entry that the provider points to is of a different version of this tenant's index")
    if bool(update.index_of(tenant).proof_digests) != window.rules.coined:
        raise CommitmentError("the version of the index says nothing of the slots that coins hide, or has none to hide")
    return replace(window, index=PinnedVersion(digest, update.index_of(tenant).text_root))
