// SPDX-License-Identifier: GPL-3.0-or-later
//! Poseidon's numbers of rounds, and where its constants come from: the Grain LFSR, and the matrices that it gives.

use crate::filter::Matrix;
use ark_bn254::Fr;
use ark_ff::{BigInt, BigInteger, Field, PrimeField};

pub const FULL_HALF: usize = 4;
/// Partial rounds by width, from 2 on.
pub const PARTIAL: [usize; 16] = [56, 57, 56, 60, 60, 63, 64, 63, 60, 66, 60, 65, 70, 60, 64, 68];
pub const MAX_WIDTH: usize = 17;

/// The S-box.
#[inline(always)]
pub fn fifth(x: Fr) -> Fr {
    x.square().square() * x
}

/// Self-shrinking Grain LFSR of the Poseidon paper, appendix F.
pub struct Grain {
    state: [bool; 80],
    at: usize,
}

impl Grain {
    pub fn new(width: usize, partial: usize) -> Self {
        let mut seed = Vec::with_capacity(80);
        let fields = [
            (1, 2),
            (0, 4),
            (254, 12),
            (width, 12),
            (2 * FULL_HALF, 10),
            (partial, 10),
        ];
        for (value, len) in fields {
            seed.extend((0..len).rev().map(|i| value >> i & 1 == 1));
        }
        seed.resize(80, true);
        let mut grain = Grain {
            state: seed.try_into().expect("eighty bits"),
            at: 0,
        };
        for _ in 0..160 {
            grain.step();
        }
        grain
    }

    fn step(&mut self) -> bool {
        let tap = |k: usize| self.state[(self.at + k) % 80];
        let new = tap(62) ^ tap(51) ^ tap(38) ^ tap(23) ^ tap(13) ^ tap(0);
        self.state[self.at] = new;
        self.at = (self.at + 1) % 80;
        new
    }

    fn bit(&mut self) -> bool {
        while !self.step() {
            self.step();
        }
        self.step()
    }

    fn draw(&mut self) -> BigInt<4> {
        let mut n = BigInt::<4>::default();
        for _ in 0..254 {
            n <<= 1u32;
            n.0[0] |= self.bit() as u64;
        }
        n
    }

    /// Round constants reject values >= r.
    pub fn constant(&mut self) -> Fr {
        loop {
            if let Some(x) = Fr::from_bigint(self.draw()) {
                return x;
            }
        }
    }

    /// Matrix elements are reduced.
    fn reduced(&mut self) -> Fr {
        let mut n = self.draw();
        if n >= Fr::MODULUS {
            n.sub_with_borrow(&Fr::MODULUS);
        }
        Fr::from_bigint(n).expect("below r")
    }
}

/// The matrix of a width: the first Cauchy matrix that the generator gives.
pub fn cauchy(width: usize, grain: &mut Grain) -> Matrix {
    loop {
        let points: Vec<Fr> = (0..2 * width).map(|_| grain.reduced()).collect();
        let distinct = (0..points.len()).all(|i| !points[..i].contains(&points[i]));
        let (xs, ys) = points.split_at(width);
        let entries: Option<Matrix> = xs
            .iter()
            .map(|x| ys.iter().map(|y| (*x + y).inverse()).collect())
            .collect();
        if let (true, Some(matrix)) = (distinct, entries) {
            return matrix;
        }
    }
}
