// SPDX-License-Identifier: Apache-2.0
//! What the data path is opened with, and why it could not be.
use spate_dpdk::{Memif, Memory, StampedBy, UseOffloads};

use super::clock::ClockError;
use crate::index::PortIndex;

/// Device of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortDevice {
    /// A PCI function such as an SR-IOV VF, by address.
    Pci(String),
    /// A kernel interface, by name (af_packet).
    Kernel(String),
    /// A kernel interface, by name (AF_XDP).
    Xdp(String),
    /// A kernel interface of this name that is made for it: its other end is this process.
    Tap(String),
    /// Loopback: what is sent on it is received on it.
    Loopback,
    /// Takes every packet and receives nothing.
    Null,
    /// A discard port by DPDK's own driver, net_null: for benchmarks, beside programs that send on it.
    NetNull,
    /// A loopback on which this process receives, by `Datapath::outlet`: to look at packets as they leave.
    Outlet,
    /// PCI functions and kernel interfaces that are one link by LACP.
    Bond(Vec<PortDevice>),
    /// Shared memory with another process.
    Memif(Memif),
}

impl PortDevice {
    /// Address of a PCI function as sysfs and DPDK have it, with the domain, which lspci omits where it is 0. None of other devices.
    pub fn pci_address(&self) -> Option<String> {
        let Self::Pci(address) = self else { return None };
        let full = if address.matches(':').count() == 1 { format!("0000:{address}") } else { address.clone() };
        Some(full.to_lowercase())
    }

    /// The devices that it is made of: itself, unless it is a bond.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Bond(members) => members,
            _ => std::slice::from_ref(self),
        }
    }

    /// Whether the EtherType of the outermost tag of received frames is lost: packet sockets have the tag apart, and DPDK's driver for
    /// them (af_packet) puts it back as 802.1Q.
    pub fn normalizes_outer_ethertype(&self) -> bool {
        self.parts().iter().any(|part| matches!(part, Self::Kernel(_)))
    }

    /// Whether others than this engine may send to it.
    pub fn leads_outside(&self) -> bool {
        !matches!(self, Self::Loopback | Self::Null | Self::NetNull | Self::Outlet)
    }

    /// Whether its packets pass through the kernel.
    pub fn is_kernel_backed(&self) -> bool {
        self.parts().iter().any(|part| matches!(part, Self::Kernel(_) | Self::Xdp(_) | Self::Tap(_)))
    }
}

/// A port to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Its name in plans.
    pub name: String,
    /// What it is made of.
    pub device: PortDevice,
    /// Overrides what the device says; needed for percentages where it says nothing.
    pub line_rate_bps: Option<u64>,
    /// What its device does of the work on packets.
    pub offloads: UseOffloads,
    /// Its MAC address, in place of its device's.
    pub mac: Option<[u8; 6]>,
    /// Frames on it are for its flows and its station whatever their destination MAC.
    pub any_mac: bool,
    /// What stamps the packets that it receives, where they are measured.
    pub stamped_by: StampedBy,
}

/// What a worker does when nothing is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollMode {
    /// Adaptive where a port is kernel-backed or control and a worker share a CPU, else busy.
    Auto,
    /// Polls without a pause.
    Busy,
    /// Sleeps until something is due or received.
    Adaptive,
}

/// Ports that workers of their own serve: these have no queue of another port, and no other workers have one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerGroup {
    /// The ports, by index in `Config::ports`; at least one.
    pub ports: Vec<PortIndex>,
    /// How many workers; at least one. In `Config::worker_cpus` they follow those of the group before.
    pub workers: usize,
}

/// Configuration of the data path.
#[derive(Clone, Debug)]
pub struct Config {
    /// The ports; at least one.
    pub ports: Vec<PortConfig>,
    /// CPUs of workers, which are pinned to them; 1 to 255 CPUs.
    pub worker_cpus: Vec<usize>,
    /// Which workers serve which ports: every port and every worker is in one group. Empty: all workers serve all ports.
    pub worker_groups: Vec<WorkerGroup>,
    /// Where all else runs.
    pub control_cpus: Vec<usize>,
    /// Packet memory.
    pub memory: Memory,
    /// Idle behaviour of workers.
    pub poll: PollMode,
    /// Error of this engine's clock, for tests of clocks.
    pub clock_error: ClockError,
}

/// Why the data path could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration contradicts itself; `field` is a path in `Config`.
    #[error("{field}: {problem}")]
    Config {
        /// Path of the field.
        field: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// DPDK or the system refused, at start or for a port; the message names the remedy.
    #[error("{context}: {message}")]
    System {
        /// The operation that failed, such as "port east".
        context: String,
        /// The problem and the remedy.
        message: String,
    },
}
