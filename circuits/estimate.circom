// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

// Phase C's statement about one block of n records of a tenant (SPEC C.4): the committed inner products of all pairs lie on
// the side of the threshold that the signed list of links says, norms are those of quantised unit vectors, and s is the
// quadratic form of the products at r.  That the products are those of the ledger's vectors is proven outside, for s alone.
//
// Public, in this order: clear inputs; a blinder that no constraint uses; norms and products, then s, which enter only
// through two commitments.  Order and names are those of kernel/certificate.py.  Only the last template reads r, and of
// what a prover assigns it reads committed inputs alone.

// value in [0, 2^16): 15 bits are given, the highest is what they leave.
template Bits16() {
    signal input value;
    signal input bits[15];

    var rest = value;
    for (var j = 0; j < 15; j++) {
        bits[j] * (bits[j] - 1) === 0;
        rest -= bits[j] * 2 ** j;
    }
    var top = rest * (1 / 2 ** 15);
    top * (top - 1) === 0;
}

// sign 1: product <= threshold - 1.  sign -1: product >= threshold.  sign 0: anything.
template Side() {
    signal input threshold;
    signal input sign;
    signal input product;
    signal input bits[15];

    signal distance <== sign * (threshold - product - (sign + 1) * (1 / 2));
    Bits16()(distance, bits);
}

// present 1: low <= norm <= high.  present 0: anything.
template NearUnit() {
    signal input low;
    signal input high;
    signal input present;
    signal input norm;
    signal input lowBits[15];
    signal input highBits[15];

    signal above <== present * (norm - low);
    Bits16()(above, lowBits);
    signal below <== present * (high - norm);
    Bits16()(below, highBits);
}

// sum_a r_a^2 norm_a + 2 sum_{a<b} r_a r_b product_ab, pairs by increasing a, then b.
template QuadraticForm(n) {
    signal input r[n];
    signal input norm[n];
    signal input product[n * (n - 1) \ 2];
    signal output out;

    signal square[n];
    signal cross[n * (n - 1) \ 2];
    signal row[n];
    var sum = 0;
    var k = 0;
    for (var a = 0; a < n; a++) {
        square[a] <== r[a] * norm[a];
        var inner = square[a];
        for (var b = a + 1; b < n; b++) {
            cross[k] <== r[b] * product[k];
            inner += 2 * cross[k];
            k++;
        }
        row[a] <== r[a] * inner;
        sum += row[a];
    }
    out <== sum;
}

template Estimate(n) {
    var pairs = n * (n - 1) \ 2;

    signal input threshold;
    signal input normLow;
    signal input normHigh;
    signal input r[n];
    signal input present[n];
    signal input sign[pairs];
    signal input blind;

    signal input norm[n];
    signal input product[pairs];
    signal input s;

    signal input lowBits[n][15];
    signal input highBits[n][15];
    signal input productBits[pairs][15];

    for (var a = 0; a < n; a++) {
        NearUnit()(normLow, normHigh, present[a], norm[a], lowBits[a], highBits[a]);
    }
    for (var k = 0; k < pairs; k++) {
        Side()(threshold, sign[k], product[k], productBits[k]);
    }
    signal form <== QuadraticForm(n)(r, norm, product);
    s === form;
}
