// SPDX-License-Identifier: Apache-2.0
//! Which NUMA node is a CPU of, and which CPUs are of a node? Source: Linux, Documentation/ABI/stable/sysfs-devices-node and
//! Documentation/ABI/testing/sysfs-devices-system-cpu.
use std::{fs, io, path::Path};

/// Where the kernel describes CPUs and NUMA nodes.
pub const SYSTEM: &str = "/sys/devices/system";

/// The NUMA node of a CPU; none if the kernel names none for it. `system` is [`SYSTEM`]. Fails if the kernel does not describe the CPU there.
pub fn node_of_cpu(system: &Path, cpu: usize) -> io::Result<Option<usize>> {
    Ok(numbered(&system.join(format!("cpu/cpu{cpu}")), "node")?.first().copied())
}

/// The CPUs of a NUMA node in ascending order. Fails if the kernel does not describe the node there.
pub(crate) fn cpus_of_node(system: &Path, node: usize) -> io::Result<Vec<usize>> {
    numbered(&system.join(format!("node/node{node}")), "cpu")
}

/// Numbers of the entries of a folder that are a prefix and a number, in ascending order.
fn numbered(folder: &Path, prefix: &str) -> io::Result<Vec<usize>> {
    let names = fs::read_dir(folder)?.flatten().map(|entry| entry.file_name());
    let mut numbers: Vec<usize> = names.filter_map(|name| name.to_str()?.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
