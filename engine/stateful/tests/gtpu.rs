// SPDX-License-Identifier: Apache-2.0
//! Clients in tunnels of GTP-U, a UPF that was written for this test from TS 29.281 and knows nothing of the layer that it
//! talks to, and servers behind it without tunnels: every flow is complete, and what is not right is counted.
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use spate_net::spread;
use spate_stateful::{
    Address, Client, Count, Emulation, Instruction, NextHops, Payload, Pool, PortLink, Program, Protocol, Ratio,
    Received, Scenario, Server, Template, Tunables, WeightedPool, arrivals,
    envelope::{Arrival, Envelopes, GatewayMac, Ports},
    gtpu::Gtpu,
    pool::Order,
    tcp::Output,
    tunnel::{Kind, TunnelDirection, Tunnels},
    tuples::{Sharding, Share},
};

const FLOWS: u64 = 1000;
const REQUEST: u64 = 300;
const RESPONSE: u64 = 20_000;
const CLIENTS: u128 = 250;
const MS: u64 = 1_000_000;
const STEP: u64 = 50_000;
const GNB_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const UPF_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];
/// The MAC of what takes the place of another station.
const NEW: [u8; 6] = [2, 0, 0, 0, 0, 5];

/// One way to set it up.
#[derive(Clone, Copy, Debug)]
struct Case {
    protocol: Protocol,
    v6_inside: bool,
    v6_outside: bool,
    qfi: Option<u8>,
    workers: usize,
}

impl Case {
    fn address(v6: bool, net: u8, n: u128) -> IpAddr {
        match v6 {
            true => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(net) << 64 | n).into(),
            false => Ipv4Addr::from_bits(u32::from(net) << 24 | n as u32).into(),
        }
    }

    fn client(&self, n: u128) -> IpAddr {
        Self::address(self.v6_inside, 16, n)
    }

    fn gnb(&self, n: u128) -> IpAddr {
        Self::address(self.v6_outside, 172, 10 + n % 3)
    }

    fn upf(&self) -> IpAddr {
        Self::address(self.v6_outside, 172, 1)
    }

    /// The number of a client.
    fn number(&self, address: IpAddr) -> u128 {
        (0..CLIENTS).find(|n| self.client(*n) == address).expect("a client's address")
    }

    fn tunnels(&self) -> Tunnels {
        Tunnels {
            local: self.gnb(0).into(),
            local_count: 3,
            remote: self.upf().into(),
            uplink: 0x1000_0001,
            downlink: 0xa000_0000,
            step: 16,
            mirror: false,
            kind: Kind::Gtpu(Gtpu { qfi: self.qfi }),
        }
    }

    fn scenario(&self, with_clients: bool) -> Arc<Scenario> {
        let program =
            |instructions: &[Instruction]| Program { instructions: instructions.into(), counters: Box::default() };
        let (client, server) = match self.protocol {
            Protocol::Tcp => (
                program(&[
                    Instruction::Connect,
                    Instruction::Send { payload: 0, wait: true },
                    Instruction::Receive { bytes: RESPONSE, clear: true },
                    Instruction::Close,
                ]),
                program(&[
                    Instruction::Accept,
                    Instruction::Receive { bytes: REQUEST, clear: true },
                    Instruction::Send { payload: 1, wait: true },
                    Instruction::WaitForPeerClose,
                    Instruction::Close,
                ]),
            ),
            Protocol::Udp => (
                program(&[
                    Instruction::SendMessage { payload: 0 },
                    Instruction::ReceiveMessages { messages: 1, clear: true },
                    Instruction::Close,
                ]),
                program(&[
                    Instruction::ReceiveMessages { messages: 1, clear: true },
                    Instruction::SendMessage { payload: 0 },
                    Instruction::Close,
                ]),
            ),
        };
        let pool = |first: IpAddr, last: IpAddr| Pool::new(first.into(), last.into(), Order::Sequential).unwrap();
        let mut clients = pool(self.client(0), self.client(CLIENTS - 1));
        clients.tunnels = Some(self.tunnels());
        let servers = pool(Self::address(self.v6_inside, 48, 1), Self::address(self.v6_inside, 48, 20));
        let tunables = Tunables { mss: 1360, time_wait_ns: MS, ..Tunables::default() };
        let taken = |pool| vec![WeightedPool { pool, weight: 1 }];
        let clients_side = Client {
            port: 0,
            program: client,
            tunables: tunables.clone(),
            rate: Ratio::new(1000, 1),
            limit: FLOWS,
            most_open: 0,
        };
        let servers_side = Server { port: 0, program: server, tunables, matches: vec![] };
        Arc::new(Scenario {
            payloads: vec![Payload::pattern(REQUEST), Payload::pattern(RESPONSE)],
            pools: vec![clients, servers],
            templates: vec![Template {
                name: "web".into(),
                group: "web".into(),
                protocol: self.protocol,
                destination_port: 80,
                clients: taken(0),
                servers: taken(1),
                client: with_clients.then_some(clients_side),
                server: (!with_clients).then_some(servers_side),
                looped: false,
                seed: 1,
                latency: false,
            }],
            most_flows: 4096,
            ramp_up: 0.into(),
            order: arrivals::Order::Even,
            ignored: None,
        })
    }
}

#[derive(Default)]
struct Frames {
    frames: Vec<Vec<u8>>,
    gap: usize,
}

impl Output for Frames {
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        self.frames.push(vec![0; self.gap + len]);
        self.frames.last_mut().map(|frame| &mut frame[self.gap..])
    }
}

/// A worker of the clients' engine, or of the servers'.
struct Worker {
    emulation: Emulation,
    envelopes: Option<Box<Envelopes>>,
}

impl Worker {
    fn new(scenario: &Arc<Scenario>, link: PortLink, index: usize, workers: usize) -> Self {
        let share = Share { worker: index as u64, workers: workers as u64 };
        let sharding = if workers > 1 { Sharding::ByHash } else { Sharding::ByNumber };
        let owned = Box::new(move |_: usize, port: u16, tuple: &spate_stateful::tuples::Tuple| {
            let (client, server) = ((tuple.client.into(), tuple.source_port), (tuple.server.into(), port));
            spread::queue_between(server, client, workers) == index
        });
        let links = [link];
        let mut emulation = Emulation::new(scenario.clone(), share, sharding, owned, &links, 7, 0).unwrap();
        emulation.set_shared(workers > 1);
        let counters = |template, client| Arc::clone(emulation.counters(template, client));
        let envelopes = Envelopes::new(scenario, &Ports { links: &links, ..Ports::default() }, counters);
        emulation.start(0);
        Self { emulation, envelopes }
    }

    /// What it has to send now.
    fn transmit(&mut self, now_ns: u64) -> Vec<Vec<u8>> {
        self.emulation.advance(now_ns, now_ns, false);
        let mut out = Frames::default();
        let Some(envelopes) = &mut self.envelopes else {
            self.emulation.transmit(0, now_ns, &mut out);
            return out.frames;
        };
        envelopes.answer(0, &mut out);
        let answers = out.frames.len();
        out.gap = envelopes.gap(0);
        self.emulation.transmit(0, now_ns, &mut out);
        for frame in &mut out.frames[answers..] {
            let len = envelopes.encapsulate(0, frame);
            frame.truncate(len);
        }
        out.frames
    }

    /// What a frame is to it; the packet inside, if that is another worker's.
    fn receive(&mut self, frame: &[u8], now_ns: u64) -> (Received, Option<Vec<u8>>) {
        let frame = match self.envelopes.as_mut().map(|envelopes| envelopes.receive(0, frame)) {
            None | Some(Arrival::Plain) => frame,
            Some(Arrival::Done) => return (Received::Taken, None),
            Some(Arrival::Inner(inner)) => inner,
        };
        let received = self.emulation.receive(0, frame, now_ns);
        (received, (received == Received::Elsewhere).then(|| frame.to_vec()))
    }

    fn count(&self, client: bool, count: Count) -> u64 {
        self.emulation.counters(0, client).get(count)
    }
}

/// One's complement sum of 16-bit words, folded.
fn ones(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn address_of(bytes: &[u8]) -> IpAddr {
    match <[u8; 4]>::try_from(bytes) {
        Ok(four) => four.into(),
        Err(_) => <[u8; 16]>::try_from(bytes).unwrap().into(),
    }
}

/// Source and destination of an IP packet.
fn ends(packet: &[u8]) -> (IpAddr, IpAddr) {
    let (at, len) = if packet[0] >> 4 == 4 { (12, 4) } else { (8, 16) };
    (address_of(&packet[at..at + len]), address_of(&packet[at + len..at + 2 * len]))
}

/// An Ethernet frame of a UDP datagram.
fn datagram(source: IpAddr, destination: IpAddr, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let mut udp: Vec<u8> = [ports[0], ports[1], len, 0].iter().flat_map(|word| word.to_be_bytes()).collect();
    udp.extend(payload);
    let mut frame = [GNB_MAC, UPF_MAC].concat();
    if source.is_ipv4() {
        let mut header = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0];
        header[2..4].copy_from_slice(&(20 + len).to_be_bytes());
        header.extend(octets(source));
        header.extend(octets(destination));
        let check = !ones(&header);
        header[10..12].copy_from_slice(&check.to_be_bytes());
        frame.extend([0x08, 0x00]);
        frame.extend(header);
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(len.to_be_bytes());
        frame.extend([17, 64]);
        let addresses = [octets(source), octets(destination)].concat();
        frame.extend(&addresses);
        let pseudo = [addresses, u32::from(len).to_be_bytes().to_vec(), vec![0, 0, 0, 17], udp.clone()].concat();
        let check = !ones(&pseudo);
        udp[6..8].copy_from_slice(&check.to_be_bytes());
    }
    frame.extend(udp);
    frame
}

/// A G-PDU, its header in one of the ways that are allowed.
fn g_pdu(teid: u32, way: usize, qfi: Option<u8>, packet: &[u8]) -> Vec<u8> {
    let behind: &[u8] = match (qfi, way % 3) {
        // A PDU session container of the downlink.
        (Some(qfi), 0) => &[0, 0, 0, 0x85, 1, 0, qfi, 0],
        // A sequence number, and an extension header that need not be understood, before a container.
        (Some(qfi), _) => &[0x12, 0x34, 0, 0x20, 1, 9, 9, 0x85, 1, 0, qfi, 0],
        (None, 1) => &[0x12, 0x34, 0, 0],
        (None, _) => &[],
    };
    let flags = match (behind.len(), qfi) {
        (0, _) => 0x30,
        (_, None) => 0x32,
        (8, _) => 0x34,
        _ => 0x36,
    };
    let mut message = vec![flags, 255];
    message.extend(((behind.len() + packet.len()) as u16).to_be_bytes());
    message.extend(teid.to_be_bytes());
    message.extend(behind);
    message.extend(packet);
    message
}

/// The UPF: what it saw of the tunnels.
struct Upf {
    case: Case,
    /// One packet in this many to clients is sent with the TEID of another.
    wrong_one_in: Option<u64>,
    downlink: u64,
    wrong: u64,
    uplink: u64,
    source_ports: std::collections::HashSet<u16>,
}

impl Upf {
    /// Takes a packet out of its tunnel, which must be the right one.
    fn up(&mut self, frame: &[u8]) -> Vec<u8> {
        let case = self.case;
        assert_eq!((&frame[..6], &frame[6..12]), (&UPF_MAC[..], &GNB_MAC[..]));
        let outer = &frame[14..];
        let (header, protocol, len) = match frame[12..14] {
            [0x08, 0x00] => {
                assert_eq!((outer[0], ones(&outer[..20])), (0x45, 0xffff));
                assert_eq!(outer[6] & 0xbf, 0, "it is no fragment");
                (20, outer[9], usize::from(u16::from_be_bytes([outer[2], outer[3]])))
            }
            [0x86, 0xdd] => (40, outer[6], 40 + usize::from(u16::from_be_bytes([outer[4], outer[5]]))),
            _ => panic!("no IP"),
        };
        assert_eq!((header == 40, protocol, len), (case.v6_outside, 17, outer.len()));
        let udp = &outer[header..];
        let word = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
        assert_eq!((word(2), usize::from(word(4))), (2152, udp.len()));
        self.source_ports.insert(word(0));
        let (source, destination) = ends(outer);
        if case.v6_outside {
            let pseudo =
                [octets(source), octets(destination), vec![0, 17], word(4).to_be_bytes().to_vec(), udp.to_vec()];
            assert_eq!(ones(&pseudo.concat()), 0xffff);
        } else {
            assert_eq!(word(6), 0);
        }
        let gtp = &udp[8..];
        assert_eq!((gtp[1], usize::from(u16::from_be_bytes([gtp[2], gtp[3]]))), (255, gtp.len() - 8));
        let teid = u32::from_be_bytes([gtp[4], gtp[5], gtp[6], gtp[7]]);
        let packet = match case.qfi {
            Some(qfi) => {
                assert_eq!((gtp[0], &gtp[8..16]), (0x34, &[0, 0, 0, 0x85, 1, 0x10, qfi, 0][..]));
                &gtp[16..]
            }
            None => {
                assert_eq!(gtp[0], 0x30);
                &gtp[8..]
            }
        };
        let n = case.number(ends(packet).0);
        assert_eq!((teid, source, destination), (0x1000_0001 + 16 * n as u32, case.gnb(n), case.upf()));
        self.uplink += 1;
        let kind: [u8; 2] = if case.v6_inside { [0x86, 0xdd] } else { [0x08, 0x00] };
        [&SERVER_MAC[..], &UPF_MAC, &kind, packet].concat()
    }

    /// Puts a packet to a client into its tunnel, from any source port.
    fn down(&mut self, frame: &[u8]) -> Vec<u8> {
        assert_eq!(frame[..6], UPF_MAC);
        let packet = &frame[14..];
        let n = self.case.number(ends(packet).1);
        self.downlink += 1;
        let wrong = self.wrong_one_in.is_some_and(|one_in| self.downlink.is_multiple_of(one_in));
        self.wrong += u64::from(wrong);
        let teid = 0xa000_0000 + 16 * n as u32 + u32::from(wrong);
        let message = g_pdu(teid, self.downlink as usize, self.case.qfi, packet);
        let port = 2152 + (self.downlink % 1000) as u16;
        datagram(self.case.upf(), self.case.gnb(n), [port, 2152], &message)
    }
}

/// Outcome of a case.
struct Outcome {
    clients: Vec<Worker>,
    server: Worker,
    upf: Upf,
    handed: u64,
}

impl Outcome {
    fn clients(&self, count: Count) -> u64 {
        self.clients.iter().map(|worker| worker.count(true, count)).sum()
    }
}

/// The next frame of those under way that has arrived.
fn arrived(under_way: &mut VecDeque<(u64, Vec<u8>)>, now_ns: u64) -> Option<Vec<u8>> {
    let (at, _) = under_way.front()?;
    if *at > now_ns {
        return None;
    }
    under_way.pop_front().map(|(_, frame)| frame)
}

/// Runs flows to their end, with 200 us to the UPF and to the servers each way.
fn run(case: Case, wrong_one_in: Option<u64>) -> Outcome {
    let clients_link = PortLink { mac: GNB_MAC, next_hop: UPF_MAC };
    let servers_link = PortLink { mac: SERVER_MAC, next_hop: UPF_MAC };
    let scenario = case.scenario(true);
    let mut clients: Vec<Worker> =
        (0..case.workers).map(|index| Worker::new(&scenario, clients_link, index, case.workers)).collect();
    let mut server = Worker::new(&case.scenario(false), servers_link, 0, 1);
    assert!(server.envelopes.is_none(), "servers are met without tunnels");
    let mut upf = Upf { case, wrong_one_in, downlink: 0, wrong: 0, uplink: 0, source_ports: Default::default() };
    let (mut up, mut down) = (VecDeque::new(), VecDeque::new());
    let mut handed = 0;
    let mut now_ns = 0;
    while now_ns < 6_000 * MS {
        now_ns += STEP;
        for worker in &mut clients {
            up.extend(worker.transmit(now_ns).into_iter().map(|frame| (now_ns + 200_000, frame)));
        }
        while let Some(frame) = arrived(&mut up, now_ns) {
            let received = server.receive(&upf.up(&frame), now_ns).0;
            assert_eq!(received, Received::Taken);
        }
        down.extend(server.transmit(now_ns).into_iter().map(|frame| (now_ns + 200_000, frame)));
        while let Some(frame) = arrived(&mut down, now_ns) {
            let frame = upf.down(&frame);
            // As a NIC spreads it, which knows no GTP-U.
            let (received, elsewhere) = clients[spread::queue(&frame, case.workers)].receive(&frame, now_ns);
            let Some(inner) = elsewhere else {
                assert_eq!(received, Received::Taken);
                continue;
            };
            handed += 1;
            let taken = clients.iter_mut().any(|worker| {
                // It has been through the envelopes already.
                worker.emulation.receive(0, &inner, now_ns) == Received::Taken
            });
            assert!(taken, "one of them has the flow");
        }
    }
    Outcome { clients, server, upf, handed }
}

fn assert_complete(outcome: &Outcome) {
    let counts =
        |of: &dyn Fn(Count) -> u64, started: Count| [started, Count::FlowsEstablished, Count::FlowsClosed].map(of);
    let clients = |count: Count| outcome.clients(count);
    let server = |count: Count| outcome.server.count(false, count);
    assert_eq!(counts(&clients, Count::FlowsAttempted), [FLOWS; 3]);
    assert_eq!(counts(&server, Count::FlowsAccepted), [FLOWS; 3]);
    assert_eq!(outcome.clients(Count::GtpuUnknownTunnel), outcome.upf.wrong);
    for never in [Count::GtpuMalformed, Count::GtpuOthers, Count::ResetsReceived, Count::StraysRefused] {
        assert_eq!(outcome.clients(never), 0);
    }
}

fn cases(protocol: Protocol) -> Vec<Case> {
    let mut cases = Vec::new();
    for (v6_inside, v6_outside, qfi) in
        [(false, false, None), (true, false, Some(9)), (false, true, Some(63)), (true, true, None)]
    {
        for workers in [1, 2] {
            cases.push(Case { protocol, v6_inside, v6_outside, qfi, workers });
        }
    }
    cases
}

#[test]
fn a_thousand_connections_through_a_tunnel_each_client_complete_exactly() {
    for case in cases(Protocol::Tcp) {
        let outcome = run(case, None);
        assert_complete(&outcome);
        assert_eq!(outcome.clients(Count::ReceivedDataBytes), FLOWS * RESPONSE, "{case:?}");
        assert_eq!(outcome.server.count(false, Count::ReceivedDataBytes), FLOWS * REQUEST);
        // Every packet was in a tunnel, and none is missing.
        assert_eq!(outcome.upf.uplink, outcome.clients(Count::SentPackets));
        assert_eq!(outcome.upf.downlink, outcome.clients(Count::ReceivedPackets));
        assert_eq!(outcome.handed > 0, case.workers > 1, "{case:?}: {} handed over", outcome.handed);
        // Flows differ in their outer source ports.
        assert!(outcome.upf.source_ports.len() > 900, "{} source ports", outcome.upf.source_ports.len());
    }
}

#[test]
fn datagrams_through_tunnels_complete_exactly() {
    for case in cases(Protocol::Udp) {
        let outcome = run(case, None);
        assert_complete(&outcome);
        assert_eq!(outcome.clients(Count::MessagesReceived), FLOWS, "{case:?}");
        assert_eq!((outcome.upf.uplink, outcome.upf.downlink), (FLOWS, FLOWS));
    }
}

#[test]
fn packets_in_a_wrong_tunnel_are_counted_and_come_again() {
    for case in cases(Protocol::Tcp) {
        let outcome = run(case, Some(50));
        assert!(outcome.upf.wrong > 200, "{} were wrong", outcome.upf.wrong);
        assert_complete(&outcome);
        assert_eq!(outcome.clients(Count::ReceivedDataBytes), FLOWS * RESPONSE, "{case:?}");
    }
}

/// The clients' engine, its only worker.
fn alone(case: Case) -> Worker {
    Worker::new(&case.scenario(true), PortLink { mac: GNB_MAC, next_hop: UPF_MAC }, 0, 1)
}

/// Where frames that are sent in some steps go, one after the other.
fn macs_sent_to(worker: &mut Worker, steps: std::ops::Range<u64>) -> Vec<[u8; 6]> {
    let frames: Vec<_> = steps.flat_map(|step| worker.transmit(step * STEP)).collect();
    let mut macs: Vec<[u8; 6]> = frames.iter().map(|frame| *frame.first_chunk().unwrap()).collect();
    macs.dedup();
    macs
}

/// The UPF's MAC is looked for by its address, not by those of servers behind it.
#[test]
fn tunnels_lead_to_the_other_mac_of_their_remote_end() {
    let case = Case { protocol: Protocol::Udp, v6_inside: false, v6_outside: false, qfi: None, workers: 1 };
    let mut worker = alone(case);
    assert_eq!(macs_sent_to(&mut worker, 1..1000), [UPF_MAC]);
    let neighbours = [(Address::from(case.upf()), NEW)].into();
    let hops = NextHops { neighbours, others: [SERVER_MAC; 2], ..NextHops::default() };
    worker.envelopes.as_mut().unwrap().set_next_hops(0, &hops);
    worker.emulation.swap_next_hops(0, &mut hops.clone());
    assert_eq!(macs_sent_to(&mut worker, 1000..2000), [NEW]);
}

#[test]
fn tunnels_of_a_pool_with_a_gateway_lead_to_its_other_mac_whatever_the_ports_next_hop_is() {
    let case = Case { protocol: Protocol::Udp, v6_inside: false, v6_outside: false, qfi: None, workers: 1 };
    let mut scenario = Scenario::clone(&case.scenario(true));
    let pool = scenario.templates[0].clients[0].pool;
    scenario.pools[pool].access.gateway = Some(Case::address(false, 172, 254).into());
    let mut worker = Worker::new(&Arc::new(scenario), PortLink { mac: GNB_MAC, next_hop: UPF_MAC }, 0, 1);
    let hops = NextHops { others: [SERVER_MAC; 2], ..NextHops::default() };
    worker.envelopes.as_mut().unwrap().set_next_hops(0, &hops);
    worker.emulation.swap_next_hops(0, &mut hops.clone());
    assert_eq!(macs_sent_to(&mut worker, 1..700), [UPF_MAC]);
    for (first, gateway, mac) in [
        (700, GatewayMac { port: 0, pool: pool + 1, mac: NEW }, UPF_MAC),
        (1000, GatewayMac { port: 1, pool, mac: NEW }, UPF_MAC),
        (1300, GatewayMac { port: 0, pool, mac: NEW }, NEW),
    ] {
        worker.envelopes.as_mut().unwrap().set_gateways(0, &[gateway]);
        assert_eq!(macs_sent_to(&mut worker, first..first + 300), [mac], "{gateway:?}");
    }
}

#[test]
fn echo_requests_are_answered_and_other_messages_counted() {
    for v6_outside in [false, true] {
        let case = Case { protocol: Protocol::Tcp, v6_inside: false, v6_outside, qfi: None, workers: 1 };
        let mut worker = alone(case);
        // Nothing of its own.
        worker.emulation.stop(0);
        let to = |message: &[u8]| datagram(case.upf(), case.gnb(2), [40_000, 2152], message);
        worker.receive(&to(&[0x32, 1, 0, 4, 0, 0, 0, 0, 0xab, 0xcd, 0, 0]), 0);
        let answers = worker.transmit(STEP);
        let answer = [0x32, 2, 0, 6, 0, 0, 0, 0, 0xab, 0xcd, 0, 0, 14, 0];
        let mut expected = datagram(case.gnb(2), case.upf(), [2152, 40_000], &answer);
        expected[..12].copy_from_slice(&[UPF_MAC, GNB_MAC].concat());
        // All but what a sender chooses: identification, fragmentation, life time and checksum of IPv4.
        let differ = |a: &[u8], b: &[u8]| (0..a.len()).filter(|at| a[*at] != b[*at]).collect::<Vec<_>>();
        assert_eq!((answers.len(), answers[0].len()), (1, expected.len()));
        let different = differ(&answers[0], &expected);
        if v6_outside {
            assert_eq!(different, Vec::<usize>::new());
        } else {
            assert!(different.iter().all(|at| [18, 19, 20, 24, 25, 40, 41].contains(at)), "{different:?}");
            assert_eq!(ones(&answers[0][14..34]), 0xffff);
            let udp = &answers[0][34..];
            let pseudo = [&answers[0][26..34], &[0, 17, udp[4], udp[5]], udp].concat();
            assert!(udp[6..8] == [0, 0] || ones(&pseudo) == 0xffff);
        }
        worker.receive(&to(&[0x30, 26, 0, 0, 0, 0, 0, 0]), 0);
        worker.receive(&to(&[0x30, 254, 0, 0, 0, 0, 0, 5]), 0);
        worker.receive(&to(&[0x30, 31, 0, 0, 0, 0, 0, 0]), 0);
        let counts = [
            Count::GtpuEchoes,
            Count::GtpuErrorIndications,
            Count::GtpuEndMarkers,
            Count::GtpuOthers,
            Count::GtpuMalformed,
            Count::GtpuUnknownTunnel,
        ];
        assert_eq!(counts.map(|count| worker.count(true, count)), [1, 1, 1, 1, 0, 0]);
    }
}

#[test]
fn what_is_malformed_is_counted_and_what_is_outside_of_tunnels_too() {
    let case = Case { protocol: Protocol::Tcp, v6_inside: false, v6_outside: false, qfi: None, workers: 1 };
    let mut worker = alone(case);
    let to = |message: &[u8]| datagram(case.upf(), case.gnb(0), [2152, 2152], message);
    let syn_like = [vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 48, 0, 0, 1, 16, 0, 0, 0], vec![0; 20]].concat();
    let good = g_pdu(0xa000_0000, 0, None, &syn_like);
    let mut bad: Vec<Vec<u8>> = vec![
        to(&[0x30, 255, 0]),
        // Longer than the packet; version 2; GTP'; optional fields cut off; an extension header of no length.
        to(&[0x30, 255, 0, 99, 0, 0, 0, 1]),
        to(&[0x50, 255, 0, 0, 0, 0, 0, 1]),
        to(&[0x20, 255, 0, 0, 0, 0, 0, 1]),
        to(&[0x32, 255, 0, 2, 0, 0, 0, 1, 0, 0]),
        to(&[0x34, 255, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0x85, 0, 0, 0, 0]),
        // One that must be understood, and one that reaches too far.
        to(&[0x34, 255, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0xc0, 1, 0, 0, 0]),
        to(&[0x34, 255, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0x20, 2, 0, 0, 0]),
        // No IP inside; not whole.
        to(&g_pdu(0xa000_0000, 0, None, &[0x15; 40])),
        to(&g_pdu(0xa000_0000, 0, None, &syn_like[..19])),
    ];
    // A wrong checksum of IP, and of UDP.
    let mut ip = to(&good);
    ip[22] ^= 1;
    let mut udp = to(&good);
    udp[40..42].copy_from_slice(&[1, 1]);
    // In fragments.
    let mut fragment = to(&good);
    fragment[20] = 0x20;
    bad.extend([ip, udp, fragment]);
    for (n, frame) in bad.iter().enumerate() {
        assert_eq!(worker.receive(frame, 0), (Received::Taken, None), "{n}");
        assert_eq!(worker.count(true, Count::GtpuMalformed), n as u64 + 1, "{n}");
    }
    assert_eq!(worker.count(true, Count::GtpuUnknownTunnel), 0);
    // To a client without a tunnel, of no client, behind another gNB, and to nobody.
    let plain = [&GNB_MAC[..], &UPF_MAC, &[8, 0], &syn_like].concat();
    let mut foreign = syn_like.clone();
    foreign[16] = 99;
    let unknown = [
        plain,
        to(&g_pdu(0xa000_0000, 0, None, &foreign)),
        datagram(case.upf(), case.gnb(1), [2152, 2152], &good),
        to(&g_pdu(0xa000_0010, 0, None, &syn_like)),
    ];
    for (n, frame) in unknown.iter().enumerate() {
        assert_eq!(worker.receive(frame, 0), (Received::Taken, None), "{n}");
        assert_eq!(worker.count(true, Count::GtpuUnknownTunnel), n as u64 + 1, "{n}");
    }
    let elsewhere = datagram(case.upf(), Ipv4Addr::new(172, 0, 0, 99).into(), [2152, 2152], &good);
    assert_eq!(worker.receive(&elsewhere, 0).0, Received::Foreign);
    // The checksum of TCP inside is not right.
    assert_eq!(worker.receive(&to(&good), 0).0, Received::Taken);
    assert_eq!(worker.count(true, Count::BadChecksums), 1);
}

#[test]
fn addresses_as_stated() {
    let case = Case { protocol: Protocol::Tcp, v6_inside: true, v6_outside: false, qfi: Some(1), workers: 1 };
    let tunnels = case.tunnels();
    let overheads = [(false, None, 36), (false, Some(0), 44), (true, None, 56), (true, Some(0), 64)];
    for (v6_outside, qfi, expected) in overheads {
        assert_eq!(Case { v6_outside, qfi, ..case }.tunnels().encap(TunnelDirection::Up).overhead(), expected);
    }
    assert_eq!(tunnels.last_near_end(), Address::v4(172 << 24 | 12));
    let mut pool = case.scenario(true).pools[0].clone();
    assert_eq!(pool.on_clients_link().address(2), Address::v4(172 << 24 | 12));
    pool.tunnels = None;
    assert_eq!(pool.on_clients_link(), pool);
}
