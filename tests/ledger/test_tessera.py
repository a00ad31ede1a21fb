# SPDX-License-Identifier: GPL-3.0-or-later
"""Tessera, a C2SP implementation that is not ours: it checks what we export and serve, and our witnesses cosign it.

Where Go can build it.
"""

from __future__ import annotations

import asyncio
import functools
import http.server
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.note import COSIGNATURE, NoteSigner, NoteVerifier, encode_base64
from ragseal.ledger.policy import Policy
from ragseal.ledger.tiles import TileFolder
from ragseal.ledger.witness import Witness
from ragseal.ledger.witness_http import WITNESS_LIMITS, WitnessSite
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.wire.service import Listening, Server
from ragseal.runtime.http_server import HttpServer
from tests.ledger.test_tiles import SIGNER, Peer
from tests.simulator.provider import Clock, make_policy, open_provider

pytestmark = pytest.mark.slow

NOTES = ("older.note", "newer.note")
MODULE, VERSION = "github.com/transparency-dev/tessera", "v1.0.4"
ROOT = Path(__file__).resolve().parents[2]


def tool(path: str) -> Path:
    """A program of Tessera's, built once in this checkout; skipped where there is no Go, or no module proxy."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    home = Path(os.environ.get("RAGSEAL_BUILD", ROOT / "var" / "build")) / "go" / VERSION
    found = home / "bin" / path.rpartition("/")[2]
    if not found.exists():
        environment = {**os.environ, "GOPATH": str(home), "GOBIN": str(home / "bin"), "GOFLAGS": "-modcacherw"}
        command = [go, "install", f"{MODULE}/{path}@{VERSION}"]
        try:
            made = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            pytest.skip("Go could not build it in time")
        if made.returncode:
            pytest.skip(f"Go cannot build it here: {made.stderr.strip().splitlines()[-1][:200]}")
        for folder in ("pkg", "src"):  # sources of modules: no more needed
            shutil.rmtree(home / folder, ignore_errors=True)
    return found


@pytest.fixture(scope="module")
def fsck() -> Path:
    return tool("cmd/fsck")


@pytest.fixture(scope="module")
def oneshot() -> Path:
    """A log of Tessera's: each run adds entries, and publishes once the witnesses of a policy have cosigned."""
    return tool("cmd/examples/posix-oneshot")


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    handler = functools.partial(_Silent, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


def checked(fsck: Path, tmp_path: Path, url: str, key: NoteVerifier, timeout: float = 240) -> str:
    """What it says; where it finds something amiss, version 1.0.4 may say nothing and wait for ever."""
    path = tmp_path / "key"
    path.write_text(key.vkey())
    command = [str(fsck), f"--storage_url={url}", f"--public_key={path}", "--ui=false"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout).stderr
    except subprocess.TimeoutExpired as error:
        return (error.stderr or b"").decode()


def checked_folder(fsck: Path, tmp_path: Path, timeout: float = 240) -> str:
    with served(tmp_path / "tiles") as url:
        return checked(fsck, tmp_path, url, SIGNER.verifier, timeout)


@pytest.mark.asyncio
async def test_tessera_checks_an_export_of_every_shape(fsck: Path, tmp_path: Path) -> None:
    folder, peer = TileFolder(tmp_path / "tiles", SIGNER.verifier), Peer(0)
    for size in (1, 255, 256, 257, 1000, 70_000):
        peer.grow(size - len(peer.data))
        await folder.update(peer)
        assert f"Successfully fsck'd log with size {size} " in checked_folder(fsck, tmp_path)
    tile = tmp_path / "tiles" / "tile" / "entries" / "007"
    tile.write_bytes(tile.read_bytes().replace(b"entry 1800", b"entry 1801"))
    assert "Successfully" not in checked_folder(fsck, tmp_path, timeout=20)


@pytest.mark.asyncio
async def test_tessera_checks_a_live_providers_tiles(fsck: Path, tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p", Clock())
    provider.commit(make_policy(), "w1")
    listening = Listening("127.0.0.1:0", public="127.0.0.1:0")
    server = Server(provider, ServeOptions(False, 0.0, publish=0), listening)
    await server.start()
    try:
        url, log = f"http://{server.public_address}/", provider.ledger
        for size in (log.size, 256, 600):
            provider.ledger.append_now([lambda index: b"entry %d" % index] * (size - log.size))
            said = await asyncio.to_thread(checked, fsck, tmp_path, url, log.verifier)
            assert f"Successfully fsck'd log with size {size} " in said
    finally:
        await server.stop()
        provider.close()


# --- a log of Tessera's, cosigned by our witnesses -------------------------------------------------------------------

TESSERA = NoteSigner("tessera.example/log", Ed25519PrivateKey.from_private_bytes(b"T" * 32))


class TesseraLog:
    def __init__(self, program: Path, folder: Path, policy: Path) -> None:
        self.program, self.folder, self.policy = program, folder, policy
        self.key = folder.parent / "private"
        assert isinstance(TESSERA.private_key, Ed25519PrivateKey)
        seed = encode_base64(b"\x01" + TESSERA.private_key.private_bytes_raw())
        self.key.write_text(f"PRIVATE+KEY+{TESSERA.name}+{TESSERA.verifier.key_id.hex()}+{seed}")
        folder.mkdir(exist_ok=True)

    def add(self, first: int, count: int, text: str = "entry") -> subprocess.CompletedProcess[str]:
        """Add entries; it ends with status 0 once a checkpoint over them is published."""
        entries = self.folder.parent / f"{self.folder.name}-{first}-{text}"
        entries.mkdir()
        for number in range(first, first + count):
            (entries / f"{number:06}").write_text(f"{text} {number}")
        command = [
            str(self.program), f"--storage_dir={self.folder}", f"--entries={entries}/*", f"--private_key={self.key}",
            f"--witness_policy_file={self.policy}", "--witness_timeout=2s",
        ]  # fmt: skip
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=20)
        except subprocess.TimeoutExpired as error:  # it goes on trying
            return subprocess.CompletedProcess(command, 124, "", (error.stderr or b"").decode())

    def checkpoint(self) -> bytes:
        return (self.folder / "checkpoint").read_bytes()


@pytest.mark.asyncio
async def test_our_witnesses_cosign_a_log_of_tesseras(oneshot: Path, fsck: Path, tmp_path: Path) -> None:
    servers, sites, lines = [], [], []
    for number in (1, 2):
        key = NoteSigner(f"w{number}.example", Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32), COSIGNATURE)
        state = tmp_path / f"w{number}"
        site = WitnessSite(Witness(state, key), state, [TESSERA.verifier, SIGNER.verifier], time.time)
        server = HttpServer(site.handle, WITNESS_LIMITS)
        lines.append(f"witness w{number} {key.verifier.vkey()} http://{await server.start('127.0.0.1:0')}/")
        servers.append(server)
        sites.append(site)
    path = tmp_path / "policy"
    path.write_text("\n".join([*lines, "group both all w1 w2", "quorum both", ""]))
    policy = Policy.load(path)  # the same file for both implementations
    log = TesseraLog(oneshot, tmp_path / "log", path)
    try:
        total = 0
        for count in (3, 300, 1):
            done = await asyncio.to_thread(log.add, total, count)
            assert done.returncode == 0, done.stderr[-2000:]
            total += count
            signed = policy.open(log.checkpoint(), TESSERA.verifier)
            assert (signed.checkpoint.size, len(signed.witnesses)) == (total, 2)
            if total == 303:
                shutil.copytree(log.folder, tmp_path / "copy")
        before = [path.read_bytes() for path in sorted(tmp_path.glob("w*/*.note"))]
        for count in (1, 5):  # the same log, restored from a copy and continued another way: same size, then larger
            shutil.copytree(tmp_path / "copy", tmp_path / f"fork{count}")
            fork = TesseraLog(oneshot, tmp_path / f"fork{count}", path)
            done = await asyncio.to_thread(fork.add, 303, count, "another")
            assert done.returncode != 0
            assert policy.open(fork.checkpoint(), TESSERA.verifier).checkpoint.size == 303  # nothing was published
        assert [path.read_bytes() for path in sorted(tmp_path.glob("w*/*.note"))] == before
        alarms = [next(tmp_path.glob(f"w{number}/alarm-*")) for number in (1, 2)]  # two signed roots of 304 entries
        for folder in alarms:
            notes = [open_checkpoint((folder / name).read_bytes(), TESSERA.verifier) for name in NOTES]
            assert {note.checkpoint.size for note in notes} == {304}
            assert len({note.checkpoint.root for note in notes}) == 2
    finally:
        for server, site in zip(servers, sites, strict=True):
            await server.stop()
            site.close()
