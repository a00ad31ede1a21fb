# SPDX-License-Identifier: GPL-3.0-or-later
"""How often one account and one machine may ask: nobody spends another's tokens, and who is early is told how early.

SPEC B.9.6 and G.7.11.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.beacon import Seat
from ragseal.kernel.errors import AttestationError, BudgetError, ConfigurationError
from ragseal.kernel.inquiry import BlocksAsk, ProofsAsk
from ragseal.ledger.remote import RemoteLedger
from ragseal.prover.base.limits import RETRIEVES_AT_ONCE
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.serving.deliveries import ASKS_AT_ONCE, Deliveries
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.storage.window import Stage
from ragseal.prover.wire.service import Listening, Server
from ragseal.runtime import retry_info, rpc
from ragseal.runtime.limits import Limits
from ragseal.runtime.rpc import call, open_channel
from ragseal.runtime.tokenbucket import Rate, Throttle
from ragseal.v1 import ledger_pb2, ledger_pb2_grpc, provider_pb2, provider_pb2_grpc
from tests.attacks.unread_scene import SERVICE, _serving
from tests.simulator import provider as scene
from tests.simulator.provider import Asker, Clock, account_key, make_policy, open_provider, open_window

HOURLY = Rate.parse("2/h")


@asynccontextmanager
async def limited(folder: Path, account: Rate | None = None, peer: Rate | None = None) -> AsyncIterator[Server]:
    """A provider with an open window over gRPC."""
    provider = open_provider(folder / "p", Clock())
    provider.commit(make_policy(), "w1")
    rules = BeaconRules(participants=2, wait=5.0)
    options = ServeOptions(False, 0.0, rules, 0.0, account_rate=account, peer_rate=peer)
    server = Server(provider, options, Listening("127.0.0.1:0"))
    await server.start()
    try:
        await open_window(server.serving)
        yield server
    finally:
        await server.stop()
        provider.close()


async def prepared(serving: Any, asker: Asker, query: str, signer: str = "") -> bytes:
    """A Prepare with a signature of its account, or of somebody else."""
    canonical = asker.message(query).encode()
    key = account_key(signer or asker.name)
    answer: bytes = (await serving.attestation.prepare(canonical, signature.sign(key, "prepare", canonical))).canonical
    return answer


@pytest.mark.slow
def test_only_what_an_account_signs_anew_counts_and_what_it_began_is_finished(tmp_path: Path) -> None:
    async def scene() -> None:
        async with limited(tmp_path, HOURLY) as server:
            serving = server.serving
            alice, bob = Asker("alice", serving), Asker("bob", serving)
            for number in range(20):
                with pytest.raises(AttestationError, match="signature"):
                    await prepared(serving, alice, f"query {number}", signer="bob")
            first = alice.message("one")
            canonical = first.encode()
            proof = signature.sign(alice.key, "prepare", canonical)
            for _ in range(5):  # a lost reply is asked for again
                await serving.attestation.prepare(canonical, proof)
            await alice.ask("one")
            for _ in range(5):  # somebody on the line sends the same bytes
                await serving.attestation.prepare(canonical, proof)
                serving.attestation._pending.drop(first.manifest, first.account, first.request_id)
            second = alice.message("two")
            held = await alice.prepare(second)
            with pytest.raises(BudgetError, match="this account asks too often: ask again in ") as refused:
                await prepared(serving, alice, "three")
            assert refused.value.retry_after_ms == pytest.approx(1_800_000, abs=60_000)
            await alice.retrieve(alice.request(second, held))  # what was prepared is answered
            await bob.ask("one")  # nobody else's bucket
            serving.limit(None, None)
            alice.ctr = 2
            await prepared(serving, alice, "three")
            serving.limit(HOURLY, None)
            serving.limit(Rate.parse("1000/h"), None)

    asyncio.run(scene())


@pytest.mark.slow
def test_whoever_is_early_is_told_how_early_as_every_grpc_library_reads_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with limited(tmp_path, Rate.parse("1/h")) as server, open_channel(server.address) as channel:
            stub = provider_pb2_grpc.ProviderServiceStub(channel)
            alice = Asker("alice", server.serving)

            def request(query: str) -> Any:
                canonical = alice.message(query).encode()
                proof = signature.sign(alice.key, "prepare", canonical)
                return provider_pb2.PrepareRequest(canonical=canonical, signature=proof)

            await stub.Prepare(request("one"))
            with pytest.raises(grpc.aio.AioRpcError) as raw:
                await stub.Prepare(request("two"))
            assert raw.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            found = dict(raw.value.trailing_metadata() or ())
            assert retry_info.seconds_of(found[retry_info.KEY]) == pytest.approx(3600, abs=60)
            with pytest.raises(BudgetError) as refused:
                await call(stub.Prepare, request("two"), "p")
            assert refused.value.retry_after_ms == pytest.approx(3_600_000, abs=60_000)
            with pytest.raises(AttestationError):  # another refusal has no such details
                await call(stub.GetRecords, provider_pb2.GetRecordsRequest(manifest=alice.message("x").manifest), "p")

    asyncio.run(scene())


@pytest.mark.slow
def test_a_machine_that_calls_too_often_is_refused_and_readers_come_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with limited(tmp_path, peer=Rate.parse("3/s")) as server, open_channel(server.address) as channel:
            stub = ledger_pb2_grpc.LedgerServiceStub(channel)
            calls = (call(stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest(), "p") for _ in range(12))
            outcomes = [*await asyncio.gather(*calls, return_exceptions=True)]
            refused = [one for one in outcomes if isinstance(one, BudgetError)]
            assert 3 <= len(outcomes) - len(refused) < 12
            assert all("this machine calls too often" in str(one) for one in refused)
            remote = RemoteLedger(channel)
            for _ in range(5):  # auditors, observers and accounts read the ledger by this
                await remote.checkpoint()
            server.serving.limit(None, None)
            for _ in range(12):
                await call(stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest(), "p")

    asyncio.run(scene())


@pytest.mark.asyncio
async def test_a_reader_waits_no_longer_than_it_would_have_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[float] = []

    async def refused(left: float) -> None:
        made.append(left)
        raise BudgetError("early", retry_after_ms=0 if len(made) < 3 else 100_000)

    with pytest.raises(BudgetError):
        await rpc.patiently(refused, 5.0)
    assert len(made) == 3
    assert made == sorted(made, reverse=True)
    made.clear()

    async def plainly(left: float) -> None:
        made.append(left)
        raise BudgetError("the budget is spent")

    with pytest.raises(BudgetError):
        await rpc.patiently(plainly, 5.0)
    assert len(made) == 1


def test_rates_are_read_strictly_and_may_change() -> None:
    assert Rate.parse("30/m") == Rate(30, 60.0)
    assert Rate.optional(None) is None
    assert str(Rate.parse("30/m")) == "30/m"
    for text in ("", "30", "0/s", "-1/s", "1/d", "1.5/s", "30/m ", "٣/s", "1" * 8 + "/s"):
        with pytest.raises(ConfigurationError, match="write 5/s"):
            Rate.parse(text)
    clock = [0.0]
    throttle = Throttle("too often", clock=lambda: clock[0])
    for _ in range(100):
        throttle.take("a")
    throttle.allow(Rate(2, 60.0))
    throttle.take("a")
    throttle.take("a")
    with pytest.raises(BudgetError):
        throttle.take("a")
    throttle.allow(Rate(5, 1.0))  # what is in a bucket stays: a change gives nobody a full one
    with pytest.raises(BudgetError):
        throttle.take("a")
    clock[0] = 1.0
    for _ in range(5):
        throttle.take("a")
    throttle.allow(Rate(1, 3600.0))
    with pytest.raises(BudgetError):
        throttle.take("a")


@pytest.mark.slow
def test_limits_change_while_a_provider_serves_and_a_bad_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with limited(tmp_path, HOURLY) as server:
            alice = Asker("alice", server.serving)
            for query in ("one", "two"):
                await prepared(server.serving, alice, query)

            def bad() -> Any:
                raise ConfigurationError("serve.toml is not TOML")

            server.reload(bad)
            assert caplog.messages[-1] == "THE LIMITS STAY AS THEY ARE: serve.toml is not TOML"
            with pytest.raises(BudgetError):
                await prepared(server.serving, alice, "three")
            server.reload()
            with pytest.raises(BudgetError):
                await prepared(server.serving, alice, "three")
            server.reload(lambda: (None, None))
            await prepared(server.serving, alice, "three")

    asyncio.run(scene())


# Calls that are broken off count until their work ends; requests are bounded and fill no log.


# --- an auditor's asks -----------------------------------------------------------------------------------------------


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
