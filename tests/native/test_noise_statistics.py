# SPDX-License-Identifier: GPL-3.0-or-later
"""The noise that leaves the engine, as a statistician sees it: its law, and independence across slots and records.

Streams are seeded, so a result never changes from run to run; every test is shown to reject a stream that is wrong.
All N slots are opened (R = N), so that the native engine's own values are looked at, of every slot.  The kernel's
sampler is held to the same values on a few records, and to its law on a stream of its own.

Time says nothing about the noise by construction, not by measurement here: all coarse bits of all slots are derived
for every query, exactly R fine hashes follow whatever the values are, and answers leave on a fixed tick (SPEC M.7).
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
from ragseal.backends.mechanism import NativeEngine
from ragseal.circuits.circuit import load_classes
from ragseal.kernel import mechanism, statement
from ragseal.kernel.noise import TOTAL, NoiseTable, build_table
from ragseal.kernel.params import CircuitClass, R

pytestmark = pytest.mark.slow

Whole = npt.NDArray[np.int64]

CLASSES = ("tiny", "tiny-geo", "tiny-one")
RECORDS = 300
REJECT = 5.0  #: standard deviations; an honest stream exceeds them once in three million


def opened(name: str) -> CircuitClass:
    """The class with a place for every slot."""
    cls = load_classes()[name]
    return replace(cls, R=cls.N)


def key(record: int) -> int:
    return int.from_bytes(hashlib.sha256(b"noise statistics %d" % record).digest(), "big") % R


@lru_cache
def stream(name: str) -> tuple[Whole, Whole]:
    """(table noise, dither) of the native engine, one row a record, one column a slot."""
    cls = opened(name)
    engine, layout = NativeEngine(cls), statement.Layout(cls)
    rows = []
    for record in range(RECORDS):
        data = engine.hints(key(record), np.zeros(cls.N, dtype=np.int64), 16)
        h = [int.from_bytes(data[i : i + 32], "big") for i in range(0, len(data), 32)]
        one = {g: np.array(h[layout.by_name[g].offset :][: cls.N]) for g in ("pi", "pz", "psg", "pd")}
        assert one["pi"].tolist() == list(range(cls.N))
        rows.append((one["pz"] * (1 - 2 * one["psg"]), one["pd"]))
    return np.array([z for z, _ in rows]), np.array([d for _, d in rows])


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
    z, _ = stream(name)
    table = build_table(load_classes()[name].law)
    assert abs(fit(z, table)) < REJECT
    for scale in (0, table.cut // 100, table.cut // 30, table.cut // 15, table.cut // 8):
        low, high = wilson(int((z > scale).sum()), z.size)
        assert low <= table.tail(scale) / TOTAL <= high
        low, high = wilson(int((z < -scale).sum()), z.size)
        assert low <= table.cdf(-scale - 1) / TOTAL <= high
    assert z.min() >= table.least


@pytest.mark.parametrize("name", CLASSES)
def test_a_wrong_law_is_seen(name: str) -> None:
    z, _ = stream(name)
    law = load_classes()[name].law
    table = build_table(law)
    assert fit(z + 16, table) > REJECT, "shifted by a sixteenth of sigma, or by half the geometric scale"
    assert fit(np.rint(z * 1.04).astype(np.int64), table) > REJECT, "four per cent wider"
    other = build_table("geometric" if law == "gaussian" else "gaussian")
    assert fit(z, other) > REJECT
    low, high = wilson(int((z > 0).sum()), z.size)
    assert not low <= table.tail(table.cut // 50) / TOTAL <= high


@pytest.mark.parametrize("name", CLASSES)
def test_the_dither_is_uniform_and_independent_of_the_noise(name: str) -> None:
    z, dither = stream(name)
    s = load_classes()[name].s
    found = np.bincount(dither.ravel(), minlength=1 << s)
    assert found.size == 1 << s
    expected = dither.size / found.size
    assert abs(deviation(float(((found - expected) ** 2 / expected).sum()), found.size - 1)) < REJECT
    assert abs(dependence(z, dither)) < REJECT
    assert dependence(z, np.where(z > 0, dither, dither // 2)) > REJECT


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
    z, _ = stream(name)
    a, b = PAIRS[pair](z)
    assert abs(dependence(a, b)) < REJECT
    # A stream in which one value in five is carried over is caught.
    carried = b.copy()
    carried.ravel()[::5] = a.ravel()[::5]
    assert dependence(a, carried) > REJECT


@pytest.mark.parametrize("name", CLASSES)
def test_no_value_comes_twice_as_a_whole_record(name: str) -> None:
    z, dither = stream(name)
    cls = load_classes()[name]
    whole = (z << cls.s) + dither
    assert len({row.tobytes() for row in whole}) == RECORDS
    assert len({column.tobytes() for column in whole.T}) == cls.N


@pytest.mark.parametrize("name", CLASSES)
def test_the_kernels_sampler_gives_the_same_values(name: str) -> None:
    cls = opened(name)
    z, dither = stream(name)
    for record in (0, 7):
        elements = mechanism.coarse_elements(cls, key(record))
        coarse = [(e >> (cls.m * j)) & ((1 << cls.m) - 1) for e in elements for j in range(cls.q)]
        for slot in range(0, cls.N, 9):
            _, d, value = mechanism.exact_noise(cls, coarse[slot], mechanism.fine_element(key(record), slot))
            assert (value, d) == (z[record, slot], dither[record, slot])


@pytest.mark.parametrize("law", ["gaussian", "geometric", "one-sided"])
def test_the_kernels_inverse_on_a_seeded_stream(law: str) -> None:
    table = build_table(law)
    data = hashlib.shake_256(b"inverse " + law.encode()).digest(16 * 40_000)
    values = np.array([table.inverse(int.from_bytes(data[i : i + 16], "big")) for i in range(0, len(data), 16)])
    assert abs(fit(values, table, 200)) < REJECT
    assert fit(values + 32, table, 200) > REJECT


@pytest.mark.parametrize("name", CLASSES)
def test_a_released_slot_is_as_likely_as_computed(name: str) -> None:
    """The engine's answers against the exact chance, which the lower bound of epsilon uses."""
    cls = load_classes()[name]
    engine = NativeEngine(cls)
    sigma = {"gaussian": 256, "geometric": 32, "one-sided": 32}[cls.law]
    queries = 3000
    for lead in (0, sigma):
        w = np.zeros(cls.N, dtype=np.int64)
        w[5] = lead << cls.s
        hits = sum(
            5 in {one.slot for one in engine.answer(key(10_000 + q), w, max(1, lead << cls.s))} for q in range(queries)
        )
        low, high = wilson(hits, queries)
        chance = math.exp(log_chance(build_table(cls.law), cls.N, cls.K, lead)[0])
        assert low <= chance <= high
        assert not low <= 3 * chance <= high
