// SPDX-License-Identifier: Apache-2.0
//! What is above a flow's transport: its program, which goes on instruction after instruction until one has to wait, and where the bytes
//! that it sends come from (`sources`), and those that it receives go to (`sinks`). The crate's documentation says how they work together.
pub(crate) mod fields;
pub(crate) mod reader;
pub mod sinks;
pub(crate) mod sources;

use crate::{
    counters::{Count, Counters},
    flow::{Flow, State, flags},
    payload::Payload,
    program::{Instruction, Program},
    random,
    scenario::Tunables,
    sending::{Backlog, NoRoom, parts},
    slab::Slab,
    tcp::{Context, Instant},
    wheel,
};
use reader::{Ended, Reader};

/// Instructions that a flow executes without a rest: then others have their turn.
const MAX_INSTRUCTIONS: usize = 256;

/// State and resources that a program is executed with.
#[derive(Debug)]
pub struct Machine<'a> {
    /// Program of the flow's side.
    pub program: &'a Program,
    /// Payloads of the scenario.
    pub payloads: &'a [Payload],
    /// Queues beside flows.
    pub backlogs: &'a mut Slab<Backlog>,
    /// Variables of the flow.
    pub variables: &'a mut [i64],
    /// Seed of the flow's template.
    pub seed: u64,
    /// Reader of the flow, if any program of the scenario waits for the end of a message.
    pub reader: Option<Reader<'a>>,
}

/// Outcome of an instruction.
enum Step {
    /// Go on behind it.
    Next,
    /// Go on there.
    To(u32),
    /// Something must happen first.
    Wait,
    /// The stack has to do something for the flow.
    Leave(Transition),
    /// The program has ended.
    End,
}

/// What a flow's program has come to that is not the flow's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The flow goes on with this template's program.
    Switch(u32),
    /// The program opens a connection of this template, or of the one named last; or waits for its end.
    Open(Option<u32>),
    /// The program names the template of the next such connection, or several.
    Name,
}

impl Flow {
    /// Lets the program of a connection go on as long as its instructions are those of most programs, which need no [`Machine`]. False: the
    /// next one is another, or executed otherwise, and `go_on` goes on.
    #[inline(always)]
    pub fn go_on_by_common(
        &mut self,
        program: &Program,
        payloads: &[Payload],
        counters: &Counters,
        tunables: &Tunables,
    ) -> bool {
        if self.any(flags::PROGRAM_ENDED) || self.state == State::Closed {
            return true;
        }
        debug_assert!(self.is_tcp());
        for _ in 0..MAX_INSTRUCTIONS {
            let step = match program.instructions.get(usize::from(self.pc)) {
                Some(&Instruction::Receive { bytes, clear }) => self.receive(bytes, clear, counters),
                Some(&Instruction::Send { payload, wait: false }) => {
                    let Some(step) = self.send_whole(payload as u16, payloads, counters, tunables) else {
                        return false;
                    };
                    step
                }
                Some(Instruction::Close) | None => self.end(),
                _ => return false,
            };
            match step {
                Step::Next => self.pc += 1,
                Step::End => {
                    self.has_ended();
                    return true;
                }
                _ => return true,
            }
            debug_assert!(
                !self.has(flags::INSTRUCTION_STARTED),
                "of these only a `Send` starts, and ends otherwise then"
            );
        }
        false
    }

    /// Lets the program go on. Returns what it has come to that is not the flow's alone.
    // As `Flow::output_plain`: what is not inlined gets parts of these by value, so that neither is in memory.
    #[inline(always)]
    pub fn go_on(&mut self, machine: &mut Machine<'_>, cx: &mut Context<'_>) -> Option<Transition> {
        // No instruction closes it that others follow.
        if self.any(flags::PROGRAM_ENDED) || self.state == State::Closed {
            return None;
        }
        let instructions = &*machine.program.instructions;
        for _ in 0..MAX_INSTRUCTIONS {
            let step = match instructions.get(usize::from(self.pc)) {
                Some(instruction) => self.step(instruction, machine, cx),
                None => self.end(),
            };
            match step {
                Step::Next => self.pc += 1,
                Step::To(pc) => self.pc = pc as u16,
                Step::Wait => return None,
                Step::Leave(left) => return Some(left),
                Step::End => {
                    self.has_ended();
                    return None;
                }
            }
            self.clear(flags::INSTRUCTION_STARTED);
        }
        self.program_at = wheel::tick_at(cx.now.ns).wrapping_add(1);
        self.set(flags::PROGRAM_WAITS);
        None
    }

    fn is_tcp(&self) -> bool {
        self.state != State::Datagrams
    }

    #[inline]
    fn has_ended(&mut self) {
        self.set(flags::PROGRAM_ENDED);
        self.clear(flags::PROGRAM_WAITS);
    }

    /// The program has come to its end.
    fn end(&mut self) -> Step {
        self.close_either();
        Step::End
    }

    fn close_either(&mut self) {
        if self.is_tcp() {
            self.close();
        } else {
            self.set(flags::FIN_QUEUED | flags::OUTPUT);
        }
    }

    #[inline(always)]
    fn step(&mut self, instruction: &Instruction, machine: &mut Machine<'_>, cx: &mut Context<'_>) -> Step {
        match *instruction {
            Instruction::Connect | Instruction::Accept => self.wait_to_open(),
            Instruction::Send { payload, wait } => self.send(payload as u16, wait, machine, cx),
            Instruction::Receive { bytes, clear } => self.receive(bytes, clear, cx.counters),
            Instruction::ReceiveMessages { messages, clear } => self.receive(u64::from(messages), clear, cx.counters),
            Instruction::SendMessage { payload } => {
                if self.queue_message(payload as u16) {
                    Step::Next
                } else {
                    Step::Wait
                }
            }
            Instruction::Delay { min_ns, max_ns } => self.delay(min_ns, max_ns, machine.seed, cx.now),
            Instruction::Close => self.end(),
            Instruction::Reset => {
                if self.is_tcp() {
                    self.reset();
                } else {
                    self.close_either();
                }
                Step::End
            }
            Instruction::WaitForPeerClose => {
                if self.has(flags::FIN_RECEIVED) {
                    Step::Next
                } else {
                    Step::Wait
                }
            }
            Instruction::LeaveOpen => Step::End,
            Instruction::Keepalive(ns) => {
                self.set_silence(ns, cx.now);
                Step::Next
            }
            Instruction::Set { variable, value } => {
                machine.variables[usize::from(variable)] = value;
                Step::Next
            }
            Instruction::Add { variable, value } => {
                let variable = &mut machine.variables[usize::from(variable)];
                *variable = variable.wrapping_add(value);
                Step::Next
            }
            Instruction::Jump { to, variable, comparison, value } => {
                if comparison.holds(machine.variables[usize::from(variable)], value) {
                    Step::To(to)
                } else {
                    Step::Next
                }
            }
            Instruction::Loop { to, since, duration_ns } => {
                let passed = cx.now.ns.wrapping_sub(machine.variables[usize::from(since)].cast_unsigned());
                if passed < duration_ns { Step::To(to) } else { Step::Next }
            }
            Instruction::Mark { variable } => {
                machine.variables[usize::from(variable)] = cx.now.ns.cast_signed();
                Step::Next
            }
            Instruction::Count { counter } => {
                cx.counters.count_of_program(counter);
                Step::Next
            }
            Instruction::CountTime { counter, since } => {
                let mark = machine.variables[usize::from(since)].cast_unsigned();
                // A mark may have been moved ahead.
                let passed = cx.now.ns.wrapping_sub(mark).cast_signed().max(0).cast_unsigned();
                cx.counters.time_of_program(counter, passed);
                Step::Next
            }
            Instruction::SwitchTemplate { template } => Step::Leave(Transition::Switch(template)),
            Instruction::OpenConnection { template } => Step::Leave(Transition::Open(template)),
            Instruction::NextTemplate { .. } => Step::Leave(Transition::Name),
            Instruction::ReceiveUntil(_) => {
                let mut reader = machine.reader.take().expect("there is one where programs have such instructions");
                let step = self.receive_until(&mut reader, cx.counters);
                machine.reader = Some(reader);
                step
            }
        }
    }

    #[inline(always)]
    fn wait_to_open(&self) -> Step {
        let open = !matches!(self.state, State::SynSent | State::SynReceived);
        if open { Step::Next } else { Step::Wait }
    }

    /// As `send`, of a payload of one part behind which nothing is queued; none, and nothing is done, if it is not so.
    #[inline(always)]
    fn send_whole(
        &mut self,
        payload: u16,
        payloads: &[Payload],
        counters: &Counters,
        tunables: &Tunables,
    ) -> Option<Step> {
        if self.has(flags::INSTRUCTION_STARTED) {
            return None;
        }
        let bytes = self.queue_first(payload, payloads)?;
        self.clear(flags::PROGRAM_WAITS);
        self.set(flags::OUTPUT);
        counters.add(Count::QueuedBytes, u64::from(bytes));
        if self.queued() <= tunables.send_buffer {
            return Some(Step::Next);
        }
        self.set(flags::INSTRUCTION_STARTED);
        self.set_parts_queued(1, 1);
        Some(Step::Wait)
    }

    #[inline(always)]
    fn send(&mut self, payload: u16, wait: bool, machine: &mut Machine<'_>, cx: &mut Context<'_>) -> Step {
        let all = parts(&machine.payloads[usize::from(payload)]);
        if !self.has(flags::INSTRUCTION_STARTED) {
            self.set(flags::INSTRUCTION_STARTED);
            // An iteration that had ended before continues now: what remains to wait for is acknowledgements, and no time.
            self.clear(flags::PROGRAM_WAITS);
            self.set_parts_queued(0, all);
        }
        while self.parts_queued(all) < all {
            match self.queue(machine.payloads, payload, self.parts_queued(all), machine.backlogs) {
                Ok(bytes) => {
                    self.set_parts_queued(self.parts_queued(all) + 1, all);
                    self.set(flags::OUTPUT);
                    cx.counters.add(Count::QueuedBytes, u64::from(bytes));
                }
                Err(NoRoom::Full) => return Step::Wait,
                Err(NoRoom::Exhausted) => {
                    cx.counters.one(Count::BacklogExhausted);
                    return Step::Wait;
                }
            }
        }
        let most = if wait { 0 } else { cx.tunables.send_buffer };
        if self.queued() > most { Step::Wait } else { Step::Next }
    }

    /// Parts that are queued of the payload that it sends, which has this many.
    #[inline]
    fn parts_queued(&self, all: u64) -> u64 {
        let upper = if all > u64::from(u16::MAX) { u64::from(self.program_at) << 16 } else { 0 };
        upper | u64::from(self.part)
    }

    #[inline]
    fn set_parts_queued(&mut self, parts: u64, all: u64) {
        self.part = parts as u16;
        if all > u64::from(u16::MAX) {
            self.program_at = (parts >> 16) as u32;
        }
    }

    #[inline]
    fn receive(&mut self, count: u64, clear: bool, counters: &Counters) -> Step {
        if self.received >= count {
            if clear {
                self.received -= count;
            }
            return Step::Next;
        }
        if self.has(flags::FIN_RECEIVED) {
            // The peer sends nothing more.
            counters.one(Count::FlowsClosedEarly);
            return self.end();
        }
        Step::Wait
    }

    fn receive_until(&mut self, reader: &mut Reader<'_>, counters: &Counters) -> Step {
        match reader.ended(self) {
            Ended::Yes => Step::Next,
            Ended::Broken => {
                counters.one(Count::HttpErrors);
                self.reset();
                Step::End
            }
            Ended::No if self.has(flags::FIN_RECEIVED) => {
                // The peer sends nothing more.
                counters.one(Count::FlowsClosedEarly);
                self.end()
            }
            Ended::No => Step::Wait,
        }
    }

    fn delay(&mut self, min_ns: u64, max_ns: u64, seed: u64, now: Instant) -> Step {
        if self.has(flags::INSTRUCTION_STARTED) {
            let passed = !wheel::before(wheel::tick_at(now.ns), self.program_at);
            if passed && self.part == 0 {
                self.clear(flags::PROGRAM_WAITS);
                return Step::Next;
            }
            if passed {
                self.part -= 1;
                self.program_at = self.program_at.wrapping_add(wheel::LAP);
            }
            return Step::Wait;
        }
        let mut ns = min_ns;
        if max_ns > min_ns {
            let bits = random::nth(seed ^ random::mix(self.number), now.ns ^ u64::from(self.pc));
            ns += random::below(bits, max_ns - min_ns + 1);
        }
        self.set(flags::INSTRUCTION_STARTED | flags::PROGRAM_WAITS);
        let (tick, laps) = now.deadline_in(ns);
        self.program_at = tick;
        self.part = laps as u16;
        Step::Wait
    }
}
