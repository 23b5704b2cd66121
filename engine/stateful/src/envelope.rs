// SPDX-License-Identifier: Apache-2.0
//! What stands around packets of client pools on the wire: VLAN tags, the MAC of a gateway of their own, a tunnel.
//!
//! It is a layer between flows and a port. Flows write and read Ethernet frames as they do without it. Everything about a client's
//! envelope is computed from its offset in its pool, so nothing is kept for it. Answers to requests about the path of a tunnel are all
//! that the layer sends of its own.
//!
//! Two choices for tunnels: the outer checksum of UDP is 0 over IPv4 (RFC 768) and computed over IPv6, where not every receiver takes
//! a 0 (RFC 6935). The outer IP header takes over the inner one's DSCP; its ECN bits are 0 (RFC 6040 section 4.1, compatibility
//! mode), as the way back into the inner header is not gone.
use std::sync::Arc;

use spate_net::{
    encap::{self, Carries, Encap, OuterFields},
    ethernet::{HEADER as ETHERNET, IPV4, IPV6, Link, MACS},
    field::be16,
    headers::{Headers, UDP, Version},
    ip::{Fixed, pseudo_header},
    ipv4,
    packet::Datagram,
    udp,
    vlan::Tags,
};

use crate::{
    Address, Neighbours, NextHops, Pool, PortLink, Scenario,
    counters::{Count, Counters},
    random::mix,
    tcp::Output,
    tunnel::{Answer, Kind, Malformed, Message, Over, TunnelDirection, Tunnels},
};

pub use crate::access::Access;

/// Requests about paths that wait for their answer, on a port.
const REQUESTS: usize = 64;
/// Longest packet in a tunnel.
const MAX_INNER: usize = 1 << 14;

/// Bytes that envelopes add to packets of a pool's clients, or of servers to them; `looped`: these are on one loopback port.
pub fn overhead(pool: &Pool, of_clients: bool, looped: bool) -> usize {
    let tunnels = pool.tunnels.filter(|tunnels| of_clients || tunnels.mirror);
    let tags = pool.access.tags.filter(|_| of_clients || looped || pool.access.mirror);
    tunnels
        .map_or(Encap::NONE, |tunnels| tunnels.encap(TunnelDirection::Up))
        .within(tags.unwrap_or_default())
        .overhead()
}

/// The MAC of the gateway of a pool's clients on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayMac {
    /// Index of the port.
    pub port: usize,
    /// Index of the pool.
    pub pool: usize,
    /// The MAC.
    pub mac: [u8; 6],
}

/// What is known of ports and of their links, by the ports' index in the engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ports<'a> {
    /// Their MACs and next hops.
    pub links: &'a [PortLink],
    /// Peers that are reached without the next hop.
    pub neighbours: &'a [Neighbours],
    /// Gateways of pools; frames go to the next hop of a port where none is given.
    pub gateways: &'a [GatewayMac],
    /// The tags of a port's own frames; beyond the end: none.
    pub tags: &'a [Tags],
    /// Ports that see the outermost tag of received frames as a customer's, whatever it was; beyond the end: none.
    pub outer_ethertype_lost: &'a [bool],
    /// Servers are met in all envelopes, mirrored or not.
    pub mirrored: bool,
}

impl Ports<'_> {
    fn tags(&self, port: usize) -> Tags {
        self.tags.get(port).copied().unwrap_or_default()
    }

    /// The MAC that frames of a pool's clients go to; none: the one that flows write.
    fn next_hop(&self, port: usize, index: usize, pool: &Pool) -> Option<[u8; 6]> {
        let gateway = self.gateways.iter().find(|gateway| (gateway.port, gateway.pool) == (port, index));
        if let Some(gateway) = gateway {
            return Some(gateway.mac);
        }
        let next_hop = self.links[port].next_hop;
        if pool.access.gateway.is_some() {
            return Some(next_hop);
        }
        let remote = pool.tunnels?.remote;
        let near = self.neighbours.get(port).map_or(&[][..], |near| &near[..]);
        let found = near.binary_search_by_key(&remote, |(address, _)| *address);
        Some(found.map_or(next_hop, |found| near[found].1))
    }
}

/// Outer addresses of what arrived in a tunnel: source, destination. None where there is no outer IP header.
type Outer = Option<(Address, Address)>;

/// The envelopes of a pool's clients, at the clients' port or at the port of mirrored servers.
#[derive(Debug)]
struct End {
    /// The pool's index in the scenario.
    place: usize,
    pool: Pool,
    tunnels: Option<Tunnels>,
    tags: Tags,
    /// Around what it sends: the tags, and the tunnel in them.
    encap: Encap,
    /// Direction of what the end sends: `Up` is the clients' end, `Down` the servers'.
    sends: TunnelDirection,
    /// MAC that it sends to; none: the flow knows it.
    next_hop: Option<[u8; 6]>,
    /// MAC that frames in its tunnels go to; none: the flow knows it.
    inner_gateway: Option<[u8; 6]>,
    /// Counters of the side of the first template that has the pool.
    counters: Arc<Counters>,
}

impl End {
    /// Which address of a packet inside is the client's.
    #[inline]
    fn client(&self, way: TunnelDirection, source: Address, destination: Address) -> Option<u128> {
        self.pool.contains(if way == TunnelDirection::Up { source } else { destination })
    }

    /// Whether its tunnels follow Ethernet, with this EtherType.
    #[inline]
    fn is_on_link(&self, ethertype: u16) -> bool {
        self.tunnels.is_some_and(|tunnels| tunnels.kind.tunnelling().over() == Over::Link(ethertype))
    }

    /// Whether an outer address is its tunnels'.
    #[inline]
    fn is_at(&self, address: Address) -> bool {
        self.tunnels.is_some_and(|tunnels| {
            let is_its = match self.sends {
                TunnelDirection::Up => (tunnels.local..=tunnels.last_near_end()).contains(&address),
                TunnelDirection::Down => tunnels.remote == address,
            };
            is_its && !matches!(tunnels.kind.tunnelling().over(), Over::Link(_))
        })
    }

    /// Whether outer addresses are those of what it receives. Several pools may have the same remote end.
    #[inline]
    fn is_between(&self, source: Address, destination: Address) -> bool {
        let near = |address| self.tunnels.is_some_and(|t| (t.local..=t.last_near_end()).contains(&address));
        self.is_at(destination) && (self.sends == TunnelDirection::Up || near(source))
    }

    /// Direction of what the end receives.
    #[inline]
    fn receives(&self) -> TunnelDirection {
        if self.sends == TunnelDirection::Up { TunnelDirection::Down } else { TunnelDirection::Up }
    }

    /// Whether a client's packets come to it between these addresses in a tunnel with this identifier.
    fn is_tunnel_of(&self, client: u128, id: Option<u32>, outer: Outer) -> bool {
        self.tunnels.is_some_and(|tunnels| {
            let near = tunnels.near_end(client);
            tunnels.is_id(self.receives(), client, id)
                && outer.is_none_or(|(source, destination)| match self.sends {
                    // The remote end may send from another address than it receives at.
                    TunnelDirection::Up => destination == near,
                    TunnelDirection::Down => source == near,
                })
        })
    }

    /// Counters of packets that the end does not take.
    fn counts(&self) -> Option<(Count, Count)> {
        self.tunnels.map(|tunnels| tunnels.kind.tunnelling().counts())
    }

    /// As which it counts packets that come in no tunnel; none: it takes them.
    fn counts_outside(&self) -> Option<Count> {
        let inside = self.tunnels.filter(|tunnels| !tunnels.receives_without(self.sends))?;
        Some(inside.kind.tunnelling().counts().0)
    }
}

/// A range of clients and their ends on a port, by index.
#[derive(Clone, Copy, Debug)]
struct Clients {
    first: Address,
    last: Address,
    up: Option<usize>,
    down: Option<usize>,
}

/// A request to be answered.
#[derive(Clone, Copy, Debug)]
struct Request {
    end: usize,
    /// MACs of the answer.
    macs: [u8; MACS],
    source: Address,
    destination: Address,
    /// UDP ports of the answer: source, destination.
    ports: (u16, u16),
    answer: Answer,
}

#[derive(Debug, Default)]
struct Port {
    ends: Vec<End>,
    /// Clients in ascending order of addresses.
    clients: Vec<Clients>,
    /// Some end has tunnels.
    tunnelled: bool,
    /// Some end has other tags than the port.
    in_vlans: bool,
    tags: Tags,
    outer_ethertype_lost: bool,
    /// Around frames of others than these clients: the port's tags.
    plain: Option<Encap>,
    /// Most bytes that a packet becomes longer.
    gap: usize,
    mac: [u8; 6],
    requests: Vec<Request>,
}

/// Result of removing the envelope of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// The frame came through no tunnel, and is received as it is.
    Plain,
    /// The frame is handled.
    Done,
    /// The frame within the tunnel of its client, as it would have come without.
    Inner(&'a [u8]),
}

/// All envelopes of a scenario, as a worker has them.
#[derive(Debug)]
pub struct Envelopes {
    /// Ports, by index in the engine.
    ports: Vec<Port>,
    /// The frame that was received last, without its envelope.
    inner: Vec<u8>,
}

impl Envelopes {
    /// The envelopes of a scenario: at its clients' ports, and at its servers' where they are mirrored. None if no pool has any.
    /// What happens to them is counted at a side of a template (its index, and whether it is the clients').
    pub fn new(
        scenario: &Scenario,
        known: &Ports<'_>,
        counters: impl Fn(usize, bool) -> Arc<Counters>,
    ) -> Option<Box<Self>> {
        let port = |(port, link): (usize, &PortLink)| Port {
            mac: link.mac,
            tags: known.tags(port),
            outer_ethertype_lost: known.outer_ethertype_lost.get(port).copied().unwrap_or_default(),
            ..Port::default()
        };
        let mut ports: Vec<Port> = known.links.iter().enumerate().map(port).collect();
        for (index, template) in scenario.templates.iter().enumerate() {
            let (client, server) = (template.client.as_ref(), template.server.as_ref());
            for place in template.clients.iter().map(|weighted| weighted.pool) {
                let pool = &scenario.pools[place];
                let met_in_tags = pool.access.mirror || template.looped || known.mirrored;
                let mirrors_tags = pool.access.tags.is_some() && met_in_tags;
                let mirrors_tunnels = pool.tunnels.is_some_and(|tunnels| tunnels.mirror || known.mirrored);
                if let Some(port) = client.map(|client| client.port)
                    && pool.has_envelope()
                {
                    let (access, tunnels) = (pool.access, pool.tunnels);
                    let inner = tunnels.filter(|_| !mirrors_tunnels).and_then(|t| t.kind.tunnelling().inner_gateway());
                    let macs = (known.next_hop(port, place, pool), inner);
                    ports[port].add(
                        (place, pool),
                        TunnelDirection::Up,
                        access.tags,
                        tunnels,
                        macs,
                        counters(index, true),
                    );
                }
                if let Some(port) = server.map(|server| server.port)
                    && (mirrors_tags || mirrors_tunnels)
                {
                    let tags = pool.access.tags.filter(|_| mirrors_tags);
                    let tunnels = pool.tunnels.filter(|_| mirrors_tunnels);
                    // A flow knows the MAC of a client, which in such tunnels is not that of whom frames come from.
                    let in_frames = tunnels.is_some_and(|tunnels| tunnels.carries() == Carries::Frame);
                    let macs = (in_frames.then(|| known.links[port].next_hop), None);
                    ports[port].add((place, pool), TunnelDirection::Down, tags, tunnels, macs, counters(index, false));
                }
            }
        }
        ports.iter_mut().for_each(Port::complete);
        let any = ports.iter().any(Port::has_ends);
        any.then(|| Box::new(Self { ports, inner: Vec::with_capacity(MAX_INNER) }))
    }

    /// Tunnels of a port's clients lead there from now on. Those of pools with a gateway lead to that still.
    pub fn set_next_hops(&mut self, port: usize, hops: &NextHops) {
        for end in self.ports[port].ends.iter_mut().filter(|end| end.sends == TunnelDirection::Up) {
            if let Some(tunnels) = end.tunnels
                && end.pool.access.gateway.is_none()
            {
                end.next_hop = Some(hops.towards(tunnels.remote));
            }
        }
    }

    /// Frames of clients with these gateways on a port go to their MACs from now on.
    pub fn set_gateways(&mut self, port: usize, gateways: &[GatewayMac]) {
        for end in self.ports[port].ends.iter_mut().filter(|end| end.sends == TunnelDirection::Up) {
            let of_pool = |gateway: &&GatewayMac| (gateway.port, gateway.pool) == (port, end.place);
            if let Some(gateway) = gateways.iter().find(of_pool) {
                end.next_hop = Some(gateway.mac);
            }
        }
    }

    /// Whether a port has envelopes.
    #[inline]
    pub fn are_on(&self, port: usize) -> bool {
        self.ports[port].has_ends()
    }

    /// Whether a port has tunnels, in which devices find neither segments nor their checksums.
    #[inline]
    pub fn are_tunnels_on(&self, port: usize) -> bool {
        self.ports[port].tunnelled
    }

    /// Whether any are in other VLANs than their port.
    pub fn are_in_vlans(&self) -> bool {
        self.ports.iter().any(|port| port.in_vlans)
    }

    /// Bytes to leave before each frame that flows write for a port.
    #[inline]
    pub fn gap(&self, port: usize) -> usize {
        self.ports[port].gap
    }

    /// Whether requests are to be answered on a port.
    #[inline]
    pub fn has_answers(&self, port: usize) -> bool {
        !self.ports[port].requests.is_empty()
    }

    /// Whether requests are to be answered on any port.
    #[inline]
    pub fn has_any_answers(&self) -> bool {
        self.ports.iter().any(|port| !port.requests.is_empty())
    }

    /// Puts a frame that a flow wrote for a port, behind a gap, into its client's envelope, or that of the port. Gives its length: it
    /// begins with the gap's first byte then.
    pub fn encapsulate(&self, port: usize, frame: &mut [u8]) -> usize {
        let port = &self.ports[port];
        let len = frame.len();
        let start = match port.envelope_of(&frame[port.gap..]) {
            Some((end, around)) => {
                if let Some(mac) = end.inner_gateway {
                    frame[port.gap..port.gap + mac.len()].copy_from_slice(&mac);
                }
                let start = port.gap - end.encap.overhead();
                end.encap.write(&mut frame[start..], &around);
                start
            }
            None => {
                let start = port.gap - port.plain.map_or(0, |plain| plain.overhead());
                if let Some(plain) = port.plain {
                    plain.write_tags(&mut frame[start..]);
                }
                start
            }
        };
        if start > 0 {
            frame.copy_within(start.., 0);
        }
        len - start
    }

    /// Writes answers to requests that came to a port, as long as there is room.
    pub fn answer(&mut self, port: usize, out: &mut impl Output) {
        let port = &mut self.ports[port];
        while let Some(request) = port.requests.last() {
            let end = &port.ends[request.end];
            if !request.answer(end.tags, out) {
                return;
            }
            end.counters.one(request.answer.count);
            port.requests.pop();
        }
    }

    /// Whether a frame without FCS that arrived on a port has the tags of the client that it is for, or from; those of the port if it is
    /// of none of these.
    pub fn is_in_its_vlan(&self, port: usize, frame: &[u8]) -> bool {
        let port = &self.ports[port];
        let expected = if port.in_vlans { port.expected(frame) } else { port.tags };
        let seen = if port.outer_ethertype_lost { expected.with_customer_outermost() } else { expected };
        Tags::of(frame) == Some(seen)
    }

    /// Takes a frame without FCS that arrived on a port with envelopes, in its VLAN.
    pub fn receive(&mut self, port: usize, frame: &[u8]) -> Arrival<'_> {
        let port = &mut self.ports[port];
        if !port.tunnelled {
            return Arrival::Plain;
        }
        let Some(headers) = Headers::find(frame) else { return Arrival::Plain };
        let (source, destination) = (headers.source(frame), headers.destination(frame));
        if headers.version == Version::V6 && !(source.is_v6() && destination.is_v6()) {
            return Arrival::Plain;
        }
        let on_link = port.end_on_link(headers.link.ethertype, source, destination);
        let Some(first) = on_link.or_else(|| port.tunnel_end(source, destination)) else {
            let outside = port.clients_of(source, destination).map(|end| &port.ends[end]);
            let Some(unknown) = outside.and_then(End::counts_outside) else { return Arrival::Plain };
            return port.drop(outside, unknown);
        };
        let end = &port.ends[first];
        let Some(Tunnels { kind, .. }) = end.tunnels else { return Arrival::Plain };
        let Some((unknown, malformed)) = end.counts() else { return Arrival::Plain };
        let (message, from) = match read(frame, &headers, &kind) {
            Ok(Some(read)) => read,
            Ok(None) => return Arrival::Plain,
            Err(Malformed) => return port.drop(Some(end), malformed),
        };
        match message {
            Message::Carried { id, data } => {
                let Some(inner) = packet_in(&kind, data).filter(|_| data.len() <= MAX_INNER - ETHERNET) else {
                    return port.drop(Some(end), malformed);
                };
                let outer = if on_link.is_some() { None } else { Some((source, destination)) };
                let clients = match outer {
                    Some((_, destination)) => port.end_of(destination, inner.source, inner.destination),
                    None => end.client(end.receives(), inner.source, inner.destination).map(|client| (end, client)),
                };
                match clients {
                    Some((end, client)) if !end.is_tunnel_of(client, id, outer) => {
                        return port.drop(Some(end), unknown);
                    }
                    None => return port.drop(Some(end), unknown),
                    Some(_) => {}
                }
                if kind.tunnelling().carries() == Carries::Frame {
                    self.inner.clear();
                    self.inner.extend_from_slice(data);
                    return Arrival::Inner(&self.inner);
                }
                // The MACs are the link's.
                match frame.first_chunk() {
                    Some(macs) if encap::strip(macs, data, &mut self.inner) => Arrival::Inner(&self.inner),
                    _ => port.drop(Some(end), malformed),
                }
            }
            Message::Request(answer) => {
                if port.requests.len() < REQUESTS {
                    let mut macs = [0; MACS];
                    macs[..6].copy_from_slice(&frame[6..MACS]);
                    macs[6..].copy_from_slice(&port.mac);
                    let ports = (kind.port(), from);
                    let (source, destination) = (destination, source);
                    port.requests.push(Request { end: first, macs, source, destination, ports, answer });
                }
                Arrival::Done
            }
            Message::Other(count) => port.drop(Some(end), count),
        }
    }
}

impl Port {
    fn has_ends(&self) -> bool {
        !self.ends.is_empty()
    }

    fn add(
        &mut self,
        (place, pool): (usize, &Pool),
        sends: TunnelDirection,
        tags: Option<Tags>,
        tunnels: Option<Tunnels>,
        (next_hop, inner_gateway): (Option<[u8; 6]>, Option<[u8; 6]>),
        counters: Arc<Counters>,
    ) {
        let tags = tags.unwrap_or(self.tags);
        let encap = tunnels.map_or(Encap::NONE, |tunnels| tunnels.encap(sends)).within(tags);
        let pool = pool.clone();
        let end = End { place, pool, tunnels, tags, encap, sends, next_hop, inner_gateway, counters };
        // Templates may have the same clients.
        let is_there = |e: &End| e.sends == end.sends && e.tags == tags && e.tunnels == tunnels && e.pool == end.pool;
        if !self.ends.iter().any(is_there) {
            self.ends.push(end);
        }
    }

    /// All ends are there.
    fn complete(&mut self) {
        if self.ends.is_empty() {
            return;
        }
        self.plain = Some(Encap::NONE.within(self.tags)).filter(|_| !self.tags.is_empty());
        let longest = self.ends.iter().map(|end| &end.encap).chain(&self.plain).map(Encap::overhead).max();
        self.gap = longest.unwrap_or(0);
        self.tunnelled = self.ends.iter().any(|end| end.tunnels.is_some());
        self.in_vlans = self.ends.iter().any(|end| end.tags != self.tags);
        if self.tunnelled {
            self.requests.reserve(REQUESTS);
        }
        for (index, end) in self.ends.iter().enumerate() {
            let [first, last] = [0, end.pool.last_offset()].map(|offset| end.pool.address(offset));
            let known = self.clients.iter_mut().position(|clients| (clients.first, clients.last) == (first, last));
            let at = known.unwrap_or_else(|| {
                self.clients.push(Clients { first, last, up: None, down: None });
                self.clients.len() - 1
            });
            let clients = &mut self.clients[at];
            let place = if end.sends == TunnelDirection::Up { &mut clients.up } else { &mut clients.down };
            place.get_or_insert(index);
        }
        self.clients.sort_unstable_by_key(|clients| clients.first);
    }

    #[inline]
    fn clients(&self, address: Address) -> Option<&Clients> {
        let above = self.clients.partition_point(|clients| clients.first <= address);
        self.clients[..above].last().filter(|clients| address <= clients.last)
    }

    /// The end of the client that a packet without a tunnel is for, or from.
    #[inline]
    fn clients_of(&self, source: Address, destination: Address) -> Option<usize> {
        let here = self.clients(destination).and_then(|clients| clients.up);
        here.or_else(|| self.clients(source)?.down)
    }

    /// The end of the tunnels that follow Ethernet, with this EtherType, of the client that a packet is for, or from.
    #[inline]
    fn end_on_link(&self, ethertype: u16, source: Address, destination: Address) -> Option<usize> {
        // IP itself is no tunnel, and most packets are that.
        let behind = !matches!(ethertype, IPV4 | IPV6);
        behind.then(|| self.clients_of(source, destination))?.filter(|end| self.ends[*end].is_on_link(ethertype))
    }

    /// The end of the tunnels that a packet between outer addresses is of; one that is at the destination if it comes from elsewhere.
    #[inline]
    fn tunnel_end(&self, source: Address, destination: Address) -> Option<usize> {
        let of = self.ends.iter().position(|end| end.is_between(source, destination));
        of.or_else(|| self.ends.iter().position(|end| end.is_at(destination)))
    }

    /// The tags that a frame has to have.
    fn expected(&self, frame: &[u8]) -> Tags {
        let Some(headers) = Headers::find(frame) else { return self.tags };
        let (source, destination) = (headers.source(frame), headers.destination(frame));
        let end = if self.tunnelled { self.tunnel_end(source, destination) } else { None };
        end.map(|end| &self.ends[end])
            .or_else(|| self.clients_of(source, destination).map(|end| &self.ends[end]))
            .map_or(self.tags, |end| end.tags)
    }

    /// Counts what is not taken.
    fn drop(&self, end: Option<&End>, count: Count) -> Arrival<'static> {
        if let Some(end) = end {
            end.counters.one(count);
        }
        Arrival::Done
    }

    /// The envelope of a frame of ours: one client's.
    #[inline]
    fn envelope_of(&self, frame: &[u8]) -> Option<(&End, OuterFields)> {
        let packet = frame.get(ETHERNET..)?;
        let Fixed { source, destination, traffic_class, header, .. } = Fixed::read(packet)?;
        let up = self.clients(source).and_then(|clients| clients.up);
        let end = &self.ends[up.or_else(|| self.clients(destination)?.down)?];
        let mut macs = *frame.first_chunk::<MACS>()?;
        // Frames to a group have its MAC.
        if let Some(next_hop) = end.next_hop.filter(|_| macs[0] & 1 == 0 || end.tunnels.is_some()) {
            macs[..6].copy_from_slice(&next_hop);
        }
        let Some(tunnels) = end.tunnels else {
            let (ports, id, flow_label) = ((0, 0), 0, 0);
            return Some((end, OuterFields { macs, source, destination, ports, id, traffic_class, flow_label }));
        };
        macs[6..].copy_from_slice(&self.mac);
        let client = end.client(end.sends, source, destination)?;
        let ports = packet.get(header..)?.first_chunk::<4>().map_or(0, |ports| u32::from_be_bytes(*ports));
        let (low, high) = (source.0 ^ destination.0.rotate_left(37), u64::from(ports));
        // The hash of the endpoints.
        let hash = mix(low as u64 ^ mix((low >> 64) as u64 ^ mix(high)));
        let near = tunnels.near_end(client);
        let (source, destination) = match end.sends {
            TunnelDirection::Up => (near, tunnels.remote),
            TunnelDirection::Down => (tunnels.remote, near),
        };
        let around = OuterFields {
            macs,
            source,
            destination,
            // Dynamic ports (RFC 6335 section 6): so routers spread flows (TS 29.281 section 4.4.2.0, RFC 7348 section 5).
            ports: (0xc000 | (hash >> 50) as u16, tunnels.kind.port()),
            id: tunnels.id(end.sends, client),
            traffic_class: traffic_class & 0xfc,
            flow_label: hash as u32 & 0xf_ffff,
        };
        Some((end, around))
    }

    /// The end at an outer address that has the client of a packet, and the client.
    fn end_of(&self, outer: Address, source: Address, destination: Address) -> Option<(&End, u128)> {
        let up = self.clients(destination).and_then(|clients| clients.up);
        let down = self.clients(source).and_then(|clients| clients.down);
        let end = [up, down].into_iter().flatten().map(|end| &self.ends[end]).find(|end| end.is_at(outer))?;
        Some((end, end.client(end.receives(), source, destination)?))
    }
}

impl Request {
    /// Writes the answer, in these tags. False if there is no room.
    fn answer(&self, tags: Tags, out: &mut impl Output) -> bool {
        let encap = Encap::over_udp(self.source.is_v6(), Carries::Packet, &self.answer.message).within(tags);
        let Some(frame) = out.frame(ETHERNET + encap.overhead()) else { return false };
        encap.write(
            frame,
            &OuterFields {
                macs: self.macs,
                source: self.source,
                destination: self.destination,
                ports: self.ports,
                id: 0,
                traffic_class: 0,
                flow_label: 0,
            },
        );
        true
    }
}

/// The IP header of what a tunnel carries.
fn packet_in(kind: &Kind, data: &[u8]) -> Option<Fixed> {
    if kind.tunnelling().carries() == Carries::Packet {
        return Fixed::read(data);
    }
    let Link { ethertype: IPV4 | IPV6, end, .. } = Link::find(data)? else { return None };
    Fixed::read(&data[end..])
}

/// The message of a frame to a tunnel's end, and the UDP port that it is from; none if it is something else.
fn read<'a>(frame: &'a [u8], headers: &Headers, kind: &Kind) -> Result<Option<(Message<'a>, u16)>, Malformed> {
    let over = kind.tunnelling().over();
    let (protocol, port) = match over {
        Over::Udp(port) => (UDP, Some(port)),
        Over::Ip(protocol) => (protocol, None),
        Over::Link(_) => {
            // Bytes behind the packet are padding.
            let message = frame.get(headers.link.end..headers.packet_end(frame)).ok_or(Malformed)?;
            return Ok(Some((kind.tunnelling().read(message)?, 0)));
        }
    };
    let at = match headers.transport {
        Some((found, at)) if found == protocol => at,
        // A later fragment does not have its protocol.
        None if headers.fragment => return Err(Malformed),
        _ => return Ok(None),
    };
    let body = frame.get(at..headers.packet_end(frame)).ok_or(Malformed)?;
    if port.is_some() && body.len() < udp::HEADER {
        return Err(Malformed);
    }
    if port.is_some_and(|port| be16(body, 2) != port) {
        return Ok(None);
    }
    let v4 = headers.version == Version::V4;
    if headers.fragment || v4 && !ipv4::is_header_right(&frame[headers.at..headers.end]) {
        return Err(Malformed);
    }
    if port.is_none() {
        return Ok(Some((kind.tunnelling().read(body)?, 0)));
    }
    let pseudo = pseudo_header(headers.source(frame), headers.destination(frame), UDP, body.len());
    // The datagram may have no checksum: RFC 768, and over IPv6 as tunnels may (RFC 6935).
    let datagram = Datagram::read(body, pseudo, false).map_err(|_| Malformed)?;
    Ok(Some((kind.tunnelling().read(datagram.payload)?, datagram.source_port)))
}
