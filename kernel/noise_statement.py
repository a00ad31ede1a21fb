# SPDX-License-Identifier: GPL-3.0-or-later
"""What the circuit with noise states of one shard: its public inputs in their order, and the commitments among them.

After the blinder come the scores w, held by C_w; the hints h, held by C_h; and for every slot beta b_i, which a prover
commits to as b_i in C_1: a verifier multiplies that commitment by beta, so that it costs no row.  C_h and C_1 are
opened together, with equal b.  Last comes the threshold (v*, i*), held by C_v, of which a record has one.  A verifier
adds the same C_v to vk_x of every shard's proof, so that all shards have one threshold.
"""

from __future__ import annotations

from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.statement import HintLayout, Input, InputTable, Size

#: Columns of ``slot``.
REMAINDER, COARSE, BOUND, DISTANCE = range(4)
SLOT_HINTS = 4

#: Scores, bounds, distances and noise are in steps.  T's packed ids are those of the whole index.
TABLE = InputTable(
    given=(
        Size("N", "N", "slots of a shard"),
        Size("K", "K", "slots returned, of all shards together"),
        Size("R", "R", "places of a shard"),
        Size("m", "m", "coarse bits a slot"),
        Size("q", "q", "slots a coarse element"),
        Size("c", "c", "bits of a chunk"),
        Size("L", "L", "bits of an id of the whole index"),
        Size("uniformBits", "UNIFORM_BITS", "bits of a uniform"),
        Size("G", "grid", "points of theta's grid"),
        Size("CUT", "table.cut", "largest noise"),
    ),
    derived=(
        Size("PER", "PLACES_PER_ELEMENT", "places whose fine bits one element holds"),
        Size("NE", "elements", "coarse elements"),
        Size("NF", "fine_elements", "elements of fine bits"),
        Size("fb", "fine_bits", "fine bits of a place"),
        Size("nf", "fine_chunks", "chunks of a place's fine bits"),
        Size("fillC", "coarse_filler", "chunks of a coarse element above the slots' bits"),
        Size("topC", "coarse_top", "chunks of its canonical top"),
        Size("fillF", "fine_filler", "chunks of an element of fine bits above those"),
        Size("topF", "fine_top", "chunks of its canonical top"),
        Size("nu", "uniform_chunks", "chunks of a uniform"),
        Size("ni", "id_chunks", "chunks of an id"),
        Size("nt", "returned_chunks", "chunks of a packed id"),
        Size("ncmp", "compare_chunks", "chunks of a place's distance to the threshold"),
    ),
    clear=(
        Input("c_seed", "", "C_seed"),
        Input("beacon", "", "the window's beacon"),
        Input("ctx", "", "hash of the request"),
        Input("hmax", "", "H"),
        Input("t_commit", "", "commitment to T"),
        Input("shard", "", "number of the shard, from 0 on; a verifier supplies it"),
        Input("shards", "", "how many the index has; a verifier supplies it"),
        Input("alpha", "", "challenge"),
        Input("beta", "", "challenge"),
    ),
    hints=(
        Input("slot", f"N, {SLOT_HINTS}", "of a slot: remainder w mod 2^c, coarse bits u, bound Q(u), distance X"),
        Input("coarseFiller", "NE, fillC", "of a coarse element: chunks above the slots' bits"),
        Input("coarseTop", "NE, topC - 1", "lower chunks of its canonical top"),
        Input("coarseRoom", "NE, topC - 1", "lower chunks of what the top leaves to the modulus"),
        Input("fineFiller", "NF, fillF", "of an element with two places' fine bits: chunks above those"),
        Input("fineTop", "NF, topF - 1", "lower chunks of its canonical top"),
        Input("fineRoom", "NF, topF - 1", "lower chunks of what the top leaves to the modulus"),
        Input("coarseCount", "2 ** m", "multiplicities of the table of bounds"),
        Input("rangeCount", "2 ** c", "multiplicities of the chunks"),
        Input("noiseCount", "CUT + 1", "multiplicities of the noise table"),
        Input("placeSlot", "R", "i of a place"),
        Input("placeDigit", "R", "its score k"),
        Input("placeCoarse", "R", "its u"),
        Input("placeBound", "R", "its Q(u)"),
        Input("placeShift", "R", "the low bit of its distance X"),
        Input("placePositive", "R", "bit: k >= 1, the flag"),
        Input("placeCapped", "R", "bit: k > H"),
        Input("placeFull", "R", "bit: it reaches the entry"),
        Input("placeCounted", "R", "bit: u >= theta"),
        Input("placeFine", "R, nf", "chunks of its rank's fine bits"),
        Input("placeSign", "R", "bit: its noise is negative"),
        Input("placeMagnitude", "R", "z, its noise as the noise table has it"),
        Input("placeBefore", "R", "F(z - 1)"),
        Input("placeUpto", "R", "F(z)"),
        Input("placeBelow", "R, nu - 1", "lower chunks of the folded uniform's distance to F(z - 1)"),
        Input("placeAbove", "R, nu - 1", "lower chunks of its distance to F(z)"),
        Input("placeWins", "R", "bit: the place is in T"),
        Input("placeMargin", "R, ncmp - 1", "lower chunks of its distance to the threshold"),
        Input("placeGap", "R + 1, nt - 1", "lower chunks of the distance to the place before it; last, to the end"),
        Input("entry", "", "the entry"),
        Input("thresholdSlotLow", "ni - 1", "lower chunks of i*"),
        Input("thetaChoice", "G", "which point of the grid theta is, one-hot"),
        Input("returned", "K", "2 id + flag of T's slots, increasing"),
        Input("returnedGap", "K + 1, nt - 1", "lower chunks of t'_0, of the distances between T's packed ids, and of "
              "what the last leaves to 2 shards N"),
        Input("insideBelow", "K", "bit: the id lies in a shard before this one"),
        Input("insideBeyond", "K", "bit: it lies in a shard behind this one"),
        Input("insideLow", "K, nt - 1", "lower chunks of its distance to this shard's first packed id"),
        Input("insideHigh", "K, nt - 1", "lower chunks of its distance to this shard's last packed id"),
    ),
    behind=(
        Input("scaledBound", "N", "beta b_i of a slot; C_1 holds b_i"),
        Input("threshold", "", "v*"),
        Input("thresholdSlot", "", "i*, an id of the whole index"),
    ),
)  # fmt: skip

CLEAR_NAMES = tuple(one.name for one in TABLE.clear)
THRESHOLD = tuple(one.name for one in TABLE.behind[1:])  #: held by C_v


class NoiseLayout(HintLayout):
    """The hint vector h of a noise class, beta times the bounds behind it, then the threshold."""

    def __init__(self, cls: NoiseClass) -> None:
        super().__init__(cls, TABLE)
