// SPDX-License-Identifier: GPL-3.0-or-later
//! `DecoysEngine`: the decoys of one class and table.

use super::engine::{committers, counts, integers, response, scalars, selection, shape, Committer, ScoreMatrix};
use crate::decoys;
use crate::encoding as enc;
use crate::error::{detached, Error, Result};
use crate::scores;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::HashMap;

/// What is drawn, the best others, and what the proof of each shard opens.
#[pyclass(frozen, module = "ragseal_native")]
pub struct DecoysEngine(decoys::Decoys);

#[pymethods]
impl DecoysEngine {
    #[new]
    fn new(params: HashMap<String, usize>, rows: Vec<Vec<u8>>) -> PyResult<Self> {
        let shape = shape(&params, ["N", "draws", "room", "c", "chunks", "S"])?;
        Ok(DecoysEngine(decoys::Decoys::new(shape, counts(&rows)?)?))
    }

    /// Of all shards' scores, one shard after the other: returned ids (increasing), their flags, v*, i*, short and over.
    fn answer<'py>(&self, py: Python<'py>, key: &[u8], y: &[u8], lo: i64, k: usize) -> PyResult<Bound<'py, PyDict>> {
        let (chosen, threshold) = detached(py, || {
            let y = scores_of(y)?;
            let chosen = self.select(key, &y, lo, k)?;
            let threshold = self.0.threshold(&chosen, &y);
            Ok((chosen, threshold))
        })?;
        let out = selection(py, chosen.returned, threshold)?;
        out.set_item("short", chosen.short)?;
        out.set_item("over", chosen.over)?;
        Ok(out)
    }

    /// Of one query: returned ids (increasing), their flags and scores, and C_y of every shard.
    #[allow(clippy::too_many_arguments)]
    fn respond<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        index: &ScoreMatrix,
        columns: Vec<Py<Committer>>,
        e: &[u8],
        lo: i64,
        k: usize,
        rhos: Vec<Vec<u8>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (key, columns, rhos) = (enc::scalar(key)?, committers(&columns), scalars(&rhos)?);
        let found = detached(py, || {
            let draw = || self.0.draw(key, columns.len());
            scores::respond(&index.0, &columns, e, &rhos, draw, |draws, y| {
                let returned = self.0.select(draws?, y, lo, k)?.returned;
                Ok(returned
                    .into_iter()
                    .map(|(id, flag)| (id, flag, i64::from(y[id])))
                    .collect())
            })
        })?;
        response(py, found)
    }

    /// What one shard's proof opens: m_0 .. m_(N-1), b_1 .. b_N and hints, packed, and the number of its ids.
    #[allow(clippy::type_complexity)]
    fn assignment<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        y: &[u8],
        lo: i64,
        k: usize,
        shard: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, usize)> {
        let (packed, count) = detached(py, || {
            let y = scores_of(y)?;
            let made = self.0.assign(&self.select(key, &y, lo, k)?, &y, shard)?;
            let packed = [made.members, made.behind, made.hints].map(|one| enc::scalars_bytes(&one));
            Ok((packed, made.count))
        })?;
        let [members, behind, hints] = packed.map(|one| PyBytes::new(py, &one));
        Ok((members, behind, hints, count))
    }
}

impl DecoysEngine {
    fn select(&self, key: &[u8], y: &[i32], lo: i64, k: usize) -> Result<decoys::Selection> {
        let n = self.0.slots();
        self.0
            .select(self.0.draw(enc::scalar(key)?, y.len().div_ceil(n))?, y, lo, k)
    }
}

/// Scores, which are products of int8 vectors.
fn scores_of(bytes: &[u8]) -> Result<Vec<i32>> {
    let narrow: std::result::Result<Vec<i32>, _> = integers(bytes)?.into_iter().map(i32::try_from).collect();
    narrow.map_err(|_| Error("a score is out of range".into()))
}

/// Wires x and z of a shard with scores y, packed, from what `assignment` gives.  `chunks`: c, and chunks of a distance.
#[pyfunction]
fn decoys_wires<'py>(
    py: Python<'py>,
    chunks: (usize, usize),
    y: &[u8],
    members: &[u8],
    behind: &[u8],
    hints: &[u8],
    beta: &[u8],
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let packed = detached(py, || {
        let opened = [enc::scalars(members)?, enc::scalars(behind)?, enc::scalars(hints)?];
        let opened = opened.each_ref().map(Vec::as_slice);
        let made = decoys::wires(chunks, &scores_of(y)?, opened, enc::scalar(beta)?)?;
        Ok(made.map(|one| enc::scalars_bytes(&one)))
    })?;
    let [x, z] = packed.map(|one| PyBytes::new(py, &one));
    Ok((x, z))
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(decoys_wires, m)?)?;
    m.add_class::<DecoysEngine>()
}
