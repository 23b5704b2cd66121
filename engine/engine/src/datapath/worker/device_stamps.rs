// SPDX-License-Identifier: Apache-2.0
//! When packets arrived of a port whose device stamps them: by its time stamps, and where these fail by the worker's reading.
use std::sync::Arc;

use super::{Device, device::Packets as _};
use crate::datapath::device_clock::{DeviceClock, Line};

/// The time stamps of one queue.
pub(super) struct DeviceStamps {
    clock: Arc<DeviceClock>,
    /// The line that was read last.
    line: Line,
    /// When the last packet arrived.
    last_ns: u64,
}

impl DeviceStamps {
    pub(super) fn new(clock: Arc<DeviceClock>) -> Self {
        Self { line: clock.line().unwrap_or_default(), clock, last_ns: 0 }
    }

    /// Writes to `arrived_ns` when the packets of a burst arrived that was read at a monotonic instant; as many. Returns how many of them the
    /// device did not stamp, or with what cannot be: these arrived when they were read.
    pub(super) fn arrivals<D: Device>(
        &mut self,
        burst: &D::Burst,
        queue: &D::Rx,
        read_ns: u64,
        arrived_ns: &mut [u64],
    ) -> u64 {
        if let Some(line) = self.clock.line() {
            self.line = line;
        }
        let bound_ns = self.line.bound_ns(read_ns);
        let mut unstamped = 0;
        for (index, arrived_ns) in arrived_ns.iter_mut().enumerate() {
            let stamp = burst.stamp(index, queue);
            let by_device = stamp.and_then(|stamp| self.line.arrival(stamp, read_ns, bound_ns));
            unstamped += u64::from(by_device.is_none());
            // A queue is in the order of arrival: what is against it is the error of two lines.
            self.last_ns = self.last_ns.max(by_device.unwrap_or(read_ns));
            *arrived_ns = self.last_ns;
        }
        unstamped
    }
}
