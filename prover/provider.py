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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from ragseal.backends.mechanism import Engine
from ragseal.embedder import Embedder
from ragseal.kernel import signature
from ragseal.kernel.attestation import COARSE_TIME, EAGER, ON_DEMAND
from ragseal.kernel.bn254 import Group
from ragseal.kernel.commitment import CoinCommitment, SignedManifest, Thinning, WindowClose
from ragseal.kernel.encoding import Message
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
from ragseal.prover.commitment import manifest, registry
from ragseal.prover.commitment.beacon import Beacon, BeaconRules
from ragseal.prover.commitment.manifest import CarriedCoins, Progress
from ragseal.prover.commitment.thinning import thin_window
from ragseal.prover.ending import Ending
from ragseal.prover.estimate import Estimates
from ragseal.prover.keys.keyring import AttestationKeys, BlockKeys, ThinningKeys
from ragseal.prover.randomness import Draw
from ragseal.prover.storage import window_secrets
from ragseal.prover.storage.history import Window, coarse
from ragseal.prover.storage.journal import Entry, Journal
from ragseal.prover.storage.loaded import Loaded
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window_secrets import WindowSecrets

FOLLOWING_SECONDS = 1.0  #: between two looks for another window, once one could not be opened
KEPT_WINDOWS = 1  #: whose matrices, and whose registries, stay in memory beside those in force

ASIDE = 2  #: threads for what an operator wants done: a window is committed while documents are embedded

T = TypeVar("T")

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
    embedder: Embedder  #: of queries
    estimate_keys: Sequence[BlockKeys] = ()
    thinning_keys: ThinningKeys | None = None  #: needed by windows whose claim has a coin
    documents: Callable[[], Embedder] | None = None  #: makes one of documents' own: texts of one embedder queue up


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
        self.windows = Loaded(self._load_window, self._in_force, KEPT_WINDOWS)
        self.registries = Loaded(lambda manifest: registry.open_registry(state, manifest), self._in_force, KEPT_WINDOWS)

    def _in_force(self) -> frozenset[bytes]:
        """The newest window and the one that is open: what concerns them waits for no other's."""
        history = self.journal.history
        return frozenset(one.digest for one in (history.newest, history.open) if one is not None)

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
            CommitmentError: the window's name was used, it overlaps another, nothing to commit to.
            ConfigurationError: no auditor's key is known.
            PolicyError, ProofError, LedgerError: as they say.
        """
        made = self.prepare(policy, window, progress, auditor_key)
        progress("entering the manifest in the ledger")
        return self.journal.append_now(lambda: made)

    def prepare(
        self, policy: Policy, window: str, progress: Progress = lambda _: None, auditor_key: bytes | None = None
    ) -> SignedManifest:
        """The manifest of a new window, all of whose secrets are durable by then.  Blocks; raises as :meth:`commit`.

        Nothing of it is in the ledger yet: made again under the same name, this one is forgotten.
        """
        for known in self.journal.history.windows.values():
            if known.manifest.window == window:
                raise CommitmentError(f"window {window!r} exists: a window is never opened twice, take a new name")
        backends, auditor = self.backends, self.auditor_key(auditor_key)
        first = None if new_coins else self.carried(policy, auditor)
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
        return made.signed

    def closing(self, window: Window) -> WindowClose:
        """The closing entry of a window, as it stands in the writer's turn."""
        now = max(coarse(self.environment.clock()), window.time)
        return WindowClose(window.digest, len(window.records), now)

    def end(self, window: Window) -> Entry:
        """Close a window of a provider that does not serve.  CommitmentError: it is not open."""
        return self.journal.append_now(lambda: self.closing(window))

    def carried(self, policy: Policy, auditor_key: bytes | None = None) -> Window | None:
        """The window whose coins the next one of this policy carries on; None where it throws its own.

        Raises:
            ConfigurationError: no auditor's key is known.
        """
        if not policy.coined:
            return None
        return self.journal.history.carried(policy, self.auditor_key(auditor_key))

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
            journal,
            provider.window_secrets,
            state.key,
            serve_options.beacon,
            environment.clock,
            provider.thin,
            serve_options.publish,
        )
        self.deliveries = Deliveries(state, journal, self.proofs, self.estimates, state.key, environment.clock)
        journal.public.live = serve_options.publish <= 0
        self.own_lines = OwnLines(state, journal.history, provider.public_key, provider.registries)
        self.warns_of_ends = True  #: the operator, who commits the next window
        self.committing = asyncio.Lock()  #: one window at a time
        self._aside = ThreadPoolExecutor(ASIDE, "aside")
        self._driver: asyncio.Task[None] | None = None
        self._publisher: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def journal(self) -> Journal:
        return self.provider.journal

    async def start(self) -> None:
        """Load what the open window and the following one need, then start beacon and proof worker.

        Raises:
            AuditError: the window cannot be served (missing secrets or key); better now than at the first query.
        """
        history = self.journal.history
        for window in {one.digest: one for one in (history.current, history.newest) if one is not None}.values():
            await asyncio.to_thread(self.provider.window_secrets, window.digest)
            await asyncio.to_thread(self.provider.backends.keys.backend, window.manifest.key_digest)
        if history.following is not None:
            await asyncio.to_thread(self.provider.load_thinning_key, history.following)
        if self.serve_options.eager:
            self.proofs.start(history.current.digest if history.current is not None else None)
        self._driver = asyncio.create_task(self._drive())
        self._publisher = asyncio.create_task(self._publish())
        if self.warns_of_ends:
            self._ending = asyncio.create_task(Ending(self.journal.history, self.provider.environment.clock).run())

    async def _publish(self) -> None:
        """Show the public what is in the log, on the coarse tick (SPEC B.3)."""
        tick = self.serve_options.publish
        while tick > 0:
            await asyncio.sleep(tick - time.time() % tick)
            self.journal.public.reveal()

    async def _drive(self) -> None:
        """Bring every window that is committed to its opening."""
        given_up: Window | None = None
        while True:
            await self.beacon.pending()
            following = self.journal.history.following
            if following is given_up:
                await asyncio.sleep(FOLLOWING_SECONDS)
                continue
            try:
                await self.beacon.run()
            except AuditError as error:
                log.error("the window cannot be opened: %s", error)
                given_up = following
            except Exception:
                log.exception("the window cannot be opened")
                given_up = following

    async def stop(self) -> None:
        """Finish the answers under way and the proof at hand."""
        for task in (self._driver, self._publisher, self._ending):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self.deliveries.stop()
        self._aside.shutdown(wait=False, cancel_futures=True)
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
        """End a window, and open the following one behind it if that is ready; asked again, the same answer.

        Raises:
            AttestationError: not signed by the provider key for this window.
            CommitmentError: the window is not open.
        """
        window = self.journal.history.window(manifest)
        signature.verify(self.provider.public_key, "close", manifest, proof)
        if window.close is not None:
            return await asyncio.to_thread(self._close_index, window), window

        return (await self.turn(window)).index, window

    async def aside(self, work: Callable[[], T]) -> T:
        """Long work of the operator's, in a thread of its own: answers never wait for a free one."""
        return await asyncio.get_running_loop().run_in_executor(self._aside, work)

    async def turn(self, window: Window) -> Entry:
        """Close a window and open the following one, if it is ready, with nothing in between."""
        following = self.journal.history.following
        makes: list[Callable[[], Message]] = [lambda: self.provider.closing(window)]
        if following is not None and self.beacon.ready(following):
            makes.append(lambda: self.beacon.opening(following))
        closed, *opened = await self.journal.append_all(*makes)
        self.beacon.wake()
        if isinstance(closed, BaseException):
            raise closed
        if opened and isinstance(opened[0], AuditError):
            log.warning("the following window does not open with this one's end: %s", opened[0])
        return closed

    def _close_index(self, window: Window) -> int:
        assert window.close is not None
        closing = window.close.encode()
        for index in range(window.records[-1] if window.records else window.index, self.provider.ledger.size):
            if hmac.compare_digest(self.journal.data(index), closing):
                return index
        raise AttestationError("the closing entry is not durable yet: try again")
