# SPDX-License-Identifier: GPL-3.0-or-later
"""One provider, put together: state, ledger, keys, and what becomes of its windows without an event loop."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ragseal.backends.mechanism import Engine
from ragseal.embedder import Embedder
from ragseal.generators import ExtractiveGenerator, Generator
from ragseal.kernel import field, signature
from ragseal.kernel.beacon import AUDITOR, Seat
from ragseal.kernel.bn254 import Group
from ragseal.kernel.coin import coin_commitment
from ragseal.kernel.commitment import CoinCommitment, SignedManifest, Thinning, WindowClose
from ragseal.kernel.errors import (
    CommitmentError,
    ConfigurationError,
    LedgerError,
    ProofError,
)
from ragseal.kernel.policy import Policy
from ragseal.kernel.versions import ANSWERING
from ragseal.ledger.log import Log
from ragseal.prover.attestation.proofs import Proofs, stop_key, stopped
from ragseal.prover.attestation.turns import Turns
from ragseal.prover.commitment import documents, index, manifest, registry
from ragseal.prover.commitment.coin_placement import placed_afresh
from ragseal.prover.commitment.enrolling import OpenEnrolments, open_enrolments
from ragseal.prover.commitment.index import Version
from ragseal.prover.commitment.manifest import CarriedCoins, Progress
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.commitment.thinning import thin_window
from ragseal.prover.commitment.updates import UpdateTools, make_update
from ragseal.prover.estimate import Estimates
from ragseal.prover.keys.keyring import AttestationKeys, BlockKeys, ThinningKeys
from ragseal.prover.randomness import Draw
from ragseal.prover.storage import window_secrets
from ragseal.prover.storage.history import coarse
from ragseal.prover.storage.journal import Entry, Journal
from ragseal.prover.storage.loaded import Loaded
from ragseal.prover.storage.retirement import require_kept
from ragseal.prover.storage.room import require_room
from ragseal.prover.storage.state import State
from ragseal.prover.storage.update_secrets import UpdateSecrets, load_update, store_update, update_key
from ragseal.prover.storage.vocabularies import stored_vocabulary
from ragseal.prover.storage.window import Window
from ragseal.prover.storage.window_secrets import WindowSecrets
from ragseal.prover.workers.interface import Workers

KEPT_WINDOWS = 1  #: whose matrices, and whose registries, stay in memory beside those in force
KEPT_UPDATES = 2  #: whose matrices stay in memory beside those of the two newest

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
    generator: Generator | None = None  #: of answers in words; None: sentences of the texts, chosen by the embedder

    def writer(self) -> Generator:
        """What answers in words are written by."""
        return self.generator or ExtractiveGenerator(self.embedder)


def refuse_rollback(state: State, ledger: Log) -> None:
    """The ledger still holds the newest checkpoint that left this provider.

    The ledger's own comparison sees only its own folder: restored whole from a backup it looks sound, and appending
    to it would fork what others have seen.

    Raises:
        LedgerError: it does not.
    """
    known = state.checkpoint()
    if known is not None:
        size, note = known
        if size > ledger.size:
            raise LedgerError(
                f"the ledger has {ledger.size} entries, this provider has signed {size}: its folder was "
                "rolled back. Restore the newest one; serving this one would fork the log"
            )
        if ledger.checkpoint_at(size) != note:
            raise LedgerError(
                f"the ledger's first {size} entries are not those that this provider signed: restore the right ones"
            )
    if known != ledger.published():
        state.remember_checkpoint(*ledger.published())


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
        self.ledger = state.open_ledger()
        try:
            refuse_rollback(state, self.ledger)
            self.ledger.watch(state.remember_checkpoint)
            self.journal = Journal(self.ledger, signature.public_bytes(state.key), state.frozen)
        except BaseException:
            self.ledger.close()
            raise
        self.turns = Turns()  #: of proofs and blocks: each takes every core
        self.windows = Loaded(self._load_window, self._in_force, KEPT_WINDOWS)
        self.updates = Loaded(self._load_update, self._answering, KEPT_UPDATES)
        self.registries = Loaded(lambda manifest: registry.open_registry(state, manifest), self._in_force, KEPT_WINDOWS)
        self.enrolments = Loaded(self._load_enrolments, self._answering, KEPT_UPDATES)

    def write_with(self, generator: Generator) -> None:
        """Answers in words are written by this from now on; before anything is served."""
        self.backends = replace(self.backends, generator=generator)

    def _in_force(self) -> frozenset[bytes]:
        """The newest window and the one that is open: what concerns them waits for no other's."""
        history = self.journal.history
        return frozenset(one.digest for one in (history.newest, history.open) if one is not None)

    def _answering(self) -> frozenset[bytes]:
        """The versions that the open window answers from, one more than those: the newest may not be public yet."""
        window = self.journal.history.open
        newest = () if window is None else window.updates[-ANSWERING - 1 :]
        return frozenset(update_key(one.manifest, one.number) for _, one in newest)

    def _load_update(self, key: bytes) -> UpdateSecrets:
        require_kept(self.state, key[:-4])
        window, number = self.journal.history.window(key[:-4]), int.from_bytes(key[-4:], "big")
        if not 0 < number <= len(window.updates):
            raise CommitmentError(f"window {window.manifest.window!r} has no version {number} of its indices")
        return load_update(self.state, window.updates[number - 1][1], window.manifest.policy.coined)

    def _load_enrolments(self, key: bytes) -> OpenEnrolments:
        window, number = self.journal.history.window(key[:-4]), int.from_bytes(key[-4:], "big")
        return open_enrolments(self.state, window.manifest, window.digest, number)

    def version(self, window: Window, tenant: str, digest: bytes) -> Version:
        """The version of a tenant's index that has this digest in a window.  Blocks.

        Raises:
            CommitmentError: none has, or this state does not hold it.
        """
        number = window.number_of(digest)
        if not number:
            return self.window_secrets(window.digest).versions[tenant]
        return self.updates.get(update_key(window.digest, number)).versions[tenant]

    @property
    def public_key(self) -> bytes:
        return signature.public_bytes(self.state.key)

    def window_secrets(self, manifest: bytes) -> WindowSecrets:
        """A window's secrets, loaded once and checked against its manifest.  Blocks."""
        return self.windows.get(manifest)

    def _load_window(self, manifest: bytes) -> WindowSecrets:
        known = self.journal.history.windows.get(manifest)
        return window_secrets.load_window(self.state, manifest, None if known is None else known.thinning)

    def seats(self, named: Sequence[Seat] = ()) -> tuple[Seat, ...]:
        """The auditors of the next manifest: those ``named``, else the one under whose key proofs will be made.

        Raises:
            ConfigurationError: nobody is known.
            CommitmentError: a name that no auditor has.
        """
        key = self.backends.keys.newest().digest
        found = self.state.auditor_of(key)
        if named:
            for one in named:
                one.validate()
            return tuple(named)
        if found is None:
            raise ConfigurationError(
                f"nobody knows the auditor of key {key.hex()[:16]}: `ragseal-provider fetch-keys` brings its beacon "
                "key along, or name it with --auditor (`ragseal-verifier init` printed its key)"
            )
        return (Seat(AUDITOR, found),)

    def commit(
        self,
        policy: Policy,
        window: str,
        progress: Progress = lambda _: None,
        auditors: Sequence[Seat] = (),
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
        made = self.prepare(policy, window, progress, auditors, new_coins)
        progress("entering the manifest in the ledger")
        return self.journal.append_now(lambda: made)

    def prepare(
        self,
        policy: Policy,
        window: str,
        progress: Progress = lambda _: None,
        auditors: Sequence[Seat] = (),
        new_coins: bool = False,
    ) -> SignedManifest:
        """The manifest of a new window, all of whose secrets are durable by then.  Blocks; raises as :meth:`commit`.

        Nothing of it is in the ledger yet: made again under the same name, this one is forgotten.
        """
        self.journal.refuse_frozen()
        for known in self.journal.history.windows.values():
            if known.manifest.window == window:
                raise CommitmentError(f"window {window!r} exists: a window is never opened twice, take a new name")
        backends, seats = self.backends, self.seats(auditors)
        if policy.answers:
            stored_vocabulary(self.state, policy.vocabulary, backends.keys.newest().cls.N)
        first = None if new_coins else self.carried(policy, seats)
        if policy.coined and first is None:
            self._place_afresh(IndexShape(backends.keys.newest().cls.N, policy.dimension))
        made = manifest.prepare_window(
            self.state,
            backends.group,
            backends.keys.newest(),
            policy,
            backends.embedder.identity().digest(),
            window,
            seats,
            self.environment.draw,
            progress,
            self.thinning_keys().newest() if policy.coined else None,
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

    def carried(self, policy: Policy, auditors: Sequence[Seat] = ()) -> Window | None:
        """The window whose coins the next one of this policy carries on; None where it throws its own.

        It throws its own, too, once documents of that coin period were placed afresh (SPEC A.11.10).

        Raises:
            ConfigurationError: no auditor's key is known.
        """
        if not policy.coined:
            return None
        first = self.journal.history.carried(policy, self.seats(auditors))
        return None if first is None or placed_afresh(self.state, first.digest) else first

    def _place_afresh(self, shape: IndexShape) -> None:
        """Every throw of coins begins with new places, deleted documents or not: that tells nothing of either."""
        for tenant, count in index.tenants(self.state):
            if count:
                documents.new_period(self.state, tenant, shape, self.environment.draw)

    def _coin_seed(self, window: Window) -> bytes:
        """Raises CommitmentError: this state holds no such seed, or not the committed one."""
        found = self.state.row("SELECT coin_seed FROM windows WHERE manifest = ?", (window.digest,))  # also if retired
        if found is None or found[0] is None:
            raise CommitmentError(f"this provider's state holds no coins of window {window.manifest.window!r}")
        if coin_commitment(field.limbs(found[0])) != window.manifest.coin.c_coin:
            raise CommitmentError(
                f"the stored coins of window {window.manifest.window!r} are not those it committed to"
            )
        return bytes(found[0])

    def thinning_keys(self) -> ThinningKeys:
        """Raises ConfigurationError: there are none."""
        keys = self.backends.thinning_keys
        if keys is None:
            raise ConfigurationError("this provider has no keys of the thinning circuit: `ragseal-provider fetch-keys`")
        return keys

    def load_thinning_key(self, window: Window) -> None:
        """Load what thins a window, if its claim has a coin.  Raises ConfigurationError: no key."""
        if window.manifest.policy.coined:
            self.thinning_keys().backend(window.manifest.coin.key_digest)

    def thin(self, window: Window) -> Thinning:
        """Empty the slots that a window's coins hide, by its complete beacon.  Blocks.

        Raises:
            UnprovableError, ProofError: as they say; the window cannot be opened then.
            CommitmentError: the log names what this window was thinned to: doing it anew would replace that.
            ConfigurationError: no thinning key.
        """
        coin, backends = window.manifest.coin, self.backends
        with self._thinning_key_in_use(coin), self.turns:
            if window.thinning is not None:
                raise CommitmentError(f"the indices of window {window.manifest.window!r} are thinned already")
            made = thin_window(
                self.state,
                backends.group,
                backends.keys.view(window.manifest.key_digest),
                self.thinning_keys().backend(coin.key_digest),
                self.window_secrets(window.digest),
                self._throw(window),
                self.environment.draw,
                lambda text: log.info("%s", text),
            )
        self.windows.forget(window.digest)
        return made

    def update(self, window: Window, time: int) -> UpdateSecrets:
        """The next version of every index of a window, of all documents that are there now; durable on return.  Blocks.

        Args:
            time: its tick; the window's own beginning where it has not opened yet.

        Raises:
            CommitmentError, ProofError, ConfigurationError: as they say; nothing is entered then.
        """
        manifest, backends = window.manifest, self.backends
        coin = manifest.coins[0] if manifest.coins else None
        number = len(window.updates) + 1
        tools = UpdateTools(
            backends.group,
            backends.keys.view(manifest.key_digest),
            None if coin is None else self.thinning_keys().backend(coin.key_digest),
            self.environment.draw,
        )
        secrets = self.window_secrets(window.digest)
        former = self.updates.get(update_key(window.digest, number - 1)).versions if number > 1 else secrets.versions
        require_room(self.state, former.values())
        with self._thinning_key_in_use(coin), self.turns:
            made = make_update(
                self.state,
                tools,
                secrets,
                self._throw(window) if coin else None,
                former,
                number,
                time,
                lambda text: log.info("%s", text),
            )
        if window.close is not None or len(window.updates) >= number:
            raise CommitmentError("the window went on without this version")
        store_update(self.state, made)
        return made

    @contextmanager
    def _thinning_key_in_use(self, coin: CoinCommitment | None) -> Iterator[None]:
        """Refuses a thinning key that a failure stopped, and stops it with the first proof that fails (SPEC A.9.5)."""
        if coin is None:
            yield
            return
        reason = stopped(self.state, coin.key_digest)
        if reason is not None:
            raise ProofError(
                f"proving under the thinning key was stopped by a failure ({reason}): find out why before `release-key`"
            )
        try:
            yield
        except ProofError as error:
            stop_key(self.state, coin.key_digest, str(error))
            raise

    def _throw(self, window: Window) -> tuple[bytes, int]:
        """Digest and beacon of the manifest that threw a window's coins."""
        if window.manifest.coin.thrown_by:
            return self.journal.history.throw(window.manifest)
        return window.digest, window.seal_value()

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

    def new_proofs(self, workers: Workers | None = None) -> Proofs:
        """Proofs of this provider's records, made when they are asked for, by ``workers`` or by this process."""
        tools = self.backends
        return Proofs(
            self.state,
            self.journal,
            tools.group,
            tools.engine,
            tools.keys.view,
            tools.keys.backend,
            self.window_secrets,
            self.version,
            self.environment.draw,
            self.turns,
            workers,
        )

    def forget(self, manifest: bytes) -> None:
        """Hold nothing of a window's secrets any more."""
        self.windows.forget(manifest)
        for _, update in self.journal.history.window(manifest).updates:
            self.updates.forget(update_key(manifest, update.number))

    def close(self) -> None:
        self.ledger.close()
        self.state.close()
