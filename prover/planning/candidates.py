# SPDX-License-Identifier: GPL-3.0-or-later
"""Among what a plan chooses: classes, score windows, and policies made of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.params import SCORE_UNIT
from ragseal.prover.planning.budgets import Budget, Terms

COSINE_ONE = SCORE_UNIT * SCORE_UNIT
RESULTS = 10  #: places of a list that a plan leaves to results unless it is told otherwise


@dataclass(frozen=True, slots=True)
class Sizes:
    """Ids of a list that a plan compares."""

    returned: Sequence[int] = ()  #: K; none: what follows
    usual: Sequence[int] = ()  #: K of laws whose classes have one of their own
    results: int = RESULTS  #: places for results, of laws whose policies choose ids freely


@dataclass(frozen=True, slots=True)
class Shape:
    """A circuit class that a plan may use, and its lists."""

    cls: AttestationClass
    available: bool  #: in a class file; others have to be built and get keys first
    ids: int  #: K; 0: as many as leave ``results`` places, which depends on the return
    results: int = RESULTS
    shards: int = 1  #: of the class, that an index is

    @property
    def most(self) -> int:
        """Results of a list where nothing comes by chance."""
        return self.ids or self.results


@dataclass(frozen=True, slots=True)
class Window:
    """A score window in units of y."""

    lo: int
    hi: int

    @classmethod
    def of(cls, lo: float, hi: float) -> Window:
        """From cosines."""
        return cls(round(lo * COSINE_ONE), round(hi * COSINE_ONE))

    @property
    def cosines(self) -> tuple[float, float]:
        return round(self.lo / COSINE_ONE, 4), round(self.hi / COSINE_ONE, 4)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that a plan may recommend: all that its epsilon and the quality of its answers depend on."""

    shape: Shape
    window: Window
    gain: int
    budget: Budget
    ids: int  #: K
    decoy_rate: int = 0  #: draws of a shard on average, times 2^16; 0 of a law with noise
    target: float = 0.0  #: return that a policy with decoys names; 0 of a law with noise

    @property
    def cls(self) -> AttestationClass:
        return self.shape.cls

    @property
    def capacity(self) -> int:
        """Slots of an index."""
        return self.shape.shards * self.cls.N

    @property
    def terms(self) -> Terms:
        """As a policy says them."""
        return Terms(self.window.lo, self.window.hi, self.gain, self.ids, self.decoy_rate, self.shape.shards)
