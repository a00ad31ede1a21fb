// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "logup.circom";

// What every slot pays: five rows.
//
// Columns of a slot: low chunk of its distance X, coarse bits u, bound b (u, or u + H + 2^m of a prize), high chunk of X.
//
// coarse:  (u, b) is a row of the coarse table. scaledBound is beta b, which the verifier makes of a commitment to b.
// range:   both chunks of X.
// opening: e / (alpha - key), e = (Y + w)(Y + H), Y = X + b - v* + 1, key = slot + 2^L u + 2^(L+m) X. e = 0 says that w or
//          H, whichever the prover chose, stays below the threshold with the slot's bound; other slots must be places.
template LotterySlots(N, m, c, L) {
    signal input alpha;
    signal input hmax;
    signal input threshold;
    signal input w[N];
    signal input slot[N][4];
    signal input scaledBound[N];
    signal output coarse;
    signal output range;
    signal output opening;

    signal e[N];
    signal fCoarse[N];
    signal fLow[N];
    signal fHigh[N];
    signal fOpen[N];
    component coarseTotal = Total(N);
    component rangeTotal = Total(2 * N);
    component openTotal = Total(N);
    for (var i = 0; i < N; i++) {
        fCoarse[i] <-- 1 / (alpha - slot[i][1] - scaledBound[i]);
        fCoarse[i] * (alpha - slot[i][1] - scaledBound[i]) === 1;
        fLow[i] <-- 1 / (alpha - slot[i][0]);
        fLow[i] * (alpha - slot[i][0]) === 1;
        fHigh[i] <-- 1 / (alpha - slot[i][3]);
        fHigh[i] * (alpha - slot[i][3]) === 1;

        var distance = slot[i][0] + slot[i][3] * 2 ** c;
        var y = distance + slot[i][2] - threshold + 1;
        var key = i + slot[i][1] * 2 ** L + distance * 2 ** (L + m);
        e[i] <== (y + w[i]) * (y + hmax);
        fOpen[i] <-- e[i] / (alpha - key);
        fOpen[i] * (alpha - key) === e[i];

        coarseTotal.in[i] <== fCoarse[i];
        rangeTotal.in[2 * i] <== fLow[i];
        rangeTotal.in[2 * i + 1] <== fHigh[i];
        openTotal.in[i] <== fOpen[i];
    }
    coarse <== coarseTotal.out;
    range <== rangeTotal.out;
    opening <== openTotal.out;
}
