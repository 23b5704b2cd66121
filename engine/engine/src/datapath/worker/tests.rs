// SPDX-License-Identifier: Apache-2.0
//! The workers' loop in virtual time, without DPDK: when packets leave, and what is counted of them.
mod chains;
mod flows;
mod next_hops;

use std::sync::Arc;

use spate_net::{
    FCS_LEN, Mark,
    reflect::{Allowed, Rules, Swap},
};
use spate_stateless::{Blueprint, FieldProgram, Frames as _, Rate, StreamTiming, Template, WorkerShare};
use spate_stats::{
    Arrivals, Delays, Histogram, PhaseCounters, Queue, StreamCounters, Tracker, Transit, WIDE_WINDOW, WINDOW,
};

use super::{
    DelayIndex, Marks, Owner, PortRun, Replay, RunForeign, RunReceive, RunReceiver, SendStream, StreamReceive,
    WorkerRun,
    simulated::{Packet, Simulated, Speed, World},
};
use crate::datapath::{
    clock::Timescale,
    device_clock::{DeviceClock, tests::known},
    run::clock::{ClockChange, RunClock},
    shared::RunShare,
    worker::{Command, RateChange},
};
use crate::index::{PortIndex, PortStreamIndex, RunSlot, StreamIndex, TrackerIndex, WorkerIndex};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// How long a pass takes of a worker that polls.
const POLL_NS: u64 = 1000;
/// The slot of the run, and its port.
const SLOT: RunSlot = RunSlot(0);
const PORT: PortIndex = PortIndex(0);

/// A run of one stream that workers share, on a port that is the same for all.
struct Run {
    world: World,
    workers: usize,
    shares: Vec<Arc<RunShare>>,
    /// What left: when, and by which worker.
    left: Vec<(u64, usize, Packet)>,
}

/// What a worker does for a run.
struct Part {
    port: PortRun<Simulated>,
    share: RunShare,
    replays: Vec<Replay<Simulated>>,
    receive: RunReceive,
    warmup_ns: u64,
    end_ns: u64,
}

/// What differs between runs.
#[derive(Clone, Copy)]
struct RunOptions {
    workers: usize,
    /// Packets in this number of nanoseconds.
    rate: (u64, u64),
    warmup_ns: u64,
    end_ns: u64,
    late_after_ns: u64,
    /// Delays are measured.
    delays: bool,
}

const USUAL: RunOptions =
    RunOptions { workers: 1, rate: (1000, SECOND), warmup_ns: 0, end_ns: u64::MAX, late_after_ns: 0, delays: false };

fn rate((packets, ns): (u64, u64)) -> Rate {
    assert_eq!(ns, SECOND);
    Rate::packets_per_second(packets, 1).unwrap()
}

fn template() -> Template {
    let (checksums, lengths, program) = (Vec::new(), Vec::new(), FieldProgram::default());
    let blueprint = Blueprint { frame: vec![0; 64], checksums, lengths, program, size: None, flow: true };
    Template::new(&blueprint).unwrap()
}

impl Run {
    /// Installed and started.
    fn new(asked: RunOptions) -> Self {
        Self::with_foreign(asked, foreign)
    }

    /// The same, of which each worker does something with packets that carry no trailer.
    fn with_foreign(asked: RunOptions, foreign: impl Fn() -> RunForeign) -> Self {
        Self::stamped(asked, None, foreign)
    }

    /// The same, on a port whose device stamps packets if it has a clock.
    fn stamped(asked: RunOptions, clock: Option<DeviceClock>, foreign: impl Fn() -> RunForeign) -> Self {
        let workers = asked.workers;
        let world = World::with_clocks(workers, &[clock.map(Arc::new)], 64, POLL_NS);
        let mut this = Self { world, workers, shares: Vec::new(), left: Vec::new() };
        let send: Arc<[SendStream]> = [SendStream { template: template(), id: 7, index: StreamIndex(0) }].into();
        let timescale = Arc::new(Timescale::new(0));
        for worker in 0..workers {
            let share = WorkerShare { first: worker as u64, stride: workers as u64 };
            let timing = [StreamTiming::continuous(Some(rate(asked.rate)))].into_iter();
            let none = |_: &_| Ok::<_, ()>(Box::default());
            let port = PortRun::new(PORT, &send, share, timing, asked.late_after_ns, None, none).unwrap();
            let foreign = foreign();
            let measured = usize::from(asked.delays);
            let mut share = RunShare::new(1, measured, measured, foreign.receivers.len());
            share.histograms.iter_mut().for_each(|histogram| *histogram = Some(Histogram::new()));
            let receive = receive(&asked, worker, &timescale, foreign);
            let RunOptions { warmup_ns, end_ns, .. } = asked;
            let part = Part { port, share, replays: Vec::new(), receive, warmup_ns, end_ns };
            this.start(worker, &timescale, part);
        }
        this
    }

    /// Installs a worker's part, and starts it.
    fn start(&mut self, worker: usize, timescale: &Arc<Timescale>, part: Part) {
        let Part { port, share, replays, receive, warmup_ns, end_ns } = part;
        let share = Arc::new(share);
        self.shares.push(Arc::clone(&share));
        let run = WorkerRun {
            tag: 9,
            clock: RunClock::new(),
            warmup_ns,
            end_ns,
            stopped: false,
            timescale: Arc::clone(timescale),
            sender: worker as u8,
            ports: vec![port],
            replays,
            emulated: None,
            receive,
            share,
            emptying: false,
        };
        self.world.send(worker, Command::Install(SLOT, Box::new(run)));
        self.world.send(worker, Command::Start(SLOT, 0));
    }

    fn send_all(&mut self, command: impl Fn() -> Command<Simulated>) {
        (0..self.workers).for_each(|worker| self.world.send(worker, command()));
    }

    /// Time goes on to an instant, which is not reached.
    fn until(&mut self, end_ns: u64) {
        while let Some(now) = self.world.next_ns().filter(|now| *now < end_ns) {
            let left = &mut self.left;
            self.world.go_to(now, true, |_, worker, sent| {
                left.extend(sent.into_iter().map(|sent| (sent.at_ns, worker, sent.packet)));
            });
        }
    }

    /// Goes on to an instant, and has reached it.
    fn to(&mut self, now_ns: u64) {
        self.until(now_ns);
        let left = &mut self.left;
        self.world.go_to(now_ns, true, |_, worker, sent| {
            left.extend(sent.into_iter().map(|sent| (sent.at_ns, worker, sent.packet)));
        });
    }

    fn times(&self) -> Vec<u64> {
        self.left.iter().map(|(at, ..)| *at).collect()
    }

    /// What all workers counted.
    fn counters(&self) -> StreamCounters {
        let (tx, rx) = (self.shares.iter().map(|share| &share.tx[0]), self.shares.iter().map(|share| &share.rx[0]));
        StreamCounters::merge(tx, rx)
    }

    fn is_sent(&self) -> bool {
        self.shares.iter().all(|share| share.sent.is_up())
    }
}

/// The first worker keeps all sequences of the stream.
fn receive(asked: &RunOptions, worker: usize, timescale: &Arc<Timescale>, foreign: RunForeign) -> RunReceive {
    let workers = asked.workers;
    let owned = if worker == 0 { workers } else { 0 };
    let delay = asked.delays.then_some(DelayIndex { slot: 0, histogram: 0 });
    let wide = workers > 1;
    let window = if wide { WIDE_WINDOW } else { WINDOW };
    RunReceive {
        by_id: RunReceive::index_by_id([Some(7)].into_iter()),
        streams: [StreamReceive { port: Some(0), wide, delay }].into(),
        owners: (0..workers).map(|sender| Owner::new(WorkerIndex(0), TrackerIndex(sender), false)).collect(),
        senders: workers,
        here: 0..workers,
        timescale: Arc::clone(timescale),
        clocks_agree: false,
        trackers: (0..owned).map(|_| Tracker::new(window)).collect(),
        queues: vec![Queue::default(); if wide { owned * workers } else { 0 }].into(),
        transits: vec![Transit::default(); if asked.delays { owned } else { 0 }].into(),
        foreign,
        by_tag: None,
    }
}

/// Nothing is done with packets that carry no trailer.
fn foreign() -> RunForeign {
    RunForeign { marks: None, reflectors: Arc::default(), receivers: Box::default(), clocks_agree: false }
}

/// A packet of no stream, with this EtherType and IPv4 identification, from station 1 to station 2.
fn packet(ether_type: [u8; 2], identification: u8) -> Packet {
    let mut packet = Packet::default();
    for frame in packet.frames(0, &[60]) {
        (frame[5], frame[11]) = (2, 1);
        frame[12..14].copy_from_slice(&ether_type);
        (frame[14], frame[17], frame[19], frame[22], frame[23]) = (0x45, 46, identification, 64, 17);
    }
    packet
}

const IPV4: [u8; 2] = [0x08, 0x00];
/// For experiments (IEEE 802).
const LOCAL: [u8; 2] = [0x88, 0xb5];

#[test]
fn each_packet_leaves_at_the_instant_at_which_it_is_due() {
    for workers in [1, 2, 3] {
        // 3333 1/3 ns apart.
        let mut run = Run::new(RunOptions { workers, rate: (300_000, SECOND), ..USUAL });
        run.until(10 * MS);
        let due: Vec<_> = (0..3000).map(|n| n * 10_000 / 3).collect();
        assert_eq!(run.times(), due, "{workers} workers");
        assert!(run.left.iter().enumerate().all(|(n, (_, worker, _))| n % workers == *worker));
        let PhaseCounters { tx_packets, late, max_departure_delay_ns, .. } = run.counters().measured;
        assert_eq!((tx_packets, late, max_departure_delay_ns), (3000, 0, 0));
    }
}

#[test]
fn more_than_a_burst_that_is_due_at_once_leaves_at_once() {
    // 100 packets each nanosecond are more than a burst.
    let mut run = Run::new(RunOptions { rate: (100_000_000_000, SECOND), ..USUAL });
    run.until(4);
    assert_eq!(run.left.len(), 400);
    assert_eq!(run.times().iter().filter(|at| **at == 2).count(), 100);
    assert_eq!(run.counters().measured.max_departure_delay_ns, 0);
}

#[test]
fn another_rate_takes_effect_at_its_instant_although_the_worker_rests_until_later() {
    let mut run = Run::new(RunOptions { rate: (1, SECOND), ..USUAL });
    let rates = |packets| -> Arc<[_]> { [(PortStreamIndex(0), Some(rate((packets, SECOND))))].into() };
    run.send_all(|| Command::Change(SLOT, RateChange { at_ns: 200 * MS, port: PORT, rates: rates(10) }));
    run.until(SECOND);
    // A fifth of a packet's distance has passed at the old rate: four fifths of the new one are left.
    assert_eq!(run.times(), [0, 280, 380, 480, 580, 680, 780, 880, 980].map(|ms| ms * MS));
    assert_eq!(run.counters().measured.late, 0);
}

#[test]
fn packets_that_are_due_before_the_warm_up_ends_are_of_the_warm_up() {
    let mut run = Run::new(RunOptions { warmup_ns: 5 * MS, end_ns: 20 * MS, ..USUAL });
    run.until(SECOND);
    let counters = run.counters();
    assert_eq!((counters.warmup.tx_packets, counters.measured.tx_packets), (5, 15));
    // The bit in the packet says the same.
    let measured = |packet: &Packet| spate_net::Trailer::decode(packet.bytes()).unwrap().measured;
    assert!(run.left.iter().all(|(at, _, packet)| measured(packet) == (*at >= 5 * MS)));
}

#[test]
fn nothing_leaves_from_the_end_on_and_the_worker_says_that_all_is_sent() {
    let mut run = Run::new(RunOptions { workers: 2, end_ns: 20 * MS, ..USUAL });
    run.to(20 * MS - 1);
    assert!(!run.is_sent());
    run.to(20 * MS);
    assert!(run.is_sent());
    run.until(SECOND);
    assert_eq!(run.times(), (0..20).map(|n| n * MS).collect::<Vec<_>>());
    assert_eq!(run.counters().measured.tx_dropped, 0);
}

#[test]
fn a_run_that_is_stopped_gives_up_what_is_not_sent() {
    let mut run = Run::new(USUAL);
    run.to(4 * MS);
    run.world.set_speed(0, PORT, Some(Speed { packet_ns: SECOND, ring: 0 }));
    run.to(9 * MS);
    run.send_all(|| Command::Stop(SLOT, 9 * MS));
    run.to(9 * MS);
    assert!(run.is_sent());
    let counters = run.counters().measured;
    // The stop is at 9 ms: the packet of that instant is not due.
    assert_eq!((counters.tx_packets, counters.tx_dropped), (5, 4));
}

#[test]
fn nothing_leaves_while_the_run_is_paused_and_all_comes_later_by_as_much() {
    let mut run = Run::new(RunOptions { end_ns: 10 * MS, ..USUAL });
    run.to(2 * MS);
    run.send_all(|| Command::Clock(SLOT, 3 * MS + 1, ClockChange::Stop));
    run.send_all(|| Command::Clock(SLOT, 50 * MS + 1, ClockChange::Resume));
    run.until(SECOND);
    assert_eq!(run.times(), [0, 1, 2, 3, 51, 52, 53, 54, 55, 56].map(|ms| ms * MS));
    let counters = run.counters().measured;
    assert_eq!((counters.tx_packets, counters.late, counters.max_departure_delay_ns), (10, 0, 0));
    assert!(run.is_sent());
}

#[test]
fn a_device_that_is_too_slow_makes_packets_late_and_what_is_left_at_the_end_counts_as_dropped() {
    let asked = RunOptions { rate: (100_000, SECOND), end_ns: 100 * MS, late_after_ns: MS, ..USUAL };
    let mut run = Run::new(asked);
    // Half as fast as the stream.
    run.world.set_speed(0, PORT, Some(Speed { packet_ns: 20_000, ring: 1 }));
    run.until(SECOND);
    assert!(run.is_sent());
    let PhaseCounters { tx_packets, tx_dropped, late, max_departure_delay_ns, .. } = run.counters().measured;
    // In 100 ms, and in the 100 ms of grace after them, all but for a few leave.
    assert_eq!(tx_packets + tx_dropped, 10_000);
    assert_eq!(tx_packets as usize, run.left.len());
    assert!((9_990..=10_000).contains(&tx_packets), "{tx_packets}");
    // The n-th leaves at 20 us n and is due at 10 us n: by more than 1 ms from the 100th on.
    assert!(late.abs_diff(tx_packets - 101) <= 1, "{late}");
    let last = (tx_packets - 1) * 10_000;
    assert!(max_departure_delay_ns.abs_diff(last) <= 2 * POLL_NS + 20_000, "{max_departure_delay_ns}");
    // In order, none twice.
    let numbers: Vec<_> = run.left.iter().map(|(_, _, packet)| packet.origin().unwrap().number).collect();
    assert_eq!(numbers, (0..tx_packets).collect::<Vec<_>>());
}

/// The device takes nothing from 2 ms to 8.5 ms.
fn held_up(mut run: Run) -> Run {
    run.to(2 * MS);
    run.world.set_speed(0, PORT, Some(Speed { packet_ns: SECOND, ring: 0 }));
    run.to(8 * MS + MS / 2);
    run.world.set_speed(0, PORT, None);
    run
}

#[test]
fn packets_that_leave_late_are_of_the_phase_in_which_they_were_due() {
    let mut run = held_up(Run::new(RunOptions { warmup_ns: 5 * MS, ..USUAL }));
    run.until(20 * MS);
    let counters = run.counters();
    assert_eq!((counters.warmup.tx_packets, counters.measured.tx_packets), (5, 15));
    let measured: Vec<_> =
        run.left.iter().map(|(.., packet)| spate_net::Trailer::decode(packet.bytes()).unwrap().measured).collect();
    assert_eq!(measured, (0..20).map(|n| n >= 5).collect::<Vec<_>>());
}

#[test]
fn another_rate_takes_effect_at_its_instant_although_packets_leave_late() {
    let mut run = Run::new(USUAL);
    run.send_all(|| {
        let rates = [(PortStreamIndex(0), Some(rate((100, SECOND))))].into();
        Command::Change(SLOT, RateChange { at_ns: 6 * MS + MS / 2, port: PORT, rates })
    });
    let mut run = held_up(run);
    run.until(30 * MS);
    // Those of 3 to 6 ms leave together; half a distance has passed at the old rate: half of the new one is left.
    let times = run.times();
    assert_eq!((times.len(), &times[7..]), (9, &[11 * MS + MS / 2, 21 * MS + MS / 2][..]));
}

#[test]
fn a_device_that_stands_still_costs_every_packet_after_the_grace() {
    let mut run = Run::new(RunOptions { end_ns: 10 * MS, ..USUAL });
    run.world.set_speed(0, PORT, Some(Speed { packet_ns: 1, ring: 0 }));
    run.until(100 * MS);
    assert!(!run.is_sent());
    run.until(SECOND);
    assert!(run.is_sent() && run.left.is_empty());
    let counters = run.counters().measured;
    assert_eq!((counters.tx_packets, counters.tx_dropped), (0, 10));
}

/// What a run sent, for another to receive.
fn sent(workers: usize, end_ns: u64) -> Vec<(u64, usize, Packet)> {
    let mut run = Run::new(RunOptions { workers, end_ns, ..USUAL });
    run.until(SECOND);
    run.left
}

#[test]
fn a_run_is_drained_when_all_that_had_arrived_is_counted() {
    let packets = sent(1, 200 * MS);
    let mut run = Run::new(RunOptions { end_ns: 1, ..USUAL });
    run.to(5 * MS);
    run.left.clear();
    for (_, _, packet) in packets {
        run.world.arrive(0, PORT, 6 * MS, packet);
    }
    // Three bursts and a part of one lie in the queue when the worker gets the command to empty it.
    run.to(6 * MS - 1);
    run.send_all(|| Command::Empty(SLOT));
    assert!(!run.shares[0].emptied.is_up());
    run.to(6 * MS);
    assert_eq!(run.counters().measured.rx_packets, 200);
    run.send_all(|| Command::Close(SLOT));
    run.to(6 * MS);
    assert!(run.shares[0].emptied.is_up() && run.shares[0].closed.is_up());
    assert_eq!(run.world.port(0, PORT).received.foreign.get(), 0);
    // What comes later belongs to no run.
    let late = sent(1, MS).remove(0).2;
    run.world.arrive(0, PORT, 7 * MS, late);
    run.to(8 * MS);
    assert_eq!(run.counters().measured.rx_packets, 200);
    assert_eq!(run.world.port(0, PORT).received.foreign.get(), 1);
}

#[test]
fn packets_that_another_worker_receives_are_handed_to_the_one_that_keeps_their_sequence() {
    let packets = sent(2, 50 * MS);
    let mut run = Run::new(RunOptions { workers: 2, end_ns: 1, ..USUAL });
    run.to(5 * MS);
    let duplicate = packets[0].2.clone();
    // Each worker receives what the other sent; two packets of one sender come the wrong way round.
    for (at, sender, packet) in packets {
        let at = if [46 * MS, 48 * MS].contains(&at) { 94 * MS - at } else { at };
        run.world.arrive(1 - sender, PORT, 5 * MS + at, packet);
    }
    run.world.arrive(1, PORT, 90 * MS, duplicate);
    run.to(99 * MS);
    let of =
        |worker: usize| StreamCounters::merge(std::iter::empty(), std::iter::once(&run.shares[worker].rx[0])).measured;
    assert_eq!((of(0).rx_packets, of(1).rx_packets), (51, 0));
    assert_eq!((of(0).duplicates, of(0).out_of_order, of(0).missing, of(0).misdirected), (1, 1, 0, 0));
    let read = |worker| run.world.port(worker, PORT).received.rx_packets.get();
    assert_eq!((read(0), read(1)), (25, 26));
}

#[test]
fn a_port_accounts_once_what_leaves_on_it_whether_its_device_takes_it_at_once_or_not() {
    for speed in [None, Some(Speed { packet_ns: 20_000, ring: 1 })] {
        let asked = RunOptions { workers: 2, rate: (100_000, SECOND), end_ns: 10 * MS, ..USUAL };
        let mut run = Run::new(asked);
        (0..2).for_each(|worker| run.world.set_speed(worker, PORT, speed));
        run.until(SECOND);
        for worker in 0..2 {
            let left = run.left.iter().filter(|(_, by, _)| *by == worker).map(|(.., packet)| packet);
            let bytes = left.map(|packet| packet.bytes().len() as u64 + FCS_LEN);
            let port = run.world.port(worker, PORT);
            let counted = (port.tx.tx_packets.get(), port.tx.tx_bytes.get());
            assert_eq!(counted, (bytes.clone().count() as u64, bytes.sum()), "{speed:?}");
        }
        assert_eq!(run.counters().measured.tx_packets as usize, run.left.len());
    }
}

#[test]
fn a_reflector_sends_back_what_it_may_and_the_port_accounts_it() {
    let rules = Rules { swap: Swap::Mac, own: None, allowed: Allowed::default() };
    let mut run = Run::with_foreign(USUAL, || RunForeign {
        marks: Marks::new([(StreamIndex(0), Mark::Ipv4Identification(9))].into_iter()).map(Arc::new),
        reflectors: [(PORT, rules.clone())].into(),
        ..foreign()
    });
    run.to(5 * MS);
    run.left.clear();
    let before = run.world.port(0, PORT).tx.tx_bytes.get();
    run.world.arrive(0, PORT, 5 * MS + 1, packet(IPV4, 7));
    run.world.arrive(0, PORT, 5 * MS + 1, packet(LOCAL, 7));
    run.to(5 * MS + 2);
    let [(_, _, back)] = run.left.as_slice() else { panic!("{:?}", run.left) };
    assert_eq!((back.bytes()[5], back.bytes()[11], back.bytes()[22]), (1, 2, 63));
    let port = run.world.port(0, PORT);
    assert_eq!((port.tx.reflected.get(), port.tx.tx_bytes.get() - before), (1, 64));
    assert_eq!((port.received.not_reflected.get(), port.received.rx_packets.get()), (1, 2));
    // Its own, which are under way when it is stopped, are sent back; those of others are not.
    run.send_all(|| Command::Stop(SLOT, 5 * MS + 2));
    run.world.arrive(0, PORT, 6 * MS, packet(IPV4, 8));
    run.world.arrive(0, PORT, 6 * MS, packet(IPV4, 9));
    run.to(7 * MS);
    let port = run.world.port(0, PORT);
    assert_eq!((port.tx.reflected.get(), port.received.not_reflected.get()), (2, 2));
    assert_eq!(run.left.last().unwrap().2.bytes()[19], 9);
}

#[test]
fn packets_without_a_trailer_count_where_their_mark_is_known_and_else_for_the_receiver_of_their_port() {
    let mut run = Run::with_foreign(RunOptions { end_ns: 1, ..USUAL }, || RunForeign {
        marks: Marks::new([(StreamIndex(0), Mark::Ipv4Identification(7))].into_iter()).map(Arc::new),
        receivers: [RunReceiver { port: PORT, arrivals: Arrivals::default() }].into(),
        ..foreign()
    });
    run.to(5 * MS);
    for packet in [packet(IPV4, 7), packet(IPV4, 8), packet(LOCAL, 7), packet(IPV4, 7)] {
        run.world.arrive(0, PORT, 6 * MS, packet);
    }
    // A stream's own packet is neither.
    run.world.arrive(0, PORT, 7 * MS, sent(1, MS).remove(0).2);
    run.to(8 * MS);
    let PhaseCounters { rx_packets, rx_bytes, .. } = run.counters().measured;
    assert_eq!((rx_packets, rx_bytes), (3, 2 * 64 + 68));
    let Arrivals { packets, bytes, .. } = run.shares[0].receivers[0].read();
    assert_eq!((packets, bytes), (2, 128));
    // No sink before the station took them.
    let port = run.world.port(0, PORT);
    assert_eq!((port.received.rx_packets.get(), port.received.foreign.get()), (5, 2));
}

/// Packets of one burst of a stream, all with one time stamp of their sender, 0.
fn burst(packets: usize) -> Vec<Packet> {
    // 100 each nanosecond.
    let mut run = Run::new(RunOptions { rate: (100_000_000_000, SECOND), ..USUAL });
    run.until(1);
    run.left.into_iter().map(|(.., packet)| packet).take(packets).collect()
}

/// A receiver of its port.
fn receiving() -> RunForeign {
    RunForeign { receivers: [RunReceiver { port: PORT, arrivals: Arrivals::default() }].into(), ..foreign() }
}

fn delays(run: &Run) -> Delays {
    Delays::merge(run.shares.iter().flat_map(|share| &share.delays))
}

/// A device's counter of 1 GHz, which begins again at 0 at 5.0005 ms.
const COUNTER: u64 = 0u64.wrapping_sub(5_000_500);

/// Its value at an instant.
fn counted(at_ns: u64) -> u64 {
    COUNTER.wrapping_add(at_ns)
}

#[test]
fn packets_that_the_device_stamps_arrived_when_it_says_and_others_when_they_were_read() {
    let receive = |clock: Option<DeviceClock>| {
        let mut run = Run::stamped(RunOptions { end_ns: 1, delays: true, ..USUAL }, clock, receiving);
        run.to(MS);
        // Read 1 ms after they arrived, the packets of no stream behind them.
        for (n, packet) in (0..).zip(burst(5)) {
            run.world.arrive(0, PORT, 6 * MS, packet.stamped(counted(5 * MS + 300 * n)));
        }
        for n in 0..3 {
            run.world.arrive(0, PORT, 6 * MS, packet(IPV4, 7).stamped(counted(5 * MS + 2000 + 100 * n * n)));
        }
        run.to(7 * MS);
        let Delays { count, sum_ns, min_ns, max_ns, difference_sum_ns, .. } = delays(&run);
        let gaps = run.shares[0].receivers[0].read().inter_arrival;
        let unstamped = run.world.port(0, PORT).received.unstamped.get();
        ((count, sum_ns, min_ns, max_ns, difference_sum_ns), (gaps.count, gaps.min_ns, gaps.max_ns), unstamped)
    };
    let by_device = ((5, 25 * MS + 3000, 5 * MS, 5 * MS + 1200, 1200), (2, 100, 300), 0);
    assert_eq!(receive(Some(known(COUNTER, 1e9))), by_device);
    // Of a port whose packets the CPU stamps no time stamp is looked at.
    assert_eq!(receive(None), ((5, 30 * MS, 6 * MS, 6 * MS, 0), (2, 0, 0), 0));
}

#[test]
fn packets_without_a_time_stamp_of_the_devices_clock_are_counted() {
    let mut run = Run::stamped(RunOptions { end_ns: 1, delays: true, ..USUAL }, Some(known(COUNTER, 1e9)), foreign);
    run.to(MS);
    let others = [1_764_300_000 * SECOND, counted(7 * MS)];
    let [stamped, plain, of_the_day, in_the_future] = burst(4).try_into().unwrap();
    let [day, future] = [(of_the_day, others[0]), (in_the_future, others[1])].map(|(packet, at)| packet.stamped(at));
    for packet in [stamped.stamped(counted(5 * MS)), plain, day, future] {
        run.world.arrive(0, PORT, 6 * MS, packet);
    }
    run.to(6 * MS);
    let Delays { count, min_ns, max_ns, sum_ns, .. } = delays(&run);
    assert_eq!((count, min_ns, max_ns, sum_ns), (4, 5 * MS, 6 * MS, 23 * MS));
    let port = &run.world.port(0, PORT).received;
    assert_eq!((port.unstamped.get(), port.rx_packets.get()), (3, 4));
    assert_eq!(run.counters().measured.rx_packets, 4);
}

#[test]
fn packets_of_a_queue_arrive_in_its_order_whatever_their_time_stamps_say() {
    let mut run = Run::stamped(RunOptions { end_ns: 1, delays: true, ..USUAL }, Some(known(COUNTER, 1e9)), foreign);
    run.to(MS);
    for (packet, at_ns) in burst(3).into_iter().zip([5 * MS + 40, 5 * MS, 5 * MS + 70]) {
        run.world.arrive(0, PORT, 6 * MS, packet.stamped(counted(at_ns)));
    }
    run.to(6 * MS);
    let Delays { min_ns, max_ns, difference_sum_ns, .. } = delays(&run);
    assert_eq!((min_ns, max_ns, difference_sum_ns), (5 * MS + 40, 5 * MS + 70, 30));
}
