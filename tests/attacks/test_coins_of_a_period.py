# SPDX-License-Identifier: GPL-3.0-or-later
"""Coins that are thrown again: what the windows of a period cost, those given up among them, and their one claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from ragseal.accounting.claims.until_delivered import CoinBound
from ragseal.accounting.delivered_decoys import Lists, visible
from ragseal.kernel import signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.beacon import BeaconOpening, Seat
from ragseal.kernel.commitment import (
    SignedManifest,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.policy import EVERY_LIST, Policy
from ragseal.prover.planning.spending import spending
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.report import document, page
from tests import simulator
from tests.attacks import checks
from tests.attacks.checks import gone, without
from tests.attacks.test_coins import replayed
from tests.attacks.world import accepted, refused, undecided
from tests.classes import DECOYS
from tests.simulator import CLS, NOW, OPENS, key_of
from tests.simulator.coined import BOUNDLESS, CoinedWorld, policy

pytestmark = pytest.mark.slow

HOUR = 3600


def window(world: CoinedWorld, number: int, name: str = "", *, carries: bytes | None = None, **changes: Any) -> None:
    """Window w<number>: it opens ``number`` hours after the first and closes after ten minutes, nothing asked.

    ``carries``: the manifest whose coins it carries on.
    """
    start = OPENS + number * HOUR
    kind = simulator.policy if changes.get("claim") == EVERY_LIST else policy
    stated = kind(**{"opens": start, "closes": start + HOUR, **changes})
    extra: dict[str, Any] = {} if carries is None else {"carries": carries}
    world.commit(name or f"w{number}", policy_=stated, **extra)
    world.messages[-1] = replace(world.messages[-1], time=start)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, start + 600))


def audited(world: CoinedWorld, **options: Any) -> Verdict:
    return accepted(world, now=NOW + 100 * HOUR, **options)


def coins_of(verdict: Verdict) -> tuple[int, float, list[str]]:
    """Coin periods and unseen of a verdict, and which windows it says never opened."""
    assert verdict.budget is not None
    assert isinstance(verdict.budget.bound, CoinBound)
    found = verdict.budget.bound.promise
    assert f"periods={found.periods} " in verdict.line()
    return found.periods, round(found.unseen, 4), [one.window for one in verdict.budget.period.abandoned]


ONCE, AGAIN = (1, 1.4508, []), (2, 2.9017, ["w0"])


def begun(name: str = "w0", *, opened: bool, **changes: Any) -> CoinedWorld:
    """A window that gets as far as its coins, and no further."""
    world = CoinedWorld()
    world.enter_manifest(name, **changes)
    world.enter_sealed(opened=opened)
    return world


def _only_the_log_knows() -> CoinedWorld:
    """The auditor's folder was restored from a copy that was made before it released the nonce."""
    world = begun(opened=True)
    del world.released[world.digest]
    return world


def of_another_auditor(*, opened: bool = False) -> CoinedWorld:
    """Window w0 names somebody else, whose nonce this auditor does not know."""
    world = CoinedWorld()
    own, world.auditor_key = world.auditor_key, key_of("another auditor")
    world.enter_manifest("w0")
    world.enter_sealed(opened=opened)
    del world.released[world.digest], world.nonces[world.digest]
    world.auditor_key = own
    return world


def _unreleased() -> CoinedWorld:
    """The auditor's nonce never left its folder."""
    world = begun(opened=False)
    del world.released[world.digest]
    return world


def _without(world: CoinedWorld, owner: str) -> CoinedWorld:
    world.messages = [m for m in world.messages if not (isinstance(m, BeaconOpening) and m.owner == owner)]
    return world


def _sealed_again(world: CoinedWorld) -> CoinedWorld:
    """A later seal names somebody who never opens."""
    world.messages.append(world.seal_entry("provider", "observer-1", "observer-2", "auditor"))
    return world


def _forgotten() -> CoinedWorld:
    """The auditor's folder was restored from a copy that is older than this window."""
    world = begun(opened=False)
    del world.released[world.digest], world.nonces[world.digest]
    return world


def of_two_auditors(*opened: str, released: bool, sealed: bool = True) -> CoinedWorld:
    """Window w0 names another auditor beside this one and never opens; these have opened their nonces.

    Args:
        released: whether this auditor's nonce left its folder.
        sealed: whether the seal names this auditor, else it had not committed.
    """
    world, other = CoinedWorld(), key_of("another auditor")
    own = Seat("auditor", signature.public_bytes(world.auditor_key))
    world.enter_manifest("w0", auditors=(own, Seat("auditor-b", signature.public_bytes(other))))
    nonces = {
        "provider": world.provider_nonce, "observer-1": bytes(range(32)), "auditor": world.nonces[world.digest],
        "auditor-b": b"b" * 32,
    }  # fmt: skip
    owners = tuple(owner for owner in nonces if sealed or owner != "auditor")
    keys = {"observer-1": key_of("observer"), "auditor": world.auditor_key, "auditor-b": other}
    world.messages += [world.commit_entry(owner, nonces[owner], keys[owner]) for owner in owners[1:]]
    world.messages.append(world.seal_entry(*owners))
    world.messages += [
        BeaconOpening(world.digest, owner, nonces[owner]) for owner in ("provider", "observer-1", *opened)
    ]
    if released:
        world.release(*((owner, nonces[owner]) for owner in owners))
    return world


THROWN: dict[str, Callable[[], CoinedWorld]] = {
    "the auditor's opening is in the log": lambda: begun(opened=True),
    "the auditor's opening is in the log, its folder has no record of it": _only_the_log_knows,
    "the auditor's nonce was released and withheld": lambda: begun(opened=False),
    "the auditor's folder does not know what became of its nonce": _forgotten,
    "of another auditor, complete but for its opening": of_another_auditor,
    "of another auditor, complete": lambda: of_another_auditor(opened=True),
    "of two auditors, the other one withholds": lambda: of_two_auditors("auditor", released=True),
    "of two auditors, both nonces withheld": lambda: of_two_auditors(released=True),
    "of two auditors, this one had no part": lambda: of_two_auditors(released=False, sealed=False),
    "of another auditor, sealed again": lambda: _sealed_again(of_another_auditor()),
}
NOT_THROWN: dict[str, Callable[[], CoinedWorld]] = {
    "the auditor never released its nonce": _unreleased,
    "of two auditors, this one's nonce never left": lambda: of_two_auditors("auditor-b", released=False),
    "of another auditor, without the provider's opening": lambda: _without(of_another_auditor(), "provider"),
    "of another auditor, without an observer's opening": lambda: _without(of_another_auditor(), "observer-1"),
    "no beacon at all": lambda: (world := CoinedWorld(), world.enter_manifest("w0"))[0],
}


@pytest.mark.parametrize("name", THROWN)
def test_coins_that_were_thrown_and_thrown_again_count_twice(name: str) -> None:
    world = THROWN[name]()
    window(world, 1)
    assert coins_of(audited(world)) == AGAIN
    with without(checks.ABANDONED_COUNT):
        assert coins_of(audited(world)) == ONCE


@pytest.mark.parametrize("start", [OPENS - 100_000, OPENS + 2 * HOUR])
def test_an_unsigned_manifest_of_a_window_that_never_opened_is_refused(start: int) -> None:
    """Inside the period and before it: a policy that nobody signed says nothing of its coins."""
    world = begun(opened=True)
    world.messages[world.at(SignedManifest)] = SignedManifest(world.manifest, bytes(64))
    window(world, 1)
    window(world, 2, period_start=start)
    refused(world, 11, "an earlier window's manifest", now=NOW + 100 * HOUR)


@pytest.mark.parametrize("name", NOT_THROWN)
def test_a_window_whose_coins_nobody_could_know_costs_nothing(name: str) -> None:
    world = NOT_THROWN[name]()
    window(world, 1)
    assert coins_of(audited(world)) == ONCE


def test_a_window_that_is_opened_once_another_was_preferred_still_counts() -> None:
    """The provider goes back to it afterwards, so that the log shows no window that never opened."""
    world = begun(opened=True)
    first, beacon = world.digest, world.beacon
    window(world, 1)
    assert coins_of(audited(world, window="w1")) == AGAIN
    world.messages += [WindowOpen(first, beacon, OPENS + 2 * HOUR), WindowClose(first, 0, OPENS + 2 * HOUR)]
    assert coins_of(audited(world, window="w1")) == AGAIN


def test_a_window_that_was_given_up_before_the_period_is_named_and_not_counted() -> None:
    world = begun(opened=True)
    window(world, 1)
    window(world, 2, period_start=OPENS + 2 * HOUR)
    verdict = audited(world)
    assert coins_of(verdict) == ONCE
    assert " periods=1 " in verdict.line()
    assert " periods_left_out=2 " in verdict.line()
    values = document.build(verdict)
    assert values["epsilon"]["windows_left_out"][0]["window"] == "w1"
    assert values["epsilon"]["windows_left_out_that_never_opened"][0]["window"] == "w0"
    assert round(values["epsilon"]["epsilon_of_the_whole_log"], 4) == 4.3525
    assert "w0" in page.render(values)
    assert coins_of(audited(world, auditor=replace(world.auditor(), since=OPENS))) == (3, 4.3525, ["w0"])


@pytest.mark.parametrize("start", [OPENS - 100_000, OPENS + HOUR, OPENS + 2 * HOUR, OPENS + 2 * HOUR + 30])
def test_the_provider_foresees_the_coins_that_an_auditor_counts(start: int) -> None:
    world = begun(opened=True)
    window(world, 1)
    world.enter_manifest("again", policy_=policy(opens=OPENS + HOUR + 600, closes=OPENS + 90 * 60))
    world.enter_sealed()
    world.enter_manifest("nothing", policy_=policy(opens=OPENS + HOUR + 600, closes=OPENS + 90 * 60))
    following = policy(opens=OPENS + 3 * HOUR, closes=OPENS + 4 * HOUR, period_start=start)
    foreseen = spending(list(replayed(world).windows.values()), lambda _: DECOYS, following, len(world.registry))
    window(world, 3, period_start=start)
    assert coins_of(audited(world))[:2] == (foreseen["coin_periods"], round(foreseen["unseen"], 4))
    assert foreseen["coin_periods"] == {OPENS - 100_000: 4, OPENS + HOUR: 4}.get(start, 2)


def test_the_first_window_of_a_period_answers_for_what_was_given_up_for_it() -> None:
    """Attack: throw coins, do not like them, and begin the next window with a period of its own."""
    world = begun(opened=True)
    window(world, 1, period_start=OPENS + HOUR)
    assert coins_of(audited(world)) == AGAIN


def test_what_an_open_window_still_shows_ends_no_window_that_never_opened() -> None:
    """Attack: coins are thrown while an earlier window is open, so that its closing follows them, with an old time."""
    world = CoinedWorld()
    window(world, 0)
    closing = world.messages.pop()
    world.enter_manifest("beside")
    world.enter_sealed()
    world.messages.append(closing)
    window(world, 2, period_start=OPENS + 2 * HOUR)
    assert coins_of(audited(world)) == (2, 2.9017, ["beside"])


def test_dating_a_log_back_hides_no_coins_that_were_thrown_since() -> None:
    """A window between, with an auditor of the provider's own, states an old time; this auditor's clock knows."""

    def log(drawn: int) -> CoinedWorld:
        world = begun(opened=True)
        world.drawn[world.digest] = drawn
        own, world.auditor_key = world.auditor_key, key_of("a friend")
        window(world, 1, name="between")
        world.auditor_key = own
        window(world, 5, period_start=OPENS + 4 * HOUR)
        return world

    assert coins_of(audited(log(OPENS + 4 * HOUR))) == (3, 4.3525, ["w0"])  # the one between is no older either
    assert coins_of(audited(log(OPENS))) == ONCE


def test_a_period_makes_one_claim() -> None:
    world = CoinedWorld()
    window(world, 0, claim=EVERY_LIST)
    window(world, 1)
    match = "make a claim other than until-delivered"
    verdict = refused(world, 11, match, now=NOW + 100 * HOUR)
    assert verdict.failure is not None
    assert "w0; begin a new period with period_start = the time at which the window opens" in verdict.failure.message
    gone(checks.ONE_CLAIM, world, match, now=NOW + 100 * HOUR)
    way_out = CoinedWorld()
    window(way_out, 0, claim=EVERY_LIST)
    window(way_out, 1, period_start=OPENS + HOUR)
    assert coins_of(audited(way_out)) == ONCE
    window(way_out, 2, claim=EVERY_LIST, period_start=OPENS)
    refused(way_out, 11, "windows of other claims have no epsilon of every list: w1", now=NOW + 100 * HOUR)


def test_an_auditors_own_beginning_of_the_period_fails_nobody() -> None:
    world = CoinedWorld()
    window(world, 0, claim=EVERY_LIST)
    window(world, 1, period_start=OPENS + HOUR)
    own = replace(world.auditor(), since=OPENS)
    undecided(world, 11, "make a claim other", auditor=own, now=NOW + 100 * HOUR)
    loud = CoinedWorld()
    window(loud, 0, **BOUNDLESS)
    window(loud, 1, period_start=OPENS + HOUR)
    assert coins_of(audited(loud)) == ONCE
    own = replace(loud.auditor(), since=OPENS)
    undecided(loud, 11, "no finite return follows", auditor=own, now=NOW + 100 * HOUR)


def test_what_only_the_auditors_folder_says_fails_nobody() -> None:
    """An abandoned window of another share takes half of delta: here that leaves too little for the law."""
    own = policy(ids=DECOYS.room)
    excess = visible(Lists(DECOYS.N, own.ids, own.decoy_rate), 1).excess
    law = (1 - Fraction(own.hidden, 256)) * own.n_max * len(CoinedWorld().registry) * excess
    delta = (law * Fraction(3, 2)).limit_denominator(10**25)
    world = begun(opened=False, policy_=policy(hidden=61))
    first = world.digest
    window(world, 1, ids=own.ids, delta=str(delta))
    undecided(world, 11, "no finite return follows", now=NOW + 100 * HOUR)
    nonce = world.nonces.pop(first)
    del world.released[first]
    undecided(world, 11, "no finite return follows", now=NOW + 100 * HOUR)
    world.nonces[first] = nonce
    assert coins_of(audited(world)) == ONCE


def test_an_earlier_window_whose_places_prove_too_little_is_no_verdict() -> None:
    world = CoinedWorld()
    world.commit("w0", policy_=simulator.policy(class_name="few"))
    world.messages.append(WindowClose(world.digest, 0, OPENS + 600))
    window(world, 1, claim=EVERY_LIST)
    few = replace(CLS, name="few", R=CLS.R - 2)
    known = replace(world.auditor(), classes={**world.auditor().classes, "few": (few, simulator.CLASS_DIGEST)})
    undecided(world, 11, "its places are not proven enough", auditor=known, now=NOW + 100 * HOUR)
    with without(checks.PLACES_OF_THE_PERIOD):
        accepted(world, auditor=known, now=NOW + 100 * HOUR)


@pytest.mark.parametrize(("kind", "cls"), [(policy, DECOYS), (simulator.policy, CLS)])
def test_an_earlier_window_of_more_shards_than_its_class_has_is_no_verdict(
    kind: Callable[..., Policy], cls: NoiseClass | DecoysClass
) -> None:
    """With more slots a list tells less: the shards that nobody could prove would lower the period's epsilon."""
    world = CoinedWorld()
    two = replace(cls, name="shards", S=2)
    world.commit("w0", policy_=kind(class_name="shards", shards=3))
    world.messages.append(WindowClose(world.digest, 0, OPENS + 600))
    window(world, 1, claim=kind().claim)
    auditor = world.auditor()
    known = replace(auditor, classes={**auditor.classes, "shards": (two, simulator.CLASS_DIGEST)})
    undecided(world, 11, "has 1 to 2 shards, not 3", auditor=known, now=NOW + 100 * HOUR)


def test_an_earlier_window_counts_the_accounts_that_asked_though_its_manifest_names_fewer() -> None:
    """Its own audit would not hold; delta of this one is about the queries that there were."""
    world = CoinedWorld()
    world.commit("w0", accounts=1)
    world.queries()
    world.messages.append(WindowClose(world.digest, world.seq, OPENS + 600))
    window(world, 1)
    verdict = audited(world)
    assert verdict.budget is not None
    assert [one.accounts for one in verdict.budget.windows] == [3, 3]
    assert verdict.budget.queries == 2 * 3 * policy().n_max


def test_an_earlier_window_counts_the_queries_that_an_account_asked_though_its_policy_allows_fewer() -> None:
    world = CoinedWorld()
    world.commit("w0", policy_=policy(n_max=1))
    world.queries()
    world.messages.append(WindowClose(world.digest, world.seq, OPENS + 600))
    asked = Counter(m.signed.request.account for m in world.messages if isinstance(m, Record))
    window(world, 1)
    verdict = audited(world)
    assert verdict.budget is not None
    assert [one.queries for one in verdict.budget.windows] == [max(asked.values()), policy().n_max]
    assert max(asked.values()) > 1


def test_every_window_of_the_period_throws_its_own_coins() -> None:
    world = CoinedWorld()
    window(world, 0)
    window(world, 1, hidden=128)
    periods, unseen, none = coins_of(audited(world))
    assert (periods, unseen, none) == (2, round(1.450833 + 0.693148, 4), [])
    kept = [m for m in world.messages if isinstance(m, SignedManifest)]
    assert kept[0].manifest.coins != kept[1].manifest.coins
