// SPDX-License-Identifier: GPL-3.0-or-later
//! Multi-scalar multiplication: signed windows, buckets summed by batched affine additions.
//!
//! Scalars above r/2 are taken as negative, so small negative integers are as cheap as small positive ones.  The window
//! widths are chosen from the histogram of scalar lengths: a vector of small numbers costs one narrow window.

use crate::curve::{add_assign_all, Coordinate, Group, Pt, BATCH};
use ark_bn254::Fr;
use ark_ec::short_weierstrass::Projective;
use ark_ec::{AdditiveGroup, PrimeGroup};
use ark_ff::{BigInteger, PrimeField, Zero};
use rayon::prelude::*;

/// At most this many terms are multiplied one by one.
const NAIVE: usize = 4;
const MAX_WINDOW: usize = 16;
/// Points gathered at a time.
const TILE: usize = 8192;
/// Costs in field multiplications: one batched addition, one bucket of the running sum, one level of inversions.
const ADD_COST: u64 = 6;
const BUCKET_COST: u64 = 18;
const LEVEL_COST: u64 = 250;

/// Buckets that are summed one after the other, where there are many such runs.
const RUN: usize = 8;
const MANY_RUNS: usize = 32;

/// A scalar as sign and magnitude.
#[derive(Clone, Copy)]
struct Signed {
    index: u32,
    negative: bool,
    limbs: [u64; 4],
}

fn bit_length(limbs: &[u64; 4]) -> usize {
    for i in (0..4).rev() {
        if limbs[i] != 0 {
            return 64 * i + 64 - limbs[i].leading_zeros() as usize;
        }
    }
    0
}

/// Bits [at, at + width) of a 256-bit number, width <= 32.
#[inline(always)]
pub fn bits(limbs: &[u64; 4], at: usize, width: usize) -> u32 {
    let (word, shift) = (at / 64, at % 64);
    if word >= 4 {
        return 0;
    }
    let mut v = limbs[word] >> shift;
    if shift + width > 64 && word < 3 {
        v |= limbs[word + 1] << (64 - shift);
    }
    (v & ((1 << width) - 1)) as u32
}

pub fn add_limbs(a: &[u64; 4], b: &[u64; 4]) -> [u64; 4] {
    let mut out = [0u64; 4];
    let mut carry = 0u128;
    for i in 0..4 {
        carry += a[i] as u128 + b[i] as u128;
        out[i] = carry as u64;
        carry >>= 64;
    }
    out
}

/// Cheapest cut of the bit positions into signed windows, as (start, width).
fn plan(histogram: &[u64; 257]) -> Vec<(usize, usize)> {
    let longest = (0..257).rev().find(|&l| histogram[l] > 0).unwrap_or(0);
    if longest == 0 {
        return Vec::new();
    }
    // A signed digit needs one bit above the longest magnitude.
    let top = longest + 1;
    // reach[b]: scalars that have a non-zero digit at or above bit b.  The carry may add one position.
    let mut reach = [0u64; 259];
    for b in (0..=256).rev() {
        reach[b] = reach[b + 1] + if b > 0 { histogram[b - 1] } else { 0 };
    }
    let entries = |b: usize| if b == 0 { reach[1] } else { reach[b + 1] };
    let mut best = vec![u64::MAX; top + 1];
    let mut step = vec![0usize; top + 1];
    best[top] = 0;
    for b in (0..top).rev() {
        for width in 1..=MAX_WINDOW.min(top - b) {
            let n = entries(b);
            let cost = ADD_COST * n
                + (BUCKET_COST << (width - 1))
                + LEVEL_COST * (64 - (n >> (width - 1)).leading_zeros() as u64)
                + 8 * width as u64
                + best[b + width];
            if cost < best[b] {
                best[b] = cost;
                step[b] = width;
            }
        }
    }
    let mut windows = Vec::new();
    let mut b = 0;
    while b < top {
        windows.push((b, step[b]));
        b += step[b];
    }
    windows
}

/// sum_d d * (sum of points with digit d), the entries being (point index, signed digit) with |digit| <= `buckets`.
pub fn bucket_sum<P: Group>(
    points: &[Pt<P::BaseField>],
    entries: impl Iterator<Item = (u32, i32)> + Clone,
    buckets: usize,
) -> Projective<P> {
    let mut counts = vec![0u32; buckets + 1];
    let mut total = 0usize;
    for (_, digit) in entries.clone() {
        counts[digit.unsigned_abs() as usize] += 1;
        total += 1;
    }
    let mut ends = vec![0u32; buckets + 1];
    let mut at = 0;
    for (end, count) in ends.iter_mut().zip(&counts) {
        *end = at;
        at += count;
    }
    // Index and sign of the points, by bucket.
    let mut order = vec![0u32; total];
    for (index, digit) in entries {
        let slot = &mut ends[digit.unsigned_abs() as usize];
        order[*slot as usize] = index << 1 | u32::from(digit < 0);
        *slot += 1;
    }
    // Neighbouring buckets are summed in tiles that stay in the cache.
    let mut sums: Vec<Pt<P::BaseField>> = Vec::with_capacity(buckets.min(total));
    let mut tile: Vec<Pt<P::BaseField>> = Vec::new();
    let mut jobs = Vec::new();
    let (mut first, mut taken) = (0, 0);
    while taken < total {
        let (mut next, mut end) = (first, taken);
        while next < counts.len() && (end == taken || end + counts[next] as usize <= taken + TILE) {
            end += counts[next] as usize;
            next += 1;
        }
        tile.clear();
        tile.extend(order[taken..end].iter().map(|&o| {
            let p = &points[(o >> 1) as usize];
            if o & 1 == 1 {
                p.neg()
            } else {
                *p
            }
        }));
        reduce_buckets(&mut tile, &mut counts[first..next], &mut jobs);
        sums.extend_from_slice(&tile);
        (first, taken) = (next, end);
    }
    let mut full = sums.into_iter();
    let by_bucket: Vec<_> = counts[1..]
        .iter()
        .map(|&c| {
            if c == 1 {
                full.next().expect("a sum for every bucket in use")
            } else {
                Pt::IDENTITY
            }
        })
        .collect();
    weighted_sum::<P>(&by_bucket)
}

/// 1 sums[0] + 2 sums[1] + 3 sums[2] + ..
///
/// Of many, in runs of [`RUN`] buckets: the inner multiples of all runs are summed side by side, and what a run as a whole is
/// multiplied by is left for one sum by its number.
fn weighted_sum<P: Group>(sums: &[Pt<P::BaseField>]) -> Projective<P> {
    if sums.len() % RUN != 0 || sums.len() / RUN < MANY_RUNS {
        return weighted_in_turn::<P>(sums);
    }
    let column = |j: usize| sums.chunks_exact(RUN).map(|run| run[j]).collect::<Vec<_>>();
    let mut running = column(RUN - 1);
    let mut inner = running.clone();
    for j in (0..RUN - 1).rev() {
        add_assign_all(&mut running, &column(j));
        add_assign_all(&mut inner, &running);
    }
    let mut count = [inner.len() as u32];
    reduce_buckets(&mut inner, &mut count, &mut Vec::new());
    // The first run is multiplied by nothing.
    let mut outer = weighted_in_turn::<P>(&running[1..]);
    for _ in 0..RUN.trailing_zeros() {
        outer.double_in_place();
    }
    outer + inner[0].to_affine::<P>()
}

fn weighted_in_turn<P: Group>(sums: &[Pt<P::BaseField>]) -> Projective<P> {
    let mut running = Projective::<P>::zero();
    let mut sum = Projective::<P>::zero();
    for bucket in sums.iter().rev() {
        running += bucket.to_affine::<P>();
        sum += &running;
    }
    sum
}

/// Add up neighbours of the same bucket until every bucket holds at most one point.
/// `jobs` is scratch space: position * 2, the low bit set for a point without partner.
pub fn reduce_buckets<F: Coordinate>(points: &mut Vec<Pt<F>>, counts: &mut [u32], jobs: &mut Vec<u64>) {
    let mut sums = vec![Pt::IDENTITY; BATCH.min(points.len() / 2)];
    let mut firsts = Vec::with_capacity(sums.len());
    while counts.iter().any(|&c| c > 1) {
        jobs.clear();
        let mut at = 0u64;
        for count in counts.iter_mut() {
            let k = *count as u64;
            for pair in 0..k / 2 {
                jobs.push((at + 2 * pair) << 1);
            }
            if k & 1 == 1 {
                jobs.push((at + k - 1) << 1 | 1);
            }
            at += k;
            *count = count.div_ceil(2);
        }
        let mut write = 0;
        for chunk in jobs.chunks(BATCH) {
            firsts.clear();
            firsts.extend(chunk.iter().filter(|&job| job & 1 == 0).map(|job| (job >> 1) as usize));
            let sums = &mut sums[..firsts.len()];
            F::add_pairs(|k| &points[firsts[k]], |k| &points[firsts[k] + 1], sums);
            // In order: nothing is written beyond what has been read.
            let mut sums = sums.iter();
            for job in chunk {
                points[write] = if job & 1 == 0 {
                    *sums.next().expect("a sum for every pair")
                } else {
                    points[(job >> 1) as usize]
                };
                write += 1;
            }
        }
        points.truncate(write);
    }
}

fn signed_entries<F: Coordinate>(points: &[Pt<F>], scalars: &[Fr]) -> Vec<Signed> {
    let half = Fr::MODULUS_MINUS_ONE_DIV_TWO;
    (0..scalars.len())
        .into_par_iter()
        .with_min_len(1024)
        .filter(|&i| !scalars[i].is_zero() && !points[i].is_identity())
        .map(|i| {
            let n = scalars[i].into_bigint();
            let negative = n > half;
            let limbs = if negative {
                let mut m = Fr::MODULUS;
                m.sub_with_borrow(&n);
                m.0
            } else {
                n.0
            };
            Signed {
                index: i as u32,
                negative,
                limbs,
            }
        })
        .collect()
}

/// sum_i scalars[i] * points[i].  Time depends on the scalars; they are secret only to a caller on the same machine.
pub fn msm<P: Group>(points: &[Pt<P::BaseField>], scalars: &[Fr]) -> Projective<P> {
    assert_eq!(points.len(), scalars.len(), "msm lengths");
    windows_sum(points, signed_entries(points, scalars))
}

/// sum_i integers[i] * points[i].
pub fn msm_int<P: Group>(points: &[Pt<P::BaseField>], integers: &[i64]) -> Projective<P> {
    assert_eq!(points.len(), integers.len(), "msm lengths");
    let entries = integers
        .iter()
        .enumerate()
        .filter(|&(i, &n)| n != 0 && !points[i].is_identity())
        .map(|(i, &n)| Signed {
            index: i as u32,
            negative: n < 0,
            limbs: [n.unsigned_abs(), 0, 0, 0],
        })
        .collect();
    windows_sum(points, entries)
}

fn windows_sum<P: Group>(points: &[Pt<P::BaseField>], mut entries: Vec<Signed>) -> Projective<P> {
    if entries.len() <= NAIVE {
        return entries
            .iter()
            .map(|e| {
                let p = Projective::<P>::from(points[e.index as usize].to_affine::<P>()).mul_bigint(e.limbs);
                if e.negative {
                    -p
                } else {
                    p
                }
            })
            .sum();
    }
    let mut histogram = [0u64; 257];
    for e in &entries {
        histogram[bit_length(&e.limbs)] += 1;
    }
    let windows = plan(&histogram);
    // With 2^(width-1) added at every window, digit = window of the sum - 2^(width-1): no carries between windows.
    let mut offset = [0u64; 4];
    for &(start, width) in &windows {
        let at = start + width - 1;
        offset[at / 64] |= 1 << (at % 64);
    }
    entries
        .par_iter_mut()
        .with_min_len(4096)
        .for_each(|e| e.limbs = add_limbs(&e.limbs, &offset));
    let last = windows.last().map_or(0, |w| w.0);
    let sums: Vec<Projective<P>> = windows
        .par_iter()
        .with_max_len(1)
        .map(|&(start, width)| {
            let half = 1i32 << (width - 1);
            // Magnitudes have a bit less than the windows, so what the last one gets from below makes +half at most.
            let reach = width + usize::from(start == last);
            let digits = entries.iter().filter_map(move |e| {
                let d = bits(&e.limbs, start, reach) as i32 - half;
                (d != 0).then_some((e.index, if e.negative { -d } else { d }))
            });
            bucket_sum::<P>(points, digits, half as usize)
        })
        .collect();
    let mut result = Projective::<P>::zero();
    for (&(_, width), sum) in windows.iter().zip(&sums).rev() {
        for _ in 0..width {
            result.double_in_place();
        }
        result += sum;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed_base::fixed_base;
    use ark_bn254::g1::Config;
    use ark_ff::{Field, UniformRand};

    fn naive(points: &[Pt<ark_bn254::Fq>], scalars: &[Fr]) -> Projective<Config> {
        points
            .iter()
            .zip(scalars)
            .map(|(p, k)| p.to_affine::<Config>() * k)
            .sum()
    }

    #[test]
    fn agrees_with_naive_on_mixed_scalars() {
        let mut rng = ark_std::test_rng();
        let base = Projective::<Config>::generator();
        for n in [0usize, 1, 5, 33, 700] {
            let ks: Vec<Fr> = (0..n).map(|_| Fr::rand(&mut rng)).collect();
            let mut points = fixed_base(base, &ks);
            let mut scalars: Vec<Fr> = (0..n)
                .map(|i| match i % 7 {
                    0 => Fr::from(0u64),
                    1 => -Fr::from(i as u64),
                    2 => Fr::from(1u64),
                    3 => -Fr::from(1u64),
                    4 => Fr::from(2u64).pow([253]),
                    _ => Fr::rand(&mut rng),
                })
                .collect();
            // Repeated, opposite and identity points under one digit.
            if n > 30 {
                for i in 0..10 {
                    points[i] = if i % 2 == 0 { points[20] } else { points[20].neg() };
                    scalars[i] = Fr::from(3u64);
                }
                points[11] = Pt::IDENTITY;
            }
            assert_eq!(msm::<Config>(&points, &scalars), naive(&points, &scalars));
            // One long scalar among short ones makes many narrow windows.
            if n > 1 {
                for bits in [9u64, 64, 128, 200, 252] {
                    for s in scalars.iter_mut() {
                        *s = Fr::from(u64::rand(&mut rng) as u8 as i8 as i64);
                    }
                    scalars[1] = Fr::from(2u64).pow([bits]) - Fr::from(1u64);
                    assert_eq!(msm::<Config>(&points, &scalars), naive(&points, &scalars));
                    scalars[1] = -scalars[1];
                    assert_eq!(msm::<Config>(&points, &scalars), naive(&points, &scalars));
                }
            }
        }
    }
}
