# SPDX-License-Identifier: GPL-3.0-or-later
"""False statements through the whole system: no back end proves them, and no proof that is delivered instead passes.

tests/circuits shows which rule of the compiled circuit stands against each.  Here the provider really answers with the
forged T, commits to the forged hints and opens C_h honestly; what is missing is a Groth16 proof.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ragseal.groth16.assignments import Assignment
from ragseal.kernel.errors import ProofError
from tests.attacks import forgeries
from tests.attacks.checks import PAIRING, without
from tests.attacks.machine import Machine
from tests.attacks.test_moved import rerandomised
from tests.attacks.world import ROOT, AttackWorld, Cheat, accepted, queried, refused
from tests.circuits.noise_drafts import NoiseDraft

pytestmark = pytest.mark.slow

FORGERIES: dict[str, Callable[[NoiseDraft], bool]] = {
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


@pytest.mark.parametrize("name", FORGERIES)
def test_false_statement(name: str) -> None:
    def prover(tools: Machine, assignment: Assignment) -> bytes:
        no_witness(tools, assignment)
        return some_proof()

    world = queried(Cheat(forge=FORGERIES[name], prover=prover))
    refused(world, 8, "the proof of record 1 does not hold")
    with without(PAIRING):
        accepted(world)


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
