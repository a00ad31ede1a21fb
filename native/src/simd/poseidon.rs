// SPDX-License-Identifier: GPL-3.0-or-later
//! Eight Poseidon permutations of width 17 side by side, on the arithmetic of `fr`.
//!
//! The products of a round are halved (Winograd, 1968): x c + x' c' = (x + c') (x' + c) - x x' - c c', where all rows of a matrix
//! share x x', and c c' is a constant.  To a sum of 17 products, reduced to below 1.25 r, a round adds one element below 1.25 r or a
//! constant below r.

use super::fr::*;
use super::intrinsics::*;
use super::LANES;
use crate::poseidon_constants::{fifth, MAX_WIDTH};
use ark_bn254::Fr;
use ark_ff::{BigInt, PrimeField};

const OTHERS: usize = MAX_WIDTH - 1;
const HALF: usize = OTHERS / 2;

/// The inner product with constants, and what is added to it.
struct Row {
    /// In pairs the other way round; the last of an odd number is by itself.
    factors: Vec<Limbs>,
    /// Minus the products inside pairs, and the addend where a reduction leaves it.
    base: [i64; COLUMNS],
}

impl Row {
    fn new(factors: &[Limbs], addend: &Limbs) -> Row {
        let mut base = [0i64; COLUMNS];
        for pair in factors.chunks_exact(2) {
            for (i, a) in pair[0].iter().enumerate() {
                for (j, b) in pair[1].iter().enumerate() {
                    let product = u128::from(*a) * u128::from(*b);
                    base[i + j] -= (product as u64 & MASK) as i64;
                    base[i + j + 1] -= (product >> BITS) as i64;
                }
            }
        }
        for (column, limb) in base[STEPS..].iter_mut().zip(addend) {
            *column += *limb as i64;
        }
        let turned = factors.chunks(2).flat_map(|pair| pair.iter().rev().copied());
        Row {
            factors: turned.collect(),
            base,
        }
    }
}

type Layer = Vec<Row>;

/// What all rounds need, in limbs.
pub struct Tables {
    third: Vec<Limbs>,
    /// The matrix of each full round but the first, with the constants of the round after it.
    before: Vec<Layer>,
    after: Vec<Layer>,
    /// The last one, which leads out of Montgomery's form; without element 0.
    last: Layer,
    /// Constants of the partial rounds but the first.
    partial: Vec<Limbs>,
    straight: Limbs,
    output: Row,
    feedback: Row,
    /// Of the round after the first.
    second: Vec<Fr>,
    /// Of the element that differs, in the first round.
    constant: Fr,
}

/// The parts of a width's parameters, as `crate::poseidon` has them.
pub struct Parts<'a> {
    pub before: &'a [Vec<Fr>],
    pub after: &'a [Vec<Fr>],
    pub dense: Vec<Vec<Fr>>,
    pub enter: Vec<Vec<Fr>>,
    pub leave: Vec<Vec<Fr>>,
    pub third: &'a [Fr],
    pub partial: &'a [Fr],
    pub straight: Fr,
    pub output: Vec<Fr>,
    pub feedback: Vec<Fr>,
}

fn all(values: &[Fr]) -> Vec<Limbs> {
    values.iter().map(limbs).collect()
}

fn layer(matrix: &[Vec<Fr>], addends: &[Fr]) -> Layer {
    let addend = |k: usize| addends.get(k).map_or([0; LIMBS], limbs);
    let row = |(k, r): (usize, &Vec<Fr>)| Row::new(&all(r), &addend(k));
    matrix.iter().enumerate().map(row).collect()
}

impl Tables {
    pub fn new(parts: &Parts<'_>) -> Tables {
        let (first, rest) = parts.partial.split_first().expect("there are partial rounds");
        let (entered, dense) = (parts.before.len() - 1, &parts.dense);
        let plain = |x: &Fr| split(&x.into_bigint().0);
        Tables {
            third: all(parts.third),
            before: (1..=entered)
                .map(|k| match parts.before.get(k + 1) {
                    Some(constants) => layer(dense, constants),
                    None => layer(&parts.enter, std::slice::from_ref(first)),
                })
                .collect(),
            after: (0..parts.after.len())
                .map(|k| layer(if k == 0 { &parts.leave } else { dense }, &parts.after[k]))
                .collect(),
            last: dense[1..]
                .iter()
                .map(|row| Row::new(&row.iter().map(plain).collect::<Vec<_>>(), &[0; LIMBS]))
                .collect(),
            partial: all(rest),
            straight: limbs(&parts.straight),
            output: Row::new(&all(&parts.output), &[0; LIMBS]),
            feedback: Row::new(&all(&parts.feedback), &[0; LIMBS]),
            second: parts.before[1].clone(),
            constant: parts.before[0][2],
        }
    }

    /// For each x: elements 1 to 16 of the permutation of (0, key, x, 0, ..), canonical; `shared` is
    /// [`crate::poseidon::Parameters::shared_by_blocks`] of the key.
    ///
    /// # Safety
    /// [`super::available`] said yes.
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    pub unsafe fn blocks(&self, shared: &[Fr; MAX_WIDTH], xs: &[Fr; LANES]) -> Vec<BigInt<4>> {
        let fifths = xs.map(|x| limbs(&fifth(x + self.constant)));
        let s: Lanes = std::array::from_fn(|k| lanes_of(&fifths.map(|f| f[k])));
        let mut state: [Lanes; MAX_WIDTH] = std::array::from_fn(|j| {
            Sum::of(&[0; COLUMNS])
                .product(&broadcast(&self.third[j]), &s)
                .add(&broadcast(&limbs(&(shared[j] + self.second[j]))))
                .reduced()
        });
        for layer in &self.before {
            full_round(layer, &mut state);
        }
        self.partial_rounds(&mut state);
        for (k, layer) in self.after.iter().enumerate() {
            if k == 0 {
                apply(layer, &mut state);
            } else {
                full_round(layer, &mut state);
            }
        }
        state.iter_mut().for_each(|x| *x = power(x));
        apply(&self.last, &mut state);
        canonical(&state[..OTHERS])
    }

    /// All partial rounds on (s_0; h), whose last S-box is applied, too.
    #[inline]
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    fn partial_rounds(&self, state: &mut [Lanes; MAX_WIDTH]) {
        let zero = [_mm512_setzero_si512(); LIMBS];
        // The sequence grows downwards, so its newest values stand in order.
        let mut sequence = vec![zero; self.partial.len() + MAX_WIDTH];
        let mut at = self.partial.len();
        sequence[at..at + OTHERS].copy_from_slice(&state[1..]);
        // Products of sequence[k] and [k + 1], at k modulo 17; sums over the pairs of the window now, and one place earlier.
        let mut products = [[_mm512_setzero_si512(); COLUMNS]; MAX_WIDTH];
        let mut crosses = [[_mm512_setzero_si512(); COLUMNS]; 2];
        for k in 0..OTHERS {
            let product = columns_of(&sequence[at + k], &sequence[at + k + 1]);
            products[(at + k) % MAX_WIDTH] = product;
            crosses[k % 2] = added(&crosses[k % 2], &product);
        }
        let mut first = state[0];
        for constant in &self.partial {
            let newest = &sequence[at..at + OTHERS];
            // What does not depend on the S-box stands between its steps: each waits for the one before.
            let (output, feedback) = (&self.output, &self.feedback);
            let square = squared(&first);
            let value = Sum::less(&feedback.base, &crosses[0]).pairs::<1>(&feedback.factors[..HALF], &newest[..HALF]);
            let fourth = squared(&square);
            let value = value.pairs::<2>(&feedback.factors[HALF..], &newest[HALF..]);
            let x = multiplied(&fourth, &first);
            let next = Sum::less(&output.base, &crosses[0]).pairs::<3>(&output.factors, newest);
            let value = value.add(&x).reduced();
            first = next
                .product(&broadcast(&self.straight), &x)
                .add(&broadcast(constant))
                .reduced();
            at -= 1;
            sequence[at] = value;
            let product = columns_of(&value, &sequence[at + 1]);
            let gone = &products[(at + OTHERS) % MAX_WIDTH];
            crosses = [subtracted(&added(&crosses[1], &product), gone), crosses[0]];
            products[at % MAX_WIDTH] = product;
        }
        state[0] = power(&first);
        state[1..].copy_from_slice(&sequence[at..at + OTHERS]);
    }
}

/// The layer's inner products with all of the state, which take the place of its first elements.
#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
fn apply(layer: &[Row], state: &mut [Lanes; MAX_WIDTH]) {
    let from = *state;
    let mut inside = Sum::of(&[0; COLUMNS]);
    for pair in from.chunks_exact(2) {
        inside = inside.product(&pair[0], &pair[1]);
    }
    let cross = inside.columns();
    for (out, row) in state.iter_mut().zip(layer) {
        *out = Sum::less(&row.base, &cross).pairs::<4>(&row.factors, &from).reduced();
    }
}

#[inline]
#[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
fn full_round(layer: &[Row], state: &mut [Lanes; MAX_WIDTH]) {
    for x in state.iter_mut() {
        *x = power(x);
    }
    apply(layer, state);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::available;
    use ark_ff::Field;

    /// As many quarters of r, less one, in limbs.
    fn quarters(count: u64) -> (Limbs, Fr) {
        let mut n = [0u64; 5];
        for (k, word) in Fr::MODULUS.0.iter().enumerate() {
            let product = u128::from(*word) * u128::from(count) + u128::from(n[k]);
            (n[k], n[k + 1]) = (product as u64, (product >> 64) as u64);
        }
        for k in 0..5 {
            n[k] = n[k] >> 2 | n.get(k + 1).unwrap_or(&0) << 62;
        }
        n[0] -= 1;
        assert_eq!(n[4], 0, "below 2^256");
        let words = [n[0], n[1], n[2], n[3]];
        (
            split(&words),
            Fr::from_le_bytes_mod_order(&words.map(u64::to_le_bytes).concat()),
        )
    }

    #[test]
    fn the_largest_elements_and_constants_fit() {
        if !available() {
            return;
        }
        let unscaled = Fr::from(2u64).pow([306]).inverse().unwrap();
        for count in [1, 4, 5, 9, 10] {
            let ((x, residue), (c, constant)) = (quarters(count), quarters(4));
            let row = Row::new(&[c; MAX_WIDTH], &c);
            // SAFETY: the processor has what it needs.
            let found = unsafe { of_equal(&row, &x) };
            let want = residue * constant * Fr::from(MAX_WIDTH as u64) * unscaled + constant;
            let all = vec![want.into_bigint(); LANES];
            assert_eq!(found, all, "{count} quarters");
        }
    }

    /// The row's product with an element that stands everywhere, lane by lane.
    #[cfg_attr(not(emulated), target_feature(enable = "avx512f,avx512ifma"))]
    unsafe fn of_equal(row: &Row, x: &Limbs) -> Vec<BigInt<4>> {
        let mut state = [broadcast(x); MAX_WIDTH];
        apply(std::slice::from_ref(row), &mut state);
        canonical(&[multiplied(&state[0], &broadcast(&limbs(&Fr::from(1u64))))])
    }
}
