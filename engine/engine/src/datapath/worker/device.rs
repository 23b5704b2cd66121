// SPDX-License-Identifier: Apache-2.0
//! What a worker needs of a clock and of a device. A worker is generic over it, with static dispatch: the same loop sends by DPDK
//! (`dpdk`) and in virtual time (`simulated`).
use std::{ops::Range, sync::Arc, time::Duration};

use spate_dpdk::{BURST, Offered, Offloads, TxOffload};

use crate::datapath::{clock::Timescale, shared::WorkerShare};
use crate::index::StreamIndex;

/// A clock, packet memory, and queues that belong together.
pub(in crate::datapath) trait Device: Sized + 'static {
    /// Shortest frame that is sent, in bytes without FCS: shorter ones are padded.
    const MIN_FRAME: usize;
    /// Whether the device reads what `Packets::note` notes; else nothing is noted.
    const TRACES: bool;

    type Clock: Time;
    type Idle: IdleStrategy<Self>;
    type Pool: Pool;
    type Prebuilt;
    type Burst: Packets<Self>;
    type Tx: TxDevice;
    type Rx: RxDevice;
}

/// A monotonic clock, and the wall clock beside it.
pub(in crate::datapath) trait Time {
    /// Nanoseconds that never jump nor go back, from an arbitrary start.
    fn mono_ns(&self) -> u64;
    /// Nanoseconds since the epoch.
    fn now_wall_ns(&self) -> u64;
    /// The wall-clock time of a monotonic instant.
    fn wall_of(&self, mono_ns: u64) -> u64;
    /// The wall clock as a scale of time stamps.
    fn wall_timescale(&self) -> &Arc<Timescale>;
}

/// What a worker does when a pass of its loop found nothing to do.
pub(in crate::datapath) trait IdleStrategy<D: Device> {
    /// Whether the worker may sleep; else it polls.
    fn may_sleep(&self) -> bool;
    /// Yields a shared CPU to other threads; work comes soon.
    fn yield_now(&self);
    /// Sleeps until shortly before the monotonic instant `until`, a packet or a command; `expecting`: a run may receive.
    fn rest(&self, now: u64, until: u64, expecting: bool, awaited: &impl Awaited<D>, share: &WorkerShare);
}

/// What ends a worker's rest.
pub(in crate::datapath) trait Awaited<D: Device> {
    /// The queues that packets can arrive on.
    fn queues(&self) -> impl Iterator<Item = &D::Rx>;
    /// Other workers may hand packets over.
    fn has_peers(&self) -> bool;
    /// A command waits.
    fn is_called(&self) -> bool;
}

/// Packet memory.
pub(in crate::datapath) trait Pool: Clone {
    /// Longest packet that fits into a buffer.
    fn room(&self) -> usize;
}

/// A queue to send on.
pub(in crate::datapath) trait TxDevice {
    /// Offloads of the device that are in use.
    fn offloads(&self) -> Offloads;
    /// The device takes every packet and touches none.
    fn is_null(&self) -> bool;
    /// Makes the device send what it took. True if nothing is left in it.
    fn flush(&mut self) -> bool;
    /// How often `maintain` is to be called; none: never.
    fn maintenance_interval(&self) -> Option<Duration>;
    /// Does what the device leaves to its user.
    fn maintain(&mut self);
    /// The device gives back what it has sent.
    fn reclaim(&mut self);
}

/// A queue to receive from.
pub(in crate::datapath) trait RxDevice {
    /// The device marks packets whose TCP or UDP checksum is right.
    fn marks_checksums(&self) -> bool;
}

/// Stream and number of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::datapath) struct Origin {
    pub(in crate::datapath) stream: StreamIndex,
    /// Number of the packet in its stream, over all workers.
    pub(in crate::datapath) number: u64,
}

/// A burst: up to `BURST` packets that one worker builds and sends, or has received. `spate_dpdk::Burst` says what each method
/// does in full.
pub(in crate::datapath) trait Packets<D: Device> {
    /// Holds nothing.
    fn new() -> Self;
    /// Packets held.
    fn len(&self) -> usize;
    /// Whether the burst has no packets.
    fn is_empty(&self) -> bool;
    /// Adds `count` packets to be written, or none if the pool has not that many.
    #[must_use]
    fn alloc(&mut self, pool: &D::Pool, count: usize) -> bool;
    /// Fetches into the CPU's caches what will be written of the packets of the last `alloc`.
    fn fetch(&self);
    /// Makes a packet of the last `alloc` `len` bytes long and gives its bytes.
    fn frame_mut(&mut self, index: usize, len: usize) -> &mut [u8];
    /// Makes packets as long as `lens` says and gives the bytes of each, up to a multiple of 64, and the note of its buffer: what its
    /// writer left there, or 0 if the buffer's bytes from the 65th on are not what that writer left, too.
    fn noted_mut<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = (&'a mut [u8], &'a mut u64)>;
    /// The bytes of packets of at most 64 bytes each.
    fn pieces_mut<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8; 64]>;
    /// Writes whole packets of at most 64 bytes.
    fn fill(&mut self, first: usize, pieces: &[[u8; 64]], lens: &[u16]);
    /// Leaves a part of the work on a packet to the device.
    fn request_offload(&mut self, index: usize, left: &TxOffload);
    /// Whether the device says that the checksum of the TCP or UDP in a packet is right.
    fn is_verified(&self, index: usize) -> bool;
    /// The counter of a queue's device when a packet arrived; none if the device did not stamp it.
    fn stamp(&self, index: usize, queue: &D::Rx) -> Option<u64>;
    /// Adds prebuilt packets, from number `from` on, around without end.
    fn repeat(&mut self, prebuilt: &D::Prebuilt, from: u64, count: usize);
    /// Bytes without FCS of the packets from `first` on.
    fn lens(&self, first: usize, lens: &mut [u16]);
    /// Bytes of a packet, without FCS.
    fn frame_len(&self, index: usize) -> usize;
    /// The bytes of a packet that its first segment holds.
    fn head(&self, index: usize) -> &[u8];
    /// First segments of all packets, as `head` gives them.
    fn heads(&self) -> impl Iterator<Item = &[u8]>;
    /// Keeps the packets for which `keep` is true of their bytes, which it may change.
    fn retain(&mut self, keep: impl FnMut(&mut [u8]) -> bool);
    /// Lengths and the last `N` bytes of all packets; zeros where a packet is shorter.
    fn tails<const N: usize>(&self, lens: &mut [u32; BURST], tails: &mut [[u8; N]; BURST]);
    /// Lengths of all packets, whose first `LINES` times 64 bytes are fetched into the CPU's caches.
    fn lens_and_fetch<const LINES: usize>(&self, lens: &mut [u32; BURST]);
    /// Offers all packets to the device, in order. Returns how many it took from the front.
    fn send(&mut self, queue: &mut D::Tx) -> usize;
    /// Sends the first `count` packets.
    fn send_first(&mut self, queue: &mut D::Tx, count: usize) -> usize;
    /// Sends the first `count` packets, which may leave checksums and segmentation to the device.
    fn send_unfinished(&mut self, queue: &mut D::Tx, count: usize) -> Offered;
    /// Frees what it holds and reads what has arrived. Returns how many packets that is.
    fn receive(&mut self, queue: &mut D::Rx) -> usize;
    /// Frees what it holds.
    fn clear(&mut self);
    /// Notes which packets of a stream these are: the first is `origin`, and each is `stride` numbers after the one before.
    /// Called only if the device traces.
    fn note(&mut self, packets: Range<usize>, origin: Origin, stride: u64);
}
