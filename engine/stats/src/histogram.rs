// SPDX-License-Identifier: Apache-2.0
//! A histogram of nanoseconds with high dynamic range, from 1 ns to 68 s or 39 h, one writer, readable at any time.
//!
//! Of one of `BITS`, each power of two is divided into 2^BITS cells, so that a cell is never wider than that part of its values;
//! below 2^(BITS + 1) ns every value has a cell of its own. What is longer counts in the last cell.
use crate::Counter;

/// The last cell ends at two to this: behind 68 s for packets; wider cells reach 39 h, since connections may take a day.
const fn longest_bits(bits: u32) -> u32 {
    if bits < 10 { 47 } else { 36 }
}

const fn cells(bits: u32) -> usize {
    (2 << bits) + (((longest_bits(bits) - 1 - bits) as usize) << bits)
}

/// Counts by duration.
#[derive(Debug)]
pub struct LogHistogram<const BITS: u32> {
    cells: Box<[Counter]>,
}

/// Histogram with cells of a thousandth: three significant digits.
pub type Histogram = LogHistogram<10>;

impl<const BITS: u32> LogHistogram<BITS> {
    /// Memory that one takes.
    pub const BYTES: usize = cells(BITS) * size_of::<Counter>();

    /// Counts nothing yet.
    pub fn new() -> Self {
        Self { cells: (0..cells(BITS)).map(|_| Counter::default()).collect() }
    }

    /// Counts a duration; only its one writer may.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Counts as many of one duration.
    #[inline]
    pub fn record_many(&self, ns: u64, count: u64) {
        self.cells[cell::<BITS>(ns)].add(count);
    }
}

impl<const BITS: u32> Default for LogHistogram<BITS> {
    fn default() -> Self {
        Self::new()
    }
}

/// What histograms counted together, read at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDistribution<const BITS: u32> {
    cells: Vec<u64>,
    total: u64,
}

/// Distribution of histograms with cells of a thousandth.
pub type Distribution = LogDistribution<10>;

impl<const BITS: u32> LogDistribution<BITS> {
    /// Adds up histograms.
    pub fn read<'a>(histograms: impl Iterator<Item = &'a LogHistogram<BITS>>) -> Self {
        let mut cells = vec![0; cells(BITS)];
        for histogram in histograms {
            for (sum, cell) in cells.iter_mut().zip(&histogram.cells) {
                *sum += cell.get();
            }
        }
        let total = cells.iter().sum();
        Self { cells, total }
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Cells that counted something, by index in ascending order, each with its count. The contract's `Distribution` says which durations
    /// an index stands for.
    pub fn occupied(&self) -> impl Iterator<Item = (usize, u64)> {
        self.cells.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// The least duration that this many parts per million do not exceed, up to a cell's width above; 0 if nothing was
    /// counted.
    pub fn quantile(&self, parts_per_million: u32) -> u64 {
        let rank = (u128::from(self.total) * u128::from(parts_per_million)).div_ceil(1_000_000).max(1);
        let mut seen = 0;
        for (index, count) in self.cells.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank {
                return upper::<BITS>(index);
            }
        }
        0
    }

    /// The least and the greatest duration, to a cell's width below and above; zeros if nothing was counted.
    pub fn range(&self) -> (u64, u64) {
        let least = self.cells.iter().position(|count| *count > 0);
        let greatest = self.cells.iter().rposition(|count| *count > 0);
        (least.map_or(0, lower::<BITS>), greatest.map_or(0, upper::<BITS>))
    }

    /// The sum of squares, each duration taken for the middle of its cell.
    pub fn sum_of_squares(&self) -> u128 {
        let middle = |cell| u128::from(lower::<BITS>(cell).midpoint(upper::<BITS>(cell)));
        self.cells.iter().enumerate().map(|(cell, count)| u128::from(*count) * middle(cell).pow(2)).sum()
    }

    /// How many were at most each of some rising bounds, up to a cell's width above.
    pub fn at_most(&self, bounds: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut next = 0;
        let mut seen = 0;
        bounds
            .map(|bound| {
                let end = cell::<BITS>(bound) + 1;
                seen += self.cells[next.min(end)..end].iter().sum::<u64>();
                next = end;
                seen
            })
            .collect()
    }
}

/// Where a duration counts.
#[inline]
fn cell<const BITS: u32>(ns: u64) -> usize {
    if ns < 2 << BITS {
        return ns as usize;
    }
    // Its leading bits, the first of which is one, and how far they were shifted.
    let shift = 63 - BITS - ns.leading_zeros();
    if shift > longest_bits(BITS) - 1 - BITS {
        return cells(BITS) - 1;
    }
    ((shift as usize) << BITS) + (ns >> shift) as usize
}

/// The longest duration that counts in a cell.
fn upper<const BITS: u32>(cell: usize) -> u64 {
    if cell < 2 << BITS {
        return cell as u64;
    }
    let shift = (cell >> BITS) - 1;
    (((cell - (shift << BITS) + 1) as u64) << shift) - 1
}

/// The shortest.
fn lower<const BITS: u32>(cell: usize) -> u64 {
    if cell == 0 { 0 } else { upper::<BITS>(cell - 1) + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn held<const BITS: u32>(ns: u64) -> Result<(), TestCaseError> {
        let at = cell::<BITS>(ns);
        let (lower, upper) = (lower::<BITS>(at), upper::<BITS>(at));
        prop_assert!(lower <= ns && ns <= upper && upper - lower <= ns >> BITS, "{} {} {}", lower, ns, upper);
        prop_assert!(cell::<BITS>(upper) == at && (cell::<BITS>(upper + 1) == at + 1 || at == cells(BITS) - 1));
        Ok(())
    }

    proptest! {
        #[test]
        fn a_cell_holds_its_values_and_is_never_wider_than_their_part(bits in 0u32..47, low: u64) {
            let ns = (1 << bits) | (low & ((1 << bits) - 1));
            held::<7>(ns)?;
            held::<10>(ns & ((1 << 36) - 1))?;
        }

        #[test]
        fn quantiles_and_bounds_are_those_of_the_sorted_values(mut values in prop::collection::vec(0u64..3_000_000, 1..400), ppm in 1u32..=1_000_000) {
            let (a, b) = (Histogram::new(), Histogram::new());
            for (i, value) in values.iter().enumerate() {
                if i % 3 == 0 { a.record(*value) } else { b.record(*value) }
            }
            values.sort_unstable();
            let read = Distribution::read([&a, &b].into_iter());
            prop_assert_eq!(read.total(), values.len() as u64);
            let rank = (values.len() * ppm as usize).div_ceil(1_000_000);
            let exact = values[rank - 1];
            let found = read.quantile(ppm);
            prop_assert!(found >= exact && found - exact <= exact / 1000, "{} reported as {}", exact, found);
            let mut cells = vec![0; cells(10)];
            read.occupied().for_each(|(cell, count)| cells[cell] = count);
            prop_assert_eq!(LogDistribution { cells, total: read.total() }, read.clone());
            let bounds = [1000u64, 1000, 50_000, 1_000_000, 10_000_000];
            for (bound, count) in bounds.iter().zip(read.at_most(bounds.into_iter())) {
                let least = values.iter().filter(|v| *v <= bound).count() as u64;
                let most = values.iter().filter(|v| **v <= bound + bound / 1000).count() as u64;
                prop_assert!((least..=most).contains(&count), "{} {}", bound, count);
            }
        }
    }

    #[test]
    fn any_value_is_counted_and_quantiles_of_an_empty_histogram_are_0() {
        let histogram = Histogram::new();
        assert_eq!(Distribution::read([&histogram].into_iter()).quantile(500_000), 0);
        histogram.record(u64::MAX);
        histogram.record(0);
        let read = Distribution::read([&histogram].into_iter());
        assert_eq!((read.quantile(500_000), read.quantile(1_000_000)), (0, (1 << 36) - 1));
    }
}
