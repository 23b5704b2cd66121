// SPDX-License-Identifier: Apache-2.0
//! Metrics of emulated applications: every counter of each template and side.
use prometheus_client::metrics::MetricType;
use spate_stateful::COUNTERS;
use std::{fmt, sync::Arc};

use super::native::Native;
use super::{Encoder, MAX_SIDES, Scrape};
use crate::control::latency;
use crate::control::runs::Held;
use crate::datapath::{Steering, TemplateCounters, TemplateTimes};
use spate_stats::Timed;

/// Times of one kind.
type TimesOf = fn(&TemplateTimes) -> Option<&Timed>;

/// The labels of one side of a template.
pub(super) fn labels<'a>(held: &'a Held, side: &'a TemplateCounters) -> [(&'static str, &'a str); 6] {
    [
        ("profile_namespace", held.namespace.as_str()),
        ("profile", &held.profile),
        ("run", &held.name),
        ("template", &side.name),
        ("group", &side.group),
        ("role", if side.client { "client" } else { "server" }),
    ]
}

impl Scrape {
    /// Counters that something has been counted under in some template: most are of things that seldom happen. Returns for how many sides of
    /// templates there is no room.
    pub(super) fn templates(&self, encoder: &mut Encoder<'_>) -> Result<usize, fmt::Error> {
        let read: Vec<_> = self.runs.iter().map(|held| (held, held.run().template_counters())).collect();
        let sides =
            || read.iter().flat_map(|(held, sides)| sides.iter().map(move |side| (*held, side))).take(MAX_SIDES);
        if sides().next().is_none() {
            return Ok(0);
        }
        for (index, (name, _, meaning)) in COUNTERS.iter().enumerate() {
            if sides().all(|(_, side)| side.counts[index] == 0) {
                continue;
            }
            let (name, help) = (format!("spate_template_{name}"), meaning.trim_end_matches('.'));
            let mut family = encoder.family(&name, help, MetricType::Counter)?;
            for (held, side) in sides() {
                family.counter(&labels(held, side), side.counts[index])?;
            }
        }
        Self::programs(encoder, sides())?;
        self.steering(encoder)?;
        let has_native = encoder.has_native_histograms();
        let times: Vec<_> = self.runs.iter().flat_map(|held| held.run().template_times()).collect();
        let kinds: [(&str, &str, TimesOf); 2] = [
            ("connect", "Time until connections were established, from the first SYN on", |times| {
                times.connect.as_ref()
            }),
            (
                "round_trip",
                "Time until data was acknowledged over TCP, and until a message was answered over UDP",
                |times| times.round_trip.as_ref(),
            ),
        ];
        for (kind, help, of) in kinds {
            if !times.iter().any(|times| of(times).is_some()) {
                continue;
            }
            let name = format!("spate_template_{kind}_seconds");
            let mut family = encoder.family(&name, help, MetricType::Histogram)?;
            for ((held, side), times) in sides().zip(&times) {
                if let Some(times) = of(times) {
                    let native = has_native.then(|| Native::of(&times.distribution));
                    family.histogram(&labels(held, side), &latency::timed(times), native.as_ref())?;
                }
            }
        }
        let help = "Flows that are open, those in TIME-WAIT not among them";
        let mut open = encoder.family("spate_template_open_flows", help, MetricType::Gauge)?;
        sides().try_for_each(|(held, side)| open.gauge(&labels(held, side), side.open))?;
        Ok(read.iter().map(|(_, sides)| sides.len()).sum::<usize>().saturating_sub(MAX_SIDES))
    }

    /// Writes the counters of programs.
    fn programs<'a>(
        encoder: &mut Encoder<'_>,
        sides: impl Iterator<Item = (&'a Arc<Held>, &'a TemplateCounters)>,
    ) -> fmt::Result {
        let mut sides = sides.filter(|(_, side)| !side.programs.is_empty()).peekable();
        if sides.peek().is_none() {
            return Ok(());
        }
        let help = "What programs counted, by their counters' names";
        let name = "spate_template_program_counter";
        let mut family = encoder.family(name, help, MetricType::Counter)?;
        for (held, side) in sides {
            for counter in &side.programs {
                let [namespace, profile, run, template, group, role] = labels(held, side);
                let labels = [namespace, profile, run, template, group, role, ("counter", &*counter.name)];
                family.counter(&labels, counter.count)?;
            }
        }
        Ok(())
    }

    /// How packets of flows came to the workers that have them.
    fn steering(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let help = "Packets of flows by how they came to the worker that has the flow: rss where the hash of the device was computed to bring them, \
                    placed where the flow is because its client's packets arrive there, handed_off from one worker to another, \
                    handoff_lost on that way";
        let mut family = encoder.family("spate_worker_flow_packets", help, MetricType::Counter)?;
        for held in &self.runs {
            for Steering { worker, rss, placed, handed_off, handoff_lost } in held.run().steering() {
                let worker = worker.0.to_string();
                let ways =
                    [("rss", rss), ("placed", placed), ("handed_off", handed_off), ("handoff_lost", handoff_lost)];
                for (way, packets) in ways {
                    let labels = [
                        ("profile_namespace", held.namespace.as_str()),
                        ("profile", &held.profile),
                        ("run", &held.name),
                        ("worker", &worker),
                        ("steering", way),
                    ];
                    family.counter(&labels, packets)?;
                }
            }
        }
        Ok(())
    }
}
