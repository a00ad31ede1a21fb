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

from ragseal.circuits.build import cached
from ragseal.circuits.circuit import HERE, circuit_of, load_classes, sources
from ragseal.kernel import fixedpoint, mechanism, noise, statement
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.poseidon import permute, poseidon
from tests.circuits.drafts import Setting
from tests.circuits.r1cs import P, R1cs, read
from tests.circuits.scene import CACHE

pytestmark = pytest.mark.slow

C = 9  #: chunk bits of parts.circom
FINE, S = 120, 4
TWINS = tomllib.loads((HERE / "twins.toml").read_text(encoding="utf-8"))


@cache
def parts() -> R1cs:
    tiny = circuit_of(load_classes()["tiny"])
    tables = tiny.main.split("component main")[0]
    template = (Path(__file__).parent / "parts.circom").read_text(encoding="utf-8")
    main = f"{tables}\n{template}\ncomponent main = Parts();\n"
    folder = cached(replace(tiny, main=main, relations=()), "test-parts", CACHE)  # nothing of it is committed to
    return read(folder / "attestation.r1cs", folder / "attestation.sym")


def split(value: int, count: int, c: int = C) -> list[int]:
    """Low chunks of a value, the highest left out."""
    return [(value >> (c * j)) & ((1 << c) - 1) for j in range(count - 1)]


class Case:
    """Inputs of parts.circom for one honest instance, to be edited."""

    def __init__(self, number: int, uniform: int | None = None, w: int | None = None, value: int | None = None) -> None:
        rng = self.rng = random.Random(number)
        self.seed = (rng.getrandbits(128), rng.getrandbits(128))
        self.beacon, self.ctx, self.salt = (rng.getrandbits(248) for _ in range(3))
        self.key = mechanism.noise_key(self.seed, self.beacon, self.ctx)
        self.slot = rng.randrange(100)
        self.table = noise.build_table("gaussian")
        self.alpha, self.beta = rng.getrandbits(250), rng.getrandbits(250)
        self.message = [rng.randrange(P), rng.randrange(P)]
        self.returned = sorted(rng.getrandbits(100) for _ in range(3))
        self.elements = permute([0, self.key, 3 << 32] + [0] * 14)[1:3]
        self.element = mechanism.fine_element(self.key, self.slot)
        self.coarse_bits = rng.getrandbits(8)
        self.hmax = 1000
        self.w = rng.randrange(-3000, 5000) if w is None else w
        self.value = rng.randrange(-(1 << 27), 1 << 27) if value is None else value
        self.sequence = sorted(rng.sample(range(1 << 18), 3))
        self.number = rng.getrandbits(12)
        self.uniform = uniform
        self.edits: dict[str, int] = {}

    def inputs(self) -> dict[int, int]:
        v: dict[str, list[int]] = {}
        v["alpha"], v["beta"], v["seed"], v["beacon"] = [self.alpha], [self.beta], [*self.seed], [self.beacon]
        v["ctx"], v["salt"], v["returned"], v["message"] = [self.ctx], [self.salt], self.returned, self.message
        for name in ("u", "filler", "top", "difference"):
            v[name] = []
        for e in self.elements:
            v["u"] += [(e >> (8 * j)) & 255 for j in range(18)]
            v["filler"] += [(e >> (144 + C * j)) & ((1 << C) - 1) for j in range(7)]
            v["top"] += split(e >> 207, 6)
            v["difference"] += split((P >> 207) - 1 - (e >> 207), 6)
        e = self.element
        fine = e & ((1 << FINE) - 1)
        v["slot"], v["dither"] = [self.slot], [(e >> FINE) & 15]
        v["placeFiller"] = [(e >> (FINE + S + C * j)) & ((1 << C) - 1) for j in range(6)]
        v["placeTop"], v["placeDifference"] = split(e >> 178, 9), split((P >> 178) - 1 - (e >> 178), 9)
        coarse = self.coarse_bits
        if self.uniform is not None:
            coarse, fine = self.uniform >> FINE, self.uniform & ((1 << FINE) - 1)
        v["fine"] = [*split(fine, 14), fine >> (C * 13)]
        sign, folded = noise.reflect(self.table, (coarse << FINE) | fine)
        z = noise.inverse_cdf(self.table, folded)
        before, upto = self.table.cdf(z - 1), self.table.cdf(z)
        v["coarseBits"], v["sign"], v["magnitude"], v["before"], v["upto"] = [coarse], [sign], [z], [before], [upto]
        v["below"], v["above"] = split(folded - before, 15), split(upto - 1 - folded, 15)
        w, low, high = self.w, int(self.w <= 0), int(self.w > self.hmax)
        v["w"], v["hmax"], v["isLow"], v["isHigh"] = [w], [self.hmax], [low], [high]
        v["low0"] = split(-w if low else w - 1, 2)
        v["high0"] = split(w - self.hmax - 1 if high else self.hmax - w, 2)
        bit = int(self.value >= 0)
        v["value"], v["bit"], v["low"] = [self.value], [bit], split(self.value if bit else -1 - self.value, 3)
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
    "alpha", "beta", "seed", "beacon", "ctx", "salt", "returned", "message", "u", "filler", "top", "difference", "slot",
    "fine", "dither", "placeFiller", "placeTop", "placeDifference", "coarseBits", "sign", "magnitude", "before", "upto",
    "below", "above", "w", "hmax", "isLow", "isHigh", "low0", "high0", "value", "bit", "low", "number", "numberLow",
    "sequence", "sequenceLow",
)  # fmt: skip


def test_input_order_is_the_circuits() -> None:
    names = [parts().names[w].split("[")[0] for w in parts().inputs]
    assert tuple(dict.fromkeys(names)) == INPUT_ORDER


def test_every_template_has_a_twin() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (*sources(), *circuit_of(CLASSES["estimate-6"]).sources)]
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


@pytest.mark.parametrize("number", range(3))
def test_honest_parts_hold(number: int) -> None:
    case = Case(number)
    assert not parts().violations(case.witness())
    for component in ("coarse", "element", "cdf", "clip", "compare", "exact", "order"):
        assert not case.outside(component), component


def test_coarse_elements() -> None:
    """The chunks are in range exactly for the bits of the kernel's elements."""
    case = Case(4)
    for wire, component in (("u[1][3]", "coarse"), ("filler[0][2]", "coarse"), ("top[1][0]", "coarse")):
        case.edits = {wire: case.inputs()[parts().wire_of[wire]] ^ 1}
        assert case.outside(component), wire
    case.edits = {}
    case.elements[1] += P  # the other representative is caught by its difference to the modulus alone
    assert case.outside("coarse") == ["coarse.f[1][18]"]


def test_fine_element() -> None:
    case = Case(5)
    for wire in ("fine[0]", "fine[13]", "dither", "placeFiller[3]", "placeTop[2]", "slot"):
        case.edits = {wire: case.inputs()[parts().wire_of[wire]] ^ 1}
        assert case.outside("element"), wire
    case.edits = {"dither": 16 + case.inputs()[parts().wire_of["dither"]]}  # in the chunk, beyond the 4 bits
    assert "element.f[40]" in case.outside("element")
    case.edits = {"fine[13]": 8 + case.inputs()[parts().wire_of["fine[13]"]]}
    assert "element.f[39]" in case.outside("element")
    case.edits = {}
    case.element += P
    assert case.outside("element") == ["element.f[38]"]


def test_inverse_cdf() -> None:
    table = noise.build_table("gaussian")
    edges = [
        0,
        1,
        (1 << 127) - 1,
        1 << 127,
        (1 << 128) - 1,
        table.cdf(-1),
        table.cdf(-1) - 1,
        table.cdf(700),
        table.cdf(9) - 1,
    ]
    rng = random.Random(9)
    for uniform in edges + [rng.getrandbits(128) for _ in range(6)]:
        case = Case(6, uniform=uniform)
        assert not case.outside("cdf")
        assert case.get("z") == noise.inverse_cdf(table, uniform)
        # The next row of the table is refused by a limit, whatever its chunks.
        z = case.get("magnitude") + 1
        if z <= table.cut:
            case.edits = {"magnitude": z, "before": table.cdf(z - 1), "upto": table.cdf(z)}
            assert case.outside("cdf")


@pytest.mark.parametrize("w", [-(1 << 17), -1, 0, 1, 999, 1000, 1001, 1 << 17])
def test_clip(w: int) -> None:
    case = Case(7, w=w)
    assert not case.outside("clip")
    assert case.get("clipped") == fixedpoint.clip(w, case.hmax)
    for bit in ("isLow", "isHigh"):
        other = 1 - case.inputs()[parts().wire_of[bit]]
        case.edits = {bit: other}
        assert case.outside("clip"), bit


@pytest.mark.parametrize("value", [-(1 << 27), -1, 0, 1, (1 << 27) - 1])
def test_is_non_negative(value: int) -> None:
    case = Case(8, value=value)
    assert not case.outside("compare")
    case.edits = {"bit": int(value < 0)}
    assert case.outside("compare")


def test_exact_range_ends_at_its_bits() -> None:
    case = Case(9)
    for number, fits in ((0, True), (4095, True), (4096, False), (4097, False), ((1 << 18) - 1, False)):
        case.number = number
        assert (not case.outside("exact")) == fits, number
    case.number = 1 << 12
    assert case.outside("exact") == ["exact.f[2]"]  # the scaled chunk alone: plain chunks would take 18 bits


def test_increasing() -> None:
    case = Case(10)
    case.sequence = [5, 6, 6 + (1 << 18)]
    assert not case.outside("order")
    for sequence in ([5, 5, 9], [5, 9, 8], [5, 6, 7 + (1 << 18)]):
        case.sequence = sequence
        assert case.outside("order"), sequence


def test_every_wire_is_held_by_a_row() -> None:
    """Any one wire of an honest witness edited, inputs, outputs and quotients alike: the rows notice."""
    case = Case(11)
    assert_edits_break(parts(), case.witness(), lambda w: False)


def test_every_wire_of_the_statement_is_held_by_a_row(setting: Setting) -> None:
    """But the blinder, and w where H is the bound that fails: no score can be in the way of such a slot."""
    r1cs, d = setting.r1cs, setting.honest(31)
    free = {f"w[{i}]" for i in range(d.cls.N) if d.x[i] + d.b[i] - d.threshold + 1 + d.hmax == 0}
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
