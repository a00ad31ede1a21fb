// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "poseidon.circom";

// One block of a wide permutation's outputs, each split into values and a canonical rest: output e + 1 of the permutation
// of [0, key, block + tag 2^32, shard, 0, ...] holds "values" numbers of "width" bits, each of "chunks" chunks of c bits, then
// fill chunks, then a top that is proven canonical: its tc chunks, and those of what it leaves to the modulus' top bits
// less one, are looked up. The highest chunk of each is derived.
//
// count: outputs used (16, fewer in the last block). The values are looked up elsewhere.
// rest: of each output its filler chunks, then the lower chunks of its top, then those of what the top leaves. One array,
// since the compiler fails on components of several shapes that have an empty one.
// first1, first2, first3: first S-boxes of the key (shared by all blocks), of the block number (a constant), and of the
// shard's number (shared).
template ShardElements(count, values, width, chunks, c, fill, tc) {
    signal input alpha;
    signal input first1;
    signal input first2;
    signal input first3;
    signal input value[count][values * chunks];
    signal input rest[count][fill + 2 * (tc - 1)];
    signal output range;

    var C[17 * 8 + POSEIDON_PARTIAL(17)] = POSEIDON_C(17);
    var M[17][17] = POSEIDON_M(17);
    component core = Permute(17);
    for (var j = 0; j < 17; j++) {
        if (j == 1) { core.first[j] <== first1; }
        else if (j == 2) { core.first[j] <== first2; }
        else if (j == 3) { core.first[j] <== first3; }
        else { core.first[j] <== C[j] ** 5; }
    }

    var used = values * width;
    var position = used + fill * c;
    var limit = ((-1) >> position) - 1;
    var each = fill + 2 * tc;
    signal f[count][each];
    var sum = 0;
    for (var e = 0; e < count; e++) {
        var above = 0;
        for (var j = 0; j < 17; j++) { above += M[j][e + 1] * core.last[j]; }
        for (var v = 0; v < values; v++) {
            for (var j = 0; j < chunks; j++) { above -= value[e][v * chunks + j] * 2 ** (v * width + c * j); }
        }
        for (var j = 0; j < fill; j++) { above -= rest[e][j] * 2 ** (used + c * j); }
        above = above * (1 / 2 ** position);
        var high = above;
        var gap = limit - above;
        for (var j = 0; j < tc - 1; j++) {
            high -= rest[e][fill + j] * 2 ** (c * j);
            gap -= rest[e][fill + tc - 1 + j] * 2 ** (c * j);
        }
        high = high * (1 / 2 ** (c * (tc - 1)));
        gap = gap * (1 / 2 ** (c * (tc - 1)));
        for (var k = 0; k < each; k++) {
            var x;
            if (k < fill + tc - 1) { x = rest[e][k]; }
            else if (k == fill + tc - 1) { x = high; }
            else if (k < each - 1) { x = rest[e][k - 1]; }
            else { x = gap; }
            f[e][k] <-- 1 / (alpha - x);
            f[e][k] * (alpha - x) === 1;
            sum += f[e][k];
        }
    }
    range <== sum;
}
