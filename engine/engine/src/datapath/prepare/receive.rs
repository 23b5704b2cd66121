// SPDX-License-Identifier: Apache-2.0
//! Preparing a run's receiving side: which worker keeps which sequence, what is measured where, and the memory for it.
use std::sync::Arc;

use spate_net::{reflect::Rules, spread};
use spate_stateful::FieldPath;
use spate_stats::{Gaps, Histogram, Queue, Tracker, Transit, WIDE_WINDOW, WINDOW};

use crate::datapath::{
    PortDevice, PrepareError, Reflector, RunSpec, StreamSpec,
    clock::Timescale,
    open::OpenPort,
    prepare::{Context, by_tag},
    run::{Received, Receiver, Run},
    shared::RunShare,
    worker::{DelayIndex, Marks, Owner, RunForeign, RunReceive, RunReceiver, StreamReceive},
};
use crate::index::{PortIndex, StreamIndex, TrackerIndex, WorkerIndex};

/// Trackers of all streams and senders together, at most.
const TRACKER_BYTES: usize = 1 << 30;
/// Latency histograms of a run, at most.
const HISTOGRAM_BYTES: usize = 1 << 30;

/// Arrival gaps that workers keep of streams: this many over all of them, but of each within these bounds. Of few streams many
/// are kept, which several workers may need; of many few, because the first packets of each find their slots.
const GAPS: usize = 1 << 15;
const MIN_GAPS: usize = 8;
const MAX_GAPS: usize = 128;

/// A run's receiving side.
pub(in crate::datapath) struct Receive {
    /// Receiving parts, by worker.
    pub(in crate::datapath) workers: Vec<RunReceive>,
    /// Counters, by worker.
    pub(in crate::datapath) shares: Vec<Arc<RunShare>>,
    /// What control needs to read the counters.
    pub(in crate::datapath) control: Received,
}

/// Each worker's receiving part; the run's time stamps are by `timescale`.
pub(in crate::datapath) fn receive(
    context: &Context<'_>,
    spec: &RunSpec,
    senders: usize,
    timescale: &Arc<Timescale>,
) -> Result<Receive, PrepareError> {
    let workers = context.workers.count();
    refuse_conflicts(context, spec, context.present)?;
    let rules = |reflector: &Reflector| {
        let own = (!reflector.any_mac).then(|| context.ports[reflector.port.0].port.mac());
        (reflector.port, Rules { swap: reflector.swap, own, allowed: reflector.allowed.clone() })
    };
    let reflectors: Arc<[(PortIndex, Rules)]> = spec.measure.reflectors.iter().map(rules).collect();
    let marks: Vec<_> = spec
        .streams
        .iter()
        .enumerate()
        .filter_map(|(i, s)| s.receive.mark.map(|mark| (StreamIndex(i), mark)))
        .collect();
    let mark_table = Marks::new(marks.iter().copied()).map(Arc::new);

    let mut trackers: Vec<Vec<usize>> = vec![Vec::new(); workers];
    let mut owners = vec![Owner::new(WorkerIndex(0), TrackerIndex(0), false); spec.streams.len() * senders];
    let mut owned_histograms = vec![Vec::new(); workers];
    let mut streams = Vec::with_capacity(spec.streams.len());
    let mut delays = Vec::with_capacity(spec.streams.len());
    let mut slots = 0;
    for (index, s) in spec.streams.iter().enumerate() {
        // A stream that is expected nowhere may come in all the same.
        let port = &context.ports[s.rx_port.map_or(0, |port| port.0)];
        let wide = port.rx_workers.len() > 1;
        let delay = s.receive.histogram.filter(|_| s.template.flow()).map(|histogram| {
            let slot = slots;
            slots += 1;
            DelayIndex { slot, histogram: histogram as u32 }
        });
        delays.push(delay.map(|place| place.slot));
        streams.push(StreamReceive { port: s.rx_port.map(|port| port.0 as u16), wide, delay });
        if !s.template.flow() {
            continue;
        }
        for (sender, owner) in owners[index * senders..][..senders].iter_mut().enumerate() {
            let worker = owner_of(port, s, sender);
            *owner = Owner::new(worker, TrackerIndex(trackers[worker.0].len()), by_tag::list_of(s).is_some());
            trackers[worker.0].push(if wide { WIDE_WINDOW } else { WINDOW });
            if let Some(place) = delay {
                owned_histograms[worker.0].push(place.histogram as usize);
            }
        }
    }
    let bytes: usize = trackers.iter().flatten().map(|window| Tracker::bytes(*window)).sum();
    if bytes > TRACKER_BYTES {
        let measured = spec.streams.iter().filter(|s| s.template.flow()).count();
        return Err(exhausted(format!(
            "{measured} measured streams from {senders} workers need {} MiB to detect duplicates, and {} are allowed: measure fewer",
            bytes >> 20,
            TRACKER_BYTES >> 20,
        )));
    }
    let histograms = spec.streams.iter().filter_map(|s| s.receive.histogram).max().map_or(0, |most| most + 1);
    for owned in &mut owned_histograms {
        owned.sort_unstable();
        owned.dedup();
    }
    let kept: usize = owned_histograms.iter().map(Vec::len).sum();
    if kept * Histogram::BYTES > HISTOGRAM_BYTES {
        return Err(exhausted(format!(
            "latency histograms of {histograms} streams or groups on the workers that receive them need {} MiB, and {} are \
             allowed: group streams, or measure the latency of fewer",
            (kept * Histogram::BYTES) >> 20,
            HISTOGRAM_BYTES >> 20,
        )));
    }

    let owned: Vec<usize> = trackers.iter().map(Vec::len).collect();
    let by_tag = by_tag::by_tag(context, spec, &owners, senders, &owned)?;

    let measured = |s: &StreamSpec| s.template.flow() || s.receive.mark.is_some();
    let reads = |worker| context.ports.iter().any(|port| port.rx_workers.contains(&worker));
    let readers: Vec<bool> = (0..workers).map(WorkerIndex).map(reads).collect();
    let lists = spec.streams.iter().filter(|s| measured(s)).count() * readers.iter().filter(|reads| **reads).count();
    let places = (GAPS / lists.max(1)).clamp(MIN_GAPS, MAX_GAPS);
    let shares = owned_histograms
        .iter()
        .zip(&readers)
        .enumerate()
        .map(|(worker, (owned, reads))| {
            let delays = if owned.is_empty() { 0 } else { slots as usize };
            let mut share = RunShare::new(spec.streams.len(), delays, histograms, spec.measure.receivers.len());
            owned.iter().for_each(|&histogram| share.histograms[histogram] = Some(Histogram::new()));
            by_tag::make_room(&mut share, spec, &owners, senders, WorkerIndex(worker));
            for (gaps, s) in share.gaps.iter_mut().zip(&spec.streams) {
                *gaps = (*reads && measured(s)).then(|| Gaps::new(places));
            }
            Arc::new(share)
        })
        .collect();
    let by_id = RunReceive::index_by_id(spec.streams.iter().map(|s| s.template.flow().then_some(s.id)));
    let streams: Arc<[StreamReceive]> = streams.into();
    let owners: Arc<[Owner]> = owners.into();
    let first_here = spec.share.0 as usize * workers;
    let any_wide = streams.iter().any(|s| s.wide);
    let part = |(windows, by_tag): (&Vec<usize>, Option<_>)| RunReceive {
        by_id: Arc::clone(&by_id),
        streams: Arc::clone(&streams),
        owners: Arc::clone(&owners),
        senders,
        here: first_here..first_here + workers,
        timescale: Arc::clone(timescale),
        clocks_agree: spec.measure.clock_bound_ns.is_some(),
        trackers: windows.iter().map(|window| Tracker::new(*window)).collect(),
        queues: vec![Queue::default(); if any_wide { windows.len() * workers } else { 0 }].into(),
        transits: vec![Transit::default(); if slots > 0 { windows.len() } else { 0 }].into(),
        foreign: RunForeign {
            marks: mark_table.clone(),
            reflectors: Arc::clone(&reflectors),
            receivers: spec
                .measure
                .receivers
                .iter()
                .map(|&port| RunReceiver { port, arrivals: spate_stats::Arrivals::default() })
                .collect(),
            clocks_agree: spec.measure.clock_bound_ns.is_some(),
        },
        by_tag,
    };
    let receiver = |port: &PortIndex| Receiver { workers: context.ports[port.0].rx_workers.clone(), since_wall_ns: 0 };
    Ok(Receive {
        workers: trackers.iter().zip(by_tag).map(part).collect(),
        shares,
        control: Received {
            delays,
            receivers: spec.measure.receivers.iter().map(receiver).collect(),
            reflecting: spec.measure.reflectors.iter().map(|reflector| reflector.port).collect(),
            measured: spec.streams.iter().map(measured).collect(),
            rx_ports: spec.streams.iter().map(|s| s.rx_port).collect(),
            marks,
            by_tag: spec.measure.by_tag.clone(),
        },
    })
}

/// The worker that keeps a stream's sequence from one sender: the one its packets arrive at, if they are all alike and the
/// port spreads as expected; senders of varied ones are distributed.
fn owner_of(port: &OpenPort, stream: &StreamSpec, sender: usize) -> WorkerIndex {
    let workers = port.rx_workers.len();
    let owner = spread::queue(stream.template.frame(), workers);
    port.rx_workers[(owner + if stream.receive.varied { sender } else { 0 }) % workers]
}

/// Refuses ports that cannot do what they are to do, and what another run does already.
fn refuse_conflicts(context: &Context<'_>, spec: &RunSpec, present: &[Arc<Run>]) -> Result<(), PrepareError> {
    let wrong = |field: FieldPath, problem: String| PrepareError { field, problem, exhausted: false };
    for (i, Reflector { port, .. }) in spec.measure.reflectors.iter().enumerate() {
        let field = FieldPath::from("reflectors").index(i).field("port");
        let config = &context.ports[port.0].config;
        if matches!(config.device, PortDevice::Loopback | PortDevice::Null | PortDevice::NetNull) {
            let problem = format!(
                "{} is a software port, which no other station sends to: reflect on a NIC or a kernel interface",
                config.name
            );
            return Err(wrong(field, problem));
        }
        if spec.measure.reflectors[..i].iter().any(|other| other.port == *port) {
            return Err(wrong(field, format!("{} reflects already: name each port once", config.name)));
        }
        let emulates = |run: &&Arc<Run>| run.templates().is_some_and(|templates| templates.use_port(*port));
        if let Some(run) = present.iter().find(emulates) {
            let problem = format!("run {:?} emulates applications on {}: stop that first", run.id(), config.name);
            return Err(wrong(field, problem));
        }
        if let Some(run) = present.iter().find(|run| run.reflects(*port)) {
            let problem = format!("{} reflects for run {:?} already: stop that first", config.name, run.id());
            return Err(wrong(field, problem));
        }
    }
    for (i, stream) in spec.streams.iter().enumerate() {
        let Some(mark) = stream.receive.mark else { continue };
        if let Some(run) = present.iter().find(|run| run.marks(mark)) {
            let problem = format!("it marks packets of run {:?} too: choose another, or remove that run", run.id());
            return Err(wrong(StreamIndex(i).path().field("measure.mark"), problem));
        }
    }
    Ok(())
}

fn exhausted(problem: String) -> PrepareError {
    PrepareError { field: "streams".into(), problem, exhausted: true }
}
