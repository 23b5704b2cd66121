// SPDX-License-Identifier: Apache-2.0
//! A number that one thread writes and any thread may read at any time, without a lock or an atomic read-modify-write.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; only its one writer may.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Replaces; only its one writer may.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Its value now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
