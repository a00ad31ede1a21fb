# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner's measurement is the served mechanism: exact draws, exact selection, metrics by the book."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy  # whose `stats` is loaded where a test uses it: it takes a second

from ragseal.circuits.circuit import load_classes
from ragseal.kernel import mechanism
from ragseal.kernel.decoys.bounds import drawn_probability
from ragseal.kernel.decoys.law import select
from ragseal.kernel.decoys.table import RATE_BITS
from ragseal.kernel.decoys.table import build_table as build_draws
from ragseal.kernel.noise import build_table, scale_of
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_mechanism import clipped as clipped_steps
from ragseal.kernel.noise_mechanism import select_noise
from ragseal.kernel.params import NOISE_LAWS
from ragseal.prover.planning.quality import (
    DecoysMeasurement,
    Judge,
    NoiseMeasurement,
    Setting,
    TableSampler,
    largest_slots,
    noise_free,
)
from ragseal.prover.planning.workload import Workload
from tests.classes import DECOYS

pytestmark = pytest.mark.slow


class Lower:
    """A generator that gives the lower halves of known uniforms."""

    def __init__(self, halves: Sequence[int]) -> None:
        self._halves = list(halves)

    def integers(self, *_: object, **__: object) -> int:
        return self._halves.pop(0)


@pytest.mark.parametrize("law", NOISE_LAWS)
def test_draws_are_the_tables_inverse_on_both_sides_of_every_bound(law: str) -> None:
    """The worst places: uniforms whose upper 64 bits are those of a CDF entry."""
    table = build_table(law)
    low = table.bits - 64
    uniforms = []
    for x in range(-table.cut, table.cut, 97):
        bound = table.cdf(x)
        uniforms += [bound - 1, bound, min(bound | ((1 << low) - 1), table.total - 1), bound >> low << low]
    uniforms += [0, table.total - 1, table.total >> 1, (table.total >> 1) - 1]
    upper = np.array([u >> low for u in uniforms], dtype=np.uint64)
    sampler = TableSampler(table)
    ends = {table.cdf(x) >> low for x in range(-table.cut, table.cut)}
    lower: Any = Lower([u & ((1 << low) - 1) for u in uniforms if u >> low in ends])
    assert sampler.of(upper, lower).tolist() == [table.inverse(u) for u in uniforms]


@pytest.mark.parametrize("law", NOISE_LAWS)
def test_draws_follow_the_table(law: str) -> None:
    table = build_table(law)
    drawn = TableSampler(table).draw(np.random.default_rng(5), (200_000,))
    edges = np.quantile(np.abs(drawn), np.linspace(0, 1, 21)).astype(int)
    cells = sorted({-table.cut - 1, *(int(-e) for e in edges), *(int(e) for e in edges), table.cut})
    counts = np.histogram(drawn, [c + 0.5 for c in cells])[0]
    masses = [(table.cdf(b) - table.cdf(a)) / table.total for a, b in itertools.pairwise(cells)]
    assert scipy.stats.chisquare(counts, np.array(masses) * len(drawn) / sum(masses)).pvalue > 1e-4


@pytest.mark.parametrize("name", ["noise-tiny-two", "noise-tiny-gaussian"])
def test_the_selection_of_a_noise_class_is_the_mechanisms(name: str) -> None:
    """What is measured with a generator's noise, fed the mechanism's own: scores in whole steps, the same slots.

    A slot without a place loses whatever its fine bits are, so it has the least noise of its coarse ones here.
    """
    cls: NoiseClass = load_classes()[name]
    rng = np.random.default_rng(5)
    for trial in range(6):
        y = rng.integers(0, 16129, (1, 60)).astype(np.int32)
        lo, hi, gain = 4000, 9000, int(rng.integers(20, 60))
        w = np.full(cls.N, -gain * lo, dtype=np.int64)
        w[:60] = gain * (y[0].astype(np.int64) - lo)
        key, steps = mechanism.noise_key((1, trial), 2, 3), cls.window_of(gain * (hi - lo))
        (made,) = select_noise(cls, key, [w.tolist()], steps).shards
        z = [cls.table.inverse(u << cls.fine_bits) for u in made.coarse]
        for place in made.places:
            z[place.slot] = place.noise
        measure = NoiseMeasurement(Workload("test", 60, y, ({0: 1},)), cls.table, cls.c, cls.N, 1, 1)
        v = np.array([z], dtype=np.int64) << cls.c
        signal = measure.signal(lo, hi, gain)
        v[:, :60] += signal
        assert sorted(largest_slots(v, cls.K)[0].tolist()) == list(made.ids)
        assert not (signal % (1 << cls.c)).any()
        assert not (measure.drawn(trial) % (1 << cls.c)).any()
        assert (signal[0] >> cls.c).tolist() == [clipped_steps(int(x) >> cls.c, steps) for x in w[:60]]
        flagged = {one.slot for one in made.returned if one.flag}
        assert flagged == {i for i in made.ids if i < 60 and y[0, i] > measure.silent(lo, gain)}


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("K", [1, 6, 20])
def test_the_selection_with_decoys_is_the_mechanisms(shards: int, K: int) -> None:
    """What is measured with a generator's draws, fed the mechanism's own: the same texts come back.

    Documents that the coin hides are empty slots in what the provider answers from.
    """
    rng, lo, modes = np.random.default_rng(10 * K + shards), 4000, set()
    rate, capacity = 1 << RATE_BITS, shards * DECOYS.N
    for trial in range(30):
        documents = capacity - 7
        y = rng.integers(0, 16129, (1, documents)).astype(np.int32)
        y[0, ::2], y[0, 1::6] = lo, lo + 1  # on both sides of a flag, and equal to others
        if trial % 3 == 0:
            y[0, trial:] = lo - 1  # few match
        hidden = rng.integers(0, 4, documents) == 0
        served = np.zeros(capacity, dtype=np.int64)
        served[:documents] = np.where(hidden, 0, y[0])
        scores = served.reshape(shards, DECOYS.N).tolist()
        made = select(DECOYS, DECOYS.table(rate), mechanism.noise_key((1, trial), 2, 3), scores, lo, K)
        drawn = [shard * DECOYS.N + slot for shard, own in enumerate(made.drawn) for slot in own]
        measure = DecoysMeasurement(Workload("test", documents, y, ({0: 1},)), DECOYS.N, capacity, 1, 1)
        measure.decoys = lambda *_, drawn=drawn: np.array(drawn, dtype=np.int64)  # type: ignore[method-assign,misc]
        measure.hidden = lambda *_, hidden=hidden: hidden  # type: ignore[method-assign,misc]
        ((_, silent, _, (row,)),) = measure.lists(0, [Setting(lo, lo + 1, 1, K, 1, rate)])
        shown = {i for i in row.tolist() if y[0, i] > silent and not hidden[i]}
        flagged = {h * DECOYS.N + one.slot for h, own in enumerate(made.returned) for one in own if one.flag}
        assert shown == flagged
        assert len(set(row.tolist())) == len(row)
        modes.add("short" if made.short else "over" if made.over else "full")
    assert len(modes) > 1


@pytest.mark.parametrize(("N", "shards"), [(64, 1), (50, 1), (50, 3)])
def test_each_slot_is_drawn_on_its_own_as_often_as_the_table_says(N: int, shards: int) -> None:
    """Void and repeated ids left out: a binomial number of all slots, none more often than another."""
    rate, work = 9 << RATE_BITS, work_of([[100] * 20] * 40, [{0: 1}] * 40)
    measure = DecoysMeasurement(work, N, shards * N, 50, 3)
    found = [measure.decoys(draw, query, rate) for draw in range(50) for query in range(40)]
    p0 = float(drawn_probability(build_draws((N - 1).bit_length(), rate), N))
    slots = shards * N
    counts = np.bincount(np.concatenate(found), minlength=slots)
    assert len(counts) == slots
    assert counts.sum() / 2000 == pytest.approx(slots * p0, rel=0.02)
    assert scipy.stats.chisquare(counts).pvalue > 1e-4
    sizes = np.array([len(one) for one in found])
    assert sizes.var() == pytest.approx(slots * p0 * (1 - p0), rel=0.15)


def test_a_larger_rate_draws_all_of_a_smaller_one_and_the_same_for_the_same_draw() -> None:
    measure = DecoysMeasurement(work_of([[100] * 20] * 2, [{0: 1}] * 2), 300, 300, 1, 3)
    few, many = (measure.decoys(0, 1, rate << RATE_BITS).tolist() for rate in (30, 200))
    assert set(few) < set(many)
    assert few == measure.decoys(0, 1, 30 << RATE_BITS).tolist()
    assert few != measure.decoys(0, 0, 30 << RATE_BITS).tolist()
    assert few != measure.decoys(1, 1, 30 << RATE_BITS).tolist()
    assert measure.decoys(0, 1, 0).tolist() == []


def test_fewer_decoys_leave_more_to_scores_under_the_same_draw() -> None:
    """Settings that differ in decoys share their draws, and none is taken for another."""
    work = work_of([[5000 - i for i in range(40)]] * 100, [{q % 6: 1} for q in range(100)])
    measure = DecoysMeasurement(work, 126, 126, 10, 5)
    settings = [Setting(0, 1, 1, 6, 0, rate << RATE_BITS) for rate in (1, 4, 12)]
    one, some, many = measure.quality(settings)
    assert one.recall > some.recall > many.recall
    assert [measure.quality([setting])[0] for setting in settings] == [one, some, many]


def test_a_document_that_the_coin_hides_takes_no_place_and_shows_no_text_where_it_is_drawn() -> None:
    work = work_of([[5000 - i for i in range(40)]] * 200, [{q % 10: 1} for q in range(200)])
    measure = DecoysMeasurement(work, 126, 126, 10, 5)
    seen, coined = measure.quality([Setting(0, 1, 1, 20, hidden, 1 << RATE_BITS) for hidden in (0, 64)])
    assert seen.recall == 1
    taken = np.mean([[measure.hidden(draw, 64)[q % 10] for q in range(200)] for draw in range(10)])
    assert coined.recall == pytest.approx(1 - taken), "twenty places are enough for those that are there"
    few = [Setting(0, 1, 1, 6, hidden, 1 << RATE_BITS) for hidden in (0, 64)]
    seen, coined = measure.quality(few)
    assert coined.recall > seen.recall * (1 - taken) + 0.05, "what the coin takes from some goes to the others"


def test_a_text_of_a_noise_class_takes_a_whole_step() -> None:
    """Documents just below and at one step above the window's lower end, so many slots returned that both come."""
    gain, c = 3, 11
    step = -(-(1 << c) // gain)  # 683: 3 * 682 < 2048
    work = work_of([[100 + step - 1, 100 + step]] * 50, [{q % 2: 1} for q in range(50)])
    found = NoiseMeasurement(work, build_table("geometric-16"), c, 2, 1, 1).quality([Setting(100, 9000, gain, 2)])[0]
    assert found.recall == 0.5


def test_ties_go_to_the_lower_slot() -> None:
    v = np.array([[5, 9, 9, -7, 9], [-1, -1, -1, -1, -1]], dtype=np.int64)
    assert largest_slots(v, 3).tolist() == [[1, 2, 4], [0, 1, 2]]


def work_of(scores: list[list[int]], relevant: list[dict[int, int]]) -> Workload:
    return Workload("test", len(scores[0]), np.array(scores, dtype=np.int32), tuple(relevant))


def test_metrics_by_hand() -> None:
    """Returned {4, 1, 7, 2}; the client ranks 1 (score 90), 4 (50), 2 (10); slot 7 is empty."""
    judge = Judge(work_of([[70, 90, 10, 0, 50]], [{1: 1, 2: 3, 3: 2}]))
    ndcg, recall, first = judge.score(0, np.array([4, 1, 7, 2]))
    gained = 1 / math.log2(2) + 3 / math.log2(4)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert ndcg == pytest.approx(gained / ideal)
    assert recall == pytest.approx(2 / 3)
    assert first == 1
    assert judge.score(0, np.array([0, 4])) == (0.0, 0.0, 0.0)


def test_a_text_is_read_where_the_slot_scores_above_the_window_and_no_coin_hides_it() -> None:
    judge = Judge(work_of([[70, 90, 10, 0, 50]], [{1: 1, 2: 3}]))
    returned = np.array([4, 1, 7, 2])
    assert judge.score(0, returned, lo=9)[1] == 1
    assert judge.score(0, returned, lo=10)[1:] == (0.5, 1.0)  # slot 2 scores at the window's lower end
    hidden = np.array([False, True, False, False, False])
    ndcg, recall, first = judge.score(0, returned, 9, hidden)
    assert (recall, first) == (0.5, 0)  # the client sees 4, then 2
    assert ndcg == pytest.approx(3 / math.log2(3) / (3 + 1 / math.log2(3)))
    assert judge.score(0, returned, lo=90) == (0.0, 0.0, 0.0)  # nothing to read, so no first answer


def test_the_coin_hides_its_share_for_a_whole_draw_and_a_larger_share_the_same_ones() -> None:
    work = work_of([[100] * 20_000] * 2, [{0: 1}] * 2)
    measure = NoiseMeasurement(work, build_table("geometric-16"), 1, 20_000, 1, 3)
    few, many = measure.hidden(0, 13), measure.hidden(0, 40)
    assert few.mean() == pytest.approx(13 / 256, abs=0.006)
    assert many.mean() == pytest.approx(40 / 256, abs=0.01)
    assert not (few & ~many).any()
    assert (measure.hidden(1, 13) != few).any()
    assert not measure.hidden(0, 0).any()


def test_a_hidden_document_is_an_empty_slot() -> None:
    """Scores so far above the noise that every visible document comes back: what is missing is what the coin took."""
    documents, share = 40, 64
    work = work_of([[5000] * documents] * 30, [{q % documents: 1} for q in range(30)])
    measure = NoiseMeasurement(work, build_table("geometric-16"), 1, 2 * documents, 50, 5)
    seen, hidden = measure.quality([Setting(0, 5000, 100, documents), Setting(0, 5000, 100, documents, share)])
    assert seen.recall == 1
    taken = np.mean([[measure.hidden(draw, share)[q % documents] for q in range(30)] for draw in range(50)])
    assert taken == pytest.approx(share / 256, abs=0.05)
    assert hidden.recall == pytest.approx(1 - taken)
    assert hidden.top1 < seen.top1 == 1  # document 0 is the first of equals


def test_a_hidden_document_takes_no_place() -> None:
    """Equal documents for a few places: what the coin takes from some goes to the others, so all places are filled."""
    documents, K = 40, 10
    work = work_of([[5000] * documents] * documents, [{q: 1} for q in range(documents)])
    measure = NoiseMeasurement(work, build_table("geometric-16"), 1, 2 * documents, 50, 5)
    seen, hidden = measure.quality([Setting(0, 5000, 100, K), Setting(0, 5000, 100, K, 64)])
    assert seen.recall == pytest.approx(K / documents, abs=0.04)
    assert hidden.recall == pytest.approx(K / documents, abs=0.04)  # 0.19 if hidden ones kept their scores


def test_only_ten_ranks_count() -> None:
    judge = Judge(work_of([[100 - i for i in range(12)]], [{10: 1, 0: 1}]))
    everything = np.arange(12)
    ndcg, recall, _ = judge.score(0, everything)
    assert recall == 1
    assert ndcg == pytest.approx(1 / (1 + 1 / math.log2(3)))  # slot 10 is eleventh


@pytest.mark.parametrize("law", NOISE_LAWS)
def test_hits_come_as_often_as_the_table_says(law: str) -> None:
    """One document against empty slots: sampled recall against the exact probability, summed over the table."""
    table, N, K, s = build_table(law), 126, 3, 4
    unit = scale_of(law)
    gain, hi = 1, unit << s  # one unit of scale
    work = work_of([[hi]] * 400, [{0: 1}] * 400)
    measured = NoiseMeasurement(work, table, s, N, 10, 7).quality([Setting(0, hi, gain, K)])[0]
    # P(fewer than K of the N - 1 others exceed z) summed over the document's noise; its slot, 0, wins ties.
    expected = 0.0
    for z in range(-table.cut, table.cut + 1):
        exceeds = table.tail(z + unit) / table.total
        expected += table.mass(z) / table.total * float(scipy.stats.binom.cdf(K - 1, N - 1, exceeds))
    spread = 5 * math.sqrt(expected * (1 - expected) / 4000)
    assert expected - spread <= measured.recall <= expected + spread
    assert measured.recall == pytest.approx(measured.ndcg10)
    # Half the noise or twice the gain would be noticed.
    doubled = NoiseMeasurement(work, table, s, N, 10, 7).quality([Setting(0, hi, 2 * gain, K)])[0]
    assert doubled.recall > expected + spread


def test_without_noise_the_best_are_found() -> None:
    work = work_of([[1, 5, 3, 2], [9, 1, 1, 8]], [{1: 1}, {3: 1}])
    free = noise_free(work, 2)
    assert free.recall == free.top1 == 1
    assert free.ndcg10 == pytest.approx((1 + 1 / math.log2(3)) / 2)
