// SPDX-License-Identifier: Apache-2.0
//! Started ports: link, counters, and settings that change while they run.
use std::sync::Arc;

use spate_dpdk_sys as sys;

use super::{
    Port, Started,
    counter::DeviceCounter,
    groups::GroupFilter,
    refusal::Refusal,
    stats::{Link, PortStats, link_of, stats_of},
};
use crate::{BondMember, CopyMode, Device, Disturbance, KernelSocket, Spread, loopback::Loopback, removal};

impl Port<Started> {
    /// Its filter of groups, if it is a NIC: other ports receive all.
    pub fn group_filter(&self) -> Option<GroupFilter> {
        matches!(self.inner.device, Device::Pci(_)).then(|| GroupFilter { inner: Arc::clone(&self.inner) })
    }

    /// The counter by which its device stamps packets; none if it stamps none.
    pub fn counter(&self) -> Option<DeviceCounter> {
        self.inner.stamps.map(|_| DeviceCounter { inner: Arc::clone(&self.inner) })
    }

    /// State of its link.
    pub fn link(&self) -> Link {
        if let Some(kernel) = &self.inner.kernel {
            return Link { up: kernel.link_up(), line_rate_bps: kernel.line_rate_bps() };
        }
        if let Some(bond) = &self.inner.bond {
            let states = bond.state(self.inner.id);
            let up = states.iter().any(BondMember::is_in_use);
            return Link { up, line_rate_bps: bond.line_rate_bps(&states) };
        }
        let found = link_of(self.inner.id);
        match self.inner.device {
            // Software: its drivers claim 10 Gbit/s, which says nothing.
            Device::Loopback | Device::Null | Device::NetNull => Link { up: true, line_rate_bps: None },
            Device::Memif(_) => Link { up: found.is_some_and(|(up, _)| up), line_rate_bps: None },
            _ => found.map_or(Link { up: false, line_rate_bps: None }, |(up, speed)| Link {
                up,
                line_rate_bps: (speed > 0).then(|| u64::from(speed) * 1_000_000),
            }),
        }
    }

    /// Whether the kernel requests the device back, and waits until the process ends: its driver is unbound, or its virtual functions are
    /// removed. Until then the device works.
    pub fn removal_requested(&self) -> bool {
        self.inner.device.pci_addresses().into_iter().any(removal::requested)
    }

    /// What its device refused at the start.
    pub fn refused(&self) -> &[Refusal] {
        self.inner.refused.get().map_or(&[], Vec::as_slice)
    }

    /// Whether the packets of an AF_XDP socket are copied; none of other devices.
    pub fn copy_mode(&self) -> Option<CopyMode> {
        self.inner.kernel.as_ref().and_then(KernelSocket::copy_mode)
    }

    /// The members of a bond; none of other devices.
    pub fn bond_members(&self) -> Vec<BondMember> {
        self.inner.bond.as_ref().map_or_else(Vec::new, |bond| bond.state(self.inner.id))
    }

    /// Whether packets come to the receive queues that [`spate_net::spread`] computes, as its device was found set up at the
    /// start. The error says what differs.
    pub fn steering(&self) -> Result<(), &str> {
        self.inner.steering.get().map_or(Ok(()), |found| found.as_ref().copied().map_err(String::as_str))
    }

    /// From now on, what is sent on a loopback arrives as `disturbance` says: for tests of what measures. False for other
    /// devices, and if it was set before.
    pub fn disturb(&self, disturbance: Box<Disturbance>) -> bool {
        self.inner.loopback.as_ref().is_some_and(|loopback| loopback.disturb(disturbance))
    }

    /// From now on, packets of a loopback go to the receive queues that `spread` says: for tests of devices that hash otherwise.
    /// False for other devices, and if it was set before.
    pub fn spread(&self, spread: Box<Spread>) -> bool {
        self.inner.loopback.as_ref().is_some_and(|loopback| loopback.spread(spread))
    }

    /// From now on, what is sent on a queue of a loopback is received on that of the same number, whatever its packets are, as on a device
    /// that each worker has for itself: to measure what receiving costs. False for other devices.
    pub fn pair_queues(&self) -> bool {
        self.inner.loopback.as_ref().map(Loopback::pair_queues).is_some()
    }

    /// What was lost since it was opened.
    pub fn stats(&self) -> PortStats {
        if let Some(bond) = &self.inner.bond {
            return bond.stats();
        }
        let mut stats = stats_of(self.inner.id, self.inner.kernel.as_ref());
        // What the ring could not take is counted as an error by its driver, and is tried again by the worker. A shared memory
        // interface's driver counts what its ring had no room for, which is tried again, too.
        if matches!(self.inner.device, Device::Loopback | Device::Memif(_)) {
            stats.tx_dropped = 0;
        }
        stats
    }

    /// The device's own counters by name (ethdev's extended statistics), as its driver names them. Empty if it cannot be read.
    pub fn xstats(&self) -> Vec<(String, u64)> {
        // Drivers have up to several hundred.
        let mut room = 256;
        loop {
            let mut raw = vec![sys::spate_xstat { name: [0; 64], value: 0 }; room];
            // SAFETY: the port is started, and the shim writes at most `room` entries.
            let count = unsafe { sys::spate_port_xstats(self.inner.id, raw.as_mut_ptr(), room as u32) };
            let Ok(count) = usize::try_from(count) else { return Vec::new() };
            if count > room {
                room = count;
                continue;
            }
            let named = raw.iter().take(count).map(|xstat| {
                let name: Vec<u8> = xstat.name.iter().map(|c| c.cast_unsigned()).take_while(|c| *c != 0).collect();
                (String::from_utf8_lossy(&name).into_owned(), xstat.value)
            });
            return named.filter(|(name, _)| !name.is_empty()).collect();
        }
    }
}
