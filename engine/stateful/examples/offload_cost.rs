// SPDX-License-Identifier: Apache-2.0
//! What offloads spare a stack: instructions of sending and of receiving, for connections that ask 100 bytes and get 32 KiB with
//! an MSS of 1460 and an initial window of 2 segments. What the device does is not counted.
//!
//! ```sh
//! cargo build --release -p spate-stateful --example offload_cost
//! export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=100000000   # else every byte of a long copy counts as one
//! for mode in software marks checksums cut; do
//!   valgrind --tool=callgrind --callgrind-out-file=$mode.out target/release/examples/offload_cost $mode 300
//!   callgrind_annotate --inclusive=yes $mode.out | grep -E 'offload_cost::(send|receive)'
//! done
//! ```
use std::{env, sync::Arc};

use spate_net::checksum::{checksum, sum};
use spate_stateful::{
    Address, Client, Count, HeaderLengths, Hints, Instruction, Offloads, Payload, Pool, PortLink, Program, Protocol,
    Ratio, Received, Scenario, Segmentation, Server, Stack, Template, Tunables, Tuple, WeightedPool, pool::Order,
    tcp::Output,
};

const RESPONSE: u64 = 32 << 10;
const LONGEST: usize = 16_383;

/// A burst's frames, in place.
struct Frames {
    buffers: Vec<[u8; LONGEST + 1]>,
    /// Bytes, and those of a segment's data if it is to be cut.
    lens: Vec<(usize, usize)>,
    offloads: Offloads,
}

impl Output for Frames {
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        let buffer = self.buffers.get_mut(self.lens.len())?;
        self.lens.push((len, 0));
        Some(&mut buffer[..len])
    }

    fn offloads_checksums(&self) -> bool {
        self.offloads.checksums
    }

    fn segmentation(&self) -> Option<&Segmentation> {
        self.offloads.segmentation.as_ref()
    }

    fn frame_to_segment(&mut self, headers: usize, data: usize, segment: usize) -> Option<&mut [u8]> {
        let buffer = self.buffers.get_mut(self.lens.len())?;
        self.lens.push((headers + data, segment));
        Some(&mut buffer[..headers + data])
    }
}

#[inline(never)]
fn send(stack: &mut Stack, port: usize, now: u64, frames: &mut Frames) {
    stack.transmit(port, now, frames);
}

#[inline(never)]
fn receive(stack: &mut Stack, port: usize, frame: &[u8], verified: bool, now: u64) -> Received {
    stack.receive_hinted(port, frame, Hints { verified, ahead: None }, now)
}

/// What the device makes of a frame of TCP over IPv4; its TCP checksums are not needed where arrivals are marked as verified.
fn finish(frame: &[u8], segment: usize) -> Vec<Vec<u8>> {
    let Some(layers) = HeaderLengths::of(frame) else { return vec![] };
    let header = usize::from(layers.l2) + usize::from(layers.l3) + usize::from(layers.l4);
    let segment = if segment == 0 { LONGEST } else { segment };
    let data = &frame[header..];
    let pieces: Vec<&[u8]> = if data.is_empty() { vec![data] } else { data.chunks(segment).collect() };
    let piece = |(index, data): (usize, &&[u8])| {
        let mut piece = [&frame[..header], data].concat();
        let total = (piece.len() - 14) as u16;
        piece[16..18].copy_from_slice(&total.to_be_bytes());
        let seq = u32::from_be_bytes([piece[38], piece[39], piece[40], piece[41]]);
        piece[38..42].copy_from_slice(&seq.wrapping_add((index * segment) as u32).to_be_bytes());
        if index + 1 < pieces.len() {
            piece[47] &= !9;
        }
        let check = checksum(sum(&piece[14..34]));
        piece[24..26].copy_from_slice(&check.to_be_bytes());
        piece
    };
    pieces.iter().enumerate().map(piece).collect()
}

fn scenario() -> Scenario {
    let program =
        |instructions: Vec<Instruction>| Program { instructions: instructions.into(), counters: Box::default() };
    let client = program(vec![
        Instruction::Connect,
        Instruction::Send { payload: 0, wait: true },
        Instruction::Receive { bytes: RESPONSE, clear: true },
    ]);
    let server = program(vec![
        Instruction::Accept,
        Instruction::Receive { bytes: 100, clear: true },
        Instruction::Send { payload: 1, wait: true },
        Instruction::WaitForPeerClose,
    ]);
    let pool = |first: u32| {
        Pool::new(Address::v4(first), Address::v4(first + 255), Order::Sequential).expect("a range of addresses")
    };
    let tunables = Tunables { mss: 1460, initial_window: 2, ..Tunables::default() };
    Scenario {
        payloads: vec![Payload::pattern(100), Payload::pattern(RESPONSE)],
        pools: vec![pool(0x1000_0000), pool(0x3000_0000)],
        templates: vec![Template {
            name: "paper".into(),
            group: "paper".into(),
            protocol: Protocol::Tcp,
            destination_port: 80,
            clients: vec![WeightedPool { pool: 0, weight: 1 }],
            servers: vec![WeightedPool { pool: 1, weight: 1 }],
            client: Some(Client {
                port: 0,
                program: client,
                tunables: tunables.clone(),
                rate: Ratio::ONE,
                limit: 0,
                most_open: 0,
            }),
            server: Some(Server { port: 1, program: server, tunables, matches: vec![] }),
            looped: false,
            seed: 1,
            latency: false,
        }],
        order: spate_stateful::arrivals::Order::default(),
        ignored: None,
        most_flows: 4096,
        ramp_up: 0.into(),
    }
}

fn main() {
    let mode = env::args().nth(1).unwrap_or_else(|| "cut".into());
    let flows: u16 = env::args().nth(2).and_then(|flows| flows.parse().ok()).unwrap_or(300);
    let cut = Segmentation { longest_frame: LONGEST as u32, longest_segment: 1514, v6: true };
    let offloads = match mode.as_str() {
        "software" => Offloads::default(),
        "checksums" => Offloads { checksums: true, segmentation: None },
        "cut" => Offloads { checksums: false, segmentation: Some(cut) },
        "marks" => Offloads::default(),
        other => panic!("{other}: software, marks, checksums or cut"),
    };
    let mut frames = Frames { buffers: vec![[0; LONGEST + 1]; 64], lens: Vec::with_capacity(64), offloads };
    let links = [PortLink { mac: [2; 6], next_hop: [4; 6] }, PortLink { mac: [4; 6], next_hop: [2; 6] }];
    let mut now = 1_000_000_000;
    let mut stack = Stack::new(Arc::new(scenario()), &links, 1, now);
    for flow in 0..flows {
        let tuple = Tuple {
            local: Address::v4(0x1000_0000),
            remote: Address::v4(0x3000_0000),
            local_port: 1024 + flow,
            remote_port: 80,
        };
        stack.open(0, flow.into(), &tuple, now).expect("a place");
        // One flow at a time, 100 us from end to end.
        for _ in 0..100 {
            now += 100_000;
            stack.advance(now);
            let mut on_wire = Vec::new();
            for port in 0..2 {
                if !stack.is_ready(port) {
                    continue;
                }
                frames.lens.clear();
                send(&mut stack, port, now, &mut frames);
                for (buffer, (len, segment)) in frames.buffers.iter().zip(&frames.lens) {
                    let whole = &buffer[..*len];
                    let unfinished = offloads.checksums || *segment > 0;
                    let pieces = if unfinished { finish(whole, *segment) } else { vec![whole.to_vec()] };
                    on_wire.extend(pieces.into_iter().map(|piece| (1 - port, piece)));
                }
            }
            for (port, frame) in on_wire {
                assert_eq!(receive(&mut stack, port, &frame, mode != "software", now), Received::Taken);
            }
        }
    }
    for client in [true, false] {
        let count = |count| stack.counters(0, client).get(count);
        println!(
            "{mode}, {}: {} connections, {} packets, {} bytes received",
            if client { "client" } else { "server" },
            count(Count::FlowsClosed),
            count(Count::SentPackets),
            count(Count::ReceivedDataBytes)
        );
        assert_eq!(count(Count::FlowsClosed), u64::from(flows));
    }
}
