// SPDX-License-Identifier: Apache-2.0
//! The way that a flow takes through a program, as far as it is known before a run: variables are 0 at first, and nothing but the
//! program sets them. What does not depend on it alone (times, what bytes say, other templates) is not known.
use super::effects::{Awaited, Next, VariableChange};
use super::{Instruction, Program, VARIABLES};

/// Instructions that are gone through, at most, as in the operator (internal/plan/application/sent.go).
const MAX_STEPS: u32 = 1_000_000;

/// A position on the way.
pub(super) struct Walk<'a> {
    program: &'a Program,
    pub at: usize,
    /// Known values of variables; none for a variable that holds a time.
    variables: [Option<i64>; VARIABLES],
    steps: u32,
    /// Whether the next instruction is not known.
    pub lost: bool,
}

impl<'a> Walk<'a> {
    pub fn new(program: &'a Program) -> Self {
        Self { program, at: 0, variables: [Some(0); VARIABLES], steps: 0, lost: false }
    }

    /// The next instruction.
    pub fn instruction(&self) -> Option<&'a Instruction> {
        self.program.instructions.get(self.at).filter(|_| !self.lost)
    }

    /// The flow is closed.
    pub fn ended(&self) -> bool {
        self.at >= self.program.instructions.len()
    }

    /// Passes to what follows the next instruction.
    pub fn go_on(&mut self) {
        let Some(instruction) = self.instruction() else { return };
        let mut next = self.at + 1;
        let mut known = self.steps < MAX_STEPS;
        let effects = instruction.effects();
        if let Some((variable, change)) = effects.changes {
            let variable = &mut self.variables[usize::from(variable)];
            *variable = match change {
                VariableChange::Set(value) => Some(value),
                VariableChange::Add(value) => variable.map(|before| before.wrapping_add(value)),
                VariableChange::Time => None,
            };
        }
        match effects.next {
            Next::Following => {}
            Next::Jump { to, variable, comparison, value } => match self.variables[usize::from(variable)] {
                Some(variable) if comparison.holds(variable, value) => next = to as usize,
                Some(_) => {}
                None => known = false,
            },
            Next::End { .. } => next = self.program.instructions.len(),
            Next::Loop { .. } | Next::LeftOpen | Next::Template(_) => known = false,
        }
        known &= !matches!(effects.waits_for, Some(Awaited::End(_)));
        self.steps += 1;
        (self.at, self.lost) = if known { (next, false) } else { (self.at, true) };
    }
}
