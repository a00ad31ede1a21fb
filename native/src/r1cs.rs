// SPDX-License-Identifier: GPL-3.0-or-later
//! Constraint systems in the iden3 .r1cs format, version 1.

use crate::container::{Container, Cursor};
use crate::encoding::put_scalar_le;
use crate::ensure;
use crate::error::{Error, Result};
use crate::linear::{Coefficients, Forms};
use ark_bn254::Fr;
use ark_ff::{BigInteger, PrimeField};
use rayon::prelude::*;
use std::path::Path;

const MAX_WIRES: u32 = 1 << 28;
const MAX_ROWS: u32 = 1 << 27;

/// A * B = C for every row; wire 0 is 1, then come public outputs, public inputs, private inputs.
pub struct R1cs {
    pub n_wires: usize,
    pub n_outputs: usize,
    /// Public outputs and public inputs.
    pub n_public: usize,
    pub n_private_inputs: usize,
    pub n_rows: usize,
    pub a: Forms,
    pub b: Forms,
    pub c: Forms,
    pub values: Vec<Fr>,
}

/// Field size and modulus of a header.
pub fn check_modulus(c: &mut Cursor, modulus: &[u8]) -> Result<()> {
    ensure!(c.u32()? == 32, "field elements do not have 32 bytes");
    ensure!(c.take(32)? == modulus, "the field is not BN254's");
    Ok(())
}

pub fn scalar_modulus() -> Vec<u8> {
    Fr::MODULUS.to_bytes_le()
}

impl R1cs {
    pub fn load(path: &Path) -> Result<R1cs> {
        let file = Container::read(path, b"r1cs", 1)?;
        R1cs::parse(&file).map_err(|e| Error(format!("{}: {e}", path.display())))
    }

    fn parse(file: &Container) -> Result<R1cs> {
        let mut h = Cursor::new(file.section(1)?);
        check_modulus(&mut h, &scalar_modulus())?;
        let (wires, outputs, public, private) = (h.u32()?, h.u32()?, h.u32()?, h.u32()?);
        h.u64()?; // labels: names of signals, of no use here
        let rows = h.u32()?;
        h.end()?;
        ensure!((1..=MAX_WIRES).contains(&wires), "{wires} wires");
        ensure!(rows <= MAX_ROWS, "{rows} constraints are too many");
        let inputs = u64::from(outputs) + u64::from(public) + u64::from(private);
        ensure!(inputs < u64::from(wires), "more inputs than wires");
        for kind in [4, 5] {
            let custom = file.find(kind).unwrap_or(&[]);
            ensure!(custom.iter().all(|&b| b == 0), "custom gates are not supported");
        }
        let body = file.section(2)?;
        ensure!(
            body.len() as u64 >= 12 * u64::from(rows),
            "the constraints are truncated"
        );
        ensure!(body.len() < 36 << 32, "too many coefficients");
        let mut cursor = Cursor::new(body);
        let mut numbers = Coefficients::default();
        let mut forms = [Forms::default(), Forms::default(), Forms::default()];
        for f in &mut forms {
            f.starts.reserve(rows as usize + 1);
            f.starts.push(0);
        }
        let mut seen: Vec<u32> = Vec::new();
        for row in 0..rows {
            for f in &mut forms {
                let n = cursor.u32()? as usize;
                let entries = cursor.take(n.saturating_mul(36))?;
                seen.clear();
                for entry in entries.chunks_exact(36) {
                    let wire = u32::from_le_bytes(entry[..4].try_into().expect("four bytes"));
                    ensure!(wire < wires, "constraint {row} uses wire {wire} of {wires}");
                    let bytes: &[u8; 32] = entry[4..].try_into().expect("32 bytes");
                    if let Some(k) = numbers.canonical(bytes)? {
                        f.wires.push(wire);
                        f.coefs.push(k);
                        seen.push(wire);
                    }
                }
                seen.sort_unstable();
                ensure!(
                    seen.windows(2).all(|w| w[0] != w[1]),
                    "constraint {row} names a wire twice in one form"
                );
                f.starts.push(f.wires.len() as u32);
            }
        }
        cursor.end()?;
        let [a, b, c] = forms;
        Ok(R1cs {
            n_wires: wires as usize,
            n_outputs: outputs as usize,
            n_public: (outputs + public) as usize,
            n_private_inputs: private as usize,
            n_rows: rows as usize,
            a,
            b,
            c,
            values: numbers.into_values(),
        })
    }

    /// Wires that a caller gives: public inputs, then private ones.
    pub fn inputs(&self) -> std::ops::Range<usize> {
        1 + self.n_outputs..1 + self.n_public + self.n_private_inputs
    }

    /// First row that an assignment violates.
    pub fn violated(&self, wires: &[Fr]) -> Result<Option<usize>> {
        ensure!(
            wires.len() == self.n_wires,
            "the witness has {} wires, the circuit {}",
            wires.len(),
            self.n_wires
        );
        Ok((0..self.n_rows).into_par_iter().with_min_len(512).find_first(|&row| {
            let at = |f: &Forms| f.eval(row, &self.values, wires);
            at(&self.a) * at(&self.b) != at(&self.c)
        }))
    }

    /// Size of the Groth16 domain: one more row for the constant and each of the first `kept` public inputs.
    pub fn domain(&self, kept: usize) -> usize {
        (self.n_rows + kept + 1).next_power_of_two()
    }

    /// The three forms of a row as (wire, canonical little-endian coefficient).
    pub fn constraint(&self, row: usize) -> [Vec<(u32, [u8; 32])>; 3] {
        [&self.a, &self.b, &self.c].map(|f| {
            f.row(row)
                .map(|(w, k)| {
                    let mut bytes = [0u8; 32];
                    put_scalar_le(&self.values[k as usize], &mut bytes);
                    (w, bytes)
                })
                .collect()
        })
    }
}
