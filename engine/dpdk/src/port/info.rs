// SPDX-License-Identifier: Apache-2.0
//! What a driver says of a device, and what is used of it.
use std::ffi::CStr;

use spate_dpdk_sys as sys;

use super::{
    offloads::{Offloads, Segmentation},
    probe::call,
};
use crate::{Device, Error, device::describe, interface, stamp};

/// Longest frame on devices that have no MTU of their own: 9234 with FCS.
const JUMBO_FRAME: usize = 9230;

/// Longest frame that is given to a device to be cut into segments: what one descriptor of any NIC holds (those of Intel's 10G
/// and 40G families have 14 bits for a buffer's length).
const MAX_TSO_FRAME: usize = 16_383;

#[derive(Debug)]
pub(super) struct Info {
    pub(super) driver: String,
    pub(super) mac: [u8; 6],
    pub(super) max_frame_len: usize,
    /// Receive queues that packets can be shared out to, and transmit queues.
    pub(super) max_queues: (usize, usize),
    pub(super) rx_limits: Limits,
    pub(super) tx_limits: Limits,
    /// Offloads that the driver offers, bits of `SPATE_CAN_*`.
    pub(super) offers: u32,
    /// The counter of its time stamps can be read.
    pub(super) has_clock: bool,
}

#[derive(Debug)]
pub(super) struct Limits {
    min: u16,
    max: u16,
    align: u16,
}

impl Info {
    /// The facts of a port. It can receive on several queues only if it shares packets out by their headers.
    pub(super) fn read(id: u16, device: &Device) -> Result<Self, Error> {
        let mut raw = std::mem::MaybeUninit::<sys::spate_port_info>::zeroed();
        // SAFETY: the pointer is valid for the call.
        unsafe {
            call(&format!("reading the properties of {}", describe(device)), || {
                sys::spate_port_info(id, raw.as_mut_ptr())
            })?
        };
        // SAFETY: zeroed, then filled in; it is all integers.
        let raw = unsafe { raw.assume_init() };
        // SAFETY: the shim ends the string.
        let driver = unsafe { CStr::from_ptr(raw.driver.as_ptr()) }.to_string_lossy().into_owned();
        let max_frame_len = match device {
            // Nothing longer than a jumbo frame is sent.
            Device::Kernel(interface) | Device::Xdp(interface) => {
                interface::mtu(interface).map_or(0, |mtu| (mtu + 14).min(JUMBO_FRAME))
            }
            Device::Pci(_) | Device::Tap(_) | Device::Bond(_) | Device::Memif(_) => usize::from(raw.mtu) + 14,
            Device::Loopback | Device::Null | Device::NetNull => JUMBO_FRAME,
        };
        let mut mac = raw.mac;
        if matches!(device, Device::Tap(_)) {
            // The driver reports the MAC of the kernel's interface, and this port is the peer of that interface.
            mac[5] ^= 1;
        }
        let max_rx = match device {
            Device::Pci(_) if raw.rss_key_len > 0 => raw.max_rx_queues,
            _ => 1,
        };
        Ok(Self {
            driver,
            mac,
            max_frame_len,
            max_queues: (usize::from(max_rx), usize::from(raw.max_tx_queues)),
            rx_limits: Limits { min: raw.rx_desc_min, max: raw.rx_desc_max, align: raw.rx_desc_align },
            tx_limits: Limits { min: raw.tx_desc_min, max: raw.tx_desc_max, align: raw.tx_desc_align },
            offers: raw.offloads,
            // Of a device without time stamps it would not be the clock of any.
            has_clock: raw.offloads & sys::SPATE_CAN_RX_TIMESTAMP != 0 && stamp::read(id).is_some(),
        })
    }
}

impl Info {
    /// Whether it offers one of `SPATE_CAN_*`.
    pub(super) fn offers(&self, what: u32) -> bool {
        self.offers & what != 0
    }

    /// What is used of what it offers. Nothing is cut where checksums are not completed.
    pub(super) fn offloads(&self, device: &Device) -> Offloads {
        if !matches!(device, Device::Pci(_) | Device::Tap(_)) {
            return Offloads::default();
        }
        let tap = self.driver == "net_tap";
        // It compares a segment with its Ethernet header, and a tag, to the MTU, and omits what is of IPv6 (DPDK 22.11).
        let longest_segment = if tap { self.max_frame_len.saturating_sub(14 + 4) } else { self.max_frame_len };
        let segmentation = Segmentation { longest_frame: MAX_TSO_FRAME, longest_segment, v6: !tap };
        let tx_checksum = self.offers(sys::SPATE_CAN_TX_CHECKSUM);
        Offloads {
            // To ask a virtual host for marks is to allow it packets without checksums, which are not verified.
            rx_checksum: self.offers(sys::SPATE_CAN_RX_CHECKSUM) && !self.driver.starts_with("net_virtio"),
            tx_checksum,
            segmentation: (tx_checksum && self.offers(sys::SPATE_CAN_TSO)).then_some(segmentation),
        }
    }
}

impl Limits {
    pub(super) fn fit(&self, wanted: u16) -> u16 {
        let max = if self.max == 0 { u16::MAX } else { self.max };
        let align = self.align.max(1);
        (wanted.clamp(self.min.min(max), max) / align).max(1) * align
    }
}
