# SPDX-License-Identifier: GPL-3.0-or-later
"""Ledger entries as people are shown them."""

from __future__ import annotations

import random

import pytest

from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import MESSAGES
from ragseal.kernel.encoding import Message
from ragseal.ledger.entries import describe
from tests.fuzz.samples import sample


@pytest.mark.parametrize("kind", [*MESSAGES, Record], ids=lambda kind: kind.TAG)
def test_every_kind_of_entry_is_shown_by_its_fields(kind: type[Message]) -> None:
    shown = describe(sample(kind, random.Random(kind.TAG)).encode())
    assert shown["type"] == kind.TAG
    assert "fields" in shown, f"{kind.__module__} is not among the modules whose messages are decoded"


def test_an_entry_of_no_known_kind_is_shown_by_its_hash() -> None:
    shown = describe(b"\x05hello\x00\x02")
    assert (shown["type"], shown["bytes"]) == ("hello", 8)
    assert "fields" not in shown
