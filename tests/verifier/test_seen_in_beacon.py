# SPDX-License-Identifier: GPL-3.0-or-later
"""What the auditor sees while it takes part in a beacon counts in its audits, and what an audit saw in the beacon."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.beacon import (
    beacon_value,
)
from ragseal.kernel.commitment import (
    WindowClose,
    WindowOpen,
)
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.verifier.audit.participant import Stage
from ragseal.verifier.cli import audit_command
from ragseal.verifier.evidence.evidence import Refused, Undecided
from ragseal.verifier.folder.verdicts import Verdicts
from ragseal.verifier.outcome.outcome import FAIL
from ragseal.verifier.signed.log import FOLDER, VerdictLog, check_entered
from ragseal.verifier.signed.statement import read_verdict
from ragseal.verifier.steps.log import Forked
from ragseal.verifier.steps.turns import read_log
from tests.simulator import (
    NOW,
    OPENS,
    SimulatedEvidence,
    World,
    key_of,
    policy,
)
from tests.simulator.entries import signed_manifest
from tests.verifier.beacon_scene import OBSERVER, Link, SimulatedState, opens, participant, seal


@pytest.fixture
def world() -> World:
    made = World()
    made.enter_manifest()
    return made


@pytest.fixture
def state(tmp_path: Path, world: World) -> SimulatedState:
    made = SimulatedState.create(tmp_path / "auditor", world.auditor_key)
    assert isinstance(made, SimulatedState)
    made.world = world
    return made


def _auditing(state: SimulatedState, world: World) -> Any:
    """An audit of what the world shows now, in the folder that took part; its result is kept."""
    kept = Verdicts(state.directory, world.signer.verifier)
    auditor = replace(
        world.auditor(),
        remembered=state.remembered(world.signer.verifier),
        remember=lambda seen: state.remember(world.signer.verifier, seen),
        neighbours=kept.neighbours,
    )
    verdict = world.audit(auditor=auditor)
    kept.keep(verdict, NOW)
    return verdict


@pytest.mark.parametrize("grown", [0, 2])
def test_a_fork_that_was_seen_while_taking_part_stays(tmp_path: Path, grown: int) -> None:
    """Attack: `serve` is shown another log for a moment, and the audit the first one again."""
    world, other = World.honest(), World.honest()
    other.messages[2] = other.commit_entry("auditor", bytes(32), other.auditor_key)
    other.messages += [WindowClose(other.digest, 0, OPENS)] * grown
    state = SimulatedState.create(tmp_path / "auditor", world.auditor_key)
    assert isinstance(state, SimulatedState)
    state.world = world
    part = participant(world, state)
    assert part.advance()[0] is Stage.LEFT_OUT
    part.link = Link(other)
    with pytest.raises(Forked):
        part.advance()
    verdict = _auditing(state, world)
    assert verdict.verdict == "PASS"
    assert " beside=%28the%20log%29:FAIL " in verdict.line(), verdict.line()
    assert audit_command.status_of(verdict, True, "") == audit_command.EXIT_OTHER_WINDOWS
    (path,) = (state.directory / "verdicts").glob("log-*.json")
    values = json.loads(path.read_text())
    older, newer = (
        open_checkpoint(values[name].encode(), world.signer.verifier).checkpoint for name in ("older", "newer")
    )
    [entry] = VerdictLog(state.directory, state.public_key).entries()
    assert (entry.outcome, entry.window, entry.manifest) == (FAIL, "", ()), "nobody can say later that it was not seen"
    assert (older.size, newer.size) == (16, 16 + grown)
    assert older.root != MerkleTree(other.entries()[:16]).root()
    assert newer.root == MerkleTree(other.entries()).root()


def test_a_fork_that_cannot_be_kept_is_said(world: World, state: SimulatedState) -> None:
    part = participant(world, state)
    part.advance()
    part.advance()
    world.messages[-1] = world.commit_entry("observer-1", OBSERVER, key_of("observer"))
    (state.directory / "verdicts").write_text("in the way")
    with pytest.raises(Refused, match=r"two roots .*; this could not be kept"):
        part.advance()
    [entry] = VerdictLog(state.directory, state.public_key).entries()
    assert entry.outcome == FAIL, "neither is lost because the other cannot be written"
    (state.directory / "verdicts").unlink()
    shutil.rmtree(state.directory / FOLDER)
    (state.directory / FOLDER).write_text("in the way")
    with pytest.raises(Refused, match=r"two roots .*; this could not be kept"):
        part.advance()
    assert len(list((state.directory / "verdicts").glob("log-*.json"))) == 1


def test_a_second_manifest_that_was_shown_while_taking_part_stays(world: World, state: SimulatedState) -> None:
    other = replace(world.manifest, policy=policy(gain=2))
    world.shown_manifest = signed_manifest(other, world.provider).encode()
    part = participant(world, state)
    for _ in range(2):  # it is looked at every few seconds
        with pytest.raises(Refused, match="shows a manifest of this window different"):
            part.advance()
    log = VerdictLog(state.directory, state.public_key)
    [entry] = log.entries()
    assert (entry.outcome, entry.window, entry.manifest) == (FAIL, "w1", (world.digest,))
    found = read_verdict(log.envelope(0), state.public_key)
    assert found.line.startswith("FAIL step=2 ")
    assert check_entered(log.envelope(0), found, log.proof(0).to_text(), None) == log.verifier()
    world.shown_manifest = None
    assert part.advance()[0] is Stage.COMMITTED
    seal(world, "provider", "auditor")
    opens(world, "provider")
    assert part.advance()[0] is Stage.OPENED
    nonce = state.nonce(world.digest) or b""
    world.beacon = beacon_value(world.digest, [("provider", world.provider_nonce), ("auditor", nonce)])
    world.messages.append(WindowOpen(world.digest, world.beacon, OPENS + 60))
    world.close()
    world.nonces, world.released = state.nonces(), state.released()
    verdict = _auditing(state, world)
    assert verdict.verdict == "PASS", verdict.line()
    assert " beside=w1:FAIL " in verdict.line(), verdict.line()


def test_what_stands_in_nobodys_signature_is_kept_by_nobody(world: World, state: SimulatedState) -> None:
    part = participant(world, state)
    part.advance()
    part.advance()
    world.messages.pop()
    with pytest.raises(Undecided, match="shrank"):
        part.advance()
    assert not (state.directory / "verdicts").exists()


def test_what_an_audit_has_seen_meanwhile_counts(world: World, state: SimulatedState) -> None:
    """The folder is shared: the log as an audit was shown it is held against the one that is shown here."""
    part = participant(world, state)
    part.advance()
    longer = World()
    longer.messages = [*world.messages, WindowClose(world.digest, 0, OPENS)]
    state.remember(world.signer.verifier, read_log(SimulatedEvidence(longer), world.signer.verifier))
    with pytest.raises(Undecided, match="shrank"):
        part.advance()
    world.messages = list(longer.messages)
    part.advance()
    world.messages = [*longer.messages[:-1], WindowClose(world.digest, 1, OPENS)]
    with pytest.raises(Forked):
        part.advance()
