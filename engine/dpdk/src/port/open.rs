// SPDX-License-Identifier: Apache-2.0
//! Ports probed and configured, before they have queues.
use std::{
    marker::PhantomData,
    sync::{Arc, OnceLock},
};

use spate_dpdk_sys as sys;

use super::{
    Configured, Port,
    info::Info,
    inner::Inner,
    offloads::{Offloads, UseOffloads},
    probe::{kernel_frame_size, open_kernel, open_pci, probe},
};
use crate::{Device, Eal, Error, Mempool, bond::Bond, device::describe, loopback::Loopback, stamp::StampField, xdp};

/// Packets that the rings of an AF_XDP socket hold: the driver gives the kernel as many buffers, whatever the ring's size.
pub(super) const XDP_RING: u16 = 2048;

impl Port<Configured> {
    /// Probes a device that is to have `tx_queues` transmit queues and up to `rx_queues` receive queues: as many as it can
    /// share packets out to.
    pub fn open(
        eal: &Eal,
        device: &Device,
        rx_queues: usize,
        tx_queues: usize,
        offloads: UseOffloads,
    ) -> Result<Self, Error> {
        device.check()?;
        let mut loopback = None;
        let mut socket = None;
        let mut bond = None;
        let mut reserved = None;
        let id = match device {
            Device::Pci(address) => open_pci(eal, address)?,
            Device::Null | Device::NetNull => probe("net_null", "no-rx=1")?,
            Device::Tap(name) => probe("net_tap", &format!("iface={name}"))?,
            Device::Kernel(interface) => {
                let (id, adopted) = open_kernel(interface)?;
                socket = Some(adopted);
                id
            }
            // Its socket is opened with its receive queue. The kernel needs buffers whole, which ordinary pages do not give a device.
            // SAFETY: the environment is up.
            Device::Xdp(interface) => {
                probe("net_af_xdp", &xdp::arguments(interface, unsafe { sys::spate_has_hugepages() })?)?
            }
            Device::Bond(members) => {
                let (id, made) = Bond::open(eal, members)?;
                bond = Some(made);
                id
            }
            Device::Memif(memif) => {
                reserved = memif.reserve()?;
                probe("net_memif", &memif.arguments())?
            }
            Device::Loopback => {
                let made = Loopback::new(rx_queues)?;
                let id = made.port(tx_queues)?;
                loopback = Some(made);
                id
            }
        };
        let mut info = Info::read(id, device)?;
        if let Some(bond) = &bond {
            info.max_frame_len = bond.mtu() + 14;
        }
        let (most_rx, most_tx) = info.max_queues;
        if tx_queues > most_tx {
            return Err(Error::TooFewQueues { device: describe(device), wanted: tx_queues, have: most_tx });
        }
        let rx_queues = loopback.as_ref().map_or(rx_queues.clamp(1, most_rx.max(1)), Loopback::queues);
        let offloads = match offloads {
            UseOffloads::Auto => Offloads { tx_checksum: false, ..info.offloads(device) },
            UseOffloads::All => info.offloads(device),
            UseOffloads::None => Offloads::default(),
        };
        let inner = Inner {
            id,
            device: device.clone(),
            offloads,
            stamps: None,
            info,
            rx_queues: rx_queues as u16,
            tx_queues: tx_queues as u16,
            kernel: socket,
            bond,
            _reserved: reserved,
            loopback,
            device_mac: None,
            rx_pool: OnceLock::new(),
            refused: OnceLock::new(),
            steering: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner), state: PhantomData })
    }

    /// Gives the port another address than its device's, from its start until it is closed.
    #[must_use]
    pub fn with_mac(mut self, mac: [u8; 6]) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner)
            && mac != inner.info.mac
        {
            inner.device_mac = Some(std::mem::replace(&mut inner.info.mac, mac));
        }
        self
    }

    /// Lets the device stamp the packets that it receives.
    ///
    /// # Errors
    /// If it does not, or if the counter of its time stamps cannot be read.
    pub fn stamped_by_device(mut self) -> Result<Self, Error> {
        let lacks = match (self.inner.info.offers(sys::SPATE_CAN_RX_TIMESTAMP), self.inner.info.has_clock) {
            (false, _) => "gives received packets no time stamps (RTE_ETH_RX_OFFLOAD_TIMESTAMP)",
            (true, false) => "gives received packets time stamps of a clock that cannot be read (rte_eth_read_clock)",
            (true, true) => {
                let field = StampField::register()?;
                Arc::get_mut(&mut self.inner).expect("it has no queues yet").stamps = Some(field);
                return Ok(self);
            }
        };
        Err(Error::NoTimestamps { device: describe(&self.inner.device), driver: self.driver().to_owned(), lacks })
    }

    /// Bytes that buffers of the receive pool must have room for.
    pub fn rx_room(&self) -> usize {
        match &self.inner.device {
            Device::Xdp(interface) => xdp::room(interface),
            // The driver refuses buffers shorter than its frame slots.
            Device::Kernel(interface) => kernel_frame_size(interface),
            Device::Bond(members) => members.iter().fold(2048, |room, member| match member {
                Device::Kernel(interface) => room.max(kernel_frame_size(interface)),
                _ => room,
            }),
            _ => self.inner.info.max_frame_len.max(2048 - 4).next_multiple_of(64),
        }
    }

    /// Makes its receive pool of `count` buffers, with those that its driver keeps, on a NUMA node if one is given.
    pub fn receive_pool(&self, eal: &Eal, node: Option<usize>, count: u32, room: usize) -> Result<Mempool, Error> {
        match self.inner.device {
            // What the kernel has to receive into, and what is on its way out or was sent and is not taken back yet.
            Device::Xdp(_) => Mempool::in_one_piece(eal, node, "receiving", count + 3 * u32::from(XDP_RING), room),
            _ => Mempool::on_node(eal, node, "receiving", count, room),
        }
    }

    /// Receive queues that it will have.
    pub fn rx_queues(&self) -> usize {
        usize::from(self.inner.rx_queues)
    }
}
