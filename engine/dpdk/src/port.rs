// SPDX-License-Identifier: Apache-2.0
//! Ports and their queues: probed, then started, then used by workers, closed when the last of them is gone.
mod counter;
mod groups;
mod info;
mod inner;
mod offloads;
mod open;
mod probe;
mod queues;
mod refusal;
mod start;
mod started;
mod stats;

use std::{marker::PhantomData, sync::Arc};

use spate_dpdk_sys as sys;

pub use counter::DeviceCounter;
pub use groups::GroupFilter;
use inner::Inner;
pub use offloads::{Offloads, Segmentation, UseOffloads};
#[cfg(test)]
pub(crate) use probe::probe;
pub(crate) use probe::{call, fresh_name, open_kernel, open_pci, set_mac};
pub use queues::{RxQueue, TxQueue};
pub use refusal::Refusal;
pub use start::QueueSizes;
pub use stats::{Link, PortStats};
pub(crate) use stats::{link_of, stats_of};

/// State of a [`Port`]: probed, without queues.
#[derive(Debug)]
pub struct Configured;
/// State of a [`Port`]: its queues are in use.
#[derive(Debug)]
pub struct Started;

/// A port in state `S`. Dropping it closes the device once its queues are dropped too.
#[derive(Debug)]
pub struct Port<S> {
    inner: Arc<Inner>,
    state: PhantomData<S>,
}

/// A started port with its receive and transmit queues.
pub type StartedPort = (Port<Started>, Vec<RxQueue>, Vec<TxQueue>);

impl<S> Port<S> {
    /// DPDK's driver.
    pub fn driver(&self) -> &str {
        &self.inner.info.driver
    }

    /// Its own address.
    pub fn mac(&self) -> [u8; 6] {
        self.inner.info.mac
    }

    /// Longest frame without FCS and VLAN tags.
    pub fn max_frame_len(&self) -> usize {
        self.inner.info.max_frame_len
    }

    /// What its device does of the work on packets.
    pub fn offloads(&self) -> Offloads {
        self.inner.offloads
    }

    /// Whether its device could stamp the packets that it receives, by a counter that can be read.
    pub fn offers_stamps(&self) -> bool {
        self.inner.info.offers(sys::SPATE_CAN_RX_TIMESTAMP) && self.inner.info.has_clock
    }

    /// Receive queues that its device can share packets out to, and transmit queues that it has.
    pub fn max_queues(&self) -> (usize, usize) {
        self.inner.info.max_queues
    }
}
