# SPDX-License-Identifier: GPL-3.0-or-later
"""C_h with a component outside {W_j, B}: the proof is of another statement, and no pairing can tell.

C_h' = C_h + (x' - x) * IC_x makes a proof for x' pass where the ledger says x: vk_x is the same point.
SPEC B.7.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragseal.kernel import statement
from ragseal.kernel.law import Asked
from ragseal.kernel.params import R
from tests.attacks.checks import HINTS, predictable, without
from tests.attacks.world import AttackWorld, Cheat, accepted, queried, refused

pytestmark = pytest.mark.slow

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
