// SPDX-License-Identifier: Apache-2.0
//! Ports and their queues: probed, then started, then used by workers, closed when the last of them is gone.
use std::{
    ffi::{CStr, CString},
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use spate_dpdk_sys as sys;

use crate::{
    BURST, BondMember, Burst, CopyMode, Device, Disturbance, Eal, Error, KernelSocket, Mempool, Spread,
    bond::{Bond, Waiting},
    kernel,
    log::Mark,
    loopback::Loopback,
    removal, resting,
    stamp::{self, DeviceCounter, StampField},
    steering, xdp,
};

/// Bytes of each of the two rings of a kernel port at most.
const KERNEL_RING_BYTES: usize = 32 << 20;
/// Frames of those rings at most: what a worker that lost its CPU for 400 ms misses at 20 kpps.
const KERNEL_RING_FRAMES: usize = 8192;
/// Largest slot of those rings: packets and their headroom are shorter than 64 KiB, and a slot is a power of two.
const KERNEL_FRAME_MOST: usize = 32 << 10;
/// What the kernel keeps of a frame slot for itself (TPACKET2_HDRLEN without its address, and alignment).
const KERNEL_FRAME_OVERHEAD: usize = 96;
/// Packets that the rings of an AF_XDP socket hold: the driver gives the kernel as many buffers, whatever the ring's size.
const XDP_RING: u16 = 2048;
/// Longest frame on devices that have no MTU of their own: 9234 with FCS.
const JUMBO_FRAME: usize = 9230;

/// How long a client of shared memory waits for its server: pods of one test start together.
const SERVER_LIMIT: Duration = Duration::from_secs(60);
/// How often it tries the same socket again.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// Longest frame that is given to a device to be cut into segments: what one descriptor of any NIC holds (those of Intel's 10G
/// and 40G families have 14 bits for a buffer's length).
const LONGEST_TO_CUT: usize = 16_383;

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

/// How many packets the rings of a queue hold; fitted to what the driver can do.
#[derive(Clone, Copy, Debug)]
pub struct QueueSizes {
    /// Of each receive queue.
    pub rx: u16,
    /// Of each transmit queue.
    pub tx: u16,
}

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Packets can pass.
    pub up: bool,
    /// Bits a second, if known.
    pub line_rate_bps: Option<u64>,
}

/// What a device refuses, as virtual functions do that their physical function does not trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another MAC address than its own.
    Mac,
    /// Promiscuous mode.
    Promiscuous,
}

impl Refusal {
    /// Its name, as people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mac => "mac",
            Self::Promiscuous => "promiscuous",
        }
    }
}

/// Whether a port's device does what it can of the work on packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UseOffloads {
    /// What it offers and is faster than without.
    #[default]
    Auto,
    /// The same, and the checksums of all that is sent.
    All,
    /// Nothing.
    None,
}

/// What a port's device does of the work on packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Marks packets whose TCP checksum is right.
    pub rx_checksum: bool,
    /// Completes checksums of IPv4, TCP and UDP in all packets that are made for it.
    pub tx_checksum: bool,
    /// Cuts TCP into segments, and completes their checksums.
    pub cut: Option<Cut>,
}

/// How a device cuts frames into segments. Lengths are without FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Longest frame that it takes.
    pub longest_frame: usize,
    /// Longest frame that it makes.
    pub longest_segment: usize,
    /// Those of IPv6 too.
    pub v6: bool,
}

/// A started port with its receive and transmit queues.
pub type StartedPort = (Port<Started>, Vec<RxQueue>, Vec<TxQueue>);

/// What a device, its driver and the kernel behind it lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Arrived and could not be read.
    pub rx_missed: u64,
    /// Arrived broken.
    pub rx_errors: u64,
    /// Taken from the worker and not sent.
    pub tx_dropped: u64,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) id: u16,
    device: Device,
    info: Info,
    rx_queues: u16,
    tx_queues: u16,
    offloads: Offloads,
    /// Where received packets have the time stamps of the device; none: it gives them none.
    stamps: Option<StampField>,
    kernel: Option<KernelSocket>,
    bond: Option<Bond>,
    /// Keeps others from the socket of a shared memory interface.
    _reserved: Option<std::fs::File>,
    /// Freed after the port on it.
    loopback: Option<Loopback>,
    /// The device's own address, where the port was given another.
    device_mac: Option<[u8; 6]>,
    /// Where received packets go; kept until the device is closed.
    rx_pool: std::sync::OnceLock<Mempool>,
    /// Once it is started: what its device refused.
    refused: std::sync::OnceLock<Vec<Refusal>>,
    /// Once it is started: why packets do not come to the queues that are computed, if they do not.
    steering: std::sync::OnceLock<Result<(), String>>,
}

#[derive(Debug)]
struct Info {
    driver: String,
    mac: [u8; 6],
    max_frame_len: usize,
    /// Receive queues that packets can be shared out to, and transmit queues.
    max_queues: (usize, usize),
    rx_limits: Limits,
    tx_limits: Limits,
    /// Of `SPATE_CAN_*`.
    offers: u32,
    /// The counter of its time stamps can be read.
    has_clock: bool,
}

#[derive(Debug)]
struct Limits {
    min: u16,
    max: u16,
    align: u16,
}

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
            rx_pool: std::sync::OnceLock::new(),
            refused: std::sync::OnceLock::new(),
            steering: std::sync::OnceLock::new(),
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

    /// Has the device stamp the packets that it receives.
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
}

/// Sets which groups' frames a device receives.
#[derive(Debug)]
pub struct GroupFilter {
    inner: Arc<Inner>,
}

impl GroupFilter {
    /// Groups that every device has room for.
    pub const MOST: usize = sys::SPATE_MOST_GROUPS as usize;

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

impl Port<Started> {
    /// Its filter of groups, if it is a NIC: other ports receive all.
    pub fn group_filter(&self) -> Option<GroupFilter> {
        matches!(self.inner.device, Device::Pci(_)).then(|| GroupFilter { inner: Arc::clone(&self.inner) })
    }

    /// The counter by which its device stamps packets; none if it stamps none.
    pub fn counter(&self) -> Option<DeviceCounter> {
        self.inner.stamps.map(|_| DeviceCounter { inner: Arc::clone(&self.inner) })
    }
}

impl Port<Configured> {
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

impl Port<Started> {
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

/// A receive queue of a port.
pub struct RxQueue {
    inner: Arc<Inner>,
    queue: u16,
    /// One thread at a time: Send, not Sync.
    here: PhantomData<std::cell::Cell<()>>,
}

/// A transmit queue of a port.
pub struct TxQueue {
    /// Of a bond; freed before the port is closed.
    waiting: Option<Box<Waiting>>,
    /// The socket that a client of shared memory has tried to connect to again, and when.
    tried: Option<((u64, i64, i64), Instant)>,
    inner: Arc<Inner>,
    queue: u16,
    here: PhantomData<std::cell::Cell<()>>,
}

impl RxQueue {
    /// What to wait on for packets; polled devices have nothing.
    pub fn socket(&self) -> Option<&KernelSocket> {
        let _ = self.here;
        self.inner.kernel.as_ref()
    }

    /// Whether packets are marked whose TCP checksum is right.
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

    /// How often `tend` is to be called; none for devices that need none of that.
    pub fn tend_every(&self) -> Option<Duration> {
        match &self.inner.device {
            Device::Bond(_) => Some(Duration::from_millis(20)),
            Device::Memif(memif) if !memif.server => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    /// Does what a device leaves to its user: a bond sends the frames of LACP, and a shared memory interface that lost its server
    /// connects again. To be called by the thread that receives from the port, too; there must be no other.
    pub fn tend(&mut self) {
        match &self.inner.device {
            // SAFETY: this is the thread that sends on the queue.
            Device::Bond(_) => unsafe { sys::spate_bond_tend(self.inner.id, self.queue) },
            Device::Memif(memif) if !link_of(self.inner.id).is_some_and(|(up, _)| up) => {
                let (found, now) = (memif.identity(), Instant::now());
                let tried = self.tried.is_some_and(|(socket, at)| found == Some(socket) && now < at + TRY_AGAIN);
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

impl Inner {
    /// Whether its device can be given an address, and receives for it. A tap's is that of the kernel's interface, whose peer the port is.
    fn has_mac(&self) -> bool {
        matches!(self.device, Device::Pci(_) | Device::Kernel(_) | Device::Xdp(_) | Device::Bond(_))
    }

    /// Gives its device an address.
    fn set_mac(&self, mac: [u8; 6]) -> Result<(), Error> {
        match &self.device {
            // The driver sets none.
            Device::Xdp(interface) => kernel::set_mac(interface, mac).map_err(|error| Error::Failed {
                what: "setting its MAC address".into(),
                reason: error.to_string(),
                log: vec![],
            }),
            // SAFETY: the port is probed.
            _ => unsafe { set_mac(self.id, mac) },
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(mac) = self.device_mac.filter(|_| self.has_mac()) {
            // As it was found. Where it was not changed, this changes nothing.
            let _ = self.set_mac(mac);
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.detach();
        }
        // SAFETY: no queue is left that could use the port.
        let code = unsafe { sys::spate_port_close(self.id) };
        if code != 0 {
            tracing::warn!(code, device = describe(&self.device), "the port was not closed cleanly");
        }
        self.kernel.iter().for_each(KernelSocket::release);
        self.bond.iter().for_each(Bond::close);
        // It has given its packets back.
        resting::sweep();
    }
}

impl Info {
    /// The facts of a port. It can receive on several queues only if it shares packets out by their headers.
    fn read(id: u16, device: &Device) -> Result<Self, Error> {
        let mut raw = std::mem::MaybeUninit::<sys::spate_port_info>::zeroed();
        // SAFETY: the pointer is valid for the call.
        unsafe { call(&format!("asking for {}", describe(device)), || sys::spate_port_info(id, raw.as_mut_ptr()))? };
        // SAFETY: zeroed, then filled in; it is all integers.
        let raw = unsafe { raw.assume_init() };
        // SAFETY: the shim ends the string.
        let driver = unsafe { CStr::from_ptr(raw.driver.as_ptr()) }.to_string_lossy().into_owned();
        let max_frame_len = match device {
            // Nothing longer than a jumbo frame is sent.
            Device::Kernel(interface) | Device::Xdp(interface) => {
                kernel::mtu(interface).map_or(0, |mtu| (mtu + 14).min(JUMBO_FRAME))
            }
            Device::Pci(_) | Device::Tap(_) | Device::Bond(_) | Device::Memif(_) => usize::from(raw.mtu) + 14,
            Device::Loopback | Device::Null | Device::NetNull => JUMBO_FRAME,
        };
        let mut mac = raw.mac;
        if matches!(device, Device::Tap(_)) {
            // The driver's is that of the kernel's interface, whose peer this is.
            mac[5] ^= 1;
        }
        let max_rx = match device {
            Device::Pci(_) if raw.rss_key_len > 0 => raw.max_rx_queues,
            _ => 1,
        };
        Ok(Self {
            driver,
            mac,
            max_frame_len,
            max_queues: (usize::from(max_rx), usize::from(raw.max_tx_queues)),
            rx_limits: Limits { min: raw.rx_desc_min, max: raw.rx_desc_max, align: raw.rx_desc_align },
            tx_limits: Limits { min: raw.tx_desc_min, max: raw.tx_desc_max, align: raw.tx_desc_align },
            offers: raw.offloads,
            // Of a device without time stamps it would not be the clock of any.
            has_clock: raw.offloads & sys::SPATE_CAN_RX_TIMESTAMP != 0 && stamp::read(id).is_some(),
        })
    }
}

impl Info {
    /// Whether it offers one of `SPATE_CAN_*`.
    fn offers(&self, what: u32) -> bool {
        self.offers & what != 0
    }

    /// What is used of what it offers. Nothing is cut where checksums are not completed.
    fn offloads(&self, device: &Device) -> Offloads {
        if !matches!(device, Device::Pci(_) | Device::Tap(_)) {
            return Offloads::default();
        }
        let tap = self.driver == "net_tap";
        // It compares a segment with its Ethernet header, and a tag, to the MTU, and omits what is of IPv6 (DPDK 22.11).
        let longest_segment = if tap { self.max_frame_len.saturating_sub(14 + 4) } else { self.max_frame_len };
        let cut = Cut { longest_frame: LONGEST_TO_CUT, longest_segment, v6: !tap };
        let tx_checksum = self.offers(sys::SPATE_CAN_TX_CHECKSUM);
        Offloads {
            // To ask a virtual host for marks is to allow it packets without checksums, which are not verified.
            rx_checksum: self.offers(sys::SPATE_CAN_RX_CHECKSUM) && !self.driver.starts_with("net_virtio"),
            tx_checksum,
            cut: (tx_checksum && self.offers(sys::SPATE_CAN_CUT)).then_some(cut),
        }
    }
}

impl Offloads {
    /// Names of what is used, as people read them.
    pub fn names(&self) -> Vec<&'static str> {
        let all = [
            (self.tx_checksum, "tx-checksum"),
            (self.cut.is_some(), "tcp-segmentation"),
            (self.rx_checksum, "rx-checksum"),
        ];
        all.into_iter().filter_map(|(used, name)| used.then_some(name)).collect()
    }

    /// As the shim has them.
    fn bits(&self) -> u32 {
        let bit = |so: bool, bit: u32| if so { bit } else { 0 };
        bit(self.rx_checksum, sys::SPATE_CAN_RX_CHECKSUM)
            | bit(self.tx_checksum || self.cut.is_some(), sys::SPATE_CAN_TX_CHECKSUM)
            | bit(self.cut.is_some(), sys::SPATE_CAN_CUT)
    }
}

impl Limits {
    fn fit(&self, wanted: u16) -> u16 {
        let max = if self.max == 0 { u16::MAX } else { self.max };
        let align = self.align.max(1);
        (wanted.clamp(self.min.min(max), max) / align).max(1) * align
    }
}

pub(crate) fn describe(device: &Device) -> String {
    match device {
        Device::Pci(address) => format!("PCI device {address}"),
        Device::Kernel(interface) => format!("interface {interface}"),
        Device::Xdp(interface) => format!("interface {interface} by AF_XDP"),
        Device::Tap(interface) => format!("tap {interface}"),
        Device::Loopback => "a loopback".into(),
        Device::Null => "a null port".into(),
        Device::NetNull => "net_null".into(),
        Device::Bond(members) => {
            format!("a bond of {}", members.iter().map(describe).collect::<Vec<_>>().join(" and "))
        }
        Device::Memif(memif) => format!("memif {} at {}", memif.id, memif.socket.display()),
    }
}

/// The port of a PCI function that DPDK has probed.
pub(crate) fn open_pci(eal: &Eal, address: &str) -> Result<u16, Error> {
    let mark = Mark::now();
    let id = port_by_name(address).ok_or_else(|| Error::Failed {
        what: format!("probing PCI device {address}"),
        reason: "no driver of DPDK took it".into(),
        log: mark.lines(),
    })?;
    removal::watch(eal, address)?;
    Ok(id)
}

/// Makes a port of a kernel interface. Returns its driver's socket, too.
pub(crate) fn open_kernel(interface: &str) -> Result<(u16, KernelSocket), Error> {
    let index = kernel::interface_index(interface).map_err(|_| Error::InterfaceNotFound(interface.to_owned()))?;
    if kernel_frame_size(interface) > KERNEL_FRAME_MOST {
        let mtu = kernel::mtu(interface).unwrap_or_default();
        let most = KERNEL_FRAME_MOST - KERNEL_FRAME_OVERHEAD - 18;
        return Err(Error::Failed {
            what: format!("opening interface {interface}"),
            reason: format!(
                "its MTU is {mtu}, and its packets could not be received whole: make it {most} or less (ip link set \
                 {interface} mtu 9000)"
            ),
            log: vec![],
        });
    }
    let before = kernel::packet_sockets(index);
    let id = probe("net_af_packet", &af_packet_arguments(interface)).map_err(|e| match e {
        Error::Failed { log, .. } if log.iter().any(|line| line.contains("mmap failed")) => Error::NoPermission {
            what: "locking the interface's packet ring in memory",
            remedy: "give the container IPC_LOCK, or raise the limit (ulimit -l)",
        },
        e => e,
    })?;
    let socket = KernelSocket::adopt(interface, &before).map_err(|e| Error::Failed {
        what: format!("watching the packet socket of {interface}"),
        reason: e.to_string(),
        log: vec![],
    })?;
    Ok((id, socket))
}

/// Whether a started port has a link, and its speed in Mbit/s, 0 if unknown; none if its driver does not report it.
pub(crate) fn link_of(id: u16) -> Option<(bool, u32)> {
    let (mut up, mut speed) = (false, 0);
    // SAFETY: the port is started; the pointers are valid for the call.
    let code = unsafe { sys::spate_port_link(id, &raw mut up, &raw mut speed) };
    (code == 0).then_some((up, speed))
}

/// What a started port lost, and the kernel behind it.
pub(crate) fn stats_of(id: u16, kernel: Option<&KernelSocket>) -> PortStats {
    let mut raw = sys::spate_port_stats { rx_missed: 0, rx_errors: 0, rx_no_buffer: 0, tx_packets: 0, tx_errors: 0 };
    // SAFETY: the port is started; the pointer is valid for the call. On an error it stays zero.
    unsafe { sys::spate_port_stats(id, &raw mut raw) };
    let mut stats =
        PortStats { rx_missed: raw.rx_missed + raw.rx_no_buffer, rx_errors: raw.rx_errors, tx_dropped: raw.tx_errors };
    if let Some(kernel) = kernel {
        (stats.rx_missed, stats.tx_dropped) = kernel.losses(&raw);
    }
    stats
}

/// Gives a device an address.
///
/// # Safety
/// The port is probed.
pub(crate) unsafe fn set_mac(id: u16, mac: [u8; 6]) -> Result<(), Error> {
    // SAFETY: as the caller says; the shim reads 6 bytes.
    unsafe { call("setting its MAC address", || sys::spate_port_set_mac(id, mac.as_ptr())) }
}

/// Runs a call that returns 0 or a negative errno.
///
/// # Safety
/// As the call's.
pub(crate) unsafe fn call(what: &str, f: impl FnOnce() -> i32) -> Result<(), Error> {
    let mark = Mark::now();
    match f() {
        0.. => Ok(()),
        code => Err(Error::from_code(what, code, mark)),
    }
}

/// A name for a virtual device that no other has.
pub(crate) fn fresh_name(driver: &str) -> CString {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    CString::new(format!("{driver}_spate{}", SERIAL.fetch_add(1, Ordering::Relaxed))).expect("no NUL in it")
}

fn port_by_name(name: &str) -> Option<u16> {
    let name = CString::new(name).ok()?;
    let mut id = 0;
    // SAFETY: a C string and a valid pointer.
    (unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) } == 0).then_some(id)
}

pub(crate) fn probe(driver: &str, arguments: &str) -> Result<u16, Error> {
    let name = fresh_name(driver);
    let text = CString::new(arguments).map_err(|_| Error::InterfaceNotFound(arguments.to_owned()))?;
    // SAFETY: the environment is up; C strings.
    unsafe {
        call(&format!("making a port of {driver} ({arguments})"), || {
            sys::rte_eal_hotplug_add(c"vdev".as_ptr(), name.as_ptr(), text.as_ptr())
        })?;
    }
    Ok(port_by_name(name.to_str().expect("ASCII")).expect("a device that was just probed has a port"))
}

/// Slot size of a kernel port's rings: a power of two, so that slots fill blocks exactly.
fn kernel_frame_size(interface: &str) -> usize {
    let frame = kernel::mtu(interface).unwrap_or(1500) + 18;
    (frame + KERNEL_FRAME_OVERHEAD).next_power_of_two().max(2048)
}

fn af_packet_arguments(interface: &str) -> String {
    let frame = kernel_frame_size(interface);
    let count = (KERNEL_RING_BYTES / frame).min(KERNEL_RING_FRAMES);
    // Blocks are physically contiguous: small ones can always be had.
    let block = frame.max(16 << 10);
    format!("iface={interface},qpairs=1,blocksz={block},framesz={frame},framecnt={count},qdisc_bypass=1")
}
