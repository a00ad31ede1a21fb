# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "until-delivered" over a budget period: all of its windows together, and how it grew.  SPEC D.11.

Every throw of coins in the period counts once, whether its window opened or not: the coins are known to the provider
from then on, and windows that carry them on add nothing.  Different throws are independent, so unseen adds up; the list
that delivers a document is in one window, so the return is the largest of one.  Windows of one circuit class and one
share of hidden slots are accounted together at their largest shift, under the lottery those with as many prizes; for
different ones delta is split evenly.

A period makes one claim.  A window without a coin bounds nothing of what absence tells, so there is no number for a
period that has one beside windows of this claim, and none is made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ragseal.accounting.delivered import CoinThrows, Delivered, together, until_delivered
from ragseal.accounting.delivered_lottery import lottery_delivered
from ragseal.accounting.period import MOST_ROWS
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.noise import build_table
from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED, Policy


@dataclass(frozen=True, slots=True)
class Coined:
    """One window's part of the period, opened or not."""

    window: str
    policy: Policy
    cls: AttestationClass  #: of its whole index
    queries: int  #: of all accounts together: accounts times n_max, or more where more were answered; 0: never opened
    coin_period: bytes  #: names the throw of its coins; windows that share one have the same


@dataclass(frozen=True, slots=True)
class DeliveredRow:
    """The odometer after one window, or after several old ones."""

    window: str
    periods: int  #: coin periods so far
    queries: int  #: of all accounts so far
    unseen: float  #: so far
    returned: float  #: so far
    epsilon: float  #: so far: unseen, or infinite where no return follows


def delivered_period(windows: Sequence[Coined], delta: Fraction) -> Delivered:
    """What claim until-delivered promises for the windows together at ``delta``.

    Args:
        windows: those that opened, and those whose coin beacon was completed and that never opened (``queries`` = 0).

    Raises:
        PolicyError: no window, one of another claim (:func:`one_claim`), or numbers out of range.
    """
    if one_claim([one.policy for one in windows]) != UNTIL_DELIVERED:
        raise PolicyError(f"windows of the claim {EVERY_LIST} have no coin: they are not accounted {UNTIL_DELIVERED}")
    chunks = max(one.policy.chunks_max for one in windows)
    groups: dict[tuple[str, int, int], list[Coined]] = {}
    for one in windows:
        groups.setdefault((one.cls.name, one.policy.hidden, _prizes(one)), []).append(one)
    begun: dict[tuple[bytes, int], Coined] = {}  # the first window of every throw
    for one in windows:
        begun.setdefault((one.coin_period, one.policy.hidden), one)
    first = {id(one) for one in begun.values()}
    return together(
        [_part(group, chunks, sum(id(one) in first for one in group), delta / len(groups)) for group in groups.values()]
    )


def _part(group: Sequence[Coined], chunks: int, throws: int, delta: Fraction) -> Delivered:
    """Windows of one class and one coin.  One that answered nothing returned nothing: only its coins count.

    Args:
        throws: coin periods that begin with one of them.
    """
    cls = group[0].cls
    answered = [one for one in group if one.queries]
    return _promise(
        cls,
        prizes=_prizes(group[0]),
        shift=max((one.policy.shift(cls) for one in answered), default=1),
        coins=CoinThrows(hidden=group[0].policy.hidden, periods=throws),
        chunks=chunks,
        queries=sum(one.queries for one in group),
        delta=delta,
        n_max=sum(one.policy.n_max for one in answered),
    )


def _prizes(one: Coined) -> int:
    """The lottery's prizes in a window; 0 of another law.  One that answered nothing may be of any class: it has none
    that could count, so it takes those of its period's class."""
    if one.queries:
        return one.policy.prizes(one.cls)
    return one.cls.prizes if isinstance(one.cls, LotteryClass) else 0


def _promise(
    cls: AttestationClass,
    *,
    prizes: int,
    shift: int,
    coins: CoinThrows,
    chunks: int,
    queries: int,
    delta: Fraction,
    n_max: int,
) -> Delivered:
    """By the class's law."""
    if isinstance(cls, LotteryClass):
        return lottery_delivered(
            cls, prizes=prizes, coins=coins, chunks=chunks, queries=queries, delta=delta, n_max=n_max
        )
    table = build_table(cls.law)
    return until_delivered(
        cls, table, shift=shift, coins=coins, chunks=chunks, queries=queries, delta=delta, n_max=n_max
    )


def one_claim(policies: Sequence[Policy]) -> str:
    """The claim that all windows of a budget period make.

    Raises:
        PolicyError: no window, or windows of different claims; says the way out.
    """
    named = sorted({policy.claim for policy in policies})
    if not named:
        raise PolicyError("a period has at least one window")
    if len(named) > 1:
        raise PolicyError(
            f"no epsilon follows for a budget period that mixes the claims {' and '.join(named)}: begin a new period "
            "with period_start = the time at which this window opens, after the windows of the other claim have closed"
        )
    return named[0]


def delivered_window(policy: Policy, cls: AttestationClass, accounts: int, delta: Fraction) -> Delivered:
    """What a policy promises in one window of so many accounts: ``epsilon_account`` advertises its ``epsilon``.

    The policy's shift counts whoever asks, nobody included: a promise is made before the first query.

    Raises:
        PolicyError: numbers out of range, or a claim without a coin.
    """
    return _promise(
        policy.whole(cls),
        prizes=policy.prizes(cls),
        shift=policy.shift(cls),
        coins=CoinThrows(hidden=policy.hidden, periods=1),
        chunks=policy.chunks_max,
        queries=accounts * policy.n_max,
        delta=delta,
        n_max=policy.n_max,
    )


def delivered_odometer(windows: Sequence[Coined], delta: Fraction) -> tuple[DeliveredRow, ...]:
    """What the period had cost after each window; older ones than MOST_ROWS share the first row.

    Raises:
        PolicyError: as :func:`delivered_period`.
    """
    older = max(0, len(windows) - MOST_ROWS)
    rows = []
    for stop in range(max(1, older), len(windows) + 1):
        spent = windows[:stop]
        so_far = delivered_period(spent, delta)
        rows.append(
            DeliveredRow(
                window=f"({stop} windows)" if stop == older and stop > 1 else spent[-1].window,
                periods=so_far.periods,
                queries=sum(one.queries for one in spent),
                unseen=so_far.unseen,
                returned=so_far.returned,
                epsilon=so_far.epsilon,
            )
        )
    return tuple(rows)
