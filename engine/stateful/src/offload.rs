// SPDX-License-Identifier: Apache-2.0
//! What a port's device does of the work on frames: it completes their checksums, and cuts long frames into segments. What
//! frames hold for that is in [`spate_net::offload`].
pub use spate_net::offload::{HeaderLengths, OffloadRequest};

/// What a device does; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Whether the device completes the checksums of IPv4, TCP and UDP in all that it sends.
    pub checksums: bool,
    /// How the device cuts frames of TCP into segments, of which it completes the checksums; none: it does not.
    pub segmentation: Option<Segmentation>,
}

/// How a device cuts frames into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Bytes without FCS of the longest frame that it takes.
    pub longest_frame: u32,
    /// Bytes without FCS of the longest frame that it makes.
    pub longest_segment: u32,
    /// Whether the device segments IPv6, too.
    pub v6: bool,
}
