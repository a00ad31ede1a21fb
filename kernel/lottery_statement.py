# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lottery's circuit states: its public inputs in their order, and the three commitments among them.

As :mod:`ragseal.kernel.noise_statement`, but for this.  An index has one shard: clear inputs have ``prizes``, the
policy's j, where those have the shards, and the threshold is among the hints.  The bound of a slot is b = u, or
u + H + 2^m of a prize.
"""

from __future__ import annotations

from typing import ClassVar

from ragseal.kernel import scaled_layout as common
from ragseal.kernel.scaled_layout import SCALED, SLOT_HINTS, ScaledLayout
from ragseal.kernel.statement import Input, InputTable, Size

#: Scores, bounds and distances are in units of w.
TABLE = InputTable(
    given=(
        Size("N", "N", "slots"),
        Size("K", "K", "slots returned"),
        Size("R", "R", "places"),
        *common.CHUNKED,
        Size("most", "prizes", "the largest number of prizes"),
        Size("G", "grid", "points of theta's grid, 2^m among them"),
        Size("L", "L", "bits of an id, the smallest L with 2^L >= N"),
    ),
    derived=(
        Size("NE", "elements", "coarse elements"),
        Size("fillC", "coarse_filler", "chunks of a coarse element above the slots' bits"),
        Size("topC", "coarse_top", "chunks of its canonical top"),
        Size("ni", "id_chunks", "chunks of an id"),
        Size("nt", "returned_chunks", "chunks of a packed id"),
        Size("ncmp", "compare_chunks", "chunks of a place's distance to the threshold"),
    ),
    clear=(
        *common.STATED,
        Input("prizes", "", "j, the policy's"),
        *common.DRAWN,
    ),
    hints=(
        Input("slot", f"N, {SLOT_HINTS}", "of a slot: low chunk of the distance X, coarse bits u, bound b, "
              "high chunk of X"),
        *common.COARSE_ELEMENTS,
        *common.COUNTS,
        Input("placeSlot", "R", "i of a place"),
        Input("placeScore", "R", "its w, not clipped"),
        Input("placeCoarse", "R", "its u"),
        Input("placeBound", "R", "its b"),
        Input("placeDistance", "R", "its distance X, one chunk"),
        Input("placePositive", "R", "bit: w >= 1, the flag"),
        Input("placeCapped", "R", "bit: w > H"),
        Input("placePrize", "R", "bit: it has a prize"),
        Input("placeCounted", "R", "bit: u >= theta"),
        Input("placeFloor", "R", "low chunk of the distance of w to 0"),
        Input("placeCeiling", "R", "low chunk of the distance of w to H"),
        Input("placeWins", "R", "bit: the place is in T"),
        Input("placeMargin", "R, ncmp - 1", "lower chunks of its distance to the threshold"),
        Input("placeGap", "R + 1, ni - 1", "lower chunks of the distance to the place before it; last, to the end"),
        Input("threshold", "", "v*"),
        Input("thresholdLow", "", "the low chunk of its distance to theta"),
        Input("thresholdSlot", "", "i*"),
        Input("thresholdSlotLow", "ni - 1", "lower chunks of i*"),
        Input("thetaChoice", "G - 1", "which point of the grid theta is, one-hot"),
        Input("prizeChoice", "most", "which of 1, 2, ... the number of prizes is, one-hot"),
        Input("returned", "K", "2 id + flag of T's slots, increasing"),
        Input("returnedGap", "K - 1, nt - 1", "lower chunks of their distances"),
    ),
    behind=(SCALED,),
)  # fmt: skip

CLEAR_NAMES = tuple(one.name for one in TABLE.clear)


class LotteryLayout(ScaledLayout):
    """The hint vector h of a lottery's class, and beta times the bounds behind it."""

    TABLE: ClassVar[InputTable] = TABLE
