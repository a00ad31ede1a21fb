# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lottery's circuit states: its public inputs in their order, and the three commitments among them.

As :mod:`ragseal.kernel.noise_statement`, but for this.  An index has one shard: clear inputs have ``prizes``, the
policy's j, where those have the shards, and the threshold is among the hints.  ``hmax`` is H in units of w.  The bound
of a slot is b = u, or u + H + 2^m of a prize.

Legend of the hints, in units of w unless stated:

slot[i]             low chunk of the distance X, coarse bits u, bound b, high chunk of X, of slot i
coarseFiller, coarseTop, coarseRoom     of a coarse element, as in a noise class
coarseCount, rangeCount     multiplicities of the two tables
placeSlot, placeScore, placeCoarse, placeBound      i, w (not clipped), u and b of a place
placeDistance       its distance X, one chunk
placePositive, placeCapped, placePrize, placeCounted    bits: w >= 1 (the flag), w > H, it has a prize, u >= theta
placeFloor, placeCeiling    low chunks of the distance of w to 0 and to H
placeWins, placeMargin      bit: it is in T; chunks of its distance to the threshold
placeGap            chunks of the distance to the place before it
threshold, thresholdLow     v*, and the low chunk of its distance to theta
thresholdSlot, thresholdSlotLow     i* and its lower chunks
thetaChoice         which point of the grid theta is
prizeChoice         which of 1, 2, ... the number of prizes is
returned, returnedGap       2 id + flag of T's slots, increasing, and chunks of their distances
"""

from __future__ import annotations

from typing import ClassVar

from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.scaled_layout import SLOT_HINTS, ScaledLayout

CLEAR_NAMES = ("c_seed", "beacon", "ctx", "hmax", "t_commit", "prizes", "alpha", "beta")


class LotteryLayout(ScaledLayout):
    """The hint vector h of a lottery's class, and beta times the bounds behind it."""

    clear_names: ClassVar[tuple[str, ...]] = CLEAR_NAMES

    def __init__(self, cls: LotteryClass) -> None:
        n, r, k = cls.N, cls.R, cls.K
        super().__init__(n, [
            ("slot", (n, SLOT_HINTS)),
            ("coarseFiller", (cls.elements, cls.coarse_filler)),
            ("coarseTop", (cls.elements, cls.coarse_top - 1)),
            ("coarseRoom", (cls.elements, cls.coarse_top - 1)),
            ("coarseCount", (1 << cls.m,)), ("rangeCount", (1 << cls.c,)),
            ("placeSlot", (r,)), ("placeScore", (r,)), ("placeCoarse", (r,)), ("placeBound", (r,)),
            ("placeDistance", (r,)),
            ("placePositive", (r,)), ("placeCapped", (r,)), ("placePrize", (r,)), ("placeCounted", (r,)),
            ("placeFloor", (r,)), ("placeCeiling", (r,)),
            ("placeWins", (r,)), ("placeMargin", (r, cls.compare_chunks - 1)),
            ("placeGap", (r + 1, cls.id_chunks - 1)),
            ("threshold", (1,)), ("thresholdLow", (1,)),
            ("thresholdSlot", (1,)), ("thresholdSlotLow", (cls.id_chunks - 1,)),
            ("thetaChoice", (cls.grid - 1,)), ("prizeChoice", (cls.prizes,)),
            ("returned", (k,)), ("returnedGap", (k - 1, cls.returned_chunks - 1)),
        ])  # fmt: skip
