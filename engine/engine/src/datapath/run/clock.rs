// SPDX-License-Identifier: Apache-2.0
//! A run's own clock: it starts at an instant, stands while the run is paused, and goes on.
//!
//! Control and every worker hold one and receive the same stops and resumptions, so they agree on every instant of the run.
use std::collections::VecDeque;

/// Stops and resumptions that can be ahead without allocating.
const MOST_TURNS: usize = 16;

/// Nanoseconds of run time; negative before the start.
#[derive(Clone, Debug)]
pub(in crate::datapath) struct RunClock {
    /// Monotonic instant of run time 0; none before a start is set.
    origin: Option<i64>,
    /// The run time it stands at.
    standing: Option<i64>,
    /// What is still to come, in order.
    turns: VecDeque<(u64, Turn)>,
}

/// The clock stops or goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::datapath) enum Turn {
    Stand,
    Go,
}

impl RunClock {
    pub(in crate::datapath) fn new() -> Self {
        Self { origin: None, standing: None, turns: VecDeque::with_capacity(MOST_TURNS) }
    }

    /// Run time 0 is at a monotonic instant.
    pub(in crate::datapath) fn start(&mut self, at_mono_ns: u64) {
        self.origin = Some(at_mono_ns.cast_signed());
    }

    pub(in crate::datapath) fn started(&self) -> bool {
        self.origin.is_some()
    }

    /// Stops or resumes at a monotonic instant, not before earlier ones.
    pub(in crate::datapath) fn turn(&mut self, at_mono_ns: u64, turn: Turn) {
        self.turns.push_back((at_mono_ns, turn));
    }

    /// The last stop or resumption received, if it is still ahead or in force; `Go` if there was none.
    pub(in crate::datapath) fn last_turn(&self) -> Turn {
        match self.turns.back() {
            Some((_, turn)) => *turn,
            None if self.standing.is_some() => Turn::Stand,
            None => Turn::Go,
        }
    }

    /// Applies stops and resumptions up to a monotonic instant.
    #[inline]
    pub(in crate::datapath) fn advance(&mut self, mono_ns: u64) {
        while let (Some(origin), Some(&(at, turn))) = (self.origin, self.turns.front())
            && at <= mono_ns
        {
            self.turns.pop_front();
            match (turn, self.standing) {
                (Turn::Stand, None) => self.standing = Some(at.cast_signed() - origin),
                (Turn::Go, Some(standing)) => {
                    self.origin = Some(at.cast_signed() - standing);
                    self.standing = None;
                }
                _ => {}
            }
        }
    }

    /// Run time at a monotonic instant, as far as stops and resumptions were applied; none before a start is set.
    #[inline]
    pub(in crate::datapath) fn at(&self, mono_ns: u64) -> Option<i64> {
        let origin = self.origin?;
        Some(self.standing.unwrap_or(mono_ns.cast_signed() - origin))
    }

    /// Run time at a monotonic instant, stops and resumptions to come included.
    pub(in crate::datapath) fn ahead(&self, mono_ns: u64) -> Option<i64> {
        let mut clock = self.clone();
        clock.advance(mono_ns);
        clock.at(mono_ns)
    }

    /// Whether it is stopped, as far as stops and resumptions were applied.
    pub(in crate::datapath) fn stands(&self) -> bool {
        self.standing.is_some()
    }

    /// The monotonic instant of a run time, if it is not stopped before; none while it is stopped.
    #[inline]
    pub(in crate::datapath) fn mono_of(&self, run_ns: u64) -> Option<u64> {
        if self.standing.is_some() {
            return None;
        }
        Some(self.origin?.saturating_add_unsigned(run_ns).max(0).cast_unsigned())
    }

    /// The monotonic instant of the next stop or resumption.
    #[inline]
    pub(in crate::datapath) fn next_turn(&self) -> Option<u64> {
        self.turns.front().map(|(at, _)| *at)
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
        clock.turn(1500, Turn::Stand);
        clock.turn(1800, Turn::Go);
        assert_eq!(clock.ahead(1900), Some(600));
        clock.advance(1600);
        assert_eq!((clock.at(1600), clock.stands(), clock.mono_of(700)), (Some(500), true, None));
        clock.advance(1900);
        assert_eq!((clock.at(1900), clock.mono_of(700)), (Some(600), Some(2000)));
    }

    #[test]
    fn a_pause_before_the_start_delays_it() {
        let mut clock = RunClock::new();
        clock.start(1000);
        clock.turn(800, Turn::Stand);
        clock.turn(900, Turn::Go);
        clock.advance(950);
        assert_eq!(clock.at(1100), Some(0));
    }
}
