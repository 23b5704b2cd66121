// SPDX-License-Identifier: Apache-2.0
//! The lease of a run: it stops by itself when no call has named it for as long as its plan says. Calls that ask for the engine
//! as a whole (GetInfo) renew none, so that a run that no caller follows any more ends although its engine is watched.
mod enforcement;

use crate::lock::lock;
pub use enforcement::enforce;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// When a call with authority named the run last, and for how long that holds.
#[derive(Debug)]
pub struct Lease {
    /// Zero: for ever.
    length: Duration,
    renewed: Mutex<Instant>,
}

impl Lease {
    /// A lease of `length_ns` that begins now; 0 never ends.
    pub fn new(length_ns: u64) -> Self {
        Self { length: Duration::from_nanos(length_ns), renewed: Mutex::new(Instant::now()) }
    }

    /// A call with authority names the run.
    pub fn renew(&self) {
        *lock(&self.renewed) = Instant::now();
    }

    /// Whether no call with authority has named the run for that long.
    pub fn has_expired(&self) -> bool {
        !self.length.is_zero() && lock(&self.renewed).elapsed() > self.length
    }
}
