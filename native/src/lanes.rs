// SPDX-License-Identifier: GPL-3.0-or-later
//! Eight Poseidon permutations of width 17 side by side, where the processor multiplies eight 52-bit numbers at once
//! (AVX-512 IFMA).
//!
//! A field element is five limbs of 52 bits, in Montgomery's form by 2^260, and below 3 r rather than below r: with
//! r / 2^260 < 0.0119 a sum of 17 products of such elements and constants below r is reduced to below (17 * 3 * 0.0119 + 1) r <
//! 1.61 r, to which a round adds one element below 1.2 r or a constant below r.  Columns of the 17 products, high and low halves,
//! stay below 2^60: no carry until the reduction.  Nothing branches on values.

use crate::poseidon::{fifth, MAX_WIDTH};
use ark_bn254::{Fr, FrConfig};
use ark_ff::{BigInt, BigInteger, MontConfig, PrimeField};
use std::arch::x86_64::*;

pub const LANES: usize = 8;
const LIMBS: usize = 5;
const MASK: u64 = (1 << 52) - 1;

type Limbs = [u64; LIMBS];
/// Limb by limb, one element a lane.
type Lanes = [__m512i; LIMBS];

const R: Limbs = split(&Fr::MODULUS.0);
const INV: u64 = FrConfig::INV & MASK;

const fn split(n: &[u64; 4]) -> Limbs {
    [
        n[0] & MASK,
        (n[0] >> 52 | n[1] << 12) & MASK,
        (n[1] >> 40 | n[2] << 24) & MASK,
        (n[2] >> 28 | n[3] << 36) & MASK,
        n[3] >> 16,
    ]
}

/// x 2^260 mod r.
fn limbs(x: &Fr) -> Limbs {
    // The residue is x 2^256.
    split(&(*x * Fr::from(16u64)).0 .0)
}

/// Whether this processor has what the functions here need.
pub fn available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma")
}

/// What all rounds need, in limbs.
pub struct Tables {
    third: Row,
    /// Constants and matrix of each full round but the first; the partial rounds come after `before`.
    before: Vec<(Row, usize)>,
    after: Vec<Row>,
    matrices: [Vec<Row>; 3],
    partial: Vec<Limbs>,
    straight: Limbs,
    output: Row,
    feedback: Row,
    /// Of the element that differs, in the first round.
    constant: Fr,
}

type Row = Vec<Limbs>;

/// Which of the matrices a round takes.
const DENSE: usize = 0;
const ENTER: usize = 1;
const LEAVE: usize = 2;

/// The parts of a width's parameters, as `poseidon` has them.
pub struct Parts<'a> {
    pub before: &'a [Vec<Fr>],
    pub after: &'a [Vec<Fr>],
    pub dense: Vec<Vec<Fr>>,
    pub enter: Vec<Vec<Fr>>,
    pub leave: Vec<Vec<Fr>>,
    pub third: &'a [Fr],
    pub partial: &'a [Fr],
    pub straight: Fr,
    pub output: Vec<Fr>,
    pub feedback: Vec<Fr>,
}

fn row(values: &[Fr]) -> Row {
    values.iter().map(limbs).collect()
}

impl Tables {
    pub fn new(parts: &Parts<'_>) -> Tables {
        let matrix = |m: &[Vec<Fr>]| m.iter().map(|r| row(r)).collect();
        let last = parts.before.len() - 1;
        let matrix_of = |k: usize| if k < last { DENSE } else { ENTER };
        Tables {
            third: row(parts.third),
            before: (1..=last).map(|k| (row(&parts.before[k]), matrix_of(k))).collect(),
            after: parts.after.iter().map(|c| row(c)).collect(),
            matrices: [matrix(&parts.dense), matrix(&parts.enter), matrix(&parts.leave)],
            partial: row(parts.partial),
            straight: limbs(&parts.straight),
            output: row(&parts.output),
            feedback: row(&parts.feedback),
            constant: parts.before[0][2],
        }
    }

    /// For each x: elements 1 to 16 of the permutation of (0, key, x, 0, ..), canonical; `shared` is
    /// [`crate::poseidon::Parameters::shared_by_blocks`] of the key.
    ///
    /// # Safety
    /// [`available`] said yes.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub unsafe fn blocks(&self, shared: &[Fr; MAX_WIDTH], xs: &[Fr; LANES]) -> Vec<BigInt<4>> {
        let fifths = xs.map(|x| limbs(&fifth(x + self.constant)));
        let s: Lanes = std::array::from_fn(|k| lanes_of(&fifths.map(|f| f[k])));
        let mut state: [Lanes; MAX_WIDTH] =
            std::array::from_fn(|j| sum(&broadcast(&limbs(&shared[j])), &dot(&self.third[j..=j], &[s])));
        for (constants, matrix) in &self.before {
            full_round(&self.matrices[*matrix], constants, &mut state);
        }
        self.partial_rounds(&mut state);
        for constants in &self.after {
            full_round(&self.matrices[DENSE], constants, &mut state);
        }
        canonical(&state)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn partial_rounds(&self, state: &mut [Lanes; MAX_WIDTH]) {
        const OTHERS: usize = MAX_WIDTH - 1;
        let (last, rounds) = self.partial.split_last().expect("there are partial rounds");
        // The sequence grows downwards, so its newest values stand in order.
        let mut sequence = vec![state[0]; rounds.len() + OTHERS];
        let mut at = rounds.len();
        sequence[at..].copy_from_slice(&state[1..]);
        let mut first = state[0];
        for c in rounds {
            let x = power(&sum(&first, &broadcast(c)));
            let newest = &sequence[at..at + OTHERS];
            let value = sum(&x, &dot(&self.feedback, newest));
            let mut columns = products(&self.output, newest);
            accumulate(&mut columns, &self.straight, &x);
            first = reduce(columns);
            at -= 1;
            sequence[at] = value;
        }
        state[0] = power(&sum(&first, &broadcast(last)));
        state[1..].copy_from_slice(&sequence[at..at + OTHERS]);
        apply(&self.matrices[LEAVE], state);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn lanes_of(values: &[u64; LANES]) -> __m512i {
    // SAFETY: 64 bytes are read, from an array of 64.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast(c: &Limbs) -> Lanes {
    c.map(|limb| _mm512_set1_epi64(limb as i64))
}

/// Limbs below 2^52 again.
#[inline]
#[target_feature(enable = "avx512f")]
fn carried(mut x: Lanes) -> Lanes {
    let mask = _mm512_set1_epi64(MASK as i64);
    for k in 0..LIMBS - 1 {
        x[k + 1] = _mm512_add_epi64(x[k + 1], _mm512_srli_epi64::<52>(x[k]));
        x[k] = _mm512_and_si512(x[k], mask);
    }
    x
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sum(a: &Lanes, b: &Lanes) -> Lanes {
    let mut out = *a;
    for (o, b) in out.iter_mut().zip(b) {
        *o = _mm512_add_epi64(*o, *b);
    }
    carried(out)
}

/// Add c x to the columns.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn accumulate(columns: &mut [__m512i; 2 * LIMBS], c: &Limbs, x: &Lanes) {
    accumulate_lanes(columns, &broadcast(c), x);
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn accumulate_lanes(columns: &mut [__m512i; 2 * LIMBS], a: &Lanes, b: &Lanes) {
    for i in 0..LIMBS {
        for j in 0..LIMBS {
            columns[i + j] = _mm512_madd52lo_epu64(columns[i + j], a[i], b[j]);
            columns[i + j + 1] = _mm512_madd52hi_epu64(columns[i + j + 1], a[i], b[j]);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn products(row: &[Limbs], x: &[Lanes]) -> [__m512i; 2 * LIMBS] {
    let mut columns = [_mm512_setzero_si512(); 2 * LIMBS];
    for (c, x) in row.iter().zip(x) {
        accumulate(&mut columns, c, x);
    }
    columns
}

/// The columns' number by 2^-260, below r more than that quotient.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn reduce(mut columns: [__m512i; 2 * LIMBS]) -> Lanes {
    let (zero, inverse, r) = (_mm512_setzero_si512(), _mm512_set1_epi64(INV as i64), broadcast(&R));
    for i in 0..LIMBS {
        let m = _mm512_madd52lo_epu64(zero, columns[i], inverse);
        for j in 0..LIMBS {
            columns[i + j] = _mm512_madd52lo_epu64(columns[i + j], m, r[j]);
            columns[i + j + 1] = _mm512_madd52hi_epu64(columns[i + j + 1], m, r[j]);
        }
        columns[i + 1] = _mm512_add_epi64(columns[i + 1], _mm512_srli_epi64::<52>(columns[i]));
    }
    carried([columns[5], columns[6], columns[7], columns[8], columns[9]])
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn dot(row: &[Limbs], x: &[Lanes]) -> Lanes {
    reduce(products(row, x))
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn times(a: &Lanes, b: &Lanes) -> Lanes {
    let mut columns = [_mm512_setzero_si512(); 2 * LIMBS];
    accumulate_lanes(&mut columns, a, b);
    reduce(columns)
}

/// x^5.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn power(x: &Lanes) -> Lanes {
    let square = times(x, x);
    times(&times(&square, &square), x)
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn apply(matrix: &[Row], state: &mut [Lanes; MAX_WIDTH]) {
    let from = *state;
    for (out, row) in state.iter_mut().zip(matrix) {
        *out = dot(row, &from);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn full_round(matrix: &[Row], constants: &[Limbs], state: &mut [Lanes; MAX_WIDTH]) {
    for (x, c) in state.iter_mut().zip(constants) {
        *x = power(&sum(x, &broadcast(c)));
    }
    apply(matrix, state);
}

/// Elements 1 to 16 of each lane, lane after lane, out of Montgomery's form and below r.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn canonical(state: &[Lanes; MAX_WIDTH]) -> Vec<BigInt<4>> {
    let one = broadcast(&[1, 0, 0, 0, 0]);
    let mut out = vec![BigInt::default(); LANES * (MAX_WIDTH - 1)];
    for (j, x) in state[1..].iter().enumerate() {
        let plain = times(x, &one);
        let mut limbs = [[0u64; LANES]; LIMBS];
        for (limb, x) in limbs.iter_mut().zip(&plain) {
            // SAFETY: 64 bytes are written, to an array of 64.
            unsafe { _mm512_storeu_si512(limb.as_mut_ptr().cast(), *x) };
        }
        for lane in 0..LANES {
            let [a, b, c, d, e] = std::array::from_fn(|k| limbs[k][lane]);
            let mut n = BigInt([a | b << 52, b >> 12 | c << 40, c >> 24 | d << 28, d >> 36 | e << 16]);
            // At most r, and that for 0 alone.
            if n >= Fr::MODULUS {
                n.sub_with_borrow(&Fr::MODULUS);
            }
            out[lane * (MAX_WIDTH - 1) + j] = n;
        }
    }
    out
}
