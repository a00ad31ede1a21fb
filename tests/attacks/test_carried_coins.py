# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows that carry on the coins of an earlier one, and what a provider may not carry on.  SPEC A.11.9, D.11.7."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel import coin_period
from ragseal.kernel.beacon import Seat
from ragseal.kernel.coin import coin_commitment
from ragseal.kernel.commitment import CoinCommitment, Manifest, SignedManifest, WindowClose
from ragseal.kernel.errors import CommitmentError, LedgerError
from ragseal.prover.planning.spending import spending
from ragseal.prover.storage.window import Stage
from ragseal.verifier.outcome.outcome import FAIL, Verdict
from ragseal.verifier.report import document
from tests.attacks import checks
from tests.attacks.checks import gone, without
from tests.attacks.removal import Removable
from tests.attacks.test_coins import replayed
from tests.attacks.test_coins_of_a_period import HOUR, begun, coins_of, of_another_auditor, window
from tests.attacks.world import accepted, refused, undecided
from tests.classes import DECOYS
from tests.simulator import NOW, OPENS, Tenant
from tests.simulator.coined import HIDDEN, CoinedWorld, policy, seed_of
from tests.simulator.keys import thinning_backend

pytestmark = pytest.mark.slow

TENANTS = ["north", "south"]
ONCE, TWICE = 1.4508, 2.9017  #: unseen of one throw and of two
LATER = NOW + 100 * HOUR


def carrying(world: CoinedWorld, number: int, first: bytes, **changes: Any) -> None:
    """Window w<number> on the coins of ``first``; ``changes`` of its policy."""
    window(world, number, carries=first, **changes)


def two(first: Callable[[CoinedWorld], None] | None = None) -> CoinedWorld:
    """A window that throws coins; the next one is the test's."""
    world = CoinedWorld()
    window(world, 0)
    if first is not None:
        first(world)
    return world


def audited(world: CoinedWorld, **options: Any) -> Verdict:
    return accepted(world, now=LATER, **options)


def test_windows_that_carry_on_coins_count_them_once_and_say_so() -> None:
    world = two()
    first = world.digest
    before = world.hides("north")
    alone = audited(world)
    assert "late=" not in alone.line()
    carrying(world, 1, first)
    assert world.hides("north") == before
    carrying(world, 2, first)
    verdict = audited(world)
    assert coins_of(verdict) == (1, ONCE, [])
    assert " late=unproven periods=" in verdict.line()
    epsilon = document.build(verdict)["epsilon"]
    assert epsilon["late"] == "unproven"
    assert [one["holds"] for one in epsilon["conditions"] if "known already" in one["condition"]] == [None]
    assert verdict.budget is not None
    assert [row["periods"] for row in verdict.budget.rows] == [1, 1, 1]


def test_records_of_a_window_that_carries_on_coins_are_proven_over_its_own_thinned_columns() -> None:
    world = two()
    first = world.digest
    start = OPENS + HOUR
    world.commit("w1", policy_=policy(opens=start, closes=start + HOUR), carries=first)
    world.messages[-1] = replace(world.messages[-1], time=start)  # type: ignore[type-var]
    world.ask("alice", record={"time": start + 60})
    world.ask("carol", record={"time": start + 60})
    world.messages.append(WindowClose(world.digest, 2, start + 600))
    verdict = audited(world)
    assert verdict.proven == 2
    assert coins_of(verdict)[:2] == (1, ONCE)


def test_coins_of_a_window_that_never_opened_can_be_carried_on() -> None:
    """So a provider whose window failed once its coins were thrown does not pay for them twice."""
    world = begun(opened=True)
    carrying(world, 1, world.digest)
    assert coins_of(audited(world)) == (1, ONCE, ["w0"])


def test_a_carried_window_that_never_opened_costs_nothing() -> None:
    world = two()
    first = world.digest
    world.enter_manifest("w1", carries=first, policy_=policy(opens=OPENS + HOUR, closes=OPENS + 2 * HOUR))
    world.enter_sealed(opened=True)
    carrying(world, 2, first)
    assert coins_of(audited(world)) == (1, ONCE, [])


# --- what may not be carried on --------------------------------------------------------------------------------------


def of_no_manifest(world: CoinedWorld) -> None:
    world.throws[bytes(32)] = world.throws[world.digest][0], seed_of("w1")
    carrying(world, 1, bytes(32))


def of_another_share(world: CoinedWorld) -> None:
    carrying(world, 1, world.digest, hidden=HIDDEN + 1)


def of_another_period(world: CoinedWorld) -> None:
    """Coins that were thrown before the period, where any number could be thrown and one be picked, uncounted."""
    carrying(world, 1, world.digest, period_start=OPENS + HOUR)


def of_another_seed(world: CoinedWorld) -> None:
    coin = CoinCommitment(coin_commitment(seed_of("w1")), thinning_backend().key.digest, (world.digest,))
    world.throws[world.digest] = world.throws[world.digest][0], seed_of("w1")
    start = OPENS + HOUR
    stated = policy(opens=start, closes=start + HOUR)
    world.commit("w1", policy_=stated, carries=world.digest, coins=(coin,))
    world.messages[-1] = replace(world.messages[-1], time=start)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, start + 600))


def of_a_window_that_carries_on(world: CoinedWorld) -> None:
    """A chain: the seed of a throw that is known would be thrown again, by the second window's beacon."""
    carrying(world, 1, world.digest)
    carrying(world, 2, world.digest)


def of_another_tenant(world: CoinedWorld) -> None:
    """A tenant by a new name: its documents would have a second coin, and the throw counts once."""
    first = world.digest
    world.placed = {**world.placed, "west": Tenant.make("west", thinning_backend().key, slots=DECOYS.N)}
    carrying(world, 1, first)


LIES: dict[str, tuple[Callable[[CoinedWorld], None], int, str, Removable]] = {
    "of no manifest": (of_no_manifest, 2, "does not hold before it", checks.CARRIED_OF_THE_LOG),
    "of another share": (of_another_share, 2, "which slots lie between", checks.CARRIED_SHARE),
    "of another period": (of_another_period, 2, "only where it is counted", checks.CARRIED_PERIOD),
    "of another seed": (of_another_seed, 2, "with another C_coin", checks.CARRIED_SEED),
    "of another tenant": (of_another_tenant, 2, "'west' had no part", checks.CARRIED_TENANTS),
    "of a window that carries on": (of_a_window_that_carries_on, 2, "used by an earlier window", checks.COIN_ONCE),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_carried_coins_is_refused(lie: str) -> None:
    tell, step, match, check = LIES[lie]
    world = two(tell)
    assert refused(world, step, match, now=LATER).verdict == FAIL
    gone(check, world, match, now=LATER)


@pytest.mark.parametrize("lie", [name for name in LIES if name != "of no manifest"])
def test_without_its_check_the_lie_passes(lie: str) -> None:
    tell, _, _, check = LIES[lie]
    world = two(tell)
    with without(check):
        audited(world)


@pytest.mark.parametrize("lie", LIES)
def test_a_provider_does_not_serve_a_ledger_with_such_a_lie(lie: str) -> None:
    with pytest.raises(LedgerError, match=r"carr|coin"):
        replayed(two(LIES[lie][0]))


def test_coins_are_not_carried_on_to_shards_of_another_size() -> None:
    """Slot 130 of one index has coin 130, of shards of 126 slots coin 4 of shard 1: two coins, and one that counts."""
    world = two()
    first = world.manifest
    coin = replace(first.coin, thrown_by=(first.digest(),))

    def carried(**changes: Any) -> Manifest:
        return replace(first, window="w1", coins=(coin,), policy=replace(first.policy, **changes))

    coin_period.check_continues(carried(), first)
    coin_period.check_continues(carried(class_digest=bytes(32)), first)  # one index each: slot i, coin i
    sharded = replace(first, policy=replace(first.policy, shards=2))
    coin_period.check_continues(carried(shards=3), sharded)  # the first two shards have the coins that they had
    for one, other in ((carried(class_digest=bytes(32)), sharded), (carried(class_digest=bytes(32), shards=2), first)):
        with pytest.raises(CommitmentError, match="of other shards"):
            coin_period.check_continues(one, other)
        with without(checks.CARRIED_SHARDS):
            coin_period.check_continues(one, other)
        assert not coin_period.same_coins(one.policy, other.policy)  # so that an honest provider throws new ones


def test_coins_that_rest_on_another_auditors_nonce_are_not_carried_on() -> None:
    """That auditor may be the provider's friend: this one cannot know that the coins were not chosen."""
    world = of_another_auditor(opened=True)
    carrying(world, 1, world.digest)
    refused(world, 2, "rest on other auditors' nonces", now=LATER)
    with without(checks.CARRIED_AUDITOR):
        undecided(world, 5, "nor one that it relies on had a part", now=LATER)
        world.nonces[world.throw] = world.released[world.throw] = None  # type: ignore[assignment]
        with without(checks.RELEASED_ONCE):
            audited(world)


def test_an_auditor_that_lost_its_part_in_the_throw_gives_no_verdict() -> None:
    world = two()
    first = world.digest
    carrying(world, 1, first)
    del world.nonces[first]
    undecided(world, 5, "this folder holds no beacon nonce", now=LATER)


def test_coins_that_nobody_has_thrown_yet_are_not_carried_on() -> None:
    world = CoinedWorld()
    world.enter_manifest("w0")
    first, own = world.digest, len(world.messages)
    world.enter_sealed(opened=True)
    beacon, world.messages = world.messages[own:], world.messages[:own]
    start = OPENS + HOUR
    world.enter_manifest("w1", policy_=policy(opens=start, closes=start + HOUR), carries=first)
    world.messages += beacon
    world.enter_beacon()
    world.messages[-1] = replace(world.messages[-1], time=start)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, start + 600))
    refused(world, 5, "were not thrown when its manifest was entered", now=LATER)
    with without(checks.CARRIED_IN_TIME):
        audited(world)
    with pytest.raises(LedgerError, match="beacon is not complete"):
        replayed(world)


def test_a_beacon_that_the_log_does_not_complete_throws_nothing() -> None:
    world = begun(opened=False)
    carrying(world, 1, world.digest)
    refused(world, 5, "lacks the opening of auditor", now=LATER)


def test_the_same_seed_under_another_beacon_is_no_second_window_of_the_period() -> None:
    world = two()
    start = OPENS + HOUR
    first = world.digest
    coin = CoinCommitment(coin_commitment(world.seed), thinning_backend().key.digest)
    world.commit("w1", policy_=policy(opens=start, closes=start + HOUR), coins=(coin,))
    assert world.digest != first
    refused(world, 2, "the coin seed was used by an earlier window", now=LATER)


def test_a_window_is_thinned_by_the_coins_that_its_manifest_names() -> None:
    """Attack: carry the period on, so that nothing is counted, and thin by this window's own beacon."""
    world = two()
    first = world.digest
    start = OPENS + HOUR
    world.enter_manifest("w1", policy_=policy(opens=start, closes=start + HOUR), carries=first)
    world.throw = world.digest
    world.enter_beacon()
    world.messages[-1] = replace(world.messages[-1], time=start)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, start + 600))
    refused(world, 4, "thinned index of tenant 'north': the thinning opening does not hold", now=LATER)
    with without(checks.THROW_OF_THE_PERIOD):
        audited(world)


def test_a_window_that_carries_on_wrongly_counts_a_throw_of_its_own_in_later_ones() -> None:
    """Nobody audits w1, which says that it carries w0's coins on and hides another share."""
    world = two()
    first = world.digest
    carrying(world, 1, first, hidden=HIDDEN + 1)
    carrying(world, 2, first)
    verdict = audited(world, window="w2")
    periods, unseen, _ = coins_of(verdict)
    assert periods == 2
    assert unseen > ONCE
    alone = two()
    carrying(alone, 1, alone.digest, hidden=HIDDEN + 1)
    window(alone, 2)
    assert " late=unproven " in audited(alone, window="w2").line()


def test_coins_thrown_before_the_period_and_carried_into_none_of_its_windows_are_named() -> None:
    world = two()
    carrying(world, 1, world.digest)
    window(world, 2, period_start=OPENS + 2 * HOUR)
    verdict = audited(world)
    assert coins_of(verdict)[:2] == (1, ONCE)
    assert " periods_left_out=1 " in verdict.line()


def test_coins_that_a_period_could_pick_among_all_count_in_it() -> None:
    """Attack: throw often before the period, for windows that are of it, and carry on what hides what one likes.

    A window that is open meanwhile shows that all of it was before the period.
    """
    start = OPENS + 2 * HOUR
    later = policy(opens=start, closes=start + HOUR, period_start=start)
    world = CoinedWorld()
    window(world, 0)
    closing = world.messages.pop()
    throws = []
    for name in ("a", "b", "c"):
        world.enter_manifest(name, policy_=later)
        world.enter_sealed()
        throws.append(world.digest)
    world.enter_manifest("over", policy_=later, carries=throws[1])
    world.messages.append(closing)
    history = replayed(world)
    carrying(world, 3, throws[1], period_start=start)
    periods, unseen, abandoned = coins_of(audited(world))
    assert (periods, abandoned) == (3, ["a", "b", "c"])
    assert unseen > TWICE
    foreseen = spending(list(history.windows.values()), lambda _: DECOYS, later, len(world.registry), throws[1])
    assert (foreseen["coin_periods"], round(foreseen["unseen"], 4)) == (periods, unseen)


# --- the provider ----------------------------------------------------------------------------------------------------


def test_a_provider_foresees_what_carrying_on_costs() -> None:
    world = two()
    first = world.digest
    carrying(world, 1, first)
    history = replayed(world)
    start = OPENS + 2 * HOUR
    following = policy(opens=start, closes=start + HOUR)
    carried = history.carried(following, world.manifest.auditors, TENANTS)
    assert carried is not None
    assert carried.digest == first
    before = list(history.windows.values())
    foreseen = spending(before, lambda _: DECOYS, following, len(world.registry), carried.digest)
    carrying(world, 2, first)
    assert (foreseen["coin_periods"], round(foreseen["unseen"], 4)) == coins_of(audited(world))[:2] == (1, ONCE)


@pytest.mark.parametrize(
    "changes", [{"hidden": HIDDEN + 1}, {"period_start": OPENS + 2 * HOUR}, {"auditor": (Seat("auditor", b"a" * 32),)}]
)
def test_a_provider_throws_anew_where_it_may_not_carry_on(changes: dict[str, Any]) -> None:
    world = two()
    auditor = changes.pop("auditor", world.manifest.auditors)
    start = OPENS + 2 * HOUR
    following = policy(**{"opens": start, "closes": start + HOUR, **changes})
    assert replayed(world).carried(following, auditor, TENANTS) is None


def test_a_provider_throws_anew_once_a_tenant_came_and_not_when_one_left() -> None:
    world = two()
    following = policy(opens=OPENS + 2 * HOUR, closes=OPENS + 3 * HOUR)
    history, seats = replayed(world), world.manifest.auditors
    assert history.carried(following, seats, [*TENANTS, "west"]) is None
    for fewer in (TENANTS, TENANTS[:1]):
        carried = history.carried(following, seats, fewer)
        assert carried is not None
        assert carried.digest == world.digest


def test_the_newest_throw_is_the_one_that_is_carried_on() -> None:
    """An older one would cost nothing less, and a provider that picks has chosen."""
    world = two()
    window(world, 1)
    history = replayed(world)
    following = policy(opens=OPENS + 2 * HOUR, closes=OPENS + 3 * HOUR)
    carried = history.carried(following, world.manifest.auditors, TENANTS)
    assert carried is not None
    assert carried.digest == world.digest
    assert carried.stage is Stage.CLOSED


def test_a_manifest_in_the_log_tells_whose_coins_it_carries_on() -> None:
    world = two()
    first = world.digest
    assert world.manifest.coin_period == first
    carrying(world, 1, first)
    assert world.manifest.coin_period == first != world.digest
    signed = world.messages[world.at(SignedManifest, 1)]
    assert SignedManifest.decode(signed.encode()).manifest.coin.thrown_by == (first,)
