// SPDX-License-Identifier: GPL-3.0-or-later
//! Vectors of eight coordinates of points of G1 or of G2, with what an addition does to them.

use super::fq::{self, Lanes};
use super::LANES;
use ark_bn254::{Fq, Fq2};
use ark_ff::Field;

/// Eight coordinates side by side.  All of `fq` that additions use, with the same bounds for each part.
///
/// # Safety
/// Of every function: [`super::available`] said yes.
pub trait Vector: Copy {
    /// One coordinate.
    type Of: Field;
    const ZERO: Self;
    unsafe fn loaded(from: [&Self::Of; LANES]) -> Self;
    unsafe fn stored(&self) -> [Self::Of; LANES];
    unsafe fn equal(&self, other: &Self) -> u8;
    unsafe fn one_where(lanes: u8, x: &Self) -> Self;
    unsafe fn reduced(&self) -> Self;
    unsafe fn difference(&self, b: &Self) -> Self;
    unsafe fn sum(&self, b: &Self) -> Self;
    unsafe fn less_two(&self, b: &Self, c: &Self) -> Self;
    unsafe fn fourfold_less(&self, b: &Self) -> Self;
    /// a b / 16.
    unsafe fn multiplied(&self, b: &Self) -> Self;
    /// a^2 / 16, of a at most 2 q.
    unsafe fn squared(&self) -> Self;
}

impl Vector for Lanes {
    type Of = Fq;
    const ZERO: Self = fq::ZERO;

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn loaded(from: [&Fq; LANES]) -> Self {
        fq::loaded(from)
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn stored(&self) -> [Fq; LANES] {
        fq::stored(self)
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn equal(&self, other: &Self) -> u8 {
        fq::equal(self, other)
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn one_where(lanes: u8, x: &Self) -> Self {
        fq::one_where(lanes, x)
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn reduced(&self) -> Self {
        fq::reduced(self)
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn difference(&self, b: &Self) -> Self {
        fq::difference(self, b)
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn sum(&self, b: &Self) -> Self {
        fq::sum(self, b)
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn less_two(&self, b: &Self, c: &Self) -> Self {
        fq::less_two(self, b, c)
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn fourfold_less(&self, b: &Self) -> Self {
        fq::fourfold_less(self, b)
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn multiplied(&self, b: &Self) -> Self {
        fq::multiplied(self, b)
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn squared(&self) -> Self {
        fq::squared(self)
    }
}

/// c0 + c1 u with u^2 = -1.
impl Vector for [Lanes; 2] {
    type Of = Fq2;
    const ZERO: Self = [fq::ZERO; 2];

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn loaded(from: [&Fq2; LANES]) -> Self {
        [fq::loaded(from.map(|x| &x.c0)), fq::loaded(from.map(|x| &x.c1))]
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn stored(&self) -> [Fq2; LANES] {
        let [c0, c1] = [fq::stored(&self[0]), fq::stored(&self[1])];
        std::array::from_fn(|lane| Fq2::new(c0[lane], c1[lane]))
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn equal(&self, other: &Self) -> u8 {
        fq::equal(&self[0], &other[0]) & fq::equal(&self[1], &other[1])
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn one_where(lanes: u8, x: &Self) -> Self {
        x.map(|part| fq::one_where(lanes, &part))
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn reduced(&self) -> Self {
        [fq::reduced(&self[0]), fq::reduced(&self[1])]
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn difference(&self, b: &Self) -> Self {
        [fq::difference(&self[0], &b[0]), fq::difference(&self[1], &b[1])]
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn sum(&self, b: &Self) -> Self {
        [fq::sum(&self[0], &b[0]), fq::sum(&self[1], &b[1])]
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn less_two(&self, b: &Self, c: &Self) -> Self {
        [
            fq::less_two(&self[0], &b[0], &c[0]),
            fq::less_two(&self[1], &b[1], &c[1]),
        ]
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn fourfold_less(&self, b: &Self) -> Self {
        [fq::fourfold_less(&self[0], &b[0]), fq::fourfold_less(&self[1], &b[1])]
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn multiplied(&self, b: &Self) -> Self {
        [
            fq::product_less(&self[0], &b[0], &self[1], &b[1]),
            fq::product_plus(&self[0], &b[1], &self[1], &b[0]),
        ]
    }

    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn squared(&self) -> Self {
        let [a, b] = self;
        // b below 1.1 q: the difference is by q more, and below 2.1 q.
        let less = fq::difference(a, &fq::reduced(b));
        [fq::multiplied(&fq::sum(a, b), &less), fq::multiplied(&fq::sum(a, a), b)]
    }
}
