// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "logup.circom";

// The threshold (v*, i*), equal in all shards, as this shard has it, and what ends a list.
//
// past: bit, i* lies before this shard, so that v* itself loses in it: entry = v* + past. behind: bit, the last of its
// elements has passed i*.
// short: 1 where all slots above lo are returned, and no more than K. over: 1 where all that is returned was drawn, and K at
// least. Neither: it is K. They need not be bits: where they add up to 1 and none of them is 0, both hold.
template Threshold(N, nw, nn, chunks, c) {
    signal input alpha;
    signal input shard;
    signal input floor;
    signal input k;
    signal input threshold;
    signal input slot;
    signal input short;
    signal input over;
    signal input total;
    signal input past;
    signal input behind;
    signal input pastLow[nw - 1];
    signal input thresholdLow[chunks - 1];
    signal input totalLow[nn - 1];
    signal output entry;
    signal output range;

    var base = N * shard;
    past * (past - 1) === 0;
    entry <== threshold + past;

    // past ? base - 1 - i* : i* - base; v* - lo - 1; (over - short)(n - K): each in range.
    signal turned <== past * (2 * (slot - base) + 1);
    signal excess <== (over - short) * (total - k);
    (1 - short - over) * (total - k) === 0;
    short * (threshold - floor - 1) === 0;
    short * (past + behind) === 0;

    var slot0 = slot - base - turned;
    var threshold0 = threshold - floor - 1;
    var total0 = excess;
    for (var j = 0; j < nw - 1; j++) { slot0 -= pastLow[j] * 2 ** (c * j); }
    for (var j = 0; j < chunks - 1; j++) { threshold0 -= thresholdLow[j] * 2 ** (c * j); }
    for (var j = 0; j < nn - 1; j++) { total0 -= totalLow[j] * 2 ** (c * j); }
    slot0 = slot0 * (1 / 2 ** (c * (nw - 1)));
    threshold0 = threshold0 * (1 / 2 ** (c * (chunks - 1)));
    total0 = total0 * (1 / 2 ** (c * (nn - 1)));
    var n = nw + chunks + nn;
    signal f[n];
    var sum = 0;
    for (var j = 0; j < n; j++) {
        var x;
        if (j < nw - 1) { x = pastLow[j]; }
        else if (j == nw - 1) { x = slot0; }
        else if (j < nw + chunks - 1) { x = thresholdLow[j - nw]; }
        else if (j == nw + chunks - 1) { x = threshold0; }
        else if (j < n - 1) { x = totalLow[j - nw - chunks]; }
        else { x = total0; }
        f[j] <-- 1 / (alpha - x);
        f[j] * (alpha - x) === 1;
        sum += f[j];
    }
    range <== sum;
}
