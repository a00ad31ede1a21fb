# SPDX-License-Identifier: GPL-3.0-or-later
"""A window whose beacon runs while another takes queries, on a real provider.  SPEC A.1.1, G.6.3."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client.account import KEY_FILE, AccountState
from ragseal.kernel import signature
from ragseal.kernel.beacon import BeaconOpening
from ragseal.kernel.commitment import (
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.encoding import decode_any
from ragseal.kernel.errors import AttestationError, CommitmentError, ConfigurationError
from ragseal.prover.administration import status
from ragseal.prover.serving import health
from ragseal.prover.serving.committing import commit_while_serving
from ragseal.prover.serving.rollover import Schedule, name_of, seconds_of
from ragseal.prover.serving.serving import Serving
from ragseal.prover.storage import journal
from ragseal.prover.storage.window import Stage, Window
from ragseal.runtime.keyfile import save_key
from tests.classes import TINY
from tests.simulator import provider as scene
from tests.simulator.clients import client_of
from tests.simulator.provider import AUDITOR_KEY, Asker, Participant
from tests.simulator.rolling import Running, rolling, schedule, until_open

pytestmark = pytest.mark.slow

POLICY = f"""class = "{TINY.name}"
claim = "every-list"
lo = 0.2
hi = 0.9
gain = 2
n_max = 6
k_max = 2
delta = "1/1000000"
"""
SECONDS = 15.0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def follow(serving: Serving, name: str = "w2") -> Window:
    """The next window, committed and drawn while this one is open."""
    await commit_while_serving(serving, POLICY.encode(), name, 1e9)
    window = serving.journal.history.named(name)
    auditor = Participant("auditor", window.digest, AUDITOR_KEY, b"b" * 32)
    observer = Participant("observer-x", window.digest, Ed25519PrivateKey.generate(), b"o" * 32)
    for one in (observer, auditor):
        await serving.beacon.commit(one.commit().encode())
    await until(lambda: "provider" in window.openings)
    for one in (observer, auditor):
        await serving.beacon.open(one.open().encode())
    assert serving.beacon.ready(window)
    return window


async def end(serving: Serving, window: Window) -> int:
    proof = signature.sign(serving.provider.state.key, "close", window.digest)
    return (await serving.close_window(window.digest, proof))[0]


def test_the_end_of_a_window_is_the_beginning_of_the_next(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene.window_on(tmp_path / "p") as serving:
            first, alice = scene.newest(serving), Asker("alice", serving)
            await alice.ask("report about topic 3")
            second = await follow(serving)
            assert (first.stage, second.stage) == (Stage.OPEN, Stage.SEALED)
            assert serving.journal.shown("") is first
            message = Asker("bob", serving).message("too early")
            with pytest.raises(AttestationError, match="not open yet"):
                await Asker("bob", serving).prepare(message)
            closed = await end(serving, first)
            kinds = [
                type(decode_any(serving.journal.data(at), (WindowClose, WindowOpen))) for at in (closed, closed + 1)
            ]
            assert kinds == [WindowClose, WindowOpen]
            assert serving.journal.shown("") is second
            await Asker("alice", serving).ask("report about topic 3")
            assert len(second.records) == 1
            with pytest.raises(AttestationError, match="is over: ask GetManifest"):
                serving.attestation._admission.check_open(first)

    asyncio.run(run())


def test_a_restart_goes_on_with_both_windows(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene.window_on(tmp_path / "p") as serving:
            await Asker("alice", serving).ask("report about topic 3")
            await follow(serving)
        async with scene.serving_on(scene.open_provider(tmp_path / "p")) as serving:
            first, second = serving.journal.history.open, serving.journal.history.following
            assert first is not None
            assert second is not None
            assert (first.manifest.window, second.manifest.window) == ("w1", "w2")
            await until(lambda: serving.beacon.ready(second))
            await end(serving, first)
            assert second.stage is Stage.OPEN
            await Asker("bob", serving).ask("report about topic 5")

    asyncio.run(run())


def test_what_the_ledger_refuses_of_two_windows(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene.window_on(tmp_path / "p") as serving:
            first = scene.newest(serving)
            second = await follow(serving)
            early = WindowOpen(second.digest, second.seal_value(), first.time)
            with pytest.raises(CommitmentError, match="opens only after the one before it was closed"):
                await serving.journal.append(lambda: early)
            third = await follow(serving, "w3")
            for message in (early, BeaconOpening(second.digest, "provider", bytes(32))):
                with pytest.raises(CommitmentError, match="is over: a newer manifest is in the ledger"):
                    await serving.journal.append(lambda message=message: message)  # type: ignore[misc]
            await end(serving, first)
            assert (second.stage, third.stage) == (Stage.SEALED, Stage.OPEN)

    asyncio.run(run())


def test_a_request_that_the_end_of_its_window_overtakes_is_not_recorded(tmp_path: Path) -> None:
    """It was admitted, its answer computed, and then the window was closed: it is refused so that it is asked again."""

    async def run() -> None:
        async with scene.window_on(tmp_path / "p") as serving:
            first, alice = scene.newest(serving), Asker("alice", serving)
            message = alice.message("report about topic 3")
            signed = alice.request(message, await alice.prepare(message))
            await follow(serving)
            secrets = serving.attestation._answer_secrets
            fix = secrets.fix

            async def slow(*given: object) -> object:
                kept = await fix(*given)  # type: ignore[arg-type]
                await end(serving, first)
                return kept

            secrets.fix = slow  # type: ignore[assignment, method-assign]
            with pytest.raises(AttestationError, match="'w1' is closed: ask again in the next one"):
                await alice.retrieve(signed)
            assert first.records == []

    asyncio.run(run())


def test_a_clock_that_is_set_back_meanwhile_dates_no_record_after_the_end(tmp_path: Path) -> None:
    """An auditor would fail the window for such a record."""

    async def run() -> None:
        clock = scene.Clock()
        async with scene.window_on(tmp_path / "p", clock) as serving:
            window, alice = scene.newest(serving), Asker("alice", serving)
            message = alice.message("report about topic 3")
            signed = alice.request(message, await alice.prepare(message))
            attestation = serving.attestation
            load, fix = attestation._job, attestation._answer_secrets.fix

            async def loaded(*given: Any) -> Any:
                job = await load(*given)
                clock.now = window.closes + 60
                return job

            async def fixed(*given: Any) -> Any:
                clock.now = window.closes - 60
                return await fix(*given)

            attestation._job, attestation._answer_secrets.fix = loaded, fixed  # type: ignore[assignment, method-assign]
            with pytest.raises(CommitmentError, match="record 0 is dated after the window's end"):
                await alice.retrieve(signed)
            assert window.records == []
            attestation._job = load  # type: ignore[method-assign]
            await alice.retrieve(signed)
            assert len(window.records) == 1

    asyncio.run(run())


def test_a_stranger_s_beacon_brings_no_record_to_light(tmp_path: Path) -> None:
    """Beside an open window a beacon's entries, and what is said of them, wait for the coarse tick."""

    async def run(hidden: bool) -> None:
        folder = tmp_path / str(hidden)
        async with scene.window_on(folder, publish=3600.0) as serving:
            public, size = serving.journal.public, serving.journal.public.size
            await Asker("alice", serving).ask("report about topic 3")
            await commit_while_serving(serving, POLICY.encode(), "w2", 1e9)
            second = serving.journal.history.named("w2")
            stranger = Participant("observer-s", second.digest, Ed25519PrivateKey.generate(), b"s" * 32)
            await serving.beacon.commit(stranger.commit().encode())
            assert (public.size == size) is hidden
            if hidden:
                with pytest.raises(CommitmentError, match="no window 'w2'"):
                    serving.journal.shown("w2")
                public.reveal()
                assert serving.journal.shown("w2") is second

    asyncio.run(run(True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal.Journal, "_reveal", lambda self, built: self.public.reveal())
        asyncio.run(run(False))


# Windows that follow each other by themselves: nobody who asks meets a refusal, and nothing is committed unasked.


ACCOUNTS, EVERY = 32, 7.0
NAMES = [f"account-{number:02}" for number in range(ACCOUNTS)]


def account(folder: Path, name: str) -> Path:
    AccountState.create(folder / name, name)
    (folder / name / KEY_FILE).unlink()
    save_key(folder / name / KEY_FILE, scene.account_key(name))
    return folder / name


@pytest.mark.long
def test_thirty_two_accounts_ask_across_three_roll_overs(tmp_path: Path) -> None:
    clock = Running()
    state = scene.new_state(tmp_path / "p", {"acme": NAMES})
    provider = scene.open_provider(tmp_path / "p", clock, state=state)
    log_key = state.log_signer.verifier.vkey()
    ending = threading.Event()
    asked: list[tuple[str, str]] = []  #: window and account of every answer
    again: list[str] = []
    troubles: list[str] = []

    def ask(name: str, address: str) -> None:
        number, last = 0, ""
        try:
            with client_of(address, account(tmp_path, name), log_key, scene.TrigramEmbedder(), timeout=30.0) as client:
                while not ending.is_set():
                    number += 1
                    result = client.ask(f"report about topic {number % 13}")
                    window = result.record.signed.request.window
                    assert window >= last
                    last = window
                    asked.append((window, name))
                    again.extend(result.unanswered)
                    time.sleep(1.0)
                found = client.resume()
                assert found.results == ()
                assert all(one.given_up for one in found.owed)
        except Exception as error:
            troubles.append(f"{name}: {type(error).__name__}: {error}")

    async def run() -> None:
        async with rolling(provider, schedule(tmp_path, EVERY, n_max=1000)) as server:
            await until_open(server, "w1")
            threads = [threading.Thread(target=ask, args=(name, server.address)) for name in NAMES]
            for one in threads:
                one.start()
            for name in ("w2", "w3", "w4"):
                await until_open(server, name, 60.0)
            await asyncio.sleep(2.0)
            ending.set()
            for one in threads:
                await asyncio.to_thread(one.join)
            stages = [one.stage for one in provider.journal.history.windows.values()][:4]
            assert stages[:3] == [Stage.CLOSED] * 3
            assert stages[3] in (Stage.OPEN, Stage.CLOSED)  # a busy machine joins the threads when it is over, too
            assert sum(len(one.records) for one in provider.journal.history.windows.values()) == len(asked)

    asyncio.run(run())
    assert troubles == []
    assert {window for window, _ in asked} >= {"w1", "w2", "w3", "w4"}
    assert {name for _, name in asked} == set(NAMES)
    assert len(again) <= 3 * ACCOUNTS


def test_nothing_is_committed_above_the_epsilon_that_was_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The open window goes on to its end; log and status say that none follows; a larger number mends it."""
    clock = Running()
    provider = scene.open_provider(tmp_path / "p", clock)
    provider.commit(scene.make_policy(duration=60), "w1")

    async def run() -> None:
        plan = schedule(tmp_path, 2.0, agreed=1.0)
        async with rolling(provider, plan) as server:
            window = await until_open(server, "w1")
            assert server.rollover is not None
            async with asyncio.timeout(20):
                while not server.rollover.trouble:
                    await asyncio.sleep(0.05)
            await scene.Asker("alice", server.serving).ask("report about topic 3")
            assert "--yes-epsilon-is" in server.rollover.trouble
            told = status.status(provider, health.Running(following=server.rollover.status()))
            assert "WRONG (next): no window follows: " in told.text.partition("\nstate ")[0], "before all else"
            assert told.values["next"]["trouble"]
            assert list(provider.journal.history.windows.values()) == [window]
            clock.now += 200  # beyond the window's end
            async with asyncio.timeout(20):
                while window.stage is Stage.OPEN:
                    await asyncio.sleep(0.05)
            assert list(provider.journal.history.windows.values()) == [window]

    with caplog.at_level(logging.ERROR, "ragseal.provider"):
        asyncio.run(run())
    said = [one.getMessage() for one in caplog.records if "NO WINDOW FOLLOWS" in one.getMessage()]
    assert said
    assert "the open one ends at" in said[0]


def test_without_its_auditor_a_window_stays_open_to_its_end(tmp_path: Path) -> None:
    clock = Running()

    async def run() -> None:
        async with scene.window_on(tmp_path / "p"):
            pass
        provider = scene.open_provider(tmp_path / "p", clock)
        async with rolling(provider, schedule(tmp_path, 1.0), auditor=False) as server:
            history = server.serving.journal.history
            async with asyncio.timeout(20):
                while history.following is None:
                    await asyncio.sleep(0.05)
            await asyncio.sleep(2.0)
            assert history.open is not None
            assert history.open.manifest.window == "w1"

    asyncio.run(run())


def test_names_follow_a_pattern() -> None:
    day = 1_800_000_000.0  # 2027-01-15
    assert name_of("w{n}", {"w1", "w2"}, day) == "w3"
    assert name_of("w{n}", {"other", "w2"}, day) == "w3"
    assert name_of("%Y-%m-%d", (), day) == "2027-01-15"
    assert name_of("%Y-%m-%d", {"2027-01-15"}, day) == "2027-01-15-2"
    assert name_of("%Y-%m-%d", {"2027-01-15", "2027-01-15-2"}, day) == "2027-01-15-3"
    for bad, why in (("week", "names every window alike"), ("{n}" * 200, "no window may have")):
        with pytest.raises(ConfigurationError, match=why):
            name_of(bad, (), day)


def test_schedules_that_cannot_hold_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("")
    assert [seconds_of(text) for text in ("90s", "30m", "24h", "7d")] == [90, 1800, 86400, 604800]
    for text in ("", "24", "-1h", "1.5h", "h", "1 h", "9999999999s"):
        with pytest.raises(ConfigurationError, match="not a length of time"):
            seconds_of(text)
    with pytest.raises(ConfigurationError, match="at least 600 s"):
        Schedule(file, 599.0).check()
    with pytest.raises(ConfigurationError, match="names every window alike"):
        Schedule(file, 600.0, "week").check()
    Schedule(file, 600.0).check()
