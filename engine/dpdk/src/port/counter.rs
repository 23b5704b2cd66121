// SPDX-License-Identifier: Apache-2.0
//! The counter of a device that stamps packets.
use std::sync::Arc;

use super::inner::Inner;
use crate::stamp;

/// The counter of a device that stamps packets with its value.
#[derive(Debug)]
pub struct DeviceCounter {
    pub(super) inner: Arc<Inner>,
}

impl DeviceCounter {
    /// The counter's value now, of which nothing is known but that it counts; none if the device does not answer.
    pub fn read(&self) -> Option<u64> {
        stamp::read(self.inner.id)
    }
}
