# SPDX-License-Identifier: GPL-3.0-or-later
"""A window of the lottery whose provider hides winners: what ties the bounds of C_h to those of C_1."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.lottery_scene import Hiding, asked, true_bounds_in_c_1
from tests.simulator import provider as scene
from tests.simulator.live import live

pytestmark = pytest.mark.slow


def test_bounds_among_the_hints_that_are_not_those_of_c_1(tmp_path: Path) -> None:
    """A winner is no place, and the circuit accepts it; pairings hold.  The opening of both commitments does not."""
    engines: list[Hiding] = []

    def hiding(real: object) -> Hiding:
        engines.append(Hiding(real))  # type: ignore[arg-type]
        return engines[-1]

    with live(tmp_path, coins=True, kind=scene.ONE_LOTTERY, engine=hiding, prizes=2) as made:
        policy = made.window.manifest.policy
        with true_bounds_in_c_1(policy.width, 2):
            asked(made)
            assert made.audited().verdict == "PASS"  # proven here, and seen without the opening
        assert any(engine.hidden for engine in engines)
        verdict = made.audited()
        assert verdict.failure is not None, verdict.line()
        assert (verdict.verdict, verdict.failure.number) == ("FAIL", 8)
        assert "the hints opening does not hold" in verdict.failure.message
