// SPDX-License-Identifier: Apache-2.0
//! Preparing the emulated applications of a run: which worker begins which flows, the memory for them, and what control reads.
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    ops,
    sync::{Arc, Mutex, PoisonError},
};

use spate_dpdk::Mempool;
use spate_neighbour::{Group, MOST_GROUPS, Range};
use spate_net::{spread, vlan::Tags};
use spate_stateful::{
    Count, Counters, Emulation, Instruction, Payload, Pool, Program, Protocol, Scenario, Stack, Template, Tunables,
    WeightedPool,
    arrivals::{Arrivals, TimingError},
    emulation::Home,
    envelope::{self, Envelopes},
    pool::Order,
    tuples::{Dealing, Share},
};
use spate_stats::{Silence, Timed, Times};

use super::{
    FlowChange, PortDevice, PrepareError, ProgramCounter, RunSpec, StatefulSpec, Steering, TemplateCounters,
    TemplateTimes, memory,
    open::{DESCRIPTORS, OpenPort, SHORT_ROOM},
    prepare::{Context, VLAN_TAG, late_after_ns, long_pool},
    records,
    run::Run,
    worker::{self, Emulated, HandoffShare, Pools},
};

/// The longest headers of a packet, of Ethernet, IPv6 and TCP; its options count as data.
const HEADERS: usize = 14 + 40 + 20;
/// Packets that a worker works with, for devices to cut.
const TO_CUT: u32 = 127;
/// What control has to know of a run's templates.
#[derive(Debug, Default)]
pub(super) struct Templates {
    sides: Vec<Side>,
    /// Those that emulate, and what they count of frames for each other, if they give each other any.
    workers: Vec<(usize, Option<Arc<HandoffShare>>)>,
    /// Its clients and servers talk to each other alone, over TCP: both sides of all templates are here.
    among_themselves: bool,
    /// Addresses that they answer for, by port.
    claims: Vec<(usize, Pool)>,
    /// What must be sent to workers if rates change.
    rates: Option<FlowRates>,
    /// How long after the last open flow ended nothing more can come, if that is known.
    linger_ns: Option<u64>,
}

/// Rates of templates as they are now.
#[derive(Debug)]
struct FlowRates {
    /// By worker: its part of the scenario and its share of the flows.
    parts: Vec<Option<(Arc<Scenario>, Share)>>,
    now: Mutex<Now>,
}

#[derive(Clone, Debug)]
struct Now {
    /// The fraction of all rates at which time passes.
    factor: (u64, u64),
    /// In the scenario's order.
    templates: Vec<FlowRateNow>,
}

/// The rate of one template.
#[derive(Clone, Copy, Debug)]
struct FlowRateNow {
    /// The plan's.
    base: (u64, u64),
    /// Set since; none: the fraction of the plan's.
    own: Option<(u64, u64)>,
    paused: bool,
    enabled: bool,
}

impl FlowRateNow {
    /// As it is when time passes at a fraction.
    fn row_rate(&self, factor: (u64, u64)) -> Result<(u64, u64), TimingError> {
        match self.own {
            _ if self.paused || !self.enabled => Ok((0, 1)),
            None => Ok(self.base),
            Some(own) => product(own, (factor.1, factor.0)),
        }
    }

    fn change(&mut self, change: FlowChange) -> Result<(), TimingError> {
        match change {
            FlowChange::Rate(rate) => self.own = Some(rate),
            FlowChange::Factor(factor) => self.own = Some(product(self.base, factor)?),
            FlowChange::Paused(paused) => self.paused = paused,
            FlowChange::Enabled(enabled) => self.enabled = enabled,
        }
        Ok(())
    }
}

impl Now {
    /// The plan's.
    fn of(scenario: &Scenario) -> Self {
        let base = |template: &Template| template.client.as_ref().map_or((0, 1), |client| client.rate);
        let template = |t: &Template| FlowRateNow { base: base(t), own: None, paused: false, enabled: true };
        Self { factor: (1, 1), templates: scenario.templates.iter().map(template).collect() }
    }

    fn row_rates(&self) -> Result<Vec<(u64, u64)>, TimingError> {
        self.templates.iter().map(|template| template.row_rate(self.factor)).collect()
    }
}

/// The product of two fractions in lowest terms.
fn product(a: (u64, u64), b: (u64, u64)) -> Result<(u64, u64), TimingError> {
    let (numerator, denominator) = (u128::from(a.0) * u128::from(b.0), u128::from(a.1) * u128::from(b.1));
    let (mut gcd, mut rest) = (numerator, denominator);
    while rest > 0 {
        (gcd, rest) = (rest, gcd % rest);
    }
    let part = |n: u128| u64::try_from(n / gcd.max(1)).map_err(|_| TimingError::TooFine(0));
    Ok((part(numerator)?, part(denominator)?))
}

/// One side of a template.
#[derive(Debug)]
struct Side {
    name: String,
    group: String,
    client: bool,
    /// Index of the template.
    template: usize,
    /// It has a maximum of flows in all.
    limited: bool,
    /// Names of its program's counters.
    programs: Box<[String]>,
    /// Of each of those workers.
    counters: Vec<Arc<Counters>>,
}

impl Templates {
    /// What each side counted, clients of a template before its servers.
    pub(super) fn read(&self) -> Vec<TemplateCounters> {
        let read = |side: &Side| {
            let mut counts = vec![0; spate_stateful::COUNTERS.len()];
            let mut warmup = counts.clone();
            let named = |name: &String| ProgramCounter { name: name.clone(), count: 0, warmup: 0 };
            let mut programs: Vec<_> = side.programs.iter().map(named).collect();
            for counters in &side.counters {
                for (sum, (count, before)) in programs.iter_mut().zip(counters.programs()) {
                    sum.count += count;
                    sum.warmup += before;
                }
                let (all, before) = counters.phases();
                counts.iter_mut().zip(all).for_each(|(sum, count)| *sum += count);
                warmup.iter_mut().zip(before).for_each(|(sum, count)| *sum += count);
            }
            TemplateCounters {
                name: side.name.clone(),
                group: side.group.clone(),
                client: side.client,
                open: side.counters.iter().map(|counters| counters.open()).sum(),
                counts,
                warmup,
                programs,
            }
        };
        self.sides.iter().map(read).collect()
    }

    /// How packets came to each worker.
    pub(super) fn steering(&self) -> Vec<Steering> {
        let of = |(rank, (worker, handoff)): (usize, &(usize, Option<Arc<HandoffShare>>))| {
            let received = |client: bool| -> u64 {
                let sides = self.sides.iter().filter(|side| side.client == client);
                sides.map(|side| side.counters[rank].get(Count::ReceivedPackets)).sum()
            };
            let handed = |count: fn(&HandoffShare) -> u64| handoff.as_deref().map_or(0, count);
            Steering {
                worker: *worker,
                home: received(true).saturating_sub(handed(|share| share.met.get())),
                placed: received(false),
                handed_off: handed(|share| share.sent.get()),
                handoff_lost: handed(|share| share.lost.get()),
            }
        };
        self.workers.iter().enumerate().map(of).collect()
    }

    /// How long things took on each side, in the order of `read`.
    pub(super) fn times(&self) -> Vec<TemplateTimes> {
        let of = |side: &Side, times: fn(&Counters) -> Option<&Times>| {
            let all = side.counters.iter().filter_map(|counters| times(counters));
            all.clone().next().is_some().then(|| Timed::read(all))
        };
        let read = |side| TemplateTimes {
            connect: of(side, Counters::connect_times),
            round_trip: of(side, Counters::round_trips),
        };
        self.sides.iter().map(read).collect()
    }

    /// How many templates there are.
    pub(super) fn count(&self) -> usize {
        self.sides.iter().map(|side| side.template + 1).max().unwrap_or(0)
    }

    /// When no packet of its flows arrived on each side, in the order of `read`: the template's index, whether it has a maximum of
    /// flows, and what all workers together know.
    pub(super) fn silences(&self) -> impl Iterator<Item = (usize, bool, Silence)> + '_ {
        self.sides.iter().map(|side| {
            let received = side.counters.iter().filter_map(|counters| counters.silence());
            (side.template, side.limited, received.fold(Silence::whole(), |whole, one| whole.and(&one)))
        })
    }

    /// Number of sides.
    pub(super) fn sides(&self) -> usize {
        self.sides.len()
    }

    /// Number of sides of which several workers receive packets.
    pub(super) fn shared_sides(&self) -> usize {
        self.shared().count()
    }

    fn shared(&self) -> impl Iterator<Item = &Side> {
        self.sides.iter().filter(|side| side.counters.len() > 1)
    }

    /// What was received on each side until an instant is collected: workers need not keep gaps that ended until then. A worker that alone
    /// receives a side keeps its longest gaps, which is enough.
    pub(super) fn gaps_collected(&self, until_ns: u64) {
        self.shared().flat_map(|side| &side.counters).for_each(|counters| counters.gaps_collected(until_ns));
    }

    /// Contradictions once nothing changes any more: each flow that began must have ended or be open, and nothing is received that
    /// was not sent. Servers count together: the first bytes of a flow may assign it to another template.
    pub(super) fn contradictions(&self) -> Vec<String> {
        let all = self.read();
        let mut found = Vec::new();
        let mut started = |name: &str, what: &str, started: u64, closed: u64, open: u64| {
            if started != closed + open {
                found.push(format!("{name}: {started} {what}, but {closed} flows_closed and {open} open"));
            }
        };
        for side in all.iter().filter(|side| side.client) {
            let came = side.get(Count::FlowsAttempted) + side.get(Count::SwitchedIn);
            let gone = side.get(Count::FlowsClosed) + side.get(Count::SwitchedOut);
            started(&side.name, "flows_attempted", came, gone, side.open);
        }
        let sum = |client: bool, count: Count| -> u64 {
            all.iter().filter(|side| side.client == client).map(|side| side.get(count)).sum()
        };
        let open = all.iter().filter(|side| !side.client).map(|side| side.open).sum();
        started("servers", "flows_accepted", sum(false, Count::FlowsAccepted), sum(false, Count::FlowsClosed), open);
        for (client, receivers) in [(true, "clients"), (false, "servers")].into_iter().filter(|_| self.among_themselves)
        {
            let (received, queued) = (sum(client, Count::ReceivedDataBytes), sum(!client, Count::QueuedBytes));
            if received > queued {
                found.push(format!("{receivers}: {received} bytes received, but the others queued {queued}"));
            }
        }
        found
    }

    #[cfg(test)]
    pub(super) fn miscount(&self) {
        self.sides.iter().for_each(|side| side.counters[0].one(Count::FlowsClosed));
    }

    /// Sends to each worker how flows of templates (none given: of all) start from now on. If that is impossible, nothing changes.
    pub(super) fn change_rates(
        &self,
        templates: Option<&[usize]>,
        change: FlowChange,
        assign: impl Fn(usize, (u64, u64), Option<Box<Arrivals>>),
    ) -> Result<(), TimingError> {
        let Some(rates) = &self.rates else { return Ok(()) };
        let mut now = rates.now.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = now.clone();
        match (templates, change) {
            (None, FlowChange::Factor(factor)) => {
                next.factor = factor;
                next.templates.iter_mut().for_each(|template| template.own = None);
            }
            (None, change) => next.templates.iter_mut().try_for_each(|template| template.change(change))?,
            (Some(some), change) => some.iter().try_for_each(|&index| next.templates[index].change(change))?,
        }
        let (before, after) = (now.row_rates()?, next.row_rates()?);
        let row = |part: &Option<(Arc<Scenario>, Share)>| match part {
            Some((scenario, share)) if before != after => Emulation::row(scenario, &after, *share).map(Some),
            _ => Ok(None),
        };
        let rows = rates.parts.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        rows.into_iter().enumerate().for_each(|(worker, row)| assign(worker, next.factor, row));
        *now = next;
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sides.is_empty()
    }

    /// Whether a flow is open, those in TIME-WAIT not among them.
    pub(super) fn any_open(&self) -> bool {
        self.sides.iter().flat_map(|side| &side.counters).any(|counters| counters.open() > 0)
    }

    /// How long after the last open flow ended nothing more can come for one; none: that is not known.
    pub(super) fn linger_ns(&self) -> Option<u64> {
        self.linger_ns
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

/// Each worker's part of a run's templates, none where it has none; what control reads of them; and what is recorded.
pub(super) fn prepare(
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
    let takers = Takers::of(context, &asked.scenario)?;
    let parts: Vec<_> = (0..workers).map(|worker| takers.scenario(worker, context, &asked.scenario)).collect();
    refuse_too_much(asked, parts.iter().flatten().count())?;
    let names = || asked.scenario.templates.iter().map(|template| template.name.clone()).collect();
    let recorded = asked.records.as_ref().map(|records| records::Prepared::new(records, names()));
    let mut recorded = recorded.transpose()?;
    let spread = takers.by_port.iter().any(|workers| workers.len() > 1);
    tell_of_steering(context, spec, &asked.scenario);
    let taking_part: Vec<bool> = parts.iter().map(|part| part.is_some() && spread).collect();
    let receivers: Vec<_> = context.ports.iter().map(|port| port.rx_workers.clone()).collect();
    let mut handoffs = worker::between(&taking_part, &receivers, longest);
    let mut emulating = Vec::new();
    let shared = parts.iter().enumerate().map(|(worker, part)| {
        let scenario = part.as_ref()?;
        Some((Arc::clone(scenario), takers.share(worker, scenario)))
    });
    let rates = FlowRates { parts: shared.collect(), now: Mutex::new(Now::of(&asked.scenario)) };
    let outer_ethertype_lost: Vec<_> =
        context.ports.iter().map(|port| port.config.device.loses_outer_ethertype()).collect();
    let mut emulated = Vec::with_capacity(workers);
    let mut counters: BTreeMap<(usize, bool), Vec<Arc<Counters>>> = BTreeMap::new();
    for (worker, part) in parts.into_iter().enumerate() {
        let Some(scenario) = part else {
            emulated.push(None);
            continue;
        };
        let mut emulation = takers.emulation(worker, context, spec, asked, &scenario)?;
        if let Some(recorded) = &mut recorded {
            emulation.record(recorded.recorder());
        }
        for index in 0..scenario.templates.len() {
            for client in [true, false] {
                counters.entry((index, !client)).or_default().push(Arc::clone(emulation.counters(index, client)));
            }
        }
        let long = if longest + VLAN_TAG > SHORT_ROOM { Some(long_pool(context, worker)?) } else { None };
        let to_cut = pool_to_cut(context, &scenario, worker)?;
        let handoff = handoffs[worker].take();
        emulating.push((worker, handoff.as_ref().map(|handoff| Arc::clone(handoff.share()))));
        let ports = ports(&scenario);
        let counters = |template, client| Arc::clone(emulation.counters(template, client));
        let known = envelope::Ports {
            links: &asked.links,
            neighbours: &asked.on_link.neighbours,
            gateways: &asked.on_link.gateways,
            tags: &context.tags,
            outer_ethertype_lost: &outer_ethertype_lost,
            mirrored: false,
        };
        let envelopes = Envelopes::new(&scenario, &known, counters);
        let (tags, pools) = (&context.tags, Pools { long, to_cut });
        emulated.push(Some(Box::new(Emulated::new(emulation, envelopes, ports, tags, pools, handoff, &spec.timing))));
    }
    let side = |((index, server), counters): ((usize, bool), Vec<Arc<Counters>>)| {
        let template = &asked.scenario.templates[index];
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
    let here = |t: &Template| match (&t.client, &t.server) {
        (Some(client), Some(server)) => spec.share.1 == 1 || client.port == server.port,
        _ => false,
    };
    let among_themselves = asked.scenario.templates.iter().all(|t| here(t) && t.protocol == Protocol::Tcp);
    let linger_ns = linger_ns(&asked.scenario, spec.share.1);
    Ok((
        emulated,
        Templates { sides, workers: emulating, among_themselves, claims, rates: Some(rates), linger_ns },
        recorded,
    ))
}

/// Packets that a worker has for devices that cut them into segments, if a port that it sends TCP on has one: as many as their
/// rings hold, and some to work with.
fn pool_to_cut(context: &mut Context<'_>, scenario: &Scenario, worker: usize) -> Result<Option<Mempool>, PrepareError> {
    if let Some(pool) = &context.packets_to_cut[worker] {
        return Ok(Some(pool.clone()));
    }
    let cuts = |port: &&OpenPort| port.port.offloads().cut.is_some() && port.tx_workers.contains(&worker);
    let all = ports(scenario);
    let tcp = scenario.templates.iter().any(|template| template.protocol == Protocol::Tcp);
    let Some(port) = all.iter().map(|port| &context.ports[*port]).find(cuts).filter(|_| tcp) else { return Ok(None) };
    let rings = context.ports.iter().filter(cuts).filter(|port| matches!(port.config.device, PortDevice::Pci(_)));
    let (count, room) = (TO_CUT + u32::from(DESCRIPTORS) * rings.count() as u32, longest_to_cut(context));
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
        worker,
        port = port.config.name,
        packets = count,
        kib = Mempool::bytes(count, room) >> 10,
        "its device cuts TCP into segments"
    );
    context.packets_to_cut[worker] = Some(pool.clone());
    Ok(Some(pool))
}

/// Bytes without FCS of the longest frame that any port's device takes to cut.
fn longest_to_cut(context: &Context<'_>) -> usize {
    let cuts = context.ports.iter().filter_map(|port| port.port.offloads().cut);
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

/// The workers that begin flows: those to which replies can come. Those of a group share out the flows of its ports' clients evenly.
struct Takers {
    /// By port, in ascending order.
    by_port: Vec<Vec<usize>>,
    /// By port: the workers of its group.
    groups: Vec<ops::Range<usize>>,
    /// The first port with clients.
    first: Option<usize>,
}

impl Takers {
    fn of(context: &Context<'_>, scenario: &Scenario) -> Result<Self, PrepareError> {
        let by_port: Vec<_> = context.ports.iter().map(|port| sorted(port.rx_workers.clone())).collect();
        let groups: Vec<_> = context.ports.iter().map(|port| port.group.clone()).collect();
        let mut first = BTreeMap::new();
        for (index, template) in scenario.templates.iter().enumerate() {
            let Some(port) = template.client.as_ref().map(|client| client.port) else { continue };
            let field = format!("stateful.templates[{index}].client_port");
            let other = *first.entry(groups[port].start).or_insert(port);
            let (these, those) = (&by_port[port], &by_port[other]);
            if these.is_empty() {
                let problem = format!("{} receives nothing, so that no reply comes", name(context, port));
                return Err(refused(field, problem));
            }
            // Each flow's worker is found without asking others only if all clients are shared out in one way.
            if these != those && (these.len() > 1 || those.len() > 1) {
                let problem = format!(
                    "workers {these:?} receive from {}, and {those:?} from {}, where other clients are: put both on ports whose \
                     devices share packets out to as many workers, or run one worker",
                    name(context, port),
                    name(context, other)
                );
                return Err(refused(field, problem));
            }
        }
        refuse_twins(context, scenario, &groups)?;
        let first = scenario.templates.iter().find_map(|template| Some(template.client.as_ref()?.port));
        Ok(Self { by_port, groups, first })
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

    /// Which of all flows a worker begins; or where there are servers only, serves.
    fn share(&self, worker: usize, scenario: &Scenario) -> Share {
        let (rank, takers) = self.place(worker, scenario);
        Share::of_engine(rank as u64, takers as u64, scenario.client_part())
    }

    /// A worker's index among those that share its clients' flows, and how many these are.
    fn place(&self, worker: usize, scenario: &Scenario) -> (usize, usize) {
        let client = scenario.templates.iter().find_map(|template| Some(template.client.as_ref()?.port));
        let server = || {
            let served = scenario.templates.iter().filter_map(|template| Some(template.server.as_ref()?.port));
            served.into_iter().find(|port| self.groups[*port].contains(&worker))
        };
        // Where it has servers only, and all clients are of other groups, it numbers these servers' flows.
        let port = match (client, self.first) {
            (Some(port), _) => Some(port),
            (None, Some(first)) if !self.groups[first].contains(&worker) => server(),
            (None, first) => first.or_else(server),
        };
        let Some(takers) = port.map(|port| &self.by_port[port]) else { return (0, 1) };
        (takers.iter().position(|taker| *taker == worker).unwrap_or(0), takers.len())
    }

    fn emulation(
        &self,
        worker: usize,
        context: &Context<'_>,
        spec: &RunSpec,
        asked: &StatefulSpec,
        scenario: &Arc<Scenario>,
    ) -> Result<Emulation, PrepareError> {
        let share = self.share(worker, scenario);
        // Servers alone have no tuples to distribute.
        let shared_out = self.first.is_some() && self.place(worker, scenario).1 > 1;
        let dealing = if shared_out { Dealing::ByHash } else { Dealing::ByNumber };
        let now_ns = context.clock.mono_ns();
        let seed = secret_seed()?;
        let owned = home(worker, context.ports);
        let clients = scenario.templates.iter().filter_map(|template| template.client.as_ref());
        let late_after_ns = clients.map(|client| late_after_ns(spec, &context.ports[client.port])).max();
        let made = Emulation::new(Arc::clone(scenario), share, dealing, owned, &asked.links, seed, now_ns);
        let mut emulation = made.map_err(|error| {
            let text = error.to_string();
            let (field, problem) = text.split_once(": ").unwrap_or(("templates", &text));
            refused(format!("stateful.{field}"), problem.to_owned())
        })?;
        for (port, _) in context.ports.iter().enumerate().filter(|(_, port)| port.config.any_mac) {
            emulation.accept_any_mac(port);
        }
        for (port, neighbours) in asked.on_link.neighbours.iter().enumerate() {
            emulation.set_neighbours(port, Arc::clone(neighbours));
        }
        Ok(match late_after_ns {
            Some(late_after_ns) => emulation.late_after(late_after_ns),
            None => emulation,
        })
    }
}

/// Refuses clients in several groups that could open the same connection twice: workers of one group do not know which of their
/// ports those of another take.
fn refuse_twins(context: &Context<'_>, scenario: &Scenario, groups: &[ops::Range<usize>]) -> Result<(), PrepareError> {
    let overlap = |these: &[WeightedPool], those: &[WeightedPool]| {
        let pools =
            |all: &[WeightedPool]| all.iter().map(|weighted| &scenario.pools[weighted.pool]).collect::<Vec<_>>();
        let those = pools(those);
        pools(these).into_iter().any(|pool| those.iter().any(|other| pool.overlaps(other)))
    };
    let started = scenario.templates.iter().enumerate().filter_map(|(i, t)| Some((i, t, t.client.as_ref()?.port)));
    for (index, template, port) in started.clone() {
        let twin = started.clone().take_while(|(other, ..)| *other < index).find(|(_, other, other_port)| {
            groups[*other_port] != groups[port]
                && (other.protocol, other.destination_port) == (template.protocol, template.destination_port)
                && overlap(&other.clients, &template.clients)
                && overlap(&other.servers, &template.servers)
        });
        if let Some((other, _, other_port)) = twin {
            let problem = format!(
                "clients of templates[{other}] have the same addresses on port {}, which other workers serve than port {}, and could open \
                 the same connections: give the clients of each worker group addresses of their own",
                name(context, other_port),
                name(context, port)
            );
            return Err(refused(format!("stateful.templates[{index}].clients"), problem));
        }
    }
    Ok(())
}

/// The secret from which initial sequence numbers and the positions of flows in the table are computed (RFC 6528).
fn secret_seed() -> Result<u128, PrepareError> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).map_err(|error| PrepareError {
        field: "stateful".into(),
        problem: format!("no random numbers for initial sequence numbers: {error}"),
        exhausted: true,
    })?;
    Ok(u128::from_le_bytes(seed))
}

/// Decides whether replies come to a worker: ports spread by addresses and ports.
fn home(worker: usize, ports: &[OpenPort]) -> Box<Home> {
    let queues: Vec<Vec<usize>> = ports.iter().map(|port| port.rx_workers.clone()).collect();
    Box::new(move |port, destination_port, tuple| {
        let workers = &queues[port];
        let (client, server) = ((tuple.client.into(), tuple.source_port), (tuple.server.into(), destination_port));
        workers[spread::queue_between(server, client, workers.len())] == worker
    })
}

/// Says which ports of clients bring replies to other workers than computed, so that these hand them over.
fn tell_of_steering(context: &Context<'_>, spec: &RunSpec, scenario: &Scenario) {
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
fn ports(scenario: &Scenario) -> Box<[usize]> {
    let clients = scenario.templates.iter().filter_map(|template| Some(template.client.as_ref()?.port));
    let servers = scenario.templates.iter().filter_map(|template| Some(template.server.as_ref()?.port));
    let mut ports = sorted(clients.chain(servers).collect());
    ports.dedup();
    ports.into()
}

/// Most bytes that tags and tunnels add to packets of a template's clients, or of its servers.
fn overhead(scenario: &Scenario, template: &Template, client: bool) -> usize {
    let pools = template.clients.iter().map(|weighted| &scenario.pools[weighted.pool]);
    pools.map(|pool| envelope::overhead(pool, client, template.looped)).max().unwrap_or(0)
}

/// Bytes that one side of a template sends in a packet at most, behind the headers; options of TCP count as data.
fn most_data(scenario: &Scenario, protocol: Protocol, program: &Program, tunables: &Tunables) -> usize {
    let message = |instruction: &Instruction| match instruction {
        Instruction::SendMessage { payload } => scenario.payloads.get(*payload as usize).map(Payload::len),
        _ => None,
    };
    match protocol {
        Protocol::Tcp => usize::from(tunables.mss),
        Protocol::Udp => program.instructions.iter().filter_map(message).max().unwrap_or(0) as usize,
    }
}

/// Bytes of the headers of a template's packets: Ethernet, IP, and TCP without options or UDP.
fn headers(scenario: &Scenario, template: &Template) -> usize {
    let v6 = template.clients.iter().chain(&template.servers).any(|weighted| scenario.pools[weighted.pool].is_v6());
    let transport = if template.protocol == Protocol::Tcp { 20 } else { 8 };
    14 + if v6 { 40 } else { 20 } + transport
}

/// So long is no frame of any, without FCS; refused if a port does not take its own.
fn longest_of_all(context: &Context<'_>, scenario: &Scenario) -> Result<usize, PrepareError> {
    let mut most = 0;
    // Packets of any template may have to leave as much room as those of another.
    let gap = scenario.templates.iter().map(|template| overhead(scenario, template, true)).max().unwrap_or(0);
    for (index, template) in scenario.templates.iter().enumerate() {
        let client = template.client.as_ref().map(|c| (c.port, &c.program, &c.tunables, "client"));
        let server = template.server.as_ref().map(|s| (s.port, &s.program, &s.tunables, "server"));
        for (port, program, tunables, side) in [client, server].into_iter().flatten() {
            let data = most_data(scenario, template.protocol, program, tunables);
            let len = headers(scenario, template) + data + overhead(scenario, template, side == "client");
            let room = context.ports[port].port.max_frame_len();
            if len > room {
                let problem = format!(
                    "it sends frames of up to {len} bytes without FCS, and {} takes {room}: send less at a time (mss, messages), \
                     or raise the MTU of the port",
                    name(context, port)
                );
                return Err(refused(format!("stateful.templates[{index}].{side}"), problem));
            }
            most = most.max(HEADERS + data + gap);
        }
    }
    Ok(most)
}

/// Addresses that a side of a template answers for.
struct Claim {
    /// The field that says so.
    field: String,
    port: usize,
    pool: Pool,
    /// Stations have the MACs that the pool says.
    own_macs: bool,
    /// In other tags than the port's.
    tags: Option<Tags>,
}

/// What a scenario answers for: of each pool the engine's own part, for those that share a run have parts that do not overlap.
/// Clients in tunnels are behind near ends, and the servers of mirrored ones behind the remote end. Mirrored tags lead to the gateway.
fn claims(scenario: &Scenario) -> Vec<Claim> {
    let mut claims: Vec<Claim> = Vec::new();
    let mut add = |field: String, port: usize, pool: Pool, own_macs: bool, tags: Option<Tags>| {
        let is_there =
            |claim: &Claim| (claim.port, claim.own_macs, claim.tags) == (port, own_macs, tags) && claim.pool == pool;
        if !claims.iter().any(is_there) {
            claims.push(Claim { field, port, pool, own_macs, tags });
        }
    };
    for (index, template) in scenario.templates.iter().enumerate() {
        let field = |side: &str| format!("stateful.templates[{index}].{side}");
        let clients = || template.clients.iter().map(|weighted| &scenario.pools[weighted.pool]);
        if let Some(client) = &template.client {
            clients().for_each(|pool| {
                add(field("client_port"), client.port, pool.on_clients_link(), true, pool.access.tags);
            });
        }
        if let Some(server) = &template.server {
            for weighted in &template.servers {
                add(field("server_port"), server.port, scenario.pools[weighted.pool].clone(), false, None);
            }
            for pool in clients() {
                let remote = pool.tunnels.filter(|tunnels| tunnels.mirror).map(|tunnels| tunnels.remote);
                let tags = pool.access.tags.filter(|_| pool.access.mirror);
                let gateway = pool.access.gateway.filter(|_| tags.is_some());
                for station in remote.into_iter().chain(gateway) {
                    if let Ok(station) = Pool::new(station, station, Order::Sequential) {
                        add(field("server_port"), server.port, station, false, tags);
                    }
                }
            }
        }
    }
    claims
}

/// Addresses that a scenario's clients and servers have on this engine, by port.
pub(super) fn ranges(scenario: &Scenario) -> BTreeMap<usize, Vec<Range>> {
    let mut ranges: BTreeMap<usize, Vec<Range>> = BTreeMap::new();
    // Nobody asks for the MAC of a group.
    let asked_for = claims(scenario).into_iter().filter(|claim| !claim.pool.is_of_groups());
    for Claim { port, pool, own_macs, tags, .. } in asked_for {
        let Some(first_own) = pool.first_own() else { continue };
        let end = |offset: u128| IpAddr::from(pool.address(offset));
        let first_mac = pool.mac(first_own).filter(|_| own_macs);
        let (first, last, step) = (end(first_own), end(pool.last_offset()), pool.part().of);
        let range = Range { first, last, step, first_mac, tags };
        let of_port = ranges.entry(port).or_default();
        if !of_port.contains(&range) {
            of_port.push(range);
        }
    }
    ranges
}

/// Multicast groups that a scenario's servers are reached by on this engine, by port; and how many more there are than a port can be a
/// member of.
pub(super) fn groups(scenario: &Scenario) -> (BTreeMap<usize, Vec<Group>>, u128) {
    let (mut groups, mut left_out): (BTreeMap<usize, Vec<Group>>, u128) = (BTreeMap::new(), 0);
    for Claim { port, pool, own_macs: of_clients, .. } in claims(scenario) {
        let Some(first) = pool.first_own().filter(|_| pool.is_of_groups() && !of_clients) else { continue };
        let of_port = groups.entry(port).or_default();
        let step = u128::from(pool.part().of);
        let all = (pool.last_offset() - first) / step + 1;
        let taken = all.min((MOST_GROUPS - of_port.len()) as u128);
        left_out += all - taken;
        let member = |n: u128| Group { address: pool.address(first + n * step).into(), sources: Vec::new() };
        of_port.extend((0..taken).map(member));
    }
    (groups, left_out)
}

/// Refuses what another run, or this one, does already.
fn refuse_conflicts(context: &Context<'_>, spec: &RunSpec, claims: &[Claim]) -> Result<(), PrepareError> {
    for Claim { field, port, pool, .. } in claims {
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
        let reflects = spec.measure.reflectors.iter().any(|reflector| reflector.port == *port);
        if reflects || context.present.iter().any(|run| run.reflects(*port)) {
            let problem =
                format!("{} sends back what it receives: use another port, or no reflector", name(context, *port));
            return Err(refused(field.clone(), problem));
        }
    }
    Ok(())
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
