// SPDX-License-Identifier: Apache-2.0
//! Chains into and out of replays: each starts at the instant of the last packet before it, however late the worker is.
use spate_replay::{Changes, Gap, Held, HeldTape, Pacer, Rewrite};
use spate_stateless::{Next, Successor, Transmit};

use super::*;
use crate::datapath::worker::{ReplayParts, ReplayTape, SpeedChange, speed_of};

const US: u64 = 1000;

/// A stream of the chain, pinned.
#[derive(Clone)]
struct Link {
    timing: StreamTiming,
    /// Instants of the capture that it replays, and how often.
    capture: Option<(Vec<u64>, u64)>,
}

/// Packets a millisecond apart, which nothing comes after.
fn burst(packets: u64, start_delay_ns: u64) -> Link {
    let timing = StreamTiming {
        transmit: Transmit::Bursts { packets, count: Some(1), gap_ns: 0 },
        start_delay_ns,
        waits: true,
        pinned: true,
        ..StreamTiming::continuous(Some(rate((1000, SECOND))))
    };
    Link { timing, capture: None }
}

/// The same without an end.
fn endless() -> Link {
    let one = burst(1, 0);
    Link { timing: StreamTiming { transmit: Transmit::Continuous, ..one.timing }, ..one }
}

/// A capture with packets at these instants.
fn replay(instants: &[u64], loops: u64, start_delay_ns: u64) -> Link {
    let one = burst(1, start_delay_ns);
    let timing = StreamTiming { rate: Some(Rate::new(1, 1).unwrap()), transmit: Transmit::Continuous, ..one.timing };
    Link { timing, capture: Some((instants.to_vec(), loops)) }
}

/// Links of which the first starts by itself, and each the one after it. Those that send on a schedule come before replays.
fn chain(links: &[Link], order: &[usize]) -> Vec<Link> {
    let mut links = links.to_vec();
    links[order[0]].timing.waits = false;
    for pair in order.windows(2) {
        let to = if links[pair[1]].capture.is_some() { Next::Elsewhere(pair[1]) } else { Next::Scheduled(pair[1]) };
        links[pair[0]].timing.next = Some(Successor { next: to, times: None });
    }
    links
}

fn pcap(instants: &[u64]) -> Vec<u8> {
    let mut file: Vec<u32> = vec![0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 65_535, 1];
    for at in instants {
        file.extend([(at / SECOND) as u32, (at % SECOND) as u32, 60, 60]);
        // The EtherType is one for experiments.
        file.extend((0..15).map(|word| if word == 3 { 0xb588 } else { 0 }));
    }
    file.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn replaying(index: usize, link: &Link, late_after_ns: u64) -> Option<Replay<Simulated>> {
    let (instants, loops) = link.capture.as_ref()?;
    let rewrite = Rewrite::new(&Changes { flow: true, ..Changes::default() }).unwrap();
    let (held, _) = Held::read(&pcap(instants), Gap::Captured, None, &rewrite, |_| Ok(())).unwrap();
    let tape = ReplayTape::Held(Box::new(HeldTape::new(Arc::new(held), &rewrite, Some(*loops))));
    let timing = link.timing;
    let parts = ReplayParts {
        port: PORT,
        index: StreamIndex(index),
        id: index as u16,
        flow: true,
        late_after_ns,
        long_packets: None,
        start_delay_ns: timing.start_delay_ns,
        waits: timing.waits,
        next: timing.next,
    };
    Some(Replay::new(parts, tape, Pacer::new(timing.start_delay_ns, speed_of(timing.rate?), 0)))
}

/// A run of a chain, of which the first worker sends everything.
fn chained(asked: RunOptions, links: &[Link]) -> Run {
    let workers = asked.workers;
    let mut this = Run { world: World::new(workers, 1, 64, POLL_NS), workers, shares: Vec::new(), left: Vec::new() };
    let scheduled = links.iter().take_while(|link| link.capture.is_none());
    let timings: Vec<_> = scheduled.map(|link| link.timing).collect();
    let send: Arc<[SendStream]> = (0..timings.len())
        .map(|index| SendStream { template: template(), id: index as u16, index: StreamIndex(index) })
        .collect();
    let timescale = Arc::new(Timescale::new(0));
    for worker in 0..workers {
        let share = WorkerShare { first: worker as u64, stride: workers as u64 };
        let none = |_: &_| Ok::<_, ()>(Box::default());
        let port = PortRun::new(PORT, &send, share, timings.iter().copied(), asked.late_after_ns, None, none).unwrap();
        let replays = links.iter().enumerate().filter(|_| worker == 0);
        let part = Part {
            port,
            share: RunShare::new(links.len(), 0, 0, 0),
            replays: replays.filter_map(|(index, link)| replaying(index, link, asked.late_after_ns)).collect(),
            receive: receive(&asked, worker, &timescale, foreign()),
            warmup_ns: asked.warmup_ns,
            end_ns: asked.end_ns,
        };
        this.start(worker, &timescale, part);
    }
    this
}

impl Run {
    /// What left: when, of which link, and its number there.
    fn departures(&self) -> Vec<(u64, usize, u64)> {
        let departure = |(at, worker, packet): &(u64, usize, Packet)| {
            assert_eq!(*worker, 0);
            let origin = packet.origin().unwrap();
            (*at, origin.stream.0, origin.number)
        };
        self.left.iter().map(departure).collect()
    }

    fn counters_of(&self, link: usize) -> StreamCounters {
        StreamCounters::merge(self.shares.iter().map(|share| &share.tx[link]), std::iter::empty())
    }

    /// Goes to an instant in one leap: the worker does nothing in between.
    fn leap(&mut self, now_ns: u64) {
        let left = &mut self.left;
        self.world.go_to(now_ns, true, |_, worker, sent| {
            left.extend(sent.into_iter().map(|sent| (sent.at_ns, worker, sent.packet)));
        });
    }

    fn change_rate(&mut self, at_ns: u64, link: usize, rate: Option<Rate>) {
        self.send_all(|| {
            Command::Change(SLOT, RateChange { at_ns, port: PORT, rates: [(PortStreamIndex(link), rate)].into() })
        });
    }

    fn change_speed(&mut self, at_ns: u64, link: usize, speed: Option<Rate>) {
        self.send_all(|| Command::Speed(SLOT, SpeedChange { at_ns, stream: StreamIndex(link), speed }));
    }
}

#[test]
fn a_replay_starts_at_the_last_packet_before_it_and_what_follows_at_its_last() {
    let links = [burst(3, 0), burst(2, 300 * US), replay(&[0, 100 * US, 250 * US], 2, 500 * US)];
    let mut links = chain(&links, &[0, 2, 1]);
    links[1].timing.next = Some(Successor { next: Next::Scheduled(0), times: Some(1) });
    // From the start of a round: three packets, two passes at the capture's mean gap of 125 us, two packets.
    let round = |at: u64, n: u64| {
        let burst = |link, at: u64, count: u64| (0..count).map(move |i| (at + i * MS, link, n * count + i));
        let passes = [500, 600, 750, 875, 975, 1125].into_iter().enumerate();
        let replayed = passes.map(move |(i, us)| (at + 2 * MS + us * US, 2, n * 6 + i as u64));
        burst(0, at, 3).chain(replayed).chain(burst(1, at + 2 * MS + 1425 * US, 2)).collect::<Vec<_>>()
    };
    let expected = [round(0, 0), round(4425 * US, 1)].concat();
    for workers in [1, 2, 3] {
        let mut run = chained(RunOptions { workers, end_ns: 20 * MS, ..USUAL }, &links);
        run.until(SECOND);
        assert_eq!(run.departures(), expected, "{workers} workers");
        assert!(run.is_sent());
        for (link, packets) in [6, 4, 12].into_iter().enumerate() {
            let PhaseCounters { tx_packets, tx_dropped, late, max_departure_delay_ns, .. } =
                run.counters_of(link).measured;
            assert_eq!((tx_packets, tx_dropped, late, max_departure_delay_ns), (packets, 0, 0, 0), "link {link}");
        }
    }
}

#[test]
fn replays_follow_each_other_and_themselves() {
    let mut links = chain(&[replay(&[0, 100 * US], 1, 0), replay(&[0, 30 * US, 50 * US], 1, 7 * US)], &[0, 1]);
    links[1].timing.next = Some(Successor { next: Next::Elsewhere(0), times: Some(2) });
    let mut run = chained(USUAL, &links);
    run.until(SECOND);
    let round = |at| [0, 100, 107, 137, 157].map(|us| at + us * US);
    assert_eq!(run.times(), [round(0), round(157 * US), round(314 * US)].concat());
    let mut links = chain(&[replay(&[0, 100 * US], 1, 10 * US)], &[0]);
    links[0].timing.next = Some(Successor { next: Next::Elsewhere(0), times: Some(2) });
    let mut run = chained(USUAL, &links);
    run.until(SECOND);
    assert_eq!(run.times(), [10, 110, 120, 220, 230, 330].map(|us| us * US));
}

#[test]
fn phases_and_pauses_of_a_run_are_those_of_all_its_links() {
    let links = chain(&[burst(2, 0), burst(2, 0), replay(&[0, MS], 1, 0)], &[0, 2, 1]);
    let mut run = chained(RunOptions { warmup_ns: 2 * MS, ..USUAL }, &links);
    run.send_all(|| Command::Clock(SLOT, MS + 1, ClockChange::Stop));
    run.send_all(|| Command::Clock(SLOT, 50 * MS + 1, ClockChange::Resume));
    run.until(SECOND);
    assert_eq!(run.times(), [0, 1, 1, 51, 51, 52].map(|ms| ms * MS));
    let phases = |link| (run.counters_of(link).warmup.tx_packets, run.counters_of(link).measured.tx_packets);
    assert_eq!([phases(0), phases(2), phases(1)], [(2, 0), (1, 1), (0, 2)]);
}

#[test]
fn a_replay_keeps_the_speed_that_it_was_given_while_it_waited_and_stands_if_it_stood() {
    let links = chain(&[burst(3, 0), replay(&[0, 100 * US, 300 * US], 1, 500 * US)], &[0, 1]);
    let twice = Some(Rate::new(2, 1).unwrap());
    let mut run = chained(USUAL, &links);
    run.change_speed(MS, 1, twice);
    run.until(SECOND);
    assert_eq!(run.times()[3..], [2500, 2550, 2650].map(|us| us * US));
    let mut run = chained(USUAL, &links);
    run.change_speed(MS, 1, None);
    run.change_speed(5 * MS, 1, twice);
    run.until(SECOND);
    // The delay passes once it no longer stands.
    assert_eq!(run.times()[3..], [5500, 5550, 5650].map(|us| us * US));
    // More changes than are kept for a replay that waits.
    let mut run = chained(USUAL, &links);
    for n in 0..1000 {
        run.to(n * US);
        run.change_speed(n * US, 1, Rate::new(3, 1).ok());
    }
    run.change_speed(MS, 1, twice);
    run.until(SECOND);
    assert_eq!(run.times()[3..], [2500, 2550, 2650].map(|us| us * US));
}

/// From 0 three packets, from 2 ms two of a capture, from 3 ms without an end. That one's rate is a tenth from 6.5 ms on.
fn slowing(asked: RunOptions) -> Run {
    let links = chain(&[burst(3, 0), endless(), replay(&[0, MS], 1, 0)], &[0, 2, 1]);
    let mut run = chained(asked, &links);
    run.change_rate(6 * MS + MS / 2, 1, Some(rate((100, SECOND))));
    run
}

#[test]
fn another_rate_takes_effect_at_its_instant_although_the_worker_comes_to_it_before_the_replay_ends() {
    let mut run = slowing(USUAL);
    run.to(MS);
    run.leap(8 * MS + MS / 2);
    assert_eq!(run.departures()[2..].iter().map(|(_, link, _)| *link).collect::<Vec<_>>(), [0, 2, 2, 1, 1, 1, 1]);
    run.until(30 * MS);
    // Of the packet after that of 6 ms, half a distance has passed at the old rate.
    assert_eq!(run.times()[9..], [11 * MS + MS / 2, 21 * MS + MS / 2]);
}

#[test]
fn what_a_chain_owes_at_the_end_is_dropped_by_all_its_links() {
    let mut run = slowing(RunOptions { warmup_ns: 4 * MS, end_ns: 10 * MS, ..USUAL });
    run.world.set_speed(0, PORT, Some(Speed { packet_ns: 1, ring: 0 }));
    run.until(100 * MS);
    assert!(!run.is_sent());
    run.until(SECOND);
    assert!(run.is_sent() && run.left.is_empty());
    let dropped = |link| (run.counters_of(link).warmup.tx_dropped, run.counters_of(link).measured.tx_dropped);
    assert_eq!([dropped(0), dropped(2), dropped(1)], [(3, 0), (2, 0), (1, 3)]);
}

#[test]
fn a_chain_that_is_stopped_goes_no_further() {
    let links = chain(&[burst(2, 0), burst(5, 0), replay(&[0, MS, 2 * MS], 1, 0)], &[0, 2, 1]);
    for (stop, packets) in [(MS, [1, 0, 0]), (2 * MS + 1, [2, 0, 2]), (4 * MS + 1, [2, 2, 3])] {
        let mut run = chained(USUAL, &links);
        run.to(stop - 1);
        run.send_all(|| Command::Stop(SLOT, stop));
        run.until(SECOND);
        assert!(run.is_sent());
        let counters = [0, 1, 2].map(|link| run.counters_of(link).measured);
        assert_eq!(counters.map(|link| (link.tx_packets, link.tx_dropped)), packets.map(|sent| (sent, 0)), "{stop} ns");
    }
}
