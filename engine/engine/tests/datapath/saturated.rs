// SPDX-License-Identifier: Apache-2.0
//! A worker that always has packets to read keeps no run open beyond its deadline.
use std::{
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use spate_engine::datapath::{PollMode, RunState};
use spate_engine::index::PortIndex;

use crate::{
    setup::{MS, pps, spec, start, stream, turn, wait_for},
    stateful::{emulated, loopback, over_v4},
};

/// The drain, and what follows it at most.
const DRAIN: Duration = Duration::from_millis(200);
const WITHIN: Duration = Duration::from_secs(5);

#[test]
fn a_saturated_drain_ends_by_its_deadline_and_the_run_says_so() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    let of_streams = spec(7, 0, Some(100 * MS), vec![stream(10, 0, Some(0), 60, pps(1000))]);
    let of_flows = emulated(&datapath, 8, Some(100 * MS), over_v4(spate_stateful::Protocol::Tcp, 100));
    // More than a worker can send: it reads a burst in each pass.
    let flood = start(&datapath, spec(9, 0, None, vec![stream(11, 0, Some(0), 60, pps(500_000_000))]));
    for mut spec in [of_streams, of_flows] {
        spec.timing.drain_ns = DRAIN.as_nanos() as u64;
        let run = start(&datapath, spec);
        wait_for(&run, RunState::Draining, 10);
        let since = Instant::now();
        wait_for(&run, RunState::Complete, 20);
        let took = since.elapsed();
        assert!((WITHIN - DRAIN..WITHIN + DRAIN + Duration::from_secs(2)).contains(&took), "the drain took {took:?}");
        let problem = run.drain_timed_out().unwrap_or_default();
        assert!(problem.starts_with("worker 0 still had packets to read 5 s after the end of sending"), "{problem:?}");
        run.remove();
    }
    assert_eq!(flood.state(), RunState::Running);
    flood.remove();

    // Without it, no warning is expected.
    let run = start(&datapath, spec(7, 0, Some(100 * MS), vec![stream(10, 0, Some(0), 60, pps(1000))]));
    wait_for(&run, RunState::Complete, 10);
    assert_eq!(run.drain_timed_out(), None);
}

#[test]
fn a_worker_that_hangs_holds_no_run_open_and_is_named() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    let free = Arc::new((Mutex::new(false), Condvar::new()));
    let theirs = Arc::clone(&free);
    // A driver's call that does not return.
    let hang = move |frames: &[(&[u8], usize)]| {
        let (is_free, changed) = &*theirs;
        drop(changed.wait_while(is_free.lock().unwrap(), |is_free| !*is_free));
        (0..frames.len()).collect()
    };
    datapath.disturb(PortIndex(0), Box::new(hang));
    let run = start(&datapath, spec(7, 0, Some(100 * MS), vec![stream(10, 0, Some(0), 60, pps(1000))]));
    let since = Instant::now();
    wait_for(&run, RunState::Complete, 20);
    let took = since.elapsed();
    // What is due may be sent for 6 s; a second later the worker is not waited for.
    assert!((2 * WITHIN..3 * WITHIN).contains(&took), "it took {took:?}");
    let problem = run.drain_timed_out().unwrap_or_default();
    assert!(problem.starts_with("worker 0 had not finished sending 1"), "{problem:?}");

    *free.0.lock().unwrap() = true;
    free.1.notify_all();
    run.remove();
    let next = start(&datapath, spec(8, 0, Some(100 * MS), vec![stream(10, 0, Some(0), 60, pps(1000))]));
    wait_for(&next, RunState::Complete, 10);
    assert_eq!((next.drain_timed_out(), next.counters()[0].measured.rx_packets), (None, 100));
}
