// SPDX-License-Identifier: GPL-3.0-or-later
//! The committed hints of the lottery's proof, in the order of `kernel/lottery_statement.py`; `kernel/lottery_hints.py` is
//! the reference.

use super::{Lottery, Selection};
use crate::ensure;
use crate::error::Result;
use crate::noise::element_hints;
use crate::ranges::{signed, Ranges};
use ark_bn254::Fr;

/// Chunks of a score's distances.
const DISTANCE_CHUNKS: usize = 2;

/// The arrays of hints of places, one value or row a place each.
#[derive(Default)]
struct Places {
    slot: Vec<Fr>,
    score: Vec<Fr>,
    coarse: Vec<Fr>,
    bound: Vec<Fr>,
    distance: Vec<Fr>,
    positive: Vec<Fr>,
    capped: Vec<Fr>,
    prize: Vec<Fr>,
    counted: Vec<Fr>,
    floor: Vec<u64>,
    ceiling: Vec<u64>,
    wins: Vec<Fr>,
    margin: Vec<u64>,
    gap: Vec<u64>,
}

fn plain(values: &[u64]) -> impl Iterator<Item = Fr> + '_ {
    values.iter().map(|&v| Fr::from(v))
}

impl Lottery {
    /// Which slots a proof opens, R of them: those that reach the entry, and of the others the first ones.
    fn opened(&self, chosen: &Selection) -> Vec<bool> {
        let entry = chosen.threshold.min(chosen.width + (1 << self.m));
        let mut opened: Vec<bool> = chosen.values.iter().map(|&v| v >= entry).collect();
        let mut spare = self.r - opened.iter().filter(|&&x| x).count();
        for one in opened.iter_mut() {
            if spare > 0 && !*one {
                *one = true;
                spare -= 1;
            }
        }
        opened
    }

    /// X of a slot: of one that is opened the smallest for which (Y + w)(Y + H) is not 0, of another one what makes it 0.
    fn distance(&self, chosen: &Selection, opened: bool, w: i64, bound: i64) -> Result<i64> {
        let (by_score, by_window) = (
            chosen.threshold - 1 - bound - w,
            chosen.threshold - 1 - bound - chosen.width,
        );
        if opened {
            return Ok((0..3)
                .find(|&x| x != by_score && x != by_window)
                .expect("two of three values are taken at most"));
        }
        let room = 0..1i64 << (DISTANCE_CHUNKS * self.c);
        let distance = if room.contains(&by_score) { by_score } else { by_window };
        ensure!(
            room.contains(&distance),
            "policy overflow: a slot's distance to the threshold is out of range"
        );
        Ok(distance)
    }

    /// The hint vector in the order of `kernel/lottery_statement.py`.
    pub fn hints(&self, chosen: &Selection, w: &[i64]) -> Result<Vec<Fr>> {
        let (c, l) = (self.c, self.id_bits);
        let (first, lead) = (self.first_prize(chosen.prizes), chosen.width + (1 << self.m));
        let opened = self.opened(chosen);
        let mut ranges = Ranges::new(c);
        let mut coarse = vec![0u64; 1 << self.m];
        let mut h: Vec<Fr> = Vec::new();
        let (mut out, mut previous) = (Places::default(), -1i128);
        let id_chunks = l.div_ceil(c);
        for i in 0..self.n {
            let u = chosen.u[i];
            let prize = u as usize >= first;
            let bound = i64::from(u) + i64::from(prize) * lead;
            let distance = self.distance(chosen, opened[i], w[i], bound)?;
            let mut low = Vec::new();
            ranges.low(distance.into(), DISTANCE_CHUNKS, &mut low)?;
            h.extend([
                Fr::from(low[0]),
                Fr::from(u),
                signed(bound.into()),
                Fr::from((distance >> c) as u64),
            ]);
            coarse[u as usize] += 1;
            if opened[i] {
                coarse[u as usize] += 1;
                ranges.low(i as i128 - previous - 1, id_chunks, &mut out.gap)?;
                previous = i as i128;
                out.bound.push(signed(bound.into()));
                out.distance.push(Fr::from(ranges.look(distance as u128)?));
                self.place(chosen, i, w[i], prize, &mut ranges, &mut out)?;
            }
        }
        ranges.low(self.n as i128 - previous - 1, id_chunks, &mut out.gap)?;
        element_hints(&chosen.elements, self.q * self.m, c, &mut ranges, &mut h)?;
        let closing = self.closing(chosen, &mut ranges)?;
        h.extend(plain(&coarse));
        h.extend(plain(&ranges.seen));
        for group in [
            &out.slot,
            &out.score,
            &out.coarse,
            &out.bound,
            &out.distance,
            &out.positive,
            &out.capped,
            &out.prize,
            &out.counted,
        ] {
            h.extend(group);
        }
        h.extend(plain(&out.floor));
        h.extend(plain(&out.ceiling));
        h.extend(&out.wins);
        h.extend(plain(&out.margin));
        h.extend(plain(&out.gap));
        h.extend(closing);
        Ok(h)
    }

    /// One place's hints but for its bound, its distance and its gap.
    fn place(
        &self,
        chosen: &Selection,
        slot: usize,
        w: i64,
        prize: bool,
        ranges: &mut Ranges,
        out: &mut Places,
    ) -> Result<()> {
        let (width, u) = (chosen.width, chosen.u[slot]);
        let (positive, capped) = (w >= 1, w > width);
        let beyond = i64::from(u) - chosen.theta as i64;
        ranges.look(if beyond >= 0 { beyond } else { -1 - beyond } as u128)?;
        let floor = if positive { w - 1 } else { -w };
        let ceiling = if capped { w - width - 1 } else { width - w };
        ranges.low(floor.into(), DISTANCE_CHUNKS, &mut out.floor)?;
        ranges.low(ceiling.into(), DISTANCE_CHUNKS, &mut out.ceiling)?;
        let wins = chosen.ids.binary_search(&slot).is_ok();
        let ahead = (i128::from(chosen.values[slot] - chosen.threshold) << self.id_bits) - slot as i128
            + chosen.threshold_slot as i128;
        let chunks = (2 * self.c + self.id_bits).div_ceil(self.c);
        ranges.low(if wins { ahead } else { -1 - ahead }, chunks, &mut out.margin)?;
        out.slot.push(Fr::from(slot as u64));
        out.score.push(signed(w.into()));
        out.coarse.push(Fr::from(u));
        out.positive.push(Fr::from(positive));
        out.capped.push(Fr::from(capped));
        out.prize.push(Fr::from(prize));
        out.counted.push(Fr::from(beyond >= 0));
        out.wins.push(Fr::from(wins));
        Ok(())
    }

    /// Threshold, theta, the number of prizes and T.
    fn closing(&self, chosen: &Selection, ranges: &mut Ranges) -> Result<Vec<Fr>> {
        let (theta, mut above, mut low) = (chosen.theta as i64, Vec::new(), Vec::new());
        ranges.low((chosen.threshold - theta).into(), DISTANCE_CHUNKS, &mut above)?;
        ranges.exact(chosen.threshold_slot as u128, self.id_bits, &mut low)?;
        low.pop();
        ranges.look((self.first_prize(chosen.prizes) - chosen.theta) as u128)?;
        let (returned, gaps) = ranges.returned(&chosen.ids, &chosen.flags, self.id_bits + 1)?;
        let mut out = vec![
            signed(chosen.threshold.into()),
            Fr::from(above[0]),
            Fr::from(chosen.threshold_slot as u64),
        ];
        out.extend(plain(&low));
        let first = (1 << self.m) - self.grid + 1;
        out.extend((0..self.grid - 1).map(|g| Fr::from(first + g == chosen.theta)));
        out.extend((1..=self.most).map(|j| Fr::from(j == chosen.prizes)));
        out.extend(plain(&returned));
        out.extend(plain(&gaps));
        Ok(out)
    }
}
