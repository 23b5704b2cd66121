// SPDX-License-Identifier: Apache-2.0
//! Next hops of a run: by which neighbors the destination MACs of its packets were found, and what workers get when one has another MAC.
//!
//! What is prepared knows its neighbors by address, never by MAC: stations may have the same MAC, and a MAC may become another station's.
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use spate_dpdk::{Eal, Error, Prebuilt, on_own_lines};
use spate_neighbour::{Mac, Neighbour, Prefix, mac_text};
use spate_stateful::{Address, MovedRouter, Neighbours, NextHops as FlowHops, envelope::GatewayMac};

use super::Run;
use crate::datapath::{
    Hop, LinkHops, LinkNeighbor, PoolGateway, StatefulSpec,
    cache::Cache,
    slow::Moved,
    worker::{Command, NewNextHops, NewStreams, SendStream},
};
use crate::index::{PortIndex, PortStreamIndex, WorkerIndex};
use spate_stateless::Template;

/// MACs that a router had, and that are remembered of it.
const FORMER_MACS: usize = 8;

/// All next hops of a run.
#[derive(Debug)]
pub(in crate::datapath) struct NextHops {
    eal: Eal,
    /// Names of ports, by index.
    ports: Vec<String>,
    streams: Vec<StreamsOfPort>,
    links: Vec<LinkOfPort>,
}

/// The streams of a port that are on a schedule, as its workers have them.
#[derive(Debug)]
struct StreamsOfPort {
    port: PortIndex,
    /// Each with its caches, by stream.
    workers: Vec<(WorkerIndex, Box<[Option<Cache>]>)>,
    streams: Arc<[SendStream]>,
    /// By stream: its neighbor, if that is known.
    hops: Vec<Option<IpAddr>>,
}

/// Where flows of a port send to, as its workers have it.
#[derive(Debug)]
struct LinkOfPort {
    port: PortIndex,
    workers: Vec<WorkerIndex>,
    hops: LinkHops,
    gateways: Vec<PoolGateway>,
    /// MAC of the next hop of frames without a hop of their own.
    next_hop: Mac,
    routers: Vec<Router>,
    on_link: Box<[(Address, Address)]>,
}

/// A gateway of the port, through which packets of clients may come to its servers.
#[derive(Clone, Debug)]
struct Router {
    address: IpAddr,
    /// MACs of the router so far; the last is the present one.
    macs: Vec<Mac>,
}

/// What becomes of packets to a neighbor that has another MAC.
#[derive(Debug, Default)]
struct Outcome {
    /// Streams that send to that from now on.
    streams: usize,
    /// Flows do.
    flows: bool,
    /// Streams that send to the one before, as a field or a checksum depends on the MAC.
    dependent: usize,
    /// Streams that do so as there is no memory for their caches, and the last one's error.
    without_memory: (usize, Option<Error>),
}

type Outcomes = BTreeMap<(PortIndex, LinkNeighbor), Outcome>;

/// Next hops for a worker: of streams, or of flows.
enum New {
    Streams(NewStreams),
    Hops(NewNextHops),
}

impl Run {
    /// Port, neighbor and MAC of each next hop that its packets have now.
    pub(in crate::datapath) fn next_hops(&self) -> BTreeSet<(PortIndex, LinkNeighbor, Mac)> {
        self.control().next_hops.all()
    }

    /// Sends to neighbors where they are now. Workers take that up within a pass of their loops.
    pub(in crate::datapath) fn follow(&self, moved: &Moved) {
        let mut control = self.control();
        if control.removed || self.closed() {
            return;
        }
        let send = |worker, new| {
            let command = match new {
                New::Streams(streams) => Command::Streams(self.slot, Box::new(streams)),
                New::Hops(hops) => Command::NextHops(self.slot, Box::new(hops)),
            };
            self.workers.send(worker, command);
        };
        let outcomes = on_own_lines(|| control.next_hops.follow(moved, send));
        for (to @ (port, address), outcome) in outcomes {
            let (port, mac) = (&control.next_hops.ports[port.0], mac_text(moved[&to]));
            let Outcome { streams, flows, dependent, without_memory } = outcome;
            if streams > 0 || flows {
                tracing::info!(
                    run = self.id,
                    port,
                    %address,
                    mac,
                    streams,
                    flows,
                    "a next hop has another MAC, to which the run sends from now on"
                );
            }
            if dependent > 0 {
                tracing::warn!(
                    run = self.id,
                    port,
                    %address,
                    mac,
                    streams = dependent,
                    "streams with a destination MAC that varies or that a checksum covers still send to the next hop's former MAC: start \
                     another run to follow it"
                );
            }
            if let (streams, Some(error)) = without_memory {
                tracing::warn!(
                    run = self.id,
                    port,
                    %address,
                    mac,
                    streams,
                    %error,
                    "streams with a cache still send to the next hop's former MAC: give the engine more packet memory, or the streams \
                     smaller caches, and start another run"
                );
            }
        }
    }
}

impl NextHops {
    /// Next hops of a run on ports with these names; it has none so far.
    pub(in crate::datapath) fn new(eal: Eal, ports: Vec<String>) -> Self {
        Self { eal, ports, streams: Vec::new(), links: Vec::new() }
    }

    /// Adds a port's streams that are on a schedule: its workers, each with its caches by stream, and by stream the neighbor that is its
    /// next hop.
    pub(in crate::datapath) fn add_streams(
        &mut self,
        port: PortIndex,
        workers: Vec<(WorkerIndex, Box<[Option<Cache>]>)>,
        streams: &Arc<[SendStream]>,
        hops: impl Iterator<Item = Option<IpAddr>>,
    ) {
        let hops: Vec<_> = hops.collect();
        if hops.iter().any(Option::is_some) {
            self.streams.push(StreamsOfPort { port, workers, streams: Arc::clone(streams), hops });
        }
    }

    /// Adds the links that flows are on, which these workers have; of each, the addresses and gateways of the port.
    pub(in crate::datapath) fn add_links(
        &mut self,
        flows: &StatefulSpec,
        known: &[(Vec<Prefix>, Vec<Neighbour>)],
        workers: &[WorkerIndex],
    ) {
        let hops = flows.on_link.hops.iter();
        for (port, ((link, hops), (addresses, gateways))) in flows.links.iter().zip(hops).zip(known).enumerate() {
            let found =
                |gateway: &Neighbour| Router { address: gateway.address, macs: gateway.mac.into_iter().collect() };
            let port = PortIndex(port);
            let of_port = flows.on_link.gateways.iter().filter(|gateway| gateway.port == port);
            self.links.push(LinkOfPort {
                port,
                workers: workers.to_vec(),
                hops: hops.clone(),
                gateways: of_port.copied().collect(),
                next_hop: link.next_hop,
                routers: gateways.iter().map(found).collect(),
                on_link: on_link(addresses),
            });
        }
    }

    fn all(&self) -> BTreeSet<(PortIndex, LinkNeighbor, Mac)> {
        let of_links = self.links.iter().flat_map(LinkOfPort::all);
        self.streams.iter().flat_map(StreamsOfPort::all).chain(of_links).collect()
    }

    /// Takes up where neighbors are now; `send` gets what each worker needs for that.
    fn follow(&mut self, moved: &Moved, mut send: impl FnMut(WorkerIndex, New)) -> Outcomes {
        let mut outcomes = Outcomes::new();
        let eal = self.eal;
        self.streams.iter_mut().for_each(|of_port| of_port.follow(eal, moved, &mut send, &mut outcomes));
        self.links.iter_mut().for_each(|of_port| of_port.follow(moved, &mut send, &mut outcomes));
        outcomes
    }
}

impl StreamsOfPort {
    fn all(&self) -> impl Iterator<Item = (PortIndex, LinkNeighbor, Mac)> {
        self.streams.iter().zip(&self.hops).filter_map(|(stream, neighbour)| {
            let neighbor = LinkNeighbor::from((*neighbour)?);
            Some((self.port, neighbor, *stream.template.frame().first_chunk()?))
        })
    }

    fn follow(&mut self, eal: Eal, moved: &Moved, send: &mut impl FnMut(WorkerIndex, New), outcomes: &mut Outcomes) {
        let mut next: Option<Vec<SendStream>> = None;
        // By worker: caches in place of those that it has.
        let mut caches: Vec<Vec<(PortStreamIndex, Option<Prebuilt>)>> =
            self.workers.iter().map(|_| Vec::new()).collect();
        for (index, neighbour) in self.hops.iter().enumerate() {
            let Some(to) = neighbour.map(|neighbour| (self.port, LinkNeighbor::from(neighbour))) else { continue };
            let template = &self.streams[index].template;
            let Some(mac) = moved.get(&to).filter(|mac| !template.frame().starts_with(*mac)) else { continue };
            let outcome = outcomes.entry(to).or_default();
            let Some(template) = template.with_destination(*mac) else {
                outcome.dependent += 1;
                continue;
            };
            match self.prebuild(eal, PortStreamIndex(index), &template) {
                Ok(built) => {
                    built
                        .into_iter()
                        .for_each(|(worker, packets)| caches[worker].push((PortStreamIndex(index), Some(packets))));
                    next.get_or_insert_with(|| self.streams.to_vec())[index].template = template;
                    outcome.streams += 1;
                }
                Err(error) => outcome.without_memory = (outcome.without_memory.0 + 1, Some(error)),
            }
        }
        let Some(next) = next else { return };
        self.streams = next.into();
        for ((worker, known), new) in self.workers.iter().zip(caches) {
            let has_caches = known.iter().any(Option::is_some);
            send(*worker, New::Streams(NewStreams::new(self.port, &self.streams, has_caches, new)));
        }
    }

    /// Packets of a stream for the caches of workers, by position of the worker: all that it has, or none.
    fn prebuild(
        &self,
        eal: Eal,
        stream: PortStreamIndex,
        template: &Template,
    ) -> Result<Vec<(usize, Prebuilt)>, Error> {
        let caches =
            self.workers.iter().enumerate().filter_map(|(at, (_, caches))| Some((at, caches[stream.0].as_ref()?)));
        caches.map(|(at, cache)| Ok((at, cache.build(&eal, template)?))).collect()
    }
}

impl LinkOfPort {
    fn all(&self) -> impl Iterator<Item = (PortIndex, LinkNeighbor, Mac)> {
        let hops = self.hops.servers.values().chain(self.hops.others.iter().flatten());
        let of_clients = hops.filter_map(|hop| Some((self.port, LinkNeighbor::from(hop.neighbour?), hop.mac)));
        let of_pools = self.gateways.iter().filter_map(|gateway| Some((self.port, gateway.neighbor?, gateway.mac)));
        let router = |router: &Router| Some((self.port, LinkNeighbor::from(router.address), *router.macs.last()?));
        let of_servers = self.routers.iter().filter_map(router);
        of_clients.chain(of_pools).chain(of_servers)
    }

    fn follow(&mut self, moved: &Moved, send: &mut impl FnMut(WorkerIndex, New), outcomes: &mut Outcomes) {
        let mut changed = false;
        for hop in self.hops.servers.values_mut().chain(self.hops.others.iter_mut().flatten()) {
            let Some(to) = hop.neighbour.map(|neighbour| (self.port, LinkNeighbor::from(neighbour))) else { continue };
            let Some(mac) = moved.get(&to).filter(|mac| **mac != hop.mac) else { continue };
            hop.mac = *mac;
            outcomes.entry(to).or_default().flows = true;
            changed = true;
        }
        for gateway in &mut self.gateways {
            let Some(to) = gateway.neighbor.map(|neighbor| (self.port, neighbor)) else { continue };
            let Some(mac) = moved.get(&to).filter(|mac| **mac != gateway.mac) else { continue };
            gateway.mac = *mac;
            outcomes.entry(to).or_default().flows = true;
            changed = true;
        }
        for router in &mut self.routers {
            let to = (self.port, LinkNeighbor::from(router.address));
            let Some(mac) = moved.get(&to).filter(|mac| router.macs.last() != Some(*mac)) else { continue };
            if !router.macs.is_empty() {
                outcomes.entry(to).or_default().flows = true;
                changed = true;
            }
            router.macs.retain(|former| former != mac);
            router.macs.push(*mac);
            let forgotten = router.macs.len().saturating_sub(1 + FORMER_MACS);
            router.macs.drain(..forgotten);
        }
        if changed {
            let hops = self.of_flows();
            let gateways: Box<[GatewayMac]> = self.gateways.iter().copied().map(GatewayMac::from).collect();
            for worker in &self.workers {
                let (hops, gateways) = (hops.clone(), gateways.clone());
                send(*worker, New::Hops(NewNextHops { port: self.port, hops, gateways }));
            }
        }
    }

    /// Next hops of flows.
    fn of_flows(&self) -> FlowHops {
        let other = |v6: bool| {
            let known = self.hops.others[usize::from(v6)].map(|hop| hop.mac);
            let found = known.or_else(|| self.hops.most_frequent(|server| server.is_v6() == v6));
            found.unwrap_or(self.next_hop)
        };
        let others = [false, true].map(other);
        let servers = self.hops.servers.iter().map(|(server, hop)| (*server, hop.mac));
        let neighbours: Neighbours =
            servers.filter(|(server, mac)| others[usize::from(server.is_v6())] != *mac).collect();
        let router = |router: &Router| {
            let (mac, former) = router.macs.split_last().filter(|(_, former)| !former.is_empty())?;
            Some(MovedRouter { v6: router.address.is_ipv6(), mac: *mac, former: former.into() })
        };
        let moved = self.routers.iter().filter_map(router).collect();
        FlowHops { neighbours, others, moved, on_link: self.on_link.clone() }
    }
}

impl LinkHops {
    /// Servers of a pool, of which some have these neighbors, are at one MAC. It is followed if all have one neighbor, and those of other pools,
    /// too.
    pub(crate) fn add_others(&mut self, v6: bool, mac: Mac, neighbours: impl Iterator<Item = Option<IpAddr>>) {
        let known = &mut self.others[usize::from(v6)];
        let all: BTreeSet<_> = neighbours.chain(known.map(|hop| hop.neighbour)).collect();
        let neighbour = if all.len() == 1 { all.first().copied().flatten() } else { None };
        *known = Some(Hop { mac, neighbour });
    }

    /// The most frequent next hop of some servers.
    pub(crate) fn most_frequent(&self, of: impl Fn(Address) -> bool) -> Option<Mac> {
        let mut counts: BTreeMap<Mac, usize> = BTreeMap::new();
        let servers = self.servers.iter().filter(|(server, _)| of(**server));
        servers.for_each(|(_, hop)| *counts.entry(hop.mac).or_default() += 1);
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(mac, _)| mac)
    }
}

/// First and last address of each subnet of a port.
fn on_link(addresses: &[Prefix]) -> Box<[(Address, Address)]> {
    let link_local = Prefix { address: IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 0]), length: 10 };
    let range = |prefix: &Prefix| {
        let bits = if prefix.address.is_ipv4() { 32 } else { 128 } - u32::from(prefix.length);
        let (address, hosts) =
            (Address::from(prefix.address).0, 1u128.checked_shl(bits).map_or(u128::MAX, |end| end - 1));
        (Address(address & !hosts), Address(address | hosts))
    };
    addresses.iter().chain([&link_local]).map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::PoolIndex;
    use spate_net::vlan::Tags;

    const OLD: Mac = [2, 0, 0, 0, 0, 1];
    const NEW: Mac = [2, 0, 0, 0, 0, 2];

    fn v4(a: u8, b: u8) -> Address {
        Address::from(IpAddr::from([10, 9, a, b]))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn followed(hops: LinkHops, moved: &Moved) -> Vec<FlowHops> {
        new_hops(hops, &[], moved).into_iter().map(|new| new.hops).collect()
    }

    /// What the worker of port 0 gets when neighbors have moved, and then once more.
    fn new_hops(hops: LinkHops, gateways: &[PoolGateway], moved: &Moved) -> Vec<NewNextHops> {
        let routers = vec![Router { address: ip("10.9.0.254"), macs: vec![OLD] }];
        let on_link = on_link(&["10.9.0.1/24".parse().unwrap()]);
        let (port, workers, gateways) = (PortIndex(0), vec![WorkerIndex(3)], gateways.to_vec());
        let mut link = LinkOfPort { port, workers, hops, gateways, next_hop: OLD, routers, on_link };
        let mut sent = Vec::new();
        let mut send = |worker: WorkerIndex, new: New| match new {
            New::Hops(new) if (worker, new.port) == (WorkerIndex(3), PortIndex(0)) => sent.push(new),
            New::Hops(_) | New::Streams(_) => panic!("to another worker, or of another port"),
        };
        link.follow(moved, &mut send, &mut Outcomes::new());
        link.follow(moved, &mut send, &mut Outcomes::new());
        sent
    }

    #[test]
    fn the_gateway_of_a_pool_is_followed_in_its_own_tags() {
        let in_vlan = |vlan: u16| LinkNeighbor { tags: Some(Tags::from(Some(vlan))), address: ip("10.1.0.1") };
        let gateway = |pool, neighbor| PoolGateway { port: PortIndex(0), pool: PoolIndex(pool), mac: OLD, neighbor };
        let gateways = [
            gateway(0, Some(in_vlan(5))),
            gateway(2, Some(in_vlan(6))),
            gateway(4, Some(ip("10.1.0.1").into())),
            gateway(6, None),
        ];
        for (moved, pool) in [(in_vlan(5), 0), (in_vlan(6), 2), (ip("10.1.0.1").into(), 4)] {
            let moved = Moved::from([((PortIndex(0), moved), NEW)]);
            let sent = new_hops(LinkHops::default(), &gateways, &moved);
            assert_eq!(sent.len(), 1, "once");
            let macs: Vec<_> = sent[0].gateways.iter().map(|gateway| (gateway.pool, gateway.mac)).collect();
            assert_eq!(macs, [0, 2, 4, 6].map(|other| (other, if other == pool { NEW } else { OLD })));
        }
        let elsewhere = [(PortIndex(0), in_vlan(7)), (PortIndex(1), in_vlan(5))].map(|neighbor| (neighbor, NEW));
        assert!(new_hops(LinkHops::default(), &gateways, &Moved::from(elsewhere)).is_empty());
    }

    #[test]
    fn only_what_was_found_by_the_neighbour_that_moved_is_elsewhere_then() {
        let at = |neighbour: &str| Hop { mac: OLD, neighbour: Some(ip(neighbour)) };
        let servers =
            BTreeMap::from([(v4(0, 2), at("10.9.0.2")), (v4(0, 3), at("10.9.0.3")), (v4(0, 4), at("10.9.0.4"))]);
        let hops = LinkHops { servers, ..LinkHops::default() };
        let sent = followed(hops.clone(), &Moved::from([((PortIndex(0), ip("10.9.0.3").into()), NEW)]));
        assert_eq!(sent.len(), 1, "once");
        assert_eq!((&*sent[0].neighbours, sent[0].others), (&[(v4(0, 3), NEW)][..], [OLD, OLD]));
        assert!(sent[0].moved.is_empty());
        // On another port, and where it was.
        let elsewhere = [(1, "10.9.0.3", NEW), (0, "10.9.0.4", OLD), (0, "10.9.0.9", NEW)];
        let elsewhere = Moved::from(elsewhere.map(|(port, address, mac)| ((PortIndex(port), ip(address).into()), mac)));
        assert_eq!(followed(hops, &elsewhere), []);
    }

    #[test]
    fn the_next_hop_of_a_large_pool_is_followed_if_it_is_one_neighbour() {
        let gateway = || Some(ip("10.9.0.254"));
        let moved = Moved::from([((PortIndex(0), ip("10.9.0.254").into()), NEW)]);
        for (neighbours, others) in [
            (vec![gateway(), gateway()], [NEW, OLD]),
            (vec![gateway(), Some(ip("10.9.0.7"))], [OLD, OLD]),
            (vec![None], [OLD, OLD]),
        ] {
            let mut hops = LinkHops::default();
            hops.add_others(false, OLD, neighbours.into_iter());
            let sent = followed(hops, &moved);
            assert_eq!((sent.len(), sent[0].others), (1, others));
            // Servers follow the router in any case.
            let router = MovedRouter { v6: false, mac: NEW, former: [OLD].into() };
            assert_eq!(*sent[0].moved, [router]);
        }
    }

    #[test]
    fn a_subnet_is_on_the_link_and_so_are_link_local_addresses() {
        let all = on_link(&["10.9.0.1/23".parse().unwrap(), "2001:db8::1/64".parse().unwrap()]);
        let ends: Vec<_> = all.iter().map(|(first, last)| [*first, *last].map(IpAddr::from)).collect();
        let expected = [
            ["10.9.0.0", "10.9.1.255"],
            ["2001:db8::", "2001:db8::ffff:ffff:ffff:ffff"],
            ["fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
        ];
        assert_eq!(ends, expected.map(|pair| pair.map(ip)));
    }
}
