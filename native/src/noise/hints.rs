// SPDX-License-Identifier: GPL-3.0-or-later
//! The committed hints of a shard's proof; `kernel/noise_hints.py` is the reference, `layout.rs` has their order.

use super::layout::Hint;
use super::shards::Whole;
use super::{Noise, Place, Selection};
use crate::arrays::Arrays;
use crate::elements::bits;
use crate::ensure;
use crate::error::Result;
use crate::ranges::{signed, Ranges};
use ark_bn254::Fr;
use ark_ff::{BigInt, PrimeField};

/// How often each row of each table is looked up.
struct Counts {
    ranges: Ranges,
    coarse: Vec<u64>,
    noise: Vec<u64>,
}

/// An element's bits: those that are used, filler chunks of `c` bits, a canonical top of so many chunks.
#[derive(Clone, Copy)]
pub(crate) struct Chunked {
    used: usize,
    c: usize,
    filler: usize,
    top: usize,
}

impl Chunked {
    pub(crate) fn new(used: usize, c: usize, filler: usize, top: usize) -> Chunked {
        Chunked { used, c, filler, top }
    }

    /// Position of the top.
    pub(crate) fn top_at(&self) -> usize {
        self.used + self.filler * self.c
    }
}

fn plain(values: &[u64]) -> impl Iterator<Item = Fr> + '_ {
    values.iter().map(|&v| Fr::from(v))
}

/// Filler, top and room of every element, in chunks.
pub(crate) fn element_hints(elements: &[BigInt<4>], cut: Chunked, ranges: &mut Ranges) -> Result<[Vec<Fr>; 3]> {
    let (mut fillers, mut tops, mut rooms) = (Vec::new(), Vec::new(), Vec::new());
    let limit = bits(&Fr::MODULUS, cut.top_at(), 128);
    for element in elements {
        for j in 0..cut.filler {
            fillers.push(Fr::from(ranges.look(bits(element, cut.used + cut.c * j, cut.c))?));
        }
        let value = bits(element, cut.top_at(), 128);
        ranges.low_unsigned(value, cut.top, &mut tops)?;
        ranges.low_unsigned(limit - 1 - value, cut.top, &mut rooms)?;
    }
    Ok([fillers, tops, rooms])
}

impl Noise {
    /// X of a place: the smaller of 0, 1 (full) or 2, 3 (not full) for which (Y + k)(Y + H) is not 0.
    fn place_distance(&self, place: &Place, entry: i64, steps: i64) -> i64 {
        let first = if place.full { 0 } else { 2 };
        let y = self.bounds[place.u as usize] - entry + 1;
        let passes = |x: i64| y + x + place.digit != 0 && y + x + steps != 0;
        if passes(first) {
            first
        } else {
            first + 1
        }
    }

    /// One shard's hint vector.
    pub(super) fn hints_of(&self, chosen: &Selection, w: &[i64], steps: i64, whole: &Whole) -> Result<Vec<Fr>> {
        let (c, limit) = (self.c, 1i64 << self.c);
        let mut counts = Counts {
            ranges: Ranges::new(c),
            coarse: vec![0; 1 << self.m],
            noise: vec![0; self.least.len() - 1],
        };
        let mut distances: Vec<Option<i64>> = vec![None; self.n];
        for p in &chosen.places {
            distances[p.slot] = Some(self.place_distance(p, chosen.entry, steps));
        }
        let mut h = Arrays::new(&self.sizes.lengths);
        for i in 0..self.n {
            let (u, digit) = (chosen.u[i], w[i] >> c);
            let bound = self.bounds[u as usize];
            let distance = distances[i].unwrap_or_else(|| {
                let by_digit = chosen.entry - 1 - bound - digit;
                if (0..limit).contains(&by_digit) {
                    by_digit
                } else {
                    chosen.entry - 1 - bound - steps
                }
            });
            ensure!(
                (0..limit).contains(&distance),
                "policy overflow: a slot's distance to the entry is out of range"
            );
            let remainder = counts.ranges.look((w[i] - (digit << c)) as u128)?;
            let looked = counts.ranges.look(distance as u128)?;
            h[Hint::Slot].extend([Fr::from(remainder), Fr::from(u), signed(bound.into()), Fr::from(looked)]);
            counts.coarse[u as usize] += 1;
        }
        let ranges = &mut counts.ranges;
        [h[Hint::CoarseFiller], h[Hint::CoarseTop], h[Hint::CoarseRoom]] =
            element_hints(&chosen.coarse_elements, self.coarse_cut(), ranges)?;
        [h[Hint::FineFiller], h[Hint::FineTop], h[Hint::FineRoom]] =
            element_hints(&chosen.fine_elements, self.fine_cut(), ranges)?;
        self.places(chosen, steps, &distances, &mut counts, &mut h)?;
        self.thresholds(chosen, whole.threshold_slot, &mut counts.ranges, &mut h)?;
        self.returned(whole, &mut counts.ranges, &mut h)?;
        h[Hint::CoarseCount].extend(plain(&counts.coarse));
        h[Hint::RangeCount].extend(plain(&counts.ranges.seen));
        h[Hint::NoiseCount].extend(plain(&counts.noise));
        h.complete(&self.sizes.lengths)
    }

    fn places(
        &self,
        chosen: &Selection,
        steps: i64,
        distances: &[Option<i64>],
        counts: &mut Counts,
        h: &mut Arrays<Hint>,
    ) -> Result<()> {
        let (l, entry, sizes) = (self.id_bits, chosen.entry, &self.sizes);
        let mut previous = -1 - (1i64 << l);
        for p in &chosen.places {
            let ranges = &mut counts.ranges;
            let bound = self.bounds[p.u as usize];
            let (positive, capped) = (p.digit >= 1, p.digit > steps);
            let counted = p.u as usize >= chosen.theta;
            for value in [
                if positive { p.digit - 1 } else { -p.digit },
                if capped { p.digit - steps - 1 } else { steps - p.digit },
                p.digit.clamp(0, steps) + bound - entry + i64::from(!p.full),
                if counted {
                    i64::from(p.u) - chosen.theta as i64
                } else {
                    chosen.theta as i64 - 1 - i64::from(p.u)
                },
            ] {
                ensure!(value >= 0, "policy overflow: a place's value is out of range");
                ranges.look(value as u128)?;
            }
            h[Hint::PlaceSlot].push(Fr::from(p.slot as u64));
            h[Hint::PlaceDigit].push(signed(p.digit.into()));
            h[Hint::PlaceCoarse].push(Fr::from(p.u));
            h[Hint::PlaceBound].push(signed(bound.into()));
            h[Hint::PlaceShift].push(Fr::from(distances[p.slot].expect("a place has one") as u64 & 1));
            h[Hint::PlacePositive].push(Fr::from(positive));
            h[Hint::PlaceCapped].push(Fr::from(capped));
            h[Hint::PlaceFull].push(Fr::from(p.full));
            h[Hint::PlaceCounted].push(Fr::from(counted));
            ranges.exact(p.fine, sizes.fine_bits, &mut h[Hint::PlaceFine])?;
            let (negative, folded, magnitude) = self.noise(u128::from(p.u) << sizes.fine_bits | p.fine);
            let (before, upto) = (self.least[magnitude], self.least[magnitude + 1]);
            h[Hint::PlaceSign].push(Fr::from(negative));
            h[Hint::PlaceMagnitude].push(Fr::from(magnitude as u64));
            h[Hint::PlaceBefore].push(Fr::from(before));
            h[Hint::PlaceUpto].push(Fr::from(upto));
            ranges.low_unsigned(folded - before, sizes.uniform_chunks, &mut h[Hint::PlaceBelow])?;
            ranges.low_unsigned(upto - 1 - folded, sizes.uniform_chunks, &mut h[Hint::PlaceAbove])?;
            let wins = chosen.wins.binary_search(&p.slot).is_ok();
            let ahead = (i128::from(p.v - chosen.threshold) << l) - p.slot as i128 + i128::from(chosen.threshold_slot);
            h[Hint::PlaceWins].push(Fr::from(wins));
            ranges.low(
                if wins { ahead } else { -1 - ahead },
                sizes.compare_chunks,
                &mut h[Hint::PlaceMargin],
            )?;
            let position = p.slot as i64 - (i64::from(p.full) << l);
            ranges.low(
                i128::from(position - previous - 1),
                sizes.returned_chunks,
                &mut h[Hint::PlaceGap],
            )?;
            previous = position;
            counts.coarse[p.u as usize] += 1;
            counts.noise[magnitude] += 1;
        }
        let rest = i128::from(self.n as i64 - 1 - previous);
        counts.ranges.low(rest, sizes.returned_chunks, &mut h[Hint::PlaceGap])?;
        Ok(())
    }

    /// The entry, theta, and i* = `slot`'s chunks.
    fn thresholds(&self, chosen: &Selection, slot: i64, ranges: &mut Ranges, h: &mut Arrays<Hint>) -> Result<()> {
        let below = chosen.entry - 1 - self.bounds[chosen.theta - 1];
        for value in [chosen.threshold - chosen.entry, below] {
            ensure!(value >= 0, "policy overflow: a threshold is out of range");
            ranges.look(value as u128)?;
        }
        h[Hint::Entry].push(signed(chosen.entry.into()));
        ranges.exact(slot as u128, self.id_bits, &mut h[Hint::ThresholdSlotLow])?;
        h[Hint::ThresholdSlotLow].pop();
        let first = (1 << self.m) - self.grid + 1;
        h[Hint::ThetaChoice].extend((0..self.grid).map(|g| Fr::from(first + g == chosen.theta)));
        Ok(())
    }

    /// T of the whole, and where its ids lie beside this shard.
    fn returned(&self, whole: &Whole, ranges: &mut Ranges, h: &mut Arrays<Hint>) -> Result<()> {
        let (n, chunks) = (self.n as i128, self.sizes.returned_chunks);
        let mut previous = -1;
        h[Hint::Returned].extend(plain(&whole.returned));
        for &packed in &whole.returned {
            let first = i128::from(packed) - 2 * n * whole.shard as i128;
            let last = 2 * n - 1 - first;
            let low = if first < 0 { -1 - first } else { first };
            let high = if last < 0 { -1 - last } else { last };
            ranges.low(i128::from(packed) - previous - 1, chunks, &mut h[Hint::ReturnedGap])?;
            ranges.low(low, chunks, &mut h[Hint::InsideLow])?;
            ranges.low(high, chunks, &mut h[Hint::InsideHigh])?;
            h[Hint::InsideBelow].push(Fr::from(first < 0));
            h[Hint::InsideBeyond].push(Fr::from(last < 0));
            previous = i128::from(packed);
        }
        let rest = 2 * n * whole.shards as i128 - 1 - previous;
        ranges.low(rest, chunks, &mut h[Hint::ReturnedGap])
    }
}
