# SPDX-License-Identifier: GPL-3.0-or-later
"""One provider, put together: state, ledger, keys, and what becomes of its windows without an event loop."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragseal.accounting.claims import claim_of
from ragseal.generators import Generator, SentenceGenerator
from ragseal.kernel import signature
from ragseal.kernel.beacon import AUDITOR, Seat
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import SignedManifest, WindowClose
from ragseal.kernel.enrolment import places
from ragseal.kernel.errors import CommitmentError, ConfigurationError
from ragseal.kernel.policy import Policy
from ragseal.kernel.versions import ANSWERING
from ragseal.prover.attestation.open_window import OpenWindows
from ragseal.prover.attestation.proofs import Proofs
from ragseal.prover.attestation.under_way import UnderWay
from ragseal.prover.commitment import index, manifest, registry, window_secrets
from ragseal.prover.commitment.agreed import Agreed
from ragseal.prover.commitment.answer_size import AnswerBound
from ragseal.prover.commitment.enrolling import OpenEnrolments, open_enrolments
from ragseal.prover.commitment.loaded import Loaded
from ragseal.prover.commitment.manifest import NO_CLAIMS, CarriedCoins, Progress, WindowTerms
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.commitment.readings import Readings
from ragseal.prover.commitment.room import require_room
from ragseal.prover.commitment.slots import Readable
from ragseal.prover.commitment.update_secrets import UpdateSecrets, load_update, store_update, update_key
from ragseal.prover.commitment.updates import NextVersion, UpdateTools, make_update
from ragseal.prover.commitment.vocabularies import stored_vocabulary
from ragseal.prover.commitment.window_secrets import WindowSecrets
from ragseal.prover.estimate.estimate import Estimates
from ragseal.prover.provider.backends import Backends, Environment
from ragseal.prover.provider.coins import Coins
from ragseal.prover.storage.history import coarse
from ragseal.prover.storage.journal import Entry, Journal
from ragseal.prover.storage.retirement import require_kept
from ragseal.prover.storage.rollback import refuse_rollback
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window
from ragseal.prover.workers.interface import Workers
from ragseal.prover.workers.turns import Turns

KEPT_WINDOWS = 1  #: whose matrices, and whose registries, stay in memory beside those in force
KEPT_UPDATES = 2  #: whose matrices stay in memory beside those of the two newest

log = logging.getLogger("ragseal.provider")


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
        self.workers: Workers | None = None
        self.turns = Turns()  #: of proofs and blocks: each takes every core
        self.under_way = UnderWay()
        self.secrets = Loaded(self._load_window, self._in_force, KEPT_WINDOWS)
        history = self.journal.history
        self.coins = Coins(state, history, backends, self.environment.draw, self.secrets, self.turns)
        self.updates = Loaded(self._load_update, self._answering, KEPT_UPDATES)
        self.windows = OpenWindows(history, backends.keys, self.secrets, self.updates)
        self.registries = Loaded(lambda manifest: registry.open_registry(state, manifest), self._in_force, KEPT_WINDOWS)
        self.enrolments = Loaded(self._load_enrolments, self._answering, KEPT_UPDATES)
        self.readings = Readings(history)

    def write_with(self, generator: Generator) -> None:
        """Answers in words are written by this from now on; before anything is served."""
        self.backends = replace(self.backends, generator=generator)

    def prove_with(self, workers: Workers | None) -> None:
        """Proofs are made by these from now on, or by this process; before anything is served."""
        self.workers = self.coins.workers = workers

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
        return load_update(self.state, window.updates[number - 1][1])

    def _load_enrolments(self, key: bytes) -> OpenEnrolments:
        window, number = self.journal.history.window(key[:-4]), int.from_bytes(key[-4:], "big")
        return open_enrolments(self.state, window.manifest, window.digest, number)

    @property
    def public_key(self) -> bytes:
        return signature.public_bytes(self.state.key)

    def window_secrets(self, manifest: bytes) -> WindowSecrets:
        """A window's secrets, loaded once and checked against its manifest.  Blocks."""
        return self.secrets.get(manifest)

    def _load_window(self, manifest: bytes) -> WindowSecrets:
        known = self.journal.history.windows.get(manifest)
        return window_secrets.load_window(self.state, manifest, None if known is None else known.thinning)

    def read(self, window: Window) -> None:
        """Read the texts of what answers in words are made from, where sentences of the texts answer.  Blocks.

        Of a window before it is entered, and of one that is there before it is served again; :meth:`update` reads what
        it makes.
        """
        if not self._reads(window):
            return
        made = [self.updates.get(update_key(window.digest, one.number)) for _, one in window.updates[-ANSWERING:]]
        for versions in [one.versions for one in made] or [self.window_secrets(window.digest).versions]:
            self.readings.read(window, versions.values())

    def _reads(self, window: Window) -> bool:
        asked = window.manifest.policy.answers and window.close is None and not self.journal.frozen
        return asked and isinstance(self.backends.writer(), SentenceGenerator)

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
        agreed: Agreed | None = None,
        claims: Mapping[str, str] = NO_CLAIMS,
    ) -> Entry:
        """Phase A: commit to every index and enter the manifest in the ledger.

        Args:
            new_coins: throw coins, over new places, although the newest throw of the budget period could be carried on.
            agreed: what the epsilon that was agreed to rests on; None: nobody was asked.
            claims: of tenants that have a lower one than the policy's, by their names.

        Raises:
            CommitmentError: the window's name was used, it overlaps another, nothing to commit to, or not what was
                agreed to any more.
            ConfigurationError: no auditor's key is known.
            PolicyError, ProofError, LedgerError: as they say.
        """
        made = self.prepare(policy, window, progress, auditors, new_coins, agreed, claims)
        progress("entering the manifest in the ledger")
        return self.journal.append_now(lambda: made)

    def prepare(
        self,
        policy: Policy,
        window: str,
        progress: Progress = lambda _: None,
        auditors: Sequence[Seat] = (),
        new_coins: bool = False,
        agreed: Agreed | None = None,
        claims: Mapping[str, str] = NO_CLAIMS,
    ) -> SignedManifest:
        """The manifest of a new window, all of whose secrets are durable by then.  Blocks; raises as :meth:`commit`.

        Nothing of it is in the ledger yet: made again under the same name, this one is forgotten.
        """
        self.journal.refuse_frozen()
        self.journal.history.check_next(window, policy.opens)  # before documents get other places
        backends, seats = self.backends, self.seats(auditors)
        if policy.answers:
            stored_vocabulary(self.state, policy.vocabulary, backends.keys.newest().cls.N)
        self.require_answerable(policy)
        manifest.require_tenants(self.state, registry.accounts(self.state), claims)  # before documents get other places
        thinning = self.coins.keys().newest() if policy.coined else None
        first = None if new_coins else self.carried(policy, seats, claims)
        if agreed is not None:
            agreed.check_coins(b"" if first is None else first.digest)
        if first is None and (policy.coined or new_coins):
            capacity = policy.capacity(backends.keys.newest().cls)
            self.coins.place_afresh(IndexShape(capacity, policy.dimension, most=0 if policy.answers else capacity))
        with self.state.snapshot() as documents:
            made = manifest.prepare_window(
                self.state,
                documents,
                manifest.CommitmentTools(
                    backends.group,
                    backends.keys.newest(),
                    thinning,
                    self.environment.draw,
                ),
                WindowTerms(
                    window,
                    policy,
                    backends.embedder.identity().digest(),
                    seats,
                    None if first is None else CarriedCoins(first.digest, self.coins.seed(first)),
                    claims,
                ),
                progress,
            )
            self.journal.history.check_manifest(made.signed)
            if agreed is not None and claim_of(policy).all_accounts_count:
                agreed.check_accounts(places(made.signed.manifest))
            window_secrets.store_window(self.state, made)
        return made.signed

    def require_answerable(self, policy: Policy) -> None:
        """Raises CommitmentError: documents that are there now are too long for one answer of a window together."""
        self._require_answerable(self.state, self.backends.keys.newest().cls, policy)

    def _require_answerable(self, documents: Readable, cls: AttestationClass, policy: Policy) -> None:
        """The same of a snapshot and the class of a window that is there."""
        if not policy.answers:
            most = cls.most_listed(policy.ids, policy.shards, policy.decoy_rate)
            bound = AnswerBound(most, policy.capacity(cls), self.environment.answer_bytes)
            for tenant, _ in index.tenants(self.state):
                bound.require(documents, tenant)

    def closing(self, window: Window) -> WindowClose:
        """The closing entry of a window, as it stands in the writer's turn."""
        now = max(coarse(self.environment.clock()), window.time)
        return WindowClose(window.digest, len(window.records), now)

    def end(self, window: Window) -> Entry:
        """Close a window of a provider that does not serve.  CommitmentError: it is not open."""
        return self.journal.append_now(lambda: self.closing(window))

    def carried(
        self, policy: Policy, auditors: Sequence[Seat] = (), claims: Mapping[str, str] = NO_CLAIMS
    ) -> Window | None:
        """The window whose coins the next one of this policy carries on; None where it throws its own.

        ``claims``: as of :meth:`commit`.

        Raises:
            ConfigurationError: no auditor's key is known.
        """
        return self.coins.carried(policy, self.seats(auditors), claims) if policy.coined else None

    def update(self, window: Window, time: int) -> UpdateSecrets:
        """The next version of every index of a window, of all documents that are there now.  Blocks.

        It is durable on return, and read.

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
            None if coin is None else self.coins.backend(coin.key_digest),
            self.environment.draw,
        )
        secrets = self.window_secrets(window.digest)
        former = self.updates.get(update_key(window.digest, number - 1)).versions if number > 1 else secrets.versions
        require_room(self.state, former.values())
        with self.coins.key_in_use(coin), self.turns, self.state.snapshot() as documents:
            self._require_answerable(documents, tools.key.cls, manifest.policy)
            made = make_update(
                self.state,
                documents,
                tools,
                secrets,
                NextVersion(number, time, former, self.coins.throw(window) if coin else None),
                lambda text: log.info("%s", text),
            )
            if window.close is not None or len(window.updates) >= number:
                raise CommitmentError("the window went on without this version")
            store_update(self.state, made)
        if self._reads(window):
            self.readings.read(window, made.versions.values())
        return made

    def new_estimates(self) -> Estimates:
        """Phase C over this provider's windows; nothing is read before it is asked for."""
        return Estimates(
            self.state,
            self.journal,
            self.backends.group,
            self.backends.estimate_keys,
            self.windows,
            self.environment.draw,
            self.turns,
            self.workers,
        )

    def new_proofs(self, workers: Workers | None = None) -> Proofs:
        """Proofs of this provider's records, made when they are asked for, by ``workers`` or by this process."""
        tools = self.backends
        return Proofs(
            self.state,
            self.journal,
            tools.group,
            tools.engine,
            self.windows,
            self.environment.draw,
            self.turns,
            workers,
        )

    def forget(self, manifest: bytes) -> None:
        """Hold nothing of a window's secrets any more."""
        self.secrets.forget(manifest)
        self.readings.forget(manifest)
        for _, update in self.journal.history.window(manifest).updates:
            self.updates.forget(update_key(manifest, update.number))

    def close(self) -> None:
        self.ledger.close()
        self.state.close()
