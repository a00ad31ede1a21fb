// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "logup.circom";

// What every slot pays: five rows.
//
// Columns of a slot: remainder, coarse bits u, bound b = Q(u), distance X. Its digit k = (w - remainder) / 2^c has no row:
// it is an integer in range wherever it matters, as docs/proofs/noise.md shows.
//
// coarse:  (u, b) is a row of the coarse table. scaledBound is beta b, which the verifier makes of a commitment to b.
// range:   the remainder and X.
// opening: e / (alpha - key), e = (Y + k)(Y + H), Y = X + b - entry + 1, key = slot + 2^(L+1) u + 2^(L+1+m) X. e = 0 says
//          that k or H, whichever the prover chose, stays below the entry with the slot's bound; other slots must be
//          places.
template NoiseSlots(N, m, c, L) {
    signal input alpha;
    signal input hmax;
    signal input entry;
    signal input w[N];
    signal input slot[N][4];
    signal input scaledBound[N];
    signal output coarse;
    signal output range;
    signal output opening;

    signal e[N];
    signal fCoarse[N];
    signal fRemainder[N];
    signal fDistance[N];
    signal fOpen[N];
    component coarseTotal = Total(N);
    component rangeTotal = Total(2 * N);
    component openTotal = Total(N);
    for (var i = 0; i < N; i++) {
        fCoarse[i] <-- 1 / (alpha - slot[i][1] - scaledBound[i]);
        fCoarse[i] * (alpha - slot[i][1] - scaledBound[i]) === 1;
        fRemainder[i] <-- 1 / (alpha - slot[i][0]);
        fRemainder[i] * (alpha - slot[i][0]) === 1;
        fDistance[i] <-- 1 / (alpha - slot[i][3]);
        fDistance[i] * (alpha - slot[i][3]) === 1;

        var digit = (w[i] - slot[i][0]) * (1 / 2 ** c);
        var y = slot[i][3] + slot[i][2] - entry + 1;
        var key = i + slot[i][1] * 2 ** (L + 1) + slot[i][3] * 2 ** (L + 1 + m);
        e[i] <== (y + digit) * (y + hmax);
        fOpen[i] <-- e[i] / (alpha - key);
        fOpen[i] * (alpha - key) === e[i];

        coarseTotal.in[i] <== fCoarse[i];
        rangeTotal.in[2 * i] <== fRemainder[i];
        rangeTotal.in[2 * i + 1] <== fDistance[i];
        openTotal.in[i] <== fOpen[i];
    }
    coarse <== coarseTotal.out;
    range <== rangeTotal.out;
    opening <== openTotal.out;
}
