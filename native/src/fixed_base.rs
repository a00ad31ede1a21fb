// SPDX-License-Identifier: GPL-3.0-or-later
//! Multiples of one point: a table of signed windows, all accumulators advanced together.

use crate::curve::{add_assign_all, Group, Pt, BATCH};
use crate::msm::{add_limbs, bits};
use ark_bn254::Fr;
use ark_ec::short_weierstrass::Projective;
use ark_ec::AdditiveGroup;
use ark_ff::{PrimeField, Zero};
use rayon::prelude::*;
use zeroize::Zeroizing;

/// A table of multiples of one point.
pub struct FixedBase<P: Group> {
    width: usize,
    /// Row j holds 1..2^(width-1) times 2^(j width) base.
    table: Vec<Vec<Pt<P::BaseField>>>,
}

impl<P: Group> FixedBase<P> {
    /// A table sized for about `count` multiplications.
    pub fn new(base: Projective<P>, count: usize) -> Self {
        let width = match count {
            0..=64 => 4,
            65..=4096 => 8,
            _ => 12,
        };
        let half = 1usize << (width - 1);
        let mut starts = Vec::new();
        let mut b = base;
        for _ in 0..255usize.div_ceil(width) {
            starts.push(b);
            for _ in 0..width {
                b.double_in_place();
            }
        }
        let table = starts
            .par_iter()
            .map(|start| {
                let mut row = Vec::with_capacity(half);
                let mut p = *start;
                for _ in 0..half {
                    row.push(p);
                    p += start;
                }
                Pt::normalise(&row)
            })
            .collect();
        FixedBase { width, table }
    }

    /// What the digits of window j have too much.  The highest window may reach past 256 bits: it carries no offset and
    /// its digit is small.
    fn bias(&self, j: usize) -> i64 {
        if (j + 1) * self.width <= 256 {
            1 << (self.width - 1)
        } else {
            0
        }
    }

    fn offset(&self) -> [u64; 4] {
        let mut offset = [0u64; 4];
        for j in (0..self.table.len()).filter(|&j| self.bias(j) > 0) {
            let at = (j + 1) * self.width - 1;
            offset[at / 64] |= 1 << (at % 64);
        }
        offset
    }

    /// k * base for one k.
    pub fn multiply_one(&self, k: &Fr) -> Projective<P> {
        let shifted = Zeroizing::new(add_limbs(&k.into_bigint().0, &self.offset()));
        let mut sum = Projective::<P>::zero();
        for (j, row) in self.table.iter().enumerate() {
            let d = i64::from(bits(&shifted, j * self.width, self.width)) - self.bias(j);
            match d.unsigned_abs() as usize {
                0 => {}
                a if d < 0 => sum -= row[a - 1].to_affine::<P>(),
                a => sum += row[a - 1].to_affine::<P>(),
            }
        }
        sum
    }

    /// k * base for every k.
    pub fn multiply(&self, scalars: &[Fr]) -> Vec<Pt<P::BaseField>> {
        let (width, offset) = (self.width, self.offset());
        let mut out = vec![Pt::<P::BaseField>::IDENTITY; scalars.len()];
        out.par_chunks_mut(BATCH)
            .zip(scalars.par_chunks(BATCH))
            .for_each(|(acc, ks)| {
                let shifted: Zeroizing<Vec<[u64; 4]>> = ks
                    .iter()
                    .map(|k| add_limbs(&k.into_bigint().0, &offset))
                    .collect::<Vec<_>>()
                    .into();
                let mut next = vec![Pt::<P::BaseField>::IDENTITY; ks.len()];
                for (j, row) in self.table.iter().enumerate() {
                    for (slot, k) in next.iter_mut().zip(shifted.iter()) {
                        let d = i64::from(bits(k, j * width, width)) - self.bias(j);
                        *slot = match d.unsigned_abs() as usize {
                            0 => Pt::IDENTITY,
                            a if d < 0 => row[a - 1].neg(),
                            a => row[a - 1],
                        };
                    }
                    add_assign_all(acc, &next);
                }
            });
        out
    }
}

/// k * base for every k.
pub fn fixed_base<P: Group>(base: Projective<P>, scalars: &[Fr]) -> Vec<Pt<P::BaseField>> {
    FixedBase::new(base, scalars.len()).multiply(scalars)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_bn254::g1::Config;
    use ark_ec::PrimeGroup;
    use ark_ff::Field;

    #[test]
    fn fixed_base_covers_edges() {
        let base = Projective::<Config>::generator();
        let ks = [
            Fr::from(0u64),
            Fr::from(1u64),
            -Fr::from(1u64),
            Fr::from(2u64).pow([200]) - Fr::from(1u64),
        ];
        for repeat in [1usize, 40, 1200] {
            let many: Vec<Fr> = ks.iter().copied().cycle().take(4 * repeat).collect();
            let table = FixedBase::<Config>::new(base, many.len());
            assert!(ks.iter().all(|k| table.multiply_one(k) == base * k));
            let got = fixed_base(base, &many);
            for (p, k) in got.iter().zip(&many) {
                assert_eq!(Projective::from(p.to_affine::<Config>()), base * k);
            }
        }
    }
}
