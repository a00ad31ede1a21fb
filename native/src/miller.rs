// SPDX-License-Identifier: GPL-3.0-or-later
//! The Miller loops of many pairings at once, with which the points of G2 are found to lie in their subgroup.
//!
//! All loops of a chunk share the squarings of one product.  Points of the twist stay affine: the inversions of a step
//! are one for the whole chunk.  A line through T with slope s, at P = (x, y), is divided by y, and by what else lies in
//! Fq2, for the final exponentiation takes such factors to 1: 1 - s x/y w + (s x_T - y_T)/y w^3, in half the products of a
//! line with three coefficients.
//!
//! # Subgroup
//!
//! A loop ends at T = [6u+2] Q + psi(Q) - psi^2(Q), so `T == -psi^3(Q)` says that f(psi) kills Q, where f(X) = 6u + 2 +
//! X - X^2 + X^3 and psi is the Frobenius seen on the twist.  On the twist psi^2 - t psi + p = 0, where f(X) is a + b X with
//! a = 6u + 2 + p - t p and b = 1 - t + t^2 - p; so the norm a^2 + a b t + b^2 p kills Q as well.  So does the order of
//! the twist, r (2 p - r), and the greatest common divisor of the two is r.  Hence Q has order r: there is one subgroup of
//! that order over Fq2.  Conversely f(p) is a multiple of r, and psi is [p] on that subgroup.  The numbers are computed in
//! `tests/native/test_groth16.py`.
//!
//! A chord of T = Q or T = -Q and a tangent of order 2 have no slope.  Points of the subgroup never come to one: their T is
//! [k] Q with 1 < k < r - 1 at every chord of the loop, and 6u + 2 = +-p, 6u + 2 + p = +-p^2 mod r do not hold.  So such a point
//! is outside.

use crate::curve::{Pt, G1, G2};
use ark_bn254::{Config, Fq, Fq12, Fq2, Fq6};
use ark_ec::bn::BnConfig;
use ark_ff::fields::fp12_2over3over2::Fp12Config;
use ark_ff::{AdditiveGroup, Field, Zero};
use rayon::prelude::*;

/// Fewer loops do not pay an inversion of their own at each step.
const LEAST: usize = 16;
/// More gain nothing, and what a step touches leaves the cache.
const MOST: usize = 256;

type Tower = <Config as BnConfig>::Fp12Config;

/// psi: (x, y) to (x^p g_x, y^p g_y).
fn psi(q: &G2) -> G2 {
    let mut out = *q;
    out.x.conjugate_in_place();
    out.y.conjugate_in_place();
    Pt {
        x: out.x * Config::TWIST_MUL_BY_Q_X,
        y: out.y * Config::TWIST_MUL_BY_Q_Y,
    }
}

/// f (1 + w (a + b v)).
fn times_line(f: &mut Fq12, a: &Fq2, b: &Fq2) {
    let (mut low, mut high) = (f.c0, f.c1);
    low.mul_by_01(a, b);
    high.mul_by_01(a, b);
    f.c1 += low;
    f.c0 += Tower::mul_fp6_by_nonresidue_in_place(&mut high) as &Fq6;
}

/// One chunk's loops, side by side.
struct Loops {
    f: Fq12,
    /// x/y and 1/y of each P.
    at: Vec<(Fq, Fq)>,
    t: Vec<G2>,
    /// Denominators of a step's slopes, then their inverses; and the products before each.
    slopes: Vec<Fq2>,
    before: Vec<Fq2>,
}

impl Loops {
    fn new(pairs: &[(G1, G2)]) -> Loops {
        let mut inverses: Vec<Fq> = pairs.iter().map(|(p, _)| p.y).collect();
        ark_ff::batch_inversion(&mut inverses);
        Loops {
            f: Fq12::ONE,
            at: pairs.iter().zip(inverses).map(|((p, _), i)| (p.x * i, i)).collect(),
            t: pairs.iter().map(|(_, q)| *q).collect(),
            slopes: Vec::with_capacity(pairs.len()),
            before: Vec::with_capacity(pairs.len()),
        }
    }

    /// Invert what `slopes` holds; the first zero's place where there is one.
    fn invert(&mut self) -> Result<(), usize> {
        self.before.clear();
        let mut product = Fq2::ONE;
        for d in &self.slopes {
            self.before.push(product);
            product *= d;
        }
        let Some(mut inverse) = product.inverse() else {
            return Err(self.slopes.iter().position(Fq2::is_zero).expect("a factor is zero"));
        };
        for (d, before) in self.slopes.iter_mut().zip(&self.before).rev() {
            let here = inverse * before;
            inverse *= &*d;
            *d = here;
        }
        Ok(())
    }

    /// Multiply the line of each slope in, and go on to its third point; `x` is that of the second.
    fn advance(&mut self, slope: impl Fn(usize, &G2, &Fq2) -> Fq2, x: impl Fn(usize, &G2) -> Fq2) {
        for (i, (t, inverse)) in self.t.iter_mut().zip(&self.slopes).enumerate() {
            let s = slope(i, t, inverse);
            let (mut a, mut b) = (-s, s * t.x - t.y);
            a.mul_assign_by_fp(&self.at[i].0);
            b.mul_assign_by_fp(&self.at[i].1);
            times_line(&mut self.f, &a, &b);
            let third = s.square() - t.x - x(i, t);
            t.y = s * (t.x - third) - t.y;
            t.x = third;
        }
    }

    fn double(&mut self) -> Result<(), usize> {
        self.slopes.clear();
        self.slopes.extend(self.t.iter().map(|t| t.y.double()));
        self.invert()?;
        self.advance(
            |_, t, inverse| {
                let square = t.x.square();
                (square.double() + square) * inverse
            },
            |_, t| t.x,
        );
        Ok(())
    }

    fn add(&mut self, q: &[G2]) -> Result<(), usize> {
        self.slopes.clear();
        self.slopes.extend(self.t.iter().zip(q).map(|(t, q)| t.x - q.x));
        self.invert()?;
        self.advance(|i, t, inverse| (t.y - q[i].y) * inverse, |i, _| q[i].x);
        Ok(())
    }
}

/// One chunk's product, or the place of a point outside the subgroup.
fn chunk_product(pairs: &[(G1, G2)]) -> Result<Fq12, usize> {
    let mut loops = Loops::new(pairs);
    let q: Vec<G2> = loops.t.clone();
    let minus: Vec<G2> = q.iter().map(Pt::neg).collect();
    for digit in Config::ATE_LOOP_COUNT.iter().rev().skip(1) {
        loops.f.square_in_place();
        loops.double()?;
        match digit {
            1 => loops.add(&q)?,
            -1 => loops.add(&minus)?,
            _ => {}
        }
    }
    let once: Vec<G2> = q.iter().map(psi).collect();
    let twice: Vec<G2> = once.iter().map(|q| psi(q).neg()).collect();
    loops.add(&once)?;
    loops.add(&twice)?;
    match loops.t.iter().zip(&twice).position(|(t, q)| *t != psi(q)) {
        Some(outside) => Err(outside),
        None => Ok(loops.f),
    }
}

/// The product of the pairs' Miller loops, before its final exponentiation; other than arkworks' by factors that this takes
/// to 1.  No point may be the identity, and all must be on their curves.
///
/// Err: the place of a point that is outside the subgroup of G2.
pub fn product(pairs: &[(G1, G2)]) -> Result<Fq12, usize> {
    let chunk = pairs.len().div_ceil(rayon::current_num_threads()).clamp(LEAST, MOST);
    let parts: Vec<Result<Fq12, usize>> = pairs
        .par_chunks(chunk)
        .enumerate()
        .map(|(k, part)| chunk_product(part).map_err(|at| k * chunk + at))
        .collect();
    parts
        .into_iter()
        .try_fold(Fq12::ONE, |product, part| Ok(product * part?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_bn254::{Bn254, Fr};
    use ark_ec::pairing::{MillerLoopOutput, Pairing};
    use ark_ec::{AffineRepr, PrimeGroup};
    use ark_ff::UniformRand;

    type Affine2 = ark_bn254::G2Affine;

    fn pairs(n: usize) -> Vec<(G1, G2)> {
        let mut rng = ark_std::test_rng();
        let g1 = ark_bn254::G1Projective::generator();
        let g2 = ark_bn254::G2Projective::generator();
        (0..n)
            .map(|_| {
                (
                    Pt::from_projective(&(g1 * Fr::rand(&mut rng))),
                    Pt::from_projective(&(g2 * Fr::rand(&mut rng))),
                )
            })
            .collect()
    }

    /// A point of the whole twist; multiplied by r it lies in a group of the cofactor's order.
    fn on_twist() -> Affine2 {
        let mut rng = ark_std::test_rng();
        loop {
            let found = Affine2::get_point_from_x_unchecked(Fq2::rand(&mut rng), true);
            if let Some(p) = found.filter(|p| !p.is_in_correct_subgroup_assuming_on_curve()) {
                return p;
            }
        }
    }

    #[test]
    fn agrees_with_arkworks() {
        for n in [1usize, 2, 17, 70, 300] {
            let all = pairs(n);
            let want = Bn254::multi_pairing(
                all.iter().map(|(p, _)| p.to_affine::<ark_bn254::g1::Config>()),
                all.iter().map(|(_, q)| q.to_affine::<ark_bn254::g2::Config>()),
            );
            let got = Bn254::final_exponentiation(MillerLoopOutput(product(&all).unwrap())).unwrap();
            assert_eq!(got, want, "{n} pairs");
        }
        assert_eq!(product(&[]), Ok(Fq12::ONE));
    }

    #[test]
    fn a_point_outside_the_subgroup_is_found_at_its_place() {
        // 10069 and 5864401 are the cofactor's least prime factors.
        let order: Vec<u64> = ark_bn254::Config::X.to_vec();
        assert_eq!(order, [4965661367192848881]);
        let whole = on_twist();
        let r = <Fr as ark_ff::PrimeField>::MODULUS;
        let without = whole.mul_bigint(r);
        let mut cofactor = cofactor();
        assert!(without.mul_bigint(&cofactor).is_zero());
        divide(&mut cofactor, 10069);
        let small = without.mul_bigint(&cofactor);
        assert!(!small.is_zero() && small.mul_bigint([10069u64]).is_zero());
        let inside = pairs(1)[0].1.to_affine::<ark_bn254::g2::Config>();
        for (n, at) in [(1usize, 0usize), (40, 0), (40, 39), (300, 257)] {
            for bad in [
                Pt::from_affine(&whole),
                Pt::from_projective(&without),
                Pt::from_projective(&small),
                Pt::from_projective(&(small + inside)),
            ] {
                let mut all = pairs(n);
                all[at].1 = bad;
                assert!(bad.check_g2().is_err());
                assert_eq!(product(&all), Err(at));
            }
        }
    }

    #[test]
    fn every_multiple_of_a_small_point_is_outside() {
        // Chords without a slope: multiples of a point of order 10069 come back to it.
        let mut cofactor = cofactor();
        divide(&mut cofactor, 10069);
        let small = on_twist()
            .mul_bigint(<Fr as ark_ff::PrimeField>::MODULUS)
            .mul_bigint(&cofactor);
        let p = pairs(1)[0].0;
        let mut multiple = small;
        let mut found = 0;
        for k in 1..10069 {
            if k % 400 == 1 {
                assert_eq!(product(&[(p, Pt::from_projective(&multiple))]), Err(0));
                found += 1;
            }
            multiple += small;
        }
        assert_eq!(found, 26);
        assert!(multiple.is_zero());
    }

    /// 2 p - r, as limbs.
    fn cofactor() -> Vec<u64> {
        let p = <Fq as ark_ff::PrimeField>::MODULUS.0;
        let r = <Fr as ark_ff::PrimeField>::MODULUS.0;
        let (mut out, mut carry) = (Vec::new(), 0i128);
        for i in 0..4 {
            let v = 2 * i128::from(p[i]) - i128::from(r[i]) + carry;
            out.push(v as u64);
            carry = v >> 64;
        }
        assert_eq!(carry, 0);
        out
    }

    /// Exact division.
    fn divide(n: &mut [u64], by: u64) {
        let mut rest = 0u128;
        for limb in n.iter_mut().rev() {
            let v = rest << 64 | u128::from(*limb);
            *limb = (v / u128::from(by)) as u64;
            rest = v % u128::from(by);
        }
        assert_eq!(rest, 0);
    }
}
