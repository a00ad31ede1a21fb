// SPDX-License-Identifier: GPL-3.0-or-later
//! Sizes and hints of one class; generated from kernel/noise_statement.py by scripts/layout.py.

use crate::arrays::Name;
use crate::constants::{COARSE_CANONICAL_BITS, MODULUS_BITS};

pub const PLACES_PER_ELEMENT: usize = 2;

/// What a class gives.
pub struct Given {
    /// N: slots of a shard.
    pub n: usize,
    /// K: slots returned, of all shards together.
    pub k: usize,
    /// R: places of a shard.
    pub r: usize,
    /// m: coarse bits a slot.
    pub m: usize,
    /// q: slots a coarse element.
    pub q: usize,
    /// c: bits of a chunk.
    pub c: usize,
    /// L: bits of an id of the whole index.
    pub l: usize,
    /// uniformBits: bits of a uniform.
    pub uniform_bits: usize,
    /// G: points of theta's grid.
    pub g: usize,
    /// CUT: largest noise.
    pub cut: usize,
}

/// What follows from it; not all of it is read here.
#[allow(dead_code)]
pub struct Sizes {
    /// Coarse elements.
    pub elements: usize,
    /// Elements of fine bits.
    pub fine_elements: usize,
    /// Fine bits of a place.
    pub fine_bits: usize,
    /// Chunks of a place's fine bits.
    pub fine_chunks: usize,
    /// Chunks of a coarse element above the slots' bits.
    pub coarse_filler: usize,
    /// Chunks of its canonical top.
    pub coarse_top: usize,
    /// Chunks of an element of fine bits above those.
    pub fine_filler: usize,
    /// Chunks of its canonical top.
    pub fine_top: usize,
    /// Chunks of a uniform.
    pub uniform_chunks: usize,
    /// Chunks of an id.
    pub id_chunks: usize,
    /// Chunks of a packed id.
    pub returned_chunks: usize,
    /// Chunks of a place's distance to the threshold.
    pub compare_chunks: usize,
    /// Of every array of hints, in their order.
    pub lengths: [(Hint, usize); 38],
}

/// The arrays of the hint vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hint {
    /// Of a slot: remainder w mod 2^c, coarse bits u, bound Q(u), distance X.
    Slot,
    /// Of a coarse element: chunks above the slots' bits.
    CoarseFiller,
    /// Lower chunks of its canonical top.
    CoarseTop,
    /// Lower chunks of what the top leaves to the modulus.
    CoarseRoom,
    /// Of an element with two places' fine bits: chunks above those.
    FineFiller,
    /// Lower chunks of its canonical top.
    FineTop,
    /// Lower chunks of what the top leaves to the modulus.
    FineRoom,
    /// Multiplicities of the table of bounds.
    CoarseCount,
    /// Multiplicities of the chunks.
    RangeCount,
    /// Multiplicities of the noise table.
    NoiseCount,
    /// i of a place.
    PlaceSlot,
    /// Its score k.
    PlaceDigit,
    /// Its u.
    PlaceCoarse,
    /// Its Q(u).
    PlaceBound,
    /// The low bit of its distance X.
    PlaceShift,
    /// Bit: k >= 1, the flag.
    PlacePositive,
    /// Bit: k > H.
    PlaceCapped,
    /// Bit: it reaches the entry.
    PlaceFull,
    /// Bit: u >= theta.
    PlaceCounted,
    /// Chunks of its rank's fine bits.
    PlaceFine,
    /// Bit: its noise is negative.
    PlaceSign,
    /// z, its noise as the noise table has it.
    PlaceMagnitude,
    /// F(z - 1).
    PlaceBefore,
    /// F(z).
    PlaceUpto,
    /// Lower chunks of the folded uniform's distance to F(z - 1).
    PlaceBelow,
    /// Lower chunks of its distance to F(z).
    PlaceAbove,
    /// Bit: the place is in T.
    PlaceWins,
    /// Lower chunks of its distance to the threshold.
    PlaceMargin,
    /// Lower chunks of the distance to the place before it; last, to the end.
    PlaceGap,
    /// The entry.
    Entry,
    /// Lower chunks of i*.
    ThresholdSlotLow,
    /// Which point of the grid theta is, one-hot.
    ThetaChoice,
    /// 2 id + flag of T's slots, increasing.
    Returned,
    /// Lower chunks of t'_0, of the distances between T's packed ids, and of what the last leaves to 2 shards N.
    ReturnedGap,
    /// Bit: the id lies in a shard before this one.
    InsideBelow,
    /// Bit: it lies in a shard behind this one.
    InsideBeyond,
    /// Lower chunks of its distance to this shard's first packed id.
    InsideLow,
    /// Lower chunks of its distance to this shard's last packed id.
    InsideHigh,
}

impl Name for Hint {
    fn index(self) -> usize {
        self as usize
    }
}

impl Given {
    pub fn sizes(self) -> Sizes {
        let Given {
            n,
            k,
            r,
            m,
            q,
            c,
            l,
            uniform_bits,
            g,
            cut,
        } = self;
        let elements = n / q;
        let fine_elements = r / PLACES_PER_ELEMENT;
        let fine_bits = uniform_bits - m;
        let fine_chunks = fine_bits.div_ceil(c);
        let coarse_filler = MODULUS_BITS.saturating_sub(q * m + COARSE_CANONICAL_BITS) / c;
        let coarse_top = (MODULUS_BITS - q * m - coarse_filler * c).div_ceil(c);
        let fine_filler = MODULUS_BITS.saturating_sub(PLACES_PER_ELEMENT * fine_bits + COARSE_CANONICAL_BITS) / c;
        let fine_top = (MODULUS_BITS - PLACES_PER_ELEMENT * fine_bits - fine_filler * c).div_ceil(c);
        let uniform_chunks = uniform_bits.div_ceil(c);
        let id_chunks = l.div_ceil(c);
        let returned_chunks = (l + 1).div_ceil(c);
        let compare_chunks = (c + 1 + l).div_ceil(c);
        Sizes {
            elements,
            fine_elements,
            fine_bits,
            fine_chunks,
            coarse_filler,
            coarse_top,
            fine_filler,
            fine_top,
            uniform_chunks,
            id_chunks,
            returned_chunks,
            compare_chunks,
            lengths: [
                (Hint::Slot, n * 4),
                (Hint::CoarseFiller, elements * coarse_filler),
                (Hint::CoarseTop, elements * (coarse_top - 1)),
                (Hint::CoarseRoom, elements * (coarse_top - 1)),
                (Hint::FineFiller, fine_elements * fine_filler),
                (Hint::FineTop, fine_elements * (fine_top - 1)),
                (Hint::FineRoom, fine_elements * (fine_top - 1)),
                (Hint::CoarseCount, 1 << m),
                (Hint::RangeCount, 1 << c),
                (Hint::NoiseCount, cut + 1),
                (Hint::PlaceSlot, r),
                (Hint::PlaceDigit, r),
                (Hint::PlaceCoarse, r),
                (Hint::PlaceBound, r),
                (Hint::PlaceShift, r),
                (Hint::PlacePositive, r),
                (Hint::PlaceCapped, r),
                (Hint::PlaceFull, r),
                (Hint::PlaceCounted, r),
                (Hint::PlaceFine, r * fine_chunks),
                (Hint::PlaceSign, r),
                (Hint::PlaceMagnitude, r),
                (Hint::PlaceBefore, r),
                (Hint::PlaceUpto, r),
                (Hint::PlaceBelow, r * (uniform_chunks - 1)),
                (Hint::PlaceAbove, r * (uniform_chunks - 1)),
                (Hint::PlaceWins, r),
                (Hint::PlaceMargin, r * (compare_chunks - 1)),
                (Hint::PlaceGap, (r + 1) * (returned_chunks - 1)),
                (Hint::Entry, 1),
                (Hint::ThresholdSlotLow, id_chunks - 1),
                (Hint::ThetaChoice, g),
                (Hint::Returned, k),
                (Hint::ReturnedGap, (k + 1) * (returned_chunks - 1)),
                (Hint::InsideBelow, k),
                (Hint::InsideBeyond, k),
                (Hint::InsideLow, k * (returned_chunks - 1)),
                (Hint::InsideHigh, k * (returned_chunks - 1)),
            ],
        }
    }
}
