// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "logup.circom";

// theta from the constant grid 2^m - G + 1, ..., 2^m by a one-hot choice, with Q(theta - 1) < entry, and the number of
// slots and places with u >= theta, read off the coarse table's multiplicities. threshold - entry is a chunk.
// mult: those of k = 2^m - G + 1, ..., 2^m - 1.
template Entry(m, G) {
    signal input alpha;
    signal input choice[G];
    signal input entry;
    signal input threshold;
    signal input mult[G - 1];
    signal output theta;
    signal output reach;
    signal output range;

    var B[2 ** m] = COARSE_BOUNDS();
    var first = 2 ** m - G + 1;
    var chosen = 0;
    var point = 0;
    var bound = 0;
    var all = 0;
    signal counted[G - 1];
    for (var g = 0; g < G; g++) {
        choice[g] * (choice[g] - 1) === 0;
        chosen += choice[g];
        point += choice[g] * (first + g);
        bound += choice[g] * B[first + g - 1];
        if (g < G - 1) {
            counted[g] <== chosen * mult[g];
            all += counted[g];
        }
    }
    chosen === 1;
    theta <== point;
    reach <== all;

    signal f[2];
    f[0] <-- 1 / (alpha - entry + 1 + bound);
    f[0] * (alpha - entry + 1 + bound) === 1;
    f[1] <-- 1 / (alpha - threshold + entry);
    f[1] * (alpha - threshold + entry) === 1;
    range <== f[0] + f[1];
}

// The order of places: full ones first, each kind by slot. With virtual places before (full, slot -1) and after (not full,
// slot N), slot - 2^L full increases strictly, by n chunks each; then full slots lie in [0, 2^(L+1)), others in
// [-2^L, 2^L), and no two places have one slot and one kind.
template PlaceOrder(R, N, L, n, c) {
    signal input alpha;
    signal input slot[R];
    signal input full[R];
    signal input low[R + 1][n - 1];
    signal output range;

    signal f[R + 1][n];
    component total = Total((R + 1) * n);
    for (var k = 0; k <= R; k++) {
        var high;
        if (k == 0) { high = slot[0] - full[0] * 2 ** L + 2 ** L; }
        else if (k == R) { high = N - 1 - slot[R - 1] + full[R - 1] * 2 ** L; }
        else { high = slot[k] - slot[k - 1] - 1 + (full[k - 1] - full[k]) * 2 ** L; }
        for (var j = 0; j < n - 1; j++) { high -= low[k][j] * 2 ** (c * j); }
        high = high * (1 / 2 ** (c * (n - 1)));
        for (var j = 0; j < n; j++) {
            var x = high;
            if (j < n - 1) { x = low[k][j]; }
            f[k][j] <-- 1 / (alpha - x);
            f[k][j] * (alpha - x) === 1;
            total.in[k * n + j] <== f[k][j];
        }
    }
    for (var k = 1; k < R; k++) { (1 - full[k - 1]) * full[k] === 0; }
    // At least one place is not full, so that the entry cannot be lower.
    full[R - 1] === 0;
    range <== total.out;
}
