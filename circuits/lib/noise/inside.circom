// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "logup.circom";

// Whether a packed id (2 id + flag) lies in shard number "shard", that is in [2 N shard, 2 N (shard + 1)), decided exactly:
// below says that it lies before the shard, beyond that it lies behind it, by n chunks of the distance to either end.
// fInside: 1 / (alpha - its packed slot in the shard) of an id inside, 0 of another.
template Inside(N, n, c) {
    signal input alpha;
    signal input shard;
    signal input packed;
    signal input below;
    signal input beyond;
    signal input low[n - 1];
    signal input high[n - 1];
    signal output fInside;
    signal output range;

    below * (below - 1) === 0;
    beyond * (beyond - 1) === 0;
    var first = packed - 2 * N * shard;
    var last = 2 * N - 1 - first;
    signal before <== below * (2 * first + 1);
    signal behind <== beyond * (2 * last + 1);

    // first or -1 - first, last or -1 - last
    var high0 = first - before;
    var high1 = last - behind;
    for (var j = 0; j < n - 1; j++) {
        high0 -= low[j] * 2 ** (c * j);
        high1 -= high[j] * 2 ** (c * j);
    }
    high0 = high0 * (1 / 2 ** (c * (n - 1)));
    high1 = high1 * (1 / 2 ** (c * (n - 1)));
    signal f[2 * n];
    var sum = 0;
    for (var k = 0; k < 2 * n; k++) {
        var x;
        if (k < n - 1) { x = low[k]; }
        else if (k == n - 1) { x = high0; }
        else if (k < 2 * n - 1) { x = high[k - n]; }
        else { x = high1; }
        f[k] <-- 1 / (alpha - x);
        f[k] * (alpha - x) === 1;
        sum += f[k];
    }
    range <== sum;

    fInside <-- (1 - below - beyond) / (alpha - first);
    fInside * (alpha - first) === 1 - below - beyond;
}

// Packed ids that increase strictly from 0 at least to 2 N shards - 1 at most: with -1 before the first and 2 N shards
// behind the last, every distance less one is n chunks.
template Partitioned(K, N, n, c) {
    signal input alpha;
    signal input shards;
    signal input packed[K];
    signal input low[K + 1][n - 1];
    signal output range;

    signal f[K + 1][n];
    component total = Total((K + 1) * n);
    for (var k = 0; k <= K; k++) {
        var high;
        if (k == 0) { high = packed[0]; }
        else if (k == K) { high = 2 * N * shards - 1 - packed[K - 1]; }
        else { high = packed[k] - packed[k - 1] - 1; }
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
