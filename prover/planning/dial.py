# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan turns to trade epsilon against answers: the gain of a law with noise, the prizes of the lottery."""

from __future__ import annotations

from dataclasses import dataclass

from ragseal.kernel.lottery_class import LotteryClass
from ragseal.prover.planning.budgets import Budget, gain_of_return, least_gain, prizes_of_return
from ragseal.prover.planning.candidates import Candidate, Shape, Window


@dataclass(frozen=True, slots=True)
class Dial:
    """The policies of one class, score window and budget, counted so that epsilon and the quality of answers grow."""

    shape: Shape
    window: Window
    budget: Budget
    gain: int  #: of the lottery, whose dial counts prizes; 0 of a law with noise, whose dial is the gain
    least: int
    most: int  #: the largest that the class compares; below ``least``: none

    def at(self, turned: int) -> Candidate:
        """The policy at a place of the dial; of the lottery there is one prize less at each further one."""
        cls = self.shape.cls
        if isinstance(cls, LotteryClass):
            return Candidate(self.shape, self.window, self.gain, self.budget, cls.prizes + 1 - turned)
        return Candidate(self.shape, self.window, turned, self.budget)

    def place_of(self, candidate: Candidate) -> int:
        """The other way round."""
        cls = self.shape.cls
        return cls.prizes + 1 - candidate.prizes if isinstance(cls, LotteryClass) else candidate.gain

    def of_return(self, target: float) -> int:
        """The largest place whose return is at most ``target``; below ``least`` if there is none."""
        cls = self.shape.cls
        if isinstance(cls, LotteryClass):
            prizes = prizes_of_return(cls, target, self.budget)
            return min(self.most, cls.prizes + 1 - prizes) if prizes else 0
        return min(self.most, gain_of_return(cls, self.window.lo, self.window.hi, target, self.budget))


def dial_of_noise(shape: Shape, window: Window, budget: Budget, most: int) -> Dial:
    """``most``: the largest gain that the class compares."""
    return Dial(shape, window, budget, 0, least_gain(shape.cls, window.lo, window.hi), most)


def dial_of_lottery(shape: Shape, window: Window, budget: Budget, gain: int) -> Dial:
    """``gain``: of all its policies; 0: the class compares nothing of this window."""
    cls = shape.cls
    assert isinstance(cls, LotteryClass)
    return Dial(shape, window, budget, gain, 1, cls.prizes if gain else 0)
