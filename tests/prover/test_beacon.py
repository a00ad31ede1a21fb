# SPDX-License-Identifier: GPL-3.0-or-later
"""The beacon's driver against openings at the worst moment, and its places against whoever takes them all."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.commitment import WindowOpen
from ragseal.kernel.errors import CommitmentError, ConfigurationError
from ragseal.prover.commitment import beacon
from ragseal.prover.commitment.beacon import MAX_NAMED, MAX_STRANGERS, BeaconRules
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import ServeOptions, Serving
from ragseal.prover.storage.history import coarse
from ragseal.prover.storage.window import Stage, Window
from tests.simulator.provider import AUDITOR_KEY, Clock, Participant, make_policy, open_provider, open_window

pytestmark = pytest.mark.slow

Enter = Callable[[Callable[[], Any]], Awaitable[Any]]
OWN = Ed25519PrivateKey.generate()
NAMED = {"ours": signature.public_bytes(OWN)}


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    provider = open_provider(tmp_path / "p")
    provider.commit(make_policy(), "w1")
    return provider


def participant(window: Window, owner: str, key: Ed25519PrivateKey | None = None) -> Participant:
    nonce = hashlib.sha256(owner.encode()).digest()
    known = AUDITOR_KEY if owner == "auditor" else Ed25519PrivateKey.generate()
    return Participant(owner, window.digest, key or known, nonce)


@asynccontextmanager
async def driven(provider: Provider, rules: BeaconRules) -> AsyncIterator[tuple[Serving, Window]]:
    serving = Serving(provider, ServeOptions(False, 0.0, rules))
    await serving.start()
    try:
        yield serving, provider.journal.history.named("")
    finally:
        await serving.stop()
        provider.close()


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def commit(serving: Serving, *who: Participant) -> None:
    for one in who:
        await serving.beacon.commit(one.commit().encode())


@pytest.mark.parametrize("late", [["observer-x"], ["observer-x", "observer-y"]])
def test_an_opening_that_races_the_second_seal(provider: Provider, late: list[str]) -> None:
    """Whoever opens after the provider has counted who is missing, and before its seal stands, takes part."""

    async def run() -> None:
        async with driven(provider, BeaconRules(participants=3, wait=0.3)) as (serving, window):
            who = {name: participant(window, name) for name in ("observer-x", "observer-y", "auditor")}
            enter: Enter = serving.journal.append

            async def racing(make: Callable[[], Any]) -> Any:
                for name in late if "provider" in window.openings else []:
                    if name not in window.openings:
                        await enter(who[name].open)
                return await enter(make)

            serving.journal.append = racing  # type: ignore[method-assign]
            await commit(serving, *who.values())
            await until(lambda: window.seal is not None and set(window.missing()) == {"auditor"})
            assert window.seal is not None
            assert window.seal.owners == ("provider", *late, "auditor")
            await serving.beacon.open(who["auditor"].open().encode())
            assert window.stage is Stage.OPEN

    asyncio.run(run())


def test_a_commitment_that_races_the_first_seal(provider: Provider) -> None:
    """It is in the ledger before the seal, so the seal names it."""

    async def run() -> None:
        async with driven(provider, BeaconRules(participants=1, wait=5.0)) as (serving, window):
            late, auditor = participant(window, "observer-late"), participant(window, "auditor")
            enter: Enter = serving.journal.append

            async def racing(make: Callable[[], Any]) -> Any:
                if "auditor" in window.commits and "observer-late" not in window.commits:
                    await enter(late.commit)
                return await enter(make)

            serving.journal.append = racing  # type: ignore[method-assign]
            await commit(serving, auditor)
            await until(lambda: "provider" in window.openings)
            assert window.seal is not None
            assert window.seal.owners == ("provider", "observer-late", "auditor")

    asyncio.run(run())


def test_a_step_that_is_refused_is_made_anew(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beacon, "POLL_SECONDS", 0.01)

    async def run() -> None:
        async with driven(provider, BeaconRules(participants=1, wait=0.5)) as (serving, window):
            refusals, enter = 4, serving.journal.append

            async def refusing(make: Callable[[], Any]) -> Any:
                nonlocal refusals
                if "auditor" in window.commits and refusals:
                    refusals -= 1
                    raise CommitmentError("somebody else's entry came first")
                return await enter(make)

            serving.journal.append = refusing  # type: ignore[method-assign]
            auditor = participant(window, "auditor")
            await commit(serving, auditor)
            await until(lambda: "provider" in window.openings)
            assert refusals == 0
            refusals = 1
            with pytest.raises(CommitmentError, match="came first"):
                await serving.beacon.open(auditor.open().encode())
            await serving.beacon.open(auditor.open().encode())
            assert window.stage is Stage.OPEN

    asyncio.run(run())


def test_strangers_take_no_place_of_named_observers(provider: Provider) -> None:
    async def run() -> None:
        async with driven(provider, BeaconRules(2, 20.0, observers=NAMED)) as (serving, window):
            squatter = participant(window, "observer-ours")
            with pytest.raises(CommitmentError, match="an observer with another key"):
                await commit(serving, squatter)
            crowd = [participant(window, f"observer-{n}") for n in range(MAX_STRANGERS + 8)]
            tried = await asyncio.gather(*(commit(serving, one) for one in crowd), return_exceptions=True)
            refused = [str(error) for error in tried if error is not None]
            assert len(refused) == 8
            assert all("ask the operator to name this key" in text for text in refused)
            auditor = participant(window, "auditor")
            await commit(serving, auditor)
            await asyncio.sleep(0.1)
            assert window.seal is None  # the crowd is as many as were asked for, but not who was named
            await commit(serving, participant(window, "observer-ours", OWN))
            await until(lambda: window.seal is not None)
            assert window.seal is not None
            assert len(window.seal.owners) == 3 + MAX_STRANGERS
            assert "observer-ours" in window.seal.owners

    asyncio.run(run())


def test_strangers_that_never_open_are_not_waited_for(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beacon, "STRANGER_SECONDS", 0.2)

    async def run() -> None:
        async with driven(provider, BeaconRules(2, 60.0, observers=NAMED)) as (serving, window):
            ours, auditor = participant(window, "observer-ours", OWN), participant(window, "auditor")
            await commit(serving, participant(window, "observer-idle"), ours, auditor)
            await until(lambda: window.seal is not None and len(window.seal.owners) == 3, 5.0)
            assert window.seal is not None
            assert window.seal.owners == ("provider", "observer-ours", "auditor")  # who is named has more time
            await serving.beacon.open(ours.open().encode())
            await serving.beacon.open(auditor.open().encode())
            assert window.stage is Stage.OPEN

    asyncio.run(run())


def test_the_last_place_is_given_once(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in the writer's turn: of two that ask at once for the last place, one gets it."""
    monkeypatch.setattr(beacon, "MAX_STRANGERS", 1)

    async def run() -> None:
        async with driven(provider, BeaconRules(2, 20.0)) as (serving, window):
            two = [participant(window, f"observer-{n}") for n in range(2)]
            tried = await asyncio.gather(*(commit(serving, one) for one in two), return_exceptions=True)
            assert [type(error) for error in tried if error] == [CommitmentError]
            assert len(window.commits) == 1

    asyncio.run(run())


def test_a_clock_that_was_set_back_opens_no_window_before_the_one_before_it_was_closed(tmp_path: Path) -> None:
    """An auditor reads the log's times (SPEC D.2): a step back of the clock made an honest window FAIL for good."""
    clock = Clock()
    provider = open_provider(tmp_path / "p", clock)
    policy = make_policy()
    provider.commit(policy, "w1")

    async def run() -> None:
        serving = Serving(provider, ServeOptions(False, 0.0, BeaconRules()))
        await serving.start()
        try:
            first = await open_window(serving)
            clock.now = first.closes + 240
            await serving.close_window(first.digest, signature.sign(provider.state.key, "close", first.digest))
        finally:
            await serving.stop()
        assert first.close is not None
        clock.now -= 235
        provider.commit(replace(policy, opens=first.closes, closes=first.closes + 3600), "w2")
        serving = Serving(provider, ServeOptions(False, 0.0, BeaconRules()))
        await serving.start()
        try:
            second = await open_window(serving)
        finally:
            await serving.stop()
            provider.close()
        assert second.time == first.close.time > coarse(clock.now)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("edge", "shift", "why"),
    [("opens", -60, "before its policy says"), ("opens_by", 60, "too late for the window to open")],
)
def test_an_opening_that_an_auditor_would_refuse_is_not_entered(
    provider: Provider, edge: str, shift: int, why: str
) -> None:
    async def run() -> None:
        async with driven(provider, BeaconRules(participants=1, wait=5.0)) as (serving, window):
            make, enter = WindowOpen, serving.journal.append
            refused: list[str] = []

            async def late(build: Callable[[], Any]) -> Any:
                def built() -> Any:
                    made = build()
                    when = coarse(getattr(window.manifest.policy, edge)) + shift
                    return make(made.manifest, made.beacon, when) if isinstance(made, WindowOpen) else made

                try:
                    return await enter(built)
                except CommitmentError as error:
                    refused.append(str(error))
                    raise

            serving.journal.append = late  # type: ignore[method-assign]
            auditor = participant(window, "auditor")
            await commit(serving, auditor)
            await until(lambda: set(window.missing()) == {"auditor"} and window.seal is not None)
            await serving.beacon.open(auditor.open().encode())
            await until(lambda: bool(refused))
            assert why in refused[0]
            assert window.stage is Stage.SEALED

    asyncio.run(run())


def test_rules_that_cannot_hold_are_refused() -> None:
    crowd = {f"o{number}": bytes(32) for number in range(MAX_NAMED + 1)}
    for observers, text in (({"": bytes(32)}, "needs a name"), (crowd, "at most")):
        with pytest.raises(ConfigurationError, match=text):
            BeaconRules(observers=observers)
