// SPDX-License-Identifier: GPL-3.0-or-later
//! A vector of named arrays in the making: filled by name in any order, and put together in the order of a circuit's table.

use crate::ensure;
use crate::error::Result;
use ark_bn254::Fr;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// What names an array, and where it stands.
pub trait Name: Copy + Debug {
    fn index(self) -> usize;
}

/// One array for every name.
pub struct Arrays<N> {
    values: Vec<Vec<Fr>>,
    names: PhantomData<N>,
}

impl<N: Name> Arrays<N> {
    /// Empty ones, with room for what a class's `lengths` say.
    pub fn new(lengths: &[(N, usize)]) -> Arrays<N> {
        Arrays {
            values: lengths.iter().map(|&(_, length)| Vec::with_capacity(length)).collect(),
            names: PhantomData,
        }
    }

    /// The vector, if every array is as long as `lengths` say.
    pub fn complete(self, lengths: &[(N, usize)]) -> Result<Vec<Fr>> {
        for &(name, length) in lengths {
            let count = self[name].len();
            ensure!(count == length, "{count} hints {name:?}, the circuit has {length}");
        }
        Ok(self.values.concat())
    }
}

impl<N: Name> Index<N> for Arrays<N> {
    type Output = Vec<Fr>;

    fn index(&self, name: N) -> &Vec<Fr> {
        &self.values[name.index()]
    }
}

impl<N: Name> IndexMut<N> for Arrays<N> {
    fn index_mut(&mut self, name: N) -> &mut Vec<Fr> {
        &mut self.values[name.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Two {
        First,
        Second,
    }

    impl Name for Two {
        fn index(self) -> usize {
            self as usize
        }
    }

    const LENGTHS: [(Two, usize); 2] = [(Two::First, 1), (Two::Second, 2)];

    fn filled(second: usize) -> Result<Vec<Fr>> {
        let mut arrays = Arrays::new(&LENGTHS);
        arrays[Two::Second].extend((0..second).map(|x| Fr::from(x as u64)));
        arrays[Two::First].push(Fr::from(7u64));
        arrays.complete(&LENGTHS)
    }

    #[test]
    fn names_say_the_order_and_not_who_was_first() {
        assert_eq!(filled(2).expect("its lengths"), [7u64, 0, 1].map(Fr::from));
    }

    #[test]
    fn another_length_is_refused() {
        for second in [0, 1, 3] {
            let error = filled(second).expect_err("not 2").to_string();
            assert!(error.contains("hints Second, the circuit has 2"), "{error}");
        }
    }
}
