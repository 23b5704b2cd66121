// SPDX-License-Identifier: Apache-2.0
//! A run on the workers' own loop in virtual time: what it sends, packet by packet, in order of time.
//!
//! Each worker has both ends of its flows, with a path between them that takes a fixed time and loses nothing. Servers of clients in
//! tunnels of GTP-U are met through the tunnels, as there is no UPF on the path. Where only one side is emulated there are no answers.
//! What streams send arrives nowhere.
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use spate_net::vlan::Tags;
use spate_replay::{HeldTape, Pacer, Source};
use spate_stateful::{
    Count, Counters, Emulation, EmulationError, PortLink, Ratio, Scenario,
    envelope::{self, Envelopes},
    tuples::{Sharding, Share},
};
use spate_stateless::{Rate, Schedule, StreamTiming, WorkerShare};

use super::{
    ReadError, RunSpec,
    cache::Cache,
    clock::Timescale,
    prepare::replay::{Reading, is_started},
    run::clock::RunClock,
    shared::RunShare,
    worker::{
        Command, Emulated, FlowRate, Pools, PortRun, RateChange, Replay, ReplayParts, ReplayTape, RunForeign,
        RunReceive, SendStream, SpeedChange, WorkerRun,
        simulated::{Packet, Sent, Simulated, World, prebuilt},
        speed_of,
    },
};
use crate::index::{PortIndex, PortStreamIndex, RunSlot, StreamIndex};

/// Time from a frame's departure to its arrival.
const PATH_NS: u64 = 10_000;
/// Seed of initial sequence numbers: the same plan gives the same packets.
const SEED: u128 = 1;
/// Slots of the two runs that a simulation is: of streams, and of flows.
const STREAMS: RunSlot = RunSlot(0);
const FLOWS: RunSlot = RunSlot(1);
/// The first flows start then: a client is up a little later than its clock.
const FLOWS_BEGIN_NS: u64 = 1;

/// What to simulate.
pub struct SimulationSpec<'a> {
    /// The run. Its templates' links are those of the simulation.
    pub spec: &'a RunSpec,
    /// Its templates, with all servers.
    pub scenario: Option<Arc<Scenario>>,
    /// Workers that share it.
    pub workers: usize,
    /// Ports it is on.
    pub ports: usize,
    /// Rates to come, in order of time.
    pub steps: Vec<RateStep>,
    /// Instants at which to note how many flows were established, in order of time.
    pub marks: VecDeque<u64>,
    /// Packets of streams that each worker sends at most.
    pub worker_limit: u64,
}

/// Rates from an instant of the run on.
#[derive(Clone, Debug)]
pub struct RateStep {
    /// The instant.
    pub at_ns: u64,
    /// Rates of the streams that a schedule sends; the others have none.
    pub rates: Vec<(StreamIndex, Option<Rate>)>,
    /// Speeds of the streams that replay captures.
    pub speeds: Vec<(StreamIndex, Rate)>,
    /// The fraction of all templates' rates.
    pub factor: Ratio,
}

/// Why a run cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// Its templates.
    #[error("{}: {_0}", _0.field())]
    Templates(#[from] EmulationError),
    /// A stream's capture.
    #[error("{stream}: {error}")]
    Capture {
        /// Name of the stream.
        stream: String,
        /// The error.
        error: ReadError,
    },
}

/// A packet that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedPacket {
    /// The instant of departure, from the start of the run.
    pub at_ns: u64,
    /// The stream; none: the packet is a flow's.
    pub stream: Option<StreamIndex>,
    /// Its bytes without FCS.
    pub bytes: Vec<u8>,
}

/// A run under way.
pub struct Simulation {
    world: World,
    /// By worker.
    workers: Vec<WorkerState>,
    /// By stream: whether it replays a capture, in no chain.
    replayed: Vec<bool>,
    /// By port that has a side of a template: where what it sends arrives, if a peer is there.
    peers: BTreeMap<PortIndex, Option<PortIndex>>,
    /// Captures that are too long for memory.
    readings: Vec<Reading>,
    flows_begin: bool,
    /// End of the simulation: nothing happens from here on.
    until_ns: u64,
    marks: VecDeque<u64>,
    /// By mark that has passed, and worker: flows of clients that were established.
    established: Vec<Vec<u64>>,
    /// Packets of the instant that was simulated last.
    packets: VecDeque<SimulatedPacket>,
}

/// State of a simulated worker.
struct WorkerState {
    /// Packets of streams that it may still send.
    left: u64,
    /// Counters of the clients of each template.
    clients: Vec<Arc<Counters>>,
    /// Packets that it sent at the present instant.
    sent: Vec<Sent>,
}

impl Simulation {
    /// A simulation at its start.
    ///
    /// # Errors
    /// If a capture cannot be read, or rates or addresses of templates not be shared out.
    pub fn new(what: SimulationSpec<'_>) -> Result<Self, SimulationError> {
        let spec = what.spec;
        let end_ns =
            spec.timing.duration_ns.map_or(u64::MAX, |duration| spec.timing.warmup_ns.saturating_add(duration));
        let commands = 16 + what.steps.iter().map(|step| 2 + step.speeds.len()).sum::<usize>();
        // Packets of streams are in one file: they are sent on one port, beside those of flows.
        let file = PortIndex(what.ports);
        let mut this = Self {
            world: World::new(what.workers, what.ports + 1, commands, 1),
            workers: Vec::new(),
            replayed: spec.streams.iter().map(|stream| stream.replay.is_some() && !stream.timing.pinned).collect(),
            peers: what.scenario.as_deref().map(peers).unwrap_or_default(),
            readings: Vec::new(),
            flows_begin: false,
            until_ns: end_ns.saturating_add(spec.timing.drain_ns),
            marks: what.marks.clone(),
            established: Vec::new(),
            packets: VecDeque::new(),
        };
        let timescale = Arc::new(Timescale::new(0));
        let send: Arc<[SendStream]> = (spec.streams.iter().enumerate())
            .map(|(index, stream)| SendStream {
                template: stream.template.clone(),
                id: stream.id,
                index: StreamIndex(index),
            })
            .collect();
        for worker in 0..what.workers {
            let mut streams = run(&what, worker, end_ns, &timescale);
            let Ok(part) = part(&what, worker, file, &send);
            streams.ports.push(part);
            streams.replays = this.replays(&what, worker, file)?;
            this.world.send(worker, Command::Install(STREAMS, Box::new(streams)));
            this.world.send(worker, Command::Start(STREAMS, 0));
            let mut clients = Vec::new();
            if let Some(scenario) = &what.scenario {
                let mut flows = run(&what, worker, end_ns, &timescale);
                let emulated = this.emulated(&what, scenario, worker, &mut clients)?;
                flows.emulated = Some(Box::new(emulated));
                this.world.send(worker, Command::Install(FLOWS, Box::new(flows)));
            }
            for step in &what.steps {
                // Every stream is one of that port.
                let rate = |&(stream, rate): &(StreamIndex, _)| (PortStreamIndex(stream.0), rate);
                let (at_ns, rates) = (step.at_ns, step.rates.iter().map(rate).collect());
                this.world.send(worker, Command::Change(STREAMS, RateChange { at_ns, port: file, rates }));
                for &(stream, speed) in &step.speeds {
                    let change = SpeedChange { at_ns, stream, speed: Some(speed) };
                    this.world.send(worker, Command::Speed(STREAMS, change));
                }
                if what.scenario.is_some() {
                    let change = FlowRate { at_ns, factor: step.factor, flow_schedule: None };
                    this.world.send(worker, Command::FlowRate(FLOWS, change));
                }
            }
            this.workers.push(WorkerState { left: what.worker_limit, clients, sent: Vec::new() });
        }
        Ok(this)
    }

    /// The next packet; none if there is no more.
    ///
    /// # Errors
    /// If a capture cannot be read any further.
    pub fn take(&mut self) -> Result<Option<SimulatedPacket>, SimulationError> {
        loop {
            if let Some(packet) = self.packets.pop_front() {
                return Ok(Some(packet));
            }
            let start = (!self.flows_begin && !self.peers.is_empty()).then_some(FLOWS_BEGIN_NS);
            let mark = self.marks.front().copied();
            let next = self.world.next_ns().into_iter().chain(start).chain(mark).min();
            let Some(now_ns) = next.filter(|next| *next < self.until_ns) else { return Ok(None) };
            self.pass(now_ns)?;
        }
    }

    /// Flows of clients that each worker had established at the marks that have passed, and has until now.
    pub fn established(&self) -> Vec<Vec<u64>> {
        let now = self.established_now();
        let of = |(worker, now): (usize, u64)| self.established.iter().map(|mark| mark[worker]).chain([now]).collect();
        now.into_iter().enumerate().map(of).collect()
    }

    fn established_now(&self) -> Vec<u64> {
        let of = |worker: &WorkerState| worker.clients.iter().map(|client| client.get(Count::FlowsEstablished)).sum();
        self.workers.iter().map(of).collect()
    }

    /// Runs everything that is due at an instant.
    fn pass(&mut self, now_ns: u64) -> Result<(), SimulationError> {
        while self.marks.front().is_some_and(|mark| *mark <= now_ns) {
            self.marks.pop_front();
            self.established.push(self.established_now());
        }
        if now_ns >= FLOWS_BEGIN_NS && !std::mem::replace(&mut self.flows_begin, true) {
            for worker in 0..self.workers.len() {
                self.world.send(worker, Command::Start(FLOWS, 0));
            }
        }
        for reading in &mut self.readings {
            let stream = reading.stream().to_owned();
            reading.fill().map_err(|error| SimulationError::Capture { stream, error })?;
        }
        let (peers, workers) = (&self.peers, &mut self.workers);
        self.world.go_to(now_ns, false, |world, worker, sent| {
            for sent in sent {
                if let (None, Some(Some(peer))) = (sent.packet.origin(), peers.get(&sent.port)) {
                    world.arrive(worker, *peer, now_ns + PATH_NS, sent.packet.clone());
                }
                workers[worker].sent.push(sent);
            }
        });
        self.order(now_ns);
        Ok(())
    }

    /// Brings what was sent at an instant into its order: streams before flows. Of a worker's streams replays come first, but for those in
    /// chains, then what its schedule says; between workers the stream decides, then the packet's number. Flows' packets are in order of
    /// worker and port.
    fn order(&mut self, at_ns: u64) {
        let mut flows = Vec::new();
        let mut streams: Vec<VecDeque<_>> = Vec::new();
        for (index, worker) in self.workers.iter_mut().enumerate() {
            let mut of_streams = Vec::new();
            let mut of_flows = Vec::new();
            for sent in worker.sent.drain(..) {
                match sent.packet.origin() {
                    Some(origin) => of_streams.push((origin, sent.packet)),
                    None => of_flows.push(sent),
                }
            }
            of_streams
                .sort_by_key(|(origin, _)| if self.replayed[origin.stream.0] { origin.stream.0 } else { usize::MAX });
            let mut of_streams = VecDeque::from(of_streams);
            of_streams.truncate(usize::try_from(worker.left).unwrap_or(usize::MAX));
            worker.left -= of_streams.len() as u64;
            if worker.left == 0 && self.peers.is_empty() {
                self.world.retire(index);
            }
            streams.push(of_streams);
            of_flows.sort_by_key(|sent| sent.port);
            flows.extend(of_flows);
        }
        let first = |(index, all): (usize, &VecDeque<(_, Packet)>)| Some((all.front()?.0, index));
        while let Some((_, index)) = streams.iter().enumerate().filter_map(first).min() {
            if let Some((origin, packet)) = streams[index].pop_front() {
                let (stream, bytes) = (Some(origin.stream), packet.into_bytes());
                self.packets.push_back(SimulatedPacket { at_ns, stream, bytes });
            }
        }
        let of_flow = |sent: Sent| SimulatedPacket { at_ns: sent.at_ns, stream: None, bytes: sent.packet.into_bytes() };
        self.packets.extend(flows.into_iter().map(of_flow));
    }

    /// The replays that a worker sends.
    fn replays(
        &mut self,
        what: &SimulationSpec<'_>,
        worker: usize,
        port: PortIndex,
    ) -> Result<Vec<Replay<Simulated>>, SimulationError> {
        let mut all = Vec::new();
        for (index, stream) in what.spec.streams.iter().enumerate().filter(|(_, s)| s.enabled && !s.paused) {
            let (Some(asked), timing, index) = (&stream.replay, &stream.timing, StreamIndex(index)) else { continue };
            let here = stream.replayer(what.workers) == Some(worker);
            let Some(speed) = timing.rate.filter(|_| here) else { continue };
            let tape = match &asked.capture.source {
                Source::Held(held) => {
                    ReplayTape::Held(Box::new(HeldTape::new(held.clone(), &asked.rewrite, asked.loops)))
                }
                Source::File { .. } => {
                    let failed = |error| SimulationError::Capture { stream: stream.name.clone(), error };
                    let repeats = is_started(what.spec, index);
                    let (reading, frames) = Reading::new(&stream.name, asked, repeats).map_err(failed)?;
                    self.readings.push(reading);
                    ReplayTape::Read(frames)
                }
            };
            let parts = ReplayParts {
                port,
                index,
                id: stream.id,
                flow: stream.template.flow(),
                late_after_ns: u64::MAX,
                long_packets: None,
                start_delay_ns: timing.start_delay_ns,
                waits: timing.waits,
                next: timing.next,
            };
            let lead = asked.capture.survey.lead(asked.gap);
            let pacer = Pacer::new(timing.start_delay_ns, speed_of(speed), asked.min_gap_ns);
            all.push(Replay::new(parts, tape, pacer.behind(lead)));
        }
        Ok(all)
    }

    /// A worker's share of the templates.
    fn emulated(
        &self,
        what: &SimulationSpec<'_>,
        scenario: &Arc<Scenario>,
        worker: usize,
        clients: &mut Vec<Arc<Counters>>,
    ) -> Result<Emulated<Simulated>, EmulationError> {
        let share = Share::of_engine(worker as u64, what.workers as u64, scenario.client_part());
        // Locally administered.
        let mac = |PortIndex(port): PortIndex| [0x02, 0x53, 0, 0, (port >> 8) as u8, port as u8];
        let next_hop = |port| match self.peers.get(&port).copied().flatten() {
            Some(peer) => mac(peer),
            None => [0x02, 0x53, 0xff, 0xff, 0xff, 0xff],
        };
        let links: Vec<_> =
            (0..what.ports).map(PortIndex).map(|port| PortLink { mac: mac(port), next_hop: next_hop(port) }).collect();
        let owned = Box::new(|_, _, _: &_| true);
        let emulation = Emulation::new(Arc::clone(scenario), share, Sharding::ByNumber, owned, &links, SEED, 0)?;
        let counters = |template, client| Arc::clone(emulation.counters(template, client));
        clients.extend((0..scenario.templates.len()).map(|template| counters(template, true)));
        let known = envelope::Ports { links: &links, mirrored: true, ..envelope::Ports::default() };
        let envelopes = Envelopes::new(scenario, &known, counters);
        let ports = self.peers.keys().copied().collect();
        let (tags, pools) = (vec![Tags::NONE; what.ports], Pools { long: None, tso: None });
        Ok(Emulated::new(emulation, envelopes, ports, &tags, pools, None, &what.spec.timing))
    }
}

/// Where what a port sends arrives, of ports that have a side of a template.
fn peers(scenario: &Scenario) -> BTreeMap<PortIndex, Option<PortIndex>> {
    let mut peers = BTreeMap::new();
    for template in &scenario.templates {
        let client = template.client.as_ref().map(|client| PortIndex(client.port));
        let server = template.server.as_ref().map(|server| PortIndex(server.port));
        for (port, peer) in [(client, server), (server, client)] {
            let known = port.map(|port| peers.entry(port).or_insert(None));
            known.into_iter().for_each(|known| *known = peer.or(*known));
        }
    }
    peers
}

/// A worker's view of a run that sends nothing yet, and receives nothing of streams.
fn run(what: &SimulationSpec<'_>, worker: usize, end_ns: u64, timescale: &Arc<Timescale>) -> WorkerRun<Simulated> {
    let spec = what.spec;
    let first = spec.share.0 as usize * what.workers;
    WorkerRun {
        tag: spec.tag,
        clock: RunClock::new(),
        warmup_ns: spec.timing.warmup_ns,
        end_ns,
        stopped: false,
        timescale: Arc::clone(timescale),
        sender: (first + worker) as u8,
        ports: Vec::new(),
        replays: Vec::new(),
        emulated: None,
        receive: RunReceive {
            by_id: Arc::default(),
            streams: Arc::default(),
            owners: Arc::default(),
            senders: 0,
            here: first..first + what.workers,
            timescale: Arc::clone(timescale),
            clocks_agree: false,
            trackers: Box::default(),
            queues: Box::default(),
            transits: Box::default(),
            foreign: RunForeign {
                marks: None,
                reflectors: Arc::default(),
                receivers: Box::default(),
                clocks_agree: false,
            },
            by_tag: None,
        },
        share: Arc::new(RunShare::new(spec.streams.len(), 0, 0, 0)),
        emptying: false,
    }
}

/// A worker's part of the streams that are on a schedule.
fn part(
    what: &SimulationSpec<'_>,
    worker: usize,
    port: PortIndex,
    send: &Arc<[SendStream]>,
) -> Result<PortRun<Simulated>, std::convert::Infallible> {
    let streams = &what.spec.streams;
    // The part is the same for all streams that this engine sends.
    let (index, count) = streams.iter().find_map(|stream| stream.part).unwrap_or((0, 1));
    let workers = what.workers as u64;
    let share = WorkerShare { first: u64::from(index) * workers + worker as u64, stride: u64::from(count) * workers };
    let timings = streams.iter().map(|stream| {
        let sends = stream.part.is_some() && stream.enabled && !stream.paused && stream.replay.is_none();
        StreamTiming { rate: stream.timing.rate.filter(|_| sends), ..stream.timing }
    });
    let prebuild = |schedule: &Schedule| {
        if streams.iter().all(|stream| stream.cache == 0) {
            return Ok(Box::default());
        }
        let of = |(index, stream): (usize, &super::StreamSpec)| {
            Cache::of(stream, share, schedule, index).map(|cache| prebuilt(&cache, &stream.template))
        };
        Ok(streams.iter().enumerate().map(of).collect())
    };
    PortRun::new(port, send, share, timings, u64::MAX, None, prebuild)
}
