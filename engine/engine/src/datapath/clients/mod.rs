// SPDX-License-Identifier: Apache-2.0
//! Emulated clients of ports: hosts that get addresses by DHCP, DHCPv6 and router advertisements, and keep them.
//!
//! One thread beside the workers and the slow path emulates all of them ([`spate_clients::Group`]). A worker copies the frames that
//! concern clients to it, through a ring that never grows, and sends what comes back through another.
mod port;

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use spate_clients::{ConfigError, Counters, Details, Source};
use spate_net::ethernet::Mac;

use super::{Clock, OpenError, open::Opened, worker::Waker, workers::Workers};
use crate::{index::PortIndex, lock::lock};
use port::ClientPort;

/// The interval at which rings are read while frames come: setup times are exact to it.
const BUSY_NS: u64 = 64_000;
/// The time for which frames count as just received.
const JUST_NS: u64 = 2_000_000;
/// The interval while frames came lately,
const CALM_NS: u64 = 1_000_000;
/// and the time for which they count as lately received.
const LATELY_NS: u64 = 1_000_000_000;
/// The interval otherwise. Workers do not wake this thread: a system call would cost them time.
const QUIET_NS: u64 = 10_000_000;
/// Clients that are listed while no frame is handled.
const CHUNK: u32 = 1024;

/// Clients to emulate on a port.
#[derive(Clone, Debug)]
pub struct ClientSpec {
    /// Name of the group, for messages.
    pub name: String,
    /// The port.
    pub port: PortIndex,
    /// What they are.
    pub config: spate_clients::Config,
    /// How they leave.
    pub at_end: AtEnd,
}

/// What becomes of leases when clients are not needed any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtEnd {
    /// They are given back, at the rate at which clients started.
    #[default]
    Release,
    /// Clients are gone without a message.
    Forget,
}

/// Why clients are not emulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientsError {
    /// No clients can be like this.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The port's own MAC is one of theirs.
    #[error("port {port} has the MAC {mac} itself, which is one of theirs; choose another first MAC", mac = spate_neighbour::mac_text(*.mac))]
    PortMac {
        /// The port's name.
        port: String,
        /// Its MAC.
        mac: Mac,
    },
    /// Other clients of the port have some of the MACs.
    #[error("clients {other:?} of port {port} have some of these MACs; choose MACs that do not overlap")]
    Overlap {
        /// The port's name.
        port: String,
        /// The other group.
        other: String,
    },
    /// There is no thread for them.
    #[error("{0}")]
    System(String),
}

/// All emulated clients, and their thread, which there is as soon as there are clients; it ends when dropped.
pub(super) struct ClientHost {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    /// Ports with clients, by index of the port.
    ports: Mutex<Vec<Option<Arc<Mutex<ClientPort>>>>>,
    clock: Clock,
    workers: Arc<Workers>,
    waker: Waker,
    quit: AtomicBool,
    /// The number of the last group.
    group: AtomicU64,
}

/// A group of emulated clients of a port: they leave when it is dropped.
pub struct Clients {
    name: String,
    counters: Arc<Counters>,
    group: GroupView,
}

/// What emulated clients have. When they leave they have nothing any more.
#[derive(Clone)]
pub struct GroupView {
    shared: Arc<Shared>,
    port: PortIndex,
    id: u64,
    count: u32,
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} clients {:?} on port {}", self.group.count, self.name, self.group.port.0)
    }
}

impl fmt::Debug for GroupView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {} of {} clients on port {}", self.id, self.count, self.port.0)
    }
}

impl ClientHost {
    /// Without clients yet.
    pub(super) fn new(opened: &Opened) -> Result<Self, OpenError> {
        let shared = Shared {
            ports: Mutex::new(opened.ports.iter().map(|_| None).collect()),
            clock: opened.clock.clone(),
            workers: Arc::clone(&opened.lines),
            waker: Waker::new()
                .map_err(|e| OpenError::System { context: "emulated clients".into(), message: e.to_string() })?,
            quit: AtomicBool::new(false),
            group: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared), thread: Mutex::new(None) })
    }

    /// See `Datapath::emulate`.
    pub(super) fn emulate(&self, spec: ClientSpec, opened: &Opened) -> Result<Clients, ClientsError> {
        let ClientSpec { name, port: PortIndex(index), config, at_end } = spec;
        let port = self.port(PortIndex(index), opened);
        let (id, count) = (self.shared.group.fetch_add(1, Ordering::Relaxed) + 1, config.count);
        let counters =
            lock(&port).add((id, &name), config, at_end, self.shared.clock.mono_ns(), &self.shared.workers)?;
        let group = GroupView { shared: Arc::clone(&self.shared), port: PortIndex(index), id, count };
        let clients = Clients { name, counters, group };
        self.start()?;
        self.shared.waker.wake();
        Ok(clients)
    }

    fn port(&self, PortIndex(index): PortIndex, opened: &Opened) -> Arc<Mutex<ClientPort>> {
        let mut ports = lock(&self.shared.ports);
        Arc::clone(ports[index].get_or_insert_with(|| Arc::new(Mutex::new(ClientPort::new(PortIndex(index), opened)))))
    }

    fn start(&self) -> Result<(), ClientsError> {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let theirs = Arc::clone(&self.shared);
            let named = thread::Builder::new().name("clients".into());
            *thread = Some(named.spawn(move || work(&theirs)).map_err(|e| ClientsError::System(e.to_string()))?);
        }
        Ok(())
    }

    /// Waits until clients that leave have left, at most for a time.
    pub(super) fn await_left(&self, limit: Duration) {
        let since = Instant::now();
        while since.elapsed() < limit && self.shared.ports().iter().any(|port| lock(port).is_leaving()) {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Shared {
    fn ports(&self) -> Vec<Arc<Mutex<ClientPort>>> {
        lock(&self.ports).iter().flatten().cloned().collect()
    }
}

impl Clients {
    /// Name of the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port they are on.
    pub fn port(&self) -> PortIndex {
        self.group.port
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.group.count
    }

    /// What they have, also later.
    pub fn group(&self) -> GroupView {
        self.group.clone()
    }

    /// What is counted of them.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Frames for clients of the port that were lost because their thread was behind.
    pub fn frames_lost(&self) -> u64 {
        let port = lock(&self.group.shared.ports)[self.group.port.0].clone();
        port.map_or(0, |port| lock(&port).frames_lost())
    }

    /// Clients in full, by their indices, which are below `count`; no frame is handled meanwhile.
    pub fn details(&self, indices: Range<u32>) -> Vec<Details> {
        let now_ns = self.group.shared.clock.mono_ns();
        let details = |group: &spate_clients::Group| indices.map(|index| group.details(index, now_ns)).collect();
        self.group.with(details).unwrap_or_default()
    }

    /// All clients in full, in the order of their numbers.
    pub fn list(&self) -> Vec<Details> {
        let now_ns = self.group.shared.clock.mono_ns();
        self.group.chunks(|group, indices, found| found.extend(indices.map(|index| group.details(index, now_ns))))
    }
}

impl GroupView {
    /// How many clients there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The IPv4 addresses that packets can be sent from.
    pub fn sources4(&self) -> Vec<Source> {
        self.chunks(|group, indices, found| found.extend(indices.filter_map(|index| group.source4(index))))
    }

    /// The IPv6 addresses that packets can be sent from.
    pub fn sources6(&self) -> Vec<Source> {
        self.chunks(|group, indices, found| found.extend(indices.filter_map(|index| group.source6(index))))
    }

    /// Changes whenever a client gets or loses an address, or learns a next hop.
    pub fn generation(&self) -> u64 {
        self.with(|group| group.generation()).unwrap_or(0)
    }

    /// Goes through all clients, without keeping their thread from its frames for long.
    fn chunks<T>(&self, mut take: impl FnMut(&spate_clients::Group, Range<u32>, &mut Vec<T>)) -> Vec<T> {
        let (mut found, mut from) = (Vec::new(), 0);
        while from < self.count {
            let to = from.saturating_add(CHUNK).min(self.count);
            if self.with(|group| take(group, from..to, &mut found)).is_none() {
                break;
            }
            from = to;
        }
        found
    }

    fn with<T>(&self, look: impl FnOnce(&spate_clients::Group) -> T) -> Option<T> {
        let port = lock(&self.shared.ports)[self.port.0].clone()?;
        let port = lock(&port);
        port.group(self.id).map(look)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        let GroupView { shared, port, id, .. } = &self.group;
        let Some(port) = lock(&shared.ports)[port.0].clone() else { return };
        lock(&port).leave(*id, shared.clock.mono_ns(), &shared.workers);
        shared.waker.wake();
    }
}

impl Drop for ClientHost {
    fn drop(&mut self) {
        if let Some(thread) = lock(&self.thread).take() {
            self.shared.quit.store(true, Ordering::Relaxed);
            self.shared.waker.wake();
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared) {
    let mut last_frame_ns = 0;
    while !shared.quit.load(Ordering::Relaxed) {
        let now = shared.clock.mono_ns();
        let mut next = u64::MAX;
        let mut interval = u64::MAX;
        for port in shared.ports() {
            let mut port = lock(&port);
            if port.turn(now, &shared.workers) {
                last_frame_ns = now;
            }
            if let Some(due_ns) = port.next_due_ns() {
                (next, interval) = (next.min(due_ns), QUIET_NS);
            }
        }
        if interval == QUIET_NS {
            interval = match now.saturating_sub(last_frame_ns) {
                0..JUST_NS => BUSY_NS,
                JUST_NS..LATELY_NS => CALM_NS,
                _ => QUIET_NS,
            };
        }
        let until = now.saturating_add(interval).min(next);
        shared.waker.wait(&[], until.saturating_sub(shared.clock.mono_ns()).clamp(BUSY_NS / 4, LATELY_NS));
    }
}
