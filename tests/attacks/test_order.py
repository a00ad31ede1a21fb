# SPDX-License-Identifier: GPL-3.0-or-later
"""e chosen after the noise is known.  C_e is fixed before the client draws its nonce, and the noise's key hashes both.

Whoever may still choose e, within the slack of 1 an entry that rounding needs, chooses the answer: SPEC B.2.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ragseal.client import attestation as client
from ragseal.groth16.assignments import Assignment
from ragseal.kernel import field, proofs
from ragseal.kernel.attestation import Prepare, Prepared, Record
from ragseal.kernel.bn254 import IDENTITY
from ragseal.kernel.commitment import embedding_commitment
from ragseal.kernel.errors import AttestationError, ProofError
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.params import R
from tests.attacks import forgeries
from tests.attacks.checks import CLIENT_OPENS_C_E, PAIRING, REQUEST_SIGNED, without
from tests.attacks.forgeries import left_out, loser_returned, winner_with_chosen_noise
from tests.attacks.machine import DIMENSION, GENERATORS, GROUP, Machine, honest_tenants, machine, policy
from tests.attacks.test_moved import rerandomised
from tests.attacks.world import ROOT, AttackWorld, Cheat, Query, accepted, queried, refused
from tests.circuits.noise_drafts import NoiseDraft


def nudged(e: list[int], by: int) -> list[int]:
    """An e that differs by at most 1 an entry: one of 2^d."""
    return [x + (by >> j & 1) for j, x in enumerate(e)]


def test_who_knows_the_nonce_chooses_the_answer() -> None:
    """What the order prevents: 64 neighbours of one e, committed under a known nonce, release as many different sets.

    Two may agree by chance (once in a hundred keys or so, of 302,621 sets of 3), hardly five pairs.
    """
    world = AttackWorld()
    world.commit()
    request = world.ask("alice").signed.request
    query = world.kept[world.digest, 0]
    south, terms = honest_tenants()["north"], policy()
    found = set()
    for by in range(64):
        e = nudged(query.e, by)
        known = replace(request, c_e=embedding_commitment(GROUP, GENERATORS, e, query.blinder))
        w = terms.gain * (np.array(south.rows) @ np.array(e, dtype=np.int64) - terms.lo)
        key = noise_key(world.seed, world.beacon, known.ctx())
        found.add(machine().engine.answer(key, w, terms.asked(machine().cls)))
    assert len(found) >= 60
    other = replace(request, nonce=bytes(16))
    assert other.ctx() != request.ctx()


def test_query_commitment_replaced_under_the_clients_signature() -> None:
    """The client signed another C_e; everything else follows the new one."""
    world = queried(Cheat(e_after_nonce=lambda e: nudged(e, 5)))
    refused(world, 6, "the request signature does not hold")
    with without(REQUEST_SIGNED):
        accepted(world)


def test_client_refuses_a_record_of_another_query_commitment() -> None:
    world = AttackWorld()
    world.commit()
    record = world.ask("alice")
    client.check_record(GROUP, world.manifest.policy, record.signed, record)
    request = record.signed.request
    for change in (
        {"c_e": embedding_commitment(GROUP, GENERATORS, [1] * DIMENSION, 3)},
        {"nonce": bytes(16)},
        {"ctr": 2},
        {"query_digest": bytes(32)},
    ):
        other = replace(record, signed=replace(record.signed, request=replace(request, **change)))
        with pytest.raises(AttestationError, match="a request different from the one this account signed"):
            client.check_record(GROUP, world.manifest.policy, record.signed, other)


@pytest.mark.slow
def test_client_refuses_a_commitment_to_another_e() -> None:
    """The provider states the client's e and commits to its own choice; nobody after the client could tell."""
    world = AttackWorld()
    world.commit()
    tenant, mine = world.tenants["north"], [81, -41, 34, 0, -7, 62, -51, 12]
    window = client.Window(world.manifest, world.digest, world.registry[0], tenant.index, world.tools.cls)
    prepare = Prepare(world.digest, "alice", bytes(16), bytes(32), "q", client.encode_embedding(mine))
    theirs = nudged(mine, 21)

    def prepared(stated: list[int], committed: list[int], blinder: int = 77) -> Prepared:
        c_e = embedding_commitment(GROUP, GENERATORS, committed, blinder)
        return Prepared(bytes(16), client.encode_embedding(stated), c_e, blinder, tenant.index.digest())

    def checked(reply: Prepared) -> bool:
        return client.check_prepared(GROUP, GENERATORS, window, prepare, reply, mine)

    assert checked(prepared(mine, mine))
    with pytest.raises(AttestationError, match="C_e does not open"):
        checked(prepared(mine, theirs))
    assert not checked(prepared(theirs, theirs)), "an e that is not the client's own is never called checked"
    with pytest.raises(ProofError, match="identity"):
        checked(replace(prepared(mine, mine), c_e=IDENTITY))

    with without(CLIENT_OPENS_C_E):
        assert checked(prepared(mine, theirs))
    # a record over that C_e is a record like any other: the auditor sees no difference
    accepted(queried(Cheat(e=theirs)))


# Alpha and beta known before C_h is fixed: every look-up can then be forged, and the proof is a real one. A look-up
# says sum 1/(alpha - x) = sum mult_j/(alpha - j). At a known alpha one multiplicity makes up for any x that is in no
# table. So each forgery below satisfies every row of the compiled circuit and has a valid Groth16 proof, for an alpha
# and a beta that the verifier does not take from anyone: it hashes C_h. SPEC B.5.


def _packed(draft: NoiseDraft, h: Sequence[int]) -> bytes:
    return field.pack(x % R for x in draft.inputs(h).values())


def absorbed(draft: NoiseDraft, hints: list[int]) -> list[int]:
    """Hints in which the tables' first multiplicities make up for everything that is looked up and not in a table."""
    tools, h = machine(), list(hints)
    spare = {name: tools.key.layout.by_name[name].offset for name in ("coarseCount", "rangeCount", "noiseCount")}

    def residue(row: int, at: int, by: int) -> int:
        witness = tools.r1cs.solve(_packed(draft, [*h[:at], h[at] + by, *h[at + 1 :]]))
        a, b, c = (
            sum(k * int.from_bytes(witness.get(wire), "big") for wire, k in side) for side in tools.r1cs.constraint(row)
        )
        return (a * b - c) % R

    while (row := tools.r1cs.check(tools.r1cs.solve(_packed(draft, h)))) is not None:
        for name, at in spare.items():
            zero, one = residue(row, at, 0), residue(row, at, 1)
            if zero != one:
                h[at] -= zero * pow(one - zero, -1, R)
                del spare[name]
                break
        else:
            raise AssertionError("a rule stands against it that no multiplicity can satisfy")
    assert len(spare) < 3, "the forgery needs no forging"
    return h


FORGERIES = {
    "noise_through_a_row_that_is_in_no_table": winner_with_chosen_noise,
    "winner_not_opened_under_a_moved_threshold": left_out,
    "win_bit_moved": loser_returned,
}


def picked(world: AttackWorld, record: Record, query: Query) -> Sequence[int]:
    """Alpha and beta as the provider likes them."""
    return (123456789, 987654321)


def of_earlier_hints(world: AttackWorld, record: Record, query: Query) -> Sequence[int]:
    """Alpha and beta that C_h gave before its hints were moved."""
    return world.challenges(record, query)


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [picked, of_earlier_hints])
@pytest.mark.parametrize("forgery", FORGERIES)
def test_challenge_after_the_fact(forgery: str, chosen: Callable[..., Sequence[int]]) -> None:
    def gaining(draft: NoiseDraft) -> bool:
        honest = list(draft.ids)
        return FORGERIES[forgery](draft) and draft.ids != honest

    world = queried(Cheat(forge=gaining, h_of=absorbed, chosen=chosen))
    refused(world, 8, "the proof of record 1 does not hold")
    forged, query = world.records()[1], world.kept[world.digest, 1]
    real = proofs.challenges

    def believed(key: bytes, record: bytes, stated: Sequence[int], c_w: bytes, committed: bytes) -> list[int]:
        if record == forged.digest():
            return list(query.chosen)
        return real(key, record, stated, c_w, committed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proofs, "challenges", believed)
        accepted(world)


@pytest.mark.slow
def test_what_the_verifier_hashes() -> None:
    """Changing anything that a proof is about changes both challenges."""
    world = queried()
    record = world.records()[0]
    query = world.kept[world.digest, 0]
    stated = world.of_shard(query.statement)
    parts = [world.key.digest, record.digest(), stated, world.c_w(record), world.added(query)]
    base = proofs.challenges(*parts)  # type: ignore[arg-type]
    assert base[0] != base[1]
    seen = {tuple(base)}
    others: list[tuple[int, object]] = [(at, bytes(32)) for at in (0, 1)] + [(at, world.key.scores.b) for at in (3, 4)]
    for at in range(len(stated)):
        others.append((2, [x + (i == at) for i, x in enumerate(stated)]))
    for at, value in others:
        changed: list[object] = list(parts)
        changed[at] = value
        a, b = proofs.challenges(*changed)  # type: ignore[arg-type]
        assert a != base[0]
        assert b != base[1]
        seen.add((a, b))
    assert len(seen) == 12


# False statements through the whole system: no back end proves them, and no proof that is delivered instead passes.
# tests/circuits shows which rule of the compiled circuit stands against each. Here the provider really answers with
# the forged T, commits to the forged hints and opens C_h honestly; what is missing is a Groth16 proof.


FALSE_STATEMENTS: dict[str, Callable[[NoiseDraft], bool]] = {
    forge.__name__: forge
    for forge in (
        forgeries.noise_of_another_request,
        forgeries.noise_of_zero,
        forgeries.noise_scaled,
        forgeries.winner_with_chosen_noise,
        forgeries.loser_returned,
        forgeries.other_set_committed,
        forgeries.id_beyond_the_capacity,
        forgeries.slot_placed_twice,
        forgeries.left_out,
        forgeries.coarse_bit_changed,
        forgeries.multiplicity_wrong,
        forgeries.noise_through_a_multiplicity,
        forgeries.flag_raised,
        forgeries.flag_lowered,
        forgeries.another_flag_committed,
        forgeries.both_flags_committed,
        forgeries.ids_in_another_order,
    )
}


def no_witness(tools: Machine, assignment: Assignment) -> None:
    """The solver completes the inputs and finds a violated row; the prover refuses to prove."""
    assert tools.violated(assignment) is not None, "the circuit accepts the forgery"
    with pytest.raises(ProofError, match="does not satisfy the circuit"):
        tools.prove(assignment)


@cache
def some_proof() -> bytes:
    """A proof that holds, of another statement."""
    world = AttackWorld()
    world.commit()
    return rerandomised(world.entry(world.ask("alice")).proof, 77)


@pytest.mark.slow
@pytest.mark.parametrize("name", FALSE_STATEMENTS)
def test_false_statement(name: str) -> None:
    def prover(tools: Machine, assignment: Assignment) -> bytes:
        no_witness(tools, assignment)
        return some_proof()

    world = queried(Cheat(forge=FALSE_STATEMENTS[name], prover=prover))
    refused(world, 8, "the proof of record 1 does not hold")
    with without(PAIRING):
        accepted(world)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("node") is None or not (ROOT / "circuits" / "node_modules" / "snarkjs").exists(),
    reason="snarkjs is not installed",
)
def test_false_statement_through_a_prover_without_self_check(tmp_path: Path) -> None:
    """snarkjs computes a proof of any witness; that of a false one does not verify, that of a true one does."""

    def prover(tools: Machine, assignment: Assignment) -> bytes:
        no_witness(tools, assignment)
        return tools.prove_unchecked(assignment, tmp_path)

    refused(queried(Cheat(forge=forgeries.noise_of_zero, prover=prover)), 8, "the proof of record 1 does not hold")
    accepted(queried(Cheat(forge=lambda draft: True, prover=lambda t, a: t.prove_unchecked(a, tmp_path))))
