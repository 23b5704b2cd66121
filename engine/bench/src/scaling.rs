// SPDX-License-Identifier: Apache-2.0
//! Do workers share nothing? What a packet costs must not grow with their number: instructions and stores to cache lines that workers
//! share are counted for 1 to 16, and time is measured on every CPU there is. What control does with the largest pod stays
//! below bounds.
use std::path::PathBuf;

use serde::Serialize;

use crate::cases;
use crate::crowd::Took;
use crate::floors::Bound::{AtLeast, AtMost};
use crate::floors::{Floor, Floors};
use crate::measure::{Device, Measured};
use crate::pages::Reserved;
use crate::rig::{Cpus, child, write_json};
use crate::series::{Series, rounded};
use crate::steps::{self, Counted};

/// What is counted, on what, and with how many workers. The first number is what others are compared with: on a port with several queues
/// sequences are kept otherwise than on one with one.
const COUNTED: [(&str, Device, &[usize]); 3] = [
    ("one-fixed-stream", Device::Null, &[1, 2, 4, 8, 16]),
    ("two-random-fields", Device::Null, &[1, 2, 4, 8, 16]),
    ("many-kept", Device::Loopback, &[2, 4, 8]),
];
/// What may be counted with more workers, by what was with fewest: passes differ a little, by what is due.
const GROWTH: f64 = 1.05;
/// Stores to shared lines of the engine's own memory for each packet. One in a burst of 64 would be more.
const SHARED: f64 = 0.01;
/// Stores to shared lines of packet memory for each packet: DPDK's ring driver, which a loopback is made of, counts bursts of all queues side by side.
const SHARED_BY_DEVICE: f64 = 0.05;
/// Packets per CPU-second on all CPUs by those on one: two threads of a core have about half each.
const EACH: f64 = 0.5;
/// Bounds of control with the largest pod.
const PREPARE_MS: f64 = 2_000.0;
const READ_MS: f64 = 100.0;
const PAGE_MS: f64 = 300.0;
const RUN_MIB: f64 = 1_024.0;
/// Instructions of each worker at least on a loopback, for a whole pass that handles a burst.
const WHOLE: u64 = 90_000;
/// What is timed, on one CPU and on all.
const TIMED: [&str; 2] = ["one-fixed-stream", "two-random-fields"];

/// Counts what a packet costs with 1 to 16 workers, measures time on all CPUs, and control with 64 workers and 16 ports.
#[derive(Debug, clap::Args)]
pub struct Scaling {
    /// Instructions that are followed in each count.
    #[arg(long, default_value_t = 320_000)]
    instructions: u64,
    /// Rounds of what is timed.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Report as JSON.
    #[arg(long)]
    json: PathBuf,
    /// What becomes of a floor that is missed.
    #[arg(long, value_enum, default_value = "fail")]
    floors: Floors,
    #[command(flatten)]
    cpus: Cpus,
}

#[derive(Serialize)]
struct Report {
    counted: Vec<Line>,
    timed: Vec<Timed>,
    control: Took,
}

#[derive(Serialize)]
struct Line {
    case: &'static str,
    port: &'static str,
    workers: usize,
    instructions_per_packet: f64,
    shared_stores_per_packet: f64,
    shared_stores_in_packet_memory_per_packet: f64,
}

#[derive(Serialize)]
struct Timed {
    case: &'static str,
    cpus: usize,
    /// Millions of packets per CPU-second of one worker alone, and of a worker on each CPU.
    mpps_one: f64,
    mpps_each: f64,
}

impl Scaling {
    pub fn execute(self) -> anyhow::Result<()> {
        println!(
            "{:<18} {:<9} {:>7} {:>13} {:>21} {:>24}",
            "CASE", "PORT", "WORKERS", "INSTR/PACKET", "SHARED STORES/PACKET", "OF THEM PACKET MEMORY"
        );
        let mut counted = Vec::new();
        for (case, device, all) in COUNTED {
            for workers in all {
                counted.push(self.count(case, device, *workers)?);
            }
        }
        let timed = TIMED.iter().map(|case| self.time(case)).collect::<anyhow::Result<Vec<_>>>()?;
        println!("\n{:<18} {:>5} {:>16} {:>22}", "CASE", "CPUS", "MPPS/CPU-S, ONE", "MPPS/CPU-S, ON EACH");
        for line in &timed {
            println!("{:<18} {:>5} {:>16.2} {:>22.2}", line.case, line.cpus, line.mpps_one, line.mpps_each);
        }
        let control: Took = serde_json::from_str(&child(&["crowd"], crate::rig::Pages::Normal, self.cpus)?)?;
        println!("\n64 WORKERS, 16 PORTS, 1024 STREAMS");
        println!(
            "open {:.0} ms, prepare {:.0} ms, read counters {:.1} ms, page of metrics {:.1} ms, memory of the run {:.0} MiB\n",
            control.open_ms, control.prepare_ms, control.read_ms, control.page_ms, control.resident_mib
        );
        let floors = floors(&counted, &timed, &control);
        write_json(&self.json, &Report { counted, timed, control })?;
        self.floors.judge(&floors, false)
    }

    fn count(&self, case: &'static str, device: Device, workers: usize) -> anyhow::Result<Line> {
        let found = cases::find(case).expect("a case of the table");
        let least = if device == Device::Null { 0 } else { WHOLE * workers as u64 };
        // Counting pins its thread. It is not this one, whose children are timed on all CPUs.
        let counting = || steps::count(found, device, workers, self.cpus, self.instructions.max(least));
        let counted = std::thread::scope(|scope| scope.spawn(counting).join());
        let Counted { instructions, shared_in_packets, shared_in_engine } =
            counted.map_err(|_| anyhow::anyhow!("counting has panicked"))??;
        let line = Line {
            case,
            port: device.name(),
            workers,
            instructions_per_packet: rounded(instructions, 1),
            shared_stores_per_packet: rounded(shared_in_engine + shared_in_packets, 3),
            shared_stores_in_packet_memory_per_packet: rounded(shared_in_packets, 3),
        };
        println!(
            "{:<18} {:<9} {:>7} {:>13.1} {:>21.3} {:>24.3}",
            case,
            line.port,
            workers,
            line.instructions_per_packet,
            line.shared_stores_per_packet,
            line.shared_stores_in_packet_memory_per_packet
        );
        Ok(line)
    }

    fn time(&self, case: &'static str) -> anyhow::Result<Timed> {
        let reserved = Reserved::new();
        let cpus = std::thread::available_parallelism()?.get();
        let mpps = |more: &[&str]| -> anyhow::Result<f64> {
            let arguments = [&["measure", "--case", case, "--port", "null"], more].concat();
            let measured: Measured = serde_json::from_str(&child(&arguments, reserved.pages(), self.cpus)?)?;
            Ok(measured.packets as f64 * 1000.0 / measured.cpu_ns as f64)
        };
        let (mut one, mut each) = (Series::default(), Series::default());
        for _ in 0..self.rounds {
            one.add(mpps(&[])?);
            each.add(mpps(&["--every-cpu"])?);
        }
        Ok(Timed { case, cpus, mpps_one: rounded(one.median(), 2), mpps_each: rounded(each.median(), 2) })
    }
}

/// What is promised of each case, by its figures with fewest workers.
fn floors(counted: &[Line], timed: &[Timed], control: &Took) -> Vec<Floor> {
    let mut floors = Vec::new();
    for (case, device, all) in COUNTED {
        let lines: Vec<_> = counted.iter().filter(|line| line.case == case && line.port == device.name()).collect();
        let Some(base) = lines.iter().find(|line| line.workers == all[0]) else { continue };
        let most = |figure: fn(&Line) -> f64| lines.iter().map(|l| figure(l)).max_by(f64::total_cmp);
        let grows = most(|line| line.instructions_per_packet).map(|most| most / base.instructions_per_packet);
        floors.push(Floor::new(
            format!("{case} on {}: most instructions by those of {} workers", base.port, base.workers),
            AtMost(GROWTH),
            grows,
        ));
        let by_device = most(|line| line.shared_stores_in_packet_memory_per_packet);
        let own = most(|line| line.shared_stores_per_packet - line.shared_stores_in_packet_memory_per_packet);
        let bound = if device == Device::Null { SHARED } else { SHARED_BY_DEVICE };
        let name = |of| format!("{case} on {}: shared stores per packet in {of} memory", base.port);
        floors.push(Floor::new(name("the engine's"), AtMost(SHARED), own));
        floors.push(Floor::new(name("packet"), AtMost(bound), by_device));
    }
    for line in timed {
        let name = format!("{}: packets per CPU-second on {} CPUs by those on one", line.case, line.cpus);
        floors.push(Floor::new(name, AtLeast(EACH), Some(line.mpps_each / line.mpps_one)));
    }
    for (what, most, took) in [
        ("prepare a plan, ms", PREPARE_MS, control.prepare_ms),
        ("read all counters, ms", READ_MS, control.read_ms),
        ("encode the page of metrics, ms", PAGE_MS, control.page_ms),
        ("memory of a run, MiB", RUN_MIB, control.resident_mib),
    ] {
        floors.push(Floor::new(format!("64 workers, 16 ports, 1024 streams: {what}"), AtMost(most), Some(took)));
    }
    floors
}
