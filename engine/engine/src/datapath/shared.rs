// SPDX-License-Identifier: Apache-2.0
//! What workers write and control reads: counters and acknowledgements, each with one writer.
use std::sync::atomic::{AtomicBool, Ordering};

use spate_stats::{ArrivalsSlot, Counter, DelaySlot, Gaps, Histogram, RxSlot, Span, TagSlot, TxSlot};

use crate::index::StreamIndex;

/// One worker's side of one run.
#[derive(Debug)]
pub(super) struct RunShare {
    /// Transmit counters, by stream of the run.
    pub(super) tx: Box<[TxSlot]>,
    /// Receive counters, by stream of the run.
    pub(super) rx: Box<[RxSlot]>,
    /// By stream of the run: of packets that this worker reads itself, where they are measured.
    pub(super) gaps: Box<[Option<Gaps>]>,
    /// By stream whose delays are measured; empty if this worker measures none.
    pub(super) delays: Box<[DelaySlot]>,
    /// By number, those this worker counts in.
    pub(super) histograms: Box<[Option<Histogram>]>,
    /// Receivers, by their order in the run.
    pub(super) receivers: Box<[ArrivalsSlot]>,
    /// By list of tags (`Measure::by_tag`) and number in it; lists in which this worker counts nothing are empty.
    pub(super) by_tag: Box<[Box<[TagSlot]>]>,
    /// The worker has sent, or given up, all it had to.
    pub(super) sent: Flag,
    /// Commanded to close: all that had arrived is read, and what belongs to another worker was handed to it.
    pub(super) emptied: Flag,
    /// The worker counts nothing for the run any more.
    pub(super) closed: Flag,
}

impl RunShare {
    pub(super) fn new(streams: usize, delays: usize, histograms: usize, receivers: usize) -> Self {
        Self {
            tx: (0..streams).map(|_| TxSlot::default()).collect(),
            rx: (0..streams).map(|_| RxSlot::default()).collect(),
            gaps: (0..streams).map(|_| None).collect(),
            delays: (0..delays).map(|_| DelaySlot::default()).collect(),
            histograms: (0..histograms).map(|_| None).collect(),
            receivers: (0..receivers).map(|_| ArrivalsSlot::default()).collect(),
            by_tag: Box::default(),
            sent: Flag::default(),
            emptied: Flag::default(),
            closed: Flag::default(),
        }
    }
}

impl RunShare {
    /// Notes when a packet of a stream arrived that was identified by its mark.
    #[inline]
    pub(super) fn note_arrival(&self, stream: StreamIndex, at_ns: u64, measured: bool) {
        let last = &self.rx[stream.0].last;
        last.arrived(at_ns, |from_ns| self.keep_gap(stream, Span { from_ns, to_ns: at_ns }, measured));
    }

    /// Keeps the time before an arrival. Gaps of the warm-up are not kept: they would leave no room for those that count.
    #[cold]
    pub(super) fn keep_gap(&self, stream: StreamIndex, gap: Span, measured: bool) {
        if let Some(gaps) = &self.gaps[stream.0]
            && (measured || !gaps.is_empty())
        {
            gaps.keep(&self.rx[stream.0].last, gap);
        }
    }
}

/// Something that becomes true once; what was written before is visible to its reader then.
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
    /// Foreign packets for another station by their destination MAC.
    pub(super) other_mac: Counter,
    /// Times nothing was read because a worker that keeps sequences was behind.
    pub(super) receive_waits: Counter,
    /// Received and sent back; in tx_packets too.
    pub(super) reflected: Counter,
    /// Received while the port sends back, and not sent back.
    pub(super) not_reflected: Counter,
    /// Put off by the limit; not sent at all, of reflected ones.
    pub(super) throttled_packets: Counter,
    /// Cut into segments by the device.
    pub(super) tx_segmented_frames: Counter,
    /// Measured by the worker's clock although the device is to stamp them.
    pub(super) unstamped: Counter,
}

/// Counters of a worker itself.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct WorkerShare {
    pub(super) busy_ns: Counter,
    pub(super) idle_ns: Counter,
    pub(super) sleeps: Counter,
    pub(super) tx_packets: Counter,
    pub(super) rx_packets: Counter,
}
