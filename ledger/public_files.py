# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of public files over HTTP, beside the page: the log's tiles, and a window's proofs.  SPEC G.6.11, G.15.

    GET /checkpoint, /tile/...                          as C2SP tlog-tiles have them (:mod:`ragseal.ledger.tiles`)
    GET /vk-<key>.bin, /columns/..., /proofs/...        as :mod:`ragseal.ledger.proof_files` names them

So one process is a whole public site: a visitor's browser finds beside the page all that it checks a window with.
Names are those and no others; nothing else of the folder is served, whatever lies in it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from ragseal.ledger.tile_site import ANEW, FOR_EVER, OCTETS, Tile
from ragseal.ledger.tiles import WIDTH
from ragseal.runtime.http_server import TEXT, Request, Response

Handler = Callable[[Request], Awaitable[Response]]

_DIGEST = "[0-9a-f]{64}"
_PROOFS = re.compile(rf"/(?:vk-{_DIGEST}|columns/{_DIGEST}|proofs/{_DIGEST}/(?:0|[1-9][0-9]{{0,14}}))\.bin", re.ASCII)


class PublicFiles:
    """Answers requests for a folder's files, and hands every other one on."""

    def __init__(self, folder: Path, page: Handler) -> None:
        """``page``: answers whatever is not named here."""
        self._folder, self._page = folder, page

    async def handle(self, request: Request) -> Response:
        """The answer to a visitor; for an :class:`~ragseal.runtime.http_server.HttpServer`."""
        headers = _headers(request.path)
        if headers is None or request.method not in ("GET", "HEAD"):
            return await self._page(request)
        return await asyncio.to_thread(self._file, request.path, headers)

    def _file(self, path: str, headers: dict[str, str]) -> Response:
        try:
            data = (self._folder / path.removeprefix("/")).read_bytes()
        except OSError:
            return Response(404, b"no such file here\n", headers=ANEW)
        return Response(200, data, TEXT if path == "/checkpoint" else OCTETS, headers)


def _headers(path: str) -> dict[str, str] | None:
    """How long a file may be kept; None: it is none of these."""
    if path == "/checkpoint" or _PROOFS.fullmatch(path):
        return ANEW
    tile = Tile.parse(path)
    if tile is None:
        return None
    return FOR_EVER if tile.width == WIDTH else ANEW
