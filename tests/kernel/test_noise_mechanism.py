# SPDX-License-Identifier: GPL-3.0-or-later
"""The mechanism with noise in one shard: its law by brute force, its bounds against simulation, classes' conditions."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from ragseal.circuits import bound as proven
from ragseal.circuits.circuit import load_classes
from ragseal.circuits.search import complete_noise
from ragseal.kernel import noise_class, overflow
from ragseal.kernel.errors import AttestationError, PolicyError, UnprovableError
from ragseal.kernel.noise import NoiseTable, build_table, coarse_quantiles
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_hints import noise_hints
from ragseal.kernel.noise_mechanism import (
    clipped,
    digit,
    entry_of,
    fine_bits,
    rank_places,
    select_noise,
    wide_elements,
)
from ragseal.kernel.params import GAUSSIAN, GEOMETRIC, NOISE_LAWS
from ragseal.kernel.params import R as FIELD
from ragseal.kernel.statement import Returned, canonical_limit

pytestmark = pytest.mark.slow

LIMIT = Fraction(1, 1 << 64)
H = 128


@pytest.fixture(scope="module", params=NOISE_LAWS)
def tiny(request: pytest.FixtureRequest) -> NoiseClass:
    return complete_noise("noise-tiny", request.param, N=126, K=3, m=8, q=18, c=CHUNK[request.param], S=1)


# --- the law ----------------------------------------------------------------------------------------------------------


def toy(masses: tuple[int, ...]) -> NoiseTable:
    """Masses in sixteenths: four bits of uniform enumerate it."""
    assert masses[0] + 2 * sum(masses[1:]) == 16
    return NoiseTable(GEOMETRIC, tuple(p << 108 for p in masses))


def top(values: list[tuple[int, int]], K: int) -> list[tuple[int, int]]:
    """The K largest (v, slot) by (v, -slot)."""
    return sorted(values, key=lambda one: (-one[0], one[1]))[:K]


def by_rank(table: NoiseTable, s: tuple[int, ...], K: int, R: int) -> Counter[tuple[int, ...] | None]:
    """T or None (refused), counted over every coarse value of a slot and every fine value of a rank; two bits each."""
    seen: Counter[tuple[int, ...] | None] = Counter()
    quantiles = coarse_quantiles(table, 2)
    for coarse in itertools.product(range(4), repeat=len(s)):
        reach = [x + quantiles[u] for x, u in zip(s, coarse, strict=True)]
        entry = entry_of(reach, R)
        places = rank_places(reach, entry, R)
        assert len(places) == R
        for fine in itertools.product(range(4), repeat=R):
            values = [
                (s[i] + table.inverse((coarse[i] * 4 + f) << 108), i) for (i, _), f in zip(places, fine, strict=True)
            ]
            best = top(values, K)
            seen[tuple(sorted(i for _, i in best)) if best[-1][0] >= entry else None] += 4 ** (len(s) - R)
    return seen


def of_every_slot(table: NoiseTable, s: tuple[int, ...], K: int, R: int) -> Counter[tuple[int, ...] | None]:
    """The same with fine bits of its own for every slot, and the top K of all slots."""
    seen: Counter[tuple[int, ...] | None] = Counter()
    quantiles = coarse_quantiles(table, 2)
    noise = [table.inverse(u << 108) for u in range(16)]
    for uniform in itertools.product(range(16), repeat=len(s)):
        best = top([(x + noise[u], i) for i, (x, u) in enumerate(zip(s, uniform, strict=True))], K)
        able = sum(x + quantiles[u >> 2] >= best[-1][0] for x, u in zip(s, uniform, strict=True))
        seen[tuple(sorted(i for _, i in best)) if able < R else None] += 1
    return seen


@pytest.mark.parametrize("masses", [(4, 3, 2, 1), (6, 4, 1), (2, 1, 1, 1, 1, 1, 1, 1)])
@pytest.mark.parametrize(("K", "R"), [(1, 3), (2, 4), (1, 2)])
@pytest.mark.parametrize("scores", [(0, 0, 0, 0), (5, 0, 0, 0), (2, 2, 0, 1), (9, 3, 3, 0)])
def test_the_law_is_that_of_noise_for_every_slot(
    masses: tuple[int, ...], K: int, R: int, scores: tuple[int, ...]
) -> None:
    table = toy(masses)
    counted = by_rank(table, scores, K, R)
    assert counted == of_every_slot(table, scores, K, R)
    assert sum(counted.values()) == 16**4


def test_places_at_will_would_change_the_law() -> None:
    """Live: whoever may choose which slots get the first ranks chooses their noise."""
    table, s, K, R = toy((6, 4, 1)), (0, 0, 0, 0), 1, 3
    quantiles = coarse_quantiles(table, 2)
    chosen: Counter[int] = Counter()
    for coarse in itertools.product(range(4), repeat=4):
        reach = [quantiles[u] for u in coarse]
        places = [i for i, _ in rank_places(reach, entry_of(reach, R), R)]
        for fine in itertools.product(range(4), repeat=R):
            outcomes = []
            for order in itertools.permutations(places):
                values = [(table.inverse((coarse[i] * 4 + f) << 108), i) for i, f in zip(order, fine, strict=True)]
                outcomes.append(top(values, K)[0][1])
            chosen[min(outcomes)] += 1
    honest = by_rank(table, s, K, R)
    assert 4 * chosen[0] > 1.5 * honest[(0,)]


def test_bits_of_elements_without_a_canonical_form_would_change_the_law() -> None:
    """Two ranks to an element of a field of 19, four bits of it: exact with its canonical form, and not without."""
    table, s, K, R = toy((6, 4, 1)), (2, 2, 0, 1), 2, 4
    quantiles = coarse_quantiles(table, 2)

    def law(elements: range) -> dict[tuple[int, ...] | None, Fraction]:
        seen: Counter[tuple[int, ...] | None] = Counter()
        for coarse in itertools.product(range(4), repeat=4):
            reach = [x + quantiles[u] for x, u in zip(s, coarse, strict=True)]
            entry = entry_of(reach, R)
            places = rank_places(reach, entry, R)
            for pair in itertools.product(elements, repeat=R // 2):
                fine = [element >> 2 * half & 3 for element in pair for half in (0, 1)]
                best = top(
                    [
                        (s[i] + table.inverse((coarse[i] * 4 + f) << 108), i)
                        for (i, _), f in zip(places, fine, strict=True)
                    ],
                    K,
                )
                seen[tuple(sorted(i for _, i in best)) if best[-1][0] >= entry else None] += 1
        return {T: Fraction(count, sum(seen.values())) for T, count in seen.items()}

    exact = {T: Fraction(count, 16**4) for T, count in of_every_slot(table, s, K, R).items()}
    assert law(range(19 >> 4 << 4)) == exact
    assert law(range(19)) != exact


def test_used_bits_lie_below_the_canonical_top() -> None:
    """So they are exactly uniform (docs/proofs/noise.md, section 1): no bias is left for an accountant."""
    for cls in load_classes().values():
        if not isinstance(cls, NoiseClass):
            continue
        assert cls.q * cls.m <= cls.coarse_top_position
        assert 2 * cls.fine_bits <= cls.fine_top_position
        for position in (cls.coarse_top_position, cls.fine_top_position):
            assert canonical_limit(position) << position <= FIELD
            assert canonical_limit(position) >= 1 << 43


# --- selection --------------------------------------------------------------------------------------------------------


def test_entry_is_the_least() -> None:
    rng = random.Random(1)
    for _ in range(500):
        R = rng.randrange(2, 8)
        reach = [rng.randrange(-3, 6) for _ in range(rng.randrange(R, 12))]
        entry = entry_of(reach, R)
        assert sum(x >= entry for x in reach) <= R - 1 < sum(x >= entry - 1 for x in reach)
        places = rank_places(reach, entry, R)
        assert len({i for i, _ in places}) == R
        full = [i for i, is_full in places if is_full]
        assert full == [i for i, x in enumerate(reach) if x >= entry]
        assert [i for i, _ in places[: len(full)]] == full
        assert all(reach[i] == entry - 1 for i, is_full in places if not is_full)


@pytest.mark.parametrize("scores", ["random", "equal", "clustered", "extreme", "empty"])
def test_selection_by_definition(tiny: NoiseClass, scores: str) -> None:
    """Every slot's noise, its fine bits looked up by its rank, and the top K of all that may win."""
    rng, unit = random.Random(scores), 1 << tiny.c
    for _ in range(6):
        w = {
            "random": [rng.randrange(-900 * unit, 500 * unit) for _ in range(tiny.N)],
            "equal": [70 * unit] * tiny.N,
            "clustered": [rng.choice((0, 100)) * unit + rng.randrange(unit) for _ in range(tiny.N)],
            "extreme": [rng.choice((-1200 * unit, 900 * unit)) for _ in range(tiny.N)],
            "empty": [-40_000_00 // 3] * tiny.N,
        }[scores]
        key = rng.getrandbits(250)
        found = select_noise(tiny, key, [w], H)
        (chosen,) = found.shards
        assert (chosen.threshold, chosen.threshold_slot) == (found.threshold, found.threshold_slot)
        assert chosen.returned == found.returned
        table, m = tiny.table, tiny.m
        coarse = [e >> (m * j) & 255 for e in wide_elements(key, 3, tiny.elements, 0) for j in range(tiny.q)]
        fine = wide_elements(key, 4, tiny.fine_elements, 0)
        s = [min(max(math.floor(Fraction(x, unit)), 0), H) for x in w]
        reach = [x + table.inverse(((u + 1) << 104) - 1) for x, u in zip(s, coarse, strict=True)]
        entry = next(t for t in itertools.count(min(reach)) if sum(x >= t for x in reach) < tiny.R)
        full = [i for i in range(tiny.N) if reach[i] >= entry]
        halves = [e >> (104 * half) & ((1 << 104) - 1) for e in fine for half in (0, 1)]
        v = {i: s[i] + table.inverse(coarse[i] << 104 | halves[j]) for j, i in enumerate(full)}
        best = sorted(full, key=lambda i: (-v[i], i))[: tiny.K]
        assert (chosen.entry, chosen.threshold, chosen.threshold_slot) == (entry, v[best[-1]], best[-1])
        assert chosen.returned == tuple(sorted(Returned(i, w[i] >= unit) for i in best))
        assert chosen.theta == max(t for t in range(1, 257) if tiny.bounds[t - 1] < entry)
        assert all(chosen.places[j].slot == i for j, i in enumerate(full))
        assert len(noise_hints(tiny, found, 0, w, H)) > 5000


def test_digits_are_floors(tiny: NoiseClass) -> None:
    unit = 1 << tiny.c
    assert [digit(tiny, w) for w in (-unit - 1, -unit, -1, 0, unit - 1, unit, 2 * unit - 1)] == [-2, -1, -1, 0, 0, 1, 1]
    assert [clipped(k, 5) for k in (-7, 0, 3, 5, 6)] == [0, 0, 3, 5, 5]
    assert [fine_bits(tiny, [5 << 104 | 9, 7], rank) for rank in (0, 1, 2, 3)] == [9, 5, 7, 0]


def test_what_cannot_be_proven_is_refused(tiny: NoiseClass, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AttestationError, match="capacity"):
        select_noise(tiny, 1, [[0] * 5], H)
    # Five places for four winners: sometimes a sixth slot could win as well.
    crowded, refused = dataclasses.replace(tiny, K=4, R=6), []
    for key in range(400):
        try:
            select_noise(crowded, key, [[0] * tiny.N], H)
        except UnprovableError as error:
            refused.append(str(error))
    assert refused
    assert all("could win" in why for why in refused)
    monkeypatch.setattr("ragseal.kernel.noise_mechanism.canonical_limit", lambda position: 0)
    with pytest.raises(UnprovableError, match="canonical"):
        select_noise(tiny, 1, [[0] * tiny.N], H)


# --- places and grid --------------------------------------------------------------------------------------------------

CHUNK = {GEOMETRIC: 11, GAUSSIAN: 13}  #: bits that hold the law's noise

# N, K, m, smallest R by law
PUBLISHED = [
    (5198, 10, 9, (70, 68)),
    (7360, 10, 9, (82, 80)),
    (6992, 50, 9, (126, 118)),
    (33856, 10, 9, (180, 178)),
]


@pytest.mark.parametrize(("N", "K", "m", "places"), PUBLISHED)
def test_published_places(N: int, K: int, m: int, places: tuple[int, int]) -> None:
    for law, R in zip(NOISE_LAWS, places, strict=True):
        cls = complete_noise("test", law, N, K, m, 1, CHUNK[law], 1)
        assert cls.R == R
        assert cls.overflow_bound_holds()
        assert not dataclasses.replace(cls, R=R - 2).overflow_bound_holds()


@pytest.mark.parametrize("law", NOISE_LAWS)
@pytest.mark.parametrize("scores", ["equal", "one far above", "two clusters", "spread", "below"])
def test_bound_against_samples(law: str, scores: str) -> None:
    """300 slots, K = 3, m = 6: how often R slots or more reach the last winner's score."""
    table, (N, K, m) = build_table(law), (300, 3, 6)
    x = np.zeros(N, dtype=int)
    if scores == "one far above":
        x[7] = 2500
    elif scores == "two clusters":
        x[::2] = 45
    elif scores == "spread":
        x = np.arange(N) // 2
    elif scores == "below":
        x[:3] = 128
    quantiles = np.array(coarse_quantiles(table, m))
    cdf = np.array([table.cdf(z) / 2**112 for z in range(-table.cut, table.cut + 1)])
    uniform = np.random.default_rng(5).random((4000, N))
    values = x + np.searchsorted(cdf, uniform, side="right") - table.cut
    reach = x + quantiles[np.floor(uniform * (1 << m)).astype(int)]
    assert (reach >= values).all()
    last = np.sort(values, axis=1)[:, N - K]
    able = (reach >= last[:, None]).sum(axis=1)
    entries = np.sort(reach, axis=1)
    for R in (16, 20, 24, 28):
        assert ((last < entries[:, N - R] + 1) == (able >= R)).all()
        _, a, b = proven._search(N, K, R - 1, proven._upper_hull(overflow.exceed_and_flag(table, m), table.total))
        bound = overflow.overflow_bound(N, K, R - 1, m, Fraction(a), Fraction(b), table)
        assert (able >= R).mean() <= bound
    assert bound < 1
    assert (able > 4).mean() > 0.01


def test_grid_is_the_smallest_and_holds() -> None:
    N, R, m = 300, 24, 6
    G = noise_class.smallest_grid(N, R, m, 1)

    def few(grid: int) -> Fraction:
        p = Fraction(grid, 1 << m)
        return sum((math.comb(N, j) * p**j * (1 - p) ** (N - j) for j in range(R)), Fraction(0))

    assert few(G) <= Fraction(1, 1 << 80) < few(G - 1)
    with pytest.raises(PolicyError, match="grid"):
        noise_class.smallest_grid(10, 11, 6, 1)


@pytest.mark.parametrize("law", NOISE_LAWS)
def test_the_grid_misses_the_entry_as_rarely_as_its_proof_says(law: str) -> None:
    """The entry lies below Q(2^m - G) only if fewer than R slots have their coarse bits in the grid; at any scores."""
    table, (N, R, m) = build_table(law), (60, 8, 5)
    quantiles, rng = coarse_quantiles(table, m), random.Random(4)
    missed = 0
    for _ in range(3000):
        u = [rng.randrange(1 << m) for _ in range(N)]
        reach = [rng.choice((0, 0, 40)) + quantiles[x] for x in u]
        G = rng.randrange(1, 9)
        if entry_of(reach, R) <= quantiles[(1 << m) - G]:
            missed += 1
            assert sum(x >= (1 << m) - G for x in u) < R
    assert missed > 100


# --- classes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"law": "geometric"}, "law"),
        ({"R": 27}, "multiple of 2"),
        ({"R": 4}, "K < R"),
        ({"R": 128}, "R <= N"),
        ({"q": 27}, "208"),
        ({"q": 5}, "multiple of q"),
        ({"m": 7}, "two places"),
        ({"c": 7}, "m <= c"),
        ({"a": Fraction(1)}, "a > 1"),
        ({"c": 10}, "spans more than a chunk"),
    ],
)
def test_impossible_classes_are_refused(change: dict[str, object], why: str) -> None:
    cls = complete_noise("noise-tiny", GEOMETRIC, N=126, K=3, m=8, q=18, c=11, S=64)
    with pytest.raises(PolicyError, match=why):
        dataclasses.replace(cls, **change)  # type: ignore[arg-type]


def test_a_class_refuses_policies_that_could_overflow(tiny: NoiseClass) -> None:
    chunk = 1 << tiny.c
    noise_class.check_scores(tiny, H, -1300, 640)
    for steps, least, most, why in (
        (0, -10, 10, "nothing to read"),
        (H, 1, 10, "without 0"),
        (H, H - chunk, 10, "of window"),
        (H, -10, chunk + 1, "above the window"),
        (chunk - 848, -10, chunk - 848, "above the threshold"),
    ):
        with pytest.raises(PolicyError, match=why):
            noise_class.check_scores(tiny, steps, least, most)
    noise_class.check_scores(tiny, H, H - chunk + 1, chunk)
