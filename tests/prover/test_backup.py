# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy of a provider as of one checkpoint, made while it answers; and which copies may be continued.  SPEC G.6.2."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.prover.administration import backup
from ragseal.prover.cli import access
from ragseal.prover.cli.access import administration
from ragseal.prover.fsck import restore
from ragseal.prover.storage.state import COPY
from ragseal.prover.wire.operator_remote import Remote
from tests.attacks.checks import without
from tests.attacks.removal import Both, Check, Guard
from tests.crash.crash_scene import examine, open_copy
from tests.simulator import provider as scene
from tests.simulator.copies import copied, put_back, silent
from tests.simulator.live import Live, live

pytestmark = pytest.mark.slow

NOT_AHEAD = Check(backup, "_not_ahead")
GOES_BACK = Guard(restore, "_refuse_older", "later entries were signed")
OTHER_HISTORY = Guard(restore, "_behind", "of a different history")
SOUND = Both((Check(access, "refuse_rollback"), Check(restore, "refuse_rollback")))


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as made:
        with made.client() as client:
            client.ask("report about topic 3")
        yield made


def test_a_copy_that_is_made_while_accounts_ask_is_whole(serving: Live) -> None:
    """The log goes on all the while: each copy has the secrets of every record that it has, and is continued."""
    ending, troubles = threading.Event(), []

    def ask(name: str) -> None:
        try:
            with serving.client(name=name) as client:
                for number in range(6):
                    if ending.is_set():
                        return
                    client.ask(f"report about topic {number}")
        except AuditError as error:
            troubles.append(error)

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("bob", "carol")]
    for one in threads:
        one.start()
    folders = [copied(serving, f"copy-{number}") for number in range(3)]
    ending.set()
    for one in threads:
        one.join()
    assert troubles == []
    for folder in folders:
        report = examine(folder)
        assert report.findings == []
        assert not [path for path in folder.rglob("*") if stat.S_IMODE(path.stat().st_mode) & 0o077 and path.is_file()
                    and path.parent.name != "ledger"]  # fmt: skip


def test_a_copy_is_never_ahead_of_its_log(serving: Live, tmp_path: Path) -> None:
    """A checkpoint is remembered a moment before the log counts it; a copy of that moment would refuse to start."""
    state, ledger = serving.provider.state, serving.provider.ledger
    ahead = ledger.size + 1

    def mark(folder: Path) -> int:
        with sqlite3.connect(folder / "state.db") as database:
            return int(database.execute("SELECT size FROM ledger_mark").fetchone()[0])

    note = ledger.checkpoint()
    state.remember_checkpoint(ahead, note)
    assert mark(copied(serving, "one")) == ahead - 1
    with without(NOT_AHEAD):
        assert mark(copied(serving, "two")) == ahead
    state.remember_checkpoint(ledger.size, note)


def test_where_no_copy_is_made(serving: Live) -> None:
    taken = serving.folder / "taken"
    taken.mkdir()
    link = serving.folder / "link"
    link.symlink_to(serving.folder / "nowhere")
    for folder, why in (
        (taken, "is there already"),
        (link, "is there already"),
        (serving.folder / "provider" / "inside", "inside the provider's own"),
        (serving.folder / "no" / "such" / "folder", "cannot make"),
        (Path("relative"), "absolute path"),
    ):
        with Remote(serving.folder / "provider") as there, pytest.raises(ConfigurationError, match=why):
            there.backup(folder, silent)
    assert [path.name for path in serving.folder.iterdir() if path.name.startswith(".")] == []


def test_nothing_is_left_of_a_copy_that_fails(serving: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "_copy_log", full)
    with pytest.raises(ConfigurationError, match="No space left"):
        copied(serving)
    assert [path.name for path in serving.folder.iterdir() if "copy" in path.name] == []


def test_a_copy_without_serving_is_the_same(serving: Live) -> None:
    served = copied(serving, "served")
    serving.stop()
    with administration(serving.folder / "provider") as local:
        local.backup(serving.folder / "locked", silent)
    for name in ("ledger/checkpoint", "provider.pem", "log.pem", "provider.toml"):
        assert (served / name).read_bytes() == (serving.folder / "locked" / name).read_bytes()
    serving.restart_after_stop()


# --- put back --------------------------------------------------------------------------------------------------------


def test_a_copy_is_put_back_and_goes_on(serving: Live, tmp_path: Path) -> None:
    folder = copied(serving)
    note = serving.provider.ledger.checkpoint()
    serving.stop()
    shutil.rmtree(serving.folder / "provider")
    with pytest.raises(ConfigurationError, match="never that nothing was"):
        put_back(folder, serving.folder / "provider")
    with pytest.raises(ConfigurationError, match="not a checkpoint of the backup's log"):
        put_back(folder, serving.folder / "provider", b"nonsense")
    assert not (serving.folder / "provider").exists()
    told = put_back(folder, serving.folder / "provider", note, nothing_newer=True)
    assert "window w1 (open, 1 record)" in told.text
    with pytest.raises(ConfigurationError, match="holds a provider: move it away"):
        put_back(folder, serving.folder / "provider", note)
    serving.restart_after_stop()
    with serving.client() as client:
        assert client.ask("report about topic 5").record.seq == 1


def test_a_copy_that_the_log_has_passed_is_not_put_back(serving: Live) -> None:
    """By a note that somebody holds, or by what is left of the folder itself."""
    folder = copied(serving)
    with serving.client() as client:
        client.ask("report about topic 5")
    newer = serving.provider.ledger.checkpoint()
    assert open_checkpoint(newer, serving.provider.ledger.verifier).checkpoint.size == serving.provider.ledger.size
    lost = "1 later entries were signed, and would be lost"
    with pytest.raises(LedgerError, match=lost):
        put_back(folder, serving.folder / "elsewhere", newer, nothing_newer=True)
    serving.stop()
    own, left = serving.folder / "provider", serving.folder / "left"
    with pytest.raises(ConfigurationError, match="holds a provider: move it away"):
        put_back(folder, own, nothing_newer=True)
    os.rename(own / "provider.toml", own / "toml")  # what a disk left of it
    with pytest.raises(ConfigurationError, match="name its new path with --remains"):
        put_back(folder, own, nothing_newer=True)
    own.rename(left)
    with pytest.raises(LedgerError, match=lost):
        put_back(folder, own, remains=left, nothing_newer=True)
    (left / "ledger" / "checkpoint").rename(left / "ledger" / "kept")
    with pytest.raises(LedgerError, match=lost):
        put_back(folder, own, remains=left, nothing_newer=True)
    (left / "ledger" / "kept").rename(left / "ledger" / "checkpoint")
    with without(GOES_BACK):
        put_back(folder, serving.folder / "elsewhere", remains=left, nothing_newer=True)
    (left / COPY).unlink()
    os.rename(left / "toml", left / "provider.toml")
    left.rename(own)
    serving.restart_after_stop()


def test_a_ledger_alone_from_an_old_copy_is_not_served(serving: Live) -> None:
    """What is left of the newest state.db knows better (SPEC G.6.2)."""
    folder = copied(serving)
    with serving.client() as client:
        client.ask("report about topic 5")
    serving.stop()
    own = serving.folder / "provider"
    newest = own / "newest"
    (own / "ledger").rename(newest)
    shutil.copytree(folder / "ledger", own / "ledger")
    with pytest.raises(LedgerError, match="was rolled back"):
        open_copy(own)
    with administration(own) as local, pytest.raises(LedgerError, match="was rolled back"):
        local.backup(serving.folder / "laundered", silent)
    shutil.copytree(own, serving.folder / "plain")  # the scene's keys are links
    with pytest.raises(LedgerError, match="was rolled back"):
        put_back(serving.folder / "plain", serving.folder / "laundered", nothing_newer=True)
    with without(SOUND), administration(own) as local:
        local.backup(serving.folder / "laundered", silent)
    open_copy(serving.folder / "laundered").close()  # what that would have come to
    shutil.rmtree(own / "ledger")
    newest.rename(own / "ledger")
    serving.restart_after_stop()


def test_a_copy_of_another_history_is_not_put_back(serving: Live, tmp_path: Path) -> None:
    """The same keys, another log: a fork that was begun elsewhere."""
    folder = copied(serving)
    forked = serving.folder / "forked"
    shutil.copytree(folder, forked, symlinks=True)

    async def go_on(directory: Path, account: str) -> bytes:
        async with scene.serving_on(scene.open_provider(directory)) as other:
            window = other.journal.history.open
            assert window is not None
            await scene.Asker(account, other).ask("report about topic 7")
            return other.provider.ledger.checkpoint()

    for one in (folder, forked):
        (one / COPY).unlink()  # or no copy would go on
    note = asyncio.run(go_on(forked, "bob"))
    asyncio.run(go_on(folder, "carol"))
    with pytest.raises(LedgerError, match="of a different history"):
        put_back(folder, serving.folder / "elsewhere", note)
    with without(OTHER_HISTORY):
        put_back(folder, serving.folder / "elsewhere", note, nothing_newer=True)
