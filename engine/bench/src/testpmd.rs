// SPDX-License-Identifier: Apache-2.0
//! dpdk-testpmd, to compare with: the same device, burst, frame length, memory and CPUs.
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::measure::Measured;
use crate::rig::{Cpus, MEMORY, Pages};

const PROGRAM: &str = "dpdk-testpmd";
/// Makes its output line-buffered, though it is no terminal.
const LINE_BY_LINE: [&str; 2] = ["stdbuf", "-oL"];
/// As many packets a burst as the engine has.
const BURST: usize = spate_dpdk::BURST;
/// Until it is up, or has stopped.
const PATIENCE: Duration = Duration::from_secs(20);

/// What it does: its own names for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Sends one packet again and again.
    Txonly,
    /// Sends packets that differ in their source address.
    TxonlyMultiFlow,
    /// Sends packets that differ in addresses and ports, checksums true, and receives.
    Flowgen,
}

/// A device of testpmd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vdev {
    /// As the engine's null.
    Null,
    /// What is sent is received, as on the engine's loopback.
    Ring,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Txonly => "txonly",
            Self::TxonlyMultiFlow => "txonly-multi-flow",
            Self::Flowgen => "flowgen",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Txonly => &["--forward-mode=txonly"],
            Self::TxonlyMultiFlow => &["--forward-mode=txonly", "--txonly-multi-flow"],
            Self::Flowgen => &["--forward-mode=flowgen"],
        }
    }
}

/// Lets it send for a while; packets and the CPU time of its forwarding core.
pub fn measure(mode: Mode, vdev: Vdev, pages: Pages, cpus: Cpus, length: Duration) -> anyhow::Result<Measured> {
    let mut testpmd = Testpmd::start(mode, vdev, pages, cpus)?;
    testpmd.wait_for("Done")?;
    let worker = testpmd.worker()?;
    let before = cpu_ns(&worker)?;
    testpmd.say("start")?;
    std::thread::sleep(length);
    testpmd.say("stop")?;
    let total = testpmd.wait_for("Accumulated forward statistics").and_then(|()| testpmd.wait_for_total())?;
    testpmd.wait_for("Done")?;
    let cpu_ns = cpu_ns(&worker)? - before;
    testpmd.say("quit")?;
    let _ = testpmd.child.wait();
    Ok(Measured { packets: total, cpu_ns })
}

struct Testpmd {
    child: Child,
    lines: Receiver<String>,
    /// The last lines that it printed.
    heard: Vec<String>,
}

impl Testpmd {
    fn start(mode: Mode, vdev: Vdev, pages: Pages, cpus: Cpus) -> anyhow::Result<Self> {
        let mut command = Command::new(LINE_BY_LINE[0]);
        command.args([LINE_BY_LINE[1], PROGRAM]);
        command.args(match pages {
            Pages::Huge => &["--in-memory"] as &[&str],
            Pages::Normal => &["--no-huge", "--no-shconf"],
        });
        command.args(["-m", &(MEMORY >> 20).to_string(), "--no-telemetry", "--no-pci"]);
        command.arg(format!("--lcores=0@{},1@{}", cpus.control_cpu, cpus.worker_cpu));
        command.arg(match vdev {
            Vdev::Null => "--vdev=net_null0,no-rx=1",
            Vdev::Ring => "--vdev=net_ring0",
        });
        // Packet memory of about the engine's size; frames of 64 bytes on the wire, which have 60 without FCS.
        command.args(["--", "-i", "--total-num-mbufs=8191", "--txpkts=60", "--nb-cores=1"]);
        command.arg(format!("--burst={BURST}"));
        command.args(mode.arguments());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{PROGRAM} cannot be run (Debian: dpdk-dev)"))?;
        let out = child.stdout.take().context("it has an output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, lines, heard: Vec::new() })
    }

    fn say(&mut self, what: &str) -> anyhow::Result<()> {
        let input = self.child.stdin.as_mut().context("it has an input")?;
        writeln!(input, "{what}")?;
        Ok(input.flush()?)
    }

    fn next_line(&mut self, until: Instant) -> anyhow::Result<String> {
        match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                self.heard.push(line.clone());
                Ok(line)
            }
            Err(RecvTimeoutError::Timeout) => bail!("{PROGRAM} is silent; last: {}", self.last()),
            Err(RecvTimeoutError::Disconnected) => bail!("{PROGRAM} has ended; last: {}", self.last()),
        }
    }

    fn last(&self) -> String {
        self.heard[self.heard.len().saturating_sub(5)..].join(" | ")
    }

    fn wait_for(&mut self, text: &str) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while !self.next_line(until)?.contains(text) {}
        Ok(())
    }

    /// The packets sent, from "TX-packets: 1  TX-dropped: 0  TX-total: 1".
    fn wait_for_total(&mut self) -> anyhow::Result<u64> {
        let until = Instant::now() + PATIENCE;
        loop {
            let line = self.next_line(until)?;
            if let Some((_, rest)) = line.split_once("TX-packets:") {
                let number = rest.split_whitespace().next().context("TX-packets has a number")?;
                return Ok(number.parse()?);
            }
        }
    }

    /// The folder of its forwarding thread.
    fn worker(&self) -> anyhow::Result<std::path::PathBuf> {
        for entry in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let path = entry?.path();
            let name = fs::read_to_string(path.join("comm"))?;
            // "lcore-worker-1", since 23.11 "dpdk-worker1".
            if name.contains("-worker") {
                return Ok(path);
            }
        }
        bail!("{PROGRAM} has no thread called *-worker*")
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of a thread, from its schedstat.
fn cpu_ns(thread: &std::path::Path) -> anyhow::Result<u64> {
    let text = fs::read_to_string(thread.join("schedstat"))
        .context("the kernel reports no thread's CPU time (CONFIG_SCHED_INFO)")?;
    Ok(text.split_whitespace().next().context("schedstat has three numbers")?.parse()?)
}
