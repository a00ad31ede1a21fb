# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 1 against a log that was altered, forked, cut or filled with something else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import WindowClose
from ragseal.kernel.errors import TransportError
from ragseal.kernel.params import PROTOCOL_VERSION
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, Note, NoteSigner
from ragseal.ledger.policy import Policy
from ragseal.verifier.__main__ import main
from ragseal.verifier.audit import audit as conducting
from ragseal.verifier.audit import verification
from ragseal.verifier.audit.findings import Environment
from ragseal.verifier.evidence.evidence import Auditor, Undecided
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.steps import log
from tests.simulator import (
    GROUP,
    NOW,
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


# An audit under a witness policy: a quorum up to the window's close, or NO VERDICT; never a FAIL for its absence.


KEYS = [
    NoteSigner(f"w{n}.example", Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32), COSIGNATURE) for n in (1, 2, 3)
]
LINES = "\n".join(f"witness w{n} {key.verifier.vkey()}" for n, key in enumerate(KEYS))
POLICY = Policy.parse(f"{LINES}\ngroup g 2 w0 w1 w2\nquorum g\n".encode())

OTHER = NoteSigner("other.example", Ed25519PrivateKey.from_private_bytes(bytes([9]) * 32)).verifier.vkey()


def note_of(world: World, size: int, entries: Sequence[bytes] | None = None) -> bytes:
    data = world.entries() if entries is None else entries
    return Checkpoint(ORIGIN, size, MerkleTree(data[:size]).root()).sign(world.signer)


def cosigned(note: bytes, *keys: NoteSigner) -> bytes:
    found = Note.parse(note)
    return found.with_signatures(key.sign(found.text, 1000) for key in keys).encode()


def audit(world: World, policy: Policy = POLICY) -> Verdict:
    return world.audit(auditor=replace(world.auditor(), witness_policy=policy))


def open_at_the_log(verdict: Verdict, said: str) -> None:
    assert verdict.verdict == "NO VERDICT", verdict.line()
    assert verdict.obstacle is not None
    assert (verdict.obstacle.number, said in verdict.obstacle.message) == (1, True), verdict.line()
    assert verdict.obstacle.way_out
    assert verdict.budget is None


@pytest.fixture
def world() -> World:
    return World.honest()


def test_a_quorum_at_the_close_or_behind_it(world: World) -> None:
    closed = world.at(WindowClose) + 1
    for size in range(closed, len(world.messages) + 1):
        world.cosigned = cosigned(note_of(world, size), *KEYS[:2])
        verdict = audit(world)
        assert verdict.verdict == "PASS", verdict.line()
        said = verdict.steps[0].evidence
        assert (said["witnesses"], said["witnessed_size"]) == (["w1.example", "w2.example"], size)


def test_no_quorum_is_no_verdict_and_never_a_fail(world: World) -> None:
    size = len(world.messages)
    world.cosigned = None
    open_at_the_log(audit(world), "no witness has cosigned this log")
    for keys in ((), KEYS[:1], (KEYS[0], KEYS[0])):
        world.cosigned = cosigned(note_of(world, size), *keys)
        open_at_the_log(audit(world), "not the quorum")
    world.cosigned = cosigned(note_of(world, world.at(WindowClose)), *KEYS)
    open_at_the_log(audit(world), f"the window ends with entry {world.at(WindowClose)}")


@pytest.mark.parametrize("served", [b"", b"junk", b"\xff" * 100])
def test_bytes_that_nobody_signed_are_no_verdict(world: World, served: bytes) -> None:
    world.cosigned = served
    open_at_the_log(audit(world), "the witnessed note does not hold")


def test_spoiled_lines_and_other_logs_are_no_verdict(world: World) -> None:
    """A stranger between can spoil a witness's line, or show another log's note."""
    note = Note.parse(cosigned(note_of(world, len(world.messages)), *KEYS[1:]))
    world.cosigned = note.with_signatures([KEYS[0].sign("another text\n", 9)]).encode()
    open_at_the_log(audit(world), "does not verify")
    stranger = NoteSigner(ORIGIN, Ed25519PrivateKey.from_private_bytes(b"s" * 32))
    text = Note.parse(note_of(world, len(world.messages))).text
    world.cosigned = cosigned(Note(text, (stranger.sign(text),)).encode(), *KEYS)
    open_at_the_log(audit(world), "no signature by a known key")


@pytest.mark.parametrize("more", [0, 2])
def test_a_split_view_fails_with_both_notes(world: World, more: int) -> None:
    """The provider shows witnesses another log than this auditor: its own two signatures convict it."""
    other = [*world.entries(), *[b"more"] * more]
    other[2] = b"another entry"
    world.cosigned = cosigned(note_of(world, len(other), other), *KEYS)
    if more:  # nothing shows which of the two the entries behind belong to: asked again, never a FAIL by itself
        open_at_the_log(audit(world), "")
        return
    verdict = audit(world)
    assert verdict.verdict == "FAIL", verdict.line()
    assert verdict.failure is not None
    assert (verdict.failure.number, verdict.failure.forked) == (1, True)
    assert {"older", "newer"} <= set(verdict.failure.evidence)
    assert world.audit().verdict == "PASS"  # without a policy nobody is asked


def test_a_log_that_grew_meanwhile_is_read_on(world: World) -> None:
    """Witnesses may have cosigned more than was there when the audit read the log."""
    shown = Shown(world)
    world.messages.append(world.messages[2])  # whatever: what follows is hashed, not judged
    world.cosigned = cosigned(note_of(world, len(world.messages)), *KEYS)
    verdict = shown.audit()
    assert verdict.verdict == "PASS", verdict.line()


class Shown(SimulatedEvidence):
    """The log as it was at first, and grown later."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._first = world.checkpoint()

    def checkpoint(self) -> bytes:
        return self._first

    def audit(self) -> Verdict:
        auditor = replace(self.world.auditor(), witness_policy=POLICY)
        return verification.audit(self, auditor, Environment(GROUP, NOW, lambda: 0.0, random.Random(7).randbytes))


def test_a_provider_that_is_away_for_this_is_no_verdict(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: SimulatedEvidence) -> bytes:
        raise TransportError("nobody answers")

    monkeypatch.setattr(SimulatedEvidence, "cosigned", away)
    open_at_the_log(audit(world), "nobody answers")
    assert audit(world, Policy.parse(b"quorum none")).verdict == "PASS"
    assert world.audit().verdict == "PASS"


def test_a_missing_quorum_hides_no_fail(world: World) -> None:
    world.made_by = "provider"
    shown = audit(world)
    plain = world.audit()
    assert plain.verdict != "PASS"
    assert shown.verdict != "PASS"
    world.made_by = "auditor"
    world.messages[world.at(WindowClose)] = WindowClose(world.digest, 3, 0)
    assert (audit(world).verdict, world.audit().verdict) == ("FAIL", "FAIL")


def test_the_command_hands_the_policy_on_and_says_what_is_wrong_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Policy | None] = []

    def judged(evidence: object, auditor: Auditor, *_: object, **__: object) -> Verdict:
        seen.append(auditor.witness_policy)
        raise Undecided("seen", "nothing")

    monkeypatch.setattr(conducting, "audit", judged)
    state, path = str(tmp_path / "auditor"), tmp_path / "policy"
    log = World().signer.verifier.vkey()
    run = CliRunner().invoke
    assert run(main, ["init", "--state", state]).exit_code == 0
    command = ["audit", "--state", state, "--provider", "127.0.0.1:1", "--log-key", log, "--out", str(tmp_path / "r")]
    path.write_text(f"log {log}\n{LINES}\ngroup g 2 w0 w1 w2\nquorum g\n")
    assert run(main, command).exit_code == 4
    assert run(main, [*command, "--witness-policy", str(path)]).exit_code == 4
    assert [one if one is None else one.quorum for one in seen] == [None, "g"]
    for text, said in ((f"{LINES}\nquorum g\n", "line 4: 'g' is not defined"), ("log " + OTHER, "is not for the log")):
        path.write_text(text if "quorum" in text else f"{text}\nquorum none\n")
        refused = run(main, [*command, "--witness-policy", str(path)])
        assert (refused.exit_code, said in " ".join(refused.output.split())) == (1, True), refused.output
    assert len(seen) == 2
