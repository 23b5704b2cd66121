// SPDX-License-Identifier: Apache-2.0
//! What a port has for all that send on it.
use super::{Device, egress::Egress, taps::Taps};

/// What a port has for all that send on it.
pub(super) struct Outlet<D: Device> {
    /// Index of the port.
    pub(super) port: usize,
    /// The queue of its device: the only way out.
    pub(super) egress: Egress<D>,
    /// Packets for frames of usual length.
    pub(super) pool: D::Pool,
    /// They see what is built, before it is offered to the device.
    pub(super) taps: Taps,
    /// What the device does of the work on packets.
    pub(super) offloads: spate_dpdk::Offloads,
}
