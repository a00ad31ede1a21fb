// SPDX-License-Identifier: GPL-3.0-or-later
//! The Python surface: argument decoding only, all work without the GIL.

mod circuit;
mod decoys;
mod engine;
mod groth16;
mod group;
mod pairing;
mod powers;

use crate::error::NativeError;
use pyo3::prelude::*;

/// BN254 Groth16, circom witnesses and the answer engine of ragseal.
#[pymodule]
fn ragseal_native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("NativeError", m.py().get_type::<NativeError>())?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    engine::register(m)?;
    decoys::register(m)?;
    circuit::register(m)?;
    groth16::register(m)?;
    group::register(m)?;
    pairing::register(m)?;
    powers::register(m)
}
