// SPDX-License-Identifier: Apache-2.0
//! Errors of DPDK, each with a remedy.
use std::ffi::CStr;

use spate_dpdk_sys as sys;

/// Why DPDK or the system behind it refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not enough free hugepages.
    #[error(
        "{wanted_mib} MiB of hugepages are wanted and {free_mib} MiB are free: reserve more (sysctl vm.nr_hugepages, \
         or hugepages-2Mi/hugepages-1Gi in the pod's limits), request less memory, or do without (--hugepages none, \
         packetMemory.backing: Standard)"
    )]
    MissingHugepages {
        /// Requested MiB.
        wanted_mib: u64,
        /// Free MiB.
        free_mib: u64,
    },
    /// No hugepages of the requested size.
    #[error(
        "there are no hugepages of {0} bytes on this machine: choose another size or leave it open (--hugepages auto)"
    )]
    UnknownPageSize(u64),
    /// Fewer pages than NUMA nodes that memory is to be of.
    #[error(
        "packet memory is {} of {page_mib} MiB, and the workers of the groups are on {nodes} NUMA nodes, which need a page each: give the \
         engine more, or smaller pages (--memory, --hugepages; packetMemory of the generator)",
        counted(.pages)
    )]
    TooFewPages {
        /// Pages that were asked for.
        pages: u64,
        /// Size of each.
        page_mib: u64,
        /// NUMA nodes.
        nodes: u64,
    },
    /// The process lacks a privilege.
    #[error("no permission for {what}: {remedy}")]
    NoPermission {
        /// The call that failed.
        what: &'static str,
        /// Remedy.
        remedy: &'static str,
    },
    /// No PCI function at that address.
    #[error("no PCI device {0} here: is the virtual function in this pod or container (lspci -D lists what is)?")]
    UnknownDevice(String),
    /// A PCI function that DPDK cannot drive as it is bound.
    #[error(
        "PCI device {address} is bound to {driver}: bind it to vfio-pci (dpdk-devbind.py -b vfio-pci {address}); \
         devices of mlx5_core stay bound to it"
    )]
    WrongDriver {
        /// Its address.
        address: String,
        /// The kernel driver that holds it, or "no driver".
        driver: String,
    },
    /// No such kernel interface.
    #[error("no interface {0} in this network namespace (ip link lists them)")]
    InterfaceNotFound(String),
    /// No name of an interface.
    #[error("{0:?} is no name of an interface that can be made: 1 to 15 letters, digits, '-', '_' or '.'")]
    InterfaceName(String),
    /// Fewer queues than workers.
    #[error("{device} has {have} transmit queues and {wanted} workers are to send on it: give the port fewer workers")]
    TooFewQueues {
        /// The device.
        device: String,
        /// Workers.
        wanted: usize,
        /// Queues.
        have: usize,
    },
    /// A device of which time stamps are wanted that it does not give.
    #[error(
        "{device}: its driver {driver} {lacks}: use a NIC whose driver has both time stamps and their clock (of DPDK 22.11 that is mlx5), or \
         leave the time stamps to the CPU (receiveTimestamps: CPU of the port, timestamps=cpu on the command line)"
    )]
    NoTimestamps {
        /// The device.
        device: String,
        /// DPDK's driver.
        driver: String,
        /// The missing feature.
        lacks: &'static str,
    },
    /// Packet memory is used up.
    #[error("not enough packet memory for {what} ({wanted_kib} KiB): give the engine more (--memory)")]
    NoMemory {
        /// Purpose of the memory.
        what: String,
        /// Requested KiB.
        wanted_kib: u64,
    },
    /// DPDK's environment is up already, with other settings; it cannot be changed in a process.
    #[error("DPDK runs in this process with other settings already")]
    OtherSettings,
    /// Anything else.
    #[error("{what} failed: {reason}{}", log_lines(.log))]
    Failed {
        /// The call that failed.
        what: String,
        /// The system's word for it.
        reason: String,
        /// Lines that DPDK logged during the call.
        log: Vec<String>,
    },
}

fn counted(pages: &u64) -> String {
    if *pages == 1 { "one page".into() } else { format!("{pages} pages") }
}

fn log_lines(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!(" (DPDK: {})", log.join("; ")) }
}

impl Error {
    /// A call's negative return value as an error, with what DPDK has logged since `log` was marked.
    pub(crate) fn from_code(what: impl Into<String>, code: i32, log: crate::log::Mark) -> Self {
        // SAFETY: rte_strerror takes any number and returns a string that stays until this thread's next call.
        let reason = unsafe { CStr::from_ptr(sys::rte_strerror(code.abs())) }.to_string_lossy().into_owned();
        Self::Failed { what: what.into(), reason, log: log.lines() }
    }
}

/// DPDK's error number of this thread's last call.
pub(crate) fn last_errno() -> i32 {
    // SAFETY: reads a thread-local integer.
    unsafe { sys::spate_errno() }
}
