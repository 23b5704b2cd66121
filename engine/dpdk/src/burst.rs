// SPDX-License-Identifier: Apache-2.0
//! A burst: up to 64 packets that one worker builds and sends, or has received.
use std::{arch::asm, ops::Range, ptr, slice};

use spate_dpdk_sys as sys;

use crate::{
    Mempool, Prebuilt, RxQueue, TxQueue,
    mbuf::{BURST, Mbuf, begin, field, frame, head, note, segment, stamp},
    mempool::HEADROOM,
};

/// Bytes of a packet that are written whether or not the buffer's note says that it holds them.
const PIECE: usize = 64;

/// What is left of a packet to the device: checksums, at least. Its bytes must be as DPDK asks for (rte_mbuf_core.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxOffload {
    /// Bytes of the Ethernet header with tags.
    pub l2: u8,
    /// Bytes of the IP header.
    pub l3: u8,
    /// Bytes of the transport's header.
    pub l4: u8,
    /// IPv6, else IPv4.
    pub v6: bool,
    /// TCP, else UDP.
    pub tcp: bool,
    /// Bytes of data of each segment that it is cut into; 0: it is not.
    pub segment: u16,
}

/// Outcome of offering packets to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// The device took this many from the front.
    Taken(usize),
    /// The device can do nothing with the first packet, which is freed.
    Refused,
}

/// Packets in order; those it holds it owns, and frees when dropped.
pub struct Burst {
    /// `packets[head..tail]` are valid mbufs without other references.
    packets: [Mbuf; BURST],
    head: usize,
    tail: usize,
    /// A device has just written them.
    received: bool,
    /// Packets of the last `alloc`, of which there is no other pointer.
    fresh: Range<usize>,
    /// Bytes that each of them has room for.
    room: usize,
    /// Where they have their notes, and whether these hold.
    note_offset: u32,
    notes_hold: bool,
    /// Where all packets go when freed; null if they go to several pools, or that is not known.
    pool: *mut sys::rte_mempool,
}

// SAFETY: an mbuf may be used by any thread, one at a time; a burst is its only user.
unsafe impl Send for Burst {}

impl Burst {
    /// Holds nothing.
    pub const fn new() -> Self {
        Self {
            packets: [ptr::null_mut(); BURST],
            head: 0,
            tail: 0,
            received: false,
            fresh: 0..0,
            room: 0,
            note_offset: 0,
            notes_hold: false,
            pool: ptr::null_mut(),
        }
    }

    /// Packets held.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Whether the burst has no packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Adds `count` packets of undefined content and length at the end, to be written; adds none if the pool has not that
    /// many.
    ///
    /// # Panics
    /// If there is no room for them. Room is what was sent or taken only once the burst is empty.
    #[inline]
    #[must_use]
    pub fn alloc(&mut self, pool: &Mempool, count: usize) -> bool {
        self.expect_from(pool.raw());
        let free = &mut self.packets[self.tail..][..count];
        // SAFETY: `free` has room for `count` pointers; the pool lives. Buffers lie in a pool of mbufs as they were made:
        // one segment, one user (rte_pktmbuf_free sees to that).
        let code = unsafe { sys::spate_take_bulk(pool.raw(), free.as_mut_ptr(), count as u32) };
        if code == 0 {
            self.fresh = self.tail..self.tail + count;
            self.room = pool.room();
            self.note_offset = pool.note_offset();
            self.notes_hold = !pool.receives();
            self.tail += count;
        }
        code == 0
    }

    /// Fetches the descriptors and first bytes of the packets of the last `alloc`, to be written soon, if another core or a
    /// device had them last: all at once, where the first write to each would wait for them one after the other.
    #[inline]
    pub fn fetch(&self) {
        const FIRST_BYTE: usize = size_of::<sys::rte_mbuf>() + HEADROOM;
        for &packet in &self.packets[self.fresh.clone()] {
            // SAFETY: hints, which any address will do for. (No intrinsic gives PREFETCHW without a target feature that
            // x86-64-v3 has not; every processor that knows AVX2 takes it.)
            unsafe {
                asm!(
                    "prefetchw [{packet}]",
                    "prefetchw [{packet} + {first_byte}]",
                    packet = in(reg) packet,
                    first_byte = const FIRST_BYTE,
                    options(nostack, preserves_flags, readonly)
                );
            }
        }
    }

    /// Makes a packet of the last `alloc`, counted from the burst's first, `len` bytes long and gives its bytes, to be
    /// written.
    ///
    /// # Panics
    /// If it is none of the last `alloc`, or the pool's buffers are shorter.
    #[inline]
    pub fn frame_mut(&mut self, index: usize, len: usize) -> &mut [u8] {
        let place = self.head + index;
        assert!(self.fresh.contains(&place), "not newly allocated");
        let packet = self.packets[place];
        assert!(len <= self.room, "longer than the pool's packets");
        // SAFETY: as in `noted_mut`.
        unsafe {
            if len > PIECE {
                *note(packet, self.note_offset) = 0;
            }
            slice::from_raw_parts_mut(begin(packet, len as u16), len)
        }
    }

    /// Makes packets of the last `alloc`, the first of them counted from the burst's first, as long as `lens` says, and gives
    /// the bytes of each and those behind them up to a multiple of 64, to be written, and the buffer's note.
    ///
    /// The note of a buffer is what its writer left there, and so are the buffer's bytes from the 65th on, however often it was sent and
    /// freed since. It is 0 if they are not known: nothing was left, or they were written by other means, which are `frame_mut` and a
    /// device that receives into the pool. (`pieces_mut` and `fill` write the first 64 bytes only.)
    ///
    /// # Panics
    /// As `frame_mut`.
    #[inline]
    pub fn noted_mut<'a>(
        &'a mut self,
        first: usize,
        lens: &'a [u16],
    ) -> impl Iterator<Item = (&'a mut [u8], &'a mut u64)> {
        let (room, offset, hold) = (self.room, self.note_offset, self.notes_hold);
        let packets = self.fresh_packets(first, lens.len()).iter().zip(lens);
        // SAFETY: valid mbufs of one segment that only we refer to, no two in the burst the same, with that much room and a note.
        packets.map(move |(&packet, &len)| unsafe {
            let note = note(packet, offset);
            if !hold {
                *note = 0;
            }
            (frame(packet, len, room), note)
        })
    }

    /// The bytes of packets of at most 64 bytes, in the same way.
    ///
    /// # Panics
    /// As `frame_mut`; if one is longer.
    #[inline]
    pub fn pieces_mut<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8; 64]> {
        assert!(self.room >= 64, "longer than the pool's packets");
        self.fresh_packets(first, lens.len()).iter().zip(lens).map(|(&packet, &len)| {
            assert!(len <= 64, "longer than a piece");
            // SAFETY: as in `noted_mut`.
            unsafe { &mut *begin(packet, len).cast() }
        })
    }

    /// Writes whole packets of the last `alloc`, the first of them counted from the burst's first: the first `lens` bytes, at
    /// most 64, of each of `pieces`.
    ///
    /// # Panics
    /// As `pieces_mut`; if there are not as many `lens` as `pieces`.
    #[inline]
    pub fn fill(&mut self, first: usize, pieces: &[[u8; 64]], lens: &[u16]) {
        assert!(self.room >= 64, "longer than the pool's packets");
        assert!(lens.len() == pieces.len() && lens.iter().copied().fold(0, u16::max) <= 64, "longer than a piece");
        for ((&packet, piece), &len) in self.fresh_packets(first, pieces.len()).iter().zip(pieces).zip(lens) {
            // SAFETY: as in `noted_mut`.
            unsafe { begin(packet, len).cast::<[u8; 64]>().write(*piece) }
        }
    }

    /// Leaves a part of the work on a packet of the last `alloc`, counted from the burst's first, to the device, after
    /// `frame_mut` and until the next.
    ///
    /// # Panics
    /// If it is none of the last `alloc`.
    #[inline]
    pub fn request_offload(&mut self, index: usize, left: &TxOffload) {
        let packet = self.fresh_packets(index, 1)[0];
        let ip = if left.v6 { sys::SPATE_TX_IPV6 } else { sys::SPATE_TX_IPV4 };
        let transport = if left.tcp { sys::SPATE_TX_TCP } else { sys::SPATE_TX_UDP };
        let cut = if left.segment > 0 { sys::SPATE_TX_TSO } else { 0 };
        let lengths = u64::from(left.l2) << sys::SPATE_TX_L2_SHIFT
            | u64::from(left.l3) << sys::SPATE_TX_L3_SHIFT
            | u64::from(left.l4) << sys::SPATE_TX_L4_SHIFT
            | u64::from(left.segment) << sys::SPATE_TX_SEGMENT_SHIFT;
        // SAFETY: fields of a valid mbuf that only we refer to.
        unsafe {
            field::<u64>(packet, sys::SPATE_MBUF_OL_FLAGS).write(ip | transport | cut);
            field::<u64>(packet, sys::SPATE_MBUF_TX_OFFLOAD).write(lengths);
        }
    }

    /// Whether the device says that the checksum of the TCP or UDP in packet `index` is right. What it says is wrong, did not
    /// look at, or has none yet (a virtual host's) is to be verified.
    ///
    /// # Panics
    /// If there is no such packet.
    #[inline]
    pub fn is_verified(&self, index: usize) -> bool {
        let packet = self.packets[self.head..self.tail][index];
        // SAFETY: a valid mbuf.
        let flags = unsafe { field::<u64>(packet, sys::SPATE_MBUF_OL_FLAGS).read() };
        flags & u64::from(sys::SPATE_RX_L4_MASK) == u64::from(sys::SPATE_RX_L4_GOOD)
    }

    /// The counter of the queue's device when packet `index` arrived; none if the device did not stamp it.
    ///
    /// # Panics
    /// If there is no such packet.
    #[inline]
    pub fn stamp(&self, index: usize, queue: &RxQueue) -> Option<u64> {
        // SAFETY: a valid mbuf.
        queue.stamps().and_then(|at| unsafe { stamp(self.packets[self.head..self.tail][index], at) })
    }

    #[inline]
    fn fresh_packets(&self, first: usize, count: usize) -> &[Mbuf] {
        let range = self.head + first..self.head + first + count;
        assert!(self.fresh.start <= range.start && range.end <= self.fresh.end, "not newly allocated");
        &self.packets[range]
    }

    /// Adds prebuilt packets, from number `from` on, around without end.
    ///
    /// # Panics
    /// If there is no room for them.
    #[inline]
    pub fn repeat(&mut self, prebuilt: &Prebuilt, from: u64, count: usize) {
        self.expect_from(prebuilt.raw());
        prebuilt.borrow(from, &mut self.packets[self.tail..][..count]);
        self.tail += count;
    }

    /// Writes the bytes without FCS of the packets from `first` on to `lens`.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn lens(&self, first: usize, lens: &mut [u16]) {
        for (len, &packet) in lens.iter_mut().zip(&self.packets[self.head..self.tail][first..]) {
            // SAFETY: a valid mbuf.
            *len = unsafe { field::<u16>(packet, sys::SPATE_MBUF_DATA_LEN).read() };
        }
    }

    /// Bytes of packet `index`, without FCS.
    ///
    /// # Panics
    /// If there is no such packet.
    #[inline]
    pub fn frame_len(&self, index: usize) -> usize {
        let packet = self.packets[self.head..self.tail][index];
        // SAFETY: a valid mbuf.
        unsafe { field::<u32>(packet, sys::SPATE_MBUF_PKT_LEN).read() as usize }
    }

    /// First segments of all packets, as `head` gives them.
    #[inline]
    pub fn heads(&self) -> impl Iterator<Item = &[u8]> {
        // SAFETY: valid mbufs of ours.
        self.packets[self.head..self.tail].iter().map(|&packet| unsafe { head(packet) })
    }

    /// The bytes of packet `index` that its first segment holds: all, unless it was received in several.
    ///
    /// # Panics
    /// If there is no such packet.
    #[inline]
    pub fn head(&self, index: usize) -> &[u8] {
        // SAFETY: a valid mbuf of ours.
        unsafe { head(self.packets[self.head..self.tail][index]) }
    }

    /// The bytes that [`Self::head`] gives, to be changed; none if they may have other users, as on a loopback.
    ///
    /// # Panics
    /// If there is no such packet.
    #[inline]
    pub fn head_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let packet = self.packets[self.head..self.tail][index];
        // SAFETY: a valid mbuf; what a device received has no other user.
        self.received.then(|| unsafe {
            let (bytes, len) = segment(packet);
            slice::from_raw_parts_mut(bytes, len)
        })
    }

    /// Keeps the packets for which `keep` is true of their first segment's bytes, which it may change; frees the others, and
    /// those that may have other users.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut [u8]) -> bool) {
        let mut kept = 0;
        for index in 0..self.len() {
            if self.head_mut(index).is_some_and(&mut keep) {
                self.packets.swap(self.head + kept, self.head + index);
                kept += 1;
            }
        }
        // Others lie where they lay.
        self.fresh = 0..0;
        let others = &mut self.packets[self.head + kept..self.tail];
        if !others.is_empty() {
            // SAFETY: valid mbufs of ours.
            unsafe { sys::spate_free_bulk(others.as_mut_ptr(), others.len() as u32) };
        }
        self.tail = self.head + kept;
    }

    /// The last `N` bytes of packet `index`; none if it is shorter.
    ///
    /// # Panics
    /// If there is no such packet.
    #[inline]
    pub fn tail<const N: usize>(&self, index: usize) -> Option<[u8; N]> {
        let packet = self.packets[self.head..self.tail][index];
        // SAFETY: a valid mbuf; a single segment's data is `data_len` bytes from `buf_addr + data_off` on; the shim copies
        // at most `N` bytes into `bytes`.
        unsafe {
            if field::<u16>(packet, sys::SPATE_MBUF_NB_SEGS).read() == 1 {
                let len = field::<u16>(packet, sys::SPATE_MBUF_DATA_LEN).read() as usize;
                let offset = field::<u16>(packet, sys::SPATE_MBUF_DATA_OFF).read() as usize;
                let buffer = field::<*const u8>(packet, sys::SPATE_MBUF_BUF_ADDR).read();
                return slice::from_raw_parts(buffer.add(offset), len).last_chunk().copied();
            }
            let mut bytes = [0; N];
            sys::spate_copy_tail(packet, N as u32, bytes.as_mut_ptr().cast()).then_some(bytes)
        }
    }

    /// Lengths without FCS and the last `N` bytes of all packets; zeros where a packet is shorter. All at once, so that
    /// packets that are not in a cache are waited for together.
    #[inline]
    pub fn tails<const N: usize>(&self, lens: &mut [u32; BURST], tails: &mut [[u8; N]; BURST]) {
        for index in 0..self.len() {
            lens[index] = self.frame_len(index) as u32;
            tails[index] = self.tail(index).unwrap_or([0; N]);
        }
    }

    /// Lengths without FCS of all packets, whose first `LINES` times 64 bytes are fetched at once: they are read next.
    #[inline]
    pub fn lens_and_fetch<const LINES: usize>(&self, lens: &mut [u32; BURST]) {
        for (len, &packet) in lens.iter_mut().zip(&self.packets[self.head..self.tail]) {
            // SAFETY: a valid mbuf; and a hint, which any address will do for.
            unsafe {
                *len = field::<u32>(packet, sys::SPATE_MBUF_PKT_LEN).read();
                let first = segment(packet).0.cast::<u8>();
                for line in 0..LINES {
                    spate_arch::fetch_line(first.wrapping_add(64 * line));
                }
            }
        }
    }

    /// Offers all packets to the device, in order. Returns how many it took from the front; the others are still held.
    #[inline]
    pub fn send(&mut self, queue: &mut TxQueue) -> usize {
        let taken = self.send_first(queue, self.len());
        self.fresh = 0..0;
        taken
    }

    /// Sends the first `count` packets. Packets of the last `alloc` behind them may still be written.
    ///
    /// # Panics
    /// If it holds fewer.
    #[inline]
    pub fn send_first(&mut self, queue: &mut TxQueue, count: usize) -> usize {
        let held = &mut self.packets[self.head..self.tail][..count];
        let (port, index) = (queue.port(), queue.index());
        if let Some(waiting) = queue.waiting() {
            // SAFETY: as below.
            let taken = unsafe { waiting.send(port, index, held) };
            self.head += taken;
            return taken;
        }
        // SAFETY: `held` are valid mbufs of ours; those taken become the driver's. The queue is started and not shared.
        let taken = unsafe {
            match queue.loopback() {
                Some(loopback) => loopback.send(queue.index(), held),
                None if queue.is_null() && !self.pool.is_null() => {
                    // All of one pool, with no other reference: they are returned to it without a look at any.
                    sys::spate_put_bulk(self.pool, held.as_mut_ptr(), held.len() as u32);
                    held.len()
                }
                None => sys::spate_tx_burst(port, index, held.as_mut_ptr(), held.len() as u16).into(),
            }
        };
        self.head += taken;
        taken
    }

    /// `send_first` of packets of which something may be left to the device.
    ///
    /// # Panics
    /// If it holds fewer.
    #[inline]
    pub fn send_unfinished(&mut self, queue: &mut TxQueue, count: usize) -> Offered {
        let held = &mut self.packets[self.head..self.tail][..count];
        let mut refused = false;
        // SAFETY: as in `send_first`; one that is refused stays ours and is freed.
        unsafe {
            let (port, index) = (queue.port(), queue.index());
            let taken =
                sys::spate_tx_prepared_burst(port, index, held.as_mut_ptr(), held.len() as u16, &raw mut refused);
            if refused {
                sys::spate_free_bulk(held.as_mut_ptr(), 1);
                self.head += 1;
                return Offered::Refused;
            }
            self.head += usize::from(taken);
            Offered::Taken(taken.into())
        }
    }

    /// Frees what it holds and reads what has arrived. Returns how many packets that is.
    #[inline]
    pub fn receive(&mut self, queue: &mut RxQueue) -> usize {
        self.clear();
        // SAFETY: there is room for BURST pointers. The queue is started and not shared.
        let got = unsafe { sys::spate_rx_burst(queue.port(), queue.index(), self.packets.as_mut_ptr(), BURST as u16) };
        self.tail = usize::from(got);
        self.pool = ptr::null_mut();
        self.received = !queue.is_loopback();
        self.tail
    }

    /// Frees what it holds.
    #[inline]
    pub fn clear(&mut self) {
        let held = &mut self.packets[self.head..self.tail];
        if !held.is_empty() {
            // SAFETY: valid mbufs of ours.
            unsafe { sys::spate_free_bulk(held.as_mut_ptr(), held.len() as u32) };
        }
        self.head = 0;
        self.tail = 0;
        self.fresh = 0..0;
        self.received = false;
    }

    /// Packets of a pool are about to be added.
    #[inline]
    fn expect_from(&mut self, pool: *mut sys::rte_mempool) {
        if self.head == self.tail {
            self.head = 0;
            self.tail = 0;
            self.fresh = 0..0;
            self.pool = pool;
        } else if self.pool != pool {
            self.pool = ptr::null_mut();
        }
        // Packets that others use too may follow those that were received.
        self.received = false;
    }
}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Configured, Device, Eal, Memory, Port, QueueSizes, UseOffloads, stamp::StampField};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn writable(burst: &mut Burst, index: usize) -> bool {
        catch_unwind(AssertUnwindSafe(|| burst.frame_mut(index, 60).fill(1))).is_ok()
    }

    #[test]
    fn only_packets_of_the_last_alloc_can_be_written() {
        let eal = Eal::init(Memory::Normal { bytes: 32 << 20 }, &[], &[0], &[&[0]]).unwrap();
        let pool = Mempool::new(&eal, "written", 63, 2048).unwrap();
        let port = Port::<Configured>::open(&eal, &Device::Null, 1, 1, UseOffloads::None).unwrap();
        let (_port, _rx, mut tx) = port.start(QueueSizes { rx: 64, tx: 64 }, &pool).unwrap();
        let prebuilt = Prebuilt::new(&eal, "repeated", 8, 2048).unwrap();
        let mut burst = Burst::new();
        for send_all in
            [Burst::send as fn(&mut Burst, &mut TxQueue) -> usize, |burst, tx| burst.send_first(tx, burst.len())]
        {
            assert!(burst.alloc(&pool, 8));
            assert!(writable(&mut burst, 7) && !writable(&mut burst, 8));
            assert_eq!(send_all(&mut burst, &mut tx[0]), 8);
            assert!((0..8).all(|index| !writable(&mut burst, index)));
            // More than there are: nothing is held.
            assert!(!burst.alloc(&pool, BURST));
            assert!(burst.is_empty() && (0..8).all(|index| !writable(&mut burst, index)));
            burst.repeat(&prebuilt, 0, 8);
            assert!((0..8).all(|index| !writable(&mut burst, index) && burst.head_mut(index).is_none()));
            assert!(burst.alloc(&pool, 2));
            assert!(!writable(&mut burst, 7) && writable(&mut burst, 9));
            // No packet of the burst was received: all are freed.
            burst.retain(|_| true);
            assert!(burst.is_empty() && (0..10).all(|index| !writable(&mut burst, index)));
        }
    }

    /// Writes and frees all packets of a pool, each with `len` bytes; returns the notes that were there, and leaves `leave`.
    fn write_all(pool: &Mempool, len: u16, leave: u64) -> Vec<u64> {
        let mut bursts = Vec::new();
        let mut notes = Vec::new();
        loop {
            let mut burst = Burst::new();
            if !burst.alloc(pool, 1) {
                return notes;
            }
            for (frame, note) in burst.noted_mut(0, &[len]) {
                assert_eq!(frame.len(), usize::from(len).next_multiple_of(64));
                notes.push(std::mem::replace(note, leave));
            }
            bursts.push(burst);
        }
    }

    #[test]
    fn a_packet_has_a_time_stamp_where_its_flag_says_so() {
        let eal = Eal::init(Memory::Normal { bytes: 32 << 20 }, &[], &[0], &[&[0]]).unwrap();
        let pool = Mempool::new(&eal, "stamped", 7, 2048).unwrap();
        let at = StampField::register().unwrap();
        assert_eq!(StampField::register().unwrap(), at, "all ports have one field");
        assert!(at.flag.is_power_of_two() && at.offset.is_multiple_of(8), "{at:?}");
        let mut burst = Burst::new();
        assert!(burst.alloc(&pool, 2));
        (0..2).for_each(|index| burst.frame_mut(index, 60).fill(1));
        // SAFETY: valid mbufs that only the burst refers to; the field is registered.
        let stamps = unsafe {
            for &packet in &burst.packets[..2] {
                field::<u64>(packet, at.offset).write(1 << 63 | 7);
            }
            *field::<u64>(burst.packets[1], sys::SPATE_MBUF_OL_FLAGS) |= at.flag;
            [stamp(burst.packets[0], at), stamp(burst.packets[1], at)]
        };
        assert_eq!(stamps, [None, Some(1 << 63 | 7)]);
        // A port whose device stamps nothing has no field, whatever a buffer holds.
        let port = Port::<Configured>::open(&eal, &Device::Null, 1, 1, UseOffloads::None).unwrap();
        let (port, rx, _tx) = port.start(QueueSizes { rx: 64, tx: 64 }, &pool).unwrap();
        assert!(!port.offers_stamps() && port.counter().is_none());
        assert_eq!(burst.stamp(1, &rx[0]), None);
    }

    #[test]
    fn notes_stay_until_others_write_behind_the_first_64_bytes() {
        const PACKETS: usize = 7;
        let eal = Eal::init(Memory::Normal { bytes: 32 << 20 }, &[], &[0], &[&[0]]).unwrap();
        let pool = Mempool::new(&eal, "noted", PACKETS as u32, 2048).unwrap();
        assert_eq!(write_all(&pool, 100, 5), [0; PACKETS]);
        assert_eq!(write_all(&pool, 200, 6), [5; PACKETS]);
        let mut burst = Burst::new();
        assert!(burst.alloc(&pool, 3));
        burst.pieces_mut(0, &[60]).for_each(|piece| piece.fill(1));
        burst.fill(1, &[[2; 64]], &[64]);
        burst.frame_mut(2, 64).fill(3);
        burst.clear();
        assert_eq!(write_all(&pool, 100, 7), [6; PACKETS]);
        assert!(burst.alloc(&pool, 2));
        burst.frame_mut(1, 65).fill(4);
        burst.clear();
        let mut notes = write_all(&pool, 100, 8);
        notes.sort_unstable();
        assert_eq!(notes, [0, 7, 7, 7, 7, 7, 7]);
        // A device writes where it likes.
        pool.receive();
        assert_eq!(write_all(&pool, 100, 9), [0; PACKETS]);
    }
}
