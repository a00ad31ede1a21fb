# SPDX-License-Identifier: GPL-3.0-or-later
"""Empty, truncated, random and flipped bytes in every file that a role keeps, met through its own commands.

The files are found by walking the folders that real runs leave, so a new file is attacked without being named here.  A
command may refuse with one line, or not need the file; it must not fall over, and nothing is answered from damage.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.client.__main__ import main as client
from ragseal.kernel.errors import AuditError
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.observer import Observer
from ragseal.ledger.witness import Witness
from ragseal.prover.__main__ import main as provider
from ragseal.prover.provider import assembly
from ragseal.verifier.__main__ import main as verifier
from ragseal.verifier.folder.state import State
from ragseal.verifier.steps.turns import read_log
from tests.simulator import SimulatedEvidence, World, key_of
from tests.simulator.live import live
from tests.simulator.provider import TrigramEmbedder

pytestmark = pytest.mark.slow

NOBODY = "127.0.0.1:9"


@dataclass(frozen=True)
class Folders:
    """What a window left on everybody's disk."""

    root: Path
    log_key: str

    def of(self, role: str) -> Path:
        return self.root / role


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folders]:
    root = tmp_path_factory.mktemp("files")
    with live(root) as running:
        with running.client(name="alice") as asking:
            asking.ask("report about topic 3")
            asking.ask("report about topic 4")
        log_key = running.log_key
    world = World.honest()
    state = State.create(root / "auditor", key_of("auditor"))
    state.draw_nonce(world.digest, bytes(range(32)), "w1", 1_800_000_000)
    state.release(world.digest, world.released[world.digest])
    seen = read_log(SimulatedEvidence(world), world.signer.verifier)
    state.remember(world.signer.verifier, seen)
    state.sample_nonce(world.signer.verifier, seen, world.digest, bytes(range(32)))
    yield Folders(root, log_key)
    shutil.rmtree(root)


@pytest.fixture(autouse=True)
def small_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands find the tests' embedder under the name that the state gives."""
    monkeypatch.setattr(assembly, "load_embedder", lambda name, threads: TrigramEmbedder())


def _half(data: bytes, rng: random.Random) -> bytes:
    return data[: len(data) // 2]


def _noise(data: bytes, rng: random.Random) -> bytes:
    return rng.randbytes(max(1, min(len(data), 10_000)))


def _flipped(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data)) if data else 0
    return data[:at] + bytes([(data[at] if data else 0) ^ 0x55]) + data[at + 1 :]


CHANGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "empty": lambda data, rng: b"",
    "half": _half,
    "random": _noise,
    "flipped": _flipped,
    "nested": lambda data, rng: b"[" * 5000,
}


def damaged(folder: Path, scratch: Path) -> Iterator[tuple[str, Path]]:
    """(what was done, a copy of the folder with one file damaged), for every file and every damage."""
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    files = [path for path in files if not any((folder / parent).is_symlink() for parent in path.parents)]
    assert files
    for path in files:
        for name, change in CHANGES.items():
            copy = scratch / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder, copy, symlinks=True)
            data = change((folder / path).read_bytes(), random.Random(f"{path} {name}"))
            mode = (copy / path).stat().st_mode
            (copy / path).write_bytes(data)
            (copy / path).chmod(mode)
            yield f"{path}: {name}", copy


def _commanded(command: Any, *arguments: object) -> bool:
    """Whether a command refused; AssertionError if it fell over."""
    result = CliRunner().invoke(command, [*map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code in (0, 1, 2, 3, 4), result.output
    assert "Traceback" not in result.output
    return result.exit_code != 0


def test_the_providers_files(folders: Folders, tmp_path: Path) -> None:
    """`fsck`, which every start of `serve` runs, `status`, and the key that `close` reads."""
    assert not _commanded(provider, "fsck", "--state", folders.of("provider"), "--json")
    refused = 0
    for what, copy in damaged(folders.of("provider"), tmp_path):
        try:
            refused += _commanded(provider, "fsck", "--state", copy, "--json")
            _commanded(provider, "status", "--state", copy, "--json")
            assert _commanded(provider, "close", "--state", copy, "--provider", NOBODY)
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from None
    assert refused > 10


def test_the_auditors_files(folders: Folders, tmp_path: Path) -> None:
    """`keys`, and an audit: no damage of the auditor's own makes a FAIL, whoever the provider is."""
    key = World().signer.verifier.vkey()
    for what, copy in damaged(folders.of("auditor"), tmp_path):
        try:
            _commanded(verifier, "keys", "--state", copy)
            where = ("--state", copy, "--provider", NOBODY, "--log-key", key, "--out", tmp_path / "out")
            assert _commanded(verifier, "audit", "--patience", 0, *where)
            if (tmp_path / "out").exists():
                assert json.loads((tmp_path / "out" / "report.json").read_bytes())["verdict"] == "NO VERDICT"
                shutil.rmtree(tmp_path / "out")
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from None


def test_an_accounts_files(folders: Folders, tmp_path: Path) -> None:
    """Receipts are listed, exported and checked from the account's own folder."""
    whole = folders.of("alice")
    assert not _commanded(client, "receipts", "list", "--state", whole)
    answers = sorted(path.relative_to(whole) for path in whole.rglob("*.answer"))
    assert answers
    for what, copy in damaged(whole, tmp_path):
        try:
            _commanded(client, "receipts", "list", "--state", copy, "--json")
            _commanded(client, "receipts", "export", "--state", copy, "--out", tmp_path / "exported")
            if ".answer" in what:
                assert _commanded(client, "receipts", "check", copy / what.partition(":")[0], "--state", copy)
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from None
        shutil.rmtree(tmp_path / "exported", ignore_errors=True)


def test_an_observers_files(tmp_path: Path) -> None:
    """What it remembers of a log: damaged, it is refused or built anew from the log; never believed."""
    world = World.honest()
    whole = tmp_path / "observer"

    class Served:
        async def checkpoint(self) -> bytes:
            return world.checkpoint()

        async def consistency(self, old: int, new: int) -> list[bytes]:
            return MerkleTree(world.entries()).consistency(old, new)

        async def entries(self, start: int, count: int) -> list[bytes]:
            return world.entries()[start : start + count]

        async def add_cosignature(self, size: int, witness: str, line: str) -> None:
            return None

    def look(folder: Path) -> int:
        folder.mkdir(exist_ok=True)
        witness = Witness(folder, NoteSigner("watch.example", key_of("watch"), COSIGNATURE))
        remote: Any = Served()
        try:
            return asyncio.run(Observer(remote, world.signer.verifier, folder, witness, lambda: 1.9e9).step()).size
        finally:
            witness.close()

    size = look(whole)
    for what, copy in damaged(whole, tmp_path):
        try:
            assert look(copy) == size, what
        except AuditError:
            continue


def test_a_command_that_falls_over_would_be_noticed(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader without its error handling."""
    from ragseal.prover.storage.state import Settings

    monkeypatch.setattr(Settings, "load", classmethod(lambda cls, path: json.loads(path.read_text())))
    with pytest.raises(AssertionError, match="JSONDecodeError"):
        _commanded(provider, "status", "--state", folders.of("provider"))
