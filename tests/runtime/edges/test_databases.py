# SPDX-License-Identifier: GPL-3.0-or-later
"""Each way in which SQLite refuses: by real databases where it can be made to, else by its code."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ragseal.circuits.circuit import read_source
from ragseal.embedder.declared import DeclaredModel
from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError
from ragseal.ledger.named_log import named_log
from ragseal.ledger.options import open_witness
from ragseal.ledger.probe.plant import PLANT, read_plant
from ragseal.ledger.storage import TransientError, storage
from ragseal.prover.commitment.corpus_files import inside, require_folder
from ragseal.prover.commitment.index import _mapped
from ragseal.prover.planning import workload
from ragseal.prover.storage.database import Database, open_database
from ragseal.prover.storage.state import Settings
from ragseal.runtime.edges.databases import why_database
from tests.runtime.edges.test_filesystem import mounted


def refused(action: Callable[[], object]) -> sqlite3.Error:
    with pytest.raises(sqlite3.Error) as caught:
        action()
    return caught.value


def coded(name: str, text: str = "disk I/O error") -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorname = name
    return error


def test_a_database_that_is_full_is_measured(tmp_path: Path) -> None:
    code = """
import sqlite3
from ragseal.runtime.edges.databases import why_database
made = sqlite3.connect('m/d', isolation_level=None)
try:
    made.execute('CREATE TABLE t (x BLOB)')
    for i in range(9): made.execute('INSERT INTO t VALUES (zeroblob(500000))')
except sqlite3.Error as error: print(why_database(error, Path('m/d')))
"""
    said = mounted(tmp_path, "size=1m", code)
    assert said.startswith("database or disk is full (")
    assert "of 1.0 MiB" in said
    assert "make room there" in said


def test_a_database_that_another_one_has(tmp_path: Path) -> None:
    path = tmp_path / "d"
    first, second = (sqlite3.connect(path, isolation_level=None, timeout=0.0) for _ in range(2))
    first.execute("CREATE TABLE t (x)")
    first.execute("BEGIN EXCLUSIVE")
    error = refused(lambda: second.execute("INSERT INTO t VALUES (1)"))
    assert f"{path} is locked by another" in why_database(error, path)
    told = r"append: database is locked \(.*nothing of this was recorded"
    with pytest.raises(TransientError, match=told), storage("append", path):
        raise error


def test_bytes_that_are_no_database(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(ConfigurationError, match=r"file is not a database \(.*11,000 bytes holds .*from a backup"):
        open_database(path)


def test_a_database_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    error = refused(lambda: sqlite3.connect(tmp_path / "a" / "d").execute("SELECT 1 FROM x"))
    assert f"of its path only {tmp_path} is there" in why_database(error, tmp_path / "a" / "d")
    error = refused(lambda: sqlite3.connect(tmp_path).execute("SELECT 1 FROM x"))
    assert f"{tmp_path} is a folder" in why_database(error, tmp_path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SQLITE_IOERR_FSYNC", "fsync failed on the .* file system at .* are free"),
        ("SQLITE_IOERR", "a read or write failed on the"),
        ("SQLITE_IOERR_LOCK", "does not lock as SQLite needs it: use a local disk"),
        ("SQLITE_PROTOCOL", "does not lock as SQLite needs it"),
        ("SQLITE_NOMEM", "no more memory"),
        ("SQLITE_IOERR_NOMEM", "no more memory"),
        ("SQLITE_CORRUPT_INDEX", "holds what SQLite did not write: restore it from a backup"),
        ("SQLITE_READONLY_DBMOVED", "can be written by this user"),
    ],
)
def test_codes_that_no_database_gives_here(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "d").touch()
    error = coded(name)
    told = f"publish: the database failed: disk I/O error \\(.*{words}"
    with pytest.raises(LedgerError, match=told), storage("publish", tmp_path / "d"):
        raise error


def test_a_look_does_not_open_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To close it would drop the locks that this process has on it."""
    (tmp_path / "state.db").touch()
    opened: list[object] = []
    real = os.open

    def watched(path: str, *rest: int, **more: int) -> int:
        opened.append(path)
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", watched)
    for name in ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_CORRUPT"):
        why_database(coded(name), tmp_path / "state.db")
    assert str(tmp_path / "state.db") not in map(str, opened)


def test_the_provider_s_database_says_what_was_looked_at(tmp_path: Path) -> None:
    open_database(tmp_path / "state.db", new=True).close()
    database = Database(tmp_path / "state.db")

    def fill() -> None:
        with database.transaction() as db:
            db.execute("PRAGMA max_page_count=1")  # as many as there are
            db.execute("CREATE TABLE filler (x BLOB)")
            for _ in range(100):
                db.execute("INSERT INTO filler VALUES (zeroblob(100000))")

    try:
        with pytest.raises(ConfigurationError, match=r"database refuses: database or disk is full \(.* are free at"):
            fill()
    finally:
        database.close()


# A file that cannot be read is neither missing nor damaged, and nobody is told to remove it or to make another one.


def witness(folder: Path) -> None:
    with open_witness(folder):
        raise AssertionError("opened")


#: What reads a file, the file's name in a folder, and the words that were said of every failure.
READERS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "an observer's name": (witness, "name", "keygen first"),
    "a planted pair": (read_plant, PLANT, "holds no planted pair"),
    "a provider's settings": (lambda folder: Settings.load(folder / "provider.toml"), "provider.toml", "no provider"),
    "a circuit's source": (lambda folder: read_source(folder / "x.circom"), "x.circom", "damaged"),
    "a committed matrix": (lambda folder: _mapped(folder / "m.npy"), "m.npy", "restore a backup"),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_file_that_cannot_be_read_says_what_the_system_says(kind: str, tmp_path: Path) -> None:
    """A folder stands in its place: the system refuses to read it, and it is there."""
    read, name, words = READERS[kind]
    (tmp_path / name).mkdir()
    with pytest.raises(AuditError, match=f"{os.strerror(errno.EISDIR)}|is a folder|not a regular file") as caught:
        read(tmp_path)
    assert words not in str(caught.value)


def test_a_folder_of_a_corpus_that_cannot_be_opened_is_not_missing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AuditError, match=rf"Not a directory \({tmp_path / 'file'} is a file\)"):
        require_folder(tmp_path / "file" / "below")
    (tmp_path / "docs").mkdir()
    with pytest.raises(AuditError, match="File name too long") as caught:
        inside(tmp_path / "docs", "n" * 300)
    assert "BEIR" not in str(caught.value)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(AuditError, match=r"leads to itself|Too many levels"):
        require_folder(tmp_path / "loop")


def test_a_cache_that_cannot_be_read_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner would throw away what took hours."""
    monkeypatch.setattr(workload, "_content", lambda *_: "kept")
    (tmp_path / "kept.npy").touch()

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(np, "load", broken)
    embedder: DeclaredModel = object.__new__(DeclaredModel)
    with pytest.raises(AuditError, match=r"cannot read .*kept\.npy: Input/output error \(") as caught:
        workload.embed(embedder, ["x"], "query", tmp_path, lambda *_: None)
    assert "remove it" not in str(caught.value)


def test_a_log_key_s_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xff")
    with pytest.raises(AuditError, match="not UTF-8"):
        named_log(str(tmp_path / "key"))
