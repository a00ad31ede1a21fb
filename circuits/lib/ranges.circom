// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

// Range checks by committed chunks. A value is low chunks (committed, looked up) and a highest chunk that is derived
// linearly from value and low chunks, and looked up too. "range" outputs are partial sums of 1/(alpha - chunk).

// value in [0, 2^bits) exactly: a narrow highest chunk is looked up scaled up as well.
template ExactRange(bits, c) {
    var n = (bits + c - 1) \ c;
    var last = bits - c * (n - 1);
    signal input alpha;
    signal input value;
    signal input low[n - 1];
    signal output range;

    var high = value;
    for (var j = 0; j < n - 1; j++) { high -= low[j] * 2 ** (c * j); }
    high = high * (1 / 2 ** (c * (n - 1)));

    signal f[n + 1];
    var sum = 0;
    for (var j = 0; j < n; j++) {
        var x = high;
        if (j < n - 1) { x = low[j]; }
        f[j] <-- 1 / (alpha - x);
        f[j] * (alpha - x) === 1;
        sum += f[j];
    }
    if (last < c) {
        f[n] <-- 1 / (alpha - high * 2 ** (c - last));
        f[n] * (alpha - high * 2 ** (c - last)) === 1;
        sum += f[n];
    } else {
        f[n] <== 0;
    }
    range <== sum;
}

// in[0] < in[1] < ...: every difference less one has n chunks.
template Increasing(count, n, c) {
    signal input alpha;
    signal input in[count];
    signal input low[count - 1][n - 1];
    signal output range;

    signal f[count - 1][n];
    component total = Total((count - 1) * n);
    for (var k = 0; k < count - 1; k++) {
        var high = in[k + 1] - in[k] - 1;
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
