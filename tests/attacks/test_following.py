# SPDX-License-Identifier: GPL-3.0-or-later
"""A window that is committed and drawn beside an open one: what its provider may not do with the two.  SPEC A.1.1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ragseal.kernel.beacon import (
    BeaconOpening,
    beacon_value,
)
from ragseal.kernel.commitment import (
    WindowClose,
    WindowOpen,
)
from tests.attacks.checks import NO_OVERLAP, NOT_PASSED_OVER, RECORDS_INSIDE, SEALED_FOR_BETTER, without
from tests.attacks.removal import Removable
from tests.attacks.world import accepted, refused
from tests.simulator.parties import OPENS, policy
from tests.simulator.world import World

TURN = OPENS + 3000  #: when the first window ends and the second begins
KEPT = ("manifest", "digest", "beacon", "provider_nonce", "ctrs", "last", "seq")


@dataclass
class Two:
    """A log of two windows whose lives are told in turns."""

    world: World = field(default_factory=World)
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)

    @contextmanager
    def within(self, name: str) -> Iterator[World]:
        """What happens inside the block happens in that window."""
        for key, value in self.kept.get(name, {}).items():
            setattr(self.world, key, value)
        yield self.world
        self.kept[name] = {key: getattr(self.world, key) for key in KEPT if hasattr(self.world, key)}

    def begin(self) -> None:
        """w1 is open and takes queries; w2 is committed and its beacon complete."""
        with self.within("w1") as world:
            world.commit("w1")
            world.ask("alice")
        self.prepare("w2")
        with self.within("w1") as world:
            world.ask("bob")

    def prepare(self, name: str) -> None:
        with self.within(name) as world:
            world.enter_manifest(name, policy_=policy(opens=OPENS + 600, closes=TURN + 6000))
            world.enter_beacon()
            world.messages.pop()

    def open(self, name: str = "w2", time: int = TURN) -> None:
        self.world.messages.append(WindowOpen(self.kept[name]["digest"], self.kept[name]["beacon"], time))

    def close(self) -> None:
        with self.within("w1") as world:
            world.close()

    def of(self, name: str) -> World:
        """The provider as it proves this window."""
        with self.within(name) as world:
            return world

    def live(self, name: str = "w2", time: int = TURN + 60) -> Two:
        """The window's queries, and its end."""
        with self.within(name) as world:
            for account in ("alice", "carol", "bob"):
                world.ask(account, record={"time": time})
            world.messages.append(WindowClose(world.digest, world.seq, time + 600))
        return self


def honest() -> Two:
    two = Two()
    two.begin()
    two.close()
    two.open()
    return two.live()


def test_a_window_that_was_drawn_beside_an_open_one_passes_as_that_one_does() -> None:
    for name in ("w1", "w2"):
        accepted(honest().of(name), window=name)


@pytest.mark.slow
def test_a_window_whose_beacon_never_completes_is_no_fault_of_the_open_one() -> None:
    """An honest auditor that is slow or away: what it leaves undone convicts nobody."""
    for entries in range(7):
        two = Two()
        two.begin()
        digest = two.kept["w2"]["digest"]
        late = [one for one in two.world.messages if getattr(one, "manifest", None) == digest][entries:]
        two.world.messages = [one for one in two.world.messages if one not in late]
        two.close()
        accepted(two.of("w1"), window="w1")
        two.prepare("w3")  # committed to in its place
        two.open("w3")
        accepted(two.live("w3").of("w3"), window="w3")


def test_a_manifest_right_behind_the_opening_passes_nobody_over() -> None:
    two = Two()
    two.begin()
    two.close()
    two.open("w2")
    before = len(two.world.messages)
    two.prepare("w3")
    del two.world.messages[before + 1 :]
    accepted(two.live("w2").of("w2"), window="w2")


def opened_before_the_other_is_closed() -> Two:
    """Both take queries: whoever may choose where an account asks chooses between two noises."""
    two = Two()
    two.begin()
    two.open()
    two.close()
    return two.live()


def closed_before_it_took_its_last_query() -> Two:
    """A query of the first window is entered once the second one is open."""
    two = Two()
    two.begin()
    two.close()
    closing = two.world.messages[-1]
    assert isinstance(closing, WindowClose)
    two.world.messages[-1] = replace(closing, records=3)
    two.open()
    with two.within("w1") as world:
        world.ask("carol")
    return two.live()


def taken_after_a_newer_one() -> Two:
    """Of two windows with complete beacons the provider takes the one that it passed over."""
    two = Two()
    two.begin()
    two.prepare("w3")
    two.close()
    two.open("w2")
    return two.live("w2")


def taken_behind_the_manifest_of_a_newer_one() -> Two:
    """The newer one is no more than a manifest yet, in the entry right before the opening."""
    two = Two()
    two.begin()
    two.close()
    before = len(two.world.messages)
    two.prepare("w3")
    del two.world.messages[before + 1 :]
    two.open("w2")
    return two.live("w2")


def sealed_again_beside_an_open_window() -> Two:
    """With the auditor's nonce in hand the provider leaves the observer out, for a beacon that it likes better."""
    two = Two()
    two.begin()
    with two.within("w2") as world:
        last = BeaconOpening(world.digest, "auditor", world.nonces[world.digest])
        world.messages.insert(world.messages.index(last), world.seal_entry("provider", "auditor"))
        world.beacon = beacon_value(
            world.digest, [("provider", world.provider_nonce), ("auditor", world.nonces[world.digest])]
        )
    two.close()
    two.open()
    return two.live()


CHEATS: dict[Callable[[], Two], tuple[str, int, str, Removable]] = {
    opened_before_the_other_is_closed: ("w2", 2, "overlaps another one", NO_OVERLAP),
    closed_before_it_took_its_last_query: ("w1", 6, "outside", RECORDS_INSIDE),
    taken_after_a_newer_one: ("w2", 2, "although a newer one had been committed", NOT_PASSED_OVER),
    taken_behind_the_manifest_of_a_newer_one: ("w2", 2, "although a newer one had been committed", NOT_PASSED_OVER),
    sealed_again_beside_an_open_window: (
        "w2",
        5,
        "was sealed again without observer-1, whose nonce was known",
        SEALED_FOR_BETTER,
    ),
}


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_two_windows_that_do_not_follow_each_other(cheat: Callable[[], Two]) -> None:
    name, step, message, check = CHEATS[cheat]
    refused(cheat().of(name), step, message, window=name)
    with without(check):
        accepted(cheat().of(name), window=name)


def test_both_of_two_windows_that_overlap_are_refused() -> None:
    for name in ("w1", "w2"):
        refused(opened_before_the_other_is_closed().of(name), 2, "overlaps another one", window=name)
