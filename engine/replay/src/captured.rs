// SPDX-License-Identifier: Apache-2.0
//! Packets as they are in captures of either format, and how long they can be.

/// Shortest frame without FCS; shorter ones, as senders capture them, are padded with zeros.
pub const MIN_FRAME_LEN: usize = 60;
/// Longest frame without FCS.
pub const MAX_FRAME_LEN: usize = 9230;
/// LINKTYPE_ETHERNET.
pub(crate) const LINK_ETHERNET: u32 = 1;
/// Longest packet that is read at all: what libpcap takes (MAXIMUM_SNAPLEN).
pub(crate) const MAX_CAPTURED_BYTES: u32 = 262_144;

/// A packet as it is in a file of some format.
pub(crate) struct Found {
    pub(crate) at_ns: u64,
    pub(crate) original_len: u32,
    /// Number of the interface that captured it; 0 in pcap.
    pub(crate) interface: u32,
}
