# SPDX-License-Identifier: GPL-3.0-or-later
"""A log hands its checkpoints to witnesses over HTTP: real ones, and every kind of bad one."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, Note, NoteSigner
from ragseal.ledger.policy import Policy
from ragseal.ledger.published import PublicLog
from ragseal.ledger.submitting import MAX_ANSWER, Submitter
from ragseal.ledger.witness import Witness
from ragseal.ledger.witness_http import WITNESS_LIMITS, AddCheckpoint, WitnessSite
from ragseal.runtime.http_server import Handler, HttpServer, Request, Response
from tests.cases import first_is_fast

LOG = NoteSigner("log.example/s", Ed25519PrivateKey.from_private_bytes(b"l" * 32))
NOW = 1_700_000_000


def witness_key(number: int) -> NoteSigner:
    return NoteSigner(
        f"w{number}.example", Ed25519PrivateKey.from_private_bytes(bytes(31) + bytes([number])), COSIGNATURE
    )


def entries(start: int, stop: int) -> list[bytes]:
    return [b"entry %d" % i for i in range(start, stop)]


class World:
    """A log with a book, and witnesses of a policy at addresses of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._began = folder, time.monotonic()
        self.log = Log.create(folder / "ledger", LOG)
        self.public = PublicLog(self.log)
        self.servers: list[HttpServer] = []
        self.urls: dict[int, str] = {}
        self.sites: dict[int, WitnessSite] = {}

    def grow(self, size: int) -> None:
        self.log.append_now([lambda _, one=one: one for one in entries(self.log.size, size)])
        self.public.reveal()

    @property
    def now(self) -> int:
        """A clock a hundred times as fast as real ones: the book takes a line of a witness every five seconds."""
        return NOW + int(100 * (time.monotonic() - self._began))

    async def serve(self, number: int, handler: Handler) -> None:
        server = HttpServer(handler, WITNESS_LIMITS)
        self.urls[number] = f"http://{await server.start('127.0.0.1:0')}"
        self.servers.append(server)

    async def witness(self, number: int, key: NoteSigner | None = None) -> WitnessSite:
        folder = self.folder / f"w{number}"
        witness = Witness(folder, key or witness_key(number))
        site = self.sites[number] = WitnessSite(witness, folder, [LOG.verifier], lambda: self.now)
        await self.serve(number, site.handle)
        return site

    def policy(self, numbers: Sequence[int], threshold: int) -> Policy:
        lines = [f"witness w{n} {witness_key(n).verifier.vkey()} {self.urls.get(n, '')}" for n in numbers]
        names = " ".join(f"w{n}" for n in numbers)
        return Policy.parse("\n".join([*lines, f"group g {threshold} {names}", "quorum g"]).encode())

    def submitter(self, policy: Policy, every: float = 0.05) -> Submitter:
        self.book = CosignatureBook(self.folder / "ledger", self.public, policy=policy)
        return Submitter(self.public, self.book, policy, every, lambda: self.now)

    async def submit(self, submitter: Submitter, at: int = 0) -> None:
        """One turn with one witness."""
        size, note = self.public.published()
        await submitter.submit(submitter._peers[at], size, note)

    def held(self) -> dict[str, int]:
        return {one.witness.name: one.size for one in self.book.page(0, 100)}


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    found = World(tmp_path)
    yield found
    for server in found.servers:
        await server.stop()
    for site in found.sites.values():
        site.close()
    found.log.close()


async def until(true: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.02)


@pytest.mark.asyncio
async def test_checkpoints_get_the_policys_quorum_while_the_log_grows(world: World) -> None:
    for number in (1, 2, 3):
        await world.witness(number)
    policy = world.policy([1, 2, 3], 3)
    submitter = world.submitter(policy)
    submitter.start()
    try:
        for size in (1, 5, 300):
            world.grow(size)
            await until(lambda size=size: (world.book.latest() or b"").startswith(f"{LOG.name}\n{size}\n".encode()))
            await until(lambda size=size: world.held() == {f"w{n}.example": size for n in (1, 2, 3)})
            signed = policy.open(world.book.latest(), LOG.verifier)
            assert (signed.checkpoint.size, len(signed.witnesses)) == (size, 3)
    finally:
        await submitter.stop()

    def again() -> bytes | None:
        return CosignatureBook(world.folder / "ledger", world.public, policy=policy).latest()

    await until(lambda: again() == world.book.latest())  # it is kept a moment after it is shown


@pytest.mark.asyncio
async def test_the_last_quorum_stays_while_witnesses_go_on_one_by_one(world: World) -> None:
    await world.witness(1)
    await world.witness(2)
    policy = world.policy([1, 2], 2)
    submitter = world.submitter(policy)
    world.grow(5)
    await world.submit(submitter, 0)
    with pytest.raises(AuditError, match="not the quorum"):
        policy.open(world.book.latest(), LOG.verifier)  # one alone: what was there before is shown
    await world.submit(submitter, 1)
    assert policy.open(world.book.latest(), LOG.verifier).checkpoint.size == 5
    world.grow(9)
    await asyncio.sleep(0.06)
    await world.submit(submitter, 0)
    assert world.held() == {"w1.example": 9, "w2.example": 5}
    assert policy.open(world.book.latest(), LOG.verifier).checkpoint.size == 5
    again = CosignatureBook(world.folder / "ledger", world.public, policy=policy)
    assert policy.open(again.latest(), LOG.verifier).checkpoint.size == 5  # a restart in between
    await asyncio.sleep(0.06)
    other = CosignatureBook(world.folder / "ledger", world.public, policy=world.policy([1, 3], 2))
    assert open_checkpoint(other.latest(), LOG.verifier).checkpoint.size == 9  # another policy: not its quorum
    await world.submit(submitter, 1)
    assert policy.open(submitter._book.latest(), LOG.verifier).checkpoint.size == 9


@pytest.mark.asyncio
async def test_a_witness_that_knows_more_or_less_names_its_size(world: World) -> None:
    site = await world.witness(1)
    world.grow(7)
    site.add_checkpoint(AddCheckpoint(0, (), world.public.published()[1]).encode())  # somebody else was there
    world.grow(20)
    submitter = world.submitter(world.policy([1], 1))
    await world.submit(submitter)
    assert world.held() == {"w1.example": 20}
    (world.folder / "w1" / next(path.name for path in (world.folder / "w1").glob("*.note"))).unlink()  # it forgot all
    world.grow(30)
    await asyncio.sleep(0.06)
    await world.submit(submitter)
    assert world.held() == {"w1.example": 30}


@pytest.mark.asyncio
async def test_a_witness_that_is_away_holds_nobody_up_and_comes_back(world: World, caplog: Any) -> None:
    await world.witness(1)
    await world.witness(2)
    await world.servers[1].stop()
    policy = world.policy([1, 2], 1)
    submitter = world.submitter(policy)
    submitter.start()
    try:
        for size in (3, 6, 9):
            world.grow(size)
            await until(lambda size=size: world.held() == {"w1.example": size})
        await until(lambda: any("w2 does not cosign" in one.message for one in caplog.records))
        await asyncio.sleep(0.3)
        assert sum("w2 does not cosign" in one.message for one in caplog.records) == 1  # said once, not every round
        again = HttpServer(world.sites[2].handle, WITNESS_LIMITS)
        await again.start(world.urls[2].removeprefix("http://"))
        world.servers.append(again)
        await until(lambda: world.held().get("w2.example") == 9)
    finally:
        await submitter.stop()


# --- bad witnesses: none of them puts anything into log or book, or holds up the others ------------------------------


def answer(status: int, body: bytes = b"", kind: str = "text/plain") -> Handler:
    async def handler(request: Request) -> Response:
        return Response(status, body, kind)

    return handler


def signing(key: NoteSigner, seconds: int = 0, change: Callable[[str], str] = str) -> Handler:
    """A witness that signs whatever it is given, or something else."""

    async def handler(request: Request) -> Response:
        text = change(Note.parse(AddCheckpoint.parse(request.body).note).text)
        return Response(200, key.sign(text, NOW + seconds).line().encode())

    return handler


class Raw:
    """A server that says these bytes, whatever is asked, and then keeps silent."""

    def __init__(self, data: bytes, pause: float = 0) -> None:
        self.data, self.pause = data, pause

    async def start(self) -> str:
        self.server = await asyncio.start_server(self._say, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def _say(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for at in range(0, len(self.data), 4096 if not self.pause else 1):
                writer.write(self.data[at : at + (4096 if not self.pause else 1)])
                await writer.drain()
                await asyncio.sleep(self.pause)
            await asyncio.sleep(60)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (answer(200), "no line of the key"),
        (answer(200, b"\xff\xfe"), "not text"),
        (answer(200, b"junk\n" * 1000), "no line of the key"),
        (signing(witness_key(9)), "no line of the key"),
        (signing(NoteSigner("w1.example", witness_key(9).private_key, COSIGNATURE)), "no line of the key"),
        (signing(NoteSigner("w1.example", witness_key(1).private_key)), "no line of the key"),
        (signing(witness_key(1), change=lambda text: text.replace("\n5\n", "\n6\n")), "does not verify"),
        (signing(witness_key(1), change=lambda text: text + "more\n"), "does not verify"),
        (signing(witness_key(1), seconds=100_000), "ahead of this log's clock"),
        (answer(409), "409 without a size"),
        (answer(409, b"3\n"), "409 without a size"),
        (answer(409, b"03\n", "text/x.tlog.size"), "409 without a size"),
        (answer(409, b"-1\n", "text/x.tlog.size"), "409 without a size"),
        (answer(409, b"9" * 5000 + b"\n", "text/x.tlog.size"), "409 without a size"),
        (answer(409, b"0\n", "text/x.tlog.size"), "another root"),
        (answer(409, b"6\n", "text/x.tlog.size"), "rolled back"),
        (answer(409, b"9223372036854775807\n", "text/x.tlog.size"), "rolled back"),
        (answer(403, b"no\x1b[31m"), "status 403"),
        (answer(500), "status 500"),
        (answer(302), "status 302"),
        (answer(200, bytes(MAX_ANSWER)), "more than"),
    ],
)
async def test_bad_answers(world: World, handler: Handler, said: str) -> None:
    world.grow(5)
    await world.serve(1, handler)
    submitter = world.submitter(world.policy([1], 1))
    before = (world.log.size, world.log.checkpoint(), world.book.latest())
    with pytest.raises(AuditError, match=said):
        await world.submit(submitter)
    assert (world.log.size, world.log.checkpoint(), world.book.latest(), world.held()) == (*before, {})


@pytest.mark.asyncio
async def test_sizes_that_change_with_each_answer_end(world: World) -> None:
    sizes = iter([4, 3, 2, 1, 4, 3])
    asked = 0

    async def handler(request: Request) -> Response:
        nonlocal asked
        asked += 1
        return Response(409, b"%d\n" % next(sizes), "text/x.tlog.size")

    world.grow(5)
    await world.serve(1, handler)
    with pytest.raises(AuditError, match="another size with each answer"):
        await world.submit(world.submitter(world.policy([1], 1)))
    assert asked == 3


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "raw",
    first_is_fast([
        Raw(b""), Raw(b"\x00" * 10), Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"),
        Raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100, pause=0.02), Raw(b"SSH-2.0\r\n\r\n"),
        Raw(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(1 << 20)), Raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000),
    ]),
)  # fmt: skip
async def test_slow_and_endless_answers_hold_up_no_other_witness(
    world: World, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragseal.ledger.submitting.SECONDS", 3.0)
    world.urls[1] = await raw.start()
    await world.witness(2)
    submitter = world.submitter(world.policy([1, 2], 1))
    submitter.start()
    try:
        for size in (3, 6, 9):
            world.grow(size)
            began = time.monotonic()
            await until(lambda size=size: world.held() == {"w2.example": size})
            assert time.monotonic() - began < 2.7
        await until(lambda: submitter._peers[0].trouble != "")
        assert world.held() == {"w2.example": 9}
    finally:
        await submitter.stop()
        raw.server.close()


@pytest.mark.slow
@pytest.mark.asyncio
async def test_names_that_are_looked_up_for_ever_hold_up_no_other_witness(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name services of twelve witnesses do not answer; a look-up cannot be cancelled, and there is one of each."""
    asked, over, real = Counter[str](), threading.Event(), socket.getaddrinfo

    def look_up(host: str, *given: Any, **named: Any) -> Any:
        if not str(host).endswith(".hostile.example"):
            return real(host, *given, **named)
        asked[host] += 1
        over.wait(30)
        raise socket.gaierror(-3, "try again")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr("ragseal.ledger.submitting.SECONDS", 0.5)
    await world.witness(1)
    world.urls[1] = world.urls[1].replace("127.0.0.1", "localhost")  # its name has to be looked up, too
    hostile = range(2, 14)
    world.urls.update({number: f"http://w{number}.hostile.example" for number in hostile})
    submitter = world.submitter(world.policy([1, *hostile], 1))
    submitter.start()
    try:
        for size in range(3, 15, 3):
            world.grow(size)
            await until(lambda size=size: world.held() == {"w1.example": size}, 3)
            await asyncio.sleep(0.7)  # the others' turns are over, and the next ones begin
        assert asked == {f"w{number}.hostile.example": 1 for number in hostile}
        assert all("no answer within" in peer.trouble for peer in submitter._peers[1:])
        over.set()
        await until(lambda: all("cannot be reached" in peer.trouble for peer in submitter._peers[1:]))
    finally:
        over.set()
        await submitter.stop()


@pytest.mark.asyncio
async def test_an_honest_witness_refuses_a_log_that_was_rolled_back(world: World, tmp_path: Path) -> None:
    """The provider restores an old copy and goes another way: its witness gives it nothing any more."""
    await world.witness(1)
    world.grow(9)
    policy = world.policy([1], 1)
    await world.submit(world.submitter(policy))
    kept = {path.name: path.read_bytes() for path in (tmp_path / "w1").glob("*.note")}
    other = World(tmp_path / "other")
    other.urls = world.urls
    other.log.append_now([lambda _, one=one: one for one in [b"another", *entries(1, 9)]])
    other.public.reveal()
    submitter = other.submitter(policy)
    with pytest.raises(AuditError, match="another root"):
        await other.submit(submitter)
    other.log.append_now([lambda _, one=one: one for one in entries(9, 12)])
    other.public.reveal()
    with pytest.raises(AuditError, match="status 422"):
        await other.submit(submitter)
    assert {path.name: path.read_bytes() for path in (tmp_path / "w1").glob("*.note")} == kept
    assert other.held() == {}
    assert MerkleTree(entries(0, 9)).root() != open_checkpoint(other.log.checkpoint_at(9), LOG.verifier).checkpoint.root
    other.log.close()


@pytest.mark.asyncio
async def test_urls_are_checked_and_a_witness_without_one_comes_by_itself(world: World) -> None:
    world.grow(3)
    world.urls[1] = "ftp://w.example"
    with pytest.raises(ConfigurationError, match="witness w1"):
        world.submitter(world.policy([1], 1))
    submitter = world.submitter(world.policy([2], 1))
    submitter.start()
    await submitter.stop()
    assert submitter._peers == []
    world.book.add(3, witness_key(2).verifier.vkey(), witness_key(2).sign(_text(world), NOW).line(), NOW)
    assert world.policy([2], 1).open(world.book.latest(), LOG.verifier).checkpoint.size == 3


def _text(world: World) -> str:
    return Note.parse(world.public.published()[1]).text


@pytest.mark.asyncio
async def test_strangers_displace_no_witness_of_the_policy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragseal.ledger.cosignatures.MAX_STRANGERS", 2)
    await world.witness(1)
    world.grow(3)
    await world.submit(world.submitter(world.policy([1], 1)))
    for number in range(10, 20):
        world.book.add(3, witness_key(number).verifier.vkey(), witness_key(number).sign(_text(world), NOW).line(), NOW)
    assert world.held() == {"w1.example": 3, "w18.example": 3, "w19.example": 3}


@pytest.mark.asyncio
async def test_a_quorum_of_another_history_is_not_taken_up(world: World) -> None:
    """A copy of another log of the same key lies where the last quorum was kept."""
    policy = world.policy([1], 1)
    world.grow(5)
    other = Note.parse(Checkpoint(LOG.name, 3, MerkleTree([b"x", b"y", b"z"]).root()).sign(LOG))
    path = world.folder / "ledger" / "quorum"
    path.write_bytes(other.with_signatures([witness_key(1).sign(other.text, NOW)]).encode())
    assert CosignatureBook(world.folder / "ledger", world.public, policy=policy).latest() is None
    path.write_bytes(b"junk")
    assert CosignatureBook(world.folder / "ledger", world.public, policy=policy).latest() is None
