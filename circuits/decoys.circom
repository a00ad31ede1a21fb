// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "constants.circom";
include "secret.circom";
include "logup.circom";
include "ranges.circom";
include "draws.circom";
include "decoy_slots.circom";
include "element.circom";
include "returned.circom";
include "threshold.circom";

// One shard's part of a list of decoys: the slots that were drawn, and of all others that score above lo the best, as many
// as are missing to K in all shards. docs/proofs/decoys.md proves it; kernel/decoys/statement.py has the legend.
//
// Public, in this order: clear inputs, the policy's table of draws among them; a blinder that no constraint uses; what the
// verifier makes of commitments, two wires a slot or one; hints; how many ids this shard returns; the threshold and the
// list's length in all shards. Sizes that a class leaves at 0 declare nothing.
// N, J, room: slots, draws and returned ids of a shard. L: bits of a drawn id. u: ids of the uniform. W: bits of an id of
// the whole index. c: bits of a chunk; chunks: of a score's distance. most: bits of the list's length.
template Decoys(N, J, room, L, u, W, c, chunks, most) {
    var per = 208 \ L;
    var E = (u + J + per - 1) \ per;
    var nl = (L + c - 1) \ c;
    var nu = (u * L + c - 1) \ c;
    var nw = (W + c - 1) \ c;
    var nn = (most + c - 1) \ c;
    var fill = 0;
    var spare = MODULUS_BITS() - per * L - COARSE_CANONICAL_BITS();
    if (spare > 0) { fill = spare \ c; }
    var tc = (MODULUS_BITS() - per * L - fill * c + c - 1) \ c;
    var voids = J;
    if (2 ** L == N) { voids = 0; }

    signal input c_seed;
    signal input beacon;
    signal input ctx;
    signal input lo;
    signal input k;
    signal input t_commit;
    signal input shard;
    signal input table[J + 1];
    signal input alpha;
    signal input beta;
    signal input blind;

    signal input x[N];
    signal input high[N * (chunks - 1)];

    signal input value[E][per];
    signal input valueLow[E][per * (nl - 1)];
    signal input rest[E][fill + 2 * (tc - 1)];
    signal input act[J];
    signal input uniformLow[nu - 1];
    signal input uniformHigh[nu - 1];
    signal input void[voids];
    signal input voidLow[voids][nl - 1];
    signal input used[room];
    signal input id[room];
    signal input idLow[room - 1][nl - 1];
    signal input distance[room];
    signal input behind[room];
    signal input hits[room];
    signal input inverse[room];
    signal input drawn[room];
    signal input flag[room];
    signal input winLow[room][chunks - 1];
    signal input flagLow[room][chunks - 1];
    signal input past;
    signal input pastLow[nw - 1];
    signal input thresholdLow[chunks - 1];
    signal input totalLow[nn - 1];
    signal input rangeCount[2 ** c];

    signal input count;

    signal input threshold;
    signal input thresholdSlot;
    signal input short;
    signal input over;
    signal input total;

    signal input s_hi;
    signal input s_lo;
    signal input t_salt;

    signal seed <== SeedCommitment()([s_hi, s_lo]);
    c_seed === seed;
    signal key <== NoiseKey()([s_hi, s_lo], beacon, ctx);
    var C17[17 * 8 + POSEIDON_PARTIAL(17)] = POSEIDON_C(17);
    signal keyFirst <== Fifth(C17[1])(key);
    signal shardFirst <== Fifth(C17[3])(shard);

    // The ids of the uniform and of the draws.
    var ranges = 0;
    var B = ELEMENTS_PER_BLOCK();
    var blocks = (E + B - 1) \ B;
    component block[blocks];
    for (var b = 0; b < blocks; b++) {
        var own = B;
        if (b == blocks - 1) { own = E - B * b; }
        block[b] = DrawBlock(own, per, L, c, fill, tc);
        block[b].alpha <== alpha;
        block[b].first1 <== keyFirst;
        block[b].first2 <== (C17[2] + b + TAG_DRAWS() * 2 ** 32) ** 5;
        block[b].first3 <== shardFirst;
        for (var e = 0; e < own; e++) {
            for (var v = 0; v < per; v++) { block[b].value[e][v] <== value[B * b + e][v]; }
            for (var v = 0; v < per * (nl - 1); v++) { block[b].low[e][v] <== valueLow[B * b + e][v]; }
            for (var j = 0; j < fill + 2 * (tc - 1); j++) { block[b].low[e][per * (nl - 1) + j] <== rest[B * b + e][j]; }
        }
        ranges += block[b].range;
    }

    // How many of them count, and which are slots.
    component number = DrawCount(J, u, L, c);
    number.alpha <== alpha;
    number.table <== table;
    number.act <== act;
    number.low <== uniformLow;
    number.high <== uniformHigh;
    var uniform = 0;
    for (var j = 0; j < u; j++) { uniform += value[j \ per][j % per] * 2 ** (L * j); }
    number.uniform <== uniform;
    ranges += number.range;
    component draw[J];
    component drawTotal = Total(J);
    component voidTotal = Total(voids);
    for (var j = 0; j < J; j++) {
        draw[j] = Draw(N, L, c);
        draw[j].alpha <== alpha;
        draw[j].id <== value[(u + j) \ per][(u + j) % per];
        draw[j].act <== act[j];
        if (voids > 0) {
            draw[j].void[0] <== void[j];
            draw[j].low <== voidLow[j];
            voidTotal.in[j] <== draw[j].range;
        }
        drawTotal.in[j] <== draw[j].fDraw;
    }
    if (voids > 0) { ranges += voidTotal.out; }

    // The threshold, and where the list is short or longer than K.
    component limits = Threshold(N, nw, nn, chunks, c);
    limits.alpha <== alpha;
    limits.shard <== shard;
    limits.floor <== lo;
    limits.k <== k;
    limits.threshold <== threshold;
    limits.slot <== thresholdSlot;
    limits.short <== short;
    limits.over <== over;
    limits.total <== total;
    limits.past <== past;
    limits.pastLow <== pastLow;
    limits.thresholdLow <== thresholdLow;
    limits.totalLow <== totalLow;
    limits.behind <== behind[room - 1];
    ranges += limits.range;

    component slots = DecoySlots(N, chunks, c);
    slots.alpha <== alpha;
    slots.entry <== limits.entry;
    slots.x <== x;
    slots.high <== high;

    // The list, by slot: those that are used come first.
    signal beta2 <== beta * beta;
    signal beta3 <== beta2 * beta;
    component increasing = Increasing(room, nl, c);
    increasing.alpha <== alpha;
    increasing.in <== id;
    increasing.low <== idLow;
    ranges += increasing.range;
    component element[room];
    component slotTotal = Total(room);
    component hitTotal = Total(room);
    component elementTotal = Total(room);
    component list = ListCommitment(room, L);
    var length = 0;
    var decoys = 0;
    for (var e = 0; e < room; e++) {
        element[e] = Element(N, chunks, c);
        element[e].alpha <== alpha;
        element[e].beta <== beta;
        element[e].beta2 <== beta2;
        element[e].beta3 <== beta3;
        element[e].shard <== shard;
        element[e].last <== thresholdSlot;
        element[e].entry <== limits.entry;
        element[e].floor <== lo;
        element[e].used <== used[e];
        element[e].id <== id[e];
        element[e].distance <== distance[e];
        if (e == 0) { element[e].before <== 0; } else { element[e].before <== behind[e - 1]; }
        element[e].after <== behind[e];
        element[e].hits <== hits[e];
        element[e].inverse <== inverse[e];
        element[e].drawn <== drawn[e];
        element[e].flag <== flag[e];
        element[e].winLow <== winLow[e];
        element[e].flagLow <== flagLow[e];
        slotTotal.in[e] <== element[e].fSlot;
        hitTotal.in[e] <== element[e].fHits;
        elementTotal.in[e] <== element[e].range;
        list.packed[e] <== element[e].packed;
        var step = 1 - used[0];
        if (e > 0) { step = used[e - 1] - used[e]; }
        step * (step - 1) === 0;
        length += used[e];
        decoys += drawn[e];
    }
    ranges += elementTotal.out;
    count === length;
    over * (count - decoys) === 0;
    list.salt <== t_salt;
    list.count <== count;
    list.shard <== shard;
    t_commit === list.out;

    // The identities: every look-up, the slots that are elements, the draws that are.
    signal rangeTable <== RangeTable(c)(alpha, rangeCount);
    var owed = slotTotal.out;
    signal beta4[chunks - 1];
    signal fOpen[chunks - 1];
    if (chunks == 2) {
        beta4[0] <== beta2 * beta2;
        fOpen[0] <-- count / (alpha - beta4[0]);
        fOpen[0] * (alpha - beta4[0]) === count;
        owed += fOpen[0];
    }
    slots.sum + ranges === rangeTable + owed;
    drawTotal.out === hitTotal.out;
}
