# SPDX-License-Identifier: GPL-3.0-or-later
"""What a missing tool is to the operator, who calls by a Unix socket, and to everybody else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from ragseal.kernel.errors import AuditError, LedgerError, MismatchError, TransportError, UnavailableError
from ragseal.runtime.rpc import answers, call, new_server, open_channel
from ragseal.runtime.waiting import PAUSE, patiently

SAID = "the circuit compiler is not installed: run npm ci --prefix /home/provider/circuits"


class Provider:
    @answers
    async def Prove(self, request: bytes, context: Any) -> bytes:
        raise UnavailableError(SAID)


async def told(address: str) -> str:
    """What a caller at this address learns."""
    server = new_server()
    handler = grpc.unary_unary_rpc_method_handler(Provider().Prove)  # type: ignore[arg-type]
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("p", {"Prove": handler})])
    port = server.add_insecure_port(address)
    await server.start()
    target = address if address.startswith("unix:") else f"127.0.0.1:{port}"
    channel = open_channel(target, plain=True)
    try:
        with pytest.raises(AuditError) as refused:
            await call(channel.unary_unary("/p/Prove"), b"", "provider")
        return str(refused.value)
    finally:
        await channel.close()
        await server.stop(None)


def test_a_tool_that_is_missing_here_is_the_operators_business_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An auditor's report quotes what it is told: not a command that would bring the auditor nothing."""
    stranger = asyncio.run(told("127.0.0.1:0"))
    assert "npm" not in stranger
    assert "/home" not in stranger
    assert "its operator finds in its log" in stranger
    assert SAID in caplog.text
    assert SAID in asyncio.run(told(f"unix:{tmp_path}/s"))


# A command with --wait tries again while its peer is away, for as long as it was told, and no longer.


class Time:
    """A clock that pauses move."""

    def __init__(self) -> None:
        self.now = 0.0

    def pause(self, seconds: float) -> None:
        self.now += seconds


def attempts(errors: list[AuditError], seconds: float) -> tuple[object, list[str], float]:
    time, said, left = Time(), [], list(errors)

    def call() -> str:
        if left:
            raise left.pop(0)
        return "there"

    try:
        found: object = patiently(call, seconds, said.append, lambda: time.now, time.pause)
    except AuditError as error:
        found = error
    return found, said, time.now


def test_a_peer_that_comes_is_met() -> None:
    found, said, spent = attempts([TransportError("away")] * 3, 60)
    assert (found, spent) == ("there", 3 * PAUSE)
    assert said == ["waiting for at most 60 s: away"], "once, and not for each try"


@pytest.mark.parametrize("seconds", [0, 0.5, 7])
def test_nobody_waits_longer_than_told(seconds: float) -> None:
    found, _, spent = attempts([TransportError("away")] * 100, seconds)
    assert isinstance(found, TransportError)
    assert spent == seconds


@pytest.mark.parametrize("error", [MismatchError("TLS does not agree"), LedgerError("a fork")])
def test_what_no_repetition_mends_is_raised_at_once(error: AuditError) -> None:
    assert attempts([error], 60) == (error, [], 0.0)
