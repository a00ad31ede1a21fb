# SPDX-License-Identifier: GPL-3.0-or-later
"""What it takes to follow, and to witness, a log of a million entries: kilobytes of state, a page of memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import Frontier, consistency_path, leaf_hash, node_hash
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.observer import Observer
from ragseal.ledger.witness import Witness
from ragseal.ledger.witness_http import AddCheckpoint, WitnessSite

pytestmark = pytest.mark.slow

LOG = NoteSigner("log.example/million", Ed25519PrivateKey.from_private_bytes(b"l" * 32))
KEY = NoteSigner("w.example", Ed25519PrivateKey.from_private_bytes(b"w" * 32), COSIGNATURE)
STATE_BYTES = 4 << 10  #: on disk, for a log of any size that there will be
MEMORY_BYTES = 2 << 20  #: a page of 1,024 entries and what is made of it


def entry(index: int) -> bytes:
    """About as long as a record's entry in a ledger."""
    return b"%d " % index * 40


class Million:
    """A log whose entries are made when they are asked for; of its tree only hashes of 1,024 entries are kept."""

    def __init__(self) -> None:
        self.size = 0
        self.frontier = Frontier()
        self.nodes: dict[tuple[int, int], bytes] = {}

    def grow(self, size: int) -> None:
        for index in range(self.size, size):
            self.frontier.add(leaf_hash(entry(index)))
        self.size = size

    def root_of(self, start: int, end: int) -> bytes:
        """The Merkle hash of entries [start, end)."""
        count = end - start
        if count == 1:
            return leaf_hash(entry(start))
        if (start, end) not in self.nodes:
            k = 1 << (count - 1).bit_length() - 1
            found = node_hash(self.root_of(start, start + k), self.root_of(start + k, end))
            if count < 1024:
                return found
            self.nodes[start, end] = found
        return self.nodes[start, end]

    async def checkpoint(self) -> bytes:
        return Checkpoint(LOG.name, self.size, self.frontier.root()).sign(LOG)

    async def entries(self, start: int, count: int) -> list[bytes]:
        return [entry(index) for index in range(start, start + count)]

    async def consistency(self, old: int, new: int) -> list[bytes]:
        return consistency_path(old, new, self.root_of)

    async def add_cosignature(self, *_: object) -> None:
        pass


def state_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.asyncio
@pytest.mark.parametrize("entries", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
async def test_so_many_entries(entries: int, tmp_path: Path, capsys: Any) -> None:
    older = entries - entries // 10  # at the first look; memory is measured at the second, as that takes its time
    log = Million()
    log.grow(older)
    remote: Any = log
    clock = iter(range(1_700_000_000, 1_800_000_000, 10))
    observer = Observer(remote, LOG.verifier, tmp_path / "o", Witness(tmp_path / "o", KEY), lambda: next(clock))
    assert (await observer.step()).size == older
    before = await log.checkpoint()
    log.grow(entries)
    tracemalloc.start()
    try:
        second = await observer.step()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (second.size, second.new_entries) == (entries, entries - older)
    held = state_bytes(tmp_path / "o")

    path = await log.consistency(older, entries)
    site = WitnessSite(Witness(tmp_path / "w", KEY), tmp_path / "w", [LOG.verifier], lambda: next(clock))
    last = AddCheckpoint(older, tuple(path), await log.checkpoint()).encode()
    assert site.add_checkpoint(AddCheckpoint(0, (), before).encode()).status == 200
    assert site.add_checkpoint(last).status == 200
    kept = state_bytes(tmp_path / "w")
    with capsys.disabled():
        print(f"\n{entries:,} entries: {peak:,} bytes in memory, {held:,} and {kept:,} on disk, {len(last):,} sent")
    assert peak < MEMORY_BYTES
    assert max(held, kept) < STATE_BYTES
    assert len(last) < 4096
