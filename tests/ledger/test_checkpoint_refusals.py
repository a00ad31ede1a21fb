# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints at the edge of what is taken, and who may sign one."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import EncodingError, LedgerError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import EMPTY_ROOT, MAX_SIZE
from ragseal.ledger.note import COSIGNATURE, ED25519, MAX_TIME, NoteSignature, NoteSigner, cosigned_message

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
