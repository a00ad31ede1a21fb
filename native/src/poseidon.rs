// SPDX-License-Identifier: GPL-3.0-or-later
//! Poseidon over BN254's scalar field with circomlib's parameters, widths 2 to 17.
//!
//! Constants come from the Grain LFSR.  Partial rounds are rewritten once per width: constants of untouched elements are
//! pushed behind the next matrix, and every matrix but the last becomes a sparse one (first row, first column, diagonal).

use crate::ensure;
use crate::error::Result;
use ark_bn254::Fr;
use ark_ff::{AdditiveGroup, BigInt, BigInteger, Field, PrimeField};
use std::sync::OnceLock;

const FULL_HALF: usize = 4;
const PARTIAL: [usize; 16] = [56, 57, 56, 60, 60, 63, 64, 63, 60, 66, 60, 65, 70, 60, 64, 68];
pub const MAX_WIDTH: usize = 17;

/// Self-shrinking Grain LFSR of the Poseidon paper, appendix F.
struct Grain {
    state: [bool; 80],
    at: usize,
}

impl Grain {
    fn new(width: usize, partial: usize) -> Self {
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
    fn constant(&mut self) -> Fr {
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

type Matrix = Vec<Vec<Fr>>;

struct Sparse {
    /// First row.
    row: Vec<Fr>,
    /// First column below the corner.
    column: Vec<Fr>,
}

/// Everything one width needs.
pub struct Parameters {
    width: usize,
    before: Vec<Vec<Fr>>,
    after: Vec<Vec<Fr>>,
    dense: Matrix,
    partial: Vec<Fr>,
    sparse: Vec<Sparse>,
    last: Matrix,
}

fn multiply(a: &Matrix, b: &Matrix) -> Matrix {
    let n = b[0].len();
    a.iter()
        .map(|row| {
            (0..n)
                .map(|j| row.iter().zip(b).map(|(x, r)| *x * r[j]).sum())
                .collect()
        })
        .collect()
}

/// Solve q x = w by elimination.  The minors of these Cauchy matrices are invertible.
fn solve(q: &[Vec<Fr>], w: &[Fr]) -> Vec<Fr> {
    let n = w.len();
    let mut a: Matrix = q
        .iter()
        .zip(w)
        .map(|(row, x)| row.iter().copied().chain([*x]).collect())
        .collect();
    for i in 0..n {
        let pivot = (i..n).find(|&k| a[k][i] != Fr::ZERO).expect("minor is invertible");
        a.swap(i, pivot);
        let inverse = a[i][i].inverse().expect("pivot is not zero");
        a[i].iter_mut().skip(i).for_each(|x| *x *= inverse);
        let row = a[i].clone();
        for (k, other) in a.iter_mut().enumerate() {
            let factor = other[i];
            if k != i && factor != Fr::ZERO {
                for (x, y) in other.iter_mut().zip(&row).skip(i) {
                    *x -= factor * y;
                }
            }
        }
    }
    a.iter().map(|row| row[n]).collect()
}

fn apply(matrix: &Matrix, state: &[Fr], out: &mut [Fr]) {
    for (o, row) in out.iter_mut().zip(matrix) {
        *o = row.iter().zip(state).map(|(a, x)| *a * x).sum();
    }
}

impl Parameters {
    fn new(width: usize) -> Self {
        let rounds = PARTIAL[width - 2];
        let mut grain = Grain::new(width, rounds);
        let mut constants: Vec<Vec<Fr>> = (0..2 * FULL_HALF + rounds)
            .map(|_| (0..width).map(|_| grain.constant()).collect())
            .collect();
        let dense: Matrix = loop {
            let points: Vec<Fr> = (0..2 * width).map(|_| grain.reduced()).collect();
            let distinct = (0..points.len()).all(|i| !points[..i].contains(&points[i]));
            let (xs, ys) = points.split_at(width);
            let entries: Option<Matrix> = xs
                .iter()
                .map(|x| ys.iter().map(|y| (*x + y).inverse()).collect())
                .collect();
            if let (true, Some(matrix)) = (distinct, entries) {
                break matrix;
            }
        };
        let mut partial = Vec::with_capacity(rounds);
        for i in FULL_HALF..FULL_HALF + rounds {
            let mut rest = constants[i].clone();
            partial.push(rest[0]);
            rest[0] = Fr::ZERO;
            let mut moved = vec![Fr::ZERO; width];
            apply(&dense, &rest, &mut moved);
            for (c, m) in constants[i + 1].iter_mut().zip(&moved) {
                *c += m;
            }
        }
        let mut sparse = Vec::with_capacity(rounds - 1);
        let mut matrix = dense.clone();
        for _ in 0..rounds - 1 {
            let block: Matrix = matrix[1..].iter().map(|r| r[1..].to_vec()).collect();
            let below: Vec<Fr> = matrix[1..].iter().map(|r| r[0]).collect();
            sparse.push(Sparse {
                row: matrix[0].clone(),
                column: solve(&block, &below),
            });
            let mut next: Matrix = vec![Vec::with_capacity(width); width];
            let right: Matrix = dense.iter().map(|r| r[1..].to_vec()).collect();
            for ((n, d), r) in next.iter_mut().zip(&dense).zip(multiply(&right, &block)) {
                n.push(d[0]);
                n.extend(r);
            }
            matrix = next;
        }
        Parameters {
            width,
            before: constants[..FULL_HALF].to_vec(),
            after: constants[FULL_HALF + rounds..].to_vec(),
            dense,
            partial,
            sparse,
            last: matrix,
        }
    }

    /// The parameters of a width in 2..=17, computed on first use.
    pub fn of(width: usize) -> Result<&'static Parameters> {
        static TABLES: [OnceLock<Parameters>; MAX_WIDTH - 1] = [const { OnceLock::new() }; MAX_WIDTH - 1];
        ensure!(
            (2..=MAX_WIDTH).contains(&width),
            "Poseidon has widths 2 to {MAX_WIDTH} here, not {width}"
        );
        Ok(TABLES[width - 2].get_or_init(|| Parameters::new(width)))
    }

    /// The permutation.
    pub fn permute(&self, state: &mut [Fr]) {
        assert_eq!(state.len(), self.width, "width");
        let mut buffer = [Fr::ZERO; MAX_WIDTH];
        let next = &mut buffer[..self.width];
        for constants in &self.before {
            full_round(&self.dense, constants, state, next);
        }
        for (i, c) in self.partial.iter().enumerate() {
            state[0] = fifth(state[0] + c);
            if let Some(Sparse { row, column }) = self.sparse.get(i) {
                let corner = state[0];
                state[0] = row.iter().zip(state.iter()).map(|(a, x)| *a * x).sum();
                for (x, a) in state[1..].iter_mut().zip(column) {
                    *x += *a * corner;
                }
            } else {
                apply(&self.last, state, next);
                state.copy_from_slice(next);
            }
        }
        for constants in &self.after {
            full_round(&self.dense, constants, state, next);
        }
    }
}

fn fifth(x: Fr) -> Fr {
    x.square().square() * x
}

fn full_round(matrix: &Matrix, constants: &[Fr], state: &mut [Fr], next: &mut [Fr]) {
    for (x, c) in state.iter_mut().zip(constants) {
        *x = fifth(*x + c);
    }
    apply(matrix, state, next);
    state.copy_from_slice(next);
}

/// circomlib's `Poseidon(n)`: element 0 of the permutation of [0, inputs...].
pub fn hash(inputs: &[Fr]) -> Result<Fr> {
    let parameters = Parameters::of(inputs.len() + 1)?;
    let mut state = [Fr::ZERO; MAX_WIDTH];
    let state = &mut state[..=inputs.len()];
    state[1..].copy_from_slice(inputs);
    parameters.permute(state);
    Ok(state[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circomlib_vector() {
        let got = hash(&[Fr::from(1u64), Fr::from(2u64)]).unwrap();
        let want = "7853200120776062878684798364095072458815029376092732009249414926327459813530";
        assert_eq!(got.to_string(), want);
    }

    #[test]
    fn widths_are_bounded() {
        assert!(hash(&[]).is_err());
        assert!(hash(&[Fr::ZERO; 17]).is_err());
        assert!(hash(&[Fr::ZERO; 16]).is_ok());
    }
}
