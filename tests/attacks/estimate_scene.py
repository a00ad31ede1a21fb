# SPDX-License-Identifier: GPL-3.0-or-later
"""A window in which alice and bob ask nearly the same twice, with real blocks of six records."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ragseal.groth16.assignments import assign_block
from ragseal.kernel.certificate import Block
from ragseal.verifier.outcome.outcome import Verdict
from tests.simulator import World, policy
from tests.simulator.estimates import SIZE, Case, Estimator, Lie
from tests.simulator.keys import block_backend as backend

NORTH = "north"
LINKED = [(0, 1), (2, 3)]  #: by rank: alice and bob ask alike, twice


def prove(case: Case) -> bytes:
    return backend().prove(assign_block(SIZE, case.clear, case.norms, case.products, case.blind))


def unit(*direction: float) -> list[int]:
    length = math.sqrt(sum(x * x for x in direction))
    return [round(127 * x / length) for x in direction]


#: Two pairs that are nearly alike, and two of carol's that nobody shares.
ASKED = (
    ("alice", unit(1, 2, 3, 4)),
    ("bob", unit(1, 2, 3, 4.3)),
    ("alice", unit(-3, 1, 1, 0.2)),
    ("carol", unit(1, 0, 0, 0)),
    ("bob", unit(-3, 1, 1.2, 0.2)),
    ("carol", unit(0, -1, 0, 1)),
    ("alice", unit(4, 1, -3, -1)),
    ("bob", unit(0, 0, 1, -3)),
    ("bob", unit(-1, -1, -1, 5)),
    ("alice", unit(2, -5, 1, 1)),
)
WEST = 2  #: carol's records: her tenant has a block of its own, in which nobody lies


def window(lie: Lie | None = None, asked: Any = ASKED, **changes: Any) -> World:
    """A closed window with the real estimate's key, and this lie told."""
    world = World()
    world.estimator = Estimator(world, backend().key, prove, lie or Lie())
    world.commit(policy_=policy(**{"n_max": 6, "epsilon_account": "40", **changes}))
    for account, e in asked:
        world.ask(account, e=list(e))
    world.close()
    return world


def refused(world: World, match: str, **options: Any) -> Verdict:
    verdict = world.audit(**options)
    assert verdict.failure is not None, verdict.line()
    assert verdict.failure.number == 9, verdict.line()
    assert match in verdict.failure.message, verdict.line()
    return verdict


def accepted(world: World, **options: Any) -> Verdict:
    verdict = world.audit(**options)
    assert verdict.verdict == "PASS", verdict.line()
    return verdict


def hide(tenant: str, links: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [link for link in links if link != LINKED[0]]


def flipped(block: Block) -> Block:
    """The statement that can be proven, not the one that the signed list makes: the first two records' sign turned."""
    if block.ranks[:2] != LINKED[0] or len(block.ranks) == WEST:
        return block
    return replace(block, signs=(-block.signs[0], *block.signs[1:]))
