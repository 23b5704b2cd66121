// SPDX-License-Identifier: Apache-2.0
//! What the sources of a port share.
use super::{Device, egress::Egress, taps::Taps};
use crate::index::PortIndex;

/// What the sources of a port share.
pub(super) struct Outlet<D: Device> {
    pub(super) port: PortIndex,
    /// The queue of its device: the only way out.
    pub(super) egress: Egress<D>,
    /// Packets for frames of usual length.
    pub(super) pool: D::Pool,
    /// Taps, which see packets before the device is offered them.
    pub(super) taps: Taps,
    /// Offloads of the device that are in use.
    pub(super) offloads: spate_dpdk::Offloads,
}
