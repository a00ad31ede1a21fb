// SPDX-License-Identifier: GPL-3.0-or-later
pragma circom 2.1.6;

include "constants.circom";
include "poseidon.circom";

function TAG_LIST() { return 10; }

// Commitment to a list: its length and packed ids, 248 bits an input, hashed in a chain of at most 15 inputs each. The
// first hash has the salt, and the length and the shard in one input; every other one has the hash before it.
template ListCommitment(room, L) {
    signal input salt;
    signal input count;
    signal input shard;
    signal input packed[room];
    signal output out;

    var width = L + 1;
    var per = PACKED_BITS() \ width;
    var elements = (room + per - 1) \ per;
    var links = 1;
    if (elements > 13) { links = 1 + (elements - 13 + 13) \ 14; }
    component hash[links];
    var at = 0;
    for (var k = 0; k < links; k++) {
        var own = 14;
        if (k == 0) { own = 13; }
        if (at + own > elements) { own = elements - at; }
        var head = 1;
        if (k == 0) { head = 2; }
        hash[k] = Poseidon(TAG_LIST(), head + own);
        if (k == 0) {
            hash[k].in[0] <== salt;
            hash[k].in[1] <== count + shard * 2 ** 32;
        } else {
            hash[k].in[0] <== hash[k - 1].out;
        }
        for (var e = 0; e < own; e++) {
            var value = 0;
            for (var j = 0; j < per && (at + e) * per + j < room; j++) {
                value += packed[(at + e) * per + j] * 2 ** (width * j);
            }
            hash[k].in[head + e] <== value;
        }
        at += own;
    }
    out <== hash[links - 1].out;
}
