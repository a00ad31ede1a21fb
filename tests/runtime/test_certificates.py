# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates are renewed while a server serves; files that do not do change nothing and are named."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client.gateway import commands as gateway
from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.ledger import witness_command
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.note import ED25519, NoteSigner
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.service import LedgerServicer
from ragseal.runtime import rpc, tls
from ragseal.runtime.certificates import Certificates
from ragseal.runtime.http_server import HttpServer, Request, Response
from ragseal.runtime.tls import LOOPBACK_ONLY, ServerTls
from ragseal.verifier import __main__ as verifier
from ragseal.verifier.cli import verdict_log_commands as log_commands
from ragseal.verifier.folder.state import State
from ragseal.verifier.service import service
from tests.runtime.certificates import Authority
from tests.simulator.provider import account_key


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


# TLS of every edge: the right authority gets through, a wrong one or a missing client certificate does not.


@pytest.mark.asyncio
async def test_mutual_tls(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    signer = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
    server = rpc.new_server()
    with Log.create(tmp_path / "ledger", signer) as log:
        LedgerServicer(log, CosignatureBook(tmp_path / "ledger", log)).mount(server)
        port = rpc.bind(server, "127.0.0.1:0", tls.server_credentials(*ours.certificate("server"), ours.path))
        await server.start()

        async def fetch(credentials: object) -> bytes:
            channel = rpc.open_channel(f"127.0.0.1:{port}", credentials)
            try:
                return await RemoteLedger(channel, timeout=5).checkpoint()
            finally:
                await channel.close()

        assert await fetch(tls.channel_credentials(ours.path, *ours.certificate("client"))) == log.checkpoint()
        for wrong in (
            tls.channel_credentials(ours.path),
            tls.channel_credentials(ours.path, *theirs.certificate("stranger")),
            tls.channel_credentials(theirs.path, *ours.certificate("misled")),
            None,
        ):
            with pytest.raises(TransportError):
                await fetch(wrong)
        with pytest.raises(TransportError, match="--ca FILE"):  # the way out stands in the refusal
            await fetch(tls.channel_credentials(theirs.path, *ours.certificate("lost")))
        await server.stop(0)


def test_files_are_checked(tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("junk")
    actions: tuple[Callable[[], object], ...] = (
        lambda: tls.server_credentials(tmp_path / "missing", tmp_path / "missing"),
        lambda: tls.server_credentials(tmp_path / "junk", tmp_path / "junk"),
        lambda: tls.channel_credentials(tmp_path / "missing"),
        lambda: tls.channel_credentials(None, tmp_path / "junk", None),
    )
    for action in actions:
        with pytest.raises(ConfigurationError):
            action()


# Every program that serves takes renewed certificate files at SIGHUP, and none ends by one while it starts.


LOG = NoteSigner("log.example/renewal", account_key("log"), ED25519).verifier.vkey()


def _auditor(folder: Path) -> list[str]:
    State.create(folder, account_key("auditor"))
    return ["ragseal.verifier", "serve", "--state", str(folder)]


def _verdicts(folder: Path) -> list[str]:
    State.create(folder, account_key("auditor"))
    return ["ragseal.verifier", "verdict", "log", "serve", "--state", str(folder)]


def _witness(folder: Path) -> list[str]:
    command = [sys.executable, "-m", "ragseal.ledger", "keygen", "--name", "w.example", "--state", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return ["ragseal.ledger", "witness", "--state", str(folder), "--log", LOG]


SERVERS: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "auditor": (_auditor, "h2"),
    "log of verdicts": (_verdicts, "h2"),
    "witness": (_witness, "http/1.1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("which", SERVERS)
def test_a_program_shows_its_renewed_certificate(tmp_path: Path, which: str) -> None:
    make, protocol = SERVERS[which]
    ours = Authority(tmp_path, "ours")
    files = tmp_path / "tls.pem", tmp_path / "tls.key"
    put(ours.certificate("first"), files)
    command = [sys.executable, "-m", *make(tmp_path / "state"), "--listen", "127.0.0.1:0", "--json"]
    command += ["--tls-cert", str(files[0]), "--tls-key", str(files[1])]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        port = int(json.loads(running.stdout.readline())["listening"].rpartition(":")[2])
        assert name_at(port, protocol) == "first"
        put(ours.certificate("second"), files)
        running.send_signal(signal.SIGHUP)
        end = time.monotonic() + 8  # before it would look by itself
        while name_at(port, protocol) != "second":
            assert time.monotonic() < end, "it goes on with the old one"
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    finally:
        running.kill()
        running.communicate()


def _hangs_up(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGHUP)
    raise click.ClickException("so far")


STARTS: dict[str, tuple[Any, str, Any, Callable[[Path], list[str]]]] = {
    "auditor": (service, "run", verifier.main, lambda folder: _auditor(folder)[1:]),
    "log of verdicts": (log_commands, "_log", verifier.main, lambda folder: _verdicts(folder)[1:]),
    "witness": (
        witness_command, "open_witness", witness_command.witness, lambda folder: ["--state", str(folder), "--log", LOG],
    ),
    "gateway": (gateway, "gateway_key", gateway.gateway, lambda folder: [
        "--state", str(folder), "--provider", "127.0.0.1:1", "--log-key", LOG,
    ]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("which", STARTS)
def test_a_hangup_while_a_program_starts_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    place, name, command, arguments = STARTS[which]
    monkeypatch.setattr(place, name, _hangs_up)
    ended: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: ended.append(number))
    try:
        done = CliRunner().invoke(command, arguments(tmp_path / "state"))
        assert "so far" in done.output, done.output
        assert ended == []
    finally:
        signal.signal(signal.SIGHUP, before)
