# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that n_max does not count: Prepares without Retrieve, old answers asked for again, callers that are gone."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel import proofs
from ragseal.kernel.errors import AttestationError, BudgetError
from ragseal.kernel.inquiry import ProofsAsk
from ragseal.prover.base.limits import PREPARES_A_QUERY, PREPARES_SPARE, REPEATS
from ragseal.prover.serving.deliveries import ASKS_AT_ONCE
from tests.simulator.provider import (
    AUDITOR_KEY,
    NOW,
    Asker,
    delivered,
    newest,
    opened,
    retrieved,
    window_on,
)

pytestmark = pytest.mark.slow


def test_prepares_without_a_retrieve_end(tmp_path: Path) -> None:
    async def run() -> None:
        async with window_on(tmp_path, n_max=1) as serving:
            alice, bob = Asker("alice", serving), Asker("bob", serving)
            last = alice.message("the last")
            for number in range(PREPARES_A_QUERY + PREPARES_SPARE):
                last = alice.message(f"question {number}", request_id=hashlib.sha256(bytes([number])).digest()[:16])
                await alice.prepare(last)
            with pytest.raises(BudgetError, match="finish those that are pending"):
                await alice.prepare(alice.message("one more"))
            await bob.ask("somebody else")
            signed = alice.request(last, await alice.prepare(last))  # a Prepare that is there costs nothing more
            assert opened(await retrieved(serving, signed.encode())).record.seq == 1

    asyncio.run(run())


def test_old_answers_are_not_asked_for_without_end(tmp_path: Path) -> None:
    async def run() -> None:
        async with window_on(tmp_path) as serving:
            alice = Asker("alice", serving)
            message = alice.message("topic 5")
            signed = alice.request(message, await alice.prepare(message)).encode()
            first = await retrieved(serving, signed)

            async def again_and_again() -> None:
                for _ in range(20 * REPEATS):
                    assert await retrieved(serving, signed) == first

            with pytest.raises(BudgetError, match="too often"):
                await again_and_again()
            await Asker("bob", serving).ask("somebody else")

    asyncio.run(run())


def test_work_whose_caller_has_gone_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An auditor that hangs up is not proven for, and leaves the place to its next ask."""

    async def run() -> None:
        async with window_on(tmp_path) as serving:
            window = newest(serving)
            alice = Asker("alice", serving)
            for number in range(4):
                await alice.ask(f"question {number}")
            begun, proven, prove = asyncio.Event(), [], serving.proofs.prove
            loop = asyncio.get_running_loop()

            def slow(manifest: bytes, seq: int) -> Any:
                proven.append(seq)
                loop.call_soon_threadsafe(begun.set)
                return prove(manifest, seq)

            monkeypatch.setattr(serving.proofs, "prove", slow)
            ask = ProofsAsk(window.digest, NOW, bytes(16), (0, 1, 2, 3))
            call = asyncio.create_task(serving.deliveries.answer(ask, ask.sign(AUDITOR_KEY)))
            await begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert sum(serving.deliveries._waiting.values()) == 1, "it counts until its work ends"
            await delivered(serving, ProofsAsk(window.digest, NOW, b"2" * 16, (3,)))  # comes after what was left of it
            assert proven in ([0, 3], [0, 1, 3]), "the dropped ask went on being proven"
            assert not serving.deliveries._waiting

    asyncio.run(run())


@pytest.mark.parametrize("at", ["case", "c_w", "hidden"])
def test_openings_whose_caller_has_gone_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """Records that are proven already cost their hints again, for nobody; the next ask waited behind that."""

    async def run() -> None:
        async with window_on(tmp_path) as serving:
            window = newest(serving)
            alice = Asker("alice", serving)
            for number in range(4):
                await alice.ask(f"question {number}")
            await delivered(serving, ProofsAsk(window.digest, NOW, bytes(16), (0, 1, 2, 3)))
            serving.proofs._delivered.clear()
            statements = serving.proofs._statements
            begun, gone, done, real = asyncio.Event(), threading.Event(), [], getattr(statements, at)
            loop = asyncio.get_running_loop()

            def watched(window: Any, *rest: Any) -> Any:
                done.append(rest[-1])
                loop.call_soon_threadsafe(begun.set)
                assert gone.wait(20)
                return real(window, *rest)

            monkeypatch.setattr(statements, at, watched)
            ask = ProofsAsk(window.digest, NOW, b"1" * 16, (0, 1, 2, 3))
            call = asyncio.create_task(serving.deliveries.answer(ask, ask.sign(AUDITOR_KEY)))
            await begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            gone.set()
            await delivered(serving, ProofsAsk(window.digest, NOW, b"2" * 16, (3,)))  # comes after what was left of it
            assert len(done) == 2, "the dropped ask was gone through to its end"

    asyncio.run(run())


def test_openings_take_turns_with_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with window_on(tmp_path) as serving:
            window = newest(serving)
            alice = Asker("alice", serving)
            for number in range(3):
                await alice.ask(f"question {number}")
            making, held = serving.proofs, []
            engine, verify = making._statements._engine, proofs.verify_link
            real = type(engine).hidden

            def watched(*arguments: Any) -> Any:
                held.append(making._turns._taken)
                return real(*arguments)

            monkeypatch.setattr(type(engine), "hidden", watched)
            monkeypatch.setattr(
                proofs, "verify_link", lambda *rest: (held.append(making._turns._taken), verify(*rest))[1]
            )
            await delivered(serving, ProofsAsk(window.digest, NOW, bytes(16), (0, 1, 2)))
            assert held == [True] * 7  # three proofs, three records opened, one link
            assert not making._turns._taken

    asyncio.run(run())


def test_one_auditor_has_so_many_asks_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with window_on(tmp_path) as serving:
            window = newest(serving)
            await Asker("alice", serving).ask("topic 5")
            asks = [ProofsAsk(window.digest, NOW, bytes([n]) * 16, (0,)) for n in range(ASKS_AT_ONCE + 1)]
            calls = [asyncio.create_task(serving.deliveries.answer(ask, ask.sign(AUDITOR_KEY))) for ask in asks]
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(isinstance(one, bytes) for one in done) == ASKS_AT_ONCE
            assert sum(isinstance(one, BudgetError) for one in done) == 1
            with pytest.raises(AttestationError, match="only an auditor of this window"):
                await serving.deliveries.answer(asks[0], bytes(64))

    asyncio.run(run())
