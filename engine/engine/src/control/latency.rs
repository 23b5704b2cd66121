// SPDX-License-Identifier: Apache-2.0
//! Delays of streams as the contract says them.
use super::groups::Group;
use super::runs::Held;
use contract::{Bucket, LatencyStats, Quantile};
use spate_stats::Timed;

/// Quantiles that are told, in parts per million.
const QUANTILES: [u32; 6] = [500_000, 900_000, 950_000, 990_000, 999_000, 999_900];

/// Upper bounds of the buckets that are told: 1, 2 and 5 of each power of ten, from 1 us to 10 s.
fn bounds() -> impl Iterator<Item = u64> {
    (0..7).flat_map(|power| [1, 2, 5].map(|n| n * 1000 * 10u64.pow(power))).chain([10_000_000_000])
}

/// What was measured of a group's delays; none if it was not asked for.
pub fn stats(held: &Held, group: &Group) -> Option<LatencyStats> {
    let delays = held.run().delays(&group.streams)?;
    let mut stats = LatencyStats {
        jitter_ns: delays.jitter_ns,
        jitter_sum_ns: delays.difference_sum_ns,
        jitter_max_ns: delays.difference_max_ns,
        clock_bound_ns: held.clock_bound_ns.unwrap_or(0),
        ..LatencyStats::default()
    };
    if delays.unknown > 0 {
        stats.one_way_unknown = true;
        return Some(stats);
    }
    stats.count = delays.count;
    stats.sum_ns = delays.sum_ns;
    stats.min_ns = delays.min_ns;
    stats.max_ns = delays.max_ns;
    stats.sum_squares_high = (delays.sum_squares >> 64) as u64;
    stats.sum_squares_low = delays.sum_squares as u64;
    stats.negative = delays.negative;
    if let Some(histogram) = group.histogram {
        let read = held.run().distribution(histogram);
        // A cell may reach beyond the greatest value that is in it.
        let quantile = |ppm| Quantile { parts_per_million: ppm, ns: read.quantile(ppm).min(delays.max_ns) };
        stats.quantiles = QUANTILES.map(quantile).into();
        let counts = read.at_most(bounds());
        stats.buckets = bounds().zip(counts).map(|(upper_ns, count)| Bucket { upper_ns, count }).collect();
    }
    Some(stats)
}

/// Times of a template as delays: the sum is exact, all else to 1/128 and at most 39 h.
pub fn timed(timed: &Timed) -> LatencyStats {
    let read = &timed.distribution;
    let ((min_ns, max_ns), squares) = (read.range(), read.sum_of_squares());
    let quantile = |ppm| Quantile { parts_per_million: ppm, ns: read.quantile(ppm) };
    LatencyStats {
        count: read.total(),
        sum_ns: timed.sum_ns,
        min_ns,
        max_ns,
        sum_squares_high: (squares >> 64) as u64,
        sum_squares_low: squares as u64,
        quantiles: QUANTILES.map(quantile).into(),
        buckets: bounds().zip(read.at_most(bounds())).map(|(upper_ns, count)| Bucket { upper_ns, count }).collect(),
        ..LatencyStats::default()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn bounds_rise_from_a_microsecond_to_ten_seconds() {
        let bounds: Vec<u64> = super::bounds().collect();
        assert!(bounds.is_sorted() && bounds.len() == 22);
        assert_eq!((bounds[0], bounds[21]), (1_000, 10_000_000_000));
    }
}
