# SPDX-License-Identifier: GPL-3.0-or-later
"""Among what a plan chooses: classes, score windows, and policies made of both."""

from __future__ import annotations

from dataclasses import dataclass

from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import SCORE_UNIT
from ragseal.prover.planning.budgets import Budget

COSINE_ONE = SCORE_UNIT * SCORE_UNIT


@dataclass(frozen=True, slots=True)
class Shape:
    """A circuit class that a plan may use."""

    cls: AttestationClass
    available: bool  #: in a class file; others have to be built and get keys first


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
    """A policy that a plan may recommend: all that its epsilon and the quality of its answers depend on.

    Raises:
        PolicyError: prizes that the class does not have.
    """

    shape: Shape
    window: Window
    gain: int
    budget: Budget
    prizes: int = 0  #: under the lottery, 1 to the class's; 0 of another law

    def __post_init__(self) -> None:
        most = self.cls.most_prizes
        if not min(1, most) <= self.prizes <= most:
            raise PolicyError(f"class {self.cls.name!r} has {most} prizes at most and {self.prizes} are asked for")

    @property
    def cls(self) -> AttestationClass:
        return self.shape.cls
