// SPDX-License-Identifier: GPL-3.0-or-later
//! Matrices over the scalar field, and a linear filter in the coordinates in which its state is its last values.

use crate::inner_product::dot;
use ark_bn254::Fr;
use ark_ff::{AdditiveGroup, Field};

pub type Matrix = Vec<Vec<Fr>>;

pub fn multiply(a: &Matrix, b: &Matrix) -> Matrix {
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
pub fn solve(q: &[Vec<Fr>], w: &[Fr]) -> Vec<Fr> {
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

pub fn column(matrix: &Matrix, j: usize) -> Vec<Fr> {
    matrix.iter().map(|row| row[j]).collect()
}

pub fn apply(matrix: &Matrix, state: &[Fr], out: &mut [Fr]) {
    for (o, row) in out.iter_mut().zip(matrix) {
        *o = dot(row, state);
    }
}

/// Controller form of u' = A u + b x: the feedback -a_1 .. -a_n and the basis P with u = P (h_t, .., h_(t-n+1)), where
/// h_(t+1) = x - a_1 h_t - .. - a_n h_(t-n+1) and a_i are the coefficients of A's characteristic polynomial.
pub fn controller(a: &Matrix, b: &[Fr]) -> (Vec<Fr>, Matrix) {
    let n = b.len();
    let times = |v: &[Fr]| {
        let mut out = vec![Fr::ZERO; n];
        apply(a, v, &mut out);
        out
    };
    let mut krylov = vec![b.to_vec()];
    for k in 0..n {
        krylov.push(times(&krylov[k]));
    }
    let matrix: Matrix = (0..n).map(|i| (0..n).map(|k| krylov[k][i]).collect()).collect();
    // krylov[n] = sum_k g_k krylov[k]: g_(n-i) = -a_i.
    let mut feedback = solve(&matrix, &krylov[n]);
    feedback.reverse();
    let mut columns = vec![b.to_vec()];
    for i in 0..n - 1 {
        let mut next = times(&columns[i]);
        for (x, y) in next.iter_mut().zip(b) {
            *x -= feedback[i] * y;
        }
        columns.push(next);
    }
    let basis = (0..n).map(|i| (0..n).map(|k| columns[k][i]).collect()).collect();
    (feedback, basis)
}
