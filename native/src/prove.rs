// SPDX-License-Identifier: GPL-3.0-or-later
//! Groth16 proofs, checked by their maker before they leave.

use crate::curve::{Pt, G1, G2};
use crate::ensure;
use crate::error::{Error, Result};
use crate::linear::Forms;
use crate::msm::msm;
use crate::scalars;
use crate::setup::root_of_unity;
use crate::verify::Proof;
use crate::zkey::ProvingKey;
use ark_bn254::{g1, g2, Fr, G1Projective, G2Projective};
use ark_ec::PrimeGroup;
use ark_ff::PrimeField;
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use rayon::prelude::*;
use zeroize::Zeroize;

fn times<P: PrimeGroup<ScalarField = Fr>>(p: P, k: &Fr) -> P {
    p.mul_bigint(k.into_bigint())
}

fn lift1(p: &G1) -> G1Projective {
    p.to_affine::<g1::Config>().into()
}

fn lift2(p: &G2) -> G2Projective {
    p.to_affine::<g2::Config>().into()
}

impl ProvingKey {
    fn rows(&self, forms: &Forms, wires: &[Fr]) -> Vec<Fr> {
        (0..self.domain)
            .into_par_iter()
            .with_min_len(1024)
            .map(|row| forms.eval(row, &self.values, wires))
            .collect()
    }

    /// A * B - C at the odd points of the domain of twice the size, C = A * B on the domain itself.
    fn quotient(&self, wires: &[Fr]) -> Result<Vec<Fr>> {
        let domain = Radix2EvaluationDomain::<Fr>::new(self.domain)
            .ok_or_else(|| Error("the domain is too large for the field".into()))?;
        let coset = domain
            .get_coset(root_of_unity(2 * self.domain))
            .ok_or_else(|| Error("internal error: coset".into()))?;
        let shift = |mut v: Vec<Fr>| {
            domain.ifft_in_place(&mut v);
            coset.fft_in_place(&mut v);
            v
        };
        let a = self.rows(&self.rows_a, wires);
        let b = self.rows(&self.rows_b, wires);
        let c: Vec<Fr> = a.par_iter().zip(&b).map(|(x, y)| *x * y).collect();
        let mut a = shift(a);
        let b = shift(b);
        let c = shift(c);
        a.par_iter_mut().zip(&b).zip(&c).for_each(|((x, y), z)| *x = *x * y - z);
        Ok(a)
    }

    /// Prove an assignment.  `blinding` is for tests that need reproducible proofs; two proofs with the same values and
    /// different witnesses leak.
    pub fn prove(&self, wires: &[Fr], blinding: Option<(Fr, Fr)>) -> Result<Proof> {
        ensure!(
            wires.len() == self.n_vars,
            "the witness has {} wires, the key {}",
            wires.len(),
            self.n_vars
        );
        let (mut r, mut s) = match blinding {
            Some(pair) => pair,
            None => {
                let fresh = scalars::random(2)?;
                (fresh[0], fresh[1])
            }
        };
        let h = self.quotient(wires)?;
        let private = &wires[self.n_public + 1..];
        let (sum_b2, sums) = rayon::join(
            || msm::<g2::Config>(&self.b2, wires),
            || {
                let c = msm::<g1::Config>(&self.h, &h) + msm::<g1::Config>(&self.c, private);
                (msm::<g1::Config>(&self.a, wires), msm::<g1::Config>(&self.b1, wires), c)
            },
        );
        let delta1 = lift1(&self.delta1);
        let a = sums.0 + lift1(&self.verifying.alpha1) + times(delta1, &r);
        let b1 = sums.1 + lift1(&self.beta1) + times(delta1, &s);
        let b2 = sum_b2 + lift2(&self.verifying.beta2) + times(lift2(&self.verifying.delta2), &s);
        let c = sums.2 + times(a, &s) + times(b1, &r) - times(delta1, &(r * s));
        r.zeroize();
        s.zeroize();
        let proof = Proof {
            a: Pt::from_projective(&a),
            b: Pt::from_projective(&b2),
            c: Pt::from_projective(&c),
        };
        self.verifying
            .verify(&proof, &wires[1..=self.n_public], &[])
            .map_err(|_| Error("the witness does not satisfy the circuit: its proof would not verify".into()))?;
        Ok(proof)
    }
}
