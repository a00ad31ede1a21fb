# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints of circuits that commit to the bounds of slots apart: the one with noise, and the lottery.  SPEC B.5.1."""

from __future__ import annotations

from typing import ClassVar

from ragseal.kernel.params import ClassSizes
from ragseal.kernel.statement import HintLayout, Input, InputTable, Size

#: Columns of ``slot``.
REMAINDER, COARSE, BOUND, DISTANCE = range(4)
SLOT_HINTS = 4

# What the tables of these circuits have in common.
CHUNKED = (
    Size("m", "m", "coarse bits a slot"),
    Size("q", "q", "slots a coarse element"),
    Size("c", "c", "bits of a chunk"),
)
STATED = (
    Input("c_seed", "", "C_seed"),
    Input("beacon", "", "the window's beacon"),
    Input("ctx", "", "hash of the request"),
    Input("hmax", "", "H"),
    Input("t_commit", "", "commitment to T"),
)
DRAWN = (Input("alpha", "", "challenge"), Input("beta", "", "challenge"))
COARSE_ELEMENTS = (
    Input("coarseFiller", "NE, fillC", "of a coarse element: chunks above the slots' bits"),
    Input("coarseTop", "NE, topC - 1", "lower chunks of its canonical top"),
    Input("coarseRoom", "NE, topC - 1", "lower chunks of what the top leaves to the modulus"),
)
COUNTS = (
    Input("coarseCount", "2 ** m", "multiplicities of the table of bounds"),
    Input("rangeCount", "2 ** c", "multiplicities of the chunks"),
)
SCALED = Input("scaledBound", "N", "beta b_i of a slot; C_1 holds b_i")


class ScaledLayout(HintLayout):
    """A hint vector h that begins with SLOT_HINTS hints of every slot, and beta times their bounds behind it."""

    TABLE: ClassVar[InputTable]  #: behind the hints: the scaled bounds, then what C_v holds

    def __init__(self, cls: ClassSizes) -> None:
        super().__init__(cls, self.TABLE)

    @property
    def clear_names(self) -> tuple[str, ...]:
        """What a verifier knows; alpha and beta are the last two."""
        return tuple(one.name for one in self.TABLE.clear)

    @property
    def shared_names(self) -> tuple[str, ...]:
        """What C_v holds, equal in all shards of a record."""
        return tuple(one.name for one in self.TABLE.behind[1:])

    @property
    def scaled_at(self) -> int:
        """Index of beta b_0."""
        return self.hints_at + self.size

    @property
    def shared_at(self) -> int:
        """Index of the first input that C_v holds."""
        return self.scaled_at + self._slots

    @property
    def public(self) -> int:
        """All public inputs of the circuit: clear, blinder, scores, hints, scaled bounds, what C_v holds."""
        return self.shared_at + len(self.shared_names)

    @property
    def names(self) -> tuple[str, ...]:
        """Signals of the circuit that are public, in order."""
        groups = (group.name for group in self.groups)
        return (*self.clear_names, "blind", "w", *groups, SCALED.name, *self.shared_names)
