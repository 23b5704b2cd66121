// SPDX-License-Identifier: Apache-2.0
//! A worker's flows: what arrives finds its flow, time finds those that wait for it, and those that have something to send
//! take turns to send.
mod addresses;
mod reading;
mod recording;
mod replies;
mod secrets;
mod sides;

use std::{collections::VecDeque, sync::Arc};

use addresses::{Upper, short};
use replies::Unanswered;
use secrets::{HashKeys, Secrets, folded};
use sides::Sides;
use spate_stats::Times;

use spate_arch::fetch;
use spate_net::fast::{self, Bits, V4, V6};

use crate::{
    Address, Program, Protocol, Scenario,
    application::Machine,
    counters::{Count, Counters},
    flow::{Flow, State, is, seq_before},
    offload::Finish,
    packet::{
        Below, Content, Datagram, Ends, Error, Head, Options, Packet, Plain, Reject, Segment, TCP_HEADER, destination,
        flag,
    },
    reader::Readers,
    records::Records,
    scenario::Tunables,
    sending::Backlog,
    slab::{MOST, NONE, Slab},
    table::Table,
    tcp::{Challenges, Context, Data, Instant, Output, Recovery, Sources, Turn},
    time_wait::{self, TimeWaits},
    tuples::Share,
    wheel::{self, Link, Links, Wheel},
};

/// Flows for each slot for the state of a loss, and for each slot of a long queue.
const FLOWS_A_PLACE: usize = 64;
/// One that is being opened is looked at after so long: as soon as a lost segment would be noticed (see `arm_retransmit`).
const HANDSHAKE_NS: u64 = 200_000_000;
/// There are at least this many slots.
const FEWEST: usize = 1024;
/// Answers to segments of no flow that wait to be sent, for each port.
const ANSWERS: usize = 256;

/// A port of the engine as flows need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortLink {
    /// Its own.
    pub mac: [u8; 6],
    /// MACs of the next hops of clients' frames.
    pub next_hop: [u8; 6],
}

/// Peers on a link and their MACs, in ascending order.
pub type Neighbours = Arc<[(Address, [u8; 6])]>;

/// The endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// Ours.
    pub local: Address,
    /// The peer's.
    pub remote: Address,
    /// Ours.
    pub local_port: u16,
    /// The peer's.
    pub remote_port: u16,
}

/// A flow that is about to begin.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    template: usize,
    number: u64,
    tuple: Tuple,
    hash: u32,
}

impl Opening {
    /// The template of the flow.
    #[inline]
    pub fn template(&self) -> usize {
        self.template
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
    /// There is such a flow.
    InUse,
}

/// One side of a template in this worker.
#[derive(Debug)]
struct Side {
    counters: Arc<Counters>,
    /// Of the engine.
    port: usize,
    tunables: Tunables,
    program: Program,
    /// Of random delays.
    seed: u64,
    /// Clients have MACs of their own.
    own_macs: bool,
    /// The other side is here, too.
    paired: bool,
}

/// Flows of a port that have something to send, in the order in which they send.
#[derive(Clone, Copy, Debug)]
struct Queue {
    head: u32,
    tail: u32,
}

#[derive(Debug)]
struct Port {
    link: PortLink,
    /// Which frames are for its station, and need no closer look.
    station: Station,
    /// Stations that clients reach without the next hop.
    neighbours: Neighbours,
    /// A pool of its templates may have multicast addresses.
    groups: bool,
    ready: Queue,
    /// In the order in which they leave.
    answers: VecDeque<Answer>,
}

/// The MAC that frames for a station have as their destination, as the first 8 bytes of a frame are read.
#[derive(Clone, Copy, Debug)]
struct Station {
    mask: u64,
    mac: u64,
}

impl Station {
    /// All frames are for it.
    const ANY: Self = Self { mask: 0, mac: 0 };
    /// No frame is: each has to be looked at closer.
    const NONE: Self = Self { mask: 0, mac: 1 };

    fn of([a, b, c, d, e, f]: [u8; 6]) -> Self {
        Self { mask: u64::MAX >> 16, mac: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) }
    }

    #[inline]
    fn is_for(self, frame: &[u8]) -> bool {
        frame.first_chunk().is_some_and(|head| u64::from_le_bytes(*head) & self.mask == self.mac)
    }
}

impl Port {
    /// The MAC of the next hop to an address.
    #[inline]
    fn towards(&self, remote: Address) -> [u8; 6] {
        if let Some(group) = self.group_mac(remote) {
            return group;
        }
        if self.neighbours.is_empty() {
            return self.link.next_hop;
        }
        let found = self.neighbours.binary_search_by_key(&remote, |(address, _)| *address);
        found.map_or(self.link.next_hop, |at| self.neighbours[at].1)
    }

    /// The MAC of a multicast group, if its templates may talk to groups.
    #[inline]
    fn group_mac(&self, address: Address) -> Option<[u8; 6]> {
        if self.groups { address.group_mac() } else { None }
    }

    /// The MAC of the next hop of frames that answer a packet.
    #[inline]
    fn back_to(&self, packet: &Packet<'_>) -> [u8; 6] {
        self.group_mac(packet.source).unwrap_or(packet.source_mac)
    }

    /// Whether a packet can come from an address (RFC 1122 section 4.2.3.10): a host's, or a multicast one if that is allowed.
    fn may_be_source(&self, source: Address) -> bool {
        source.is_hosts() || self.group_mac(source).is_some()
    }
}

/// A segment that belongs to no flow, to be sent.
#[derive(Clone, Copy, Debug)]
struct Answer {
    below: Below,
    head: Head,
    /// Its template's side, for the counters.
    side: usize,
}

/// What is known of a frame before it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The port's device has verified the checksum of the TCP segment that is in it.
    pub verified: bool,
    /// What [`Stack::look_ahead`] gave for it.
    pub hash: Option<u32>,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It was for a flow, or for an address of the scenario.
    Taken,
    /// It is none of the scenario's.
    Foreign,
    /// Its destination MAC is neither the port's nor that of the client whose address it has: nothing was done with it.
    OtherMac,
    /// It is of a client's flow, or about any flow of ours, that another worker may have: nothing was done with it.
    Elsewhere,
}

/// A worker's flows.
#[derive(Debug)]
pub struct Stack {
    scenario: Arc<Scenario>,
    flows: Slab<Flow>,
    table: Table,
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
    /// A server of TCP is known by the first bytes it gets.
    first_bytes_choose: bool,
    ports: Vec<Port>,
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
    works_for: u32,
}

impl Tuple {
    /// That of a packet with these ports as its receiver sees it: local is the packet's destination.
    #[inline]
    fn of(packet: &Packet<'_>, source_port: u16, destination_port: u16) -> Self {
        Self {
            local: packet.destination,
            remote: packet.source,
            local_port: destination_port,
            remote_port: source_port,
        }
    }
}

impl Links for Slab<Flow> {
    #[inline]
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self[index].link
    }
}

/// What finds a flow: as much of its tuple as is in its first cache line.
#[derive(Clone, Copy)]
struct Key {
    local: u32,
    remote: u32,
    local_port: u16,
    remote_port: u16,
    /// Of `is::UDP` and `is::V6`.
    kind: u32,
}

const KIND: u32 = is::UDP | is::V6;

impl Key {
    #[inline]
    fn of(tuple: &Tuple, udp: bool, keys: &HashKeys) -> Self {
        let kind = (if udp { is::UDP } else { 0 }) | if tuple.local.is_v6() { is::V6 } else { 0 };
        let (local, remote) = (short(tuple.local, keys), short(tuple.remote, keys));
        Self { local, remote, local_port: tuple.local_port, remote_port: tuple.remote_port, kind }
    }

    #[inline]
    fn of_flow(flow: &Flow) -> Self {
        Self {
            local: flow.local,
            remote: flow.remote,
            local_port: flow.local_port,
            remote_port: flow.remote_port,
            kind: flow.flags & KIND,
        }
    }

    #[inline]
    fn hash(&self, keys: &HashKeys) -> u32 {
        let addresses = u64::from(self.local) << 32 | u64::from(self.remote);
        let ports = u64::from(self.local_port) << 48 | u64::from(self.remote_port) << 32 | u64::from(self.kind);
        let folded = folded(addresses ^ keys.tuple[0], ports ^ keys.tuple[1]);
        (folded.wrapping_mul(0x9fb2_1c65_1e98_df25) >> 32) as u32
    }

    /// Whether a flow is between these, as far as a key shows.
    #[inline]
    fn is(&self, flow: &Flow) -> bool {
        flow.local == self.local
            && flow.remote == self.remote
            && flow.local_port == self.local_port
            && flow.remote_port == self.remote_port
            && flow.flags & KIND == self.kind
    }
}

/// A flow that was looked up: by what, and where it is if it is here.
struct Wanted {
    tuple: Tuple,
    key: Key,
    hash: u32,
    index: Option<u32>,
}

#[inline]
fn side_of(template: usize, client: bool) -> usize {
    2 * template + usize::from(!client)
}

/// Whether a side, as `side_of` numbers them, is one of clients.
#[inline]
fn is_client(side: usize) -> bool {
    side.is_multiple_of(2)
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
fn places(flows: usize) -> usize {
    (flows / FLOWS_A_PLACE).max(FEWEST.min(flows))
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

/// What is left of frames for the device behind an output.
#[inline]
fn finish(out: &impl Output) -> Finish {
    if out.leaves_checksums() { Finish::Checksums } else { Finish::Nothing }
}

impl Stack {
    /// Flows of a worker, at most.
    pub const MOST_FLOWS: usize = MOST;

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
        let port = |(port, link): (usize, &PortLink)| Port {
            link: *link,
            station: if found.has_own_macs(&scenario.pools, port) { Station::NONE } else { Station::of(link.mac) },
            neighbours: Arc::default(),
            groups: scenario.allows_multicast(port),
            ready: Queue { head: NONE, tail: NONE },
            answers: VecDeque::with_capacity(ANSWERS),
        };
        Self {
            flows: Slab::new(count, Flow::NOTHING),
            table: Table::new(count, spare(count, v6)),
            wheel: Wheel::new(wheel::tick_at(now_ns)),
            time_waits: TimeWaits::new(count),
            recoveries: Slab::new(places(count), Recovery::NOTHING),
            challenges: Challenges::new(secrets.challenges),
            backlogs: Slab::new(places(count), Backlog::NOTHING),
            uppers: vec![[Upper::NOTHING; 2]; if v6 { count } else { 0 }].into(),
            variables: vec![0; count * variables_each].into(),
            variables_each,
            replies: replies::places(&scenario, count),
            readers: Readers::new(&scenario, count),
            first_bytes_choose: scenario.templates.iter().any(|template| {
                let server = template.server.as_ref();
                template.protocol == Protocol::Tcp && server.is_some_and(|server| !server.matches.is_empty())
            }),
            ports: ports.iter().enumerate().map(port).collect(),
            shared: false,
            servers: server_shares(&scenario, 0, 1),
            new: [0; 2],
            sides: sides.collect(),
            secrets,
            found,
            now: Instant { ns: now_ns },
            records: None,
            works_for: NONE,
            scenario,
        }
    }

    /// Other workers have flows of the same clients: see [`Received::Elsewhere`].
    pub fn set_shared(&mut self, shared: bool) {
        self.shared = shared;
    }

    /// It is one of several workers of the engine: its servers number their flows so that no other's have the same numbers, nor
    /// those of other engines with the template's servers.
    pub fn set_worker(&mut self, worker: u64, workers: u64) {
        self.servers = server_shares(&self.scenario, worker, workers);
    }

    /// Clients of a port send to these addresses at these MACs, and to all others by its next hop.
    pub fn set_neighbours(&mut self, port: usize, neighbours: Neighbours) {
        debug_assert!(neighbours.is_sorted_by_key(|(address, _)| *address), "they are searched for");
        self.ports[port].neighbours = neighbours;
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
            + Table::bytes(count, spare(count, v6))
            + Wheel::BYTES
            + TimeWaits::bytes(count)
            + Slab::<Recovery>::bytes(places(count))
            + Slab::<Backlog>::bytes(places(count))
            + count * (uppers + scenario.variables() * size_of::<i64>())
            + scenario.templates.iter().map(times).sum::<usize>()
            + Readers::bytes(scenario, count)
            + replies::bytes(scenario, count)
    }

    /// The counters of one side of a template.
    pub fn counters(&self, template: usize, client: bool) -> &Arc<Counters> {
        &self.sides[side_of(template, client)].counters
    }

    /// Flows of one side of a template, those in TIME-WAIT not among them.
    #[inline]
    pub fn open_flows(&self, template: usize, client: bool) -> u64 {
        self.sides[side_of(template, client)].counters.open()
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
        Opening { template, number, tuple, hash }
    }

    /// See `open`.
    pub fn open_found(&mut self, opening: &Opening, now_ns: u64) -> Result<(), NotOpened> {
        self.now = Instant { ns: now_ns };
        let &Opening { template, number, ref tuple, hash } = opening;
        let of = &self.scenario.templates[template];
        let port = of.client.as_ref().map(|client| client.port).expect("a template with clients");
        let udp = of.protocol == Protocol::Udp;
        let key = Key::of(tuple, udp, &self.secrets.hash);
        if self.find(&key, hash, tuple).is_some() {
            return Err(NotOpened::InUse);
        }
        let mac = self.ports[port].towards(tuple.remote);
        let added =
            if self.has_room(template) { self.add(template, true, number, (tuple, &key, hash), mac) } else { None };
        let Some(index) = added else {
            self.sides[side_of(template, true)].counters.one(Count::FlowsExhausted);
            return Err(NotOpened::Exhausted);
        };
        let isn = if udp { 0 } else { self.initial_sequence(tuple) };
        self.note_before(index);
        let (flow, mut cx, _) = self.parts(index);
        if udp {
            cx.counters.one(Count::FlowsAttempted);
            cx.counters.one(Count::FlowsEstablished);
            flow.exchange(&mut cx);
            self.go_on(index);
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
    fn has_room(&self, template: usize) -> bool {
        let [clients, servers] = self.new;
        !self.sides[side_of(template, true)].paired || self.flows.left() >= 2 + clients.saturating_sub(servers)
    }

    /// A flow is new no more.
    #[inline]
    fn is_found(&mut self, index: u32) {
        let side = usize::from(self.flows[index].side);
        if self.sides[side].paired {
            self.new[side % 2] = self.new[side % 2].saturating_sub(1);
        }
    }

    /// The number of a server's next flow, of all workers'.
    fn server_number(&self, template: usize) -> u64 {
        let Share { worker, workers } = self.servers[template];
        self.sides[side_of(template, false)].counters.get(Count::FlowsAccepted) * workers + worker
    }

    /// RFC 6528: a clock plus a secret function of the endpoints.
    fn initial_sequence(&self, tuple: &Tuple) -> u32 {
        self.secrets.sequence(tuple).wrapping_add((self.now.ns >> 12) as u32)
    }

    #[inline]
    fn find(&self, key: &Key, hash: u32, tuple: &Tuple) -> Option<u32> {
        self.table.find(hash, |index| key.is(&self.flows[index]) && self.is_between(index, tuple))
    }

    /// Compares what the flow itself does not have of addresses.
    #[inline]
    fn is_between(&self, index: u32, tuple: &Tuple) -> bool {
        !tuple.local.is_v6() || self.uppers[index as usize] == [tuple.local, tuple.remote].map(Upper::of)
    }

    /// Local and remote address of a flow over IPv6.
    #[inline]
    fn v6(&self, index: u32) -> [Address; 2] {
        let (flow, [local, remote]) = (&self.flows[index], self.uppers[index as usize]);
        let keys = &self.secrets.hash;
        [local.with(flow.local, keys), remote.with(flow.remote, keys)]
    }

    fn tuple_of(&self, index: u32) -> Tuple {
        let flow = &self.flows[index];
        let [local, remote] =
            if flow.has(is::V6) { self.v6(index) } else { [Address::v4(flow.local), Address::v4(flow.remote)] };
        Tuple { local, remote, local_port: flow.local_port, remote_port: flow.remote_port }
    }

    /// A flow of a template begins: its number, its endpoints, and the MAC of the next hop.
    #[inline(always)]
    fn add(
        &mut self,
        template: usize,
        client: bool,
        number: u64,
        (tuple, key, hash): (&Tuple, &Key, u32),
        remote_mac: [u8; 6],
    ) -> Option<u32> {
        let index = self.flows.take()?;
        let v6 = key.kind & is::V6 != 0;
        let side = side_of(template, client);
        self.flows[index] = Flow {
            local: key.local,
            remote: key.remote,
            local_port: key.local_port,
            remote_port: key.remote_port,
            side: side as u16,
            number,
            flags: key.kind
                | is::OPEN
                | if client { is::CLIENT } else { 0 }
                | if key.kind & is::UDP != 0 { is::SILENT } else { 0 },
            remote_mac,
            ..Flow::NOTHING
        };
        if v6 {
            self.uppers[index as usize] = [tuple.local, tuple.remote].map(Upper::of);
        }
        if self.variables_each > 0 {
            let first = index as usize * self.variables_each;
            self.variables[first..first + self.variables_each].fill(0);
        }
        if let Some(readers) = &mut self.readers {
            readers.begin(index);
        }
        if let Some(replies) = &mut self.replies {
            replies[index as usize] = Unanswered::NONE;
        }
        self.table.insert(hash, index);
        self.sides[side].counters.opened();
        self.new[side % 2] += usize::from(self.sides[side].paired);
        self.note_begin(index, tuple, key.kind & is::UDP != 0);
        Some(index)
    }

    /// A flow, what it needs, and the queues beside flows.
    #[inline]
    fn parts(&mut self, index: u32) -> (&mut Flow, Context<'_>, &mut Slab<Backlog>) {
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

    /// A frame without FCS arrives on a port.
    #[inline]
    pub fn receive(&mut self, port: usize, frame: &[u8], now_ns: u64) -> Received {
        self.receive_hinted(port, frame, Hints::default(), now_ns)
    }

    /// Frames are about to be received: what finds their flows, and the flows, is fetched for all at once. Gives a hash for each.
    #[inline]
    pub fn look_ahead<'a>(&self, frames: impl Iterator<Item = &'a [u8]>, hashes: &mut [u32]) {
        let keys = &self.secrets.hash;
        let mut count = 0;
        for (frame, hash) in frames.zip(hashes.iter_mut()) {
            *hash = fast::ends::<V4>(frame).map_or(0, |(Bits(source), Bits(destination), ports, udp)| {
                let (remote_port, local_port) = ((ports >> 16) as u16, ports as u16);
                let kind = if udp { is::UDP } else { 0 };
                Key { local: destination, remote: source, local_port, remote_port, kind }.hash(keys)
            });
            if !self.uppers.is_empty() {
                *hash = Self::hash_v6(frame, keys).unwrap_or(*hash);
            }
            self.table.fetch(*hash);
            count += 1;
        }
        hashes[..count].iter().for_each(|hash| self.fetch_flow(*hash));
    }

    /// The hash of a frame of IPv6.
    #[inline(never)]
    fn hash_v6(frame: &[u8], keys: &HashKeys) -> Option<u32> {
        let (remote, local, ports, udp) = fast::ends::<V6>(frame)?;
        let tuple = Tuple { local, remote, local_port: ports as u16, remote_port: (ports >> 16) as u16 };
        Some(Key::of(&tuple, udp, keys).hash(keys))
    }

    /// Fetches the flow that a hash most likely is of.
    #[inline]
    fn fetch_flow(&self, hash: u32) {
        let index = self.table.first(hash);
        if index != NONE {
            fetch(&self.flows[index]);
            if let Some(uppers) = self.uppers.get(index as usize) {
                fetch(uppers);
            }
        }
    }

    /// As `receive`, of a frame of which something is known.
    #[inline]
    pub fn receive_hinted(&mut self, port: usize, frame: &[u8], hints: Hints, now_ns: u64) -> Received {
        if let Some(refused) = self.refused_by_mac(port, frame) {
            return refused;
        }
        self.now = Instant { ns: now_ns };
        if let Some(plain) = Plain::<V4, Segment<'_>>::read(frame, hints.verified) {
            let s = &plain.content;
            let key = Key {
                local: plain.destination.0,
                remote: plain.source.0,
                local_port: s.destination_port,
                remote_port: s.source_port,
                kind: 0,
            };
            let keys = &self.secrets.hash;
            let hash = hints.hash.unwrap_or_else(|| key.hash(keys));
            debug_assert_eq!(hash, key.hash(keys), "of another frame");
            let found = self.table.find(hash, |index| key.is(&self.flows[index]));
            if let Some(index) = found {
                return self.receive_known(port, index, frame, s, plain.ecn);
            }
            return self.receive_unknown(port, &plain.packet(frame, Content::Tcp(*s)), s, (&key, hash));
        }
        self.receive_other(port, frame, hints)
    }

    /// As `receive_hinted`, of what is no plain segment over IPv4: most of it is plain all the same.
    #[inline(never)]
    fn receive_other(&mut self, port: usize, frame: &[u8], hints: Hints) -> Received {
        if let Some(plain) = Plain::<V6, Segment<'_>>::read(frame, hints.verified) {
            let s = &plain.content;
            let (local, remote) = (plain.destination, plain.source);
            let tuple = Tuple { local, remote, local_port: s.destination_port, remote_port: s.source_port };
            let (key, hash, found) = self.look_up_tuple(&tuple, false, hints);
            if let Some(index) = found {
                return self.receive_known(port, index, frame, s, plain.ecn);
            }
            return self.receive_unknown(port, &plain.packet(frame, Content::Tcp(*s)), s, (&key, hash));
        }
        if let Some(plain) = Plain::<V4, Datagram<'_>>::read_udp(frame) {
            return self.receive_plain_udp(
                port,
                &plain.packet(frame, Content::Udp(plain.content)),
                &plain.content,
                hints,
            );
        }
        if let Some(plain) = Plain::<V6, Datagram<'_>>::read_udp(frame) {
            return self.receive_plain_udp(
                port,
                &plain.packet(frame, Content::Udp(plain.content)),
                &plain.content,
                hints,
            );
        }
        self.receive_any(port, frame, hints.verified)
    }

    #[inline(always)]
    fn receive_plain_udp(&mut self, port: usize, packet: &Packet<'_>, d: &Datagram<'_>, hints: Hints) -> Received {
        let tuple = Tuple::of(packet, d.source_port, d.destination_port);
        let (key, hash, index) = self.look_up_tuple(&tuple, true, hints);
        self.receive_udp(port, packet, d, &Wanted { tuple, key, hash, index })
    }

    /// The flow between these, by what is known of the frame.
    #[inline(always)]
    fn look_up_tuple(&self, tuple: &Tuple, udp: bool, hints: Hints) -> (Key, u32, Option<u32>) {
        let keys = &self.secrets.hash;
        let key = Key::of(tuple, udp, keys);
        let hash = hints.hash.unwrap_or_else(|| key.hash(keys));
        debug_assert_eq!(hash, key.hash(keys), "of another frame");
        let found = self.find(&key, hash, tuple);
        (key, hash, found)
    }

    /// What a frame is if its destination MAC says that it is for none of a port's stations: the port's own, and those of clients
    /// with MACs of their own.
    #[inline]
    pub fn refused_by_mac(&self, port: usize, frame: &[u8]) -> Option<Received> {
        if self.ports[port].station.is_for(frame) { None } else { self.refused_by_own_mac(port, frame) }
    }

    #[cold]
    fn refused_by_own_mac(&self, port: usize, frame: &[u8]) -> Option<Received> {
        let Some(&mac) = frame.first_chunk::<6>() else { return Some(Received::Foreign) };
        if mac[0] & 1 == 1 {
            // TCP, UDP and errors about them do not come to groups (RFC 1122 sections 3.3.6 and 4.2.3.10), unless a pool allows it.
            let group = destination(frame).and_then(|address| self.ports[port].group_mac(address));
            return if group == Some(mac) { None } else { Some(Received::Foreign) };
        }
        let (pools, station) = (&self.scenario.pools, mac == self.ports[port].link.mac);
        let Some(address) = destination(frame) else {
            // ARP, which others answer.
            let ours = station || self.found.has_mac(pools, port, mac);
            return Some(if ours { Received::Foreign } else { Received::OtherMac });
        };
        let own = self.found.is_own_mac(pools, port, address, mac);
        if own.unwrap_or(station) { None } else { Some(Received::OtherMac) }
    }

    /// As `receive`, of a frame that another worker received; and whether it was of a client's flow that is here. ICMP errors are not.
    pub fn receive_handed(&mut self, port: usize, frame: &[u8], now_ns: u64) -> (Received, bool) {
        if let Some(refused) = self.refused_by_mac(port, frame) {
            return (refused, false);
        }
        self.now = Instant { ns: now_ns };
        let packet = match Packet::read(frame) {
            Ok(packet) => packet,
            Err(why) => return (self.receive_broken(port, frame, why), false),
        };
        let wanted = self.look_up(&packet);
        let is_error = matches!(packet.content, Content::Icmp(_));
        let of_client = !is_error && wanted.index.is_some_and(|index| self.flows[index].has(is::CLIENT));
        (self.receive_packet(port, frame, &packet, &wanted), of_client)
    }

    #[inline(never)]
    fn receive_any(&mut self, port: usize, frame: &[u8], verified: bool) -> Received {
        let packet = match Packet::read_marked(frame, verified) {
            Ok(packet) => packet,
            Err(why) => return self.receive_broken(port, frame, why),
        };
        let wanted = self.look_up(&packet);
        self.receive_packet(port, frame, &packet, &wanted)
    }

    /// The flow that a packet is of, or that an ICMP error is about.
    #[inline(always)]
    fn look_up(&self, packet: &Packet<'_>) -> Wanted {
        let (tuple, udp) = match &packet.content {
            Content::Tcp(segment) => (Tuple::of(packet, segment.source_port, segment.destination_port), false),
            Content::Udp(datagram) => (Tuple::of(packet, datagram.source_port, datagram.destination_port), true),
            // It has the packet that it is about, which was ours.
            Content::Icmp(error) => {
                let tuple = Tuple {
                    local: error.source,
                    remote: error.destination,
                    local_port: error.source_port,
                    remote_port: error.destination_port,
                };
                (tuple, !error.tcp)
            }
        };
        let key = Key::of(&tuple, udp, &self.secrets.hash);
        let hash = key.hash(&self.secrets.hash);
        Wanted { tuple, key, hash, index: self.find(&key, hash, &tuple) }
    }

    #[inline(always)]
    fn receive_packet(&mut self, port: usize, frame: &[u8], packet: &Packet<'_>, wanted: &Wanted) -> Received {
        match (&packet.content, wanted.index) {
            (Content::Tcp(segment), Some(index)) => self.receive_known(port, index, frame, segment, packet.ecn),
            (Content::Tcp(segment), None) => self.receive_unknown(port, packet, segment, (&wanted.key, wanted.hash)),
            (Content::Udp(datagram), _) => self.receive_udp(port, packet, datagram, wanted),
            (Content::Icmp(error), _) => self.receive_icmp_error(port, error, wanted),
        }
    }

    /// What cannot be read is counted where the address is that it is for.
    #[cold]
    fn receive_broken(&mut self, port: usize, frame: &[u8], why: Reject) -> Received {
        let count = match why {
            Reject::Other => return Received::Foreign,
            Reject::Checksum => Count::BadChecksums,
            Reject::Truncated => Count::Truncated,
            Reject::Fragment => Count::Fragments,
        };
        let Some(side) = destination(frame).and_then(|address| self.owner(port, address)) else {
            return Received::Foreign;
        };
        self.sides[side].counters.one(count);
        Received::Taken
    }

    /// A segment of a flow. It is all that is read of the frame, but for what is rare.
    #[inline(always)]
    fn receive_known(&mut self, port: usize, index: u32, frame: &[u8], s: &Segment<'_>, ecn: u8) -> Received {
        let flow = &self.flows[index];
        if flow.state == State::TimeWait
            && s.flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN
            && self.may_be_reused(index, s)
        {
            self.side(index).counters.one(Count::TimeWaitReused);
            self.flows[index].state = State::Closed;
            self.settle(index);
            // One that is still in the queue is removed then.
            if self.flows[index].has(is::READY) {
                return Received::Taken;
            }
            return self.receive_any(port, frame, false);
        }
        if flow.is_stranger(s) {
            return self.receive_strange(port, index, frame, s);
        }
        self.note_before(index);
        let flow = &self.flows[index];
        if self.first_bytes_choose
            && !s.payload.is_empty()
            && s.seq == flow.rcv_nxt
            && !self.choose(index, port, s.payload)
        {
            self.settle(index);
            return Received::Taken;
        }
        let progress = if self.readers.is_some() {
            self.input_and_read(index, s, ecn)
        } else {
            let (flow, mut cx, backlogs) = self.parts(index);
            flow.input(s, ecn, &mut cx, backlogs)
        };
        if progress && !self.flows[index].has(is::PROGRAM_ENDED) {
            self.go_on(index);
        }
        self.settle(index);
        Received::Taken
    }

    #[cold]
    fn receive_strange(&mut self, port: usize, index: u32, frame: &[u8], s: &Segment<'_>) -> Received {
        let side = usize::from(self.flows[index].side);
        self.sides[side].counters.received(self.now.ns);
        self.sides[side].counters.one(Count::AcksOfUnsent);
        if let Ok(packet) = Packet::read(frame) {
            self.refuse(port, &packet, s, side);
        }
        Received::Taken
    }

    /// RFC 6191, RFC 9293 section 3.10.7.4: a SYN beyond what a server's flow in TIME-WAIT has seen.
    fn may_be_reused(&self, index: u32, s: &Segment<'_>) -> bool {
        let flow = &self.flows[index];
        let newer = match s.timestamps() {
            Some((value, _)) if flow.has(is::TIMESTAMPS) => seq_before(flow.ts_recent, value),
            _ => false,
        };
        !flow.has(is::CLIENT) && (newer || seq_before(flow.rcv_nxt, s.seq))
    }

    fn side(&self, index: u32) -> &Side {
        &self.sides[usize::from(self.flows[index].side)]
    }

    /// The template that serves flows to this address and port, on a port of the engine: one that knows it by its first
    /// bytes before one that takes any. Without bytes yet, the first.
    fn server_for(&self, port: usize, tuple: &Tuple, protocol: Protocol, first_bytes: Option<&[u8]>) -> Option<usize> {
        let (pools, templates) = (&self.scenario.pools, &self.scenario.templates);
        let mut serving = self.found.servers(pools, port, protocol, tuple);
        let knows = |template: &crate::Template, bytes: &[u8]| {
            template.first_bytes().iter().all(|(offset, wanted)| {
                let end = *offset as usize + wanted.len();
                bytes.get(*offset as usize..end) == Some(wanted)
            })
        };
        let Some(bytes) = first_bytes else { return serving.next() };
        let mut any = None;
        for index in serving {
            let template = &templates[index];
            if template.first_bytes().is_empty() {
                any = any.or(Some(index));
            } else if knows(template, bytes) {
                return Some(index);
            }
        }
        any
    }

    /// Whether an address of the scenario is on a port, and of which template's side.
    fn owner(&self, port: usize, address: Address) -> Option<usize> {
        self.found.owner(&self.scenario.pools, port, address)
    }

    fn receive_unknown(
        &mut self,
        port: usize,
        packet: &Packet<'_>,
        s: &Segment<'_>,
        (key, hash): (&Key, u32),
    ) -> Received {
        if !self.ports[port].may_be_source(packet.source) {
            return Received::Foreign;
        }
        let tuple = &Tuple::of(packet, s.source_port, s.destination_port);
        let opens = s.flags & (flag::SYN | flag::ACK | flag::RST | flag::FIN) == flag::SYN;
        if opens && let Some(template) = self.server_for(port, tuple, Protocol::Tcp, None) {
            let (number, mac) = (self.server_number(template), self.ports[port].back_to(packet));
            let Some(index) = self.add(template, false, number, (tuple, key, hash), mac) else {
                self.sides[side_of(template, false)].counters.one(Count::FlowsExhausted);
                return Received::Taken;
            };
            let isn = self.initial_sequence(tuple);
            self.note_before(index);
            let (flow, mut cx, _) = self.parts(index);
            flow.accept(s, isn, &mut cx);
            self.settle(index);
            return Received::Taken;
        }
        let Some(side) = self.owner(port, tuple.local) else { return Received::Foreign };
        if self.shared && is_client(side) {
            return Received::Elsewhere;
        }
        if !s.has(flag::RST) {
            self.refuse(port, packet, s, side);
        }
        Received::Taken
    }

    /// A segment of no flow is answered with RST (RFC 9293 section 3.10.7.1).
    fn refuse(&mut self, port: usize, packet: &Packet<'_>, s: &Segment<'_>, side: usize) {
        if self.sides[side].tunables.blackhole || self.ports[port].answers.len() == ANSWERS {
            return;
        }
        let mut macs = [0; 12];
        macs[..6].copy_from_slice(&self.ports[port].back_to(packet));
        macs[6..].copy_from_slice(&self.ports[port].link.mac);
        let below = Below {
            macs,
            ends: Ends::of(packet.destination, packet.source),
            tos: 0,
            ttl: self.sides[side].tunables.ttl,
            id: 0,
            finish: Finish::Nothing,
        };
        let (seq, ack, flags) = if s.has(flag::ACK) {
            (s.ack, 0, flag::RST)
        } else {
            (0, s.seq.wrapping_add(s.len()), flag::RST | flag::ACK)
        };
        let head = Head {
            source_port: s.destination_port,
            destination_port: s.source_port,
            seq,
            ack,
            flags,
            window: 0,
            ecn: 0,
        };
        self.ports[port].answers.push_back(Answer { below, head, side });
    }

    #[inline(always)]
    fn receive_udp(&mut self, port: usize, packet: &Packet<'_>, d: &Datagram<'_>, wanted: &Wanted) -> Received {
        let &Wanted { tuple, key, hash, index } = wanted;
        let index = match index {
            Some(index) => index,
            None if !self.ports[port].may_be_source(packet.source) => return Received::Foreign,
            None => {
                let Some(template) = self.server_for(port, &tuple, Protocol::Udp, Some(d.payload)) else {
                    if let Some(template) = self.server_for(port, &tuple, Protocol::Udp, None) {
                        self.sides[side_of(template, false)].counters.one(Count::Unmatched);
                    }
                    return match self.owner(port, tuple.local) {
                        Some(side) if self.shared && is_client(side) => Received::Elsewhere,
                        Some(_) => Received::Taken,
                        None => Received::Foreign,
                    };
                };
                let (number, mac) = (self.server_number(template), self.ports[port].back_to(packet));
                let Some(index) = self.add(template, false, number, (&tuple, &key, hash), mac) else {
                    self.sides[side_of(template, false)].counters.one(Count::FlowsExhausted);
                    return Received::Taken;
                };
                let (flow, mut cx, _) = self.parts(index);
                cx.counters.one(Count::FlowsAccepted);
                cx.counters.one(Count::FlowsEstablished);
                flow.exchange(&mut cx);
                index
            }
        };
        self.note_before(index);
        self.answered(index);
        let (flow, mut cx, _) = self.parts(index);
        flow.datagram(d.payload.len(), &mut cx);
        if flow.has(is::CLIENT | is::SILENT) {
            flow.clear(is::SILENT);
            self.is_found(index);
        }
        self.go_on(index);
        self.settle(index);
        Received::Taken
    }

    fn receive_icmp_error(&mut self, port: usize, error: &Error, wanted: &Wanted) -> Received {
        let Some(index) = wanted.index else {
            let ours = self.shared && self.owner(port, wanted.tuple.local).is_some();
            return if ours { Received::Elsewhere } else { Received::Foreign };
        };
        self.note_before(index);
        let (flow, mut cx, _) = self.parts(index);
        if error.tcp {
            if flow.icmp_error(error.kind, error.seq, &mut cx) {
                self.go_on(index);
            }
        } else {
            flow.datagram_refused(error.kind, &mut cx);
        }
        self.settle(index);
        Received::Taken
    }

    /// Lets a flow's program go on.
    fn go_on(&mut self, index: u32) {
        loop {
            let flow = &mut self.flows[index];
            let side = &self.sides[usize::from(flow.side)];
            if flow.has(is::PROGRAM_ENDED) || flow.waits_for_more(&side.program) {
                return;
            }
            let first = index as usize * self.variables_each;
            let mut machine = Machine {
                program: &side.program,
                payloads: &self.scenario.payloads,
                backlogs: &mut self.backlogs,
                variables: &mut self.variables[first..first + self.variables_each],
                seed: side.seed,
                reader: self.readers.as_mut().map(|readers| readers.of(index, usize::from(flow.side))),
            };
            let mut cx = Context {
                now: self.now,
                recoveries: &mut self.recoveries,
                challenges: &mut self.challenges,
                counters: &side.counters,
                tunables: &side.tunables,
            };
            let new = flow.is_new();
            let next = flow.go_on(&mut machine, &mut cx);
            if new && !flow.is_new() {
                self.is_found(index);
            }
            let Some(next) = next else { return };
            self.switch(index, next as usize);
        }
    }

    /// A flow goes on with another template's program, behind its `Connect` or `Accept`.
    fn switch(&mut self, index: u32, next: usize) {
        self.note_after(index);
        let flow = &mut self.flows[index];
        let new = flow.is_new();
        let from = &self.sides[usize::from(flow.side)].counters;
        flow.side = side_of(next, flow.has(is::CLIENT)) as u16;
        let to = &self.sides[usize::from(flow.side)].counters;
        flow.pc = u16::from(self.scenario.templates[next].protocol == Protocol::Tcp);
        let found = new && !flow.is_new();
        from.one(Count::SwitchedOut);
        from.ended();
        to.one(Count::SwitchedIn);
        to.opened();
        if found {
            self.is_found(index);
        }
        self.note_before(index);
    }

    /// A connection to a server gets its first bytes: they choose its template, if they do so for any. False if they are no
    /// template's: it is reset.
    #[inline(never)]
    fn choose(&mut self, index: u32, port: usize, first_bytes: &[u8]) -> bool {
        let flow = &self.flows[index];
        // They may come with the handshake's last segment: until that is read, the SYN counts as queued.
        let untouched = flow.state == State::SynReceived || flow.queued() == 0;
        let waits = flow.received == 0 && untouched && flow.pc <= 1 && !flow.has(is::BEGUN);
        if flow.has(is::CLIENT) || !waits {
            return true;
        }
        let Some(template) = self.server_for(port, &self.tuple_of(index), Protocol::Tcp, Some(first_bytes)) else {
            self.side(index).counters.one(Count::Unmatched);
            self.flows[index].reset();
            return false;
        };
        if template != flow.template() {
            self.switch(index, template);
            if let Some(readers) = &mut self.readers {
                readers.restart(index);
            }
        }
        true
    }

    /// After something has happened to a flow: gives it its turn to send, which sets its timer too, or sets that now, or
    /// forgets the flow.
    #[inline(always)]
    fn settle(&mut self, index: u32) {
        self.note_after(index);
        if matches!(self.flows[index].state, State::Closed | State::TimeWait) {
            self.settle_ended(index);
        } else {
            self.settle_open(index);
        }
    }

    /// The same for one that is closed, or in TIME-WAIT.
    #[inline(never)]
    fn settle_ended(&mut self, index: u32) {
        if !self.ends(index) && !self.ends_in_turn(index) {
            self.settle_open(index);
        }
    }

    /// One that only waits for the end of TIME-WAIT leaves the wheel for the queue. False if there is more to it, or no room.
    #[inline]
    fn ends_in_turn(&mut self, index: u32) -> bool {
        let flow = &self.flows[index];
        let at = flow.wait_at;
        if flow.any(is::OWES) || flow.flags & is::TIMED_AT_ALL != is::WAITING {
            return false;
        }
        if flow.link.is_elsewhere(at) {
            return true;
        }
        let fits = self.time_waits.push(index, at);
        if fits {
            self.wheel.cancel(&mut self.flows, index);
            self.flows[index].link = Link::elsewhere(at);
        }
        fits
    }

    /// Its turn to send, or its timer.
    #[inline(always)]
    fn settle_open(&mut self, index: u32) {
        let flow = &self.flows[index];
        if flow.any(is::OWES) {
            if !flow.has(is::READY) {
                self.enqueue(index);
            }
        } else if flow.any(is::TIMED_AT_ALL) {
            self.set_timer(index);
        }
    }

    /// The wheel wakes it up at its earliest deadline, or before.
    #[inline]
    fn set_timer(&mut self, index: u32) {
        let flow = &self.flows[index];
        let mut at = flow.deadline();
        if matches!(flow.state, State::SynSent | State::SynReceived) {
            // Before any deadline that it will have next, so that most need no other entry.
            let soon = self.now.tick_in(HANDSHAKE_NS);
            at = if wheel::before(soon, at) { soon } else { at };
        }
        if flow.link.at().is_none_or(|set| wheel::before(at, set)) {
            self.wheel.reset(&mut self.flows, index, at);
        }
    }

    /// A flow is closed, or in TIME-WAIT: it is open no more. Whether there is nothing to be done for it.
    #[inline]
    fn ends(&mut self, index: u32) -> bool {
        let flow = &mut self.flows[index];
        if flow.has(is::OPEN) {
            flow.clear(is::OPEN);
            let side = &self.sides[usize::from(flow.side)];
            side.counters.ended();
            side.counters.one(Count::FlowsClosed);
            if flow.is_new() {
                self.is_found(index);
            }
            self.note_end(index);
        }
        let flow = &self.flows[index];
        if flow.state == State::TimeWait {
            return false;
        }
        if !flow.has(is::READY) {
            self.forget(index);
        }
        true
    }

    fn forget(&mut self, index: u32) {
        self.wheel.cancel(&mut self.flows, index);
        let flow = &mut self.flows[index];
        flow.release(&mut self.recoveries);
        flow.drop_backlog(&mut self.backlogs);
        let held = self.table.remove(Key::of_flow(flow).hash(&self.secrets.hash), index);
        if let Some(readers) = &mut self.readers {
            readers.release(index);
        }
        debug_assert!(held, "every flow is in the table");
        self.flows.give(index);
    }

    #[inline]
    fn enqueue(&mut self, index: u32) {
        let flow = &mut self.flows[index];
        let port = self.sides[usize::from(flow.side)].port;
        flow.set(is::READY);
        flow.ready_next = NONE;
        let queue = &mut self.ports[port].ready;
        let tail = core::mem::replace(&mut queue.tail, index);
        if tail == NONE {
            queue.head = index;
        } else {
            self.flows[tail].ready_next = index;
        }
    }

    #[inline]
    fn dequeue(&mut self, port: usize) {
        let queue = &mut self.ports[port].ready;
        let flow = &mut self.flows[queue.head];
        flow.clear(is::READY);
        queue.head = core::mem::replace(&mut flow.ready_next, NONE);
        if queue.head == NONE {
            queue.tail = NONE;
        }
    }

    /// Whether a port has something to send.
    #[inline]
    pub fn is_ready(&self, port: usize) -> bool {
        let port = &self.ports[port];
        port.ready.head != NONE || !port.answers.is_empty()
    }

    /// Writes what a port has to send, as long as there is room.
    pub fn transmit(&mut self, port: usize, now_ns: u64, out: &mut impl Output) {
        self.now = Instant { ns: now_ns };
        let finish = finish(out);
        while let Some(answer) = self.ports[port].answers.front() {
            let options = Options::default();
            let Some(frame) = out.frame(answer.below.len() + TCP_HEADER) else { return };
            let below = Below { finish, ..answer.below };
            below.write_tcp(frame, &answer.head, &options, (0, 0));
            self.sides[answer.side].counters.one(Count::ResetsSent);
            self.sides[answer.side].counters.one(Count::StraysRefused);
            self.ports[port].answers.pop_front();
        }
        while self.ports[port].ready.head != NONE {
            let index = self.ports[port].ready.head;
            self.note_before(index);
            match self.turn(index, port, out) {
                Turn::NoRoom => return self.note_after(index),
                turn @ (Turn::Done | Turn::More) => {
                    self.dequeue(port);
                    self.settle(index);
                    debug_assert!(turn == Turn::Done || self.flows[index].has(is::READY), "it has more");
                }
            }
        }
    }

    #[inline]
    fn turn(&mut self, index: u32, port: usize, out: &mut impl Output) -> Turn {
        let flow = &self.flows[index];
        let ends = if flow.has(is::V6) {
            let [source, destination] = self.v6(index);
            Ends::V6 { source, destination }
        } else {
            Ends::V4 { source: flow.local, destination: flow.remote }
        };
        let flow = &mut self.flows[index];
        let side = &self.sides[usize::from(flow.side)];
        let mut macs = [0; 12];
        macs[..6].copy_from_slice(&flow.remote_mac);
        macs[6..].copy_from_slice(&self.ports[port].link.mac);
        if side.own_macs {
            let client = match ends {
                Ends::V4 { source, .. } => Address::v4(source),
                Ends::V6 { source, .. } => source,
            };
            if let Some(mac) = self.found.own_mac(&self.scenario.pools, flow.template(), client) {
                macs[6..].copy_from_slice(&mac);
            }
        }
        let below = Below {
            macs,
            ends,
            tos: side.tunables.tos,
            ttl: side.tunables.ttl,
            id: flow.snd_nxt as u16,
            finish: finish(out),
        };
        let data = Data { payloads: &self.scenario.payloads, backlogs: &self.backlogs };
        let from = Sources { below: &below, data };
        let mut cx = Context {
            now: self.now,
            recoveries: &mut self.recoveries,
            challenges: &mut self.challenges,
            counters: &side.counters,
            tunables: &side.tunables,
        };
        if flow.state == State::Datagrams {
            let before = cx.counters.get(Count::MessagesSent);
            let turn = flow.output_datagrams(&mut cx, &from, out);
            let sent = side.counters.get(Count::MessagesSent) - before;
            if let Some(replies) = &mut self.replies {
                replies[index as usize].sent(sent, self.now.ns);
            }
            if sent > 0 && !flow.has(is::CLIENT) && flow.has(is::SILENT) {
                flow.clear(is::SILENT);
                self.is_found(index);
            }
            let flow = &self.flows[index];
            if turn == Turn::Done && flow.state == State::Datagrams {
                self.go_on(index);
            }
            return turn;
        }
        flow.output(&mut cx, &from, out)
    }

    /// Time goes on: what was waited for happens. Whether anything did.
    pub fn advance(&mut self, now_ns: u64) -> bool {
        self.now = Instant { ns: now_ns };
        let to = wheel::tick_at(now_ns);
        let mut happened = false;
        while let Some(index) = self.wheel.take_due(&mut self.flows, to) {
            self.time_has_come(index);
            happened = true;
        }
        self.end_time_waits(to) || happened
    }

    /// TIME-WAIT is over up to a tick. Whether any was.
    fn end_time_waits(&mut self, to: u32) -> bool {
        let mut due = [time_wait::Entry { index: NONE, at: 0 }; time_wait::BATCH];
        let mut happened = false;
        loop {
            let count = self.time_waits.take_due(to, &mut due);
            if count == 0 {
                return happened;
            }
            happened = true;
            let due = &due[..count];
            for entry in due {
                // Else it has ended before, or waits anew.
                let flow = &self.flows[entry.index];
                if flow.state == State::TimeWait && flow.link.is_elsewhere(entry.at) {
                    self.time_has_come(entry.index);
                }
            }
            let (flows, table, keys) = (&self.flows, &self.table, &self.secrets.hash);
            self.time_waits
                .look_ahead(|index| fetch(&flows[index]), |index| table.fetch(Key::of_flow(&flows[index]).hash(keys)));
        }
    }

    fn time_has_come(&mut self, index: u32) {
        let tick = wheel::tick_at(self.now.ns);
        let flow = &self.flows[index];
        if flow.state == State::Closed {
            return;
        }
        let program_waits = flow.has(is::PROGRAM_WAITS) && !wheel::before(tick, flow.program_at);
        self.note_before(index);
        let (flow, mut cx, _) = self.parts(index);
        if flow.state == State::Datagrams {
            flow.silent(&mut cx);
        } else {
            flow.on_time(&mut cx);
        }
        if program_waits {
            let flow = &mut self.flows[index];
            if !flow.has(is::BEGUN) {
                flow.clear(is::PROGRAM_WAITS);
            }
            self.go_on(index);
        }
        self.settle(index);
    }

    /// When something is to be done at the latest, in ns; none if only a frame can change that.
    pub fn next_due_ns(&self) -> Option<u64> {
        if (0..self.ports.len()).any(|port| self.is_ready(port)) {
            return Some(self.now.ns);
        }
        let earlier = |one: u32, other: u32| if wheel::before(one, other) { one } else { other };
        let next = self.wheel.next().into_iter().chain(self.time_waits.next()).reduce(earlier)?;
        let ahead = next.wrapping_sub(wheel::tick_at(self.now.ns)) as i32;
        let tick = (self.now.ns >> wheel::TICK_SHIFT).wrapping_add_signed(i64::from(ahead));
        Some(tick << wheel::TICK_SHIFT)
    }

    /// Ends all flows at once, without a word.
    pub fn clear(&mut self) {
        self.note_cutting(true);
        for port in 0..self.ports.len() {
            while self.ports[port].ready.head != NONE {
                let index = self.ports[port].ready.head;
                self.flows[index].state = State::Closed;
                self.dequeue(port);
                self.settle(index);
            }
            self.ports[port].answers.clear();
        }
        for index in 0..self.flows.capacity() as u32 {
            let flow = &mut self.flows[index];
            if flow.any(is::OPEN) || flow.state != State::Closed {
                flow.state = State::Closed;
                self.settle(index);
            }
        }
        self.time_waits.clear();
        self.note_cutting(false);
    }
}
