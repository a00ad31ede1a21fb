// SPDX-License-Identifier: GPL-3.0-or-later
//! Batched affine addition: one field inversion serves hundreds of additions.

pub use crate::point::{Pt, G1, G2, OUTSIDE_SUBGROUP};
#[cfg(lanes)]
use crate::simd::{self, fq::Lanes, points, vector::Vector};
use ark_bn254::{Fq, Fq2, Fr};
use ark_ec::short_weierstrass::SWCurveConfig;
use ark_ff::Field;

/// Additions that are done together, at most.
pub const BATCH: usize = 1024;
/// Fewer pairs are added one after the other on every processor.
#[cfg(lanes)]
const FEW: usize = 8;
/// Those of them that share one inversion, where points are added one after the other.
const SHARED: usize = 512;

/// What a pair of summands needs inverted; 1 where the sum needs no slope.
#[inline(always)]
fn denominator<F: Field>(a: &Pt<F>, b: &Pt<F>) -> F {
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
fn add_with_inverse<F: Field>(a: &Pt<F>, b: &Pt<F>, inverse: &F) -> Pt<F> {
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

/// A field of coordinates, and how points over it are added.
pub trait Coordinate: Field {
    /// sums[k] = left(k) + right(k), of at most [`BATCH`] pairs.
    fn add_pairs<'a>(
        left: impl Fn(usize) -> &'a Pt<Self> + Copy,
        right: impl Fn(usize) -> &'a Pt<Self> + Copy,
        sums: &mut [Pt<Self>],
    ) {
        add_in_turn(left, right, sums);
    }

    /// points[k] += points[k], of at most [`BATCH`] points; the identity stays.
    fn double_each(points: &mut [Pt<Self>]) {
        double_in_turn(points);
    }
}

#[cfg(not(lanes))]
impl Coordinate for Fq {}

#[cfg(not(lanes))]
impl Coordinate for Fq2 {}

#[cfg(lanes)]
impl Coordinate for Fq {
    fn add_pairs<'a>(left: impl Fn(usize) -> &'a G1 + Copy, right: impl Fn(usize) -> &'a G1 + Copy, sums: &mut [G1]) {
        add_by_eight::<Lanes>(left, right, sums);
    }

    fn double_each(points: &mut [G1]) {
        double_by_eight::<Lanes>(points);
    }
}

#[cfg(lanes)]
impl Coordinate for Fq2 {
    fn add_pairs<'a>(left: impl Fn(usize) -> &'a G2 + Copy, right: impl Fn(usize) -> &'a G2 + Copy, sums: &mut [G2]) {
        add_by_eight::<[Lanes; 2]>(left, right, sums);
    }

    fn double_each(points: &mut [G2]) {
        double_by_eight::<[Lanes; 2]>(points);
    }
}

#[cfg(lanes)]
fn add_by_eight<'a, V: Vector>(
    left: impl Fn(usize) -> &'a Pt<V::Of> + Copy,
    right: impl Fn(usize) -> &'a Pt<V::Of> + Copy,
    sums: &mut [Pt<V::Of>],
) where
    V::Of: 'a,
{
    if sums.len() < FEW || !simd::available() {
        return add_in_turn(left, right, sums);
    }
    // SAFETY: the processor has what it needs.
    let left_out = unsafe { points::add::<V>(left, right, sums) };
    let mut others = vec![Pt::IDENTITY; left_out.len()];
    add_in_turn(|k| left(left_out[k]), |k| right(left_out[k]), &mut others);
    for (k, sum) in left_out.into_iter().zip(others) {
        sums[k] = sum;
    }
}

#[cfg(lanes)]
fn double_by_eight<V: Vector>(points: &mut [Pt<V::Of>]) {
    if points.len() < FEW || !simd::available() {
        return double_in_turn(points);
    }
    // SAFETY: the processor has what it needs.
    unsafe { points::double::<V>(points) };
}

/// Either group: its curve has points over such a field.
pub trait Group: SWCurveConfig<ScalarField = Fr, BaseField: Coordinate> {}

impl<P: SWCurveConfig<ScalarField = Fr, BaseField: Coordinate>> Group for P {}

/// [`Coordinate::add_pairs`], whatever the points and the processor are.
pub fn add_in_turn<'a, F: Field>(
    left: impl Fn(usize) -> &'a Pt<F>,
    right: impl Fn(usize) -> &'a Pt<F>,
    sums: &mut [Pt<F>],
) {
    let mut prefix = [F::ZERO; SHARED];
    let mut den = [F::ZERO; SHARED];
    for (chunk, sums) in sums.chunks_mut(SHARED).enumerate() {
        let at = chunk * SHARED;
        let mut product = F::ONE;
        for k in 0..sums.len() {
            let d = denominator(left(at + k), right(at + k));
            prefix[k] = product;
            den[k] = d;
            product *= d;
        }
        let mut inverse = product.inverse().expect("denominators are not zero");
        for (k, sum) in sums.iter_mut().enumerate().rev() {
            *sum = add_with_inverse(left(at + k), right(at + k), &(inverse * prefix[k]));
            inverse *= den[k];
        }
    }
}

/// acc[i] += add[i] for all i.
pub fn add_assign_all<F: Coordinate>(acc: &mut [Pt<F>], add: &[Pt<F>]) {
    let mut sums = vec![Pt::IDENTITY; BATCH.min(acc.len()).min(add.len())];
    for (acc, add) in acc.chunks_mut(BATCH).zip(add.chunks(BATCH)) {
        let pairs = acc.len().min(add.len());
        let (acc, sums) = (&mut acc[..pairs], &mut sums[..pairs]);
        F::add_pairs(|k| &acc[k], |k| &add[k], sums);
        acc.copy_from_slice(sums);
    }
}

/// points[i] += points[i] for all i; the identity stays.
pub fn double_all<F: Coordinate>(points: &mut [Pt<F>]) {
    points.chunks_mut(BATCH).for_each(F::double_each);
}

/// [`Coordinate::double_each`], whatever the points and the processor are.
fn double_in_turn<F: Field>(points: &mut [Pt<F>]) {
    let mut prefix = [F::ZERO; SHARED];
    let mut den = [F::ZERO; SHARED];
    for points in points.chunks_mut(SHARED) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use ark_bn254::{g1, g2};
    use ark_ec::short_weierstrass::Projective;
    use ark_ec::PrimeGroup;
    use ark_ff::{AdditiveGroup, UniformRand};

    /// Pairs of random points, equal ones, opposite ones and the identity, at every place of a group of eight.
    fn pairs<P: Group>(count: usize, odd: usize) -> [Vec<Pt<P::BaseField>>; 2] {
        let mut rng = ark_std::test_rng();
        let random = |rng: &mut _| Pt::from_projective(&(Projective::<P>::generator() * Fr::rand(rng)));
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for k in 0..count {
            let (a, b) = (random(&mut rng), random(&mut rng));
            let (a, b) = match if k % 11 == odd { k / 11 % 5 } else { 9 } {
                0 => (a, a),
                1 => (a, a.neg()),
                2 => (a, Pt::IDENTITY),
                3 => (Pt::IDENTITY, b),
                4 => (Pt::IDENTITY, Pt::IDENTITY),
                _ => (a, b),
            };
            left.push(a);
            right.push(b);
        }
        [left, right]
    }

    fn sums_are_right<P: Group>() {
        for count in [0, 1, 7, 8, 9, 15, 16, 17, 100, SHARED + 1, BATCH] {
            for odd in [0, 3, 11] {
                let [left, right] = pairs::<P>(count, odd);
                let want: Vec<_> = left
                    .iter()
                    .zip(&right)
                    .map(|(a, b)| {
                        Pt::from_projective(&(Projective::<P>::from(a.to_affine::<P>()) + b.to_affine::<P>()))
                    })
                    .collect();
                let mut found = vec![Pt::IDENTITY; count];
                P::BaseField::add_pairs(|k| &left[k], |k| &right[k], &mut found);
                assert_eq!(found, want, "{count} pairs");
                found.fill(Pt::IDENTITY);
                add_in_turn(|k| &left[k], |k| &right[k], &mut found);
                assert_eq!(found, want, "{count} pairs in turn");
                let mut acc = left.clone();
                add_assign_all(&mut acc, &right);
                assert_eq!(acc, want);
                let want: Vec<_> = left
                    .iter()
                    .map(|a| Pt::from_projective(&Projective::<P>::from(a.to_affine::<P>()).double()))
                    .collect();
                let mut twice = left.clone();
                double_all(&mut twice);
                assert_eq!(twice, want, "{count} points doubled");
                twice.copy_from_slice(&left);
                double_in_turn(&mut twice);
                assert_eq!(twice, want, "{count} points doubled in turn");
            }
        }
    }

    #[test]
    fn sums_are_those_of_projective_points() {
        sums_are_right::<g1::Config>();
        sums_are_right::<g2::Config>();
    }

    #[test]
    fn what_nothing_is_added_to_stays() {
        let [mut left, right] = pairs::<g1::Config>(3 * BATCH, 0);
        let kept = left.clone();
        add_assign_all(&mut left, &right[..BATCH + 5]);
        assert_eq!(left[BATCH + 5..], kept[BATCH + 5..]);
        assert_ne!(left[BATCH + 4], kept[BATCH + 4]);
    }
}
