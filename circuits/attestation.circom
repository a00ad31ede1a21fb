// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "constants.circom";
include "secret.circom";
include "logup.circom";
include "ranges.circom";
include "coarse.circom";
include "slots.circom";
include "places.circom";

// Phase B's statement: T is the top K of committed scores plus committed noise (SPEC B.6.1 to B.6.6).
//
// Public, in this order: clear inputs; a blinder that no constraint uses; scores w and hints h, which enter only through
// their commitments. Order and names are those of kernel/statement.py. Sizes that a class leaves at 0 declare nothing.
// G: threshold grid. CUT: largest noise. The rest are the class's parameters.
template Attestation(N, K, R, m, q, c, s, G, CUT) {
    var L = 0;
    while (2 ** L < N) { L++; }
    var NE = N \ q;
    var fillC = 0;
    var spareC = MODULUS_BITS() - q * m - COARSE_CANONICAL_BITS();
    if (spareC > 0) { fillC = spareC \ c; }
    var topC = (MODULUS_BITS() - q * m - fillC * c + c - 1) \ c;
    var fb = UNIFORM_BITS() - m;
    var nf = (fb + c - 1) \ c;
    var fillP = 0;
    var spareP = MODULUS_BITS() - fb - s - PLACE_CANONICAL_BITS();
    if (spareP > 0) { fillP = spareP \ c; }
    var topP = (MODULUS_BITS() - fb - s - fillP * c + c - 1) \ c;
    var nu = (UNIFORM_BITS() + c - 1) \ c;
    var ni = (L + c - 1) \ c;
    var nt = (L + 1 + c - 1) \ c;
    var ncmp = (2 * c + 1 + L + c - 1) \ c;
    var nth = (m + c - 1) \ c;

    signal input c_seed;
    signal input beacon;
    signal input ctx;
    signal input hmax;
    signal input t_commit;
    signal input alpha;
    signal input beta;
    signal input blind;

    signal input w[N];

    signal input u[N];
    signal input b[N];
    signal input x0[N];
    signal input x1[N];
    signal input cf[NE][fillC];
    signal input ct[NE][topC - 1];
    signal input cd[NE][topC - 1];
    signal input mc[2 ** m];
    signal input mr[2 ** c];
    signal input mz[CUT + 1];
    signal input pi[R];
    signal input pw[R];
    signal input pu[R];
    signal input pb[R];
    signal input px0[R];
    signal input px1[R];
    signal input pcl[R];
    signal input pch[R];
    signal input pa1[R];
    signal input pa2[R];
    signal input pf[R][nf];
    signal input pd[R];
    signal input pff[R][fillP];
    signal input pft[R][topP - 1];
    signal input pfd[R][topP - 1];
    signal input psg[R];
    signal input pz[R];
    signal input plo[R];
    signal input phi[R];
    signal input pd1[R][nu - 1];
    signal input pd2[R][nu - 1];
    signal input pwin[R];
    signal input pcnt[R];
    signal input pcm[R][ncmp - 1];
    signal input pth[R][nth - 1];
    signal input pid[R + 1][ni - 1];
    signal input vs;
    signal input is;
    signal input isc[ni - 1];
    signal input sel[G];
    signal input vt;
    signal input t[K];
    signal input tdc[K - 1][nt - 1];

    signal input s_hi;
    signal input s_lo;
    signal input t_salt;

    // SPEC B.6.1: the seed, the request's key, the coarse bits.
    signal seed <== SeedCommitment()([s_hi, s_lo]);
    c_seed === seed;
    signal key <== NoiseKey()([s_hi, s_lo], beacon, ctx);
    var C17[17 * 8 + POSEIDON_PARTIAL(17)] = POSEIDON_C(17);
    var C3[3 * 8 + POSEIDON_PARTIAL(3)] = POSEIDON_C(3);
    signal coarseFirst <== Fifth(C17[1])(key);
    signal fineFirst <== Fifth(C3[1])(key);

    var ranges = 0;
    var B = ELEMENTS_PER_BLOCK();
    var blocks = (NE + B - 1) \ B;
    component block[blocks];
    for (var k = 0; k < blocks; k++) {
        var count = B;
        if (k == blocks - 1) { count = NE - B * k; }
        block[k] = CoarseElements(count, q, m, c, fillC, topC);
        block[k].alpha <== alpha;
        block[k].first1 <== coarseFirst;
        block[k].first2 <== (C17[2] + k + TAG_COARSE() * 2 ** 32) ** 5;
        for (var e = 0; e < count; e++) {
            for (var j = 0; j < q; j++) { block[k].u[e][j] <== u[(B * k + e) * q + j]; }
            for (var j = 0; j < fillC; j++) { block[k].filler[e][j] <== cf[B * k + e][j]; }
            for (var j = 0; j < topC - 1; j++) {
                block[k].top[e][j] <== ct[B * k + e][j];
                block[k].difference[e][j] <== cd[B * k + e][j];
            }
        }
        ranges += block[k].range;
    }

    // SPEC B.6.2 and B.6.3: every slot's bound, and which slots must be opened.
    component slots = Slots(N, m, c, L);
    slots.alpha <== alpha;
    slots.beta <== beta;
    slots.hmax <== hmax;
    slots.threshold <== vs;
    slots.w <== w;
    slots.u <== u;
    slots.b <== b;
    slots.x0 <== x0;
    slots.x1 <== x1;
    ranges += slots.range;

    // SPEC B.6.4: the threshold's own rules. i* in [0, 2^L) exactly.
    component threshold = Threshold(m, c, G);
    threshold.alpha <== alpha;
    threshold.choice <== sel;
    threshold.threshold <== vs;
    threshold.low <== vt;
    for (var g = 0; g < G - 1; g++) { threshold.mult[g] <== mc[2 ** m - G + 1 + g]; }
    component thresholdSlot = ExactRange(L, c);
    thresholdSlot.alpha <== alpha;
    thresholdSlot.value <== is;
    thresholdSlot.low <== isc;
    ranges += threshold.range + thresholdSlot.range;

    // SPEC B.6.5: the places, 0 <= i_1 < ... < i_R < N.
    component order = Increasing(R + 2, ni, c);
    order.alpha <== alpha;
    order.low <== pid;
    order.in[0] <== -1;
    order.in[R + 1] <== N;
    for (var r = 0; r < R; r++) { order.in[r + 1] <== pi[r]; }
    ranges += order.range;

    signal beta2 <== beta * beta;
    component place[R];
    var coarse = slots.coarse;
    var opening = 0;
    var noises = 0;
    var winners = 0;
    var won = 0;
    var counted = 0;
    for (var r = 0; r < R; r++) {
        place[r] = ExactNoise(m, c, s, L, fb, nf, fillP, topP, nu, ncmp, nth);
        place[r].alpha <== alpha;
        place[r].beta <== beta;
        place[r].beta2 <== beta2;
        place[r].first1 <== fineFirst;
        place[r].hmax <== hmax;
        place[r].theta <== threshold.theta;
        place[r].threshold <== vs;
        place[r].thresholdSlot <== is;
        place[r].pi <== pi[r];
        place[r].pw <== pw[r];
        place[r].pu <== pu[r];
        place[r].pb <== pb[r];
        place[r].px0 <== px0[r];
        place[r].px1 <== px1[r];
        place[r].pcl <== pcl[r];
        place[r].pch <== pch[r];
        place[r].pa1 <== pa1[r];
        place[r].pa2 <== pa2[r];
        place[r].pf <== pf[r];
        place[r].pd <== pd[r];
        place[r].pff <== pff[r];
        place[r].pft <== pft[r];
        place[r].pfd <== pfd[r];
        place[r].psg <== psg[r];
        place[r].pz <== pz[r];
        place[r].plo <== plo[r];
        place[r].phi <== phi[r];
        place[r].pd1 <== pd1[r];
        place[r].pd2 <== pd2[r];
        place[r].pwin <== pwin[r];
        place[r].pcnt <== pcnt[r];
        place[r].pcm <== pcm[r];
        place[r].pth <== pth[r];
        coarse += place[r].fCoarse;
        noises += place[r].fNoise;
        opening += place[r].fOpen;
        winners += place[r].fWin;
        ranges += place[r].range;
        won += pwin[r];
        counted += pcnt[r];
    }
    won === K;
    threshold.reach === 2 * counted;

    // The opened set: T holds the winners' slots with their flags, strictly increasing. Slots of places differ, so no slot
    // is in T with both flags.
    component increasing = Increasing(K, nt, c);
    increasing.alpha <== alpha;
    increasing.in <== t;
    increasing.low <== tdc;
    ranges += increasing.range;
    signal fSet[K];
    var set = 0;
    for (var k = 0; k < K; k++) {
        fSet[k] <-- 1 / (alpha - t[k]);
        fSet[k] * (alpha - t[k]) === 1;
        set += fSet[k];
    }
    signal commitment <== PlacesCommitment(K, L)(t_salt, t);
    t_commit === commitment;

    // The identities: every look-up, the slots that are open, the winners.
    signal coarseTable <== CoarseBounds(m)(alpha, beta, mc);
    signal rangeTable <== RangeTable(c)(alpha, mr);
    signal noiseTable <== FoldedRows(CUT)(alpha, beta, beta2, mz);
    coarse === coarseTable;
    ranges === rangeTable;
    noises === noiseTable;
    opening === slots.opening;
    winners === set;
}
