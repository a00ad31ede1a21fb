// SPDX-License-Identifier: GPL-3.0-or-later
//! The lottery for one class: exact scores, ties broken by coarse bits, prizes first; `kernel/lottery_mechanism.py`.
//!
//! The answer path does the same work for every query up to the list itself: coarse bits and values of all slots, and a
//! threshold that is found by counting.

mod hints;
mod layout;

use crate::constants::*;
use crate::elements::{canonical, SCORE_LIMIT};
use crate::error::Result;
use crate::msm::bits as window;
use crate::noise::Chunked;
use crate::poseidon::Parameters;
use crate::{bail, ensure};
use ark_bn254::Fr;
use ark_ff::BigInt;
use layout::{Given, Sizes};

/// Bits of a value that one pass of the selection counts.
const DIGIT: usize = 11;

/// Shape of one class.
pub struct Lottery {
    n: usize,
    k: usize,
    r: usize,
    m: usize,
    q: usize,
    c: usize,
    /// The most prizes of a policy.
    most: usize,
    grid: usize,
    /// L: bits of a slot's id.
    id_bits: usize,
    sizes: Sizes,
}

/// T and everything that its proof opens.
pub struct Selection {
    elements: Vec<BigInt<4>>,
    u: Vec<u32>,
    values: Vec<i64>,
    width: i64,
    prizes: usize,
    pub threshold: i64,
    pub threshold_slot: usize,
    pub theta: usize,
    pub ids: Vec<usize>,
    /// Of each of `ids`: its score is above 0.
    pub flags: Vec<bool>,
}

impl Lottery {
    /// `shape`: N, K, R, m, q, c, prizes.
    pub fn new(shape: [usize; 7], grid: usize) -> Result<Lottery> {
        let [n, k, r, m, q, c, most] = shape;
        ensure!(
            k >= 1 && k < r && r <= n && n < 1 << 31 && q >= 1 && n % q == 0 && q * m <= 208,
            "the class's shape is impossible"
        );
        ensure!((2..=c).contains(&m) && c <= 18, "the class's widths are impossible");
        ensure!(
            most >= 1 && most < grid && grid <= 1 << m,
            "the prizes and the threshold grid are impossible"
        );
        let id_bits = usize::BITS as usize - (n - 1).leading_zeros() as usize;
        ensure!(2 * c + 1 + id_bits < 64, "the class's values are too wide");
        let given = Given {
            n,
            k,
            r,
            m,
            q,
            c,
            most,
            g: grid,
            l: id_bits,
        };
        Ok(Lottery {
            n,
            k,
            r,
            m,
            q,
            c,
            most,
            grid,
            id_bits,
            sizes: given.sizes(),
        })
    }

    /// How a coarse element is cut into chunks.
    fn coarse_cut(&self) -> Chunked {
        Chunked::new(self.q * self.m, self.c, self.sizes.coarse_filler, self.sizes.coarse_top)
    }

    /// The elements that hold all coarse bits.
    fn elements(&self, key: Fr) -> Result<Vec<BigInt<4>>> {
        let count = self.sizes.elements;
        let xs: Vec<u64> = (0..count.div_ceil(ELEMENTS_PER_BLOCK))
            .map(|block| block as u64 + (TAG_COARSE << 32))
            .collect();
        let mut elements = Parameters::of(17)?.blocks(key, Fr::from(0u64), &xs);
        elements.truncate(count);
        canonical(&elements, self.coarse_cut().top_at())?;
        Ok(elements)
    }

    fn first_prize(&self, prizes: usize) -> usize {
        (1 << self.m) - prizes
    }

    /// v 2^L + (2^L - 1 - i): values in the order of (v, -slot), all different.
    fn order(&self, v: i64, slot: usize) -> u64 {
        ((v as u64) << self.id_bits) + ((1 << self.id_bits) - 1 - slot as u64)
    }

    /// The K-th largest of all, digit by digit, by counting: the same steps for all data, unlike a selection by comparison.
    fn threshold(&self, values: &[i64]) -> u64 {
        let passes = (2 * self.c + 1 + self.id_bits).div_ceil(DIGIT);
        let (mut prefix, mut left) = (0u64, self.k);
        for pass in (0..passes).rev() {
            let mut counts = [0usize; 1 << DIGIT];
            for (slot, &v) in values.iter().enumerate() {
                let rest = self.order(v, slot) >> (DIGIT * pass);
                counts[rest as usize & ((1 << DIGIT) - 1)] += usize::from(rest >> DIGIT == prefix);
            }
            let (mut above, mut digit, mut passed) = (0, 0u64, 0);
            for (value, count) in counts.iter().enumerate().rev() {
                let here = usize::from(above < left && above + count >= left);
                digit += (here * value) as u64;
                passed += here * above;
                above += count;
            }
            left -= passed;
            prefix = prefix << DIGIT | digit;
        }
        prefix
    }

    /// The exact top K by (v, -slot), where at most R slots reach the entry.  `width`: H; `prizes`: j.
    pub fn select(&self, key: Fr, w: &[i64], width: i64, prizes: usize) -> Result<Selection> {
        ensure!(w.len() == self.n, "{} scores for a capacity of {}", w.len(), self.n);
        let (room, lead) = (1i64 << (2 * self.c), width.saturating_add(1 << self.m));
        ensure!(
            width >= 1 && lead <= room - (1 << self.m),
            "H is out of range: the policy does not fit its circuit class"
        );
        ensure!(
            (1..=self.most).contains(&prizes),
            "{prizes} prizes: the class takes 1 to {}",
            self.most
        );
        ensure!(
            w.iter().all(|x| x.unsigned_abs() < SCORE_LIMIT as u64),
            "a score is out of range"
        );
        let elements = self.elements(key)?;
        let mut u = Vec::with_capacity(self.n);
        for e in &elements {
            u.extend((0..self.q).map(|j| window(&e.0, self.m * j, self.m)));
        }
        let first = self.first_prize(prizes);
        let values: Vec<i64> = w
            .iter()
            .zip(&u)
            .map(|(&x, &u)| {
                let prize = i64::from(u as usize >= first);
                i64::from(u) + prize * lead + (1 - prize) * x.clamp(0, width)
            })
            .collect();
        let last = self.threshold(&values);
        let threshold = (last >> self.id_bits) as i64;
        let threshold_slot = (1usize << self.id_bits) - 1 - (last & ((1 << self.id_bits) - 1)) as usize;
        let entry = threshold.min(lead);
        let reaching = values.iter().filter(|&&v| v >= entry).count();
        if reaching > self.r {
            bail!(
                "overflow: {reaching} slots reach the entry, more than the {} places",
                self.r
            );
        }
        let theta = first.min(entry as usize);
        if theta < (1 << self.m) - self.grid + 1 {
            bail!("overflow grid: the entry lies below the grid of theta");
        }
        let ids: Vec<usize> = (0..self.n).filter(|&i| self.order(values[i], i) >= last).collect();
        let flags = ids.iter().map(|&i| w[i] >= 1).collect();
        Ok(Selection {
            elements,
            u,
            values,
            width,
            prizes,
            threshold,
            threshold_slot,
            theta,
            ids,
            flags,
        })
    }
}
