# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway's listener (uvicorn), and what callers may take of it before they have shown the key.

uvicorn waits for ever for a request's head and for an answer to be read, and takes any number of connections.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragseal.runtime.edges.address import is_loopback
from ragseal.runtime.peers import machine_of
from ragseal.runtime.tls import ServerTls

CONNECTIONS = 256
CONNECTIONS_OF_ONE = 64  #: of one machine beyond this one
HEAD_SECONDS = 10.0  #: from a connection's or a request's first byte until its head is there
UNREAD_SECONDS = 30.0  #: that an answer may wait to be read
IDLE_SECONDS = 30  #: between two requests

log = logging.getLogger("ragseal.gateway")


class Patient(H11Protocol):
    """One connection, of which nothing may take for ever but the search itself."""

    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    machine = ""

    def connection_made(self, transport: Any) -> None:
        """Taken, unless there are too many of all or of its machine."""
        super().connection_made(transport)
        host, port = self.client or ("localhost", 0)
        if not is_loopback(host):
            self.machine = machine_of(f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}")
        others = [one.machine for one in self.connections if isinstance(one, Patient)]
        if len(others) > CONNECTIONS or (self.machine and others.count(self.machine) > CONNECTIONS_OF_ONE):
            transport.abort()
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """It ends, and its clocks with it."""
        for clock in (self._late, self._unread):
            if clock is not None:
                clock.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Whatever came, a head that is still not there has its time."""
        super().data_received(data)
        if self._late is None and self._between:
            self._wait()

    @property
    def _between(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._late = self.loop.call_later(HEAD_SECONDS, self._over, self.cycle)

    def _over(self, cycle: Any) -> None:
        """The time is up for what should have come after ``cycle``."""
        self._late = None
        if self.cycle is cycle and self._between:
            self.transport.abort()
        elif self._between and self.timeout_keep_alive_task is None:  # a later head is under way
            self._wait()

    def pause_writing(self) -> None:
        """Answers pile up."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """They were read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()


class Renewable(uvicorn.Server):
    """One whose new connections may get another certificate; those that are there keep theirs."""

    def _protocol(self) -> Patient:
        return Patient(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def renew(self, context: ssl.SSLContext) -> None:
        """Another certificate from now on.  The sockets stay, and with them who waits to be taken."""
        while not self.started:
            await asyncio.sleep(0.1)
        loop, former, made = asyncio.get_running_loop(), self.servers, list[asyncio.Server]()
        for listener in (one for server in former for one in server.sockets):
            twin = None
            try:
                twin = listener.dup()
                made.append(await loop.create_server(self._protocol, sock=twin, ssl=context))
            except OSError as error:  # no descriptor is free
                log.error("THE NEW CERTIFICATE IS NOT TAKEN: %s", error)
                if twin is not None:
                    twin.close()
                former, made = made, former
                break
        self.servers = made
        for server in former:
            server.close()


def make_server(app: ASGIApp, own: ServerTls) -> Renewable:
    """What serves the application on sockets that it is given; ``own``: its TLS files, if any."""
    return Renewable(
        uvicorn.Config(
            app,
            http=Patient,
            ws="none",
            log_level="error",  # what strangers send fills no log
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            ssl_certfile=own.certificate,
            ssl_keyfile=own.key,
            ssl_ca_certs=None if own.clients is None else str(own.clients),
            ssl_cert_reqs=0 if own.clients is None else 2,  # ssl.CERT_NONE, ssl.CERT_REQUIRED
        )
    )
