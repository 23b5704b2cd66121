// SPDX-License-Identifier: Apache-2.0
//! A capture as what two applications said to each other: one session over TCP or UDP, without its transport.
//!
//! A capture that is not one whole session is refused, with the packet's number and the reason: what would be made of it
//! would be another dialogue than the one that was captured.
mod packet;
mod tcp;
mod udp;

#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::Path;

use crate::{Problem, ReadError, Reader, capture};
use packet::{Flow, Packet};

/// Bytes of applications in a session, at most: as plans hold them.
pub const MAX_SESSION_BYTES: usize = 128 << 20;

/// One session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Over what.
    pub transport: Transport,
    /// The port that the client spoke to.
    pub destination_port: u16,
    /// What was sent, in order. Over TCP sides take turns; over UDP each is a message.
    pub dialogue: Vec<Message>,
    /// How the session ended.
    pub end: End,
}

/// Over what a session was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
}

/// Which side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The side that sent the first packet.
    Client,
    /// The other.
    Server,
}

/// Bytes that one side sent before the other did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender.
    pub by: Sender,
    /// Bytes that were sent; at least one.
    pub bytes: Vec<u8>,
    /// Number of its first packet, from 1.
    pub packet: u64,
    /// Nanoseconds since what was said before; 0 if the capture's clock went backwards.
    pub gap_ns: u64,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The file ends before, or UDP, which has no end.
    Open,
    /// By FIN; this side sent its FIN first.
    Closed(Sender),
    /// By RST of this side.
    Reset {
        /// The side that sent it.
        by: Sender,
        /// The other had sent FIN before.
        closed: bool,
    },
}

impl Sender {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl Session {
    /// Reads a capture; `mtu` is how long IP packets with messages over UDP may be.
    pub fn read(file: impl Read, mtu: usize) -> Result<Self, ReadError> {
        let mut reader = Reader::new(file)?;
        let (mut frame, mut number, mut sorter) = (Vec::new(), 0, Sorter { mtu, found: None });
        while let Some(at_ns) = reader.next_captured(&mut frame)? {
            number += 1;
            sorter.add(number, at_ns, &frame).map_err(|why| refused(number, why))?;
        }
        let Some((first, dialogue)) = sorter.found else {
            return Err(ReadError { packet: 0, problem: Problem::Empty });
        };
        let (transport, (dialogue, end)) = match dialogue {
            Dialogue::Tcp(tcp) => (Transport::Tcp, tcp.end().map_err(|(packet, why)| refused(packet, why))?),
            Dialogue::Udp(udp) => (Transport::Udp, (udp.dialogue, End::Open)),
        };
        Ok(Self { transport, destination_port: first.destination.1, dialogue, end })
    }

    /// Reads a capture in a file.
    pub fn of_file(path: &Path, mtu: usize) -> Result<Self, ReadError> {
        Self::read(capture::open(path)?.0, mtu)
    }
}

fn refused(packet: u64, why: String) -> ReadError {
    ReadError { packet, problem: Problem::Refused(why) }
}

/// Takes packets as they were captured.
struct Sorter {
    mtu: usize,
    /// The first packet's flow, and what was said in it.
    found: Option<(Flow, Dialogue)>,
}

enum Dialogue {
    Tcp(Box<tcp::Tcp>),
    Udp(udp::Udp),
}

impl Sorter {
    fn add(&mut self, number: u64, at_ns: u64, frame: &[u8]) -> Result<(), String> {
        let packet = Packet::read(frame)?;
        let (first, dialogue) = self.found.get_or_insert_with(|| {
            let dialogue = match packet.flow.transport {
                Transport::Tcp => Dialogue::Tcp(Box::default()),
                Transport::Udp => Dialogue::Udp(udp::Udp::default()),
            };
            (packet.flow, dialogue)
        });
        let by = if packet.flow == *first {
            Sender::Client
        } else if packet.flow == first.back() {
            Sender::Server
        } else {
            // Endpoints are not for an error message: the capture may be a Secret's.
            return Err(format!(
                "its {} is not of the session that packet 1 begins; a capture must have one session only: filter it",
                packet.flow.apart_from(first)
            ));
        };
        match dialogue {
            Dialogue::Tcp(tcp) => tcp.add(by, number, at_ns, &packet),
            Dialogue::Udp(udp) => udp.add(by, number, at_ns, &packet, self.mtu),
        }
    }
}
