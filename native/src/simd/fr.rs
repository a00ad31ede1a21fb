// SPDX-License-Identifier: GPL-3.0-or-later
//! Eight elements of the scalar field side by side.
//!
//! A field element is five limbs of 51 bits, in Montgomery's form by 2^306, and below 2.5 r: a bit less than the processor
//! multiplies, so that an element and a constant are added limb by limb, without carries (below 3.5 r < 2^256), and multiplied.
//! A sum of 17 products is reduced to below 1.25 r.  Columns are signed and stay below 2^61, their number is never negative.
//! Nothing branches on values.

use super::intrinsics::*;
use super::LANES;
use ark_bn254::{Fr, FrConfig};
use ark_ff::{BigInt, BigInteger, MontConfig, PrimeField};

pub const LIMBS: usize = 5;
pub const BITS: u32 = 51;
pub const MASK: u64 = (1 << BITS) - 1;
/// Of a reduction; the limbs of what it leaves begin at this column.
pub const STEPS: usize = 6;
pub const COLUMNS: usize = STEPS + LIMBS;

pub type Limbs = [u64; LIMBS];
/// Limb by limb, one element a lane.
pub type Lanes = [__m512i; LIMBS];
/// A number of signed columns, 51 bits apart.
pub type Columns = [__m512i; COLUMNS];

const R: Limbs = split(&Fr::MODULUS.0);
const INV: u64 = FrConfig::INV & MASK;

/// (r INV + 1) 2^-51, below a quarter of r.
const C: Limbs = quotient();

const fn quotient() -> Limbs {
    const { assert!(INV < 1 << (BITS - 2)) };
    let (mut limbs, mut out, mut carry, mut k) = ([0u64; LIMBS + 1], [0u64; LIMBS], 1u128, 0);
    while k < LIMBS {
        carry += R[k] as u128 * INV as u128;
        limbs[k] = carry as u64 & MASK;
        carry >>= BITS;
        k += 1;
    }
    limbs[LIMBS] = carry as u64;
    assert!(limbs[0] == 0);
    while k > 0 {
        out[k - 1] = limbs[k];
        k -= 1;
    }
    out
}

pub const fn split(n: &[u64; 4]) -> Limbs {
    [
        n[0] & MASK,
        (n[0] >> 51 | n[1] << 13) & MASK,
        (n[1] >> 38 | n[2] << 26) & MASK,
        (n[2] >> 25 | n[3] << 39) & MASK,
        n[3] >> 12,
    ]
}

/// x 2^306 mod r.
pub fn limbs(x: &Fr) -> Limbs {
    // The residue is x 2^256.
    split(&(*x * Fr::from(1u64 << 50)).0 .0)
}

#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
pub fn lanes_of(values: &[u64; LANES]) -> __m512i {
    // SAFETY: 64 bytes are read, from an array of 64.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
pub fn broadcast(c: &Limbs) -> Lanes {
    c.map(|limb| _mm512_set1_epi64(limb as i64))
}

#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
pub fn added(a: &Columns, b: &Columns) -> Columns {
    std::array::from_fn(|k| _mm512_add_epi64(a[k], b[k]))
}

#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
pub fn subtracted(a: &Columns, b: &Columns) -> Columns {
    std::array::from_fn(|k| _mm512_sub_epi64(a[k], b[k]))
}

/// A sum of products before its reduction: 2^(51 k) low[k] + 2^(51 k + 52) high[k].
pub struct Sum {
    low: Columns,
    high: [__m512i; COLUMNS - 1],
}

impl Sum {
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
    pub fn of(base: &[i64; COLUMNS]) -> Sum {
        Sum {
            low: base.map(|column| _mm512_set1_epi64(column)),
            high: [_mm512_setzero_si512(); COLUMNS - 1],
        }
    }

    /// base - columns.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
    pub fn less(base: &[i64; COLUMNS], columns: &Columns) -> Sum {
        let mut sum = Sum::of(base);
        sum.low = subtracted(&sum.low, columns);
        sum
    }

    /// Add a b; limbs below 2^52.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    pub fn product(mut self, a: &Lanes, b: &Lanes) -> Sum {
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                self.low[i + j] = _mm512_madd52lo_epu64(self.low[i + j], *a, *b);
                self.high[i + j] = _mm512_madd52hi_epu64(self.high[i + j], *a, *b);
            }
        }
        self
    }

    /// Add a^2; limbs below 2^51.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    pub fn square(mut self, a: &Lanes) -> Sum {
        for i in 0..LIMBS {
            let twice = _mm512_add_epi64(a[i], a[i]);
            for j in i..LIMBS {
                let b = if i == j { a[i] } else { twice };
                self.low[i + j] = _mm512_madd52lo_epu64(self.low[i + j], a[j], b);
                self.high[i + j] = _mm512_madd52hi_epu64(self.high[i + j], a[j], b);
            }
        }
        self
    }

    /// Add what factors give with x, but for the products inside pairs.
    ///
    /// Each `PLACE` of use is compiled by itself and inlined: a call would carry the sum through memory.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    pub fn pairs<const PLACE: usize>(mut self, factors: &[Limbs], x: &[Lanes]) -> Sum {
        for (c, x) in factors.chunks_exact(2).zip(x.chunks_exact(2)) {
            let [a, b]: [Lanes; 2] = std::array::from_fn(|k| {
                let c = broadcast(&c[k]);
                std::array::from_fn(|limb| _mm512_add_epi64(x[k][limb], c[limb]))
            });
            self = self.product(&a, &b);
        }
        match (factors.len() % 2, factors.last(), x.last()) {
            (1, Some(c), Some(x)) => self.product(&broadcast(c), x),
            _ => self,
        }
    }

    /// Add an element in Montgomery's form to what [`Sum::reduced`] gives.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
    pub fn add(mut self, x: &Lanes) -> Sum {
        for (column, limb) in self.low[STEPS..].iter_mut().zip(x) {
            *column = _mm512_add_epi64(*column, *limb);
        }
        self
    }

    /// Without a carry.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
    pub fn columns(self) -> Columns {
        let mut columns = self.low;
        for (column, high) in columns[1..].iter_mut().zip(&self.high) {
            *column = _mm512_add_epi64(*column, _mm512_slli_epi64::<1>(*high));
        }
        columns
    }

    /// By 2^-306, below 1.25 r more than what was added by [`Sum::add`].
    ///
    /// A step adds a multiple of r that ends the lowest column.  Five take multiples of 2^51 C - 1, which r divides: how many is
    /// that column itself, and only C is multiplied.  They leave less than 2^51 (C + 2^208), and the last step, which adds less
    /// than 2^51 r, less than C + 2^208 + r; C < r / 4.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    pub fn reduced(self) -> Lanes {
        let Sum { mut low, mut high } = self;
        let mask = _mm512_set1_epi64(MASK as i64);
        let c = broadcast(&C);
        for i in 0..STEPS - 1 {
            let m = _mm512_and_si512(low[i], mask);
            low[i + 1] = _mm512_add_epi64(
                _mm512_add_epi64(low[i + 1], _mm512_srai_epi64::<BITS>(low[i])),
                _mm512_slli_epi64::<1>(high[i]),
            );
            for j in 0..LIMBS {
                low[i + 1 + j] = _mm512_madd52lo_epu64(low[i + 1 + j], m, c[j]);
                high[i + 1 + j] = _mm512_madd52hi_epu64(high[i + 1 + j], m, c[j]);
            }
        }
        let (i, r) = (STEPS - 1, broadcast(&R));
        let inverse = _mm512_set1_epi64(INV as i64);
        let m = _mm512_and_si512(_mm512_madd52lo_epu64(_mm512_setzero_si512(), low[i], inverse), mask);
        for j in 0..LIMBS {
            low[i + j] = _mm512_madd52lo_epu64(low[i + j], m, r[j]);
            high[i + j] = _mm512_madd52hi_epu64(high[i + j], m, r[j]);
        }
        for k in i..COLUMNS - 1 {
            let carry = _mm512_srai_epi64::<BITS>(low[k]);
            low[k + 1] = _mm512_add_epi64(_mm512_add_epi64(low[k + 1], carry), _mm512_slli_epi64::<1>(high[k]));
        }
        std::array::from_fn(|k| {
            if k + 1 < LIMBS {
                _mm512_and_si512(low[STEPS + k], mask)
            } else {
                low[STEPS + k]
            }
        })
    }
}

/// a b as columns.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub fn columns_of(a: &Lanes, b: &Lanes) -> Columns {
    Sum::of(&[0; COLUMNS]).product(a, b).columns()
}

#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub fn squared(x: &Lanes) -> Lanes {
    Sum::of(&[0; COLUMNS]).square(x).reduced()
}

#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub fn multiplied(a: &Lanes, b: &Lanes) -> Lanes {
    Sum::of(&[0; COLUMNS]).product(a, b).reduced()
}

/// x^5.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub fn power(x: &Lanes) -> Lanes {
    multiplied(&squared(&squared(x)), x)
}

/// Elements of each lane, lane after lane, below r.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
pub fn canonical(elements: &[Lanes]) -> Vec<BigInt<4>> {
    let mut out = vec![BigInt::default(); LANES * elements.len()];
    for (j, x) in elements.iter().enumerate() {
        let mut limbs = [[0u64; LANES]; LIMBS];
        for (limb, x) in limbs.iter_mut().zip(x) {
            // SAFETY: 64 bytes are written, to an array of 64.
            unsafe { _mm512_storeu_si512(limb.as_mut_ptr().cast(), *x) };
        }
        for lane in 0..LANES {
            let [a, b, c, d, e] = std::array::from_fn(|k| limbs[k][lane]);
            let mut n = BigInt([a | b << 51, b >> 13 | c << 38, c >> 26 | d << 25, d >> 39 | e << 12]);
            // Below 1.25 r.
            if n >= Fr::MODULUS {
                n.sub_with_borrow(&Fr::MODULUS);
            }
            out[lane * elements.len() + j] = n;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::available;
    use ark_ff::{AdditiveGroup, Field, UniformRand};

    /// Random elements, and those whose limbs have the longest carries: 0, 2^k, r - 2^k and their neighbours.
    fn samples() -> Vec<Fr> {
        let mut rng = ark_std::test_rng();
        let mut out = vec![Fr::ZERO];
        for k in [0u64, 1, 50, 51, 52, 101, 102, 103, 152, 153, 204, 205, 252, 253] {
            let power = Fr::from(2u64).pow([k]);
            // As they are, and so that they are the limbs themselves: x 2^306.
            for x in [power, power * Fr::from(2u64).pow([306]).inverse().unwrap()] {
                out.extend([x, -x, x - Fr::ONE, x + Fr::ONE, Fr::ONE - x]);
            }
        }
        out.extend((0..80).map(|_| Fr::rand(&mut rng)));
        out.resize(out.len().next_multiple_of(LANES), Fr::ONE);
        out
    }

    /// What is computed of every pair of samples, lane by lane.
    fn all_pairs(compute: unsafe fn(&Lanes, &Lanes) -> Lanes, want: impl Fn(Fr, Fr) -> Fr) {
        if !available() {
            return;
        }
        let samples = samples();
        for turn in 0..samples.len() {
            for (k, first) in samples.chunks_exact(LANES).enumerate() {
                let second: [Fr; LANES] =
                    std::array::from_fn(|lane| samples[(k * LANES + lane + turn) % samples.len()]);
                // SAFETY: the processor has what it needs.
                let found = unsafe {
                    let put =
                        |x: &[Fr]| std::array::from_fn(|limb| lanes_of(&std::array::from_fn(|k| limbs(&x[k])[limb])));
                    let found = compute(&put(first), &put(&second));
                    canonical(&[multiplied(&found, &broadcast(&split(&[1, 0, 0, 0])))])
                };
                let wanted: Vec<BigInt<4>> = (0..LANES).map(|k| want(first[k], second[k]).into_bigint()).collect();
                assert_eq!(found, wanted);
            }
        }
    }

    #[test]
    fn products_are_those_of_the_field() {
        all_pairs(|a, b| unsafe { multiplied(a, b) }, |a, b| a * b);
        all_pairs(|a, _| unsafe { squared(a) }, |a, _| a.square());
        all_pairs(|a, _| unsafe { power(a) }, |a, _| a.pow([5]));
    }

    #[test]
    fn sums_are_those_of_the_field() {
        all_pairs(
            |a, b| unsafe { Sum::of(&[0; COLUMNS]).product(a, b).product(b, b).add(a).reduced() },
            |a, b| a * b + b.square() + a,
        );
        all_pairs(
            |a, b| unsafe {
                let less = subtracted(&added(&columns_of(a, a), &columns_of(b, b)), &columns_of(b, b));
                let sum = Sum::less(&[0; COLUMNS], &subtracted(&less, &less));
                sum.product(a, a).add(b).reduced()
            },
            |a, b| a.square() + b,
        );
    }
}
