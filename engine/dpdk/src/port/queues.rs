// SPDX-License-Identifier: Apache-2.0
//! Queues of a port, each used by one thread at a time.
use std::{
    cell::Cell,
    marker::PhantomData,
    sync::Arc,
    time::{Duration, Instant},
};

use spate_dpdk_sys as sys;

use super::{inner::Inner, offloads::Offloads, stats::link_of};
use crate::{Device, KernelSocket, bond::Waiting, loopback::Loopback, stamp::StampField};

/// How often it tries the same socket again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// A receive queue of a port.
pub struct RxQueue {
    pub(super) inner: Arc<Inner>,
    pub(super) queue: u16,
    /// Makes the queue Send and not Sync: one thread uses it at a time.
    pub(super) here: PhantomData<Cell<()>>,
}

/// A transmit queue of a port.
pub struct TxQueue {
    /// Packets that wait for a bond; freed before the port is closed.
    pub(super) waiting: Option<Box<Waiting>>,
    /// The socket that a client of shared memory has tried to connect to again, and when.
    pub(super) tried: Option<((u64, i64, i64), Instant)>,
    pub(super) inner: Arc<Inner>,
    pub(super) queue: u16,
    pub(super) here: PhantomData<Cell<()>>,
}

impl RxQueue {
    /// What to wait on for packets; polled devices have nothing.
    pub fn socket(&self) -> Option<&KernelSocket> {
        let _ = self.here;
        self.inner.kernel.as_ref()
    }

    /// Whether the device marks received packets that have a correct TCP checksum.
    #[inline]
    pub fn marks_checksums(&self) -> bool {
        self.inner.offloads.rx_checksum
    }

    /// Where packets have the time stamps of the device; none: it gives them none.
    #[inline]
    pub(crate) fn stamps(&self) -> Option<StampField> {
        self.inner.stamps
    }

    pub(crate) fn port(&self) -> u16 {
        self.inner.id
    }

    #[inline]
    pub(crate) fn is_loopback(&self) -> bool {
        self.inner.loopback.is_some()
    }

    pub(crate) fn index(&self) -> u16 {
        self.queue
    }
}

impl TxQueue {
    /// Makes the kernel send what it took and had no room for. True if nothing is left.
    pub fn flush(&mut self) -> bool {
        let _ = self.here;
        if let (Some(waiting), Some(bond)) = (&mut self.waiting, &self.inner.bond) {
            // SAFETY: this is the thread that sends on the queue.
            let sent = unsafe { waiting.go_on(self.inner.id, self.queue) };
            return bond.flush() & sent;
        }
        self.inner.kernel.as_ref().is_none_or(KernelSocket::flush)
    }

    /// How often `maintain` is to be called; none for devices that need none of that.
    pub fn maintenance_interval(&self) -> Option<Duration> {
        match &self.inner.device {
            Device::Bond(_) => Some(Duration::from_millis(20)),
            Device::Memif(memif) if !memif.server => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    /// Does what a device leaves to its user: a bond sends the frames of LACP, and a shared memory interface that lost its server
    /// connects again. To be called by the thread that receives from the port, too; there must be no other.
    pub fn maintain(&mut self) {
        match &self.inner.device {
            // SAFETY: this is the thread that sends on the queue.
            Device::Bond(_) => unsafe { sys::spate_bond_tend(self.inner.id, self.queue) },
            Device::Memif(memif) if !link_of(self.inner.id).is_some_and(|(up, _)| up) => {
                let (found, now) = (memif.identity(), Instant::now());
                let tried = self.tried.is_some_and(|(socket, at)| found == Some(socket) && now < at + RETRY_INTERVAL);
                if let Some(socket) = found.filter(|_| !tried) {
                    self.tried = Some((socket, now));
                    // SAFETY: this thread alone uses the queues of the port.
                    let code = unsafe { sys::spate_port_restart(self.inner.id) };
                    tracing::debug!(code, socket = %memif.socket.display(), "connecting again");
                }
            }
            _ => {}
        }
    }

    /// Packets of a bond that no member has taken yet.
    pub(crate) fn waiting(&mut self) -> Option<&mut Waiting> {
        self.waiting.as_deref_mut()
    }

    /// Takes those packets back that the device has sent: else it keeps them until it needs their descriptors, which may be never.
    /// Not every driver can.
    pub fn reclaim(&mut self) {
        // SAFETY: this is the thread that sends on the queue.
        let code = unsafe { sys::rte_eth_tx_done_cleanup(self.inner.id, self.queue, 0) };
        tracing::trace!(code, queue = self.queue, "packets were taken back");
    }

    pub(crate) fn port(&self) -> u16 {
        self.inner.id
    }

    pub(crate) fn index(&self) -> u16 {
        self.queue
    }

    /// What the device does of the work on packets.
    #[inline]
    pub fn offloads(&self) -> Offloads {
        self.inner.offloads
    }

    /// Whether what is sent goes nowhere, without a driver.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self.inner.device, Device::Null)
    }

    #[inline]
    pub(crate) fn loopback(&self) -> Option<&Loopback> {
        self.inner.loopback.as_ref()
    }
}
