// SPDX-License-Identifier: Apache-2.0
//! A packet of a stream as its sequence's owner needs to know it.
use std::num::NonZeroU16;

use spate_net::Trailer;

/// The number of a packet's tags in the list of its stream; one more, so that none has a place of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::datapath) struct TagNumber(NonZeroU16);

impl TagNumber {
    pub(super) fn new(number: usize) -> Option<Self> {
        NonZeroU16::new(u16::try_from(number + 1).ok()?).map(Self)
    }

    pub(super) fn get(self) -> usize {
        usize::from(self.0.get()) - 1
    }
}

/// A packet with a trailer, as its sequence's owner needs to know it.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct MeasuredPacket {
    pub(super) slot: u8,
    /// DPDK has 32 at most, unless it was built for more.
    pub(super) port: u8,
    /// If it is counted by tag: of a stream that is, and on the port where that is expected.
    pub(super) tag: Option<TagNumber>,
    pub(super) bytes: u32,
    /// Monotonic.
    pub(super) at_ns: u64,
    pub(super) trailer: Trailer,
}

impl MeasuredPacket {
    pub(super) fn is_measured(&self) -> bool {
        self.trailer.measured
    }

    /// FCS included.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }

    pub(super) fn sequence(&self) -> u32 {
        self.trailer.sequence
    }

    #[inline(always)]
    pub(super) fn port(&self) -> Option<u16> {
        Some(u16::from(self.port))
    }
}

#[cfg(test)]
impl MeasuredPacket {
    /// A packet that arrived at an instant, and belongs to no run.
    pub(super) fn at(at_ns: u64) -> Self {
        let trailer = Trailer { run_tag: 0, stream: 0, sender: 0, measured: false, sequence: 0, timestamp: 0 };
        Self { slot: 0, port: 0, tag: None, bytes: 0, at_ns, trailer }
    }

    pub(super) fn at_ns(&self) -> u64 {
        self.at_ns
    }
}
