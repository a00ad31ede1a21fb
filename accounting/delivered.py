# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "until-delivered": what any accounts learn of a document that was not delivered to them.  SPEC D.11.

Neighbours are a slot that holds a document and the same slot empty, everything else being equal.  There is no limit on
accounts or on queries.  Two numbers bound the two directions, and ``docs/proofs/until-delivered.md`` proves both:

*unseen* U: every event of all that any accounts were sent is at most e^U times as likely without the document as with
it, for a secret coin hides each slot from everybody, with probability j / 2^8, for a whole coin period.  There is no
delta.  A document of m slots has m coins, and every coin period has new ones: U = periods m ln(2^8 / j).

*returned* R: lists up to and including the first one that has the slot at a query at which the document scores above
lo are at most e^R times as likely with it as without it, but for delta.  Only the list that stops counts, so R is that
of one query whatever the number of queries is: the least number for which

    H(R) = sum_x (p(x - shift) - e^R p(x))_+,  p the mass of the noise table, shift the worst of one slot,

leaves delta enough for all queries.  m slots: m R and m H(R).  For a geometric law that is shift / b, as near as the
table goes; for the Gaussian it is the bound of one query at delta / queries, which is large.

Delta is additive over queries: the law's H(R), and refusals (overflow, grid), as SPEC D.15 has them
(:mod:`ragseal.accounting.failures`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from ragseal.accounting import failures
from ragseal.accounting.audit import AGREEMENT, AGREEMENT_APPLIES
from ragseal.accounting.ideal_curves import gaussian_epsilon
from ragseal.accounting.rounding import least_float as _up
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable, check_table, one_sided, scale_of
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import COIN_BITS, GAUSSIAN

RESOLUTION = 10**6  #: a return's log ratio is a multiple of 1 / this, in nats

_FIXED_BITS = 256  # fractional bits of exponentials and logarithms
_ONE = 1 << _FIXED_BITS
_BEYOND = 78 * RESOLUTION  # above ln(2^112): every finite log ratio of two masses of a table lies below


@dataclass(frozen=True, slots=True)
class Routes:
    """The two numbers, each computed twice: (certified, ideal); the larger counts."""

    unseen: tuple[float, float]  #: logarithm enclosed in integers; of floating point
    returned: tuple[float, float]  #: integer table, every rounding upwards; closed form of the ideal law
    agree: bool  #: within 1e-3 of each other, or the end of the table takes a thousandth of delta or more


@dataclass(frozen=True, slots=True)
class Delivered:
    """What claim "until-delivered" promises for a period, in nats; every number is rounded upwards."""

    unseen: float  #: U, the odds of absence have grown at most e^U times: coin periods * chunks * ln(2^COIN_BITS / j)
    unseen_once: float  #: of one coin period
    returned: float  #: R, an id comes back at most e^R times as often as an empty slot's; infinite: no bound
    delta: float  #: of the return, and of "nothing speaks for presence", at most the policy's; the unseen side has none
    items: Mapping[str, float]  #: delta by what it is for: law, overflow, grid
    periods: int  #: coin periods
    hidden_share: float  #: eta = j / 2^COIN_BITS: share of documents that nobody finds in a period
    bounds_reading: bool  #: e^R listed_once < 1 - eta: only then R says that the document may not come back at all
    chance: float  #: share of the texts that noise alone hands to an account: none, since flags are proven
    listed_once: float  #: how likely one list has a given id by chance: K / N of noise, p0 of decoys
    listed_by_chance: float  #: share of the ids that noise alone shows to an account in its n_max queries
    routes: Routes

    @property
    def epsilon(self) -> float:
        """The claim's one number, which is unseen; infinite where no return follows, as then the claim cannot be made.

        The return is no part of it: it bounds what the id of a slot says, and no document (SPEC D.11.8).
        """
        return self.unseen if math.isfinite(self.returned) else math.inf


@dataclass(frozen=True, slots=True)
class CoinThrows:
    """The coins of a budget period."""

    hidden: int  #: numerator j of the probability j / 2^COIN_BITS that a slot is hidden
    periods: int  #: coin periods, those included whose beacon was completed and that never opened


def until_delivered(
    cls: NoiseClass,
    table: NoiseTable,
    *,
    shift: int,
    coins: CoinThrows,
    chunks: int,
    queries: int,
    delta: Fraction,
    n_max: int,
) -> Delivered:
    """U, R and delta of the windows of one circuit class in a budget period.

    Args:
        cls: the circuit class (capacity, K, places).
        table: its noise table; checked here against T1 to T4.
        shift: Delta_b, the worst shift of one slot's content, in table steps.
        chunks: slots that one document may occupy.
        queries: answered queries of all accounts in the budget period; only delta knows them.
        delta: delta_policy, what delta may come to.
        n_max: queries of one account, for ``listed_by_chance``.

    Returns:
        R is infinite where ``delta`` leaves nothing for the noise, or less than the end of the table takes.

    Raises:
        PolicyError: a table that breaks its rules or belongs to another law, or numbers out of range.
    """
    check_table(table)
    if table.law != cls.law:
        raise PolicyError(f"class {cls.name!r} has the law {cls.law!r}, the table {table.law!r}")
    hidden, periods = coins.hidden, coins.periods
    require_coin(hidden, periods, queries, n_max)
    budget, items = _budget(cls, shift, chunks, queries, delta)
    once, unseen = ((certified_unseen(hidden, chunks, n), ideal_unseen(hidden, chunks, n)) for n in (1, periods))
    log_ratio, law = (math.inf, Fraction(0)) if budget <= 0 else certified_return(table, shift, budget)
    # Where the table ends the ideal law does not: it is not asked, whatever the shift is.
    second = math.inf if math.isinf(log_ratio) else ideal_return(table.law, shift, float(budget))
    returned = _times(chunks, log_ratio), chunks * second
    items["law"] = chunks * max(queries, 1) * law
    near = _infinite_mass(table, shift) * AGREEMENT_APPLIES >= budget
    return delivered(cls, coins, n_max, unseen=unseen, once=once, returned=returned, items=items, near=near)


def require_coin(hidden: int, *counts: int) -> None:
    """PolicyError unless slots can be hidden so often, and counts of periods or queries are none at least."""
    if not 1 <= hidden < 1 << COIN_BITS:
        raise PolicyError(f"slots are hidden with probability j / {1 << COIN_BITS}, 1 <= j < {1 << COIN_BITS}")
    if min(counts) < 0:
        raise PolicyError("coin periods and queries cannot be fewer than none")


def delivered(
    cls: NoiseClass,
    coins: CoinThrows,
    n_max: int,
    *,
    unseen: tuple[float, float],
    once: tuple[float, float],
    returned: tuple[float, float],
    items: Mapping[str, Fraction],
    near: bool = False,
) -> Delivered:
    """What follows from the two numbers, each by two routes.

    Args:
        coins, n_max: as :func:`until_delivered`.
        once: unseen of one coin period.
        items: delta by what it is for.
        near: the two routes of the return need not agree.
    """
    largest = max(returned)
    return Delivered(
        unseen=max(unseen),
        unseen_once=max(once),
        returned=largest,
        delta=_up(sum(items.values(), Fraction(0))),
        items={name: _up(value) for name, value in items.items()},
        periods=coins.periods,
        hidden_share=coins.hidden / (1 << COIN_BITS),
        bounds_reading=largest + 1e-9 < math.log((1 - coins.hidden / (1 << COIN_BITS)) * cls.N / cls.K),
        chance=0.0,
        listed_once=cls.K / cls.N * (1 + 1e-12),
        listed_by_chance=min(1.0, -math.expm1(n_max * math.log1p(-cls.K / cls.N)) * (1 + 1e-12)),
        routes=Routes(unseen, returned, _agree(*unseen) and _agree(*once) and (_agree(*returned) or near)),
    )


def together(parts: Sequence[Delivered]) -> Delivered:
    """Parts of one budget period, each of one circuit class and one j, its delta a share of the policy's.

    Coins of different windows are independent, so unseen adds up; the return that stops is in one of the parts.

    Raises:
        PolicyError: no part.
    """
    if not parts:
        raise PolicyError("a period has at least one window")
    if len(parts) == 1:
        return parts[0]
    unseen, returned = (_sum_up(part.unseen for part in parts), max(part.returned for part in parts))
    routes = Routes(
        (_sum_up(part.routes.unseen[0] for part in parts), math.fsum(part.routes.unseen[1] for part in parts)),
        (max(part.routes.returned[0] for part in parts), max(part.routes.returned[1] for part in parts)),
        all(part.routes.agree for part in parts),
    )
    return Delivered(
        unseen=unseen,
        unseen_once=max(part.unseen_once for part in parts),
        returned=returned,
        delta=_sum_up(part.delta for part in parts),
        items={name: _sum_up(part.items[name] for part in parts) for name in parts[0].items},
        periods=sum(part.periods for part in parts),
        hidden_share=max(part.hidden_share for part in parts),
        bounds_reading=all(part.bounds_reading for part in parts),
        chance=max(part.chance for part in parts),
        listed_once=max(part.listed_once for part in parts),
        listed_by_chance=min(1.0, (1 - math.prod(1 - part.listed_by_chance for part in parts)) * (1 + 1e-12)),
        routes=routes,
    )


def largest_shift(
    cls: NoiseClass, table: NoiseTable, *, target: float, chunks: int, queries: int, delta: Fraction
) -> int:
    """The largest shift, in table steps, whose ``returned`` is at most ``target``; 0 if there is none.

    Raises:
        PolicyError: numbers out of range.
    """
    if not target >= 0:
        raise PolicyError(f"no sensitivity has a return of {target}: give a target of at least 0")
    budget, _ = _budget(cls, 1, chunks, queries, delta)
    log_ratio = min(_BEYOND, math.floor(Fraction(min(target, 1e9)) * RESOLUTION / chunks))

    def fits(shift: int) -> bool:
        """The larger H(R), and the ideal R, the larger the shift: by T4."""
        if _law_delta(table, shift, log_ratio) > budget:
            return False
        return chunks * ideal_return(table.law, shift, float(budget)) <= target

    low, high = 0, 2 * table.cut + 1
    while budget > 0 and high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# --- unseen ----------------------------------------------------------------------------------------------------------


def certified_unseen(hidden: int, chunks: int, periods: int) -> float:
    """periods chunks ln(2^COIN_BITS / hidden), rounded upwards: the logarithm is enclosed in integers."""
    return _up(periods * chunks * _log_up(Fraction(1 << COIN_BITS, hidden)))


def ideal_unseen(hidden: int, chunks: int, periods: int) -> float:
    """The same in floating point, by the library's logarithm."""
    return periods * chunks * (COIN_BITS * math.log(2) - math.log(hidden))


def log_up(x: Fraction) -> float:
    """The logarithm of x >= 1, rounded upwards."""
    return _up(_log_up(x))


def _log_up(x: Fraction) -> Fraction:
    """An upper bound of ln x for x >= 1; within 2^-240 up to 2^64."""
    k = max(0, x.numerator.bit_length() - x.denominator.bit_length() - 1)  # 2^k <= x
    x /= 1 << k
    while x >= 2:
        x, k = x / 2, k + 1
    return Fraction(k * _log_near_one_up(Fraction(2)) + _log_near_one_up(x), _ONE)


def _log_near_one_up(x: Fraction) -> int:
    """2 artanh((x-1)/(x+1)) in units of 2^-256, every term rounded up, for 1 <= x <= 2."""
    u = (x - 1) / (x + 1)  # at most 1/3
    power, square = -(-u.numerator * _ONE // u.denominator), u * u
    total, n = 0, 1
    while power > 1:  # a rounded term that does not vanish stays at 1 for good
        total += -(-2 * power // n)
        power, n = -(-power * square.numerator // square.denominator), n + 2
    return total + 2  # what is left is below 2 / n sum_k 9^-k units


@lru_cache(maxsize=256)
def fewest_hidden(target: float, *, chunks: int, periods: int) -> int:
    """The least j, of slots in 2^COIN_BITS that are hidden, whose unseen is at most ``target``; 0 if there is none."""
    every = range(1, 1 << COIN_BITS)
    return next((j for j in every if certified_unseen(j, chunks, periods) <= target), 0)


# --- return ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def certified_return(table: NoiseTable, shift: int, budget: Fraction) -> tuple[float, Fraction]:
    """(R, delta) of one slot in one query: the least multiple R of 1 / RESOLUTION with delta(R) <= budget.

    Returns:
        R is infinite, and delta 0, if the mass that the table without the shift cannot produce is above the budget.
    """
    if _law_delta(table, shift, _BEYOND) > budget:
        return math.inf, Fraction(0)
    low, high = -1, _BEYOND  # delta(R) does not grow in R
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _law_delta(table, shift, middle) <= budget else (middle, high)
    return _up(Fraction(high, RESOLUTION)), _law_delta(table, shift, high)


def _law_delta(table: NoiseTable, shift: int, log_ratio: int) -> Fraction:
    """An upper bound of H(R), R = log_ratio / RESOLUTION."""
    ratio = _exp_down(Fraction(log_ratio, RESOLUTION))
    over = sum(gain for raised, plain in _pairs(table, shift) if (gain := raised - ratio * plain) > 0)
    return Fraction(over, table.total << _FIXED_BITS)


@lru_cache(maxsize=4)
def _pairs(table: NoiseTable, shift: int) -> tuple[tuple[int, int], ...]:
    """(p(x - shift) 2^256, p(x)) of every x that the shifted table reaches."""
    values = range(shift - table.cut, shift + table.cut + 1)
    return tuple((table.mass(x - shift) << _FIXED_BITS, table.mass(x)) for x in values)


def _infinite_mass(table: NoiseTable, shift: int) -> Fraction:
    """P(z + shift > C)."""
    return Fraction(table.tail(table.cut - shift), table.total)


def _exp_down(x: Fraction) -> int:
    """A lower bound of e^x in units of 2^-256, within 2^-240 of it relatively, for 0 <= x <= 100."""
    total, term, n = 0, _ONE, 1
    while term:
        total += term
        term = term * x.numerator // (x.denominator * n)
        n += 1
    return total


def ideal_return(law: str, shift: int, budget: float) -> float:
    """R of the ideal law of one slot in one query, in closed form: the least R with delta(R) <= budget.

    ``P(z >= t - shift) <= e^R P(z >= t) + budget`` for every t says R = max_t ln((P(z >= t - shift) - budget) /
    P(z >= t)).  With r = e^(-1/b), b = 16: one-sided, P(z >= t) = r^t for t >= 0, and the
    best t is the shift.  Two-sided, P(z >= t) = r^t / (1 + r) for t >= 1, and the best t is the shift or below it.

    Raises:
        PolicyError: an unknown law, or numbers out of range.
    """
    if shift < 1 or not 0 < budget < 1:
        raise PolicyError(
            "a return is accounted for a sensitivity of at least one table step and a delta between 0 and 1"
        )
    b = scale_of(law)
    if law == GAUSSIAN:
        return gaussian_epsilon(shift / b, budget)
    if one_sided(law):
        return max(0.0, shift / b + math.log1p(-budget))
    r, best = math.exp(-1 / b), 0.0
    for k in range(shift):  # t = shift - k: P(z >= -k) = 1 - r^(k+1) / (1 + r)
        left = 1 + r - r ** (k + 1) - budget * (1 + r)
        if left > 0:
            best = max(best, (shift - k) / b + math.log(left))
    return best


# --- shared ----------------------------------------------------------------------------------------------------------


def _budget(
    cls: NoiseClass, shift: int, chunks: int, queries: int, delta: Fraction
) -> tuple[Fraction, dict[str, Fraction]]:
    """(what one slot in one query may take of delta, at most; the named failures of all queries)."""
    if shift < 1 or chunks < 1 or queries < 0 or not 0 < delta < 1:
        raise PolicyError("accounting needs a sensitivity and a slot of at least 1 and delta strictly between 0 and 1")
    found = failures.until_delivered(cls, chunks, queries)
    items = {"overflow": found.overflow, "grid": found.grid}
    return (delta - sum(items.values())) / (chunks * max(queries, 1)), items


def _agree(certified: float, second: float) -> bool:
    if not math.isfinite(certified + second):
        return certified == second
    return abs(certified - second) <= AGREEMENT * max(certified, second)


def _times(count: int, value: float) -> float:
    """count * value, rounded upwards."""
    return _up(count * Fraction(value)) if math.isfinite(value) else value


def _sum_up(values: Iterable[float]) -> float:
    found = tuple(values)
    return _up(sum((Fraction(value) for value in found), Fraction(0))) if all(map(math.isfinite, found)) else math.inf
