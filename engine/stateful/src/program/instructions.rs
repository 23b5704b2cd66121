// SPDX-License-Identifier: Apache-2.0
//! The instructions of programs: an enum, and the table that leads from each to its file, which says all that is known of it before a
//! flow executes it. A flow executes them in `application`.
mod close;
mod count;
mod delay;
mod jump;
mod keepalive;
mod leave_open;
mod open_connection;
mod opening;
mod receive;
mod receive_until;
mod repeat;
mod send;
mod switch_template;
mod variables;
mod wait_for_peer_close;

use super::{Comparison, Until, effects::Effects, fault::Side};

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
        /// Whether the program waits until the payload is acknowledged; else until it is in the send buffer.
        wait: bool,
    },
    /// Waits until this many bytes were received since the flow's start or the last clear.
    Receive {
        /// Number of bytes; at least 1.
        bytes: u64,
        /// Takes them off the count.
        clear: bool,
    },
    /// Waits for the end of what is received next.
    ReceiveUntil(Until),
    /// UDP: sends a payload as one datagram.
    SendMessage {
        /// Its index.
        payload: u32,
    },
    /// UDP: goes on when this many datagrams have come since the flow's start or the last clear.
    ReceiveMessages {
        /// Number of messages; at least 1.
        messages: u32,
        /// Takes them off the count.
        clear: bool,
    },
    /// Waits; a random time between both, evenly distributed, if they differ.
    Delay {
        /// Minimum in ns.
        min_ns: u64,
        /// Maximum in ns; not below the minimum.
        max_ns: u64,
    },
    /// TCP: FIN when all is sent, then the program ends. UDP: forgets the flow.
    Close,
    /// TCP: RST, whatever is not sent. UDP: as `Close`.
    Reset,
    /// Waits until the peer has closed its direction.
    WaitForPeerClose,
    /// Ends the program; the flow stays until its peer or silence ends it.
    LeaveOpen,
    /// UDP: from now on this silence ends the flow, in ns.
    Keepalive(u64),
    /// Sets a variable.
    Set {
        /// Index of the variable, below `VARIABLES`.
        variable: u8,
        /// The value.
        value: i64,
    },
    /// Adds to a variable, around at 2^64.
    Add {
        /// Index of the variable, below `VARIABLES`.
        variable: u8,
        /// This.
        value: i64,
    },
    /// Jumps if a comparison of a variable with a value holds.
    Jump {
        /// Destination of the jump.
        to: u32,
        /// Index of the variable, below `VARIABLES`.
        variable: u8,
        /// `variable COMPARISON value`.
        comparison: Comparison,
        /// Value that the variable is compared with.
        value: i64,
    },
    /// Jumps until this much time has passed since the time in a variable.
    Loop {
        /// Destination of the jump.
        to: u32,
        /// Variable of the mark; below `VARIABLES`.
        since: u8,
        /// Duration in ns.
        duration_ns: u64,
    },
    /// Notes the time in a variable (ns of the stack's clock).
    Mark {
        /// Index of the variable, below `VARIABLES`.
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
    /// Continues with the same side's program of another template, from its first instruction behind `Connect` or `Accept`.
    SwitchTemplate {
        /// Its index.
        template: u32,
    },
    /// Clients: opens a connection of another template from the flow's client address; goes on when that has ended, or could not be
    /// opened.
    OpenConnection {
        /// Index of the template; none: the one that was named last, by this flow or by a connection that it opened. If none was, nothing
        /// is opened.
        template: Option<u32>,
    },
    /// Clients: names the template of the next connections that are opened without a name: of this flow, and when it ends of the one that
    /// opened it. Of several, one is drawn for each connection.
    NextTemplate {
        /// Indices of the templates, each once; at least one. All have the same probability.
        templates: Box<[u32]>,
    },
}

impl Instruction {
    /// Effects of the instruction.
    pub fn effects(&self) -> Effects<'_> {
        match self {
            Self::Connect => opening::effects(Side::Client),
            Self::Accept => opening::effects(Side::Server),
            &Self::Send { payload, .. } => send::stream(payload),
            &Self::Receive { bytes, clear } => receive::bytes(bytes, clear),
            Self::ReceiveUntil(until) => receive_until::effects(until),
            &Self::SendMessage { payload } => send::message(payload),
            &Self::ReceiveMessages { messages, clear } => receive::messages(messages, clear),
            &Self::Delay { min_ns, max_ns } => delay::effects(min_ns, max_ns),
            Self::Close => close::effects(false),
            Self::Reset => close::effects(true),
            Self::WaitForPeerClose => wait_for_peer_close::effects(),
            Self::LeaveOpen => leave_open::effects(),
            &Self::Keepalive(ns) => keepalive::effects(ns),
            &Self::Set { variable, value } => variables::set(variable, value),
            &Self::Add { variable, value } => variables::add(variable, value),
            &Self::Jump { to, variable, comparison, value } => jump::effects(to, variable, comparison, value),
            &Self::Loop { to, since, .. } => repeat::effects(to, since),
            &Self::Mark { variable } => variables::mark(variable),
            &Self::Count { counter } => count::one(counter),
            &Self::CountTime { counter, since } => count::time(counter, since),
            &Self::SwitchTemplate { template } => switch_template::effects(template),
            &Self::OpenConnection { template } => open_connection::open(template),
            Self::NextTemplate { templates } => open_connection::name(templates),
        }
    }
}
