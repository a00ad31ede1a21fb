# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates are renewed while a server serves; files that do not do change nothing and are named."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime import rpc
from ragseal.runtime.certificates import Certificates
from ragseal.runtime.http_server import HttpServer, Request, Response
from ragseal.runtime.tls import LOOPBACK_ONLY, ServerTls
from tests.runtime.certificates import Authority


def name_at(port: int, protocol: str = "h2", own: tuple[Path, Path] | None = None) -> str:
    """The name in the certificate that a new connection is shown; OSError: it is refused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    if own is not None:
        context.load_cert_chain(*own)
    with socket.create_connection(("127.0.0.1", port), 5) as plain, context.wrap_socket(plain) as secure:
        shown = secure.getpeercert(binary_form=True)
        if own is not None:
            secure.settimeout(5)
            assert secure.recv(1)  # a server that does not let us in says so only now
    assert shown is not None
    return str(x509.load_der_x509_certificate(shown).subject.rfc4514_string()).removeprefix("CN=")


def put(source: tuple[Path, Path], target: tuple[Path, Path]) -> None:
    for one, other in zip(source, target, strict=True):
        shutil.copyfile(one, other)


@pytest.mark.asyncio
async def test_a_renewed_certificate_is_shown_to_new_connections_and_a_bad_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    ours = Authority(tmp_path, "ours")
    first, second, third = (ours.certificate(name) for name in ("first", "second", "third"))
    files = tmp_path / "tls.pem", tmp_path / "tls.key"
    put(first, files)
    own = ServerTls(*files)
    certificates = Certificates(own)

    async def handle(request: Request) -> Response:
        return Response(200, b"")

    server, site = rpc.new_server(), HttpServer(handle)
    port = rpc.bind(server, "127.0.0.1:0", certificates.credentials())
    await server.start()
    where = int((await site.start("127.0.0.1:0", own)).rpartition(":")[2])
    certificates.follow(site.use)

    async def shown() -> tuple[str, str]:
        return await asyncio.to_thread(name_at, port), await asyncio.to_thread(name_at, where, "http/1.1")

    try:
        assert await shown() == ("first", "first")
        assert not certificates.look()
        put(second, files)
        assert certificates.look()
        assert await shown() == await shown() == ("second", "second")
        assert caplog.messages == [f"new connections get the new certificate of {files[0]}"]
        caplog.clear()

        shutil.copyfile(third[0], files[0])  # the key comes a moment later
        assert not certificates.look()
        assert not caplog.messages
        assert await shown() == ("second", "second")
        assert not certificates.look()
        assert not certificates.look()
        (said,) = caplog.messages  # once
        assert said.startswith(f"THE NEW CERTIFICATE IS NOT TAKEN: {files[1]} is not the key of the certificate")
        caplog.clear()
        shutil.copyfile(third[1], files[1])
        assert certificates.look()
        assert await shown() == ("third", "third")
        caplog.clear()

        expired = ours.certificate("expired", expires=-60)
        for bad, words in ((expired, "expired"), ((tmp_path / "ours.key", third[1]), "no certificate")):
            put(bad, files)
            assert not certificates.look(at_once=True)
            assert words in caplog.messages[-1]
            assert await shown() == ("third", "third")
        os.remove(files[0])
        assert not certificates.look(at_once=True)
        assert "cannot read" in caplog.messages[-1]
        assert await shown() == ("third", "third")
    finally:
        await site.stop()
        await server.stop(0)


@pytest.mark.asyncio
async def test_another_authority_of_callers_is_taken_too(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    mine, other = ours.certificate("mine"), theirs.certificate("other")
    authority = tmp_path / "callers.pem"
    shutil.copyfile(ours.path, authority)
    certificates = Certificates(ServerTls(*ours.certificate("server"), authority))
    server = rpc.new_server()
    port = rpc.bind(server, "127.0.0.1:0", certificates.credentials())
    await server.start()
    try:
        assert await asyncio.to_thread(name_at, port, "h2", mine) == "server"
        with pytest.raises((OSError, AssertionError)):
            await asyncio.to_thread(name_at, port, "h2", other)
        shutil.copyfile(theirs.path, authority)
        assert certificates.look()
        assert await asyncio.to_thread(name_at, port, "h2", other) == "server"
        with pytest.raises((OSError, AssertionError)):
            await asyncio.to_thread(name_at, port, "h2", mine)
    finally:
        await server.stop(0)


def test_a_renewal_while_grpc_fetches_is_not_lost(tmp_path: Path) -> None:
    """A thread of gRPC's fetches in the moment in which the next certificate comes: the next call gets that one."""
    ours = Authority(tmp_path, "ours")
    first, second = (ours.certificate(name) for name in ("first", "second"))
    files = tmp_path / "tls.pem", tmp_path / "tls.key"
    put(first, files)
    certificates = Certificates(ServerTls(*files))
    assert certificates._fetch() is None, "it was given at the start"
    put(second, files)
    assert certificates.look()
    given: list[object] = []

    def between(frame: Any, event: str, _: object) -> Any:
        """Before every line of the fetch, and once behind its last, another renewal."""
        if frame.f_code is Certificates._fetch.__code__:
            certificates._newest = certificates._tls.configuration()
            return between
        return None

    sys.settrace(between)
    try:
        given.append(certificates._fetch())
    finally:
        sys.settrace(None)
    given.append(certificates._fetch())
    assert None not in given
    assert given[-1] is certificates._newest
    assert certificates._fetch() is None


def test_without_files_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    certificates = Certificates(LOOPBACK_ONLY)
    assert certificates.credentials() is None
    assert not certificates.look(at_once=True)
    with pytest.raises(ConfigurationError, match="cannot read"):
        Certificates(ServerTls(tmp_path / "none", tmp_path / "none"))
