# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "until-delivered" over a budget period: all of its windows together.  SPEC D.11.

Every throw of coins in the period counts once, whether its window opened or not: the coins are known to the provider
from then on, and windows that carry them on add nothing.  Different throws are independent, so unseen adds up; the list
that delivers a document is in one window, so the return is the largest of one.  Windows of one law and one share of
hidden slots are accounted together, at the worst of their tables; for different groups delta is split evenly.

A period makes one claim.  A window without a coin bounds nothing of what absence tells, so there is no number for a
period that has one beside windows of this claim, and none is made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ragseal.accounting.delivered import CoinThrows, Delivered, together
from ragseal.accounting.promises import Promised, no_return, promise
from ragseal.accounting.spent import Spent
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import UNTIL_DELIVERED, Policy

_NAMED = 8  # windows that an error names


def delivered_period(windows: Sequence[Spent], delta: Fraction) -> Delivered:
    """What claim until-delivered promises for the windows together at ``delta``.

    Args:
        windows: those that opened, and those whose coin beacon was completed and that never opened (``queries`` = 0).

    Raises:
        PolicyError: no window, one without a coin or of a law that bounds no return, or numbers out of range.
    """
    if not windows:
        raise PolicyError("a period has at least one window")
    other = [one.window for one in windows if not one.policy.coined]
    if other:
        raise PolicyError(
            f"windows of this budget period make a claim other than {UNTIL_DELIVERED} and have no coin, so nothing "
            f"bounds what absence tells over the period: {', '.join(other[:_NAMED])}; begin a new period with "
            "period_start = the time at which the window opens, once those of the other claim have closed"
        )
    chunks = max(one.policy.chunks_max for one in windows)
    groups: dict[tuple[str, int], list[Spent]] = {}
    for one in windows:
        groups.setdefault((one.cls.law, one.policy.hidden), []).append(one)
    begun: dict[tuple[bytes, int], Spent] = {}  # the first window of every throw
    for one in windows:
        begun.setdefault((one.coins, one.policy.hidden), one)
    first = {id(one) for one in begun.values()}
    return together(
        [_part(group, chunks, sum(id(one) in first for one in group), delta / len(groups)) for group in groups.values()]
    )


def _part(group: Sequence[Spent], chunks: int, throws: int, delta: Fraction) -> Delivered:
    """Windows that are accounted together, with one coin.  One that answered nothing returned nothing: only its coins
    count.

    Args:
        throws: coin periods that begin with one of them.
    """
    coins = CoinThrows(hidden=group[0].policy.hidden, periods=throws)
    windows = [Promised.of(one.cls, one.policy, one.all_queries, one.all_queries > 0) for one in group]
    return promise(group[0].cls, windows, coins=coins, chunks=chunks, delta=delta)


def delivered_window(policy: Policy, cls: AttestationClass, accounts: int, delta: Fraction) -> Delivered:
    """What a policy promises in one window of so many accounts: ``epsilon_account`` advertises its ``epsilon``.

    Raises:
        PolicyError: numbers out of range, a claim without a coin, or a law that bounds no return.
    """
    whole = policy.whole(cls)
    return promise(
        whole,
        [Promised.of(whole, policy, accounts * policy.n_max)],
        coins=CoinThrows(hidden=policy.hidden, periods=1),
        chunks=policy.chunks_max,
        delta=delta,
    )


def without_a_return(policy: Policy, cls: AttestationClass, accounts: int) -> str:
    """Why no finite return follows for a policy in one window of so many accounts, and what would do."""
    why = no_return(cls, policy, accounts * policy.n_max)
    return f"no finite return follows at delta {policy.delta}: {why}"
