// SPDX-License-Identifier: GPL-3.0-or-later
//! Inner products over the scalar field with one reduction: products are summed in full width first.

use ark_bn254::{Fr, FrConfig};
use ark_ff::{BigInt, MontConfig, PrimeField};

/// More terms could leave the range that [`reduce`] brings back below r: (TERMS r / 2^256 + 1) r < 8 r.
pub const TERMS: usize = 36;

const R: [u64; 4] = Fr::MODULUS.0;
const R2: [u64; 5] = doubled(&[R[0], R[1], R[2], R[3], 0]);
const R4: [u64; 5] = doubled(&R2);

const fn doubled(a: &[u64; 5]) -> [u64; 5] {
    let mut out = [0u64; 5];
    let mut k = 0;
    while k < 5 {
        out[k] = a[k] << 1 | if k > 0 { a[k - 1] >> 63 } else { 0 };
        k += 1;
    }
    out
}

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
pub struct Wide([u64; 9]);

impl Wide {
    /// Add a * b.
    #[inline(always)]
    pub fn add(&mut self, a: &Fr, b: &Fr) {
        let (a, b) = (&a.0 .0, &b.0 .0);
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
        for k in [&R4, &R2, &[R[0], R[1], R[2], R[3], 0]] {
            let mut borrow = false;
            let mut y = [0u64; 5];
            for i in 0..5 {
                y[i] = sbb(x[i], k[i], &mut borrow);
            }
            let keep = u64::from(borrow).wrapping_neg();
            for i in 0..5 {
                x[i] = (x[i] & keep) | (y[i] & !keep);
            }
        }
        Fr::new_unchecked(BigInt([x[0], x[1], x[2], x[3]]))
    }
}

/// sum_i a_i b_i, at most [`TERMS`] terms.
#[inline(always)]
pub fn dot(a: &[Fr], b: &[Fr]) -> Fr {
    debug_assert!(a.len() == b.len() && a.len() <= TERMS);
    let mut sum = Wide::default();
    for (x, y) in a.iter().zip(b) {
        sum.add(x, y);
    }
    sum.reduce()
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
                assert_eq!(dot(&a, &b), a.iter().zip(&b).map(|(x, y)| *x * y).sum::<Fr>());
            }
        }
    }
}
