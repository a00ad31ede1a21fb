# SPDX-License-Identifier: GPL-3.0-or-later
"""Folded openings that were tampered with, shortened, or made with challenges known beforehand.  SPEC B.7.

A challenge u that does not hash its round's L and R lets anyone "open" what nobody can: L is solved for last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ragseal.kernel import field, folding, noise_stated, opening
from ragseal.kernel.committed import Use
from ragseal.kernel.opening import Opening, Relation
from ragseal.kernel.params import R
from ragseal.kernel.proofs import ProofBatch
from tests.attacks.checks import FOLDS_HASHED, HINTS, LINK, Check, without
from tests.attacks.machine import GROUP
from tests.attacks.world import AttackWorld, Cheat, accepted, queried, refused

pytestmark = pytest.mark.slow

FOREIGN = GROUP.hash_to_curve(b"another point", 1)

TAMPERED: dict[str, Callable[[Opening], Opening]] = {
    "left_of_the_first_round": lambda o: replace(o, folds=(FOREIGN, *o.folds[1:])),
    "right_of_the_last_round": lambda o: replace(o, folds=(*o.folds[:-1], FOREIGN)),
    "first_response": lambda o: replace(o, responses=((o.responses[0] + 1) % R, *o.responses[1:])),
    "last_response": lambda o: replace(o, responses=(*o.responses[:-1], (o.responses[-1] + 1) % R)),
}

SHAPES: dict[str, tuple[Callable[[Opening], Opening], str]] = {
    "a_round_left_out": (
        lambda o: replace(o, folds=o.folds[: -2 * len(o.announcements)]),
        "rounds of folding expected",
    ),
    "a_round_too_many": (
        lambda o: replace(o, folds=(*o.folds, *o.folds[: 2 * len(o.announcements)])),
        "rounds of folding expected",
    ),
    "a_response_left_out": (lambda o: replace(o, responses=o.responses[:-1]), "responses expected"),
    "a_response_too_many": (lambda o: replace(o, responses=(*o.responses, 0)), "responses expected"),
}


def _swap(batch: ProofBatch, part: str, change: Callable[[Opening], Opening]) -> ProofBatch:
    if part == "hints":
        first, *others = batch.openings
        return replace(batch, openings=(change(first), *others))
    link = batch.links[0]
    return replace(batch, links=(replace(link, opening=change(link.opening)), *batch.links[1:]))


#: the links of this world are too short to fold: tests/kernel/test_folding.py has long ones
CASES = [("hints", HINTS, what) for what in (*TAMPERED, *SHAPES)]
CASES += [("link", LINK, what) for what in (*TAMPERED, *SHAPES) if "response" in what]


@pytest.mark.parametrize(("part", "check", "what"), [c for c in CASES if c[2] in TAMPERED])
def test_tampered_opening(part: str, check: Check, what: str) -> None:
    world = queried()
    world.tamper_batch = lambda batch: _swap(batch, part, TAMPERED[what])
    refused(world, 8, f"the {part} opening does not hold")
    with without(check):
        accepted(world)


@pytest.mark.parametrize(("part", "check", "what"), [c for c in CASES if c[2] in SHAPES])
def test_opening_of_another_shape(part: str, check: Check, what: str) -> None:
    change, message = SHAPES[what]
    world = queried()
    world.tamper_batch = lambda batch: _swap(batch, part, change)
    refused(world, 8, message)
    with without(check):
        accepted(world)


def without_witness(use: str, context: bytes, relations: Sequence[Relation], size: int) -> Opening:
    """An opening of commitments that have none: everything is made up, and the last L is what the equation lacks.

    It solves for L after the last u is known, so it holds exactly where u does not depend on L.
    """
    count = len(relations)
    rounds = len(folding.lengths(size, count)) - 1
    points = GROUP.hash_to_curve(b"made up", count * (2 * rounds + 1))
    split = [points[i : i + 64] for i in range(0, len(points), 64)]
    announcements, folds = split[:count], split[count:]
    final = tuple(range(1, folding.lengths(size, count)[-1] + 1))
    statements = opening._combined(GROUP, relations, opening.batching_challenge(use, context))
    transcript, c = opening._transcript(use, context, size, statements, announcements)
    s, w = folding.unfold(GROUP, use, transcript, size, count, folds, field.pack(final))
    by = field.pack(-x % R for x in (w[0], w[0] * c, *w[1:-2], w[-1]))
    for k, relation in enumerate(relations):
        own = folds[k::count]
        others = relation.bases + announcements[k] + statements[k] + b"".join(own[:-2]) + own[-1]
        folds[k - 2 * count] = GROUP.msm(others, relation.pick(GROUP, s) + by)
    return Opening(tuple(announcements), tuple(folds), final)


def test_opening_of_what_nobody_can_open() -> None:
    """C_h with a component along ctx, as in test_hints, and a hint opening that is solved for."""

    def solved(world: AttackWorld) -> None:
        honest = world.open

        def opened(use: Use, context: bytes, relations: Sequence[Relation], rows: Sequence[bytes]) -> Opening:
            made_up = use.name == noise_stated.HINTS
            given = (use, context, relations)
            return without_witness(use.name, context, relations, use.size) if made_up else honest(*given, rows)

        world.open = opened  # type: ignore[method-assign]

    world = queried(Cheat(proven=lambda s, e: replace(s, ctx=12345), compensate=True))
    solved(world)
    refused(world, 8, "the hints opening does not hold")
    with without(FOLDS_HASHED):
        accepted(world)
