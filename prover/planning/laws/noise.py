# SPDX-License-Identifier: GPL-3.0-or-later
"""Laws with a noise table, in a plan: their dial is the gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ragseal.circuits.search import complete_noise
from ragseal.kernel import noise
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.noise import scale_of
from ragseal.kernel.noise_class import NoiseClass, with_noise
from ragseal.kernel.policy import Policy
from ragseal.prover.commitment.policy_file import cosine_text
from ragseal.prover.planning.binomial import Vector, at_most
from ragseal.prover.planning.budgets import Budget, least_gain, most_gain
from ragseal.prover.planning.candidates import Candidate, Shape, Sizes, Window
from ragseal.prover.planning.laws.interface import Dial, PlannedLaw
from ragseal.prover.planning.quality import NoiseMeasurement
from ragseal.prover.planning.workload import Workload


@dataclass(frozen=True, slots=True)
class GainDial(Dial):
    """A place is a gain."""

    law: NoisePlan

    def at(self, turned: int) -> Candidate:
        return Candidate(self.shape, self.window, turned, self.budget, self.law.cls.K)

    def place_of(self, candidate: Candidate) -> int:
        return candidate.gain

    def places(self, scales: Mapping[str, Sequence[float]]) -> list[int]:
        cls = self.law.cls
        unit = (scale_of(cls.law) << cls.step_bits) / (self.window.hi - self.window.lo)
        return sorted({max(self.least, round(scale * unit)) for scale in scales[cls.law]})


@dataclass(frozen=True, slots=True)
class NoisePlan(PlannedLaw):
    """A noise class in a plan."""

    laws: ClassVar[tuple[str, ...]] = NoiseClass.laws
    least_setting: ClassVar[str] = "the least gain"

    cls: NoiseClass

    @staticmethod
    def in_words(law: str) -> str:
        """Such as "geometric-16 noise"."""
        return f"{law} noise"

    @staticmethod
    def capacity(cls: AttestationClass) -> int:
        """Of one shard."""
        return cls.N

    @staticmethod
    def shapes(classes: Sequence[AttestationClass], sizes: Sizes, documents: int) -> list[Shape]:
        """For every K the class of the fewest rows; for a K that no class has, what it would be."""
        known = [with_noise(cls) for cls in classes]
        found = []
        for K in sizes.returned or sizes.usual:
            like = next((cls for cls in known if cls.K == K), None)
            found.append(Shape(like or _returning(known[0], K), like is not None, K))
        return found

    def dial(self, shape: Shape, window: Window, budget: Budget, dimension: int) -> GainDial:
        least = least_gain(self.cls, window.lo, window.hi)
        most = most_gain(self.cls, dimension, window.lo, window.hi)
        return GainDial(shape, window, budget, least, most, self)

    @property
    def bits(self) -> int:
        """A step is 2^bits units of a score."""
        return self.cls.step_bits

    @staticmethod
    def measurement(work: Workload, law: str, bits: int, capacity: int, draws: int, seed: int) -> NoiseMeasurement:
        return NoiseMeasurement(work, noise.build_table(law), bits, capacity, draws, seed)

    def comes_back(self, policy: Policy, y: int) -> float:
        return self.of_signal(policy.gain * (min(max(y, policy.lo), policy.hi) - policy.lo))

    def of_signal(self, signal: int) -> float:
        """Probability that one of N noisy scores is among the K largest; the others are noise alone.

        Args:
            signal: gain * (y - lo) of the one.
        """
        cls = self.cls
        mass, above = _law(cls.law)
        cut = len(mass) // 2
        own = np.arange(-cut, cut + 1) + (signal >> cls.step_bits) + 0.5
        larger = np.interp(own, np.arange(-cut, cut + 2), above, right=0.0)  # P(another slot's noise is above it)
        return float(np.clip(mass @ at_most(cls.K - 1, cls.N - 1, larger), 0.0, 1.0))

    def shown_scores(self, lo: int, hi: int) -> tuple[int, ...]:
        """Of the window's upper end and middle."""
        return hi, (lo + hi) // 2

    def scale(self, gain: int, window: Window) -> float:
        """In sigmas of the Gaussian, in b of the geometric law."""
        return gain * (window.hi - window.lo) / (scale_of(self.cls.law) << self.cls.step_bits)

    def setting(self, chosen: Candidate) -> str:
        return f"gain {chosen.gain} (scale {self.scale(chosen.gain, chosen.window):.3g})"

    def policy_lines(self, chosen: Candidate) -> str:
        return f"hi = {cosine_text(chosen.window.hi)}\ngain = {chosen.gain}\n"


def _returning(like: NoiseClass, K: int) -> NoiseClass:
    """A class of the same slots that returns so many.

    Raises:
        ConfigurationError: there is none.
    """
    try:
        return complete_noise(f"{like.name}-k{K}", like.law, like.N, K, like.m, like.q, like.c, like.S)
    except PolicyError as error:
        raise ConfigurationError(f"no class of {like.N} slots can return {K}: {error}") from None


@lru_cache(maxsize=4)
def _law(law: str) -> tuple[Vector, Vector]:
    """(P(z_b = x), P(z_b >= x)) for x = -C..C, with one 0 more at the end of the second."""
    table = noise.build_table(law)
    steps = range(-table.cut, table.cut + 1)
    mass = np.array([table.mass(x) for x in steps], dtype=np.float64) / table.total
    above = np.array([table.tail(x - 1) for x in (*steps, table.cut + 1)], dtype=np.float64) / table.total
    return mass, above
