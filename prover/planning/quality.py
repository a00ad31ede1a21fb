# SPDX-License-Identifier: GPL-3.0-or-later
"""What privacy costs in answers: nDCG@10 and recall under the real mechanism, sampled.  SPEC M, A.6.

The mechanism is the served one: int8 scores, clipped to the window, times gain, plus noise of the class's integer table
and dither over every slot of the capacity, empty ones too; the K largest are released as a set, and the client ranks
them with its own embedder.  Only the source of the uniforms differs: numpy's generator instead of Poseidon.

One draw of noise serves every gain, window and K of a law, so that differences between them are measured far more
exactly than each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragseal.kernel.noise import NoiseTable
from ragseal.prover.planning.workload import Workload

RANKS = 10  #: nDCG@10

Integers = npt.NDArray[np.int64]
Progress = Callable[[str, int, int], None]


def quiet(what: str, done: int, total: int) -> None:
    """No progress."""


class TableSampler:
    """Exact draws from an integer table: U uniform in [0, 2^128), z the table's inverse CDF of U.

    The upper 64 bits of U decide unless they are those of a CDF entry; then the lower 64 are drawn too.
    """

    def __init__(self, table: NoiseTable) -> None:
        self._table = table
        bounds = [table.cdf(x) for x in range(-table.cut, table.cut)]  # z <= x iff U < F(x); the last one is 2^128
        self._upper = np.array([bound >> 64 for bound in bounds], dtype=np.uint64)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.int32]:
        """z_b, table steps."""
        upper = rng.integers(0, 1 << 64, size=shape, dtype=np.uint64)
        return self.of(upper, rng)

    def of(self, upper: npt.NDArray[np.uint64], rng: np.random.Generator) -> npt.NDArray[np.int32]:
        """z_b of uniforms whose upper halves are given."""
        below = np.searchsorted(self._upper, upper, side="left")
        above = np.searchsorted(self._upper, upper, side="right")
        z = (above - self._table.cut).astype(np.int32)
        for at in np.argwhere(below != above):  # a share of 2^-51 of all draws
            uniform = (int(upper[tuple(at)]) << 64) | int(rng.integers(0, 1 << 64, dtype=np.uint64))
            z[tuple(at)] = self._table.inverse(uniform)
        return z


def clipped(y: npt.NDArray[np.int32], lo: int, hi: int) -> npt.NDArray[np.int32]:
    """c = clip(y, lo, hi) - lo."""
    return np.asarray(np.clip(y, lo, hi) - lo, dtype=np.int32)


def largest_slots(v: Integers, most: int) -> npt.NDArray[np.int64]:
    """Slots of the ``most`` largest (v, -slot) of every row, largest first; |v| < 2^31, shape (rows, most)."""
    slots = v.shape[1]
    key = (v << 32) - np.arange(slots, dtype=np.int64)
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


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over queries and draws of noise.  Standard errors are those of the mean over queries."""

    ndcg10: float
    ndcg10_se: float
    recall: float  #: share of the relevant documents among the K returned
    recall_se: float


class Judge:
    """nDCG@10 and recall of returned slots."""

    def __init__(self, work: Workload) -> None:
        self._work = work
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

    def score(self, query: int, returned: npt.NDArray[np.int64], lo: int | None) -> tuple[float, float]:
        """(nDCG@10 after the client's re-ranking, recall) of a returned set.

        Args:
            lo: lower end of the score window: a slot at or below it has no flag, so nothing to read.  None: no flags.
        """
        grades = self._work.relevant[query]
        documents = returned[returned < self._work.documents]  # empty slots never have the flag
        if lo is not None:
            documents = documents[self._work.scores[query, documents] > lo]
        hits = [s for s in documents.tolist() if s in grades]
        if not hits:
            return 0.0, 0.0
        order = np.lexsort((documents, -self._work.scores[query, documents].astype(np.int64)))
        return self.ndcg(query, documents[order][:RANKS].tolist()), len(hits) / len(grades)


class Measurement:
    """One law at one capacity over one workload."""

    def __init__(self, work: Workload, table: NoiseTable, s: int, capacity: int, draws: int, seed: int) -> None:
        """``s``: dither bits; ``draws``: noise samples a query."""
        self._work, self._s, self._capacity, self._draws, self._seed = work, s, capacity, draws, seed
        self._sampler, self._judge = TableSampler(table), Judge(work)

    def noise(self, draw: int) -> npt.NDArray[np.int32]:
        """z = 2^s z_b + dither of every query and slot; the same for the same draw."""
        rng = np.random.default_rng([self._seed, draw])
        shape = (self._work.queries, self._capacity)
        dither = rng.integers(0, 1 << self._s, size=shape, dtype=np.int32)
        return np.asarray((self._sampler.draw(rng, shape) << self._s) + dither, dtype=np.int32)

    def quality(self, settings: Sequence[Setting], progress: Progress = quiet) -> list[Quality]:
        """Every setting under the same noise; settings that differ in K only share the selection."""
        sums = {setting: np.zeros((2, self._work.queries)) for setting in settings}
        groups: dict[tuple[int, int, int], list[Setting]] = {}
        for setting in sums:
            groups.setdefault((setting.lo, setting.hi, setting.gain), []).append(setting)
        for draw in range(self._draws):
            noise = self.noise(draw)
            for done, ((lo, hi, gain), alike) in enumerate(groups.items()):
                v = noise.astype(np.int64)
                v[:, : self._work.documents] += gain * clipped(self._work.scores, lo, hi).astype(np.int64)
                found = largest_slots(v, max(setting.K for setting in alike))
                for setting in alike:
                    for query in range(self._work.queries):
                        sums[setting][:, query] += self._judge.score(query, found[query, : setting.K], setting.lo)
                progress("measuring answers", draw * len(groups) + done + 1, self._draws * len(groups))
        return [self._summary(sums[setting] / self._draws) for setting in settings]

    def noise_free(self, K: int) -> Quality:
        """What the same embeddings give without any noise."""
        found = largest_slots(self._work.scores.astype(np.int64), min(K, self._work.documents))
        scores = [self._judge.score(q, row, None) for q, row in enumerate(found)]
        return self._summary(np.array(scores).T)

    def _summary(self, values: npt.NDArray[np.float64]) -> Quality:
        mean = values.mean(axis=1)
        error = values.std(axis=1, ddof=1) / math.sqrt(values.shape[1]) if values.shape[1] > 1 else np.full(2, math.inf)
        return Quality(float(mean[0]), float(error[0]), float(mean[1]), float(error[1]))
