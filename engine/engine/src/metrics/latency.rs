// SPDX-License-Identifier: Apache-2.0
//! Metrics of delays, by group of streams.
use super::native::Native;
use super::streams::labels;
use super::{Encoder, Scrape, Values, seconds};
use contract::{LatencyStats, StreamStats};
use prometheus_client::metrics::MetricType;
use std::fmt;

impl Scrape {
    /// Delays of the measured phase, by group.
    pub(super) fn delays(
        &self,
        encoder: &mut Encoder<'_>,
        read: &[Vec<StreamStats>],
        native: &[Vec<Option<Native>>],
    ) -> fmt::Result {
        let groups = self.runs.iter().zip(read).zip(native).flat_map(|((held, streams), native)| {
            let groups = held.groups().iter().zip(streams).zip(native);
            groups.map(move |((facts, stats), native)| (labels(held, facts), stats, native))
        });
        let measured: Vec<_> = groups
            .filter_map(|(labels, stats, native)| Some((labels, stats.measured.as_ref()?.latency.as_ref()?, native)))
            .collect();
        let known = || measured.iter().filter(|(_, latency, _)| !latency.one_way_unknown);
        let help = "Time from a packet's time stamp to its arrival, in the measured phase; duplicates do not count";
        let mut family = encoder.family("spate_stream_latency_seconds", help, MetricType::Histogram)?;
        for (labels, latency, native) in known() {
            family.histogram(labels, latency, native.as_ref())?;
        }
        let help = "Quantiles of the same, to three significant digits";
        let name = "spate_stream_latency_quantile_seconds";
        let mut family = encoder.family(name, help, MetricType::Gauge)?;
        for (labels, latency, _) in known() {
            for quantile in &latency.quantiles {
                let quantile_label = (f64::from(quantile.parts_per_million) / 1e6).to_string();
                let [namespace, profile, run, stream, tx_port, rx_port] = *labels;
                let labels = [namespace, profile, run, stream, tx_port, rx_port, ("quantile", quantile_label.as_str())];
                family.number(&labels, seconds(quantile.ns))?;
            }
        }
        let one_way: &Values<LatencyStats> = &[
            ("spate_stream_latency_min_seconds", "The minimum of the same", |l| l.min_ns),
            ("spate_stream_latency_max_seconds", "The maximum of the same", |l| l.max_ns),
            (
                "spate_stream_clock_bound_seconds",
                "What the clocks of engines agree to, and the maximum error of a device's time stamps; 0 where one clock gives all",
                |l| l.clock_bound_ns,
            ),
        ];
        for (name, help, value) in one_way {
            let mut family = encoder.family(name, help, MetricType::Gauge)?;
            for (labels, latency, _) in known() {
                family.number(labels, seconds(value(latency)))?;
            }
        }
        let jitter: &Values<LatencyStats> = &[
            ("spate_stream_jitter_seconds", "Interarrival jitter (RFC 3550)", |l| l.jitter_ns),
            (
                "spate_stream_jitter_max_seconds",
                "Greatest difference between the delays of a packet and the next",
                |l| l.jitter_max_ns,
            ),
        ];
        for (name, help, value) in jitter {
            let mut family = encoder.family(name, help, MetricType::Gauge)?;
            for (labels, latency, _) in &measured {
                family.number(labels, seconds(value(latency)))?;
            }
        }
        let help = "Packets that came before they left, by clocks that disagree: not in the latency, or 0";
        let name = "spate_stream_negative_latency_packets";
        let mut family = encoder.family(name, help, MetricType::Counter)?;
        for (labels, latency, _) in known() {
            family.counter(labels, latency.negative)?;
        }
        Ok(())
    }
}
