# SPDX-License-Identifier: GPL-3.0-or-later
"""Auditors across turns of a log's key: what a thief or a stranger shows one of them, and what stays of it.

SPEC G.6.13.5, G.6.13.10.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.turns import LogKey
from ragseal.verifier.audit.participant import Participant
from ragseal.verifier.evidence.evidence import Refused, TurnFile, Undecided
from ragseal.verifier.folder.state import State
from ragseal.verifier.steps.log import Forked
from ragseal.verifier.steps.turns import read_log
from tests.attacks import turn_checks as checks
from tests.attacks.checks import without
from tests.attacks.test_log_keys import beside, fork_of_the_first, note_of, proof_of, says
from tests.simulator.evidence import SimulatedEvidence
from tests.simulator.turning import Turning
from tests.simulator.world import ORIGIN
from tests.verifier.beacon_scene import participant


def test_a_running_participant_that_a_thief_showed_a_fork_convicts_nobody(tmp_path: Path) -> None:
    """What it read of the log, and holds from one look to the next, is as void as what its folder remembers."""
    world, fork = Turning.turned(), fork_of_the_first()
    state = State.create(tmp_path / "auditor", world.auditor_key)
    part = participant(fork, state)
    part._read()
    part.link = participant(world, state).link
    with pytest.raises(Undecided, match="a thief"):
        part._read()
    assert len(state.log_key(world.signer.verifier).keys) == 1, "which of the two is the log somebody has to find out"
    part = participant(fork, State.create(tmp_path / "another", world.auditor_key))
    part._read()
    part.link = participant(world, state).link
    with without(checks.CACHED_NOTE_IS_VOID), pytest.raises(Forked):
        part._read()


def test_a_thiefs_note_of_any_size_does_not_keep_an_auditor_from_the_log(tmp_path: Path) -> None:
    """It is remembered under the old key, longer than the log ever was: once the turn is known it is void."""
    world = Turning.turned()
    state = State.create(tmp_path / "auditor", world.auditor_key)
    longer = Checkpoint(ORIGIN, world.size + 50, bytes(32)).sign(world.signer)
    path = state._checkpoint_path(world.signer.verifier)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(longer)
    state.keep_turns(world.log_signer.log)
    part = participant(world, state)
    part._read()
    remembered = state.remembered(world.signer.verifier)
    assert remembered is not None
    assert remembered.checkpoint.size == world.size
    assert not remembered.void


def test_an_old_copy_of_the_log_and_a_turn_behind_its_end_convict_nobody() -> None:
    """Whoever stands in between replays a note from before the turn; an honest account has answers from behind it."""
    world, old = Turning.turned(), before_the_turn()
    assert old.entries() == world.entries()[: old.size]
    handed: dict[str, Any] = {"receipts": world.receipts(), "turns": [TurnFile("a", proof_of(world))]}
    told = old.audit(**handed)
    says(told, "NO VERDICT", "old copy")
    with without(checks.BESIDE_WITHIN_THE_LOG):
        assert old.audit(**handed).verdict == "FAIL"


def before_the_turn() -> Turning:
    """The log of :meth:`Turning.turned` as it stood before its turn."""
    old = Turning()
    old.commit()
    for account in ("alice", "bob", "carol"):
        old.ask(account)
    return old


def test_a_thief_leaves_no_turn_of_its_own_with_an_auditor_that_remembers_the_log(tmp_path: Path) -> None:
    """It shows a fork whose key turns to one of its own: that auditor goes on with the log that it knows."""
    world, fork = Turning(), beside("alice")
    world.commit()
    for account in ("alice", "bob", "carol"):
        world.ask(account)

    def after_the_fork(name: str) -> State:
        state = State.create(tmp_path / name, world.auditor_key)
        participant(world, state)._read()
        with pytest.raises((Forked, Undecided)):
            participant(fork, state)._read()
        return state

    participant(world, after_the_fork("one"))._read()
    with without(checks.COMPARED_BEFORE_KEPT):
        state = after_the_fork("another")
    with pytest.raises(Undecided, match="no signature by a known key"):
        participant(world, state)._read()


def test_an_audit_of_a_thiefs_fork_keeps_no_turn_of_it() -> None:
    world, fork, kept = Turning.turned(), beside("alice"), list[LogKey]()
    remembered = open_checkpoint(note_of(world, 11), world.signer.verifier)
    auditor = replace(fork.auditor(), remembered=remembered, keep_turns=kept.append)
    says(fork.audit(auditor=auditor), "NO VERDICT", "a thief")
    assert not kept
    with without(checks.KEPT_BEHIND_AN_AUDITS_COMPARISON):
        fork.audit(auditor=auditor)
    assert kept


def without_its_turn(world: Turning) -> Turning:
    """The log of :meth:`Turning.turned` by a provider that has both keys, without the turn that an auditor knows."""
    other = Turning()
    other.commit()
    for account in ("alice", "bob", "carol", "alice", "carol", "alice", "bob"):
        other.ask(account)
    other.close()
    assert other.size > world.log_signer.log.turns[0].index
    other.by = world.log_signer.note
    return other


def test_a_known_turn_that_is_not_in_the_log_convicts_its_provider() -> None:
    """Both keys said where it stands, and the newer one signed a log that has something else there."""
    world = Turning.turned()
    other = without_its_turn(world)
    auditor = replace(other.auditor(), log_key=world.log_signer.log)
    verdict = other.audit(auditor=auditor)
    says(verdict, "FAIL", "does not hold the turn of its key at entry 11, where both keys said that it is")
    assert verdict.failure is not None
    assert verdict.failure.number == 1
    with without(checks.KNOWN_TURN_STANDS):
        assert other.audit(auditor=auditor).verdict == "PASS"


@pytest.mark.parametrize("behind", [0, 1])
def test_a_known_turn_is_missed_from_the_first_size_at_which_it_has_to_be_there(behind: int) -> None:
    """The newest entry of the log stands in its place; one entry less, and nobody can have entered it yet."""
    world = Turning.turned()
    other, known = without_its_turn(world), world.log_signer.log
    at = known.turns[0].index
    del other.messages[at + 1 + behind :]
    with pytest.raises(Refused, match="does not hold the turn of its key at entry 11"):
        read_log(SimulatedEvidence(other), known)
    del other.messages[at:]
    assert read_log(SimulatedEvidence(other), known).size == at


def test_a_participant_takes_no_part_in_a_log_without_a_turn_that_it_knows(tmp_path: Path) -> None:
    world = Turning.turned()
    other = without_its_turn(world)

    def part(name: str) -> Participant:
        state = State.create(tmp_path / name, world.auditor_key)
        state.keep_turns(world.log_signer.log)
        return participant(other, state)

    missing = "does not hold the turn of its key at entry 11"
    with pytest.raises(Refused, match=missing):
        part("one")._read()
    with pytest.raises(Refused, match=missing):
        read_log(part("two").link, world.log_signer.log)
    with without(checks.KNOWN_TURN_STANDS):
        part("three")._read()
        read_log(part("four").link, world.log_signer.log)


def test_an_old_key_alone_that_signs_a_log_without_the_turn_convicts_nobody() -> None:
    """A thief of the old key can sign whatever it likes."""
    world = Turning.turned()
    other = without_its_turn(world)
    other.by = lambda point: point.sign(world.signer)
    verdict = other.audit(auditor=replace(other.auditor(), log_key=world.log_signer.log))
    says(verdict, "NO VERDICT", "no signature by a known key")
