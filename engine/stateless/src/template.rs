// SPDX-License-Identifier: Apache-2.0
//! The bytes of a stream's packets: a template compiled from a frame, what varies in it, and what must stay true.
//!
//! Compiled once: what is constant is in the frame already, and every checksum is a constant plus what the varying parts
//! add to it (RFC 1624's idea, without reading the packet again). A checksum that cannot be had so (CRC-32C; bits
//! written twice; another varying checksum beneath it) is computed over the finished bytes instead.
use core::ops::Range;

use crate::WorkerShare;
use crate::program::{Cursor, FieldProgram, ProgramError, Variables};

mod compile;
mod kept;
#[cfg(test)]
mod tests;
mod write;

use kept::Kept;

/// Shortest frame without FCS (IEEE 802.3).
pub const MIN_FRAME_LEN: usize = 60;
/// Longest frame without FCS.
pub const MAX_FRAME_LEN: usize = 9230;
/// Frames are copied in pieces of this many bytes: buffers must have room for whole ones.
pub const PIECE: usize = 64;

/// How a checksum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumKind {
    /// 16-bit one's complement sum (RFC 1071).
    Internet,
    /// CRC-32C as in SCTP (RFC 9260 appendix A).
    Crc32c,
}

/// A checksum field and what it covers. Offsets count from the start of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// How it is computed.
    pub kind: ChecksumKind,
    /// Offset of the field: 16 bits, CRC-32C: 32.
    pub offset: usize,
    /// First byte covered.
    pub start: usize,
    /// End of the covered bytes; none: the end of the packet.
    pub end: Option<usize>,
    /// Sum of the constant part of the pseudo header in 16-bit words, not folded; 0 for none.
    pub pseudo_header_sum: u32,
    /// Bytes of the frame that the pseudo header repeats; may be empty.
    pub addresses: Range<usize>,
    /// The pseudo header's length is that of the frame minus this; none: it is in `pseudo_header_sum`.
    pub length_minus: Option<usize>,
    /// A result of 0 is written as 0xffff (UDP, RFC 768).
    pub zero_means_absent: bool,
}

/// A field with the number of bytes from somewhere to the end of the packet: those of the frame minus `minus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// First byte.
    pub offset: usize,
    /// 1 or 2 bytes, network byte order.
    pub size: usize,
    /// See above.
    pub minus: usize,
}

/// What a template is made from.
#[derive(Clone, Debug, Default)]
pub struct Blueprint {
    /// The frame without FCS, the longest if sizes vary.
    pub frame: Vec<u8>,
    /// Kept true. Later ones may cover the fields of earlier ones.
    pub checksums: Vec<Checksum>,
    /// Kept true where sizes vary.
    pub lengths: Vec<Length>,
    /// What varies.
    pub program: FieldProgram,
    /// The variable that is the frame's length in bytes without FCS; values outside of 60..=frame.len() are cut to that.
    pub size: Option<usize>,
    /// The last 16 bytes of every packet hold the measurement trailer.
    pub flow: bool,
}

/// Why a template cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Shorter than an Ethernet frame or longer than a jumbo frame.
    #[error("the frame has {0} bytes without FCS; it must have {MIN_FRAME_LEN} to {MAX_FRAME_LEN}")]
    FrameLength(usize),
    /// `checksums[index]` cannot be kept.
    #[error("checksums[{index}]: {problem}")]
    Checksum {
        /// Which one.
        index: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// `lengths[index]` cannot be kept.
    #[error("lengths[{index}]: {problem}")]
    Length {
        /// Which one.
        index: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The size names no variable.
    #[error("size: {0}")]
    Size(&'static str),
    /// The program cannot be run.
    #[error("program.{0}")]
    Program(#[from] ProgramError),
}

/// Buffers that packets are written into.
pub trait Frames {
    /// Makes the buffers from `first` on packets of these lengths and gives, for each, its bytes and those behind them up to
    /// a whole piece: `len.next_multiple_of(PIECE)` bytes of any content.
    fn frames<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]>;

    /// The buffers as [`Self::frames`] gives them, with their notes, where there are notes. A note stays with its buffer, and so do the
    /// bytes behind the first piece, until the next packet is written there: any other writer of them sets the note to 0, which is what it
    /// is at first.
    #[inline]
    fn noted<'a>(
        &'a mut self,
        first: usize,
        lens: &'a [u16],
    ) -> impl Iterator<Item = (&'a mut [u8], Option<&'a mut u64>)> {
        self.frames(first, lens).map(|frame| (frame, None))
    }

    /// The buffers of packets that all fit into one piece, without notes.
    ///
    /// # Panics
    /// If one does not.
    #[inline]
    fn pieces<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8; PIECE]> {
        self.frames(first, lens).map(|frame| frame.first_chunk_mut().expect("a whole piece"))
    }
}

/// Packets of one stream that follow each other on one worker: number `number + i * stride` is its own `sequence + i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The first one's, over all workers.
    pub number: u64,
    /// The first one's, among this worker's.
    pub sequence: u64,
    /// How many; at most 64.
    pub count: usize,
}

/// Packets ready to be written. Shared by workers; each has a `Writer` of its own.
#[derive(Clone, Debug)]
pub struct Template {
    /// Whole pieces; zero where something that varies is written.
    frame: Box<[u8]>,
    kept: Kept,
    len: usize,
    /// Whether the frame is only copied.
    fixed: bool,
    /// All that varies lies in the first piece.
    in_first_piece: bool,
    flow: bool,
    /// Whether nothing is written over the destination MAC, and no checksum covers it.
    destination_alone: bool,
    shortest: usize,
    variables: Variables,
    size: Option<usize>,
    lengths: Box<[Length]>,
    stores: Box<[Store]>,
    /// By store, then by length field.
    adds: Box<[Adds]>,
    fixes: Box<[Fix]>,
}

/// Sums that a field adds to, and whether at an odd distance from where they start.
type Adds = Box<[(u8, bool)]>;

/// Where one worker stands in a stream.
#[derive(Clone, Debug)]
pub struct Writer(Cursor);

/// A write, compiled: big endian, its mask cut to its size.
#[derive(Clone, Copy, Debug)]
struct Store {
    variable: usize,
    offset: usize,
    size: usize,
    add: u64,
    left: u32,
    right: u32,
    mask: u64,
    little_endian: bool,
    /// Bits around the mask stay.
    partial: bool,
    /// Two or four bytes of the value as it is: by far the most, and worth a loop of its own.
    plain: bool,
}

/// How to complete one checksum once all else is written.
#[derive(Clone, Debug)]
enum Fix {
    Sum(SumFix),
    Again(Checksum),
}

/// An Internet checksum as a sum of parts.
#[derive(Clone, Debug)]
struct SumFix {
    offset: usize,
    zero_means_absent: bool,
    /// Which of the sums of a burst is its.
    row: usize,
    /// The constant part; where sizes vary, by length from the shortest on, what its length adds included.
    bases: Box<[u16]>,
    /// The end covered, for the trailer's part: where it starts; none if it does not reach the trailer.
    trailer: Option<TrailerPart>,
}

#[derive(Clone, Debug)]
struct TrailerPart {
    /// Covered bytes of the trailer; whole if it ends with the packet.
    covered: Range<usize>,
    start: usize,
}

impl Template {
    /// Compiles a template, or returns what is wrong with it.
    pub fn new(blueprint: &Blueprint) -> Result<Self, TemplateError> {
        compile::Compiler::new(blueprint)?.compile()
    }

    /// Lets templates with equal payloads use buffers of each other without copying these: nothing varies behind the first piece, and one
    /// payload is the beginning of the other.
    pub fn share_payloads<'a>(templates: impl Iterator<Item = &'a mut Self>) {
        let alike = |template: &&mut Self| template.fixed || template.in_first_piece;
        let mut all: Vec<_> = templates.filter(alike).filter(|template| template.len > PIECE).collect();
        // A beginning is followed by all that begin so.
        all.sort_by(|one, other| one.payload().cmp(other.payload()));
        for index in (1..all.len()).rev() {
            let (before, after) = all.split_at_mut(index);
            if after[0].payload().starts_with(before[index - 1].payload()) {
                before[index - 1].kept.share(&after[0].kept);
            }
        }
    }

    /// What its longest frame has behind the first piece.
    fn payload(&self) -> &[u8] {
        &self.frame[PIECE..self.len]
    }

    /// Bytes of the longest frame, without FCS.
    pub fn frame_len(&self) -> usize {
        self.len
    }

    /// Bytes of the shortest frame, without FCS.
    pub fn shortest(&self) -> usize {
        self.shortest
    }

    /// The mean length of its frames without FCS, as a sum over a count.
    pub fn mean_len(&self) -> (u128, u128) {
        match self.size {
            None => (self.len as u128, 1),
            Some(variable) => {
                let (low, high) = self.variables.bounds(variable);
                if low >= self.shortest as u64 && high <= self.len as u64 {
                    self.variables.mean(variable)
                } else {
                    // Cut at an end: about the middle is near enough for a load.
                    ((self.shortest + self.len) as u128, 2)
                }
            }
        }
    }

    /// Whether its packets carry the measurement trailer.
    pub fn flow(&self) -> bool {
        self.flow
    }

    /// The bytes of all its packets, if they are the same and fit into a piece.
    pub fn piece(&self) -> Option<&[u8; PIECE]> {
        self.frame.first_chunk().filter(|_| self.fixed && self.len <= PIECE)
    }

    /// The length of all its frames without FCS; none if they differ.
    #[inline]
    pub fn one_len(&self) -> Option<usize> {
        if self.size.is_none() { Some(self.len) } else { None }
    }

    /// The frame as it stands before anything that varies is in.
    pub fn frame(&self) -> &[u8] {
        &self.frame[..self.len]
    }

    /// The packets to another destination MAC, without copying what buffers hold of them. None if a field or a checksum depends on the MAC:
    /// then packets are not the same.
    pub fn with_destination(&self, mac: [u8; 6]) -> Option<Self> {
        if !self.destination_alone {
            return None;
        }
        let mut other = self.clone();
        other.frame[..mac.len()].copy_from_slice(&mac);
        Some(other)
    }

    /// For a worker with this part of the stream.
    pub fn writer(&self, share: WorkerShare) -> Writer {
        Writer(Cursor::new(&self.variables, share))
    }
}
