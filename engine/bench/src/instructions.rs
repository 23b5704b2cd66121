// SPDX-License-Identifier: Apache-2.0
//! Instructions per packet, counted by callgrind: two runs that differ in their number of packets, so that what is done
//! once cancels out. A number that does not depend on what else the machine does, and a gate on it.
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::cases::CASES;
use crate::measure::{Device, Measured};
use crate::rig::Cpus;

/// Packets of the two runs.
const FEW: u64 = 200_000;
const MANY: u64 = 1_000_000;
/// Above the baseline by more than this fails.
const TOLERANCE: f64 = 0.03;

/// Instructions per packet.
#[derive(Clone, Copy, Debug)]
pub struct PerPacket(pub f64);

/// Compares instructions per packet with those recorded, or records them.
#[derive(Debug, clap::Args)]
pub struct Instructions {
    /// The file they are recorded in.
    #[arg(long)]
    baseline: PathBuf,
    /// Record instead of comparing.
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    cpus: Cpus,
}

/// What the counts depend on, and the counts by case and port.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Baseline(BTreeMap<String, BTreeMap<String, f64>>);

/// What is gated: on null all cases; on the loopback what receiving adds.
fn gated() -> impl Iterator<Item = (&'static str, Device)> {
    let received = ["one-fixed-stream", "flow-statistics", "latency"];
    let null = CASES.iter().map(|case| (case.name, Device::Null));
    null.chain(received.into_iter().map(|case| (case, Device::Loopback)))
}

impl Instructions {
    pub fn execute(self) -> anyhow::Result<()> {
        let path = self.baseline.display();
        let mut baseline: Baseline = match std::fs::read_to_string(&self.baseline) {
            Ok(text) => serde_json::from_str(&text).with_context(|| format!("--baseline {path}"))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Baseline::default(),
            Err(error) => return Err(error).with_context(|| format!("--baseline {path}")),
        };
        let key = key()?;
        let known = baseline.0.get(&key).cloned();
        if known.is_none() && !self.record {
            let recorded: Vec<_> = baseline.0.keys().collect();
            println!("bench-instructions: nothing is recorded for {key}, so nothing is compared");
            println!("  recorded are {recorded:?}; to record this: make bench-baseline, and commit {path}");
            return Ok(());
        }
        let known = known.unwrap_or_default();
        let mut counted = BTreeMap::new();
        let mut worse = Vec::new();
        println!("{:<18} {:<9} {:>13} {:>10} {:>8}", "CASE", "PORT", "INSTR/PACKET", "RECORDED", "CHANGE");
        let gated: Vec<_> = gated().collect();
        for ((case, device), PerPacket(count)) in gated.iter().copied().zip(count_all(&gated, self.cpus)?) {
            let name = format!("{case} on {}", device.name());
            let recorded = known.get(&name).copied();
            let change = recorded.map(|recorded| count / recorded - 1.0);
            let (recorded, percent) = match (recorded, change) {
                (Some(recorded), Some(change)) => (format!("{recorded:.1}"), format!("{:+.1} %", change * 100.0)),
                _ => ("-".into(), "new".into()),
            };
            println!("{case:<18} {:<9} {count:>13.1} {recorded:>10} {percent:>8}", device.name());
            if change.is_none_or(|change| change > TOLERANCE) {
                worse.push(name.clone());
            }
            counted.insert(name, (count * 10.0).round() / 10.0);
        }
        if self.record {
            baseline.0.insert(key.clone(), counted);
            std::fs::write(&self.baseline, serde_json::to_string_pretty(&baseline)? + "\n")?;
            println!("recorded for {key} in {path}");
            return Ok(());
        }
        if !worse.is_empty() {
            bail!(
                "more instructions per packet than recorded by more than {:.0} %, or not recorded: {}. Make it faster, or \
                 run make bench-baseline and say in the commit what they buy",
                TOLERANCE * 100.0,
                worse.join(", ")
            );
        }
        Ok(())
    }
}

/// Counts cases, two at a time: what is counted does not depend on what else the CPUs do.
fn count_all(cases: &[(&str, Device)], cpus: Cpus) -> anyhow::Result<Vec<PerPacket>> {
    let half = |first: usize| -> anyhow::Result<Vec<PerPacket>> {
        let mine = cases.iter().skip(first).step_by(2);
        mine.map(|&(case, device)| count(case, device, cpus)).collect()
    };
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| half(1));
        (half(0), odd.join().expect("counting does not panic"))
    });
    let (even, odd) = (even?, odd?);
    Ok((0..cases.len()).map(|index| if index % 2 == 0 { even[index / 2] } else { odd[index / 2] }).collect())
}

/// Counts one case.
pub fn count(case: &str, device: Device, cpus: Cpus) -> anyhow::Result<PerPacket> {
    let few = run(case, device, cpus, FEW)?;
    let many = run(case, device, cpus, MANY)?;
    if many.0 < few.0 + MANY / 4 {
        bail!("{case} on {}: the two runs are of about as many packets ({} and {})", device.name(), few.0, many.0);
    }
    Ok(PerPacket((many.1 as f64 - few.1 as f64) / (many.0 as f64 - few.0 as f64)))
}

/// Sends about so many packets under callgrind: how many exactly, and instructions of the whole process.
fn run(case: &str, device: Device, cpus: Cpus, packets: u64) -> anyhow::Result<(u64, u64)> {
    let output = Command::new("valgrind")
        // Fair: else the worker, which never sleeps while it sends, keeps all others from running.
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--fair-sched=yes"])
        .arg(std::env::current_exe()?)
        .args(["measure", "--case", case, "--port", device.name(), "--pages", "normal"])
        .args(["--packets", &packets.to_string()])
        .args(["--worker-cpu", &cpus.worker_cpu.to_string(), "--control-cpu", &cpus.control_cpu.to_string()])
        .stdin(Stdio::null())
        .output()
        .context("valgrind cannot be run (Debian: valgrind)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{case} on {} under callgrind ended with {}: {said}", device.name(), output.status);
    }
    let measured: Measured = serde_json::from_slice(&output.stdout)?;
    let collected =
        said.lines().find_map(|line| line.split_once("Collected :")).context("callgrind says what it collected")?;
    Ok((measured.packets, collected.1.trim().parse()?))
}

/// What the counts depend on: compiler, DPDK and C library.
fn key() -> anyhow::Result<String> {
    let rustc = env!("SPATE_RUSTC_VERSION");
    let dpdk = spate_engine::datapath::Datapath::dpdk_version();
    // SAFETY: returns a constant string.
    let libc = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) }.to_str()?;
    Ok(format!("{rustc}, {dpdk}, glibc {libc}"))
}
