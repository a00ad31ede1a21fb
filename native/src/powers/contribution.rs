// SPDX-License-Identifier: GPL-3.0-or-later
//! The second phase by one party: delta from 1 to a secret that nobody keeps.

use super::check::{one_1, one_2};
use super::combine::scale_all;
use crate::container::{write_atomically, Container, Cursor};
use crate::curve::{Pt, G1};
use crate::encoding::{g1_raw, g2_raw, put_g1_raw, put_g2_raw, G1_BYTES, G2_BYTES};
use crate::ensure;
use crate::error::{Error, Result};
use crate::fixed_base::FixedBase;
use crate::scalars;
use crate::zkey::points_g1;
use ark_bn254::{g1, g2, Fr, G1Projective, G2Projective};
use ark_ec::PrimeGroup;
use ark_ff::{AdditiveGroup, Field};
use std::path::Path;
use zeroize::Zeroizing;

/// Two fields, three counts, alpha_1, beta_1, beta_2, gamma_2: what stands before delta in section 2.
const DELTA_1: usize = 2 * 36 + 12 + 2 * G1_BYTES + 2 * G2_BYTES;
const DELTA_2: usize = DELTA_1 + G1_BYTES;
const C: u32 = 8;
const H: u32 = 9;
const CONTRIBUTIONS: u32 = 10;
/// Hash of the circuit, and how many contributions follow it.
const NO_CONTRIBUTIONS: usize = 64 + 4;

/// Whoever knows it can forge.  Wiped when dropped.
fn draw() -> Result<Zeroizing<Vec<Fr>>> {
    let secret = Zeroizing::new(scalars::random(1)?);
    ensure!(
        secret[0] != Fr::ZERO && secret[0] != Fr::ONE && secret[0] != -Fr::ONE,
        "the random source returned 0 or 1"
    );
    Ok(secret)
}

/// Write a key of its own from an initial one, with delta from the operating system.  Sound for whoever ran it, and for
/// those who trust that it forgot delta; snarkjs' list of contributions stays empty, as it is for many parties.
pub fn contribute(initial: &Path, zkey: &Path) -> Result<()> {
    let file = Container::read(initial, b"zkey", 1)?;
    apply(&file, zkey).map_err(|e| Error(format!("{}: {e}", initial.display())))
}

fn apply(file: &Container, zkey: &Path) -> Result<()> {
    ensure!(file.array(1, 1, 4)? == 1u32.to_le_bytes(), "not a Groth16 key");
    let mut header = file.array(2, 1, DELTA_2 + G2_BYTES)?.to_vec();
    let mut cursor = Cursor::new(&header[DELTA_1..]);
    let delta = (g1_raw(cursor.take(G1_BYTES)?)?, g2_raw(cursor.take(G2_BYTES)?)?);
    let list = file.section(CONTRIBUTIONS)?;
    ensure!(
        delta == (one_1(), one_2()) && list.len() == NO_CONTRIBUTIONS && list[64..] == [0; 4],
        "the key has contributions already: add yours with `snarkjs zkey contribute`"
    );
    let c = points_g1(file.section(C)?, "C")?;
    let h = points_g1(file.section(H)?, "H")?;
    ensure!(
        c.len() * G1_BYTES == file.section(C)?.len() && h.len() * G1_BYTES == file.section(H)?.len(),
        "sections 8 and 9 do not consist of points"
    );
    let secret = draw()?;
    let inverse = Zeroizing::new(vec![secret[0].inverse().expect("delta is not zero")]);
    let delta_1 = FixedBase::<g1::Config>::new(G1Projective::generator(), 1).multiply_one(&secret[0]);
    let delta_2 = FixedBase::<g2::Config>::new(G2Projective::generator(), 1).multiply_one(&secret[0]);
    put_g1_raw(&Pt::from_projective(&delta_1), &mut header[DELTA_1..]);
    put_g2_raw(&Pt::from_projective(&delta_2), &mut header[DELTA_2..]);
    let scaled = |points: &[G1]| -> Vec<u8> {
        let mut bytes = vec![0u8; points.len() * G1_BYTES];
        for (p, out) in scale_all::<g1::Config>(points, &inverse[0])
            .iter()
            .zip(bytes.chunks_exact_mut(G1_BYTES))
        {
            put_g1_raw(p, out);
        }
        bytes
    };
    let (c, h) = (scaled(&c), scaled(&h));
    write_atomically(zkey, 0o644, b"zkey", 1, 10, |w| {
        for kind in 1..=CONTRIBUTIONS {
            let body: &[u8] = match kind {
                2 => &header,
                C => &c,
                H => &h,
                _ => file.section(kind)?,
            };
            w.section(kind, body.len() as u64)?;
            w.put(body)?;
        }
        Ok(())
    })
}
