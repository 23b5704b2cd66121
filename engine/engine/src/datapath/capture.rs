// SPDX-License-Identifier: Apache-2.0
//! Live capture: packets of a port that a filter takes, copied by the workers that send and receive them.
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use spate_filter::Program;

use super::{
    frames::{self, FrameReader},
    open::Opened,
    worker::{Command, Direction, Hook, Tap},
    workers::Workers,
};
use crate::index::{PortIndex, WorkerIndex};

/// Room for copies from each worker and direction.
const RING_BYTES: usize = 4 << 20;

/// What a packet takes in an answer beside its bytes.
const PACKET_OVERHEAD: usize = 32;

/// What to copy.
#[derive(Clone, Debug)]
pub struct CaptureSpec {
    /// Filter that packets have to pass.
    pub filter: Program,
    /// The direction to copy; none: both.
    pub direction: Option<Direction>,
    /// Bytes of each packet at most.
    pub snap_len: usize,
}

/// A copied packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When it was read from the device or handed to it, on the wall clock.
    pub at_ns: u64,
    /// Direction of the packet.
    pub direction: Direction,
    /// Its length without FCS.
    pub original_len: u32,
    /// Its first bytes.
    pub bytes: Vec<u8>,
}

/// A capture under way; it ends when dropped.
pub struct Capture {
    id: u64,
    workers: Arc<Workers>,
    rings: Vec<(Direction, WorkerIndex, FrameReader)>,
}

pub(super) fn start(opened: &Opened, PortIndex(port): PortIndex, spec: CaptureSpec) -> Capture {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let id = SERIAL.fetch_add(1, Relaxed);
    let open = &opened.ports[port];
    let sides = [(Direction::Rx, &open.rx_workers[..]), (Direction::Tx, &open.tx_workers[..])];
    let mut rings = Vec::new();
    for (direction, workers) in sides.into_iter().filter(|(d, _)| spec.direction.is_none_or(|only| only == *d)) {
        for &worker in workers {
            let (frames, reader) = frames::ring(RING_BYTES);
            let tap = Tap { id, filter: spec.filter.clone(), snap_len: spec.snap_len, frames };
            opened.lines.send(worker, Command::Attach(PortIndex(port), Hook::Tap(direction, Box::new(tap))));
            rings.push((direction, worker, reader));
        }
    }
    Capture { id, workers: Arc::clone(&opened.lines), rings }
}

impl Capture {
    /// Takes packets that were copied, of about `most_bytes` together; those of each call are in order of time.
    pub fn take(&mut self, most_bytes: usize) -> Vec<Captured> {
        let mut taken = Vec::new();
        let share = most_bytes / self.rings.len().max(1);
        for (direction, _, ring) in &mut self.rings {
            let mut used = 0;
            while used < share {
                let mut bytes = Vec::new();
                let Some(header) = ring.pop(&mut bytes) else { break };
                used += PACKET_OVERHEAD + bytes.len();
                let (at_ns, original_len) = (header.at_ns, header.original_len);
                taken.push(Captured { at_ns, direction: *direction, original_len, bytes });
            }
        }
        taken.sort_by_key(|packet| packet.at_ns);
        taken
    }

    /// Packets that matched and were not copied, because what was copied before was not taken in time.
    pub fn missed(&self) -> u64 {
        self.rings.iter().map(|(_, _, ring)| ring.lost()).sum()
    }

    /// Whether nothing more can come: the port is closed, or had as many captures as it can have.
    pub fn is_over(&self) -> bool {
        self.rings.iter().all(|(_, _, ring)| ring.is_abandoned())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        for (_, worker, ring) in &self.rings {
            if !ring.is_abandoned() {
                self.workers.send(*worker, Command::Detach(self.id));
            }
        }
    }
}
