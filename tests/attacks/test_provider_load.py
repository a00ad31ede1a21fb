# SPDX-License-Identifier: GPL-3.0-or-later
"""One account must not slow the provider for all others: windows and registries that it has loaded again and again."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ragseal.kernel import signature
from ragseal.kernel.attestation import SignedRequest
from ragseal.kernel.commitment import AccountAsk
from ragseal.kernel.errors import AttestationError, AuditError, BudgetError
from ragseal.prover.base.limits import LINES, LOADS, REPEATS
from ragseal.prover.commitment import registry, window_secrets
from tests.attacks.old_windows import old_windows
from tests.simulator import provider as scene

ALICE = scene.account_key("alice")


def counted(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[bytes]:
    """Manifests that a provider's function was called for."""
    calls: list[bytes] = []
    real = getattr(module, name)

    def call(state: Any, manifest: bytes, *more: Any) -> Any:
        calls.append(manifest)
        return real(state, manifest, *more)

    monkeypatch.setattr(module, name, call)
    return calls


def changed(signed: SignedRequest, **changes: object) -> bytes:
    """Another request of alice's, signed by her."""
    request = replace(signed.request, **changes)  # type: ignore[arg-type]
    return SignedRequest(request, signature.sign(ALICE, "request", request.encode())).encode()


async def outcomes(calls: Any) -> list[bytes | AuditError]:
    """What each call brings, one after the other."""
    found: list[bytes | AuditError] = []
    for call in calls:
        try:
            found.append(await call)
        except AuditError as error:
            found.append(error)
    return found


@pytest.mark.slow
def test_an_account_does_not_have_windows_loaded_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 Retrieves of one account, refused or of old answers, and 300 windows were loaded, everybody else waiting."""

    async def run() -> None:
        async with old_windows(tmp_path) as on:
            first, second, newest = on.windows
            unpaid = on.serving.attestation._unpaid
            monkeypatch.setattr(unpaid, "_clock", lambda: 1e9)  # nothing flows back meanwhile
            loaded = counted(monkeypatch, window_secrets, "load_window")
            over = [changed(on.asked[window.digest], ctr=ctr) for window in on.windows for ctr in (3, 4, 5)]
            refused = await outcomes(scene.retrieved(on.serving, one) for one in 10 * over)
            assert {type(one) for one in refused} == {AttestationError, BudgetError}
            assert not loaded, "a request that is refused had a window loaded"
            assert sum(isinstance(one, AttestationError) for one in refused) == REPEATS
            unpaid._left.clear()  # later
            again = await outcomes(on.again(window) for _ in range(20) for window in (first, second))
            brought = [one for one in again if isinstance(one, bytes)]
            assert set(brought) == {on.answers[first.digest], on.answers[second.digest]}
            assert {str(one)[:60] for one in again if not isinstance(one, bytes)} == {
                "this account asks for answers of too many old windows: ask a"
            }
            assert len(loaded) <= LOADS, f"{len(loaded)} windows were loaded for one account"
            assert newest.digest not in loaded, "the newest window gave way to old ones"
            unpaid._left[signature.public_bytes(ALICE)] = (0.0, 1e9)
            await on.ask(2)  # no bucket refuses her next query

    asyncio.run(run())


@pytest.mark.slow
def test_whose_signature_does_not_hold_takes_nothing_from_the_account(tmp_path: Path) -> None:
    async def run() -> None:
        async with old_windows(tmp_path, 1) as on:
            (window,) = on.windows
            for _ in range(2 * REPEATS):
                with pytest.raises(AttestationError, match="signature"):
                    await scene.retrieved(on.serving, on.asked[window.digest].encode(), as_account="bob")
            assert await on.again(window) == on.answers[window.digest]
            ask = AccountAsk(window.digest, "alice").encode()
            for _ in range(2 * LINES):
                with pytest.raises(AttestationError, match="no account of this name and key"):
                    await on.serving.own_lines.line(ask, signature.sign(scene.account_key("bob"), "account", ask))
            await on.serving.own_lines.line(ask, signature.sign(ALICE, "account", ask))

    asyncio.run(run())


@pytest.mark.slow
def test_nobody_waits_for_the_loading_of_another_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with old_windows(tmp_path) as on:
            first, second, _ = on.windows
            del on.serving.provider.secrets._kept[second.digest]
            begun, free, load = threading.Event(), threading.Event(), window_secrets.load_window

            def slow(state: Any, manifest: bytes, *more: Any) -> Any:
                if manifest == first.digest:
                    begun.set()
                    assert free.wait(60)
                return load(state, manifest, *more)

            monkeypatch.setattr(window_secrets, "load_window", slow)
            try:
                waiting = [asyncio.create_task(on.again(first)) for _ in range(LOADS)]
                assert await asyncio.to_thread(begun.wait, 10)
                secrets = asyncio.to_thread(on.serving.provider.window_secrets, second.digest)  # as for a proof
                await asyncio.wait_for(secrets, 10)
                await asyncio.wait_for(on.again(second), 10)
                await asyncio.wait_for(on.ask(2), 10)
            finally:
                free.set()
            assert set(await asyncio.gather(*waiting)) == {on.answers[first.digest]}

    asyncio.run(run())


@pytest.mark.slow
def test_an_account_does_not_have_registries_opened_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million accounts are hashed for a registry's tree: 300 calls for a line had that done 300 times."""

    async def run() -> None:
        provider = scene.open_provider(tmp_path)
        windows = []
        for name in ("w1", "w2", "w3"):
            provider.commit(scene.make_policy(), name)
            windows.append(provider.journal.history.newest)
        async with scene.serving_on(provider) as serving:
            monkeypatch.setattr(serving.own_lines._lines, "_clock", lambda: 1e9)
            opened = counted(monkeypatch, registry, "open_registry")

            async def line(window: Any, name: str) -> bytes:
                ask = AccountAsk(window.digest, name).encode()
                return bytes(await serving.own_lines.line(ask, signature.sign(scene.account_key(name), "account", ask)))

            found = await outcomes(line(window, "alice") for _ in range(100) for window in windows)
            assert len(opened) <= LOADS + 1, f"{len(opened)} registries were opened for one account"
            assert {type(one) for one in found} == {bytes, BudgetError}
            assert sum(isinstance(one, bytes) for one in found) <= LINES
            assert await line(windows[-1], "bob")
            assert opened.count(windows[-1].digest) == 1

    asyncio.run(run())


@pytest.mark.slow
def test_a_beacon_message_that_comes_again_costs_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene.window_on(tmp_path) as serving:
            window, size = scene.newest(serving), serving.provider.ledger.size
            auditor = scene.Participant("auditor", window.digest, scene.AUDITOR_KEY, b"a" * 32)
            await serving.beacon.commit(auditor.commit().encode())
            assert await serving.beacon.open(auditor.open().encode()) is window
            assert serving.provider.ledger.size == size

    asyncio.run(run())
