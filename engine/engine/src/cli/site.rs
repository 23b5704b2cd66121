// SPDX-License-Identifier: Apache-2.0
//! The options that say what an engine is made of: ports, CPUs, memory.
use super::links::Links;
use super::ports::{self, Asked, LineRate};
use crate::datapath::{ClockError, Config, Datapath, Memory, PollMode, PortConfig};
use crate::machine::{self, Fact, Roots, Used};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::path::PathBuf;

/// An hour.
const MOST_CLOCK_ERROR_NS: i64 = 3_600_000_000_000;

#[derive(Clone, Debug, Args)]
pub struct Site {
    /// A port: NAME=pci:ADDRESS, NAME=kernel:INTERFACE, NAME=xdp:INTERFACE (AF_XDP), NAME=loopback, NAME=null, NAME=attached:INTERFACE (a PCI device by
    /// the variable PCIDEVICE_... of the resource in ",resource=NAME" or by --network-status; without a resource, else the kernel interface),
    /// NAME=claimed (a device of a resource claim, by --claimed-devices), NAME=tap:INTERFACE (which is made),
    /// NAME=bond,member=DEVICE,member=DEVICE (one link by LACP; a member is pci:ADDRESS, kernel:INTERFACE, attached:INTERFACE or attached:INTERFACE;resource=NAME), or
    /// NAME=memif:SOCKET (shared memory with a process that may read and write all of this one's; ",role=client" connects to the socket, else it is made; ",id=NUMBER"). Behind it may follow
    /// ",offloads=none": the device does nothing of the work on packets (auto: what it offers and is faster; all: checksums of
    /// all that is sent, too). May be repeated.
    #[arg(long = "port", value_name = "NAME=DEVICE", required = true)]
    ports: Vec<Asked>,
    /// Line rate of a port whose device does not tell it, such as east=10G. May be repeated.
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
    /// Threads that send and receive, each on a CPU of its own as far as there are.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=255))]
    workers: u16,
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

    /// Opens it.
    pub fn open(&self) -> anyhow::Result<Datapath> {
        Ok(self.open_with_use()?.0)
    }

    /// Opens it, and returns what it uses of the machine, too.
    pub fn open_with_use(&self) -> anyhow::Result<(Datapath, Used)> {
        let links = self.links.by_port(self.ports.iter().map(|port| port.name.as_str()))?;
        let config = self.config()?;
        let used = Used {
            worker_cpus: config.worker_cpus.clone(),
            control_cpus: config.control_cpus.clone(),
            allowed_cpus: allowed_cpus()?, // before this thread is pinned
            ports: config.ports.iter().map(|port| (port.name.clone(), port.device.clone())).collect(),
        };
        keep_to(&config.control_cpus)?;
        let mut datapath = Datapath::open(config)?;
        datapath.join(links)?;
        Ok((datapath, used))
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
            });
        }
        let mut cpus = self.cpu_list()?;
        if self.threads_per_core == 1 {
            let roots = Roots::default();
            cpus = first_of_each_core(&cpus, &allowed_cpus()?, |cpu| machine::siblings(&roots, cpu))
                .context("--threads-per-core 1")?;
        }
        let (control_cpus, worker_cpus) = share_out(&cpus, self.workers.into())?;
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
        Ok(Config { ports, worker_cpus, control_cpus, memory, poll, clock_error })
    }

    fn cpu_list(&self) -> anyhow::Result<Vec<usize>> {
        let allowed = allowed_cpus()?;
        if self.cpus == "auto" {
            return Ok(allowed);
        }
        let wanted = parse_cpus(&self.cpus).with_context(|| format!("--cpus {}: must be such as 2-5,8", self.cpus))?;
        match wanted.iter().find(|cpu| !allowed.contains(cpu)) {
            Some(cpu) => bail!("--cpus {}: this process may not use CPU {cpu}, only {allowed:?}", self.cpus),
            None => Ok(wanted),
        }
    }
}

/// CPUs that this thread may use.
fn allowed_cpus() -> anyhow::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("the CPUs of this process cannot be queried")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect())
}

/// One CPU of each core. The other threads of these cores must be allowed, too, so that nothing else runs there.
fn first_of_each_core(
    cpus: &[usize],
    allowed: &[usize],
    siblings: impl Fn(usize) -> Fact<Vec<usize>>,
) -> anyhow::Result<Vec<usize>> {
    let mut first = Vec::new();
    for &cpu in cpus {
        let others = siblings(cpu).map_err(anyhow::Error::msg)?;
        if let Some(other) = others.iter().find(|other| !allowed.contains(other)) {
            bail!(
                "CPUs {cpu} and {other} are threads of one core, and this process may not use CPU {other}: have the kubelet give whole cores to pods \
                 (cpuManagerPolicyOptions: full-pcpus-only)"
            );
        }
        if !others.iter().any(|other| first.contains(other)) {
            first.push(cpu);
        }
    }
    Ok(first)
}

/// This thread and all that it starts run on these CPUs; workers pin themselves to theirs.
fn keep_to(cpus: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set).with_context(|| format!("control cannot be kept to CPUs {cpus:?}"))
}

/// The first CPU for control and one for each worker; with too few, control shares the last worker's.
fn share_out(cpus: &[usize], workers: usize) -> anyhow::Result<(Vec<usize>, Vec<usize>)> {
    if cpus.len() > workers {
        return Ok((vec![cpus[0]], cpus[1..=workers].to_vec()));
    }
    if cpus.len() < workers {
        bail!(
            "--workers {workers}: there are only {} CPUs to use ({cpus:?}); every worker needs one of its own",
            cpus.len()
        );
    }
    Ok((vec![cpus[workers - 1]], cpus.to_vec()))
}

fn parse_cpus(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CpuSet::MAX_CPU {
            return None;
        }
        cpus.extend((first..=last).filter(|cpu| !cpus.contains(cpu)).collect::<Vec<_>>());
    }
    Some(cpus)
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
        (error.offset_ns.abs() <= MOST_CLOCK_ERROR_NS).then_some(error)
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
    fn control_shares_a_cpu_only_when_there_are_too_few() {
        assert_eq!(share_out(&[4, 5, 6], 2).unwrap(), (vec![4], vec![5, 6]));
        assert_eq!(share_out(&[4, 5], 2).unwrap(), (vec![5], vec![4, 5]));
        assert_eq!(share_out(&[4, 5, 6], 1).unwrap(), (vec![4], vec![5]));
        assert!(share_out(&[4], 2).is_err());
    }

    #[test]
    fn a_core_has_one_user_if_all_its_threads_are_allowed() {
        let siblings = |cpu: usize| Ok(if cpu < 4 { vec![cpu + 4] } else { vec![cpu - 4] });
        let of = |cpus: &[usize]| first_of_each_core(cpus, cpus, siblings);
        assert_eq!(of(&[1, 2, 5, 6]).unwrap(), [1, 2]);
        assert_eq!(of(&[5, 1]).unwrap(), [5]);
        let refused = of(&[1, 2, 5]).unwrap_err().to_string();
        assert!(
            refused.starts_with("CPUs 2 and 6 are threads of one core, and this process may not use CPU 6"),
            "{refused}"
        );
        assert_eq!(first_of_each_core(&[3, 4], &[3, 4], |_| Ok(vec![])).unwrap(), [3, 4]);
        let unknown = first_of_each_core(&[3], &[3], |_| Err("/sys: there is no such file".into()));
        assert_eq!(unknown.unwrap_err().to_string(), "/sys: there is no such file");
    }

    #[test]
    fn lists_and_sizes_are_read_or_refused() {
        assert_eq!(parse_cpus("2-4,8"), Some(vec![2, 3, 4, 8]));
        assert_eq!([parse_cpus("4-2"), parse_cpus("x"), parse_cpus(""), parse_cpus("99999")], [None, None, None, None]);
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
