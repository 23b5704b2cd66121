// SPDX-License-Identifier: Apache-2.0
//! Frames of the slow path, or of emulated clients, on their way out of a port.
use spate_dpdk::BURST;
use spate_neighbour::STAMP;
use spate_net::FCS_LEN;

use crate::datapath::{
    frames::{FrameHeader, FrameReader},
    worker::{Device, Dpdk, Time, device::Packets, outlet::Outlet},
};

/// Where the time at which a frame of the slow path leaves is to be written, with its complement: what the header of such a frame has in
/// place of an instant. A frame has its MACs at 0.
fn stamp_of(header: &FrameHeader) -> Option<usize> {
    let at = usize::try_from(header.at_ns).ok().filter(|at| *at > 0)?;
    (at + STAMP <= header.len as usize).then_some(at)
}

/// Frames that a port is to send of the slow path, or of emulated clients, which have no time to be written.
pub(in crate::datapath) struct Inject<D: Device = Dpdk> {
    frames: FrameReader,
    burst: D::Burst,
    /// Bytes of the packets in the burst, FCS included, by position.
    bytes: [u64; BURST],
    sent: usize,
}

impl<D: Device> Inject<D> {
    pub(in crate::datapath) fn new(frames: FrameReader) -> Self {
        Self { frames, burst: D::Burst::new(), bytes: [0; BURST], sent: 0 }
    }

    /// Packets that are built wait for the device.
    pub(super) fn is_waiting(&self) -> bool {
        !self.burst.is_empty()
    }

    /// Sends up to a burst. Returns how many packets the device took.
    pub(super) fn send(&mut self, clock: &D::Clock, outlet: &mut Outlet<D>) -> usize {
        if self.burst.is_empty() {
            self.build(&outlet.pool, clock);
            if self.burst.is_empty() {
                return 0;
            }
            outlet.taps.copy::<D>(&self.burst, clock);
        }
        let bytes = &self.bytes[self.sent..];
        let taken = outlet.egress.send(&mut self.burst, |taken| bytes[..taken].iter().sum());
        self.sent += taken;
        taken
    }

    fn build(&mut self, pool: &D::Pool, clock: &D::Clock) {
        self.sent = 0;
        while self.burst.len() < BURST
            && let Some(header) = self.frames.next()
        {
            let index = self.burst.len();
            if !self.burst.alloc(pool, 1) {
                return;
            }
            let len = header.len as usize;
            let frame = self.burst.frame_mut(index, len);
            self.frames.take(frame);
            if let Some(at) = stamp_of(&header) {
                let now_ns = clock.mono_ns();
                frame[at..at + STAMP / 2].copy_from_slice(&now_ns.to_be_bytes());
                frame[at + STAMP / 2..at + STAMP].copy_from_slice(&(!now_ns).to_be_bytes());
            }
            self.bytes[index] = len as u64 + FCS_LEN;
        }
    }
}
