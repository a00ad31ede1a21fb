// SPDX-License-Identifier: GPL-3.0-or-later
//! A proving key, point for point, against the circuit and the powers that it is made of.  SPEC A.9.
//!
//! Every section is compared by a random combination with 128-bit weights, one for each wire.  The same combination of
//! the circuit's columns is a polynomial in Lagrange form; its coefficients (an inverse FFT over the field) combine the
//! powers.  A wrong point passes with probability 2^-128.

use super::check::{one_2, same_product};
use super::lagrange::{at_tau, domain_of, domain_of_key};
use super::Powers;
use crate::curve::{Pt, G1};
use crate::error::{Error, Result};
use crate::linear::Forms;
use crate::msm::msm;
use crate::r1cs::R1cs;
use crate::scalars;
use crate::setup::root_of_unity;
use crate::zkey::ProvingKey;
use crate::{bail, ensure};
use ark_bn254::{g1, Fr, G1Projective};
use ark_ff::{AdditiveGroup, Field};
use ark_poly::EvaluationDomain;
use rayon::prelude::*;
use std::path::Path;

fn sum(points: &[G1], weights: &[Fr]) -> G1 {
    Pt::from_projective(&msm::<g1::Config>(points, weights))
}

fn plus(points: &[G1]) -> G1 {
    let total: G1Projective = points.iter().map(|p| p.to_affine::<g1::Config>()).sum();
    Pt::from_projective(&total)
}

/// The weighted sum of one matrix's columns: of the public wires, and of the private ones.
struct Combined {
    public: Vec<Fr>,
    private: Vec<Fr>,
}

impl Combined {
    fn new(forms: &Forms, system: &R1cs, weights: &[Fr], n: usize) -> Combined {
        let (public, private) = (0..n)
            .into_par_iter()
            .with_min_len(1024)
            .map(|row| {
                let (mut public, mut private) = (Fr::ZERO, Fr::ZERO);
                if row < system.n_rows {
                    for (wire, k) in forms.row(row) {
                        let term = weights[wire as usize] * system.values[k as usize];
                        if wire as usize <= system.n_public {
                            public += term;
                        } else {
                            private += term;
                        }
                    }
                }
                (public, private)
            })
            .unzip();
        Combined { public, private }
    }

    fn whole(&self) -> Vec<Fr> {
        self.public.iter().zip(&self.private).map(|(x, y)| *x + y).collect()
    }
}

/// beta u + alpha v + w at tau, of three combinations over the same wires.
fn composed(powers: &Powers, a: &[Fr], b: &[Fr], c: &[Fr]) -> Result<G1> {
    Ok(plus(&[
        at_tau(a, &powers.beta1)?,
        at_tau(b, &powers.alpha1)?,
        at_tau(c, &powers.tau1)?,
    ]))
}

fn require(holds: bool, section: &str) -> Result<()> {
    if !holds {
        bail!(
            "section {section}: its points are not those of the circuit over these powers: the key is damaged, of other \
             circuit sources, or made to leak; fetch it again, from an auditor that you know"
        );
    }
    Ok(())
}

impl Powers {
    /// Every point of a key is the one that the circuit, these powers and the key's own delta give.  `kept`: the first
    /// public wires, which have a row of their own in A beside the constant.
    pub fn check_key(&self, zkey: &Path, r1cs: &Path, kept: usize) -> Result<()> {
        let key = ProvingKey::load(zkey)?;
        let system = R1cs::load(r1cs)?;
        self.compare(&key, &system, kept)
            .map_err(|e| Error(format!("{}: {e}", zkey.display())))
    }

    fn compare(&self, key: &ProvingKey, system: &R1cs, kept: usize) -> Result<()> {
        let n = domain_of_key(system, kept)?;
        ensure!(
            (key.n_vars, key.n_public, key.domain) == (system.n_wires, system.n_public, n),
            "the key has {} wires, {} public inputs and a domain of {}, the circuit {}, {} and {n}: it is of other \
             circuit sources",
            key.n_vars,
            key.n_public,
            key.domain,
            system.n_wires,
            system.n_public
        );
        ensure!(
            n <= self.domain,
            "the key's domain is {n} and the powers were read for {}: read them for more",
            self.domain
        );
        let vk = &key.verifying;
        ensure!(
            vk.alpha1 == self.alpha1[0] && key.beta1 == self.beta1[0] && vk.beta2 == self.beta2,
            "alpha and beta are not those of these powers: the key's maker made it alone, or upon another ceremony; ask \
             which file it used"
        );
        ensure!(vk.gamma2 == one_2(), "gamma is not 1, as it is in every key of snarkjs");
        // The identity is refused when the key is loaded, and so are a delta that differs in G1 and G2 or is 1 (gamma).
        let weights = scalars::random_short(system.n_wires)?;
        let (shown, hidden) = weights.split_at(system.n_public + 1);
        let mut a = Combined::new(&system.a, system, &weights, n);
        let b = Combined::new(&system.b, system, &weights, n);
        let c = Combined::new(&system.c, system, &weights, n);
        for (x, weight) in a.public[system.n_rows..].iter_mut().zip(&weights[..=kept]) {
            *x += weight;
        }
        require(sum(&key.a, &weights) == at_tau(&a.whole(), &self.tau1)?, "5 (A)")?;
        require(sum(&key.b1, &weights) == at_tau(&b.whole(), &self.tau1)?, "6 (B1)")?;
        require(
            sum(&vk.ic, shown) == composed(self, &a.public, &b.public, &c.public)?,
            "3 (IC)",
        )?;
        let private = composed(self, &a.private, &b.private, &c.private)?;
        require(
            same_product(&sum(&key.c, hidden), &vk.delta2, &private, &one_2()),
            "8 (C), or delta",
        )?;
        let (left, right) = self.quotients(&key.h, n)?;
        require(same_product(&left, &vk.delta2, &right, &one_2()), "9 (H)")
    }

    /// p (tau^n - 1) for a random p of degree n - 2 at most: by a key's H (times delta), and by the powers.
    ///
    /// At the points of the domain 2n that H belongs to, tau^n - 1 is -2; at the others it is 0.  The direction of H
    /// that no p of this degree meets is met by no proof either: quotients have degree n - 2 at most.
    fn quotients(&self, h: &[G1], n: usize) -> Result<(G1, G1)> {
        let mut p = scalars::random_short(n - 1)?;
        let below: Vec<Fr> = p.iter().map(|x| -*x).collect();
        let lower = sum(&self.tau1[..n - 1], &below);
        let upper = sum(&self.tau1[n..2 * n - 1], &p);
        p.push(Fr::ZERO);
        let coset = domain_of(n)?
            .get_coset(root_of_unity(2 * n))
            .ok_or_else(|| Error("internal error: coset".into()))?;
        coset.fft_in_place(&mut p);
        let minus_two = -Fr::ONE.double();
        p.par_iter_mut().for_each(|x| *x *= minus_two);
        Ok((sum(h, &p), plus(&[upper, lower])))
    }
}
