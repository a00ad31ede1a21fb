// SPDX-License-Identifier: GPL-3.0-or-later
//! Sums of pairs of points of G1, eight pairs at a time; one inversion serves all of them.
//!
//! Products lose a factor of 16 (`coordinates`).  Of n denominators the product of all is theirs by 16^(n - 1), and what inverts
//! one that is multiplied out of it is divided by 16 twice as often as it is multiplied: a start of c times the inverse of
//! the product leaves c times the inverse of each.  With c = 64 a slope comes four times too large, as its square / 16 needs.

use crate::coordinates::*;
use crate::curve::{Pt, BATCH, G1};
use ark_bn254::Fq;
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
pub unsafe fn add<'a>(left: impl Fn(usize) -> &'a G1, right: impl Fn(usize) -> &'a G1, sums: &mut [G1]) -> Vec<usize> {
    let mut left_out = Vec::new();
    let Some(last) = sums.len().checked_sub(1) else {
        return left_out;
    };
    // Places beyond the last pair hold that pair again.
    let place = |group: usize, lane: usize| (group * LANES + lane).min(last);
    let groups = last / LANES + 1;
    let (mut run, mut after) = ([ZERO; GROUPS], [ZERO; GROUPS]);
    let mut product = ZERO;
    for group in (0..groups).rev() {
        let a = loaded(std::array::from_fn(|lane| &left(place(group, lane)).x));
        let b = loaded(std::array::from_fn(|lane| &right(place(group, lane)).x));
        let unlike = equal(&a, &b) | equal(&a, &ZERO) | equal(&b, &ZERO);
        run[group] = difference(&b, &a);
        if unlike != 0 {
            run[group] = one_where(unlike, &run[group]);
            let those = (0..LANES).filter(|lane| unlike >> lane & 1 == 1);
            left_out.extend(those.map(|lane| group * LANES + lane).filter(|&k| k <= last));
        }
        after[group] = product;
        product = if group + 1 == groups {
            run[group]
        } else {
            multiplied(&product, &run[group])
        };
    }
    let inverses = inverted(&stored(&reduced(&product)));
    let mut inverse = loaded(std::array::from_fn(|lane| &inverses[lane]));
    for (group, sums) in sums.chunks_mut(LANES).enumerate() {
        let own = if group + 1 == groups {
            inverse
        } else {
            let own = multiplied(&inverse, &after[group]);
            inverse = multiplied(&inverse, &run[group]);
            own
        };
        let points: [[&G1; LANES]; 2] = [
            std::array::from_fn(|lane| left(place(group, lane))),
            std::array::from_fn(|lane| right(place(group, lane))),
        ];
        let [ax, bx] = points.map(|side| loaded(side.map(|p| &p.x)));
        let [ay, by] = points.map(|side| loaded(side.map(|p| &p.y)));
        let slope = multiplied(&difference(&by, &ay), &own);
        let x = less_two(&squared(&slope), &ax, &bx);
        let y = fourfold_less(&multiplied(&slope, &difference(&ax, &x)), &ay);
        for (sum, (x, y)) in sums.iter_mut().zip(stored(&x).into_iter().zip(stored(&y))) {
            *sum = Pt { x, y };
        }
    }
    left_out
}

/// 64 / x of each; none is zero.
fn inverted(x: &[Fq; LANES]) -> [Fq; LANES] {
    let (mut out, mut product) = ([Fq::ONE; LANES], Fq::ONE);
    for (before, x) in out.iter_mut().zip(x) {
        *before = product;
        product *= x;
    }
    let mut inverse = product.inverse().expect("no factor is zero") * Fq::from(64u64);
    for (out, x) in out.iter_mut().zip(x).rev() {
        *out *= inverse;
        inverse *= x;
    }
    out
}
