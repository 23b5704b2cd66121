// SPDX-License-Identifier: Apache-2.0
//! A device in use: closed when its port and its queues are dropped.
use std::{fs::File, sync::OnceLock};

use spate_dpdk_sys as sys;

use super::{info::Info, offloads::Offloads, probe::set_mac, refusal::Refusal};
use crate::{
    Device, Error, KernelSocket, Mempool, bond::Bond, device::describe, interface, loopback::Loopback, quarantine,
    stamp::StampField,
};

#[derive(Debug)]
pub(crate) struct Inner {
    pub(super) id: u16,
    pub(super) device: Device,
    pub(super) info: Info,
    pub(super) rx_queues: u16,
    pub(super) tx_queues: u16,
    pub(super) offloads: Offloads,
    /// Where received packets have the time stamps of the device; none: it gives them none.
    pub(super) stamps: Option<StampField>,
    pub(super) kernel: Option<KernelSocket>,
    pub(super) bond: Option<Bond>,
    /// Keeps others from the socket of a shared memory interface.
    pub(super) _reserved: Option<File>,
    /// Freed after the port on it.
    pub(super) loopback: Option<Loopback>,
    /// The device's own address, where the port was given another.
    pub(super) device_mac: Option<[u8; 6]>,
    /// Where received packets go; kept until the device is closed.
    pub(super) rx_pool: OnceLock<Mempool>,
    /// Once it is started: what its device refused.
    pub(super) refused: OnceLock<Vec<Refusal>>,
    /// Once it is started: why packets do not come to the queues that are computed, if they do not.
    pub(super) steering: OnceLock<Result<(), String>>,
}

impl Inner {
    /// Whether its device can be given an address, and receives for it. The address of a tap is that of the kernel's interface at its other end.
    pub(super) fn has_mac(&self) -> bool {
        matches!(self.device, Device::Pci(_) | Device::Kernel(_) | Device::Xdp(_) | Device::Bond(_))
    }

    /// Gives its device an address.
    pub(super) fn set_mac(&self, mac: [u8; 6]) -> Result<(), Error> {
        match &self.device {
            // The driver sets none.
            Device::Xdp(interface) => interface::set_mac(interface, mac).map_err(|error| Error::Failed {
                what: "setting its MAC address".into(),
                reason: error.to_string(),
                log: vec![],
            }),
            // SAFETY: the port is probed.
            _ => unsafe { set_mac(self.id, mac) },
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(mac) = self.device_mac.filter(|_| self.has_mac()) {
            // As it was found. Where it was not changed, this changes nothing.
            let _ = self.set_mac(mac);
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.detach();
        }
        // SAFETY: no queue is left that could use the port.
        let code = unsafe { sys::spate_port_close(self.id) };
        if code != 0 {
            tracing::warn!(code, device = describe(&self.device), "the port was not closed cleanly");
        }
        self.kernel.iter().for_each(KernelSocket::release);
        self.bond.iter().for_each(Bond::close);
        // It has given its packets back.
        quarantine::sweep();
    }
}
