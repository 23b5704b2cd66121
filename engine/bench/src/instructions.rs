// SPDX-License-Identifier: Apache-2.0
//! Instructions for each packet, or each connection, counted by callgrind: two runs that differ in their number, so that
//! what is done once cancels out. A number that does not depend on what else the machine does, and a gate on it.
#![allow(unsafe_code, reason = "system calls")]
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::cases::CASES;
use crate::flow_cases;
use crate::flows::Ended;
use crate::measure::{Device, Measured};
use crate::rig::Cpus;

/// Packets of the two runs.
const PACKETS: [u64; 2] = [200_000, 1_000_000];
/// Flows of the two runs.
const FLOWS: [u64; 2] = [10_000, 40_000];
/// Above the baseline by more than this fails.
const TOLERANCE: f64 = 0.03;

/// What is counted for each packet or flow of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// A case of streams, on a device.
    Packets(&'static str, Device),
    /// A case of flows.
    Flows(&'static str),
}

impl Counted {
    fn name(self) -> String {
        match self {
            Self::Packets(case, device) => format!("{case} on {}", device.name()),
            Self::Flows(case) => format!("{case} a connection"),
        }
    }

    fn runs(self) -> [u64; 2] {
        match self {
            Self::Packets(..) => PACKETS,
            Self::Flows(_) => FLOWS,
        }
    }

    /// The arguments with which this program makes this many.
    fn arguments(self, number: u64) -> Vec<String> {
        let of = |arguments: &[&str]| arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let number = number.to_string();
        match self {
            Self::Packets(case, device) => {
                of(&["measure", "--case", case, "--port", device.name(), "--packets", &number])
            }
            Self::Flows(case) => of(&["flows", "--case", case, "--flows", &number]),
        }
    }

    fn done(self, printed: &[u8]) -> anyhow::Result<u64> {
        Ok(match self {
            Self::Packets(..) => serde_json::from_slice::<Measured>(printed)?.packets,
            Self::Flows(_) => serde_json::from_slice::<Ended>(printed)?.flows,
        })
    }
}

/// Instructions for each.
#[derive(Clone, Copy, Debug)]
pub struct Each(pub f64);

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

/// What is gated: on null all cases of streams; on the loopback what receiving adds; flows, which are on loopbacks.
fn gated() -> impl Iterator<Item = Counted> {
    let received = ["one-fixed-stream", "flow-statistics", "latency"];
    let null = CASES.iter().map(|case| Counted::Packets(case.name, Device::Null));
    let loopback = received.into_iter().map(|case| Counted::Packets(case, Device::Loopback));
    let flows = flow_cases::CASES.iter().filter(|case| case.is_flat_out());
    null.chain(loopback).chain(flows.map(|case| Counted::Flows(case.name)))
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
            println!("bench-instructions: SKIPPED: nothing is recorded for {key}, so nothing is compared");
            println!("  recorded are {recorded:?}; to record this: make bench-baseline, and commit {path}");
            return Ok(());
        }
        let known = known.unwrap_or_default();
        let mut counted = BTreeMap::new();
        let mut worse = Vec::new();
        println!("{:<30} {:>13} {:>10} {:>8}", "CASE", "INSTRUCTIONS", "RECORDED", "CHANGE");
        let gated: Vec<_> = gated().collect();
        for (counted_of, Each(count)) in gated.iter().copied().zip(count_all(&gated, self.cpus)?) {
            let name = counted_of.name();
            let recorded = known.get(&name).copied();
            let change = recorded.map(|recorded| count / recorded - 1.0);
            let (recorded, percent) = match (recorded, change) {
                (Some(recorded), Some(change)) => (format!("{recorded:.1}"), format!("{:+.1} %", change * 100.0)),
                _ => ("-".into(), "new".into()),
            };
            println!("{name:<30} {count:>13.1} {recorded:>10} {percent:>8}");
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
                "more instructions than recorded by more than {:.0} %, or not recorded: {}. Make it faster, or \
                 run make bench-baseline and say in the commit what they buy",
                TOLERANCE * 100.0,
                worse.join(", ")
            );
        }
        Ok(())
    }
}

/// Counts cases, two at a time: what is counted does not depend on what else the CPUs do.
fn count_all(cases: &[Counted], cpus: Cpus) -> anyhow::Result<Vec<Each>> {
    let half = |first: usize| -> anyhow::Result<Vec<Each>> {
        cases.iter().skip(first).step_by(2).map(|case| count(*case, cpus)).collect()
    };
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| half(1));
        (half(0), odd.join().expect("counting does not panic"))
    });
    let (even, odd) = (even?, odd?);
    Ok((0..cases.len()).map(|index| if index % 2 == 0 { even[index / 2] } else { odd[index / 2] }).collect())
}

/// Counts one case.
pub fn count(case: Counted, cpus: Cpus) -> anyhow::Result<Each> {
    let [few, many] = case.runs();
    let (asked, few, many) = (many, run(case, cpus, few)?, run(case, cpus, many)?);
    if many.0 < few.0 + asked / 4 {
        bail!("{}: the two runs are about as long ({} and {})", case.name(), few.0, many.0);
    }
    Ok(Each((many.1 as f64 - few.1 as f64) / (many.0 as f64 - few.0 as f64)))
}

/// Makes about this many under callgrind. Returns how many exactly, and instructions of the whole process.
fn run(case: Counted, cpus: Cpus, number: u64) -> anyhow::Result<(u64, u64)> {
    let output = Command::new("valgrind")
        // Fair: else the worker, which never sleeps while it sends, keeps all others from running.
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--fair-sched=yes"])
        .arg(std::env::current_exe()?)
        .args(case.arguments(number))
        .args(["--pages", "normal"])
        .args(["--worker-cpu", &cpus.worker_cpu.to_string(), "--control-cpu", &cpus.control_cpu.to_string()])
        .stdin(Stdio::null())
        .output()
        .context("valgrind cannot be run (Debian: valgrind)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{} under callgrind ended with {}: {said}", case.name(), output.status);
    }
    let done = case.done(&output.stdout)?;
    let collected =
        said.lines().find_map(|line| line.split_once("Collected :")).context("callgrind says what it collected")?;
    Ok((done, collected.1.trim().parse()?))
}

/// What the counts depend on: compiler, DPDK and C library.
fn key() -> anyhow::Result<String> {
    let rustc = env!("SPATE_RUSTC_VERSION");
    let dpdk = spate_engine::datapath::Datapath::dpdk_version();
    // SAFETY: returns a constant string.
    let libc = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) }.to_str()?;
    Ok(format!("{rustc}, {dpdk}, glibc {libc}"))
}
