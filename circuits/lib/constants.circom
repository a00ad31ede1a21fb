// SPDX-License-Identifier: GPL-3.0-or-later
// Generated from kernel/params.py by scripts/constants.py.
pragma circom 2.1.6;

function MODULUS_BITS() { return 254; }
function UNIFORM_BITS() { return 128; }
function COARSE_CANONICAL_BITS() { return 44; }
function PLACE_CANONICAL_BITS() { return 72; }
function ELEMENTS_PER_BLOCK() { return 16; }
function PACKED_BITS() { return 248; }
function TAG_SEED() { return 1; }
function TAG_KEY() { return 2; }
function TAG_COARSE() { return 3; }
function TAG_FINE() { return 4; }
function TAG_PLACES() { return 5; }
function TAG_COIN_SEED() { return 6; }
function TAG_COIN_KEY() { return 7; }
function TAG_COINS() { return 8; }
function COIN_BITS() { return 8; }
