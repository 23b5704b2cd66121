// SPDX-License-Identifier: Apache-2.0
//! What keeps a capture from being replayed.
use crate::captured::MAX_FRAME_LEN;

/// What keeps a capture from being replayed, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", place(*.packet))]
pub struct ReadError {
    /// The packet's number, from 1; 0 is the file's header.
    pub packet: u64,
    /// The problem.
    pub problem: Problem,
}

fn place(packet: u64) -> String {
    if packet == 0 { String::new() } else { format!("packet {packet}: ") }
}

/// Problem of a capture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The first bytes are no known ones.
    #[error("it is neither pcap nor pcapng (if it is compressed, decompress it)")]
    Format,
    /// A version of the format that this does not know.
    #[error("its format has version {0}, which is not known")]
    Version(u16),
    /// The link type is not Ethernet.
    #[error("its link type is {0}; only Ethernet (1) can be sent")]
    LinkType(u32),
    /// Frames end with their FCS.
    #[error("its frames end with their FCS, which would be sent as payload: rewrite the capture without it")]
    HasFcs,
    /// The file ends where more must come.
    #[error("the file ends within it")]
    EndsWithin,
    /// The file cannot be read.
    #[error("reading failed: {0}")]
    Io(String),
    /// A block of pcapng is broken.
    #[error("a block of the file is broken")]
    Block,
    /// An interface that was not described.
    #[error("it names interface {0}, which the file does not describe")]
    Interface(u32),
    /// Times in a unit that does not fit 64 bits.
    #[error("an interface counts time in a unit that is not known (if_tsresol {0})")]
    Resolution(u8),
    /// A simple packet block.
    #[error("it has no time (a simple packet block): rewrite the capture with times")]
    NoTime,
    /// An obsolete packet block.
    #[error("it is an obsolete packet block: rewrite the capture, such as with editcap")]
    ObsoletePacket,
    /// Impossibly long.
    #[error("its length of {0} bytes is not possible: the file is broken")]
    Length(u32),
    /// Only a part of the packet was captured.
    #[error("only {captured} of its {original} bytes were captured: capture whole packets (tcpdump -s 0)")]
    Cut {
        /// Bytes there are.
        captured: usize,
        /// Bytes there were.
        original: u32,
    },
    /// Longer than a frame can be.
    #[error("it has {0} bytes; at most {MAX_FRAME_LEN} can be sent")]
    TooLong(usize),
    /// The packet is shorter than a header.
    #[error("it has {0} bytes, which is no Ethernet frame")]
    TooShort(usize),
    /// A time that 64 bits of nanoseconds since the epoch do not hold.
    #[error("it was captured before 1970 or after 2554, which no clock says: the file is broken")]
    Time,
    /// One side of a conversation that has no other.
    #[error(
        "all {packets} packets {in_common}, so that there is no other side: replay it without directions, or split it in another way"
    )]
    OneSided {
        /// How many there are.
        packets: u64,
        /// What they have in common.
        in_common: &'static str,
    },
    /// The capture does not suit this purpose.
    #[error("{0}")]
    Refused(String),
    /// A file without packets.
    #[error("it has no packets")]
    Empty,
}
