# SPDX-License-Identifier: GPL-3.0-or-later
"""Honest statements satisfy the compiled circuit, edge cases included; public signals are the layout's.  SPEC B."""

from __future__ import annotations

import random

import pytest

from ragseal.kernel import hints, mechanism, statement
from tests.circuits.drafts import Draft, Setting

pytestmark = pytest.mark.slow


def reference(d: Draft) -> list[int]:
    """The kernel's own hints for the draft's statement."""
    selection = mechanism.select(d.cls, d.key, d.w, d.hmax)
    assert list(selection.ids) == d.ids
    return hints.reference_hints(d.cls, selection, d.w, d.hmax)


def test_public_signals_stand_in_layout_order(setting: Setting) -> None:
    layout = statement.Layout(setting.cls)
    names = [name.split("[")[0] for name in setting.r1cs.names[1:]]
    assert setting.r1cs.public == layout.public
    assert tuple(names[: statement.CLEAR]) == statement.CLEAR_NAMES
    assert names[layout.scores_at : layout.hints_at] == ["w"] * setting.cls.N
    for group in layout.groups:
        at = layout.hints_at + group.offset
        assert names[at : at + group.count] == [group.name] * group.count
    assert names[layout.blind_at] == "blind"
    assert names[layout.public : layout.public + 3] == ["s_hi", "s_lo", "t_salt"]


def cases(setting: Setting) -> list[tuple[str, list[int] | None, int]]:
    """Scores that reach the corners: ties, all below lo, all above hi, one far out, a window of one step."""
    n, rng = setting.cls.N, random.Random(11)
    far = 1 << (2 * setting.cls.c - 4)
    return [
        ("random", None, 4000),
        ("random again", [rng.randrange(-far, far) for _ in range(n)], far // 2),
        ("equal", [77] * n, 100),
        ("all below the window", [-5000 - i for i in range(n)], 2000),
        ("all above the window", [5000 + i for i in range(n)], 2000),
        ("edges of the window", [(0, 2000, -1, 2001)[i % 4] for i in range(n)], 2000),
        ("one far out", [far] + [-far] * (n - 1), far),
        ("narrowest window", [rng.randrange(-2, 4) for _ in range(n)], 1),
    ]


@pytest.mark.parametrize("case", range(8))
def test_honest_statements_are_accepted(setting: Setting, case: int) -> None:
    name, scores, hmax = cases(setting)[case]
    d = setting.honest(100 + case, scores, hmax)
    assert d.hints() == reference(d), name
    witness = setting.r1cs.solve(d.inputs())
    assert setting.r1cs.violations(witness) == [], name


def test_every_row_is_solved_or_checked_from_the_inputs_alone(setting: Setting) -> None:
    """Row-by-row propagation from the inputs reaches every wire: what the native witness calculator relies on."""
    r1cs = setting.r1cs
    order = r1cs.plan(r1cs.inputs)
    assert len(order) == r1cs.wires - 1 - len(r1cs.inputs)


def test_blinder_is_used_by_no_row(setting: Setting) -> None:
    assert setting.r1cs.rows_of[setting.r1cs.wire_of["blind"]] == ()


def test_every_other_input_is_used(setting: Setting) -> None:
    r1cs = setting.r1cs
    unused = [r1cs.names[w] for w in r1cs.inputs if not r1cs.rows_of[w]]
    assert unused == ["blind"]


def test_changing_any_public_input_is_rejected(tiny: Setting) -> None:
    """Every clear input and a sample of every hint group, one at a time, all else recomputed."""
    d = tiny.honest(7)
    inputs, r1cs, rng = d.inputs(), tiny.r1cs, random.Random(5)
    layout = statement.Layout(d.cls)
    wires = [*range(1, 1 + statement.CLEAR - 2)]  # alpha and beta may be anything
    wires += [1 + layout.hints_at + g.offset + rng.randrange(g.count) for g in layout.groups]
    for w in wires:
        forged = {**inputs, w: inputs[w] + 1}
        assert r1cs.violations(r1cs.solve(forged)), r1cs.names[w]
