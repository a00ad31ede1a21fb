# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "until-delivered" with decoys: what a return tells, what it takes of delta, what comes by chance.  SPEC D.11.

``docs/proofs/decoys.md`` proves it.  With a document of n slots visible, a list that has one of them is at most A times
as likely as without it, whatever the scores are, but for an excess.  With the coin one return has

    e^R = (1 - eta) A + eta,    eta the probability that the coin hides the document,

for any number of queries and accounts.  A is that of the sizes of drawn sets that occur: what A leaves of all others is
about 2^-LAW_EXPONENT a query, and delta has it.  Refusals cost nothing, for none depends on a score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from ragseal.accounting.audit import AGREEMENT
from ragseal.accounting.delivered import (
    CoinThrows,
    Delivered,
    Routes,
    certified_unseen,
    ideal_unseen,
    log_up,
    require_coin,
)
from ragseal.accounting.rounding import least_float
from ragseal.accounting.spent import Spent
from ragseal.kernel.decoys.bounds import (
    FIXED_BITS,
    certified_ratio,
    drawn_law,
    drawn_probability,
    excess,
    over_shards,
    power_ratio,
    return_ratio,
)
from ragseal.kernel.decoys.table import MOST_DRAWS, RATE_BITS, DrawTable, build_table
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import COARSE_CANONICAL_BITS, COIN_BITS, OVERFLOW_EXPONENT

LAW_EXPONENT = 60  #: of delta a visible return of one slot takes 2^-60 at most
_MORE = 4  #: and 2^4 times as much for each slot more: sets of nearly as many slots as are ever drawn
_LEAST_EXPONENT = 48  #: but no more than 2^-48
_LONG_EXPONENT = 40  #: a document of more than EXACT_SLOTS takes 2^-40 at most
EXACT_SLOTS = 8  #: a document of more slots has a power of one slot's ratio, which is no less
MOST_NATS = 700.0  #: of a return; a policy may name 2^32 slots, and a power of so many fills the memory
RARE = 20  #: once in 2^20 answers


@dataclass(frozen=True, slots=True)
class Lists:
    """What the lists of a window are made by: all that their law depends on."""

    N: int  #: slots of a shard
    K: int  #: ids, unless more are drawn or fewer match
    rate: int  #: ids that a shard draws on average, times 2^RATE_BITS
    shards: int = 1

    @classmethod
    def of(cls, window: Spent) -> Lists:
        """Of a window whose class has the law."""
        return cls(window.cls.N, window.policy.ids, window.policy.decoy_rate, window.policy.shards)

    @property
    def L(self) -> int:
        """Bits of a drawn id."""
        return (self.N - 1).bit_length()

    @property
    def table(self) -> DrawTable:
        return build_table(self.L, self.rate)

    @property
    def slots(self) -> int:
        """Of all shards."""
        return self.shards * self.N


@dataclass(frozen=True, slots=True)
class Asked:
    """One window that answered."""

    lists: Lists
    queries: int  #: of all accounts; only delta knows them
    n_max: int  #: of one account


# --- one return ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Visible:
    """One return of a document that no coin hides."""

    ratio: Fraction | None  #: A; None: some set is never drawn that would have to be
    excess: Fraction  #: what A leaves of one query, at most


@lru_cache(maxsize=256)
def visible(lists: Lists, chunks: int) -> Visible:
    """A and what it leaves, of a document of so many slots that lie in shards as they like.

    Raises:
        PolicyError: numbers out of range.
    """
    if chunks < 1 or lists.K < 1 or lists.shards < 1:
        raise PolicyError("accounting needs a slot, an id and a shard at least")
    filled = min(chunks, lists.slots)  # a document has no more slots than there are
    if filled > EXACT_SLOTS:
        budget = Fraction(1, 1 << _LONG_EXPONENT)
        alone, left = power_ratio(lists.table, lists.N, lists.K, filled, budget, lists.shards) or (None, budget)
        if alone is None or filled * (math.log(alone.numerator) - math.log(alone.denominator)) > MOST_NATS:
            return Visible(None, Fraction(0))
        return Visible(alone**filled, left)
    parts = min(lists.shards, filled)  # shards in which a document can have slots
    ratios, left = [], Fraction(0)
    # Nearer to what the table cuts off, ratios are those of the cut and grow without need.
    budget = Fraction(1, parts << max(_LEAST_EXPONENT, LAW_EXPONENT - _MORE * (filled - 1)))
    for m in range(1, min(filled, lists.N) + 1):
        found = certified_ratio(lists.table, lists.N, lists.K, budget, m)
        if found is None:
            return Visible(None, Fraction(0))
        ratios.append(found)
        left = max(left, excess(lists.table, lists.N, lists.K, found, m))
    if lists.shards == 1:
        return Visible(ratios[-1], left)
    # What does not fit into one shard has to lie in several.
    ratios += [Fraction(1)] * (filled - len(ratios))
    return Visible(over_shards(ratios), parts * left)


def certified_return(lists: Lists, hidden: int, chunks: int) -> float:
    """R, rounded upwards: the ratio is exact, its logarithm enclosed in integers.  Infinite without one."""
    found = visible(lists, chunks).ratio
    return math.inf if found is None else log_up(return_ratio(found, hidden))


def ideal_return(lists: Lists, hidden: int, chunks: int) -> float:
    """The same of Poisson's law uncut, in floats: n ln(1 / p0) + ln(1 - eta + eta p0^n).  Without draws none."""
    if not lists.rate:
        return math.inf
    eta, log_p = hidden / (1 << COIN_BITS), math.log(ideal_drawn(lists))
    filled = min(chunks, lists.slots)
    return -filled * log_p + math.log1p(eta * math.expm1(filled * log_p))


def ideal_drawn(lists: Lists) -> float:
    """p0 of Poisson's law uncut: 1 - e^(-rate / 2^L)."""
    return -math.expm1(-lists.rate / (1 << (RATE_BITS + lists.L)))


@lru_cache(maxsize=256)
def rate_of_return(N: int, K: int, shards: int, hidden: int, target: float) -> int:
    """The fewest draws, times 2^RATE_BITS, whose return is at most ``target`` as :func:`decoys_delivered` has it.

    For documents of one slot.

    Raises:
        PolicyError: no number of draws has such a return.
    """
    limit, eta = math.exp(target) if 0 < target < 64 else 0.0, hidden / (1 << COIN_BITS)
    # Of Poisson's law uncut: what an auditor certifies is next to it, and counts if it is larger.
    alone = (
        -math.log1p((eta - 1) / (limit - eta)) * (1 << (RATE_BITS + (N - 1).bit_length())) if limit > 1 else math.inf
    )
    if alone >= MOST_DRAWS << RATE_BITS:
        raise PolicyError(f"no table of up to {MOST_DRAWS} draws a shard gives a return of {target}: take a larger one")

    def enough(rate: int) -> bool:
        one = Lists(N, K, rate, shards)
        return max(certified_return(one, hidden, 1), ideal_return(one, hidden, 1)) <= target

    low, high, step = math.floor(alone), math.floor(alone) + 1, 1
    while not enough(high):
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# --- the claim -------------------------------------------------------------------------------------------------------


def decoys_delivered(asked: Sequence[Asked], *, coins: CoinThrows, chunks: int, delta: Fraction) -> Delivered:
    """U, R and delta of all windows with decoys of a budget period that have one share of hidden slots.

    They are taken together whatever their classes, tables and numbers of ids are: unseen counts their throws of coins,
    the return is that of the window whose A is the worst, and what each query leaves is added up.

    Args:
        asked: the windows that answered; none: only coins count.
        chunks: slots that one document may occupy.
        delta: what delta may come to.

    Returns:
        R is infinite where a window has no A, or where they leave more than ``delta``.

    Raises:
        PolicyError: numbers out of range.
    """
    hidden, periods = coins.hidden, coins.periods
    require_coin(hidden, periods, *(one.queries for one in asked), *(one.n_max for one in asked))
    if chunks < 1 or not 0 < delta < 1:
        raise PolicyError("accounting needs a slot of at least 1 and delta strictly between 0 and 1")
    law = (1 - Fraction(hidden, 1 << COIN_BITS)) * sum(
        (one.queries * visible(one.lists, chunks).excess for one in asked), Fraction(0)
    )
    routes = [(certified_return(one.lists, hidden, chunks), ideal_return(one.lists, hidden, chunks)) for one in asked]
    returned = (max((one for one, _ in routes), default=0.0), max((one for _, one in routes), default=0.0))
    if law > delta:
        returned, law = (math.inf, math.inf), Fraction(0)
    unseen, once = ((certified_unseen(hidden, chunks, n), ideal_unseen(hidden, chunks, n)) for n in (periods, 1))
    return Delivered(
        unseen=max(unseen),
        unseen_once=max(once),
        returned=max(returned),
        delta=least_float(law),
        items={"law": least_float(law)},
        periods=periods,
        hidden_share=hidden / (1 << COIN_BITS),
        chance=0.0,
        listed_once=max((_listed(one.lists) for one in asked), default=0.0),
        listed_by_chance=listed_by_chance(asked),
        routes=Routes(unseen, returned, _agree(*unseen) and _agree(*once) and all(_no_more(*one) for one in routes)),
    )


def _agree(certified: float, second: float) -> bool:
    return abs(certified - second) <= AGREEMENT * second


def _no_more(certified: float, second: float) -> bool:
    """The closed form may be larger: it knows nothing of K, and the larger one counts."""
    return math.isinf(certified) or certified <= second * (1 + AGREEMENT)


def without_a_return(asked: Asked, chunks: int, delta: str) -> str:
    """Why no finite return follows in one window, and what would do."""
    if visible(asked.lists, chunks).ratio is None:
        return (
            f"a document of {chunks} slots would have to be drawn with sets of slots that are never drawn; use fewer "
            "chunks_max, or fewer ids a list"
        )
    left = asked.queries * visible(asked.lists, chunks).excess
    return (
        f"what {asked.queries} queries leave is {least_float(left):.3g}, more than delta {delta}; use fewer queries, "
        "or a larger delta"
    )


# --- what comes by chance --------------------------------------------------------------------------------------------


def listed_by_chance(asked: Sequence[Asked]) -> float:
    """Share of all ids that decoys alone show to an account in its queries, rounded up."""
    missed = math.fsum(one.n_max * math.log1p(-float(drawn_probability(one.lists.table, one.lists.N))) for one in asked)
    return min(1.0, -math.expm1(missed) * (1 + 1e-12))


def _listed(lists: Lists) -> float:
    """p0, rounded up."""
    return float(drawn_probability(lists.table, lists.N)) * (1 + 1e-12)


@dataclass(frozen=True, slots=True)
class ByChance:
    """What decoys take of a list."""

    K: int
    drawn: float  #: p0: how often an id is in a list by chance
    mean: float  #: decoys a list
    most: int  #: decoys of a list but once in 2^RARE
    results_mean: float  #: places of a list that are left to results
    results_least: int  #: the same but once in 2^RARE
    crowded: float  #: share of the lists in which none is left

    def in_words(self) -> str:
        """For people."""
        return (
            f"{self.mean:.3g} ids of a list are decoys on average and {self.most} at most but once in 2^{RARE} lists, "
            f"whatever was asked; of {self.K} ids {self.results_mean:.3g} are left to results on average, and "
            f"{self.results_least} at least"
        )


@lru_cache(maxsize=64)
def by_chance(lists: Lists) -> ByChance:
    """Of the exact law of the number of decoys."""
    law, unit = drawn_law(lists.table, lists.N, lists.shards), 1 << FIXED_BITS
    drawn = drawn_probability(lists.table, lists.N)
    beyond, most = sum(law), -1  # of lists with more decoys
    while beyond > unit >> RARE and most + 1 < len(law):
        most += 1
        beyond -= law[most]
    left = sum((lists.K - k) * p for k, p in enumerate(law[: lists.K]))
    return ByChance(
        K=lists.K,
        drawn=float(drawn),
        mean=float(lists.slots * drawn),
        most=max(0, most),
        results_mean=left / unit,
        results_least=max(0, lists.K - max(0, most)),
        crowded=min(1.0, sum(law[lists.K :]) / unit),
    )


def refused(elements: int, shards: int) -> Fraction:
    """How likely a query is refused at most, whatever the data are: it costs no delta.

    Args:
        elements: of one shard's draws, each without canonical form with 2^-44; a policy's room and the longest
            list are exceeded with 2^-64 each.
    """
    return Fraction(shards * elements, 1 << COARSE_CANONICAL_BITS) + Fraction(2, 1 << OVERFLOW_EXPONENT)
