// SPDX-License-Identifier: Apache-2.0
//! Delays of a stream's packets: true count, sum, least, greatest, sum of squares, and jitter. One writer, readable at any
//! time.
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

use crate::Counter;

/// What a receiving worker keeps of the packets of one sender: the delay of the last one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transit {
    last_ns: i64,
    seen: bool,
}

impl Transit {
    /// By how much a packet's delay differs from that of the one before (RFC 3550 section 6.4.1: |D|); none for the first.
    /// A constant error of the clocks does not matter.
    #[inline]
    pub fn difference(&mut self, delay_ns: i64) -> Option<u64> {
        let last = std::mem::replace(self, Self { last_ns: delay_ns, seen: true });
        last.seen.then(|| delay_ns.abs_diff(last.last_ns))
    }
}

/// What one worker measured of one stream. On cache lines of its own.
#[derive(Debug)]
#[repr(align(64))]
pub struct DelaySlot {
    count: Counter,
    sum_ns: Counter,
    /// Low half of the sum of squares.
    squares_low: Counter,
    /// u64::MAX before the first.
    min_ns: Counter,
    max_ns: Counter,
    negative: Counter,
    unknown: Counter,
    between_engines: Counter,
    /// RFC 3550's J in sixteenths of a nanosecond.
    jitter_16: Counter,
    differences: Counter,
    difference_sum_ns: Counter,
    difference_max_ns: Counter,
    squares_high: Counter,
    /// Odd while the halves do not belong together.
    carrying: AtomicU64,
}

impl Default for DelaySlot {
    fn default() -> Self {
        let new = Counter::default;
        let min_ns = new();
        min_ns.set(u64::MAX);
        Self {
            count: new(),
            sum_ns: new(),
            squares_low: new(),
            min_ns,
            max_ns: new(),
            negative: new(),
            unknown: new(),
            between_engines: new(),
            jitter_16: new(),
            differences: new(),
            difference_sum_ns: new(),
            difference_max_ns: new(),
            squares_high: new(),
            carrying: AtomicU64::new(0),
        }
    }
}

impl DelaySlot {
    /// The delay of as many packets, 2^16 at most; only its one writer may. A negative one shows that clocks disagree: it is counted apart.
    #[inline]
    pub fn delay(&self, ns: i64, packets: u64) {
        let Ok(ns) = u64::try_from(ns) else {
            return self.negative.add(packets);
        };
        self.count.add(packets);
        self.sum_ns.add(ns.wrapping_mul(packets));
        if ns < self.min_ns.get() {
            self.min_ns.set(ns);
        }
        if ns > self.max_ns.get() {
            self.max_ns.set(ns);
        }
        // A delay has 47 bits.
        let square = u128::from(ns) * u128::from(ns) * u128::from(packets);
        let (low, carry) = self.squares_low.get().overflowing_add(square as u64);
        let high = (square >> 64) as u64 + u64::from(carry);
        if high == 0 {
            self.squares_low.set(low);
        } else {
            self.carry(low, high);
        }
    }

    /// Packets came from a clock of which nothing is known.
    #[inline]
    pub fn unknown(&self, packets: u64) {
        self.unknown.add(packets);
    }

    /// Packets whose delay is given next came from another engine.
    #[inline]
    pub fn between_engines(&self, packets: u64) {
        self.between_engines.add(packets);
    }

    /// Packets whose delay is given as 0 came before they left by the clocks.
    #[inline]
    pub fn early(&self, packets: u64) {
        self.negative.add(packets);
    }

    /// Once in hours.
    #[cold]
    fn carry(&self, low: u64, high: u64) {
        self.carrying.store(self.carrying.load(Relaxed) + 1, Relaxed);
        fence(SeqCst);
        self.squares_low.set(low);
        self.squares_high.add(high);
        fence(SeqCst);
        self.carrying.store(self.carrying.load(Relaxed) + 1, Release);
    }

    /// By how much it differs from the one before.
    #[inline]
    pub fn difference(&self, ns: u64) {
        let jitter = self.jitter_16.get();
        // J += (|D| - J) / 16, in integers as RFC 3550 appendix A.8 has it.
        self.jitter_16.set((jitter + ns).saturating_sub((jitter + 8) >> 4));
        self.differences.add(1);
        self.difference_sum_ns.add(ns);
        if ns > self.difference_max_ns.get() {
            self.difference_max_ns.set(ns);
        }
    }

    /// Number of delays that do not differ from the one before.
    #[inline]
    pub fn no_difference(&self, packets: u64) {
        let mut jitter = self.jitter_16.get();
        for _ in 0..packets {
            jitter -= (jitter + 8) >> 4;
        }
        self.jitter_16.set(jitter);
        self.differences.add(packets);
    }

    fn squares(&self) -> u128 {
        loop {
            let before = self.carrying.load(Acquire);
            let (low, high) = (self.squares_low.get(), self.squares_high.get());
            fence(Acquire);
            if before.is_multiple_of(2) && before == self.carrying.load(Relaxed) {
                return u128::from(high) << 64 | u128::from(low);
            }
            std::hint::spin_loop();
        }
    }
}

/// Delays of some streams' packets in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Packets whose delay was taken.
    pub count: u64,
    /// Their sum.
    pub sum_ns: u64,
    /// The sum of their squares.
    pub sum_squares: u128,
    /// The least; 0 if there is none.
    pub min_ns: u64,
    /// The greatest.
    pub max_ns: u64,
    /// Packets that came before they left by the clocks: not in `count`, or with a delay of 0 (`DelaySlot::early`).
    pub negative: u64,
    /// Packets from clocks of which nothing is known: not in `count`.
    pub unknown: u64,
    /// Packets of other engines in `count`, and in `negative`.
    pub between_engines: u64,
    /// Interarrival jitter (RFC 3550 section 6.4.1); the mean of that of all slots, by their packets.
    pub jitter_ns: u64,
    /// How often a delay was compared with the one before.
    pub differences: u64,
    /// Sum of the differences.
    pub difference_sum_ns: u64,
    /// The greatest difference.
    pub difference_max_ns: u64,
}

impl Delays {
    /// What slots measured together.
    pub fn merge<'a>(slots: impl Iterator<Item = &'a DelaySlot>) -> Self {
        let mut sum = Self { min_ns: u64::MAX, ..Self::default() };
        let mut jitter = 0u128;
        for slot in slots {
            sum.count += slot.count.get();
            sum.sum_ns = sum.sum_ns.wrapping_add(slot.sum_ns.get());
            sum.sum_squares = sum.sum_squares.wrapping_add(slot.squares());
            sum.min_ns = sum.min_ns.min(slot.min_ns.get());
            sum.max_ns = sum.max_ns.max(slot.max_ns.get());
            sum.negative += slot.negative.get();
            sum.unknown += slot.unknown.get();
            sum.between_engines += slot.between_engines.get();
            let differences = slot.differences.get();
            jitter += u128::from(slot.jitter_16.get()) * u128::from(differences);
            sum.differences += differences;
            sum.difference_sum_ns = sum.difference_sum_ns.wrapping_add(slot.difference_sum_ns.get());
            sum.difference_max_ns = sum.difference_max_ns.max(slot.difference_max_ns.get());
        }
        sum.jitter_ns = (jitter / u128::from(sum.differences.max(1)) / 16) as u64;
        if sum.min_ns == u64::MAX {
            sum.min_ns = 0;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_are_those_of_the_values(
            delays in prop::collection::vec(prop_oneof![5 => 0i64..2_000_000, 1 => -1000i64..0, 1 => any::<i64>().prop_map(|n| n >> 8)], 1..300),
        ) {
            let slots = [DelaySlot::default(), DelaySlot::default()];
            for (i, delay) in delays.iter().enumerate() {
                slots[i % 2].delay(*delay, 1);
            }
            let taken: Vec<u64> = delays.iter().filter_map(|d| u64::try_from(*d).ok()).collect();
            let sum = Delays::merge(slots.iter());
            prop_assert_eq!(sum.count, taken.len() as u64);
            prop_assert_eq!(sum.negative, (delays.len() - taken.len()) as u64);
            prop_assert_eq!(sum.sum_ns, taken.iter().fold(0u64, |sum, d| sum.wrapping_add(*d)));
            prop_assert_eq!(sum.sum_squares, taken.iter().map(|d| u128::from(*d).pow(2)).fold(0, u128::wrapping_add));
            prop_assert_eq!((sum.min_ns, sum.max_ns), (taken.iter().min().copied().unwrap_or(0), taken.iter().max().copied().unwrap_or(0)));
        }

        #[test]
        fn many_of_one_delay_are_as_one_after_the_other(
            delays in prop::collection::vec((prop_oneof![5 => 0i64..2_000_000, 1 => -1000i64..0, 1 => 0i64..1 << 47], 1u64..64), 1..50),
        ) {
            let (one, many) = (DelaySlot::default(), DelaySlot::default());
            let (mut of_one, mut of_many) = (Transit::default(), Transit::default());
            for (delay, packets) in delays {
                for _ in 0..packets {
                    one.delay(delay, 1);
                    of_one.difference(delay).into_iter().for_each(|ns| one.difference(ns));
                }
                many.delay(delay, packets);
                of_many.difference(delay).into_iter().for_each(|ns| many.difference(ns));
                many.no_difference(packets - 1);
            }
            prop_assert_eq!(Delays::merge([&one].into_iter()), Delays::merge([&many].into_iter()));
            prop_assert_eq!(one.jitter_16.get(), many.jitter_16.get());
        }

        #[test]
        fn jitter_follows_the_rfc(delays in prop::collection::vec(0i64..100_000, 2..300), offset: i32) {
            let slot = DelaySlot::default();
            let mut transit = Transit::default();
            let mut exact = 0f64;
            for (i, delay) in delays.iter().enumerate() {
                if let Some(difference) = transit.difference(delay + i64::from(offset)) {
                    slot.difference(difference);
                    exact += (difference as f64 - exact) / 16.0;
                    prop_assert_eq!(difference, delay.abs_diff(delays[i - 1]));
                }
            }
            let read = Delays::merge([&slot].into_iter());
            prop_assert!((read.jitter_ns as f64 - exact).abs() <= 2.0, "{} {}", read.jitter_ns, exact);
            prop_assert_eq!(read.differences, delays.len() as u64 - 1);
            prop_assert_eq!(read.difference_max_ns, delays.windows(2).map(|d| d[0].abs_diff(d[1])).max().unwrap());
            prop_assert_eq!((read.count, read.min_ns), (0, 0));
        }
    }
}
