// SPDX-License-Identifier: Apache-2.0
//! Numbers that belong together, from their one writer to any reader, of which none waits for another.
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// Numbers as their one writer left them last. A reader that comes while they are written tries again.
#[derive(Debug)]
pub struct Snapshot<const N: usize> {
    /// Odd while they are written.
    version: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> Default for Snapshot<N> {
    fn default() -> Self {
        Self { version: AtomicU64::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl<const N: usize> Snapshot<N> {
    /// Leaves numbers; only its one writer may.
    #[inline]
    pub fn publish(&self, words: [u64; N]) {
        let version = self.version.load(Relaxed);
        self.version.store(version + 1, Relaxed);
        fence(Release);
        for (slot, word) in self.words.iter().zip(words) {
            slot.store(word, Relaxed);
        }
        self.version.store(version + 2, Release);
    }

    /// What was left last, zeros before anything was; none if it is being written.
    #[inline]
    pub fn try_read(&self) -> Option<[u64; N]> {
        let before = self.version.load(Acquire);
        let words = std::array::from_fn(|i| self.words[i].load(Relaxed));
        fence(Acquire);
        (before.is_multiple_of(2) && before == self.version.load(Relaxed)).then_some(words)
    }

    /// Reads the values after the writer is done: not for threads that must not wait for it.
    pub fn read(&self) -> [u64; N] {
        loop {
            if let Some(words) = self.try_read() {
                return words;
            }
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_never_sees_a_part_of_what_was_written() {
        const ROUNDS: u64 = 100_000;
        let snapshot = Snapshot::<3>::default();
        assert_eq!(snapshot.read(), [0; 3]);
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=ROUNDS).for_each(|n| snapshot.publish([n, 2 * n, 3 * n])));
            let mut last = 0;
            while last < ROUNDS {
                let Some([n, twice, thrice]) = snapshot.try_read() else { continue };
                assert!(n >= last && (twice, thrice) == (2 * n, 3 * n), "{n} {twice} {thrice} after {last}");
                last = n;
            }
        });
        assert_eq!(snapshot.read(), [ROUNDS, 2 * ROUNDS, 3 * ROUNDS]);
    }
}
