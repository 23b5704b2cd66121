// SPDX-License-Identifier: Apache-2.0
//! Do both formats say the same, and are native histograms whole?
use super::super::{Format, page};
use super::protobuf::{Kind, LabelPair, MetricFamily};
use crate::control::runs::tests;
use crate::plan::decode;
use prost::Message;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    thread,
    time::Duration,
};

/// What a page says: name, type and help of each family, and each series with its value. A bucket's bound is in the name.
type Said = (BTreeSet<String>, BTreeMap<String, f64>);

fn said_by_text(page: &str) -> Said {
    let (mut families, mut series) = Said::default();
    for line in page.lines() {
        let about = line.strip_prefix("# ").map(|about| about.splitn(3, ' ').collect::<Vec<_>>());
        match about.as_deref() {
            Some(["HELP" | "TYPE", ..]) => assert!(families.insert(line.to_owned()), "{line}"),
            Some(other) => assert_eq!(*other, ["EOF"]),
            None => {
                let (name, value) = line.rsplit_once(' ').unwrap();
                let name = match name.split_once("_bucket{le=\"") {
                    Some((name, rest)) => {
                        let (bound, labels) = rest.split_once("\",").unwrap();
                        format!("{name} {:?}{{{labels}", bound.parse::<f64>().unwrap())
                    }
                    None => name.to_owned(),
                };
                assert_eq!(series.insert(name, value.parse().unwrap()), None, "{line}");
            }
        }
    }
    (families, series)
}

/// The same of the other format, and its families.
fn said_by_protobuf(mut page: &[u8]) -> (Said, Vec<MetricFamily>) {
    let (mut families, mut series) = Said::default();
    let mut all = Vec::new();
    while !page.is_empty() {
        let family = MetricFamily::decode_length_delimited(&mut page).unwrap();
        let (name, kind) = match family.r#type() {
            Kind::Counter => (family.name.strip_suffix("_total").unwrap(), "counter"),
            Kind::Gauge => (&*family.name, "gauge"),
            Kind::Histogram => (&*family.name, "histogram"),
            Kind::Untyped => panic!("{}", family.name),
        };
        assert!(
            families.insert(format!("# HELP {name} {}", family.help))
                && families.insert(format!("# TYPE {name} {kind}"))
        );
        for metric in &family.metric {
            let label = |LabelPair { name, value }: &LabelPair| format!("{name}=\"{value}\"");
            let labels = metric.label.iter().map(label).collect::<Vec<_>>().join(",");
            let mut add = |suffix: &str, value| {
                let name = format!("{}{suffix}{{{labels}}}", family.name);
                assert_eq!(series.insert(name.clone(), value), None, "{name}");
            };
            match (metric.counter, metric.gauge, &metric.histogram) {
                (Some(number), None, None) | (None, Some(number), None) => add("", number.value),
                (None, None, Some(histogram)) => {
                    add("_count", histogram.sample_count as f64);
                    add("_sum", histogram.sample_sum);
                    for bucket in &histogram.bucket {
                        add(&format!(" {:?}", bucket.upper_bound), bucket.cumulative_count as f64);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        all.push(family);
    }
    ((families, series), all)
}

#[test]
fn both_formats_have_the_same_families_and_series_and_histograms_have_native_buckets_in_one() {
    let engine = Arc::new(tests::engine());
    let stream = |name, id, measure| {
        format!(
            r#"{{"name": "{name}", "id": {id}, "txPort": "l", "rxPort": "l", "measure": {{"flow": true, "latency": {measure}}},
            "packet": {{"frame": "AgAAAAABAgAAAAAACABFAAAyAAAAAEARAAAKAAABCgAAAgABAAIAHgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="}},
            "continuous": {{"rate": {{"packetsPerSecond": {{"numerator": 5000, "denominator": 1}}}}}}}}"#
        )
    };
    let streams = [stream("timed", 0, true), stream("counted", 1, false)].join(",");
    let plan = tests::ONE_TEMPLATE
        .replacen(r#""stateful""#, &format!(r#""profile": "p", "streams": [{streams}], "stateful""#), 1)
        .replacen("1000000000", "300000000", 1)
        .replacen(r#""flowsPerSecond": {"numerator": 1"#, r#""flowsPerSecond": {"numerator": 100"#, 1);
    let (held, _) = engine.prepare("r", plan.into(), decode::Format::Auto).unwrap();
    engine.start(&held, engine.now_ns() + 200_000_000).unwrap();
    while !held.has_ended() {
        thread::sleep(Duration::from_millis(2));
    }
    let text = page(&engine, Format::OpenMetrics).unwrap().body;
    let (mut text, (mut protobuf, families)) = (
        said_by_text(str::from_utf8(&text).unwrap()),
        said_by_protobuf(&page(&engine, Format::Protobuf).unwrap().body),
    );
    // Workers go on.
    let changes = ["spate_worker_busy_seconds", "spate_worker_idle_seconds", "spate_worker_sleeps"];
    for series in [&mut text.1, &mut protobuf.1] {
        let before = series.len();
        series.retain(|name, _| !changes.iter().any(|prefix| name.starts_with(prefix)));
        assert_eq!(before - series.len(), changes.len());
    }
    assert_eq!(protobuf, text);
    let (families_said, series_said) = (text.0.len() / 2, text.1.len());
    assert!(families_said > 50 && series_said > 200, "{families_said} families, {series_said} series");

    let timed =
        families.iter().flat_map(|family| family.metric.iter().map(move |metric| (family.name.as_str(), metric)));
    let timed: Vec<_> = timed.filter_map(|(name, metric)| Some((name, metric.histogram.as_ref()?))).collect();
    let names: Vec<_> = timed.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.iter().filter(|name| **name == "spate_stream_latency_seconds").count(), 1, "{names:?}");
    assert!(names.contains(&"spate_template_connect_seconds"), "{names:?}");
    for (name, histogram) in timed {
        let counts = histogram.positive_delta.iter().scan(0, |count, delta| {
            *count += delta;
            Some(*count)
        });
        let sum = histogram.zero_count + counts.sum::<i64>().cast_unsigned();
        let places: u32 = histogram.positive_span.iter().map(|span| span.length).sum();
        assert_eq!((sum, places as usize), (histogram.sample_count, histogram.positive_delta.len()), "{name}");
        assert!((1..=5).contains(&histogram.schema) && histogram.zero_threshold > 0.0, "{name}");
        let at_least = if name == "spate_stream_latency_seconds" { 1_499 } else { 0 };
        assert!(sum >= at_least, "{name} has {sum}");
    }
    drop(held);
    engine.remove("r");
    Arc::into_inner(engine).unwrap().close();
}
