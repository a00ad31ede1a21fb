// SPDX-License-Identifier: GPL-3.0-or-later
//! Vectors of scalars: what a batched opening folds and answers.

use crate::encoding::{scalar, scalars_bytes, SCALAR};
use crate::error::{Error, Result};
use crate::{bail, ensure};
use ark_bn254::Fr;
use ark_ff::{AdditiveGroup, BigInt, Field, PrimeField};
use rayon::prelude::*;
use zeroize::Zeroize;

/// 2^256 mod r: turns the integer behind a wire scalar, read as a Montgomery residue, back into its value.
fn montgomery_factor() -> Fr {
    Fr::from(2u64).pow([256])
}

/// A canonical wire scalar read as if it were a Montgomery residue (x / 2^256), which saves a multiplication.
#[inline]
fn residue(bytes: &[u8]) -> Result<Fr> {
    let limb = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let n = BigInt([limb(24), limb(16), limb(8), limb(0)]);
    if n >= Fr::MODULUS {
        return Err(Error("a scalar is not canonical (>= r)".into()));
    }
    Ok(Fr::new_unchecked(n))
}

fn check_vector(bytes: &[u8]) -> Result<usize> {
    ensure!(bytes.len() % SCALAR == 0, "concatenated scalars are truncated");
    Ok(bytes.len() / SCALAR)
}

/// sum_t coefficients[t] * vectors[t], element by element.
pub fn linear_combination(vectors: &[&[u8]], coefficients: &[Fr]) -> Result<Vec<u8>> {
    ensure!(
        vectors.len() == coefficients.len(),
        "{} vectors but {} coefficients",
        vectors.len(),
        coefficients.len()
    );
    let n = vectors.first().map_or(Ok(0), |v| check_vector(v))?;
    if vectors.iter().any(|v| v.len() != n * SCALAR) {
        bail!("linear combination of vectors of different lengths");
    }
    let factor = montgomery_factor();
    let scaled: Vec<Fr> = coefficients.iter().map(|c| *c * factor).collect();
    let sums: Vec<Fr> = (0..n)
        .into_par_iter()
        .with_min_len(128)
        .map(|i| {
            let at = i * SCALAR;
            vectors
                .iter()
                .zip(&scaled)
                .try_fold(Fr::ZERO, |acc, (v, c)| Ok(acc + residue(&v[at..at + SCALAR])? * c))
        })
        .collect::<Result<_>>()?;
    Ok(scalars_bytes(&sums))
}

/// a_i = sum_j chi^j E[i][j] for a row-major int8 matrix of `d` columns.
pub fn matrix_combination(matrix: &[u8], d: usize, chi: Fr) -> Result<Vec<u8>> {
    ensure!(
        d > 0 && d <= 1 << 20 && matrix.len() % d == 0,
        "the matrix does not consist of rows of {d} entries"
    );
    // 32-bit limbs of chi^j: a row's limb sums stay far inside 64 bits, and the loop vectorises.
    let limbs: Vec<[i64; 8]> = powers(chi, d)
        .iter()
        .map(|p| {
            let n = p.into_bigint().0;
            std::array::from_fn(|k| (n[k / 2] >> (32 * (k % 2)) & 0xffff_ffff) as i64)
        })
        .collect();
    let mut weight = Fr::ONE;
    let weights: [Fr; 8] = std::array::from_fn(|_| {
        let w = weight;
        weight *= Fr::from(1u64 << 32);
        w
    });
    let rows: Vec<Fr> = matrix
        .par_chunks_exact(d)
        .with_min_len(64)
        .map(|row| {
            let mut sums = [0i64; 8];
            for (e, power) in row.iter().zip(&limbs) {
                let e = *e as i8 as i64;
                for (s, p) in sums.iter_mut().zip(power) {
                    *s += e * p;
                }
            }
            sums.iter()
                .zip(&weights)
                .filter(|(s, _)| **s != 0)
                .map(|(s, w)| Fr::from(*s) * w)
                .sum()
        })
        .collect();
    Ok(scalars_bytes(&rows))
}

/// nonces + challenge * witness, element by element.
pub fn respond(nonces: &[u8], challenge: Fr, witness: &[u8]) -> Result<Vec<u8>> {
    ensure!(
        nonces.len() == witness.len(),
        "as many nonces as witness entries are needed"
    );
    check_vector(nonces)?;
    let c = challenge * montgomery_factor();
    let out: Vec<Fr> = nonces
        .par_chunks_exact(SCALAR)
        .zip(witness.par_chunks_exact(SCALAR))
        .with_min_len(256)
        .map(|(k, w)| Ok(scalar(k)? + c * residue(w)?))
        .collect::<Result<_>>()?;
    Ok(scalars_bytes(&out))
}

/// chi^0 .. chi^(count - 1).
pub fn powers(chi: Fr, count: usize) -> Vec<Fr> {
    let mut p = Fr::ONE;
    (0..count)
        .map(|_| {
            let now = p;
            p *= chi;
            now
        })
        .collect()
}

/// Uniform scalars from the operating system, by rejection.
pub fn random(count: usize) -> Result<Vec<Fr>> {
    let mut out = Vec::with_capacity(count);
    let mut pool = vec![0u8; SCALAR * count.clamp(1, 4096)];
    while out.len() < count {
        getrandom::fill(&mut pool).map_err(|e| Error(format!("the system's random source failed: {e}")))?;
        for bytes in pool.chunks_exact_mut(SCALAR) {
            bytes[0] &= 0x3f;
            if let (Ok(x), true) = (scalar(bytes), out.len() < count) {
                out.push(x);
            }
        }
    }
    pool.zeroize();
    Ok(out)
}

/// Uniform scalars below 2^128: weights of a combination that a false value passes with probability 2^-128.
pub fn random_short(count: usize) -> Result<Vec<Fr>> {
    let mut bytes = vec![0u8; 16 * count];
    getrandom::fill(&mut bytes).map_err(|e| Error(format!("the system's random source failed: {e}")))?;
    Ok(bytes
        .chunks_exact(16)
        .map(|b| Fr::from(u128::from_le_bytes(b.try_into().expect("16 bytes"))))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::scalars;

    #[test]
    fn combinations_agree_with_field_arithmetic() {
        let v = random(20).unwrap();
        let w = random(20).unwrap();
        let c = random(2).unwrap();
        let (vb, wb) = (scalars_bytes(&v), scalars_bytes(&w));
        let got = scalars(&linear_combination(&[&vb, &wb], &c).unwrap()).unwrap();
        let answered = scalars(&respond(&vb, c[0], &wb).unwrap()).unwrap();
        for i in 0..20 {
            assert_eq!(got[i], c[0] * v[i] + c[1] * w[i]);
            assert_eq!(answered[i], v[i] + c[0] * w[i]);
        }
    }

    #[test]
    fn matrix_rows() {
        let chi = random(1).unwrap()[0];
        let matrix = [1u8, 255, 128, 127, 0, 3];
        let got = scalars(&matrix_combination(&matrix, 3, chi).unwrap()).unwrap();
        let square = chi.square();
        assert_eq!(got[0], Fr::ONE - chi - Fr::from(128u64) * square);
        assert_eq!(got[1], Fr::from(127u64) + Fr::from(3u64) * square);
        assert!(matrix_combination(&matrix, 4, chi).is_err());
        assert!(matrix_combination(&matrix, 0, chi).is_err());
    }
}
