// SPDX-License-Identifier: Apache-2.0
//! Programs of flows: which one a flow has, and its steps.
use super::{
    Stack, Tuple,
    side_index::{SideIndex, TemplateIndex},
};
use crate::{
    Address, Protocol,
    application::{Machine, Transition},
    counters::Count,
    flow::{FlowIndex, State, flags},
    tcp::Context,
};

impl Stack {
    /// Executes a flow's program as far as it goes. Most programs have common instructions only.
    #[inline]
    pub(super) fn go_on(&mut self, index: FlowIndex) {
        let flow = &mut self.flows[index];
        if flow.pc == 0 {
            // The first instruction of all waits for the connection.
            if matches!(flow.state, State::Closed | State::SynSent | State::SynReceived) {
                return;
            }
            flow.pc = 1;
            self.is_found(index);
        }
        let flow = &mut self.flows[index];
        let side = &self.sides[usize::from(flow.side)];
        if !flow.go_on_by_common(&side.program, &self.scenario.payloads, &side.counters, &side.tunables) {
            self.go_on_by_all(index);
        }
    }

    /// The same by instructions of all kinds.
    #[inline(never)]
    pub(super) fn go_on_by_all(&mut self, index: FlowIndex) {
        loop {
            let flow = &mut self.flows[index];
            let side = &self.sides[usize::from(flow.side)];
            if flow.has(flags::PROGRAM_ENDED) {
                return;
            }
            let variables: &mut [i64] = match self.variables_each {
                0 => &mut [],
                each => &mut self.variables[index.position() * each..][..each],
            };
            let mut machine = Machine {
                program: &side.program,
                payloads: &self.scenario.payloads,
                backlogs: &mut self.backlogs,
                variables,
                seed: side.seed,
                reader: self.readers.as_mut().map(|readers| readers.of(index, usize::from(flow.side))),
            };
            let mut cx = Context {
                now: self.now,
                recoveries: &mut self.recoveries,
                challenges: &mut self.challenges,
                counters: &side.counters,
                tunables: &side.tunables,
            };
            let waited = flow.pc == 0;
            let next = flow.go_on(&mut machine, &mut cx);
            // Over UDP it is not its program that shows that.
            if waited && flow.pc > 0 && !flow.has(flags::UDP) {
                self.is_found(index);
            }
            let goes_on = match next {
                None => return,
                Some(Transition::Switch(to)) => {
                    self.flows[index].clear(flags::INSTRUCTION_STARTED);
                    self.switch(index, TemplateIndex::new(to as usize));
                    true
                }
                Some(Transition::Open(template)) => self.open_another(index, template),
                Some(Transition::Name) => self.name_next(index),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// A flow goes on with another template's program, behind its `Connect` or `Accept`.
    pub(super) fn switch(&mut self, index: FlowIndex, next: TemplateIndex) {
        self.note_after(index);
        let flow = &mut self.flows[index];
        let new = flow.is_new();
        let from = &self.sides[usize::from(flow.side)].counters;
        flow.side = SideIndex::of(next, flow.has(flags::CLIENT)).in_flow();
        let to = &self.sides[usize::from(flow.side)].counters;
        flow.pc = u16::from(self.scenario.templates[next.position()].protocol == Protocol::Tcp);
        let found = new && !flow.is_new();
        from.one(Count::SwitchedOut);
        from.ended();
        to.one(Count::SwitchedIn);
        to.opened();
        if found {
            self.is_found(index);
        }
        self.note_before(index);
    }

    /// A connection to a server gets its first bytes: they choose its template, if they do so for any. False if they are no
    /// template's: it is reset.
    #[inline(never)]
    pub(super) fn choose(&mut self, index: FlowIndex, port: usize, first_bytes: &[u8]) -> bool {
        let flow = &self.flows[index];
        // They may come with the handshake's last segment: until that is read, the SYN counts as queued.
        let untouched = flow.state == State::SynReceived || flow.queued() == 0;
        let waits = flow.received == 0 && untouched && flow.pc <= 1 && !flow.has(flags::INSTRUCTION_STARTED);
        if flow.has(flags::CLIENT) || !waits {
            return true;
        }
        let Some(template) = self.server_for(port, &self.tuple_of(index), Protocol::Tcp, first_bytes) else {
            self.side(index).counters.one(Count::Unmatched);
            self.flows[index].reset();
            return false;
        };
        if template != SideIndex::of_flow(flow.side).template() {
            self.switch(index, template);
            if let Some(readers) = &mut self.readers {
                readers.restart(index);
            }
        }
        true
    }

    /// The first template that serves flows to this address and port, on a port of the engine, whatever their first bytes are.
    #[inline(always)]
    pub(super) fn first_server_for(&self, port: usize, tuple: &Tuple, protocol: Protocol) -> Option<TemplateIndex> {
        self.found.servers(&self.pools, port, protocol, tuple).next()
    }

    /// The template that serves flows to this address and port, on a port of the engine: one that knows it by its first
    /// bytes before one that takes any.
    pub(super) fn server_for(
        &self,
        port: usize,
        tuple: &Tuple,
        protocol: Protocol,
        first_bytes: &[u8],
    ) -> Option<TemplateIndex> {
        let (pools, templates) = (&self.pools, &self.scenario.templates);
        let serving = self.found.servers(pools, port, protocol, tuple);
        let knows = |template: &crate::Template, bytes: &[u8]| {
            template.first_bytes().iter().all(|(offset, wanted)| {
                let end = *offset as usize + wanted.len();
                bytes.get(*offset as usize..end) == Some(wanted)
            })
        };
        let mut any = None;
        for index in serving {
            let template = &templates[index.position()];
            if template.first_bytes().is_empty() {
                any = any.or(Some(index));
            } else if knows(template, first_bytes) {
                return Some(index);
            }
        }
        any
    }

    /// Whether an address of the scenario is on a port, and of which template's side.
    pub(super) fn owner(&self, port: usize, address: Address) -> Option<SideIndex> {
        self.found.owner(&self.pools, port, address)
    }
}
