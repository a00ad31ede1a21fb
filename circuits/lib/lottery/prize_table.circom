// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "logup.circom";

// Right side of the look-up of coarse bits and their bound: sum_k mult_k / (alpha - k - beta B(k)), B(k) = k, and
// k + H + 2^m of the highest j values, which are the prizes. choice says which of 1, ..., most the number j is.
template PrizeTable(m, most) {
    signal input alpha;
    signal input beta;
    signal input hmax;
    signal input prizes;
    signal input choice[most];
    signal input mult[2 ** m];
    signal output out;

    signal betaPrize <== beta * (hmax + 2 ** m);
    signal betaWon[most];
    var chosen = 0;
    var number = 0;
    for (var t = most; t >= 1; t--) {  // 2^m - t is a prize iff t <= j
        choice[t - 1] * (choice[t - 1] - 1) === 0;
        chosen += choice[t - 1];
        number += choice[t - 1] * t;
        betaWon[t - 1] <== betaPrize * chosen;
    }
    chosen === 1;
    number === prizes;

    signal f[2 ** m];
    component total = Total(2 ** m);
    for (var k = 0; k < 2 ** m; k++) {
        var won = 0;
        if (2 ** m - k <= most) { won = betaWon[2 ** m - k - 1]; }
        f[k] <-- mult[k] / (alpha - k - beta * k - won);
        f[k] * (alpha - k - beta * k - won) === mult[k];
        total.in[k] <== f[k];
    }
    out <== total.out;
}
