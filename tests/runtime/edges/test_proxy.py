# SPDX-License-Identifier: GPL-3.0-or-later
"""Proxies of the environment, with one that listens: what it must not hear, it does not hear."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragseal.embedder.endpoint import Endpoint, Patience, Pauses
from ragseal.kernel.errors import AuditError, ConfigurationError, TransportError
from ragseal.runtime import health, http_client, rpc, tracing
from ragseal.runtime.edges import proxy
from ragseal.runtime.edges.address import Address
from ragseal.runtime.tls import ClientTls
from tests.runtime.certificates import Authority
from tests.runtime.edges.test_reaching import said, serving

ROOT = Path(__file__).parents[3]


class Spy:
    """A proxy that keeps what it hears and answers nothing."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(5)
                self.heard.append(connection.recv(200))

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(20)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spy]:
    """Every variable that any library reads names it."""
    made = Spy()
    for name in (*proxy.ALL_VARIABLES, "no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in proxy.ALL_VARIABLES:
        monkeypatch.setenv(name, made.url)
    monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY", made.url.partition("://")[2])
    monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES", "0.0.0.0/0,::/0")
    yield made
    made.stop()


@pytest.mark.asyncio
@pytest.mark.parametrize("encrypted", [False, True])
async def test_no_channel_to_this_machine_takes_a_proxy(encrypted: bool, spy: Spy, tmp_path: Path) -> None:
    """Plain gRPC alone would send CONNECT there; by name, by address and by a Unix socket."""
    from ragseal.runtime import tls

    ours = Authority(tmp_path, "ours")
    credentials = tls.server_credentials(*ours.certificate("server", "127.0.0.1", "localhost")) if encrypted else None
    files = ClientTls(ours.path) if encrypted else ClientTls()
    async with serving(credentials) as at:
        for address in (at, at.replace("127.0.0.1", "LOCALHOST")):
            assert "does not offer this call" in str(await said(address, files))
    await said("127.0.0.1:1", files)  # nor where nobody is there, and the peer is looked at
    assert spy.heard == []


def test_a_channel_without_a_proxy_says_nothing_of_one() -> None:
    """gRPC writes a line of its own on standard error where it cannot read what it is given."""
    script = (
        "import grpc; from ragseal.runtime.edges import proxy;"
        "c = grpc.insecure_channel('127.0.0.1:1', options=proxy.DIRECT);"
        "f = grpc.channel_ready_future(c);"
        "\ntry: f.result(timeout=1)\nexcept grpc.FutureTimeoutError: print('tried')"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (ran.stdout, ran.stderr) == ("tried\n", "")


@pytest.mark.asyncio
async def test_no_unix_socket_takes_a_proxy(spy: Spy, tmp_path: Path) -> None:
    server = rpc.new_server()
    health.Health("x").mount(server)
    rpc.bind(server, f"unix:{tmp_path / 's'}")
    await server.start()
    assert "does not offer this call" in str(await said(f"unix:{tmp_path / 's'}", ClientTls()))
    await server.stop(0)
    assert spy.heard == []


@pytest.mark.asyncio
async def test_nothing_in_the_clear_takes_a_proxy(spy: Spy) -> None:
    """A name that leads nowhere: gRPC alone would leave it to the proxy."""
    await said("no-such-host.invalid:7800", ClientTls(plain=True))
    assert spy.heard == []


@pytest.mark.asyncio
async def test_an_encrypted_channel_may_take_one_and_its_error_names_it(spy: Spy) -> None:
    text = str(await said("no-such-host.invalid:7800", ClientTls()))
    assert f"through the proxy {spy.url} of the environment (grpc_proxy)" in text
    assert any(heard.startswith(b"CONNECT no-such-host.invalid:7800") for heard in spy.heard)
    assert all(heard.startswith(b"CONNECT") or not heard for heard in spy.heard)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"https_proxy": "URL"}, True),
        ({"https_proxy": "HTTP://PLACE/"}, True),
        ({"https_proxy": "PLACE"}, False),
        ({"https_proxy": "socks5://PLACE"}, False),
        ({"https_proxy": "https://PLACE"}, False),
        ({"https_proxy": " URL "}, False),
        ({"https_proxy": "http:///PLACE"}, False),
        ({"grpc_proxy": "", "https_proxy": "URL"}, False),
        ({"grpc_proxy": "socks5://PLACE", "https_proxy": "URL"}, False),
        ({"https_proxy": "URL", "no_proxy": "ch-host.invalid"}, True),
        ({"https_proxy": "URL", "no_proxy": "INVALID"}, False),
        ({"https_proxy": "URL", "no_proxy": "*"}, True),
        ({"https_proxy": "URL", "no_grpc_proxy": "", "no_proxy": ".invalid"}, True),
    ],
    ids=str,
)
async def test_a_proxy_is_named_where_grpc_takes_it_and_nowhere_else(
    given: dict[str, str], taken: bool, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*proxy.ALL_VARIABLES, "GRPC_ADDRESS_HTTP_PROXY", "GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value.replace("URL", spy.url).replace("PLACE", spy.url.removeprefix("http://")))
    text = str(await said("no-such-host.invalid:7800", ClientTls()))
    assert any(heard.startswith(b"CONNECT") for heard in spy.heard) == taken
    assert ("through the proxy" in text) == taken


@pytest.mark.asyncio
async def test_a_proxy_that_is_away_is_blamed_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "http_proxy", "no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://alice:secret@127.0.0.1:1")
    text = str(await said("rag.example:7800", ClientTls()))
    assert "http://***@127.0.0.1:1 of the environment (https_proxy), and nothing listens on port 1 of 127.0.0.1" in text
    assert "secret" not in text
    monkeypatch.setenv("no_proxy", "other.example,.example")
    assert "proxy" not in str(await said("rag.example:7800", ClientTls()))


def test_what_grpc_takes_no_proxy_from_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in proxy.ALL_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "socks5://proxy.example:1080")
    assert proxy.proxies().said.endswith("https_proxy is no http://HOST:PORT, so gRPC takes none")
    monkeypatch.setenv("https_proxy", "http://proxy.example:1080")
    assert "takes none" not in proxy.proxies().said


def test_without_the_option_grpc_would_take_it(spy: Spy) -> None:
    """What the tests above would hear: the option is what keeps it from there."""
    code = (
        "import asyncio, grpc.aio\n"
        "async def main():\n"
        "    async with grpc.aio.insecure_channel('127.0.0.1:1') as c:\n"
        "        try: await c.unary_unary('/x/Y')(b'', timeout=5)\n"
        "        except grpc.RpcError: pass\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60, env=dict(os.environ))
    assert any(heard.startswith(b"CONNECT 127.0.0.1:") for heard in spy.heard)


# --- other clients


@pytest.mark.asyncio
async def test_witnesses_and_embedding_servers_are_called_straight(spy: Spy) -> None:
    place = http_client.Place.parse("http://127.0.0.1:1/witness")
    with pytest.raises(TransportError, match=r"nothing listens on port 1 of 127.0.0.1"):
        await http_client.post(place, "/x", b"", seconds=5, most=100)
    endpoint = Endpoint("http://localhost:1/v1", None, pauses=Pauses(lambda _: None))
    with pytest.raises(TransportError, match=r"cannot be reached \(nothing listens on port 1 of localhost"):
        endpoint.post("embeddings", b"{}", 100, Patience(5.0, 1, quotes=True))
    assert spy.heard == []


@pytest.mark.parametrize(
    ("url", "straight"),
    [
        ("http://127.0.0.1:6333", True),
        ("http://qdrant.example:6333", True),
        ("https://localhost:6333", True),
        ("http://[::1]:6333", True),
        ("https://qdrant.example:6333", False),
    ],
)
def test_libraries_that_read_the_environment_are_told(
    url: str, straight: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of databases and of traces: what goes in the clear, or stays here, is left out of every proxy."""
    import urllib.request

    monkeypatch.setenv("no_proxy", "kept.example")
    monkeypatch.setenv("NO_PROXY", "kept.example")
    monkeypatch.setenv("no_grpc_proxy", "kept.example")
    proxy.go_straight_in_the_clear(url)
    proxy.go_straight_in_the_clear(url)
    host = url.rpartition(":")[0].partition("://")[2].strip("[]")
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        assert os.environ[name] == ("kept.example," + host if straight else "kept.example")
    assert bool(urllib.request.proxy_bypass(host)) == straight


@pytest.mark.parametrize("engine", ["qdrant", "chroma", "milvus"])
def test_each_database_with_a_url_is_told(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its client is made, which reads the environment then."""
    import importlib

    module = importlib.import_module(f"ragseal.prover.sources.{engine}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setattr(module, "need_driver", lambda *_: None)
    with contextlib.suppress(ImportError, AuditError):
        module.open_at("http://127.0.0.1:1?collection=x&id=id&text=text", False, None)
    assert os.environ["no_proxy"] == "127.0.0.1"


def test_traces_go_straight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert tracing._collector() == "http://localhost:4317"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector.example:4317")
    assert tracing._collector() == "http://collector.example:4317"


@pytest.mark.parametrize(
    "url", ["https://127.1:6333", "http://localhost.", "http://[bad", "http://h:99999", "https://0x7f.1"]
)
def test_a_url_that_another_reader_takes_for_this_machine_is_refused(url: str) -> None:
    """A client of a database would go there through a proxy: its own parser knows more forms."""
    with pytest.raises(ConfigurationError, match=r"is not an address|is not a URL"):
        proxy.go_straight_in_the_clear(url)


def test_nothing_else_in_the_package_opens_channels() -> None:
    """The option is set in one place."""
    found = subprocess.run(
        ["git", "grep", "-nE", r"(insecure_channel|secure_channel|urlopen|requests\.(get|post)|aiohttp|httpx)\(?",
         "--", "*.py", ":!tests", ":!bench", ":!scripts", ":!docs", ":!runtime/rpc.py"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    assert not found


def test_which_proxy_grpc_would_take(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*proxy.ALL_VARIABLES, "no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    away, here = Address.parse("rag.example:1"), Address.parse("127.0.0.1:1")
    found = proxy.proxy_for(away, encrypted=True)
    assert found is not None
    assert (str(found), found.place) == (
        "the proxy http://proxy.example:3128 of the environment (http_proxy)",
        ("proxy.example", 3128),
    )
    assert proxy.proxy_for(away, encrypted=False) is None
    for one in (here, Address.parse("[::ffff:127.0.0.1]:1")):
        assert proxy.proxy_for(one, encrypted=True) is None
    monkeypatch.setenv("no_proxy", "192.0.2.0/24, rag.example")
    assert proxy.proxy_for(away, encrypted=True) is None
    assert proxy.proxy_for(Address.parse("192.0.2.9:1"), encrypted=True) is None
    assert proxy.proxy_for(Address.parse("198.51.100.9:1"), encrypted=True) is not None
