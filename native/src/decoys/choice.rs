// SPDX-License-Identifier: GPL-3.0-or-later
//! The best of all slots, by counting: passes over all values whose steps do not depend on them.

/// Values that are counted, or gone through, together.
const BLOCK: usize = 256;

/// How many of a block exceed a number.
#[inline(always)]
fn count(values: &[i32], floor: i32) -> u32 {
    values.iter().map(|&x| u32::from(x > floor)).sum()
}

/// A loop over slots, compiled for the processor's widest integers as well.
macro_rules! passes {
    ($($(#[$doc:meta])* $visible:vis fn $name:ident($($given:ident: $of:ty),*) -> $out:ty $body:block)*) => {$(
        $(#[$doc])*
        $visible fn $name($($given: $of),*) -> $out {
            #[inline(always)]
            fn plain($($given: $of),*) -> $out $body
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                #[target_feature(enable = "avx2")]
                fn wide($($given: $of),*) -> $out {
                    plain($($given),*)
                }
                // SAFETY: the processor has AVX2.
                return unsafe { wide($($given),*) };
            }
            plain($($given),*)
        }
    )*};
}

passes! {
    /// The least and the largest, and 0 among them.
    pub fn extremes(y: &[i32]) -> (i32, i32) {
        y.iter().fold((0, 0), |(least, most), &x| (least.min(x), most.max(x)))
    }

    /// By how much each score exceeds `lo`, which is 0 at least; 0 of one that does not.
    pub fn above(y: &[i32], lo: i32) -> Vec<i32> {
        y.iter().map(|&x| x.max(lo) - lo).collect()
    }

    /// How many exceed a number.
    fn exceeding(values: &[i32], floor: i32) -> usize {
        values.chunks(BLOCK).map(|block| count(block, floor) as usize).sum()
    }

    /// How many of each block are equal to a number.
    fn equal(values: &[i32], value: i32) -> Vec<u32> {
        values.chunks(BLOCK).map(|block| block.iter().map(|&x| u32::from(x == value)).sum()).collect()
    }
}

/// Value and place of the `missing`-th by (value descending, place ascending); None where fewer are positive.
///
/// `missing` is 1 to as many as there are; values are 0 at least, and below 2^width.
pub fn last(values: &[i32], missing: usize, width: usize) -> Option<(i32, usize)> {
    let mut value = 0;
    for bit in (0..width.min(31)).rev() {
        let enough = exceeding(values, (value | 1 << bit) - 1) >= missing;
        value |= i32::from(enough) << bit;
    }
    let among = (missing - exceeding(values, value)) as u32; // of those that are equal, this one
    let (mut before, mut block, mut left) = (0, 0, 0);
    for (at, here) in equal(values, value).into_iter().enumerate() {
        let found = before < among && before + here >= among;
        block += usize::from(found) * at;
        left += u32::from(found) * (among - before);
        before += here;
    }
    let (first, mut seen, mut place) = (block * BLOCK, 0, 0);
    for (at, &x) in values[first..].iter().take(BLOCK).enumerate() {
        let here = u32::from(x == value);
        place += usize::from(here == 1 && seen + here == left) * at;
        seen += here;
    }
    (value > 0).then_some((value, first + place))
}

/// Places of all up to the last one, or of all positive ones.
pub fn upto(values: &[i32], last: Option<(i32, usize)>, ids: &mut Vec<usize>) {
    let (value, end) = last.map_or((0, 0), |(value, place)| (value, place + 1));
    for (first, part, floor) in [(0, &values[..end], value - 1), (end, &values[end..], value)] {
        for (at, block) in part.chunks(BLOCK).enumerate() {
            if count(block, floor) > 0 {
                let found = block.iter().enumerate().filter(|(_, &x)| x > floor);
                ids.extend(found.map(|(i, _)| first + BLOCK * at + i));
            }
        }
    }
}
