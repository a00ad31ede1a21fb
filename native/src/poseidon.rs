// SPDX-License-Identifier: GPL-3.0-or-later
//! Poseidon over BN254's scalar field with circomlib's parameters, widths 2 to 17.
//!
//! A partial round puts one element through the S-box and all through the matrix:
//! seen from that element it is a linear filter.  With the others in the filter's coordinates (controller form, once per
//! width) they are the last values of one sequence, and a round is two inner products, each reduced once.  The products
//! inside pairs of neighbours, which both take, are those of the round before last but for the newest and the oldest.

use crate::ensure;
use crate::error::Result;
use crate::filter::{apply, column, controller, multiply, solve, Matrix};
use crate::inner_product::{cross, pairs, Row};
pub use crate::poseidon_constants::MAX_WIDTH;
use crate::poseidon_constants::{cauchy, fifth, Grain, FULL_HALF, PARTIAL};
#[cfg(lanes)]
use crate::simd;
use ark_bn254::Fr;
use ark_ff::{AdditiveGroup, BigInt, PrimeField};
use rayon::prelude::*;
use std::sync::OnceLock;

const MAX_PARTIAL: usize = 70;
/// So few blocks are faster one by one than eight at once.
#[cfg(lanes)]
const LEAST_LANES: usize = 2;

/// Everything one width needs.
pub struct Parameters {
    width: usize,
    before: Vec<Vec<Fr>>,
    after: Vec<Vec<Fr>>,
    dense: Rows,
    /// What the third element gives to all, where there is one.
    third: Vec<Fr>,
    partial: Vec<Fr>,
    /// The matrix, and from it into the filter's coordinates.
    enter: Rows,
    /// The next first element is this times the S-box's output,
    straight: Fr,
    /// and this times the sequence, newest first.
    output: Row,
    /// What of the sequence is added to the S-box's output to give its next value.
    feedback: Row,
    /// The matrix after the way back.
    leave: Rows,
    #[cfg(lanes)]
    lanes: OnceLock<simd::poseidon::Tables>,
}

type Rows = Vec<Row>;

fn rows(matrix: &Matrix) -> Rows {
    matrix.iter().map(|row| Row::new(row)).collect()
}

#[inline(always)]
fn apply_rows(matrix: &Rows, state: &[Fr], out: &mut [Fr]) {
    let cross = cross(state);
    for (o, row) in out.iter_mut().zip(matrix) {
        *o = row.dot(state, &cross, None);
    }
}

impl Parameters {
    fn new(width: usize) -> Self {
        let rounds = PARTIAL[width - 2];
        let mut grain = Grain::new(width, rounds);
        let mut constants: Vec<Vec<Fr>> = (0..2 * FULL_HALF + rounds)
            .map(|_| (0..width).map(|_| grain.constant()).collect())
            .collect();
        let dense = cauchy(width, &mut grain);
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
        let inner: Matrix = dense[1..].iter().map(|r| r[1..].to_vec()).collect();
        let (feedback, basis) = controller(&inner, &column(&dense, 0)[1..]);
        // (s_0; u) = diag(1, P) (s_0; h)
        let rest: Matrix = dense.iter().map(|r| r[1..].to_vec()).collect();
        let leave: Matrix = dense
            .iter()
            .zip(multiply(&rest, &basis))
            .map(|(d, r)| [&d[..1], &r].concat())
            .collect();
        let columns: Vec<Vec<Fr>> = (0..width).map(|j| solve(&basis, &column(&dense, j)[1..])).collect();
        let mut enter = vec![dense[0].clone()];
        enter.extend((0..width - 1).map(|i| columns.iter().map(|c| c[i]).collect()));
        Parameters {
            width,
            before: constants[..FULL_HALF].to_vec(),
            after: constants[FULL_HALF + rounds..].to_vec(),
            dense: rows(&dense),
            third: dense.iter().filter_map(|row| row.get(2).copied()).collect(),
            partial,
            enter: rows(&enter),
            straight: leave[0][0],
            output: Row::new(&leave[0][1..]),
            feedback: Row::new(&feedback),
            leave: rows(&leave),
            #[cfg(lanes)]
            lanes: OnceLock::new(),
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
        full_round(&self.dense, &self.before[0], state, next);
        self.after_first_round(state, next);
    }

    fn after_first_round(&self, state: &mut [Fr], next: &mut [Fr]) {
        for (k, constants) in self.before.iter().enumerate().skip(1) {
            let matrix = if k + 1 < FULL_HALF { &self.dense } else { &self.enter };
            full_round(matrix, constants, state, next);
        }
        self.partial_rounds(state, next);
        for constants in &self.after {
            full_round(&self.dense, constants, state, next);
        }
    }

    /// What the permutations of (0, key, x, fourth, 0, ..) have in common after the first round, for width 17.
    pub fn shared_by_blocks(&self, key: Fr, fourth: Fr) -> [Fr; MAX_WIDTH] {
        assert_eq!(self.width, MAX_WIDTH, "width");
        let mut state = [Fr::ZERO; MAX_WIDTH];
        state[1] = key;
        state[3] = fourth;
        for (x, c) in state.iter_mut().zip(&self.before[0]) {
            *x = fifth(*x + c);
        }
        state[2] = Fr::ZERO;
        let mut shared = [Fr::ZERO; MAX_WIDTH];
        apply_rows(&self.dense, &state, &mut shared);
        shared
    }

    /// The permutation of (0, key, x, fourth, 0, ..) from [`Parameters::shared_by_blocks`].
    pub fn block(&self, shared: &[Fr; MAX_WIDTH], x: Fr) -> [Fr; MAX_WIDTH] {
        let fifth = fifth(x + self.before[0][2]);
        let mut state = *shared;
        for (s, entry) in state.iter_mut().zip(&self.third) {
            *s += *entry * fifth;
        }
        self.after_first_round(&mut state, &mut [Fr::ZERO; MAX_WIDTH]);
        state
    }

    /// Elements 1 to 16 of the permutations of (0, key, x, fourth, 0, ..) for every x, one after the other, for width 17.
    pub fn blocks(&self, key: Fr, fourth: Fr, xs: &[u64]) -> Vec<BigInt<4>> {
        let shared = self.shared_by_blocks(key, fourth);
        let alone = |x: &u64| {
            self.block(&shared, Fr::from(*x))
                .into_iter()
                .skip(1)
                .map(|x| x.into_bigint())
        };
        #[cfg(lanes)]
        if simd::available() && xs.len() >= LEAST_LANES {
            let tables = self.lanes.get_or_init(|| self.tables());
            return xs
                .par_chunks(simd::LANES)
                .flat_map_iter(|part| {
                    if part.len() < LEAST_LANES {
                        return part.iter().flat_map(alone).collect();
                    }
                    let all = std::array::from_fn(|k| Fr::from(part[k.min(part.len() - 1)]));
                    // SAFETY: the processor has what it needs.
                    let mut made = unsafe { tables.blocks(&shared, &all) };
                    made.truncate(part.len() * (MAX_WIDTH - 1));
                    made
                })
                .collect();
        }
        xs.par_iter().flat_map_iter(alone).collect()
    }

    #[cfg(lanes)]
    fn tables(&self) -> simd::poseidon::Tables {
        let plain = |rows: &Rows| rows.iter().map(Row::plain).collect();
        simd::poseidon::Tables::new(&simd::poseidon::Parts {
            before: &self.before,
            after: &self.after,
            dense: plain(&self.dense),
            enter: plain(&self.enter),
            leave: plain(&self.leave),
            third: &self.third,
            partial: &self.partial,
            straight: self.straight,
            output: self.output.plain(),
            feedback: self.feedback.plain(),
        })
    }

    /// All partial rounds on (s_0; h).
    fn partial_rounds(&self, state: &mut [Fr], next: &mut [Fr]) {
        let others = self.width - 1;
        let (last, rounds) = self.partial.split_last().expect("there are partial rounds");
        // The sequence grows downwards, so its newest values stand in order.
        let mut sequence = [Fr::ZERO; MAX_PARTIAL + MAX_WIDTH];
        let mut at = rounds.len();
        sequence[at..at + others].copy_from_slice(&state[1..]);
        // products[k] of sequence[k] and [k + 1]; their sums over the pairs of the window now, and one place earlier.
        let mut products = [Fr::ZERO; MAX_PARTIAL + MAX_WIDTH];
        let paired = pairs(others);
        for k in at..at + 2 * paired {
            products[k] = sequence[k] * sequence[k + 1];
        }
        let mut crosses: [Fr; 2] = [0, 1].map(|k| (0..paired).map(|j| products[at + k + 2 * j]).sum());
        let mut first = state[0];
        for c in rounds {
            let x = fifth(first + c);
            let newest = &sequence[at..at + others];
            let value = x + self.feedback.dot(newest, &crosses[0], None);
            first = self.output.dot(newest, &crosses[0], Some((&self.straight, &x)));
            at -= 1;
            sequence[at] = value;
            if paired > 0 {
                products[at] = value * sequence[at + 1];
                crosses = [crosses[1] + products[at] - products[at + 2 * paired], crosses[0]];
            }
        }
        state[0] = fifth(first + last);
        state[1..].copy_from_slice(&sequence[at..at + others]);
        apply_rows(&self.leave, state, next);
        state.copy_from_slice(next);
    }
}

#[inline(always)]
fn full_round(matrix: &Rows, constants: &[Fr], state: &mut [Fr], next: &mut [Fr]) {
    for (x, c) in state.iter_mut().zip(constants) {
        *x = fifth(*x + c);
    }
    apply_rows(matrix, state, next);
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
    use ark_ff::Field;

    #[test]
    fn circomlib_vector() {
        let got = hash(&[Fr::from(1u64), Fr::from(2u64)]).unwrap();
        let want = "7853200120776062878684798364095072458815029376092732009249414926327459813530";
        assert_eq!(got.to_string(), want);
    }

    /// The rounds as the paper has them.
    fn plain(state: &mut [Fr]) {
        let width = state.len();
        let rounds = PARTIAL[width - 2];
        let mut grain = Grain::new(width, rounds);
        let constants: Vec<Fr> = (0..(2 * FULL_HALF + rounds) * width)
            .map(|_| grain.constant())
            .collect();
        let dense = cauchy(width, &mut grain);
        for (round, constants) in constants.chunks(width).enumerate() {
            let full = round < FULL_HALF || round >= FULL_HALF + rounds;
            for (i, (x, c)) in state.iter_mut().zip(constants).enumerate() {
                *x += c;
                if full || i == 0 {
                    *x = x.pow([5]);
                }
            }
            let before = state.to_vec();
            for (x, row) in state.iter_mut().zip(&dense) {
                *x = row.iter().zip(&before).map(|(a, b)| *a * b).sum();
            }
        }
    }

    #[test]
    fn filter_and_plain_rounds_agree_in_every_width() {
        for width in 2..=MAX_WIDTH {
            for start in [vec![Fr::ZERO; width], crate::scalars::random(width).unwrap()] {
                let (mut got, mut want) = (start.clone(), start);
                Parameters::of(width).unwrap().permute(&mut got);
                plain(&mut want);
                assert_eq!(got, want, "width {width}");
            }
        }
    }

    #[test]
    fn blocks_are_permutations() {
        let x = crate::scalars::random(2).unwrap();
        let wide = Parameters::of(17).unwrap();
        let mut state = [Fr::ZERO; 17];
        (state[1], state[2], state[3]) = (x[0], x[1], x[0]);
        wide.permute(&mut state);
        assert_eq!(wide.block(&wide.shared_by_blocks(x[0], x[0]), x[1]), state);
    }

    #[test]
    fn blocks_side_by_side_are_those_alone() {
        let wide = Parameters::of(17).unwrap();
        let mut keys = crate::scalars::random(2).unwrap();
        keys.extend([Fr::ZERO, Fr::ONE, -Fr::ONE]);
        for key in keys {
            let shared = wide.shared_by_blocks(key, key);
            for n in [0usize, 1, 2, 7, 8, 9, 23, 40] {
                let xs: Vec<u64> = (0..n as u64).map(|k| (k % 3) << 32 | k).chain([]).collect();
                let want: Vec<BigInt<4>> = xs
                    .iter()
                    .flat_map(|x| wide.block(&shared, Fr::from(*x)).into_iter().skip(1))
                    .map(|x| x.into_bigint())
                    .collect();
                assert_eq!(wide.blocks(key, key, &xs), want, "{n} blocks");
            }
        }
    }

    #[test]
    fn widths_are_bounded() {
        assert!(hash(&[]).is_err());
        assert!(hash(&[Fr::ZERO; 17]).is_err());
        assert!(hash(&[Fr::ZERO; 16]).is_ok());
    }
}
