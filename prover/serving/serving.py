# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that serves: beacon, answers, proofs and asks in one event loop, and the order they start and end in."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from ragseal.kernel import signature
from ragseal.kernel.attestation import COARSE_TIME, EAGER, ON_DEMAND
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import (
    AttestationError,
    AuditError,
)
from ragseal.kernel.versions import ANSWERING
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.policy import Policy
from ragseal.prover.attestation.answering import Attestation
from ragseal.prover.attestation.answering_context import AnsweringContext
from ragseal.prover.attestation.own_lines import OwnLines
from ragseal.prover.commitment.beacon import Beacon, BeaconRules
from ragseal.prover.commitment.dropped import drop, droppable
from ragseal.prover.commitment.update_secrets import update_key
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.deliveries import Deliveries
from ragseal.prover.serving.ending import Ending
from ragseal.prover.serving.metrics import Metrics
from ragseal.prover.serving.retiring import LOOK_SECONDS, Retiring
from ragseal.prover.serving.ticks import Ticks
from ragseal.prover.serving.verdicts import Verdicts
from ragseal.prover.storage.journal import Entry, Journal
from ragseal.prover.storage.retirement import forgotten, is_retired
from ragseal.prover.storage.window import Window
from ragseal.prover.workers.opening import ProveBy
from ragseal.runtime.face import when
from ragseal.runtime.tokenbucket import Rate, Throttle
from ragseal.runtime.tracing import Spans

LIVE_SECONDS = 10.0  #: between two times at which traces are told where no coarse tick is
FOLLOWING_SECONDS = 1.0  #: between two looks for another window, once one could not be opened
ASIDE = 2  #: threads for what an operator wants done: a window is committed while documents are embedded

T = TypeVar("T")

log = logging.getLogger("ragseal.provider")


@dataclass(frozen=True)
class ServeOptions:
    """How a provider serves."""

    eager: bool = True  #: prove in the background; otherwise when an audit asks
    tick: float = 0.1  #: seconds; answers leave at multiples of it
    beacon: BeaconRules = field(default_factory=BeaconRules)
    publish: float = COARSE_TIME  #: seconds; the public log shows new records at multiples of it, 0: at once
    witnesses: Sequence[NoteVerifier] = ()  #: whose cosignatures strangers' can neither displace nor hide
    verdicts: bool = True  #: auditors' verdicts are entered in the ledger
    witness_policy: Policy | None = None  #: whose witnesses are submitted to, and whose quorum `cosigned` has
    witness_every: float = 10.0  #: seconds between two submissions
    account_rate: Rate | None = None  #: new queries of one account; None: as many as n_max gives it
    peer_rate: Rate | None = None  #: calls of one machine; None: as many as it has places
    prove_by: ProveBy = field(default_factory=ProveBy)
    spans: Spans | None = None  #: where answers are told as spans
    retire_on_pass: bool = False  #: windows that all of their auditors passed are not kept longer than a day


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
        self.workers = serve_options.prove_by.open(state.keys_directory, provider.public_key, journal.frozen)
        provider.prove_with(self.workers)
        self.proofs = provider.new_proofs(self.workers)
        tools = AnsweringContext(
            group=backends.group,
            engine=backends.engine,
            embedder=backends.embedder,
            draw=environment.draw,
            clock=environment.clock,
            answer_bytes=environment.answer_bytes,
            timer=environment.timer,
            under_way=provider.under_way,
            readings=provider.readings,
            generator=backends.writer(),
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
        self.peers = Throttle("this machine calls too often")
        self.limit(serve_options.account_rate, serve_options.peer_rate)
        self.estimates = provider.new_estimates()
        self.ticks = Ticks(provider, serve_options.publish)
        self.beacon = Beacon(
            journal,
            provider.secrets,
            serve_options.beacon,
            environment.clock,
            provider.coins.thin,
            serve_options.publish,
            self.ticks.open,
        )
        self.deliveries = Deliveries(state, journal, self.proofs, self.estimates, environment.clock)
        self.verdicts = Verdicts(journal, serve_options.verdicts)
        journal.public.live = serve_options.publish <= 0
        self.metrics = Metrics(provider, serve_options.tick, journal.public.live)
        self.metrics.spans = serve_options.spans
        self.metrics.failing = lambda: int(self.proofs.backlog.status(0.0)["failing"])
        self.book: CosignatureBook | None = None  #: of witnesses, once there is an edge that has one
        self.purge_trouble = ""  #: why what is to be purged is not purged
        self.own_lines = OwnLines(
            state, journal.history, provider.public_key, provider.registries, provider.enrolments,
            lambda: journal.public.size,
        )  # fmt: skip
        self.warns_of_ends = True  #: the operator, who commits the next window
        self.committing = asyncio.Lock()  #: one window at a time
        self.copying = asyncio.Lock()  #: the folder: while it is, nothing in it is purged
        self.retiring = Retiring(provider, self.proofs, self.estimates, serve_options.retire_on_pass)
        self._aside = ThreadPoolExecutor(ASIDE, "aside")
        self._purging = ThreadPoolExecutor(1, "retiring")
        self.look = asyncio.Event()  #: there may be something to purge
        self._unproven: list[tuple[bytes, int]] = []  #: records that the public does not see yet
        self._retirer: asyncio.Task[None] | None = None
        self._driver: asyncio.Task[None] | None = None
        self._publisher: asyncio.Task[None] | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def journal(self) -> Journal:
        return self.provider.journal

    def limit(self, account_rate: Rate | None, peer_rate: Rate | None) -> None:
        """From now on; see :class:`ServeOptions`."""
        self.attestation.asked.allow(account_rate)
        self.peers.allow(peer_rate)

    async def start(self) -> None:
        """Load what the open window and the following one need, then start beacon and proof worker.

        Raises:
            AuditError: the window cannot be served (missing secrets or key); better now than at the first query.
        """
        history = self.journal.history
        for window in {one.digest: one for one in (history.current, history.newest) if one is not None}.values():
            if is_retired(self.provider.state, window.digest):
                continue
            await asyncio.to_thread(self.provider.window_secrets, window.digest)
            keys = self.provider.backends.keys
            load = keys.backend if self.workers is None else keys.check_held
            await asyncio.to_thread(load, window.manifest.key_digest)
            await asyncio.to_thread(self.provider.read, window)
        if history.following is not None:
            await asyncio.to_thread(self.provider.coins.load_key, history.following)
        if history.open is not None and history.open.every:
            await asyncio.to_thread(self.provider.coins.load_key, history.open)
            for _, update in history.open.updates[-ANSWERING:]:
                key = update_key(update.manifest, update.number)
                await asyncio.to_thread(self.provider.updates.get, key)
        if self.workers is not None:
            self.workers.start()
        if self.serve_options.eager and not self.journal.frozen:  # a copy makes what it is asked for
            current = history.current
            kept = current is not None and not is_retired(self.provider.state, current.digest)
            self.proofs.start(current.digest if current is not None and kept else None)
        await self.metrics.settle()
        self._driver = asyncio.create_task(self._drive())
        self._publisher = asyncio.create_task(self._publish())
        self._retirer = asyncio.create_task(self._retire())
        self._ticking = asyncio.create_task(self.ticks.run())
        if self.warns_of_ends and not self.journal.frozen:
            self._ending = asyncio.create_task(Ending(self.journal.history, self.provider.environment.clock).run())

    async def _publish(self) -> None:
        """Show the public what is in the log, on the coarse tick (SPEC B.3)."""
        tick = self.serve_options.publish
        while tick <= 0:  # every record is public at once: here only what answers left for the traces is told
            await asyncio.sleep(LIVE_SECONDS)
            if self.metrics.spans is None:
                continue  # whoever scrapes settles for itself
            await self._settle()
        while True:
            await asyncio.sleep(tick - time.time() % tick)
            try:
                await self.ticks.publish()
            except AuditError as error:
                log.error("the next version of the indices is not entered: %s", error)
            self.journal.public.reveal()
            self._prove_published()
            await self._settle()

    async def _settle(self) -> None:
        """Nobody's answer depends on these numbers, so nothing ends where they cannot be had."""
        try:
            await self.metrics.settle()
        except Exception as error:
            log.error("the metrics stay as they were: %s", type(error).__name__)

    async def _drive(self) -> None:
        """Bring every window that is committed to its opening."""
        if self.journal.frozen:
            log.warning("%s", self.provider.state.frozen)
            return
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
        self.retiring.stop()
        if self.workers is not None:
            await asyncio.to_thread(self.workers.close)  # nobody waits for them any longer
        for task in (self._driver, self._publisher, self._ending, self._retirer, self._ticking):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self.deliveries.stop()
        self._aside.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._purging.shutdown, True, cancel_futures=True)
        await self.attestation.drain()
        if self.journal.public.live:  # else the ledger has not shown yet of what there would be to tell
            await self._settle()
        self.estimates.stop()
        await asyncio.to_thread(self.proofs.stop)

    async def _retire(self) -> None:
        """Retire what was kept long enough, and go on with what a stop or a crash left."""
        while True:
            try:
                await self.retire_due()
                self.purge_trouble = ""
            except AuditError as error:
                self.purge_trouble = str(error)
                log.error("what is to be purged is not purged yet: %s", error)
            except Exception as error:
                self.purge_trouble = type(error).__name__
                log.exception("what is to be purged is not purged yet")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.look.wait(), LOOK_SECONDS)
            self.look.clear()

    async def retire_due(self) -> None:
        """Retire the windows that were kept long enough, and purge what is pending.

        Raises:
            AuditError: something cannot be purged now.
        """
        await self._close_forgotten()
        for window in await self.purging(self.retiring.prepare_due):
            await self.purging(partial(self.retiring.retire, window))
            log.info("window %s is retired: its texts, queries and secrets are purged", window.manifest.window)
        await self.sweep()
        await self.drop_versions()

    async def _close_forgotten(self) -> None:
        """Close a window that ended by its policy a day ago: one that is never closed would never be retired."""
        window, now = self.journal.history.open, self.provider.environment.clock()
        if window is None or self.journal.frozen or not forgotten(window, now):
            return
        await self.turn(window)
        ended = when(window.closes)
        log.warning("window %s ended at %s and nobody closed it: it is closed now", window.manifest.window, ended)

    async def drop_versions(self) -> None:
        """Delete versions of live indices that nobody needs any more, while no copy is made.

        Raises:
            AuditError: the disk or the database refuses.
        """
        state, windows = self.provider.state, self.journal.history.windows.values()
        for window in [one for one in windows if one.every]:
            numbers = await self.purging(partial(droppable, state, window))
            if numbers:
                async with self.copying, self.ticks.making:
                    await self.purging(partial(self._drop, window, numbers))

    def _drop(self, window: Window, numbers: list[int]) -> None:
        drop(self.provider.state, window, numbers)
        for number in numbers:
            self.provider.updates.forget(update_key(window.digest, number))
        log.info("%d versions of the indices that nobody needs are deleted", len(numbers))

    async def sweep(self) -> bool:
        """Purge what is pending, while nothing is committed, made or copied; whether nothing is left."""
        if not await self.purging(lambda: self.retiring.pending):
            return True
        async with self.copying, self.committing, self.ticks.making:  # last what must not wait for a copy
            return await self.purging(self.retiring.sweep)

    async def purging(self, work: Callable[[], T]) -> T:
        """Work on what is to be retired, one after the other in a thread of its own: its proofs may take hours."""
        return await asyncio.get_running_loop().run_in_executor(self._purging, work)

    def _on_record(self, manifest: bytes, seq: int) -> None:
        if self.serve_options.eager and not self.journal.frozen:
            self._unproven.append((manifest, seq))
            if self.journal.public.live:
                self._prove_published()

    def _prove_published(self) -> None:
        """Hand on what the public sees by now: who watches the workers' database sees when, and no more than the log.

        Else it would date each query to the moment, which the coarse tick hides (SPEC B.3, B.12.6).
        """
        ready, self._unproven = self._unproven, []
        for manifest, seq in ready:
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
        """Close a window and open the following one, if it is ready, with nothing in between.

        What the window has admitted gets its records first.
        """
        async with self.provider.under_way.ended(window):
            return await self._turn(window)

    async def _turn(self, window: Window) -> Entry:
        following = self.journal.history.following
        makes: list[Callable[[], Message]] = [lambda: self.provider.closing(window)]
        if following is not None and self.beacon.ready(following):
            makes.append(lambda: self.beacon.opening(following))
        try:
            if len(makes) > 1 and following is not None:
                closed, *opened = await self.ticks.open(following, *makes)
            else:
                closed, *opened = await self.journal.append_all(*makes)
        except AuditError as error:
            log.error("the following window does not open with this one's end: %s", error)
            closed, *opened = await self.journal.append_all(makes[0])
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
