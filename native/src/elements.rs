// SPDX-License-Identifier: GPL-3.0-or-later
//! What engines share: bits of Poseidon's outputs, their canonical form, and how large a score may be.

use crate::ensure;
use crate::error::Result;
use ark_bn254::Fr;
use ark_ff::{BigInt, PrimeField};

/// Scores beyond this are no scores; keeps every integer far from overflow.
pub(crate) const SCORE_LIMIT: i64 = 1 << 40;

/// `width` bits of an element from bit `at` on, 128 at most.
pub(crate) fn bits(x: &BigInt<4>, at: usize, width: usize) -> u128 {
    let (word, shift) = (at / 64, at % 64);
    let limb = |k: usize| x.0.get(word + k).copied().unwrap_or(0);
    let mut low = (u128::from(limb(0)) | u128::from(limb(1)) << 64) >> shift;
    if shift > 0 {
        low |= u128::from(limb(2)) << (128 - shift);
    }
    if width >= 128 {
        low
    } else {
        low & ((1u128 << width) - 1)
    }
}

/// The elements' bits from `top` on are below the modulus'.
pub(crate) fn canonical(elements: &[BigInt<4>], top: usize) -> Result<()> {
    let mut limit = Fr::MODULUS;
    limit >>= top as u32;
    limit <<= top as u32;
    ensure!(
        elements.iter().all(|element| *element < limit),
        "overflow canonical: a Poseidon output is outside the canonical decomposition"
    );
    Ok(())
}
