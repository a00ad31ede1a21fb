// SPDX-License-Identifier: GPL-3.0-or-later
//! Column commitments C_j = sum_i E[i][j] Y_i + beta_j B of an int8 matrix, and their homomorphic updates.

use crate::curve::{Pt, G1};
use crate::ensure;
use crate::error::Result;
use crate::fixed_base::fixed_base;
use crate::msm::{bucket_sum, msm_int};
use ark_bn254::{g1::Config, Fr};
use ark_ec::short_weierstrass::Projective;
use rayon::prelude::*;

/// Largest |entry| of an int8 matrix.
const ENTRY_LIMIT: usize = 128;
/// Columns transposed at a time: bounds the extra memory to this many bytes a row.
const STRIPE: usize = 64;

fn with_blinders(mut sums: Vec<Projective<Config>>, base: &G1, blinders: &[Fr]) -> Vec<G1> {
    let hiding = fixed_base::<Config>(base.to_affine::<Config>().into(), blinders);
    sums.par_iter_mut()
        .zip(&hiding)
        .for_each(|(s, h)| *s += h.to_affine::<Config>());
    Pt::normalise(&sums)
}

/// All `d` column commitments of a row-major matrix with one row for each of `bases`.
pub fn commit(bases: &[G1], base: &G1, matrix: &[u8], d: usize, blinders: &[Fr]) -> Result<Vec<G1>> {
    ensure!(
        d > 0 && bases.len().checked_mul(d) == Some(matrix.len()),
        "a matrix of {} bytes is not {} rows of {d}",
        matrix.len(),
        bases.len()
    );
    ensure!(blinders.len() == d, "{} blinders for {d} columns", blinders.len());
    ensure!(bases.len() < 1 << 31, "too many rows");
    // Empty slots are zero rows.
    let used: Vec<u32> = matrix
        .par_chunks_exact(d)
        .enumerate()
        .filter(|(_, row)| row.iter().any(|&e| e != 0))
        .map(|(i, _)| i as u32)
        .collect();
    let n = used.len();
    let mut sums = Vec::with_capacity(d);
    for first in (0..d).step_by(STRIPE) {
        let width = STRIPE.min(d - first);
        let mut stripe = vec![0i8; n * width];
        for (at, &i) in used.iter().enumerate() {
            let row = &matrix[i as usize * d + first..][..width];
            for (j, &e) in row.iter().enumerate() {
                stripe[j * n + at] = e as i8;
            }
        }
        let part: Vec<Projective<Config>> = (0..width)
            .into_par_iter()
            .map(|j| {
                let digits = used
                    .iter()
                    .zip(&stripe[j * n..(j + 1) * n])
                    .filter_map(|(&i, &e)| (e != 0).then_some((i, e as i32)));
                bucket_sum::<Config>(bases, digits, ENTRY_LIMIT)
            })
            .collect();
        sums.extend(part);
    }
    Ok(with_blinders(sums, base, blinders))
}

/// C_j + sum_k delta[k][j] Y_slots[k] + blinder_j B.  The caller re-blinds every column and proves the opening anew.
pub fn update(
    columns: &[G1],
    bases: &[G1],
    base: &G1,
    slots: &[usize],
    delta: &[u8],
    blinders: &[Fr],
) -> Result<Vec<G1>> {
    let d = columns.len();
    ensure!(
        slots.len().checked_mul(2 * d) == Some(delta.len()),
        "{} bytes of differences are not {} rows of {d} 16-bit integers",
        delta.len(),
        slots.len()
    );
    ensure!(blinders.len() == d, "{} blinders for {d} columns", blinders.len());
    let chosen: Vec<G1> = slots
        .iter()
        .map(|&s| {
            bases
                .get(s)
                .copied()
                .ok_or_else(|| crate::error::Error(format!("slot {s} is beyond the {} slots", bases.len())))
        })
        .collect::<Result<_>>()?;
    let sums: Vec<Projective<Config>> = columns
        .par_iter()
        .enumerate()
        .map(|(j, c)| {
            let column: Vec<i64> = (0..slots.len())
                .map(|k| {
                    let at = 2 * (k * d + j);
                    i64::from(i16::from_le_bytes([delta[at], delta[at + 1]]))
                })
                .collect();
            msm_int::<Config>(&chosen, &column) + c.to_affine::<Config>()
        })
        .collect();
    Ok(with_blinders(sums, base, blinders))
}
