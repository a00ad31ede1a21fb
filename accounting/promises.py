# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "until-delivered" by the kind of law: the one place that knows which accountant a class's windows go to.

A further kind of law registers its own functions here.
"""

from __future__ import annotations

from fractions import Fraction
from functools import singledispatch

from ragseal.accounting.delivered import CoinThrows, Delivered, largest_shift, until_delivered
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import build_table
from ragseal.kernel.noise_class import NoiseClass, with_noise
from ragseal.kernel.policy import Policy, listed, rational


@singledispatch
def promise(
    cls: AttestationClass,
    *,
    ids: int,
    decoy_rate: int,
    shift: int,
    coins: CoinThrows,
    chunks: int,
    queries: int,
    delta: Fraction,
    n_max: int,
) -> Delivered:
    """What the claim comes to for windows of one class.

    Args:
        ids: K of the windows that answered.
        decoy_rate: of them; 0 of a law with noise.
        shift: the largest of one query, in steps.
        others: as :func:`ragseal.accounting.delivered.until_delivered`.

    Raises:
        PolicyError: numbers out of range, or a law without an accountant.
    """
    raise _unknown(cls)


@promise.register
def _with_noise(
    cls: NoiseClass,
    *,
    ids: int,
    decoy_rate: int,
    shift: int,
    coins: CoinThrows,
    chunks: int,
    queries: int,
    delta: Fraction,
    n_max: int,
) -> Delivered:
    table = build_table(cls.law)
    return until_delivered(
        cls, table, shift=shift, coins=coins, chunks=chunks, queries=queries, delta=delta, n_max=n_max
    )


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


def _unknown(cls: AttestationClass) -> PolicyError:
    return PolicyError(f"class {cls.name!r} has the law {cls.law!r}, which bounds no return")
