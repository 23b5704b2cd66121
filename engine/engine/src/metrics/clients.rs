// SPDX-License-Identifier: Apache-2.0
//! Metrics of emulated clients, by group. No client has a series of its own.
use super::native::Native;
use super::{Encoder, Scrape};
use crate::control::clients::EmulatedClients;
use crate::control::runs::Held;
use crate::control::{client_stats, latency};
use prometheus_client::metrics::MetricType;
use spate_stats::Timed;
use std::fmt;
use std::sync::Arc;

/// The labels of a group.
fn labels<'a>(held: &'a Held, port: &'a str, group: &'a EmulatedClients) -> [(&'static str, &'a str); 5] {
    [
        ("profile_namespace", held.namespace.as_str()),
        ("profile", &held.profile),
        ("run", &held.name),
        ("clients", group.clients().name()),
        ("port", port),
    ]
}

/// The same with one more.
fn with<'a>(labels: [(&'static str, &'a str); 5], label: &'static str, value: &'a str) -> [(&'static str, &'a str); 6] {
    let [namespace, profile, run, clients, port] = labels;
    [namespace, profile, run, clients, port, (label, value)]
}

impl Scrape {
    /// States, failures, events and times of groups of clients.
    pub(super) fn clients(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let read: Vec<(&Arc<Held>, Vec<Arc<EmulatedClients>>)> =
            self.runs.iter().map(|held| (held, held.clients())).collect();
        let groups = || {
            read.iter().flat_map(|(held, groups)| {
                let port = |group: &EmulatedClients| &*self.engine.ports()[group.clients().port().0].name;
                groups.iter().map(move |group| (labels(held, port(group), group), group.clients().counters(), group))
            })
        };
        if groups().next().is_none() {
            return Ok(());
        }
        let help = "Emulated clients of this engine, by state";
        let mut family = encoder.family("spate_clients", help, MetricType::Gauge)?;
        for (labels, counters, _) in groups() {
            for state in client_stats::states(counters) {
                family.gauge(&with(labels, "state", &state.name), state.value)?;
            }
        }
        let help = "Emulated clients that have failed, by cause; they go on to try";
        let mut family = encoder.family("spate_clients_failed", help, MetricType::Gauge)?;
        for (labels, counters, _) in groups() {
            for cause in client_stats::causes(counters) {
                family.gauge(&with(labels, "cause", &cause.name), cause.value)?;
            }
        }
        let help = "Messages and other events of emulated clients, by name; those that have not happened are absent";
        let mut family = encoder.family("spate_client_events", help, MetricType::Counter)?;
        for (labels, counters, _) in groups() {
            for event in client_stats::counts(counters) {
                family.counter(&with(labels, "event", &event.name), event.value)?;
            }
        }
        let help = "Frames for emulated clients of the port that were lost because their thread was behind";
        let mut family = encoder.family("spate_client_frames_lost", help, MetricType::Counter)?;
        for (labels, _, group) in groups() {
            family.counter(&labels, group.clients().frames_lost())?;
        }
        let has_native = encoder.has_native_histograms();
        let help = "Time from the start of an emulated client until it was bound";
        let mut family = encoder.family("spate_client_setup_seconds", help, MetricType::Histogram)?;
        for (labels, counters, _) in groups() {
            let timed = Timed::read([counters.setup()].into_iter());
            let native = has_native.then(|| Native::of(&timed.distribution));
            family.histogram(&labels, &latency::timed(&timed), native.as_ref())?;
        }
        Ok(())
    }
}
