# SPDX-License-Identifier: GPL-3.0-or-later
"""The gRPC edge end to end on loopback: reads, pages, cosignatures, errors, ports, TLS rules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import errors
from ragseal.kernel.errors import (
    AuditError,
    BudgetError,
    ConfigurationError,
    EncodingError,
    LedgerError,
    TransportError,
)
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.merkle import leaf_hash, verify_consistency, verify_inclusion
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.service import LedgerServicer
from ragseal.ledger.turns import follow
from ragseal.runtime import rpc, statuses

LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
NOW = 1_700_000_000


def witness(number: int) -> NoteSigner:
    return NoteSigner(
        f"w{number}.example", Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big")), COSIGNATURE
    )


class Served:
    """A log behind a server on a free port, and a client."""

    def __init__(self, directory: Path) -> None:
        self.log = Log.create(directory, LOG)
        self.book = CosignatureBook(directory, self.log)
        self.server = rpc.new_server()
        self.servicer = LedgerServicer(self.log, self.book, clock=lambda: float(NOW))
        self.servicer.mount(self.server)
        self.port = rpc.bind(self.server, "127.0.0.1:0")

    async def __aenter__(self) -> Served:
        await self.server.start()
        self.channel = rpc.open_channel(f"127.0.0.1:{self.port}")
        self.remote = RemoteLedger(self.channel)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()
        await self.server.stop(0)
        self.log.close()


@pytest_asyncio.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with Served(tmp_path / "ledger") as served:
        yield served


@pytest.mark.asyncio
async def test_reads_verify_end_to_end(served: Served) -> None:
    served.log.append_now([lambda i: f"entry {i}".encode()] * 9)
    old = open_checkpoint(await served.remote.checkpoint(), LOG.verifier).checkpoint
    served.log.append_now([lambda i: f"entry {i}".encode()] * 5)
    new = open_checkpoint(await served.remote.checkpoint(), LOG.verifier).checkpoint
    assert (old.size, new.size) == (9, 14)
    verify_consistency(9, 14, await served.remote.consistency(9, 14), old.root, new.root)
    entry = await served.remote.entry(3)
    verify_inclusion(leaf_hash(entry), 3, 14, await served.remote.inclusion(3, 14), new.root)
    assert await served.remote.entries(10, 100) == [f"entry {i}".encode() for i in range(10, 14)]


@pytest.mark.asyncio
async def test_turns_of_the_key_are_followed_end_to_end(served: Served) -> None:
    assert await served.remote.rotations() == []
    served.log.append_now([lambda i: f"entry {i}".encode()] * 3)
    for number in (7, 8):
        served.log.rotate(NoteSigner(LOG.name, Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)))
    log = follow(LOG.verifier, await served.remote.rotations())
    assert len(log.turns) == 2
    assert open_checkpoint(await served.remote.checkpoint(), log).checkpoint.size == 5


@pytest.mark.asyncio
async def test_pages_are_limited_and_can_be_continued(served: Served) -> None:
    served.log.append_now([lambda i: bytes([i % 256]) * 60_000] * 100)
    first = await served.remote.entries(0, 100)
    assert len(first) == 256 * 1024 // 60_000
    found = first
    while len(found) < 100:
        found += await served.remote.entries(len(found), 100)
    assert found == [bytes([i]) * 60_000 for i in range(100)]
    served.log.append_now([lambda i: b"small"] * 1200)
    assert len(await served.remote.entries(100, 10**6)) == 1024


@pytest.mark.asyncio
async def test_bad_arguments_come_back_as_the_same_error(served: Served) -> None:
    served.log.append_now([lambda i: b"x"] * 3)
    remote = served.remote
    for call in (
        remote.entries(3, 1),
        remote.entries(0, 0),
        remote.inclusion(3, 3),
        remote.inclusion(0, 4),
        remote.consistency(0, 3),
        remote.consistency(3, 2),
        remote.consistency(1, 4),
        remote.add_cosignature(4, witness(1).verifier.vkey(), witness(1).sign("x\n", NOW).line()),
    ):
        with pytest.raises(LedgerError, match="the provider answers"):
            await call
    for bad in (remote.inclusion(-1, 3), remote.entries(2**63, 1)):
        with pytest.raises(LedgerError, match="in \\[0, 2\\^63\\)"):
            await bad


# --- cosignatures


def text(log: Log, size: int) -> str:
    return open_checkpoint(log.checkpoint_at(size), LOG.verifier).checkpoint.text()


@pytest.mark.asyncio
async def test_cosignatures_are_served_once_valid_and_survive_a_restart(served: Served, tmp_path: Path) -> None:
    served.log.append_now([lambda i: b"x"] * 3)
    one, two = witness(1), witness(2)
    assert await served.remote.cosigned() is None
    line = one.sign(text(served.log, 3), NOW).line()
    await served.remote.add_cosignature(3, one.verifier.vkey(), line)
    await served.remote.add_cosignature(3, one.verifier.vkey(), line)
    await served.remote.add_cosignature(2, two.verifier.vkey(), two.sign(text(served.log, 2), NOW).line())
    signed = open_checkpoint(await served.remote.checkpoint(), LOG.verifier, [one.verifier, two.verifier])
    assert [(found.verifier.name, found.time) for found in signed.witnesses] == [("w1.example", NOW)]
    served.log.append_now([lambda i: b"y"])
    assert not open_checkpoint(await served.remote.checkpoint(), LOG.verifier, [one.verifier]).witnesses
    cosigned = open_checkpoint(await served.remote.cosigned() or b"", LOG.verifier, [one.verifier])
    assert (cosigned.checkpoint.size, len(cosigned.witnesses)) == (3, 1)
    listed = await served.remote.cosignatures(0, 10)
    assert [(size, key) for size, key, _ in listed] == [(3, one.verifier.vkey()), (2, two.verifier.vkey())]
    assert await served.remote.cosignatures(1, 1) == listed[1:]
    book = tmp_path / "ledger" / "cosignatures"
    whole = book.read_bytes()
    for torn in (b"3 torn", bytes(200), whole[:120] + bytes(10), bytes(100) + b"A=\n", b"\n"):
        book.write_bytes(whole + torn)  # the power went while a line was written
        again = CosignatureBook(tmp_path / "ledger", served.log)
        assert [item.size for item in again.page(0, 10)] == [3, 2]
        assert book.read_bytes() == whole
    again.add(4, one.verifier.vkey(), one.sign(text(served.log, 4), NOW + 5).line(), NOW)
    assert [item.size for item in CosignatureBook(tmp_path / "ledger", served.log).page(0, 10)] == [2, 4]


@pytest.mark.asyncio
async def test_bad_cosignatures_are_refused(served: Served) -> None:
    served.log.append_now([lambda i: b"x"] * 3)
    one, remote = witness(1), served.remote
    vkey, three = one.verifier.vkey(), text(served.log, 3)
    good = one.sign(three, NOW)
    kind: type[AuditError]
    for size, key, line, kind, message in (
        (2, vkey, good.line(), LedgerError, "does not verify"),
        (3, witness(2).verifier.vkey(), good.line(), LedgerError, "not by w2"),
        (3, vkey, good.line()[:-1], EncodingError, "signature line"),
        (3, "junk", good.line(), EncodingError, "key name|verifier key"),
        (3, LOG.verifier.vkey(), LOG.sign(three).line(), EncodingError, "0x04"),
        (3, vkey, one.sign(three, NOW + 61).line(), LedgerError, "61 s ahead"),
    ):
        with pytest.raises(kind, match=message):
            await remote.add_cosignature(size, key, line)
    assert await remote.cosignatures(0, 10) == []
    await remote.add_cosignature(3, vkey, good.line())
    served.log.append_now([lambda i: b"x"])
    for size, moment, kind, message in (
        (2, NOW + 9, LedgerError, "later ones"),
        (3, NOW - 9, LedgerError, "later ones"),
        (3, NOW + 1, BudgetError, "wait"),
        (4, NOW + 4, BudgetError, "wait"),
    ):
        with pytest.raises(kind, match=message):
            await remote.add_cosignature(size, vkey, one.sign(text(served.log, size), moment).line())


@pytest.mark.parametrize(
    "line",
    [b"x\nx\n", b"1 a b\n\n", b"\xff\n0", b"99 VKEY BLOB\n", b"0 LOG BLOB\nx\n", b"0 VKEY AAAA\n0 VKEY BLOB\n"],
)
def test_a_damaged_book_is_refused(tmp_path: Path, line: bytes) -> None:
    one = witness(1)
    with Log.create(tmp_path / "l", LOG) as log:
        line = line.replace(b"LOG", LOG.verifier.vkey().encode())
        line = line.replace(b"VKEY", one.verifier.vkey().encode()).replace(b"BLOB", b"A" * 96)
        (tmp_path / "l" / "cosignatures").write_bytes(line)
        with pytest.raises(LedgerError, match="line 1"):
            CosignatureBook(tmp_path / "l", log)


# --- the rules of every edge


@pytest.mark.asyncio
async def test_a_taken_port_is_refused(served: Served) -> None:
    with pytest.raises(ConfigurationError, match="port is taken"):
        rpc.bind(rpc.new_server(), f"127.0.0.1:{served.port}")


@pytest.mark.asyncio
async def test_no_plain_connection_leaves_the_machine() -> None:
    for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.org:443"):
        with pytest.raises(ConfigurationError, match="in the clear"):
            rpc.bind(rpc.new_server(), address)
    for address in ("192.0.2.1:80", "example.org:443"):
        with pytest.raises(ConfigurationError, match="in the clear"):
            rpc.open_channel(address)
    for address in ("localhost", ":1", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:x", "0.0.0.0:80", "127.0.0.1:0"):
        with pytest.raises(ConfigurationError, match="is not an address"):
            rpc.open_channel(address)


@pytest.mark.asyncio
async def test_nobody_there_and_no_answer_are_transport_errors(served: Served) -> None:
    channel = rpc.open_channel("127.0.0.1:1")
    with pytest.raises(TransportError, match="cannot be reached"):
        await RemoteLedger(channel, timeout=5).checkpoint()
    await channel.close()

    def slow(*_: object) -> Any:
        time.sleep(0.5)

    served.log.published = slow  # type: ignore[method-assign]
    with pytest.raises(TransportError, match="in time"):
        await RemoteLedger(served.channel, timeout=0.1).checkpoint()
    await asyncio.sleep(0.5)


@pytest.mark.asyncio
async def test_a_bug_shows_no_traceback_to_the_peer(served: Served) -> None:
    def broken(*_: object) -> Any:
        raise KeyError("secret")

    served.log.published = broken  # type: ignore[method-assign]
    with pytest.raises(TransportError, match="internal error") as caught:
        await served.remote.checkpoint()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(statuses._BY_NAME))
def test_every_error_survives_the_wire(name: str) -> None:
    kind = getattr(errors, name)
    code, details, wire = statuses.status_of(kind("what\x1b[31m and why"))
    metadata = grpc.aio.Metadata((statuses.ERROR_KEY, wire))
    back = statuses.error_of(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), metadata, details), "peer")
    assert type(back) is kind
    assert "\x1b" not in str(back)


def test_every_error_has_a_status() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AuditError)}
    # a MismatchError is what a caller concludes: nobody sends it
    assert kinds - {AuditError, errors.MismatchError} == set(statuses._STATUS)

    class Special(LedgerError):
        pass

    assert statuses.status_of(Special("x"))[2] == "LedgerError"
    assert statuses.status_of(AuditError("x"))[2] == "LedgerError"


@pytest.mark.asyncio
async def test_a_lying_server_is_caught_by_shape(served: Served) -> None:
    served.log.inclusion = lambda *_: [b"short"]  # type: ignore[method-assign]
    served.log.append_now([])
    with pytest.raises(TransportError, match="other than a Merkle path"):
        await served.remote.inclusion(0, 0)
    for answer in ([], [b"x"] * 3, [bytes(65_536)]):
        served.servicer._page = lambda *_, answer=answer: answer  # type: ignore[method-assign]
        with pytest.raises(TransportError, match="oversized"):
            await served.remote.entries(0, 2)
