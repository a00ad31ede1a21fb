// SPDX-License-Identifier: GPL-3.0-or-later
//! Eight numbers side by side, where the processor multiplies eight 52-bit numbers at once (AVX-512 IFMA).
//!
//! With the feature `emulated`, which is for tests, every processor runs all of it: see `emulated`.
//!
//! `fr` has elements of the scalar field and `poseidon` permutations of them; `fq` has coordinates of points, `vector` those of
//! either group, and `points` their additions.

#[cfg(any(emulated, test))]
mod emulated;
pub mod fq;
pub mod fr;
pub mod points;
pub mod poseidon;
pub mod vector;

pub const LANES: usize = 8;

/// The processor's, or their emulation.
mod intrinsics {
    #[cfg(emulated)]
    pub use super::emulated::*;
    #[cfg(not(emulated))]
    pub use std::arch::x86_64::*;
}

/// Whether this processor has what the functions here need.
#[cfg(emulated)]
pub fn available() -> bool {
    true
}

/// Whether this processor has what the functions here need.
#[cfg(not(emulated))]
pub fn available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma")
}
