// SPDX-License-Identifier: Apache-2.0
//! Time stamps that a device gives the packets it receives: where they are in an mbuf, and how the counter is read that they are values of.
use spate_dpdk_sys as sys;

use crate::{Error, log::Mark};

/// What stamps the packets that a port receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StampedBy {
    /// The worker that reads them, by its clock.
    #[default]
    Cpu,
    /// The device, by its counter.
    Device,
}

/// Where an mbuf has its time stamp, and the flag of mbufs that have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StampField {
    pub(crate) offset: u32,
    pub(crate) flag: u64,
}

impl StampField {
    /// Registers the field and the flag of time stamps for all ports of the process.
    pub(crate) fn register() -> Result<Self, Error> {
        let mark = Mark::now();
        let (mut offset, mut flag) = (0, 0);
        // SAFETY: the pointers are valid for the call.
        let code = unsafe { sys::spate_stamp_field(&raw mut offset, &raw mut flag) };
        match u32::try_from(offset) {
            Ok(offset) if code == 0 => Ok(Self { offset, flag }),
            _ => Err(Error::from_code("making room for time stamps in packets", code, mark)),
        }
    }
}

/// The counter of a port; none if it has none that can be read.
pub(crate) fn read(port: u16) -> Option<u64> {
    let mut ticks = 0;
    // SAFETY: the port is probed; the pointer is valid for the call.
    (unsafe { sys::rte_eth_read_clock(port, &raw mut ticks) } == 0).then_some(ticks)
}
