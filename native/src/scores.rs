// SPDX-License-Identifier: GPL-3.0-or-later
//! Exact scores of an int8 index, y = E e, and their commitment from those of its columns.

use crate::curve::{Pt, G1};
use crate::error::Result;
use crate::fixed_base::FixedBase;
use crate::msm::msm_int;
use crate::{bail, ensure};
use ark_bn254::g1::Config;
use ark_bn254::Fr;
use rayon::prelude::*;

/// |y| < 2^31 up to here.
const MAX_DIMENSION: usize = 1 << 16;
/// Rows a thread takes at a time.
const ROWS: usize = 512;
/// Bytes that are multiplied at once where the processor can.
#[cfg(processor)]
const WIDE: usize = 64;

/// A row-major int8 matrix.
pub struct ScoreMatrix {
    rows: Box<dyn Entries>,
    d: usize,
}

/// Memory that somebody else may own: an index is too large to be held twice.
pub trait Entries: Send + Sync {
    fn entries(&self) -> &[i8];
}

#[inline(always)]
fn products(rows: &[i8], e: &[i16], out: &mut [i32]) {
    for (row, y) in rows.chunks_exact(e.len()).zip(out) {
        *y = row.iter().zip(e).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn products_avx2(rows: &[i8], e: &[i16], out: &mut [i32]) {
    products(rows, e, out);
}

/// Products of bytes, 64 at once, for rows of a multiple of that: those of the instruction are of one byte without and
/// one with a sign, so (x + 128) e is summed, and 128 e taken off again.  Sums are exact modulo 2^32.
#[cfg(processor)]
#[allow(clippy::incompatible_msrv)] // compiled where the compiler is new enough: build.rs
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn products_vnni(rows: &[i8], e: &[i16], out: &mut [i32]) {
    use std::arch::x86_64::*;
    // SAFETY: 64 bytes are read, from a chunk of 64.
    let load = |bytes: &[i8]| unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
    let narrow: Vec<i8> = e.iter().map(|x| *x as i8).collect();
    let factors: Vec<__m512i> = narrow.chunks_exact(WIDE).map(load).collect();
    let offset = 128 * e.iter().map(|x| i32::from(*x)).sum::<i32>();
    let sign = _mm512_set1_epi8(-128);
    for (row, y) in rows.chunks_exact(e.len()).zip(out) {
        let mut sums = _mm512_setzero_si512();
        for (bytes, factor) in row.chunks_exact(WIDE).zip(&factors) {
            sums = _mm512_dpbusd_epi32(sums, _mm512_xor_si512(load(bytes), sign), *factor);
        }
        *y = _mm512_reduce_add_epi32(sums).wrapping_sub(offset);
    }
}

fn products_here(rows: &[i8], e: &[i16], out: &mut [i32]) {
    #[cfg(processor)]
    if e.len() % WIDE == 0
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni")
    {
        // SAFETY: the processor has all three.
        return unsafe { products_vnni(rows, e, out) };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { products_avx2(rows, e, out) };
    }
    products(rows, e, out);
}

impl ScoreMatrix {
    pub fn new(rows: Box<dyn Entries>, d: usize) -> Result<Self> {
        ensure!(
            (1..=MAX_DIMENSION).contains(&d) && rows.entries().len() % d == 0,
            "the matrix does not consist of rows of {d} entries"
        );
        Ok(ScoreMatrix { rows, d })
    }

    /// <E_i, e> of every row, for int8 entries of e.
    pub fn scores(&self, e: &[u8]) -> Result<Vec<i32>> {
        ensure!(e.len() == self.d, "{} entries of e, {} expected", e.len(), self.d);
        let e: Vec<i16> = e.iter().map(|b| i16::from(*b as i8)).collect();
        let rows = self.rows.entries();
        let mut out = vec![0i32; rows.len() / self.d];
        out.par_chunks_mut(ROWS)
            .zip(rows.par_chunks(ROWS * self.d))
            .for_each(|(out, rows)| products_here(rows, &e, out));
        Ok(out)
    }
}

/// What one query needs of its index, in the time of the longer: `select` on all scores and on what `draw` makes without them,
/// beside C_y of every shard.
///
/// # Errors
/// Whatever `select` gives; e of another length; another number of blinders than shards.
pub fn respond<D: Send, T: Send>(
    matrix: &ScoreMatrix,
    committers: &[&Committer],
    e: &[u8],
    rhos: &[Fr],
    draw: impl FnOnce() -> D + Send,
    select: impl FnOnce(D, &[i32]) -> Result<T> + Send,
) -> Result<(T, Vec<G1>)> {
    ensure!(
        committers.len() == rhos.len(),
        "{} blinders for {} shards",
        rhos.len(),
        committers.len()
    );
    let selected = || {
        let (scores, drawn) = rayon::join(|| matrix.scores(e), draw);
        select(drawn, &scores?)
    };
    let commit = || {
        committers
            .par_iter()
            .zip(rhos)
            .map(|(one, rho)| one.commit(e, rho))
            .collect()
    };
    let (selected, c_y): (_, Result<Vec<G1>>) = rayon::join(selected, commit);
    Ok((selected?, c_y?))
}

/// w_i = gain (y_i - lo).
pub fn shifted(y: &[i32], (lo, gain): (i64, i64)) -> Result<Vec<i64>> {
    let one = |y: &i32| i64::from(*y).checked_sub(lo).and_then(|x| gain.checked_mul(x));
    let Some(w) = y.iter().map(one).collect() else {
        bail!("a score is out of range");
    };
    Ok(w)
}

/// C_y = sum_j e_j C_j + rho B for the same columns again and again.
pub struct Committer {
    columns: Vec<G1>,
    blinder: FixedBase<Config>,
}

impl Committer {
    /// Columns and B are on the curve.
    pub fn new(columns: Vec<G1>, b: &G1) -> Self {
        Committer {
            columns,
            blinder: FixedBase::new(b.to_affine::<Config>().into(), 1000),
        }
    }

    /// For int8 entries of e.
    pub fn commit(&self, e: &[u8], rho: &Fr) -> Result<G1> {
        let n = self.columns.len();
        ensure!(e.len() == n, "{} entries of e, {n} expected", e.len());
        let e: Vec<i64> = e.iter().map(|b| i64::from(*b as i8)).collect();
        let sum = msm_int::<Config>(&self.columns, &e) + self.blinder.multiply_one(rho);
        Ok(Pt::from_projective(&sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generators::generators;
    use ark_ec::short_weierstrass::Projective;

    #[test]
    fn commitment_is_the_sum() {
        let points = generators(b"columns", 20);
        let e: Vec<u8> = (0..19).map(|i| (i * 27 % 256) as u8).chain([]).collect();
        let committer = Committer::new(points[..19].to_vec(), &points[19]);
        for rho in crate::scalars::random(3).unwrap() {
            let mut want = points[19].to_affine::<Config>() * rho;
            for (p, b) in points.iter().zip(&e) {
                want += Projective::from(p.to_affine::<Config>()) * Fr::from(i64::from(*b as i8));
            }
            assert_eq!(committer.commit(&e, &rho).unwrap(), Pt::from_projective(&want));
        }
        assert!(committer.commit(&e[1..], &Fr::from(1u64)).is_err());
    }

    impl Entries for Vec<i8> {
        fn entries(&self) -> &[i8] {
            self
        }
    }

    fn over(matrix: &[u8], d: usize) -> Result<ScoreMatrix> {
        ScoreMatrix::new(Box::new(matrix.iter().map(|b| *b as i8).collect::<Vec<_>>()), d)
    }

    #[test]
    fn exact_at_the_extremes() {
        for d in [1usize, 3, 16, 31, 64, 384, 4096] {
            for n in [0usize, 1, ROWS + 7] {
                let matrix: Vec<u8> = (0..n * d).map(|i| (i * 89 % 256) as u8).chain([]).collect();
                for e in [
                    vec![0u8; d],
                    vec![128u8; d],
                    vec![127; d],
                    (0..d).map(|i| (i * 37 % 256) as u8).collect(),
                ] {
                    let got = over(&matrix, d).unwrap().scores(&e).unwrap();
                    let int = |b: &u8| i64::from(*b as i8);
                    for (row, y) in matrix.chunks_exact(d).zip(&got) {
                        let want: i64 = row.iter().zip(&e).map(|(a, b)| int(a) * int(b)).sum();
                        assert_eq!(i64::from(*y), want);
                    }
                    assert_eq!(got.len(), n);
                }
            }
        }
        assert!(over(&[0; 5], 2).is_err());
        assert!(over(&[0; 4], 0).is_err());
        assert!(over(&[0; 4], 2).unwrap().scores(&[0; 3]).is_err());
    }
}
