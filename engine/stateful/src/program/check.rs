// SPDX-License-Identifier: Apache-2.0
//! Programs checked before a flow runs them: each by itself, and a client's against its server's.
use super::{
    Instruction, Program, VARIABLES, dialogue,
    effects::{Awaited, Data, Opens},
    fault::{Fault, MAX_MESSAGE_BYTES, Problem, Side},
    loops, opens,
    programs::Programs,
};
use crate::Protocol;

/// Finds everything wrong with the programs of `templates`, which send payloads of these lengths in bytes; in the order of
/// templates, clients first.
pub fn check(templates: &[Programs], payloads: &[u64]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (template, programs) in templates.iter().enumerate() {
        for side in [Side::Client, Side::Server] {
            let Some(program) = programs.of(side) else { continue };
            let mut one =
                ProgramCheck { templates, template, side, protocol: programs.protocol, program, payloads, faults };
            one.begins_well();
            for (at, instruction) in program.instructions.iter().enumerate() {
                one.instruction(at, instruction);
            }
            faults = one.faults;
        }
    }
    // The next checks walk through programs, which must be sound for that.
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

/// A program that is being checked.
struct ProgramCheck<'a> {
    templates: &'a [Programs<'a>],
    template: usize,
    side: Side,
    protocol: Protocol,
    program: &'a Program,
    payloads: &'a [u64],
    faults: Vec<Fault>,
}

impl ProgramCheck<'_> {
    fn wrong(&mut self, at: usize, problem: Problem) {
        self.faults.push(Fault { template: self.template, side: self.side, at, problem });
    }

    fn begins_well(&mut self) {
        if self.protocol == Protocol::Udp {
            return;
        }
        let first = self.program.instructions.first();
        if first.and_then(|first| first.effects().begins) != Some(self.side) {
            self.wrong(0, Problem::First(if self.side == Side::Client { "connect" } else { "accept" }));
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
            Some(Data::Message(payload)) => self.payload(at, payload, MAX_MESSAGE_BYTES),
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
        if let Some(side) = effects.begins {
            self.opens(at, side);
        }
        let count = self.program.counters.len();
        if let Some(index) = effects.counts.filter(|index| usize::from(*index) >= count) {
            self.wrong(at, Problem::Counter { index, count });
        }
        if let Some(problem) = effects.wrong {
            self.wrong(at, problem);
        }
    }

    /// Servers open nothing.
    fn opens_others(&mut self, at: usize, opens: Opens<'_>) {
        if self.side == Side::Server {
            self.wrong(at, Problem::OtherSide(Side::Client));
        }
        let there = |template: u32| self.templates.get(template as usize).is_some_and(|to| to.client.is_some());
        if let Some(template) = opens.named().find(|template| !there(*template)) {
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
