# SPDX-License-Identifier: GPL-3.0-or-later
"""Proving and verifying keys of a circuit class.  Protocol section 3, "Keys".

A verifying key's IC points are the bases that scores (Y_i), hints (W_j) and blinders (B) are committed on;
:class:`KeyView` names those slices.  Keys live in a folder named by the digest of the verifying key, so that a key made
for other sources or other parameters is never taken for this one.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ragseal.groth16.group import default_group, native, native_errors
from ragseal.kernel import field
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.curve import POINT_BYTES
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.kernel.hints import CLEAR, Layout
from ragseal.kernel.params import CircuitClass

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


class KeyView:
    """A verifying key cut into the bases of a class's layout.

    Raises:
        ProofError: the key has another number of public inputs than the class.
    """

    def __init__(self, cls: CircuitClass, vk: Any) -> None:
        self.cls = cls
        self.layout = Layout(cls)
        self.vk = vk
        if vk.n_public != self.layout.public:
            raise ProofError(
                f"this key has {vk.n_public} public inputs, class {cls.name!r} needs {self.layout.public}: "
                "keys never cross circuit classes"
            )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical verifying key."""
        return bytes(self.vk.digest())

    def _slice(self, at: int, count: int) -> bytes:
        return bytes(self.vk.ic(at + 1, count))  # IC_0 belongs to the constant

    @cached_property
    def scores(self) -> ScoreBases:
        """Y_0..Y_(N-1) and B."""
        return ScoreBases(self._slice(self.layout.scores_at, self.cls.N), self._slice(self.layout.blind_at, 1))

    @cached_property
    def hints(self) -> bytes:
        """W_0..W_(n-1), 64 bytes each."""
        return self._slice(self.layout.hints_at, self.layout.size)

    @cached_property
    def sum_y(self) -> bytes:
        """sum_i Y_i."""
        return default_group().msm(self.scores.y, field.pack([1]) * (len(self.scores.y) // POINT_BYTES))

    def verify(self, clear: Sequence[int], c_w: bytes, c_h: bytes, proof: bytes) -> None:
        """The pairing check of one proof with C_w and C_h added to vk_x.

        Raises:
            ProofError: any input malformed, or the equation does not hold.
        """
        if len(clear) != CLEAR:
            raise ProofError(f"{CLEAR} clear inputs expected")
        with native_errors():
            self.vk.verify(proof, field.pack(clear), c_w + c_h)

    def verify_batch(self, items: Sequence[tuple[Sequence[int], bytes, bytes, bytes]]) -> None:
        """Many (clear, c_w, c_h, proof) in one pairing product with fresh 128-bit weights.

        Raises:
            ProofError: some proof of the batch does not hold (verify one by one to learn which).
        """
        if any(len(clear) != CLEAR for clear, *_ in items):
            raise ProofError(f"{CLEAR} clear inputs expected")
        with native_errors():
            self.vk.verify_batch(
                [proof for *_, proof in items],
                [field.pack(clear) for clear, *_ in items],
                [c_w + c_h for _, c_w, c_h, _ in items],
                secrets.token_bytes(16 * len(items)),
            )


def load_key(path: Path, cls: CircuitClass) -> KeyView:
    """Load a verifying key from a key folder or a verifying_key.bin.

    Raises:
        ConfigurationError: no such file.
        ProofError: malformed, wrong curve points, gamma = delta, or a key of another class.
    """
    file = path / VKEY if path.is_dir() else path
    try:
        if file.stat().st_size > MAX_VKEY_BYTES:
            raise ProofError(f"{file.name} is oversized")
        data = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the verifying key {file}: {error.strerror}") from None
    with native_errors():
        vk = native().VerifyingKey.from_bytes(data)
    return KeyView(cls, vk)


def install_key(zkey: Path, cls: CircuitClass, directory: Path) -> KeyPaths:
    """Check a .zkey and move it into ``directory``/<class>-<digest>, with its verifying key beside it.

    Raises:
        ProofError: the key is refused.
    """
    with native_errors():
        vk = native().ProvingKey.load(str(zkey)).verifying_key()
    view = KeyView(cls, vk)
    target = directory / f"{cls.name}-{view.digest.hex()[:24]}"
    target.mkdir(parents=True, exist_ok=True)
    for name, data in ((VKEY, bytes(vk.to_bytes())), (VKEY_JSON, vk.to_json().encode())):
        _write(target / name, data)
    os.replace(zkey, target / ZKEY)
    return KeyPaths(target, view.digest)


def make_keys(
    r1cs: Path, cls: CircuitClass, class_digest: bytes, directory: Path, progress: Callable[[str], None] | None = None
) -> KeyPaths:
    """One-party keys for a compiled class, made once per class digest and directory.

    Whoever makes keys can forge proofs under them: an auditor makes its own (keys=auditor), a provider's are UNSAFE.
    """
    directory.mkdir(parents=True, exist_ok=True)
    index = directory / f"{cls.name}-{class_digest.hex()[:24]}.json"
    if index.exists():
        try:
            digest = bytes.fromhex(json.loads(index.read_text())["key_digest"])
        except (ValueError, KeyError, TypeError):
            raise ConfigurationError(f"{index} is damaged: remove it and make the keys again") from None
        paths = KeyPaths(directory / f"{cls.name}-{digest.hex()[:24]}", digest)
        if paths.zkey.exists() and load_key(paths.vkey, cls).digest == digest:
            return paths
    if progress:
        progress(f"making keys for class {cls.name} (one party, once)")
    handle, name = tempfile.mkstemp(dir=directory, suffix=".zkey.part")
    os.close(handle)
    part = Path(name)
    try:
        with native_errors():
            native().setup(str(r1cs), str(part))
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
