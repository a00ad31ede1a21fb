# SPDX-License-Identifier: GPL-3.0-or-later
"""How a ceremony of snarkjs makes a key without a row for each hidden input.

``snarkjs groth16 setup`` gives every public input a row ``wire * 0 = 0``.  Here only the clear inputs and the blinder
have one, and the hidden inputs, which live in commitments, have none.  So the ceremony is told of a circuit whose
hidden inputs are private (:func:`hide_inputs`), and in the key that it begins with their points move from section 8 (C)
to section 3 (IC) (:func:`show_inputs`).  Before the first contribution gamma = delta = 1, and both sections hold the
very same points.  Contributions follow as ever.  ``docs/how-to/ceremony.md`` has the commands.

Nobody may contribute to the key as it was before the move: what comes out holds every hidden input's point divided by
delta, with which anybody changes that input under a proof.  A contribution's proof of knowledge covers the circuit
hash and no points, so the moved key has another one: a contribution to the one key is none to the other.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

from ragseal.circuits.container import Container, Cursor, read_container, write_container
from ragseal.groth16.pairing import G2_BYTES
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import P, R

_IC, _C, _CONTRIBUTIONS = 3, 8, 10
_FIELD = 4 + 32  #: bytes of a field's size and modulus, as headers have them
_PUBLIC = 2 * _FIELD + 4  #: where a key's header counts its public inputs
_GAMMA = 2 * _FIELD + 12 + 2 * POINT_BYTES + G2_BYTES
_DELTA_2 = _GAMMA + G2_BYTES + POINT_BYTES
_CIRCUIT_HASH = 64  #: bytes before the number of contributions
_MOVED = b"ragseal.key-with-hidden-inputs.v1"


def hide_inputs(r1cs: Path, kept: int, target: Path) -> None:
    """Write a circuit with its first ``kept`` public wires declared public and all others private.

    Constraints and wires are the same.

    Raises:
        ConfigurationError: a file cannot be read or written.
        ProofError: not an .r1cs file, or one with fewer public wires.
    """
    circuit = read_container(r1cs, b"r1cs", 1)
    header = bytes(circuit.section(1))
    cursor = Cursor(memoryview(header))
    cursor.modulus(R)
    wires, outputs, inputs, private = cursor.u32(), cursor.u32(), cursor.u32(), cursor.u32()
    if not max(1, outputs) <= kept <= outputs + inputs:
        raise ProofError(
            f"{r1cs}: {kept} public wires are to stay, and it has {outputs} outputs and {inputs} public inputs"
        )
    hidden = outputs + inputs - kept
    counts = struct.pack("<IIII", wires, outputs, kept - outputs, private + hidden)
    changed = header[:_FIELD] + counts + header[_FIELD + len(counts) :]
    write_container(target, b"r1cs", 1, {**circuit.sections, 1: changed})


def show_inputs(zkey: Path, public: int, target: Path) -> None:
    """Write an initial key with its first ``public`` wires public, their points moved from C to IC.

    Raises:
        ConfigurationError: a file cannot be read or written.
        ProofError: not a Groth16 key, one with contributions, or one that does not have so many private wires.
    """
    key = read_container(zkey, b"zkey", 1)
    try:
        sections = _moved(key, public)
    except ProofError as error:
        raise ProofError(f"{zkey}: {error}") from None
    write_container(target, b"zkey", 1, sections)


def _moved(key: Container, public: int) -> dict[int, bytes | memoryview]:
    if bytes(key.array(1, 1, 4)) != (1).to_bytes(4, "little"):
        raise ProofError("not a Groth16 key")
    header = key.array(2, 1, _DELTA_2 + G2_BYTES)
    cursor = Cursor(header)
    cursor.modulus(P)
    cursor.modulus(R)
    wires, declared = cursor.u32(), cursor.u32()
    if not declared < public < wires:
        raise ProofError(f"{public} public wires are to be, and it has {wires} wires, {declared} of them public")
    listed = key.section(_CONTRIBUTIONS)
    if header[_GAMMA : _GAMMA + G2_BYTES] != header[_DELTA_2:] or bytes(listed[_CIRCUIT_HASH:]) != bytes(4):
        raise ProofError(
            "it has contributions, so the points of C and of IC are no longer of one kind: move them in the key "
            "that `snarkjs groth16 setup` wrote, before anybody contributes"
        )
    ic = key.array(_IC, declared + 1, POINT_BYTES)
    c = key.array(_C, wires - declared - 1, POINT_BYTES)
    cut = (public - declared) * POINT_BYTES
    changed = bytes(header[:_PUBLIC]) + public.to_bytes(4, "little") + bytes(header[_PUBLIC + 4 :])
    moved = {2: changed, _IC: bytes(ic) + bytes(c[:cut]), _C: bytes(c[cut:])}
    digest = hashlib.blake2b(_MOVED + bytes(listed[:_CIRCUIT_HASH]))
    for part in moved.values():
        digest.update(part)
    return {**key.sections, **moved, _CONTRIBUTIONS: digest.digest() + bytes(4)}
