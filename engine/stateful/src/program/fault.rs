// SPDX-License-Identifier: Apache-2.0
//! Problems of programs, and where they are.
use std::fmt;

use super::VARIABLES;

/// Bytes of the longest UDP message: an IPv4 packet of 65,535 bytes without its headers (RFC 768, RFC 791).
pub const MAX_MESSAGE_BYTES: u64 = 65_507;
/// Bytes of the longest pattern of `Until::Pattern`.
pub const MAX_PATTERN_BYTES: usize = 64;

/// One side of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The side that opens flows.
    Client,
    /// The side that answers them.
    Server,
}

/// Something wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template {template}, {side}, instruction {at}: {problem}")]
pub struct Fault {
    /// The template's index.
    pub template: usize,
    /// The side that has the program.
    pub side: Side,
    /// Index of the instruction.
    pub at: usize,
    /// The problem.
    pub problem: Problem,
}

/// Problem of an instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The instruction is never executed.
    #[error("nothing leads to it; leave it out, or jump to it")]
    Unreachable,
    /// A position that does not exist.
    #[error("leads to {to}; must be {first}..{end}, the last being the program's end")]
    Target {
        /// Destination of the jump.
        to: u32,
        /// The first position a jump may lead to.
        first: usize,
        /// Position behind the last instruction.
        end: usize,
    },
    /// A TCP program must begin with it.
    #[error("must be {0}: programs over TCP begin with it")]
    First(&'static str),
    /// The instruction may only be the first.
    #[error("must be the first instruction, and no other")]
    NotFirst,
    /// An instruction of the other side.
    #[error("is for {0}s")]
    OtherSide(Side),
    /// An instruction of the other transport.
    #[error("is for {0}; {1}")]
    OtherProtocol(&'static str, &'static str),
    /// A payload that there is not.
    #[error("there is no payload {index}; there are {count}")]
    Payload {
        /// Its index.
        index: u32,
        /// How many there are.
        count: usize,
    },
    /// A payload that has no bytes.
    #[error("payload {0} is empty; must have at least 1 byte")]
    Empty(u32),
    /// Longer than a datagram.
    #[error("payload {index} has {len} bytes; a message has at most {MAX_MESSAGE_BYTES}")]
    LongMessage {
        /// The payload.
        index: u32,
        /// Its length.
        len: u64,
    },
    /// The instruction waits for nothing.
    #[error("waits for 0; must be at least 1")]
    Nothing,
    /// A pattern's length.
    #[error("the pattern has {0} bytes; must be 1..{MAX_PATTERN_BYTES}")]
    Pattern(usize),
    /// A delay that ends before it begins.
    #[error("from {min_ns} to {max_ns} ns; the first must not be greater")]
    Delay {
        /// Shortest.
        min_ns: u64,
        /// Longest.
        max_ns: u64,
    },
    /// A variable that there is not.
    #[error("there is no variable {0}; a flow has {VARIABLES}, from 0")]
    Variable(u8),
    /// A counter that there is not.
    #[error("there is no counter {index}; there are {count}")]
    Counter {
        /// Its index.
        index: u16,
        /// How many there are.
        count: usize,
    },
    /// A template that there is not, or that has no program for this side.
    #[error("there is no template {0} with a program of this side and transport")]
    Template(u32),
    /// A template that there is not, or that has no clients.
    #[error("there is no template {0} with a program of clients")]
    Opened(u32),
    /// The instruction opens a connection of the template named last, and none is ever named.
    #[error("no next_template names a template for it; name one")]
    Unnamed,
    /// Connections would open connections without end.
    #[error("connections of template {0} open connections of this template again, without end; break the circle")]
    Circle(usize),
    /// The program would loop for ever at one instant.
    #[error(
        "goes back to {to}, and nothing on the way takes time or is certain to end; put a delay, a receive that clears its count, or a counter set before the loop there"
    )]
    NoTime {
        /// Destination of the jump.
        to: usize,
    },
    /// The instruction waits for what will never come.
    #[error("waits for {wanted} {unit}, of which the {peer} sends {sent} before it ends or waits itself")]
    NeverMet {
        /// This many since the last clear.
        wanted: u64,
        /// Bytes or messages.
        unit: &'static str,
        /// Which side sends.
        peer: Side,
        /// This many since the last clear.
        sent: u64,
    },
    /// The instruction waits for what has been counted before.
    #[error(
        "waits for nothing: {counted} {unit} are counted already; set clear in the receives before it, or count on to {on_to}"
    )]
    Idle {
        /// This many since the last clear.
        counted: u64,
        /// Bytes or messages.
        unit: &'static str,
        /// With what it counts.
        on_to: u64,
    },
    /// The instruction waits for a close that will never come.
    #[error("waits until the {0} closes, which itself waits")]
    NeverClosed(Side),
}

impl Side {
    /// Its name, which is the template's field of its program, too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Side {
    /// The other one.
    pub fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}
