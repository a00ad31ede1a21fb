// SPDX-License-Identifier: GPL-3.0-or-later
//! The Lagrange bases of a prepared .ptau file over one domain, checked against the powers.

use super::file::{LAGRANGE_ALPHA_TAU_1, LAGRANGE_BETA_TAU_1, LAGRANGE_TAU_1, LAGRANGE_TAU_2};
use super::Powers;
use crate::consistency::check_b;
use crate::curve::{Pt, G1, G2};
use crate::ensure;
use crate::error::{Error, Result};
use crate::msm::msm;
use crate::r1cs::R1cs;
use crate::scalars;
use ark_bn254::{g1, Fr};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};

/// L_0(tau) .. L_(n-1)(tau), plain and times alpha and beta, and every second one of the domain of twice the size.
pub struct Bases {
    pub tau1: Vec<G1>,
    pub tau2: Vec<G2>,
    pub alpha1: Vec<G1>,
    pub beta1: Vec<G1>,
    /// L_1, L_3, ... of the domain 2n: a key's H at delta = 1.
    pub odd: Vec<G1>,
}

pub fn domain_of(n: usize) -> Result<Radix2EvaluationDomain<Fr>> {
    Radix2EvaluationDomain::new(n).ok_or_else(|| Error("the domain is too large for the field".into()))
}

/// Rows of a circuit's key whose first `kept` public wires have one of their own.
pub fn domain_of_key(system: &R1cs, kept: usize) -> Result<usize> {
    ensure!(
        kept <= system.n_public,
        "{kept} public inputs with a row of their own, the circuit has {}",
        system.n_public
    );
    Ok(system.domain(kept))
}

/// sum_k values[k] L_k(tau) for the Lagrange basis over values.len() points: a combination of powers instead.
pub fn at_tau(values: &[Fr], powers: &[G1]) -> Result<G1> {
    let mut coefficients = values.to_vec();
    domain_of(values.len())?.ifft_in_place(&mut coefficients);
    // Of twice the largest domain a file lacks the last power, and snarkjs takes it as 0.
    let held = coefficients.len().min(powers.len());
    Ok(Pt::from_projective(&msm::<g1::Config>(
        &powers[..held],
        &coefficients[..held],
    )))
}

impl Powers {
    fn basis(&self, kind: u32, n: usize, powers: &[G1]) -> Result<Vec<G1>> {
        let points = self.file.g1(kind, n - 1, n)?;
        let weights = scalars::random_short(n)?;
        let sum = Pt::from_projective(&msm::<g1::Config>(&points, &weights));
        ensure!(
            sum == at_tau(&weights, powers)?,
            "section {kind} is not the Lagrange basis of section {}: prepare the file again with `snarkjs powersoftau \
             prepare phase2`",
            kind - 10
        );
        Ok(points)
    }

    /// The bases over a domain of n points, n at most that of these powers.
    pub fn bases(&self, n: usize) -> Result<Bases> {
        self.read_bases(n)
            .map_err(|e| Error(format!("{}: {e}", self.path.display())))
    }

    fn read_bases(&self, n: usize) -> Result<Bases> {
        ensure!(
            self.file.prepared(),
            "the file is not prepared for keys: run `snarkjs powersoftau prepare phase2 FILE.ptau PREPARED.ptau`"
        );
        let tau1 = self.basis(LAGRANGE_TAU_1, n, &self.tau1[..n])?;
        let tau2 = self.file.g2_on_curve(LAGRANGE_TAU_2, n - 1, n)?;
        check_b(&tau1, &tau2).map_err(|e| Error(format!("section {LAGRANGE_TAU_2} against section 12: {e}")))?;
        let twice = self.basis(LAGRANGE_TAU_1, 2 * n, &self.tau1[..(2 * n).min(self.tau1.len())])?;
        Ok(Bases {
            tau1,
            tau2,
            alpha1: self.basis(LAGRANGE_ALPHA_TAU_1, n, &self.alpha1[..n])?,
            beta1: self.basis(LAGRANGE_BETA_TAU_1, n, &self.beta1[..n])?,
            odd: twice.into_iter().skip(1).step_by(2).collect(),
        })
    }
}
