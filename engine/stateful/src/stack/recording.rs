// SPDX-License-Identifier: Apache-2.0
//! Where a stack's work for a flow begins and ends, for the records of flows: see [`Records`].
use super::{Key, Stack, Tuple, hash_keys::HashKeys};
use crate::{
    counters::Count,
    flow::{FlowIndex, State, flags},
    records::{Ended, Recorder, Records},
};

impl Stack {
    /// Flows that begin from now on are recorded. Takes all memory that this needs.
    pub fn record(&mut self, recorder: Recorder) {
        self.records = Some(Box::new(Records::new(self.flows.capacity(), recorder)));
        self.looks_into = true;
    }

    /// Whether flows that end from now on are cut off.
    pub(super) fn note_aborting(&mut self, aborting: bool) {
        if let Some(records) = &mut self.records {
            records.set_aborting(aborting);
        }
    }

    /// A flow begins.
    #[inline]
    pub(super) fn note_begin(&mut self, index: FlowIndex, tuple: &Tuple, udp: bool) {
        if let Some(records) = &mut self.records {
            let seen_by_peer = Tuple {
                local: tuple.remote,
                remote: tuple.local,
                local_port: tuple.remote_port,
                remote_port: tuple.local_port,
            };
            // The same at both ends, whatever their secrets.
            let common = &HashKeys::COMMON;
            let hashes = [*tuple, seen_by_peer].map(|tuple| Key::of(&tuple, udp, common).hash(common)).into();
            records.begin(index, hashes, self.now.ns);
        }
    }

    /// From now on the stack works for a flow.
    #[inline]
    pub(super) fn note_before(&mut self, index: FlowIndex) {
        if self.records.as_ref().is_some_and(|records| records.records(index)) {
            self.before(index);
        }
    }

    /// The stack has worked for a flow.
    #[inline]
    pub(super) fn note_after(&mut self, index: FlowIndex) {
        if self.works_for == index {
            self.after(index);
        }
    }

    #[inline(never)]
    fn before(&mut self, index: FlowIndex) {
        let side = usize::from(self.flows[index].side);
        let Some(records) = &mut self.records else { return };
        records.before(self.flows[index].has(flags::UDP), &self.sides[side].counters);
        self.works_for = index;
    }

    #[inline(never)]
    fn after(&mut self, index: FlowIndex) {
        self.works_for = FlowIndex::NONE;
        let side = usize::from(self.flows[index].side);
        let Some(records) = &mut self.records else { return };
        let flow = &self.flows[index];
        let established = !matches!(flow.state, State::Closed | State::SynSent | State::SynReceived);
        records.after(index, flow.has(flags::UDP), established, &self.sides[side].counters, self.now.ns);
    }

    /// A flow has ended.
    #[inline]
    pub(super) fn note_end(&mut self, index: FlowIndex) {
        if self.records.as_ref().is_some_and(|records| records.records(index)) {
            self.write_record(index);
        }
    }

    #[inline(never)]
    fn write_record(&mut self, index: FlowIndex) {
        let (tuple, side) = (self.tuple_of(index), usize::from(self.flows[index].side));
        let Some(records) = &mut self.records else { return };
        let flow = &self.flows[index];
        let ended = Ended {
            tuple,
            number: flow.number,
            template: flow.template() as u16,
            client: flow.has(flags::CLIENT),
            udp: flow.has(flags::UDP),
            peer_closed: flow.has(flags::FIN_RECEIVED),
            round_trip_ns: if flow.has(flags::UDP) { 0 } else { u64::from(flow.srtt) << 10 },
        };
        let counters = &self.sides[side].counters;
        if !records.end(index, &ended, counters, self.now.ns) {
            counters.one(Count::RecordsDropped);
        }
    }
}
