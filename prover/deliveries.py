# SPDX-License-Identifier: GPL-3.0-or-later
"""What a window's auditor is given, and nobody else: registry, proofs, links, blocks.  SPEC B.7, C.3, C.6, G.8.

An ask costs seconds of proving, and links tell by pseudonym who asked nearly the same as whom.  So the manifest names
who may ask, by a key; strangers are refused before any work is done and never stand in the auditor's way.  Work whose
caller has gone stops at the next proof.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.commitment import Registry
from ragseal.kernel.errors import AttestationError, BudgetError, EstimateError, TransportError, UnprovableError
from ragseal.kernel.inquiry import ASK_SECONDS, Ask, BlocksAsk, Delivery, LinksAsk, ProofsAsk, Refusal, RegistryAsk
from ragseal.prover.commitment import window_accounts
from ragseal.prover.estimate import Estimates
from ragseal.prover.journal import Journal
from ragseal.prover.proofs import Proofs
from ragseal.prover.state import State
from ragseal.prover.window import Stage

ASKS_AT_ONCE = 4  #: of one auditor: one is worked on, the others wait


class Deliveries:
    """Answers the asks of auditors, one after the other: a proof takes every core.  Belongs to one event loop."""

    def __init__(
        self,
        state: State,
        journal: Journal,
        proofs: Proofs,
        estimates: Estimates,
        key: Ed25519PrivateKey,
        clock: Callable[[], float],
    ) -> None:
        """``key``: the provider's, which signs what is delivered."""
        self._state = state
        self._journal = journal
        self._proofs = proofs
        self._estimates = estimates
        self._key = key
        self._clock = clock
        self._one = asyncio.Lock()
        self._waiting: dict[bytes, int] = {}  #: asks under way by auditor key
        self._answered: dict[bytes, float] = {}  #: asks by digest, and until when their time would do again

    async def answer(self, ask: Ask, proof: bytes) -> bytes:
        """A Delivery, or the Refusal of a record that cannot be proven.

        Args:
            proof: the auditor's signature of the ask.

        Raises:
            AttestationError: not the window's auditor, an ask of another time, or one that was sent before.
            BudgetError: too many asks of this auditor at once; wait for one of them.
            AuditError: this provider cannot deliver now; the message says why.
        """
        window = self._journal.history.window(ask.manifest)
        auditor = window.manifest.auditor_key
        try:
            ask.verify(auditor, proof, self._clock())
        except AttestationError as error:
            raise AttestationError(f"only the window's auditor is given this: {error}") from None
        self._once(ask)
        if isinstance(ask, LinksAsk | BlocksAsk) and window.stage is not Stage.CLOSED:
            raise EstimateError(f"window {window.manifest.window!r} is not closed: its coalitions are estimated then")
        if self._waiting.get(auditor, 0) >= ASKS_AT_ONCE:
            raise BudgetError(f"{ASKS_AT_ONCE} asks of this auditor are under way: try again when one of them is done")
        self._waiting[auditor] = self._waiting.get(auditor, 0) + 1
        gone = threading.Event()
        work = asyncio.create_task(self._in_turn(ask, gone))
        try:
            return await asyncio.shield(work)
        finally:
            gone.set()  # the work of a cancelled call looks here before every proof
            work.add_done_callback(_noted)
            self._waiting[auditor] -= 1
            if not self._waiting[auditor]:
                del self._waiting[auditor]

    def _once(self, ask: Ask) -> None:
        """Whoever has seen an ask on its way must not send it again: not for the answer, nor to take a place."""
        now, digest = self._clock(), ask.digest()
        if digest in self._answered:
            raise AttestationError("this ask was sent before: every ask has a fresh nonce")
        self._answered = {known: until for known, until in self._answered.items() if until >= now}
        self._answered[digest] = ask.time + ASK_SECONDS

    async def _in_turn(self, ask: Ask, gone: threading.Event) -> bytes:
        """The next ask waits for the thread of this one, also when its caller has gone.

        Else an auditor that breaks off and asks again would fill the pool of threads with work that waits for locks,
        and nobody would be answered any more.
        """
        async with self._one:
            if gone.is_set():
                raise _dropped()
            return await asyncio.to_thread(self._work, ask, gone)

    def _work(self, ask: Ask, gone: threading.Event) -> bytes:
        def wanted_still() -> None:
            if gone.is_set():
                raise _dropped()

        try:
            payload = self._payload(ask, wanted_still)
        except UnprovableError as error:
            return Refusal.sign(self._key, ask.digest(), str(error)[:2000]).encode()
        return Delivery.sign(self._key, ask.digest(), payload).encode()

    def _payload(self, ask: Ask, wanted_still: Callable[[], None]) -> bytes:
        match ask:
            case RegistryAsk():
                return Registry(tuple(window_accounts(self._state, ask.manifest))).encode()
            case ProofsAsk():
                return self._proofs.batch(ask.manifest, ask.seqs, wanted_still)
            case LinksAsk():
                return self._estimates.links(ask.manifest).encode()
            case BlocksAsk():
                return self._estimates.blocks(ask.manifest, ask.key_digest, ask.tenant, ask.blocks, wanted_still)


def _dropped() -> TransportError:
    return TransportError("the auditor is gone: its ask is dropped")


def _noted(work: asyncio.Task[bytes]) -> None:
    """Takes the outcome of work whose caller may have gone."""
    with contextlib.suppress(asyncio.CancelledError):
        work.exception()
