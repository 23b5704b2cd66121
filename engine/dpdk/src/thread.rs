// SPDX-License-Identifier: Apache-2.0
//! Threads that work with DPDK, and the time stamp counter they read.
use std::marker::PhantomData;

use spate_dpdk_sys as sys;

use crate::{Eal, Error, error::last_errno, log::Mark};

/// While this lives, the thread that made it has an lcore id, and thereby its own cache in every mempool.
pub struct RegisteredThread {
    /// Makes the value stay on its thread.
    _here: PhantomData<*const ()>,
}

impl RegisteredThread {
    /// Registers the calling thread. Threads that DPDK does not know work too, with slower packet memory.
    pub fn new(_: &Eal) -> Result<Self, Error> {
        let mark = Mark::now();
        // SAFETY: the environment is up.
        match unsafe { sys::rte_thread_register() } {
            0 => Ok(Self { _here: PhantomData }),
            _ => Err(Error::from_code("registering a worker thread", last_errno(), mark)),
        }
    }
}

impl Drop for RegisteredThread {
    fn drop(&mut self) {
        // SAFETY: this thread was registered by `new`; the type cannot be sent to another.
        unsafe { sys::rte_thread_unregister() }
    }
}

/// The processor's time stamp counter.
#[inline]
pub fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, and Linux lets processes use it.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: reads a counter.
    unsafe {
        sys::spate_tsc()
    }
}
