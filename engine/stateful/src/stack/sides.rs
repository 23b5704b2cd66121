// SPDX-License-Identifier: Apache-2.0
//! Which side of which template is a packet for? Found by port, protocol, destination port and address, so that a search takes
//! few steps however many templates there are: addresses of all pools cut their space into intervals, and each knows its pools.
use std::collections::{BTreeMap, BTreeSet};

use super::{
    Tuple,
    leased::LeasedClient,
    side_index::{SideIndex, TemplateIndex},
};
use crate::{Address, Pool, Protocol, Scenario};

/// Entries of all intervals together, at most: pools that overlap in very many ways are searched one after the other instead.
const MAX_ENTRIES: usize = 1 << 20;

/// What is known of a range of addresses: side and pool, sorted by side.
type Entry = (SideIndex, PoolIndex);

/// A pool of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
struct PoolIndex(u32);

impl PoolIndex {
    fn new(pool: usize) -> Self {
        Self(pool as u32)
    }

    #[inline]
    fn of(self, pools: &[Pool]) -> &Pool {
        &pools[self.0 as usize]
    }
}

/// By address, all sides with a range that contains it.
#[derive(Debug, Default)]
struct Intervals {
    /// Where each begins, in ascending order, with the number of entries of those before it.
    starts: Box<[(Address, u32)]>,
    entries: Box<[Entry]>,
}

impl Intervals {
    /// The intervals of these pools and sides.
    fn new(pools: &[Pool], all: &BTreeSet<Entry>) -> Self {
        // What begins, and what has ended, at an address.
        let mut edges: BTreeMap<u128, (Vec<Entry>, Vec<Entry>)> = BTreeMap::new();
        for entry in all {
            let pool = entry.1.of(pools);
            let (Address(first), Address(last)) = pool.span();
            edges.entry(first).or_default().0.push(*entry);
            if let Some(behind) = last.checked_add(1) {
                edges.entry(behind).or_default().1.push(*entry);
            }
        }
        let mut current = BTreeSet::new();
        let (mut starts, mut entries) = (Vec::with_capacity(edges.len()), Vec::new());
        for (start, (begin, end)) in edges {
            end.iter().for_each(|entry| {
                current.remove(entry);
            });
            current.extend(begin);
            if entries.len() + current.len() > MAX_ENTRIES {
                return Self { starts: [(Address(0), 0)].into(), entries: all.iter().copied().collect() };
            }
            starts.push((Address(start), entries.len() as u32));
            entries.extend(&current);
        }
        Self { starts: starts.into(), entries: entries.into() }
    }

    /// The entries at an address, by side.
    #[inline]
    fn at(&self, address: Address) -> &[Entry] {
        let behind = self.starts.partition_point(|(start, _)| *start <= address);
        let Some((_, from)) = behind.checked_sub(1).map(|at| self.starts[at]) else { return &[] };
        let to = self.starts.get(behind).map_or(self.entries.len(), |(_, to)| *to as usize);
        &self.entries[from as usize..to]
    }
}

/// Where servers listen.
fn listening(port: usize, protocol: Protocol, destination_port: u16) -> u64 {
    (port as u64) << 17 | u64::from(protocol == Protocol::Udp) << 16 | u64::from(destination_port)
}

/// All sides of a scenario.
#[derive(Debug)]
pub(super) struct Sides {
    /// Servers, sorted by where they listen. There are at most as many as templates: binary search is faster than a hash.
    servers: Box<[(u64, Intervals)]>,
    /// By port: of each pool there, the first side that has its addresses.
    owners: Box<[Intervals]>,
    /// By template: pools of clients that have MACs of their own, if there are any.
    macs: Box<[Intervals]>,
}

impl Sides {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mut servers: BTreeMap<u64, BTreeSet<Entry>> = BTreeMap::new();
        // By port; of each pool of clients, or of servers.
        let mut owners: BTreeMap<usize, BTreeMap<(PoolIndex, bool), SideIndex>> = BTreeMap::new();
        let mut macs = Vec::with_capacity(scenario.templates.len());
        for (index, template) in scenario.templates.iter().enumerate() {
            let index = TemplateIndex::new(index);
            let mut own = |port: usize, pool: usize, client: bool| {
                owners
                    .entry(port)
                    .or_default()
                    .entry((PoolIndex::new(pool), client))
                    .or_insert(SideIndex::of(index, client));
            };
            if let Some(client) = &template.client {
                template.clients.iter().for_each(|weighted| own(client.port, weighted.pool, true));
            }
            if let Some(server) = &template.server {
                let key = listening(server.port, template.protocol, template.destination_port);
                for weighted in &template.servers {
                    own(server.port, weighted.pool, false);
                    servers
                        .entry(key)
                        .or_default()
                        .insert((SideIndex::of(index, false), PoolIndex::new(weighted.pool)));
                }
            }
            let with_macs =
                template.clients.iter().filter(|weighted| scenario.pools[weighted.pool].first_mac.is_some());
            let clients =
                with_macs.map(|weighted| (SideIndex::of(index, true), PoolIndex::new(weighted.pool))).collect();
            macs.push(Intervals::new(&scenario.pools, &clients));
        }
        let ports = owners.keys().next_back().map_or(0, |last| last + 1);
        let owners = (0..ports).map(|port| {
            let of_port = owners.get(&port).into_iter().flatten().map(|((pool, _), side)| (*side, *pool)).collect();
            Intervals::new(&scenario.pools, &of_port)
        });
        let owners = owners.collect();
        let servers = servers.into_iter().map(|(key, all)| (key, Intervals::new(&scenario.pools, &all))).collect();
        Self { servers, owners, macs: macs.into() }
    }

    /// Templates whose servers, on a port of the engine, a tuple seen from there can be for; in order.
    #[inline]
    pub(super) fn servers<'a>(
        &'a self,
        pools: &'a [Pool],
        port: usize,
        protocol: Protocol,
        tuple: &Tuple,
    ) -> impl Iterator<Item = TemplateIndex> + use<'a> {
        let local = tuple.local;
        let found = self.servers.binary_search_by_key(&listening(port, protocol, tuple.local_port), |(key, _)| *key);
        let at = found.map_or(&[][..], |index| self.servers[index].1.at(local));
        let owning = at.iter().filter(move |(_, pool)| pool.of(pools).owns(local));
        owning.map(|(side, _)| side.template())
    }

    /// The first side that has an address on a port.
    #[inline]
    pub(super) fn owner(&self, pools: &[Pool], port: usize, address: Address) -> Option<SideIndex> {
        let at = self.owners.get(port)?.at(address);
        at.iter().find(|(_, pool)| pool.of(pools).owns(address)).map(|(side, _)| *side)
    }

    /// Whether clients on a port have MACs of their own.
    pub(super) fn has_own_macs(&self, pools: &[Pool], port: usize) -> bool {
        let all = self.owners.get(port).map_or(&[][..], |owners| &owners.entries);
        all.iter().any(|(side, pool)| side.is_client() && pool.of(pools).first_mac.is_some())
    }

    /// Whether any client on a port has a MAC.
    pub(super) fn has_mac(&self, pools: &[Pool], port: usize, mac: [u8; 6]) -> bool {
        let all = self.owners.get(port).map_or(&[][..], |owners| &owners.entries);
        let mut clients = all.iter().filter(|(side, _)| side.is_client()).map(|(_, pool)| pool.of(pools));
        clients.any(|pool| pool.has_mac(mac))
    }

    /// Whether a MAC is that of the client on a port that has an address; none if no client with a MAC of its own has it.
    pub(super) fn is_own_mac(&self, pools: &[Pool], port: usize, address: Address, mac: [u8; 6]) -> Option<bool> {
        let at = self.owners.get(port).map_or(&[][..], |owners| owners.at(address));
        let clients = at.iter().filter(|(side, _)| side.is_client()).map(|(_, pool)| pool.of(pools));
        clients.filter_map(|pool| pool.is_mac_of(mac, address)).reduce(|one, other| one | other)
    }

    /// The client of a template's leased pools that has an address.
    pub(super) fn leased(&self, pools: &[Pool], template: TemplateIndex, client: Address) -> Option<LeasedClient> {
        self.macs[template.position()].at(client).iter().find_map(|(_, index)| {
            let pool = Some(index.of(pools)).filter(|pool| pool.is_leased())?;
            Some(LeasedClient { pool: index.0, offset: pool.contains(client)? as u32 })
        })
    }

    /// The MAC of a template's client that has one of its own.
    #[inline]
    pub(super) fn own_mac(&self, pools: &[Pool], template: TemplateIndex, client: Address) -> Option<[u8; 6]> {
        self.macs[template.position()].at(client).iter().find_map(|(_, pool)| {
            let pool = pool.of(pools);
            pool.mac(pool.contains(client)?)
        })
    }
}

#[cfg(test)]
mod tests;
