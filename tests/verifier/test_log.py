# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 1 against a log that was altered, forked, cut or filled with something else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel.attestation import Record
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.note import NoteSigner
from tests.verifier.attacks import Attacks
from tests.verifier.simulator import (
    OPENS,
    ORIGIN,
    World,
    key_of,
    resign,
)

ATTACKS = Attacks()
attack = ATTACKS.add

# --- step 1: log -----------------------------------------------------------------------------------------------------


@attack(1, "do not hash to the signed root")
def altered_entry() -> Any:
    world = World.honest()
    note = world.checkpoint()
    index = world.at(Record)
    world.messages[index] = replace(world.messages[index], time=OPENS + 60)  # type: ignore[type-var]
    return _with_note(world, note)


@attack(1, "do not hash to the signed root")
def reordered_entries() -> Any:
    world = World.honest()
    note = world.checkpoint()
    a, b = world.at(Record, 1), world.at(Record, 2)
    world.messages[a], world.messages[b] = world.messages[b], world.messages[a]
    return _with_note(world, note)


@attack(1, "gave 15 of 16 entries")
def dropped_entry() -> Any:
    world = World.honest()
    note = world.checkpoint()
    del world.messages[world.at(Record, 3)]
    return _with_note(world, note)


def _with_note(world: World, note: bytes) -> World:
    world.checkpoint = lambda signer=None: note  # type: ignore[method-assign]
    return world


@attack(1, "no signature by a known key")
def checkpoint_by_another_key() -> Any:
    world = World.honest()
    return _with_note(world, world.checkpoint(NoteSigner(ORIGIN, key_of("thief"))))


@attack(1, "an audit reads at most")
def oversized_log() -> Any:
    world = World.honest()
    return _with_note(world, Checkpoint(ORIGIN, 1 << 40, bytes(32)).sign(world.signer))


@attack(1, "is no message of this protocol")
def foreign_entry() -> Any:
    world = World.honest()
    world.messages.append(world.messages[-1])
    world.raw[len(world.messages) - 1] = b"\x05hello"
    return world


@attack(1, "the log was forked")
def forked_from_remembered() -> Any:
    world = World.honest()
    world.messages[2] = world.commit_entry("auditor", bytes(32), world.auditor_key)
    world.remember()
    honest = World.honest()
    honest.remembered = world.remembered
    return honest


@attack(1, "the log shrank")
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


@attack(1, "the checkpoint of receipt answer-0")
def receipt_of_another_log() -> Any:
    world = World.honest()
    receipts = world.receipts()
    note = world.checkpoint(NoteSigner(ORIGIN, key_of("thief")))
    body = replace(world.answers[0].receipt.body, checkpoint=note)
    receipts[0] = replace(receipts[0], receipt=resign(world, world.answers[0].receipt, body))
    return world, {"receipts": receipts}


@pytest.mark.parametrize("name", ATTACKS.names())
def test_attack_fails_at_its_step(name: str) -> None:
    ATTACKS.run(name)
