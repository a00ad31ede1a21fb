# SPDX-License-Identifier: GPL-3.0-or-later
"""A log as files of C2SP tlog-tiles, read back by a reader of its own that knows nothing but the specification."""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import ConfigurationError, EncodingError, LedgerError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.published import PublicLog
from ragseal.ledger.tile_site import Tile, TileSite
from ragseal.ledger.tiles import WIDTH, TileFolder, bundle, partial_paths, tile_path
from ragseal.ledger.witness import UnprovenError
from ragseal.runtime.http_server import HttpServer, Request
from tests.ledger.test_witness_http import Caller, get

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


# Tiles over HTTP: the same bytes as in an exported folder, at every size, and nothing that is not public.


class Site:
    def __init__(self, folder: Path) -> None:
        self.log = Log.create(folder, SIGNER)
        self.public = PublicLog(self.log)
        self.book = CosignatureBook(folder, self.public)
        self.site = TileSite(self.public, self.book)
        self.data: list[bytes] = []

    def grow(self, data: list[bytes]) -> None:
        for at in range(0, len(data), 256):
            self.log.append_now([lambda _, entry=entry: entry for entry in data[at : at + 256]])
        self.data += data

    def body(self, path: str) -> bytes | None:
        answer = self.site.file(path)
        assert answer.status in (200, 404)
        return answer.body if answer.status == 200 else None


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "ledger")


@pytest.mark.slow
@pytest.mark.asyncio
async def test_the_same_bytes_as_in_an_exported_folder(site: Site, tmp_path: Path) -> None:
    peer, folder = Peer(0), TileFolder(tmp_path / "tiles", SIGNER.verifier)
    for size in (1, 255, 256, 257, 1000, 66_000):
        peer.grow(size - len(peer.data))
        site.grow(peer.data[site.log.size :])
        site.public.reveal()
        await folder.update(peer)
        files = [path for path in (tmp_path / "tiles").rglob("*") if path.is_file() and not path.name.startswith(".")]
        names = {str(path.relative_to(tmp_path / "tiles")) for path in files if path.name != "lock"}
        assert partial_paths(size) <= names
        for name in names:
            assert site.body(f"/{name}") == (tmp_path / "tiles" / name).read_bytes(), name


def test_every_width_that_a_checkpoint_had_is_served(site: Site) -> None:
    site.grow([b"entry %d" % i for i in range(300)])
    site.public.reveal()
    hashes = b"".join(site.log.leaf_hashes(0, 256))
    for width in range(1, 256):
        assert site.body(f"/{tile_path(0, 0, width)}") == hashes[: 32 * width]
        assert site.body(f"/{tile_path('entries', 0, width)}") is not None
    assert site.body("/tile/1/000.p/1") is not None
    for path in ("/tile/1/000.p/2", "/tile/1/000", "/tile/0/001.p/45", "/tile/2/000.p/1", "/tile/entries/001.p/45"):
        assert site.body(path) is None, path


@pytest.mark.parametrize(
    "path",
    [
        "/", "/tile", "/tile/0", "/tile/0/", "/tile/0/0", "/tile/00/000", "/tile/64/000", "/tile/8/000.p/1",
        "/tile/-1/000", "/tile/0/000.p/0", "/tile/0/000.p/256", "/tile/0/000.p/01", "/tile/0/000.p/", "/tile/0/000.p",
        "/tile/0/x000/000", "/tile/0/x000/x000/000", "/tile/0/X001/000", "/tile/0/001/000", "/tile/0/000/",
        "/tile/entries/000.p/1000", "/tile/names/000", "//tile/0/000", "/tile/0/../0/000", "/tile/0/٠٠٠",
        "/tile/0/" + "x999/" * 7 + "999", "/log.sqlite", "/lock", "/cosignatures", "/checkpoint/", "/checkpoint.p/1",
    ],
)  # fmt: skip
def test_other_paths_are_not_found(site: Site, path: str) -> None:
    site.grow([b"entry %d" % i for i in range(600)])
    site.public.reveal()
    assert site.body(path) is None


def test_paths_are_read_as_they_are_written() -> None:
    for kind in ("entries", 0, 3, 63):
        for number in (0, 7, 999, 1000, 1_234_067, 10**20):
            for width in (1, 255, WIDTH):
                found = Tile.parse(f"/{tile_path(kind, number, width)}")
                assert found == Tile(None if kind == "entries" else kind, number, width)


def test_nothing_younger_than_the_public_end_is_served(site: Site) -> None:
    """SPEC B.3: neither an entry, nor a hash of one, nor a note that counts it, before the tick."""
    site.grow([b"entry %d" % i for i in range(250)])
    site.public.reveal()
    before = site.body("/checkpoint")
    site.grow([b"young %d" % i for i in range(20)])
    assert site.body("/checkpoint") == before
    young = [tile_path(kind, 0, width) for kind in (0, "entries") for width in (251, 255, WIDTH)]
    for path in [*young, tile_path(0, 1, 1), tile_path(1, 0, 1), tile_path("entries", 1, 14)]:
        assert site.body(f"/{path}") is None, path
    site.public.reveal()
    for path in [*young, tile_path(0, 1, 1), tile_path(1, 0, 1), tile_path("entries", 1, 14)]:
        assert site.body(f"/{path}") is not None, path


def test_headers_say_what_may_be_kept_and_bundles_are_compressed_where_that_is_wanted(site: Site) -> None:
    site.grow([b"entry %d" % i for i in range(300)])
    site.public.reveal()
    checkpoint = site.site.file("/checkpoint")
    assert (checkpoint.kind, checkpoint.headers["Cache-Control"]) == ("text/plain; charset=utf-8", "no-cache")
    assert site.site.file("/tile/0/009").headers["Cache-Control"] == "no-cache"
    for path in ("/tile/0/000", "/tile/0/001.p/44", "/tile/entries/000", "/tile/entries/001.p/44"):
        answer = site.site.file(path)
        assert (answer.kind, "immutable" in answer.headers["Cache-Control"]) == ("application/octet-stream", True)
        zipped = site.site.file(path, zipped=True)
        if "entries" in path:
            assert (zipped.headers["Content-Encoding"], zipped.headers["Vary"]) == ("gzip", "Accept-Encoding")
            assert gzip.decompress(zipped.body) == answer.body
        else:
            assert zipped == answer
    for said, wanted in (
        ("gzip", 1), ("br, gzip;q=0.5", 1), ("GZIP ; Q=1.000", 1), ("gzip;q=0.001,br", 1), ("gzip;q=1", 1),
        ("gzip;q=0", 0), ("gzip; q=0.", 0), ("gzip;q=0.0", 0), ("gzip;q=0.00", 0), ("br, gzip ; q=0.000", 0),
        ("gzip;q=2", 0), ("gzip;q=-1", 0), ("gzip;q=x", 0), ("gzip;q=0.0000", 0), ("identity", 0), ("", 0),
    ):  # fmt: skip
        assert Request("GET", "/", {"accept-encoding": said}).takes_gzip == wanted


def test_full_tiles_are_read_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.grow([b"entry %d" % i for i in range(600)])
    site.public.reveal()
    paths = ("/tile/0/000", "/tile/1/000.p/2", "/tile/entries/001")
    before = [site.body(path) for path in paths]
    for name in ("leaf_hashes", "entries"):
        monkeypatch.setattr(Log, name, lambda *_: pytest.fail("read again"))
    assert [site.body(path) for path in paths] == before


def test_a_checkpoint_shows_the_cosignatures_of_its_size(site: Site) -> None:
    key = NoteSigner("w.example", Ed25519PrivateKey.from_private_bytes(b"w" * 32), COSIGNATURE)
    site.grow([b"one"])
    site.public.reveal()
    text = site.body("/checkpoint").partition(b"\n\n")[0].decode() + "\n"
    site.book.add(1, key.verifier.vkey(), key.sign(text, 1000).line(), 1000)
    assert b"w.example" in site.body("/checkpoint")
    site.grow([b"two"])
    site.public.reveal()
    assert b"w.example" not in site.body("/checkpoint")


@pytest.mark.asyncio
async def test_over_http(site: Site) -> None:
    site.grow([b"entry %d" % i for i in range(300)])
    site.public.reveal()
    server = HttpServer(site.site.handle)
    address = await server.start("127.0.0.1:0")
    try:
        caller = Caller(address)
        head, _, body = (await caller.raw(get("/tile/0/000"))).partition(b"\r\n\r\n")
        assert (head.split(b"\r\n")[0], body) == (b"HTTP/1.1 200 OK", site.body("/tile/0/000"))
        head, _, body = (await caller.raw(get("/checkpoint?x=1", "HEAD"))).partition(b"\r\n\r\n")
        assert (b"Content-Length: " in head, body) == (True, b"")
        assert (await caller.raw(get("/checkpoint", "DELETE"))).startswith(b"HTTP/1.1 405")
        assert (await caller.raw(get("/tile/0/../../log.sqlite"))).startswith(b"HTTP/1.1 404")
        packed = get("/tile/entries/000", more="Accept-Encoding: gzip\r\nConnection: close\r\n")
        head, _, body = (await caller.raw(packed)).partition(b"\r\n\r\n")
        assert gzip.decompress(body) == site.body("/tile/entries/000")
        sent = b"POST /checkpoint HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
        assert (await caller.raw(sent)).startswith(b"HTTP/1.1 413")
    finally:
        await server.stop()
        site.site.close()
