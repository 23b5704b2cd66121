// SPDX-License-Identifier: Apache-2.0
//! What is wrong with programs, found before a flow runs them: each by itself, and a client's against its server's.
use std::fmt;

use super::{
    Instruction, Program, Until, VARIABLES, dialogue,
    effects::{Awaited, Data, Opens},
    loops, opens,
};
use crate::Protocol;

/// Bytes of the longest UDP message: an IPv4 packet of 65,535 bytes without its headers (RFC 768, RFC 791).
pub const LONGEST_MESSAGE: u64 = 65_507;
/// Bytes of the longest pattern of `Until::Pattern`.
pub const LONGEST_PATTERN: usize = 64;

/// A template as its checks see it.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    /// Its transport.
    pub protocol: Protocol,
    /// What a client does, if clients are emulated.
    pub client: Option<&'a Program>,
    /// What a server does, if servers are emulated.
    pub server: Option<&'a Program>,
}

/// One side of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// It opens flows.
    Client,
    /// It answers them.
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
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with an instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Nothing leads to it.
    #[error("nothing leads to it; leave it out, or jump to it")]
    Unreachable,
    /// A position that does not exist.
    #[error("leads to {to}; must be {first}..{end}, the last being the program's end")]
    Target {
        /// There.
        to: u32,
        /// The first position a jump may lead to.
        first: usize,
        /// One behind the last instruction.
        end: usize,
    },
    /// A TCP program must begin with it.
    #[error("must be {0}: programs over TCP begin with it")]
    First(&'static str),
    /// It stands where it must not.
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
    #[error("payload {index} has {len} bytes; a message has at most {LONGEST_MESSAGE}")]
    LongMessage {
        /// The payload.
        index: u32,
        /// Its length.
        len: u64,
    },
    /// It waits for nothing.
    #[error("waits for 0; must be at least 1")]
    Nothing,
    /// A pattern's length.
    #[error("the pattern has {0} bytes; must be 1..{LONGEST_PATTERN}")]
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
    /// It opens a connection of the template named last, and none is ever named.
    #[error("no next_template names a template for it; name one")]
    Unnamed,
    /// Connections would open connections without end.
    #[error("connections of template {0} open connections of this template again, without end; break the circle")]
    Circle(usize),
    /// It would go around for ever at one instant.
    #[error(
        "goes back to {to}, and nothing on the way takes time or is certain to end; put a delay, a receive that clears its count, or a counter set before the loop there"
    )]
    NoTime {
        /// There.
        to: usize,
    },
    /// It waits for what will never come.
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
    /// It waits for what is there.
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
    /// It waits for a close that will never come.
    #[error("waits until the {0} closes, which itself waits")]
    NeverClosed(Side),
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
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

impl<'a> Programs<'a> {
    /// The program of a side.
    pub fn of(&self, side: Side) -> Option<&'a Program> {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }
}

/// Finds everything wrong with the programs of `templates`, which send payloads of these lengths in bytes; in the order of
/// templates, clients first.
pub fn check(templates: &[Programs], payloads: &[u64]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (template, programs) in templates.iter().enumerate() {
        for side in [Side::Client, Side::Server] {
            let Some(program) = programs.of(side) else { continue };
            let mut one = One { templates, template, side, protocol: programs.protocol, program, payloads, faults };
            one.begins_well();
            for (at, instruction) in program.instructions.iter().enumerate() {
                one.instruction(at, instruction);
            }
            faults = one.faults;
        }
    }
    // What follows goes along programs, which must be sound for that.
    if faults.is_empty() {
        for side in [Side::Client, Side::Server] {
            faults.extend(loops::check(templates, side));
        }
    }
    if faults.is_empty() {
        faults.extend(opens::check(templates));
    }
    if faults.is_empty() {
        faults.extend((0..templates.len()).filter_map(|template| dialogue::check(templates, template, payloads)));
    }
    faults.sort_by_key(|fault| (fault.template, fault.side, fault.at));
    faults
}

/// One program being looked through.
struct One<'a> {
    templates: &'a [Programs<'a>],
    template: usize,
    side: Side,
    protocol: Protocol,
    program: &'a Program,
    payloads: &'a [u64],
    faults: Vec<Fault>,
}

impl One<'_> {
    fn wrong(&mut self, at: usize, problem: Problem) {
        self.faults.push(Fault { template: self.template, side: self.side, at, problem });
    }

    fn begins_well(&mut self) {
        if self.protocol == Protocol::Udp {
            return;
        }
        let first = self.program.instructions.first();
        match (self.side, first) {
            (Side::Client, Some(Instruction::Connect)) | (Side::Server, Some(Instruction::Accept)) => {}
            (Side::Client, _) => self.wrong(0, Problem::First("connect")),
            (Side::Server, _) => self.wrong(0, Problem::First("accept")),
        }
    }

    fn instruction(&mut self, at: usize, instruction: &Instruction) {
        let effects = instruction.effects();
        if let Some((protocol, remedy)) = effects.transport.filter(|(protocol, _)| *protocol != self.protocol) {
            let name = if protocol == Protocol::Tcp { "TCP" } else { "UDP" };
            self.wrong(at, Problem::OtherProtocol(name, remedy));
        }
        match effects.sends {
            Some(Data::Stream(payload)) => self.payload(at, payload, u64::MAX),
            Some(Data::Message(payload)) => self.payload(at, payload, LONGEST_MESSAGE),
            None => {}
        }
        if let Some(Awaited::Count { count: 0, .. }) = effects.waits_for {
            self.wrong(at, Problem::Nothing);
        }
        if let Some(variable) = effects.variable().filter(|variable| usize::from(*variable) >= VARIABLES) {
            self.wrong(at, Problem::Variable(variable));
        }
        if let Some(to) = effects.target() {
            self.target(at, to);
        }
        if let Some(template) = effects.template() {
            let there = self.templates.get(template as usize);
            if there.is_none_or(|there| there.protocol != self.protocol || there.of(self.side).is_none()) {
                self.wrong(at, Problem::Template(template));
            }
        }
        if let Some(opens) = effects.opens {
            self.opens_others(at, opens);
        }
        match instruction {
            Instruction::Connect => self.opens(at, Side::Client),
            Instruction::Accept => self.opens(at, Side::Server),
            Instruction::Keepalive(0) => self.wrong(at, Problem::Nothing),
            Instruction::ReceiveUntil(Until::Pattern(pattern)) if !(1..=LONGEST_PATTERN).contains(&pattern.len()) => {
                self.wrong(at, Problem::Pattern(pattern.len()));
            }
            &Instruction::Delay { min_ns, max_ns } if min_ns > max_ns => {
                self.wrong(at, Problem::Delay { min_ns, max_ns });
            }
            &(Instruction::Count { counter } | Instruction::CountTime { counter, .. })
                if usize::from(counter) >= self.program.counters.len() =>
            {
                self.wrong(at, Problem::Counter { index: counter, count: self.program.counters.len() });
            }
            _ => {}
        }
    }

    /// Servers open nothing.
    fn opens_others(&mut self, at: usize, opens: Opens) {
        let named = match opens {
            Opens::Connection(named) => named,
            Opens::Next(template) => Some(template),
        };
        if self.side == Side::Server {
            self.wrong(at, Problem::OtherSide(Side::Client));
        }
        let there = |template: u32| self.templates.get(template as usize).is_some_and(|to| to.client.is_some());
        if let Some(template) = named.filter(|template| !there(*template)) {
            self.wrong(at, Problem::Opened(template));
        }
    }

    fn opens(&mut self, at: usize, side: Side) {
        if self.protocol == Protocol::Udp {
            return;
        }
        if self.side != side {
            self.wrong(at, Problem::OtherSide(side));
        } else if at > 0 {
            self.wrong(at, Problem::NotFirst);
        }
    }

    fn payload(&mut self, at: usize, index: u32, longest: u64) {
        match self.payloads.get(index as usize) {
            None => self.wrong(at, Problem::Payload { index, count: self.payloads.len() }),
            Some(0) => self.wrong(at, Problem::Empty(index)),
            Some(&len) if len > longest => self.wrong(at, Problem::LongMessage { index, len }),
            Some(_) => {}
        }
    }

    fn target(&mut self, at: usize, to: u32) {
        let end = self.program.instructions.len();
        // A connection is opened once.
        let first = usize::from(self.protocol == Protocol::Tcp);
        if !(first..=end).contains(&(to as usize)) {
            self.wrong(at, Problem::Target { to, first, end });
        }
    }
}

#[cfg(test)]
mod tests;
