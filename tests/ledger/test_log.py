# SPDX-License-Identifier: GPL-3.0-or-later
"""The log: order, durability, one writer, rollback, damage, crashes."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import AuditError, BudgetError, ConfigurationError, LedgerError
from ragseal.ledger import storage
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.log import Appended, Log
from ragseal.ledger.merkle import MerkleTree, verify_consistency
from ragseal.ledger.note import NoteSigner

KEY = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))

CHILD = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def log(directory: Path) -> Iterator[Log]:
    with Log.create(directory, KEY) as log:
        yield log


def fill(log: Log, count: int) -> list[Appended]:
    outcomes = log.append_now([lambda index: f"entry {index}".encode()] * count)
    return [outcome for outcome in outcomes if isinstance(outcome, Appended)]


def reopen_with(directory: Path, statement: str) -> None:
    """Change the database behind the log's back (its triggers out of the way)."""
    con = sqlite3.connect(directory / "log.sqlite")
    con.execute("DROP TRIGGER leaf_no_update")
    con.execute("DROP TRIGGER leaf_no_delete")
    con.execute(statement)
    con.commit()
    con.close()


# --- the ordinary way


@pytest.mark.asyncio
async def test_group_commit_keeps_order_and_proves_every_entry(log: Log) -> None:
    seen: list[int] = []
    published: list[tuple[int, bytes]] = []
    log.watch(lambda size, note: published.append((size, note)))

    def builder(number: int) -> Callable[[int], bytes]:
        def build(index: int) -> bytes:
            seen.append(index)
            return f"caller {number} index {index}".encode()

        return build

    done = await asyncio.gather(*(log.append(builder(number)) for number in range(300)))
    assert seen == list(range(300)) == [item.index for item in done]
    assert [item.entry for item in done] == [f"caller {i} index {i}".encode() for i in range(300)]
    for item in done:
        point = item.bundle.verify(item.entry, KEY.verifier).checkpoint
        assert item.index < point.size
        assert log.entry(item.index) == item.entry
        assert point.size == item.index + 1
    assert 1 < len(published) <= 3  # one transaction and one kept checkpoint a batch of at most 256, not one a call
    assert published[-1] == (300, log.checkpoint()) == (300, done[-1].bundle.checkpoint)


def test_an_entry_has_the_same_proof_whenever_it_is_asked_for(log: Log, directory: Path) -> None:
    """Also after a restart, and whichever batch it was written in: receipts made late equal those made at once."""
    done = [*fill(log, 5), *fill(log, 1), *fill(log, 11)]
    tree = MerkleTree([f"entry {i}".encode() for i in range(17)])
    log.close()
    with Log.open(directory, KEY) as again:
        done += fill(again, 3)
        for item in done:
            assert item.bundle.checkpoint == again.checkpoint_at(item.index + 1)
            assert list(item.bundle.path) == again.inclusion(item.index, item.index + 1)
            if item.index < 17:
                assert list(item.bundle.path) == tree.path(item.index, item.index + 1)


@pytest.mark.asyncio
async def test_a_failing_builder_fails_only_its_caller(log: Log) -> None:
    def refuse(_: int) -> bytes:
        raise BudgetError("no budget left")

    calls = [
        log.append(lambda i: f"a{i}".encode()),
        log.append(refuse),
        log.append(lambda _: bytes(65_536)),
        log.append(lambda _: "text"),  # type: ignore[arg-type,return-value]
        log.append(lambda i: f"b{i}".encode()),
        log.append(lambda _: bytes(65_535)),
    ]
    first, *bad, second, third = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(first, Appended)
    assert isinstance(second, Appended)
    assert isinstance(third, Appended)
    assert (first.entry, second.entry, third.index) == (b"a0", b"b1", 2)
    assert isinstance(bad[0], BudgetError)
    assert all(isinstance(error, LedgerError) and "at most 65535" in str(error) for error in bad[1:])
    log.fsck()


@pytest.mark.asyncio
async def test_a_cancelled_call_that_still_waits_is_withdrawn(log: Log) -> None:
    waiting = asyncio.create_task(log.append(lambda _: b"never"))
    await asyncio.sleep(0)
    waiting.cancel()
    done = await log.append(lambda _: b"kept")
    assert (done.index, log.size) == (0, 1)


def test_proofs_are_those_of_the_rfc_at_every_size(log: Log) -> None:
    fill(log, 40)
    tree = MerkleTree([f"entry {i}".encode() for i in range(40)])
    for size in range(1, 41):
        assert open_checkpoint(log.checkpoint_at(size), KEY.verifier).checkpoint.root == tree.root(size)
        assert [log.inclusion(i, size) for i in range(size)] == [tree.path(i, size) for i in range(size)]
        assert [log.consistency(old, size) for old in range(1, size)] == [
            tree.consistency(old, size) for old in range(1, size)
        ]
    assert log.checkpoint_at(40) == log.checkpoint()


def test_reads_outside_the_log_are_refused(log: Log) -> None:
    fill(log, 3)
    assert log.entries(0, 3) == [b"entry 0", b"entry 1", b"entry 2"]
    for action in (
        lambda: log.entry(3),
        lambda: log.entry(-1),
        lambda: log.entries(0, 4),
        lambda: log.entries(0, 0),
        lambda: log.entries(2, -1),
        lambda: log.inclusion(3, 3),
        lambda: log.inclusion(0, 4),
        lambda: log.inclusion(-1, 3),
        lambda: log.consistency(0, 3),
        lambda: log.consistency(1, 4),
        lambda: log.checkpoint_at(4),
    ):
        with pytest.raises(LedgerError):
            action()


# --- create, open, one writer


def test_a_ledger_is_never_made_or_overwritten_implicitly(directory: Path) -> None:
    with pytest.raises(LedgerError, match="create one"):
        Log.open(directory, KEY)
    assert not directory.exists()
    Log.create(directory, KEY).close()
    with pytest.raises(LedgerError, match="holds a ledger already"):
        Log.create(directory, KEY)
    (directory / "log.sqlite").unlink()
    with pytest.raises(LedgerError, match=r"log\.sqlite is missing"):
        Log.open(directory, KEY)
    (directory.parent / "file").write_text("")
    with pytest.raises(ConfigurationError):
        Log.create(directory.parent / "file" / "ledger", KEY)


def test_two_writers_are_refused(log: Log, directory: Path) -> None:
    for action in (Log.open, Log.create):
        with pytest.raises(LedgerError, match="in use by another process"):
            action(directory, KEY)
    code = (
        "import sys; from pathlib import Path; from ragseal.ledger.log import Log; from ragseal.ledger.note import "
        "NoteSigner; from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey as E\n"
        "Log.open(Path(sys.argv[1]), NoteSigner('log.example/w', E.from_private_bytes(bytes(31) + b'\\x01')))"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, str(directory)], capture_output=True, text=True, check=False, env=CHILD
    )
    assert child.returncode == 1
    assert "in use by another process" in child.stderr


def test_sqlite_lets_no_second_connection_in(log: Log, directory: Path) -> None:
    fill(log, 1)
    con = sqlite3.connect(directory / "log.sqlite", timeout=0.05)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        con.execute("SELECT COUNT(*) FROM leaf")
    con.close()


def test_settings_are_the_durable_ones(log: Log) -> None:
    settings = {name: log._tree.con.execute(f"PRAGMA {name}").fetchone() for name in ("journal_mode", "synchronous")}
    assert settings == {"journal_mode": "wal", "synchronous": 2}


def test_a_place_that_cannot_hold_a_write_ahead_log_is_refused() -> None:
    with pytest.raises(LedgerError, match="write-ahead log"):
        storage.connect(Path(":memory:"))


def test_another_key_or_origin_is_refused(directory: Path) -> None:
    Log.create(directory, KEY).close()
    for other in (
        NoteSigner(KEY.name, Ed25519PrivateKey.from_private_bytes(bytes(32))),
        NoteSigner("log.example/other", KEY.private_key),
    ):
        with pytest.raises(LedgerError, match="no signature by a known key"):
            Log.open(directory, other)
    with Log.open(directory, KEY) as log:
        assert log.size == 0


# --- rollback, replacement, damage


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


# --- failing storage


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


# --- kill -9


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
