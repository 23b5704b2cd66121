// SPDX-License-Identifier: Apache-2.0
//! What an idle engine's data path costs in memory, beside its hugepages. A process of its own: DPDK comes up once.
use std::fs;

use spate_engine::datapath::{
    ClockError, Config, Datapath, Memory, PollMode, PortConfig, PortDevice, StampedBy, UseOffloads,
};

const HUGEPAGES: u64 = 128 << 20;
const PAGE: u64 = 2 << 20;
const NR_HUGEPAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const FREE_HUGEPAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// Reserves what is missing of the hugepages and gives it back.
struct Reserved {
    before: u64,
}

impl Reserved {
    /// Without them nothing is measured, as ordinary pages are resident too.
    fn new(pages: u64) -> Self {
        let this = Self { before: number(NR_HUGEPAGES) };
        let missing = pages.saturating_sub(number(FREE_HUGEPAGES));
        if missing > 0 {
            fs::write(NR_HUGEPAGES, (this.before + missing).to_string()).expect("only root takes hugepages");
        }
        let free = number(FREE_HUGEPAGES);
        assert!(
            free >= pages,
            "{free} hugepages of 2 MiB can be had, {pages} are needed: free memory, or end what holds it"
        );
        this
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let _ = fs::write(NR_HUGEPAGES, self.before.to_string());
    }
}

fn number(path: &str) -> u64 {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}: no kernel with hugepages of 2 MiB"));
    text.trim().parse().unwrap()
}

/// Resident memory in bytes; hugepages are not part of it.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn an_idle_engine_takes_less_than_150_mib_beside_its_hugepages() {
    let _reserved = Reserved::new(HUGEPAGES / PAGE);
    let port = |name: &str, device| PortConfig {
        name: name.into(),
        device,
        line_rate_bps: None,
        offloads: UseOffloads::Auto,
        mac: None,
        any_mac: false,
        stamped_by: StampedBy::Cpu,
    };
    let datapath = Datapath::open(Config {
        ports: vec![port("loop", PortDevice::Loopback), port("null", PortDevice::Null)],
        worker_cpus: vec![0],
        worker_groups: Vec::new(),
        control_cpus: vec![0],
        memory: Memory::Huge { bytes: HUGEPAGES, page: None },
        poll: PollMode::Auto,
        clock_error: ClockError::default(),
    })
    .unwrap();
    let resident = resident();
    println!("{} MiB resident", resident >> 20);
    assert!(resident < 150 << 20, "{} MiB are resident", resident >> 20);
    drop(datapath);
}
