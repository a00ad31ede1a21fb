# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "until-delivered": what any accounts learn of a document that was not delivered to them.  SPEC D.11.

Neighbours are a slot that holds a document and the same slot empty, everything else being equal.  There is no limit on
accounts or on queries.  Two numbers bound the two directions:

*unseen* U: every event of all that any accounts were sent is at most e^U times as likely without the document as with
it, for a secret coin hides each slot from everybody, with probability j / 2^8, for a whole coin period.  There is no
delta.  A document of m slots has m coins, and every coin period has new ones: U = periods m ln(2^8 / j).
``docs/proofs/until-delivered.md`` proves it.

*returned* R: lists up to and including the first one that has the slot at a query at which the document scores above
lo are at most e^R times as likely with it as without it, but for delta.  Only the list that stops counts, so R is that
of one query whatever the number of queries is.  It follows from the law (:mod:`ragseal.accounting.delivered_decoys`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from ragseal.accounting.rounding import least_float as _up
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import COIN_BITS

_FIXED_BITS = 256  # fractional bits of logarithms
_ONE = 1 << _FIXED_BITS


@dataclass(frozen=True, slots=True)
class Routes:
    """The two numbers, each computed twice: (certified, ideal); the larger counts."""

    unseen: tuple[float, float]  #: logarithm enclosed in integers; of floating point
    returned: tuple[float, float]  #: exact fractions, every rounding upwards; closed form of the ideal law
    agree: bool  #: within 1e-3 of each other


@dataclass(frozen=True, slots=True)
class Delivered:
    """What claim "until-delivered" promises for a period, in nats; every number is rounded upwards."""

    unseen: float  #: U, the odds of absence have grown at most e^U times: coin periods * chunks * ln(2^COIN_BITS / j)
    unseen_once: float  #: of one coin period
    returned: float  #: R, an id comes back at most e^R times as often as an empty slot's; infinite: no bound
    delta: float  #: of the return, and of "nothing speaks for presence", at most the policy's; the unseen side has none
    items: Mapping[str, float]  #: delta by what it is for
    periods: int  #: coin periods
    hidden_share: float  #: eta = j / 2^COIN_BITS: share of documents that nobody finds in a period
    chance: float  #: share of the texts that decoys alone hand to an account: none, since flags are proven
    listed_once: float  #: p0, how likely one list has a given id by chance
    listed_by_chance: float  #: share of the ids that decoys alone show to an account in its n_max queries
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


def require_coin(hidden: int, *counts: int) -> None:
    """PolicyError unless slots can be hidden so often, and counts of periods or queries are none at least."""
    if not 1 <= hidden < 1 << COIN_BITS:
        raise PolicyError(f"slots are hidden with probability j / {1 << COIN_BITS}, 1 <= j < {1 << COIN_BITS}")
    if min(counts) < 0:
        raise PolicyError("coin periods and queries cannot be fewer than none")


def together(parts: Sequence[Delivered]) -> Delivered:
    """Parts of one budget period, each of one j, its delta a share of the policy's.

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
        chance=max(part.chance for part in parts),
        listed_once=max(part.listed_once for part in parts),
        listed_by_chance=min(1.0, (1 - math.prod(1 - part.listed_by_chance for part in parts)) * (1 + 1e-12)),
        routes=routes,
    )


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


def _sum_up(values: Iterable[float]) -> float:
    found = tuple(values)
    return _up(sum((Fraction(value) for value in found), Fraction(0))) if all(map(math.isfinite, found)) else math.inf
