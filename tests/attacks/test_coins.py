# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows of the claim until-delivered in which one thing about the coin is not as it should be.  SPEC A.11, D.11.7.

Real thinning proofs of 126 slots; everything but the lie is made to fit it.  With all checks in place the audit ends as
the test says; with the one check that it names removed the same evidence passes, or is stopped by nothing of that name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from ragseal.accounting.delivered_period import delivered_window
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.coin import coin_commitment
from ragseal.kernel.commitment import (
    CoinCommitment,
    Manifest,
    SignedManifest,
    ThinnedIndex,
    Thinning,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.errors import CommitmentError, EncodingError, PolicyError
from ragseal.kernel.policy import Policy
from ragseal.verifier.evidence import Undecided
from ragseal.verifier.outcome import FAIL
from ragseal.verifier.report import document
from ragseal.verifier.steps.coins import check_thinned
from ragseal.verifier.steps.manifest import Entered
from tests import simulator
from tests.attacks import checks
from tests.attacks.checks import gone, without
from tests.attacks.removal import Both, Removable
from tests.attacks.test_outsiders import Between
from tests.attacks.test_withheld import Silent
from tests.attacks.test_withheld import audit as audited_over
from tests.attacks.world import accepted, refused, undecided
from tests.simulator import CLS, DIMENSION, GROUP, KEY, TENANTS, SimulatedEvidence
from tests.simulator.coined import CoinedWorld, placed, policy, recommitted, seed_of
from tests.simulator.keys import thinning_backend as backend

pytestmark = pytest.mark.slow

HOUR = 3600


def told(lie: Callable[[CoinedWorld], None], **changes: Any) -> CoinedWorld:
    """A window about whose beginning a lie is told before anybody asks."""
    world = CoinedWorld()
    world.commit(**changes)
    lie(world)
    world.queries()
    world.close()
    return world


def test_an_honest_window_passes_and_says_what_it_claims() -> None:
    world = CoinedWorld.honest()
    verdict = accepted(world, receipts=world.receipts())
    assert verdict.line().startswith(
        "PASS epsilon_audit=1.45084 claim=until-delivered coalition=any unseen=1.45084 periods=1 return=0.904406 "
        "chance=0 delta=1e-06 mode=full keys=auditor records=7 window=w1@"
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


def _entries(world: CoinedWorld) -> tuple[ThinnedIndex, ...]:
    entry = world.messages[world.at(Thinning)]
    assert isinstance(entry, Thinning)
    return entry.tenants


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
        assert accepted(world).budget.claim == "every-list"  # type: ignore[union-attr]


# --- the files -------------------------------------------------------------------------------------------------------


def thinned_as(**other: Any) -> Callable[[CoinedWorld], None]:
    """North's index is thinned by other coins than its own: honestly proven, named in the log, answered from."""

    def lie(world: CoinedWorld) -> None:
        world.tenants["north"], file = world.thinned_index("north", **other)
        world.thinned[world.digest, "north"] = file
        world.put_thinning(file.entry("north"), _entries(world)[1])

    return lie


def of_another_tenant(world: CoinedWorld) -> None:
    """South's index under north's name."""
    file = world.thinned[world.digest, "south"]
    world.thinned[world.digest, "north"] = file
    world.tenants["north"] = replace(world.tenants["north"], file=world.tenants["south"].file)
    world.put_thinning(file.entry("north"), _entries(world)[1])


OTHERS: dict[str, Callable[[CoinedWorld], None]] = {
    "of another window": thinned_as(manifest=bytes(32)),
    "by the coins of another tenant": thinned_as(named="south"),
    "of another tenant": of_another_tenant,
    "of another beacon": thinned_as(beacon=12345),
    "of another seed": thinned_as(seed=(1, 2)),
    "of another share": thinned_as(hidden=1),
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_index_thinned_by_other_coins_is_refused(name: str) -> None:
    world = told(OTHERS[name])
    refused(world, 4, "thinned index of tenant 'north': ")
    with without(checks.THINNED_COLUMNS):
        accepted(world)


def test_without_an_entry_there_are_no_columns_that_records_are_made_of() -> None:
    """Never the placed ones instead, whoever calls."""
    world = CoinedWorld.honest()
    entered = Entered(0, SignedManifest(world.manifest, bytes(64)), world.digest)
    placed_columns = {name: tenant.file.columns for name, tenant in placed().items()}
    with pytest.raises(Undecided, match="no entry of the log names thinned columns"):
        check_thinned(GROUP, KEY, backend().key, entered, placed_columns, None, world.beacon, SimulatedEvidence(world))


def _fewer(columns: bytes) -> bytes:
    return columns[:-POINT_BYTES]


def _more(columns: bytes) -> bytes:
    return columns + columns[:POINT_BYTES]


@pytest.mark.parametrize("change", [_fewer, _more, lambda _: b"", lambda columns: columns[:-1]])
def test_thinned_columns_of_another_number_are_the_providers_lie(change: Callable[[bytes], bytes]) -> None:
    """The log names this very file: nobody else made it, so asking again for another one is no way out."""

    def lie(world: CoinedWorld) -> None:
        at = world.digest, "north"
        world.thinned[at] = replace(world.thinned[at], columns=change(world.thinned[at].columns))
        world.put_thinning(world.thinned[at].entry("north"), _entries(world)[1])

    refused(told(lie), 4, "thinned index of tenant 'north': it has another number of columns")


def _with_other_blinders(world: CoinedWorld) -> None:
    """North is answered from columns with other blinders than those of the log, which its file has too."""
    at = world.digest, "north"
    world.tenants["north"] = recommitted(placed()["north"], world.tenants["north"].rows, KEY, random.Random(3))
    world.thinned[at] = replace(world.thinned[at], columns=world.tenants["north"].file.columns)


def test_a_file_that_is_not_the_logs_is_nobodys_word() -> None:
    world = told(_with_other_blinders)
    undecided(world, 4, "thinned index of tenant 'north': it is not the one that the log names")
    with without(Both((checks.THINNED_FILE_OF_THE_LOG, checks.THINNED_COLUMNS))):
        accepted(world)
    with without(checks.THINNED_FILE_OF_THE_LOG):  # taken for the log's, what does not hold would be a lie
        refused(world, 4, "thinned index of tenant 'north'")


@pytest.mark.parametrize(
    "change", [lambda d: d[:-1], lambda d: d + b"x", lambda d: b"", lambda d: d[:99] + b"!" + d[100:]]
)
def test_what_a_stranger_makes_of_a_thinned_file_is_no_verdict(change: Callable[[bytes], bytes]) -> None:
    verdict = audited_over(Between("thinned_file", change, CoinedWorld.honest()))
    assert verdict.line().startswith("NO VERDICT step=4 index openings: thinned index of tenant 'north'"), (
        verdict.line()
    )
    assert verdict.obstacle is not None
    assert "over TLS" in verdict.obstacle.way_out


def test_columns_placed_under_the_attestations_points_are_refused() -> None:
    """They have no part in the thinning circuit's inputs, so nothing would tie what is thinned to them."""
    world = CoinedWorld()
    world.enter_manifest(tenants=tuple(TENANTS[name].index for name in sorted(TENANTS)))
    world.enter_beacon()
    world.files = {name: tenant.file for name, tenant in TENANTS.items()}
    world.tenants = {name: replace(made, index=TENANTS[name].index) for name, made in world.tenants.items()}
    world.queries()
    world.close()
    refused(world, 4, "index of tenant 'north': ")
    with without(Both((checks.COLUMNS, checks.THINNED_COLUMNS))):
        accepted(world)


def answered_from(favour: Callable[[CoinedWorld], list[list[int]]]) -> CoinedWorld:
    """North's records are made of other columns than the log's thinned ones, under the same points."""

    def lie(world: CoinedWorld) -> None:
        world.tenants["north"] = recommitted(placed()["north"], favour(world), KEY, random.Random(4))

    return told(lie)


def _one_hidden_slot_kept(world: CoinedWorld) -> list[list[int]]:
    rows = [list(row) for row in world.tenants["north"].rows]
    slot = world.hides("north").index(True)
    assert rows[slot] == [0] * DIMENSION
    rows[slot] = placed()["north"].rows[slot]
    return rows


def _as_placed(world: CoinedWorld) -> list[list[int]]:
    return placed()["north"].rows


def _one_more_hidden(world: CoinedWorld) -> list[list[int]]:
    rows = [list(row) for row in world.tenants["north"].rows]
    rows[world.hides("north").index(False)] = [0] * DIMENSION
    return rows


@pytest.mark.parametrize("favour", [_one_hidden_slot_kept, _as_placed, _one_more_hidden])
def test_records_of_other_columns_than_the_thinned_ones_are_refused(favour: Any) -> None:
    world = answered_from(favour)
    refused(world, 8, "the link opening does not hold")
    with without(checks.LINK):
        accepted(world)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_thinning_key_that_is_not_the_auditors_own_is_no_verdict() -> None:
    world = CoinedWorld.honest()
    undecided(world, 3, "a thinning key that is not in this auditor's", auditor=replace(world.auditor(), thinnings={}))
    world.coin_made_by = "provider"
    undecided(world, 3, "unsafe: the keys are made by provider")
    with without(checks.OWN_KEYS):
        accepted(world)


def test_a_thinning_key_of_another_capacity_or_of_another_file_is_no_verdict() -> None:
    world, (digest, known) = CoinedWorld.honest(), next(iter(CoinedWorld.honest().auditor().thinnings.items()))
    other = replace(world.auditor(), thinnings={digest: replace(known, class_name="thinning-430")})
    undecided(world, 3, "made for another capacity", auditor=other)
    with without(checks.THINNING_CAPACITY):
        accepted(world, auditor=other)
    named = CoinedWorld()
    named.commit(coins=(CoinCommitment(coin_commitment(seed_of("w1")), bytes(32)),))
    named.close()
    mistaken = replace(named.auditor(), thinnings={bytes(32): replace(known, digest=bytes(32))})
    undecided(named, 3, "holds another key", auditor=mistaken)
    gone(checks.THINNING_KEY_IN_ITS_FOLDER, named, "holds another key", auditor=mistaken)


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


@pytest.mark.parametrize("changes", [{"epsilon_account": "1"}, {"epsilon_account": "1", "hidden": 250}])
def test_less_advertised_than_coin_or_noise_give_is_refused(changes: dict[str, Any]) -> None:
    """Once unseen is the larger, once the return."""
    changes = {"gain": 2, **changes} if "hidden" in changes else changes
    world = CoinedWorld.honest(policy_=policy(**changes))
    refused(world, 11, "the policy advertises epsilon 1, its coin and noise give")
    with without(checks.DELIVERED_ADVERTISED):
        accepted(world)


def test_what_is_advertised_is_for_documents_of_all_their_slots() -> None:
    """One slot's unseen would be 1.45."""
    match = "the policy advertises epsilon 2, its coin and noise give 2.90167"
    refused(CoinedWorld.honest(policy_=policy(chunks_max=2, epsilon_account="2")), 11, match)


def test_what_is_advertised_is_for_the_queries_of_all_accounts() -> None:
    """delta is about all of them: that of one account's alone would leave the noise more."""
    stated = policy(gain=2, hidden=250)
    one, all_of_them = (delivered_window(stated, CLS, n, Fraction(stated.delta)).epsilon for n in (1, 3))
    assert one < all_of_them
    between = Fraction((one + all_of_them) / 2).limit_denominator(10**6)
    world = CoinedWorld.honest(policy_=replace(stated, epsilon_account=str(between)))
    refused(world, 11, "the policy advertises epsilon")


def test_a_noise_without_a_finite_return_is_refused() -> None:
    world = CoinedWorld.honest(policy_=policy(gain=24, n_max=10**9, epsilon_account="1000000", delta="1/10000000"))
    verdict = refused(world, 11, "no finite return follows")
    assert "inf" not in verdict.line()
