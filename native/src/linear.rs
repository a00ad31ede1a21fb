// SPDX-License-Identifier: GPL-3.0-or-later
//! Sparse linear forms over wires, with shared coefficients: nearly all of them are 1 or -1.

use crate::encoding::scalar_le;
use crate::error::Result;
use ark_bn254::Fr;
use ark_ff::{AdditiveGroup, Field};
use std::collections::HashMap;

pub const ONE: u32 = 0;
pub const MINUS_ONE: u32 = 1;

/// Distinct coefficients; 0 is 1 and 1 is -1.
pub struct Coefficients {
    values: Vec<Fr>,
    index: HashMap<[u8; 32], u32>,
    last: Option<([u8; 32], u32)>,
}

impl Default for Coefficients {
    fn default() -> Self {
        let mut one = [0u8; 32];
        one[0] = 1;
        let mut index = HashMap::new();
        index.insert(one, ONE);
        Coefficients {
            values: vec![Fr::ONE, -Fr::ONE],
            index,
            last: None,
        }
    }
}

impl Coefficients {
    /// The number of a coefficient given as 32 little-endian bytes, None for zero.
    /// `decode` turns bytes into a value; one instance must be used with one `decode` only.
    pub fn number(&mut self, bytes: &[u8; 32], decode: impl Fn(&[u8]) -> Result<Fr>) -> Result<Option<u32>> {
        if let Some((_, k)) = self.last.filter(|(b, _)| b == bytes) {
            return Ok(Some(k));
        }
        if let Some(&k) = self.index.get(bytes) {
            self.last = Some((*bytes, k));
            return Ok(Some(k));
        }
        let value = decode(bytes)?;
        if value == Fr::ZERO {
            return Ok(None);
        }
        let k = if value == -Fr::ONE {
            MINUS_ONE
        } else if value == Fr::ONE {
            ONE
        } else {
            self.values.push(value);
            self.values.len() as u32 - 1
        };
        self.index.insert(*bytes, k);
        self.last = Some((*bytes, k));
        Ok(Some(k))
    }

    /// As [`Coefficients::number`] for canonical bytes.
    pub fn canonical(&mut self, bytes: &[u8; 32]) -> Result<Option<u32>> {
        self.number(bytes, scalar_le)
    }

    /// For encodings in which 1 is written otherwise.
    pub fn foreign() -> Self {
        let mut c = Coefficients::default();
        c.index.clear();
        c
    }

    pub fn into_values(self) -> Vec<Fr> {
        self.values
    }
}

/// Rows of (wire, coefficient number).
#[derive(Default)]
pub struct Forms {
    pub starts: Vec<u32>,
    pub wires: Vec<u32>,
    pub coefs: Vec<u32>,
}

impl Forms {
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        let range = self.starts[row] as usize..self.starts[row + 1] as usize;
        self.wires[range.clone()]
            .iter()
            .copied()
            .zip(self.coefs[range].iter().copied())
    }

    /// Value of a row's form at a wire assignment.
    #[inline]
    pub fn eval(&self, row: usize, values: &[Fr], wires: &[Fr]) -> Fr {
        let mut sum = Fr::ZERO;
        for (w, k) in self.row(row) {
            let x = wires[w as usize];
            match k {
                ONE => sum += x,
                MINUS_ONE => sum -= x,
                _ => sum += values[k as usize] * x,
            }
        }
        sum
    }
}
