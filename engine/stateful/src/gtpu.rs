// SPDX-License-Identifier: Apache-2.0
//! GTP-U (3GPP TS 29.281): packets of clients leave through tunnels, one for each client, and come in through them.
//!
//! It is a layer between flows and a port. Flows write and read Ethernet frames as they do without it; the port's frames carry
//! their IP packets: Ethernet, outer IP, UDP, GTP-U, inner IP. A client's tunnel is computed from its place in its pool, so
//! nothing is kept for it. Answers to echo requests are all that it sends of its own.
//!
//! Two choices: the outer checksum of UDP is 0 over IPv4 (RFC 768) and computed over IPv6, where not every receiver takes a 0
//! (RFC 6935). The outer IP header takes over the inner one's DSCP; its ECN bits are 0 (RFC 6040 section 4.1, compatibility
//! mode), as the way back into the inner header is not gone.
use std::sync::Arc;

use spate_net::{
    encap::{self, Around, Carries, Encap},
    ethernet::{HEADER as ETHERNET, MACS},
    field::be16,
    gtpu::{EXTENDED, Malformed, Message, NUMBERED, OPTIONAL, SESSION_CONTAINER, VERSION_1},
    headers::{Headers, UDP, Version},
    ip::{Fixed, pseudo_header},
    ipv4,
    packet::Datagram,
    udp,
};

pub use spate_net::gtpu::PORT;

use crate::{
    Address, Neighbours, Pool, PortLink, Scenario,
    counters::{Count, Counters},
    random::mix,
    tcp::Output,
};

/// Types of messages (TS 29.281 section 6.1).
const ECHO_REQUEST: u8 = 1;
const ECHO_RESPONSE: u8 = 2;
const ERROR_INDICATION: u8 = 26;
const END_MARKER: u8 = 254;
const G_PDU: u8 = 255;
/// Information element of echo responses; its value is always 0 (TS 29.281 section 8.2).
const RECOVERY: [u8; 2] = [14, 0];
/// Echo requests that wait for their answer, on a port.
const ECHOES: usize = 64;
/// Longest packet in a tunnel.
const LONGEST: usize = 1 << 14;

/// Tunnels between gNBs and a UPF: one for each client of a pool, by its offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnels {
    /// The first gNB's address.
    pub local: Address,
    /// So many gNBs, at addresses from the first on: clients take turns at them. At least 1.
    pub local_count: u32,
    /// The UPF's address, of the same family.
    pub remote: Address,
    /// TEID of what the first client sends, and of what comes for it.
    pub uplink: u32,
    /// See `uplink`.
    pub downlink: u32,
    /// From one client's TEIDs to the next one's.
    pub step: u32,
    /// QoS flow identifier of a PDU session container; none: there is no such header.
    pub qfi: Option<u8>,
    /// Servers that are emulated here are met through the tunnels too.
    pub mirror: bool,
}

impl Tunnels {
    /// What stands around packets in the tunnels; on the way down only the type of the session container differs.
    pub fn encap(&self) -> Encap {
        self.encap_of(Way::Up)
    }

    fn encap_of(&self, way: Way) -> Encap {
        // The container's type: 0 of downlink, 1 of uplink.
        let kind = if way == Way::Up { 0x10 } else { 0 };
        let session = self.qfi.map(|qfi| [0, 0, 0, SESSION_CONTAINER, 1, kind, qfi & 0x3f, 0]);
        let flags = VERSION_1 | if session.is_some() { EXTENDED } else { 0 };
        let mut header = vec![flags, G_PDU, 0, 0, 0, 0, 0, 0];
        header.extend(session.into_iter().flatten());
        Encap::over_udp(self.remote.is_v6(), Carries::Packet, &header).with_fields(2, 4)
    }

    /// The address of the gNB that the client at an offset is behind.
    #[inline]
    pub fn gnb(&self, client: u128) -> Address {
        Address(self.local.0 + client % u128::from(self.local_count.max(1)))
    }

    /// The address of the last gNB.
    pub fn last_gnb(&self) -> Address {
        Address(self.local.0 + u128::from(self.local_count.max(1) - 1))
    }

    /// The TEID at an offset.
    #[inline]
    fn teid(&self, way: Way, client: u128) -> u32 {
        let first = if way == Way::Up { self.uplink } else { self.downlink };
        first.wrapping_add(self.step.wrapping_mul(client as u32))
    }
}

/// Towards the UPF, or towards the gNBs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// One end of a pool's tunnels, on a port.
#[derive(Debug)]
struct End {
    pool: Pool,
    tunnels: Tunnels,
    /// Around what it sends.
    encap: Encap,
    /// Of what it sends: `Up` is the gNBs' end, `Down` the UPF's.
    sends: Way,
    /// MAC of whom the UPF is reached by; none: the flow knows it, as it answers.
    next_hop: Option<[u8; 6]>,
    /// Of the side of the first template that has it.
    counters: Arc<Counters>,
}

impl End {
    /// Which address of a packet inside is the client's.
    #[inline]
    fn client(&self, way: Way, source: Address, destination: Address) -> Option<u128> {
        self.pool.contains(if way == Way::Up { source } else { destination })
    }

    /// Whether an outer address is its own.
    #[inline]
    fn is_at(&self, address: Address) -> bool {
        match self.sends {
            Way::Up => (self.tunnels.local..=self.tunnels.last_gnb()).contains(&address),
            Way::Down => self.tunnels.remote == address,
        }
    }

    /// Of what it receives.
    #[inline]
    fn receives(&self) -> Way {
        if self.sends == Way::Up { Way::Down } else { Way::Up }
    }

    /// Whether a client's packets come to it between these addresses in a tunnel.
    fn is_tunnel_of(&self, client: u128, message: &Message<'_>, source: Address, destination: Address) -> bool {
        let gnb = self.tunnels.gnb(client);
        message.teid == self.tunnels.teid(self.receives(), client)
            && match self.sends {
                // The UPF may send from another address than it receives at.
                Way::Up => destination == gnb,
                Way::Down => source == gnb,
            }
    }
}

/// An echo request to be answered.
#[derive(Clone, Copy, Debug)]
struct Echo {
    end: usize,
    /// Of the answer.
    macs: [u8; MACS],
    source: Address,
    destination: Address,
    port: u16,
    sequence: u16,
}

#[derive(Debug, Default)]
struct Port {
    ends: Vec<End>,
    /// Most bytes that a packet becomes longer.
    gap: usize,
    mac: [u8; 6],
    echoes: Vec<Echo>,
}

/// What a frame is to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// None of its packets: it goes on as it is.
    Plain,
    /// Nothing is to be done with it any more.
    Done,
    /// It came through the tunnel of its client: a frame as it would have come without.
    Inner(&'a [u8]),
}

/// All tunnels of a scenario, as a worker has them.
#[derive(Debug)]
pub struct Gateway {
    /// By their index in the engine.
    ports: Vec<Port>,
    /// What came last.
    inner: Vec<u8>,
}

impl Gateway {
    /// The tunnels of a scenario on ports of the engine, by their index: the gNBs' ends at its clients' ports, and the UPF's at
    /// its servers' where they are mirrored, or if all are. None if no pool has any. What happens to them is counted at a side
    /// of a template (its index, and whether it is the clients').
    pub fn new(
        scenario: &Scenario,
        links: &[PortLink],
        neighbours: &[Neighbours],
        all_mirrored: bool,
        counters: impl Fn(usize, bool) -> Arc<Counters>,
    ) -> Option<Box<Self>> {
        let mut ports: Vec<Port> = links.iter().map(|link| Port { mac: link.mac, ..Port::default() }).collect();
        for (index, template) in scenario.templates.iter().enumerate() {
            for pool in template.clients.iter().map(|weighted| &scenario.pools[weighted.pool]) {
                let Some(tunnels) = pool.tunnels else { continue };
                let client = template.client.as_ref().map(|client| (client.port, Way::Up));
                let server = template.server.as_ref().filter(|_| tunnels.mirror || all_mirrored);
                for (at, sends) in client.into_iter().chain(server.map(|server| (server.port, Way::Down))) {
                    let next_hop = (sends == Way::Up).then(|| {
                        let near = neighbours.get(at).map_or(&[][..], |near| &near[..]);
                        let found = near.binary_search_by_key(&tunnels.remote, |(address, _)| *address);
                        found.map_or(links[at].next_hop, |found| near[found].1)
                    });
                    let counters = counters(index, sends == Way::Up);
                    let encap = tunnels.encap_of(sends);
                    ports[at].add(End { pool: pool.clone(), tunnels, encap, sends, next_hop, counters });
                }
            }
        }
        let any = ports.iter().any(|port| port.gap > 0);
        any.then(|| Box::new(Self { ports, inner: Vec::with_capacity(LONGEST) }))
    }

    /// Bytes to leave before each frame that flows write for a port; 0: it has no tunnels.
    #[inline]
    pub fn gap(&self, port: usize) -> usize {
        self.ports[port].gap
    }

    /// Whether echo requests are to be answered on a port.
    #[inline]
    pub fn owes(&self, port: usize) -> bool {
        !self.ports[port].echoes.is_empty()
    }

    /// Whether they are on any.
    #[inline]
    pub fn owes_any(&self) -> bool {
        self.ports.iter().any(|port| !port.echoes.is_empty())
    }

    /// Puts a frame that a flow wrote for a port, behind a gap, into its client's tunnel. Gives its length: it begins with the
    /// gap's first byte then. One of no client with a tunnel is moved there as it is.
    pub fn encapsulate(&self, port: usize, frame: &mut [u8]) -> usize {
        let port = &self.ports[port];
        let len = frame.len();
        let Some((encap, around)) = port.tunnel_of(&frame[port.gap..]) else {
            frame.copy_within(port.gap.., 0);
            return len - port.gap;
        };
        let start = port.gap - encap.overhead();
        encap.write(&mut frame[start..], &around);
        if start > 0 {
            frame.copy_within(start.., 0);
        }
        len - start
    }

    /// Writes answers to echo requests that came to a port, as long as there is room.
    pub fn answer(&mut self, port: usize, out: &mut impl Output) {
        let port = &mut self.ports[port];
        while let Some(echo) = port.echoes.last() {
            if !echo.answer(out) {
                return;
            }
            port.ends[echo.end].counters.one(Count::GtpuEchoes);
            port.echoes.pop();
        }
    }

    /// Takes a frame without FCS that arrived on a port with tunnels.
    pub fn receive(&mut self, port: usize, frame: &[u8]) -> Arrival<'_> {
        let port = &mut self.ports[port];
        let Some(headers) = Headers::find(frame) else { return Arrival::Plain };
        let (source, destination) = (headers.source(frame), headers.destination(frame));
        if headers.version == Version::V6 && !(source.is_v6() && destination.is_v6()) {
            return Arrival::Plain;
        }
        let Some(first) = port.ends.iter().position(|end| end.is_at(destination)) else {
            let outside = port.ends.iter().find(|end| end.client(end.receives(), source, destination).is_some());
            let Some(end) = outside else { return Arrival::Plain };
            end.counters.one(Count::GtpuUnknownTunnel);
            return Arrival::Done;
        };
        let (message, asking) = match read(frame, &headers) {
            Ok(Some(read)) => read,
            Ok(None) => return Arrival::Plain,
            Err(Malformed) => {
                port.ends[first].counters.one(Count::GtpuMalformed);
                return Arrival::Done;
            }
        };
        let counted = match message.kind {
            G_PDU => match port.check(&message, source, destination) {
                // The MACs are the link's.
                Ok(()) => match frame.first_chunk() {
                    Some(macs) if encap::strip(macs, message.payload, &mut self.inner) => {
                        return Arrival::Inner(&self.inner);
                    }
                    _ => Count::GtpuMalformed,
                },
                Err((end, count)) => return port.drop(end.unwrap_or(first), count),
            },
            ECHO_REQUEST => {
                if port.echoes.len() < ECHOES {
                    let mut macs = [0; MACS];
                    macs[..6].copy_from_slice(&frame[6..MACS]);
                    macs[6..].copy_from_slice(&port.mac);
                    let sequence = message.sequence.unwrap_or(0);
                    let (source, destination) = (destination, source);
                    port.echoes.push(Echo { end: first, macs, source, destination, port: asking, sequence });
                }
                return Arrival::Done;
            }
            ERROR_INDICATION => Count::GtpuErrorIndications,
            END_MARKER => Count::GtpuEndMarkers,
            _ => Count::GtpuOthers,
        };
        port.drop(first, counted)
    }
}

impl Port {
    fn add(&mut self, end: End) {
        self.gap = self.gap.max(end.encap.overhead());
        self.echoes.reserve(ECHOES);
        // Templates may have the same clients.
        let is_there = |e: &End| e.sends == end.sends && e.tunnels == end.tunnels && e.pool == end.pool;
        if !self.ends.iter().any(is_there) {
            self.ends.push(end);
        }
    }

    /// Counts what is not taken.
    fn drop(&self, end: usize, count: Count) -> Arrival<'static> {
        self.ends[end].counters.one(count);
        Arrival::Done
    }

    /// The tunnel of a frame of ours: one client's.
    #[inline]
    fn tunnel_of(&self, frame: &[u8]) -> Option<(&Encap, Around)> {
        let packet = frame.get(ETHERNET..)?;
        let Fixed { source, destination, traffic_class, header, .. } = Fixed::read(packet)?;
        let (end, client) =
            self.ends.iter().find_map(|end| Some((end, end.client(end.sends, source, destination)?)))?;
        let mut macs = *frame.first_chunk::<MACS>()?;
        if let Some(next_hop) = end.next_hop {
            macs[..6].copy_from_slice(&next_hop);
        }
        let ports = packet.get(header..)?.first_chunk::<4>().map_or(0, |ports| u32::from_be_bytes(*ports));
        let (low, high) = (source.0 ^ destination.0.rotate_left(37), u64::from(ports));
        // Of who talks to whom.
        let hash = mix(low as u64 ^ mix((low >> 64) as u64 ^ mix(high)));
        let gnb = end.tunnels.gnb(client);
        let (source, destination) = match end.sends {
            Way::Up => (gnb, end.tunnels.remote),
            Way::Down => (end.tunnels.remote, gnb),
        };
        let around = Around {
            macs,
            source,
            destination,
            // Ports that are nobody's (RFC 6335 section 6): so routers spread flows (TS 29.281 section 4.4.2.0).
            ports: (0xc000 | (hash >> 50) as u16, PORT),
            id: end.tunnels.teid(end.sends, client),
            traffic_class: traffic_class & 0xfc,
            flow_label: hash as u32 & 0xf_ffff,
        };
        Some((&end.encap, around))
    }

    /// Whether what a G-PDU holds came through its client's tunnel; else what that is to be counted as, at the client's end if there
    /// is one.
    fn check(
        &self,
        message: &Message<'_>,
        source: Address,
        destination: Address,
    ) -> Result<(), (Option<usize>, Count)> {
        let packet = message.payload;
        let Some(Fixed { source: from, destination: to, .. }) =
            Fixed::read(packet).filter(|_| packet.len() <= LONGEST - ETHERNET)
        else {
            return Err((None, Count::GtpuMalformed));
        };
        let here = |end: &End| end.is_at(destination).then(|| end.client(end.receives(), from, to)).flatten();
        let found = self.ends.iter().enumerate().find_map(|(index, end)| Some((index, end, here(end)?)));
        match found {
            Some((_, end, client)) if end.is_tunnel_of(client, message, source, destination) => Ok(()),
            found => Err((found.map(|(index, ..)| index), Count::GtpuUnknownTunnel)),
        }
    }
}

impl Echo {
    /// TS 29.281 section 7.2.2. False if there is no room.
    fn answer(&self, out: &mut impl Output) -> bool {
        let fields = (OPTIONAL + RECOVERY.len()) as u8;
        let [high, low] = self.sequence.to_be_bytes();
        let [kind, value] = RECOVERY;
        let message = [VERSION_1 | NUMBERED, ECHO_RESPONSE, 0, fields, 0, 0, 0, 0, high, low, 0, 0, kind, value];
        let encap = Encap::over_udp(self.source.is_v6(), Carries::Packet, &message);
        let Some(frame) = out.frame(ETHERNET + encap.overhead()) else { return false };
        encap.write(
            frame,
            &Around {
                macs: self.macs,
                source: self.source,
                destination: self.destination,
                ports: (PORT, self.port),
                id: 0,
                traffic_class: 0,
                flow_label: 0,
            },
        );
        true
    }
}

/// The GTP-U message of a frame to a tunnel's end, and the UDP port that it is from; none if it is something else.
fn read<'a>(frame: &'a [u8], headers: &Headers) -> Result<Option<(Message<'a>, u16)>, Malformed> {
    let at = match headers.transport {
        Some((UDP, at)) => at,
        // A later fragment does not tell its protocol.
        None if headers.fragment => return Err(Malformed),
        _ => return Ok(None),
    };
    let body = frame.get(at..headers.packet_end(frame)).ok_or(Malformed)?;
    if body.len() < udp::HEADER {
        return Err(Malformed);
    }
    if be16(body, 2) != PORT {
        return Ok(None);
    }
    let v4 = headers.version == Version::V4;
    if headers.fragment || v4 && !ipv4::is_header_right(&frame[headers.at..headers.end]) {
        return Err(Malformed);
    }
    let pseudo = pseudo_header(headers.source(frame), headers.destination(frame), UDP, body.len());
    // It may have no checksum: RFC 768, and over IPv6 as tunnels may (RFC 6935).
    let datagram = Datagram::read(body, pseudo, false).map_err(|_| Malformed)?;
    Ok(Some((Message::read(datagram.payload)?, datagram.source_port)))
}
