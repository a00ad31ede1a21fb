# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of the estimate's circuit at the provider: the same rules as for the attestation's.  SPEC A.9."""

from __future__ import annotations

import secrets
import shutil
import struct
from pathlib import Path

import pytest

from ragseal.backends.group import default_group
from ragseal.circuits.build import build
from ragseal.groth16.assignments import BlockAssignment
from ragseal.groth16.keys import KeyPaths
from ragseal.groth16.provers import BlockBackend, open_backend
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.kernel.estimate_class import CLASSES
from ragseal.prover.keys.keyring import BlockKeys, block_keys
from ragseal.prover.keys.trial_proofs import rehearse_block
from tests.prover.zkeys import sections, written
from tests.simulator.keys import keys_of

SIZE = CLASSES["estimate-6"]


@pytest.fixture(scope="module")
def made() -> KeyPaths:
    return keys_of(SIZE)


@pytest.fixture
def ring(tmp_path: Path) -> BlockKeys:
    built = build(SIZE)
    return block_keys(tmp_path, SIZE, lambda: built.r1cs, lambda folder: open_backend(built, folder))


def copy(data: bytes, folder: Path) -> Path:
    path = folder / "incoming.zkey"
    path.write_bytes(data)
    return path


def test_a_good_key_is_kept_and_proves(ring: BlockKeys, made: KeyPaths) -> None:
    paths = ring.install(copy(made.zkey.read_bytes(), ring.directory), made.digest)
    assert paths.digest == made.digest
    assert ring.view(made.digest).products == ring.newest().products
    rehearse_block(ring.backend(made.digest), default_group())
    with pytest.raises(ConfigurationError, match="fetch-keys"):
        ring.view(secrets.token_bytes(32))


def test_keys_that_are_refused(ring: BlockKeys, made: KeyPaths, keys: KeyPaths) -> None:
    """Another digest, the attestation's key, a cut file, and one coefficient changed: nothing is left behind."""
    good = made.zkey.read_bytes()
    parts = sections(good)
    coefficients = bytearray(parts[4])
    coefficients[4 + 12] ^= 1  # the first coefficient's value
    changed = written(good, {**parts, 4: bytes(coefficients)})
    cases = [
        (good, bytes(32)),
        (keys.zkey.read_bytes(), keys.digest),
        (good[:-9], made.digest),
        (changed, made.digest),
    ]
    for data, digest in cases:
        with pytest.raises(ProofError):
            ring.install(copy(data, ring.directory), digest)
        assert list(ring.directory.iterdir()) == []


class Guessing:
    """A back end that proves only blocks whose first product has a guessed low bit, as a crafted key would."""

    def __init__(self, real: BlockBackend) -> None:
        self._real = real
        self.key = real.key

    def prove(self, assignment: BlockAssignment) -> bytes:
        if assignment.products[0] != 4321:
            raise ProofError("the proof does not verify")
        return self._real.prove(assignment)


def test_a_key_that_proves_some_statements_only_is_found_out(made: KeyPaths) -> None:
    real = open_backend(build(SIZE), made.directory)
    with pytest.raises(ProofError, match="made-up statement"):
        rehearse_block(Guessing(real), default_group())


def test_a_folder_with_another_key_is_refused(ring: BlockKeys, made: KeyPaths) -> None:
    shutil.copytree(made.directory, ring.folder(b"x" * 32))
    with pytest.raises(ProofError, match="holds another key"):
        ring.view(b"x" * 32)


def test_sections_are_read_as_written(made: KeyPaths) -> None:
    data = made.zkey.read_bytes()
    assert written(data, sections(data)) == data
    assert struct.unpack_from("<I", sections(data)[4])[0] > 0
