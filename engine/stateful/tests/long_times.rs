// SPDX-License-Identifier: Apache-2.0
//! Times of hours, days and years are kept to the tick: delays, keepalives, the silence that ends an exchange, the time that a
//! handshake may take, TIME-WAIT.
mod net;

use net::{MS, Net, Path, START, request_response, scenario, with};
use spate_stateful::{Count, Instruction, Payload, Protocol, Tunables};

const SECOND: u64 = 1_000 * MS;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;
/// A tick, and what a deadline that is rounded up may be late by.
const TICK: u64 = 1 << 14;

const DELAYS: [u64; 9] = [4 * HOUR, 9 * HOUR, 10 * HOUR, 12 * HOUR, 20 * HOUR, DAY, 30 * DAY, YEAR, 10 * YEAR];

/// When something first happens in a network, to the tick.
fn when(net: &mut Net, end: u64, happened: impl Fn(&Net) -> bool) -> u64 {
    let (mut before, mut after) = (net.now, end);
    while before + TICK < after {
        // Stops where something is due, so that the time between is skipped.
        let due = net.stack.next_due_ns().map_or(after, |due| due.clamp(net.now + TICK, after));
        net.run_until(due);
        if happened(net) {
            after = due;
            break;
        }
        before = due;
    }
    assert!(happened(net), "not until {}", after - START);
    after
}

#[test]
fn a_delay_ends_at_its_tick() {
    let payloads = || vec![Payload::pattern(10)];
    for ns in DELAYS {
        let send = Instruction::Send { payload: 0, wait: true };
        let client = vec![Instruction::Connect, Instruction::Delay { min_ns: ns, max_ns: ns }, send];
        let server = vec![Instruction::Accept, Instruction::Receive { bytes: 10, clear: true }];
        let mut net = Net::new(scenario(Protocol::Tcp, client, server, payloads()), Path::default());
        net.open(0);
        net.run_for(SECOND);
        assert_eq!(net.count(true, Count::FlowsEstablished), 1);
        let at = when(&mut net, START + 2 * ns, |net| net.count(true, Count::QueuedBytes) > 0) - START;
        // The handshake took a round trip of 2 ms.
        assert!((ns + 2 * MS..=ns + 2 * MS + 2 * TICK).contains(&at), "{ns}: {at}");
        net.run_for(10 * SECOND);
        assert_eq!(net.count(false, Count::ReceivedDataBytes), 10);
        assert_eq!((net.count(true, Count::FlowsClosed), net.stack.flows()), (1, 0), "{}", net.summary());
    }
}

#[test]
fn delays_over_udp_and_of_many_flows_are_as_long() {
    let ns = 12 * HOUR;
    let client = vec![
        Instruction::Keepalive(DAY),
        Instruction::Delay { min_ns: ns, max_ns: ns },
        Instruction::SendMessage { payload: 0 },
        Instruction::Close,
    ];
    let server = vec![Instruction::ReceiveMessages { messages: 1, clear: true }, Instruction::Close];
    let mut net = Net::new(scenario(Protocol::Udp, client, server, vec![Payload::pattern(10)]), Path::default());
    for _ in 0..500 {
        net.open(0);
        net.run_for(7 * SECOND);
    }
    net.run_until(START + ns - 1);
    assert_eq!(net.count(true, Count::MessagesSent), 0);
    for sent in 1..=500 {
        net.run_until(START + ns + (sent - 1) * 7 * SECOND + TICK);
        assert_eq!(net.count(true, Count::MessagesSent), sent, "one every 7 s, as they began");
    }
    net.run_for(SECOND);
    assert_eq!((net.count(false, Count::MessagesReceived), net.stack.flows()), (500, 0));
    assert_eq!(net.count(true, Count::FlowsIdleTimeouts), 0);
}

#[test]
fn random_delays_of_days_are_between_their_ends() {
    let (min_ns, max_ns) = (6 * HOUR, 3 * DAY);
    let client = vec![Instruction::Keepalive(10 * DAY), Instruction::Delay { min_ns, max_ns }, Instruction::Close];
    let server = vec![Instruction::ReceiveMessages { messages: 1, clear: true }];
    let mut net = Net::new(scenario(Protocol::Udp, client, server, vec![]), Path::default());
    (0..200).for_each(|_| net.open(0));
    net.run_until(START + min_ns - 1);
    assert_eq!(net.count(true, Count::FlowsClosed), 0);
    net.run_until(START + (min_ns + max_ns) / 2);
    let half = net.count(true, Count::FlowsClosed);
    assert!((70..130).contains(&half), "{half}");
    net.run_until(START + max_ns + TICK);
    assert_eq!(net.count(true, Count::FlowsClosed), 200);
}

/// Two ends that send nothing for years but the client's keepalive probes.
fn silent(idle: u64, interval: u64) -> Net {
    let tunables = Tunables { keepalive_idle_ns: idle, keepalive_interval_ns: interval, ..Tunables::default() };
    let forever = Instruction::Delay { min_ns: 10 * YEAR, max_ns: 10 * YEAR };
    let (client, server) =
        (vec![Instruction::Connect, forever], vec![Instruction::Accept, Instruction::WaitForPeerClose]);
    let mut net = Net::new(with(Protocol::Tcp, client, server, vec![], tunables, Tunables::default()), Path::default());
    net.open(0);
    net.run_for(SECOND);
    net
}

#[test]
fn keepalives_after_12_hours_are_answered_and_the_connection_stays() {
    for idle in [9 * HOUR, 12 * HOUR, 19 * HOUR, 30 * DAY] {
        let mut net = silent(idle, 75 * SECOND);
        for probes in 1..=5 {
            let at =
                when(&mut net, START + (probes + 1) * idle, |net| net.count(true, Count::KeepaliveProbes) == probes);
            let wanted = START + probes * (idle + 2 * MS);
            assert!((wanted..=wanted + probes * 2 * TICK).contains(&at), "{idle}, probe {probes}: {}", at - wanted);
        }
        net.run_for(SECOND);
        let counted =
            [Count::KeepaliveProbes, Count::KeepaliveDrops, Count::FlowsClosed].map(|count| net.count(true, count));
        assert_eq!(counted, [5, 0, 0], "{}", net.summary());
    }
}

#[test]
fn a_peer_that_is_gone_is_given_up_after_8_keepalives_of_any_interval() {
    for (idle, interval) in [(12 * HOUR, 75 * SECOND), (HOUR, 11 * HOUR), (2 * DAY, DAY)] {
        let mut net = silent(idle, interval);
        net.path.loss = 1_000_000;
        let end = idle + 8 * interval;
        let at = when(&mut net, START + 2 * end, |net| net.count(true, Count::KeepaliveDrops) == 1) - START;
        assert_eq!(net.count(true, Count::KeepaliveProbes), 8);
        assert!((end..=end + 20 * TICK + 2 * MS).contains(&at), "{idle} {interval}: {at}");
    }
}

#[test]
fn silence_ends_an_exchange_at_its_tick_and_a_datagram_begins_it_again() {
    for ns in [9 * HOUR, 12 * HOUR, 20 * HOUR, DAY, 40 * DAY, 10 * YEAR] {
        let client = vec![
            Instruction::Keepalive(ns),
            Instruction::Delay { min_ns: ns - HOUR, max_ns: ns - HOUR },
            Instruction::SendMessage { payload: 0 },
            Instruction::LeaveOpen,
        ];
        let server = vec![Instruction::ReceiveMessages { messages: 1, clear: true }, Instruction::Close];
        let mut net = Net::new(scenario(Protocol::Udp, client, server, vec![Payload::pattern(10)]), Path::default());
        net.open(0);
        let at = when(&mut net, START + 3 * ns, |net| net.count(true, Count::FlowsIdleTimeouts) == 1) - START;
        let wanted = ns - HOUR + ns;
        assert!((wanted - TICK..=wanted + 2 * TICK).contains(&at), "{ns}: {at}");
        assert_eq!(net.count(true, Count::MessagesSent), 1);
    }
}

#[test]
fn time_wait_lasts_as_long_as_it_is_to() {
    for ns in [SECOND, 12 * HOUR, 3 * DAY] {
        let (client, server, payloads) = request_response(10, 10);
        let tunables = Tunables { time_wait_ns: ns, ..Tunables::default() };
        let scenario = with(Protocol::Tcp, client, server, payloads, tunables, Tunables::default());
        let mut net = Net::new(scenario, Path::default());
        net.open(0);
        net.run_for(SECOND / 2);
        assert_eq!((net.count(true, Count::FlowsClosed), net.stack.flows()), (1, 1), "{}", net.summary());
        let at = when(&mut net, START + 2 * ns, |net| net.stack.flows() == 0) - START;
        assert!((ns..ns + SECOND / 2).contains(&at), "{ns}: {at}");
    }
}

#[test]
fn a_handshake_is_given_up_when_its_time_is_over() {
    for ns in [MS, 300 * MS, 2 * SECOND, 75 * SECOND, 150 * SECOND, 300 * SECOND, 900 * SECOND, 12 * HOUR, 3 * DAY] {
        let tunables = Tunables { connect_timeout_ns: ns, ..Tunables::default() };
        let (client, server, payloads) = request_response(10, 10);
        let path = Path { loss: 1_000_000, ..Path::default() };
        let mut net = Net::new(with(Protocol::Tcp, client, server, payloads, tunables.clone(), tunables), path);
        net.record = true;
        net.open(0);
        let at = when(&mut net, START + 2 * ns + SECOND, |net| net.count(true, Count::ConnectDrops) == 1) - START;
        assert!((ns..=ns + 2 * TICK).contains(&at), "{ns}: {at}");
        // After 1, 2, 4, ... seconds, and from the eighth on every 120 (RFC 6298 sections 2.1, 5.5 and 2.4).
        let mut syn = 0;
        for (nth, (sent, ..)) in net.sent.iter().enumerate() {
            assert!(
                (syn..=syn + (nth as u64 + 1) * 2 * TICK).contains(&(sent - START)),
                "{ns}: SYN {nth} at {}",
                sent - START
            );
            syn += (SECOND << nth.min(7)).min(120 * SECOND);
        }
        assert!(syn >= ns, "{ns}: the next would have been sent at {syn}");
        assert_eq!(net.stack.flows(), 0);
    }
}

#[test]
fn a_handshake_that_takes_hours_is_measured_so() {
    let tunables = Tunables { connect_timeout_ns: DAY, ..Tunables::default() };
    let (client, server, payloads) = request_response(10, 10);
    let path = Path { loss: 1_000_000, ..Path::default() };
    let mut net = Net::new(with(Protocol::Tcp, client, server, payloads, tunables.clone(), tunables), path);
    net.open(0);
    net.run_for(5 * HOUR);
    net.path.loss = 0;
    net.run_for(200 * SECOND);
    assert_eq!(net.count(true, Count::FlowsClosed), 1, "{}", net.summary());
    let times = net.counters(0, true).connect_times().expect("they are measured");
    let read = spate_stats::Timed::read(std::iter::once(times));
    assert!((5 * HOUR..5 * HOUR + 130 * SECOND).contains(&read.sum_ns), "{}", read.sum_ns);
    let (least, greatest) = read.distribution.range();
    let p99 = read.distribution.quantile(990_000);
    assert!(least <= read.sum_ns && read.sum_ns <= greatest && p99 == greatest, "{least} {greatest} {p99}");
    assert!(greatest - least <= read.sum_ns / 128, "{least} {greatest}");
}

#[test]
fn timestamps_go_on_after_weeks_without_a_segment() {
    for pause in [25 * DAY, 30 * DAY, 50 * DAY, 60 * DAY] {
        let send = Instruction::Send { payload: 0, wait: true };
        let wait = Instruction::Delay { min_ns: pause, max_ns: pause };
        let client = vec![Instruction::Connect, send.clone(), wait, send.clone(), send];
        let server = vec![Instruction::Accept, Instruction::Receive { bytes: 3000, clear: true }];
        let mut net = Net::new(scenario(Protocol::Tcp, client, server, vec![Payload::pattern(1000)]), Path::default());
        net.open(0);
        net.run_for(pause + 10 * SECOND);
        assert_eq!(net.count(true, Count::FlowsClosed), 1, "{}", net.summary());
        for client in [true, false] {
            let counted = [Count::OldTimestamps, Count::RetransmittedPackets, Count::RetransmitTimeouts];
            assert_eq!(counted.map(|count| net.count(client, count)), [0; 3], "{pause}: {}", net.summary());
        }
    }
}
