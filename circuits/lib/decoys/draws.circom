// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "constants.circom";
include "poseidon.circom";
include "logup.circom";

function TAG_DRAWS() { return 9; }

// One block of a wide permutation's outputs, each split into ids of L bits and a canonical rest: output e + 1 of the
// permutation of [0, key, block + TAG_DRAWS 2^32, shard, 0, ...] holds per ids, lowest first, then fill chunks, then a top
// that is proven canonical: its tc chunks, and those of what it leaves to the modulus' top bits less one, are looked up.
// The highest chunk of each is derived.
//
// An id is in [0, 2^L) exactly: its nl chunks are looked up, and a narrow highest one scaled up as well.
//
// count: outputs used (16, fewer in the last block).
// low: of each output the lower chunks of its ids, then its filler chunks, then the lower chunks of its top, then those of what
// the top leaves. In one array: the compiler divides by an empty one's size where blocks differ.
// first1, first2, first3: first S-boxes of the key and of the shard's number (shared), and of the block's (a constant).
template DrawBlock(count, per, L, c, fill, tc) {
    var nl = (L + c - 1) \ c;
    var narrow = c * nl - L;
    signal input alpha;
    signal input first1;
    signal input first2;
    signal input first3;
    signal input value[count][per];
    signal input low[count][per * (nl - 1) + fill + 2 * (tc - 1)];
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

    var filler = per * (nl - 1);
    var tops = filler + fill;
    var position = per * L + fill * c;
    var limit = ((-1) >> position) - 1;
    var ofId = nl;
    if (narrow > 0) { ofId = nl + 1; }
    var each = per * ofId + fill + 2 * tc;
    signal f[count][each];
    component total = Total(count * each);
    for (var e = 0; e < count; e++) {
        var above = 0;
        for (var j = 0; j < 17; j++) { above += M[j][e + 1] * core.last[j]; }
        for (var v = 0; v < per; v++) { above -= value[e][v] * 2 ** (L * v); }
        for (var j = 0; j < fill; j++) { above -= low[e][filler + j] * 2 ** (per * L + c * j); }
        above = above * (1 / 2 ** position);
        var high = above;
        var gap = limit - above;
        for (var j = 0; j < tc - 1; j++) {
            high -= low[e][tops + j] * 2 ** (c * j);
            gap -= low[e][tops + tc - 1 + j] * 2 ** (c * j);
        }
        high = high * (1 / 2 ** (c * (tc - 1)));
        gap = gap * (1 / 2 ** (c * (tc - 1)));
        for (var k = 0; k < each; k++) {
            var x;
            if (k < per * ofId) {
                var v = k \ ofId;
                var at = k % ofId;
                if (at < nl - 1) { x = low[e][v * (nl - 1) + at]; }
                else {
                    x = value[e][v];
                    for (var j = 0; j < nl - 1; j++) { x -= low[e][v * (nl - 1) + j] * 2 ** (c * j); }
                    x = x * (1 / 2 ** (c * (nl - 1)));
                    if (at == nl) { x = x * 2 ** narrow; }
                }
            }
            else if (k < per * ofId + fill + tc - 1) { x = low[e][filler + k - per * ofId]; }
            else if (k == per * ofId + fill + tc - 1) { x = high; }
            else if (k < each - 1) { x = low[e][filler + k - per * ofId - 1]; }
            else { x = gap; }
            f[e][k] <-- 1 / (alpha - x);
            f[e][k] * (alpha - x) === 1;
            total.in[e * each + k] <== f[e][k];
        }
    }
    range <== total.out;
}

// How many draws count: J with F(J - 1) <= U < F(J), F the policy's cumulated table, F(-1) = 0, U the first u ids.
//
// act[j]: draw j counts, j < J. With 1 before the first and 0 behind the last, every step down is a bit and they add up to
// 1: so act is 1, ..., 1, 0, ..., 0. Both distances are nu chunks: low and high hold the lower ones.
template DrawCount(J, u, L, c) {
    var nu = (u * L + c - 1) \ c;
    signal input alpha;
    signal input table[J + 1];
    signal input uniform;
    signal input act[J];
    signal input low[nu - 1];
    signal input high[nu - 1];
    signal output range;

    signal before[J];
    signal upto[J + 1];
    var from = 0;
    var to = 0;
    for (var j = 0; j <= J; j++) {
        var step;
        if (j == 0) { step = 1 - act[0]; }
        else if (j == J) { step = act[J - 1]; }
        else { step = act[j - 1] - act[j]; }
        step * (step - 1) === 0;
        if (j > 0) {
            before[j - 1] <== step * table[j - 1];
            from += before[j - 1];
        }
        upto[j] <== step * table[j];
        to += upto[j];
    }
    var above = uniform - from;
    var below = to - 1 - uniform;
    for (var j = 0; j < nu - 1; j++) {
        above -= low[j] * 2 ** (c * j);
        below -= high[j] * 2 ** (c * j);
    }
    above = above * (1 / 2 ** (c * (nu - 1)));
    below = below * (1 / 2 ** (c * (nu - 1)));
    signal f[2 * nu];
    var sum = 0;
    for (var k = 0; k < 2 * nu; k++) {
        var x;
        if (k < nu - 1) { x = low[k]; }
        else if (k == nu - 1) { x = above; }
        else if (k < 2 * nu - 1) { x = high[k - nu]; }
        else { x = below; }
        f[k] <-- 1 / (alpha - x);
        f[k] * (alpha - x) === 1;
        sum += f[k];
    }
    range <== sum;
}

// One draw's fraction: 1 / (alpha - id) where it counts and is not void. A void id is N or more, by nl chunks of what it
// exceeds N by. One of N or more that is not called void has no slot to be: nothing need say that it is void. Where 2^L = N
// no id is void, and that is left out.
template Draw(N, L, c) {
    var nl = (L + c - 1) \ c;
    var v = 1;
    if (2 ** L == N) { v = 0; }
    signal input alpha;
    signal input id;
    signal input act;
    signal input void[v];
    signal input low[v * (nl - 1)];
    signal output fDraw;
    signal output range;

    signal beyond[v];
    signal real[v];
    signal f[v * nl];
    var sum = 0;
    var counts = act;
    if (v == 1) {
        void[0] * (void[0] - 1) === 0;
        beyond[0] <== void[0] * (id - N);
        real[0] <== act * (1 - void[0]);
        counts = real[0];
        var high = beyond[0];
        for (var j = 0; j < nl - 1; j++) { high -= low[j] * 2 ** (c * j); }
        high = high * (1 / 2 ** (c * (nl - 1)));
        for (var k = 0; k < nl; k++) {
            var x = high;
            if (k < nl - 1) { x = low[k]; }
            f[k] <-- 1 / (alpha - x);
            f[k] * (alpha - x) === 1;
            sum += f[k];
        }
    }
    fDraw <-- counts / (alpha - id);
    fDraw * (alpha - id) === counts;
    range <== sum;
}
