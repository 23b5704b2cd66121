// SPDX-License-Identifier: Apache-2.0
//! What a port's device does of the work on packets.
use spate_dpdk_sys as sys;

/// Whether a port's device does what it can of the work on packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UseOffloads {
    /// What it offers and is faster than without.
    #[default]
    Auto,
    /// The device completes the checksums of all that is sent, too.
    All,
    /// Nothing.
    None,
}

/// What a port's device does of the work on packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// The device marks received packets that have a correct TCP checksum.
    pub rx_checksum: bool,
    /// Completes checksums of IPv4, TCP and UDP in all packets that are made for it.
    pub tx_checksum: bool,
    /// Cuts TCP into segments, and completes their checksums.
    pub segmentation: Option<Segmentation>,
}

/// How a device cuts frames into segments. Lengths are without FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Longest frame that it takes.
    pub longest_frame: usize,
    /// Longest frame that it makes.
    pub longest_segment: usize,
    /// Whether the device segments IPv6, too.
    pub v6: bool,
}

impl Offloads {
    /// Names of what is used, as people read them.
    pub fn names(&self) -> Vec<&'static str> {
        let all = [
            (self.tx_checksum, "tx-checksum"),
            (self.segmentation.is_some(), "tcp-segmentation"),
            (self.rx_checksum, "rx-checksum"),
        ];
        all.into_iter().filter_map(|(used, name)| used.then_some(name)).collect()
    }

    /// As the shim has them.
    pub(super) fn bits(&self) -> u32 {
        let bit = |so: bool, bit: u32| if so { bit } else { 0 };
        bit(self.rx_checksum, sys::SPATE_CAN_RX_CHECKSUM)
            | bit(self.tx_checksum || self.segmentation.is_some(), sys::SPATE_CAN_TX_CHECKSUM)
            | bit(self.segmentation.is_some(), sys::SPATE_CAN_TSO)
    }
}
