// SPDX-License-Identifier: Apache-2.0
//! How long control takes with many workers and ports: to open them, to prepare a plan, to read all counters, to encode the page of
//! metrics. The ports take every packet and the workers have no CPUs of their own, so the largest pod that the API allows fits on any machine.
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use prost::Message;
use serde::{Deserialize, Serialize};
use spate_engine::control::stats::{self, Grouping};
use spate_engine::datapath::{PollMode, PortDevice};
use spate_engine::metrics;
use spate_engine::plan::decode::Format;

use crate::cases::{self, Case};
use crate::flows::resident;
use crate::port_names::port_name;
use crate::rig::{Cpus, Pages, Rig, Setup, Workers, own_cpu_ns, start_soon};
use crate::series::Series;

/// Packets a second of all streams: workers run now and then, and leave the CPUs to control.
const RATE: u64 = 1_000;

/// Measures control with many workers and ports, and prints it as JSON.
#[derive(Debug, clap::Args)]
pub struct Crowd {
    #[arg(long, default_value_t = 64)]
    pub workers: usize,
    #[arg(long, default_value_t = 16)]
    pub ports: usize,
    /// Measured streams, shared out over the ports.
    #[arg(long, default_value_t = 1024)]
    pub streams: usize,
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    #[arg(long, value_enum, default_value = "normal")]
    pages: Pages,
    #[command(flatten)]
    cpus: Cpus,
}

/// Medians of the rounds. Elapsed where workers take part, else CPU time of the calling thread, in milliseconds.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Took {
    /// Elapsed.
    pub open_ms: f64,
    /// Elapsed, from the encoded plan until all workers have their part.
    pub prepare_ms: f64,
    /// CPU time for all counters of the run, the ports and the workers, as WatchStats has them.
    pub read_ms: f64,
    /// CPU time for the page of metrics.
    pub page_ms: f64,
    /// Memory of the process with a run prepared, without packet memory, in MiB.
    pub resident_mib: f64,
}

impl Crowd {
    pub fn execute(self) -> anyhow::Result<()> {
        println!("{}", serde_json::to_string(&self.measure()?)?);
        Ok(())
    }

    fn measure(&self) -> anyhow::Result<Took> {
        let since = Instant::now();
        let rig = Rig::open_with(Setup {
            device: PortDevice::Null,
            ports: self.ports,
            workers: Workers::Together(self.workers),
            pages: self.pages,
            control_cpu: self.cpus.control_cpu,
            poll: PollMode::Adaptive,
        })?;
        let open_ms = since.elapsed().as_secs_f64() * 1e3;
        let base = cases::find("flow-statistics").context("there is such a case")?;
        let mut plan = Case { streams: self.streams, ..*base }.plan(false, RATE);
        for (index, stream) in plan.streams.iter_mut().enumerate() {
            stream.tx_port = port_name(index % self.ports);
        }
        let (mut prepare, mut read, mut page, mut memory) = <(Series, Series, Series, Series)>::default();
        let before = resident()?;
        for round in 0..self.rounds {
            plan.run_id = format!("round-{round}");
            plan.run_tag = 1 + round;
            let bytes = plan.encode_to_vec().into();
            let since = Instant::now();
            let (held, _) = rig.engine().prepare(&plan.run_id, bytes, Format::Binary)?;
            prepare.add(since.elapsed().as_secs_f64() * 1e3);
            memory.add(resident()?.saturating_sub(before) as f64 / f64::from(1 << 20));
            start_soon(rig.engine(), &held, 20_000_000)?;
            std::thread::sleep(std::time::Duration::from_millis(100));
            let since = own_cpu_ns();
            let all = stats::read(rig.engine(), &held, Grouping::ByStream);
            read.add((own_cpu_ns() - since) as f64 / 1e6);
            anyhow::ensure!(all.streams.len() == self.streams && all.ports.len() == self.ports, "not all was read");
            let since = own_cpu_ns();
            let text = metrics::page(&Arc::clone(rig.engine()), metrics::Format::OpenMetrics)?.body;
            page.add((own_cpu_ns() - since) as f64 / 1e6);
            anyhow::ensure!(text.len() > self.streams, "the page is empty");
            rig.stop(&held)?;
            rig.engine().remove(&plan.run_id);
        }
        Ok(Took {
            open_ms,
            prepare_ms: prepare.median(),
            read_ms: read.median(),
            page_ms: page.median(),
            resident_mib: memory.median(),
        })
    }
}
