# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a provider stands first in its status, with a name, and in its numbers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from ragseal.kernel.errors import ConfigurationError, UnavailableError
from ragseal.prover import __main__ as program
from ragseal.prover.administration import status
from ragseal.prover.administration.watching import Watching
from ragseal.prover.attestation import backlog
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving import health
from ragseal.prover.serving.health import WITNESS_SECONDS, Running
from ragseal.prover.serving.serving import ServeOptions, Serving
from ragseal.prover.storage.stopped_keys import stop_key
from tests.classes import TINY
from tests.runtime.edges.test_filesystem import mounted
from tests.simulator.provider import Asker, Clock, make_policy, new_state, open_provider, open_window

pytestmark = pytest.mark.slow


def whats(provider: Provider, running: Running | None = None) -> list[str]:
    return [one.what for one in health.look(provider, running).wrong]


def first_line(provider: Provider, running: Running | None = None) -> str:
    return status.status(provider, running).text.partition("\n")[0]


def test_a_healthy_provider_has_nothing_wrong(tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p")
    told = status.status(provider)
    assert (told.values["wrong"], told.values["unchecked"], told.values["outcome"]) == ([], [], "ok")
    assert next(iter(told.values)) == "wrong"
    assert told.text.startswith("state ")
    assert "tenant acme: 40 documents" in told.text
    assert "{" not in told.text, "lines are for people"
    provider.close()


def test_without_accounts_or_an_auditor_nobody_can_be_answered(tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p", state=new_state(tmp_path / "p", tenants={"acme": []}))
    assert whats(provider) == ["accounts"]
    with provider.state.transaction() as db:
        db.execute("DELETE FROM auditors")
    assert whats(provider) == ["auditor", "accounts"]
    for link in provider.state.keys_directory.iterdir():
        link.unlink()
    found = health.look(provider)
    assert "no proving key" in found.wrong[0].text
    provider.close()


def test_an_auditor_that_a_window_names_need_not_be_known_beside_it(tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p")
    provider.commit(make_policy(), "w1")
    with provider.state.transaction() as db:
        db.execute("DELETE FROM auditors")
    assert whats(provider) == []
    provider.close()


def test_a_full_disk_is_told_while_it_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own limit stands for the disk's; the flag falls with the first write that is taken."""
    provider = open_provider(tmp_path / "p")
    database = provider.state._db
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(ConfigurationError, match="full"), provider.state.transaction() as db:
        db.execute("CREATE TABLE ballast AS SELECT randomblob(1000000)")
    assert "WRONG (disk): the newest write was refused (database or disk is full (" in first_line(provider)
    database.execute("PRAGMA max_page_count=1000000")
    with provider.state.transaction() as db:
        db.execute("CREATE TABLE ballast AS SELECT 1")
    assert whats(provider) == []
    monkeypatch.setattr(health, "RESERVE", 1 << 62)
    assert "MiB are free where" in first_line(provider)
    provider.close()


def test_a_disk_so_full_that_the_database_stays_shut_is_told_first(tmp_path: Path) -> None:
    """SQLite calls it an I/O error: its -shm file finds no room."""
    code = """
import os
from click.testing import CliRunner
from ragseal.prover.__main__ import main
run = lambda *words: CliRunner().invoke(main, [*words, '--state', 'm/p'])
made = run('init', '--class', 'CLASS', '--origin', 'example.org/rag')
assert made.exit_code == 0, made.output
fill = os.open('m/fill', os.O_CREAT | os.O_WRONLY)
try:
    while os.write(fill, bytes(4096)): pass
except OSError: pass
for words in (['status'], ['status', '--check'], ['fsck']):
    done = run(*words)
    print(done.exit_code, done.output)
"""
    said = mounted(tmp_path, "size=4m", code.replace("CLASS", TINY.name))
    assert said.startswith("1 WRONG (disk): only 0 MiB are free where m/p is")
    assert said.count("WRONG (disk)") == 2
    assert said.count("NOT CHECKED: cannot open m/p/state.db") == 3
    assert said.count("make room there") == 3
    assert "4 checked" in said, "nothing is wrong with the files"


def test_a_window_that_should_be_open_and_is_not_is_told_with_what_it_waits_for(tmp_path: Path) -> None:
    clock = Clock()
    provider = open_provider(tmp_path / "p", clock)
    provider.commit(make_policy(duration=600), "w1")
    assert whats(provider) == []
    window = provider.journal.history.named("w1")
    clock.now = window.manifest.policy.opens + health.OPENS_AFTER + 1
    assert first_line(provider).startswith("WRONG (window): window w1 is not open yet: no auditor that its manifest")

    async def run() -> None:
        serving = Serving(provider, ServeOptions(False, 0.0, publish=0.0))
        await serving.start()
        await open_window(serving)
        assert whats(provider) == []
        await serving.stop()

    asyncio.run(run())
    provider.close()


def test_a_window_past_its_time_is_over_and_not_open(tmp_path: Path) -> None:
    clock = Clock()
    provider = open_provider(tmp_path / "p", clock)
    provider.commit(make_policy(duration=600), "w1")

    async def run() -> None:
        serving = Serving(provider, ServeOptions(False, 0.0, publish=0.0))
        await serving.start()
        window = await open_window(serving)
        assert whats(provider) == []
        clock.now = window.closes + 1
        told = status.status(provider)
        assert told.values["windows"][0]["stage"] == "over, not closed"
        assert told.text.startswith("WRONG (window): window w1 was over at ")
        clock.now = window.time - 600
        assert whats(provider) == ["clock"]
        await serving.stop()

    asyncio.run(run())
    provider.close()


def test_proofs_that_fail_are_told_with_their_number_and_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler is away: nothing is proven, status says so first and the numbers count it; then it is back."""
    monkeypatch.setattr(backlog, "AGAIN", 0.05)
    provider = open_provider(tmp_path / "p")
    provider.commit(make_policy(), "w1")
    ring = provider.backends.keys
    real, away = ring._open_backend, True

    def without(path: Path) -> object:
        if away:
            raise UnavailableError("the circuit compiler is not installed")
        return real(path)

    monkeypatch.setattr(ring, "_open_backend", without)

    async def run() -> None:
        nonlocal away
        away = False
        serving = Serving(provider, ServeOptions(True, 0.0, publish=0.0))
        watching = Watching(serving, lambda: None)
        serving.metrics.health = watching.health
        await serving.start()
        away = True
        ring._backends.clear()
        await open_window(serving)
        alice = Asker("alice", serving)
        await alice.ask("report about topic 5")
        await alice.ask("report about topic 6")
        async with asyncio.timeout(30):
            while serving.proofs.backlog.status(0.0)["failing"] < 2:
                await asyncio.sleep(0.02)
        told = status.status(provider, watching.running())
        assert told.text.startswith(
            "WRONG (proofs): proofs of 2 records fail and are tried again (2 records: the circuit compiler is not"
        )
        await serving.metrics.settle()
        assert serving.metrics.shown.failing == 2
        assert serving.metrics.shown.wrong == {"proofs"}
        away = False
        async with asyncio.timeout(60):
            while serving.proofs.backlog.status(0.0)["left"]:
                await asyncio.sleep(0.05)
        assert whats(provider, watching.running()) == []
        await serving.stop()

    asyncio.run(run())
    provider.close()


def test_what_only_a_serving_provider_knows(tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p")
    ticks = {"trouble": "", "overdue": True}
    cases = {
        "ticks": Running(ticks=ticks),
        "next": Running(following={"trouble": "too much"}),
        "witness": Running(witness_age=WITNESS_SECONDS + 1),
        "sync": Running(syncs=["tenant acme is behind"]),
        "purge": Running(purge="the disk refuses"),
    }
    assert {what: whats(provider, running) for what, running in cases.items()} == {what: [what] for what in cases}
    assert whats(provider, Running(ticks={"trouble": "no room", "overdue": False})) == ["ticks"]
    assert whats(provider, Running(witness_age=-1)) == ["witness"]
    assert whats(provider, Running(witness_age=0)) == whats(provider, Running()) == []
    stop_key(provider.state, b"k" * 32, "no proof")
    assert whats(provider, Running(purge="x")) == ["keys", "purge"], "in one order"
    provider.journal._failure = "the disk is full"
    assert whats(provider)[0] == "ledger"
    provider.close()


def test_a_witness_that_never_came_is_away_after_a_while_and_a_followed_source_until_it_is_back(
    tmp_path: Path,
) -> None:
    clock = Clock()
    provider = open_provider(tmp_path / "p", clock)

    async def run() -> None:
        serving = Serving(provider, ServeOptions(False, 0.0, publish=0.0))
        watching = Watching(serving, lambda: None)
        missed = watching.source("acme", "postgres:postgresql://u:secret@h/d")
        missed("it cannot be reached")
        assert watching.running().syncs == ("tenant acme is behind its postgres source: it cannot be reached",)
        missed("")
        assert watching.running().syncs == ()
        serving.book = SimpleNamespace(youngest=lambda: None)  # type: ignore[assignment]
        clock.now += WITNESS_SECONDS + 1
        assert watching.running().witness_age is None, "none is named"
        serving.serve_options = replace(serving.serve_options, witnesses=[object()])  # type: ignore[list-item]
        assert watching.running().witness_age == -1
        clock.now -= WITNESS_SECONDS
        assert watching.running().witness_age is None, "it may still come"

    asyncio.run(run())
    provider.close()


def test_the_command_ends_with_a_status_for_scripts(tmp_path: Path) -> None:
    """Told is told: 0. With --check 1 where something is wrong; 4 where nobody could look."""
    new_state(tmp_path / "p", tenants={"acme": []}).close()
    run = CliRunner().invoke
    options = ["status", "--state", str(tmp_path / "p")]
    missing = run(program.main, options)
    assert missing.exit_code == 4, missing.output
    assert "trigrams" in missing.output, "the embedder that is not there"
    with open_provider(tmp_path / "p").state as state:
        busy = run(program.main, options)
        assert (busy.exit_code, "in use" in busy.output) == (4, True)
        assert state.settings.embedder == "trigrams"
