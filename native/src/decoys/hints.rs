// SPDX-License-Identifier: GPL-3.0-or-later
//! What a shard's proof opens, in the order of `kernel/decoys/statement.py`; `kernel/decoys/hints.py` is the reference.

use super::{Decoys, Selection};
use crate::constants::MODULUS_BITS;
use crate::elements::bits;
use crate::ensure;
use crate::error::Result;
use crate::ranges::{signed, Ranges};
use ark_bn254::Fr;
use ark_ff::{AdditiveGroup, Field, PrimeField, Zero};

/// The openings of one shard's commitments.
pub struct Assignment {
    /// m_0, ..., m_(N-1).
    pub members: Vec<Fr>,
    /// b_1, ..., b_N.
    pub behind: Vec<Fr>,
    pub hints: Vec<Fr>,
    /// Ids that the shard returns.
    pub count: usize,
}

/// The arrays of hints of elements, one value or row an element each.
#[derive(Default)]
struct Elements {
    used: Vec<Fr>,
    id: Vec<Fr>,
    id_low: Vec<Fr>,
    distance: Vec<Fr>,
    behind: Vec<Fr>,
    hits: Vec<Fr>,
    inverse: Vec<Fr>,
    drawn: Vec<Fr>,
    flag: Vec<Fr>,
    win_low: Vec<Fr>,
    flag_low: Vec<Fr>,
}

impl Decoys {
    /// The openings of one shard, whose scores are the `shard`-th N of `y`.
    pub fn assign(&self, chosen: &Selection, y: &[i32], shard: usize) -> Result<Assignment> {
        ensure!(shard < chosen.draws.len(), "there is no shard {shard}");
        let (n, base) = (self.n, shard * self.n);
        let (threshold, last) = self.threshold(chosen, y);
        let y = &y[base..base + n];
        let own: Vec<(usize, bool)> = chosen
            .returned
            .iter()
            .filter(|&&(id, _)| (base..base + n).contains(&id))
            .map(|&(id, flag)| (id - base, flag))
            .collect();
        let past = last < base;
        let entry = threshold + i64::from(past);
        let step = if chosen.last.is_some() && !past { last - base } else { n };
        let behind = |i: usize| i64::from(i > step);
        let mut ranges = Ranges::new(self.c);
        let mut h: Vec<Fr> = Vec::new();
        let mut inside = vec![false; n];
        for &(slot, _) in &own {
            inside[slot] = true;
        }
        for i in 0..n {
            if inside[i] {
                h.extend((self.chunks == 2).then(|| Fr::from(0u64)));
                continue;
            }
            let distance = i128::from(entry - 1 + behind(i) - i64::from(y[i]));
            ranges.low(distance, self.chunks, &mut Vec::new())?;
            if self.chunks == 2 {
                h.push(Fr::from((distance >> self.c) as u64));
            }
        }
        self.draw_hints(chosen, shard, &mut ranges, &mut h)?;
        let made = self.elements(chosen, (shard, &own), y, (entry, &behind), &mut ranges)?;
        h.extend(&made.used);
        h.extend(&made.id);
        h.extend(&made.id_low);
        for group in [
            &made.distance,
            &made.behind,
            &made.hits,
            &made.inverse,
            &made.drawn,
            &made.flag,
        ] {
            h.extend(group);
        }
        h.extend(&made.win_low);
        h.extend(&made.flag_low);
        let mut low = Vec::new();
        let ahead = last as i128 - base as i128;
        h.push(Fr::from(past));
        let whole = self.whole_bits().div_ceil(self.c);
        ranges.low(if past { -1 - ahead } else { ahead }, whole, &mut low)?;
        ranges.low(i128::from(threshold - i64::from(chosen.lo) - 1), self.chunks, &mut low)?;
        let total = chosen.returned.len() as i128 - chosen.k as i128;
        let most = usize::BITS as usize - (self.most * self.room).leading_zeros() as usize;
        let ends = i128::from(chosen.over) - i128::from(chosen.short);
        ranges.low(ends * total, most.div_ceil(self.c), &mut low)?;
        h.extend(&low);
        h.extend(ranges.seen.iter().map(|&count| Fr::from(count)));
        Ok(Assignment {
            members: inside.into_iter().map(Fr::from).collect(),
            behind: (1..=n).map(|i| Fr::from(behind(i) as u64)).collect(),
            hints: h,
            count: own.len(),
        })
    }

    /// Groups from `value` to `voidLow`.
    fn draw_hints(&self, chosen: &Selection, shard: usize, ranges: &mut Ranges, h: &mut Vec<Fr>) -> Result<()> {
        let (draws, c) = (&chosen.draws[shard], self.c);
        let (l, u) = (self.id_bits, self.uniform_ids());
        h.extend(draws.values.iter().map(|&v| Fr::from(v)));
        let mut low = Vec::new();
        for &value in &draws.values {
            ranges.exact(value.into(), l, &mut low)?;
            low.pop();
        }
        let (used, top) = (self.per_element() * l, self.top());
        let chunks = (MODULUS_BITS - top).div_ceil(c);
        for element in &draws.elements {
            for j in 0..self.filler() {
                low.push(Fr::from(ranges.look(bits(element, used + c * j, c))?));
            }
            let value = bits(element, top, 128);
            ranges.low_unsigned(value, chunks, &mut low)?;
            ranges.low_unsigned(bits(&Fr::MODULUS, top, 128) - 1 - value, chunks, &mut low)?;
        }
        h.extend(&low);
        h.extend((0..self.draws).map(|j| Fr::from(j < draws.number)));
        let uniform = self.uniform(&draws.values);
        let first = if draws.number > 0 {
            self.rows[draws.number - 1]
        } else {
            0
        };
        let (count, mut low) = ((u * l).div_ceil(c), Vec::new());
        ranges.low_unsigned(uniform - first, count, &mut low)?;
        ranges.low_unsigned(self.rows[draws.number] - 1 - uniform, count, &mut low)?;
        h.extend(&low);
        if self.n < 1 << l {
            let mut low = Vec::new();
            for &value in &draws.values[u..u + self.draws] {
                let value = value as usize;
                h.push(Fr::from(value >= self.n));
                ranges.low_unsigned(value.saturating_sub(self.n) as u128, l.div_ceil(c), &mut low)?;
            }
            h.extend(&low);
        }
        Ok(())
    }

    fn elements(
        &self,
        chosen: &Selection,
        (shard, own): (usize, &[(usize, bool)]),
        y: &[i32],
        (entry, behind): (i64, &dyn Fn(usize) -> i64),
        ranges: &mut Ranges,
    ) -> Result<Elements> {
        let mut out = Elements::default();
        let (drawn, lo) = (&chosen.draws[shard].slots, i64::from(chosen.lo));
        let (mut before, mut previous) = (0i64, None);
        for k in 0..self.room {
            let (slot, flag, used) = match own.get(k) {
                Some(&(slot, flag)) => (slot, flag, true),
                None => (previous.map_or(0, |last: usize| last + 1), false, false),
            };
            let hits = match drawn.binary_search_by_key(&slot, |&(slot, _)| slot) {
                Ok(at) if used => drawn[at].1,
                _ => 0,
            };
            let (score, after) = if used {
                (i64::from(y[slot]), behind(slot + 1))
            } else {
                (lo, before)
            };
            let distance = entry - 1 + before - score;
            if let Some(last) = previous {
                ranges.low(
                    (slot - last - 1) as i128,
                    self.id_bits.div_ceil(self.c),
                    &mut out.id_low,
                )?;
            }
            let win = if used && hits == 0 { -1 - distance } else { 0 };
            ranges.low(win.into(), self.chunks, &mut out.win_low)?;
            let (above, below) = (score - lo - 1, lo - score);
            ranges.low(if flag { above } else { below }.into(), self.chunks, &mut out.flag_low)?;
            out.used.push(Fr::from(used));
            out.id.push(Fr::from(slot as u64));
            out.distance.push(signed(distance.into()));
            out.behind.push(Fr::from(after as u64));
            out.hits.push(Fr::from(hits));
            out.inverse
                .push(Fr::from(hits).inverse().unwrap_or_else(|| Fr::from(0u64)));
            out.drawn.push(Fr::from(hits > 0));
            out.flag.push(Fr::from(flag));
            (before, previous) = (after, Some(slot));
        }
        Ok(out)
    }
}

/// Wires x and z of a shard with these scores, from what its commitments open to: `slot_wires` of the reference.
///
/// `chunks`: bits of a chunk, and chunks of a distance.
pub fn wires((c, chunks): (usize, usize), y: &[i32], opened: [&[Fr]; 3], beta: Fr) -> Result<[Vec<Fr>; 2]> {
    let [members, behind, hints] = opened;
    let n = y.len();
    ensure!(
        (2..=18).contains(&c) && (1..=2).contains(&chunks),
        "the class's widths are impossible"
    );
    let high = n * (chunks - 1);
    ensure!(
        members.len() == n && behind.len() == n && hints.len() >= high,
        "a shard with {n} scores has as many slots"
    );
    let (square, fourth) = (beta.square(), beta.square().square());
    let scale = match high {
        0 => beta,
        _ => beta + fourth * Fr::from(1u64 << c),
    };
    let (cube, mut before) = (square * beta, Fr::ZERO);
    let mut x = Vec::with_capacity(n);
    for (i, (&m, &after)) in members.iter().zip(behind).enumerate() {
        let own = if m.is_zero() {
            m
        } else {
            m * (scale + square * Fr::from(i as u64))
        };
        let step = if after == before {
            before
        } else {
            before + cube * (after - before)
        };
        x.push(own + step - signed(y[i].into()));
        before = after;
    }
    let z = hints[..high].iter().zip(members);
    let z = z.map(|(&hi, &m)| if m.is_zero() { hi } else { hi + fourth * m });
    Ok([x, z.collect()])
}
