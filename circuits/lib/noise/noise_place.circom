// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "place_noise.circom";

// One place: a slot's score, noise and noisy score, exactly. 64 rows at c = 11, m = 9.
// Inputs are named as in kernel/noise_statement.py, without "place". Outputs are this place's fractions of each look-up
// identity. Compared values are sums inside of the rows that compare them: a wire of their own would be a row more.
template NoisePlace(uniformBits, m, c, L, fb, nf, nu, ncmp) {
    signal input alpha;
    signal input beta;
    signal input beta2;
    signal input hmax;
    signal input entry;
    signal input theta;
    signal input threshold;
    signal input thresholdSlot;
    signal input slot;
    signal input digit;
    signal input coarse;
    signal input bound;
    signal input shift;
    signal input positive;
    signal input capped;
    signal input full;
    signal input counted;
    signal input fine[nf];
    signal input sign;
    signal input magnitude;
    signal input before;
    signal input upto;
    signal input below[nu - 1];
    signal input above[nu - 1];
    signal input wins;
    signal input margin[ncmp - 1];
    signal output fCoarse;
    signal output fNoise;
    signal output fOpen;
    signal output fWin;
    signal output range;

    // (u, b) is a row of the coarse table.
    signal betaBound <== beta * bound;
    fCoarse <-- 1 / (alpha - coarse - betaBound);
    fCoarse * (alpha - coarse - betaBound) === 1;

    // The same key and multiplicity as the slot's, and it is not 0. X is 0 or 1 of a full place, 2 or 3 of another: so no
    // slot is both, and all keys of places differ.
    shift * (shift - 1) === 0;
    full * (full - 1) === 0;
    var distance = 2 * (1 - full) + shift;
    var y = distance + bound - entry + 1;
    var key = slot + coarse * 2 ** (L + 1) + distance * 2 ** (L + 1 + m);
    signal e <== (y + digit) * (y + hmax);
    signal fInverse;
    fInverse <-- 1 / e;
    fInverse * e === 1;
    fOpen <-- e / (alpha - key);
    fOpen * (alpha - key) === e;

    // s = clip(k, 0, H): positive iff k >= 1, which is the flag as well, and capped iff k > H.
    positive * (positive - 1) === 0;
    capped * (capped - 1) === 0;
    signal kept <== positive * digit;
    signal excess <== capped * (digit - hmax);
    var score = kept - excess;

    // A full place reaches the entry, another one exactly one step less.
    var missing = score + bound - entry + 1;
    (1 - full) * missing === 0;

    component noise = PlaceNoise(uniformBits, fb, c, nf, nu);
    noise.alpha <== alpha;
    noise.beta <== beta;
    noise.beta2 <== beta2;
    noise.coarse <== coarse;
    noise.fine <== fine;
    noise.magnitude <== magnitude;
    noise.before <== before;
    noise.upto <== upto;
    noise.below <== below;
    noise.above <== above;
    noise.sign <== sign;
    fNoise <== noise.fRow;
    var v = score + magnitude - 2 * noise.minus;

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

    // All that must be chunks. A narrow highest chunk of the fine bits is looked up scaled up as well.
    var last = fb - c * (nf - 1);
    var scaled = 0;
    if (last < c) { scaled = 1; }
    var n = nf + scaled + ncmp + 4;
    signal f[n];
    var sum = 0;
    for (var k = 0; k < n; k++) {
        var x;
        if (k < nf) { x = fine[k]; }
        else if (k < nf + scaled) { x = fine[nf - 1] * 2 ** (c - last); }
        else if (k < nf + scaled + ncmp - 1) { x = margin[k - nf - scaled]; }
        else if (k == n - 5) { x = high; }
        else if (k == n - 4) { x = 2 * kept - digit - positive; }  // k - 1 or -k
        else if (k == n - 3) { x = hmax - digit - capped + 2 * excess; }  // k - H - 1 or H - k
        else if (k == n - 2) { x = missing - full; }
        else { x = beyond - 1 - coarse + theta; }  // u - theta or theta - 1 - u
        f[k] <-- 1 / (alpha - x);
        f[k] * (alpha - x) === 1;
        sum += f[k];
    }
    for (var k = 0; k < 2 * nu; k++) { sum += noise.f[k]; }
    range <== sum;
}
