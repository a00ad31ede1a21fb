# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls that are broken off count until their work ends; requests are bounded and fill no log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.beacon import Seat
from ragseal.kernel.errors import BudgetError
from ragseal.kernel.inquiry import BlocksAsk, ProofsAsk
from ragseal.prover.base.limits import RETRIEVES_AT_ONCE
from ragseal.prover.serving.deliveries import ASKS_AT_ONCE, Deliveries
from ragseal.prover.storage.window import Stage
from ragseal.runtime import rpc
from ragseal.runtime.limits import Limits
from ragseal.runtime.rpc import open_channel
from ragseal.v1 import provider_pb2
from tests.attacks.unread_scene import SERVICE, _serving
from tests.simulator import provider as scene

pytestmark = pytest.mark.slow


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
