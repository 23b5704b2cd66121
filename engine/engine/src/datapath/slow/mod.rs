// SPDX-License-Identifier: Apache-2.0
//! The slow path: ports that have addresses answer for them and find their next hops, and answer for what runs emulate.
//!
//! One thread beside the workers decides everything. A worker only copies the few frames to it that concern it, through a
//! ring that never grows, and sends what comes back through another.
mod kernel_routes;
mod moves;
mod port;
mod punt;
mod throttle;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use spate_neighbour::{
    Group, Interface, Mac, NeighborQuery, Neighbour, NextHop, NoRoute, Ping, PingError, PingEvent, Prefix, Range,
    Target,
};
use spate_net::vlan::Tags;

use tokio::sync::mpsc;

use super::{Clock, OpenError, open::Opened, worker::Waker, workers::Workers};
use crate::index::PortIndex;
use crate::lock::lock;
use port::SlowPort;

pub use moves::LinkNeighbor;
pub(super) use moves::{Moved, Moves};
pub use port::Link;
pub use punt::Punt;

/// The interval at which rings are read while frames came lately, or a caller waits,
const BUSY_NS: u64 = 1_000_000;
/// and otherwise. Workers do not wake this thread: a system call would cost them time.
const QUIET_NS: u64 = 10_000_000;
/// The time for which frames count as lately received.
const LATELY_NS: u64 = 1_000_000_000;
/// A little more than the search for a neighbor takes.
const ANSWER_LIMIT: Duration = Duration::from_millis(3500);

/// The slow path's ports and its thread, which there is as soon as there is a port; it ends when dropped.
pub(super) struct SlowPath {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    /// Ports of the slow path, by index of the port.
    ports: Mutex<Vec<Option<Arc<Mutex<SlowPort>>>>>,
    clock: Clock,
    workers: Arc<Workers>,
    waker: Waker,
    quit: std::sync::atomic::AtomicBool,
    /// The number of the last owner of addresses, pings or neighbors that are sought.
    holder: AtomicU64,
    moves: Arc<Moves>,
}

/// Next hop of packets that a port sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The MAC.
    pub mac: Mac,
    /// The neighbor that has it; none: it is that of a group, or of the port.
    pub neighbour: Option<IpAddr>,
}

/// Ports answer for addresses of emulated stations until it is dropped.
pub struct AddressGuard {
    shared: Arc<Shared>,
    holder: u64,
    ports: Vec<PortIndex>,
    /// Multicast groups that no port is a member of, since there are too many.
    unreported: u128,
}

impl AddressGuard {
    /// How many multicast groups of servers are not reported on any link, since the number of groups of a port is limited.
    pub fn unreported(&self) -> u128 {
        self.unreported
    }
}

impl fmt::Debug for AddressGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holding on ports {:?}", self.ports)
    }
}

/// Ports look for neighbors in the place of emulated stations, and report when these have another MAC, until it is dropped.
pub struct ResolutionGuard {
    shared: Arc<Shared>,
    owner: u64,
    ports: BTreeSet<PortIndex>,
}

impl fmt::Debug for ResolutionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seeking on ports {:?}", self.ports)
    }
}

impl SlowPath {
    /// No port has an address yet. Neighbors that have another MAC will be noted.
    pub(super) fn new(opened: &Opened, moves: Arc<Moves>) -> Result<Self, OpenError> {
        let shared = Shared {
            ports: Mutex::new(opened.ports.iter().map(|_| None).collect()),
            clock: opened.clock.clone(),
            workers: Arc::clone(&opened.lines),
            waker: Waker::new().map_err(|e| failed(&e))?,
            quit: false.into(),
            holder: AtomicU64::new(0),
            moves,
        };
        Ok(Self { shared: Arc::new(shared), thread: Mutex::new(None) })
    }

    /// Gives ports their links, by name. Once.
    pub(super) fn join(&self, links: Vec<(String, Link)>, opened: &Opened) -> Result<(), OpenError> {
        for (name, link) in links {
            let Some(index) = opened.ports.iter().position(|port| port.config.name == name) else {
                return Err(OpenError::Config {
                    field: format!("port {name}"),
                    problem: "there is no such port".into(),
                });
            };
            self.add(PortIndex(index), link, opened)?;
        }
        Ok(())
    }

    /// Adds a port that sends on its link.
    fn add(&self, index: PortIndex, link: Link, opened: &Opened) -> Result<(), OpenError> {
        let port = Arc::new(Mutex::new(SlowPort::new(index, link, opened)?));
        lock(&self.shared.ports)[index.0] = Some(port);
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let theirs = Arc::clone(&self.shared);
            let named = thread::Builder::new().name("slow-path".into());
            *thread = Some(named.spawn(move || work(&theirs)).map_err(|e| failed(&e))?);
        }
        Ok(())
    }

    /// From now on ports answer for addresses of emulated stations and are members of their groups. Software ports without
    /// addresses have no link where a peer could ask.
    pub(super) fn hold(
        &self,
        mut ranges: BTreeMap<PortIndex, Vec<Range>>,
        mut groups: BTreeMap<PortIndex, Vec<Group>>,
        unreported: u128,
        opened: &Opened,
    ) -> Result<AddressGuard, OpenError> {
        let holder = self.shared.holder.fetch_add(1, Ordering::Relaxed) + 1;
        let mut address_guard =
            AddressGuard { shared: Arc::clone(&self.shared), holder, ports: Vec::new(), unreported };
        let now_ns = self.shared.clock.mono_ns();
        for index in groups.keys() {
            ranges.entry(*index).or_default();
        }
        for (index, ranges) in ranges {
            let asked = opened.ports[index.0].config.device.leads_outside();
            if self.port(index).is_none() {
                if !asked {
                    continue;
                }
                self.add(index, Link::default(), opened)?;
            }
            let Some(port) = self.port(index) else { continue };
            address_guard.ports.push(index);
            let mut port = lock(&port);
            port.interface.hold(holder, &ranges);
            for group in groups.remove(&index).unwrap_or_default() {
                address_guard.unreported += u128::from(!port.interface.join(holder, &group, now_ns));
            }
            port.send_interest(&self.shared.workers);
        }
        Ok(address_guard)
    }

    fn port(&self, PortIndex(index): PortIndex) -> Option<Arc<Mutex<SlowPort>>> {
        lock(&self.shared.ports).get(index)?.clone()
    }

    /// Addresses of a port.
    pub(super) fn addresses(&self, port: PortIndex) -> Vec<Prefix> {
        self.port(port).map_or_else(Vec::new, |port| lock(&port).interface.config().addresses.clone())
    }

    /// The tags of a port's own frames.
    pub(super) fn tags(&self, port: PortIndex) -> Tags {
        self.port(port).and_then(|port| lock(&port).interface.config().vlan).into()
    }

    /// Gateways of a port and what is known of them.
    pub(super) fn gateways(&self, port: PortIndex) -> Vec<Neighbour> {
        let Some(port) = self.port(port) else { return Vec::new() };
        let port = lock(&port);
        port.interface.gateways().into_iter().filter_map(|gateway| port.interface.neighbour(gateway)).collect()
    }

    /// How often neighbors of a port had another MAC.
    pub(super) fn neighbor_moves(&self, port: PortIndex) -> u64 {
        self.port(port).map_or(0, |port| lock(&port).neighbor_moves)
    }

    /// Notes neighbors that are elsewhere by now than where they were found.
    pub(super) fn note_moved_since(&self, found: impl IntoIterator<Item = (PortIndex, LinkNeighbor, Mac)>) {
        for (index, neighbor, mac) in found {
            let Some(port) = self.port(index) else { continue };
            let port = lock(&port);
            let now = port.interface.known(neighbor.target(port.tags())).and_then(|known| known.mac);
            if let Some(now) = now.filter(|now| *now != mac) {
                self.shared.moves.note(index, neighbor, now);
            }
        }
    }

    /// See `Datapath::ping`.
    pub(super) fn ping(&self, port: PortIndex, ping: Ping) -> Result<mpsc::Receiver<PingEvent>, NotPinged> {
        let id = self.shared.holder.fetch_add(1, Ordering::Relaxed) + 1;
        let port = self.port(port).ok_or(NoNextHop::NoAddress)?;
        let reader = lock(&port).ping(id, ping, self.shared.clock.mono_ns())?;
        self.shared.waker.wake();
        Ok(reader)
    }

    /// See `Datapath::next_hops`.
    pub(super) fn next_hops(&self, packets: &[(PortIndex, &[u8])]) -> Vec<Result<Hop, NoNextHop>> {
        let now = self.shared.clock.mono_ns();
        let hops: Vec<_> = packets.iter().map(|(port, packet)| self.ask(*port, packet, now)).collect();
        self.shared.waker.wake();
        let deadline = Instant::now() + ANSWER_LIMIT;
        let found = |(hop, (port, _)): (Result<NextHop, NoNextHop>, &(PortIndex, &[u8]))| match hop? {
            NextHop::Here(mac) => Ok(Hop { mac, neighbour: None }),
            NextHop::Neighbour(address) => self
                .await_neighbor(*port, deadline, |interface| interface.neighbour(address), SlowPort::silence)
                .map(|mac| Hop { mac, neighbour: Some(address) }),
        };
        hops.into_iter().zip(packets).map(found).collect()
    }

    /// See `Datapath::seek`.
    pub(super) fn seek(&self, sought: &[(PortIndex, NeighborQuery)]) -> (Vec<Resolution>, ResolutionGuard) {
        let now = self.shared.clock.mono_ns();
        let owner = self.shared.holder.fetch_add(1, Ordering::Relaxed) + 1;
        let ports = sought.iter().map(|(port, _)| *port).collect();
        let resolution_guard = ResolutionGuard { shared: Arc::clone(&self.shared), owner, ports };
        let want = |(port, sought): &(PortIndex, NeighborQuery)| {
            let port = self.port(*port).ok_or(NoNextHop::NoAddress)?;
            let mut port = lock(&port);
            port.interface.want_for(owner, sought, now).map_err(|error| port.no_route(error))
        };
        let wanted: Vec<Result<(), NoNextHop>> = sought.iter().map(want).collect();
        self.shared.waker.wake();
        let deadline = Instant::now() + ANSWER_LIMIT;
        let found = |(wanted, (index, sought)): (Result<(), NoNextHop>, &(PortIndex, NeighborQuery))| -> Resolution {
            wanted?;
            let silence = |port: &SlowPort, known: &Neighbour| port.silence_to(known, sought);
            let mac = self.await_neighbor(*index, deadline, |interface| interface.found_for(sought), silence)?;
            let own = self.tags(*index);
            Ok((LinkNeighbor::new(Target { tags: sought.tags.unwrap_or(own), address: sought.address }, own), mac))
        };
        (wanted.into_iter().zip(sought).map(found).collect(), resolution_guard)
    }

    /// The MAC of a neighbor of a port once it is known, or why it is not.
    fn await_neighbor(
        &self,
        port: PortIndex,
        deadline: Instant,
        known: impl Fn(&Interface) -> Option<Neighbour>,
        silence: impl Fn(&SlowPort, &Neighbour) -> String,
    ) -> Result<Mac, NoNextHop> {
        loop {
            let port = self.port(port).ok_or(NoNextHop::NoAddress)?;
            let port = lock(&port);
            match known(&port.interface) {
                Some(Neighbour { mac: Some(mac), .. }) => return Ok(mac),
                Some(known) if known.settled || Instant::now() >= deadline => {
                    return Err(NoNextHop::Silence(silence(&port, &known)));
                }
                Some(_) => {}
                None => return Err(NoNextHop::NoAddress),
            }
            drop(port);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Where a packet goes; begins to look for a neighbor.
    fn ask(&self, port: PortIndex, packet: &[u8], now_ns: u64) -> Result<NextHop, NoNextHop> {
        let port = self.port(port).ok_or(NoNextHop::NoAddress)?;
        let mut port = lock(&port);
        let hop = port.interface.next_hop(packet).map_err(|error| port.no_route(error))?;
        if let NextHop::Neighbour(address) = hop {
            port.interface.want(address, now_ns).map_err(|error| port.no_route(error))?;
        }
        Ok(hop)
    }
}

/// Where a neighbor is that a station looks for, and its MAC; or what keeps it from being known.
pub type Resolution = Result<(LinkNeighbor, Mac), NoNextHop>;

/// Why a port does not ping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPinged {
    /// The port has no address.
    #[error(transparent)]
    NoAddress(#[from] NoNextHop),
    /// The port cannot send such a ping.
    #[error(transparent)]
    Refused(#[from] PingError),
}

/// Why it is not known to which MAC a packet has to be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoNextHop {
    /// The port has no address at all, so that it resolves no neighbor.
    #[error("the port has no address to find a next hop from: give it one (--address)")]
    NoAddress,
    /// None of the port's addresses and gateways leads to the destination.
    #[error("port {port}: {error}")]
    NoRoute {
        /// Its name.
        port: String,
        /// Why there is no route.
        error: NoRoute,
    },
    /// The next hop does not answer.
    #[error("{0}")]
    Silence(String),
}

impl NoNextHop {
    /// The same text about a packet that a user wrote, and can write the destination MAC into.
    pub fn of_a_written_packet(&self) -> String {
        match self {
            Self::NoAddress | Self::NoRoute { .. } => format!("{self}, or the packet a destination MAC"),
            Self::Silence(_) => self.to_string(),
        }
    }
}

impl Drop for SlowPath {
    fn drop(&mut self) {
        if let Some(thread) = lock(&self.thread).take() {
            self.shared.quit.store(true, Ordering::Relaxed);
            self.shared.waker.wake();
            let _ = thread.join();
        }
    }
}

impl Drop for AddressGuard {
    fn drop(&mut self) {
        for &index in &self.ports {
            let Some(port) = lock(&self.shared.ports)[index.0].clone() else { continue };
            let mut port = lock(&port);
            port.interface.release(self.holder, self.shared.clock.mono_ns());
            port.send_interest(&self.shared.workers);
        }
    }
}

impl Drop for ResolutionGuard {
    fn drop(&mut self) {
        for index in &self.ports {
            let Some(port) = lock(&self.shared.ports)[index.0].clone() else { continue };
            lock(&port).interface.forget(self.owner);
        }
    }
}

fn work(shared: &Shared) {
    let clock = &shared.clock;
    let mut busy_until = 0;
    let mut ports: Vec<Arc<Mutex<SlowPort>>> = Vec::new();
    let mut kernel: Vec<OwnedFd> = Vec::new();
    while !shared.quit.load(Ordering::Relaxed) {
        let now = clock.mono_ns();
        if lock(&shared.ports).iter().flatten().count() != ports.len() {
            ports = lock(&shared.ports).iter().flatten().cloned().collect();
            kernel = ports.iter().filter_map(|port| lock(port).kernel_fd()?.ok()).collect();
        }
        let (mut next, mut is_full) = (u64::MAX, false);
        for port in &ports {
            let mut port = lock(port);
            if port.turn(now, &shared.workers, &shared.moves) {
                busy_until = now + LATELY_NS;
            }
            is_full |= port.is_full();
            next = next.min(port.interface.next_ns().unwrap_or(u64::MAX));
        }
        let look = now + if now < busy_until { BUSY_NS } else { QUIET_NS };
        let kernel: Vec<BorrowedFd<'_>> = kernel.iter().filter(|_| !is_full).map(AsFd::as_fd).collect();
        // Until workers have sent some of what fills their rings.
        let look = if is_full { now } else { look.min(next) };
        shared.waker.wait(&kernel, look.saturating_sub(clock.mono_ns()).max(BUSY_NS / 4));
    }
}

fn failed(error: &dyn std::fmt::Display) -> OpenError {
    OpenError::System { context: "slow path".into(), message: error.to_string() }
}
