# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates against the kernel functions of the same name, on the rows that the compiler wrote.  SPEC B.

tests/circuits/parts.circom holds one component of every template with a twin; look-ups are not closed there, so a test
reads the chunk behind each fraction, alpha - 1/f, and asks whether the table has it.
"""

from __future__ import annotations

import importlib
import random
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from ragseal.circuits.build import _constants, build, cached, compile_main, find_compiler
from ragseal.circuits.circuit import HERE, circuit_of, decoys_sources, noise_sources
from ragseal.circuits.orientation import orient
from ragseal.circuits.r1cs import ConstraintSystem, read_r1cs
from ragseal.kernel import mechanism, noise, statement
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.noise_mechanism import wide_elements
from ragseal.kernel.poseidon import permute, poseidon
from tests.circuits.noise_drafts import NoiseSetting
from tests.circuits.r1cs import P, R1cs, read
from tests.circuits.scene import CACHE, compiled
from tests.classes import TINY
from tests.native.conftest import INPUTS, Circuit, product_circuit

native = pytest.importorskip("ragseal_native")


C = 9  #: chunk bits of parts.circom
FINE = 104
SHARD = 1  #: of parts.circom
TWINS = tomllib.loads((HERE / "twins.toml").read_text(encoding="utf-8"))


@cache
def parts() -> R1cs:
    tiny = circuit_of(TINY)
    tables = tiny.main.split("component main")[0]
    template = (Path(__file__).parent / "parts.circom").read_text(encoding="utf-8")
    main = f"{tables}\n{template}\ncomponent main = Parts();\n"
    folder = cached(replace(tiny, main=main, relations=()), "test-parts", CACHE)  # nothing of it is committed to
    return read(folder / "noise.r1cs", folder / "noise.sym")


def split(value: int, count: int, c: int = C) -> list[int]:
    """Low chunks of a value, the highest left out."""
    return [(value >> (c * j)) & ((1 << c) - 1) for j in range(count - 1)]


class Case:
    """Inputs of parts.circom for one honest instance, to be edited."""

    def __init__(self, number: int, uniform: int | None = None) -> None:
        rng = self.rng = random.Random(number)
        self.seed = (rng.getrandbits(128), rng.getrandbits(128))
        self.beacon, self.ctx, self.salt = (rng.getrandbits(248) for _ in range(3))
        self.key = mechanism.noise_key(self.seed, self.beacon, self.ctx)
        self.table = TINY.table
        self.alpha, self.beta = rng.getrandbits(250), rng.getrandbits(250)
        self.message = [rng.randrange(P), rng.randrange(P)]
        self.returned = sorted(rng.getrandbits(100) for _ in range(3))
        self.elements = permute([0, self.key, 3 << 32, SHARD] + [0] * 13)[1:3]
        self.sequence = sorted(rng.sample(range(1 << 18), 3))
        self.number = rng.getrandbits(12)
        self.uniform = rng.getrandbits(self.table.bits) if uniform is None else uniform
        self.edits: dict[str, int] = {}

    def inputs(self) -> dict[int, int]:
        v: dict[str, list[int]] = {}
        v["alpha"], v["beta"], v["seed"], v["beacon"] = [self.alpha], [self.beta], [*self.seed], [self.beacon]
        v["ctx"], v["salt"], v["returned"], v["message"] = [self.ctx], [self.salt], self.returned, self.message
        v["u"], v["rest"] = [], []
        for e in self.elements:
            v["u"] += [(e >> (8 * j)) & 255 for j in range(18)]
            v["rest"] += [(e >> (144 + C * j)) & ((1 << C) - 1) for j in range(7)]
            v["rest"] += [*split(e >> 207, 6), *split((P >> 207) - 1 - (e >> 207), 6)]
        coarse, fine = self.uniform >> FINE, self.uniform & ((1 << FINE) - 1)
        v["fine"] = [*split(fine, 12), fine >> (C * 11)]
        sign, folded = noise.reflect(self.table, self.uniform)
        z = noise.inverse_cdf(self.table, folded)
        before, upto = self.table.cdf(z - 1), self.table.cdf(z)
        v["coarseBits"], v["sign"], v["magnitude"], v["before"], v["upto"] = [coarse], [sign], [z], [before], [upto]
        v["below"], v["above"] = split(folded - before, 13), split(upto - 1 - folded, 13)
        v["number"], v["numberLow"] = [self.number], split(self.number, 2)
        v["sequence"] = self.sequence
        v["sequenceLow"] = [
            x for a, b in zip(self.sequence, self.sequence[1:], strict=False) for x in split(b - a - 1, 2)
        ]
        flat = [x for name in INPUT_ORDER for x in v[name]]
        values = dict(zip(parts().inputs, flat, strict=True))
        return values | {parts().wire_of[name]: x for name, x in self.edits.items()}

    def witness(self) -> list[int]:
        return parts().solve(self.inputs())

    def get(self, name: str) -> int:
        value = self.witness()[parts().wire_of[name]]
        return value if value < P // 2 else value - P

    def outside(self, component: str) -> list[str]:
        """Fractions of a component whose chunk the range table does not have."""
        witness, bad = self.witness(), []
        for w in sorted(parts().named(rf"{component}\.f(\[\d+\])+")):
            if (self.alpha - pow(witness[w], -1, P)) % P >> C:
                bad.append(parts().names[w])
        return bad


INPUT_ORDER = (
    "alpha", "beta", "seed", "beacon", "ctx", "salt", "returned", "message", "u", "rest", "coarseBits", "fine", "sign",
    "magnitude", "before", "upto", "below", "above", "number", "numberLow", "sequence", "sequenceLow",
)  # fmt: skip


@pytest.mark.slow
def test_input_order_is_the_circuits() -> None:
    names = [parts().names[w].split("[")[0] for w in parts().inputs]
    assert tuple(dict.fromkeys(names)) == INPUT_ORDER


@pytest.mark.slow
def test_every_template_has_a_twin() -> None:
    files = (*noise_sources(), *decoys_sources(), *circuit_of(CLASSES["estimate-6"]).sources)
    texts = [path.read_text(encoding="utf-8") for path in files]
    templates = {name for text in texts for name in re.findall(r"^template (\w+)", text, re.M)}
    assert templates == set(TWINS)
    for name, entry in TWINS.items():
        if "part_of" in entry:
            assert "kernel" in TWINS[entry["part_of"]], name
            continue
        module, function = entry["kernel"].rsplit(".", 1)
        assert callable(getattr(importlib.import_module(module), function))
        if not entry.get("other_name"):
            assert re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() == function


@pytest.mark.slow
def test_hashes() -> None:
    case = Case(1)
    assert case.get("seedCommitment") % P == statement.seed_commitment(case.seed)
    assert case.get("noiseKey") % P == case.key
    assert case.get("hash") % P == poseidon(7, *case.message)
    packed = [
        case.returned[0] | case.returned[1] << 101,
        case.returned[2],
    ]  # 248 // 101 an element
    assert case.get("placesCommitment") % P == poseidon(5, case.salt, *packed)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
def test_honest_parts_hold(number: int) -> None:
    case = Case(number)
    assert not parts().violations(case.witness())
    for component in ("wide", "cdf", "exact", "order"):
        assert not case.outside(component), component


@pytest.mark.slow
def test_wide_elements() -> None:
    """The chunks are in range exactly for the bits of the kernel's elements."""
    case = Case(4)
    assert case.elements == wide_elements(case.key, 3, 2, SHARD)
    for wire in ("u[1][3]", "rest[0][2]", "rest[1][7]", "rest[1][12]"):
        case.edits = {wire: case.inputs()[parts().wire_of[wire]] ^ 1}
        assert case.outside("wide"), wire
    case.edits = {}
    case.elements[1] += P  # the other representative is caught by its difference to the modulus alone
    assert case.outside("wide") == ["wide.f[1][18]"]


@pytest.mark.slow
def test_inverse_cdf() -> None:
    table = TINY.table
    edges = [
        0,
        1,
        (1 << 111) - 1,
        1 << 111,
        (1 << 112) - 1,
        table.cdf(-1),
        table.cdf(-1) - 1,
        table.cdf(700),
        table.cdf(9) - 1,
    ]
    rng = random.Random(9)
    for uniform in edges + [rng.getrandbits(112) for _ in range(6)]:
        case = Case(6, uniform=uniform)
        assert not case.outside("cdf")
        assert case.get("z") == noise.inverse_cdf(table, uniform)
        # The next row of the table is refused by a limit, whatever its chunks.
        z = case.get("magnitude") + 1
        if z <= table.cut:
            case.edits = {"magnitude": z, "before": table.cdf(z - 1), "upto": table.cdf(z)}
            assert case.outside("cdf")


@pytest.mark.slow
def test_exact_range_ends_at_its_bits() -> None:
    case = Case(9)
    for number, fits in ((0, True), (4095, True), (4096, False), (4097, False), ((1 << 18) - 1, False)):
        case.number = number
        assert (not case.outside("exact")) == fits, number
    case.number = 1 << 12
    assert case.outside("exact") == ["exact.f[2]"]  # the scaled chunk alone: plain chunks would take 18 bits


@pytest.mark.slow
def test_increasing() -> None:
    case = Case(10)
    case.sequence = [5, 6, 6 + (1 << 18)]
    assert not case.outside("order")
    for sequence in ([5, 5, 9], [5, 9, 8], [5, 6, 7 + (1 << 18)]):
        case.sequence = sequence
        assert case.outside("order"), sequence


@pytest.mark.slow
def test_every_wire_is_held_by_a_row() -> None:
    """Any one wire of an honest witness edited, inputs, outputs and quotients alike: the rows notice."""
    case = Case(11)
    assert_edits_break(parts(), case.witness(), lambda w: False)


@pytest.mark.slow
def test_every_wire_of_the_statement_is_held_by_a_row() -> None:
    """But the blinder, and w where H is the bound that fails: no score can be in the way of such a slot."""
    r1cs = compiled(TINY)
    d = NoiseSetting(TINY, r1cs).honest(31)
    free = {f"w[{i}]" for i in range(d.cls.N) if d.x[i] + d.b[i] - d.entry + 1 + d.steps == 0}
    witness = r1cs.solve(d.inputs())
    assert_edits_break(r1cs, witness, lambda w: r1cs.names[w] in free | {"blind"})


def assert_edits_break(r1cs: R1cs, witness: list[int], free: Callable[[int], bool]) -> None:
    for w in range(1, r1cs.wires):
        if free(w):
            continue
        for delta in (1, P - 1):
            edited = witness[w]
            witness[w] = (edited + delta) % P
            noticed = any(not r1cs.holds(i, witness) for i in r1cs.rows_of[w])
            witness[w] = edited
            assert noticed, f"{r1cs.names[w]} + {delta}"


# Factors of a row may be exchanged: the same rows hold, and provers pay less.


Rows = list[tuple[bytes, bytes, bytes]]


def rows(system: ConstraintSystem) -> Rows:
    return [(bytes(a), bytes(b), bytes(c)) for a, b, c in system.forms()]


def test_the_rule(tmp_path: Path) -> None:
    circuit = Circuit(6, 2, 1, rows=[
        ({1: 1, 2: 1}, {3: 1}, {4: 1}),  # several and one
        ({3: 1}, {1: 1, 2: 1}, {4: 1}),  # one and several
        ({1: 1}, {2: 1}, {4: 1}),  # one each
        ({1: 1, 2: 1}, {3: 1, 4: 1}, {5: 1}),  # several each
        ({}, {3: 1}, {4: 1}),
        ({1: 1, 2: 1}, {}, {4: 1}),
    ])  # fmt: skip
    path = circuit.write(tmp_path / "c.r1cs")
    before = rows(read_r1cs(path))
    assert orient(path) == 1
    (a, b, c), *rest = before
    assert rows(read_r1cs(path)) == [(b, a, c), *rest]
    assert orient(path) == 0


def test_other_sections_stay(tmp_path: Path) -> None:
    path = product_circuit().write(tmp_path / "c.r1cs")
    before = read_r1cs(path).file.sections
    assert orient(path) == 3
    after = read_r1cs(path).file.sections
    assert list(after) == list(before)
    assert all(after[kind] == before[kind] for kind in before if kind != 2)


@pytest.mark.slow
def test_a_build_has_the_compilers_rows_exchanged_or_not(tmp_path: Path) -> None:
    """All of a class's, in their order; far fewer wires are left in B."""
    cls = TINY
    circuit = circuit_of(cls)
    compile_main(circuit.main, tmp_path, find_compiler(), [*circuit.sources, _constants()], circuit.noun)
    plain, built = read_r1cs(tmp_path / f"{circuit.noun}.r1cs"), read_r1cs(build(cls, CACHE).r1cs)
    exchanged = 0
    for (a, b, c), row in zip(rows(plain), rows(built), strict=True):
        assert row in ((a, b, c), (b, a, c))
        exchanged += row != (a, b, c)
    assert exchanged > plain.rows / 2
    assert orient(tmp_path / f"{circuit.noun}.r1cs") == exchanged

    def in_b(system: ConstraintSystem) -> int:
        return len(set(system.matrices[1][1]["wire"].tolist()))

    assert in_b(built) < 0.75 * in_b(plain)


def test_old_and_new_keys_prove_the_same_statement(tmp_path: Path) -> None:
    """From both files come the same wires, and under each key's proof the same public inputs hold and no others."""
    plain, oriented = product_circuit().write(tmp_path / "p.r1cs"), product_circuit().write(tmp_path / "o.r1cs")
    assert orient(oriented) == 3
    public, found = INPUTS[: 4 * 32], set()
    for r1cs in (plain, oriented):
        native.setup(r1cs, tmp_path / "c.zkey")
        key, witness = native.ProvingKey.load(tmp_path / "c.zkey"), native.R1cs.load(r1cs).solve(INPUTS)
        found.add(witness.bytes())
        proof = key.prove(witness)
        key.verifying_key().verify(proof, public, b"")
        with pytest.raises(native.NativeError, match="does not verify"):
            key.verifying_key().verify(proof, public[:-32] + bytes(32), b"")
    assert len(found) == 1
