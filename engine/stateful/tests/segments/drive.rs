// SPDX-License-Identifier: Apache-2.0
//! Drives a stack with whatever segments, datagrams, ICMP errors about its flows, steps of time and room some bytes say, over
//! IPv4 and IPv6, and checks what must always hold: it stops to send, holds no more than it has, and is empty after it is
//! cleared. Shared by a property test and a fuzz target.
#[path = "../net/icmp.rs"]
mod icmp;

use std::sync::Arc;

use spate_net::checksum::{checksum, sum};
use spate_stateful::{
    Address, COUNTERS, Client, Count, Instruction, OffloadRequest, Payload, Pool, PortLink, Program, Protocol, Ratio,
    Scenario, Server, Stack, Template, Tunables, Tuple, WeightedPool, arrivals,
    packet::{Content, Endpoints, LowerHeaders, Options, Packet, SegmentHeader, TCP_HEADER, UDP_HEADER, flag},
    pool,
    program::Until,
    tcp::Output,
};

/// Flows that the test knows; the last two are of the first two templates again.
const FLOWS: usize = 8;
/// Without and with `receiveUntil`, and of UDP; the second of each is over IPv6.
const TEMPLATES: usize = 6;
/// What is received: messages, which end with what the client's program waits for too.
const TEXT: &[u8] = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n";
/// Frames in one burst, and bursts at one instant, after which a stack that still sends does not stop. Window and segment
/// sizes of the scenario keep honest flights far below.
const BURST: usize = 64;
const BURSTS: usize = 2_000;

/// Bytes as choices.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u8(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes([self.u8(), self.u8(), self.u8(), self.u8()])
    }

    /// A number near another, or any.
    fn near(&mut self, number: u32) -> u32 {
        match self.u8() {
            0..=100 => number,
            101..=180 => number.wrapping_add(u32::from(self.u8())),
            181..=220 => number.wrapping_sub(u32::from(self.u8()) * 16),
            221..=250 => number.wrapping_add(u32::from(self.u8()) * 1460),
            _ => self.u32(),
        }
    }
}

/// What the test knows of an end of a flow from what the stack has sent.
#[derive(Default)]
struct Known {
    /// Behind what it sent.
    next: u32,
    /// What it expects, and what it expected first.
    expected: u32,
    first: u32,
    stamp: u32,
    /// The last frame.
    frame: Vec<u8>,
}

#[derive(Default)]
struct Frames {
    frames: Vec<Vec<u8>>,
    room: usize,
}

impl Output for Frames {
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.frames.len() == self.room {
            return None;
        }
        self.frames.push(vec![0; len]);
        self.frames.last_mut().map(Vec::as_mut_slice)
    }
}

fn scenario(bits: u8, kinds: u8) -> Scenario {
    let (v6, until) = (kinds & 1 == 0, kinds & 2 == 0);
    let program =
        |instructions: &[Instruction]| Program { instructions: instructions.into(), counters: Box::default() };
    let tunables = Tunables {
        sack: bits & 1 == 0,
        timestamps: bits & 2 == 0,
        window_scale: bits & 4 == 0,
        ecn: bits & 8 == 0,
        no_delay: bits & 16 == 0,
        mss: if bits & 32 == 0 { 1440 } else { 48 },
        receive_buffer: 20_000,
        keepalive_idle_ns: if bits & 64 == 0 { 0 } else { 2_000_000_000 },
        ..Tunables::default()
    };
    let send = |wait| Instruction::Send { payload: 0, wait };
    let receive = |bytes| Instruction::Receive { bytes, clear: true };
    let (pattern, message) = if until {
        let pattern = Until::Pattern(b"\r\n\r\n".as_slice().into());
        (Instruction::ReceiveUntil(pattern), Instruction::ReceiveUntil(Until::HttpMessage))
    } else {
        (receive(10), receive(100))
    };
    let datagram = Instruction::SendMessage { payload: 1 };
    let datagrams = Instruction::ReceiveMessages { messages: 1, clear: true };
    use Instruction::{Accept, Connect, WaitForPeerClose};
    let programs = [
        (
            program(&[Connect, send(false), receive(1000), send(true), WaitForPeerClose]),
            program(&[Accept, receive(100), send(false), send(true)]),
        ),
        (
            program(&[Connect, pattern.clone(), send(false), pattern, WaitForPeerClose]),
            program(&[Accept, message.clone(), send(true), message]),
        ),
        (
            program(&[datagram.clone(), datagrams.clone(), datagram.clone()]),
            program(&[datagrams.clone(), datagram.clone(), datagrams, datagram]),
        ),
    ];
    let templates = (0..TEMPLATES).map(|n| {
        let (client, server) = programs[n / 2].clone();
        let pool = if v6 { n % 2 * 2 } else { 0 };
        Template {
            name: n.to_string(),
            group: n.to_string(),
            protocol: if n < 4 { Protocol::Tcp } else { Protocol::Udp },
            destination_port: server_port(n),
            clients: vec![WeightedPool { pool, weight: 1 }],
            servers: vec![WeightedPool { pool: pool + 1, weight: 1 }],
            client: Some(Client {
                port: 0,
                program: client,
                tunables: tunables.clone(),
                rate: Ratio::ONE,
                limit: 0,
                most_open: 0,
            }),
            server: Some(Server { port: 1, program: server, tunables: tunables.clone(), matches: vec![] }),
            looped: false,
            seed: 1,
            latency: false,
        }
    });
    let pool = |a, v6| {
        let last = address(a, 7, v6);
        Pool::new(address(a, 0, v6), last, pool::Order::Sequential).expect("a pool")
    };
    let mut pools = vec![pool(16, false), pool(48, false)];
    if v6 {
        pools.extend([pool(16, true), pool(48, true)]);
    }
    Scenario {
        payloads: vec![Payload::pattern(20_000), Payload::pattern(300)],
        pools,
        templates: templates.collect(),
        most_flows: FLOWS + 2,
        ramp_up: 0.into(),
        order: arrivals::Order::default(),
        ignored: None,
    }
}

fn address(net: u32, host: u32, v6: bool) -> Address {
    if v6 { Address(0x2001_0db8 << 96 | u128::from(net << 24 | host)) } else { Address::v4(net << 24 | host) }
}

fn server_port(template: usize) -> u16 {
    80 + template as u16
}

fn tuple(flow: usize, v6: bool) -> Tuple {
    let (template, v6) = (flow % TEMPLATES, v6 && flow % 2 == 1);
    Tuple {
        local: address(16, flow as u32 & 1, v6),
        remote: address(48, 0, v6),
        local_port: 1000 + flow as u16,
        remote_port: server_port(template),
    }
}

/// The headers below, and the ports, of what comes to the client's or the server's end of a flow.
fn headers(tuple: &Tuple, to_client: bool, tos: u8) -> (LowerHeaders, (u16, u16)) {
    let ends = [(tuple.local, tuple.local_port), (tuple.remote, tuple.remote_port)];
    let [source, destination] = if to_client { [ends[1], ends[0]] } else { ends };
    let ends = Endpoints::of(source.0, destination.0);
    (
        LowerHeaders { macs: [2; 12], ends, tos, ttl: 9, id: 0, finish: OffloadRequest::Nothing },
        (source.1, destination.1),
    )
}

/// A segment to an end of a flow.
fn segment(bytes: &mut Bytes<'_>, known: &Known, tuple: &Tuple, to_client: bool) -> Vec<u8> {
    let flags = match bytes.u8() {
        0..=120 => flag::ACK,
        121..=150 => flag::ACK | flag::FIN,
        151..=180 => flag::ACK | flag::SYN,
        181..=200 => flag::SYN,
        201..=205 => flag::RST,
        _ => bytes.u8(),
    };
    let (seq, ack) = (bytes.near(known.expected), bytes.near(known.next));
    let window = [0, 1, 1000, 20_000, 65_535][usize::from(bytes.u8() % 5)];
    let mut options = Options::default();
    let kinds = bytes.u8();
    if flags & flag::SYN != 0 {
        options.mss = (kinds & 1 == 0).then(|| u16::from(bytes.u8()) * 64);
        // Only such are written by `Options`: behind the segment size.
        options.window_scale = (kinds & 3 == 0).then(|| bytes.u8() % 15);
        options.sack_permitted = kinds & 5 == 0;
    } else if kinds & 7 == 0 {
        options.sacks = usize::from(kinds >> 6);
        for n in 0..options.sacks {
            let from = bytes.near(known.next.wrapping_sub(5 * 1460));
            options.sack[n] = (from, bytes.near(from.wrapping_add(1460)));
        }
    }
    if kinds & 8 == 0 {
        options.timestamps = Some((bytes.near(known.stamp), bytes.near(known.stamp)));
    }
    let (below, (source_port, destination_port)) = headers(tuple, to_client, bytes.u8() & 3);
    let len = usize::from(bytes.u8() % 8) * 200;
    let header = below.len() + TCP_HEADER + options.len();
    let mut frame = vec![0; header + len];
    let data = &mut frame[header..];
    let from = seq.wrapping_sub(known.first) as usize;
    data.iter_mut().zip(from..).for_each(|(byte, at)| *byte = TEXT[at % TEXT.len()]);
    if bytes.u8() & 7 == 0 && len > 0 {
        data[usize::from(bytes.u8() % 64)] = bytes.u8();
    }
    let data_sum = !checksum(sum(data));
    let head = SegmentHeader { source_port, destination_port, seq, ack, flags, window, ecn: 0 };
    below.write_tcp(&mut frame, &head, &options, (len, data_sum));
    frame
}

/// A datagram to an end of a flow.
fn datagram(bytes: &mut Bytes<'_>, tuple: &Tuple, to_client: bool) -> Vec<u8> {
    let (below, ports) = headers(tuple, to_client, bytes.u8() & 3);
    let len = usize::from(bytes.u8()) * 5;
    let mut frame = vec![0; below.len() + UDP_HEADER + len];
    below.write_udp(&mut frame, ports, len, 0);
    frame
}

/// An ICMP error about the last segment that an end sent, or, over TCP, about another segment of it.
fn error(bytes: &mut Bytes<'_>, known: &Known) -> Option<Vec<u8>> {
    let mut about = known.frame.clone();
    let v6 = about.get(12)? == &0x86;
    let seq = if v6 { 58..62 } else { 38..42 };
    if bytes.u8() & 1 == 0 {
        about.get_mut(seq)?.copy_from_slice(&bytes.near(known.next).to_be_bytes());
    }
    // Unreachable, too big, time exceeded, parameter problem (RFC 4443 section 3); unreachable, too big among them, source quench,
    // time exceeded, parameter problem (RFC 792).
    let code = match bytes.u8() {
        0..=80 => 3,
        81..=160 => 4,
        other => other % 16,
    };
    let kind = match (bytes.u8() % 8, v6) {
        (0..=3, false) => (3, code),
        (4, false) => (4, 0),
        (5, false) => (11, code & 1),
        (6, false) => (12, 0),
        (0 | 1, true) => (2, 0),
        (2..=4, true) => (1, code & 7),
        (5, true) => (3, code & 1),
        (6, true) => (4, code & 3),
        _ => (bytes.u8(), code),
    };
    let mtu = match bytes.u8() % 4 {
        0 => 1280 + u16::from(bytes.u8()),
        1 => u16::from(bytes.u8()) * 8,
        2 => [0, 68, 576, 1280, 1499, 1500, 9000, u16::MAX][usize::from(bytes.u8() % 8)],
        _ => bytes.u32() as u16,
    };
    Some(icmp::error(&about, kind, mtu))
}

/// Lets the stack send until it has no more, and takes note of what it sends.
fn listen(stack: &mut Stack, now: u64, room: usize, known: &mut [[Known; FLOWS]; 2]) {
    for (port, known) in known.iter_mut().enumerate() {
        let mut bursts = 0;
        while stack.is_ready(port) {
            let mut frames = Frames { frames: vec![], room };
            stack.transmit(port, now, &mut frames);
            for frame in frames.frames {
                note(&frame, port, known);
            }
            bursts += BURST.min(room);
            assert!(bursts < BURSTS * BURST, "it does not stop to send");
        }
    }
}

/// Takes note of what the stack sends.
fn note(frame: &[u8], port: usize, known: &mut [Known; FLOWS]) {
    let packet = Packet::read(frame).expect("what is sent can be read");
    let (source, destination) = match &packet.content {
        Content::Tcp(s) => (s.source_port, s.destination_port),
        Content::Udp(d) => (d.source_port, d.destination_port),
        Content::Icmp(_) => return,
    };
    let client_port = if port == 0 { source } else { destination };
    let Some(known) = known.get_mut(usize::from(client_port.wrapping_sub(1000))) else { return };
    if let Content::Tcp(s) = packet.content {
        if s.has(flag::RST) {
            return;
        }
        if s.has(flag::SYN) || known.first == 0 {
            known.first = s.ack;
        }
        (known.next, known.expected) = (s.seq.wrapping_add(s.len()), s.ack);
        known.stamp = s.timestamps().map_or(known.stamp, |(value, _)| value);
    }
    known.frame = frame.to_vec();
}

/// What both sides of all templates counted.
pub type Counts = [[u64; COUNTERS.len()]; TEMPLATES];

/// Whatever the bytes say.
pub fn drive(bytes: &[u8]) -> Counts {
    let mut bytes = Bytes(bytes);
    let links = [PortLink { mac: [2; 6], next_hop: [2; 6] }; 2];
    let mut now = 1_000_000_000;
    let (bits, kinds) = (bytes.u8(), bytes.u8());
    let mut stack = Stack::new(Arc::new(scenario(bits, kinds)), &links, 1, now);
    let mut known: [[Known; FLOWS]; 2] = Default::default();
    let (mut room, mut opened) = (BURST, 0);
    while !bytes.0.is_empty() {
        let what = bytes.u8();
        let flow = usize::from(what >> 4) % FLOWS;
        let (template, tuple) = (flow % TEMPLATES, tuple(flow, kinds & 1 == 0));
        match what & 15 {
            0 => {
                let _ = stack.open(template, opened, &tuple, now);
                opened += 1;
            }
            // From 1 us to half a minute.
            1 => now += 1000 << (bytes.u8() % 26),
            2 => now += u64::from(bytes.u8()) * 1_000_000,
            3 => room = 1 + usize::from(bytes.u8()) % BURST,
            // What is due waits.
            4 => continue,
            5 => {
                let len = usize::from(bytes.u8()) % 100;
                let (frame, rest) = bytes.0.split_at(len.min(bytes.0.len()));
                stack.receive(usize::from(what >> 7), frame, now);
                bytes.0 = rest;
            }
            6 => {
                let port = usize::from(bytes.u8() & 1);
                if let Some(frame) = error(&mut bytes, &known[port][flow]) {
                    stack.receive(port, &frame, now);
                }
            }
            _ => {
                let to_client = what & 1 == 0;
                let port = usize::from(!to_client);
                let frame = if template < 4 {
                    segment(&mut bytes, &known[port][flow], &tuple, to_client)
                } else {
                    datagram(&mut bytes, &tuple, to_client)
                };
                stack.receive(port, &frame, now);
                if what & 6 == 6 {
                    // Others come before it can answer.
                    continue;
                }
            }
        }
        // Never more than a minute at once: timeouts come one by one.
        stack.advance(now);
        listen(&mut stack, now, room, &mut known);
        assert!(stack.flows() <= FLOWS + 2);
        let (recoveries, backlogs) = stack.held();
        assert!(recoveries <= stack.flows() && backlogs <= stack.flows(), "one for each flow at most");
    }
    stack.clear();
    assert_eq!((stack.flows(), stack.held(), stack.held_chunks()), (0, (0, 0), 0), "nothing is left");
    let mut counts = [[0; COUNTERS.len()]; TEMPLATES];
    for (template, counts) in counts.iter_mut().enumerate() {
        for client in [true, false] {
            let counters = stack.counters(template, client);
            assert_eq!(stack.open_flows(template, client), 0);
            let started = if client { Count::FlowsAttempted } else { Count::FlowsAccepted };
            assert_eq!(counters.get(Count::FlowsClosed), counters.get(started), "each ends once");
            counts.iter_mut().zip(counters.all()).for_each(|(sum, count)| *sum += count);
        }
    }
    counts
}
