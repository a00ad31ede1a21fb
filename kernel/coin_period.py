# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows that share one throw of the coins.  SPEC A.11.9.

The first window of a coin period throws the coins; a later one names its manifest, and thins by the same coins again.
A slot's coin then counts once, however many windows there are (``docs/proofs/until-delivered.md``).  Whoever may pick
among several throws chooses what they hide, so all windows of a coin period are of one budget period, where each throw
counts (SPEC D.11.7), and of the same auditors, who know that the beacon of the first was not foreseen.
"""

from __future__ import annotations

from ragseal.kernel.commitment import Manifest
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.params import COIN_BITS
from ragseal.kernel.policy import Policy


def same_coins(one: Policy, other: Policy) -> bool:
    """Whether a slot's id names one coin in windows of either policy: shards have to be as large."""
    return one.shards == other.shards == 1 or one.class_digest == other.class_digest


def check_continues(manifest: Manifest, first: Manifest) -> None:
    """Whether ``manifest`` may carry on the coins that the beacon of ``first`` threw; both have a coin or neither.

    The caller owes that ``first`` stands in the log before it, that its beacon was complete by then, and that no C_coin
    is that of two coin periods, as it would be if ``first`` carried on coins itself.

    Raises:
        CommitmentError: says what differs.
    """
    named = f"the coins of window {first.window!r}"
    if not first.coins or not manifest.coins:
        raise CommitmentError(f"{named} cannot be carried on: one of the two windows has no coin")
    if first.coin.c_coin != manifest.coin.c_coin:
        raise CommitmentError(f"{named} are carried on with another C_coin")
    if (first.origin, first.log, first.provider_key) != (manifest.origin, manifest.log, manifest.provider_key):
        raise CommitmentError(f"{named} are those of another ledger or provider")
    if first.auditors != manifest.auditors:
        raise CommitmentError(f"{named} rest on other auditors' nonces: a new auditor takes new coins")
    strangers = set(manifest.coined) - set(first.coined)
    if strangers:
        raise CommitmentError(
            f"{named} were thrown for its tenants, and {', '.join(map(repr, sorted(strangers)))} had no part: a tenant "
            "that comes later, under a new name, or from a claim without a coin takes new coins"
        )
    if first.policy.hidden != manifest.policy.hidden:
        raise CommitmentError(
            f"{named} hide {first.policy.hidden} of {1 << COIN_BITS} slots, this policy hides "
            f"{manifest.policy.hidden}: both together would tell which slots lie between"
        )
    if not same_coins(first.policy, manifest.policy):
        raise CommitmentError(
            f"{named} are of other shards: a slot's coin is of its shard and its place there, so a document that "
            "keeps its slot would have two"
        )
    if first.policy.period_start != manifest.policy.period_start:
        raise CommitmentError(
            f"{named} were thrown in another budget period: a throw may be carried on only where it is counted"
        )
