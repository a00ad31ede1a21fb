// SPDX-License-Identifier: GPL-3.0-or-later
//! Powers of tau and the keys made of them, as Python objects.

use crate::error::detached;
use crate::powers::{self, Powers as Checked};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// Checked powers of a .ptau file.
#[pyclass(frozen, module = "ragseal_native")]
pub struct Powers(Checked);

#[pymethods]
impl Powers {
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, domain: usize) -> PyResult<Self> {
        Ok(Powers(detached(py, || Checked::load(&path, domain))?))
    }

    #[getter]
    fn domain(&self) -> usize {
        self.0.domain()
    }

    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.digest())
    }

    /// Raises unless every point of a key is the one that the circuit, these powers and its own delta give.
    fn check_key(&self, py: Python<'_>, zkey_path: PathBuf, r1cs_path: PathBuf, kept: usize) -> PyResult<()> {
        detached(py, || self.0.check_key(&zkey_path, &r1cs_path, kept))
    }

    /// Write the key that a second phase begins with.
    fn initial_key(&self, py: Python<'_>, r1cs_path: PathBuf, zkey_path: PathBuf, kept: usize) -> PyResult<()> {
        detached(py, || self.0.initial_key(&r1cs_path, kept, &zkey_path))
    }
}

/// The second phase by one party, with a delta from the operating system that is forgotten.
#[pyfunction]
fn contribute(py: Python<'_>, initial_path: PathBuf, zkey_path: PathBuf) -> PyResult<()> {
    detached(py, || powers::contribute(&initial_path, &zkey_path))
}

/// Make powers alone, with secrets from the operating system that are forgotten.  `entropy` is for tests.
#[pyfunction]
#[pyo3(signature = (path, power, entropy=None))]
fn make_powers(py: Python<'_>, path: PathBuf, power: u32, entropy: Option<&[u8]>) -> PyResult<()> {
    detached(py, || powers::make_powers(&path, power, entropy))
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Powers>()?;
    m.add_function(wrap_pyfunction!(make_powers, m)?)?;
    m.add_function(wrap_pyfunction!(contribute, m)?)
}
