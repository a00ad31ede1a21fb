# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look at this machine showed crosses no wire but the operator's own socket."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import grpc
import pytest

from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.printable import printable
from ragseal.runtime import rpc
from ragseal.runtime.edges import private
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.edges.mounts import mount_of


class Service:
    """One whose disk fails at each call."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "f"

    @rpc.answers
    async def read(self, request: bytes, context: Any) -> bytes:
        error = OSError(errno.EIO, os.strerror(errno.EIO))
        raise ConfigurationError(f"cannot write: {why(error, self.path)}; nothing was changed")


async def told(address: str) -> str:
    async with rpc.open_channel(address) as channel:
        with pytest.raises(ConfigurationError) as caught:
            await rpc.call(channel.unary_unary("/x.X/Read"), b"", address, 10)
    return str(caught.value)


@pytest.mark.asyncio
async def test_a_caller_is_told_of_no_mount_and_the_operator_is(tmp_path: Path) -> None:
    service, server = Service(tmp_path), rpc.new_server()
    handler = grpc.unary_unary_rpc_method_handler(service.read)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("x.X", {"Read": handler}),))
    port, _ = rpc.bind(server, "127.0.0.1:0"), rpc.bind(server, f"unix:{tmp_path / 's'}")
    await server.start()
    try:
        at = f"127.0.0.1:{port}"
        assert await told(at) == f"{at} answers: cannot write: {os.strerror(errno.EIO)}; nothing was changed"
        assert str(mount_of(tmp_path)) in await told(f"unix:{tmp_path / 's'}")
    finally:
        await server.stop(0)


def test_only_so_many_looks_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "MOST", 3)
    monkeypatch.setattr(private, "_made", {})
    for number in range(9):
        private.here(f" (look {number})")
    assert private.for_others("x (look 1) (look 8)") == "x (look 1)"
    assert private.for_others("x (look 6) (look 7)") == "x"


def test_a_look_that_is_made_again_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "MOST", 3)
    monkeypatch.setattr(private, "_made", {})
    for number in (1, 2, 1, 3, 4):
        private.here(f" (look {number})")
    assert private.for_others("x (look 1) (look 2)") == "x (look 2)"


def test_a_look_is_cut_whole_and_as_it_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look may begin as another one; a name with an escape stands in a message in its printable form."""
    monkeypatch.setattr(private, "_made", {})
    private.here(" (on /a")
    private.here(" (on /a of bob)")
    assert private.for_others("x (on /a of bob)") == "x"
    name = " (on /\x1b[2J)"
    assert printable(name) != name
    private.here(name)
    assert private.for_others(f"x{name} y{printable(name)}") == "x y"
