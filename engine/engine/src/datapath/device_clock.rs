// SPDX-License-Identifier: Apache-2.0
//! The clock of a device that stamps packets on arrival: what its counter means on the monotonic clock, and how exactly that is known.
//!
//! Control reads the counter between two readings of the monotonic clock. The counter had its value at some instant between them, so their
//! middle is wrong by at most half of their distance. Two such readings give the counter's rate; one of them and the rate give a line. Its
//! error grows with time: by the error of the rate, and by as much as the rates of both clocks may change meanwhile. So control reads again
//! and again. Workers take the line that was published last, and never wait for it.
use crate::lock::lock;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use spate_dpdk::DeviceCounter;
use spate_stats::Snapshot;

use super::Clock;

/// How often a device's counter is read.
pub(super) const REFRESH_NS: u64 = 100_000_000;
/// Readings that a line is computed from, at most: those of 3 s.
const MAX_READINGS: usize = 32;
/// A reading is the narrowest of this many: a thread that loses its CPU while it reads makes a wide one.
const TRIES: usize = 8;
/// A packet that was in the device's queue for longer has a time stamp of another clock, such as one of the time of day.
const MAX_WAIT_NS: i128 = 10_000_000_000;

const BILLION: u128 = 1_000_000_000;

/// A device's clock, as control knows it and workers read it.
#[derive(Debug)]
pub(super) struct DeviceClock {
    published: Snapshot<5>,
    known: Mutex<Known>,
}

/// State of a device clock on the control side.
#[derive(Debug)]
struct Known {
    /// The latest, in the order of time.
    readings: VecDeque<Reading>,
    line: Option<Line>,
    /// By how much the rate of one clock may change against the other's, in parts per billion.
    wander_ppb: u64,
}

/// A value of the counter, and when it had that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    ticks: u64,
    mono_ns: u64,
    /// Greatest error of `mono_ns`.
    error_ns: u64,
}

/// Monotonic time by the counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The counter and the monotonic clock at one instant.
    ticks: u64,
    mono_ns: u64,
    /// Nanoseconds a tick in units of 2^-32; 0: nothing is known.
    scale: u64,
    /// Greatest error at that instant.
    error_ns: u64,
    /// By how much it grows, in nanoseconds a second.
    drift_ppb: u64,
}

impl Reading {
    /// The narrowest of some: each is the monotonic clock, the counter, and the monotonic clock again.
    fn narrowest(tries: impl Iterator<Item = (u64, u64, u64)>) -> Option<Self> {
        let reading = |(before, ticks, after): (u64, u64, u64)| {
            let width = after.saturating_sub(before);
            // Plus 1: the clock gives whole nanoseconds.
            Self { ticks, mono_ns: before + width / 2, error_ns: width.div_ceil(2) + 1 }
        };
        tries.map(reading).min_by_key(|reading| reading.error_ns)
    }

    /// Reads a device's counter; none if it does not answer.
    fn of(counter: &DeviceCounter, clock: &Clock) -> Option<Self> {
        let tries = (0..TRIES).map_while(|_| {
            let before = clock.mono_ns();
            let ticks = counter.read()?;
            Some((before, ticks, clock.mono_ns()))
        });
        Self::narrowest(tries)
    }
}

impl Line {
    /// The line of some readings in the order of time: the rate is that of the two which give it best, and it goes through the one by which
    /// it is known best now. None if they give no rate: they are too few, or the counter does not count.
    fn through(readings: &VecDeque<Reading>, wander_ppb: u64) -> Option<Self> {
        let now = readings.back()?.mono_ns;
        let rate = |(a, b): (&Reading, &Reading)| {
            let ticks = u64::try_from(b.ticks.wrapping_sub(a.ticks).cast_signed()).ok().filter(|ticks| *ticks > 0)?;
            let ns = b.mono_ns.checked_sub(a.mono_ns).filter(|ns| *ns > 0)?;
            let scale = u64::try_from((u128::from(ns) << 32) / u128::from(ticks)).ok().filter(|scale| *scale > 0)?;
            let error_ns = u128::from(a.error_ns + b.error_ns + tick_ns(scale));
            // Plus 1, for the remainder of the division.
            let error_ppb = u64::try_from(error_ns * BILLION / u128::from(ns)).ok()?.saturating_add(1);
            Some((scale, error_ppb))
        };
        let pairs = readings.iter().enumerate().flat_map(|(i, a)| readings.iter().skip(i + 1).map(move |b| (a, b)));
        let (scale, error_ppb) = pairs.filter_map(rate).min_by_key(|(_, error_ppb)| *error_ppb)?;
        let drift_ppb = error_ppb.saturating_add(wander_ppb);
        let by = |reading: &Reading| Self {
            ticks: reading.ticks,
            mono_ns: reading.mono_ns,
            scale,
            // A reading and a time stamp are whole ticks.
            error_ns: reading.error_ns + 2 * tick_ns(scale),
            drift_ppb,
        };
        readings.iter().map(by).min_by_key(|line| line.bound_ns(now))
    }

    /// Its greatest error at a monotonic instant.
    pub(super) fn bound_ns(&self, mono_ns: u64) -> u64 {
        let growth = u128::from(mono_ns.abs_diff(self.mono_ns)) * u128::from(self.drift_ppb) / BILLION;
        self.error_ns.saturating_add(u64::try_from(growth).unwrap_or(u64::MAX)).saturating_add(1)
    }

    /// The monotonic instant of a value of the counter, which may have begun again at 0 since, or have yet to.
    fn mono_of(&self, ticks: u64) -> i128 {
        let since = i128::from(ticks.wrapping_sub(self.ticks).cast_signed());
        i128::from(self.mono_ns) + ((since * i128::from(self.scale)) >> 32)
    }

    /// When a packet with a time stamp arrived, which was read at an instant at which the line has a bound. None if it cannot have arrived
    /// then: the time stamp is none of this clock's.
    #[inline]
    pub(super) fn arrival(&self, stamp: u64, read_ns: u64, bound_ns: u64) -> Option<u64> {
        if self.scale == 0 {
            return None;
        }
        let waited = i128::from(read_ns) - self.mono_of(stamp);
        // By the line's error it may seem to have arrived after it was read.
        (-i128::from(bound_ns)..=MAX_WAIT_NS).contains(&waited).then(|| read_ns.saturating_sub(waited.max(0) as u64))
    }

    fn words(self) -> [u64; 5] {
        [self.ticks, self.mono_ns, self.scale, self.error_ns, self.drift_ppb]
    }

    fn of([ticks, mono_ns, scale, error_ns, drift_ppb]: [u64; 5]) -> Self {
        Self { ticks, mono_ns, scale, error_ns, drift_ppb }
    }
}

/// A tick in nanoseconds, rounded up.
fn tick_ns(scale: u64) -> u64 {
    scale.div_ceil(1 << 32)
}

impl DeviceClock {
    /// A clock without readings yet. Its rate and that of the monotonic clock change against each other by at most `wander_ppb`.
    fn new(wander_ppb: u64) -> Self {
        let known = Known { readings: VecDeque::with_capacity(MAX_READINGS), line: None, wander_ppb };
        Self { published: Snapshot::default(), known: Mutex::new(known) }
    }

    /// The clock of a device, as two readings give it. Takes as long as is between two.
    pub(super) fn calibrate(counter: &DeviceCounter, clock: &Clock) -> Self {
        let this = Self::new(clock.wander_ppb());
        this.follow(counter, clock);
        std::thread::sleep(std::time::Duration::from_nanos(REFRESH_NS));
        this.follow(counter, clock);
        this
    }

    /// Reads the device's counter again. Returns by how much time stamps may have been off since the time before; none if that is not
    /// known.
    pub(super) fn follow(&self, counter: &DeviceCounter, clock: &Clock) -> Option<u64> {
        Reading::of(counter, clock).and_then(|reading| self.learn(reading))
    }

    /// Takes a reading over, which is later than those before.
    pub(super) fn learn(&self, reading: Reading) -> Option<u64> {
        let mut known = self.known();
        let was_off = known.line.map(|line| {
            let bound_ns = line.bound_ns(reading.mono_ns);
            let off = (line.mono_of(reading.ticks) - i128::from(reading.mono_ns)).unsigned_abs();
            let off_ns = u64::try_from(off).unwrap_or(u64::MAX);
            if off_ns <= bound_ns.saturating_add(reading.error_ns) {
                return bound_ns;
            }
            // The counter was set, or a clock changed its rate by more than it may: former readings are not valid any more.
            tracing::warn!(
                off_ns,
                bound_ns,
                "the clock of a device is not where it was expected: it is measured again"
            );
            known.readings.clear();
            off_ns.saturating_add(reading.error_ns)
        });
        if known.readings.len() == MAX_READINGS {
            known.readings.pop_front();
        }
        known.readings.push_back(reading);
        known.line = Line::through(&known.readings, known.wander_ppb);
        self.published.publish(known.line.unwrap_or_default().words());
        was_off
    }

    /// The line, unless it is being published at this moment.
    #[inline]
    pub(super) fn line(&self) -> Option<Line> {
        self.published.try_read().map(Line::of)
    }

    /// By how much time stamps may be off at a monotonic instant; none if that is not known.
    pub(super) fn bound_ns(&self, mono_ns: u64) -> Option<u64> {
        self.known().line.map(|line| line.bound_ns(mono_ns))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

#[cfg(test)]
pub(super) mod tests;
