# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows whose indices change on a tick, about one update of which the provider lies.  SPEC A.12.

Everything but the lie is made to fit it.  With all checks in place the audit ends as the test says; with the one check
removed that the test names the same evidence passes.  Proofs about hidden slots are real, of 126 slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel import signature
from ragseal.kernel.commitment import WindowClose
from ragseal.kernel.enrolment import Enrolment
from ragseal.kernel.errors import AuditError, CommitmentError
from ragseal.kernel.verdict import log_digest
from ragseal.kernel.versions import IndexUpdate
from ragseal.prover.storage.history import History
from ragseal.verifier.audit.participant import Stage
from ragseal.verifier.signed.log import VerdictLog
from tests import simulator
from tests.attacks import checks
from tests.attacks.checks import gone, without
from tests.attacks.removal import Removable
from tests.attacks.world import accepted, refused
from tests.simulator import CLS, World
from tests.simulator.parties import OPENS, account, key_of
from tests.simulator.ticked import TickedCoins, TickedWorld
from tests.verifier.beacon_scene import SimulatedState, participant


def begun(world: TickedWorld | None = None, updates: int = 1) -> Any:
    """A window with so many honest updates and two records over each."""
    made = world or TickedWorld()
    made.commit()
    for number in range(1, updates + 1):
        made.update(number)
        made.ask("alice")
        made.ask("carol")
    return made


# --- the log ---------------------------------------------------------------------------------------------------------


def skipped_number() -> TickedWorld:
    world: TickedWorld = begun()
    world.messages.append(entry := replace(world.made(2), number=3, registry_root=world.enrolled_root(3)))
    world.take(entry, 2)
    for name in world.tenants:
        world.version_files[world.digest, 3, name] = world.version_files[world.digest, 2, name]
    return world


def no_later_tick() -> TickedWorld:
    world: TickedWorld = begun()
    world.update(2, time=OPENS + 60)
    return world


def off_tick() -> TickedWorld:
    world: TickedWorld = begun()
    world.update(2, time=OPENS + 90)
    return world


def tenant_left_out() -> TickedWorld:
    world: TickedWorld = begun()
    made = world.made(2)
    world.messages.append(entry := replace(made, tenants=made.tenants[:1]))
    world.take(entry, 2)
    return world


def too_old_a_version() -> TickedWorld:
    world: TickedWorld = begun(updates=3)
    world.take(first(world), 1)
    world.ask("bob")
    return world


def first(world: World) -> IndexUpdate:
    return next(m for m in world.messages if isinstance(m, IndexUpdate))


def a_record_before_its_version() -> TickedWorld:
    world: TickedWorld = begun()
    entry = world.made(2)
    world.take(entry, 2)
    world.ask("bob")
    world.messages.append(entry)
    return world


def a_record_before_the_first_update() -> TickedWorld:
    world = TickedWorld()
    world.commit()
    entry = world.made(1)
    world.take(entry, 1)
    world.ask("bob")
    world.messages.append(entry)
    return world


def ticks_withheld() -> TickedWorld:
    """The last record's time is that in which the third version would be due."""
    world: TickedWorld = begun()
    world.ask("bob", record={"time": OPENS + 60 + 3 * 60})
    return world


def dated_ahead() -> TickedWorld:
    """As if the documents of a later hour were in it, so that no version is due for long."""
    world: TickedWorld = begun()
    world.update(2, time=OPENS + 60 * 40)
    world.ask("bob")
    return world


LOG: dict[Callable[[], TickedWorld], tuple[int, str, Removable]] = {
    skipped_number: (4, "one was skipped or repeated", checks.UPDATE_GAPLESS),
    no_later_tick: (4, "is of no later tick", checks.LATER_TICK),
    off_tick: (4, "is of no tick of its window", checks.UPDATE_ON_A_TICK),
    tenant_left_out: (4, "not of the manifest's tenants", checks.UPDATE_TENANTS),
    too_old_a_version: (6, "names version 1 of the index, where 3 is the newest", checks.ONE_OF_THE_NEWEST),
    a_record_before_its_version: (6, "names version 2 of the index, where 1 is the newest", checks.ONE_OF_THE_NEWEST),
    a_record_before_the_first_update: (6, "where 0 is the newest", checks.ONE_OF_THE_NEWEST),
    ticks_withheld: (6, "was long overdue", checks.NOT_OVERDUE),
    dated_ahead: (6, "is dated after a record that follows it", checks.NOT_DATED_AHEAD),
}


@pytest.mark.slow
@pytest.mark.parametrize("lie", LOG, ids=lambda lie: lie.__name__)
def test_a_lie_of_the_log_fails_the_window(lie: Callable[[], TickedWorld]) -> None:
    step, match, check = LOG[lie]
    world = lie()
    world.close()
    refused(world, step, match)
    with without(check):
        accepted(world)


@pytest.mark.slow
def test_an_honest_window_passes_with_every_record_at_the_last_moment() -> None:
    """A record over the version before the newest, and one at the last minute that the newest version has."""
    world: TickedWorld = begun(updates=2)
    world.take(first(world), 1)
    world.ask("bob", record={"time": OPENS + 60 * 2 + 2 * 60})
    world.close()
    accepted(world, receipts=world.receipts())


@pytest.mark.slow
def test_an_update_where_the_policy_has_one_version_is_refused() -> None:
    world = TickedWorld()
    world.commit(policy_=simulator.policy())
    made = world.made(1)
    world.at.clear()
    world.messages.append(made)
    world.ask("alice")
    world.close()
    refused(world, 4, "although its policy gives them one version")
    with without(checks.NO_TICKS_NO_UPDATES):
        accepted(world)


@pytest.mark.slow
def test_an_update_with_proofs_about_coins_that_there_are_none_of_is_refused() -> None:
    world: TickedWorld = begun()
    made = world.made(2)
    lines = tuple(replace(one, proof_digests=(bytes(32),)) for one in made.tenants)
    world.messages.append(replace(made, tenants=lines))
    world.close()
    refused(world, 4, "says nothing of hidden slots, or has none to say it of")
    gone(checks.UPDATE_PROVES_COINS, world, "says nothing of hidden slots")


@pytest.mark.slow
def test_an_update_behind_the_closing_is_refused() -> None:
    world: TickedWorld = begun()
    world.close()
    world.messages.append(world.made(2))
    refused(world, 4, "stands outside its window")
    with without(checks.UPDATE_IN_ITS_WINDOW):
        accepted(world)


@pytest.mark.slow
def test_an_update_dated_after_the_windows_end_is_refused() -> None:
    world: TickedWorld = begun()
    world.update(2, time=OPENS + 60 * 60 * 24 * 40)
    world.close()
    refused(world, 4, "dated after the window's end")
    with without(checks.UPDATE_BEFORE_THE_END):
        accepted(world)


# --- what an entry tells ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_entries_of_two_histories_are_of_one_size() -> None:
    """Nothing was put, everything was: of the same windows an entry has the same length."""
    idle, busy = TickedWorld(), TickedWorld()
    for world in (idle, busy):
        world.commit()
    empty = {name: [[0] * len(idle.rows(name, 1)[0])] * CLS.N for name in idle.tenants}
    sizes = {len(idle.made(number, empty).encode()) for number in (1, 2, 9)}
    sizes |= {len(busy.made(number).encode()) for number in (1, 2, 9)}
    assert len(sizes) == 1


@pytest.mark.slow
def test_the_window_closes_as_any_other() -> None:
    world = TickedWorld.honest()
    assert isinstance(world.messages[-1], WindowClose)
    accepted(world, receipts=world.receipts())
    accepted(TickedCoins.honest())


# --- what the provider's own history takes ---------------------------------------------------------------------------

HISTORY: dict[Callable[[], TickedWorld], tuple[str, Removable]] = {
    skipped_number: ("does not follow version", checks.PROVIDER_UPDATE_GAPLESS),
    no_later_tick: ("is of no later tick", checks.PROVIDER_UPDATE_LATER),
    off_tick: ("is of no later tick", checks.PROVIDER_UPDATE_LATER),
    tenant_left_out: ("not of the manifest's tenants", checks.PROVIDER_UPDATE_TENANTS),
    too_old_a_version: ("names none of the 2 newest", checks.PROVIDER_RECORD_NEWEST),
    a_record_before_its_version: ("names none of the 2 newest", checks.PROVIDER_RECORD_NEWEST),
    ticks_withheld: ("long overdue", checks.PROVIDER_RECORD_OVERDUE),
}


def taken(world: TickedWorld) -> None:
    """Every entry of the log, as a provider takes it in."""
    history = History(
        simulator.ORIGIN, signature.public_bytes(world.provider), log_digest(world.signer.verifier.vkey())
    )
    for index, entry in enumerate(world.entries()):
        history.add(index, entry)


@pytest.mark.slow
@pytest.mark.parametrize("lie", HISTORY, ids=lambda lie: lie.__name__)
def test_an_honest_program_enters_no_such_thing(lie: Callable[[], TickedWorld]) -> None:
    match, check = HISTORY[lie]
    world = lie()
    with pytest.raises(CommitmentError, match=match):
        taken(world)
    with without(check):
        taken(world)


@pytest.mark.slow
def test_an_honest_program_enters_updates_of_windows_with_ticks_only() -> None:
    world = TickedWorld()
    world.commit(policy_=simulator.policy())
    world.messages.append(world.made(1))
    with pytest.raises(CommitmentError, match="whose policy has ticks"):
        taken(world)
    taken(TickedWorld.honest())
    taken(TickedCoins.honest())
    bare = TickedCoins()
    bare.commit()
    made = bare.made(1)
    lines = tuple(replace(one, proof_digests=()) for one in made.tenants)
    bare.messages.append(replace(made, tenants=lines))
    with pytest.raises(CommitmentError, match="proof about hidden slots"):
        taken(bare)
    with without(checks.PROVIDER_UPDATE_COINS):
        taken(bare)


# Windows whose accounts come and go with versions of their indices, about one of which the provider lies. SPEC A.13.
# Everything but the lie is made to fit it. With all checks in place the audit ends as the test says; with the one
# check removed that the test names the same evidence passes.


def enrolments_begun(updates: int = 1) -> TickedWorld:
    world = TickedWorld()
    world.commit()
    for number in range(1, updates + 1):
        world.update(number)
        world.ask("alice")
    return world


def asked_before_it_came() -> TickedWorld:
    world = enrolments_begun()
    world.come("dave", "north", since=2)
    world.ask("dave")
    world.update(2)
    return world


def asked_after_it_left() -> TickedWorld:
    world = enrolments_begun()
    world.leave("bob", until=2)
    world.update(2)
    world.ask("bob")
    return world


def another_registry_for_one_follower() -> TickedWorld:
    """An update that commits to an account which the auditor is not shown."""
    world = enrolments_begun()
    before = list(world.lines)
    world.come("dave", "north", since=2)
    world.update(2)
    world.lines = before
    return world


def another_registry_than_the_manifests() -> TickedWorld:
    """One more account than the manifest commits to, as if it had been there from the beginning."""
    world = TickedWorld()
    world.commit()
    world.come("dave", "north", since=0)
    world.update(1)
    world.ask("dave")
    return world


def registered_twice_under_two_keys() -> TickedWorld:
    world = enrolments_begun()
    again = account("alice", "north", key_of("mallory"))
    world.lines.append(Enrolment(replace(again, salt=b"s" * 32), 60, 2))
    world.update(2)
    world.ask("alice")
    return world


def back_under_another_pseudonym() -> TickedWorld:
    """The count of its queries begins again."""
    world = enrolments_begun()
    world.leave("alice", until=2)
    again = replace(account("alice", "north"), salt=b"s" * 32)
    world.lines.append(Enrolment(again, 60, 2))
    world.update(2)
    return world


def back_under_another_name() -> TickedWorld:
    world = enrolments_begun()
    world.leave("alice", until=2)
    again = replace(account("alice", "north"), name="alicia")
    world.lines.append(Enrolment(again, 60, 2))
    world.update(2)
    return world


def two_at_one_place() -> TickedWorld:
    world = enrolments_begun()
    world.come("dave", "north", since=2, place=world.lines[0].place)
    world.leave("alice", until=2)
    world.update(2)
    return world


def comes_with_no_version() -> TickedWorld:
    """Among the accounts that V is shown, in nothing that the log commits to."""
    world = enrolments_begun()
    world.come("dave", "north", since=7)
    world.update(2)
    return world


def of_no_tenant() -> TickedWorld:
    world = enrolments_begun()
    world.come("dave", "west", since=2)
    world.update(2)
    return world


LIES: dict[Callable[[], TickedWorld], tuple[str, Removable]] = {
    asked_before_it_came: ("may not ask over version 1 of the index: it came with", checks.ENROLLED_AT_THE_VERSION),
    asked_after_it_left: ("left with version 2", checks.ENROLLED_AT_THE_VERSION),
    another_registry_for_one_follower: ("not those that its update commits", checks.ENROLLED_AS_THE_UPDATE_SAYS),
    another_registry_than_the_manifests: ("not the one of the manifest", checks.ENROLLED_AS_THE_MANIFEST_SAYS),
    registered_twice_under_two_keys: ("share a name", checks.ENROLLED_ONCE),
    back_under_another_pseudonym: ("share a name", checks.ENROLLED_ONCE),
    back_under_another_name: ("share a public key", checks.ENROLLED_ONCE),
    two_at_one_place: ("have one place", checks.ENROLLED_AT_A_PLACE),
    comes_with_no_version: ("a version that the window does not have", checks.ENROLLED_WITH_A_VERSION),
    of_no_tenant: ("no index of tenant 'west'", checks.ENROLLED_OF_A_TENANT),
}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lie_about_accounts_fails_the_window(lie: Callable[[], TickedWorld]) -> None:
    match, check = LIES[lie]
    world = lie()
    world.close()
    refused(world, 6, match)
    with without(check):
        accepted(world)


def test_accounts_come_and_go() -> None:
    """Who came asks over the version it came with, who left is finished over the one before."""
    world = enrolments_begun()
    world.ask("bob")
    world.come("dave", "south", since=2)
    world.leave("bob", until=2)
    before = world.made(1)
    made = world.update(2)
    world.ask("dave")
    world.take(before, 1)
    world.ask("bob")
    world.close()
    accepted(world)
    assert len(made.encode()) == len(before.encode())  # whatever happened


def test_no_two_roots_are_alike() -> None:
    """Nobody came and nobody left, and the entries do not say so."""
    world = enrolments_begun(updates=3)
    assert len({world.enrolled_root(number) for number in range(1, 4)}) == 3


def test_an_auditor_takes_part_in_a_window_with_ticks(tmp_path: Path) -> None:
    """Before it commits it has read who may ask from the beginning; accounts that the manifest has not are refused."""
    world = TickedWorld()
    state = SimulatedState.create(tmp_path / "auditor", world.auditor_key)
    assert isinstance(state, SimulatedState)
    state.world = world
    world.enter_manifest()
    assert participant(world, state).advance() == (Stage.COMMITTED, "w1")
    world.come("dave", "north", since=0)
    with pytest.raises(AuditError, match="not the one of the manifest"):
        participant(world, state).advance()


def test_a_window_that_opens_while_an_auditor_looks_convicts_nobody(tmp_path: Path) -> None:
    """It opens without this auditor; accounts come and go with its first version before the registry is asked for."""
    world = TickedWorld()
    state = SimulatedState.create(tmp_path / "auditor", world.auditor_key)
    assert isinstance(state, SimulatedState)
    state.world = world
    world.enter_manifest()
    world.come("dave", "north", since=1)
    world.leave("bob", until=1)
    assert participant(world, state).advance() == (Stage.COMMITTED, "w1")
    assert VerdictLog(state.directory, state.public_key).entries() == []
