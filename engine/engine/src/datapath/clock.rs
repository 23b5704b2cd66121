// SPDX-License-Identifier: Apache-2.0
//! Time as workers keep it: nanoseconds from the time stamp counter, and what they mean on the wall.
use std::sync::{
    Arc,
    atomic::{
        AtomicI64, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use rustix::time::{ClockId, clock_gettime};
use spate_dpdk::tsc;
use spate_wire::trailer::TIMESTAMP_MODULUS;

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
    /// Wall-clock nanoseconds minus monotonic ones; follows what adjusts the wall clock.
    wall_offset: AtomicI64,
    /// What it was before, and the monotonic instant from which on it was not.
    previous_offset: AtomicI64,
    changed_at: AtomicU64,
    source: String,
}

/// How the wall clock stood to the monotonic one at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wall {
    /// Nanoseconds of the wall clock minus monotonic ones.
    offset: i64,
}

impl Wall {
    /// What an adjustment is at least to be one that whoever asks for an instant can mean: clocks of machines agree no better.
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
    /// Measures the time stamp counter; where it is not invariant, the system's monotonic clock is used.
    pub(super) fn calibrate() -> Self {
        let counter = tsc_is_invariant().then(|| {
            let start = sample();
            std::thread::sleep(std::time::Duration::from_nanos(CALIBRATION_NS));
            let end = sample();
            let scale = (u128::from(end.1 - start.1) << 32) / u128::from(end.0 - start.0);
            Counter { start, scale: scale as u64 }
        });
        let source = match &counter {
            Some(counter) => format!("tsc {:.2} GHz (invariant)", (1u64 << 32) as f64 / counter.scale as f64),
            None => "clock_gettime (the time stamp counter is not invariant)".to_owned(),
        };
        let this = Self {
            inner: Arc::new(Inner {
                counter,
                wall_offset: AtomicI64::new(0),
                previous_offset: AtomicI64::new(0),
                changed_at: AtomicU64::new(0),
                source,
            }),
        };
        this.follow_wall();
        this
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
    pub(super) fn mono_ns(&self) -> u64 {
        match &self.inner.counter {
            Some(counter) => {
                let ticks = tsc().saturating_sub(counter.start.0);
                counter.start.1 + ((u128::from(ticks) * u128::from(counter.scale)) >> 32) as u64
            }
            None => system_ns(ClockId::Monotonic),
        }
    }

    /// The wall-clock time of a monotonic instant.
    #[inline]
    pub(super) fn wall_of(&self, mono_ns: u64) -> u64 {
        self.wall().of(mono_ns)
    }

    /// How the wall clock stands now.
    #[inline]
    pub(super) fn wall(&self) -> Wall {
        Wall { offset: self.inner.wall_offset.load(Relaxed) }
    }

    /// From a time stamp in a trailer, by a wall clock that need not be this one, to a monotonic instant: within 39 hours
    /// either way.
    #[inline]
    pub(super) fn since_stamp(&self, stamp: u64, mono_ns: u64) -> i64 {
        signed(self.wall_of(mono_ns).wrapping_sub(stamp))
    }

    /// From a time stamp of this very clock to a monotonic instant: exact although the wall clock may have been adjusted
    /// in between.
    #[inline]
    pub(super) fn since_own_stamp(&self, stamp: u64, mono_ns: u64) -> i64 {
        let offset = self.inner.wall_offset.load(Acquire);
        let since = signed(mono_ns.wrapping_add_signed(offset).wrapping_sub(stamp));
        let changed_at = self.inner.changed_at.load(Relaxed).cast_signed();
        // Negative: before the clock began, as an hour ago is on a machine that was started half an hour ago.
        let stamped_at = |since: i64| mono_ns.cast_signed() - since;
        if since >= 0 && stamped_at(since) >= changed_at {
            return since;
        }
        // Stamped before the last adjustment, if it makes sense by what was true then.
        let previous = self.inner.previous_offset.load(Relaxed);
        let before = signed(mono_ns.wrapping_add_signed(previous).wrapping_sub(stamp));
        if before >= 0 && stamped_at(before) < changed_at { before } else { since }
    }

    /// Takes over adjustments of the wall clock. Called about once a second.
    pub(super) fn follow_wall(&self) {
        let best = (0..5)
            .map(|_| {
                let before = self.mono_ns();
                let wall = system_ns(ClockId::Realtime);
                let after = self.mono_ns();
                (after - before, wall.wrapping_sub(before + (after - before) / 2).cast_signed())
            })
            .min_by_key(|(width, _)| *width);
        if let Some((_, offset)) = best {
            self.set_offset(offset);
        }
    }

    fn set_offset(&self, offset: i64) {
        self.inner.previous_offset.store(self.inner.wall_offset.load(Relaxed), Relaxed);
        self.inner.changed_at.store(self.mono_ns(), Relaxed);
        self.inner.wall_offset.store(offset, Release);
    }
}

/// A difference modulo the time stamps' modulus, as the nearest number to 0.
fn signed(difference: u64) -> i64 {
    const UNUSED: u32 = 64 - TIMESTAMP_MODULUS.trailing_zeros();
    (difference << UNUSED).cast_signed() >> UNUSED
}

/// The counter and the monotonic clock at one instant, as well as they can be told.
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
        let clock = Clock::calibrate();
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
        let (wall_offset, previous_offset) = Default::default();
        let (changed_at, source) = Default::default();
        let inner = Inner { counter: Some(counter), wall_offset, previous_offset, changed_at, source };
        let clock = Clock { inner: Arc::new(inner) };
        clock.follow_wall();
        a_wall_clock_that_is_set_does_not_touch_what_was_measured_by_it(&clock);
    }

    fn a_wall_clock_that_is_set_does_not_touch_what_was_measured_by_it(clock: &Clock) {
        for step in [-3_600_000_000_000i64, -7, 0, 5_000, 3_600_000_000_000] {
            let sent = clock.mono_ns();
            let stamp = clock.wall_of(sent) % TIMESTAMP_MODULUS;
            std::thread::sleep(std::time::Duration::from_micros(20));
            clock.set_offset(clock.inner.wall_offset.load(Relaxed) + step);
            std::thread::sleep(std::time::Duration::from_micros(20));
            let now = clock.mono_ns();
            assert_eq!(clock.since_own_stamp(stamp, now), (now - sent).cast_signed(), "{step}");
            let after = clock.mono_ns();
            let stamp = clock.wall_of(after) % TIMESTAMP_MODULUS;
            assert_eq!(clock.since_own_stamp(stamp, after + 99), 99, "{step}");
            assert_eq!(clock.since_stamp(stamp, after - 99), -99);
        }
        clock.follow_wall();
    }
}
