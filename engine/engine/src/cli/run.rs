// SPDX-License-Identifier: Apache-2.0
//! `spate-engine run`: one plan, from start to end, without Kubernetes.
use super::site::Site;
use crate::control::runs::{Engine, Held};
use crate::control::stages;
use crate::control::stats::{self, Grouping};
use crate::plan::decode;
use anyhow::Context;
use contract::{NamedCounter, PortStats, Records, RunState, Side, StreamCounters, TemplateStats, WatchStatsResponse};
use prost::Message;
use prost::bytes::Bytes;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// From the decision to start to the start: longer than a busy machine takes to ask for it.
const START_LEAD_NS: u64 = 200_000_000;
/// How often counters are read, and progress shown.
const TICK: Duration = Duration::from_secs(1);

/// Counters of flows that failed, as `failed` of the API counts them; of clients, idle timeouts too.
const FAILED: [&str; 8] = [
    "resets_received",
    "flows_refused",
    "timeout_drops",
    "connect_drops",
    "keepalive_drops",
    "flows_closed_early",
    "http_errors",
    "flows_aborted",
];

/// Counters of what the engine had no room for, with what each says.
const NO_ROOM: [(&str, &str); 6] = [
    ("flows_not_started", "connections did not start before the end"),
    ("flows_exhausted", "connections found the flow table full; raise stateful.most_flows, or lower the rate"),
    ("ports_exhausted", "connections found no free port; give the template more clients or servers, or lower the rate"),
    ("flows_without_client", "connections found no client with an address; start when more of them are bound"),
    ("recovery_exhausted", "times there was no memory for the state of a loss; lower the rate"),
    ("backlog_exhausted", "times there was no memory to queue a payload; lower the rate"),
];

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 the run was complete; 1 it was not, or the engine was the limit (packets late, not sent, or \
    missed; connections late, not started, without room in the flow table or a free port, or that waited for memory); 2 wrong usage.\n\nExamples:\n  \
    spate-engine run --plan plan.json --port l=loopback --hugepages none\n  \
    spate-engine run --plan - --port east=kernel:eth1 --port west=kernel:eth2 --output json < plan.json"
)]
pub struct Run {
    #[command(flatten)]
    site: Site,
    /// The plan: a file, or - for standard input.
    #[arg(long, value_name = "FILE")]
    plan: String,
    /// Records each connection of the plan's templates that ends in this file (Parquet; docs/reference/records.md), which must
    /// not exist.
    #[arg(long, value_name = "FILE")]
    records: Option<String>,
    /// Records one connection in this many.
    #[arg(long, value_name = "N", requires = "records", value_parser = clap::value_parser!(u32).range(1..))]
    records_one_in: Option<u32>,
    /// How the result is printed on standard output.
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// The last WatchStats answer of the contract.
    Json,
}

impl Run {
    /// Runs it and prints what came of it.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        let mut bytes = Bytes::from(super::read_plan(&self.plan)?);
        let mut plan = decode::plan(bytes.clone(), decode::Format::Auto)?;
        let mut format = decode::Format::Auto;
        if let Some(path) = self.records {
            plan.stateful
                .as_mut()
                .context("--records: the plan has no templates, whose connections could be recorded")?
                .records
                .replace(Records { one_in: self.records_one_in.unwrap_or(1), path, most: 0 });
            bytes = plan.encode_to_vec().into();
            format = decode::Format::Binary;
        }
        let timing = plan.timing.clone().unwrap_or_default();
        let engine = Engine::new(self.site.open()?);
        let (held, warnings) = engine.prepare(&plan.run_id, bytes, format)?;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        if !held.clients().is_empty() {
            super::event_loop()?.block_on(set_up(&held))?;
        }
        let before = stats::ports(&engine);
        engine.start(&held, engine.now_ns() + START_LEAD_NS)?;
        let whole = (timing.duration_ns > 0).then(|| Duration::from_nanos(timing.warmup_ns + timing.duration_ns));
        super::event_loop()?.block_on(follow(&engine, &held, whole))?;
        let last = stats::read(&engine, &held, Grouping::ByGroup);
        match self.output {
            Output::Table => table(&last),
            Output::Json => println!("{}", serde_json::to_string_pretty(&last)?),
        }
        let validity_problems = validity_problems(&last, &before);
        validity_problems.iter().for_each(|complaint| eprintln!("invalid: {complaint}"));
        engine.remove(&plan.run_id);
        drop(held);
        engine.close();
        Ok(if validity_problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Waits until the run's clients are ready.
async fn set_up(held: &Held) -> anyhow::Result<()> {
    let since = Instant::now();
    let mut end = Box::pin(super::serve::end_signal());
    while let Some(group) = held.clients().into_iter().find(|group| !group.is_ready()) {
        anyhow::ensure!(since.elapsed() < group.timeout, "{group}, after {:?}", group.timeout);
        tokio::select! {
            signal = &mut end => anyhow::bail!("{} was received while {group}", signal?),
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
    }
    Ok(())
}

/// Shows progress until the run has ended; the first signal stops it gracefully.
async fn follow(engine: &Engine, held: &Arc<Held>, whole: Option<Duration>) -> anyhow::Result<()> {
    let mut last = Counted { at: Instant::now(), tx: 0, rx: 0, established: 0 };
    let mut end = Box::pin(super::serve::end_signal());
    let mut stopping = false;
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + TICK, TICK);
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    while !held.has_ended() {
        tokio::select! {
            signal = &mut end, if !stopping => {
                stopping = true;
                held.run().stop(&format!("{} was received", signal?));
            }
            _ = looks.tick() => drop(stages::advance(engine)),
            _ = ticks.tick() => last = progress(engine, held, whole, &last),
        }
    }
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    Ok(())
}

/// What was counted until an instant, of all streams and of all flows.
struct Counted {
    at: Instant,
    tx: u64,
    rx: u64,
    established: u64,
}

fn progress(engine: &Engine, held: &Held, whole: Option<Duration>, last: &Counted) -> Counted {
    let now = stats::read(engine, held, Grouping::ByGroup);
    let left = whole.map_or(String::new(), |whole| {
        let left = whole.saturating_sub(Duration::from_nanos(held.run().elapsed_ns()));
        format!("  {:.0} s left", left.as_secs_f64())
    });
    let (counted, text) = since(&now, last);
    let line = format!(
        "{}{left}{text}",
        now.run.map_or("", |run| run.state().as_str_name().trim_start_matches("RUN_STATE_")),
    );
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
        let _ = std::io::stderr().flush();
    } else {
        eprintln!("{line}");
    }
    counted
}

/// What is counted now, and the text to print of it: of streams if there are any, and of templates.
fn since(now: &WatchStatsResponse, last: &Counted) -> (Counted, String) {
    let mut counted = Counted { at: Instant::now(), tx: 0, rx: 0, established: 0 };
    for stream in &now.streams {
        for counters in [&stream.warmup, &stream.measured].into_iter().flatten() {
            counted.tx += counters.tx_packets;
            counted.rx += counters.rx_packets;
        }
    }
    let mut open = 0;
    // Each flow once: at its client, or at its server where clients are elsewhere.
    let has_client = |template: &str| now.templates.iter().any(|t| t.side() == Side::Client && t.template == template);
    for side in now.templates.iter().filter(|t| t.side() == Side::Client || !has_client(&t.template)) {
        counted.established += side.counters.iter().find(|c| c.name == "flows_established").map_or(0, |c| c.value);
        open += side.open_flows;
    }
    let seconds = counted.at.duration_since(last.at).as_secs_f64();
    let rate = |now: u64, last: u64| (now - last) as f64 / seconds;
    let mut text = String::new();
    if !now.streams.is_empty() || now.templates.is_empty() {
        text += &format!(
            "  tx {:.0} pps  rx {:.0} pps  under way or lost {}",
            rate(counted.tx, last.tx),
            rate(counted.rx, last.rx),
            counted.tx.saturating_sub(counted.rx)
        );
    }
    if !now.templates.is_empty() {
        text += &format!("  {:.0} flows/s  open {open}", rate(counted.established, last.established));
    }
    (counted, text)
}

/// Prints what there was of streams, templates and receivers.
fn table(last: &WatchStatsResponse) {
    if !last.streams.is_empty() || last.templates.is_empty() {
        streams(last);
    }
    templates(last);
    program_counters(last);
    steering(last);
    records(last);
    latencies(last);
    clients(last);
    for receiver in &last.receivers {
        print!("{}", super::receive::human(receiver, None));
    }
}

/// Prints the states of groups of emulated clients, and what was counted of them.
fn clients(last: &WatchStatsResponse) {
    for group in &last.clients {
        let named = |counters: &[NamedCounter]| {
            let some = counters.iter().filter(|counter| counter.value > 0);
            some.map(|counter| format!("{} {}", counter.name, counter.value)).collect::<Vec<_>>().join(", ")
        };
        println!("\nCLIENTS {} ({}): {}", group.name, group.wanted, named(&group.states));
        if !group.causes.is_empty() {
            println!("  failed: {}", named(&group.causes));
        }
        println!("  {}", named(&group.counters));
    }
}

/// Prints the measured phase of streams.
fn streams(last: &WatchStatsResponse) {
    println!(
        "{:<24} {:>14} {:>14} {:>12} {:>10} {:>12} {:>10} {:>10}",
        "STREAM", "TX", "RX", "LOST", "DUPLICATES", "OUT OF ORDER", "LATE", "TX DROPPED"
    );
    let mut total = StreamCounters::default();
    for stream in &last.streams {
        let c = stream.measured.clone().unwrap_or_default();
        row(&stream.name, &c);
        total.tx_packets += c.tx_packets;
        total.rx_packets += c.rx_packets;
        total.duplicates += c.duplicates;
        total.out_of_order += c.out_of_order;
        total.late += c.late;
        total.tx_dropped += c.tx_dropped;
    }
    row("total", &total);
}

/// Prints the measured phase of each side of the templates of applications.
fn templates(last: &WatchStatsResponse) {
    if last.templates.is_empty() {
        return;
    }
    println!(
        "{}{:<24} {:<6} {:>11} {:>10} {:>8} {:>16} {:>16} {:>13} {:>10}",
        if last.streams.is_empty() { "" } else { "\n" },
        "TEMPLATE",
        "SIDE",
        "ESTABLISHED",
        "CLOSED",
        "OPEN",
        "BYTES SENT",
        "BYTES RECEIVED",
        "RETRANSMITTED",
        "FAILED"
    );
    for side in &last.templates {
        let get = |name: &str| measured(side, name);
        println!(
            "{:<24} {:<6} {:>11} {:>10} {:>8} {:>16} {:>16} {:>13} {:>10}",
            side.template,
            side_name(side),
            get("flows_established"),
            get("flows_closed"),
            side.open_flows,
            get("sent_data_bytes") + get("message_bytes_sent"),
            get("received_data_bytes") + get("message_bytes_received"),
            get("retransmitted_packets") + get("syn_timeouts"),
            failed(side),
        );
    }
}

/// Flows of a side that failed in the measured phase.
fn failed(side: &TemplateStats) -> u64 {
    let idle = if side.side() == Side::Client { measured(side, "flows_idle_timeouts") } else { 0 };
    FAILED.iter().map(|name| measured(side, name)).sum::<u64>() + idle
}

/// What a side counted in the measured phase.
fn measured(side: &TemplateStats, name: &str) -> u64 {
    let [all, warmup] = [&side.counters, &side.warmup]
        .map(|counters| counters.iter().find(|counter| counter.name == name).map_or(0, |counter| counter.value));
    all - warmup
}

fn side_name(side: &TemplateStats) -> &'static str {
    if side.side() == Side::Client { "client" } else { "server" }
}

/// Prints what programs counted in the measured phase, if they count.
fn program_counters(last: &WatchStatsResponse) {
    let counters = last.templates.iter().flat_map(|side| side.program_counters.iter().map(move |c| (side, c)));
    for (i, (side, counter)) in counters.enumerate() {
        if i == 0 {
            println!("\n{:<24} {:<6} {:<32} {:>14}", "TEMPLATE", "SIDE", "COUNTER OF PROGRAM", "COUNT");
        }
        let count = counter.value - counter.warmup;
        println!("{:<24} {:<6} {:<32} {count:>14}", side.template, side_name(side), counter.name);
    }
}

/// Prints how packets of flows came to the workers, if there are several.
fn steering(last: &WatchStatsResponse) {
    let flows: Vec<_> = last.workers.iter().filter_map(|w| Some((w.worker, w.flows.as_ref()?))).collect();
    if flows.len() < 2 {
        return;
    }
    println!("\n{:<24} {:>14} {:>14} {:>14} {:>14}", "PACKETS OF FLOWS", "BY RSS", "PLACED", "HANDED OFF", "LOST SO");
    for (worker, f) in flows {
        let all = f.rss + f.placed + f.handed_off + f.handoff_lost;
        let share = |packets: u64| format!("{:.2} %", 100.0 * packets as f64 / all.max(1) as f64);
        println!(
            "{:<24} {:>14} {:>14} {:>14} {:>14}",
            format!("worker {worker}, of {all}"),
            share(f.rss),
            share(f.placed),
            share(f.handed_off),
            share(f.handoff_lost)
        );
    }
}

/// Prints what has become of records of connections.
fn records(last: &WatchStatsResponse) {
    let Some(records) = &last.records else { return };
    let counters = last.templates.iter().flat_map(|side| &side.counters);
    let dropped: u64 = counters.filter(|c| c.name == "records_dropped").map(|c| c.value).sum();
    if records.path.is_empty() {
        println!(
            "\n{} records in no file, {dropped} dropped; keep them by --records FILE",
            records.delivered + records.undelivered
        );
        return;
    }
    println!("\n{} records in {}, {} omitted, {dropped} dropped", records.written, records.path, records.omitted);
}

/// Prints delays of streams that measure them, and times of templates.
fn latencies(last: &WatchStatsResponse) {
    let streams = last.streams.iter().filter_map(|s| {
        let latency = s.measured.as_ref()?.latency.as_ref()?;
        Some((s.name.clone(), latency, Some(latency.jitter_ns)))
    });
    // Flows have no jitter: what they measure does not come one after the other.
    let templates = last.templates.iter().flat_map(|side| {
        let times = [("connect", &side.connect_time), ("round trip", &side.round_trip)].into_iter();
        let times = times.filter_map(|(what, times)| Some((what, times.as_ref().filter(|times| times.count > 0)?)));
        times.map(move |(what, times)| (format!("{} {} {what}", side.template, side_name(side)), times, None))
    });
    let mut measured = streams.chain(templates).peekable();
    if measured.peek().is_none() {
        return;
    }
    println!(
        "\n{:<24} {:>14} {:>14} {:>12} {:>10} {:>10} {:>10} {:>10}",
        "LATENCY (us)", "MIN", "MEAN", "P50", "P99", "P99.9", "MAX", "JITTER"
    );
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    for (name, l, jitter) in measured {
        let quantile = |ppm| l.quantiles.iter().find(|q| q.parts_per_million == ppm).map_or("-".into(), |q| us(q.ns));
        let known = |text: String| if l.count > 0 { text } else { "-".into() };
        println!(
            "{:<24} {:>14} {:>14} {:>12} {:>10} {:>10} {:>10} {:>10}",
            name,
            known(us(l.min_ns)),
            known(us(l.sum_ns / l.count.max(1))),
            known(quantile(500_000)),
            known(quantile(990_000)),
            known(quantile(999_000)),
            known(us(l.max_ns)),
            jitter.map_or("-".into(), us),
        );
    }
    let stamped = last.streams.iter().filter_map(|s| Some(s.measured.as_ref()?.latency.as_ref()?.device_bound_ns));
    if let Some(bound_ns) = stamped.max().filter(|bound_ns| *bound_ns > 0) {
        println!("Packets are stamped on arrival by the device's clock, to within {} us", us(bound_ns));
    }
}

fn row(name: &str, c: &StreamCounters) {
    let lost = c.tx_packets as i64 - (c.rx_packets - c.duplicates) as i64;
    println!(
        "{name:<24} {:>14} {:>14} {lost:>12} {:>10} {:>12} {:>10} {:>10}",
        c.tx_packets, c.rx_packets, c.duplicates, c.out_of_order, c.late, c.tx_dropped
    );
}

/// Why the numbers do not describe the device under test.
fn validity_problems(last: &WatchStatsResponse, before: &[PortStats]) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(run) = &last.run {
        if run.state() != RunState::Complete {
            all.push(format!("the run ended early: {}", run.end_reason));
        }
        all.extend(run.contradictions.iter().cloned());
        if !run.drain_timed_out.is_empty() {
            all.push(format!("the drain timed out: {}", run.drain_timed_out));
        }
    }
    for stream in &last.streams {
        let c = stream.measured.clone().unwrap_or_default();
        if c.tx_dropped > 0 {
            all.push(format!("stream {}: {} packets could not be sent", stream.name, c.tx_dropped));
        }
        // The tolerance is one in a thousand, as the default of generators in Kubernetes.
        if c.late > c.tx_packets / 1000 {
            all.push(format!("stream {}: {} of {} packets were late", stream.name, c.late, c.tx_packets));
        }
    }
    all.extend(flow_problems(&last.templates));
    if let Some(records) = last.records.as_ref().filter(|records| !records.problem.is_empty()) {
        all.push(format!("connections are not recorded: {}", records.problem));
    }
    for (now, before) in last.ports.iter().zip(before) {
        if now.rx_missed > before.rx_missed {
            all.push(format!("port {}: {} packets were missed on receive", now.port, now.rx_missed - before.rx_missed));
        }
    }
    all
}

/// What of flows the engine could not do. Flows that most_open throttled were requested so.
fn flow_problems(sides: &[TemplateStats]) -> Vec<String> {
    let mut all = Vec::new();
    let (mut late, mut due) = (0, 0);
    for side in sides {
        for (name, what) in NO_ROOM {
            let count = measured(side, name);
            if count > 0 {
                all.push(format!("template {} {}: {count} {what}", side.template, side_name(side)));
            }
        }
        late += measured(side, "flows_late");
        let started = if side.side() == Side::Client { "flows_attempted" } else { "flows_accepted" };
        let of_both = side.side() == Side::Server
            && sides.iter().any(|s| s.template == side.template && s.side() == Side::Client);
        due += if of_both { 0 } else { measured(side, started) };
        due += ["flows_not_started", "flows_exhausted", "ports_exhausted", "flows_without_client"]
            .map(|name| measured(side, name))
            .iter()
            .sum::<u64>();
    }
    // The tolerance is one in a thousand, as the default of generators in Kubernetes.
    if late > due / 1000 {
        all.push(format!("templates: {late} of {due} connections started late"));
    }
    all
}

#[cfg(test)]
mod tests;
