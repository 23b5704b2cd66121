// SPDX-License-Identifier: Apache-2.0
//! The reference of counters is what the code says.
mod net;
#[path = "../examples/counters.rs"]
mod reference;

use std::{collections::BTreeSet, fs};

use net::{MS, Net, Path, request_response, scenario};
use spate_stateful::{COUNTERS, Count, Instruction, Protocol};

#[test]
fn the_reference_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/counters.md");
    let there = fs::read_to_string(&path).unwrap();
    assert!(there == reference::page(), "docs/reference/counters.md is not what the code says: run make generate-docs");
}

#[test]
fn names_are_unique_and_meanings_are_sentences() {
    let names: BTreeSet<_> = COUNTERS.iter().map(|(name, ..)| name).collect();
    assert_eq!(names.len(), COUNTERS.len());
    for (name, _, meaning) in COUNTERS {
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert!(meaning.ends_with('.') && !meaning.contains('|'), "{name}: {meaning}");
    }
}

#[test]
fn every_counter_of_trex_is_reported_once() {
    let own = COUNTERS.iter().map(|(_, trex, _)| *trex).filter(|trex| !trex.is_empty());
    let all: Vec<_> = own.chain(reference::TREX.iter().map(|(trex, _)| *trex)).collect();
    let names: BTreeSet<_> = all.iter().collect();
    assert_eq!(names.len(), all.len(), "each once");
    let of = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
    assert_eq!((of("tcps_"), of("udps_"), names.len() - of("tcps_") - of("udps_")), (80, 11, 25));
    // What is named is there.
    for (trex, here) in reference::TREX {
        for name in here.split('`').skip(1).step_by(2).filter(|name| name.contains('_') && !name.starts_with("spate_"))
        {
            let ours = COUNTERS.iter().any(|(own, ..)| own == &name) || ["handed_off", "handoff_lost"].contains(&name);
            assert!(ours || names.contains(&name), "{trex}: {name}");
        }
    }
}

/// The rows of the page about one engine, at any time.
fn assert_holds(net: &Net) {
    let summary = || format!("at {}: {}", net.now, net.summary());
    for (client, started) in [(true, Count::FlowsAttempted), (false, Count::FlowsAccepted)] {
        let count = |count| net.count(client, count);
        let open = net.stack.open_flows(0, client);
        assert_eq!(count(started), count(Count::FlowsClosed) + open, "{}", summary());
        assert!(count(Count::AckedBytes) <= count(Count::SentDataBytes), "{}", summary());
        assert!(count(Count::SentDataBytes) <= count(Count::QueuedBytes), "{}", summary());
        assert!(count(Count::ReceivedDataBytes) <= net.count(!client, Count::QueuedBytes), "{}", summary());
    }
}

#[test]
fn what_the_reference_says_holds_at_any_time() {
    for reset in [false, true] {
        let (mut client, server, payloads) = request_response(5_000, 60_000);
        if reset {
            // In the middle of the response.
            client.truncate(2);
            client.extend([Instruction::Receive { bytes: 20_000, clear: true }, Instruction::Reset]);
        }
        let path = Path { delay_ns: 3 * MS, loss: 50_000, late: 20_000, duplicates: 20_000, ..Path::default() };
        let mut net = Net::new(scenario(Protocol::Tcp, client, server, payloads), path);
        for _ in 0..200 {
            net.open(0);
            net.run_for(2 * MS);
            assert_holds(&net);
        }
        assert!(net.stack.open_flows(0, true) > 0, "some are under way");
        net.run_for(600_000 * MS);
        assert_holds(&net);
        assert_eq!((net.stack.open_flows(0, true), net.stack.open_flows(0, false)), (0, 0));
        let both = |count| (net.count(true, count), net.count(false, count));
        if reset {
            assert!(net.count(true, Count::ResetsSent) > 0);
        } else {
            assert_eq!(both(Count::FlowsEstablished), (200, 200));
            for client in [true, false] {
                let of = |count| net.count(client, count);
                assert_eq!(of(Count::QueuedBytes), 200 * if client { 5_000 } else { 60_000 });
                let sent = [Count::SentDataBytes, Count::AckedBytes].map(of);
                assert_eq!(sent, [of(Count::QueuedBytes); 2]);
                assert_eq!(net.count(!client, Count::ReceivedDataBytes), of(Count::QueuedBytes));
            }
        }
    }
}
