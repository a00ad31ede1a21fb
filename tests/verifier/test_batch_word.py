# SPDX-License-Identifier: GPL-3.0-or-later
"""The product over a batch has the last word: looking for a culprit one by one, and finding none, is no acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragseal.kernel.errors import ProofError
from tests.simulator import BindingKey, World, asked
from tests.simulator.estimates import BindingBlockKey, Estimator

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
