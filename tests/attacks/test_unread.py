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
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ragseal.kernel.errors import BudgetError
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteSigner
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.wire import service
from ragseal.prover.wire.service import Listening, Server
from ragseal.runtime import gate
from ragseal.runtime.gate import Gate
from ragseal.runtime.limits import Limits
from ragseal.runtime.peers import end_connections
from ragseal.runtime.rpc import call, open_channel
from ragseal.v1 import ledger_pb2, ledger_pb2_grpc
from tests.attacks.raw import RawCaller
from tests.attacks.test_exhaustion import no_descriptors
from tests.attacks.unread_scene import SERVICE, _answered, _serving
from tests.simulator import provider as scene

pytestmark = pytest.mark.slow
WATCH = "/grpc.health.v1.Health/Watch"


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


# How a server ends a connection: without a descriptor, without a lock, and again where it was not found.


LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))


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
