// SPDX-License-Identifier: Apache-2.0
//! Prometheus' protobuf format: messages of `io.prometheus.client` (metrics.proto of Prometheus), each with its length before it.
//!
//! Messages have the fields that an engine's metrics use. A page is written one series at a time, with a message that is used again: a series
//! allocates nothing.
use super::super::native::{Native, ZERO_THRESHOLD};
use super::super::seconds;
use contract::LatencyStats;
use prometheus_client::metrics::MetricType;
use prost::{Enumeration, Message, encode_length_delimiter};
use std::fmt;

/// Metrics of one name.
#[derive(Clone, PartialEq, Message)]
pub struct MetricFamily {
    /// The name, that of a counter with `_total`.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Help text.
    #[prost(string, tag = "2")]
    pub help: String,
    /// Type of its metrics (`Kind`).
    #[prost(enumeration = "Kind", tag = "3")]
    pub r#type: i32,
    /// Metrics of the family, one for each set of labels.
    #[prost(message, repeated, tag = "4")]
    pub metric: Vec<Metric>,
}

/// Types of metrics (`MetricType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Kind {
    Counter = 0,
    Gauge = 1,
    Untyped = 3,
    Histogram = 4,
}

/// A metric: the value with a set of labels.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// Its labels.
    #[prost(message, repeated, tag = "1")]
    pub label: Vec<LabelPair>,
    /// The value of a gauge.
    #[prost(message, optional, tag = "2")]
    pub gauge: Option<Value>,
    /// The value of a counter.
    #[prost(message, optional, tag = "3")]
    pub counter: Option<Value>,
    /// Value of a histogram.
    #[prost(message, optional, tag = "7")]
    pub histogram: Option<Histogram>,
}

/// A label.
#[derive(Clone, PartialEq, Message)]
pub struct LabelPair {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A number (`Gauge`, `Counter`).
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Value {
    /// The number.
    #[prost(double, tag = "1")]
    pub value: f64,
}

/// A histogram, classic and native.
#[derive(Clone, PartialEq, Message)]
pub struct Histogram {
    /// Number of observations.
    #[prost(uint64, tag = "1")]
    pub sample_count: u64,
    /// Their sum.
    #[prost(double, tag = "2")]
    pub sample_sum: f64,
    /// Classic buckets by rising upper bound, the last of which is infinite.
    #[prost(message, repeated, tag = "3")]
    pub bucket: Vec<Bucket>,
    /// Resolution of native buckets.
    #[prost(sint32, tag = "5")]
    pub schema: i32,
    /// Greatest value that counts as zero; 0 of a histogram without native buckets.
    #[prost(double, tag = "6")]
    pub zero_threshold: f64,
    /// Observations in the zero bucket.
    #[prost(uint64, tag = "7")]
    pub zero_count: u64,
    /// Spans of native buckets.
    #[prost(message, repeated, tag = "12")]
    pub positive_span: Vec<BucketSpan>,
    /// Their counts, each as its difference from the one before.
    #[prost(sint64, repeated, tag = "13")]
    pub positive_delta: Vec<i64>,
}

/// A classic bucket.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Bucket {
    /// Observations up to the upper bound.
    #[prost(uint64, tag = "1")]
    pub cumulative_count: u64,
    /// The upper bound.
    #[prost(double, tag = "2")]
    pub upper_bound: f64,
}

/// Adjacent native buckets.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct BucketSpan {
    /// Buckets between the span before and it; of the first, index of its first bucket.
    #[prost(sint32, tag = "1")]
    pub offset: i32,
    /// Number of buckets.
    #[prost(uint32, tag = "2")]
    pub length: u32,
}

/// The field `metric` of a family by itself: encoded after a family's other fields, it adds a metric.
#[derive(Clone, PartialEq, Message)]
struct OneMetric {
    #[prost(message, required, tag = "4")]
    metric: Metric,
}

/// A page under way.
#[derive(Debug, Default)]
pub(in crate::metrics) struct Writer {
    page: Vec<u8>,
    /// The family under way, without its length.
    family: Vec<u8>,
    /// The series under way. Its memory is kept for the next.
    series: OneMetric,
}

impl Writer {
    /// Begins a family, and ends the one before.
    pub(super) fn begin(&mut self, name: &str, help: &str, kind: MetricType) -> fmt::Result {
        self.end()?;
        let (suffix, kind) = match kind {
            MetricType::Counter => ("_total", Kind::Counter),
            MetricType::Gauge => ("", Kind::Gauge),
            MetricType::Histogram => ("", Kind::Histogram),
            MetricType::Info | MetricType::Unknown => ("", Kind::Untyped),
        };
        let family = MetricFamily {
            name: format!("{name}{suffix}"),
            help: help.into(),
            r#type: kind.into(),
            metric: Vec::new(),
        };
        self.series = OneMetric::default();
        encode(&family, &mut self.family)
    }

    /// The page with all families.
    pub(in crate::metrics) fn finish(mut self) -> Result<Vec<u8>, fmt::Error> {
        self.end()?;
        Ok(self.page)
    }

    fn end(&mut self) -> fmt::Result {
        if self.family.is_empty() {
            return Ok(());
        }
        encode_length_delimiter(self.family.len(), &mut self.page).map_err(|_| fmt::Error)?;
        self.page.append(&mut self.family);
        Ok(())
    }

    pub(super) fn counter<V: AsRef<str>, const N: usize>(
        &mut self,
        labels: &[(&str, V); N],
        value: f64,
    ) -> fmt::Result {
        self.series.metric.counter = Some(Value { value });
        self.series(labels)
    }

    pub(super) fn gauge<V: AsRef<str>, const N: usize>(&mut self, labels: &[(&str, V); N], value: f64) -> fmt::Result {
        self.series.metric.gauge = Some(Value { value });
        self.series(labels)
    }

    pub(super) fn histogram<V: AsRef<str>, const N: usize>(
        &mut self,
        labels: &[(&str, V); N],
        latency: &LatencyStats,
        native: Option<&Native>,
    ) -> fmt::Result {
        let histogram = self.series.metric.histogram.get_or_insert_default();
        // The count is the sum of the native buckets, or Prometheus refuses the histogram. They were read with the classic buckets.
        histogram.sample_count = native.map_or_else(|| super::count(latency), |native| native.count);
        histogram.sample_sum = seconds(latency.sum_ns);
        let finite = |b: &contract::Bucket| Bucket { cumulative_count: b.count, upper_bound: seconds(b.upper_ns) };
        histogram.bucket.clear();
        histogram.bucket.extend(latency.buckets.iter().map(finite));
        histogram.bucket.push(Bucket { cumulative_count: histogram.sample_count, upper_bound: f64::INFINITY });
        histogram.positive_span.clear();
        histogram.positive_delta.clear();
        (histogram.schema, histogram.zero_threshold, histogram.zero_count) = (0, 0.0, 0);
        if let Some(native) = native {
            (histogram.schema, histogram.zero_count) = (native.schema, native.zero_count);
            histogram.zero_threshold = ZERO_THRESHOLD;
            let span = |&(offset, length): &(i32, u32)| BucketSpan { offset, length };
            histogram.positive_span.extend(native.spans.iter().map(span));
            histogram.positive_delta.extend_from_slice(&native.deltas);
        }
        self.series(labels)
    }

    fn series<V: AsRef<str>, const N: usize>(&mut self, labels: &[(&str, V); N]) -> fmt::Result {
        let pairs = &mut self.series.metric.label;
        pairs.resize_with(N, LabelPair::default);
        for (pair, (name, value)) in pairs.iter_mut().zip(labels) {
            (*name).clone_into(&mut pair.name);
            value.as_ref().clone_into(&mut pair.value);
        }
        encode(&self.series, &mut self.family)
    }
}

fn encode(message: &impl Message, into: &mut Vec<u8>) -> fmt::Result {
    message.encode(into).map_err(|_| fmt::Error)
}
