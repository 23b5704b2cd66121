// SPDX-License-Identifier: Apache-2.0
//! Native histograms of Prometheus: exponential buckets, of which only those with a count are there.
//!
//! Of schema `s`, bucket `i` has the values in (2^((i-1)/2^s) s, 2^(i/2^s) s]. See <https://prometheus.io/docs/specs/native_histograms/>.
use spate_stats::LogDistribution;
use std::sync::LazyLock;

/// Schema of a histogram of at most `MAX_BUCKETS`: 32 buckets in each power of two, each 2.2 % wide. Cells of templates' histograms are up to 0.8 %
/// wide (of streams' 0.1 %): a bucket of the next schema, 1.1 %, would be narrower than two of them.
const SCHEMA: i32 = 5;
/// Maximum of buckets, as OpenTelemetry's exponential histograms have it: a histogram with more has them joined in pairs, and a schema less.
const MAX_BUCKETS: usize = 160;
/// Greatest value in the bucket of zero, in seconds: 2^-128, which the specification recommends. All values but 0 are greater: they are whole ns.
pub const ZERO_THRESHOLD: f64 = 1.0 / 2.0 / (1u128 << 127) as f64;

/// The bucket before that of 1 ns: no value is in it or below.
const BEFORE_FIRST: i32 = -957;
/// The bucket of 2^47 ns, above all cells.
const LAST: i32 = 548;

/// Upper bounds of buckets `BEFORE_FIRST` to `LAST` in ns, rounded down: values are whole ns.
static BOUNDS: LazyLock<Box<[u64]>> = LazyLock::new(|| {
    let per_octave = f64::from(1 << SCHEMA);
    (BEFORE_FIRST..=LAST).map(|index| ((f64::from(index) / per_octave).exp2() * 1e9) as u64).collect()
});

/// The counts of a histogram by native bucket. No value is negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Native {
    /// Resolution, `SCHEMA` or less.
    pub schema: i32,
    /// All that was counted: the sum of all buckets.
    pub count: u64,
    /// How often 0 was counted.
    pub zero_count: u64,
    /// Runs of adjacent buckets: how many buckets are between the one before and it (before the first: index of its first bucket), and how
    /// many it has.
    pub spans: Vec<(i32, u32)>,
    /// Counts of the buckets, each as its difference from the one before.
    pub deltas: Vec<i64>,
}

impl Native {
    /// A cell counts in the bucket of its least value, as in classic buckets: a value may exceed its bucket by a cell's width.
    pub fn of<const BITS: u32>(read: &LogDistribution<BITS>) -> Self {
        let at_most = read.at_most(BOUNDS.iter().copied());
        let counts = at_most.windows(2).map(|pair| pair[1] - pair[0]);
        let mut buckets: Vec<(i32, u64)> = (BEFORE_FIRST + 1..).zip(counts).filter(|(_, count)| *count > 0).collect();
        let mut schema = SCHEMA;
        while buckets.len() > MAX_BUCKETS {
            schema -= 1;
            join_pairs(&mut buckets);
        }
        let (mut spans, mut deltas) = (Vec::<(i32, u32)>::new(), Vec::with_capacity(buckets.len()));
        let (mut next, mut before) = (0, 0);
        for (index, count) in buckets {
            match spans.last_mut() {
                Some((_, length)) if index == next => *length += 1,
                _ => spans.push((index - next, 1)),
            }
            next = index + 1;
            let count = count.cast_signed();
            deltas.push(count - before);
            before = count;
        }
        Self { schema, count: read.total(), zero_count: at_most[0], spans, deltas }
    }
}

/// The buckets of a schema less: bucket `i` has those of `2i - 1` and `2i`.
fn join_pairs(buckets: &mut Vec<(i32, u64)>) {
    buckets.iter_mut().for_each(|(index, _)| *index = (*index + 1) >> 1);
    buckets.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spate_stats::LogHistogram;
    use std::iter;

    fn native<const BITS: u32>(samples: &[u64]) -> Native {
        let histogram = LogHistogram::<BITS>::new();
        samples.iter().for_each(|ns| histogram.record(*ns));
        Native::of(&LogDistribution::read(iter::once(&histogram)))
    }

    /// Buckets as Prometheus reads them: bounds in ns, and count.
    fn buckets(native: &Native) -> Vec<(f64, f64, u64)> {
        let bound = |index: i32| (f64::from(index) / f64::from(1 << native.schema)).exp2() * 1e9;
        let (mut next, mut count, mut deltas) = (0, 0, native.deltas.iter());
        let mut all = Vec::new();
        for &(gap, length) in &native.spans {
            next += gap;
            for _ in 0..length {
                count += deltas.next().unwrap();
                all.push((bound(next - 1), bound(next), u64::try_from(count).unwrap()));
                next += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        all
    }

    fn holds<const BITS: u32>(mut samples: Vec<u64>, ppm: u32) -> Result<(), TestCaseError> {
        let native = native::<BITS>(&samples);
        samples.sort_unstable();
        let buckets = buckets(&native);
        prop_assert!(buckets.len() <= MAX_BUCKETS && (1..=SCHEMA).contains(&native.schema), "{:?}", native);
        prop_assert_eq!(native.zero_count, samples.iter().filter(|ns| **ns == 0).count() as u64);
        let counted: u64 = buckets.iter().map(|(.., count)| count).sum();
        prop_assert_eq!((native.count, native.zero_count + counted), (samples.len() as u64, samples.len() as u64));
        // The least are in the first bucket, and so on.
        let resolution = 1.0 + 1.0 / f64::from(1 << BITS);
        let mut left = samples.iter().skip(native.zero_count as usize);
        for &(lower, upper, count) in &buckets {
            prop_assert!(count > 0);
            for ns in left.by_ref().take(count as usize) {
                let ns = *ns as f64;
                prop_assert!(lower < ns && ns <= upper * resolution, "{} in ({}, {}]", ns, lower, upper);
            }
        }
        // As histogram_quantile() interpolates in a bucket.
        let rank = samples.len() as f64 * f64::from(ppm) / 1e6;
        let exact = samples[(rank.ceil() as usize).max(1) - 1] as f64;
        let mut below = native.zero_count as f64;
        let found = buckets.iter().find_map(|&(lower, upper, count)| {
            let part = (rank - below) / count as f64;
            below += count as f64;
            (below >= rank).then(|| lower * (upper / lower).powf(part))
        });
        if exact == 0.0 {
            prop_assert!(rank <= native.zero_count as f64);
            return Ok(());
        }
        let (width, found) = ((1.0 / f64::from(1 << native.schema)).exp2(), found.unwrap());
        prop_assert!((found / exact).max(exact / found) <= width * resolution, "{} instead of {}", found, exact);
        Ok(())
    }

    /// Durations of at most `bits` bits; each number of bits is equally frequent.
    fn durations(bits: u32) -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((0..=bits, any::<u64>()).prop_map(|(bits, ns)| ns & ((1 << bits) - 1)), 1..600)
    }

    proptest! {
        #[test]
        fn each_sample_is_in_the_bucket_whose_bounds_hold_it_to_the_resolution_of_its_cell(
            wide in durations(36), wider in durations(47), near in prop::collection::vec(1_000u64..60_000, 1..600), ppm in 1u32..=1_000_000,
        ) {
            holds::<10>(near, ppm)?;
            holds::<10>(wide, ppm)?;
            holds::<7>(wider, ppm)?;
        }
    }

    #[test]
    fn buckets_are_spans_of_differences_in_the_schema_of_the_specification() {
        let empty = native::<10>(&[]);
        assert_eq!(empty, Native { schema: 5, count: 0, zero_count: 0, spans: vec![], deltas: vec![] });
        // A second is the upper bound of bucket 0, two those of bucket 32.
        let some = native::<10>(&[0, 0, 1, 1, 1, 2, 1_000_000_000, 1_010_000_000]);
        assert_eq!((some.schema, some.count, some.zero_count), (5, 8, 2));
        assert_eq!(some.spans, [(-956, 1), (31, 1), (923, 2)]);
        assert_eq!(some.deltas, [3, -2, 0, 0]);
        assert_eq!(ZERO_THRESHOLD, 2f64.powi(-128));
    }

    #[test]
    fn more_buckets_than_the_maximum_are_joined_and_nothing_is_lost() {
        // One in each bucket of some octaves.
        let octaves = |octaves: i32| -> Vec<u64> {
            (0..32 * octaves).map(|i| ((f64::from(i) + 0.5) / 32.0).exp2() * 65_536.0).map(|ns| ns as u64).collect()
        };
        for (spread, schema) in [(4, 5), (5, 5), (6, 4), (9, 4), (11, 3), (19, 3)] {
            let samples = octaves(spread);
            let joined = native::<10>(&samples);
            assert_eq!((joined.schema, joined.count), (schema, samples.len() as u64), "{spread} octaves");
            assert_eq!(buckets(&joined).iter().map(|(.., count)| count).sum::<u64>(), joined.count);
        }
        // What is longer than the last cell.
        let longest = native::<10>(&[u64::MAX]);
        assert_eq!((longest.count, longest.deltas.len()), (1, 1));
    }
}
