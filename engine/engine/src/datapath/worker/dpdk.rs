// SPDX-License-Identifier: Apache-2.0
//! A worker on DPDK: its queues are a NIC's, its clock is the time stamp counter.
use std::{ops::Range, sync::Arc, time::Duration};

use spate_dpdk::{BURST, Burst, Mempool, Offered, Offloads, Prebuilt, RxQueue, TxOffload, TxQueue};

use super::{
    Idle,
    device::{Device, Origin, Packets, Pool, RxDevice, Time, TxDevice},
};
use crate::datapath::clock::{Clock, Timescale};

/// Packets in memory of DPDK, on ports of DPDK.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct Dpdk;

impl Device for Dpdk {
    /// IEEE 802.3.
    const MIN_FRAME: usize = spate_net::ethernet::MIN_LEN;
    const TRACES: bool = false;

    type Clock = Clock;
    type Idle = Idle;
    type Pool = Mempool;
    type Prebuilt = Prebuilt;
    type Burst = Burst;
    type Tx = TxQueue;
    type Rx = RxQueue;
}

impl Time for Clock {
    #[inline(always)]
    fn mono_ns(&self) -> u64 {
        Self::mono_ns(self)
    }

    #[inline(always)]
    fn now_wall_ns(&self) -> u64 {
        Self::now_wall_ns(self)
    }

    #[inline(always)]
    fn wall_of(&self, mono_ns: u64) -> u64 {
        Self::wall_of(self, mono_ns)
    }

    #[inline(always)]
    fn wall_timescale(&self) -> &Arc<Timescale> {
        Self::wall_timescale(self)
    }
}

impl Pool for Mempool {
    #[inline(always)]
    fn room(&self) -> usize {
        Self::room(self)
    }
}

impl TxDevice for TxQueue {
    #[inline(always)]
    fn offloads(&self) -> Offloads {
        Self::offloads(self)
    }

    #[inline(always)]
    fn is_null(&self) -> bool {
        Self::is_null(self)
    }

    #[inline(always)]
    fn flush(&mut self) -> bool {
        Self::flush(self)
    }

    #[inline(always)]
    fn maintenance_interval(&self) -> Option<Duration> {
        Self::maintenance_interval(self)
    }

    #[inline(always)]
    fn maintain(&mut self) {
        Self::maintain(self);
    }

    #[inline(always)]
    fn reclaim(&mut self) {
        Self::reclaim(self);
    }
}

impl RxDevice for RxQueue {
    #[inline(always)]
    fn marks_checksums(&self) -> bool {
        Self::marks_checksums(self)
    }
}

impl Packets<Dpdk> for Burst {
    #[inline(always)]
    fn new() -> Self {
        Self::new()
    }

    #[inline(always)]
    fn len(&self) -> usize {
        Self::len(self)
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }

    #[inline(always)]
    fn alloc(&mut self, pool: &Mempool, count: usize) -> bool {
        Self::alloc(self, pool, count)
    }

    #[inline(always)]
    fn fetch(&self) {
        Self::fetch(self);
    }

    #[inline(always)]
    fn frame_mut(&mut self, index: usize, len: usize) -> &mut [u8] {
        Self::frame_mut(self, index, len)
    }

    #[inline(always)]
    fn noted_mut<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = (&'a mut [u8], &'a mut u64)> {
        Self::noted_mut(self, first, lens)
    }

    #[inline(always)]
    fn pieces_mut<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8; 64]> {
        Self::pieces_mut(self, first, lens)
    }

    #[inline(always)]
    fn fill(&mut self, first: usize, pieces: &[[u8; 64]], lens: &[u16]) {
        Self::fill(self, first, pieces, lens);
    }

    #[inline(always)]
    fn request_offload(&mut self, index: usize, left: &TxOffload) {
        Self::request_offload(self, index, left);
    }

    #[inline(always)]
    fn is_verified(&self, index: usize) -> bool {
        Self::is_verified(self, index)
    }

    #[inline(always)]
    fn stamp(&self, index: usize, queue: &RxQueue) -> Option<u64> {
        Self::stamp(self, index, queue)
    }

    #[inline(always)]
    fn repeat(&mut self, prebuilt: &Prebuilt, from: u64, count: usize) {
        Self::repeat(self, prebuilt, from, count);
    }

    #[inline(always)]
    fn lens(&self, first: usize, lens: &mut [u16]) {
        Self::lens(self, first, lens);
    }

    #[inline(always)]
    fn frame_len(&self, index: usize) -> usize {
        Self::frame_len(self, index)
    }

    #[inline(always)]
    fn head(&self, index: usize) -> &[u8] {
        Self::head(self, index)
    }

    #[inline(always)]
    fn heads(&self) -> impl Iterator<Item = &[u8]> {
        Self::heads(self)
    }

    #[inline(always)]
    fn retain(&mut self, keep: impl FnMut(&mut [u8]) -> bool) {
        Self::retain(self, keep);
    }

    #[inline(always)]
    fn tails<const N: usize>(&self, lens: &mut [u32; BURST], tails: &mut [[u8; N]; BURST]) {
        Self::tails(self, lens, tails);
    }

    #[inline(always)]
    fn lens_and_fetch<const LINES: usize>(&self, lens: &mut [u32; BURST]) {
        Self::lens_and_fetch::<LINES>(self, lens);
    }

    #[inline(always)]
    fn send(&mut self, queue: &mut TxQueue) -> usize {
        Self::send(self, queue)
    }

    #[inline(always)]
    fn send_first(&mut self, queue: &mut TxQueue, count: usize) -> usize {
        Self::send_first(self, queue, count)
    }

    #[inline(always)]
    fn send_unfinished(&mut self, queue: &mut TxQueue, count: usize) -> Offered {
        Self::send_unfinished(self, queue, count)
    }

    #[inline(always)]
    fn receive(&mut self, queue: &mut RxQueue) -> usize {
        Self::receive(self, queue)
    }

    #[inline(always)]
    fn clear(&mut self) {
        Self::clear(self);
    }

    #[inline(always)]
    fn note(&mut self, _: Range<usize>, _: Origin, _: u64) {}
}
