# SPDX-License-Identifier: GPL-3.0-or-later
"""The log after rollback, replacement, damage, failing storage and kill -9: refused, or nothing is lost."""

from __future__ import annotations

import asyncio
import errno
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragseal.kernel.errors import AuditError, LedgerError
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.log import Log
from ragseal.ledger.merkle import MerkleTree, verify_consistency
from tests.ledger.log_scene import CHILD, KEY, fill


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def log(directory: Path) -> Iterator[Log]:
    with Log.create(directory, KEY) as log:
        yield log


def reopen_with(directory: Path, statement: str) -> None:
    """Change the database behind the log's back (its triggers out of the way)."""
    con = sqlite3.connect(directory / "log.sqlite")
    con.execute("DROP TRIGGER leaf_no_update")
    con.execute("DROP TRIGGER leaf_no_delete")
    con.execute(statement)
    con.commit()
    con.close()


# --- rollback, replacement, damage -----------------------------------------------------------------------------------


def test_a_rolled_back_database_is_refused(directory: Path, tmp_path: Path) -> None:
    log = Log.create(directory, KEY)
    fill(log, 5)
    log.close()
    shutil.copy(directory / "log.sqlite", tmp_path / "backup")
    with Log.open(directory, KEY) as log:
        fill(log, 2)
    shutil.copy(tmp_path / "backup", directory / "log.sqlite")
    with pytest.raises(LedgerError, match="5 entries, but 7 were signed"):
        Log.open(directory, KEY)


def test_a_replaced_database_is_refused(directory: Path, tmp_path: Path) -> None:
    for path, text in ((directory, b"mine"), (tmp_path / "other", b"other")):
        with Log.create(path, KEY) as log:
            log.append_now([lambda _, text=text: text] * 3)  # type: ignore[misc]
    shutil.copy(tmp_path / "other" / "log.sqlite", directory / "log.sqlite")
    with pytest.raises(LedgerError, match="not those that were signed"):
        Log.open(directory, KEY)


@pytest.mark.parametrize("content", [b"", b"junk" * 1000])
def test_a_file_that_is_no_ledger_is_refused(directory: Path, content: bytes) -> None:
    Log.create(directory, KEY).close()
    (directory / "log.sqlite").write_bytes(content)
    with pytest.raises(LedgerError):
        Log.open(directory, KEY)


def test_a_changed_checkpoint_file_is_refused(directory: Path) -> None:
    Log.create(directory, KEY).close()
    note = (directory / "checkpoint").read_bytes()
    for changed in (note[:-1], note.replace(b"\n0\n", b"\n1\n"), b""):
        (directory / "checkpoint").write_bytes(changed)
        with pytest.raises(AuditError):
            Log.open(directory, KEY)


def test_gaps_are_refused(directory: Path) -> None:
    with Log.create(directory, KEY) as log:
        fill(log, 5)
    reopen_with(directory, "DELETE FROM leaf WHERE id = 3")
    with pytest.raises(LedgerError, match="damaged"):
        Log.open(directory, KEY)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE leaf SET entry = x'00' WHERE id = 3", "entry 2 is not what was appended"),
        ("UPDATE leaf SET entry = NULL WHERE id = 5", "entry 4 is not what was appended"),
        ("UPDATE leaf SET entry = 'text' WHERE id = 5", "entry 4 is not what was appended"),
    ],
)
def test_fsck_finds_a_changed_entry(directory: Path, statement: str, message: str) -> None:
    with Log.create(directory, KEY) as log:
        fill(log, 5)
        log.fsck()
    reopen_with(directory, statement)
    with Log.open(directory, KEY) as log, pytest.raises(LedgerError, match=message):
        log.fsck()


def test_fsck_finds_an_entry_changed_together_with_its_hash(directory: Path) -> None:
    with Log.create(directory, KEY) as log:
        fill(log, 5)
        log.inclusion(0, 5)
        # while the log runs, so the comparison at start is out of the way
        con, changed = log._tree.con, MerkleTree([b"changed"]).root()
        con.execute("DROP TRIGGER leaf_no_update")
        con.execute("UPDATE leaf SET entry = ?, hash = ? WHERE id = 2", (b"changed", changed))
        con.commit()
        steps: list[tuple[int, int]] = []
        with pytest.raises(LedgerError, match="do not give the signed root"):
            log.fsck(lambda done, total: steps.append((done, total)))
        assert steps == [(5, 5)]


def test_entries_missing_from_a_running_log_are_noticed(log: Log) -> None:
    fill(log, 5)
    log._tree.con.execute("DROP TRIGGER leaf_no_delete")
    log._tree.con.execute("DELETE FROM leaf WHERE id = 5")
    log._tree.con.commit()
    with pytest.raises(LedgerError, match="gave 1 of 2"):
        log.entries(3, 2)
    with pytest.raises(LedgerError, match="entries are missing between 0 and 4"):
        log.fsck()


# --- failing storage -------------------------------------------------------------------------------------------------


def test_what_a_crash_left_of_a_checkpoint_is_removed(directory: Path) -> None:
    Log.create(directory, KEY).close()
    (directory / ".checkpoint.0123456789abcdef").write_bytes(b"half")
    with Log.open(directory, KEY):
        assert not list(directory.glob(".checkpoint.*"))


def test_a_tail_that_was_stored_but_not_signed_is_signed_at_start(directory: Path) -> None:
    with Log.create(directory, KEY) as log:
        fill(log, 3)
        log._tree.append_entries([b"stored, then killed"])
    with Log.open(directory, KEY) as log:
        assert log.size == 4
        assert open_checkpoint((directory / "checkpoint").read_bytes(), KEY.verifier).checkpoint.size == 4
        log.fsck()


class BrokenTree:
    """A tree whose commit raises, before or after it persisted."""

    def __init__(self, tree: object, error: sqlite3.Error, persist: bool) -> None:
        self._tree, self._error, self._persist = tree, error, persist

    def append_entries(self, entries: list[bytes]) -> int:
        if self._persist:
            self._tree.append_entries(entries)  # type: ignore[attr-defined]
        raise self._error

    def __getattr__(self, name: str) -> object:
        return getattr(self._tree, name)


def sqlite_error(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("injected")
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize("persist", [False, True])
@pytest.mark.parametrize("name", ["SQLITE_FULL", "SQLITE_BUSY", "SQLITE_IOERR_FSYNC"])
def test_nothing_is_signed_after_a_failed_commit(directory: Path, persist: bool, name: str) -> None:
    log = Log.create(directory, KEY)
    fill(log, 2)
    before, tree = log.checkpoint(), log._tree
    log._tree = BrokenTree(tree, sqlite_error(name), persist)
    with pytest.raises(LedgerError, match="append:"):
        fill(log, 1)
    assert log.checkpoint() == before == (directory / "checkpoint").read_bytes()
    log._tree = tree
    if name != "SQLITE_IOERR_FSYNC" and not persist:
        assert [item.index for item in fill(log, 1)] == [2]  # rolled back for certain: go on
    else:
        with pytest.raises(LedgerError, match="restart to recover"):
            fill(log, 1)
    log.close()
    with Log.open(directory, KEY) as log:
        assert log.size == (2 if name == "SQLITE_IOERR_FSYNC" and not persist else 3)
        log.fsck()


@pytest.mark.asyncio
async def test_no_receipt_without_a_durable_checkpoint(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.create(directory, KEY)
    await log.append(lambda _: b"first")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = log.checkpoint()
    monkeypatch.setattr(log._file, "write", full)
    with pytest.raises(LedgerError, match="No space left"):
        await log.append(lambda _: b"second")
    assert (log.size, log.checkpoint()) == (1, before)
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="restart to recover"):
        await log.append(lambda _: b"third")
    log.close()
    with Log.open(directory, KEY) as log:
        assert (log.size, log.entry(1)) == (2, b"second")


@pytest.mark.asyncio
async def test_an_unforeseen_failure_leaves_nobody_waiting(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_store", lambda *_: 1 / 0)
    with pytest.raises(LedgerError, match="division"):
        await asyncio.wait_for(log.append(lambda _: b"x"), 5)


@pytest.mark.asyncio
async def test_a_really_full_disk(directory: Path) -> None:
    with Log.create(directory, KEY) as log:
        fill(log, 3)
        pages = log._tree.con.execute("PRAGMA page_count").fetchone()
        log._tree.con.execute(f"PRAGMA max_page_count={pages + 2}")
        with pytest.raises(LedgerError, match="disk is full"):
            await log.append(lambda _: bytes(60_000))
        assert log.size == 3
        log._tree.con.execute("PRAGMA max_page_count=1000000")
        assert (await log.append(lambda _: bytes(60_000))).index == 3
        log.fsck()


@pytest.mark.asyncio
async def test_a_closed_log_answers_nobody(log: Log) -> None:
    waiting = asyncio.create_task(log.append(lambda _: b"late"))
    await asyncio.sleep(0)
    log.close()
    with pytest.raises(LedgerError, match="closed"):
        await waiting
    with pytest.raises(LedgerError, match="closed"):
        await log.append(lambda _: b"later")


# --- kill -9 ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_kill_9_loses_no_acknowledged_entry_and_forks_nothing(directory: Path) -> None:
    Log.create(directory, KEY).close()
    acknowledged: dict[int, Checkpoint] = {}
    dice = random.Random(7)
    for _ in range(5):
        child = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("crash_child.py")), str(directory)],
            stdout=subprocess.PIPE,
            text=True,
            env=CHILD,
        )
        assert child.stdout is not None
        assert child.stdout.readline().startswith("open ")
        time.sleep(dice.uniform(0.02, 0.25))
        child.send_signal(signal.SIGKILL)
        for line in child.stdout.read().splitlines():
            number, _, note = line.partition(" ")
            if len(note) % 2 == 0 and note.endswith("0a"):
                acknowledged[int(number)] = open_checkpoint(bytes.fromhex(note), KEY.verifier).checkpoint
        child.wait()
        with Log.open(directory, KEY) as log:
            assert not list(directory.glob(".checkpoint.*"))
            log.fsck()
            final = open_checkpoint(log.checkpoint(), KEY.verifier).checkpoint
            for index in acknowledged:
                assert log.entry(index) == f"entry {index}".encode() + bytes(300)
            for point in {point.size: point for point in acknowledged.values()}.values():
                verify_consistency(
                    point.size, final.size, log.consistency(point.size, final.size), point.root, final.root
                )
    assert len(acknowledged) > 20
