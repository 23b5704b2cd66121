// SPDX-License-Identifier: Apache-2.0
//! Connections between two ends over a network of every kind: all complete, every byte arrives once, counters agree, and
//! nothing is left.
mod net;

use net::{MS, Net, Path, one_of, over_ipv6, request_response, scenario, with};
use spate_stateful::{
    CongestionControl, Count, Instruction, Payload, Protocol, Received, Scenario, Tunables, random::Numbers,
};

fn transfer(flows: u64, request: u64, response: u64, path: Path, length_ns: u64) -> Net {
    let (client, server, payloads) = request_response(request, response);
    let mut net = Net::new(scenario(Protocol::Tcp, client, server, payloads), path);
    for _ in 0..flows {
        net.open(0);
    }
    net.run_for(length_ns);
    net
}

fn complete(net: &Net, flows: u64, request: u64, response: u64, path: Path) {
    let summary = || format!("{path:?}\n{}", net.summary());
    for client in [true, false] {
        assert_eq!(net.count(client, Count::FlowsEstablished), flows, "{}", summary());
        assert_eq!(net.count(client, Count::FlowsClosed), flows, "{}", summary());
        let (sent, received) = if client { (request, response) } else { (response, request) };
        assert_eq!(net.count(client, Count::ReceivedDataBytes), flows * received, "{}", summary());
        assert_eq!(net.count(client, Count::AckedBytes), flows * sent, "{}", summary());
        assert_eq!(net.count(client, Count::SentDataBytes), flows * sent, "{}", summary());
    }
    assert_eq!(net.count(true, Count::FlowsAttempted), flows, "{}", summary());
    assert_eq!((net.stack.flows(), net.stack.held()), (0, (0, 0)), "{}", summary());
}

#[test]
fn a_connection_completes() {
    let path = Path::default();
    let net = transfer(1, 100, 32_000, path, 5_000 * MS);
    complete(&net, 1, 100, 32_000, path);
    assert_eq!(net.count(true, Count::RetransmittedPackets), 0);
    assert_eq!(net.count(false, Count::RetransmittedPackets), 0, "{}", net.summary());
}

#[test]
fn all_complete_whatever_the_network_does() {
    let mut seed = 0;
    for loss in [0, 10_000, 50_000, 200_000] {
        for (delay_ms, jitter_ms) in [(0, 0), (1, 0), (10, 3), (100, 10)] {
            for (late, duplicates) in [(0, 0), (50_000, 0), (0, 50_000), (100_000, 100_000)] {
                for (request, response) in [(100, 1000), (10_000, 200_000)] {
                    seed += 1;
                    let path = Path {
                        delay_ns: delay_ms * MS,
                        jitter_ns: jitter_ms * MS,
                        loss,
                        late,
                        duplicates,
                        seed,
                        ..Path::default()
                    };
                    let net = transfer(5, request, response, path, 2_000_000 * MS);
                    complete(&net, 5, request, response, path);
                }
            }
        }
    }
}

/// Number of networks and settings drawn at random.
const CASES: u64 = 3000;

fn tunables(random: &mut Numbers) -> Tunables {
    let mut so = || random.below(2) == 0;
    let (sack, timestamps, window_scale, ecn, no_delay, reno) = (so(), so(), so(), so(), so(), so());
    Tunables {
        sack,
        timestamps,
        window_scale,
        ecn,
        no_delay,
        congestion_control: if reno { CongestionControl::NewReno } else { CongestionControl::Cubic },
        mss: one_of(random, &[536, 1220, 1460, 4000, 8960]),
        receive_buffer: one_of(random, &[2000, 10_000, 65_535, 1 << 20]),
        delayed_ack_ns: one_of(random, &[0, 40 * MS]),
        initial_window: one_of(random, &[1, 3, 10]),
        // Longer than FINs that are lost several times are apart.
        time_wait_ns: 3_000 * MS,
        ..Tunables::default()
    }
}

fn path(random: &mut Numbers, seed: u64) -> Path {
    let delay = one_of(random, &[0, MS, 10 * MS, 60 * MS]);
    Path {
        delay_ns: delay,
        jitter_ns: one_of(random, &[0, delay / 10, delay / 2]),
        loss: one_of(random, &[0, 1_000, 10_000, 50_000, 150_000]),
        duplicates: one_of(random, &[0, 0, 20_000]),
        late: one_of(random, &[0, 0, 50_000]),
        marks: one_of(random, &[0, 100_000]),
        bandwidth: one_of(random, &[0, 5_000_000, 100_000_000, 1_000_000_000]),
        queue: one_of(random, &[20_000, 100_000, u64::MAX]),
        seed,
    }
}

/// Both send at once, and end when they have all.
fn both_ways(up: u64, down: u64) -> (Vec<Instruction>, Vec<Instruction>, Vec<Payload>) {
    let side = |begins, payload, bytes| {
        vec![begins, Instruction::Send { payload, wait: false }, Instruction::Receive { bytes, clear: true }]
    };
    let mut server = side(Instruction::Accept, 1, up);
    server.push(Instruction::WaitForPeerClose);
    (side(Instruction::Connect, 0, down), server, vec![Payload::pattern(up), Payload::pattern(down)])
}

fn all_complete(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let mut random = Numbers::new(seed);
        let (client, server) = (tunables(&mut random), tunables(&mut random));
        let path = path(&mut random, seed);
        let (up, down) = (1 + random.below(30_000), 1 + random.below(100_000));
        let programs = if random.below(2) == 0 { both_ways(up, down) } else { request_response(up, down) };
        let mut of = with(Protocol::Tcp, programs.0, programs.1, programs.2, client, server);
        of.most_flows = 32;
        let v6 = random.below(4) == 0;
        let mut net = Net::new(if v6 { over_ipv6(of) } else { of }, path);
        net.room = one_of(&mut random, &[1, 3, 64]);
        let flows = 1 + random.below(4);
        for _ in 0..flows {
            net.open(0);
        }
        let end = net.now + 10_000_000 * MS;
        while net.stack.flows() > 0 && net.now < end {
            net.run_for(1000 * MS);
        }
        assert!(net.stack.flows() == 0, "seed {seed}");
        complete(&net, flows, up, down, path);
    }
}

// Two tests, as two threads are faster.
#[test]
fn all_complete_whatever_the_ends_agree_on() {
    all_complete((0..CASES).step_by(2));
}

#[test]
fn all_complete_whatever_else_the_ends_agree_on() {
    all_complete((1..CASES).step_by(2));
}

#[test]
fn thousands_at_once_share_a_link() {
    let (client, server, payloads) = request_response(200, 5_000);
    let mut of = scenario(Protocol::Tcp, client, server, payloads);
    of.most_flows = 8_000;
    let path = Path { delay_ns: 5 * MS, bandwidth: 1_000_000_000, queue: 500_000, ..Path::default() };
    let mut net = Net::new(of, path);
    for _ in 0..4_000 {
        net.open(0);
    }
    net.run_for(600_000 * MS);
    assert!(net.lost > 0, "the queue was too short for all");
    complete(&net, 4_000, 200, 5_000, path);
}

#[test]
fn ends_that_reset_in_the_middle_leave_nothing() {
    for by_client in [true, false] {
        for loss in [0, 20_000, 100_000] {
            let (mut client, mut server, payloads) = request_response(10_000, 100_000);
            if by_client {
                client[2] = Instruction::Receive { bytes: 20_000, clear: true };
                client.push(Instruction::Reset);
            } else {
                server[1] = Instruction::Receive { bytes: 5_000, clear: true };
                server.insert(2, Instruction::Reset);
            }
            let path = Path { delay_ns: 10 * MS, loss, seed: u64::from(loss), ..Path::default() };
            let mut net = Net::new(scenario(Protocol::Tcp, client, server, payloads), path);
            for _ in 0..100 {
                net.open(0);
            }
            net.run_for(3_000_000 * MS);
            for side in [true, false] {
                assert_eq!(net.count(side, Count::FlowsEstablished), 100, "{}", net.summary());
                assert_eq!(net.count(side, Count::FlowsClosed), 100, "{}", net.summary());
            }
            assert!(net.count(by_client, Count::ResetsSent) >= 100, "{}", net.summary());
            assert_eq!((net.stack.flows(), net.stack.held()), (0, (0, 0)));
        }
    }
}

fn datagrams() -> Scenario {
    let silence = Instruction::Keepalive(500 * MS);
    let client = vec![
        silence.clone(),
        Instruction::SendMessage { payload: 0 },
        Instruction::ReceiveMessages { messages: 3, clear: true },
    ];
    let mut server = vec![silence, Instruction::ReceiveMessages { messages: 1, clear: true }];
    server.extend([0; 3].map(|_| Instruction::SendMessage { payload: 1 }));
    scenario(Protocol::Udp, client, server, vec![Payload::pattern(100), Payload::pattern(1000)])
}

#[test]
fn datagrams_come_once_each_and_silence_ends_what_lost_one() {
    for v6 in [false, true] {
        for loss in [0, 100_000] {
            let of = if v6 { over_ipv6(datagrams()) } else { datagrams() };
            let path = Path { delay_ns: 10 * MS, loss, ..Path::default() };
            let mut net = Net::new(of, path);
            net.room = 1;
            for _ in 0..1000 {
                net.open(0);
            }
            net.run_for(60_000 * MS);
            let sent = |count| net.count(true, count) + net.count(false, count);
            assert_eq!(sent(Count::MessagesSent), sent(Count::MessagesReceived) + net.lost, "{}", net.summary());
            if loss == 0 {
                assert_eq!(net.count(true, Count::MessageBytesReceived), 3_000_000);
                assert_eq!(sent(Count::FlowsIdleTimeouts), 0);
            } else {
                assert!(net.count(true, Count::FlowsIdleTimeouts) > 0);
            }
            for side in [true, false] {
                assert_eq!(net.count(side, Count::FlowsClosed), net.count(side, Count::FlowsEstablished));
            }
            assert_eq!((net.stack.flows(), net.stack.held()), (0, (0, 0)));
        }
    }
}

/// A client's first datagram, and whether its flow goes on after an ICMP error of a type and code about it.
fn goes_on_after(v6: bool, kind: (u8, u8)) -> bool {
    let mut net =
        Net::new(if v6 { over_ipv6(datagrams()) } else { datagrams() }, Path { loss: 1_000_000, ..Path::default() });
    net.record = true;
    net.open(0);
    net.run_for(MS);
    let (_, port, frame) = net.sent.first().expect("a datagram").clone();
    assert_eq!(net.stack.receive(port, &net::icmp::error(&frame, kind, 0), net.now), Received::Taken);
    assert_eq!(net.count(true, Count::IcmpErrors), 1);
    let ended = net.count(true, Count::FlowsClosed);
    assert_eq!(net.count(true, Count::FlowsRefused), ended);
    net.run_for(1000 * MS);
    assert_eq!((net.count(true, Count::FlowsClosed), net.stack.flows()), (1, 0));
    assert_eq!(net.count(true, Count::FlowsIdleTimeouts), 1 - ended);
    ended == 0
}

#[test]
fn datagrams_that_nobody_takes_end_their_flow() {
    // RFC 792: port unreachable; host unreachable, which may pass. RFC 4443: the same.
    assert!(!goes_on_after(false, (3, 3)));
    assert!(goes_on_after(false, (3, 1)));
    assert!(!goes_on_after(true, (1, 4)));
    assert!(goes_on_after(true, (1, 3)));
}

#[test]
fn counters_of_programs_count_by_name_and_warm_up() {
    let (mut client, server, payloads) = request_response(10, 10);
    client.push(Instruction::Count { counter: 1 });
    let mut of = scenario(Protocol::Tcp, client, server, payloads);
    let program = &mut of.templates[0].client.as_mut().expect("clients").program;
    program.counters = ["errors".into(), "pages".into()].into();
    let mut net = Net::new(of, Path::default());
    (0..3).for_each(|_| net.open(0));
    net.run_for(1000 * MS);
    assert_eq!(net.counters(0, true).programs().collect::<Vec<_>>(), [(0, 0), (3, 0)]);
    assert_eq!(net.counters(0, false).programs().count(), 0);
    assert_eq!(net.count(true, Count::ProgramCounts), 3);
}
