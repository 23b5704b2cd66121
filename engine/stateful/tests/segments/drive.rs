// SPDX-License-Identifier: Apache-2.0
//! Drives a stack with whatever segments, steps of time and room some bytes say, and checks what must always hold: it stops
//! to send, holds no more than it has, and is empty after it is cleared. Shared by a property test and a fuzz target.
use std::sync::Arc;

use spate_stateful::{
    Address, Client, Finish, Instruction, Payload, Pool, PortLink, Program, Protocol, Scenario, Server, Stack,
    Template, Tunables, Tuple, WeightedPool, arrivals,
    packet::{Below, Content, Ends, Head, Options, Packet, TCP_HEADER, flag},
    pool,
    tcp::Output,
};

/// Flows that the test knows.
const FLOWS: usize = 4;
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

/// What the test knows of a flow from what the stack has said.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Behind what it sent.
    next: u32,
    /// What it expects.
    expected: u32,
    stamp: u32,
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

fn scenario(bits: u8) -> Scenario {
    let program =
        |instructions: Vec<Instruction>| Program { instructions: instructions.into(), counters: Box::default() };
    let tunables = Tunables {
        sack: bits & 1 == 0,
        timestamps: bits & 2 == 0,
        window_scale: bits & 4 == 0,
        ecn: bits & 8 == 0,
        no_delay: bits & 16 == 0,
        mss: if bits & 32 == 0 { 1460 } else { 48 },
        receive_buffer: 20_000,
        keepalive_idle_ns: if bits & 64 == 0 { 0 } else { 2_000_000_000 },
        ..Tunables::default()
    };
    let pool =
        |a: u32| Pool::new(Address::v4(a << 24), Address::v4(a << 24 | 7), pool::Order::Sequential).expect("a pool");
    let send = |wait| Instruction::Send { payload: 0, wait };
    Scenario {
        payloads: vec![Payload::pattern(20_000)],
        pools: vec![pool(16), pool(48)],
        templates: vec![Template {
            name: "t".into(),
            group: "t".into(),
            protocol: Protocol::Tcp,
            destination_port: 80,
            clients: vec![WeightedPool { pool: 0, weight: 1 }],
            servers: vec![WeightedPool { pool: 1, weight: 1 }],
            client: Some(Client {
                port: 0,
                program: program(vec![
                    Instruction::Connect,
                    send(false),
                    Instruction::Receive { bytes: 1000, clear: true },
                    send(true),
                    Instruction::WaitForPeerClose,
                ]),
                tunables: tunables.clone(),
                rate: (1, 1),
                limit: 0,
                most_open: 0,
            }),
            server: Some(Server {
                port: 1,
                program: program(vec![
                    Instruction::Accept,
                    Instruction::Receive { bytes: 100, clear: true },
                    send(false),
                    send(true),
                ]),
                tunables,
                matches: vec![],
            }),
            seed: 1,
            latency: false,
        }],
        most_flows: FLOWS + 2,
        ramp_up: 0.into(),
        order: arrivals::Order::default(),
    }
}

fn tuple(flow: usize) -> Tuple {
    let (a, b) = (Address::v4(16 << 24 | flow as u32 & 1), Address::v4(48 << 24));
    Tuple { local: a, remote: b, local_port: 1000 + flow as u16, remote_port: 80 }
}

/// A segment to the client's or the server's end of a flow.
fn segment(bytes: &mut Bytes<'_>, known: &[Known], flow: usize, to_client: bool) -> Vec<u8> {
    let known = known[flow];
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
    let tuple = tuple(flow);
    let (source, destination) = if to_client { (tuple.remote, tuple.local) } else { (tuple.local, tuple.remote) };
    let (source_port, destination_port) = if to_client { (80, tuple.local_port) } else { (tuple.local_port, 80) };
    let ends = Ends::of(source, destination);
    let below = Below { macs: [2; 12], ends, tos: bytes.u8() & 3, ttl: 9, id: 0, finish: Finish::Nothing };
    let data = usize::from(bytes.u8() % 8) * 200;
    let mut frame = vec![0; below.len() + TCP_HEADER + options.len() + data];
    let head = Head { source_port, destination_port, seq, ack, flags, window, ecn: 0 };
    below.write_tcp(&mut frame, &head, &options, (data, 0));
    frame
}

/// Lets the stack send until it has no more, and takes note of what it says.
fn listen(stack: &mut Stack, now: u64, room: usize, known: &mut [[Known; FLOWS]; 2]) {
    for port in 0..2 {
        let mut bursts = 0;
        while stack.is_ready(port) {
            let mut frames = Frames { frames: vec![], room };
            stack.transmit(port, now, &mut frames);
            for frame in &frames.frames {
                let packet = Packet::read(frame).expect("what is sent can be read");
                let Content::Tcp(s) = packet.content else { continue };
                let client_port = if port == 0 { s.source_port } else { s.destination_port };
                let Some(known) = known[port].get_mut(usize::from(client_port.wrapping_sub(1000))) else { continue };
                if s.flags & flag::RST == 0 {
                    *known = Known {
                        next: s.seq.wrapping_add(s.len()),
                        expected: s.ack,
                        stamp: s.timestamps().map_or(known.stamp, |(value, _)| value),
                    };
                }
            }
            bursts += BURST.min(room);
            assert!(bursts < BURSTS * BURST, "it does not stop to send");
        }
    }
}

/// Whatever the bytes say.
pub fn drive(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let links = [PortLink::default(); 2];
    let mut now = 1_000_000_000;
    let mut stack = Stack::new(Arc::new(scenario(bytes.u8())), &links, 1, now);
    let mut known = [[Known::default(); FLOWS]; 2];
    let (mut room, mut opened) = (BURST, 0);
    while !bytes.0.is_empty() {
        let what = bytes.u8();
        let flow = usize::from(what >> 4) % FLOWS;
        match what & 15 {
            0 => {
                let _ = stack.open(0, opened, &tuple(flow), now);
                opened += 1;
            }
            // From 1 us to half a minute.
            1 => now += 1000 << (bytes.u8() % 26),
            2 => now += u64::from(bytes.u8()) * 1_000_000,
            3 => room = 1 + usize::from(bytes.u8()) % BURST,
            // What is owed waits.
            4 => continue,
            5 => {
                let len = usize::from(bytes.u8()) % 100;
                let (frame, rest) = bytes.0.split_at(len.min(bytes.0.len()));
                stack.receive(usize::from(what >> 7), frame, now);
                bytes.0 = rest;
            }
            _ => {
                let to_client = what & 1 == 0;
                let port = usize::from(!to_client);
                let frame = segment(&mut bytes, &known[port], flow, to_client);
                stack.receive(port, &frame, now);
                if what & 6 == 6 {
                    // Others come before it can answer.
                    continue;
                }
            }
        }
        // Never more than a minute at once: time-outs come one by one.
        stack.advance(now);
        listen(&mut stack, now, room, &mut known);
        assert!(stack.flows() <= FLOWS + 2);
        let (recoveries, backlogs) = stack.held();
        assert!(recoveries <= stack.flows() && backlogs <= stack.flows(), "one for each flow at most");
    }
    stack.clear();
    assert_eq!((stack.flows(), stack.held()), (0, (0, 0)), "nothing is left");
    for client in [true, false] {
        let counters = stack.counters(0, client);
        assert_eq!(stack.open_flows(0, client), 0);
        let begun = if client { spate_stateful::Count::ConnectAttempts } else { spate_stateful::Count::Accepts };
        assert_eq!(counters.get(spate_stateful::Count::Closed), counters.get(begun), "each ends once");
    }
}
