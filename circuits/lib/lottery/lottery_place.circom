// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

// One place: a slot's score, prize and value, exactly. 27 rows at c = 11, L = 13.
// Inputs are named as in kernel/lottery_statement.py, without "place". Outputs are this place's fractions of each look-up
// identity. Every place is a slot as it is, also one that reaches nothing: there are no places that are not used.
template LotteryPlace(m, c, L, ncmp) {
    signal input alpha;
    signal input beta;
    signal input hmax;
    signal input theta;
    signal input threshold;
    signal input thresholdSlot;
    signal input slot;
    signal input score;
    signal input coarse;
    signal input bound;
    signal input distance;
    signal input positive;
    signal input capped;
    signal input prize;
    signal input counted;
    signal input floor;
    signal input ceiling;
    signal input wins;
    signal input margin[ncmp - 1];
    signal output fCoarse;
    signal output fOpen;
    signal output fWin;
    signal output range;

    // (u, b) is a row of the coarse table.
    signal betaBound <== beta * bound;
    fCoarse <-- 1 / (alpha - coarse - betaBound);
    fCoarse * (alpha - coarse - betaBound) === 1;

    // The same key and multiplicity as the slot's, and it is not 0. Keys of places differ by their slots.
    var y = distance + bound - threshold + 1;
    var key = slot + coarse * 2 ** L + distance * 2 ** (L + m);
    signal e <== (y + score) * (y + hmax);
    signal fInverse;
    fInverse <-- 1 / e;
    fInverse * e === 1;
    fOpen <-- e / (alpha - key);
    fOpen * (alpha - key) === e;

    // s = clip(w, 0, H): positive iff w >= 1, which is the flag as well, and capped iff w > H.
    positive * (positive - 1) === 0;
    capped * (capped - 1) === 0;
    signal kept <== positive * score;
    signal excess <== capped * (score - hmax);
    var clipped = kept - excess;

    // A prize is what the table says of u, and comes before every score: v = b, and of other slots v = b + s.
    prize * (hmax + 2 ** m) === bound - coarse;
    signal lost <== prize * clipped;
    var v = bound + clipped - lost;

    // It wins iff (v, -slot) >= (v*, -i*): wins ? distance : -1 - distance is looked up by ncmp chunks.
    wins * (wins - 1) === 0;
    var ahead = (v - threshold) * 2 ** L - slot + thresholdSlot;
    signal turned <== wins * (2 * ahead + 1);
    var high = turned - 1 - ahead;
    for (var j = 0; j < ncmp - 1; j++) { high -= margin[j] * 2 ** (c * j); }
    high = high * (1 / 2 ** (c * (ncmp - 1)));
    // A winner returns its slot with its flag below it.
    fWin <-- wins / (alpha - 2 * slot - positive);
    fWin * (alpha - 2 * slot - positive) === wins;

    // counted iff u >= theta.
    counted * (counted - 1) === 0;
    signal beyond <== counted * (2 * (coarse - theta) + 1);

    // All that must be chunks.
    var n = ncmp + 6;
    signal f[n];
    var sum = 0;
    for (var k = 0; k < n; k++) {
        var x;
        if (k < ncmp - 1) { x = margin[k]; }
        else if (k == ncmp - 1) { x = high; }
        else if (k == ncmp) { x = distance; }
        else if (k == ncmp + 1) { x = beyond - 1 - coarse + theta; }  // u - theta or theta - 1 - u
        else if (k == ncmp + 2) { x = floor; }
        else if (k == ncmp + 3) { x = (2 * kept - score - positive - floor) * (1 / 2 ** c); }  // w - 1 or -w
        else if (k == ncmp + 4) { x = ceiling; }
        else { x = (hmax - score - capped + 2 * excess - ceiling) * (1 / 2 ** c); }  // w - H - 1 or H - w
        f[k] <-- 1 / (alpha - x);
        f[k] * (alpha - x) === 1;
        sum += f[k];
    }
    range <== sum;
}
