// SPDX-License-Identifier: Apache-2.0
//! Reception: read, find by the trailer the stream of a packet, keep its sequence and measure its delay.
//!
//! The sequence of a stream and a sending worker has one owner, a worker that receives from the stream's port. A packet
//! that came in elsewhere is handed to the owner through a ring. When an owner is behind, so that a ring has no room for a
//! burst, this worker reads nothing more until there is (which is counted): packets wait in the device's queue, and none
//! is lost between workers. Nobody waits in a circle, since every worker empties its own rings first.
//!
//! A packet's arrival is the clock right after the burst it came in was read: late by at most the time since this worker
//! looked at that queue before, never early.
use std::{ops::Range, sync::Arc};

use spate_dpdk::{BURST, KernelSocket};
use spate_net::{FCS_LEN, Trailer, trailer};
use spate_stateful::Hints;
use spate_stats::{Arrival, DelaySlot, Queue, Span, Tracker, Transit};

use super::{
    Device, Dpdk, Time, WorkerRun,
    attach::{Attachment, Received, Taps},
    by_tag::{ByTag, TagNumber},
    device::{Packets, RxDevice},
    flows::{Arrived, Demux, Emulated},
    foreign::{self, RunForeign},
    outlet::TxPort,
    stream_handoff::StreamHandoff,
};
use crate::datapath::{
    clock::Timescale,
    command::RUNS,
    shared::{QueueShare, RunShare},
};

/// In `RunReceive::by_id`: no such stream.
const NO_STREAM: u32 = u32::MAX;
/// In `Receiver::slots`: no such run.
const NO_RUN: u8 = u8::MAX;

/// What a worker needs to receive a run.
pub(in crate::datapath) struct RunReceive {
    /// From a stream's number in trailers to its index; no longer than it has to be.
    pub(in crate::datapath) by_id: Arc<[u32]>,
    /// By index.
    pub(in crate::datapath) streams: Arc<[StreamReceive]>,
    /// By (stream, sender): `stream * senders + sender`.
    pub(in crate::datapath) owners: Arc<[Owner]>,
    /// Workers of all engines that send the run.
    pub(in crate::datapath) senders: usize,
    /// Those of this engine, whose clock is this one's.
    pub(in crate::datapath) here: Range<usize>,
    /// What the run's time stamps are by.
    pub(in crate::datapath) timescale: Arc<Timescale>,
    /// The wall clocks of the other engines are known to agree with this one's, which time stamps are by.
    pub(in crate::datapath) clocks_agree: bool,
    /// Of the sequences this worker owns.
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
    pub(in crate::datapath) delay: Option<DelayPlace>,
}

/// Indices in `RunShare`.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct DelayPlace {
    pub(in crate::datapath) slot: u32,
    pub(in crate::datapath) histogram: u32,
}

/// Which worker keeps a sequence.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct Owner {
    /// Its number, and a bit that no worker's number has if the stream is counted by tag. So packets of other streams are compared with
    /// the number of the worker that reads them, and with nothing else.
    worker: u16,
    /// Index among the trackers of that worker.
    pub(in crate::datapath) tracker: u32,
}

impl Owner {
    const BY_TAG: u16 = 1 << 15;

    pub(in crate::datapath) fn new(worker: usize, tracker: usize, by_tag: bool) -> Self {
        Self { worker: worker as u16 | if by_tag { Self::BY_TAG } else { 0 }, tracker: tracker as u32 }
    }

    /// Whether a worker keeps it for a stream that is not counted by tag.
    #[inline(always)]
    fn is_simply(self, worker: usize) -> bool {
        usize::from(self.worker) == worker
    }

    fn counts_by_tag(self) -> bool {
        self.worker & Self::BY_TAG != 0
    }

    pub(in crate::datapath) fn worker(self) -> usize {
        usize::from(self.worker & !Self::BY_TAG)
    }
}

/// A packet with a trailer, as its sequence's owner needs to know it.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct Handed {
    slot: u8,
    /// DPDK has 32 at most, unless it was built for more.
    port: u8,
    /// If it is counted by tag: of a stream that is, and on the port where that is expected.
    tag: Option<TagNumber>,
    bytes: u32,
    /// Monotonic.
    at_ns: u64,
    trailer: Trailer,
}

impl Handed {
    pub(super) fn is_measured(&self) -> bool {
        self.trailer.measured
    }

    /// FCS included.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }

    pub(super) fn sequence(&self) -> u32 {
        self.trailer.sequence
    }

    #[inline(always)]
    fn port(&self) -> Option<u16> {
        Some(u16::from(self.port))
    }
}

#[cfg(test)]
impl Handed {
    /// One that arrived at an instant, and is no packet of any run.
    pub(super) fn at(at_ns: u64) -> Self {
        let trailer = Trailer { run_tag: 0, stream: 0, sender: 0, measured: false, sequence: 0, timestamp: 0 };
        Self { slot: 0, port: 0, tag: None, bytes: 0, at_ns, trailer }
    }

    pub(super) fn at_ns(&self) -> u64 {
        self.at_ns
    }
}

/// A port as one of its receiving workers sees it.
pub(super) struct RxPort<D: Device> {
    port: usize,
    queue: D::Rx,
    share: Arc<QueueShare>,
    /// Its device marks packets whose TCP checksum is right.
    marks: bool,
    /// Slots of runs that do something with packets that carry no trailer of theirs, or send them back.
    watching: Vec<usize>,
    /// Slots of runs that emulate applications on the port.
    emulating: Vec<usize>,
    attached: Received,
    /// Which frames are for another station.
    station: Station,
    /// Of the burst that is received: packets without a use, and those of them that are for another station.
    unclaimed: Unclaimed,
}

/// A station's MAC, as the first 8 bytes of a frame are read.
#[derive(Clone, Copy, Debug)]
struct Station {
    mask: u64,
    mac: u64,
}

impl Station {
    /// Of a port with this MAC; none: frames are taken whatever MAC they are for.
    fn of(mac: Option<[u8; 6]>) -> Self {
        let Some([a, b, c, d, e, f]) = mac else { return Self { mask: 0, mac: 0 } };
        Self { mask: u64::MAX >> 16, mac: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) }
    }

    /// Whether a frame is neither for it nor for a group. The lowest bit of a MAC's first byte says that it is a group's.
    #[inline(always)]
    fn is_not_for(self, frame: &[u8]) -> bool {
        let Some(head) = frame.first_chunk() else { return false };
        let mac = u64::from_le_bytes(*head) & self.mask;
        (mac != self.mac) & (mac & 1 == 0)
    }
}

/// How many packets of a burst had no use.
#[derive(Clone, Copy, Debug, Default)]
struct Unclaimed {
    foreign: u64,
    /// Of them.
    other_mac: u64,
}

impl<D: Device> RxPort<D> {
    pub(super) fn new(port: usize, queue: D::Rx, share: Arc<QueueShare>, mac: Option<[u8; 6]>) -> Self {
        let slots = || Vec::with_capacity(RUNS);
        let (marks, attached) = (queue.marks_checksums(), Received::new());
        let unclaimed = Unclaimed::default();
        let station = Station::of(mac);
        Self { port, queue, share, marks, watching: slots(), emulating: slots(), attached, station, unclaimed }
    }

    /// A packet is of no run here. The port's station answers it, if it is for that, for one that is emulated, or for a group.
    #[inline(always)]
    fn offer(&mut self, frame: &[u8], len: u32, demux: Demux, at_ns: u64) {
        self.unclaimed.foreign += 1;
        // Emulated stations may have MACs of their own, also before there are flows.
        let other_mac = demux == Demux::OtherMac || (self.emulating.is_empty() && self.station.is_not_for(frame));
        if other_mac && !self.attached.is_for_emulated_mac(frame) {
            self.unclaimed.other_mac += 1;
        } else {
            self.attached.offer(frame, len, at_ns);
        }
    }

    /// The same of all packets of a burst, where none is expected.
    #[inline(always)]
    fn offer_all(&mut self, burst: &D::Burst, lens: &[u32], at_ns: u64) {
        if self.attached.slow_path.is_some() {
            burst.heads().zip(lens).for_each(|(frame, len)| self.offer(frame, *len, Demux::Foreign, at_ns));
        } else {
            self.unclaimed.foreign += burst.len() as u64;
            self.unclaimed.other_mac +=
                burst.heads().map(|frame| u64::from(self.station.is_not_for(frame))).sum::<u64>();
        }
    }

    /// Publishes what was counted of a burst.
    #[inline]
    fn count(&mut self, packets: usize, bytes: u64) {
        self.share.rx_packets.add(packets as u64);
        self.share.rx_bytes.add(bytes);
        let Unclaimed { foreign, other_mac } = std::mem::take(&mut self.unclaimed);
        self.share.foreign.add(foreign);
        self.share.other_mac.add(other_mac);
    }
}

/// The receiving half of a worker.
pub(in crate::datapath) struct Receiver<D: Device> {
    worker: usize,
    ports: Vec<RxPort<D>>,
    burst: D::Burst,
    /// By run tag: the run's slot.
    slots: Box<[u8]>,
    /// Runs in `slots`: without any, no packet can carry a trailer of one.
    measured: usize,
    handoff: StreamHandoff,
    /// The last pass found nothing, and all that was handed over is counted.
    drained: bool,
}

impl<D: Device> Receiver<D> {
    pub(super) fn new(worker: usize, ports: Vec<RxPort<D>>, handoff: StreamHandoff) -> Self {
        let slots = vec![NO_RUN; 1 << 16].into();
        Self { worker, ports, burst: D::Burst::new(), slots, measured: 0, handoff, drained: false }
    }

    /// Counts packets for the run in a slot.
    pub(super) fn know(&mut self, run: &WorkerRun<D>, slot: usize) {
        if !run.receive.by_id.is_empty() {
            self.slots[usize::from(run.tag)] = slot as u8;
            self.measured += 1;
        }
        for port in &mut self.ports {
            if run.receive.foreign.watches(port.port) {
                port.watching.push(slot);
            }
            if run.emulated.as_ref().is_some_and(|emulated| emulated.uses(port.port)) {
                port.emulating.push(slot);
            }
        }
    }

    /// Packets with this tag are foreign, and the run does nothing with others.
    pub(super) fn forget(&mut self, tag: u16, slot: usize) {
        if std::mem::replace(&mut self.slots[usize::from(tag)], NO_RUN) != NO_RUN {
            self.measured -= 1;
        }
        for port in &mut self.ports {
            port.watching.retain(|watching| *watching != slot);
            port.emulating.retain(|emulating| *emulating != slot);
        }
    }

    /// Whether all that had arrived before the last pass has been read and counted, here or where it belongs.
    pub(super) fn drained(&self) -> bool {
        self.drained && self.handoff.is_taken()
    }

    /// Ports that packets can arrive on.
    pub(super) fn has_ports(&self) -> bool {
        !self.ports.is_empty()
    }

    /// Other workers may hand packets over.
    pub(super) fn has_peers(&self) -> bool {
        self.handoff.has_peers()
    }

    /// Hangs something on a port; back, if it does not belong here.
    pub(super) fn attach(&mut self, port: usize, attachment: Attachment<D>) -> Option<Attachment<D>> {
        match self.ports.iter_mut().find(|p| p.port == port) {
            Some(found) => found.attached.attach(attachment),
            None => Some(attachment),
        }
    }

    /// The taps of all ports.
    pub(super) fn taps(&mut self) -> impl Iterator<Item = &mut Taps> {
        self.ports.iter_mut().map(|port| &mut port.attached.taps)
    }

    /// Reads up to a burst from every port, and what other workers handed over. Returns the packets read.
    #[inline(never)]
    pub(super) fn receive(
        &mut self,
        clock: &D::Clock,
        runs: &mut [Option<Box<WorkerRun<D>>>],
        tx: &mut [TxPort<D>],
    ) -> usize {
        let mut handed = self.handoff.take(|from, packet| {
            if let Some(run) = runs.get_mut(usize::from(packet.slot)).and_then(Option::as_mut)
                && run.tag == packet.trailer.run_tag
                && let Some(stream) = run.receive.stream(&packet.trailer)
            {
                let tracker = run.receive.owner(stream, packet.trailer.sender).tracker as usize;
                if let Some(tag) = packet.tag {
                    count_by_tag(run, packet, tag, from, (stream, tracker));
                }
                let arrival = run.receive.arrival(from, packet, stream, tracker);
                count::<false, D>(run, packet, arrival, Many::ONE, stream, tracker);
            }
        });
        let mut received = 0;
        for port in &mut self.ports {
            if !self.handoff.has_room() || !may_receive(&port.emulating, runs) {
                port.share.receive_waits.add(1);
                handed += 1;
                continue;
            }
            let packets = self.burst.receive(&mut port.queue);
            if packets == 0 {
                continue;
            }
            let at_ns = clock.mono_ns();
            port.attached.taps.copy::<D>(&self.burst, clock);
            let reflection = foreign::reflection(&port.watching, runs, port.port, at_ns);
            received += packets;
            let mut lens = [0; BURST];
            let mut tails = [[0; trailer::LEN]; BURST];
            // Receivers measure packets of other engines' runs, too.
            let trailers = self.measured > 0 || !port.watching.is_empty();
            if trailers {
                self.burst.tails(&mut lens, &mut tails);
            } else if port.emulating.is_empty() {
                self.burst.lens_and_fetch::<1>(&mut lens);
            } else {
                self.burst.lens_and_fetch::<2>(&mut lens);
            }
            let flows = only(&port.emulating, runs);
            let mut hashes = [0; BURST];
            let ahead =
                flows.as_ref().is_some_and(|emulated| emulated.look_ahead(port.port, self.burst.heads(), &mut hashes));
            let bytes = lens[..packets].iter().map(|len| u64::from(*len) + FCS_LEN).sum();
            let marks = port.marks;
            let hints = |burst: &D::Burst, index: usize| Hints {
                verified: marks && burst.is_verified(index),
                hash: ahead.then_some(hashes[index]),
            };
            if let Some(emulated) = flows.filter(|_| !trailers) {
                // Nothing but one run's flows is expected: no more is done for each packet than they need.
                let frames = self.burst.heads().zip(&lens).zip(&hashes).enumerate();
                for (index, ((frame, len), hash)) in frames {
                    let verified = marks && self.burst.is_verified(index);
                    let hints = Hints { verified, hash: ahead.then_some(*hash) };
                    let demux = emulated.receive(&Arrived { port: port.port, frame, hints, at_ns });
                    if demux != Demux::Taken {
                        port.offer(frame, *len, demux, at_ns);
                    }
                }
            } else if !trailers && port.emulating.is_empty() {
                // Nobody expects anything.
                port.offer_all(&self.burst, &lens[..packets], at_ns);
            } else {
                let mut next = 0;
                while next < packets {
                    let index = next;
                    let len = u64::from(lens[index]) + FCS_LEN;
                    // Zeros, of a packet that is too short, are no trailer: a run's tag is never 0.
                    let trailer = if trailers { Trailer::decode(&tails[index]) } else { None };
                    let taken = trailer.map_or(0, |trailer| {
                        let slot = self.slots[usize::from(trailer.run_tag)];
                        let packet =
                            Handed { slot, port: port.port as u8, tag: None, bytes: len as u32, at_ns, trailer };
                        let from_it = Following {
                            burst: &self.burst,
                            first: index,
                            trailers: &tails[index..packets],
                            lens: &lens[index..packets],
                        };
                        take(self.worker, &mut self.handoff, runs, &packet, &from_it, reflection.is_some())
                    });
                    next += taken.max(1);
                    if taken > 0 {
                        continue;
                    }
                    let (frame, hints) = (self.burst.head(index), hints(&self.burst, index));
                    let demux = emulate(&port.emulating, runs, &Arrived { port: port.port, frame, hints, at_ns });
                    if demux != Demux::Taken {
                        let packet = foreign::Packet { frame, bytes: len, at_ns, trailer };
                        let marked = !port.watching.is_empty()
                            && foreign::watch(&port.watching, runs, port.port, clock, &packet);
                        if !marked {
                            port.offer(frame, lens[index], demux, at_ns);
                        }
                    }
                }
            }
            if !port.watching.is_empty() {
                foreign::publish(&port.watching, runs, port.port);
                if let Some(reflection) = reflection
                    && let Some(tx) = tx.iter_mut().find(|tx| tx.port() == port.port)
                {
                    self.burst.retain(|frame| reflection.turn(runs, frame));
                    port.share.not_reflected.add((packets - self.burst.len()) as u64);
                    tx.outlet.send_back(&mut self.burst, at_ns);
                }
            }
            self.handoff.notify();
            self.burst.clear();
            port.count(packets, bytes);
        }
        self.drained = received + handed == 0;
        received
    }
}

impl Receiver<Dpdk> {
    /// What to wait on for packets, for ports that have something.
    pub(super) fn sockets(&self) -> impl Iterator<Item = Option<&KernelSocket>> {
        self.ports.iter().map(|port| port.queue.socket())
    }
}

/// Whether frames of a port's flows that belong to other workers could be handed over.
#[inline]
fn may_receive<D: Device>(emulating: &[usize], runs: &mut [Option<Box<WorkerRun<D>>>]) -> bool {
    emulating.iter().all(|slot| {
        let emulated = runs[*slot].as_mut().and_then(|run| run.emulated.as_mut());
        emulated.is_none_or(|emulated| emulated.may_receive())
    })
}

/// The applications of the only run that emulates some on a port.
#[inline]
fn only<'a, D: Device>(emulating: &[usize], runs: &'a mut [Option<Box<WorkerRun<D>>>]) -> Option<&'a mut Emulated<D>> {
    let [slot] = emulating else { return None };
    runs[*slot].as_mut().and_then(|run| run.emulated.as_deref_mut())
}

/// Gives a packet to the applications that a port's runs emulate: the first that has its flow. It is for another station if it
/// is for none that any of them has.
#[inline]
fn emulate<D: Device>(emulating: &[usize], runs: &mut [Option<Box<WorkerRun<D>>>], arrived: &Arrived<'_>) -> Demux {
    let mut all = Demux::Foreign;
    for (index, slot) in emulating.iter().enumerate() {
        let emulated = runs[*slot].as_mut().and_then(|run| run.emulated.as_mut());
        match emulated.map_or(Demux::Foreign, |emulated| emulated.receive(arrived)) {
            Demux::Taken => return Demux::Taken,
            Demux::OtherMac if index == 0 => all = Demux::OtherMac,
            Demux::OtherMac => {}
            Demux::Foreign => all = Demux::Foreign,
        }
    }
    all
}

/// Counts a packet and those that follow it in its sequence, or hands them to the worker that does; there is room for them. Gives how many
/// those are, 0 if it is of no stream here. A port that sends packets back is part of their way: they are not counted there unless that is
/// where they should arrive. `from_it` are all packets of the burst from this one on.
#[inline]
fn take<D: Device>(
    worker: usize,
    handoff: &mut StreamHandoff,
    runs: &mut [Option<Box<WorkerRun<D>>>],
    packet: &Handed,
    from_it: &Following<'_, D>,
    reflecting: bool,
) -> usize {
    let Some(run) = runs.get_mut(usize::from(packet.slot)).and_then(Option::as_mut) else { return 0 };
    let Some(stream) = run.receive.stream(&packet.trailer) else { return 0 };
    // Most often a burst has many of one stream, one after the other.
    let packets = Trailer::in_sequence(from_it.trailers);
    if reflecting && run.receive.streams[stream].port != packet.port() {
        return packets;
    }
    let owner = run.receive.owner(stream, packet.trailer.sender);
    let lens = &from_it.lens[..packets];
    let all = lens.iter().enumerate().map(|(index, len)| {
        let sequence = packet.trailer.sequence + index as u32;
        Handed { bytes: *len + FCS_LEN as u32, trailer: Trailer { sequence, ..packet.trailer }, ..*packet }
    });
    if !owner.is_simply(worker) {
        if owner.counts_by_tag() {
            take_by_tag(worker, handoff, run, (stream, owner), all, from_it);
            return packets;
        }
        // The worker that read a packet notes when it arrived: its own are in order of time.
        let last = &run.share.rx[stream].last;
        last.arrived(packet.at_ns, |from_ns| keep_gap(&run.share, &run.receive, packet, stream, from_ns));
        for packet in all {
            let given = handoff.give(owner.worker(), packet);
            debug_assert!(given, "no more is read than there is room for");
        }
        return packets;
    }
    let tracker = owner.tracker as usize;
    let receive = &mut run.receive;
    if packets > 1
        && !receive.streams[stream].wide
        && receive.trackers[tracker].receive_in_order(packet.trailer.sequence, packets as u32)
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
    worker: usize,
    handoff: &mut StreamHandoff,
    run: &mut WorkerRun<D>,
    (stream, owner): (usize, Owner),
    packets: impl Iterator<Item = Handed>,
    from_it: &Following<'_, D>,
) {
    let (here, tracker) = (owner.worker() == worker, owner.tracker as usize);
    for (index, mut packet) in packets.enumerate() {
        // Where it is misdirected it is counted by no tag.
        let expected = run.receive.streams[stream].port == packet.port();
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
            let last = &run.share.rx[stream].last;
            last.arrived(packet.at_ns, |from_ns| keep_gap(&run.share, &run.receive, &packet, stream, from_ns));
            let given = handoff.give(owner.worker(), packet);
            debug_assert!(given, "no more is read than there is room for");
        }
    }
}

/// Counts a packet that worker `from` received by its tag.
#[inline(never)]
fn count_by_tag<D: Device>(run: &mut WorkerRun<D>, packet: &Handed, tag: TagNumber, from: usize, of: (usize, usize)) {
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
    packet: &Handed,
    arrival: Arrival,
    many: Many,
    stream: usize,
    tracker: usize,
) {
    let receive = &mut run.receive;
    let trailer = &packet.trailer;
    let facts = &receive.streams[stream];
    let misdirected = facts.port != packet.port();
    let slot = &run.share.rx[stream];
    let packets = many.packets;
    if packets > 1 {
        slot.received_in_order(trailer.measured, packets, many.bytes, misdirected);
    } else {
        slot.received(trailer.measured, u64::from(packet.bytes), arrival, misdirected);
    }
    if arrival != Arrival::InOrder {
        slot.missing(trailer.measured, receive.trackers[tracker].take_missing(), packet.at_ns);
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
        if let Some(difference) = receive.transits[tracker].difference(delay_ns) {
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
fn keep_gap(share: &RunShare, receive: &RunReceive, packet: &Handed, stream: usize, from_ns: u64) {
    share.keep_gap(stream, Span { from_ns, to_ns: packet.at_ns }, packet.trailer.measured);
    if packet.trailer.measured
        && let (Some(gaps), Some(delay_ns)) = (&share.gaps[stream], receive.delay_of(packet))
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
    fn delay_of(&self, packet: &Handed) -> Option<u64> {
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
    fn arrival(&mut self, from: usize, packet: &Handed, stream: usize, tracker: usize) -> Arrival {
        let sequence = packet.trailer.sequence;
        if self.streams[stream].wide {
            let workers = self.queues.len() / self.trackers.len();
            self.trackers[tracker].receive_from(&mut self.queues[tracker * workers + from], sequence)
        } else {
            self.trackers[tracker].receive(sequence)
        }
    }

    /// Index of the stream that a trailer names, if there is one and a worker of that number sends it.
    #[inline]
    fn stream(&self, trailer: &Trailer) -> Option<usize> {
        let stream = *self.by_id.get(usize::from(trailer.stream))?;
        (stream != NO_STREAM && usize::from(trailer.sender) < self.senders).then_some(stream as usize)
    }

    #[inline]
    fn owner(&self, stream: usize, sender: u8) -> Owner {
        self.owners[stream * self.senders + usize::from(sender)]
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
