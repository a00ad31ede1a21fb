# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hostile reading of the closed holes still found: each test was red before its fix."""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from ragseal.kernel import signature
from ragseal.kernel.commitment import AccountAsk, WindowClose
from ragseal.kernel.errors import AttestationError, AuditError, BudgetError
from ragseal.kernel.inquiry import Ask, LinksAsk, RegistryAsk
from ragseal.prover.serving.deliveries import ASKS_AT_ONCE
from ragseal.runtime.limits import Limits
from ragseal.runtime.rpc import answers, bind, call, new_server, open_channel
from ragseal.runtime.statuses import error_of
from ragseal.v1 import ledger_pb2, ledger_pb2_grpc
from ragseal.verifier.audit import audit, verification
from ragseal.verifier.audit.audit import read_receipts
from ragseal.verifier.cli import audit_command
from ragseal.verifier.evidence.patience import final
from ragseal.verifier.outcome.outcome import FAIL, PASS, Neighbour, Verdict
from tests.simulator import CLOSES, GROUP, NOW, SimulatedEvidence, World, policy
from tests.simulator import provider as scene
from tests.verifier.test_verdicts import Desk, bad

pytestmark = pytest.mark.slow

# --- strangers take every place of a server --------------------------------------------------------------------------


class _Checkpoints(ledger_pb2_grpc.LedgerServiceServicer):
    @answers
    async def GetCheckpoint(self, request: Any, context: Any) -> Any:
        return ledger_pb2.GetCheckpointResponse(checkpoint=b"a note")


def test_calls_that_never_send_a_request_take_no_place_for_good() -> None:
    """One connection, as many calls as a server has places, headers only; the auditor calls from another machine."""

    async def run() -> None:
        server = new_server()
        ledger_pb2_grpc.add_LedgerServiceServicer_to_server(_Checkpoints(), server)  # type: ignore[no-untyped-call]
        port = bind(server, "[::]:0", plain=True)
        await server.start()
        try:
            async with open_channel(f"127.0.0.1:{port}") as stranger, open_channel(f"[::1]:{port}") as auditor:
                open_call = stranger.stream_unary("/ragseal.v1.LedgerService/GetCheckpoint")
                held = [open_call() for _ in range(300)]
                waiting = [asyncio.ensure_future(one.wait_for_connection()) for one in held]
                await asyncio.sleep(2)
                stub = ledger_pb2_grpc.LedgerServiceStub(auditor)
                found = await call(stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest(), "the provider", 10)
                assert found.checkpoint == b"a note"
                for one in (*held, *waiting):
                    one.cancel()
        finally:
            await server.stop(0)

    asyncio.run(run())


def test_a_call_without_a_request_ends() -> None:
    async def run() -> None:
        server = new_server(Limits(calls_of_one=4, read=0.5))
        ledger_pb2_grpc.add_LedgerServiceServicer_to_server(_Checkpoints(), server)  # type: ignore[no-untyped-call]
        port = bind(server, "127.0.0.1:0")
        await server.start()
        try:
            async with open_channel(f"127.0.0.1:{port}") as channel:
                stub = ledger_pb2_grpc.LedgerServiceStub(channel)
                held = [channel.stream_unary("/ragseal.v1.LedgerService/GetCheckpoint")() for _ in range(4)]
                waiting = [asyncio.ensure_future(one.wait_for_connection()) for one in held]
                await asyncio.sleep(0.2)
                with pytest.raises(BudgetError, match="calls of this machine"):
                    await call(stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest(), "it", 5)
                await asyncio.sleep(1)
                await call(stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest(), "it", 5)
                for one in waiting:
                    one.cancel()
        finally:
            await server.stop(0)

    asyncio.run(run())


# --- the auditor's asks ----------------------------------------------------------------------------------------------


def _in_a_window(folder: Path, act: Callable[[Any, Any], Any]) -> None:
    """``act(serving, window)`` on a provider with an open window."""

    async def run() -> None:
        async with scene.window_on(folder) as serving:
            await act(serving, scene.newest(serving))

    asyncio.run(run())


def _signed(ask: Ask) -> tuple[Ask, bytes]:
    return ask, ask.sign(scene.AUDITOR_KEY)


def test_an_ask_is_answered_once(tmp_path: Path) -> None:
    """G.8: whoever saw an ask on its way sends it again, for the names behind the pseudonyms or to take a place."""

    async def act(serving: Any, window: Any) -> None:
        ask, proof = _signed(RegistryAsk(window.digest, scene.NOW, secrets.token_bytes(16)))
        await serving.deliveries.answer(ask, proof)
        with pytest.raises(AttestationError, match="sent before"):
            await serving.deliveries.answer(ask, proof)
        serving.provider.environment.clock.now += 1201  # forgotten, but too old by then
        with pytest.raises(AttestationError, match="away from this provider's clock"):
            await serving.deliveries.answer(ask, proof)
        fresh, proof = _signed(RegistryAsk(window.digest, scene.NOW + 1201, secrets.token_bytes(16)))
        await serving.deliveries.answer(fresh, proof)
        assert len(serving.deliveries._asked) == 1

    _in_a_window(tmp_path, act)


def test_an_auditor_that_breaks_off_and_asks_again_leaves_threads_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links take minutes where a window is large; every interrupted audit left a thread behind that waited for them."""

    async def act(serving: Any, window: Any) -> None:
        await scene.Asker("alice", serving).ask("a question")
        await serving.close_window(window.digest, signature.sign(serving.provider.state.key, "close", window.digest))
        begun, free, threads, find = threading.Event(), threading.Event(), [], serving.estimates._make_links

        def slow(manifest: bytes) -> Any:
            begun.set()
            free.wait(60)
            return find(manifest)

        links = serving.estimates.links

        def counted(manifest: bytes) -> Any:
            threads.append(threading.get_ident())
            return links(manifest)

        monkeypatch.setattr(serving.estimates, "_make_links", slow)
        monkeypatch.setattr(serving.estimates, "links", counted)
        try:
            for number in range(40):
                ask = _signed(LinksAsk(window.digest, scene.NOW, secrets.token_bytes(16)))
                task = asyncio.create_task(serving.deliveries.answer(*ask))
                await asyncio.sleep(0.02)
                if not number:
                    await asyncio.to_thread(begun.wait, 10)
                task.cancel()
                with pytest.raises(asyncio.CancelledError if number < ASKS_AT_ONCE else BudgetError):
                    await task
            assert len(threads) == 1, f"{len(threads)} threads work on one list of links"
            await asyncio.wait_for(asyncio.to_thread(time.monotonic), 5)  # what every other call needs
            assert list(serving.deliveries._waiting.values()) == [ASKS_AT_ONCE]
        finally:
            free.set()
        while serving.deliveries._waiting:
            await asyncio.sleep(0.02)
        await scene.links(serving, window.digest)  # the next ask gets what was made meanwhile

    _in_a_window(tmp_path, act)


def test_reading_a_long_log_does_not_make_asks_old() -> None:
    """An ask's time was the audit's beginning plus what had passed since step 2, however long the log had taken."""
    world = World.honest()
    clock, asked = [0.0], []

    class Slow(SimulatedEvidence):
        def entries(self, start: int, stop: int) -> Any:
            clock[0] += 3600.0
            return super().entries(start, stop)

        def deliver(self, ask: Ask, proof: bytes) -> bytes:
            asked.append(ask.time)
            return super().deliver(ask, proof)

    around = verification.Environment(GROUP, NOW, lambda: clock[0], random.Random(1).randbytes)
    verdict = verification.audit(Slow(world), world.auditor(), around)
    assert verdict.verdict == PASS, verdict.line()
    assert asked
    assert all(abs(at - (NOW + clock[0])) < 600 for at in asked), asked


# --- what a verdict is read from -------------------------------------------------------------------------------------


@pytest.mark.parametrize("manifest", [b"m" * 32, b""], ids=["this window", "the log"])
def test_only_this_window_does_not_hide_its_own_fail_or_the_logs(manifest: bytes) -> None:
    verdict = Verdict(verdict=PASS, about=("w1", b"m" * 32), neighbours=(Neighbour("w1", manifest, FAIL),))
    assert audit_command.status_of(verdict, True, "") == audit_command.EXIT_OTHER_WINDOWS
    other = replace(verdict, neighbours=(Neighbour("w0", b"o" * 32, FAIL),))
    assert audit_command.status_of(other, True, "") == 0
    assert audit_command.status_of(other, False, "") == audit_command.EXIT_OTHER_WINDOWS


def test_a_failed_window_does_not_vanish_behind_a_later_period(tmp_path: Path) -> None:
    """The provider names the period's beginning: with a late one, the empty window behind a bad one passed quietly."""
    world = bad()
    world.messages[-1] = replace(world.messages[-1], time=CLOSES - 600)  # type: ignore[type-var]
    world.enter_manifest("w2", policy_=policy(opens=CLOSES, closes=CLOSES + 3600, period_start=CLOSES))
    world.enter_beacon()
    world.messages[-1] = replace(world.messages[-1], time=CLOSES + 60)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, CLOSES + 3000))
    desk = Desk(tmp_path / "auditor", world)
    assert desk.audit(window="w1").verdict == FAIL
    newest = desk.audit()
    assert newest.verdict == PASS
    assert " beside=w1:FAIL " in newest.line()
    assert audit_command.status_of(newest, False, "") == audit_command.EXIT_OTHER_WINDOWS


def test_brackets_in_what_a_peer_says_do_not_end_the_audit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A tenant called "[/x]", or "[/x]" in an error, was read as markup: a traceback, and never a verdict."""
    from click.testing import CliRunner
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ragseal.verifier.__main__ import main
    from ragseal.verifier.folder.state import State

    State.create(tmp_path / "auditor", Ed25519PrivateKey.generate())
    seen = []

    def talk(state: Any, target: Any, around: Any, terms: Any, out: Any) -> Any:
        around.progress(8, "proofs: waiting for the provider: it answers: busy [/x]")
        seen.append(True)
        return Verdict(origin="log"), {}

    monkeypatch.setattr(audit_command, "conduct", talk)
    vkey = World.honest().signer.verifier.vkey()
    where = ["--state", str(tmp_path / "auditor"), "--provider", "127.0.0.1:1", "--log-key", vkey]
    result = CliRunner().invoke(main, ["audit", *where, "--out", str(tmp_path / "report")])
    assert seen, result.exception


def test_receipts_of_an_account_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = World.honest().answers[0].encode()
    for number in range(5):
        (tmp_path / f"{number}.answer").write_bytes(answer)
    monkeypatch.setattr(audit, "MAX_RECEIPTS_BYTES", 2 * len(answer) + 1)
    given, aside = read_receipts(tmp_path)
    assert (len(given), len(aside)) == (2, 3)
    assert all("not read" in one.why for one in aside)


# --- who is registered -----------------------------------------------------------------------------------------------


def test_a_name_that_is_not_there_costs_as_much_as_one_that_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One text for both, but a signature was checked for registered names only: a clock told them apart."""

    async def act(serving: Any, window: Any) -> None:
        checks, verify = [], signature.verify

        def counted(*given: Any) -> None:
            checks.append(given)
            verify(*given)

        monkeypatch.setattr(signature, "verify", counted)
        said, work = set(), set()
        for name in ("alice", "nobody"):
            checks.clear()
            ask = AccountAsk(window.digest, name).encode()
            with pytest.raises(AuditError) as refused:
                await serving.own_lines.line(ask, signature.sign(scene.account_key("stranger"), "account", ask))
            said.add(str(refused.value))
            work.add(len(checks))
        assert (len(said), work) == (1, {1})

    _in_a_window(tmp_path, act)


def test_an_exported_receipt_names_nobody(tmp_path: Path) -> None:
    """An auditor's report lists the files that it was given: a name in theirs stood beside the record's pseudonym."""
    from ragseal.client.receipts import export, kept
    from tests.simulator.live import live

    with live(tmp_path / "stage") as stage, stage.client(name="alice") as client:
        client.ask("report number 5")
        (one,) = kept(client.state.directory)
        export(one, tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert len(names) == 4
    assert not [name for name in names if "alice" in name], names
    assert all(b"alice" not in path.read_bytes() for path in (tmp_path / "out").iterdir())


def test_a_certificate_that_nobody_trusts_is_not_waited_for() -> None:
    """A forgotten --ca is the auditor's own mistake; no waiting ends it, and it was waited for ten minutes."""
    refused = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE,
        grpc.aio.Metadata(),
        grpc.aio.Metadata(),
        "handshake failed: CERTIFICATE_VERIFY_FAILED",
    )
    assert final(error_of(refused, "the provider"))
