# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "until-delivered" by the kind of law: the one place that knows which accountant a class's windows go to.

A further kind of law registers its own functions here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch

from ragseal.accounting import delivered_decoys
from ragseal.accounting.delivered import CoinThrows, Delivered, largest_shift, until_delivered
from ragseal.accounting.delivered_decoys import Asked, Lists, decoys_delivered
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import build_table
from ragseal.kernel.noise_class import NoiseClass, with_noise
from ragseal.kernel.policy import Policy, listed, rational


@dataclass(frozen=True, slots=True)
class Promised:
    """One window, as far as what it promises depends on it."""

    cls: AttestationClass  #: as an accountant sees it: of all shards
    shift: int  #: of one query, in steps of noise
    ids: int
    decoy_rate: int
    shards: int
    queries: int  #: of all accounts
    n_max: int  #: of one account
    answered: bool = True  #: else only its coins count, and its policy may be of another class

    @classmethod
    def of(cls, whole: AttestationClass, policy: Policy, queries: int, answered: bool = True) -> Promised:
        """Of a policy, for its class as an accountant sees it."""
        shift = policy.shift(whole) if answered else 1
        return cls(whole, shift, policy.ids, policy.decoy_rate, policy.shards, queries, policy.n_max, answered)


@singledispatch
def group_of(cls: AttestationClass) -> str:
    """What windows that are accounted together have in common: noise its class, decoys their law."""
    return cls.law


@group_of.register
def _one_class(cls: NoiseClass) -> str:
    return cls.name


@singledispatch
def promise(
    cls: AttestationClass, windows: Sequence[Promised], *, coins: CoinThrows, chunks: int, delta: Fraction
) -> Delivered:
    """What the claim comes to for windows of one group.

    Args:
        cls: of one of them.
        coins, chunks, delta: as :func:`ragseal.accounting.delivered.until_delivered`.

    Raises:
        PolicyError: numbers out of range, or a law without an accountant.
    """
    raise _unknown(cls)


@promise.register
def _with_noise(
    cls: NoiseClass, windows: Sequence[Promised], *, coins: CoinThrows, chunks: int, delta: Fraction
) -> Delivered:
    answered = [one for one in windows if one.answered]
    return until_delivered(
        cls,
        build_table(cls.law),
        shift=max((one.shift for one in answered), default=1),
        coins=coins,
        chunks=chunks,
        queries=sum(one.queries for one in windows),
        delta=delta,
        n_max=sum(one.n_max for one in answered),
    )


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
def _no_return_of_noise(cls: NoiseClass, policy: Policy, queries: int) -> str:
    shift = largest_shift(
        with_noise(policy.whole(cls)),
        build_table(cls.law),
        target=1e9,
        chunks=policy.chunks_max,
        queries=queries,
        delta=rational(policy.delta, "delta"),
    )
    gain = min(policy.gain, cls.widest(shift) // (policy.hi - policy.lo)) if shift else 0  # the largest that has one
    ways = [f"gain <= {gain}" if gain else "a narrower window", "a larger delta"]
    return (
        f"one query shifts the noise by {policy.shift(cls)} steps, and returns that an empty slot cannot have "
        f"are likelier than delta allows; use {listed(ways)}"
    )


@no_return.register
def _no_return_of_decoys(cls: DecoysClass, policy: Policy, queries: int) -> str:
    asked = _asked(Promised.of(policy.whole(cls), policy, queries))
    return delivered_decoys.without_a_return(asked, policy.chunks_max, policy.delta)


def _unknown(cls: AttestationClass) -> PolicyError:
    return PolicyError(f"class {cls.name!r} has the law {cls.law!r}, which bounds no return")
