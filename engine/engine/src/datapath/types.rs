// SPDX-License-Identifier: Apache-2.0
//! What the control side sends to the data path, and what it gets back: plain data and errors.
use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, sync::Arc};

use spate_dpdk::{BondMember, CopyMode, Offloads, Refusal, StampedBy};
use spate_neighbour::{Neighbour, Prefix};
use spate_net::{
    Mark, TagList,
    reflect::{Allowed, Swap},
};
use spate_replay::{Capture, Gap, Rewrite};
use spate_stateful::{Address, Count, FieldPath, Neighbours, PortLink, Ratio, Scenario, envelope::GatewayMac};
use spate_stateless::{Rate, StreamTiming, Template};
use spate_stats::Timed;

use super::{
    config::PortDevice,
    slow::{AddressGuard, Hop, LinkNeighbor, ResolutionGuard},
};
use crate::index::{PoolIndex, PortIndex, StreamIndex, WorkerIndex, WorkerRange};

/// An open port.
#[derive(Clone, Debug)]
pub struct PortInfo {
    /// Name as configured.
    pub name: String,
    /// Device as configured.
    pub device: PortDevice,
    /// DPDK's driver.
    pub driver: String,
    /// Its own address.
    pub mac: [u8; 6],
    /// Link state now.
    pub link_up: bool,
    /// Whether the kernel requests its device back.
    pub removal_requested: bool,
    /// As configured, or what the device says; none if unknown.
    pub line_rate_bps: Option<u64>,
    /// Greatest payload of a frame in bytes.
    pub mtu: u32,
    /// Offloads of its device that are in use.
    pub offloads: Offloads,
    /// Workers that serve it: those of its group, or all.
    pub workers: WorkerRange,
    /// Workers of `workers` that transmit on the port.
    pub tx_workers: Vec<WorkerIndex>,
    /// The workers that receive from it, by receive queue.
    pub rx_workers: Vec<WorkerIndex>,
    /// Receive queues that its device can share packets out to, and transmit queues that it has.
    pub max_queues: (usize, usize),
    /// Settings that its device refused at the start.
    pub refused: Vec<Refusal>,
    /// Members of a bond.
    pub bond: Vec<BondMember>,
    /// Whether packets of an AF_XDP socket are copied; none of other devices.
    pub copy_mode: Option<CopyMode>,
    /// What stamps the packets that it receives.
    pub stamped_by: StampedBy,
    /// By how much the time stamps of its device may be off now; none if that is not known, or the device stamps no packets.
    pub stamp_bound_ns: Option<u64>,
    /// Whether its device could stamp packets.
    pub offers_stamps: bool,
    /// Its addresses.
    pub addresses: Vec<Prefix>,
    /// Its gateways and what is known of them.
    pub gateways: Vec<Neighbour>,
}

/// The phases of a run, from its start instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Packets due before this belong to the warm-up.
    pub warmup_ns: u64,
    /// Length of the measured phase; none: until stopped.
    pub duration_ns: Option<u64>,
    /// How long the drain waits for packets in flight.
    pub drain_ns: u64,
}

/// One stream of a run.
#[derive(Clone, Debug)]
pub struct StreamSpec {
    /// Name, for messages.
    pub name: String,
    /// Its number in trailers, unique in the run.
    pub id: u16,
    /// The port that sends it.
    pub tx_port: PortIndex,
    /// The port that should receive it, if any.
    pub rx_port: Option<PortIndex>,
    /// Which of the engines that send it this one is, and how many there are; none if others send it alone.
    pub part: Option<(u32, u32)>,
    /// Packets of the stream; `Template::flow` says whether they are measured. For a replay, a template like its first packet stands in for
    /// its packets.
    pub template: Template,
    /// The capture it replays instead; `timing.rate` is then its speed: distances (see `Gap`) in nanoseconds.
    pub replay: Option<ReplaySpec>,
    /// When it sends; `next` is an index in `RunSpec::streams`, of the same port, and `Elsewhere` if that one replays. Its rate is set, also
    /// if it stands. Streams of a chain with a replay are pinned, and take turns: one of them starts by itself.
    pub timing: StreamTiming,
    /// A disabled stream sends nothing until enabled.
    pub enabled: bool,
    /// Whether the stream is paused until a command resumes it.
    pub paused: bool,
    /// This many packets of each worker are built at Prepare and then repeated; 0 for none. Not with `Template::flow`.
    pub cache: usize,
    /// What is measured of its packets where they arrive.
    pub receive: StreamReceive,
    /// The neighbor that the destination MAC of its packets was resolved from: they follow it to another MAC. None: the MAC stays.
    pub next_hop: Option<IpAddr>,
}

/// A capture to replay. One worker sends it.
#[derive(Clone, Debug)]
pub struct ReplaySpec {
    /// The capture, looked through.
    pub capture: Capture,
    /// What is written into its packets; it was looked through with this.
    pub rewrite: Rewrite,
    /// What counts as the distance between two.
    pub gap: Gap,
    /// Number of passes; none: without end.
    pub loops: Option<u64>,
    /// Minimum gap.
    pub min_gap_ns: u64,
    /// The id of its stream; of streams that replay the halves of one capture, the lower of both.
    pub first_id: u16,
}

impl ReplaySpec {
    /// Which of several engines sends it, unless it is pinned: one sends both halves of a capture.
    pub fn engine(&self, engines: u32) -> u32 {
        u32::from(self.first_id) % engines.max(1)
    }
}

impl StreamSpec {
    /// Which of this many workers of its port, by place among them, replays its capture; none if it is no replay, or another engine's.
    pub fn replayer(&self, workers: usize) -> Option<usize> {
        let (replay, (engine, engines)) = self.replay.as_ref().zip(self.part)?;
        if self.timing.pinned {
            return (engine == 0).then_some(0);
        }
        let worker = (u32::from(self.id) / engines.max(1)) as usize % workers.max(1);
        (replay.engine(engines) == engine).then_some(worker)
    }
}

/// What is measured of a stream's packets where they arrive, besides what `Template::flow` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamReceive {
    /// Delays are measured, and counted in the histogram of this number; streams may share one. Needs `Template::flow`.
    pub histogram: Option<usize>,
    /// The mark by which its packets are recognized where there is no trailer. They must have it.
    pub mark: Option<Mark>,
    /// Index of its list in `Measure::by_tag`, if its packets are counted by VLAN tag, too. Streams that share one are counted together.
    /// Needs `Template::flow`.
    pub by_tag: Option<usize>,
    /// Whether packets differ in addresses and ports, by which a port spreads them over queues.
    pub varied: bool,
}

/// What is measured and done beside the streams of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// Ports that send back what they receive.
    pub reflectors: Vec<Reflector>,
    /// Ports of which foreign traffic is measured.
    pub receivers: Vec<PortIndex>,
    /// The wall clocks of other engines are known to agree with this one's to this bound.
    pub clock_bound_ns: Option<u64>,
    /// Lists of VLAN tags by which packets of streams are counted.
    pub by_tag: Vec<Arc<TagList>>,
}

/// The clock that all engines of a run have in common, as one of them is to keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceClock {
    /// The reference clock minus the engine's monotonic clock.
    pub offset_ns: i64,
    /// Greatest error of `offset_ns` at `measured_at_ns`.
    pub bound_ns: u64,
    /// When that was measured, on the engine's monotonic clock.
    pub measured_at_ns: u64,
    /// By how much the error may grow, in nanoseconds a second.
    pub drift_ppb: u32,
}

/// A port that sends back what it receives while the run sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reflector {
    /// The port.
    pub port: PortIndex,
    /// Fields that are swapped.
    pub swap: Swap,
    /// Frames to any station are sent back, not only those to the port's own MAC.
    pub any_mac: bool,
    /// Destinations that packets may be sent back to.
    pub allowed: Allowed,
}

/// Everything the data path needs for one run.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// Identifies it.
    pub run_id: String,
    /// Marks its packets; never 0.
    pub tag: u16,
    /// Its phases.
    pub timing: Timing,
    /// A packet that leaves this long after its time is late; none: 1 ms, on kernel-backed ports 20 ms.
    pub late_after_ns: Option<u64>,
    /// This engine's (index, count) of equal ones.
    pub share: (u32, u32),
    /// Its streams.
    pub streams: Vec<StreamSpec>,
    /// Its templates of applications.
    pub stateful: Option<StatefulSpec>,
    /// What is measured and done beside them.
    pub measure: Measure,
}

/// Emulated applications of a run.
#[derive(Clone, Debug)]
pub struct StatefulSpec {
    /// What is emulated.
    pub scenario: Arc<Scenario>,
    /// By port: its own MAC, and where frames of its clients go.
    pub links: Vec<PortLink>,
    /// The neighbors on the links.
    pub on_link: OnLink,
    /// If connections are recorded.
    pub records: Option<RecordsSpec>,
}

/// By which neighbors the MACs of a port's `PortLink` and `Neighbours` were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkHops {
    /// Next hops of servers that clients connect to and of the remote ends of their tunnels, by address.
    pub servers: BTreeMap<Address, Hop>,
    /// Next hops of all other destinations, over IPv4 and IPv6.
    pub others: [Option<Hop>; 2],
}

/// What is known of the links that emulated applications are on.
#[derive(Clone, Debug, Default)]
pub struct OnLink {
    /// By port: servers that its clients reach without the next hop, and their MACs.
    pub neighbours: Vec<Neighbours>,
    /// By port: by which neighbors these were found, which the run's flows follow to other MACs. Of a port beyond the end they do not.
    pub hops: Vec<LinkHops>,
    /// Gateways of pools, which the run's flows follow to other MACs if their ports have an entry in `hops`.
    pub gateways: Vec<PoolGateway>,
    /// Answers for the addresses of the scenario already; none: from when the run is prepared.
    pub address_guard: Option<Arc<AddressGuard>>,
    /// Looks for gateways of pools in the place of clients.
    pub resolution_guard: Option<Arc<ResolutionGuard>>,
}

/// The gateway of the clients of a pool on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolGateway {
    /// The port.
    pub port: PortIndex,
    /// The pool, in the scenario's order.
    pub pool: PoolIndex,
    /// Its MAC.
    pub mac: [u8; 6],
    /// The neighbor that has the MAC; none: the port itself has it.
    pub neighbor: Option<LinkNeighbor>,
}

impl From<PoolGateway> for GatewayMac {
    fn from(PoolGateway { port, pool, mac, .. }: PoolGateway) -> Self {
        Self { port: port.0, pool: pool.0, mac }
    }
}

/// Which connections are recorded, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordsSpec {
    /// Name of the run in the file.
    pub run: String,
    /// One connection in this many is recorded.
    pub one_in: u32,
    /// The file to write, which must not exist. None: they are only sent to watchers.
    pub path: Option<PathBuf>,
    /// Records in the file at most.
    pub most: u64,
    /// Timeout of finishing the file after the workers have ended: its volume may hang.
    pub within_ns: u64,
}

/// State of a run's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordsState {
    /// The file.
    pub path: Option<PathBuf>,
    /// Records in it.
    pub written: u64,
    /// Records that are not, because it has as many as it may have.
    pub omitted: u64,
    /// Where no file was asked for, records that at least one watcher was given.
    pub delivered: u64,
    /// Records that no reader received: there was none, or all were too slow.
    pub undelivered: u64,
    /// Why there is no file, or will be none.
    pub problem: Option<String>,
}

/// What one side of a template counted, all workers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateCounters {
    /// The template's name.
    pub name: String,
    /// Statistics group.
    pub group: String,
    /// Whether these are the template's clients; else its servers.
    pub client: bool,
    /// Flows, those in TIME-WAIT not among them.
    pub open: u64,
    /// Counts in the order of `spate_stateful::COUNTERS`.
    pub counts: Vec<u64>,
    /// Counters of the warm-up: what each worker had counted in its first iteration after it.
    pub warmup: Vec<u64>,
    /// Counters of its program.
    pub programs: Vec<ProgramCounter>,
}

/// A counter of a program, all workers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCounter {
    /// Name in the program.
    pub name: String,
    /// Count since the start.
    pub count: u64,
    /// The part of `value` that was counted in the warm-up.
    pub warmup: u64,
}

/// How packets of a run's flows came to one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// The worker.
    pub worker: WorkerIndex,
    /// Packets of this worker's clients' flows, which arrived where RSS was computed to bring them.
    pub rss: u64,
    /// Packets of servers' flows, which are placed where their clients' packets arrive.
    pub placed: u64,
    /// Given to the worker that has the flow.
    pub handed_off: u64,
    /// Not given, because that worker was behind: lost.
    pub handoff_lost: u64,
}

/// Times of one side of a template in the measured phase, all workers together.
#[derive(Clone, Debug)]
pub struct TemplateTimes {
    /// How long connections took to be established; none over UDP.
    pub connect: Option<Timed>,
    /// Round trips; none where they are not measured.
    pub round_trip: Option<Timed>,
}

impl TemplateCounters {
    /// The value of one counter.
    pub fn get(&self, count: Count) -> u64 {
        self.counts[count as usize]
    }
}

/// A change of running streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets the rate.
    Rate(Rate),
    /// Sets the rate to (numerator / denominator) times the spec's.
    Factor(Ratio),
    /// Pauses or resumes the streams; what falls into the pause is not sent later.
    Paused(bool),
    /// Disables or enables the streams.
    Enabled(bool),
}

/// A change of templates of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowChange {
    /// Sets the rate: flows a second over all engines and workers, as a fraction.
    Rate(Ratio),
    /// Sets the rate to this fraction of the spec's.
    Factor(Ratio),
    /// No flow starts, or they do again; what falls into the pause does not begin later.
    Paused(bool),
    /// Disables or enables the templates: the same.
    Enabled(bool),
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Ready to start.
    Prepared,
    /// Started, its instant not yet reached.
    Armed,
    /// Sends warm-up packets.
    WarmingUp,
    /// Sends measured packets.
    Running,
    /// Sends nothing, its clock stands.
    Paused,
    /// Waits for packets under way.
    Draining,
    /// Ended after its full duration, or stopped after a run without a set duration.
    Complete,
    /// Ended before its duration.
    Stopped,
}

impl RunState {
    /// Whether the run is over: nothing of it changes any more.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Complete | Self::Stopped)
    }
}

/// Counters of a port since it was opened. Bytes include the FCS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets the device took.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Refused by the device, its driver or the kernel behind it.
    pub tx_dropped: u64,
    /// Packets read.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Lost before they could be read.
    pub rx_missed: u64,
    /// Received broken.
    pub rx_errors: u64,
    /// Read, without a trailer of any run here.
    pub foreign_packets: u64,
    /// Foreign packets for another station by their destination MAC.
    pub other_mac_packets: u64,
    /// Received and sent back; in `tx_packets` too.
    pub reflected_packets: u64,
    /// Received on a port that sends back, and not sent back: for another station, to or from a group, not IP, at the end of their
    /// hops, to a destination that is not allowed, or too late.
    pub not_reflected_packets: u64,
    /// Packets that the limit put off, each once; reflected ones it dropped.
    pub throttled_packets: u64,
    /// Frames that the device cut into segments, which are packets.
    pub tx_segmented_frames: u64,
    /// Times a worker read nothing because another, which keeps sequences, was behind.
    pub receive_waits: u64,
    /// Measured by the worker's clock although the device is to stamp them: they had no time stamp, or one that cannot be.
    pub unstamped_packets: u64,
    /// By queue, in queue order: (transmitted, received).
    pub queues: Vec<(u64, u64)>,
    /// Link state now.
    pub link_up: bool,
}

/// Counters of a worker since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounters {
    /// Its CPU.
    pub cpu: usize,
    /// Time with work.
    pub busy_ns: u64,
    /// Time without.
    pub idle_ns: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Times it slept because nothing was due.
    pub sleeps: u64,
}

/// Why a run could not be prepared.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct PrepareError {
    /// Path of the field in the plan, such as "streams[3].packet".
    pub field: FieldPath,
    /// The problem and the remedy.
    pub problem: String,
    /// Whether it is a lack of memory or queues rather than a wrong plan.
    pub exhausted: bool,
}

/// Why a call on a run was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The call is not possible in the run's state.
    #[error("the run is {state:?}: {problem}")]
    State {
        /// Its state.
        state: RunState,
        /// Why that does not do.
        problem: &'static str,
    },
    /// The instant has passed.
    #[error("the instant {at_wall_ns} passed {late_ns} ns ago")]
    Passed {
        /// The requested instant.
        at_wall_ns: u64,
        /// How long ago the instant was.
        late_ns: u64,
    },
    /// Time stamps of the run are by the wall clock.
    #[error("time stamps of the run are by the wall clock: it is of one engine, or its plan has a clock_bound_ns")]
    NoReference,
    /// The run has no such stream.
    #[error("{} does not exist", _0.path())]
    UnknownStream(StreamIndex),
    /// The new rate cannot be used.
    #[error(transparent)]
    Rate(#[from] spate_stateless::RateError),
    /// The new rates of templates cannot be used together.
    #[error(transparent)]
    Flows(#[from] spate_stateful::arrivals::TimingError),
}
