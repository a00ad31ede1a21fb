// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "constants.circom";
include "poseidon.circom";

// The thinned index's statement (docs/proofs/thinning.md): w' is w with every hidden slot's entry 0, and a slot is hidden
// exactly if its coin, by the committed seed and the context, lies below eta.  w and w' are combinations of the columns at
// weights that this circuit does not know.
//
// Public, in this order: clear inputs; a blinder that no constraint uses; w and w', which enter only through two
// commitments.  Order and names are those of kernel/thinning.py.  There is no challenge here: everything is by bits, and every bit
// is determined by seed, context and eta.  A slot costs 10 rows, an element of 26 coins 300, a block of 16 elements 561.

// One block of coins: output e + 1 of the permutation of [0, key, block + TAG_COINS 2^32, 0, ...] as 254 bits, that as a
// number stay below the modulus: coin bits, then a top, lowest first.  gap: bits of the modulus' top less 1 less the top.
// The highest bit of either is not given but what the others leave.
//
// count: elements used (16, fewer in the last block).  All coins of the last element are decomposed, used or not: bits for
// them are cheaper than two wider tops.
// first1: first S-box of the key, shared by all blocks.  first2: that of the block number, a constant.
template CoinBlock(count, position, wide) {
    signal input first1;
    signal input first2;
    signal input coin[count][position];
    signal input top[count][wide - 1];
    signal input gap[count][wide - 1];

    var C[17 * 8 + POSEIDON_PARTIAL(17)] = POSEIDON_C(17);
    var M[17][17] = POSEIDON_M(17);
    component core = Permute(17);
    for (var j = 0; j < 17; j++) {
        if (j == 1) { core.first[j] <== first1; }
        else if (j == 2) { core.first[j] <== first2; }
        else { core.first[j] <== C[j] ** 5; }
    }

    for (var e = 0; e < count; e++) {
        var rest = 0;
        for (var j = 0; j < 17; j++) { rest += M[j][e + 1] * core.last[j]; }
        for (var j = 0; j < position; j++) {
            coin[e][j] * (coin[e][j] - 1) === 0;
            rest -= coin[e][j] * 2 ** j;
        }
        rest = rest * (1 / 2 ** position);
        var left = ((-1) >> position) - 1 - rest;
        for (var j = 0; j < wide - 1; j++) {
            top[e][j] * (top[e][j] - 1) === 0;
            gap[e][j] * (gap[e][j] - 1) === 0;
            rest -= top[e][j] * 2 ** j;
            left -= gap[e][j] * 2 ** j;
        }
        rest = rest * (1 / 2 ** (wide - 1));
        left = left * (1 / 2 ** (wide - 1));
        rest * (rest - 1) === 0;
        left * (left - 1) === 0;
    }
}

template Thinning(N) {
    var per = 208 \ COIN_BITS();
    var position = per * COIN_BITS();
    var wide = MODULUS_BITS() - position;
    var elements = (N + per - 1) \ per;
    var size = ELEMENTS_PER_BLOCK();
    var blocks = (elements + size - 1) \ size;

    signal input c_coin;
    signal input context;
    signal input eta;
    signal input blind;
    signal input placed[N];
    signal input thinned[N];

    signal input s_hi;
    signal input s_lo;
    signal input coin[elements][position];
    signal input top[elements][wide - 1];
    signal input gap[elements][wide - 1];
    signal input distance[N][COIN_BITS()];

    signal commitment <== Poseidon(TAG_COIN_SEED(), 2)([s_hi, s_lo]);
    c_coin === commitment;
    signal key <== Poseidon(TAG_COIN_KEY(), 3)([s_hi, s_lo, context]);

    var C[17 * 8 + POSEIDON_PARTIAL(17)] = POSEIDON_C(17);
    signal first <== Fifth(C[1])(key);
    component block[blocks];
    for (var k = 0; k < blocks; k++) {
        var count = elements - k * size < size ? elements - k * size : size;
        block[k] = CoinBlock(count, position, wide);
        block[k].first1 <== first;
        block[k].first2 <== (C[2] + k + TAG_COINS() * 2 ** 32) ** 5;
        for (var e = 0; e < count; e++) {
            block[k].coin[e] <== coin[k * size + e];
            block[k].top[e] <== top[k * size + e];
            block[k].gap[e] <== gap[k * size + e];
        }
    }

    // coin - eta + 2^COIN_BITS has COIN_BITS + 1 bits for 1 <= eta < 2^COIN_BITS, which is checked in the clear; the highest
    // says whether the slot stays.
    for (var i = 0; i < N; i++) {
        var stays = 2 ** COIN_BITS() - eta;
        for (var j = 0; j < COIN_BITS(); j++) {
            stays += coin[i \ per][(i % per) * COIN_BITS() + j] * 2 ** j;
            distance[i][j] * (distance[i][j] - 1) === 0;
            stays -= distance[i][j] * 2 ** j;
        }
        stays = stays * (1 / 2 ** COIN_BITS());
        stays * (stays - 1) === 0;
        stays * placed[i] === thinned[i];
    }
}
