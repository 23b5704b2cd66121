// SPDX-License-Identifier: Apache-2.0
//! The line of a simulated counter against its true time: jitter of readings, other rates, counters that begin again at 0 or are reset.
use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// By as much as crystals may change.
const WANDER_PPB: u64 = 1000;

/// A device's counter. Its true time is monotonic time.
struct Counter {
    start: u64,
    hz: f64,
    /// From which instant on it is faster than `hz`, by how many parts per billion.
    faster: Vec<(u64, f64)>,
}

impl Counter {
    fn new(start: u64, hz: f64) -> Self {
        Self { start, hz, faster: vec![(0, 0.0)] }
    }

    fn at(&self, ns: u64) -> u64 {
        let ends = self.faster.iter().skip(1).map(|(from, _)| *from).chain([u64::MAX]);
        let parts =
            self.faster.iter().zip(ends).map(|((from, ppb), end)| {
                ns.min(end).saturating_sub(*from) as f64 * self.hz / 1e9 * (1.0 + ppb * 1e-9)
            });
        self.start.wrapping_add(parts.sum::<f64>() as u64)
    }

    /// A reading that begins some time before the instant at which the counter has its value, and ends some time after it.
    fn read(&self, at_ns: u64, (before, after): (u64, u64)) -> Reading {
        Reading::narrowest([(at_ns - before, self.at(at_ns), at_ns + after)].into_iter()).unwrap()
    }

    /// How far a line is off at an instant.
    fn error_of(&self, line: &Line, at_ns: u64) -> u64 {
        u64::try_from((line.mono_of(self.at(at_ns)) - i128::from(at_ns)).unsigned_abs()).unwrap()
    }
}

/// The clock of a counter that was read ten times a second, for 3.2 s, within 600 ns each time.
fn followed(counter: &Counter) -> DeviceClock {
    let clock = DeviceClock::new(WANDER_PPB);
    (1..=MAX_READINGS as u64)
        .for_each(|n| assert!(clock.learn(counter.read(n * REFRESH_NS, (300, 300))).is_some() == (n > 2)));
    clock
}

/// For tests of those who use it: the clock of a counter of `hz` that had `ticks` at monotonic 0, known to some nanoseconds.
pub(in crate::datapath) fn known(ticks: u64, hz: f64) -> DeviceClock {
    let (clock, counter) = (DeviceClock::new(0), Counter::new(ticks, hz));
    for n in 0..2 {
        assert_eq!(clock.learn(counter.read(n * SECOND, (0, 0))), None);
    }
    clock
}

proptest! {
    #[test]
    fn a_time_stamp_is_wrong_by_no_more_than_the_bound(
        start in any::<u64>(),
        hz in 1e6..2e9f64,
        off_ppb in -200_000.0..200_000.0f64,
        steps in prop::collection::vec((0..5_000u64, 0..5_000u64, 1..2 * REFRESH_NS, -500.0..500.0f64), 2..80),
        later in 0..5 * REFRESH_NS,
    ) {
        let mut counter = Counter::new(start, hz);
        counter.faster[0].1 = off_ppb;
        let (clock, mut now) = (DeviceClock::new(WANDER_PPB), 5_000);
        let mut bound = None;
        for (before, after, pause, wander_ppb) in steps {
            now += pause + before + after;
            let reading = counter.read(now, (before, after));
            let was_off = clock.learn(reading);
            prop_assert!(was_off.is_none() || was_off == bound.map(|line: Line| line.bound_ns(reading.mono_ns)), "{was_off:?}");
            counter.faster.push((now, off_ppb + wander_ppb));
            bound = clock.line().filter(|line| line.scale > 0);
            if let Some(line) = bound {
                for at in [now - before, now, now + later / 7, now + later] {
                    let error = counter.error_of(&line, at);
                    prop_assert!(error <= line.bound_ns(at), "{error} ns, bound {} ns, {line:?}", line.bound_ns(at));
                }
            }
        }
    }
}

#[test]
fn what_is_known_after_some_seconds_is_known_to_the_width_of_a_reading() {
    for hz in [1e9, 156.25e6, 78.125e6] {
        let counter = Counter::new(7, hz);
        let clock = followed(&counter);
        let last = MAX_READINGS as u64 * REFRESH_NS;
        // Half of the width, two ticks, and what may have been added since: 1.2 ppm.
        let bound = clock.bound_ns(last + REFRESH_NS).unwrap();
        assert!((300..500).contains(&bound), "{bound} ns at {hz} Hz");
        assert!(counter.error_of(&clock.line().unwrap(), last + REFRESH_NS) <= 20);
        // The counter is not read any more.
        let later = clock.bound_ns(last + 100 * SECOND).unwrap();
        assert!((100_000..200_000).contains(&later), "{later} ns");
    }
}

#[test]
fn of_several_tries_the_narrowest_counts_and_of_several_readings_the_best() {
    let tries = [(0, 5, 1000), (2000, 7, 2101), (3000, 9, 9000)];
    let narrowest = Reading::narrowest(tries.into_iter()).unwrap();
    assert_eq!(narrowest, Reading { ticks: 7, mono_ns: 2050, error_ns: 52 });
    assert_eq!(Reading::narrowest(std::iter::empty()), None);
    // A thread that lost its CPU for 20 ms in all of its tries.
    let counter = Counter::new(0, 1e9);
    let clock = followed(&counter);
    let next = (MAX_READINGS as u64 + 1) * REFRESH_NS;
    let before = clock.bound_ns(next).unwrap();
    clock.learn(counter.read(next, (20 * MS, 0)));
    let bound = clock.bound_ns(next).unwrap();
    assert!(bound <= before + 10, "{bound} ns, {before} ns before");
}

#[test]
fn a_counter_that_begins_again_at_0_goes_on() {
    let last = MAX_READINGS as u64 * REFRESH_NS;
    // It does so between two readings, and after the last.
    for wraps_at in [last - REFRESH_NS / 2, last + REFRESH_NS / 2] {
        let counter = Counter::new(0u64.wrapping_sub(wraps_at), 1e9);
        assert!(counter.at(wraps_at - 1) > counter.at(wraps_at));
        let line = followed(&counter).line().unwrap();
        for at in [last - REFRESH_NS, last, last + REFRESH_NS] {
            assert!(counter.error_of(&line, at) <= line.bound_ns(at), "{wraps_at} {at}");
        }
    }
}

#[test]
fn a_counter_that_was_reset_is_measured_again_and_says_how_far_it_was_off() {
    let clock = followed(&Counter::new(1 << 40, 1e9));
    let reset = Counter::new(0, 1e9);
    let next = (MAX_READINGS as u64 + 1) * REFRESH_NS;
    let was_off = clock.learn(reset.read(next, (300, 300))).unwrap();
    assert!(was_off.abs_diff(1 << 40) < 2000, "{was_off}");
    assert_eq!((clock.bound_ns(next), clock.line().unwrap().arrival(reset.at(next), next, 0)), (None, None));
    assert_eq!(clock.learn(reset.read(next + REFRESH_NS, (300, 300))), None);
    let line = clock.line().unwrap();
    assert!(reset.error_of(&line, next + REFRESH_NS) <= line.bound_ns(next + REFRESH_NS));
}

#[test]
fn a_rate_that_changes_by_more_than_it_may_is_found_and_counts_as_an_error() {
    let mut counter = Counter::new(0, 1e9);
    let clock = followed(&counter);
    let last = MAX_READINGS as u64 * REFRESH_NS;
    counter.faster.push((last, 100_000.0));
    let was_off = clock.learn(counter.read(last + REFRESH_NS, (300, 300))).unwrap();
    // 100 ppm for 100 ms.
    assert!((9_000..11_000).contains(&was_off), "{was_off} ns");
    assert_eq!(clock.bound_ns(last + REFRESH_NS), None);
}

#[test]
fn a_counter_that_stands_gives_no_time() {
    let clock = DeviceClock::new(WANDER_PPB);
    let standing = Counter::new(5, 0.0);
    (1..5).for_each(|n| assert_eq!(clock.learn(standing.read(n * REFRESH_NS, (300, 300))), None));
    assert_eq!((clock.bound_ns(SECOND), clock.line()), (None, Some(Line::default())));
}

#[test]
fn a_packet_arrived_before_it_was_read_or_its_time_stamp_is_of_another_clock() {
    let line = known(0, 1e9).line().unwrap();
    let (now, bound) = (5 * SECOND, 40);
    let arrival = |stamp| line.arrival(stamp, now, bound);
    assert_eq!(arrival(now - 700), Some(now - 700));
    // It waited in the queue while the worker had no CPU.
    assert_eq!(arrival(2 * SECOND), Some(2 * SECOND));
    // By the line's error only.
    assert_eq!((arrival(now + bound), arrival(now + bound + 1)), (Some(now), None));
    // The time of day, and nothing.
    assert_eq!((arrival(1_764_300_000 * SECOND), arrival(0u64.wrapping_sub(6 * SECOND))), (None, None));
    assert_eq!(Line::default().arrival(now, now, u64::MAX), None);
}
