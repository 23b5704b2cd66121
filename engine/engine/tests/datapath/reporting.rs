// SPDX-License-Identifier: Apache-2.0
//! What is reported of a run: WatchStats and the metrics have the same, groups are reported as one, and the page stays short.
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use contract::{
    ByTag, Continuous, Counter, FieldProgram, Instruction, Measure, Packet, Payload, Plan, Pool, Program, Rate, Ratio,
    Receive, Receiver, Send, Share, Stateful, Stream, StreamCounters, TagRange, Template, Timing, TransportProtocol,
    Variable, WeightedPool, Write, instruction::Kind, payload, rate, stream::Transmit, variable,
};
use prost::Message;
use spate_engine::{
    control::{
        runs::{Engine, Held},
        stats::{self, Grouping},
    },
    datapath::{PollMode, PortDevice},
    metrics::{
        self,
        protobuf::{Metric, MetricFamily},
    },
    plan::decode::Format,
};

use crate::setup::{open, turn};

fn stream(name: String, group: &str, id: u32, pps: u64) -> Stream {
    let rate = Rate { kind: Some(rate::Kind::PacketsPerSecond(Ratio { numerator: pps, denominator: 1 })) };
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    Stream {
        name,
        group: group.into(),
        id,
        tx_port: "a".into(),
        rx_port: "a".into(),
        packet: Some(Packet { frame: frame.into(), ..Packet::default() }),
        transmit: Some(Transmit::Continuous(Continuous { rate: Some(rate) })),
        measure: Some(Measure { flow: true, latency: true, ..Measure::default() }),
        ..Stream::default()
    }
}

fn plan(streams: Vec<Stream>) -> Plan {
    Plan {
        run_id: "r".into(),
        profile: "p".into(),
        namespace: "n".into(),
        run_tag: 5,
        timing: Some(Timing {
            warmup_ns: 50_000_000,
            duration_ns: 300_000_000,
            drain_ns: 50_000_000,
            stages: Vec::new(),
        }),
        streams,
        receivers: vec![Receiver { name: "rest".into(), port: "a".into() }],
        ..Plan::default()
    }
}

/// Runs a plan to its end.
fn run(engine: &Engine, plan: &Plan) -> Arc<Held> {
    let (held, warnings) = engine.prepare(&plan.run_id, plan.encode_to_vec().into(), Format::Binary).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    engine.start(&held, engine.now_ns() + 200_000_000).unwrap();
    while !held.has_ended() {
        std::thread::sleep(Duration::from_millis(5));
    }
    held
}

/// The page as text.
fn page_of(engine: &Arc<Engine>) -> String {
    String::from_utf8(metrics::page(engine, metrics::Format::OpenMetrics).unwrap().body.into()).unwrap()
}

/// The page's samples: name with labels, and value.
fn samples(page: &str) -> HashMap<String, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

#[test]
fn watch_stats_and_metrics_say_the_same() {
    let _turn = turn();
    let engine = Arc::new(Engine::new(open(&[("a", PortDevice::Loopback)], 2, PollMode::Busy)));
    let mut streams = vec![stream("alone".into(), "", 1, 50_000)];
    streams.extend((0..3).map(|i| stream(format!("all-{i}"), "all", 2 + i, 10_000)));
    let held = run(&engine, &plan(streams));
    let page = page_of(&engine);
    let reported = stats::read(&engine, &held, Grouping::ByGroup);
    let samples = samples(&page);
    let sample = |name: &str, labels: &str| {
        let full = format!("{name}{{{labels}}}");
        *samples.get(&full).unwrap_or_else(|| panic!("no {full} in\n{page}"))
    };
    // The device's own count of what the worker read.
    let read = sample("spate_port_rx_packets_total", "port=\"a\"");
    assert_eq!(sample("spate_port_device_counter_total", "port=\"a\",counter=\"rx_good_packets\""), read);
    type Value = fn(&StreamCounters) -> u64;
    let counters: [(&str, Value); 11] = [
        ("tx_packets", |c| c.tx_packets),
        ("tx_bytes", |c| c.tx_bytes),
        ("tx_dropped_packets", |c| c.tx_dropped),
        ("late_packets", |c| c.late),
        ("rx_packets", |c| c.rx_packets),
        ("rx_bytes", |c| c.rx_bytes),
        ("duplicate_packets", |c| c.duplicates),
        ("out_of_order_packets", |c| c.out_of_order),
        ("misdirected_packets", |c| c.misdirected),
        ("sequence_too_high_packets", |c| c.sequence_too_high),
        ("sequence_too_low_packets", |c| c.sequence_too_low),
    ];
    assert_eq!(reported.streams.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["alone", "all"]);
    for (stats, packets) in reported.streams.iter().zip([15_000, 9_000]) {
        let labels = format!(
            "profile_namespace=\"n\",profile=\"p\",run=\"r\",stream=\"{}\",tx_port=\"a\",rx_port=\"a\"",
            stats.name
        );
        for (phase, c) in [("warmup", &stats.warmup), ("measured", &stats.measured)] {
            for (name, value) in counters {
                let name = format!("spate_stream_{name}_total");
                let sample = sample(&name, &format!("{labels},phase=\"{phase}\""));
                assert_eq!(sample, value(c.as_ref().unwrap()) as f64, "{name} {phase}");
            }
        }
        let latency = stats.measured.as_ref().unwrap().latency.as_ref().unwrap();
        assert_eq!((latency.count, latency.buckets.last().unwrap().count), (packets, packets));
        assert!(!latency.one_way_unknown && latency.clock_bound_ns == 0 && latency.distribution.is_none());
        let seconds = |name: &str, ns: u64| assert_eq!(sample(name, &labels), ns as f64 / 1e9, "{name}");
        seconds("spate_stream_latency_seconds_sum", latency.sum_ns);
        seconds("spate_stream_latency_min_seconds", latency.min_ns);
        seconds("spate_stream_latency_max_seconds", latency.max_ns);
        seconds("spate_stream_jitter_seconds", latency.jitter_ns);
        seconds("spate_stream_jitter_max_seconds", latency.jitter_max_ns);
        assert_eq!(sample("spate_stream_latency_seconds_count", &labels), packets as f64);
        assert_eq!(sample("spate_stream_negative_latency_packets_total", &labels), 0.0);
        for bucket in &latency.buckets {
            let le = bucket.upper_ns as f64 / 1e9;
            let le = if le.fract() == 0.0 { format!("{le:.1}") } else { format!("{le}") };
            let value = sample("spate_stream_latency_seconds_bucket", &format!("le=\"{le}\",{labels}"));
            assert_eq!(value, bucket.count as f64, "{le}");
        }
        assert_eq!(sample("spate_stream_latency_seconds_bucket", &format!("le=\"+Inf\",{labels}")), packets as f64);
        let quantiles: Vec<u64> = latency.quantiles.iter().map(|q| q.ns).collect();
        assert!(quantiles.is_sorted() && quantiles[5] <= latency.max_ns && quantiles[0] >= latency.min_ns);
        let p99 = sample("spate_stream_latency_quantile_seconds", &format!("{labels},quantile=\"0.99\""));
        assert_eq!(p99, quantiles[3] as f64 / 1e9);
    }
    let port = &reported.ports[0];
    for (name, value) in [
        ("rx_packets", port.rx_packets),
        ("foreign_packets", port.foreign_packets),
        ("reflected_packets", port.reflected_packets),
        ("not_reflected_packets", port.not_reflected_packets),
        ("throttled_packets", port.throttled_packets),
        ("receive_waits", port.receive_waits),
    ] {
        assert_eq!(sample(&format!("spate_port_{name}_total"), "port=\"a\""), value as f64);
    }
    let receiver = &reported.receivers[0];
    assert_eq!((receiver.port.as_str(), receiver.packets, receiver.workers.len()), ("a", 0, 2));
    for worker in &receiver.workers {
        let counts = [&worker.inter_arrival, &worker.jitter, &worker.latency].map(|m| m.as_ref().map(|m| m.count));
        assert_eq!(counts, [Some(0); 3], "worker {}", worker.worker);
    }
    let labels = "profile_namespace=\"n\",profile=\"p\",run=\"r\",receiver=\"rest\",port=\"a\",worker=\"1\"";
    assert_eq!(sample("spate_receiver_packets_total", labels), 0.0);

    // Every stream by itself: sums are exact, the quantiles of a group's are not theirs.
    let each = stats::read(&engine, &held, Grouping::ByStream).streams;
    assert_eq!(each.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["alone", "all-0", "all-1", "all-2"]);
    let latency = |i: usize| each[i].measured.as_ref().unwrap().latency.clone().unwrap();
    assert_eq!((latency(0).count, latency(0).quantiles.len()), (15_000, 6));
    assert_eq!((latency(2).count, latency(2).quantiles.len()), (3_000, 0));
}

#[test]
fn engines_that_run_a_plan_together_report_the_cells_of_their_histograms() {
    let _turn = turn();
    let engine = Engine::new(open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy));
    let share = Some(Share { index: 1, count: 3 });
    let held = run(&engine, &Plan { share, ..plan(vec![stream("s".into(), "", 1, 30_000)]) });
    let stats = stats::read(&engine, &held, Grouping::ByGroup);
    let latency = stats.streams[0].measured.as_ref().unwrap().latency.as_ref().unwrap();
    let cells = latency.distribution.as_ref().unwrap();
    assert_eq!((latency.count, cells.counts.iter().sum()), (3_000, 3_000));
    assert_eq!((cells.precision_bits, cells.cells.len()), (10, cells.counts.len()));
}

#[test]
fn the_label_run_is_the_name_in_the_plan_else_the_id_and_each_series_is_there_once() {
    let _turn = turn();
    let engine = Arc::new(Engine::new(open(&[("a", PortDevice::Loopback)], 1, PollMode::Adaptive)));
    let prepare = |run_id: &str, run: &str, run_tag| {
        let plan =
            Plan { run_id: run_id.into(), run: run.into(), run_tag, ..plan(vec![stream("s".into(), "", 1, 10)]) };
        engine.prepare(run_id, plan.encode_to_vec().into(), Format::Binary).unwrap().0.info(0).run
    };
    let shown = || {
        let page = page_of(&engine);
        assert_eq!(samples(&page).len(), page.lines().filter(|line| !line.starts_with('#')).count(), "{page}");
        let runs = page.lines().filter(|line| line.starts_with("spate_run_state"));
        let mut runs: Vec<_> = runs.filter_map(|line| line.split('"').nth(5)).map(str::to_owned).collect();
        runs.sort();
        runs.dedup();
        runs
    };
    let value = |state| {
        let labels = format!("profile_namespace=\"n\",profile=\"p\",run=\"web-1\",state=\"{state}\"");
        samples(&page_of(&engine))[&format!("spate_run_state{{{labels}}}")]
    };
    assert_eq!((prepare("web-1-b", "web-1", 1), prepare("bare", "", 2)), ("web-1".into(), "bare".into()));
    assert_eq!(shown(), ["bare", "web-1"]);
    let first = engine.find("web-1-b").unwrap();
    first.run().stop("the test says so");
    while !first.has_ended() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((value("stopped"), value("prepared")), (1.0, 0.0));
    // A run of the same name that was created after the first was deleted.
    prepare("web-1-a", "web-1", 3);
    assert_eq!(shown(), ["bare", "web-1"]);
    assert_eq!((value("stopped"), value("prepared")), (0.0, 1.0));
    engine.remove("web-1-a");
    assert_eq!(value("stopped"), 1.0);
}

#[test]
fn twenty_thousand_streams_of_a_group_take_one_histogram_and_a_short_page() {
    let _turn = turn();
    let engine = Arc::new(Engine::new(open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy)));
    let streams = (0..20_000).map(|i| stream(format!("all-{i}"), "all", i, 10)).collect();
    let held = run(&engine, &plan(streams));
    assert_eq!(held.run().histogram_bytes(), (2048 + 25 * 1024) * 8);
    let page = page_of(&engine);
    assert!(page.len() < 40_000, "{} bytes", page.len());
    let reported = stats::read(&engine, &held, Grouping::ByGroup).streams;
    assert_eq!(reported.len(), 1);
    let measured = reported[0].measured.as_ref().unwrap();
    // Ten a second each, for 0.3 s.
    assert_eq!((measured.tx_packets, measured.rx_packets), (60_000, 60_000));
    assert_eq!(measured.latency.as_ref().unwrap().count, 60_000);
    assert_eq!(stats::read(&engine, &held, Grouping::ByStream).streams.len(), 20_000);
}

/// Three streams of 4,094 tags each.
#[test]
fn a_page_has_at_most_ten_thousand_tags_and_counts_those_that_it_omits() {
    const VLANS: u32 = 4094;
    let _turn = turn();
    let engine = Arc::new(Engine::new(open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy)));
    let tagged = |id: u32| {
        let mut frame = vec![0; 64];
        frame[12..18].copy_from_slice(&[0x81, 0, 0, 0, 0x88, 0xb5]);
        let vlans = Counter { min: 1, max: VLANS.into(), step: 1, first: 1, down: false };
        let vlan = Variable { name: "vlan".into(), kind: Some(variable::Kind::Counter(vlans)), ..Variable::default() };
        let write = Write { variable: "vlan".into(), offset: 14, size: 2, ..Write::default() };
        let all = TagRange { outer_vlan: 0, first_vlan: 1, last_vlan: VLANS };
        Stream {
            packet: Some(Packet { frame: frame.into(), ..Packet::default() }),
            program: Some(FieldProgram { variables: vec![vlan], writes: vec![write] }),
            measure: Some(Measure { flow: true, by_tag: Some(ByTag { ranges: vec![all] }), ..Measure::default() }),
            // 6,000 packets in the measured phase: each tag is there.
            ..stream(format!("s{id}"), "", id, 20_000)
        }
    };
    run(&engine, &plan((0..3).map(tagged).collect()));
    let samples = samples(&page_of(&engine));
    let tags = samples.keys().filter(|name| name.starts_with("spate_stream_tag_rx_packets_total{")).count();
    assert_eq!((tags, samples["spate_engine_left_out{what=\"tags\"}"]), (10_000, f64::from(3 * VLANS - 10_000)));
    assert_eq!(samples["spate_engine_left_out{what=\"streams\"}"], 0.0);
    let has = |stream: &str, vlan: u32| {
        let labels = format!(
            "profile_namespace=\"n\",profile=\"p\",run=\"r\",stream=\"{stream}\",tx_port=\"a\",rx_port=\"a\",\
             outer_vlan=\"\",vlan=\"{vlan}\""
        );
        samples.contains_key(&format!("spate_stream_tag_rx_packets_total{{{labels}}}"))
    };
    let last = 10_000 - 2 * VLANS;
    assert_eq!([has("s0", 1), has("s1", VLANS), has("s2", last), has("s2", last + 1)], [true, true, true, false]);
}

/// Clients and servers of 502 templates.
#[test]
fn a_page_has_at_most_a_thousand_sides_of_templates_and_counts_those_that_it_omits() {
    let _turn = turn();
    let engine = Arc::new(Engine::new(open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy)));
    let program = |kinds: [Kind; 2]| {
        let instructions = kinds.into_iter().map(|kind| Instruction { kind: Some(kind) }).collect();
        Some(Program { instructions, ..Program::default() })
    };
    let send = || Kind::Send(Send { payload: 0, wait: false });
    let receive = || Kind::Receive(Receive { bytes: 100, clear: false });
    let pool = |net: u8| Pool {
        name: format!("net {net}"),
        first: vec![net, 0, 0, 1].into(),
        last: vec![net, 0, 0, 99].into(),
        ..Pool::default()
    };
    let template = |index: u32| Template {
        name: format!("t{index}"),
        protocol: TransportProtocol::Tcp.into(),
        client_port: "a".into(),
        server_port: "a".into(),
        client: program([send(), receive()]),
        server: program([receive(), send()]),
        destination_port: 1000 + index,
        flows_per_second: Some(Ratio { numerator: 1, denominator: 1 }),
        clients: vec![WeightedPool { pool: 0, weight: 1 }],
        servers: vec![WeightedPool { pool: 1, weight: 1 }],
        ..Template::default()
    };
    let stateful = Stateful {
        payloads: vec![Payload { content: Some(payload::Content::Size(100)), fields: Vec::new() }],
        pools: vec![pool(16), pool(48)],
        templates: (0..502).map(template).collect(),
        most_flows: 4096,
        ..Stateful::default()
    };
    let plan = Plan { stateful: Some(stateful), ..plan(Vec::new()) };
    engine.prepare(&plan.run_id, plan.encode_to_vec().into(), Format::Binary).unwrap();
    let samples = samples(&page_of(&engine));
    let sides = samples.keys().filter(|name| name.starts_with("spate_template_open_flows{")).count();
    assert_eq!((sides, samples["spate_engine_left_out{what=\"template_sides\"}"]), (1000, 4.0));
    let has = |template: &str, role: &str| {
        let labels = format!(
            "profile_namespace=\"n\",profile=\"p\",run=\"r\",template=\"{template}\",\
             group=\"{template}\",role=\"{role}\""
        );
        samples.contains_key(&format!("spate_template_open_flows{{{labels}}}"))
    };
    assert_eq!([has("t499", "client"), has("t499", "server"), has("t500", "client")], [true, true, false]);
}

/// What docs/monitoring.md says of a page's size, with the longest names that the operator accepts.
#[test]
fn a_page_has_at_most_five_thousand_streams_and_says_how_many_it_leaves_out() {
    let _turn = turn();
    let engine = Arc::new(Engine::new(open(&[("a", PortDevice::Loopback)], 2, PollMode::Busy)));
    let name = |i: u32| format!("{i:0>63}");
    let mut streams: Vec<_> = (0..5_002).map(|i| stream(name(i), "", i, 1)).collect();
    // A histogram takes 200 KiB: not of all of them.
    for without in &mut streams[1..] {
        without.measure = Some(Measure { flow: true, ..Measure::default() });
    }
    let long = "n".repeat(63);
    let plan = Plan { namespace: long.clone(), profile: long, ..plan(streams) };
    engine.prepare(&plan.run_id, plan.encode_to_vec().into(), Format::Binary).unwrap();
    let begun = Instant::now();
    let page = page_of(&engine);
    let took = begun.elapsed();
    let of = |stream: u32| {
        let label = format!("stream=\"{}\"", name(stream));
        let lines: Vec<_> = page.lines().filter(|line| line.contains(&label)).collect();
        (lines.len(), lines.iter().map(|line| line.len() + 1).sum::<usize>())
    };
    let others = page.lines().filter(|line| !line.starts_with('#') && !line.contains("stream=\"")).count();
    println!(
        "5,000 streams: {} series, {} bytes, encoded in {took:?}; a stream: {:?} (series, bytes), with latency {:?}; others: {others}",
        page.lines().filter(|line| !line.starts_with('#')).count(),
        page.len(),
        of(1),
        of(0),
    );
    assert!(page.contains("\nspate_engine_left_out{what=\"streams\"} 2\n"), "{}", &page[page.len() - 2_000..]);
    assert_eq!((of(5_000).0, of(5_001).0), (0, 0));
    let ((series, bytes), (with_latency, bytes_with_latency)) = (of(1), of(0));
    assert!(series <= 23 && bytes <= 23 * 400, "{series} series, {bytes} bytes of a stream");
    assert!(with_latency <= 60 && bytes_with_latency <= 60 * 400, "{with_latency} series, {bytes_with_latency} bytes");
    assert_eq!(of(4_999), (series, bytes));
    assert!(others <= 200, "{others} series of no stream");
    assert!(page.len() <= 5_000 * 23 * 400, "{} bytes", page.len());

    // The other format has the same bounds.
    let begun = Instant::now();
    let page = metrics::page(&engine, metrics::Format::Protobuf).unwrap().body;
    let (took, bytes) = (begun.elapsed(), page.len());
    let mut left = &page[..];
    let mut families = Vec::new();
    while !left.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut left).unwrap());
    }
    let of = |stream: u32| {
        let name = name(stream);
        let metrics = families.iter().flat_map(|family| &family.metric);
        let named = |metric: &&Metric| metric.label.iter().any(|label| label.name == "stream" && label.value == name);
        let lengths: Vec<_> = metrics.filter(named).map(Message::encoded_len).collect();
        (lengths.len(), lengths.iter().sum::<usize>())
    };
    println!(
        "as protobuf: {bytes} bytes, encoded in {took:?}; a stream: {:?} (metrics, bytes), with latency {:?}",
        of(1),
        of(0)
    );
    // A histogram is one metric instead of 22 buckets, one without bound, sum and count.
    let streams = [0, 1, 4_999, 5_000, 5_001];
    assert_eq!(streams.map(|stream| of(stream).0), [with_latency - 24, series, series, 0, 0]);
    assert!(bytes <= 5_000 * 23 * 400, "{bytes} bytes");
}
