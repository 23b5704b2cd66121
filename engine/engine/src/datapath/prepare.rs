// SPDX-License-Identifier: Apache-2.0
//! Preparing a run: what it must fulfil, and what workers need for it, allocated here so that they never do.
use std::sync::Arc;

use spate_dpdk::{Eal, Mempool};
use spate_stateless::{Deal, MAX_FRAME_LEN, Pace, Schedule};
use spate_wire::FCS_LEN;

use super::{
    Clock, PortDevice, PrepareError, RunSpec,
    open::{OpenPort, SHORT_ROOM},
    receive_plan,
    run::{self, Run},
    run_clock::RunClock,
    shared::RunShare,
    worker::{self, PortRun, SendStream, WorkerRun},
    workers::Workers,
};

/// Departures later than this count as late, unless the plan says otherwise: on polled devices,
const LATE_NS: u64 = 1_000_000;
/// and on kernel-backed ones.
const LATE_KERNEL_NS: u64 = 20_000_000;
/// Long packets of one worker.
const LONG_PACKETS: u32 = 1023;

/// Pools of packets longer than `SHORT_ROOM`, by worker, made when first needed.
pub(super) type LongPackets = Vec<Option<Mempool>>;

/// What preparing needs to know.
pub(super) struct Context<'a> {
    pub(super) eal: &'a Eal,
    pub(super) clock: &'a Clock,
    pub(super) ports: &'a [OpenPort],
    pub(super) workers: &'a Arc<Workers>,
    pub(super) long_packets: &'a mut LongPackets,
    pub(super) slot: usize,
}

/// A run for control, and each worker's part of it.
pub(super) fn prepare(context: Context<'_>, spec: RunSpec) -> Result<(Run, Vec<WorkerRun>), PrepareError> {
    let workers = context.workers.count();
    let senders = validate(&context, &spec)?;
    let end_ns = spec.timing.duration_ns.map_or(u64::MAX, |duration| spec.timing.warmup_ns + duration);
    let shares: Vec<_> = (0..workers).map(|_| Arc::new(RunShare::new(spec.streams.len()))).collect();
    let receive = receive_plan::receivers(&context, &spec, senders)?;
    let by_port = streams_by_port(context.ports.len(), &spec);
    let control_streams = control_streams(&spec, &by_port);

    let mut parts = Vec::new();
    for (worker, receive) in receive.into_iter().enumerate() {
        parts.push(WorkerRun {
            tag: spec.tag,
            clock: RunClock::new(),
            warmup_ns: spec.timing.warmup_ns,
            end_ns,
            stopped: false,
            sender: (spec.share.0 as usize * workers + worker) as u8,
            ports: Vec::new(),
            receive,
            share: Arc::clone(&shares[worker]),
            closing: false,
        });
    }
    for (port, streams) in by_port.iter().enumerate().filter(|(_, streams)| !streams.is_empty()) {
        let open = &context.ports[port];
        let send: Arc<[SendStream]> = streams
            .iter()
            .map(|&index| SendStream {
                template: spec.streams[index].template.clone(),
                id: spec.streams[index].id,
                index,
            })
            .collect();
        let long = send.iter().any(|s| s.template.frame_len() > SHORT_ROOM);
        let count = open.tx_workers.len() as u64;
        for (position, &worker) in open.tx_workers.iter().enumerate() {
            let deal = Deal {
                first: u64::from(spec.share.0) * count + position as u64,
                stride: u64::from(spec.share.1) * count,
            };
            let kernel = matches!(open.config.device, PortDevice::Kernel(_));
            parts[worker].ports.push(PortRun {
                port,
                schedule: Schedule::new(deal, streams.iter().map(|&index| control_streams[index].pace)),
                streams: Arc::clone(&send),
                changes: worker::changes(),
                late_after_ns: spec.late_after_ns.unwrap_or(if kernel { LATE_KERNEL_NS } else { LATE_NS }),
                long_packets: if long { Some(long_pool(context.eal, context.long_packets, worker)?) } else { None },
            });
        }
    }
    let run = Run::new(run::Parts {
        id: spec.run_id,
        tag: spec.tag,
        slot: context.slot,
        timing: spec.timing,
        end_ns,
        clock: context.clock.clone(),
        workers: Arc::clone(context.workers),
        shares,
        streams: control_streams,
    });
    Ok((run, parts))
}

fn wrong(field: impl Into<String>, problem: impl Into<String>) -> PrepareError {
    PrepareError { field: field.into(), problem: problem.into(), exhausted: false }
}

/// Refuses what cannot be run. Returns how many workers of all engines send the run.
fn validate(context: &Context<'_>, spec: &RunSpec) -> Result<usize, PrepareError> {
    if spec.tag == 0 {
        return Err(wrong("tag", "it must not be 0"));
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
                "{senders} workers would send this run ({count} engines of {}); trailers can tell 256 apart: use fewer engines or workers",
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
    for (index, stream) in spec.streams.iter().enumerate() {
        let field = |name: &str| format!("streams[{index}].{name}");
        if let Some(other) = ids[usize::from(stream.id)].replace(index) {
            return Err(wrong(field("id"), format!("{} is the id of streams[{other}] too", stream.id)));
        }
        let ports = context.ports.len();
        let Some(port) = context.ports.get(stream.tx_port) else {
            return Err(wrong(field("tx_port"), format!("there is no port {}: there are {ports}", stream.tx_port)));
        };
        if let Some(rx_port) = stream.rx_port
            && rx_port >= ports
        {
            return Err(wrong(field("rx_port"), format!("there is no port {rx_port}: there are {ports}")));
        }
        let frame = stream.template.frame();
        // A VLAN tag does not count against the MTU.
        let tagged = matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
        let longest = port.port.max_frame_len() + if tagged { 4 } else { 0 };
        if frame.len() > longest {
            let problem = format!(
                "its frame has {} bytes without FCS, and port {} takes {longest}: raise the MTU of the port or make the packet shorter",
                frame.len(),
                port.config.name,
            );
            return Err(wrong(field("template"), problem));
        }
    }
    Ok(senders)
}

/// Indices of the streams that each port sends.
fn streams_by_port(ports: usize, spec: &RunSpec) -> Vec<Vec<usize>> {
    let mut by_port = vec![Vec::new(); ports];
    for (index, stream) in spec.streams.iter().enumerate() {
        by_port[stream.tx_port].push(index);
    }
    by_port
}

fn control_streams(spec: &RunSpec, by_port: &[Vec<usize>]) -> Vec<run::Stream> {
    let mut indices = vec![0; spec.streams.len()];
    for streams in by_port {
        for (index, &stream) in streams.iter().enumerate() {
            indices[stream] = index;
        }
    }
    let stream = |(index, s): (usize, &super::StreamSpec)| run::Stream {
        tx_port: s.tx_port,
        index: indices[index],
        packet_bytes: s.template.frame_len() as u64 + FCS_LEN,
        base_rate: s.rate,
        rate: s.rate,
        paused: false,
        enabled: s.enabled,
        pace: Pace::from_start(s.enabled.then_some(s.rate)),
    };
    spec.streams.iter().enumerate().map(stream).collect()
}

fn long_pool(eal: &Eal, pools: &mut LongPackets, worker: usize) -> Result<Mempool, PrepareError> {
    if let Some(pool) = &pools[worker] {
        return Ok(pool.clone());
    }
    let pool = Mempool::new(eal, "sending long packets", LONG_PACKETS, MAX_FRAME_LEN).map_err(|e| PrepareError {
        field: "streams".into(),
        problem: e.to_string(),
        exhausted: true,
    })?;
    pools[worker] = Some(pool.clone());
    Ok(pool)
}
