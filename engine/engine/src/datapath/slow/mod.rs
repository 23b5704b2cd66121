// SPDX-License-Identifier: Apache-2.0
//! The slow path: ports that have addresses answer for them and find their next hops.
//!
//! One thread beside the workers decides everything. A worker only takes the few frames aside that concern it, through a
//! ring that never grows, and sends what comes back through another.
mod port;

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use spate_neighbour::{Mac, Neighbour, NextHop, Prefix};

use super::{Clock, OpenError, open::Opened, worker::Waker, workers::Workers};
use port::SlowPort;

pub use port::{Link, Punt};

/// How often frames are looked for while there were some lately, or somebody waits,
const BUSY_NS: u64 = 1_000_000;
/// and otherwise: workers cannot call, a system call would cost them.
const QUIET_NS: u64 = 10_000_000;
/// How long "lately" is.
const LATELY_NS: u64 = 1_000_000_000;
/// A little more than the search for a neighbour takes.
const ANSWER_LIMIT: Duration = Duration::from_millis(3500);

/// The slow path's thread and its ports; ends when dropped.
pub(super) struct SlowPath {
    /// By index of the port.
    ports: Vec<Option<Arc<Mutex<SlowPort>>>>,
    clock: Option<Clock>,
    thread: Option<(Arc<Shared>, JoinHandle<()>)>,
}

struct Shared {
    waker: Waker,
    quit: std::sync::atomic::AtomicBool,
}

impl SlowPath {
    /// No port has an address.
    pub(super) fn none() -> Self {
        Self { ports: Vec::new(), clock: None, thread: None }
    }

    /// Gives ports their links, by name.
    pub(super) fn start(links: Vec<(String, Link)>, opened: &Opened) -> Result<Self, OpenError> {
        let mut ports: Vec<Option<Arc<Mutex<SlowPort>>>> = opened.ports.iter().map(|_| None).collect();
        for (name, link) in links {
            let Some(index) = opened.ports.iter().position(|port| port.config.name == name) else {
                return Err(OpenError::Config {
                    field: format!("port {name}"),
                    problem: "there is no such port".into(),
                });
            };
            ports[index] = Some(Arc::new(Mutex::new(SlowPort::new(index, link, opened)?)));
        }
        let system =
            |e: &dyn std::fmt::Display| OpenError::System { context: "slow path".into(), message: e.to_string() };
        let waker = Waker::new().map_err(|e| system(&e))?;
        let shared = Arc::new(Shared { waker, quit: false.into() });
        let clock = opened.clock.clone();
        let (theirs, all) = (Arc::clone(&shared), ports.iter().flatten().cloned().collect::<Vec<_>>());
        let (their_clock, lines) = (clock.clone(), Arc::clone(&opened.lines));
        let thread = thread::Builder::new()
            .name("slow-path".into())
            .spawn(move || work(&theirs, &all, &their_clock, &lines))
            .map_err(|e| system(&e))?;
        Ok(Self { ports, clock: Some(clock), thread: Some((shared, thread)) })
    }

    fn port(&self, index: usize) -> Option<MutexGuard<'_, SlowPort>> {
        self.ports.get(index)?.as_deref().map(lock)
    }

    /// Addresses of a port.
    pub(super) fn addresses(&self, port: usize) -> Vec<Prefix> {
        self.port(port).map_or_else(Vec::new, |port| port.interface.config().addresses.clone())
    }

    /// Gateways of a port and what is known of them.
    pub(super) fn gateways(&self, port: usize) -> Vec<Neighbour> {
        let Some(port) = self.port(port) else { return Vec::new() };
        port.interface.gateways().into_iter().filter_map(|gateway| port.interface.neighbour(gateway)).collect()
    }

    /// See `Datapath::next_hops`.
    pub(super) fn next_hops(&self, packets: &[(usize, &[u8])]) -> Vec<Result<Mac, String>> {
        let now = self.clock.as_ref().map_or(0, Clock::mono_ns);
        let hops: Vec<_> = packets.iter().map(|(port, packet)| self.ask(*port, packet, now)).collect();
        if let Some((shared, _)) = &self.thread {
            shared.waker.wake();
        }
        let deadline = Instant::now() + ANSWER_LIMIT;
        let found = |(hop, (port, _)): (Result<NextHop, String>, &(usize, &[u8]))| match hop? {
            NextHop::Here(mac) => Ok(mac),
            NextHop::Neighbour(address) => loop {
                let port = self.port(*port).ok_or_else(no_address)?;
                match port.interface.neighbour(address) {
                    Some(Neighbour { mac: Some(mac), .. }) => return Ok(mac),
                    Some(known) if known.settled || Instant::now() >= deadline => return Err(port.silence(&known)),
                    Some(_) => {}
                    None => return Err(no_address()),
                }
                drop(port);
                thread::sleep(Duration::from_millis(5));
            },
        };
        hops.into_iter().zip(packets).map(found).collect()
    }

    /// Where a packet goes; begins to look for a neighbour.
    fn ask(&self, port: usize, packet: &[u8], now_ns: u64) -> Result<NextHop, String> {
        let mut port = self.port(port).ok_or_else(no_address)?;
        let named = |e: &dyn std::fmt::Display, port: &SlowPort| format!("port {}: {e}", port.name);
        let hop = port.interface.next_hop(packet).map_err(|e| named(&e, &port))?;
        if let NextHop::Neighbour(address) = hop {
            port.interface.want(address, now_ns).map_err(|e| named(&e, &port))?;
        }
        Ok(hop)
    }
}

fn no_address() -> String {
    "its tx_port has no address to find a next hop from: give the port one (--address), or the packet a destination MAC"
        .to_owned()
}

impl Drop for SlowPath {
    fn drop(&mut self) {
        if let Some((shared, thread)) = self.thread.take() {
            shared.quit.store(true, std::sync::atomic::Ordering::Relaxed);
            shared.waker.wake();
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared, ports: &[Arc<Mutex<SlowPort>>], clock: &Clock, workers: &Workers) {
    let mut busy_until = 0;
    let kernel: Vec<OwnedFd> = ports.iter().filter_map(|port| lock(port).kernel_fd()?.ok()).collect();
    let kernel: Vec<BorrowedFd<'_>> = kernel.iter().map(AsFd::as_fd).collect();
    while !shared.quit.load(std::sync::atomic::Ordering::Relaxed) {
        let now = clock.mono_ns();
        let mut next = u64::MAX;
        for port in ports {
            let mut port = lock(port);
            if port.turn(now, workers) {
                busy_until = now + LATELY_NS;
            }
            next = next.min(port.interface.next_ns().unwrap_or(u64::MAX));
        }
        let look = now + if now < busy_until { BUSY_NS } else { QUIET_NS };
        shared.waker.wait(&kernel, look.min(next).saturating_sub(clock.mono_ns()).max(BUSY_NS / 4));
    }
}

fn lock(port: &Mutex<SlowPort>) -> MutexGuard<'_, SlowPort> {
    port.lock().unwrap_or_else(PoisonError::into_inner)
}
