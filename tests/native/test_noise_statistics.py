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
import random
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from ragseal.accounting.attack import log_chance
from ragseal.backends.mechanism import NativeNoiseEngine, NoiseAnswer
from ragseal.circuits.build import build
from ragseal.groth16.assignments import assign_attestation
from ragseal.kernel import field, statement
from ragseal.kernel.classes import Asked
from ragseal.kernel.errors import AttestationError, UnprovableError
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.noise import TOTAL, NoiseTable, build_table, scale_of
from ragseal.kernel.noise_class import NoiseClass, check_scores
from ragseal.kernel.noise_hints import noise_hints
from ragseal.kernel.noise_mechanism import select_noise
from ragseal.kernel.noise_statement import NoiseLayout
from ragseal.kernel.params import GAUSSIAN, GEOMETRIC, NOISE_LAWS, R
from ragseal.kernel.statements import stated_of
from tests import classes
from tests.circuits.noise_records import STEPS, scores_of
from tests.circuits.scene import CACHE, noise_probe, noise_tiny
from tests.classes import TINY

native = pytest.importorskip("ragseal_native")

Whole = npt.NDArray[np.int64]

CLASSES = {cls.name: cls for cls in (classes.TINY, classes.GAUSSIAN)}
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
        rows[record, slots] = group("placeMagnitude") * (1 - 2 * group("placeSign"))
    return rows


def deviation(chi_square: float, freedom: int) -> float:
    """A chi-square statistic in standard deviations, by Wilson and Hilferty's cube root."""
    return float(((chi_square / freedom) ** (1 / 3) - 1 + 2 / (9 * freedom)) / math.sqrt(2 / (9 * freedom)))


def fit(values: Whole, table: NoiseTable, bins: int = 40) -> float:
    """Chi-square of the values against the table, in bins of about equal probability."""
    edges = sorted({table.inverse(TOTAL * j // bins) for j in range(1, bins)} - {-table.cut})
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


@pytest.mark.slow
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
    assert z.min() >= -table.cut


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_a_wrong_law_is_seen(name: str) -> None:
    z = stream(name)
    law, table = CLASSES[name].law, CLASSES[name].table
    assert fit(z + scale_of(law) // (16 if law == GAUSSIAN else 2), table) > REJECT, "a sixteenth of sigma, half of b"
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_no_value_comes_twice_as_a_whole_record(name: str) -> None:
    z = stream(name)
    assert len({row.tobytes() for row in z}) == RECORDS
    assert len({column.tobytes() for column in z.T}) == CLASSES[name].N


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_the_kernels_sampler_gives_the_same_values(name: str) -> None:
    cls, z = opened(name), stream(name)
    for record in (0, 7):
        places = select_noise(cls, key(record), [[0] * cls.N], 16).shards[0].places
        assert {place.slot: place.noise for place in places} == dict(enumerate(z[record].tolist()))


@pytest.mark.slow
@pytest.mark.parametrize("law", NOISE_LAWS)
def test_the_kernels_inverse_on_a_seeded_stream(law: str) -> None:
    table = build_table(law)
    data = hashlib.shake_256(b"inverse " + law.encode()).digest(14 * 40_000)
    values = np.array([table.inverse(int.from_bytes(data[i : i + 14], "big")) for i in range(0, len(data), 14)])
    assert abs(fit(values, table, 200)) < REJECT
    assert fit(values + scale_of(law) // 8, table, 200) > REJECT


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_a_released_slot_is_as_likely_as_computed(name: str) -> None:
    """The engine's answers against the exact chance, which the lower bound of epsilon uses."""
    cls = CLASSES[name]
    engine, scale, queries = NativeNoiseEngine(cls), scale_of(cls.law), 3000
    for lead in (0, scale):
        w = np.zeros(cls.N, dtype=np.int64)
        w[0] = lead << cls.c
        hits = sum(
            0 in {one.slot for one in engine.answer(key(10_000 + q), w, Asked((max(1, lead),)))} for q in range(queries)
        )
        low, high = wilson(hits, queries)
        chance = math.exp(log_chance(cls.table, cls.N, cls.K, lead)[0])
        assert low <= chance <= high
        assert not low <= 3 * chance <= high


# The native engine over several shards gives what the reference gives, bit for bit.


CLS = TINY
ENGINE = NativeNoiseEngine(CLS)
KINDS = {
    "random": lambda rng, shard: rng.randrange(-900, 300),
    "equal": lambda rng, shard: 7,
    "one shard wins": lambda rng, shard: 128 if shard == 1 else -1000,
    "extreme": lambda rng, shard: rng.choice((STEPS - 2047, 2048)),
}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_answers_and_hints_equal_the_reference(kind: str, shards: int) -> None:
    rng = random.Random(kind)
    w = [scores_of(CLS, [KINDS[kind](rng, s) for _ in range(CLS.N)], rng) for s in range(shards)]
    key, scores = noise_key((7, rng.getrandbits(128)), 8, 9), np.array(w, dtype=np.int64)
    chosen = select_noise(CLS, key, w, STEPS)
    found = ENGINE.select(key, scores, Asked((STEPS,)))
    assert found == NoiseAnswer(chosen.returned, chosen.threshold, chosen.threshold_slot)
    for shard in range(shards):
        made = ENGINE.hints(key, scores[shard], STEPS, (shard, shards), found)
        assert made == field.pack(noise_hints(CLS, chosen, shard, w[shard], STEPS))


def test_a_prover_of_one_shard_refuses_what_is_no_part_of_the_index() -> None:
    scores = np.zeros((2, CLS.N), dtype=np.int64)
    found = ENGINE.select(5, scores, Asked((STEPS,)))
    for place, answer, why in (
        ((2, 2), found, "no shard 2 of 2"),
        ((0, 65), found, "no shard"),
        ((0, 2), replace(found, returned=found.returned[::-1]), "increasing"),
        ((0, 2), replace(found, returned=found.returned[1:]), "increasing"),
        ((0, 2), replace(found, threshold_slot=-1), "increasing"),
    ):
        with pytest.raises(AttestationError, match=why):
            ENGINE.hints(5, scores[0], STEPS, place, answer)
    with pytest.raises(UnprovableError, match="could win"):
        ENGINE.hints(5, scores[0], STEPS, (0, 2), replace(found, threshold=-1000))


@pytest.mark.parametrize("count", [0, 125, 65 * 126])
def test_scores_that_are_no_shards_are_refused(count: int) -> None:
    with pytest.raises(AttestationError, match="of 1 to 64 shards of 126"):
        ENGINE.select(5, np.zeros(count, dtype=np.int64), Asked((STEPS,)))


# Many honest statements satisfy the compiled circuit with noise: native engine and witness, every kind of scores.


def digits(kind: str, n: int, steps: int, rng: random.Random) -> list[int]:
    """Of n slots, as far as a class allows with a window of ``steps``."""
    least, most = steps - 2047, 2048
    return {
        "random": lambda: [rng.randrange(least, most + 1) for _ in range(n)],
        "equal": lambda: [rng.randrange(least, most + 1)] * n,
        "around the window": lambda: [rng.randrange(-3, steps + 4) for _ in range(n)],
        "clustered": lambda: [rng.choice((0, steps // 2, steps)) for _ in range(n)],
        "extreme": lambda: [rng.choice((least, most)) for _ in range(n)],
        "empty": lambda: [-900 if rng.randrange(4) else rng.randrange(-300, steps + 1) for _ in range(n)],
        "one": lambda: [most] + [least] * (n - 1),
    }[kind]()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["random", "equal", "around the window", "clustered", "extreme", "empty", "one"])
@pytest.mark.parametrize("law", [*NOISE_LAWS, "probe"])
def test_honest_statements(law: str, kind: str) -> None:
    cls, shards = (noise_probe(), 1) if law == "probe" else (noise_tiny(law), 2)
    circuit, engine, rng = native.R1cs.load(str(build(cls, CACHE).r1cs)), NativeNoiseEngine(cls), random.Random(kind)
    for _ in range(5 if law == "probe" else 40):
        steps = rng.choice((1, 2, 16, 96, 128, 400))
        check_scores(cls, steps, steps - 2047, 2048)
        ks = digits(kind, cls.N * shards, steps, rng)
        w = np.array([(k << cls.c) + rng.randrange(1 << cls.c) for k in ks], dtype=np.int64)
        seed, beacon, ctx = (rng.getrandbits(128), rng.getrandbits(128)), rng.getrandbits(248), rng.getrandbits(248)
        key, salt = noise_key(seed, beacon, ctx), rng.getrandbits(248)
        asked = Asked((steps,))
        common = statement.seed_commitment(seed), beacon, ctx, steps
        lists = stated_of(cls).lists(salt, engine.answer(key, w, asked), shards)
        hidden, challenges = engine.hidden(key, w, asked), (rng.getrandbits(248), rng.getrandbits(248))
        for shard, own in enumerate(w.reshape(shards, cls.N).tolist()):
            clear = (*common, *lists, shard, shards, *challenges)
            given = assign_attestation(cls, clear, own, hidden[shard], hidden.shared, 5, (seed, salt))
            assert circuit.check(circuit.solve(given.packed())) is None
