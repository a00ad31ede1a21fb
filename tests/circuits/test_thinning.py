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
from ragseal.groth16.assignments import assign_thinning, coin_witness
from ragseal.kernel import coin, field
from ragseal.kernel.thinning_class import ThinningClass, thinning_class
from tests import apart
from tests.circuits.r1cs import P, R1cs, read
from tests.circuits.scene import CACHE

pytestmark = pytest.mark.slow

SIZE = thinning_class(126)  #: five elements, 22 coins in the last one
LONGER = thinning_class(430)  #: 17 elements: a second block, of one element, with 14 coins in use
PER, COINS, TOP = 26, 208, 46
LIMIT = P >> COINS
CHUNKS, BYTE = 5, 256
STARTS = [*(k << 40 for k in range(LIMIT >> 40)), LIMIT - (1 << 40)]
SLOTS, TOPS, BYTES = "slots", "tops", "bytes"
#: Rows of the three identities, by the names of their wires.
IDENTITIES = {SLOTS: ("slotTotal", "pairTotal"), TOPS: ("topTotal", "startTotal"), BYTES: ("byteTotal", "RangeTable")}


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


class Index:
    """What one honest prover commits to, to be edited; wires and numbers follow from it once it was."""

    def __init__(self, number: int = 0, cls: ThinningClass = SIZE, eta: int = 60) -> None:
        rng = random.Random(number)
        self.cls, self.eta = cls, eta
        self.seed = (rng.getrandbits(128), rng.getrandbits(128))
        self.context, self.blind = rng.getrandbits(248), rng.randrange(P)
        self.alpha, self.beta = rng.getrandbits(248), rng.getrandbits(248)
        self.c_coin = apart.poseidon(6, *self.seed)
        self.elements = elements(self.seed, self.context, -(-cls.N // PER))
        every = [x >> 8 * k & 255 for x in self.elements for k in range(PER)]
        self.coins, self.spare = every[: cls.N], every[cls.N :]
        self.hides = [int(c < eta) for c in self.coins]
        self.placed = [rng.choice([0, 1, P - 1, rng.randrange(P), rng.randrange(P)]) for _ in range(cls.N)]
        self.thinned = [0 if h else w for h, w in zip(self.hides, self.placed, strict=True)]
        self.products = [c * w for c, w in zip(self.coins, self.placed, strict=True)]
        self.chunks: list[list[int]] = []
        self.starts: list[int] = []
        for x in self.elements:
            start = next(s for s in STARTS if s <= x >> COINS < s + (1 << 40))
            self.starts.append(start)
            self.chunks.append([(x >> COINS) - start >> 8 * k & 255 for k in range(CHUNKS)])
        self.counted: dict[str, int] = {}
        self.edits: dict[str, int] = {}

    def coin(self, at: int, value: int) -> None:
        """Another coin, and what belongs to it."""
        self.coins[at], self.products[at] = value, value * self.placed[at]

    def masks(self) -> list[int]:
        return [sum(h << 8 * k for k, h in enumerate(self.hides[at : at + PER])) for at in range(0, self.cls.N, PER)]

    def bytes(self) -> list[int]:
        return [x for own in self.chunks for x in own] + self.spare

    def hints(self) -> list[int]:
        """With the numbers of what is in a table; of what is not there is none."""
        pairs = [(h, c) for h, c in zip(self.hides, self.coins, strict=True)]
        return [
            *self.masks(), *self.bytes(), *(self.starts.count(s) for s in STARTS),
            *(self.bytes().count(x) for x in range(BYTE)),
            *(pairs.count((h, c)) for h in range(2) for c in range(BYTE)),
        ]  # fmt: skip

    def flat(self) -> list[int]:
        """Every input in wire order."""
        b, slots = self.beta, zip(self.thinned, self.products, self.hides, self.coins, strict=True)
        mixed = [w - b * p + b**2 * h + b**3 * c for w, p, h, c in slots]
        return [
            self.c_coin, self.context, self.alpha, self.beta, self.blind, *self.placed, *mixed, *self.hints(),
            *self.seed,
        ]  # fmt: skip

    def inputs(self) -> dict[int, int]:
        r1cs = circuit(self.cls)
        values = dict(zip(r1cs.inputs, (x % P for x in self.flat()), strict=True))
        values |= {r1cs.wire_of[name]: (values[r1cs.wire_of[name]] + x) % P for name, x in self.counted.items()}
        return values | {r1cs.wire_of[name]: x % P for name, x in self.edits.items()}

    def broken(self) -> set[str]:
        """The identities that the completed witness violates; of every other row the names of its wires."""
        r1cs = circuit(self.cls)
        found: set[str] = set()
        for row in r1cs.violations(r1cs.solve(self.inputs())):
            names = r1cs.row_names(row)
            of = {name for name, totals in IDENTITIES.items() if any(n.startswith(totals) for n in names)}
            found |= of or {re.sub(r"\[\d+\]", "", name) for name in names}
        return found - {"one"}

    def slot(self, hidden: bool) -> int:
        """One that is hidden, or not, and has something to lose."""
        return next(i for i, h in enumerate(self.hides) if bool(h) == hidden and self.placed[i] > 1)


@pytest.mark.parametrize("eta", [1, 13, 128, 255])
@pytest.mark.parametrize("number", range(2))
def test_honest_indices_hold(number: int, eta: int) -> None:
    index = Index(number, eta=eta)
    assert not index.broken()
    assert sum(index.hides) > 0 or eta == 1


def test_a_second_block_holds() -> None:
    index = Index(3, LONGER)
    assert not index.broken()
    index.thinned[420] = (index.thinned[420] + 1) % P
    assert index.broken() == {SLOTS, TOPS}


@pytest.mark.parametrize("cls", [SIZE, LONGER])
def test_the_kernels_coins_are_these(cls: ThinningClass) -> None:
    index = Index(4, cls)
    assert coin.coin_elements(index.seed, index.context, cls.N) == index.elements
    assert coin.coins(index.seed, index.context, cls.N) == index.coins
    assert coin.coin_commitment(index.seed) == index.c_coin
    hidden = coin.hidden_slots(index.seed, index.context, cls.N, index.eta)
    assert hidden == [c < index.eta for c in index.coins]
    clear = (index.c_coin, index.context, index.alpha, index.beta)
    own = coin_witness(cls, index.seed, index.context, index.eta)
    assert (list(own.coins), list(own.hides)) == (index.coins, index.hides)
    slots = index.thinned, index.products, own.hides, own.coins
    made = assign_thinning(cls, clear, index.placed, slots, (index.eta, own.hints), index.blind, index.seed)
    assert field.unpack(made.packed()) == [x % P for x in index.flat()]
    named = made.named(cls)
    assert set(named) == {name.split("[")[0] for name in (circuit(cls).names[w] for w in circuit(cls).inputs)}
    assert named["byte"][:CHUNKS] == [str(b) for b in index.chunks[0]]


def test_pairs_without_a_base_are_those_that_are_not_in_the_table() -> None:
    """What is committed to of their numbers is a window of all, from j on."""
    for eta in (1, 60, 255):
        index = Index(4, eta=eta)
        own = coin_witness(SIZE, index.seed, index.context, eta)
        based = range(eta, eta + BYTE)
        assert [(k // BYTE, k % BYTE) for k in based] == [
            *((0, c) for c in range(eta, BYTE)), *((1, c) for c in range(eta)),
        ]  # fmt: skip
        every = index.hints()[-2 * BYTE :]
        assert list(own.hints[-BYTE:]) == [every[k] for k in based]
        assert sum(own.hints[-BYTE:]) == SIZE.N


# --- lies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [True, False])
def test_a_slot_against_its_coin(hidden: bool) -> None:
    """Whatever is said of h, in full or in part, but for a pair that has no base."""
    index = Index(5)
    at = index.slot(hidden)
    index.thinned[at] = index.placed[at] if hidden else 0
    assert SLOTS in index.broken()
    for h in (2, P - 1, pow(256, -1, P)):
        lying = Index(5)
        lying.hides[at] = h
        lying.thinned[at] = (1 - h) * lying.placed[at] % P
        assert lying.broken() == {SLOTS}, h
    other = Index(5)
    other.hides[at] = 1 - other.hides[at]
    other.thinned[at] = (1 - other.hides[at]) * other.placed[at]
    assert not other.broken(), "the table is the verifier's: it has no base for this pair"
    assert other.hints()[-2 * BYTE :][other.hides[at] * BYTE + other.coins[at]] == 1
    assert not other.eta <= other.hides[at] * BYTE + other.coins[at] < other.eta + BYTE


@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("other", [1, P - 1, 7])
def test_another_value_in_a_slot(hidden: bool, other: int) -> None:
    index = Index(6)
    at = index.slot(hidden)
    index.thinned[at] = (index.thinned[at] + other) % P
    assert SLOTS in index.broken()


@pytest.mark.parametrize("change", [1, P - 1])
def test_another_product(change: int) -> None:
    index = Index(6)
    index.products[index.slot(True)] += change
    assert SLOTS in index.broken()


def test_a_coin_that_the_next_one_makes_up_for() -> None:
    """256 more of one and 1 less of the next are the same element: only the table of pairs is at fault."""
    for more in (256, -256):
        index = Index(7)
        at = next(i for i in range(SIZE.N) if i % PER < PER - 1 and 0 < index.coins[i + 1] < 255)
        index.coin(at, index.coins[at] + more)
        index.coin(at + 1, index.coins[at + 1] - more // 256)
        index.hides = [int(c < index.eta) for c in index.coins]
        index.thinned = [(1 - h) * w for h, w in zip(index.hides, index.placed, strict=True)]
        assert index.broken() == {SLOTS}


@pytest.mark.parametrize("where", ["first", "last"])
def test_a_coin_that_the_top_makes_up_for(where: str) -> None:
    """The top is then no number of 46 bits, whichever of its parts has the difference."""
    for part in ("start", "byte"):
        index = Index(7)
        at = 0 if where == "first" else SIZE.N - 1
        element, place = divmod(at, PER)
        now = (index.coins[at] + 1) % 256
        away = (index.coins[at] - now) * pow(2, 8 * place - COINS, P)
        index.coin(at, now)
        index.hides[at] = int(now < index.eta)
        index.thinned[at] = (1 - index.hides[at]) * index.placed[at]
        if part == "byte":
            index.chunks[element][0] += away
        else:
            index.starts[element] += away
        assert index.broken() == {TOPS if part == "start" else BYTES}


@pytest.mark.parametrize("where", ["first", "last"])
def test_an_element_by_its_other_bits(where: str) -> None:
    """element + r has 254 bits too for one element in three, and other coins: its top is no start and five bytes."""
    at = 0 if where == "first" else len(Index().elements) - 1
    number = next(n for n in range(100) if Index(n).elements[at] + P < 1 << 254)
    index = Index(number)
    other = index.elements[at] + P
    for i in range(PER * at, min(PER * (at + 1), SIZE.N)):
        index.coin(i, other >> 8 * (i % PER) & 255)
        index.hides[i] = int(index.coins[i] < index.eta)
        index.thinned[i] = 0 if index.hides[i] else index.placed[i]
    if where == "last":
        index.spare = [other >> 8 * k & 255 for k in range(SIZE.N % PER, PER)]
    top = other >> COINS
    assert top >= LIMIT
    for start in (STARTS[-1], STARTS[0]):
        index.starts[at] = start
        own = [top - start >> 8 * k & 255 for k in range(CHUNKS - 1)]
        index.chunks[at] = [*own, top - start >> 8 * (CHUNKS - 1)]
        assert index.broken() == {BYTES}
        index.chunks[at] = [0] * CHUNKS
        index.starts[at] = top
        assert index.broken() == {TOPS}


def test_a_negative_rest_of_a_top() -> None:
    """A start above the top, with a byte below 0."""
    index = Index(8)
    index.starts[1] += 1 << 40
    index.chunks[1][-1] -= 256
    assert index.broken() == {BYTES}


def test_coins_that_no_slot_has_are_bytes() -> None:
    index = Index(9)
    index.spare[0] += 256
    index.spare[1] -= 1
    assert index.broken() == {BYTES}


def test_hides_that_are_not_those_of_the_slots() -> None:
    """What is left over would be a part of the coins."""
    index = Index(10)
    index.edits = {"hides[1]": index.masks()[1] + 1}
    assert index.broken() == {TOPS}


@pytest.mark.parametrize("table", ["coinCount", "byteCount", "topCount"])
def test_numbers_that_are_not_those_of_the_table(table: str) -> None:
    index = Index(11)
    index.counted = {f"{table}[7]": 1, f"{table}[8]": P - 1}
    of = {"coinCount": SLOTS, "byteCount": BYTES, "topCount": TOPS}
    assert index.broken() == {of[table]}


def test_numbers_of_one_table_say_nothing_of_another() -> None:
    """A byte that is a start of tops, a top that is a byte, a coin with h = 0 that is either: each table is its own."""
    index = Index(11)
    index.chunks[0][0] = STARTS[3]
    index.counted = {"topCount[3]": 1}
    assert BYTES in index.broken()
    index = Index(11)
    at = index.slot(False)
    index.coin(at, 0)
    index.hides[at] = STARTS[3]
    index.counted = {"topCount[3]": 1}
    assert SLOTS in index.broken()
    index = Index(11)
    index.starts[0] = 200
    index.counted = {"byteCount[200]": 1}
    assert TOPS in index.broken()


def test_once_the_challenges_are_known_any_number_can_be_made_to_fit() -> None:
    """So all of this is committed before; docs/proofs/thinning.md."""
    index = Index(12)
    index.chunks[0][0] = 999
    own = pow(index.alpha - 999, -1, P)
    index.counted = {"byteCount[4]": own * (index.alpha - 4)}
    index.chunks[0][1] -= (999 - Index(12).chunks[0][0]) * pow(256, -1, P)
    index.counted["byteCount[4]"] += pow(index.alpha - index.chunks[0][1], -1, P) * (index.alpha - 4)
    assert not index.broken()


@pytest.mark.parametrize("name", ["c_coin", "context", "s_hi", "s_lo"])
def test_another_seed_or_context(name: str) -> None:
    index = Index(13)
    values = dict(zip((circuit().names[w] for w in circuit().inputs), index.flat(), strict=True))
    index.edits = {name: values[name] + 1}
    assert index.broken()


# --- nothing is free -------------------------------------------------------------------------------------------------


def test_only_the_seed_is_neither_clear_nor_committed() -> None:
    r1cs = circuit()
    assert r1cs.private == 2
    assert [r1cs.names[w] for w in r1cs.inputs][-2:] == ["s_hi", "s_lo"]


def test_scores_are_in_their_row_alone_and_the_blinder_nowhere() -> None:
    r1cs = circuit()
    for i in range(SIZE.N):
        (row,) = r1cs.rows_of[r1cs.wire_of[f"placed[{i}]"]]
        assert r1cs.rows_of[r1cs.wire_of[f"mixed[{i}]"]] == (row,)
    assert not r1cs.rows_of[r1cs.wire_of["blind"]]


def test_each_fraction_is_what_its_row_says() -> None:
    """Of every table entry and of everything that is looked up, one row: a factor f, and alpha less what it is of."""
    r1cs, index = circuit(), Index(14)
    witness = r1cs.solve(index.inputs())
    sought = {
        "fPaired": [h + index.beta * c for h, c in zip(index.hides, index.coins, strict=True)],
        "fTop": index.starts,
        "fByte": index.bytes(),
        "fPair": [h + index.beta * c for h in range(2) for c in range(BYTE)],
        "fStart": STARTS,
        "RangeTable_[0-9_]+[.]f": list(range(BYTE)),
    }
    for name, values in sought.items():
        for k, value in enumerate(values):
            (wire,) = r1cs.named(rf"{name}\[{k}\]")
            (row,) = r1cs.factor_rows([wire])
            a, b, _ = r1cs.rows[row]
            (other,) = (form for form in (a, b) if all(w != wire for w, _ in form))
            scale = next(x for form in (a, b) if form != other for w, x in form if w == wire)
            found = sum(x * witness[w] for w, x in other) * scale % P
            assert found == (index.alpha - value) % P, (name, k)


def test_everything_else_follows_from_the_inputs() -> None:
    r1cs = circuit()
    reached = {w for _, w in r1cs.plan(set(r1cs.inputs))}
    assert set(r1cs.inputs) | reached == set(range(1, r1cs.wires))


def test_what_the_source_assigns_freely_are_quotients_with_a_row_of_their_own() -> None:
    text = re.sub(r"//.*", "", circuit_of(SIZE).sources[0].read_text(encoding="utf-8"))
    free = re.findall(r"(\w+)\[\w+\] <-- ", text)
    assert sorted(free) == ["fByte", "fLow", "fPair", "fPaired", "fSlot", "fStart", "fTop"]
    assert text.count("<--") == len(free)
    for name in free:
        assert re.search(rf"{name}\[\w+\] \* [^;]+ === ", text), name
    assert "-->" not in text
    assert "assert" not in text


# --- the build -------------------------------------------------------------------------------------------------------


def test_order_of_inputs_is_the_kernels() -> None:
    r1cs = circuit()
    names = [r1cs.names[w].split("[")[0] for w in r1cs.inputs]
    order: Sequence[str] = (
        "c_coin", "context", "alpha", "beta", "blind", "placed", "mixed", "hides", "byte", "topCount", "byteCount",
        "coinCount", "s_hi", "s_lo",
    )  # fmt: skip
    assert tuple(dict.fromkeys(names)) == tuple(order)
    at = [names.index(name) for name in ("placed", "mixed", "blind", "hides", "coinCount")]
    assert at == [SIZE.placed_at, SIZE.mixed_at, SIZE.blind_at, SIZE.hints_at, SIZE.pairs_at]
    assert r1cs.public == SIZE.public


def test_stats_are_current() -> None:
    lines, sizes = stats.read(), thinning_classes()
    assert [lines[name] for name in sizes] == [stats.line(cls) for cls in sizes.values()]
    for cls in (SIZE, LONGER):
        assert stats.measured(build(cls, CACHE)) == stats.line(cls)
        assert count_rows(cls).constraints == len(circuit(cls).rows)


@pytest.mark.parametrize(
    ("capacity", "domain"), [(126, 12), (4096, 14), (8192, 15), (16384, 16), (65536, 18), (131072, 19)]
)
def test_rows_fit_the_domain(capacity: int, domain: int) -> None:
    rows = count_rows(thinning_class(capacity))
    assert rows.rows <= rows.domain == 1 << domain
    assert rows.scaling / capacity < 3.7 or capacity == 126


def test_there_is_a_size_for_every_class_of_decoys() -> None:
    assert {cls.N for cls in thinning_classes().values()} == {cls.N for cls in load_classes().values() if not cls.noisy}
    digests = {class_digest(cls) for cls in (*thinning_classes().values(), *load_classes().values())}
    assert len(digests) == len(thinning_classes()) + len(load_classes())
    assert parameters(SIZE) == {"name": "thinning-126", "N": 126}
    assert "Thinning(126)" in circuit_of(SIZE).main


def test_the_digest_covers_every_source() -> None:
    names = [path.name for path in circuit_of(SIZE).sources]
    assert names == ["thinning.circom", "constants.circom", "poseidon.circom", "logup.circom"]
