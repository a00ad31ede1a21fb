// SPDX-License-Identifier: GPL-3.0-or-later
//! The intrinsics that `simd` uses, by their published pseudo-code (Intel Intrinsics Guide), for any processor.
//!
//! With the feature `emulated` they stand for the processor's, so that every machine tests what is built on them; it is for tests
//! alone.  Where the processor has the real ones, a test compares each with its emulation.

#![allow(non_camel_case_types, non_snake_case)]
#![cfg_attr(not(emulated), allow(dead_code))] // where only the comparison with the processor uses it

/// 512 bits as eight numbers of 64, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct __m512i([u64; 8]);

/// 256 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct __m256i([u64; 4]);

/// What a cast leaves undefined.
const UNDEFINED: u64 = 0x5555_aaaa_3333_cccc;
const LOW: u64 = (1 << 52) - 1;

#[inline(always)]
fn each(f: impl FnMut(usize) -> u64) -> __m512i {
    __m512i(std::array::from_fn(f))
}

#[inline(always)]
fn mask(mut holds: impl FnMut(usize) -> bool) -> u8 {
    (0..8).fold(0, |bits, k| bits | u8::from(holds(k)) << k)
}

// --- in and out ------------------------------------------------------------------------------------------------------

/// # Safety
/// 64 bytes can be read.
#[inline(always)]
pub unsafe fn _mm512_loadu_si512(from: *const __m512i) -> __m512i {
    __m512i(from.cast::<[u64; 8]>().read_unaligned())
}

/// # Safety
/// 64 bytes can be written.
#[inline(always)]
pub unsafe fn _mm512_storeu_si512(to: *mut __m512i, a: __m512i) {
    to.cast::<[u64; 8]>().write_unaligned(a.0);
}

/// # Safety
/// 32 bytes can be read.
#[inline(always)]
pub unsafe fn _mm256_loadu_si256(from: *const __m256i) -> __m256i {
    __m256i(from.cast::<[u64; 4]>().read_unaligned())
}

/// # Safety
/// 32 bytes can be written.
#[inline(always)]
pub unsafe fn _mm256_storeu_si256(to: *mut __m256i, a: __m256i) {
    to.cast::<[u64; 4]>().write_unaligned(a.0);
}

#[inline(always)]
pub fn _mm512_setzero_si512() -> __m512i {
    __m512i([0; 8])
}

#[inline(always)]
pub fn _mm512_set1_epi64(a: i64) -> __m512i {
    __m512i([a as u64; 8])
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub fn _mm512_setr_epi64(a: i64, b: i64, c: i64, d: i64, e: i64, f: i64, g: i64, h: i64) -> __m512i {
    __m512i([a, b, c, d, e, f, g, h].map(|x| x as u64))
}

// --- places ----------------------------------------------------------------------------------------------------------

#[inline(always)]
pub fn _mm512_castsi256_si512(a: __m256i) -> __m512i {
    each(|k| if k < 4 { a.0[k] } else { UNDEFINED })
}

#[inline(always)]
pub fn _mm512_castsi512_si256(a: __m512i) -> __m256i {
    __m256i(std::array::from_fn(|k| a.0[k]))
}

#[inline(always)]
pub fn _mm512_inserti64x4<const HALF: i32>(a: __m512i, b: __m256i) -> __m512i {
    each(|k| if k / 4 == HALF as usize { b.0[k % 4] } else { a.0[k] })
}

#[inline(always)]
pub fn _mm512_extracti64x4_epi64<const HALF: i32>(a: __m512i) -> __m256i {
    __m256i(std::array::from_fn(|k| a.0[4 * HALF as usize + k]))
}

#[inline(always)]
pub fn _mm512_unpacklo_epi64(a: __m512i, b: __m512i) -> __m512i {
    each(|k| if k % 2 == 0 { a.0[k] } else { b.0[k - 1] })
}

#[inline(always)]
pub fn _mm512_unpackhi_epi64(a: __m512i, b: __m512i) -> __m512i {
    each(|k| if k % 2 == 0 { a.0[k + 1] } else { b.0[k] })
}

#[inline(always)]
pub fn _mm512_permutexvar_epi64(places: __m512i, a: __m512i) -> __m512i {
    each(|k| a.0[places.0[k] as usize & 7])
}

#[inline(always)]
pub fn _mm512_permutex2var_epi64(a: __m512i, places: __m512i, b: __m512i) -> __m512i {
    each(|k| {
        let place = places.0[k] as usize;
        [a, b][place >> 3 & 1].0[place & 7]
    })
}

#[inline(always)]
pub fn _mm512_mask_blend_epi64(k: u8, a: __m512i, b: __m512i) -> __m512i {
    each(|lane| if k >> lane & 1 == 1 { b.0[lane] } else { a.0[lane] })
}

// --- numbers ---------------------------------------------------------------------------------------------------------

#[inline(always)]
pub fn _mm512_and_si512(a: __m512i, b: __m512i) -> __m512i {
    each(|k| a.0[k] & b.0[k])
}

#[inline(always)]
pub fn _mm512_or_si512(a: __m512i, b: __m512i) -> __m512i {
    each(|k| a.0[k] | b.0[k])
}

#[inline(always)]
pub fn _mm512_add_epi64(a: __m512i, b: __m512i) -> __m512i {
    each(|k| a.0[k].wrapping_add(b.0[k]))
}

#[inline(always)]
pub fn _mm512_sub_epi64(a: __m512i, b: __m512i) -> __m512i {
    each(|k| a.0[k].wrapping_sub(b.0[k]))
}

#[inline(always)]
pub fn _mm512_slli_epi64<const BITS: u32>(a: __m512i) -> __m512i {
    each(|k| a.0[k].checked_shl(BITS).unwrap_or(0))
}

#[inline(always)]
pub fn _mm512_srli_epi64<const BITS: u32>(a: __m512i) -> __m512i {
    each(|k| a.0[k].checked_shr(BITS).unwrap_or(0))
}

#[inline(always)]
pub fn _mm512_srai_epi64<const BITS: u32>(a: __m512i) -> __m512i {
    each(|k| (a.0[k] as i64 >> BITS.min(63)) as u64)
}

#[inline(always)]
pub fn _mm512_max_epi64(a: __m512i, b: __m512i) -> __m512i {
    each(|k| (a.0[k] as i64).max(b.0[k] as i64) as u64)
}

#[inline(always)]
pub fn _mm512_cmpeq_epi64_mask(a: __m512i, b: __m512i) -> u8 {
    mask(|k| a.0[k] == b.0[k])
}

#[inline(always)]
pub fn _mm512_cmplt_epi64_mask(a: __m512i, b: __m512i) -> u8 {
    mask(|k| (a.0[k] as i64) < b.0[k] as i64)
}

/// The product of the lowest 52 bits of two numbers.
#[inline(always)]
fn product(b: u64, c: u64) -> u128 {
    u128::from(b & LOW) * u128::from(c & LOW)
}

#[inline(always)]
pub fn _mm512_madd52lo_epu64(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    each(|k| a.0[k].wrapping_add(product(b.0[k], c.0[k]) as u64 & LOW))
}

#[inline(always)]
pub fn _mm512_madd52hi_epu64(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    each(|k| a.0[k].wrapping_add((product(b.0[k], c.0[k]) >> 52) as u64))
}

/// Where the compiler knows the real ones.
#[cfg(all(test, target_arch = "x86_64", processor))]
mod tests {
    use super::*;
    use ark_std::rand::RngCore;
    use std::arch::x86_64 as real;

    /// Random numbers, and the largest and smallest of 52, 63 and 64 bits.
    fn samples() -> Vec<u64> {
        let mut rng = ark_std::test_rng();
        let mut out = vec![
            0,
            1,
            LOW,
            LOW + 1,
            LOW - 1,
            i64::MAX as u64,
            i64::MIN as u64,
            u64::MAX,
            u64::MAX - LOW,
            9,
        ];
        out.extend((0..54).map(|_| rng.next_u64()));
        out
    }

    fn vectors() -> Vec<[u64; 8]> {
        let samples = samples();
        (0..samples.len())
            .map(|turn| std::array::from_fn(|k| samples[(k * (turn + 1) + turn) % samples.len()]))
            .collect()
    }

    fn ours(a: &[u64; 8]) -> __m512i {
        __m512i(*a)
    }

    fn theirs(a: &[u64; 8]) -> real::__m512i {
        // SAFETY: every pattern of bits is a vector.
        unsafe { std::mem::transmute(*a) }
    }

    fn bits(a: real::__m512i) -> __m512i {
        // SAFETY: as above.
        __m512i(unsafe { std::mem::transmute::<real::__m512i, [u64; 8]>(a) })
    }

    fn half(a: real::__m256i) -> __m256i {
        // SAFETY: as above.
        __m256i(unsafe { std::mem::transmute::<real::__m256i, [u64; 4]>(a) })
    }

    macro_rules! same {
        ($($name:ident $(::<$n:literal>)? ($($x:ident),*) $(=> $shown:ident)?;)*) => {$(
            // SAFETY: the processor has what it needs.
            let (found, want) = unsafe {
                ($name $(::<$n>)? ($(ours($x)),*), real::$name $(::<$n>)? ($(theirs($x)),*))
            };
            $(let want = $shown(want);)?
            assert_eq!(found, want, stringify!($name));
        )*};
    }

    #[test]
    fn the_processor_does_the_same() {
        if !(is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma")) {
            return;
        }
        let all = vectors();
        for (k, a) in all.iter().enumerate() {
            for b in &all {
                let c = &all[(7 * k + 3) % all.len()];
                same! {
                    _mm512_add_epi64(a, b) => bits;
                    _mm512_sub_epi64(a, b) => bits;
                    _mm512_and_si512(a, b) => bits;
                    _mm512_or_si512(a, b) => bits;
                    _mm512_max_epi64(a, b) => bits;
                    _mm512_cmpeq_epi64_mask(a, b);
                    _mm512_cmplt_epi64_mask(a, b);
                    _mm512_unpacklo_epi64(a, b) => bits;
                    _mm512_unpackhi_epi64(a, b) => bits;
                    _mm512_permutexvar_epi64(a, b) => bits;
                    _mm512_permutex2var_epi64(a, b, c) => bits;
                    _mm512_madd52lo_epu64(a, b, c) => bits;
                    _mm512_madd52hi_epu64(a, b, c) => bits;
                }
                // SAFETY: the processor has what it needs.
                unsafe {
                    let blended = real::_mm512_mask_blend_epi64(c[0] as u8, theirs(a), theirs(b));
                    assert_eq!(_mm512_mask_blend_epi64(c[0] as u8, ours(a), ours(b)), bits(blended));
                    let low = real::_mm512_castsi512_si256(theirs(b));
                    assert_eq!(_mm512_castsi512_si256(ours(b)), half(low));
                    let (upper, lower) = (
                        real::_mm512_inserti64x4::<1>(theirs(a), low),
                        real::_mm512_inserti64x4::<0>(theirs(a), low),
                    );
                    assert_eq!(_mm512_inserti64x4::<1>(ours(a), half(low)), bits(upper));
                    assert_eq!(_mm512_inserti64x4::<0>(ours(a), half(low)), bits(lower));
                }
            }
            same! {
                _mm512_slli_epi64::<0>(a) => bits;
                _mm512_slli_epi64::<52>(a) => bits;
                _mm512_slli_epi64::<64>(a) => bits;
                _mm512_srli_epi64::<12>(a) => bits;
                _mm512_srli_epi64::<64>(a) => bits;
                _mm512_srai_epi64::<51>(a) => bits;
                _mm512_srai_epi64::<64>(a) => bits;
                _mm512_extracti64x4_epi64::<0>(a) => half;
                _mm512_extracti64x4_epi64::<1>(a) => half;
            }
        }
    }
}
