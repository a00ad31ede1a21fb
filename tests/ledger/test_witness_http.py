# SPDX-License-Identifier: GPL-3.0-or-later
"""The public witness against C2SP tlog-witness: every status, what is on disk, and what strangers may cost it."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger import witness as witness_module
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import (
    COSIGNATURE,
    MAX_NOTE_BYTES,
    MAX_SIGNATURES,
    Note,
    NoteSignature,
    NoteSigner,
    NoteVerifier,
    encode_base64,
)
from ragseal.ledger.witness import Witness
from ragseal.ledger.witness_http import MAX_BODY_BYTES, WITNESS_LIMITS, AddCheckpoint, WitnessSite
from ragseal.runtime.http_client import Place, post
from ragseal.runtime.http_server import HttpLimits, HttpServer, Response


def signer(name: str, byte: int, algorithm: int = 1) -> NoteSigner:
    return NoteSigner(name, Ed25519PrivateKey.from_private_bytes(bytes(31) + bytes([byte])), algorithm)


LOG = signer("log.example/w", 1)
SECOND = signer("log.example/w", 2)  #: another key of the same origin
OTHER_LOG = signer("other.example/log", 3)
STRANGER = signer("log.example/w", 4)
KEY = signer("w.example", 5, COSIGNATURE)
TREE = MerkleTree([f"entry {i}".encode() for i in range(300)])
FORK = MerkleTree([f"other {i}".encode() for i in range(300)])
PROOF = TREE.consistency(9, 12)


def note(size: int, tree: MerkleTree = TREE, by: NoteSigner = LOG) -> bytes:
    return Checkpoint(by.name, size, tree.root(size)).sign(by)


def body(old: int, size: int, tree: MerkleTree = TREE, proof: MerkleTree = TREE) -> bytes:
    path = proof.consistency(old, size) if 0 < old < size else []
    return AddCheckpoint(old, tuple(path), note(size, tree)).encode()


class Site:
    """A witness whose requests are handled here, at a time that the test sets."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 1000
        self.witness = Witness(folder, KEY)
        keys = [LOG.verifier, SECOND.verifier, OTHER_LOG.verifier]
        self.site = WitnessSite(self.witness, folder, keys, lambda: self.now)

    def post(self, data: bytes) -> Response:
        self.now += 1
        return self.site.add_checkpoint(data)

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.glob("*.note")}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "state")


def cosigned(answer: Response, data: bytes) -> int:
    """The time of the one line in an answer, which verifies over the checkpoint that was sent."""
    assert (answer.status, answer.kind) == (200, "text/plain; charset=utf-8")
    sent = Note.parse(data.partition(b"\n\n")[2])
    return KEY.verifier.verify(sent.text, NoteSignature.parse(answer.body.decode()))


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"old 0\n",
        b"old 0\n\n",
        b"old 00\n\n" + note(5),
        b"old -1\n\n" + note(5),
        b"old \n\n" + note(5),
        b"old 0 \n\n" + note(5),
        b"new 0\n\n" + note(5),
        b"old 0\r\n\r\n" + note(5),
        b"old 99999999999999999999999999\n\n" + note(5),
        b"old 9223372036854775808\n\n" + note(5),
        b"old 3\nnot base64\n\n" + note(5),
        b"old 3\n" + encode_base64(bytes(31)).encode() + b"\n\n" + note(5),
        b"old 3\n" + encode_base64(bytes(32)).encode()[:-1] + b"\n\n" + note(5),
        b"old 3\n" + (encode_base64(bytes(32)).encode() + b"\n") * 64 + b"\n" + note(5),
        "old 0\n–\n\n".encode() + note(5),
        b"old 0\n\n" + note(5)[:-1],
        b"old 0\n\n" + note(5).replace(b"\n5\n", b"\nfive\n"),
        b"old 0\n\n" + note(5).partition(b"\n\n")[0] + b"\n",
    ],
)
def test_a_malformed_body_is_400(site: Site, data: bytes) -> None:
    assert site.post(data).status == 400
    assert site.files() == {}


def test_an_old_size_beyond_the_checkpoint_is_400(site: Site) -> None:
    site.post(body(0, 9))
    assert site.post(AddCheckpoint(9, (), note(5)).encode()).status == 400


def test_an_unknown_origin_is_404(site: Site) -> None:
    unknown = signer("unknown.example", 9)
    assert site.post(AddCheckpoint(0, (), note(5, by=unknown)).encode()).status == 404


def test_without_a_signature_of_the_log_it_is_403(site: Site) -> None:
    assert site.post(AddCheckpoint(0, (), note(5, by=STRANGER)).encode()).status == 403
    spoiled = note(5).replace(encode_base64(TREE.root(5)).encode(), encode_base64(TREE.root(6)).encode())
    assert site.post(AddCheckpoint(0, (), spoiled).encode()).status == 403
    assert site.files() == {}


def test_another_old_size_than_the_remembered_one_is_409_and_says_which(site: Site) -> None:
    answer = site.post(body(3, 9))
    assert (answer.status, answer.kind, answer.body) == (409, "text/x.tlog.size", b"0\n")
    site.post(body(0, 9))
    for old, size in ((0, 9), (5, 9), (10, 12), (0, 12)):
        answer = site.post(body(old, size))
        assert (answer.status, answer.kind, answer.body) == (409, "text/x.tlog.size", b"9\n")


def test_a_second_history_never_gets_a_cosignature_and_its_evidence_is_kept_once(site: Site) -> None:
    site.post(body(0, 9))
    before = site.files()
    for _ in range(3):
        answer = site.post(body(9, 9, FORK))
        assert (answer.status, answer.kind, answer.body) == (409, "text/x.tlog.size", b"9\n")
    assert site.post(body(9, 12, FORK, FORK)).status == 422
    assert site.files() == before
    (folder,) = site.folder.glob("alarm-*")
    assert (folder / "newer.note").read_bytes() == note(9, FORK)
    assert (folder / "older.note").read_bytes() == before[next(iter(before))]


@pytest.mark.parametrize(
    "path",
    [
        [],
        TREE.consistency(5, 12),
        TREE.consistency(9, 12)[:-1],
        [*TREE.consistency(9, 12), bytes(32)],
        [bytes(32)] * 63,
    ],
)
def test_a_wrong_proof_is_422(site: Site, path: list[bytes]) -> None:
    site.post(body(0, 9))
    before = site.files()
    assert site.post(AddCheckpoint(9, tuple(path), note(12)).encode()).status == 422
    assert site.files() == before


def test_a_proof_from_nothing_or_to_the_same_size_is_422(site: Site) -> None:
    assert site.post(AddCheckpoint(0, (bytes(32),), note(5)).encode()).status == 422
    site.post(body(0, 5))
    assert site.post(AddCheckpoint(5, (bytes(32),), note(5)).encode()).status == 422


def test_a_rollback_is_refused_whatever_old_size_it_names(site: Site) -> None:
    site.post(body(0, 9))
    assert site.post(body(0, 5)).status == 409
    assert site.post(body(5, 5)).status == 409
    assert site.post(AddCheckpoint(9, (), note(5)).encode()).status == 400


# --- cosignatures ----------------------------------------------------------------------------------------------------


def test_growth_is_cosigned_and_survives_a_restart(site: Site, tmp_path: Path) -> None:
    data = body(0, 5)
    assert cosigned(site.post(data), data) == site.now
    site.witness.close()
    again = Site(tmp_path / "state")
    again.now = site.now
    for old, size in ((5, 9), (9, 256), (256, 257), (257, 300), (300, 300)):
        data = body(old, size)
        assert cosigned(again.post(data), data) == again.now


def test_an_empty_log_may_be_cosigned_and_grow(site: Site) -> None:
    for old, size in ((0, 0), (0, 0), (0, 3)):
        data = body(old, size)
        cosigned(site.post(data), data)


def test_extension_lines_and_lines_of_unknown_keys_and_types_stay_out_of_the_way(site: Site) -> None:
    text = f"{LOG.name}\n5\n{encode_base64(TREE.root(5))}\nan extension\nand – another\n"
    unknown = NoteSignature("post.quantum", b"\x06abc", bytes(2420))
    data = AddCheckpoint(0, (), Note(text, (unknown, STRANGER.sign(text), LOG.sign(text))).encode()).encode()
    cosigned(site.post(data), data)  # over the text with its extensions
    kept = Note.parse(next(iter(site.files().values())))
    assert (kept.text, [one.name for one in kept.signatures]) == (text, [LOG.name, KEY.name])
    data = body(5, 9)
    cosigned(site.post(data), data)


def test_any_key_of_an_origin_will_do_and_one_may_be_given_up(site: Site, tmp_path: Path) -> None:
    site.post(body(0, 5))
    data = AddCheckpoint(5, tuple(TREE.consistency(5, 9)), note(9, by=SECOND)).encode()
    cosigned(site.post(data), data)
    both = Note(Note.parse(note(9)).text, (*Note.parse(note(9)).signatures, *Note.parse(note(9, by=SECOND)).signatures))
    data = AddCheckpoint(9, (), both.encode()).encode()
    cosigned(site.post(data), data)
    site.post(body(9, 12))  # signed with the first key, which is then given up
    site.witness.close()
    later = WitnessSite(Witness(tmp_path / "state", KEY), tmp_path / "state", [SECOND.verifier], lambda: 9000)
    data = AddCheckpoint(12, tuple(TREE.consistency(12, 20)), note(20, by=SECOND)).encode()
    cosigned(later.add_checkpoint(data), data)
    assert later.add_checkpoint(body(20, 25)).status == 403


def test_a_line_that_a_stranger_repeats_is_remembered_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's own valid line as often as a note may have it; kept as it is, the memory could not be read again."""
    site.post(body(0, 5))
    public = Note.parse(note(5))
    data = AddCheckpoint(5, (), Note(public.text, public.signatures * MAX_SIGNATURES).encode()).encode()
    verified, verify = [], NoteVerifier.verify

    def counted(key: NoteVerifier, text: str, line: NoteSignature) -> int:
        verified.append(line)
        return verify(key, text, line)

    with monkeypatch.context() as patch:
        patch.setattr(NoteVerifier, "verify", counted)
        cosigned(site.post(data), data)
    assert len(verified) < 12  # a repeated line costs nothing
    assert len(Note.parse(next(iter(site.files().values()))).signatures) == 2
    data = body(5, 9)
    cosigned(site.post(data), data)
    assert site.site.checkpoint(hashlib.sha256(LOG.name.encode()).hexdigest()).status == 200


def test_a_note_that_cannot_be_remembered_is_refused_and_the_old_memory_stays(site: Site) -> None:
    """The log signs a text that leaves no room for the witness's own line."""
    site.post(body(0, 5))
    before = site.files()
    text = f"{LOG.name}\n5\n{encode_base64(TREE.root(5))}\n"
    rest = MAX_NOTE_BYTES - len(Note(text + "\n", (LOG.sign(text),)).encode())
    text += "x" * rest + "\n"
    longest = Note(text, (LOG.sign(text),)).encode()
    assert len(longest) == MAX_NOTE_BYTES
    answer = site.post(AddCheckpoint(5, (), longest).encode())
    assert (answer.status, b"at most 65536" in answer.body) == (400, True)
    assert site.files() == before
    data = body(5, 9)
    cosigned(site.post(data), data)


def test_logs_do_not_know_of_each_other(site: Site) -> None:
    site.post(body(0, 9))
    data = AddCheckpoint(0, (), note(4, FORK, OTHER_LOG)).encode()
    cosigned(site.post(data), data)
    assert len(site.files()) == 2


def test_memory_is_on_disk_before_the_line_leaves(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(witness_module, "write_durably", broken)
    answer = site.post(body(0, 5))
    assert answer.status == 500
    assert "—" not in answer.body.decode()


def test_a_damaged_memory_is_told_to_the_operator_alone(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.post(body(0, 5))
    path = next(site.folder.glob("*.note"))
    origin = hashlib.sha256(LOG.name.encode()).hexdigest()
    messages: list[str] = []
    for damaged in (b"", path.read_bytes()[:-1], note(5), note(5, by=STRANGER)):
        path.write_bytes(damaged)
        caplog.clear()
        for answer in (site.site.checkpoint(origin), site.post(body(5, 9))):
            assert answer.status == 500
            assert str(path).encode() not in answer.body
            assert answer.body.startswith(b"the witness cannot ")
        messages += caplog.messages
    assert len(messages) == 8
    assert sum(str(path) in message for message in messages) == 6


def test_the_same_checkpoint_again_within_a_second_writes_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first = site.site.add_checkpoint(body(0, 5))
    monkeypatch.setattr(witness_module, "write_durably", lambda *_, **__: pytest.fail("written again"))
    assert site.site.add_checkpoint(body(5, 5)) == first


def test_a_clock_that_went_backwards_gives_no_line(site: Site) -> None:
    site.post(body(0, 5))
    site.now = 10
    assert site.post(body(5, 9)).status == 500


def test_a_witness_needs_logs_and_a_log_key_is_no_witness_key(tmp_path: Path) -> None:
    witness = Witness(tmp_path, KEY)
    for keys, said in (([], "needs the key of a log"), ([KEY.verifier], "0x01")):
        with pytest.raises(ConfigurationError, match=said):
            WitnessSite(witness, tmp_path, keys, time.time)


# --- over HTTP -------------------------------------------------------------------------------------------------------


class Caller:
    """Whoever talks to a server at this address."""

    def __init__(self, address: str) -> None:
        self.address = address

    async def raw(self, data: bytes, seconds: float = 5) -> bytes:
        """What comes back for these bytes on a connection of their own, until the server closes it."""
        host, _, port = self.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(data)
        try:
            return await asyncio.wait_for(reader.read(), seconds)
        finally:
            writer.close()


class Served(Caller):
    def __init__(self, site: Site, limits: HttpLimits = WITNESS_LIMITS) -> None:
        super().__init__("")
        self.server, self.site = HttpServer(site.site.handle, limits), site

    async def start(self) -> None:
        self.address = await self.server.start("127.0.0.1:0")

    async def post(self, data: bytes) -> int:
        place = Place.parse(f"http://{self.address}/")
        return (await post(place, "/add-checkpoint", data, seconds=5, most=1 << 16)).status


@pytest_asyncio.fixture
async def served(site: Site) -> AsyncIterator[Served]:
    found = Served(site, HttpLimits(body=MAX_BODY_BYTES, read=1.5, idle=1.5, connections_of_one=8))
    await found.start()
    yield found
    await found.server.stop()
    site.site.close()


def get(path: str, method: str = "GET", more: str = "Connection: close\r\n") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: w\r\n{more}\r\n".encode()


@pytest.mark.asyncio
async def test_over_http(served: Served) -> None:
    served.site.now = 2000
    assert await served.post(body(0, 5)) == 200
    assert await served.post(body(0, 9)) == 409
    origin = hashlib.sha256(LOG.name.encode()).hexdigest()
    head, _, kept = (await served.raw(get(f"/{origin}/checkpoint"))).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert kept == next(iter(served.site.files().values()))
    unseen = hashlib.sha256(OTHER_LOG.name.encode()).hexdigest()
    for path in (f"/{unseen}/checkpoint", "/", "/../key.pem", "/key.pem", f"/{origin}.note", f"/{'0' * 64}/checkpoint"):
        assert (await served.raw(get(path))).startswith(b"HTTP/1.1 404")
    for path, method in (("/add-checkpoint", "GET"), (f"/{origin}/checkpoint", "PUT")):
        assert (await served.raw(get(path, method))).startswith(b"HTTP/1.1 405")


@pytest.mark.asyncio
async def test_one_connection_takes_many_requests(served: Served) -> None:
    served.site.now = 2000
    first, second = body(0, 5), body(5, 9)
    head = "POST /add-checkpoint HTTP/1.1\r\nContent-Length: "
    asks = [f"{head}{len(one)}\r\n\r\n".encode() + one for one in (first, second)]
    answer = await served.raw(b"".join(asks) + get("/none"))
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"200", b"404"]


@pytest.mark.asyncio
async def test_hostile_requests_are_refused_and_cost_little(served: Served) -> None:
    post_line = "POST /add-checkpoint HTTP/1.1\r\n"
    for data, status in (
        (f"{post_line}Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n", 400),
        (f"{post_line}Content-Length: 999999999999999999999\r\n\r\n", 400),
        (f"{post_line}Content-Length: -1\r\n\r\n", 400),
        (f"{post_line}Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (f"{post_line}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (f"{post_line}X: {'x' * 9000}\r\n\r\n", 431),
        ("\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
        ("GET http://elsewhere/ HTTP/1.1\r\n\r\n", 400),
        ("GET /é HTTP/1.1\r\n\r\n", 400),
        (f"{post_line} folded: x\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\n\r\n", 400),
    ):
        assert (await served.raw(data.encode())).startswith(f"HTTP/1.1 {status} ".encode()), data
    assert served.site.files() == {}


@pytest.mark.asyncio
async def test_slow_callers_are_let_go_and_hold_up_nobody(served: Served) -> None:
    served.site.now = 2000
    slow = [
        asyncio.create_task(served.raw(data))
        for data in (b"", b"POST /add", b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 9\r\n\r\nold")
    ]
    await asyncio.sleep(0.05)
    began = time.monotonic()
    assert await served.post(body(0, 5)) == 200
    assert time.monotonic() - began < 1.4
    assert await asyncio.gather(*slow) == [b"", b"", b""]
    assert time.monotonic() - began < 6


@pytest.mark.asyncio
async def test_one_machine_has_so_many_connections(served: Served) -> None:
    host, _, port = served.address.rpartition(":")
    held = [await asyncio.open_connection(host, int(port)) for _ in range(8)]
    await asyncio.sleep(0.05)
    assert await served.raw(get("/")) == b""
    held[0][1].close()
    await asyncio.sleep(0.1)
    assert (await served.raw(get("/"))).startswith(b"HTTP/1.1 404")
    for _, writer in held:
        writer.close()


@pytest.mark.asyncio
async def test_a_witness_is_not_served_in_the_clear_beyond_loopback(site: Site) -> None:
    with pytest.raises(ConfigurationError, match="in the clear"):
        await HttpServer(site.site.handle).start("0.0.0.0:0")
