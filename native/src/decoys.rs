// SPDX-License-Identifier: GPL-3.0-or-later
//! Decoys of one class and table of draws: what is drawn, and the best others; `kernel/decoys/law.py` is the reference.
//!
//! The answer path does the same work for all scores up to the list itself.  Constant for a class: permutations, ids of all
//! draws, and passes over all slots, which compare and count without a branch.  What is drawn says how many ids are missing,
//! and which blocks of slots are gone through one by one is the list: both are released.

mod choice;
mod hints;

use crate::constants::*;
use crate::elements::{bits, canonical};
use crate::error::Result;
use crate::poseidon::Parameters;
use crate::{bail, ensure};
use ark_bn254::Fr;
use ark_ff::BigInt;
use rayon::prelude::*;

pub use hints::{wires, Assignment};

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
    lo: i32,
    k: usize,
    /// Ids of the whole index, increasing, and whether they match.
    pub returned: Vec<(usize, bool)>,
    pub short: bool,
    pub over: bool,
    /// i*, where it is a result: b steps up behind it.
    last: Option<usize>,
}

/// The smallest L with 2^L >= n, for n of 2 at least.
fn bits_of(n: usize) -> usize {
    usize::BITS as usize - (n - 1).leading_zeros() as usize
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

    /// N.
    pub fn slots(&self) -> usize {
        self.n
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

    /// What every shard draws.
    pub fn draw(&self, key: Fr, shards: usize) -> Result<Vec<Draws>> {
        ensure!(
            (1..=self.most).contains(&shards),
            "there are 1 to {} shards, not {shards}",
            self.most
        );
        (0..shards)
            .into_par_iter()
            .map(|shard| self.drawn(key, shard))
            .collect()
    }

    /// T of all shards' scores, N each: what is drawn, and the best others that score above `lo`, up to `k` in all.
    pub fn select(&self, draws: Vec<Draws>, y: &[i32], lo: i64, k: usize) -> Result<Selection> {
        let shards = draws.len();
        ensure!(
            y.len() == shards * self.n,
            "{} scores are not those of {shards} shards of {} slots",
            y.len(),
            self.n
        );
        let room = shards * self.room;
        ensure!((1..=room).contains(&k), "K is 1 to {room}, not {k}");
        let Some(lo) = i32::try_from(lo).ok().filter(|&lo| lo >= 0) else {
            bail!("lo is out of range");
        };
        let (least, most) = choice::extremes(y);
        ensure!(
            i64::from(most.max(lo)) + 1 - i64::from(least) < self.reach(),
            "policy overflow: scores from {least} to {most} are out of the class's range"
        );
        // All results may lie in one shard: whether they fit is a question of what is drawn alone.
        let drawn: usize = draws.iter().map(|own| own.slots.len()).sum();
        let missing = k.saturating_sub(drawn);
        let fullest = draws.iter().map(|own| own.slots.len() + missing).max().unwrap_or(0);
        if fullest > self.room {
            bail!(
                "overflow: a shard may have to return {fullest} ids, and there is room for {}",
                self.room
            );
        }
        let mut values = choice::above(y, lo);
        let mut ids = Vec::with_capacity(drawn + missing);
        for (shard, own) in draws.iter().enumerate() {
            ids.extend(own.slots.iter().map(|&(slot, _)| shard * self.n + slot));
        }
        for &id in &ids {
            values[id] = 0;
        }
        let last = if missing > 0 {
            let last = choice::last(&values, missing, self.chunks * self.c);
            choice::upto(&values, last, &mut ids);
            last.map(|(_, id)| id)
        } else {
            None
        };
        ids.sort_unstable();
        let returned: Vec<(usize, bool)> = ids.into_iter().map(|id| (id, y[id] > lo)).collect();
        Ok(Selection {
            draws,
            lo,
            k,
            short: returned.len() < k,
            over: returned.len() > k,
            returned,
            last,
        })
    }

    /// v* and i*: the last result, or what no slot outside of T reaches.
    pub fn threshold(&self, chosen: &Selection, y: &[i32]) -> (i64, usize) {
        let (first, end) = (i64::from(chosen.lo) + 1, y.len() - 1);
        match chosen.last {
            Some(id) => (i64::from(y[id]), id),
            None if chosen.short => (first, end),
            None => {
                let mut inside = vec![false; y.len()];
                for &(id, _) in &chosen.returned {
                    inside[id] = true;
                }
                let others = y.iter().zip(&inside).filter(|(_, &inside)| !inside);
                (others.map(|(&y, _)| i64::from(y) + 1).fold(first, i64::max), end)
            }
        }
    }
}
