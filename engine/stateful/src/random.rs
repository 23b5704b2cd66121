// SPDX-License-Identifier: Apache-2.0
//! Small random numbers of a flow: a pure function of a seed and what it is for, so that runs can be repeated.

/// SplitMix64's finaliser (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The n-th number of a sequence.
#[inline]
pub fn nth(seed: u64, n: u64) -> u64 {
    mix(seed.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// An even draw below `bound` from 64 random bits; `bound` is not 0.
#[inline]
pub fn below(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}
