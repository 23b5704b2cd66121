// SPDX-License-Identifier: Apache-2.0
//! Frames of flows that another worker has: a device may spread packets otherwise than is computed, and an ICMP error comes
//! from a router's address. Each goes to the worker that the flow's own packets are computed to come to.
//!
//! When that worker is behind, so that a ring has no room for a burst, this one reads nothing more from the port until there is,
//! as with packets of streams.
//!
//! Flows of servers are where their clients' first packet arrives, whatever the device computes: they need none of this.
use std::sync::Arc;

use spate_dpdk::BURST;
use spate_net::spread;
use spate_stateful::{
    Address,
    packet::{Content, Packet},
};
use spate_stats::Counter;

use super::doorbell::{Doorbell, Workers};
use crate::datapath::frames::{self, FrameReader, FrameWriter};
use crate::index::{PortIndex, WorkerIndex};

/// Room for frames from each worker to each other, at least,
const RING_BYTES: usize = 256 << 10;
/// for this many bursts of full length,
const BURSTS: usize = 2;
/// and bytes of each frame of a burst, at least.
const USUAL: usize = 1600;
/// Longest frame.
const MAX_FRAME: usize = 9216 + 18;

/// Counters of one worker's hand-offs of a run.
#[derive(Debug, Default)]
pub(in crate::datapath) struct HandoffShare {
    /// Frames given to another worker.
    pub(in crate::datapath) sent: Counter,
    /// Frames lost because the other worker was behind.
    pub(in crate::datapath) lost: Counter,
    /// Frames taken from another worker.
    pub(in crate::datapath) taken: Counter,
    /// Packets of clients' flows among those taken.
    pub(in crate::datapath) met: Counter,
}

/// A run's way from one worker to the others and back.
pub(in crate::datapath) struct Handoff {
    worker: WorkerIndex,
    /// By port: the workers that receive from it, by queue.
    receivers: Vec<Vec<WorkerIndex>>,
    /// Rings to other workers, by worker.
    to: Vec<Option<FrameWriter>>,
    from: Vec<Option<FrameReader>>,
    doorbells: Arc<[Doorbell]>,
    /// The workers that have given frames that are not taken yet.
    waiting: Workers,
    frame: Vec<u8>,
    /// Bytes of a burst.
    burst_bytes: usize,
    /// A ring may have no room for a burst.
    tight: bool,
    share: Arc<HandoffShare>,
}

/// Ways between all workers that take part, by worker; none if there are not two. Frames of the run are no longer than `longest`
/// without FCS: a ring has room for bursts of these. Longer ones pass as long as there is room, or are counted as lost.
pub(in crate::datapath) fn between(
    taking_part: &[bool],
    receivers: &[Vec<WorkerIndex>],
    longest: usize,
) -> Vec<Option<Handoff>> {
    let burst_bytes = BURST * longest.max(USUAL);
    let several = taking_part.iter().filter(|takes| **takes).count() > 1;
    let doorbells: Arc<[Doorbell]> = taking_part.iter().map(|_| Doorbell::default()).collect();
    let mut all: Vec<_> = (taking_part.iter().enumerate())
        .map(|(worker, takes)| {
            (*takes && several).then(|| Handoff {
                worker: WorkerIndex(worker),
                receivers: receivers.to_vec(),
                to: taking_part.iter().map(|_| None).collect(),
                from: taking_part.iter().map(|_| None).collect(),
                doorbells: Arc::clone(&doorbells),
                waiting: Workers::default(),
                frame: Vec::with_capacity(MAX_FRAME),
                burst_bytes,
                tight: false,
                share: Arc::default(),
            })
        })
        .collect();
    for from in 0..all.len() {
        for to in 0..all.len() {
            if from != to && all[from].is_some() && all[to].is_some() {
                let (writer, reader) = frames::ring(RING_BYTES.max(BURSTS * burst_bytes));
                if let Some(handoff) = &mut all[from] {
                    handoff.to[to] = Some(writer);
                }
                if let Some(handoff) = &mut all[to] {
                    handoff.from[from] = Some(reader);
                }
            }
        }
    }
    all
}

impl Handoff {
    /// Counters of the hand-off.
    pub(in crate::datapath) fn share(&self) -> &Arc<HandoffShare> {
        &self.share
    }

    /// Gives a frame that arrived on a port to the worker that its flow belongs to. False if that is this one.
    #[cold]
    pub(super) fn give(&mut self, port: PortIndex, frame: &[u8], at_ns: u64) -> bool {
        let Some(owner) = self.owner_of(port, frame).filter(|owner| *owner != self.worker) else { return false };
        let Some(ring) = &mut self.to[owner.0] else { return false };
        let given = frame.len() <= MAX_FRAME && ring.push(at_ns, port.0, frame);
        self.tight |= !ring.has_room(self.burst_bytes);
        self.doorbells[owner.0].ring(self.worker);
        if given { &self.share.sent } else { &self.share.lost }.add(1);
        true
    }

    /// Whether there is room for a burst, whatever it holds.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        if self.tight {
            self.tight = self.to.iter().flatten().any(|ring| !ring.has_room(self.burst_bytes));
        }
        !self.tight
    }

    /// The worker that the packets of a frame's flow are computed to come to.
    fn owner_of(&self, port: PortIndex, frame: &[u8]) -> Option<WorkerIndex> {
        let receivers = &self.receivers[port.0];
        let packet = Packet::read(frame).ok()?;
        let between = |peer: (Address, u16), own: (Address, u16)| {
            spread::queue_between((peer.0.into(), peer.1), (own.0.into(), own.1), receivers.len())
        };
        let queue = match packet.content {
            Content::Tcp(s) => between((packet.source, s.source_port), (packet.destination, s.destination_port)),
            Content::Udp(d) => between((packet.source, d.source_port), (packet.destination, d.destination_port)),
            // About a packet of ours.
            Content::Icmp(t) => between((t.destination, t.destination_port), (t.source, t.source_port)),
        };
        receivers.get(queue).copied()
    }

    /// Counts the frames that were taken: this many were packets of clients' flows.
    pub(super) fn note_met(&self, packets: u64) {
        self.share.met.add(packets);
    }

    /// The next frame that another worker gave: the port on which it arrived, and its bytes.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(PortIndex, &[u8])> {
        if self.waiting.is_empty() {
            if !self.doorbells[self.worker.0].is_rung() {
                return None;
            }
            self.waiting = self.doorbells[self.worker.0].take();
        }
        while let Some(from) = self.waiting.first() {
            if let Some(header) = self.from[from.0].as_mut().and_then(|ring| ring.pop(&mut self.frame)) {
                self.share.taken.add(1);
                return Some((PortIndex(header.original_len as usize), &self.frame));
            }
            self.waiting.remove(from);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_the_longest_frames_passes_whole() {
        for longest in [64, 1518, MAX_FRAME] {
            let mut ways = between(&[true, false, true], &[vec![WorkerIndex(0), WorkerIndex(2)]], longest);
            assert!(ways[1].is_none());
            let mut give = ways[0].take().expect("a way");
            assert!(give.has_room());
            let frame = vec![7; longest];
            let ring = give.to[2].as_mut().expect("a ring");
            assert!((0..BURST).all(|_| ring.push(1, 3, &frame)), "{longest}");
            give.doorbells[2].ring(WorkerIndex(0));
            let mut take = ways[2].take().expect("a way");
            for _ in 0..BURST {
                assert_eq!(take.take(), Some((PortIndex(3), frame.as_slice())));
            }
            assert_eq!(take.take(), None, "{longest}");
            assert_eq!(take.share().taken.get(), BURST as u64, "{longest}");
        }
    }
}
