// SPDX-License-Identifier: GPL-3.0-or-later
//! Groth16 verification with committed public inputs, one by one or many at once.
//!
//! The key's IC points are a Pedersen basis: whatever is not given as a clear input is added to vk_x as a commitment.

use crate::curve::{add_assign_all, double_all, Pt, BATCH, G1, G2, OUTSIDE_SUBGROUP};
use crate::encoding::*;
use crate::ensure;
use crate::error::{Error, Result};
use crate::miller;
use crate::msm::msm;
use ark_bn254::{g1, Bn254, Fr, G1Affine, G1Projective, G2Affine};
use ark_ec::pairing::{MillerLoopOutput, Pairing, PairingOutput};
use ark_ec::{AdditiveGroup, PrimeGroup};
use ark_ff::{PrimeField, Zero};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::sync::OnceLock;

pub const PROOF_BYTES: usize = 256;
pub const WEIGHT_BYTES: usize = 16;
const HEAD: usize = G1_BYTES + 3 * G2_BYTES + 4;
type Prepared = <Bn254 as Pairing>::G2Prepared;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    pub a: G1,
    pub b: G2,
    pub c: G1,
}

impl Proof {
    /// A || B || C; canonical, on the curve, in the subgroup, no identity.
    pub fn decode(bytes: &[u8]) -> Result<Proof> {
        Proof::read(bytes, g2_proper)
    }

    /// As [`Proof::decode`], and B may lie outside the subgroup: [`VerifyingKey::verify_batch`] finds it there.
    pub fn decode_for_batch(bytes: &[u8]) -> Result<Proof> {
        Proof::read(bytes, g2_on_twist)
    }

    fn read(bytes: &[u8], g2: impl Fn(&[u8]) -> Result<G2>) -> Result<Proof> {
        ensure!(
            bytes.len() == PROOF_BYTES,
            "a proof has {PROOF_BYTES} bytes, not {}",
            bytes.len()
        );
        let named = |name: &'static str| move |e: Error| Error(format!("proof element {name}: {e}"));
        Ok(Proof {
            a: g1_proper(&bytes[..64]).map_err(named("A"))?,
            b: g2(&bytes[64..192]).map_err(named("B"))?,
            c: g1_proper(&bytes[192..]).map_err(named("C"))?,
        })
    }

    pub fn encode(&self) -> [u8; PROOF_BYTES] {
        let mut out = [0u8; PROOF_BYTES];
        out[..64].copy_from_slice(&g1_bytes(&self.a));
        out[64..192].copy_from_slice(&g2_bytes(&self.b));
        out[192..].copy_from_slice(&g1_bytes(&self.c));
        out
    }
}

/// Line functions of the fixed G2 points, and e(alpha, beta).
struct Fixed {
    gamma: Prepared,
    delta: Prepared,
    beta: Prepared,
    alpha_beta: PairingOutput<Bn254>,
}

pub struct VerifyingKey {
    pub alpha1: G1,
    pub beta2: G2,
    pub gamma2: G2,
    pub delta2: G2,
    pub ic: Vec<G1>,
    fixed: OnceLock<Fixed>,
}

impl Clone for VerifyingKey {
    fn clone(&self) -> Self {
        VerifyingKey {
            alpha1: self.alpha1,
            beta2: self.beta2,
            gamma2: self.gamma2,
            delta2: self.delta2,
            ic: self.ic.clone(),
            fixed: OnceLock::new(),
        }
    }
}

fn affine1(p: &G1) -> G1Affine {
    p.to_affine()
}

fn affine2(p: &G2) -> G2Affine {
    p.to_affine()
}

impl VerifyingKey {
    /// Points must already be on their curves and, for G2, in the subgroup.  Identities and gamma = delta are refused.
    pub fn new(alpha1: G1, beta2: G2, gamma2: G2, delta2: G2, ic: Vec<G1>) -> Result<VerifyingKey> {
        ensure!(gamma2 != delta2, "gamma equals delta: such a key proves anything");
        VerifyingKey::proper(alpha1, beta2, gamma2, delta2, ic)
    }

    /// As [`VerifyingKey::new`], and gamma = delta is let through: a key before its first contribution, to be written.
    pub fn proper(alpha1: G1, beta2: G2, gamma2: G2, delta2: G2, ic: Vec<G1>) -> Result<VerifyingKey> {
        ensure!(!alpha1.is_identity(), "alpha is the identity");
        for (name, p) in [("beta", &beta2), ("gamma", &gamma2), ("delta", &delta2)] {
            ensure!(!p.is_identity(), "{name} is the identity");
        }
        ensure!((2..=1 << 28).contains(&ic.len()), "a key with {} IC points", ic.len());
        if let Some(at) = ic.iter().position(Pt::is_identity) {
            crate::bail!("IC point {at} is the identity");
        }
        Ok(VerifyingKey {
            alpha1,
            beta2,
            gamma2,
            delta2,
            ic,
            fixed: OnceLock::new(),
        })
    }

    pub fn n_public(&self) -> usize {
        self.ic.len() - 1
    }

    /// alpha_1 || beta_2 || gamma_2 || delta_2 || u32be(number of IC points) || IC.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + G1_BYTES * self.ic.len());
        out.extend(g1_bytes(&self.alpha1));
        for p in [&self.beta2, &self.gamma2, &self.delta2] {
            out.extend(g2_bytes(p));
        }
        out.extend((self.ic.len() as u32).to_be_bytes());
        out.extend(g1s_bytes(&self.ic));
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<VerifyingKey> {
        ensure!(bytes.len() >= HEAD, "the verifying key is truncated");
        let count = u32::from_be_bytes(bytes[HEAD - 4..HEAD].try_into().expect("four bytes"));
        ensure!(
            (bytes.len() - HEAD) as u64 == u64::from(count) * G1_BYTES as u64,
            "the verifying key has {} bytes after its head, {count} IC points are announced",
            bytes.len() - HEAD
        );
        let part = |i: usize| g2_proper(&bytes[64 + 128 * i..192 + 128 * i]);
        VerifyingKey::new(
            g1_proper(&bytes[..64])?,
            part(0)?,
            part(1)?,
            part(2)?,
            g1s_proper(&bytes[HEAD..])?,
        )
    }

    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.encode()).into()
    }

    fn fixed(&self) -> &Fixed {
        self.fixed.get_or_init(|| Fixed {
            gamma: affine2(&self.gamma2).into(),
            delta: affine2(&self.delta2).into(),
            beta: affine2(&self.beta2).into(),
            alpha_beta: Bn254::pairing(affine1(&self.alpha1), affine2(&self.beta2)),
        })
    }

    fn check_counts(&self, clear: usize, commitments: &[G1]) -> Result<()> {
        ensure!(
            clear <= self.n_public(),
            "{clear} clear inputs, the key has {} public inputs",
            self.n_public()
        );
        ensure!(
            clear == self.n_public() || !commitments.is_empty(),
            "{clear} clear inputs of {} and no commitment to the others",
            self.n_public()
        );
        ensure!(
            commitments.iter().all(|c| !c.is_identity()),
            "a commitment is the identity"
        );
        Ok(())
    }

    /// One proof.  `clear` are the first public inputs; `commitments` stand for the others.
    pub fn verify(&self, proof: &Proof, clear: &[Fr], commitments: &[G1]) -> Result<()> {
        self.check_counts(clear.len(), commitments)?;
        let mut x: G1Projective = msm::<g1::Config>(&self.ic[1..=clear.len()], clear);
        x += affine1(&self.ic[0]);
        for c in commitments {
            x += affine1(c);
        }
        let fixed = self.fixed();
        let product = Bn254::multi_pairing(
            [
                affine1(&proof.a),
                -affine1(&Pt::from_projective(&x)),
                -affine1(&proof.c),
            ],
            [affine2(&proof.b).into(), fixed.gamma.clone(), fixed.delta.clone()],
        );
        ensure!(product == fixed.alpha_beta, "the proof does not verify");
        Ok(())
    }

    /// Many proofs of this key by one combination with the caller's unpredictable 128-bit weights.  `scales`: of each
    /// proof's commitments, one a point or none where all of them are added as they are.  B of a proof may come from
    /// [`Proof::decode_for_batch`].
    pub fn verify_batch(
        &self,
        proofs: &[Proof],
        clears: &[Vec<Fr>],
        commitments: &[Vec<G1>],
        scales: &[Vec<Fr>],
        weights: &[u128],
    ) -> Result<()> {
        let n = proofs.len();
        ensure!(
            n > 0 && [clears.len(), commitments.len(), scales.len(), weights.len()] == [n; 4],
            "a batch needs as many inputs, commitments, scales and weights as proofs, and at least one"
        );
        ensure!(weights.iter().all(|&w| w != 0), "a weight is zero");
        let width = clears[0].len();
        for (clear, c) in clears.iter().zip(commitments) {
            ensure!(clear.len() == width, "clear inputs differ in number");
            self.check_counts(clear.len(), c)?;
        }
        let scalars: Vec<Fr> = weights.iter().map(|&w| Fr::from(w)).collect();
        let mut bases: Vec<G1> = self.ic[..=width].to_vec();
        let mut factors = vec![Fr::ZERO; width + 1];
        factors[0] = scalars.iter().sum();
        for (clear, w) in clears.iter().zip(&scalars) {
            for (f, x) in factors[1..].iter_mut().zip(clear) {
                *f += *w * x;
            }
        }
        let total = factors[0];
        for ((points, own), w) in commitments.iter().zip(scales).zip(&scalars) {
            ensure!(
                own.is_empty() || own.len() == points.len(),
                "{} points but {} scales",
                points.len(),
                own.len()
            );
            bases.extend(points);
            factors.extend(own.iter().map(|s| *w * s));
            factors.resize(bases.len(), *w);
        }
        let x = msm::<g1::Config>(&bases, &factors);
        let cs: Vec<G1> = proofs.iter().map(|p| p.c).collect();
        let c = msm::<g1::Config>(&cs, &scalars);
        let a: Vec<G1> = proofs.iter().map(|p| p.a).collect();
        let pairs: Vec<(G1, G2)> = times_weights(&a, weights)
            .into_iter()
            .zip(proofs)
            .map(|(a, p)| (a, p.b))
            .collect();
        let mut product = miller::product(&pairs)
            .map_err(|at| Error(format!("batch entry {at}: proof element B: {OUTSIDE_SUBGROUP}")))?;
        let fixed = self.fixed();
        let alpha = Pt::from_projective(&G1Projective::from(affine1(&self.alpha1)).mul_bigint(total.into_bigint()));
        product *= Bn254::multi_miller_loop(
            [
                -affine1(&Pt::from_projective(&x)),
                -affine1(&Pt::from_projective(&c)),
                -affine1(&alpha),
            ],
            [fixed.gamma.clone(), fixed.delta.clone(), fixed.beta.clone()],
        )
        .0;
        let value = Bn254::final_exponentiation(MillerLoopOutput(product));
        ensure!(
            value.is_some_and(|v| v.is_zero()),
            "a proof of the batch does not verify; verify them one by one to find it"
        );
        Ok(())
    }
}

/// points[i] * weights[i] by windows of four bits, all on one schedule so that they share inversions.
fn times_weights(points: &[G1], weights: &[u128]) -> Vec<G1> {
    let scale = |(points, weights): (&[G1], &[u128])| {
        let mut multiples = vec![vec![G1::IDENTITY; points.len()]];
        for k in 0..15 {
            let mut next = multiples[k].clone();
            add_assign_all(&mut next, points);
            multiples.push(next);
        }
        let mut acc = multiples[0].clone();
        let mut summand = acc.clone();
        for window in (0..32).rev() {
            for _ in 0..4 {
                double_all(&mut acc);
            }
            for (i, (s, w)) in summand.iter_mut().zip(weights).enumerate() {
                *s = multiples[(w >> (4 * window)) as usize & 15][i];
            }
            add_assign_all(&mut acc, &summand);
        }
        acc
    };
    let chunk = points.len().div_ceil(rayon::current_num_threads()).clamp(16, BATCH);
    points
        .par_chunks(chunk)
        .zip(weights.par_chunks(chunk))
        .flat_map_iter(scale)
        .collect()
}

/// Big-endian weights of 16 bytes.
pub fn decode_weights(bytes: &[u8]) -> Result<Vec<u128>> {
    ensure!(bytes.len() % WEIGHT_BYTES == 0, "the weights are truncated");
    Ok(bytes
        .chunks_exact(WEIGHT_BYTES)
        .map(|b| u128::from_be_bytes(b.try_into().expect("16 bytes")))
        .collect())
}
