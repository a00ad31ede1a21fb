// SPDX-License-Identifier: GPL-3.0-or-later
//! Range-checked values as the chunks that a circuit looks up, and how often it looks each of them up.

use crate::ensure;
use crate::error::Result;
use ark_bn254::Fr;

/// An integer as a field element.
pub fn signed(x: i128) -> Fr {
    if x < 0 {
        -Fr::from(x.unsigned_abs())
    } else {
        Fr::from(x.unsigned_abs())
    }
}

/// Chunks of range-checked values, with a count of every look-up.
pub struct Ranges {
    c: usize,
    /// How often each chunk has been looked up.
    pub seen: Vec<u64>,
}

impl Ranges {
    /// For chunks of `c` bits.
    pub fn new(c: usize) -> Ranges {
        Ranges {
            c,
            seen: vec![0; 1 << c],
        }
    }

    /// One chunk.
    pub fn look(&mut self, chunk: u128) -> Result<u64> {
        ensure!(
            chunk < 1 << self.c,
            "policy overflow: a chunk is out of range, the policy does not fit its circuit class"
        );
        self.seen[chunk as usize] += 1;
        Ok(chunk as u64)
    }

    /// All chunks of a value in [0, 2^(c count)); the committed ones (all but the highest) go to `out`.
    pub fn low(&mut self, value: i128, count: usize, out: &mut Vec<Fr>) -> Result<()> {
        ensure!(
            value >= 0 && (self.c * count >= 127 || value < 1i128 << (self.c * count)),
            "policy overflow: a comparison is out of range, the policy does not fit its circuit class"
        );
        self.low_unsigned(value as u128, count, out)
    }

    pub fn low_unsigned(&mut self, value: u128, count: usize, out: &mut Vec<Fr>) -> Result<()> {
        for j in 0..count {
            let chunk = if self.c * j >= 128 { 0 } else { value >> (self.c * j) };
            let chunk = if j + 1 < count {
                chunk & ((1 << self.c) - 1)
            } else {
                chunk
            };
            let looked = self.look(chunk)?;
            if j + 1 < count {
                out.push(Fr::from(looked));
            }
        }
        Ok(())
    }

    /// Chunks of a value in [0, 2^width) exactly; a narrow highest chunk is looked up scaled as well.
    pub fn exact(&mut self, value: u128, width: usize, out: &mut Vec<Fr>) -> Result<()> {
        let count = width.div_ceil(self.c);
        let narrow = width - self.c * (count - 1);
        for j in 0..count {
            let chunk = value >> (self.c * j);
            let chunk = if j + 1 < count {
                chunk & ((1 << self.c) - 1)
            } else {
                chunk
            };
            out.push(Fr::from(self.look(chunk)?));
            if j + 1 == count && narrow < self.c {
                self.look(chunk << (self.c - narrow))?;
            }
        }
        Ok(())
    }
}
