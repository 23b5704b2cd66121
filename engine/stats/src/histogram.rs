// SPDX-License-Identifier: Apache-2.0
//! A histogram of nanoseconds with high dynamic range: three significant digits from 1 ns to 68 s, one writer, readable at
//! any time.
//!
//! Below 2048 ns every value has a cell of its own; above, each power of two is divided into 1024 cells, so that a cell is
//! never wider than a thousandth of its values. What is longer counts in the last cell.
use crate::Counter;

/// Powers of two above the linear part.
const OCTAVES: usize = 25;
const CELLS: usize = 2048 + OCTAVES * 1024;

/// Counts by duration.
#[derive(Debug)]
pub struct Histogram {
    cells: Box<[Counter]>,
}

impl Histogram {
    /// Memory that one takes.
    pub const BYTES: usize = CELLS * size_of::<Counter>();

    /// Counts nothing yet.
    pub fn new() -> Self {
        Self { cells: (0..CELLS).map(|_| Counter::default()).collect() }
    }

    /// Counts a duration; only its one writer may.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.cells[cell(ns)].add(1);
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// What histograms counted together, read at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    cells: Vec<u64>,
    total: u64,
}

impl Distribution {
    /// Adds up histograms.
    pub fn read<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Self {
        let mut cells = vec![0; CELLS];
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

    /// The least duration that so many parts per million are no longer than, up to a thousandth above; 0 if nothing was
    /// counted.
    pub fn quantile(&self, parts_per_million: u32) -> u64 {
        let rank = (u128::from(self.total) * u128::from(parts_per_million)).div_ceil(1_000_000).max(1);
        let mut seen = 0;
        for (index, count) in self.cells.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank {
                return upper(index);
            }
        }
        0
    }

    /// How many were at most each of some rising bounds, up to a thousandth above.
    pub fn at_most(&self, bounds: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut next = 0;
        let mut seen = 0;
        bounds
            .map(|bound| {
                let end = cell(bound) + 1;
                seen += self.cells[next.min(end)..end].iter().sum::<u64>();
                next = end;
                seen
            })
            .collect()
    }
}

/// Where a duration counts.
#[inline]
fn cell(ns: u64) -> usize {
    if ns < 2048 {
        return ns as usize;
    }
    // Its eleven leading bits, the first of which is one, and how far they were shifted.
    let shift = 53 - ns.leading_zeros() as usize;
    if shift > OCTAVES {
        return CELLS - 1;
    }
    shift * 1024 + (ns >> shift) as usize
}

/// The longest duration that counts in a cell.
fn upper(cell: usize) -> u64 {
    if cell < 2048 {
        return cell as u64;
    }
    let shift = cell / 1024 - 1;
    (((cell - shift * 1024 + 1) as u64) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cell_holds_its_values_and_is_never_wider_than_a_thousandth(bits in 0u32..36, low: u64) {
            let ns = (1 << bits) | (low & ((1 << bits) - 1));
            let upper = upper(cell(ns));
            prop_assert!(upper >= ns && upper - ns <= ns / 1000, "{} {}", ns, upper);
            prop_assert!(cell(upper) == cell(ns) && cell(upper + 1) != cell(ns) || cell(ns) == CELLS - 1);
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
            let told = read.quantile(ppm);
            prop_assert!(told >= exact && told - exact <= exact / 1000, "{} told as {}", exact, told);
            let bounds = [1000u64, 1000, 50_000, 1_000_000, 10_000_000];
            for (bound, count) in bounds.iter().zip(read.at_most(bounds.into_iter())) {
                let least = values.iter().filter(|v| *v <= bound).count() as u64;
                let most = values.iter().filter(|v| **v <= bound + bound / 1000).count() as u64;
                prop_assert!((least..=most).contains(&count), "{} {}", bound, count);
            }
        }
    }

    #[test]
    fn anything_is_counted_and_nothing_is_told_of_nothing() {
        let histogram = Histogram::new();
        assert_eq!(Distribution::read([&histogram].into_iter()).quantile(500_000), 0);
        histogram.record(u64::MAX);
        histogram.record(0);
        let read = Distribution::read([&histogram].into_iter());
        assert_eq!((read.quantile(500_000), read.quantile(1_000_000)), (0, (1 << 36) - 1));
    }
}
