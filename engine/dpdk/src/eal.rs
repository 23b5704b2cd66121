// SPDX-License-Identifier: Apache-2.0
//! DPDK's environment: once in a process, on a thread of its own because it pins the one that starts it.
use std::{
    collections::BTreeMap,
    ffi::{CString, c_char},
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
};

use spate_dpdk_sys as sys;

use crate::{
    Device, Error,
    error::last_errno,
    log,
    log::Mark,
    numa::{SYSTEM, cpus_of_node, node_of_cpu},
};

/// Where packet memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Hugepages.
    Huge {
        /// Size in bytes.
        bytes: u64,
        /// Size of the pages in bytes; any if none.
        page: Option<u64>,
    },
    /// Ordinary pages: about half as fast, and not for NICs.
    Normal {
        /// Size in bytes.
        bytes: u64,
    },
}

/// Proof that the environment is up.
#[derive(Clone, Copy, Debug)]
pub struct Eal(());

#[derive(PartialEq)]
struct Settings {
    memory: Memory,
    pci: Vec<String>,
}

/// The settings it came up with. It is never taken down: its memory has no name and ends with the process, and DPDK cannot
/// come up twice.
static INITIALIZED: Mutex<Option<Settings>> = Mutex::new(None);

impl Eal {
    /// Brings DPDK up with only the PCI functions among `devices`; its own threads run on `cpus`, and its memory is of the NUMA
    /// nodes of the first of each of `groups`, the CPUs of workers, by their number. Later calls with the same memory and PCI
    /// functions find it up.
    pub fn init(memory: Memory, devices: &[Device], cpus: &[usize], groups: &[&[usize]]) -> Result<Self, Error> {
        let mut pci: Vec<String> = devices.iter().flat_map(Device::pci_addresses).map(str::to_owned).collect();
        pci.sort();
        let settings = Settings { memory, pci };
        let mut up = INITIALIZED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*up {
            Some(present) if *present == settings => return Ok(Self(())),
            Some(_) => return Err(Error::OtherSettings),
            None => {}
        }
        if let Memory::Huge { bytes, page } = memory {
            check_hugepages(bytes, page)?;
        }
        log::route();
        let system = Path::new(SYSTEM);
        let main = main_lcore(system, cpus, groups.first().copied().unwrap_or_default());
        let shares = shares(system, main, groups);
        let arguments = arguments(&settings, cpus, main, &shares)?;
        tracing::debug!(?arguments, "bringing DPDK up");
        thread::Builder::new()
            .name("eal".into())
            .spawn(move || init_here(arguments))
            .map_err(|e| Error::Failed { what: "starting a thread".into(), reason: e.to_string(), log: vec![] })?
            .join()
            .expect("bringing DPDK up does not panic")
            .map_err(|failure| explain(failure, memory))?;
        *up = Some(settings);
        Ok(Self(()))
    }

    /// The NUMA node of a CPU, if it is known.
    pub fn node_of(cpu: usize) -> Option<usize> {
        known_node(Path::new(SYSTEM), cpu)
    }

    /// DPDK's version, such as "DPDK 22.11.11".
    pub fn version() -> String {
        // SAFETY: returns a constant string.
        unsafe { std::ffi::CStr::from_ptr(sys::rte_version()) }.to_string_lossy().into_owned()
    }
}

/// Number of lcore ids that DPDK has (RTE_MAX_LCORE).
const MAX_LCORE: usize = sys::RTE_MAX_LCORE as usize;

/// Where DPDK has its main lcore and takes memory from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MainLcore {
    /// Id of the main lcore. DPDK takes it for the number of a CPU and allocates memory from the NUMA node of that CPU, whatever CPUs the
    /// lcore runs on.
    lcore: usize,
    /// The NUMA node.
    node: usize,
}

/// Is on the NUMA node of the first worker: the id is one of `cpus` if one is of that node. With another id, memory would be of another node
/// than the workers, or, where the kubelet has restricted the container to one node (cpuset.mems), not be had. `system` is
/// /sys/devices/system.
fn main_lcore(system: &Path, cpus: &[usize], workers: &[usize]) -> MainLcore {
    let found = workers.first().and_then(|&worker| {
        let node = known_node(system, worker)?;
        let of_node = cpus_of_node(system, node).ok()?;
        let own = cpus.iter().chain(workers).filter(|cpu| of_node.contains(cpu));
        let mut ids = own.chain(&of_node).copied();
        Some(MainLcore { lcore: ids.find(|&cpu| cpu < MAX_LCORE)?, node })
    });
    found.unwrap_or(MainLcore { lcore: 0, node: 0 })
}

fn known_node(system: &Path, cpu: usize) -> Option<usize> {
    node_of_cpu(system, cpu).ok().flatten()
}

/// NUMA nodes that memory is taken from, and how many workers each is for. Groups whose node is not known count for that of the
/// main lcore.
fn shares(system: &Path, main: MainLcore, groups: &[&[usize]]) -> BTreeMap<usize, usize> {
    let mut shares = BTreeMap::new();
    for group in groups {
        let node = group.first().and_then(|&cpu| known_node(system, cpu)).unwrap_or(main.node);
        *shares.entry(node).or_default() += group.len();
    }
    if shares.is_empty() {
        shares.insert(main.node, 1);
    }
    shares
}

/// How many MiB are taken from each NUMA node up to the last that has a share: whole pages, at least one where there is a share.
fn by_node(bytes: u64, page: Option<u64>, shares: &BTreeMap<usize, usize>) -> Result<Vec<u64>, Error> {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let mut all = vec![0; shares.last_key_value().map_or(0, |(node, _)| node + 1)];
    if let [(node, _)] = *shares.iter().collect::<Vec<_>>() {
        all[*node] = mib(bytes);
        return Ok(all);
    }
    let page = page.unwrap_or(2 << 20);
    let (pages, nodes) = (bytes.div_ceil(page), shares.len() as u64);
    if pages < nodes {
        return Err(Error::TooFewPages { pages, page_mib: mib(page), nodes });
    }
    // One each, and the others by workers.
    let (mut left, mut weights) = (pages - nodes, shares.values().sum::<usize>() as u64);
    for (&node, &workers) in shares {
        let more = left * workers as u64 / weights.max(1);
        (left, weights) = (left - more, weights - workers as u64);
        all[node] = mib((1 + more) * page);
    }
    Ok(all)
}

fn arguments(
    settings: &Settings,
    cpus: &[usize],
    main: MainLcore,
    shares: &BTreeMap<usize, usize>,
) -> Result<Vec<String>, Error> {
    let list = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let mut arguments = vec![
        "spate-engine".to_owned(),
        // The main lcore floats over the control CPUs; workers register themselves.
        format!("--lcores={}@({list})", main.lcore),
        "--no-telemetry".into(),
        "--log-level=*:notice".into(),
    ];
    match settings.memory {
        Memory::Huge { bytes, page } => {
            // By NUMA node: with `-m`, threads that are no lcores would try each node from 0 on, and libnuma would complain of each that
            // the container must not use.
            let by_node = by_node(bytes, page, shares)?.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
            arguments.extend(["--in-memory".into(), format!("--socket-mem={by_node}")]);
        }
        // `--no-huge` implies memory without a name; DPDK refuses `--in-memory` beside it.
        Memory::Normal { bytes } => {
            arguments.extend([
                "--no-huge".into(),
                "--no-shconf".into(),
                "--iova-mode=va".into(),
                "-m".into(),
                bytes.div_ceil(1 << 20).to_string(),
            ]);
        }
    }
    if settings.pci.is_empty() {
        arguments.push("--no-pci".into());
    }
    for address in &settings.pci {
        arguments.extend(["-a".into(), address.clone()]);
    }
    Ok(arguments)
}

fn init_here(arguments: Vec<String>) -> Result<(), Error> {
    let mark = Mark::now();
    let arguments: Vec<CString> = arguments.into_iter().map(|a| CString::new(a).expect("no NUL in it")).collect();
    // DPDK permutes the array and keeps pointers to the strings: both stay for good.
    let strings: &'static [CString] = arguments.leak();
    let pointers: &'static mut [*mut c_char] = strings.iter().map(|a| a.as_ptr().cast_mut()).collect::<Vec<_>>().leak();
    // SAFETY: argc and argv as a C program has them; called once (UP is locked and empty).
    if unsafe { sys::rte_eal_init(pointers.len() as i32, pointers.as_mut_ptr()) } < 0 {
        return Err(Error::from_code("bringing DPDK up", last_errno(), mark));
    }
    Ok(())
}

/// Says more than "initialisation failed" where the cause is known.
fn explain(failure: Error, memory: Memory) -> Error {
    let Error::Failed { reason, log, .. } = &failure else { return failure };
    let text = log.join("; ") + reason;
    match memory {
        Memory::Huge { .. } if text.contains("mempolicy") => Error::NoPermission {
            what: "placing hugepages on a NUMA node",
            remedy: "give the container the capability SYS_NICE: the default seccomp profile lets mempolicy calls only with it",
        },
        Memory::Huge { bytes, .. } if text.to_lowercase().contains("memory") || text.contains("hugepage") => {
            // Free on the machine, yet not to be had: a container's limit.
            Error::MissingHugepages { wanted_mib: bytes >> 20, free_mib: 0 }
        }
        _ if text.contains("Permission denied") => Error::NoPermission {
            what: "bringing DPDK up",
            remedy: "run as root, or give the container IPC_LOCK and its devices",
        },
        _ => failure,
    }
}

/// Compares what is asked for with what is free, so that the error can say both.
fn check_hugepages(bytes: u64, page: Option<u64>) -> Result<(), Error> {
    let mut known = false;
    let mut free = 0;
    for entry in fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let size = name.to_str().and_then(|n| n.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok());
        let Some(size) = size.map(|kib| kib << 10) else { continue };
        if page.is_some_and(|page| page != size) {
            continue;
        }
        known = true;
        let count = fs::read_to_string(entry.path().join("free_hugepages"));
        free += size * count.ok().and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    match page {
        Some(page) if !known => Err(Error::UnknownPageSize(page)),
        _ if free < bytes => Err(Error::MissingHugepages { wanted_mib: bytes >> 20, free_mib: free >> 20 }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the folder /sys/devices/system of a machine with these CPUs by NUMA node.
    fn machine(name: &str, nodes: &[&[usize]]) -> std::path::PathBuf {
        let system = std::env::temp_dir().join(format!("spate-numa-{name}-{}", std::process::id()));
        for (node, cpus) in nodes.iter().enumerate() {
            for cpu in *cpus {
                for link in [format!("node/node{node}/cpu{cpu}"), format!("cpu/cpu{cpu}/node{node}")] {
                    fs::create_dir_all(system.join(link)).unwrap();
                }
            }
        }
        system
    }

    #[test]
    fn the_main_lcore_and_the_memory_are_of_the_numa_node_of_the_first_worker() {
        let system = machine("two", &[&[0, 1, 2], &[3, 4, 5]]);
        for (cpus, workers, lcore, node) in [
            (&[3][..], &[4, 5][..], 3, 1),
            (&[0], &[1], 0, 0),
            // Control is of the other node.
            (&[0], &[4], 4, 1),
            (&[3, 1], &[2], 1, 0),
            // Not of this machine.
            (&[9], &[9], 0, 0),
            (&[0], &[], 0, 0),
        ] {
            assert_eq!(main_lcore(&system, cpus, workers), MainLcore { lcore, node }, "{cpus:?} {workers:?}");
        }
        let settings = Settings { memory: Memory::Huge { bytes: 128 << 20, page: None }, pci: vec![] };
        let of_node = main_lcore(&system, &[3], &[4]);
        let said = |groups| arguments(&settings, &[3], of_node, &shares(&system, of_node, groups)).unwrap();
        let of_two_nodes = said(&[&[4, 5], &[1], &[0]]);
        assert!(of_two_nodes.contains(&"--socket-mem=64,64".to_owned()), "{of_two_nodes:?}");
        assert_eq!(said(&[]), said(&[&[4]]));
        let said = said(&[&[4]]);
        assert!(
            said.contains(&"--lcores=3@(3)".to_owned()) && said.contains(&"--socket-mem=0,128".to_owned()),
            "{said:?}"
        );
        fs::remove_dir_all(system).unwrap();
        let large = machine("large", &[&[0], &[100, 200, 201]]);
        assert_eq!(main_lcore(&large, &[200], &[201]), MainLcore { lcore: 100, node: 1 }, "DPDK has no lcore 200");
        fs::remove_dir_all(large).unwrap();
        let nowhere = Path::new("/nonexistent");
        assert_eq!(main_lcore(nowhere, &[3], &[3]), MainLcore { lcore: 0, node: 0 });
        assert_eq!(shares(nowhere, MainLcore { lcore: 0, node: 0 }, &[&[3], &[4, 5]]), BTreeMap::from([(0, 3)]));
    }

    #[test]
    fn memory_is_shared_out_over_the_nodes_of_groups_by_their_workers() {
        let (mib, gib) = (1 << 20, 1 << 30);
        let of = |bytes, page, shares: &[(usize, usize)]| by_node(bytes, page, &shares.iter().copied().collect());
        for (bytes, page, shares, by_node) in [
            (128 * mib, None, &[(1, 7)][..], &[0, 128][..]),
            // To the MiB, as on a machine with one node.
            (127 * mib, Some(2 * mib), &[(0, 2)], &[127]),
            (128 * mib, Some(2 * mib), &[(0, 1), (1, 3)], &[32, 96]),
            (128 * mib, Some(2 * mib), &[(0, 2), (2, 1)], &[84, 0, 44]),
            (256 * mib, Some(2 * mib), &[(0, 1), (1, 1), (3, 2)], &[64, 64, 0, 128]),
            // Each node has a page.
            (3 * gib, Some(gib), &[(0, 1), (1, 1)], &[1024, 2048]),
            (4 * mib, Some(2 * mib), &[(0, 60), (1, 1)], &[2, 2]),
        ] {
            assert_eq!(of(bytes, page, shares).unwrap(), by_node, "{bytes} {shares:?}");
        }
        let refused = of(gib, Some(gib), &[(0, 1), (1, 1)]).unwrap_err().to_string();
        assert_eq!(
            refused,
            "packet memory is one page of 1024 MiB, and the workers of the groups are on 2 NUMA nodes, which need a page each: give the \
             engine more, or smaller pages (--memory, --hugepages; packetMemory of the generator)"
        );
    }
}
