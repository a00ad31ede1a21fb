// SPDX-License-Identifier: GPL-3.0-or-later
//! The committed hints of a shard's proof, in the order of `kernel/noise_statement.py`; `kernel/noise_hints.py` is the
//! reference.

use super::shards::Whole;
use super::{filler, top, Noise, Place, Selection, PER};
use crate::constants::MODULUS_BITS;
use crate::elements::bits;
use crate::ensure;
use crate::error::Result;
use crate::ranges::{signed, Ranges};
use ark_bn254::Fr;
use ark_ff::{BigInt, PrimeField};

/// The arrays of hints of places, one value or row a place each.
#[derive(Default)]
struct Places {
    slot: Vec<Fr>,
    digit: Vec<Fr>,
    coarse: Vec<Fr>,
    bound: Vec<Fr>,
    shift: Vec<Fr>,
    positive: Vec<Fr>,
    capped: Vec<Fr>,
    full: Vec<Fr>,
    counted: Vec<Fr>,
    fine: Vec<u64>,
    sign: Vec<Fr>,
    magnitude: Vec<Fr>,
    before: Vec<Fr>,
    upto: Vec<Fr>,
    below: Vec<u64>,
    above: Vec<u64>,
    wins: Vec<Fr>,
    margin: Vec<u64>,
    gap: Vec<u64>,
}

/// How often each row of each table is looked up.
struct Counts {
    ranges: Ranges,
    coarse: Vec<u64>,
    noise: Vec<u64>,
}

fn plain(values: &[u64]) -> impl Iterator<Item = Fr> + '_ {
    values.iter().map(|&v| Fr::from(v))
}

/// Filler, top and room of every element, in chunks of `c` bits: three arrays, one after the other.
pub(crate) fn element_hints(
    elements: &[BigInt<4>],
    used: usize,
    c: usize,
    ranges: &mut Ranges,
    h: &mut Vec<Fr>,
) -> Result<()> {
    let position = top(used, c);
    let chunks = (MODULUS_BITS - position).div_ceil(c);
    let (mut fillers, mut tops, mut rooms) = (Vec::new(), Vec::new(), Vec::new());
    for element in elements {
        for j in 0..filler(used, c) {
            fillers.push(ranges.look(bits(element, used + c * j, c))?);
        }
        let value = bits(element, position, 128);
        ranges.low_unsigned(value, chunks, &mut tops)?;
        ranges.low_unsigned(bits(&Fr::MODULUS, position, 128) - 1 - value, chunks, &mut rooms)?;
    }
    for group in [fillers, tops, rooms] {
        h.extend(plain(&group));
    }
    Ok(())
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

    /// One shard's hint vector in the order of `kernel/noise_statement.py`.
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
        let mut h: Vec<Fr> = Vec::new();
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
            h.extend([Fr::from(remainder), Fr::from(u), signed(bound.into()), Fr::from(looked)]);
            counts.coarse[u as usize] += 1;
        }
        let fine = PER * self.fine_bits();
        element_hints(&chosen.coarse_elements, self.q * self.m, c, &mut counts.ranges, &mut h)?;
        element_hints(&chosen.fine_elements, fine, c, &mut counts.ranges, &mut h)?;

        let places = self.places(chosen, steps, &distances, &mut counts)?;
        let closing = self.closing(chosen, whole, &mut counts.ranges)?;
        h.extend(plain(&counts.coarse));
        h.extend(plain(&counts.ranges.seen));
        h.extend(plain(&counts.noise));
        for group in [
            &places.slot,
            &places.digit,
            &places.coarse,
            &places.bound,
            &places.shift,
            &places.positive,
            &places.capped,
            &places.full,
            &places.counted,
        ] {
            h.extend(group);
        }
        h.extend(plain(&places.fine));
        for group in [&places.sign, &places.magnitude, &places.before, &places.upto] {
            h.extend(group);
        }
        h.extend(plain(&places.below));
        h.extend(plain(&places.above));
        h.extend(&places.wins);
        h.extend(plain(&places.margin));
        h.extend(plain(&places.gap));
        h.extend(closing);
        Ok(h)
    }

    fn places(&self, chosen: &Selection, steps: i64, distances: &[Option<i64>], counts: &mut Counts) -> Result<Places> {
        let (c, l, entry) = (self.c, self.id_bits, chosen.entry);
        let gap_chunks = (l + 1).div_ceil(c);
        let compare_chunks = (c + 1 + l).div_ceil(c);
        let uniform_chunks = self.width.div_ceil(c);
        let (mut out, mut previous) = (Places::default(), -1 - (1i64 << l));
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
            out.slot.push(Fr::from(p.slot as u64));
            out.digit.push(signed(p.digit.into()));
            out.coarse.push(Fr::from(p.u));
            out.bound.push(signed(bound.into()));
            out.shift
                .push(Fr::from(distances[p.slot].expect("a place has one") as u64 & 1));
            out.positive.push(Fr::from(positive));
            out.capped.push(Fr::from(capped));
            out.full.push(Fr::from(p.full));
            out.counted.push(Fr::from(counted));
            ranges.exact(p.fine, self.fine_bits(), &mut out.fine)?;
            let (negative, folded, magnitude) = self.noise(u128::from(p.u) << self.fine_bits() | p.fine);
            let (before, upto) = (self.least[magnitude], self.least[magnitude + 1]);
            if self.least[0] > 0 {
                out.sign.push(Fr::from(negative));
            }
            out.magnitude.push(Fr::from(magnitude as u64));
            out.before.push(Fr::from(before));
            out.upto.push(Fr::from(upto));
            ranges.low_unsigned(folded - before, uniform_chunks, &mut out.below)?;
            ranges.low_unsigned(upto - 1 - folded, uniform_chunks, &mut out.above)?;
            let wins = chosen.wins.binary_search(&p.slot).is_ok();
            let ahead = (i128::from(p.v - chosen.threshold) << l) - p.slot as i128 + i128::from(chosen.threshold_slot);
            out.wins.push(Fr::from(wins));
            ranges.low(if wins { ahead } else { -1 - ahead }, compare_chunks, &mut out.margin)?;
            let position = p.slot as i64 - (i64::from(p.full) << l);
            ranges.low(i128::from(position - previous - 1), gap_chunks, &mut out.gap)?;
            previous = position;
            counts.coarse[p.u as usize] += 1;
            counts.noise[magnitude] += 1;
        }
        let rest = i128::from(self.n as i64 - 1 - previous);
        counts.ranges.low(rest, gap_chunks, &mut out.gap)?;
        Ok(out)
    }

    /// Look-ups of the entry, the threshold and theta; the lower chunks of i* = `slot`.
    fn threshold_chunks(&self, chosen: &Selection, slot: i64, ranges: &mut Ranges) -> Result<Vec<u64>> {
        let mut low = Vec::new();
        let below = chosen.entry - 1 - self.bounds[chosen.theta - 1];
        for value in [chosen.threshold - chosen.entry, below] {
            ensure!(value >= 0, "policy overflow: a threshold is out of range");
            ranges.look(value as u128)?;
        }
        ranges.exact(slot as u128, self.id_bits, &mut low)?;
        low.pop();
        Ok(low)
    }

    /// Which point of the grid theta is.
    fn theta_choice<'a>(&'a self, chosen: &'a Selection) -> impl Iterator<Item = Fr> + 'a {
        let first = (1 << self.m) - self.grid + 1;
        (0..self.grid).map(move |g| Fr::from(first + g == chosen.theta))
    }

    /// Entry, theta and T of the whole, and where its ids lie beside this shard.
    fn closing(&self, chosen: &Selection, whole: &Whole, ranges: &mut Ranges) -> Result<Vec<Fr>> {
        let (n, chunks) = (self.n as i128, (self.id_bits + 1).div_ceil(self.c));
        let low = self.threshold_chunks(chosen, whole.threshold_slot, ranges)?;
        let mut out = vec![signed(chosen.entry.into())];
        out.extend(plain(&low));
        out.extend(self.theta_choice(chosen));
        out.extend(plain(&whole.returned));
        let (mut gaps, mut before, mut behind, mut firsts, mut lasts) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut previous = -1;
        for &packed in &whole.returned {
            let first = i128::from(packed) - 2 * n * whole.shard as i128;
            let last = 2 * n - 1 - first;
            ranges.low(i128::from(packed) - previous - 1, chunks, &mut gaps)?;
            ranges.low(if first < 0 { -1 - first } else { first }, chunks, &mut firsts)?;
            ranges.low(if last < 0 { -1 - last } else { last }, chunks, &mut lasts)?;
            before.push(Fr::from(first < 0));
            behind.push(Fr::from(last < 0));
            previous = i128::from(packed);
        }
        ranges.low(2 * n * whole.shards as i128 - 1 - previous, chunks, &mut gaps)?;
        out.extend(plain(&gaps));
        out.extend(before);
        out.extend(behind);
        out.extend(plain(&firsts));
        out.extend(plain(&lasts));
        Ok(out)
    }
}
