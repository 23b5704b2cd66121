// SPDX-License-Identifier: Apache-2.0
//! Packets of streams: find by the trailer the stream of a packet, keep its sequence and measure its delay.
//!
//! The sequence of a stream and a sending worker has one owner, a worker that receives from the stream's port. A packet
//! that came in elsewhere is handed to the owner through a ring. When an owner is behind, so that a ring has no room for a
//! burst, this worker reads nothing more until there is (which is counted): packets wait in the device's queue, and none
//! is lost between workers. Workers do not wait for each other in a circle, since every worker empties its own rings first.
use std::{ops::Range, sync::Arc};

use spate_net::{FCS_LEN, Trailer, trailer};
use spate_stats::{Arrival, DelaySlot, Queue, Span, Tracker, Transit};

use super::{After, Arrivals, RunForeign, Sink};
use crate::datapath::{
    clock::Timescale,
    shared::RunShare,
    worker::{
        Device, WorkerRun,
        by_tag::ByTag,
        device::Packets as _,
        handed::{MeasuredPacket, TagNumber},
        stream_handoff::StreamHandoff,
    },
};
use crate::index::{RunSlot, StreamIndex, TrackerIndex, WorkerIndex};

/// In `RunReceive::by_id`: no such stream.
const NO_STREAM: u32 = u32::MAX;
/// In `Measure::slots`: no such run.
const NO_RUN: u8 = u8::MAX;

/// What a worker knows of the streams whose packets it receives.
pub(in crate::datapath::worker) struct Measure {
    worker: WorkerIndex,
    /// By run tag: the run's slot.
    slots: Box<[u8]>,
    /// Runs in `slots`: without any, no packet can carry a trailer of one.
    measured: usize,
    handoff: StreamHandoff,
}

impl Measure {
    /// Measurements of the worker with this number.
    pub(in crate::datapath::worker) fn new(worker: WorkerIndex, handoff: StreamHandoff) -> Self {
        Self { worker, slots: vec![NO_RUN; 1 << 16].into(), measured: 0, handoff }
    }

    /// Counts what other workers handed over. Returns how many packets that is.
    #[inline]
    pub(in crate::datapath::worker) fn take_handed<D: Device>(
        &mut self,
        runs: &mut [Option<Box<WorkerRun<D>>>],
    ) -> usize {
        self.handoff.take(|from, packet| {
            if let Some(run) = runs.get_mut(usize::from(packet.slot)).and_then(Option::as_mut)
                && run.tag == packet.trailer.run_tag
                && let Some(stream) = run.receive.stream(&packet.trailer)
            {
                let tracker = run.receive.owner(stream, packet.trailer.sender).tracker();
                if let Some(tag) = packet.tag {
                    count_by_tag(run, packet, tag, from, (stream, tracker));
                }
                let arrival = run.receive.arrival(from, packet, stream, tracker);
                count::<false, D>(run, packet, arrival, Many::ONE, stream, tracker);
            }
        })
    }

    /// Whether other workers have taken all that they were given.
    pub(in crate::datapath::worker) fn is_taken(&self) -> bool {
        self.handoff.is_taken()
    }

    /// Whether other workers may hand packets over.
    pub(in crate::datapath::worker) fn has_peers(&self) -> bool {
        self.handoff.has_peers()
    }
}

impl<D: Device> Sink<D> for Measure {
    fn know(&mut self, run: &WorkerRun<D>, slot: RunSlot) {
        if !run.receive.by_id.is_empty() {
            self.slots[usize::from(run.tag)] = slot.0 as u8;
            self.measured += 1;
        }
    }

    /// Packets with this tag are foreign.
    fn forget(&mut self, tag: u16, _: RunSlot) {
        if std::mem::replace(&mut self.slots[usize::from(tag)], NO_RUN) != NO_RUN {
            self.measured -= 1;
        }
    }

    #[inline]
    fn has_room(&mut self, _: &mut [Option<Box<WorkerRun<D>>>]) -> bool {
        self.handoff.has_room()
    }

    #[inline]
    fn reads_trailers(&self) -> bool {
        self.measured > 0
    }

    #[inline(always)]
    fn offer_sequence(
        &mut self,
        trailer: Trailer,
        first: usize,
        arrivals: &Arrivals<'_, D>,
        runs: &mut [Option<Box<WorkerRun<D>>>],
    ) -> usize {
        let (slot, port) = (self.slots[usize::from(trailer.run_tag)], arrivals.port.0 as u8);
        let bytes = arrivals.lens[first] + FCS_LEN as u32;
        let packet = MeasuredPacket { slot, port, tag: None, bytes, at_ns: arrivals.at_ns, trailer };
        let from_it = Following {
            burst: arrivals.burst,
            first,
            trailers: &arrivals.tails[first..],
            lens: &arrivals.lens[first..],
        };
        take(self.worker, &mut self.handoff, runs, &packet, &from_it, arrivals.sent_on)
    }

    #[inline]
    fn end(&mut self, _: &mut D::Burst, _: &mut After<'_, D>) {
        self.handoff.notify();
    }
}

/// What a worker needs to receive a run.
pub(in crate::datapath) struct RunReceive {
    /// From a stream's number in trailers to its index; no longer than it has to be.
    pub(in crate::datapath) by_id: Arc<[u32]>,
    /// Streams, by index.
    pub(in crate::datapath) streams: Arc<[StreamReceive]>,
    /// By (stream, sender): `stream * senders + sender`.
    pub(in crate::datapath) owners: Arc<[Owner]>,
    /// Workers of all engines that send the run.
    pub(in crate::datapath) senders: usize,
    /// Senders of this engine, which share its clock.
    pub(in crate::datapath) here: Range<usize>,
    /// Time scale of the run's time stamps.
    pub(in crate::datapath) timescale: Arc<Timescale>,
    /// The wall clocks of the other engines are known to agree with this one's, which time stamps are by.
    pub(in crate::datapath) clocks_agree: bool,
    /// Trackers of the sequences that this worker owns.
    pub(in crate::datapath) trackers: Box<[Tracker]>,
    /// By (tracker, receiving worker), for streams that several workers receive; else empty.
    pub(in crate::datapath) queues: Box<[Queue]>,
    /// By tracker, where delays are measured; else empty.
    pub(in crate::datapath) transits: Box<[Transit]>,
    /// What is done with packets that carry no trailer of the run.
    pub(in crate::datapath) foreign: RunForeign,
    /// If packets of some streams are counted by tag.
    pub(in crate::datapath) by_tag: Option<Box<ByTag>>,
}

/// Where a stream's packets belong, and what is measured of them.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct StreamReceive {
    /// Index of the port that should receive it.
    pub(in crate::datapath) port: Option<u16>,
    /// Several workers receive from that port.
    pub(in crate::datapath) wide: bool,
    /// Where its delays are counted.
    pub(in crate::datapath) delay: Option<DelayIndex>,
}

/// Indices in `RunShare`.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct DelayIndex {
    pub(in crate::datapath) slot: u32,
    pub(in crate::datapath) histogram: u32,
}

/// The worker that keeps a sequence.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct Owner {
    /// The owner's number, and a bit that no worker's number has if the stream is counted by tag. So packets of other streams are compared
    /// with the number of the worker that reads them, and with nothing else.
    worker: u16,
    /// Index among the trackers of that worker.
    tracker: u32,
}

impl Owner {
    const BY_TAG: u16 = 1 << 15;

    pub(in crate::datapath) fn new(worker: WorkerIndex, tracker: TrackerIndex, by_tag: bool) -> Self {
        Self { worker: worker.0 as u16 | if by_tag { Self::BY_TAG } else { 0 }, tracker: tracker.0 as u32 }
    }

    /// Whether a worker keeps it for a stream that is not counted by tag.
    #[inline(always)]
    fn is_simply(self, worker: WorkerIndex) -> bool {
        usize::from(self.worker) == worker.0
    }

    fn counts_by_tag(self) -> bool {
        self.worker & Self::BY_TAG != 0
    }

    pub(in crate::datapath) fn worker(self) -> WorkerIndex {
        WorkerIndex(usize::from(self.worker & !Self::BY_TAG))
    }

    #[inline(always)]
    pub(in crate::datapath) fn tracker(self) -> TrackerIndex {
        TrackerIndex(self.tracker as usize)
    }
}

/// Counts a packet and those that follow it in its sequence, or hands them to the worker that does; there is room for them. Gives how many
/// those are, 0 if it is of no stream here. A port that sends packets back is part of their way: they are not counted there unless that is
/// where they should arrive. `from_it` are all packets of the burst from this one on.
#[inline]
fn take<D: Device>(
    worker: WorkerIndex,
    handoff: &mut StreamHandoff,
    runs: &mut [Option<Box<WorkerRun<D>>>],
    packet: &MeasuredPacket,
    from_it: &Following<'_, D>,
    reflecting: bool,
) -> usize {
    let Some(run) = runs.get_mut(usize::from(packet.slot)).and_then(Option::as_mut) else { return 0 };
    let Some(stream) = run.receive.stream(&packet.trailer) else { return 0 };
    // Most often a burst has many of one stream, one after the other.
    let packets = Trailer::in_sequence(from_it.trailers);
    if reflecting && run.receive.streams[stream.0].port != packet.port() {
        return packets;
    }
    let owner = run.receive.owner(stream, packet.trailer.sender);
    let lens = &from_it.lens[..packets];
    let all = lens.iter().enumerate().map(|(index, len)| {
        let sequence = packet.trailer.sequence + index as u32;
        MeasuredPacket { bytes: *len + FCS_LEN as u32, trailer: Trailer { sequence, ..packet.trailer }, ..*packet }
    });
    if !owner.is_simply(worker) {
        if owner.counts_by_tag() {
            take_by_tag(worker, handoff, run, (stream, owner), all, from_it);
            return packets;
        }
        // The worker that read a packet notes when it arrived: its own are in order of time.
        let last = &run.share.rx[stream.0].last;
        last.arrived(packet.at_ns, |from_ns| keep_gap(&run.share, &run.receive, packet, stream, from_ns));
        for packet in all {
            let given = handoff.give(owner.worker(), packet);
            debug_assert!(given, "no more is read than there is room for");
        }
        return packets;
    }
    let tracker = owner.tracker();
    let receive = &mut run.receive;
    if packets > 1
        && !receive.streams[stream.0].wide
        && receive.trackers[tracker.0].receive_in_order(packet.trailer.sequence, packets as u32)
    {
        let bytes = lens.iter().map(|len| u64::from(*len) + FCS_LEN).sum();
        let many = Many { packets: packets as u64, bytes };
        count::<true, D>(run, packet, Arrival::InOrder, many, stream, tracker);
        return packets;
    }
    for packet in all {
        let arrival = run.receive.arrival(worker, &packet, stream, tracker);
        count::<true, D>(run, &packet, arrival, Many::ONE, stream, tracker);
    }
    packets
}

/// Counts packets of a stream that is counted by tag, each by itself, or hands them to the worker that does.
#[inline(never)]
fn take_by_tag<D: Device>(
    worker: WorkerIndex,
    handoff: &mut StreamHandoff,
    run: &mut WorkerRun<D>,
    (stream, owner): (StreamIndex, Owner),
    packets: impl Iterator<Item = MeasuredPacket>,
    from_it: &Following<'_, D>,
) {
    let (here, tracker) = (owner.worker() == worker, owner.tracker());
    for (index, mut packet) in packets.enumerate() {
        // Where it is misdirected it is counted by no tag.
        let expected = run.receive.streams[stream.0].port == packet.port();
        if let Some(by_tag) = run.receive.by_tag.as_ref().filter(|_| expected) {
            packet.tag = by_tag.number(stream, from_it.burst.head(from_it.first + index));
        }
        if here {
            if let Some(tag) = packet.tag {
                count_by_tag(run, &packet, tag, worker, (stream, tracker));
            }
            let arrival = run.receive.arrival(worker, &packet, stream, tracker);
            count::<true, D>(run, &packet, arrival, Many::ONE, stream, tracker);
        } else {
            let last = &run.share.rx[stream.0].last;
            last.arrived(packet.at_ns, |from_ns| keep_gap(&run.share, &run.receive, &packet, stream, from_ns));
            let given = handoff.give(owner.worker(), packet);
            debug_assert!(given, "no more is read than there is room for");
        }
    }
}

/// Counts a packet that worker `from` received by its tag.
#[inline(never)]
fn count_by_tag<D: Device>(
    run: &mut WorkerRun<D>,
    packet: &MeasuredPacket,
    tag: TagNumber,
    from: WorkerIndex,
    of: (StreamIndex, TrackerIndex),
) {
    if let Some(by_tag) = &mut run.receive.by_tag {
        by_tag.count(&run.share, packet, tag, from, of);
    }
}

/// Packets of a burst from one of them on.
struct Following<'a, D: Device> {
    burst: &'a D::Burst,
    /// Index of the first in the burst.
    first: usize,
    trailers: &'a [[u8; trailer::LEN]],
    /// Without FCS.
    lens: &'a [u32],
}

/// Packets in order that arrived together, after the same delay.
#[derive(Clone, Copy)]
struct Many {
    packets: u64,
    /// FCS included, if they are more than one.
    bytes: u64,
}

impl Many {
    const ONE: Self = Self { packets: 1, bytes: 0 };
}

/// Counts a packet of a sequence that this worker owns, or many in order of which it is the first; `HERE`: this worker received it.
#[inline(always)]
fn count<const HERE: bool, D: Device>(
    run: &mut WorkerRun<D>,
    packet: &MeasuredPacket,
    arrival: Arrival,
    many: Many,
    stream: StreamIndex,
    tracker: TrackerIndex,
) {
    let receive = &mut run.receive;
    let trailer = &packet.trailer;
    let facts = &receive.streams[stream.0];
    let misdirected = facts.port != packet.port();
    let slot = &run.share.rx[stream.0];
    let packets = many.packets;
    if packets > 1 {
        slot.received_in_order(trailer.measured, packets, many.bytes, misdirected);
    } else {
        slot.received(trailer.measured, u64::from(packet.bytes), arrival, misdirected);
    }
    if arrival != Arrival::InOrder {
        slot.missing(trailer.measured, receive.trackers[tracker.0].take_missing(), packet.at_ns);
    }
    if HERE {
        slot.last.arrived(packet.at_ns, |from_ns| keep_gap(&run.share, receive, packet, stream, from_ns));
    }
    if let Some(place) = facts.delay
        && trailer.measured
        && arrival != Arrival::Duplicate
    {
        let slot = &run.share.delays[place.slot as usize];
        let here = receive.here.contains(&usize::from(trailer.sender));
        let delay_ns = if here {
            receive.timescale.since_own_stamp(trailer.timestamp, packet.at_ns)
        } else {
            receive.timescale.since_stamp(trailer.timestamp, packet.at_ns)
        };
        if let Some(difference) = receive.transits[tracker.0].difference(delay_ns) {
            slot.difference(difference);
        }
        if packets > 1 {
            slot.no_difference(packets - 1);
        }
        if !here && !receive.knows_delays() {
            slot.unknown(packets);
        } else {
            let delay_ns = if here { delay_ns } else { between_engines(slot, &receive.timescale, delay_ns, packets) };
            slot.delay(delay_ns, packets);
            if let (Ok(ns), Some(histogram)) =
                (u64::try_from(delay_ns), &run.share.histograms[place.histogram as usize])
            {
                histogram.record_many(ns, packets);
            }
        }
    }
}

/// Keeps the time before a packet's arrival if it is one of the longest, and the packet's delay.
#[cold]
#[inline(never)]
fn keep_gap(share: &RunShare, receive: &RunReceive, packet: &MeasuredPacket, stream: StreamIndex, from_ns: u64) {
    share.keep_gap(stream, Span { from_ns, to_ns: packet.at_ns }, packet.trailer.measured);
    if packet.trailer.measured
        && let (Some(gaps), Some(delay_ns)) = (&share.gaps[stream.0], receive.delay_of(packet))
    {
        gaps.delayed(delay_ns);
    }
}

/// The delay of packets of another engine. By a reference clock it is 0 at least: what is negative is the error of that clock, and the true
/// delay is smaller than the error.
#[inline]
fn between_engines(slot: &DelaySlot, timescale: &Timescale, delay_ns: i64, packets: u64) -> i64 {
    slot.between_engines(packets);
    if delay_ns < 0 && timescale.is_common() {
        slot.early(packets);
        return 0;
    }
    delay_ns
}

impl RunReceive {
    /// Whether time stamps of other engines are by a clock that agrees with this one's.
    #[inline]
    fn knows_delays(&self) -> bool {
        self.clocks_agree || self.timescale.is_common()
    }

    /// How long a packet was under way; none if the clock of its sender is not known to agree with this one's.
    fn delay_of(&self, packet: &MeasuredPacket) -> Option<u64> {
        let (trailer, at_ns) = (&packet.trailer, packet.at_ns);
        let delay_ns = match self.here.contains(&usize::from(trailer.sender)) {
            true => self.timescale.since_own_stamp(trailer.timestamp, at_ns),
            false if self.knows_delays() => self.timescale.since_stamp(trailer.timestamp, at_ns),
            false => return None,
        };
        Some(delay_ns.max(0).cast_unsigned())
    }

    /// How a packet arrived that worker `from` received, by the sequence that it belongs to.
    #[inline(always)]
    fn arrival(
        &mut self,
        from: WorkerIndex,
        packet: &MeasuredPacket,
        stream: StreamIndex,
        tracker: TrackerIndex,
    ) -> Arrival {
        let sequence = packet.trailer.sequence;
        if self.streams[stream.0].wide {
            let workers = self.queues.len() / self.trackers.len();
            self.trackers[tracker.0].receive_from(&mut self.queues[tracker.0 * workers + from.0], sequence)
        } else {
            self.trackers[tracker.0].receive(sequence)
        }
    }

    /// The stream that a trailer names, if there is one and a worker of that number sends it.
    #[inline]
    fn stream(&self, trailer: &Trailer) -> Option<StreamIndex> {
        let stream = *self.by_id.get(usize::from(trailer.stream))?;
        (stream != NO_STREAM && usize::from(trailer.sender) < self.senders).then_some(StreamIndex(stream as usize))
    }

    #[inline]
    fn owner(&self, stream: StreamIndex, sender: u8) -> Owner {
        self.owners[stream.0 * self.senders + usize::from(sender)]
    }

    /// From the ids of streams, none for those that are not measured, to their indices.
    pub(in crate::datapath) fn index_by_id(ids: impl Iterator<Item = Option<u16>>) -> Arc<[u32]> {
        let mut by_id = Vec::new();
        for (index, id) in ids.enumerate() {
            let Some(id) = id.map(usize::from) else { continue };
            if by_id.len() <= id {
                by_id.resize(id + 1, NO_STREAM);
            }
            by_id[id] = index as u32;
        }
        by_id.into()
    }
}
