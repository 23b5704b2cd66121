// SPDX-License-Identifier: Apache-2.0
//! Flows in TIME-WAIT, in the order in which it ends. All of a template wait equally long, so a queue does for most flows what
//! the wheel would: nothing is touched meanwhile, and which flow is next is known ahead, so that what they need can be fetched into the
//! caches. After a second of half a million flows there is nothing left of them there.
use std::collections::VecDeque;

use crate::{flow::FlowIndex, wheel};

/// Flows that end together.
pub(crate) const BATCH: usize = 16;

/// A flow that ends at a tick, unless something has happened to it since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) index: FlowIndex,
    pub(crate) at: u32,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct TimeWaits {
    entries: VecDeque<Entry>,
    /// The tick of the last that was added.
    latest: u32,
    /// Never more, so that it never grows.
    most: usize,
    /// Number of entries from the first on of which the flow and its cell of the table were prefetched.
    fetched: usize,
    found: usize,
}

impl TimeWaits {
    /// A queue for up to this many flows.
    pub(crate) fn new(flows: usize) -> Self {
        Self { entries: VecDeque::with_capacity(flows), latest: 0, most: flows, fetched: 0, found: 0 }
    }

    /// Bytes of one for up to this many flows.
    pub(crate) const fn bytes(flows: usize) -> usize {
        flows * size_of::<Entry>()
    }

    /// A flow ends at a tick. False if another ends later, or there is no room: the wheel takes it then.
    #[inline]
    pub(crate) fn push(&mut self, index: FlowIndex, at: u32) -> bool {
        let in_order = self.entries.is_empty() || !wheel::before(at, self.latest);
        let fits = self.entries.len() < self.most && in_order;
        if fits {
            self.latest = at;
            self.entries.push_back(Entry { index, at });
        }
        fits
    }

    /// The tick at which the next ends.
    #[inline]
    pub(crate) fn next(&self) -> Option<u32> {
        self.entries.front().map(|entry| entry.at)
    }

    /// Takes out those that end next up to a tick, at most as many as there is room for. Returns how many.
    #[inline]
    pub(crate) fn take_due(&mut self, to: u32, due: &mut [Entry; BATCH]) -> usize {
        let mut count = 0;
        while count < BATCH
            && let Some(entry) = self.entries.front().filter(|entry| !wheel::before(to, entry.at))
        {
            due[count] = *entry;
            count += 1;
            self.entries.pop_front();
        }
        self.fetched = self.fetched.saturating_sub(count);
        self.found = self.found.saturating_sub(count);
        count
    }

    /// Fetches the flows that end after the next batch into the CPU's caches, and what finds those that end before.
    #[inline]
    pub(crate) fn look_ahead(&mut self, mut fetch: impl FnMut(FlowIndex), mut find: impl FnMut(FlowIndex)) {
        while self.found < BATCH.min(self.entries.len()) {
            find(self.entries[self.found].index);
            self.found += 1;
        }
        while self.fetched < (2 * BATCH).min(self.entries.len()) {
            fetch(self.entries[self.fetched].index);
            self.fetched += 1;
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        (self.fetched, self.found) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_and_fetched_once_before_its_turn() {
        let mut queue = TimeWaits::new(100);
        (0..100).for_each(|index| assert!(queue.push(FlowIndex::new(index), index)));
        let mut due = [Entry { index: FlowIndex::default(), at: 0 }; BATCH];
        let (mut fetched, mut found, mut taken) = (vec![], vec![], 0);
        let batch = BATCH as u32;
        for to in [4, 4, 7, 40, 40, 40, 60, 99, 99, 99] {
            taken += queue.take_due(to, &mut due) as u32;
            queue
                .look_ahead(|index| fetched.push(index.position() as u32), |index| found.push(index.position() as u32));
            assert_eq!(fetched.last(), Some(&(taken + 2 * batch).min(100).saturating_sub(1)), "{to}");
            assert_eq!(found.last(), Some(&(taken + batch).min(100).saturating_sub(1)), "{to}");
        }
        assert!(taken == 100 && fetched.is_sorted() && found.is_sorted());
        // All but those that were due at once.
        assert_eq!((fetched.len(), found.len()), (95, 95));
    }

    #[test]
    fn flows_come_out_in_order_in_batches_and_the_queue_never_grows() {
        let start = u32::MAX - 5; // ticks wrap around
        let mut queue = TimeWaits::new(40);
        for index in 0..40 {
            assert!(queue.push(FlowIndex::new(index), start.wrapping_add(index)));
        }
        assert!(!queue.push(FlowIndex::new(40), start.wrapping_add(50)), "no room");
        let mut due = [Entry { index: FlowIndex::default(), at: 0 }; BATCH];
        assert_eq!(queue.take_due(start.wrapping_sub(1), &mut due), 0);
        assert_eq!((queue.take_due(start.wrapping_add(18), &mut due), due[15].index.position()), (BATCH, 15));
        assert_eq!((queue.take_due(start.wrapping_add(18), &mut due), due[2].index.position()), (3, 18));
        assert_eq!(queue.next(), Some(start.wrapping_add(19)));
        assert!(!queue.push(FlowIndex::new(41), start.wrapping_add(38)), "before another");
        assert!(queue.push(FlowIndex::new(41), start.wrapping_add(39)));
        queue.clear();
        assert_eq!(queue.next(), None);
    }
}
