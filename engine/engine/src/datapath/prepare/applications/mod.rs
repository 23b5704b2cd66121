// SPDX-License-Identifier: Apache-2.0
//! Preparing the emulated applications of a run: which worker begins which flows, the memory for them, and what control reads.
mod claims;
mod distribution;
mod frame_lengths;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use spate_dpdk::Mempool;
use spate_stateful::{
    Counters, FieldPath, Protocol, Scenario, Stack, Template,
    envelope::{self, Envelopes, GatewayMac},
};

use crate::datapath::{
    PortDevice, PrepareError, RunSpec, StatefulSpec,
    buffers::SHORT_ROOM,
    open::{DESCRIPTORS, OpenPort},
    prepare::{Context, VLAN_TAG, long_pool, memory},
    run::{
        records,
        templates::{Side, Templates},
    },
    worker::{self, Emulated, Pools},
};
use crate::index::{PortIndex, TemplateIndex, WorkerIndex};

use claims::{claims, refuse_conflicts};
pub(in crate::datapath) use claims::{groups, ranges};
use distribution::ClientWorkers;
use frame_lengths::longest_of_all;

/// Packets that a worker works with, for devices to cut.
const TSO_PACKETS: u32 = 127;

/// Emulated applications, by worker.
pub(in crate::datapath) type Parts = Vec<Option<Box<Emulated>>>;

/// Each worker's part of a run's templates, none where it has none; what control reads of them; and what is recorded.
pub(in crate::datapath) fn prepare(
    context: &mut Context<'_>,
    spec: &RunSpec,
) -> Result<(Parts, Templates, Option<records::Prepared>), PrepareError> {
    let workers = context.workers.count();
    let Some(asked) = &spec.stateful else {
        return Ok(((0..workers).map(|_| None).collect(), Templates::default(), None));
    };
    let claims = claims(&asked.scenario);
    refuse_conflicts(context, spec, &claims)?;
    let longest = longest_of_all(context, &asked.scenario)?;
    let clients = ClientWorkers::of(context, &asked.scenario)?;
    let parts: Vec<_> =
        (0..workers).map(|worker| clients.scenario(WorkerIndex(worker), context, &asked.scenario)).collect();
    refuse_too_much(asked, parts.iter().flatten().count())?;
    let names = || asked.scenario.templates.iter().map(|template| template.name.clone()).collect();
    let recorded = asked.records.as_ref().map(|records| records::Prepared::new(records, names()));
    let mut recorded = recorded.transpose()?;
    let spread = clients.by_port.iter().any(|workers| workers.len() > 1);
    log_steering(context, spec, &asked.scenario);
    let taking_part: Vec<bool> = parts.iter().map(|part| part.is_some() && spread).collect();
    let receivers: Vec<_> = context.ports.iter().map(|port| port.rx_workers.clone()).collect();
    let mut handoffs = worker::between(&taking_part, &receivers, longest);
    let mut emulating = Vec::new();
    let shared = parts.iter().enumerate().map(|(worker, part)| {
        let scenario = part.as_ref()?;
        Some((Arc::clone(scenario), clients.share(WorkerIndex(worker), scenario)))
    });
    let shares = shared.collect();
    let outer_ethertype_lost: Vec<_> =
        context.ports.iter().map(|port| port.config.device.normalizes_outer_ethertype()).collect();
    let gateways: Vec<_> = asked.on_link.gateways.iter().copied().map(GatewayMac::from).collect();
    let mut emulated = Vec::with_capacity(workers);
    let mut counters: BTreeMap<(TemplateIndex, bool), Vec<Arc<Counters>>> = BTreeMap::new();
    for (worker, part) in parts.into_iter().enumerate() {
        let Some(scenario) = part else {
            emulated.push(None);
            continue;
        };
        let worker = WorkerIndex(worker);
        let mut emulation = clients.emulation(worker, context, spec, asked, &scenario)?;
        if let Some(recorded) = &mut recorded {
            emulation.record(recorded.recorder());
        }
        for index in 0..scenario.templates.len() {
            for client in [true, false] {
                counters
                    .entry((TemplateIndex(index), !client))
                    .or_default()
                    .push(Arc::clone(emulation.counters(index, client)));
            }
        }
        let long = if longest + VLAN_TAG > SHORT_ROOM { Some(long_pool(context, worker)?) } else { None };
        let tso = tso_pool(context, &scenario, worker)?;
        let handoff = handoffs[worker.0].take();
        emulating.push((worker, handoff.as_ref().map(|handoff| Arc::clone(handoff.share()))));
        let ports = ports(&scenario);
        let counters = |template, client| Arc::clone(emulation.counters(template, client));
        let known = envelope::Ports {
            links: &asked.links,
            neighbours: &asked.on_link.neighbours,
            gateways: &gateways,
            tags: &context.tags,
            outer_ethertype_lost: &outer_ethertype_lost,
            mirrored: false,
        };
        let envelopes = Envelopes::new(&scenario, &known, counters);
        let (tags, pools) = (&context.tags, Pools { long, tso });
        emulated.push(Some(Box::new(Emulated::new(emulation, envelopes, ports, tags, pools, handoff, &spec.timing))));
    }
    let side = |((index, server), counters): ((TemplateIndex, bool), Vec<Arc<Counters>>)| {
        let template = &asked.scenario.templates[index.0];
        let program = if server {
            template.server.as_ref().map(|server| &server.program)
        } else {
            template.client.as_ref().map(|client| &client.program)
        };
        let programs = program?.counters.clone();
        let (name, group) = (template.name.clone(), template.group.clone());
        let limited = template.client.as_ref().is_some_and(|client| client.limit > 0);
        Some(Side { name, group, client: !server, template: index, limited, programs, counters })
    };
    let sides = counters.into_iter().filter_map(side).collect();
    let claims = claims.into_iter().map(|claim| (claim.port, claim.pool)).collect();
    // On a wire port the servers may be another engine's.
    let here = |t: &Template| t.client.is_some() && t.server.is_some() && (spec.share.1 == 1 || t.looped);
    let among_themselves = asked.scenario.templates.iter().all(|t| here(t) && t.protocol == Protocol::Tcp);
    let linger_ns = linger_ns(&asked.scenario, spec.share.1);
    Ok((
        emulated,
        Templates { sides, workers: emulating, among_themselves, claims, parts: shares, linger_ns },
        recorded,
    ))
}

/// Packets that a worker has for devices that cut them into segments, if a port that it sends TCP on has one: as many as their
/// rings hold, and some to work with.
fn tso_pool(
    context: &mut Context<'_>,
    scenario: &Scenario,
    worker: WorkerIndex,
) -> Result<Option<Mempool>, PrepareError> {
    if let Some(pool) = &context.tso_pools[worker.0] {
        return Ok(Some(pool.clone()));
    }
    let cuts = |port: &&OpenPort| port.port.offloads().segmentation.is_some() && port.tx_workers.contains(&worker);
    let all = ports(scenario);
    let tcp = scenario.templates.iter().any(|template| template.protocol == Protocol::Tcp);
    let Some(port) = all.iter().map(|port| &context.ports[port.0]).find(cuts).filter(|_| tcp) else { return Ok(None) };
    let rings = context.ports.iter().filter(cuts).filter(|port| matches!(port.config.device, PortDevice::Pci(_)));
    let (count, room) = (TSO_PACKETS + u32::from(DESCRIPTORS) * rings.count() as u32, max_tso_frame(context));
    let pool = Mempool::on_node(
        context.eal,
        context.nodes.of_worker(worker),
        "packets that a device cuts into segments",
        count,
        room,
    );
    let pool = pool.map_err(|e| PrepareError {
        field: "stateful".into(),
        problem: format!("{e}; or leave the offloads of port {} unused (offloads=none)", port.config.name),
        exhausted: true,
    })?;
    tracing::info!(
        worker = worker.0,
        port = port.config.name,
        packets = count,
        kib = Mempool::bytes(count, room) >> 10,
        "its device cuts TCP into segments"
    );
    context.tso_pools[worker.0] = Some(pool.clone());
    Ok(Some(pool))
}

/// Bytes without FCS of the longest frame that any port's device takes to cut.
fn max_tso_frame(context: &Context<'_>) -> usize {
    let cuts = context.ports.iter().filter_map(|port| port.port.offloads().segmentation);
    cuts.map(|cut| cut.longest_frame).max().unwrap_or(0)
}

/// How long after all of a scenario's flows have ended nothing more can come, where one of this many engines runs it. It is not
/// known over UDP, and where servers have clients elsewhere.
fn linger_ns(scenario: &Scenario, engines: u32) -> Option<u64> {
    let linger = |template: &Template| match (&template.client, &template.server) {
        _ if template.protocol == Protocol::Udp => None,
        // On a loopback port both ends are here.
        (Some(_), Some(_)) => (engines == 1 || template.looped).then_some(0),
        // The last acknowledgement may have been lost: TIME-WAIT is there to repeat it.
        (Some(client), None) => Some(client.tunables.time_wait_ns),
        // Both sides are other engines'.
        (None, None) => Some(0),
        (None, Some(_)) => None,
    };
    scenario.templates.iter().map(linger).try_fold(0, |longest, linger| Some(linger?.max(longest)))
}

/// Says which ports of clients bring replies to other workers than computed, so that these hand them over.
fn log_steering(context: &Context<'_>, spec: &RunSpec, scenario: &Scenario) {
    let clients = scenario.templates.iter().filter_map(|template| Some(template.client.as_ref()?.port));
    let clients = clients.collect::<BTreeSet<_>>();
    for port in clients.into_iter().map(|port| &context.ports[port]) {
        if let Err(differs) = port.port.steering() {
            tracing::warn!(
                run = spec.run_id,
                port = port.config.name,
                differs,
                "replies do not come to the workers that are computed: they are handed over, which costs time"
            );
        }
    }
}

/// Ports that a scenario uses, each once.
fn ports(scenario: &Scenario) -> Box<[PortIndex]> {
    let clients = scenario.templates.iter().filter_map(|template| Some(template.client.as_ref()?.port));
    let servers = scenario.templates.iter().filter_map(|template| Some(template.server.as_ref()?.port));
    let mut ports = sorted(clients.chain(servers).collect());
    ports.dedup();
    ports.into_iter().map(PortIndex).collect()
}

/// Refuses more flows than there is memory for.
fn refuse_too_much(asked: &StatefulSpec, workers: usize) -> Result<(), PrepareError> {
    let scenario = &asked.scenario;
    let records = if asked.records.is_some() { records::bytes(scenario.most_flows.max(1)) } else { 0 };
    let each = Stack::bytes(scenario) + records;
    let Some(left) = memory::left().filter(|left| each.saturating_mul(workers) as u64 > *left) else { return Ok(()) };
    let problem = format!(
        "{} flows of {workers} workers each need {} MiB in all ({} bytes a flow), and {} MiB of ordinary memory are left: \
         lower it, or give the engine more memory (in a cluster by `memory` of its generator)",
        scenario.most_flows,
        each.saturating_mul(workers) >> 20,
        each / scenario.most_flows.max(1),
        left >> 20
    );
    Err(PrepareError { field: "stateful.most_flows".into(), problem, exhausted: true })
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort_unstable();
    all
}

fn name<'a>(context: &Context<'a>, port: usize) -> &'a str {
    &context.ports[port].config.name
}

fn refused(field: FieldPath, problem: String) -> PrepareError {
    PrepareError { field, problem, exhausted: false }
}
