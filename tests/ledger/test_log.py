# SPDX-License-Identifier: GPL-3.0-or-later
"""The log: order, proofs, one writer; damage and crashes are in test_log_damage."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import BudgetError, ConfigurationError, LedgerError
from ragseal.ledger import storage
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.log import Appended, Log
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteSigner
from ragseal.ledger.published import PublicLog
from tests import apart
from tests.ledger.log_scene import CHILD, KEY, fill


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def log(directory: Path) -> Iterator[Log]:
    with Log.create(directory, KEY) as log:
        yield log


# --- the ordinary way ------------------------------------------------------------------------------------------------


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


# --- create, open, one writer ----------------------------------------------------------------------------------------


def test_a_ledger_is_never_made_or_overwritten_implicitly(directory: Path) -> None:
    with pytest.raises(LedgerError, match=r"log\.sqlite is missing"):
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


# What the public reads of a log: nothing beyond the size last revealed, whichever way one asks.


PUBLISHED_KEY = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))


@pytest.fixture
def published_log(tmp_path: Path) -> Iterator[Log]:
    with Log.create(tmp_path / "ledger", PUBLISHED_KEY) as published_log:
        yield published_log


def published_fill(published_log: Log, *entries: bytes) -> None:
    assert all(not isinstance(one, Exception) for one in published_log.append_now([lambda _, e=e: e for e in entries]))  # type: ignore[misc]


def test_the_end_moves_when_it_is_revealed(published_log: Log) -> None:
    published_fill(published_log, b"a", b"b")
    public = PublicLog(published_log)
    before = published_log.published()
    published_fill(published_log, b"c")
    assert public.published() == before != published_log.published()
    assert public.size == 2
    public.reveal()
    assert public.published() == published_log.published()
    assert public.size == 3
    assert (public.origin, public.verifier) == (published_log.origin, published_log.verifier)


def test_a_live_log_shows_every_entry_at_once(published_log: Log) -> None:
    public = PublicLog(published_log, live=True)
    published_fill(published_log, b"a")
    assert public.published() == published_log.published()
    assert public.entries(0, 1) == [b"a"]


ASKED: dict[str, Callable[[PublicLog, int], object]] = {
    "checkpoint": lambda public, size: public.checkpoint_at(size),
    "entries": lambda public, size: public.entries(size - 1, 1),
    "several entries": lambda public, size: public.entries(0, size),
    "leaf hashes": lambda public, size: public.leaf_hashes(size - 1, 1),
    "inclusion": lambda public, size: public.inclusion(0, size),
    "consistency": lambda public, size: public.consistency(1, size),
}


@pytest.mark.parametrize("asked", ASKED)
def test_nothing_is_read_beyond_what_is_public(published_log: Log, asked: str) -> None:
    published_fill(published_log, b"a", b"b")
    public = PublicLog(published_log)
    published_fill(published_log, b"c", b"d")
    ASKED[asked](public, 2)
    for size in (3, 4, 5):
        with pytest.raises(LedgerError, match=f"size {size} is beyond the published size 2"):
            ASKED[asked](public, size)
    public.reveal()
    ASKED[asked](public, 4)


def test_what_is_shown_is_the_log_s_own(published_log: Log) -> None:
    entries = [b"a", b"b", b"c", b"d", b"e"]
    published_fill(published_log, *entries)
    public = PublicLog(published_log)
    assert public.entries(1, 3) == entries[1:4]
    leaf = [apart.root([entry]) for entry in entries]
    assert public.inclusion(4, 5) == [apart.root(entries[:4])]
    assert public.inclusion(0, 2) == [leaf[1]]
    assert public.consistency(4, 5) == [leaf[4]]
    assert public.checkpoint_at(5) == published_log.checkpoint()
    for start, count in ((-1, 1), (0, 0), (0, -1)):
        with pytest.raises(LedgerError, match="at least one entry, counting from 0"):
            public.entries(start, count)
