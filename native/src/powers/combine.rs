// SPDX-License-Identifier: GPL-3.0-or-later
//! Many short sums of multiples of shared points: the columns of a circuit's matrices over a Lagrange basis.
//!
//! A column has a few terms and a circuit has many columns, so that a multi-scalar multiplication each spends its time
//! on inversions.  Here the columns go through the windows together: all additions of a step share their inversions, and
//! the terms of a column share its doublings (Straus 1964).
//!
//! Poseidon's linear forms stand in three rows each, and in as many columns as they have wires.  So the points that a
//! column multiplies by one coefficient are added up first, and a point's table serves every column of its batch.

use crate::curve::{add_assign_all, double_all, Coordinate, Group, Pt};
use crate::linear::{MINUS_ONE, ONE};
use crate::msm::{add_limbs, bits, msm, reduce_buckets};
use ark_bn254::Fr;
use ark_ff::{BigInteger, Field, PrimeField};
use rayon::prelude::*;
use std::collections::HashMap;
use zeroize::Zeroizing;

/// Bits of a digit: of points that one term or a few use, and of those whose larger tables many share.  Both divide 64.
const NARROW: usize = 4;
const WIDE: usize = 8;
/// From this many terms a point on, the larger tables pay.
const SHARED: usize = 5;
/// Columns with more terms are summed alone: buckets beat tables there.
const LONG: usize = 1024;
/// Terms of the columns that go together: their tables fit into a cache of some megabytes.
const TOGETHER: usize = 8192;

/// Terms (point, number of the coefficient) of every column, one column after the other.
///
/// A point from `points` on stands for the sum of the points of one of `sums`.
pub struct Columns {
    starts: Vec<usize>,
    terms: Vec<(u32, u32)>,
    points: usize,
    sums: Vec<Vec<u32>>,
}

impl Columns {
    /// From terms (column, point, number of the coefficient) in any order, which is given twice; `points`: how many
    /// there are.
    pub fn new<I: Iterator<Item = (u32, u32, u32)>>(count: usize, points: usize, terms: impl Fn() -> I) -> Columns {
        let mut starts = vec![0usize; count + 1];
        for (column, ..) in terms() {
            starts[column as usize + 1] += 1;
        }
        for i in 0..count {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut sorted = vec![(0, 0); starts[count]];
        for (column, point, coefficient) in terms() {
            sorted[next[column as usize]] = (coefficient, point);
            next[column as usize] += 1;
        }
        let mut columns = Columns {
            starts: vec![0],
            terms: Vec::new(),
            points,
            sums: Vec::new(),
        };
        let mut known = HashMap::new();
        for range in starts.windows(2) {
            let column = &mut sorted[range[0]..range[1]];
            column.sort_unstable();
            for group in column.chunk_by(|a, b| a.0 == b.0) {
                columns.add_group(group, &mut known);
            }
            columns.starts.push(columns.terms.len());
        }
        columns
    }

    /// The terms (number of the coefficient, point) of a column that have one coefficient.
    fn add_group(&mut self, group: &[(u32, u32)], known: &mut HashMap<Vec<u32>, u32>) {
        let coefficient = group[0].0;
        if group.len() == 1 || coefficient == ONE || coefficient == MINUS_ONE {
            self.terms.extend(group.iter().map(|&(k, point)| (point, k)));
            return;
        }
        let of: Vec<u32> = group.iter().map(|&(_, point)| point).collect();
        let sum = *known.entry(of).or_insert_with_key(|of| {
            self.sums.push(of.clone());
            (self.points + self.sums.len() - 1) as u32
        });
        self.terms.push((sum, coefficient));
    }

    fn column(&self, i: usize) -> &[(u32, u32)] {
        &self.terms[self.starts[i]..self.starts[i + 1]]
    }

    /// sum of values[coefficient] * points[point] over the terms of every column.
    pub fn combine<P: Group>(&self, points: &[Pt<P::BaseField>], values: &[Fr]) -> Vec<Pt<P::BaseField>> {
        assert_eq!(points.len(), self.points, "points of the columns");
        let points = &[points, &self.added_up(points)].concat();
        let count = self.starts.len() - 1;
        let mut batches = Vec::new();
        let mut first = 0;
        while first < count {
            let mut last = first + 1;
            while last < count && self.starts[last + 1] - self.starts[first] <= TOGETHER {
                last += 1;
            }
            batches.push(first..last);
            first = last;
        }
        batches
            .into_par_iter()
            .with_max_len(1)
            .flat_map_iter(|range| match &range {
                one if one.len() == 1 && self.column(one.start).len() > LONG => {
                    vec![self.alone::<P>(one.start, points, values)]
                }
                _ => self.together(range, points, values),
            })
            .collect()
    }

    fn added_up<F: Coordinate>(&self, points: &[Pt<F>]) -> Vec<Pt<F>> {
        self.sums
            .par_chunks(TOGETHER)
            .flat_map_iter(|part| {
                let mut summands = part.iter().flatten().map(|&i| points[i as usize]).collect();
                let mut counts: Vec<u32> = part.iter().map(|of| of.len() as u32).collect();
                let mut sums = vec![Pt::IDENTITY; part.len()];
                add_sums(&mut sums, &mut summands, &mut counts, &mut Vec::new());
                sums
            })
            .collect()
    }

    fn alone<P: Group>(&self, column: usize, points: &[Pt<P::BaseField>], values: &[Fr]) -> Pt<P::BaseField> {
        let (bases, scalars): (Vec<_>, Vec<_>) = self
            .column(column)
            .iter()
            .map(|&(point, k)| (points[point as usize], values[k as usize]))
            .unzip();
        Pt::from_projective(&msm::<P>(&bases, &scalars))
    }

    fn together<F: Coordinate>(&self, range: std::ops::Range<usize>, points: &[Pt<F>], values: &[Fr]) -> Vec<Pt<F>> {
        // Terms with coefficient 1 or -1 wait; of the others the place of the point's table, and sign and magnitude of
        // the coefficient stay.
        let (mut units, mut unit_counts) = (Vec::new(), vec![0u32; range.len()]);
        let (mut places, mut tabled) = (HashMap::new(), Vec::new());
        let (mut factors, mut owners) = (Zeroizing::new(Vec::new()), Vec::new());
        let mut multiplied: Vec<usize> = Vec::new();
        for (at, column) in range.enumerate() {
            for &(point, k) in self.column(column) {
                let p = points[point as usize];
                match k {
                    ONE => units.push(p),
                    MINUS_ONE => units.push(p.neg()),
                    _ => {
                        let place = *places.entry(point).or_insert_with(|| {
                            tabled.push(p);
                            tabled.len() - 1
                        });
                        if multiplied.last() != Some(&at) {
                            multiplied.push(at);
                        }
                        owners.push((place, multiplied.len() - 1));
                        factors.push(sign_and_magnitude(&values[k as usize]));
                        continue;
                    }
                }
                unit_counts[at] += 1;
            }
        }
        let width = if owners.len() < SHARED * tabled.len() {
            NARROW
        } else {
            WIDE
        };
        let products = products(&multiples_of(tabled, width), width, &factors, &owners, multiplied.len());
        let mut sums = vec![Pt::IDENTITY; unit_counts.len()];
        for (at, product) in multiplied.iter().zip(products) {
            sums[*at] = product;
        }
        add_sums(&mut sums, &mut units, &mut unit_counts, &mut Vec::new());
        sums
    }
}

/// sum of factor * point for each of `count` columns.
///
/// `multiples`: 1, 2, ... times every point; `factors`: sign and magnitude of every term's coefficient; `owners`: place
/// of its point and its column, in the order of the columns.
fn products<F: Coordinate>(
    multiples: &[Vec<Pt<F>>],
    width: usize,
    factors: &[(bool, [u64; 4])],
    owners: &[(usize, usize)],
    count: usize,
) -> Vec<Pt<F>> {
    let mut products = vec![Pt::IDENTITY; count];
    if count == 0 {
        return products;
    }
    // With half added at every window, digit = window of the sum - half lies in [-half, half): no carries.
    let half = 1i32 << (width - 1);
    let offset = [(0..64 / width).fold(0u64, |sum, at| sum | (half as u64) << (at * width)); 4];
    let shifted: Zeroizing<Vec<[u64; 4]>> =
        Zeroizing::new(factors.iter().map(|(_, m)| add_limbs(m, &offset)).collect());
    let (mut chosen, mut counts, mut jobs) = (Vec::new(), vec![0u32; count], Vec::new());
    for window in (0..256 / width).rev() {
        for _ in 0..width {
            double_all(&mut products);
        }
        chosen.clear();
        counts.fill(0);
        for ((limbs, &(negative, _)), &(place, owner)) in shifted.iter().zip(factors).zip(owners) {
            let digit = bits(limbs, window * width, width) as i32 - half;
            if digit != 0 {
                let p = &multiples[digit.unsigned_abs() as usize - 1][place];
                chosen.push(if (digit < 0) != negative { p.neg() } else { *p });
                counts[owner] += 1;
            }
        }
        add_sums(&mut products, &mut chosen, &mut counts, &mut jobs);
    }
    products
}

/// 1, 2, ..., 2^(width - 1) times every point.
fn multiples_of<F: Coordinate>(points: Vec<Pt<F>>, width: usize) -> Vec<Vec<Pt<F>>> {
    let mut double = points.clone();
    double_all(&mut double);
    let mut multiples = vec![points, double];
    for k in 2..1 << (width - 1) {
        let mut next = multiples[k - 1].clone();
        add_assign_all(&mut next, &multiples[0]);
        multiples.push(next);
    }
    multiples
}

/// Above r/2 the negative is shorter.
fn sign_and_magnitude(value: &Fr) -> (bool, [u64; 4]) {
    let mut n = value.into_bigint();
    let negative = n > Fr::MODULUS_MINUS_ONE_DIV_TWO;
    if negative {
        let mut m = Fr::MODULUS;
        m.sub_with_borrow(&n);
        n = m;
    }
    (negative, n.0)
}

/// sums[i] += the next counts[i] points.  Both lists are used up.
fn add_sums<F: Coordinate>(sums: &mut [Pt<F>], points: &mut Vec<Pt<F>>, counts: &mut [u32], jobs: &mut Vec<u64>) {
    reduce_buckets(points, counts, jobs);
    let mut reduced = points.iter();
    let summands: Vec<Pt<F>> = counts
        .iter()
        .map(|&c| {
            if c == 1 {
                *reduced.next().expect("a point for every column in use")
            } else {
                Pt::IDENTITY
            }
        })
        .collect();
    add_assign_all(sums, &summands);
}

/// k * point for every point and one k.
pub fn scale_all<P: Group>(points: &[Pt<P::BaseField>], k: &Fr) -> Vec<Pt<P::BaseField>> {
    let values = Zeroizing::new(vec![Fr::ONE, -Fr::ONE, *k]);
    points
        .par_chunks(TOGETHER)
        .flat_map_iter(|part| {
            let columns = Columns {
                starts: (0..=part.len()).collect(),
                terms: (0..part.len() as u32).map(|i| (i, 2)).collect(),
                points: part.len(),
                sums: Vec::new(),
            };
            columns.together(0..part.len(), part, &values)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed_base::fixed_base;
    use ark_bn254::{g1::Config, G1Projective};
    use ark_ec::PrimeGroup;
    use ark_ff::UniformRand;

    #[test]
    fn agrees_with_one_by_one() {
        let mut rng = ark_std::test_rng();
        let random: Vec<Fr> = (0..3000).map(|_| Fr::rand(&mut rng)).collect();
        let mut points = fixed_base(G1Projective::generator(), &random);
        points[7] = points[8].neg();
        points[9] = Pt::IDENTITY;
        let mut values = vec![
            Fr::ONE,
            -Fr::ONE,
            Fr::from(2u64),
            -Fr::from(8u64),
            Fr::from(2u64).pow([252]),
        ];
        values.extend(&random[..50]);
        // Columns without a term, with one, with equal and opposite points, and one beyond LONG.
        let mut terms = vec![
            (1, 5, 0),
            (2, 5, 0),
            (2, 5, 1),
            (3, 7, 9),
            (3, 8, 9),
            (4, 9, 20),
            (5, 6, 2),
            (5, 6, 2),
        ];
        for i in 0..2000u32 {
            terms.push((6 + i % 40, (i * 7) % 3000, i % 55));
        }
        terms.extend((0..2500u32).map(|i| (50, i, i)));
        values.extend(&random);
        // A form in three rows and forty columns: its points are added up first, and share the larger tables.
        for i in 0..3600u32 {
            terms.push((51 + i % 40, 3 * (i / 120) + i / 40 % 3, 5 + i / 120));
        }
        let columns = Columns::new(92, points.len(), || terms.iter().copied());
        let got = columns.combine::<Config>(&points, &values);
        for (column, sum) in got.iter().enumerate() {
            let want: G1Projective = terms
                .iter()
                .filter(|t| t.0 as usize == column)
                .map(|&(_, p, k)| points[p as usize].to_affine::<Config>() * values[k as usize])
                .sum();
            assert_eq!(*sum, Pt::from_projective(&want), "column {column}");
        }
    }

    #[test]
    fn scaling_agrees_with_one_by_one() {
        let mut rng = ark_std::test_rng();
        let random: Vec<Fr> = (0..20).map(|_| Fr::rand(&mut rng)).collect();
        let mut points = fixed_base(G1Projective::generator(), &random);
        points[3] = Pt::IDENTITY;
        for k in [Fr::rand(&mut rng), -Fr::from(1u64), Fr::from(8u64), -Fr::from(9u64)] {
            for (p, scaled) in points.iter().zip(scale_all::<Config>(&points, &k)) {
                assert_eq!(scaled, Pt::from_projective(&(p.to_affine::<Config>() * k)));
            }
        }
    }
}
