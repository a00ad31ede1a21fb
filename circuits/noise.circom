// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "constants.circom";
include "secret.circom";
include "logup.circom";
include "ranges.circom";
include "shard_elements.circom";
include "noise_slots.circom";
include "noise_place.circom";
include "entry.circom";
include "inside.circom";

// One shard's part of the statement with noise: its winners, the slots that reach the threshold, are the ids of T that lie in
// it. T is the top K of committed scores, in steps, plus committed noise, over all shards: they have one threshold and one T.
// docs/proofs/noise.md proves it; kernel/noise_statement.py has the legend of the hints.
//
// Public, in this order: clear inputs; a blinder that no constraint uses; scores w, hints, beta b_i of every slot, and the
// threshold, which enter only through their commitments. Sizes that a class leaves at 0 declare nothing.
// N, R: slots and places of a shard. L: bits of an id of the whole index. G: threshold grid. CUT: largest noise.
// uniformBits: of a uniform. The rest are the class's parameters.
template Noise(N, K, R, m, q, c, L, uniformBits, G, CUT) {
    var PER = 2;  // places whose fine bits one element holds
    var NE = N \ q;
    var NF = R \ PER;
    var fb = uniformBits - m;
    var nf = (fb + c - 1) \ c;
    var fillC = 0;
    var spareC = MODULUS_BITS() - q * m - COARSE_CANONICAL_BITS();
    if (spareC > 0) { fillC = spareC \ c; }
    var topC = (MODULUS_BITS() - q * m - fillC * c + c - 1) \ c;
    var fillF = 0;
    var spareF = MODULUS_BITS() - PER * fb - COARSE_CANONICAL_BITS();
    if (spareF > 0) { fillF = spareF \ c; }
    var topF = (MODULUS_BITS() - PER * fb - fillF * c + c - 1) \ c;
    var nu = (uniformBits + c - 1) \ c;
    var ni = (L + c - 1) \ c;
    var nt = (L + 1 + c - 1) \ c;
    var ncmp = (c + 1 + L + c - 1) \ c;

    signal input c_seed;
    signal input beacon;
    signal input ctx;
    signal input hmax;
    signal input t_commit;
    signal input shard;
    signal input shards;
    signal input alpha;
    signal input beta;
    signal input blind;

    signal input w[N];

    signal input slot[N][4];
    signal input coarseFiller[NE][fillC];
    signal input coarseTop[NE][topC - 1];
    signal input coarseRoom[NE][topC - 1];
    signal input fineFiller[NF][fillF];
    signal input fineTop[NF][topF - 1];
    signal input fineRoom[NF][topF - 1];
    signal input coarseCount[2 ** m];
    signal input rangeCount[2 ** c];
    signal input noiseCount[CUT + 1];
    signal input placeSlot[R];
    signal input placeDigit[R];
    signal input placeCoarse[R];
    signal input placeBound[R];
    signal input placeShift[R];
    signal input placePositive[R];
    signal input placeCapped[R];
    signal input placeFull[R];
    signal input placeCounted[R];
    signal input placeFine[R][nf];
    signal input placeSign[R];
    signal input placeMagnitude[R];
    signal input placeBefore[R];
    signal input placeUpto[R];
    signal input placeBelow[R][nu - 1];
    signal input placeAbove[R][nu - 1];
    signal input placeWins[R];
    signal input placeMargin[R][ncmp - 1];
    signal input placeGap[R + 1][nt - 1];
    signal input entry;
    signal input thresholdSlotLow[ni - 1];
    signal input thetaChoice[G];
    signal input returned[K];
    signal input returnedGap[K + 1][nt - 1];
    signal input insideBelow[K];
    signal input insideBeyond[K];
    signal input insideLow[K][nt - 1];
    signal input insideHigh[K][nt - 1];

    signal input scaledBound[N];

    signal input threshold;
    signal input thresholdSlot;

    signal input s_hi;
    signal input s_lo;
    signal input t_salt;

    // The seed, the request's key, and the elements that hold coarse bits of slots and fine bits of ranks: those of this
    // shard alone.
    signal seed <== SeedCommitment()([s_hi, s_lo]);
    c_seed === seed;
    signal key <== NoiseKey()([s_hi, s_lo], beacon, ctx);
    var C17[17 * 8 + POSEIDON_PARTIAL(17)] = POSEIDON_C(17);
    signal keyFirst <== Fifth(C17[1])(key);
    signal shardFirst <== Fifth(C17[3])(shard);

    var ranges = 0;
    var B = ELEMENTS_PER_BLOCK();
    var blocks = (NE + B - 1) \ B;
    component block[blocks];
    for (var k = 0; k < blocks; k++) {
        var count = B;
        if (k == blocks - 1) { count = NE - B * k; }
        block[k] = ShardElements(count, q, m, 1, c, fillC, topC);
        block[k].alpha <== alpha;
        block[k].first1 <== keyFirst;
        block[k].first3 <== shardFirst;
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
    var fineBlocks = (NF + B - 1) \ B;
    component fineBlock[fineBlocks];
    for (var k = 0; k < fineBlocks; k++) {
        var count = B;
        if (k == fineBlocks - 1) { count = NF - B * k; }
        fineBlock[k] = ShardElements(count, PER, fb, nf, c, fillF, topF);
        fineBlock[k].alpha <== alpha;
        fineBlock[k].first1 <== keyFirst;
        fineBlock[k].first3 <== shardFirst;
        fineBlock[k].first2 <== (C17[2] + k + TAG_FINE() * 2 ** 32) ** 5;
        for (var e = 0; e < count; e++) {
            for (var p = 0; p < PER; p++) {
                for (var j = 0; j < nf; j++) {
                    fineBlock[k].value[e][p * nf + j] <== placeFine[(B * k + e) * PER + p][j];
                }
            }
            for (var j = 0; j < fillF; j++) { fineBlock[k].rest[e][j] <== fineFiller[B * k + e][j]; }
            for (var j = 0; j < topF - 1; j++) {
                fineBlock[k].rest[e][fillF + j] <== fineTop[B * k + e][j];
                fineBlock[k].rest[e][fillF + topF - 1 + j] <== fineRoom[B * k + e][j];
            }
        }
        ranges += fineBlock[k].range;
    }

    // Every slot's bound and digit, and which slots must be places.
    component slots = NoiseSlots(N, m, c, L);
    slots.alpha <== alpha;
    slots.hmax <== hmax;
    slots.entry <== entry;
    slots.w <== w;
    slots.slot <== slot;
    slots.scaledBound <== scaledBound;
    ranges += slots.range;

    // The entry's and the threshold's own rules. i* in [0, 2^L) exactly. Places compare with it as this shard counts slots.
    component limits = Entry(m, G);
    limits.alpha <== alpha;
    limits.choice <== thetaChoice;
    limits.entry <== entry;
    limits.threshold <== threshold;
    for (var g = 0; g < G - 1; g++) { limits.mult[g] <== coarseCount[2 ** m - G + 1 + g]; }
    component lastWinner = ExactRange(L, c);
    lastWinner.alpha <== alpha;
    lastWinner.value <== thresholdSlot;
    lastWinner.low <== thresholdSlotLow;
    ranges += limits.range + lastWinner.range;
    signal ownThresholdSlot <== thresholdSlot - N * shard;

    component order = PlaceOrder(R, N, L, nt, c);
    order.alpha <== alpha;
    order.slot <== placeSlot;
    order.full <== placeFull;
    order.low <== placeGap;
    ranges += order.range;

    signal beta2 <== beta * beta;
    component place[R];
    var coarse = slots.coarse;
    var opening = 0;
    var noises = 0;
    var winners = 0;
    var counted = 0;
    for (var r = 0; r < R; r++) {
        place[r] = NoisePlace(uniformBits, m, c, L, fb, nf, nu, ncmp);
        place[r].alpha <== alpha;
        place[r].beta <== beta;
        place[r].beta2 <== beta2;
        place[r].hmax <== hmax;
        place[r].entry <== entry;
        place[r].theta <== limits.theta;
        place[r].threshold <== threshold;
        place[r].thresholdSlot <== ownThresholdSlot;
        place[r].slot <== placeSlot[r];
        place[r].digit <== placeDigit[r];
        place[r].coarse <== placeCoarse[r];
        place[r].bound <== placeBound[r];
        place[r].shift <== placeShift[r];
        place[r].positive <== placePositive[r];
        place[r].capped <== placeCapped[r];
        place[r].full <== placeFull[r];
        place[r].counted <== placeCounted[r];
        place[r].fine <== placeFine[r];
        place[r].sign <== placeSign[r];
        place[r].magnitude <== placeMagnitude[r];
        place[r].before <== placeBefore[r];
        place[r].upto <== placeUpto[r];
        place[r].below <== placeBelow[r];
        place[r].above <== placeAbove[r];
        place[r].wins <== placeWins[r];
        place[r].margin <== placeMargin[r];
        coarse += place[r].fCoarse;
        noises += place[r].fNoise;
        opening += place[r].fOpen;
        winners += place[r].fWin;
        ranges += place[r].range;
        counted += placeCounted[r];
    }
    // As many slots as places have u >= theta: no slot is left out whose noise alone reaches the entry.
    limits.reach === 2 * counted;

    // T's ids lie in the index; those in this shard are its winners' slots with their flags.
    component increasing = Partitioned(K, N, nt, c);
    increasing.alpha <== alpha;
    increasing.shards <== shards;
    increasing.packed <== returned;
    increasing.low <== returnedGap;
    ranges += increasing.range;
    component inside[K];
    var set = 0;
    for (var k = 0; k < K; k++) {
        inside[k] = Inside(N, nt, c);
        inside[k].alpha <== alpha;
        inside[k].shard <== shard;
        inside[k].packed <== returned[k];
        inside[k].below <== insideBelow[k];
        inside[k].beyond <== insideBeyond[k];
        inside[k].low <== insideLow[k];
        inside[k].high <== insideHigh[k];
        set += inside[k].fInside;
        ranges += inside[k].range;
    }
    signal commitment <== PlacesCommitment(K, L)(t_salt, returned);
    t_commit === commitment;

    // The identities: every look-up, the slots that are places, the winners.
    signal coarseTable <== CoarseBounds(m)(alpha, beta, coarseCount);
    signal rangeTable <== RangeTable(c)(alpha, rangeCount);
    signal noiseTable <== FoldedRows(CUT)(alpha, beta, beta2, noiseCount);
    coarse === coarseTable;
    ranges === rangeTable;
    noises === noiseTable;
    opening === slots.opening;
    winners === set;
}
