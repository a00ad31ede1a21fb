// SPDX-License-Identifier: GPL-3.0-or-later
//! Decoys of one class and table of draws: what is drawn, and the best others; `kernel/decoys/law.py` is the reference.
//!
//! The answer path does the same work for all scores up to the list itself: ids of all draws, values of all slots, and a
//! threshold that is found by counting.

mod hints;

use crate::constants::*;
use crate::elements::{bits, canonical, SCORE_LIMIT};
use crate::error::Result;
use crate::poseidon::Parameters;
use crate::{bail, ensure};
use ark_bn254::Fr;
use ark_ff::BigInt;

/// Bits of a value that one pass of the selection counts.
const DIGIT: usize = 11;
/// Poseidon domain of blocks of draws, added at 2^32 to their number.
const TAG_DRAWS: u64 = 9;
/// Bits of an output that hold ids.
const ELEMENT_BITS: usize = 208;
/// The number of draws is drawn from 2^64 values at least.
const UNIFORM_BITS: usize = 64;

/// Shape of one class, and the policy's table.
pub struct Decoys {
    n: usize,
    draws: usize,
    room: usize,
    c: usize,
    chunks: usize,
    /// Shards at most.
    most: usize,
    /// L: bits of a drawn id.
    id_bits: usize,
    /// F(0), ..., F(draws).
    rows: Vec<u128>,
}

/// What one shard draws.
pub struct Draws {
    elements: Vec<BigInt<4>>,
    values: Vec<u32>,
    number: usize,
    /// Drawn slots, increasing, and how often each was drawn.
    slots: Vec<(usize, u64)>,
}

/// T and everything that its proofs open.
pub struct Selection {
    draws: Vec<Draws>,
    lo: i64,
    k: usize,
    /// Ids of the whole index, increasing, and whether they match.
    pub returned: Vec<(usize, bool)>,
    /// v* and i*.
    pub threshold: i64,
    pub threshold_slot: usize,
    pub short: bool,
    pub over: bool,
    /// i* is a result: b steps up behind it.
    steps: bool,
}

/// The smallest L with 2^L >= n, for n of 2 at least.
fn bits_of(n: usize) -> usize {
    usize::BITS as usize - (n - 1).leading_zeros() as usize
}

impl Selection {
    /// Shards that the index has.
    pub fn shards(&self) -> usize {
        self.draws.len()
    }
}

impl Decoys {
    /// `shape`: N, draws, room, c, chunks, S.  `rows`: F(0), ..., F(draws).
    pub fn new(shape: [usize; 6], rows: Vec<u128>) -> Result<Decoys> {
        let [n, draws, room, c, chunks, most] = shape;
        ensure!(
            n >= 2 && (1..=n).contains(&room) && (1..1 << 24).contains(&draws) && (1..=64).contains(&most),
            "the class's shape is impossible"
        );
        ensure!(
            n.saturating_mul(most) < 1 << 31 && bits_of(n) <= 24 && (2..=18).contains(&c) && (1..=2).contains(&chunks),
            "the class's widths are impossible"
        );
        let id_bits = bits_of(n);
        let own = Decoys {
            n,
            draws,
            room,
            c,
            chunks,
            most,
            id_bits,
            rows,
        };
        ensure!(
            own.rows.len() == draws + 1
                && own.rows.windows(2).all(|p| p[0] <= p[1])
                && own.rows[draws] == 1 << (own.uniform_ids() * id_bits),
            "a table of draws has a row for each number of them, and ends at 2^(u L)"
        );
        Ok(own)
    }

    fn uniform_ids(&self) -> usize {
        UNIFORM_BITS.div_ceil(self.id_bits)
    }

    fn per_element(&self) -> usize {
        ELEMENT_BITS / self.id_bits
    }

    fn filler(&self) -> usize {
        (MODULUS_BITS - self.per_element() * self.id_bits).saturating_sub(COARSE_CANONICAL_BITS) / self.c
    }

    /// Position of an output's canonical top.
    fn top(&self) -> usize {
        self.per_element() * self.id_bits + self.filler() * self.c
    }

    fn whole_bits(&self) -> usize {
        bits_of(self.most * self.n)
    }

    /// Scores and their differences are below this.
    fn reach(&self) -> i64 {
        1 << (self.chunks * self.c)
    }

    fn uniform(&self, values: &[u32]) -> u128 {
        let u = values[..self.uniform_ids()].iter().enumerate();
        u.map(|(j, &v)| u128::from(v) << (self.id_bits * j)).sum()
    }

    /// One shard's draws.
    fn drawn(&self, key: Fr, shard: usize) -> Result<Draws> {
        let (u, per) = (self.uniform_ids(), self.per_element());
        let count = (u + self.draws).div_ceil(per);
        let xs: Vec<u64> = (0..count.div_ceil(ELEMENTS_PER_BLOCK))
            .map(|block| block as u64 + (TAG_DRAWS << 32))
            .collect();
        let mut elements = Parameters::of(17)?.blocks(key, Fr::from(shard as u64), &xs);
        elements.truncate(count);
        canonical(&elements, self.top())?;
        let mut values = Vec::with_capacity(count * per);
        for e in &elements {
            values.extend((0..per).map(|j| bits(e, self.id_bits * j, self.id_bits) as u32));
        }
        let uniform = self.uniform(&values);
        let number = self.rows.iter().filter(|&&row| row <= uniform).count();
        let mut real: Vec<usize> = values[u..u + number].iter().map(|&v| v as usize).collect();
        real.retain(|&v| v < self.n);
        real.sort_unstable();
        let mut slots: Vec<(usize, u64)> = Vec::new();
        for slot in real {
            match slots.last_mut() {
                Some((last, hits)) if *last == slot => *hits += 1,
                _ => slots.push((slot, 1)),
            }
        }
        Ok(Draws {
            elements,
            values,
            number,
            slots,
        })
    }

    /// The count-th largest of v 2^W + (2^W - 1 - id), digit by digit, by counting: the same steps for all data.
    fn threshold(&self, values: &[i64], count: usize) -> u64 {
        let width = self.whole_bits();
        let order = |v: i64, id: usize| ((v as u64) << width) + ((1 << width) - 1 - id as u64);
        let passes = (self.chunks * self.c + width).div_ceil(DIGIT);
        let (mut prefix, mut left) = (0u64, count);
        for pass in (0..passes).rev() {
            let mut counts = [0usize; 1 << DIGIT];
            for (id, &v) in values.iter().enumerate() {
                let rest = order(v, id) >> (DIGIT * pass);
                counts[rest as usize & ((1 << DIGIT) - 1)] += usize::from(rest >> DIGIT == prefix);
            }
            let (mut above, mut digit, mut passed) = (0, 0u64, 0);
            for (value, here) in counts.iter().enumerate().rev() {
                let found = usize::from(above < left && above + here >= left);
                digit += (found * value) as u64;
                passed += found * above;
                above += here;
            }
            left -= passed;
            prefix = prefix << DIGIT | digit;
        }
        prefix
    }

    /// T of all shards' scores, N each: what is drawn, and the best others that score above `lo`, up to `k` in all.
    pub fn select(&self, key: Fr, y: &[i64], lo: i64, k: usize) -> Result<Selection> {
        let shards = y.len() / self.n;
        ensure!(
            shards >= 1 && shards <= self.most && y.len() == shards * self.n,
            "{} scores are no shards of {} slots, {} at most",
            y.len(),
            self.n,
            self.most
        );
        let room = shards * self.room;
        ensure!((1..=room).contains(&k), "K is 1 to {room}, not {k}");
        ensure!((0..SCORE_LIMIT).contains(&lo), "lo is out of range");
        ensure!(
            y.iter().all(|x| x.unsigned_abs() < SCORE_LIMIT as u64),
            "a score is out of range"
        );
        let (least, most) = y.iter().fold((0, lo), |(a, b), &x| (x.min(a), x.max(b)));
        ensure!(
            most + 1 - least < self.reach(),
            "policy overflow: scores from {least} to {most} are out of the class's range"
        );
        let draws = (0..shards)
            .map(|shard| self.drawn(key, shard))
            .collect::<Result<Vec<_>>>()?;
        // All results may lie in one shard: whether they fit is a question of what is drawn alone.
        let missing = k.saturating_sub(draws.iter().map(|own| own.slots.len()).sum());
        let fullest = draws.iter().map(|own| own.slots.len() + missing).max().unwrap_or(0);
        if fullest > self.room {
            bail!(
                "overflow: a shard may have to return {fullest} ids, and there is room for {}",
                self.room
            );
        }
        let mut values: Vec<i64> = y.iter().map(|x| (x - lo).max(0)).collect();
        let mut inside = vec![false; y.len()];
        let drawn: Vec<usize> = draws
            .iter()
            .enumerate()
            .flat_map(|(h, own)| own.slots.iter().map(move |&(slot, _)| h * self.n + slot))
            .collect();
        for &id in &drawn {
            (values[id], inside[id]) = (0, true);
        }
        let mut last = None;
        if drawn.len() < k && k - drawn.len() <= values.len() {
            let width = self.whole_bits();
            let found = self.threshold(&values, k - drawn.len());
            let (v, id) = (
                (found >> width) as i64,
                (1 << width) - 1 - (found & ((1 << width) - 1)) as usize,
            );
            for (i, &x) in values.iter().enumerate() {
                inside[i] |= x > 0 && (x, id) >= (v, i);
            }
            last = Some((v, id)).filter(|&(v, _)| v > 0);
        } else if drawn.len() < k {
            for (i, &x) in values.iter().enumerate() {
                inside[i] |= x > 0;
            }
        }
        let returned: Vec<(usize, bool)> = (0..y.len()).filter(|&i| inside[i]).map(|i| (i, y[i] > lo)).collect();
        let (short, over) = (returned.len() < k, returned.len() > k);
        let (threshold, threshold_slot) = match last {
            Some((v, id)) if !short => (lo + v, id),
            _ if short => (lo + 1, y.len() - 1),
            _ => {
                let others = (0..y.len()).filter(|&i| !inside[i]).map(|i| y[i] + 1).max();
                (others.unwrap_or(lo + 1).max(lo + 1), y.len() - 1)
            }
        };
        Ok(Selection {
            draws,
            lo,
            k,
            returned,
            threshold,
            threshold_slot,
            short,
            over,
            steps: last.is_some() && !short,
        })
    }
}
