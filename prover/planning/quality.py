# SPDX-License-Identifier: GPL-3.0-or-later
"""What privacy costs in answers: nDCG@10, recall and the first answer under the real mechanism, sampled.  SPEC M, A.6.

The mechanism is the served one.  With noise: int8 scores, clipped to the window, times gain, in whole steps, plus
noise of the class's integer table over every slot of the capacity, empty ones too; the K largest are released as a
set.  With decoys: ids that are drawn, empty slots among them, and of all other slots above lo the best, as many as
are missing to K.  Slots that score at least a step above the window's lower end, with decoys above lo, have the flag:
the client gets their texts, and ranks them with its own embedder.  Where the policy has a coin, a document that it
hides is an empty slot in all queries of a draw.  Only the source of the uniforms differs: numpy's generator instead
of Poseidon.

One draw of noise or decoys and of coins serves every gain, window, K, number of decoys and coin of a law, so that
differences between them are measured far more exactly than each of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ragseal.kernel.decoys.table import RATE_BITS
from ragseal.kernel.noise import NoiseTable
from ragseal.kernel.params import COIN_BITS
from ragseal.prover.planning.workload import Workload
from ragseal.runtime.progress import Progress, nothing

RANKS = 10  #: nDCG@10
_COIN_STREAM = 1  # apart from the noise's generator of the same draw
_DECOYS_STREAM = 2
_AT_ONCE = 64  # points of a process

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = Sequence[npt.NDArray[np.int64]]


class TableSampler:
    """Exact draws from an integer table: U uniform in [0, 2^n), z the table's inverse CDF of U.

    The upper 64 bits of U decide unless they are those of a CDF entry; then the lower ones are drawn too.
    """

    def __init__(self, table: NoiseTable) -> None:
        self._table, self._lower = table, table.bits - 64
        bounds = [table.cdf(x) for x in range(-table.cut, table.cut)]  # z <= x iff U < F(x); the last one is 2^n
        self._upper = np.array([bound >> self._lower for bound in bounds], dtype=np.uint64)

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
    decoy_rate: int = 0  #: ids that a shard draws on average, times 2^RATE_BITS


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
    def lists(self, draw: int, settings: Sequence[Setting]) -> Iterator[tuple[Setting, int, Mask, Rows]]:
        """Every setting with the largest score without a flag, the documents that the coin hides, and for each query
        the slots that are returned; empty slots, which have no text, may be left out.  The same for the same draw."""

    def hidden(self, draw: int, share: int) -> Mask:
        """Which documents the coin hides, for a share of 2^COIN_BITS; the larger the share, the more of the same."""
        rng = np.random.default_rng([self._seed, draw, _COIN_STREAM])
        return np.asarray(rng.integers(0, 1 << COIN_BITS, size=self._work.documents) < share)

    def quality(self, settings: Sequence[Setting], progress: Progress = nothing) -> list[Quality]:
        """Every setting under the same draws and coins."""
        sums = {setting: np.zeros((3, self._work.queries)) for setting in settings}
        for draw in range(self._draws):
            for done, (setting, silent, hidden, found) in enumerate(self.lists(draw, list(sums))):
                for query, returned in enumerate(found):
                    sums[setting][:, query] += self._judge.score(query, returned, silent, hidden)
                progress("measuring answers", draw * len(sums) + done + 1, self._draws * len(sums))
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

    def lists(self, draw: int, settings: Sequence[Setting]) -> Iterator[tuple[Setting, int, Mask, Rows]]:
        """Settings that differ in K only share the selection."""
        groups: dict[Setting, list[Setting]] = {}
        for setting in settings:
            groups.setdefault(replace(setting, K=0), []).append(setting)
        drawn = self.drawn(draw)
        for common, alike in groups.items():
            hidden = self.hidden(draw, common.hidden)
            found = largest_slots(self.values(drawn, common, hidden), max(setting.K for setting in alike))
            for setting in alike:
                yield setting, self.silent(common.lo, common.gain), hidden, list(found[:, : setting.K])

    def values(self, drawn: npt.NDArray[np.int32], setting: Setting, hidden: Mask) -> Integers:
        """v of every query and slot; a document that is ``hidden`` has no score."""
        signal = self.signal(setting.lo, setting.hi, setting.gain)
        signal[:, hidden] = 0
        v = drawn.astype(np.int64)
        v[:, : self._work.documents] += signal
        return v

    def silent(self, lo: int, gain: int) -> int:
        """The largest score below one step."""
        return lo + -(-(1 << self._s) // gain) - 1


class DecoysMeasurement(Measurement):
    """Of decoys, as :func:`ragseal.kernel.decoys.law.select` has it; a draw that a table's cut leaves out may come."""

    def __init__(self, work: Workload, N: int, capacity: int, draws: int, seed: int) -> None:
        """``N``: slots of a shard."""
        super().__init__(work, capacity, draws, seed)
        self._ids, self._shards, self._N = 1 << (N - 1).bit_length(), capacity // N, N
        self._order = np.argsort(-work.scores.astype(np.int64), axis=1, kind="stable")  # equal scores by id

    def decoys(self, draw: int, query: int, decoy_rate: int) -> npt.NDArray[np.int64]:
        """P of a query, ids of the whole index, increasing.

        Draws are points of a Poisson process, whose time is a shard's draws on average: a larger rate has all draws of
        a smaller one and more.  Void ids and those that were drawn already are left out.
        """
        rng, until, times = (
            np.random.default_rng([self._seed, draw, _DECOYS_STREAM, query]),
            decoy_rate / (1 << RATE_BITS),
            0.0,
        )
        slots: list[npt.NDArray[np.int64]] = []
        while times < until:
            at = times + np.cumsum(rng.exponential(1 / self._shards, _AT_ONCE))
            ids, shards = rng.integers(0, self._ids, _AT_ONCE), rng.integers(0, self._shards, _AT_ONCE)
            real = (at <= until) & (ids < self._N)
            slots.append(shards[real] * self._N + ids[real])
            times = float(at[-1])
        return np.unique(np.concatenate(slots)) if slots else np.zeros(0, dtype=np.int64)

    def lists(self, draw: int, settings: Sequence[Setting]) -> Iterator[tuple[Setting, int, Mask, Rows]]:
        for setting in settings:
            hidden, rows = self.hidden(draw, setting.hidden), []
            for query in range(self._work.queries):
                drawn = self.decoys(draw, query, setting.decoy_rate)
                order = self._order[query]
                others = ~hidden & (self._work.scores[query] > setting.lo)
                documents = drawn[drawn < self._work.documents]
                others[documents] = False
                best = order[others[order]][: max(0, setting.K - len(drawn))]
                rows.append(np.concatenate([documents, best]))
            yield setting, setting.lo, hidden, rows


def noise_free(work: Workload, K: int) -> Quality:
    """What the same embeddings give without noise, coin or score window."""
    judge, found = Judge(work), largest_slots(work.scores.astype(np.int64), min(K, work.documents))
    return _summary(np.array([judge.score(q, row) for q, row in enumerate(found)]).T)


def _summary(values: npt.NDArray[np.float64]) -> Quality:
    """Of three measures by query."""
    mean, count = values.mean(axis=1), values.shape[1]
    error = values.std(axis=1, ddof=1) / math.sqrt(count) if count > 1 else np.full(len(mean), math.inf)
    return Quality(*(float(x) for pair in zip(mean, error, strict=True) for x in pair))
