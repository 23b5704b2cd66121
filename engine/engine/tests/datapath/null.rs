// SPDX-License-Identifier: Apache-2.0
//! Pacing, on a port that takes everything: exact counts, departures in time, changes in effect at once.
use std::{thread, time::Duration};

use spate_engine::datapath::{Change, PollMode, PortDevice, RunError, RunState};
use spate_engine::index::StreamIndex;

use crate::setup::{MS, open, pps, spec, start, stream, turn, undisturbed, wait_for};
use spate_stateful::Ratio;

#[test]
fn a_million_a_second_for_ten_seconds_is_ten_million_packets_and_the_last_is_in_time() {
    let _turn = turn();
    let datapath = open(&[("null", PortDevice::Null)], 1, PollMode::Busy);
    undisturbed(|| {
        let run = start(&datapath, spec(1, 0, Some(10_000 * MS), vec![stream(1, 0, None, 60, pps(1_000_000))]));
        wait_for(&run, RunState::Complete, 15);
        let counters = run.counters()[0];
        run.remove();
        assert_eq!(counters.measured.tx_packets, 10_000_000);
        assert_eq!(counters.measured.tx_bytes, 640_000_000);
        assert_eq!(counters.measured.tx_dropped, 0);
        assert_eq!(counters.warmup.tx_packets, 0);
        let last = counters.measured.last_departure_delay_ns;
        println!(
            "10,000,000 packets; last {last} ns after its time, at most {} ns",
            counters.measured.max_departure_delay_ns
        );
        if last < MS { Ok(()) } else { Err(format!("the last packet left {last} ns after its time")) }
    });
}

#[test]
fn a_rate_change_takes_effect_within_100_ms_and_keeps_count() {
    let _turn = turn();
    let datapath = open(&[("null", PortDevice::Null)], 1, PollMode::Busy);
    let run = start(&datapath, spec(1, 0, Some(1000 * MS), vec![stream(1, 0, None, 60, pps(100_000))]));
    let started = run.started_at().unwrap();
    let at = started + 400 * MS;
    assert_eq!(run.update(&[StreamIndex(0)], Change::Rate(pps(1_000_000)), at).unwrap(), at);
    // Immediately: the answer says when, and that is soon.
    wait_for(&run, RunState::Running, 1);
    thread::sleep(Duration::from_millis(600));
    let asked = datapath.clock().now_wall_ns();
    let effective = run.update(&[StreamIndex(0)], Change::Factor(Ratio::new(1, 2)), 0).unwrap();
    assert!(effective > asked && effective - asked < 100 * MS, "{asked} {effective}");
    wait_for(&run, RunState::Complete, 5);
    let sent = run.counters()[0].measured.tx_packets;
    // 0.4 s at 100 kpps, then 1 Mpps, then 50 kpps from the instant that was returned (to the clock's microsecond).
    let fast = effective - started - 400 * MS;
    let expected = 40_000 + fast / 1000 + (600 * MS - fast) / 20_000;
    assert!(sent.abs_diff(expected) <= 2, "{sent} sent, {expected} expected");
    run.remove();
}

#[test]
fn warm_up_is_counted_apart_and_rates_need_not_divide_anything() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Null), ("b", PortDevice::Null)], 2, PollMode::Adaptive);
    let run = start(
        &datapath,
        spec(
            9,
            100 * MS,
            Some(200 * MS),
            vec![
                stream(1, 0, None, 60, pps(33_333)),
                stream(2, 1, None, 1514, pps(7)),
                stream(3, 1, None, 9000, pps(12_347)),
            ],
        ),
    );
    wait_for(&run, RunState::Complete, 5);
    let sent: Vec<_> = run.counters().iter().map(|c| (c.warmup.tx_packets, c.measured.tx_packets)).collect();
    // Packets due before t: the rate times t, rounded up.
    assert_eq!(sent, [(3334, 6666), (1, 2), (1235, 2470)]);
    run.remove();
}

#[test]
fn a_paused_run_sends_nothing_and_loses_nothing() {
    let _turn = turn();
    let datapath = open(&[("null", PortDevice::Null)], 1, PollMode::Busy);
    let streams = vec![stream(1, 0, None, 60, pps(50_000)), stream(2, 0, None, 60, pps(50_000))];
    let run = start(&datapath, spec(1, 0, Some(400 * MS), streams));
    let at = |ms: u64| run.started_at().unwrap() + ms * MS;
    // Its transmission ends before that.
    for late in [400, 500] {
        assert!(matches!(run.pause(at(late)), Err(RunError::State { .. })));
    }
    run.pause(at(100)).unwrap();
    wait_for(&run, RunState::Paused, 1);
    let paused = run.counters();
    assert_eq!(run.elapsed_ns(), 100 * MS);
    thread::sleep(Duration::from_millis(100));
    assert_eq!(run.counters(), paused);
    assert!(matches!(run.pause(0), Err(RunError::State { .. })));
    // One stream stays behind: what falls into its own pause is not sent later.
    run.update(&[StreamIndex(1)], Change::Paused(true), 0).unwrap();
    run.resume(0).unwrap();
    wait_for(&run, RunState::Complete, 5);
    let sent: Vec<_> = run.counters().iter().map(|c| c.measured.tx_packets).collect();
    assert_eq!(sent, [20_000, 5_000]);
    run.remove();
}

#[test]
fn a_stopped_run_is_stopped_at_once() {
    let _turn = turn();
    let datapath = open(&[("null", PortDevice::Null)], 1, PollMode::Busy);
    let run = start(&datapath, spec(1, 0, Some(60_000 * MS), vec![stream(1, 0, None, 60, pps(100_000))]));
    wait_for(&run, RunState::Running, 1);
    thread::sleep(Duration::from_millis(50));
    run.stop("the test says so");
    thread::sleep(Duration::from_millis(5));
    let at_stop = run.counters();
    wait_for(&run, RunState::Stopped, 2);
    assert_eq!(run.counters(), at_stop);
    assert_eq!(run.end_reason().as_deref(), Some("the test says so"));
    // All that was due is accounted for, also if the worker was kept from its CPU when the stop came.
    let c = at_stop[0].measured;
    let due = run.elapsed_ns().div_ceil(10_000);
    assert!((due..due + 1000).contains(&(c.tx_packets + c.tx_dropped)), "{c:?}, {due} due");
    assert!(matches!(run.update(&[StreamIndex(0)], Change::Paused(true), 0), Err(RunError::State { .. })));
    run.remove();

    // Without a duration, being stopped is the way to complete.
    let run = start(&datapath, spec(1, 0, None, vec![stream(1, 0, None, 60, pps(1000))]));
    wait_for(&run, RunState::Running, 1);
    run.stop("enough");
    wait_for(&run, RunState::Complete, 2);
}
