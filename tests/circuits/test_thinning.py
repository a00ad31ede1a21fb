# SPDX-License-Identifier: GPL-3.0-or-later
"""The thinning's circuit, row by row: honest indices hold, false ones break a row, no bit is free.

Witnesses come from the tests' own solver (r1cs.py) and coins from the tests' own Poseidon (tests/apart.py), so the
circuit, which has circomlib's constants in another form, and the kernel are both compared with a third computation.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache

import pytest

from ragseal.circuits import stats
from ragseal.circuits.build import build
from ragseal.circuits.circuit import circuit_of, class_digest, load_classes, parameters, thinning_classes
from ragseal.circuits.search import count_rows
from ragseal.groth16.assignments import assign_thinning
from ragseal.kernel import coin, field
from ragseal.kernel.thinning import ThinningClass, thinning_class
from tests import apart
from tests.circuits.r1cs import P, R1cs, read
from tests.circuits.scene import CACHE

pytestmark = pytest.mark.slow

SIZE = thinning_class(126)  #: five elements, 22 coins in the last one
LONGER = thinning_class(430)  #: 17 elements: a second block, of one element, with 14 coins in use
PER, COINS, TOP = 26, 208, 46
LIMIT = P >> COINS
PRIVATE = ("coin", "top", "gap", "distance")


@cache
def circuit(cls: ThinningClass = SIZE) -> R1cs:
    built = build(cls, CACHE)
    return read(built.r1cs, built.sym)


@cache
def elements(seed: tuple[int, int], context: int, count: int) -> list[int]:
    """The elements of coins, with the tests' own Poseidon."""
    key = apart.poseidon(7, *seed, context)
    out: list[int] = []
    for block in range(-(-count // 16)):
        out += apart.permuted([0, key, block + 8 * 2**32] + [0] * 14)[1:]
    return out[:count]


def bits(value: int, count: int) -> list[int]:
    return [(value >> j) & 1 for j in range(count)]


class Index:
    """Inputs of one honest thinning, to be edited."""

    def __init__(self, number: int = 0, cls: ThinningClass = SIZE, eta: int = 60) -> None:
        rng = random.Random(number)
        self.cls, self.eta = cls, eta
        self.seed = (rng.getrandbits(128), rng.getrandbits(128))
        self.context, self.blind = rng.getrandbits(248), rng.randrange(P)
        self.c_coin = apart.poseidon(6, *self.seed)
        self.elements = elements(self.seed, self.context, -(-cls.N // PER))
        self.coins = [(self.elements[i // PER] >> 8 * (i % PER)) & 255 for i in range(cls.N)]
        self.placed = [rng.choice([0, 1, P - 1, rng.randrange(P), rng.randrange(P)]) for _ in range(cls.N)]
        self.thinned = [0 if c < eta else w for c, w in zip(self.coins, self.placed, strict=True)]
        self.edits: dict[str, int] = {}

    def flat(self) -> list[int]:
        """Every input in wire order; bits are those of the coins, whatever was edited."""
        tops = [x >> COINS for x in self.elements]
        return [
            self.c_coin, self.context, self.eta, self.blind, *self.placed, *self.thinned, *self.seed,
            *(b for x in self.elements for b in bits(x, COINS)),
            *(b for top in tops for b in bits(top, TOP - 1)),
            *(b for top in tops for b in bits(LIMIT - 1 - top, TOP - 1)),
            *(b for c in self.coins for b in bits(c - self.eta, 8)),
        ]  # fmt: skip

    def inputs(self) -> dict[int, int]:
        r1cs = circuit(self.cls)
        values = dict(zip(r1cs.inputs, (x % P for x in self.flat()), strict=True))
        return values | {r1cs.wire_of[name]: x % P for name, x in self.edits.items()}

    def broken(self) -> set[str]:
        """Names of the wires of every row that the completed witness violates."""
        r1cs = circuit(self.cls)
        found = r1cs.violations(r1cs.solve(self.inputs()))
        return {re.sub(r"\[\d+\]", "", name) for row in found for name in r1cs.row_names(row)} - {"one"}

    def slot(self, hidden: bool) -> int:
        """One that is hidden, or not, and has something to lose."""
        return next(i for i, c in enumerate(self.coins) if (c < self.eta) == hidden and self.placed[i] > 1)

    def set_bits(self, name: str, at: int, value: int, count: int) -> None:
        self.edits |= {f"{name}[{at}][{j}]": b for j, b in enumerate(bits(value, count))}


@pytest.mark.parametrize("eta", [1, 13, 128, 255])
@pytest.mark.parametrize("number", range(2))
def test_honest_indices_hold(number: int, eta: int) -> None:
    index = Index(number, eta=eta)
    assert not index.broken()
    assert sum(c < eta for c in index.coins) > 0 or eta == 1


def test_a_second_block_holds() -> None:
    index = Index(3, LONGER)
    assert not index.broken()
    index.thinned[420] = (index.thinned[420] + 1) % P
    assert index.broken() >= {"thinned"}


@pytest.mark.parametrize("cls", [SIZE, LONGER])
def test_the_kernels_coins_are_these(cls: ThinningClass) -> None:
    index = Index(4, cls)
    assert coin.coin_elements(index.seed, index.context, cls.N) == index.elements
    assert coin.coins(index.seed, index.context, cls.N) == index.coins
    assert coin.coin_commitment(index.seed) == index.c_coin
    hidden = coin.hidden_slots(index.seed, index.context, cls.N, index.eta)
    assert hidden == [c < index.eta for c in index.coins]
    clear = (index.c_coin, index.context, index.eta)
    made = assign_thinning(cls, clear, index.placed, index.thinned, index.blind, index.seed)
    assert field.unpack(made.packed()) == index.flat()
    named = made.named(cls)
    assert set(named) == {name.split("[")[0] for name in (circuit(cls).names[w] for w in circuit(cls).inputs)}
    assert named["coin"][1] == [str(b) for b in bits(index.elements[1], COINS)]


# --- lies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [True, False])
def test_a_slot_against_its_coin(hidden: bool) -> None:
    """A hidden slot kept, a visible one hidden: no distance helps, and no other value of w'."""
    index = Index(5)
    at = index.slot(hidden)
    index.thinned[at] = index.placed[at] if hidden else 0
    assert index.broken() >= {"thinned", "placed"}
    r1cs = circuit()
    witness = r1cs.solve(index.inputs())
    wires = [r1cs.wire_of[f"distance[{at}][{j}]"] for j in range(8)]
    own = {i for w in wires for i in r1cs.rows_of[w]}
    for distance in range(256):
        for w, bit in zip(wires, bits(distance, 8), strict=True):
            witness[w] = bit
        assert not all(r1cs.holds(i, witness) for i in own), distance
    for other in (1, P - 1, 2 * index.placed[at] % P):
        again = Index(5)
        again.thinned[at] = other
        assert again.broken(), other


@pytest.mark.parametrize("hidden", [True, False])
def test_a_slot_in_part(hidden: bool) -> None:
    """With a distance that is too short by k a slot would stay k / 256 times: 256 times the document would be whole."""
    index = Index(15)
    at = index.slot(hidden)
    for k in (1, 128, 255):
        distance = (index.coins[at] - index.eta) % 256
        short = distance - k if distance >= k else distance + 256 - k
        index.set_bits("distance", at, short, 8)
        stays = (index.coins[at] - index.eta + 256 - short) * pow(256, -1, P) % P
        assert stays not in (0, 1)
        index.thinned[at] = stays * index.placed[at] % P
        assert index.broken() == {"coin", "distance", "eta"}, k


def test_another_value_in_a_visible_slot() -> None:
    index = Index(6)
    at = index.slot(False)
    index.thinned[at] += 1
    assert index.broken() >= {"thinned"}


def test_a_coin_bit_flipped() -> None:
    """With it the slot would be visible; nothing that the other bits could be makes up for it."""
    index = Index(7)
    at = index.slot(True)
    element, low = at // PER, 8 * (at % PER)
    for j in range(8):
        lying = Index(7)
        now = lying.coins[at] ^ 1 << j
        lying.edits = {f"coin[{element}][{low + j}]": (lying.coins[at] >> j & 1) ^ 1}
        lying.set_bits("distance", at, now - lying.eta, 8)
        if now >= lying.eta:
            lying.thinned[at] = lying.placed[at]
        assert lying.broken() & {"coin", "top"}, j
        higher = {f"top[{element}][{k}]": random.Random(k).getrandbits(1) for k in range(TOP - 1)}
        lying.edits |= higher
        assert lying.broken(), j


def test_every_bit_of_every_element_counts() -> None:
    """Those of coins that no slot has included: a flipped bit breaks the element's highest."""
    index = Index(8)
    last = len(index.elements) - 1
    for element, j in ((0, 0), (0, 207), (2, 100), (last, 8 * 22), (last, 207)):
        lying = Index(8)
        lying.edits = {f"coin[{element}][{j}]": 1 - (lying.elements[element] >> j & 1)}
        assert lying.broken() >= {"coin", "top"}, (element, j)
    for name, of in (("top", index.elements[last] >> COINS), ("gap", LIMIT - 1 - (index.elements[last] >> COINS))):
        lying = Index(8)
        lying.edits = {f"{name}[{last}][3]": 1 - (of >> 3 & 1)}
        assert lying.broken() >= {name}


@pytest.mark.parametrize("name", PRIVATE)
def test_bits_are_boolean(name: str) -> None:
    """Two more of one place and one less of the next add up to the same: with 2 and -1 a coin would be any number."""
    size = {"coin": COINS, "distance": 8}.get(name, TOP - 1)
    for j in (0, size // 2, size - 2):
        index = Index(14)
        values = {circuit().names[w]: x for w, x in zip(circuit().inputs, index.flat(), strict=True)}
        low, high = f"{name}[1][{j}]", f"{name}[1][{j + 1}]"
        index.edits = {low: values[low] + 2, high: values[high] - 1}
        broken = index.broken()
        assert name in broken
        if name != "coin":  # the coins' own numbers change with theirs
            assert broken == {name}, j


@pytest.mark.parametrize("where", ["first", "last"])
def test_an_element_by_its_other_bits(where: str) -> None:
    """element + r has 254 bits too for one element in three, and other coins: the gap refuses it."""
    at = 0 if where == "first" else len(Index().elements) - 1
    number = next(n for n in range(100) if Index(n).elements[at] + P < 1 << 254)
    index = Index(number)
    other = index.elements[at] + P
    index.set_bits("coin", at, other, COINS)
    index.set_bits("top", at, other >> COINS, TOP - 1)
    slots = range(PER * at, min(PER * (at + 1), SIZE.N))
    for i in slots:
        now = other >> 8 * (i % PER) & 255
        index.set_bits("distance", i, now - index.eta, 8)
        index.thinned[i] = 0 if now < index.eta else index.placed[i]
    rng = random.Random(9)
    for gap in (LIMIT - 1 - (other >> COINS), 0, (1 << TOP) - 1, *(rng.getrandbits(TOP) for _ in range(5))):
        index.set_bits("gap", at, gap, TOP - 1)
        broken = index.broken()
        assert "gap" in broken
        assert not broken & {"distance", "placed", "top"}, "nothing but the gap is at fault"


@pytest.mark.parametrize(("top", "held"), [(0, True), (LIMIT - 1, True), (LIMIT, False)])
def test_tops_up_to_the_modulus_less_one(top: int, held: bool) -> None:
    """An element that were just that: its own rows, the permutation's left aside."""
    r1cs, index, at = circuit(), Index(10), 1
    low = random.Random(11).getrandbits(200)
    value = low + (top << COINS)
    assert value < P
    index.set_bits("coin", at, low, COINS)
    index.set_bits("top", at, top, TOP - 1)
    index.set_bits("gap", at, LIMIT - 1 - top, TOP - 1)
    witness = r1cs.solve(index.inputs())
    own = {i for name in ("coin", "top", "gap") for w in r1cs.named(rf"{name}\[{at}\]\[\d+\]") for i in r1cs.rows_of[w]}
    own = {i for i in own if not any("distance" in name for name in r1cs.row_names(i))}
    last = next(w for i in sorted(own) for w, _ in r1cs.rows[i][0] if "core.last" in r1cs.names[w])
    (highest,) = [i for i in own if any(w == last for w, _ in r1cs.rows[i][0]) and "gap" not in str(r1cs.row_names(i))]
    scale = next(k for w, k in r1cs.rows[highest][0] if w == last)
    now = sum(k * witness[w] for w, k in r1cs.rows[highest][0]) % P
    # the row's first factor is (element - bits) / 2^253 up to a constant; make it what the top's highest bit is
    inverse = pow(2, -(COINS + TOP - 1), P)
    unit = next(u for u in (1, P - 1) if scale * u % P in _matrix_entries(at, inverse))
    witness[last] = (witness[last] + ((top >> (TOP - 1)) * unit - now) * pow(scale, -1, P)) % P
    assert all(r1cs.holds(i, witness) for i in own) == held


def _matrix_entries(element: int, scale: int) -> set[int]:
    """Coefficients that the permutation's outputs have in the highest bit of an element."""
    _, matrix = apart.parameters(17)
    return {x * scale % P for x in matrix[element + 1]}


@pytest.mark.parametrize("eta", [P - 5, 1 << 20, 600, P // 2])
def test_a_share_far_out_of_range(eta: int) -> None:
    """Whatever the distances are said to be; 1..255 is what the clear statement allows."""
    index = Index(12)
    index.eta = eta
    assert index.broken() >= {"eta"}
    for at in range(SIZE.N):
        index.set_bits("distance", at, 0, 8)
    assert index.broken() >= {"eta"}


@pytest.mark.parametrize("name", ["c_coin", "context", "s_hi", "s_lo"])
def test_another_seed_or_context(name: str) -> None:
    index = Index(13)
    values = dict(zip((circuit().names[w] for w in circuit().inputs), index.flat(), strict=True))
    index.edits = {name: values[name] + 1}
    assert index.broken()


# --- nothing is free -------------------------------------------------------------------------------------------------


def _boolean(r1cs: R1cs, wire: int) -> bool:
    """Some row is x (x - 1) = 0, up to signs."""
    for i in r1cs.rows_of[wire]:
        a, b, c = (dict(form) for form in r1cs.rows[i])
        if not c and {frozenset(a), frozenset(b)} == {frozenset({wire}), frozenset({0, wire})}:
            form = a if 0 in a else b
            if (form[0] + form[wire]) % P == 0:
                return True
    return False


def test_every_private_input_but_the_seed_is_a_bit() -> None:
    r1cs = circuit()
    private = r1cs.named(rf"({'|'.join(PRIVATE)})\[\d+\]\[\d+\]")
    assert len(private) == r1cs.private - 2
    assert all(_boolean(r1cs, w) for w in private)


def test_rows_that_a_bit_is_in() -> None:
    """Its own; the highest of its top, or gap, or both; of a coin in use: the distance's highest, and the product."""
    r1cs = circuit()
    for i in range(len(Index().elements)):
        for j in range(COINS):
            used = PER * i + j // 8 < SIZE.N
            assert len(r1cs.rows_of[r1cs.wire_of[f"coin[{i}][{j}]"]]) == (5 if used else 3)
        for j in range(TOP - 1):
            assert len(r1cs.rows_of[r1cs.wire_of[f"top[{i}][{j}]"]]) == 2
            assert len(r1cs.rows_of[r1cs.wire_of[f"gap[{i}][{j}]"]]) == 2
    for i in range(SIZE.N):
        assert all(len(r1cs.rows_of[r1cs.wire_of[f"distance[{i}][{j}]"]]) == 3 for j in range(8))


def test_scores_are_in_the_product_alone_and_the_blinder_nowhere() -> None:
    r1cs = circuit()
    for i in range(SIZE.N):
        (row,) = r1cs.rows_of[r1cs.wire_of[f"placed[{i}]"]]
        assert r1cs.rows_of[r1cs.wire_of[f"thinned[{i}]"]] == (row,)
    assert not r1cs.rows_of[r1cs.wire_of["blind"]]


def test_everything_else_follows_from_the_inputs() -> None:
    r1cs = circuit()
    reached = {w for _, w in r1cs.plan(set(r1cs.inputs))}
    assert set(r1cs.inputs) | reached == set(range(1, r1cs.wires))


def test_nothing_is_assigned_freely_in_the_source() -> None:
    text = re.sub(r"//.*", "", circuit_of(SIZE).sources[0].read_text(encoding="utf-8"))
    for forbidden in ("<--", "-->", "assert"):
        assert forbidden not in text


# --- the build -------------------------------------------------------------------------------------------------------


def test_order_of_inputs_is_the_kernels() -> None:
    r1cs = circuit()
    names = [r1cs.names[w].split("[")[0] for w in r1cs.inputs]
    order: Sequence[str] = ("c_coin", "context", "eta", "blind", "placed", "thinned", "s_hi", "s_lo", *PRIVATE)
    assert tuple(dict.fromkeys(names)) == tuple(order)
    at = [names.index(name) for name in ("placed", "thinned", "blind")]
    assert at == [SIZE.placed_at, SIZE.thinned_at, SIZE.blind_at]
    assert r1cs.public == SIZE.public


def test_stats_are_current() -> None:
    lines, sizes = stats.read(), thinning_classes()
    assert [lines[name] for name in sizes] == [stats.line(cls) for cls in sizes.values()]
    for cls in (SIZE, LONGER):
        assert stats.measured(build(cls, CACHE)) == stats.line(cls)
        assert count_rows(cls).constraints == len(circuit(cls).rows)


@pytest.mark.parametrize(("capacity", "domain"), [(126, 12), (2304, 16), (5184, 17), (15776, 19)])
def test_rows_fit_the_domain(capacity: int, domain: int) -> None:
    rows = count_rows(thinning_class(capacity))
    assert rows.rows <= rows.domain == 1 << domain
    assert capacity == 126 or rows.rows / capacity < 23.3


def test_there_is_a_size_for_every_class_of_decoys() -> None:
    assert {cls.N for cls in thinning_classes().values()} == {cls.N for cls in load_classes().values() if cls.coined}
    digests = {class_digest(cls) for cls in (*thinning_classes().values(), *load_classes().values())}
    assert len(digests) == len(thinning_classes()) + len(load_classes())
    assert parameters(SIZE) == {"name": "thinning-126", "N": 126}
    assert "Thinning(126)" in circuit_of(SIZE).main


def test_the_digest_covers_every_source() -> None:
    names = [path.name for path in circuit_of(SIZE).sources]
    assert names == ["thinning.circom", "constants.circom", "poseidon.circom"]
