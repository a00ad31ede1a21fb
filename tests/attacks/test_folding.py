# SPDX-License-Identifier: GPL-3.0-or-later
"""Folded openings that were tampered with, shortened, or made with challenges known beforehand.  SPEC B.7.

A challenge u that does not hash its round's L and R lets anyone "open" what nobody can: L is solved for last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from ragseal.kernel import field, folding, noise_stated, opening, statement
from ragseal.kernel.committed import Use
from ragseal.kernel.law import Asked
from ragseal.kernel.opening import Opening, Relation
from ragseal.kernel.params import R
from ragseal.kernel.proofs import ProofBatch
from tests.attacks.checks import COLUMNS, FOLDS_HASHED, HINTS, LINK, Check, predictable, without
from tests.attacks.machine import GROUP, honest_tenants, machine, make_tenant
from tests.attacks.world import AttackWorld, Cheat, Extra, accepted, queried, refused
from tests.simulator.parties import GAIN

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
    """C_h with a component along ctx, as above, and a hint opening that is solved for."""

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


# Index columns with a component outside {Y_i, B}: every C_w then carries it. SPEC A.3.


SHIFT = 1 << 77  #: of a score; C_w has GAIN times that


def _world(cheat: Cheat, extra: Mapping[int, Extra]) -> AttackWorld:
    """Tenant south's columns carry the component; carol is its only account."""
    return queried(cheat, tenants={**honest_tenants(), "south": make_tenant("south", extra)})


def test_column_with_a_component_along_a_clear_input() -> None:
    """The provider knows e before the request is signed, hence by how much ctx will be off."""
    cheat = Cheat(proven=lambda s, e: replace(s, ctx=(s.ctx + GAIN * e[0] * SHIFT) % R))
    world = _world(cheat, {0: ((machine().base("ctx"), SHIFT),)})
    refused(world, 4, "the columns opening does not hold")
    with without(COLUMNS):
        accepted(world)


@pytest.mark.parametrize("name", ["slot", "entry"])
def test_column_with_a_component_along_a_hint_base(name: str) -> None:
    """A hint that is committed in C_w instead of C_h."""
    key = machine().key
    at = key.layout.by_name[name].offset
    cheat = Cheat(h_in_scores=lambda e: {at: GAIN * e[0] * SHIFT})
    world = _world(cheat, {0: ((key.bases(key.layout.hints_at + at, 1), SHIFT),)})
    refused(world, 4, "the columns opening does not hold")
    with without(COLUMNS):
        accepted(world)


def test_columns_fixed_after_chi() -> None:
    """With chi known first, the components of two columns cancel in the fold; chi hashes all columns."""
    chi = 7
    base, other = machine().base("ctx"), -SHIFT * pow(chi, -1, R) % R
    cheat = Cheat(proven=lambda s, e: replace(s, ctx=(s.ctx + GAIN * (e[0] * SHIFT + e[1] * other)) % R))
    extra = {0: ((base, SHIFT),), 1: ((base, other),)}
    refused(_world(cheat, extra), 4, "the columns opening does not hold")
    with predictable("columns", chi):
        accepted(queried(cheat, tenants={"north": make_tenant("north"), "south": make_tenant("south", extra)}))


# C_h with a component outside {W_j, B}: the proof is of another statement, and no pairing can tell. C_h' = C_h + (x'
# - x) * IC_x makes a proof for x' pass where the ledger says x: vk_x is the same point. SPEC B.7.


OTHER_SEED = (11, 12)


def test_an_honest_window_passes() -> None:
    accepted(queried())


def _another_set(returned: list[statement.Returned]) -> list[statement.Returned]:
    """A set that did not win."""
    return sorted(replace(one, slot=(one.slot + 1) % 126) for one in returned)


def _raised(returned: list[statement.Returned]) -> list[statement.Returned]:
    """The winners, all with their flags set: every text could be opened."""
    assert not all(one.flag for one in returned)
    return [replace(one, flag=True) for one in returned]


def _one_score(w: list[int]) -> list[int]:
    """The lowest score becomes the best possible one."""
    worst = w.index(min(w))
    return [800 if i == worst else x for i, x in enumerate(w)]


VARIANTS = {
    "ctx": Cheat(proven=lambda s, e: replace(s, ctx=12345), compensate=True),
    "c_seed": Cheat(
        proven=lambda s, e: replace(s, c_seed=statement.seed_commitment(OTHER_SEED)), seed=OTHER_SEED, compensate=True
    ),
    "hmax": Cheat(proven=lambda s, e: replace(s, asked=Asked((8 * s.asked.inputs[0],))), compensate=True),
    "t_commit": Cheat(released=_another_set, compensate=True),
    "flags": Cheat(released=_raised, compensate=True),
    "score": Cheat(scores=_one_score, compensate=True),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_hint_commitment_with_a_component_outside_its_span(variant: str) -> None:
    world = queried(VARIANTS[variant])
    assert world.kept[world.digest, 1].h_extra
    refused(world, 8, "the hints opening does not hold")
    with without(HINTS):
        accepted(world)


def test_components_that_cancel_under_a_predictable_chi() -> None:
    """Two records' components cancel in the fold if chi is known before C_h is fixed; it hashes every C_h."""
    chi, shift = 7, 1 << 60

    def by(amount: int) -> Cheat:
        return Cheat(proven=lambda s, e: replace(s, ctx=(s.ctx + amount) % R), compensate=True)

    world = AttackWorld()
    world.commit()
    for account, cheat in (("alice", None), ("carol", by(shift * chi)), ("bob", by(-shift))):
        world.ask(account, cheat)
    world.close()
    refused(world, 8, "the hints opening does not hold")
    with predictable("hints", chi):
        accepted(world)


# C_y that is not C_e's e over the account's own columns. SPEC B.7, B.11.


def _raise_first(w: list[int]) -> list[int]:
    return [w[0] + 9000 * GAIN, *w[1:]]


LINK_VARIANTS = {
    "columns_of_another_tenant": lambda: Cheat(columns_of="north"),
    "another_e": lambda: Cheat(e_of_scores=lambda e: [-x for x in e]),
    "one_entry_of_e_off_by_one": lambda: Cheat(e_of_scores=lambda e: [e[0] + 1, *e[1:]]),
    "component_along_a_score_base": lambda: Cheat(y_extra=((machine().key.scores.y[:64], 9000),), scores=_raise_first),
    "component_along_ctx": lambda: Cheat(
        y_extra=((machine().base("ctx"), 5),), proven=lambda s, e: replace(s, ctx=(s.ctx + 5 * GAIN) % R)
    ),
    "component_along_a_hint_base": lambda: Cheat(
        y_extra=((machine().key.bases(machine().key.layout.hints_at, 1), 5),), h_in_scores=lambda e: {0: 5 * GAIN}
    ),
}


@pytest.mark.parametrize("variant", LINK_VARIANTS)
def test_score_commitment_that_is_not_of_the_committed_query(variant: str) -> None:
    world = queried(LINK_VARIANTS[variant]())
    refused(world, 8, "the link opening does not hold")
    with without(LINK):
        accepted(world)
