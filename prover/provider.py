# SPDX-License-Identifier: GPL-3.0-or-later
"""One provider, put together: state, ledger, keys, the three parts of phases A and B, and the order they start in."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ragseal.backends.mechanism import Engine
from ragseal.embedder import Embedder
from ragseal.kernel import signature
from ragseal.kernel.attestation import COARSE_TIME, EAGER, ON_DEMAND
from ragseal.kernel.bn254 import Group
from ragseal.kernel.commitment import CoinCommitment, Thinning, WindowClose
from ragseal.kernel.errors import (
    AttestationError,
    AuditError,
    CommitmentError,
    ConfigurationError,
    LedgerError,
    ProofError,
)
from ragseal.kernel.policy import Policy
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteVerifier
from ragseal.prover.attestation.answering import AnsweringContext, Attestation
from ragseal.prover.attestation.deliveries import Deliveries
from ragseal.prover.attestation.own_lines import OwnLines
from ragseal.prover.attestation.proofs import Proofs, stop_key, stopped
from ragseal.prover.attestation.turns import Turns
from ragseal.prover.commitment import documents, index, manifest, registry
from ragseal.prover.commitment.beacon import Beacon, BeaconRules
from ragseal.prover.commitment.manifest import CarriedCoins, Progress
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.commitment.thinning import thin_window
from ragseal.prover.ending import Ending
from ragseal.prover.estimate import Estimates
from ragseal.prover.keys.keyring import AttestationKeys, BlockKeys, ThinningKeys
from ragseal.prover.randomness import Draw
from ragseal.prover.storage import window_secrets
from ragseal.prover.storage.history import Stage, Window, coarse
from ragseal.prover.storage.journal import Entry, Journal
from ragseal.prover.storage.loaded import Loaded
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window_secrets import WindowSecrets

KEPT_WINDOWS = 2  #: windows whose matrices, and whose registries, stay in memory

log = logging.getLogger("ragseal.provider")


@dataclass(frozen=True)
class Environment:
    """Where secrets and time come from; the operating system outside tests."""

    draw: Draw = secrets.token_bytes
    clock: Callable[[], float] = time.time


@dataclass(frozen=True)
class Backends:
    """What computes: curve, mechanism, keys and embedder of this provider."""

    group: Group
    engine: Engine
    keys: AttestationKeys
    embedder: Embedder
    estimate_keys: Sequence[BlockKeys] = ()
    thinning_keys: ThinningKeys | None = None  #: needed by windows whose claim has a coin


@dataclass(frozen=True)
class ServeOptions:
    """How a provider serves."""

    eager: bool = True  #: prove in the background; otherwise when an audit asks
    tick: float = 0.1  #: seconds; answers leave at multiples of it
    beacon: BeaconRules = field(default_factory=BeaconRules)
    publish: float = COARSE_TIME  #: seconds; the public log shows new records at multiples of it, 0: at once
    witnesses: Sequence[NoteVerifier] = ()  #: whose cosignatures strangers' can neither displace nor hide


class Provider:
    """A provider whose state and ledger are open.  :meth:`close` it."""

    def __init__(self, state: State, backends: Backends, environment: Environment | None = None) -> None:
        """Open the ledger and replay it.

        Raises:
            LedgerError: the ledger is missing, in use, or holds what this program would not have written.
        """
        self.state = state
        self.backends = backends
        self.environment = environment or Environment()
        self.ledger = Log.open(state.ledger_directory, state.log_signer)
        try:
            self._refuse_rollback()
            self.ledger.watch(state.remember_checkpoint)
            self.journal = Journal(self.ledger, signature.public_bytes(state.key))
        except BaseException:
            self.ledger.close()
            raise
        self.turns = Turns()  #: of proofs and blocks: each takes every core
        self.windows = Loaded(self._load_window, self._newest, KEPT_WINDOWS)
        self.registries = Loaded(lambda manifest: registry.open_registry(state, manifest), self._newest, KEPT_WINDOWS)

    def _newest(self) -> bytes | None:
        newest = self.journal.history.newest
        return None if newest is None else newest.digest

    def _refuse_rollback(self) -> None:
        """The ledger still holds the newest checkpoint that left this provider.

        The ledger's own comparison sees only its own folder: restored whole from a backup it looks sound, and appending
        to it would fork what others have seen.
        """
        known = self.state.checkpoint()
        if known is not None:
            size, note = known
            if size > self.ledger.size:
                raise LedgerError(
                    f"the ledger has {self.ledger.size} entries, this provider has signed {size}: its folder was "
                    "rolled back. Restore the newest one; serving this one would fork the log"
                )
            if self.ledger.checkpoint_at(size) != note:
                raise LedgerError(
                    f"the ledger's first {size} entries are not those that this provider signed: restore the right ones"
                )
        if known != self.ledger.published():
            self.state.remember_checkpoint(*self.ledger.published())

    @property
    def public_key(self) -> bytes:
        return signature.public_bytes(self.state.key)

    def window_secrets(self, manifest: bytes) -> WindowSecrets:
        """A window's secrets, loaded once and checked against its manifest.  Blocks."""
        return self.windows.get(manifest)

    def _load_window(self, manifest: bytes) -> WindowSecrets:
        known = self.journal.history.windows.get(manifest)
        return window_secrets.load_window(self.state, manifest, None if known is None else known.thinning)

    def auditor_key(self, named: bytes | None = None) -> bytes:
        """Whom the next manifest names as its auditor: ``named``, else whose key proofs will be made under.

        Raises:
            ConfigurationError: nobody is known.
        """
        key = self.backends.keys.newest().digest
        found = named if named is not None else self.state.auditor_of(key)
        if found is None:
            raise ConfigurationError(
                f"nobody knows the auditor of key {key.hex()[:16]}: `ragseal-provider fetch-keys` brings its beacon "
                "key along, or name it with --auditor-key (`ragseal-verifier init` printed it)"
            )
        return found

    def commit(
        self,
        policy: Policy,
        window: str,
        progress: Progress = lambda _: None,
        auditor_key: bytes | None = None,
        new_coins: bool = False,
    ) -> Entry:
        """Phase A: commit to every index and enter the manifest in the ledger.

        Args:
            new_coins: throw coins although the newest throw of the budget period could be carried on.

        Raises:
            CommitmentError: the window's name was used, another window is open or overlaps, nothing to commit to.
            ConfigurationError: no auditor's key is known.
            PolicyError, ProofError, LedgerError: as they say.
        """
        for known in self.journal.history.windows.values():
            if known.manifest.window == window:
                raise CommitmentError(f"window {window!r} exists: a window is never opened twice, take a new name")
        backends, auditor = self.backends, self.auditor_key(auditor_key)
        first = None if new_coins else self.carried(policy, auditor)
        if policy.coined and first is None:
            self._place_afresh(IndexShape(backends.keys.newest().cls.N, policy.dimension))
        made = manifest.prepare_window(
            self.state,
            backends.group,
            backends.keys.newest(),
            policy,
            backends.embedder.identity().digest(),
            window,
            auditor,
            self.environment.draw,
            progress,
            self._thinning_keys().newest() if policy.coined else None,
            None if first is None else CarriedCoins(first.digest, self._coin_seed(first)),
        )
        self.journal.history.check_manifest(made.signed)
        window_secrets.store_window(self.state, made)
        progress("entering the manifest in the ledger")
        return self.journal.append_now(lambda: made.signed)

    def carried(self, policy: Policy, auditor_key: bytes | None = None) -> Window | None:
        """The window whose coins the next one of this policy carries on; None where it throws its own.

        Raises:
            ConfigurationError: no auditor's key is known.
        """
        if not policy.coined:
            return None
        found = self.journal.history.carried(policy, self.auditor_key(auditor_key))
        return None if found is None or documents.replaced_since(self.state, found.digest) else found

    def _place_afresh(self, shape: IndexShape) -> None:
        """Every throw of coins begins with new places, deleted documents or not: that tells nothing of either."""
        for tenant, count in index.tenants(self.state):
            if count:
                documents.new_period(self.state, tenant, shape, self.environment.draw)

    def _coin_seed(self, window: Window) -> bytes:
        """Raises CommitmentError: this state holds no such seed, or not the committed one."""
        found = self.window_secrets(window.digest)
        if found.coin_seed is None:
            raise CommitmentError(f"window {window.manifest.window!r} has no coin to carry on")
        return found.coin_seed

    def _thinning_keys(self) -> ThinningKeys:
        keys = self.backends.thinning_keys
        if keys is None:
            raise ConfigurationError("this provider has no keys of the thinning circuit: `ragseal-provider fetch-keys`")
        return keys

    def load_thinning_key(self, window: Window) -> None:
        """Load what thins a window, if its claim has a coin.  Raises ConfigurationError: no key."""
        if window.manifest.policy.coined:
            self._thinning_keys().backend(window.manifest.coin.key_digest)

    def thin(self, window: Window) -> Thinning:
        """Empty the slots that a window's coins hide, by its complete beacon.  Blocks.

        Raises:
            UnprovableError, ProofError: as they say; the window cannot be opened then.
            CommitmentError: the log names what this window was thinned to: doing it anew would replace that.
            ConfigurationError: no thinning key.
        """
        coin, backends = window.manifest.coin, self.backends
        reason = stopped(self.state, coin.key_digest)
        if reason is not None:
            raise ProofError(
                f"proving under the thinning key was stopped by a failure ({reason}): find out why before `release-key`"
            )
        try:
            made = self._thinned(window, coin, backends)
        except ProofError as error:
            stop_key(self.state, coin.key_digest, str(error))
            raise
        self.windows.forget(window.digest)
        return made

    def _thinned(self, window: Window, coin: CoinCommitment, backends: Backends) -> Thinning:
        with self.turns:
            if window.thinning is not None:
                raise CommitmentError(f"the indices of window {window.manifest.window!r} are thinned already")
            return thin_window(
                self.state,
                backends.group,
                backends.keys.view(window.manifest.key_digest),
                self._thinning_keys().backend(coin.key_digest),
                self.window_secrets(window.digest),
                self.journal.history.throw(window.manifest)
                if window.manifest.coin.thrown_by
                else (window.digest, window.seal_value()),
                self.environment.draw,
                lambda text: log.info("%s", text),
            )

    def new_estimates(self) -> Estimates:
        """Phase C over this provider's windows; nothing is read before it is asked for."""
        return Estimates(
            self.state,
            self.journal,
            self.backends.group,
            self.backends.estimate_keys,
            self.window_secrets,
            self.state.key,
            self.environment.draw,
            self.turns,
        )

    def close(self) -> None:
        self.ledger.close()
        self.state.close()


class Serving:
    """A provider that serves: phases A (beacon) and B in one event loop, proofs in a thread."""

    def __init__(self, provider: Provider, serve_options: ServeOptions) -> None:
        self.provider = provider
        self.serve_options = serve_options
        state, journal, backends, environment = (
            provider.state,
            provider.journal,
            provider.backends,
            provider.environment,
        )
        self.proofs = Proofs(
            state,
            journal,
            backends.group,
            backends.engine,
            backends.keys.view,
            backends.keys.backend,
            provider.window_secrets,
            environment.draw,
            provider.turns,
        )
        tools = AnsweringContext(
            group=backends.group,
            key_of=backends.keys.view,
            engine=backends.engine,
            embedder=backends.embedder,
            signing_key=state.key,
            draw=environment.draw,
            clock=environment.clock,
        )
        self.attestation = Attestation(
            state,
            journal,
            tools,
            provider.windows,
            EAGER if serve_options.eager else ON_DEMAND,
            self._on_record,
            serve_options.tick,
        )
        self.estimates = provider.new_estimates()
        self.beacon = Beacon(
            journal, provider.window_secrets, state.key, serve_options.beacon, environment.clock, provider.thin
        )
        self.deliveries = Deliveries(state, journal, self.proofs, self.estimates, state.key, environment.clock)
        journal.public.live = serve_options.publish <= 0
        self.own_lines = OwnLines(state, journal.history, provider.public_key, provider.registries)
        self._driver: asyncio.Task[None] | None = None
        self._publisher: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def journal(self) -> Journal:
        return self.provider.journal

    async def start(self) -> None:
        """Load what the newest window needs, then start beacon and proof worker.

        Raises:
            AuditError: the window cannot be served (missing secrets or key); better now than at the first query.
        """
        newest = self.journal.history.newest
        if newest is not None:
            await asyncio.to_thread(self.provider.window_secrets, newest.digest)
            await asyncio.to_thread(self.provider.backends.keys.backend, newest.manifest.key_digest)
            if newest.stage in (Stage.COMMITTED, Stage.SEALED):
                await asyncio.to_thread(self.provider.load_thinning_key, newest)
        if self.serve_options.eager:
            self.proofs.start(newest.digest if newest is not None else None)
        self._driver = asyncio.create_task(self._drive())
        self._publisher = asyncio.create_task(self._publish())
        self._ending = asyncio.create_task(Ending(self.journal.history, self.provider.environment.clock).run())

    async def _publish(self) -> None:
        """Show the public what is in the log, on the coarse tick (SPEC B.3)."""
        tick = self.serve_options.publish
        while tick > 0:
            await asyncio.sleep(tick - time.time() % tick)
            self.journal.public.reveal()

    async def _drive(self) -> None:
        try:
            await self.beacon.run()
        except AuditError as error:
            log.error("the window cannot be opened: %s", error)
        except Exception:
            log.exception("the window cannot be opened")

    async def stop(self) -> None:
        """Finish the answers under way and the proof at hand."""
        for task in (self._driver, self._publisher, self._ending):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self.deliveries.stop()
        await self.attestation.drain()
        await asyncio.to_thread(self.proofs.stop)

    def _on_record(self, manifest: bytes, seq: int) -> None:
        if self.serve_options.eager:
            self.proofs.submit(manifest, seq)

    def consistency(self, known: int, size: int) -> list[bytes]:
        """The path between the size that an account knows and that of its receipt, which need not be public yet.

        Empty where there is nothing to prove, or where an account names a size that it cannot have seen: else it could
        find out, by trying, how far the log is.
        """
        old, new = sorted((known, size))
        if not 0 < old < new or new > max(size, self.journal.public.size):
            return []
        return self.provider.ledger.consistency(old, new)

    async def records(self, manifest: bytes, start: int, count: int) -> list[tuple[int, bytes]]:
        """(ledger index, record) of at most ``count`` published records from seq ``start`` on."""
        window = self.journal.history.window(manifest)
        wanted = window.records[start : min(start + count, self.journal.published_records(window))]
        return await asyncio.to_thread(lambda: [(index, self.journal.data(index)) for index in wanted])

    async def close_window(self, manifest: bytes, proof: bytes) -> tuple[int, Window]:
        """End a window; asked again, the same answer.

        Raises:
            AttestationError: not signed by the provider key for this window.
            CommitmentError: the window is not open.
        """
        window = self.journal.history.window(manifest)
        signature.verify(self.provider.public_key, "close", manifest, proof)
        if window.close is not None:
            return await asyncio.to_thread(self._close_index, window), window

        def build() -> WindowClose:
            now = max(coarse(self.provider.environment.clock()), window.time)
            return WindowClose(window.digest, len(window.records), now)

        entry = await self.journal.append(build)
        return entry.index, window

    def _close_index(self, window: Window) -> int:
        assert window.close is not None
        closing = window.close.encode()
        for at in range(window.records[-1] if window.records else window.index, self.provider.ledger.size):
            if hmac.compare_digest(self.journal.data(at), closing):
                return at
        raise AttestationError("the closing entry is not durable yet: try again")
