# SPDX-License-Identifier: GPL-3.0-or-later
"""Proving and verifying keys of a circuit class.  SPEC A.9.

A verifying key's IC points are the bases that hidden inputs and blinders are committed on; :mod:`ragseal.groth16.views`
names those slices.  Keys live in a folder named by the digest of the verifying key, so that a key made
for other sources or other parameters is never taken for this one.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from ragseal.backends.native import available, native, native_errors
from ragseal.circuits.circuit import Shape, circuit_of
from ragseal.circuits.independence import check_independent
from ragseal.circuits.r1cs import read_r1cs
from ragseal.groth16 import zkey as plain_zkey
from ragseal.groth16.powers import PowersFile
from ragseal.groth16.verifying_key import VerifyingKey
from ragseal.groth16.views import EstimateView as EstimateView
from ragseal.groth16.views import KeyView as KeyView
from ragseal.groth16.views import ThinningView as ThinningView
from ragseal.groth16.views import VerifyingKeyData
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.kernel.estimate_class import EstimateClass
from ragseal.kernel.thinning_class import ThinningClass
from ragseal.runtime.edges.filesystem import why

#: A verifying key as the class of its circuit reads it.
AnyView = KeyView | EstimateView | ThinningView

ZKEY, VKEY, VKEY_JSON = "proving_key.zkey", "verifying_key.bin", "verification_key.json"
MAX_VKEY_BYTES = 1 << 30


@dataclass(frozen=True)
class KeyPaths:
    """Files of one key."""

    directory: Path
    digest: bytes

    @property
    def zkey(self) -> Path:
        return self.directory / ZKEY

    @property
    def vkey(self) -> Path:
        return self.directory / VKEY


@overload
def view_of(cls: AttestationClass, vk: VerifyingKeyData) -> KeyView: ...
@overload
def view_of(cls: EstimateClass, vk: VerifyingKeyData) -> EstimateView: ...
@overload
def view_of(cls: ThinningClass, vk: VerifyingKeyData) -> ThinningView: ...
def view_of(cls: Shape, vk: VerifyingKeyData) -> AnyView:
    """A verifying key as its class reads it.  ProofError: it has another number of public inputs."""
    if isinstance(cls, EstimateClass):
        return EstimateView(cls, vk)
    return ThinningView(cls, vk) if isinstance(cls, ThinningClass) else KeyView(cls, vk)


@overload
def load_key(path: Path, cls: AttestationClass) -> KeyView: ...
@overload
def load_key(path: Path, cls: EstimateClass) -> EstimateView: ...
@overload
def load_key(path: Path, cls: ThinningClass) -> ThinningView: ...
def load_key(path: Path, cls: Shape) -> AnyView:
    """Load a verifying key from a key folder or a verifying_key.bin.

    Raises:
        ConfigurationError: no such file.
        ProofError: malformed, wrong curve points, gamma = delta, or a key of another class.
    """
    return read_key(path, cls)


def read_key(path: Path, cls: Shape) -> AnyView:
    """As :func:`load_key`, for callers that hold any kind of class."""
    file = path / VKEY if path.is_dir() else path
    try:
        if file.stat().st_size > MAX_VKEY_BYTES:
            raise ProofError(f"{file.name} is oversized")
        data = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the verifying key {file}: {why(error, file)}") from None
    with native_errors():
        return view_of(cls, (native.VerifyingKey if available() else VerifyingKey).from_bytes(data))


def install_key(zkey: Path, cls: Shape, directory: Path) -> KeyPaths:
    """Check a .zkey and move it into ``directory``/<class>-<digest>, with its verifying key beside it.

    Raises:
        ProofError: the key is refused.
    """
    with native_errors():
        vk = native.ProvingKey.load(str(zkey)).verifying_key() if available() else plain_zkey.verifying_key(zkey)
    view = view_of(cls, vk)
    target = directory / f"{cls.name}-{view.digest.hex()[:24]}"
    target.mkdir(parents=True, exist_ok=True)
    for name, data in ((VKEY, vk.to_bytes()), (VKEY_JSON, vk.to_json().encode())):
        _write(target / name, data)
    os.replace(zkey, target / ZKEY)
    return KeyPaths(target, view.digest)


def make_keys(
    r1cs: Path,
    cls: Shape,
    class_digest: bytes,
    directory: Path,
    progress: Callable[[str], None] | None = None,
    powers: PowersFile | None = None,
) -> KeyPaths:
    """Keys of one's own for a compiled class, made once per circuit, powers and directory.

    Whoever makes keys can forge proofs under them: an auditor makes its own (keys=auditor), a provider's are UNSAFE.

    Args:
        powers: a first phase that is public: whoever holds the same file can check the key in full.  Without it one
            party makes both phases, and nobody can.

    Raises:
        ConfigurationError: no native module (an auditor needs it), or a damaged index of keys.
        ProofError: no such circuit, or one whose commitments have more than one opening; powers that are refused.
    """
    directory.mkdir(parents=True, exist_ok=True)
    system, circuit = read_r1cs(r1cs), circuit_of(cls)
    made_of = "" if powers is None else "-" + powers.digest(system, circuit.kept).hex()[:16]
    index = directory / f"{cls.name}-{system.digest.hex()[:24]}-{circuit.kept}{made_of}.json"
    if index.exists():
        try:
            digest = bytes.fromhex(json.loads(index.read_text())["key_digest"])
        except OSError as error:
            raise ConfigurationError(f"cannot read {index}: {why(error, index)}") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConfigurationError(f"{index} is damaged: remove it and make the keys again") from None
        paths = KeyPaths(directory / f"{cls.name}-{digest.hex()[:24]}", digest)
        if paths.zkey.exists() and read_key(paths.vkey, cls).digest == digest:
            return paths
    if progress:
        how = "one party" if powers is None else f"of {powers.path.name}"
        progress(f"making keys for class {cls.name} ({how}, once)")
    check_independent(system, circuit.kept, circuit.relations)
    handle, name = tempfile.mkstemp(dir=directory, suffix=".zkey.part")
    os.close(handle)
    part = Path(name)
    try:
        if powers is None:
            with native_errors():
                native.setup(str(r1cs), str(part), circuit.kept)
        else:
            powers.make_key(system, circuit.kept, part)
        paths = install_key(part, cls, directory)
    finally:
        part.unlink(missing_ok=True)
    record = {"class": cls.name, "class_digest": class_digest.hex(), "key_digest": paths.digest.hex()}
    _write(index, json.dumps(record, indent=1).encode())
    return paths


def _write(path: Path, data: bytes) -> None:
    """Replace a file as a whole: readers see the old bytes or the new ones."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    os.replace(part, path)
