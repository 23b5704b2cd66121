// SPDX-License-Identifier: Apache-2.0
//! What control hangs on a worker's port while it works: where frames for the slow path go (`sinks::SlowPathCopy`), where those it
//! sends come from (`sources::Inject`), and taps that copy packets. A worker copies to and from bounded rings and decides nothing.
use std::ops::Range;

use spate_filter::Program;
use spate_neighbour::Interest;

use super::{Device, Dpdk, Time, Worker, device::Packets, receive::RxPort, sinks::SlowPathCopy, sources::Inject};
use crate::datapath::{
    command::{Direction, Reclaim},
    frames::FrameWriter,
};

/// Taps on a port and direction at a time.
const TAPS: usize = 8;

/// Something to hang on a port.
pub(in crate::datapath) enum Attachment<D: Device = Dpdk> {
    SlowPathCopy(Box<SlowPathCopy>),
    /// Replaces which frames go to the slow path.
    Interest(Box<Interest>),
    Inject(Box<Inject<D>>),
    Tap(Direction, Box<Tap>),
}

/// Copies the packets that a filter takes.
pub(in crate::datapath) struct Tap {
    pub(in crate::datapath) id: u64,
    pub(in crate::datapath) filter: Program,
    /// Bytes to copy of each.
    pub(in crate::datapath) snap_len: usize,
    pub(in crate::datapath) frames: FrameWriter,
}

/// The taps on a port in one direction. Without any they cost a look a burst.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "a tap comes and goes in its box, since a worker neither allocates nor frees")]
pub(super) struct Taps(Vec<Box<Tap>>);

impl Taps {
    /// Room is made here, so that a worker never allocates.
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(TAPS))
    }

    /// Copies what a burst holds.
    #[inline]
    pub(super) fn copy<D: Device>(&mut self, burst: &D::Burst, clock: &D::Clock) {
        if !self.0.is_empty() {
            self.copy_to_all::<D>(burst, 0..burst.len(), clock.now_wall_ns());
        }
    }

    /// Copies some of the packets of a burst.
    #[inline]
    pub(super) fn copy_some<D: Device>(&mut self, burst: &D::Burst, which: Range<usize>, clock: &D::Clock) {
        if !self.0.is_empty() {
            self.copy_to_all::<D>(burst, which, clock.now_wall_ns());
        }
    }

    #[cold]
    fn copy_to_all<D: Device>(&mut self, burst: &D::Burst, which: Range<usize>, at_ns: u64) {
        for tap in &mut self.0 {
            for index in which.clone() {
                let (frame, len) = (burst.head(index), burst.frame_len(index));
                if tap.filter.matches(frame, len) {
                    tap.frames.push(at_ns, len, &frame[..frame.len().min(tap.snap_len)]);
                }
            }
        }
    }

    /// Hangs a tap on; back, if there is no room.
    fn add(&mut self, tap: Box<Tap>) -> Option<Box<Tap>> {
        if self.0.len() == TAPS {
            return Some(tap);
        }
        self.0.push(tap);
        None
    }

    fn remove(&mut self, id: u64) -> Option<Box<Tap>> {
        self.0.iter().position(|tap| tap.id == id).map(|at| self.0.swap_remove(at))
    }
}

impl<D: Device> Worker<D> {
    /// Hangs something on a port. What does not belong to this worker goes back.
    pub(super) fn attach(&mut self, port: usize, attachment: Attachment<D>) {
        let back = match attachment {
            Attachment::Tap(Direction::Tx, tap) => match self.tx.iter_mut().find(|p| p.port() == port) {
                Some(found) => found.outlet.taps.add(tap).map(|tap| Attachment::Tap(Direction::Tx, tap)),
                None => Some(Attachment::Tap(Direction::Tx, tap)),
            },
            Attachment::Inject(inject) => match self.tx.iter_mut().find(|p| p.port() == port) {
                Some(found) => found.sources.injected.set(inject).map(Attachment::Inject),
                None => Some(Attachment::Inject(inject)),
            },
            received => match self.receiver.port(port) {
                Some(found) => found.attach(received),
                None => Some(received),
            },
        };
        if let Some(back) = back {
            let _ = self.reclaim.push(Reclaim::Attachment(back));
        }
    }

    /// Takes a tap off again, wherever it is.
    pub(super) fn detach(&mut self, id: u64) {
        let sending = self.tx.iter_mut().filter_map(|port| port.outlet.taps.remove(id));
        for tap in sending.chain(self.receiver.taps().filter_map(|taps| taps.remove(id))) {
            let _ = self.reclaim.push(Reclaim::Attachment(Attachment::Tap(Direction::Tx, tap)));
        }
    }
}

impl<D: Device> RxPort<D> {
    /// Hangs something on it. Back comes what it has no room for, or what was there before.
    fn attach(&mut self, attachment: Attachment<D>) -> Option<Attachment<D>> {
        let station = &mut self.sinks.station;
        match attachment {
            Attachment::SlowPathCopy(slow_path) => station.set_slow_path(slow_path).map(Attachment::SlowPathCopy),
            Attachment::Interest(interest) => station.set_interest(interest).map(Attachment::Interest),
            Attachment::Tap(Direction::Rx, tap) => self.taps.add(tap).map(|tap| Attachment::Tap(Direction::Rx, tap)),
            other => Some(other),
        }
    }
}
