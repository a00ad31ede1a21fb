# SPDX-License-Identifier: GPL-3.0-or-later
"""A ceremony's folder as it lies on disk; others wrote it, so it is read as hostile.  SPEC A.9.12.

    ceremony.json                    which circuits, upon which powers of tau; written once
    0000/<circuit>.zkey              the key that the ceremony begins with, of every circuit
    0001/<circuit>.zkey              the same with the first contribution
    0001/attestation.intoto.jsonl    what its party signed; missing where somebody used snarkjs by hand
    0002/...

A round appears by one renaming, with everything in it.  Names that begin with a dot are nobody's, and other names that
are no numbers are not looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragseal.groth16.contributions import MAX_CONTRIBUTIONS
from ragseal.kernel.errors import ConfigurationError, LedgerError, ProofError
from ragseal.kernel.printable import printable
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.edges.locks import holder, try_lock

DESCRIPTION, ATTESTATION, SUFFIX = "ceremony.json", "attestation.intoto.jsonl", ".zkey"
FORMAT = "ragseal.ceremony.v1"
MAX_SMALL = 1 << 20  #: bytes of a description or an attestation
WORK = ".making-"  #: how the folders begin in which a round is made; what an interruption left goes with the next one
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_ROUND = re.compile(r"[0-9]{4}")
_MAX_CIRCUITS = 8
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Listed:
    """One circuit of a ceremony; digests in hexadecimal."""

    name: str  #: of its class
    class_digest: str
    rows: str  #: SHA-256 of the compiled circuit (:attr:`ragseal.circuits.r1cs.ConstraintSystem.digest`)


@dataclass(frozen=True, slots=True)
class Description:
    """What ceremony.json says; digests in hexadecimal."""

    circuits: tuple[Listed, ...]
    powers: str  #: digest of tau, alpha and beta (:meth:`ragseal.groth16.powers.PowersFile.digest`)
    powers_file: str  #: BLAKE2b-512 of the file that the ceremony began with

    def encode(self) -> bytes:
        values = {
            "format": FORMAT,
            "circuits": [{"class": c.name, "class_digest": c.class_digest, "rows": c.rows} for c in self.circuits],
            "powers": {"digest": self.powers, "blake2b": self.powers_file},
        }
        return json.dumps(values, indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Description:
        """Raises ProofError: not what :meth:`encode` writes, byte for byte."""
        try:
            values = json.loads(data.decode())
            circuits = tuple(Listed(one["class"], one["class_digest"], one["rows"]) for one in values["circuits"])
            found = cls(circuits, values["powers"]["digest"], values["powers"]["blake2b"])
            names = [one.name for one in circuits]
            sound = (
                1 <= len(names) == len(set(names)) <= _MAX_CIRCUITS
                and all(len(name) <= 64 and _NAME.fullmatch(name) for name in names)
                and all(_hex(text, 32) for one in circuits for text in (one.class_digest, one.rows))
                and _hex(found.powers, 32)
                and _hex(found.powers_file, 64)
                and found.encode() == data
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            sound = False
        if not sound:
            raise ProofError(f"{DESCRIPTION} is not one that `ceremony new` wrote: get the folder anew")
        return found

    @property
    def digest(self) -> bytes:
        """What attestations name the ceremony by: SHA-256 of ceremony.json."""
        return hashlib.sha256(self.encode()).digest()

    def circuit_hash(self, circuit: Listed) -> bytes:
        """What every contribution's transcript begins with, 64 bytes: the whole description, and which circuit."""
        return hashlib.blake2b(FORMAT.encode() + self.digest + circuit.name.encode()).digest()


def _hex(text: Any, size: int) -> bool:
    return isinstance(text, str) and len(text) == 2 * size and not set(text) - set("0123456789abcdef")


class Folder:
    """A ceremony's folder that exists."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigurationError: no ceremony's folder.  ProofError: a damaged description."""
        self.path = path
        try:
            data = self._small(path, DESCRIPTION)
        except FileNotFoundError:
            data = None
        if data is None:
            raise ConfigurationError(f"{path} is not a ceremony's folder: `ceremony new` makes one")
        self.description = Description.decode(data)

    def rounds(self) -> int:
        """The number of the last round.

        Raises:
            ProofError: a round is missing, or holds what does not belong there.
        """
        try:
            with os.scandir(self.path) as entries:
                numbers = sorted(int(one.name) for one in entries if _ROUND.fullmatch(one.name))
        except OSError as error:
            raise ConfigurationError(f"cannot read {self.path}: {why(error, self.path)}") from None
        if numbers != list(range(len(numbers))) or not numbers:
            missing = next((i for i, number in enumerate(numbers) if i != number), len(numbers))
            raise ProofError(f"round {missing:04} is missing in {self.path}: get the folder anew, with all of it")
        if numbers[-1] > MAX_CONTRIBUTIONS:
            raise ProofError(f"{numbers[-1]} rounds are too many: {MAX_CONTRIBUTIONS} are read at most")
        needed = {one.name + SUFFIX for one in self.description.circuits}
        for number in numbers:
            found = self._entries(number)
            if strange := found - needed - ({ATTESTATION} if number else set()):
                raise ProofError(
                    f"round {number:04} holds {printable(min(strange))[:80]!r}, which does not belong there: remove it"
                )
            if absent := needed - found:
                raise ProofError(f"round {number:04} lacks {min(absent)}: get the folder anew, with all of it")
        return numbers[-1]

    def _round(self, number: int) -> Path:
        return self.path / f"{number:04}"

    def _entries(self, number: int) -> set[str]:
        path = self._round(number)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise ProofError(f"{path} is not a folder of its own: {why(error, path)}") from None
        try:
            return set(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def attestation(self, number: int) -> bytes | None:
        """What a round's party signed, None if nothing lies there.  Raises ProofError: a link, or oversized."""
        try:
            return self._small(self._round(number), ATTESTATION)
        except FileNotFoundError:
            return None

    def _small(self, folder: Path, name: str) -> bytes:
        with _opened(folder, name) as (descriptor, size):
            if size > MAX_SMALL:
                raise ProofError(f"{folder / name} is oversized")
            return os.read(descriptor, MAX_SMALL + 1)

    def take(self, number: int, circuit: str, sizes: tuple[int, int], target: Path) -> bytes:
        """Copy a round's key to where nobody changes it under a check, and give its SHA-256.

        Args:
            sizes: the least and the largest number of bytes that it can have.

        Raises:
            ConfigurationError: it cannot be read, or the copy not written.
            ProofError: a link, no regular file, or of another size.
        """
        digest, copied = hashlib.sha256(), 0
        path = self._round(number) / (circuit + SUFFIX)
        try:
            with _opened(path.parent, path.name) as (descriptor, size), target.open("xb") as out:
                if not sizes[0] <= size <= sizes[1]:
                    raise ProofError(
                        f"{path} has {size} bytes where a key of this circuit and round has {sizes[0]} to {sizes[1]}: "
                        "it is truncated, oversized or another circuit's"
                    )
                while block := os.read(descriptor, _BLOCK):
                    copied += len(block)
                    if copied > sizes[1]:
                        raise ProofError(f"{path} grows while it is read")
                    digest.update(block)
                    out.write(block)
        except FileNotFoundError:
            raise ProofError(f"{path} is gone: get the folder anew, with all of it") from None
        except OSError as error:
            raise ConfigurationError(f"cannot copy {path} to {target.parent}: {why(error, target)}") from None
        return digest.digest()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One process at a time adds a round.  What an interrupted one left is removed.

        Raises:
            LedgerError: another process is at it.
            ConfigurationError: the folder is somebody else's to write in.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigurationError(f"cannot open {self.path}: {why(error, self.path)}") from None
        try:
            if not try_lock(descriptor, self.path):
                raise LedgerError(
                    f"another process{holder(descriptor)} is adding a round to {self.path}: wait for it, contributions "
                    "follow one another"
                )
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise ConfigurationError(
                    f"{self.path} is somebody else's to write in: contribute in a copy of your own, and hand that on"
                )
            for left in self.path.glob(WORK + "*"):
                _remove(left)
            yield
        finally:
            os.close(descriptor)


def _remove(left: Path) -> None:
    """A folder of keys that was never put in place; a link of that name is removed and not followed."""
    with suppress(OSError):
        if left.is_symlink() or not left.is_dir():
            left.unlink()
            return
        for path in sorted(left.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        left.rmdir()


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[tuple[int, int]]:
    """A regular file right in a folder, neither of them a link: descriptor and size.  Raises FileNotFoundError."""
    path = folder / name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ProofError(f"{path} cannot be read as a file of its own: {why(error, path)}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ProofError(f"{path} is not a regular file")
        yield descriptor, found.st_size
    finally:
        os.close(descriptor)
