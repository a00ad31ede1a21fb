# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients in numbers, slow ones, vanishing ones and greedy ones; and two providers where one may be."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from bench import load
from bench.asker import Asker, Kept, provider_stub, retrieve
from ragseal.kernel.attestation import Answer
from ragseal.kernel.errors import BudgetError, ConfigurationError, LedgerError, TransportError
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.observer import AlarmError, Observer
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.witness import UnprovenError, Witness
from ragseal.prover.attestation.retrieval import encode_embedding
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.wire.service import Listening, Server
from ragseal.runtime.keyfile import load_key
from ragseal.runtime.rpc import open_channel
from ragseal.v1 import provider_pb2
from tests.classes import TINY
from tests.crash.crash_scene import examine, open_copy
from tests.simulator import provider as scene

pytestmark = pytest.mark.slow

Copy = Callable[..., Path]


@asynccontextmanager
async def serving(directory: Path, tick: float = 0.0, address: str = "127.0.0.1:0") -> AsyncIterator[Server]:
    """A copy's provider on a port of its own."""
    provider = open_copy(directory)
    provider.environment = type(provider.environment)(clock=scene.Clock(scene.NOW + 180))
    serve_options = ServeOptions(
        False, tick, BeaconRules(1, 5.0), publish=0
    )  # observers look at once at what was asked
    server = Server(provider, serve_options, Listening(address))
    try:
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
    finally:
        provider.close()


def account(name: str, server: Server, timeout: float = 30.0) -> Asker:
    """An account as it goes on in the newest window, with the answers it has."""
    window, serving = server.serving.journal.history.newest, server.serving
    assert window is not None
    made, me = Asker(name, scene.account_key(name), window.signed, timeout), scene.Asker(name, serving).pseudonym
    made.pseudonym = me
    for ctr in range(1, window.counters.get(me, 0) + 1):
        answer = scene.answered(serving, window, window.seq_of[me, ctr])
        sent = answer.record.signed.encode()
        proof = scene.signature.sign(made.key, "retrieve", sent)
        made.kept.append(Kept(sent, answer.encode(), proof, scene.SEAL_SECRET, 0.0, 0.0, 0.0))
        made.last_receipt = answer.receipt.digest()
    return made


def vector(query: str) -> bytes:
    return encode_embedding(scene.embed_with(scene.TrigramEmbedder())([query])[0])


async def ask(asker: Asker, stub: Any, query: str) -> Answer:
    return (await asker.ask(stub, query, vector(query))).open()


async def ask_for_ever(asker: Asker, stub: Any) -> None:
    while True:
        await ask(asker, stub, "report about topic 5")


def records(server: Server) -> int:
    window = server.serving.journal.history.newest
    assert window is not None
    return len(window.records)


def test_a_deadline_that_fires_after_the_append_costs_nothing(copy: Copy) -> None:
    """The answer waits for its tick, the record is in the ledger, the client is gone: it asks again."""
    directory = copy()

    async def run() -> None:
        async with serving(directory, tick=2.0) as server:
            channel = open_channel(server.address)
            stub, alice, before = provider_stub(channel), account("alice", server), records(server)
            alice.ready = [alice.prepare_message("report about topic 2", vector("report about topic 2"))]
            await alice._sign(stub, *alice.ready.pop())
            assert alice.signed is not None
            alice.timeout = 1.0
            with pytest.raises(TransportError, match="did not answer in time"):
                await alice.finish(stub)
            assert records(server) == before + 1
            alice.timeout = 30.0
            first = await alice.finish(stub)
            assert first.received == await retrieve(stub, first.sent, first.proof)
            assert records(server) == before + 1
            assert first.open().record.signed.encode() == first.sent
            assert (await ask(alice, stub, "report about topic 3")).record.seq == before + 1
            await channel.close()

    asyncio.run(run())
    assert examine(directory).findings == []


def test_slow_and_vanishing_clients_leave_the_others_served(copy: Copy) -> None:
    """Connections that say nothing, or half of something; calls that are dropped at every stage."""
    directory = copy()

    async def run() -> None:
        async with serving(directory, tick=0.2) as server:  # no answer within alice's patience
            host, _, port = server.address.rpartition(":")
            silent = [socket.create_connection((host, int(port))) for _ in range(40)]
            for number, connection in enumerate(silent):
                connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[: number % 25])
            channel = open_channel(server.address)
            stub, alice, carol = provider_stub(channel), account("alice", server, 0.02), account("carol", server)
            texts = [f"report about topic {i}" for i in range(30)]  # a fast server does them all: fewer than it allows
            for _, body, proof in [alice.prepare_message(text, vector(text)) for text in texts]:
                call = stub.Prepare(provider_pb2.PrepareRequest(canonical=body, signature=proof))
                await asyncio.sleep(0.002)
                call.cancel()
            with pytest.raises(TransportError):
                await ask_for_ever(alice, stub)
            began = asyncio.get_running_loop().time()
            assert (await ask(carol, stub, "report about topic 1")).record.signed.request.ctr == 2
            assert asyncio.get_running_loop().time() - began < 10
            for connection in silent:
                connection.close()
            await channel.close()

    asyncio.run(run())
    assert examine(directory).findings == []


def test_accounts_above_n_max_are_refused_on_the_wire_and_the_book_stays_right(copy: Copy) -> None:
    directory = copy()

    async def run() -> None:
        async with serving(directory) as server:
            channel = open_channel(server.address)
            stub, alice = provider_stub(channel), account("alice", server)
            n_max, before = alice.signed_manifest.manifest.policy.n_max, records(server)
            for number in range(n_max):
                await ask(alice, stub, f"report about topic {number}")
            with pytest.raises(BudgetError, match="n_max = 6"):
                await ask(alice, stub, "one more")
            _, body, proof = alice.prepare_message("one more", vector("one more"))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Prepare(provider_pb2.PrepareRequest(canonical=body, signature=proof))
            assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert records(server) == before + n_max
            again = await retrieve(stub, alice.kept[2].sent, alice.kept[2].proof)
            assert again == alice.kept[2].received  # what was answered is answered again, and costs nothing
            assert records(server) == before + n_max
            await channel.close()

    asyncio.run(run())
    report = examine(directory)
    assert report.findings == []
    assert report.checked["records"] == 4 + 6


def test_two_providers_on_one_ledger_or_one_port_are_refused(copy: Copy) -> None:
    directory, other = copy(), copy("other")

    async def run() -> None:
        async with serving(directory) as server:
            with pytest.raises(LedgerError, match="in use by another process"):
                open_copy(directory)
            line = (
                "import sys; from pathlib import Path; from tests.crash.crash_scene import open_copy; "
                "open_copy(Path(sys.argv[1]))"
            )
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *map(str, sys.path)])}
            child = subprocess.run(
                [sys.executable, "-c", line, str(directory)], capture_output=True, text=True, env=environment
            )
            assert child.returncode == 1
            assert "in use by another process" in child.stderr
            with pytest.raises(ConfigurationError, match="the port is taken"):
                async with serving(other, address=server.address):
                    pass
            shutil.rmtree(other / "ledger")
            (other / "ledger").symlink_to((directory / "ledger").resolve())
            with pytest.raises(LedgerError, match="in use by another process"):
                open_copy(other)

    asyncio.run(run())


def test_an_observer_convicts_a_provider_that_was_restored_whole(copy: Copy, tmp_path: Path) -> None:
    """Ledger and state from one backup agree with each other: only who remembers can tell, and does.

    That it shows an older log is suspicious and no proof, since anybody can replay an old note; once it goes on from
    there its own signatures convict it.
    """
    directory, older = copy(), copy("older")
    clock = scene.Clock(scene.NOW + 200)
    key = scene.account_key("observer")

    async def look(folder: Path, *questions: str) -> Any:
        async with serving(folder) as server:
            channel = open_channel(server.address)
            witness = Witness(tmp_path / "observer", NoteSigner("observer.example", key, COSIGNATURE))
            log = NoteSigner(scene.ORIGIN, load_key(folder / "log.pem")).verifier
            try:
                for question in questions:
                    await ask(account("alice", server), provider_stub(channel), question)
                return await Observer(RemoteLedger(channel), log, tmp_path / "observer", witness, clock).step()
            finally:
                witness.close()
                await channel.close()

    assert asyncio.run(look(directory, "report about topic 2")).first_contact
    with pytest.raises(UnprovenError, match="shows an older checkpoint"):
        asyncio.run(look(older))
    with pytest.raises(AlarmError, match="two different logs"):
        asyncio.run(look(older, "report about topic 3"))
    with pytest.raises(AlarmError, match="an alarm is standing"):  # nothing is cosigned until somebody has looked
        asyncio.run(look(older))


def test_an_observers_clock_that_jumps_back_raises_no_alarm(copy: Copy, tmp_path: Path) -> None:
    directory, clock = copy(), scene.Clock(time.time() - 700)  # the log holds cosignatures against its own clock

    async def run() -> None:
        async with serving(directory) as server:
            channel = open_channel(server.address)
            witness = Witness(
                tmp_path / "observer", NoteSigner("observer.example", scene.account_key("observer"), COSIGNATURE)
            )
            log = server.serving.provider.ledger.verifier
            observer = Observer(RemoteLedger(channel), log, tmp_path / "observer", witness, clock)
            alice, stub = account("alice", server), provider_stub(channel)
            assert (await observer.step()).delivered
            clock.now -= 500
            await ask(alice, stub, "report about topic 2")
            with pytest.raises(LedgerError, match="clock of this witness went backwards") as refused:
                await observer.step()
            assert not isinstance(refused.value, AlarmError)
            clock.now += 600
            await ask(alice, stub, "report about topic 3")
            assert (await observer.step()).delivered
            assert observer.alarm() is None
            witness.close()
            await channel.close()

    asyncio.run(run())


def test_a_short_load_leaves_the_record_book_right(tmp_path: Path) -> None:
    """The load bench itself, a few seconds of it: a real process, and its check of the book afterwards."""
    found = load.measure(tmp_path, TINY.name, clients=6, seconds=3.0, processes=1, serve=False)
    assert found["answers"] > 20
    book = found["record_book"]
    assert book["acknowledged"] == book["records"] >= found["answers"]
    assert found["p50_s"] <= found["p99_s"]
    assert found["provider_cpu_ms_per_answer"] > 0
    assert len(found["samples_s"]) == found["answers"]
