// SPDX-License-Identifier: GPL-3.0-or-later
//! Sums of pairs of points, eight pairs at a time; one inversion serves all of them.
//!
//! Products lose a factor of 16 (`coordinates`).  Of n denominators the product of all is theirs by 16^(n - 1), and what inverts
//! one that is multiplied out of it is divided by 16 twice as often as it is multiplied: a start of c times the inverse of
//! the product leaves c times the inverse of each.  With c = 64 a slope comes four times too large, as its square / 16 needs.

use crate::coordinates::LANES;
use crate::curve::{Pt, BATCH};
use crate::eight::Eight;
use ark_ff::Field;

/// Groups of eight pairs, at most.
const GROUPS: usize = BATCH / LANES;

/// sums[k] = left(k) + right(k) of at most [`BATCH`] pairs.
///
/// Returns:
///     the pairs that need more than a slope, whose sums are still to be made: of equal first coordinates, or with one that is
///     zero, as the identity's is.
///
/// # Safety
/// [`available`] said yes.
#[target_feature(enable = "avx512f,avx512ifma")]
pub unsafe fn add<'a, V: Eight>(
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
    let (mut run, mut after) = ([V::ZERO; GROUPS], [V::ZERO; GROUPS]);
    let mut product = V::ZERO;
    for group in (0..groups).rev() {
        let a = V::loaded(std::array::from_fn(|lane| &left(place(group, lane)).x));
        let b = V::loaded(std::array::from_fn(|lane| &right(place(group, lane)).x));
        let unlike = V::equal(&a, &b) | V::equal(&a, &V::ZERO) | V::equal(&b, &V::ZERO);
        run[group] = V::difference(&b, &a);
        if unlike != 0 {
            run[group] = V::one_where(unlike, &run[group]);
            let those = (0..LANES).filter(|lane| unlike >> lane & 1 == 1);
            left_out.extend(those.map(|lane| group * LANES + lane).filter(|&k| k <= last));
        }
        after[group] = product;
        product = if group + 1 == groups {
            run[group]
        } else {
            V::multiplied(&product, &run[group])
        };
    }
    let inverses = inverted(&V::stored(&V::reduced(&product)));
    let mut inverse = V::loaded(std::array::from_fn(|lane| &inverses[lane]));
    for (group, sums) in sums.chunks_mut(LANES).enumerate() {
        let own = if group + 1 == groups {
            inverse
        } else {
            let own = V::multiplied(&inverse, &after[group]);
            inverse = V::multiplied(&inverse, &run[group]);
            own
        };
        let points: [[&Pt<V::Of>; LANES]; 2] = [
            std::array::from_fn(|lane| left(place(group, lane))),
            std::array::from_fn(|lane| right(place(group, lane))),
        ];
        let [ax, bx] = points.map(|side| V::loaded(side.map(|p| &p.x)));
        let [ay, by] = points.map(|side| V::loaded(side.map(|p| &p.y)));
        let slope = V::multiplied(&V::difference(&by, &ay), &own);
        let x = V::less_two(&V::squared(&slope), &ax, &bx);
        let y = V::fourfold_less(&V::multiplied(&slope, &V::difference(&ax, &x)), &ay);
        for (sum, (x, y)) in sums.iter_mut().zip(V::stored(&x).into_iter().zip(V::stored(&y))) {
            *sum = Pt { x, y };
        }
    }
    left_out
}

/// 64 / x of each; none is zero.
fn inverted<F: Field>(x: &[F; LANES]) -> [F; LANES] {
    let (mut out, mut product) = ([F::ONE; LANES], F::ONE);
    for (before, x) in out.iter_mut().zip(x) {
        *before = product;
        product *= x;
    }
    let mut inverse = product.inverse().expect("no factor is zero") * F::from(64u64);
    for (out, x) in out.iter_mut().zip(x).rev() {
        *out *= inverse;
        inverse *= x;
    }
    out
}
