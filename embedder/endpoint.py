# SPDX-License-Identifier: GPL-3.0-or-later
"""One JSON request to somebody else's server: bounded in time and bytes, repeated where that can help.

Redirects are not followed, since they would carry key and texts to another host, and no proxy of the environment is
used.  Errors name neither the key nor what was sent.
"""

from __future__ import annotations

import http.client
import math
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ragseal.kernel.errors import ConfigurationError, EncodingError, TransportError
from ragseal.kernel.printable import printable
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.network import network_cause
from ragseal.runtime.edges.tls_failures import BY_SYSTEM, shown_by, tls_cause

PAUSE = 0.5  #: seconds before the first repetition; doubled before each later one
LONGEST_PAUSE = 20.0  #: also of what a server asks for (Retry-After)
AGAIN = (408, 429, 500, 502, 503, 504)
REFUSED_TEXTS = (400, 413, 422)
LOOK = 3.0  #: seconds for a look at a certificate that was refused
EXCERPT = 300  #: bytes of a refusal that are shown


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often."""

    seconds: float  #: of one attempt, from the connection to the last byte
    attempts: int
    quotes: bool  #: whether errors may quote the server: not where they reach somebody else than who asked
    total: float | None = None  #: seconds of all attempts and the pauses between them; None: no limit of their own


@dataclass(frozen=True, slots=True)
class Pauses:
    """How the pause between two attempts is waited for."""

    sleep: Callable[[float], None] = time.sleep
    #: In [0, 1), anew for each pause, which becomes longer by that share of what it would be without a word of the
    #: server, so that many callers who were turned away together do not come back together.
    spread: Callable[[], float] = lambda: 0.0


AS_IT_IS = Pauses()


class Endpoint:
    """A base URL with its key.  May be called from many threads."""

    def __init__(
        self,
        base: str,
        key: str | None,
        *,
        pauses: Pauses = AS_IT_IS,
        tls: ssl.SSLContext | None = None,
        kind: str = "embedding",
    ) -> None:
        """
        Args:
            base: https, or http on this machine; what comes behind it is joined with a slash.
            key: sent as a bearer token; None sends none.
            tls: whom to trust; None is the system's authorities.
            kind: what the server is asked for, as errors call its URL and key.

        Raises:
            ConfigurationError: a URL or key that cannot be used.
        """
        try:
            parts = urllib.parse.urlsplit(base)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise ConfigurationError(f"the {kind} URL is malformed") from None
        if parts.scheme not in ("https", "http") or not host or parts.query or parts.fragment or not base.isascii():
            raise ConfigurationError(f"the {kind} URL is of the form https://HOST[:PORT]/PATH")
        if "@" in parts.netloc:
            raise ConfigurationError(f"the {kind} URL holds a name or password: keys are not part of it")
        if any(not "!" <= ch <= "~" for ch in base):
            raise ConfigurationError(f"the {kind} URL holds a space or control character")
        try:
            at = Address.of_url(host, (443 if parts.scheme == "https" else 80) if port is None else port)
        except ConfigurationError as error:
            raise ConfigurationError(f"the {kind} URL: {error}") from None
        if parts.scheme == "http" and not at.loopback:
            raise ConfigurationError(f"texts and key would travel to {host} unencrypted: use https")
        if key is not None and not (key and all("!" <= ch <= "~" for ch in key)):
            raise ConfigurationError(f"the {kind} key is empty, or holds a character that no key has")
        self.host = host if port is None else f"{host}:{port}"
        self._place = (at.host, at.port)
        self._path = parts.path.rstrip("/")
        self._key = key
        self._sleep = pauses.sleep
        self._spread = pauses.spread
        self._connect: Callable[[float], http.client.HTTPConnection]
        if parts.scheme == "https":
            context = tls or ssl.create_default_context()
            self._connect = lambda seconds: _TlsConnection(*self._place, seconds, context)
        else:
            self._connect = lambda seconds: http.client.HTTPConnection(*self._place, timeout=seconds)

    def __repr__(self) -> str:
        return f"Endpoint({self.host!r})"

    def post(self, path: str, body: bytes, limit: int, patience: Patience) -> bytes:
        """What the server answers to a JSON body.

        Args:
            limit: most bytes of an answer.

        Raises:
            TransportError: it cannot be reached, is busy or answers with too much, however often it was asked.
            EncodingError: it does not take these texts.
            ConfigurationError: it does not take the key, has no such path, or wants to send us elsewhere.
        """
        pause, attempt = PAUSE, 1
        end = math.inf if patience.total is None else time.monotonic() + patience.total
        while True:
            try:
                return self._once(path, body, limit, patience, min(patience.seconds, end - time.monotonic()))
            except _AgainError as error:
                wait = min(max(pause, error.wait) + pause * self._spread(), LONGEST_PAUSE)
                if attempt >= patience.attempts or time.monotonic() + wait >= end:
                    often = f", {attempt} times" if attempt > 1 else ""
                    raise TransportError(f"{self.host} {error.why}{often}: ask again later") from None
                self._sleep(wait)
                pause, attempt = 2 * pause, attempt + 1

    def _once(self, path: str, body: bytes, limit: int, patience: Patience, seconds: float) -> bytes:
        if seconds <= 0:
            raise _AgainError("was not asked in time")
        connection = self._connect(seconds)
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            with _ended_after(connection, seconds) as connected:
                connection.connect()
                connected.append(connection.sock)  # of which the connection forgets as soon as an answer begins
                connection.request("POST", f"{self._path}/{path}", body, headers)
                response = connection.getresponse()
                data = response.read(limit + 1)
                cut = bool(response.length)
        except ssl.SSLCertVerificationError as error:
            shown = shown_by(self._place, self._place[0], LOOK)
            cause = tls_cause(error, self._place[0], shown, own=False, trust=BY_SYSTEM)
            raise ConfigurationError(f"{self.host} cannot be asked: {cause}") from None
        except TimeoutError:
            raise _AgainError(f"did not answer within {seconds:g} s") from None
        except ssl.SSLError as error:
            raise _AgainError(f"cannot be reached ({tls_cause(error, self._place[0], None, own=False)})") from None
        except OSError as error:
            raise _AgainError(f"cannot be reached ({network_cause(error, *self._place)})") from None
        except http.client.HTTPException as error:
            raise _AgainError(f"cannot be reached (it answers with no HTTP: {type(error).__name__})") from None
        finally:
            connection.close()
        if response.status == 200:
            if len(data) > limit:
                raise TransportError(f"{self.host} answers with more than {limit} bytes")
            if cut:
                raise _AgainError("broke off in its answer")
            return data
        raise self._refusal(response, data, patience)

    def _refusal(self, response: http.client.HTTPResponse, data: bytes, patience: Patience) -> Exception:
        status = response.status
        if status in AGAIN:
            return _AgainError(f"answers with status {status}", _seconds(response.getheader("Retry-After")))
        quoted = ""
        if patience.quotes and data:
            said = data[:EXCERPT].decode("utf-8", "replace")
            quoted = f": {printable(said.replace(self._key, '...') if self._key else said)}"
        if 300 <= status < 400:
            return ConfigurationError(f"{self.host} redirects: redirects are not followed, name the final URL")
        if status in REFUSED_TEXTS:
            return EncodingError(f"{self.host} does not take these texts (status {status}){quoted}")
        if status in (401, 403):
            return ConfigurationError(f"{self.host} does not take the key (status {status}){quoted}")
        return ConfigurationError(f"{self.host} answers with status {status}{quoted}")


class _TlsConnection(http.client.HTTPConnection):
    """As HTTPSConnection, but for a socket that can be hung up during the handshake too."""

    default_port = 443

    def __init__(self, host: str, port: int | None, seconds: float, context: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=seconds)
        self._context = context

    def connect(self) -> None:
        super().connect()
        wrapped = self._context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
        self.sock = wrapped
        wrapped.do_handshake()


class _AgainError(Exception):
    """It may work the next time."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.why = why
        self.wait = wait


@contextmanager
def _ended_after(connection: http.client.HTTPConnection, seconds: float) -> Iterator[list[socket.socket]]:
    """Hang up after so long.  A socket's own time-out begins anew with every byte that a server lets through."""
    late = threading.Event()
    connected: list[socket.socket] = []

    def end() -> None:
        late.set()
        for one in connected or [connection.sock]:
            if isinstance(one, socket.socket):
                with suppress(OSError):
                    socket.socket.shutdown(one, socket.SHUT_RDWR)  # below TLS: another thread is reading there

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield connected
    except (OSError, http.client.HTTPException):
        if late.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError


def _seconds(header: str | None) -> float:
    """Of Retry-After; a date, or anything else, is no number of seconds."""
    text = (header or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0.0
