// SPDX-License-Identifier: Apache-2.0
//! Preparing the emulated applications of a run: which worker begins which flows, the memory for them, and what control reads.
use std::{collections::BTreeMap, fs, sync::Arc};

use spate_stateful::{
    Count, Counters, Emulation, Instruction, Payload, Pool, Program, Protocol, Scenario, Stack, Template, Tunables,
    emulation::Home,
    tuples::{Dealing, Share},
};
use spate_wire::spread;

use super::{
    PrepareError, RunSpec, StatefulSpec, TemplateCounters,
    open::{OpenPort, SHORT_ROOM},
    prepare::{Context, late_after_ns, long_pool},
    run::Run,
    worker::Emulated,
};

/// Headers of a segment: of Ethernet, IPv6 and TCP; its options count as data.
const HEADERS: usize = 14 + 40 + 20;
/// Headers of the same data over IPv4 and UDP.
const FEWEST_HEADERS: usize = 14 + 20 + 8;
/// Where the system tells how much memory is left.
const MEMORY: &str = "/proc/meminfo";
/// Where the container's limit stands, and what it has of it.
const CONTAINER: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"];

/// What control has to know of a run's templates.
#[derive(Debug, Default)]
pub(super) struct Templates {
    sides: Vec<Side>,
    /// Its clients and servers talk to each other alone, over TCP: both sides of all templates are here.
    among_themselves: bool,
    /// Addresses that they answer for, by port.
    claims: Vec<(usize, Pool)>,
}

/// One side of a template.
#[derive(Debug)]
struct Side {
    name: String,
    group: String,
    client: bool,
    /// By worker.
    counters: Vec<Arc<Counters>>,
}

impl Templates {
    /// What each side counted, clients of a template before its servers.
    pub(super) fn read(&self) -> Vec<TemplateCounters> {
        let read = |side: &Side| {
            let mut counts = vec![0; spate_stateful::COUNTERS.len()];
            for counters in &side.counters {
                counts.iter_mut().zip(counters.all()).for_each(|(sum, count)| *sum += count);
            }
            TemplateCounters {
                name: side.name.clone(),
                group: side.group.clone(),
                client: side.client,
                open: side.counters.iter().map(|counters| counters.open()).sum(),
                counts,
            }
        };
        self.sides.iter().map(read).collect()
    }

    /// What cannot be, once nothing changes any more: each flow that began has ended or is open, and nobody receives what
    /// nobody sent. Servers count together: the first bytes of a flow may tell that it is another template's.
    pub(super) fn contradictions(&self) -> Vec<String> {
        let all = self.read();
        let mut told = Vec::new();
        let mut begun = |name: &str, what: &str, begun: u64, closed: u64, open: u64| {
            if begun != closed + open {
                told.push(format!("{name}: {begun} {what}, but {closed} closed and {open} open"));
            }
        };
        for side in all.iter().filter(|side| side.client) {
            let came = side.get(Count::ConnectAttempts) + side.get(Count::SwitchedIn);
            let gone = side.get(Count::Closed) + side.get(Count::SwitchedOut);
            begun(&side.name, "connect_attempts", came, gone, side.open);
        }
        let sum = |client: bool, count: Count| -> u64 {
            all.iter().filter(|side| side.client == client).map(|side| side.get(count)).sum()
        };
        let open = all.iter().filter(|side| !side.client).map(|side| side.open).sum();
        begun("servers", "accepts", sum(false, Count::Accepts), sum(false, Count::Closed), open);
        for (client, receivers) in [(true, "clients"), (false, "servers")].into_iter().filter(|_| self.among_themselves)
        {
            let (received, queued) = (sum(client, Count::ReceivedDataBytes), sum(!client, Count::QueuedBytes));
            if received > queued {
                told.push(format!("{receivers}: {received} bytes received, but the others queued {queued}"));
            }
        }
        told
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sides.is_empty()
    }

    /// Whether they use a port.
    pub(super) fn use_port(&self, port: usize) -> bool {
        self.claims.iter().any(|(claimed, _)| *claimed == port)
    }

    /// Whether they answer for an address of a pool on a port.
    fn claim(&self, port: usize, pool: &Pool) -> bool {
        self.claims.iter().any(|(claimed, other)| *claimed == port && other.overlaps(pool))
    }
}

/// By worker.
pub(super) type Parts = Vec<Option<Box<Emulated>>>;

/// Each worker's part of a run's templates, none where it has none; and what control reads of them.
pub(super) fn prepare(context: &mut Context<'_>, spec: &RunSpec) -> Result<(Parts, Templates), PrepareError> {
    let workers = context.workers.count();
    let Some(asked) = &spec.stateful else { return Ok(((0..workers).map(|_| None).collect(), Templates::default())) };
    let claims = claims(&asked.scenario);
    refuse_conflicts(context, spec, &claims)?;
    let longest = longest_of_all(context, &asked.scenario)?;
    let takers = Takers::of(context, &asked.scenario)?;
    let parts: Vec<_> = (0..workers).map(|worker| takers.scenario(worker, context, &asked.scenario)).collect();
    refuse_too_much(&asked.scenario, parts.iter().flatten().count())?;
    let mut emulated = Vec::with_capacity(workers);
    let mut counters: BTreeMap<(usize, bool), Vec<Arc<Counters>>> = BTreeMap::new();
    for (worker, part) in parts.into_iter().enumerate() {
        let Some(scenario) = part else {
            emulated.push(None);
            continue;
        };
        let emulation = takers.emulation(worker, context, spec, asked, &scenario)?;
        for index in 0..scenario.templates.len() {
            for client in [true, false] {
                counters.entry((index, !client)).or_default().push(Arc::clone(emulation.counters(index, client)));
            }
        }
        let long =
            if longest > SHORT_ROOM { Some(long_pool(context.eal, context.long_packets, worker)?) } else { None };
        emulated.push(Some(Box::new(Emulated::new(emulation, ports(&scenario), long))));
    }
    let side = |((index, server), counters): ((usize, bool), Vec<Arc<Counters>>)| {
        let template = &asked.scenario.templates[index];
        let here = if server { template.server.is_some() } else { template.client.is_some() };
        here.then(|| Side { name: template.name.clone(), group: template.group.clone(), client: !server, counters })
    };
    let sides = counters.into_iter().filter_map(side).collect();
    let claims = claims.into_keys().map(|(port, pool)| (port, asked.scenario.pools[pool].clone())).collect();
    let both = |t: &Template| t.client.is_some() && t.server.is_some() && t.protocol == Protocol::Tcp;
    let among_themselves = spec.share.1 == 1 && asked.scenario.templates.iter().all(both);
    Ok((emulated, Templates { sides, among_themselves, claims }))
}

/// Who begins flows: the workers to which replies can come, which share out all flows evenly.
struct Takers {
    /// By port, in ascending order.
    by_port: Vec<Vec<usize>>,
    /// Of each port with clients.
    each: usize,
}

impl Takers {
    fn of(context: &Context<'_>, scenario: &Scenario) -> Result<Self, PrepareError> {
        let by_port: Vec<_> = context.ports.iter().map(|port| sorted(port.rx_workers.clone())).collect();
        let mut first: Option<(usize, usize)> = None;
        for (index, template) in scenario.templates.iter().enumerate() {
            let Some(port) = template.client.as_ref().map(|client| client.port) else { continue };
            let field = format!("stateful.templates[{index}].client_port");
            let (_, other) = *first.get_or_insert((index, port));
            let (these, those) = (&by_port[port], &by_port[other]);
            if these.is_empty() {
                let problem = format!("{} receives nothing, so that no reply comes", name(context, port));
                return Err(refused(field, problem));
            }
            // Each flow's worker is found without asking others only if all clients are shared out in one way.
            if these != those && (these.len() > 1 || those.len() > 1) {
                let problem = format!(
                    "workers {these:?} receive from {}, and {those:?} from {}, where other clients are: give both the same \
                     workers, or one each (--port-workers)",
                    name(context, port),
                    name(context, other)
                );
                return Err(refused(field, problem));
            }
        }
        let each = first.map_or(1, |(_, port)| by_port[port].len());
        Ok(Self { by_port, each })
    }

    /// What a worker emulates; none if it has nothing to do with it.
    fn scenario(&self, worker: usize, context: &Context<'_>, all: &Arc<Scenario>) -> Option<Arc<Scenario>> {
        let begins =
            |template: &Template| template.client.as_ref().is_some_and(|c| self.by_port[c.port].contains(&worker));
        let serves = |template: &Template| {
            template.server.as_ref().is_some_and(|server| context.ports[server.port].rx_workers.contains(&worker))
        };
        if all.templates.iter().all(|template| template.client.is_none() || begins(template)) {
            return Some(Arc::clone(all)).filter(|all| all.templates.iter().any(|t| begins(t) || serves(t)));
        }
        if !all.templates.iter().any(|template| begins(template) || serves(template)) {
            return None;
        }
        let mut part = Scenario::clone(all);
        for template in part.templates.iter_mut().filter(|template| !begins(template)) {
            template.client = None;
        }
        Some(Arc::new(part))
    }

    fn emulation(
        &self,
        worker: usize,
        context: &Context<'_>,
        spec: &RunSpec,
        asked: &StatefulSpec,
        scenario: &Arc<Scenario>,
    ) -> Result<Emulation, PrepareError> {
        let port = scenario.templates.iter().find_map(|template| Some(template.client.as_ref()?.port));
        let place = port.and_then(|port| self.by_port[port].iter().position(|taker| *taker == worker)).unwrap_or(0);
        let (engine, engines) = (u64::from(spec.share.0), u64::from(spec.share.1));
        let each = self.each as u64;
        let share = Share { worker: engine * each + place as u64, workers: engines * each };
        let dealing = if each > 1 { Dealing::ByHash } else { Dealing::ByNumber };
        let now_ns = context.clock.mono_ns();
        let seed = context.clock.now_wall_ns() ^ (worker as u64) << 56;
        let home = home(worker, context.ports, spec.share);
        let clients = scenario.templates.iter().filter_map(|template| template.client.as_ref());
        let late_after_ns = clients.map(|client| late_after_ns(spec, &context.ports[client.port])).max();
        let emulation = Emulation::new(Arc::clone(scenario), share, dealing, home, &asked.links, seed, now_ns);
        let emulation = emulation.map_err(|error| {
            let told = error.to_string();
            let (field, problem) = told.split_once(": ").unwrap_or(("templates", &told));
            refused(format!("stateful.{field}"), problem.to_owned())
        })?;
        Ok(match late_after_ns {
            Some(late_after_ns) => emulation.late_after(late_after_ns),
            None => emulation,
        })
    }
}

/// Tells whether replies come to a worker: ports spread by addresses and ports. Engines with the same clients take source ports
/// of their own each.
fn home(worker: usize, ports: &[OpenPort], (engine, engines): (u32, u32)) -> Box<Home> {
    let queues: Vec<Vec<usize>> = ports.iter().map(|port| port.rx_workers.clone()).collect();
    Box::new(move |port, destination_port, tuple| {
        let workers = &queues[port];
        let (client, server) = ((tuple.client.into(), tuple.source_port), (tuple.server.into(), destination_port));
        // Mixed: the hash that spreads is linear in the port's bits, and would leave some workers without any.
        let taker = (u32::from(tuple.source_port).wrapping_mul(0x9e37_79b1) >> 16) % engines;
        taker == engine && workers[spread::queue_between(server, client, workers.len())] == worker
    })
}

/// Ports that a scenario uses, each once.
fn ports(scenario: &Scenario) -> Box<[usize]> {
    let clients = scenario.templates.iter().filter_map(|template| Some(template.client.as_ref()?.port));
    let servers = scenario.templates.iter().filter_map(|template| Some(template.server.as_ref()?.port));
    let mut ports = sorted(clients.chain(servers).collect());
    ports.dedup();
    ports.into()
}

/// The longest frame of one side of a template at most, without FCS.
fn longest(scenario: &Scenario, protocol: Protocol, program: &Program, tunables: &Tunables) -> usize {
    let message = |instruction: &Instruction| match instruction {
        Instruction::SendMessage { payload } => scenario.payloads.get(*payload as usize).map(Payload::len),
        _ => None,
    };
    HEADERS
        + match protocol {
            Protocol::Tcp => usize::from(tunables.mss),
            Protocol::Udp => program.instructions.iter().filter_map(message).max().unwrap_or(0) as usize,
        }
}

/// The longest frame of all, without FCS; refused if a port does not take it.
fn longest_of_all(context: &Context<'_>, scenario: &Scenario) -> Result<usize, PrepareError> {
    let mut most = 0;
    for (index, template) in scenario.templates.iter().enumerate() {
        let client = template.client.as_ref().map(|c| (c.port, &c.program, &c.tunables, "client"));
        let server = template.server.as_ref().map(|s| (s.port, &s.program, &s.tunables, "server"));
        for (port, program, tunables, side) in [client, server].into_iter().flatten() {
            let len = longest(scenario, template.protocol, program, tunables);
            let room = context.ports[port].port.max_frame_len() + HEADERS - FEWEST_HEADERS;
            if len > room {
                let problem = format!(
                    "it sends frames of up to {len} bytes without FCS, and {} takes {room}: send less at a time (mss, messages), \
                     or raise the MTU of the port",
                    name(context, port)
                );
                return Err(refused(format!("stateful.templates[{index}].{side}"), problem));
            }
            most = most.max(len);
        }
    }
    Ok(most)
}

/// By (port, pool): the field that says so.
type Claims = BTreeMap<(usize, usize), String>;

/// Which pools a scenario answers for.
fn claims(scenario: &Scenario) -> Claims {
    let mut claims = Claims::new();
    for (index, template) in scenario.templates.iter().enumerate() {
        let client = template.client.as_ref().map(|client| (client.port, &template.clients, "client_port"));
        let server = template.server.as_ref().map(|server| (server.port, &template.servers, "server_port"));
        for (port, pools, side) in [client, server].into_iter().flatten() {
            for weighted in pools {
                let field = || format!("stateful.templates[{index}].{side}");
                claims.entry((port, weighted.pool)).or_insert_with(field);
            }
        }
    }
    claims
}

/// Refuses what another run, or this one, does already.
fn refuse_conflicts(context: &Context<'_>, spec: &RunSpec, claims: &Claims) -> Result<(), PrepareError> {
    let scenario = &spec.stateful.as_ref().expect("a run with templates").scenario;
    for ((port, pool), field) in claims {
        let pool = &scenario.pools[*pool];
        let other = |run: &&Arc<Run>| run.templates().is_some_and(|templates| templates.claim(*port, pool));
        if let Some(run) = context.present.iter().find(other) {
            let problem = format!(
                "run {:?} answers for addresses from {:?} to {:?} on {} too: use others, or remove that run",
                run.id(),
                pool.address(0),
                pool.address(pool.last_offset()),
                name(context, *port)
            );
            return Err(refused(field.clone(), problem));
        }
        let reflects = spec.measure.reflectors.iter().any(|(reflector, _)| reflector == port);
        if reflects || context.present.iter().any(|run| run.reflects(*port)) {
            let problem =
                format!("{} sends back what it receives: use another port, or no reflector", name(context, *port));
            return Err(refused(field.clone(), problem));
        }
    }
    Ok(())
}

/// Refuses more flows than there is memory for.
fn refuse_too_much(scenario: &Scenario, workers: usize) -> Result<(), PrepareError> {
    let each = Stack::bytes(scenario);
    let Some(left) = memory_left().filter(|left| each.saturating_mul(workers) as u64 > *left) else { return Ok(()) };
    let problem = format!(
        "{} flows of {workers} workers each need {} MiB in all ({} bytes a flow), and {} MiB of ordinary memory are left: \
         lower it, or give the engine more memory",
        scenario.most_flows,
        each.saturating_mul(workers) >> 20,
        each / scenario.most_flows.max(1),
        left >> 20
    );
    Err(PrepareError { field: "stateful.most_flows".into(), problem, exhausted: true })
}

/// Bytes of ordinary memory that may still be taken, if the system says so.
fn memory_left() -> Option<u64> {
    let of_machine = fs::read_to_string(MEMORY).ok().and_then(|told| {
        let line = told.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
    });
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let [limit, taken] = CONTAINER.map(number);
    let of_container = limit.zip(taken).map(|(limit, taken)| limit.saturating_sub(taken));
    of_machine.into_iter().chain(of_container).min()
}

fn sorted(mut workers: Vec<usize>) -> Vec<usize> {
    workers.sort_unstable();
    workers
}

fn name<'a>(context: &Context<'a>, port: usize) -> &'a str {
    &context.ports[port].config.name
}

fn refused(field: String, problem: String) -> PrepareError {
    PrepareError { field, problem, exhausted: false }
}
