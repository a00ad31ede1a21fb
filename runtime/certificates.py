# SPDX-License-Identifier: GPL-3.0-or-later
"""A server's certificate files while it serves: read anew when they change, so that a renewal needs no restart.

A new connection gets the newest certificate that was in order when it was read; connections that are there keep theirs.
Files that do not do change nothing: the server goes on with what it has, and says so.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.http_server import server_context
from ragseal.runtime.stopping import on_hangup
from ragseal.runtime.tls import ServerTls

LOOK_SECONDS = 10.0  #: between two looks at the files

Stamp = tuple[tuple[int, int, int], ...]  #: of each file: time of change, size, inode

#: gRPC's core asks for new certificates through a bare pointer to these, for as long as a connection of a server that
#: nobody has any more may be at its handshake: a process has one or two, and never lets go of them.
_KEPT: list[grpc.ServerCredentials] = []

_log = logging.getLogger("ragseal.tls")


class Certificates:
    """The files of one server.  :meth:`look` belongs to one thread; gRPC asks for the newest from its own."""

    def __init__(self, tls: ServerTls) -> None:
        """Raises ConfigurationError: files that do not do."""
        self._tls = tls
        self._stamp = self._now()
        self._newest = tls.configuration()
        self._given = self._newest  #: what gRPC fetched last
        self._followers: list[Callable[[ssl.SSLContext], None]] = []
        self._bad: Stamp | None = None  #: files that did not do at the last look
        self._told: Stamp | None = None  #: of which that was said

    def credentials(self) -> grpc.ServerCredentials | None:
        """For :func:`ragseal.runtime.rpc.bind`, once; None for a server in the clear."""
        if self._newest is None:
            return None
        made = grpc.dynamic_ssl_server_credentials(self._newest, self._fetch, self._tls.clients is not None)
        _KEPT.append(made)
        return made

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        newest = self._newest  # read once: look() may put another one there at any moment, for the next call
        if newest is self._given:
            return None
        self._given = newest
        return newest

    def follow(self, use: Callable[[ssl.SSLContext], None]) -> None:
        """Hand every new certificate to an HTTP server as well."""
        self._followers.append(use)

    def look(self, at_once: bool = False) -> bool:
        """Read the files if they have changed; whether they were taken.

        Args:
            at_once: say of bad files that they are; otherwise only at the second look, since certificate and key are
                two files that are written one after the other.
        """
        stamp = self._now()
        if self._newest is None or stamp == self._stamp:
            return False
        try:
            newest = self._tls.configuration()
            contexts = [(use, server_context(self._tls)) for use in self._followers]
        except ConfigurationError as error:
            if stamp != self._told and (at_once or stamp == self._bad):
                self._told = stamp
                _log.error("THE NEW CERTIFICATE IS NOT TAKEN: %s; the server goes on with the old one", error)
            self._bad = stamp
            return False
        self._stamp, self._newest = stamp, newest
        for use, context in contexts:
            if context is not None:
                use(context)
        _log.info("new connections get the new certificate of %s", self._tls.certificate)
        return True

    async def watch(self) -> None:
        """Look now and then, until cancelled."""
        while self._newest is not None:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def _now(self) -> Stamp:
        found = []
        for path in (self._tls.certificate, self._tls.key, self._tls.clients):
            try:
                status = None if path is None else path.stat()
            except OSError:
                status = None
            found.append((0, 0, 0) if status is None else (status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(found)


@asynccontextmanager
async def renewing(certificates: Certificates) -> AsyncIterator[None]:
    """The files are looked at now and then, and at each SIGHUP, for as long as the block runs."""
    on_hangup(lambda: certificates.look(at_once=True))
    watching = asyncio.create_task(certificates.watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
