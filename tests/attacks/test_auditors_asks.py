# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks of auditors: answered once whatever restarts and clocks do, none in another's way, nothing before its time."""

from __future__ import annotations

import asyncio
import secrets
import threading
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.errors import AttestationError, TransportError
from ragseal.kernel.inquiry import ASK_SECONDS, Ask, LinksAsk, ProofsAsk, RegistryAsk
from ragseal.prover.attestation.asked import Asked
from ragseal.prover.workers.turns import Turns
from ragseal.verifier.evidence.patience import final
from tests.attacks.old_windows import auditor_of, old_windows
from tests.simulator import provider as scene

pytestmark = pytest.mark.slow


def registry_ask(manifest: bytes, time: float = scene.NOW) -> RegistryAsk:
    return RegistryAsk(manifest, int(time), secrets.token_bytes(16))


async def answer(serving: Any, ask: Ask, key: Any = scene.AUDITOR_KEY) -> bytes:
    return bytes(await serving.deliveries.answer(ask, ask.sign(key)))


# --- answered once ---------------------------------------------------------------------------------------------------


def test_an_ask_is_not_answered_again_after_a_restart(tmp_path: Path) -> None:
    """The clocks of auditor and provider may differ by minutes, either way."""
    asks = list[RegistryAsk]()

    async def before() -> None:
        provider = scene.open_provider(tmp_path)
        provider.commit(scene.make_policy(), "w1")
        async with scene.serving_on(provider) as serving:
            window = scene.newest(serving)
            asks.extend(registry_ask(window.digest, scene.NOW + ahead) for ahead in (0, 500, -500))
            for ask in asks:
                await answer(serving, ask)

    async def after() -> None:
        provider = scene.open_provider(tmp_path, scene.Clock(scene.NOW + 50))
        async with scene.serving_on(provider) as serving:
            for ask in asks:
                with pytest.raises(AttestationError, match="sent before"):
                    await answer(serving, ask)
                await answer(serving, registry_ask(ask.manifest, ask.time + 50))  # nobody is locked out

    asyncio.run(before())
    asyncio.run(after())


def test_a_clock_that_jumps_and_comes_back_forgets_nothing(tmp_path: Path) -> None:
    state = scene.new_state(tmp_path)
    fast, slow, manifest = b"f" * 32, b"s" * 32, bytes(32)
    old = registry_ask(manifest, scene.NOW + 500)  # of an auditor whose clock is ahead
    asked = Asked(state)
    asked.take(fast, old, scene.NOW)()
    asked.take(fast, registry_ask(manifest, scene.NOW + 90_000), scene.NOW + 90_000)()
    assert len(asked) == 1
    for known in (asked, Asked(state)):  # also after a restart
        with pytest.raises(TransportError, match="ask anew") as refused:
            known.take(fast, old, scene.NOW + 10)
        assert not final(refused.value)  # the auditor waits and asks anew by itself
        known.take(fast, registry_ask(manifest, scene.NOW + 511), scene.NOW + 11)()
        known.take(slow, registry_ask(manifest, scene.NOW - 500), scene.NOW + 12)()  # another's clock is another's
    state.close()


def test_asks_are_forgotten_when_their_time_does_no_more(tmp_path: Path) -> None:
    state = scene.new_state(tmp_path)
    asked = Asked(state)
    for number in range(5):
        at = scene.NOW + number * (ASK_SECONDS + 1)
        asked.take(b"a" * 32, registry_ask(bytes(32), at), at)()
        assert len(asked) == 1
        assert state.row("SELECT COUNT(*) FROM asks") == (1,)
    state.close()


# --- none in another's way -------------------------------------------------------------------------------------------


def test_an_old_windows_auditor_does_not_block_the_newest_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One ask may be for 65,536 proofs, and the next window's auditor got not even the registry in the meantime."""

    async def run() -> None:
        async with old_windows(tmp_path, 2) as on:
            (first, newest), serving = on.windows, on.serving
            begun, free, prove = threading.Event(), threading.Event(), serving.proofs.prove

            def slow(manifest: bytes, seq: int) -> Any:
                if manifest == first.digest:
                    begun.set()
                    assert free.wait(60)
                return prove(manifest, seq)

            monkeypatch.setattr(serving.proofs, "prove", slow)
            try:
                ask = ProofsAsk(first.digest, scene.NOW, bytes(16), (0,))
                first_proofs = asyncio.create_task(answer(serving, ask, auditor_of(1)))
                assert await asyncio.to_thread(begun.wait, 10)
                wanted = (
                    (registry_ask(newest.digest), 2),
                    (ProofsAsk(newest.digest, scene.NOW, bytes(16), (0,)), 2),
                    (LinksAsk(first.digest, scene.NOW, bytes(16)), 1),
                    (registry_ask(first.digest), 1),
                )
                for one, auditor in wanted:
                    assert await asyncio.wait_for(answer(serving, one, auditor_of(auditor)), 20)
            finally:
                free.set()
            assert await first_proofs

    asyncio.run(run())


def test_proofs_of_different_auditors_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with old_windows(tmp_path, 3, queries=3) as on:
            first, second, newest = on.windows
            order, begun, make = list[bytes](), threading.Event(), on.serving.proofs._make

            def noted(window: Any, *rest: Any) -> Any:
                order.append(window.digest)
                begun.set()
                return make(window, *rest)

            monkeypatch.setattr(on.serving.proofs, "_make", noted)
            calls = []
            for number, window in enumerate((first, second, newest), 1):
                ask = ProofsAsk(window.digest, scene.NOW, bytes(16), (0, 1, 2))
                calls.append(asyncio.create_task(answer(on.serving, ask, auditor_of(number))))
                assert await asyncio.to_thread(begun.wait, 10)
            await asyncio.gather(*calls)
            assert len(order) == 9
            for window in (second, newest):
                assert order.index(window.digest) < 6, "one auditor's proofs were all made before another's first"

    asyncio.run(run())


def test_a_turn_is_not_taken_again_while_somebody_waits() -> None:
    turns, order, waits = Turns(), list[str](), threading.Event()

    def second() -> None:
        waits.set()
        with turns:
            order.append("second")

    other = threading.Thread(target=second)
    with turns:
        other.start()
        assert waits.wait(10)
        while not turns._waiting:
            pass
    for _ in range(3):
        with turns:
            order.append("first")
    other.join()
    assert order == ["second", "first", "first", "first"]


# --- nothing before its time -----------------------------------------------------------------------------------------


def test_an_auditor_is_not_told_of_records_before_the_public(tmp_path: Path) -> None:
    """B.3 makes times coarse; by asking for proofs again and again an auditor saw when each account asked."""

    async def run() -> None:
        async with scene.window_on(tmp_path, publish=3600.0) as serving:
            window = scene.newest(serving)
            alice = scene.Asker("alice", serving)
            said = set()
            for _ in range(2):
                for seqs in ((0,), (5,), ()):
                    ask = ProofsAsk(window.digest, scene.NOW, secrets.token_bytes(16), seqs)
                    with pytest.raises(AttestationError, match="public records") as refused:
                        await answer(serving, ask)
                    said.add(str(refused.value))
                await alice.ask("a question")
            assert len(said) == 3, "the refusal says whether there is a record"
            serving.journal.public.reveal()
            for seqs in ((0,), ()):
                assert await answer(serving, ProofsAsk(window.digest, scene.NOW, secrets.token_bytes(16), seqs))

    asyncio.run(run())
