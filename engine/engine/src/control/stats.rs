// SPDX-License-Identifier: Apache-2.0
//! Counters as the contract says them. WatchStats, the metrics and the command `run` all read through here.
use super::groups::{self, Group};
use super::runs::{Engine, Held};
use super::{by_tag, client_stats, latency, outage, receivers, records};
use crate::datapath::{self, PhaseCounters};
use contract::{
    FlowSteering, LatencyStats, NamedCounter, PortStats, ProgramCounter, QueueStats, Side, StreamCounters, StreamStats,
    TemplateStats, WatchStatsResponse, WorkerStats,
};
use spate_stateful::COUNTERS;
use spate_stats::{Distribution, Timed};

/// Counters of a run's streams: by group, or every stream by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// As the plan groups them.
    ByGroup,
    /// No grouping. Streams that share a group's histogram report no quantiles.
    ByStream,
}

/// All counters that concern a run, read now. The state is read first: once it says that the run has ended, the
/// counters beside it are the final ones.
pub fn read(engine: &Engine, held: &Held, grouping: Grouping) -> WatchStatsResponse {
    let run = engine.info(held);
    let mut answer = WatchStatsResponse {
        run: Some(run),
        templates: templates(held),
        streams: match grouping {
            Grouping::ByGroup => streams(held, held.groups()),
            Grouping::ByStream => streams(held, &groups::by_stream(held.streams(), held.groups())),
        },
        ports: ports(engine),
        workers: with_steering(workers(engine), held),
        receivers: receivers::stats(held),
        records: records::stats(held),
        clients: client_stats::stats(held),
        read_at_ns: engine.now_ns() as i64,
    };
    latency::limit_cells(&mut answer);
    answer
}

/// Counters of the templates of a run, clients before servers.
pub fn templates(held: &Held) -> Vec<TemplateStats> {
    let timed = |timed: &Timed| LatencyStats {
        distribution: held.has_distributions().then(|| latency::distribution(&timed.distribution)),
        ..latency::timed(timed)
    };
    let mut outages = held.run().template_outages().into_iter();
    let count = outages.len();
    let stats = |(side, times): (datapath::TemplateCounters, datapath::TemplateTimes)| {
        let named = |counts: &[u64]| {
            let some = COUNTERS.iter().zip(counts).filter(|(_, value)| **value > 0);
            some.map(|((name, ..), value)| NamedCounter { name: (*name).into(), value: *value }).collect()
        };
        TemplateStats {
            template: side.name,
            group: side.group,
            side: if side.client { Side::Client } else { Side::Server }.into(),
            counters: named(&side.counts),
            warmup: named(&side.warmup),
            program_counters: side.programs.into_iter().map(program_counter).collect(),
            open_flows: side.open,
            connect_time: times.connect.as_ref().map(timed),
            round_trip: times.round_trip.as_ref().map(timed),
            outage: outages.next().flatten().map(|outage| outage::stats(held, outage, count)),
        }
    };
    held.run().template_counters().into_iter().zip(held.run().template_times()).map(stats).collect()
}

fn program_counter(counter: datapath::ProgramCounter) -> ProgramCounter {
    ProgramCounter { name: counter.name, value: counter.count, warmup: counter.warmup }
}

/// Counters of groups of a run's streams, in their order.
pub fn streams(held: &Held, groups: &[Group]) -> Vec<StreamStats> {
    with_delays(held, groups).map(|(stats, _)| stats).collect()
}

/// The counters of each group, with the histogram of its delays, if it has one. A histogram takes 216 KB: they are read one after another.
pub fn with_delays(held: &Held, groups: &[Group]) -> impl Iterator<Item = (StreamStats, Option<Distribution>)> {
    let counters = held.run().counters();
    groups.iter().map(move |group| {
        let mut sum = datapath::StreamCounters::default();
        group.streams.iter().for_each(|stream| sum.add(&counters[stream.0]));
        let last_loss_ns = match sum.measured.last_gap_at_ns {
            0 => 0,
            at_ns => at_ns.saturating_sub(held.run().measured_from_mono_ns()),
        };
        let (latency, delays) = latency::stats(held, group);
        let measured = StreamCounters {
            last_loss_ns,
            latency,
            outage: held.run().outage(&group.streams).map(|outage| outage::stats(held, outage, groups.len())),
            by_tag: by_tag::stats(held, group),
            ..phase(&sum.measured)
        };
        let warmup = Some(phase(&sum.warmup));
        (StreamStats { name: group.name.clone(), warmup, measured: Some(measured) }, delays)
    })
}

fn phase(c: &PhaseCounters) -> StreamCounters {
    StreamCounters {
        tx_packets: c.tx_packets,
        tx_bytes: c.tx_bytes,
        tx_dropped: c.tx_dropped,
        late: c.late,
        rx_packets: c.rx_packets,
        rx_bytes: c.rx_bytes,
        duplicates: c.duplicates,
        out_of_order: c.out_of_order,
        max_departure_delay_ns: c.max_departure_delay_ns,
        last_departure_delay_ns: c.last_departure_delay_ns,
        misdirected: c.misdirected,
        sequence_too_high: c.sequence_too_high,
        sequence_too_low: c.sequence_too_low,
        missing: c.missing.cast_signed(),
        settled_tx_packets: 0,
        last_loss_ns: 0,
        latency: None,
        outage: None,
        by_tag: None,
    }
}

/// Counters of every port, in the order of the configuration.
pub fn ports(engine: &Engine) -> Vec<PortStats> {
    let counters = engine.datapath().port_counters();
    engine.ports().iter().zip(counters).map(|(port, c)| port_stats(port.name.clone(), &c)).collect()
}

fn port_stats(port: String, c: &datapath::PortCounters) -> PortStats {
    let queue =
        |(i, &(tx_packets, rx_packets)): (usize, &(u64, u64))| QueueStats { queue: i as u32, tx_packets, rx_packets };
    PortStats {
        port,
        tx_packets: c.tx_packets,
        tx_bytes: c.tx_bytes,
        tx_dropped: c.tx_dropped,
        rx_packets: c.rx_packets,
        rx_bytes: c.rx_bytes,
        rx_missed: c.rx_missed,
        rx_errors: c.rx_errors,
        foreign_packets: c.foreign_packets,
        other_mac_packets: c.other_mac_packets,
        queues: c.queues.iter().enumerate().map(queue).collect(),
        link_up: c.link_up,
        reflected_packets: c.reflected_packets,
        not_reflected_packets: c.not_reflected_packets,
        throttled_packets: c.throttled_packets,
        tx_segmented_frames: c.tx_segmented_frames,
        receive_waits: c.receive_waits,
        unstamped_packets: c.unstamped_packets,
    }
}

/// Counters of every worker.
pub fn workers(engine: &Engine) -> Vec<WorkerStats> {
    let stats = |(i, c): (usize, datapath::WorkerCounters)| WorkerStats {
        worker: i as u32,
        cpu: c.cpu as u32,
        busy_ns: c.busy_ns,
        idle_ns: c.idle_ns,
        tx_packets: c.tx_packets,
        rx_packets: c.rx_packets,
        sleeps: c.sleeps,
        flows: None,
    };
    engine.datapath().worker_counters().into_iter().enumerate().map(stats).collect()
}

/// With how packets of a run's flows came to each worker.
fn with_steering(mut workers: Vec<WorkerStats>, held: &Held) -> Vec<WorkerStats> {
    for s in held.run().steering() {
        workers[s.worker.0].flows =
            Some(FlowSteering { rss: s.rss, placed: s.placed, handed_off: s.handed_off, handoff_lost: s.handoff_lost });
    }
    workers
}
