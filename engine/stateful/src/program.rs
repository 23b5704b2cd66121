// SPDX-License-Identifier: Apache-2.0
//! What one side of an application does with a flow: instructions as they are executed, checked before.
pub mod check;
mod dialogue;
pub mod effects;
mod fault;
mod idle;
mod instructions;
mod loops;
pub mod opens;
mod programs;
mod walk;

use crate::Payload;

pub use check::check;
pub use fault::{Fault, Problem, Side};
pub use idle::idle;
pub use instructions::Instruction;
pub(crate) use loops::successors;
pub use programs::Programs;

/// Variables of a flow.
pub const VARIABLES: usize = 4;

/// Instructions of one side; the flow is closed behind the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Instructions in order.
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

    /// Whether flows go on with a template's program.
    pub fn switches_to(&self, template: usize) -> bool {
        self.instructions.iter().any(|instruction| instruction.effects().template() == u32::try_from(template).ok())
    }

    /// Whether another does the same, whatever the numbers of the payloads that they send.
    pub fn same(&self, other: &Self, payloads: &[Payload]) -> bool {
        let content = |index: u32| payloads.get(index as usize);
        let same = |(one, other): (&Instruction, &Instruction)| {
            let (mut one, mut other) = (one.clone(), other.clone());
            if let (Some(a), Some(b)) = (one.payload_mut(), other.payload_mut())
                && content(*a) == content(*b)
            {
                *b = *a;
            }
            one == other
        };
        self.counters == other.counters
            && self.instructions.len() == other.instructions.len()
            && self.instructions.iter().zip(&other.instructions).all(same)
    }
}

/// The end of what is received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// The bytes up to and with these, 1..=64.
    Pattern(Box<[u8]>),
    /// One HTTP/1.1 message (RFC 9112 section 6).
    HttpMessage,
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
    /// Whether the comparison holds.
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
