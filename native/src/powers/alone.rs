// SPDX-License-Identifier: GPL-3.0-or-later
//! A first phase by one party: a .ptau file, prepared, of secrets that nobody keeps.

use super::file::*;
use crate::container::{write_atomically, Writer};
use crate::encoding::{put_g1_raw, put_g2_raw, G1_BYTES, G2_BYTES};
use crate::ensure;
use crate::error::Result;
use crate::fixed_base::FixedBase;
use crate::scalars;
use crate::setup::{lagrange, root_of_unity};
use crate::zkey::base_modulus;
use ark_bn254::{g1, g2, Fr, G1Projective, G2Projective};
use ark_ec::PrimeGroup;
use ark_ff::{AdditiveGroup, Field, PrimeField};
use sha2::{Digest, Sha512};
use std::path::Path;
use zeroize::{Zeroize, Zeroizing};

const CONTRIBUTIONS: u32 = 7;
const SECTIONS: u32 = 11;
/// 2^21 rows are eight times those of the largest class; such a file has 5 GB.
const MAX_POWER_ALONE: u32 = 21;

fn draw(entropy: Option<&[u8]>) -> Result<Zeroizing<Vec<Fr>>> {
    let secrets = Zeroizing::new(match entropy {
        None => scalars::random(3)?,
        Some(seed) => (0u8..3)
            .map(|i| {
                let digest = Sha512::new()
                    .chain_update(b"ragseal/powers/toxic")
                    .chain_update([i])
                    .chain_update(seed)
                    .finalize();
                Fr::from_be_bytes_mod_order(&digest)
            })
            .collect(),
    });
    ensure!(
        secrets.iter().all(|x| *x != Fr::ZERO && *x != Fr::ONE),
        "the random source returned 0 or 1"
    );
    Ok(secrets)
}

struct Tables {
    one: FixedBase<g1::Config>,
    two: FixedBase<g2::Config>,
}

impl Tables {
    fn put(&self, w: &mut Writer, kind: u32, scalars: &[Fr]) -> Result<()> {
        // Some megabytes of points at a time.
        for part in scalars.chunks(1 << 15) {
            let bytes = if size_of_point(kind) == G1_BYTES {
                let mut bytes = vec![0u8; part.len() * G1_BYTES];
                let points = self.one.multiply(part);
                points
                    .iter()
                    .zip(bytes.chunks_exact_mut(G1_BYTES))
                    .for_each(|(p, out)| put_g1_raw(p, out));
                bytes
            } else {
                let mut bytes = vec![0u8; part.len() * G2_BYTES];
                let points = self.two.multiply(part);
                points
                    .iter()
                    .zip(bytes.chunks_exact_mut(G2_BYTES))
                    .for_each(|(p, out)| put_g2_raw(p, out));
                bytes
            };
            w.put(&bytes)?;
        }
        Ok(())
    }
}

/// Powers for circuits of up to 2^power rows, prepared for phase 2 as snarkjs does it, without a list of contributions.
/// With `entropy` the file is reproducible, and whoever knows it forges: for tests.
pub fn make_powers(path: &Path, power: u32, entropy: Option<&[u8]>) -> Result<()> {
    ensure!(
        (1..=MAX_POWER_ALONE).contains(&power),
        "powers for 2^{power} rows where 2^1 to 2^{MAX_POWER_ALONE} can be made"
    );
    let secrets = draw(entropy)?;
    let (tau, alpha, beta) = (secrets[0], secrets[1], secrets[2]);
    let n = 1usize << power;
    ensure!(
        tau.pow([2 * n as u64]) != Fr::ONE,
        "the random source returned a root of unity"
    );
    let powers = |count: usize, factor: Fr| -> Zeroizing<Vec<Fr>> {
        let mut list = Zeroizing::new(scalars::powers(tau, count));
        list.iter_mut().for_each(|x| *x *= factor);
        list
    };
    // snarkjs counts tau^(2n - 1), which the file does not have, as 0.
    let basis = |p: u32, factor: Fr| -> Zeroizing<Vec<Fr>> {
        let size = 1usize << p;
        let root = root_of_unity(size);
        let mut list = lagrange(tau, Fr::ONE, root, size, size as u64, factor);
        if p > power {
            let mut missing = tau.pow([2 * n as u64 - 1]) * Fr::from(size as u64).inverse().expect("not zero");
            for x in list.iter_mut() {
                *x -= missing;
                missing *= root;
            }
            missing.zeroize();
        }
        list
    };
    let tables = Tables {
        one: FixedBase::new(G1Projective::generator(), 4 * n),
        two: FixedBase::new(G2Projective::generator(), 2 * n),
    };
    write_atomically(path, 0o644, b"ptau", 1, SECTIONS, |w| {
        w.section(HEADER, HEADER_BYTES)?;
        w.put(&32u32.to_le_bytes())?;
        w.put(&base_modulus())?;
        w.put(&power.to_le_bytes())?;
        w.put(&power.to_le_bytes())?;
        for (kind, factor) in [
            (TAU_1, Fr::ONE),
            (TAU_2, Fr::ONE),
            (ALPHA_TAU_1, alpha),
            (BETA_TAU_1, beta),
            (BETA_2, beta),
        ] {
            let count = points_of(kind, n);
            w.section(kind, (count * size_of_point(kind)) as u64)?;
            tables.put(w, kind, &powers(count, factor))?;
        }
        w.section(CONTRIBUTIONS, 4)?;
        w.put(&0u32.to_le_bytes())?;
        for (kind, factor) in [
            (LAGRANGE_TAU_1, Fr::ONE),
            (LAGRANGE_TAU_2, Fr::ONE),
            (LAGRANGE_ALPHA_TAU_1, alpha),
            (LAGRANGE_BETA_TAU_1, beta),
        ] {
            w.section(kind, (points_of(kind, n) * size_of_point(kind)) as u64)?;
            for p in 0..=power + u32::from(kind == LAGRANGE_TAU_1) {
                tables.put(w, kind, &basis(p, factor))?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::powers::Powers;

    #[test]
    fn what_is_made_passes_its_own_check() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made.ptau");
        make_powers(&path, 5, None).unwrap();
        for domain in [2, 8, 32] {
            Powers::load(&path, domain).unwrap().bases(domain).unwrap();
        }
        assert!(Powers::load(&path, 64).is_err());
    }
}
