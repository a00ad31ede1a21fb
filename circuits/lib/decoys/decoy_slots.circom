// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "logup.circom";

// What every slot pays: one row, and one more where a distance has two chunks.
//
// The verifier makes both wires of commitments: x = -y + (beta + 2^c beta^4) m + beta^2 i m + b + beta^3 (b' - b) and
// z = hi + beta^4 m, where m says that the slot is returned, b that it lies behind the last winner, b' that the next one
// does, and hi is the high chunk of its distance X = entry - 1 + b - y to the threshold. So what is looked up is the low
// chunk of X, with beta m + beta^2 i m + beta^3 (b' - b), which a slot has to owe to a returned element.
template DecoySlots(N, chunks, c) {
    signal input alpha;
    signal input entry;
    signal input x[N];
    signal input high[N * (chunks - 1)];
    signal output sum;

    signal f[N];
    signal fHigh[N * (chunks - 1)];
    component total = Total(N * chunks);
    for (var i = 0; i < N; i++) {
        var distance = entry - 1 + x[i];
        if (chunks == 2) { distance -= high[i] * 2 ** c; }
        f[i] <-- 1 / (alpha - distance);
        f[i] * (alpha - distance) === 1;
        total.in[i] <== f[i];
        if (chunks == 2) {
            fHigh[i] <-- 1 / (alpha - high[i]);
            fHigh[i] * (alpha - high[i]) === 1;
            total.in[N + i] <== fHigh[i];
        }
    }
    sum <== total.out;
}
