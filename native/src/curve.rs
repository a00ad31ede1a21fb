// SPDX-License-Identifier: GPL-3.0-or-later
//! Compact affine points and batched affine addition: one field inversion serves hundreds of additions.

use crate::ensure;
use crate::error::Result;
use ark_bn254::{Fq, Fq2};
use ark_ec::short_weierstrass::{Affine, Projective, SWCurveConfig};
use ark_ec::CurveGroup;
use ark_ff::Field;

/// An affine point; (0, 0), which is on neither curve, stands for the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Pt<F> {
    pub x: F,
    pub y: F,
}

pub const OUTSIDE_SUBGROUP: &str = "a G2 point is outside the subgroup";

pub type G1 = Pt<Fq>;
pub type G2 = Pt<Fq2>;

impl<F: Field> Pt<F> {
    pub const IDENTITY: Self = Pt { x: F::ZERO, y: F::ZERO };

    #[inline(always)]
    pub fn is_identity(&self) -> bool {
        self.x.is_zero() && self.y.is_zero()
    }

    #[inline(always)]
    pub fn neg(&self) -> Self {
        Pt { x: self.x, y: -self.y }
    }

    pub fn to_affine<P: SWCurveConfig<BaseField = F>>(self) -> Affine<P> {
        if self.is_identity() {
            Affine::identity()
        } else {
            Affine::new_unchecked(self.x, self.y)
        }
    }

    pub fn from_affine<P: SWCurveConfig<BaseField = F>>(p: &Affine<P>) -> Self {
        p.xy().map_or(Self::IDENTITY, |(x, y)| Pt { x, y })
    }

    pub fn from_projective<P: SWCurveConfig<BaseField = F>>(p: &Projective<P>) -> Self {
        Self::from_affine(&p.into_affine())
    }

    pub fn normalise<P: SWCurveConfig<BaseField = F>>(points: &[Projective<P>]) -> Vec<Self> {
        Projective::normalize_batch(points)
            .iter()
            .map(Self::from_affine)
            .collect()
    }
}

use ark_ec::AffineRepr;

impl G1 {
    #[inline]
    pub fn on_curve(&self) -> bool {
        self.y.square() == self.x.square() * self.x + <ark_bn254::g1::Config as SWCurveConfig>::COEFF_B
    }
}

impl G2 {
    pub fn on_twist(&self) -> bool {
        self.y.square() == self.x.square() * self.x + <ark_bn254::g2::Config as SWCurveConfig>::COEFF_B
    }

    /// On the twist, in the subgroup of prime order, not the identity.
    pub fn check_g2(&self) -> Result<()> {
        ensure!(!self.is_identity(), "the G2 identity is refused");
        let p: Affine<ark_bn254::g2::Config> = self.to_affine();
        ensure!(p.is_on_curve(), "a G2 point is not on the curve");
        ensure!(p.is_in_correct_subgroup_assuming_on_curve(), "{OUTSIDE_SUBGROUP}");
        Ok(())
    }
}

/// Additions that share one inversion.
pub const BATCH: usize = 512;

/// What a pair of summands needs inverted; 1 where the sum needs no slope.
#[inline(always)]
pub fn denominator<F: Field>(a: &Pt<F>, b: &Pt<F>) -> F {
    if a.x != b.x {
        if (a.x.is_zero() && a.y.is_zero()) || (b.x.is_zero() && b.y.is_zero()) {
            return F::ONE;
        }
        b.x - a.x
    } else if a.y == b.y && !a.y.is_zero() {
        a.y.double()
    } else {
        F::ONE
    }
}

/// a + b given the inverse of [`denominator`].  Complete: identity, doubling and opposite points included.
#[inline(always)]
pub fn add_with_inverse<F: Field>(a: &Pt<F>, b: &Pt<F>, inverse: &F) -> Pt<F> {
    let slope = if a.x != b.x {
        if a.x.is_zero() && a.y.is_zero() {
            return *b;
        }
        if b.x.is_zero() && b.y.is_zero() {
            return *a;
        }
        (b.y - a.y) * inverse
    } else if a.y == b.y && !a.y.is_zero() {
        let square = a.x.square();
        (square.double() + square) * inverse
    } else if a.is_identity() {
        return *b;
    } else if b.is_identity() {
        return *a;
    } else {
        return Pt::IDENTITY;
    };
    let x = slope.square() - a.x - b.x;
    Pt {
        x,
        y: slope * (a.x - x) - a.y,
    }
}

/// points[i] += points[i] for all i; the identity stays.
pub fn double_all<F: Field>(points: &mut [Pt<F>]) {
    let mut prefix = [F::ZERO; BATCH];
    let mut den = [F::ZERO; BATCH];
    for points in points.chunks_mut(BATCH) {
        let mut product = F::ONE;
        for (k, p) in points.iter().enumerate() {
            let d = if p.y.is_zero() { F::ONE } else { p.y.double() };
            prefix[k] = product;
            den[k] = d;
            product *= d;
        }
        let mut inverse = product.inverse().expect("denominators are not zero");
        for (k, p) in points.iter_mut().enumerate().rev() {
            let square = p.x.square();
            let slope = (square.double() + square) * (inverse * prefix[k]);
            inverse *= den[k];
            let x = slope.square() - p.x.double();
            p.y = slope * (p.x - x) - p.y;
            p.x = x;
        }
    }
}

/// acc[i] += add[i] for all i.
pub fn add_assign_all<F: Field>(acc: &mut [Pt<F>], add: &[Pt<F>]) {
    let mut prefix = [F::ZERO; BATCH];
    let mut den = [F::ZERO; BATCH];
    for (acc, add) in acc.chunks_mut(BATCH).zip(add.chunks(BATCH)) {
        let mut product = F::ONE;
        for (k, (a, b)) in acc.iter().zip(add).enumerate() {
            let d = denominator(a, b);
            prefix[k] = product;
            den[k] = d;
            product *= d;
        }
        let mut inverse = product.inverse().expect("denominators are not zero");
        for (k, (a, b)) in acc.iter_mut().zip(add).enumerate().rev() {
            let inv = inverse * prefix[k];
            inverse *= den[k];
            *a = add_with_inverse(a, b, &inv);
        }
    }
}
