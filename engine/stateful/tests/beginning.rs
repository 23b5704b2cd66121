// SPDX-License-Identifier: Apache-2.0
//! Flows that are due begin: how many at once, between whom, and which of them late?
mod net;

use std::sync::Arc;

use net::{CLIENT_PORT, MS, request_response, scenario};
use spate_stateful::{
    Address, Count, Emulation, Pool, PortLink, Protocol, Scenario,
    pool::Order,
    tuples::{Dealing, Share},
};

/// So many a second are due.
fn clients(rate: u64) -> Scenario {
    let (client, server, payloads) = request_response(10, 10);
    let mut of = scenario(Protocol::Tcp, client, server, payloads);
    of.templates[0].client.as_mut().expect("clients").rate = (rate, 1);
    of
}

/// A worker alone, on ports that nothing leaves.
fn emulation(of: Scenario) -> Emulation {
    let links = [PortLink { mac: [2; 6], next_hop: [4; 6] }; CLIENT_PORT + 2];
    let share = Share { worker: 0, workers: 1 };
    Emulation::new(Arc::new(of), share, Dealing::ByNumber, Box::new(|_, _, _| true), &links, 1, 0).expect("a share")
}

/// Of flows due each millisecond from 0 on, how many are late if the worker looks for the first time at 10 ms.
fn late(late_after_ns: Option<u64>) -> (u64, u64) {
    let emulation = emulation(clients(1000));
    let mut emulation = match late_after_ns {
        Some(late_after_ns) => emulation.late_after(late_after_ns),
        None => emulation,
    };
    emulation.start(0);
    emulation.advance(10 * MS, 10 * MS, false);
    let counters = emulation.counters(0, true);
    (counters.get(Count::ConnectAttempts), counters.get(Count::LateFlows))
}

#[test]
fn a_flow_is_late_after_the_time_given() {
    let (begun, late_of_default) = late(None);
    assert!((10..=11).contains(&begun), "{begun} flows");
    // Those due at 0 to 8 ms began more than 1 ms after their time.
    assert!((8..=9).contains(&late_of_default), "{late_of_default} late");
    let (begun, late_of_kernel) = late(Some(20 * MS));
    assert!((10..=11).contains(&begun), "{begun} flows");
    assert_eq!(late_of_kernel, 0);
}

#[test]
fn no_more_are_open_than_may_be_though_many_are_due_at_once() {
    for most_open in [1, 7, 8, 9, 20] {
        let mut of = clients(100_000);
        of.templates[0].client.as_mut().expect("clients").most_open = most_open;
        let mut emulation = emulation(of);
        emulation.start(0);
        // The next waits, and is counted once.
        for turn in 1..=3 {
            emulation.advance(turn * MS, turn * MS, false);
            let counters = emulation.counters(0, true);
            assert_eq!(counters.get(Count::ConnectAttempts), most_open);
            assert_eq!(emulation.open_flows(0, true), most_open);
            assert_eq!(counters.get(Count::OpenLimitWaits), 1, "of {most_open}, in turn {turn}");
        }
    }
}

#[test]
fn flows_that_begin_together_have_tuples_of_their_own() {
    let mut of = clients(100_000);
    let one = |octets| Pool::new(Address::v4(octets), Address::v4(octets), Order::Sequential).expect("a pool");
    of.pools = vec![one(0x1000_0001), one(0x3000_0001)];
    let ports = &mut of.pools[0].source_ports;
    ports.highest = ports.lowest + 4;
    let mut emulation = emulation(of);
    emulation.start(0);
    emulation.advance(MS / 10, MS / 10, false);
    let counters = emulation.counters(0, true);
    assert_eq!(counters.get(Count::ConnectAttempts), 5);
    assert_eq!(counters.get(Count::PortsExhausted), 6);
}
