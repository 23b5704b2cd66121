// SPDX-License-Identifier: Apache-2.0
//! Packets of streams that one worker receives and another one counts: from each to each through a ring.
use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use spate_dpdk::BURST;

use super::{
    doorbell::{Doorbell, Workers},
    handed::MeasuredPacket,
};
use crate::index::WorkerIndex;

/// Packets of a ring: what is received in the millisecond in which its reader may sleep.
const HANDOFF_RING: usize = 2048;

/// A worker's way to all others, and theirs to it.
pub(in crate::datapath) struct StreamHandoff {
    worker: WorkerIndex,
    /// Rings to other workers, by worker.
    to: Vec<Option<Producer<MeasuredPacket>>>,
    from: Vec<Option<Consumer<MeasuredPacket>>>,
    doorbells: Arc<[Doorbell]>,
    /// Workers that were given packets, and are not notified of these yet.
    given: Workers,
    /// A ring may have no room for a burst.
    tight: bool,
}

/// The rings between `count` workers.
pub(in crate::datapath) fn between_workers(count: usize) -> Vec<StreamHandoff> {
    let doorbells: Arc<[Doorbell]> = (0..count).map(|_| Doorbell::default()).collect();
    let mut all: Vec<_> = (0..count)
        .map(|worker| StreamHandoff {
            worker: WorkerIndex(worker),
            to: (0..count).map(|_| None).collect(),
            from: (0..count).map(|_| None).collect(),
            doorbells: Arc::clone(&doorbells),
            given: Workers::default(),
            tight: false,
        })
        .collect();
    for from in 0..count {
        for to in (0..count).filter(|to| *to != from) {
            let (producer, consumer) = RingBuffer::new(HANDOFF_RING);
            all[from].to[to] = Some(producer);
            all[to].from[from] = Some(consumer);
        }
    }
    all
}

impl StreamHandoff {
    /// Whether there are other workers.
    pub(super) fn has_peers(&self) -> bool {
        self.to.len() > 1
    }

    /// Whether each ring has room for a burst.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        if self.tight {
            self.tight = self.to.iter().flatten().any(|ring| ring.slots() < BURST);
        }
        !self.tight
    }

    /// Gives a packet to another worker, which sees it after `notify`.
    #[inline]
    pub(super) fn give(&mut self, to: WorkerIndex, packet: MeasuredPacket) -> bool {
        self.given.insert(to);
        self.to[to.0].as_mut().is_some_and(|ring| ring.push(packet).is_ok())
    }

    /// Notifies the workers that were given packets.
    #[inline]
    pub(super) fn notify(&mut self) {
        if self.given.is_empty() {
            return;
        }
        while let Some(to) = self.given.pop() {
            self.doorbells[to.0].ring(self.worker);
            self.tight |= self.to[to.0].as_ref().is_some_and(|ring| ring.slots() < BURST);
        }
    }

    /// Takes all that others gave, each packet with the worker that received it. Returns how many. Only after all of a worker's are
    /// taken, that worker sees that they are.
    #[inline]
    pub(super) fn take(&mut self, mut each: impl FnMut(WorkerIndex, &MeasuredPacket)) -> usize {
        // Most often no worker has given anything: a line that is only read stays in the caches of all.
        if !self.doorbells[self.worker.0].is_rung() {
            return 0;
        }
        let mut given_by = self.doorbells[self.worker.0].take();
        let mut taken = 0;
        while let Some(from) = given_by.pop() {
            let Some(ring) = &mut self.from[from.0] else { continue };
            let Ok(packets) = ring.read_chunk(ring.slots()) else { continue };
            taken += packets.len();
            let (first, second) = packets.as_slices();
            first.iter().chain(second).for_each(|packet| each(from, packet));
            packets.commit_all();
        }
        taken
    }

    /// Whether others have taken all that they were given.
    pub(super) fn is_taken(&self) -> bool {
        self.to.iter().flatten().all(|ring| ring.slots() == ring.buffer().capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(handoff: &mut StreamHandoff) -> Vec<(usize, u64)> {
        let mut all = Vec::new();
        handoff.take(|from, packet| all.push((from.0, packet.at_ns())));
        all
    }

    #[test]
    fn what_is_given_is_taken_once_it_was_notified() {
        let mut workers = between_workers(3);
        assert!(
            [(0, 5), (1, 6), (0, 7)]
                .into_iter()
                .all(|(from, at)| workers[from].give(WorkerIndex(2), MeasuredPacket::at(at)))
        );
        assert_eq!(taken(&mut workers[2]), []);
        workers[0].notify();
        assert!(!workers[0].is_taken());
        assert_eq!(taken(&mut workers[2]), [(0, 5), (0, 7)]);
        assert!(workers[0].is_taken() && !workers[1].is_taken());
        workers[1].notify();
        assert_eq!(taken(&mut workers[2]), [(1, 6)]);
        assert_eq!(taken(&mut workers[1]), []);
    }

    #[test]
    fn there_is_room_for_a_burst_or_it_is_said() {
        let mut workers = between_workers(2);
        let mut given = 0;
        while workers[0].has_room() {
            for _ in 0..BURST {
                assert!(workers[0].give(WorkerIndex(1), MeasuredPacket::at(given)));
                given += 1;
            }
            workers[0].notify();
        }
        assert!(given as usize > HANDOFF_RING - BURST);
        assert_eq!(taken(&mut workers[1]).len(), given as usize);
        assert!(workers[0].has_room());
    }
}
