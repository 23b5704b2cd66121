// SPDX-License-Identifier: Apache-2.0
//! The engine under measurement: its workers, most often one on one CPU, control on another, and what the workers' threads have used.
#![allow(unsafe_code, reason = "system calls")]
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
use spate_engine::control::status::Refusal;
use spate_engine::datapath::{
    ClockError, Config, Datapath, Memory, PollMode, PortConfig, PortDevice, RunState, StampedBy, UseOffloads,
    WORKER_THREAD,
};
use spate_engine::plan::decode::Format;

use crate::flow_cases::LONG_DRAIN_NS;
use crate::port_names::port_name;

/// More than any worker can send: it is always behind, and sends as fast as it can.
pub const FLAT_OUT: u64 = 1_000_000_000;
/// Packet memory.
pub const MEMORY: u64 = 128 << 20;
/// A run that is stopped has ended by then: flows may drain, and streams' packets arrive.
const MAX_DRAIN: Duration = Duration::from_nanos(LONG_DRAIN_NS + 30_000_000_000);
/// The longest lead of a start.
const MAX_LEAD_NS: u64 = 2_000_000_000;

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

/// The workers of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One worker on each of these CPUs, which it has for itself.
    On(Vec<usize>),
    /// This many, which share all CPUs with everything else.
    Together(usize),
}

/// What a measurement needs of an engine.
#[derive(Clone, Debug)]
pub struct Setup {
    pub device: PortDevice,
    /// Ports of this kind, 1 or more.
    pub ports: usize,
    pub workers: Workers,
    pub pages: Pages,
    pub control_cpu: usize,
    pub poll: PollMode,
}

/// An engine.
pub struct Rig {
    engine: Arc<Engine>,
    /// The workers' threads.
    tids: Vec<i32>,
}

impl Rig {
    /// Opens one with one port and one worker.
    pub fn open(device: PortDevice, pages: Pages, cpus: Cpus, poll: PollMode) -> anyhow::Result<Self> {
        let workers = Workers::On(vec![cpus.worker_cpu]);
        Self::open_with(Setup { device, ports: 1, workers, pages, control_cpu: cpus.control_cpu, poll })
    }

    /// Opens one.
    pub fn open_with(setup: Setup) -> anyhow::Result<Self> {
        let count = setup.workers.count();
        let bytes = MEMORY + setup.more_bytes();
        let port = |index| PortConfig {
            name: port_name(index),
            device: setup.device.clone(),
            line_rate_bps: None,
            offloads: UseOffloads::Auto,
            mac: None,
            any_mac: false,
            stamped_by: StampedBy::Cpu,
        };
        let config = Config {
            ports: (0..setup.ports).map(port).collect(),
            worker_cpus: match &setup.workers {
                Workers::On(cpus) => cpus.clone(),
                Workers::Together(count) => (0..*count).collect(),
            },
            worker_groups: Vec::new(),
            control_cpus: vec![setup.control_cpu],
            memory: match setup.pages {
                Pages::Huge => Memory::Huge { bytes, page: None },
                Pages::Normal => Memory::Normal { bytes },
            },
            poll: setup.poll,
            clock_error: ClockError::default(),
        };
        let datapath = match setup.workers {
            Workers::On(_) => {
                // As the engine: what a measurement does beside the workers is not to take their CPUs.
                pin(setup.control_cpu)?;
                Datapath::open(config)?
            }
            Workers::Together(_) => Datapath::open_without_own_cpus(config)?,
        };
        let tids = (0..count).map(|index| thread_id(&format!("{WORKER_THREAD}{index}"))).collect::<Result<_, _>>()?;
        Ok(Self { engine: Arc::new(Engine::new(datapath)), tids })
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Prepares a plan and starts it.
    pub fn start(&self, plan: &Plan) -> anyhow::Result<Arc<Held>> {
        let bytes = plan.encode_to_vec().into();
        let (held, _) = self.engine.prepare(&plan.run_id, bytes, Format::Binary)?;
        start_soon(&self.engine, &held, 20_000_000)?;
        Ok(held)
    }

    /// Stops a run and waits until nothing of it is under way.
    pub fn stop(&self, held: &Held) -> anyhow::Result<()> {
        held.run().stop("measured");
        let since = Instant::now();
        while !held.has_ended() {
            if since.elapsed() > MAX_DRAIN {
                bail!("the run did not end within {} s of being stopped", MAX_DRAIN.as_secs());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Packets the workers have sent and received since they were opened.
    pub fn packets(&self) -> (u64, u64) {
        let counters = self.engine.datapath().worker_counters();
        counters
            .iter()
            .fold((0, 0), |(sent, received), worker| (sent + worker.tx_packets, received + worker.rx_packets))
    }

    /// Packets of the worker that has sent fewest.
    pub fn fewest_sent(&self) -> u64 {
        self.engine.datapath().worker_counters().iter().map(|worker| worker.tx_packets).min().unwrap_or(0)
    }

    /// Gives the workers and the calling thread precedence over all else on the machine, as far as niceness goes.
    pub fn prefer(&self) -> anyhow::Result<()> {
        self.tids.iter().try_for_each(|tid| prefer(*tid))?;
        prefer(0)
    }

    /// CPU time the workers' threads have used, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        // The clock of a thread, as pthread_getcpuclockid makes it of one (CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED).
        self.tids.iter().map(|tid| clock_ns((!tid << 3) | 6)).sum()
    }
}

impl Setup {
    /// Packet memory that workers take beyond `MEMORY`: in ordinary pages each packet takes one of 4 KiB.
    fn more_bytes(&self) -> u64 {
        let count = self.workers.count() as u64;
        match self.device {
            PortDevice::Null | PortDevice::NetNull => count.saturating_sub(8) * (10 << 20),
            _ => (count - 1) * (64 << 20),
        }
    }
}

impl Workers {
    pub fn count(&self) -> usize {
        match self {
            Self::On(cpus) => cpus.len(),
            Self::Together(count) => *count,
        }
    }
}

/// Starts a run after a lead in nanoseconds. Where control does not run in time (callgrind runs one thread at a time),
/// the instant has passed before the engine reads it: then after ten times the lead, 2 s at most.
pub fn start_soon(engine: &Engine, held: &Held, lead_ns: u64) -> Result<(), Refusal> {
    match engine.start(held, engine.now_ns() + lead_ns) {
        Err(_) if held.run().state() == RunState::Prepared && lead_ns < MAX_LEAD_NS => {
            start_soon(engine, held, (lead_ns * 10).min(MAX_LEAD_NS))
        }
        started => started,
    }
}

/// CPU time the calling thread has used, in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call.
    let code = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(code, 0, "a thread has a clock as long as it lives");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Gives one thread precedence; 0 is the calling one.
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
    child_of(&std::env::current_exe()?, arguments, pages, cpus)
}

/// Runs a build of this program, likewise.
pub fn child_of(program: &Path, arguments: &[&str], pages: Pages, cpus: Cpus) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .args(["--pages", if pages == Pages::Huge { "huge" } else { "normal" }])
        .args(["--worker-cpu", &cpus.worker_cpu.to_string(), "--control-cpu", &cpus.control_cpu.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("{} {arguments:?} ended with {}", program.display(), output.status);
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
