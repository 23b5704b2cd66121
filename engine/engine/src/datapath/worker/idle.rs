// SPDX-License-Identifier: Apache-2.0
//! How a worker rests: never, or until shortly before something is due, a packet arrives or control calls.
use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    fd::OwnedFd,
    io::Errno,
};
use spate_dpdk::RxQueue;

use super::device::{Awaited, Device, IdleStrategy};
use crate::datapath::shared::WorkerShare;

/// Woken this long before something is due; the rest is spent polling, so that waking up late delays nothing.
const LEAD_NS: u64 = 50_000;
/// Shortest sleep.
const MIN_SLEEP_NS: u64 = 10_000;
/// A polled device cannot wake a thread: it is polled this often while a run may receive,
const POLLED_NS: u64 = 1_000_000;
/// and this often otherwise.
const UNEXPECTED_NS: u64 = 20_000_000;
/// Longest sleep, while no packet is expected.
const MAX_SLEEP_NS: u64 = 1_000_000_000;
/// Ports whose sockets can be waited on besides the waker.
const SOCKETS: usize = 63;

/// A worker's way to rest.
pub(in crate::datapath) struct Idle {
    adaptive: bool,
    /// Whether other threads share the CPU.
    shared_cpu: bool,
    waker: Waker,
}

/// Wakes a worker.
#[derive(Clone, Debug)]
pub(in crate::datapath) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(in crate::datapath) fn new() -> Result<Self, Errno> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    pub(in crate::datapath) fn wake(&self) {
        // The write fails only when the descriptor is already readable.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

impl Waker {
    /// Waits until it is woken or one of `others` can be read, or for `timeout_ns`.
    pub(in crate::datapath) fn wait(&self, others: &[BorrowedFd<'_>], timeout_ns: u64) {
        let mut fds: Vec<PollFd> = others.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        fds.push(PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN));
        let _ = poll(&mut fds, Some(&timespec(timeout_ns)));
        self.lower();
    }

    /// Makes it wait again.
    fn lower(&self) {
        let mut raised = [0; 8];
        let _ = rustix::io::read(&*self.0, &mut raised);
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000).cast_signed(), tv_nsec: (ns % 1_000_000_000).cast_signed() }
}

impl Idle {
    pub(in crate::datapath) fn new(adaptive: bool, shared_cpu: bool, waker: Waker) -> Self {
        Self { adaptive, shared_cpu, waker }
    }
}

impl<D: Device<Rx = RxQueue>> IdleStrategy<D> for Idle {
    #[inline]
    fn may_sleep(&self) -> bool {
        self.adaptive
    }

    fn yield_now(&self) {
        if self.shared_cpu {
            std::thread::yield_now();
        }
    }

    /// Sleeps if nothing is due before long; `until` is a monotonic instant. Else yields the CPU.
    fn rest(&self, now: u64, until: u64, expecting: bool, awaited: &impl Awaited<D>, share: &WorkerShare) {
        // Other workers do not wake this one for what they hand over either.
        let unheard = awaited.queues().any(|queue| queue.socket().is_none()) || awaited.has_peers();
        let longest = match (unheard, expecting) {
            (true, true) => POLLED_NS,
            (true, false) if awaited.queues().next().is_some() => UNEXPECTED_NS,
            _ => MAX_SLEEP_NS,
        };
        let timeout = until.saturating_sub(now).saturating_sub(LEAD_NS).min(longest);
        if timeout < MIN_SLEEP_NS {
            return IdleStrategy::<D>::yield_now(self);
        }
        let waker = PollFd::from_borrowed_fd(self.waker.0.as_fd(), PollFlags::IN);
        let mut fds: [PollFd; SOCKETS + 1] = std::array::from_fn(|_| waker.clone());
        let mut count = 1;
        for socket in awaited.queues().filter_map(RxQueue::socket).take(SOCKETS) {
            fds[count] = PollFd::from_borrowed_fd(socket.fd(), PollFlags::IN);
            count += 1;
        }
        // A command that came before this look is seen by it, a later one raises the waker.
        if awaited.is_called() {
            return;
        }
        // However it ends, the loop looks at everything again.
        let _ = poll(&mut fds[..count], Some(&timespec(timeout)));
        share.sleeps.add(1);
        self.waker.lower();
    }
}
