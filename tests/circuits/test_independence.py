# SPDX-License-Identifier: GPL-3.0-or-later
"""A commitment has one opening: on the classes as they are compiled, and on circuits in which it has several."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ragseal.circuits.build import build
from ragseal.circuits.circuit import Circuit as Description
from ragseal.circuits.circuit import circuit_of
from ragseal.circuits.independence import check_independent
from ragseal.circuits.r1cs import read_r1cs
from ragseal.groth16 import keys
from ragseal.kernel.errors import ProofError
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.params import R
from ragseal.kernel.thinning_class import thinning_class
from tests.circuits.scene import CACHE
from tests.classes import GAUSSIAN, TINY
from tests.native.conftest import Circuit, Form

pytestmark = pytest.mark.slow

KEPT, FIRST = 2, 3  #: a clear input and a blinder; the first wire that is committed to

SHAPES = (TINY, GAUSSIAN, CLASSES["estimate-6"], thinning_class(126))


@pytest.fixture
def built(request: pytest.FixtureRequest) -> Any:
    """A class as it is compiled, when a test asks: workers that collect wait for no compiler."""
    return build(request.param, CACHE)


each = pytest.mark.parametrize("built", SHAPES, ids=lambda shape: shape.name, indirect=True)


def written(circuit: Circuit, folder: Path) -> Path:
    return circuit.write(folder / "circuit.r1cs")


def rank(rows: list[list[int]]) -> int:
    """Of a matrix over F_r, by plain elimination."""
    rows, found = [list(row) for row in rows], 0
    for column in range(len(rows[0]) if rows else 0):
        at = next((i for i in range(found, len(rows)) if rows[i][column]), None)
        if at is None:
            continue
        rows[found], rows[at] = rows[at], rows[found]
        inverse = pow(rows[found][column], -1, R)
        for i in range(found + 1, len(rows)):
            factor = rows[i][column] * inverse % R
            rows[i] = [(x - factor * y) % R for x, y in zip(rows[i], rows[found], strict=True)]
        found += 1
    return found


def columns(circuit: Circuit, kept: int, wires: range) -> list[list[int]]:
    """(A_i; B_i; C_i) of wires 0..kept and of ``wires``, own rows included, dense."""
    out = []
    for wire in (*range(kept + 1), *wires):
        column = [row[matrix].get(wire, 0) % R for matrix in range(3) for row in circuit.rows]
        out.append(column + [int(wire == own) for own in range(kept + 1)])
    return out


def passes(circuit: Circuit, kept: int, wires: range, folder: Path) -> bool:
    try:
        check_independent(read_r1cs(written(circuit, folder)), kept, [wires])
    except ProofError:
        return False
    return True


def test_as_plain_elimination_says(tmp_path: Path) -> None:
    """500 sparse circuits with few rows: about half are dependent, most with something left after peeling."""
    rng, seen = random.Random(1), {True: 0, False: 0}
    for _ in range(500):
        rows, hidden = rng.randint(1, 4), rng.randint(1, 5)
        circuit = Circuit(wires=FIRST + hidden, public=KEPT + hidden, private=0)

        def form(circuit: Circuit = circuit) -> Form:
            wires = rng.sample(range(circuit.wires), rng.randint(0, min(3, circuit.wires)))
            return {wire: rng.choice((1, 1, -1, 2, 0)) for wire in wires}

        circuit.rows = [(form(), form(), form()) for _ in range(rows)]
        wires = range(FIRST, FIRST + hidden)
        matrix = columns(circuit, KEPT, wires)
        independent = rank(matrix) == len(matrix)
        assert passes(circuit, KEPT, wires, tmp_path) == independent
        seen[independent] += 1
    assert min(seen.values()) > 100


def test_no_wire_can_be_peeled_and_all_are_independent(tmp_path: Path) -> None:
    """Three wires, each place held by two of them: x + y, y + z, z + x have rank 3, x + y, y - z, z + x have rank 2."""
    x, y, z = 3, 4, 5
    whole = Circuit(6, 5, 0, rows=[({x: 1, y: 1}, {}, {}), ({y: 1, z: 1}, {}, {}), ({z: 1, x: 1}, {}, {})])
    assert passes(whole, KEPT, range(3, 6), tmp_path)
    whole.rows[1] = ({y: 1, z: -1}, {}, {})
    assert not passes(whole, KEPT, range(3, 6), tmp_path)


def test_relations_are_looked_at_one_by_one(tmp_path: Path) -> None:
    """Two wires that always stand together are one too many in one commitment, and none too many in two."""
    pair = Circuit(5, 4, 0, rows=[({3: 1, 4: 1}, {0: 1}, {})])
    system = read_r1cs(written(pair, tmp_path))
    check_independent(system, KEPT, [range(3, 4), range(4, 5)])
    with pytest.raises(ProofError, match="wire 4 of the circuit is not bound"):
        check_independent(system, KEPT, [range(3, 5)])


@pytest.mark.parametrize("value", [R, R + 1, 2**256 - 1, R | 1 << 255])
def test_a_coefficient_that_is_not_reduced(value: int, tmp_path: Path) -> None:
    """r is 0 in the field: a place that holds it binds nothing."""
    path = tmp_path / "c.r1cs"
    one, data = (1).to_bytes(32, "little"), Circuit(4, 3, 0, rows=[({3: 1}, {0: 1}, {})]).encode()
    assert data.count(one) == 2
    path.write_bytes(data.replace(one, value.to_bytes(32, "little"), 1))
    with pytest.raises(ProofError, match="not reduced"):
        check_independent(read_r1cs(path), KEPT, [range(3, 4)])
    path.write_bytes(data.replace(one, (R - 1).to_bytes(32, "little"), 1))
    check_independent(read_r1cs(path), KEPT, [range(3, 4)])


@each
def test_a_blinder_needs_its_own_row(built: Any) -> None:
    """No row of the circuit uses it: without a row of the key's its base would be the identity and hide nothing."""
    circuit, system = circuit_of(built.cls), read_r1cs(built.r1cs)
    check_independent(system, circuit.kept, circuit.relations)
    blinder = range(circuit.kept, circuit.kept + 1)
    with pytest.raises(ProofError, match=f"wire {circuit.kept} of the circuit is not bound"):
        check_independent(system, circuit.clear, [blinder])


def without_rows_of(built: Any, wire: int, folder: Path) -> Path:
    """The compiled circuit, each row that names a wire emptied."""
    system = read_r1cs(built.r1cs)
    emptied = {int(row) for rows, terms in system.matrices for row in rows[terms["wire"] == wire]}
    assert emptied
    body = bytearray()
    for at, row in enumerate(system.forms()):
        for form in row:
            kept = b"" if at in emptied else bytes(form)
            body += (len(kept) // 36).to_bytes(4, "little") + kept
    parts = {**system.file.sections, 2: bytes(body)}
    path = folder / "emptied.r1cs"
    sections = b"".join(
        kind.to_bytes(4, "little") + len(data).to_bytes(8, "little") + bytes(data) for kind, data in parts.items()
    )
    path.write_bytes(b"r1cs" + (1).to_bytes(4, "little") + len(parts).to_bytes(4, "little") + sections)
    return path


@each
def test_a_hidden_wire_without_its_constraints(built: Any, tmp_path: Path) -> None:
    """In every relation, the first, the last and some other wire."""
    circuit: Description = circuit_of(built.cls)
    rng = random.Random(2)
    for relation in circuit.relations:
        for wire in {relation[0], relation[-1], rng.choice(relation)}:
            with pytest.raises(ProofError, match=r"wire \d+ of the circuit is not bound"):
                check_independent(read_r1cs(without_rows_of(built, wire, tmp_path)), circuit.kept, circuit.relations)


@each
def test_relations_cover_what_is_committed_to(built: Any) -> None:
    """Every public input is clear, the blinder, or in one relation: none is left that no check looks at."""
    circuit = circuit_of(built.cls)
    covered = [wire for relation in circuit.relations for wire in relation]
    assert [*range(1, circuit.kept + 1), *covered] == list(range(1, built.public + 1))


def test_keys_are_not_made_for_such_a_circuit(tmp_path: Path) -> None:
    built = build(CLASSES["estimate-6"], CACHE)
    relation = circuit_of(built.cls).relations[0]
    emptied = without_rows_of(built, relation[3], tmp_path)
    with pytest.raises(ProofError, match="is not bound"):
        keys.make_keys(emptied, built.cls, bytes(32), tmp_path / "keys")
    assert not list((tmp_path / "keys").iterdir())
