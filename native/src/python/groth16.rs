// SPDX-License-Identifier: GPL-3.0-or-later
//! Keys, proofs and witnesses as Python objects.

use crate::encoding as enc;
use crate::error::{detached, Error, Result};
use crate::verify::{decode_weights, Proof, VerifyingKey as Key};
use crate::witness::Assignment;
use crate::zkey::ProvingKey as FullKey;
use crate::{ensure, setup as maker, snarkjs};
use ark_ff::Field;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;

/// A verifying key whose IC points serve as the basis of commitments.
#[pyclass(frozen, module = "ragseal_native")]
pub struct VerifyingKey(Arc<Key>);

#[pymethods]
impl VerifyingKey {
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        Ok(VerifyingKey(Arc::new(detached(py, || Key::decode(data))?)))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.encode()))
    }

    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        let key = detached(py, || snarkjs::key_from_json(text))?;
        Ok(VerifyingKey(Arc::new(key)))
    }

    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| snarkjs::key_to_json(&self.0))
    }

    /// SHA-256 of the canonical bytes.
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.digest()))
    }

    /// IC points [start, start + count).
    fn ic<'py>(&self, py: Python<'py>, start: usize, count: usize) -> PyResult<Bound<'py, PyBytes>> {
        let end = start.saturating_add(count);
        let points = self.0.ic.get(start..end).ok_or_else(|| {
            Error(format!(
                "IC points {start}..{end} of a key with {} points",
                self.0.ic.len()
            ))
        })?;
        Ok(PyBytes::new(py, &py.detach(|| enc::g1s_bytes(points))))
    }

    #[getter]
    fn n_public(&self) -> usize {
        self.0.n_public()
    }

    /// Raises unless the proof holds for the first inputs `clear` and `commitments` to all others.
    fn verify(&self, py: Python<'_>, proof: &[u8], clear: &[u8], commitments: &[u8]) -> PyResult<()> {
        detached(py, || {
            self.0.verify(
                &Proof::decode(proof)?,
                &enc::scalars(clear)?,
                &enc::g1s_proper(commitments)?,
            )
        })
    }

    /// Raises unless all proofs hold; `weights` are 16 unpredictable bytes for each, `scales` scalars of its commitments.
    fn verify_batch(
        &self,
        py: Python<'_>,
        proofs: Vec<PyBackedBytes>,
        clears: Vec<PyBackedBytes>,
        commitments: Vec<PyBackedBytes>,
        scales: Vec<PyBackedBytes>,
        weights: &[u8],
    ) -> PyResult<()> {
        detached(py, || {
            use rayon::prelude::*;
            let at = |i: usize| move |e: Error| Error(format!("batch entry {i}: {e}"));
            let proofs = proofs
                .par_iter()
                .enumerate()
                .map(|(i, b)| Proof::decode_for_batch(b).map_err(at(i)))
                .collect::<Result<Vec<_>>>()?;
            let numbers = |packed: &[PyBackedBytes]| -> Result<Vec<_>> {
                packed
                    .iter()
                    .enumerate()
                    .map(|(i, b)| enc::scalars(b).map_err(at(i)))
                    .collect()
            };
            let (clears, scales) = (numbers(&clears)?, numbers(&scales)?);
            let commitments = commitments
                .iter()
                .enumerate()
                .map(|(i, b)| enc::g1s_proper(b).map_err(at(i)))
                .collect::<Result<Vec<_>>>()?;
            self.0
                .verify_batch(&proofs, &clears, &commitments, &scales, &decode_weights(weights)?)
        })
    }
}

/// A checked snarkjs key.
#[pyclass(frozen, module = "ragseal_native")]
pub struct ProvingKey(FullKey, Arc<Key>);

#[pymethods]
impl ProvingKey {
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let key = detached(py, || FullKey::load(&path))?;
        let verifying = Arc::new(key.verifying.clone());
        Ok(ProvingKey(key, verifying))
    }

    #[getter]
    fn n_vars(&self) -> usize {
        self.0.n_vars
    }

    #[getter]
    fn n_public(&self) -> usize {
        self.0.n_public
    }

    #[getter]
    fn domain(&self) -> usize {
        self.0.domain
    }

    fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.1.clone())
    }

    /// A proof, checked against all public inputs before it is returned.  r and s are for tests.
    #[pyo3(signature = (witness, r=None, s=None))]
    fn prove<'py>(
        &self,
        py: Python<'py>,
        witness: WitnessSource<'_>,
        r: Option<&[u8]>,
        s: Option<&[u8]>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let loaded;
        let held;
        let wires: &Assignment = match witness {
            WitnessSource::Object(object) => {
                held = object;
                &held.0
            }
            WitnessSource::Path(path) => {
                loaded = detached(py, || Assignment::load(&path))?;
                &loaded
            }
        };
        let proof = detached(py, || {
            let blinding = match (r, s) {
                (None, None) => None,
                (Some(r), Some(s)) => Some((enc::scalar(r)?, enc::scalar(s)?)),
                _ => return Err(Error("give both r and s, or neither".into())),
            };
            self.0.prove(&wires.0, blinding)
        })?;
        Ok(PyBytes::new(py, &proof.encode()))
    }
}

#[derive(FromPyObject)]
enum WitnessSource<'py> {
    Object(PyRef<'py, Witness>),
    Path(PathBuf),
}

/// Values of all wires.
#[pyclass(module = "ragseal_native")]
pub struct Witness(pub Assignment);

impl Witness {
    fn index(&self, wire: usize) -> Result<usize> {
        ensure!(
            wire < self.0 .0.len(),
            "wire {wire} of a witness with {} wires",
            self.0 .0.len()
        );
        Ok(wire)
    }
}

#[pymethods]
impl Witness {
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        Ok(Witness(detached(py, || Assignment::checked(enc::scalars(data)?))?))
    }

    #[pyo3(name = "bytes")]
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &enc::scalars_bytes(&self.0 .0))
    }

    fn __len__(&self) -> usize {
        self.0 .0.len()
    }

    fn get<'py>(&self, py: Python<'py>, wire: usize) -> PyResult<Bound<'py, PyBytes>> {
        let i = self.index(wire)?;
        Ok(PyBytes::new(py, &enc::scalar_bytes(&self.0 .0[i])))
    }

    /// Wires [start, start + count), packed.
    fn slice<'py>(&self, py: Python<'py>, start: usize, count: usize) -> PyResult<Bound<'py, PyBytes>> {
        let end = start.saturating_add(count);
        let part = self
            .0
             .0
            .get(start..end)
            .ok_or_else(|| Error(format!("wires {start}..{end} are beyond the witness")))?;
        Ok(PyBytes::new(py, &enc::scalars_bytes(part)))
    }

    fn set(&mut self, wire: usize, value: &[u8]) -> PyResult<()> {
        let i = self.index(wire)?;
        let x = enc::scalar(value)?;
        if i == 0 && x != ark_bn254::Fr::ONE {
            return Err(Error("the first wire of a witness is 1".into()).into());
        }
        self.0 .0[i] = x;
        Ok(())
    }

    fn to_wtns(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.0.store(&path))
    }

    #[staticmethod]
    fn from_wtns(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Witness(detached(py, || Assignment::load(&path))?))
    }
}

/// Make a one-party key.  `entropy` is for tests: it makes the toxic values predictable.
#[pyfunction]
#[pyo3(signature = (r1cs_path, zkey_path, kept=None, entropy=None))]
fn setup(
    py: Python<'_>,
    r1cs_path: PathBuf,
    zkey_path: PathBuf,
    kept: Option<usize>,
    entropy: Option<&[u8]>,
) -> PyResult<()> {
    detached(py, || maker::setup(&r1cs_path, &zkey_path, kept, entropy))
}

/// snarkjs' proof.json of a 256-byte proof.
#[pyfunction]
fn proof_to_json(py: Python<'_>, proof: &[u8]) -> PyResult<String> {
    detached(py, || Ok(snarkjs::proof_to_json(&Proof::decode(proof)?)))
}

#[pyfunction]
fn proof_from_json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyBytes>> {
    let proof = detached(py, || snarkjs::proof_from_json(text))?;
    Ok(PyBytes::new(py, &proof.encode()))
}

/// snarkjs' public.json of packed scalars.
#[pyfunction]
fn public_to_json(py: Python<'_>, values: &[u8]) -> PyResult<String> {
    detached(py, || Ok(snarkjs::public_to_json(&enc::scalars(values)?)))
}

#[pyfunction]
fn public_from_json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyBytes>> {
    let values = detached(py, || snarkjs::public_from_json(text))?;
    Ok(PyBytes::new(py, &enc::scalars_bytes(&values)))
}

/// The proof is canonical, on its curves and in the subgroup; no identity.
#[pyfunction]
fn proof_check(py: Python<'_>, proof: &[u8]) -> PyResult<()> {
    detached(py, || Proof::decode(proof).map(drop))
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<VerifyingKey>()?;
    m.add_class::<ProvingKey>()?;
    m.add_class::<Witness>()?;
    m.add_function(wrap_pyfunction!(setup, m)?)?;
    m.add_function(wrap_pyfunction!(proof_to_json, m)?)?;
    m.add_function(wrap_pyfunction!(proof_from_json, m)?)?;
    m.add_function(wrap_pyfunction!(public_to_json, m)?)?;
    m.add_function(wrap_pyfunction!(public_from_json, m)?)?;
    m.add_function(wrap_pyfunction!(proof_check, m)?)
}
