// SPDX-License-Identifier: GPL-3.0-or-later
//! Wire assignments, and the .wtns format, version 2.

use crate::container::{write_atomically, Container, Cursor};
use crate::encoding::{put_scalar_le, scalar_le};
use crate::ensure;
use crate::error::{Error, Result};
use crate::r1cs::{check_modulus, scalar_modulus};
use ark_bn254::Fr;
use ark_ff::Field;
use rayon::prelude::*;
use std::path::Path;
use zeroize::Zeroize;

/// Values of all wires; wire 0 is 1.  Holds secrets: wiped when dropped.
#[derive(Clone)]
pub struct Assignment(pub Vec<Fr>);

impl Drop for Assignment {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Assignment {
    pub fn checked(wires: Vec<Fr>) -> Result<Assignment> {
        ensure!(wires.first() == Some(&Fr::ONE), "the first wire of a witness is 1");
        Ok(Assignment(wires))
    }

    pub fn load(path: &Path) -> Result<Assignment> {
        let file = Container::read(path, b"wtns", 2)?;
        Assignment::parse(&file).map_err(|e| Error(format!("{}: {e}", path.display())))
    }

    fn parse(file: &Container) -> Result<Assignment> {
        let mut h = Cursor::new(file.section(1)?);
        check_modulus(&mut h, &scalar_modulus())?;
        let count = h.u32()? as usize;
        h.end()?;
        let wires = file
            .array(2, count, 32)?
            .par_chunks_exact(32)
            .map(scalar_le)
            .collect::<Result<_>>()?;
        Assignment::checked(wires)
    }

    /// Readable by its owner only.
    pub fn store(&self, path: &Path) -> Result<()> {
        write_atomically(path, 0o600, b"wtns", 2, 2, |w| {
            w.section(1, 40)?;
            w.put(&32u32.to_le_bytes())?;
            w.put(&scalar_modulus())?;
            w.put(&(self.0.len() as u32).to_le_bytes())?;
            w.section(2, 32 * self.0.len() as u64)?;
            let mut bytes = [0u8; 32];
            for x in &self.0 {
                put_scalar_le(x, &mut bytes);
                w.put(&bytes)?;
            }
            bytes.zeroize();
            Ok(())
        })
    }
}
