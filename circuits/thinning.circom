// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "constants.circom";
include "poseidon.circom";
include "logup.circom";

function TOP_CHUNKS() { return 5; }

// The thinned index's statement (docs/proofs/thinning.md): w' is w with every hidden slot's entry 0, and a slot is hidden
// exactly if its coin, by the committed seed and the context, lies below j.  w and w' are combinations of the columns at
// weights that this circuit does not know.
//
// Public, in this order: clear inputs; a blinder that no constraint uses; what the verifier makes of commitments, two
// wires a slot; hints.  Order and names are those of kernel/thinning_class.py.  With h_i = [coin_i < j], a slot has
//
//     placed = w_i,    mixed = w'_i - beta coin_i w_i + beta^2 h_i + beta^3 coin_i,
//
// so that one product, (h_i + beta coin_i)(beta^2 - placed) = mixed - placed, says of each power of beta what it should.
// Everything that these and the hints are made of was committed before alpha and beta.  j is not here: of coinCount, the
// verifier has no bases but those of the pairs that are in its table (h = 0 and coins from j on, h = 1 and coins below j).
// A slot costs 2 rows, an element of 26 coins 7, a block of 16 elements 561.
template Thinning(N) {
    var bits = COIN_BITS();
    var per = 208 \ bits;
    var position = per * bits;
    var E = (N + per - 1) \ per;
    var chunks = TOP_CHUNKS();
    var size = ELEMENTS_PER_BLOCK();
    var blocks = (E + size - 1) \ size;
    var limit = (-1) >> position;
    var tops = (limit >> (chunks * bits)) + 1;
    var looked = per * E - N + chunks * E;

    signal input c_coin;
    signal input context;
    signal input alpha;
    signal input beta;
    signal input blind;

    signal input placed[N];
    signal input mixed[N];

    signal input hides[E];
    signal input byte[looked];
    signal input topCount[tops];
    signal input byteCount[2 ** bits];
    signal input coinCount[2 * 2 ** bits];

    signal input s_hi;
    signal input s_lo;

    signal commitment <== Poseidon(TAG_COIN_SEED(), 2)([s_hi, s_lo]);
    c_coin === commitment;
    signal key <== Poseidon(TAG_COIN_KEY(), 3)([s_hi, s_lo, context]);

    // Output e + 1 of the permutation of [0, key, block + TAG_COINS 2^32, 0, ...] is an element.
    var C[17 * 8 + POSEIDON_PARTIAL(17)] = POSEIDON_C(17);
    var M[17][17] = POSEIDON_M(17);
    signal first <== Fifth(C[1])(key);
    component core[blocks];
    for (var b = 0; b < blocks; b++) {
        core[b] = Permute(17);
        for (var j = 0; j < 17; j++) {
            if (j == 1) { core[b].first[j] <== first; }
            else if (j == 2) { core[b].first[j] <== (C[2] + b + TAG_COINS() * 2 ** 32) ** 5; }
            else { core[b].first[j] <== C[j] ** 5; }
        }
    }

    // h + beta coin of every slot is in the table.
    signal beta2 <== beta * beta;
    signal fSlot[N];
    signal fPaired[N];
    component slotTotal = Total(N);
    for (var i = 0; i < N; i++) {
        fSlot[i] <-- (mixed[i] - placed[i]) / (beta2 - placed[i]);
        fSlot[i] * (beta2 - placed[i]) === mixed[i] - placed[i];
        fPaired[i] <-- 1 / (alpha - fSlot[i]);
        fPaired[i] * (alpha - fSlot[i]) === 1;
        slotTotal.in[i] <== fPaired[i];
    }

    // An element is coins, then a top below the modulus' own: a start of the table and 40 bits.  Of its slots there is
    // sum (h + beta coin) 2^(8 k) = hides + beta low.  Bytes that no slot has, in the last element, are looked up like a top's.
    signal fLow[E];
    signal fTop[E];
    component topTotal = Total(E);
    for (var e = 0; e < E; e++) {
        var top = 0;
        for (var j = 0; j < 17; j++) { top += M[j][e % size + 1] * core[e \ size].last[j]; }
        var packed = -hides[e];
        for (var k = 0; k < per; k++) {
            var i = per * e + k;
            if (i < N) { packed += fSlot[i] * 2 ** (bits * k); }
            else { top -= byte[chunks * E + i - N] * 2 ** (bits * k); }
        }
        fLow[e] <-- packed / beta;
        fLow[e] * beta === packed;
        top = (top - fLow[e]) * (1 / 2 ** position);
        for (var k = 0; k < chunks; k++) { top -= byte[chunks * e + k] * 2 ** (bits * k); }
        fTop[e] <-- 1 / (alpha - top);
        fTop[e] * (alpha - top) === 1;
        topTotal.in[e] <== fTop[e];
    }
    signal fByte[looked];
    component byteTotal = Total(looked);
    for (var k = 0; k < looked; k++) {
        fByte[k] <-- 1 / (alpha - byte[k]);
        fByte[k] * (alpha - byte[k]) === 1;
        byteTotal.in[k] <== fByte[k];
    }

    // The tables: pairs (h, coin), those of h = 0 first; starts of tops, each of 2^40 of them, that fill [0, limit); bytes.
    signal fPair[2 * 2 ** bits];
    component pairTotal = Total(2 * 2 ** bits);
    for (var k = 0; k < 2 * 2 ** bits; k++) {
        var entry = alpha - beta * (k % 2 ** bits) - k \ 2 ** bits;
        fPair[k] <-- coinCount[k] / entry;
        fPair[k] * entry === coinCount[k];
        pairTotal.in[k] <== fPair[k];
    }
    signal fStart[tops];
    component startTotal = Total(tops);
    for (var k = 0; k < tops; k++) {
        var entry = alpha - k * 2 ** (chunks * bits);
        if (k == tops - 1) { entry = alpha - limit + 2 ** (chunks * bits); }
        fStart[k] <-- topCount[k] / entry;
        fStart[k] * entry === topCount[k];
        startTotal.in[k] <== fStart[k];
    }
    signal bytes <== RangeTable(bits)(alpha, byteCount);

    slotTotal.out === pairTotal.out;
    topTotal.out === startTotal.out;
    byteTotal.out === bytes;
}
