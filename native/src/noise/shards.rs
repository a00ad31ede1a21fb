// SPDX-License-Identifier: GPL-3.0-or-later
//! The shards of an index under one key and one threshold; `kernel/noise_mechanism.py` is the reference.

use super::Noise;
use crate::ensure;
use crate::error::Result;
use ark_bn254::Fr;
use rayon::prelude::*;

/// What one shard's proof has to know of the whole.
pub struct Whole {
    pub shard: usize,
    pub shards: usize,
    /// v*, and i*, an id of the whole index.
    pub threshold: i64,
    pub threshold_slot: i64,
    /// 2 id + flag of T's slots, increasing.
    pub returned: Vec<u64>,
}

/// T of the whole index, by ids.
pub struct Answer {
    pub threshold: i64,
    pub threshold_slot: i64,
    /// Each with its flag: its score is at least a step.
    pub returned: Vec<(usize, bool)>,
    /// The entry of every shard, and its theta.
    pub limits: Vec<(i64, usize)>,
}

impl Noise {
    /// Noise over every slot of every shard, N scores each, and the exact top K by (v, -id).
    pub fn select(&self, key: Fr, w: &[i64], steps: i64) -> Result<Answer> {
        ensure!(
            !w.is_empty() && w.len() % self.n == 0 && w.len() <= self.n * self.most,
            "{} scores are no shards of {} slots, {} at most",
            w.len(),
            self.n,
            self.most
        );
        type Places = (i64, Vec<(i64, i64, bool)>);
        let opened: Vec<Places> = w
            .par_chunks(self.n)
            .enumerate()
            .map(|(shard, scores)| {
                let (one, base) = (self.open(key, scores, steps, shard as u64)?, (shard * self.n) as i64);
                let places = one.places.iter().map(|p| (-p.v, base + p.slot as i64, p.digit >= 1));
                Ok((one.entry, places.collect()))
            })
            .collect::<Result<_>>()?;
        let mut best: Vec<(i64, i64, bool)> = opened.iter().flat_map(|(_, places)| places).copied().collect();
        best.sort_unstable();
        let (value, threshold_slot, _) = best[self.k - 1];
        let limits = opened.iter().map(|&(entry, _)| Ok((entry, self.theta(entry, -value)?)));
        let limits = limits.collect::<Result<_>>()?;
        let mut returned: Vec<(usize, bool)> = best[..self.k]
            .iter()
            .map(|&(_, id, flag)| (id as usize, flag))
            .collect();
        returned.sort_unstable();
        Ok(Answer {
            threshold: -value,
            threshold_slot,
            returned,
            limits,
        })
    }

    /// One shard's hint vector: of its own scores and of what all shards share.
    pub fn hints(&self, key: Fr, w: &[i64], steps: i64, whole: &Whole) -> Result<Vec<Fr>> {
        ensure!(
            whole.shard < whole.shards && whole.shards <= self.most,
            "there is no shard {} of {}",
            whole.shard,
            whole.shards
        );
        ensure!(
            whole.returned.len() == self.k
                && whole.returned.windows(2).all(|p| p[0] < p[1])
                && whole.returned[self.k - 1] < 2 * (self.n * whole.shards) as u64
                && (0..1i64 << self.id_bits).contains(&whole.threshold_slot),
            "T must be K increasing ids of the index"
        );
        let opened = self.open(key, w, steps, whole.shard as u64)?;
        let base = (whole.shard * self.n) as i64;
        let chosen = self.at_threshold(opened, whole.threshold, whole.threshold_slot - base)?;
        self.hints_of(&chosen, w, steps, whole)
    }
}
