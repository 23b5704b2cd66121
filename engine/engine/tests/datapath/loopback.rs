// SPDX-License-Identifier: Apache-2.0
//! Measurement, on ports that give back what they take: nothing is lost, doubled, reordered or misattributed.
use spate_engine::datapath::{Blueprint, PollMode, PortDevice, RunState, Template};

use crate::setup::{MS, assert_all_received, open, pps, spec, start, stream, turn, wait_for};

fn three_streams_come_back(workers: usize, poll: PollMode) {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback), ("b", PortDevice::Loopback)], workers, poll);
    let streams = vec![
        stream(10, 0, Some(0), 60, pps(100_000)),
        stream(20, 0, Some(0), 594, pps(40_000)),
        stream(30, 1, Some(1), 1514, pps(10_000)),
    ];
    let run = start(&datapath, spec(77, 100 * MS, Some(1000 * MS), streams));
    wait_for(&run, RunState::Complete, 10);
    let counters = run.counters();
    for (counters, rate) in counters.iter().zip([100_000, 40_000, 10_000]) {
        assert_all_received(&counters.warmup, rate / 10);
        assert_all_received(&counters.measured, rate);
    }
    let ports = datapath.port_counters();
    assert_eq!(ports.iter().map(|p| p.tx_packets).collect::<Vec<_>>(), [154_000, 11_000]);
    for port in &ports {
        assert_eq!((port.tx_packets, port.tx_bytes), (port.rx_packets, port.rx_bytes));
        assert_eq!((port.foreign_packets, port.tx_dropped, port.rx_missed), (0, 0, 0));
        assert_eq!(port.queues.iter().map(|q| q.0).sum::<u64>(), port.tx_packets);
    }
    let all = datapath.worker_counters();
    assert_eq!(all.len(), workers);
    assert_eq!(all.iter().map(|w| w.tx_packets).sum::<u64>(), 165_000);
}

#[test]
fn three_streams_come_back_with_one_worker() {
    three_streams_come_back(1, PollMode::Busy);
}

#[test]
fn three_streams_come_back_with_two_workers() {
    three_streams_come_back(2, PollMode::Busy);
}

#[test]
fn three_streams_come_back_with_workers_that_sleep() {
    three_streams_come_back(2, PollMode::Adaptive);
}

#[test]
fn a_stream_on_a_wrong_port_is_received_and_misdirected() {
    let _turn = turn();
    // Two workers, each receiving from one port: packets are handed over to the stream's owner.
    let datapath = open(&[("a", PortDevice::Loopback), ("b", PortDevice::Loopback)], 2, PollMode::Busy);
    let run = start(
        &datapath,
        spec(3, 0, Some(200 * MS), vec![stream(1, 0, Some(1), 60, pps(50_000)), stream(2, 1, None, 60, pps(50_000))]),
    );
    wait_for(&run, RunState::Complete, 5);
    for counters in run.counters() {
        let c = counters.measured;
        assert_eq!(
            (c.tx_packets, c.rx_packets, c.misdirected, c.duplicates, c.out_of_order),
            (10_000, 10_000, 10_000, 0, 0)
        );
    }
}

#[test]
fn runs_beside_each_other_do_not_mix_and_packets_of_a_forgotten_run_are_foreign() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy);
    let one = start(&datapath, spec(1, 0, Some(200 * MS), vec![stream(5, 0, Some(0), 60, pps(20_000))]));
    let two = start(&datapath, spec(2, 0, Some(100 * MS), vec![stream(5, 0, Some(0), 200, pps(30_000))]));
    let error = datapath.prepare(spec(2, 0, None, vec![])).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "run_tag: 2 is in use by another run here");
    wait_for(&one, RunState::Complete, 5);
    wait_for(&two, RunState::Complete, 5);
    assert_all_received(&one.counters()[0].measured, 4000);
    assert_all_received(&two.counters()[0].measured, 3000);

    // A stream that is not measured has no trailer.
    let mut plain = stream(6, 0, Some(0), 60, pps(10_000));
    plain.template =
        Template::new(&Blueprint { frame: plain.template.frame().to_vec(), ..Blueprint::default() }).unwrap();
    one.remove();
    let three = start(&datapath, spec(1, 0, Some(100 * MS), vec![plain]));
    wait_for(&three, RunState::Complete, 5);
    let c = three.counters()[0].measured;
    assert_eq!((c.tx_packets, c.rx_packets), (1000, 0));
    assert_eq!(datapath.port_counters()[0].foreign_packets, 1000);
}

#[test]
fn what_a_port_cannot_carry_is_refused_by_name() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy);
    let refuse = |spec| datapath.prepare(spec).map(|_| ()).unwrap_err().to_string();
    let twice = vec![stream(1, 0, None, 60, pps(1)), stream(1, 0, None, 60, pps(1))];
    assert_eq!(refuse(spec(1, 0, None, twice)), "streams[1].id: 1 is the id of streams[0] too");
    assert_eq!(
        refuse(spec(1, 0, None, vec![stream(1, 4, None, 60, pps(1))])),
        "streams[0].tx_port: there is no port 4: there are 1"
    );
    assert_eq!(refuse(spec(0, 0, None, vec![])), "run_tag: it must not be 0");
    let mut shared = spec(1, 0, None, vec![]);
    shared.share = (0, 300);
    assert!(refuse(shared).starts_with("share: 300 workers would send this run"));
}
