// SPDX-License-Identifier: Apache-2.0
//! The options that say what an engine is made of: ports, CPUs, memory.
use super::cpus;
use super::links::{self, Links};
use super::ports::{self, LineRate, PortArgument};
use super::worker_groups;
use crate::control::routing::RouterPort;
use crate::datapath::{ClockError, Config, Datapath, Memory, PollMode, PortConfig, WorkerGroup};
use crate::machine::{self, Roots, Used};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// An hour.
const MAX_CLOCK_ERROR_NS: i64 = 3_600_000_000_000;

#[derive(Clone, Debug, Args)]
pub struct Site {
    /// A port and its device. May be repeated.
    ///
    /// Devices:
    ///   NAME=pci:ADDRESS           a PCI device
    ///   NAME=kernel:INTERFACE      a network interface, by af_packet
    ///   NAME=xdp:INTERFACE         a network interface, by AF_XDP
    ///   NAME=tap:INTERFACE         an interface that is made
    ///   NAME=attached:INTERFACE    the pod's interface, or its PCI device: by the variable PCIDEVICE_... of the resource in
    ///                              ",resource=NAME", or by --network-status
    ///   NAME=claimed               a device of a resource claim, by --claimed-devices
    ///   NAME=memif:SOCKET          shared memory with a process that may read and write all of this one's; ",role=client"
    ///                              connects to the socket, which is made otherwise; ",id=NUMBER" (0)
    ///   NAME=bond,member=DEVICE,member=DEVICE
    ///                              one link by LACP; a member is pci:ADDRESS, kernel:INTERFACE, attached:INTERFACE or
    ///                              attached:INTERFACE;resource=NAME
    ///   NAME=loopback              receives what it sends
    ///   NAME=null                  sends to nowhere, receives nothing
    ///
    /// Options of each:
    ///   ,offloads=auto|all|none     work on packets that is left to the device: what it offers and is faster (auto),
    ///                              checksums of all that is sent too (all), or nothing
    ///   ,mac=ADDRESS               the port's MAC address instead of the device's
    ///   ,accept=own|any            applications and the port's addresses take frames to the port's MAC address only (own), or to any
    ///   ,timestamps=cpu|device     delays and inter-arrival times are by the clock of the worker that reads packets (cpu), or by
    ///                              the time stamps of a NIC whose driver has them (device: mlx5)
    #[arg(verbatim_doc_comment)]
    #[arg(long = "port", value_name = "NAME=DEVICE", required = true)]
    ports: Vec<PortArgument>,
    /// Line rate of a port whose device does not report it, such as east=10G. May be repeated.
    #[arg(long = "line-rate", value_name = "NAME=RATE")]
    line_rates: Vec<LineRate>,
    #[command(flatten)]
    links: Links,
    /// The pod's network-status annotation as a file (Kubernetes downward API).
    #[arg(long, value_name = "FILE")]
    network_status: Option<PathBuf>,
    /// The devices of the pod's resource claims as a file (Kubernetes downward API), in which the operator reports them.
    #[arg(long, value_name = "FILE")]
    claimed_devices: Option<PathBuf>,
    /// Threads that send and receive, each on a CPU of its own: 1 if not given, or those of all --worker-group.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=255))]
    workers: Option<u16>,
    /// Ports that workers of their own serve, such as east,west=2: these workers have queues of these ports only, and CPUs of the NUMA
    /// node of their devices as far as there are. May be repeated; every port is then in one. Without it all workers serve all ports.
    #[arg(long = "worker-group", value_name = "PORT,PORT=WORKERS")]
    worker_groups: Vec<worker_groups::WorkerGroupArgument>,
    /// CPUs to use, such as 2-5,8: the first for control, the others for workers; with too few, control shares the last
    /// worker's. auto means all that this process may use.
    #[arg(long, value_name = "LIST", default_value = "auto")]
    cpus: String,
    /// How many hardware threads of a core to use: 1 leaves the others idle, all of which must be CPUs of this process.
    #[arg(long, value_name = "THREADS", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    threads_per_core: u8,
    /// Memory for packets, such as 128M or 1G.
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = memory_size)]
    memory: u64,
    /// Where packets live: hugepages of any size, of 2 MiB, of 1 GiB, or none (slower: not for measurement).
    #[arg(long, value_enum, default_value = "auto")]
    hugepages: Hugepages,
    /// What idle workers do: auto sleeps where a port is kernel-backed or CPUs are shared, busy never, adaptive always.
    #[arg(long, value_enum, default_value = "auto")]
    poll_mode: Poll,
    /// For tests of clocks: the engine's clocks are wrong by OFFSET nanoseconds when CLOCK_MONOTONIC has SINCE nanoseconds, and go PPM
    /// millionths too fast.
    #[arg(long, value_name = "OFFSET,PPM,SINCE", hide = true, allow_hyphen_values = true, value_parser = clock_error)]
    clock_error: Option<ClockError>,
}

/// A site that is open.
pub struct Opened {
    /// Its ports and workers.
    pub datapath: Datapath,
    /// What it uses of the machine.
    pub used: Used,
    /// Its ports that are routers.
    pub routers: Vec<RouterPort>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Hugepages {
    Auto,
    #[value(name = "2M")]
    TwoMebibytes,
    #[value(name = "1G")]
    OneGibibyte,
    None,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Poll {
    Auto,
    Busy,
    Adaptive,
}

impl Site {
    /// Bytes of hugepages that are taken.
    pub fn hugepage_bytes(&self) -> u64 {
        if matches!(self.hugepages, Hugepages::None) { 0 } else { self.memory }
    }

    /// The first port that is to be a router.
    pub fn first_router(&self) -> Option<&str> {
        self.links.first_router()
    }

    /// Opens it.
    pub fn open(&self) -> anyhow::Result<Datapath> {
        if let Some(port) = self.first_router() {
            bail!("--router {port}: only `spate-engine serve` speaks routing protocols");
        }
        Ok(self.open_to_serve()?.datapath)
    }

    /// Opens it, and returns what else the service has to know.
    pub fn open_to_serve(&self) -> anyhow::Result<Opened> {
        let links = self.links.by_port(self.ports.iter().map(|port| port.name.as_str()))?;
        let config = self.config()?;
        let used = Used {
            worker_cpus: config.worker_cpus.clone(),
            control_cpus: config.control_cpus.clone(),
            allowed_cpus: cpus::allowed()?, // before this thread is pinned
            ports: config.ports.iter().map(|port| (port.name.clone(), port.device.clone())).collect(),
        };
        cpus::keep_to(&config.control_cpus)?;
        let mut datapath = Datapath::open(config)?;
        let routers = links::routers(&links);
        datapath.join(links)?;
        Ok(Opened { datapath, used, routers })
    }

    fn config(&self) -> anyhow::Result<Config> {
        for rate in &self.line_rates {
            if !self.ports.iter().any(|port| port.name == rate.port) {
                bail!("--line-rate {}: no --port has this name", rate.port);
            }
        }
        let mut ports = Vec::with_capacity(self.ports.len());
        for port in &self.ports {
            let device =
                ports::Resolver::new(&self.ports, self.network_status.as_deref(), self.claimed_devices.as_deref())
                    .resolve(&port.device)
                    .with_context(|| format!("--port {}", port.name))?;
            let rate = self.line_rates.iter().find(|rate| rate.port == port.name);
            ports.push(PortConfig {
                name: port.name.clone(),
                device,
                line_rate_bps: rate.map(|rate| rate.bps),
                offloads: port.offloads,
                mac: port.mac,
                any_mac: port.any_mac,
                stamped_by: port.stamped_by,
            });
        }
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        let worker_groups = worker_groups::resolve(&self.worker_groups, &names)?;
        let (control_cpus, worker_cpus) = self.choose_cpus(&ports, &worker_groups)?;
        let page = match self.hugepages {
            Hugepages::TwoMebibytes => Some(2 << 20),
            Hugepages::OneGibibyte => Some(1 << 30),
            Hugepages::Auto | Hugepages::None => None,
        };
        let memory = match self.hugepages {
            Hugepages::None => Memory::Normal { bytes: self.memory },
            _ => Memory::Huge { bytes: self.memory, page },
        };
        let poll = match self.poll_mode {
            Poll::Auto => PollMode::Auto,
            Poll::Busy => PollMode::Busy,
            Poll::Adaptive => PollMode::Adaptive,
        };
        let clock_error = self.clock_error.unwrap_or_default();
        if self.clock_error.is_some() {
            tracing::warn!(?clock_error, "the clocks of this engine are wrong, as --clock-error asks: for tests only");
        }
        Ok(Config { ports, worker_cpus, worker_groups, control_cpus, memory, poll, clock_error })
    }

    /// CPUs of control and of workers.
    fn choose_cpus(&self, ports: &[PortConfig], groups: &[WorkerGroup]) -> anyhow::Result<(Vec<usize>, Vec<usize>)> {
        let workers = worker_groups::count(self.workers, groups)?;
        let roots = Roots::default();
        let mut list = self.cpu_list()?;
        if self.threads_per_core == 1 {
            list = cpus::first_of_each_core(&list, &cpus::allowed()?, |cpu| machine::siblings(&roots, cpu))
                .context("--threads-per-core 1")?;
        }
        if groups.is_empty() {
            return cpus::share_out(&list, &[cpus::Group { workers, node: None }], |_| None);
        }
        let wanted: Vec<_> = groups.iter().map(|group| worker_groups::cpus(&roots, group, ports)).collect();
        cpus::share_out(&list, &wanted, |cpu| cpus::known(machine::node_of_cpu(&roots, cpu)))
    }

    fn cpu_list(&self) -> anyhow::Result<Vec<usize>> {
        let allowed = cpus::allowed()?;
        if self.cpus == "auto" {
            return Ok(allowed);
        }
        let wanted = cpus::parse(&self.cpus).with_context(|| format!("--cpus {}: must be such as 2-5,8", self.cpus))?;
        match wanted.iter().find(|cpu| !allowed.contains(cpu)) {
            Some(cpu) => bail!("--cpus {}: this process may not use CPU {cpu}, only {allowed:?}", self.cpus),
            None => Ok(wanted),
        }
    }
}

fn clock_error(text: &str) -> Result<ClockError, String> {
    let read = || {
        let (offset, rest) = text.split_once(',')?;
        let (ppm, since) = rest.split_once(',')?;
        let error = ClockError {
            offset_ns: offset.parse().ok()?,
            ppm: ppm.parse().ok().filter(|ppm: &f64| ppm.abs() <= 1000.0)?,
            since_ns: since.parse().ok()?,
        };
        (error.offset_ns.abs() <= MAX_CLOCK_ERROR_NS).then_some(error)
    };
    read().ok_or_else(|| {
        "must be OFFSET,PPM,SINCE: nanoseconds up to an hour, at most 1000 either way, nanoseconds of CLOCK_MONOTONIC".into()
    })
}

fn memory_size(text: &str) -> Result<u64, String> {
    let usage = "must be whole MiB or GiB, such as 128M or 1G";
    let (number, shift) = match text.strip_suffix('G') {
        Some(number) => (number, 30),
        None => (text.strip_suffix('M').ok_or(usage)?, 20),
    };
    let number: u64 = number.parse().map_err(|_| usage)?;
    number
        .checked_shl(shift)
        .filter(|&bytes| bytes >> shift == number && bytes >= 16 << 20)
        .ok_or_else(|| format!("{usage}, at least 16M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_clock_errors_are_read_or_refused() {
        assert_eq!(memory_size("128M"), Ok(128 << 20));
        assert_eq!(memory_size("1G"), Ok(1 << 30));
        let error = ClockError { offset_ns: -2_000_000_000, ppm: -50.0, since_ns: 7 };
        assert_eq!(clock_error("-2000000000,-50,7"), Ok(error));
        for wrong in ["", "1", "1,2", "x,1,1", "1,nan,1", "1,1e9,1", "4000000000000,1,1", "1,1,-1"] {
            assert!(clock_error(wrong).is_err(), "{wrong}");
        }
        for wrong in ["128", "M", "1M", "-1G", "99999999999G", "1.5G"] {
            assert!(memory_size(wrong).is_err(), "{wrong}");
        }
    }
}
