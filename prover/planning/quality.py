# SPDX-License-Identifier: GPL-3.0-or-later
"""What privacy costs in answers: nDCG@10, recall and the first answer under the real mechanism, sampled.  SPEC M, A.6.

The mechanism is the served one: int8 scores, clipped to the window, times gain, in whole steps, plus noise of the
class's integer table over every slot of the capacity, empty ones too; the K largest are released as a set.  Under the
lottery a slot has coarse bits instead, which break ties or win a prize.  Slots that score at least a step above the
window's lower end, under the lottery above it, have the flag: the client gets their texts, and
ranks them with its own embedder.  Where the policy has a coin, a document that it hides is an empty slot in all
queries of a draw.  Only the source of the uniforms differs: numpy's generator instead of Poseidon.

One draw of noise and coins serves every gain, window, K, number of prizes and coin of a law, so that differences
between them are measured far more exactly than each of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ragseal.kernel.noise import NoiseTable
from ragseal.kernel.params import COIN_BITS
from ragseal.prover.planning.workload import Workload
from ragseal.runtime.progress import Progress, nothing

RANKS = 10  #: nDCG@10
_COIN_STREAM = 1  # apart from the noise's generator of the same draw

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class TableSampler:
    """Exact draws from an integer table: U uniform in [0, 2^n), z the table's inverse CDF of U.

    The upper 64 bits of U decide unless they are those of a CDF entry; then the lower ones are drawn too.
    """

    def __init__(self, table: NoiseTable) -> None:
        self._table, self._lower = table, table.bits - 64
        self._least = next(x for x in range(-table.cut, table.cut + 1) if table.mass(x))  # one-sided laws begin at 0
        bounds = [table.cdf(x) for x in range(self._least, table.cut)]  # z <= x iff U < F(x); the last one is 2^n
        self._upper = np.array([bound >> self._lower for bound in bounds], dtype=np.uint64)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.int32]:
        """z_b, table steps."""
        upper = rng.integers(0, 1 << 64, size=shape, dtype=np.uint64)
        return self.of(upper, rng)

    def of(self, upper: npt.NDArray[np.uint64], rng: np.random.Generator) -> npt.NDArray[np.int32]:
        """z_b of uniforms whose upper halves are given."""
        below = np.searchsorted(self._upper, upper, side="left")
        above = np.searchsorted(self._upper, upper, side="right")
        z = (above + self._least).astype(np.int32)
        for at in np.argwhere(below != above):  # a share of 2^-51 of all draws
            below_it = int(rng.integers(0, 1 << self._lower, dtype=np.uint64))
            uniform = (int(upper[tuple(at)]) << self._lower) | below_it
            z[tuple(at)] = self._table.inverse(uniform)
        return z


def clipped(y: npt.NDArray[np.int32], lo: int, hi: int) -> npt.NDArray[np.int32]:
    """c = clip(y, lo, hi) - lo."""
    return np.asarray(np.clip(y, lo, hi) - lo, dtype=np.int32)


def largest_slots(v: Integers, most: int) -> npt.NDArray[np.int64]:
    """Slots of the ``most`` largest (v, -slot) of every row, largest first, shape (rows, most).

    |v| times the number of slots stays below 2^62.
    """
    slots = v.shape[1]
    key = v * slots - np.arange(slots, dtype=np.int64)
    found = np.argpartition(key, slots - most, axis=1)[:, slots - most :]
    order = np.argsort(-np.take_along_axis(key, found, axis=1), axis=1)
    return np.asarray(np.take_along_axis(found, order, axis=1), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Setting:
    """What the quality of answers depends on: capacity and law are the measurement's, these vary."""

    lo: int
    hi: int
    gain: int
    K: int
    hidden: int = 0  #: the coin hides a document with probability hidden / 2^COIN_BITS
    prizes: int = 0  #: of the 2^m coarse values, under the lottery


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over queries and draws of noise.  Standard errors are those of the mean over queries."""

    ndcg10: float
    ndcg10_se: float
    recall: float  #: share of the relevant documents among those that are returned with their text
    recall_se: float
    top1: float  #: share of the queries whose first answer is the one without noise and coin
    top1_se: float


class Judge:
    """nDCG@10, recall and first answer of returned slots."""

    def __init__(self, work: Workload) -> None:
        self._work = work
        self._first = work.scores.argmax(axis=1)
        self._discount = 1 / np.log2(np.arange(2, RANKS + 2))
        self._ideal = np.array(
            [
                sum(g * d for g, d in zip(sorted(grades.values(), reverse=True), self._discount, strict=False))
                for grades in work.relevant
            ]
        )

    def ndcg(self, query: int, ranked: Sequence[int]) -> float:
        """nDCG@10 of slots, best first, with linear gains as trec_eval computes it."""
        grades = self._work.relevant[query]
        gained = sum(grades.get(int(s), 0) * d for s, d in zip(ranked, self._discount, strict=False))
        return float(gained / self._ideal[query])

    def score(
        self, query: int, returned: npt.NDArray[np.int64], lo: int | None = None, hidden: Mask | None = None
    ) -> tuple[float, float, float]:
        """(nDCG@10 after the client's re-ranking, recall, 1 if the first answer is the best document) of a set.

        Args:
            lo: a slot that scores at or below it has no flag, so nothing to read.  None: no flags.
            hidden: by document, whether the coin hides it: then it has no flag either.
        """
        grades = self._work.relevant[query]
        documents = returned[returned < self._work.documents]  # empty slots have no text to rank
        if lo is not None:
            documents = documents[self._work.scores[query, documents] > lo]
        if hidden is not None:
            documents = documents[~hidden[documents]]
        order = np.lexsort((documents, -self._work.scores[query, documents].astype(np.int64)))
        ranked = documents[order].tolist()
        hits = sum(slot in grades for slot in ranked)
        first = float(bool(ranked) and ranked[0] == self._first[query])
        return self.ndcg(query, ranked[:RANKS]) if hits else 0.0, hits / len(grades), first


class Measurement(ABC):
    """One law at one capacity over one workload."""

    def __init__(self, work: Workload, capacity: int, draws: int, seed: int) -> None:
        """``draws``: samples of what a law draws, a query."""
        self._work, self._capacity, self._draws, self._seed = work, capacity, draws, seed
        self._judge = Judge(work)

    @abstractmethod
    def drawn(self, draw: int) -> npt.NDArray[np.int32]:
        """What the law draws for every query and slot of the capacity; the same for the same draw."""

    @abstractmethod
    def values(self, drawn: npt.NDArray[np.int32], setting: Setting, hidden: Mask) -> Integers:
        """v of every query and slot; a document that is ``hidden`` has no score."""

    @abstractmethod
    def silent(self, lo: int, gain: int) -> int:
        """The largest score without a flag."""

    def hidden(self, draw: int, share: int) -> Mask:
        """Which documents the coin hides, for a share of 2^COIN_BITS; the larger the share, the more of the same."""
        rng = np.random.default_rng([self._seed, draw, _COIN_STREAM])
        return np.asarray(rng.integers(0, 1 << COIN_BITS, size=self._work.documents) < share)

    def quality(self, settings: Sequence[Setting], progress: Progress = nothing) -> list[Quality]:
        """Every setting under the same draws and coins; settings that differ in K only share the selection."""
        sums = {setting: np.zeros((3, self._work.queries)) for setting in settings}
        groups: dict[Setting, list[Setting]] = {}
        for setting in sums:
            groups.setdefault(replace(setting, K=0), []).append(setting)
        for draw in range(self._draws):
            drawn = self.drawn(draw)
            for done, (common, alike) in enumerate(groups.items()):
                hidden = self.hidden(draw, common.hidden)
                found = largest_slots(self.values(drawn, common, hidden), max(setting.K for setting in alike))
                silent = self.silent(common.lo, common.gain)
                for setting in alike:
                    for query in range(self._work.queries):
                        score = self._judge.score(query, found[query, : setting.K], silent, hidden)
                        sums[setting][:, query] += score
                progress("measuring answers", draw * len(groups) + done + 1, self._draws * len(groups))
        return [_summary(sums[setting] / self._draws) for setting in settings]


class NoiseMeasurement(Measurement):
    """Of a law with a noise table."""

    def __init__(self, work: Workload, table: NoiseTable, s: int, capacity: int, draws: int, seed: int) -> None:
        """``s``: a table step is 2^s units of a score; ``draws``: noise samples a query."""
        super().__init__(work, capacity, draws, seed)
        self._s, self._sampler = s, TableSampler(table)

    def drawn(self, draw: int) -> npt.NDArray[np.int32]:
        """z = 2^s z_b."""
        rng = np.random.default_rng([self._seed, draw])
        return np.asarray(self._sampler.draw(rng, (self._work.queries, self._capacity)) << self._s, dtype=np.int32)

    def signal(self, lo: int, hi: int, gain: int) -> Integers:
        """What noise is added to: gain * c of every query and document, in whole steps."""
        found: Integers = gain * clipped(self._work.scores, lo, hi).astype(np.int64)
        return found >> self._s << self._s

    def values(self, drawn: npt.NDArray[np.int32], setting: Setting, hidden: Mask) -> Integers:
        signal = self.signal(setting.lo, setting.hi, setting.gain)
        signal[:, hidden] = 0
        v = drawn.astype(np.int64)
        v[:, : self._work.documents] += signal
        return v

    def silent(self, lo: int, gain: int) -> int:
        """The largest score below one step."""
        return lo + -(-(1 << self._s) // gain) - 1


class LotteryMeasurement(Measurement):
    """Of the lottery, as :func:`ragseal.kernel.lottery_mechanism.lottery_value` has it for one slot."""

    def __init__(self, work: Workload, m: int, capacity: int, draws: int, seed: int) -> None:
        """``m``: coarse bits."""
        super().__init__(work, capacity, draws, seed)
        self._m = m

    def drawn(self, draw: int) -> npt.NDArray[np.int32]:
        """u, coarse bits."""
        rng = np.random.default_rng([self._seed, draw])
        return rng.integers(0, 1 << self._m, size=(self._work.queries, self._capacity), dtype=np.int32)

    def values(self, drawn: npt.NDArray[np.int32], setting: Setting, hidden: Mask) -> Integers:
        """H + 2^m + u of a prize, whatever the score; else the score in units of w, and u."""
        scores = setting.gain * clipped(self._work.scores, setting.lo, setting.hi).astype(np.int64)
        scores[:, hidden] = 0
        v = drawn.astype(np.int64)
        v[:, : self._work.documents] += scores
        values = 1 << self._m
        first = setting.gain * (setting.hi - setting.lo) + values
        return np.where(drawn >= values - setting.prizes, first + drawn.astype(np.int64), v)

    def silent(self, lo: int, gain: int) -> int:
        return lo


def noise_free(work: Workload, K: int) -> Quality:
    """What the same embeddings give without noise, coin or score window."""
    judge, found = Judge(work), largest_slots(work.scores.astype(np.int64), min(K, work.documents))
    return _summary(np.array([judge.score(q, row) for q, row in enumerate(found)]).T)


def _summary(values: npt.NDArray[np.float64]) -> Quality:
    """Of three measures by query."""
    mean, count = values.mean(axis=1), values.shape[1]
    error = values.std(axis=1, ddof=1) / math.sqrt(count) if count > 1 else np.full(len(mean), math.inf)
    return Quality(*(float(x) for pair in zip(mean, error, strict=True) for x in pair))
