// SPDX-License-Identifier: Apache-2.0
//! Metrics of foreign traffic, by receiver.
use super::{Encoder, Scrape, Values, seconds};
use crate::control::receivers;
use crate::control::runs::Held;
use contract::{Moments, ReceiverStats, WorkerReceived};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// Name, help, and where it is in the statistics.
type Part = (&'static str, &'static str, fn(&ReceiverStats) -> Option<&Moments>);
/// Name with unit, what it is, and its value.
type Value = (&'static str, &'static str, fn(&Moments) -> f64);

impl Scrape {
    /// Foreign traffic, by receiver.
    pub(super) fn receivers(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let read: Vec<_> = self.runs.iter().map(|held| (held, receivers::stats(held))).collect();
        let labels = |held: &'_ Held, index: usize| {
            [
                ("profile_namespace", held.namespace.clone()),
                ("profile", held.profile.clone()),
                ("run", held.name.clone()),
                ("receiver", held.receivers[index].name.clone()),
                ("port", held.receivers[index].port.clone()),
            ]
        };
        let counts: &Values<WorkerReceived> = &[
            ("spate_receiver_packets", "Foreign packets received, by worker; reset by ResetReceivers", |w| w.packets),
            ("spate_receiver_bytes", "Their bytes, FCS included", |w| w.bytes),
        ];
        for (name, help, value) in counts {
            let mut family = encoder.family(name, help, MetricType::Counter)?;
            for (held, receivers) in &read {
                for (index, receiver) in receivers.iter().enumerate() {
                    for worker in &receiver.workers {
                        let [namespace, profile, run, name, port] = labels(held, index);
                        let labels = [namespace, profile, run, name, port, ("worker", worker.worker.to_string())];
                        family.counter(&labels, value(worker))?;
                    }
                }
            }
        }
        let parts: [Part; 3] = [
            ("inter_arrival", "Time from a foreign packet to the next of the same worker", |r| {
                r.inter_arrival.as_ref()
            }),
            ("jitter", "Difference between an inter-arrival time and the next", |r| r.jitter.as_ref()),
            ("latency", "Time from a foreign packet's time stamp to its arrival", |r| r.latency.as_ref()),
        ];
        let values: [Value; 4] = [
            ("mean_seconds", "mean", |m| m.mean_ns / 1e9),
            ("variance_seconds_squared", "variance", |m| m.variance_ns2 / 1e18),
            ("min_seconds", "minimum", |m| seconds(m.min_ns)),
            ("max_seconds", "maximum", |m| seconds(m.max_ns)),
        ];
        for (part, help, moments) in parts {
            for (unit, which, value) in values {
                let (name, help) = (format!("spate_receiver_{part}_{unit}"), format!("{help}: {which}"));
                let mut family = encoder.family(&name, &help, MetricType::Gauge)?;
                for (held, receivers) in &read {
                    let some = receivers.iter().enumerate().filter_map(|(i, r)| Some((i, moments(r)?)));
                    for (index, moments) in some.filter(|(_, moments)| moments.count > 0) {
                        family.number(&labels(held, index), value(moments))?;
                    }
                }
            }
        }
        Ok(())
    }
}
