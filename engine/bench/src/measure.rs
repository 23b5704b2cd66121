// SPDX-License-Identifier: Apache-2.0
//! One measurement of one case, in a process of its own: how many packets the worker sent in how much CPU time. For
//! callgrind the same with a number of packets instead of a time.
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use spate_engine::datapath::{PollMode, PortDevice};

use crate::cases::{self, Case};
use crate::rig::{Cpus, FLAT_OUT, Pages, Rig, Setup, Workers};

/// Before the measurement begins: caches are warm, everything that is due is late.
const SETTLE: Duration = Duration::from_millis(100);

/// A device to send on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Device {
    Null,
    /// DPDK's own null device, as testpmd's.
    #[value(name = "net_null")]
    NetNull,
    Loopback,
}

impl Device {
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::NetNull => "net_null",
            Self::Loopback => "loopback",
        }
    }

    pub fn port(self) -> PortDevice {
        match self {
            Self::Null => PortDevice::Null,
            Self::NetNull => PortDevice::NetNull,
            Self::Loopback => PortDevice::Loopback,
        }
    }
}

/// Measures one case once and prints what came of it as JSON.
#[derive(Debug, clap::Args)]
pub struct Measure {
    /// Name of the case.
    #[arg(long)]
    pub case: String,
    #[arg(long, value_enum)]
    pub port: Device,
    #[arg(long, value_enum, default_value = "huge")]
    pub pages: Pages,
    #[command(flatten)]
    pub cpus: Cpus,
    /// Duration in milliseconds.
    #[arg(long, default_value_t = 500)]
    pub milliseconds: u64,
    /// Number of packets instead of a time, with a worker that sleeps when it has nothing to do.
    #[arg(long)]
    pub packets: Option<u64>,
    /// A worker on each CPU there is instead of one.
    #[arg(long)]
    pub every_cpu: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Measured {
    /// Sent; on a loopback received too.
    pub packets: u64,
    /// CPU time of the workers' threads.
    pub cpu_ns: u64,
}

impl Measure {
    pub fn execute(self) -> anyhow::Result<()> {
        let case = cases::find(&self.case).with_context(|| format!("--case {}: there is no such case", self.case))?;
        let poll = if self.packets.is_some() { PollMode::Adaptive } else { PollMode::Busy };
        let workers = match self.every_cpu {
            true => Workers::On((0..std::thread::available_parallelism()?.get()).collect()),
            false => Workers::On(vec![self.cpus.worker_cpu]),
        };
        let rig = Rig::open_with(Setup {
            device: self.port.port(),
            ports: 1,
            workers,
            pages: self.pages,
            control_cpu: self.cpus.control_cpu,
            poll,
        })?;
        let measured = match self.packets {
            Some(packets) => self.count(&rig, case, packets)?,
            None => self.time(&rig, case)?,
        };
        println!("{}", serde_json::to_string(&measured)?);
        Ok(())
    }

    fn time(&self, rig: &Rig, case: &Case) -> anyhow::Result<Measured> {
        let held = rig.start(&case.plan(self.port == Device::Loopback, FLAT_OUT))?;
        std::thread::sleep(SETTLE);
        let before = (rig.packets(), rig.cpu_ns());
        std::thread::sleep(Duration::from_millis(self.milliseconds));
        let after = (rig.packets(), rig.cpu_ns());
        rig.stop(&held)?;
        self.check(rig, case, &held)?;
        let moved = |of: fn((u64, u64)) -> u64| of(after.0) - of(before.0);
        let packets = match self.port {
            Device::Null | Device::NetNull => moved(|(sent, _)| sent),
            Device::Loopback => moved(|(sent, _)| sent).min(moved(|(_, received)| received)),
        };
        Ok(Measured { packets, cpu_ns: after.1 - before.1 })
    }

    fn count(&self, rig: &Rig, case: &Case, packets: u64) -> anyhow::Result<Measured> {
        let held = rig.start(&case.plan(self.port == Device::Loopback, FLAT_OUT))?;
        while rig.packets().0 < packets {
            std::thread::sleep(Duration::from_millis(1));
        }
        rig.stop(&held)?;
        self.check(rig, case, &held)?;
        Ok(Measured { packets: rig.packets().0, cpu_ns: rig.cpu_ns() })
    }

    /// All that was sent on a loopback was received, and counted where it is measured.
    fn check(&self, rig: &Rig, case: &Case, held: &spate_engine::control::runs::Held) -> anyhow::Result<()> {
        let (sent, received) = rig.packets();
        if self.port != Device::Loopback {
            return Ok(());
        }
        if sent != received {
            bail!("{}: {sent} packets were sent on the loopback and {received} received", case.name);
        }
        if case.flow {
            let counted: u64 = held.run().counters().iter().map(|c| c.measured.rx_packets).sum();
            if counted != sent {
                bail!("{}: {sent} packets were sent and {counted} counted as the stream's", case.name);
            }
        }
        Ok(())
    }
}
