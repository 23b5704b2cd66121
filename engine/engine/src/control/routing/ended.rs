// SPDX-License-Identifier: Apache-2.0
//! Routes of runs that have ended are withdrawn.
use crate::control::runs::Engine;
use std::time::Duration;

/// How often runs are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Withdraws the routes of each run of an engine when it has ended. Does not return.
pub async fn withdraw_ended(engine: &Engine) {
    let mut looks = tokio::time::interval(POLL_INTERVAL);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        engine.withdraw_ended_routes();
    }
}
