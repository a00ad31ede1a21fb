# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints of circuits that commit to the bounds of slots apart: the one with noise, and the lottery.  SPEC B.5.1."""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.kernel.params import ClassSizes
from ragseal.kernel.statement import HintLayout, Input

#: Columns of ``slot``.
REMAINDER, COARSE, BOUND, DISTANCE = range(4)
SLOT_HINTS = 4
SCALED = Input("scaledBound", "N", "beta b_i of a slot; C_1 holds b_i")


class ScaledLayout(HintLayout):
    """A hint vector h that begins with SLOT_HINTS hints of every slot, and beta times their bounds behind it."""

    @property
    def scaled_at(self) -> int:
        """Index of beta b_0."""
        return self.hints_at + self.size

    @property
    def public(self) -> int:
        """All public inputs of the circuit: clear, blinder, scores, hints, scaled bounds."""
        return self.scaled_at + self._slots


def bounds_of(h: Sequence[int], cls: ClassSizes) -> list[int]:
    """b_0 .. b_(N-1) out of a hint vector: what C_1 commits to."""
    return list(h[BOUND : SLOT_HINTS * cls.N : SLOT_HINTS])
