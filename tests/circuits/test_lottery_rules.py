# SPDX-License-Identifier: GPL-3.0-or-later
"""The compiled lottery is its rules and nothing else; they allow no T but the mechanism's; nothing private is free.

Other tests forge what somebody thought of.  Here rows and rules are compared at a random point of the field, where
different ones are equal with probability below 2^-240; over a small field every witness is tried whose places are slots
(tests/circuits/test_lottery_attacks_places.py is about those that are none); and the rank of the rows' Jacobian at an
honest witness says that no direction is free.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ragseal.circuits.circuit import load_classes
from ragseal.circuits.search import complete_lottery
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.lottery_mechanism import lottery_value, rank
from ragseal.kernel.lottery_statement import LotteryLayout
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.noise_mechanism import wide_elements
from ragseal.kernel.params import MODULUS_BITS, TAG_COARSE, TAG_PLACES
from ragseal.kernel.poseidon import poseidon
from ragseal.kernel.statement import canonical_limit, seed_commitment
from tests.circuits import lottery_rules as text
from tests.circuits.determination import free_directions, gradient, quotients
from tests.circuits.lottery_drafts import LotterySetting, lottery_tiny
from tests.circuits.lottery_rules import Rules, Values
from tests.circuits.r1cs import P, R1cs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["tiny", "probe"])
def setting(request: pytest.FixtureRequest) -> LotterySetting:
    """The probe's ids need two chunks, its coarse bits several blocks."""
    if request.param == "tiny":
        return LotterySetting.of(lottery_tiny())
    return LotterySetting.of(complete_lottery("lottery-probe", N=2060, K=4, m=9, q=20, c=11, prizes=2))


# --- rows against rules -----------------------------------------------------------------------------------------------


def values_of(cls: LotteryClass, inputs: dict[int, int]) -> dict[str, Any]:
    """The circuit's inputs by name."""
    layout = LotteryLayout(cls)

    def part(at: int, count: int) -> list[int]:
        return [inputs[1 + at + j] for j in range(count)]

    v: dict[str, Any] = dict(
        zip(("c_seed", "beacon", "ctx", "hmax", "t_commit", "prizes", "alpha", "beta"), part(0, 8), strict=True)
    )
    v["w"] = part(layout.scores_at, cls.N)
    for group in layout.groups:
        flat = part(layout.hints_at + group.offset, group.count)
        wide = group.shape[1] if len(group.shape) == 2 else 0
        v[group.name] = [flat[at : at + wide] for at in range(0, len(flat), wide)] if wide else flat
    v["scaledBound"] = part(layout.scaled_at, cls.N)
    v["s_hi"], v["s_lo"], v["t_salt"] = part(layout.public, 3)
    return v


def rules_of(cls: LotteryClass, v: Values) -> Rules:
    """All rules of a statement, those of its hashes among them."""
    rules = Rules()
    text.slot_rules(rules, cls, v)
    text.place_rules(rules, cls, v)
    text.closing_rules(rules, cls, v)
    seed = v["s_hi"], v["s_lo"]
    rules.zero["seed"] = (v["c_seed"] - seed_commitment(seed)) % P
    element_rules(rules, cls, v, wide_elements(noise_key(seed, v["beacon"], v["ctx"]), TAG_COARSE, cls.elements, 0))
    per, width = 248 // (cls.L + 1), cls.L + 1
    packed = [
        sum(x << (width * j) for j, x in enumerate(v["returned"][at : at + per])) % P for at in range(0, cls.K, per)
    ]
    rules.zero["T"] = (v["t_commit"] - poseidon(TAG_PLACES, v["t_salt"], *packed)) % P
    return rules


def element_rules(rules: Rules, cls: LotteryClass, v: Values, elements: Sequence[int]) -> None:
    """SPEC B.6.1: coarse bits, chunks, and a top that is below the modulus'."""
    used, c = cls.q * cls.m, cls.c
    fillers = max(0, (MODULUS_BITS - used - 44) // c)
    for e, rest in enumerate(elements):
        for j in range(cls.q):
            rest -= v["slot"][e * cls.q + j][1] << (cls.m * j)
        for j in range(fillers):
            x = v["coarseFiller"][e][j]
            rules.chunks[f"filler.{e}.{j}"] = x
            rest -= x << (used + c * j)
        position = used + c * fillers
        top = rest * pow(1 << position, -1, P)
        rules.chunked(f"top.{e}", top, v["coarseTop"][e], c)
        rules.chunked(f"room.{e}", canonical_limit(position) - 1 - top, v["coarseRoom"][e], c)


def unsigned(x: int) -> int:
    """x or -x: a row and its negative say the same."""
    return min(x % P, -x % P)


def checks(r1cs: R1cs, witness: Sequence[int]) -> Counter[int]:
    """What the rows come to that determine no wire."""
    used = {row for row, _ in r1cs.plan(r1cs.inputs)}

    def value(form: Sequence[tuple[int, int]]) -> int:
        return sum(c * witness[w] for w, c in form)

    left = [value(a) * value(b) - value(c) for i, (a, b, c) in enumerate(r1cs.rows) if i not in used]
    return Counter(map(unsigned, left))


def test_the_compiled_rows_are_the_rules(setting: LotterySetting) -> None:
    """At a random point: all fractions are, and all that has to be 0 comes to the same."""
    r1cs, cls, rng = setting.r1cs, setting.cls, random.Random(12)
    inputs = {w: rng.randrange(P) for w in r1cs.inputs}
    witness, v = r1cs.solve(inputs), values_of(cls, inputs)
    rules = rules_of(cls, v)
    of_text = Counter(top * pow(below, -1, P) % P for top, below in text.fractions(rules, cls, v))
    assert Counter(witness[w] for w in quotients(r1cs)) == of_text
    zero = Counter(map(unsigned, [*rules.zero.values(), *text.identities(rules, cls, v).values()]))
    assert checks(r1cs, witness) == zero


def test_honest_statements_break_no_rule_and_an_edited_one_does() -> None:
    """So the rules are no stricter than the circuit; and a rule is broken where the circuit's row is."""
    tiny = LotterySetting.of(lottery_tiny())
    inputs = tiny.honest(7).inputs()
    for wire in (None, 1, 9 + tiny.cls.N + 3, 6):
        given = inputs if wire is None else {**inputs, wire: (inputs[wire] + 1) % P}
        v = values_of(tiny.cls, {w: x % P for w, x in given.items()})
        rules = rules_of(tiny.cls, v)
        left = [*rules.zero.values(), *text.identities(rules, tiny.cls, v).values()]
        assert any(left) == (wire is not None)


def test_keys_of_slots_and_places_are_integers_below_the_order() -> None:
    """So two are equal only part by part (docs/proofs/lottery.md, section 5, step 3)."""
    for cls in load_classes().values():
        if isinstance(cls, LotteryClass):
            assert 1 << (cls.L + cls.m + 2 * cls.c) < P
            assert (cls.N + cls.R + 2) << (cls.c * cls.id_chunks) < P  # distances of slots add up to N, in integers
            assert 2 << (cls.c * cls.compare_chunks) < P


# --- every witness of a small field -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Toy:
    """Four slots of two coarse bits over a field of 1,009 elements."""

    K: int
    R: int
    N: int = 4
    m: int = 2
    c: int = 2
    L: int = 2
    grid: int = 4
    id_chunks: int = 1
    most: int = 2
    compare_chunks: int = 3
    p: int = 1009


H = 2


def chunks(value: int, count: int, p: int) -> list[int] | None:
    """The lower ones of a value in [0, 4^count), mod p."""
    value %= p
    return [(value >> (2 * j)) & 3 for j in range(count - 1)] if value < 4**count else None


def place_states(cls: Toy, i: int, w: int, u: int, b: int, x: int, theta: int, v: int, last: int) -> Iterator[Any]:
    """All that a place of this slot can say of itself with every chunk in range."""
    lead = H + 4
    prize = (b - u) * pow(lead, -1, cls.p) % cls.p
    for above, over, counted, wins in itertools.product((0, 1), repeat=4):
        s = above * w - over * (w - H)
        value = b + (1 - prize) * s
        parts = (
            chunks(text.turned(above, w - 1), 2, cls.p),
            chunks(text.turned(over, w - H - 1), 2, cls.p),
            chunks(text.turned(counted, u - theta), 1, cls.p),
            chunks(text.turned(wins, 4 * (value - v) - i + last), 3, cls.p),
        )
        if None not in parts:
            yield {
                "Slot": i, "Score": w, "Coarse": u, "Bound": b, "Distance": x, "Positive": above, "Capped": over,
                "Prize": prize, "Counted": counted, "Wins": wins, "Floor": parts[0][0], "Ceiling": parts[1][0],
                "Margin": parts[3],
            }  # fmt: skip


def accepted(cls: Toy, w: Sequence[int], u: Sequence[int], prizes: int, without: str = "") -> set[tuple[int, ...]]:
    """Every T that some witness states, over all thresholds, places, distances and bits.

    Args:
        without: of this rule nothing is asked.
    """
    found: set[tuple[int, ...]] = set()
    bounds = [k + (H + 4) * (k >= 4 - prizes) for k in u]
    thetas = range(1, 4) if without == "theta below the first prize" else range(1, 5 - prizes)
    lasts = range(-4, 8) if without == "last" else range(4)
    for theta in thetas:
        lower = -3 if without == "theta below the threshold" else 0
        for v in range(theta + lower, theta + 16):
            outside, inside = [], []
            for i in range(4):
                y = bounds[i] - v + 1
                zero = [x for x in range(16) if not (x + y + w[i]) * (x + y + H) % cls.p]
                outside.append(zero[:1])
                inside.append([x for x in range(4) if x not in zero][:1])
            forced = {i for i in range(4) if not outside[i]}
            for opened in itertools.combinations(range(4), cls.R):
                if not forced <= set(opened) or not all(inside[i] for i in opened):
                    continue
                if without != "count" and sum(k >= theta for k in u) != sum(u[i] >= theta for i in opened):
                    continue
                for last in lasts:
                    states = [
                        [*place_states(cls, i, w[i], u[i], bounds[i], inside[i][0], theta, v, last)] for i in opened
                    ]
                    for picked in itertools.product(*states):
                        T = tuple(2 * one["Slot"] + one["Positive"] for one in picked if one["Wins"])
                        if len(T) != cls.K or T in found:
                            continue
                        x = [inside[i][0] if i in opened else outside[i][0] for i in range(4)]
                        assert broken(cls, w, u, bounds, x, picked, theta, v, last, T, prizes) <= LOOSE[without], T
                        found.add(T)
    return found


#: Rules that a witness may break where one is left out.
LOOSE = {
    "": set[str](),
    "count": {"as many slots as places from theta on"},
    "theta below the first prize": {"theta below the first prize.high"},
    "theta below the threshold": {"theta below the threshold.high"},
    "last": {"last.high"},
}


def broken(
    cls: Toy,
    w: Sequence[int],
    u: Sequence[int],
    bounds: Sequence[int],
    x: Sequence[int],
    picked: Sequence[Any],
    theta: int,
    v: int,
    last: int,
    T: Sequence[int],
    prizes: int,
) -> set[str]:
    """The rules, as the circuit's rows were compared with them, that one whole witness breaks."""
    seen = Counter([*u, *(one["Coarse"] for one in picked)])
    values: dict[str, Any] = {
        "hmax": H, "prizes": prizes, "beta": 0, "w": w, "threshold": [v], "thresholdSlot": [last],
        "thresholdLow": [(v - theta) % 4], "thetaChoice": [int(g == theta) for g in range(1, 4)],
        "prizeChoice": [int(j == prizes) for j in range(1, 3)], "returned": T,
        "slot": [[x[i] % 4, u[i], bounds[i], x[i] // 4] for i in range(4)], "scaledBound": bounds,
        "coarseCount": [seen[k] for k in range(4)],
        "returnedGap": [[(b - a - 1) % 4] for a, b in itertools.pairwise(T)],
        **{f"place{name}": [one[name] for one in picked] for name in picked[0]},
    }  # fmt: skip
    rules = Rules(cls.p)
    text.slot_rules(rules, cls, values)
    text.place_rules(rules, cls, values)
    text.closing_rules(rules, cls, values)
    return set(text.meant(rules, cls, values))


def selected(cls: Toy, w: Sequence[int], u: Sequence[int], prizes: int) -> tuple[int, ...]:
    """What the mechanism gives where scores that are out of range count as 0."""
    scores = []
    for x in w:
        centred = x if x <= cls.p // 2 else x - cls.p
        scores.append(centred if H - 16 < centred <= 16 else 0)
    won = rank([lottery_value(x, k, H, 2, prizes) for x, k in zip(scores, u, strict=True)], cls.K)
    return tuple(sorted(2 * i + (scores[i] >= 1) for i in won))


def statements(prizes: int, count: int, wild: bool = False) -> Iterator[tuple[list[int], list[int]]]:
    """Scores around all edges, and wild ones, with coarse bits of all kinds."""
    rng = random.Random(100 * prizes + wild)
    near = (-13, -12, -3, -1, 0, 0, 1, 1, 2, 3, 15, 16)
    for _ in range(count):
        w = [rng.choice(near) % 1009 for _ in range(4)]
        if wild:
            w[rng.randrange(4)] = rng.randrange(1009)
        yield w, [rng.randrange(4) for _ in range(4)]


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize(("K", "R", "prizes"), [(1, 2, 1), (1, 3, 2), (2, 3, 1), (2, 3, 2)])
def test_no_witness_of_a_small_field_states_another_list(K: int, R: int, prizes: int, wild: bool) -> None:
    cls, stated = Toy(K, R), 0
    for w, u in statements(prizes, 60, wild):
        found = accepted(cls, w, u, prizes)
        assert found <= {selected(cls, w, u, prizes)}, (w, u)
        stated += len(found)
    assert stated > 8


@pytest.mark.parametrize("rule", [name for name in LOOSE if name])
def test_without_one_rule_some_witness_states_another_list(rule: str) -> None:
    """Live: the search does find what a missing rule lets through."""
    cls, prizes = Toy(1, 2), 1 + (rule == "theta below the first prize")  # of one prize the grid ends where it begins
    assert any(accepted(cls, w, u, prizes, rule) - {selected(cls, w, u, prizes)} for w, u in statements(prizes, 400))


# --- what is free -----------------------------------------------------------------------------------------------------


def test_no_direction_is_free() -> None:
    """The Jacobian at an honest witness has full rank on all that is not public."""
    tiny = LotterySetting.of(lottery_tiny())
    r1cs = tiny.r1cs
    witness = r1cs.solve(tiny.honest(7).inputs())
    assert not r1cs.violations(witness)
    assert free_directions(r1cs, witness) == 0
    quotient = set(r1cs.rows_of[sorted(quotients(r1cs))[5]])
    hashed = set(r1cs.rows_of[r1cs.wire_of["t_commit"]])
    for dropped, left in ((hashed, 1), (quotient, 1), (hashed | quotient, 2)):
        assert free_directions(r1cs, witness, dropped) == left  # live: salt; a fraction that nothing defines; both


def test_every_input_alone_is_bound_to_first_order() -> None:
    """But for the blinder, alpha, for which identities hold whatever it is, and scores of slots that the whole window
    keeps below the threshold."""
    tiny = LotterySetting.of(lottery_tiny())
    r1cs, d = tiny.r1cs, tiny.honest(7)
    found = gradient(r1cs, r1cs.solve(d.inputs()), set(r1cs.inputs))
    opened = {p.slot for p in d.places}
    by_window = {i for i in range(d.cls.N) if i not in opened and d.x[i] + d.b[i] - d.threshold + 1 + d.width == 0}
    idle = {r1cs.names[w] for w in r1cs.inputs if not found[w]}
    assert idle == {"blind", "alpha", *(f"w[{i}]" for i in by_window)}
