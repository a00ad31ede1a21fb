// SPDX-License-Identifier: GPL-3.0-or-later
//! Compact affine points of either group.

use crate::ensure;
use crate::error::Result;
use ark_bn254::{Fq, Fq2};
use ark_ec::short_weierstrass::{Affine, Projective, SWCurveConfig};
use ark_ec::{AffineRepr, CurveGroup};
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
