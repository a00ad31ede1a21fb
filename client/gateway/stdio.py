# SPDX-License-Identifier: GPL-3.0-or-later
"""The Model Context Protocol on standard input and output, with every message read as the HTTP routes read theirs.

The library's parser keeps the last of two members of one name, so that another question is asked, and paid, than the
one that its sender's own reader shows.  Here such a line is answered with an error, and nothing is asked.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from io import TextIOWrapper
from typing import Any, cast

import anyio
from mcp.server import MCPServer
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, ErrorData, JSONRPCError

from ragseal.kernel.errors import EncodingError
from ragseal.runtime.json_text import parse_json


async def speak(tools: MCPServer[Any]) -> None:
    """Serve until standard input ends."""
    lines = _Lines()
    async with stdio_server(cast(Any, lines)) as (received, sent):
        lines.answer = sent.send
        server = tools._lowlevel_server
        await server.run(received, sent, server.create_initialization_options())


class _Lines:
    """Standard input line by line, without lines that are no JSON of one meaning."""

    def __init__(self) -> None:
        self._file = anyio.wrap_file(TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace"))
        self.answer: Any = None  #: set before the first line is read

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._file:
            try:
                parse_json(line, "the message")
            except EncodingError as error:
                said = ErrorData(code=INVALID_REQUEST, message=f"{error}; nothing was asked")
                await self.answer(SessionMessage(JSONRPCError(jsonrpc="2.0", id=_id_of(line), error=said)))
            else:
                yield line


def _id_of(line: str) -> str | int | None:
    """Whose answer an error is; None where the line does not tell, or what it tells cannot be sent back."""
    try:
        found = json.loads(line)
        known = found.get("id") if isinstance(found, dict) else None
        str(known).encode()  # a lone surrogate would end the server
    except (ValueError, RecursionError):
        return None
    return known if isinstance(known, str) or type(known) is int else None
