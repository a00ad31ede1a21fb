// SPDX-License-Identifier: GPL-3.0-or-later
//! Eight coordinates of points side by side.
//!
//! A coordinate is five limbs of 52 bits, the residue that arkworks keeps: x 2^256.  A product is reduced by 2^260, so
//! [`multiplied`] gives a b / 16: its callers say where the powers of 16 go.  Of factors below A q and B q it is below
//! (1 + A B / 84) q; what is not said to be below q or so much else is below 4 q.  Nothing branches on values.

use super::intrinsics::*;
use super::LANES;
use crate::point::Pt;
use ark_bn254::{Fq, FqConfig};
use ark_ff::{BigInt, MontConfig, PrimeField};

const LIMBS: usize = 5;
const BITS: u32 = 52;
const MASK: u64 = (1 << BITS) - 1;

/// Limb by limb, one coordinate a lane.
pub type Lanes = [__m512i; LIMBS];

/// Multiples of q by limb, for 0 to 7.
const MULTIPLES: [[u64; LANES]; LIMBS] = multiples();
const INV: u64 = FqConfig::INV & MASK;
/// 2^97 / (the highest limb of q, and one more).
const RECIPROCAL: u64 = {
    let found = (1u128 << 97) / (MULTIPLES[LIMBS - 1][1] as u128 + 1);
    assert!(found <= MASK as u128);
    found as u64
};

const fn multiples() -> [[u64; LANES]; LIMBS] {
    let n = Fq::MODULUS.0;
    let q = [
        n[0] & MASK,
        (n[0] >> 52 | n[1] << 12) & MASK,
        (n[1] >> 40 | n[2] << 24) & MASK,
        (n[2] >> 28 | n[3] << 36) & MASK,
        n[3] >> 16,
    ];
    let (mut out, mut times) = ([[0u64; LANES]; LIMBS], 0);
    while times < LANES {
        let (mut carry, mut k) = (0, 0);
        while k < LIMBS {
            let sum = q[k] * times as u64 + carry;
            out[k][times] = sum & MASK;
            carry = sum >> BITS;
            k += 1;
        }
        times += 1;
    }
    out
}

#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
fn number(n: u64) -> __m512i {
    _mm512_set1_epi64(n as i64)
}

/// A multiple of q in every lane.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
fn multiple(times: usize) -> Lanes {
    MULTIPLES.map(|limb| number(limb[times]))
}

// --- in and out ------------------------------------------------------------------------------------------------------

// What is read and written is 32 bytes a coordinate, 64 a point.
const _: () = assert!(size_of::<Fq>() == 32 && size_of::<Pt<Fq>>() == 64);

/// Indices into two vectors: the first and third quarter of each half, or the others.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
fn quarters(second: bool) -> __m512i {
    if second {
        _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15)
    } else {
        _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13)
    }
}

/// The coordinates of eight places.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
pub fn loaded(from: [&Fq; LANES]) -> Lanes {
    let both = |k: usize| {
        // SAFETY: 32 bytes are read from each of two coordinates.
        unsafe {
            let [low, high] = [from[k], from[k + 4]].map(|x| _mm256_loadu_si256(std::ptr::from_ref(x).cast()));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        }
    };
    let [a, b, c, d] = [both(0), both(1), both(2), both(3)];
    let even = [_mm512_unpacklo_epi64(a, b), _mm512_unpacklo_epi64(c, d)];
    let odd = [_mm512_unpackhi_epi64(a, b), _mm512_unpackhi_epi64(c, d)];
    let word = |[x, y]: [__m512i; 2], second| _mm512_permutex2var_epi64(x, quarters(second), y);
    let n = [word(even, false), word(odd, false), word(even, true), word(odd, true)];
    let mask = number(MASK);
    [
        _mm512_and_si512(n[0], mask),
        _mm512_and_si512(
            _mm512_or_si512(_mm512_srli_epi64::<52>(n[0]), _mm512_slli_epi64::<12>(n[1])),
            mask,
        ),
        _mm512_and_si512(
            _mm512_or_si512(_mm512_srli_epi64::<40>(n[1]), _mm512_slli_epi64::<24>(n[2])),
            mask,
        ),
        _mm512_and_si512(
            _mm512_or_si512(_mm512_srli_epi64::<28>(n[2]), _mm512_slli_epi64::<36>(n[3])),
            mask,
        ),
        _mm512_srli_epi64::<16>(n[3]),
    ]
}

/// Eight coordinates from canonical limbs.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
pub fn stored(x: &Lanes) -> [Fq; LANES] {
    let n = [
        _mm512_or_si512(x[0], _mm512_slli_epi64::<52>(x[1])),
        _mm512_or_si512(_mm512_srli_epi64::<12>(x[1]), _mm512_slli_epi64::<40>(x[2])),
        _mm512_or_si512(_mm512_srli_epi64::<24>(x[2]), _mm512_slli_epi64::<28>(x[3])),
        _mm512_or_si512(_mm512_srli_epi64::<36>(x[3]), _mm512_slli_epi64::<16>(x[4])),
    ];
    let half = |x, y, second| _mm512_permutex2var_epi64(x, quarters(second), y);
    let [a, b] = [half(n[0], n[2], false), half(n[1], n[3], false)];
    let [c, d] = [half(n[0], n[2], true), half(n[1], n[3], true)];
    let pairs = [
        _mm512_unpacklo_epi64(a, b),
        _mm512_unpackhi_epi64(a, b),
        _mm512_unpacklo_epi64(c, d),
        _mm512_unpackhi_epi64(c, d),
    ];
    let mut out = [Fq::new_unchecked(BigInt([0; 4])); LANES];
    for (k, pair) in pairs.into_iter().enumerate() {
        // SAFETY: 32 bytes are written to each of two coordinates, which are below q as canonical limbs are.
        unsafe {
            _mm256_storeu_si256((&raw mut out[k]).cast(), _mm512_castsi512_si256(pair));
            _mm256_storeu_si256((&raw mut out[k + 4]).cast(), _mm512_extracti64x4_epi64::<1>(pair));
        }
    }
    out
}

/// Zero in every lane.
pub const ZERO: Lanes = [
    // SAFETY: every pattern of bits is a vector.
    unsafe { std::mem::zeroed() }; LIMBS
];

/// The lanes where limbs are the same.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
pub fn equal(a: &Lanes, b: &Lanes) -> u8 {
    let pairs = a.iter().zip(b);
    pairs.fold(u8::MAX, |same, (a, b)| same & _mm512_cmpeq_epi64_mask(*a, *b))
}

/// x with 1 in some lanes, which is not zero as a coordinate.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
pub fn one_where(lanes: u8, x: &Lanes) -> Lanes {
    std::array::from_fn(|k| _mm512_mask_blend_epi64(lanes, x[k], number(u64::from(k == 0))))
}

// --- arithmetic ------------------------------------------------------------------------------------------------------

/// Limbs in 0 .. 2^52 from signed ones; the number is not negative.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
fn carried(mut x: Lanes) -> Lanes {
    let mask = number(MASK);
    for k in 0..LIMBS - 1 {
        x[k + 1] = _mm512_add_epi64(x[k + 1], _mm512_srai_epi64::<BITS>(x[k]));
        x[k] = _mm512_and_si512(x[k], mask);
    }
    x
}

#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
fn plus(a: &Lanes, b: &Lanes) -> Lanes {
    std::array::from_fn(|k| _mm512_add_epi64(a[k], b[k]))
}

#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
fn minus(a: &Lanes, b: &Lanes) -> Lanes {
    std::array::from_fn(|k| _mm512_sub_epi64(a[k], b[k]))
}

/// a - b + 2 q, of b at most 2 q.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
pub fn difference(a: &Lanes, b: &Lanes) -> Lanes {
    carried(plus(&minus(a, b), &multiple(2)))
}

/// A sum below 7 q, not negative, in signed limbs of at most 55 bits: below q.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
fn canonical(sum: Lanes) -> Lanes {
    // The carry that is left out makes less than eight, so the quotient is at most one too small, and never too large.
    let top = _mm512_add_epi64(sum[4], _mm512_srai_epi64::<BITS>(sum[3]));
    let top = _mm512_max_epi64(_mm512_sub_epi64(top, number(8)), _mm512_setzero_si512());
    let scaled = _mm512_madd52hi_epu64(_mm512_setzero_si512(), _mm512_slli_epi64::<3>(top), number(RECIPROCAL));
    let quotient = _mm512_srli_epi64::<48>(scaled);
    let times = MULTIPLES.map(|limb| {
        // SAFETY: 64 bytes are read, from an array of 64.
        _mm512_permutexvar_epi64(quotient, unsafe { _mm512_loadu_si512(limb.as_ptr().cast()) })
    });
    let rest = carried(minus(&sum, &times));
    let less = carried(minus(&rest, &multiple(1)));
    let negative = _mm512_cmplt_epi64_mask(less[LIMBS - 1], _mm512_setzero_si512());
    std::array::from_fn(|k| _mm512_mask_blend_epi64(negative, less[k], rest[k]))
}

/// Below q.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub fn reduced(x: &Lanes) -> Lanes {
    canonical(*x)
}

/// a - b - c, below q; a below 4 q, b and c at most q.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub fn less_two(a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    canonical(plus(&minus(&minus(a, b), c), &multiple(2)))
}

/// 4 a - b, below q; a below 1.5 q, b at most q.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub fn fourfold_less(a: &Lanes, b: &Lanes) -> Lanes {
    let four = a.map(|limb| _mm512_slli_epi64::<2>(limb));
    canonical(plus(&minus(&four, b), &multiple(1)))
}

/// a + b.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
pub fn sum(a: &Lanes, b: &Lanes) -> Lanes {
    carried(plus(a, b))
}

/// A number before its reduction: 2^(52 k) (low[k] + high[k]).
#[derive(Clone, Copy)]
struct Columns {
    low: [__m512i; 2 * LIMBS],
    high: [__m512i; 2 * LIMBS],
}

impl Columns {
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f"))]
    fn zero() -> Columns {
        Columns {
            low: [_mm512_setzero_si512(); 2 * LIMBS],
            high: [_mm512_setzero_si512(); 2 * LIMBS],
        }
    }

    /// Add a b; of at most two products before a reduction.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    fn product(mut self, a: &Lanes, b: &Lanes) -> Columns {
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                self.low[i + j] = _mm512_madd52lo_epu64(self.low[i + j], *a, *b);
                self.high[i + j + 1] = _mm512_madd52hi_epu64(self.high[i + j + 1], *a, *b);
            }
        }
        self
    }

    /// By 2^-260.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    fn divided(self) -> Lanes {
        let Columns { mut low, mut high } = self;
        let (q, inverse) = (multiple(1), number(INV));
        for i in 0..LIMBS {
            let column = _mm512_add_epi64(low[i], high[i]);
            let m = _mm512_madd52lo_epu64(_mm512_setzero_si512(), column, inverse);
            let ended = _mm512_madd52lo_epu64(column, m, q[0]);
            low[i + 1] = _mm512_add_epi64(low[i + 1], _mm512_srli_epi64::<BITS>(ended));
            high[i + 1] = _mm512_madd52hi_epu64(high[i + 1], m, q[0]);
            for j in 1..LIMBS {
                low[i + j] = _mm512_madd52lo_epu64(low[i + j], m, q[j]);
                high[i + j + 1] = _mm512_madd52hi_epu64(high[i + j + 1], m, q[j]);
            }
        }
        carried(std::array::from_fn(|k| {
            _mm512_add_epi64(low[LIMBS + k], high[LIMBS + k])
        }))
    }
}

/// a b / 16.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub fn multiplied(a: &Lanes, b: &Lanes) -> Lanes {
    Columns::zero().product(a, b).divided()
}

/// (a b - c d) / 16; d at most 4 q.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub fn product_less(a: &Lanes, b: &Lanes, c: &Lanes, d: &Lanes) -> Lanes {
    let opposite = carried(minus(&multiple(4), d));
    Columns::zero().product(a, b).product(c, &opposite).divided()
}

/// (a b + c d) / 16.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub fn product_plus(a: &Lanes, b: &Lanes, c: &Lanes, d: &Lanes) -> Lanes {
    Columns::zero().product(a, b).product(c, d).divided()
}

/// a^2 / 16.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
pub fn squared(a: &Lanes) -> Lanes {
    let mut sum = Columns::zero();
    for (i, x) in a.iter().enumerate() {
        for (j, y) in a.iter().enumerate().skip(i + 1) {
            sum.low[i + j] = _mm512_madd52lo_epu64(sum.low[i + j], *x, *y);
            sum.high[i + j + 1] = _mm512_madd52hi_epu64(sum.high[i + j + 1], *x, *y);
        }
    }
    for column in sum.low.iter_mut().chain(&mut sum.high) {
        *column = _mm512_add_epi64(*column, *column);
    }
    for (i, x) in a.iter().enumerate() {
        sum.low[2 * i] = _mm512_madd52lo_epu64(sum.low[2 * i], *x, *x);
        sum.high[2 * i + 1] = _mm512_madd52hi_epu64(sum.high[2 * i + 1], *x, *x);
    }
    sum.divided()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::available;
    use ark_ff::{AdditiveGroup, BigInteger, Field, UniformRand};

    /// Random coordinates, and those whose residues have the longest carries: 0, 1, 2^k, q - 2^k and their neighbours.
    fn samples() -> Vec<Fq> {
        let mut rng = ark_std::test_rng();
        let mut residues = vec![BigInt([0; 4])];
        for k in [0, 1, 51, 52, 53, 63, 64, 103, 104, 155, 156, 207, 208, 209, 252, 253] {
            let mut power = BigInt::<4>::from(1u64);
            power <<= k;
            for mut n in [power, Fq::MODULUS] {
                if n == Fq::MODULUS {
                    n.sub_with_borrow(&power);
                }
                let (mut below, mut above) = (n, n);
                below.sub_with_borrow(&BigInt::from(1u64));
                above.add_with_carry(&BigInt::from(1u64));
                residues.extend([n, below, above].into_iter().filter(|n| *n < Fq::MODULUS));
            }
        }
        let mut out: Vec<Fq> = residues.into_iter().map(Fq::new_unchecked).collect();
        out.extend((0..40).map(|_| Fq::rand(&mut rng)));
        out.resize(out.len().next_multiple_of(LANES), Fq::ZERO);
        out
    }

    /// What is computed of every pair of samples, lane by lane.
    fn all_pairs(compute: unsafe fn(&Lanes, &Lanes) -> Lanes, want: impl Fn(Fq, Fq) -> Fq) {
        if !available() {
            return;
        }
        let samples = samples();
        for turn in 0..samples.len() {
            for (k, first) in samples.chunks_exact(LANES).enumerate() {
                let second: [Fq; LANES] =
                    std::array::from_fn(|lane| samples[(k * LANES + lane + turn) % samples.len()]);
                // SAFETY: the processor has what it needs.
                let found = unsafe {
                    let (a, b) = (
                        loaded(std::array::from_fn(|k| &first[k])),
                        loaded(std::array::from_fn(|k| &second[k])),
                    );
                    stored(&compute(&a, &b))
                };
                let wanted: [Fq; LANES] = std::array::from_fn(|k| want(first[k], second[k]));
                assert_eq!(found.map(|x| x.0), wanted.map(|x| x.0), "canonical and equal");
            }
        }
    }

    #[test]
    fn products_are_divided_by_sixteen() {
        let sixteenth = Fq::from(16u64).inverse().unwrap();
        all_pairs(|a, b| unsafe { reduced(&multiplied(a, b)) }, |a, b| a * b * sixteenth);
        all_pairs(|a, _| unsafe { reduced(&squared(a)) }, |a, _| a * a * sixteenth);
        // Of the largest factors that additions have.
        all_pairs(
            |a, b| unsafe { reduced(&multiplied(&difference(a, b), &difference(b, a))) },
            |a, b| (a - b) * (b - a) * sixteenth,
        );
        all_pairs(
            |a, b| unsafe { reduced(&squared(&difference(a, b))) },
            |a, b| (a - b) * (a - b) * sixteenth,
        );
    }

    #[test]
    fn two_products_are_reduced_once() {
        let sixteenth = Fq::from(16u64).inverse().unwrap();
        all_pairs(
            |a, b| unsafe { reduced(&product_less(&difference(a, b), b, a, &difference(b, a))) },
            |a, b| ((a - b) * b - a * (b - a)) * sixteenth,
        );
        all_pairs(
            |a, b| unsafe {
                let (x, y) = (difference(a, b), sum(a, b));
                reduced(&product_plus(&x, &y, &y, &y))
            },
            |a, b| ((a - b) * (a + b) + (a + b) * (a + b)) * sixteenth,
        );
    }

    #[test]
    fn sums_are_canonical() {
        all_pairs(|a, b| unsafe { reduced(&difference(a, b)) }, |a, b| a - b);
        all_pairs(|a, b| unsafe { less_two(a, b, a) }, |_, b| -b);
        all_pairs(|a, b| unsafe { less_two(a, b, b) }, |a, b| a - b.double());
        all_pairs(|a, b| unsafe { fourfold_less(a, b) }, |a, b| a.double().double() - b);
        let quarter = Fq::from(4u64).inverse().unwrap();
        all_pairs(
            |a, b| unsafe { fourfold_less(&multiplied(&difference(a, b), &difference(b, a)), b) },
            |a, b| (a - b) * (b - a) * quarter - b,
        );
        all_pairs(
            |a, b| unsafe { less_two(&squared(&difference(a, b)), a, b) },
            |a, b| (a - b) * (a - b) * quarter * quarter - a - b,
        );
    }

    #[test]
    fn lanes_are_found_by_value() {
        if !available() {
            return;
        }
        let x = samples().split_off(3);
        let mut other: [Fq; LANES] = std::array::from_fn(|k| x[k]);
        other[2] += Fq::ONE;
        other[7] -= Fq::ONE;
        // SAFETY: the processor has what it needs.
        unsafe {
            let (a, b) = (
                loaded(std::array::from_fn(|k| &x[k])),
                loaded(std::array::from_fn(|k| &other[k])),
            );
            assert_eq!(equal(&a, &b), 0b0111_1011);
            assert_eq!(equal(&a, &ZERO), 0);
            assert_eq!(equal(&a, &a), u8::MAX);
            assert_eq!(equal(&difference(&ZERO, &ZERO), &ZERO), 0, "a multiple of q");
            let marked = stored(&one_where(0b1000_0001, &a));
            assert_eq!(marked[1..7], x[1..7]);
            assert_eq!([marked[0].0, marked[7].0], [BigInt::from(1u64); 2]);
        }
    }
}
