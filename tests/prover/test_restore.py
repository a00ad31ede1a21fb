# SPDX-License-Identifier: GPL-3.0-or-later
"""Which copies go on, which only show what they have, and what of a backup is believed.  SPEC G.6.2."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ragseal.kernel import signature
from ragseal.kernel.commitment import WindowClose
from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError
from ragseal.kernel.inquiry import RegistryAsk
from ragseal.ledger.log import Log
from ragseal.ledger.log_folder import LogFolder
from ragseal.prover.administration import backup, remains
from ragseal.prover.administration.remains import Remains
from ragseal.prover.attestation.answering import Attestation
from ragseal.prover.attestation.asked import Asked
from ragseal.prover.cli.access import administration
from ragseal.prover.fsck import restore
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.state import COPY, State
from tests.attacks.checks import without
from tests.attacks.removal import Both, Check, Guard, Removable
from tests.crash.crash_scene import examine
from tests.simulator import provider as scene
from tests.simulator.copies import copied, put_back, silent
from tests.simulator.keys import ROOT
from tests.simulator.live import Live, live

pytestmark = pytest.mark.slow

FROZEN = Check(Journal, "refuse_frozen")
BEFORE_WORK = Both((Guard(Attestation, "_job", "refuse_frozen()"), Guard(Attestation, "_prepare", "refuse_frozen()")))
UNKNOWN = Check(restore, "_refuse_unknown")
FOREIGN = Guard(restore, "_refuse_foreign", "_laid_out(DATABASE)")
FOREIGN_LOG = Guard(restore, "_refuse_foreign", "_laid_out(LEDGER_DATABASE)")
MATRIX = Guard(restore, "_refuse_foreign", "lacks the index matrix")
NO_LINKS = Guard(restore, "_take", "is a link or a device")
DEEP = Guard(restore, "_take", "deeper than anything in a backup")
TAIL = Guard(LogFolder, "open", "goes on behind its checkpoint")
DAMAGED = Guard(restore, "_refuse_damaged", "the backup is damaged")
CUT = Check(restore, "_cut")
ASKS = Check(restore, "_forget_asks")
REMAINS = Check(remains, "_refuse_marked")
LOCKED = Check(remains, "_locked", lambda _: [])
MARKED = Check(Remains, "mark")
UNSIGNED = Check(restore, "_refuse_unsigned")
MARK = Check(restore, "mark")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("restored")) as made:
        with made.client() as client:
            client.ask("report about topic 3")
        yield made


@pytest.fixture(scope="module")
def folder(serving: Live) -> Path:
    """A copy; tests that change it copy it first."""
    return copied(serving)


def changed(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "changed"))


def leftovers(tmp_path: Path) -> list[str]:
    return [path.name for path in tmp_path.iterdir() if path.name != "changed"]


# --- which copy goes on ----------------------------------------------------------------------------------------------


def test_no_public_note_tells_that_nothing_newer_was_signed(serving: Live, folder: Path, tmp_path: Path) -> None:
    """Records become public up to a minute after their answers left: an observer's note may be of the copy's size.

    Nor does one of a copy without an open window: the window that was opened after it may have records already.
    """
    note = serving.provider.ledger.checkpoint_at(9)
    with pytest.raises(ConfigurationError, match="never that nothing was"):
        put_back(folder, tmp_path / "p", note)
    assert leftovers(tmp_path) == []
    with without(UNKNOWN):
        assert put_back(folder, tmp_path / "p", note).values["entries"] == 9


def test_a_window_that_was_opened_after_the_copy_is_not_forked_by_a_note_from_before(tmp_path: Path) -> None:
    async def make() -> None:
        async with scene.window_on(tmp_path / "provider") as other:
            window = other.journal.history.open
            assert window is not None
            other.provider.end(window)

    asyncio.run(make())
    with administration(tmp_path / "provider") as local:
        local.backup(tmp_path / "copy", silent)
    note = (tmp_path / "copy" / "ledger" / "checkpoint").read_bytes()
    with pytest.raises(ConfigurationError, match="never that nothing was"):
        put_back(tmp_path / "copy", tmp_path / "p", note)
    with without(UNKNOWN):
        put_back(tmp_path / "copy", tmp_path / "p", note)


def test_what_is_left_of_the_folder_tells_and_a_copy_of_it_does_not(
    serving: Live, folder: Path, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    left.mkdir()
    with pytest.raises(ConfigurationError, match="tells what this provider signed last"):
        put_back(folder, tmp_path / "p", remains=left)
    with pytest.raises(ConfigurationError, match="is a copy, too"):
        put_back(folder, tmp_path / "p", remains=folder)
    with without(REMAINS):
        put_back(folder, tmp_path / "wrong", remains=changed(folder, tmp_path))
    shutil.copy(serving.folder / "provider" / "state.db", left / "state.db")
    shutil.copy(folder / "state.db", left / "state.db")  # as it was in the copy's moment
    told = put_back(folder, tmp_path / "p", remains=left)
    assert told.values == {
        "state": str(tmp_path / "p"), "entries": 9, "lost": 0, "unproven": 1, "read_only": False,
    }  # fmt: skip
    assert "without a proof yet, which audits ask for: 1 record." in told.text
    assert not (tmp_path / "p" / COPY).exists()
    provider = scene.open_provider(tmp_path / "p")
    assert not provider.journal.frozen
    provider.close()


def test_remains_that_a_provider_still_runs_on_let_nothing_go_on(tmp_path: Path) -> None:
    """Moved away by name while the process lives: two would sign with one key."""
    with live(tmp_path) as made:
        there, lost = copied(made), tmp_path / "lost"
        (tmp_path / "provider").rename(lost)
        with pytest.raises(LedgerError, match="in use by another process"):
            put_back(there, tmp_path / "provider", remains=lost)
        assert not (tmp_path / "provider").exists()
        assert not (lost / COPY).exists()
        assert put_back(there, tmp_path / "shown", remains=lost, read_only=True).values["lost"] == 0
        assert not (lost / COPY).exists()
        with without(LOCKED):
            put_back(there, tmp_path / "second", remains=lost)
        (lost / COPY).unlink()
        lost.rename(tmp_path / "provider")


def test_remains_let_one_copy_go_on_once_and_nothing_else(
    serving: Live, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "left"
    shutil.copytree(folder, left)
    (left / COPY).unlink()  # as the folder was in the copy's moment

    def full(_: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def refuses(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for place, name, how in ((backup, "_sync_all", full), (remains, "write_durably", refuses)):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, how)
            with pytest.raises(ConfigurationError, match="cannot m"):
                put_back(folder, tmp_path / "p", remains=left)
        assert not (left / COPY).exists(), "nothing went on, so they may be used again"
        assert [one.name for one in tmp_path.iterdir()] == ["left"], "nothing is left of the attempt"
    put_back(folder, tmp_path / "p", remains=left)
    assert str(tmp_path / "p") in (left / COPY).read_text()
    for one in (tmp_path / "q", tmp_path / "r"):
        with pytest.raises(ConfigurationError, match="another copy went on by it"):
            put_back(folder, one, remains=left)
    assert (left / COPY).exists(), "a refusal leaves another's mark"
    provider = scene.open_provider(left)
    assert provider.journal.frozen
    provider.close()
    (left / COPY).unlink()
    with without(MARKED):
        for one in (tmp_path / "q", tmp_path / "r"):
            put_back(folder, one, remains=left)


KILLED = {"in its place": "_let_go_on", "what is left is given up": "unmark"}


@pytest.mark.parametrize("after", KILLED)
def test_a_restore_that_is_killed_between_its_last_steps_is_ended_by_the_next(
    folder: Path, tmp_path: Path, after: str
) -> None:
    """Meanwhile nothing goes on: neither the copy in its place nor what is left nor another copy."""
    left, place = tmp_path / "left", tmp_path / "p"
    shutil.copytree(folder, left)
    (left / COPY).unlink()  # as the folder was in the copy's moment
    child = [sys.executable, "-m", "tests.crash.dying", "restore", KILLED[after], folder, place, left]
    done = subprocess.run(child, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (place / COPY).exists()
    if after == "in its place":
        assert not (left / COPY).exists()
        with pytest.raises(ConfigurationError, match="cut off leaves one, too"):
            put_back(folder, place, remains=left)
        shutil.rmtree(place)
        put_back(folder, place, remains=left)
        assert not (place / COPY).exists()
        return
    with pytest.raises(ConfigurationError, match="say the same once more"):
        put_back(folder, tmp_path / "q", remains=left)
    for other in (place, Path(shutil.copytree(place, tmp_path / "of it"))):  # a copy knows nothing of what came later
        with pytest.raises(ConfigurationError, match="is a copy already"):
            put_back(folder, place, remains=other)
    with State(place), pytest.raises(LedgerError, match="in use by another process"):
        put_back(folder, place, remains=left)
    assert (place / COPY).exists()
    told = put_back(folder, place, remains=left)
    assert (told.values["entries"], told.values["lost"], told.values["read_only"]) == (9, 0, False)
    assert not (place / COPY).exists()
    assert str(place) in (left / COPY).read_text()
    with pytest.raises(ConfigurationError, match="holds a provider"):
        put_back(folder, place, remains=left)
    place.rename(tmp_path / "moved")
    with pytest.raises(ConfigurationError, match="another copy went on by it"):
        put_back(folder, place, remains=left)


def test_a_ledger_that_lost_its_checkpoint_tells_how_much_may_have_been_signed(
    serving: Live, folder: Path, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    shutil.copytree(folder, left)
    (left / COPY).unlink()
    with State(left) as state, state.open_ledger() as log:  # state.db does not hear of it, as before a power cut
        window = next(iter(Journal(log, signature.public_bytes(state.key)).history.windows.values()))
        log.append_now([lambda _: WindowClose(window.digest, 1, window.time).encode()])
    (left / "ledger" / "checkpoint").unlink()
    with pytest.raises(LedgerError, match="has 10 entries and lacks the checkpoint"):
        put_back(folder, tmp_path / "p", remains=left)
    assert not (left / COPY).exists()
    assert put_back(folder, tmp_path / "shown", remains=left, read_only=True).values["read_only"]
    with without(UNSIGNED):
        put_back(folder, tmp_path / "p", remains=left)


def test_an_older_note_does_not_tell_what_is_newest(serving: Live, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="never that nothing was"):
        put_back(folder, tmp_path / "p", serving.provider.ledger.checkpoint_at(4))


def test_words_that_contradict_each_other_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="say one of them"):
        put_back(folder, tmp_path / "p", nothing_newer=True, read_only=True)


# --- a copy signs nothing --------------------------------------------------------------------------------------------


def test_a_copy_shows_what_it_has_and_enters_nothing(tmp_path: Path) -> None:
    """Also one that was moved into its place by hand, which nobody can tell from the folder itself."""
    with live(tmp_path) as made:
        with made.client() as client:
            first = client.ask("report about topic 3")
        there = copied(made)
        with made.client() as client:
            client.ask("report about topic 5")
        newest = made.provider.ledger.checkpoint()
        made.stop()
        (tmp_path / "provider").rename(tmp_path / "lost")
        told = put_back(there, tmp_path / "provider", newest, read_only=True)
        assert told.values["lost"] == 1
        assert "1 later entries were signed and are lost" in told.text
        made.restart_after_stop()
        journal, size = made.provider.journal, made.provider.ledger.size
        assert first.record.seq == 0
        with made.client(name="bob") as client, pytest.raises(AuditError, match="is a copy"):
            client.ask("report about topic 7")
        window = journal.history.open
        assert window is not None
        assert made.provider.state.rows("SELECT COUNT(*) FROM queries") == [(1,)]
        with without(BEFORE_WORK):  # the log takes nothing all the same, but an answer was computed
            with made.client(name="bob") as client, pytest.raises(AuditError, match="is a copy"):
                client.ask("report about topic 8")
            assert made.provider.state.rows("SELECT COUNT(*) FROM queries") == [(2,)]
        with pytest.raises(LedgerError, match="is a copy"):
            made.end_window()
        with pytest.raises(LedgerError, match="is a copy"):
            made.provider.prepare(scene.make_policy(), "w2")
        made.clock.now += 1  # asks of before the copy came back are not taken
        batch = made.call(scene.batch(made.server.serving, window.digest, []))
        assert batch, "a copy proves the records that it has"
        assert made.provider.ledger.size == size
        again = copied(made, "again")
        assert (again / COPY).exists()
        assert examine(again).findings == []
        with without(FROZEN):
            made.end_window()
        assert made.provider.ledger.size == size + 1


def test_a_copy_makes_no_version_of_its_indices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def make() -> None:
        async with scene.window_on(tmp_path / "p", version_every=60):
            pass

    async def tick() -> int:
        provider = scene.open_provider(tmp_path / "p", scene.Clock(scene.NOW + 60))
        async with scene.serving_on(provider) as serving:
            await serving.ticks.step()
            return len(provider.state.rows("SELECT DISTINCT number FROM versions"))

    asyncio.run(make())
    (tmp_path / "p" / COPY).touch()
    assert asyncio.run(tick()) == 2
    monkeypatch.setattr(Journal, "frozen", False)
    with pytest.raises(LedgerError, match="is a copy"):
        asyncio.run(tick())


# --- what comes from a backup ----------------------------------------------------------------------------------------


def test_asks_that_were_answered_after_the_copy_are_not_answered_again(folder: Path, tmp_path: Path) -> None:
    def asked(target: Path) -> None:
        provider = scene.open_provider(target)
        try:
            window = next(iter(provider.journal.history.windows.values()))
            ask = RegistryAsk(window.digest, scene.NOW - 1, b"n" * 16)
            Asked(provider.state).take(scene.AUDITOR, ask, scene.NOW)
        finally:
            provider.close()

    put_back(folder, tmp_path / "p", nothing_newer=True)
    with pytest.raises(AuditError, match="ask anew"):
        asked(tmp_path / "p")
    with without(ASKS):
        put_back(folder, tmp_path / "q", nothing_newer=True)
    asked(tmp_path / "q")


def _link(made: Path) -> None:
    (made / "windows" / "link").symlink_to("/etc/hostname")


def _pipe(made: Path) -> None:
    os.mkfifo(made / "keys" / "pipe")


def _deep(made: Path) -> None:
    """Python and the system have limits of their own, at which neither copies nor cleans up."""
    (made / "keys" / "/".join("d" * 20)).mkdir(parents=True)


def _trigger(made: Path) -> None:
    with closing(sqlite3.connect(made / "state.db")) as db:
        db.execute("CREATE TRIGGER sly AFTER INSERT ON queries BEGIN DELETE FROM queries; END")


def _log_trigger(made: Path) -> None:
    with closing(sqlite3.connect(made / "ledger" / "log.sqlite")) as db:
        db.execute("CREATE TRIGGER sly AFTER INSERT ON leaf BEGIN INSERT INTO leaf (entry) VALUES (x'00'); END")


def _matrix(made: Path) -> None:
    with closing(sqlite3.connect(made / "state.db", isolation_level=None)) as db:
        db.execute("UPDATE versions SET matrix = '../../elsewhere' WHERE tenant = 'acme'")


def _tail(made: Path) -> None:
    """An entry behind the checkpoint, which whoever opens the log would sign: a closing, which nobody signs alone."""
    with State(made) as state, Log.open(made / "ledger", state.log_signer) as log:
        note = log.checkpoint()
        window = next(iter(Journal(log, signature.public_bytes(state.key)).history.windows.values()))
        closing = WindowClose(window.digest, 1, window.time).encode()
        log.append_now([lambda _: closing])
    (made / "ledger" / "checkpoint").write_bytes(note)


def _cut(made: Path) -> None:
    path = made / "state.db"
    os.truncate(path, path.stat().st_size - 2)


def _lost_secrets(made: Path) -> None:
    with closing(sqlite3.connect(made / "state.db", isolation_level=None)) as db:
        db.execute("DELETE FROM queries")


@pytest.mark.parametrize(
    ("damage", "says", "check"),
    [
        (_link, "is a link or a device", None),
        (_pipe, "is a link or a device", NO_LINKS),
        (_deep, "lies deeper than anything in a backup", DEEP),
        (_trigger, "is not laid out as", FOREIGN),
        (_log_trigger, "log.sqlite is not laid out as", FOREIGN_LOG),
        (_matrix, "lacks the index matrix", MATRIX),
        (_tail, "goes on behind its checkpoint", TAIL),
        (_cut, "state.db is cut off", CUT),
        (_lost_secrets, "the backup is damaged: record 0", DAMAGED),
    ],
)
def test_a_backup_that_somebody_changed_is_refused(
    folder: Path, tmp_path: Path, damage: Callable[[Path], None], says: str, check: Removable | None
) -> None:
    made = changed(folder, tmp_path)
    damage(made)
    with pytest.raises(AuditError, match=says):
        put_back(made, tmp_path / "p", nothing_newer=True)
    assert leftovers(tmp_path) == []
    if check is not None:
        with without(check):
            put_back(made, tmp_path / "p", nothing_newer=True)


def test_a_copy_with_a_tail_signs_nothing_where_it_lies(folder: Path, tmp_path: Path) -> None:
    made = changed(folder, tmp_path)
    _tail(made)
    note = (made / "ledger" / "checkpoint").read_bytes()
    with State(made) as state, pytest.raises(LedgerError, match="goes on behind its checkpoint, from 9 to 10 entries"):
        state.open_ledger()
    assert (made / "ledger" / "checkpoint").read_bytes() == note
    with without(TAIL):
        scene.open_provider(made).close()
    assert (made / "ledger" / "checkpoint").read_bytes() != note


def test_a_copy_that_lost_its_mark_is_put_back_with_one(folder: Path, tmp_path: Path) -> None:
    made = changed(folder, tmp_path)
    (made / COPY).unlink()
    put_back(made, tmp_path / "p", read_only=True)
    assert (tmp_path / "p" / COPY).exists()
    with without(MARK):
        put_back(made, tmp_path / "q", read_only=True)
    assert not (tmp_path / "q" / COPY).exists()


def test_no_file_that_is_cut_off_or_missing_gets_through_or_leaves_anything(folder: Path, tmp_path: Path) -> None:
    names = ("provider.toml", "provider.pem", "log.pem", "state.db", "ledger/log.sqlite", "ledger/checkpoint")
    for name in names:
        made = changed(folder, tmp_path)
        whole = (made / name).read_bytes()
        for kept in (40, len(whole) - 2):
            (made / name).write_bytes(whole[:kept])
            try:
                put_back(made, tmp_path / "p", nothing_newer=True)
            except AuditError:
                assert leftovers(tmp_path) == [], (name, kept)
            else:
                pytest.fail(f"{name} with {kept} bytes is put back")
        (made / name).unlink()
        with pytest.raises(AuditError):
            put_back(made, tmp_path / "p", nothing_newer=True)
        assert leftovers(tmp_path) == [], name
        shutil.rmtree(made)
