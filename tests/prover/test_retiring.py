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
from click.testing import CliRunner

from ragseal.kernel.commitment import IndexFile
from ragseal.kernel.errors import AuditError, CommitmentError, ConfigurationError, ProofError
from ragseal.kernel.proofs import ProofBatch
from ragseal.kernel.thinning import ThinnedFile
from ragseal.ledger.proof_files import batch_path, columns_path, key_path
from ragseal.prover.__main__ import main
from ragseal.prover.attestation.proofs import Proofs
from ragseal.prover.serving import publishing, retiring
from ragseal.prover.serving.retiring import Retiring, spoken
from ragseal.prover.storage import database
from ragseal.prover.storage.state import State
from ragseal.prover.wire.operator_remote import Remote
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


# ``proofs export``: what is public of a closed window, as files; nothing of it before, and nothing names anybody.


NAMES = (b"alice", b"carol", b"report about", b"topic")


def silent(*_: object) -> None:
    """Nobody waits."""


def ask(made: Live, *names: str) -> None:
    for name in names:
        with made.client(name=name) as client:
            client.ask("report about topic 5")


def close(made: Live) -> None:
    made.call(made.server.serving.turn(made.window))


def export(made: Live, folder: Path, window: str = "") -> None:
    publishing.export(made.provider, made.server.serving.proofs, folder, window, silent)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_everything_public_of_a_window_and_nothing_else(tmp_path: Path) -> None:
    """While the provider serves, through its socket; a second export changes no byte."""
    out = tmp_path / "public"
    with live(tmp_path / "scene", coins=True) as made:
        ask(made, "alice", "carol")
        close(made)
        with Remote(made.folder / "provider") as there:
            told = there.export_proofs(out, "w1", silent)
        manifest, digest = made.window.manifest, made.window.digest
        wanted = {key_path(manifest.key_digest), key_path(manifest.coin.key_digest), batch_path(digest, 0)}
        wanted |= {columns_path(one.columns_digest) for one in manifest.tenants}
        assert made.window.thinning is not None
        wanted |= {columns_path(one.columns_digest) for one in made.window.thinning.tenants}
        files = contents(out)
        assert set(files) == set(told.values["files"]) == wanted
        assert [e.seq for e in ProofBatch.decode(files[batch_path(digest, 0)]).entries] == [0, 1]
        for one in manifest.tenants:
            assert IndexFile.decode(files[columns_path(one.columns_digest)]).columns_digest() == one.columns_digest
        for line in made.window.thinning.tenants:
            assert ThinnedFile.decode(files[columns_path(line.columns_digest)]).entry(line.tenant) == line
        for data in files.values():
            assert not any(name in data for name in NAMES)  # no account, no question, no text
        export(made, out)
        assert contents(out) == files


def test_nothing_of_a_window_that_is_open_or_unknown(tmp_path: Path) -> None:
    with live(tmp_path / "scene") as made:
        ask(made, "alice")
        for window, why in (("", "no window is closed"), ("w1", "is not closed"), ("w9", "no window 'w9'")):
            with pytest.raises(CommitmentError, match=why):
                export(made, tmp_path / "public", window)
        assert not (tmp_path / "public").exists()


def test_nothing_before_all_records_are_public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log shows records on the coarse tick; proofs must not tell earlier that somebody asked."""
    with live(tmp_path / "scene") as made:
        ask(made, "alice")
        close(made)
        with monkeypatch.context() as patch:
            patch.setattr(made.provider.journal, "published_records", lambda window: 0)
            with pytest.raises(CommitmentError, match="not all records of window 'w1' are public yet"):
                export(made, tmp_path / "public")
        assert not (tmp_path / "public").exists()
        export(made, tmp_path / "public")


def test_nothing_is_written_if_one_record_cannot_be_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(tmp_path / "scene") as made:
        ask(made, "alice", "carol")
        close(made)
        proofs = made.server.serving.proofs
        real = proofs.prove

        def prove(manifest: bytes, seq: int) -> object:
            if seq == 1:
                raise ProofError("the prover broke")
            return real(manifest, seq)

        with monkeypatch.context() as patch:
            patch.setattr(proofs, "prove", prove)
            with pytest.raises(AuditError, match="the prover broke"):
                export(made, tmp_path / "public")
        assert not (tmp_path / "public").exists()
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigurationError, match="cannot write below"):
            export(made, tmp_path / "file")


def test_the_command_where_there_is_no_provider(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["proofs", "export", str(tmp_path / "out"), "--state", str(tmp_path / "none")])
    assert done.exit_code != 0
    assert not (tmp_path / "out").exists()
