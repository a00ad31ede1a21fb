// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether the two copies of a key's B, in G1 and in G2, are of one value, by random combinations.

use crate::curve::{Pt, G1, G2};
use crate::ensure;
use crate::error::{Error, Result};
use crate::msm::{msm, msm_int};
use crate::scalars;
use ark_bn254::{g1, g2, Bn254};
use ark_ec::pairing::Pairing;
use ark_ec::short_weierstrass::Projective;
use ark_ec::AffineRepr;
use ark_ff::Zero;

/// Combinations with 14-bit weights: a point of order 10069, the smallest factor of the cofactor of G2, or one that does
/// not match its counterpart, passes them all with probability below 2^-90.
const ROUNDS: usize = 7;

/// Every point of B2 lies in the subgroup, and e(B1_i, G2) = e(G1, B2_i).  The points must be on their curves.
pub fn check_b(b1: &[G1], b2: &[G2]) -> Result<()> {
    let mut random = vec![0u8; 2 * b2.len()];
    let (mut sums1, mut sums2): (Vec<G1>, Vec<G2>) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        getrandom::fill(&mut random).map_err(|e| Error(format!("the system's random source failed: {e}")))?;
        let weights: Vec<i64> = random
            .chunks_exact(2)
            .map(|b| i64::from(u16::from_le_bytes([b[0], b[1]]) & 0x3fff) - 0x2000)
            .collect();
        let sum: Projective<g2::Config> = msm_int(b2, &weights);
        let p = Pt::from_projective(&sum);
        if !p.is_identity() {
            p.check_g2().map_err(|e| Error(format!("section B2: {e}")))?;
        }
        sums2.push(p);
        let sum: Projective<g1::Config> = msm_int(b1, &weights);
        sums1.push(Pt::from_projective(&sum));
    }
    let scales = scalars::random(ROUNDS)?;
    let left = Pt::from_projective(&msm::<g1::Config>(&sums1, &scales)).to_affine();
    let right = Pt::from_projective(&msm::<g2::Config>(&sums2, &scales)).to_affine();
    let (one1, one2) = (ark_bn254::G1Affine::generator(), ark_bn254::G2Affine::generator());
    ensure!(
        Bn254::multi_pairing([left, -one1], [one2, right]).is_zero(),
        "sections B1 and B2 disagree"
    );
    Ok(())
}
