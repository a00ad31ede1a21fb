# SPDX-License-Identifier: GPL-3.0-or-later
"""A document is erased: nothing of it is left in the folder, and nothing brings it back."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.kernel.errors import CommitmentError, ConfigurationError
from ragseal.prover.__main__ import main
from ragseal.prover.administration.documents import Reading
from ragseal.prover.cli import access
from ragseal.prover.cli.access import administration
from ragseal.prover.commitment import document_rows, documents, erasure
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.provider.backends import Backends
from ragseal.prover.storage.state import State
from ragseal.prover.wire.operator_remote import Remote
from tests.attacks.checks import without
from tests.attacks.removal import Check
from tests.classes import TINY
from tests.prover import erasure_scene
from tests.prover.erasure_scene import folder_of, looked, retire, silent
from tests.simulator import provider as scene
from tests.simulator.live import Live, live
from tests.simulator.marked import found_in, marks, row_of, texts

one = erasure_scene.one

pytestmark = pytest.mark.slow

STAYS_OUT = Check(documents.tombstones, "erased_of", lambda *_: lambda name: False)

SCRUBBED = Check(State, "scrub", lambda self: True)


def test_a_source_does_not_bring_back_what_was_erased_and_the_operator_can(one: Live, tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    source.write_text("".join(json.dumps({"id": name, "text": f"text of {name}"}) + "\n" for name in ("s0", "s1")))
    state = one.provider.state

    def slots() -> dict[str, int]:
        return dict(state.rows("SELECT document, slot FROM documents WHERE document LIKE 's_'"))

    with Remote(folder_of(one)) as there:
        sync = lambda: there.sync_documents(Reading("acme", f"jsonl:{source}"), silent, threading.Event())  # noqa: E731
        assert sync().values["added"] == 2
        before = slots()
        there.erase_document("acme", "s0", "art. 17")
        one.call(looked(one))
        (listed,) = there.list_erasures("acme", "s0").values["erasures"]
        assert listed["purged"] is not None, "no window has it"
        assert listed["id"] is None
        source.write_text("".join(json.dumps({"id": f"s{i}", "text": f"new text of s{i}"}) + "\n" for i in (0, 1)))
        done = sync()
        assert (done.values["erased"], done.values["changed"], done.values["added"]) == (1, 1, 0)
        assert "1 were erased here and stay out" in done.text
        assert slots() == {"s1": before["s1"]}
        with without(STAYS_OUT):
            assert sync().values["added"] == 1  # what that would have come to
        there.erase_document("acme", "s0", "again")
        assert there.put_documents("acme", [Document("s0", "asked for anew")], silent).values["added"] == 1
        assert slots() == before, "it has another coin"
        assert sync().values["changed"] == 1


def test_refused_erasures_change_nothing(one: Live) -> None:
    state = one.provider.state
    tables = ("documents", "resting", "erasures", "erased", "erasure_windows", "tenants")
    before = [state.rows(f"SELECT * FROM {table}") for table in tables]
    with Remote(folder_of(one)) as there:
        for name, reason, why in (
            ("nothing", "art. 17", "has no document 'nothing'"),
            ("acme-1", "", "1 to 200 printable"),
            ("acme-1", "x" * 201, "1 to 200 printable"),
            ("acme-1", "two\nlines", "1 to 200 printable"),
        ):
            with pytest.raises(CommitmentError, match=why):
                there.erase_document("acme", name, reason)
        with pytest.raises(CommitmentError, match="tenant name"):
            there.erase_document("", "acme-1", "art. 17")
    assert [state.rows(f"SELECT * FROM {table}") for table in tables] == before


def test_a_document_that_was_deleted_before_is_erased_from_the_windows_that_have_it(one: Live) -> None:
    with Remote(folder_of(one)) as there:
        there.delete_documents("acme", ["acme-1"])
        assert there.erase_document("acme", "acme-1", "art. 17").values["windows"] == 1
        (listed,) = there.list_erasures("", "").values["erasures"]
        assert (listed["out_of_answers"], listed["purged"]) == (None, None)
        one.end_window()
        (listed,) = there.list_erasures("", "").values["erasures"]
        assert listed["out_of_answers"] is not None
        assert listed["purged"] is None
        copy = one.folder / "copy"
        there.backup(copy, silent)
        retire(one)
        (listed,) = there.list_erasures("", "").values["erasures"]
        assert listed["backups"] == [str(copy)]
        assert "delete them" in there.list_erasures("", "").text


def test_a_plain_copy_that_is_killed_is_named_and_one_that_fails_is_not(tmp_path: Path) -> None:
    folder, place = tmp_path / "p", tmp_path / "copy"
    scene.new_state(folder, texts=texts).close()
    (tmp_path / "there").mkdir()
    with administration(folder) as there, pytest.raises(ConfigurationError, match="is there already"):
        there.backup(tmp_path / "there", silent)
    child = os.fork()
    if not child:
        try:
            with administration(folder) as there:
                there.backup(place, lambda what, *_: os.kill(os.getpid(), signal.SIGKILL) if "keys" in what else None)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert [one for path in tmp_path.glob(".copy.*") for one in found_in(path, *marks()[:1])], "nothing is left to name"
    with closing(State(folder)) as state:
        assert erasure.backups_before(state, None) == [str(place)]


def test_pages_and_files_are_overwritten_and_not_only_let_go_of(one: Live) -> None:
    one.end_window()
    (name, *_) = [name for (name,) in one.provider.state.rows("SELECT matrix FROM versions WHERE tenant = 'acme'")]
    kept = one.folder / "kept.npy"
    os.link(folder_of(one) / "windows" / name, kept)
    assert found_in(one.folder, row_of("acme"))
    with without(SCRUBBED):
        with Remote(folder_of(one)) as there:
            there.erase_document("acme", "acme-marked-id-77", "art. 17")
        retire(one)
        assert found_in(folder_of(one), *marks()), "nothing was left to be scrubbed: this test shows nothing"
    assert set(kept.read_bytes()) == {0}
    assert one.provider.state.scrub()
    assert found_in(folder_of(one), *marks()) == []


def test_a_copy_that_is_being_made_is_waited_for(one: Live) -> None:
    """It still reads what was there, so the write-ahead log stays; the next look purges it."""
    one.end_window()
    state = one.provider.state
    reader = sqlite3.connect(folder_of(one) / "state.db", check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM documents").fetchall()
    with Remote(folder_of(one)) as there:
        there.erase_document("acme", "acme-marked-id-77", "art. 17")
        assert there.retire("w1", True, False, silent).values["purged"] is False
        (listed,) = there.list_erasures("", "").values["erasures"]
        assert listed["purged"] is None
        reader.rollback()
        reader.close()
        one.call(looked(one))
        (listed,) = there.list_erasures("", "").values["erasures"]
        assert listed["purged"] is not None
    assert found_in(folder_of(one), *marks()) == []
    assert state.rows("SELECT 1 FROM retirements WHERE ended IS NULL") == []


def test_what_a_crash_left_of_a_commit_goes_with_an_erasure(one: Live) -> None:
    """A window that never entered the ledger has texts too, and so have files that no table names."""
    provider, policy = one.provider, scene.make_policy(opens=scene.NOW + 7200, closes=scene.NOW + 10800)
    one.end_window()
    provider.prepare(policy, "w-left")
    (folder_of(one) / "windows" / ".torn.npy.0123456789abcdef").write_bytes(row_of("acme"))
    with Remote(folder_of(one)) as there:
        assert there.erase_document("acme", "acme-marked-id-77", "art. 17").values["windows"] == 2
    retire(one)
    one.call(looked(one))
    (asked,) = erasure.erasures(provider.state)
    assert asked.purged is not None
    assert found_in(folder_of(one), *marks()) == []
    assert provider.state.rows("SELECT name FROM windows") == [("w1",)]


def test_an_erasure_waits_until_a_window_is_committed(one: Live) -> None:
    """Else it could be committed with a document that no list of windows names."""
    serving = one.server.serving

    async def taken() -> None:
        await serving.committing.acquire()

    one.call(taken())
    done = threading.Event()

    def erase() -> None:
        with Remote(folder_of(one)) as there:
            there.erase_document("acme", "acme-marked-id-77", "art. 17")
        done.set()

    asking = threading.Thread(target=erase)
    asking.start()
    assert not done.wait(1.0)
    provider = one.provider
    made = provider.prepare(scene.make_policy(opens=scene.NOW + 7200, closes=scene.NOW + 10800), "w2")

    async def given_back() -> None:
        await serving.journal.append(lambda: made)
        serving.committing.release()

    one.call(given_back())
    assert done.wait(30)
    asking.join()
    (asked,) = erasure.erasures(provider.state)
    assert set(asked.windows) == {one.window.digest, made.manifest.digest()}


def test_the_commands_do_the_same_where_nobody_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(tmp_path, texts=texts) as made:
        with made.client(name="alice") as client:
            client.ask("report about topic 5")
        made.end_window()
        made.stop()
        tools = made.provider.backends
        monkeypatch.setattr(access.assembly, "assemble", lambda state, progress: _reopened(state, tools))
        folder = str(folder_of(made))

        def run(*arguments: str) -> Any:
            done = CliRunner().invoke(main, [*arguments[:-1], "--state", folder, arguments[-1], "--json"])
            assert done.exit_code == 0, done.output
            return json.loads(done.stdout.splitlines()[-1])

        erased = (
            "documents",
            "erase",
            "--tenant",
            "acme",
            "--id",
            "acme-marked-id-77",
            "--reason",
            "art. 17",
            "--json",
        )
        assert run(*erased)["windows"] == 1
        made.clock.now += 60
        assert run("retire", "w1", "--yes") == {"window": "w1", "purged": True}
        (listed,) = run("documents", "erasures", "--json")["erasures"]
        assert listed["purged"] is not None
        assert found_in(folder_of(made), *marks()) == []
        made.restart_after_stop()
        assert made.audited().verdict == "PASS"


def _reopened(state: State, tools: Backends) -> Backends:
    """The same tools on a folder that was opened anew."""
    rings = access.assembly.open_estimate_keys(state, silent)
    return replace(tools, keys=access.assembly.open_keys(state, TINY, silent), estimate_keys=rings)


@pytest.mark.parametrize("present", [True, False])
def test_a_sync_that_began_before_an_erasure_does_not_bring_it_back(tmp_path: Path, present: bool) -> None:
    state = scene.new_state(tmp_path / "p", texts=texts)
    if not present:  # a window has it still
        with state.transaction() as db:
            document_rows.remove(db, "acme", "acme-1")
            db.execute("INSERT INTO version_texts VALUES (x'01', 0, 'acme', 1, 'acme-1', 'text', x'', x'', NULL)")

    def sync(embed: Any) -> documents.Applied:
        changes = [documents.Put(Document("acme-1", "what the source says"))]
        return documents.apply(state, "acme", changes, embed, os.urandom, scene.SHAPE, source="jsonl:x")

    def meanwhile(names: Any) -> Any:
        erasure.erase(state, "acme", "acme-1", "art. 17", scene.NOW, os.urandom)
        return scene.embed_with(scene.TRIGRAMS)(names)

    with pytest.raises(document_rows.ChangedMeanwhile):
        sync(meanwhile)
    assert sync(scene.embed_with(scene.TRIGRAMS)).erased == 1
    assert state.rows("SELECT 1 FROM documents WHERE document = 'acme-1'") == []
    state.close()
