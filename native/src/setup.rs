// SPDX-License-Identifier: GPL-3.0-or-later
//! A Groth16 key made by one party, who must be the one that relies on its proofs.  gamma = 1, as snarkjs has it.

use crate::curve::{Pt, G1, G2};
use crate::ensure;
use crate::error::Result;
use crate::fixed_base::FixedBase;
use crate::linear::Forms;
use crate::r1cs::R1cs;
use crate::scalars;
use crate::verify::VerifyingKey;
use crate::zkey::{write, KeyParts};
use ark_bn254::{g1, g2, Fr, G1Projective, G2Projective};
use ark_ec::PrimeGroup;
use ark_ff::{batch_inversion, AdditiveGroup, FftField, Field, PrimeField};
use sha2::{Digest, Sha512};
use std::path::Path;
use zeroize::{Zeroize, Zeroizing};

/// Whoever knows these can forge.  Wiped when dropped, on every path.
struct Toxic {
    tau: Fr,
    alpha: Fr,
    beta: Fr,
    delta: Fr,
    delta_inverse: Fr,
}

impl Drop for Toxic {
    fn drop(&mut self) {
        for x in [
            &mut self.tau,
            &mut self.alpha,
            &mut self.beta,
            &mut self.delta,
            &mut self.delta_inverse,
        ] {
            x.zeroize();
        }
    }
}

impl Toxic {
    fn draw(entropy: Option<&[u8]>) -> Result<Toxic> {
        let values = Zeroizing::new(match entropy {
            None => scalars::random(4)?,
            Some(seed) => (0u8..4)
                .map(|i| {
                    let digest = Sha512::new()
                        .chain_update(b"ragseal/setup/toxic")
                        .chain_update([i])
                        .chain_update(seed)
                        .finalize();
                    Fr::from_be_bytes_mod_order(&digest)
                })
                .collect(),
        });
        ensure!(
            values.iter().all(|x| *x != Fr::ZERO && *x != Fr::ONE),
            "the random source returned 0 or 1"
        );
        Ok(Toxic {
            tau: values[0],
            alpha: values[1],
            beta: values[2],
            delta: values[3],
            delta_inverse: values[3].inverse().expect("delta is not zero"),
        })
    }
}

/// 2^k-th root of unity, the same one that snarkjs uses.
pub fn root_of_unity(size: usize) -> Fr {
    let mut root = Fr::TWO_ADIC_ROOT_OF_UNITY;
    for _ in size.trailing_zeros()..Fr::TWO_ADICITY {
        root.square_in_place();
    }
    root
}

/// Lagrange basis at tau over the points `first * step^i`, i < n, of a subgroup of order `order`; times `factor`.
pub fn lagrange(tau: Fr, first: Fr, step: Fr, n: usize, order: u64, factor: Fr) -> Zeroizing<Vec<Fr>> {
    let mut points = Vec::with_capacity(n);
    let mut p = first;
    for _ in 0..n {
        points.push(p);
        p *= step;
    }
    let mut out: Zeroizing<Vec<Fr>> = Zeroizing::new(points.iter().map(|w| tau - w).collect());
    batch_inversion(&mut out);
    let order_inverse = Fr::from(order).inverse().expect("not zero");
    let scale = (tau.pow([order]) - Fr::ONE) * order_inverse * factor;
    for (x, w) in out.iter_mut().zip(&points) {
        *x *= *w * scale;
    }
    out
}

/// sum over rows of coefficient * basis[row] for every wire.
fn columns_at(forms: &Forms, values: &[Fr], basis: &[Fr], rows: usize, wires: usize) -> Zeroizing<Vec<Fr>> {
    let mut out = Zeroizing::new(vec![Fr::ZERO; wires]);
    for (row, at) in basis.iter().enumerate().take(rows) {
        for (w, k) in forms.row(row) {
            match k {
                crate::linear::ONE => out[w as usize] += at,
                crate::linear::MINUS_ONE => out[w as usize] -= at,
                _ => out[w as usize] += values[k as usize] * at,
            }
        }
    }
    out
}

/// Make a key for a circuit and write it.  With `entropy` the key is reproducible and therefore worthless but for tests.
///
/// The constant and the first `kept` public inputs have a row of their own, which makes their IC points independent; for
/// public inputs after them the circuit's rows must do that, which the caller has checked.
pub fn setup(r1cs_path: &Path, zkey_path: &Path, kept: Option<usize>, entropy: Option<&[u8]>) -> Result<()> {
    let system = R1cs::load(r1cs_path)?;
    ensure!(system.n_public >= 1, "the circuit has no public inputs");
    let kept = kept.unwrap_or(system.n_public);
    ensure!(
        kept <= system.n_public,
        "{kept} public inputs with a row of their own, the circuit has {}",
        system.n_public
    );
    let (n, wires, rows) = (system.domain(kept), system.n_wires, system.n_rows);
    ensure!(n <= 1 << 27, "{rows} constraints are too many for the field");
    let toxic = Toxic::draw(entropy)?;
    let double_root = root_of_unity(2 * n);
    let root = double_root.square();
    ensure!(
        toxic.tau.pow([2 * n as u64]) != Fr::ONE,
        "the random source returned a root of unity"
    );
    let basis = lagrange(toxic.tau, Fr::ONE, root, n, n as u64, Fr::ONE);
    let (mut a, (b, c)) = rayon::join(
        || columns_at(&system.a, &system.values, &basis, rows, wires),
        || {
            rayon::join(
                || columns_at(&system.b, &system.values, &basis, rows, wires),
                || columns_at(&system.c, &system.values, &basis, rows, wires),
            )
        },
    );
    for s in 0..=kept {
        a[s] += basis[rows + s];
    }
    let mut k: Zeroizing<Vec<Fr>> = Zeroizing::new(
        (0..wires)
            .map(|s| toxic.beta * a[s] + toxic.alpha * b[s] + c[s])
            .collect(),
    );
    for x in k[system.n_public + 1..].iter_mut() {
        *x *= toxic.delta_inverse;
    }
    let h = lagrange(toxic.tau, double_root, root, n, 2 * n as u64, toxic.delta_inverse);

    let table = FixedBase::<g1::Config>::new(G1Projective::generator(), 4 * wires);
    let table2 = FixedBase::<g2::Config>::new(G2Projective::generator(), wires);
    let mut single: [Vec<G1>; 3] = [toxic.alpha, toxic.beta, toxic.delta].map(|x| table.multiply(&[x]));
    let mut pair: [Vec<G2>; 2] = [toxic.beta, toxic.delta].map(|x| table2.multiply(&[x]));
    let one2 = Pt::from_projective(&G2Projective::generator());
    let points_a = table.multiply(&a);
    let points_b1 = table.multiply(&b);
    let points_b2 = table2.multiply(&b);
    let points_k = table.multiply(&k);
    let points_h = table.multiply(&h);
    let (ic, points_c) = points_k.split_at(system.n_public + 1);
    let key = VerifyingKey::new(
        single[0].remove(0),
        pair[0].remove(0),
        one2,
        pair[1].remove(0),
        ic.to_vec(),
    )?;

    let extra = kept as u32 + 1;
    let form = |matrix: u32, forms: &'_ Forms| -> Vec<(u32, u32, u32, Fr)> {
        (0..rows)
            .flat_map(|row| forms.row(row).map(move |(w, k)| (matrix, row as u32, w, k)))
            .map(|(m, row, w, k)| (m, row, w, system.values[k as usize]))
            .collect()
    };
    let list_a = form(0, &system.a);
    let list_b = form(1, &system.b);
    let n_coefs = (list_a.len() + list_b.len()) as u64 + u64::from(extra);
    ensure!(n_coefs < 1 << 32, "too many coefficients");
    let mut coefs = list_a
        .into_iter()
        .chain(list_b)
        .chain((0..extra).map(|s| (0, rows as u32 + s, s, Fr::ONE)));
    let circuit_hash = Sha512::digest(std::fs::read(r1cs_path)?);
    write(
        zkey_path,
        KeyParts {
            key: &key,
            beta1: single[1].remove(0),
            delta1: single[2].remove(0),
            n_vars: wires,
            domain: n,
            coefs: &mut coefs,
            n_coefs: n_coefs as u32,
            a: &points_a,
            b1: &points_b1,
            b2: &points_b2,
            c: points_c,
            h: &points_h,
            circuit_hash: circuit_hash.into(),
        },
    )
}
