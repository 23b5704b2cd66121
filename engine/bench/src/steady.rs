// SPDX-License-Identifier: Apache-2.0
//! An engine that sends as fast as it can for as long as another process looks at it, and reports how many packets that were. Its
//! workers have no CPUs of their own: what they do is counted, not how long it takes.
use std::io::{BufRead, Write};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use spate_engine::datapath::PollMode;
use spate_engine::index::PortIndex;

use crate::cases;
use crate::measure::Device;
use crate::rig::{Cpus, FLAT_OUT, Pages, Rig, Setup, Workers};

/// Until all workers are behind, and have been everywhere.
const SETTLE: Duration = Duration::from_millis(300);

/// Sends until its input ends; answers each line of it with the packets so far, as JSON.
#[derive(Debug, clap::Args)]
pub struct Steady {
    #[arg(long)]
    case: String,
    #[arg(long, value_enum)]
    port: Device,
    #[arg(long)]
    workers: usize,
    #[arg(long, value_enum, default_value = "normal")]
    pages: Pages,
    #[command(flatten)]
    cpus: Cpus,
}

/// Packets since it was opened.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Packets {
    /// Packets of all workers together.
    pub sent: u64,
    pub received: u64,
    /// Packets of the worker that sent fewest.
    pub fewest_sent: u64,
    /// Where each worker counts those that it has sent, in its process's memory.
    pub counted_at: Vec<usize>,
}

impl Steady {
    pub fn execute(self) -> anyhow::Result<()> {
        let case = cases::find(&self.case).with_context(|| format!("--case {}: there is no such case", self.case))?;
        let rig = Rig::open_with(Setup {
            device: self.port.port(),
            ports: 1,
            workers: Workers::Together(self.workers),
            pages: self.pages,
            control_cpu: self.cpus.control_cpu,
            poll: PollMode::Adaptive,
        })?;
        if self.port == Device::Loopback {
            rig.engine().datapath().pair_queues(PortIndex(0));
        }
        let held = rig.start(&case.plan(self.port == Device::Loopback, FLAT_OUT))?;
        std::thread::sleep(SETTLE);
        for line in std::io::stdin().lock().lines() {
            line?;
            let (sent, received) = rig.packets();
            let counted_at = rig.engine().datapath().worker_counters_at();
            let packets = Packets { sent, received, fewest_sent: rig.fewest_sent(), counted_at };
            let mut out = std::io::stdout().lock();
            serde_json::to_writer(&mut out, &packets)?;
            out.write_all(b"\n")?;
            out.flush()?;
        }
        rig.stop(&held)
    }
}
