// SPDX-License-Identifier: GPL-3.0-or-later
//! Halving a vector of points: u * left + right, the costly step of a folding argument.
//!
//! One scalar multiplies many points, so all of them follow one schedule of doublings and additions, each with a shared
//! inversion; the curve's endomorphism (GLV) halves the number of doublings.

use crate::curve::{add_assign_all, double_all, Pt, BATCH, G1};
use crate::ensure;
use crate::error::Result;
use ark_bn254::g1::Config;
use ark_bn254::{Fq, Fr};
use ark_ec::scalar_mul::glv::GLVConfig;
use ark_ff::{PrimeField, Zero};
use rayon::prelude::*;

/// Width of the signed digits: odd multiples up to 2^(WIDTH - 1) are kept of every point.
const WIDTH: u32 = 4;
const MULTIPLES: usize = 1 << (WIDTH - 2);

/// One addition: after `doublings`, add (or subtract) an odd multiple, or its image under the endomorphism.
#[derive(Clone, Copy)]
struct Step {
    doublings: u32,
    multiple: usize,
    negative: bool,
    image: bool,
}

/// Non-adjacent form of width [`WIDTH`]: (bit, odd digit).
fn signed_digits(mut k: u128) -> Vec<(u32, i32)> {
    let (mut digits, mut bit) = (Vec::new(), 0);
    while k != 0 {
        let zeros = k.trailing_zeros();
        (k, bit) = (k >> zeros, bit + zeros);
        let low = (k & ((1 << WIDTH) - 1)) as i32;
        digits.push((
            bit,
            if low >> (WIDTH - 1) == 1 {
                low - (1 << WIDTH)
            } else {
                low
            },
        ));
        k = (k >> WIDTH) + u128::from(low >> (WIDTH - 1) == 1);
        bit += WIDTH;
    }
    digits
}

/// The schedule of u = k1 + lambda k2, and the doublings after its last step.
fn schedule(u: Fr) -> (Vec<Step>, u32) {
    let ((keep1, k1), (keep2, k2)) = Config::scalar_decomposition(u);
    let mut all: Vec<(u32, i32, bool)> = Vec::new();
    for (k, keep, image) in [(k1, keep1, false), (k2, keep2, true)] {
        let n = k.into_bigint().0;
        assert!(n[2] == 0 && n[3] == 0, "half a scalar has 128 bits");
        let digits = signed_digits(u128::from(n[0]) | u128::from(n[1]) << 64);
        all.extend(
            digits
                .into_iter()
                .map(|(bit, d)| (bit, if keep { d } else { -d }, image)),
        );
    }
    all.sort_by_key(|&(bit, _, _)| std::cmp::Reverse(bit));
    let mut at = all.first().map_or(0, |d| d.0);
    let steps = all
        .iter()
        .map(|&(bit, digit, image)| {
            let doublings = at - bit;
            at = bit;
            Step {
                doublings,
                multiple: digit.unsigned_abs() as usize / 2,
                negative: digit < 0,
                image,
            }
        })
        .collect();
    (steps, at)
}

/// acc[i] = u * points[i] + add[i] for a batch; missing summands are the identity.
fn scale(steps: &[Step], last: u32, points: &[G1], add: &[G1]) -> Vec<G1> {
    let endomorphism: Fq = Config::ENDO_COEFFS[0];
    let mut odd: Vec<Vec<G1>> = vec![points.to_vec()];
    let mut twice = points.to_vec();
    double_all(&mut twice);
    for j in 1..MULTIPLES {
        let mut next = odd[j - 1].clone();
        add_assign_all(&mut next, &twice);
        odd.push(next);
    }
    let mut acc = vec![G1::IDENTITY; points.len()];
    let mut summand = acc.clone();
    for step in steps {
        for _ in 0..step.doublings {
            double_all(&mut acc);
        }
        for (s, p) in summand.iter_mut().zip(&odd[step.multiple]) {
            *s = Pt {
                x: if step.image { p.x * endomorphism } else { p.x },
                y: if step.negative { -p.y } else { p.y },
            };
        }
        add_assign_all(&mut acc, &summand);
    }
    for _ in 0..last {
        double_all(&mut acc);
    }
    let shared = add.len();
    add_assign_all(&mut acc[..shared], add);
    acc
}

/// u * left + right for the halves of `points`; of an odd number the left half has one more.
pub fn fold(points: &[G1], u: Fr) -> Result<Vec<G1>> {
    ensure!(!u.is_zero(), "a vector is not folded by 0");
    let half = points.len().div_ceil(2);
    let (left, right) = points.split_at(half);
    let (steps, last) = schedule(u);
    let batches = left.par_chunks(BATCH).enumerate();
    let parts: Vec<Vec<G1>> = batches
        .map(|(k, batch)| {
            let at = (k * BATCH).min(right.len());
            scale(&steps, last, batch, &right[at..right.len().min(at + batch.len())])
        })
        .collect();
    Ok(parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generators::generators;
    use ark_ec::short_weierstrass::Projective;
    use ark_ff::{AdditiveGroup, Field};

    #[test]
    fn agrees_with_the_definition() {
        let mut us = crate::scalars::random(6).unwrap();
        us.extend([
            Fr::ONE,
            -Fr::ONE,
            Fr::from(2u64),
            Fr::from(15u64),
            Config::LAMBDA,
            -Config::LAMBDA,
        ]);
        us.push(Fr::from(2u64).pow([248]) - Fr::ONE);
        us.push(Config::LAMBDA + Fr::ONE);
        let mut points = generators(b"folding", 1201);
        points[3] = G1::IDENTITY;
        points[604] = G1::IDENTITY; // right of 3
        points[605] = points[4]; // right of 4: u = 1 doubles, u = -1 cancels
        for u in us {
            for n in [0usize, 1, 2, 3, 1201] {
                let got = fold(&points[..n], u).unwrap();
                let half = n.div_ceil(2);
                assert_eq!(got.len(), half);
                for (j, found) in got
                    .iter()
                    .enumerate()
                    .filter(|(j, _)| *j < 8 || *j > half - 4 || j % 97 == 0)
                {
                    let mut want = Projective::<Config>::from(points[j].to_affine::<Config>()) * u;
                    if half + j < n {
                        want += points[half + j].to_affine::<Config>();
                    }
                    assert_eq!(*found, Pt::from_projective(&want), "entry {j} of {n}");
                }
            }
        }
        assert!(fold(&points, Fr::ZERO).is_err());
    }
}
