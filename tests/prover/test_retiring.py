# SPDX-License-Identifier: GPL-3.0-or-later
"""Retiring proves what is not proven yet, in pieces, and rewrites a large database without memory for all of it."""

from __future__ import annotations

import logging
import os
import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.attestation.proofs import Proofs
from ragseal.prover.serving import retiring
from ragseal.prover.serving.retiring import Retiring, spoken
from ragseal.prover.storage import database
from ragseal.prover.storage.state import State
from tests.simulator import provider as scene
from tests.simulator.live import Live, live

pytestmark = pytest.mark.slow


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Live]:
    """A closed window with four records, one of them proven."""
    with live(tmp_path, gain=2, n_max=6) as made:
        with made.client() as client:
            for question in ("one", "two", "three", "four"):
                client.ask(question)
        made.end_window()
        made.server.serving.proofs.prove(made.window.digest, 1)
        yield made


def test_only_what_is_not_proven_is_proven_and_a_stop_loses_nothing(
    closed: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    window, real = closed.window, Proofs._make
    made: list[int] = []

    def counted(self: Proofs, *given: Any) -> Any:
        found, seq = real(self, *given), given[1].record.seq
        made.append(seq)
        if len(made) == 2:
            closed.server.serving.retiring.stop()
        return found

    monkeypatch.setattr(Proofs, "_make", counted)
    caplog.set_level(logging.INFO, "ragseal.provider")
    with pytest.raises(ConfigurationError, match="the window is retired after its next start"):
        closed.server.serving.retiring.prove(window)
    assert made == [0, 2]
    assert any("2 records are proven first, which takes about" in record.message for record in caplog.records)
    closed.restart()
    told: list[tuple[str, int, int]] = []
    again: Retiring = closed.server.serving.retiring
    with pytest.raises(ConfigurationError, match="1 of its 4 records are proven first"):
        again.named("w1", False)
    again.prove(closed.provider.journal.history.named("w1"), lambda *one: told.append(one))
    assert made == [0, 2, 3]
    assert ("proving records of window w1", 0, 1) in told
    assert closed.server.serving.proofs.missing(window.digest, 4) == []
    again.prove(closed.provider.journal.history.named("w1"))
    assert made == [0, 2, 3]


def test_how_long_is_said_in_words() -> None:
    assert [spoken(seconds) for seconds in (4.4, 99, 100, 5999, 6000)] == ["4 s", "99 s", "2 min", "100 min", "1.7 h"]
    assert retiring.LOOK_SECONDS == 60


def temporary(folder: Path) -> bool:
    """Whether this process has a nameless file open in a folder."""
    links = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return any(link.startswith(f"{folder.resolve()}/etilqs_") for link in links)


def scrubbed(state: State) -> bool:
    """Rewrite the database; whether it took a file of the state folder."""
    seen: list[bool] = []
    state._db.set_progress_handler(lambda: seen.append(temporary(state.directory)), 500)
    assert state.scrub()
    state._db.set_progress_handler(None, 0)
    assert seen
    return any(seen)


def test_a_large_database_is_rewritten_on_disk_and_a_small_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene.new_state(tmp_path / "p") as state:
        with state.transaction() as db:
            rows = [("acme", "mark", index) for index in range(40000)]
            db.execute("CREATE TABLE filler (one TEXT, other TEXT, number INTEGER)")
            db.executemany("INSERT INTO filler VALUES (?, ?, ?)", rows)
        monkeypatch.setattr(database, "SCRUBBED_IN_MEMORY", 1 << 40)
        assert not scrubbed(state)
        monkeypatch.setattr(database, "SCRUBBED_IN_MEMORY", 0)
        with state.transaction() as db:
            db.execute("PRAGMA cache_size=20")  # or it all stays in the cache of so small a database
        assert scrubbed(state)
        assert [path.name for path in state.directory.iterdir() if "etilqs" in path.name] == []
        assert state._db.execute("PRAGMA temp_store").fetchone() == (2,)
        usage = namedtuple("usage", "total used free")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, 1 << 10))
        with pytest.raises(ConfigurationError, match="Make room"):
            state.scrub()
