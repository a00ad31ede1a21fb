# SPDX-License-Identifier: GPL-3.0-or-later
"""Inclusion bundles: both forms canonical, verification tied to entry, index, log."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import MESSAGES
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AuditError, EncodingError, LedgerError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.entries import describe
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteSigner
from ragseal.ledger.receipt import InclusionBundle
from tests.fuzz.samples import sample

KEY = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
ENTRIES = [f"entry {i}".encode() for i in range(11)]
TREE = MerkleTree(ENTRIES)
NOTE = Checkpoint(KEY.name, 11, TREE.root()).sign(KEY)
BUNDLE = InclusionBundle(6, tuple(TREE.path(6)), NOTE)


def test_both_forms_round_trip_and_verify() -> None:
    assert InclusionBundle.decode(BUNDLE.encode()) == BUNDLE == InclusionBundle.from_text(BUNDLE.to_text())
    assert BUNDLE.to_text().startswith(b"c2sp.org/tlog-proof@v1\nindex 6\n")
    assert BUNDLE.verify(ENTRIES[6], KEY.verifier).checkpoint.size == 11
    lone = InclusionBundle(0, (), Checkpoint(KEY.name, 1, TREE.root(1)).sign(KEY))
    assert InclusionBundle.from_text(lone.to_text()) == lone
    lone.verify(ENTRIES[0], KEY.verifier)


def test_what_does_not_belong_together_is_refused() -> None:
    other = NoteSigner("log.example/x", KEY.private_key)
    cases = [
        (BUNDLE, ENTRIES[5], KEY),
        (replace(BUNDLE, index=5), ENTRIES[6], KEY),
        (replace(BUNDLE, path=BUNDLE.path[:-1]), ENTRIES[6], KEY),
        (replace(BUNDLE, checkpoint=Checkpoint(KEY.name, 11, bytes(32)).sign(KEY)), ENTRIES[6], KEY),
        (BUNDLE, ENTRIES[6], other),
    ]
    for bundle, entry, key in cases:
        with pytest.raises(LedgerError):
            bundle.verify(entry, key.verifier)


@pytest.mark.parametrize(
    "change",
    [
        (b"index 6", b"index 06"),
        (b"index 6", b"index -6"),
        (b"index 6", b"extra AA==\nindex 6"),
        (b"proof@v1", b"proof@v2"),
        (b"\n\n", b"\n"),
        (b"index 6\n", b"index 6\nAA==\n"),
        (b"index 6\n", b"index 6\n\xff\n"),
        (b"index 6\n", b"index 6\n" + (b"A" * 43 + b"=\n") * 64),
        (b"index 6\n", b""),
    ],
)
def test_malformed_files_are_refused(change: tuple[bytes, bytes]) -> None:
    text = BUNDLE.to_text().replace(*change, 1)
    assert text != BUNDLE.to_text()
    with pytest.raises(EncodingError):
        InclusionBundle.from_text(text)


@pytest.mark.parametrize("text", [b"", b"c2sp.org/tlog-proof@v1\nindex 0", BUNDLE.to_text() + bytes(80_000)])
def test_files_without_checkpoint_or_without_end_are_refused(text: bytes) -> None:
    with pytest.raises(EncodingError, match="an empty line and a checkpoint"):
        InclusionBundle.from_text(text)


@settings(max_examples=200)
@given(st.integers(0, len(BUNDLE.to_text()) - 1), st.integers(1, 255))
def test_a_changed_byte_never_verifies_as_something_else(at: int, flip: int) -> None:
    data = bytearray(BUNDLE.to_text())
    data[at] ^= flip
    try:
        bundle = InclusionBundle.from_text(bytes(data))
        assert bundle.to_text() == bytes(data)
        bundle.verify(ENTRIES[6], KEY.verifier)
    except AuditError:
        return
    raise AssertionError(f"byte {at} changed and still verified")


# Ledger entries as people are shown them.


@pytest.mark.parametrize("kind", [*MESSAGES, Record], ids=lambda kind: kind.TAG)
def test_every_kind_of_entry_is_shown_by_its_fields(kind: type[Message]) -> None:
    shown = describe(sample(kind, random.Random(kind.TAG)).encode())
    assert shown["type"] == kind.TAG
    assert "fields" in shown, f"{kind.__module__} is not among the modules whose messages are decoded"


def test_an_entry_of_no_known_kind_is_shown_by_its_hash() -> None:
    shown = describe(b"\x05hello\x00\x02")
    assert (shown["type"], shown["bytes"]) == ("hello", 8)
    assert "fields" not in shown
