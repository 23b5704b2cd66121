// SPDX-License-Identifier: Apache-2.0
//! Our end: a worker's share of emulated clients or servers, driven by a thread of its own over an interface of the kernel's.
//!
//! It is the engine's TCP as the engine's workers drive it, without DPDK: how DPDK's ports carry it is the data path's tests'
//! concern.
use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use rtrb::{Consumer, RingBuffer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use spate_stateful::{
    Client, Comparison, Count, Counters, Emulation, Instruction, Payload, Pool, PortLink, Program, Protocol, Ratio,
    Received, Record, Recorder, Scenario, Server, Template, Tunables, WeightedPool, arrivals,
    pool::Order,
    program::Until,
    tcp,
    tuples::{Sharding, Share},
};

use crate::{
    namespaces::{self, FAR, Family, OURS},
    packet_socket::{BATCH, PacketSocket, ROOM},
};

/// Slots for flows.
const FLOWS: usize = 1 << 15;
/// What flows have left to end after a stop: longer than TIME-WAIT.
const DRAIN: Duration = Duration::from_millis(1500);

/// The engine's place behind the router.
#[derive(Debug)]
pub struct Engine {
    prefix: String,
    link: PortLink,
}

/// What servers do.
#[derive(Clone, Copy, Debug)]
pub enum Service {
    /// Servers answer one request with this many bytes; the client closes.
    Once(u64),
    /// Servers answer HTTP requests one after the other until the client closes, and count them.
    Http,
    /// Servers answer and count one HTTP request, and close.
    HttpOnce,
}

/// What clients do with a response.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// Clients know the length of the answer.
    Length(u64),
    /// The server closes behind it.
    PeerCloses,
}

/// Emulated clients or servers at work.
#[derive(Debug)]
pub struct Emulated {
    sides: [Arc<Counters>; 2],
    records: Consumer<Record>,
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<io::Result<Left>>,
}

/// What is there at the end of a run, besides counters.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// Slots for flows that are taken after all was cut.
    flows: usize,
    /// Frames that the socket had no room for.
    missed: u64,
    /// Frames that were none of the scenario's.
    foreign: u64,
}

/// What they counted.
#[derive(Clone, Debug)]
pub struct Counted {
    /// In the order of `spate_stateful::COUNTERS`, of clients and servers together: there is only one of them.
    counts: Vec<u64>,
    open: u64,
    /// Records of the flows, once all have ended.
    pub records: Vec<Record>,
    /// What cannot be.
    pub contradictions: Vec<String>,
}

impl Counted {
    /// Value of one counter.
    pub fn get(&self, count: Count) -> u64 {
        self.counts[count as usize]
    }

    /// Flows that are open.
    pub fn open(&self) -> u64 {
        self.open
    }

    /// All that is not 0, by name.
    pub fn named(&self) -> BTreeMap<&'static str, u64> {
        let named = spate_stateful::COUNTERS.iter().zip(&self.counts);
        named.filter(|(_, count)| **count > 0).map(|((name, ..), count)| (*name, *count)).collect()
    }
}

fn program(instructions: Vec<Instruction>) -> Program {
    Program { instructions: instructions.into(), counters: ["requests".into()].into() }
}

impl Service {
    fn program(self) -> Program {
        let message =
            [Instruction::Accept, Instruction::ReceiveUntil(Until::HttpMessage), Instruction::Count { counter: 0 }];
        let again = Instruction::Jump { to: 1, variable: 0, comparison: Comparison::Equal, value: 0 };
        program(match self {
            Self::Once(bytes) => vec![
                Instruction::Accept,
                Instruction::Receive { bytes, clear: true },
                Instruction::Send { payload: 0, wait: true },
                Instruction::WaitForPeerClose,
                Instruction::Close,
            ],
            Self::Http => [&message[..], &[Instruction::Send { payload: 0, wait: true }, again]].concat(),
            Self::HttpOnce => {
                [&message[..], &[Instruction::Send { payload: 0, wait: false }, Instruction::Close]].concat()
            }
        })
    }
}

impl Engine {
    /// On `our0` in the router's namespace, which is this one; its packets go to the far end.
    pub fn new(prefix: &str) -> Self {
        let link = PortLink { mac: namespaces::mac(OURS), next_hop: namespaces::mac(FAR) };
        Self { prefix: prefix.into(), link }
    }

    fn start(&mut self, [ours, far]: [IpAddr; 2], template: Template, payload: Payload) -> anyhow::Result<Emulated> {
        let pool = |at: IpAddr| Pool::new(at.into(), at.into(), Order::Sequential).context("one address");
        let begins = template.client.is_some();
        let scenario = Scenario {
            payloads: vec![payload],
            pools: vec![pool(ours)?, pool(far)?],
            templates: vec![template],
            most_flows: FLOWS,
            ramp_up: 0.into(),
            order: arrivals::Order::Even,
            ignored: None,
        };
        let (clock, seed) = (Instant::now(), u128::from(std::process::id()));
        let share = Share { worker: 0, workers: 1 };
        let owned = Box::new(|_, _, _: &_| true);
        let mut emulation =
            Emulation::new(Arc::new(scenario), share, Sharding::ByNumber, owned, &[self.link], seed, 1)?;
        let sides = [true, false].map(|client| Arc::clone(emulation.counters(0, client)));
        let (out, records) = RingBuffer::new(FLOWS);
        emulation.record(Recorder { one_in: 1, out });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (ready, is_ready) = mpsc::channel();
        let thread = namespaces::in_namespace(&self.prefix, "router", move || {
            let socket = PacketSocket::open("our0")?;
            ready.send(()).map_err(io::Error::other)?;
            let frames = Frames { frames: vec![vec![0; ROOM]; BATCH], written: 0 };
            Worker { socket, emulation, frames, clock, left: Left::default() }.run(begins, &stopped)
        });
        if is_ready.recv().is_err() {
            thread.join().expect("it does not panic")?;
            anyhow::bail!("our end ended at once");
        }
        Ok(Emulated { sides, records, stop, thread })
    }

    /// Servers at an address for the kernel's clients.
    pub fn serve(
        &mut self,
        at: SocketAddr,
        service: Service,
        response: Payload,
        tunables: Tunables,
    ) -> anyhow::Result<Emulated> {
        let template = Template {
            servers: vec![WeightedPool { pool: 0, weight: 1 }],
            server: Some(Server { port: 0, program: service.program(), tunables, matches: vec![] }),
            ..nothing(at.port())
        };
        self.start([at.ip(); 2], template, response)
    }

    /// Clients of the kernel's servers at an address: how many, and how many a second.
    pub fn ask(
        &mut self,
        server: SocketAddr,
        request: Payload,
        ending: Ending,
        (clients, per_second): (usize, usize),
        tunables: Tunables,
    ) -> anyhow::Result<Emulated> {
        let end = match ending {
            Ending::Length(bytes) => Instruction::Receive { bytes, clear: true },
            Ending::PeerCloses => Instruction::WaitForPeerClose,
        };
        let send = Instruction::Send { payload: 0, wait: true };
        let client = Client {
            port: 0,
            program: program(vec![Instruction::Connect, send, end, Instruction::Close]),
            tunables,
            rate: Ratio::new(per_second as u64, 1),
            limit: clients as u64,
            most_open: 0,
        };
        let template = Template {
            clients: vec![WeightedPool { pool: 0, weight: 1 }],
            servers: vec![WeightedPool { pool: 1, weight: 1 }],
            client: Some(client),
            ..nothing(server.port())
        };
        let family = if server.is_ipv4() { Family::V4 } else { Family::V6 };
        self.start([family.of(OURS), server.ip()], template, request)
    }
}

fn nothing(port: u16) -> Template {
    Template {
        name: "peers".into(),
        group: "peers".into(),
        protocol: Protocol::Tcp,
        destination_port: port,
        clients: vec![],
        servers: vec![],
        client: None,
        server: None,
        looped: false,
        seed: 1,
        latency: false,
    }
}

impl Emulated {
    /// Counters so far.
    pub fn counted(&self) -> Counted {
        let sum = |(a, b): (u64, u64)| a + b;
        let [clients, servers] = &self.sides;
        Counted {
            counts: clients.all().zip(servers.all()).map(sum).collect(),
            open: clients.open() + servers.open(),
            records: vec![],
            contradictions: vec![],
        }
    }

    /// Ends the run; flows that are open after a while are cut.
    pub fn stop(mut self) -> anyhow::Result<Counted> {
        self.stop.store(true, Ordering::Relaxed);
        while !self.thread.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        let mut counted = self.counted();
        counted.records = std::iter::from_fn(|| self.records.pop().ok()).collect();
        let left = self.thread.join().expect("it does not panic")?;
        let started = counted.get(Count::FlowsAttempted) + counted.get(Count::FlowsAccepted);
        let ended = counted.get(Count::FlowsClosed) + counted.open();
        if started != ended {
            counted.contradictions.push(format!("{started} flows began, {ended} ended or are open"));
        }
        let (records, closed) = (counted.records.len() as u64, counted.get(Count::FlowsClosed));
        if records != closed {
            counted.contradictions.push(format!("{records} records of {closed} flows that ended"));
        }
        for (count, what) in [
            (left.flows as u64, "places for flows are taken after all was cut"),
            (left.missed, "packets came faster than our end took them"),
            (left.foreign, "packets were foreign"),
            (counted.get(Count::BadChecksums), "packets had a wrong checksum"),
        ] {
            if count > 0 {
                counted.contradictions.push(format!("{count} {what}"));
            }
        }
        Ok(counted)
    }
}

/// Frames to be sent at once.
struct Frames {
    frames: Vec<Vec<u8>>,
    written: usize,
}

impl tcp::Output for Frames {
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        let frame = self.frames.get_mut(self.written)?;
        self.written += 1;
        frame.resize(len, 0);
        Some(frame)
    }
}

struct Worker {
    socket: PacketSocket,
    emulation: Emulation,
    frames: Frames,
    clock: Instant,
    left: Left,
}

impl Worker {
    fn now_ns(&self) -> u64 {
        // The stack was made at 1.
        self.clock.elapsed().as_nanos() as u64 + 1
    }

    fn run(mut self, begins: bool, stop: &AtomicBool) -> io::Result<Left> {
        if begins {
            self.emulation.start(self.now_ns());
        }
        let (mut rooms, mut lengths) = (Box::new([[0; ROOM]; BATCH]), [0; BATCH]);
        let mut end = None;
        loop {
            if stop.load(Ordering::Relaxed) && end.is_none() {
                self.emulation.stop(self.now_ns());
                end = Some(Instant::now() + DRAIN);
            }
            if end.is_some_and(|end| Instant::now() >= end || self.emulation.flows() == 0) {
                break;
            }
            let taken = self.socket.receive(&mut rooms, &mut lengths)?;
            for (room, length) in rooms.iter().zip(&lengths[..taken]) {
                let now = self.now_ns();
                let frame = &room[..*length];
                match self.emulation.receive(0, frame, now) {
                    Received::Taken => {}
                    Received::Foreign | Received::OtherMac | Received::Elsewhere => self.left.foreign += 1,
                }
            }
            let now = self.now_ns();
            let happened = self.emulation.advance(now, now, false);
            self.send()?;
            if taken == 0 && !happened {
                self.wait()?;
            }
        }
        self.emulation.give_up();
        self.emulation.abort();
        self.left.flows = self.emulation.flows();
        self.left.missed = self.socket.missed()?;
        Ok(self.left)
    }

    fn send(&mut self) -> io::Result<()> {
        while self.emulation.is_ready(0) {
            self.frames.written = 0;
            let now = self.now_ns();
            self.emulation.transmit(0, now, &mut self.frames);
            let mut left = &self.frames.frames[..self.frames.written];
            if left.is_empty() {
                break;
            }
            while !left.is_empty() {
                left = &left[self.socket.send(left)?..];
            }
        }
        Ok(())
    }

    /// Until a timer or a frame, but not for long: `stop` may be set.
    fn wait(&self) -> io::Result<()> {
        let due = self.emulation.next_due_ns().map_or(u64::MAX, |due| due.saturating_sub(self.now_ns()));
        let wait = Timespec { tv_sec: 0, tv_nsec: due.min(20_000_000) as _ };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
