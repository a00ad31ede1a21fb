# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints: canonical text, log signature, origin, witnesses."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import AuditError, EncodingError, LedgerError
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.merkle import EMPTY_ROOT, MAX_SIZE
from ragseal.ledger.note import COSIGNATURE, ED25519, MAX_TIME, Note, NoteSignature, NoteSigner, cosigned_message

LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
WITNESS = NoteSigner("w.example", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x02"), COSIGNATURE)
POINT = Checkpoint("log.example/w", 7, bytes(range(32)))


def test_round_trip() -> None:
    assert Checkpoint.parse(POINT.text()) == POINT
    opened = open_checkpoint(POINT.sign(LOG), LOG.verifier)
    assert (opened.checkpoint, opened.witnesses) == (POINT, ())


def test_witnesses_are_reported_with_their_time() -> None:
    note = Note.parse(POINT.sign(LOG)).with_signatures([WITNESS.sign(POINT.text(), 99)])
    opened = open_checkpoint(note.encode(), LOG.verifier, [WITNESS.verifier])
    assert [(item.verifier.name, item.time) for item in opened.witnesses] == [("w.example", 99)]
    assert open_checkpoint(note.encode(), LOG.verifier).witnesses == ()
    assert open_checkpoint(POINT.sign(LOG), LOG.verifier, [WITNESS.verifier]).witnesses == ()
    stale = Note.parse(POINT.sign(LOG)).with_signatures([WITNESS.sign("log.example/w\n8\n", 99)])
    with pytest.raises(LedgerError, match=r"w\.example does not verify"):
        open_checkpoint(stale.encode(), LOG.verifier, [WITNESS.verifier])


def test_a_witness_alone_does_not_make_a_checkpoint() -> None:
    note = Note(POINT.text(), (WITNESS.sign(POINT.text(), 99),))
    with pytest.raises(LedgerError, match="no signature by a known key"):
        open_checkpoint(note.encode(), LOG.verifier, [WITNESS.verifier])
    with pytest.raises(LedgerError, match="0x04"):
        open_checkpoint(POINT.sign(LOG), LOG.verifier, [LOG.verifier])


def test_another_logs_checkpoint_under_this_key_is_refused() -> None:
    text = POINT.text().replace("log.example/w", "log.example/x")
    with pytest.raises(LedgerError, match=r"of the log 'log\.example/x'"):
        open_checkpoint(Note(text, (LOG.sign(text),)).encode(), LOG.verifier)
    with pytest.raises(LedgerError, match="signed by the log key"):
        Checkpoint("log.example/x", 7, POINT.root).sign(LOG)


@pytest.mark.parametrize(
    "change",
    [
        ("\n7\n", "\n07\n"),
        ("\n7\n", "\n+7\n"),
        ("\n7\n", "\n7 \n"),
        ("\n7\n", "\n9223372036854775808\n"),
        ("\n7\n", "\n0\n"),
        ("\n7\n", "\n"),
        ("AAEC", "AAE"),
        ("Hh8=\n", "Hh8=\nextension\n"),
        ("Hh8=\n", "Hh9=\n"),
        ("Hh8=\n", "Hh8=\n\n"),
        ("Hh8=\n", "Hh8="),
        ("log.example/w", ""),
        ("log.example/w", "log example"),
        ("log.example/w", "log+example"),
    ],
)
def test_malformed_texts_are_refused(change: tuple[str, str]) -> None:
    text = POINT.text().replace(*change)
    assert text != POINT.text()
    with pytest.raises(EncodingError):
        Checkpoint.parse(text)


def test_impossible_values_are_refused() -> None:
    assert Checkpoint("a", 0, EMPTY_ROOT).size == 0
    for size, root in ((-1, EMPTY_ROOT), (2**63, EMPTY_ROOT), (1, b""), (0, bytes(32)), (True, bytes(32))):
        with pytest.raises(AuditError):
            Checkpoint("a", size, root)


# Checkpoints at the edge of what is taken, and who may sign one.


KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ORIGIN, ROOT = "example.org/log", bytes(range(32))
CHECKPOINT = Checkpoint(ORIGIN, 5, ROOT)


@pytest.mark.parametrize("size", ["5", 5.0, True, None, -1, MAX_SIZE + 1])
def test_sizes_that_are_none(size: Any) -> None:
    with pytest.raises(EncodingError, match="the size is an integer"):
        Checkpoint(ORIGIN, size, ROOT)


def test_smallest_and_largest_size() -> None:
    for one in (Checkpoint(ORIGIN, 0, EMPTY_ROOT), Checkpoint(ORIGIN, MAX_SIZE, ROOT)):
        assert Checkpoint.parse(one.text()) == one


@pytest.mark.parametrize("more", ["x", "x\n", "\n", " "])
def test_no_extension_and_one_ending(more: str) -> None:
    with pytest.raises(EncodingError):
        Checkpoint.parse(CHECKPOINT.text() + more)
    with pytest.raises(EncodingError):
        Checkpoint.parse(CHECKPOINT.text()[:-1])


def test_only_the_log_key_of_that_name_signs() -> None:
    """A witness key under the log's own name would make a line of another kind."""
    assert CHECKPOINT.sign(NoteSigner(ORIGIN, KEY, ED25519))
    for signer in (NoteSigner(ORIGIN, KEY, COSIGNATURE), NoteSigner("example.org/other", KEY, ED25519)):
        with pytest.raises(LedgerError, match="signed by the log key of that name"):
            CHECKPOINT.sign(signer)


def test_times_of_cosignatures() -> None:
    """From 1 to 2^63 - 1, on both sides."""
    witness, text = NoteSigner("witness", KEY, COSIGNATURE), CHECKPOINT.text()
    for time in (1, MAX_TIME):
        assert witness.verifier.verify(text, witness.sign(text, time)) == time
    for time in (0, -1, MAX_TIME + 1):
        with pytest.raises(EncodingError, match="time in seconds"):
            witness.sign(text, time)
    time = MAX_TIME + 1
    blob = time.to_bytes(8, "big") + KEY.sign(cosigned_message(text, time))
    with pytest.raises(LedgerError, match="below 2\\^63"):
        witness.verifier.verify(text, NoteSignature("witness", witness.verifier.key_id, blob))
