// SPDX-License-Identifier: Apache-2.0
//! Delays of streams in the messages of the contract.
use super::groups::Group;
use super::runs::Held;
use contract::{Bucket, Distribution, LatencyStats, Quantile, WatchStatsResponse};
use spate_stats::{LogDistribution, Timed};

/// Quantiles that are reported, in parts per million.
const QUANTILES: [u32; 6] = [500_000, 900_000, 950_000, 990_000, 999_000, 999_900];

/// Maximum of the cells of all distributions in one answer: at most 6 MiB of it, 12 MiB when the operator has decoded it.
const MAX_CELLS: usize = 1 << 20;

/// Upper bounds of the buckets that are reported: 1, 2 and 5 of each power of ten, from 1 us to 10 s.
fn bounds() -> impl Iterator<Item = u64> {
    (0..7).flat_map(|power| [1, 2, 5].map(|n| n * 1000 * 10u64.pow(power))).chain([10_000_000_000])
}

/// What was measured of a group's delays, and the histogram that it was read from; none of what is not measured.
pub fn stats(held: &Held, group: &Group) -> (Option<LatencyStats>, Option<spate_stats::Distribution>) {
    let Some(delays) = held.run().delays(&group.streams) else { return (None, None) };
    let device_bound_ns = held.run().stamp_bound_ns(&group.streams);
    let mut stats = LatencyStats {
        jitter_ns: delays.jitter_ns,
        jitter_sum_ns: delays.difference_sum_ns,
        jitter_max_ns: delays.difference_max_ns,
        clock_bound_ns: held.clock_bound_ns().unwrap_or(0).saturating_add(device_bound_ns),
        device_bound_ns,
        ..LatencyStats::default()
    };
    if delays.unknown > 0 {
        stats.one_way_unknown = true;
        return (Some(stats), None);
    }
    stats.count = delays.count;
    stats.sum_ns = delays.sum_ns;
    stats.min_ns = delays.min_ns;
    stats.max_ns = delays.max_ns;
    stats.sum_squares_high = (delays.sum_squares >> 64) as u64;
    stats.sum_squares_low = delays.sum_squares as u64;
    stats.negative = delays.negative;
    stats.from_other_engines = delays.between_engines.min(delays.count);
    let Some(histogram) = group.histogram else { return (Some(stats), None) };
    let read = held.run().distribution(histogram);
    stats.distribution = held.has_distributions().then(|| distribution(&read));
    (Some(with_quantiles(stats, &read)), Some(read))
}

/// Times of a template as delays: the sum is exact, all else to 1/128 and at most 39 h.
pub fn timed(timed: &Timed) -> LatencyStats {
    let read = &timed.distribution;
    let ((min_ns, max_ns), squares) = (read.range(), read.sum_of_squares());
    let stats = LatencyStats {
        count: read.total(),
        sum_ns: timed.sum_ns,
        min_ns,
        max_ns,
        sum_squares_high: (squares >> 64) as u64,
        sum_squares_low: squares as u64,
        ..LatencyStats::default()
    };
    with_quantiles(stats, read)
}

/// Adds quantiles and buckets. A cell may reach beyond the greatest value that is in it, a quantile does not.
fn with_quantiles<const BITS: u32>(stats: LatencyStats, read: &LogDistribution<BITS>) -> LatencyStats {
    let quantile = |ppm| Quantile { parts_per_million: ppm, ns: read.quantile(ppm).min(stats.max_ns) };
    LatencyStats {
        quantiles: QUANTILES.map(quantile).into(),
        buckets: bounds().zip(read.at_most(bounds())).map(|(upper_ns, count)| Bucket { upper_ns, count }).collect(),
        ..stats
    }
}

/// What the operator merges with the counts of other engines (operator/internal/distribution).
pub fn distribution<const BITS: u32>(read: &LogDistribution<BITS>) -> Distribution {
    encoded(BITS, read.occupied().map(|(cell, count)| (cell as u32, count)))
}

/// Joins neighboring cells of an answer's distributions, of the most precise ones first, until all together have at most `MAX_CELLS`.
pub fn limit_cells(answer: &mut WatchStatsResponse) {
    let streams = answer.streams.iter_mut().filter_map(|stream| stream.measured.as_mut()?.latency.as_mut());
    let templates = answer.templates.iter_mut().flat_map(|side| [&mut side.connect_time, &mut side.round_trip]);
    let all = streams.chain(templates.flatten()).filter_map(|latency| latency.distribution.as_mut());
    limit_to(MAX_CELLS, &mut all.collect::<Vec<_>>());
}

fn limit_to(max_cells: usize, all: &mut [&mut Distribution]) {
    while all.iter().map(|one| one.cells.len()).sum::<usize>() > max_cells {
        let precise = all.iter().map(|one| one.precision_bits).max().unwrap_or(0);
        if precise == 0 {
            return;
        }
        for one in all.iter_mut().filter(|one| one.precision_bits == precise) {
            **one = coarser(one);
        }
    }
}

/// The counts with one bit less of precision.
fn coarser(precise: &Distribution) -> Distribution {
    let bits = precise.precision_bits - 1;
    let mut joined: Vec<(u32, u64)> = Vec::new();
    for (cell, count) in decoded(precise) {
        let cell = if cell < 2 << bits { cell } else { cell / 2 + (1 << bits) };
        match joined.last_mut() {
            Some((last, sum)) if *last == cell => *sum += count,
            _ => joined.push((cell, count)),
        }
    }
    encoded(bits, joined.into_iter())
}

fn encoded(precision_bits: u32, cells: impl Iterator<Item = (u32, u64)>) -> Distribution {
    let mut last = 0;
    let (cells, counts) = cells.map(|(cell, count)| (cell - std::mem::replace(&mut last, cell), count)).unzip();
    Distribution { precision_bits, cells, counts }
}

fn decoded(distribution: &Distribution) -> impl Iterator<Item = (u32, u64)> {
    let cells = distribution.cells.iter().scan(0, |last, ahead| {
        *last += ahead;
        Some(*last)
    });
    cells.zip(distribution.counts.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{runs::tests as runs, stats};
    use crate::plan::decode::Format;
    use proptest::prelude::*;
    use spate_stats::LogHistogram;
    use std::{env, fs, iter};

    /// The example that the operator's tests merge (operator/internal/controller/run/latency_test.go).
    const EXAMPLE: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../operator/internal/controller/run/testdata/distributions.json");

    #[test]
    fn bounds_rise_from_a_microsecond_to_ten_seconds() {
        let bounds: Vec<u64> = bounds().collect();
        assert!(bounds.is_sorted() && bounds.len() == 22);
        assert_eq!((bounds[0], bounds[21]), (1_000, 10_000_000_000));
    }

    fn read<const BITS: u32>(samples: &[u64]) -> LogDistribution<BITS> {
        let histogram = LogHistogram::new();
        samples.iter().for_each(|ns| histogram.record(*ns));
        LogDistribution::read(iter::once(&histogram))
    }

    /// What an engine reports of a stream's delays.
    fn delays<const BITS: u32>(samples: &[u64]) -> LatencyStats {
        let read = read::<BITS>(samples);
        let squares: u128 = samples.iter().map(|ns| u128::from(*ns).pow(2)).sum();
        let stats = LatencyStats {
            count: samples.len() as u64,
            sum_ns: samples.iter().sum(),
            min_ns: samples.iter().copied().min().unwrap_or(0),
            max_ns: samples.iter().copied().max().unwrap_or(0),
            sum_squares_high: (squares >> 64) as u64,
            sum_squares_low: squares as u64,
            distribution: Some(distribution(&read)),
            ..LatencyStats::default()
        };
        with_quantiles(stats, &read)
    }

    /// What an engine reports of a template's times.
    fn times(samples: &[u64]) -> LatencyStats {
        let measured = Timed { sum_ns: samples.iter().sum(), distribution: read(samples) };
        LatencyStats { distribution: Some(distribution(&measured.distribution)), ..timed(&measured) }
    }

    /// The last value of a cell, as the contract's comment on `Distribution` has it.
    fn last_value(bits: u32, cell: u64) -> u64 {
        if cell < 2 << bits {
            return cell;
        }
        let s = (cell >> bits) - 1;
        ((cell - (s << bits) + 1) << s) - 1
    }

    /// Quantiles as the contract's comment on `Distribution` has them.
    fn quantiles(stats: &LatencyStats) -> Vec<Quantile> {
        let distribution = stats.distribution.as_ref().unwrap();
        let mut each = Vec::new();
        for (cell, count) in decoded(distribution) {
            each.extend(iter::repeat_n(last_value(distribution.precision_bits, cell.into()), count as usize));
        }
        let ns = |ppm: u32| each[(each.len() * ppm as usize).div_ceil(1_000_000).max(1) - 1].min(stats.max_ns);
        QUANTILES.map(|ppm| Quantile { parts_per_million: ppm, ns: ns(ppm) }).into()
    }

    /// Durations of at most `bits` bits; each number of bits is equally frequent.
    fn durations(bits: u32) -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((0..=bits, any::<u64>()).prop_map(|(bits, ns)| ns & ((1 << bits) - 1)), 1..300)
    }

    proptest! {
        #[test]
        fn the_cells_give_the_quantiles_that_are_sent_with_them(samples in durations(50)) {
            for stats in [delays::<10>(&samples), times(&samples)] {
                prop_assert_eq!(quantiles(&stats), stats.quantiles);
            }
        }

        #[test]
        fn coarser_cells_are_those_of_a_less_precise_histogram(samples in durations(36)) {
            let precise = distribution(&read::<10>(&samples));
            prop_assert_eq!(coarser(&coarser(&coarser(&precise))), distribution(&read::<7>(&samples)));
        }
    }

    #[test]
    fn an_answer_with_too_many_cells_loses_precision_and_no_count() {
        let samples: Vec<u64> = (0..100_000).map(|i| i * 1000).collect();
        let all = || [distribution(&read::<10>(&samples)), distribution(&read::<7>(&samples))];
        let limited = |max_cells| {
            let [mut delays, mut times] = all();
            limit_to(max_cells, &mut [&mut delays, &mut times]);
            for one in [&delays, &times] {
                assert_eq!(one.counts.iter().sum::<u64>(), 100_000);
                assert_eq!(one.cells.len(), one.counts.len());
            }
            assert!(delays.cells.len() + times.cells.len() <= max_cells || delays.precision_bits == 0);
            (delays.precision_bits, times.precision_bits)
        };
        let cells: usize = all().iter().map(|one| one.cells.len()).sum();
        assert_eq!((limited(cells), limited(cells - 1)), ((10, 7), (9, 7)));
        assert_eq!((limited(500), limited(0)), ((4, 4), (0, 0)));
    }

    #[test]
    fn times_of_templates_have_cells_where_several_engines_run_the_plan() {
        let engine = runs::engine();
        for (share, cells) in [("", None), (r#""share": {"index": 1, "count": 2}, "#, Some(7))] {
            let plan = runs::ONE_TEMPLATE.replacen(r#""timing""#, &format!("{share}\"timing\""), 1);
            let (held, _) = engine.prepare("r", plan.into(), Format::Auto).unwrap();
            let [client, server] = &stats::templates(&held)[..] else { panic!("the template has two sides") };
            for times in [&client.connect_time, &client.round_trip, &server.connect_time] {
                let distribution = &times.as_ref().unwrap().distribution;
                assert_eq!(distribution.as_ref().map(|d| d.precision_bits), cells, "{share}");
            }
            drop(held);
            engine.remove("r");
        }
        engine.close();
    }

    /// Some samples by a linear congruential generator, those of each engine of another size.
    fn samples(engine: u64, count: usize) -> Vec<u64> {
        let mut state = engine;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slow = if (state >> 33).is_multiple_of(20) { engine * 40 } else { 1 };
            slow * (1000 * engine + (state >> 50))
        };
        iter::repeat_with(next).take(count).collect()
    }

    /// By case: what each engine reports, and what one engine reports that measured all of it.
    fn example() -> Vec<(&'static str, Vec<LatencyStats>, LatencyStats)> {
        let three = [samples(1, 150), samples(2, 60), samples(7, 90)];
        let together = three.concat();
        let beyond = [vec![5, 5, 6, 1 << 40], vec![(1 << 50) + 1], vec![0, 2047, 2048, 1 << 36]];
        let joined = |samples: &Vec<u64>, bits| {
            let mut stats = delays::<10>(samples);
            while stats.distribution.as_ref().is_some_and(|d| d.precision_bits > bits) {
                stats.distribution = stats.distribution.as_ref().map(coarser);
            }
            stats
        };
        vec![
            ("streams", three.each_ref().map(|s| delays::<10>(s)).into(), delays::<10>(&together)),
            ("templates", three.each_ref().map(|s| times(s)).into(), times(&together)),
            ("beyond the last cell", beyond.each_ref().map(|s| delays::<10>(s)).into(), delays::<10>(&beyond.concat())),
            ("templates, beyond the last cell", beyond.each_ref().map(|s| times(s)).into(), times(&beyond.concat())),
            ("one sample each", [1500, 1600, 1_000_001].map(|ns| delays::<10>(&[ns])).into(), {
                delays::<10>(&[1500, 1600, 1_000_001])
            }),
            (
                "of different precision",
                vec![joined(&three[0], 10), joined(&three[1], 7), joined(&three[2], 8)],
                delays::<7>(&together),
            ),
        ]
    }

    #[test]
    fn the_example_that_the_operator_merges_is_current() {
        let json = |stats: &LatencyStats| serde_json::to_string(stats).unwrap();
        let case = |(name, engines, together): &(&str, Vec<LatencyStats>, LatencyStats)| {
            let engines: Vec<_> = engines.iter().map(json).collect();
            format!("{name:?}: {{\"engines\": [\n{}\n], \"together\":\n{}\n}}", engines.join(",\n"), json(together))
        };
        let text = format!("{{\n{}\n}}\n", example().iter().map(case).collect::<Vec<_>>().join(",\n"));
        if env::var_os("SPATE_WRITE_EXAMPLES").is_some() {
            fs::write(EXAMPLE, &text).unwrap();
        }
        let current = fs::read_to_string(EXAMPLE).unwrap_or_default();
        assert!(current == text, "{EXAMPLE} is not current: set SPATE_WRITE_EXAMPLES=1 and run this test again");
    }
}
