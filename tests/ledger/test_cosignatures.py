# SPDX-License-Identifier: GPL-3.0-or-later
"""The book of cosignatures against whoever fills it: throw-away keys, sizes without end, keys that look like others."""

from __future__ import annotations

import itertools
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import BudgetError, ConfigurationError, LedgerError
from ragseal.ledger import cosignatures, note
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.cosignatures import FILE_LINES, MAX_NAMED, MAX_NOTE_LINES, MAX_STRANGERS, CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.policy import Policy

LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
NOW = 1_700_000_000


def witness(number: int, name: str = "") -> NoteSigner:
    key = Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))
    return NoteSigner(name or f"w{number}.example", key, COSIGNATURE)


NAMED = witness(9)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.create(tmp_path / "l", LOG) as log:
        log.append_now([lambda i: b"x"] * 300)
        yield log


def book_of(log: Log, tmp_path: Path, *named: NoteSigner) -> CosignatureBook:
    return CosignatureBook(tmp_path / "l", log, [signer.verifier for signer in named])


def add(book: CosignatureBook, log: Log, who: NoteSigner, size: int, time: int = NOW, now: int = NOW) -> None:
    text = open_checkpoint(log.checkpoint_at(size), LOG.verifier).checkpoint.text()
    book.add(size, who.verifier.vkey(), who.sign(text, time).line(), now)


def held(book: CosignatureBook) -> list[tuple[str, int]]:
    return [(item.witness.name, item.size) for item in book.page(0, 1000)]


def test_throw_away_keys_lock_nobody_out(tmp_path: Path, log: Log) -> None:
    book = book_of(log, tmp_path, NAMED)
    add(book, log, NAMED, 3)
    for number in range(100, 100 + 2 * MAX_STRANGERS):
        add(book, log, witness(number), 300)
    assert len(held(book)) == MAX_STRANGERS + 1
    add(book, log, witness(1), 300)  # an honest stranger still finds a place
    assert held(book)[-1] == ("w1.example", 300)
    add(book, log, NAMED, 4, NOW + 5)
    assert ("w9.example", 4) in held(book)
    assert held(book_of(log, tmp_path, NAMED)) == held(book)
    shown = open_checkpoint(book.decorate(log.checkpoint_at(4), 4), LOG.verifier, [NAMED.verifier])
    assert [found.time for found in shown.witnesses] == [NOW + 5]


def test_the_oldest_stranger_goes(tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cosignatures, "MAX_STRANGERS", 2)
    book = book_of(log, tmp_path, NAMED)
    for who, time in ((NAMED, NOW), (witness(1), NOW), (witness(2), NOW), (witness(1), NOW + 5), (witness(3), NOW)):
        add(book, log, who, 3, time)
    assert held(book) == [("w9.example", 3), ("w1.example", 3), ("w3.example", 3)]
    assert held(book_of(log, tmp_path, NAMED)) == held(book)


def test_sizes_without_end_cost_nothing(tmp_path: Path, log: Log) -> None:
    """One key, a new size each time: the limit is by key."""
    book, one = book_of(log, tmp_path), witness(1)
    add(book, log, one, 1)
    for size in range(2, 300):
        with pytest.raises(BudgetError, match="wait"):
            add(book, log, one, size, NOW + 4)
    assert (tmp_path / "l" / "cosignatures").read_bytes().count(b"\n") == 1


def test_the_file_stays_small(tmp_path: Path, log: Log) -> None:
    """Whoever keeps on handing in: the file is replaced by the newest lines, and says the same after a restart."""
    book, path, sizes = book_of(log, tmp_path, NAMED), tmp_path / "l" / "cosignatures", set()
    add(book, log, NAMED, 3)
    for step in range(FILE_LINES + 20):
        add(book, log, witness(1 + step % 2), 300, NOW + 5 * (step // 2), NOW + 5 * step)
        sizes.add(path.read_bytes().count(b"\n"))
    assert max(sizes) == FILE_LINES
    assert path.read_bytes().count(b"\n") < 30
    assert held(book) == [("w9.example", 3), ("w1.example", 300), ("w2.example", 300)]
    assert held(book_of(log, tmp_path, NAMED)) == held(book)
    (tmp_path / "l" / ".cosignatures.0123456789abcdef").write_bytes(b"junk")  # a crash while it was written anew
    assert held(book_of(log, tmp_path, NAMED)) == held(book)
    assert not list((tmp_path / "l").glob(".cosignatures*"))


def test_a_failing_disk_leaves_the_book_as_it_was(tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    book = book_of(log, tmp_path)
    add(book, log, witness(1), 3)

    def fails(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        for lines in (1, FILE_LINES):
            book._lines = lines
            with pytest.raises(LedgerError, match="cannot keep the cosignature: No space"):
                add(book, log, witness(2), 4)
    assert held(book) == held(book_of(log, tmp_path)) == [("w1.example", 3)]
    add(book, log, witness(2), 4)
    assert held(book_of(log, tmp_path)) == [("w1.example", 3), ("w2.example", 4)]


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, log: Log) -> None:
    """A file's buffer was cut off with what had reached the disk, and written when it was closed: a half line."""
    book, path = book_of(log, tmp_path), tmp_path / "l" / "cosignatures"
    add(book, log, witness(1), 3)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (0, 1, 120):
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, hard))  # stands for a disk with so much room
        try:
            with pytest.raises(LedgerError, match="cannot keep the cosignature: File too large"):
                add(book, log, witness(2), 4)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == before
        assert held(book_of(log, tmp_path)) == [("w1.example", 3)]


def test_what_could_not_be_cut_off_is_cut_off_later(tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    book = book_of(log, tmp_path)
    add(book, log, witness(1), 3)

    def fails(*_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: patched.setattr(os, "ftruncate", fails) or fails())
        with pytest.raises(LedgerError, match="Input/output"):
            add(book, log, witness(2), 4)
    assert len((tmp_path / "l" / "cosignatures").read_bytes().splitlines()) == 2
    add(book, log, witness(3), 5)
    assert held(book) == held(book_of(log, tmp_path)) == [("w1.example", 3), ("w3.example", 5)]


def test_no_stranger_hides_what_a_named_witness_cosigned(tmp_path: Path, log: Log) -> None:
    """The newest size is always free for a stranger; the note that readers rely on is the named witness's."""
    book = book_of(log, tmp_path, NAMED)
    add(book, log, witness(1), 3)
    assert book.latest() is None
    add(book, log, NAMED, 4)
    for number in range(100, 100 + MAX_STRANGERS):
        add(book, log, witness(number), 300)
        add(book, log, witness(number), 300, NOW + 5)
    shown = open_checkpoint(book.latest() or b"", LOG.verifier, [NAMED.verifier])
    assert (shown.checkpoint.size, len(shown.witnesses)) == (4, 1)
    for number in range(200, 200 + MAX_STRANGERS):  # at its own size, too, its line is the only one
        add(book, log, witness(number), 4)
    shown = open_checkpoint(book.latest() or b"", LOG.verifier, [NAMED.verifier])
    assert len(shown.witnesses) == 1
    assert len(shown.note.signatures) == 2


def test_where_nobody_is_named_a_note_has_so_many_lines(tmp_path: Path, log: Log) -> None:
    book = book_of(log, tmp_path)
    for number in range(200, 200 + MAX_STRANGERS):
        add(book, log, witness(number), 4)
    assert len(open_checkpoint(book.latest() or b"", LOG.verifier).note.signatures) == 1 + MAX_NOTE_LINES


@pytest.mark.parametrize("by_policy", [False, True])
def test_no_stranger_makes_a_note_that_a_reader_of_other_witnesses_refuses(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch, by_policy: bool
) -> None:
    """A reader knows a witness that the operator does not; a stranger searched for a key with its name and id."""
    whole = note.key_id
    monkeypatch.setattr(note, "key_id", lambda *of: whole(*of)[:1] + b"cut")  # as above: 2^8 keys
    known = witness(5, "known.example")
    twin = next(
        made
        for made in (witness(number, known.name) for number in itertools.count(1000))
        if made.verifier.key_id == known.verifier.key_id
    )
    policy = Policy.parse(f"witness one {NAMED.verifier.vkey()}\nquorum one\n".encode())
    book = CosignatureBook(tmp_path / "l", log, policy=policy) if by_policy else book_of(log, tmp_path, NAMED)
    add(book, log, twin, 4)
    add(book, log, NAMED, 4)
    add(book, log, twin, 4, NOW + 5)
    for shown in (book.latest() or b"", book.decorate(log.checkpoint_at(4), 4)):
        assert len(open_checkpoint(shown, LOG.verifier, [NAMED.verifier, known.verifier]).witnesses) == 1
    assert (twin.name, 4) in held(book)  # line by line it is shown


def test_a_strangers_key_does_not_bear_the_logs_name(tmp_path: Path, log: Log) -> None:
    """Its line would look like one by a key that the log has turned to, for which readers hash all of the log."""
    book = book_of(log, tmp_path, NAMED)
    with pytest.raises(LedgerError, match="a name of its own"):
        add(book, log, witness(5, LOG.verifier.name), 3)


def test_a_key_made_to_look_like_another_is_refused(tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Key ids have four bytes.  Here they have one, so that the search of 2^32 keys takes 2^8."""
    whole = note.key_id
    monkeypatch.setattr(note, "key_id", lambda *of: whole(*of)[:1] + b"cut")
    stranger = witness(5)
    book = book_of(log, tmp_path, NAMED)
    add(book, log, stranger, 3)
    for known in (LOG, NAMED, stranger):
        twin = next(
            made
            for made in (witness(number, known.name) for number in itertools.count(1000))
            if made.verifier.key_id == known.verifier.key_id
        )
        with pytest.raises(LedgerError, match=r"another key has the name|a witness has a name of its own"):
            add(book, log, twin, 300)
        with pytest.raises(ConfigurationError, match="one name and one key id"):
            book_of(log, tmp_path, NAMED, stranger, twin)
        readers = [NAMED.verifier, stranger.verifier]
        open_checkpoint(book.decorate(log.checkpoint_at(300), 300), LOG.verifier, readers)  # no line fails
    add(book_of(log, tmp_path), log, twin := witness(1000, "late.example"), 3)
    late = next(
        made
        for made in (witness(number, "late.example") for number in itertools.count(2000))
        if made.verifier.key_id == twin.verifier.key_id
    )
    assert ("late.example", 3) in held(book_of(log, tmp_path))
    assert ("late.example", 3) not in held(book_of(log, tmp_path, late))  # named since: the stranger goes


def test_strangers_wait_in_a_short_line_named_witnesses_in_none(tmp_path: Path, log: Log) -> None:
    """Each waits for the disk in a thread that accounts need as well."""
    book, problems = book_of(log, tmp_path, NAMED), []

    def try_one(who: NoteSigner) -> None:
        try:
            add(book, log, who, 300)
        except BudgetError as error:
            problems.append((who.name, str(error)))

    with book._lock:  # the disk is slow
        threads = [threading.Thread(target=try_one, args=(who,)) for who in (*map(witness, range(20, 40)), NAMED)]
        for thread in threads:
            thread.start()
        for thread in threads[:-1]:
            thread.join(0.2)
    for thread in threads:
        thread.join()
    assert len(problems) == 20 - cosignatures.MAX_WAITING
    assert all(name != NAMED.name and "too many witnesses at once" in text for name, text in problems)
    assert len(held(book)) == 1 + cosignatures.MAX_WAITING


def test_who_can_be_named(tmp_path: Path, log: Log) -> None:
    with pytest.raises(ConfigurationError, match="at most"):
        book_of(log, tmp_path, *map(witness, range(1, MAX_NAMED + 2)))
    with pytest.raises(ConfigurationError, match="not a witness's"):
        book_of(log, tmp_path, LOG)
    assert MAX_NAMED < MAX_NOTE_LINES
