// SPDX-License-Identifier: Apache-2.0
//! Packets that carry no trailer of a run here: recognized by a mark, or measured by a receiver (`receivers`).
//!
//! Runs do so from their start until they are closed. A mark does not say of which phase a packet is: what arrives before
//! the warm-up has passed counts as the warm-up's.
use std::sync::Arc;

use spate_net::{Headers, Mark, reflect::Rules};

use super::{After, Inlet, Packet, RunReceiver, Sink};
use crate::datapath::worker::{Device, WorkerRun, change::MAX_RUNS};
use crate::index::{PortIndex, RunSlot, StreamIndex};

/// In the tables of `Marks`: no such mark.
const NO_STREAM: u32 = u32::MAX;

/// What a run does with packets that carry no trailer of it.
pub(in crate::datapath) struct RunForeign {
    pub(in crate::datapath) marks: Option<Arc<Marks>>,
    /// Rules of reflectors, by port.
    pub(in crate::datapath) reflectors: Arc<[(PortIndex, Rules)]>,
    /// Receivers, by their order in the run.
    pub(in crate::datapath) receivers: Box<[RunReceiver]>,
    /// Other clocks are known to agree with this one.
    pub(in crate::datapath) clocks_agree: bool,
}

/// From marks to indices of streams; no longer than they have to be.
#[derive(Debug, Default)]
pub(in crate::datapath) struct Marks {
    ipv4_identification: Vec<u32>,
    ipv6_flow_label: Vec<u32>,
}

impl Marks {
    /// The table of some marks; of streams that share one, the first stands for all. None if there are no marks.
    pub(in crate::datapath) fn new(marks: impl Iterator<Item = (StreamIndex, Mark)>) -> Option<Self> {
        let mut this = Self::default();
        for (stream, mark) in marks {
            let (table, at) = match mark {
                Mark::Ipv4Identification(id) => (&mut this.ipv4_identification, usize::from(id)),
                Mark::Ipv6FlowLabel(label) => (&mut this.ipv6_flow_label, label as usize),
            };
            if table.len() <= at {
                table.resize(at + 1, NO_STREAM);
            }
            if table[at] == NO_STREAM {
                table[at] = stream.0 as u32;
            }
        }
        let some = !this.ipv4_identification.is_empty() || !this.ipv6_flow_label.is_empty();
        some.then_some(this)
    }

    /// The stream with a mark.
    #[inline]
    pub(super) fn stream(&self, mark: Mark) -> Option<StreamIndex> {
        let stream = match mark {
            Mark::Ipv4Identification(id) => *self.ipv4_identification.get(usize::from(id))?,
            Mark::Ipv6FlowLabel(label) => *self.ipv6_flow_label.get(label as usize)?,
        };
        (stream != NO_STREAM).then_some(StreamIndex(stream as usize))
    }
}

/// The runs that do something with packets on a port that carry no trailer of theirs.
pub(in crate::datapath::worker) struct Foreign {
    port: PortIndex,
    /// Slots of runs that have marks, reflectors of the port or receivers of it.
    slots: Vec<RunSlot>,
}

impl Foreign {
    pub(super) fn new(inlet: &Inlet) -> Self {
        Self { port: inlet.port, slots: Vec::with_capacity(MAX_RUNS) }
    }

    /// Counts a packet where it has a mark of a run (true), else for the receivers of its port.
    fn watch<D: Device>(&self, packet: &Packet<'_>, clock: &D::Clock, runs: &mut [Option<Box<WorkerRun<D>>>]) -> bool {
        let headers = Headers::find(packet.frame);
        let mark = headers.and_then(|headers| Mark::read(packet.frame, &headers));
        for slot in &self.slots {
            let Some(run) = &mut runs[slot.0] else { continue };
            if let (Some(marks), Some(mark), Some(at)) = (&run.receive.foreign.marks, mark, run.time(packet.at_ns))
                && let Some(stream) = marks.stream(mark)
            {
                let misdirected = run.receive.streams[stream.0].port != Some(self.port.0 as u16);
                let measured = at >= run.warmup_ns;
                run.share.rx[stream.0].marked(measured, packet.bytes(), misdirected);
                run.share.note_arrival(stream, packet.arrived_ns, measured);
                return true;
            }
        }
        for slot in &self.slots {
            let Some(run) = &mut runs[slot.0] else { continue };
            if run.time(packet.at_ns).is_some() {
                run.count_foreign(self.port, packet, headers.as_ref(), clock);
            }
        }
        false
    }
}

impl<D: Device> Sink<D> for Foreign {
    fn know(&mut self, run: &WorkerRun<D>, slot: RunSlot) {
        let foreign = &run.receive.foreign;
        let reflects = || foreign.reflectors.iter().any(|(port, _)| *port == self.port);
        if foreign.marks.is_some() || reflects() || foreign.receivers.iter().any(|r| r.port == self.port) {
            self.slots.push(slot);
        }
    }

    fn forget(&mut self, _: u16, slot: RunSlot) {
        self.slots.retain(|watching| *watching != slot);
    }

    /// Receivers measure packets of other engines' runs, too.
    #[inline(always)]
    fn reads_trailers(&self) -> bool {
        !self.slots.is_empty()
    }

    #[inline(always)]
    fn offer(&mut self, packet: &mut Packet<'_>, clock: &D::Clock, runs: &mut [Option<Box<WorkerRun<D>>>]) -> bool {
        !self.slots.is_empty() && self.watch(packet, clock, runs)
    }

    #[inline]
    fn end(&mut self, _: &mut D::Burst, after: &mut After<'_, D>) {
        for run in self.slots.iter().filter_map(|slot| after.runs[slot.0].as_ref()) {
            run.publish_foreign(self.port);
        }
    }
}

impl<D: Device> WorkerRun<D> {
    /// Run time at a monotonic instant, from its start until it is closed.
    #[inline]
    pub(super) fn time(&self, at_ns: u64) -> Option<u64> {
        if self.share.closed.is_up() {
            return None;
        }
        self.clock.at(at_ns).and_then(|at| u64::try_from(at).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_mark_counts_for_the_first_and_others_are_none() {
        let id = Mark::Ipv4Identification;
        let marks = [(3, id(7)), (5, id(7)), (6, id(65_535)), (8, Mark::Ipv6FlowLabel(7))];
        let marks = Marks::new(marks.into_iter().map(|(stream, mark)| (StreamIndex(stream), mark))).unwrap();
        let streams = [id(7), id(8), id(65_535), Mark::Ipv6FlowLabel(7), Mark::Ipv6FlowLabel(0xf_ffff)];
        assert_eq!(
            streams.map(|mark| marks.stream(mark).map(|stream| stream.0)),
            [Some(3), None, Some(6), Some(8), None]
        );
        assert!(Marks::new(std::iter::empty()).is_none());
    }
}
