// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "poseidon_constants.circom";

// Partial rounds of circomlib's Poseidon for width t = 2, ..., 17.
function POSEIDON_PARTIAL(t) {
    var ROUNDS[16] = [56, 57, 56, 60, 60, 63, 64, 63, 60, 66, 60, 65, 70, 60, 64, 68];
    return ROUNDS[t - 2];
}

// x^5 of (x + round constant): an S-box of the first layer that several permutations share.
// in: any wire; constant: the round constant. Three rows.
template Fifth(constant) {
    signal input in;
    signal output out;
    signal x2 <== (in + constant) * (in + constant);
    signal x4 <== x2 * x2;
    out <== x4 * (in + constant);
}

// Poseidon's permutation of width t between its first and its last linear layer.
//
// first[t]: what the first S-box layer gives (constants cost nothing there, shared elements are paid once).
// last[t]:  what the last S-box layer gives. Output i of the permutation is sum_j M[j][i] * last[j]; callers keep
//           that sum in a var, so it costs no row.
//
// Only the three products of an S-box are signals: 3 (7 t + partial rounds) rows, and no linear row. Constants in the
// sparse form of circomlib.
template Permute(t) {
    signal input first[t];
    signal output last[t];

    var PARTIAL = POSEIDON_PARTIAL(t);
    var C[t * 8 + PARTIAL] = POSEIDON_C(t);
    var S[PARTIAL * (t * 2 - 1)] = POSEIDON_S(t);
    var M[t][t] = POSEIDON_M(t);
    var P[t][t] = POSEIDON_P(t);

    signal x2[7][t];
    signal x4[7][t];
    signal x5[6][t];
    signal y2[PARTIAL];
    signal y4[PARTIAL];
    signal y5[PARTIAL];

    var state[t];
    var mixed[t];
    for (var j = 0; j < t; j++) { state[j] = first[j]; }

    // Full rounds 1 to 3 of the first half; the last of its linear layers is P.
    for (var r = 0; r < 4; r++) {
        if (r > 0) {
            for (var j = 0; j < t; j++) {
                x2[r - 1][j] <== state[j] * state[j];
                x4[r - 1][j] <== x2[r - 1][j] * x2[r - 1][j];
                x5[r - 1][j] <== x4[r - 1][j] * state[j];
                state[j] = x5[r - 1][j];
            }
        }
        for (var j = 0; j < t; j++) { state[j] = state[j] + C[(r + 1) * t + j]; }
        for (var i = 0; i < t; i++) {
            mixed[i] = 0;
            for (var j = 0; j < t; j++) {
                if (r == 3) { mixed[i] += P[j][i] * state[j]; } else { mixed[i] += M[j][i] * state[j]; }
            }
        }
        for (var i = 0; i < t; i++) { state[i] = mixed[i]; }
    }

    var top;
    for (var r = 0; r < PARTIAL; r++) {
        y2[r] <== state[0] * state[0];
        y4[r] <== y2[r] * y2[r];
        y5[r] <== y4[r] * state[0];
        top = y5[r] + C[5 * t + r];
        state[0] = S[(t * 2 - 1) * r] * top;
        for (var i = 1; i < t; i++) {
            state[0] += S[(t * 2 - 1) * r + i] * state[i];
        }
        for (var i = 1; i < t; i++) {
            state[i] = state[i] + top * S[(t * 2 - 1) * r + t + i - 1];
        }
    }

    for (var r = 3; r < 7; r++) {
        for (var j = 0; j < t; j++) {
            x2[r][j] <== state[j] * state[j];
            x4[r][j] <== x2[r][j] * x2[r][j];
            if (r == 6) {
                last[j] <== x4[r][j] * state[j];
            } else {
                x5[r][j] <== x4[r][j] * state[j];
                state[j] = x5[r][j] + C[5 * t + PARTIAL + (r - 3) * t + j];
            }
        }
        if (r < 6) {
            for (var i = 0; i < t; i++) {
                mixed[i] = 0;
                for (var j = 0; j < t; j++) { mixed[i] += M[j][i] * state[j]; }
            }
            for (var i = 0; i < t; i++) { state[i] = mixed[i]; }
        }
    }
}

// Output 0 of the permutation of [0, tag, in...]: circomlib's Poseidon(n + 1), one wire. The tag is a constant.
// For use outside of hot loops.
template Poseidon(tag, n) {
    signal input in[n];
    signal output out;

    var t = n + 2;
    var C[t * 8 + POSEIDON_PARTIAL(t)] = POSEIDON_C(t);
    var M[t][t] = POSEIDON_M(t);

    component core = Permute(t);
    core.first[0] <== C[0] ** 5;
    core.first[1] <== (C[1] + tag) ** 5;
    component fifth[n];
    for (var j = 0; j < n; j++) {
        fifth[j] = Fifth(C[j + 2]);
        fifth[j].in <== in[j];
        core.first[j + 2] <== fifth[j].out;
    }
    var sum = 0;
    for (var j = 0; j < t; j++) { sum += M[j][0] * core.last[j]; }
    out <== sum;
}
