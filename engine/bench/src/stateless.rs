// SPDX-License-Identifier: Apache-2.0
//! `make bench`: every case beside testpmd, in one run, each in turn, the median of several rounds.
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use serde::Serialize;

use crate::cases::{CASES, Case};
use crate::floors::Bound::{AtLeast, AtMost};
use crate::floors::{Floor, Floors};
use crate::instructions::{self, Counted, Each};
use crate::measure::{Device, Measured};
use crate::pages::Reserved;
use crate::rig::{Cpus, Pages, child, write_json};
use crate::series::{Series, rounded};
use crate::testpmd::{self, Mode, Vdev};

const DEVICES: [Device; 3] = [Device::Null, Device::NetNull, Device::Loopback];
/// The cases that are sent on the very device that testpmd sends on: its packets are made in a like way.
const ON_NET_NULL: [&str; 2] = ["one-fixed-stream", "two-random-fields"];
/// What is compared with. Only flowgen receives too: on a ring without a reader, the others could send nothing, so
/// what they do on null stands for them.
const PEERS: [(Mode, Vdev); 4] = [
    (Mode::Txonly, Vdev::Null),
    (Mode::TxonlyMultiFlow, Vdev::Null),
    (Mode::Flowgen, Vdev::Null),
    (Mode::Flowgen, Vdev::Ring),
];

/// Measures all cases beside testpmd; prints a table and writes it as JSON.
#[derive(Debug, clap::Args)]
pub struct Stateless {
    /// The file to write.
    #[arg(long)]
    json: PathBuf,
    /// Number of rounds, of which medians are taken.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of each measurement.
    #[arg(long, default_value_t = 500)]
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

/// The file's form.
#[derive(Serialize)]
struct Report {
    cases: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    case: &'static str,
    port: &'static str,
    mpps_per_cpu_second: f64,
    instructions_per_packet: f64,
    ratio: BTreeMap<&'static str, f64>,
}

impl Stateless {
    pub fn execute(self) -> anyhow::Result<()> {
        let cases: Vec<_> = CASES.iter().filter(|case| case.name.contains(&self.only)).collect();
        if cases.is_empty() {
            bail!("--only {}: no case is called so", self.only);
        }
        for case in &cases {
            eprintln!("bench: verifying {}", case.name);
            child(&["verify", "--case", case.name], Pages::Normal, self.cpus)?;
        }
        let reserved = Reserved::new();
        let pages = reserved.pages();
        let mut peers: BTreeMap<(Mode, Vdev), Series> = BTreeMap::new();
        let mut series: BTreeMap<(&str, Device), Series> = BTreeMap::new();
        for round in 1..=self.rounds {
            eprintln!("bench: round {round} of {}", self.rounds);
            for peer in PEERS {
                let length = Duration::from_millis(self.milliseconds);
                peers.entry(peer).or_default().add(mpps(testpmd::measure(peer.0, peer.1, pages, self.cpus, length)?));
            }
            for case in &cases {
                for device in devices(case) {
                    let length = self.milliseconds.to_string();
                    let arguments =
                        ["measure", "--case", case.name, "--port", device.name(), "--milliseconds", &length];
                    let measured = serde_json::from_str(&child(&arguments, pages, self.cpus)?)?;
                    series.entry((case.name, device)).or_default().add(mpps(measured));
                }
            }
        }
        drop(reserved);
        eprintln!("bench: counting instructions");
        let mut lines = Vec::new();
        for case in &cases {
            for device in devices(case) {
                let Each(instructions) = instructions::count(Counted::Packets(case.name, device), self.cpus)?;
                let mpps = series[&(case.name, device)].median();
                let ratio = |mode: Mode| {
                    let vdev =
                        if mode == Mode::Flowgen && device == Device::Loopback { Vdev::Ring } else { Vdev::Null };
                    (mode.name(), rounded(mpps / peers[&(mode, vdev)].median(), 3))
                };
                lines.push(Line {
                    case: case.name,
                    port: device.name(),
                    mpps_per_cpu_second: rounded(mpps, 2),
                    instructions_per_packet: rounded(instructions, 1),
                    ratio: [Mode::Txonly, Mode::TxonlyMultiFlow, Mode::Flowgen].map(ratio).into(),
                });
            }
        }
        print(&lines, &series, &peers, pages);
        let floors = floors(&lines);
        write_json(&self.json, &Report { cases: lines })?;
        self.floors.judge(&floors, !self.only.is_empty())
    }
}

/// The devices that a case is sent on.
fn devices(case: &Case) -> impl Iterator<Item = Device> + use<> {
    let on_net_null = ON_NET_NULL.contains(&case.name);
    DEVICES.into_iter().filter(move |device| *device != Device::NetNull || on_net_null)
}

/// What is promised, with figures as far as its cases were run.
fn floors(lines: &[Line]) -> Vec<Floor> {
    let line = |case: &str, device: Device| lines.iter().find(|line| line.case == case && line.port == device.name());
    let ratio = |case, peer| line(case, Device::Null).map(|line| line.ratio[peer]);
    let one = line("one-fixed-stream", Device::Null);
    let ten_thousand = line("10000-streams", Device::Null).zip(one);
    let floors = [
        (
            "two-random-fields on null by txonly-multi-flow",
            AtLeast(1.5),
            ratio("two-random-fields", "txonly-multi-flow"),
        ),
        ("cached on null by txonly", AtLeast(3.0), ratio("cached", "txonly")),
        (
            "latency on loopback, Mpps per CPU-second",
            AtLeast(15.0),
            line("latency", Device::Loopback).map(|line| line.mpps_per_cpu_second),
        ),
        (
            "instructions per packet of 10,000 streams by those of one",
            AtMost(1.5),
            ten_thousand.map(|(many, one)| many.instructions_per_packet / one.instructions_per_packet),
        ),
        (
            "time per packet of 10,000 streams by that of one",
            AtMost(2.5),
            ten_thousand.map(|(many, one)| one.mpps_per_cpu_second / many.mpps_per_cpu_second),
        ),
    ];
    floors.into_iter().map(|(name, bound, measured)| Floor::new(name, bound, measured)).collect()
}

/// Millions of packets per CPU-second.
fn mpps(measured: Measured) -> f64 {
    measured.packets as f64 * 1000.0 / measured.cpu_ns as f64
}

fn print(
    lines: &[Line],
    series: &BTreeMap<(&str, Device), Series>,
    peers: &BTreeMap<(Mode, Vdev), Series>,
    pages: Pages,
) {
    println!(
        "{:<18} {:<9} {:>12} {:>7} {:>13} {:>9} {:>13} {:>9}",
        "CASE", "PORT", "MPPS/CPU-S", "+-%", "INSTR/PACKET", "/TXONLY", "/MULTI-FLOW", "/FLOWGEN"
    );
    for line in lines {
        let device = DEVICES.into_iter().find(|device| device.name() == line.port).expect("of a device");
        println!(
            "{:<18} {:<9} {:>12.2} {:>7.1} {:>13.1} {:>9.2} {:>13.2} {:>9.2}",
            line.case,
            line.port,
            line.mpps_per_cpu_second,
            series[&(line.case, device)].spread(),
            line.instructions_per_packet,
            line.ratio["txonly"],
            line.ratio["txonly-multi-flow"],
            line.ratio["flowgen"],
        );
    }
    for ((mode, vdev), series) in peers {
        let device = match vdev {
            Vdev::Null => "null",
            Vdev::Ring => "ring",
        };
        println!(
            "{:<18} {:<9} {:>12.2} {:>7.1}   dpdk-testpmd on net_{device}",
            mode.name(),
            device,
            series.median(),
            series.spread()
        );
    }
    if pages == Pages::Normal {
        println!("Without hugepages, for both: they could not be had.");
    }
}
