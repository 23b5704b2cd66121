// SPDX-License-Identifier: Apache-2.0
//! What a short connection costs without TCP: the instructions that both ends of `short-connections` take for what is on the
//! wire, is counted and is waited for. Frames are read, verified, looked up, written and summed up by the stack's own parts; but
//! what an end does then is written down beforehand, step after step, for a path without loss and for a peer that is it itself.
//! There is no program, no window, no timeout that would do anything, and whatever else arrives is a panic. No stack that does
//! more can take less with these parts. `stack` has the stack do the same instead.
//!
//! ```sh
//! cargo build --release -p spate-stateful --example short_cost
//! for connections in 10000 40000; do   # the difference by 30000
//!   valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/short_cost wire $connections 2>&1 | grep Collected
//! done
//! ```
use std::{collections::VecDeque, env, hint::black_box, sync::Arc};

use spate_net::fast::{V4, ends};
use spate_stateful::{
    Address, Client, Count, Counters, Hints, Instruction, OffloadRequest, Payload, Pool, PortLink, Prefetched, Program,
    Protocol, Ratio, Received, Scenario, Server, Stack, Template, Tunables, Tuple, WeightedPool,
    flow::{Flow, FlowIndex, State, flags},
    packet::{
        ETHERNET, Endpoints, FastPathPacket, LowerHeaders, Options, Segment, SegmentHeader, TCP_HEADER, TIMESTAMPS_LEN,
        flag,
    },
    pool::Order,
    slab::Slab,
    table::Table,
    tcp::Output,
    wheel::{self, TimerNode, TimerNodes, Wheel},
};
use spate_stats::Times;

/// Connections that may be open at a time, those in TIME-WAIT among them.
const MOST: usize = 400_000;
/// Bytes of a request, and of a response.
const DATA: u32 = 100;
const SERVER_PORT: u16 = 80;
const BELOW: usize = ETHERNET + 20;
const SYN_OPTIONS: usize = 20;
const TIME_WAIT_NS: u64 = 1_000_000_000;
const MIN_RTO_NS: u64 = 200_000_000;

/// A burst's frames, in place.
struct Frames {
    buffers: Vec<[u8; 2048]>,
    lens: Vec<usize>,
}

impl Frames {
    fn new() -> Self {
        Self { buffers: vec![[0; 2048]; 64], lens: Vec::with_capacity(64) }
    }

    #[inline]
    fn frame(&mut self, len: usize) -> &mut [u8] {
        let buffer = &mut self.buffers[self.lens.len()];
        self.lens.push(len);
        &mut buffer[..len]
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.buffers.iter().zip(&self.lens).map(|(buffer, len)| &buffer[..*len])
    }
}

struct Flows(Slab<Flow>);

impl TimerNodes for Flows {
    #[inline]
    fn link(&mut self, index: u32) -> &mut TimerNode {
        &mut self.0[FlowIndex::new(index)].link
    }
}

/// Clients or servers.
struct Side {
    counters: Counters,
    connect_times: Times,
    round_trips: Times,
}

struct BothEnds {
    flows: Flows,
    table: Table<FlowIndex>,
    wheel: Wheel,
    time_waits: VecDeque<(FlowIndex, u32)>,
    /// Clients, servers.
    sides: [Side; 2],
    /// Those with something to send.
    ready: Vec<FlowIndex>,
    payload: Payload,
}

/// As the stack's.
#[inline]
fn hash(local: u32, remote: u32, local_port: u16, remote_port: u16) -> u32 {
    let addresses = u64::from(local) << 32 | u64::from(remote);
    let ports = u64::from(local_port) << 48 | u64::from(remote_port) << 32;
    let mixed = u128::from(addresses ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(u128::from(ports ^ 0xd1b5_4a32_d192_ed03));
    let folded = (mixed >> 64) as u64 ^ mixed as u64;
    (folded.wrapping_mul(0x9fb2_1c65_1e98_df25) >> 32) as u32
}

#[inline]
fn us(now: u64) -> u32 {
    (now >> 10) as u32
}

impl BothEnds {
    fn new(now: u64) -> Self {
        let side =
            || Side { counters: Counters::default(), connect_times: Times::default(), round_trips: Times::default() };
        Self {
            flows: Flows(Slab::new(MOST, Flow::NOTHING)),
            table: Table::new(MOST, MOST),
            wheel: Wheel::new(wheel::tick_at(now)),
            time_waits: VecDeque::with_capacity(MOST),
            sides: [side(), side()],
            ready: Vec::with_capacity(64),
            payload: Payload::pattern(DATA.into()),
        }
    }

    #[inline]
    fn find(&self, hash: u32, local: u32, remote: u32, local_port: u16, remote_port: u16) -> Option<FlowIndex> {
        let is = |flow: &Flow| {
            flow.local == local
                && flow.remote == remote
                && flow.local_port == local_port
                && flow.remote_port == remote_port
        };
        self.table.find(hash, |index| is(&self.flows.0[index]))
    }

    #[inline]
    fn add(&mut self, hash: u32, flow: Flow, now: u64) {
        let index = self.flows.0.take().expect("a place");
        let isn = hash.wrapping_mul(0x9e37_79b9);
        self.flows.0[index] =
            Flow { snd_una: isn, snd_nxt: isn, snd_max: isn, snd_end: isn.wrapping_add(1), rtt_at: us(now), ..flow };
        self.table.insert(hash, index);
        self.wheel.set(&mut self.flows, index.position() as u32, wheel::tick_at(now + MIN_RTO_NS));
        self.ready.push(index);
    }

    #[inline(never)]
    fn open(&mut self, number: u64, local: u32, remote: u32, local_port: u16, now: u64) {
        let hash = hash(local, remote, local_port, SERVER_PORT);
        assert_eq!(self.find(hash, local, remote, local_port, SERVER_PORT), None);
        self.sides[0].counters.one(Count::FlowsAttempted);
        let state = State::SynSent;
        let flags = flags::CLIENT | flags::OPEN;
        let ports = (local_port, SERVER_PORT);
        let (local_port, remote_port) = ports;
        self.add(hash, Flow { local, remote, local_port, remote_port, number, state, flags, ..Flow::NOTHING }, now);
    }

    #[inline(never)]
    fn receive_all(&mut self, frames: &Frames, now: u64) {
        let mut hashes = [0; 64];
        for (frame, hash_of) in frames.iter().zip(&mut hashes) {
            let (source, destination, ports, _) = ends::<V4>(frame).expect("a whole frame");
            *hash_of = hash(destination.0, source.0, ports as u16, (ports >> 16) as u16);
            self.table.fetch(*hash_of);
        }
        for hash in &hashes[..frames.lens.len()] {
            black_box(self.table.first(*hash));
        }
        for (frame, hash) in frames.iter().zip(hashes) {
            self.receive(frame, hash, now);
        }
    }

    #[inline(never)]
    fn receive(&mut self, frame: &[u8], hash: u32, now: u64) {
        let plain = FastPathPacket::<V4, Segment<'_>>::read(frame, false).expect("right checksums");
        let s = &plain.content;
        let (local, remote) = (plain.destination.0, plain.source.0);
        let (local_port, remote_port) = (s.destination_port, s.source_port);
        let Some(index) = self.find(hash, local, remote, local_port, remote_port) else {
            assert_eq!(s.flags, flag::SYN);
            self.sides[1].counters.one(Count::ReceivedPackets);
            let mut flow =
                Flow { local, remote, local_port, remote_port, side: 1, flags: flags::OPEN, ..Flow::NOTHING };
            flow.state = State::SynReceived;
            agree(&mut flow, s);
            return self.add(hash, flow, now);
        };
        let flow = &mut self.flows.0[index];
        let Side { counters, connect_times, round_trips } = &self.sides[usize::from(flow.side)];
        counters.one(Count::ReceivedPackets);
        assert_eq!(s.ack, flow.snd_max);
        flow.snd_una = s.ack;
        flow.snd_wnd = u32::from(s.window) << 7;
        (flow.snd_wl1, flow.snd_wl2) = (s.seq, s.ack);
        let rtt = us(now).wrapping_sub(flow.rtt_at);
        counters.one(Count::RoundTrips);
        if matches!(flow.state, State::SynSent | State::SynReceived) {
            counters.one(Count::FlowsEstablished);
            connect_times.record(u64::from(rtt) << 10);
            (flow.srtt, flow.rttvar) = (rtt, rtt / 2);
            // What the program sends next.
            counters.add(Count::QueuedBytes, DATA.into());
            flow.snd_end = flow.snd_end.wrapping_add(DATA);
        } else {
            counters.one(Count::AckedPackets);
            counters.add(Count::AckedBytes, DATA.into());
            round_trips.record(u64::from(rtt) << 10);
            flow.rttvar = flow.rttvar - flow.rttvar / 4 + flow.srtt.abs_diff(rtt) / 4;
            flow.srtt = flow.srtt - flow.srtt / 8 + rtt / 8;
        }
        match flow.state {
            State::SynSent => {
                assert_eq!(s.flags, flag::SYN | flag::ACK);
                agree(flow, s);
                flow.state = State::Established;
            }
            State::SynReceived => {
                data(flow, s, counters, 0);
                flow.state = State::Established;
            }
            State::Established => {
                data(flow, s, counters, 1);
                flow.state = State::LastAck;
            }
            State::FinWait1 => {
                assert!(s.seq == flow.rcv_nxt && s.has(flag::FIN));
                flow.ts_recent = s.timestamps().expect("as agreed on").0;
                flow.rcv_nxt = s.seq.wrapping_add(1);
                flow.state = State::TimeWait;
                counters.one(Count::FlowsClosed);
                flow.wait_at = wheel::tick_at(now + TIME_WAIT_NS);
                self.time_waits.push_back((index, flow.wait_at));
                self.wheel.cancel(&mut self.flows, index.position() as u32);
            }
            State::LastAck => {
                counters.one(Count::FlowsClosed);
                return self.forget(index);
            }
            state => panic!("{state:?}"),
        }
        self.ready.push(index);
    }

    #[inline]
    fn forget(&mut self, index: FlowIndex) {
        self.wheel.cancel(&mut self.flows, index.position() as u32);
        let flow = &self.flows.0[index];
        assert!(self.table.remove(hash(flow.local, flow.remote, flow.local_port, flow.remote_port), index));
        self.flows.0.give(index);
    }

    #[inline(never)]
    fn transmit(&mut self, now: u64, out: &mut Frames) {
        let ms = (now >> 20) as u32;
        for &index in &self.ready {
            let flow = &mut self.flows.0[index];
            let counters = &self.sides[usize::from(flow.side)].counters;
            let timestamps = Some((ms, flow.ts_recent));
            let below = LowerHeaders {
                macs: [2; 12],
                ends: Endpoints::V4 { source: flow.local, destination: flow.remote },
                tos: 0,
                ttl: 64,
                id: flow.snd_nxt as u16,
                finish: OffloadRequest::Nothing,
            };
            let head = |flags, window| SegmentHeader {
                source_port: flow.local_port,
                destination_port: flow.remote_port,
                seq: flow.snd_nxt,
                ack: flow.rcv_nxt,
                flags,
                window,
                ecn: 0,
            };
            counters.one(Count::SentPackets);
            let rto = MIN_RTO_NS.max(u64::from(flow.srtt + 4 * flow.rttvar) << 10);
            let plain = BELOW + TCP_HEADER + TIMESTAMPS_LEN;
            match flow.state {
                State::SynSent | State::SynReceived => {
                    let flags = if flow.state == State::SynSent { flag::SYN } else { flag::SYN | flag::ACK };
                    let options = Options {
                        mss: Some(1460),
                        window_scale: Some(7),
                        sack_permitted: true,
                        timestamps,
                        ..Options::default()
                    };
                    let frame = out.frame(BELOW + TCP_HEADER + SYN_OPTIONS);
                    below.write_syn(frame, &head(flags, 0xffff), &options);
                    flow.snd_nxt = flow.snd_nxt.wrapping_add(1);
                    counters.one(Count::SentControlPackets);
                }
                State::Established => {
                    let closes = flow.side == 1;
                    let frame = out.frame(plain + DATA as usize);
                    let sum = self.payload.fill(flow.number, 0, &mut frame[plain..]);
                    let flags = flag::ACK | flag::PSH | if closes { flag::FIN } else { 0 };
                    below.write_plain(frame, &head(flags, 0x2000), timestamps, (DATA as usize, sum));
                    flow.snd_nxt = flow.snd_nxt.wrapping_add(DATA + u32::from(closes));
                    if closes {
                        flow.state = State::FinWait1;
                        counters.one(Count::SentControlPackets);
                    }
                    counters.one(Count::SentDataPackets);
                    counters.add(Count::SentDataBytes, DATA.into());
                }
                State::LastAck => {
                    below.write_plain(out.frame(plain), &head(flag::ACK | flag::FIN, 0x2000), timestamps, (0, 0));
                    flow.snd_nxt = flow.snd_nxt.wrapping_add(1);
                    counters.one(Count::SentControlPackets);
                }
                State::TimeWait => {
                    below.write_plain(out.frame(plain), &head(flag::ACK, 0x2000), timestamps, (0, 0));
                    counters.one(Count::SentAckPackets);
                    continue;
                }
                state => panic!("{state:?}"),
            }
            flow.snd_max = flow.snd_nxt;
            flow.rtt_at = us(now);
            flow.wait_at = wheel::tick_at(now + rto);
        }
        self.ready.clear();
    }

    #[inline(never)]
    fn advance(&mut self, now: u64) {
        let to = wheel::tick_at(now);
        while let Some(index) = self.wheel.take_due(&mut self.flows, to) {
            let at = self.flows.0[FlowIndex::new(index)].wait_at;
            self.wheel.set(&mut self.flows, index, at);
        }
        while let Some(&(index, at)) = self.time_waits.front()
            && !wheel::before(to, at)
        {
            self.time_waits.pop_front();
            self.forget(index);
        }
    }
}

/// The contents of a SYN.
#[inline]
fn agree(flow: &mut Flow, s: &Segment<'_>) {
    let offers = s.offers();
    flow.rcv_nxt = s.seq.wrapping_add(1);
    flow.mss = offers.mss.expect("an MSS");
    flow.scales = offers.window_scale.expect("a scale");
    flow.ts_recent = offers.timestamps.expect("timestamps").0;
    flow.cwnd = 10 * u32::from(flow.mss);
}

/// A request, or a response with a FIN.
#[inline]
fn data(flow: &mut Flow, s: &Segment<'_>, counters: &Counters, fin: u32) {
    assert!(s.seq == flow.rcv_nxt && s.len() == DATA + fin);
    flow.ts_recent = s.timestamps().expect("as agreed on").0;
    flow.rcv_nxt = s.seq.wrapping_add(DATA + fin);
    flow.received = DATA.into();
    counters.one(Count::ReceivedDataPackets);
    counters.add(Count::ReceivedDataBytes, DATA.into());
}

/// What has the connections.
trait Both {
    fn open(&mut self, number: u64, local: u32, remote: u32, local_port: u16, now: u64);
    fn receive_all(&mut self, frames: &Frames, now: u64);
    fn advance(&mut self, now: u64);
    fn transmit(&mut self, now: u64, out: &mut Frames);
    fn counters(&self) -> [&Counters; 2];
    fn flows(&self) -> usize;
}

impl Both for BothEnds {
    fn open(&mut self, number: u64, local: u32, remote: u32, local_port: u16, now: u64) {
        Self::open(self, number, local, remote, local_port, now);
    }

    fn receive_all(&mut self, frames: &Frames, now: u64) {
        Self::receive_all(self, frames, now);
    }

    fn advance(&mut self, now: u64) {
        Self::advance(self, now);
    }

    fn transmit(&mut self, now: u64, out: &mut Frames) {
        Self::transmit(self, now, out);
    }

    fn counters(&self) -> [&Counters; 2] {
        self.sides.each_ref().map(|side| &side.counters)
    }

    fn flows(&self) -> usize {
        self.flows.0.taken()
    }
}

impl Output for Frames {
    #[inline]
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        (self.lens.len() < self.buffers.len()).then(|| Frames::frame(self, len))
    }
}

impl Both for Stack {
    fn open(&mut self, number: u64, local: u32, remote: u32, local_port: u16, now: u64) {
        let (local, remote) = (Address::v4(local), Address::v4(remote));
        let tuple = Tuple { local, remote, local_port, remote_port: SERVER_PORT };
        Self::open(self, 0, number, &tuple, now).expect("a place");
    }

    fn receive_all(&mut self, frames: &Frames, now: u64) {
        let mut found = [Prefetched::default(); 64];
        self.look_ahead(frames.iter(), &mut found);
        for (frame, ahead) in frames.iter().zip(&found) {
            let hints = Hints { verified: false, ahead: Some(ahead) };
            assert_eq!(self.receive_hinted(0, frame, hints, now), Received::Taken);
        }
    }

    fn advance(&mut self, now: u64) {
        Self::advance(self, now);
    }

    fn transmit(&mut self, now: u64, out: &mut Frames) {
        Self::transmit(self, 0, now, out);
    }

    fn counters(&self) -> [&Counters; 2] {
        [true, false].map(|client| &**Self::counters(self, 0, client))
    }

    fn flows(&self) -> usize {
        Self::flows(self)
    }
}

fn scenario() -> Scenario {
    let program =
        |instructions: Vec<Instruction>| Program { instructions: instructions.into(), counters: Box::default() };
    let send = || Instruction::Send { payload: 0, wait: false };
    let receive = || Instruction::Receive { bytes: DATA.into(), clear: true };
    let client = program(vec![Instruction::Connect, send(), receive(), Instruction::Close]);
    let server = program(vec![Instruction::Accept, receive(), send(), Instruction::Close]);
    let pool = |first: u32| {
        Pool::new(Address::v4(first), Address::v4(first + 255), Order::Sequential).expect("a range of addresses")
    };
    let tunables = Tunables { time_wait_ns: TIME_WAIT_NS, ..Tunables::default() };
    let (rate, limit, most_open) = (Ratio::ONE, 0, 0);
    Scenario {
        payloads: vec![Payload::pattern(DATA.into())],
        pools: vec![pool(0x1000_0000), pool(0x3000_0000)],
        templates: vec![Template {
            name: "short".into(),
            group: "short".into(),
            protocol: Protocol::Tcp,
            destination_port: SERVER_PORT,
            clients: vec![WeightedPool { pool: 0, weight: 1 }],
            servers: vec![WeightedPool { pool: 1, weight: 1 }],
            client: Some(Client { port: 0, program: client, tunables: tunables.clone(), rate, limit, most_open }),
            server: Some(Server { port: 0, program: server, tunables, matches: vec![] }),
            looped: true,
            seed: 1,
            latency: false,
        }],
        order: spate_stateful::arrivals::Order::default(),
        ignored: None,
        most_flows: MOST,
        ramp_up: 0.into(),
    }
}

fn run(mut both: impl Both, mut now: u64, connections: u32) {
    let (mut arriving, mut leaving) = (Frames::new(), Frames::new());
    let (mut started, mut idle) = (0, 0);
    while idle < 20_000 {
        idle += 1;
        now += if idle > 10 { 1_000_000 } else { 5_000 };
        if !arriving.lens.is_empty() {
            both.receive_all(&arriving, now);
            idle = 0;
        }
        for number in started..connections.min(started + 10) {
            let (low, high) = (number % 256, number / 256);
            both.open(number.into(), 0x1000_0000 + low, 0x3000_0000 + high % 256, 1024 + high as u16, now);
        }
        started = connections.min(started + 10);
        both.advance(now);
        leaving.lens.clear();
        both.transmit(now, &mut leaving);
        std::mem::swap(&mut arriving, &mut leaving);
    }
    for (name, counters) in ["clients", "servers"].iter().zip(both.counters()) {
        let [closed, sent] = [Count::FlowsClosed, Count::SentPackets].map(|count| counters.get(count));
        println!("{name}: {closed} connections, {sent} packets");
        assert_eq!((closed, sent), (connections.into(), 3 * u64::from(connections)));
    }
    assert_eq!(both.flows(), 0, "all are forgotten");
}

fn main() {
    let mode = env::args().nth(1).unwrap_or_else(|| "wire".into());
    let connections: u32 = env::args().nth(2).and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let now = 1_000_000_000;
    match mode.as_str() {
        "wire" => run(BothEnds::new(now), now, connections),
        "stack" => {
            let links = [PortLink { mac: [2; 6], next_hop: [2; 6] }];
            run(Stack::new(Arc::new(scenario()), &links, 1, now), now, connections);
        }
        other => panic!("{other}: wire or stack"),
    }
}
