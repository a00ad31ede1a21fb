# SPDX-License-Identifier: GPL-3.0-or-later
"""A ceremony of two circuits of a dozen rows: alice by our command, bob by snarkjs alone, and the beacon by carol."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.circuits.build import DEFAULT_CACHE
from ragseal.circuits.circuit import Circuit, Shape
from ragseal.circuits.r1cs import ConstraintSystem, read_r1cs
from ragseal.kernel.estimate_class import CLASSES
from ragseal.verifier.ceremony import checking, contributing
from ragseal.verifier.ceremony.checking import Checked, Checker
from ragseal.verifier.ceremony.contributing import Step, add_round, begin
from ragseal.verifier.ceremony.folder import SUFFIX, Folder
from tests.native.conftest import Circuit as Rows

SNARKJS = Path(__file__).resolve().parents[2] / "circuits" / "node_modules" / "snarkjs"
PROGRAM = SNARKJS / "build" / "cli.cjs"
POWER = 5
KEPT, PUBLIC = 2, 12
NAMES = ("small-one", "small-two")
BEACON = bytes(range(32)).hex()
HOSTILE = "bob\x1b[2J\u202e"  #: the name that bob gave to snarkjs

NEEDED = pytest.mark.skipif(
    not (PROGRAM.exists() and shutil.which("node")), reason="snarkjs is not installed (npm ci in circuits/)"
)


def party(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def public(name: str) -> bytes:
    return party(name).public_key().public_bytes_raw()


def snarkjs(*arguments: object) -> str:
    done = subprocess.run(
        ["node", str(PROGRAM), *map(str, arguments)], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def prepared_powers(power: int, label: str = "") -> Path:
    """A .ptau file of snarkjs' own, prepared for phase 2; made once a version of snarkjs."""
    version = json.loads((SNARKJS / "package.json").read_text())["version"]
    target = DEFAULT_CACHE / f"test-powers{label}-{power}-snarkjs-{version}.ptau"
    if not target.exists():
        DEFAULT_CACHE.mkdir(parents=True, exist_ok=True)
        new, more, done = (target.with_name(f".{target.name}.{os.getpid()}.{i}") for i in range(3))
        snarkjs("powersoftau", "new", "bn128", power, new)
        snarkjs("powersoftau", "contribute", new, more, "-e=for tests only")
        snarkjs("powersoftau", "prepare", "phase2", more, done)
        with contextlib.suppress(FileExistsError):  # another worker was faster: its powers are everybody's from then on
            os.link(done, target)
        for path in (new, more, done):
            path.unlink()
    return target


def rows(new: Any, base: int) -> Any:
    """Public a, blind, w0 to w9; private secret.  Products, large coefficients, a wire in many rows, one in one."""
    one, a, blind, w, secret, first = 0, 1, 2, 3, 13, 14
    products = [({w + i: 1, a: base**i}, {w + (i + 1) % 10: -1, secret: 7**i}, {first + i: 1}) for i in range(10)]
    total = {first + i: 5 ** (10 * i) for i in range(10)}
    last = [(total, {one: 1}, {first + 10: 1, one: 1 << 250}), ({a: 1, one: -1}, {a: 1}, {first + 11: 2})]
    assert blind == KEPT
    return new(wires=first + 12, public=PUBLIC, private=1, rows=[*products, *last])


def mute(_: str) -> None:
    pass


@dataclass(frozen=True)
class Small:
    """Two circuits of equal size in the place of a class's."""

    folder: Path

    def subject(self, name: str, cache_: Path, tell: Any) -> tuple[Shape, Circuit, ConstraintSystem]:
        system = read_r1cs(self.folder / f"{name}.r1cs")
        digest = hashlib.sha256(name.encode()).digest()
        shape = CLASSES["estimate-6"]
        return shape, Circuit(shape, "small", (), False, "", PUBLIC, KEPT - 1, (), digest), system


@contextmanager
def small_circuits(new: Any, at: Path) -> Iterator[None]:
    """While this lasts, ceremonies find small circuits by the names of NAMES."""
    at.mkdir(exist_ok=True)
    for name, base in zip(NAMES, (3, 11), strict=True):
        rows(new, base).write(at / f"{name}.r1cs")
    with pytest.MonkeyPatch.context() as patch:
        for module in (checking, contributing):
            patch.setattr(module, "subject_of", Small(at).subject)
        yield


@cache
def powers() -> Path:
    return prepared_powers(POWER)


def checker(path: Path, of: Path | None = None, published: str | None = None) -> Checker:
    return Checker(Folder(path), of or powers(), published, DEFAULT_CACHE, mute)


def verify(path: Path, of: Path | None = None, published: str | None = None) -> Checked:
    Folder(path).rounds()
    found = checker(path, of, published)
    with found.scratch() as at:
        return found.check(at)


def start(path: Path) -> None:
    begin(path, NAMES, powers(), None, DEFAULT_CACHE, mute)


def contribute(path: Path, name: str, key: Ed25519PrivateKey | None = None) -> None:
    add_round(Folder(path), Step.contribution(name), key or party(name), checker(path), mute)


def finish(path: Path, beacon: str = BEACON) -> None:
    add_round(Folder(path), Step.ending(beacon, 10), party("carol"), checker(path), mute)


def by_hand(path: Path, name: str) -> None:
    """A round as somebody makes it who has snarkjs only."""
    number = Folder(path).rounds() + 1
    before, after = path / f"{number - 1:04}", path / f"{number:04}"
    after.mkdir()
    for circuit in NAMES:
        file = circuit + SUFFIX
        snarkjs("zkey", "contribute", before / file, after / file, "-e=for tests only", f"--name={name}")


def ceremony(path: Path) -> None:
    """Alice, bob by hand, and the beacon."""
    start(path)
    contribute(path, "alice")
    by_hand(path, HOSTILE)
    finish(path)


# --- fixtures: a module that uses them names them, `done = scene.done` -----------------------------------------------


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the circuits' rows lie."""
    return tmp_path_factory.mktemp("circuits")


@pytest.fixture(scope="module", autouse=True)
def circuits(sources: Path) -> Iterator[None]:
    with small_circuits(Rows, sources):
        yield


@pytest.fixture(scope="session")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished ceremony, made once a process; nobody writes into it."""
    at = tmp_path_factory.mktemp("ceremony")
    with small_circuits(Rows, at / "rows"):
        ceremony(at / "folder")
    return at / "folder"


@pytest.fixture
def copy(done: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    path = tmp_path / "copy"
    shutil.copytree(done, path)
    return path
