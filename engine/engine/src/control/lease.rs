// SPDX-License-Identifier: Apache-2.0
//! The lease: a run stops by itself when nobody with authority has called for as long as its plan says.
use super::runs::Engine;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often leases are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// When somebody with authority called last.
#[derive(Debug)]
pub struct Lease(Mutex<Instant>);

impl Default for Lease {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Lease {
    /// Somebody with authority calls.
    pub fn renew(&self) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = Instant::now();
    }

    fn unheard(&self) -> Duration {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).elapsed()
    }

    /// Stops runs whose lease has run out, for ever.
    pub async fn enforce(&self, engine: &Engine) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let unheard = self.unheard();
            for held in engine.all() {
                let lease = Duration::from_nanos(held.lease_ns);
                if !lease.is_zero() && unheard > lease && !held.has_ended() {
                    tracing::warn!(
                        run = held.run().id(),
                        ?lease,
                        "nobody called for the time of the lease: the run stops"
                    );
                    held.run().stop(&format!("nobody called for the time of the lease, {lease:?}"));
                }
            }
        }
    }
}
