// SPDX-License-Identifier: Apache-2.0
//! A worker's flows: what arrives finds its flow, time finds those that wait for it, and those that have something to send
//! take turns to send.
mod addresses;
mod hash_keys;
mod key;
mod leased;
mod opens;
mod port;
mod programs;
mod reading;
mod receive;
mod recording;
mod replies;
mod secrets;
mod side_index;
mod sides;
mod timers;
mod transmit;
mod tuple;

use std::{collections::VecDeque, sync::Arc};

use addresses::Upper;
use key::{KIND, Key, both, both_ports, kind};
use leased::LeasedClient;
use opens::Opens;
pub use opens::Request;
pub use port::{MovedRouter, Neighbours, NextHops, PortLink};
use port::{Port, Queue, Station};
pub use receive::{Hints, Prefetched, Received};
use replies::Unanswered;
use secrets::Secrets;
use side_index::{SideIndex, TemplateIndex};
use sides::Sides;
use spate_stats::Times;
pub use tuple::Tuple;

use crate::{
    Address, Pool, Program, Protocol, Scenario,
    application::reader::Readers,
    counters::{Count, Counters},
    flow::{Flow, FlowIndex, State, flags},
    records::Records,
    scenario::Tunables,
    sending::Backlog,
    slab::{MAX_SLOTS, Slab},
    table::Table,
    tcp::{Challenges, Context, Instant, Recovery},
    time_wait::TimeWaits,
    tuples::Share,
    wheel::{self, Wheel},
};

/// Flows for each slot for the state of a loss, and for each slot of a long queue.
const FLOWS_PER_SLOT: usize = 64;
/// Minimum number of slots.
const MIN_SLOTS: usize = 1024;
/// Open flows of which the next hop is looked up again at a time: what has arrived must be read in between.
const REDIRECTED: usize = 256;
/// Answers to segments of no open flow that wait to be sent, for each port.
const ANSWERS: usize = 256;

/// A flow that is about to begin.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    template: TemplateIndex,
    number: u64,
    tuple: Tuple,
    hash: u32,
}

impl Opening {
    /// The template of the flow.
    #[inline]
    pub fn template(&self) -> usize {
        self.template.position()
    }

    /// Which of the template's flows.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// Why a flow was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// All slots are taken: counted.
    Exhausted,
    /// The flow exists already.
    InUse,
}

/// One side of a template in this worker. Its size is a power of two, so that one is found by a shift.
#[derive(Debug)]
#[repr(align(128))]
struct Side {
    counters: Arc<Counters>,
    /// Index of its port in the engine.
    port: usize,
    tunables: Tunables,
    program: Program,
    /// Seed of random delays.
    seed: u64,
    /// Clients have MACs of their own.
    own_macs: bool,
    /// The other side is here, too.
    paired: bool,
}

const _: () = assert!(size_of::<Side>().is_power_of_two());

/// A worker's flows.
#[derive(Debug)]
pub struct Stack {
    scenario: Arc<Scenario>,
    /// The scenario's pools, with the leased addresses that there are now.
    pools: Box<[Pool]>,
    flows: Slab<Flow>,
    table: Table<FlowIndex>,
    wheel: Wheel,
    time_waits: TimeWaits,
    recoveries: Slab<Recovery>,
    challenges: Challenges,
    backlogs: Slab<Backlog>,
    /// By flow, of its local and its remote address, if any is of IPv6.
    uppers: Box<[[Upper; 2]]>,
    /// By flow, this many each.
    variables: Box<[i64]>,
    variables_each: usize,
    /// Messages without a reply, by flow, if any template measures round trips.
    replies: Option<Box<[Unanswered]>>,
    /// Cursors beside flows, if any program waits for the end of a message.
    readers: Option<Readers>,
    /// Which flow opened which, if any program opens connections.
    opens: Option<Box<Opens>>,
    /// Clients of flows, by flow, if any client has a leased address.
    leased: Box<[LeasedClient]>,
    /// Programs have variables, replies, readers or opened connections beside flows, or clients have leased addresses.
    has_beside: bool,
    /// A server of TCP is known by the first bytes it gets.
    first_bytes_choose: bool,
    /// More is done with a segment than TCP does: first bytes choose, readers look through it, or its flow is recorded.
    looks_into: bool,
    ports: Vec<Port>,
    /// The next hops and leased addresses of flows from this slot on are to be looked up again; beyond the last: of none.
    redirected: usize,
    /// Other workers have flows of the same clients.
    shared: bool,
    /// By template: its index among all workers that serve it, over all engines.
    servers: Box<[Share]>,
    /// Flows of clients whose servers are here that are new (see `Flow::is_new`), and of servers whose clients are.
    new: [usize; 2],
    /// By template and side.
    sides: Vec<Side>,
    secrets: Secrets,
    /// Which side of which template a packet is for.
    found: Sides,
    now: Instant,
    /// If flows are recorded.
    records: Option<Box<Records>>,
    /// The flow that the stack works for now, if that one is recorded.
    works_for: FlowIndex,
}

/// Bytes of the histograms of a template's times.
fn times(template: &crate::Template) -> usize {
    let (clients, servers) = (usize::from(template.client.is_some()), usize::from(template.server.is_some()));
    Times::BYTES
        * match template.protocol {
            Protocol::Tcp => 2 * (clients + servers),
            Protocol::Udp => clients * usize::from(template.latency),
        }
}

/// Slots beside this many flows, one for some of them.
fn slots(flows: usize) -> usize {
    (flows / FLOWS_PER_SLOT).max(MIN_SLOTS.min(flows))
}

/// Spare cells of the table of this many flows. Over IPv6 these have more beside.
fn spare(flows: usize, v6: bool) -> usize {
    if v6 { flows / 3 } else { flows }
}

/// By template: the index of a worker of this engine among all workers that serve it.
fn server_shares(scenario: &Scenario, worker: u64, workers: u64) -> Box<[Share]> {
    let of = |template| Share::of_engine(worker, workers, scenario.server_part(template));
    (0..scenario.templates.len()).map(of).collect()
}

impl Stack {
    /// Flows of a worker, at most.
    pub const MAX_FLOWS: usize = MAX_SLOTS;

    /// A worker's slots for flows, on ports of an engine by their index. From `seed` come initial sequence numbers, and where flows
    /// lie in memory: peers must not know it.
    pub fn new(scenario: Arc<Scenario>, ports: &[PortLink], seed: u128, now_ns: u64) -> Self {
        let secrets = Secrets::new(seed);
        let count = scenario.most_flows.max(1);
        let v6 = scenario.pools.iter().any(crate::Pool::is_v6);
        let variables_each = scenario.variables();
        let sides = scenario.templates.iter().flat_map(|template| {
            let own_macs = template.clients.iter().any(|weighted| scenario.pools[weighted.pool].first_mac.is_some());
            let tcp = template.protocol == Protocol::Tcp;
            let client = template.client.as_ref().map(|client| (client.port, &client.tunables, &client.program));
            let server = template.server.as_ref().map(|server| (server.port, &server.tunables, &server.program));
            let paired = client.is_some() && server.is_some();
            [(client, own_macs, tcp || template.latency), (server, false, tcp)].map(|(side, own_macs, timed)| {
                let counters = Arc::new(match &side {
                    Some((.., program)) => Counters::new(tcp, timed, program.counters.len()),
                    None => Counters::default(),
                });
                let (port, tunables, program) = side.map_or_else(Default::default, |(port, tunables, program)| {
                    (port, tunables.clone(), program.clone())
                });
                Side { counters, port, tunables, program, seed: template.seed, own_macs, paired }
            })
        });
        let found = Sides::new(&scenario);
        let first_bytes_choose = scenario.templates.iter().any(|template| {
            let server = template.server.as_ref();
            template.protocol == Protocol::Tcp && server.is_some_and(|server| !server.matches.is_empty())
        });
        let (replies, opens) = (replies::slots(&scenario, count), Opens::new(&scenario, count));
        let readers = Readers::new(&scenario, count);
        let leased = leased::slots(&scenario, count);
        let port = |(port, link): (usize, &PortLink)| Port {
            link: *link,
            station: if found.has_own_macs(&scenario.pools, port) { Station::NONE } else { Station::of(link.mac) },
            hops: NextHops { others: [link.next_hop; 2], ..NextHops::default() },
            groups: scenario.allows_multicast(port),
            ready: Queue { head: FlowIndex::NONE, tail: FlowIndex::NONE },
            answers: VecDeque::with_capacity(ANSWERS),
        };
        Self {
            flows: Slab::new(count, Flow::NOTHING),
            table: Table::new(count, spare(count, v6)),
            wheel: Wheel::new(wheel::tick_at(now_ns)),
            time_waits: TimeWaits::new(count),
            recoveries: Slab::new(slots(count), Recovery::NOTHING),
            challenges: Challenges::new(secrets.challenges),
            backlogs: Slab::new(slots(count), Backlog::NOTHING),
            uppers: vec![[Upper::NOTHING; 2]; if v6 { count } else { 0 }].into(),
            variables: vec![0; count * variables_each].into(),
            variables_each,
            has_beside: variables_each > 0
                || replies.is_some()
                || readers.is_some()
                || opens.is_some()
                || !leased.is_empty(),
            replies,
            opens,
            leased,
            pools: scenario.pools.clone().into(),
            first_bytes_choose,
            looks_into: first_bytes_choose || readers.is_some(),
            readers,
            ports: ports.iter().enumerate().map(port).collect(),
            redirected: count,
            shared: false,
            servers: server_shares(&scenario, 0, 1),
            new: [0; 2],
            sides: sides.collect(),
            secrets,
            found,
            now: Instant { ns: now_ns },
            records: None,
            works_for: FlowIndex::NONE,
            scenario,
        }
    }

    /// Other workers have flows of the same clients: see [`Received::Elsewhere`].
    pub fn set_shared(&mut self, shared: bool) {
        self.shared = shared;
    }

    /// Makes the stack one of several workers of the engine: its servers number their flows so that no other worker's have the same
    /// numbers, nor those of other engines with the template's servers.
    pub fn set_worker(&mut self, worker: u64, workers: u64) {
        self.servers = server_shares(&self.scenario, worker, workers);
    }

    /// Clients of a port send to these addresses at these MACs, and to all others by its next hop.
    pub fn set_neighbours(&mut self, port: usize, neighbours: Neighbours) {
        debug_assert!(neighbours.is_sorted_by_key(|(address, _)| *address), "they are searched for");
        self.ports[port].hops.neighbours = neighbours;
    }

    /// Frames of a port's new flows go there from now on, and those of open ones as soon as [`Stack::redirect`] has come to them. What was
    /// before is given back.
    pub fn swap_next_hops(&mut self, port: usize, hops: &mut NextHops) {
        core::mem::swap(&mut self.ports[port].hops, hops);
        self.redirected = 0;
    }

    /// Whether the next hops, or the leased addresses, of open flows are to be looked up again.
    #[inline]
    pub fn redirects(&self) -> bool {
        self.redirected < self.flows.capacity()
    }

    /// Looks the next hops, and the leased addresses, of some open flows up again.
    #[cold]
    pub fn redirect(&mut self) {
        let end = self.flows.capacity().min(self.redirected + REDIRECTED);
        for index in (self.redirected as u32..end as u32).map(FlowIndex::new) {
            let flow = &self.flows[index];
            if flow.any(flags::OPEN) || flow.state != State::Closed {
                if let Some(client) = self.leased_client(index) {
                    self.follow_leased_address(index, client);
                    continue;
                }
                let (port, remote) = (&self.ports[self.side(index).port], self.tuple_of(index).remote);
                self.flows[index].remote_mac = port.again_towards(remote, flow.remote_mac, flow.has(flags::CLIENT));
            }
        }
        self.redirected = end;
    }

    /// Frames on a port are for its flows whatever their destination MAC.
    pub fn accept_any_mac(&mut self, port: usize) {
        self.ports[port].station = Station::ANY;
    }

    /// Bytes that a stack of a scenario takes.
    pub fn bytes(scenario: &Scenario) -> usize {
        let count = scenario.most_flows.max(1);
        let v6 = scenario.pools.iter().any(crate::Pool::is_v6);
        let uppers = if v6 { size_of::<[Upper; 2]>() } else { 0 };
        Slab::<Flow>::bytes(count)
            + Table::<FlowIndex>::bytes(count, spare(count, v6))
            + Wheel::BYTES
            + TimeWaits::bytes(count)
            + Slab::<Recovery>::bytes(slots(count))
            + Slab::<Backlog>::bytes(slots(count))
            + count * (uppers + scenario.variables() * size_of::<i64>())
            + scenario.templates.iter().map(times).sum::<usize>()
            + Readers::bytes(scenario, count)
            + Opens::bytes(scenario, count)
            + leased::bytes(scenario, count)
            + replies::bytes(scenario, count)
    }

    /// The counters of one side of a template.
    pub fn counters(&self, template: usize, client: bool) -> &Arc<Counters> {
        &self.sides[SideIndex::of(TemplateIndex::new(template), client).position()].counters
    }

    /// Flows of one side of a template, those in TIME-WAIT not among them.
    #[inline]
    pub fn open_flows(&self, template: usize, client: bool) -> u64 {
        self.sides[SideIndex::of(TemplateIndex::new(template), client).position()].counters.open()
    }

    /// All flows, those in TIME-WAIT among them.
    pub fn flows(&self) -> usize {
        self.flows.taken()
    }

    /// Slots for the state of a loss, and for long queues, that flows hold.
    pub fn held(&self) -> (usize, usize) {
        (self.recoveries.taken(), self.backlogs.taken())
    }

    /// The next flow of a template begins, between these.
    ///
    /// # Errors
    /// If there is no free slot, or a flow with this tuple exists.
    ///
    /// # Panics
    /// If the template has no client.
    pub fn open(&mut self, template: usize, number: u64, tuple: &Tuple, now_ns: u64) -> Result<(), NotOpened> {
        self.open_found(&self.opening(template, number, *tuple), now_ns)
    }

    /// The next flow of a template is about to begin, between these: its slot is prefetched.
    #[inline]
    pub fn opening(&self, template: usize, number: u64, tuple: Tuple) -> Opening {
        let keys = &self.secrets.hash;
        let hash = Key::of(&tuple, self.scenario.templates[template].protocol == Protocol::Udp, keys).hash(keys);
        self.table.fetch(hash);
        Opening { template: TemplateIndex::new(template), number, tuple, hash }
    }

    /// See `open`.
    pub fn open_found(&mut self, opening: &Opening, now_ns: u64) -> Result<(), NotOpened> {
        self.now = Instant { ns: now_ns };
        let &Opening { template, number, ref tuple, hash } = opening;
        let of = &self.scenario.templates[template.position()];
        let port = of.client.as_ref().map(|client| client.port).expect("a template with clients");
        let udp = of.protocol == Protocol::Udp;
        if self.find(tuple, udp, hash).is_some() {
            return Err(NotOpened::InUse);
        }
        let leased = if self.leased.is_empty() { None } else { self.find_leased(template, tuple) };
        let mac = leased.map_or_else(|| self.ports[port].towards(tuple.remote), |(_, mac)| mac);
        let added =
            if self.has_room(template) { self.add(template, true, number, (tuple, udp, hash), mac) } else { None };
        let Some(index) = added else {
            self.sides[SideIndex::of(template, true).position()].counters.one(Count::FlowsExhausted);
            return Err(NotOpened::Exhausted);
        };
        if let Some((client, _)) = leased {
            self.leased[index.position()] = client;
        }
        let isn = if udp { 0 } else { self.initial_sequence(tuple) };
        self.note_before(index);
        let (flow, mut cx, _) = self.parts(index);
        if udp {
            cx.counters.one(Count::FlowsAttempted);
            cx.counters.one(Count::FlowsEstablished);
            flow.exchange(&mut cx);
            self.go_on_by_all(index);
        } else {
            // Its program begins with that, and waits for it.
            flow.connect(isn, &mut cx);
        }
        self.settle(index);
        Ok(())
    }

    /// Whether a client's flow can have a slot, and its server's too, if that is here: besides those that other clients wait for.
    /// Else clients would take all, and wait for servers that have none.
    #[inline]
    fn has_room(&self, template: TemplateIndex) -> bool {
        let [clients, servers] = self.new;
        !self.sides[SideIndex::of(template, true).position()].paired
            || self.flows.left() >= 2 + clients.saturating_sub(servers)
    }

    /// A flow is new no more.
    #[inline]
    fn is_found(&mut self, index: FlowIndex) {
        let side = usize::from(self.flows[index].side);
        if self.sides[side].paired {
            self.new[side % 2] = self.new[side % 2].saturating_sub(1);
        }
    }

    /// The number of a server's next flow, of all workers'.
    fn server_number(&self, template: TemplateIndex) -> u64 {
        let Share { worker, workers } = self.servers[template.position()];
        self.sides[SideIndex::of(template, false).position()].counters.get(Count::FlowsAccepted) * workers + worker
    }

    /// RFC 6528: a clock plus a secret function of the endpoints.
    fn initial_sequence(&self, tuple: &Tuple) -> u32 {
        self.secrets.sequence(tuple).wrapping_add((self.now.ns >> 12) as u32)
    }

    /// The flow between these.
    #[inline(always)]
    fn find(&self, tuple: &Tuple, udp: bool, hash: u32) -> Option<FlowIndex> {
        let kind = kind(udp, tuple.local.is_v6());
        self.table.find(hash, |index| self.is_between(index, tuple, kind))
    }

    #[inline(always)]
    fn is_between(&self, index: FlowIndex, tuple: &Tuple, kind: u32) -> bool {
        let (flow, &Tuple { local, remote, local_port, remote_port }) = (&self.flows[index], tuple);
        let ports = both_ports(flow.local_port, flow.remote_port) == both_ports(local_port, remote_port);
        // IPv4 has no more than these.
        let lower = both(flow.local, flow.remote) == both(local.0 as u32, remote.0 as u32);
        ports
            && lower
            && flow.flags & KIND == kind
            && (kind & flags::V6 == 0 || self.uppers[index.position()] == [Upper::of(local), Upper::of(remote)])
    }

    /// Local and remote address of a flow over IPv6.
    #[inline(always)]
    fn v6(&self, index: FlowIndex) -> [Address; 2] {
        let (flow, [local, remote]) = (&self.flows[index], self.uppers[index.position()]);
        [local.with(flow.local), remote.with(flow.remote)]
    }

    fn tuple_of(&self, index: FlowIndex) -> Tuple {
        let flow = &self.flows[index];
        let [local, remote] =
            if flow.has(flags::V6) { self.v6(index) } else { [Address::v4(flow.local), Address::v4(flow.remote)] };
        Tuple { local, remote, local_port: flow.local_port, remote_port: flow.remote_port }
    }

    /// A flow of a template begins: its number, its endpoints, and the MAC of the next hop.
    #[inline(always)]
    fn add(
        &mut self,
        template: TemplateIndex,
        client: bool,
        number: u64,
        (tuple, udp, hash): (&Tuple, bool, u32),
        remote_mac: [u8; 6],
    ) -> Option<FlowIndex> {
        let index = self.flows.take()?;
        let kind = kind(udp, tuple.local.is_v6());
        let side = SideIndex::of(template, client);
        self.flows[index] = Flow {
            local: tuple.local.0 as u32,
            remote: tuple.remote.0 as u32,
            local_port: tuple.local_port,
            remote_port: tuple.remote_port,
            side: side.in_flow(),
            number,
            flags: kind | flags::OPEN | if client { flags::CLIENT } else { 0 } | if udp { flags::SILENT } else { 0 },
            remote_mac,
            ..Flow::NOTHING
        };
        if kind & flags::V6 != 0 {
            self.uppers[index.position()] = [Upper::of(tuple.local), Upper::of(tuple.remote)];
        }
        if self.has_beside {
            self.begin_beside(index);
        }
        self.table.insert(hash, index);
        self.sides[side.position()].counters.opened();
        self.new[usize::from(!client)] += usize::from(self.sides[side.position()].paired);
        self.note_begin(index, tuple, udp);
        Some(index)
    }

    /// A flow begins: what programs have beside it.
    #[inline(never)]
    fn begin_beside(&mut self, index: FlowIndex) {
        let first = index.position() * self.variables_each;
        self.variables[first..first + self.variables_each].fill(0);
        if let Some(readers) = &mut self.readers {
            readers.begin(index);
        }
        if let Some(opens) = &mut self.opens {
            opens.begin(index);
        }
        if let Some(client) = self.leased.get_mut(index.position()) {
            *client = LeasedClient::NONE;
        }
        if let Some(replies) = &mut self.replies {
            replies[index.position()] = Unanswered::NONE;
        }
    }

    /// A flow, what it needs, and the queues beside flows.
    #[inline]
    fn parts(&mut self, index: FlowIndex) -> (&mut Flow, Context<'_>, &mut Slab<Backlog>) {
        let flow = &mut self.flows[index];
        let side = &self.sides[usize::from(flow.side)];
        let cx = Context {
            now: self.now,
            recoveries: &mut self.recoveries,
            challenges: &mut self.challenges,
            counters: &side.counters,
            tunables: &side.tunables,
        };
        (flow, cx, &mut self.backlogs)
    }

    fn side(&self, index: FlowIndex) -> &Side {
        &self.sides[usize::from(self.flows[index].side)]
    }

    /// Ends all flows at once, without a word.
    pub fn clear(&mut self) {
        self.note_aborting(true);
        for port in 0..self.ports.len() {
            while self.ports[port].ready.head != FlowIndex::NONE {
                let index = self.ports[port].ready.head;
                self.flows[index].state = State::Closed;
                self.dequeue(port, index);
                self.settle(index);
            }
            self.ports[port].answers.clear();
        }
        for index in (0..self.flows.capacity() as u32).map(FlowIndex::new) {
            let flow = &mut self.flows[index];
            if flow.any(flags::OPEN) || flow.state != State::Closed {
                flow.state = State::Closed;
                self.settle(index);
            }
        }
        self.time_waits.clear();
        self.note_aborting(false);
    }
}
