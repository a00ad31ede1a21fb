// SPDX-License-Identifier: GPL-3.0-or-later
//! `DecoysEngine`: the decoys of one class and table.

use super::engine::integers;
use crate::decoys;
use crate::encoding as enc;
use crate::ensure;
use crate::error::{detached, Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::HashMap;

/// What is drawn, the best others, and the committed hints of each shard.
#[pyclass(frozen, module = "ragseal_native")]
pub struct DecoysEngine(decoys::Decoys);

/// A cumulated mass of 16 big-endian bytes.
fn row(bytes: &[u8]) -> Result<u128> {
    ensure!(bytes.len() == 16, "a row of a table of draws has 16 bytes");
    Ok(u128::from_be_bytes(bytes.try_into().expect("sixteen bytes")))
}

#[pymethods]
impl DecoysEngine {
    #[new]
    fn new(params: HashMap<String, usize>, rows: Vec<Vec<u8>>) -> PyResult<Self> {
        let mut shape = [0; 6];
        for (slot, name) in shape.iter_mut().zip(["N", "draws", "room", "c", "chunks", "S"]) {
            *slot = *params
                .get(name)
                .ok_or_else(|| Error(format!("the class's parameter {name} is missing")))?;
        }
        let rows = rows.iter().map(|one| row(one)).collect::<Result<Vec<_>>>()?;
        Ok(DecoysEngine(decoys::Decoys::new(shape, rows)?))
    }

    /// Of all shards' scores, one shard after the other: returned ids (increasing), their flags, v*, i*, short and over.
    fn answer<'py>(&self, py: Python<'py>, key: &[u8], y: &[u8], lo: i64, k: usize) -> PyResult<Bound<'py, PyDict>> {
        let chosen = detached(py, || self.0.select(enc::scalar(key)?, &integers(y)?, lo, k))?;
        let (ids, flags): (Vec<usize>, Vec<bool>) = chosen.returned.into_iter().unzip();
        let out = PyDict::new(py);
        out.set_item("ids", ids)?;
        out.set_item("flags", flags)?;
        out.set_item("v", chosen.threshold)?;
        out.set_item("i_star", chosen.threshold_slot)?;
        out.set_item("short", chosen.short)?;
        out.set_item("over", chosen.over)?;
        Ok(out)
    }

    /// The hint vector of every shard, packed.
    fn hints<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        y: &[u8],
        lo: i64,
        k: usize,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let packed = detached(py, || {
            let (y, key) = (integers(y)?, enc::scalar(key)?);
            let chosen = self.0.select(key, &y, lo, k)?;
            (0..chosen.shards())
                .map(|shard| Ok(enc::scalars_bytes(&self.0.hints(&chosen, &y, shard)?)))
                .collect::<Result<Vec<_>>>()
        })?;
        Ok(packed.iter().map(|one| PyBytes::new(py, one)).collect())
    }
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<DecoysEngine>()
}
