// SPDX-License-Identifier: GPL-3.0-or-later
//! Generators of G1 of which nobody knows relations: try-and-increment over SHA-512 (the cofactor is 1).

use crate::curve::G1;
use ark_bn254::Fq;
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField};
use rayon::prelude::*;
use sha2::{Digest, Sha512};

/// Generator `index` of `domain`.
pub fn generator(domain: &[u8], index: u32) -> G1 {
    let mut attempt = 0u32;
    loop {
        let digest = Sha512::new()
            .chain_update(domain)
            .chain_update(index.to_be_bytes())
            .chain_update(attempt.to_be_bytes())
            .finalize();
        let x = Fq::from_be_bytes_mod_order(&digest);
        let square = x.square() * x + Fq::from(3u64);
        if let Some(root) = square.sqrt().filter(|y| *y != Fq::ZERO) {
            let odd = root.into_bigint().is_odd();
            let y = if odd == (digest[0] >> 7 == 1) { root } else { -root };
            return G1 { x, y };
        }
        attempt += 1;
    }
}

pub fn generators(domain: &[u8], count: u32) -> Vec<G1> {
    (0..count).into_par_iter().map(|j| generator(domain, j)).collect()
}
