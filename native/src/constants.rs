// SPDX-License-Identifier: GPL-3.0-or-later
//! Generated from kernel/params.py by scripts/constants.py.

/// Bits of the scalar field's order.
pub const MODULUS_BITS: usize = 254;
/// Least width of a coarse element's canonical top.
pub const COARSE_CANONICAL_BITS: usize = 44;
/// Outputs of one width-17 permutation that are used.
pub const ELEMENTS_PER_BLOCK: usize = 16;
/// Poseidon domain tags, added at 2^32 to a counter.
pub const TAG_COARSE: u64 = 3;
pub const TAG_FINE: u64 = 4;
