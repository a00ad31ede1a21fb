// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "constants.circom";
include "poseidon.circom";

// The element Poseidon(key, slot + TAG_FINE 2^32) of an open place: fb fine bits, s dither bits (both exact: a narrow chunk is
// looked up scaled up as well), fill chunks, and a canonical top as in CoarseElements.
// first1: first S-box of the key, shared by all places.
template FineElement(fb, s, c, nf, fill, tc) {
    signal input alpha;
    signal input first1;
    signal input slot;
    signal input fine[nf];
    signal input dither;
    signal input filler[fill];
    signal input top[tc - 1];
    signal input difference[tc - 1];
    var n = nf + fill + 2 * tc + 3;
    signal output f[n];

    var C[3 * 8 + POSEIDON_PARTIAL(3)] = POSEIDON_C(3);
    var M[3][3] = POSEIDON_M(3);
    component core = Permute(3);
    core.first[0] <== C[0] ** 5;
    core.first[1] <== first1;
    core.first[2] <== Fifth(C[2] + TAG_FINE() * 2 ** 32)(slot);

    var position = fb + s + fill * c;
    var rest = M[0][0] * core.last[0] + M[1][0] * core.last[1] + M[2][0] * core.last[2];
    for (var j = 0; j < nf; j++) { rest -= fine[j] * 2 ** (c * j); }
    rest -= dither * 2 ** fb;
    for (var j = 0; j < fill; j++) { rest -= filler[j] * 2 ** (fb + s + c * j); }
    rest = rest * (1 / 2 ** position);
    var high = rest;
    var gap = ((-1) >> position) - 1 - rest;
    for (var j = 0; j < tc - 1; j++) {
        high -= top[j] * 2 ** (c * j);
        gap -= difference[j] * 2 ** (c * j);
    }
    high = high * (1 / 2 ** (c * (tc - 1)));
    gap = gap * (1 / 2 ** (c * (tc - 1)));

    for (var k = 0; k < n - 2; k++) {
        var x;
        if (k < nf) { x = fine[k]; }
        else if (k == nf) { x = dither; }
        else if (k < nf + 1 + fill) { x = filler[k - nf - 1]; }
        else if (k < nf + fill + tc) { x = top[k - nf - 1 - fill]; }
        else if (k == nf + fill + tc) { x = high; }
        else if (k < n - 3) { x = difference[k - nf - fill - tc - 1]; }
        else { x = gap; }
        f[k] <-- 1 / (alpha - x);
        f[k] * (alpha - x) === 1;
    }
    var last = fb - c * (nf - 1);
    if (last < c) {
        f[n - 2] <-- 1 / (alpha - fine[nf - 1] * 2 ** (c - last));
        f[n - 2] * (alpha - fine[nf - 1] * 2 ** (c - last)) === 1;
    } else {
        f[n - 2] <== 0;
    }
    if (s < c) {
        f[n - 1] <-- 1 / (alpha - dither * 2 ** (c - s));
        f[n - 1] * (alpha - dither * 2 ** (c - s)) === 1;
    } else {
        f[n - 1] <== 0;
    }
}

// z = inverse CDF of U = coarse || fine. The sign bit folds U to U' = 2^128 - 1 - U, so that the table holds z >= 0; of a
// one-sided law (ONE_SIDED() stands in the class's generated tables) there is nothing to fold and the sign is 0.
// (magnitude, before, upto) is one of its rows and before <= U' < upto by nu chunks each.
// z = magnitude - 2 minus.
template InverseCdf(fb, c, nf, nu) {
    signal input alpha;
    signal input beta;
    signal input beta2;
    signal input coarse;
    signal input fine[nf];
    signal input sign;
    signal input magnitude;
    signal input before;
    signal input upto;
    signal input below[nu - 1];
    signal input above[nu - 1];
    signal output minus;
    signal output fRow;
    signal output f[2 * nu];

    if (ONE_SIDED() == 1) { sign === 0; } else { sign * (sign - 1) === 0; }
    var uniform = coarse * 2 ** fb;
    for (var j = 0; j < nf; j++) { uniform += fine[j] * 2 ** (c * j); }
    signal flip <== sign * (2 ** UNIFORM_BITS() - 1 - 2 * uniform);
    var folded = uniform + flip;
    minus <== sign * magnitude;

    signal betaBefore <== beta * before;
    signal betaUpto <== beta2 * upto;
    fRow <-- 1 / (alpha - magnitude - betaBefore - betaUpto);
    fRow * (alpha - magnitude - betaBefore - betaUpto) === 1;

    var high0 = folded - before;
    var high1 = upto - 1 - folded;
    for (var j = 0; j < nu - 1; j++) {
        high0 -= below[j] * 2 ** (c * j);
        high1 -= above[j] * 2 ** (c * j);
    }
    high0 = high0 * (1 / 2 ** (c * (nu - 1)));
    high1 = high1 * (1 / 2 ** (c * (nu - 1)));
    for (var k = 0; k < 2 * nu; k++) {
        var x;
        if (k < nu - 1) { x = below[k]; }
        else if (k == nu - 1) { x = high0; }
        else if (k < 2 * nu - 1) { x = above[k - nu]; }
        else { x = high1; }
        f[k] <-- 1 / (alpha - x);
        f[k] * (alpha - x) === 1;
    }
}

// clip(w, 0, H) = w - cutLow - cutHigh, exactly: isLow iff w <= 0, isHigh iff w > H, for |w| below 2^(2c). Where w = 0
// nothing is cut either way; that isLow is 1 there makes 1 - isLow the flag: the clipped score is above 0.
template Clip(c) {
    signal input alpha;
    signal input w;
    signal input hmax;
    signal input isLow;
    signal input isHigh;
    signal input low0;
    signal input high0;
    signal output cutLow;
    signal output cutHigh;
    signal output f[4];

    isLow * (isLow - 1) === 0;
    isHigh * (isHigh - 1) === 0;
    cutLow <== isLow * w;
    cutHigh <== isHigh * (w - hmax);
    // w - 1 or -w; H - w or w - H - 1.
    var chunk[4];
    chunk[0] = low0;
    chunk[1] = (w - 1 + isLow - 2 * cutLow - low0) * (1 / 2 ** c);
    chunk[2] = high0;
    chunk[3] = (hmax - w - isHigh + 2 * cutHigh - high0) * (1 / 2 ** c);
    for (var k = 0; k < 4; k++) {
        f[k] <-- 1 / (alpha - chunk[k]);
        f[k] * (alpha - chunk[k]) === 1;
    }
}

// bit = 1 iff value >= 0, for a value whose size fits n chunks: bit ? value : -1 - value is looked up.
template IsNonNegative(n, c) {
    signal input alpha;
    signal input value;
    signal input bit;
    signal input low[n - 1];
    signal output f[n];

    bit * (bit - 1) === 0;
    signal flip <== bit * (2 * value + 1);
    var high = flip - 1 - value;
    for (var j = 0; j < n - 1; j++) { high -= low[j] * 2 ** (c * j); }
    high = high * (1 / 2 ** (c * (n - 1)));
    for (var k = 0; k < n; k++) {
        var x = high;
        if (k < n - 1) { x = low[k]; }
        f[k] <-- 1 / (alpha - x);
        f[k] * (alpha - x) === 1;
    }
}
