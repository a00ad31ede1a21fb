// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

// z = inverse CDF of U = coarse || fine, a uniform of "uniformBits" bits. The sign bit folds U to
// U' = 2^uniformBits - 1 - U, so that the table holds z >= 0.
// (magnitude, before, upto) is a row of the noise table and before <= U' < upto by nu chunks each.
// z = magnitude - 2 minus.
template PlaceNoise(uniformBits, fb, c, nf, nu) {
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

    var uniform = coarse * 2 ** fb;
    for (var j = 0; j < nf; j++) { uniform += fine[j] * 2 ** (c * j); }
    sign * (sign - 1) === 0;
    signal flip <== sign * (2 ** uniformBits - 1 - 2 * uniform);
    minus <== sign * magnitude;
    var folded = uniform + flip;

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
