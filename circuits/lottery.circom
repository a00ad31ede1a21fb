// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "constants.circom";
include "secret.circom";
include "logup.circom";
include "ranges.circom";
include "wide_elements.circom";
include "lottery_slots.circom";
include "lottery_place.circom";
include "lottery_limits.circom";
include "prize_table.circom";

// Phase B's statement under the lottery's law: T is the top K of committed scores, ties broken by committed coarse bits,
// where every slot whose coarse bits win a prize comes before every slot without one.
// docs/proofs/lottery.md proves it; kernel/lottery_statement.py has the legend of the hints.
//
// Public, in this order: clear inputs; a blinder that no constraint uses; scores w, hints, and beta b_i of every slot, which
// enter only through their commitments. Sizes that a class leaves at 0 declare nothing.
// G: threshold grid. most: the largest number of prizes. The rest are the class's parameters.
template Lottery(N, K, R, m, q, c, most, G) {
    var L = 0;
    while (2 ** L < N) { L++; }
    var NE = N \ q;
    var fillC = 0;
    var spareC = MODULUS_BITS() - q * m - COARSE_CANONICAL_BITS();
    if (spareC > 0) { fillC = spareC \ c; }
    var topC = (MODULUS_BITS() - q * m - fillC * c + c - 1) \ c;
    var ni = (L + c - 1) \ c;
    var nt = (L + 1 + c - 1) \ c;
    var ncmp = (2 * c + L + c - 1) \ c;

    signal input c_seed;
    signal input beacon;
    signal input ctx;
    signal input hmax;
    signal input t_commit;
    signal input prizes;
    signal input alpha;
    signal input beta;
    signal input blind;

    signal input w[N];

    signal input slot[N][4];
    signal input coarseFiller[NE][fillC];
    signal input coarseTop[NE][topC - 1];
    signal input coarseRoom[NE][topC - 1];
    signal input coarseCount[2 ** m];
    signal input rangeCount[2 ** c];
    signal input placeSlot[R];
    signal input placeScore[R];
    signal input placeCoarse[R];
    signal input placeBound[R];
    signal input placeDistance[R];
    signal input placePositive[R];
    signal input placeCapped[R];
    signal input placePrize[R];
    signal input placeCounted[R];
    signal input placeFloor[R];
    signal input placeCeiling[R];
    signal input placeWins[R];
    signal input placeMargin[R][ncmp - 1];
    signal input placeGap[R + 1][ni - 1];
    signal input threshold;
    signal input thresholdLow;
    signal input thresholdSlot;
    signal input thresholdSlotLow[ni - 1];
    signal input thetaChoice[G - 1];
    signal input prizeChoice[most];
    signal input returned[K];
    signal input returnedGap[K - 1][nt - 1];

    signal input scaledBound[N];

    signal input s_hi;
    signal input s_lo;
    signal input t_salt;

    // The seed, the request's key, and the elements that hold the slots' coarse bits.
    signal seed <== SeedCommitment()([s_hi, s_lo]);
    c_seed === seed;
    signal key <== NoiseKey()([s_hi, s_lo], beacon, ctx);
    var C17[17 * 8 + POSEIDON_PARTIAL(17)] = POSEIDON_C(17);
    signal keyFirst <== Fifth(C17[1])(key);

    var ranges = 0;
    var B = ELEMENTS_PER_BLOCK();
    var blocks = (NE + B - 1) \ B;
    component block[blocks];
    for (var k = 0; k < blocks; k++) {
        var count = B;
        if (k == blocks - 1) { count = NE - B * k; }
        block[k] = WideElements(count, q, m, 1, c, fillC, topC);
        block[k].alpha <== alpha;
        block[k].first1 <== keyFirst;
        block[k].first2 <== (C17[2] + k + TAG_COARSE() * 2 ** 32) ** 5;
        for (var e = 0; e < count; e++) {
            for (var j = 0; j < q; j++) { block[k].value[e][j] <== slot[(B * k + e) * q + j][1]; }
            for (var j = 0; j < fillC; j++) { block[k].rest[e][j] <== coarseFiller[B * k + e][j]; }
            for (var j = 0; j < topC - 1; j++) {
                block[k].rest[e][fillC + j] <== coarseTop[B * k + e][j];
                block[k].rest[e][fillC + topC - 1 + j] <== coarseRoom[B * k + e][j];
            }
        }
        ranges += block[k].range;
    }

    // Every slot's bound and distance, and which slots must be places.
    component slots = LotterySlots(N, m, c, L);
    slots.alpha <== alpha;
    slots.hmax <== hmax;
    slots.threshold <== threshold;
    slots.w <== w;
    slots.slot <== slot;
    slots.scaledBound <== scaledBound;
    ranges += slots.range;

    // theta's and the threshold's own rules. i* in [0, 2^L) exactly.
    component limits = LotteryLimits(m, c, G);
    limits.alpha <== alpha;
    limits.prizes <== prizes;
    limits.choice <== thetaChoice;
    limits.threshold <== threshold;
    limits.low <== thresholdLow;
    for (var g = 0; g < G - 1; g++) { limits.mult[g] <== coarseCount[2 ** m - G + 1 + g]; }
    component lastWinner = ExactRange(L, c);
    lastWinner.alpha <== alpha;
    lastWinner.value <== thresholdSlot;
    lastWinner.low <== thresholdSlotLow;
    ranges += limits.range + lastWinner.range;

    component order = LotteryOrder(R, N, ni, c);
    order.alpha <== alpha;
    order.slot <== placeSlot;
    order.low <== placeGap;
    ranges += order.range;

    component place[R];
    var coarse = slots.coarse;
    var opening = 0;
    var winners = 0;
    var counted = 0;
    for (var r = 0; r < R; r++) {
        place[r] = LotteryPlace(m, c, L, ncmp);
        place[r].alpha <== alpha;
        place[r].beta <== beta;
        place[r].hmax <== hmax;
        place[r].theta <== limits.theta;
        place[r].threshold <== threshold;
        place[r].thresholdSlot <== thresholdSlot;
        place[r].slot <== placeSlot[r];
        place[r].score <== placeScore[r];
        place[r].coarse <== placeCoarse[r];
        place[r].bound <== placeBound[r];
        place[r].distance <== placeDistance[r];
        place[r].positive <== placePositive[r];
        place[r].capped <== placeCapped[r];
        place[r].prize <== placePrize[r];
        place[r].counted <== placeCounted[r];
        place[r].floor <== placeFloor[r];
        place[r].ceiling <== placeCeiling[r];
        place[r].wins <== placeWins[r];
        place[r].margin <== placeMargin[r];
        coarse += place[r].fCoarse;
        opening += place[r].fOpen;
        winners += place[r].fWin;
        ranges += place[r].range;
        counted += placeCounted[r];
    }
    // As many slots as places have u >= theta: no slot is left out that has a prize or reaches the threshold by u alone.
    limits.reach === 2 * counted;

    // T holds the winners' slots with their flags, strictly increasing: so the winners are K.
    component increasing = Increasing(K, nt, c);
    increasing.alpha <== alpha;
    increasing.in <== returned;
    increasing.low <== returnedGap;
    ranges += increasing.range;
    signal fSet[K];
    var set = 0;
    for (var k = 0; k < K; k++) {
        fSet[k] <-- 1 / (alpha - returned[k]);
        fSet[k] * (alpha - returned[k]) === 1;
        set += fSet[k];
    }
    signal commitment <== PlacesCommitment(K, L)(t_salt, returned);
    t_commit === commitment;

    // The identities: every look-up, the slots that are places, the winners.
    signal coarseTable <== PrizeTable(m, most)(alpha, beta, hmax, prizes, prizeChoice, coarseCount);
    signal rangeTable <== RangeTable(c)(alpha, rangeCount);
    coarse === coarseTable;
    ranges === rangeTable;
    opening === slots.opening;
    winners === set;
}
