// SPDX-License-Identifier: Apache-2.0
//! Metric families in either format: what has metrics writes them once, here they become OpenMetrics text or Prometheus' protobuf.
pub mod protobuf;

use super::native::Native;
use super::seconds;
use contract::LatencyStats;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// The page that is written.
pub(super) enum Encoder<'a> {
    Text(DescriptorEncoder<'a>),
    Protobuf(&'a mut protobuf::Writer),
}

impl Encoder<'_> {
    /// Begins a family. A counter's name has no suffix `_total`: each format adds it in its way.
    pub(super) fn family<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        kind: MetricType,
    ) -> Result<Family<'s>, fmt::Error> {
        match self {
            Self::Text(encoder) => Ok(Family::Text(encoder.encode_descriptor(name, help, None, kind)?)),
            Self::Protobuf(writer) => {
                writer.begin(name, help, kind)?;
                Ok(Family::Protobuf(writer))
            }
        }
    }

    /// Whether histograms have native buckets beside classic ones.
    pub(super) fn has_native_histograms(&self) -> bool {
        matches!(self, Self::Protobuf(_))
    }
}

/// A label's value.
pub(super) trait LabelValue: AsRef<str> + EncodeLabelValue {}
impl<T: AsRef<str> + EncodeLabelValue> LabelValue for T {}

/// A metric family under way.
pub(super) enum Family<'a> {
    Text(MetricEncoder<'a>),
    Protobuf(&'a mut protobuf::Writer),
}

impl Family<'_> {
    pub(super) fn counter<V: LabelValue, const N: usize>(
        &mut self,
        labels: &[(&str, V); N],
        value: u64,
    ) -> fmt::Result {
        match self {
            Self::Text(family) => family.encode_family(labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None),
            Self::Protobuf(writer) => writer.counter(labels, value as f64),
        }
    }

    /// A counter of seconds.
    pub(super) fn seconds<V: LabelValue, const N: usize>(&mut self, labels: &[(&str, V); N], ns: u64) -> fmt::Result {
        match self {
            Self::Text(family) => {
                family.encode_family(labels)?.encode_counter::<NoLabelSet, f64, u64>(&seconds(ns), None)
            }
            Self::Protobuf(writer) => writer.counter(labels, seconds(ns)),
        }
    }

    pub(super) fn gauge<V: LabelValue, const N: usize>(&mut self, labels: &[(&str, V); N], value: u64) -> fmt::Result {
        match self {
            Self::Text(family) => family.encode_family(labels)?.encode_gauge(&value),
            Self::Protobuf(writer) => writer.gauge(labels, value as f64),
        }
    }

    /// A gauge that is no whole number.
    pub(super) fn number<V: LabelValue, const N: usize>(&mut self, labels: &[(&str, V); N], value: f64) -> fmt::Result {
        match self {
            Self::Text(family) => family.encode_family(labels)?.encode_gauge(&value),
            Self::Protobuf(writer) => writer.gauge(labels, value),
        }
    }

    /// Delays by upper bound; and the same by native bucket, if that was made (`Encoder::has_native_histograms`).
    pub(super) fn histogram<V: LabelValue, const N: usize>(
        &mut self,
        labels: &[(&str, V); N],
        latency: &LatencyStats,
        native: Option<&Native>,
    ) -> fmt::Result {
        match self {
            Self::Text(family) => {
                let mut below = 0;
                let mut buckets: Vec<(f64, u64)> = Vec::with_capacity(latency.buckets.len() + 1);
                for bucket in &latency.buckets {
                    buckets.push((seconds(bucket.upper_ns), bucket.count - below));
                    below = bucket.count;
                }
                let count = count(latency);
                buckets.push((f64::INFINITY, count - below));
                let mut family = family.encode_family(labels)?;
                family.encode_histogram::<NoLabelSet>(seconds(latency.sum_ns), count, &buckets, None)
            }
            Self::Protobuf(writer) => writer.histogram(labels, latency, native),
        }
    }
}

/// The count of a classic histogram. The buckets are read after it: what came in between is left to the next scrape.
fn count(latency: &LatencyStats) -> u64 {
    latency.count.max(latency.buckets.last().map_or(0, |bucket| bucket.count))
}

#[cfg(test)]
mod tests;
