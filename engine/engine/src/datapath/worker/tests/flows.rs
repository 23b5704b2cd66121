// SPDX-License-Identifier: Apache-2.0
//! Flows between clients on one port and servers on another: when they begin and end, and which worker has their packets.
use spate_net::{spread, vlan::Tags};
use spate_stateful::{
    Address, Client, Count, Counters, Emulation, Instruction, NextHops, Payload, Pool, PortLink, Program, Protocol,
    Ratio, Scenario, Server, Template as Application, Tunables, WeightedPool, arrivals,
    pool::Order,
    tuples::{Sharding, Share},
};

use super::*;
use crate::datapath::{
    Timing,
    worker::{Emulated, FlowRate, HandoffShare, NewNextHops, Pools, between, simulated::Sent},
};

const US: u64 = 1000;
/// Run time 0.
const START: u64 = MS;
/// From a packet's departure to its arrival.
const PATH: u64 = 10 * US;
/// Indices of the ports.
const CLIENTS: PortIndex = PortIndex(0);
const SERVERS: PortIndex = PortIndex(1);
/// MACs of the ports.
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const REQUEST: u64 = 100;
const RESPONSE: u64 = 1000;
/// Longest frame of a run without FCS.
const LONGEST: usize = 1518;

/// What differs between runs.
#[derive(Clone, Copy)]
struct RunOptions {
    workers: usize,
    /// Connections a second.
    rate: u64,
    /// Connections that may be open at a time; 0: any number.
    most_open: u64,
    /// How long servers wait before they respond.
    hold_ns: u64,
    warmup_ns: u64,
    end_ns: u64,
    drain_ns: u64,
    late_after_ns: u64,
    /// Workers hand packets over; else each has both ends of its flows.
    handoff: bool,
    /// At the queue of which worker a packet arrives: of which one sent it, and its bytes.
    arrives_at: fn(usize, &[u8]) -> usize,
    /// Packets arrive at multiples of this alone.
    every_ns: u64,
}

const ANY: RunOptions = RunOptions {
    workers: 1,
    rate: 1000,
    most_open: 0,
    hold_ns: 0,
    warmup_ns: 0,
    end_ns: 10 * MS,
    drain_ns: 10 * MS,
    late_after_ns: MS,
    handoff: false,
    arrives_at: |sender, _| sender,
    every_ns: 1,
};

/// A run of a template with one request and one response a connection.
struct Flows {
    world: World,
    of: RunOptions,
    scenario: Arc<Scenario>,
    shares: Vec<Arc<RunShare>>,
    /// By worker: of clients, of servers.
    counters: Vec<[Arc<Counters>; 2]>,
    handoffs: Vec<Arc<HandoffShare>>,
    /// First packets of connections: when they left, after the run's start, and by which worker.
    started: Vec<(u64, usize)>,
    /// Number of packets that left.
    sent: usize,
    /// The MAC of the clients' next hop, which takes no frames to another and passes them to the servers.
    next_hop: [u8; 6],
    /// Frames of clients: when they left, after the run's start, and their destination.
    destinations: Vec<(u64, [u8; 6])>,
}

fn scenario(of: &RunOptions) -> Scenario {
    let program =
        |instructions: Vec<Instruction>| Program { instructions: instructions.into(), counters: Box::default() };
    let client = program(vec![
        Instruction::Connect,
        Instruction::Send { payload: 0, wait: true },
        Instruction::Receive { bytes: RESPONSE, clear: true },
        Instruction::Close,
    ]);
    let hold = (of.hold_ns > 0).then_some(Instruction::Delay { min_ns: of.hold_ns, max_ns: of.hold_ns });
    let asked = [Instruction::Accept, Instruction::Receive { bytes: REQUEST, clear: true }];
    let answer = [Instruction::Send { payload: 1, wait: true }, Instruction::WaitForPeerClose, Instruction::Close];
    let server = program(asked.into_iter().chain(hold).chain(answer).collect());
    let pool = |net: u32| {
        Pool::new(Address::v4(net << 24 | 1), Address::v4(net << 24 | 200), Order::Sequential).expect("a pool")
    };
    let tunables = Tunables { time_wait_ns: MS, ..Tunables::default() };
    Scenario {
        payloads: vec![Payload::pattern(REQUEST), Payload::pattern(RESPONSE)],
        pools: vec![pool(16), pool(48)],
        templates: vec![Application {
            name: "web".into(),
            group: "web".into(),
            protocol: Protocol::Tcp,
            destination_port: 80,
            clients: vec![WeightedPool { pool: 0, weight: 1 }],
            servers: vec![WeightedPool { pool: 1, weight: 1 }],
            client: Some(Client {
                port: CLIENTS.0,
                program: client,
                tunables: tunables.clone(),
                rate: Ratio::new(of.rate, 1),
                limit: 0,
                most_open: of.most_open,
            }),
            server: Some(Server { port: SERVERS.0, program: server, tunables, matches: vec![] }),
            looped: false,
            seed: 1,
            latency: false,
        }],
        most_flows: 8192,
        ramp_up: 0.into(),
        order: arrivals::Order::Even,
        ignored: None,
    }
}

/// A worker's share of all clients' connections.
fn share_of(worker: usize, workers: usize) -> Share {
    Share { worker: worker as u64, workers: workers as u64 }
}

/// The worker at whose queue a packet arrives if the device spreads as is computed.
fn spread_over_two(_: usize, frame: &[u8]) -> usize {
    spread::queue(frame, 2)
}

/// Whether it is a SYN of a client.
fn opens(frame: &[u8]) -> bool {
    frame[12..14] == IPV4 && frame[23] == 6 && frame[47] & 0x12 == 2
}

impl Flows {
    /// Installed, and to begin at `START`.
    fn new(of: RunOptions) -> Self {
        let workers = of.workers;
        let (timescale, scenario) = (Arc::new(Timescale::new(0)), Arc::new(scenario(&of)));
        let mut this = Self {
            world: World::new(workers, 2, 64, POLL_NS),
            of,
            scenario,
            shares: Vec::new(),
            counters: Vec::new(),
            handoffs: Vec::new(),
            started: Vec::new(),
            sent: 0,
            next_hop: MACS[SERVERS.0],
            destinations: Vec::new(),
        };
        let everyone: Vec<_> = (0..workers).map(WorkerIndex).collect();
        let mut ways = between(&vec![of.handoff; workers], &[everyone.clone(), everyone], LONGEST);
        for (worker, way) in ways.iter_mut().enumerate() {
            let handoff = way.take();
            this.handoffs.extend(handoff.as_ref().map(|handoff| Arc::clone(handoff.share())));
            let sharding = if of.handoff { Sharding::ByHash } else { Sharding::ByNumber };
            let owned = Box::new(move |_: usize, port: u16, tuple: &spate_stateful::tuples::Tuple| {
                let (client, server) = ((tuple.client.into(), tuple.source_port), (tuple.server.into(), port));
                !of.handoff || spread::queue_between(server, client, workers) == worker
            });
            let [near, far] = MACS;
            let links = [PortLink { mac: near, next_hop: far }, PortLink { mac: far, next_hop: near }];
            let share = share_of(worker, workers);
            let emulation = Emulation::new(Arc::clone(&this.scenario), share, sharding, owned, &links, 1, 0).unwrap();
            let emulation = emulation.late_after(of.late_after_ns);
            this.counters.push([true, false].map(|client| Arc::clone(emulation.counters(0, client))));
            let timing = Timing { warmup_ns: of.warmup_ns, duration_ns: None, drain_ns: of.drain_ns };
            let (ports, tags) = (Box::new([CLIENTS, SERVERS]), [Tags::NONE; 2]);
            let pools = Pools { long: None, tso: None };
            let emulated = Emulated::new(emulation, None, ports, &tags, pools, handoff, &timing);
            let share = Arc::new(RunShare::new(0, 0, 0, 0));
            this.shares.push(Arc::clone(&share));
            let run = WorkerRun {
                tag: 9,
                clock: RunClock::new(),
                warmup_ns: of.warmup_ns,
                end_ns: of.end_ns,
                stopped: false,
                timescale: Arc::clone(&timescale),
                sender: worker as u8,
                ports: Vec::new(),
                replays: Vec::new(),
                emulated: Some(Box::new(emulated)),
                receive: nothing_measured(workers, &timescale),
                share,
                emptying: false,
            };
            this.world.send(worker, Command::Install(SLOT, Box::new(run)));
            this.world.send(worker, Command::Start(SLOT, START));
        }
        this
    }

    fn send_all(&mut self, command: impl Fn(usize) -> Command<Simulated>) {
        (0..self.of.workers).for_each(|worker| self.world.send(worker, command(worker)));
    }

    /// Goes on to an instant of the run, and has reached it.
    fn to(&mut self, run_ns: u64) {
        let end_ns = START + run_ns;
        while let Some(now) = self.world.next_ns().filter(|now| *now < end_ns) {
            self.pass(now);
        }
        self.pass(end_ns);
    }

    fn pass(&mut self, now_ns: u64) {
        let Self { world, of, started, sent: count, next_hop, destinations, .. } = self;
        world.go_to(now_ns, true, |world, worker, sent| {
            for Sent { at_ns, port, mut packet } in sent {
                *count += 1;
                if port == CLIENTS {
                    let lens = [packet.bytes().len() as u16];
                    let frame = packet.frames(0, &lens).next().expect("a frame");
                    let destination = *frame.first_chunk().expect("a frame");
                    destinations.push((at_ns - START, destination));
                    if destination != *next_hop {
                        continue;
                    }
                    frame[..6].copy_from_slice(&MACS[SERVERS.0]);
                }
                let frame = packet.bytes();
                if opens(frame) {
                    started.push((at_ns - START, worker));
                }
                let (to, arrives_ns) = ((of.arrives_at)(worker, frame), (at_ns + PATH).next_multiple_of(of.every_ns));
                world.arrive(to, if port == CLIENTS { SERVERS } else { CLIENTS }, arrives_ns, packet);
            }
        });
    }

    /// When connections began, after the run's start.
    fn times(&self) -> Vec<u64> {
        self.started.iter().map(|(at, _)| *at).collect()
    }

    /// What all workers counted of clients, or of servers.
    fn count(&self, client: bool, count: Count) -> u64 {
        self.counters.iter().map(|sides| sides[usize::from(!client)].get(count)).sum()
    }

    fn open(&self) -> u64 {
        self.counters.iter().flatten().map(|counters| counters.open()).sum()
    }

    fn is_sent(&self) -> bool {
        self.shares.iter().all(|share| share.sent.is_up())
    }

    /// This many connections have started and ended as their programs say, without any packet sent twice.
    fn assert_complete(&self, flows: u64) {
        let of = |client, started| {
            [started, Count::FlowsEstablished, Count::FlowsClosed].map(|count| self.count(client, count))
        };
        assert_eq!((of(true, Count::FlowsAttempted), of(false, Count::FlowsAccepted)), ([flows; 3], [flows; 3]));
        assert_eq!((self.started.len() as u64, self.open()), (flows, 0));
    }
}

/// Nothing is expected but flows.
fn nothing_measured(workers: usize, timescale: &Arc<Timescale>) -> RunReceive {
    RunReceive {
        by_id: Arc::default(),
        streams: Arc::default(),
        owners: Arc::default(),
        senders: 0,
        here: 0..workers,
        timescale: Arc::clone(timescale),
        clocks_agree: false,
        trackers: Box::default(),
        queues: Box::default(),
        transits: Box::default(),
        foreign: foreign(),
        by_tag: None,
    }
}

/// Another rate for all templates from an instant of the run on, as a fraction of that of the scenario.
fn factor(at_ns: u64, factor: Ratio) -> Command<Simulated> {
    Command::FlowRate(SLOT, FlowRate { at_ns, factor, flow_schedule: None })
}

#[test]
fn each_connection_begins_at_the_instant_at_which_it_is_due_in_the_worker_whose_turn_it_is() {
    for workers in [1, 2, 3] {
        // 33,333 1/3 ns apart, while packets of others arrive.
        let mut run = Flows::new(RunOptions { workers, rate: 30_000, end_ns: MS, ..ANY });
        run.to(MS - 1);
        assert!(!run.is_sent());
        run.to(MS);
        assert!(run.is_sent(), "{workers} workers");
        run.to(SECOND);
        let due: Vec<_> = (0..30).map(|n| (n * MS / 30, n as usize % workers)).collect();
        assert_eq!(run.started, due, "{workers} workers");
        run.assert_complete(30);
        assert_eq!(run.count(true, Count::FlowsLate), 0);
    }
}

#[test]
fn another_rate_of_connections_takes_effect_at_its_instant_although_workers_rest_until_later() {
    for workers in [1, 2] {
        let of = RunOptions { workers, end_ns: 5 * MS, ..ANY };
        // Half of the time to the next one has passed at the old rate.
        let mut run = Flows::new(of);
        run.send_all(|_| factor(2 * MS + MS / 2, Ratio::new(2, 1)));
        run.to(SECOND);
        let halves: Vec<_> = [0, 4, 8, 11, 13, 15, 17, 19].map(|quarter| quarter * MS / 4).to_vec();
        assert_eq!(run.times(), halves, "{workers} workers");
        // Other rates of templates start another schedule.
        let mut run = Flows::new(of);
        let scenario = Arc::clone(&run.scenario);
        run.send_all(|worker| {
            let flow_schedule =
                Emulation::flow_schedule(&scenario, &[Ratio::new(4000, 1)], share_of(worker, workers)).unwrap();
            Command::FlowRate(
                SLOT,
                FlowRate { at_ns: 2 * MS + MS / 2, factor: Ratio::ONE, flow_schedule: Some(flow_schedule) },
            )
        });
        run.to(SECOND);
        let expected: Vec<_> = [0, 4, 8].into_iter().chain(10..20).map(|quarter| quarter * MS / 4).collect();
        assert_eq!(run.times(), expected, "{workers} workers");
        run.assert_complete(13);
    }
}

#[test]
fn no_connection_begins_while_the_run_is_paused_and_those_that_are_open_go_on() {
    let mut run = Flows::new(RunOptions { hold_ns: 2 * MS, ..ANY });
    run.send_all(|_| Command::Clock(SLOT, START + 3 * MS + 1, ClockChange::Stop));
    run.send_all(|_| Command::Clock(SLOT, START + 50 * MS + 1, ClockChange::Resume));
    // An instant of the run's clock, which comes when that has gone on.
    run.send_all(|_| factor(3 * MS + MS / 2, Ratio::new(2, 1)));
    run.to(3 * MS + 2);
    assert_eq!((run.started.len(), run.count(true, Count::FlowsClosed)), (4, 1));
    run.to(40 * MS);
    assert_eq!((run.started.len(), run.count(true, Count::FlowsClosed), run.open()), (4, 4, 0));
    run.to(SECOND);
    // 47 ms later; half of the distance to the next one is left when the rate is doubled.
    let after = (0..13).map(|n| 47 * MS + 3 * MS + 3 * MS / 4 + n * MS / 2);
    assert_eq!(run.times(), [0, MS, 2 * MS, 3 * MS].into_iter().chain(after).collect::<Vec<_>>());
    run.assert_complete(17);
    assert_eq!(run.count(true, Count::FlowsLate), 0);
}

#[test]
fn connections_that_begin_before_the_warm_up_ends_are_of_the_warm_up() {
    let mut run = Flows::new(RunOptions { warmup_ns: 4 * MS + 1, ..ANY });
    run.to(SECOND);
    let (all, warmup) = run.counters[0][0].phases();
    let attempted = Count::FlowsAttempted as usize;
    assert_eq!((all[attempted], warmup[attempted]), (10, 5));
}

#[test]
fn connections_that_are_open_at_the_end_go_on_and_none_begins_any_more() {
    let mut run = Flows::new(RunOptions { hold_ns: 3 * MS, end_ns: 5 * MS, ..ANY });
    run.to(5 * MS - 1);
    assert!(!run.is_sent());
    run.to(5 * MS);
    // Three clients and their servers.
    assert_eq!((run.is_sent(), run.open()), (true, 6));
    run.to(15 * MS);
    assert_eq!(run.times(), [0, 1, 2, 3, 4].map(|ms| ms * MS));
    run.assert_complete(5);
}

#[test]
fn connections_that_outlast_the_drain_are_cut_and_counted_and_nothing_of_them_leaves() {
    let mut run = Flows::new(RunOptions { hold_ns: 50 * MS, end_ns: 5 * MS, ..ANY });
    run.to(15 * MS);
    assert_eq!((run.is_sent(), run.open()), (true, 10));
    // As control does when the drain is over.
    run.send_all(|_| Command::Empty(SLOT));
    run.to(15 * MS + MS / 2);
    assert!(run.shares[0].emptied.is_up());
    run.send_all(|_| Command::Close(SLOT));
    let sent = run.sent;
    run.to(SECOND);
    assert!(run.shares[0].closed.is_up());
    let aborted = [true, false].map(|client| run.count(client, Count::FlowsAborted));
    assert_eq!((aborted, run.open(), run.sent), ([5, 5], 0, sent));
}

#[test]
fn connections_that_are_overdue_at_the_end_begin_within_half_of_the_drain() {
    // One after another, each 2.5 ms and a few ways.
    let mut run =
        Flows::new(RunOptions { most_open: 1, hold_ns: 2 * MS + MS / 2, end_ns: 5 * MS, drain_ns: 4 * MS, ..ANY });
    run.to(7 * MS - 1);
    assert!(!run.is_sent(), "some are overdue");
    run.to(7 * MS + US);
    assert!(run.is_sent());
    run.to(SECOND);
    let times = run.times();
    assert!(times.len() == 3 && (5 * MS..6 * MS).contains(&times[2]), "{times:?}");
    run.assert_complete(3);
    let given_up = [Count::FlowsThrottled, Count::FlowsNotStarted].map(|count| run.count(true, count));
    assert_eq!(given_up, [2, 0]);
}

#[test]
fn a_worker_that_is_behind_begins_fewer_connections_and_all_of_these_end() {
    // A packet in 2 us, and twenty connections a microsecond.
    let of = RunOptions { rate: 20_000_000, end_ns: 200 * US, drain_ns: 200 * US, late_after_ns: 20 * US, ..ANY };
    let mut run = Flows::new(of);
    run.world.set_speed(0, CLIENTS, Some(Speed { packet_ns: 2 * US, ring: 1 }));
    run.to(300 * US - 1);
    assert!(!run.is_sent(), "some are overdue");
    run.to(301 * US);
    assert!(run.is_sent());
    let started = run.count(true, Count::FlowsAttempted);
    assert_eq!(started + run.count(true, Count::FlowsNotStarted), 4000);
    // One in each pass: new ones wait, but not for ever.
    assert!((300..2000).contains(&started), "{started}");
    let late = run.count(true, Count::FlowsLate);
    assert!(late > 0 && late < started, "{late} of {started}");
    run.to(SECOND);
    run.assert_complete(started);
    let dropped = [CLIENTS, SERVERS].map(|port| run.world.port(0, port).tx.tx_dropped.get());
    assert_eq!((dropped, run.count(true, Count::RetransmitTimeouts)), ([0, 0], 0));
}

#[test]
fn replies_that_another_worker_receives_are_handed_to_the_one_that_has_the_connection() {
    for (arrives_at, handed_over) in [(spread_over_two as fn(usize, &[u8]) -> usize, false), (|_, _| 0, true)] {
        let of = RunOptions { workers: 2, handoff: true, arrives_at, end_ns: 50 * MS, ..ANY };
        let mut run = Flows::new(of);
        run.to(SECOND);
        run.assert_complete(50);
        let of_clients = |worker: usize| run.counters[worker][0].get(Count::FlowsClosed);
        assert_eq!([of_clients(0), of_clients(1)], [25, 25]);
        let [first, second] = run.handoffs.as_slice() else { panic!("two workers") };
        let [sent, taken, met] = [first.sent.get(), second.taken.get(), second.met.get()];
        assert_eq!((sent, taken, met > 0), (taken, met, handed_over));
        // What the first worker receives for itself is not handed over, nor is anything for servers.
        let received = run.counters[1][0].get(Count::ReceivedPackets);
        assert_eq!(sent, if handed_over { received } else { 0 });
        assert_eq!([second.sent.get(), first.taken.get(), first.lost.get(), second.lost.get()], [0; 4]);
    }
}

#[test]
fn a_worker_reads_nothing_more_while_another_has_no_room_for_its_connections_and_none_is_lost() {
    // 800 connections start in a millisecond, and all packets arrive together at the first worker: of responses, for half of the clients,
    // more than a ring holds.
    let of =
        RunOptions { workers: 2, rate: 800_000, end_ns: MS, handoff: true, arrives_at: |_, _| 0, every_ns: MS, ..ANY };
    let mut run = Flows::new(of);
    run.to(SECOND);
    run.assert_complete(800);
    let [first, second] = run.handoffs.as_slice() else { panic!("two workers") };
    assert_eq!((first.lost.get(), first.sent.get()), (0, second.taken.get()));
    assert!(run.world.port(0, CLIENTS).received.receive_waits.get() > 0);
    assert_eq!(run.count(false, Count::RetransmitTimeouts), 0);
}

#[test]
fn open_connections_and_new_ones_go_on_at_the_next_hops_other_mac() {
    const MOVED: [u8; 6] = [2, 0, 0, 0, 0, 3];
    for workers in [1, 2] {
        let mut run = Flows::new(RunOptions { workers, hold_ns: 2 * MS, ..ANY });
        run.to(4 * MS + MS / 2);
        assert!(run.open() > 0);
        run.next_hop = MOVED;
        run.send_all(|_| {
            let hops = NextHops { others: [MOVED; 2], ..NextHops::default() };
            Command::NextHops(SLOT, Box::new(NewNextHops { port: CLIENTS, hops, gateways: Box::default() }))
        });
        run.to(SECOND);
        run.assert_complete(10);
        let (before, after): (Vec<_>, Vec<_>) = run.destinations.iter().partition(|(at, _)| *at <= 4 * MS + MS / 2);
        assert!(!before.is_empty() && before.iter().all(|(_, mac)| *mac == MACS[SERVERS.0]), "{workers} workers");
        assert!(!after.is_empty() && after.iter().all(|(_, mac)| *mac == MOVED), "{workers} workers");
        assert_eq!(run.count(true, Count::RetransmitTimeouts), 0);
    }
}
