// SPDX-License-Identifier: Apache-2.0
//! A loopback: what is sent is received, on one of its queues by the packet's addresses and ports as on a NIC.
use std::{
    fmt,
    ptr::NonNull,
    sync::{
        OnceLock,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use spate_dpdk_sys as sys;
use spate_net::spread;

use crate::{
    BURST, Error,
    error::last_errno,
    log::Mark,
    mbuf::{self, Mbuf},
    port::fresh_name,
};

/// Packets that fit into the ring of a queue.
const RING: u32 = 4096;
/// RTE_PMD_RING_MAX_RX_RINGS and RTE_PMD_RING_MAX_TX_RINGS.
const MAX_QUEUES: usize = 16;

/// Says how a burst arrives, from its packets and the receive queue of each: their indices in the order in which they
/// arrive. One that is omitted is lost, one that is there more often is duplicated, up to twice the packets in all.
pub type Disturbance = dyn Fn(&[(&[u8], usize)]) -> Vec<usize> + Send + Sync;

/// Chooses a packet's receive queue among this many.
pub type Spread = dyn Fn(&[u8], usize) -> usize + Send + Sync;

/// The rings of a loopback, one a receive queue.
pub(crate) struct Loopback {
    rings: Vec<Ring>,
    /// A thread is sending on several rings: a burst that they do not take whole is cut at one index.
    busy: AtomicBool,
    disturbance: OnceLock<Box<Disturbance>>,
    /// Replaces the hash of addresses and ports.
    spread: OnceLock<Box<Spread>>,
    /// What is sent on a queue is received on that of the same number.
    paired: AtomicBool,
}

impl fmt::Debug for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loopback of {} queues", self.rings.len())
    }
}

struct Ring(NonNull<sys::rte_ring>);

// SAFETY: rte_ring is made for use by several threads: many producers and, by its flag, one consumer.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: made by rte_ring_create; the port on it is closed (fields drop after the port's own `drop`).
        unsafe { sys::spate_ring_free(self.0.as_ptr()) }
    }
}

impl Loopback {
    /// Rings for up to this many receive queues.
    pub(crate) fn new(queues: usize) -> Result<Self, Error> {
        let rings = (0..queues.clamp(1, MAX_QUEUES)).map(|_| Ring::new()).collect::<Result<_, _>>()?;
        let [busy, paired] = [false; 2].map(AtomicBool::new);
        Ok(Self { rings, busy, disturbance: OnceLock::new(), spread: OnceLock::new(), paired })
    }

    pub(crate) fn queues(&self) -> usize {
        self.rings.len()
    }

    /// A port that receives from the rings. Its own transmit queues are not used.
    pub(crate) fn port(&self, tx_queues: usize) -> Result<u16, Error> {
        if tx_queues > MAX_QUEUES {
            return Err(Error::TooFewQueues { device: "a loopback".into(), wanted: tx_queues, have: MAX_QUEUES });
        }
        let mark = Mark::now();
        let name = fresh_name("loop");
        let rx: Vec<_> = self.rings.iter().map(|ring| ring.0.as_ptr()).collect();
        let tx = vec![rx[0]; tx_queues];
        // SAFETY: the arrays are as long as their lengths say; the rings outlive the port (its owner owns both).
        let id = unsafe {
            sys::rte_eth_from_rings(name.as_ptr(), rx.as_ptr(), rx.len() as u32, tx.as_ptr(), tx_queues as u32, 0)
        };
        u16::try_from(id).map_err(|_| Error::from_code("making a port of rings", last_errno(), mark))
    }

    pub(crate) fn disturb(&self, disturbance: Box<Disturbance>) -> bool {
        self.disturbance.set(disturbance).is_ok()
    }

    pub(crate) fn spread(&self, spread: Box<Spread>) -> bool {
        self.spread.set(spread).is_ok()
    }

    pub(crate) fn pair_queues(&self) {
        self.paired.store(true, Relaxed);
    }

    /// Offers packets in order, on a transmit queue. Returns how many were taken from the front.
    ///
    /// # Safety
    /// They are valid mbufs of the caller's; those taken are no longer.
    #[inline]
    pub(crate) unsafe fn send(&self, queue: u16, packets: &mut [Mbuf]) -> usize {
        match (self.disturbance.get(), self.rings.as_slice()) {
            // SAFETY: as the caller says.
            (None, [ring]) => unsafe { ring.add(packets) },
            (None, rings) if self.paired.load(Relaxed) => {
                // SAFETY: as the caller says.
                unsafe { rings[usize::from(queue) % rings.len()].add(packets) }
            }
            // SAFETY: as the caller says.
            _ => unsafe { self.share_out(packets) },
        }
    }

    /// # Safety
    /// As `send`.
    unsafe fn share_out(&self, packets: &mut [Mbuf]) -> usize {
        let mut queues = [0u8; BURST];
        let count = packets.len().min(BURST);
        let packets = &mut packets[..count];
        for (queue, packet) in queues.iter_mut().zip(packets.iter()) {
            // SAFETY: a valid mbuf.
            let (frame, queues) = (unsafe { mbuf::head(*packet) }, self.rings.len());
            *queue = match self.spread.get() {
                None => spread::queue(frame, queues),
                Some(spread) => spread(frame, queues) % queues,
            } as u8;
        }
        if self.busy.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            // The other may have lost its CPU: come back later.
            return 0;
        }
        // SAFETY: as the caller says.
        let taken = unsafe {
            match self.disturbance.get() {
                None => self.share_out_alone(packets, &queues),
                Some(disturbance) => self.disturbed(packets, &queues, disturbance),
            }
        };
        self.busy.store(false, Release);
        taken
    }

    /// # Safety
    /// As `send`; no other thread adds to the rings.
    unsafe fn share_out_alone(&self, packets: &mut [Mbuf], queues: &[u8; BURST]) -> usize {
        let mut room: [u32; MAX_QUEUES] = [0; MAX_QUEUES];
        for (room, ring) in room.iter_mut().zip(&self.rings) {
            *room = ring.room();
        }
        let mut taken = 0;
        while taken < packets.len() && room[usize::from(queues[taken])] > 0 {
            room[usize::from(queues[taken])] -= 1;
            taken += 1;
        }
        let mut chosen = [std::ptr::null_mut(); BURST];
        for (index, ring) in self.rings.iter().enumerate() {
            let mut count = 0;
            for (packet, _) in packets[..taken].iter().zip(queues).filter(|(_, queue)| usize::from(**queue) == index) {
                chosen[count] = *packet;
                count += 1;
            }
            // SAFETY: as the caller says; there is room.
            unsafe { ring.add(&mut chosen[..count]) };
        }
        taken
    }

    /// # Safety
    /// As `send`; no other thread adds to the rings.
    unsafe fn disturbed(&self, packets: &mut [Mbuf], queues: &[u8; BURST], disturbance: &Disturbance) -> usize {
        if self.rings.iter().any(|ring| (ring.room() as usize) < 2 * BURST) {
            return 0;
        }
        // SAFETY: valid mbufs.
        let frames: Vec<_> =
            packets.iter().zip(queues).map(|(p, queue)| (unsafe { mbuf::head(*p) }, usize::from(*queue))).collect();
        let arrivals = disturbance(&frames);
        assert!(arrivals.len() <= 2 * packets.len(), "a disturbance makes more than two packets of one");
        let mut seen = [false; BURST];
        // All users first: a receiver of a packet may free it before its next arrival is added.
        for &index in &arrivals {
            if std::mem::replace(&mut seen[index], true) {
                // SAFETY: a valid mbuf; each arrival but the first is one more user of it.
                unsafe { sys::spate_mbuf_share(packets[index]) }
            }
        }
        for &index in &arrivals {
            let mut packet = packets[index];
            // SAFETY: a valid mbuf of which this is one user. There is room.
            unsafe { self.rings[usize::from(queues[index])].add(std::slice::from_mut(&mut packet)) };
        }
        for (packet, _) in packets.iter_mut().zip(seen).filter(|(_, seen)| !seen) {
            // SAFETY: a valid mbuf of ours.
            unsafe { sys::spate_free_bulk(packet, 1) };
        }
        packets.len()
    }
}

impl Ring {
    fn new() -> Result<Self, Error> {
        let mark = Mark::now();
        let name = fresh_name("loop");
        // SAFETY: the environment is up; a C string. Several workers send, one receives.
        let raw = unsafe { sys::rte_ring_create(name.as_ptr(), RING, sys::SOCKET_ID_ANY, sys::RING_F_SC_DEQ) };
        NonNull::new(raw).map(Self).ok_or_else(|| Error::from_code("making a loopback's ring", last_errno(), mark))
    }

    fn room(&self) -> u32 {
        // SAFETY: a ring of ours.
        unsafe { sys::spate_ring_room(self.0.as_ptr()) }
    }

    /// # Safety
    /// The packets are valid mbufs of the caller's; those taken are no longer.
    #[inline]
    unsafe fn add(&self, packets: &mut [Mbuf]) -> usize {
        // SAFETY: as the caller says; a ring of ours.
        unsafe { sys::spate_ring_add(self.0.as_ptr(), packets.as_mut_ptr(), packets.len() as u32) as usize }
    }
}
