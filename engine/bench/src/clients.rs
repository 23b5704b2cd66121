// SPDX-License-Identifier: Apache-2.0
//! What emulated clients take: CPU time of an exchange of DHCP, memory, and how evenly they start.
//!
//! An exchange is DISCOVER, OFFER, REQUEST and ACK, and the ARP request and reply that find the gateway. The server turns a client's message into
//! the answer, in the same thread; its CPU time counts as the clients'. Clients start on a port that takes every packet, so they hear of nobody.
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Serialize;
use spate_clients::{Config, Count, Dhcp6, Group, Ipv6, Output, Rate};
use spate_engine::datapath::{AtEnd, ClientSpec, PollMode, PortDevice};
use spate_engine::index::PortIndex;
use spate_net::{checksum, vlan::Tags};

use crate::floors::Bound::{AtLeast, AtMost};
use crate::floors::{Floor, Floors};
use crate::flows::resident;
use crate::rig::{Cpus, Pages, Rig, own_cpu_ns, write_json};
use crate::series::Series;

const FIRST_MAC: [u8; 6] = [2, 0x10, 0, 0, 0, 0];
const SERVER: [u8; 4] = [10, 0, 0, 1];
const SERVER_MAC: [u8; 6] = [2, 0x20, 0, 0, 0, 1];
/// Address of the client with number 0; that of number n is n higher.
const FIRST: u32 = 0x0a01_0000;
/// Where the first option is, behind Ethernet, IPv4, UDP and the fixed fields.
const OPTIONS: usize = 14 + 20 + 8 + 240;
/// Clients of which exchanges are timed.
const EXCHANGED: u32 = 100_000;
/// Clients whose memory is measured, with the bound in MiB.
const KEPT: [(u32, f64); 2] = [(100_000, 32.0), (1_000_000, 320.0)];
/// Exchanges per CPU-second, at least.
const EXCHANGES: f64 = 20_000.0;
/// The rate at which clients start, their number, and how many at most do within a window.
const STARTS: u64 = 5_000;
const STARTED: u32 = 10_000;
const WINDOW: Duration = Duration::from_millis(10);
const IN_WINDOW: f64 = 60.0;

/// Measures emulated clients: exchanges of DHCP per CPU-second, memory, and the pace at which they start.
#[derive(Debug, clap::Args)]
pub struct Clients {
    /// Rounds of exchanges.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Report as JSON.
    #[arg(long)]
    json: PathBuf,
    /// What becomes of a floor that is missed.
    #[arg(long, value_enum, default_value = "fail")]
    floors: Floors,
    #[arg(long, value_enum, default_value = "normal")]
    pages: Pages,
    #[command(flatten)]
    cpus: Cpus,
}

#[derive(Serialize)]
struct Report {
    /// Per CPU-second, the server's included.
    exchanges: f64,
    spread_percent: f64,
    memory: Vec<Kept>,
    /// Clients that started within 10 ms, at most.
    started_in_window: u64,
}

/// Memory of the process that a group takes when all its clients are bound.
#[derive(Serialize)]
struct Kept {
    clients: u32,
    families: &'static str,
    resident_mib: f64,
}

impl Clients {
    pub fn execute(self) -> anyhow::Result<()> {
        let mut exchanges = Series::default();
        for _ in 0..self.rounds {
            let mut group = Group::new(config(EXCHANGED, None), 0)?;
            exchanges.add(f64::from(EXCHANGED) * 1e9 / bind_all(&mut group) as f64);
        }
        println!(
            "exchanges of DHCP, and of ARP for the gateway, per CPU-second, server included: {:.0} (+-{:.1} %)",
            exchanges.median(),
            exchanges.spread()
        );
        let memory = memory()?;
        for Kept { clients, families, resident_mib } in &memory {
            println!("{clients} bound clients, {families}: {resident_mib:.1} MiB");
        }
        let started_in_window = self.starts()?;
        let window = format!("clients of {STARTS} a second that start within {} ms", WINDOW.as_millis());
        println!("{window}: {started_in_window} at most");
        let bound = |clients| KEPT.iter().find(|(count, _)| *count == clients).map_or(f64::NAN, |(_, mib)| *mib);
        let mut floors = vec![Floor::new("exchanges per CPU-second", AtLeast(EXCHANGES), Some(exchanges.median()))];
        floors.extend(memory.iter().map(|kept| {
            let name = format!("{} clients, {}, MiB", kept.clients, kept.families);
            Floor::new(name, AtMost(bound(kept.clients)), Some(kept.resident_mib))
        }));
        floors.push(Floor::new(window, AtMost(IN_WINDOW), Some(started_in_window as f64)));
        let (exchanges, spread_percent) = (exchanges.median(), exchanges.spread());
        write_json(&self.json, &Report { exchanges, spread_percent, memory, started_in_window })?;
        self.floors.judge(&floors, false)
    }

    /// Clients that start within a window, at most, as another thread sees them.
    fn starts(&self) -> anyhow::Result<u64> {
        let rig = Rig::open(PortDevice::Null, self.pages, self.cpus, PollMode::Adaptive)?;
        let config = Config::dhcp(FIRST_MAC, STARTED, Rate::per_second(STARTS));
        let spec = ClientSpec { name: "starting".into(), port: PortIndex(0), config, at_end: AtEnd::Forget };
        let clients = rig.engine().datapath().emulate(spec)?;
        let counters = clients.counters();
        let (since, mut seen) = (Instant::now(), Vec::new());
        while counters.get(Count::Started) < u64::from(STARTED) {
            ensure!(since.elapsed() < Duration::from_secs(60), "{} started", counters.get(Count::Started));
            // The clock first: all that are counted started before it was read again.
            seen.push((since.elapsed(), counters.get(Count::Started)));
            std::thread::sleep(Duration::from_micros(100));
        }
        let mut first = 0;
        let in_window = (0..seen.len()).map(|last| {
            while seen[last].0 - seen[first].0 > WINDOW {
                first += 1;
            }
            seen[last].1 - seen[first].1
        });
        Ok(in_window.max().unwrap_or(0))
    }
}

fn config(count: u32, ipv6: Option<Ipv6>) -> Config {
    Config { ipv6, ..Config::dhcp(FIRST_MAC, count, Rate::per_second(20_000)) }
}

fn memory() -> anyhow::Result<Vec<Kept>> {
    let six = Ipv6 { slaac: true, dhcp: Some(Dhcp6 { prefix: Some(56), ..Dhcp6::default() }), dad_transmits: 1 };
    let mut kept = Vec::new();
    let mut groups = Vec::new();
    for (clients, _) in KEPT {
        for (families, ipv6) in [("IPv4", None), ("IPv4 and IPv6", Some(six))] {
            let before = resident()?;
            let mut group = Group::new(config(clients, ipv6), 0)?;
            bind_all(&mut group);
            let resident_mib = resident()?.saturating_sub(before) as f64 / f64::from(1 << 20);
            kept.push(Kept { clients, families, resident_mib });
            // Memory that one gives back another could take unseen.
            groups.push(group);
        }
    }
    Ok(kept)
}

/// Frames of one call.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    lens: Vec<usize>,
}

impl Output for Frames {
    fn room(&self) -> usize {
        64 - self.lens.len()
    }

    fn send(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.lens.push(frame.len());
    }
}

/// Has all clients of a group get IPv4 addresses and find their gateway. Returns the CPU time that it took, in nanoseconds.
fn bind_all(group: &mut Group) -> u64 {
    let count = u64::from(group.config().count);
    let (mut out, mut next, mut frame) = (Frames::default(), Frames::default(), Vec::new());
    let started_ns = own_cpu_ns();
    group.start_all(0);
    let mut now_ns = 0;
    let counters = Arc::clone(group.counters());
    while counters.get(Count::Dhcp4Ack) < count {
        group.poll(now_ns, &mut out);
        while !out.lens.is_empty() {
            let mut at = 0;
            for len in &out.lens {
                frame.clear();
                frame.extend_from_slice(&out.bytes[at..at + len]);
                at += len;
                if answer(&mut frame) {
                    group.receive(&frame, Tags::NONE, now_ns, &mut next);
                }
            }
            out.bytes.clear();
            out.lens.clear();
            mem::swap(&mut out, &mut next);
        }
        now_ns += 50_000;
    }
    own_cpu_ns() - started_ns
}

/// Turns a client's frame into the answer to it; false: there is none.
fn answer(frame: &mut [u8]) -> bool {
    let (from, number) = (frame[6..12].to_vec(), u32::from_be_bytes([frame[8], frame[9], frame[10], frame[11]]));
    frame[..6].copy_from_slice(&from);
    frame[6..12].copy_from_slice(&SERVER_MAC);
    match [frame[12], frame[13]] {
        [8, 6] => {
            frame[21] = 2;
            frame.copy_within(28..32, 38);
            frame.copy_within(22..28, 32);
            frame[22..28].copy_from_slice(&SERVER_MAC);
            frame[28..32].copy_from_slice(&SERVER);
            return true;
        }
        [8, 0] => {}
        _ => return false,
    }
    let kind = match frame[OPTIONS + 2] {
        1 => 2,
        3 => 5,
        _ => return false,
    };
    frame[42] = 2;
    let address = (FIRST + number).to_be_bytes();
    frame[58..62].copy_from_slice(&address);
    let options = [53, 1, kind, 54, 4, 10, 0, 0, 1, 51, 4, 0, 0, 14, 16, 1, 4, 255, 0, 0, 0, 3, 4, 10, 0, 0, 1, 255];
    frame[OPTIONS..OPTIONS + options.len()].copy_from_slice(&options);
    frame[24..34].copy_from_slice(&[
        0, 0, SERVER[0], SERVER[1], SERVER[2], SERVER[3], address[0], address[1], address[2], address[3],
    ]);
    let sum = checksum::checksum(checksum::sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[34..38].copy_from_slice(&[0, 67, 0, 68]);
    // Without a checksum, as IPv4 allows it.
    frame[40..42].fill(0);
    true
}
