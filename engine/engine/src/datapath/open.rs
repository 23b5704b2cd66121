// SPDX-License-Identifier: Apache-2.0
//! Opening: which worker uses which port, packet memory, ports, worker threads.
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, mpsc},
    thread::{self, JoinHandle},
};

use rtrb::RingBuffer;
use rustix::thread::{CpuSet, sched_setaffinity};
use spate_dpdk::{
    Configured, Device, Eal, Error, Mempool, Port, QueueSizes, RegisteredThread, RxQueue, StampedBy, Started,
    StartedPort, TxQueue, on_own_lines,
};

use super::{
    Clock, Config, OpenError, PollMode, PortConfig, PortDevice,
    buffers::SHORT_ROOM,
    device_clock::DeviceClock,
    shared::{QueueShare, WorkerShare},
    worker::{self, Idle, QUEUE, Waker, Worker},
    workers::Workers,
};
use crate::index::{PortIndex, WorkerGroupIndex, WorkerIndex, WorkerRange};

/// Descriptors of a NIC's rings.
pub(super) const DESCRIPTORS: u16 = 1024;
/// Free packets of a pool that a thread keeps for itself, at most.
const IN_CACHE: u32 = 384;

/// A port with what is known of it and its counters.
pub(super) struct OpenPort {
    pub(super) config: PortConfig,
    pub(super) port: Port<Started>,
    /// Clock of the port's device, if that stamps packets.
    pub(super) device_clock: Option<Arc<DeviceClock>>,
    /// The workers that serve it: those of its group, or all.
    pub(super) group: WorkerRange,
    pub(super) tx_workers: Vec<WorkerIndex>,
    /// Workers that receive from the port, by receive queue.
    pub(super) rx_workers: Vec<WorkerIndex>,
    /// Transmit counters, by position in `tx_workers`.
    pub(super) tx: Vec<Arc<QueueShare>>,
    /// Receive counters, by position in `rx_workers`.
    pub(super) rx: Vec<Arc<QueueShare>>,
    /// Receive queues that no worker has.
    pub(super) outlet: Mutex<Vec<RxQueue>>,
}

/// A worker's thread and what it counts.
pub(super) struct OpenWorker {
    pub(super) cpu: usize,
    pub(super) share: Arc<WorkerShare>,
    pub(super) thread: JoinHandle<()>,
}

/// Open ports and workers.
pub(super) struct Opened {
    pub(super) eal: Eal,
    pub(super) clock: Clock,
    pub(super) ports: Vec<OpenPort>,
    pub(super) workers: Vec<OpenWorker>,
    pub(super) lines: Arc<Workers>,
    pub(super) nodes: Nodes,
}

/// CPU affinity of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Each on the CPU that the configuration has for it.
    OwnCpus,
    /// All workers run where the thread may run that opens the data path.
    Together,
}

pub(super) fn open(config: Config, placement: Placement) -> Result<Opened, OpenError> {
    check(&config)?;
    let groups = groups(&config)?;
    let map = map_ports(&config, &groups);
    let devices: Vec<Device> = config.ports.iter().map(|port| device(&port.device)).collect();
    for (port, device) in config.ports.iter().zip(&devices) {
        device.check().map_err(|e| refused(&port.name, &e))?;
    }
    let nodes = Nodes::of(&config, &groups);
    let eal = Eal::init(config.memory, &devices, &config.control_cpus, &nodes.cpus(&config))
        .map_err(|e| OpenError::System { context: "packet memory and devices".into(), message: e.to_string() })?;
    let clock = Clock::calibrate(config.clock_error);

    let mut parts = Threads::new(&config, groups, nodes)?;
    let mut ports = Vec::new();
    for (index, port) in config.ports.iter().enumerate() {
        let mut rx_workers = map[index].clone();
        let node = parts.nodes.of_worker(rx_workers[0]);
        let opened = match open_port(&eal, node, &devices[index], rx_workers.len(), port) {
            Err(Error::TooFewQueues { have, .. }) if have > 0 => {
                tracing::info!(port = port.name, queues = have, "fewer workers send: the device has fewer queues");
                rx_workers.truncate(have);
                open_port(&eal, node, &devices[index], have, port)
            }
            opened => opened,
        };
        let opened = opened.map_err(|e| refused(&port.name, &e))?;
        let mut tx_workers = rx_workers.clone();
        tx_workers.sort_unstable();
        if opened.1.len() < rx_workers.len() && !matches!(port.device, PortDevice::Null | PortDevice::NetNull) {
            tracing::info!(
                port = port.name,
                queues = opened.1.len(),
                "fewer workers receive than send: the device has fewer queues that share packets out"
            );
        }
        rx_workers.truncate(opened.1.len());
        if matches!(port.device, PortDevice::Pci(_) | PortDevice::Tap(_)) {
            let used = opened.0.offloads().names().join(", ");
            let used = if used.is_empty() { "none" } else { &used };
            let steering = match opened.0.steering() {
                Ok(()) if opened.1.len() == 1 => "one queue",
                Ok(()) => "as computed",
                Err(differs) => differs,
            };
            tracing::info!(port = port.name, driver = opened.0.driver(), offloads = used, steering, "opened");
        }
        let device_clock = opened.0.counter().map(|counter| Arc::new(DeviceClock::calibrate(&counter, &clock)));
        ports.push(parts.assign(PortIndex(index), port, opened, device_clock, (tx_workers, rx_workers)));
    }
    let (workers, lines, nodes) = parts.start(&config, placement, &eal, &clock)?;
    Ok(Opened { eal, clock, ports, workers, lines, nodes })
}

fn device(port: &PortDevice) -> Device {
    match port {
        PortDevice::Pci(address) => Device::Pci(port.pci_address().unwrap_or_else(|| address.clone())),
        PortDevice::Kernel(interface) => Device::Kernel(interface.clone()),
        PortDevice::Xdp(interface) => Device::Xdp(interface.clone()),
        PortDevice::Tap(interface) => Device::Tap(interface.clone()),
        PortDevice::Loopback | PortDevice::Outlet => Device::Loopback,
        PortDevice::Null => Device::Null,
        PortDevice::NetNull => Device::NetNull,
        PortDevice::Bond(members) => Device::Bond(members.iter().map(device).collect()),
        PortDevice::Memif(memif) => Device::Memif(memif.clone()),
    }
}

fn refused(port: &str, error: &Error) -> OpenError {
    OpenError::System { context: format!("port {port}"), message: error.to_string() }
}

fn wrong(field: impl Into<String>, problem: impl Into<String>) -> OpenError {
    OpenError::Config { field: field.into(), problem: problem.into() }
}

/// Refuses ports and CPUs that contradict each other.
fn check(config: &Config) -> Result<(), OpenError> {
    let workers = config.worker_cpus.len();
    if config.ports.is_empty() {
        return Err(wrong("ports", "at least one port is needed"));
    }
    if !(1..=255).contains(&workers) {
        return Err(wrong("worker_cpus", format!("1 to 255 workers are possible, not {workers}")));
    }
    if config.control_cpus.is_empty() {
        return Err(wrong("control_cpus", "at least one CPU is needed (it may be a worker's)"));
    }
    let mut names = BTreeSet::new();
    let mut devices = Vec::new();
    for (index, port) in config.ports.iter().enumerate() {
        if !names.insert(port.name.as_str()) {
            return Err(wrong(
                format!("ports[{index}].name"),
                format!("port {} has the same name as another; names are unique", port.name),
            ));
        }
        for part in port.device.parts() {
            if part.leads_outside() && devices.contains(&part) {
                return Err(wrong(format!("ports[{index}].device"), "two ports cannot use one device"));
            }
            devices.push(part);
        }
    }
    Ok(())
}

/// Worker groups, by port.
fn groups(config: &Config) -> Result<Vec<WorkerRange>, OpenError> {
    let workers = config.worker_cpus.len();
    if config.worker_groups.is_empty() {
        return Ok(vec![WorkerRange::new(WorkerIndex(0), workers); config.ports.len()]);
    }
    let mut by_port = vec![None; config.ports.len()];
    let mut first = 0;
    for (index, group) in config.worker_groups.iter().enumerate() {
        let at = WorkerGroupIndex(index).path();
        if group.workers == 0 || group.ports.is_empty() {
            return Err(wrong(at.to_string(), "it needs a port and a worker at least"));
        }
        for &PortIndex(port) in &group.ports {
            let Some(of_port) = by_port.get_mut(port) else {
                return Err(wrong(at.field("ports").to_string(), format!("there is no port {port}")));
            };
            if of_port.replace(WorkerRange::new(WorkerIndex(first), group.workers)).is_some() {
                let name = &config.ports[port].name;
                let problem = format!("{name} is in a group already: workers of one group serve a port");
                return Err(wrong(at.field("ports").to_string(), problem));
            }
        }
        first += group.workers;
    }
    if first != workers {
        return Err(wrong("worker_groups", format!("they have {first} workers, and there are {workers}")));
    }
    let named = by_port.into_iter().zip(&config.ports).map(|(group, port)| {
        group.ok_or_else(|| wrong("worker_groups", format!("port {} is in none: add it to one", port.name)))
    });
    named.collect()
}

/// Where the memory of workers and of the ports that they serve is.
pub(super) struct Nodes {
    /// The workers of each group, and the NUMA node of the first; one group, of no node in particular, if there are none.
    by_group: Vec<(WorkerRange, Option<usize>)>,
}

impl Nodes {
    fn of(config: &Config, groups: &[WorkerRange]) -> Self {
        let mut all = groups.to_vec();
        all.sort_unstable_by_key(WorkerRange::first);
        all.dedup();
        let several = !config.worker_groups.is_empty();
        let node = |group: &WorkerRange| Eal::node_of(config.worker_cpus[group.first().0]).filter(|_| several);
        Self { by_group: all.into_iter().map(|group| (group.clone(), node(&group))).collect() }
    }

    /// CPUs of the workers of each group.
    fn cpus<'a>(&self, config: &'a Config) -> Vec<&'a [usize]> {
        self.by_group.iter().map(|(group, _)| group.of(&config.worker_cpus)).collect()
    }

    /// The node of a worker's memory; none: any.
    pub(super) fn of_worker(&self, worker: WorkerIndex) -> Option<usize> {
        self.by_group.iter().find(|(group, _)| group.contains(worker)).and_then(|(_, node)| *node)
    }
}

/// For each port those of its workers that use it. The first gets what the device cannot share out.
fn map_ports(config: &Config, groups: &[WorkerRange]) -> Vec<Vec<WorkerIndex>> {
    // A kernel interface has one queue here. What a bond and a shared memory interface need from time to time, one thread does.
    let used = |port: &PortConfig, workers| match port.device {
        PortDevice::Kernel(_)
        | PortDevice::Xdp(_)
        | PortDevice::Tap(_)
        | PortDevice::Bond(_)
        | PortDevice::Memif(_) => 1,
        _ => workers,
    };
    let map = |(index, port): (usize, &PortConfig)| {
        let group = &groups[index];
        let place = groups[..index].iter().filter(|other| *other == group).count();
        (0..used(port, group.count())).map(|worker| group.at(place + worker)).collect()
    };
    config.ports.iter().enumerate().map(map).collect()
}

/// Opens a port for this many workers, with a receive queue for each if it can share packets out, and its memory on a NUMA node
/// if one is given.
fn open_port(
    eal: &Eal,
    node: Option<usize>,
    device: &Device,
    workers: usize,
    config: &PortConfig,
) -> Result<StartedPort, Error> {
    let mut port = Port::<Configured>::open(eal, device, workers, workers, config.offloads)?;
    if let Some(mac) = config.mac {
        port = port.with_mac(mac);
    }
    if config.stamped_by == StampedBy::Device {
        port = port.stamped_by_device()?;
    }
    let packets = match device {
        Device::Pci(_) | Device::Tap(_) => {
            port.rx_queues() as u32 * (u32::from(DESCRIPTORS) + IN_CACHE) + u32::from(DESCRIPTORS) + 1023
        }
        Device::Kernel(_) | Device::Xdp(_) | Device::Memif(_) => 1023,
        Device::Bond(members) => members.len() as u32 * (u32::from(DESCRIPTORS) + IN_CACHE) + 1023,
        // Receives what workers made, or nothing: the driver wants a pool all the same.
        Device::Loopback | Device::Null | Device::NetNull => 63,
    };
    let room = match device {
        Device::Loopback | Device::Null | Device::NetNull => SHORT_ROOM,
        _ => port.rx_room(),
    };
    let pool = port.receive_pool(eal, node, packets, room)?;
    port.start(QueueSizes { rx: DESCRIPTORS, tx: DESCRIPTORS }, &pool)
}

/// What worker threads are started with.
struct Threads {
    queues: Vec<Queues>,
    shared: Vec<usize>,
    /// By port: the workers that serve it.
    groups: Vec<WorkerRange>,
    nodes: Nodes,
}

#[derive(Default)]
struct Queues {
    tx: Vec<(PortIndex, TxQueue, Arc<QueueShare>)>,
    rx: Vec<worker::ReceiveQueue>,
    kernel: bool,
}

impl Threads {
    fn new(config: &Config, groups: Vec<WorkerRange>, nodes: Nodes) -> Result<Self, OpenError> {
        let twice = config.worker_cpus.iter().enumerate().find(|(i, cpu)| config.worker_cpus[..*i].contains(cpu));
        if let Some((index, cpu)) = twice {
            return Err(wrong(
                format!("worker_cpus[{index}]"),
                format!("CPU {cpu} is another worker's already; give each worker a CPU of its own"),
            ));
        }
        let queues = config.worker_cpus.iter().map(|_| Queues::default()).collect();
        Ok(Self { queues, shared: config.control_cpus.clone(), groups, nodes })
    }

    /// Gives a port's queues to their workers.
    fn assign(
        &mut self,
        index: PortIndex,
        config: &PortConfig,
        (port, rx_queues, tx_queues): StartedPort,
        device_clock: Option<Arc<DeviceClock>>,
        (tx_workers, rx_workers): (Vec<WorkerIndex>, Vec<WorkerIndex>),
    ) -> OpenPort {
        let tx: Vec<_> = tx_workers.iter().map(|_| Arc::new(QueueShare::default())).collect();
        let rx: Vec<_> = rx_workers.iter().map(|_| Arc::new(QueueShare::default())).collect();
        for ((worker, queue), share) in tx_workers.iter().zip(tx_queues).zip(&tx) {
            self.queues[worker.0].tx.push((index, queue, Arc::clone(share)));
        }
        let (rx_queues, outlet) = match config.device {
            PortDevice::Outlet => (Vec::new(), rx_queues),
            _ => (rx_queues, Vec::new()),
        };
        for ((worker, queue), share) in rx_workers.iter().zip(rx_queues).zip(&rx) {
            let receiver = &mut self.queues[worker.0];
            receiver.kernel |=
                config.device.parts().iter().any(|part| matches!(part, PortDevice::Kernel(_) | PortDevice::Xdp(_)));
            if !matches!(config.device, PortDevice::Null | PortDevice::NetNull) {
                receiver.rx.push(worker::ReceiveQueue {
                    port: index,
                    queue,
                    share: Arc::clone(share),
                    mac: (!config.any_mac).then(|| port.mac()),
                    device_clock: device_clock.clone(),
                });
            }
        }
        let group = self.groups[index.0].clone();
        let (config, outlet) = (config.clone(), Mutex::new(outlet));
        OpenPort { config, port, device_clock, group, tx_workers, rx_workers, tx, rx, outlet }
    }

    fn start(
        self,
        config: &Config,
        placement: Placement,
        eal: &Eal,
        clock: &Clock,
    ) -> Result<(Vec<OpenWorker>, Arc<Workers>, Nodes), OpenError> {
        let count = self.queues.len();
        let failed =
            |WorkerIndex(index), message: String| OpenError::System { context: format!("worker {index}"), message };
        let mut workers = Vec::new();
        let mut lines = Vec::new();
        for (index, (queues, handoff)) in self.queues.into_iter().zip(worker::between_workers(count)).enumerate() {
            let (cpu, index) = (config.worker_cpus[index], WorkerIndex(index));
            let (commands, their_commands) = RingBuffer::new(QUEUE);
            let (their_reclaim, reclaim) = RingBuffer::new(2 * QUEUE);
            let waker = Waker::new().map_err(|e| failed(index, e.to_string()))?;
            let shared_cpu = placement == Placement::Together || self.shared.contains(&cpu);
            let adaptive = match config.poll {
                PollMode::Auto => queues.kernel || shared_cpu,
                PollMode::Busy => false,
                PollMode::Adaptive => true,
            };
            let is_loopback = |port: PortIndex| device(&config.ports[port.0].device) == Device::Loopback;
            let loopback =
                queues.rx.iter().map(|queue| queue.port).chain(queues.tx.iter().map(|queue| queue.0)).any(is_loopback);
            let serving = self.groups.iter().zip(&config.ports).filter(|(group, _)| group.contains(index));
            let nics = |(_, port): (&WorkerRange, &PortConfig)| {
                port.device
                    .parts()
                    .iter()
                    .filter(|part| matches!(part, PortDevice::Pci(_) | PortDevice::Tap(_)))
                    .count()
            };
            let nics = serving.clone().map(nics).sum::<usize>() as u32;
            let beside = serving.clone().next().map_or(count, |(group, _)| group.count()) as u32 - 1;
            // What rings of NICs and of a loopback can hold, what workers that receive from it keep, and some to work with.
            let loops = if loopback { 4096 + beside * IN_CACHE } else { 0 };
            let packets = 2048 + nics * u32::from(DESCRIPTORS) + loops - 1;
            let pool = Mempool::on_node(eal, self.nodes.of_worker(index), "sending", packets, SHORT_ROOM)
                .map_err(|e| failed(index, e.to_string()))?;
            let share = Arc::new(WorkerShare::default());
            let parts = worker::Parts {
                index,
                clock: clock.clone(),
                commands: their_commands,
                reclaim: their_reclaim,
                pool,
                tx: queues.tx,
                rx: queues.rx,
                handoff,
                share: Arc::clone(&share),
                idle: Idle::new(adaptive, shared_cpu, waker.clone()),
            };
            let own_cpu = (placement == Placement::OwnCpus).then_some(cpu);
            let thread = spawn(index, own_cpu, *eal, parts).map_err(|message| failed(index, message))?;
            workers.push(OpenWorker { cpu, share, thread });
            lines.push((commands, reclaim, waker));
        }
        Ok((workers, Arc::new(Workers::new(lines.into_iter())), self.nodes))
    }
}

/// Keeps the calling thread to a CPU.
fn pin(cpu: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(format!("there is no CPU {cpu}"));
    }
    set.set(cpu);
    sched_setaffinity(None, &set)
        .map_err(|e| format!("it cannot be pinned to CPU {cpu}: {e} (is that CPU in this container's set?)"))
}

/// What the names of workers' threads begin with; their number follows.
pub const WORKER_THREAD: &str = "worker-";

/// Starts a worker's thread, known to DPDK and pinned to a CPU if it has one of its own.
fn spawn(
    WorkerIndex(index): WorkerIndex,
    own_cpu: Option<usize>,
    eal: Eal,
    parts: worker::Parts,
) -> Result<JoinHandle<()>, String> {
    let (ready, wait) = mpsc::sync_channel(1);
    let run = move || {
        let prepare = || {
            own_cpu.map_or(Ok(()), pin)?;
            // The kernel may delay sleepers by 50 us to bundle wake-ups; not these.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            RegisteredThread::new(&eal).map_err(|e| e.to_string())
        };
        match prepare() {
            Ok(_registered) => {
                let _ = ready.send(Ok(()));
                on_own_lines(|| Worker::new(parts)).run();
            }
            Err(message) => {
                let _ = ready.send(Err(message));
            }
        }
    };
    let thread =
        thread::Builder::new().name(format!("{WORKER_THREAD}{index}")).spawn(run).map_err(|e| e.to_string())?;
    wait.recv().map_err(|e| e.to_string())??;
    Ok(thread)
}
