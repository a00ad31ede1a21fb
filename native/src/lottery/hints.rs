// SPDX-License-Identifier: GPL-3.0-or-later
//! The committed hints of the lottery's proof; `kernel/lottery_hints.py` is the reference, `layout.rs` has their order.

use super::layout::{Hint, DISTANCE_CHUNKS};
use super::{Lottery, Selection};
use crate::arrays::Arrays;
use crate::ensure;
use crate::error::Result;
use crate::noise::element_hints;
use crate::ranges::{signed, Ranges};
use ark_bn254::Fr;

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

    /// The hint vector.
    pub fn hints(&self, chosen: &Selection, w: &[i64]) -> Result<Vec<Fr>> {
        let (first, lead) = (self.first_prize(chosen.prizes), chosen.width + (1 << self.m));
        let opened = self.opened(chosen);
        let mut ranges = Ranges::new(self.c);
        let mut coarse = vec![0u64; 1 << self.m];
        let mut h = Arrays::new(&self.sizes.lengths);
        let mut previous = -1i128;
        for i in 0..self.n {
            let u = chosen.u[i];
            let prize = u as usize >= first;
            let bound = i64::from(u) + i64::from(prize) * lead;
            let distance = self.distance(chosen, opened[i], w[i], bound)?;
            let slot = &mut h[Hint::Slot];
            ranges.low(distance.into(), DISTANCE_CHUNKS, slot)?;
            slot.extend([Fr::from(u), signed(bound.into()), Fr::from((distance >> self.c) as u64)]);
            coarse[u as usize] += 1;
            if opened[i] {
                coarse[u as usize] += 1;
                let gap = i as i128 - previous - 1;
                ranges.low(gap, self.sizes.id_chunks, &mut h[Hint::PlaceGap])?;
                previous = i as i128;
                h[Hint::PlaceBound].push(signed(bound.into()));
                h[Hint::PlaceDistance].push(Fr::from(ranges.look(distance as u128)?));
                self.place(chosen, i, w[i], prize, &mut ranges, &mut h)?;
            }
        }
        let rest = self.n as i128 - previous - 1;
        ranges.low(rest, self.sizes.id_chunks, &mut h[Hint::PlaceGap])?;
        [h[Hint::CoarseFiller], h[Hint::CoarseTop], h[Hint::CoarseRoom]] =
            element_hints(&chosen.elements, self.coarse_cut(), &mut ranges)?;
        self.closing(chosen, &mut ranges, &mut h)?;
        h[Hint::CoarseCount].extend(plain(&coarse));
        h[Hint::RangeCount].extend(plain(&ranges.seen));
        h.complete(&self.sizes.lengths)
    }

    /// One place's hints but for its bound, its distance and its gap.
    fn place(
        &self,
        chosen: &Selection,
        slot: usize,
        w: i64,
        prize: bool,
        ranges: &mut Ranges,
        h: &mut Arrays<Hint>,
    ) -> Result<()> {
        let (width, u) = (chosen.width, chosen.u[slot]);
        let (positive, capped) = (w >= 1, w > width);
        let beyond = i64::from(u) - chosen.theta as i64;
        ranges.look(if beyond >= 0 { beyond } else { -1 - beyond } as u128)?;
        let floor = if positive { w - 1 } else { -w };
        let ceiling = if capped { w - width - 1 } else { width - w };
        ranges.low(floor.into(), DISTANCE_CHUNKS, &mut h[Hint::PlaceFloor])?;
        ranges.low(ceiling.into(), DISTANCE_CHUNKS, &mut h[Hint::PlaceCeiling])?;
        let wins = chosen.ids.binary_search(&slot).is_ok();
        let ahead = (i128::from(chosen.values[slot] - chosen.threshold) << self.id_bits) - slot as i128
            + chosen.threshold_slot as i128;
        let margin = if wins { ahead } else { -1 - ahead };
        ranges.low(margin, self.sizes.compare_chunks, &mut h[Hint::PlaceMargin])?;
        h[Hint::PlaceSlot].push(Fr::from(slot as u64));
        h[Hint::PlaceScore].push(signed(w.into()));
        h[Hint::PlaceCoarse].push(Fr::from(u));
        h[Hint::PlacePositive].push(Fr::from(positive));
        h[Hint::PlaceCapped].push(Fr::from(capped));
        h[Hint::PlacePrize].push(Fr::from(prize));
        h[Hint::PlaceCounted].push(Fr::from(beyond >= 0));
        h[Hint::PlaceWins].push(Fr::from(wins));
        Ok(())
    }

    /// Threshold, theta, the number of prizes and T.
    fn closing(&self, chosen: &Selection, ranges: &mut Ranges, h: &mut Arrays<Hint>) -> Result<()> {
        let above = chosen.threshold - chosen.theta as i64;
        h[Hint::Threshold].push(signed(chosen.threshold.into()));
        ranges.low(above.into(), DISTANCE_CHUNKS, &mut h[Hint::ThresholdLow])?;
        h[Hint::ThresholdSlot].push(Fr::from(chosen.threshold_slot as u64));
        ranges.exact(
            chosen.threshold_slot as u128,
            self.id_bits,
            &mut h[Hint::ThresholdSlotLow],
        )?;
        h[Hint::ThresholdSlotLow].pop();
        ranges.look((self.first_prize(chosen.prizes) - chosen.theta) as u128)?;
        let first = (1 << self.m) - self.grid + 1;
        h[Hint::ThetaChoice].extend((0..self.grid - 1).map(|g| Fr::from(first + g == chosen.theta)));
        h[Hint::PrizeChoice].extend((1..=self.most).map(|j| Fr::from(j == chosen.prizes)));
        let packed = chosen.ids.iter().zip(&chosen.flags);
        let packed: Vec<u64> = packed.map(|(&id, &flag)| 2 * id as u64 + u64::from(flag)).collect();
        h[Hint::Returned].extend(plain(&packed));
        for pair in packed.windows(2) {
            let gap = i128::from(pair[1] - pair[0] - 1);
            ranges.low(gap, self.sizes.returned_chunks, &mut h[Hint::ReturnedGap])?;
        }
        Ok(())
    }
}
