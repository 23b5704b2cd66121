// SPDX-License-Identifier: Apache-2.0
//! The stack's peer, played by the test: it sends segments and checks the stack's replies, on a clock
//! that only the test moves. Sequence numbers count from both ends' initial ones: SYN is 0, the first byte of data 1.
use std::{collections::VecDeque, sync::Arc};

use super::net::{CLIENT_PORT, MS, SERVER_PORT, with};
use spate_stateful::{
    Address, Count, Instruction, OffloadRequest, Payload, PortLink, Protocol, Received, Scenario, Stack, Tunables,
    Tuple,
    packet::{Content, Endpoints, LowerHeaders, Options, Packet, SegmentHeader, TCP_HEADER, flag},
    tcp::Output,
};

pub const SYN: u8 = flag::SYN;
pub const ACK: u8 = flag::ACK;
pub const FIN: u8 = flag::FIN;
pub const RST: u8 = flag::RST;
pub const PSH: u8 = flag::PSH;
pub const ECE: u8 = flag::ECE;
pub const CWR: u8 = flag::CWR;

/// Flags that do not depend on the state.
const LOOSE: u8 = PSH;

/// What the stack sent.
#[derive(Clone, Debug)]
pub struct Reply {
    pub at: u64,
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
    pub options: Options,
    pub data: Vec<u8>,
    pub ecn: u8,
    pub frame: Vec<u8>,
}

impl Reply {
    pub fn len(&self) -> usize {
        self.data.len()
    }
}

/// A segment that the test sends.
#[derive(Clone, Debug)]
pub struct Segment {
    flags: u8,
    seq: u32,
    ack: u32,
    window: u16,
    options: Options,
    data: usize,
    tos: u8,
}

pub fn segment(flags: u8) -> Segment {
    Segment { flags, seq: 1, ack: 1, window: 65_535, options: Options::default(), data: 0, tos: 0 }
}

impl Segment {
    pub fn seq(self, seq: u32) -> Self {
        Self { seq, ..self }
    }
    pub fn ack(self, ack: u32) -> Self {
        Self { ack, ..self }
    }
    pub fn window(self, window: u16) -> Self {
        Self { window, ..self }
    }
    pub fn data(self, data: usize) -> Self {
        Self { data, ..self }
    }
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }
    pub fn marked(self) -> Self {
        Self { tos: 3, ..self }
    }
    pub fn timestamps(mut self, value: u32, echo: u32) -> Self {
        self.options.timestamps = Some((value, echo));
        self
    }
    /// Its acknowledgement number.
    pub fn acknowledged(&self) -> u32 {
        self.ack
    }
    /// Blocks that the test has, in the stack's numbers.
    pub fn sack(mut self, blocks: &[(u32, u32)]) -> Self {
        self.options.sack[..blocks.len()].copy_from_slice(blocks);
        self.options.sacks = blocks.len();
        self
    }
}

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

/// The peer of a stack with one flow.
pub struct Peer {
    pub stack: Stack,
    pub now: u64,
    /// The stack is the client.
    client: bool,
    /// Initial sequence numbers: the test's and the stack's.
    pub iss: u32,
    pub irs: u32,
    replies: VecDeque<Reply>,
    pub client_port: u16,
    /// Frames that the stack may send at a time.
    pub room: usize,
    /// Milliseconds between the stack's SYN and its answer.
    pub round_trip: u64,
}

/// Neither timestamps nor selective acknowledgements nor window scaling.
pub fn plain() -> Tunables {
    Tunables { timestamps: false, sack: false, window_scale: false, ..Tunables::default() }
}

/// With selective acknowledgements only.
pub fn selective() -> Tunables {
    Tunables { sack: true, ..plain() }
}

pub const SACK_PERMITTED: Options = Options {
    mss: Some(1460),
    window_scale: None,
    sack_permitted: true,
    timestamps: None,
    sack: [(0, 0); 4],
    sacks: 0,
};

pub const MSS: Options = Options { sack_permitted: false, ..SACK_PERMITTED };

const PORTS: [PortLink; 2] = [
    PortLink { mac: [2, 0, 0, 0, 0, 1], next_hop: [2, 0, 0, 0, 0, 2] },
    PortLink { mac: [2, 0, 0, 0, 0, 2], next_hop: [2, 0, 0, 0, 0, 1] },
];

pub fn scenario(client: Vec<Instruction>, server: Vec<Instruction>, payload: u64, tunables: Tunables) -> Scenario {
    with(Protocol::Tcp, client, server, vec![Payload::pattern(payload)], tunables.clone(), tunables)
}

pub const SEND: Instruction = Instruction::Send { payload: 0, wait: true };

impl Peer {
    pub fn of(scenario: Scenario, client: bool, now: u64) -> Self {
        let stack = Stack::new(Arc::new(scenario), &PORTS, 7, now);
        Self {
            stack,
            now,
            client,
            iss: 1_000_000,
            irs: 0,
            replies: VecDeque::new(),
            client_port: 1024,
            room: usize::MAX,
            round_trip: 50,
        }
    }

    /// The stack is a client that does this, with a payload of this many bytes.
    pub fn client(program: Vec<Instruction>, payload: u64, tunables: Tunables) -> Self {
        let mut peer = Self::of(
            scenario(program, vec![Instruction::Accept, Instruction::WaitForPeerClose], payload, tunables),
            true,
            1_000 * MS,
        );
        peer.open();
        peer
    }

    /// The stack is a server that does this.
    pub fn server(program: Vec<Instruction>, payload: u64, tunables: Tunables) -> Self {
        Self::of(scenario(vec![Instruction::Connect], program, payload, tunables), false, 1_000 * MS)
    }

    /// Lets the stack connect.
    pub fn open(&mut self) {
        let v4 = |a: u32| Address::v4(a << 24 | 1);
        let tuple = Tuple { local: v4(16), remote: v4(48), local_port: self.client_port, remote_port: 80 };
        self.stack.open(0, 0, &tuple, self.now).expect("a place");
        self.collect();
    }

    fn port(&self) -> usize {
        if self.client { CLIENT_PORT } else { SERVER_PORT }
    }

    fn below(&self, tos: u8) -> LowerHeaders {
        let v4 = |a: u32| Address::v4(a << 24 | 1);
        let (source, destination) = if self.client { (v4(48), v4(16)) } else { (v4(16), v4(48)) };
        let mut macs = [2; 12];
        macs[..6].copy_from_slice(&PORTS[self.port()].mac);
        LowerHeaders {
            macs,
            ends: Endpoints::of(source, destination),
            tos,
            ttl: 9,
            id: 0,
            finish: OffloadRequest::Nothing,
        }
    }

    /// Sends a segment now, and collects what the stack answers at once.
    pub fn send(&mut self, segment: Segment) {
        self.send_only(segment);
        self.collect();
    }

    pub fn send_only(&mut self, segment: Segment) {
        let frame = self.frame(segment);
        assert_eq!(self.stack.receive(self.port(), &frame, self.now), Received::Taken);
    }

    /// A segment as a frame.
    pub fn frame(&self, segment: Segment) -> Vec<u8> {
        let below = self.below(segment.tos);
        let mut options = segment.options;
        for block in &mut options.sack[..options.sacks] {
            *block = (block.0.wrapping_add(self.irs), block.1.wrapping_add(self.irs));
        }
        let header = below.len() + TCP_HEADER + options.len();
        let mut frame = vec![0; header + segment.data];
        let (source_port, destination_port) = if self.client { (80, self.client_port) } else { (self.client_port, 80) };
        let ack = if segment.flags & ACK == 0 { 0 } else { segment.ack.wrapping_add(self.irs) };
        let head = SegmentHeader {
            source_port,
            destination_port,
            seq: segment.seq.wrapping_add(self.iss),
            ack,
            flags: segment.flags,
            window: segment.window,
            ecn: 0,
        };
        below.write_tcp(&mut frame, &head, &options, (segment.data, 0));
        frame
    }

    /// Injects any frame.
    pub fn inject(&mut self, frame: &[u8]) -> Received {
        let received = self.stack.receive(self.port(), frame, self.now);
        self.collect();
        received
    }

    pub fn collect(&mut self) {
        for _ in 0..10_000 {
            if !self.stack.is_ready(self.port()) {
                return;
            }
            let mut frames = Frames { frames: vec![], room: self.room };
            self.stack.transmit(self.port(), self.now, &mut frames);
            for frame in frames.frames {
                self.take(frame);
            }
            if self.room == 0 {
                return;
            }
        }
        panic!("the stack does not stop to send");
    }

    fn take(&mut self, frame: Vec<u8>) {
        let packet = Packet::read(&frame).expect("a packet");
        let Content::Tcp(s) = packet.content else { panic!("{packet:?}") };
        if s.has(SYN) {
            self.irs = s.seq;
        }
        let mut options = s.options();
        for block in &mut options.sack[..options.sacks] {
            *block = (block.0.wrapping_sub(self.iss), block.1.wrapping_sub(self.iss));
        }
        let ack = if s.has(ACK) { s.ack.wrapping_sub(self.iss) } else { 0 };
        self.replies.push_back(Reply {
            at: self.now,
            flags: s.flags,
            seq: s.seq.wrapping_sub(self.irs),
            ack,
            window: s.window,
            options,
            data: s.payload.to_vec(),
            ecn: packet.ecn,
            frame: frame.clone(),
        });
    }

    /// Lets time pass.
    pub fn wait_us(&mut self, us: u64) {
        let end = self.now + us * 1000;
        while self.now < end {
            let next = self.stack.next_due_ns().map_or(end, |due| due.clamp(self.now + 1, end));
            self.now = next;
            self.stack.advance(self.now);
            self.collect();
        }
    }

    pub fn wait(&mut self, ms: u64) {
        self.wait_us(ms * 1000);
    }

    /// Fails if the stack has sent anything that was not checked.
    #[track_caller]
    pub fn expect_silence(&mut self) {
        assert!(self.replies.is_empty(), "{:?}", self.replies);
    }

    pub fn is_silent(&self) -> bool {
        self.replies.is_empty()
    }

    /// The stack's next segment, whatever it is.
    #[track_caller]
    pub fn next(&mut self) -> Reply {
        self.replies.pop_front().expect("the stack sends something")
    }

    /// All segments of the stack that were not checked yet.
    pub fn all(&mut self) -> Vec<Reply> {
        self.replies.drain(..).collect()
    }

    /// Checks the stack's next segment: flags, numbers, and bytes of data.
    #[track_caller]
    pub fn expect_segment(&mut self, flags: u8, seq: u32, ack: u32, len: usize) -> Reply {
        let reply = self.next();
        let seen = (reply.flags & !LOOSE, reply.seq, reply.ack, reply.len());
        assert_eq!(seen, (flags & !LOOSE, seq, ack, len), "flags, seq, ack, length of {reply:?}");
        reply
    }

    /// Waits for the stack's next segment. Returns how many milliseconds that took.
    #[track_caller]
    pub fn after(&mut self, flags: u8, seq: u32, ack: u32, len: usize) -> f64 {
        let start = self.now;
        while self.replies.is_empty() {
            assert!(self.now < start + 400_000 * MS, "nothing is sent");
            self.now = self.stack.next_due_ns().map_or(self.now + MS, |due| due.clamp(self.now + 1, self.now + MS));
            self.stack.advance(self.now);
            self.collect();
        }
        let reply = self.expect_segment(flags, seq, ack, len);
        (reply.at - start) as f64 / 1e6
    }

    /// The handshake, with these options in the test's SYN.
    #[track_caller]
    pub fn handshake(&mut self, options: Options, window: u16) {
        if self.client {
            let syn = self.next();
            assert_eq!(syn.flags & (SYN | ACK), SYN);
            self.wait(self.round_trip);
            self.send(segment(SYN | ACK).seq(0).ack(1).options(options).window(window));
        } else {
            self.send(segment(SYN).seq(0).options(options).window(window));
            let answer = self.next();
            assert_eq!((answer.flags & (SYN | ACK), answer.ack), (SYN | ACK, 1));
            self.wait(self.round_trip);
            self.send(segment(ACK).window(window));
        }
    }

    pub fn count(&self, count: Count) -> u64 {
        self.stack.counters(0, self.client).get(count)
    }

    pub fn is_open(&self) -> bool {
        self.stack.open_flows(0, self.client) > 0
    }

    /// The flow is forgotten, and nothing is held beside it.
    #[track_caller]
    pub fn expect_closed(&mut self) {
        assert_eq!((self.stack.flows(), self.stack.held()), (0, (0, 0)));
    }
}

/// About this many milliseconds: a few ticks of the stack's wheel more at most.
#[track_caller]
pub fn about(ms: f64, expected: f64) {
    assert!((expected - 0.1..expected + 0.3).contains(&ms), "{ms} ms, not {expected}");
}
