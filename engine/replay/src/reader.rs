// SPDX-License-Identifier: Apache-2.0
//! A capture, a packet at a time: which format it has, and whether its packets can be sent.
use std::io::Read;

use crate::{
    bytes::Source,
    pcap::Pcap,
    pcapng::{Pcapng, SECTION},
};

/// Shortest frame without FCS; shorter ones, as senders capture them, are padded with zeros.
pub const MIN_FRAME_LEN: usize = 60;
/// Longest frame without FCS.
pub const MAX_FRAME_LEN: usize = 9230;
/// LINKTYPE_ETHERNET.
pub(crate) const LINK_ETHERNET: u32 = 1;
/// Longest packet that is read at all: what libpcap takes (MAXIMUM_SNAPLEN).
pub(crate) const LONGEST_CAPTURED: u32 = 262_144;

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

/// A packet as it is in a file of some format.
pub(crate) struct Found {
    pub(crate) at_ns: u64,
    pub(crate) original_len: u32,
    /// Number of the interface that captured it; 0 in pcap.
    pub(crate) interface: u32,
}

/// A capture being read.
pub struct Reader<R> {
    source: Source<R>,
    format: Format,
    /// Packets read.
    packets: u64,
    /// Interface of the last one.
    interface: u32,
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    pub fn new(file: R) -> Result<Self, ReadError> {
        let mut source = Source::new(file);
        let format = Format::read(&mut source).map_err(|problem| ReadError { packet: 0, problem })?;
        Ok(Self { source, format, packets: 0, interface: 0 })
    }

    /// Reads the next packet into `frame`, ready to be sent; returns when it was captured, in nanoseconds since the
    /// epoch, or none at the end.
    pub fn next(&mut self, frame: &mut Vec<u8>) -> Result<Option<u64>, ReadError> {
        let captured = self.next_captured(frame)?;
        if captured.is_some() {
            complete(frame).map_err(|problem| ReadError { packet: self.packets, problem })?;
        }
        Ok(captured)
    }

    /// Reads the next packet as it was captured, of any length.
    pub fn next_captured(&mut self, frame: &mut Vec<u8>) -> Result<Option<u64>, ReadError> {
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.source, frame),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.source, frame),
        };
        self.packets += 1;
        let packet = self.packets;
        let found = found.and_then(|found| match found {
            None => Ok(None),
            Some(found) if frame.len() < found.original_len as usize => {
                Err(Problem::Cut { captured: frame.len(), original: found.original_len })
            }
            Some(found) => {
                self.interface = found.interface;
                Ok(Some(found.at_ns))
            }
        });
        found.map_err(|problem| ReadError { packet, problem })
    }

    /// Number of the interface that captured the packet that was read last, in its section; 0 in pcap.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// The reader that the capture is read from.
    pub fn into_inner(self) -> R {
        self.source.into_inner()
    }
}

impl Format {
    fn read<R: Read>(source: &mut Source<R>) -> Result<Self, Problem> {
        let magic = source.take().map_err(|problem| match problem {
            Problem::EndsWithin => Problem::Format,
            other => other,
        })?;
        if magic == SECTION {
            let mut pcapng = Pcapng::new();
            pcapng.section(source)?;
            return Ok(Self::Pcapng(pcapng));
        }
        let pcap = Pcap::recognise(magic).ok_or(Problem::Format)?;
        pcap.header(source)?;
        Ok(Self::Pcap(pcap))
    }
}

/// Makes a captured packet one that can be sent.
fn complete(frame: &mut Vec<u8>) -> Result<(), Problem> {
    let captured = frame.len();
    if captured > MAX_FRAME_LEN {
        return Err(Problem::TooLong(captured));
    }
    if captured < 14 {
        return Err(Problem::TooShort(captured));
    }
    if captured < MIN_FRAME_LEN {
        frame.resize(MIN_FRAME_LEN, 0);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
