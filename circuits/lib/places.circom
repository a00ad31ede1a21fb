// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "place.circom";

// One open place (SPEC B.6.3 and B.6.5): opens slot pi's noise exactly and compares it with the threshold.
// Inputs are named as in kernel/statement.py. Outputs are this place's fractions of each look-up identity.
template ExactNoise(m, c, s, L, fb, nf, fill, tc, nu, ncmp, nth) {
    signal input alpha;
    signal input beta;
    signal input beta2;
    signal input first1;
    signal input hmax;
    signal input theta;
    signal input threshold;
    signal input thresholdSlot;
    signal input pi;
    signal input pw;
    signal input pu;
    signal input pb;
    signal input px0;
    signal input px1;
    signal input pcl;
    signal input pch;
    signal input pa1;
    signal input pa2;
    signal input pf[nf];
    signal input pd;
    signal input pff[fill];
    signal input pft[tc - 1];
    signal input pfd[tc - 1];
    signal input psg;
    signal input pz;
    signal input plo;
    signal input phi;
    signal input pd1[nu - 1];
    signal input pd2[nu - 1];
    signal input pwin;
    signal input pcnt;
    signal input pcm[ncmp - 1];
    signal input pth[nth - 1];
    signal output fCoarse;
    signal output fNoise;
    signal output fOpen;
    signal output fWin;
    signal output range;

    // (u, b) is a row of the coarse table.
    signal betaB <== beta * pb;
    fCoarse <-- 1 / (alpha - pu - betaB);
    fCoarse * (alpha - pu - betaB) === 1;

    // The same key and multiplicity as the slot's, and it is not 0.
    var x = px0 + px1 * 2 ** c;
    var y = x + pb - threshold + 1;
    var key = pi * 2 ** m + pu + x * 2 ** (L + m);
    signal e <== (y + pw) * (y + hmax);
    signal fInverse;
    fInverse <-- 1 / e;
    fInverse * e === 1;
    fOpen <-- e / (alpha - key);
    fOpen * (alpha - key) === e;
    signal fChunk[2];
    fChunk[0] <-- 1 / (alpha - px0);
    fChunk[0] * (alpha - px0) === 1;
    fChunk[1] <-- 1 / (alpha - px1);
    fChunk[1] * (alpha - px1) === 1;

    component element = FineElement(fb, s, c, nf, fill, tc);
    element.alpha <== alpha;
    element.first1 <== first1;
    element.slot <== pi;
    element.fine <== pf;
    element.dither <== pd;
    element.filler <== pff;
    element.top <== pft;
    element.difference <== pfd;

    component noise = InverseCdf(fb, c, nf, nu);
    noise.alpha <== alpha;
    noise.beta <== beta;
    noise.beta2 <== beta2;
    noise.coarse <== pu;
    noise.fine <== pf;
    noise.sign <== psg;
    noise.magnitude <== pz;
    noise.before <== plo;
    noise.upto <== phi;
    noise.below <== pd1;
    noise.above <== pd2;
    fNoise <== noise.fRow;

    component clip = Clip(c);
    clip.alpha <== alpha;
    clip.w <== pw;
    clip.hmax <== hmax;
    clip.isLow <== pcl;
    clip.isHigh <== pch;
    clip.low0 <== pa1;
    clip.high0 <== pa2;

    // Exact noisy score; ties go to the smaller slot. One linear row each for the two compared values.
    var v = pw - clip.cutLow - clip.cutHigh + 2 ** s * (pz - 2 * noise.minus) + pd;
    component win = IsNonNegative(ncmp, c);
    win.alpha <== alpha;
    win.value <== (v - threshold) * 2 ** L - pi + thresholdSlot;
    win.bit <== pwin;
    win.low <== pcm;
    // A winner returns its slot with its flag, 1 - pcl, below it.
    fWin <-- pwin / (alpha - 2 * pi - 1 + pcl);
    fWin * (alpha - 2 * pi - 1 + pcl) === pwin;

    component counted = IsNonNegative(nth, c);
    counted.alpha <== alpha;
    counted.value <== pu - theta;
    counted.bit <== pcnt;
    counted.low <== pth;

    var sum = fChunk[0] + fChunk[1];
    for (var k = 0; k < nf + fill + 2 * tc + 3; k++) { sum += element.f[k]; }
    for (var k = 0; k < 2 * nu; k++) { sum += noise.f[k]; }
    for (var k = 0; k < 4; k++) { sum += clip.f[k]; }
    for (var k = 0; k < ncmp; k++) { sum += win.f[k]; }
    for (var k = 0; k < nth; k++) { sum += counted.f[k]; }
    range <== sum;
}

// theta from the constant grid 2^m - G + 1, ..., 2^m by a one-hot choice, with B(theta - 1) < v*, and the number of slots
// and places with u >= theta, read off the coarse table's multiplicities.
// mult: those of k = 2^m - G + 1, ..., 2^m - 1.
template Threshold(m, c, G) {
    signal input alpha;
    signal input choice[G];
    signal input threshold;
    signal input low;
    signal input mult[G - 1];
    signal output theta;
    signal output reach;
    signal output range;

    var B[2 ** m] = COARSE_BOUNDS();
    var first = 2 ** m - G + 1;
    var chosen = 0;
    var point = 0;
    var bound = 0;
    var all = 0;
    signal counted[G - 1];
    for (var g = 0; g < G; g++) {
        choice[g] * (choice[g] - 1) === 0;
        chosen += choice[g];
        point += choice[g] * (first + g);
        bound += choice[g] * B[first + g - 1];
        if (g < G - 1) {
            counted[g] <== chosen * mult[g];
            all += counted[g];
        }
    }
    chosen === 1;
    theta <== point;
    reach <== all;

    var high = (threshold - 1 - bound - low) * (1 / 2 ** c);
    signal f[2];
    f[0] <-- 1 / (alpha - low);
    f[0] * (alpha - low) === 1;
    f[1] <-- 1 / (alpha - high);
    f[1] * (alpha - high) === 1;
    range <== f[0] + f[1];
}
