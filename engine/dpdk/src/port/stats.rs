// SPDX-License-Identifier: Apache-2.0
//! The link of a device, and what it lost.
use spate_dpdk_sys as sys;

use crate::KernelSocket;

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Packets can pass.
    pub up: bool,
    /// Bits a second, if known.
    pub line_rate_bps: Option<u64>,
}

/// What a device, its driver and the kernel behind it lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Arrived and could not be read.
    pub rx_missed: u64,
    /// Arrived broken.
    pub rx_errors: u64,
    /// Taken from the worker and not sent.
    pub tx_dropped: u64,
}

/// Whether a started port has a link, and its speed in Mbit/s, 0 if unknown; none if its driver does not report it.
pub(crate) fn link_of(id: u16) -> Option<(bool, u32)> {
    let (mut up, mut speed) = (false, 0);
    // SAFETY: the port is started; the pointers are valid for the call.
    let code = unsafe { sys::spate_port_link(id, &raw mut up, &raw mut speed) };
    (code == 0).then_some((up, speed))
}

/// What a started port lost, and the kernel behind it.
pub(crate) fn stats_of(id: u16, kernel: Option<&KernelSocket>) -> PortStats {
    let mut raw = sys::spate_port_stats { rx_missed: 0, rx_errors: 0, rx_no_buffer: 0, tx_packets: 0, tx_errors: 0 };
    // SAFETY: the port is started; the pointer is valid for the call. On an error it stays zero.
    unsafe { sys::spate_port_stats(id, &raw mut raw) };
    let mut stats =
        PortStats { rx_missed: raw.rx_missed + raw.rx_no_buffer, rx_errors: raw.rx_errors, tx_dropped: raw.tx_errors };
    if let Some(kernel) = kernel {
        (stats.rx_missed, stats.tx_dropped) = kernel.losses(&raw);
    }
    stats
}
