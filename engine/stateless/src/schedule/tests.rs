// SPDX-License-Identifier: Apache-2.0
//! Whatever the split, the union is what one worker sends; and one worker sends what the paces say.
use super::*;
use crate::Rate;
use proptest::prelude::*;

const WHOLE: WorkerShare = WorkerShare { first: 0, stride: 1 };

/// A packet as a test looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    stream: usize,
    number: u64,
    due_ns: u64,
}

fn pps(packets: u64) -> Option<Rate> {
    Some(Rate::packets_per_second(packets, 1).unwrap())
}

fn bursts(rate: Option<Rate>, packets: u64, count: Option<u64>, gap_ns: u64) -> StreamTiming {
    StreamTiming { transmit: Transmit::Bursts { packets, count, gap_ns }, ..StreamTiming::continuous(rate) }
}

/// Starts a stream so often.
fn after(stream: usize, times: Option<u64>) -> Option<Successor> {
    Some(Successor { next: Next::Scheduled(stream), times })
}

/// All packets before an instant, at most `most` of them; each call takes at most a few.
fn take_all(schedule: &mut Schedule, before_ns: u64, most: usize) -> Vec<Packet> {
    let mut packets = Vec::new();
    while packets.len() < most && schedule.next_due_ns().is_some_and(|due| due < before_ns) {
        let room = (most - packets.len()).min(5);
        let mut batches = Vec::new();
        schedule.take(before_ns, room, |batch| batches.push(batch));
        for b in batches {
            let stride = schedule.stride(b.stream);
            packets.extend((0..b.count).map(|i| {
                let (stream, number) =
                    if b.each { (b.stream + i, b.number) } else { (b.stream, b.number + i as u64 * stride) };
                Packet { stream, number, due_ns: b.due_of(i) }
            }));
        }
    }
    packets
}

/// A change of one stream's rate (or standstill) at an instant.
#[derive(Clone, Debug)]
struct Change {
    at_ns: u64,
    stream: usize,
    rate: Option<Rate>,
}

/// What a worker would do: all that is due before a change, then the change, then the rest.
fn drive(share: WorkerShare, streams: &[StreamTiming], changes: &[Change], end_ns: u64) -> Vec<Packet> {
    let mut schedule = Schedule::new(share, streams.iter().copied());
    let mut taken = Vec::new();
    for change in changes {
        taken.extend(take_all(&mut schedule, change.at_ns, usize::MAX));
        schedule.change(change.at_ns, [(change.stream, change.rate)]);
    }
    taken.extend(take_all(&mut schedule, end_ns, usize::MAX));
    taken
}

#[test]
fn streams_of_equal_rate_are_one_group() {
    let streams = (0..1000).map(|i| StreamTiming { start_delay_ns: i % 7, ..StreamTiming::continuous(pps(1000)) });
    assert_eq!(Schedule::new(WHOLE, streams).groups.len(), 1);
}

#[test]
fn streams_that_go_together_are_taken_together() {
    let mut schedule = Schedule::new(WHOLE, (0..1000).map(|_| StreamTiming::continuous(pps(1000))));
    let mut batches = Vec::new();
    assert_eq!(schedule.take(1_000_001, 1500, |batch| batches.push(batch)), 1500);
    let batch = |count, number, due_ns| Batch {
        stream: 0,
        each: true,
        count,
        number,
        sequence: number,
        due_ns,
        last_due_ns: due_ns,
    };
    assert_eq!(batches, [batch(1000, 0, 0), batch(500, 1, 1_000_000)]);
    let mut rest = batches[1];
    rest.advance(200, 1);
    assert_eq!(rest, Batch { stream: 200, ..batch(300, 1, 1_000_000) });
}

/// TRex's burst_3st_loop_x_times: a chain starts the next stream at the instant of the last packet.
#[test]
fn a_chain_goes_on_at_its_last_packet_and_loops() {
    let ms = 1_000_000;
    let link = |packets, waits, next, times| StreamTiming {
        waits,
        next: after(next, times),
        ..bursts(pps(10), packets, Some(1), 0)
    };
    let streams = [
        StreamTiming { start_delay_ns: 10_000, ..link(1, false, 1, None) },
        link(2, true, 2, None),
        link(3, true, 0, Some(1)),
    ];
    let taken = drive(WHOLE, &streams, &[], 10_000 * ms);
    let seen: Vec<_> = taken.iter().map(|p| (p.stream, p.number, p.due_ns)).collect();
    let at = |x: u64| x * 100 * ms + 10_000;
    assert_eq!(
        seen,
        [
            (0, 0, at(0)),
            (1, 0, at(0)),
            (1, 1, at(1)),
            (2, 0, at(1)),
            (2, 1, at(2)),
            (2, 2, at(3)),
            (0, 1, at(3) + 10_000),
            (1, 2, at(3) + 10_000),
            (1, 3, at(4) + 10_000),
            (2, 3, at(4) + 10_000),
            (2, 4, at(5) + 10_000),
            (2, 5, at(6) + 10_000),
        ]
    );
}

/// Something else, which takes 1 ms, comes after the first stream and before the second.
#[test]
fn a_chain_leaves_the_schedule_at_the_last_packet_and_comes_back_when_it_is_started() {
    let elsewhere = Some(Successor { next: Next::Elsewhere(77), times: Some(2) });
    let first = StreamTiming { next: elsewhere, pinned: true, ..bursts(pps(1_000_000), 3, Some(1), 0) };
    let second = StreamTiming { waits: true, next: after(0, None), start_delay_ns: 500, ..first };
    let mut schedule = Schedule::new(WHOLE, [first, second]);
    let mut seen = Vec::new();
    for started in [true, true, false] {
        seen.extend(take_all(&mut schedule, u64::MAX, usize::MAX).iter().map(|p| (p.stream, p.due_ns)));
        let (_, ended_ns) = *seen.last().unwrap();
        assert_eq!(schedule.next_due_ns(), None);
        let expected = started.then_some(ended_ns);
        assert_eq!(schedule.first_started_ns(), expected);
        assert_eq!(schedule.take_started().collect::<Vec<_>>(), Vec::from_iter(expected.map(|at| (77, at))));
        if started {
            schedule.start(1, ended_ns + 1_000_000);
        }
    }
    // Each pass: three packets of the second 500 ns after its start, and three of the first.
    let pass =
        |at: u64| [(1, at + 500), (1, at + 1500), (1, at + 2500), (0, at + 2500), (0, at + 3500), (0, at + 4500)];
    let mut expected = vec![(0, 0), (0, 1000), (0, 2000)];
    expected.extend(pass(1_002_000));
    expected.extend(pass(2_006_500));
    assert_eq!(seen, expected);
    // Other workers follow the first stream's end, too, and send nothing.
    let mut other = Schedule::new(WorkerShare { first: 1, stride: 2 }, [first, second]);
    assert!(take_all(&mut other, u64::MAX, usize::MAX).is_empty());
    assert_eq!(other.take_started().collect::<Vec<_>>(), [(77, 2000)]);
}

#[test]
fn bursts_are_a_gap_apart() {
    let taken = drive(WHOLE, &[bursts(pps(1_000_000_000), 3, Some(2), 100)], &[], 1_000_000);
    assert_eq!(taken.iter().map(|p| p.due_ns).collect::<Vec<_>>(), [0, 1, 2, 102, 103, 104]);
}

#[test]
fn a_stream_that_is_done_leaves_nothing_due() {
    let mut schedule = Schedule::new(WorkerShare { first: 1, stride: 2 }, [bursts(pps(1000), 1, Some(3), 5)]);
    assert!(take_all(&mut schedule, u64::MAX, 100).is_empty());
    assert_eq!(schedule.next_due_ns(), None);
}

#[test]
fn a_pinned_stream_is_sent_by_the_first_worker() {
    let pinned = StreamTiming { pinned: true, ..StreamTiming::continuous(pps(1_000_000)) };
    assert_eq!(drive(WorkerShare { first: 0, stride: 3 }, &[pinned], &[], 10_000).len(), 10);
    assert_eq!(drive(WorkerShare { first: 1, stride: 3 }, &[pinned], &[], 10_000).len(), 0);
}

/// The odd rates that people ask for, over an hour: exact to the packet.
#[test]
fn odd_rates_do_not_drift() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    for (numerator, denominator) in [(1, 7), (1_000_003, 1000), (999_999, 1)] {
        let rate = Rate::packets_per_second(numerator, denominator).unwrap();
        let exact = (u128::from(HOUR_NS) * u128::from(rate.packets())).div_ceil(u128::from(rate.nanoseconds()));
        assert_eq!(u128::from(Pace::from_start(Some(rate)).count_before(HOUR_NS)), exact);
    }
}

prop_compose! {
    fn any_rate()(packets in 1u64..1 << 30, nanoseconds in 1u64..1 << 30) -> Rate {
        // At most a packet a nanosecond and at least a few a second, so that tests see some and end.
        Rate::new(packets.min(nanoseconds).into(), (nanoseconds * 500).min(packets * 50_000_000).max(1).into()).unwrap()
    }
}

prop_compose! {
    fn any_stream(streams: usize)(rate in any_rate(), same in any::<bool>(), kind in 0..4, packets in 1u64..9, count in 1u64..5,
        gap_ns in 1u64..20_000, delay in 0u64..20_000, next in prop::option::of((0..streams, prop::option::of(0u64..3))),
        waits in any::<bool>(), pinned in 0..8) -> StreamTiming {
        let rate = if same { Rate::packets_per_second(1_000_000, 3).unwrap() } else { rate };
        let transmit = match kind {
            0 | 1 => Transmit::Continuous,
            2 => Transmit::Bursts { packets, count: Some(count), gap_ns },
            _ => Transmit::Bursts { packets, count: None, gap_ns },
        };
        let endless = !matches!(transmit, Transmit::Bursts { count: Some(_), .. });
        StreamTiming {
            rate: Some(rate),
            transmit,
            // A chain takes some time: one that takes none would never end.
            start_delay_ns: delay + 1,
            waits: waits && kind > 1,
            next: next.filter(|_| !endless).and_then(|(next, times)| after(next, times)),
            pinned: pinned == 0,
        }
    }
}

prop_compose! {
    fn any_plan()(count in 1usize..6, end_ns in 1u64..100_000)
        (streams in prop::collection::vec(any_stream(count), count),
         changes in prop::collection::vec((0..end_ns, 0..count, prop::option::of(any_rate())), 0..4), end_ns in Just(end_ns))
        -> (Vec<StreamTiming>, Vec<Change>, u64) {
        // What is started by another must not be continuous and self-started: such a link is refused before.
        let mut streams = streams;
        for index in 0..streams.len() {
            if let Some(Successor { next, .. }) = streams[index].next
                && let StreamTiming { transmit: Transmit::Continuous, waits: false, .. } = streams[next.index()]
            {
                streams[index].next = None;
            }
        }
        let mut changes: Vec<Change> =
            changes.into_iter().map(|(at_ns, stream, rate)| Change { at_ns, stream, rate }).collect();
        changes.sort_by_key(|c| c.at_ns);
        (streams, changes, end_ns)
    }
}

proptest! {
    #[test]
    fn all_workers_together_send_what_one_would((streams, changes, end_ns) in any_plan(), stride in 1u64..9) {
        let mut whole = drive(WHOLE, &streams, &changes, end_ns);
        let mut union: Vec<Packet> =
            (0..stride).flat_map(|first| drive(WorkerShare { first, stride }, &streams, &changes, end_ns)).collect();
        whole.sort();
        union.sort();
        // Within a batch due times are given to a nanosecond.
        prop_assert_eq!(union.len(), whole.len());
        for (a, b) in union.iter().zip(&whole) {
            prop_assert_eq!((a.stream, a.number), (b.stream, b.number));
            prop_assert!(a.due_ns.abs_diff(b.due_ns) <= 1, "{:?} {:?}", a, b);
        }
    }

    #[test]
    fn packets_come_in_order_and_numbers_without_gaps((streams, changes, end_ns) in any_plan()) {
        let taken = drive(WHOLE, &streams, &changes, end_ns);
        prop_assert!(taken.windows(2).all(|w| w[0].due_ns <= w[1].due_ns + 1), "{:?}", taken);
        let restarts = streams.iter().any(|s| s.next.is_some());
        for stream in (0..streams.len()).filter(|_| !restarts) {
            let numbers: Vec<_> = taken.iter().filter(|p| p.stream == stream).map(|p| p.number).collect();
            prop_assert!(numbers.iter().enumerate().all(|(i, &n)| n == i as u64), "{:?}", numbers);
        }
    }

    #[test]
    fn continuous_streams_send_what_their_paces_say((mut streams, changes, end_ns) in any_plan()) {
        for s in &mut streams {
            *s = StreamTiming { start_delay_ns: s.start_delay_ns, ..StreamTiming::continuous(s.rate) };
        }
        let taken = drive(WHOLE, &streams, &changes, end_ns);
        for (stream, timing) in streams.iter().enumerate() {
            let mut pace = Pace::starting(timing.start_delay_ns, timing.rate);
            for c in changes.iter().filter(|c| c.stream == stream) {
                pace = pace.changed(c.at_ns, c.rate);
            }
            let before_start = end_ns <= timing.start_delay_ns;
            let expected = if before_start { 0 } else { pace.count_before(end_ns) };
            prop_assert_eq!(taken.iter().filter(|p| p.stream == stream).count() as u64, expected);
        }
    }

    #[test]
    fn what_was_not_taken_is_given_up((streams, _, end_ns) in any_plan(), taken in 0usize..100, stride in 1u64..5) {
        let whole = drive(WHOLE, &streams, &[], end_ns).len() as u64;
        let mut seen = 0;
        for first in 0..stride {
            let mut schedule = Schedule::new(WorkerShare { first, stride }, streams.iter().copied());
            seen += take_all(&mut schedule, end_ns, taken).len() as u64;
            schedule.give_up(end_ns, |_, count| seen += count);
            prop_assert!(schedule.next_due_ns().is_none_or(|due| due >= end_ns));
        }
        prop_assert_eq!(seen, whole);
    }

    #[test]
    fn the_packets_of_a_batch_before_an_instant_are_counted(due_ns in 0u64..100, span in 0u64..1000, count in 1usize..64, at in 0u64..1200) {
        let span = if count == 1 { 0 } else { span };
        let batch = Batch { stream: 0, each: false, count, number: 0, sequence: 0, due_ns, last_due_ns: due_ns + span };
        let exact = (0..count).filter(|&i| batch.due_of(i) < at).count();
        let most = if span < count as u64 { count } else { 1 };
        prop_assert!(batch.due_before(at).abs_diff(exact) <= most);
    }
}
