# SPDX-License-Identifier: GPL-3.0-or-later
"""Which coins a window may carry on, each rule alone: every other rule holds in each case.  SPEC A.11."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel.beacon import Seat
from ragseal.kernel.coin_period import check_continues, same_coins
from ragseal.kernel.commitment import Manifest
from ragseal.kernel.errors import CommitmentError
from tests.simulator.coined import CoinedWorld

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def first() -> Manifest:
    """It threw the coins; its tenants are north and south."""
    world = CoinedWorld()
    world.commit("w0")
    return world.manifest


def second(first: Manifest, **changes: Any) -> Manifest:
    """The next window on the same coins; ``changes`` of its policy or of itself."""
    of_policy = {name: value for name, value in changes.items() if name in type(first.policy).__slots__}
    of_itself = {name: value for name, value in changes.items() if name not in of_policy}
    carried = replace(first.coin, thrown_by=(first.digest(),))
    made = replace(first, window="w1", policy=replace(first.policy, **of_policy), coins=(carried,))
    return replace(made, **of_itself)


def test_the_next_window_and_one_of_fewer_tenants_carry_coins_on(first: Manifest) -> None:
    assert [one.tenant for one in first.tenants] == ["north", "south"]
    check_continues(second(first), first)
    check_continues(second(first, tenants=first.tenants[:1]), first)
    check_continues(second(first, gain=first.policy.gain + 1), first)


def test_an_auditor_more_or_less_takes_new_coins(first: Manifest) -> None:
    """Whether it comes or leaves: the coins rest on the nonces of those who were there."""
    other = Seat("auditor-b", b"b" * 32)
    more = (*first.auditors, other)
    for before, after in ((first.auditors, more), (more, first.auditors), (first.auditors, (other,))):
        with pytest.raises(CommitmentError, match="a new auditor takes new coins"):
            check_continues(second(first, auditors=after), replace(first, auditors=before))


def test_a_tenant_that_had_no_part_takes_new_coins(first: Manifest) -> None:
    west = replace(first.tenants[1], tenant="west")
    for tenants in ((*first.tenants, west), (first.tenants[0], west)):
        with pytest.raises(CommitmentError, match="and 'west' had no part"):
            check_continues(second(first, tenants=tenants), first)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"coins": ()}, "one of the two windows has no coin"),
        ({"origin": "other.example/log"}, "another ledger or provider"),
        ({"log": b"l" * 32}, "another ledger or provider"),
        ({"provider_key": b"p" * 32}, "another ledger or provider"),
        ({"hidden": 14}, "which slots lie between"),
        ({"shards": 2, "class_digest": b"c" * 32}, "are of other shards"),
        ({"period_start": 1}, "only where it is counted"),
    ],
)
def test_what_may_not_be_carried_on(first: Manifest, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CommitmentError, match=words):
        check_continues(second(first, **changes), first)


def test_coins_are_those_of_the_first(first: Manifest) -> None:
    carried = second(first)
    other = replace(carried, coins=(replace(carried.coin, c_coin=carried.coin.c_coin + 1),))
    with pytest.raises(CommitmentError, match="with another C_coin"):
        check_continues(other, first)
    with pytest.raises(CommitmentError, match="one of the two windows has no coin"):
        check_continues(carried, replace(first, coins=()))


def test_shards_are_as_large_where_there_are_several(first: Manifest) -> None:
    one = first.policy
    assert same_coins(one, replace(one, class_digest=b"c" * 32))
    assert same_coins(replace(one, shards=2), replace(one, shards=3))
    assert not same_coins(replace(one, shards=2), replace(one, class_digest=b"c" * 32))
    assert not same_coins(replace(one, shards=2), replace(one, shards=2, class_digest=b"c" * 32))
