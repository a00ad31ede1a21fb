// SPDX-License-Identifier: GPL-3.0-or-later
//! Sums of pairs of points, eight pairs at a time; one inversion serves all of them.
//!
//! Products lose a factor of 16 (`fq`).  Of n denominators the product of all is theirs by 16^(n - 1), and what inverts
//! one that is multiplied out of it is divided by 16 twice as often as it is multiplied: a start of c times the inverse of
//! the product leaves c times the inverse of each.  With c = 64 a slope comes four times too large, as its square / 16 needs.

use super::vector::Vector;
use super::LANES;
use crate::point::Pt;
use ark_ff::Field;

/// Denominators of all groups, and what inverts them.
struct BatchInversion<V> {
    each: Vec<V>,
    /// Of each group the product of those after it.
    after: Vec<V>,
    product: V,
}

impl<V: Vector> BatchInversion<V> {
    fn new(groups: usize) -> Self {
        BatchInversion {
            each: vec![V::ZERO; groups],
            after: vec![V::ZERO; groups],
            product: V::ZERO,
        }
    }

    /// From the last group to the first; not zero.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn put(&mut self, group: usize, d: V) {
        self.each[group] = d;
        self.after[group] = self.product;
        self.product = if group + 1 == self.each.len() {
            d
        } else {
            self.product.multiplied(&d)
        };
    }

    /// Once all are there.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn invert(&mut self, c: u64) {
        let inverses = inverted(&self.product.reduced().stored(), c);
        self.product = V::loaded(std::array::from_fn(|lane| &inverses[lane]));
    }

    /// c / d of a group, from the first to the last.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn take(&mut self, group: usize) -> V {
        if group + 1 == self.each.len() {
            return self.product;
        }
        let inverse = self.product.multiplied(&self.after[group]);
        self.product = self.product.multiplied(&self.each[group]);
        inverse
    }
}

/// c / x of each; none is zero.
fn inverted<F: Field>(x: &[F; LANES], c: u64) -> [F; LANES] {
    let (mut out, mut product) = ([F::ONE; LANES], F::ONE);
    for (before, x) in out.iter_mut().zip(x) {
        *before = product;
        product *= x;
    }
    let mut inverse = product.inverse().expect("no factor is zero") * F::from(c);
    for (out, x) in out.iter_mut().zip(x).rev() {
        *out *= inverse;
        inverse *= x;
    }
    out
}

/// sums[k] = left(k) + right(k) of every pair.
///
/// Returns:
///     the pairs that need more than a slope, whose sums are still to be made: of equal first coordinates, or with one that is
///     zero, as the identity's is.
///
/// # Safety
/// [`super::available`] said yes.
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub unsafe fn add<'a, V: Vector>(
    left: impl Fn(usize) -> &'a Pt<V::Of>,
    right: impl Fn(usize) -> &'a Pt<V::Of>,
    sums: &mut [Pt<V::Of>],
) -> Vec<usize>
where
    V::Of: 'a,
{
    let mut left_out = Vec::new();
    let Some(last) = sums.len().checked_sub(1) else {
        return left_out;
    };
    // Places beyond the last pair hold that pair again.
    let place = |group: usize, lane: usize| (group * LANES + lane).min(last);
    let groups = last / LANES + 1;
    let mut inversion = BatchInversion::new(groups);
    for group in (0..groups).rev() {
        let a = V::loaded(std::array::from_fn(|lane| &left(place(group, lane)).x));
        let b = V::loaded(std::array::from_fn(|lane| &right(place(group, lane)).x));
        let unlike = a.equal(&b) | a.equal(&V::ZERO) | b.equal(&V::ZERO);
        let mut d = b.difference(&a);
        if unlike != 0 {
            d = V::one_where(unlike, &d);
            left_out.extend(marked(unlike, group).filter(|&k| k <= last));
        }
        inversion.put(group, d);
    }
    inversion.invert(64);
    for (group, sums) in sums.chunks_mut(LANES).enumerate() {
        let inverse = inversion.take(group);
        let points: [[&Pt<V::Of>; LANES]; 2] = [
            std::array::from_fn(|lane| left(place(group, lane))),
            std::array::from_fn(|lane| right(place(group, lane))),
        ];
        let [ax, bx] = points.map(|side| V::loaded(side.map(|p| &p.x)));
        let [ay, by] = points.map(|side| V::loaded(side.map(|p| &p.y)));
        let slope = by.difference(&ay).multiplied(&inverse);
        put::<V>(sums, &slope, &ax, &bx, &ay);
    }
    left_out
}

/// points[k] += points[k] of every point.  The identity stays, by a slope of zero; no point has order two.
///
/// # Safety
/// [`super::available`] said yes.
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub unsafe fn double<V: Vector>(points: &mut [Pt<V::Of>]) {
    let Some(last) = points.len().checked_sub(1) else {
        return;
    };
    let groups = last / LANES + 1;
    let mut inversion = BatchInversion::new(groups);
    for (group, points) in points.chunks(LANES).enumerate().rev() {
        let y = V::loaded(std::array::from_fn(|lane| &points[lane.min(points.len() - 1)].y));
        let mut d = y.sum(&y);
        let identities = y.equal(&V::ZERO);
        if identities != 0 {
            d = V::one_where(identities, &d);
        }
        inversion.put(group, d);
    }
    // A square lost a factor of 16 before it became a slope.
    inversion.invert(16 * 64);
    for (group, points) in points.chunks_mut(LANES).enumerate() {
        let inverse = inversion.take(group);
        let place = |lane: usize| lane.min(points.len() - 1);
        let x = V::loaded(std::array::from_fn(|lane| &points[place(lane)].x));
        let y = V::loaded(std::array::from_fn(|lane| &points[place(lane)].y));
        let square = x.squared();
        let slope = square.sum(&square).sum(&square).multiplied(&inverse);
        put::<V>(points, &slope, &x, &x, &y);
    }
}

/// The sums of one group from four times their slopes.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
unsafe fn put<V: Vector>(sums: &mut [Pt<V::Of>], slope: &V, ax: &V, bx: &V, ay: &V) {
    let x = slope.squared().less_two(ax, bx);
    let y = slope.multiplied(&ax.difference(&x)).fourfold_less(ay);
    for (sum, (x, y)) in sums.iter_mut().zip(x.stored().into_iter().zip(y.stored())) {
        *sum = Pt { x, y };
    }
}

/// The places of a group whose bits are set.
fn marked(bits: u8, group: usize) -> impl Iterator<Item = usize> {
    (0..LANES)
        .filter(move |lane| bits >> lane & 1 == 1)
        .map(move |lane| group * LANES + lane)
}
