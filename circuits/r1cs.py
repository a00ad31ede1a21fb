# SPDX-License-Identifier: GPL-3.0-or-later
"""Constraint systems in the iden3 .r1cs format, version 1.

Rows A * B = C over wires: 0 is the constant 1, then come outputs, public inputs, private inputs and all others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragseal.circuits.container import Container, Cursor, read_container
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import R

TERM_BYTES = 36  #: u32 wire, 32 bytes of the coefficient, little-endian

_TERM = np.dtype([("wire", "<u4"), ("value", "u1", 32)])

Terms = npt.NDArray[Any]  #: entries of a form: wire, value


def _reduced(values: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Which 32-byte little-endian numbers are below r: by words of 64 bits, the lowest first."""
    words = np.ascontiguousarray(values).view("<u8")
    below = np.zeros(len(words), dtype=bool)
    for at in range(4):
        limit = np.uint64(R >> 64 * at & (1 << 64) - 1)
        below = (words[:, at] < limit) | ((words[:, at] == limit) & below)
    return below


@dataclass(frozen=True)
class ConstraintSystem:
    """A file's header, and its rows on demand."""

    path: Path  #: native code reads it anew
    file: Container
    wires: int
    public: int  #: outputs and public inputs: wires 1..public
    rows: int

    def domain(self, kept: int) -> int:
        """Rows of a key's domain, a power of two: the circuit's, the constant's, and those of public inputs 1..kept.

        Raises:
            ProofError: the circuit has fewer public inputs.
        """
        if not 0 < kept <= self.public:
            raise ProofError(f"{kept} public inputs with a row of their own, the circuit has {self.public}")
        return 1 << (self.rows + kept).bit_length()

    def forms(self) -> Iterator[tuple[memoryview, memoryview, memoryview]]:
        """The terms of A, B and C, row by row, as the file has them.  ProofError: it is truncated."""
        cursor = Cursor(self.file.section(2))
        for _ in range(self.rows):
            a, b, c = (cursor.take(TERM_BYTES * cursor.u32()) for _ in range(3))
            yield a, b, c
        cursor.end()

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of header and rows: labels and names are of no consequence.  ProofError: there are no rows."""
        digest = hashlib.sha256(self.file.section(1))
        digest.update(self.file.section(2))
        return digest.digest()

    @cached_property
    def matrices(self) -> tuple[tuple[npt.NDArray[np.int64], Terms], ...]:
        """Of A, B and C: the row of every term whose coefficient is not zero, and the terms.

        Raises:
            ProofError: a wire that the header does not count, or a coefficient that is not reduced.
        """
        parts: tuple[list[memoryview], ...] = ([], [], [])
        for row in self.forms():
            for form, part in zip(parts, row, strict=True):
                form.append(part)
        found = []
        for form in parts:
            terms: Terms = np.frombuffer(b"".join(form), dtype=_TERM)
            if (terms["wire"] >= self.wires).any():
                raise ProofError("the circuit names a wire that it does not have")
            if not _reduced(terms["value"]).all():
                raise ProofError("a coefficient of the circuit is not reduced (>= r)")
            numbers = np.repeat(np.arange(self.rows), [len(part) // TERM_BYTES for part in form])
            present = terms["value"].any(axis=1)
            found.append((numbers[present], terms[present]))
        return tuple(found)


def read_r1cs(path: Path) -> ConstraintSystem:
    """Read a file's header; rows are read when asked for.

    Raises:
        ConfigurationError: the file cannot be read.
        ProofError: it is no such file, or over another field.
    """
    file = read_container(path, b"r1cs", 1)
    head = Cursor(file.section(1))
    head.modulus(R)
    wires, outputs, inputs = head.u32(), head.u32(), head.u32()
    head.take(4 + 8)  # private inputs, labels
    rows = head.u32()
    head.end()
    return ConstraintSystem(path, file, wires, outputs + inputs, rows)
