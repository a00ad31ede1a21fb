# SPDX-License-Identifier: GPL-3.0-or-later
"""The noise that leaves the engine, as a statistician sees it: its law, and independence across slots and records.

Streams are seeded, so a result never changes from run to run; every test is shown to reject a stream that is wrong.
All N slots are places (R = N), so that the native engine's own values are looked at, of every slot.  The kernel's
sampler is held to the same values on a few records, and to its law on a stream of its own.

Time says nothing about the noise by construction, not by measurement here: all coarse bits of all slots are derived
for every query, and those of exactly R places whatever the values are, and answers leave on a fixed tick (SPEC M.7).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from ragseal.accounting.attack import log_chance
from ragseal.backends.mechanism import NativeNoiseEngine
from ragseal.kernel.classes import Asked
from ragseal.kernel.noise import TOTAL, NoiseTable, build_table, scale_of
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_mechanism import select_noise
from ragseal.kernel.noise_statement import NoiseLayout
from ragseal.kernel.params import GAUSSIAN, GEOMETRIC, NOISE_LAWS, R
from tests import classes

pytestmark = pytest.mark.slow

Whole = npt.NDArray[np.int64]

CLASSES = {cls.name: cls for cls in (classes.TINY, classes.ONE_SIDED, classes.GAUSSIAN)}
RECORDS = 300
REJECT = 5.0  #: standard deviations; an honest stream exceeds them once in three million


def opened(name: str) -> NoiseClass:
    """The class with a place for every slot."""
    cls = CLASSES[name]
    return replace(cls, R=cls.N)


def key(record: int) -> int:
    return int.from_bytes(hashlib.sha256(b"noise statistics %d" % record).digest(), "big") % R


@lru_cache
def stream(name: str) -> Whole:
    """Noise of the native engine, one row a record, one column a slot."""
    cls = opened(name)
    engine, layout = NativeNoiseEngine(cls), NoiseLayout(cls)
    rows = np.zeros((RECORDS, cls.N), dtype=np.int64)
    for record in range(RECORDS):
        (data,) = engine.hidden(key(record), np.zeros(cls.N, dtype=np.int64), Asked((16,)))[0]

        def group(name: str, data: bytes = data) -> Whole:
            at = 32 * layout.by_name[name].offset
            return np.array([int.from_bytes(data[i : i + 32], "big") for i in range(at, at + 32 * cls.N, 32)])

        slots = group("placeSlot")
        assert sorted(slots.tolist()) == list(range(cls.N))
        rows[record, slots] = group("placeMagnitude") * (1 if cls.sides == 1 else 1 - 2 * group("placeSign"))
    return rows


def deviation(chi_square: float, freedom: int) -> float:
    """A chi-square statistic in standard deviations, by Wilson and Hilferty's cube root."""
    return float(((chi_square / freedom) ** (1 / 3) - 1 + 2 / (9 * freedom)) / math.sqrt(2 / (9 * freedom)))


def fit(values: Whole, table: NoiseTable, bins: int = 40) -> float:
    """Chi-square of the values against the table, in bins of about equal probability."""
    edges = sorted({table.inverse(TOTAL * j // bins) for j in range(1, bins)} - {table.least})
    cumulative = [0, *(table.cdf(edge - 1) for edge in edges), TOTAL]
    expected = np.array([(b - a) / TOTAL for a, b in pairwise(cumulative)]) * values.size
    found = np.bincount(np.searchsorted(edges, values.ravel(), side="right"), minlength=expected.size)
    return deviation(float(((found - expected) ** 2 / expected).sum()), expected.size - 1)


def dependence(a: Whole, b: Whole, cells: int = 4) -> float:
    """Chi-square of independence of two equally long streams, in cells of equal counts."""
    ranks = [np.argsort(np.argsort(x, kind="stable"), kind="stable") * cells // x.size for x in (a.ravel(), b.ravel())]
    found = np.bincount(ranks[0] * cells + ranks[1], minlength=cells * cells).reshape(cells, cells)
    expected = found.sum(0) * found.sum(1)[:, None] / found.sum()
    return deviation(float(((found - expected) ** 2 / expected).sum()), (cells - 1) ** 2)


def wilson(hits: int, n: int, z: float = REJECT) -> tuple[float, float]:
    """Wilson's interval of a probability."""
    share = hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return middle - half, middle + half


@pytest.mark.parametrize("name", CLASSES)
def test_the_law_is_the_tables(name: str) -> None:
    z = stream(name)
    table = CLASSES[name].table
    assert abs(fit(z, table)) < REJECT
    for scale in (0, table.cut // 100, table.cut // 30, table.cut // 15, table.cut // 8):
        low, high = wilson(int((z > scale).sum()), z.size)
        assert low <= table.tail(scale) / TOTAL <= high
        low, high = wilson(int((z < -scale).sum()), z.size)
        assert low <= table.cdf(-scale - 1) / TOTAL <= high
    assert z.min() >= table.least


@pytest.mark.parametrize("name", CLASSES)
def test_a_wrong_law_is_seen(name: str) -> None:
    z = stream(name)
    law, table = CLASSES[name].law, CLASSES[name].table
    assert fit(z + 8, table) > REJECT, "shifted by a sixteenth of sigma, or by half the geometric scale"
    assert fit(np.rint(z * 1.04).astype(np.int64), table) > REJECT, "four per cent wider"
    other = build_table(GEOMETRIC if law == GAUSSIAN else GAUSSIAN)
    assert fit(z, other) > REJECT
    low, high = wilson(int((z > 0).sum()), z.size)
    assert not low <= table.tail(table.cut // 50) / TOTAL <= high


Pair = Callable[[Whole], tuple[Whole, Whole]]
PAIRS: dict[str, Pair] = {
    "next slot": lambda z: (z[:, :-1], z[:, 1:]),
    "same place of the next field element": lambda z: (z[:, :-18], z[:, 18:]),
    "first and last slot of an element": lambda z: (z[:, ::18], z[:, 17::18]),
    "next record": lambda z: (z[:-1], z[1:]),
    "next slot of the next record": lambda z: (z[:-1, :-1], z[1:, 1:]),
    "size of the next slot": lambda z: (abs(z[:, :-1]), abs(z[:, 1:])),
    "size in the next record": lambda z: (abs(z[:-1]), abs(z[1:])),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", CLASSES)
def test_slots_and_records_are_independent(name: str, pair: str) -> None:
    z = stream(name)
    a, b = PAIRS[pair](z)
    assert abs(dependence(a, b)) < REJECT
    # A stream in which one value in five is carried over is caught.
    carried = b.copy()
    carried.ravel()[::5] = a.ravel()[::5]
    assert dependence(a, carried) > REJECT


@pytest.mark.parametrize("name", CLASSES)
def test_no_value_comes_twice_as_a_whole_record(name: str) -> None:
    z = stream(name)
    assert len({row.tobytes() for row in z}) == RECORDS
    assert len({column.tobytes() for column in z.T}) == CLASSES[name].N


@pytest.mark.parametrize("name", CLASSES)
def test_the_kernels_sampler_gives_the_same_values(name: str) -> None:
    cls, z = opened(name), stream(name)
    for record in (0, 7):
        places = select_noise(cls, key(record), [[0] * cls.N], 16).shards[0].places
        assert {place.slot: place.noise for place in places} == dict(enumerate(z[record].tolist()))


@pytest.mark.parametrize("law", NOISE_LAWS)
def test_the_kernels_inverse_on_a_seeded_stream(law: str) -> None:
    table = build_table(law)
    data = hashlib.shake_256(b"inverse " + law.encode()).digest(14 * 40_000)
    values = np.array([table.inverse(int.from_bytes(data[i : i + 14], "big")) for i in range(0, len(data), 14)])
    assert abs(fit(values, table, 200)) < REJECT
    assert fit(values + 16, table, 200) > REJECT


@pytest.mark.parametrize("name", CLASSES)
def test_a_released_slot_is_as_likely_as_computed(name: str) -> None:
    """The engine's answers against the exact chance, which the lower bound of epsilon uses."""
    cls = CLASSES[name]
    engine, scale, queries = NativeNoiseEngine(cls), scale_of(cls.law), 3000
    for lead in (0, scale):
        w = np.zeros(cls.N, dtype=np.int64)
        w[0] = lead << cls.c
        hits = sum(0 in {one.slot for one in engine.answer(key(10_000 + q), w, max(1, lead))} for q in range(queries))
        low, high = wilson(hits, queries)
        chance = math.exp(log_chance(cls.table, cls.N, cls.K, lead)[0])
        assert low <= chance <= high
        assert not low <= 3 * chance <= high
