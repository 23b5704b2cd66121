// SPDX-License-Identifier: Apache-2.0
//! Small random numbers of a flow or of a test: a pure function of a seed and what it is for, so that runs can be repeated.

/// SplitMix64's finaliser (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[inline]
pub const fn mix(mut z: u64) -> u64 {
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

/// A sequence's numbers, one after the other, for what draws as it goes.
#[derive(Clone, Debug)]
pub struct Numbers {
    seed: u64,
    drawn: u64,
}

impl Numbers {
    /// Before the first.
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// 64 random bits.
    pub fn draw(&mut self) -> u64 {
        let n = self.drawn;
        self.drawn += 1;
        nth(self.seed, n)
    }

    /// An even draw below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        below(self.draw(), bound)
    }

    /// Whether an event happens that has this probability, in parts per million.
    pub fn happens(&mut self, of_a_million: u32) -> bool {
        self.below(1_000_000) < u64::from(of_a_million)
    }
}
