# SPDX-License-Identifier: GPL-3.0-or-later
"""The one parser of addresses: what it refuses and how it says so, and that what it takes has one meaning."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import grpc
import pytest

from ragseal.kernel.errors import ConfigurationError, MismatchError
from ragseal.kernel.printable import printable
from ragseal.runtime import rpc
from ragseal.runtime.edges import private
from ragseal.runtime.edges.address import Address, is_loopback
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.edges.mounts import mount_of
from ragseal.runtime.http_client import Place
from ragseal.runtime.rpc import bind, call, new_server, open_channel

ROOT = Path(__file__).parents[3]

REFUSED = [
    ("::1:7800", r"in brackets, such as \[::1\]:7800"),
    ("2001:db8::5:443", r"in brackets, such as \[2001:db8::5\]:7800"),
    ("::1", "in brackets"),
    ("fe80::1", "in brackets"),
    ("[::1]", "has no port"),
    ("[::1%lo]:80", "with a zone"),
    ("fe80::1%eth0:7800", "with a zone"),
    ("[::ffff:0.0.0.0]:80", "this machine is 127.0.0.1:80"),
    ("[127.0.0.1]:80", "in brackets is an IPv6 address"),
    ("http://127.0.0.1:27800", "leave out http://, and write 127.0.0.1:27800"),
    ("HTTPS://rag.example/", "leave out HTTPS://, and write host:port"),
    ("grpc://rag.example:1", "leave out grpc://"),
    ("dns:rag.example:1", "one colon"),
    ("127.0.0.1:7800/", "what follows the port"),
    ("rag.example:7800?x=1", "what follows the port"),
    ("localhost", "has no port"),
    ("", "has no port"),
    (":7800", "has no host"),
    ("rag.example:", "port '' is not a number"),
    ("rag.example:0x50", "port '0x50'"),
    ("rag.example:+80", "port"),
    ("rag.example:080", "port"),
    ("rag.example:65536", "from 1 to 65535"),
    ("rag.example:\uff11", "port"),
    ("rag.example:0", "any free port"),
    ("0.0.0.0:7800", "this machine is 127.0.0.1:7800"),
    ("[::]:7800", r"this machine is \[::1\]:7800"),
    ("127.1:7800", "four numbers"),
    ("2130706433:7800", "four numbers"),
    ("0x7f000001:7800", "four numbers"),
    ("127.0.0.01:7800", "four numbers"),
    ("localhost.:7800", "the dot at the end"),
    ("alice@rag.example:7800", "leave out the user"),
    ("m\u00fcnchen.example:7800", "xn--"),
    (" rag.example:7800", "blank"),
    ("rag.example:7800\n", "blank"),
    ("rag example:7800", "no host name"),
    ("-rag.example:7800", "no host name"),
    (f"{'a' * 64}.example:7800", "no host name"),
    ("unix:", "unix:/path"),
    ("unix://run/x", "unix:/path"),
    ("unix-abstract:x", "abstract"),
    ("unix:/" + "a" * 107, "at most 107 bytes"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_what_is_no_address_is_refused_with_its_reason(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=f"is not an address: .*{words}"):
        Address.parse(text)
    with pytest.raises(ConfigurationError, match=words):
        open_channel(text, plain=True)


@pytest.mark.parametrize(
    ("text", "form", "loopback"),
    [
        ("127.0.0.1:7800", "127.0.0.1:7800", True),
        ("127.9.9.9:1", "127.9.9.9:1", True),
        ("LOCALHOST:27800", "localhost:27800", True),
        ("[::1]:7800", "[::1]:7800", True),
        ("[0:0::0001]:7800", "[::1]:7800", True),
        ("[2001:DB8::5]:443", "[2001:db8::5]:443", False),
        ("Rag.Example:65535", "rag.example:65535", False),
        ("localhost.example:1", "localhost.example:1", False),
        ("192.0.2.1:80", "192.0.2.1:80", False),
        ("unix:/run/a socket", "unix:/run/a socket", True),
        ("unix:///run/x", "unix:/run/x", True),
        ("unix:/" + "a" * 106, "unix:/" + "a" * 106, True),
    ],
)
def test_an_address_has_one_form(text: str, form: str, loopback: bool) -> None:
    found = Address.parse(text)
    assert (str(found), found.loopback) == (form, loopback)
    assert Address.parse(form) == found


def test_a_listener_may_take_any_free_port_and_every_address() -> None:
    for text in ("127.0.0.1:0", "0.0.0.0:0", "[::]:0"):
        assert str(Address.parse(text, listening=True)) == text
    with pytest.raises(ConfigurationError, match="Unix socket cannot be used"):
        Address.parse("unix:/x", listening=True, unix=False)
    assert str(Address.parse("[::1]:0", listening=True).at(77)) == "[::1]:77"
    assert Address.parse("[::1]:0", listening=True).family == socket.AF_INET6


def test_hosts_that_only_look_like_this_machine() -> None:
    for host in ("localhost.evil.example", "127.0.0.1.evil.example", "0177.0.0.1", "::ffff:8.8.8.8", "0.0.0.0"):
        assert not is_loopback(host)


@pytest.mark.parametrize("host", ["::ffff:127.0.0.1", "[::FFFF:127.9.9.9]", "127.0.0.2", "Localhost"])
def test_every_name_of_this_machine_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.asyncio
async def test_a_socket_s_path_is_taken_as_it_stands(tmp_path: Path) -> None:
    """gRPC reads it as part of a URI."""
    path = tmp_path / "a%41 ?#\u00e9"
    server = new_server()
    bind(server, f"unix:{path}")
    await server.start()
    assert path.is_socket()
    async with open_channel(f"unix:{path}") as channel:
        with pytest.raises(MismatchError, match="does not offer this call"):
            await call(channel.unary_unary("/x/Y"), b"", f"unix:{path}", 10)
    await server.stop(0)


@pytest.mark.asyncio
async def test_ipv6_without_brackets_is_not_another_address() -> None:
    """gRPC would read ``::1:7800`` as the address ::1:7800 and port 443."""
    with pytest.raises(ConfigurationError, match="brackets"):
        bind(new_server(), "::1:0", plain=True)
    with pytest.raises(ConfigurationError, match="brackets"):
        open_channel("::1:7800")


def test_a_witness_s_url_goes_through_the_same_parser() -> None:
    for url in ("https://127.1/x", "https://w.example:0/x", "https://a_%62.example/x"):
        with pytest.raises(ConfigurationError, match="is not an address"):
            Place.parse(url)
    assert Place.parse("https://W.Example/x").host == "w.example"


def test_nobody_else_takes_addresses_apart() -> None:
    """A second reading of a text may find another host in it than the check did."""
    command = ["git", "grep", "-nE", r"(address|listen|target|provider|peer)\w*\.r?partition\(.:.\)", "--", "*.py",
               ":!tests", ":!bench", ":!demo", ":!scripts"]  # fmt: skip
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert not found


# What a look at this machine showed crosses no wire but the operator's own socket.


class Service:
    """One whose disk fails at each call."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "f"

    @rpc.answers
    async def read(self, request: bytes, context: Any) -> bytes:
        error = OSError(errno.EIO, os.strerror(errno.EIO))
        raise ConfigurationError(f"cannot write: {why(error, self.path)}; nothing was changed")


async def told(address: str) -> str:
    async with rpc.open_channel(address) as channel:
        with pytest.raises(ConfigurationError) as caught:
            await rpc.call(channel.unary_unary("/x.X/Read"), b"", address, 10)
    return str(caught.value)


@pytest.mark.asyncio
async def test_a_caller_is_told_of_no_mount_and_the_operator_is(tmp_path: Path) -> None:
    service, server = Service(tmp_path), rpc.new_server()
    handler = grpc.unary_unary_rpc_method_handler(service.read)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("x.X", {"Read": handler}),))
    port, _ = rpc.bind(server, "127.0.0.1:0"), rpc.bind(server, f"unix:{tmp_path / 's'}")
    await server.start()
    try:
        at = f"127.0.0.1:{port}"
        assert await told(at) == f"{at} answers: cannot write: {os.strerror(errno.EIO)}; nothing was changed"
        assert str(mount_of(tmp_path)) in await told(f"unix:{tmp_path / 's'}")
    finally:
        await server.stop(0)


def test_only_so_many_looks_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "MOST", 3)
    monkeypatch.setattr(private, "_made", {})
    for number in range(9):
        private.here(f" (look {number})")
    assert private.for_others("x (look 1) (look 8)") == "x (look 1)"
    assert private.for_others("x (look 6) (look 7)") == "x"


def test_a_look_that_is_made_again_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "MOST", 3)
    monkeypatch.setattr(private, "_made", {})
    for number in (1, 2, 1, 3, 4):
        private.here(f" (look {number})")
    assert private.for_others("x (look 1) (look 2)") == "x (look 2)"


def test_a_look_is_cut_whole_and_as_it_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look may begin as another one; a name with an escape stands in a message in its printable form."""
    monkeypatch.setattr(private, "_made", {})
    private.here(" (on /a")
    private.here(" (on /a of bob)")
    assert private.for_others("x (on /a of bob)") == "x"
    name = " (on /\x1b[2J)"
    assert printable(name) != name
    private.here(name)
    assert private.for_others(f"x{name} y{printable(name)}") == "x y"
