// SPDX-License-Identifier: Apache-2.0
//! Which workers have handed something over? A worker looks at one cache line for that, not at a ring from each other worker: so the
//! cost of a pass does not grow with their number.
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::index::WorkerIndex;

/// Bits of a word.
const BITS: usize = 64;
/// Words for 256 workers.
const WORDS: usize = 4;

/// Numbers of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Workers([u64; WORDS]);

impl Workers {
    #[inline]
    pub(super) fn insert(&mut self, WorkerIndex(worker): WorkerIndex) {
        self.0[worker / BITS] |= 1 << (worker % BITS);
    }

    #[inline]
    pub(super) fn remove(&mut self, WorkerIndex(worker): WorkerIndex) {
        self.0[worker / BITS] &= !(1 << (worker % BITS));
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// The lowest.
    #[inline]
    pub(super) fn first(&self) -> Option<WorkerIndex> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(WorkerIndex(word * BITS + self.0[word].trailing_zeros() as usize))
    }

    /// Takes out the lowest.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<WorkerIndex> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }
}

/// The bell of one worker, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(in crate::datapath) struct Doorbell([AtomicU64; WORDS]);

impl Doorbell {
    /// Notifies that a worker has handed something over. What it did before is visible to the worker that takes it.
    #[inline]
    pub(super) fn ring(&self, WorkerIndex(from): WorkerIndex) {
        self.0[from / BITS].fetch_or(1 << (from % BITS), Release);
    }

    /// Whether any worker has, since they were last taken.
    #[inline(always)]
    pub(super) fn is_rung(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word.load(Relaxed)) != 0
    }

    /// The workers that have, since they were last taken.
    #[inline(never)]
    pub(super) fn take(&self) -> Workers {
        let mut all = Workers::default();
        for (word, taken) in self.0.iter().zip(&mut all.0) {
            if word.load(Relaxed) != 0 {
                *taken = word.swap(0, Acquire);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_rang_is_returned_once() {
        let doorbell = Doorbell::default();
        assert!(doorbell.take().is_empty() && !doorbell.is_rung());
        for worker in [255, 0, 63, 64, 0] {
            doorbell.ring(WorkerIndex(worker));
        }
        assert!(doorbell.is_rung());
        let mut all = doorbell.take();
        assert!(doorbell.take().is_empty() && !doorbell.is_rung());
        assert_eq!(all.first(), Some(WorkerIndex(0)));
        all.remove(WorkerIndex(64));
        assert_eq!(std::iter::from_fn(|| Some(all.pop()?.0)).collect::<Vec<_>>(), [0, 63, 255]);
    }

    #[test]
    fn what_was_handed_over_is_seen_by_the_worker_that_reads_the_bell() {
        const ROUNDS: u64 = 200_000;
        let (doorbell, handed) = (Doorbell::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    handed.store(round, Relaxed);
                    doorbell.ring(WorkerIndex(70));
                }
            });
            let mut seen = 0;
            while seen < ROUNDS {
                if !doorbell.take().is_empty() {
                    // Of any two rings in between, the later one is seen, now or with the next poll.
                    let now = handed.load(Relaxed);
                    assert!(now > seen || now == ROUNDS || now == seen, "{now} after {seen}");
                    seen = now;
                }
            }
            assert!(doorbell.take().is_empty() || handed.load(Relaxed) == ROUNDS);
        });
    }
}
