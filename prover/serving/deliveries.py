# SPDX-License-Identifier: GPL-3.0-or-later
"""What a window's auditor is given, and nobody else: registry, proofs, links, blocks.  SPEC B.7, C.3, C.6, G.8.

An ask costs seconds of proving, and links tell by pseudonym who asked nearly the same as whom.  So the manifest names
who may ask, by a key; strangers are refused before any work is done and never stand in the auditor's way.  Nor do the
auditors of older windows stand in the newest one's: it waits for nobody's ask, and they share few places.  Work whose
caller has gone stops at the next proof.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ragseal.kernel.commitment import MAX_AUDITORS, Registry
from ragseal.kernel.errors import AttestationError, BudgetError, EstimateError, TransportError, UnprovableError
from ragseal.kernel.inquiry import Ask, BlocksAsk, Delivery, LinksAsk, ProofsAsk, Refusal, RegistryAsk
from ragseal.prover.attestation.asked import Asked
from ragseal.prover.attestation.proofs import Proofs
from ragseal.prover.commitment.enrolling import enrolments
from ragseal.prover.commitment.registry import window_accounts
from ragseal.prover.estimate.estimate import Estimates
from ragseal.prover.storage.admitted import MOST, admitted
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Stage, Window
from ragseal.prover.storage.window_keys import load_window_key

ASKS_AT_ONCE = 4  #: of one auditor: one of a kind is worked on, the others wait
PROOFS, LINKS, REGISTRY = "proofs", "links", "registry"
#: Asks about older windows that are worked on, by kind: more than may audit one window, so that its auditors cannot
#: take all places from each other.
OLDER_AT_ONCE = {PROOFS: MAX_AUDITORS + MOST + 8, LINKS: 4, REGISTRY: 4}


@dataclass(frozen=True, slots=True)
class _Lane:
    """Asks that wait for each other: one auditor's, about the newest window or about older ones, of one kind."""

    auditor: bytes
    newest: bool
    kind: str


class Deliveries:
    """Answers the asks of auditors; proofs take turns.  Belongs to one event loop."""

    def __init__(
        self,
        state: State,
        journal: Journal,
        proofs: Proofs,
        estimates: Estimates,
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._journal = journal
        self._proofs = proofs
        self._estimates = estimates
        self._clock = clock
        self._asked = Asked(state)
        self._waiting: Counter[tuple[bytes, bool]] = Counter()  #: asks by auditor key, the newest window's apart
        self._lanes: dict[_Lane, asyncio.Lock] = {}
        self._older = {kind: asyncio.Semaphore(places) for kind, places in OLDER_AT_ONCE.items()}
        # Their own threads: an audit takes none from the accounts.  One of each kind and auditor for the newest window.
        places = len(OLDER_AT_ONCE) * (MAX_AUDITORS + MOST) + sum(OLDER_AT_ONCE.values())
        self._threads = ThreadPoolExecutor(places, thread_name_prefix="deliveries")

    async def answer(self, ask: Ask, proof: bytes) -> bytes:
        """A Delivery, or the Refusal of a record that cannot be proven.

        Args:
            proof: the auditor's signature of the ask.

        Raises:
            AttestationError: no auditor of the window and none that was admitted, an ask of another time or one that
                was sent before, or records that are not public.
            BudgetError: too many asks of this auditor at once; wait for one of them.
            TransportError: it is to be asked anew.
            AuditError: this provider cannot deliver now; the message says why.
        """
        window = self._journal.history.window(ask.manifest)
        keys = [one.public_key for one in window.manifest.auditors]
        keys += [one.public_key for one in admitted(self._state)]
        try:
            auditor = ask.verify(keys, proof, int(self._clock()))
        except AttestationError as error:
            raise AttestationError(f"only an auditor of this window is given this: {error}") from None
        newest = window is self._journal.history.newest
        if self._waiting[auditor, newest] >= ASKS_AT_ONCE:  # what is refused is not kept either
            raise BudgetError(f"{ASKS_AT_ONCE} asks of this auditor are under way: try again when one of them is done")
        self._check_public(window, ask)
        keep = self._asked.take(auditor, ask, self._clock())
        gone = threading.Event()
        work = asyncio.create_task(self._in_turn(_Lane(auditor, newest, _kind(ask)), window, keep, ask, gone))
        self._waiting[auditor, newest] += 1
        work.add_done_callback(lambda done: self._done(done, auditor, newest))
        try:
            return await asyncio.shield(work)
        finally:
            gone.set()  # the work of a cancelled call looks here before every proof

    def _done(self, work: asyncio.Task[bytes], auditor: bytes, newest: bool) -> None:
        """Work has ended, whose caller may have gone long before: until now it counts."""
        with contextlib.suppress(asyncio.CancelledError):
            work.exception()  # it may be that nobody asks any more
        self._waiting[auditor, newest] -= 1
        if not self._waiting[auditor, newest]:
            del self._waiting[auditor, newest]

    def stop(self) -> None:
        """Begin nothing any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _check_public(self, window: Window, ask: Ask) -> None:
        """The ask is about what the log shows by now: an auditor too must not see when each account asks."""
        name = window.manifest.window
        if isinstance(ask, LinksAsk | BlocksAsk) and window.stage is not Stage.CLOSED:
            raise EstimateError(f"window {name!r} is not closed: its coalitions are estimated then")
        if not isinstance(ask, ProofsAsk):
            return
        shown = self._journal.published_records(window)
        if ask.seqs and ask.seqs[-1] >= shown:
            raise AttestationError(f"window {name!r} has {shown} public records: there is no record {ask.seqs[-1]}")
        if not shown:
            raise AttestationError(f"window {name!r} has no public records to prove")

    async def _in_turn(
        self, lane: _Lane, window: Window, keep: Callable[[], None], ask: Ask, gone: threading.Event
    ) -> bytes:
        """The next ask of a lane waits for the thread of this one, also when its caller has gone.

        Else an auditor that breaks off and asks again would fill the threads with work that waits for locks, and
        nobody would be answered any more.
        """
        loop, digest = asyncio.get_running_loop(), ask.digest()
        place = contextlib.nullcontext() if lane.newest else self._older[lane.kind]
        async with self._lanes.setdefault(lane, asyncio.Lock()), place:
            if gone.is_set():
                raise _dropped()
            if isinstance(ask, ProofsAsk) and not ask.seqs:  # only now: the list has 65,536 numbers
                ask = replace(ask, seqs=tuple(range(self._journal.published_records(window))))
            await loop.run_in_executor(self._threads, keep)
            return await loop.run_in_executor(self._threads, self._work, ask, digest, gone)

    def _work(self, ask: Ask, digest: bytes, gone: threading.Event) -> bytes:
        def wanted_still() -> None:
            if gone.is_set():
                raise _dropped()

        try:
            payload = self._payload(ask, wanted_still)
        except UnprovableError as error:
            return Refusal.sign(load_window_key(self._state, ask.manifest), digest, str(error)[:2000]).encode()
        return Delivery.sign(load_window_key(self._state, ask.manifest), digest, payload).encode()

    def _payload(self, ask: Ask, wanted_still: Callable[[], None]) -> bytes:
        match ask:
            case RegistryAsk():
                return self._registry(ask.manifest)
            case ProofsAsk():
                return self._proofs.batch(ask.manifest, ask.seqs, wanted_still)
            case LinksAsk():
                return self._estimates.links(ask.manifest).encode()
            case BlocksAsk():
                return self._estimates.blocks(ask.manifest, ask.key_digest, ask.tenant, ask.blocks, wanted_still)

    def _registry(self, manifest: bytes) -> bytes:
        """A window's Registry, or, where accounts come and go with its versions, its Enrolments."""
        window = self._journal.history.window(manifest)
        if window.every:
            return enrolments(self._state, manifest, len(window.updates)).encode()
        return Registry(tuple(window_accounts(self._state, manifest))).encode()


def _kind(ask: Ask) -> str:
    match ask:
        case RegistryAsk():
            return REGISTRY
        case LinksAsk():
            return LINKS
        case ProofsAsk() | BlocksAsk():
            return PROOFS


def _dropped() -> TransportError:
    return TransportError("the auditor is gone: its ask is dropped")
