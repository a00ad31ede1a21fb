# SPDX-License-Identifier: GPL-3.0-or-later
"""The public ledger's edges beside gRPC: tiles over HTTP, and witnesses that checkpoints are handed to."""

from __future__ import annotations

import ssl
import time
from dataclasses import replace

from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.policy import Policy
from ragseal.ledger.published import PublicLog
from ragseal.ledger.submitting import Submitter
from ragseal.ledger.tile_site import TileSite
from ragseal.runtime import http_server
from ragseal.runtime.http_server import HttpServer
from ragseal.runtime.limits import DEFAULT, SPARE_DESCRIPTORS, Limits, raise_descriptors
from ragseal.runtime.loop_thread import LoopThread
from ragseal.runtime.tls import ServerTls


def beside_http() -> Limits:
    """gRPC's limits where an HTTP server shares the program's descriptors (SPEC G.7.3)."""
    left = raise_descriptors() - SPARE_DESCRIPTORS - http_server.DEFAULT_LIMITS.connections
    return replace(DEFAULT, connections=max(64, min(DEFAULT.connections, left)))


class LedgerEdges:
    """Both run in threads of their own: neither strangers nor witnesses hold up an answer."""

    def __init__(self, log: PublicLog, book: CosignatureBook, policy: Policy | None, every: float) -> None:
        """Raises ConfigurationError: a witness's URL that is none."""
        self._site = TileSite(log, book)
        self._server = HttpServer(self._site.handle)
        self._thread: LoopThread | None = None
        self._submitter = None if policy is None else Submitter(log, book, policy, every, time.time)

    async def start(self, public: str | None, tls: ServerTls) -> str:
        """Serve tiles at ``public``, if it is given, and submit; the address that was taken, else empty.

        Raises:
            ConfigurationError: the port is taken, a plain address beyond loopback, or certificate files that do not do.
        """
        address = ""
        if public is not None:
            self._thread = LoopThread("tiles")
            try:
                address = await self._thread.run(self._server.start(public, tls))
            except BaseException:
                await self._thread.stop()
                raise
        if self._submitter is not None:
            self._submitter.start()
        return address

    def use(self, context: ssl.SSLContext) -> None:
        """Another certificate of the tiles from now on."""
        self._server.use(context)

    async def stop(self) -> None:
        if self._submitter is not None:
            await self._submitter.stop()
        if self._thread is not None:
            await self._thread.run(self._server.stop())
            await self._thread.stop()
        self._site.close()
