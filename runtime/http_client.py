# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP request to somebody who is not trusted: bounded in seconds and in bytes, whatever comes back."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.network import network_cause
from ragseal.runtime.edges.threads import in_thread
from ragseal.runtime.edges.tls_failures import BY_SYSTEM, shown_by, tls_cause
from ragseal.runtime.names import NAMES

MAX_URL = 2000
LOOK = 3.0  #: seconds for a look at a certificate that was refused


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Place:
    """An ``http`` or ``https`` URL taken apart."""

    secure: bool
    host: str
    port: int
    path: str  #: without a slash at its end
    authority: str  #: as it stands in the URL

    @classmethod
    def parse(cls, url: str) -> Place:
        """Raises ConfigurationError: no such URL, or one with user, query or fragment."""
        try:
            found = urlsplit(url)
            host, port = found.hostname, found.port
        except ValueError:
            host, port = None, None
        plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= MAX_URL
        if not plain or not host or found.scheme not in ("http", "https") or "@" in found.netloc or "?" in url:
            raise ConfigurationError(f"{url[:100]!r} is not a URL of a witness: expected https://host/path")
        if found.fragment:
            raise ConfigurationError(f"{url[:100]!r} names a fragment: leave out what follows the #")
        secure = found.scheme == "https"
        at = Address.of_url(host, (443 if secure else 80) if port is None else port)
        return cls(secure, at.host, at.port, found.path.rstrip("/"), found.netloc)


async def post(place: Place, path: str, body: bytes, *, seconds: float, most: int) -> Answer:
    """POST ``body`` to a path below a place, on a connection of its own; redirections are not followed.

    Args:
        seconds: for all of it, from the name's look-up to the answer's last byte.
        most: bytes of the answer, its head included, of which no more is ever held.

    Raises:
        TransportError: no answer in time, one that is too long, or none that is HTTP.
    """
    try:
        async with asyncio.timeout(seconds):
            raw = await _exchange(place, f"{place.path}{path}", body, most)
    except TimeoutError:
        raise TransportError(f"{place.authority} gives no answer within {seconds:g} s") from None
    except ssl.SSLError as error:
        at, shown = (place.host, place.port), None
        with contextlib.suppress(TimeoutError):
            shown = await asyncio.wait_for(in_thread(lambda: shown_by(at, place.host, LOOK)), LOOK)
        said = tls_cause(error, place.host, shown, own=False, trust=BY_SYSTEM)
        raise TransportError(f"{place.authority} cannot be reached: {said}") from None
    except OSError as error:
        cause = network_cause(error, place.host, place.port)
        raise TransportError(f"{place.authority} cannot be reached: {cause}") from None
    except ValueError:
        raise TransportError(f"{place.authority} cannot be reached: no name service takes that name") from None
    try:
        found = http.client.HTTPResponse(_Held(raw))  # type: ignore[arg-type]
        found.begin()
        headers = {name.lower(): value for name, value in found.getheaders()}
        return Answer(found.status, headers, found.read())
    except (http.client.HTTPException, ValueError, OSError) as error:
        raise TransportError(f"{place.authority} answers with something other than HTTP ({error!r:.100})") from None


async def _exchange(place: Place, path: str, body: bytes, most: int) -> bytes:
    reader, writer = await _connect(place)
    try:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {place.authority}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nUser-Agent: ragseal\r\nAccept-Encoding: identity\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode("ascii") + body)
        await writer.drain()
        raw = bytearray()
        while True:
            data = await reader.read(4096)
            if not data:
                return bytes(raw)
            raw += data
            if len(raw) > most:
                raise TransportError(f"{place.authority} answers with more than {most} bytes")
            if _complete(raw):
                return bytes(raw)
    finally:
        writer.transport.abort()


async def _connect(place: Place) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first address that takes one; OSError of the last one if none does."""
    context = ssl.create_default_context() if place.secure else None
    name = place.host if place.secure else None
    trouble = OSError(f"{place.host} has no address")
    for address in await NAMES.addresses(place.host, place.port):
        try:
            return await asyncio.open_connection(address, place.port, ssl=context, server_hostname=name, limit=1 << 16)
        except OSError as error:
            trouble = error
    raise trouble


def _complete(raw: bytearray) -> bool:
    """Whether a length that the head names has come: a peer need not close the connection."""
    at = raw.find(b"\r\n\r\n")
    if at < 0:
        return False
    for line in bytes(raw[:at]).lower().split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip() == b"content-length" and value.strip().isdigit() and len(value) < 20:
            return len(raw) >= at + 4 + int(value)
    return False


class _Held:
    """An answer that is there already, where the library expects a socket."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._raw)
