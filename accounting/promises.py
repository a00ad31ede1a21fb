# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "until-delivered" by the kind of law: which accountant a class's windows go to.

Decoys have one.  A further kind of law registers its own functions here; windows of any other are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch

from ragseal.accounting import delivered_decoys
from ragseal.accounting.delivered import CoinThrows, Delivered
from ragseal.accounting.delivered_decoys import Asked, Lists, decoys_delivered
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import Policy


@dataclass(frozen=True, slots=True)
class Promised:
    """One window, as far as what it promises depends on it."""

    cls: AttestationClass  #: as an accountant sees it: of all shards
    ids: int
    decoy_rate: int
    shards: int
    queries: int  #: of all accounts
    n_max: int  #: of one account
    answered: bool = True  #: else only its coins count, and its policy may be of another class

    @classmethod
    def of(cls, whole: AttestationClass, policy: Policy, queries: int, answered: bool = True) -> Promised:
        """Of a policy, for its class as an accountant sees it."""
        return cls(whole, policy.ids, policy.decoy_rate, policy.shards, queries, policy.n_max, answered)


@singledispatch
def promise(
    cls: AttestationClass, windows: Sequence[Promised], *, coins: CoinThrows, chunks: int, delta: Fraction
) -> Delivered:
    """What the claim comes to for windows of one law.

    Args:
        cls: of one of them.
        coins: of the budget period.
        chunks: slots that one document may occupy.
        delta: what delta may come to.

    Raises:
        PolicyError: numbers out of range, or a law without an accountant.
    """
    raise _unknown(cls)


@promise.register
def _with_decoys(
    cls: DecoysClass, windows: Sequence[Promised], *, coins: CoinThrows, chunks: int, delta: Fraction
) -> Delivered:
    asked = [_asked(one) for one in windows if one.answered]
    return decoys_delivered(asked, coins=coins, chunks=chunks, delta=delta)


def _asked(one: Promised) -> Asked:
    return Asked(Lists(one.cls.N, one.ids, one.decoy_rate, one.shards), one.queries, one.n_max)


@singledispatch
def no_return(cls: AttestationClass, policy: Policy, queries: int) -> str:
    """Why no finite return follows for a policy in one window of so many queries, and what would do.

    Raises:
        PolicyError: a law without an accountant.
    """
    raise _unknown(cls)


@no_return.register
def _no_return_of_decoys(cls: DecoysClass, policy: Policy, queries: int) -> str:
    asked = _asked(Promised.of(policy.whole(cls), policy, queries))
    return delivered_decoys.without_a_return(asked, policy.chunks_max, policy.delta)


def _unknown(cls: AttestationClass) -> PolicyError:
    return PolicyError(f"class {cls.name!r} has the law {cls.law!r}, which bounds no return: decoys do")
