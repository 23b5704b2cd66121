// SPDX-License-Identifier: Apache-2.0
//! What connection records cost: short connections between two ports of one stack, both ends, each with a request of 100 bytes
//! and a response of 100, closed by the client. To be counted by callgrind:
//! `valgrind --tool=callgrind target/release/examples/records CONNECTIONS [ONE_IN]`; without ONE_IN nothing is recorded.
//! Instructions a connection are the difference of two runs by the difference of their CONNECTIONS.
use std::{env, sync::Arc};

use rtrb::{Consumer, RingBuffer};
use spate_stateful::{
    Address, Client, Count, Instruction, Payload, Pool, PortLink, Program, Protocol, Ratio, Record, Recorder, Scenario,
    Server, Stack, Template, Tunables, Tuple, WeightedPool, arrivals, pool::Order, tcp::Output,
};

/// Connections that are opened together.
const TOGETHER: u64 = 64;
/// Between two rounds: TIME-WAIT is over after it.
const ROUND_NS: u64 = 2_000_000;
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Frames of one iteration, reused: what is measured is not memory management.
struct Frames {
    frames: Vec<[u8; 256]>,
    lens: Vec<usize>,
}

impl Output for Frames {
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        let index = self.lens.len();
        let frame = self.frames.get_mut(index)?;
        self.lens.push(len);
        Some(&mut frame[..len])
    }
}

fn scenario() -> Scenario {
    let pool = |first: u32| Pool::new(Address::v4(first), Address::v4(first + 255), Order::Sequential).expect("a pool");
    let program = |all: Vec<Instruction>| Program { instructions: all.into(), counters: Box::default() };
    let tunables = Tunables { time_wait_ns: 1_000_000, ..Tunables::default() };
    let send = Instruction::Send { payload: 0, wait: false };
    let receive = Instruction::Receive { bytes: 100, clear: true };
    let weighted = |pool| vec![WeightedPool { pool, weight: 1 }];
    Scenario {
        payloads: vec![Payload::pattern(100)],
        pools: vec![pool(16 << 24), pool(48 << 24)],
        templates: vec![Template {
            name: "short".into(),
            group: "short".into(),
            protocol: Protocol::Tcp,
            destination_port: 80,
            clients: weighted(0),
            servers: weighted(1),
            client: Some(Client {
                port: CLIENT,
                program: program(vec![Instruction::Connect, send.clone(), receive.clone(), Instruction::Close]),
                tunables: tunables.clone(),
                rate: Ratio::ONE,
                limit: 0,
                most_open: 0,
            }),
            server: Some(Server {
                port: SERVER,
                program: program(vec![Instruction::Accept, receive, send, Instruction::WaitForPeerClose]),
                tunables,
                matches: vec![],
            }),
            looped: false,
            seed: 1,
            latency: false,
        }],
        order: arrivals::Order::default(),
        ignored: None,
        most_flows: 4096,
        ramp_up: 0.into(),
    }
}

/// What one port has to send arrives at the other.
fn carry(stack: &mut Stack, from: usize, frames: &mut Frames, now_ns: u64) {
    while stack.is_ready(from) {
        frames.lens.clear();
        stack.transmit(from, now_ns, frames);
        for (frame, len) in frames.frames.iter().zip(&frames.lens) {
            stack.receive(1 - from, &frame[..*len], now_ns);
        }
    }
}

fn main() {
    let mut arguments = env::args().skip(1).map(|argument| argument.parse::<u32>().expect("a number"));
    let connections = u64::from(arguments.next().expect("CONNECTIONS [ONE_IN]"));
    let links = [PortLink { mac: [2, 0, 0, 0, 0, 1], next_hop: [2, 0, 0, 0, 0, 1] }; 2];
    let mut now_ns = 1_000_000_000;
    let mut stack = Stack::new(Arc::new(scenario()), &links, 1, now_ns);
    let mut records: Option<Consumer<Record>> = arguments.next().map(|one_in| {
        let (out, records) = RingBuffer::new(4096);
        stack.record(Recorder { one_in, out });
        records
    });
    let mut frames = Frames { frames: vec![[0; 256]; 64], lens: Vec::with_capacity(64) };
    let mut taken = 0;
    for number in 0..connections {
        let address = |first: u32| Address::v4(first + (number % 251) as u32);
        let (local, remote) = (address(16 << 24), address(48 << 24));
        let tuple = Tuple { local, remote, local_port: 1024 + (number % 60_000) as u16, remote_port: 80 };
        stack.open(0, number, &tuple, now_ns).expect("a place");
        if number % TOGETHER == TOGETHER - 1 || number == connections - 1 {
            while stack.is_ready(CLIENT) || stack.is_ready(SERVER) {
                now_ns += 10_000;
                carry(&mut stack, CLIENT, &mut frames, now_ns);
                carry(&mut stack, SERVER, &mut frames, now_ns);
            }
            now_ns += ROUND_NS;
            stack.advance(now_ns);
            if let Some(records) = &mut records {
                let chunk = records.read_chunk(records.slots()).expect("they are there");
                taken += chunk.len();
                chunk.commit_all();
            }
        }
    }
    let closed = |client| stack.counters(0, client).get(Count::FlowsClosed);
    assert_eq!((closed(true), closed(false), stack.flows()), (connections, connections, 0));
    println!("{connections} connections, {taken} records");
}
