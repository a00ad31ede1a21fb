// SPDX-License-Identifier: GPL-3.0-or-later
//! The mechanism for one circuit class (SPEC M.5 to M.8).
//!
//! The answer path does the same work for every query: coarse bits of all slots, the bounds, and the fine bits of exactly
//! R places.

mod hints;

use crate::constants::*;
use crate::error::Result;
use crate::poseidon::Parameters;
use crate::{bail, ensure};
use ark_bn254::Fr;
use ark_ff::{AdditiveGroup, BigInt, PrimeField};
use rayon::prelude::*;

/// Scores beyond this are no scores; keeps every integer below far from overflow.
pub(crate) const SCORE_LIMIT: i64 = 1 << 40;

/// Shape, bounds B(k) and table of one class.
pub struct Engine {
    n: usize,
    k: usize,
    r: usize,
    m: usize,
    q: usize,
    c: usize,
    s: usize,
    grid: usize,
    bounds: Vec<i64>,
    /// F(x - 1) for x = 0, ..., cut: the least folded uniform that gives a noise of x.  F(cut) is 2^128.
    least: Vec<u128>,
}

struct Place {
    slot: usize,
    w: i64,
    u: u32,
    element: BigInt<4>,
    fine: u128,
    dither: u64,
    v: i64,
}

/// T and everything that its proof opens.
pub struct Selection {
    elements: Vec<BigInt<4>>,
    u: Vec<u32>,
    places: Vec<Place>,
    pub threshold: i64,
    pub threshold_slot: usize,
    pub theta: usize,
    pub ids: Vec<usize>,
    /// Of each of `ids`: its clipped score is above 0.
    pub flags: Vec<bool>,
}

/// `width` bits of an element from bit `at` on, 128 at most.
pub(crate) fn bits(x: &BigInt<4>, at: usize, width: usize) -> u128 {
    let (word, shift) = (at / 64, at % 64);
    let limb = |k: usize| x.0.get(word + k).copied().unwrap_or(0);
    let mut low = (u128::from(limb(0)) | u128::from(limb(1)) << 64) >> shift;
    if shift > 0 {
        low |= u128::from(limb(2)) << (128 - shift);
    }
    if width >= 128 {
        low
    } else {
        low & ((1u128 << width) - 1)
    }
}

impl Engine {
    /// `shape`: N, K, R, m, q, c, s.  `bounds`: B(k) for k < 2^m.  `least`: F(x - 1) for x = 0..=cut; its first is 0
    /// of a one-sided law, whose uniforms are not folded.
    pub fn new(shape: [usize; 7], bounds: Vec<i64>, least: Vec<u128>, grid: usize) -> Result<Engine> {
        let [n, k, r, m, q, c, s] = shape;
        ensure!(
            k >= 1 && k < r && r <= n && n < 1 << 31 && q >= 1 && n % q == 0 && q * m <= 208,
            "the class's shape is impossible"
        );
        ensure!(
            (2..=20).contains(&m) && (4..=18).contains(&c) && s >= 1 && s <= c,
            "the class's widths are impossible"
        );
        ensure!(
            bounds.len() == 1 << m,
            "{} bounds for 2^{m} coarse values",
            bounds.len()
        );
        ensure!(
            bounds.windows(2).all(|p| p[0] <= p[1]),
            "the bounds of coarse values must not decrease"
        );
        ensure!(bounds.iter().all(|b| b.abs() < SCORE_LIMIT), "a bound is out of range");
        ensure!(
            !least.is_empty() && least.windows(2).all(|p| p[0] < p[1]),
            "the noise table must increase to 2^128"
        );
        ensure!(grid >= 1 && grid <= 1 << m, "the threshold grid is impossible");
        Ok(Engine {
            n,
            k,
            r,
            m,
            q,
            c,
            s,
            grid,
            bounds,
            least,
        })
    }

    fn elements(&self) -> usize {
        self.n / self.q
    }

    fn fine_bits(&self) -> usize {
        UNIFORM_BITS - self.m
    }

    fn slot_bits(&self) -> usize {
        usize::BITS as usize - (self.n - 1).leading_zeros() as usize
    }

    fn filler(&self, position: usize, canonical: usize) -> usize {
        (MODULUS_BITS - position).saturating_sub(canonical) / self.c
    }

    /// Position of the canonical top of an element whose used bits end at `position`.
    fn top(&self, position: usize, canonical: usize) -> usize {
        position + self.filler(position, canonical) * self.c
    }

    /// The elements' bits from `top` on are below the modulus'.
    pub(crate) fn canonical(elements: &[BigInt<4>], top: usize) -> Result<()> {
        let mut limit = Fr::MODULUS;
        limit >>= top as u32;
        limit <<= top as u32;
        ensure!(
            elements.iter().all(|element| *element < limit),
            "overflow canonical: a Poseidon output is outside the canonical decomposition"
        );
        Ok(())
    }

    fn coarse(&self, key: Fr) -> Result<(Vec<BigInt<4>>, Vec<u32>)> {
        let wide = Parameters::of(17)?;
        let blocks = self.elements().div_ceil(ELEMENTS_PER_BLOCK);
        let xs: Vec<u64> = (0..blocks as u64).map(|block| block + (TAG_COARSE << 32)).collect();
        let mut elements = wide.blocks(key, Fr::ZERO, &xs);
        elements.truncate(self.elements());
        let top = self.top(self.q * self.m, COARSE_CANONICAL_BITS);
        let mut u = Vec::with_capacity(self.n);
        Self::canonical(&elements, top)?;
        for element in &elements {
            u.extend((0..self.q).map(|j| bits(element, self.m * j, self.m) as u32));
        }
        Ok((elements, u))
    }

    /// Sign, folded uniform and magnitude of the noise, by a search of fixed length: its steps depend on the table alone.
    fn noise(&self, uniform: u128) -> (bool, u128, usize) {
        let negative = self.least[0] > 0 && uniform < 1 << (UNIFORM_BITS - 1);
        let folded = if negative { !uniform } else { uniform };
        let (mut low, mut size) = (0usize, self.least.len());
        while size > 1 {
            let half = size / 2;
            low += usize::from(self.least[low + half] <= folded) * half;
            size -= half;
        }
        (negative, folded, low)
    }

    /// F(x) - 1: the largest folded uniform that gives a noise of x.
    fn last(&self, x: usize) -> u128 {
        self.least.get(x + 1).map_or(u128::MAX, |next| next - 1)
    }

    fn open(&self, key: Fr, slot: usize, w: i64, u: u32, hmax: i64) -> Result<Place> {
        let mut state = [Fr::ZERO, key, Fr::from(slot as u64 + (TAG_FINE << 32))];
        Parameters::of(3)?.permute(&mut state);
        let element = state[0].into_bigint();
        let fb = self.fine_bits();
        Self::canonical(&[element], self.top(fb + self.s, PLACE_CANONICAL_BITS))?;
        let fine = bits(&element, 0, fb);
        let dither = bits(&element, fb, self.s) as u64;
        let (negative, _, magnitude) = self.noise(u128::from(u) << fb | fine);
        let z = if negative {
            -(magnitude as i64)
        } else {
            magnitude as i64
        };
        let v = w.clamp(0, hmax) + (z << self.s) + dither as i64;
        Ok(Place {
            slot,
            w,
            u,
            element,
            fine,
            dither,
            v,
        })
    }

    /// Noise over every slot and the exact top K by (v, -slot).
    pub fn select(&self, key: Fr, w: &[i64], hmax: i64) -> Result<Selection> {
        ensure!(w.len() == self.n, "{} scores for a capacity of {}", w.len(), self.n);
        ensure!((0..SCORE_LIMIT).contains(&hmax), "H is out of range");
        ensure!(
            w.iter().all(|x| x.unsigned_abs() < SCORE_LIMIT as u64),
            "a score is out of range"
        );
        let (elements, u) = self.coarse(key)?;
        let reach: Vec<i64> = w
            .iter()
            .zip(&u)
            .map(|(&x, &u)| x.clamp(0, hmax) + self.bounds[u as usize])
            .collect();
        let mut order: Vec<usize> = (0..self.n).collect();
        let rank = |&a: &usize, &b: &usize| reach[b].cmp(&reach[a]).then(a.cmp(&b));
        if self.r < self.n {
            order.select_nth_unstable_by(self.r, rank);
        }
        let next = order.get(self.r).map(|&i| reach[i]);
        let mut places = order[..self.r]
            .par_iter()
            .map(|&i| self.open(key, i, w[i], u[i], hmax))
            .collect::<Result<Vec<_>>>()?;
        places.sort_unstable_by(|a, b| b.v.cmp(&a.v).then(a.slot.cmp(&b.slot)));
        let (threshold, threshold_slot) = (places[self.k - 1].v, places[self.k - 1].slot);
        if next.is_some_and(|bound| bound >= threshold) {
            bail!("overflow: more than R = {} slots could win", self.r);
        }
        let mut returned: Vec<(usize, bool)> = places[..self.k].iter().map(|p| (p.slot, p.w > 0)).collect();
        returned.sort_unstable();
        let (ids, flags) = returned.into_iter().unzip();
        places.sort_unstable_by_key(|p| p.slot);
        let first = (1 << self.m) - self.grid + 1;
        let Some(theta) = (first..=1 << self.m).rev().find(|&t| self.bounds[t - 1] < threshold) else {
            bail!("overflow grid: the threshold lies below the grid of theta");
        };
        Ok(Selection {
            elements,
            u,
            places,
            threshold,
            threshold_slot,
            theta,
            ids,
            flags,
        })
    }
}
