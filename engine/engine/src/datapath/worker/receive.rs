// SPDX-License-Identifier: Apache-2.0
//! Reception: read a burst from each port, and offer its packets to the sinks.
//!
//! A packet's arrival is the clock right after the burst it came in was read: late by at most the time since this worker
//! looked at that queue before, never early. Where the port's device stamps packets, those that are measured arrived when it says.
use std::sync::Arc;

use spate_dpdk::BURST;
use spate_net::{FCS_LEN, Trailer, trailer};
use spate_stateful::{Hints, Prefetched};

use super::{
    Device, ReceiveQueue, Time, WorkerRun,
    device::{Packets as _, RxDevice as _},
    device_stamps::DeviceStamps,
    flows::{Arrived, Demux},
    sinks::{After, Arrivals, Inlet, Measure, Packet, Sink, Sinks},
    stream_handoff::StreamHandoff,
    taps::Taps,
    tx_port::TxPort,
};
use crate::datapath::shared::QueueShare;
use crate::index::{PortIndex, RunSlot, WorkerIndex};

/// A port as one of its receiving workers sees it.
pub(super) struct RxPort<D: Device> {
    pub(super) port: PortIndex,
    queue: D::Rx,
    share: Arc<QueueShare>,
    /// Whether the device marks packets with a correct TCP checksum.
    marks: bool,
    /// If its device stamps packets.
    stamps: Option<DeviceStamps>,
    pub(super) taps: Taps,
    pub(super) sinks: Sinks,
}

impl<D: Device> RxPort<D> {
    pub(super) fn new(of: ReceiveQueue<D>) -> Self {
        let ReceiveQueue { port, queue, share, mac, device_clock } = of;
        let (marks, sinks) = (queue.marks_checksums(), Sinks::new(&Inlet { port, mac }));
        Self { port, queue, share, marks, stamps: device_clock.map(DeviceStamps::new), taps: Taps::new(), sinks }
    }
}

/// The receiving half of a worker.
pub(in crate::datapath) struct Receiver<D: Device> {
    ports: Vec<RxPort<D>>,
    burst: D::Burst,
    measure: Measure,
    /// The last pass found nothing, and all that was handed over is counted.
    drained: bool,
}

impl<D: Device> Receiver<D> {
    pub(super) fn new(worker: WorkerIndex, ports: Vec<RxPort<D>>, handoff: StreamHandoff) -> Self {
        Self { ports, burst: D::Burst::new(), measure: Measure::new(worker, handoff), drained: false }
    }

    /// Counts packets for the run in a slot.
    pub(super) fn know(&mut self, run: &WorkerRun<D>, slot: RunSlot) {
        self.measure.know(run, slot);
        self.ports.iter_mut().for_each(|port| port.sinks.know(run, slot));
    }

    /// Packets with this tag are foreign, and the run does nothing with others.
    pub(super) fn forget(&mut self, tag: u16, slot: RunSlot) {
        Sink::<D>::forget(&mut self.measure, tag, slot);
        self.ports.iter_mut().for_each(|port| Sink::<D>::forget(&mut port.sinks, tag, slot));
    }

    /// Whether all that had arrived before the last pass has been read and counted, here or where it belongs.
    pub(super) fn drained(&self) -> bool {
        self.drained && self.measure.is_taken()
    }

    /// The queues of the ports that packets can arrive on.
    pub(super) fn queues(&self) -> impl Iterator<Item = &D::Rx> {
        self.ports.iter().map(|port| &port.queue)
    }

    /// Whether other workers may hand packets over.
    pub(super) fn has_peers(&self) -> bool {
        self.measure.has_peers()
    }

    /// A port with an index, if packets can arrive on it.
    pub(super) fn port(&mut self, port: PortIndex) -> Option<&mut RxPort<D>> {
        self.ports.iter_mut().find(|p| p.port == port)
    }

    /// The taps of all ports.
    pub(super) fn taps(&mut self) -> impl Iterator<Item = &mut Taps> {
        self.ports.iter_mut().map(|port| &mut port.taps)
    }

    /// Reads up to a burst from every port, and what other workers handed over. Returns the packets read.
    #[inline(never)]
    pub(super) fn receive(
        &mut self,
        clock: &D::Clock,
        runs: &mut [Option<Box<WorkerRun<D>>>],
        tx: &mut [TxPort<D>],
    ) -> usize {
        let mut handed = self.measure.take_handed(runs);
        let mut received = 0;
        for port in &mut self.ports {
            if !self.measure.has_room(runs) || !port.sinks.has_room(runs) {
                port.share.receive_waits.add(1);
                handed += 1;
                continue;
            }
            let packets = self.burst.receive(&mut port.queue);
            if packets == 0 {
                continue;
            }
            let at_ns = clock.mono_ns();
            port.taps.copy::<D>(&self.burst, clock);
            let sent_on = port.sinks.begin(at_ns, runs);
            received += packets;
            let mut lens = [0; BURST];
            let mut tails = [[0; trailer::LEN]; BURST];
            let trailers = Sink::<D>::reads_trailers(&self.measure) || Sink::<D>::reads_trailers(&port.sinks);
            if trailers {
                self.burst.tails(&mut lens, &mut tails);
            } else if port.sinks.flows.is_empty() {
                self.burst.lens_and_fetch::<1>(&mut lens);
            } else {
                self.burst.lens_and_fetch::<2>(&mut lens);
            }
            let flows = port.sinks.flows.only(runs);
            let mut found = [Prefetched::default(); BURST];
            let looks_ahead = port.sinks.flows.look_ahead(flows.as_deref(), &self.burst, &mut found);
            let bytes = lens[..packets].iter().map(|len| u64::from(*len) + FCS_LEN).sum();
            let marks = port.marks;
            if let Some(emulated) = flows.filter(|_| !trailers) {
                // Nothing but one run's flows is expected: no more is done for each packet than they need.
                for (index, (frame, ahead)) in self.burst.heads().zip(&found).enumerate() {
                    let verified = marks && self.burst.is_verified(index);
                    let hints = Hints { verified, ahead: looks_ahead.then_some(ahead) };
                    let demux = emulated.receive(&Arrived { port: port.port, frame, hints, at_ns });
                    if demux != Demux::Taken {
                        port.sinks.station.take(frame, lens[index], Some(demux), at_ns);
                    }
                }
            } else if !trailers && port.sinks.flows.is_empty() {
                // No sink expects packets.
                port.sinks.station.take_all::<D>(&self.burst, &lens[..packets], at_ns);
            } else {
                let (lens, tails) = (&lens[..packets], &tails[..packets]);
                let (found, sinks) = (looks_ahead.then_some(&found), (&mut self.measure, &mut port.sinks));
                // Made for each of the two: what one gives to a function of its own would be in memory for the other, too.
                let reading = || Reading { clock, read_ns: at_ns, trailers, marks, found };
                let arrivals = || Arrivals { port: port.port, at_ns, sent_on, burst: &self.burst, lens, tails };
                match &mut port.stamps {
                    None => offer(&reading(), &arrivals(), 0, sinks, runs),
                    Some(stamps) => {
                        let unstamped = offer_stamped(&reading(), &arrivals(), (stamps, &port.queue), sinks, runs);
                        port.share.unstamped.add(unstamped);
                    }
                }
            }
            let mut after = After { at_ns, runs, tx, share: &port.share };
            port.sinks.end(&mut self.burst, &mut after);
            self.measure.end(&mut self.burst, &mut after);
            self.burst.clear();
            port.share.rx_packets.add(packets as u64);
            port.share.rx_bytes.add(bytes);
        }
        self.drained = received + handed == 0;
        received
    }
}

/// What a burst was read with.
struct Reading<'a, D: Device> {
    clock: &'a D::Clock,
    /// When; monotonic.
    read_ns: u64,
    /// A sink looks at trailers.
    trailers: bool,
    /// The device marks packets whose checksum is right.
    marks: bool,
    /// What was found of packets ahead, if it was looked for.
    found: Option<&'a [Prefetched; BURST]>,
}

impl<'a, D: Device> Reading<'a, D> {
    #[inline(always)]
    fn hints(&self, burst: &D::Burst, index: usize) -> Hints<'a> {
        Hints { verified: self.marks && burst.is_verified(index), ahead: self.found.map(|found| &found[index]) }
    }
}

/// Offers packets that arrived at one instant to the sinks: those of a burst from `first` on.
#[inline(always)]
fn offer<D: Device>(
    reading: &Reading<'_, D>,
    arrivals: &Arrivals<'_, D>,
    first: usize,
    (measure, sinks): (&mut Measure, &mut Sinks),
    runs: &mut [Option<Box<WorkerRun<D>>>],
) {
    let &Arrivals { at_ns: arrived_ns, burst, lens, tails, .. } = arrivals;
    let mut next = first;
    while next < lens.len() {
        let index = next;
        // Zeros, of a packet that is too short, are no trailer: a run's tag is never 0.
        let trailer = if reading.trailers { Trailer::decode(&tails[index]) } else { None };
        let taken = trailer.map_or(0, |trailer| measure.offer_sequence(trailer, index, arrivals, runs));
        next += taken.max(1);
        if taken > 0 {
            continue;
        }
        let (frame, hints, at_ns) = (burst.head(index), reading.hints(burst, index), reading.read_ns);
        let mut packet = Packet { frame, len: lens[index], at_ns, arrived_ns, hints, trailer, demux: None };
        Sink::<D>::offer(sinks, &mut packet, reading.clock, runs);
    }
}

/// Offers a whole burst of a queue with time stamps of the device: each packet has arrived at its own instant, and is offered by itself. Returns the
/// number of packets without a time stamp. It is a function of its own, so that bursts without time stamps pay nothing for it.
#[inline(never)]
fn offer_stamped<D: Device>(
    reading: &Reading<'_, D>,
    arrivals: &Arrivals<'_, D>,
    (stamps, queue): (&mut DeviceStamps, &D::Rx),
    (measure, sinks): (&mut Measure, &mut Sinks),
    runs: &mut [Option<Box<WorkerRun<D>>>],
) -> u64 {
    let packets = arrivals.lens.len();
    let mut arrived_ns = [0; BURST];
    let unstamped = stamps.arrivals::<D>(arrivals.burst, queue, reading.read_ns, &mut arrived_ns[..packets]);
    for (index, &at_ns) in arrived_ns[..packets].iter().enumerate() {
        let (lens, tails) = (&arrivals.lens[..=index], &arrivals.tails[..=index]);
        let arrival = Arrivals { at_ns, lens, tails, ..*arrivals };
        offer(reading, &arrival, index, (&mut *measure, &mut *sinks), runs);
    }
    unstamped
}
