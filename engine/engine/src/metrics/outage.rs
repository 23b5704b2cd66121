// SPDX-License-Identifier: Apache-2.0
//! Metrics of outages: the longest time without an arrival so far, by stream and by side of a template.
use prometheus_client::metrics::MetricType;
use std::fmt;

use super::streams::labels;
use super::{Encoder, MAX_SIDES, Scrape, seconds, templates};
use contract::StreamStats;
use spate_stats::Span;

impl Scrape {
    /// Writes outages of streams that are counted on arrival.
    pub(super) fn stream_outages(&self, encoder: &mut Encoder<'_>, read: &[Vec<StreamStats>]) -> fmt::Result {
        let help = "Longest time without an arrival in the measured phase so far, at this engine";
        let name = "spate_stream_outage_longest_seconds";
        let mut family = encoder.family(name, help, MetricType::Gauge)?;
        for (held, streams) in self.runs.iter().zip(read) {
            for (facts, stats) in held.groups().iter().zip(streams) {
                if let Some(outage) = stats.measured.as_ref().and_then(|measured| measured.outage.as_ref()) {
                    family.number(&labels(held, facts), seconds(outage.longest_ns))?;
                }
            }
        }
        Ok(())
    }

    /// Writes outages of the sides of templates.
    pub(super) fn template_outages(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let help =
            "Longest time without an arrival of a packet of its flows in the measured phase so far, at this engine";
        let name = "spate_template_outage_longest_seconds";
        let mut family = encoder.family(name, help, MetricType::Gauge)?;
        let sides = self.runs.iter().flat_map(|held| {
            let outages = held.run().template_outages();
            held.run().template_counters().into_iter().zip(outages).map(move |(side, outage)| (held, side, outage))
        });
        for (held, side, outage) in sides.take(MAX_SIDES) {
            if let Some(outage) = outage {
                let longest_ns = outage.silence.longest().map_or(0, Span::len_ns);
                family.number(&templates::labels(held, &side), seconds(longest_ns))?;
            }
        }
        Ok(())
    }
}
