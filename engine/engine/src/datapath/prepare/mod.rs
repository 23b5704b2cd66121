// SPDX-License-Identifier: Apache-2.0
//! Preparing a run: what it must fulfil, and what workers need for it, allocated here so that they never do.
pub(in crate::datapath) mod applications;
mod by_tag;
mod memory;
pub(in crate::datapath) mod receive;
pub(in crate::datapath) mod replay;

use std::sync::Arc;

use spate_dpdk::{Eal, Mempool, Prebuilt};
use spate_neighbour::{Neighbour, Prefix};
use spate_net::{
    ethernet::Link,
    vlan::{self, Tags},
};
use spate_stateful::FieldPath;
use spate_stateless::{MAX_FRAME_LEN, Next, Schedule, StreamTiming, Successor, Template, WorkerShare};

use crate::datapath::{
    Clock, OnLink, PrepareError, RunSpec, StreamSpec,
    buffers::SHORT_ROOM,
    cache::Cache,
    open::{Nodes, OpenPort},
    run::{
        self, Run,
        clock::RunClock,
        device_bounds::DeviceBounds,
        next_hops::NextHops,
        outage::Pauses,
        rates::{Rates, StreamRate},
        reference::Stamps,
    },
    worker::{PortRun, SendStream, WorkerRun},
    workers::Workers,
};
use crate::index::{PortIndex, PortStreamIndex, RunSlot, StreamIndex, WorkerIndex};

/// Departures later than this count as late, unless the plan says otherwise: on polled devices,
const LATE_NS: u64 = 1_000_000;
/// and on kernel-backed ones.
const LATE_KERNEL_NS: u64 = 20_000_000;
/// Bytes that a VLAN tag adds.
pub(in crate::datapath) const VLAN_TAG: usize = vlan::LEN;
/// VLAN tags that a device takes beside a frame of its greatest length.
const TAGS: usize = 2;
/// Long packets of one worker.
const LONG_PACKETS: u32 = 1023;

/// Pools of packets longer than `SHORT_ROOM`, by worker, made when first needed.
pub(in crate::datapath) type LongPackets = Vec<Option<Mempool>>;

/// Context of preparing a run.
pub(in crate::datapath) struct Context<'a> {
    pub(in crate::datapath) eal: &'a Eal,
    pub(in crate::datapath) clock: &'a Clock,
    pub(in crate::datapath) ports: &'a [OpenPort],
    pub(in crate::datapath) workers: &'a Arc<Workers>,
    pub(in crate::datapath) nodes: &'a Nodes,
    pub(in crate::datapath) long_packets: &'a mut LongPackets,
    pub(in crate::datapath) tso_pools: &'a mut LongPackets,
    pub(in crate::datapath) slot: RunSlot,
    /// The runs that are not removed.
    pub(in crate::datapath) present: &'a [Arc<Run>],
    /// By port: the tags of its own frames.
    pub(in crate::datapath) tags: Vec<Tags>,
    /// By port: its addresses, its gateways and what is known of them.
    pub(in crate::datapath) links: Vec<(Vec<Prefix>, Vec<Neighbour>)>,
}

/// A run for control, and each worker's part of it.
pub(in crate::datapath) fn prepare(
    mut context: Context<'_>,
    spec: RunSpec,
) -> Result<(Run, Vec<WorkerRun>), PrepareError> {
    let workers = context.workers.count();
    let senders = validate(&context, &spec)?;
    let end_ns = spec.timing.duration_ns.map_or(u64::MAX, |duration| spec.timing.warmup_ns + duration);
    let stamps = Stamps::new(spec.share.1, spec.measure.clock_bound_ns.is_some(), context.clock);
    let timescale = stamps.timescale(context.clock);
    let receive = receive::receive(&context, &spec, senders, &timescale)?;
    let shares = receive.shares;
    let by_port = streams_by_port(context.ports.len(), &spec);
    let (control_streams, rates) = control_streams(&spec, &by_port)?;
    let rates = Rates::new(rates, spec.stateful.as_ref().map(|stateful| &*stateful.scenario));
    let (emulated, templates, recorded) = applications::prepare(&mut context, &spec)?;

    let mut parts = Vec::new();
    for (worker, (receive, emulated)) in receive.workers.into_iter().zip(emulated).enumerate() {
        parts.push(WorkerRun {
            tag: spec.tag,
            clock: RunClock::new(),
            warmup_ns: spec.timing.warmup_ns,
            end_ns,
            stopped: false,
            timescale: Arc::clone(&timescale),
            sender: (spec.share.0 as usize * workers + worker) as u8,
            ports: Vec::new(),
            receive,
            share: Arc::clone(&shares[worker]),
            emptying: false,
            replays: Vec::new(),
            emulated,
        });
    }
    let names = context.ports.iter().map(|port| port.config.name.clone()).collect();
    let mut next_hops = NextHops::new(*context.eal, names);
    for (port, streams) in by_port.iter().enumerate().filter(|(_, streams)| !streams.is_empty()) {
        let open = &context.ports[port];
        // All of these streams have the same part.
        let (index, of) = streams.iter().find_map(|&index| spec.streams[index.0].part).unwrap_or(spec.share);
        let mut send: Vec<SendStream> = streams
            .iter()
            .map(|&index| SendStream {
                template: spec.streams[index.0].template.clone(),
                id: spec.streams[index.0].id,
                index,
            })
            .collect();
        Template::share_payloads(send.iter_mut().map(|send| &mut send.template));
        let send: Arc<[SendStream]> = send.into();
        let long = send.iter().any(|s| s.template.frame_len() > SHORT_ROOM);
        let count = open.tx_workers.len() as u64;
        let specs: Vec<_> = streams.iter().map(|&index| (index, &spec.streams[index.0])).collect();
        let mut caches: Vec<Box<[Option<Cache>]>> = Vec::new();
        for (position, &worker) in open.tx_workers.iter().enumerate() {
            let share =
                WorkerShare { first: u64::from(index) * count + position as u64, stride: u64::from(of) * count };
            let timings = streams.iter().map(|&index| timing_on_port(&spec, &control_streams, &rates, index));
            let long_packets = if long { Some(long_pool(&mut context, worker)?) } else { None };
            let prebuild = |schedule: &Schedule| {
                let each = specs.iter().enumerate();
                let of_worker: Box<[_]> =
                    each.map(|(at, (_, stream))| Cache::of(stream, share, schedule, at)).collect();
                let built = prebuilt(context.eal, &specs, &of_worker);
                caches.push(of_worker);
                built
            };
            let late_after_ns = late_after_ns(&spec, open);
            let part = PortRun::new(PortIndex(port), &send, share, timings, late_after_ns, long_packets, prebuild)?;
            parts[worker.0].ports.push(part);
        }
        let workers = open.tx_workers.iter().copied().zip(caches).collect();
        next_hops.add_streams(PortIndex(port), workers, &send, specs.iter().map(|(_, stream)| stream.next_hop));
    }
    for (index, stream) in spec.streams.iter().enumerate() {
        let workers = &context.ports[stream.tx_port.0].tx_workers;
        if let Some(asked) = &stream.replay
            && let Some(worker) = stream.replayer(workers.len()).map(|position| workers[position])
        {
            let index = StreamIndex(index);
            let timing = timing_on_port(&spec, &control_streams, &rates, index);
            let replay = replay::prepare(&mut context, &spec, index, asked, worker, timing)?;
            parts[worker.0].replays.push(replay);
        }
    }
    if let Some(stateful) = &spec.stateful {
        let workers: Vec<_> = templates.workers.iter().map(|(worker, _)| *worker).collect();
        next_hops.add_links(stateful, &context.links, &workers);
    }
    let OnLink { address_guard, resolution_guard, .. } =
        spec.stateful.map(|stateful| stateful.on_link).unwrap_or_default();
    let records = recorded.map(|recorded| recorded.start(shares.clone(), context.clock.clone())).transpose()?;
    let run = Run::new(run::Parts {
        id: spec.run_id,
        tag: spec.tag,
        slot: context.slot,
        timing: spec.timing,
        alone: spec.share.1 == 1,
        end_ns,
        clock: context.clock.clone(),
        stamps,
        device_bounds: DeviceBounds::new(context.ports.iter().map(|port| port.device_clock.clone())),
        workers: Arc::clone(context.workers),
        shares,
        streams: control_streams,
        rates,
        receive: receive.control,
        templates,
        next_hops,
        address_guard,
        resolution_guard,
        records,
    });
    Ok((run, parts))
}

/// A packet that leaves this long after its time is late.
pub(in crate::datapath) fn late_after_ns(spec: &RunSpec, port: &OpenPort) -> u64 {
    let kernel = port.config.device.is_kernel_backed();
    spec.late_after_ns.unwrap_or(if kernel { LATE_KERNEL_NS } else { LATE_NS })
}

fn wrong(field: impl Into<FieldPath>, problem: impl Into<String>) -> PrepareError {
    PrepareError { field: field.into(), problem: problem.into(), exhausted: false }
}

/// Refuses what cannot be run. Returns how many workers of all engines send the run.
fn validate(context: &Context<'_>, spec: &RunSpec) -> Result<usize, PrepareError> {
    if spec.tag == 0 {
        return Err(wrong("run_tag", "it must not be 0"));
    }
    let (index, count) = spec.share;
    if index >= count {
        return Err(wrong("share", format!("engine {index} of {count} does not exist: they count from 0")));
    }
    let senders = count as usize * context.workers.count();
    if senders > 256 {
        return Err(wrong(
            "share",
            format!(
                "{senders} workers would send this run ({count} engines of {}); the trailer has numbers for 256: use fewer engines or workers",
                context.workers.count()
            ),
        ));
    }
    let t = spec.timing;
    if t.warmup_ns
        .checked_add(t.duration_ns.unwrap_or(0))
        .and_then(|n| n.checked_add(t.drain_ns))
        .is_none_or(|n| n > 1 << 62)
    {
        return Err(wrong("timing", "warm-up, duration and drain together exceed a hundred years"));
    }
    let mut ids = vec![None; 1 << 16];
    // By port: which of the engines that send on it this one is.
    let mut parts = vec![None; context.ports.len()];
    for (index, stream) in spec.streams.iter().enumerate() {
        let field = |name: &'static str| StreamIndex(index).path().field(name);
        if let Some(other) = ids[usize::from(stream.id)].replace(index) {
            return Err(wrong(field("id"), format!("{} is the id of streams[{other}] too", stream.id)));
        }
        let ports = context.ports.len();
        let Some(port) = context.ports.get(stream.tx_port.0) else {
            return Err(wrong(field("tx_port"), format!("there is no port {}: there are {ports}", stream.tx_port.0)));
        };
        if let Some(PortIndex(rx_port)) = stream.rx_port
            && rx_port >= ports
        {
            return Err(wrong(field("rx_port"), format!("there is no port {rx_port}: there are {ports}")));
        }
        if let Some(after) = stream.timing.next
            && let Err(problem) = follows(spec, stream, after.next)
        {
            return Err(wrong(field("timing.next"), problem));
        }
        let of_port = &mut parts[stream.tx_port.0];
        *of_port = of_port.or(stream.part);
        if stream.part.is_some() && stream.part != *of_port {
            let problem =
                "other streams of its port are sent by other engines: an engine sends all of a port by one schedule";
            return Err(wrong(field("part"), problem));
        }
        if let Some(asked) = &stream.replay {
            let (len, longest) = (asked.capture.survey.longest, port.port.max_frame_len() + TAGS * VLAN_TAG);
            if len > longest {
                let problem = format!(
                    "its longest packet has {len} bytes without FCS, and port {} takes {longest} with VLAN tags: raise the MTU of \
                     the port, or leave the packet out of the capture",
                    port.config.name,
                );
                return Err(wrong(field("replay"), problem));
            }
            continue;
        }
        let frame = stream.template.frame();
        // VLAN tags do not count against the MTU: devices take two.
        let tags = Link::find(frame).map_or(0, |link| link.tags()).min(TAGS);
        let longest = port.port.max_frame_len() + tags * VLAN_TAG;
        if frame.len() > longest {
            let problem = format!(
                "its frame has {} bytes without FCS, and port {} takes {longest}: raise the MTU of the port or make the packet shorter",
                frame.len(),
                port.config.name,
            );
            return Err(wrong(field("packet"), problem));
        }
    }
    Ok(senders)
}

/// Why something cannot come after a stream.
fn follows(spec: &RunSpec, stream: &StreamSpec, next: Next) -> Result<(), String> {
    let index = next.index();
    let other = spec.streams.get(index).filter(|other| other.tx_port == stream.tx_port && other.part == stream.part);
    let Some(other) = other else {
        return Err(format!("streams[{index}] is no stream of the same port and engines"));
    };
    if other.replay.is_some() != matches!(next, Next::Elsewhere(_)) {
        return Err(format!("streams[{index}] is to be elsewhere exactly if it replays a capture"));
    }
    let pinned = stream.timing.pinned && other.timing.pinned;
    if (stream.replay.is_some() || other.replay.is_some()) && !pinned {
        return Err(format!("it and streams[{index}] must be pinned, as one of them replays a capture"));
    }
    Ok(())
}

/// A stream's timing as its port's schedule takes it: `next` by index among the port's streams, if it is one of them.
fn timing_on_port(spec: &RunSpec, control: &[run::Stream], rates: &Rates, index: StreamIndex) -> StreamTiming {
    let timing = spec.streams[index.0].timing;
    let on_port = |next| match next {
        Next::Scheduled(next) => Next::Scheduled(control[next].on_port.0),
        Next::Elsewhere(_) => next,
    };
    StreamTiming {
        rate: rates.streams()[index.0].in_force(),
        next: timing.next.map(|after| Successor { next: on_port(after.next), ..after }),
        ..timing
    }
}

/// Packets that are built now and then repeated, by stream of a port; empty if there are none.
fn prebuilt(
    eal: &Eal,
    streams: &[(StreamIndex, &StreamSpec)],
    caches: &[Option<Cache>],
) -> Result<Box<[Option<Prebuilt>]>, PrepareError> {
    if caches.iter().all(Option::is_none) {
        return Ok(Box::default());
    }
    let build = |(&(index, stream), cache): (&(StreamIndex, &StreamSpec), &Option<Cache>)| {
        let built = cache.as_ref().map(|cache| cache.build(eal, &stream.template)).transpose();
        built.map_err(|e| PrepareError { field: index.path().field("cache"), problem: e.to_string(), exhausted: true })
    };
    streams.iter().zip(caches).map(build).collect()
}

/// The streams that each port sends on a schedule.
fn streams_by_port(ports: usize, spec: &RunSpec) -> Vec<Vec<StreamIndex>> {
    let mut by_port = vec![Vec::new(); ports];
    let scheduled = |stream: &StreamSpec| stream.replay.is_none() && stream.part.is_some();
    for (index, stream) in spec.streams.iter().enumerate().filter(|(_, stream)| scheduled(stream)) {
        by_port[stream.tx_port.0].push(StreamIndex(index));
    }
    by_port
}

fn control_streams(
    spec: &RunSpec,
    by_port: &[Vec<StreamIndex>],
) -> Result<(Vec<run::Stream>, Vec<StreamRate>), PrepareError> {
    let mut on_port = vec![PortStreamIndex(0); spec.streams.len()];
    for streams in by_port {
        for (position, stream) in streams.iter().enumerate() {
            on_port[stream.0] = PortStreamIndex(position);
        }
    }
    let stream = |(index, s): (usize, &StreamSpec)| {
        let rate = s.timing.rate.ok_or_else(|| wrong(StreamIndex(index).path().field("rate"), "it is missing"))?;
        let stream = run::Stream {
            tx_port: s.tx_port,
            on_port: on_port[index],
            replayed: s.replay.is_some(),
            elsewhere: s.part.is_none(),
            begins_ns: (!s.timing.waits).then_some(s.timing.start_delay_ns),
            pauses: Pauses::default(),
        };
        Ok((stream, StreamRate::new(rate, s.enabled, s.paused)))
    };
    spec.streams.iter().enumerate().map(stream).collect()
}

/// Where a worker takes packets from that are longer than its own have room for.
pub(in crate::datapath) fn long_pool(context: &mut Context<'_>, worker: WorkerIndex) -> Result<Mempool, PrepareError> {
    if let Some(pool) = &context.long_packets[worker.0] {
        return Ok(pool.clone());
    }
    let node = context.nodes.of_worker(worker);
    let pool = Mempool::on_node(context.eal, node, "sending long packets", LONG_PACKETS, MAX_FRAME_LEN);
    let pool = pool.map_err(|e| PrepareError { field: "streams".into(), problem: e.to_string(), exhausted: true })?;
    context.long_packets[worker.0] = Some(pool.clone());
    Ok(pool)
}
