// SPDX-License-Identifier: Apache-2.0
//! What machine does the engine run on? Facts of its CPUs, memory, clock and devices, as sysfs and procfs have them.
//!
//! Nothing is judged here: the operator does that, by the generator's spec. A fact that cannot be read is the path and the error, never
//! a guess. Sources: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu, sysfs-bus-pci, sysfs-kernel-iommu_groups; proc(5).
mod tree;

use crate::datapath::PortDevice;
use spate_dpdk::numa;
use std::path::PathBuf;
use tree::Tree;

/// A fact, or why it is unknown: the path and the error.
pub type Fact<T> = Result<T, String>;

/// Where the kernel's file systems are.
#[derive(Clone, Debug)]
pub struct Roots {
    /// sysfs.
    pub sys: PathBuf,
    /// procfs.
    pub proc: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into() }
    }
}

/// What an engine uses of its machine.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// CPUs of workers, by worker.
    pub worker_cpus: Vec<usize>,
    /// CPUs of all other threads.
    pub control_cpus: Vec<usize>,
    /// CPUs that the process may use, before its threads were pinned.
    pub allowed_cpus: Vec<usize>,
    /// Ports by name, and what they are made of.
    pub ports: Vec<(String, PortDevice)>,
}

/// The machine when the engine started.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What the engine uses of the machine.
    pub used: Used,
    /// CPUs of workers, by worker.
    pub workers: Vec<Cpu>,
    /// CPUs that the scheduler leaves alone (isolcpus).
    pub isolated_cpus: Fact<Vec<usize>>,
    /// CPUs without a periodic tick (nohz_full).
    pub nohz_full_cpus: Fact<Vec<usize>>,
    /// NUMA nodes that are online.
    pub numa_nodes: Fact<Vec<usize>>,
    /// NUMA nodes that huge pages of this process are on. Only packet memory has such.
    pub packet_memory_nodes: Fact<Vec<usize>>,
    /// The kernel's clock source.
    pub clock_source: Fact<String>,
    /// Bytes that may be locked in memory (RLIMIT_MEMLOCK); `u64::MAX` without a limit.
    pub memlock_bytes: Fact<u64>,
    /// Whether that limit does not apply (CAP_IPC_LOCK is effective).
    pub ipc_lock: Fact<bool>,
    /// PCI functions of ports.
    pub devices: Vec<Device>,
}

/// A worker's CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub cpu: usize,
    /// Its NUMA node.
    pub node: Fact<usize>,
    /// Other threads of its core.
    pub siblings: Fact<Vec<usize>>,
    /// Its frequency governor; none if the kernel does not scale its frequency.
    pub governor: Fact<Option<String>>,
}

/// A PCI function that a port is made of, or that is behind its kernel interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The port's name.
    pub port: String,
    /// Its address, with the domain.
    pub address: String,
    /// Its NUMA node; none where the kernel knows none.
    pub node: Fact<Option<usize>>,
    /// The kernel's driver; none if it has none.
    pub driver: Fact<Option<String>>,
    /// Type of the domain of its IOMMU group; none if no IOMMU is between the device and memory.
    pub iommu: Fact<Option<String>>,
    /// Its link to the slot.
    pub link: Fact<Link>,
}

/// The PCI Express link of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Address of the function that reports it: virtual functions have that of their physical function.
    pub function: String,
    /// As it is.
    pub current: Lanes,
    /// As the device can do.
    pub max: Lanes,
}

/// What a link can carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lanes {
    /// Gigatransfers a second of each lane.
    pub gtps: f64,
    /// Lanes.
    pub width: u32,
}

/// Reads the facts. The calling thread is one of the engine's process: /proc/self is its.
pub fn read(roots: &Roots, used: Used) -> Facts {
    let (sys, proc) = (Tree(roots.sys.clone()), Tree(roots.proc.clone()));
    let parts = used.ports.iter().flat_map(|(port, device)| device.parts().iter().map(move |part| (port, part)));
    let devices = parts.filter_map(|(port, part)| {
        let address = address(&sys, part)?;
        Some(read_device(&sys, port, address))
    });
    Facts {
        workers: used.worker_cpus.iter().map(|&cpu| read_cpu(&sys, cpu)).collect(),
        isolated_cpus: sys.list("devices/system/cpu/isolated"),
        nohz_full_cpus: nohz_full(&sys),
        numa_nodes: sys.list("devices/system/node/online"),
        packet_memory_nodes: proc.text("self/numa_maps").map(|maps| nodes_of_huge_pages(&maps)),
        clock_source: sys.text("devices/system/clocksource/clocksource0/current_clocksource"),
        memlock_bytes: memlock(&proc),
        ipc_lock: ipc_lock(&proc),
        devices: devices.collect(),
        used,
    }
}

/// The other hardware threads of a CPU's core.
pub fn siblings(roots: &Roots, cpu: usize) -> Fact<Vec<usize>> {
    siblings_of(&Tree(roots.sys.clone()), cpu)
}

fn siblings_of(sys: &Tree, cpu: usize) -> Fact<Vec<usize>> {
    let all = sys.list(&format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))?;
    Ok(all.into_iter().filter(|&other| other != cpu).collect())
}

/// The NUMA node of a CPU.
pub fn node_of_cpu(roots: &Roots, cpu: usize) -> Fact<usize> {
    cpu_node(&Tree(roots.sys.clone()), cpu)
}

fn cpu_node(sys: &Tree, cpu: usize) -> Fact<usize> {
    let folder = format!("devices/system/cpu/cpu{cpu}");
    let node = numa::node_of_cpu(&sys.0.join("devices/system"), cpu).map_err(|error| sys.failed(&folder, &error))?;
    node.ok_or_else(|| sys.unknown(&format!("{folder}/node*"), "there is no such link"))
}

/// The NUMA nodes of the PCI functions that a port is made of, or that are behind its kernel interfaces; none where the kernel knows none.
pub fn nodes_of_port(roots: &Roots, device: &PortDevice) -> Vec<Fact<Option<usize>>> {
    let sys = Tree(roots.sys.clone());
    let parts = device.parts().iter().filter_map(|part| address(&sys, part));
    parts.map(|address| device_node(&sys, &format!("bus/pci/devices/{address}"))).collect()
}

fn read_cpu(sys: &Tree, cpu: usize) -> Cpu {
    let folder = format!("devices/system/cpu/cpu{cpu}");
    Cpu {
        cpu,
        node: cpu_node(sys, cpu),
        siblings: siblings_of(sys, cpu),
        governor: sys.optional_text(&format!("{folder}/cpufreq/scaling_governor"), &folder),
    }
}

/// Kernels without support for it have no such file, and some write "(null)" where none were chosen.
fn nohz_full(sys: &Tree) -> Fact<Vec<usize>> {
    let path = "devices/system/cpu/nohz_full";
    match sys.optional_text(path, "devices/system/cpu")?.as_deref() {
        None | Some("(null)") => Ok(Vec::new()),
        Some(list) => tree::parse_list(list).ok_or_else(|| sys.unknown(path, &format!("{list:?} is no list"))),
    }
}

/// Nodes of mappings with `huge` (proc_pid_numa_maps(5)), such as "7f2a00000000 default file=/memfd:seg huge dirty=64 N1=64".
fn nodes_of_huge_pages(maps: &str) -> Vec<usize> {
    let mut nodes = Vec::new();
    for line in maps.lines().filter(|line| line.split(' ').any(|word| word == "huge")) {
        nodes.extend(line.split(' ').filter_map(|word| {
            let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
            (pages.parse::<u64>().ok()? > 0).then_some(node.parse::<usize>().ok()?)
        }));
    }
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// The soft limit (proc_pid_limits(5)).
fn memlock(proc: &Tree) -> Fact<u64> {
    let path = "self/limits";
    let limits = proc.text(path)?;
    let words = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    match words.and_then(|words| words.split_whitespace().next()) {
        Some("unlimited") => Ok(u64::MAX),
        Some(number) => number.parse().map_err(|_| proc.unknown(path, &format!("{number:?} is no number of bytes"))),
        None => Err(proc.unknown(path, "no line of locked memory")),
    }
}

/// Bit of CAP_IPC_LOCK (linux/capability.h).
const IPC_LOCK: u32 = 14;

fn ipc_lock(proc: &Tree) -> Fact<bool> {
    let path = "self/status";
    let status = proc.text(path)?;
    let effective = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    effective.map(|all| all >> IPC_LOCK & 1 == 1).ok_or_else(|| proc.unknown(path, "no line of effective capabilities"))
}

/// Address of the PCI function of a port, if it has one.
fn address(sys: &Tree, device: &PortDevice) -> Option<String> {
    match device {
        PortDevice::Pci(_) => device.pci_address(),
        // The device of a virtual interface is none, or on another bus.
        PortDevice::Kernel(interface) | PortDevice::Xdp(interface) => {
            let name = sys.target(&format!("class/net/{interface}/device")).ok()??;
            sys.exists(&format!("bus/pci/devices/{name}")).then_some(name)
        }
        // A bond is read by its parts.
        PortDevice::Tap(_)
        | PortDevice::Loopback
        | PortDevice::Null
        | PortDevice::NetNull
        | PortDevice::Outlet
        | PortDevice::Bond(_)
        | PortDevice::Memif(_) => None,
    }
}

fn device_node(sys: &Tree, folder: &str) -> Fact<Option<usize>> {
    let path = format!("{folder}/numa_node");
    let text = sys.text(&path)?;
    match text.parse::<i64>() {
        Ok(node) => Ok(usize::try_from(node).ok()), // -1: none is known
        Err(_) => Err(sys.unknown(&path, &format!("{text:?} is no node"))),
    }
}

fn read_device(sys: &Tree, port: &str, address: String) -> Device {
    let folder = format!("bus/pci/devices/{address}");
    Device {
        port: port.to_owned(),
        node: device_node(sys, &folder),
        driver: sys.target(&format!("{folder}/driver")),
        iommu: iommu(sys, &folder),
        link: link(sys, &folder, &address),
        address,
    }
}

/// The name of a group in which vfio puts a device for which there is no IOMMU (unsafe no-IOMMU mode).
const NO_IOMMU: &str = "vfio-noiommu";

fn iommu(sys: &Tree, folder: &str) -> Fact<Option<String>> {
    let Some(group) = sys.target(&format!("{folder}/iommu_group"))? else { return Ok(None) };
    let group = format!("kernel/iommu_groups/{group}");
    match sys.optional_text(&format!("{group}/name"), &group)?.as_deref() {
        Some(NO_IOMMU) => Ok(None),
        _ => sys.text(&format!("{group}/type")).map(Some),
    }
}

/// A virtual function has no link of its own.
fn link(sys: &Tree, folder: &str, address: &str) -> Fact<Link> {
    let physical = sys.target(&format!("{folder}/physfn"))?;
    let folder = physical.as_ref().map_or(folder.to_owned(), |_| format!("{folder}/physfn"));
    let lanes = |which: &str| {
        let path = format!("{folder}/{which}_link_speed");
        let speed = sys.text(&path)?; // "16.0 GT/s PCIe", "8 GT/s", "Unknown"
        let gtps = speed.split_once(" GT/s").and_then(|(number, _)| number.parse().ok());
        let gtps = gtps.ok_or_else(|| sys.unknown(&path, &format!("{speed:?} is no speed")))?;
        let path = format!("{folder}/{which}_link_width");
        let width = sys.text(&path)?;
        match width.parse() {
            Ok(width) if width > 0 => Ok(Lanes { gtps, width }),
            _ => Err(sys.unknown(&path, &format!("{width:?} is no number of lanes"))),
        }
    };
    Ok(Link {
        current: lanes("current")?,
        max: lanes("max")?,
        function: physical.unwrap_or_else(|| address.to_owned()),
    })
}

#[cfg(test)]
mod tests;
