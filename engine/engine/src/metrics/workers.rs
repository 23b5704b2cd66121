// SPDX-License-Identifier: Apache-2.0
//! What workers have sent and received, and how busy they are.
use super::{Encoder, Scrape, Values};
use crate::control::stats;
use prometheus_client::metrics::MetricType;
use std::fmt;

impl Scrape {
    /// Time, sleeps and packets of each worker.
    pub(super) fn workers(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let stats: Vec<_> =
            stats::workers(&self.engine).into_iter().map(|w| (w.worker.to_string(), w.cpu.to_string(), w)).collect();
        let seconds: &Values<contract::WorkerStats> = &[
            ("spate_worker_busy_seconds", "Time spent with packets", |w| w.busy_ns),
            ("spate_worker_idle_seconds", "Time spent without", |w| w.idle_ns),
        ];
        for (name, help, value) in seconds {
            let mut family = encoder.family(name, help, MetricType::Counter)?;
            for (worker, cpu, w) in &stats {
                family.seconds(&[("worker", worker.as_str()), ("cpu", cpu)], value(w))?;
            }
        }
        let counts: &Values<contract::WorkerStats> = &[
            ("spate_worker_sleeps", "Times the worker slept since nothing was due", |w| w.sleeps),
            ("spate_worker_tx_packets", "Packets sent by the worker", |w| w.tx_packets),
            ("spate_worker_rx_packets", "Packets received by the worker", |w| w.rx_packets),
        ];
        for (name, help, value) in counts {
            let mut family = encoder.family(name, help, MetricType::Counter)?;
            for (worker, cpu, w) in &stats {
                family.counter(&[("worker", worker.as_str()), ("cpu", cpu)], value(w))?;
            }
        }
        Ok(())
    }
}
