// SPDX-License-Identifier: GPL-3.0-or-later
//! Python functions over points and scalars.

use crate::curve::Pt;
use crate::encoding as enc;
use crate::error::{detached, Error, Result};
use crate::{columns, ensure, folding, generators, msm, poseidon, scalars};
use ark_bn254::g1::Config;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

const MAX_COUNT: usize = 1 << 26;

fn bounded(n: usize) -> Result<usize> {
    ensure!(n <= MAX_COUNT, "a count of {n} is beyond the limit of {MAX_COUNT}");
    Ok(n)
}

/// Every point is canonical, on the curve and not the identity.
#[pyfunction]
fn g1_check(py: Python<'_>, points: &[u8]) -> PyResult<()> {
    detached(py, || enc::g1s_proper(points).map(drop))
}

/// sum_i scalars[i] * points[i]; 64 zero bytes for the identity.
#[pyfunction]
fn g1_msm<'py>(py: Python<'py>, points: &[u8], scalars: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let sum = detached(py, || {
        ensure!(
            points.len() / enc::G1_BYTES == scalars.len() / enc::SCALAR,
            "{} points but {} scalars",
            points.len() / enc::G1_BYTES,
            scalars.len() / enc::SCALAR
        );
        let (p, k) = (enc::g1s(points)?, enc::scalars(scalars)?);
        Ok(enc::g1_bytes(&Pt::from_projective(&msm::msm::<Config>(&p, &k))))
    })?;
    Ok(PyBytes::new(py, &sum))
}

/// sum_i integers[i] * points[i] for small signed integers.
#[pyfunction]
fn g1_msm_int<'py>(py: Python<'py>, points: &[u8], integers: Vec<i64>) -> PyResult<Bound<'py, PyBytes>> {
    let sum = detached(py, || {
        let p = enc::g1s(points)?;
        ensure!(
            p.len() == integers.len(),
            "{} points but {} integers",
            p.len(),
            integers.len()
        );
        Ok(enc::g1_bytes(&Pt::from_projective(&msm::msm_int::<Config>(
            &p, &integers,
        ))))
    })?;
    Ok(PyBytes::new(py, &sum))
}

/// Sum of concatenated points.
#[pyfunction]
fn g1_sum<'py>(py: Python<'py>, points: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let sum = detached(py, || {
        let p = enc::g1s(points)?;
        let ones = vec![1i64; p.len()];
        Ok(enc::g1_bytes(&Pt::from_projective(&msm::msm_int::<Config>(&p, &ones))))
    })?;
    Ok(PyBytes::new(py, &sum))
}

/// u * left + right of the halves of the points; of an odd number the left half has one more.
#[pyfunction]
fn g1_fold<'py>(py: Python<'py>, points: &[u8], u: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let folded = detached(py, || {
        Ok(enc::g1s_bytes(&folding::fold(&enc::g1s(points)?, enc::scalar(u)?)?))
    })?;
    Ok(PyBytes::new(py, &folded))
}

/// `count` generators of a domain.
#[pyfunction]
fn hash_to_curve<'py>(py: Python<'py>, domain: &[u8], count: usize) -> PyResult<Bound<'py, PyBytes>> {
    let points = detached(py, || {
        Ok(enc::g1s_bytes(&generators::generators(domain, bounded(count)? as u32)))
    })?;
    Ok(PyBytes::new(py, &points))
}

/// Column commitments of a row-major int8 matrix.
#[pyfunction]
fn commit_columns<'py>(
    py: Python<'py>,
    y_points: &[u8],
    b_point: &[u8],
    matrix: &[u8],
    d: usize,
    blinders: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let out = detached(py, || {
        let (y, b) = (enc::g1s_proper(y_points)?, enc::g1_proper(b_point)?);
        let beta = enc::scalars(blinders)?;
        Ok(enc::g1s_bytes(&columns::commit(&y, &b, matrix, d, &beta)?))
    })?;
    Ok(PyBytes::new(py, &out))
}

/// Column commitments after some slots changed by `delta` (rows of little-endian int16).
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn update_columns<'py>(
    py: Python<'py>,
    columns: &[u8],
    y_points: &[u8],
    b_point: &[u8],
    slots: Vec<usize>,
    delta: &[u8],
    d: usize,
    blinder_deltas: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let out = detached(py, || {
        let old = enc::g1s_proper(columns)?;
        ensure!(old.len() == d, "{} columns, {d} expected", old.len());
        let (y, b) = (enc::g1s_proper(y_points)?, enc::g1_proper(b_point)?);
        let beta = enc::scalars(blinder_deltas)?;
        Ok(enc::g1s_bytes(&columns::update(&old, &y, &b, &slots, delta, &beta)?))
    })?;
    Ok(PyBytes::new(py, &out))
}

/// sum_t coefficients[t] * vectors[t] mod r.
#[pyfunction]
fn linear_combination<'py>(
    py: Python<'py>,
    vectors: Vec<PyBackedBytes>,
    coefficients: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let out = detached(py, || {
        let views: Vec<&[u8]> = vectors.iter().map(|v| v.as_ref()).collect();
        scalars::linear_combination(&views, &enc::scalars(coefficients)?)
    })?;
    Ok(PyBytes::new(py, &out))
}

/// a_i = sum_j chi^j E[i][j] mod r of a row-major int8 matrix.
#[pyfunction]
fn matrix_combination<'py>(py: Python<'py>, matrix: &[u8], d: usize, chi: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let out = detached(py, || scalars::matrix_combination(matrix, d, enc::scalar(chi)?))?;
    Ok(PyBytes::new(py, &out))
}

/// nonces + challenge * witness mod r.
#[pyfunction]
fn respond<'py>(py: Python<'py>, nonces: &[u8], challenge: &[u8], witness: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let out = detached(py, || scalars::respond(nonces, enc::scalar(challenge)?, witness))?;
    Ok(PyBytes::new(py, &out))
}

/// chi^0 .. chi^(count - 1).
#[pyfunction]
fn powers<'py>(py: Python<'py>, chi: &[u8], count: usize) -> PyResult<Bound<'py, PyBytes>> {
    let out = detached(py, || {
        Ok(enc::scalars_bytes(&scalars::powers(enc::scalar(chi)?, bounded(count)?)))
    })?;
    Ok(PyBytes::new(py, &out))
}

/// Uniform scalars from the operating system.
#[pyfunction]
fn random_scalars(py: Python<'_>, count: usize) -> PyResult<Bound<'_, PyBytes>> {
    let out = detached(py, || Ok(enc::scalars_bytes(&scalars::random(bounded(count)?)?)))?;
    Ok(PyBytes::new(py, &out))
}

fn elements(items: &[PyBackedBytes]) -> Result<Vec<ark_bn254::Fr>> {
    ensure!(
        items.len() <= poseidon::MAX_WIDTH,
        "Poseidon has widths 2 to {} here",
        poseidon::MAX_WIDTH
    );
    items.iter().map(|b| enc::scalar(b)).collect()
}

/// circomlib's Poseidon of 1 to 16 elements.  It keeps the GIL: to have it back may take longer than the hash.
#[pyfunction(name = "poseidon")]
fn poseidon_hash<'py>(py: Python<'py>, inputs: Vec<PyBackedBytes>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(
        py,
        &enc::scalar_bytes(&poseidon::hash(&elements(&inputs)?)?),
    ))
}

/// The permutation on 2 to 17 elements.
#[pyfunction]
fn poseidon_permute(py: Python<'_>, state: Vec<PyBackedBytes>) -> PyResult<Vec<Bound<'_, PyBytes>>> {
    let out = detached(py, || {
        let mut s = elements(&state)?;
        poseidon::Parameters::of(s.len())?.permute(&mut s);
        Ok::<_, Error>(s)
    })?;
    Ok(out.iter().map(|x| PyBytes::new(py, &enc::scalar_bytes(x))).collect())
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(g1_check, m)?)?;
    m.add_function(wrap_pyfunction!(g1_msm, m)?)?;
    m.add_function(wrap_pyfunction!(g1_msm_int, m)?)?;
    m.add_function(wrap_pyfunction!(g1_sum, m)?)?;
    m.add_function(wrap_pyfunction!(g1_fold, m)?)?;
    m.add_function(wrap_pyfunction!(hash_to_curve, m)?)?;
    m.add_function(wrap_pyfunction!(commit_columns, m)?)?;
    m.add_function(wrap_pyfunction!(update_columns, m)?)?;
    m.add_function(wrap_pyfunction!(linear_combination, m)?)?;
    m.add_function(wrap_pyfunction!(matrix_combination, m)?)?;
    m.add_function(wrap_pyfunction!(respond, m)?)?;
    m.add_function(wrap_pyfunction!(powers, m)?)?;
    m.add_function(wrap_pyfunction!(random_scalars, m)?)?;
    m.add_function(wrap_pyfunction!(poseidon_hash, m)?)?;
    m.add_function(wrap_pyfunction!(poseidon_permute, m)?)
}
