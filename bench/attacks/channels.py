# SPDX-License-Identifier: GPL-3.0-or-later
"""What a coalition sees of this project's mechanism (SPEC M), as exact laws and as real retrievals.

Noise is ``2^s z + dither`` with z from the committed integer table; in a noise class there is no dither, and scores
are whole steps.  Two channels: the noisy score of one slot, which no account gets but which the DP bound is about
(:class:`ScoreChannel`), and whether a slot is among the K released ids (:class:`HitChannel`).  Queries of one probe are
independent and identically distributed, because every request has its own noise key; so sums over many queries are
drawn from the exact law of the sum, not query by query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bench.attacks.roc import Vector
from ragseal.backends.mechanism import Engine, open_engine
from ragseal.circuits.search import complete, largest_q
from ragseal.kernel import mechanism, noise
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.params import CircuitClass
from ragseal.kernel.params import R as FIELD_ORDER

Integers = npt.NDArray[np.int64]
SPAN = 15  #: standard deviations of a sum that its law covers on either side (outside: below 1e-49)


@lru_cache(maxsize=4)
def masses(law: str) -> Vector:
    """Probabilities of z = -C .. C."""
    table = noise.build_table(law)
    return np.array([table.mass(x) / table.total for x in range(-table.cut, table.cut + 1)])


@lru_cache(maxsize=64)
def _sum_law(law: str, count: int) -> tuple[int, Vector]:
    """(smallest value, cumulative probabilities) of the sum of ``count`` independent draws of the table.

    By the discrete Fourier transform on a circle long enough that what wraps around is below 1e-49.
    """
    p = masses(law)
    cut = len(p) // 2
    deviation = math.sqrt(count * float(np.dot(p, np.arange(-cut, cut + 1) ** 2)))
    reach = min(count * cut, math.ceil(SPAN * deviation) + cut)
    size = 1 << (2 * reach + 1).bit_length()
    circle = np.zeros(size)
    circle[: cut + 1] = p[cut:]
    circle[size - cut :] = p[:cut]
    transform = np.fft.rfft(circle).real  # the table is symmetric
    law_of_sum = np.fft.irfft(transform**count, size)
    around = np.maximum(np.concatenate([law_of_sum[-reach:], law_of_sum[: reach + 1]]), 0.0)
    cumulative = np.cumsum(around)
    return -reach, cumulative / cumulative[-1]


@dataclass(frozen=True)
class ScoreChannel:
    """The noisy score of one slot under one law: v = shift + 2^s z + dither, ``shift`` = gain (clipped score - lo).

    Of laws with a dither.
    """

    law: str
    s: int

    def __post_init__(self) -> None:
        if not noise.dithered(self.law):
            raise ValueError(f"the score channel has a dither, noise of the law {self.law} has none")

    @property
    def deviation(self) -> float:
        """Standard deviation of one noisy score."""
        p = masses(self.law)
        cut = len(p) // 2
        variance = float(np.dot(p, np.arange(-cut, cut + 1) ** 2))
        return math.sqrt(variance * 4**self.s + (4**self.s - 1) / 12)

    def sums(self, rng: np.random.Generator, count: int, shift: int, trials: int) -> Integers:
        """``trials`` sums of ``count`` noisy scores, exactly distributed.

        The dither is s fair bits, so its sum is a weighted sum of s binomials.
        """
        first, cumulative = _sum_law(self.law, count)
        table = first + np.searchsorted(cumulative, rng.random(trials), side="right").astype(np.int64)
        dither = np.zeros(trials, dtype=np.int64)
        for bit in range(self.s):
            dither += rng.binomial(count, 0.5, trials).astype(np.int64) << bit
        return (table << self.s) + dither + count * shift

    def best_auc(self, gap: int, count: int) -> float:
        """AUC of the likelihood ratio over ``count`` queries: its law is nearly normal, mean and variance exact.

        A shift below one table step moves v out of its cell only now and then, and then by a whole step's worth of
        evidence: so the ratio knows more than the mean does, as if the shift were sqrt(gap 2^s) instead of gap.
        """
        chance, ratio, _ = self.loss_cells(gap)
        seen = np.isfinite(ratio) & (chance > 0)
        variance = float(np.dot(chance[seen], ratio[seen] ** 2)) * count
        return NormalDist().cdf(math.sqrt(variance / 2))

    def loss_cells(self, gap: int) -> tuple[Vector, Vector, Vector]:
        """One query's (probability, log-likelihood ratio, table step) cells where the true shift is the larger one.

        Against a world whose shift is lower by ``gap``, a draw (z, dither) would have been z + j there, j one of two
        neighbouring whole numbers: so the ratio takes two values for each z.
        """
        p = masses(self.law)
        cut = len(p) // 2
        whole, rest = divmod(gap, 1 << self.s)
        z = np.arange(-cut, cut + 1)
        cells = []
        for step, share in ((whole, 1 - rest / (1 << self.s)), (whole + 1, rest / (1 << self.s))):
            if share == 0:
                continue
            there = np.zeros_like(p)
            if step < len(p):
                there[: len(p) - step] = p[step:]
            with np.errstate(divide="ignore"):
                cells.append((p * share, np.log(p) - np.log(there), z.astype(np.float64)))
        return tuple(np.concatenate(parts) for parts in zip(*cells, strict=True))  # type: ignore[return-value]


@lru_cache(maxsize=16)
def mechanism_class(slots: int, K: int, m: int = 8, c: int = 15, s: int = 15, law: str = "gaussian") -> CircuitClass:
    """A class with exactly so many slots, for experiments that retrieve without proving; R from the overflow bound."""
    q = next(q for q in range(largest_q(m, c), 0, -1) if slots % q == 0)
    return complete(f"bench-{law}-{slots}-{K}", law, slots, K, m, q, c, s)


class HitChannel:
    """Whether ``slot`` is among the K ids released for scores ``w``, which are clipped to [0, hmax].

    ``hmax`` is as a statement has it: of a noise class in whole steps.
    """

    def __init__(self, cls: AttestationClass, w: npt.ArrayLike, hmax: int, slot: int) -> None:
        self.cls, self.hmax, self.slot = cls, hmax, slot
        self.w = np.asarray(w, dtype=np.int64)
        if self.w.shape != (cls.N,):
            raise ValueError(f"{cls.N} scores expected")

    def probability(self, nodes: int = 12) -> float:
        """P(slot in T) for one query, without sampling.

        Over the slot's own noise (every table step, and Gauss-Legendre nodes inside the dither) the others exceed it
        independently: the chance that fewer than K do is a Poisson-binomial tail.  Ties are of probability 2^-s each
        and are counted as won, so the value is off by at most N 2^-s.  In a noise class they go to the lower slot.
        """
        p = masses(self.cls.law)
        cut = len(p) // 2
        cumulative = np.concatenate([[0.0], np.cumsum(p)])
        if noise.dithered(self.cls.law):
            clipped = np.clip(self.w, 0, self.hmax) / (1 << self.cls.step_bits)  # in table steps
            others = np.delete(clipped, self.slot)
            at, weights = np.polynomial.legendre.leggauss(nodes)
            at, weights = (at + 1) / 2, weights / 2
        else:
            clipped = (np.clip(self.w >> self.cls.step_bits, 0, self.hmax)).astype(np.float64)
            # A lower slot is ahead at equal values: as if it scored a step more.
            others = np.delete(clipped + (np.arange(self.cls.N) < self.slot), self.slot)
            at, weights = np.ones(1), np.ones(1)
        values, counts = np.unique(others, return_counts=True)
        own = clipped[self.slot] + np.arange(-cut, cut + 1)[:, None] + at[None, :]
        few = np.zeros((self.cls.K, *own.shape))  # chance that exactly j of the others so far are above
        few[0] = 1.0
        edges = np.arange(-cut, cut + 2)
        for value, count in zip(values, counts, strict=True):
            exceed = 1 - np.interp(own - value, edges, cumulative)
            few = _convolve(few, _binomial_start(exceed, int(count), self.cls.K))
        return float(np.dot(p, few.sum(axis=0) @ weights))

    def retrievals(self, keys: Callable[[int], list[int]], count: int, batch: int = 4096) -> Iterator[int]:
        """Hits in real retrievals by the provider's engine, batch by batch; ``keys(n)`` gives n fresh noise keys."""
        engine = open_engine(self.cls)
        with ThreadPoolExecutor() as pool:
            done = 0
            while done < count:
                size = min(batch, count - done)
                yield sum(pool.map(lambda key: self._hit(engine, key), keys(size), chunksize=256))
                done += size

    def _hit(self, engine: Engine, key: int) -> bool:
        return any(one.slot == self.slot for one in engine.answer(key, self.w, self.hmax))


def _binomial_start(chance: Vector, count: int, terms: int) -> list[Vector]:
    """P(Bin(count, chance) = j) for j = 0 .. terms - 1."""
    rest = 1 - chance
    return [math.comb(count, j) * chance**j * rest ** (count - j) for j in range(min(terms, count + 1))]


def _convolve(few: Vector, more: list[Vector]) -> Vector:
    """Law of a sum, cut after the terms of ``few``."""
    out = few * more[0]
    for j, part in enumerate(more[1:], start=1):
        out[j:] += few[:-j] * part
    return out


def noise_keys(seed: int) -> Callable[[int], list[int]]:
    """Noise keys as a provider derives them: Poseidon of one seed, a beacon and a running context.

    The first key is hashed; the others are drawn from a generator, as a key's only role is to differ: the engine hashes
    every one of them again for its blocks.
    """
    rng = np.random.default_rng(seed)
    start = mechanism.noise_key((seed & (1 << 128) - 1, seed >> 128), 1, 2)

    def draw(count: int) -> list[int]:
        raw = rng.bytes(32 * count)
        return [(start + int.from_bytes(raw[at : at + 32], "big")) % FIELD_ORDER for at in range(0, 32 * count, 32)]

    return draw
