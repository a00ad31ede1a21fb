# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom a planned policy's guarantee holds against, under either claim, and what it comes to.  SPEC Claims, D.11.

Every number is the accountant's own, so that a plan and an audit cannot differ.  Under claim until-delivered it depends
on no number of accounts or queries but for delta, which a plan spends on :data:`ACCOUNTS` accounts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ragseal.accounting import guess
from ragseal.accounting.audit import ScorePolicy, epsilon_audit
from ragseal.accounting.delivered import CoinThrows, Delivered, fewest_hidden, largest_shift, until_delivered
from ragseal.accounting.delivered_lottery import lottery_delivered
from ragseal.accounting.guess import absence_in_words
from ragseal.accounting.rounding import upward
from ragseal.kernel import noise
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED

ACCOUNTS = 1000  #: whose queries share delta in a plan under until-delivered; a commit counts those that are registered
UNSEEN = 3.0  #: recommended: even odds become 95 to 5 at most, and 1 document in 20 is not found
RETURN = 6.0  #: recommended, and the target where none is given
_BEYOND = 1e9  # as good as no limit of a return


@dataclass(frozen=True, slots=True)
class Budget:
    """``unseen`` is None under claim every-list, which holds against k_max accounts of n_max queries each."""

    n_max: int
    k_max: int
    delta: Fraction
    unseen: float | None = None  #: of claim until-delivered, at most; it holds against any accounts and queries

    @property
    def claim(self) -> str:
        return EVERY_LIST if self.unseen is None else UNTIL_DELIVERED

    @property
    def hidden(self) -> int:
        """j: the coin hides a document with probability j / 2^COIN_BITS; 0 where there is none."""
        return 0 if self.unseen is None else fewest_hidden(self.unseen, chunks=1, periods=1)

    @property
    def queries(self) -> int:
        """That epsilon or, under until-delivered, delta is spent on."""
        return self.n_max * (self.k_max if self.unseen is None else ACCOUNTS)


@dataclass(frozen=True, slots=True)
class Cost:
    """What an audit of a policy reports."""

    epsilon: float  #: infinite where the auditor would refuse the window
    delivered: Delivered | None  #: under claim until-delivered, of which epsilon is unseen

    @property
    def bound(self) -> float:
        """What a dial trades against answers: the return under until-delivered, where nothing else moves; epsilon."""
        return self.epsilon if self.delivered is None or math.isinf(self.epsilon) else self.delivered.returned


def bound_name(budget: Budget) -> str:
    """What :attr:`Cost.bound` is called under a budget's claim."""
    return "epsilon" if budget.unseen is None else "return"


def cost(cls: AttestationClass, lo: int, hi: int, gain: int, budget: Budget, prizes: int = 0) -> Cost:
    """The cost of a policy with this score window, in units of y, and gain.

    Args:
        prizes: of the policy, under the lottery; 0: all that the class has.

    Raises:
        PolicyError: numbers out of range.
    """
    if isinstance(cls, LotteryClass):
        return _cost_of_lottery(cls, budget, prizes or cls.prizes)
    table = noise.build_table(cls.law)
    if budget.unseen is None:
        report = epsilon_audit(
            cls,
            table,
            scores=ScorePolicy(gain=gain, lo=lo, hi=hi),
            k_max=1,  # epsilon depends on the product alone; what one account learns would be computed beside it
            n_max=budget.queries,
            delta=budget.delta,
        )
        return Cost(report.epsilon if report.agree else math.inf, None)
    found = until_delivered(
        cls,
        table,
        shift=cls.shift_of(gain * (hi - lo)),
        coins=CoinThrows(hidden=budget.hidden, periods=1),
        chunks=1,
        queries=budget.queries,
        delta=budget.delta,
        n_max=budget.n_max,
    )
    return Cost(found.epsilon if found.routes.agree else math.inf, found)


def _cost_of_lottery(cls: LotteryClass, budget: Budget, prizes: int) -> Cost:
    """Neither window nor gain count; of every list nothing is bounded."""
    if budget.unseen is None:
        return Cost(math.inf, None)
    found = lottery_delivered(
        cls,
        prizes=prizes,
        coins=CoinThrows(hidden=budget.hidden, periods=1),
        chunks=1,
        queries=budget.queries,
        delta=budget.delta,
        n_max=budget.n_max,
    )
    return Cost(found.epsilon if found.routes.agree else math.inf, found)


def least_gain(cls: AttestationClass, lo: int, hi: int) -> int:
    """The smallest gain whose shift is at least one table step: 1, or more where a ranked class has coarse steps."""
    return cls.widest(0) // (hi - lo) + 1


def gain_of_return(cls: AttestationClass, lo: int, hi: int, target: float, budget: Budget) -> int:
    """The largest gain whose return is at most ``target``; 0 if there is none.  For claim until-delivered.

    Of a lottery's class every gain has the same return: then it is more than any that the class compares, or 0.
    """
    if isinstance(cls, LotteryClass):
        found = _cost_of_lottery(cls, budget, cls.prizes).delivered
        return cls.room if found is not None and found.returned <= target else 0
    shift = largest_shift(
        cls, noise.build_table(cls.law), target=min(target, _BEYOND), chunks=1, queries=budget.queries,
        delta=budget.delta,
    )  # fmt: skip
    return cls.widest(shift) // (hi - lo) if shift else 0


def prizes_of_return(cls: LotteryClass, target: float, budget: Budget) -> int:
    """The fewest prizes whose return is at most ``target``; 0 if even all that the class has have more.

    For claim until-delivered.
    """
    for prizes in range(1, cls.prizes + 1):  # each more makes the return smaller
        found = _cost_of_lottery(cls, budget, prizes).delivered
        if found is not None and found.returned <= target:
            return prizes
    return 0


# --- for people ------------------------------------------------------------------------------------------------------


def hidden_in_words(share: float) -> str:
    """ "1 document in 20 is not found this period, by anybody"."""
    return f"1 document in {round(1 / share)} is not found this period, by anybody: a secret coin hides {share:.1%}"


def unseen_in_words(unseen: float) -> str:
    """What the odds of a document come to for those who were not handed it."""
    return f"unseen {upward(unseen)}: any number of accounts, with any number of queries, {absence_in_words(unseen)}"


def return_in_words(returned: float, hidden_share: float, cls: AttestationClass) -> str:
    """What the return bounds, and what it does not."""
    if math.isinf(returned):
        return "return inf: how often the id of a document comes back is not bounded"
    limit = math.log((1 - hidden_share) * cls.N / cls.K)
    if returned < limit:
        share = math.exp(returned) * cls.K / cls.N
        return guess.return_in_words(returned, f"so no document is handed over in more than {share:.0%} of all queries")
    return (
        f"{guess.return_in_words(returned)}, as only a return below ln((1 - hidden) N / K) = {limit:.2f} is: whoever "
        "knows what to ask for is handed the document, unless its coin hides it"
    )


def chance_in_words(listed: float, n_max: int, cls: AttestationClass) -> str:
    """What comes back without a score."""
    which = "a prize" if isinstance(cls, LotteryClass) else "noise"
    return (
        f"chance 0: {which} alone hands over no text of a document that scores at or below the score window; it shows "
        f"ids with nothing to read, up to {listed:.0%} of all in {n_max} queries of an account. Documents that score "
        "above the window's lower end may be handed over by chance"
    )
