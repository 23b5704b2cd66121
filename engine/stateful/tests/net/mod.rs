// SPDX-License-Identifier: Apache-2.0
//! A network between stacks on a virtual clock: it delays, loses, duplicates and reorders as a seed says.
#![allow(dead_code, reason = "every test uses its part")]
mod device;
pub mod icmp;

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use spate_stateful::{
    Address, Client, Count, Counters, Instruction, Offloads, Payload, Pool, PortLink, Program, Protocol, Ratio,
    Received, Scenario, Segmentation, Server, Stack, Template, Tunables, Tuple, WeightedPool, pool::Order,
    random::Numbers, tcp::Output,
};

pub const CLIENT_PORT: usize = 0;
pub const SERVER_PORT: usize = 1;
pub const MS: u64 = 1_000_000;

/// What happens to frames on their way.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub delay_ns: u64,
    /// Added at random.
    pub jitter_ns: u64,
    /// Of a million.
    pub loss: u32,
    pub duplicates: u32,
    /// Of a million wait another delay.
    pub late: u32,
    /// Of a million that are capable of it are marked congested.
    pub marks: u32,
    /// Bits a second; 0: no limit.
    pub bandwidth: u64,
    /// Bytes that wait for it at most.
    pub queue: u64,
    pub seed: u64,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            delay_ns: MS,
            jitter_ns: 0,
            loss: 0,
            duplicates: 0,
            late: 0,
            marks: 0,
            bandwidth: 0,
            queue: u64::MAX,
            seed: 1,
        }
    }
}

/// One of these, by chance.
pub fn one_of<T: Copy>(random: &mut Numbers, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

/// A frame that was sent: when, from which port, its bytes.
pub type Sent = (u64, usize, Vec<u8>);

/// A frame that will arrive: when, in which order, on which port, its bytes.
type UnderWay = Reverse<(u64, u64, usize, Vec<u8>)>;

#[derive(Default)]
struct Frames {
    /// With the bytes of a segment's data, if the device cuts it.
    frames: Vec<(Vec<u8>, Option<usize>)>,
    room: usize,
    offloads: Offloads,
    no_memory: bool,
}

impl Output for Frames {
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.frames.len() == self.room {
            return None;
        }
        self.frames.push((vec![0; len], None));
        self.frames.last_mut().map(|frame| frame.0.as_mut_slice())
    }

    fn offloads_checksums(&self) -> bool {
        self.offloads.checksums
    }

    fn segmentation(&self) -> Option<&Segmentation> {
        self.offloads.segmentation.as_ref()
    }

    fn frame_to_segment(&mut self, headers: usize, data: usize, segment: usize) -> Option<&mut [u8]> {
        if self.frames.len() == self.room {
            return None;
        }
        if self.no_memory {
            self.offloads.segmentation = None;
            return None;
        }
        self.frames.push((vec![0; headers + data], Some(segment)));
        self.frames.last_mut().map(|frame| frame.0.as_mut_slice())
    }
}

/// What has both ports of a network.
pub trait Host {
    fn advance(&mut self, now_ns: u64);
    fn receive(&mut self, port: usize, frame: &[u8], now_ns: u64) -> Received;
    fn is_ready(&self, port: usize) -> bool;
    fn transmit(&mut self, port: usize, now_ns: u64, out: &mut impl Output);
    fn next_due_ns(&self) -> Option<u64>;
}

impl Host for Stack {
    fn advance(&mut self, now_ns: u64) {
        self.advance(now_ns);
    }

    fn receive(&mut self, port: usize, frame: &[u8], now_ns: u64) -> Received {
        self.receive(port, frame, now_ns)
    }

    fn is_ready(&self, port: usize) -> bool {
        self.is_ready(port)
    }

    fn transmit(&mut self, port: usize, now_ns: u64, out: &mut impl Output) {
        self.transmit(port, now_ns, out);
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.next_due_ns()
    }
}

/// When a network's clock begins.
pub const START: u64 = 1_000_000_000;

/// A network's ports.
pub const LINKS: [PortLink; 2] = [
    PortLink { mac: [2, 0, 0, 0, 0, 1], next_hop: [2, 0, 0, 0, 0, 2] },
    PortLink { mac: [2, 0, 0, 0, 0, 2], next_hop: [2, 0, 0, 0, 0, 1] },
];

/// Two ports of one stack, or of what drives one, and the paths between.
pub struct Net<H = Stack> {
    pub stack: H,
    pub now: u64,
    pub path: Path,
    random: Numbers,
    under_way: BinaryHeap<UnderWay>,
    order: u64,
    /// By direction: when the link is free again.
    free_at: [u64; 2],
    pub sent: Vec<Sent>,
    pub record: bool,
    pub lost: u64,
    /// Frames that a burst has room for.
    pub room: usize,
    /// What something between the ends makes of a frame that comes from a port.
    pub rewrite: Option<fn(usize, &mut [u8])>,
    /// What the ports' devices do.
    pub offloads: Offloads,
    /// Of a million bursts have no memory for frames to be cut.
    pub no_memory: u32,
    /// Frames that were cut, and segments of the one with the most.
    pub cut: u64,
    pub most_cut: usize,
    opened: u64,
    scenario: Arc<Scenario>,
}

impl Net {
    pub fn new(scenario: Scenario, path: Path) -> Self {
        let scenario = Arc::new(scenario);
        let stack = Stack::new(scenario.clone(), &LINKS, path.seed.into(), START);
        Self::of(stack, scenario, path)
    }

    /// Opens the next flow of a template.
    pub fn open(&mut self, template: usize) {
        let of = &self.scenario.templates[template];
        let address = |pool: &WeightedPool, n: u64| {
            let pool = &self.scenario.pools[pool.pool];
            pool.address(u128::from(n) % (pool.last_offset() + 1))
        };
        let tuple = Tuple {
            local: address(&of.clients[0], self.opened % 50),
            remote: address(&of.servers[0], self.opened % 7),
            local_port: 1024 + (self.opened % 60_000) as u16,
            remote_port: of.destination_port,
        };
        self.stack.open(template, self.opened, &tuple, self.now).expect("a place");
        self.opened += 1;
    }

    pub fn counters(&self, template: usize, client: bool) -> &Arc<Counters> {
        self.stack.counters(template, client)
    }

    pub fn count(&self, client: bool, count: Count) -> u64 {
        self.counters(0, client).get(count)
    }

    /// Non-zero counters of both sides, to be read.
    pub fn summary(&self) -> String {
        let mut summary = String::new();
        for (side, client) in [("client", true), ("server", false)] {
            for ((name, _, _), value) in spate_stateful::COUNTERS.iter().zip(self.counters(0, client).all()) {
                if value > 0 {
                    summary += &format!("{side} {name} {value}\n");
                }
            }
        }
        summary
    }
}

impl<H: Host> Net<H> {
    pub fn of(host: H, scenario: Arc<Scenario>, path: Path) -> Self {
        Self {
            stack: host,
            now: START,
            path,
            random: Numbers::new(path.seed),
            under_way: BinaryHeap::new(),
            order: 0,
            free_at: [0; 2],
            sent: Vec::new(),
            record: false,
            lost: 0,
            room: 64,
            rewrite: None,
            offloads: Offloads::default(),
            no_memory: 0,
            cut: 0,
            most_cut: 0,
            opened: 0,
            scenario,
        }
    }

    fn send(&mut self, port: usize) {
        let no_memory = self.no_memory > 0 && self.random.happens(self.no_memory);
        let mut frames = Frames { room: self.room, offloads: self.offloads, no_memory, ..Frames::default() };
        self.stack.transmit(port, self.now, &mut frames);
        for (frame, segment) in frames.frames {
            let on_wire = match self.offloads {
                Offloads { checksums: false, .. } if segment.is_none() => vec![frame],
                Offloads { segmentation, .. } => device::finish(&frame, segment, segmentation),
            };
            if segment.is_some() {
                self.cut += 1;
                self.most_cut = self.most_cut.max(on_wire.len());
            }
            for frame in on_wire {
                if self.record {
                    self.sent.push((self.now, port, frame.clone()));
                }
                self.carry(port, frame);
            }
        }
    }

    fn carry(&mut self, port: usize, mut frame: Vec<u8>) {
        let path = self.path;
        if let Some(rewrite) = self.rewrite {
            rewrite(port, &mut frame);
        }
        if path.marks > 0 && self.random.happens(path.marks) {
            mark(&mut frame);
        }
        if self.random.happens(path.loss) {
            self.lost += 1;
            return;
        }
        let mut at = self.now;
        if let Some(takes) = (frame.len() as u64 * 8_000_000_000).checked_div(path.bandwidth) {
            let begin = self.free_at[port].max(at);
            if (begin - at) * path.bandwidth / 8_000_000_000 > path.queue {
                self.lost += 1;
                return;
            }
            self.free_at[port] = begin + takes;
            at = begin + takes;
        }
        at += path.delay_ns + self.random.below(path.jitter_ns + 1);
        if self.random.happens(path.late) {
            at += path.delay_ns;
        }
        let copies = 1 + usize::from(self.random.happens(path.duplicates));
        for _ in 0..copies {
            self.order += 1;
            self.under_way.push(Reverse((at, self.order, 1 - port, frame.clone())));
        }
    }

    /// Lets time pass up to an instant.
    pub fn run_until(&mut self, end: u64) {
        loop {
            while self.stack.is_ready(CLIENT_PORT) || self.stack.is_ready(SERVER_PORT) {
                self.send(CLIENT_PORT);
                self.send(SERVER_PORT);
            }
            let frame_at = self.under_way.peek().map(|next| next.0.0);
            let due = self.stack.next_due_ns().map(|due| due.max(self.now + 1));
            let Some(next) = [frame_at, due].into_iter().flatten().min().filter(|next| *next <= end) else {
                self.now = self.now.max(end);
                self.stack.advance(self.now);
                if self.stack.is_ready(CLIENT_PORT) || self.stack.is_ready(SERVER_PORT) {
                    continue;
                }
                return;
            };
            self.now = self.now.max(next);
            self.stack.advance(self.now);
            while self.under_way.peek().is_some_and(|frame| frame.0.0 <= self.now) {
                let Reverse((_, _, port, frame)) = self.under_way.pop().expect("peeked");
                assert_eq!(self.stack.receive(port, &frame, self.now), Received::Taken);
            }
        }
    }

    pub fn run_for(&mut self, ns: u64) {
        self.run_until(self.now + ns);
    }
}

/// Marks a packet congested, if its ends can say so (RFC 3168 section 5).
fn mark(frame: &mut [u8]) {
    match &frame[12..14] {
        [8, 0] if frame[15] & 3 == 2 => {
            frame[15] |= 1;
            frame[24..26].fill(0);
            let check = spate_net::checksum::checksum(spate_net::checksum::sum(&frame[14..34]));
            frame[24..26].copy_from_slice(&check.to_be_bytes());
        }
        [0x86, 0xdd] if frame[15] >> 4 & 3 == 2 => frame[15] |= 0x10,
        _ => {}
    }
}

/// The same between addresses of IPv6.
pub fn over_ipv6(mut scenario: Scenario) -> Scenario {
    let pool = |first: u128| {
        let net = (0x2001_0db8_u128) << 96 | first << 32;
        Pool::new(Address(net), Address(net + 255), Order::Sequential).expect("a pool")
    };
    scenario.pools = vec![pool(16), pool(48)];
    scenario
}

/// Clients and servers of one template.
pub fn scenario(
    protocol: Protocol,
    client: Vec<Instruction>,
    server: Vec<Instruction>,
    payloads: Vec<Payload>,
) -> Scenario {
    with(protocol, client, server, payloads, Tunables::default(), Tunables::default())
}

pub fn with(
    protocol: Protocol,
    client: Vec<Instruction>,
    server: Vec<Instruction>,
    payloads: Vec<Payload>,
    client_tunables: Tunables,
    server_tunables: Tunables,
) -> Scenario {
    let v4 = |a, b, c, d| Address::v4(u32::from_be_bytes([a, b, c, d]));
    let pool = |first, last| Pool::new(first, last, Order::Sequential).expect("a pool");
    let program =
        |instructions: Vec<Instruction>| Program { instructions: instructions.into(), counters: Box::default() };
    Scenario {
        payloads,
        pools: vec![pool(v4(16, 0, 0, 0), v4(16, 0, 0, 255)), pool(v4(48, 0, 0, 0), v4(48, 0, 0, 255))],
        templates: vec![Template {
            name: "t".into(),
            group: "t".into(),
            protocol,
            destination_port: 80,
            clients: vec![WeightedPool { pool: 0, weight: 1 }],
            servers: vec![WeightedPool { pool: 1, weight: 1 }],
            client: Some(Client {
                port: CLIENT_PORT,
                program: program(client),
                tunables: client_tunables,
                rate: Ratio::ONE,
                limit: 0,
                most_open: 0,
            }),
            server: Some(Server {
                port: SERVER_PORT,
                program: program(server),
                tunables: server_tunables,
                matches: vec![],
            }),
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

/// A request of this many bytes, and an answer.
pub fn request_response(request: u64, response: u64) -> (Vec<Instruction>, Vec<Instruction>, Vec<Payload>) {
    let client = vec![
        Instruction::Connect,
        Instruction::Send { payload: 0, wait: true },
        Instruction::Receive { bytes: response, clear: true },
    ];
    let server = vec![
        Instruction::Accept,
        Instruction::Receive { bytes: request, clear: true },
        Instruction::Send { payload: 1, wait: true },
        Instruction::WaitForPeerClose,
    ];
    (client, server, vec![Payload::pattern(request), Payload::pattern(response)])
}
