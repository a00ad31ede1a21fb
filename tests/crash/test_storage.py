# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage that fails, fills or was rolled back, and clocks that jump: refused or repaired, never silent."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.book import Book
from ragseal.kernel.errors import AttestationError, AuditError, ConfigurationError, LedgerError
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.prover.fsck import fsck
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import Serving
from ragseal.runtime import durable
from tests.crash.crash_scene import examine, open_copy
from tests.simulator import provider as scene

pytestmark = pytest.mark.slow

Copy = Callable[..., Path]
IN_W2 = scene.NOW + 180
READER = Path(__file__).with_name("full_disk_child.py")


def error_of(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(f"injected {name}")
    error.sqlite_errorname = name
    return error


class FailingCommit:
    """A connection whose next commit fails: before it wrote anything, or after all of it is on disk."""

    def __init__(self, real: sqlite3.Connection, written: bool, name: str) -> None:
        self._real, self._written, self._name = real, written, name
        self.failed = False

    def _fail(self) -> None:
        self.failed = True
        if self._written:
            self._real.commit()
        else:
            self._real.rollback()
        raise error_of(self._name)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:  # as state.db commits
        if statement == "COMMIT" and not self.failed:
            self._fail()
        return self._real.execute(statement, *values)

    def __enter__(self) -> sqlite3.Connection:  # as pymerkle commits
        return self._real.__enter__()

    def __exit__(self, kind: Any, *rest: Any) -> Any:
        if kind is None and not self.failed:
            self._fail()
        return self._real.__exit__(kind, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class FailingSync:
    """The checkpoint file's next sync fails: of its content, before it is in place, or of its folder, after."""

    def __init__(self, written: bool) -> None:
        self.failed = False
        self._left = 1 if written else 0

    def __call__(self, descriptor: int) -> None:
        if not self.failed and self._left == 0:
            self.failed = True
            raise OSError(errno.EIO, "Input/output error")
        self._left -= 1
        os.fsync(descriptor)


def break_state(provider: Provider, written: bool, name: str, patch: pytest.MonkeyPatch) -> FailingCommit:
    failing = FailingCommit(provider.state._db, written, name)
    provider.state._db = failing  # type: ignore[assignment]
    return failing


def break_ledger(provider: Provider, written: bool, name: str, patch: pytest.MonkeyPatch) -> FailingCommit:
    failing = FailingCommit(provider.ledger._tree.con, written, name)
    provider.ledger._tree.con = failing
    return failing


def break_checkpoint(provider: Provider, written: bool, name: str, patch: pytest.MonkeyPatch) -> FailingSync:
    failing = FailingSync(written)

    class Os:
        fsync = staticmethod(failing)

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

    patch.setattr(durable, "os", Os())
    return failing


def book_of(provider: Provider) -> Book:
    """The ledger as an outsider reads it: raises for a second record, a gap, a fork."""
    book = Book(provider.ledger.verifier)
    for entry in provider.ledger.entries(0, provider.ledger.size):
        book.add(entry)
    book.check_note(provider.ledger.checkpoint())
    return book


def asker(name: str, serving: Serving) -> scene.Asker:
    """An account that asked before, going on in the newest window."""
    window = scene.newest(serving)
    made = scene.Asker(name, serving)
    made.ctr = window.counters.get(made.pseudonym, 0)
    if made.ctr:
        last = scene.answered(serving, window, window.seq_of[made.pseudonym, made.ctr])
        made.last_receipt = last.receipt.digest()
    return made


async def refusal(serving: Serving, signed: bytes) -> str | None:
    """What a request is refused with; None for an answer."""
    try:
        await scene.retrieved(serving, signed)
    except AuditError as error:
        return str(error)
    return None


def serving_copy(directory: Path, clock: scene.Clock | None = None) -> Any:
    provider = open_copy(directory)
    provider.environment = type(provider.environment)(clock=clock or scene.Clock(IN_W2))
    fsck.check_start(provider)
    return scene.serving_on(provider)


@pytest.mark.parametrize("name", ["SQLITE_IOERR_FSYNC", "SQLITE_FULL"])
@pytest.mark.parametrize("written", [False, True], ids=["not-written", "written"])
@pytest.mark.parametrize("break_it", [break_state, break_ledger, break_checkpoint])
def test_a_failing_store_costs_at_most_a_restart(
    copy: Copy, break_it: Any, written: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer leaves, nobody is told that all is well; after a start the request has one record and one answer."""
    directory, kept = copy(), {}

    async def fails() -> None:
        async with serving_copy(directory) as serving:
            alice, bob = asker("alice", serving), asker("bob", serving)
            first = alice.message("report about topic 1")
            before = await scene.retrieved(serving, alice.request(first, await alice.prepare(first)).encode())
            alice.ctr, alice.last_receipt = alice.ctr + 1, scene.opened(before).receipt.digest()
            message = alice.message("report about topic 2")
            signed = alice.request(message, await alice.prepare(message)).encode()
            checkpoint = serving.provider.ledger.checkpoint()
            failing = break_it(serving.provider, written, name, monkeypatch)
            with pytest.raises(AuditError):
                await scene.retrieved(serving, signed)
            assert failing.failed
            assert serving.provider.ledger.checkpoint() == checkpoint, "something was signed that may not be on disk"
            monkeypatch.undo()
            other = bob.message("report about topic 3")
            said = await refusal(serving, bob.request(other, await bob.prepare(other)).encode())
            if break_it is break_state and name == "SQLITE_FULL":  # rolled back for certain: others are served
                assert said is None
            else:  # nobody knows what is on disk: nothing is taken until a start has read it
                assert said is not None
                assert "start" in said
            kept.update(before=before, signed=signed, message=message)

    async def after() -> None:
        async with serving_copy(directory) as serving:
            alice = asker("alice", serving)
            await alice.prepare(kept["message"])
            answer = await scene.retrieved(serving, kept["signed"])
            assert answer == await scene.retrieved(serving, kept["signed"])
            old = scene.opened(kept["before"])
            assert await scene.retrieved(serving, old.record.signed.encode()) == kept["before"]
            book = book_of(serving.provider)
            found = scene.opened(answer)
            assert book.entries[found.receipt.body.index] == found.record.encode()
            assert sum(r.signed.encode() == kept["signed"] for r in book.records.values()) == 1

    asyncio.run(fails())
    asyncio.run(after())
    assert examine(directory).findings == []


def test_a_remembered_checkpoint_that_cannot_be_written_stops_the_ledger(copy: Copy) -> None:
    async def run() -> None:
        async with serving_copy(directory) as serving:
            alice = asker("alice", serving)
            message = alice.message("report about topic 2")
            signed = alice.request(message, await alice.prepare(message)).encode()

            def full(size: int, note: bytes) -> None:
                raise ConfigurationError("the disk is full")

            serving.provider.ledger.watch(full)
            with pytest.raises(LedgerError, match="the disk is full"):
                await scene.retrieved(serving, signed)
            with pytest.raises(AuditError, match="start"):
                await scene.retrieved(serving, signed)

    directory = copy()
    asyncio.run(run())
    assert examine(directory).findings == []


# --- a full disk ---


@pytest.mark.parametrize("which", ["state", "ledger"])
def test_a_full_database_is_refused_and_goes_on_when_there_is_room(copy: Copy, which: str) -> None:
    """SQLite's own limit on the real file: every write path of the database runs into it."""
    directory = copy()

    async def run() -> int:
        async with serving_copy(directory) as serving:
            con = serving.provider.state._db if which == "state" else serving.provider.ledger._tree.con
            con.execute("VACUUM")  # no free pages left
            found = con.execute("PRAGMA page_count").fetchone()
            con.execute(f"PRAGMA max_page_count={found[0] if which == 'state' else found}")
            answered, refused = 0, None
            for name in ("alice", "bob", "carol") * 4:
                account = asker(name, serving)
                message = account.message(f"report about topic {answered}")
                signed = account.request(message, await account.prepare(message)).encode()
                refused = await refusal(serving, signed)
                if refused is not None:
                    break
                answered += 1
            assert refused is not None
            assert "full" in refused
            con.execute("PRAGMA max_page_count=1000000")
            if which == "state":  # nothing had entered the ledger: the same request goes through now
                assert scene.opened(await scene.retrieved(serving, signed)).record.signed.encode() == signed
                answered += 1
            return answered

    answered = asyncio.run(run())
    report = examine(directory)
    assert report.findings == []
    assert report.checked["records"] == 4 + answered


def mounts() -> bool:
    """Whether this system lets anybody mount a tmpfs in a namespace of its own."""
    line = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return shutil.which("unshare") is not None and subprocess.run(line, capture_output=True).returncode == 0


@pytest.mark.skipif(not mounts(), reason="no file system of our own can be mounted here")
def test_a_really_full_disk(copy: Copy, tmp_path: Path) -> None:
    directory, mount = copy(), tmp_path / "small"
    mount.mkdir()
    line = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, str(READER), str(directory), str(mount)]
    path = os.pathsep.join([*map(str, sys.path), os.getcwd()])
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["refused"] >= 3
    assert "Traceback" not in done.stderr
    assert found["answered_with_room"] is True
    assert found["findings"] == []
    assert found["records"] == found["acknowledged"] + 4


# --- rolled back ---


async def some_more(directory: Path, count: int = 2) -> list[bytes]:
    """Answers that others have seen, as they left the provider."""
    async with serving_copy(directory) as serving:
        alice = asker("alice", serving)
        answers = [await alice.ask(f"report about topic {i}") for i in range(count)]
        return [await scene.retrieved(serving, answer.record.signed.encode()) for answer in answers]


def test_a_rolled_back_checkpoint_file_is_repaired(copy: Copy) -> None:
    directory = copy()
    old = (directory / "ledger" / "checkpoint").read_bytes()
    asyncio.run(some_more(directory))
    new = (directory / "ledger" / "checkpoint").read_bytes()
    assert old != new
    (directory / "ledger" / "checkpoint").write_bytes(old)
    open_copy(directory).close()
    assert (directory / "ledger" / "checkpoint").read_bytes() == new  # the same history, the same signature
    assert examine(directory).findings == []


def test_a_rolled_back_ledger_database_is_refused(copy: Copy) -> None:
    directory = copy()
    older = copy("older")
    asyncio.run(some_more(directory))
    shutil.copy(older / "ledger" / "log.sqlite", directory / "ledger" / "log.sqlite")
    with pytest.raises(LedgerError, match="rolled back"):
        open_copy(directory)
    assert any("rolled back" in finding for finding in examine(directory).findings)


def test_a_ledger_restored_whole_from_a_backup_is_refused(copy: Copy) -> None:
    """Database and checkpoint agree, so the ledger itself looks sound: the state remembers what left."""
    directory = copy()
    older = copy("older")
    asyncio.run(some_more(directory))
    shutil.rmtree(directory / "ledger")
    shutil.copytree(older / "ledger", directory / "ledger")
    with pytest.raises(LedgerError, match=r"this provider has signed.*rolled back"):
        open_copy(directory)


def test_a_rolled_back_state_is_refused(copy: Copy) -> None:
    directory = copy()
    older = copy("older")
    asyncio.run(some_more(directory))
    shutil.copy(older / "state.db", directory / "state.db")
    assert sum("secrets are missing" in finding for finding in examine(directory).findings) == 2
    with pytest.raises(ConfigurationError, match="secrets are missing"):
        asyncio.run(some_more(directory))


def test_answers_are_the_same_under_a_state_that_lost_its_last_commits(copy: Copy) -> None:
    """What a power cut takes from state.db (the mark, unsynced) is repaired at the next start."""
    directory = copy()
    answers = asyncio.run(some_more(directory))
    with sqlite3.connect(directory / "state.db") as con:
        con.execute("DELETE FROM ledger_mark")
    con.close()

    async def again() -> None:
        async with serving_copy(directory) as serving:
            for answer in answers:
                sent = scene.opened(answer).record.signed.encode()
                assert await scene.retrieved(serving, sent) == answer
            assert serving.provider.state.checkpoint() == serving.provider.ledger.published()

    asyncio.run(again())


# --- clocks ---


def test_a_clock_that_jumps_neither_breaks_the_order_nor_opens_the_window(copy: Copy) -> None:
    directory, clock = copy(), scene.Clock(IN_W2)

    async def run() -> None:
        async with serving_copy(directory, clock) as serving:
            alice, window = asker("alice", serving), serving.journal.history.newest
            assert window is not None
            times = [(await alice.ask("report about topic 1")).record.time]
            clock.now += 1200
            times.append((await alice.ask("report about topic 2")).record.time)
            clock.now -= 900  # backwards, still in the window
            times.append((await alice.ask("report about topic 3")).record.time)
            assert times == [IN_W2 // 60 * 60, (IN_W2 + 1200) // 60 * 60, (IN_W2 + 1200) // 60 * 60]
            for far in (-3600.0, 1e8, -IN_W2 - 5.0):  # before the window, long after it, before 1970
                clock.now = IN_W2 + far
                with pytest.raises(AttestationError, match=r"takes queries from .* on|ended at"):
                    await alice.ask("report about topic 4")
            clock.now = IN_W2 + 60
            assert (await alice.ask("report about topic 5")).record.seq == 5
            times = [record.time for _, record in sorted(book_of(serving.provider).records.items())]
            assert times[2:] == sorted(times[2:])

    asyncio.run(run())
    assert examine(directory).findings == []


def test_notes_are_of_one_history_whatever_was_rolled_back(copy: Copy) -> None:
    """Every note that any of the starts above lets out is a prefix of the newest."""
    directory = copy()
    notes = [(directory / "ledger" / "checkpoint").read_bytes()]
    for _ in range(3):
        notes += [scene.opened(a).receipt.body.checkpoint for a in asyncio.run(some_more(directory, 1))]
        (directory / "ledger" / "checkpoint").write_bytes(notes[0])
    provider = open_copy(directory)
    try:
        book = book_of(provider)
        for note in notes:
            book.check_note(note)
        sizes = [open_checkpoint(note, book.log).checkpoint.size for note in notes]
        assert sizes == sorted(set(sizes))
    finally:
        provider.close()
