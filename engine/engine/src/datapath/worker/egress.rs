// SPDX-License-Identifier: Apache-2.0
//! A transmit queue as one worker uses it. Streams, replays, flows, reflectors and the slow path all send through it, and none of them can
//! send otherwise: what the device took is accounted by one function (`Egress::account`), the budget is charged for all of them, and the
//! device is flushed after any of them.
use std::sync::Arc;

use spate_dpdk::Offered;

use super::{
    Device,
    device::{Packets as _, TxDevice as _},
};
use crate::datapath::{
    limit::{Budget, Limit},
    shared::QueueShare,
};

/// Between attempts to make the kernel send what it could not.
pub(super) const FLUSH_NS: u64 = 1_000_000;

/// What leaves on the wire of frames that the device took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departed {
    /// Packets: several of a frame that the device cuts into segments.
    pub(super) packets: usize,
    /// Their bytes, FCS included.
    pub(super) bytes: u64,
    /// Frames that the device cuts into segments.
    pub(super) segmented: usize,
}

/// A device's transmit queue, with its counters and its share of the budget.
pub(super) struct Egress<D: Device> {
    queue: D::Tx,
    share: Arc<QueueShare>,
    /// Rate limit of the port; none: there is none.
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

    /// Offers all packets of a burst to the device. If it takes any, `bytes_of` is called with how many, so that their source counts what
    /// it counts of them, and returns their bytes, FCS included. Returns how many packets the device took.
    #[inline]
    pub(super) fn send(&mut self, burst: &mut D::Burst, bytes_of: impl FnOnce(usize) -> u64) -> usize {
        let taken = burst.send(&mut self.queue);
        if taken > 0 {
            self.account(taken, bytes_of(taken));
        }
        taken
    }

    /// Sends the first `count` packets of a burst.
    #[inline]
    pub(super) fn send_first(
        &mut self,
        burst: &mut D::Burst,
        count: usize,
        bytes_of: impl FnOnce(usize) -> u64,
    ) -> usize {
        let taken = burst.send_first(&mut self.queue, count);
        if taken > 0 {
            self.account(taken, bytes_of(taken));
        }
        taken
    }

    /// Sends packets that may leave checksums and segmentation to the device. `departed` is called with the number of frames that it took.
    #[inline]
    pub(super) fn send_unfinished(
        &mut self,
        burst: &mut D::Burst,
        count: usize,
        departed: impl FnOnce(usize) -> Departed,
    ) -> Offered {
        let offered = burst.send_unfinished(&mut self.queue, count);
        if let Offered::Taken(frames) = offered
            && frames > 0
        {
            let Departed { packets, bytes, segmented } = departed(frames);
            self.share.tx_segmented_frames.add(segmented as u64);
            self.account(packets, bytes);
        }
        offered
    }

    /// Accounts packets that the device took, with their bytes, FCS included. Whatever sends is accounted here and nowhere else.
    #[inline]
    fn account(&mut self, packets: usize, bytes: u64) {
        (self.unflushed, self.flush_at) = (true, 0);
        self.share.tx_packets.add(packets as u64);
        self.share.tx_bytes.add(bytes);
    }

    /// The device takes every packet and touches none.
    #[inline]
    pub(super) fn is_null(&self) -> bool {
        self.queue.is_null()
    }

    /// Does what the device leaves to its user.
    pub(super) fn maintain(&mut self) {
        self.queue.maintain();
    }

    /// The device gives back what it has sent.
    pub(super) fn reclaim(&mut self) {
        self.queue.reclaim();
    }

    /// Counts packets among those sent that were received before.
    pub(super) fn reflected(&self, packets: usize) {
        self.share.reflected.add(packets as u64);
    }

    /// Counts packets that were built and that the device did not take.
    pub(super) fn dropped(&self, packets: u64) {
        self.share.tx_dropped.add(packets);
    }

    /// Counts packets that wait for the budget, or that it does not let pass.
    pub(super) fn throttled(&self, packets: u64) {
        self.share.throttled_packets.add(packets);
    }

    /// Whether the port has a rate limit.
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
