# SPDX-License-Identifier: GPL-3.0-or-later
"""Callers that do not read, and what a server does to be rid of them.  Each test was red before its fix."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
import types
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ragseal.kernel import signature
from ragseal.kernel.beacon import Seat
from ragseal.kernel.errors import BudgetError, LedgerError
from ragseal.kernel.inquiry import BlocksAsk, ProofsAsk
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteSigner
from ragseal.prover import service
from ragseal.prover.attestation.deliveries import ASKS_AT_ONCE, Deliveries
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.limits import RETRIEVES_AT_ONCE
from ragseal.prover.service import Listening, Server
from ragseal.prover.serving import ServeOptions
from ragseal.prover.storage.window import Stage
from ragseal.runtime import gate, rpc
from ragseal.runtime.gate import Gate
from ragseal.runtime.health import Health
from ragseal.runtime.limits import Limits
from ragseal.runtime.peers import end_connections
from ragseal.runtime.rpc import answers, bind, call, new_server, open_channel
from ragseal.v1 import ledger_pb2, ledger_pb2_grpc, provider_pb2
from tests.attacks.raw import RawCaller
from tests.attacks.test_exhaustion import no_descriptors
from tests.simulator import provider as scene

pytestmark = pytest.mark.slow

LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
SERVICE = "/ragseal.v1.LedgerService"
WATCH = "/grpc.health.v1.Health/Watch"
LONG = "é" * 950  # in a status, three bytes for one


class _Ledger(ledger_pb2_grpc.LedgerServiceServicer):
    def __init__(self) -> None:
        self.asked = 0
        self.waited_for, self.go_on = asyncio.Event(), asyncio.Event()

    @answers
    async def GetCheckpoint(self, request: Any, context: Any) -> Any:
        return ledger_pb2.GetCheckpointResponse(checkpoint=b"a note")

    @answers
    async def GetEntries(self, request: Any, context: Any) -> Any:
        return ledger_pb2.GetEntriesResponse(entries=[os.urandom(1 << 18)] * max(1, request.count))

    @answers
    async def GetConsistencyProof(self, request: Any, context: Any) -> Any:
        self.waited_for.set()
        await self.go_on.wait()
        return ledger_pb2.GetConsistencyProofResponse()

    @answers
    async def GetInclusionProof(self, request: Any, context: Any) -> Any:
        self.asked += 1
        raise LedgerError(LONG)


@contextlib.asynccontextmanager
async def _serving(given: Limits) -> AsyncIterator[tuple[int, Any, _Ledger]]:
    """Port, server and servicer."""
    server, ledger, health = new_server(given), _Ledger(), Health("it")
    ledger_pb2_grpc.add_LedgerServiceServicer_to_server(ledger, server)  # type: ignore[no-untyped-call]
    health.mount(server)
    health.say(True)
    port = bind(server, "[::]:0", plain=True)
    await server.start()
    try:
        yield port, server, ledger
    finally:
        await server.stop(0)


async def _answered(port: int, seconds: float) -> None:
    async with open_channel(f"127.0.0.1:{port}") as channel:
        stub = ledger_pb2_grpc.LedgerServiceStub(channel)
        await call(stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest(), "the provider", seconds)


# --- ending a connection ---------------------------------------------------------------------------------------------


def test_ending_a_connection_takes_no_descriptor(tmp_path: Path) -> None:
    """Every file and pipe was duplicated for good: each search doubled them, and the sixteenth took all that were."""
    names = [f"ipv4:192.0.2.7:{number}" for number in (1, 2)]
    with (tmp_path / "file").open("wb"), socket.create_server(("127.0.0.1", 0)) as listening:
        pipe = os.pipe()
        mine = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
        before = sorted(os.listdir("/proc/self/fd"))
        assert [end_connections(names) for _ in range(3)] == [0, 0, 0]
        assert end_connections([*names, f"ipv4:127.0.0.1:{mine.getsockname()[1]}"]) == 1
        assert sorted(os.listdir("/proc/self/fd")) == before
        mine.settimeout(5)
        assert mine.recv(1) == b"", "the connection has ended, and its descriptor is still its owner's"
        theirs.close()
        mine.close()
        for descriptor in pipe:
            os.close(descriptor)


def test_a_connection_is_ended_where_no_descriptor_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        mine = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
        with no_descriptors():
            assert end_connections([f"ipv4:127.0.0.1:{mine.getsockname()[1]}"]) == 1
        theirs.close()
        mine.close()


@pytest.mark.parametrize("what", ["answers", "statuses"])
def test_a_connection_that_was_not_found_is_looked_for_again(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls kept their places for as long as their caller pleased."""
    looked: list[int] = []
    seeing = False

    def look(peers: Any) -> int:
        looked.append(len(peers))
        return end_connections(peers) if seeing else 0

    monkeypatch.setattr(gate, "end_connections", look)

    async def run() -> None:
        nonlocal seeing
        given = Limits(calls_of_one=8, send=1.0, slowest=1 << 30 if what == "answers" else 1)
        async with _serving(given) as (port, _, _):
            caller = RawCaller(port, buffer=2304, window=0 if what == "answers" else 1 << 30, room=1 << 30)
            wide = ledger_pb2.GetEntriesRequest(count=32).SerializeToString()
            caller.call(f"{SERVICE}/GetEntries", wide)
            await asyncio.sleep(0.5)  # which fills every buffer
            for _ in range(7):
                caller.call(f"{SERVICE}/{'GetEntries' if what == 'answers' else 'GetInclusionProof'}")
            await asyncio.sleep(1.9)
            assert looked
            with pytest.raises(BudgetError):
                await _answered(port, 5)
            seeing = True
            await asyncio.sleep(1.5)
            await _answered(port, 5)
            caller.close()

    asyncio.run(run())


def test_ending_a_connection_leaves_databases_their_locks(tmp_path: Path) -> None:
    """POSIX drops a process's locks on a file when it closes any descriptor of it, a duplicate too."""
    state = scene.new_state(tmp_path / "state")
    with state.transaction() as db:
        db.execute("INSERT INTO ask_floors VALUES (?, ?)", (b"a" * 32, 1))
    try:
        with Log.create(tmp_path / "log", LOG) as log:
            log.append_now([lambda _: b"an entry"])
            end_connections(["ipv4:192.0.2.7:1"])
            assert "database is locked" in _outside(tmp_path / "log" / "log.sqlite")
            assert "is locked" not in _outside(tmp_path / "state" / "state.db")
            assert (tmp_path / "state" / "state.db-wal").stat().st_size
            log.append_now([lambda _: b"another one"])
            log.fsck()
    finally:
        state.close()


def _outside(path: Path) -> str:
    """What another process says that opens and closes a database."""
    code = (
        "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], timeout=0.2)\n"
        "try:\n  print(db.execute('SELECT COUNT(*) FROM sqlite_master').fetchall())\n"
        "except sqlite3.Error as error:\n  print(error)\ndb.close()"
    )
    return subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout


# --- calls that do not end -------------------------------------------------------------------------------------------


def test_nobody_watches_health_and_the_place_is_free_again() -> None:
    """Each Watch kept its place and its request for good: eight addresses had all places, with 38 MiB each."""

    async def run() -> None:
        async with _serving(Limits(calls_of_one=2)) as (port, _, _), open_channel(f"127.0.0.1:{port}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            for number in range(6):
                watch = stub.Watch(health_pb2.HealthCheckRequest(service=f"{number}" * 100_000))
                assert await asyncio.wait_for(watch.code(), 5) == grpc.StatusCode.UNIMPLEMENTED
            for name in ("", "it", "grpc.health.v1.Health"):
                found = await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
                assert found.status == health_pb2.HealthCheckResponse.SERVING
            with pytest.raises(grpc.RpcError) as refused:
                await stub.Check(health_pb2.HealthCheckRequest(service="nothing"), timeout=5)
            assert refused.value.code() == grpc.StatusCode.NOT_FOUND

    asyncio.run(run())


def test_a_provider_stops_though_its_watchers_do_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Watchers were written to under a lock that the end of the server takes as well: it never came."""

    async def run() -> None:
        provider = scene.open_provider(tmp_path)
        provider.commit(scene.make_policy(), "w1")
        rules = ServeOptions(False, 0.0, BeaconRules(1, 5.0), publish=0)
        server = Server(provider, rules, Listening("127.0.0.1:0"))
        await server.start()
        try:
            callers = [RawCaller(int(server.address.rpartition(":")[2]), window=0) for _ in range(3)]
            for one in callers:
                one.call(WATCH)
            await asyncio.sleep(0.3)
            async with open_channel(server.address) as channel:
                watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
                assert await asyncio.wait_for(watch.code(), 5) == grpc.StatusCode.UNIMPLEMENTED
            monkeypatch.setattr(service, "GRACE", 1.0)  # which a connection that answers no ping takes all of
            await asyncio.wait_for(server.stop(), 2)
            for one in callers:
                one.close()
        finally:
            provider.close()

    asyncio.run(run())


def test_a_server_stops_though_answers_are_not_read() -> None:
    async def run() -> None:
        async with _serving(Limits(send=60.0)) as (port, server, _):
            callers = [RawCaller(port, window=0) for _ in range(3)]
            for one in callers:
                one.call(f"{SERVICE}/GetEntries")
            await asyncio.sleep(0.3)
            await asyncio.wait_for(server.stop(1.0), 2)
            for one in callers:
                one.close()

    asyncio.run(run())


@pytest.mark.parametrize("pause", [0.001, 0.0], ids=["slowly", "at once"])
@pytest.mark.parametrize("path", [f"{SERVICE}/GetInclusionProof", f"{SERVICE}/Nothing"], ids=["refused", "unknown"])
def test_statuses_that_nobody_reads_keep_no_places(path: str, pause: float, caplog: pytest.LogCaptureFixture) -> None:
    """A status waits for room as an answer does; nobody waited for its end, and nobody else found a place."""

    async def run() -> None:
        async with _serving(Limits(calls=64, calls_of_one=8, send=1.0)) as (port, _, ledger):
            caller = RawCaller(port, source="127.0.0.2", buffer=2048)
            caller.socket.settimeout(0.5)

            def flood() -> None:
                with contextlib.suppress(OSError):
                    for number in range(20_000):
                        caller.call(path if number % 2 else f"{SERVICE}/GetInclusionProof")  # which fills every buffer
                        if number % 4 == 0:
                            time.sleep(pause)

            flooding = asyncio.create_task(asyncio.to_thread(flood))
            try:
                for _ in range(12):
                    await _answered(port, 3)
                    await asyncio.sleep(0.3)
                assert await asyncio.wait_for(flooding, 10) is None
                assert ledger.asked < 5000, "the connection was never blocked"
            finally:
                caller.close()
                await flooding

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert [one for one in caplog.records if "connections of 127.0.0.2 end" in one.getMessage()]
    assert not [one.getMessage() for one in caplog.records if one.exc_info or one.levelno >= logging.ERROR]


def test_who_shares_an_address_with_a_flood_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection of the call that came last was ended, and with it every answer that its caller waited for."""
    ended, real = set[str](), Gate.end

    def end(self: Gate, peer: str) -> None:
        ended.add(peer)
        real(self, peer)

    monkeypatch.setattr(Gate, "end", end)

    async def run() -> None:
        async with _serving(Limits(calls_of_one=8)) as (port, _, ledger), open_channel(f"127.0.0.1:{port}") as channel:
            stub = ledger_pb2_grpc.LedgerServiceStub(channel)
            slow = asyncio.ensure_future(
                call(stub.GetConsistencyProof, ledger_pb2.GetConsistencyProofRequest(), "it", 10)
            )
            await asyncio.wait_for(ledger.waited_for.wait(), 5)
            caller = RawCaller(port, buffer=2304, window=1 << 30, room=1 << 30)
            flood = f"ipv4:127.0.0.1:{caller.socket.getsockname()[1]}"
            caller.call(f"{SERVICE}/GetEntries", ledger_pb2.GetEntriesRequest(count=32).SerializeToString())
            await asyncio.sleep(0.5)  # which fills every buffer
            for _ in range(14):
                caller.call(f"{SERVICE}/Nothing")
            await asyncio.sleep(0.5)  # sixteen calls are under way
            assert not ended
            with pytest.raises(BudgetError):
                await call(stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest(), "it", 5)
            await asyncio.sleep(0.5)
            assert ended == {flood}
            await call(stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest(), "it", 5)
            ledger.go_on.set()
            await slow
            caller.close()

    asyncio.run(run())


# --- an auditor's asks -----------------------------------------------------------------------------------------------


def test_asks_that_are_broken_off_count_until_their_work_ends() -> None:
    """They were counted until the call ended: an auditor that asks and breaks off had work, and memory, without end."""
    key = Ed25519PrivateKey.generate()
    manifest = types.SimpleNamespace(auditors=[Seat("auditor", signature.public_bytes(key))], window="w")
    window, shown, asked = types.SimpleNamespace(manifest=manifest, stage=Stage.CLOSED), [20_000], list[int]()

    class State:
        def rows(self, *_: Any) -> list[Any]:
            return []

        def row(self, *_: Any) -> tuple[bytes]:
            return (bytes(range(32)),)  # the window's signing key

        @contextlib.contextmanager
        def transaction(self, durable: bool = True) -> Any:
            yield types.SimpleNamespace(execute=lambda *_: None)

    class Proofs:
        def batch(self, manifest: bytes, seqs: tuple[int, ...], wanted_still: Any) -> bytes:
            asked.append(len(seqs))
            time.sleep(1)
            return b""

    async def run() -> None:
        history = types.SimpleNamespace(window=lambda _: window, newest=object())
        journal = types.SimpleNamespace(history=history, published_records=lambda _: shown[0])
        deliveries = Deliveries(State(), journal, Proofs(), None, lambda: scene.NOW)  # type: ignore[arg-type]
        before = len(asyncio.all_tasks())

        def ask() -> asyncio.Task[bytes]:
            one = ProofsAsk(bytes(32), scene.NOW, os.urandom(16), ())
            return asyncio.create_task(deliveries.answer(one, one.sign(key)))

        for number in range(50):
            task = ask()
            await asyncio.sleep(0.005)
            if number >= ASKS_AT_ONCE:
                with pytest.raises(BudgetError, match="asks of this auditor"):
                    await task
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert len(asyncio.all_tasks()) - before <= ASKS_AT_ONCE
        assert len(deliveries._asked) == ASKS_AT_ONCE, "an ask that is refused is not kept"
        shown[0] += 1
        while deliveries._waiting:
            await asyncio.sleep(0.05)
        assert await ask()
        assert asked == [20_000, 20_001], "the list is made when the turn has come, and only then"

    asyncio.run(run())


def test_retrievals_that_are_broken_off_count_until_their_work_ends(tmp_path: Path) -> None:
    """The work of a Retrieve goes on when its caller goes: an account that breaks off had as much as it asked for."""

    async def run() -> None:
        async with scene.window_on(tmp_path) as serving:
            window, alice = scene.newest(serving), scene.Asker("alice", serving)
            message = alice.message("a question")
            signed = alice.request(message, await alice.prepare(message))
            async with serving.attestation._lock(window, alice.pseudonym):  # as long as an old window is loaded
                for number in range(RETRIEVES_AT_ONCE + 20):
                    task = asyncio.create_task(alice.retrieve(signed))
                    await asyncio.sleep(0.002)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError if number < RETRIEVES_AT_ONCE else BudgetError):
                        await task
                assert len(serving.attestation._running) == RETRIEVES_AT_ONCE
                bob = scene.Asker("bob", serving)
                await bob.ask("another account's question")
            await serving.attestation.drain()
            assert not serving.attestation._retrieves
            assert window.counters[alice.pseudonym] == 1, "the work of the first is done all the same"

    asyncio.run(run())


# --- the log ---------------------------------------------------------------------------------------------------------

SERVING = """
import asyncio, importlib, sys
importlib.import_module("ragseal." + sys.argv[1])  # as `python -m` and the installed commands do, before all else
importlib.import_module(f"ragseal.{sys.argv[1]}.__main__")
import grpc
from ragseal.runtime.rpc import bind, new_server
async def main():
    server = new_server()
    print(bind(server, "127.0.0.1:0"), flush=True)
    await server.start()
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)
asyncio.run(main())
"""


@pytest.mark.parametrize(("part", "verbosity"), [("prover", None), ("verifier", None), ("verifier", "ERROR")])
def test_compressed_requests_do_not_fill_the_log(part: str, verbosity: str | None) -> None:
    """gRPC's core wrote a line of its own for each of them, past the gate."""
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    if verbosity is not None:
        environment["GRPC_VERBOSITY"] = verbosity
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", SERVING, part], env=environment, text=True, **pipes) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())

        async def ask() -> None:
            async with open_channel(f"127.0.0.1:{port}") as channel:
                asked = channel.unary_unary(f"{SERVICE}/GetCheckpoint")
                for _ in range(10):
                    calls = [asked(b"", timeout=10, compression=grpc.Compression.Gzip) for _ in range(100)]
                    found = await asyncio.gather(*calls, return_exceptions=True)
                    assert all(isinstance(one, grpc.RpcError) for one in found)

        asyncio.run(ask())
        _, written = server.communicate(timeout=20)
    assert server.returncode == 0, written
    assert (len(written) < 4096) is (verbosity is None), written[-2000:]


# --- requests --------------------------------------------------------------------------------------------------------


def test_a_request_has_a_mib_at_most_and_is_not_unpacked() -> None:
    """One machine's requests of 4 MiB came to 1 GiB that nobody counted."""
    blocks = tuple(tuple(range(first, first + 256)) for first in range(64))
    for largest in (
        ProofsAsk(bytes(32), scene.NOW, bytes(16), tuple(range(1 << 16))),
        BlocksAsk(bytes(32), scene.NOW, bytes(16), bytes(32), "t" * 64, blocks),
    ):
        request = provider_pb2.AskRequest(canonical=largest.encode(), signature=bytes(64))
        assert request.ByteSize() < rpc.MAX_REQUEST_BYTES

    async def run() -> None:
        async with _serving(Limits()) as (port, _, _), open_channel(f"127.0.0.1:{port}") as channel:
            ask = channel.unary_unary(f"{SERVICE}/GetCheckpoint")
            for message, compression, code in (
                (bytes(2 << 20), None, grpc.StatusCode.RESOURCE_EXHAUSTED),
                (b"", grpc.Compression.Gzip, None),
            ):
                with pytest.raises(grpc.RpcError) as refused:
                    await ask(message, timeout=5, compression=compression)
                assert code in (None, refused.value.code()), refused.value
            assert await ask(b"\x1a\x80\x80\x3c" + bytes(15 << 16), timeout=5)  # an unknown field of 960 KiB

    asyncio.run(run())
