// SPDX-License-Identifier: Apache-2.0
//! The clock that the engines of a run have in common: what its time stamps are by, and how far it may be off here.
use std::sync::Arc;

use crate::datapath::{Clock, ReferenceClock, clock::Timescale};

/// The clock of a run's time stamps.
pub(in crate::datapath) enum Stamps {
    /// The engine's wall clock: the run has no other engine, or all of them have wall clocks that agree.
    Wall,
    /// A scale of the run's own, as soon as control has set it.
    Reference(Reference),
}

/// A run's own scale of time, and what is known of its error.
pub(in crate::datapath) struct Reference {
    timescale: Arc<Timescale>,
    known: Option<ReferenceClock>,
    /// Greatest error that all before `known` may have had.
    worst_ns: u64,
}

impl Stamps {
    /// The reference clock of a run on `engines` engines; `walls_agree`: their wall clocks are known to agree.
    pub(in crate::datapath) fn new(engines: u32, walls_agree: bool, clock: &Clock) -> Self {
        if engines <= 1 || walls_agree {
            return Self::Wall;
        }
        // Until it is set, the wall clock as it stands now: jitter needs no more.
        let timescale = Arc::new(Timescale::new(clock.wall_offset_ns()));
        Self::Reference(Reference { timescale, known: None, worst_ns: 0 })
    }

    /// The time scale of the workers' time stamps.
    pub(in crate::datapath) fn timescale(&self, clock: &Clock) -> Arc<Timescale> {
        match self {
            Self::Wall => Arc::clone(clock.wall_timescale()),
            Self::Reference(reference) => Arc::clone(&reference.timescale),
        }
    }

    /// The clock minus the monotonic one at a monotonic instant, where other engines keep it.
    pub(in crate::datapath) fn common_offset_ns(&self, mono_ns: u64) -> Option<i64> {
        match self {
            Self::Reference(reference) if reference.timescale.is_common() => {
                Some(reference.timescale.of(mono_ns).wrapping_sub(mono_ns).cast_signed())
            }
            _ => None,
        }
    }

    /// Its greatest error from the first time that it was set to a monotonic instant; none if it was not.
    pub(in crate::datapath) fn bound_ns(&self, mono_ns: u64) -> Option<u64> {
        match self {
            Self::Wall => None,
            Self::Reference(reference) => reference.known.map(|known| reference.worst_ns.max(known.bound_at(mono_ns))),
        }
    }
}

impl Reference {
    /// Sets it at a monotonic instant.
    pub(in crate::datapath) fn set(&mut self, to: ReferenceClock, mono_ns: u64) {
        if let Some(before) = self.known.replace(to) {
            self.worst_ns = self.worst_ns.max(before.bound_at(mono_ns));
        }
        self.timescale.set_common(to.offset_ns, mono_ns);
    }
}

impl ReferenceClock {
    /// Its greatest error at a monotonic instant.
    fn bound_at(&self, mono_ns: u64) -> u64 {
        let growth = u128::from(mono_ns.abs_diff(self.measured_at_ns)) * u128::from(self.drift_ppb) / 1_000_000_000;
        self.bound_ns.saturating_add(u64::try_from(growth).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datapath::ClockError;

    #[test]
    fn the_bound_is_the_greatest_there_was() {
        let clock = Clock::calibrate(ClockError::default());
        assert!(matches!(Stamps::new(1, false, &clock), Stamps::Wall));
        assert!(matches!(Stamps::new(2, true, &clock), Stamps::Wall));
        let mut stamps = Stamps::new(2, false, &clock);
        let timescale = stamps.timescale(&clock);
        assert_eq!((stamps.bound_ns(0), timescale.is_common()), (None, false));
        let Stamps::Reference(reference) = &mut stamps else { panic!("two engines have a reference") };
        let second = 1_000_000_000;
        reference.set(
            ReferenceClock { offset_ns: 500, bound_ns: 3_000, measured_at_ns: second, drift_ppb: 1_000 },
            2 * second,
        );
        assert_eq!((timescale.of(7), timescale.is_common()), (507, true));
        assert_eq!([1, 2, 4].map(|at| stamps.bound_ns(at * second)), [Some(3_000), Some(4_000), Some(6_000)]);
        let Stamps::Reference(reference) = &mut stamps else { panic!("two engines have a reference") };
        reference.set(
            ReferenceClock { offset_ns: -7, bound_ns: 1_000, measured_at_ns: 5 * second, drift_ppb: 1_000 },
            5 * second,
        );
        assert_eq!(timescale.of(7), 0);
        // 7,000 just before it was set again.
        assert_eq!([5, 6, 20].map(|at| stamps.bound_ns(at * second)), [Some(7_000), Some(7_000), Some(16_000)]);
    }
}
