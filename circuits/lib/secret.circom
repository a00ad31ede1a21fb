// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "constants.circom";
include "poseidon.circom";

// C_seed = Poseidon(1, s_hi, s_lo).
template SeedCommitment() {
    signal input seed[2];
    signal output out;
    out <== Poseidon(TAG_SEED(), 2)(seed);
}

// The key of one request's noise: Poseidon(2, s_hi, s_lo, beacon, ctx).
template NoiseKey() {
    signal input seed[2];
    signal input beacon;
    signal input ctx;
    signal output out;
    out <== Poseidon(TAG_KEY(), 4)([seed[0], seed[1], beacon, ctx]);
}

// Commitment to the returned slots: Poseidon(5, salt, packed ids with flags ...), lowest first, 248 bits an element.
// returned: 2 id + flag each, L + 1 bits.
template PlacesCommitment(K, L) {
    signal input salt;
    signal input returned[K];
    signal output out;

    var width = L + 1;
    var per = PACKED_BITS() \ width;
    var elements = (K + per - 1) \ per;
    component hash = Poseidon(TAG_PLACES(), 1 + elements);
    hash.in[0] <== salt;
    for (var e = 0; e < elements; e++) {
        var packed = 0;
        for (var k = 0; k < per && e * per + k < K; k++) { packed += returned[e * per + k] * 2 ** (width * k); }
        hash.in[1 + e] <== packed;
    }
    out <== hash.out;
}
