// SPDX-License-Identifier: Apache-2.0
//! Segments of flows whose programs wait for the end of a message: what they bring is looked through as it is taken in.
use super::Stack;
use crate::{
    application::reader::Readers,
    counters::Count,
    flow::{FlowIndex, flags},
    packet::Segment,
};

impl Stack {
    /// A segment of a flow arrives. It is looked through if there are readers. Whether the flow's program may go on.
    pub(super) fn input_and_read(&mut self, index: FlowIndex, s: &Segment<'_>, ecn: u8) -> bool {
        let flow = &self.flows[index];
        let side = usize::from(flow.side);
        let room = self.readers.as_mut().map_or(usize::MAX, |readers| readers.room(index, side, flow, s));
        let (flow, mut cx, backlogs) = self.parts(index);
        let progress = if room >= s.payload.len() {
            flow.input(s, ecn, &mut cx, backlogs)
        } else {
            // As if the rest had been lost; what it acknowledges holds.
            cx.counters.one(Count::OutOfOrderDropped);
            let progress = flow.input_some(s, ecn, room, &mut cx, backlogs);
            flow.set(flags::ACK_NOW | flags::OUTPUT);
            progress
        };
        if let Some(readers) = &mut self.readers {
            readers.take(index, side, &self.flows[index], s, &self.recoveries);
        }
        progress
    }

    /// Chunks of received bytes that flows hold.
    pub fn held_chunks(&self) -> usize {
        self.readers.as_ref().map_or(0, Readers::held)
    }
}
