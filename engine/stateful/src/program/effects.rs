// SPDX-License-Identifier: Apache-2.0
//! What each instruction does, as far as it is known before a flow executes it: the one table that all checks of programs, and what is
//! computed of them, read. A flow executes instructions in `application`.
use super::{Comparison, Instruction, Until};
use crate::Protocol;

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    /// The only transport that has it, and what programs over the other have instead.
    pub transport: Option<(Protocol, &'static str)>,
    /// It takes time whenever it is executed. What counts from the flow's start waits only once.
    pub takes_time: bool,
    /// What it sends.
    pub sends: Option<Data>,
    /// What it waits for.
    pub waits_for: Option<Awaited>,
    /// The variable that it changes.
    pub changes: Option<(u8, VariableChange)>,
    /// The variable that it reads, unless that says what is executed next.
    pub reads: Option<u8>,
    /// What it does about connections of other templates.
    pub opens: Option<Opens>,
    /// What is executed next.
    pub next: Next,
}

/// Connections of other templates, which clients open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opens {
    /// Opens one, of this template or of the one that was named last, and waits for its end.
    Connection(Option<u32>),
    /// Names the template of the next that has no name.
    Next(u32),
}

/// A payload, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// As bytes of a stream.
    Stream(u32),
    /// As a datagram.
    Message(u32),
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// This number since the start or the last that cleared the count.
    Count {
        /// Bytes or messages.
        count: u64,
        /// They are taken off the count.
        clear: bool,
        /// "bytes" or "messages".
        unit: &'static str,
    },
    /// The end of what comes next, which depends on its bytes.
    End,
    /// The peer closes.
    PeerClose,
}

/// What becomes of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableChange {
    /// It is this.
    Set(i64),
    /// It is this much more, around at 2^64.
    Add(i64),
    /// It is a time.
    Time,
}

/// What is executed behind an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The one behind it.
    Following,
    /// That at `to` if a comparison holds, else the one behind it.
    Jump {
        /// There.
        to: u32,
        /// Compared.
        variable: u8,
        /// `variable COMPARISON value`.
        comparison: Comparison,
        /// What it is compared with.
        value: i64,
    },
    /// That at `to` for some time since what a variable says, then the one behind it.
    Loop {
        /// There.
        to: u32,
        /// Has the time.
        since: u8,
    },
    /// Another template's program.
    Template(u32),
    /// None: the flow is closed, or reset.
    End {
        /// By RST.
        reset: bool,
    },
    /// None: the flow stays until its peer or silence ends it.
    LeftOpen,
}

impl Effects {
    /// None: the next instruction is executed at once.
    const NONE: Self = Self {
        transport: None,
        takes_time: false,
        sends: None,
        waits_for: None,
        changes: None,
        reads: None,
        opens: None,
        next: Next::Following,
    };

    fn only_over(self, protocol: Protocol, instead: &'static str) -> Self {
        Self { transport: Some((protocol, instead)), ..self }
    }

    fn waiting_for(awaited: Awaited, takes_time: bool) -> Self {
        Self { waits_for: Some(awaited), takes_time, ..Self::NONE }
    }

    fn changing(variable: u8, change: VariableChange) -> Self {
        Self { changes: Some((variable, change)), ..Self::NONE }
    }

    fn then(next: Next) -> Self {
        Self { next, ..Self::NONE }
    }

    /// The variable that it changes or reads.
    pub fn variable(&self) -> Option<u8> {
        match self.next {
            Next::Jump { variable, .. } | Next::Loop { since: variable, .. } => Some(variable),
            _ => self.changes.map(|(variable, _)| variable).or(self.reads),
        }
    }

    /// The position of its program that it may lead to beside the one behind it.
    pub fn target(&self) -> Option<u32> {
        match self.next {
            Next::Jump { to, .. } | Next::Loop { to, .. } => Some(to),
            _ => None,
        }
    }

    /// The template whose program a flow goes on with.
    pub fn template(&self) -> Option<u32> {
        if let Next::Template(template) = self.next { Some(template) } else { None }
    }
}

impl Instruction {
    /// What it does.
    pub fn effects(&self) -> Effects {
        use Protocol::{Tcp, Udp};
        let none = Effects::NONE;
        match *self {
            Self::Connect | Self::Accept => {
                Effects { takes_time: true, ..none }.only_over(Tcp, "leave it out: UDP has no connections")
            }
            // The send buffer has an end.
            Self::Send { payload, .. } => Effects { sends: Some(Data::Stream(payload)), takes_time: true, ..none }
                .only_over(Tcp, "send_message sends a datagram"),
            Self::SendMessage { payload } => {
                Effects { sends: Some(Data::Message(payload)), ..none }.only_over(Udp, "send sends bytes")
            }
            Self::Receive { bytes: count, clear } => {
                Effects::waiting_for(Awaited::Count { count, clear, unit: "bytes" }, clear)
                    .only_over(Tcp, "receive_messages waits for datagrams")
            }
            Self::ReceiveMessages { messages, clear } => {
                Effects::waiting_for(Awaited::Count { count: messages.into(), clear, unit: "messages" }, clear)
                    .only_over(Udp, "receive waits for bytes")
            }
            Self::ReceiveUntil(Until::Pattern(_) | Until::HttpMessage) => {
                Effects::waiting_for(Awaited::End, true).only_over(Tcp, "receive_messages waits for datagrams")
            }
            Self::WaitForPeerClose => {
                Effects::waiting_for(Awaited::PeerClose, false).only_over(Tcp, "leave it out: datagrams have no end")
            }
            Self::Delay { max_ns, .. } => Effects { takes_time: max_ns > 0, ..none },
            Self::Keepalive(_) => none.only_over(Udp, "tunables set the keepalive of TCP"),
            Self::Set { variable, value } => Effects::changing(variable, VariableChange::Set(value)),
            Self::Add { variable, value } => Effects::changing(variable, VariableChange::Add(value)),
            Self::Mark { variable } => Effects::changing(variable, VariableChange::Time),
            Self::Count { .. } => none,
            Self::CountTime { since, .. } => Effects { reads: Some(since), ..none },
            Self::Jump { to, variable, comparison, value } => {
                Effects::then(Next::Jump { to, variable, comparison, value })
            }
            Self::Loop { to, since, .. } => Effects::then(Next::Loop { to, since }),
            Self::SwitchTemplate { template } => Effects::then(Next::Template(template)),
            Self::OpenConnection { template } => {
                Effects { opens: Some(Opens::Connection(template)), takes_time: true, ..none }
            }
            Self::NextTemplate { template } => Effects { opens: Some(Opens::Next(template)), ..none },
            Self::Close => Effects::then(Next::End { reset: false }),
            Self::Reset => Effects::then(Next::End { reset: true }),
            Self::LeaveOpen => Effects::then(Next::LeftOpen),
        }
    }
}
