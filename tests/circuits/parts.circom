// SPDX-License-Identifier: GPL-3.0-or-later
// The templates that have a kernel twin, each with inputs of its own. Sizes are those of class "tiny", but that c = 9, so
// that ids take one chunk of 7 bits, i* two chunks (L = 12), and counts two.
template Parts() {
    signal input alpha;
    signal input beta;

    // Hashes.
    signal input seed[2];
    signal input beacon;
    signal input ctx;
    signal input salt;
    signal input returned[3];
    signal input message[2];
    signal seedCommitment <== SeedCommitment()(seed);
    signal noiseKey <== NoiseKey()(seed, beacon, ctx);
    signal placesCommitment <== PlacesCommitment(3, 100)(salt, returned);
    signal hash <== Poseidon(7, 2)(message);

    // Two elements of a block of coarse bits: 18 slots of 8 bits, 7 filler chunks, a top of 6 chunks.
    signal input u[2][18];
    signal input filler[2][7];
    signal input top[2][5];
    signal input difference[2][5];
    var C17[17 * 8 + POSEIDON_PARTIAL(17)] = POSEIDON_C(17);
    var C3[3 * 8 + POSEIDON_PARTIAL(3)] = POSEIDON_C(3);
    component coarse = CoarseElements(2, 18, 8, 9, 7, 6);
    coarse.alpha <== alpha;
    coarse.first1 <== Fifth(C17[1])(noiseKey);
    coarse.first2 <== (C17[2] + 3 * 2 ** 32) ** 5;
    coarse.u <== u;
    coarse.filler <== filler;
    coarse.top <== top;
    coarse.difference <== difference;

    // A place: 120 fine bits in 14 chunks, the last of 3; 4 dither bits; 6 filler chunks; a top of 9.
    signal input slot;
    signal input fine[14];
    signal input dither;
    signal input placeFiller[6];
    signal input placeTop[8];
    signal input placeDifference[8];
    component element = FineElement(120, 4, 9, 14, 6, 9);
    element.alpha <== alpha;
    element.first1 <== Fifth(C3[1])(noiseKey);
    element.slot <== slot;
    element.fine <== fine;
    element.dither <== dither;
    element.filler <== placeFiller;
    element.top <== placeTop;
    element.difference <== placeDifference;

    signal input coarseBits;
    signal input sign;
    signal input magnitude;
    signal input before;
    signal input upto;
    signal input below[14];
    signal input above[14];
    component cdf = InverseCdf(120, 9, 14, 15);
    cdf.alpha <== alpha;
    cdf.beta <== beta;
    cdf.beta2 <== beta * beta;
    cdf.coarse <== coarseBits;
    cdf.fine <== fine;
    cdf.sign <== sign;
    cdf.magnitude <== magnitude;
    cdf.before <== before;
    cdf.upto <== upto;
    cdf.below <== below;
    cdf.above <== above;
    signal output z <== magnitude - 2 * cdf.minus;

    signal input w;
    signal input hmax;
    signal input isLow;
    signal input isHigh;
    signal input low0;
    signal input high0;
    component clip = Clip(9);
    clip.alpha <== alpha;
    clip.w <== w;
    clip.hmax <== hmax;
    clip.isLow <== isLow;
    clip.isHigh <== isHigh;
    clip.low0 <== low0;
    clip.high0 <== high0;
    signal output clipped <== w - clip.cutLow - clip.cutHigh;

    signal input value;
    signal input bit;
    signal input low[2];
    component compare = IsNonNegative(3, 9);
    compare.alpha <== alpha;
    compare.value <== value;
    compare.bit <== bit;
    compare.low <== low;

    signal input number;
    signal input numberLow[1];
    component exact = ExactRange(12, 9);
    exact.alpha <== alpha;
    exact.value <== number;
    exact.low <== numberLow;

    signal input sequence[3];
    signal input sequenceLow[2][1];
    component order = Increasing(3, 2, 9);
    order.alpha <== alpha;
    order.in <== sequence;
    order.low <== sequenceLow;
}
