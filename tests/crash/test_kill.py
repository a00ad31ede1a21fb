# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 of provider and observer, rounds of the nightly harness (bench/crash.py); and the harness can fail."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from bench import crash
from bench.asker import Kept
from bench.book import Book, BookError
from ragseal.kernel.attestation import Record, SealedAnswer
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AttestationError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteSigner
from ragseal.prover.attestation.answers import Answers
from ragseal.prover.storage.state import Settings
from ragseal.runtime.keyfile import load_key
from tests.crash.crash_scene import open_copy
from tests.simulator import provider as scene

pytestmark = pytest.mark.slow


MANY = 30  #: rounds in which everything comes that may


@pytest.mark.parametrize("rounds", [8, pytest.param(MANY, marks=pytest.mark.long)])
def test_kills_lose_nothing_and_fork_nothing(rounds: int, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)  # named by whatever fails
    tally = crash.run(rounds, seed, tmp_path)
    assert tally.rounds == rounds + 1
    assert tally.acknowledged > 5 * rounds, "the accounts hardly asked"
    assert tally.cut_off > rounds, "the kills met no request"
    assert tally.cut_off_recorded > 0, "no kill fell between a record and its answer"
    assert tally.given_again > rounds
    if rounds == MANY:
        assert tally.observer_kills > 0
        assert tally.cosignatures > 0
    assert tally.notes > tally.acknowledged


# --- the book that the rounds are held against does notice ---


def signer_of(directory: Path) -> NoteSigner:
    return NoteSigner(Settings.load(directory / "provider.toml").origin, load_key(directory / "log.pem"))


@pytest.fixture
def book(sound: Path) -> Book:
    """The sound folder's log, read as the harness reads it."""
    signer = signer_of(sound)
    made = Book(signer.verifier)
    with Log.open(sound / "ledger", signer) as log:
        for entry in log.entries(0, log.size):
            made.add(entry)
        made.check_note(log.checkpoint())
    return made


def last_record(book: Book) -> Message:
    return book.records[max(book.records)]


def test_the_book_refuses_a_second_record_of_a_request(book: Book) -> None:
    record = last_record(book)
    request = replace(record.signed.request, ctr=2)  # type: ignore[attr-defined]
    again = replace(record, seq=record.seq + 1, signed=replace(record.signed, request=request))  # type: ignore
    with pytest.raises(BookError, match="second record of request"):
        book.add(again.encode())


@pytest.mark.parametrize(("field", "says"), [("seq", "seq 3 after 1"), ("ctr", "ctr 3 of [0-9a-f]{32}")])
def test_the_book_refuses_gaps(book: Book, field: str, says: str) -> None:
    record = last_record(book)
    old = record.signed.request  # type: ignore[attr-defined]
    request = replace(old, request_id=b"n" * 16, ctr=3 if field == "ctr" else 2)
    seq = record.seq + (2 if field == "seq" else 1)  # type: ignore[attr-defined]
    with pytest.raises(BookError, match=says):
        book.add(replace(record, seq=seq, signed=replace(record.signed, request=request)).encode())  # type: ignore


def test_the_book_refuses_a_fork(book: Book, sound: Path) -> None:
    signer, size = signer_of(sound), len(book.entries)
    book.check_note(Checkpoint(signer.name, size - 1, book.roots[size - 1]).sign(signer))
    with pytest.raises(BookError, match="a fork"):
        book.check_note(Checkpoint(signer.name, size - 1, book.roots[size - 2]).sign(signer))
    with pytest.raises(BookError, match="was signed, the log has"):
        book.check_note(Checkpoint(signer.name, size + 1, book.roots[size]).sign(signer))


def test_the_book_refuses_an_answer_that_the_log_does_not_hold(book: Book, sound: Path) -> None:
    provider = open_copy(sound)
    state = provider.state
    try:
        window = provider.journal.history.named("w2")
        entry = provider.journal.entry(window.records[1])
        request = Record.decode(entry.data).signed.request
        found = provider.windows.of(window.digest)
        version = found.version(found.tenant(request.account), request.index_digest)
        answer = Answers(state).again(found.secrets, version, entry)
    finally:
        provider.close()

    def kept(changed: SealedAnswer) -> Kept:
        return Kept(answer.record.signed.encode(), changed.encode(), b"", scene.SEAL_SECRET, 0.0, 0.0, 0.0)

    assert book.check_answer(kept(answer)) == answer.receipt.body.index
    with pytest.raises(AttestationError, match="does not open"):
        book.check_answer(replace(kept(answer), seal_secret=b"o" * 32))
    with pytest.raises(BookError, match="with other bytes"):
        book.check_answer(kept(replace(answer, record=replace(answer.record, time=answer.record.time + 60))))
    last = book.entries.pop()
    with pytest.raises(BookError, match="was acknowledged, the log has"):
        book.check_answer(kept(answer))
    book.entries.append(last)
