// SPDX-License-Identifier: Apache-2.0
//! Why a frame is no packet of flows.

/// Why a frame is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// The frame has no TCP, UDP or ICMP error over IP.
    Other,
    /// Shorter than its headers say.
    Truncated,
    /// A checksum is wrong.
    Checksum,
    /// A part of a packet: parts are not put together.
    Fragment,
}
