# SPDX-License-Identifier: GPL-3.0-or-later
"""The observer's page behind turns of the log's key: its script shows them, and each of its checks can be missed.

SPEC G.6.13.3, G.6.13.5.  A check is taken away by taking it out of the page that the visitor gets.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.rotation import Rotation
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteSigner, decode_base64, encode_base64
from ragseal.ledger.observer import AlarmError
from ragseal.ledger.turns import TurnProof
from tests.ledger.test_page import LOG, Local, World, change

SECOND, THIRD = (NoteSigner(LOG.name, Ed25519PrivateKey.from_private_bytes(bytes(31) + bytes([n]))) for n in (7, 8))
MEMORY = f"ragseal:{LOG.name}:note"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def turned(world: World, *keys: NoteSigner) -> None:
    world.grow(6)
    await world.publish()
    assert world.visit()["state"] == "good"
    for key in keys:
        world.log.rotate(key)
        world.grow(2)
    world.observer._clock = lambda: 1_700_000_100.0
    await world.publish()


def broken(world: World, check: str, instead: str) -> dict[str, Any]:
    """What a visitor reads without a check."""
    path = world.out / "index.html"
    whole = path.read_text()
    assert whole.count(check) == 1
    path.write_text(whole.replace(check, instead))
    return world.visit()


@pytest.mark.asyncio
async def test_a_page_behind_turns_is_good_and_goes_on(world: World) -> None:
    await turned(world, SECOND, THIRD)
    shown = world.visit()
    assert shown["state"] == "good", shown
    assert shown["key"] == LOG.verifier.vkey(), "the log keeps its name"
    said = "\n".join(shown["checks"])
    assert "turn 1 of the log's key is entry 6 of this log" in said
    assert "turn 2 of the log's key is entry 9 of this log" in said
    assert "the 6 records that this browser remembers are still the beginning" in said
    world.grow(1)
    world.observer._clock = lambda: 1_700_000_200.0
    await world.publish()
    again = world.visit()
    assert again["state"] == "good"
    assert "the 12 records that this browser remembers" in "\n".join(again["checks"])
    assert len(again["log"]["turns"]) == 2


@pytest.mark.asyncio
async def test_a_turn_that_a_stranger_made_up_is_not_shown_as_one(world: World) -> None:
    await turned(world, SECOND)
    stranger = THIRD.private_key

    def forged(status: dict[str, Any]) -> None:
        proof = TurnProof.decode(decode_base64(status["turns"][0], "turn"))
        turn = replace(proof.turn, new_key=THIRD.verifier.public_key).signed(stranger, stranger)
        status["turns"] = [encode_base64(replace(proof, turn=turn).encode())]
        size = world.log.size
        status["checkpoint"] = Checkpoint(LOG.name, size, world.log._checkpoint.root).sign(THIRD).decode()

    change("status.json", forged)(world)
    shown = world.visit()
    assert shown["state"] == "bad"
    assert "signature" in shown["headline"]


@pytest.mark.asyncio
async def test_a_note_of_the_old_key_alone_is_bad_behind_the_turn(world: World) -> None:
    await turned(world, SECOND)
    point = Checkpoint(LOG.name, world.log.size, world.log._checkpoint.root)
    change("status.json", lambda status: status.update(checkpoint=point.sign(LOG).decode()))(world)
    assert world.visit()["state"] == "bad"


@pytest.mark.asyncio
async def test_a_turn_is_of_the_log_that_is_shown(world: World) -> None:
    await turned(world, SECOND)
    change("consistency-7-9.json", lambda data: data["path"].reverse())(world)
    shown = world.visit()
    assert shown["state"] == "bad"
    line = "await verifyConsistency(end.size, checked.size, proof, end.root, checked.root);"
    assert broken(world, line, "")["state"] == "good"


@pytest.mark.slow
@pytest.mark.asyncio
async def test_what_a_thief_of_the_old_key_showed_this_browser_convicts_nobody(world: World) -> None:
    await turned(world, SECOND)
    memory = world.folder / "memory.json"
    kept = json.loads(memory.read_text())
    kept[MEMORY] = Checkpoint(LOG.name, world.log.size, bytes(32)).sign(LOG).decode()
    memory.write_text(json.dumps(kept))
    shown = world.visit()
    assert shown["state"] == "good"
    assert "a thief of that key could have shown it" in "\n".join(shown["checks"])
    memory.write_text(json.dumps(kept))
    assert broken(world, "if (!(await wasSigned(last, status))) throw error;", "throw error;")["state"] == "bad"
    kept[MEMORY] = Checkpoint(LOG.name, 3, bytes(32)).sign(LOG).decode()  # where that key counted it is the log's word
    memory.write_text(json.dumps(kept))
    assert world.visit()["state"] == "bad"


@pytest.mark.asyncio
async def test_the_served_page_has_the_turns(world: World) -> None:
    await turned(world, SECOND)
    served = await world.site.file("status.json")
    assert served is not None
    assert json.loads(served)["turns"] == [encode_base64(proof.encode()) for proof in world.log.turns()]
    assert await world.site.file("consistency-7-9.json") is not None


@pytest.mark.asyncio
async def test_two_turns_of_one_key_are_shown_as_the_evidence_that_they_are(world: World) -> None:
    await turned(world, SECOND)
    fork = Log.create(world.folder / "fork", LOG)
    fork.append_now([lambda index, entry=entry: entry for entry in world.log.entries(0, 6)])  # type: ignore[misc]
    fork.rotate(THIRD)
    fork.append_now([lambda index: b"behind the turn"] * 4)
    local: Any = Local(fork, CosignatureBook(world.folder / "fork", fork))
    world.observer._remote = local
    with pytest.raises(AlarmError, match="has signed two different turns"):
        await world.observer.step()
    await world.site.write(world.out)
    for name in ("evidence-older.rotation", "evidence-newer.rotation"):
        Rotation.decode((world.out / name).read_bytes()).verify_old()
        assert await world.site.file(name) == (world.out / name).read_bytes()
    assert not (world.out / "evidence-older.note").exists()
    assert world.visit()["evidence"] == ["evidence-older.rotation", "evidence-newer.rotation"]
    fork.close()
