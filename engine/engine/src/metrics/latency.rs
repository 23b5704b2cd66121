// SPDX-License-Identifier: Apache-2.0
//! Metrics of delays, by group of streams.
use super::{Family, Scrape, Values, labels, seconds};
use contract::{LatencyStats, StreamStats};
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;

impl Family<'_> {
    /// Delays by upper bound.
    pub(super) fn histogram(&mut self, labels: &impl EncodeLabelSet, latency: &LatencyStats) -> fmt::Result {
        let mut below = 0;
        let mut buckets: Vec<(f64, u64)> = Vec::with_capacity(latency.buckets.len() + 1);
        for bucket in &latency.buckets {
            buckets.push((seconds(bucket.upper_ns), bucket.count - below));
            below = bucket.count;
        }
        // The histogram is read after the count: what came in between is left to the next scrape.
        let count = latency.count.max(below);
        buckets.push((f64::INFINITY, count - below));
        let mut family = self.0.encode_family(labels)?;
        family.encode_histogram::<NoLabelSet>(seconds(latency.sum_ns), count, &buckets, None)
    }
}

impl Scrape {
    /// Delays of the measured phase, by group.
    pub(super) fn delays(&self, encoder: &mut DescriptorEncoder<'_>, read: &[Vec<StreamStats>]) -> fmt::Result {
        let groups = self.runs.iter().zip(read).flat_map(|(held, streams)| {
            held.groups().iter().zip(streams).map(move |(facts, stats)| (labels(held, facts), stats))
        });
        let measured: Vec<_> =
            groups.filter_map(|(labels, stats)| Some((labels, stats.measured.as_ref()?.latency.as_ref()?))).collect();
        let known = || measured.iter().filter(|(_, latency)| !latency.one_way_unknown);
        let help = "Time from a packet's time stamp to its arrival, in the measured phase; duplicates do not count";
        let mut family =
            Family(encoder.encode_descriptor("spate_stream_latency_seconds", help, None, MetricType::Histogram)?);
        for (labels, latency) in known() {
            family.histogram(labels, latency)?;
        }
        let help = "Quantiles of the same, to three significant digits";
        let name = "spate_stream_latency_quantile_seconds";
        let mut family = Family(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?);
        for (labels, latency) in known() {
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
                "What the clocks of engines agree to; 0 where only one takes part",
                |l| l.clock_bound_ns,
            ),
        ];
        for (name, help, value) in one_way {
            let mut family = Family(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?);
            for (labels, latency) in known() {
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
            let mut family = Family(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?);
            for (labels, latency) in &measured {
                family.number(labels, seconds(value(latency)))?;
            }
        }
        let help = "Packets that came before they left, by clocks that disagree: not in the latency, or 0";
        let name = "spate_stream_negative_latency_packets";
        let mut family = Family(encoder.encode_descriptor(name, help, None, MetricType::Counter)?);
        for (labels, latency) in known() {
            family.counter(labels, latency.negative)?;
        }
        Ok(())
    }
}
