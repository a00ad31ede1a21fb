// SPDX-License-Identifier: GPL-3.0-or-later
// The templates that have a kernel twin, each with inputs of its own. Sizes are those of class "noise-tiny-two", but
// that c = 9.
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
    signal input rest[2][17];
    var C17[17 * 8 + POSEIDON_PARTIAL(17)] = POSEIDON_C(17);
    component wide = ShardElements(2, 18, 8, 1, 9, 7, 6);
    wide.alpha <== alpha;
    wide.first1 <== Fifth(C17[1])(noiseKey);
    wide.first2 <== (C17[2] + 3 * 2 ** 32) ** 5;
    wide.first3 <== (C17[3] + 1) ** 5;
    wide.value <== u;
    wide.rest <== rest;

    // A place's noise: 104 fine bits in 12 chunks, the last of 5.
    signal input coarseBits;
    signal input fine[12];
    signal input sign;
    signal input magnitude;
    signal input before;
    signal input upto;
    signal input below[12];
    signal input above[12];
    component cdf = PlaceNoise(112, 104, 9, 12, 13);
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
