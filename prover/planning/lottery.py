# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan sets of a lottery's policy, and what it says of it.  SPEC M.3.2, D.11.8; docs/proofs/lottery.md.

No number of the claim depends on score window, gain or queries, so nothing is saved by less of them: the window reaches
up to cosine 1, and the gain is the largest that the class compares, a multiple of 2^m where there is one.  Prizes are
what epsilon is traded with: fewer of them make the return larger, and leave more places of a list to scores.
"""

from __future__ import annotations

from dataclasses import replace

from ragseal.kernel.lottery_class import LotteryClass
from ragseal.prover.planning.candidates import COSINE_ONE, Candidate, Window
from ragseal.prover.planning.chance import prizes_taken


def up_to_one(window: Window) -> Window:
    """A score window that tells all scores above its lower end apart."""
    return replace(window, hi=COSINE_ONE)


def whole_gain(cls: LotteryClass, most: int) -> int:
    """The largest multiple of 2^m up to ``most``, with which ties alone are broken by chance; else ``most``."""
    return most >> cls.m << cls.m or most


def spread(cls: LotteryClass, points: int) -> list[int]:
    """So many numbers of prizes at most, two at least, from all that the class has down to 1, in about equal ratios."""
    steps = max(1, points - 1)
    return sorted({round(cls.prizes ** (at / steps)) for at in range(steps + 1)}, reverse=True)


def in_words(candidate: Candidate) -> list[str]:
    """What is different from a law with noise; nothing of a candidate that has one."""
    cls, prizes = candidate.cls, candidate.prizes
    if not isinstance(cls, LotteryClass):
        return []
    values = 1 << cls.m
    order = (
        "in the order of their scores"
        if candidate.gain % values == 0
        else "in the order of their scores, but that two which differ by less than "
        f"{values / candidate.gain:.2g} / {COSINE_ONE:,} of cosine 1 may change places"
    )
    return [
        f"the lottery has no noise: {prizes} of {values:,} values win a prize, so "
        f"{prizes_taken(cls, prizes).in_words(cls.K)}. All others are the best there are, {order}",
        "its return follows from coin and prizes alone and takes nothing of delta: neither the gain, nor the score "
        "window, nor the number of queries is part of it. So the window reaches up to cosine 1 and the gain is the "
        "largest that the class compares; fewer prizes give better answers and a larger return",
        "it bounds one return and nothing of every list: two lists can differ for certain by what a slot holds, so it "
        "goes with no other claim",
    ]
