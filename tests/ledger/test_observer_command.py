# SPDX-License-Identifier: GPL-3.0-or-later
"""ragseal-observer as people run it: a real process against a real server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tracemalloc
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.learning import with_turns
from ragseal.ledger.log import Log
from ragseal.ledger.merkle import Frontier, MerkleTree, consistency_path, leaf_hash, node_hash
from ragseal.ledger.note import COSIGNATURE, Note, NoteSignature, NoteSigner, NoteVerifier
from ragseal.ledger.observer import Observer
from ragseal.ledger.service import LedgerServicer
from ragseal.ledger.witness import Witness
from ragseal.ledger.witness_http import AddCheckpoint, WitnessSite
from ragseal.runtime import rpc
from ragseal.runtime.http_client import Place, post
from tests.ledger.test_tiles import fsck

pytestmark = pytest.mark.slow

LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
ROOT = Path(__file__).resolve().parents[2]


async def observer(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ragseal.ledger",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


class Provider:
    """A served log that can be exchanged for another one under the same key and port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, 0

    async def start(self, name: str) -> Log:
        self.log = Log.create(self.folder / name, LOG)
        self.server = rpc.new_server()
        LedgerServicer(self.log, CosignatureBook(self.folder / name, self.log)).mount(self.server)
        self.port = rpc.bind(self.server, f"127.0.0.1:{self.port}")
        await self.server.start()
        return self.log

    async def stop(self) -> None:
        await self.server.stop(0)
        self.log.close()

    def options(self) -> list[str]:
        return ["--provider", f"127.0.0.1:{self.port}", "--log-key", LOG.verifier.vkey()]


@pytest_asyncio.fixture
async def provider(tmp_path: Path) -> AsyncIterator[Provider]:
    provider = Provider(tmp_path)
    await provider.start("one")
    yield provider
    await provider.stop()


@pytest.mark.asyncio
async def test_from_keygen_to_alarm(provider: Provider, tmp_path: Path) -> None:
    state = ["--state", str(tmp_path / "state")]
    follow = ["follow", *provider.options(), *state, "--once"]
    code, _, err = await observer(*follow)
    assert (code, "run ragseal-observer keygen first" in err) == (1, True)
    code, out, _ = await observer("keygen", "--name", "w.example", *state, "--json")
    assert code == 0
    assert json.loads(out)["vkey"].startswith("w.example+")
    provider.log.append_now([lambda i: f"entry {i}".encode()] * 5)
    code, out, err = await observer(*follow, "--json")
    assert (code, err) == (0, "")
    step = json.loads(out)
    assert (step["size"], step["first_contact"], step["delivered"]) == (5, True, True)
    code, out, _ = await observer("show", *provider.options(), "3")
    assert code == 0
    assert "signature good" in out
    assert "included" in out
    code, out, _ = await observer("page", *provider.options(), *state, "--out", str(tmp_path / "page"))
    assert (code, "5 records" in out) == (0, True)
    assert (tmp_path / "page" / "index.html").exists()
    # the provider starts over with another history under the same key
    await provider.stop()
    (await provider.start("two")).append_now([lambda i: f"other {i}".encode()] * 8)
    code, out, err = await observer(*follow)
    assert code == 3
    assert "ALARM: log.example/w signed other entries before" in err
    assert "Traceback" not in err
    assert len(list((tmp_path / "state").glob("alarm-*/newer.note"))) == 1
    assert (await observer(*follow))[0] == 3


@pytest.mark.asyncio
async def test_mistakes_are_answered_in_words(provider: Provider, tmp_path: Path) -> None:
    state = ["--state", str(tmp_path / "state")]
    await observer("keygen", "--name", "w.example", *state)
    wrong_key = ["--log-key", LOG.verifier.vkey()[:-4] + "AAAA"]
    peer = provider.options()
    for arguments, code, words in (
        (["keygen", "--name", "w.example", *state], 1, "never overwritten"),
        (["keygen", "--name", "a b", *state], 1, "without spaces"),
        (["follow", *peer[:2], *wrong_key, *state, "--once"], 1, "is not this key's"),
        (["follow", "--provider", "127.0.0.1:1", *peer[2:], *state, "--once"], 1, "cannot be reached"),
        (["follow", "--provider", "no-such-host.invalid:1", *peer[2:], *state, "--once"], 1, "cannot be reached"),
        (["show", *peer, "7"], 1, "there is no entry 7"),
        (["page", *peer, *state], 2, "either --out"),
        (["follow", *peer[:2], *state], 2, "--log-key"),
        (["follow", *peer, *state, "--once", "--cert", __file__], 1, "both a certificate and its key"),
    ):
        result, _, err = await observer(*arguments)
        assert (result, words in err, "Traceback" in err) == (code, True, False), (arguments, err)
        assert "Error: " in err


@pytest.mark.asyncio
async def test_a_log_is_exported_as_tiles(provider: Provider, tmp_path: Path) -> None:
    tiles = tmp_path / "tiles"
    export = ["export", *provider.options(), "--tiles", str(tiles)]
    provider.log.append_now([lambda index: b"entry %d" % index] * 300)
    code, out, err = await observer(*export, "--json")
    assert (code, json.loads(out)["size"]) == (0, 300), err
    assert fsck(tiles, LOG.name) == [b"entry %d" % i for i in range(300)]
    provider.log.append_now([lambda index: b"entry %d" % index])
    code, out, _ = await observer(*export)
    assert (code, "301 entries" in out) == (0, True)
    assert len(fsck(tiles, LOG.name)) == 301
    code, _, err = await observer(*export, "--cosigned")
    assert (code, "no named witness" in err) == (1, True)
    await provider.stop()
    await provider.start("two")  # the same key, another log
    code, _, err = await observer(*export)
    assert (code, "301 stand here" in err) == (1, True)


@pytest.mark.asyncio
async def test_a_public_witness_as_people_run_it(tmp_path: Path) -> None:
    state, log = ["--state", str(tmp_path / "w")], ["--log", LOG.verifier.vkey()]
    _, out, _ = await observer("keygen", "--name", "w.example", *state, "--json")
    key = NoteVerifier.from_vkey(json.loads(out)["vkey"])
    for bad, said in (
        ([*state, "--log", key.vkey()], "--log takes keys of type 0x01"),
        ([*state, *log, "--listen", "0.0.0.0:0"], "in the clear"),
        (["--state", str(tmp_path / "none"), *log], "run ragseal-observer keygen first"),
    ):
        code, _, err = await observer("witness", *bad)
        assert (code, said in err) == (1, True), err
    notes = [Checkpoint(LOG.name, size, MerkleTree([b"x"] * size).root()).sign(LOG) for size in (3, 5)]
    path = tuple(MerkleTree([b"x"] * 5).consistency(3, 5))
    for old, given, note in ((0, (), notes[0]), (3, path, notes[1])):  # a restart in between
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ragseal.ledger", "witness", *state, *log, "--listen", "127.0.0.1:0", "--json",
            stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            assert process.stdout is not None
            told = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
            assert told["vkey"] == key.vkey()
            place = Place.parse(f"http://{told['listening']}")
            answer = await post(
                place, "/add-checkpoint", AddCheckpoint(old, given, note).encode(), seconds=10, most=9999
            )
            assert answer.status == 200
            assert key.verify(Note.parse(note).text, NoteSignature.parse(answer.body.decode())) > 1_700_000_000
        finally:
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 20) == 0


@pytest.mark.asyncio
async def test_one_process_is_a_whole_public_site(provider: Provider, tmp_path: Path) -> None:
    state, files = ["--state", str(tmp_path / "state")], tmp_path / "files"
    provider.log.append_now([lambda i: f"entry {i}".encode()] * 5)
    await observer("keygen", "--name", "w.example", *state)
    code, _, err = await observer("page", *provider.options(), *state, "--out", str(files), "--files", str(files))
    assert (code, "--files goes with --http" in err) == (2, True)
    code, _, err = await observer("page", *provider.options(), *state, "--out", str(files), "--host", "ledger.example")
    assert (code, "--host goes with --http" in err) == (2, True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ragseal.ledger", "page", *provider.options(), *state, "--http", "0"),
        *("--files", str(files), "--host", "Ledger.example"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        while not (line := (await asyncio.wait_for(process.stdout.readline(), 60)).decode()).startswith("Serving "):
            assert line, "it ended"
        address = line.split()[1]

        def read(path: str, host: str = "") -> bytes:
            asked = urllib.request.Request(address + path, headers={"Host": host} if host else {})
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return bytes(answer.read())

        note = await asyncio.to_thread(read, "checkpoint")
        assert open_checkpoint(note, LOG.verifier).checkpoint.size == 5
        assert b"entry 4" in await asyncio.to_thread(read, "tile/entries/000.p/5")
        assert b"<html" in await asyncio.to_thread(read, "")
        assert b"<html" in await asyncio.to_thread(read, "", "ledger.example")
        with pytest.raises(urllib.error.HTTPError, match="421"):  # by a name that a web page lets lead here
            await asyncio.to_thread(read, "checkpoint", "rebound.example")
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 30)


@pytest.mark.asyncio
async def test_turns_are_written_down_for_a_witness(provider: Provider, tmp_path: Path) -> None:
    out = tmp_path / "turns"
    code, said, _ = await observer("turns", *provider.options(), "--out", str(out), "--json")
    assert (code, json.loads(said)["turns"], out.exists()) == (0, 0, False)
    provider.log.rotate(NoteSigner(LOG.name, Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x07")))
    code, said, _ = await observer("turns", *provider.options(), "--out", str(out), "--json")
    assert (code, json.loads(said)["signing_key"]) == (0, provider.log.verifier.keys[-1].vkey())
    assert with_turns([LOG.verifier], [out.read_bytes()]) == [provider.log.verifier]
    checked = ["--log", LOG.verifier.vkey(), "--turns", str(out), "--check-config"]
    code, _, err = await observer("witness", *checked, "--state", str(tmp_path))
    assert code == 0, err
    other = provider.log.verifier.keys[-1].vkey()
    code, _, err = await observer(
        "witness", "--log", other, "--turns", str(out), "--check-config", "--state", str(tmp_path)
    )
    assert code == 1
    assert "of none of the logs" in err


# What it takes to follow, and to witness, a log of a million entries: kilobytes of state, a page of memory.


MILLION = NoteSigner("log.example/million", Ed25519PrivateKey.from_private_bytes(b"l" * 32))
KEY = NoteSigner("w.example", Ed25519PrivateKey.from_private_bytes(b"w" * 32), COSIGNATURE)
STATE_BYTES = 4 << 10  #: on disk, for a log of any size that there will be
MEMORY_BYTES = 2 << 20  #: a page of 1,024 entries and what is made of it


def entry(index: int) -> bytes:
    """About as long as a record's entry in a ledger."""
    return b"%d " % index * 40


class Million:
    """A log whose entries are made when they are asked for; of its tree only hashes of 1,024 entries are kept."""

    def __init__(self) -> None:
        self.size = 0
        self.frontier = Frontier()
        self.nodes: dict[tuple[int, int], bytes] = {}

    def grow(self, size: int) -> None:
        for index in range(self.size, size):
            self.frontier.add(leaf_hash(entry(index)))
        self.size = size

    def root_of(self, start: int, end: int) -> bytes:
        """The Merkle hash of entries [start, end)."""
        count = end - start
        if count == 1:
            return leaf_hash(entry(start))
        if (start, end) not in self.nodes:
            k = 1 << (count - 1).bit_length() - 1
            found = node_hash(self.root_of(start, start + k), self.root_of(start + k, end))
            if count < 1024:
                return found
            self.nodes[start, end] = found
        return self.nodes[start, end]

    async def checkpoint(self) -> bytes:
        return Checkpoint(MILLION.name, self.size, self.frontier.root()).sign(MILLION)

    async def entries(self, start: int, count: int) -> list[bytes]:
        return [entry(index) for index in range(start, start + count)]

    async def consistency(self, old: int, new: int) -> list[bytes]:
        return consistency_path(old, new, self.root_of)

    async def add_cosignature(self, *_: object) -> None:
        pass


def state_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.asyncio
@pytest.mark.parametrize("entries", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
async def test_so_many_entries(entries: int, tmp_path: Path, capsys: Any) -> None:
    older = entries - entries // 10  # at the first look; memory is measured at the second, as that takes its time
    log = Million()
    log.grow(older)
    remote: Any = log
    clock = iter(range(1_700_000_000, 1_800_000_000, 10))
    observer = Observer(remote, MILLION.verifier, tmp_path / "o", Witness(tmp_path / "o", KEY), lambda: next(clock))
    assert (await observer.step()).size == older
    before = await log.checkpoint()
    log.grow(entries)
    tracemalloc.start()
    try:
        second = await observer.step()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (second.size, second.new_entries) == (entries, entries - older)
    held = state_bytes(tmp_path / "o")

    path = await log.consistency(older, entries)
    site = WitnessSite(Witness(tmp_path / "w", KEY), tmp_path / "w", [MILLION.verifier], lambda: next(clock))
    last = AddCheckpoint(older, tuple(path), await log.checkpoint()).encode()
    assert site.add_checkpoint(AddCheckpoint(0, (), before).encode()).status == 200
    assert site.add_checkpoint(last).status == 200
    kept = state_bytes(tmp_path / "w")
    with capsys.disabled():
        print(f"\n{entries:,} entries: {peak:,} bytes in memory, {held:,} and {kept:,} on disk, {len(last):,} sent")
    assert peak < MEMORY_BYTES
    assert max(held, kept) < STATE_BYTES
    assert len(last) < 4096
