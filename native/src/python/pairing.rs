// SPDX-License-Identifier: GPL-3.0-or-later
//! Python functions over G2 and pairings: what a ceremony's contributions are checked by.

use crate::curve::Pt;
use crate::encoding as enc;
use crate::ensure;
use crate::error::detached;
use ark_bn254::{g2, Bn254, G2Affine};
use ark_ec::pairing::Pairing;
use ark_ec::AffineRepr;
use ark_ff::{BigInteger, BigInteger256, Zero};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

const MAX_PAIRS: usize = 1 << 16;

/// Whether the product of e(P_i, Q_i) is 1; 64 zero bytes for the identity of G1, every Q_i proper.
#[pyfunction]
fn pairings_cancel(py: Python<'_>, g1: &[u8], g2: &[u8]) -> PyResult<bool> {
    detached(py, || {
        ensure!(
            g2.len() % enc::G2_BYTES == 0 && g2.len() / enc::G2_BYTES <= MAX_PAIRS,
            "{} bytes are no points of G2, or too many",
            g2.len()
        );
        let left = enc::g1s(g1)?;
        let right = g2
            .chunks_exact(enc::G2_BYTES)
            .map(enc::g2_proper)
            .collect::<Result<Vec<_>, _>>()?;
        ensure!(
            left.len() == right.len(),
            "{} points of G1 but {} of G2",
            left.len(),
            right.len()
        );
        let left = left.into_iter().map(Pt::to_affine::<ark_bn254::g1::Config>);
        let right = right.into_iter().map(Pt::to_affine::<g2::Config>);
        Ok(Bn254::multi_pairing(left, right).is_zero())
    })
}

/// A point is canonical, on the twist, in the subgroup and not the identity.
#[pyfunction]
fn g2_check(py: Python<'_>, point: &[u8]) -> PyResult<()> {
    detached(py, || enc::g2_proper(point).map(drop))
}

/// n * Q of a point on the twist, in the subgroup or not, for any n of 256 bits; 128 zero bytes for the identity.
#[pyfunction]
fn g2_multiply<'py>(py: Python<'py>, point: &[u8], n: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let product = detached(py, || {
        ensure!(n.len() == 32, "a factor has 32 bytes, not {}", n.len());
        let q: G2Affine = enc::g2_on_twist(point)?.to_affine();
        let bits: Vec<bool> = n
            .iter()
            .flat_map(|byte| (0..8).rev().map(move |i| byte >> i & 1 == 1))
            .collect();
        let product = q.mul_bigint(BigInteger256::from_bits_be(&bits));
        Ok(enc::g2_bytes(&Pt::from_projective::<g2::Config>(&product)))
    })?;
    Ok(PyBytes::new(py, &product))
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(pairings_cancel, m)?)?;
    m.add_function(wrap_pyfunction!(g2_check, m)?)?;
    m.add_function(wrap_pyfunction!(g2_multiply, m)?)
}
