// SPDX-License-Identifier: Apache-2.0
//! Metrics of the engine itself, and the states of its runs.
use super::{Encoder, Scrape};
use crate::version::version;
use contract::RunState;
use prometheus_client::metrics::MetricType;
use std::fmt;

const STATES: [(RunState, &str); 8] = [
    (RunState::Prepared, "prepared"),
    (RunState::Armed, "armed"),
    (RunState::WarmingUp, "warming_up"),
    (RunState::Running, "running"),
    (RunState::Paused, "paused"),
    (RunState::Draining, "draining"),
    (RunState::Complete, "complete"),
    (RunState::Stopped, "stopped"),
];

impl Scrape {
    /// Versions of the engine and of DPDK, and where times are from.
    pub(super) fn engine_info(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let dpdk = crate::datapath::Datapath::dpdk_version();
        let time = self.engine.time_source();
        let labels = [("version", version()), ("dpdk_version", dpdk.as_str()), ("time_source", time.as_str())];
        let mut family = encoder.family("spate_engine_info", "What the engine is", MetricType::Gauge)?;
        family.gauge(&labels, 1)
    }

    /// The state of each run, as one series per state.
    pub(super) fn runs(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let help = "1 for the state a run is in";
        let mut family = encoder.family("spate_run_state", help, MetricType::Gauge)?;
        for held in &self.runs {
            let info = held.info(self.engine.now_ns());
            for (state, name) in STATES {
                let labels = [
                    ("profile_namespace", held.namespace.as_str()),
                    ("profile", &held.profile),
                    ("run", &held.name),
                    ("state", name),
                ];
                family.gauge(&labels, u64::from(info.state == i32::from(state)))?;
            }
        }
        Ok(())
    }
}
