# SPDX-License-Identifier: GPL-3.0-or-later
"""The estimate's circuit, row by row: honest blocks hold, false ones break a row, r reads committed wires only.

Witnesses come from the tests' own solver (r1cs.py), never from the native module.
"""

from __future__ import annotations

import random
import re
from functools import cache

import pytest

from ragseal.circuits import stats
from ragseal.circuits.build import build
from ragseal.circuits.circuit import circuit_of, class_digest, fitting
from ragseal.circuits.search import count_rows
from ragseal.kernel.estimate_class import CLASSES, RANGE_BITS, near_unit, quadratic_form, side
from tests.circuits.r1cs import P, R1cs, read
from tests.circuits.scene import CACHE

SIZE = CLASSES["estimate-6"]
THRESHOLD, LOW, HIGH = 12_904, 13_737, 18_713


@cache
def circuit() -> R1cs:
    built = build(SIZE, CACHE)
    return read(built.r1cs, built.sym)


def bits(value: int) -> list[int]:
    return [(value >> j) & 1 for j in range(RANGE_BITS - 1)]


class Block:
    """Inputs of one honest block, to be edited; bits are those of the values as they stand when asked for."""

    def __init__(self, number: int, held: int = SIZE.n) -> None:
        rng = random.Random(number)
        self.r = [rng.getrandbits(248) if a < held else 0 for a in range(SIZE.n)]
        self.present = [int(a < held) for a in range(SIZE.n)]
        self.norms = [rng.choice([LOW, HIGH, rng.randint(LOW, HIGH)]) for _ in range(SIZE.n)]
        near = [THRESHOLD - 1, THRESHOLD, -HIGH, HIGH]
        self.products = [rng.choice([*near, rng.randint(-HIGH, HIGH)]) for _ in range(SIZE.pairs)]
        self.signs = [
            0 if b >= held or rng.random() < 0.2 else 1 if x < THRESHOLD else -1
            for (_, b), x in zip(SIZE.order, self.products, strict=True)
        ]
        for a in range(held, SIZE.n):
            self.norms[a] = 0
        self.edits: dict[str, int] = {}

    def inputs(self) -> dict[int, int]:
        units = [near_unit(p, LOW, HIGH, x) for p, x in zip(self.present, self.norms, strict=True)]
        sides = [side(s, THRESHOLD, x) for s, x in zip(self.signs, self.products, strict=True)]
        flat = [
            THRESHOLD, LOW, HIGH, *self.r, *self.present, *self.signs, 77, *self.norms, *self.products,
            quadratic_form(self.r, self.norms, self.products),
            *(b for low, _ in units for b in bits(low)),
            *(b for _, high in units for b in bits(high)),
            *(b for x in sides for b in bits(x)),
        ]  # fmt: skip
        values = dict(zip(circuit().inputs, (x % P for x in flat), strict=True))
        return values | {circuit().wire_of[name]: x % P for name, x in self.edits.items()}

    def broken(self) -> set[str]:
        """Names of the wires of every row that the completed witness violates."""
        found = circuit().violations(circuit().solve(self.inputs()))
        return {re.sub(r"\[\d+\]|_\d+_\d+", "", name) for row in found for name in circuit().row_names(row)} - {"one"}


@pytest.mark.parametrize("held", [SIZE.n, 4, 1])
@pytest.mark.parametrize("number", range(3))
def test_honest_blocks_hold(number: int, held: int) -> None:
    assert not Block(number, held).broken()


def pair(block: Block, sign: int) -> int:
    return block.signs.index(sign)


@pytest.mark.parametrize(("sign", "product"), [(1, THRESHOLD), (1, HIGH), (-1, THRESHOLD - 1), (-1, -HIGH)])
def test_a_product_on_the_other_side(sign: int, product: int) -> None:
    """Whatever bits are put in: with those of any number, the highest bit is none."""
    block = Block(1)
    at = pair(block, sign)
    block.products[at] = product
    assert block.broken()
    for bits_of in (0, 1, 32_767, side(sign, THRESHOLD, product) % (1 << 15)):
        block.edits = {f"productBits[{at}][{j}]": b for j, b in enumerate(bits(bits_of))}
        assert block.broken(), bits_of


def test_a_sign_turned() -> None:
    for sign in (1, -1):
        block = Block(2)
        block.signs[pair(block, sign)] = -sign
        assert block.broken()


@pytest.mark.parametrize("norm", [LOW - 1, HIGH + 1, 0, P - 1])
def test_a_norm_outside(norm: int) -> None:
    block = Block(3)
    block.norms[2] = norm
    assert block.broken()


def test_a_distance_that_would_wrap() -> None:
    """Values far away cannot pose as small ones: 2^16 and the field's half are refused with any boolean bits."""
    for far in (1 << 16, P // 2, P - (1 << 40)):
        block = Block(4)
        at = pair(block, 1)
        block.products[at] = (THRESHOLD - 1 - far) % P
        rng = random.Random(5)
        for _ in range(20):
            block.edits = {f"productBits[{at}][{j}]": rng.getrandbits(1) for j in range(15)}
            assert block.broken()


def test_bits_are_boolean() -> None:
    """A distance of 2^16 as 2 * 2^15 needs a bit of 2 somewhere: every position is checked."""
    for j in range(15):
        block = Block(6)
        at = pair(block, 1)
        block.products[at] = THRESHOLD - 1 - 2 * 2**j
        block.edits = {f"productBits[{at}][{i}]": 2 * int(i == j) for i in range(15)}
        assert block.broken(), j
        block.edits = {f"productBits[{at}][{i}]": b for i, b in enumerate(bits(2 * 2**j))}
        assert not block.broken(), j


def test_another_form() -> None:
    block = Block(7)
    block.edits = {"s": quadratic_form(block.r, block.norms, block.products) + 1}
    assert block.broken() >= {"s"}


@pytest.mark.parametrize("what", ["norms", "products"])
def test_every_committed_value_is_in_the_form(what: str) -> None:
    """A changed value under the old s breaks a row, whichever it is; free pairs and records included."""
    honest = Block(8)
    form = quadratic_form(honest.r, honest.norms, honest.products)
    for at in range(len(getattr(honest, what))):
        block = Block(8)
        values = getattr(block, what)
        values[at] += 1 if values[at] not in (THRESHOLD - 1, HIGH) else -1
        block.edits = {"s": form}
        assert "s" in block.broken(), at


def test_positions_without_a_record_are_free_and_count_for_nothing() -> None:
    block = Block(9, held=3)
    before = quadratic_form(block.r, block.norms, block.products)
    block.norms[4] = 123_456_789
    block.products[SIZE.order.index((1, 5))] = -987_654_321
    assert quadratic_form(block.r, block.norms, block.products) == before
    assert not block.broken()


# --- what r reads ----------------------------------------------------------------------------------------------------


def test_r_reads_committed_wires_only() -> None:
    """Rows that hold r, or anything made from it, hold besides nothing but norms, products and s: all committed."""
    r1cs = circuit()
    tainted = r1cs.named(r"r\[\d+\]")
    committed = r1cs.named(r"(norm|product)\[\d+\]|s")
    while True:
        rows = {i for w in tainted for i in r1cs.rows_of[w]}
        met = {w for i in rows for form in r1cs.rows[i] for w, _ in form} - {0} - committed
        if met == tainted:
            break
        assert all("QuadraticForm" in r1cs.names[w] or r1cs.names[w] == "form" for w in met - tainted), sorted(
            r1cs.names[w] for w in met - tainted
        )
        tainted = met


def test_bits_are_determined_by_what_is_committed() -> None:
    """Every private input is a bit of a distance: boolean, and in no other row than its own and the highest bit's."""
    r1cs = circuit()
    private = r1cs.named(r"(lowBits|highBits|productBits)\[\d+\]\[\d+\]")
    assert len(private) == r1cs.private
    for w in private:
        assert len(r1cs.rows_of[w]) == 2, r1cs.names[w]


def test_everything_else_follows_from_the_inputs() -> None:
    r1cs = circuit()
    reached = {w for _, w in r1cs.plan(set(r1cs.inputs))}
    assert set(r1cs.inputs) | reached == set(range(1, r1cs.wires))


def test_every_committed_input_is_used() -> None:
    """Norms, products and s each stand in a row; the blinder in none."""
    r1cs = circuit()
    assert all(
        r1cs.rows_of[w] for w in r1cs.named(r"(norm|product|r|sign|present)\[\d+\]|s|threshold|normLow|normHigh")
    )
    assert not r1cs.rows_of[r1cs.wire_of["blind"]]


def test_nothing_is_assigned_freely_in_the_source() -> None:
    text = re.sub(r"//.*", "", circuit_of(SIZE).sources[0].read_text(encoding="utf-8"))
    for forbidden in ("<--", "-->", "assert"):
        assert forbidden not in text


# --- the build -------------------------------------------------------------------------------------------------------


def test_order_of_inputs_is_the_kernels() -> None:
    names = [circuit().names[w].split("[")[0] for w in circuit().inputs]
    order = ("threshold", "normLow", "normHigh", "r", "present", "sign", "blind", "norm", "product", "s", "lowBits",
             "highBits", "productBits")  # fmt: skip
    assert tuple(dict.fromkeys(names)) == order
    assert names.index("blind") == SIZE.blind_at == SIZE.clear
    assert names.index("norm") == SIZE.products_at
    assert names.index("s") == SIZE.form_at
    assert circuit().public == SIZE.public


def test_stats_are_current_and_fit_the_domain() -> None:
    lines = stats.read()
    assert [lines[name] for name in CLASSES] == [stats.line(cls) for cls in CLASSES.values()]
    assert stats.measured(build(SIZE, CACHE)) == stats.line(SIZE)
    assert count_rows(SIZE).constraints == len(circuit().rows)
    large = count_rows(CLASSES["estimate-112"])
    assert large.rows <= large.domain == 1 << 17


def test_digests_are_the_estimates_own() -> None:
    assert len({class_digest(cls) for cls in CLASSES.values()}) == len(CLASSES)
    assert fitting("noise-tiny-two") == SIZE
    assert fitting("noise-small-two-50").n == 112
    assert "Estimate(6)" in circuit_of(SIZE).main
