// SPDX-License-Identifier: Apache-2.0
//! Emulated applications on ports that give back what they take: every flow ends as its program says, and counters agree.
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use spate_engine::datapath::{
    self, Blueprint, Change, Datapath, FlowChange, OnLink, PollMode, PortDevice, RunSpec, RunState, StatefulSpec,
    TemplateCounters, Timing,
};
use spate_engine::index::{PortIndex, StreamIndex, TemplateIndex};
use spate_stateful::{
    Address, Client, Count, Instruction, Payload, Pool, PortLink, Program, Protocol, Ratio, Scenario, Server, Template,
    Tunables, WeightedPool, arrivals, pool::Order, program::Until,
};

use crate::kernel::{run, run_inside};
use crate::setup::{MS, assert_all_received, open, pps, spec, start, stream, turn, wait_for};

pub const REQUEST: u64 = 300;
pub const RESPONSE: u64 = 20_000;

pub fn v4(a: u8, b: u8, c: u8, d: u8) -> Address {
    Address::v4(u32::from_be_bytes([a, b, c, d]))
}

pub fn v6(group: u128, n: u128) -> Address {
    Address(0x2001_0db8 << 96 | group << 64 | n)
}

pub fn program(instructions: Vec<Instruction>) -> Program {
    Program { instructions: instructions.into(), counters: Box::default() }
}

/// Clients on a port that ask servers on it at this rate a second.
pub fn scenario(protocol: Protocol, rate: u64, clients: [Address; 2], servers: [Address; 2]) -> Scenario {
    let (client, server) = match protocol {
        Protocol::Tcp => (
            vec![
                Instruction::Connect,
                Instruction::Send { payload: 0, wait: true },
                Instruction::Receive { bytes: RESPONSE, clear: true },
                Instruction::Close,
            ],
            vec![
                Instruction::Accept,
                Instruction::Receive { bytes: REQUEST, clear: true },
                Instruction::Send { payload: 1, wait: true },
                Instruction::WaitForPeerClose,
                Instruction::Close,
            ],
        ),
        Protocol::Udp => (
            vec![
                Instruction::SendMessage { payload: 0 },
                Instruction::ReceiveMessages { messages: 1, clear: true },
                Instruction::Close,
            ],
            vec![
                Instruction::ReceiveMessages { messages: 1, clear: true },
                Instruction::SendMessage { payload: 2 },
                Instruction::Close,
            ],
        ),
    };
    let pool = |[first, last]: [Address; 2]| Pool::new(first, last, Order::Sequential).unwrap();
    let mss = if clients[0].is_v6() { 1440 } else { 1460 };
    let tunables = Tunables { mss, time_wait_ns: 10 * MS, ..Tunables::default() };
    Scenario {
        payloads: vec![Payload::pattern(REQUEST), Payload::pattern(RESPONSE), Payload::pattern(1000)],
        pools: vec![pool(clients), pool(servers)],
        templates: vec![Template {
            name: "web".into(),
            group: "web".into(),
            protocol,
            destination_port: 80,
            clients: vec![WeightedPool { pool: 0, weight: 1 }],
            servers: vec![WeightedPool { pool: 1, weight: 1 }],
            client: Some(Client {
                port: 0,
                program: program(client),
                tunables: tunables.clone(),
                rate: Ratio::new(rate, 1),
                limit: 0,
                most_open: 0,
            }),
            server: Some(Server { port: 0, program: program(server), tunables, matches: vec![] }),
            looped: true,
            seed: 1,
            latency: protocol == Protocol::Udp,
        }],
        most_flows: 8192,
        ramp_up: 0.into(),
        order: arrivals::Order::Even,
        ignored: None,
    }
}

pub fn over_v4(protocol: Protocol, rate: u64) -> Scenario {
    scenario(protocol, rate, [v4(16, 0, 0, 1), v4(16, 0, 0, 250)], [v4(48, 0, 0, 1), v4(48, 0, 0, 20)])
}

/// A run of a scenario for so long, and a second for what is open then.
pub fn emulated(datapath: &Datapath, tag: u16, duration_ns: Option<u64>, scenario: Scenario) -> RunSpec {
    let link = |mac| PortLink { mac, next_hop: mac };
    let links = datapath.ports().iter().map(|port| link(port.mac)).collect();
    let spec = spec(tag, 0, duration_ns, vec![]);
    RunSpec {
        stateful: Some(StatefulSpec { scenario: Arc::new(scenario), links, on_link: OnLink::default(), records: None }),
        timing: Timing { drain_ns: 1000 * MS, ..spec.timing },
        ..spec
    }
}

pub fn loopback(workers: usize, poll: PollMode) -> Datapath {
    open(&[("a", PortDevice::Loopback)], workers, poll)
}

/// The loopback port loses all frames but those that are right.
pub fn keep_only(datapath: &Datapath, right: impl Fn(&[u8]) -> bool + Send + Sync + 'static) {
    let kept = move |burst: &[(&[u8], usize)]| (0..burst.len()).filter(|at| right(burst[*at].0)).collect();
    datapath.disturb(PortIndex(0), Box::new(kept));
}

/// The 1,000 flows of a scenario complete on a loopback port, which receives no other packets than theirs, and none of these counters
/// counts.
pub fn a_thousand_flows_pass<const N: usize>(datapath: &Datapath, scenario: Scenario, faults: [Count; N]) {
    let run = start(datapath, emulated(datapath, 7, Some(1000 * MS), scenario));
    wait_for(&run, RunState::Complete, 10);
    let sides = run.template_counters();
    let (client, server) = assert_all_complete(&sides, 1000);
    assert_eq!(run.contradictions(), Vec::<String>::new());
    for side in [client, server] {
        assert_eq!(faults.map(|count| side.get(count)), [0; N]);
    }
    let sent = client.get(Count::SentPackets) + server.get(Count::SentPackets);
    let port = &datapath.port_counters()[0];
    assert_eq!((port.tx_packets, port.rx_packets, port.foreign_packets), (sent, sent, 0));
}

/// 100 flows of a scenario complete on a loopback port that also receives 50 times this frame, from a stream. Returns what these counters of
/// clients count, and the port's foreign packets.
pub fn beside_forged<const N: usize>(scenario: Scenario, mut frame: Vec<u8>, counts: [Count; N]) -> ([u64; N], u64) {
    let datapath = loopback(2, PollMode::Busy);
    let mut spec = emulated(&datapath, 7, Some(500 * MS), scenario);
    let mut forged = stream(1, 0, None, 60, pps(100));
    frame[..6].copy_from_slice(&datapath.ports()[0].mac);
    forged.template = datapath::Template::new(&Blueprint { frame, flow: false, ..Blueprint::default() }).unwrap();
    spec.streams = vec![forged];
    let run = start(&datapath, spec);
    wait_for(&run, RunState::Complete, 10);
    let sides = run.template_counters();
    assert_all_complete(&sides, 100);
    (counts.map(|count| sides[0].get(count)), datapath.port_counters()[0].foreign_packets)
}

/// All flows that began have sent, received and closed; returns clients and servers.
pub fn assert_all_complete(sides: &[TemplateCounters], flows: u64) -> (&TemplateCounters, &TemplateCounters) {
    let [client, server] = sides else { panic!("clients and servers: {sides:?}") };
    assert!(client.client && !server.client);
    let summary = |side: &TemplateCounters| {
        let named = spate_stateful::COUNTERS.iter().zip(&side.counts).filter(|(_, count)| **count > 0);
        named.map(|((name, ..), count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    };
    let of = |side: &TemplateCounters, started: Count| {
        (side.get(started), side.get(Count::FlowsEstablished), side.get(Count::FlowsClosed), side.open)
    };
    let all = (flows, flows, flows, 0);
    let both = (of(client, Count::FlowsAttempted), of(server, Count::FlowsAccepted));
    assert_eq!(both, (all, all), "client: {}; server: {}", summary(client), summary(server));
    let failures = [Count::ResetsReceived, Count::FlowsAborted, Count::PortsExhausted, Count::FlowsExhausted];
    for side in [client, server] {
        let failed = failures.iter().any(|failure| side.get(*failure) > 0);
        assert!(!failed, "client: {}; server: {}", summary(client), summary(server));
    }
    (client, server)
}

fn assert_bytes(client: &TemplateCounters, server: &TemplateCounters, flows: u64) {
    assert_eq!((client.get(Count::QueuedBytes), client.get(Count::SentDataBytes)), (flows * REQUEST, flows * REQUEST));
    assert_eq!(
        (server.get(Count::QueuedBytes), server.get(Count::SentDataBytes)),
        (flows * RESPONSE, flows * RESPONSE)
    );
    assert_eq!(server.get(Count::ReceivedDataBytes), flows * REQUEST);
    assert_eq!(client.get(Count::ReceivedDataBytes), flows * RESPONSE);
}

fn a_thousand_flows_complete(workers: usize, poll: PollMode, scenario: Scenario) {
    let _turn = turn();
    let datapath = loopback(workers, poll);
    let protocol = scenario.templates[0].protocol;
    let run = start(&datapath, emulated(&datapath, 7, Some(1000 * MS), scenario));
    wait_for(&run, RunState::Complete, 10);
    let sides = run.template_counters();
    let (client, server) = assert_all_complete(&sides, 1000);
    match protocol {
        Protocol::Tcp => assert_bytes(client, server, 1000),
        Protocol::Udp => {
            let count = |side: &TemplateCounters| {
                [Count::MessagesSent, Count::MessageBytesSent, Count::MessagesReceived, Count::MessageBytesReceived]
                    .map(|count| side.get(count))
            };
            assert_eq!(count(client), [1000, 1000 * REQUEST, 1000, 1_000_000]);
            assert_eq!(count(server), [1000, 1_000_000, 1000, 1000 * REQUEST]);
        }
    }
    assert_eq!(run.contradictions(), Vec::<String>::new());
    // Each connection was timed at both ends, and what was asked for round trips.
    let total = |times: &Option<spate_stats::Timed>| times.as_ref().map(|times| times.distribution.total());
    let times = run.template_times();
    let connects = if protocol == Protocol::Tcp { Some(1000) } else { None };
    assert!(times.iter().all(|side| total(&side.connect) == connects));
    match protocol {
        Protocol::Tcp => assert!(times.iter().all(|side| total(&side.round_trip) >= Some(1000))),
        Protocol::Udp => assert_eq!((total(&times[0].round_trip), total(&times[1].round_trip)), (Some(1000), None)),
    }
    // The port agrees: what flows sent is what it sent and received, and all of it was theirs.
    let sent = client.get(Count::SentPackets) + server.get(Count::SentPackets);
    let port = &datapath.port_counters()[0];
    assert_eq!((port.tx_packets, port.rx_packets), (sent, sent));
    assert_eq!((port.tx_bytes, port.foreign_packets, port.tx_dropped), (port.rx_bytes, 0, 0));
}

#[test]
fn a_thousand_http_like_flows_complete_with_one_worker() {
    a_thousand_flows_complete(1, PollMode::Busy, over_v4(Protocol::Tcp, 1000));
}

#[test]
fn a_thousand_http_like_flows_complete_with_two_workers() {
    a_thousand_flows_complete(2, PollMode::Busy, over_v4(Protocol::Tcp, 1000));
}

#[test]
fn a_thousand_http_like_flows_complete_with_workers_that_sleep() {
    a_thousand_flows_complete(2, PollMode::Adaptive, over_v4(Protocol::Tcp, 1000));
}

#[test]
fn a_thousand_exchanges_of_datagrams_complete() {
    a_thousand_flows_complete(1, PollMode::Busy, over_v4(Protocol::Udp, 1000));
    a_thousand_flows_complete(2, PollMode::Busy, over_v4(Protocol::Udp, 1000));
}

#[test]
fn a_thousand_flows_over_ipv6_complete() {
    let over_v6 = |protocol| scenario(protocol, 1000, [v6(1, 1), v6(1, 0xff)], [v6(2, 1), v6(2, 0x20)]);
    a_thousand_flows_complete(1, PollMode::Busy, over_v6(Protocol::Tcp));
    a_thousand_flows_complete(2, PollMode::Busy, over_v6(Protocol::Udp));
}

#[test]
fn a_change_that_is_refused_in_part_changes_nothing() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    let mut both = emulated(&datapath, 9, Some(600 * MS), over_v4(Protocol::Tcp, 1000));
    both.streams = vec![stream(10, 0, Some(0), 60, pps(1000))];
    let run = start(&datapath, both);
    let stand = FlowChange::Factor(Ratio::ZERO);
    let finest = Change::Factor(Ratio::new(1, u64::MAX));
    let of = |index| vec![StreamIndex(index)];
    for streams in [vec![(of(0), Change::Paused(true)), (of(9), Change::Paused(true))], vec![(of(0), finest)]] {
        assert!(run.update_all(Some((None, stand)), &streams, 0).is_err(), "{streams:?}");
    }
    wait_for(&run, RunState::Complete, 10);
    assert_eq!(run.counters()[0].measured.tx_packets, 600);
    assert_all_complete(&run.template_counters(), 600);
}

#[test]
fn a_thousand_flows_between_multicast_addresses_complete() {
    // TRex's default prefix, ff02::, as source and destination.
    let group = |a: u128, d: u128| Address(0xff02 << 112 | a << 24 | d);
    for (workers, protocol) in [(1, Protocol::Tcp), (2, Protocol::Udp)] {
        let mut of = scenario(protocol, 1000, [group(16, 1), group(16, 0xff)], [group(48, 1), group(48, 0x20)]);
        of.pools.iter_mut().for_each(|pool| pool.allow_multicast = true);
        a_thousand_flows_complete(workers, PollMode::Busy, of);
    }
}

#[test]
fn what_flows_do_in_the_warmup_is_counted_apart() {
    let _turn = turn();
    for workers in [1, 2] {
        let datapath = loopback(workers, PollMode::Adaptive);
        let mut of = over_v4(Protocol::Tcp, 1000);
        let counting = &mut of.templates[0].client.as_mut().unwrap().program;
        let (close, before) = counting.instructions.split_last().unwrap();
        counting.instructions = [before, &[Instruction::Count { counter: 0 }, close.clone()]].concat().into();
        counting.counters = ["answered".into()].into();
        let mut spec = emulated(&datapath, 7, Some(600 * MS), of);
        spec.timing.warmup_ns = 400 * MS;
        let run = start(&datapath, spec);
        wait_for(&run, RunState::WarmingUp, 10);
        thread::sleep(Duration::from_millis(100));
        let early = run.template_counters();
        assert!(early[0].get(Count::FlowsEstablished) > 0);
        assert!(early.iter().all(|side| side.warmup == side.counts), "{early:?}");
        assert!(run.template_times().iter().all(|side| side.connect.as_ref().unwrap().distribution.total() == 0));
        wait_for(&run, RunState::Complete, 10);
        let sides = run.template_counters();
        assert_all_complete(&sides, 1000);
        for (side, times) in sides.iter().zip(run.template_times()) {
            let measured = |count: Count| side.get(count) - side.warmup[count as usize];
            let (connects, closed) = (measured(Count::FlowsEstablished), measured(Count::FlowsClosed));
            // The worker splits them in its first iteration after it.
            assert!((500..=620).contains(&connects) && (500..=650).contains(&closed), "{connects} {closed}");
            assert_eq!(times.connect.unwrap().distribution.total(), connects);
        }
        let [answered] = &sides[0].programs[..] else { panic!("{sides:?}") };
        assert_eq!((answered.name.as_str(), answered.count), ("answered", 1000));
        assert!((500..=650).contains(&(answered.count - answered.warmup)), "{answered:?}");
        assert_eq!(sides[1].programs, []);
        assert_eq!(run.contradictions(), Vec::<String>::new());
    }
}

#[test]
fn templates_and_streams_beside_each_other_are_both_exact() {
    let _turn = turn();
    let datapath = loopback(2, PollMode::Busy);
    let mut both = emulated(&datapath, 9, Some(1000 * MS), over_v4(Protocol::Tcp, 500));
    both.streams = vec![stream(10, 0, Some(0), 60, pps(20_000))];
    let run = start(&datapath, both);
    wait_for(&run, RunState::Complete, 10);
    assert_all_received(&run.counters()[0].measured, 20_000);
    let sides = run.template_counters();
    let (client, server) = assert_all_complete(&sides, 500);
    assert_bytes(client, server, 500);
    let sent = client.get(Count::SentPackets) + server.get(Count::SentPackets);
    assert_eq!(datapath.port_counters()[0].tx_packets, 20_000 + sent);
}

#[test]
fn a_run_that_is_stopped_lets_flows_end_and_nothing_is_left() {
    let _turn = turn();
    let datapath = loopback(2, PollMode::Busy);
    let run = start(&datapath, emulated(&datapath, 3, None, over_v4(Protocol::Tcp, 2000)));
    thread::sleep(Duration::from_millis(300));
    run.stop("enough");
    wait_for(&run, RunState::Complete, 10);
    let sides = run.template_counters();
    let flows = sides[0].get(Count::FlowsAttempted);
    assert!((100..700).contains(&flows), "{flows} flows began");
    let (client, server) = assert_all_complete(&sides, flows);
    assert_bytes(client, server, flows);
}

#[test]
fn a_worker_that_is_asked_for_too_much_begins_fewer_flows_and_ends_them_all() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    let too_many = Scenario { most_flows: 1 << 18, ..over_v4(Protocol::Tcp, 2_000_000) };
    let run = start(&datapath, emulated(&datapath, 3, Some(300 * MS), too_many));
    wait_for(&run, RunState::Complete, 10);
    let sides = run.template_counters();
    let started = sides[0].get(Count::FlowsAttempted);
    assert_all_complete(&sides, started);
    assert_eq!(started + sides[0].get(Count::FlowsNotStarted), 600_000);
    assert_eq!(run.contradictions(), Vec::<String>::new());
}

#[test]
fn flows_that_are_overdue_at_the_end_begin_within_half_of_the_drain_which_ends_with_the_last() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    // Each takes 4 ms, and one is open at a time: at most 25 of 40 begin before the end, and the others in 10 s behind it.
    let mut one_by_one = over_v4(Protocol::Tcp, 400);
    let client = one_by_one.templates[0].client.as_mut().unwrap();
    let delay = Instruction::Delay { min_ns: 4 * MS, max_ns: 4 * MS };
    client.program.instructions = [&client.program.instructions[..3], &[delay, Instruction::Close]].concat().into();
    client.most_open = 1;
    let mut spec = emulated(&datapath, 3, Some(100 * MS), one_by_one.clone());
    spec.timing.drain_ns = 20_000 * MS;
    let run = start(&datapath, spec);
    wait_for(&run, RunState::Draining, 10);
    let since = Instant::now();
    assert!(run.template_counters()[0].get(Count::FlowsAttempted) < 30);
    wait_for(&run, RunState::Complete, 30);
    assert!(since.elapsed() < Duration::from_secs(15), "the drain took {:?}", since.elapsed());
    assert_all_complete(&run.template_counters(), 40);
    run.remove();

    // Those that cannot are given up, and counted.
    one_by_one.templates[0].client.as_mut().unwrap().rate = Ratio::new(10_000, 1);
    let run = start(&datapath, emulated(&datapath, 4, Some(100 * MS), one_by_one));
    wait_for(&run, RunState::Complete, 10);
    let sides = run.template_counters();
    let started = sides[0].get(Count::FlowsAttempted);
    assert_all_complete(&sides, started);
    assert!((5..160).contains(&started), "{started} began in 600 ms");
    assert_eq!(started + sides[0].get(Count::FlowsThrottled), 1000);
}

#[test]
fn flows_that_outlast_the_drain_are_cut_and_counted() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    let mut long = over_v4(Protocol::Tcp, 1000);
    let client = long.templates[0].client.as_mut().unwrap();
    let hour = 3_600_000_000_000;
    client.program = program(vec![Instruction::Connect, Instruction::Delay { min_ns: hour, max_ns: hour }]);
    let run = start(&datapath, emulated(&datapath, 3, Some(100 * MS), long));
    wait_for(&run, RunState::Complete, 10);
    for (side, started) in run.template_counters().iter().zip([Count::FlowsAttempted, Count::FlowsAccepted]) {
        let counts =
            [started, Count::FlowsEstablished, Count::FlowsAborted, Count::FlowsClosed].map(|count| side.get(count));
        assert_eq!((counts, side.open), ([100; 4], 0));
    }
    assert_eq!(run.contradictions(), Vec::<String>::new());
}

#[test]
fn no_flow_begins_while_a_run_is_paused_and_a_factor_changes_their_rate() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    let run = start(&datapath, emulated(&datapath, 3, Some(600 * MS), over_v4(Protocol::Tcp, 1000)));
    thread::sleep(Duration::from_millis(100));
    run.pause(0).unwrap();
    thread::sleep(Duration::from_millis(50));
    let before = run.template_counters()[0].get(Count::FlowsAttempted);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(run.template_counters()[0].get(Count::FlowsAttempted), before);
    run.resume(0).unwrap();
    wait_for(&run, RunState::Complete, 10);
    assert_all_complete(&run.template_counters(), 600);
    run.remove();

    let run = start(&datapath, emulated(&datapath, 4, Some(1000 * MS), over_v4(Protocol::Tcp, 1000)));
    let at = run.started_at().unwrap();
    run.change_flow_rate(Ratio::new(2, 1), at + 500 * MS).unwrap();
    wait_for(&run, RunState::Complete, 10);
    assert_all_complete(&run.template_counters(), 1500);
}

#[test]
fn a_rate_that_changes_while_a_run_stands_holds_when_it_goes_on() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    let run = start(&datapath, emulated(&datapath, 3, Some(600 * MS), over_v4(Protocol::Tcp, 1000)));
    let at = |ms: u64| run.started_at().unwrap() + ms * MS;
    run.pause(at(200)).unwrap();
    thread::sleep(Duration::from_millis(300));
    run.change_flow_rate(Ratio::new(2, 1), 0).unwrap();
    thread::sleep(Duration::from_millis(50));
    run.resume(0).unwrap();
    wait_for(&run, RunState::Complete, 10);
    // 200 ms at 1000 flows a second, 400 ms at 2000.
    assert_all_complete(&run.template_counters(), 1000);
}

#[test]
fn single_templates_change_their_rates_and_stand_while_others_go_on() {
    let _turn = turn();
    let datapath = loopback(2, PollMode::Busy);
    let two = |protocol, rate| {
        let mut two = over_v4(protocol, rate);
        let other =
            Template { name: "other".into(), group: "other".into(), destination_port: 81, ..two.templates[0].clone() };
        two.templates.push(other);
        two
    };
    let run = start(&datapath, emulated(&datapath, 4, Some(1000 * MS), two(Protocol::Tcp, 1000)));
    let at = |ms: u64| run.started_at().unwrap() + ms * MS;
    // The first: 300 ms at 1000 flows a second, 300 ms at 500, 400 ms at 1000. The other: 500 ms at 1000, and then none.
    run.update_templates(&[TemplateIndex(0)], FlowChange::Rate(Ratio::new(500, 1)), at(300)).unwrap();
    run.update_templates(&[TemplateIndex(1)], FlowChange::Paused(true), at(500)).unwrap();
    run.update_templates(&[TemplateIndex(0)], FlowChange::Factor(Ratio::ONE), at(600)).unwrap();
    wait_for(&run, RunState::Complete, 10);
    let sides = run.template_counters();
    assert_all_complete(&sides[..2], 850);
    assert_all_complete(&sides[2..], 500);
    assert_eq!(run.contradictions(), Vec::<String>::new());
    run.remove();

    // A factor of all takes back what was set of one, not a pause.
    let run = start(&datapath, emulated(&datapath, 5, Some(1000 * MS), two(Protocol::Udp, 100)));
    let at = |ms: u64| run.started_at().unwrap() + ms * MS;
    run.update_templates(&[TemplateIndex(0)], FlowChange::Rate(Ratio::new(1000, 1)), at(200)).unwrap();
    run.update_templates(&[TemplateIndex(1)], FlowChange::Enabled(false), at(200)).unwrap();
    run.change_flow_rate(Ratio::new(2, 1), at(400)).unwrap();
    run.update_templates(&[TemplateIndex(1)], FlowChange::Enabled(true), at(900)).unwrap();
    wait_for(&run, RunState::Complete, 10);
    let sides = run.template_counters();
    assert_all_complete(&sides[..2], 20 + 200 + 120);
    assert_all_complete(&sides[2..], 20 + 20);
}

#[test]
fn what_cannot_be_emulated_is_refused_by_name() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    let refuse = |spec| datapath.prepare(spec).map(|_| ()).unwrap_err().to_string();
    let mut huge = over_v4(Protocol::Tcp, 1);
    huge.most_flows = 1 << 40;
    let message = refuse(emulated(&datapath, 1, None, huge));
    assert!(message.starts_with("stateful.most_flows: 1099511627776 flows of 1 workers each need"), "{message}");
    assert!(message.ends_with("give the engine more memory (in a cluster by `memory` of its generator)"), "{message}");

    let first = datapath.prepare(emulated(&datapath, 1, None, over_v4(Protocol::Tcp, 1))).unwrap();
    let message = refuse(emulated(&datapath, 2, None, over_v4(Protocol::Udp, 1)));
    let expected =
        "stateful.templates[0].client_port: run \"run-1\" answers for addresses from 16.0.0.1 to 16.0.0.250 on a too";
    assert!(message.starts_with(expected), "{message}");
    first.remove();
    datapath.prepare(emulated(&datapath, 2, None, over_v4(Protocol::Udp, 1))).unwrap().remove();
}

/// The kernel's end of the link, and the address that is emulated.
const KERNEL: &str = "10.9.0.2";
const HERE: [u8; 4] = [10, 9, 0, 1];

/// Gives the kernel an address on `sp1`, and sets each other's MACs at it and in the scenario; the kernel computes checksums, which
/// a link in memory could do without.
pub fn link_with_kernel(datapath: &Datapath) -> PortLink {
    let mac = datapath.ports()[0].mac;
    let lladdr = mac.map(|byte| format!("{byte:02x}")).join(":");
    run(&["ip", "address", "add", &format!("{KERNEL}/24"), "dev", "sp1"]);
    run(&["ip", "neighbour", "add", "10.9.0.1", "lladdr", &lladdr, "dev", "sp1"]);
    run(&["ethtool", "-K", "sp1", "tx", "off"]);
    let kernels = fs::read_to_string("/sys/class/net/sp1/address").unwrap();
    let mut bytes = kernels.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap());
    PortLink { mac, next_hop: std::array::from_fn(|_| bytes.next().unwrap()) }
}

#[test]
fn the_kernel_serves_a_thousand_emulated_clients() {
    run_inside("stateful::inside_clients_of_the_kernel", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_clients_of_the_kernel() {
    serve_clients_by_the_kernel(&open(&[("east", PortDevice::Kernel("sp0".into()))], 1, PollMode::Auto));
}

/// A thousand emulated clients of a port have their requests served by the kernel behind its peer.
pub fn serve_clients_by_the_kernel(datapath: &Datapath) {
    let link = link_with_kernel(datapath);
    let listener = TcpListener::bind((KERNEL, 80)).unwrap();
    let served = thread::spawn(move || {
        let mut expected = vec![0; REQUEST as usize];
        Payload::pattern(REQUEST).fill(0, 0, &mut expected);
        for _ in 0..1000 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = vec![0; REQUEST as usize];
            stream.read_exact(&mut request).unwrap();
            assert!(request == expected, "a request arrived changed");
            stream.write_all(&vec![b'x'; RESPONSE as usize]).unwrap();
            // Until the client has closed.
            assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
        }
    });
    let [a, b, c, d] = HERE;
    let [e, f, g, h] = KERNEL.parse::<std::net::Ipv4Addr>().unwrap().octets();
    let mut clients = scenario(Protocol::Tcp, 500, [v4(a, b, c, d); 2], [v4(e, f, g, h); 2]);
    clients.templates[0].server = None;
    let mut spec = emulated(datapath, 5, Some(2000 * MS), clients);
    spec.stateful.as_mut().unwrap().links[0] = link;
    let run = start(datapath, spec);
    wait_for(&run, RunState::Complete, 20);
    let sides = run.template_counters();
    let [client] = &sides[..] else { panic!("clients alone: {sides:?}") };
    let counts = [Count::FlowsAttempted, Count::FlowsEstablished, Count::FlowsClosed].map(|count| client.get(count));
    assert_eq!((counts, client.open), ([1000; 3], 0), "{sides:?}");
    assert_eq!(client.get(Count::SentDataBytes), 1000 * REQUEST);
    assert_eq!(client.get(Count::ReceivedDataBytes), 1000 * RESPONSE);
    assert_eq!((client.get(Count::ResetsReceived), client.get(Count::FlowsAborted)), (0, 0));
    served.join().unwrap();
}

#[test]
fn clients_that_wait_for_messages_know_the_ends_of_those_of_a_kernel_server() {
    run_inside("stateful::inside_messages_of_the_kernel", "1500");
}

/// Reads a request up to its empty line; none if the client has closed.
fn read_request(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut path = String::new();
    stream.read_line(&mut path).unwrap();
    let mut line = String::new();
    while !path.is_empty() && line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).unwrap();
    }
    (!path.is_empty()).then(|| path.split(' ').nth(1).unwrap().to_owned())
}

/// Answers `/length`, `/chunks` with lines behind the last, `/none` and `/close` as they say. Returns how many it answered.
fn serve(stream: TcpStream) -> usize {
    let mut requests = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    stream.set_nodelay(true).unwrap();
    let mut answered = 0;
    while let Some(path) = read_request(&mut requests) {
        answered += 1;
        let body = vec![b'x'; 20_000];
        match path.as_str() {
            "/length" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nServer: kernel\r\nContent-Length: 20000\r\n\r\n").unwrap();
                stream.write_all(&body).unwrap();
            }
            "/chunks" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
                for chunk in body.chunks(3001) {
                    write!(stream, "{:X};part\r\n", chunk.len()).unwrap();
                    stream.write_all(&[chunk, b"\r\n"].concat()).unwrap();
                }
                stream.write_all(b"0\r\nDigest: none\r\n\r\n").unwrap();
            }
            "/none" => stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap(),
            "/close" => {
                stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").unwrap();
                stream.write_all(&body).unwrap();
                break;
            }
            other => panic!("{other}"),
        }
    }
    answered
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_messages_of_the_kernel() {
    let datapath = open(&[("east", PortDevice::Kernel("sp0".into()))], 1, PollMode::Auto);
    let link = link_with_kernel(&datapath);
    let listener = TcpListener::bind((KERNEL, 80)).unwrap();
    let served = thread::spawn(move || {
        let connections = (0..100).map(|_| listener.accept().unwrap().0);
        let threads: Vec<_> = connections.map(|stream| thread::spawn(move || serve(stream))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    let [a, b, c, d] = HERE;
    let [e, f, g, h] = KERNEL.parse::<std::net::Ipv4Addr>().unwrap().octets();
    let mut clients = scenario(Protocol::Tcp, 100, [v4(a, b, c, d); 2], [v4(e, f, g, h); 2]);
    // Four at once, one after the other, and the last answer ends with the connection.
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: kernel\r\n\r\n");
    let together = ["/length", "/chunks", "/none", "/length"].map(get).concat();
    clients.payloads = vec![Payload::bytes(together.into_bytes()), Payload::bytes(get("/close").into_bytes())];
    let http = || Instruction::ReceiveUntil(Until::HttpMessage);
    let until = |bytes: &[u8]| Instruction::ReceiveUntil(Until::Pattern(bytes.into()));
    let send = |payload| Instruction::Send { payload, wait: false };
    let template = &mut clients.templates[0];
    template.server = None;
    template.client.as_mut().unwrap().program = program(vec![
        Instruction::Connect,
        send(0),
        http(),
        http(),
        http(),
        // The header and the body of the fourth.
        until(b"Server: kernel\r\n"),
        until(&[b'x'; 50]),
        until(&[b'x'; 50]),
        send(1),
        // Between them the rest of that body.
        until(b"xHTTP/1.0 200 OK\r\n"),
        until(b"\r\n"),
        Instruction::WaitForPeerClose,
    ]);
    let mut spec = emulated(&datapath, 5, Some(1000 * MS), clients);
    spec.stateful.as_mut().unwrap().links[0] = link;
    let run = start(&datapath, spec);
    wait_for(&run, RunState::Complete, 20);
    let sides = run.template_counters();
    let [client] = &sides[..] else { panic!("clients alone: {sides:?}") };
    let counts = [Count::FlowsAttempted, Count::FlowsEstablished, Count::FlowsClosed].map(|count| client.get(count));
    assert_eq!((counts, client.open), ([100; 3], 0), "{sides:?}");
    let wrong = [Count::HttpErrors, Count::ResetsReceived, Count::FlowsAborted, Count::OutOfOrderDropped];
    assert_eq!(wrong.map(|count| client.get(count)), [0; 4], "{sides:?}");
    assert_eq!(served.join().unwrap(), 500);
}

#[test]
fn the_kernel_is_a_client_of_emulated_servers() {
    run_inside("stateful::inside_servers_for_the_kernel", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_servers_for_the_kernel() {
    let datapath = open(&[("east", PortDevice::Kernel("sp0".into()))], 1, PollMode::Auto);
    let link = link_with_kernel(&datapath);
    let [a, b, c, d] = HERE;
    let mut servers = scenario(Protocol::Tcp, 1, [v4(10, 9, 0, 2); 2], [v4(a, b, c, d); 2]);
    servers.templates[0].client = None;
    servers.templates[0].clients.clear();
    let mut spec = emulated(&datapath, 5, None, servers);
    spec.stateful.as_mut().unwrap().links[0] = link;
    let run = start(&datapath, spec);
    let mut expected = vec![0; RESPONSE as usize];
    Payload::pattern(RESPONSE).fill(0, 0, &mut expected);
    for _ in 0..200 {
        let mut stream = TcpStream::connect(("10.9.0.1", 80)).unwrap();
        stream.write_all(&[b'x'; REQUEST as usize]).unwrap();
        let mut response = vec![0; RESPONSE as usize];
        stream.read_exact(&mut response).unwrap();
        assert!(response == expected, "a response arrived changed");
    }
    run.stop("enough");
    wait_for(&run, RunState::Complete, 10);
    let sides = run.template_counters();
    let [server] = &sides[..] else { panic!("servers alone: {sides:?}") };
    let counts = [Count::FlowsAccepted, Count::FlowsEstablished, Count::FlowsClosed].map(|count| server.get(count));
    assert_eq!((counts, server.open), ([200; 3], 0), "{sides:?}");
    assert_eq!(server.get(Count::AckedBytes), 200 * RESPONSE);
}

#[test]
fn each_connection_opens_others_one_after_the_other() {
    const OPENERS: u64 = 400;
    const EACH: u64 = 3;
    let _turn = turn();
    for (workers, poll) in [(1, PollMode::Busy), (2, PollMode::Busy), (2, PollMode::Adaptive)] {
        let datapath = loopback(workers, poll);
        let mut of = over_v4(Protocol::Tcp, OPENERS);
        let mut other = of.templates[0].clone();
        (other.name, other.group, other.destination_port) = ("other".into(), "other".into(), 81);
        other.client.as_mut().unwrap().rate = Ratio::ZERO;
        of.templates.push(other);
        // It opens them amid its own transaction.
        let opens = vec![Instruction::OpenConnection { template: Some(1) }; EACH as usize];
        let opener = &mut of.templates[0].client.as_mut().unwrap().program;
        let (before, behind) = opener.instructions.split_at(2);
        opener.instructions = [before, &opens, behind].concat().into();
        let run = start(&datapath, emulated(&datapath, 7, Some(1000 * MS), of));
        wait_for(&run, RunState::Complete, 10);
        let sides = run.template_counters();
        for (sides, flows) in [(&sides[..2], OPENERS), (&sides[2..], EACH * OPENERS)] {
            let (client, server) = assert_all_complete(sides, flows);
            assert_bytes(client, server, flows);
        }
        assert_eq!(run.contradictions(), Vec::<String>::new());
        let port = &datapath.port_counters()[0];
        assert_eq!((port.tx_packets, port.foreign_packets, port.tx_dropped), (port.rx_packets, 0, 0));
    }
}
