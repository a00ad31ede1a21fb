# SPDX-License-Identifier: GPL-3.0-or-later
"""C_y that is not C_e's e over the account's own columns.  SPEC B.7, B.11."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragseal.kernel.params import R
from tests.attacks.checks import LINK, without
from tests.attacks.machine import machine
from tests.attacks.world import Cheat, accepted, queried, refused
from tests.simulator.parties import GAIN

pytestmark = pytest.mark.slow


def _raise_first(w: list[int]) -> list[int]:
    return [w[0] + 9000 * GAIN, *w[1:]]


VARIANTS = {
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


@pytest.mark.parametrize("variant", VARIANTS)
def test_score_commitment_that_is_not_of_the_committed_query(variant: str) -> None:
    world = queried(VARIANTS[variant]())
    refused(world, 8, "the link opening does not hold")
    with without(LINK):
        accepted(world)
