// SPDX-License-Identifier: GPL-3.0-or-later
//! Constraint systems and their witnesses.

use super::groth16::Witness;
use crate::encoding as enc;
use crate::error::{detached, Error, Result};
use crate::r1cs::R1cs as System;
use crate::solver::{propagate, Plan};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};
use std::path::PathBuf;
use std::sync::OnceLock;

/// A circuit in the iden3 .r1cs format.
#[pyclass(frozen, module = "ragseal_native")]
pub struct R1cs {
    system: System,
    plan: OnceLock<Result<Plan>>,
}

type Row<'py> = Vec<(u32, Bound<'py, PyAny>)>;

#[pymethods]
impl R1cs {
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(R1cs {
            system: detached(py, || System::load(&path))?,
            plan: OnceLock::new(),
        })
    }

    #[getter]
    fn n_wires(&self) -> usize {
        self.system.n_wires
    }

    #[getter]
    fn n_outputs(&self) -> usize {
        self.system.n_outputs
    }

    #[getter]
    fn n_public(&self) -> usize {
        self.system.n_public
    }

    #[getter]
    fn n_private_inputs(&self) -> usize {
        self.system.n_private_inputs
    }

    #[getter]
    fn n_constraints(&self) -> usize {
        self.system.n_rows
    }

    /// A, B and C of a row as lists of (wire, coefficient).
    fn constraint<'py>(&self, py: Python<'py>, row: usize) -> PyResult<(Row<'py>, Row<'py>, Row<'py>)> {
        if row >= self.system.n_rows {
            let n = self.system.n_rows;
            return Err(Error(format!("constraint {row} of a circuit with {n}")).into());
        }
        let int = py.get_type::<PyInt>();
        let form = |f: Vec<(u32, [u8; 32])>| -> PyResult<Row<'py>> {
            f.into_iter()
                .map(|(w, k)| Ok((w, int.call_method1("from_bytes", (PyBytes::new(py, &k), "little"))?)))
                .collect()
        };
        let [a, b, c] = self.system.constraint(row);
        Ok((form(a)?, form(b)?, form(c)?))
    }

    /// The witness of packed inputs (public, then private, in wire order).  It is solved, not checked.
    fn solve(&self, py: Python<'_>, inputs: &[u8]) -> PyResult<Witness> {
        let wires = detached(py, || {
            let plan = self.plan.get_or_init(|| Plan::new(&self.system));
            let plan = plan.as_ref().map_err(Error::clone)?;
            plan.solve(&self.system, &enc::scalars(inputs)?)
        })?;
        Ok(Witness(wires))
    }

    /// The first row that a witness violates, None if there is none.
    fn check(&self, py: Python<'_>, witness: PyRef<'_, Witness>) -> PyResult<Option<usize>> {
        let wires = &witness.0;
        detached(py, || self.system.violated(&wires.0))
    }

    /// Wires (a byte each, 0 or 1) that the `known` ones determine through rows that are not skipped.
    fn propagate<'py>(&self, py: Python<'py>, known: &[u8], skip_rows: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let mask = detached(py, || propagate(&self.system, known, skip_rows))?;
        Ok(PyBytes::new(py, &mask))
    }
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<R1cs>()
}
