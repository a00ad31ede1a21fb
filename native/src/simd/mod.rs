// SPDX-License-Identifier: GPL-3.0-or-later
//! Eight numbers side by side, where the processor multiplies eight 52-bit numbers at once (AVX-512 IFMA).
//!
//! `fr` has elements of the scalar field and `poseidon` permutations of them; `fq` has coordinates of points, `vector` those of
//! either group, and `points` their additions.

pub mod fq;
pub mod fr;
pub mod points;
pub mod poseidon;
pub mod vector;

pub const LANES: usize = 8;

/// Whether this processor has what the functions here need.
pub fn available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma")
}
