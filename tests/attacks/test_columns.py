# SPDX-License-Identifier: GPL-3.0-or-later
"""Index columns with a component outside {Y_i, B}: every C_w then carries it.  SPEC A.3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ragseal.kernel.params import R
from tests.attacks.checks import COLUMNS, predictable, without
from tests.attacks.machine import honest_tenants, machine, make_tenant
from tests.attacks.world import AttackWorld, Cheat, Extra, accepted, queried, refused
from tests.simulator.parties import GAIN

pytestmark = pytest.mark.slow

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
