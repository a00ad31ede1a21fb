# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of a live index that no record names leave the folder, and nothing that is needed does.  SPEC A.12.12."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragseal.kernel.errors import CommitmentError
from ragseal.prover.storage import dropped, fsck
from ragseal.prover.storage.window import Window
from tests.simulator.ticking import Ticking, ticking

pytestmark = pytest.mark.slow


def kept(live: Ticking) -> list[int]:
    """Numbers of the updates of which the folder has matrices."""
    names = [path.stem for path in live.provider.state.windows_directory.iterdir()]
    return sorted({int(name.rsplit("-", 1)[1]) for name in names if name.count("-") == 2})


def texts(live: Ticking, number: int) -> int:
    query = "SELECT COUNT(*) FROM version_texts WHERE manifest = ? AND number = ?"
    found = live.provider.state.row(query, (live.window.digest, number))
    assert found is not None
    return int(found[0])


def drop(live: Ticking) -> None:
    live.call(live.server.serving.drop_versions())


@pytest.mark.parametrize("coins", [False, True])
def test_what_no_record_names_goes_and_the_window_passes(tmp_path: Path, coins: bool) -> None:
    with ticking(tmp_path, coins=coins, gain=2, n_max=6) as live:
        with live.client() as client:
            client.ask("over version 1")
            live.tick()
            live.tick()
            client.ask("over version 3")
            live.tick()
            live.tick()
            drop(live)
            assert kept(live) == [1, 3, 4, 5]  # named, named, and the two that answer
            assert texts(live, 2) == 0
            assert texts(live, 3) > 0
            live.tick()
            client.ask("over version 6")
        assert not fsck.examine(live.provider, True).findings
        live.restarted()
        drop(live)
        assert kept(live) == [1, 3, 5, 6]
        with pytest.raises(CommitmentError, match="was deleted: no record named it"):
            live.provider.version(live.window, "acme", live.updates[1].index_digest("acme"))
        live.clock.now += 60
        live.end_window()
        drop(live)
        assert kept(live) == [1, 3, 6]
        assert not fsck.examine(live.provider, True).findings
        verdict = live.audited()
        assert verdict.verdict == "PASS", verdict.line()


def test_a_crash_between_files_and_rows_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live:
        for _ in range(3):
            live.tick()

        def full(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(live.provider.state, "transaction", full)
            with pytest.raises(KeyboardInterrupt):
                dropped.drop(live.provider.state, live.window, [1])
        report = fsck.examine(live.provider, True)
        assert not report.findings
        assert any("version 1 is being deleted" in note for note in report.notes)
        live.restarted()
        drop(live)
        assert kept(live) == [3, 4]
        assert texts(live, 1) == 0


def test_what_is_needed_is_refused_and_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check that keeps it, broken on purpose: fsck sees that answers and proofs lack it."""
    with ticking(tmp_path, gain=2, n_max=6) as live:
        live.tick()
        for number in (1, 2):
            with pytest.raises(CommitmentError, match=f"version {number} of the indices is still needed"):
                dropped.drop(live.provider.state, live.window, [number])
        assert kept(live) == [1, 2]
        with monkeypatch.context() as patch:
            patch.setattr(dropped, "needed", lambda window: set())
            dropped.drop(live.provider.state, live.window, [2])
        found = fsck.examine(live.provider, True).findings
        assert any("was deleted, and answers or proofs need it" in one for one in found), found


def test_what_records_name_is_known_after_a_restart(tmp_path: Path) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live, live.client() as client:
        client.ask("one question")
        before: Window = live.window
        assert before.named == {1}
        live.restarted()
        assert live.window is not before
        assert live.window.named == {1}
