// SPDX-License-Identifier: GPL-3.0-or-later
//! Wire encodings: canonical big-endian scalars, uncompressed points, everything checked on the way in.

use crate::curve::{Pt, G1, G2};
use crate::error::{Error, Result};
use crate::{bail, ensure};
use ark_bn254::{Fq, Fq2, Fr};
use ark_ff::{BigInt, PrimeField};
use rayon::prelude::*;

pub const SCALAR: usize = 32;
pub const G1_BYTES: usize = 64;
pub const G2_BYTES: usize = 128;
/// Below this many items a parallel loop costs more than it brings.
const GRAIN: usize = 256;

fn limbs_be(bytes: &[u8]) -> BigInt<4> {
    let mut limbs = [0u64; 4];
    for (i, limb) in limbs.iter_mut().enumerate() {
        let at = 24 - 8 * i;
        *limb = u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    }
    BigInt(limbs)
}

fn limbs_le(bytes: &[u8]) -> BigInt<4> {
    let mut limbs = [0u64; 4];
    for (i, limb) in limbs.iter_mut().enumerate() {
        *limb = u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"));
    }
    BigInt(limbs)
}

fn put_be(n: &BigInt<4>, out: &mut [u8]) {
    for (i, limb) in n.0.iter().enumerate() {
        let at = 24 - 8 * i;
        out[at..at + 8].copy_from_slice(&limb.to_be_bytes());
    }
}

fn put_le(n: &BigInt<4>, out: &mut [u8]) {
    for (i, limb) in n.0.iter().enumerate() {
        out[8 * i..8 * i + 8].copy_from_slice(&limb.to_le_bytes());
    }
}

/// A canonical scalar from 32 big-endian bytes.
pub fn scalar(bytes: &[u8]) -> Result<Fr> {
    ensure!(
        bytes.len() == SCALAR,
        "a scalar has {SCALAR} bytes, not {}",
        bytes.len()
    );
    Fr::from_bigint(limbs_be(bytes)).ok_or_else(|| Error("a scalar is not canonical (>= r)".into()))
}

pub fn scalar_bytes(x: &Fr) -> [u8; 32] {
    let mut out = [0u8; 32];
    put_be(&x.into_bigint(), &mut out);
    out
}

/// A canonical scalar from 32 little-endian bytes, as the iden3 file formats hold them.
pub fn scalar_le(bytes: &[u8]) -> Result<Fr> {
    Fr::from_bigint(limbs_le(bytes)).ok_or_else(|| Error("a scalar is not canonical (>= r)".into()))
}

pub fn put_scalar_le(x: &Fr, out: &mut [u8]) {
    put_le(&x.into_bigint(), out);
}

/// Raw little-endian limbs of a value already in Montgomery form.
pub fn scalar_from_raw(bytes: &[u8]) -> Result<Fr> {
    let n = limbs_le(bytes);
    ensure!(n < Fr::MODULUS, "a field element is not reduced (>= r)");
    Ok(Fr::new_unchecked(n))
}

pub fn put_scalar_raw(x: &Fr, out: &mut [u8]) {
    put_le(&x.0, out);
}

fn base_raw(bytes: &[u8]) -> Result<Fq> {
    let n = limbs_le(bytes);
    ensure!(n < Fq::MODULUS, "a point coordinate is not reduced (>= p)");
    Ok(Fq::new_unchecked(n))
}

pub fn base_be(bytes: &[u8]) -> Result<Fq> {
    Fq::from_bigint(limbs_be(bytes)).ok_or_else(|| Error("a point coordinate is not canonical (>= p)".into()))
}

pub fn put_base_be(x: &Fq, out: &mut [u8]) {
    put_be(&x.into_bigint(), out);
}

/// Concatenated scalars.
pub fn scalars(bytes: &[u8]) -> Result<Vec<Fr>> {
    ensure!(bytes.len() % SCALAR == 0, "concatenated scalars are truncated");
    bytes.par_chunks_exact(SCALAR).with_min_len(GRAIN).map(scalar).collect()
}

pub fn scalars_bytes(values: &[Fr]) -> Vec<u8> {
    let mut out = vec![0u8; values.len() * SCALAR];
    out.par_chunks_exact_mut(SCALAR)
        .zip(values)
        .with_min_len(GRAIN)
        .for_each(|(o, x)| put_be(&x.into_bigint(), o));
    out
}

/// A point of G1 on the curve; 64 zero bytes are the identity.
pub fn g1(bytes: &[u8]) -> Result<G1> {
    ensure!(
        bytes.len() == G1_BYTES,
        "a G1 point has {G1_BYTES} bytes, not {}",
        bytes.len()
    );
    let p = Pt {
        x: base_be(&bytes[..32])?,
        y: base_be(&bytes[32..])?,
    };
    ensure!(p.is_identity() || p.on_curve(), "a point is not on the curve");
    Ok(p)
}

pub fn g1_proper(bytes: &[u8]) -> Result<G1> {
    let p = g1(bytes)?;
    ensure!(!p.is_identity(), "the identity point is refused");
    Ok(p)
}

pub fn g1_bytes(p: &G1) -> [u8; 64] {
    let mut out = [0u8; 64];
    put_base_be(&p.x, &mut out[..32]);
    put_base_be(&p.y, &mut out[32..]);
    out
}

/// Concatenated G1 points, the identity allowed.
pub fn g1s(bytes: &[u8]) -> Result<Vec<G1>> {
    ensure!(bytes.len() % G1_BYTES == 0, "concatenated points are truncated");
    bytes.par_chunks_exact(G1_BYTES).with_min_len(GRAIN).map(g1).collect()
}

/// Concatenated G1 points, the identity refused.
pub fn g1s_proper(bytes: &[u8]) -> Result<Vec<G1>> {
    let points = g1s(bytes)?;
    if let Some(at) = points.iter().position(Pt::is_identity) {
        bail!("point {at} is the identity, which is refused");
    }
    Ok(points)
}

pub fn g1s_bytes(points: &[G1]) -> Vec<u8> {
    let mut out = vec![0u8; points.len() * G1_BYTES];
    out.par_chunks_exact_mut(G1_BYTES)
        .zip(points)
        .with_min_len(GRAIN)
        .for_each(|(o, p)| o.copy_from_slice(&g1_bytes(p)));
    out
}

/// A point of G2 in the prime-order subgroup and not the identity: x.c1 || x.c0 || y.c1 || y.c0 (EIP-197).
pub fn g2_proper(bytes: &[u8]) -> Result<G2> {
    let p = g2_be(bytes)?;
    p.check_g2()?;
    Ok(p)
}

/// As [`g2_proper`] of a point that may lie outside the subgroup.
pub fn g2_on_twist(bytes: &[u8]) -> Result<G2> {
    let p = g2_be(bytes)?;
    ensure!(!p.is_identity(), "the G2 identity is refused");
    ensure!(p.on_twist(), "a G2 point is not on the curve");
    Ok(p)
}

fn g2_be(bytes: &[u8]) -> Result<G2> {
    ensure!(
        bytes.len() == G2_BYTES,
        "a G2 point has {G2_BYTES} bytes, not {}",
        bytes.len()
    );
    let part = |i: usize| base_be(&bytes[32 * i..32 * i + 32]);
    Ok(Pt {
        x: Fq2::new(part(1)?, part(0)?),
        y: Fq2::new(part(3)?, part(2)?),
    })
}

pub fn g2_bytes(p: &G2) -> [u8; 128] {
    let mut out = [0u8; 128];
    for (i, x) in [p.x.c1, p.x.c0, p.y.c1, p.y.c0].iter().enumerate() {
        put_base_be(x, &mut out[32 * i..32 * i + 32]);
    }
    out
}

/// A G1 point as snarkjs stores it: Montgomery limbs, little-endian; zeros are the identity.  On the curve.
pub fn g1_raw(bytes: &[u8]) -> Result<G1> {
    let p = Pt {
        x: base_raw(&bytes[..32])?,
        y: base_raw(&bytes[32..64])?,
    };
    ensure!(p.is_identity() || p.on_curve(), "a G1 point is not on the curve");
    Ok(p)
}

pub fn put_g1_raw(p: &G1, out: &mut [u8]) {
    put_le(&p.x.0, &mut out[..32]);
    put_le(&p.y.0, &mut out[32..64]);
}

/// A G2 point as snarkjs stores it: c0 before c1.  On the curve and in the subgroup; zeros are the identity.
pub fn g2_raw(bytes: &[u8]) -> Result<G2> {
    let p = g2_raw_on_curve(bytes)?;
    if !p.is_identity() {
        p.check_g2()?;
    }
    Ok(p)
}

/// As [`g2_raw`] without the subgroup check, which the caller owes.
pub fn g2_raw_on_curve(bytes: &[u8]) -> Result<G2> {
    let part = |i: usize| base_raw(&bytes[32 * i..32 * i + 32]);
    let p = Pt {
        x: Fq2::new(part(0)?, part(1)?),
        y: Fq2::new(part(2)?, part(3)?),
    };
    ensure!(p.is_identity() || p.on_twist(), "a G2 point is not on the curve");
    Ok(p)
}

pub fn put_g2_raw(p: &G2, out: &mut [u8]) {
    for (i, x) in [p.x.c0, p.x.c1, p.y.c0, p.y.c1].iter().enumerate() {
        put_le(&x.0, &mut out[32 * i..32 * i + 32]);
    }
}
