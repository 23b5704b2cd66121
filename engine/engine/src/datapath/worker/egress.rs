// SPDX-License-Identifier: Apache-2.0
//! A transmit queue as one worker uses it. Streams, replays, flows, reflectors and the slow path all send through it: packets, bytes and
//! drops are counted by one function, the budget is charged for all of them, and the device is flushed after any of them.
use std::sync::Arc;

use super::{Device, device::TxDevice as _};
use crate::datapath::{
    limit::{Budget, Limit},
    shared::QueueShare,
};

/// Between attempts to make the kernel send what it could not.
pub(super) const FLUSH_NS: u64 = 1_000_000;

/// A device's transmit queue, with its counters and its share of the budget.
pub(super) struct Egress<D: Device> {
    queue: D::Tx,
    share: Arc<QueueShare>,
    /// What may be sent; none: everything.
    limit: Option<Limit>,
    /// The device may hold packets back that it took.
    unflushed: bool,
    /// The device is not to be flushed before this instant.
    flush_at: u64,
}

impl<D: Device> Egress<D> {
    pub(super) fn new(queue: D::Tx, share: Arc<QueueShare>) -> Self {
        Self { queue, share, limit: None, unflushed: false, flush_at: 0 }
    }

    /// The device's queue. Senders on it count what they send with [`Self::sent`].
    #[inline]
    pub(super) fn queue(&mut self) -> &mut D::Tx {
        &mut self.queue
    }

    /// Counts packets that the device took, with their bytes, FCS included.
    #[inline]
    pub(super) fn sent(&mut self, packets: usize, bytes: u64) {
        if packets > 0 {
            (self.unflushed, self.flush_at) = (true, 0);
            self.share.tx_packets.add(packets as u64);
            self.share.tx_bytes.add(bytes);
        }
    }

    /// Counts packets among those sent that were received before.
    pub(super) fn reflected(&self, packets: usize) {
        self.share.reflected.add(packets as u64);
    }

    /// Counts frames among those sent that the device divides into segments.
    pub(super) fn segmented(&self, frames: usize) {
        self.share.tx_segmented_frames.add(frames as u64);
    }

    /// Counts packets that were built and that the device did not take.
    pub(super) fn dropped(&self, packets: u64) {
        self.share.tx_dropped.add(packets);
    }

    /// Counts packets that wait for the budget, or that it does not let pass.
    pub(super) fn throttled(&self, packets: u64) {
        self.share.throttled_packets.add(packets);
    }

    /// Whether there is a budget.
    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Keeps to a budget from now on. Returns that of before.
    pub(super) fn limit(&mut self, budget: Option<Arc<Budget>>) -> Option<Arc<Budget>> {
        self.charge();
        let before = self.limit.take().map(Limit::into_budget);
        self.limit = budget.map(|budget| Limit::new(budget, &self.share));
        before
    }

    /// Charges the budget with what was sent.
    #[inline]
    pub(super) fn charge(&mut self) {
        if let Some(limit) = &mut self.limit {
            limit.charge(&self.share);
        }
    }

    /// Charges the budget's account of reflectors with what was sent.
    pub(super) fn charge_reflectors(&mut self) {
        if let Some(limit) = &mut self.limit {
            limit.charge_reflectors(&self.share);
        }
    }

    /// Leaves what was sent since it was charged out of the budget.
    pub(super) fn forgive(&mut self) {
        if let Some(limit) = &mut self.limit {
            limit.forgive(&self.share);
        }
    }

    /// Whether the budget lets senders send nothing now.
    #[inline]
    pub(super) fn is_closed(&mut self, now: u64) -> bool {
        self.limit.as_mut().is_some_and(|limit| limit.is_closed(now, &self.share))
    }

    /// Whether the budget lets reflectors send nothing now.
    pub(super) fn is_closed_to_reflectors(&mut self, now: u64) -> bool {
        self.limit.as_mut().is_some_and(|limit| limit.is_closed_to_reflectors(now, &self.share))
    }

    /// Makes the device send what it took. True if nothing is left in it.
    pub(super) fn flush(&mut self, now: u64) -> bool {
        if self.unflushed && now >= self.flush_at {
            self.unflushed = !self.queue.flush();
            self.flush_at = now + FLUSH_NS;
        }
        !self.unflushed
    }
}
