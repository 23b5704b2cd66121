// SPDX-License-Identifier: Apache-2.0
//! Counters as the contract says them. WatchStats, the metrics and the command `run` all read through here.
use super::runs::{Engine, Held};
use crate::datapath::{self, PhaseCounters};
use contract::{PortStats, QueueStats, StreamCounters, StreamStats, WatchStatsResponse, WorkerStats};

/// All counters that concern a run, read now. The state is read first: once it says that the run has ended, the
/// counters beside it are the final ones.
pub fn read(engine: &Engine, held: &Held) -> WatchStatsResponse {
    let run = held.info(engine.now_ns());
    WatchStatsResponse {
        run: Some(run),
        streams: streams(held),
        ports: ports(engine),
        workers: workers(engine),
        receivers: Vec::new(),
        read_at_ns: engine.now_ns() as i64,
    }
}

/// Counters of a run's streams, in the plan's order.
pub fn streams(held: &Held) -> Vec<StreamStats> {
    let counters = held.run().counters();
    let stats = |(name, c): (&String, &datapath::StreamCounters)| StreamStats {
        name: name.clone(),
        warmup: Some(phase(&c.warmup)),
        measured: Some(phase(&c.measured)),
    };
    held.stream_names().zip(&counters).map(stats).collect()
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
        ..StreamCounters::default()
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
        queues: c.queues.iter().enumerate().map(queue).collect(),
        link_up: c.link_up,
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
    };
    engine.datapath().worker_counters().into_iter().enumerate().map(stats).collect()
}
