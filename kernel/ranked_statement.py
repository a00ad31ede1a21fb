# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ranked circuit states: its public inputs in their order, and the three commitments among them.

The clear inputs are those of :mod:`ragseal.kernel.statement`, with ``hmax`` = H in steps.  After the blinder come the
scores w, held by C_w; the hints h, held by C_h; and for every slot beta b_i, which a prover commits to as b_i in C_1: a
verifier multiplies that commitment by beta, so that it costs no row.  C_h and C_1 are opened together, with equal b.

Legend of the hints, all in steps unless stated:

slot[i]             remainder w mod 2^c, coarse bits u, bound Q(u), distance X, of slot i
coarseFiller, coarseTop, coarseRoom     of a coarse element: chunks above the slots' bits, of its canonical top, and of
                    what the top leaves to the modulus
fineFiller, fineTop, fineRoom           the same of an element with two places' fine bits
coarseCount, rangeCount, noiseCount     multiplicities of the three tables
placeSlot, placeDigit, placeCoarse, placeBound      i, k, u and Q(u) of a place
placeShift          the low bit of its distance X
placePositive, placeCapped, placeFull, placeCounted     bits: k >= 1 (the flag), k > H, it reaches the entry, u >= theta
placeFine           chunks of its rank's fine bits
placeSign, placeMagnitude, placeBefore, placeUpto       its noise as the noise table has it, with F(z - 1) and F(z)
placeBelow, placeAbove      chunks of the folded uniform's distances to them
placeWins, placeMargin      bit: it is in T; chunks of its distance to the threshold
placeGap            chunks of the distance to the place before it
entry, threshold, thresholdSlot, thresholdSlotLow       the entry, v*, i* and i*'s lower chunks
thetaChoice         which point of the grid theta is
returned, returnedGap       2 id + flag of T's slots, increasing, and chunks of their distances
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.kernel.params import ClassSizes
from ragseal.kernel.ranked_class import RankedClass
from ragseal.kernel.statement import HintLayout

#: Columns of ``slot``.
REMAINDER, COARSE, BOUND, DISTANCE = range(4)
SLOT_HINTS = 4


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


class RankedLayout(ScaledLayout):
    """The hint vector h of a ranked class, and beta times the bounds behind it."""

    def __init__(self, cls: RankedClass, shapes: Sequence[tuple[str, tuple[int, ...]]] = ()) -> None:
        """``shapes``: of another circuit's hints; none for the ranked one's."""
        self.cls = cls
        super().__init__(cls.N, shapes or self.ranked_shapes(cls))

    @staticmethod
    def ranked_shapes(cls: RankedClass) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the ranked circuit's hints, in order."""
        n, r, k = cls.N, cls.R, cls.K
        return [
            ("slot", (n, SLOT_HINTS)),
            ("coarseFiller", (cls.elements, cls.coarse_filler)),
            ("coarseTop", (cls.elements, cls.coarse_top - 1)),
            ("coarseRoom", (cls.elements, cls.coarse_top - 1)),
            ("fineFiller", (cls.fine_elements, cls.fine_filler)),
            ("fineTop", (cls.fine_elements, cls.fine_top - 1)),
            ("fineRoom", (cls.fine_elements, cls.fine_top - 1)),
            ("coarseCount", (1 << cls.m,)), ("rangeCount", (1 << cls.c,)), ("noiseCount", (cls.table.cut + 1,)),
            ("placeSlot", (r,)), ("placeDigit", (r,)), ("placeCoarse", (r,)), ("placeBound", (r,)),
            ("placeShift", (r,)), ("placePositive", (r,)), ("placeCapped", (r,)), ("placeFull", (r,)),
            ("placeCounted", (r,)), ("placeFine", (r, cls.fine_chunks)), ("placeSign", (r, cls.sides - 1)),
            ("placeMagnitude", (r,)), ("placeBefore", (r,)), ("placeUpto", (r,)),
            ("placeBelow", (r, cls.uniform_chunks - 1)), ("placeAbove", (r, cls.uniform_chunks - 1)),
            ("placeWins", (r,)), ("placeMargin", (r, cls.compare_chunks - 1)),
            ("placeGap", (r + 1, cls.returned_chunks - 1)),
            ("entry", (1,)), ("threshold", (1,)), ("thresholdSlot", (1,)), ("thresholdSlotLow", (cls.id_chunks - 1,)),
            ("thetaChoice", (cls.grid,)),
            ("returned", (k,)), ("returnedGap", (k - 1, cls.returned_chunks - 1)),
        ]  # fmt: skip


def bounds_of(h: Sequence[int], cls: ClassSizes) -> list[int]:
    """b_0 .. b_(N-1) out of a hint vector: what C_1 commits to."""
    return list(h[BOUND : SLOT_HINTS * cls.N : SLOT_HINTS])
