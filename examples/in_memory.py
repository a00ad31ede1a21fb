# SPDX-License-Identifier: GPL-3.0-or-later
"""The wire, left out: what `service.py` and `remote.py` do over gRPC, as direct calls into a provider of this process.

Nothing is lost by it: the transport is trusted with nothing (SPEC G.7), so whatever a verdict rests on is in these
bytes.  Every call takes and gives canonical messages.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from ragseal.client.link import Announced, PreparedReply, Retrieved
from ragseal.kernel.inquiry import Ask
from ragseal.ledger.published import PublicLog
from ragseal.prover.commitment.window_secrets import thinned_index, window_index
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import ServeOptions, Serving
from ragseal.prover.storage.window import Stage

T = TypeVar("T")


class Running:
    """A provider that serves in an event loop of its own; ``call`` runs one of its coroutines from outside."""

    def __init__(self, provider: Provider, serve_options: ServeOptions) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.serving = Serving(provider, serve_options)
        self.call(self.serving.start())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self.call(self.serving.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class LedgerForAccounts:
    """:class:`ragseal.client.link.LedgerLink`."""

    def __init__(self, log: PublicLog) -> None:
        self._log = log
        self.inclusion, self.consistency = log.inclusion, log.consistency

    def checkpoint(self) -> bytes:
        return self._log.published()[1]

    def cosigned(self) -> None:
        return None  # no witness follows this log

    def entries(self, start: int, count: int) -> list[bytes]:
        return self._log.entries(start, min(count, self._log.size - start))

    def rotations(self) -> list[bytes]:
        return [proof.encode() for proof in self._log.turns()]

    def close(self) -> None:
        pass


class ProviderForAccounts:
    """:class:`ragseal.client.link.ProviderLink`: an account's half of phases A and B."""

    def __init__(self, running: Running) -> None:
        self._call, self._serving = running.call, running.serving

    def announced(self, window: str = "") -> Announced:
        shown = self._serving.journal.shown(window)
        is_open = shown.stage is Stage.OPEN
        return Announced(shown.signed.encode(), shown.index, "open" if is_open else "preparing")

    def account(self, canonical: bytes, signature: bytes) -> bytes:
        return self._call(self._serving.own_lines.line(canonical, signature))

    def prepare(self, canonical: bytes, signature: bytes) -> PreparedReply:
        reply = self._call(self._serving.attestation.prepare(canonical, signature))
        return PreparedReply(reply.canonical, reply.answered)

    def retrieve(self, canonical: bytes, signature: bytes, known_size: int, after: float = 0.0) -> Retrieved:
        answer = self._call(self._serving.attestation.retrieve(canonical, signature))
        return Retrieved(answer.canonical, tuple(self._serving.consistency(known_size, answer.size)), answer.update)

    def close(self) -> None:
        pass


class ProviderForAuditor:
    """:class:`ragseal.verifier.audit.participant.BeaconLink`: its part in the beacon, and all its evidence."""

    def __init__(self, running: Running) -> None:
        self._call, self._serving = running.call, running.serving

    def checkpoint(self) -> bytes:
        return self._serving.journal.public.published()[1]

    def cosigned(self) -> None:
        return None

    def entries(self, start: int, stop: int) -> Sequence[bytes]:
        return self._serving.journal.public.entries(start, stop - start)

    def manifest(self, window: str) -> bytes:
        return self._serving.journal.shown(window).signed.encode()

    def index_file(self, manifest: bytes, tenant: str) -> bytes:
        return window_index(self._serving.provider.state, manifest, tenant)

    def thinned_file(self, manifest: bytes, tenant: str) -> bytes:
        return thinned_index(self._serving.provider.state, manifest, tenant)

    def version_file(self, manifest: bytes, number: int, tenant: str) -> bytes:
        return window_index(self._serving.provider.state, manifest, tenant, number)

    def commit_beacon(self, canonical: bytes) -> None:
        self._call(self._serving.beacon.commit(canonical))

    def open_beacon(self, canonical: bytes) -> None:
        self._call(self._serving.beacon.open(canonical))

    def deliver(self, ask: Ask, proof: bytes) -> bytes:
        return self._call(self._serving.deliveries.answer(ask, proof))

    def patiently(self, once: Callable[[], T]) -> T:
        return once()
