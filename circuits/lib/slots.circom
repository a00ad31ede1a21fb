// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "logup.circom";

// What every slot pays (SPEC B.6.2 and B.6.3): six rows.
//
// coarse: (u, b) is a row of the coarse table.
// range:  both chunks of X.
// opening: e / (alpha - key), e = (Y + w)(Y + H), Y = X + b - v* + 1, key = slot 2^m + u + 2^(L+m) X. e = 0 says that
//          w or H, whichever P chose, stays below the threshold with the slot's bound; other slots must be places.
template Slots(N, m, c, L) {
    signal input alpha;
    signal input beta;
    signal input hmax;
    signal input threshold;
    signal input w[N];
    signal input u[N];
    signal input b[N];
    signal input x0[N];
    signal input x1[N];
    signal output coarse;
    signal output range;
    signal output opening;

    signal e[N];
    signal betaB[N];
    signal fCoarse[N];
    signal f0[N];
    signal f1[N];
    signal fOpen[N];
    component coarseTotal = Total(N);
    component rangeTotal = Total(2 * N);
    component openTotal = Total(N);
    for (var i = 0; i < N; i++) {
        betaB[i] <== beta * b[i];
        fCoarse[i] <-- 1 / (alpha - u[i] - betaB[i]);
        fCoarse[i] * (alpha - u[i] - betaB[i]) === 1;

        f0[i] <-- 1 / (alpha - x0[i]);
        f0[i] * (alpha - x0[i]) === 1;
        f1[i] <-- 1 / (alpha - x1[i]);
        f1[i] * (alpha - x1[i]) === 1;

        var x = x0[i] + x1[i] * 2 ** c;
        var y = x + b[i] - threshold + 1;
        var key = i * 2 ** m + u[i] + x * 2 ** (L + m);
        e[i] <== (y + w[i]) * (y + hmax);
        fOpen[i] <-- e[i] / (alpha - key);
        fOpen[i] * (alpha - key) === e[i];

        coarseTotal.in[i] <== fCoarse[i];
        rangeTotal.in[2 * i] <== f0[i];
        rangeTotal.in[2 * i + 1] <== f1[i];
        openTotal.in[i] <== fOpen[i];
    }
    coarse <== coarseTotal.out;
    range <== rangeTotal.out;
    opening <== openTotal.out;
}
