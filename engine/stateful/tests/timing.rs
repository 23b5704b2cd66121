// SPDX-License-Identifier: Apache-2.0
//! How long connecting and round trips take, as it is measured: what the network between the ends makes of it.
mod net;

use net::{MS, Net, Path, request_response, scenario};
use spate_stateful::{Count, Counters, Instruction, Payload, Protocol};
use spate_stats::{Timed, Times};

/// What was measured: how many, the mean in ms, the least and the greatest in ms.
fn read(times: Option<&Times>) -> (u64, f64, f64, f64) {
    let read = Timed::read(std::iter::once(times.expect("it is measured")));
    let count = read.distribution.total();
    let (least, greatest) = read.distribution.range();
    let ms = |ns: u64| ns as f64 / MS as f64;
    (count, ms(read.sum_ns) / count as f64, ms(least), ms(greatest))
}

#[track_caller]
fn about(times: Option<&Times>, count: u64, ms: f64) {
    let (samples, mean, least, greatest) = read(times);
    assert_eq!(samples, count);
    for time in [mean, least, greatest] {
        assert!((ms * 0.99..ms * 1.03).contains(&time), "{time} ms, not {ms}: {mean} {least}..{greatest}");
    }
}

#[test]
fn connecting_and_data_take_a_round_trip_on_both_sides() {
    let (client, server, payloads) = request_response(100, 1000);
    let mut net =
        Net::new(scenario(Protocol::Tcp, client, server, payloads), Path { delay_ns: 5 * MS, ..Path::default() });
    for _ in 0..20 {
        net.open(0);
    }
    net.run_for(5_000 * MS);
    assert_eq!(net.count(true, Count::FlowsClosed), 20, "{}", net.summary());
    for client in [true, false] {
        about(net.counters(0, client).connect_times(), 20, 10.0);
    }
    // The request is answered with data at once; the response is acknowledged later, or with FIN.
    let (count, mean, least, _) = read(net.counters(0, true).round_trips());
    assert!(count >= 20 && mean < 60.0 && (9.9..10.3).contains(&least), "{count} {mean} {least}");
}

#[test]
fn connecting_counts_from_the_first_syn_however_often_it_is_sent() {
    let (client, server, payloads) = request_response(100, 1000);
    let path = Path { delay_ns: 5 * MS, loss: 300_000, seed: 5, ..Path::default() };
    let mut net = Net::new(scenario(Protocol::Tcp, client, server, payloads), path);
    for _ in 0..50 {
        net.open(0);
    }
    net.run_for(300_000 * MS);
    assert!(net.count(true, Count::SynTimeouts) > 5);
    let (count, _, least, greatest) = read(net.counters(0, true).connect_times());
    assert_eq!(count, net.count(true, Count::FlowsEstablished));
    assert!((9.9..10.2).contains(&least) && greatest > 1000.0, "{least} {greatest}");
}

#[test]
fn replies_to_messages_are_measured_where_templates_ask_for_it() {
    let ask =
        |payload| [Instruction::SendMessage { payload }, Instruction::ReceiveMessages { messages: 1, clear: true }];
    let think = Instruction::Delay { min_ns: 20 * MS, max_ns: 20 * MS };
    let client = [&ask(0)[..], std::slice::from_ref(&think), &ask(0), &[Instruction::Close]].concat();
    let answer = [Instruction::ReceiveMessages { messages: 1, clear: true }, Instruction::SendMessage { payload: 0 }];
    let server = [&answer[..], &answer[..]].concat();
    for latency in [true, false] {
        let mut scenario = scenario(Protocol::Udp, client.clone(), server.clone(), vec![Payload::pattern(64)]);
        scenario.templates[0].latency = latency;
        let mut net = Net::new(scenario, Path { delay_ns: 3 * MS, ..Path::default() });
        for _ in 0..10 {
            net.open(0);
        }
        net.run_for(20_000 * MS);
        assert_eq!(net.count(true, Count::MessagesReceived), 20);
        let (clients, servers): (&Counters, &Counters) = (net.counters(0, true), net.counters(0, false));
        if latency {
            about(clients.round_trips(), 20, 6.0);
        }
        let others = [clients.connect_times(), servers.connect_times(), servers.round_trips()];
        assert!(others.iter().all(Option::is_none) && clients.round_trips().is_some() == latency);
    }
}
