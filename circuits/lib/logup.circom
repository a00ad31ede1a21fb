// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

// Look-ups by logarithmic derivatives: a multiset of values equals a table with multiplicities iff
// sum 1/(alpha - value) = sum mult/(alpha - entry) at a random alpha that is drawn after all of them are committed.
// A fraction is a signal f with one row f * (alpha - value) === numerator; such f, and inverses, are the only wires
// that a prover assigns. In this folder their names start with "f", and nothing else that is free does.

// Sum of n wires through partial sums: one long var would make the compiler quadratic.
template Total(n) {
    signal input in[n];
    signal output out;

    var CHUNK = 128;
    var parts = (n + CHUNK - 1) \ CHUNK;
    signal part[parts];
    var all = 0;
    for (var p = 0; p < parts; p++) {
        var sum = 0;
        for (var k = p * CHUNK; k < n && k < (p + 1) * CHUNK; k++) { sum += in[k]; }
        part[p] <== sum;
        all += part[p];
    }
    out <== all;
}

// Right side of the look-up in [0, 2^c): sum_j mult_j / (alpha - j).
template RangeTable(c) {
    signal input alpha;
    signal input mult[2 ** c];
    signal output out;

    signal f[2 ** c];
    component total = Total(2 ** c);
    for (var j = 0; j < 2 ** c; j++) {
        f[j] <-- mult[j] / (alpha - j);
        f[j] * (alpha - j) === mult[j];
        total.in[j] <== f[j];
    }
    out <== total.out;
}

// Right side of the look-up of coarse bits and their bound: sum_k mult_k / (alpha - k - beta B(k)).
// COARSE_BOUNDS comes from the class's generated tables.
template CoarseBounds(m) {
    signal input alpha;
    signal input beta;
    signal input mult[2 ** m];
    signal output out;

    var B[2 ** m] = COARSE_BOUNDS();
    signal f[2 ** m];
    component total = Total(2 ** m);
    for (var k = 0; k < 2 ** m; k++) {
        f[k] <-- mult[k] / (alpha - k - beta * B[k]);
        f[k] * (alpha - k - beta * B[k]) === mult[k];
        total.in[k] <== f[k];
    }
    out <== total.out;
}

// Right side of the look-up of folded noise: sum_x mult_x / (alpha - x - beta F(x-1) - beta^2 F(x)), x = 0, ..., cut.
// NOISE_CDF()[x] is F(x - 1).
template FoldedRows(cut) {
    signal input alpha;
    signal input beta;
    signal input beta2;
    signal input mult[cut + 1];
    signal output out;

    var F[cut + 2] = NOISE_CDF();
    signal f[cut + 1];
    component total = Total(cut + 1);
    for (var x = 0; x <= cut; x++) {
        f[x] <-- mult[x] / (alpha - x - beta * F[x] - beta2 * F[x + 1]);
        f[x] * (alpha - x - beta * F[x] - beta2 * F[x + 1]) === mult[x];
        total.in[x] <== f[x];
    }
    out <== total.out;
}
