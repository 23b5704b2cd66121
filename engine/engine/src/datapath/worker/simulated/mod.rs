// SPDX-License-Identifier: Apache-2.0
//! A device and a clock in memory: a worker sends and receives in virtual time, without DPDK. Packets keep their bytes and, where a
//! stream sent them, which of its packets they are.
mod world;

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    ops::Range,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use spate_dpdk::{BURST, Offered, Offloads, TxOffload};
use spate_stateless::{Frames, Template};

use super::device::{Awaited, Device, IdleStrategy, Origin, Packets, Pool, RxDevice, Time, TxDevice};
use crate::datapath::{cache::Cache, clock::Timescale, shared::WorkerShare};
use crate::index::PortIndex;

pub(in crate::datapath) use world::World;

/// Packets are written in pieces of this many bytes.
const PIECE: usize = 64;

/// Packets, queues and time in memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct Simulated;

impl Device for Simulated {
    /// Packets are seen as they are given to a device, which pads them.
    const MIN_FRAME: usize = 0;
    const TRACES: bool = true;

    type Clock = Clock;
    type Idle = Idle;
    type Pool = Unbounded;
    type Prebuilt = Box<[Packet]>;
    type Burst = Burst;
    type Tx = TxEnd;
    type Rx = RxEnd;
}

/// A packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::datapath) struct Packet {
    /// Its bytes without FCS, and room behind them.
    buffer: Vec<u8>,
    len: usize,
    /// What its writer noted of the buffer: buffers are not used again, so each begins with 0.
    note: u64,
    /// Which packet of a stream it is; none: it is of something else.
    origin: Option<Origin>,
    /// The counter of the receiving device when it arrived, if that stamps it.
    stamp: Option<u64>,
}

impl Packet {
    /// Room for a packet of this many bytes, to be written.
    fn write(&mut self, len: usize) -> &mut [u8] {
        self.buffer.resize(len.next_multiple_of(PIECE), 0);
        self.len = len;
        &mut self.buffer
    }

    /// Sets the length as [`Self::write`] does, and returns the packet's note, too.
    fn write_noted(&mut self, len: usize) -> (&mut [u8], &mut u64) {
        self.write(len);
        (&mut self.buffer, &mut self.note)
    }

    /// Its bytes, without FCS.
    pub(in crate::datapath) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The packet as a device receives it that stamps it.
    #[cfg(test)]
    pub(in crate::datapath) fn stamped(self, stamp: u64) -> Self {
        Self { stamp: Some(stamp), ..self }
    }

    /// Its bytes, without FCS.
    pub(in crate::datapath) fn into_bytes(mut self) -> Vec<u8> {
        self.buffer.truncate(self.len);
        self.buffer
    }

    /// Which packet of a stream it is; none: it is of something else.
    pub(in crate::datapath) fn origin(&self) -> Option<Origin> {
        self.origin
    }
}

impl Frames for Packet {
    fn frames<'a>(&'a mut self, _: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]> {
        lens.first().map(|&len| self.write(len.into())).into_iter()
    }
}

/// Packets of a cache that are being written.
struct CachedPackets(Vec<Packet>);

impl Frames for CachedPackets {
    fn frames<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]> {
        self.0[first..].iter_mut().zip(lens).map(|(packet, &len)| packet.write(len.into()))
    }
}

/// The packets of a stream's cache.
pub(in crate::datapath) fn prebuilt(cache: &Cache, template: &Template) -> Box<[Packet]> {
    let mut packets = CachedPackets(vec![Packet::default(); cache.packets]);
    cache.write(template, &mut packets);
    packets.0.into()
}

/// A clock that goes on when the simulation says so. Its wall clock is the monotonic one.
#[derive(Clone, Debug)]
pub(in crate::datapath) struct Clock {
    now_ns: Rc<Cell<u64>>,
    wall: Arc<Timescale>,
}

impl Clock {
    fn new(now_ns: Rc<Cell<u64>>) -> Self {
        Self { now_ns, wall: Arc::new(Timescale::new(0)) }
    }
}

impl Time for Clock {
    fn mono_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn now_wall_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn wall_of(&self, mono_ns: u64) -> u64 {
        mono_ns
    }

    fn wall_timescale(&self) -> &Arc<Timescale> {
        &self.wall
    }
}

/// Instead of being idle, a worker returns until when it would be.
#[derive(Clone, Debug)]
pub(in crate::datapath) struct Idle {
    now_ns: Rc<Cell<u64>>,
    due_ns: Rc<Cell<u64>>,
    /// How long a pass of a polling worker takes.
    poll_ns: u64,
}

impl IdleStrategy<Simulated> for Idle {
    fn may_sleep(&self) -> bool {
        true
    }

    fn yield_now(&self) {
        self.due_ns.set(self.now_ns.get() + self.poll_ns);
    }

    fn rest(&self, now: u64, until: u64, _: bool, _: &impl Awaited<Simulated>, share: &WorkerShare) {
        share.sleeps.add(1);
        // The monotonic clock is signed where runs are on it: what is due behind its end never is.
        let never = until >= i64::MAX.cast_unsigned();
        let due = if until > now { until } else { now + self.poll_ns };
        self.due_ns.set(if never { u64::MAX } else { due });
    }
}

/// Packet memory without end.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct Unbounded;

impl Pool for Unbounded {
    /// More than the longest frame, which is an IP packet of 65,535 bytes with its headers of Ethernet and VLANs.
    fn room(&self) -> usize {
        1 << 18
    }
}

/// How fast a device sends, and how much it takes in advance.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct Speed {
    pub(in crate::datapath) packet_ns: u64,
    /// Packets that its ring holds.
    pub(in crate::datapath) ring: u64,
}

/// A packet that a port was given.
#[derive(Clone, Debug)]
pub(in crate::datapath) struct Sent {
    /// When.
    pub(in crate::datapath) at_ns: u64,
    pub(in crate::datapath) port: PortIndex,
    pub(in crate::datapath) packet: Packet,
}

/// A port to send on.
#[derive(Debug)]
pub(in crate::datapath) struct TxEnd {
    port: PortIndex,
    now_ns: Rc<Cell<u64>>,
    /// Speed of the device; none: it takes everything.
    speed: Rc<Cell<Option<Speed>>>,
    /// When the device has sent all that it took.
    free_at_ns: u64,
    sent: Rc<RefCell<Vec<Sent>>>,
}

impl TxEnd {
    /// Gives it a packet; back, if its ring is full.
    fn give(&mut self, packet: Packet) -> Result<(), Packet> {
        let now = self.now_ns.get();
        if let Some(speed) = self.speed.get() {
            let begins = self.free_at_ns.max(now);
            if begins - now >= speed.packet_ns.saturating_mul(speed.ring) {
                return Err(packet);
            }
            self.free_at_ns = begins + speed.packet_ns;
        }
        self.sent.borrow_mut().push(Sent { at_ns: now, port: self.port, packet });
        Ok(())
    }
}

impl TxDevice for TxEnd {
    fn offloads(&self) -> Offloads {
        Offloads::default()
    }

    fn is_null(&self) -> bool {
        false
    }

    fn flush(&mut self) -> bool {
        true
    }

    fn maintenance_interval(&self) -> Option<Duration> {
        None
    }

    fn maintain(&mut self) {}

    fn reclaim(&mut self) {}
}

/// A port to receive from.
#[derive(Debug)]
pub(in crate::datapath) struct RxEnd(Rc<RefCell<VecDeque<Packet>>>);

impl RxDevice for RxEnd {
    fn marks_checksums(&self) -> bool {
        false
    }
}

/// Packets of one worker.
#[derive(Debug)]
pub(in crate::datapath) struct Burst(VecDeque<Packet>);

impl Burst {
    fn range(&mut self, first: usize, count: usize) -> impl Iterator<Item = &mut Packet> {
        self.0.range_mut(first..first + count)
    }
}

impl Packets<Simulated> for Burst {
    fn new() -> Self {
        Self(VecDeque::with_capacity(BURST))
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn alloc(&mut self, _: &Unbounded, count: usize) -> bool {
        assert!(self.0.len() + count <= BURST, "no room in the burst");
        self.0.resize_with(self.0.len() + count, Packet::default);
        true
    }

    fn fetch(&self) {}

    fn frame_mut(&mut self, index: usize, len: usize) -> &mut [u8] {
        &mut self.0[index].write(len)[..len]
    }

    fn noted_mut<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = (&'a mut [u8], &'a mut u64)> {
        self.range(first, lens.len()).zip(lens).map(|(packet, &len)| packet.write_noted(len.into()))
    }

    fn pieces_mut<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8; PIECE]> {
        self.noted_mut(first, lens).map(|(frame, _)| frame.first_chunk_mut().expect("a piece is written whole"))
    }

    fn fill(&mut self, first: usize, pieces: &[[u8; PIECE]], lens: &[u16]) {
        self.pieces_mut(first, lens).zip(pieces).for_each(|(to, piece)| *to = *piece);
    }

    fn request_offload(&mut self, _: usize, _: &TxOffload) {
        unreachable!("the device has no offloads");
    }

    fn is_verified(&self, _: usize) -> bool {
        false
    }

    fn stamp(&self, index: usize, _: &RxEnd) -> Option<u64> {
        self.0[index].stamp
    }

    fn repeat(&mut self, prebuilt: &Box<[Packet]>, from: u64, count: usize) {
        let first = (from % prebuilt.len() as u64) as usize;
        self.0.extend(prebuilt.iter().cycle().skip(first).take(count).cloned());
    }

    fn lens(&self, first: usize, lens: &mut [u16]) {
        lens.iter_mut().zip(self.0.range(first..)).for_each(|(len, packet)| *len = packet.len as u16);
    }

    fn frame_len(&self, index: usize) -> usize {
        self.0[index].len
    }

    fn head(&self, index: usize) -> &[u8] {
        self.0[index].bytes()
    }

    fn heads(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Packet::bytes)
    }

    fn retain(&mut self, mut keep: impl FnMut(&mut [u8]) -> bool) {
        self.0.retain_mut(|packet| {
            let len = packet.len;
            keep(&mut packet.buffer[..len])
        });
    }

    fn tails<const N: usize>(&self, lens: &mut [u32; BURST], tails: &mut [[u8; N]; BURST]) {
        for ((packet, len), tail) in self.0.iter().zip(lens).zip(tails) {
            *len = packet.len as u32;
            *tail = packet.bytes().last_chunk().copied().unwrap_or([0; N]);
        }
    }

    fn lens_and_fetch<const LINES: usize>(&self, lens: &mut [u32; BURST]) {
        self.0.iter().zip(lens).for_each(|(packet, len)| *len = packet.len as u32);
    }

    fn send(&mut self, queue: &mut TxEnd) -> usize {
        self.send_first(queue, self.0.len())
    }

    fn send_first(&mut self, queue: &mut TxEnd, count: usize) -> usize {
        for taken in 0..count {
            let Some(packet) = self.0.pop_front() else { return taken };
            if let Err(packet) = queue.give(packet) {
                self.0.push_front(packet);
                return taken;
            }
        }
        // What is left was not written: memory costs nothing here, and each burst of flows' packets has room for as many.
        self.0.clear();
        count
    }

    fn send_unfinished(&mut self, queue: &mut TxEnd, count: usize) -> Offered {
        Offered::Taken(self.send_first(queue, count))
    }

    fn receive(&mut self, queue: &mut RxEnd) -> usize {
        let mut waiting = queue.0.borrow_mut();
        let count = waiting.len().min(BURST);
        self.0.clear();
        self.0.extend(waiting.drain(..count));
        count
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn note(&mut self, packets: Range<usize>, origin: Origin, stride: u64) {
        for (packet, number) in self.0.range_mut(packets).zip((origin.number..).step_by(stride as usize)) {
            packet.origin = Some(Origin { number, ..origin });
        }
    }
}
