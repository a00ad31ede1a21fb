# SPDX-License-Identifier: GPL-3.0-or-later
"""An auditor that takes part in the beacon of a simulated window, step by step."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconOpening,
)
from ragseal.verifier.audit.participant import Participant
from ragseal.verifier.evidence.evidence import Auditor
from ragseal.verifier.folder.state import State
from tests.simulator import (
    GROUP,
    OPENS,
    SimulatedEvidence,
    World,
)

OBSERVER = bytes(range(32))


class Link(SimulatedEvidence):
    """The simulated provider, with the two calls that append to its log."""

    def commit_beacon(self, canonical: bytes) -> None:
        self.world.messages.append(BeaconCommit.decode(canonical))

    def open_beacon(self, canonical: bytes) -> None:
        self.world.messages.append(BeaconOpening.decode(canonical))


class SimulatedState(State):
    """A real folder, with the simulator's key and classes in place of key files."""

    world: World

    def auditor(self, log: Any, classes: Any, sizes: Any = None, thinnings: Any = None) -> Auditor:
        return replace(
            self.world.auditor(),
            identity=self.public_key,
            sign=lambda ask: ask.sign(self.identity),
            nonces=self.nonces(),
            released=self.released(),
            drawn=self.drawn(),
            remembered=self.remembered(log),
        )


def participant(world: World, state: State, now: int = OPENS) -> Participant:
    draw = random.Random(5).randbytes
    return Participant(Link(world), state, world.signer.verifier, {}, {}, GROUP, draw, lambda: now)


def seal(world: World, *owners: str) -> None:
    world.messages.append(world.seal_entry(*(owners or ("provider", "observer-1", "auditor"))))


def opens(world: World, *owners: str) -> None:
    nonces = {"provider": world.provider_nonce, "observer-1": OBSERVER}
    world.messages += [BeaconOpening(world.digest, owner, nonces[owner]) for owner in owners]


# --- fixtures: a module that uses them names them, `world = beacon_scene.world` --------------------------------------


@pytest.fixture
def world() -> World:
    """A window whose manifest holds and whose beacon has not begun."""
    made = World()
    made.enter_manifest()
    return made


@pytest.fixture
def state(tmp_path: Path, world: World) -> SimulatedState:
    """The folder of an auditor of that window."""
    made = SimulatedState.create(tmp_path / "auditor", world.auditor_key)
    assert isinstance(made, SimulatedState)
    made.world = world
    return made
