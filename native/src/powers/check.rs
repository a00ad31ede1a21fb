// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether the points of a .ptau file are powers of one tau, plain and times one alpha and one beta.

use super::Powers;
use crate::curve::{Pt, G1, G2};
use crate::ensure;
use crate::error::Result;
use crate::msm::msm;
use crate::scalars;
use ark_bn254::{g1, Bn254, G1Affine, G2Affine};
use ark_ec::pairing::Pairing;
use ark_ec::AffineRepr;
use ark_ff::Zero;

/// e(a, p) = e(b, q).
pub fn same_product(a: &G1, p: &G2, b: &G1, q: &G2) -> bool {
    let (a, b): (G1Affine, G1Affine) = (a.to_affine(), b.to_affine());
    let (p, q): (G2Affine, G2Affine) = (p.to_affine(), q.to_affine());
    Bn254::multi_pairing([a, -b], [p, q]).is_zero()
}

pub fn one_1() -> G1 {
    Pt::from_affine::<g1::Config>(&G1Affine::generator())
}

pub fn one_2() -> G2 {
    Pt::from_affine::<ark_bn254::g2::Config>(&G2Affine::generator())
}

/// Every point is tau times the one before: random combinations, so that a wrong one passes with probability 2^-128.
fn in_sequence(points: &[G1], tau2: &G2) -> Result<bool> {
    let steps = points.len() - 1;
    let weights = scalars::random_short(steps)?;
    let before = Pt::from_projective(&msm::<g1::Config>(&points[..steps], &weights));
    let after = Pt::from_projective(&msm::<g1::Config>(&points[1..], &weights));
    Ok(same_product(&after, &one_2(), &before, tau2))
}

/// `first2`: the first point of the file's tau section in G2.  The points are on their curves, not the identity, and
/// those of G2 in the subgroup.
pub fn check_powers(powers: &Powers, first2: &G2) -> Result<()> {
    ensure!(
        powers.tau1[0] == one_1() && *first2 == one_2(),
        "the powers do not begin with the generators: the file is of another curve, or damaged"
    );
    // Of such a tau the Lagrange bases are zeros and ones, and the quotient of a proof is nothing.  A new file without
    // a contribution has tau = 1.
    let half_way = powers.tau1[powers.domain];
    ensure!(
        half_way != one_1() && half_way != one_1().neg(),
        "tau is a root of unity: the file has no contribution; take one of a ceremony"
    );
    for (name, points) in [
        ("2 (tau)", &powers.tau1),
        ("4 (alpha tau)", &powers.alpha1),
        ("5 (beta tau)", &powers.beta1),
    ] {
        ensure!(
            in_sequence(points, &powers.tau2)?,
            "section {name} does not hold the powers of the tau of section 3: the file is damaged or made up; get it \
             again, from a ceremony that you know"
        );
    }
    ensure!(
        same_product(&powers.beta1[0], &one_2(), &one_1(), &powers.beta2),
        "section 6 (beta in G2) is not of the beta of section 5: the file is damaged or made up; get it again, from a \
         ceremony that you know"
    );
    Ok(())
}
