# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 1 against a log that was altered, forked, cut or filled with something else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel.attestation import Record
from ragseal.kernel.params import PROTOCOL_VERSION
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.note import NoteSigner
from ragseal.verifier.steps import log
from tests.simulator import (
    OPENS,
    ORIGIN,
    SimulatedEvidence,
    World,
    key_of,
    resign,
)
from tests.verifier.attacks import Attacks

ATTACKS = Attacks()
attack = ATTACKS.add
undecided = ATTACKS.open

# --- step 1: log -----------------------------------------------------------------------------------------------------


@undecided(1, "do not hash to the signed root")
def altered_entry() -> Any:
    world = World.honest()
    note = world.checkpoint()
    index = world.at(Record)
    world.messages[index] = replace(world.messages[index], time=OPENS + 60)  # type: ignore[type-var]
    return _with_note(world, note)


@undecided(1, "do not hash to the signed root")
def reordered_entries() -> Any:
    world = World.honest()
    note = world.checkpoint()
    a, b = world.at(Record, 1), world.at(Record, 2)
    world.messages[a], world.messages[b] = world.messages[b], world.messages[a]
    return _with_note(world, note)


@undecided(1, "gave 15 of 16 entries")
def dropped_entry() -> Any:
    world = World.honest()
    note = world.checkpoint()
    del world.messages[world.at(Record, 3)]
    return _with_note(world, note)


def _with_note(world: World, note: bytes) -> World:
    world.checkpoint = lambda signer=None: note  # type: ignore[method-assign]
    return world


@undecided(1, "no signature by a known key")
def checkpoint_by_another_key() -> Any:
    world = World.honest()
    return _with_note(world, world.checkpoint(NoteSigner(ORIGIN, key_of("thief"))))


@undecided(1, "an audit reads at most")
def oversized_log() -> Any:
    world = World.honest()
    return _with_note(world, Checkpoint(ORIGIN, 1 << 40, bytes(32)).sign(world.signer))


def test_a_log_key_of_another_log_is_named_as_the_auditor_s_own_matter() -> None:
    """A mistyped --log-key: to audit again later, as it was said once, never helps."""
    world = World.honest()
    other = NoteSigner("other.example/log", key_of("log")).verifier
    verdict = world.audit(auditor=replace(world.auditor(), log_key=other))
    assert verdict.obstacle is not None
    assert f"; it is signed by {ORIGIN}+" in verdict.line()
    assert "check --log-key and --provider" in verdict.obstacle.way_out


def _ending_in(data: bytes) -> World:
    world = World.honest()
    world.messages.append(world.messages[-1])
    world.raw[len(world.messages) - 1] = data
    return world


@undecided(1, "of a kind that this build does not know")
def foreign_entry() -> Any:
    """A later version of the protocol may know it."""
    return _ending_in(b"\x05hello")


@undecided(1, "of a kind that this build does not know")
def foreign_entry_of_this_version() -> Any:
    """A build that knows more kinds may write them without a new version."""
    return _ending_in(b"\x05hello" + PROTOCOL_VERSION.to_bytes(2, "big") + b"whatever")


@undecided(1, "of a kind that this build does not know")
def entry_of_a_later_version() -> Any:
    known = World.honest().messages[-1].encode()
    at = 1 + known[0]
    return _ending_in(known[:at] + b"\x00\x07" + known[at + 2 :])


@attack(1, "is not a message of this protocol")
def malformed_entry() -> Any:
    """A kind that is known, and bytes that no version of it has: the log's root is signed over them."""
    return _ending_in(World.honest().messages[-1].encode()[:-1])


@attack(1, "is not a message of this protocol")
def entry_without_a_tag() -> Any:
    return _ending_in(b"\x00")


@attack(1, "the log was forked")
def forked_from_remembered() -> Any:
    world = World.honest()
    world.messages[2] = world.commit_entry("auditor", bytes(32), world.auditor_key)
    world.remember()
    honest = World.honest()
    honest.remembered = world.remembered
    return honest


@undecided(1, "it is an old copy, or the log shrank")
def shrunk_since_remembered() -> Any:
    world = World.honest()
    world.messages.append(world.messages[-1])
    world.remember()
    del world.messages[-1]
    return world


@attack(1, "the log was forked")
def forked_from_receipt() -> Any:
    world = World.honest()
    other = World.honest()
    other.messages[1] = other.commit_entry("observer-2", bytes(32), key_of("observer"))
    receipts = world.receipts()
    answer = world.answers[0]
    body = replace(answer.receipt.body, checkpoint=other.checkpoint())
    receipts[0] = replace(receipts[0], receipt=resign(world, answer.receipt, body), answer=None)
    return world, {"receipts": receipts}


@undecided(1, "the checkpoint of receipt answer-. has")
def older_than_a_receipt() -> Any:
    """Whoever is between serves a note that was true once."""
    world = World.honest()
    receipts = world.receipts()
    del world.messages[-3:]
    return world, {"receipts": receipts}


@attack(1, "the log was forked")
def forked_by_an_unsigned_receipt() -> Any:
    """The receipt is nobody's word; the note inside is the log's own."""
    world, options = forked_from_receipt()
    receipts = options["receipts"]
    receipts[0] = replace(receipts[0], receipt=replace(receipts[0].receipt, signature=bytes(64)))
    return world, options


def test_receipt_of_another_log_is_set_aside() -> None:
    world = World.honest()
    receipts = world.receipts()
    note = world.checkpoint(NoteSigner(ORIGIN, key_of("thief")))
    body = replace(world.answers[0].receipt.body, checkpoint=note)
    receipts[0] = replace(receipts[0], receipt=resign(world, world.answers[0].receipt, body))
    verdict = world.audit(receipts=receipts)
    assert verdict.verdict == "PASS", verdict.line()
    (aside,) = verdict.set_aside
    assert aside.file == "answer-0"
    assert "its checkpoint is none of this log" in aside.why


def test_a_log_of_too_many_bytes_is_not_held() -> None:
    """Entries are counted in bytes too, page by page."""
    world = World.honest()
    size = sum(map(len, world.entries()))
    assert world.audit(log_bytes=size).verdict == "PASS"
    verdict = world.audit(log_bytes=size - 1)
    assert verdict.line().startswith(f"NO VERDICT step=1 log: the log has more than {size - 1} bytes"), verdict.line()


def test_a_log_is_read_page_by_page_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one of the most entries that an audit reads is read."""
    world = World.honest()
    monkeypatch.setattr(log, "PAGE", 3)
    monkeypatch.setattr(log, "MAX_ENTRIES", len(world.messages))
    assert world.audit().verdict == "PASS"
    monkeypatch.setattr(log, "MAX_ENTRIES", len(world.messages) - 1)
    assert "an audit reads at most" in world.audit().line()


def test_no_more_than_a_page_is_fetched_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "PAGE", 2)
    world = World.honest()
    asked: list[tuple[int, int]] = []
    honest = SimulatedEvidence.entries

    def entries(self: SimulatedEvidence, start: int, stop: int) -> list[bytes]:
        asked.append((start, stop))
        return honest(self, start, stop)

    monkeypatch.setattr(SimulatedEvidence, "entries", entries)
    assert world.audit(log_bytes=1).verdict == "NO VERDICT"
    assert asked == [(0, 2)]


@pytest.mark.parametrize("name", ATTACKS.names())
def test_attack_ends_at_its_step(name: str) -> None:
    ATTACKS.run(name)
