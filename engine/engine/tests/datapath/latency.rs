// SPDX-License-Identifier: Apache-2.0
//! Delays: every packet of the measured phase has one, duplicates have none, sums and histograms agree.
use spate_engine::datapath::{Datapath, PollMode, PortDevice, RunSpec, RunState, StreamReceive, StreamSpec};
use spate_engine::index::StreamIndex;
use spate_stateful::Protocol;

use crate::{
    setup::{MS, open, pps, spec, start, stream, turn, undisturbed, wait_for},
    stateful::{assert_all_complete, emulated, loopback, over_v4},
};

fn timed(id: u16, rate: u64, histogram: usize) -> StreamSpec {
    let receive = StreamReceive { histogram: Some(histogram), ..StreamReceive::default() };
    StreamSpec { receive, ..stream(id, 0, Some(0), 60, pps(rate)) }
}

#[test]
fn every_measured_packet_has_its_delay() {
    let _turn = turn();
    for workers in [1, 2] {
        let datapath = open(&[("a", PortDevice::Loopback)], workers, PollMode::Busy);
        undisturbed(|| delays_are_all_there(&datapath, workers));
    }
}

fn delays_are_all_there(datapath: &Datapath, workers: usize) -> Result<(), String> {
    // Two streams share a histogram, one has its own, one measures no delays.
    let streams =
        vec![timed(1, 200_000, 0), timed(2, 100_000, 0), timed(3, 50_000, 1), stream(4, 0, Some(0), 60, pps(1000))];
    let run = start(datapath, spec(3, 100 * MS, Some(500 * MS), streams));
    wait_for(&run, RunState::Complete, 5);
    let all = [(0, 100_000), (1, 50_000), (2, 25_000)];
    if run.counters().iter().any(|c| c.measured.tx_dropped > 0) {
        run.remove();
        return Err(format!("the workers were kept from their CPUs: {:?}", run.counters()));
    }
    for (index, packets) in all {
        let c = run.counters()[index].measured;
        assert_eq!((c.tx_packets, c.rx_packets, c.duplicates), (packets, packets, 0));
        let delays = run.delays(&[StreamIndex(index)]).unwrap();
        assert_eq!((delays.count, delays.negative, delays.unknown), (packets, 0, 0));
        let mean = delays.sum_ns / delays.count;
        assert!(delays.min_ns > 0 && delays.min_ns <= mean && mean <= delays.max_ns, "{delays:?}");
        // The mean of the squares is at least the square of the mean.
        assert!(delays.sum_squares / u128::from(packets) >= u128::from(mean).pow(2), "{delays:?}");
        // The first packet of each sender is compared with nothing.
        assert_eq!(delays.differences, packets - workers as u64);
        assert!(delays.jitter_ns <= delays.difference_max_ns && delays.difference_max_ns <= delays.max_ns);
        let read = run.distribution(usize::from(index == 2));
        assert!(read.quantile(1_000_000) >= delays.max_ns && read.quantile(1) <= read.quantile(500_000));
    }
    assert_eq!(run.distribution(0).total(), 150_000);
    assert_eq!(run.distribution(1).total(), 25_000);
    assert_eq!(run.delays(&[StreamIndex(0), StreamIndex(1)]).unwrap().count, 150_000);
    assert!(run.delays(&[StreamIndex(3)]).is_none());
    // All packets come in on one queue here, so that one worker counts.
    assert_eq!(run.histogram_bytes(), 2 * (2048 + 25 * 1024) * 8);
    let median = run.distribution(0).quantile(500_000);
    println!("{workers} workers: half of the packets took at most {median} ns");
    run.remove();
    Ok(())
}

#[test]
fn delays_and_jitter_are_measured_beside_flows() {
    let _turn = turn();
    for workers in [1, 2] {
        let datapath = loopback(workers, PollMode::Busy);
        undisturbed(|| delays_beside_flows(&datapath, workers));
    }
}

/// 2,000 packets a second measure, while 4,000 connections a second come and go on the same port.
fn delays_beside_flows(datapath: &Datapath, workers: usize) -> Result<(), String> {
    let flows = emulated(datapath, 4, Some(500 * MS), over_v4(Protocol::Tcp, 4000));
    let run = start(datapath, RunSpec { streams: spec(4, 0, None, vec![timed(1, 2000, 0)]).streams, ..flows });
    wait_for(&run, RunState::Complete, 10);
    let stream = run.counters()[0].measured;
    let templates = run.template_counters();
    if stream.tx_dropped > 0 {
        run.remove();
        return Err(format!("the workers were kept from their CPUs: {stream:?}"));
    }
    assert_all_complete(&templates, 2000);
    assert_eq!((stream.tx_packets, stream.rx_packets), (1000, 1000));
    let delays = run.delays(&[StreamIndex(0)]).unwrap();
    assert_eq!((delays.count, delays.negative, delays.unknown), (1000, 0, 0));
    // The first packet of each sender is compared with nothing.
    assert_eq!(delays.differences, 1000 - workers as u64);
    assert!(delays.min_ns > 0 && delays.jitter_ns <= delays.difference_max_ns, "{delays:?}");
    let read = run.distribution(0);
    let [half, most, all] = [500_000, 990_000, 1_000_000].map(|part| read.quantile(part));
    assert_eq!(read.total(), 1000);
    assert!(delays.min_ns <= half && half <= most && most <= all && all >= delays.max_ns, "{half} {most} {all}");
    println!("{workers} workers: half {half} ns, 99 % {most} ns, jitter {} ns", delays.jitter_ns);
    run.remove();
    Ok(())
}

#[test]
fn more_histograms_than_memory_are_refused_with_what_they_need() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy);
    let streams = (0..5000).map(|id| timed(id, 1, usize::from(id))).collect();
    let error = datapath.prepare(spec(3, 0, None, streams)).map(|_| ()).unwrap_err();
    assert!(error.exhausted && error.problem.starts_with("latency histograms of 5000 streams or groups"), "{error}");
    assert!(error.problem.contains("need 1054 MiB, and 1024 are allowed"), "{error}");
}
