# SPDX-License-Identifier: GPL-3.0-or-later
"""A window that is worked on: what the ledger says of it and what this provider has for it, found once.  SPEC A, B."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ragseal.groth16.keys import KeyView
from ragseal.groth16.provers import AttestationBackend
from ragseal.kernel.policy import Policy
from ragseal.prover.commitment.index import Version
from ragseal.prover.commitment.loaded import Loaded
from ragseal.prover.commitment.update_secrets import UpdateSecrets, update_key
from ragseal.prover.commitment.window_secrets import WindowSecrets
from ragseal.prover.keys.keyring import AttestationKeys
from ragseal.prover.storage.history import History
from ragseal.prover.storage.window import Window


@dataclass(frozen=True)
class OpenWindow:
    """A window whose secrets are in memory, for as long as something of it is answered, proven or checked.

    The window's stage is its own affair: a closed one is opened in this sense to be proven.
    """

    window: Window
    secrets: WindowSecrets
    keys: AttestationKeys
    updates: Loaded[UpdateSecrets]  #: of its versions after the first

    def __repr__(self) -> str:
        return f"OpenWindow({self.window.manifest.window!r})"

    @property
    def digest(self) -> bytes:
        """The manifest's."""
        return self.window.digest

    @property
    def policy(self) -> Policy:
        return self.window.manifest.policy

    def rules(self, tenant: str) -> Policy:
        """The policy that holds for a tenant: of its claim."""
        return self.window.manifest.rules(tenant)

    @cached_property
    def key(self) -> KeyView:
        """The key that its records are proven under.

        Found when it is first needed: an answer that has its record is made again without it.

        Raises:
            ConfigurationError: this provider does not hold it.
        """
        return self.keys.view(self.window.manifest.key_digest)

    def backend(self) -> AttestationBackend:
        """What proves under that key; the first use takes as long as the circuit takes to compile.  Blocks."""
        return self.keys.backend(self.window.manifest.key_digest)

    def tenant(self, account: str) -> str:
        """The tenant of the account with this pseudonym."""
        return self.secrets.account(account).tenant

    def version(self, tenant: str, digest: bytes) -> Version:
        """The version of a tenant's index that has this digest.  Blocks.

        Raises:
            CommitmentError: none has, or this state does not hold it.
        """
        number = self.window.number_of(digest)
        if not number:
            return self.secrets.versions[tenant]
        return self.updates.get(update_key(self.digest, number)).versions[tenant]


@dataclass(frozen=True)
class OpenWindows:
    """Opens the windows of one provider.  Methods may be called from any thread."""

    history: History
    keys: AttestationKeys
    secrets: Loaded[WindowSecrets]
    updates: Loaded[UpdateSecrets]  #: of the versions that windows with ticks answer from

    def of(self, manifest: bytes) -> OpenWindow:
        """The window with this manifest digest, its secrets loaded once and checked against its manifest.  Blocks.

        Raises:
            AuditError: the ledger has no such window, or its secrets cannot be loaded.
        """
        return self.holding(self.history.window(manifest), self.secrets.get(manifest))

    def holding(self, window: Window, secrets: WindowSecrets) -> OpenWindow:
        """A window whose secrets somebody has loaded already."""
        return OpenWindow(window, secrets, self.keys, self.updates)
