# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a gRPC peer was not reached: every stage of a connection is tried once more, and the first that fails is named.

Name, route and port, proxy, TLS with the same files, and whether what answers is gRPC at all.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import time
from dataclasses import dataclass

from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.cause import Cause
from ragseal.runtime.edges.filesystem import cause_of
from ragseal.runtime.edges.network import name_cause, network_cause
from ragseal.runtime.edges.proxy import proxy_for
from ragseal.runtime.edges.threads import in_thread
from ragseal.runtime.edges.tls_failures import closed_after_handshake, shown_by, tls_cause
from ragseal.runtime.names import NAMES
from ragseal.runtime.tls import ClientTls

SECONDS = 3.0  #: for one stage
LONGEST = 10.0  #: seconds for all of them: a peer may let its bytes through one by one
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")  # and empty settings
_SETTINGS = 4  #: type of the frame that a server of HTTP/2 sends first
_CERTIFICATE_REQUEST = 13  #: type of a message of TLS
_FRAME = 9  #: bytes of a frame's head


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a peer showed."""

    cause: Cause | None  #: why it cannot be reached; None where every stage went well
    mismatch: bool = False  #: it is there, and no repetition helps: TLS does not agree, or it is another program
    told: str = ""  #: of one that can be reached, for people
    shook: bool = False  #: the TLS of Python agreed with it, and it went away without an answer
    behind_proxy: bool = False  #: a proxy of the environment is between, and only that one was looked at


async def look_at(address: Address, tls: ClientTls | None) -> Seen:
    """Try to reach a peer, in LONGEST seconds at most.

    Args:
        tls: the files with which it is called; None: it is called in the clear.
    """
    try:
        return await asyncio.wait_for(_look(address, tls), LONGEST)
    except TimeoutError:
        return Seen(Cause(f"{address} answers too slowly to be looked at", "see its log, and the network"))


async def _look(address: Address, tls: ClientTls | None) -> Seen:
    if address.path:
        return await in_thread(lambda: _socket(address, tls))
    proxy = proxy_for(address, tls is not None)
    if proxy is not None:
        place = proxy.place
        if place is None:
            return Seen(Cause(f"it is called through {proxy}, which is no URL", "set that variable right, or unset it"))
        found = await _connected(*place)
        if isinstance(found, Cause):
            return Seen(Cause(f"it is called through {proxy}, and {found.said}", found.way))
        told = f"called through {proxy}, which takes connections; what lies behind it was not looked at"
        return Seen(None, told=told, behind_proxy=True)
    reached = await _connected(address.host, address.port)
    if isinstance(reached, Cause):
        return Seen(reached)
    return await in_thread(lambda: _speaks(address, reached, tls))


# --- the stages ------------------------------------------------------------------------------------------------------


async def _connected(host: str, port: int) -> str | Cause:
    """The IP address that took a connection, or why none did."""
    try:
        found = await asyncio.wait_for(NAMES.addresses(host, port), SECONDS)
    except socket.gaierror as error:
        return name_cause(error, host)
    except TimeoutError:
        return Cause(f"the name service gives no answer for {host} within {SECONDS:g} s",
                     "check /etc/resolv.conf and the network")  # fmt: skip
    except (OSError, ValueError) as error:
        return Cause(f"looking up {host} failed ({error})", "check its spelling")
    causes: list[Cause] = []
    end = time.monotonic() + SECONDS
    for one in found:
        left = max(0.1, end - time.monotonic())
        trouble = await in_thread(lambda one=one, left=left: _tried(one, port, left))  # type: ignore[misc]
        if trouble is None:
            return one
        causes.append(trouble)
    return causes[0] if causes else Cause(f"{host} has no address", "check its spelling")


def _tried(host: str, port: int, seconds: float) -> Cause | None:
    try:
        socket.create_connection((host, port), seconds).close()
    except OSError as error:
        return network_cause(error, host, port, seconds)
    return None


def _socket(address: Address, tls: ClientTls | None) -> Seen:
    try:
        if not stat.S_ISSOCK(os.stat(address.path).st_mode):
            said = Cause(f"{address.path} is no socket", "name the one that the program says it listens on")
            return Seen(said, mismatch=True)
        with _connection(address) as connection:
            if tls is not None:
                return Seen(None, told="takes connections; with TLS it was not looked at")
            connection.sendall(_PREFACE)
            answer = _first(connection)
    except ConnectionRefusedError:
        return Seen(Cause(f"nobody listens on {address.path} any more", "start the program that made it"))
    except (TimeoutError, ConnectionError):
        answer = b""
    except FileNotFoundError as error:
        where = cause_of(error, address.path).said.removeprefix(error.strerror or "")
        return Seen(Cause(f"there is no socket {address.path}{where}", "start the program that makes it"))
    except OSError as error:
        return Seen(cause_of(error, address.path))
    return _of_clear(answer, address)


def _connection(address: Address) -> socket.socket:
    """To a Unix socket.  Raises OSError."""
    tried = socket.socket(socket.AF_UNIX)
    try:
        tried.settimeout(SECONDS)
        tried.connect(address.path)
    except BaseException:
        tried.close()
        raise
    return tried


def _speaks(address: Address, place: str, tls: ClientTls | None) -> Seen:
    """What the program behind an open port speaks."""
    at = (place, address.port)
    try:
        return _in_the_clear(at, address) if tls is None else _encrypted(at, address, tls)
    except ssl.SSLError as error:
        shown = shown_by(at, address.host, SECONDS)
        own = tls is not None and tls.certificate is not None
        return Seen(tls_cause(error, address.host, shown, own=own), mismatch=True)
    except TimeoutError:  # the port took a connection before
        return Seen(_silent(address, " to one with TLS"))
    except OSError as error:
        return Seen(network_cause(error, place, address.port, SECONDS))


def _in_the_clear(at: tuple[str, int], address: Address) -> Seen:
    answer = b""
    try:
        with socket.create_connection(at, SECONDS) as connection:
            connection.sendall(_PREFACE)
            answer = _first(connection)
    except (ConnectionError, TimeoutError):
        pass  # what is there may not like what it got: TLS is tried next
    speaks = _is_grpc(answer) or answer.startswith(b"HTTP/")
    if not speaks and (answer[:1] == b"\x15" or shown_by(at, address.host, SECONDS) is not None):  # an alert of TLS
        return Seen(
            Cause("it speaks TLS, and was called in the clear", "say whom to trust with --ca FILE"), mismatch=True
        )
    return _of_clear(answer, address)


def _of_clear(answer: bytes, address: Address) -> Seen:
    """What the first bytes of an answer in the clear show."""
    if _is_grpc(answer):
        return Seen(None, told="answers in the clear")
    if not answer:
        return Seen(_silent(address, ""))
    way = "give the address of gRPC" if address.path else "give the port of gRPC"
    if answer.startswith(b"HTTP/"):
        return Seen(Cause("what answers there speaks HTTP and not gRPC", way), mismatch=True)
    return Seen(Cause("what answers there does not speak gRPC", way), mismatch=True)


def _silent(address: Address, when: str) -> Cause:
    where = address.path or f"port {address.port}"
    return Cause(f"what listens on {where} takes connections and says nothing{when}",
                 "see whether it is the program that you mean, and its log")  # fmt: skip


def _encrypted(at: tuple[str, int], address: Address, tls: ClientTls) -> Seen:
    context = ssl.create_default_context(cafile=None if tls.authority is None else str(tls.authority))
    context.set_alpn_protocols(["h2"])
    if tls.certificate is not None:
        context.load_cert_chain(tls.certificate, tls.key)
    asked = False  #: whether the server wanted a certificate, which Python tells in no other way

    def watch(connection: object, direction: str, version: object, kind: object, message: int, data: bytes) -> None:
        nonlocal asked
        asked = asked or (direction == "read" and message == _CERTIFICATE_REQUEST)

    context._msg_callback = watch  # type: ignore[attr-defined]
    with (
        socket.create_connection(at, SECONDS) as raw,
        context.wrap_socket(raw, server_hostname=address.host) as connection,
    ):
        connection.settimeout(SECONDS)
        connection.sendall(_PREFACE)
        answer = _first(connection)  # an alert about this side's certificate comes after the handshake
        if not answer:
            cause = closed_after_handshake(asked, tls.certificate is not None)
            return Seen(cause, mismatch=asked, shook=not asked)
        if not _is_grpc(answer):
            return Seen(Cause("what answers there speaks TLS and not gRPC", "give the port of gRPC"), mismatch=True)
        return Seen(None, told=f"{connection.version()}, with a certificate that is trusted here")


def _first(connection: socket.socket) -> bytes:
    """The head of the first frame, or what else comes; less where the peer closes."""
    answer = b""
    while len(answer) < _FRAME:
        data = connection.recv(_FRAME - len(answer))
        if not data:
            break
        answer += data
    return answer


def _is_grpc(answer: bytes) -> bool:
    return len(answer) == _FRAME and answer[3] == _SETTINGS and not any(answer[5:9])
