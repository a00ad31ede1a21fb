# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows whose accounts come and go with versions of their indices, about one of which the provider lies.  SPEC A.13.

Everything but the lie is made to fit it.  With all checks in place the audit ends as the test says; with the one check
removed that the test names the same evidence passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.kernel.enrolment import Enrolment
from ragseal.kernel.errors import AuditError
from ragseal.verifier.audit.participant import Stage
from ragseal.verifier.signed.log import VerdictLog
from tests.attacks import checks
from tests.attacks.checks import without
from tests.attacks.removal import Removable
from tests.attacks.world import accepted, refused
from tests.simulator.parties import account, key_of
from tests.simulator.ticked import TickedWorld
from tests.verifier.beacon_scene import SimulatedState, participant


def begun(updates: int = 1) -> TickedWorld:
    world = TickedWorld()
    world.commit()
    for number in range(1, updates + 1):
        world.update(number)
        world.ask("alice")
    return world


def asked_before_it_came() -> TickedWorld:
    world = begun()
    world.come("dave", "north", since=2)
    world.ask("dave")
    world.update(2)
    return world


def asked_after_it_left() -> TickedWorld:
    world = begun()
    world.leave("bob", until=2)
    world.update(2)
    world.ask("bob")
    return world


def another_registry_for_one_follower() -> TickedWorld:
    """An update that commits to an account which the auditor is not shown."""
    world = begun()
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
    world = begun()
    again = account("alice", "north", key_of("mallory"))
    world.lines.append(Enrolment(replace(again, salt=b"s" * 32), 60, 2))
    world.update(2)
    world.ask("alice")
    return world


def back_under_another_pseudonym() -> TickedWorld:
    """The count of its queries begins again."""
    world = begun()
    world.leave("alice", until=2)
    again = replace(account("alice", "north"), salt=b"s" * 32)
    world.lines.append(Enrolment(again, 60, 2))
    world.update(2)
    return world


def back_under_another_name() -> TickedWorld:
    world = begun()
    world.leave("alice", until=2)
    again = replace(account("alice", "north"), name="alicia")
    world.lines.append(Enrolment(again, 60, 2))
    world.update(2)
    return world


def two_at_one_place() -> TickedWorld:
    world = begun()
    world.come("dave", "north", since=2, place=world.lines[0].place)
    world.leave("alice", until=2)
    world.update(2)
    return world


def comes_with_no_version() -> TickedWorld:
    """Among the accounts that V is shown, in nothing that the log commits to."""
    world = begun()
    world.come("dave", "north", since=7)
    world.update(2)
    return world


def of_no_tenant() -> TickedWorld:
    world = begun()
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
    world = begun()
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
    world = begun(updates=3)
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
