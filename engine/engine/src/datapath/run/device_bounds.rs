// SPDX-License-Identifier: Apache-2.0
//! By how much the time stamps of devices were off while a run was active.
use std::sync::Arc;

use crate::datapath::device_clock::DeviceClock;
use crate::index::PortIndex;

/// The greatest errors of the time stamps of the ports' devices so far.
pub(in crate::datapath) struct DeviceBounds {
    /// By port: its device's clock, and the greatest error; none where the CPU stamps packets.
    by_port: Vec<Option<(Arc<DeviceClock>, u64)>>,
}

impl DeviceBounds {
    /// Bounds for ports with these clocks.
    pub(in crate::datapath) fn new(clocks: impl Iterator<Item = Option<Arc<DeviceClock>>>) -> Self {
        Self { by_port: clocks.map(|clock| Some((clock?, 0))).collect() }
    }

    /// Time stamps of a port were off by at most this for a while.
    pub(super) fn note(&mut self, PortIndex(port): PortIndex, bound_ns: u64) {
        if let Some((_, worst_ns)) = &mut self.by_port[port] {
            *worst_ns = bound_ns.max(*worst_ns);
        }
    }

    /// Takes the bounds of all ports as they are at a monotonic instant: the last of the run.
    pub(super) fn note_last(&mut self, mono_ns: u64) {
        for (clock, worst_ns) in self.by_port.iter_mut().flatten() {
            *worst_ns = clock.bound_ns(mono_ns).unwrap_or(0).max(*worst_ns);
        }
    }

    /// Greatest error of a port's time stamps, of any if no port is given; 0 where the CPU stamps packets. While the run is active, as is
    /// known at the monotonic instant `now`.
    pub(super) fn bound_ns(&self, port: Option<PortIndex>, now: Option<u64>) -> u64 {
        let of = |(clock, worst_ns): &(Arc<DeviceClock>, u64)| {
            now.and_then(|now| clock.bound_ns(now)).unwrap_or(0).max(*worst_ns)
        };
        match port {
            Some(PortIndex(port)) => self.by_port[port].as_ref().map_or(0, of),
            None => self.by_port.iter().flatten().map(of).max().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datapath::device_clock::tests::known;

    #[test]
    fn the_bound_is_the_greatest_while_the_run_was_active_and_grows_no_more_after_it() {
        let second = 1_000_000_000;
        let mut bounds = DeviceBounds::new([None, Some(Arc::new(known(0, 1e9)))].into_iter());
        let now = bounds.bound_ns(Some(PortIndex(1)), Some(2 * second));
        assert!((1..50).contains(&now), "{now}");
        assert_eq!(
            (bounds.bound_ns(Some(PortIndex(0)), Some(2 * second)), bounds.bound_ns(None, Some(2 * second))),
            (0, now)
        );
        bounds.note(PortIndex(1), 700);
        bounds.note(PortIndex(0), 900);
        bounds.note(PortIndex(1), 600);
        assert_eq!((bounds.bound_ns(Some(PortIndex(1)), Some(2 * second)), bounds.bound_ns(None, None)), (700, 700));
        // Unread for an hour, then over.
        bounds.note_last(3600 * second);
        let last = bounds.bound_ns(Some(PortIndex(1)), None);
        assert!(last > 700 && last == bounds.bound_ns(Some(PortIndex(1)), Some(10 * second)), "{last}");
    }
}
