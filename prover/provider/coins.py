# SPDX-License-Identifier: GPL-3.0-or-later
"""The coins of a provider's windows: who throws them, and emptying the slots that they hide.  SPEC A.9, A.11."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ragseal.groth16.provers import ThinningBackend
from ragseal.kernel import field
from ragseal.kernel.beacon import Seat
from ragseal.kernel.coin import coin_commitment
from ragseal.kernel.commitment import CoinCommitment, Thinning
from ragseal.kernel.errors import CommitmentError, ProofError, UnavailableError
from ragseal.kernel.policy import Policy
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment import index
from ragseal.prover.commitment.coin_placement import placed_afresh
from ragseal.prover.commitment.loaded import Loaded
from ragseal.prover.commitment.new_period import new_period
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.commitment.thinning import thin_window
from ragseal.prover.commitment.window_secrets import WindowSecrets
from ragseal.prover.keys.keyring import ThinningKeys
from ragseal.prover.provider.backends import Backends
from ragseal.prover.storage.history import History
from ragseal.prover.storage.state import State
from ragseal.prover.storage.stopped_keys import stop_key, stopped
from ragseal.prover.storage.window import Window
from ragseal.prover.workers.by_workers import ByWorkers
from ragseal.prover.workers.interface import Workers
from ragseal.prover.workers.turns import Turns

log = logging.getLogger("ragseal.provider")


class Coins:
    """The coins of one provider.  Methods block and may be called from any thread."""

    def __init__(
        self,
        state: State,
        history: History,
        backends: Backends,
        draw: Draw,
        windows: Loaded[WindowSecrets],
        turns: Turns,
    ) -> None:
        """
        Args:
            windows: the windows' secrets; a window that was thinned is loaded anew.
            turns: shared with whatever else takes every core as a proof does.
        """
        self.workers: Workers | None = None  #: who makes the proofs; None: this process
        self._thinning = threading.Lock()
        self._state, self._history, self._backends = state, history, backends
        self._draw, self._windows, self._turns = draw, windows, turns

    def keys(self) -> ThinningKeys:
        """The keys of the thinning circuit.  UnavailableError: there are none."""
        keys = self._backends.thinning_keys
        if keys is None:
            raise UnavailableError("this provider has no keys of the thinning circuit: `ragseal-provider fetch-keys`")
        return keys

    def load_key(self, window: Window) -> None:
        """Load what thins a window, if its claim has a coin.  Raises UnavailableError: no key."""
        if window.manifest.coins:
            load = self.keys().backend if self.workers is None else self.keys().check_held
            load(window.manifest.coin.key_digest)

    def backend(self, digest: bytes) -> ThinningBackend:
        """What proves under this thinning key, for a caller that holds a turn.  UnavailableError: no key."""
        keys = self.keys()
        if self.workers is None:
            return keys.backend(digest)
        group = self._backends.group
        return ByWorkers(self.workers, self._turns, group, keys.view(digest), lambda: keys.backend(digest))

    def thin(self, window: Window) -> Thinning:
        """Empty the slots that a window's coins hide, by its complete beacon.  Blocks.

        Raises:
            UnprovableError, ProofError: as they say; the window cannot be opened then.
            CommitmentError: the log names what this window was thinned to: doing it anew would replace that.
            UnavailableError: no thinning key.
        """
        coin, backends = window.manifest.coin, self._backends
        # out here: an attestation key whose file is wrong says nothing of the thinning key (SPEC A.9.5)
        key, backend = backends.keys.view(window.manifest.key_digest), self.backend(coin.key_digest)
        secrets, throw = self._windows.get(window.digest), self.throw(window)
        with self._thinning, self.key_in_use(coin), self._turns:
            if window.thinning is not None:
                raise CommitmentError(f"the indices of window {window.manifest.window!r} are thinned already")
            made = thin_window(
                self._state,
                backends.group,
                key,
                backend,
                secrets,
                throw,
                self._draw,
                lambda text: log.info("%s", text),
            )
        self._windows.forget(window.digest)
        return made

    def carried(self, policy: Policy, seats: Sequence[Seat], claims: Mapping[str, str]) -> Window | None:
        """The window whose coins the next one of this policy and these auditors carries on; None: it throws its own.

        It throws its own, too, once documents of that coin period were placed afresh (SPEC A.11.10).

        ``claims``: of tenants that have a lower one than the policy's: those without a coin need none.
        """
        known = [name for name, count in index.tenants(self._state) if count]
        tenants = [name for name in known if policy.under(claims.get(name, policy.claim)).coined]
        first = self._history.carried(policy, seats, tenants)
        return None if first is None or placed_afresh(self._state, first.digest) else first

    def place_afresh(self, shape: IndexShape) -> None:
        """Every throw of coins begins with new places, deleted documents or not: that tells nothing of either."""
        for tenant, _ in index.tenants(self._state):
            new_period(self._state, tenant, shape, self._draw)

    def seed(self, window: Window) -> bytes:
        """The seed that a window's coins were thrown by.

        Raises:
            CommitmentError: this state holds no such seed, or not the committed one.
        """
        found = self._state.row("SELECT coin_seed FROM windows WHERE manifest = ?", (window.digest,))  # also if retired
        if found is None or found[0] is None:
            raise CommitmentError(f"this provider's state holds no coins of window {window.manifest.window!r}")
        if coin_commitment(field.limbs(found[0])) != window.manifest.coin.c_coin:
            raise CommitmentError(
                f"the stored coins of window {window.manifest.window!r} are not those it committed to"
            )
        return bytes(found[0])

    @contextmanager
    def key_in_use(self, coin: CoinCommitment | None) -> Iterator[None]:
        """Refuses a thinning key that a failure stopped, and stops it with the first proof that fails (SPEC A.9.5)."""
        if coin is None:
            yield
            return
        reason = stopped(self._state, coin.key_digest)
        if reason is not None:
            raise ProofError(
                f"proving under the thinning key was stopped by a failure ({reason}): find out why before `release-key`"
            )
        try:
            yield
        except ProofError as error:
            stop_key(self._state, coin.key_digest, str(error))
            raise

    def throw(self, window: Window) -> tuple[bytes, int]:
        """Digest and beacon of the manifest that threw a window's coins."""
        if window.manifest.coin.thrown_by:
            return self._history.throw(window.manifest)
        return window.digest, window.seal_value()
