# SPDX-License-Identifier: GPL-3.0-or-later
"""`serve`, `beacon` and `audit` share a folder: what one of them is shown of a log counts for the others, at any time.

Attack: a provider shows one log to an audit and another one to `serve`, which runs beside it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
from ragseal.verifier.audit import verification
from ragseal.verifier.audit.participant import Stage
from ragseal.verifier.cli import audit_command
from ragseal.verifier.evidence.evidence import Refused, Undecided
from ragseal.verifier.folder.state import State
from ragseal.verifier.folder.verdicts import Verdicts
from ragseal.verifier.outcome.outcome import FAIL
from ragseal.verifier.signed.log import FOLDER, VerdictLog, check_entered
from ragseal.verifier.signed.statement import read_verdict
from ragseal.verifier.steps.log import Forked
from ragseal.verifier.steps.sample import Sample
from ragseal.verifier.steps.turns import read_log
from tests.simulator import (
    GROUP,
    NOW,
    OPENS,
    SimulatedEvidence,
    World,
    key_of,
    policy,
)
from tests.simulator.entries import signed_manifest
from tests.verifier import beacon_scene
from tests.verifier.beacon_scene import OBSERVER, Link, SimulatedState, opens, participant, seal


def forked(size: int) -> World:
    """Another history of the same log key, of so many entries."""
    other = World()
    other.commit()
    other.queries()
    other.ask("carol")
    other.close()
    other.messages[2] = other.commit_entry("auditor", bytes(32), other.auditor_key)
    other.enter_manifest("w2")
    assert size <= len(other.messages)
    del other.messages[size:]
    return other


class Meanwhile(SimulatedEvidence):
    """At one call of an audit, another process of the same auditor reads a log."""

    def __init__(self, world: World, call: str, happens: Callable[[], None]) -> None:
        super().__init__(world)
        self.call, self.happens = call, happens
        self.shown = world

    def _at(self, call: str) -> None:
        if call == self.call:
            self.call = ""
            self.happens()

    def checkpoint(self) -> bytes:
        return self.shown.checkpoint()

    def entries(self, start: int, stop: int) -> list[bytes]:
        data = self.shown.entries()[start:stop]
        self._at("entries")
        return data

    def deliver(self, ask: Any, proof: bytes) -> bytes:
        data = super().deliver(ask, proof)
        self._at(type(ask).__name__)
        return data


CALLS = ["entries", "RegistryAsk", "ProofsAsk", "BlocksAsk"]


def audited(folder: Path, call: str, other: World, shows: bool, **options: Any) -> verification.Verdict:
    """``other`` is what `serve` sees during that call; ``shows``: the audit is shown it from then on too."""
    world = World.honest()
    state = State.create(folder / "auditor", world.auditor_key)
    log = world.signer.verifier

    def happens() -> None:
        state.remember(log, read_log(SimulatedEvidence(other), log))
        if shows:
            evidence.shown = other

    evidence = Meanwhile(world, call, happens)
    auditor = replace(
        world.auditor(),
        remembered=state.remembered(log),
        remember=partial(state.remember, log),
        sample_nonce=partial(state.sample_nonce, log),
    )
    around = verification.Environment(GROUP, NOW, lambda: 0.0, lambda n: bytes(range(n)))
    verdict = verification.audit(evidence, auditor, around, **options)
    assert evidence.call == "", "it happened"
    return verdict


@pytest.mark.parametrize("sample", [None, Sample(2)], ids=["full", "sampled"])
def test_a_longer_fork(sample: Sample | None, tmp_path: Path) -> None:
    """Not shown to the audit, it leaves no verdict; shown, both notes convict."""
    verdict = audited(tmp_path / "hidden", "entries", forked(18), False, sample=sample)
    assert verdict.line().startswith("NO VERDICT step=1 log: the log that is served has 16 entries"), verdict.line()
    verdict = audited(tmp_path / "shown", "entries", forked(18), True, sample=sample)
    assert verdict.line().startswith("FAIL step=1 log: the log was forked"), verdict.line()
    assert verdict.failure is not None
    assert {"older", "newer"} <= set(verdict.failure.evidence)


def test_a_shorter_fork_is_not_written_over(tmp_path: Path) -> None:
    """Read once at the start, the memory was empty; what came into it since was replaced by the longer log."""
    verdict = audited(tmp_path, "entries", forked(12), False)
    assert verdict.line().startswith("FAIL step=1 log: the log was forked"), verdict.line()


@pytest.mark.parametrize("sample", [None, Sample(2)], ids=["full", "sampled"])
@pytest.mark.parametrize("call", CALLS)
def test_a_log_that_grew_is_read_on(call: str, sample: Sample | None, tmp_path: Path) -> None:
    """The next window begins during an audit: `serve` sees it first, and that disturbs nobody."""
    longer = World.honest()
    longer.enter_manifest("w2")
    verdict = audited(tmp_path / "shown", call, longer, True, sample=sample)
    assert verdict.passed, verdict.line()
    verdict = audited(tmp_path / "hidden", call, longer, False, sample=sample)
    assert verdict.line().startswith("NO VERDICT "), verdict.line()
    assert "has 16 entries" in verdict.line()


class Growing(SimulatedEvidence):
    """A log that grows whenever it is read, and `serve` has always seen more of it than the audit."""

    def __init__(self, world: World, grows: Callable[[World], None]) -> None:
        super().__init__(world)
        self.shown, self.grows, self.reads = World.honest(), grows, 0

    def checkpoint(self) -> bytes:
        return self.shown.checkpoint()

    def entries(self, start: int, stop: int) -> list[bytes]:
        self.reads += 1
        assert self.reads < 20, "an audit that reads for ever"
        data = self.shown.entries()[start:stop]
        self.shown.enter_manifest(f"later-{self.reads}")
        self.grows(self.shown)
        return data


def test_a_log_that_grows_all_the_time_is_read_on_once_at_a_time(tmp_path: Path) -> None:
    world = World.honest()
    state = State.create(tmp_path / "auditor", world.auditor_key)
    log = world.signer.verifier
    evidence = Growing(world, lambda shown: (state.remember(log, read_log(SimulatedEvidence(shown), log)), None)[1])
    auditor = replace(world.auditor(), remember=partial(state.remember, log))
    around = verification.Environment(GROUP, NOW, lambda: 0.0, lambda n: bytes(range(n)))
    verdict = verification.audit(evidence, auditor, around, window="w1")
    assert verdict.verdict == "PASS", verdict.line()
    assert evidence.reads == 3, "at first, read on, and read on at the end"


def test_a_deadline_that_passes_with_the_last_answer_costs_no_verdict(tmp_path: Path) -> None:
    """Only where there is something newer the provider has to be asked once more."""
    longer = World.honest()
    longer.enter_manifest("w2")
    for newer in (False, True):
        world = World.honest()
        state = State.create(tmp_path / f"auditor-{newer}", world.auditor_key)
        log, clock = world.signer.verifier, [0.0]

        def happens(state: State = state, log: Any = log, clock: list[float] = clock, newer: bool = newer) -> None:
            clock[0] = 100.0
            if newer:
                state.remember(log, read_log(SimulatedEvidence(longer), log))

        evidence = Meanwhile(world, "BlocksAsk", happens)
        auditor = replace(world.auditor(), remember=partial(state.remember, log))
        around = verification.Environment(GROUP, NOW, lambda clock=clock: clock[0], lambda n: bytes(n), deadline=10.0)
        verdict = verification.audit(evidence, auditor, around)
        assert verdict.verdict == ("NO VERDICT" if newer else "PASS"), verdict.line()
        if newer:
            assert "the audit's deadline has passed" in verdict.line()
            assert verdict.budget is None
            assert [key for step in verdict.steps for key in step.evidence if key.startswith("epsilon")] == []


# What the auditor sees while it takes part in a beacon counts in its audits, and what an audit saw in the beacon.


world, state = beacon_scene.world, beacon_scene.state


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
