# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 5 against beacons in which somebody could have chosen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    beacon_value,
)
from ragseal.kernel.commitment import (
    SignedManifest,
    WindowOpen,
)
from tests.simulator import (
    OPENS,
    World,
    key_of,
)
from tests.verifier.attacks import Attacks

ATTACKS = Attacks()
attack = ATTACKS.add
undecided = ATTACKS.open

# --- step 5: beacon --------------------------------------------------------------------------------------------------


def _rebeacon(*entries: Callable[[World], Any]) -> World:
    """A window whose beacon entries are the given ones."""
    world = World()
    world.enter_manifest()
    world.enter_beacon()
    start = world.at(SignedManifest) + 1
    world.messages[start:] = [make(world) for make in entries]
    world.queries()
    world.close()
    return world


OBSERVER = hashlib.sha256(b"observer").digest()


def c_observer(w: World) -> BeaconCommit:
    return w.commit_entry("observer-1", OBSERVER, key_of("observer"))


def c_auditor(w: World) -> BeaconCommit:
    return w.commit_entry("auditor", w.nonces[w.digest], w.auditor_key)


def seal(w: World) -> BeaconSeal:
    return w.seal_entry("provider", "observer-1", "auditor")


def o_provider(w: World) -> BeaconOpening:
    return BeaconOpening(w.digest, "provider", w.provider_nonce)


def o_observer(w: World) -> BeaconOpening:
    return BeaconOpening(w.digest, "observer-1", OBSERVER)


def o_auditor(w: World) -> BeaconOpening:
    return BeaconOpening(w.digest, "auditor", w.nonces[w.digest])


def opened(w: World) -> WindowOpen:
    return WindowOpen(w.digest, w.beacon, OPENS + 60)


def reduced(w: World) -> BeaconSeal:
    """A later seal, without the observer."""
    return w.seal_entry("provider", "auditor")


def reopened(w: World) -> WindowOpen:
    """The opening with what the reduced seal gives."""
    w.beacon = beacon_value(w.digest, [("provider", w.provider_nonce), ("auditor", w.nonces[w.digest])])
    return WindowOpen(w.digest, w.beacon, OPENS + 60)


def test_the_beacon_entries_of_these_attacks_pass_in_order() -> None:
    assert _rebeacon(c_observer, c_auditor, seal, o_provider, o_observer, o_auditor, opened).audit().verdict == "PASS"


def test_an_absent_observer_is_dropped_by_a_second_seal() -> None:
    world = _rebeacon(c_observer, c_auditor, seal, o_provider, reduced, o_auditor, reopened)
    world.release(("provider", world.provider_nonce), ("auditor", world.nonces[world.digest]))
    assert world.audit().verdict == "PASS"


def test_an_observer_that_the_provider_leaves_out_behind_another_ones_nonce_is_named() -> None:
    """The honest observer's nonce waits outside the log while a provider and its auditor pick: with observer-2, which
    is theirs, or without it.  Nobody can forbid it, as observers may be away; so the report says who was left out.
    """

    def commit_of_theirs(w: World) -> BeaconCommit:
        return w.commit_entry("observer-2", OBSERVER, key_of("account"))

    def all_of_them(w: World) -> BeaconSeal:
        return w.seal_entry("provider", "observer-1", "observer-2", "auditor")

    def opening_of_theirs(w: World) -> BeaconOpening:
        return BeaconOpening(w.digest, "observer-2", OBSERVER)

    def opened_with(*owners: str) -> Callable[[World], WindowOpen]:
        def made(w: World) -> WindowOpen:
            nonces = {"provider": w.provider_nonce, "auditor": w.nonces[w.digest]}
            openings = [(owner, nonces.get(owner, OBSERVER)) for owner in owners]
            w.release(*openings)
            w.beacon = beacon_value(w.digest, openings)
            return WindowOpen(w.digest, w.beacon, OPENS + 60)

        return made

    begun = c_observer, commit_of_theirs, c_auditor, all_of_them, o_provider
    everybody = opened_with("provider", "observer-1", "observer-2", "auditor")
    one = _rebeacon(*begun, o_observer, opening_of_theirs, o_auditor, everybody)
    other = _rebeacon(*begun, seal, o_observer, o_auditor, opened_with("provider", "observer-1", "auditor"))
    assert one.beacon != other.beacon
    for world, left_out in ((one, None), (other, ["observer-2"])):
        verdict = world.audit()
        assert verdict.verdict == "PASS", verdict.line()
        (step,) = [step for step in verdict.steps if step.number == 5]
        assert step.evidence.get("left_out") == left_out


def test_a_dropped_observer_and_a_wrong_release_in_the_folder_are_no_verdict() -> None:
    """The first seal named somebody who never opened: there is no beacon of it to compare with."""

    world = _rebeacon(c_observer, c_auditor, seal, o_provider, reduced, o_auditor, reopened)
    world.released[world.digest] = bytes(32)
    verdict = world.audit()
    assert verdict.line().startswith("NO VERDICT step=5 beacon: by this folder's record"), verdict.line()


@attack(5, "never sealed")
def beacon_without_seal() -> Any:
    return _rebeacon(c_observer, c_auditor, o_provider, o_observer, o_auditor, opened)


@attack(5, "committed to its nonce after the seal")
def commit_after_seal() -> Any:
    return _rebeacon(c_auditor, seal, c_observer, o_provider, o_observer, o_auditor, opened)


@attack(5, "opened its nonce before a seal named it")
def opening_before_seal() -> Any:
    return _rebeacon(c_observer, c_auditor, o_provider, seal, o_observer, o_auditor, opened)


@attack(5, "not among the beacon's last entries")
def auditor_not_last() -> Any:
    return _rebeacon(c_observer, c_auditor, seal, o_provider, o_auditor, o_observer, opened)


@attack(5, "was sealed again without observer-1, whose nonce was known")
def sealed_again_after_the_auditor() -> Any:
    return _rebeacon(c_observer, c_auditor, seal, o_provider, o_observer, o_auditor, reduced, opened)


@attack(5, "was sealed again without observer-1, whose nonce was known")
def sealed_again_while_the_auditors_opening_is_held_back() -> Any:
    """The provider has the auditor's nonce, keeps it out of the log, and tries seals until it likes the beacon."""

    return _rebeacon(c_observer, c_auditor, seal, o_provider, o_observer, reduced, o_auditor, reopened)


@undecided(2, "it is dated back, or the clock was wrong")
def opened_before_the_auditor_drew_its_nonce() -> Any:
    world = World.honest()
    world.drawn[world.digest] = OPENS + 60 + 600 + 1
    return world


@attack(5, "lacks the opening of observer-1")
def opening_missing() -> Any:
    return _rebeacon(c_observer, c_auditor, seal, o_provider, o_auditor, opened)


@attack(5, "before the beacon was complete")
def window_before_beacon() -> Any:
    return _rebeacon(c_observer, c_auditor, seal, o_provider, o_observer, opened, o_auditor)


@attack(5, "begin with the provider and end with the auditor")
def auditor_left_out() -> Any:
    def without(w: World) -> BeaconSeal:
        return w.seal_entry("provider", "observer-1")

    return _rebeacon(c_observer, c_auditor, without, o_provider, o_observer, opened)


@attack(5, "never committed to a nonce")
def sealed_stranger() -> Any:
    def strange(w: World) -> BeaconSeal:
        return w.seal_entry("provider", "observer-2", "auditor")

    return _rebeacon(c_observer, c_auditor, strange, o_provider, o_observer, o_auditor, opened)


@attack(5, "does not match its commitment")
def another_nonce_opened() -> Any:
    def wrong(w: World) -> BeaconOpening:
        return BeaconOpening(w.digest, "observer-1", bytes(32))

    return _rebeacon(c_observer, c_auditor, seal, o_provider, wrong, o_auditor, opened)


@attack(5, "opens what it never committed to")
def opening_of_a_stranger() -> Any:
    def strange(w: World) -> BeaconOpening:
        return BeaconOpening(w.digest, "observer-2", bytes(32))

    return _rebeacon(c_observer, c_auditor, seal, o_provider, o_observer, strange, o_auditor, opened)


@attack(5, "has an earlier one")
def committed_twice() -> Any:
    return _rebeacon(c_observer, c_auditor, c_observer, seal, o_provider, o_observer, o_auditor, opened)


@attack(5, "has an earlier one")
def opened_nonce_twice() -> Any:
    return _rebeacon(c_observer, c_auditor, seal, o_provider, o_observer, o_observer, o_auditor, opened)


@attack(5, "stands in the manifest, not in an entry")
def provider_commits_twice() -> Any:
    def again(w: World) -> BeaconCommit:
        return w.commit_entry("provider", w.provider_nonce, w.provider)

    return _rebeacon(again, c_observer, c_auditor, seal, o_provider, o_observer, o_auditor, opened)


@attack(5, "beacon-commit signature does not hold")
def forged_commit() -> Any:
    def forged(w: World) -> BeaconCommit:
        return replace(c_auditor(w), signature=bytes(64))

    return _rebeacon(c_observer, forged, seal, o_provider, o_observer, o_auditor, opened)


@attack(5, "beacon-seal signature does not hold")
def forged_seal() -> Any:
    def forged(w: World) -> BeaconSeal:
        return replace(seal(w), signature=bytes(64))

    return _rebeacon(c_observer, c_auditor, forged, o_provider, o_observer, o_auditor, opened)


@attack(5, "names an owner twice")
def owner_sealed_twice() -> Any:
    def double(w: World) -> BeaconSeal:
        return w.seal_entry("provider", "observer-1", "observer-1", "auditor")

    return _rebeacon(c_observer, c_auditor, double, o_provider, o_observer, o_auditor, opened)


@attack(5, "auditor in the beacon is .*, the manifest names")
def somebody_else_as_auditor() -> Any:
    def other(w: World) -> BeaconCommit:
        return w.commit_entry("auditor", w.nonces[w.digest], key_of("accomplice"))

    return _rebeacon(c_observer, other, seal, o_provider, o_observer, o_auditor, opened)


@undecided(5, "holds no beacon nonce of this window")
def auditors_nonce_unknown() -> Any:
    world = World.honest()
    return world, {"auditor": replace(world.auditor(), nonces={})}


@undecided(5, "not the one that this folder holds")
def another_nonce_in_the_folder() -> Any:
    world = World.honest()
    return world, {"auditor": replace(world.auditor(), nonces={world.digest: bytes(32)})}


@undecided(5, "no record of the beacon")
def release_unknown() -> Any:
    world = World.honest()
    return world, {"auditor": replace(world.auditor(), released={})}


@undecided(5, "a different seal than the one in the log")
def release_of_another_beacon() -> Any:
    """Only this folder says so: no seal in the log shows that the provider tried another one."""
    world = World.honest()
    return world, {"auditor": replace(world.auditor(), released={world.digest: bytes(32)})}


@attack(5, "not what the nonces give")
def beacon_chosen() -> Any:
    world = World.honest()
    index = world.at(WindowOpen)
    world.messages[index] = replace(world.messages[index], beacon=7)  # type: ignore[type-var]
    return world


@attack(5, "precedes its manifest")
def beacon_before_manifest() -> Any:
    world = World.honest()
    world.messages.insert(0, world.messages.pop(world.at(BeaconCommit)))
    return world


@pytest.mark.parametrize("name", ATTACKS.names())
def test_attack_ends_at_its_step(name: str) -> None:
    ATTACKS.run(name)
