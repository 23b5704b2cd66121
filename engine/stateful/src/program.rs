// SPDX-License-Identifier: Apache-2.0
//! What one side of an application does with a flow: instructions as they are executed, checked before.
pub mod check;
mod dialogue;
pub mod effects;
mod idle;
mod loops;
pub mod opens;
mod walk;

pub use check::{Fault, Problem, Programs, Side, check};
pub use idle::idle;
pub(crate) use loops::successors;

/// Variables of a flow.
pub const VARIABLES: usize = 4;

/// Instructions of one side; the flow is closed behind the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// From the first.
    pub instructions: Box<[Instruction]>,
    /// Names of the counters of `Instruction::Count`.
    pub counters: Box<[String]>,
}

impl Program {
    /// Variables that it uses: one more than the highest number of one.
    pub fn variables(&self) -> usize {
        let used = self.instructions.iter().filter_map(|instruction| instruction.effects().variable());
        used.max().map_or(0, |highest| usize::from(highest) + 1)
    }
}

/// One step. Positions in a program are indices of instructions; one behind the last is its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// TCP clients: opens the connection, goes on when it is established. The first of every TCP client's program.
    Connect,
    /// TCP servers: goes on when the connection is established. The first of every TCP server's program.
    Accept,
    /// Queues a payload of the scenario on the byte stream.
    Send {
        /// Its index.
        payload: u32,
        /// Goes on when it is acknowledged; else when it is in the send buffer.
        wait: bool,
    },
    /// Goes on when this many bytes have come since the flow's start or the last clear.
    Receive {
        /// At least 1.
        bytes: u64,
        /// Takes them off the count.
        clear: bool,
    },
    /// Goes on behind the end of what is received next.
    ReceiveUntil(Until),
    /// UDP: sends a payload as one datagram.
    SendMessage {
        /// Its index.
        payload: u32,
    },
    /// UDP: goes on when this many datagrams have come since the flow's start or the last clear.
    ReceiveMessages {
        /// At least 1.
        messages: u32,
        /// Takes them off the count.
        clear: bool,
    },
    /// Waits; a random time between both, evenly distributed, if they differ.
    Delay {
        /// In ns.
        min_ns: u64,
        /// In ns; not less.
        max_ns: u64,
    },
    /// TCP: FIN when all is sent, then the program ends. UDP: forgets the flow.
    Close,
    /// TCP: RST, whatever is not sent. UDP: as `Close`.
    Reset,
    /// Goes on when the peer has closed its direction.
    WaitForPeerClose,
    /// Ends the program; the flow stays until its peer or silence ends it.
    LeaveOpen,
    /// UDP: from now on this silence ends the flow, in ns.
    Keepalive(u64),
    /// Sets a variable.
    Set {
        /// Below `VARIABLES`.
        variable: u8,
        /// To this.
        value: i64,
    },
    /// Adds to a variable, around at 2^64.
    Add {
        /// Below `VARIABLES`.
        variable: u8,
        /// This.
        value: i64,
    },
    /// Goes on elsewhere if a comparison of a variable with a value holds.
    Jump {
        /// There.
        to: u32,
        /// Below `VARIABLES`.
        variable: u8,
        /// `variable COMPARISON value`.
        comparison: Comparison,
        /// What it is compared with.
        value: i64,
    },
    /// Goes on elsewhere until so much time has passed since a mark.
    Loop {
        /// There.
        to: u32,
        /// Variable of the mark; below `VARIABLES`.
        since: u8,
        /// In ns.
        duration_ns: u64,
    },
    /// Notes the time in a variable (ns of the stack's clock).
    Mark {
        /// Below `VARIABLES`.
        variable: u8,
    },
    /// Adds one to a counter of the program.
    Count {
        /// Index in `Program::counters`.
        counter: u16,
    },
    /// Adds to a counter of the program the time since a mark, in ns.
    CountTime {
        /// Index in `Program::counters`.
        counter: u16,
        /// Variable of the mark; below `VARIABLES`.
        since: u8,
    },
    /// Goes on with the same side's program of another template, from its first instruction behind `Connect` or `Accept`.
    SwitchTemplate {
        /// Its index.
        template: u32,
    },
    /// Clients: opens a connection of another template from the flow's client address; goes on when that has ended, or could not be
    /// opened.
    OpenConnection {
        /// Its index; none: the one that was named last, by this flow or by a connection that it opened. If none was, nothing is opened.
        template: Option<u32>,
    },
    /// Clients: names the template of the next connection that is opened without a name: of this flow, and when it ends of the one that
    /// opened it.
    NextTemplate {
        /// Its index.
        template: u32,
    },
}

/// The end of what is received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// The bytes up to and with these, 1..=64.
    Pattern(Box<[u8]>),
    /// One HTTP/1.1 message (RFC 9112 section 6).
    HttpMessage,
}

impl Program {
    /// Whether flows go on with a template's program.
    pub fn switches_to(&self, template: usize) -> bool {
        self.instructions.iter().any(|instruction| instruction.effects().template() == u32::try_from(template).ok())
    }
}

/// How a variable is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Whether it holds.
    pub fn holds(self, left: i64, right: i64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}
