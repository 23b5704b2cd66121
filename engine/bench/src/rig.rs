// SPDX-License-Identifier: Apache-2.0
//! The engine under measurement: one worker on one CPU, control on another, and what the worker's thread has used.
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use contract::Plan;
use prost::Message;
use rustix::thread::{CpuSet, sched_setaffinity};
use spate_engine::control::runs::{Engine, Held};
use spate_engine::datapath::{ClockError, Config, Datapath, Memory, PollMode, PortConfig, PortDevice, UseOffloads};
use spate_engine::plan::decode::Format;

use crate::flow_cases::LONG_DRAIN_NS;

/// More than any worker can send: it is always behind, and sends as fast as it can.
pub const FLAT_OUT: u64 = 1_000_000_000;
/// Packet memory.
pub const MEMORY: u64 = 128 << 20;
/// A run that is stopped has ended by then: flows may drain, and streams' packets arrive.
const MOST_DRAIN: Duration = Duration::from_nanos(LONG_DRAIN_NS + 30_000_000_000);
/// The port's name in plans.
pub const PORT: &str = "p";

/// Where packet memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pages {
    Huge,
    Normal,
}

/// The CPUs of a measurement.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Cpus {
    /// CPU of the worker, or of testpmd's forwarding core.
    #[arg(long, default_value_t = 1)]
    pub worker_cpu: usize,
    /// CPU of all else.
    #[arg(long, default_value_t = 0)]
    pub control_cpu: usize,
}

/// An engine with one port.
pub struct Rig {
    engine: Engine,
    /// The worker's thread.
    tid: i32,
}

impl Rig {
    /// Opens it.
    pub fn open(device: PortDevice, pages: Pages, cpus: Cpus, poll: PollMode) -> anyhow::Result<Self> {
        // As the engine: what a measurement does beside the worker is not to take its CPU.
        pin(cpus.control_cpu)?;
        let memory = match pages {
            Pages::Huge => Memory::Huge { bytes: MEMORY, page: None },
            Pages::Normal => Memory::Normal { bytes: MEMORY },
        };
        let datapath = Datapath::open(Config {
            ports: vec![PortConfig {
                name: PORT.into(),
                device,
                line_rate_bps: None,
                offloads: UseOffloads::Auto,
                mac: None,
                any_mac: false,
            }],
            worker_cpus: vec![cpus.worker_cpu],
            control_cpus: vec![cpus.control_cpu],
            memory,
            poll,
            clock_error: ClockError::default(),
        })?;
        Ok(Self { engine: Engine::new(datapath), tid: thread_id("worker-0")? })
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Prepares a plan and starts it.
    pub fn start(&self, plan: &Plan) -> anyhow::Result<Arc<Held>> {
        let bytes = plan.encode_to_vec().into();
        let (held, _) = self.engine.prepare(&plan.run_id, bytes, Format::Binary)?;
        self.engine.start(&held, self.engine.now_ns() + 20_000_000)?;
        Ok(held)
    }

    /// Stops a run and waits until nothing of it is under way.
    pub fn stop(&self, held: &Held) -> anyhow::Result<()> {
        held.run().stop("measured");
        let since = Instant::now();
        while !held.has_ended() {
            if since.elapsed() > MOST_DRAIN {
                bail!("the run did not end within {} s of being stopped", MOST_DRAIN.as_secs());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Packets the worker has sent and received since it was opened.
    pub fn packets(&self) -> (u64, u64) {
        let counters = self.engine.datapath().worker_counters()[0];
        (counters.tx_packets, counters.rx_packets)
    }

    /// Has the worker and the calling thread run before whatever else the machine does, as far as niceness goes.
    pub fn prefer(&self) -> anyhow::Result<()> {
        prefer(self.tid)?;
        prefer(0)
    }

    /// CPU time the worker's thread has used, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        // The clock of a thread, as pthread_getcpuclockid makes it of one (CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED).
        let clock = (!self.tid << 3) | 6;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { libc::clock_gettime(clock, &raw mut time) };
        assert_eq!(code, 0, "the worker's thread has a clock as long as the rig is open");
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// The same for one thread; 0 is the calling one.
pub fn prefer(tid: i32) -> anyhow::Result<()> {
    // SAFETY: takes and returns numbers. Of Linux's threads each has its own niceness.
    let code = unsafe { libc::setpriority(libc::PRIO_PROCESS, tid as libc::id_t, -20) };
    if code != 0 {
        return Err(std::io::Error::last_os_error()).context("a thread's niceness cannot be set");
    }
    Ok(())
}

/// This thread, and all that it starts, runs on one CPU; workers keep to their own.
pub fn pin(cpu: usize) -> anyhow::Result<()> {
    ensure!(cpu < CpuSet::MAX_CPU, "there is no CPU {cpu}");
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("control cannot be kept to CPU {cpu}"))
}

/// The thread of this process with this name.
fn thread_id(name: &str) -> anyhow::Result<i32> {
    for entry in fs::read_dir("/proc/self/task")? {
        let path = entry?.path();
        if fs::read_to_string(path.join("comm"))?.trim() == name {
            let id = path.file_name().and_then(|id| id.to_str()).context("a thread's folder has a name")?;
            return Ok(id.parse()?);
        }
    }
    bail!("no thread is called {name}")
}

/// Runs this program with other arguments: DPDK comes up once in a process. Returns what it printed.
pub fn child(arguments: &[&str], pages: Pages, cpus: Cpus) -> anyhow::Result<String> {
    let output = Command::new(std::env::current_exe()?)
        .args(arguments)
        .args(["--pages", if pages == Pages::Huge { "huge" } else { "normal" }])
        .args(["--worker-cpu", &cpus.worker_cpu.to_string(), "--control-cpu", &cpus.control_cpu.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("{arguments:?} ended with {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Writes a report.
pub fn write_json(path: &Path, report: &impl serde::Serialize) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let text = serde_json::to_string_pretty(report)? + "\n";
    fs::write(path, text).with_context(|| format!("--json {}", path.display()))
}
