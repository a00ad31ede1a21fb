# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows of the claim until-delivered in which one thing about the coin is not as it should be.  SPEC A.11, D.11.7.

Real thinning proofs of 126 slots; everything but the lie is made to fit it.  With all checks in place the audit ends as
the test says; with the one check that it names removed the same evidence passes, or is stopped by nothing of that name.
Files and keys of the thinned indices are attacked in test_update_files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragseal.accounting.rounding import upward
from ragseal.kernel import signature
from ragseal.kernel.beacon import BeaconOpening
from ragseal.kernel.coin import coin_commitment
from ragseal.kernel.commitment import (
    CoinCommitment,
    Manifest,
    ThinnedIndex,
    Thinning,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import CommitmentError, EncodingError, LedgerError, PolicyError
from ragseal.kernel.policy import Policy
from ragseal.kernel.verdict import log_digest
from ragseal.prover.storage.history import History
from ragseal.prover.storage.window import Stage
from ragseal.verifier.outcome.outcome import FAIL
from ragseal.verifier.report import document
from tests import simulator
from tests.attacks import checks
from tests.attacks.checks import (
    PROVIDER_COIN_ONCE,
    PROVIDER_THINNED,
    PROVIDER_THINNED_ONCE,
    PROVIDER_THINNED_TENANTS,
    gone,
    without,
)
from tests.attacks.coin_lies import _entries, told
from tests.attacks.removal import Removable
from tests.attacks.test_withheld import Silent
from tests.attacks.test_withheld import audit as audited_over
from tests.attacks.world import accepted, refused, undecided
from tests.simulator import ORIGIN
from tests.simulator.coined import BOUNDLESS, CoinedWorld, policy, seed_of
from tests.simulator.keys import thinning_backend as backend

pytestmark = pytest.mark.slow
HOUR = 3600


def test_an_honest_window_passes_and_says_what_it_claims() -> None:
    world = CoinedWorld.honest()
    verdict = accepted(world, receipts=world.receipts())
    assert verdict.line().startswith(
        "PASS epsilon_audit=1.45084 claim=until-delivered coalition=any queries=any unseen=1.45084 return=3.90436 "
        "delta=1e-06 period_from=2027-01-14T04:13Z left_out=0 periods=1 chance=0 mode=full keys=auditor "
        "records=7 window=w1@"
    ), verdict.line()
    assert any(world.hides("north"))
    assert world.hides("north") != world.hides("south")


# --- the entry -------------------------------------------------------------------------------------------------------


def missing(world: CoinedWorld) -> None:
    del world.messages[world.at(Thinning)]


def twice(world: CoinedWorld) -> None:
    at = world.at(Thinning)
    world.messages.insert(at, world.messages[at])


def twice_in_other_ways(world: CoinedWorld) -> None:
    """A second entry, of columns with other blinders: which of the two records are made of is not said."""
    at, entry = world.at(Thinning), world.messages[world.at(Thinning)]
    assert isinstance(entry, Thinning)
    world.messages.insert(
        at + 1, replace(entry, tenants=tuple(replace(t, proof_digest=bytes(32)) for t in entry.tenants))
    )


def before_the_auditors_opening(world: CoinedWorld) -> None:
    at = world.at(Thinning)
    world.messages[at - 1 : at + 1] = world.messages[at - 1 : at + 1][::-1]


def after_the_windows_opening(world: CoinedWorld) -> None:
    at = world.at(Thinning)
    world.messages[at : at + 2] = world.messages[at : at + 2][::-1]


def a_tenant_dropped(world: CoinedWorld) -> None:
    world.put_thinning(*_entries(world)[:1])


def a_tenant_added(world: CoinedWorld) -> None:
    world.put_thinning(*_entries(world), replace(_entries(world)[0], tenant="west"))


def a_tenant_renamed(world: CoinedWorld) -> None:
    world.put_thinning(_entries(world)[0], replace(_entries(world)[1], tenant="west"))


def tenants_reordered(world: CoinedWorld) -> None:
    world.put_thinning(*_entries(world)[::-1])


ENTRIES: dict[str, tuple[Callable[[CoinedWorld], None], int, str, Removable | None]] = {
    "missing": (missing, 5, "thinned once, not 0 times", checks.THINNED_ONCE),
    "twice": (twice, 5, "thinned once, not 2 times", checks.THINNED_ONCE),
    "twice in other ways": (twice_in_other_ways, 5, "thinned once, not 2 times", checks.THINNED_ONCE),
    "early": (before_the_auditors_opening, 5, "between the beacon's last opening", checks.THINNED_IN_TIME),
    "late": (after_the_windows_opening, 5, "between the beacon's last opening", checks.THINNED_IN_TIME),
    "a tenant dropped": (a_tenant_dropped, 5, "not those of the manifest's tenants", checks.THINNED_TENANTS),
    "a tenant added": (a_tenant_added, 5, "not those of the manifest's tenants", checks.THINNED_TENANTS),
    "a tenant renamed": (a_tenant_renamed, 5, "not those of the manifest's tenants", checks.THINNED_TENANTS),
    "tenants reordered": (tenants_reordered, 1, "is not a message", None),
}
ACCEPTED_WITHOUT = {"twice", "twice in other ways", "early", "late"}


@pytest.mark.parametrize("name", ENTRIES)
def test_the_indices_are_thinned_once_for_all_tenants_between_the_two_openings(name: str) -> None:
    lie, step, match, check = ENTRIES[name]
    world = told(lie)
    refused(world, step, match)
    if check is None:
        return
    if name in ACCEPTED_WITHOUT:
        with without(check):
            accepted(world)
    else:
        gone(check, world, match)


def test_a_window_without_a_coin_is_not_thinned() -> None:
    """Its thinned columns would be the provider's choice, and an auditor that took them would claim nothing of them."""

    def lie(world: CoinedWorld) -> None:
        entries = [ThinnedIndex(name, bytes(32), bytes(32), bytes(32)) for name in sorted(world.tenants)]
        world.messages.insert(world.at(WindowOpen), Thinning(world.digest, tuple(entries)))

    world = told(lie, policy_=simulator.policy())
    refused(world, 5, "although the claim every-list has no coin")
    with without(checks.NO_COIN_NO_THINNING):
        assert accepted(world).budget.claim.name == "every-list"  # type: ignore[union-attr]


# --- the manifest ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("another_key", [False, True])
def test_a_coin_seed_is_not_used_twice(another_key: bool) -> None:
    """Nor under another thinning key, which would make another commitment of the same seed."""
    world, key_digest = CoinedWorld(), bytes(32) if another_key else backend().key.digest
    world.enter_manifest("w0", coins=(CoinCommitment(coin_commitment(seed_of("w1")), key_digest),))
    world.commit("w1")
    world.close()
    refused(world, 2, "the coin seed was used by an earlier window")
    with without(checks.COIN_ONCE):
        accepted(world)


COIN = (CoinCommitment(coin_commitment((1, 2)), bytes(32)),)


@pytest.mark.parametrize(
    ("stated", "coins", "check"),
    [
        (policy(), (), checks.COIN_AND_CLAIM),
        (simulator.policy(), COIN, checks.COIN_AND_CLAIM),
        (policy(hidden=0), COIN, checks.SHARE_OF_THE_CLAIM),
        (policy(hidden=256), COIN, checks.SHARE_OF_THE_CLAIM),
        (policy(hidden=2**32 - 1), COIN, checks.SHARE_OF_THE_CLAIM),
        (simulator.policy(hidden=60), (), checks.NO_COIN_NO_SHARE),
        (simulator.policy(gate=False), (), checks.EVERY_LIST_GATES),
    ],
)
def test_claim_and_coin_belong_together(stated: Policy, coins: Sequence[CoinCommitment], check: Removable) -> None:
    """Such a manifest is no message: neither a provider nor an account nor an auditor reads it."""
    world = CoinedWorld()
    world.enter_manifest("w1", policy_=stated, coins=tuple(coins))
    with pytest.raises((CommitmentError, PolicyError)):
        Manifest.decode(world.manifest.encode())
    with without(check):
        assert Manifest.decode(world.manifest.encode()) == world.manifest
    refused(world, 1, "entry 0 is not a message of this protocol", window="w1")


def test_a_manifest_with_two_coins_is_no_message() -> None:
    world = CoinedWorld()
    world.enter_manifest("w1")
    with pytest.raises(EncodingError, match="coins"):
        replace(world.manifest, coins=world.manifest.coins * 2).encode()


# --- the estimate ----------------------------------------------------------------------------------------------------


def joined(**changes: Any) -> CoinedWorld:
    """Alice and bob ask the same, the policy speaks of one account."""
    world = CoinedWorld()
    world.commit(policy_=policy(k_max=1, **changes))
    for name in ("alice", "bob"):
        world.ask(name, e=[110, 40, 40, 10])
    world.ask("carol")
    world.close()
    return world


def test_an_estimate_above_k_max_is_a_fact_where_the_policy_only_reports_it() -> None:
    world = joined(gate=False)
    verdict = accepted(world)
    assert verdict.estimation is not None
    assert verdict.estimation.c == 2
    assert document.build(verdict)["estimate"]["c"] == 2
    undecided(joined(gate=True), 9, "2 accounts")
    with without(checks.COALITION):
        accepted(joined(gate=True))


# --- withholding -----------------------------------------------------------------------------------------------------


def _drop_a_record(world: CoinedWorld) -> None:
    del world.messages[world.at(WindowClose) - 2]


def _advertised_too_small() -> CoinedWorld:
    return CoinedWorld.honest(policy_=policy(epsilon_account="1"))


def _record_dropped() -> CoinedWorld:
    world = CoinedWorld.honest()
    _drop_a_record(world)
    return world


LIES: dict[str, tuple[Callable[[], CoinedWorld], int]] = {
    "thinned twice": (lambda: told(twice), 5),
    "a record dropped": (_record_dropped, 6),
    "advertised too small": (_advertised_too_small, 11),
}


@pytest.mark.parametrize("call", ["thinned_file", "index_file", "ProofsAsk"])
def test_what_is_withheld_hides_no_lie_about_the_coin(call: str) -> None:
    step = {"ProofsAsk": 8}.get(call, 4)
    verdict = audited_over(Silent(CoinedWorld.honest(), call))
    assert verdict.line().startswith(f"NO VERDICT step={step} "), verdict.line()
    assert verdict.budget is None
    assert "epsilon_audit" not in {key for one in verdict.steps for key in one.evidence}
    for name, (lie, at) in LIES.items():
        verdict = audited_over(Silent(lie(), call))
        assert verdict.line().startswith(f"{FAIL} step={at} "), (name, verdict.line())


# --- what is advertised ----------------------------------------------------------------------------------------------


def test_less_advertised_than_the_coin_gives_is_refused() -> None:
    world = CoinedWorld.honest(policy_=policy(epsilon_account="1"))
    refused(world, 11, "the policy advertises epsilon 1, its coin gives 1.45084")
    with without(checks.ADVERTISED):
        accepted(world)


def test_a_return_above_what_is_advertised_is_printed_and_no_lie() -> None:
    """It follows from the manifest, is no part of epsilon and has a name of its own in the line."""
    verdict = accepted(CoinedWorld.honest(policy_=policy(hidden=240, epsilon_account="1")))
    assert verdict.budget is not None
    returned = verdict.budget.bound.returned
    assert returned is not None
    assert returned > 1 > verdict.budget.epsilon
    assert f" return={upward(returned)} " in verdict.line()


def test_what_is_advertised_is_for_documents_of_all_their_slots() -> None:
    """One slot's unseen would be 1.45."""
    match = "the policy advertises epsilon 2, its coin gives 2.90167"
    refused(CoinedWorld.honest(policy_=policy(chunks_max=2, epsilon_account="2")), 11, match)


def test_a_window_without_a_finite_return_is_refused() -> None:
    world = CoinedWorld.honest(policy_=policy(**BOUNDLESS))
    verdict = refused(world, 11, "no finite return follows")
    assert "inf" not in verdict.line()


# What a provider's own ledger may hold about a coin: replayed, it is refused wherever an auditor would refuse it.


Messages = list[Message]


def replayed(world: CoinedWorld) -> History:
    """A provider that starts on this ledger.  Raises LedgerError: an entry may not stand where it does."""
    history = History(ORIGIN, signature.public_bytes(world.provider), log_digest(world.signer.verifier.vkey()))
    for index, entry in enumerate(world.entries()):
        history.replay(index, entry)
    return history


def opened(coined: bool = True) -> CoinedWorld:
    world = CoinedWorld()
    world.commit(policy_=None if coined else simulator.policy())
    return world


def _swapped(world: CoinedWorld, kind: type[Message], number: int) -> None:
    """The thinning and that entry change places."""
    at, other = world.at(Thinning), world.at(kind, number)
    world.messages[at], world.messages[other] = world.messages[other], world.messages[at]


def _twice(world: CoinedWorld) -> None:
    world.messages.insert(world.at(Thinning), world.messages[world.at(Thinning)])


def _missing(world: CoinedWorld) -> None:
    del world.messages[world.at(Thinning)]


def _put(world: CoinedWorld, change: Callable[[tuple[ThinnedIndex, ...]], tuple[ThinnedIndex, ...]]) -> None:
    entry = world.messages[world.at(Thinning)]
    assert isinstance(entry, Thinning)
    world.put_thinning(*change(entry.tenants))


ORDER_LIES: dict[str, tuple[Callable[[CoinedWorld], None], str, Removable | None]] = {
    "twice": (_twice, "thinned once, after", PROVIDER_THINNED_ONCE),
    "before the auditor's opening": (
        lambda w: _swapped(w, BeaconOpening, 2),
        "thinned once, after",
        PROVIDER_THINNED_ONCE,
    ),
    "before the provider's opening": (lambda w: _swapped(w, BeaconOpening, 0), "thinned once, after", None),
    "missing": (_missing, "opens after its indices are thinned", PROVIDER_THINNED),
    "after the opening": (lambda w: _swapped(w, WindowOpen, 0), "opens after its indices are thinned", None),
    "a tenant dropped": (lambda w: _put(w, lambda t: t[:1]), "not those of the manifest", PROVIDER_THINNED_TENANTS),
    "a tenant renamed": (
        lambda w: _put(w, lambda t: (t[0], replace(t[1], tenant="west"))),
        "not those of the manifest",
        PROVIDER_THINNED_TENANTS,
    ),
    "tenants reordered": (lambda w: _put(w, lambda t: t[::-1]), "distinct and sorted", None),
}


def test_the_ledger_that_all_those_differ_from_is_taken() -> None:
    window = replayed(opened()).newest
    assert window is not None
    assert window.stage is Stage.OPEN
    assert window.thinning is not None


@pytest.mark.parametrize("lie", ORDER_LIES)
def test_a_ledger_that_thins_at_another_time_or_other_tenants_is_not_served(lie: str) -> None:
    tell, match, check = ORDER_LIES[lie]
    world = opened()
    tell(world)
    with pytest.raises(LedgerError, match=match):
        replayed(world)
    if check is not None:
        with without(check):
            replayed(world)


def test_a_providers_ledger_thins_no_window_without_a_coin() -> None:
    world = opened(coined=False)
    entries = tuple(ThinnedIndex(name, bytes(32), bytes(32), bytes(32)) for name in sorted(world.tenants))
    world.messages.insert(world.at(WindowOpen), Thinning(world.digest, entries))
    with pytest.raises(LedgerError, match="not those of the manifest's tenants with a coin"):
        replayed(world)
    with without(PROVIDER_THINNED_TENANTS):
        replayed(world)


def test_a_coin_seed_is_committed_to_once() -> None:
    world = CoinedWorld()
    world.enter_manifest("w0", coins=(CoinCommitment(coin_commitment(seed_of("w1")), bytes(32)),))
    world.enter_manifest("w1")
    with pytest.raises(LedgerError, match="coin seed of window 'w0' is used again"):
        replayed(world)
    with without(PROVIDER_COIN_ONCE):
        replayed(world)
