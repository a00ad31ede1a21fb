# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator's own machines ask a serving provider over HTTP: numbers, whether it lives, whether it is ready.

A port of its own, which accounts and auditors need not reach.  It runs in the loop that answers: where that loop hangs,
``/livez`` does not answer either.  On loopback it answers to no name but this machine's, so no web page reads it.
"""

from __future__ import annotations

import ssl
from dataclasses import replace
from http import HTTPStatus

from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.prover.serving.metrics import Metrics, prometheus_client
from ragseal.prover.serving.readiness import Readiness
from ragseal.runtime.edges.address import Address
from ragseal.runtime.hosts import refusal
from ragseal.runtime.http_server import DEFAULT_LIMITS, HttpServer, Request, Response
from ragseal.runtime.tls import ServerTls

LIMITS = replace(DEFAULT_LIMITS, connections=64, connections_of_one=32)


class OperatorSite:
    """``/metrics``, ``/livez``, ``/readyz`` and ``/readyz/answers``."""

    def __init__(self, metrics: Metrics, readiness: Readiness, book: CosignatureBook) -> None:
        """Raises ConfigurationError: the package that writes the numbers is not installed."""
        prometheus_client()
        self._metrics, self._readiness, self._book = metrics, readiness, book
        self._server = HttpServer(self.handle, LIMITS)
        self._of_this_machine = False  #: listens on loopback

    async def start(self, address: str, tls: ServerTls) -> str:
        """Serve at ``host:port``; gives the address that was taken.  Raises as :meth:`HttpServer.start` does."""
        self._of_this_machine = Address.parse(address, listening=True, unix=False).loopback
        return await self._server.start(address, tls)

    def use(self, context: ssl.SSLContext) -> None:
        """Another certificate from now on."""
        self._server.use(context)

    async def stop(self) -> None:
        await self._server.stop()

    async def handle(self, request: Request) -> Response:
        """One request."""
        if self._of_this_machine and (refused := refusal(request)) is not None:
            return refused
        if request.method not in ("GET", "HEAD"):
            return Response(HTTPStatus.METHOD_NOT_ALLOWED, b"read only\n", headers={"Allow": "GET, HEAD"})
        readiness = self._readiness
        if request.path == "/livez":
            return Response(HTTPStatus.OK, b"alive\n")
        if request.path == "/readyz":
            return _said(readiness.trouble())
        if request.path == "/readyz/answers":
            return _said(readiness.trouble() or readiness.no_answers())
        if request.path == "/metrics":
            ready = not readiness.trouble()
            answers = ready and not readiness.no_answers()
            body, kind = await self._metrics.exposition(self._book, ready, answers)
            return Response(HTTPStatus.OK, body, kind)
        return Response(HTTPStatus.NOT_FOUND, b"there are /metrics, /livez, /readyz and /readyz/answers\n")


def _said(trouble: str) -> Response:
    if trouble:
        return Response(HTTPStatus.SERVICE_UNAVAILABLE, f"{trouble}\n".encode())
    return Response(HTTPStatus.OK, b"ready\n")
