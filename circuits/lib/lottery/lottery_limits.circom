// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "logup.circom";

// theta from the constant grid 2^m - G + 1, ..., 2^m - 1 by a one-hot choice, at most v* and at most the first prize
// 2^m - j, and the number of slots and places with u >= theta, read off the coarse table's multiplicities. low: the low
// chunk of v* - theta, which makes v* an integer.
// mult: those of k = 2^m - G + 1, ..., 2^m - 1.
template LotteryLimits(m, c, G) {
    signal input alpha;
    signal input prizes;
    signal input choice[G - 1];
    signal input threshold;
    signal input low;
    signal input mult[G - 1];
    signal output theta;
    signal output reach;
    signal output range;

    var first = 2 ** m - G + 1;
    var chosen = 0;
    var point = 0;
    var all = 0;
    signal counted[G - 1];
    for (var g = 0; g < G - 1; g++) {
        choice[g] * (choice[g] - 1) === 0;
        chosen += choice[g];
        point += choice[g] * (first + g);
        counted[g] <== chosen * mult[g];
        all += counted[g];
    }
    chosen === 1;
    theta <== point;
    reach <== all;

    signal f[3];
    var sum = 0;
    for (var k = 0; k < 3; k++) {
        var x;
        if (k == 0) { x = low; }
        else if (k == 1) { x = (threshold - point - low) * (1 / 2 ** c); }
        else { x = 2 ** m - prizes - point; }
        f[k] <-- 1 / (alpha - x);
        f[k] * (alpha - x) === 1;
        sum += f[k];
    }
    range <== sum;
}

// Slots of places increase strictly, from 0 at least to N - 1 at most: with -1 before the first and N behind the last, every
// distance less one is n chunks. So each is an integer in [0, N), and no two are equal.
template LotteryOrder(R, N, n, c) {
    signal input alpha;
    signal input slot[R];
    signal input low[R + 1][n - 1];
    signal output range;

    signal f[R + 1][n];
    component total = Total((R + 1) * n);
    for (var k = 0; k <= R; k++) {
        var high;
        if (k == 0) { high = slot[0]; }
        else if (k == R) { high = N - 1 - slot[R - 1]; }
        else { high = slot[k] - slot[k - 1] - 1; }
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
    range <== total.out;
}
