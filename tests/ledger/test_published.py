# SPDX-License-Identifier: GPL-3.0-or-later
"""What the public reads of a log: nothing beyond the size last revealed, whichever way one asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import LedgerError
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteSigner
from ragseal.ledger.published import PublicLog
from tests import apart

KEY = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.create(tmp_path / "ledger", KEY) as log:
        yield log


def fill(log: Log, *entries: bytes) -> None:
    assert all(not isinstance(one, Exception) for one in log.append_now([lambda _, e=e: e for e in entries]))  # type: ignore[misc]


def test_the_end_moves_when_it_is_revealed(log: Log) -> None:
    fill(log, b"a", b"b")
    public = PublicLog(log)
    before = log.published()
    fill(log, b"c")
    assert public.published() == before != log.published()
    assert public.size == 2
    public.reveal()
    assert public.published() == log.published()
    assert public.size == 3
    assert (public.origin, public.verifier) == (log.origin, log.verifier)


def test_a_live_log_shows_every_entry_at_once(log: Log) -> None:
    public = PublicLog(log, live=True)
    fill(log, b"a")
    assert public.published() == log.published()
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
def test_nothing_is_read_beyond_what_is_public(log: Log, asked: str) -> None:
    fill(log, b"a", b"b")
    public = PublicLog(log)
    fill(log, b"c", b"d")
    ASKED[asked](public, 2)
    for size in (3, 4, 5):
        with pytest.raises(LedgerError, match=f"size {size} is beyond the published size 2"):
            ASKED[asked](public, size)
    public.reveal()
    ASKED[asked](public, 4)


def test_what_is_shown_is_the_log_s_own(log: Log) -> None:
    entries = [b"a", b"b", b"c", b"d", b"e"]
    fill(log, *entries)
    public = PublicLog(log)
    assert public.entries(1, 3) == entries[1:4]
    leaf = [apart.root([entry]) for entry in entries]
    assert public.inclusion(4, 5) == [apart.root(entries[:4])]
    assert public.inclusion(0, 2) == [leaf[1]]
    assert public.consistency(4, 5) == [leaf[4]]
    assert public.checkpoint_at(5) == log.checkpoint()
    for start, count in ((-1, 1), (0, 0), (0, -1)):
        with pytest.raises(LedgerError, match="at least one entry, counting from 0"):
            public.entries(start, count)
