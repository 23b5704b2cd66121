// SPDX-License-Identifier: Apache-2.0
//! The data path: ports, workers and runs. All that the control side may ask of it is here.
mod buffers;
mod cache;
mod capture;
mod clients;
mod clock;
mod config;
mod device_clock;
mod frames;
mod limit;
mod monitor;
mod open;
mod prepare;
mod run;
mod shared;
mod simulation;
mod slow;
mod types;
mod worker;
mod workers;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

pub use capture::{Capture, CaptureSpec, Captured};
pub use clients::{AtEnd, ClientSpec, Clients, ClientsError, GroupView};
pub use clock::{Clock, ClockError};
pub use config::*;
pub use limit::{LimitUnit, MaxRate};
pub use open::WORKER_THREAD;
pub use run::{
    Run,
    leased::LeasedPool,
    outage::Outage,
    rates::{Rates, StreamRate},
    readings::Received,
    records::Watch,
};
pub use simulation::{RateStep, SimulatedPacket, Simulation, SimulationError, SimulationSpec};
pub use slow::{AddressGuard, Hop, Link, LinkNeighbor, NoNextHop, NotPinged, Punt, Resolution, ResolutionGuard};
pub use spate_dpdk::{
    BondMember, CopyMode, Disturbance, LacpState, Memif, Memory, Offloads, Refusal, Segmentation, Spread, StampedBy,
    UseOffloads,
};
use spate_dpdk::{RegisteredThread, RxQueue, on_own_lines};
use spate_neighbour::{NeighborQuery, Ping, PingEvent};
pub use spate_net::{
    Mark, TagList,
    reflect::{Allowed, Swap},
};
pub use spate_replay::{Capture as Recording, Changes, Gap, Half, ReadError, Rewrite, SplitBy};
use spate_stateful::Scenario;
pub use spate_stateless::{
    Blueprint, Checksum, ChecksumKind, FieldProgram, Length, ListOrder, Next, Rate, RateError, Sequence, StreamTiming,
    Successor, Template, TemplateError, Transmit, Variable, Write,
};
pub use spate_stats::{
    Arrivals, Delays, Distribution, Moments, PhaseCounters, Silence, Span, StreamCounters, TagCounters,
};
pub use types::*;
pub use worker::{Direction, MAX_RUNS};

use tokio::sync::mpsc;

use crate::index::{PortIndex, RunSlot, WorkerIndex};
use crate::lock::lock;
use clients::ClientHost;
use limit::Budget;
use monitor::{Monitor, Stamping};
use open::{OpenPort, Opened, Placement};
use prepare::LongPackets;
use slow::{Moves, SlowPath};
use worker::Command;

/// The open ports and their workers.
pub struct Datapath {
    /// First: it ends before the workers do.
    monitor: Monitor,
    slow: SlowPath,
    clients: ClientHost,
    opened: Opened,
    max_rate: Mutex<Option<MaxRate>>,
    long_packets: Mutex<LongPackets>,
    tso_pools: Mutex<LongPackets>,
}

impl Datapath {
    /// Initialises DPDK, opens the ports and starts the workers.
    ///
    /// DPDK comes up once in a process: later calls must ask for the same memory and PCI devices.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        Self::open_at(config, Placement::OwnCpus)
    }

    /// Opens the data path with workers that have no CPUs of their own: they run where the calling thread may, and `worker_cpus` only
    /// numbers them. It serves to count what more workers than CPUs do, not to measure time.
    pub fn open_without_own_cpus(config: Config) -> Result<Self, OpenError> {
        Self::open_at(config, Placement::Together)
    }

    fn open_at(config: Config, placement: Placement) -> Result<Self, OpenError> {
        let opened = on_own_lines(|| open::open(config, placement))?;
        let moves = Arc::new(Moves::default());
        let devices =
            opened.ports.iter().enumerate().filter_map(|(port, open)| open.stamping(PortIndex(port))).collect();
        let monitor = Monitor::start(opened.clock.clone(), Arc::clone(&opened.lines), Arc::clone(&moves), devices)
            .map_err(|e| OpenError::System { context: "monitor".into(), message: e.to_string() })?;
        let long_packets = Mutex::new(opened.workers.iter().map(|_| None).collect());
        let tso_pools = Mutex::new(opened.workers.iter().map(|_| None).collect());
        let slow = SlowPath::new(&opened, moves)?;
        let clients = ClientHost::new(&opened)?;
        Ok(Self { monitor, slow, clients, opened, max_rate: Mutex::new(None), long_packets, tso_pools })
    }

    /// The ports, in the order of the configuration: a port's index is its number in `StreamSpec`.
    pub fn ports(&self) -> Vec<PortInfo> {
        let with_link = |(index, port): (usize, &OpenPort)| PortInfo {
            addresses: self.slow.addresses(PortIndex(index)),
            gateways: self.slow.gateways(PortIndex(index)),
            ..port.info(&self.opened.clock)
        };
        self.opened.ports.iter().enumerate().map(with_link).collect()
    }

    fn port_indices(&self) -> impl Iterator<Item = PortIndex> {
        (0..self.opened.ports.len()).map(PortIndex)
    }

    /// The clock that workers keep.
    pub fn clock(&self) -> Clock {
        self.opened.clock.clone()
    }

    /// DPDK's version, such as "DPDK 22.11.11".
    pub fn dpdk_version() -> String {
        spate_dpdk::Eal::version()
    }

    /// Gives ports their addresses and gateways, by name: from now on they answer for their addresses. Once.
    pub fn join(&mut self, links: Vec<(String, Link)>) -> Result<(), OpenError> {
        self.slow.join(links, &self.opened)
    }

    /// From now on ports answer ARP, neighbor discovery and ping for the addresses that a scenario's clients and servers
    /// have on them, and are members of its servers' multicast groups, until what it returns is dropped.
    pub fn hold(&self, scenario: &Scenario) -> Result<AddressGuard, OpenError> {
        let (groups, unreported) = prepare::applications::groups(scenario);
        self.slow.hold(prepare::applications::ranges(scenario), groups, unreported, &self.opened)
    }

    /// Where each packet has to be sent to from a port, or what keeps it from being known. Waits for answers, up to four seconds.
    pub fn next_hops(&self, packets: &[(PortIndex, &[u8])]) -> Vec<Result<Hop, NoNextHop>> {
        self.slow.next_hops(packets)
    }

    /// Sends echo requests from a port. What becomes of them comes out of the channel until there is no more; they end when the
    /// channel is dropped.
    ///
    /// # Errors
    /// If the port has no address, nothing leads to the destination, or as many pings of it are under way as can be.
    pub fn ping(&self, port: PortIndex, ping: Ping) -> Result<mpsc::Receiver<PingEvent>, NotPinged> {
        self.slow.ping(port, ping)
    }

    /// Where each neighbor is that a station, emulated behind a port, looks for. Waits for answers, up to four seconds. Runs that are
    /// prepared with these neighbors follow them to other MACs as long as they have what else it returns.
    pub fn seek(&self, sought: &[(PortIndex, NeighborQuery)]) -> (Vec<Resolution>, ResolutionGuard) {
        self.slow.seek(sought)
    }

    /// Emulates clients on a port from now on, until what it returns is dropped: then they leave.
    ///
    /// # Errors
    /// If clients cannot be like this, or others on the port have some of their MACs.
    pub fn emulate(&self, spec: ClientSpec) -> Result<Clients, ClientsError> {
        self.clients.emulate(spec, &self.opened)
    }

    /// Waits until emulated clients that leave have left, at most for a time.
    pub fn await_left(&self, limit: Duration) {
        self.clients.await_left(limit);
    }

    /// Copies packets of a port from now on, until what it returns is dropped.
    pub fn capture(&self, port: PortIndex, spec: CaptureSpec) -> Capture {
        capture::start(&self.opened, port, spec)
    }

    /// Validates a run, allocates what it needs and hands it to the workers. Nothing is sent yet.
    pub fn prepare(&self, mut spec: RunSpec) -> Result<Arc<Run>, PrepareError> {
        // Held throughout: two runs must not take one slot.
        let mut long_packets = lock(&self.long_packets);
        let mut tso_pools = lock(&self.tso_pools);
        let present = self.monitor.runs();
        if present.iter().any(|run| run.tag == spec.tag) {
            let problem = format!("{} is in use by another run here", spec.tag);
            return Err(PrepareError { field: "run_tag".into(), problem, exhausted: false });
        }
        let Some(slot) = (0..MAX_RUNS).map(RunSlot).find(|slot| present.iter().all(|run| run.slot != *slot)) else {
            let problem = format!("{MAX_RUNS} runs are held already: remove one");
            return Err(PrepareError { field: "run_id".into(), problem, exhausted: true });
        };
        if let Some(stateful) = &mut spec.stateful
            && stateful.on_link.address_guard.is_none()
        {
            let held = self.hold(&stateful.scenario).map_err(|e| PrepareError {
                field: "stateful".into(),
                problem: e.to_string(),
                exhausted: true,
            })?;
            stateful.on_link.address_guard = Some(Arc::new(held));
        }
        let context = prepare::Context {
            eal: &self.opened.eal,
            clock: &self.opened.clock,
            ports: &self.opened.ports,
            workers: &self.opened.lines,
            nodes: &self.opened.nodes,
            long_packets: &mut long_packets,
            tso_pools: &mut tso_pools,
            slot,
            present: &present,
            tags: self.port_indices().map(|port| self.slow.tags(port)).collect(),
            links: self.port_indices().map(|port| (self.slow.addresses(port), self.slow.gateways(port))).collect(),
        };
        let (run, parts) = on_own_lines(|| prepare::prepare(context, spec))?;
        for (worker, part) in parts.into_iter().enumerate() {
            self.opened.lines.send(WorkerIndex(worker), Command::Install(slot, Box::new(part)));
        }
        // Without that, a worker that has lost its CPU could take the run's first packets for foreign ones.
        self.opened.lines.await_all();
        let run = Arc::new(run);
        self.monitor.add(Arc::clone(&run));
        // Moves of neighbors since they were resolved were passed to earlier runs.
        self.slow.note_moved_since(run.next_hops());
        Ok(run)
    }

    /// Bounds what all ports send together from now on, of all runs, and instead of the bound before; none: as much as is asked for.
    pub fn limit(&self, max_rate: Option<MaxRate>) {
        let mut current = lock(&self.max_rate);
        if *current == max_rate {
            return;
        }
        *current = max_rate;
        let budget = max_rate.map(|rate| Arc::new(Budget::new(rate, self.opened.clock.mono_ns())));
        self.opened.lines.send_all(|| Command::Limit(budget.clone()));
        // Without that, a worker could send for a run that is started next without it.
        self.opened.lines.await_all();
    }

    /// From now on, what is sent on a loopback port arrives as `disturbance` says: for tests of what measures.
    ///
    /// # Panics
    /// If the port is no loopback, or was set before.
    pub fn disturb(&self, PortIndex(port): PortIndex, disturbance: Box<Disturbance>) {
        assert!(self.opened.ports[port].port.disturb(disturbance), "port {port} cannot be disturbed");
    }

    /// From now on, packets of a loopback port go to the receive queues that `spread` says: for tests of devices that
    /// hash otherwise.
    ///
    /// # Panics
    /// If the port is no loopback, or was set before.
    pub fn spread(&self, PortIndex(port): PortIndex, spread: Box<Spread>) {
        assert!(self.opened.ports[port].port.spread(spread), "port {port} cannot spread its packets");
    }

    /// From now on, what a worker sends on a loopback port arrives at that worker: to measure what receiving costs, without the
    /// rings that workers share.
    ///
    /// # Panics
    /// If the port is no loopback.
    pub fn pair_queues(&self, PortIndex(port): PortIndex) {
        assert!(self.opened.ports[port].port.pair_queues(), "port {port} has no queues to pair");
    }

    /// The receive queues of an outlet port, to be read by the calling thread, which is a thread of DPDK's as long
    /// as the guard lives. None are left if they are taken, and other ports have none.
    pub fn outlet(&self, PortIndex(port): PortIndex) -> Result<(Vec<RxQueue>, RegisteredThread), OpenError> {
        let open = &self.opened.ports[port];
        let registered = RegisteredThread::new(&self.opened.eal)
            .map_err(|e| OpenError::System { context: format!("port {}", open.config.name), message: e.to_string() })?;
        let mut queues = lock(&open.outlet);
        Ok((std::mem::take(&mut queues), registered))
    }

    /// The own counters of every port's device, by the names that its driver gives them.
    pub fn device_counters(&self) -> impl Iterator<Item = (&str, Vec<(String, u64)>)> {
        self.opened.ports.iter().map(|port| (port.config.name.as_str(), port.port.xstats()))
    }

    /// How often neighbors of every port, by its name, had another MAC than before.
    pub fn neighbor_moves(&self) -> impl Iterator<Item = (&str, u64)> {
        let ports = self.opened.ports.iter().enumerate();
        ports.map(|(index, port)| (port.config.name.as_str(), self.slow.neighbor_moves(PortIndex(index))))
    }

    /// Ports with a device that stamps packets, by name, and the greatest error of its time stamps now, if that is known.
    pub fn stamp_bounds(&self) -> impl Iterator<Item = (&str, Option<u64>)> {
        let stamping =
            |port: &OpenPort| port.device_clock.as_ref().map(|clock| clock.bound_ns(self.opened.clock.mono_ns()));
        self.opened.ports.iter().filter_map(move |port| Some((port.config.name.as_str(), stamping(port)?)))
    }

    /// Counters of every port since `open`, in the order of the configuration.
    pub fn port_counters(&self) -> Vec<PortCounters> {
        self.opened.ports.iter().map(OpenPort::counters).collect()
    }

    /// Counters of every worker since `open`.
    pub fn worker_counters(&self) -> Vec<WorkerCounters> {
        let counters = |worker: &open::OpenWorker| WorkerCounters {
            cpu: worker.cpu,
            busy_ns: worker.share.busy_ns.get(),
            idle_ns: worker.share.idle_ns.get(),
            tx_packets: worker.share.tx_packets.get(),
            rx_packets: worker.share.rx_packets.get(),
            sleeps: worker.share.sleeps.get(),
        };
        self.opened.workers.iter().map(counters).collect()
    }

    /// Where in this process's memory each worker counts the packets it has sent: it stores there once in each pass of its loop, by which
    /// a trace of its instructions distinguishes one pass from the next.
    pub fn worker_counters_at(&self) -> Vec<usize> {
        self.opened.workers.iter().map(|worker| std::ptr::from_ref(&worker.share.tx_packets).addr()).collect()
    }

    /// Stops every run, then the workers, then the ports. Dropping does the same.
    pub fn close(self) {}
}

impl Drop for Datapath {
    fn drop(&mut self) {
        for run in self.monitor.runs() {
            run.remove();
        }
        self.opened.lines.send_all(|| Command::Quit);
        for worker in self.opened.workers.drain(..) {
            if worker.thread.join().is_err() {
                tracing::error!(cpu = worker.cpu, "a worker panicked");
            }
        }
    }
}

impl OpenPort {
    fn info(&self, clock: &Clock) -> PortInfo {
        let link = self.port.link();
        PortInfo {
            name: self.config.name.clone(),
            device: self.config.device.clone(),
            driver: self.port.driver().to_owned(),
            mac: self.port.mac(),
            link_up: link.up,
            removal_requested: self.port.removal_requested(),
            line_rate_bps: self.config.line_rate_bps.or(link.line_rate_bps),
            // Without the Ethernet header.
            mtu: self.port.max_frame_len().saturating_sub(14) as u32,
            offloads: self.port.offloads(),
            workers: self.group.clone(),
            tx_workers: self.tx_workers.clone(),
            rx_workers: self.rx_workers.clone(),
            max_queues: self.port.max_queues(),
            refused: self.port.refused().to_vec(),
            bond: self.port.bond_members(),
            copy_mode: self.port.copy_mode(),
            stamped_by: self.config.stamped_by,
            stamp_bound_ns: self.device_clock.as_ref().and_then(|device| device.bound_ns(clock.mono_ns())),
            offers_stamps: self.port.offers_stamps(),
            addresses: Vec::new(),
            gateways: Vec::new(),
        }
    }

    /// Clock of the device of the port with this index, for the monitor to follow; none if the device stamps no packets.
    fn stamping(&self, port: PortIndex) -> Option<Stamping> {
        let (counter, clock) = (self.port.counter()?, self.device_clock.clone()?);
        Some(Stamping { port, counter, clock })
    }

    fn counters(&self) -> PortCounters {
        let lost = self.port.stats();
        let mut counters = PortCounters {
            tx_dropped: lost.tx_dropped,
            rx_missed: lost.rx_missed,
            rx_errors: lost.rx_errors,
            link_up: self.port.link().up,
            ..PortCounters::default()
        };
        for queue in &self.tx {
            let packets = queue.tx_packets.get();
            counters.tx_packets += packets;
            counters.tx_bytes += queue.tx_bytes.get();
            counters.tx_dropped += queue.tx_dropped.get();
            counters.reflected_packets += queue.reflected.get();
            counters.throttled_packets += queue.throttled_packets.get();
            counters.tx_segmented_frames += queue.tx_segmented_frames.get();
            counters.queues.push((packets, 0));
        }
        for (index, queue) in self.rx.iter().enumerate() {
            let packets = queue.rx_packets.get();
            counters.rx_packets += packets;
            counters.rx_bytes += queue.rx_bytes.get();
            counters.foreign_packets += queue.foreign.get();
            counters.other_mac_packets += queue.other_mac.get();
            counters.not_reflected_packets += queue.not_reflected.get();
            counters.receive_waits += queue.receive_waits.get();
            counters.unstamped_packets += queue.unstamped.get();
            match counters.queues.get_mut(index) {
                Some(both) => both.1 = packets,
                None => counters.queues.push((0, packets)),
            }
        }
        counters
    }
}
