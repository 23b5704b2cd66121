// SPDX-License-Identifier: Apache-2.0
//! Sending: answers to segments of no open flow first, then flows in turn.
use super::{Stack, leased::LeasedClient, side_index::SideIndex};
use crate::{
    Address,
    counters::Count,
    flow::{FlowIndex, State, flags},
    offload::OffloadRequest,
    packet::{Endpoints, LowerHeaders, Options, TCP_HEADER},
    slab::NONE,
    tcp::{Context, Data, Instant, Output, SendOutcome, Sources},
};

/// What is left of frames for the device behind an output.
#[inline]
fn finish(out: &impl Output) -> OffloadRequest {
    if out.offloads_checksums() { OffloadRequest::Checksums } else { OffloadRequest::Nothing }
}

impl Stack {
    /// Whether a port has something to send.
    #[inline]
    pub fn is_ready(&self, port: usize) -> bool {
        let port = &self.ports[port];
        port.ready.head != FlowIndex::NONE || !port.answers.is_empty()
    }

    #[inline]
    pub(super) fn enqueue(&mut self, index: FlowIndex) {
        let flow = &mut self.flows[index];
        let port = self.sides[usize::from(flow.side)].port;
        flow.set(flags::READY);
        debug_assert_eq!(flow.ready_next, FlowIndex::NONE, "it is in no queue");
        let queue = &mut self.ports[port].ready;
        let tail = core::mem::replace(&mut queue.tail, index);
        if tail == FlowIndex::NONE {
            queue.head = index;
        } else {
            self.flows[tail].ready_next = index;
        }
    }

    /// Takes the first out of a port's queue. Whether nothing is to be done for it now (see `Flow::rests`).
    #[inline]
    pub(super) fn dequeue(&mut self, port: usize, index: FlowIndex) -> bool {
        let flow = &mut self.flows[index];
        flow.clear(flags::READY);
        let (next, rests) = (core::mem::replace(&mut flow.ready_next, FlowIndex::NONE), flow.rests());
        let queue = &mut self.ports[port].ready;
        debug_assert_eq!(queue.head, index);
        queue.head = next;
        if next == FlowIndex::NONE {
            queue.tail = FlowIndex::NONE;
        }
        rests
    }

    /// Writes what a port has to send, as long as there is room.
    pub fn transmit(&mut self, port: usize, now_ns: u64, out: &mut impl Output) {
        self.now = Instant { ns: now_ns };
        let (finish, mac) = (finish(out), self.ports[port].link.mac);
        while let Some(answer) = self.ports[port].answers.front() {
            let options = Options::default();
            let Some(frame) = out.frame(answer.below.len() + TCP_HEADER) else { return };
            let below = LowerHeaders { finish, ..answer.below };
            below.write_tcp(frame, &answer.head, &options, (0, 0));
            self.sides[answer.side.position()].counters.one(Count::ResetsSent);
            self.sides[answer.side.position()].counters.one(Count::StraysRefused);
            self.ports[port].answers.pop_front();
        }
        while self.ports[port].ready.head != FlowIndex::NONE {
            let index = self.ports[port].ready.head;
            self.note_before(index);
            let flow = &self.flows[index];
            // Each family has its own code, in which it is known.
            let outcome = if !flow.is_plain() {
                self.turn_rare(index, mac, out)
            } else if flow.has(flags::V6) {
                let [source, destination] = self.v6(index);
                self.turn::<true>(index, mac, Endpoints::V6 { source, destination }, out)
            } else {
                let (source, destination) = (flow.local, flow.remote);
                self.turn::<true>(index, mac, Endpoints::V4 { source, destination }, out)
            };
            match outcome {
                SendOutcome::NoRoom => return self.note_after(index),
                outcome @ (SendOutcome::Done | SendOutcome::More) => {
                    self.note_after(index);
                    if !self.dequeue(port, index) {
                        self.settle_noted(index);
                    }
                    debug_assert!(outcome == SendOutcome::Done || self.flows[index].has(flags::READY), "it has more");
                }
            }
        }
    }

    /// A flow's turn to send, if it is not the common case.
    #[inline(never)]
    fn turn_rare(&mut self, index: FlowIndex, mac: [u8; 6], out: &mut impl Output) -> SendOutcome {
        let flow = &self.flows[index];
        let ends = if flow.has(flags::V6) {
            let [source, destination] = self.v6(index);
            Endpoints::V6 { source, destination }
        } else {
            Endpoints::V4 { source: flow.local, destination: flow.remote }
        };
        self.turn::<false>(index, mac, ends, out)
    }

    /// A flow's turn to send, from the MAC of its port; with `PLAIN`, in the common case of `Flow::is_plain`.
    #[inline(always)]
    fn turn<const PLAIN: bool>(
        &mut self,
        index: FlowIndex,
        mac: [u8; 6],
        ends: Endpoints,
        out: &mut impl Output,
    ) -> SendOutcome {
        let flow = &mut self.flows[index];
        let side = &self.sides[usize::from(flow.side)];
        let mut source = mac;
        if side.own_macs {
            let client = match ends {
                Endpoints::V4 { source, .. } => Address::v4(source),
                Endpoints::V6 { source, .. } => source,
            };
            let own = match self.leased.get(index.position()) {
                Some(&LeasedClient { pool, offset }) if pool != NONE => self.pools[pool as usize].mac(offset.into()),
                _ => self.found.own_mac(&self.pools, SideIndex::of_flow(flow.side).template(), client),
            };
            if let Some(own) = own {
                source = own;
            }
        }
        let data = Data { payloads: &self.scenario.payloads, backlogs: &self.backlogs };
        let from = Sources { mac: source, ends, id: flow.snd_nxt as u16, finish: finish(out), data };
        let mut cx = Context {
            now: self.now,
            recoveries: &mut self.recoveries,
            challenges: &mut self.challenges,
            counters: &side.counters,
            tunables: &side.tunables,
        };
        if PLAIN {
            return flow.output_plain(&mut cx, &from, out);
        }
        if flow.state == State::Datagrams {
            let before = cx.counters.get(Count::MessagesSent);
            let turn = flow.output_datagrams(&mut cx, &from, out);
            let sent = side.counters.get(Count::MessagesSent) - before;
            if let Some(replies) = &mut self.replies {
                replies[index.position()].sent(sent, self.now.ns);
            }
            if sent > 0 && !flow.has(flags::CLIENT) && flow.has(flags::SILENT) {
                flow.clear(flags::SILENT);
                self.is_found(index);
            }
            let flow = &self.flows[index];
            if turn == SendOutcome::Done && flow.state == State::Datagrams {
                self.go_on_by_all(index);
            }
            return turn;
        }
        flow.output_rare(&mut cx, &from, out)
    }
}
