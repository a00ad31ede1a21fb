# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows that follow each other by themselves: nobody who asks meets a refusal, and nothing is committed unasked."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path

import pytest

from ragseal.client.account import KEY_FILE, AccountState
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.administration import status
from ragseal.prover.serving import health
from ragseal.prover.serving.rollover import Schedule, name_of, seconds_of
from ragseal.prover.storage.window import Stage
from ragseal.runtime.keyfile import save_key
from tests.simulator import provider as scene
from tests.simulator.clients import client_of
from tests.simulator.rolling import Running, rolling, schedule, until_open

pytestmark = pytest.mark.slow

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
