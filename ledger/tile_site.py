# SPDX-License-Identifier: GPL-3.0-or-later
"""The public log as C2SP tlog-tiles have it, over HTTP: read from the open log, for any tool that reads such logs.

    GET /checkpoint                        the newest public note, with the cosignatures of its size
    GET /tile/<level>/<number>[.p/<width>] hashes
    GET /tile/entries/<number>[.p/<width>] entries, each with its length in two bytes

A checkpoint is signed for every entry, so every width of every tile belongs to some checkpoint: partial tiles are
computed when they are asked for, full ones are kept.  Nothing is served that :class:`PublicLog` does not show: neither
an entry nor a hash from which its presence could be told.  SPEC G.6.11.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.published import PublicLog
from ragseal.ledger.tiles import LEVELS, WIDTH, bundle, perfect_root, tile_path
from ragseal.runtime.http_server import Request, Response

KEPT_BYTES = 32 << 20  #: of full tiles and bundles
KEPT_ROOTS = 1 << 16  #: of full tiles, 32 bytes each: those of 2^24 entries
PAGE = 32  #: entries read at once: the log's writer waits for no more
THREADS = 2
OCTETS = "application/octet-stream"
FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable", "Access-Control-Allow-Origin": "*"}
ANEW = {"Cache-Control": "no-cache", "Access-Control-Allow-Origin": "*"}

_PATH = re.compile(r"/tile/(entries|\d{1,2})/((?:x\d{3}/){0,6}\d{3})(?:\.p/([1-9]\d{0,2}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile or, with ``level`` None, a bundle of entries."""

    level: int | None
    number: int
    width: int  #: WIDTH: a full one

    @classmethod
    def parse(cls, path: str) -> Tile | None:
        """What a path names; None unless it is written as :func:`tile_path` writes it."""
        found = _PATH.fullmatch(path)
        if found is None:
            return None
        kind, groups, width_text = found.groups()
        number, width = int(groups.replace("x", "").replace("/", "")), int(width_text or WIDTH)
        if f"/{tile_path(kind if kind == 'entries' else int(kind), number, width)}" != path:
            return None  # zeroes that do not belong there; a width of 256 or more
        return cls(None if kind == "entries" else int(kind), number, width)

    @property
    def end(self) -> int:
        """Entries that a log has at least if it has this tile."""
        below: int = WIDTH ** (self.level or 0)
        return (self.number * WIDTH + self.width) * below


class TileSite:
    """Answers requests for a log's tiles; :meth:`handle` goes to a :class:`~ragseal.runtime.http_server.HttpServer`."""

    def __init__(self, log: PublicLog, book: CosignatureBook) -> None:
        self._log, self._book = log, book
        self._pool = ThreadPoolExecutor(THREADS, "tiles")  # answers to queries have threads of their own
        self._kept = _Kept(KEPT_BYTES, len)
        self._roots = _Kept(KEPT_ROOTS, lambda root: 1)

    async def handle(self, request: Request) -> Response:
        """The answer to a request, read in a thread."""
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"only GET is served here\n", headers={"Allow": "GET, HEAD"})
        return await asyncio.get_running_loop().run_in_executor(self._pool, self.file, request.path, request.takes_gzip)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def file(self, path: str, zipped: bool = False) -> Response:
        """The file of a path, whose bundles may come ``zipped``."""
        if path == "/checkpoint":
            size, note = self._log.published()
            return Response(200, self._book.decorate(note, size), headers=ANEW)
        tile = Tile.parse(path)
        if tile is None or (tile.level or 0) >= LEVELS or tile.end > self._log.size:
            text = (
                b"not here: this log serves /checkpoint, /tile/LEVEL/NUMBER and /tile/entries/NUMBER up to its size\n"
            )
            return Response(404, text, headers=ANEW)
        if tile.level is not None:
            return Response(200, self._tile(tile.level, tile.number, tile.width), OCTETS, FOR_EVER)
        headers = {**FOR_EVER, "Vary": "Accept-Encoding"}
        if not zipped:
            return Response(200, self._bundle(tile.number, tile.width), OCTETS, headers)
        return Response(200, self._zipped(tile.number, tile.width), OCTETS, {**headers, "Content-Encoding": "gzip"})

    def _tile(self, level: int, number: int, width: int) -> bytes:
        def made() -> bytes:
            if level == 0:
                return b"".join(self._log.leaf_hashes(number * WIDTH, width))
            return b"".join(self._root(level - 1, number * WIDTH + at) for at in range(width))

        return self._kept.get(("tile", level, number), made) if width == WIDTH else made()

    def _root(self, level: int, number: int) -> bytes:
        """The root of a full tile."""

        def made() -> bytes:
            tile = self._tile(level, number, WIDTH)
            return perfect_root([tile[at : at + 32] for at in range(0, len(tile), 32)])

        return self._roots.get((level, number), made)

    def _bundle(self, number: int, width: int) -> bytes:
        def made() -> bytes:
            start, end = number * WIDTH, number * WIDTH + width
            return b"".join(bundle(self._log.entries(at, min(PAGE, end - at))) for at in range(start, end, PAGE))

        return self._kept.get(("entries", number), made) if width == WIDTH else made()

    def _zipped(self, number: int, width: int) -> bytes:
        def made() -> bytes:
            return gzip.compress(self._bundle(number, width), compresslevel=1, mtime=0)

        return self._kept.get(("zipped", number), made) if width == WIDTH else made()


class _Kept:
    """What was asked for last, up to a bound; two callers may make the same thing at once.  Thread-safe."""

    def __init__(self, most: int, weight: Callable[[bytes], int]) -> None:
        self._most, self._weight, self._held = most, weight, 0
        self._found: OrderedDict[object, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: object, make: Callable[[], bytes]) -> bytes:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        made = make()
        with self._lock:
            if key not in self._found:
                self._found[key] = made
                self._held += self._weight(made)
                while self._held > self._most and len(self._found) > 1:
                    _, old = self._found.popitem(last=False)
                    self._held -= self._weight(old)
        return made
