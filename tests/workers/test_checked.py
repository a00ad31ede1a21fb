# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker's proof is checked before anybody gets it: lies cost time, never a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragseal.groth16.assignments import Assignment
from ragseal.kernel.errors import ProofError
from ragseal.prover.workers.checked import checked_proof
from ragseal.prover.workers.interface import StoppingError, UnreachedError, Work, WorkResult
from ragseal.prover.workers.turns import Turns
from tests.workers.scene import Scripted, backend, proof_of, stated

pytestmark = pytest.mark.slow


def proved(workers: Scripted, own: Callable[[], Any] = backend, asked: bool = True) -> bytes:
    one = stated(0)
    return checked_proof(workers, Turns(), own, one.work.circuit, one.work.key, one.assignment, one.check, asked)


def never() -> Any:
    raise AssertionError("the provider need not prove itself")


class Broken:
    """The provider's own back end under a key that proves nothing."""

    key: Any = None

    def prove(self, assignment: Assignment) -> bytes:
        raise ProofError("the witness does not satisfy the circuit")


def broken() -> Broken:
    return Broken()


def raising(error: Exception) -> Callable[[Work], WorkResult]:
    def gives(_: Work) -> WorkResult:
        raise error

    return gives


LIES: dict[str, Callable[[], WorkResult]] = {
    "a wrong proof": lambda: WorkResult("liar", proof_of(0)[192:] + proof_of(0)[64:192] + proof_of(0)[:64], ""),
    "no points": lambda: WorkResult("liar", bytes(range(256)), ""),
    "a proof of another statement": lambda: WorkResult("liar", proof_of(1), ""),
    "that it cannot be proven": lambda: WorkResult("liar", b"", "the witness does not satisfy the circuit"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_worker_is_dropped_and_the_provider_proves(lie: str) -> None:
    workers = Scripted(lambda _: LIES[lie]())
    proof = proved(workers)
    stated(0).check(proof)
    ((name, why),) = workers.dropped
    assert name == "liar"
    assert "does not hold" in why or "cannot prove" in why


def test_a_statement_that_nobody_can_prove_drops_nobody() -> None:
    """Else a crafted key, which is what stops then, would cost every worker."""
    workers = Scripted(lambda _: WorkResult("honest", b"", "the witness does not satisfy the circuit"))
    with pytest.raises(ProofError, match="does not satisfy"):
        proved(workers, broken)
    assert not workers.dropped


def test_an_honest_worker_spares_the_provider_the_work() -> None:
    workers = Scripted(lambda work: WorkResult("honest", proof_of(0), ""))
    assert proved(workers, never) == proof_of(0)
    assert not workers.dropped


def test_without_a_worker_only_what_is_asked_for_is_proven_here() -> None:
    workers = Scripted(raising(UnreachedError("nobody is there")))
    stated(0).check(proved(workers))
    with pytest.raises(UnreachedError):
        proved(workers, never, asked=False)


def test_a_provider_that_stops_proves_nothing_itself() -> None:
    with pytest.raises(StoppingError):
        proved(Scripted(raising(StoppingError())), never)


def test_the_provider_loads_its_key_before_it_takes_a_turn() -> None:
    """It may be a minute, and whoever else proves waits for a turn."""
    turns, one = Turns(), stated(0)

    def loads() -> Any:
        assert not turns._taken, "everybody waits while a key is loaded"
        return backend()

    workers = Scripted(raising(UnreachedError("nobody is there")))
    one.check(checked_proof(workers, turns, loads, one.work.circuit, one.work.key, one.assignment, one.check, True))
