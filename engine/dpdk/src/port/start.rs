// SPDX-License-Identifier: Apache-2.0
//! Queues set up, and the device started.
use std::{
    marker::PhantomData,
    sync::Arc,
    time::{Duration, Instant},
};

use spate_dpdk_sys as sys;

use super::{
    Configured, Port, StartedPort,
    inner::Inner,
    open::XDP_RING,
    probe::call,
    queues::{RxQueue, TxQueue},
    refusal::Refusal,
};
use crate::{
    BURST, Burst, Device, Error, KernelSocket, Mempool,
    bond::{Bond, Waiting},
    device::describe,
    steering, xdp,
};

/// How long a client of shared memory waits for its server: pods of one test start together.
const SERVER_LIMIT: Duration = Duration::from_secs(60);

/// How many packets the rings of a queue hold; fitted to what the driver can do.
#[derive(Clone, Copy, Debug)]
pub struct QueueSizes {
    /// Packets that the ring of each receive queue holds.
    pub rx: u16,
    /// Packets that the ring of each transmit queue holds.
    pub tx: u16,
}

impl Port<Configured> {
    /// Sets up the queues and starts the device.
    pub fn start(mut self, sizes: QueueSizes, rx_pool: &Mempool) -> Result<StartedPort, Error> {
        let Inner { id, info, rx_queues, tx_queues, .. } = &*self.inner;
        let (id, rx_queues, tx_queues) = (*id, *rx_queues, *tx_queues);
        let device = describe(&self.inner.device);
        let sizes = match self.inner.device {
            Device::Xdp(_) => QueueSizes { rx: XDP_RING, tx: XDP_RING },
            _ => sizes,
        };
        let before = matches!(self.inner.device, Device::Xdp(_)).then(xdp::Before::now);
        let _ = self.inner.rx_pool.set(rx_pool.clone());
        rx_pool.receive();
        let key = &spate_net::spread::KEY;
        let mtu = self.inner.bond.as_ref().map_or(0, Bond::mtu) as u32;
        if let Some(bond) = &self.inner.bond {
            bond.unite(info.mac)?;
        }
        // SAFETY: calls on a port that is probed and not started; the pool lives as long as `inner`, the key for ever.
        unsafe {
            call(&format!("configuring {device}"), || {
                let stamps = if self.inner.stamps.is_some() { sys::SPATE_CAN_RX_TIMESTAMP } else { 0 };
                let offloads = self.inner.offloads.bits() | stamps;
                sys::spate_port_configure(id, rx_queues, tx_queues, key.as_ptr(), key.len() as u8, offloads, mtu)
            })?;
            for queue in 0..rx_queues {
                call(&format!("setting up receiving on {device}"), || {
                    sys::spate_port_setup_rx(id, queue, info.rx_limits.fit(sizes.rx), rx_pool.raw())
                })?;
            }
            for queue in 0..tx_queues {
                call(&format!("setting up sending on {device}"), || {
                    sys::spate_port_setup_tx(id, queue, info.tx_limits.fit(sizes.tx))
                })?;
            }
        }
        let mac = info.mac;
        if let (Some(before), Device::Xdp(interface)) = (before, self.inner.device.clone()) {
            let inner = Arc::get_mut(&mut self.inner).expect("it has no queues yet");
            inner.kernel = Some(KernelSocket::adopt_xdp(&interface, &before)?);
        }
        self.start_device()?;
        let mut refused = Vec::new();
        if self.inner.device_mac.is_some() && self.inner.has_mac() {
            let set = self.inner.set_mac(mac);
            if let Err(error) = set {
                refused.push(Refusal::Mac);
                tracing::warn!(
                    device,
                    "it keeps its own address ({error}): packets are sent from the port's all the same, and come to it as far as the \
                     device is promiscuous"
                );
            }
        }
        // A loopback does by software what is computed.
        let steering = if self.inner.loopback.is_some() { Ok(()) } else { steering::set_and_verify(id, rx_queues) };
        let _ = self.inner.steering.set(steering);
        if matches!(self.inner.device, Device::Pci(_) | Device::Bond(_)) {
            // A virtual function may often receive all groups, but not be promiscuous; some drivers do not ask for the one
            // after the other.
            // SAFETY: the port is started.
            let code = unsafe {
                sys::rte_eth_allmulticast_enable(id);
                sys::rte_eth_promiscuous_enable(id)
            };
            if code != 0 {
                refused.push(Refusal::Promiscuous);
                tracing::warn!(
                    device,
                    "only packets to the port's own address are received: it may not be promiscuous"
                );
            }
        }
        let _ = self.inner.refused.set(refused);
        let mut rx: Vec<_> =
            (0..rx_queues).map(|queue| RxQueue { inner: Arc::clone(&self.inner), queue, here: PhantomData }).collect();
        if self.inner.kernel.is_some() || self.inner.bond.is_some() {
            // Between being opened and bound, a packet socket receives from every interface.
            let mut stale = Burst::new();
            while stale.receive(&mut rx[0]) == BURST {}
            self.inner.kernel.iter().for_each(KernelSocket::reset);
            self.inner.bond.iter().for_each(Bond::reset);
        }
        let tx_queue = |queue| TxQueue {
            waiting: self.inner.bond.is_some().then(|| Box::new(Waiting::new())),
            tried: None,
            inner: Arc::clone(&self.inner),
            queue,
            here: PhantomData,
        };
        let tx = (0..tx_queues).map(tx_queue).collect();
        Ok((Port { inner: self.inner, state: PhantomData }, rx, tx))
    }

    /// Starts the device. A client of shared memory waits for its server, which its driver does not.
    fn start_device(&self) -> Result<(), Error> {
        let (id, device) = (self.inner.id, describe(&self.inner.device));
        // SAFETY: the port is configured, with its queues.
        let start = || unsafe { call(&format!("starting {device}"), || sys::rte_eth_dev_start(id)) };
        let Device::Memif(memif) = &self.inner.device else { return start() };
        let deadline = Instant::now() + SERVER_LIMIT;
        loop {
            match start() {
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(500)),
                Err(_) => {
                    return Err(Error::Failed {
                        what: format!("connecting to {}", memif.socket.display()),
                        reason: format!(
                            "no server has listened there for {SERVER_LIMIT:?}: start it, or be the server"
                        ),
                        log: vec![],
                    });
                }
                Ok(()) => return Ok(()),
            }
        }
    }
}
