// SPDX-License-Identifier: Apache-2.0
//! Taps: copies of the packets that a port of a worker receives or sends.
use std::ops::Range;

use spate_filter::Program;

use super::{Device, Time, device::Packets};
use crate::datapath::frames::FrameWriter;

/// Taps on a port and direction at a time.
const TAPS: usize = 8;

/// Direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    Rx,
    /// Sent.
    Tx,
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
    pub(super) fn add(&mut self, tap: Box<Tap>) -> Option<Box<Tap>> {
        if self.0.len() == TAPS {
            return Some(tap);
        }
        self.0.push(tap);
        None
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Box<Tap>> {
        self.0.iter().position(|tap| tap.id == id).map(|at| self.0.swap_remove(at))
    }
}
