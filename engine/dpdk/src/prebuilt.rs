// SPDX-License-Identifier: Apache-2.0
//! Packets that are written once and sent again and again.
//!
//! Their pool's operations only count what a driver frees, so a packet may be sent again while a device still holds it: its
//! bytes never change, and its header is reset to the same values.
use std::{
    cell::Cell,
    ffi::CString,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, Ordering},
};

use spate_dpdk_sys as sys;

use crate::{
    Eal, Error,
    error::last_errno,
    log::Mark,
    mbuf::{Mbuf, frame},
    mempool::{HEADROOM, Mempool},
    quarantine,
};

/// Packets in their order. Dropped, they stay allocated until every device has let go of them.
pub struct Prebuilt {
    pool: NonNull<sys::rte_mempool>,
    packets: Box<[Mbuf]>,
    /// Bytes that each has room for.
    room: usize,
    /// How often packets were borrowed.
    borrowed: Cell<u64>,
}

// SAFETY: one thread at a time uses the packets; the pool itself is only read.
unsafe impl Send for Prebuilt {}
impl Prebuilt {
    /// Makes `count` packets for up to `room` bytes each, to be written by `frames_mut`. `what` is for messages.
    pub fn new(_: &Eal, what: &str, count: usize, room: usize) -> Result<Self, Error> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        quarantine::sweep();
        let name = CString::new(format!("built{}", SERIAL.fetch_add(1, Ordering::Relaxed))).expect("no NUL in it");
        let mark = Mark::now();
        let room = room.next_multiple_of(64);
        let data_room = u16::try_from(room + HEADROOM).expect("packets are shorter than 64 KiB");
        let mut packets: Box<[Mbuf]> = vec![ptr::null_mut(); count].into();
        // SAFETY: the environment is up, the name is a C string, and there is room for `count` pointers.
        let raw = unsafe { sys::spate_prebuilt_create(name.as_ptr(), count as u32, data_room, packets.as_mut_ptr()) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Self { pool: raw, packets, room, borrowed: Cell::new(0) }),
            None if last_errno() == libc::ENOMEM => Err(Error::NoMemory {
                what: what.to_owned(),
                wanted_kib: Mempool::bytes(count as u32, room).div_ceil(1024),
            }),
            None => Err(Error::from_code(format!("making packet memory for {what}"), last_errno(), mark)),
        }
    }

    /// Makes the packets from `first` on as long as `lens` says and gives the bytes of each and those behind them up to a
    /// multiple of 64, to be written. Only before any was sent.
    ///
    /// # Panics
    /// If there are fewer packets, their buffers are shorter, or some were sent.
    pub fn frames_mut<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]> {
        assert_eq!(self.borrowed.get(), 0, "what was sent must not change");
        let room = self.room;
        let packets = self.packets[first..][..lens.len()].iter().zip(lens);
        // SAFETY: valid mbufs of one segment without other references, with that much room.
        packets.map(move |(&packet, &len)| unsafe { frame(packet, len, room) })
    }

    pub(crate) fn raw(&self) -> *mut sys::rte_mempool {
        self.pool.as_ptr()
    }

    /// Borrows packets from number `from` on, around without end: whoever frees them gives them back.
    #[inline]
    pub(crate) fn borrow(&self, from: u64, out: &mut [Mbuf]) {
        self.borrowed.set(self.borrowed.get() + out.len() as u64);
        let mut at = (from % self.packets.len() as u64) as usize;
        let mut rest = out;
        while !rest.is_empty() {
            let run = (self.packets.len() - at).min(rest.len());
            let (now, later) = rest.split_at_mut(run);
            now.copy_from_slice(&self.packets[at..at + run]);
            (rest, at) = (later, 0);
        }
    }
}

impl Drop for Prebuilt {
    fn drop(&mut self) {
        let borrowed = self.borrowed.get();
        // SAFETY: a live pool.
        quarantine::rest(
            "prebuilt",
            self.pool,
            move |pool| unsafe { sys::spate_prebuilt_returned(pool.as_ptr()) } == borrowed,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use std::thread;

    #[test]
    fn packets_that_several_workers_free_are_all_counted() {
        const EACH: usize = 100_000;
        let eal = Eal::init(Memory::Normal { bytes: 32 << 20 }, &[], &[0], &[&[0]]).unwrap();
        let prebuilt = Prebuilt::new(&eal, "shared", 8, 2048).unwrap();
        let mut packets = [ptr::null_mut(); 8];
        prebuilt.borrow(0, &mut packets);
        let addresses = packets.map(|packet| packet as usize);
        thread::scope(|scope| {
            // Workers that receive from one loopback do the same: each frees packets of its own.
            for own in addresses.chunks(4) {
                scope.spawn(move || {
                    for _ in 0..EACH {
                        let mut own: Vec<_> = own.iter().map(|&packet| packet as Mbuf).collect();
                        // SAFETY: packets of a pool that only counts what is freed; no other thread has these.
                        unsafe { sys::spate_free_bulk(own.as_mut_ptr(), own.len() as u32) };
                    }
                });
            }
        });
        // SAFETY: a live pool.
        let returned = unsafe { sys::spate_prebuilt_returned(prebuilt.raw()) };
        assert_eq!(returned, 2 * 4 * EACH as u64);
        prebuilt.borrowed.set(returned);
    }
}
