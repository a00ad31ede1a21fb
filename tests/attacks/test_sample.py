# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that would choose which records a sampled audit asks for.  SPEC D.8.

The sample hashes a nonce that the auditor draws after it holds the final root.  A provider that knew the nonce would
write its log until the records that it cannot prove are not drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.commitment import WindowClose
from ragseal.kernel.errors import TransportError
from ragseal.kernel.proofs import ProofBatch
from ragseal.ledger.merkle import MerkleTree
from ragseal.verifier.audit import verification
from ragseal.verifier.audit.findings import Environment
from ragseal.verifier.evidence.evidence import Auditor
from ragseal.verifier.folder.state import State
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.steps.records import LoggedRecord
from ragseal.verifier.steps.sample import Sample, draw
from ragseal.verifier.steps.versions import IndexVersion
from tests import simulator
from tests.attacks.machine import GROUP, Machine, policy
from tests.attacks.world import AttackWorld, Cheat, refused

pytestmark = pytest.mark.slow

BAD = 3  #: the record that has no proof
SIZE = 2


def _broken(tools: Machine, assignment: Any) -> bytes:
    """Some proof, of something else."""
    proof = tools.prove(assignment)
    return proof[192:] + proof[64:192] + proof[:64]


@pytest.fixture(scope="module")
def world() -> AttackWorld:
    """Seven queries; one of them cannot be proven."""
    made = AttackWorld()
    made.commit()
    for seq, account in enumerate(("alice", "bob", "carol", "alice", "carol", "alice", "bob")):
        made.ask(account, Cheat(prover=_broken) if seq == BAD else None)
    made.close()
    return made


def audit(
    world: AttackWorld, source: Callable[[int], bytes], evidence: Any = None, auditor: Auditor | None = None
) -> Verdict:
    around = Environment(GROUP, simulator.NOW, lambda: 0.0, source)
    found = evidence or simulator.SimulatedEvidence(world)
    return verification.audit(found, auditor or world.auditor(), around, sample=Sample(SIZE))


def chosen(number: int) -> Callable[[int], bytes]:
    """Randomness whose every call begins anew, so that what asks take of it does not move the nonce."""
    return lambda count: random.Random(number).randbytes(count)


def drawn(world: AttackWorld, nonce: bytes) -> list[int]:
    """What the audit would draw, computed by somebody who knows the nonce."""
    tenants = {account.pseudonym: account.tenant for account in world.registry}
    of = {name: IndexVersion(name, 0, bytes(32)) for name in world.tenants}
    logged = [
        LoggedRecord(0, r, r.digest(), of[tenants[r.signed.request.account]], tenants[r.signed.request.account])
        for r in world.records()
    ]
    root = MerkleTree(world.entries()).root()
    return [one.record.seq for one in draw(logged, SIZE, nonce, root, world.digest)]


def grind(world: AttackWorld, nonce: bytes) -> AttackWorld:
    """Move the closing time, hence the final root, until the bad record is not drawn under this nonce."""
    for second in range(200):
        world.messages[-1] = WindowClose(world.digest, world.seq, simulator.OPENS + 3000 + second)
        if BAD not in drawn(world, nonce):
            return world
    raise AssertionError("the sample does not depend on the root")


def test_sample_that_the_provider_foresees(world: AttackWorld) -> None:
    """With a known nonce grinding succeeds at once; with the auditor's own the same log is caught when it is drawn."""
    fixed = bytes(32)
    assert audit(grind(world, fixed), lambda n: fixed[:n]).verdict == "SAMPLED-PASS"
    outcomes = set()
    for number in range(100):  # the bad record is among two of seven: a hundred misses are nobody's luck
        source = chosen(number)
        nonce = random.Random(number).randbytes(32)
        hit = BAD in drawn(world, nonce)
        verdict = audit(world, source)
        assert (verdict.verdict == "FAIL") == hit, verdict.line()
        if hit:
            assert "the proof of record 3 does not hold" in verdict.line()
        outcomes.add(hit)
        if len(outcomes) == 2 and number >= 7:
            return
    raise AssertionError("the sample does not depend on the nonce")


def test_every_record_can_be_drawn_and_the_root_matters(world: AttackWorld) -> None:
    nonces = [random.Random(n).randbytes(32) for n in range(60)]
    before = [drawn(world, nonce) for nonce in nonces]
    assert {seq for sample in before for seq in sample} == set(range(7))
    assert all(len(sample) == SIZE for sample in before)
    kept = world.messages[-1]
    world.messages[-1] = WindowClose(world.digest, world.seq, simulator.OPENS + 3333)
    assert [drawn(world, nonce) for nonce in nonces] != before
    world.messages[-1] = kept


class Watched(simulator.SimulatedEvidence):
    """Notes what is asked in which order."""

    def __init__(self, world: AttackWorld, events: list[str]) -> None:
        super().__init__(world)
        self.events = events

    def checkpoint(self) -> bytes:
        self.events.append("log")
        return super().checkpoint()

    def entries(self, start: int, stop: int) -> list[bytes]:
        self.events.append("log")
        return super().entries(start, stop)

    def proofs(self, manifest: bytes, seqs: Sequence[int]) -> bytes:
        self.events.append("proofs")
        return super().proofs(manifest, seqs)


def test_nonce_is_drawn_after_the_final_root_and_before_any_proof(world: AttackWorld) -> None:
    events: list[str] = []

    def source(count: int) -> bytes:
        events.append(f"nonce of {count} bytes")
        return bytes(count)

    grind(world, bytes(32))
    assert audit(world, source, Watched(world, events)).verdict == "SAMPLED-PASS"
    at = events.index("nonce of 32 bytes")
    assert [event for event in events[at:] if "16 bytes" not in event] == ["nonce of 32 bytes", "proofs"]
    assert set(events[:at]) == {"log", "nonce of 16 bytes"}, "every ask has a nonce of its own"


def test_records_delivered_instead_of_those_drawn(world: AttackWorld) -> None:
    """Asked for the bad record, the provider proves another."""
    honest = world.batch

    def elsewhere(manifest: bytes, seqs: Sequence[int]) -> ProofBatch:
        return honest(manifest, [0 if seq == BAD else seq for seq in seqs])

    world.batch = elsewhere  # type: ignore[method-assign]
    try:
        nonce = next(n for n in (random.Random(i).randbytes(32) for i in range(99)) if BAD in drawn(world, n))
        verdict = audit(world, lambda n: nonce[:n])
        assert verdict.verdict == "FAIL"
        assert "does not hold exactly the records that were asked for" in verdict.line()
    finally:
        del world.batch


class Fleeing(simulator.SimulatedEvidence):
    """Goes away whenever it is asked for the bad record, and lets its log grow before it comes back."""

    def proofs(self, manifest: bytes, seqs: Sequence[int]) -> bytes:
        world = self.world
        if BAD not in seqs:
            return super().proofs(manifest, seqs)
        kept = world.manifest, world.digest, world.seq
        later = policy(opens=simulator.NOW, closes=simulator.NOW + 600)
        world.enter_manifest(f"later-{len(world.messages)}", policy_=later, c_seed=len(world.messages))
        world.manifest, world.digest, world.seq = kept
        raise TransportError("the provider went away")


def test_provider_that_breaks_off_when_it_knows_the_sample(world: AttackWorld, tmp_path: Path) -> None:
    """There is no verdict, so the auditor asks again: for the same records.  With new ones it would end in a pass."""
    state = State.create(tmp_path / "auditor", simulator.key_of("auditor"))
    keeping = replace(world.auditor(), sample_nonce=partial(state.sample_nonce, world.signer.verifier))
    first = next(n for n in range(60) if BAD in drawn(world, random.Random(n).randbytes(32)))
    size = len(world.messages)

    def again(auditor: Auditor) -> list[str]:
        found = []
        for number in range(first, first + 8):
            verdict = audit(world, chosen(number), Fleeing(world), auditor)
            found.append("away" if verdict.verdict == "NO VERDICT" else verdict.line())
        return found

    try:
        assert again(keeping) == ["away"] * 8
        seen = state.remembered(world.signer.verifier)
        assert seen is not None
        assert seen.checkpoint.size == size + 7  # what the last audit saw, though it never ended
        assert any(line.startswith("SAMPLED-PASS") for line in again(world.auditor()))
    finally:
        del world.messages[size:]


def test_a_full_audit_always_finds_it(world: AttackWorld) -> None:
    refused(world, 8, "the proof of record 3 does not hold")
