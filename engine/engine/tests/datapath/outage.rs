// SPDX-License-Identifier: Apache-2.0
//! Outages: what streams and templates report of a path that is blacked out at seeded times agrees with what the path let through.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use spate_engine::datapath::{
    Change, Datapath, FlowChange, OnLink, Outage, PollMode, PortDevice, Run, RunSpec, RunState, Span, StatefulSpec,
    Timing,
};
use spate_engine::index::{StreamIndex, TemplateIndex};
use spate_stateful::{PortLink, Protocol, Scenario, random::Numbers};

use crate::kernel::{run, run_inside_by};
use crate::packet_socket::{BATCH, PacketSocket, ROOM};
use crate::setup::{MS, open, pps, spec, start, stream, undisturbed, wait_for};
use crate::stateful::over_v4;

/// Packets a second (of templates: flows, each with packets of its own as soon as it starts), and the time between two.
const RATE: u64 = 500;
const GAP_NS: u64 = 1_000_000_000 / RATE;
/// Times without a packet that are compared are longer than this: those of the shortest black-out are.
const LONG_NS: u64 = 5 * MS - MS / 10;
/// How late the path may pass a packet on.
const PATH_LATE_NS: u64 = MS;
const WARMUP_NS: u64 = 300 * MS;
const BLACKOUTS: [u64; 6] = [5 * MS, 20 * MS, 50 * MS, 200 * MS, 1000 * MS, 2000 * MS];

/// The path and the workers run as soon as they can: what other programs of the machine keep them from is no outage of the path.
const REAL_TIME: &[&str] = &["chrt", "--rr", "1"];

fn wall_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Black-outs in an order and at distances that a seed decides, from an instant on; the first is over before the warm-up is.
fn blackouts(seed: u64, from_ns: u64) -> (Vec<Span>, u64) {
    let mut random = Numbers::new(seed);
    let mut lengths = BLACKOUTS.to_vec();
    let mut spans = vec![Span { from_ns: from_ns + 60 * MS, to_ns: from_ns + 160 * MS }];
    let mut at_ns = from_ns + WARMUP_NS;
    while !lengths.is_empty() {
        let len = lengths.remove(random.below(lengths.len() as u64) as usize);
        at_ns += 60 * MS + random.below(190 * MS);
        spans.push(Span { from_ns: at_ns, to_ns: at_ns + len });
        at_ns += len;
    }
    (spans, at_ns + 150 * MS)
}

/// What the path did.
struct Passed {
    /// By direction: when it let frames through, on the wall clock.
    instants: [Vec<u64>; 2],
    missed: u64,
}

impl Passed {
    /// Times in which it let nothing through in a direction, after an instant.
    fn outages(&self, direction: usize, after_ns: u64) -> Vec<Span> {
        let pairs = self.instants[direction].windows(2).map(|pair| Span { from_ns: pair[0], to_ns: pair[1] });
        pairs.filter(|span| span.to_ns > after_ns).collect()
    }
}

/// Passes frames between two interfaces, but for black-outs on the wall clock.
fn pass(ends: [&str; 2], blackouts: &[Span], stop: &AtomicBool) -> Passed {
    let ends = ends.map(|end| PacketSocket::open(end).unwrap());
    let mut passed = Passed { instants: [Vec::new(), Vec::new()], missed: 0 };
    let mut rooms = Box::new([[0; ROOM]; BATCH]);
    let mut lengths = [0; BATCH];
    while !stop.load(Ordering::Relaxed) {
        let mut taken = 0;
        for from in 0..2 {
            let count = ends[from].receive(&mut rooms, &mut lengths).unwrap();
            taken += count;
            let now_ns = wall_ns();
            if count == 0 || blackouts.iter().any(|span| (span.from_ns..span.to_ns).contains(&now_ns)) {
                continue;
            }
            let frames: Vec<_> = rooms.iter().zip(&lengths[..count]).map(|(room, len)| room[..*len].to_vec()).collect();
            assert_eq!(ends[1 - from].send(&frames).unwrap(), count, "a veth takes all");
            passed.instants[from].extend(std::iter::repeat_n(now_ns, count));
        }
        if taken == 0 {
            let mut fds = [PollFd::new(&ends[0], PollFlags::IN), PollFd::new(&ends[1], PollFlags::IN)];
            let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let _ = poll(&mut fds, Some(&wait));
        }
    }
    passed.missed = ends.iter().map(|end| end.missed().unwrap()).sum();
    passed
}

/// Those that may be black-outs, and are longer than the gaps between packets.
fn long(spans: &[Span]) -> impl Iterator<Item = &Span> {
    spans.iter().filter(|span| span.len_ns() > LONG_NS)
}

/// What a run reports is, to within one gap between packets at each end, what the path did in a direction: every black-out in the measured
/// phase, and no other time without a packet.
fn agree(outage: &Outage, passed: &Passed, direction: usize, blackouts: &[Span]) -> Result<(), String> {
    assert_eq!(passed.missed, 0);
    let silence = &outage.silence;
    // Else an outage as short as the shortest black-out could be missing.
    assert!(silence.unlisted_ns < LONG_NS, "{silence:?}");
    let began_ns = outage.phase_began_at_ns;
    let since = |span: &Span| Span {
        from_ns: span.from_ns.saturating_sub(began_ns),
        to_ns: span.to_ns.saturating_sub(began_ns),
    };
    let near = |a: &Span, b: &Span| {
        let ends = [(a.from_ns, b.from_ns), (a.to_ns, b.to_ns), (a.len_ns(), b.len_ns())];
        ends.into_iter().all(|(a, b)| a.abs_diff(b) <= GAP_NS)
    };
    let blackouts: Vec<_> = blackouts.iter().filter(|span| span.from_ns > began_ns).map(since).collect();
    let truth: Vec<_> = long(&passed.outages(direction, began_ns)).map(since).collect();
    let contains = |(span, blackout): (&Span, &Span)| {
        let around = |ns: u64| (0..=GAP_NS + PATH_LATE_NS).contains(&ns);
        span.from_ns <= blackout.from_ns
            && around(blackout.from_ns - span.from_ns)
            && span.to_ns >= blackout.to_ns
            && around(span.to_ns - blackout.to_ns)
    };
    if truth.len() != blackouts.len() || !truth.iter().zip(&blackouts).all(contains) {
        return Err(format!(
            "the path was late: it let nothing through in {truth:?}, and was blacked out in {blackouts:?}"
        ));
    }
    let reported: Vec<_> = long(&silence.spans).collect();
    if reported.len() != truth.len() || !reported.iter().zip(&truth).all(|(reported, truth)| near(reported, truth)) {
        return Err(format!("reported are {reported:?}, and nothing passed in {truth:?}"));
    }
    let longest = silence.longest().unwrap();
    let truly = truth.iter().max_by_key(|span| span.len_ns()).unwrap();
    assert!(near(&longest, truly), "the longest is {longest:?} of {truth:?}");
    Ok(())
}

/// Runs something on two ports with a path in between that is blacked out at times that a seed decides.
fn blacked_out_by_seed(
    datapath: &Datapath,
    seed: u64,
    spec: RunSpec,
    check: impl Fn(&Run, &Passed, &[Span]) -> Result<(), String>,
) -> Result<(), String> {
    let starts_ns = wall_ns() + 300 * MS;
    let (spans, ends_ns) = blackouts(seed, starts_ns);
    blacked_out(datapath, [starts_ns, ends_ns], &spans, spec, |run, passed| check(run, passed, &spans))
}

/// The same at given times, between the start and the end of transmission.
fn blacked_out(
    datapath: &Datapath,
    [starts_ns, ends_ns]: [u64; 2],
    spans: &[Span],
    spec: RunSpec,
    check: impl Fn(&Run, &Passed) -> Result<(), String>,
) -> Result<(), String> {
    let timing =
        Timing { warmup_ns: WARMUP_NS, duration_ns: Some(ends_ns - starts_ns - WARMUP_NS), drain_ns: 200 * MS };
    let run = datapath.prepare(RunSpec { timing, ..spec }).unwrap();
    let stop = AtomicBool::new(false);
    let passed = thread::scope(|scope| {
        let path = scope.spawn(|| pass(["sp1", "sp3"], spans, &stop));
        // Its sockets are open before the first packet.
        thread::sleep(Duration::from_millis(30));
        run.start(starts_ns).unwrap();
        wait_for(&run, RunState::Complete, 20);
        stop.store(true, Ordering::Relaxed);
        path.join().unwrap()
    });
    let checked = check(&run, &passed);
    run.remove();
    checked
}

/// A second pair of interfaces. The path is between the first and the second pair.
fn second_pair() {
    run(&["ip", "link", "add", "sp2", "type", "veth", "peer", "name", "sp3"]);
    for interface in ["sp2", "sp3"] {
        run(&["sysctl", "-qw", &format!("net.ipv6.conf.{interface}.disable_ipv6=1")]);
        run(&["ip", "link", "set", interface, "mtu", "1500", "up"]);
    }
}

fn two_ports(workers: usize) -> Datapath {
    let ports = [("east", PortDevice::Kernel("sp0".into())), ("west", PortDevice::Kernel("sp2".into()))];
    open(&ports, workers, PollMode::Auto)
}

#[test]
fn streams_report_every_black_out_of_the_path_and_no_other() {
    run_inside_by(REAL_TIME, "outage::inside_streams", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_streams() {
    second_pair();
    let datapath = two_ports(1);
    for seed in 1..=3 {
        undisturbed(|| {
            let streams = vec![stream(1, 0, Some(1), 60, pps(RATE)), stream(2, 1, Some(0), 594, pps(RATE))];
            blacked_out_by_seed(&datapath, seed, spec(seed as u16, 0, None, streams), |run, passed, blackouts| {
                for direction in 0..2 {
                    agree(&run.outage(&[StreamIndex(direction)]).unwrap(), passed, direction, blackouts)?;
                }
                // Both directions are blacked out at the same time: so is the group of both streams.
                let both =
                    run.outage(&[StreamIndex(0), StreamIndex(1)]).unwrap().silence.longest().map_or(0, Span::len_ns);
                let each =
                    [0, 1].map(|i| run.outage(&[StreamIndex(i)]).unwrap().silence.longest().map_or(0, Span::len_ns));
                let least = each[0].min(each[1]);
                if both > least || both + GAP_NS < least { Err(format!("{both} of {each:?}")) } else { Ok(()) }
            })
        });
    }
}

#[test]
fn outages_at_the_beginning_and_to_the_end_of_the_phase_count() {
    run_inside_by(REAL_TIME, "outage::inside_edges", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_edges() {
    const PHASE_NS: u64 = 1000 * MS;
    second_pair();
    let datapath = two_ports(1);
    undisturbed(|| {
        let starts_ns = wall_ns() + 300 * MS;
        let (began_ns, ends_ns) = (starts_ns + WARMUP_NS, starts_ns + WARMUP_NS + PHASE_NS);
        let spans = [
            Span { from_ns: began_ns - 50 * MS, to_ns: began_ns + 80 * MS },
            Span { from_ns: ends_ns - 300 * MS, to_ns: ends_ns + 5000 * MS },
        ];
        let streams = vec![stream(1, 0, Some(1), 60, pps(RATE))];
        blacked_out(&datapath, [starts_ns, ends_ns], &spans, spec(7, 0, None, streams), |run, passed| {
            let outage = run.outage(&[StreamIndex(0)]).unwrap();
            let instants = &passed.instants[0];
            let after = instants.iter().find(|at| **at > began_ns).unwrap() - began_ns;
            let last = instants.last().unwrap() - began_ns;
            let truth = [(0, after), (last, PHASE_NS - GAP_NS)];
            let long: Vec<_> = outage.silence.spans.iter().filter(|span| span.len_ns() > LONG_NS).collect();
            let near = |reported: u64, truth: u64| reported.abs_diff(truth) <= GAP_NS;
            let agrees =
                |(span, truth): (&&Span, &(u64, u64))| near(span.from_ns, truth.0) && near(span.to_ns, truth.1);
            match long.len() == 2 && long.iter().zip(&truth).all(agrees) {
                true => Ok(()),
                false => Err(format!("{long:?}, and nothing passed in {truth:?}")),
            }
        })
    });
}

/// The scenario with its servers on another port, behind the path.
fn across(datapath: &Datapath, tag: u16, mut scenario: Scenario) -> RunSpec {
    scenario.templates[0].looped = false;
    scenario.templates[0].server.as_mut().unwrap().port = 1;
    let macs: Vec<_> = datapath.ports().iter().map(|port| port.mac).collect();
    let links = vec![PortLink { mac: macs[0], next_hop: macs[1] }, PortLink { mac: macs[1], next_hop: macs[0] }];
    let stateful = StatefulSpec { scenario: Arc::new(scenario), links, on_link: OnLink::default(), records: None };
    RunSpec { stateful: Some(stateful), ..spec(tag, 0, None, vec![]) }
}

#[test]
fn templates_report_every_black_out_of_the_path_and_no_other() {
    run_inside_by(REAL_TIME, "outage::inside_templates", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_templates() {
    second_pair();
    // With two workers, each has a part of the flows, and long gaps of its own. With TCP a connection starts at each instant of the schedule,
    // also while earlier ones wait for their retransmission timers.
    for (seed, workers, protocol) in
        [(4, 1, Protocol::Udp), (5, 1, Protocol::Tcp), (6, 2, Protocol::Udp), (7, 2, Protocol::Tcp)]
    {
        let datapath = two_ports(workers);
        undisturbed(|| {
            let spec = across(&datapath, seed as u16, over_v4(protocol, RATE));
            blacked_out_by_seed(&datapath, seed, spec, |run, passed, blackouts| {
                let sides = run.template_counters();
                for (side, outage) in sides.iter().zip(run.template_outages()) {
                    // Packets on their way out come to servers.
                    agree(&outage.unwrap(), passed, usize::from(side.client), blackouts)
                        .map_err(|wrong| format!("{protocol:?} on {workers} workers: {wrong}"))?;
                }
                Ok(())
            })
        });
    }
}

#[test]
fn what_stands_or_is_received_by_another_worker_has_no_outage() {
    run_inside_by(REAL_TIME, "outage::inside_paused_streams", "1500");
}

#[test]
#[ignore = "needs root, chrt(1) and the namespace of the test above, which starts it by `chrt --rr 1`"]
fn inside_paused_streams() {
    let datapath = open(&[("a", PortDevice::Loopback), ("b", PortDevice::Loopback)], 2, PollMode::Adaptive);
    undisturbed(|| {
        // Each comes back on the port that sends it: one worker reads it, the other keeps the first one's sequence.
        let streams = vec![stream(1, 0, Some(1), 60, pps(1000)), stream(2, 1, Some(1), 60, pps(1000))];
        let run = start(&datapath, spec(9, 50 * MS, Some(700 * MS), streams));
        thread::sleep(Duration::from_millis(200));
        run.pause(0).unwrap();
        thread::sleep(Duration::from_millis(300));
        run.resume(0).unwrap();
        thread::sleep(Duration::from_millis(50));
        run.update(&[StreamIndex(0)], Change::Paused(true), 0).unwrap();
        thread::sleep(Duration::from_millis(200));
        run.update(&[StreamIndex(0)], Change::Paused(false), 0).unwrap();
        wait_for(&run, RunState::Complete, 5);
        let outages = [0, 1].map(|stream| run.outage(&[StreamIndex(stream)]).unwrap());
        run.remove();
        for outage in &outages {
            let longest = outage.silence.longest().unwrap();
            if longest.len_ns() > 5 * MS || longest.len_ns() < MS / 2 {
                return Err(format!("{longest:?} with a packet each millisecond"));
            }
        }
        Ok(())
    });
}

#[test]
fn templates_that_stand_have_no_outage() {
    run_inside_by(REAL_TIME, "outage::inside_paused_templates", "1500");
}

#[test]
#[ignore = "needs root, chrt(1) and the namespace of the test above, which starts it by `chrt --rr 1`"]
fn inside_paused_templates() {
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Adaptive);
    undisturbed(|| {
        let run =
            start(&datapath, crate::stateful::emulated(&datapath, 10, Some(600 * MS), over_v4(Protocol::Udp, 1000)));
        thread::sleep(Duration::from_millis(150));
        run.update_templates(&[TemplateIndex(0)], FlowChange::Paused(true), 0).unwrap();
        thread::sleep(Duration::from_millis(250));
        run.update_templates(&[TemplateIndex(0)], FlowChange::Paused(false), 0).unwrap();
        wait_for(&run, RunState::Complete, 5);
        let longest: Vec<_> =
            run.template_outages().into_iter().map(|side| side.unwrap().silence.longest().unwrap()).collect();
        run.remove();
        match longest.iter().find(|span| span.len_ns() > 5 * MS) {
            Some(span) => Err(format!("{span:?} with a flow each millisecond")),
            None => Ok(()),
        }
    });
}
