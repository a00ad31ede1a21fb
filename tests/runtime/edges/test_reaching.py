# SPDX-License-Identifier: GPL-3.0-or-later
"""Peers that are not reached: real sockets, real servers, real bad certificates; the sentence names what was seen."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey

from ragseal.kernel.errors import AuditError, MismatchError, TransportError
from ragseal.ledger.remote import RemoteLedger
from ragseal.runtime import health, rpc, tls
from ragseal.runtime.edges import reaching
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.network import network_cause
from ragseal.runtime.edges.reaching import look_at
from ragseal.runtime.edges.tls_failures import tls_cause
from ragseal.runtime.tls import ClientTls
from tests.runtime.certificates import Authority


async def said(address: str, files: ClientTls) -> AuditError:
    """The error of a call."""
    channel = rpc.dial(address, files)
    try:
        with pytest.raises(TransportError) as caught:
            await RemoteLedger(channel, address, timeout=20).checkpoint()
    finally:
        await channel.close()
    return caught.value


@contextlib.asynccontextmanager
async def serving(credentials: grpc.ServerCredentials | None) -> AsyncIterator[str]:
    server = rpc.new_server()
    health.Health("x").mount(server)
    port = rpc.bind(server, "127.0.0.1:0", credentials)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@contextlib.contextmanager
def accepting(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does this with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    answer(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(20)


# --- no connection


@pytest.mark.asyncio
async def test_a_port_on_which_nothing_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        error = await said(f"127.0.0.1:{port}", ClientTls())
    assert f"cannot be reached: nothing listens on port {port} of 127.0.0.1 (Connection refused)" in str(error)
    assert not isinstance(error, MismatchError)


@pytest.mark.asyncio
async def test_a_name_that_nobody_knows() -> None:
    text = str(await said("no-such-host.invalid:7800", ClientTls(plain=True)))
    assert "no-such-host.invalid" in text
    assert "name service" in text or "looking up" in text
    assert "listens" not in text


@pytest.mark.asyncio
async def test_a_socket_that_is_not_there_or_that_nobody_has(tmp_path: Path) -> None:
    text = str(await said(f"unix:{tmp_path / 'gone'}", ClientTls()))
    assert f"there is no socket {tmp_path / 'gone'}" in text
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "left"))
    left.close()
    assert f"nobody listens on {tmp_path / 'left'} any more" in str(
        await said(f"unix:{tmp_path / 'left'}", ClientTls())
    )


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ECONNREFUSED, "nothing listens on port 7 of 192.0.2.1"),
        (errno.ETIMEDOUT, "192.0.2.1 gives no answer on port 7"),
        (errno.EHOSTUNREACH, "no way leads to 192.0.2.1"),
        (errno.ENETUNREACH, "no route to the network of 192.0.2.1"),
        (errno.ENETDOWN, "this machine's network is down"),
        (errno.EHOSTDOWN, "192.0.2.1 is down"),
        (errno.ECONNRESET, "took the connection on port 7 and broke it off"),
        (errno.ECONNABORTED, "was broken off here"),
        (errno.EPIPE, "closed the connection"),
        (errno.EADDRNOTAVAIL, "no address or free port from which to call"),
        (errno.EAFNOSUPPORT, "does not speak the kind of address"),
        (errno.EACCES, "this machine's rules forbid connections"),
        (errno.EPERM, "this machine's rules forbid connections"),
        (errno.EINVAL, "cannot be called from here"),
        (errno.EMFILE, "this program may open"),
        (errno.ENFILE, "the whole system holds"),
    ],
)
def test_each_errno_of_a_connection(number: int, words: str) -> None:
    cause = network_cause(OSError(number, os.strerror(number)), "192.0.2.1", 7)
    assert words in cause.said
    assert os.strerror(number) in cause.said
    assert cause.way or number in (errno.EMFILE, errno.ENFILE)


def test_failures_of_a_look_up() -> None:
    def of(number: int) -> str:
        return str(network_cause(socket.gaierror(number, "text"), "rag.example", 7))

    assert "knows no address of rag.example: check its spelling" in of(socket.EAI_NONAME)
    assert "gives no answer for rag.example: check /etc/resolv.conf" in of(socket.EAI_AGAIN)
    assert "looking up rag.example failed (text)" in of(socket.EAI_FAIL)
    assert "192.0.2.1 gives no answer on port 7 within 3 s" in str(network_cause(TimeoutError(), "192.0.2.1", 7, 3.0))


# --- a connection, and no gRPC behind it


@pytest.mark.asyncio
async def test_a_server_of_http_is_another_program() -> None:
    def http(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with accepting(http) as at:
        error = await said(at, ClientTls())
    assert isinstance(error, MismatchError)
    assert "is another program: what answers there speaks HTTP and not gRPC" in str(error)


@pytest.mark.asyncio
async def test_a_program_that_speaks_first_and_something_else() -> None:
    with accepting(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")) as at:
        error = await said(at, ClientTls())
    assert isinstance(error, MismatchError)
    assert "does not speak gRPC" in str(error)


@pytest.mark.asyncio
async def test_a_program_that_closes_every_connection() -> None:
    with accepting(lambda connection: None) as at:
        text = str(await said(at, ClientTls()))
    assert "says nothing" in text or "broke it off" in text
    assert "nothing listens" not in text


# --- TLS


@pytest.mark.asyncio
async def test_tls_and_a_caller_in_the_clear(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    async with serving(tls.server_credentials(*ours.certificate("server"))) as at:
        error = await said(at, ClientTls())
        assert isinstance(error, MismatchError)
        assert "do not agree on TLS: it speaks TLS, and was called in the clear: say whom to trust with --ca" in str(
            error
        )


@pytest.mark.asyncio
async def test_a_server_in_the_clear_and_a_caller_with_tls(tmp_path: Path) -> None:
    async with serving(None) as at:
        error = await said(at, ClientTls(Authority(tmp_path, "ours").path))
        assert isinstance(error, MismatchError)
        assert "it answers in the clear, and was called with TLS" in str(error)


@pytest.mark.asyncio
async def test_a_unix_socket_is_looked_at_as_a_port_is(tmp_path: Path) -> None:
    """A file is no socket that somebody left, and taking connections is not speaking gRPC."""
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "pipe"):
        seen = await look_at(Address.parse(f"unix:{tmp_path / name}"), None)
        assert f"{tmp_path / name} is no socket" in str(seen.cause)
    seen = await look_at(Address.parse(f"unix:{tmp_path / 'gone'}"), None)
    assert str(seen.cause).startswith(f"there is no socket {tmp_path / 'gone'}: start")

    def http(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "http"))
        listener.listen()
        thread = threading.Thread(target=lambda: http(listener.accept()[0]), daemon=True)
        thread.start()
        seen = await look_at(Address.parse(f"unix:{tmp_path / 'http'}"), None)
        thread.join(20)
    assert seen.mismatch
    assert "speaks HTTP and not gRPC" in str(seen.cause)
    server = rpc.new_server()
    rpc.bind(server, f"unix:{tmp_path / 's'}")
    await server.start()
    seen = await look_at(Address.parse(f"unix:{tmp_path / 's'}"), None)
    await server.stop(0)
    assert (seen.cause, seen.told) == (None, "answers in the clear")


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_port_that_is_silent_to_tls_is_no_firewall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "SECONDS", 0.5)
    ours = Authority(tmp_path, "ours")
    with accepting(lambda connection: time.sleep(2)) as address:
        seen = await look_at(Address.parse(address), ClientTls(ours.path))
    assert "takes connections and says nothing to one with TLS" in str(seen.cause)


@pytest.mark.asyncio
async def test_a_certificate_of_another_authority(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    async with serving(tls.server_credentials(*theirs.certificate("server"))) as at:
        error = await said(at, ClientTls(ours.path))
    assert isinstance(error, MismatchError)
    assert "(issued by CN=theirs) is of no authority trusted here: name the authority with --ca FILE" in str(error)


@pytest.mark.asyncio
async def test_a_certificate_for_another_name(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    async with serving(tls.server_credentials(*ours.certificate("server", "rag.example", "192.0.2.9"))) as at:
        error = await said(at, ClientTls(ours.path))
    assert isinstance(error, MismatchError)
    assert "its certificate is for rag.example, 192.0.2.9 and not for 127.0.0.1: call it by one of its names" in str(
        error
    )


def unchecked(certificate: Path, key: Path) -> grpc.ServerCredentials:
    """What a server of others shows, which no file check of ours has seen."""
    return grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])


@pytest.mark.asyncio
async def test_a_certificate_out_of_its_time(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    for seconds, words in (({"expires": -60}, "expired at "), ({"begins": 3000}, "is not valid before ")):
        async with serving(unchecked(*ours.certificate("server", **seconds))) as at:  # type: ignore[arg-type]
            error = await said(at, ClientTls(ours.path))
        assert isinstance(error, MismatchError)
        assert words in str(error)
        assert " UTC" in str(error)
        assert "the clock here says 20" in str(error)


@pytest.mark.asyncio
async def test_a_server_that_wants_a_certificate(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    async with serving(tls.server_credentials(*ours.certificate("server"), ours.path)) as at:
        assert "lets in only callers with a certificate: give yours with --cert FILE" in str(
            await said(at, ClientTls(ours.path))
        )
        stranger = await said(at, ClientTls(ours.path, *theirs.certificate("stranger")))
        assert isinstance(stranger, MismatchError)
        assert "refuses this side's certificate" in str(stranger)
        assert "--tls-clients" in str(stranger)


@pytest.mark.asyncio
async def test_a_server_whose_key_grpc_cannot_use(tmp_path: Path) -> None:
    """Of another program, on OpenSSL, which takes it: gRPC here finds no way to speak with it."""
    ours = Authority(tmp_path, "ours")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*ours.certificate("server", key=Ed448PrivateKey.generate()))

    def shake(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1)

    with accepting(shake) as at:
        text = str(await said(at, ClientTls(ours.path)))
    assert "TLS" in text
    assert "nothing listens" not in text


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("WRONG_VERSION_NUMBER", "answers in the clear"),
        ("HTTP_REQUEST", "answers in the clear"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "lets in only callers with a certificate"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "ends the handshake"),
        ("TLSV1_ALERT_UNKNOWN_CA", "ends the handshake"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "no version of TLS"),
        ("UNSUPPORTED_PROTOCOL", "no version of TLS"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "no cipher or kind of key in common"),
        ("NO_SHARED_CIPHER", "no cipher or kind of key in common"),
        ("SOMETHING_NEW", "the handshake failed (something new)"),
    ],
)
def test_each_reason_of_the_tls_stack(reason: str, words: str) -> None:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    cause = tls_cause(error, "rag.example", None, own=False)
    assert words in cause.said
    assert cause.way


@pytest.mark.parametrize(
    ("code", "words"),
    [
        *((code, "no authority") for code in (2, 18, 19, 20, 21, 24)),
        *((code, "not for rag.example") for code in (62, 64)),
        *((code, "too weak") for code in (66, 67, 68)),
        (10, "expired"),
        (9, "not valid"),
        (26, "is refused"),
    ],
)
def test_each_code_of_a_refused_certificate(code: int, words: str) -> None:
    error = ssl.SSLCertVerificationError(1, "no")
    error.verify_code, error.verify_message = code, "what OpenSSL says"
    cause = tls_cause(error, "rag.example", None, own=False)
    assert words in cause.said
    assert cause.way


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_call_that_is_late_says_what_a_look_shows() -> None:
    """A peer that takes connections and says nothing lets the time run out."""
    with accepting(lambda connection: threading.Event().wait(3)) as at:
        channel = rpc.dial(at, ClientTls())
        with pytest.raises(TransportError) as caught:
            await RemoteLedger(channel, at, timeout=0.5).checkpoint()
        await channel.close()
    assert "may still have done what was asked" in str(caught.value)
    assert "A look at it shows: " in str(caught.value)


# --- a peer that is there


@pytest.mark.asyncio
async def test_a_peer_that_answers_with_its_own_refusal_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is its word; a second connection would tell it nothing."""
    from ragseal.runtime import unreached

    async def looked(*_: Any) -> Any:
        raise AssertionError("looked")

    class Service:
        @rpc.answers
        async def read(self, request: bytes, context: Any) -> bytes:
            raise TransportError("the auditor is away")

    monkeypatch.setattr(unreached, "look_at", looked)
    async with serving(None) as at:
        assert "does not offer this call" in str(await said(at, ClientTls()))
    server = rpc.new_server()
    handler = grpc.unary_unary_rpc_method_handler(Service().read)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("x.X", {"Read": handler}),))
    at = f"127.0.0.1:{rpc.bind(server, '127.0.0.1:0')}"
    await server.start()
    async with rpc.open_channel(at) as channel:
        with pytest.raises(TransportError, match="answers: the auditor is away"):
            await rpc.call(channel.unary_unary("/x.X/Read"), b"", at, 10)
    await server.stop(0)


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_peer_that_lets_its_bytes_through_one_by_one_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from ragseal.runtime.edges import reaching
    from ragseal.runtime.edges.address import Address

    def drip(connection: socket.socket) -> None:
        for _ in range(9):
            connection.sendall(b"\0")
            threading.Event().wait(0.3)

    monkeypatch.setattr(reaching, "LONGEST", 1.0)
    with accepting(drip) as at:
        began = asyncio.get_running_loop().time()
        seen = await reaching.look_at(Address.parse(at), None)
        assert asyncio.get_running_loop().time() - began < 2.5
        assert seen.cause is not None
        assert "too slowly" in seen.cause.said
