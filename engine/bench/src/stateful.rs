// SPDX-License-Identifier: Apache-2.0
//! `make bench-stateful`: connections, data and memory of emulated applications, beside nginx and wrk, in one run, each in
//! turn, the median of several rounds.
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;

use crate::floors::Bound::{AtLeast, AtMost};
use crate::floors::{Floor, Floors, Known};
use crate::flow_cases::{CASES, Case, Kinds, TIME_WAIT_NS};
use crate::flows::Ended;
use crate::instructions::{self, Counted};
use crate::pages::Reserved;
use crate::rig::{Cpus, Pages, child, write_json};
use crate::series::{Series, rounded};
use crate::web;

/// Measures all cases beside nginx and wrk; prints a table and writes it as JSON.
#[derive(Debug, clap::Args)]
pub struct Stateful {
    /// The file to write.
    #[arg(long)]
    json: PathBuf,
    /// Number of rounds, of which medians are taken; idle connections are opened once.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of each measurement.
    #[arg(long, default_value_t = 1000)]
    milliseconds: u64,
    /// Only cases whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Where a floor is missed.
    #[arg(long, value_enum, default_value = "fail")]
    floors: Floors,
    #[command(flatten)]
    cpus: Cpus,
}

/// The file's form. What a case does not have is null.
#[derive(Serialize)]
struct Report {
    cases: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    case: &'static str,
    connections_per_cpu_second: f64,
    gbps_per_cpu_second: f64,
    /// By the clock frequency of /proc/cpuinfo.
    cycles_per_packet: f64,
    /// Memory of both ends.
    bytes_per_flow: Option<f64>,
    instructions_per_connection: Option<f64>,
    ratio: BTreeMap<&'static str, f64>,
    #[serde(skip)]
    spread: f64,
}

/// What came of a case in all rounds.
#[derive(Default)]
struct Rounds {
    flows: Series,
    gbps: Series,
    ns_per_packet: Series,
    bytes_per_end: Option<f64>,
    web: Option<Series>,
}

impl Rounds {
    fn add(&mut self, ended: &Ended) {
        let seconds = ended.cpu_ns as f64 / 1e9;
        self.flows.add(ended.flows as f64 / seconds);
        self.gbps.add(ended.bytes as f64 * 8e-9 / seconds);
        self.ns_per_packet.add(ended.cpu_ns as f64 / ended.packets.max(1) as f64);
        self.bytes_per_end = Some(ended.bytes_per_end).filter(|bytes| *bytes > 0.0);
    }
}

impl Stateful {
    pub fn execute(self) -> anyhow::Result<()> {
        let cases: Vec<_> = CASES.iter().filter(|case| case.name.contains(&self.only)).collect();
        if cases.is_empty() {
            bail!("--only {}: no case is called so", self.only);
        }
        let mut all: BTreeMap<&str, Rounds> = BTreeMap::new();
        let reserved = Reserved::new();
        let pages = reserved.pages();
        for round in 1..=self.rounds {
            eprintln!("bench-stateful: round {round} of {}", self.rounds);
            for case in &cases {
                if case.is_flat_out() || round == 1 {
                    self.measure(case, pages, all.entry(case.name).or_default())?;
                }
            }
        }
        drop(reserved);
        eprintln!("bench-stateful: counting instructions");
        let mhz = mhz()?;
        let mut lines = Vec::new();
        for case in &cases {
            let instructions = match case.is_flat_out() {
                true => Some(instructions::count(Counted::Flows(case.name), self.cpus)?.0),
                false => None,
            };
            let rounds = &all[case.name];
            let flows = rounds.flows.median();
            let ratio = rounds.web.as_ref().map(|web| ("nginx-wrk", rounded(flows / web.median(), 1)));
            lines.push(Line {
                case: case.name,
                connections_per_cpu_second: rounded(flows, 0),
                gbps_per_cpu_second: rounded(rounds.gbps.median(), 2),
                cycles_per_packet: rounded(rounds.ns_per_packet.median() * mhz / 1000.0, 0),
                bytes_per_flow: rounds.bytes_per_end.map(|bytes| rounded(2.0 * bytes, 1)),
                instructions_per_connection: instructions.map(|count| rounded(count, 0)),
                ratio: ratio.into_iter().collect(),
                spread: rounds.flows.spread(),
            });
        }
        print(&lines, pages);
        let floors = floors(&lines);
        write_json(&self.json, &Report { cases: lines })?;
        self.floors.judge(&floors, !self.only.is_empty())
    }

    fn measure(&self, case: &Case, pages: Pages, rounds: &mut Rounds) -> anyhow::Result<()> {
        let length = self.milliseconds.to_string();
        let arguments = ["flows", "--case", case.name, "--milliseconds", &length];
        rounds.add(&serde_json::from_str(&child(&arguments, pages, self.cpus)?)?);
        if let Kinds::Exchange { response, .. } = case.kind {
            let answered = web::measure(response, self.cpus, Duration::from_millis(self.milliseconds))?;
            let web = rounds.web.get_or_insert_default();
            web.add(answered.requests as f64 * 1e9 / answered.cpu_ns as f64);
        }
        Ok(())
    }
}

/// What is promised, with figures as far as its cases were run.
fn floors(lines: &[Line]) -> Vec<Floor> {
    let line = |case: &str| lines.iter().find(|line| line.case == case);
    let short = line("short-connections");
    let floors = [
        ("short-connections per CPU-second", AtLeast(600_000.0), short.map(|line| line.connections_per_cpu_second)),
        (
            "short-connections by nginx and wrk",
            AtLeast(40.0),
            short.and_then(|line| line.ratio.get("nginx-wrk").copied()),
        ),
        ("paper-32k, Gbit/s per CPU-second", AtLeast(40.0), line("paper-32k").map(|line| line.gbps_per_cpu_second)),
        (
            "GB of 10 million idle endpoints",
            AtMost(2.6),
            // Of a flow, which has two.
            line("idle-10m").and_then(|line| line.bytes_per_flow).map(|bytes| bytes * 5e6 / 1e9),
        ),
    ];
    let count = short.and_then(|line| line.instructions_per_connection);
    let instructions = Floor {
        known: Some(Known {
            why: "moving its six packets without any TCP took 4,049 of them when that was counted last (docs/performance.md)",
            bound: AtMost(11_000.0),
        }),
        ..Floor::new("instructions of a short connection", AtMost(5000.0), count)
    };
    let floors = floors.into_iter().map(|(name, bound, measured)| Floor::new(name, bound, measured));
    floors.chain([instructions]).collect()
}

fn print(lines: &[Line], pages: Pages) {
    let width = lines.iter().map(|line| line.case.len()).max().unwrap_or_default();
    println!(
        "{:<width$} {:>11} {:>6} {:>13} {:>13} {:>11} {:>11} {:>11}",
        "CASE", "CONN/CPU-S", "+-%", "GBIT/S/CPU-S", "CYCLES/PACKET", "BYTES/FLOW", "INSTR/CONN", "/NGINX-WRK"
    );
    let or_dash = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.0}"));
    for line in lines {
        println!(
            "{:<width$} {:>11.0} {:>6.1} {:>13.2} {:>13.0} {:>11} {:>11} {:>11}",
            line.case,
            line.connections_per_cpu_second,
            line.spread,
            line.gbps_per_cpu_second,
            line.cycles_per_packet,
            or_dash(line.bytes_per_flow),
            or_dash(line.instructions_per_connection),
            or_dash(line.ratio.get("nginx-wrk").copied()),
        );
    }
    println!(
        "Client and server are on one CPU, over a loopback; checksums are computed and verified in software. The end that \
         closes first is kept for {} ms (TIME-WAIT). A flow has two ends.",
        TIME_WAIT_NS / 1_000_000
    );
    if pages == Pages::Normal {
        println!("Without hugepages: they could not be had.");
    }
}

/// The clock of the first CPU.
fn mhz() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/cpuinfo")?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz")).context("/proc/cpuinfo has no clock")?;
    Ok(line.rsplit(':').next().unwrap_or_default().trim().parse()?)
}
