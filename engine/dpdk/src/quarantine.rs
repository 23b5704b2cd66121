// SPDX-License-Identifier: Apache-2.0
//! Packet memory that is no longer needed, but that devices still hold: a NIC gives a packet back when it needs its descriptor in the
//! ring, or is closed.
use std::{
    ptr::NonNull,
    sync::{Mutex, PoisonError},
};

use spate_dpdk_sys as sys;

/// A pool, and whether all of its packets have come back.
struct Quarantined {
    pool: NonNull<sys::rte_mempool>,
    has_all: Box<dyn Fn(NonNull<sys::rte_mempool>) -> bool + Send>,
}

// SAFETY: no other thread uses the pool.
unsafe impl Send for Quarantined {}

static QUARANTINE: Mutex<Vec<Quarantined>> = Mutex::new(Vec::new());

impl Quarantined {
    /// Frees it if all of its packets have come back. Whether they have.
    fn free(&self) -> bool {
        let complete = (self.has_all)(self.pool);
        if complete {
            // SAFETY: no device holds any of its packets, and their senders are gone.
            unsafe { sys::rte_mempool_free(self.pool.as_ptr()) };
        }
        complete
    }
}

/// Frees a pool as soon as all of its packets have come back: now, or in a later `sweep`. No other thread may use it.
pub(crate) fn rest(
    memory: &str,
    pool: NonNull<sys::rte_mempool>,
    has_all: impl Fn(NonNull<sys::rte_mempool>) -> bool + Send + 'static,
) {
    sweep();
    let quarantine = Quarantined { pool, has_all: Box::new(has_all) };
    if !quarantine.free() {
        tracing::debug!(memory, "packet memory waits for devices that hold some of it");
        QUARANTINE.lock().unwrap_or_else(PoisonError::into_inner).push(quarantine);
    }
}

/// Frees the pools that all packets have come back to.
pub(crate) fn sweep() {
    QUARANTINE.lock().unwrap_or_else(PoisonError::into_inner).retain(|quarantine| !quarantine.free());
}
