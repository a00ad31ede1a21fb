// SPDX-License-Identifier: GPL-3.0-or-later
//! Groth16 proving keys in snarkjs' .zkey format.

use crate::consistency::check_b;
use crate::container::{write_atomically, Container, Cursor};
use crate::curve::{G1, G2};
use crate::encoding::*;
use crate::error::{Error, Result};
use crate::linear::{Coefficients, Forms};
use crate::r1cs::{check_modulus, scalar_modulus};
use crate::verify::VerifyingKey;
use crate::{bail, ensure};
use ark_bn254::{Bn254, Fq, Fr};
use ark_ec::pairing::Pairing;
use ark_ec::AffineRepr;
use ark_ff::{BigInteger, Field, PrimeField, Zero};
use rayon::prelude::*;
use std::path::Path;

const COEF_BYTES: usize = 44;

/// All that proving needs.
pub struct ProvingKey {
    pub n_vars: usize,
    pub n_public: usize,
    pub domain: usize,
    pub verifying: VerifyingKey,
    pub beta1: G1,
    pub delta1: G1,
    /// Rows of the matrices A and B, public inputs' own rows included.
    pub rows_a: Forms,
    pub rows_b: Forms,
    pub values: Vec<Fr>,
    pub a: Vec<G1>,
    pub b1: Vec<G1>,
    pub b2: Vec<G2>,
    pub c: Vec<G1>,
    pub h: Vec<G1>,
}

/// What a file holds beside the points, for writing.
pub struct KeyParts<'a> {
    pub key: &'a VerifyingKey,
    pub beta1: G1,
    pub delta1: G1,
    pub n_vars: usize,
    pub domain: usize,
    /// (matrix, row, wire, value)
    pub coefs: &'a mut dyn Iterator<Item = (u32, u32, u32, Fr)>,
    pub n_coefs: u32,
    pub a: &'a [G1],
    pub b1: &'a [G1],
    pub b2: &'a [G2],
    pub c: &'a [G1],
    pub h: &'a [G1],
    pub circuit_hash: [u8; 64],
}

pub fn base_modulus() -> Vec<u8> {
    Fq::MODULUS.to_bytes_le()
}

pub fn points_g1(bytes: &[u8], what: &str) -> Result<Vec<G1>> {
    bytes
        .par_chunks_exact(G1_BYTES)
        .with_min_len(256)
        .map(g1_raw)
        .collect::<Result<_>>()
        .map_err(|e| Error(format!("section {what}: {e}")))
}

/// 2^256 mod r.
fn montgomery() -> Fr {
    Fr::from(2u64).pow([256])
}

impl ProvingKey {
    /// Load and check a key (SPEC A.9).
    pub fn load(path: &Path) -> Result<ProvingKey> {
        let file = Container::read(path, b"zkey", 1)?;
        ProvingKey::parse(&file).map_err(|e| Error(format!("{}: {e}", path.display())))
    }

    fn parse(file: &Container) -> Result<ProvingKey> {
        ensure!(file.array(1, 1, 4)? == 1u32.to_le_bytes(), "not a Groth16 key");
        let mut h = Cursor::new(file.section(2)?);
        check_modulus(&mut h, &base_modulus()).map_err(|e| Error(format!("base field: {e}")))?;
        check_modulus(&mut h, &scalar_modulus())?;
        let (n_vars, n_public, domain) = (h.u32()? as usize, h.u32()? as usize, h.u32()? as usize);
        ensure!(
            n_public >= 1 && n_public < n_vars && n_vars <= 1 << 28,
            "{n_vars} wires with {n_public} public inputs"
        );
        ensure!(domain.is_power_of_two() && domain <= 1 << 27, "a domain of {domain}");
        let alpha1 = g1_raw(h.take(G1_BYTES)?)?;
        let beta1 = g1_raw(h.take(G1_BYTES)?)?;
        let beta2 = g2_raw(h.take(G2_BYTES)?)?;
        let gamma2 = g2_raw(h.take(G2_BYTES)?)?;
        let delta1 = g1_raw(h.take(G1_BYTES)?)?;
        let delta2 = g2_raw(h.take(G2_BYTES)?)?;
        h.end()?;
        ensure!(!beta1.is_identity(), "beta_1 is the identity");
        ensure!(!delta1.is_identity(), "delta_1 is the identity");
        let array = |kind, count, size| file.array(kind, count, size);
        let ic = points_g1(array(3, n_public + 1, G1_BYTES)?, "IC")?;
        let a = points_g1(array(5, n_vars, G1_BYTES)?, "A")?;
        let b1 = points_g1(array(6, n_vars, G1_BYTES)?, "B1")?;
        let c = points_g1(array(8, n_vars - n_public - 1, G1_BYTES)?, "C")?;
        let points_h = points_g1(array(9, domain, G1_BYTES)?, "H")?;
        let b2 = points_g2(array(7, n_vars, G2_BYTES)?)?;
        check_b(&b1, &b2)?;
        let verifying = VerifyingKey::new(alpha1, beta2, gamma2, delta2, ic)?;
        let one1 = ark_bn254::G1Affine::generator();
        let one2 = ark_bn254::G2Affine::generator();
        for (name, p1, p2) in [("beta", &beta1, &beta2), ("delta", &delta1, &delta2)] {
            let consistent = Bn254::multi_pairing([p1.to_affine(), -one1], [one2, p2.to_affine()]).is_zero();
            ensure!(consistent, "{name}_1 and {name}_2 disagree");
        }
        let (rows_a, rows_b, values) = parse_coefs(file.section(4)?, n_vars, domain)?;
        Ok(ProvingKey {
            n_vars,
            n_public,
            domain,
            verifying,
            beta1,
            delta1,
            rows_a,
            rows_b,
            values,
            a,
            b1,
            b2,
            c,
            h: points_h,
        })
    }
}

/// On the curve one by one; [`check_b`] looks at the subgroup.
fn points_g2(bytes: &[u8]) -> Result<Vec<G2>> {
    bytes
        .par_chunks_exact(G2_BYTES)
        .with_min_len(256)
        .map(g2_raw_on_curve)
        .collect::<Result<_>>()
        .map_err(|e| Error(format!("section B2: {e}")))
}

/// Rows of A and B from the file's unordered list of coefficients.
fn parse_coefs(bytes: &[u8], n_vars: usize, domain: usize) -> Result<(Forms, Forms, Vec<Fr>)> {
    let mut c = Cursor::new(bytes);
    let count = c.u32()? as usize;
    let entries = c.take(count.saturating_mul(COEF_BYTES))?;
    c.end()?;
    let word = |e: &[u8], at: usize| u32::from_le_bytes(e[at..at + 4].try_into().expect("four bytes"));
    let mut forms = [Forms::default(), Forms::default()];
    for f in &mut forms {
        f.starts = vec![0; domain + 1];
    }
    for e in entries.chunks_exact(COEF_BYTES) {
        let (matrix, row, wire) = (word(e, 0), word(e, 4) as usize, word(e, 8) as usize);
        if matrix > 1 || row >= domain || wire >= n_vars {
            bail!("section 4: a coefficient lies outside the matrices");
        }
        forms[matrix as usize].starts[row + 1] += 1;
    }
    for f in &mut forms {
        for i in 0..domain {
            f.starts[i + 1] += f.starts[i];
        }
        f.wires = vec![0; f.starts[domain] as usize];
        f.coefs = vec![0; f.starts[domain] as usize];
    }
    let mut next = [forms[0].starts.clone(), forms[1].starts.clone()];
    let mut numbers = Coefficients::foreign();
    let unscale = montgomery().inverse().expect("not zero");
    for e in entries.chunks_exact(COEF_BYTES) {
        let (matrix, row) = (word(e, 0) as usize, word(e, 4) as usize);
        let raw: &[u8; 32] = e[12..].try_into().expect("32 bytes");
        let number = numbers.number(raw, |b| Ok(scalar_from_raw(b)? * unscale))?;
        let Some(k) = number else {
            bail!("section 4: a coefficient is zero");
        };
        let at = &mut next[matrix][row];
        forms[matrix].wires[*at as usize] = word(e, 8);
        forms[matrix].coefs[*at as usize] = k;
        *at += 1;
    }
    let [a, b] = forms;
    Ok((a, b, numbers.into_values()))
}

fn put_points<const SIZE: usize, P>(
    w: &mut crate::container::Writer,
    kind: u32,
    points: &[P],
    put: impl Fn(&P, &mut [u8]),
) -> Result<()> {
    w.section(kind, (points.len() * SIZE) as u64)?;
    let mut bytes = [0u8; SIZE];
    for p in points {
        put(p, &mut bytes);
        w.put(&bytes)?;
    }
    Ok(())
}

/// Write a key that snarkjs reads, without contributions.
pub fn write(path: &Path, parts: KeyParts) -> Result<()> {
    write_atomically(path, 0o644, b"zkey", 1, 10, |w| {
        w.section(1, 4)?;
        w.put(&1u32.to_le_bytes())?;
        w.section(2, (2 * 36 + 12 + 3 * G1_BYTES + 3 * G2_BYTES) as u64)?;
        for modulus in [base_modulus(), scalar_modulus()] {
            w.put(&32u32.to_le_bytes())?;
            w.put(&modulus)?;
        }
        let key = parts.key;
        for n in [parts.n_vars, key.n_public(), parts.domain] {
            w.put(&(n as u32).to_le_bytes())?;
        }
        let mut one = [0u8; G1_BYTES];
        let mut two = [0u8; G2_BYTES];
        put_g1_raw(&key.alpha1, &mut one);
        w.put(&one)?;
        put_g1_raw(&parts.beta1, &mut one);
        w.put(&one)?;
        put_g2_raw(&key.beta2, &mut two);
        w.put(&two)?;
        put_g2_raw(&key.gamma2, &mut two);
        w.put(&two)?;
        put_g1_raw(&parts.delta1, &mut one);
        w.put(&one)?;
        put_g2_raw(&key.delta2, &mut two);
        w.put(&two)?;
        put_points::<G1_BYTES, _>(w, 3, &key.ic, put_g1_raw)?;
        w.section(4, 4 + u64::from(parts.n_coefs) * COEF_BYTES as u64)?;
        w.put(&parts.n_coefs.to_le_bytes())?;
        let scale = montgomery();
        let mut entry = [0u8; COEF_BYTES];
        for (matrix, row, wire, value) in parts.coefs {
            entry[..4].copy_from_slice(&matrix.to_le_bytes());
            entry[4..8].copy_from_slice(&row.to_le_bytes());
            entry[8..12].copy_from_slice(&wire.to_le_bytes());
            put_scalar_raw(&(value * scale), &mut entry[12..]);
            w.put(&entry)?;
        }
        put_points::<G1_BYTES, _>(w, 5, parts.a, put_g1_raw)?;
        put_points::<G1_BYTES, _>(w, 6, parts.b1, put_g1_raw)?;
        put_points::<G2_BYTES, _>(w, 7, parts.b2, put_g2_raw)?;
        put_points::<G1_BYTES, _>(w, 8, parts.c, put_g1_raw)?;
        put_points::<G1_BYTES, _>(w, 9, parts.h, put_g1_raw)?;
        w.section(10, 68)?;
        w.put(&parts.circuit_hash)?;
        w.put(&0u32.to_le_bytes())
    })
}
