# SPDX-License-Identifier: GPL-3.0-or-later
"""A log as files of C2SP tlog-tiles, read back by a reader of its own that knows nothing but the specification."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import ConfigurationError, EncodingError, LedgerError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteSigner
from ragseal.ledger.tiles import TileFolder, bundle, partial_paths, tile_path
from ragseal.ledger.witness import UnprovenError

SIGNER = NoteSigner("tiles.example/log", Ed25519PrivateKey.from_private_bytes(b"t" * 32))


class Peer:
    """A log in memory, as the remote side shows it."""

    def __init__(self, count: int) -> None:
        self.data: list[bytes] = []
        self.grow(count)

    def grow(self, count: int) -> None:
        self.data += [b"entry %d" % i * (1 + i % 3) for i in range(len(self.data), len(self.data) + count)]

    def note(self) -> bytes:
        return Checkpoint(SIGNER.name, len(self.data), MerkleTree(self.data).root()).sign(SIGNER)

    async def checkpoint(self) -> bytes:
        return self.note()

    async def rotations(self) -> list[bytes]:
        return []

    async def cosigned(self) -> bytes | None:
        return None

    async def entries(self, start: int, count: int) -> list[bytes]:
        return self.data[start : start + min(count, 700)]


# --- an independent reader -------------------------------------------------------------------------------------------


def name_of(number: int) -> str:
    digits = str(number).rjust(-(-len(str(number)) // 3) * 3, "0")
    groups = [digits[i : i + 3] for i in range(0, len(digits), 3)]
    return "/".join(["x" + g for g in groups[:-1]] + groups[-1:])


def read(folder: Path, level: str, number: int, width: int) -> bytes:
    return (folder / "tile" / level / (name_of(number) + ("" if width == 256 else f".p/{width}"))).read_bytes()


def subtree(hashes: list[bytes]) -> bytes:
    if len(hashes) == 1:
        return hashes[0]
    k = 1
    while 2 * k < len(hashes):
        k *= 2
    return hashlib.sha256(b"\x01" + subtree(hashes[:k]) + subtree(hashes[k:])).digest()


def fsck(folder: Path, name: str = SIGNER.name) -> list[bytes]:
    """Everything below the checkpoint: entries to leaves, every tile to the level above, and the root.

    Returns:
        The entries.
    """
    origin, size_text, root, *_ = (folder / "checkpoint").read_text().split("\n")
    size = int(size_text)
    entries: list[bytes] = []
    for number in range(-(-size // 256)):
        data, width = b"", min(256, size - 256 * number)
        data = read(folder, "entries", number, width)
        at = 0
        for _ in range(width):
            length = int.from_bytes(data[at : at + 2], "big")
            entries.append(data[at + 2 : at + 2 + length])
            at += 2 + length
        assert at == len(data)
    level, below = 0, [hashlib.sha256(b"\x00" + entry).digest() for entry in entries]
    while below:
        above = []
        for number in range(-(-len(below) // 256)):
            want = below[256 * number : 256 * number + 256]
            assert read(folder, str(level), number, len(want)) == b"".join(want)
            if len(want) == 256:
                above.append(subtree(want))
        level, below = level + 1, above
    leaves = [hashlib.sha256(b"\x00" + entry).digest() for entry in entries]
    found = subtree(leaves) if leaves else hashlib.sha256(b"").digest()
    assert base64.b64decode(root) == found
    assert origin == name
    return entries


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")} - {
        "lock"
    }


# --- tests -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> TileFolder:
    return TileFolder(tmp_path / "tiles", SIGNER.verifier)


def test_names() -> None:
    assert tile_path(0, 1234067) == "tile/0/x001/x234/067"
    assert tile_path("entries", 1000, 8) == "tile/entries/x001/000.p/8"
    assert tile_path(3, 5, 255) == "tile/3/005.p/255"
    assert all(tile_path(1, n) == f"tile/1/{name_of(n)}" for n in (0, 9, 999, 1000, 123456, 999999, 10**6, 10**9 + 7))
    assert partial_paths(256 * 256 + 3) == {"tile/0/256.p/3", "tile/entries/256.p/3", "tile/2/000.p/1"}


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 1000, 70_000])
async def test_a_log_of_any_size(folder: TileFolder, tmp_path: Path, size: int) -> None:
    peer = Peer(size)
    assert (await folder.update(peer)).size == size
    assert fsck(tmp_path / "tiles") == peer.data


@pytest.mark.slow
@pytest.mark.asyncio
async def test_it_grows_and_forgets_partial_files_that_nobody_needs(folder: TileFolder, tmp_path: Path) -> None:
    peer, sizes = Peer(0), []
    for step in (3, 1, 0, 250, 2, 700, 1, 65_000, 300):
        peer.grow(step)
        sizes.append(len(peer.data))
        await folder.update(peer)
        assert fsck(tmp_path / "tiles") == peer.data
        partial = {name for name in files(tmp_path / "tiles") if ".p/" in name}
        last = list(dict.fromkeys(sizes))[-2:]
        assert partial_paths(len(peer.data)) <= partial <= {name for one in last for name in partial_paths(one)}


@pytest.mark.asyncio
async def test_nothing_is_fetched_twice_but_the_last_bundle(folder: TileFolder) -> None:
    peer = Peer(1000)
    await folder.update(peer)
    asked: list[int] = []
    plain = peer.entries

    async def entries(start: int, count: int) -> list[bytes]:
        asked.append(start)
        return await plain(start, count)

    peer.entries = entries
    peer.grow(10)
    await folder.update(peer)
    assert asked == [768]


@pytest.mark.asyncio
async def test_entries_that_are_not_the_signed_ones_change_nothing(folder: TileFolder, tmp_path: Path) -> None:
    peer = Peer(600)
    await folder.update(peer)
    before, held = files(tmp_path / "tiles"), (tmp_path / "tiles" / "checkpoint").read_bytes()
    peer.grow(600)
    honest = peer.data[900]
    note = peer.note()
    peer.data[900] = b"other"

    async def checkpoint() -> bytes:
        return note

    peer.checkpoint = checkpoint
    with pytest.raises(UnprovenError, match="do not give the root"):
        await folder.update(peer)
    assert (files(tmp_path / "tiles"), (tmp_path / "tiles" / "checkpoint").read_bytes()) == (before, held)
    peer.data[900] = honest
    await folder.update(peer)
    assert fsck(tmp_path / "tiles") == peer.data


@pytest.mark.asyncio
async def test_another_history_is_not_taken(folder: TileFolder, tmp_path: Path) -> None:
    """It is signed, and longer; but what stands here was signed too."""
    peer = Peer(600)
    await folder.update(peer)
    other = Peer(800)
    other.data[590] = b"other"  # in the last bundle, which is fetched again
    with pytest.raises(UnprovenError, match="up to 600"):
        await folder.update(other)
    other = Peer(800)
    other.data[10] = b"other"  # before: then the tiles that stand here do not give its root
    with pytest.raises(UnprovenError):
        await folder.update(other)
    with pytest.raises(UnprovenError, match="600 stand here"):
        await folder.update(Peer(599))
    assert fsck(tmp_path / "tiles") == peer.data


@pytest.mark.asyncio
async def test_a_damaged_folder_is_said(folder: TileFolder, tmp_path: Path) -> None:
    peer = Peer(600)
    await folder.update(peer)
    peer.grow(1)
    tile = tmp_path / "tiles" / "tile" / "1" / "000.p" / "2"
    data = tile.read_bytes()
    tile.write_bytes(data[:-1])
    with pytest.raises(ConfigurationError, match="damaged"):
        await folder.update(peer)
    tile.write_bytes(bytes(64))
    with pytest.raises(UnprovenError):
        await folder.update(peer)
    tile.unlink()
    with pytest.raises(ConfigurationError, match="new folder"):
        await folder.update(peer)
    tile.write_bytes(data)
    await folder.update(peer)
    (tmp_path / "tiles" / "checkpoint").write_bytes(b"x")
    with pytest.raises(ConfigurationError, match="damaged, or another log's"):
        await folder.update(peer)


@pytest.mark.asyncio
async def test_another_logs_note_and_a_second_program(folder: TileFolder, tmp_path: Path) -> None:
    stranger = NoteSigner(SIGNER.name, Ed25519PrivateKey.from_private_bytes(b"u" * 32))
    peer = Peer(3)

    async def checkpoint() -> bytes:
        return Checkpoint(SIGNER.name, 3, MerkleTree(peer.data).root()).sign(stranger)

    peer.checkpoint = checkpoint
    with pytest.raises(LedgerError):
        await folder.update(peer)
    assert not (tmp_path / "tiles" / "checkpoint").exists()
    with pytest.raises(LedgerError, match="cosigned"):
        await folder.update(Peer(3), cosigned=True)
    with pytest.raises(LedgerError, match="in use"):
        TileFolder(tmp_path / "tiles", SIGNER.verifier)


def test_bundles() -> None:
    assert bundle([b"", b"ab"]) == b"\x00\x00\x00\x02ab"
    with pytest.raises(EncodingError, match="65535"):
        bundle([bytes(65_536)])
