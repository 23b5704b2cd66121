// SPDX-License-Identifier: Apache-2.0
//! Packet memory: pools of equal packet buffers.
use std::{
    ffi::{CStr, CString},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use spate_dpdk_sys as sys;

use crate::{Eal, Error, error::last_errno, log::Mark, quarantine};

/// Bytes kept free before a packet.
pub(crate) const HEADROOM: usize = sys::RTE_PKTMBUF_HEADROOM as usize;
/// An mbuf's own 128 bytes, its mempool header, and rounding to cache lines and colors.
const OVERHEAD: usize = 256;
/// Buffers a registered thread keeps for itself.
pub(crate) const CACHE: u32 = 256;

/// A pool of packet buffers, shared by threads. It lives as long as anything that may hold its buffers.
#[derive(Clone, Debug)]
pub struct Mempool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    raw: NonNull<sys::rte_mempool>,
    count: u32,
    room: usize,
    /// Where its mbufs have their notes (`Burst::noted_mut`).
    note_offset: u32,
    /// A device writes into its buffers, too.
    receives: AtomicBool,
}

// SAFETY: rte_mempool is made for concurrent use (its ring is multi-producer, multi-consumer, its caches are by lcore).
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// The number of a NUMA node for DPDK, or that any will do.
fn socket(node: Option<usize>) -> i32 {
    node.map_or(sys::SOCKET_ID_ANY, |node| node as i32)
}

impl Mempool {
    /// Makes `count` buffers for packets of up to `room` bytes each, where the environment has memory. `what` is for messages.
    pub fn new(eal: &Eal, what: &str, count: u32, room: usize) -> Result<Self, Error> {
        Self::on_node(eal, None, what, count, room)
    }

    /// Makes a pool on a NUMA node, if one is given.
    pub fn on_node(eal: &Eal, node: Option<usize>, what: &str, count: u32, room: usize) -> Result<Self, Error> {
        Self::make(eal, what, count, room, |name, cache, data_room| {
            // SAFETY: the environment is up and the name is a C string.
            unsafe { sys::rte_pktmbuf_pool_create(name.as_ptr(), count, cache, 0, data_room, socket(node)) }
        })
    }

    /// Makes a pool as one piece of memory without gaps, which an AF_XDP socket can use. With hugepages, no buffer crosses from a page to
    /// the next: there may be some fewer.
    pub fn in_one_piece(eal: &Eal, node: Option<usize>, what: &str, count: u32, room: usize) -> Result<Self, Error> {
        Self::make(eal, what, count, room, |name, cache, data_room| {
            // SAFETY: the environment is up and the name is a C string.
            unsafe { sys::spate_pool_in_one_piece(name.as_ptr(), count, cache, data_room, socket(node)) }
        })
    }

    fn make(
        _: &Eal,
        what: &str,
        count: u32,
        room: usize,
        create: impl FnOnce(&CStr, u32, u16) -> *mut sys::rte_mempool,
    ) -> Result<Self, Error> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        quarantine::sweep();
        let name = CString::new(format!("spate{}", SERIAL.fetch_add(1, Ordering::Relaxed))).expect("no NUL in it");
        let mark = Mark::now();
        // SAFETY: the environment is up; finds the field again that it registered before.
        let note_offset = unsafe { sys::spate_note_offset() };
        let Ok(note_offset) = u32::try_from(note_offset) else {
            return Err(Error::from_code("reserving a field of packet descriptors", -note_offset, mark));
        };
        // Packets are written in pieces of 64 bytes.
        let room = room.next_multiple_of(64);
        let data_room = u16::try_from(room + HEADROOM).expect("packets are shorter than 64 KiB");
        // A cache may hold half as much again as its size, and must not starve other threads.
        let cache = if count >= 4 * CACHE { CACHE } else { 0 };
        match NonNull::new(create(&name, cache, data_room)) {
            Some(raw) => {
                // SAFETY: a pool of which no buffer was taken.
                let count = unsafe { sys::rte_mempool_avail_count(raw.as_ptr()) };
                let receives = AtomicBool::new(false);
                Ok(Self { inner: Arc::new(Inner { raw, count, room, note_offset, receives }) })
            }
            None if last_errno() == libc::ENOMEM => {
                Err(Error::NoMemory { what: what.to_owned(), wanted_kib: Self::bytes(count, room).div_ceil(1024) })
            }
            None => Err(Error::from_code(format!("making packet memory for {what}"), last_errno(), mark)),
        }
    }

    /// About how much memory a pool takes.
    pub fn bytes(count: u32, room: usize) -> u64 {
        u64::from(count) * (room + HEADROOM + OVERHEAD) as u64
    }

    /// Longest packet that fits into a buffer.
    pub fn room(&self) -> usize {
        self.inner.room
    }

    /// A device receives into its buffers from now on: no note says what they hold.
    pub(crate) fn receive(&self) {
        self.inner.receives.store(true, Ordering::Relaxed);
    }

    pub(crate) fn receives(&self) -> bool {
        self.inner.receives.load(Ordering::Relaxed)
    }

    pub(crate) fn note_offset(&self) -> u32 {
        self.inner.note_offset
    }

    pub(crate) fn raw(&self) -> *mut sys::rte_mempool {
        self.inner.raw.as_ptr()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let count = self.count;
        // SAFETY: made by rte_pktmbuf_pool_create, and only holders of its buffers use it.
        quarantine::rest(
            "a pool",
            self.raw,
            move |pool| unsafe { sys::rte_mempool_avail_count(pool.as_ptr()) } == count,
        );
    }
}
