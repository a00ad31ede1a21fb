// SPDX-License-Identifier: GPL-3.0-or-later
//! The mechanism with noise for one class: scores in steps, unique places, fine bits by rank, one threshold for all shards;
//! `kernel/noise_mechanism.py`.
//!
//! The answer path does the same work for every query: coarse bits of all slots, their reaches, and all fine elements.

mod hints;
mod layout;
mod shards;

pub(crate) use hints::Chunked;
pub use shards::{Answer, Whole};

use crate::constants::*;
use crate::elements::{bits, canonical, SCORE_LIMIT};
use crate::error::Result;
use crate::msm::bits as window;
use crate::poseidon::Parameters;
use crate::{bail, ensure};
use ark_bn254::Fr;
use ark_ff::BigInt;
use layout::{Given, Sizes, PLACES_PER_ELEMENT};

/// Shape, bounds Q(k) and table of one class.
pub struct Noise {
    n: usize,
    k: usize,
    r: usize,
    m: usize,
    q: usize,
    c: usize,
    /// Bits of a uniform.
    width: usize,
    grid: usize,
    /// L: bits of a slot's id in the whole index.
    id_bits: usize,
    /// Shards that an index has at most.
    most: usize,
    bounds: Vec<i64>,
    /// F(x - 1) for x = 0, ..., cut + 1: the last is 2^width.
    least: Vec<u128>,
    sizes: Sizes,
}

struct Place {
    slot: usize,
    digit: i64,
    u: u32,
    fine: u128,
    v: i64,
    full: bool,
}

/// A slot's score in steps, as it is and clipped to the window.
struct Score {
    digit: i64,
    clipped: i64,
}

/// What noise and scores of N slots give before any of them wins.
struct Opened {
    coarse_elements: Vec<BigInt<4>>,
    fine_elements: Vec<BigInt<4>>,
    u: Vec<u32>,
    places: Vec<Place>,
    entry: i64,
}

/// The winners that lie in a shard, and everything that its proof opens.
struct Selection {
    coarse_elements: Vec<BigInt<4>>,
    fine_elements: Vec<BigInt<4>>,
    u: Vec<u32>,
    places: Vec<Place>,
    entry: i64,
    threshold: i64,
    /// i*, counted from the shard's first slot.
    threshold_slot: i64,
    theta: usize,
    /// Slots of the winners.
    wins: Vec<usize>,
}

impl Noise {
    /// `shape`: N, K, R, m, q, c, bits of a uniform, S.  `bounds`: Q(k) for k < 2^m.  `least`: F(x - 1) for x = 0..=cut + 1.
    pub fn new(shape: [usize; 8], bounds: Vec<i64>, least: Vec<u128>, grid: usize) -> Result<Noise> {
        let [n, k, r, m, q, c, width, most] = shape;
        ensure!(
            k >= 1 && k + 1 < r && r <= n && r % PLACES_PER_ELEMENT == 0 && q >= 1 && n % q == 0 && q * m <= 208,
            "the class's shape is impossible"
        );
        ensure!(
            most >= 1 && most.saturating_mul(n) < 1 << 31,
            "the number of shards is impossible"
        );
        ensure!(
            (2..=c).contains(&m) && c <= 18 && width < 128 && width > m && PLACES_PER_ELEMENT * (width - m) <= 208,
            "the class's widths are impossible"
        );
        ensure!(
            bounds.len() == 1 << m,
            "{} bounds for 2^{m} coarse values",
            bounds.len()
        );
        ensure!(
            bounds.windows(2).all(|p| p[0] <= p[1]) && bounds.iter().all(|b| b.abs() < SCORE_LIMIT),
            "the bounds of coarse values must not decrease"
        );
        ensure!(
            least.len() >= 2 && least.windows(2).all(|p| p[0] < p[1]) && least[least.len() - 1] == 1 << width,
            "the noise table must increase to 2^{width}"
        );
        ensure!(grid >= 1 && grid <= 1 << m, "the threshold grid is impossible");
        let id_bits = usize::BITS as usize - (n * most - 1).leading_zeros() as usize;
        let given = Given {
            n,
            k,
            r,
            m,
            q,
            c,
            l: id_bits,
            uniform_bits: width,
            g: grid,
            cut: least.len() - 2,
        };
        Ok(Noise {
            n,
            k,
            r,
            m,
            q,
            c,
            width,
            grid,
            id_bits,
            most,
            bounds,
            least,
            sizes: given.sizes(),
        })
    }

    /// How a coarse element is cut into chunks.
    fn coarse_cut(&self) -> Chunked {
        Chunked::new(self.q * self.m, self.c, self.sizes.coarse_filler, self.sizes.coarse_top)
    }

    /// How an element of fine bits is cut into chunks.
    fn fine_cut(&self) -> Chunked {
        let used = PLACES_PER_ELEMENT * self.sizes.fine_bits;
        Chunked::new(used, self.c, self.sizes.fine_filler, self.sizes.fine_top)
    }

    /// The elements that hold all coarse bits, and those of all fine bits: outputs of wide permutations under their tags and
    /// the shard.
    fn elements(&self, key: Fr, shard: u64) -> Result<[Vec<BigInt<4>>; 2]> {
        let (coarse, fine) = (self.sizes.elements, self.sizes.fine_elements);
        let blocks = |count: usize, tag: u64| {
            (0..count.div_ceil(ELEMENTS_PER_BLOCK)).map(move |block| block as u64 + (tag << 32))
        };
        let xs: Vec<u64> = blocks(coarse, TAG_COARSE).chain(blocks(fine, TAG_FINE)).collect();
        let mut coarse_elements = Parameters::of(17)?.blocks(key, Fr::from(shard), &xs);
        let mut fine_elements = coarse_elements.split_off(coarse.div_ceil(ELEMENTS_PER_BLOCK) * ELEMENTS_PER_BLOCK);
        coarse_elements.truncate(coarse);
        fine_elements.truncate(fine);
        canonical(&coarse_elements, self.coarse_cut().top_at())?;
        canonical(&fine_elements, self.fine_cut().top_at())?;
        Ok([coarse_elements, fine_elements])
    }

    /// Sign, folded uniform and magnitude of the noise, by a search of fixed length: its steps depend on the table alone.
    fn noise(&self, uniform: u128) -> (bool, u128, usize) {
        let negative = uniform >> (self.width - 1) == 0;
        let folded = if negative {
            (1 << self.width) - 1 - uniform
        } else {
            uniform
        };
        let (mut low, mut size) = (0usize, self.least.len() - 1);
        while size > 1 {
            let half = size / 2;
            low += usize::from(self.least[low + half] <= folded) * half;
            size -= half;
        }
        (negative, folded, low)
    }

    /// The place of one rank: a slot, its coarse bits and its score.
    fn place(&self, fine_elements: &[BigInt<4>], rank: usize, (slot, full): (usize, bool), u: u32, s: Score) -> Place {
        let fb = self.sizes.fine_bits;
        let fine = bits(
            &fine_elements[rank / PLACES_PER_ELEMENT],
            fb * (rank % PLACES_PER_ELEMENT),
            fb,
        );
        let (negative, _, magnitude) = self.noise(u128::from(u) << fb | fine);
        let z = if negative {
            -(magnitude as i64)
        } else {
            magnitude as i64
        };
        Place {
            slot,
            digit: s.digit,
            u,
            fine,
            v: s.clipped + z,
            full,
        }
    }

    /// One more than the R-th largest reach, of how often each occurs from `least` on: the same steps for all data, unlike a
    /// selection by comparison.
    fn entry(&self, counts: &[u32], least: i64) -> i64 {
        let (mut above, mut last) = (0, 0);
        for (value, count) in counts.iter().enumerate().rev() {
            let here = above < self.r && above + *count as usize >= self.r;
            last += usize::from(here) * value;
            above += *count as usize;
        }
        last as i64 + least + 1
    }

    /// Noise over every slot of a shard and its R places.  `steps`: the score window's width.
    fn open(&self, key: Fr, w: &[i64], steps: i64, shard: u64) -> Result<Opened> {
        ensure!(w.len() == self.n, "{} scores for a capacity of {}", w.len(), self.n);
        ensure!((0..=1 << self.c).contains(&steps), "H is out of range");
        ensure!(
            w.iter().fold(0, |all, x| all | x.unsigned_abs()) < SCORE_LIMIT as u64, // a power of 2
            "a score is out of range"
        );
        let [coarse_elements, fine_elements] = self.elements(key, shard)?;
        let mut u = Vec::with_capacity(self.n);
        for e in &coarse_elements {
            u.extend((0..self.q).map(|j| window(&e.0, self.m * j, self.m)));
        }
        let (least, most) = (self.bounds[0], self.bounds[self.bounds.len() - 1] + steps);
        let mut counts = vec![0u32; (most - least + 1) as usize];
        let reach: Vec<i64> = w
            .iter()
            .zip(&u)
            .map(|(&x, &u)| {
                let reach = (x >> self.c).clamp(0, steps) + self.bounds[u as usize];
                counts[(reach - least) as usize] += 1;
                reach
            })
            .collect();
        let entry = self.entry(&counts, least);
        let (mut full, mut edge) = (Vec::with_capacity(self.r), Vec::with_capacity(self.r));
        for (slot, reach) in reach.into_iter().enumerate() {
            if reach >= entry {
                full.push((slot, true));
            } else if reach == entry - 1 {
                edge.push((slot, false));
            }
        }
        let places: Vec<Place> = full
            .into_iter()
            .chain(edge)
            .take(self.r)
            .enumerate()
            .map(|(rank, chosen)| {
                let digit = w[chosen.0] >> self.c;
                let clipped = digit.clamp(0, steps);
                self.place(&fine_elements, rank, chosen, u[chosen.0], Score { digit, clipped })
            })
            .collect();
        Ok(Opened {
            coarse_elements,
            fine_elements,
            u,
            places,
            entry,
        })
    }

    /// The largest theta of the grid whose bound lies below the entry, if the threshold is not below it.
    fn theta(&self, entry: i64, threshold: i64) -> Result<usize> {
        if threshold < entry {
            bail!("overflow: R = {} slots or more could win", self.r);
        }
        let first = (1 << self.m) - self.grid + 1;
        let Some(theta) = (first..=1 << self.m).rev().find(|&t| self.bounds[t - 1] < entry) else {
            bail!("overflow grid: the entry lies below the grid of theta");
        };
        Ok(theta)
    }

    /// The places that are at least (threshold, -slot).
    fn at_threshold(&self, opened: Opened, threshold: i64, threshold_slot: i64) -> Result<Selection> {
        let Opened {
            coarse_elements,
            fine_elements,
            u,
            places,
            entry,
        } = opened;
        let theta = self.theta(entry, threshold)?;
        let mut wins: Vec<usize> = places
            .iter()
            .filter(|p| (p.v, -(p.slot as i64)) >= (threshold, -threshold_slot))
            .map(|p| p.slot)
            .collect();
        wins.sort_unstable();
        Ok(Selection {
            coarse_elements,
            fine_elements,
            u,
            places,
            entry,
            threshold,
            threshold_slot,
            theta,
            wins,
        })
    }
}
