# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses that cannot be listened on: by gRPC and the HTTP servers, with the cause that was seen."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime import rpc
from ragseal.runtime.edges import listening
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.listening import listen
from ragseal.runtime.http_server import HttpServer, Request, Response
from ragseal.runtime.tls import ServerTls

ELSEWHERE = "192.0.2.7:7800"  #: an address that no interface has (RFC 5737)


async def refusals(address: str) -> list[str]:
    """What gRPC's and the HTTP server's listener say."""

    async def handler(request: Request) -> Response:
        return Response(200)

    said = []
    with pytest.raises(ConfigurationError, match="cannot listen on") as caught:
        rpc.bind(rpc.new_server(), address, plain=True)
    said.append(str(caught.value))
    with pytest.raises(ConfigurationError, match="cannot listen on") as caught:
        await HttpServer(handler).start(address, ServerTls(plain=True))
    said.append(str(caught.value))
    return said


@contextlib.contextmanager
def taken(answers: bool) -> Iterator[int]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        if answers:
            held.listen()
        yield held.getsockname()[1]


@pytest.mark.asyncio
async def test_a_taken_port_says_whether_somebody_is_there() -> None:
    with taken(answers=True) as port:
        for said in await refusals(f"127.0.0.1:{port}"):
            assert "the port is taken: a program takes connections there: end that one" in said
    with taken(answers=False) as port:
        for said in await refusals(f"127.0.0.1:{port}"):
            assert "the port is taken, though nobody takes connections there" in said


@pytest.mark.asyncio
async def test_an_address_that_is_not_this_machine_s() -> None:
    for said in await refusals(ELSEWHERE):
        assert "no network interface of this machine has the address 192.0.2.7" in said
        assert "taken" not in said


@pytest.mark.asyncio
async def test_a_name_that_nobody_knows() -> None:
    for said in await refusals("no-such-host.invalid:7800"):
        assert "name service" in said or "looking up" in said
        assert "taken" not in said


def test_a_socket_s_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "s").touch()
    with pytest.raises(ConfigurationError, match=f"the file {tmp_path / 's'} is there already"):
        listen(Address.parse(f"unix:{tmp_path / 's'}", listening=True))
    with pytest.raises(ConfigurationError, match="of its path only"):
        listen(Address.parse(f"unix:{tmp_path / 'a' / 's'}", listening=True))


@pytest.mark.parametrize(
    ("number", "address", "words"),
    [
        (errno.EACCES, "127.0.0.1:80", "ports below 500 are the administrator's on this machine: choose a higher port"),
        (errno.EACCES, "127.0.0.1:7800", "this machine's rules forbid it"),
        (errno.EPERM, "127.0.0.1:7800", "this machine's rules forbid it"),
        (errno.EAFNOSUPPORT, "[::1]:7800", "does not speak that kind of address"),
        (errno.EMFILE, "127.0.0.1:7800", "this program may open"),
        (errno.ENFILE, "127.0.0.1:7800", "the whole system holds"),
        (errno.ENOBUFS, "127.0.0.1:7800", "No buffer space available"),
    ],
)
def test_errors_that_the_kernel_does_not_give_here(
    number: int, address: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "first").write_text("500\n")
    monkeypatch.setattr(listening, "LOW_PORTS", tmp_path / "first")

    def refused(*_: object, **__: object) -> socket.socket:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket, "create_server", refused)
    with pytest.raises(ConfigurationError, match=f"cannot listen on .*{words}") as caught:
        listen(Address.parse(address, listening=True))
    assert "taken" not in str(caught.value)


def test_a_listener_that_the_library_refuses_for_another_reason() -> None:
    """Where the address can be had, it is not blamed."""

    class Refusing:
        def add_insecure_port(self, address: str) -> int:
            return 0

        def add_secure_port(self, address: str, credentials: object) -> int:
            raise RuntimeError("no")

    with pytest.raises(ConfigurationError, match="it was refused, and is free now: try again"):
        rpc.bind(Refusing(), "127.0.0.1:0")
    with pytest.raises(ConfigurationError, match="address and port are free, so it is the TLS files"):
        rpc.bind(Refusing(), "127.0.0.1:0", object())  # type: ignore[arg-type]
