# SPDX-License-Identifier: GPL-3.0-or-later
"""One account must not slow the provider for all others: windows and registries that it has loaded again and again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ragseal.kernel import signature
from ragseal.kernel.attestation import Answer, Prepare, SignedRequest
from ragseal.kernel.commitment import AccountAsk, embedding_commitment, generators
from ragseal.kernel.errors import AttestationError, AuditError, BudgetError
from ragseal.prover.attestation.retrieval import decode_embedding, encode_embedding
from ragseal.prover.base.limits import LINES, LOADS, REPEATS
from ragseal.prover.commitment import registry, window_secrets
from ragseal.prover.serving.serving import Serving
from ragseal.runtime.statuses import status_of
from tests.attacks.checks import (
    PROVIDER_BUDGET,
    PROVIDER_C_E,
    PROVIDER_CTR,
    PROVIDER_NONCE,
    PROVIDER_ONE_AWAY,
    PROVIDER_SIGNATURE,
    without,
)
from tests.attacks.machine import GROUP
from tests.attacks.old_windows import old_windows
from tests.attacks.removal import Removable
from tests.simulator import provider as scene
from tests.simulator.provider import (
    Asker,
    account_key,
    opened,
    retrieved,
    window_on,
)

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


# Accounts that cheat the real provider: above n_max, unregistered, under another's name, out of order. A refusal
# leaves no record behind. With the one check removed the same request is answered and recorded.


N_MAX = 3


@dataclass
class Scene:
    """A provider with an open window and an account, alice, that has asked once."""

    serving: Serving
    alice: Asker

    async def send(self, signed: SignedRequest) -> Answer:
        return opened(await retrieved(self.serving, signed.encode(), self.alice.name))

    async def next(self, query: str = "topic 5", **changes: object) -> SignedRequest:
        """Alice's next request, with fields of the cheat's choice, properly signed."""
        message = self.alice.message(query)
        return self.alice.request(message, await self.alice.prepare(message), **changes)


async def above_n_max(scene: Scene) -> Answer:
    """One query more than the policy allows; without the check at Prepare the one at Retrieve stands."""
    while scene.alice.ctr < N_MAX:
        await scene.alice.ask(f"topic {scene.alice.ctr}")
    return await scene.send(await scene.next())


async def signed_by_another_account(scene: Scene) -> Answer:
    """Bob asks at alice's expense."""
    request = (await scene.next()).request
    return await scene.send(SignedRequest(request, signature.sign(account_key("bob"), "request", request.encode())))


async def ctr_gap(scene: Scene) -> Answer:
    """A number is left out, so that the provider would look as if it had kept a record out of the ledger."""
    return await scene.send(await scene.next(ctr=2 + scene.alice.ctr))


async def nonce_again(scene: Scene) -> Answer:
    """The nonce of the first request: an auditor fails such a window."""
    window = scene.serving.journal.history.newest
    assert window is not None
    ((_, first),) = window.nonces
    return await scene.send(await scene.next(nonce=first))


async def another_c_e(scene: Scene) -> Answer:
    """C_e of an e that was never prepared, hence with no bound on its entries."""
    wild = embedding_commitment(GROUP, generators(GROUP, 24), [127] * 24, 5)
    return await scene.send(await scene.next(c_e=wild))


async def wild_embedding(scene: Scene) -> Answer:
    """An e that is not the query's: it may be chosen as a function of another account's answers."""
    message = scene.alice.message("topic 5")
    turned = [-x for x in decode_embedding(message.embedding)]
    message = replace(message, embedding=encode_embedding(turned))
    return await scene.send(scene.alice.request(message, await scene.alice.prepare(message)))


CHEATS: dict[Callable[[Scene], Awaitable[Answer]], tuple[type[AuditError], str, Removable]] = {
    above_n_max: (BudgetError, "has asked its n_max = 3 queries", PROVIDER_BUDGET),
    signed_by_another_account: (AttestationError, "request signature does not hold", PROVIDER_SIGNATURE),
    ctr_gap: (AttestationError, "does not follow 1: send requests in order", PROVIDER_CTR),
    nonce_again: (AttestationError, "nonce was used before", PROVIDER_NONCE),
    another_c_e: (AttestationError, "a query or C_e different from its Prepare", PROVIDER_C_E),
    wild_embedding: (AttestationError, "the embedding sent is not this query's", PROVIDER_ONE_AWAY),
}


def play(tmp_path: Path, act: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        async with window_on(tmp_path / "p", n_max=N_MAX) as serving:
            scene = Scene(serving, Asker("alice", serving))
            await scene.alice.ask("topic 4")
            await act(scene)

    asyncio.run(run())


@pytest.mark.slow
@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_account_that_cheats(tmp_path: Path, cheat: Callable[[Scene], Awaitable[Answer]]) -> None:
    kind, message, check = CHEATS[cheat]

    async def act(scene: Scene) -> None:
        with pytest.raises(kind, match=message) as raised:
            await cheat(scene)
        if kind is BudgetError:
            assert status_of(raised.value)[0].name == "RESOURCE_EXHAUSTED"
        before = scene.serving.provider.ledger.size
        window = scene.serving.journal.history.newest
        assert window is not None
        assert len(window.records) == scene.alice.ctr, "a refused request left a record"
        with without(check):
            answer = await cheat(scene)
        assert scene.serving.provider.ledger.size == before + 1
        assert answer.record.seq == len(window.records) - 1

    play(tmp_path, act)


@pytest.mark.slow
def test_unregistered_account(tmp_path: Path) -> None:
    """A name outside the registry, and a registered name under a key of one's own, get nothing at either message."""

    async def act(scene: Scene) -> None:
        stranger = Asker("mallory", scene.serving)
        message = stranger.message("topic 5")
        with pytest.raises(AuditError, match="mallory"):
            await stranger.prepare(message)
        borrowed: Prepare = replace(message, account=scene.alice.pseudonym)
        with pytest.raises(AttestationError, match="prepare signature does not hold"):
            await stranger.prepare(borrowed)
        request = (await scene.next(account="mallory")).request
        signed = SignedRequest(request, signature.sign(account_key("mallory"), "request", request.encode()))
        with pytest.raises(AuditError, match="mallory"):
            await scene.send(signed)
        window = scene.serving.journal.history.newest
        assert window is not None
        assert len(window.records) == 1

    play(tmp_path, act)
