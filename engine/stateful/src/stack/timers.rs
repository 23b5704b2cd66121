// SPDX-License-Identifier: Apache-2.0
//! When a flow is looked at again: by its deadline in the wheel, in its turn to send, at the end of TIME-WAIT, or never.
use spate_arch::fetch;

use super::{Stack, key::Key};
use crate::{
    counters::Count,
    flow::{Flow, FlowIndex, State, flags},
    slab::Slab,
    tcp::Instant,
    time_wait,
    wheel::{self, TimerNode, TimerNodes},
};

/// Interval at which a connection in its handshake is checked: a lost segment is noticed no later (see `arm_retransmit`).
const HANDSHAKE_NS: u64 = 200_000_000;

impl TimerNodes for Slab<Flow> {
    #[inline]
    fn link(&mut self, index: u32) -> &mut TimerNode {
        &mut self[FlowIndex::new(index)].link
    }
}

impl Stack {
    /// Time goes on: what was waited for happens. Whether anything did.
    pub fn advance(&mut self, now_ns: u64) -> bool {
        self.now = Instant { ns: now_ns };
        let to = wheel::tick_at(now_ns);
        let mut happened = false;
        while let Some(index) = self.wheel.take_due(&mut self.flows, to) {
            self.expire(FlowIndex::new(index));
            happened = true;
        }
        self.end_time_waits(to) || happened
    }

    /// TIME-WAIT is over up to a tick. Whether any was.
    fn end_time_waits(&mut self, to: u32) -> bool {
        let mut due = [time_wait::Entry { index: FlowIndex::NONE, at: 0 }; time_wait::BATCH];
        let mut happened = false;
        loop {
            let count = self.time_waits.take_due(to, &mut due);
            if count == 0 {
                return happened;
            }
            happened = true;
            let due = &due[..count];
            for entry in due {
                // Else it has ended before, or waits again.
                let flow = &mut self.flows[entry.index];
                if flow.state != State::TimeWait || !flow.link.is_elsewhere(entry.at) {
                    continue;
                }
                if flow.ends_at(entry.at) {
                    flow.state = State::Closed;
                    self.forget(entry.index);
                } else {
                    self.expire(entry.index);
                }
            }
            let (flows, uppers, table, keys) = (&self.flows, &self.uppers, &self.table, &self.secrets.hash);
            self.time_waits.look_ahead(
                |index| {
                    fetch(&flows[index]);
                    if let Some(upper) = uppers.get(index.position()) {
                        fetch(upper);
                    }
                },
                |index| table.fetch(Key::of_flow(&flows[index], uppers.get(index.position()), keys).hash(keys)),
            );
        }
    }

    fn expire(&mut self, index: FlowIndex) {
        let tick = wheel::tick_at(self.now.ns);
        let flow = &self.flows[index];
        if flow.state == State::Closed {
            return;
        }
        let program_waits = flow.has(flags::PROGRAM_WAITS) && !wheel::before(tick, flow.program_at);
        self.note_before(index);
        let (flow, mut cx, _) = self.parts(index);
        if flow.state == State::Datagrams {
            flow.silent(&mut cx);
        } else {
            flow.on_time(&mut cx);
        }
        if program_waits {
            let flow = &mut self.flows[index];
            if !flow.has(flags::INSTRUCTION_STARTED) {
                flow.clear(flags::PROGRAM_WAITS);
            }
            self.go_on_by_all(index);
        }
        self.settle(index);
    }

    /// When something is to be done at the latest, in ns; none if only a frame can change that.
    pub fn next_due_ns(&self) -> Option<u64> {
        if (0..self.ports.len()).any(|port| self.is_ready(port)) || self.is_asked_to_open() {
            return Some(self.now.ns);
        }
        let earlier = |one: u32, other: u32| if wheel::before(one, other) { one } else { other };
        let next = self.wheel.next().into_iter().chain(self.time_waits.next()).reduce(earlier)?;
        let ahead = next.wrapping_sub(wheel::tick_at(self.now.ns)) as i32;
        let tick = (self.now.ns >> wheel::TICK_SHIFT).wrapping_add_signed(i64::from(ahead));
        Some(tick << wheel::TICK_SHIFT)
    }

    /// After something has happened to a flow: gives it its turn to send, which sets its timer too, or sets that now, or
    /// forgets the flow.
    #[inline(always)]
    pub(super) fn settle(&mut self, index: FlowIndex) {
        self.note_after(index);
        self.settle_noted(index);
    }

    /// The same of a flow for which the stack no longer works.
    #[inline(always)]
    pub(super) fn settle_noted(&mut self, index: FlowIndex) {
        match self.flows[index].state {
            State::Closed => self.settle_closed(index),
            State::TimeWait => self.settle_time_wait(index),
            _ => self.settle_open(index),
        }
    }

    #[inline(never)]
    fn settle_closed(&mut self, index: FlowIndex) {
        self.is_open_no_more(index);
        if !self.flows[index].has(flags::READY) {
            self.forget(index);
        }
    }

    #[inline(never)]
    fn settle_time_wait(&mut self, index: FlowIndex) {
        self.is_open_no_more(index);
        if !self.ends_in_turn(index) {
            self.settle_open(index);
        }
    }

    /// Moves a flow that only waits for the end of TIME-WAIT from the wheel to the queue. False if it waits for more, or there is no room.
    #[inline]
    fn ends_in_turn(&mut self, index: FlowIndex) -> bool {
        let flow = &self.flows[index];
        let at = flow.wait_at;
        if flow.any(flags::HAS_OUTPUT) || flow.flags & flags::TIMED_AT_ALL != flags::WAITING {
            return false;
        }
        if flow.link.is_elsewhere(at) {
            return true;
        }
        let fits = self.time_waits.push(index, at);
        if fits {
            self.wheel.cancel(&mut self.flows, index.position() as u32);
            self.flows[index].link = TimerNode::elsewhere(at);
        }
        fits
    }

    /// Its turn to send, or its timer.
    #[inline(always)]
    pub(super) fn settle_open(&mut self, index: FlowIndex) {
        let flow = &self.flows[index];
        if flow.any(flags::HAS_OUTPUT) {
            if !flow.has(flags::READY) {
                self.enqueue(index);
            }
        } else if flow.any(flags::TIMED_AT_ALL) {
            self.set_timer(index);
        }
    }

    /// The wheel wakes it up at its earliest deadline, or before.
    #[inline]
    fn set_timer(&mut self, index: FlowIndex) {
        let flow = &self.flows[index];
        let mut at = flow.deadline();
        if matches!(flow.state, State::SynSent | State::SynReceived) {
            // Before any deadline that it will have next, so that most need no other entry.
            let soon = self.now.tick_in(HANDSHAKE_NS);
            at = if wheel::before(soon, at) { soon } else { at };
        }
        if flow.link.at().is_none_or(|set| wheel::before(at, set)) {
            self.wheel.reset(&mut self.flows, index.position() as u32, at);
        }
    }

    /// A flow is closed, or in TIME-WAIT: it is open no more.
    #[inline(always)]
    fn is_open_no_more(&mut self, index: FlowIndex) {
        let flow = &mut self.flows[index];
        if flow.has(flags::OPEN) {
            flow.clear(flags::OPEN);
            let side = &self.sides[usize::from(flow.side)];
            side.counters.ended();
            side.counters.one(Count::FlowsClosed);
            if flow.is_new() {
                self.is_found(index);
            }
            self.note_end(index);
            if self.opens.is_some() {
                self.part(index);
            }
        }
    }

    fn forget(&mut self, index: FlowIndex) {
        self.wheel.cancel(&mut self.flows, index.position() as u32);
        let flow = &mut self.flows[index];
        flow.release(&mut self.recoveries);
        flow.drop_backlog(&mut self.backlogs);
        let keys = &self.secrets.hash;
        let key = Key::of_flow(flow, self.uppers.get(index.position()), keys);
        let held = self.table.remove(key.hash(keys), index);
        if let Some(readers) = &mut self.readers {
            readers.release(index);
        }
        debug_assert!(held, "every flow is in the table");
        self.flows.give(index);
    }
}
