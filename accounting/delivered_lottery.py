# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "until-delivered" under the lottery: what a return tells, and what refusals take from delta.  SPEC D.11.

``docs/proofs/lottery.md`` proves it.  An empty slot wins a prize with probability p = j / 2^m whatever the index holds,
and then is in the list as surely as the best document.  So one return of a document of n slots is at most

    e^R = (1 - eta) p^-n + eta,    eta the probability that its coin hides it,

times as likely with it as without it, whatever the gain, the scores and the number of queries are, and without a delta.
That is for one coin of all slots, and of slots with coins of their own no less than it (section 1).  Of delta, refusals
take n (2^-64 + 2^-80), and nothing else does.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ragseal.accounting import failures
from ragseal.accounting.delivered import (
    CoinThrows,
    Delivered,
    certified_unseen,
    delivered,
    ideal_unseen,
    log_up,
    require_coin,
)
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.lottery_class import LotteryClass, return_ratio
from ragseal.kernel.params import COIN_BITS


def lottery_delivered(
    cls: LotteryClass,
    *,
    prizes: int,
    coins: CoinThrows,
    chunks: int,
    queries: int,
    delta: Fraction,
    n_max: int,
) -> Delivered:
    """U, R and delta of the windows of one class of the lottery in a budget period.

    Args:
        prizes: j, the fewest of the windows that answered.
        others: as :func:`ragseal.accounting.delivered.until_delivered`.

    Returns:
        R is infinite where refusals alone take more than ``delta``.

    Raises:
        PolicyError: numbers out of range.
    """
    if not 1 <= prizes <= cls.prizes:
        raise PolicyError(f"class {cls.name!r} has 1 to {cls.prizes} prizes, not {prizes}")
    hidden, periods = coins.hidden, coins.periods
    require_coin(hidden, periods, queries, n_max)
    if chunks < 1 or not 0 < delta < 1:
        raise PolicyError("accounting needs a slot of at least 1 and delta strictly between 0 and 1")
    found = failures.until_delivered(cls, chunks, queries)
    items = {"overflow": found.overflow, "grid": found.grid, "law": Fraction(0)}
    returned = math.inf, math.inf
    if found.total <= delta:
        filled = min(chunks, cls.N)  # a document has no more slots than there are
        returned = (certified_return(cls.m, prizes, hidden, filled), ideal_return(cls.m, prizes, hidden, filled))
    unseen, once = ((certified_unseen(hidden, chunks, n), ideal_unseen(hidden, chunks, n)) for n in (periods, 1))
    return delivered(cls, coins, n_max, unseen=unseen, once=once, returned=returned, items=items)


def certified_return(m: int, prizes: int, hidden: int, chunks: int) -> float:
    """R, rounded upwards: the ratio is exact, its logarithm enclosed in integers."""
    return log_up(return_ratio(m, prizes, hidden, chunks))


def ideal_return(m: int, prizes: int, hidden: int, chunks: int) -> float:
    """The same in floating point: n ln(1 / p) + ln(1 - eta + eta p^n)."""
    eta, log_p = hidden / (1 << COIN_BITS), math.log(prizes) - m * math.log(2)
    return -chunks * log_p + math.log1p(eta * math.expm1(chunks * log_p))
