// SPDX-License-Identifier: Apache-2.0
//! Several runs with applications in one engine, at the same time: each is as exact as alone, and none disturbs another.
use std::{sync::Arc, thread, time::Duration};

use spate_engine::datapath::{Datapath, PollMode, PortDevice, Run, RunState};
use spate_stateful::{Count, Protocol, Scenario};

use crate::{
    setup::{MS, open, start, turn, wait_for},
    stateful::{assert_all_complete, emulated, loopback, over_v4, scenario, v4},
};

/// The same clients and servers as on any other port.
fn on_port(port: usize, rate: u64) -> Scenario {
    let mut of = over_v4(Protocol::Tcp, rate);
    of.templates[0].client.as_mut().unwrap().port = port;
    of.templates[0].server.as_mut().unwrap().port = port;
    of
}

/// A run that is not over before its flows are, however busy the machine is.
fn begin(datapath: &Datapath, tag: u16, duration_ns: Option<u64>, scenario: Scenario) -> Arc<Run> {
    let mut spec = emulated(datapath, tag, duration_ns, scenario);
    spec.timing.drain_ns = 20_000 * MS;
    start(datapath, spec)
}

fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

/// All flows that a run began are complete, and nothing contradicts that. Gives how many there were and the packets they sent.
fn complete(run: &Run) -> (u64, u64) {
    wait_for(run, RunState::Complete, 30);
    let sides = run.template_counters();
    let flows = sides[0].get(Count::FlowsAttempted);
    assert_all_complete(&sides, flows);
    assert_eq!(run.contradictions(), Vec::<String>::new());
    (flows, sides.iter().map(|side| side.get(Count::SentPackets)).sum())
}

/// What a port sent and received: the same, and all of it was its runs'.
fn passed(datapath: &Datapath, port: usize) -> u64 {
    let counters = &datapath.port_counters()[port];
    assert_eq!((counters.rx_packets, counters.rx_bytes), (counters.tx_packets, counters.tx_bytes));
    assert_eq!((counters.foreign_packets, counters.tx_dropped), (0, 0));
    counters.tx_packets
}

#[test]
fn runs_on_two_ports_have_the_same_addresses_and_results_of_their_own() {
    let _turn = turn();
    for workers in [1, 2] {
        let ports = [("a", PortDevice::Loopback), ("b", PortDevice::Loopback)];
        let datapath = open(&ports, workers, PollMode::Busy);
        let first = begin(&datapath, 1, None, on_port(0, 1000));
        pause(100);
        let second = begin(&datapath, 2, None, on_port(1, 500));
        pause(400);
        second.stop("enough");
        let (flows, sent) = complete(&second);
        assert!((50..300).contains(&flows), "{flows} flows began");
        assert_eq!(passed(&datapath, 1), sent);
        second.remove();

        // Another in its place, while the first goes on.
        let started = || first.template_counters()[0].get(Count::FlowsAttempted);
        let before = started();
        let third = begin(&datapath, 3, Some(300 * MS), on_port(1, 1000));
        let (flows, also_sent) = complete(&third);
        assert_eq!(flows, 300);
        assert_eq!(passed(&datapath, 1), sent + also_sent);

        assert_eq!(first.state(), RunState::Running);
        assert!(started() > before + 200, "{before} flows, then {}", started());
        first.stop("enough");
        let (_, sent) = complete(&first);
        assert_eq!(passed(&datapath, 0), sent);
    }
}

/// Clients and servers of one of several runs on a port.
fn of_addresses(n: u8, rate: u64) -> Scenario {
    scenario(Protocol::Tcp, rate, [v4(16, 0, n, 1), v4(16, 0, n, 250)], [v4(48, 0, n, 1), v4(48, 0, n, 20)])
}

#[test]
fn runs_on_one_port_have_addresses_and_results_of_their_own() {
    let _turn = turn();
    for workers in [1, 2] {
        let datapath = loopback(workers, PollMode::Adaptive);
        let runs: [Arc<Run>; 2] = [1, 2].map(|n| {
            let rate = 500 * u64::from(n);
            begin(&datapath, n.into(), Some(1000 * MS), of_addresses(n, rate))
        });
        let [first, second] = runs.each_ref().map(|run| complete(run));
        assert_eq!((first.0, second.0), (500, 1000));
        assert_eq!(passed(&datapath, 0), first.1 + second.1);
    }
}

#[test]
fn a_run_that_is_removed_in_full_flight_leaves_the_other_on_its_port_as_it_is() {
    let _turn = turn();
    let datapath = loopback(2, PollMode::Busy);
    let stays = begin(&datapath, 1, Some(1000 * MS), of_addresses(1, 1000));
    let goes = begin(&datapath, 2, None, of_addresses(2, 5000));
    pause(300);
    goes.remove();
    assert_eq!(stays.state(), RunState::Running);
    let (flows, _) = complete(&stays);
    assert_eq!(flows, 1000);
    // What it had started is complete or aborted.
    let sides = goes.template_counters();
    for (side, started) in sides.iter().zip([Count::FlowsAttempted, Count::FlowsAccepted]) {
        assert!(side.get(started) > 100, "{side:?}");
        assert_eq!((side.get(Count::FlowsClosed), side.open), (side.get(started), 0));
    }
}
