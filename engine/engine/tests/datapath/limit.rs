// SPDX-License-Identifier: Apache-2.0
//! A greatest rate of all that an engine sends: held to, whatever sends, also when it is set in mid-run; what it puts off is counted.
use std::{
    thread,
    time::{Duration, Instant},
};

use spate_engine::datapath::{Change, Datapath, Gap, LimitUnit, MaxRate, PollMode, PortDevice, RunState};
use spate_engine::index::StreamIndex;
use spate_stateful::{Protocol, Ratio};

use crate::{
    replay::{held, replaying},
    setup::{MS, assert_all_received, open, pps, spec, start, stream, turn, wait_for},
    stateful::{assert_all_complete, emulated, over_v4},
};

fn packets(per_second: u64) -> Option<MaxRate> {
    Some(MaxRate { unit: LimitUnit::Packets, per_second: Ratio::new(per_second, 1) })
}

/// Packets that a port sends in a time, and the most that it would send at a rate.
fn sends(datapath: &Datapath, millis: u64, per_second: u64) -> (u64, u64) {
    let since = Instant::now();
    let before = datapath.port_counters()[0].tx_packets;
    thread::sleep(Duration::from_millis(millis));
    let after = datapath.port_counters()[0].tx_packets;
    (after - before, since.elapsed().as_micros() as u64 * per_second / 1_000_000)
}

#[test]
fn streams_are_held_back_and_go_on_when_they_may() {
    let _turn = turn();
    for workers in [1, 2] {
        let datapath = open(&[("a", PortDevice::Loopback)], workers, PollMode::Busy);
        let run = start(&datapath, spec(1, 0, Some(2000 * MS), vec![stream(1, 0, Some(0), 60, pps(20_000))]));
        wait_for(&run, RunState::Running, 2);
        thread::sleep(Duration::from_millis(100));
        assert_eq!(datapath.port_counters()[0].throttled_packets, 0);
        // In mid-run.
        datapath.limit(packets(5000));
        let (sent, most) = sends(&datapath, 600, 5000);
        // A burst of each worker at either end; less where a worker was kept from its CPU, for what is not used is lost.
        let bursts = 2 * 64 * workers as u64;
        assert!(sent <= most + bursts && sent >= most / 2, "{sent} of {most}");
        assert!(datapath.port_counters()[0].throttled_packets >= sent / 2);
        // As L2 bits: 64 bytes each.
        datapath.limit(Some(MaxRate { unit: LimitUnit::L2Bits, per_second: Ratio::new(64 * 8 * 2000, 1) }));
        let (sent, most) = sends(&datapath, 400, 2000);
        assert!(sent <= most + bursts && sent >= most / 2, "{sent} of {most}");
        datapath.limit(None);
        wait_for(&run, RunState::Complete, 5);
        let counters = run.counters()[0].measured;
        assert_all_received(&counters, 40_000);
        assert!(counters.late > 10_000, "{counters:?}");
    }
}

#[test]
fn what_is_due_at_the_end_is_dropped_and_counted() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Auto);
    datapath.limit(packets(1000));
    let run = start(&datapath, spec(1, 0, Some(500 * MS), vec![stream(1, 0, Some(0), 60, pps(20_000))]));
    wait_for(&run, RunState::Complete, 5);
    let counters = run.counters()[0].measured;
    assert_eq!((counters.tx_packets + counters.tx_dropped, counters.rx_packets), (10_000, counters.tx_packets));
    // Half a second, the grace behind it, and a burst.
    assert!((400..=600 + 64).contains(&counters.tx_packets), "{counters:?}");
}

#[test]
fn what_is_due_after_a_change_while_throttled_is_counted_by_the_rate_that_was_in_force() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy);
    datapath.limit(packets(1000));
    let run = start(&datapath, spec(1, 0, Some(1000 * MS), vec![stream(1, 0, Some(0), 60, pps(20_000))]));
    wait_for(&run, RunState::Running, 2);
    let at = run.started_at().unwrap() + 200 * MS;
    run.update(&[StreamIndex(0)], Change::Paused(true), at).unwrap();
    wait_for(&run, RunState::Complete, 5);
    let counters = run.counters()[0].measured;
    assert_eq!((counters.tx_packets + counters.tx_dropped, counters.rx_packets), (4000, counters.tx_packets));
}

#[test]
fn replays_are_held_back_without_packets_in_hand() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy);
    datapath.limit(packets(1000));
    // Together they would hold more packets than the worker has.
    let replays = (1..=60).map(|id| replaying(id, held(1000, 1_000_000, |_| 200), Gap::Captured, None)).collect();
    let run = start(&datapath, spec(1, 0, Some(1500 * MS), replays));
    wait_for(&run, RunState::Running, 2);
    thread::sleep(Duration::from_millis(200));
    let other = start(&datapath, spec(2, 0, Some(500 * MS), vec![stream(99, 0, Some(0), 60, pps(100))]));
    let (sent, most) = sends(&datapath, 500, 1000);
    assert!(sent <= most + 2 * 64, "{sent} of {most}");
    wait_for(&other, RunState::Complete, 5);
    assert!(other.counters()[0].measured.tx_packets > 0, "they have all packets");
    wait_for(&run, RunState::Complete, 10);
    for counters in run.counters() {
        assert_eq!(counters.measured.tx_packets + counters.measured.tx_dropped, 1500);
        assert_eq!(counters.measured.rx_packets, counters.measured.tx_packets);
    }
    assert!(datapath.port_counters()[0].throttled_packets > 0);
}

#[test]
fn flows_are_held_back_and_lose_nothing() {
    let _turn = turn();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy);
        let mut flowing = emulated(&datapath, 7, Some(1000 * MS), over_v4(protocol, 100));
        flowing.timing.drain_ns = 10_000 * MS;
        datapath.limit(packets(500));
        let run = start(&datapath, flowing);
        wait_for(&run, RunState::Running, 2);
        let (sent, most) = sends(&datapath, 800, 500);
        assert!(sent <= most + 2 * 64, "{sent} of {most}");
        datapath.limit(None);
        wait_for(&run, RunState::Complete, 20);
        assert_all_complete(&run.template_counters(), 100);
        let port = &datapath.port_counters()[0];
        println!(
            "{protocol:?}: {} packets, {} throttled; {sent} of {most} under the limit",
            port.tx_packets, port.throttled_packets
        );
        assert!(port.throttled_packets > 0 && port.tx_dropped == 0, "{port:?}");
    }
}

#[test]
fn no_port_and_no_flows_starve_beside_streams_that_need_all() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback), ("b", PortDevice::Loopback)], 1, PollMode::Busy);
    datapath.limit(packets(2000));
    let streams = [0, 1].map(|port| stream(1 + port as u16, port, Some(port), 60, pps(20_000)));
    let streams = start(&datapath, spec(1, 0, None, streams.into()));
    wait_for(&streams, RunState::Running, 2);
    thread::sleep(Duration::from_millis(100));
    let before = datapath.port_counters();
    let flowing = start(&datapath, emulated(&datapath, 7, Some(500 * MS), over_v4(Protocol::Udp, 20)));
    wait_for(&flowing, RunState::Complete, 10);
    assert_all_complete(&flowing.template_counters(), 10);
    let after = datapath.port_counters();
    let sent = [0, 1].map(|port| after[port].tx_packets - before[port].tx_packets);
    println!("{sent:?} beside flows");
    assert!(sent[0].min(sent[1]) * 4 >= sent[0] + sent[1], "{sent:?}");
    streams.stop("enough");
}
