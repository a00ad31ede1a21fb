# SPDX-License-Identifier: GPL-3.0-or-later
"""Tessera's own checker reads what we export: a C2SP implementation that is not ours, where Go can build it."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragseal.ledger.tiles import TileFolder
from tests.ledger.test_tiles import SIGNER, Peer

pytestmark = pytest.mark.slow

TOOL = "github.com/transparency-dev/tessera/cmd/fsck@v1.0.4"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def fsck() -> Path:
    """The program, built once in this checkout; skipped where there is no Go, or no module proxy to be reached."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    home = Path(os.environ.get("RAGSEAL_BUILD", ROOT / "var" / "build")) / "go" / TOOL.rpartition("@")[2]
    found = home / "bin" / "fsck"
    if not found.exists():
        environment = {**os.environ, "GOPATH": str(home), "GOBIN": str(home / "bin"), "GOFLAGS": "-modcacherw"}
        try:
            made = subprocess.run([go, "install", TOOL], env=environment, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            pytest.skip("Go could not build it in time")
        if made.returncode:
            pytest.skip(f"Go cannot build it here: {made.stderr.strip().splitlines()[-1][:200]}")
        for folder in ("pkg", "src"):  # sources of modules: no more needed
            shutil.rmtree(home / folder, ignore_errors=True)
    return found


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


def checked(fsck: Path, tmp_path: Path, timeout: float = 240) -> str:
    """What it says; where it finds something amiss, version 1.0.4 may say nothing and wait for ever."""
    key = tmp_path / "key"
    key.write_text(SIGNER.verifier.vkey())
    with served(tmp_path / "tiles") as url:
        command = [str(fsck), f"--storage_url={url}", f"--public_key={key}", "--ui=false"]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=timeout).stderr
        except subprocess.TimeoutExpired as error:
            return (error.stderr or b"").decode()


@pytest.mark.asyncio
async def test_tessera_checks_an_export_of_every_shape(fsck: Path, tmp_path: Path) -> None:
    folder, peer = TileFolder(tmp_path / "tiles", SIGNER.verifier), Peer(0)
    for size in (1, 255, 256, 257, 1000, 70_000):
        peer.grow(size - len(peer.data))
        await folder.update(peer)
        assert f"Successfully fsck'd log with size {size} " in checked(fsck, tmp_path)
    tile = tmp_path / "tiles" / "tile" / "entries" / "007"
    tile.write_bytes(tile.read_bytes().replace(b"entry 1800", b"entry 1801"))
    assert "Successfully" not in checked(fsck, tmp_path, timeout=20)
