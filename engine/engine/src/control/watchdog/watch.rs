// SPDX-License-Identifier: Apache-2.0
//! An engine's workers are checked, and what hangs is logged.
use super::INTERVAL;
use crate::control::runs::Engine;

/// Checks an engine's workers, for ever.
pub async fn watch(engine: &Engine) {
    let mut checks = tokio::time::interval(INTERVAL);
    checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut hung = false;
    loop {
        checks.tick().await;
        engine.watchdog().check(engine.heartbeats());
        let problem = engine.watchdog().problem();
        if let Some(problem) = problem.as_ref().filter(|_| !hung) {
            tracing::error!("{problem}: the engine is neither ready nor alive");
        }
        hung = problem.is_some();
    }
}
