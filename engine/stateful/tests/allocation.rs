// SPDX-License-Identifier: Apache-2.0
//! A worker takes all its memory before the start: from then on, whatever its flows do and whatever is lost, it neither takes
//! any nor gives any back.
#![allow(unsafe_code, reason = "an allocator")]
mod net;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    backtrace::Backtrace,
    cell::Cell,
    hint::black_box,
    iter,
    sync::Arc,
};

use net::{CLIENT_PORT, Host, LINKS, MS, Net, Path, SERVER_PORT, START};
use rtrb::RingBuffer;
use spate_stateful::{
    Address, Client, Comparison, Count, Emulation, Hints, Instruction, Offloads, Payload, Pool, Prefetched, Program,
    Protocol, Ratio, Received, Recorder, Scenario, Segmentation, Server, Template, Tunables, WeightedPool, arrivals,
    envelope::{Arrival, Envelopes, Ports},
    gtpu::Gtpu,
    payload::{Field, Values},
    pool::Order,
    program::Until,
    scenario::CongestionControl,
    tcp::Output,
    tunnel::{Kind, Tunnels},
    tuples::{Sharding, Share},
};

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    /// Calls of the allocator while the thread was watched.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Counts calls of watched threads; prints where the first came from.
struct Watching;

#[global_allocator]
static ALLOCATOR: Watching = Watching;

fn note(what: &str) {
    if WATCHED.replace(false) {
        CALLS.set(CALLS.get() + 1);
        if CALLS.get() == 1 {
            println!("{what}\n{}", Backtrace::force_capture());
        }
        WATCHED.set(true);
    }
}

// Growing is taking and giving back here, as by default.
// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note("memory is taken");
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note("memory is given back");
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn watched<T>(work: impl FnOnce() -> T) -> T {
    WATCHED.set(true);
    let result = work();
    WATCHED.set(false);
    result
}

/// Bytes of the longest frame.
const LONGEST: usize = 16 << 10;

/// Frames of a burst, in memory of its own: what the network takes for them is not the worker's.
struct Burst {
    buffers: Vec<[u8; LONGEST]>,
    /// Of each that is written: its length and, if the device is to cut it, a segment's bytes of data.
    written: Vec<(usize, Option<usize>)>,
    /// Before each.
    gap: usize,
    offloads: Offloads,
}

impl Burst {
    fn write(&mut self, len: usize, segment: Option<usize>) -> Option<&mut [u8]> {
        let buffer = self.buffers.get_mut(self.written.len())?;
        self.written.push((self.gap + len, segment));
        Some(&mut buffer[self.gap..][..len])
    }
}

impl Output for Burst {
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        self.write(len, None)
    }

    fn offloads_checksums(&self) -> bool {
        self.offloads.checksums
    }

    fn segmentation(&self) -> Option<&Segmentation> {
        self.offloads.segmentation.as_ref()
    }

    fn frame_to_segment(&mut self, headers: usize, data: usize, segment: usize) -> Option<&mut [u8]> {
        self.write(headers + data, Some(segment))
    }
}

/// A worker, driven as the engine drives it, and watched at that.
struct Worker {
    emulation: Emulation,
    tunnels: Option<Box<Envelopes>>,
    burst: Burst,
}

impl Host for Worker {
    fn advance(&mut self, now_ns: u64) {
        watched(|| self.emulation.advance(now_ns, now_ns, false));
    }

    fn receive(&mut self, port: usize, frame: &[u8], now_ns: u64) -> Received {
        watched(|| {
            let frame = match self.tunnels.as_mut().map(|tunnels| tunnels.receive(port, frame)) {
                None | Some(Arrival::Plain) => frame,
                Some(Arrival::Done) => return Received::Taken,
                Some(Arrival::Inner(inner)) => inner,
            };
            let mut found = [Prefetched::default()];
            self.emulation.look_ahead(iter::once(frame), &mut found);
            let hints = Hints { verified: false, ahead: Some(&found[0]) };
            self.emulation.receive_hinted(port, frame, hints, now_ns)
        })
    }

    fn is_ready(&self, port: usize) -> bool {
        self.emulation.is_ready(port)
    }

    fn transmit(&mut self, port: usize, now_ns: u64, out: &mut impl Output) {
        let burst = &mut self.burst;
        burst.offloads = Offloads { checksums: out.offloads_checksums(), segmentation: out.segmentation().copied() };
        watched(|| {
            burst.written.clear();
            burst.gap = self.tunnels.as_ref().map_or(0, |tunnels| tunnels.gap(port));
            self.emulation.transmit(port, now_ns, burst);
            let Some(tunnels) = self.tunnels.as_ref().filter(|_| burst.gap > 0) else { return };
            for (frame, (len, _)) in burst.buffers.iter_mut().zip(&mut burst.written) {
                *len = tunnels.encapsulate(port, &mut frame[..*len]);
            }
        });
        for (frame, &(len, segment)) in burst.buffers.iter().zip(&burst.written) {
            let room = match segment {
                None => out.frame(len),
                Some(segment) => out.frame_to_segment(len, 0, segment),
            };
            room.expect("as much room as the burst has").copy_from_slice(&frame[..len]);
        }
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.emulation.next_due_ns()
    }
}

const UNTIL_CLOSE: Instruction = Instruction::WaitForPeerClose;
const HTTP: Instruction = Instruction::ReceiveUntil(Until::HttpMessage);

fn send(payload: u32, wait: bool) -> Instruction {
    Instruction::Send { payload, wait }
}

/// `open`, `again` this many times, then `rest`.
fn times(open: &[Instruction], n: i64, again: &[Instruction], rest: &[Instruction]) -> Vec<Instruction> {
    let count = [
        Instruction::Count { counter: 0 },
        Instruction::Add { variable: 0, value: 1 },
        Instruction::Jump { to: open.len() as u32, variable: 0, comparison: Comparison::Less, value: n },
    ];
    [open, again, &count, rest].concat()
}

fn program(instructions: Vec<Instruction>) -> Program {
    Program { instructions: instructions.into(), counters: ["rounds".into()].into() }
}

/// One template: from a pool to the next, at a port, with a number of flows a second.
fn template(
    protocol: Protocol,
    (pool, port): (usize, u16),
    rate: u64,
    [client, server]: [Vec<Instruction>; 2],
    tunables: &Tunables,
) -> Template {
    let taken = |pool| vec![WeightedPool { pool, weight: 1 }];
    let side = |instructions: Vec<Instruction>| (!instructions.is_empty()).then(|| program(instructions));
    Template {
        name: format!("{pool}-{port}"),
        group: "all".into(),
        protocol,
        destination_port: port,
        clients: taken(pool),
        servers: taken(pool + 1),
        client: side(client).map(|program| Client {
            port: CLIENT_PORT,
            program,
            tunables: tunables.clone(),
            rate: Ratio::new(rate, 1),
            limit: 0,
            most_open: 0,
        }),
        server: side(server).map(|program| Server {
            port: SERVER_PORT,
            program,
            tunables: tunables.clone(),
            matches: vec![],
        }),
        looped: false,
        seed: 1,
        latency: protocol == Protocol::Udp,
    }
}

/// With keepalives, so that a reset that is lost leaves no flow for ever.
fn tunables() -> Tunables {
    Tunables { keepalive_idle_ns: 10_000 * MS, keepalive_interval_ns: 1000 * MS, ..Tunables::default() }
}

fn payloads() -> Vec<Payload> {
    let request = b"GET /000000 HTTP/1.1\r\nHost: a\r\n\r\n";
    let number = Field { offset: 5, values: Values::Counter { first: 1, step: 3, width: 6 } };
    let body = vec![b'b'; 30_000];
    let chunk = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7530\r\n".as_slice(), &body, b"\r\n"].concat();
    vec![
        Payload::bytes(request.as_slice()).with_fields([number]).expect("it is in the request"),
        Payload::bytes([chunk.as_slice(), b"0\r\nX: 1\r\n\r\n"].concat()),
        Payload::pattern(40_000),
        Payload::pattern(700),
        Payload::bytes(b"SMTP hello".as_slice()),
    ]
}

/// Pools of clients and, behind each, of their servers: of IPv4, and of IPv6.
fn pools() -> Vec<Pool> {
    let v4 = |first: u32, order| Pool::new(Address::v4(first), Address::v4(first + 99), order).expect("a pool");
    let v6 = |net: u128| Address(0x2001_0db8 << 96 | net << 64);
    let mut clients = v4(0x1000_0000, Order::Random { seed: 7 });
    clients.first_mac = Some([2, 1, 0, 0, 0, 0]);
    let far = |net| Pool::new(v6(net), Address(v6(net).0 + 99), Order::Sequential).expect("a pool");
    vec![clients, v4(0x3000_0000, Order::Sequential), far(16), far(48)]
}

/// HTTP in rounds over IPv4.
fn web() -> Template {
    let pause = Instruction::Delay { min_ns: MS, max_ns: 20 * MS };
    let client = times(&[Instruction::Connect], 3, &[send(0, false), HTTP, pause], &[Instruction::Close]);
    let server = times(&[Instruction::Accept], 3, &[HTTP, send(1, false)], &[UNTIL_CLOSE]);
    template(Protocol::Tcp, (0, 80), 200, [client, server], &tunables())
}

/// What flows can do, all at once, in slots that are too few.
fn all() -> Scenario {
    let receive = |bytes| Instruction::Receive { bytes, clear: true };
    let messages = Instruction::ReceiveMessages { messages: 1, clear: true };
    let message = |payload| Instruction::SendMessage { payload };
    let pause = Instruction::Delay { min_ns: 60 * MS, max_ns: 60 * MS };
    let narrow =
        Tunables { ecn: true, receive_buffer: 20_000, congestion_control: CongestionControl::NewReno, ..tunables() };
    let plain = Tunables { sack: false, timestamps: false, mss: 1200, ..tunables() };

    let mut web = web();
    web.client.as_mut().expect("clients").most_open = 20;
    let files = [
        vec![Instruction::Connect, send(3, true), receive(200_000), Instruction::Close],
        times(&[Instruction::Accept, receive(700)], 5, &[send(2, false)], &[UNTIL_CLOSE]),
    ];
    let files = template(Protocol::Tcp, (2, 8080), 60, files, &narrow);
    let upload =
        [vec![Instruction::Connect, send(2, true), Instruction::Reset], vec![Instruction::Accept, receive(50_000)]];
    let upload = template(Protocol::Tcp, (0, 8080), 40, upload, &plain);
    let quiet = || Instruction::Keepalive(300 * MS);
    let questions = [
        times(&[quiet()], 4, &[message(3), messages.clone()], &[Instruction::Close]),
        times(&[quiet()], 4, &[messages, message(3)], &[Instruction::Close]),
    ];
    let questions = template(Protocol::Udp, (2, 53), 200, questions, &tunables());
    // Nobody listens there.
    let refused = [vec![Instruction::Connect, send(3, true)], vec![]];
    let refused = template(Protocol::Tcp, (0, 81), 40, refused, &tunables());
    // By their first bytes these are the next template's; the bytes come behind the handshake.
    let hello = [
        vec![Instruction::Connect, pause, send(4, true), receive(700), Instruction::SwitchTemplate { template: 2 }],
        vec![Instruction::Accept, receive(10), send(3, false), UNTIL_CLOSE],
    ];
    let mut hello = template(Protocol::Tcp, (0, 25), 40, hello, &tunables());
    hello.server.as_mut().expect("servers").matches = vec![(0, b"GET".as_slice().into())];
    let greeting = Instruction::ReceiveUntil(Until::Pattern(b"hello".as_slice().into()));
    let mail = [vec![], vec![Instruction::Accept, greeting, send(3, false), UNTIL_CLOSE]];
    let mail = template(Protocol::Tcp, (0, 25), 1, mail, &tunables());

    // Each opens two of the next template's, one after the other.
    let open = Instruction::OpenConnection { template: Some(8) };
    let opener =
        [vec![Instruction::Connect, open.clone(), open, Instruction::Close], vec![Instruction::Accept, UNTIL_CLOSE]];
    let opener = template(Protocol::Tcp, (0, 82), 10, opener, &tunables());
    let piece = [
        vec![Instruction::Connect, send(3, true), receive(700), Instruction::Close],
        vec![Instruction::Accept, receive(700), send(3, false), UNTIL_CLOSE],
    ];
    let piece = template(Protocol::Tcp, (0, 83), 0, piece, &tunables());

    Scenario {
        payloads: payloads(),
        pools: pools(),
        templates: vec![web, files, upload, questions, refused, hello, mail, opener, piece],
        most_flows: 300,
        ramp_up: (500 * MS).into(),
        order: arrivals::Order::Drawn { seed: 3 },
        ignored: None,
    }
}

fn tunnelled() -> Scenario {
    let mut pools = pools();
    let v4 = |n: u32| Address::v4(0xac10_0000 + n);
    let tunnels = Tunnels {
        local: v4(10),
        local_count: 3,
        remote: v4(1),
        uplink: 1,
        downlink: 1 << 20,
        step: 1,
        mirror: true,
        kind: Kind::Gtpu(Gtpu { qfi: Some(9) }),
    };
    pools[0].tunnels = Some(tunnels);
    // Plans refuse MACs of clients whose packets are in GTP-U.
    pools[0].first_mac = None;
    let mut web = web();
    for tunables in
        [&mut web.client.as_mut().expect("clients").tunables, &mut web.server.as_mut().expect("servers").tunables]
    {
        tunables.mss = 1400;
    }
    Scenario {
        payloads: payloads(),
        pools,
        templates: vec![web],
        most_flows: 2000,
        ramp_up: 0.into(),
        order: arrivals::Order::Even,
        ignored: None,
    }
}

fn bad(seed: u64) -> Path {
    Path {
        delay_ns: 5 * MS,
        jitter_ns: MS,
        loss: 30_000,
        duplicates: 10_000,
        late: 30_000,
        marks: 5_000,
        seed,
        ..Path::default()
    }
}

/// A scenario over a bad network for two seconds, at twice its rates in the second, until all flows have ended. Returns what was
/// counted, all sides together.
fn run(scenario: Scenario, path: Path, offloads: Offloads) -> impl Fn(Count) -> u64 {
    let scenario = Arc::new(scenario);
    let share = Share { worker: 0, workers: 1 };
    let owned = Box::new(|_, _, _: &_| true);
    let mut emulation =
        Emulation::new(scenario.clone(), share, Sharding::ByNumber, owned, &LINKS, 5, START).expect("a share");
    let (out, _records) = RingBuffer::new(500);
    emulation.record(Recorder { one_in: 1, out });
    let tunnels = Envelopes::new(&scenario, &Ports { links: &LINKS, ..Ports::default() }, |template, client| {
        emulation.counters(template, client).clone()
    });
    let rates: Vec<_> = scenario
        .templates
        .iter()
        .map(|of| of.client.as_ref().map_or(Ratio::ZERO, |client| Ratio::new(2 * client.rate.numerator(), 1)))
        .collect();
    let flow_schedule = Emulation::flow_schedule(&scenario, &rates, share).expect("rates");
    watched(|| emulation.start(START));

    let buffers = vec![[0; LONGEST]; 64];
    let burst = Burst { written: Vec::with_capacity(buffers.len()), buffers, gap: 0, offloads };
    let mut net = Net::of(Worker { emulation, tunnels, burst }, scenario.clone(), path);
    net.offloads = offloads;
    net.run_for(1000 * MS);
    watched(|| net.stack.emulation.change_rates(START + 1000 * MS, flow_schedule));
    net.run_for(1000 * MS);
    assert!(watched(|| net.stack.emulation.over()).is_some(), "the first rates are over");
    watched(|| net.stack.emulation.stop(net.now));
    net.run_for(400_000 * MS);
    watched(|| net.stack.emulation.give_up());
    assert_eq!(net.stack.emulation.flows(), 0);
    assert_eq!(net.cut > 0, offloads.segmentation.is_some());
    assert_eq!(CALLS.get(), 0, "calls of the allocator; the first is printed above");
    move |count| {
        let sides = (0..scenario.templates.len()).flat_map(|template| [(template, true), (template, false)]);
        sides.map(|(template, client)| net.stack.emulation.counters(template, client).get(count)).sum()
    }
}

#[test]
fn whatever_flows_do_a_worker_takes_no_memory_once_it_runs() {
    let counted = run(all(), bad(1), Offloads::default());
    let happened = [
        Count::SynTimeouts,
        Count::RetransmitTimeouts,
        Count::FastRetransmits,
        Count::TailProbesSent,
        Count::SpuriousRecoveries,
        Count::DsackSent,
        Count::OutOfOrderPackets,
        Count::DelayedAcks,
        Count::CongestionEchoes,
        Count::StraysRefused,
        Count::ResetsReceived,
        Count::ProgramCounts,
        Count::SwitchedOut,
        Count::FlowsIdleTimeouts,
        Count::KeepaliveProbes,
        Count::FlowsExhausted,
        Count::OpenLimitWaits,
        Count::RecordsDropped,
    ];
    let not: Vec<_> = happened.into_iter().filter(|count| counted(*count) == 0).collect();
    assert!(not.is_empty(), "{not:?} did not happen");
}

#[test]
fn a_device_that_cuts_frames_makes_no_difference_to_that() {
    let cut = Segmentation { longest_frame: LONGEST as u32 - 1, longest_segment: 1514, v6: true };
    let counted = run(all(), bad(2), Offloads { checksums: true, segmentation: Some(cut) });
    assert!(counted(Count::FastRetransmits) > 0);
}

#[test]
fn nor_do_tunnels() {
    let counted = run(tunnelled(), bad(3), Offloads::default());
    assert!(counted(Count::FlowsEstablished) >= 1000 && counted(Count::FastRetransmits) > 0);
    assert_eq!(counted(Count::GtpuUnknownTunnel) + counted(Count::GtpuMalformed), 0);
}

#[test]
fn a_call_of_the_allocator_is_seen() {
    let boxed = watched(|| black_box(Box::new(1)));
    watched(|| drop(boxed));
    assert_eq!(CALLS.replace(0), 2);
}
