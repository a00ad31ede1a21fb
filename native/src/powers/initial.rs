// SPDX-License-Identifier: GPL-3.0-or-later
//! The key that a ceremony's second phase begins with: gamma = delta = 1, all else from the powers of tau.
//!
//! Point for point it is what `snarkjs groth16 setup` makes of the circuit with only the kept wires declared public,
//! once the other public wires are moved from C to IC: at gamma = delta = 1 both hold the same points.

use super::check::{one_1, one_2};
use super::combine::Columns;
use super::lagrange::domain_of_key;
use super::Powers;
use crate::curve::G1;
use crate::ensure;
use crate::error::{Error, Result};
use crate::linear::{Forms, ONE};
use crate::r1cs::R1cs;
use crate::verify::VerifyingKey;
use crate::zkey::{write, KeyParts};
use ark_bn254::{g1, g2};
use sha2::{Digest, Sha512};
use std::path::Path;

/// A matrix as (wire, row + shift, number of the coefficient).
fn terms(forms: &Forms, rows: usize, shift: usize) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
    (0..rows).flat_map(move |row| forms.row(row).map(move |(wire, k)| (wire, (row + shift) as u32, k)))
}

impl Powers {
    /// Make the initial key of a circuit and write it.  It proves anything until somebody contributes: gamma = delta.
    ///
    /// `kept`: the first public wires, which get a row of their own in A beside the constant.
    pub fn initial_key(&self, r1cs: &Path, kept: usize, zkey: &Path) -> Result<()> {
        let system = R1cs::load(r1cs)?;
        let n = domain_of_key(&system, kept)?;
        ensure!(
            n <= self.domain,
            "{}: the circuit needs powers for {n} rows and they were read for {}: read them for more",
            r1cs.display(),
            self.domain
        );
        let (rows, wires, values) = (system.n_rows, system.n_wires, &system.values);
        let bases = self.bases(n)?;
        let own = move |shift: usize| (0..=kept).map(move |s| (s as u32, (rows + s + shift) as u32, ONE));
        let of_a = Columns::new(wires, n, || terms(&system.a, rows, 0).chain(own(0)));
        let of_b = Columns::new(wires, n, || terms(&system.b, rows, 0));
        // beta A + alpha B + C over the three bases in one list.
        let of_k = Columns::new(wires, 3 * n, || {
            terms(&system.a, rows, 2 * n)
                .chain(own(2 * n))
                .chain(terms(&system.b, rows, n))
                .chain(terms(&system.c, rows, 0))
        });
        let all: Vec<G1> = [&bases.tau1, &bases.alpha1, &bases.beta1]
            .into_iter()
            .flatten()
            .copied()
            .collect();
        let a = of_a.combine::<g1::Config>(&bases.tau1, values);
        let b1 = of_b.combine::<g1::Config>(&bases.tau1, values);
        let b2 = of_b.combine::<g2::Config>(&bases.tau2, values);
        let k = of_k.combine::<g1::Config>(&all, values);
        let (ic, c) = k.split_at(system.n_public + 1);
        let key = VerifyingKey::initial(self.alpha1[0], self.beta2, ic.to_vec())
            .map_err(|e| Error(format!("{}: {e}", r1cs.display())))?;
        let n_coefs = system.a.wires.len() + system.b.wires.len() + kept + 1;
        let mut coefs = (0u32..)
            .zip([&system.a, &system.b])
            .flat_map(|(matrix, forms)| terms(forms, rows, 0).map(move |(wire, row, k)| (matrix, row, wire, k)))
            .chain(own(0).map(|(wire, row, k)| (0, row, wire, k)))
            .map(|(matrix, row, wire, k)| (matrix, row, wire, values[k as usize]));
        write(
            zkey,
            KeyParts {
                key: &key,
                beta1: self.beta1[0],
                delta1: one_1(),
                n_vars: wires,
                domain: n,
                coefs: &mut coefs,
                n_coefs: u32::try_from(n_coefs).map_err(|_| Error("too many coefficients".into()))?,
                a: &a,
                b1: &b1,
                b2: &b2,
                c,
                h: &bases.odd,
                circuit_hash: Sha512::digest(std::fs::read(r1cs)?).into(),
            },
        )
    }
}

impl VerifyingKey {
    /// Before the first contribution: gamma = delta = 1.  Such a key proves anything, and nothing reads one.
    fn initial(alpha1: G1, beta2: crate::curve::G2, ic: Vec<G1>) -> Result<VerifyingKey> {
        VerifyingKey::proper(alpha1, beta2, one_2(), one_2(), ic)
    }
}
