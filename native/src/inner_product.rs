// SPDX-License-Identifier: GPL-3.0-or-later
//! Inner products over the scalar field with one reduction: products are summed in full width first.
//!
//! Long ones with the same vector take half the products (Winograd 1968): a b + c d = (a + d)(c + b) - a c - b d, where
//! a c is the same for every row and b d for every vector.

use ark_bn254::{Fr, FrConfig};
use ark_ff::{BigInt, MontConfig, PrimeField};

/// More terms could leave the range that [`Unreduced::reduce`] brings back below r: (TERMS r / 2^256 + 1) r < 8 r.
pub const TERMS: usize = 36;
/// Shorter rows gain nothing from pairs.
const PAIRED: usize = 8;
/// A pair is (a + d)(c + b) < (2 r)^2, as much as four terms; one more may be added to a row.
const LONGEST: usize = 17;
const _: () = assert!(4 * (LONGEST / 2) + LONGEST % 2 < TERMS && PAIRED <= TERMS);

const R: [u64; 4] = Fr::MODULUS.0;
const R5: [u64; 5] = [R[0], R[1], R[2], R[3], 0];
const QUOTIENT: u64 = 10_833;
/// r / 2^252 lies between 3.02448 and 2^15 / QUOTIENT = 3.02483.
const _: () = assert!(R[3] >> 32 == 0x30644e72 && 0x30644e73 * QUOTIENT < 1 << 43);

#[inline(always)]
fn mac(sum: u64, a: u64, b: u64, carry: &mut u64) -> u64 {
    let t = u128::from(a) * u128::from(b) + u128::from(sum) + u128::from(*carry);
    *carry = (t >> 64) as u64;
    t as u64
}

#[inline(always)]
fn adc(a: u64, b: u64, carry: &mut bool) -> u64 {
    let (s, one) = a.overflowing_add(b);
    let (s, two) = s.overflowing_add(u64::from(*carry));
    *carry = one | two;
    s
}

#[inline(always)]
fn sbb(a: u64, b: u64, borrow: &mut bool) -> u64 {
    let (s, one) = a.overflowing_sub(b);
    let (s, two) = s.overflowing_sub(u64::from(*borrow));
    *borrow = one | two;
    s
}

/// A sum of up to [`TERMS`] products that is not reduced yet.
#[derive(Clone, Copy, Default)]
pub struct Unreduced([u64; 9]);

impl Unreduced {
    /// Add a * b.
    #[inline(always)]
    pub fn add(&mut self, a: &Fr, b: &Fr) {
        self.add_product(&a.0 .0, &b.0 .0);
    }

    #[inline(always)]
    fn add_product(&mut self, a: &[u64; 4], b: &[u64; 4]) {
        let mut p = [0u64; 8];
        for i in 0..4 {
            let mut carry = 0;
            for j in 0..4 {
                p[i + j] = mac(p[i + j], a[i], b[j], &mut carry);
            }
            p[i + 4] = carry;
        }
        let mut carry = false;
        for (s, p) in self.0.iter_mut().zip(&p) {
            *s = adc(*s, *p, &mut carry);
        }
        self.0[8] += u64::from(carry);
    }

    /// The sum as a field element, canonical.  No branch depends on it.
    #[inline(always)]
    pub fn reduce(&self) -> Fr {
        let mut t = self.0;
        let mut over = false;
        for i in 0..4 {
            let m = t[i].wrapping_mul(FrConfig::INV);
            let mut carry = 0;
            for j in 0..4 {
                t[i + j] = mac(t[i + j], m, R[j], &mut carry);
            }
            t[i + 4] = adc(t[i + 4], carry, &mut over);
        }
        let mut x = [t[4], t[5], t[6], t[7], t[8] + u64::from(over)];
        // x < 8 r, and QUOTIENT / 2^15 is a little less than 2^252 / r: x - q r < 4/3 r.
        let q = ((x[4] << 4 | x[3] >> 60) * QUOTIENT) >> 15;
        let (mut carry, mut borrow) = (0, false);
        for (x, r) in x.iter_mut().zip(R5) {
            *x = sbb(*x, mac(0, q, r, &mut carry), &mut borrow);
        }
        let mut borrow = false;
        let y: [u64; 4] = std::array::from_fn(|i| sbb(x[i], R[i], &mut borrow));
        let keep = u64::from(borrow).wrapping_neg();
        for (x, y) in x.iter_mut().zip(y) {
            *x = (*x & keep) | (y & !keep);
        }
        Fr::new_unchecked(BigInt([x[0], x[1], x[2], x[3]]))
    }
}

/// sum_i a_i b_i, at most [`TERMS`] terms.
#[inline(always)]
pub fn dot(a: &[Fr], b: &[Fr]) -> Fr {
    debug_assert!(a.len() == b.len() && a.len() <= TERMS);
    let mut sum = Unreduced::default();
    for (x, y) in a.iter().zip(b) {
        sum.add(x, y);
    }
    sum.reduce()
}

/// a + b without reduction: below 2 r < 2^256.
#[inline(always)]
fn sum(a: &Fr, b: &Fr) -> [u64; 4] {
    let (mut out, mut carry) = ([0; 4], false);
    for (o, (x, y)) in out.iter_mut().zip(a.0 .0.iter().zip(&b.0 .0)) {
        *o = adc(*x, *y, &mut carry);
    }
    out
}

/// How many pairs of an inner product of so many terms are multiplied together.
pub const fn pairs(terms: usize) -> usize {
    if terms < PAIRED {
        0
    } else {
        terms / 2
    }
}

/// What all rows have in common with this vector: the sum of the products inside its pairs.
#[inline(always)]
pub fn cross(x: &[Fr]) -> Fr {
    let mut wide = Unreduced::default();
    for pair in x[..2 * pairs(x.len())].chunks_exact(2) {
        wide.add(&pair[0], &pair[1]);
    }
    wide.reduce()
}

/// A constant row of up to 17 entries, made ready for inner products.
pub struct Row {
    /// The first [`pairs`] pairs swapped.
    entries: Vec<Fr>,
    own: Fr,
}

impl Row {
    pub fn new(row: &[Fr]) -> Row {
        assert!(row.len() <= LONGEST, "a row of {} entries", row.len());
        let mut entries = row.to_vec();
        entries[..2 * pairs(row.len())]
            .chunks_exact_mut(2)
            .for_each(|p| p.swap(0, 1));
        Row {
            entries,
            own: cross(row),
        }
    }

    /// The entries in their order.
    pub fn plain(&self) -> Vec<Fr> {
        let mut row = self.entries.clone();
        row[..2 * pairs(self.entries.len())]
            .chunks_exact_mut(2)
            .for_each(|p| p.swap(0, 1));
        row
    }

    /// <row, x> + a b where `extra` is (a, b); `cross` is that of x.
    #[inline(always)]
    pub fn dot(&self, x: &[Fr], cross: &Fr, extra: Option<(&Fr, &Fr)>) -> Fr {
        debug_assert_eq!(x.len(), self.entries.len());
        let mut wide = Unreduced::default();
        let (paired, single) = self.entries.split_at(2 * pairs(self.entries.len()));
        for (row, x) in paired.chunks_exact(2).zip(x.chunks_exact(2)) {
            wide.add_product(&sum(&row[0], &x[0]), &sum(&row[1], &x[1]));
        }
        for (row, x) in single.iter().zip(&x[paired.len()..]) {
            wide.add(row, x);
        }
        if let Some((a, b)) = extra {
            wide.add(a, b);
        }
        wide.reduce() - (self.own + cross)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalars::random;
    use ark_ff::Field;

    #[test]
    fn agrees_with_field_arithmetic() {
        let largest = Fr::new_unchecked({
            let mut n = Fr::MODULUS;
            n.0[0] -= 1;
            n
        });
        for n in 0..=TERMS {
            for (a, b) in [
                (random(n).unwrap(), random(n).unwrap()),
                (vec![largest; n], vec![largest; n]),
                (vec![-Fr::ONE; n], vec![Fr::ONE; n]),
            ] {
                let want = a.iter().zip(&b).map(|(x, y)| *x * y).sum::<Fr>();
                assert_eq!(dot(&a, &b), want);
                if n <= LONGEST {
                    let (row, cross) = (Row::new(&a), cross(&b));
                    assert_eq!(row.dot(&b, &cross, None), want);
                    if n < LONGEST {
                        assert_eq!(
                            row.dot(&b, &cross, Some((&largest, &largest))),
                            want + largest * largest
                        );
                    }
                }
            }
        }
    }
}
