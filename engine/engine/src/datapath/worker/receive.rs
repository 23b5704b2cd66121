// SPDX-License-Identifier: Apache-2.0
//! Reception: read, tell by the trailer whose packet it is, and keep its sequence.
//!
//! The sequence of a stream has one owner, the worker that receives from the stream's port. A packet that came in
//! elsewhere is handed to the owner through a ring, so that a copy on a wrong port is still found to be one.
use std::sync::Arc;

use rtrb::{Consumer, Producer};
use spate_dpdk::{Burst, PacketSocket, RxQueue};
use spate_stats::Tracker;
use spate_wire::{FCS_LEN, Trailer, trailer};

use super::WorkerRun;
use crate::datapath::shared::QueueShare;

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
    /// Workers of all engines that send the run.
    pub(in crate::datapath) senders: usize,
    /// By (stream this worker owns, sender): `streams[..].owned * senders + sender`.
    pub(in crate::datapath) trackers: Box<[Tracker]>,
}

/// Where a stream's packets belong.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct StreamReceive {
    /// Index of the port that should receive it.
    pub(in crate::datapath) port: Option<usize>,
    /// The worker that keeps its sequence.
    pub(in crate::datapath) owner: usize,
    /// Its index among the streams that worker owns.
    pub(in crate::datapath) owned: usize,
}

/// A packet that came in at another worker than its stream's owner.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct Handed {
    slot: u8,
    port: u16,
    bytes: u32,
    trailer: Trailer,
}

/// A port as its one receiving worker sees it.
pub(super) struct RxPort {
    port: usize,
    queue: RxQueue,
    share: Arc<QueueShare>,
}

impl RxPort {
    pub(super) fn new(port: usize, queue: RxQueue, share: Arc<QueueShare>) -> Self {
        Self { port, queue, share }
    }
}

/// The receiving half of a worker.
pub(super) struct Receiver {
    worker: usize,
    ports: Vec<RxPort>,
    burst: Burst,
    /// By run tag: the run's slot.
    slots: Box<[u8]>,
    handing: Vec<Option<Producer<Handed>>>,
    handed: Vec<Consumer<Handed>>,
    /// The last pass found every queue and ring short of a burst.
    drained: bool,
}

impl Receiver {
    pub(super) fn new(
        worker: usize,
        ports: Vec<RxPort>,
        handing: Vec<Option<Producer<Handed>>>,
        handed: Vec<Consumer<Handed>>,
    ) -> Self {
        let slots = vec![NO_RUN; 1 << 16].into();
        Self { worker, ports, burst: Burst::new(), slots, handing, handed, drained: false }
    }

    /// Counts packets with this tag for the run in a slot.
    pub(super) fn know(&mut self, tag: u16, slot: usize) {
        self.slots[usize::from(tag)] = slot as u8;
    }

    /// Packets with this tag are foreign.
    pub(super) fn forget(&mut self, tag: u16) {
        self.slots[usize::from(tag)] = NO_RUN;
    }

    /// Whether all that had arrived before the last pass has been read.
    pub(super) fn drained(&self) -> bool {
        self.drained
    }

    /// Ports that packets can arrive on.
    pub(super) fn has_ports(&self) -> bool {
        !self.ports.is_empty()
    }

    /// What to wait on for packets, for ports that have something.
    pub(super) fn sockets(&self) -> impl Iterator<Item = Option<&PacketSocket>> {
        self.ports.iter().map(|port| port.queue.socket())
    }

    /// Reads up to a burst from every port, and what other workers handed over. Returns the packets read.
    #[inline]
    pub(super) fn receive(&mut self, runs: &mut [Option<Box<WorkerRun>>]) -> usize {
        let mut received = 0;
        for port in &mut self.ports {
            let count = self.burst.receive(&mut port.queue);
            if count == 0 {
                continue;
            }
            received += count;
            let mut bytes = 0;
            let mut foreign = 0;
            for index in 0..count {
                let len = self.burst.frame_len(index) as u64 + FCS_LEN;
                bytes += len;
                let packet = self.burst.tail::<{ trailer::LEN }>(index).and_then(|tail| Trailer::decode(&tail));
                let taken = packet.is_some_and(|trailer| {
                    let slot = self.slots[usize::from(trailer.run_tag)];
                    let packet = Handed { slot, port: port.port as u16, bytes: len as u32, trailer };
                    take(self.worker, &mut self.handing, runs, packet, &port.share)
                });
                foreign += u64::from(!taken);
            }
            self.burst.clear();
            port.share.rx_packets.add(count as u64);
            port.share.rx_bytes.add(bytes);
            port.share.foreign.add(foreign);
        }
        let mut handed = 0;
        for ring in &mut self.handed {
            while let Ok(packet) = ring.pop() {
                handed += 1;
                if let Some(run) = runs.get_mut(usize::from(packet.slot)).and_then(Option::as_mut)
                    && run.tag == packet.trailer.run_tag
                {
                    count(run, &packet);
                }
            }
        }
        self.drained = received + handed == 0;
        received
    }
}

/// Counts a packet, or hands it to the worker that does. False if it is of no stream here.
#[inline]
fn take(
    worker: usize,
    handing: &mut [Option<Producer<Handed>>],
    runs: &mut [Option<Box<WorkerRun>>],
    packet: Handed,
    share: &QueueShare,
) -> bool {
    let Some(run) = runs.get_mut(usize::from(packet.slot)).and_then(Option::as_mut) else { return false };
    let Some(stream) = run.receive.stream(&packet.trailer) else { return false };
    let owner = run.receive.streams[stream].owner;
    if owner == worker {
        count(run, &packet);
    } else if handing[owner].as_mut().is_none_or(|ring| ring.push(packet).is_err()) {
        share.rx_lost.add(1);
    }
    true
}

/// Counts a packet of a stream that this worker owns.
#[inline]
fn count(run: &mut WorkerRun, packet: &Handed) {
    let receive = &mut run.receive;
    let Some(stream) = receive.stream(&packet.trailer) else { return };
    let facts = receive.streams[stream];
    let tracker = facts.owned * receive.senders + usize::from(packet.trailer.sender);
    let arrival = receive.trackers[tracker].receive(packet.trailer.sequence);
    let misdirected = facts.port != Some(usize::from(packet.port));
    run.share.rx[stream].received(packet.trailer.measured, u64::from(packet.bytes), arrival, misdirected);
}

impl RunReceive {
    /// Index of the stream that a trailer names, if there is one and a worker of that number sends it.
    #[inline]
    fn stream(&self, trailer: &Trailer) -> Option<usize> {
        let stream = *self.by_id.get(usize::from(trailer.stream))?;
        (stream != NO_STREAM && usize::from(trailer.sender) < self.senders).then_some(stream as usize)
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
