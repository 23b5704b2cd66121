// SPDX-License-Identifier: Apache-2.0
//! What can be said of an instruction before a flow executes it. All checks of programs, and what is computed of them, read that and know
//! no instructions.
use super::{
    Comparison, Until,
    fault::{Problem, Side},
};
use crate::Protocol;

/// Effects of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effects<'a> {
    /// The side whose programs over TCP begin with it; it stands nowhere else.
    pub begins: Option<Side>,
    /// The only transport that has it, and what programs over the other have instead.
    pub transport: Option<(Protocol, &'static str)>,
    /// Whether the instruction takes time whenever it is executed. What counts from the flow's start waits only once.
    pub takes_time: bool,
    /// Data that the instruction sends.
    pub sends: Option<Data>,
    /// Condition that the instruction waits for.
    pub waits_for: Option<Awaited<'a>>,
    /// The variable that it changes.
    pub changes: Option<(u8, VariableChange)>,
    /// The variable that it reads, unless that says what is executed next.
    pub reads: Option<u8>,
    /// The counter of its program that it adds to.
    pub counts: Option<u16>,
    /// What it does about connections of other templates.
    pub opens: Option<Opens<'a>>,
    /// The next instruction.
    pub next: Next,
    /// Problem of the instruction in any program.
    pub wrong: Option<Problem>,
}

/// Connections of other templates, which clients open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opens<'a> {
    /// Opens one, of this template or of the one that was named last, and waits for its end.
    Connection(Option<u32>),
    /// Names the template of the next that has no name, or several of which one is drawn.
    Next(&'a [u32]),
}

impl<'a> Opens<'a> {
    /// The templates that it names.
    pub fn named(self) -> impl Iterator<Item = u32> + use<'a> {
        let (one, several) = match self {
            Self::Connection(named) => (named, &[][..]),
            Self::Next(named) => (None, named),
        };
        one.into_iter().chain(several.iter().copied())
    }
}

/// A payload, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// The payload as bytes of a stream.
    Stream(u32),
    /// The payload as a datagram.
    Message(u32),
}

/// Condition that an instruction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited<'a> {
    /// This number since the start or the last that cleared the count.
    Count {
        /// Bytes or messages.
        count: u64,
        /// Whether they are subtracted from the count.
        clear: bool,
        /// "bytes" or "messages".
        unit: &'static str,
    },
    /// The end of what comes next, which depends on its bytes.
    End(&'a Until),
    /// The peer closes.
    PeerClose,
}

/// Change of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableChange {
    /// The variable is set to this.
    Set(i64),
    /// This is added to the variable, modulo 2^64.
    Add(i64),
    /// The variable is set to the time.
    Time,
}

/// The instruction that is executed after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The one behind it.
    Following,
    /// The instruction at `to` if a comparison holds, else the next one.
    Jump {
        /// Destination of the jump.
        to: u32,
        /// Compared.
        variable: u8,
        /// `variable COMPARISON value`.
        comparison: Comparison,
        /// Value that the variable is compared with.
        value: i64,
    },
    /// The instruction at `to` until some time has passed since the time in a variable, then the next one.
    Loop {
        /// Destination of the jump.
        to: u32,
        /// Variable with the time.
        since: u8,
    },
    /// The program of another template.
    Template(u32),
    /// No instruction: the flow is closed, or reset.
    End {
        /// Whether the flow is reset; else it is closed.
        reset: bool,
    },
    /// No instruction: the flow stays until its peer or its idle timeout ends it.
    LeftOpen,
}

impl<'a> Effects<'a> {
    /// No effects: the next instruction is executed at once.
    pub(super) const NONE: Self = Self {
        begins: None,
        transport: None,
        takes_time: false,
        sends: None,
        waits_for: None,
        changes: None,
        reads: None,
        counts: None,
        opens: None,
        next: Next::Following,
        wrong: None,
    };

    /// Programs over the other transport have something else instead.
    pub(super) fn only_over(self, protocol: Protocol, instead: &'static str) -> Self {
        Self { transport: Some((protocol, instead)), ..self }
    }

    pub(super) fn waiting_for(awaited: Awaited<'a>, takes_time: bool) -> Self {
        Self { waits_for: Some(awaited), takes_time, ..Self::NONE }
    }

    pub(super) fn changing(variable: u8, change: VariableChange) -> Self {
        Self { changes: Some((variable, change)), ..Self::NONE }
    }

    pub(super) fn then(next: Next) -> Self {
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
