// SPDX-License-Identifier: Apache-2.0
//! How long things took of which there are many kinds, each with a histogram of its own: small ones, two significant digits. To
//! note one is two additions.
use crate::{Counter, LogDistribution, LogHistogram};

/// Bits of the cells of a power of two: it has 128, 41 KB in all.
const BITS: u32 = 7;

/// Times of one kind; one writer.
#[derive(Debug, Default)]
pub struct Times {
    sum_ns: Counter,
    histogram: LogHistogram<BITS>,
}

/// What such counted together, read at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Exact.
    pub sum_ns: u64,
    /// Distribution with cells of 1/128, up to 39 h.
    pub distribution: LogDistribution<BITS>,
}

impl Times {
    /// Memory that one takes.
    pub const BYTES: usize = LogHistogram::<BITS>::BYTES + size_of::<Self>();

    /// Notes a time; only its one writer may.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.sum_ns.add(ns);
        self.histogram.record(ns);
    }
}

impl Timed {
    /// Adds up times of one kind.
    pub fn read<'a>(times: impl Iterator<Item = &'a Times> + Clone) -> Self {
        Self {
            sum_ns: times.clone().map(|times| times.sum_ns.get()).sum(),
            distribution: LogDistribution::read(times.map(|times| &times.histogram)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_and_the_rest_is_to_a_part_of_128() {
        let (a, b) = (Times::default(), Times::default());
        let all = [0u64, 77, 1000, 50_000, 1_000_000, 1_000_000_000];
        all.iter().enumerate().for_each(|(i, ns)| if i % 2 == 0 { a.record(*ns) } else { b.record(*ns) });
        let read = Timed::read([&a, &b].into_iter());
        assert_eq!((read.sum_ns, read.distribution.total()), (all.iter().sum(), 6));
        let (least, greatest) = read.distribution.range();
        assert!(least == 0 && (1_000_000_000..=1_008_000_000).contains(&greatest), "{least} {greatest}");
        assert!((1000..=1008).contains(&read.distribution.quantile(500_000)));
        let squares = read.distribution.sum_of_squares() as f64 / 1e18;
        assert!((0.98..1.02).contains(&squares), "{squares}");
        assert_eq!(Timed::read([].iter()).distribution.range(), (0, 0));
    }
}
