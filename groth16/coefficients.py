# SPDX-License-Identifier: GPL-3.0-or-later
"""A proving key's matrices A and B against the circuit it claims to be of, coefficient for coefficient.  SPEC A.9.

A .zkey carries the coefficients that its prover evaluates.  Its verifying key says nothing about them, so whoever made
the key may have changed one: proofs then fail unless some wire has a guessed value, and the failure tells.  A random
statement does not show it where the guess is what most statements have.  Here the whole section must be what the
provider's own R1CS says, with the row of its own that the constant, every clear input and the blinder have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragseal.circuits.container import Container, Cursor, read_container
from ragseal.circuits.r1cs import ConstraintSystem
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import P, R

COEFFICIENT_BYTES = 44  #: u32 matrix, row, wire; 32 bytes of the value times 2^512 (Montgomery, twice)

_ENTRY = np.dtype([("matrix", "<u4"), ("row", "<u4"), ("wire", "<u4"), ("value", "u1", 32)])
_SCALE = pow(2, 512, R)

Entries = npt.NDArray[Any]


def _distinct(values: npt.NDArray[np.uint8]) -> set[bytes]:
    """The different rows of a two-dimensional array of bytes."""
    width = values.shape[1]
    data = np.ascontiguousarray(values).tobytes()
    return {data[i : i + width] for i in range(0, len(data), width)}


def read_coefficients(file: Container, wires: int, domain: int) -> Entries:
    """Section 4 of a .zkey.

    Raises:
        ProofError: truncated, or an entry outside the matrices, zero or not reduced.
    """
    cursor = Cursor(file.section(4))
    entries = np.frombuffer(cursor.take(cursor.u32() * COEFFICIENT_BYTES), dtype=_ENTRY)
    cursor.end()
    if (entries["matrix"] > 1).any() or (entries["row"] >= domain).any() or (entries["wire"] >= wires).any():
        raise ProofError("section 4: a coefficient lies outside the matrices")
    for value in _distinct(entries["value"]):
        if not 0 < int.from_bytes(value, "little") < R:
            raise ProofError("section 4: a coefficient is zero or not reduced (>= r)")
    return entries


def _keys(matrix: int, rows: npt.NDArray[Any], wires: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Position in the matrices as one number: rows are below 2^27, wires at most 2^28."""
    return (np.uint64(matrix) << np.uint64(60)) | (rows.astype(np.uint64) << np.uint64(29)) | wires.astype(np.uint64)


def check_coefficients(zkey: Path, circuit: ConstraintSystem, kept: int) -> None:
    """The matrices of a proving key are exactly those of a circuit.  About a second in a domain of 2^17.

    Args:
        kept: public inputs 1..kept have a row of their own (:attr:`ragseal.circuits.circuit.Circuit.kept`).

    Raises:
        ConfigurationError: the key cannot be read.
        ProofError: they are not, or a file is malformed.
    """
    key = read_container(zkey, b"zkey", 1)
    header = Cursor(key.section(2))
    header.modulus(P)
    header.modulus(R)
    held = header.u32(), header.u32(), header.u32()
    rows = circuit.rows
    if held != (circuit.wires, circuit.public, circuit.domain(kept)):
        raise ProofError(
            f"the key has {held[0]} wires, {held[1]} public inputs and a domain of {held[2]}, the circuit "
            f"{circuit.wires} wires, {circuit.public} public inputs and {rows} rows: it is of other circuit sources"
        )
    (rows_a, terms_a), (rows_b, terms_b), _ = circuit.matrices
    added = np.arange(kept + 1)
    one = np.zeros((kept + 1, 32), dtype=np.uint8)
    one[:, 0] = 1
    wanted = np.concatenate(
        [_keys(0, rows_a, terms_a["wire"]), _keys(1, rows_b, terms_b["wire"]), _keys(0, rows + added, added)]
    )
    values = np.concatenate([terms_a["value"], terms_b["value"], one])
    entries = read_coefficients(key, held[0], held[2])
    places = _keys(0, entries["row"], entries["wire"]) | entries["matrix"].astype(np.uint64) << np.uint64(60)
    order, own_order = np.argsort(places, kind="stable"), np.argsort(wanted, kind="stable")
    same = len(places) == len(wanted) and bool((places[order] == wanted[own_order]).all())
    if same and (np.diff(wanted[own_order]) == 0).any():
        raise ProofError("the circuit names a wire twice in one form")
    pairs = np.concatenate([entries["value"][order], values[own_order]], axis=1) if same else values[:0]
    if not same or any(
        int.from_bytes(pair[:32], "little") != int.from_bytes(pair[32:], "little") * _SCALE % R
        for pair in _distinct(pairs)
    ):
        raise ProofError(
            "the key's coefficients are not those of the circuit: it is damaged, of other circuit sources, or made to "
            "leak; fetch it again, from an auditor that you know"
        )
