// SPDX-License-Identifier: Apache-2.0
//! What an idle engine's data path costs in memory, beside its hugepages. A process of its own: DPDK comes up once.
use std::fs;

use spate_engine::datapath::{Config, Datapath, Memory, PollMode, PortConfig, PortDevice, UseOffloads};

const HUGEPAGES: u64 = 128 << 20;
const PAGE: u64 = 2 << 20;
const NR_HUGEPAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const FREE_HUGEPAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// Reserves what is missing of the hugepages and gives it back.
struct Reserved {
    before: u64,
}

impl Reserved {
    /// None where hugepages cannot be had.
    fn new(pages: u64) -> Option<Self> {
        let before = number(NR_HUGEPAGES)?;
        let this = Self { before };
        let missing = pages.saturating_sub(number(FREE_HUGEPAGES)?);
        if missing > 0 {
            fs::write(NR_HUGEPAGES, (before + missing).to_string()).ok()?;
        }
        (number(FREE_HUGEPAGES)? >= pages).then_some(this)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let _ = fs::write(NR_HUGEPAGES, self.before.to_string());
    }
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Resident memory in bytes; hugepages are not part of it.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn an_idle_engine_takes_less_than_150_mib_beside_its_hugepages() {
    let reserved = Reserved::new(HUGEPAGES / PAGE);
    let (memory, beside) = match reserved {
        Some(_) => (Memory::Huge { bytes: HUGEPAGES, page: None }, 0),
        // Ordinary pages are resident as far as they are used: at most all of them.
        None => (Memory::Normal { bytes: HUGEPAGES }, HUGEPAGES),
    };
    let port =
        |name: &str, device| PortConfig { name: name.into(), device, line_rate_bps: None, offloads: UseOffloads::Auto };
    let datapath = Datapath::open(Config {
        ports: vec![port("loop", PortDevice::Loopback), port("null", PortDevice::Null)],
        worker_cpus: vec![0],
        control_cpus: vec![0],
        memory,
        poll: PollMode::Auto,
        port_workers: None,
    })
    .unwrap();
    let resident = resident();
    println!("{memory:?}: {} MiB resident", resident >> 20);
    assert!(resident < (150 << 20) + beside, "{} MiB are resident", resident >> 20);
    drop(datapath);
}
