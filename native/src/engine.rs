// SPDX-License-Identifier: GPL-3.0-or-later
//! The mechanism for one circuit class, and the committed hints of its proof (protocol section 4).
//!
//! The answer path does the same work for every query: coarse bits of all slots, the bounds, and the fine bits of exactly
//! R places.  The order of the hints is that of `kernel/hints.py`, whose plain integers are the reference.

use crate::error::Result;
use crate::poseidon::Parameters;
use crate::{bail, ensure};
use ark_bn254::Fr;
use ark_ff::{AdditiveGroup, BigInt, PrimeField};
use rayon::prelude::*;

const MODULUS_BITS: usize = 254;
const UNIFORM_BITS: usize = 128;
const COARSE_CANONICAL_BITS: usize = 44;
const PLACE_CANONICAL_BITS: usize = 72;
const TAG_COARSE: u64 = 3;
const TAG_FINE: u64 = 4;
const PER_BLOCK: usize = 16;
/// Scores beyond this are no scores; keeps every integer below far from overflow.
const SCORE_LIMIT: i64 = 1 << 40;

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
    /// F(x) - 1 for x = -1, 0, ..., cut: the largest uniform that still gives a noise of at most x.
    last: Vec<u128>,
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
}

fn bits(x: &BigInt<4>, at: usize, width: usize) -> u128 {
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

fn signed(x: i128) -> Fr {
    if x < 0 {
        -Fr::from(x.unsigned_abs())
    } else {
        Fr::from(x.unsigned_abs())
    }
}

/// Chunks of range-checked values, with a count of every look-up.
struct Ranges {
    c: usize,
    seen: Vec<u64>,
}

impl Ranges {
    fn look(&mut self, chunk: u128) -> Result<u64> {
        ensure!(
            chunk < 1 << self.c,
            "policy overflow: a chunk is out of range, the policy does not fit its circuit class"
        );
        self.seen[chunk as usize] += 1;
        Ok(chunk as u64)
    }

    /// All chunks of a value in [0, 2^(c count)); the committed ones (all but the highest) go to `out`.
    fn low(&mut self, value: i128, count: usize, out: &mut Vec<u64>) -> Result<()> {
        ensure!(
            value >= 0 && (self.c * count >= 127 || value < 1i128 << (self.c * count)),
            "policy overflow: a comparison is out of range, the policy does not fit its circuit class"
        );
        self.low_unsigned(value as u128, count, out)
    }

    fn low_unsigned(&mut self, value: u128, count: usize, out: &mut Vec<u64>) -> Result<()> {
        for j in 0..count {
            let chunk = if self.c * j >= 128 { 0 } else { value >> (self.c * j) };
            let chunk = if j + 1 < count {
                chunk & ((1 << self.c) - 1)
            } else {
                chunk
            };
            let looked = self.look(chunk)?;
            if j + 1 < count {
                out.push(looked);
            }
        }
        Ok(())
    }

    /// Chunks of a value in [0, 2^width) exactly; a narrow highest chunk is looked up scaled as well.
    fn exact(&mut self, value: u128, width: usize, out: &mut Vec<u64>) -> Result<()> {
        let count = width.div_ceil(self.c);
        let narrow = width - self.c * (count - 1);
        for j in 0..count {
            let chunk = value >> (self.c * j);
            let chunk = if j + 1 < count {
                chunk & ((1 << self.c) - 1)
            } else {
                chunk
            };
            out.push(self.look(chunk)?);
            if j + 1 == count && narrow < self.c {
                self.look(chunk << (self.c - narrow))?;
            }
        }
        Ok(())
    }
}

impl Engine {
    /// `shape`: N, K, R, m, q, c, s.  `bounds`: B(k) for k < 2^m.  `last`: F(x) - 1 for x = -1..=cut.
    pub fn new(shape: [usize; 7], bounds: Vec<i64>, last: Vec<u128>, grid: usize) -> Result<Engine> {
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
            last.len() >= 2 && last.windows(2).all(|p| p[0] < p[1]) && last[last.len() - 1] == u128::MAX,
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
            last,
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

    fn canonical(element: &BigInt<4>, top: usize) -> Result<()> {
        let (mut value, mut limit) = (*element, Fr::MODULUS);
        value >>= top as u32;
        limit >>= top as u32;
        ensure!(
            value < limit,
            "overflow canonical: a Poseidon output is outside the canonical decomposition"
        );
        Ok(())
    }

    fn coarse(&self, key: Fr) -> Result<(Vec<BigInt<4>>, Vec<u32>)> {
        let wide = Parameters::of(17)?;
        let blocks = self.elements().div_ceil(PER_BLOCK);
        let shared = wide.shared_by_blocks(key);
        let mut elements: Vec<BigInt<4>> = (0..blocks)
            .into_par_iter()
            .flat_map_iter(|block| {
                let state = wide.block(&shared, Fr::from(block as u64 + (TAG_COARSE << 32)));
                state.into_iter().skip(1).map(|x| x.into_bigint())
            })
            .collect();
        elements.truncate(self.elements());
        let top = self.top(self.q * self.m, COARSE_CANONICAL_BITS);
        let mut u = Vec::with_capacity(self.n);
        for element in &elements {
            Self::canonical(element, top)?;
            u.extend((0..self.q).map(|j| bits(element, self.m * j, self.m) as u32));
        }
        Ok((elements, u))
    }

    /// Noise with fixed-length search: the number of steps depends on the table alone.
    fn noise(&self, uniform: u128) -> (bool, usize) {
        let negative = uniform < 1 << (UNIFORM_BITS - 1);
        let folded = if negative { !uniform } else { uniform };
        let table = &self.last[1..];
        let (mut low, mut size) = (0usize, table.len());
        while size > 1 {
            let half = size / 2;
            low += usize::from(table[low + half - 1] < folded) * half;
            size -= half;
        }
        (negative, low)
    }

    fn open(&self, key: Fr, slot: usize, w: i64, u: u32, hmax: i64) -> Result<Place> {
        let mut state = [Fr::ZERO, key, Fr::from(slot as u64 + (TAG_FINE << 32))];
        Parameters::of(3)?.permute(&mut state);
        let element = state[0].into_bigint();
        let fb = self.fine_bits();
        Self::canonical(&element, self.top(fb + self.s, PLACE_CANONICAL_BITS))?;
        let fine = bits(&element, 0, fb);
        let dither = bits(&element, fb, self.s) as u64;
        let (negative, magnitude) = self.noise(u128::from(u) << fb | fine);
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
        ensure!(w.iter().all(|x| x.abs() < SCORE_LIMIT), "a score is out of range");
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
        let mut ids: Vec<usize> = places[..self.k].iter().map(|p| p.slot).collect();
        ids.sort_unstable();
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
        })
    }

    /// The hint vector in the order of `kernel/hints.py`.
    pub fn hints(&self, chosen: &Selection, w: &[i64], hmax: i64) -> Result<Vec<Fr>> {
        let (c, vs) = (self.c, chosen.threshold);
        let mut ranges = Ranges {
            c,
            seen: vec![0; 1 << c],
        };
        let mut opened = vec![false; self.n];
        for p in &chosen.places {
            opened[p.slot] = true;
        }
        let limit = 1i64 << (2 * c);
        let mask = (1i64 << c) - 1;
        let mut x = Vec::with_capacity(self.n);
        for i in 0..self.n {
            let bound = self.bounds[chosen.u[i] as usize];
            let value = if opened[i] {
                let y = bound - vs + 1;
                (0..3)
                    .find(|t| y + t + w[i] != 0 && y + t + hmax != 0)
                    .expect("two of three can vanish")
            } else {
                let by_score = vs - 1 - bound - w[i];
                if (0..limit).contains(&by_score) {
                    by_score
                } else {
                    vs - 1 - bound - hmax
                }
            };
            ensure!(
                (0..limit).contains(&value),
                "policy overflow: a slot's distance to the threshold is out of range"
            );
            ranges.seen[(value & mask) as usize] += 1;
            ranges.seen[(value >> c) as usize] += 1;
            x.push(value);
        }

        let position = self.q * self.m;
        let filler = self.filler(position, COARSE_CANONICAL_BITS);
        let top = self.top(position, COARSE_CANONICAL_BITS);
        let chunks = (MODULUS_BITS - top).div_ceil(c);
        let (mut cf, mut ct, mut cd) = (Vec::new(), Vec::new(), Vec::new());
        for element in &chosen.elements {
            for j in 0..filler {
                cf.push(ranges.look(bits(element, position + c * j, c))?);
            }
            let value = bits(element, top, 128);
            ranges.low_unsigned(value, chunks, &mut ct)?;
            ranges.low_unsigned(bits(&Fr::MODULUS, top, 128) - 1 - value, chunks, &mut cd)?;
        }

        let mut mc = vec![0u64; 1 << self.m];
        for &u in &chosen.u {
            mc[u as usize] += 1;
        }
        let mut mz = vec![0u64; self.last.len() - 1];
        let p = self.places(chosen, &x, hmax, &mut ranges, &mut mc, &mut mz)?;

        let (mut isc, mut vt, mut tdc) = (Vec::new(), Vec::new(), Vec::new());
        ranges.exact(chosen.threshold_slot as u128, self.slot_bits(), &mut isc)?;
        isc.pop();
        ranges.low(i128::from(vs - 1 - self.bounds[chosen.theta - 1]), 2, &mut vt)?;
        let id_chunks = self.slot_bits().div_ceil(c);
        for pair in chosen.ids.windows(2) {
            ranges.low((pair[1] - pair[0] - 1) as i128, id_chunks, &mut tdc)?;
        }
        let first = (1 << self.m) - self.grid + 1;

        let small = |values: &[u64]| values.iter().map(|&v| Fr::from(v)).collect::<Vec<_>>();
        let mut h: Vec<Fr> = Vec::new();
        h.extend(chosen.u.iter().map(|&u| Fr::from(u)));
        h.extend(chosen.u.iter().map(|&u| signed(i128::from(self.bounds[u as usize]))));
        h.extend(x.iter().map(|v| Fr::from((v & mask) as u64)));
        h.extend(x.iter().map(|v| Fr::from((v >> c) as u64)));
        for group in [&cf, &ct, &cd, &mc, &ranges.seen, &mz] {
            h.extend(small(group));
        }
        h.extend(p);
        h.push(signed(i128::from(vs)));
        h.push(Fr::from(chosen.threshold_slot as u64));
        h.extend(small(&isc));
        h.extend((0..self.grid).map(|g| Fr::from(u64::from(first + g == chosen.theta))));
        h.extend(small(&vt));
        h.extend(chosen.ids.iter().map(|&i| Fr::from(i as u64)));
        h.extend(small(&tdc));
        Ok(h)
    }

    /// The places' groups, from `pi` to `pid`.
    fn places(
        &self,
        chosen: &Selection,
        x: &[i64],
        hmax: i64,
        ranges: &mut Ranges,
        mc: &mut [u64],
        mz: &mut [u64],
    ) -> Result<Vec<Fr>> {
        let (c, fb, l) = (self.c, self.fine_bits(), self.slot_bits());
        let position = fb + self.s;
        let filler = self.filler(position, PLACE_CANONICAL_BITS);
        let top = self.top(position, PLACE_CANONICAL_BITS);
        let top_chunks = (MODULUS_BITS - top).div_ceil(c);
        let uniform_chunks = UNIFORM_BITS.div_ceil(c);
        let compare_chunks = (2 * c + 1 + l).div_ceil(c);
        let count_chunks = self.m.div_ceil(c);
        let id_chunks = l.div_ceil(c);
        let mask = (1i64 << c) - 1;
        let r = self.r;
        let mut scalars: [Vec<Fr>; 2] = [Vec::with_capacity(r), Vec::with_capacity(r)]; // plo, phi
        let mut signs: [Vec<Fr>; 2] = [Vec::with_capacity(r), Vec::with_capacity(r)]; // pw, pb
        let mut g: Vec<Vec<u64>> = vec![Vec::new(); 22];
        let [pi, pu, px0, px1, pcl, pch, pa1, pa2, pf, pd, pff, pft, pfd, psg, pz, pd1, pd2, pwin, pcnt, pcm, pth, pid] =
            &mut g[..]
        else {
            unreachable!("twenty-two groups")
        };
        let mut before: i64 = -1;
        for place in &chosen.places {
            let (w, u) = (place.w, place.u as usize);
            mc[u] += 1;
            pi.push(place.slot as u64);
            signs[0].push(signed(i128::from(w)));
            pu.push(u as u64);
            signs[1].push(signed(i128::from(self.bounds[u])));
            let value = x[place.slot];
            px0.push(ranges.look((value & mask) as u128)?);
            px1.push(ranges.look((value >> c) as u128)?);
            let (below, above) = (w < 0, w > hmax);
            pcl.push(below.into());
            pch.push(above.into());
            ranges.low(i128::from(if below { -1 - w } else { w }), 2, pa1)?;
            ranges.low(i128::from(if above { w - hmax - 1 } else { hmax - w }), 2, pa2)?;
            ranges.exact(place.fine, fb, pf)?;
            ranges.exact(u128::from(place.dither), self.s, pd)?;
            for j in 0..filler {
                pff.push(ranges.look(bits(&place.element, position + c * j, c))?);
            }
            let high = bits(&place.element, top, 128);
            ranges.low_unsigned(high, top_chunks, pft)?;
            ranges.low_unsigned(bits(&Fr::MODULUS, top, 128) - 1 - high, top_chunks, pfd)?;
            let uniform = u128::from(place.u) << fb | place.fine;
            let (negative, magnitude) = self.noise(uniform);
            let folded = if negative { !uniform } else { uniform };
            mz[magnitude] += 1;
            psg.push(negative.into());
            pz.push(magnitude as u64);
            scalars[0].push(Fr::from(self.last[magnitude]) + Fr::from(1u64));
            scalars[1].push(Fr::from(self.last[magnitude + 1]) + Fr::from(1u64));
            ranges.low_unsigned(folded - self.last[magnitude] - 1, uniform_chunks, pd1)?;
            ranges.low_unsigned(self.last[magnitude + 1] - folded, uniform_chunks, pd2)?;
            let win = chosen.ids.binary_search(&place.slot).is_ok();
            let difference =
                (i128::from(place.v - chosen.threshold) << l) - (place.slot as i128 - chosen.threshold_slot as i128);
            pwin.push(win.into());
            ranges.low(if win { difference } else { -1 - difference }, compare_chunks, pcm)?;
            let counted = u >= chosen.theta;
            pcnt.push(counted.into());
            let distance = u as i128 - chosen.theta as i128;
            ranges.low(if counted { distance } else { -1 - distance }, count_chunks, pth)?;
            ranges.low(i128::from(place.slot as i64 - before - 1), id_chunks, pid)?;
            before = place.slot as i64;
        }
        ranges.low(i128::from(self.n as i64 - 1 - before), id_chunks, pid)?;
        let [pw, pb] = signs;
        let [plo, phi] = scalars;
        let plain = |values: &Vec<u64>| values.iter().map(|&v| Fr::from(v)).collect::<Vec<_>>();
        let mut out = plain(pi);
        out.extend(pw);
        out.extend(plain(pu));
        out.extend(pb);
        for group in [px0, px1, pcl, pch, pa1, pa2, pf, pd, pff, pft, pfd, psg, pz] {
            out.extend(plain(group));
        }
        out.extend(plo);
        out.extend(phi);
        for group in [pd1, pd2, pwin, pcnt, pcm, pth, pid] {
            out.extend(plain(group));
        }
        Ok(out)
    }
}
