# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiles over HTTP: the same bytes as in an exported folder, at every size, and nothing that is not public."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.published import PublicLog
from ragseal.ledger.tile_site import Tile, TileSite
from ragseal.ledger.tiles import WIDTH, TileFolder, partial_paths, tile_path
from ragseal.runtime.http_server import HttpServer, Request
from tests.ledger.test_tiles import SIGNER, Peer
from tests.ledger.test_witness_http import Caller, get


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
