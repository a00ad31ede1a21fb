# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes in a ceremony's folder, as whoever hands it on can make them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ragseal.circuits.container import read_container, write_container
from ragseal.groth16.contributions import read_chain
from ragseal.verifier.ceremony.attestation import Made, Round
from ragseal.verifier.ceremony.folder import SUFFIX, Folder
from tests.verifier import ceremony_scene as scene

ONE, TWO = (name + SUFFIX for name in scene.NAMES)


def sections(path: Path) -> dict[int, memoryview]:
    return dict(read_container(path, b"zkey", 1).sections)


def rewrite(path: Path, **changed: bytes) -> None:
    """Sections of a key, by names s3, s10 and so on."""
    write_container(path, b"zkey", 1, {**sections(path), **{int(k[1:]): v for k, v in changed.items()}})


def sha256(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def round_of(path: Path, number: int, name: str, before: bytes | None = None) -> Round:
    made = []
    for circuit in scene.NAMES:
        old, new = (path / f"{n:04}" / (circuit + SUFFIX) for n in (number - 1, number))
        handed = before if before is not None and circuit == scene.NAMES[0] else sha256(old)
        made.append(Made(circuit, handed, sha256(new), read_chain(new).contributions[-1].hash))
    return Round(Folder(path).description.digest, number, name, False, made)
