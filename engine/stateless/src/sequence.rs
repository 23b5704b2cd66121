// SPDX-License-Identifier: Apache-2.0
//! The values a variable takes, each a function of its position in the sequence.
//!
//! Nothing is drawn or stepped: value n is computed from n alone, so any split of a stream over workers sends what one
//! worker would, and any packet can be found without those before it. Random values are a hash of (key, n) with a period
//! of 2^64, evenly spread over their range to within 2^-64 of it; every value of the range comes up.

/// Which values, and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// `min + index * step` for index 0..=(max - min) / step, in turn.
    Counter {
        /// Lowest value.
        min: u64,
        /// No value is higher.
        max: u64,
        /// From one to the next; at least 1.
        step: u64,
        /// The first value: a whole number of steps from `min`.
        first: u64,
        /// Downwards.
        down: bool,
    },
    /// Evenly distributed.
    Random {
        /// Lowest value.
        min: u64,
        /// Highest value.
        max: u64,
        /// Equal seeds at equal indices of a program give equal values.
        seed: u64,
    },
    /// Given values.
    List {
        /// At least one.
        values: Vec<u64>,
        /// How they follow each other.
        order: ListOrder,
        /// For the random order.
        seed: u64,
    },
}

/// How the values of a list follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOrder {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Backward,
    /// Each drawn evenly from all.
    Random,
}

/// A sequence ready to be computed.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) kind: Kind,
    /// Steps after which the sequence starts again; 0 for never.
    pub(crate) limit: u64,
    /// Positions until it wraps; 0 for never (or after 2^64).
    count: u64,
    /// The position of the first value.
    offset: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// `base + position * step`, modulo 2^64: down is a negative step from the highest value.
    Counter { base: u64, step: u64 },
    /// Hashed into `min..min + span`; a span of 0 means 2^64.
    Random { min: u64, span: u64, key: u64 },
    /// By position.
    List { values: Box<[u64]> },
    /// By hash of the position.
    Drawn { values: Box<[u64]>, key: u64 },
}

impl Compiled {
    /// `index` is the variable's index in its program, so that equal seeds do not make equal variables.
    pub(crate) fn new(sequence: &Sequence, limit: u64, index: usize) -> Result<Self, &'static str> {
        let key = |seed: u64| mix(seed.wrapping_add(GOLDEN.wrapping_mul(index as u64 + 1)));
        let (kind, count, offset) = match *sequence {
            Sequence::Counter { min, max, step, first, down } => {
                if min > max {
                    return Err("min is greater than max");
                }
                if step == 0 {
                    return Err("step must be at least 1");
                }
                if !(min..=max).contains(&first) || (first - min) % step != 0 {
                    return Err("first must be a whole number of steps from min, and at most max");
                }
                let last = (max - min) / step;
                let up = (first - min) / step;
                let (base, signed) = if down { (min + last * step, step.wrapping_neg()) } else { (min, step) };
                let offset = if down { last - up } else { up };
                (Kind::Counter { base, step: signed }, last.wrapping_add(1), offset)
            }
            Sequence::Random { min, max, seed } => {
                if min > max {
                    return Err("min is greater than max");
                }
                (Kind::Random { min, span: (max - min).wrapping_add(1), key: key(seed) }, limit, 0)
            }
            Sequence::List { ref values, order, seed } => {
                if values.is_empty() {
                    return Err("at least one value is needed");
                }
                let mut all: Box<[u64]> = values.as_slice().into();
                let count = all.len() as u64;
                match order {
                    ListOrder::Forward => (Kind::List { values: all }, count, 0),
                    ListOrder::Backward => {
                        all.reverse();
                        (Kind::List { values: all }, count, 0)
                    }
                    ListOrder::Random => (Kind::Drawn { values: all, key: key(seed) }, limit, 0),
                }
            }
        };
        Ok(Self { kind, limit, count, offset })
    }

    /// Whether it ever wraps.
    pub(crate) fn wraps(&self) -> bool {
        self.count != 0
    }

    /// After `steps` steps: its position, and how often it has wrapped since it last started again.
    #[inline]
    pub(crate) fn place(&self, steps: u64) -> (u64, u64) {
        let drawn = matches!(self.kind, Kind::Random { .. } | Kind::Drawn { .. });
        let steps = if self.limit > 0 && !drawn { steps % self.limit } else { steps };
        if self.count == 0 {
            return (self.offset.wrapping_add(steps), 0);
        }
        // The two never exceed 64 bits together: the offset is below the count, and so is what is left of the steps.
        let (whole, rest) = (steps / self.count, steps % self.count);
        let room = self.count - self.offset;
        if rest >= room { (rest - room, whole + 1) } else { (self.offset + rest, whole) }
    }

    /// The position after `position`, one step further, if nothing else starts again.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The value at a position.
    #[inline]
    pub(crate) fn value(&self, position: u64) -> u64 {
        match &self.kind {
            Kind::Counter { base, step } => base.wrapping_add(position.wrapping_mul(*step)),
            Kind::Random { min, span, key } => min.wrapping_add(spread(hash(*key, position), *span)),
            Kind::List { values } => values[position as usize],
            Kind::Drawn { values, key } => values[spread(hash(*key, position), values.len() as u64) as usize],
        }
    }

    /// The mean of its values (of a random one: what it tends to) as a sum over a count.
    pub(crate) fn mean(&self) -> (u128, u128) {
        match &self.kind {
            Kind::List { values } | Kind::Drawn { values, .. } => {
                (values.iter().map(|&v| u128::from(v)).sum(), values.len() as u128)
            }
            Kind::Counter { .. } | Kind::Random { .. } => {
                let (low, high) = self.bounds();
                (u128::from(low) + u128::from(high), 2)
            }
        }
    }

    /// Lowest and highest value.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        match &self.kind {
            Kind::Counter { base, step } => {
                let last = base.wrapping_add(self.count.wrapping_sub(1).wrapping_mul(*step));
                (*base.min(&last), *base.max(&last))
            }
            Kind::Random { min, span, .. } => (*min, min.wrapping_add(span.wrapping_sub(1))),
            Kind::List { values } | Kind::Drawn { values, .. } => {
                values.iter().fold((u64::MAX, 0), |(low, high), &v| (low.min(v), high.max(v)))
            }
        }
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that passes the usual test batteries on counters.
#[inline]
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[inline]
pub(crate) fn hash(key: u64, position: u64) -> u64 {
    mix(key.wrapping_add(position.wrapping_mul(GOLDEN)))
}

/// Spreads 2^64 values evenly over `0..span` (0 means 2^64) by multiplication (Lemire 2019).
#[inline]
pub(crate) fn spread(bits: u64, span: u64) -> u64 {
    if span == 0 { bits } else { ((u128::from(bits) * u128::from(span)) >> 64) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(sequence: &Sequence, limit: u64, count: u64) -> Vec<u64> {
        let compiled = Compiled::new(sequence, limit, 0).unwrap();
        (0..count).map(|n| compiled.value(compiled.place(n).0)).collect()
    }

    fn counter(min: u64, max: u64, step: u64, first: u64, down: bool) -> Sequence {
        Sequence::Counter { min, max, step, first, down }
    }

    #[test]
    fn a_range_that_is_no_whole_number_of_steps_is_padded() {
        assert_eq!(values(&counter(0, 10, 3, 0, false), 0, 6), [0, 3, 6, 9, 0, 3]);
        assert_eq!(values(&counter(0, 10, 3, 9, true), 0, 6), [9, 6, 3, 0, 9, 6]);
        assert_eq!(values(&counter(5, 8, 1, 7, false), 0, 5), [7, 8, 5, 6, 7]);
        assert_eq!(values(&counter(5, 8, 1, 6, true), 0, 5), [6, 5, 8, 7, 6]);
    }

    #[test]
    fn the_whole_range_of_64_bits_counts_too() {
        assert_eq!(values(&counter(0, u64::MAX, 1, u64::MAX, false), 0, 3), [u64::MAX, 0, 1]);
        assert_eq!(values(&counter(0, u64::MAX, 1, 1, true), 0, 3), [1, 0, u64::MAX]);
    }

    #[test]
    fn lists_go_either_way_and_limits_start_them_again() {
        let list = |order| Sequence::List { values: vec![3, 1, 2], order, seed: 0 };
        assert_eq!(values(&list(ListOrder::Forward), 0, 4), [3, 1, 2, 3]);
        assert_eq!(values(&list(ListOrder::Backward), 0, 4), [2, 1, 3, 2]);
        assert_eq!(values(&list(ListOrder::Forward), 2, 4), [3, 1, 3, 1]);
        let drawn = values(&list(ListOrder::Random), 5, 10);
        assert_eq!(drawn[..5], drawn[5..]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (sequence, word) in [
            (counter(2, 1, 1, 2, false), "greater than max"),
            (counter(0, 10, 0, 0, false), "at least 1"),
            (counter(0, 10, 3, 1, false), "whole number of steps"),
            (counter(0, 10, 3, 12, false), "at most max"),
            (Sequence::Random { min: 2, max: 1, seed: 0 }, "greater than max"),
            (Sequence::List { values: vec![], order: ListOrder::Forward, seed: 0 }, "at least one value"),
        ] {
            assert!(Compiled::new(&sequence, 0, 0).unwrap_err().contains(word), "{sequence:?}");
        }
    }

    proptest! {
        #[test]
        fn random_values_stay_in_range_and_repeat_after_the_limit(
            a: u64, b: u64, seed: u64, limit in 1u64..50, n in 0u64..1000,
        ) {
            let (min, max) = (a.min(b), a.max(b));
            let all = Compiled::new(&Sequence::Random { min, max, seed }, limit, 3).unwrap();
            let value = |n| all.value(all.place(n).0);
            prop_assert!((min..=max).contains(&value(n)));
            prop_assert_eq!(value(n), value(n + limit));
            prop_assert_eq!(all.place(n).1, n / limit);
            prop_assert_eq!(all.bounds(), (min, max));
        }

        #[test]
        fn counters_wrap_where_stepping_would(
            min in 0u64..50, length in 0u64..50, step in 1u64..9, up in 0u64..50, down: bool, n in 0u64..500,
        ) {
            let max = min + length;
            let first = min + (up % (length / step + 1)) * step;
            let compiled = Compiled::new(&counter(min, max, step, first, down), 0, 0).unwrap();
            let (mut value, mut wraps) = (first, 0);
            for _ in 0..n {
                let ends = if down { value < min + step } else { value + step > max };
                value = match (ends, down) {
                    (true, true) => min + length / step * step,
                    (true, false) => min,
                    (false, true) => value - step,
                    (false, false) => value + step,
                };
                wraps += u64::from(ends);
            }
            let (position, wrapped) = compiled.place(n);
            prop_assert_eq!((compiled.value(position), wrapped), (value, wraps));
        }
    }
}
