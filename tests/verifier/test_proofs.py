# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 8 against proofs and openings that do not belong to the records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel import attestation, field, opening
from ragseal.kernel.attestation import Record
from ragseal.kernel.errors import ProofError, TransportError
from ragseal.kernel.params import R
from ragseal.kernel.proofs import ProofBatch, ProofEntry, SameEmbeddingOpening
from ragseal.verifier.evidence.evidence import ConfiguredKey
from ragseal.verifier.steps import proofs
from tests.classes import TINY
from tests.simulator import (
    CLASS_DIGEST,
    GROUP,
    KEY,
    BindingKey,
    World,
    asked,
)
from tests.simulator.estimates import BindingBlockKey, Estimator
from tests.verifier.attacks import Attacks

ATTACKS = Attacks()
attack = ATTACKS.add

# --- step 8: proofs --------------------------------------------------------------------------------------------------


def _entry_of(seq: int, **changes: Any) -> Callable[[ProofEntry], ProofEntry]:
    return lambda entry: replace(entry, **changes) if entry.seq == seq else entry


@attack(8, "the proof of record 3 does not hold")
def forged_proof() -> Any:
    world = World.honest()
    world.tamper_entry = _entry_of(3, proof=b"\x01" * 256)
    return world


@attack(8, "the proof of record 1 does not hold")
def replayed_proof() -> Any:
    """Record 0's valid proof and hints, delivered for record 1."""
    world = World.honest()
    proven = world.batch(world.digest, [0]).entries[0]
    world.tamper_entry = _entry_of(1, proof=proven.proof, committed=proven.committed)
    world.kept[world.digest, 1] = replace(
        world.kept[world.digest, 1],
        hidden=world.kept[world.digest, 0].hidden,
        rho_hint=world.kept[world.digest, 0].rho_hint,
    )
    return world


def test_a_batch_that_fails_fails_even_if_every_proof_alone_holds() -> None:
    class Picky(BindingKey):
        def verify_batch(self, items: Any) -> None:
            raise ProofError("the product is not one")

    world = World.honest()
    key = ConfiguredKey(KEY.digest, TINY.name, CLASS_DIGEST, "auditor", Picky)
    verdict = world.audit(auditor=replace(world.auditor(), keys={KEY.digest: key}))
    assert verdict.failure is not None
    assert (verdict.failure.number, "product" in verdict.line()) == (8, True), verdict.line()


@attack(8, "does not hold exactly the records")
def record_left_out_of_the_batch() -> Any:
    world = World.honest()
    world.tamper_batch = lambda batch: world.batch(world.digest, [0, 1, 2, 3, 5, 6])
    return world


@attack(8, "does not hold exactly the records")
def batch_of_another_record() -> Any:
    world = World.honest()
    world.tamper_batch = lambda batch: replace(
        batch, entries=tuple(_entry_of(2, record_digest=bytes(32))(e) for e in batch.entries)
    )
    return world


@attack(8, "belongs to another window")
def batch_of_another_window() -> Any:
    world = World.honest()
    world.tamper_batch = lambda batch: replace(batch, manifest=bytes(32))
    return world


@attack(8, "the link opening does not hold")
def columns_of_another_tenant() -> Any:
    """C_y is made from tenant south's columns for an account of tenant north."""
    return asked("alice", columns_of="south")


@attack(8, "the hints opening does not hold")
def hints_outside_their_span() -> Any:
    """C_h with a component along a score base: it would shift w under the same proof."""
    world = World.honest()
    honest = world.batch(world.digest, [0]).entries[0].committed
    shifted = GROUP.msm(honest + KEY.scores.y[:64], field.pack([1, R - 5]))
    world.tamper_entry = _entry_of(0, committed=shifted)
    return world


@attack(8, "the link opening does not hold")
def c_y_off_by_a_score_base() -> Any:
    """C_y of the right columns plus a component along Y_0: one document's score moved."""
    world = World()
    world.commit()
    shifts = iter([True])

    def shifted(c_y: bytes) -> bytes:
        return GROUP.msm(c_y + KEY.scores.y[:64], field.pack([1, 9])) if next(shifts, False) else c_y

    original = attestation.score_commitment
    attestation.score_commitment = lambda *a: shifted(original(*a))
    try:
        world.ask("alice")
    finally:
        attestation.score_commitment = original
    world.ask("bob")
    world.close()
    return world


@attack(8, "one link opening for each of")
def link_left_out() -> Any:
    world = World.honest()
    world.tamper_batch = lambda batch: replace(batch, links=batch.links[:1])
    return world


@attack(8, "one link opening for each of")
def link_under_another_tenant() -> Any:
    world = World.honest()
    world.tamper_batch = lambda batch: replace(batch, links=(batch.links[0], replace(batch.links[1], tenant="west")))
    return world


@attack(8, "the link opening does not hold")
def links_exchanged() -> Any:
    def exchange(batch: ProofBatch) -> ProofBatch:
        north, south = batch.links
        return replace(
            batch, links=(SameEmbeddingOpening("north", south.opening), SameEmbeddingOpening("south", north.opening))
        )

    world = World.honest()
    world.tamper_batch = exchange
    return world


@attack(8, "the hints opening does not hold")
def opening_of_another_batch() -> Any:
    world = World.honest()
    other = world.batch(world.digest, range(6)).openings
    world.tamper_batch = lambda batch: replace(batch, openings=other)
    return world


@attack(8, "responses expected")
def hint_opening_truncated() -> Any:
    world = World.honest()

    def truncated(batch: ProofBatch) -> ProofBatch:
        first, *others = batch.openings
        return replace(batch, openings=(replace(first, responses=first.responses[1:]), *others))

    world.tamper_batch = truncated
    return world


@attack(8, "the proof of record 0 does not hold")
def t_commit_changed_after_proving() -> Any:
    """A record whose proof was made for another T."""
    world = World.honest()
    entry = world.batch(world.digest, [0]).entries[0]
    index = world.at(Record)
    changed = replace(world.messages[index], t_commits=(3,))  # type: ignore[type-var]
    world.messages[index] = changed
    world.tamper_entry = _entry_of(0, proof=entry.proof)
    return world


@attack(8, "is not a ProofBatch|not a proof-batch message")
def something_else_delivered() -> Any:
    world = World.honest()
    world.batch = lambda manifest, seqs: world.manifest  # type: ignore[assignment,method-assign,return-value]
    return world


@pytest.mark.parametrize("name", ATTACKS.names())
def test_attack_fails_at_its_step(name: str) -> None:
    ATTACKS.run(name)


# --- openings of several batches are checked together -----------------------------------------------------------------


def _shifted(seq: int) -> World:
    """A C_h with a component along a score base."""
    world = World.honest()
    honest = world.batch(world.digest, [seq]).entries[0].committed
    shifted = GROUP.msm(honest + KEY.scores.y[:64], field.pack([1, R - 5]))
    world.tamper_entry = _entry_of(seq, committed=shifted)
    return world


@pytest.mark.parametrize("together", [1, 2, 16])
def test_batches_pass_together_and_the_one_that_does_not_is_named(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "BATCH", 2)
    monkeypatch.setattr(proofs, "TOGETHER", together)
    accepted = World.honest().audit()
    assert accepted.verdict == "PASS", accepted.line()
    refused = _shifted(3).audit()
    assert refused.verdict == "FAIL"
    assert "proofs of records 2..3: the hints opening does not hold" in refused.line()


def test_withholding_the_next_batch_takes_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The openings of what came wait for others to be checked with; those never come."""
    monkeypatch.setattr(proofs, "BATCH", 2)

    def silent_after(count: int, world: World) -> World:
        real = world.tamper_batch

        def batch(made: ProofBatch) -> ProofBatch:
            if made.entries[0].seq >= 2 * count:
                raise TransportError("no answer in 60 s")
            return real(made)

        world.tamper_batch = batch
        return world

    assert silent_after(2, World.honest()).audit().verdict == "NO VERDICT"
    refused = silent_after(2, _shifted(1)).audit()
    assert refused.verdict == "FAIL", refused.line()
    assert "proofs of records 0..1: the hints opening does not hold" in refused.line()


def test_openings_that_fail_together_only_are_this_machines_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening.Equations, "hold", lambda self: False)
    verdict = World.honest().audit()
    assert verdict.verdict == "NO VERDICT"
    assert "do not hold together" in verdict.line()


# The product over a batch has the last word: looking for a culprit one by one, and finding none, is no acceptance.


WORD = "the product of the batch does not hold"


class Proofs(BindingKey):
    def verify_batch(self, items: Sequence[tuple[Sequence[int], bytes, bytes, bytes]]) -> None:
        raise ProofError(WORD)


class Blocks(BindingBlockKey):
    def verify_batch(self, items: Sequence[tuple[Sequence[int], bytes, bytes, bytes]]) -> None:
        raise ProofError(WORD)


def refused(world: World, step: int) -> None:
    verdict: Any = world.audit()
    assert verdict.failure is not None, f"accepted: {verdict.line()}"
    assert (verdict.failure.number, WORD in verdict.failure.message) == (step, True), verdict.line()


def test_proofs() -> None:
    world = asked()
    assert world.audit().failure is None
    world.key = Proofs()
    refused(world, 8)


def test_blocks() -> None:
    world = asked()
    key = Blocks()
    world.estimator = Estimator(world, key, key.prove)
    refused(world, 9)
