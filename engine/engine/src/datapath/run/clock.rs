// SPDX-License-Identifier: Apache-2.0
//! A run's own clock: it starts at an instant, stops while the run is paused, and goes on.
//!
//! Control and every worker hold one and receive the same stops and resumptions, so they agree on every instant of the run.
use std::collections::VecDeque;

/// Stops and resumptions that can be ahead without allocating.
const MAX_CHANGES: usize = 16;

/// Nanoseconds of run time; negative before the start.
#[derive(Clone, Debug)]
pub(in crate::datapath) struct RunClock {
    /// Monotonic instant of run time 0; none before a start is set.
    origin: Option<i64>,
    /// The run time it is stopped at.
    stopped_at: Option<i64>,
    /// Changes to come, in order of time.
    changes: VecDeque<(u64, ClockChange)>,
}

/// The clock stops or goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::datapath) enum ClockChange {
    Stop,
    Resume,
}

impl RunClock {
    pub(in crate::datapath) fn new() -> Self {
        Self { origin: None, stopped_at: None, changes: VecDeque::with_capacity(MAX_CHANGES) }
    }

    /// Run time 0 is at a monotonic instant.
    pub(in crate::datapath) fn start(&mut self, at_mono_ns: u64) {
        self.origin = Some(at_mono_ns.cast_signed());
    }

    pub(in crate::datapath) fn started(&self) -> bool {
        self.origin.is_some()
    }

    /// Stops or resumes at a monotonic instant, not before earlier ones.
    pub(in crate::datapath) fn change(&mut self, at_mono_ns: u64, change: ClockChange) {
        self.changes.push_back((at_mono_ns, change));
    }

    /// The last stop or resumption received, if it is still ahead or in force; `Resume` if there was none.
    pub(in crate::datapath) fn last_change(&self) -> ClockChange {
        match self.changes.back() {
            Some((_, change)) => *change,
            None if self.stopped_at.is_some() => ClockChange::Stop,
            None => ClockChange::Resume,
        }
    }

    /// Applies stops and resumptions up to a monotonic instant.
    #[inline]
    pub(in crate::datapath) fn advance(&mut self, mono_ns: u64) {
        while let (Some(origin), Some(&(at, change))) = (self.origin, self.changes.front())
            && at <= mono_ns
        {
            self.changes.pop_front();
            match (change, self.stopped_at) {
                (ClockChange::Stop, None) => self.stopped_at = Some(at.cast_signed() - origin),
                (ClockChange::Resume, Some(stopped_at)) => {
                    self.origin = Some(at.cast_signed() - stopped_at);
                    self.stopped_at = None;
                }
                _ => {}
            }
        }
    }

    /// Run time at a monotonic instant, as far as stops and resumptions were applied; none before a start is set.
    #[inline]
    pub(in crate::datapath) fn at(&self, mono_ns: u64) -> Option<i64> {
        let origin = self.origin?;
        Some(self.stopped_at.unwrap_or(mono_ns.cast_signed() - origin))
    }

    /// Run time at a monotonic instant, stops and resumptions to come included.
    pub(in crate::datapath) fn ahead(&self, mono_ns: u64) -> Option<i64> {
        let mut clock = self.clone();
        clock.advance(mono_ns);
        clock.at(mono_ns)
    }

    /// Whether it is stopped, as far as stops and resumptions were applied.
    pub(in crate::datapath) fn is_stopped(&self) -> bool {
        self.stopped_at.is_some()
    }

    /// The monotonic instant of a run time, if it is not stopped before; none while it is stopped.
    #[inline]
    pub(in crate::datapath) fn mono_of(&self, run_ns: u64) -> Option<u64> {
        if self.stopped_at.is_some() {
            return None;
        }
        Some(self.origin?.saturating_add_unsigned(run_ns).max(0).cast_unsigned())
    }

    /// The monotonic instant of the next stop or resumption.
    #[inline]
    pub(in crate::datapath) fn next_change(&self) -> Option<u64> {
        self.changes.front().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stands_while_paused_and_goes_on() {
        let mut clock = RunClock::new();
        assert_eq!(clock.at(5), None);
        clock.start(1000);
        assert_eq!(clock.at(900), Some(-100));
        clock.change(1500, ClockChange::Stop);
        clock.change(1800, ClockChange::Resume);
        assert_eq!(clock.ahead(1900), Some(600));
        clock.advance(1600);
        assert_eq!((clock.at(1600), clock.is_stopped(), clock.mono_of(700)), (Some(500), true, None));
        clock.advance(1900);
        assert_eq!((clock.at(1900), clock.mono_of(700)), (Some(600), Some(2000)));
    }

    #[test]
    fn a_pause_before_the_start_delays_it() {
        let mut clock = RunClock::new();
        clock.start(1000);
        clock.change(800, ClockChange::Stop);
        clock.change(900, ClockChange::Resume);
        clock.advance(950);
        assert_eq!(clock.at(1100), Some(0));
    }
}
