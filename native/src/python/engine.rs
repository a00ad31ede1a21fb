// SPDX-License-Identifier: GPL-3.0-or-later
//! Engines: the mechanism of one circuit class.

use crate::curve::G1;
use crate::encoding as enc;
use crate::ensure;
use crate::error::{detached, Error, Result};
use crate::noise;
use crate::scores;
use ark_bn254::Fr;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::HashMap;

pub(super) fn integers(bytes: &[u8]) -> Result<Vec<i64>> {
    ensure!(bytes.len() % 8 == 0, "scores are little-endian int64");
    Ok(bytes
        .chunks_exact(8)
        .map(|b| i64::from_le_bytes(b.try_into().expect("eight bytes")))
        .collect())
}

/// The class's parameters of these names.
pub(super) fn shape<const M: usize>(params: &HashMap<String, usize>, names: [&str; M]) -> Result<[usize; M]> {
    let mut found = [0; M];
    for (slot, name) in found.iter_mut().zip(names) {
        *slot = *params
            .get(name)
            .ok_or_else(|| Error(format!("the class's parameter {name} is missing")))?;
    }
    Ok(found)
}

/// Cumulative counts, 16 big-endian bytes each.
pub(super) fn counts(packed: &[Vec<u8>]) -> Result<Vec<u128>> {
    let narrow = |b: &Vec<u8>| <[u8; 16]>::try_from(b.as_slice()).map(u128::from_be_bytes);
    let found: std::result::Result<Vec<u128>, _> = packed.iter().map(narrow).collect();
    found.map_err(|_| Error("a cumulative count has 16 bytes".into()))
}

/// T with flags, and the threshold (v*, i*).
pub(super) fn selection<S>(
    py: Python<'_>,
    returned: Vec<(usize, bool)>,
    (v, slot): (i64, S),
) -> PyResult<Bound<'_, PyDict>>
where
    S: for<'py> IntoPyObject<'py>,
{
    let (ids, flags): (Vec<usize>, Vec<bool>) = returned.into_iter().unzip();
    let out = PyDict::new(py);
    out.set_item("ids", ids)?;
    out.set_item("flags", flags)?;
    out.set_item("v", v)?;
    out.set_item("i_star", slot)?;
    Ok(out)
}

/// T with flags and scores, and C_y, as [`scores::respond`] found them.
pub(super) fn response(
    py: Python<'_>,
    (returned, c_y): (Vec<(usize, bool, i64)>, Vec<G1>),
) -> PyResult<Bound<'_, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("ids", returned.iter().map(|one| one.0).collect::<Vec<_>>())?;
    out.set_item("flags", returned.iter().map(|one| one.1).collect::<Vec<_>>())?;
    out.set_item("scores", returned.iter().map(|one| one.2).collect::<Vec<_>>())?;
    let c_y: Vec<u8> = c_y.iter().flat_map(enc::g1_bytes).collect();
    out.set_item("c_y", PyBytes::new(py, &c_y))?;
    Ok(out)
}

pub(super) fn committers(columns: &[Py<Committer>]) -> Vec<&scores::Committer> {
    columns.iter().map(|one| &one.get().0).collect()
}

pub(super) fn scalars(packed: &[Vec<u8>]) -> Result<Vec<Fr>> {
    packed.iter().map(|one| enc::scalar(one)).collect()
}

/// The mechanism with noise of one class: noise by rank, one threshold for all shards, and the committed hints of each.
#[pyclass(frozen, module = "ragseal_native")]
pub struct NoiseEngine(noise::Noise);

#[pymethods]
impl NoiseEngine {
    #[new]
    fn new(params: HashMap<String, usize>, bounds: Vec<i64>, cdf: Vec<Vec<u8>>, grid: usize) -> PyResult<Self> {
        let shape = shape(&params, ["N", "K", "R", "m", "q", "c", "bits", "S"])?;
        Ok(NoiseEngine(noise::Noise::new(shape, bounds, counts(&cdf)?, grid)?))
    }

    /// Of all shards' scores, one shard after the other: the K winners (increasing ids), their flags, v* and i*.
    fn answer<'py>(&self, py: Python<'py>, key: &[u8], w: &[u8], steps: i64) -> PyResult<Bound<'py, PyDict>> {
        let found = detached(py, || self.0.select(enc::scalar(key)?, &integers(w)?, steps))?;
        selection(py, found.returned, (found.threshold, found.threshold_slot))
    }

    /// Of one query: the K winners (increasing ids), their flags and scores, and C_y of every shard.
    #[allow(clippy::too_many_arguments)]
    fn respond<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        index: &ScoreMatrix,
        columns: Vec<Py<Committer>>,
        e: &[u8],
        line: (i64, i64),
        steps: i64,
        rhos: Vec<Vec<u8>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (key, columns, rhos) = (enc::scalar(key)?, committers(&columns), scalars(&rhos)?);
        let found = detached(py, || {
            scores::respond(
                &index.0,
                &columns,
                e,
                &rhos,
                || (),
                |(), y| {
                    let w = scores::shifted(y, line)?;
                    let returned = self.0.select(key, &w, steps)?.returned;
                    Ok(returned.into_iter().map(|(id, flag)| (id, flag, w[id])).collect())
                },
            )
        })?;
        response(py, found)
    }

    /// One shard's hint vector, packed.  `place`: its number and how many there are.  `threshold`: v*, i*.
    #[allow(clippy::too_many_arguments)]
    fn hints<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        w: &[u8],
        steps: i64,
        place: (usize, usize),
        threshold: (i64, i64),
        returned: Vec<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let whole = noise::Whole {
            shard: place.0,
            shards: place.1,
            threshold: threshold.0,
            threshold_slot: threshold.1,
            returned,
        };
        let packed = detached(py, || {
            let hints = self.0.hints(enc::scalar(key)?, &integers(w)?, steps, &whole)?;
            Ok(enc::scalars_bytes(&hints))
        })?;
        Ok(PyBytes::new(py, &packed))
    }
}

/// A buffer of Python's.
struct Shared(PyBuffer<u8>);

impl scores::Entries for Shared {
    fn entries(&self) -> &[i8] {
        if self.0.len_bytes() == 0 {
            return &[]; // of which Python need not name a place
        }
        // SAFETY: the buffer is contiguous and stays where it is as long as it is held, which is as long as this borrow; it was
        // exported for reading only.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

/// A row-major int8 matrix whose products with a vector are exact.
#[pyclass(frozen, module = "ragseal_native")]
pub struct ScoreMatrix(pub(super) scores::ScoreMatrix);

#[pymethods]
impl ScoreMatrix {
    /// Reads the buffer as long as it lives, and keeps its owner alive.
    #[new]
    fn new(matrix: PyBuffer<u8>, d: usize) -> PyResult<Self> {
        if !matrix.readonly() || !matrix.is_c_contiguous() {
            return Err(Error("a matrix is a contiguous buffer that nobody writes to".into()).into());
        }
        Ok(ScoreMatrix(scores::ScoreMatrix::new(Box::new(Shared(matrix)), d)?))
    }

    /// <row, e> for every row, as little-endian int32.
    fn scores<'py>(&self, py: Python<'py>, e: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let packed: Vec<u8> = detached(py, || {
            Ok(self.0.scores(e)?.iter().flat_map(|y| y.to_le_bytes()).collect())
        })?;
        Ok(PyBytes::new(py, &packed))
    }
}

/// sum_j e_j C_j + rho B for columns that are checked once.
#[pyclass(frozen, module = "ragseal_native")]
pub struct Committer(scores::Committer);

#[pymethods]
impl Committer {
    #[new]
    fn new(py: Python<'_>, columns: &[u8], b: &[u8]) -> PyResult<Self> {
        Ok(Committer(detached(py, || {
            Ok(scores::Committer::new(enc::g1s_proper(columns)?, &enc::g1_proper(b)?))
        })?))
    }

    /// C_y for int8 entries of e.
    fn commit<'py>(&self, py: Python<'py>, e: &[u8], rho: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let point = detached(py, || Ok(enc::g1_bytes(&self.0.commit(e, &enc::scalar(rho)?)?)))?;
        Ok(PyBytes::new(py, &point))
    }
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<ScoreMatrix>()?;
    m.add_class::<Committer>()?;
    m.add_class::<NoiseEngine>()
}
