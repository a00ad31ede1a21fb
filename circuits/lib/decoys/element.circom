// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "logup.circom";

// One returned id: the slot that it is, whether it was drawn, its flag.
//
// used: it is one. id, distance: its slot and the slot's X, as the slot has them. before, after: bits, whether the elements
// before it, and it, have passed the last winner. hits: how often it was drawn. drawn: whether it was. inverse: of
// hits, any number where that is 0.
// shard: its number. last: the last winner's id in the whole index. floor: lo. winLow, flagLow: lower chunks.
template Element(N, chunks, c) {
    signal input alpha;
    signal input beta;
    signal input beta2;
    signal input beta3;
    signal input shard;
    signal input last;
    signal input entry;
    signal input floor;
    signal input used;
    signal input id;
    signal input distance;
    signal input before;
    signal input after;
    signal input hits;
    signal input inverse;
    signal input drawn;
    signal input flag;
    signal input winLow[chunks - 1];
    signal input flagLow[chunks - 1];
    signal output fSlot;
    signal output fHits;
    signal output packed;
    signal output range;

    // A slot has this distance, m = 1, this id, and this step of b.
    signal betaId <== beta2 * id;
    signal betaStep <== beta3 * (after - before);
    fSlot <-- used / (alpha - distance - beta - betaId - betaStep);
    fSlot * (alpha - distance - beta - betaId - betaStep) === used;

    // b steps up once at most, behind the last winner.
    (after - before) * (after - before - 1) === 0;
    (after - before) * (N * shard + id - last) === 0;

    // drawn = [hits != 0], and what was drawn is used.
    hits * (1 - drawn) === 0;
    inverse * hits === drawn;
    drawn * (1 - used) === 0;
    fHits <-- hits / (alpha - id);
    fHits * (alpha - id) === hits;

    // A used one that was not drawn has y >= v* + b, so -1 - X >= 0. The flag is [y > lo].
    flag * (flag - 1) === 0;
    var y = entry - 1 - distance + before;
    signal win <== (used - drawn) * (-1 - distance);
    signal turned <== flag * (2 * (y - floor) - 1);
    packed <== used * (2 * id + flag);

    var win0 = win;
    var flag0 = turned - y + floor;
    if (chunks == 2) {
        win0 -= winLow[0];
        win0 = win0 * (1 / 2 ** c);
        flag0 -= flagLow[0];
        flag0 = flag0 * (1 / 2 ** c);
    }
    signal f[2 * chunks];
    var sum = 0;
    for (var k = 0; k < 2 * chunks; k++) {
        var x;
        if (k == 0) { x = win0; }
        else if (k == 1) { x = flag0; }
        else if (k == 2) { x = winLow[0]; }
        else { x = flagLow[0]; }
        f[k] <-- 1 / (alpha - x);
        f[k] * (alpha - x) === 1;
        sum += f[k];
    }
    range <== sum;
}
