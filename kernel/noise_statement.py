# SPDX-License-Identifier: GPL-3.0-or-later
"""What the circuit with noise states of one shard: its public inputs in their order, and the commitments among them.

The clear inputs are those of :mod:`ragseal.kernel.statement`, with ``hmax`` = H in steps, and ``shard``, its number
from 0 on, and ``shards``, how many the index has; a verifier supplies both.  After the blinder come the scores w, held
by C_w; the hints h, held by C_h; and for every slot beta b_i, which a prover commits to as b_i in C_1: a verifier
multiplies that commitment by beta, so that it costs no row.  C_h and C_1 are opened together, with equal b.  Last comes
the threshold (v*, i*), i* an id of the whole index, held by C_v, of which a record has one.  A verifier adds the same
C_v to vk_x of every shard's proof, so that all shards have one threshold.  T's packed ids are those of the whole index.

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
entry, thresholdSlotLow     the entry, and i*'s lower chunks
thetaChoice         which point of the grid theta is
returned            2 id + flag of T's slots, increasing
returnedGap         chunks of t'_0, of the distances between T's packed ids, and of what the last leaves to 2 shards N
insideBelow, insideBeyond       bits of an id: it lies in a shard before this one, in one behind it
insideLow, insideHigh           chunks of an id's distances to this shard's first and last packed id
"""

from __future__ import annotations

from typing import ClassVar

from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.scaled_layout import SLOT_HINTS, ScaledLayout

CLEAR_NAMES = ("c_seed", "beacon", "ctx", "hmax", "t_commit", "shard", "shards", "alpha", "beta")
THRESHOLD = ("threshold", "thresholdSlot")  #: held by C_v


class NoiseLayout(ScaledLayout):
    """The hint vector h of a noise class, beta times the bounds behind it, then the threshold."""

    clear_names: ClassVar[tuple[str, ...]] = CLEAR_NAMES
    shared_names: ClassVar[tuple[str, ...]] = THRESHOLD

    def __init__(self, cls: NoiseClass) -> None:
        n, r, k = cls.N, cls.R, cls.K
        super().__init__(n, [
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
            ("entry", (1,)), ("thresholdSlotLow", (cls.id_chunks - 1,)),
            ("thetaChoice", (cls.grid,)),
            ("returned", (k,)), ("returnedGap", (k + 1, cls.returned_chunks - 1)),
            ("insideBelow", (k,)), ("insideBeyond", (k,)),
            ("insideLow", (k, cls.returned_chunks - 1)), ("insideHigh", (k, cls.returned_chunks - 1)),
        ])  # fmt: skip
