// SPDX-License-Identifier: Apache-2.0
//! The endpoints of flows: the sequence of (client, server, source port) that new flows take.
//!
//! A list of weighted pools is a *mix*. Its n-th address, n = 0, 1, 2, ...: pools take turns, as evenly as their weights
//! allow, in a fixed round; in its n'-th turn a pool gives its n'-th address (`Pool::nth`). The tuple is that of the client
//! mix's and the server mix's n-th; a client's j-th flow (as a pool repeats itself after its length, j = n' / length) takes
//! the j-th of its ports. So everything is a function of n. Templates of equal client mixes share the sequence in the order
//! in which they ask for tuples, those of equal server mixes likewise. Where different client mixes have a pool in common,
//! each has its own of the ports of that pool's clients: of two mixes, every second port.
//!
//! Distributed by number, worker w of W takes n = w, w + W, ...: the union over any split is the whole sequence. A client's ports
//! begin again after the largest number of them at which a port stays with its worker: if there are 5 workers on one
//! client, 64,510 of 64,512. So no two workers ever have the same tuple.
//!
//! Engines that share a run have clients of their own: of each pool a part ([`Part`](crate::pool::Part)). So a worker shares these
//! with the others of its engine only. To servers, all of them, it connects as one of all workers. Where engines have equally many
//! clients of sequential pools of one weight, the union over all engines and workers is still what one worker would take.
//!
//! Distributed by hash, a worker can compute from a tuple whether replies will arrive at it. It walks over all clients, from the
//! w-th on, and takes of a client's ports the next one that does. It notes how far it has come in a table: of one entry a
//! client, or if they are more than a million, of a million that they share, so that some ports are omitted.
//!
//! Connections that programs open come from a given client. For those a template has a mix more, with ports of its own of each client;
//! how far they are taken is noted in such a table, and distributed by number, worker w of W takes every W-th of them.
use std::sync::Arc;

use num_integer::gcd;

use crate::{
    Address, FieldPath,
    counters::Count,
    leased::LeasedAddresses,
    pool::{Part, Pool, WeightedPool},
};

/// Number of other tuples of the same client, at most, that follow a refused one.
pub const TRIES: u32 = 64;

/// Clients without a leased address that are passed over for a flow, at most.
const MAX_UNLEASED: u32 = 64;

/// Most turns in a round of a mix.
const MAX_TURNS: u64 = 1 << 16;

/// Most entries of a table of clients.
const MAX_ENTRIES: u64 = 1 << 20;

/// Which part of all flows a worker begins: one of all workers of all engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which it is, below `workers`: engines take turns, so that of P engines k has workers k, k + P, ...
    pub worker: u64,
    /// Number of workers.
    pub workers: u64,
}

impl Share {
    /// The share of worker `worker` of `workers` in an engine that has a part of the run.
    pub fn of_engine(worker: u64, workers: u64, engine: Part) -> Self {
        let engines = u64::from(engine.of);
        Self { worker: u64::from(engine.index) + engines * worker, workers: engines * workers }
    }

    /// The share within the part of one of several engines.
    pub(crate) fn within(self, engines: u64) -> Self {
        Self { worker: self.worker / engines, workers: (self.workers / engines).max(1) }
    }
}

/// How tuples are shared by workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// Worker w of W takes the numbers n = w modulo W: replies come to any worker, or there is one a port.
    ByNumber,
    /// A worker takes the tuples whose replies it owns.
    ByHash,
}

/// Addresses and port of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// The client's address.
    pub client: Address,
    /// The server's address.
    pub server: Address,
    /// Source port.
    pub source_port: u16,
}

/// A tuple that may be taken, and how it was found.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// Take it, or ask for another.
    pub tuple: Tuple,
    mix: usize,
    member: usize,
    position: u64,
    /// Offset of the client in its pool.
    offset: u128,
    /// Which of the client's ports (of this mix).
    port: u32,
    tries: u32,
}

/// A worker's tuples of all templates.
#[derive(Clone, Debug)]
pub struct Tuples {
    pools: Vec<Pool>,
    clients: Vec<Clients>,
    servers: Vec<Mix>,
    /// Client mix and server mix; none: no flows start here.
    templates: Vec<Option<(usize, usize)>>,
    /// Client mix of the flows that programs open; none: none are.
    opened: Vec<Option<usize>>,
    /// Share of the engine's clients.
    here: Share,
    sharding: Sharding,
    exhausted: u64,
    /// The last tuple was not found because no client had an address.
    lacks_client: bool,
}

/// Why tuples cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct TupleError {
    /// Its index.
    pub template: usize,
    /// The problem.
    pub problem: TupleProblem,
}

/// Problem of a template's addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TupleProblem {
    /// Clients need servers to connect to.
    #[error("is empty; name the pools that clients connect to")]
    NoServers,
    /// The pool does not exist.
    #[error("there is no pool {1}")]
    Unknown(&'static str, usize),
    /// The pool would never be taken.
    #[error("a weight is 0; leave the pool out or give it a weight of at least 1")]
    Weightless(&'static str),
    /// The round would be too long.
    #[error("the weights add up to {1} without a common factor; use rounder ones, which add up to 65536 at most")]
    TooFine(&'static str, u64),
    /// Client and server are of different families.
    #[error("clients and servers are of different families; use pools of one family, or two templates")]
    Families,
    /// Some engine would have none.
    #[error(
        "pool {pool} has {addresses} addresses for {engines} engines, and each needs clients of its own; give it at \
         least {engines}, or run fewer engines"
    )]
    TooFewClients {
        /// The pool.
        pool: usize,
        /// What it has.
        addresses: u64,
        /// Engines that share the run.
        engines: u32,
    },
    /// Workers cannot share a client.
    #[error(
        "pool {pool} has {ports} source ports a client for {needed} that take them in turn; \
         give it more ports, use weights with a common factor, or run fewer workers"
    )]
    TooFewPorts {
        /// The pool.
        pool: usize,
        /// What this mix has of them.
        ports: u32,
        /// Workers, times the weight of the pool.
        needed: u64,
    },
}

impl TupleProblem {
    /// The field of the template.
    pub fn field(&self) -> &'static str {
        match self {
            Self::NoServers | Self::Families => "servers",
            Self::Unknown(field, _) | Self::Weightless(field) | Self::TooFine(field, _) => field,
            Self::TooFewClients { .. } | Self::TooFewPorts { .. } => "clients",
        }
    }
}

impl TupleError {
    /// Path of the field in the scenario.
    pub fn field(&self) -> FieldPath {
        FieldPath::from("templates").index(self.template).field(self.problem.field())
    }
}

/// Weighted pools in turn.
#[derive(Clone, Debug)]
struct Mix {
    /// Pools by index; their weights have no common factor.
    pools: Box<[WeightedPool]>,
    round: Box<[RoundEntry]>,
    /// The number of the next.
    next: u64,
    /// From one to the next.
    step: u64,
}

/// A turn in a round of a mix.
#[derive(Clone, Copy, Debug)]
struct RoundEntry {
    /// Index in `Mix::pools`.
    member: u32,
    /// Turns it had before in the round.
    before: u32,
}

/// A mix of clients.
#[derive(Clone, Debug)]
struct Clients {
    mix: Mix,
    /// Ports of each pool of the mix.
    ports: Box<[Ports]>,
    /// Distributed by hash, and of flows that programs open: which port of a client to look at next. Else empty.
    looked: Box<[u16]>,
}

/// What a mix has of the ports of a pool's clients: `shard`, `shard + shards`, ...
#[derive(Clone, Copy, Debug)]
struct Ports {
    shard: u32,
    shards: u32,
    /// Number of ports.
    count: u32,
    /// Distance between ports of one worker.
    step: u32,
    /// Entry of the pool's first client in the table.
    entry: u64,
}

impl Mix {
    fn new(pools: Vec<WeightedPool>, first: u64, step: u64) -> Self {
        let total: i64 = pools.iter().map(|pool| i64::from(pool.weight)).sum();
        // The one that is furthest behind its share is next ("smooth weighted round robin", as in nginx).
        let mut behind = vec![0; pools.len()];
        let mut before = vec![0; pools.len()];
        let turn = |_| {
            for (behind, pool) in behind.iter_mut().zip(&pools) {
                *behind += i64::from(pool.weight);
            }
            let member = (0..pools.len()).rev().max_by_key(|n| behind[*n]).unwrap_or(0);
            behind[member] -= total;
            before[member] += 1;
            RoundEntry { member: member as u32, before: before[member] - 1 }
        };
        let round = (0..total).map(turn).collect();
        Self { pools: pools.into(), round, next: first, step }
    }

    /// The next: a member, and the number of its turn.
    #[inline]
    fn draw(&mut self) -> (usize, u64) {
        let n = self.next;
        self.next = n.wrapping_add(self.step);
        if let [_] = *self.round {
            return (0, n);
        }
        let (rounds, turn) = (n / self.round.len() as u64, n % self.round.len() as u64);
        let RoundEntry { member, before } = self.round[turn as usize];
        let member = member as usize;
        (member, rounds * u64::from(self.pools[member].weight) + u64::from(before))
    }
}

/// A list of weighted pools as it is compared: by index, each once, weights without a common factor.
fn normal(name: &'static str, known: &[Pool], pools: &[WeightedPool]) -> Result<Vec<WeightedPool>, TupleProblem> {
    let mut all: Vec<(usize, u64)> = Vec::new();
    let mut sorted = pools.to_vec();
    sorted.sort_unstable();
    for WeightedPool { pool, weight } in sorted {
        if pool >= known.len() {
            return Err(TupleProblem::Unknown(name, pool));
        }
        if weight == 0 {
            return Err(TupleProblem::Weightless(name));
        }
        match all.last_mut() {
            Some((last, total)) if *last == pool => *total += u64::from(weight),
            _ => all.push((pool, u64::from(weight))),
        }
    }
    let factor = all.iter().fold(0, |factor, (_, weight)| gcd(factor, *weight)).max(1);
    let total = all.iter().map(|(_, weight)| weight / factor).sum();
    if total > MAX_TURNS {
        return Err(TupleProblem::TooFine(name, total));
    }
    Ok(all.into_iter().map(|(pool, weight)| WeightedPool { pool, weight: (weight / factor) as u32 }).collect())
}

/// The index of what is equal, added if there is none.
fn index_of<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|other| *other == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

impl Tuples {
    /// The tuples of templates, each given by its clients and servers; without clients it starts no flows here. Of how many
    /// engines this is one is known by the parts of the clients' pools.
    ///
    /// # Errors
    /// If pools are absent, of several families, or too few or too finely weighted to be shared.
    pub fn new<'a>(
        pools: &[Pool],
        templates: impl IntoIterator<Item = (&'a [WeightedPool], &'a [WeightedPool])>,
        share: Share,
        sharding: Sharding,
    ) -> Result<Self, TupleError> {
        Self::with_opened(pools, templates, &[], share, sharding)
    }

    /// Tuples of templates of which programs open some templates' flows.
    ///
    /// # Errors
    /// See `new`.
    pub fn with_opened<'a>(
        pools: &[Pool],
        templates: impl IntoIterator<Item = (&'a [WeightedPool], &'a [WeightedPool])>,
        opened: &[usize],
        share: Share,
        sharding: Sharding,
    ) -> Result<Self, TupleError> {
        let (mut client_mixes, mut server_mixes) = (Vec::new(), Vec::new());
        let mut indices = Vec::new();
        for (template, (clients, servers)) in templates.into_iter().enumerate() {
            let mixes = mixes_of(pools, clients, servers).map_err(|problem| TupleError { template, problem })?;
            indices.push(mixes.map(|(clients, servers)| {
                (index_of(&mut client_mixes, clients), index_of(&mut server_mixes, servers))
            }));
        }
        let engines = client_mixes.iter().flatten().map(|weighted| pools[weighted.pool].part().of).max().unwrap_or(1);
        let here = share.within(engines.into());
        let in_turn = client_mixes.len();
        let mut opened_mixes = Vec::new();
        let mix_of_opened = |(template, mixes): (usize, &Option<(usize, usize)>)| {
            let (clients, _) = mixes.filter(|_| opened.contains(&template))?;
            Some(in_turn + index_of(&mut opened_mixes, client_mixes[clients].clone()))
        };
        let opened: Vec<_> = indices.iter().enumerate().map(mix_of_opened).collect();
        client_mixes.append(&mut opened_mixes);
        let mut clients = Vec::new();
        for index in 0..client_mixes.len() {
            let made = Clients::new(pools, &client_mixes, (index, index >= in_turn), here, sharding);
            clients.push(made.map_err(|problem| {
                let uses = |template: &usize| {
                    let in_turn = indices[*template].map(|(clients, _)| clients);
                    in_turn == Some(index) || opened[*template] == Some(index)
                };
                TupleError { template: (0..indices.len()).find(uses).unwrap_or(0), problem }
            })?);
        }
        let servers = server_mixes.into_iter().map(|mix| Mix::new(mix, share.worker, share.workers)).collect();
        Ok(Self {
            pools: pools.to_vec(),
            clients,
            servers,
            templates: indices,
            opened,
            here,
            sharding,
            exhausted: 0,
            lacks_client: false,
        })
    }

    /// The next tuple of a client for a flow of a template that a program opens; see `next`. None as well if the template has no such
    /// client.
    pub fn next_of(&mut self, template: usize, client: Address, owned: impl Fn(&Tuple) -> bool) -> Option<Draw> {
        let (mix, (_, servers)) = self.opened[template].zip(self.templates[template])?;
        let pools = &self.clients[mix].mix.pools;
        let member = pools.iter().position(|weighted| self.pools[weighted.pool].owns(client))?;
        let pool = &self.pools[pools[member].pool];
        let offset = pool.contains(client)?;
        let (server, n) = self.servers[servers].draw();
        let pool = &self.pools[self.servers[servers].pools[server].pool];
        let tuple = Tuple { client, server: pool.address(pool.nth(n)), source_port: 0 };
        // Clients that share an entry of the table may do so.
        let mut draw = Draw { tuple, mix, member, position: offset as u64, offset, port: 0, tries: 0 };
        self.look(&mut draw, owned).then_some(draw)
    }

    /// The next tuple for a template. `owned` says whether replies to it come to this worker; it is called only if tuples are
    /// distributed by hash. None if no such port is found: that is counted; or no client that has an address.
    ///
    /// # Panics
    /// If the template has no clients here.
    #[inline]
    pub fn next(&mut self, template: usize, owned: impl Fn(&Tuple) -> bool) -> Option<Draw> {
        let (mix, servers) = self.templates[template].expect("a template with clients");
        let (server, n) = self.servers[servers].draw();
        let pool = &self.pools[self.servers[servers].pools[server].pool];
        let server = pool.address(pool.nth(n));
        let mut unleased = 0;
        let (member, position, offset, round, client) = loop {
            let clients = &mut self.clients[mix];
            let (member, n) = clients.mix.draw();
            let pool = &self.pools[clients.mix.pools[member].pool];
            let (position, round) = pool.place(n);
            let offset = pool.own_at(position);
            if let Some(client) = pool.client_address(offset) {
                break (member, position, offset, round, client);
            }
            unleased += 1;
            if unleased == MAX_UNLEASED {
                self.lacks_client = true;
                return None;
            }
        };
        let port = (round % u64::from(self.clients[mix].ports[member].count)) as u32;
        let tuple = Tuple { client, server, source_port: 0 };
        let mut draw = Draw { tuple, mix, member, position, offset, port, tries: 0 };
        match self.sharding {
            Sharding::ByNumber => {
                self.set_port(&mut draw);
                Some(draw)
            }
            Sharding::ByHash => self.look(&mut draw, owned).then_some(draw),
        }
    }

    /// Replaces a tuple that is in use by the next of the same client and server. False if there is none, or `TRIES` have
    /// been made: that is counted.
    pub fn skip(&mut self, draw: &mut Draw, owned: impl Fn(&Tuple) -> bool) -> bool {
        draw.tries += 1;
        let Ports { step, count, .. } = self.clients[draw.mix].ports[draw.member];
        if draw.tries > TRIES || draw.tries >= count / step {
            self.exhausted += 1;
            return false;
        }
        match self.sharding {
            Sharding::ByNumber if self.clients[draw.mix].looked.is_empty() => {
                draw.port = (draw.port + step) % count;
                self.set_port(draw);
                true
            }
            _ => self.look(draw, owned),
        }
    }

    /// Clients of a leased pool have these from now on. What was before is given back.
    pub fn swap_leased(&mut self, pool: usize, leased: &mut Arc<LeasedAddresses>) {
        self.pools[pool].swap_leased(leased);
    }

    /// As what a flow is counted for which `next` has just found no tuple.
    #[cold]
    pub(crate) fn not_found(&mut self) -> Count {
        if core::mem::take(&mut self.lacks_client) { Count::FlowsWithoutClient } else { Count::PortsExhausted }
    }

    /// How often no tuple was found.
    pub fn exhausted(&self) -> u64 {
        self.exhausted
    }

    #[inline]
    fn set_port(&self, draw: &mut Draw) {
        let clients = &self.clients[draw.mix];
        let ports = clients.ports[draw.member];
        let pool = &self.pools[clients.mix.pools[draw.member].pool];
        draw.tuple.source_port = pool.source_ports.port(draw.offset, ports.shard + draw.port * ports.shards);
    }

    /// Looks for the client's next port that is this worker's: of which it owns the replies, or every W-th; gives up where there should
    /// have been many.
    fn look(&mut self, draw: &mut Draw, owned: impl Fn(&Tuple) -> bool) -> bool {
        let Ports { count, entry, .. } = self.clients[draw.mix].ports[draw.member];
        let entries = self.clients[draw.mix].looked.len() as u64;
        let entry = (entry.wrapping_add(draw.position) % entries) as usize;
        let most = self.here.workers.saturating_mul(u64::from(TRIES)).min(u64::from(count));
        for _ in 0..most {
            // Pools of different port ranges may share an entry.
            draw.port = u32::from(self.clients[draw.mix].looked[entry]) % count;
            self.clients[draw.mix].looked[entry] = ((draw.port + 1) % count) as u16;
            self.set_port(draw);
            let own = match self.sharding {
                Sharding::ByHash => owned(&draw.tuple),
                Sharding::ByNumber => u64::from(draw.port) % self.here.workers == self.here.worker,
            };
            if own {
                return true;
            }
        }
        self.exhausted += 1;
        false
    }
}

type Mixes = Option<(Vec<WeightedPool>, Vec<WeightedPool>)>;

/// A template's mixes of clients and servers, if it has clients.
fn mixes_of(pools: &[Pool], clients: &[WeightedPool], servers: &[WeightedPool]) -> Result<Mixes, TupleProblem> {
    let clients = normal("clients", pools, clients)?;
    let servers = normal("servers", pools, servers)?;
    if clients.is_empty() {
        return Ok(None);
    }
    let first = servers.first().ok_or(TupleProblem::NoServers)?;
    let v6 = pools[first.pool].is_v6();
    if clients.iter().chain(&servers).any(|weighted| pools[weighted.pool].is_v6() != v6) {
        return Err(TupleProblem::Families);
    }
    Ok(Some((clients, servers)))
}

impl Clients {
    /// The mix of an index, among all; whether it is of flows that programs open.
    fn new(
        pools: &[Pool],
        mixes: &[Vec<WeightedPool>],
        (index, opened): (usize, bool),
        share: Share,
        sharding: Sharding,
    ) -> Result<Self, TupleProblem> {
        let mut entry = 0u64;
        let ports = mixes[index].iter().map(|weighted| {
            let has = |mix: &&Vec<WeightedPool>| mix.iter().any(|other| other.pool == weighted.pool);
            let shard = mixes[..index].iter().filter(has).count() as u32;
            let shards = mixes.iter().filter(has).count() as u32;
            let pool = &pools[weighted.pool];
            let engines = pool.part().of;
            if pool.last_offset() < u128::from(engines - 1) {
                let addresses = pool.last_offset() as u64 + 1;
                return Err(TupleProblem::TooFewClients { pool: weighted.pool, addresses, engines });
            }
            let all = pool.source_ports.count() / shards;
            let needed = match sharding {
                Sharding::ByNumber if opened => share.workers,
                Sharding::ByNumber => share.workers.saturating_mul(u64::from(weighted.weight)),
                Sharding::ByHash => 1,
            };
            // A client has its turn again after the pool's length; after this many of these it is the same worker's.
            let rest = (pool.part_last() % u128::from(needed) + 1) % u128::from(needed);
            let step = if opened { needed } else { needed / gcd(needed, rest as u64) };
            if step > u64::from(all) {
                return Err(TupleProblem::TooFewPorts { pool: weighted.pool, ports: all, needed: step });
            }
            let ports = Ports { shard, shards, count: all - all % step as u32, step: step as u32, entry };
            entry = entry.saturating_add(u64::try_from(pool.part_last()).unwrap_or(u64::MAX)).saturating_add(1);
            Ok(ports)
        });
        let ports = ports.collect::<Result<_, _>>()?;
        let (step, entries) = match sharding {
            Sharding::ByNumber if opened => (1, entry.min(MAX_ENTRIES)),
            Sharding::ByNumber => (share.workers, 0),
            Sharding::ByHash => (1, entry.min(MAX_ENTRIES)),
        };
        let mix = Mix::new(mixes[index].clone(), share.worker, step);
        Ok(Self { mix, ports, looked: vec![0; entries as usize].into() })
    }
}

#[cfg(test)]
mod tests;
