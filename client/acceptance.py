# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether an announced window may be used, and whether it is open: manifest, own line, log, beacon.  SPEC A.6, A.8.

Nothing that the provider announces is believed.  The manifest has to be in the log that everybody sees before this
account tells anybody its name under it, the account's line in the registry that it commits to, and the window's opening
in the log, behind a complete beacon.
"""

from __future__ import annotations

from ragseal.client.account import AccountState
from ragseal.client.attestation import Window
from ragseal.client.commitment import ClassOf, check_manifest, check_window
from ragseal.client.evidence import Evidence
from ragseal.client.history import History, Shown
from ragseal.client.link import Announced, ProviderLink, Stage, refusable
from ragseal.client.opening import MOST_BYTES, MOST_ENTRIES, Opening
from ragseal.client.window import WindowState
from ragseal.client.witnesses import Witnesses
from ragseal.embedder import Embedder
from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import AccountAsk, Membership, SignedManifest
from ragseal.kernel.encoding import peek_tag
from ragseal.kernel.enrolment import LateMembership
from ragseal.kernel.errors import CommitmentError, LedgerError
from ragseal.kernel.versions import IndexUpdate
from ragseal.ledger.merkle import leaf_hash, verify_inclusion
from ragseal.ledger.note import NoteVerifier


class Acceptance:
    """One account's judgement of the windows of one provider."""

    def __init__(
        self,
        state: AccountState,
        log: NoteVerifier,
        provider: ProviderLink,
        history: History,
        embedder: Embedder | None,
        class_of: ClassOf,
        auditor_key: bytes | None,
        witnesses: Witnesses | None = None,
    ) -> None:
        """
        Args:
            embedder: this client's own, None if the provider embeds.
            class_of: finds a policy's circuit class in this installation.
            auditor_key: the auditor that windows have to name, None for any.
            witnesses: who has to have seen that a window opened, None for nobody.
        """
        self._state, self._log, self._provider, self._history = state, log, provider, history
        self._embedder, self._class_of, self._auditor_key = embedder, class_of, auditor_key
        self.witnesses = witnesses

    def accept(self, announced: Announced, evidence: Evidence) -> tuple[Window, WindowState, Stage]:
        """An announced window, this account's memory of it, and how far it is.

        Raises:
            RefusedError: the provider does not show this account its line.
            CommitmentError, LedgerError, PolicyError, EncodingError: what does not hold.
            TransportError: provider or ledger are out of reach.
        """
        evidence.add("received-manifest", announced.manifest)
        signed = SignedManifest.decode(announced.manifest)
        pinned = self._state.provider_key()
        check_manifest(signed, log=self._log, provider_key=pinned, auditor_key=self._auditor_key)
        if self._embedder is not None and self._embedder.identity().digest() != signed.manifest.embedder:
            raise CommitmentError(
                "the window commits to a different embedder than this client's: its e would mean nothing"
            )
        digest = signed.manifest.digest()
        if all(known.digest != digest for known in self._state.windows()):
            self._find_manifest(announced, evidence)
        membership = self._membership(digest, evidence)
        window = check_window(
            signed,
            membership,
            self._update(announced, membership, evidence) if isinstance(membership, LateMembership) else None,
            name=self._state.name,
            public_key=self._state.key.public,
            class_of=self._class_of,
        )
        memory = self._state.window(signed, window.account)
        self._state.pin_provider(window.manifest.provider_key)
        stage = announced.stage
        if stage != "preparing" and not memory.opened:
            found = self._find_opening(announced, window, memory, evidence)
            stage = found if stage == "open" else stage
        if stage == "open" and self.witnesses is not None:
            self.witnesses.check(memory, evidence)
        return window, memory, stage

    def _membership(self, digest: bytes, evidence: Evidence) -> Membership | LateMembership:
        """This account's line of the registry, asked for with its signature."""
        ask = AccountAsk(digest, self._state.name).encode()
        proof = self._state.key.sign("account", ask)
        received = refusable(lambda: self._provider.account(ask, proof))
        evidence.add("received-membership", received)
        late = peek_tag(received) == LateMembership.TAG
        return LateMembership.decode(received) if late else Membership.decode(received)

    def _update(self, announced: Announced, late: LateMembership, evidence: Evidence) -> IndexUpdate:
        """The entry in which the provider shows the line of an account that came later, proven to stand in the log.

        Raises:
            LedgerError: the log does not hold it, or before the manifest.
            EncodingError: no such entry.
            TransportError: the ledger is out of reach, or does not show it yet.
        """
        if late.update <= announced.ledger_index:
            raise LedgerError("the provider names an update of this window's accounts from before its manifest")
        return self._history.update(late.update, evidence)

    def _find_manifest(self, announced: Announced, evidence: Evidence) -> None:
        """A manifest seen for the first time is in the log that everybody sees, before anything is sent under it."""
        shown = self._history.latest(evidence)
        point, index = shown.checkpoint, announced.ledger_index
        if index >= point.size:
            raise LedgerError(f"the manifest would be entry {index}, the log has {point.size}")
        path = self._history.path(index, point.size)
        evidence.add("received-inclusion", b"".join(path))
        try:
            verify_inclusion(leaf_hash(announced.manifest), index, point.size, path, point.root)
        except LedgerError as error:
            raise LedgerError(f"the log does not hold the manifest that the provider shows: {error}") from None
        self._history.remember(shown)

    def _find_opening(self, announced: Announced, window: Window, memory: WindowState, evidence: Evidence) -> Stage:
        """Look for the window's opening in the log that everybody sees, and check the beacon that it rests on."""
        shown = self._history.latest(evidence)
        found = self._opening(announced, shown, window, evidence)
        self._history.remember(shown)
        if found is None:
            return "preparing"
        memory.remember_opening(*found)
        return "open"

    def _opening(
        self, announced: Announced, shown: Shown, window: Window, evidence: Evidence
    ) -> tuple[bytes, int] | None:
        """The entry that opens the window and its index, None if the log holds none yet."""
        opening, left = Opening(window.manifest, window.digest, self._auditor_key), MOST_BYTES
        start, size = announced.ledger_index, shown.checkpoint.size
        if start >= size:
            return None
        stop = min(size, start + MOST_ENTRIES)
        following = self._history.following(announced.manifest, start, stop, shown)
        for index, entry in enumerate(following, start + 1):
            left -= len(entry)
            if left < 0:
                break
            if peek_tag(entry) != Record.TAG:
                evidence.add(f"entry-{index}", entry)
            if opening.opens(entry):
                return entry, index
        if left < 0 or stop < size:
            raise CommitmentError(
                f"more than {MOST_ENTRIES} entries or {MOST_BYTES} bytes lie between the window's manifest and its "
                "opening: that is too much to read for a query; ask again in the next window"
            )
        return None
