// SPDX-License-Identifier: GPL-3.0-or-later
//! The committed hints of a record's proof, in the order of `kernel/statement.py`; `kernel/hints.py` is the reference.

use super::{bits, Engine, Selection};
use crate::constants::{COARSE_CANONICAL_BITS, MODULUS_BITS, PLACE_CANONICAL_BITS, UNIFORM_BITS};
use crate::ensure;
use crate::error::Result;
use crate::ranges::{signed, Ranges};
use ark_bn254::Fr;
use ark_ff::PrimeField;

impl Engine {
    /// The hint vector in the order of `kernel/statement.py`.
    pub fn hints(&self, chosen: &Selection, w: &[i64], hmax: i64) -> Result<Vec<Fr>> {
        let (c, vs) = (self.c, chosen.threshold);
        let mut ranges = Ranges::new(c);
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
        let mut mz = vec![0u64; self.least.len()];
        let p = self.places(chosen, &x, hmax, &mut ranges, &mut mc, &mut mz)?;

        let (mut isc, mut vt) = (Vec::new(), Vec::new());
        ranges.exact(chosen.threshold_slot as u128, self.slot_bits(), &mut isc)?;
        isc.pop();
        ranges.low(i128::from(vs - 1 - self.bounds[chosen.theta - 1]), 2, &mut vt)?;
        // 2 id + flag: L + 1 bits.
        let (returned, tdc) = ranges.returned(&chosen.ids, &chosen.flags, self.slot_bits() + 1)?;
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
        h.extend(small(&returned));
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
            let (below, above) = (w <= 0, w > hmax);
            pcl.push(below.into());
            pch.push(above.into());
            ranges.low(i128::from(if below { -w } else { w - 1 }), 2, pa1)?;
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
            let (negative, folded, magnitude) = self.noise(uniform);
            mz[magnitude] += 1;
            psg.push(negative.into());
            pz.push(magnitude as u64);
            let (first, last) = (self.least[magnitude], self.last(magnitude));
            scalars[0].push(Fr::from(first));
            scalars[1].push(Fr::from(last) + Fr::from(1u64));
            ranges.low_unsigned(folded - first, uniform_chunks, pd1)?;
            ranges.low_unsigned(last - folded, uniform_chunks, pd2)?;
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
