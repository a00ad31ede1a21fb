# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan sets of a lottery's policy, and what it says of it.  SPEC M.3.2, D.11.8; docs/proofs/lottery.md.

No number of the claim depends on score window, gain or queries, so nothing is saved by less of them: the window reaches
up to cosine 1, and the gain is the largest that the class compares, a multiple of 2^m where there is one.  Prizes are
what epsilon is traded with: fewer of them make the return larger, and leave more places of a list to scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ragseal.circuits.search import complete_lottery
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.params import ONE_SIDED
from ragseal.kernel.policy import Policy
from ragseal.prover.planning.binomial import at_most
from ragseal.prover.planning.budgets import Budget, cost
from ragseal.prover.planning.candidates import COSINE_ONE, Candidate, Shape, Window
from ragseal.prover.planning.laws.interface import Dial, PlannedLaw
from ragseal.prover.planning.quality import LotteryMeasurement
from ragseal.prover.planning.workload import Workload

LEFT = 10  #: results that a list should have for scores


@dataclass(frozen=True, slots=True)
class PrizeDial(Dial):
    """The first place is all the prizes of the class; at each further one there is one less."""

    law: LotteryPlan
    gain: int  #: of all its policies

    def at(self, turned: int) -> Candidate:
        return Candidate(self.shape, self.window, self.gain, self.budget, self.law.cls.prizes + 1 - turned)

    def place_of(self, candidate: Candidate) -> int:
        return self.law.cls.prizes + 1 - candidate.prizes

    def of_return(self, target: float) -> int:
        prizes = prizes_of_return(self.law.cls, target, self.budget)
        return min(self.most, self.law.cls.prizes + 1 - prizes) if prizes else 0

    def places(self, scales: Mapping[str, Sequence[float]]) -> list[int]:
        """As many as one-sided noise has scales."""
        cls = self.law.cls
        return [cls.prizes + 1 - prizes for prizes in spread(cls, len(scales[ONE_SIDED]))]


@dataclass(frozen=True, slots=True)
class LotteryPlan(PlannedLaw):
    """A class of the lottery in a plan."""

    laws: ClassVar[tuple[str, ...]] = LotteryClass.laws
    noun: ClassVar[str] = "lottery"
    unbounded: ClassVar[str] = "the lottery"
    exhausted: ClassVar[str] = ", of the lottery all the prizes,"

    cls: LotteryClass

    @staticmethod
    def in_words(law: str) -> str:
        return "the lottery"

    def returning(self, name: str, K: int) -> LotteryClass:
        cls = self.cls
        return complete_lottery(name, cls.N, K, cls.m, cls.q, cls.c, cls.prizes)

    def dial(self, shape: Shape, window: Window, budget: Budget, most_gain: Callable[[Window], int]) -> PrizeDial:
        """With one gain, the largest; 0: the class compares nothing of this window."""
        whole = self.window(window)
        gain = self.usual_gain(most_gain(whole))
        return PrizeDial(shape, whole, budget, 1, self.cls.prizes if gain else 0, self, gain)

    def gain_of_return(self, lo: int, hi: int, target: float, budget: Budget) -> int:
        """Every gain has the same return: more than any that the class compares, or 0."""
        found = cost(self.cls, 0, 1, 1, budget, self.cls.prizes).delivered
        return self.cls.room if found is not None and found.returned <= target else 0

    def window(self, window: Window) -> Window:
        """One that tells all scores above its lower end apart."""
        return replace(window, hi=COSINE_ONE)

    def usual_gain(self, most: int) -> int:
        """The largest multiple of 2^m, with which ties alone are broken by chance; else all."""
        return most >> self.cls.m << self.cls.m or most

    def compared(self, gain: int, reach: int) -> int:
        """Its return sets no limit, what it compares does."""
        return min(gain, (self.cls.room - 1) // reach)

    @property
    def bits(self) -> int:
        """Coarse bits."""
        return self.cls.m

    @staticmethod
    def measurement(work: Workload, law: str, bits: int, capacity: int, draws: int, seed: int) -> LotteryMeasurement:
        return LotteryMeasurement(work, bits, capacity, draws, seed)

    def comes_back(self, signal: int, prizes: int) -> float:
        """Prizes come first, then the document, but for ties with empty slots' own bits."""
        cls = self.cls
        values = 1 << cls.m
        u = np.arange(values)
        beyond = np.maximum(0, values - prizes - 1 - (signal + u)) + np.where(signal + u < values - prizes, 0.5, 0.0)
        ahead = np.where(u >= values - prizes, values - 1 - u + 0.5, prizes + beyond)
        return float(np.clip(at_most(cls.K - 1, cls.N - 1, ahead / values).mean(), 0.0, 1.0))

    def setting(self, chosen: Candidate) -> str:
        return f"prizes {chosen.prizes} of {1 << self.cls.m:,}"

    def about(self, chosen: Candidate) -> list[str]:
        """What is different from a law with noise."""
        cls, prizes, values = self.cls, chosen.prizes, 1 << self.cls.m
        order = (
            "in the order of their scores"
            if chosen.gain % values == 0
            else "in the order of their scores, but that two which differ by less than "
            f"{values / chosen.gain:.2g} / {COSINE_ONE:,} of cosine 1 may change places"
        )
        return [
            f"the lottery has no noise: {prizes} of {values:,} values win a prize, so "
            f"{prizes_taken(cls, prizes).in_words(cls.K)}. All others are the best there are, {order}",
            "its return follows from coin and prizes alone and takes nothing of delta: neither the gain, nor the score "
            "window, nor the number of queries is part of it. So the window reaches up to cosine 1 and the gain is the "
            "largest that the class compares; fewer prizes give better answers and a larger return",
            "it bounds one return and nothing of every list: two lists can differ for certain by what a slot holds, so "
            "it goes with no other claim",
        ]

    def terms(self, policy: Policy) -> dict[str, Any]:
        """What the prizes take of a list."""
        return {"prizes": asdict(prizes_taken(self.cls, policy.prizes(self.cls)))}

    def terms_in_words(self, terms: Mapping[str, Any]) -> list[str]:
        return [Prizes(**terms["prizes"]).in_words(self.cls.K)] if "prizes" in terms else []

    def policy_text(self, text: str) -> str:
        """What the template says of gain is not so here; and the number of prizes stands there."""
        lines, values, prizes = text.splitlines(), 1 << self.cls.m, self.cls.prizes
        at = next(i for i, line in enumerate(lines) if line.startswith("gain = "))
        gain = lines[at].partition("#")[0]
        lines[at : at + 1] = [
            f"{gain}# no part of epsilon: {values} / gain units of score are what a tie-break can move",
            f"prizes = {prizes:<17}# of {values} coarse values: fewer, a larger return, more places for scores",
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Prizes:
    """What the lottery takes of a list."""

    mean: float  #: slots that win one in a query
    crowded: float  #: of all queries: those in which fewer than LEFT of the K results, or of all, are left to scores

    def in_words(self, K: int) -> str:
        """How much of a list of K it is."""
        return (
            f"{self.mean:.3g} slots win a prize on average, whatever was asked, and come first in a list of {K}; in "
            f"{self.crowded:.1%} of all queries fewer than {min(K, LEFT)} places are left to scores"
        )


def prizes_taken(cls: LotteryClass, prizes: int) -> Prizes:
    """Of a list where ``prizes`` of the 2^m coarse values win: every slot of the capacity draws, empty ones too."""
    p = prizes / (1 << cls.m)
    left = max(0, cls.K - LEFT)
    return Prizes(cls.N * p, float(1 - at_most(left, cls.N, np.array([p]))[0]))


def spread(cls: LotteryClass, points: int) -> list[int]:
    """So many numbers of prizes at most, two at least, from all that the class has down to 1, in about equal ratios."""
    steps = max(1, points - 1)
    return sorted({round(cls.prizes ** (at / steps)) for at in range(steps + 1)}, reverse=True)


def prizes_of_return(cls: LotteryClass, target: float, budget: Budget) -> int:
    """The fewest prizes whose return is at most ``target``; 0 if even all that the class has have more.

    For claim until-delivered.
    """
    for prizes in range(1, cls.prizes + 1):  # each more makes the return smaller
        found = cost(cls, 0, 1, 1, budget, prizes).delivered
        if found is not None and found.returned <= target:
            return prizes
    return 0
