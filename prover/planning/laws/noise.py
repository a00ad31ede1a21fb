# SPDX-License-Identifier: GPL-3.0-or-later
"""Laws with a noise table, in a plan: their dial is the gain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ragseal.accounting.delivered import largest_shift
from ragseal.circuits.search import complete_noise
from ragseal.kernel import noise
from ragseal.kernel.noise import scale_of
from ragseal.kernel.noise_class import NoiseClass
from ragseal.prover.planning.binomial import Vector, at_most
from ragseal.prover.planning.budgets import Budget, least_gain
from ragseal.prover.planning.candidates import Candidate, Shape, Window
from ragseal.prover.planning.laws.interface import Dial, PlannedLaw
from ragseal.prover.planning.quality import NoiseMeasurement
from ragseal.prover.planning.workload import Workload

_BEYOND = 1e9  # as good as no limit of a return


@dataclass(frozen=True, slots=True)
class GainDial(Dial):
    """A place is a gain."""

    law: NoisePlan

    def at(self, turned: int) -> Candidate:
        return Candidate(self.shape, self.window, turned, self.budget)

    def place_of(self, candidate: Candidate) -> int:
        return candidate.gain

    def of_return(self, target: float) -> int:
        return min(self.most, self.law.gain_of_return(self.window.lo, self.window.hi, target, self.budget))

    def places(self, scales: Mapping[str, Sequence[float]]) -> list[int]:
        cls = self.shape.cls
        unit = (scale_of(cls.law) << cls.step_bits) / (self.window.hi - self.window.lo)
        return sorted({max(self.least, round(scale * unit)) for scale in scales[cls.law]})


@dataclass(frozen=True, slots=True)
class NoisePlan(PlannedLaw):
    """A noise class in a plan."""

    laws: ClassVar[tuple[str, ...]] = NoiseClass.laws
    noun: ClassVar[str] = "law with noise"
    unbounded: ClassVar[str] = "one-sided noise"

    cls: NoiseClass

    @staticmethod
    def in_words(law: str) -> str:
        """Such as "one-sided-16 noise"."""
        return f"{law} noise"

    def returning(self, name: str, K: int) -> NoiseClass:
        cls = self.cls
        return complete_noise(name, cls.law, cls.N, K, cls.m, cls.q, cls.c, cls.S)

    def dial(self, shape: Shape, window: Window, budget: Budget, most_gain: Callable[[Window], int]) -> GainDial:
        return GainDial(shape, window, budget, least_gain(self.cls, window.lo, window.hi), most_gain(window), self)

    def gain_of_return(self, lo: int, hi: int, target: float, budget: Budget) -> int:
        shift = largest_shift(
            self.cls, self.cls.table, target=min(target, _BEYOND), chunks=1, queries=budget.queries, delta=budget.delta
        )
        return self.cls.widest(shift) // (hi - lo) if shift else 0

    @property
    def bits(self) -> int:
        """A step is 2^bits units of a score."""
        return self.cls.step_bits

    @staticmethod
    def measurement(work: Workload, law: str, bits: int, capacity: int, draws: int, seed: int) -> NoiseMeasurement:
        return NoiseMeasurement(work, noise.build_table(law), bits, capacity, draws, seed)

    def comes_back(self, signal: int, prizes: int) -> float:
        cls = self.cls
        mass, above = _law(cls.law)
        cut = len(mass) // 2
        own = np.arange(-cut, cut + 1) + (signal >> cls.step_bits) + 0.5
        larger = np.interp(own, np.arange(-cut, cut + 2), above, right=0.0)  # P(another slot's noise is above it)
        return float(np.clip(mass @ at_most(cls.K - 1, cls.N - 1, larger), 0.0, 1.0))

    def scale(self, gain: int, window: Window) -> float:
        """In sigmas of the Gaussian, in b of the geometric laws."""
        return gain * (window.hi - window.lo) / (scale_of(self.cls.law) << self.cls.step_bits)

    def setting(self, chosen: Candidate) -> str:
        return f"scale {self.scale(chosen.gain, chosen.window):.3g}"


@lru_cache(maxsize=4)
def _law(law: str) -> tuple[Vector, Vector]:
    """(P(z_b = x), P(z_b >= x)) for x = -C..C, with one 0 more at the end of the second."""
    table = noise.build_table(law)
    steps = range(-table.cut, table.cut + 1)
    mass = np.array([table.mass(x) for x in steps], dtype=np.float64) / table.total
    above = np.array([table.tail(x - 1) for x in (*steps, table.cut + 1)], dtype=np.float64) / table.total
    return mass, above
