# SPDX-License-Identifier: GPL-3.0-or-later
"""Strangers who take what a server has only so much of: descriptors, places, memory.  Each was red before its fix."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from ragseal.kernel.errors import BudgetError, ConfigurationError
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteSigner
from ragseal.runtime.durable import DurableFile
from ragseal.runtime.gate import Gate
from ragseal.runtime.limits import Limits
from ragseal.runtime.peers import machine_of
from ragseal.runtime.rpc import answers, bind, call, new_server, open_channel
from ragseal.runtime.tls import channel_credentials, server_credentials
from ragseal.v1 import ledger_pb2, ledger_pb2_grpc
from ragseal.verifier import __main__ as verifier_main
from ragseal.verifier.folder.state import State
from ragseal.verifier.service.limits import check_caller
from tests.runtime.certificates import Authority
from tests.simulator import provider as scene

pytestmark = pytest.mark.slow

LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))

# --- descriptors -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """This process gets no new descriptor, as when strangers' connections hold all of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, max(map(int, os.listdir("/proc/self/fd"))) + 16), hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_log_goes_on_without_descriptors(tmp_path: Path) -> None:
    """Idle connections take every descriptor: the checkpoint could not be written, and the log stopped for good."""
    with Log.create(tmp_path / "log", LOG) as log:
        log.append_now([lambda _: b"before"])
        with no_descriptors():
            with pytest.raises(OSError, match="Too many open files"):
                (tmp_path / "log" / "checkpoint").read_bytes()
            for number in range(5):
                log.append_now([lambda _, number=number: b"entry %d" % number])  # type: ignore[misc]
        log.append_now([lambda _: b"after"])
        note = (tmp_path / "log" / "checkpoint").read_bytes()
        assert (log.size, open_checkpoint(note, LOG.verifier).checkpoint.size) == (7, 7)
        log.fsck()
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == ["checkpoint", "lock", "log.sqlite"]
    with Log.open(tmp_path / "log", LOG) as log:
        assert (log.size, log.entry(5), log.checkpoint()) == (7, b"entry 4", note)


def test_a_provider_answers_without_descriptors_and_goes_on_afterwards(tmp_path: Path) -> None:
    """The whole way of an answer: secrets into state.db, the record into the ledger, the journal in step with it."""

    async def run() -> None:
        async with scene.window_on(tmp_path) as serving:
            provider = serving.provider
            window = scene.newest(serving)
            alice = scene.Asker("alice", serving)
            await alice.ask("a question")
            with no_descriptors():
                await alice.ask("another question")
                await alice.ask("a third one")
                assert provider.state.row("SELECT COUNT(*) FROM queries") == (3,)
            await alice.ask("the last one")
            assert serving.journal.failure is None
            assert (len(window.records), provider.ledger.size) == (4, window.records[-1] + 1)

    asyncio.run(run())


def test_a_file_that_is_replaced_is_never_half_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a write stops, its name stands for the old content or the new one, and nothing is written afterwards."""
    path = tmp_path / "note"
    for step in ("ftruncate", "pwrite", "link", "replace", "fsync", "second fsync"):
        for scarce in (False, True):
            path.write_bytes(b"older")
            file, done = DurableFile(path), [0]
            real = getattr(os, step.removeprefix("second "))
            with no_descriptors() if scarce else contextlib.nullcontext():
                for content in (b"old 1", b"old 2", b"old"):
                    file.write(content)

                def fails(*given: Any, _real: Any = real, _done: list[int] = done, _step: str = step) -> Any:
                    _done[0] += 1
                    if _done[0] == 1 + _step.startswith("second"):
                        raise OSError(5, "Input/output error")
                    return _real(*given)

                monkeypatch.setattr(os, step.removeprefix("second "), fails)
                with pytest.raises(OSError, match="Input/output"):
                    file.write(b"the new one")
                monkeypatch.undo()
                with pytest.raises(OSError, match="an earlier write failed"):
                    file.write(b"one more")
            assert path.read_bytes() == (b"the new one" if step == "second fsync" else b"old")
            file.close()
            assert [found.name for found in tmp_path.iterdir()] == ["note"]


# --- connections -----------------------------------------------------------------------------------------------------


def test_a_server_may_have_every_descriptor_that_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard - 1, hard))
    try:

        async def run() -> None:
            await new_server().stop(0)

        asyncio.run(run())
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connections_leave_descriptors_for_the_program() -> None:
    assert dict(Limits().options(1024))["grpc.max_allowed_incoming_connections"] == 768


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # and empty SETTINGS


def _alive(connections: list[socket.socket]) -> int:
    """How many the server has not closed."""
    found = 0
    for one in connections:
        with contextlib.suppress(ConnectionError):
            try:
                while one.recv(4096):
                    pass
            except BlockingIOError:
                found += 1
    return found


@pytest.mark.parametrize(
    ("sent", "tls"),
    [(b"", False), (PREFACE, False), (b"", True)],
    ids=["silent", "speaking HTTP/2", "silent where TLS is spoken"],
)
def test_idle_connections_are_closed_and_there_are_only_so_many(sent: bytes, tls: bool, tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    own = server_credentials(*ours.certificate("server")) if tls else None
    trusted = channel_credentials(ours.path) if tls else None

    async def run() -> None:
        async with _serving(Limits(connections=64, handshake=1.5, idle=1.5), credentials=own) as port:
            idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(80)]
            try:
                for one in idle:
                    one.setblocking(False)
                    with contextlib.suppress(ConnectionError):
                        one.send(sent)
                await asyncio.sleep(0.5)
                assert _alive(idle) == 64
                await asyncio.sleep(4)
                assert _alive(idle) == 0
                async with open_channel(f"127.0.0.1:{port}", trusted) as channel:
                    stub = ledger_pb2_grpc.LedgerServiceStub(channel)
                    for pause in (2.0, 0.0):  # a caller that was idle for too long just calls again
                        await call(stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest(), "it", 5)
                        await asyncio.sleep(pause)
            finally:
                for one in idle:
                    one.close()

    asyncio.run(run())


# --- places ----------------------------------------------------------------------------------------------------------


def test_reflection_is_counted_and_waited_for_like_every_call() -> None:
    """Headers only, thousands of times: streams of requests passed the gate, and each kept its place for good."""

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            port = await stack.enter_async_context(_serving(Limits(calls_of_one=4, read=0.7), reflect=True))
            async with open_channel(f"127.0.0.1:{port}") as channel:
                stub = ledger_pb2_grpc.LedgerServiceStub(channel)
                ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
                held = [ask() for _ in range(4)]
                waiting = [asyncio.ensure_future(one.wait_for_connection()) for one in held]
                await asyncio.sleep(0.3)
                with pytest.raises(BudgetError, match="calls of this machine"):
                    await call(stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest(), "it", 5)
                await asyncio.sleep(1)
                await call(stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest(), "it", 5)
                assert [await asyncio.wait_for(one.code(), 5) for one in held] == [grpc.StatusCode.INVALID_ARGUMENT] * 4
                await asyncio.gather(*waiting, return_exceptions=True)
                talk = ask()
                for _ in range(3):  # each message is waited for anew
                    await talk.write(reflection_pb2.ServerReflectionRequest(list_services=""))
                    found = await asyncio.wait_for(talk.read(), 5)
                    assert found.list_services_response.service
                    await asyncio.sleep(0.4)
                assert await asyncio.wait_for(talk.code(), 5) == grpc.StatusCode.INVALID_ARGUMENT

    asyncio.run(run())


@pytest.mark.parametrize("option", [(), ("--reflection",)], ids=["by default", "asked for"])
def test_the_auditor_lists_its_services_only_where_it_was_told_to(
    option: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    State.create(tmp_path / "auditor", Ed25519PrivateKey.generate())
    seen: list[grpc.StatusCode] = []

    async def look(address: str) -> None:
        try:
            async with open_channel(address) as channel:
                talk = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(timeout=5)
                with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                    await talk.write(reflection_pb2.ServerReflectionRequest(list_services=""))
                    await talk.done_writing()
                    assert (await talk.read()).list_services_response.service
                seen.append(await talk.code())
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(
        verifier_main, "tell_result", lambda _, values, __: asyncio.ensure_future(look(values["listening"]))
    )
    where = ["--state", str(tmp_path / "auditor"), "--listen", "127.0.0.1:0"]
    result = CliRunner().invoke(verifier_main.main, ["serve", *where, *option])
    assert result.exit_code == 0, result.output
    assert seen == [grpc.StatusCode.OK if option else grpc.StatusCode.UNIMPLEMENTED]


@pytest.mark.parametrize(
    ("peer", "machine"),
    [
        ("ipv4:192.0.2.7:4711", "192.0.2.7"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:4711", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:2:ffff::9]:1", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:3::1]:1", "2001:db8:1:3::/64"),
        ("ipv6:[::ffff:192.0.2.7]:1", "192.0.2.7"),
        ("ipv6:[fe80::1%25eth0]:1", "fe80::/64"),
        ("unix:/run/x", "unix:/run/x"),
        ("ipv6:[nonsense]:1", "ipv6:[nonsense]:1"),
    ],
)
def test_a_machine_is_one_whatever_addresses_it_has(peer: str, machine: str) -> None:
    """A host has a whole /64: with every address counted by itself, its limits were no limits."""
    assert machine_of(peer) == machine


@pytest.mark.parametrize(
    ("peer", "allowed"),
    [
        ("ipv4:127.0.0.1:1", True),
        ("ipv6:%5B::1%5D:1", True),
        ("unix:", True),
        ("ipv6:[::2]:1", False),  # in one /64 with loopback
        ("ipv6:[2001:db8::1]:1", False),
        ("ipv4:192.0.2.7:1", False),
        ("ipv4:nonsense", False),
    ],
)
def test_audits_are_asked_for_from_this_machine_only(peer: str, allowed: bool) -> None:
    class Context:
        def peer(self) -> str:
            return peer

        def auth_context(self) -> dict[str, object]:
            return {}

    with contextlib.nullcontext() if allowed else pytest.raises(ConfigurationError):
        check_caller(Context())


# --- memory ----------------------------------------------------------------------------------------------------------

UNREADING = """
import asyncio, sys, grpc.aio
async def main():
    # a window that no answer widens, and nothing reads
    options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65536)]
    channel = grpc.aio.insecure_channel(sys.argv[1], options=options)
    asked = [channel.unary_stream("/ragseal.v1.LedgerService/GetEntries")(b"\\x10\\x01") for _ in range(100)]
    waiting = [asyncio.ensure_future(one.wait_for_connection()) for one in asked]
    await asyncio.gather(*waiting, return_exceptions=True)
    print("asked", flush=True)
    while not all(one.done() for one in asked):
        await asyncio.sleep(0.05)
    print("over", flush=True)
asyncio.run(main())
"""


def test_answers_that_nobody_reads_end_and_do_not_fill_the_memory() -> None:
    """They lay in memory until the caller went: 248 small questions held 600 MiB, for as long as it pleased."""

    async def run() -> None:
        async with (
            _serving(Limits(unread_of_one=4 << 20, send=2.0, slowest=1 << 30)) as port,
            open_channel(f"[::1]:{port}") as auditor,
        ):
            entries = ledger_pb2_grpc.LedgerServiceStub(auditor).GetEntries
            request = ledger_pb2.GetEntriesRequest(count=1)
            before = _resident()
            stranger = await asyncio.create_subprocess_exec(
                sys.executable, "-c", UNREADING, f"127.0.0.1:{port}", stdout=asyncio.subprocess.PIPE
            )
            try:
                assert stranger.stdout is not None
                assert await asyncio.wait_for(stranger.stdout.readline(), 5) == b"asked\n"
                held = _resident() - before
                assert held < 40 << 20, f"{held >> 20} MiB are held for one machine"
                for _ in range(4):
                    assert len((await call(entries, request, "the provider", 5)).entries[0]) == 1 << 20
                assert await asyncio.wait_for(stranger.stdout.readline(), 8) == b"over\n"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    stranger.kill()
                await stranger.wait()

    asyncio.run(run())


def test_one_machine_does_not_use_up_what_all_may_leave_unread() -> None:
    async def run() -> None:
        gate, ended = Gate(Limits(unread=100, unread_of_one=50, small=1)), asyncio.Event()

        class Context:
            async def write(self, data: bytes) -> None:
                await ended.wait()

        async def send(caller: str, size: int) -> asyncio.Task[None]:
            task = asyncio.ensure_future(gate.send(Context(), caller, bytes(size)))
            await asyncio.sleep(0)
            return task

        under_way = [await send("a", 30), await send("b", 60)]  # the first of a machine may be longer than its share
        for caller, size in (("a", 30), ("b", 2), ("c", 20)):
            with pytest.raises(BudgetError, match="wait to be read"):
                await (await send(caller, size))
        under_way += [await send("a", 1), await send("c", 10)]
        (cancelled := under_way[0]).cancel()
        await asyncio.sleep(0)
        with pytest.raises(BudgetError):
            await (await send("a", 30))  # gRPC still holds what the cancelled call wrote
        ended.set()
        await asyncio.gather(*under_way, return_exceptions=True)
        assert cancelled.cancelled()
        assert not gate._unread
        await (await send("c", 100))

    asyncio.run(run())


def _resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class _Ledger(ledger_pb2_grpc.LedgerServiceServicer):
    @answers
    async def GetCheckpoint(self, request: Any, context: Any) -> Any:
        return ledger_pb2.GetCheckpointResponse(checkpoint=b"a note")

    @answers
    async def GetEntries(self, request: Any, context: Any) -> Any:
        return ledger_pb2.GetEntriesResponse(entries=[os.urandom(1 << 20)])


@contextlib.asynccontextmanager
async def _serving(
    given: Limits, reflect: bool = False, credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[int]:
    """The port of a server of a small ledger."""
    server = new_server(given)
    ledger_pb2_grpc.add_LedgerServiceServicer_to_server(_Ledger(), server)  # type: ignore[no-untyped-call]
    if reflect:
        reflection.enable_server_reflection((reflection.SERVICE_NAME,), server)
    port = bind(server, "[::]:0", credentials, plain=True)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)
