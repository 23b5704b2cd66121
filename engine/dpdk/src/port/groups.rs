// SPDX-License-Identifier: Apache-2.0
//! The filter of multicast groups of a NIC.
use std::sync::Arc;

use spate_dpdk_sys as sys;

use super::{inner::Inner, probe::call};
use crate::{Error, device::describe};

/// Sets which groups' frames a device receives.
#[derive(Debug)]
pub struct GroupFilter {
    pub(super) inner: Arc<Inner>,
}

impl GroupFilter {
    /// Groups that every device has room for.
    pub const MAX: usize = sys::SPATE_MAX_GROUPS as usize;

    /// Frames to these MACs are received too, instead of those before. Devices that receive all anyway may refuse.
    pub fn set(&self, groups: &[[u8; 6]]) -> Result<(), Error> {
        let macs = groups.as_flattened();
        // SAFETY: the port is started, and `macs` has 6 bytes a group.
        unsafe {
            call(&format!("setting the groups of {}", describe(&self.inner.device)), || {
                sys::spate_port_hear_groups(self.inner.id, macs.as_ptr(), groups.len() as u32)
            })
        }
    }
}
