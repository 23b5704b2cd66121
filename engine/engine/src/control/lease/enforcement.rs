// SPDX-License-Identifier: Apache-2.0
//! An expired lease stops its run.
use crate::control::runs::Engine;
use std::time::Duration;

/// How often leases are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Stops each run of an engine when its lease expires. Does not return.
pub async fn enforce(engine: &Engine) {
    let mut looks = tokio::time::interval(POLL_INTERVAL);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        for held in engine.all() {
            // A run that was not started sends nothing, and the other engines of its plan may take long to prepare theirs.
            if held.lease.has_expired() && !held.has_ended() && held.run().started_at().is_some() {
                let lease = held.lease.length;
                tracing::warn!(
                    run = held.run().id(),
                    ?lease,
                    "no call named the run for the time of its lease: it stops"
                );
                held.run().stop(&format!("no call named the run for the time of its lease, {lease:?}"));
            }
        }
    }
}
