// SPDX-License-Identifier: Apache-2.0
//! What workers write and control reads: counters and acknowledgements, each with one writer.
use std::sync::atomic::{AtomicBool, Ordering};

use spate_stats::{Counter, RxSlot, TxSlot};

/// One worker's side of one run.
#[derive(Debug)]
pub(super) struct RunShare {
    /// By stream of the run.
    pub(super) tx: Box<[TxSlot]>,
    /// By stream of the run.
    pub(super) rx: Box<[RxSlot]>,
    /// The worker has sent, or given up, all it had to.
    pub(super) sent: Flag,
    /// The worker counts nothing for the run any more.
    pub(super) closed: Flag,
}

impl RunShare {
    pub(super) fn new(streams: usize) -> Self {
        Self {
            tx: (0..streams).map(|_| TxSlot::default()).collect(),
            rx: (0..streams).map(|_| RxSlot::default()).collect(),
            sent: Flag::default(),
            closed: Flag::default(),
        }
    }
}

/// Something that becomes true once; what was written before is seen by who sees it.
#[derive(Debug, Default)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    pub(super) fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_up(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What one worker counts of one port. Bytes include the FCS.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct QueueShare {
    pub(super) tx_packets: Counter,
    pub(super) tx_bytes: Counter,
    /// Built, and given up because the device did not take them.
    pub(super) tx_dropped: Counter,
    pub(super) rx_packets: Counter,
    pub(super) rx_bytes: Counter,
    pub(super) foreign: Counter,
    /// Read, and lost on the way to the worker that keeps the stream's sequence.
    pub(super) rx_lost: Counter,
}

/// What a worker counts of itself.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct WorkerShare {
    pub(super) busy_ns: Counter,
    pub(super) idle_ns: Counter,
    pub(super) sleeps: Counter,
    pub(super) tx_packets: Counter,
    pub(super) rx_packets: Counter,
}
