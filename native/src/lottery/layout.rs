// SPDX-License-Identifier: GPL-3.0-or-later
//! Sizes and hints of one class; generated from kernel/lottery_statement.py by scripts/layout.py.

use crate::arrays::Name;
use crate::constants::{COARSE_CANONICAL_BITS, MODULUS_BITS};

pub const DISTANCE_CHUNKS: usize = 2;

/// What a class gives.
pub struct Given {
    /// N: slots.
    pub n: usize,
    /// K: slots returned.
    pub k: usize,
    /// R: places.
    pub r: usize,
    /// m: coarse bits a slot.
    pub m: usize,
    /// q: slots a coarse element.
    pub q: usize,
    /// c: bits of a chunk.
    pub c: usize,
    /// most: the largest number of prizes.
    pub most: usize,
    /// G: points of theta's grid, 2^m among them.
    pub g: usize,
    /// L: bits of an id, the smallest L with 2^L >= N.
    pub l: usize,
}

/// What follows from it; not all of it is read here.
#[allow(dead_code)]
pub struct Sizes {
    /// Coarse elements.
    pub elements: usize,
    /// Chunks of a coarse element above the slots' bits.
    pub coarse_filler: usize,
    /// Chunks of its canonical top.
    pub coarse_top: usize,
    /// Chunks of an id.
    pub id_chunks: usize,
    /// Chunks of a packed id.
    pub returned_chunks: usize,
    /// Chunks of a place's distance to the threshold.
    pub compare_chunks: usize,
    /// Of every array of hints, in their order.
    pub lengths: [(Hint, usize); 28],
}

/// The arrays of the hint vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hint {
    /// Of a slot: low chunk of the distance X, coarse bits u, bound b, high chunk of X.
    Slot,
    /// Of a coarse element: chunks above the slots' bits.
    CoarseFiller,
    /// Lower chunks of its canonical top.
    CoarseTop,
    /// Lower chunks of what the top leaves to the modulus.
    CoarseRoom,
    /// Multiplicities of the table of bounds.
    CoarseCount,
    /// Multiplicities of the chunks.
    RangeCount,
    /// i of a place.
    PlaceSlot,
    /// Its w, not clipped.
    PlaceScore,
    /// Its u.
    PlaceCoarse,
    /// Its b.
    PlaceBound,
    /// Its distance X, one chunk.
    PlaceDistance,
    /// Bit: w >= 1, the flag.
    PlacePositive,
    /// Bit: w > H.
    PlaceCapped,
    /// Bit: it has a prize.
    PlacePrize,
    /// Bit: u >= theta.
    PlaceCounted,
    /// Low chunk of the distance of w to 0.
    PlaceFloor,
    /// Low chunk of the distance of w to H.
    PlaceCeiling,
    /// Bit: the place is in T.
    PlaceWins,
    /// Lower chunks of its distance to the threshold.
    PlaceMargin,
    /// Lower chunks of the distance to the place before it; last, to the end.
    PlaceGap,
    /// v*.
    Threshold,
    /// The low chunk of its distance to theta.
    ThresholdLow,
    /// i*.
    ThresholdSlot,
    /// Lower chunks of i*.
    ThresholdSlotLow,
    /// Which point of the grid theta is, one-hot.
    ThetaChoice,
    /// Which of 1, 2, ... the number of prizes is, one-hot.
    PrizeChoice,
    /// 2 id + flag of T's slots, increasing.
    Returned,
    /// Lower chunks of their distances.
    ReturnedGap,
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
            most,
            g,
            l,
        } = self;
        let elements = n / q;
        let coarse_filler = MODULUS_BITS.saturating_sub(q * m + COARSE_CANONICAL_BITS) / c;
        let coarse_top = (MODULUS_BITS - q * m - coarse_filler * c).div_ceil(c);
        let id_chunks = l.div_ceil(c);
        let returned_chunks = (l + 1).div_ceil(c);
        let compare_chunks = (DISTANCE_CHUNKS * c + l).div_ceil(c);
        Sizes {
            elements,
            coarse_filler,
            coarse_top,
            id_chunks,
            returned_chunks,
            compare_chunks,
            lengths: [
                (Hint::Slot, n * 4),
                (Hint::CoarseFiller, elements * coarse_filler),
                (Hint::CoarseTop, elements * (coarse_top - 1)),
                (Hint::CoarseRoom, elements * (coarse_top - 1)),
                (Hint::CoarseCount, 1 << m),
                (Hint::RangeCount, 1 << c),
                (Hint::PlaceSlot, r),
                (Hint::PlaceScore, r),
                (Hint::PlaceCoarse, r),
                (Hint::PlaceBound, r),
                (Hint::PlaceDistance, r),
                (Hint::PlacePositive, r),
                (Hint::PlaceCapped, r),
                (Hint::PlacePrize, r),
                (Hint::PlaceCounted, r),
                (Hint::PlaceFloor, r),
                (Hint::PlaceCeiling, r),
                (Hint::PlaceWins, r),
                (Hint::PlaceMargin, r * (compare_chunks - 1)),
                (Hint::PlaceGap, (r + 1) * (id_chunks - 1)),
                (Hint::Threshold, 1),
                (Hint::ThresholdLow, 1),
                (Hint::ThresholdSlot, 1),
                (Hint::ThresholdSlotLow, id_chunks - 1),
                (Hint::ThetaChoice, g - 1),
                (Hint::PrizeChoice, most),
                (Hint::Returned, k),
                (Hint::ReturnedGap, (k - 1) * (returned_chunks - 1)),
            ],
        }
    }
}
