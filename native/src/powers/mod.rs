// SPDX-License-Identifier: GPL-3.0-or-later
//! Powers of tau (snarkjs' .ptau files): what a Groth16 key of any circuit can be made of, and checked against.

mod alone;
mod check;
mod combine;
mod contribution;
mod file;
mod initial;
mod key;
mod lagrange;

pub use alone::make_powers;
pub use contribution::contribute;

use crate::curve::{G1, G2};
use crate::ensure;
use crate::error::{Error, Result};
use file::{PtauFile, ALPHA_TAU_1, BETA_2, BETA_TAU_1, TAU_1, TAU_2};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Powers up to a domain, checked: they are those of one tau, alpha and beta.
pub struct Powers {
    /// The largest domain that they serve.
    domain: usize,
    /// tau^i, i < 2 domain; the last one is missing where the file has no more.
    tau1: Vec<G1>,
    /// alpha tau^i and beta tau^i, i < domain.
    alpha1: Vec<G1>,
    beta1: Vec<G1>,
    tau2: G2,
    beta2: G2,
    file: PtauFile,
    path: PathBuf,
}

impl Powers {
    /// Read what circuits of up to `domain` rows need, and check it.  The rest of the file is not looked at, save for the
    /// sizes of its sections: a large file costs no more than a small one.
    pub fn load(path: &Path, domain: usize) -> Result<Powers> {
        Powers::read(path, domain).map_err(|e| Error(format!("{}: {e}", path.display())))
    }

    fn read(path: &Path, domain: usize) -> Result<Powers> {
        ensure!(
            domain.is_power_of_two() && (2..=1 << 27).contains(&domain),
            "a domain of {domain} where a power of two from 2 to 2^27 is needed"
        );
        let file = PtauFile::open(path)?;
        ensure!(
            file.domain() >= domain,
            "the file serves circuits of up to 2^{} rows and 2^{} are needed: take a larger file of the same ceremony",
            file.domain().trailing_zeros(),
            domain.trailing_zeros()
        );
        let count = (2 * domain).min(file.points(TAU_1));
        let two = file.g2(TAU_2, 0, 2)?;
        let powers = Powers {
            domain,
            tau1: file.g1(TAU_1, 0, count)?,
            alpha1: file.g1(ALPHA_TAU_1, 0, domain)?,
            beta1: file.g1(BETA_TAU_1, 0, domain)?,
            tau2: two[1],
            beta2: file.g2(BETA_2, 0, 1)?[0],
            file,
            path: path.to_path_buf(),
        };
        check::check_powers(&powers, &two[0])?;
        Ok(powers)
    }

    /// The largest domain that these powers serve.
    pub fn domain(&self) -> usize {
        self.domain
    }

    /// SHA-256 of what determines all of them: tau_1, tau_2, alpha_1, beta_1, beta_2 as a verifying key has its points.
    pub fn digest(&self) -> [u8; 32] {
        use crate::encoding::{g1_bytes, g2_bytes};
        Sha256::new()
            .chain_update(b"ragseal/powers")
            .chain_update(g1_bytes(&self.tau1[1]))
            .chain_update(g2_bytes(&self.tau2))
            .chain_update(g1_bytes(&self.alpha1[0]))
            .chain_update(g1_bytes(&self.beta1[0]))
            .chain_update(g2_bytes(&self.beta2))
            .finalize()
            .into()
    }
}
