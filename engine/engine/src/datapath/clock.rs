// SPDX-License-Identifier: Apache-2.0
//! Time as workers keep it: nanoseconds from the time stamp counter, and what they mean on the wall.
use std::sync::{
    Arc,
    atomic::{
        AtomicBool, AtomicI64, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use rustix::time::{ClockId, clock_gettime};
use spate_dpdk::tsc;
use spate_net::trailer::TIMESTAMP_MODULUS;

/// How long the counter is measured against the system's clock: 20 ns of error in 100 ms are 0.2 ppm.
const CALIBRATION_NS: u64 = 100_000_000;

/// The data path's clock. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    counter: Option<Counter>,
    /// The wall clock; follows what adjusts the system's.
    wall: Arc<Timescale>,
    error: ClockError,
    source: String,
    id: u64,
}

/// How far a clock is off the system's, for tests of clocks: by `offset_ns` when the system's monotonic clock has `since_ns`, and by
/// `ppm` microseconds more each second from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockError {
    /// The offset of the wall clock and of the monotonic one.
    pub offset_ns: i64,
    /// The error of their rate, in parts per million.
    pub ppm: f64,
    /// Instant of the system's monotonic clock.
    pub since_ns: u64,
}

impl ClockError {
    /// A wrong clock when the system's monotonic clock has some time.
    fn of(&self, system_ns: u64) -> u64 {
        let gained = self.ppm * 1e-6 * system_ns.wrapping_sub(self.since_ns).cast_signed() as f64;
        system_ns.saturating_add_signed(self.offset_ns + gained as i64)
    }

    /// By how much it is ahead when it has some time.
    fn at(&self, wrong_ns: u64) -> i64 {
        let rate = self.ppm * 1e-6;
        let since = wrong_ns.wrapping_sub(self.since_ns).cast_signed();
        ((self.offset_ns as f64 + rate * since as f64) / (1.0 + rate)).round() as i64
    }
}

/// A scale of time at some distance from the monotonic clock. Time stamps are instants of one. It has one writer.
#[derive(Debug, Default)]
pub(super) struct Timescale {
    /// The time scale minus the monotonic clock.
    offset: AtomicI64,
    /// The offset before the last change, and the monotonic instant of that change.
    previous_offset: AtomicI64,
    changed_at: AtomicU64,
    /// Whether other engines are known to keep this time scale.
    common: AtomicBool,
}

impl Timescale {
    /// A time scale that only its owner sets.
    pub(super) fn new(offset: i64) -> Self {
        Self { offset: AtomicI64::new(offset), ..Self::default() }
    }

    /// The time of the scale at a monotonic instant.
    #[inline]
    pub(super) fn of(&self, mono_ns: u64) -> u64 {
        mono_ns.wrapping_add_signed(self.offset.load(Relaxed))
    }

    /// Whether other engines are known to keep this time scale.
    #[inline]
    pub(super) fn is_common(&self) -> bool {
        self.common.load(Relaxed)
    }

    /// Sets it at a monotonic instant to what other engines keep.
    pub(super) fn set_common(&self, offset: i64, mono_ns: u64) {
        self.set(offset, mono_ns);
        self.common.store(true, Relaxed);
    }

    /// From a time stamp in a trailer, of an engine that keeps it more or less, to a monotonic instant: within 39 hours either way.
    #[inline]
    pub(super) fn since_stamp(&self, stamp: u64, mono_ns: u64) -> i64 {
        signed(self.of(mono_ns).wrapping_sub(stamp))
    }

    /// From a time stamp of this very engine to a monotonic instant: exact although it may have been set in between.
    #[inline]
    pub(super) fn since_own_stamp(&self, stamp: u64, mono_ns: u64) -> i64 {
        let offset = self.offset.load(Acquire);
        let since = signed(mono_ns.wrapping_add_signed(offset).wrapping_sub(stamp));
        let changed_at = self.changed_at.load(Relaxed).cast_signed();
        // Negative: before the clock began, as an hour ago is on a machine that was started half an hour ago.
        let stamped_at = |since: i64| mono_ns.cast_signed() - since;
        if since >= 0 && stamped_at(since) >= changed_at {
            return since;
        }
        // Stamped before it was last set, if it makes sense by what was true then.
        let previous = self.previous_offset.load(Relaxed);
        let before = signed(mono_ns.wrapping_add_signed(previous).wrapping_sub(stamp));
        if before >= 0 && stamped_at(before) < changed_at { before } else { since }
    }

    fn set(&self, offset: i64, mono_ns: u64) {
        self.previous_offset.store(self.offset.load(Relaxed), Relaxed);
        self.changed_at.store(mono_ns, Relaxed);
        self.offset.store(offset, Release);
    }
}

/// How the wall clock stood to the monotonic one at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wall {
    /// Nanoseconds of the wall clock minus monotonic ones.
    offset: i64,
}

impl Wall {
    /// What an adjustment is at least to be one that a request for an instant can mean: clocks of machines agree no better.
    const ADJUSTMENT_NS: u64 = 10_000;

    /// The wall-clock time of a monotonic instant.
    #[inline]
    pub(super) fn of(self, mono_ns: u64) -> u64 {
        mono_ns.wrapping_add_signed(self.offset)
    }

    /// The monotonic instant of a wall-clock time; those before the monotonic clock's start are its start.
    pub(super) fn mono_of(self, wall_ns: u64) -> u64 {
        let mono = i128::from(wall_ns) - i128::from(self.offset);
        u64::try_from(mono.max(0)).unwrap_or(u64::MAX)
    }

    /// Nanoseconds of the wall clock minus monotonic ones.
    pub(super) fn offset(self) -> i64 {
        self.offset
    }

    /// An earlier one, unless the wall clock was adjusted since then.
    pub(super) fn unless_adjusted_since(self, earlier: Self) -> Self {
        if self.offset.abs_diff(earlier.offset) < Self::ADJUSTMENT_NS { earlier } else { self }
    }
}

/// A time stamp counter that runs at one rate on all CPUs.
#[derive(Debug)]
struct Counter {
    /// The counter and the monotonic clock at one instant.
    start: (u64, u64),
    /// Nanoseconds a tick in units of 2^-32.
    scale: u64,
}

impl Clock {
    /// Frequency tolerance of the time stamp counter's crystal, in parts per billion: IEEE 802.3 and common practice allow 50 ppm; the rest
    /// is the error of measuring its frequency.
    const COUNTER_TOLERANCE_PPB: u32 = 60_000;
    /// Frequency tolerance of the system's monotonic clock, which the kernel slews by up to 500 ppm (adjtimex(2)).
    const SYSTEM_TOLERANCE_PPB: u32 = 560_000;
    /// By how much the frequencies of two crystals change against each other within seconds, at most: crystals are specified to change by less
    /// than 1 ppm for each kelvin.
    const COUNTER_WANDER_PPB: u64 = 1_000;

    /// Measures the time stamp counter; where it is not invariant, the system's monotonic clock is used.
    pub(super) fn calibrate(error: ClockError) -> Self {
        let counter = tsc_is_invariant().then(|| {
            let start = sample();
            std::thread::sleep(std::time::Duration::from_nanos(CALIBRATION_NS));
            let end = sample();
            let scale = (u128::from(end.1 - start.1) << 32) / u128::from(end.0 - start.0);
            Counter::new(start, scale as u64, &error)
        });
        let source = match &counter {
            Some(counter) => format!("tsc {:.2} GHz (invariant)", (1u64 << 32) as f64 / counter.scale as f64),
            None => "clock_gettime (the time stamp counter is not invariant)".to_owned(),
        };
        let wall = Arc::new(Timescale::default());
        let this = Self { inner: Arc::new(Inner { counter, wall, error, source, id: system_ns(ClockId::Realtime) }) };
        this.follow_wall();
        this
    }

    /// Number of the calibration: clocks that were calibrated at different times have different ones.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// Frequency tolerance of the monotonic clock, in parts per billion.
    pub fn tolerance_ppb(&self) -> u32 {
        match self.inner.counter {
            Some(_) => Self::COUNTER_TOLERANCE_PPB,
            None => Self::SYSTEM_TOLERANCE_PPB,
        }
    }

    /// By how much the rate of the monotonic clock, and that of another that a crystal keeps, may change against each other within seconds,
    /// in parts per billion.
    pub(super) fn wander_ppb(&self) -> u64 {
        match self.inner.counter {
            Some(_) => Self::COUNTER_WANDER_PPB,
            None => Self::SYSTEM_TOLERANCE_PPB.into(),
        }
    }

    /// Nanoseconds of the wall clock minus monotonic ones.
    pub fn wall_offset_ns(&self) -> i64 {
        self.wall().offset()
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub fn now_wall_ns(&self) -> u64 {
        self.wall_of(self.mono_ns())
    }

    /// How time is kept, such as "tsc 2.9 GHz (invariant)".
    pub fn time_source(&self) -> &str {
        &self.inner.source
    }

    /// Nanoseconds that never jump nor go back, from an arbitrary start.
    #[inline]
    pub fn mono_ns(&self) -> u64 {
        match &self.inner.counter {
            Some(counter) => {
                let ticks = tsc().saturating_sub(counter.start.0);
                counter.start.1 + ((u128::from(ticks) * u128::from(counter.scale)) >> 32) as u64
            }
            None => self.inner.error.of(system_ns(ClockId::Monotonic)),
        }
    }

    /// The wall-clock time of a monotonic instant.
    #[inline]
    pub(super) fn wall_of(&self, mono_ns: u64) -> u64 {
        self.inner.wall.of(mono_ns)
    }

    /// The wall clock and the monotonic clock now.
    #[inline]
    pub(super) fn wall(&self) -> Wall {
        Wall { offset: self.inner.wall.offset.load(Relaxed) }
    }

    /// The wall clock as a scale of time stamps.
    #[inline]
    pub(super) fn wall_timescale(&self) -> &Arc<Timescale> {
        &self.inner.wall
    }

    /// Takes over adjustments of the wall clock. Called about once a second.
    pub(super) fn follow_wall(&self) {
        let best = (0..5)
            .map(|_| {
                let before = self.mono_ns();
                let wall = system_ns(ClockId::Realtime);
                let after = self.mono_ns();
                let middle = before + (after - before) / 2;
                let wall = wall.wrapping_add_signed(self.inner.error.at(middle));
                (after - before, wall.wrapping_sub(middle).cast_signed())
            })
            .min_by_key(|(width, _)| *width);
        if let Some((_, offset)) = best {
            self.set_wall(offset);
        }
    }

    fn set_wall(&self, offset: i64) {
        self.inner.wall.set(offset, self.mono_ns());
    }
}

impl Counter {
    fn new(start: (u64, u64), scale: u64, error: &ClockError) -> Self {
        let wrong = scale as f64 * error.ppm * 1e-6;
        Self { start: (start.0, error.of(start.1)), scale: scale.saturating_add_signed(wrong as i64) }
    }
}

/// A difference modulo the time stamps' modulus, as the nearest number to 0.
fn signed(difference: u64) -> i64 {
    const UNUSED: u32 = 64 - TIMESTAMP_MODULUS.trailing_zeros();
    (difference << UNUSED).cast_signed() >> UNUSED
}

/// The counter and the monotonic clock at one instant, as well as they can be read.
fn sample() -> (u64, u64) {
    (0..20)
        .map(|_| {
            let before = tsc();
            let ns = system_ns(ClockId::Monotonic);
            let after = tsc();
            (after - before, (before + (after - before) / 2, ns))
        })
        .min_by_key(|(width, _)| *width)
        .map_or((0, 0), |(_, sample)| sample)
}

fn system_ns(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

fn tsc_is_invariant() -> bool {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    ["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.split_whitespace().any(|f| f == *flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_systems_time() {
        let clock = Clock::calibrate(ClockError::default());
        let start = (clock.mono_ns(), system_ns(ClockId::Monotonic));
        std::thread::sleep(std::time::Duration::from_millis(300));
        let end = (clock.mono_ns(), system_ns(ClockId::Monotonic));
        // 100 ppm, and time for being preempted between two readings.
        assert!((end.0 - start.0).abs_diff(end.1 - start.1) < 30_000 + 1_000_000, "{start:?} {end:?}");
        assert!(clock.now_wall_ns().abs_diff(system_ns(ClockId::Realtime)) < 5_000_000);
        a_wall_clock_that_is_set_does_not_touch_what_was_measured_by_it(&clock);
        let later = clock.now_wall_ns() + 1_000_000_000;
        assert_eq!(clock.wall_of(clock.wall().mono_of(later)), later);
    }

    #[test]
    fn instants_keep_their_distance_while_the_wall_clock_is_followed() {
        let start = Wall { offset: 1_700_000_000_000_000_000 };
        let at = start.of(5_000);
        for (adjusted, mono) in
            [(-2, 5_000), (9_999, 5_000), (-10_000, 15_000), (-3_600_000_000_000, 3_600_000_005_000)]
        {
            let now = Wall { offset: start.offset + adjusted };
            let wall = now.unless_adjusted_since(start);
            assert_eq!((wall.mono_of(at), wall.of(mono)), (mono, at), "{adjusted}");
        }
        assert_eq!(start.mono_of(7), 0);
    }

    #[test]
    fn keeps_time_on_a_machine_that_was_just_started() {
        let counter = Counter { start: (tsc(), 0), scale: 1 << 32 };
        let (wall, error) = Default::default();
        let inner = Inner { counter: Some(counter), wall, error, source: String::new(), id: 0 };
        let clock = Clock { inner: Arc::new(inner) };
        clock.follow_wall();
        a_wall_clock_that_is_set_does_not_touch_what_was_measured_by_it(&clock);
    }

    #[test]
    fn an_error_for_tests_is_as_large_as_it_says() {
        let since_ns = system_ns(ClockId::Monotonic) - 100_000_000_000;
        for (offset_ns, ppm) in [(2_000_000_000, 50.0), (-2_000_000_000, -50.0), (0, 0.0)] {
            let error = ClockError { offset_ns, ppm, since_ns };
            assert_eq!(error.at(error.of(since_ns)), offset_ns);
            let clock = Clock::calibrate(error);
            std::thread::sleep(std::time::Duration::from_millis(50));
            // 100 s later.
            let expected = offset_ns + (ppm * 100_000.0) as i64;
            let wrong = clock.mono_ns();
            let off = wrong.wrapping_sub(system_ns(ClockId::Monotonic)).cast_signed();
            assert!(off.abs_diff(expected) < 2_000_000, "{off} {expected}");
            let off = clock.now_wall_ns().wrapping_sub(system_ns(ClockId::Realtime)).cast_signed();
            assert!(off.abs_diff(expected) < 5_000_000, "{off} {expected}");
            assert!(error.at(wrong).abs_diff(off) < 5_000_000, "{off}");
        }
    }

    fn a_wall_clock_that_is_set_does_not_touch_what_was_measured_by_it(clock: &Clock) {
        let wall = clock.wall_timescale();
        for step in [-3_600_000_000_000i64, -7, 0, 5_000, 3_600_000_000_000] {
            let sent = clock.mono_ns();
            let stamp = clock.wall_of(sent) % TIMESTAMP_MODULUS;
            std::thread::sleep(std::time::Duration::from_micros(20));
            clock.set_wall(clock.wall_offset_ns() + step);
            std::thread::sleep(std::time::Duration::from_micros(20));
            let now = clock.mono_ns();
            assert_eq!(wall.since_own_stamp(stamp, now), (now - sent).cast_signed(), "{step}");
            let after = clock.mono_ns();
            let stamp = clock.wall_of(after) % TIMESTAMP_MODULUS;
            assert_eq!(wall.since_own_stamp(stamp, after + 99), 99, "{step}");
            assert_eq!(wall.since_stamp(stamp, after - 99), -99);
        }
        clock.follow_wall();
    }
}
