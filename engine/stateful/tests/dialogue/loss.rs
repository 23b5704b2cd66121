// SPDX-License-Identifier: Apache-2.0
//! Losses: time-outs (RFC 6298), fast retransmission with and without selective acknowledgements (RFC 5681, 6582, 6675), by
//! time (RFC 8985), at a pace (RFC 6937), and time-outs that were none (RFC 5682).
use super::peer::{ACK, FIN, Heard, MSS, SACK_PERMITTED, SEND, Talk, about, plain, say, selective};
use spate_stateful::{CongestionControl, Count, Instruction, Tunables, packet::Options};

const FULL: u32 = 1460;

/// The stack sends so many full segments as its window allows; the first are out.
fn sender(segments: u32, tunables: Tunables) -> (Talk, Vec<Heard>) {
    let options = if tunables.sack { SACK_PERMITTED } else { MSS };
    let program = vec![Instruction::Connect, SEND, Instruction::WaitForPeerClose];
    let mut talk = Talk::client(program, u64::from(segments * FULL), tunables);
    talk.shake(options, 65_535);
    let sent = talk.all();
    (talk, sent)
}

/// The first byte of the n-th segment, from 0.
fn nth(n: u32) -> u32 {
    1 + n * FULL
}

fn block(from: u32, to: u32) -> (u32, u32) {
    (nth(from), nth(to))
}

/// Which segments these are.
fn numbers(heard: &[Heard]) -> Vec<u32> {
    numbers_of(heard, FULL)
}

/// Which segments of so many bytes these are.
fn numbers_of(heard: &[Heard], len: u32) -> Vec<u32> {
    heard.iter().filter(|s| s.len() > 0).map(|s| (s.seq - 1) / len).collect()
}

#[test]
fn a_time_out_follows_the_round_trips() {
    // RFC 6298 section 2: 50 ms, variation 25 ms; then 3/4 of the variation.
    let tunables = Tunables { minimum_rto_ns: 1_000_000, initial_window: 1, ..plain() };
    let (mut talk, sent) = sender(10, tunables);
    assert_eq!(sent.len(), 1);
    about(talk.after(ACK, 1, 1, 1460), 150.0);

    let tunables = Tunables { minimum_rto_ns: 1_000_000, initial_window: 1, ..plain() };
    let (mut talk, _) = sender(2, tunables);
    talk.wait(50);
    talk.tell(say(ACK).ack(nth(1)));
    talk.hears(ACK, nth(1), 1, 1460);
    about(talk.after(ACK, nth(1), 1, 1460), 125.0);
}

#[test]
fn a_time_out_is_not_shorter_than_the_minimum_and_doubles() {
    let (mut talk, _) = sender(1, plain());
    for expected in [200.0, 400.0, 800.0, 1600.0] {
        about(talk.after(ACK, 1, 1, 1460), expected);
    }
    for _ in 4..12 {
        talk.after(ACK, 1, 1, 1460);
    }
    talk.wait(130_000);
    assert_eq!((talk.count(Count::TimeoutDrops), talk.count(Count::RetransmitTimeouts)), (1, 13));
    talk.gone();
}

#[test]
fn what_is_sent_again_is_no_measure_and_the_time_out_stays_long() {
    // Karn; RFC 6298 section 5.
    let (mut talk, _) = sender(3, Tunables { initial_window: 1, ..plain() });
    about(talk.after(ACK, 1, 1, 1460), 200.0);
    let measured = talk.count(Count::RoundTrips);
    talk.wait(10);
    talk.tell(say(ACK).ack(nth(1)));
    assert_eq!(talk.count(Count::RoundTrips), measured);
    talk.hears(ACK, nth(1), 1, 1460);
    talk.hears(ACK, nth(2), 1, 1460);
    about(talk.after(ACK, nth(1), 1, 1460), 400.0);
}

#[test]
fn timestamps_measure_what_is_sent_again() {
    // RFC 7323 section 4.
    let tunables = Tunables { initial_window: 1, timestamps: true, ..plain() };
    let mut talk = Talk::client(vec![Instruction::Connect, SEND, Instruction::WaitForPeerClose], 3000, tunables);
    talk.shake(Options { timestamps: Some((5, 0)), ..MSS }, 65_535);
    talk.next();
    about(talk.after(ACK, 1, 1, 1448), 200.0);
    let again = talk.stack.counters(0, true).get(Count::RoundTrips);
    talk.wait(50);
    let stamp = ((talk.now - 50_000_000) >> 20) as u32;
    talk.tell(say(ACK).ack(1449).timestamps(6, stamp));
    assert_eq!(talk.count(Count::RoundTrips), again + 1);
    // The rest of the payload with it.
    assert_eq!(talk.all().len(), 2);
    about(talk.after(ACK, 1449, 1, 1448), 200.0);
}

#[test]
fn after_a_time_out_one_segment_is_sent_and_then_twice_as_many() {
    let (mut talk, sent) = sender(10, plain());
    assert_eq!(numbers(&sent), (0..10).collect::<Vec<_>>());
    about(talk.after(ACK, nth(0), 1, 1460), 200.0);
    talk.quiet();
    talk.tell(say(ACK).ack(nth(1)));
    assert_eq!(numbers(&talk.all()), [1, 2]);
    talk.tell(say(ACK).ack(nth(3)));
    assert_eq!(numbers(&talk.all()), [3, 4, 5, 6]);
    talk.tell(say(ACK).ack(nth(10)));
    talk.wait(10_000);
    talk.quiet();
}

#[test]
fn three_duplicates_bring_the_first_segment_again() {
    let (mut talk, _) = sender(10, plain());
    for _ in 0..2 {
        talk.tell(say(ACK));
        talk.quiet();
    }
    talk.tell(say(ACK));
    assert_eq!(numbers(&talk.all()), [0]);
    assert_eq!(talk.count(Count::FastRetransmits), 1);
    talk.tell(say(ACK).ack(nth(10)));
    talk.wait(10_000);
    talk.quiet();
    assert_eq!(talk.count(Count::RetransmitTimeouts), 0);
}

#[test]
fn what_changes_the_window_or_has_data_is_no_duplicate() {
    // RFC 5681 section 2.
    let (mut talk, _) = sender(10, plain());
    for n in 0..6 {
        talk.tell(say(ACK).window(60_000 - n));
        talk.tell(say(ACK).seq(1 + 10 * u32::from(n)).data(10).window(60_000 - n));
    }
    assert_eq!(numbers(&talk.all()), []);
    assert_eq!(talk.count(Count::FastRetransmits), 0);
}

#[test]
fn a_partial_acknowledgement_brings_the_next_hole() {
    // RFC 6582 section 3.2: the segments 0, 3 and 6 are lost.
    let (mut talk, _) = sender(10, plain());
    for _ in 0..7 {
        talk.tell(say(ACK));
    }
    assert_eq!(numbers(&talk.all()), [0]);
    talk.tell(say(ACK).ack(nth(3)));
    assert_eq!(numbers(&talk.all()), [3]);
    talk.tell(say(ACK).ack(nth(6)));
    assert_eq!(numbers(&talk.all()), [6]);
    talk.tell(say(ACK).ack(nth(10)));
    assert_eq!((talk.count(Count::FastRetransmits), talk.count(Count::RetransmitTimeouts)), (1, 0));
}

#[test]
fn blocks_tell_which_segments_are_lost() {
    let (mut talk, _) = sender(10, selective());
    // 0, 2 and 3 are lost.
    talk.tell(say(ACK).sack(&[block(1, 2)]));
    talk.tell(say(ACK).sack(&[block(4, 5), block(1, 2)]));
    talk.quiet();
    talk.tell(say(ACK).sack(&[block(4, 6), block(1, 2)]));
    for n in 7..=10 {
        talk.tell(say(ACK).sack(&[block(4, n), block(1, 2)]));
    }
    assert_eq!(numbers(&talk.all()), [0, 2, 3]);
    talk.tell(say(ACK).ack(nth(10)));
    talk.wait(10_000);
    talk.quiet();
    assert_eq!((talk.count(Count::FastRetransmits), talk.count(Count::RetransmitTimeouts)), (1, 0));
    assert_eq!(talk.stack.held(), (0, 0));
}

#[test]
fn what_is_late_by_less_than_a_quarter_of_a_round_trip_is_not_sent_again() {
    let (mut talk, _) = sender(3, selective());
    talk.tell(say(ACK).sack(&[block(1, 2)]));
    talk.wait(12);
    talk.tell(say(ACK).ack(nth(2)));
    talk.tell(say(ACK).ack(nth(3)));
    talk.wait(10_000);
    talk.quiet();
    assert_eq!(talk.count(Count::RetransmittedPackets), 0);

    let (mut talk, _) = sender(3, selective());
    talk.tell(say(ACK).sack(&[block(1, 2)]));
    about(talk.after(ACK, nth(0), 1, 1460), 12.5);
    assert_eq!(talk.count(Count::FastRetransmits), 1);
}

#[test]
fn a_lost_tail_is_probed_before_the_time_out() {
    // RFC 8985 section 7.2: after two round trips.
    let (mut talk, _) = sender(5, selective());
    about(talk.after(ACK, nth(4), 1, 1460), 100.0);
    assert_eq!((talk.count(Count::TailProbesSent), talk.count(Count::RetransmitTimeouts)), (1, 0));
    // Segments 2 and 3 were lost, 4 now has come.
    talk.wait(50);
    talk.tell(say(ACK).ack(nth(2)).sack(&[block(4, 5)]));
    talk.wait(13);
    // Nothing was delivered since recovery began: one at first (RFC 6937).
    assert_eq!(numbers(&talk.all()), [2]);
    talk.tell(say(ACK).ack(nth(3)).sack(&[block(4, 5)]));
    assert_eq!(numbers(&talk.all()), [3]);
    talk.tell(say(ACK).ack(nth(5)));
    talk.wait(10_000);
    talk.quiet();
    assert_eq!(talk.count(Count::RetransmitTimeouts), 0);
}

#[test]
fn a_path_of_microseconds_has_milliseconds_until_its_tail_is_probed() {
    let program = vec![Instruction::Connect, SEND, Instruction::WaitForPeerClose];
    let mut talk = Talk::client(program, u64::from(5 * FULL), selective());
    talk.round_trip = 0;
    talk.shake(SACK_PERMITTED, 65_535);
    talk.all();
    about(talk.after(ACK, nth(4), 1, 1460), 10.0);
    assert_eq!((talk.count(Count::TailProbesSent), talk.count(Count::RetransmitTimeouts)), (1, 0));
}

#[test]
fn a_probe_is_of_new_data_if_there_is_any() {
    let (mut talk, _) = sender(20, selective());
    about(talk.after(ACK, nth(10), 1, 1460), 100.0);
}

#[test]
fn a_probe_repeats_what_was_sent_and_no_more() {
    // The window takes less than a full segment.
    let mut talk = Talk::client(vec![Instruction::Connect, SEND], 10_000, selective());
    talk.shake(SACK_PERMITTED, 500);
    talk.hears(ACK, 1, 1, 500);
    about(talk.after(ACK, 1, 1, 500), 200.0);
    assert_eq!((talk.count(Count::TailProbesSent), talk.count(Count::SentDataBytes)), (1, 500));
}

#[test]
fn a_lone_segment_is_probed_when_its_time_out_comes_and_the_time_out_follows() {
    let (mut talk, _) = sender(1, selective());
    about(talk.after(ACK, nth(0), 1, 1460), 200.0);
    assert_eq!((talk.count(Count::TailProbesSent), talk.count(Count::RetransmitTimeouts)), (1, 0));
    about(talk.after(ACK, nth(0), 1, 1460), 200.0);
    assert_eq!(talk.count(Count::RetransmitTimeouts), 1);
    about(talk.after(ACK, nth(0), 1, 1460), 400.0);
}

#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_later() {
    let (mut talk, _) = sender(30, selective());
    for n in 2..=10 {
        talk.tell(say(ACK).sack(&[block(1, n)]));
        talk.wait(1);
    }
    let sent = numbers(&talk.all());
    assert_eq!(sent.iter().filter(|n| **n == 0).count(), 1);
    let newest = sent.iter().max().copied().expect("new data");
    assert!(newest > 10, "{sent:?}");
    talk.wait(50);
    talk.tell(say(ACK).sack(&[block(1, newest + 1)]));
    assert_eq!(numbers(&talk.all()).first(), Some(&0), "again, without a time-out");
    assert_eq!(talk.count(Count::RetransmitTimeouts), 0);
}

#[test]
fn in_recovery_one_segment_goes_for_two_that_arrive() {
    // RFC 6937: Reno halves.
    let reno = Tunables { congestion_control: CongestionControl::NewReno, initial_window: 20, ..selective() };
    let (mut talk, _) = sender(60, reno);
    let mut sent = Vec::new();
    for n in 2..=20 {
        talk.tell(say(ACK).sack(&[block(1, n)]));
        sent.push(talk.all().len());
    }
    let before: usize = sent[..2].iter().sum();
    assert!(before <= 2, "limited transmit: {sent:?}");
    let total: usize = sent.iter().sum();
    assert!((9..=11).contains(&total), "{sent:?}");
    assert!(sent[4..].windows(2).all(|pair| pair[0] + pair[1] <= 1 + 1), "evenly: {sent:?}");
    talk.tell(say(ACK).ack(nth(20)));
    let flight = talk.all();
    assert!(flight.len() <= 2, "no burst: {}", flight.len());
}

#[test]
fn a_time_out_that_was_none_is_undone() {
    // RFC 5682 section 3.1: the path stood still for a while.
    let reno = Tunables { congestion_control: CongestionControl::NewReno, ..selective() };
    let (mut talk, _) = sender(40, reno);
    about(talk.after(ACK, nth(10), 1, 1460), 100.0);
    about(talk.after(ACK, nth(0), 1, 1460), 200.0);
    talk.quiet();
    talk.tell(say(ACK).ack(nth(1)));
    let new = numbers(&talk.all());
    assert!(new.len() <= 2 && new.iter().all(|n| *n > 10), "new data only: {new:?}");
    talk.tell(say(ACK).ack(nth(2)));
    assert_eq!(talk.count(Count::SpuriousTimeouts), 1);
    for n in 3..=11 {
        talk.tell(say(ACK).ack(nth(n)));
    }
    let rest = numbers(&talk.all());
    assert!(rest.iter().all(|n| *n > 10), "nothing is sent again: {rest:?}");
    assert!(rest.len() >= 8, "the window is as before: {rest:?}");
    assert_eq!(talk.count(Count::RetransmittedPackets), 1);
}

#[test]
fn a_time_out_with_losses_is_not_undone() {
    let (mut talk, _) = sender(40, selective());
    talk.after(ACK, nth(10), 1, 1460);
    talk.after(ACK, nth(0), 1, 1460);
    talk.tell(say(ACK).ack(nth(1)));
    let new = numbers(&talk.all());
    let last = new.iter().max().copied().expect("new data");
    // What was sent before is lost; of the new segments one has come.
    talk.tell(say(ACK).ack(nth(1)).sack(&[block(last, last + 1)]));
    talk.tell(say(ACK).ack(nth(1)).sack(&[block(last - 1, last + 1)]));
    assert_eq!(numbers(&talk.all()).first(), Some(&1));
    assert_eq!(talk.count(Count::SpuriousTimeouts), 0);
}

#[test]
fn the_first_two_duplicates_let_new_data_go() {
    // RFC 3042.
    let (mut talk, _) = sender(40, plain());
    for n in 10..12 {
        talk.tell(say(ACK));
        talk.hears(ACK, nth(n), 1, 1460);
        talk.quiet();
    }
    let (mut talk, _) = sender(40, selective());
    for n in 10..12 {
        talk.tell(say(ACK).sack(&[block(1, n - 8)]));
        talk.hears(ACK, nth(n), 1, 1460);
        talk.quiet();
    }
}

#[test]
fn the_first_segment_sent_again_has_its_whole_time() {
    // RFC 6298 section 5: what is acknowledged meanwhile does not move on, nor does the time-out begin before it was sent.
    let (mut talk, _) = sender(10, plain());
    talk.wait(50);
    talk.tell(say(ACK).ack(nth(1)));
    talk.wait(150);
    for _ in 0..3 {
        talk.tell(say(ACK).ack(nth(1)));
    }
    talk.hears(ACK, nth(1), 1, 1460);
    about(talk.after(ACK, nth(1), 1, 1460), 200.0);
}

#[test]
fn a_loss_reported_together_with_much_else_halves_the_window_not_the_rest() {
    // Nine of ten have come, with one acknowledgement: the window was ten, and grew by six before it is reduced.
    let reno = Tunables { congestion_control: CongestionControl::NewReno, ..selective() };
    let (mut talk, _) = sender(60, reno);
    talk.tell(say(ACK).ack(nth(6)).sack(&[block(7, 10)]));
    // What has arrived makes room (RFC 6937): a retransmission first, and no more than the half of sixteen in flight.
    let sent = numbers(&talk.all());
    assert_eq!(sent[0], 6);
    assert!((7..=8).contains(&sent.len()), "{sent:?}");
}

fn timed(segments: u32, tunables: Tunables) -> Talk {
    let tunables = Tunables { timestamps: true, ..tunables };
    let program = vec![Instruction::Connect, SEND, Instruction::WaitForPeerClose];
    let mut talk = Talk::client(program, u64::from(segments) * 1448, tunables);
    talk.shake(Options { timestamps: Some((5, 0)), ..SACK_PERMITTED }, 65_535);
    talk.all();
    talk
}

fn stamp(now: u64) -> u32 {
    (now >> 20) as u32
}

#[test]
fn a_time_out_is_undone_if_the_original_is_answered() {
    // RFC 3522: all is sent, so new data cannot tell (RFC 5682).
    let mut talk = timed(10, selective());
    let first = stamp(talk.now);
    talk.wait(450);
    assert_eq!(talk.count(Count::RetransmitTimeouts), 1);
    let again = numbers_of(&talk.all(), 1448);
    talk.tell(say(ACK).ack(1 + 2 * 1448).timestamps(6, first));
    assert_eq!(talk.count(Count::SpuriousTimeouts), 1);
    talk.tell(say(ACK).ack(1 + 10 * 1448).timestamps(6, first));
    talk.wait(5_000);
    assert_eq!(talk.all().len(), 0, "nothing is sent again after {again:?}");
}

#[test]
fn a_time_out_stands_if_what_was_sent_again_is_answered() {
    let mut talk = timed(10, selective());
    talk.wait(450);
    talk.all();
    let again = stamp(talk.now);
    talk.wait(50);
    talk.tell(say(ACK).ack(1 + 2 * 1448).timestamps(6, again));
    assert_eq!((talk.count(Count::SpuriousTimeouts), talk.count(Count::SpuriousRecoveries)), (0, 0));
}

#[test]
fn a_fast_recovery_is_undone_if_the_original_is_only_late() {
    let mut talk = timed(60, selective());
    let first = stamp(talk.now);
    talk.wait(50);
    for n in 2..=5 {
        talk.tell(say(ACK).sack(&[(1 + 1448, 1 + n * 1448)]).timestamps(6, first));
    }
    assert_eq!(talk.count(Count::FastRetransmits), 1);
    talk.all();
    talk.wait(5);
    talk.tell(say(ACK).ack(1 + 5 * 1448).timestamps(6, first));
    assert_eq!(talk.count(Count::SpuriousRecoveries), 1);
    talk.tell(say(ACK).ack(1 + 10 * 1448).timestamps(6, first));
    let total = numbers_of(&talk.all(), 1448).last().copied().expect("new data");
    assert!(total >= 19, "the window is as before: up to {total}");
}

#[test]
fn a_lone_lost_segment_is_no_spurious_time_out() {
    for (segments, tunables) in [(1, selective()), (3, selective())] {
        let (mut talk, _) = sender(segments, tunables);
        talk.wait(2000);
        talk.all();
        talk.tell(say(ACK).ack(nth(segments)));
        assert_eq!(talk.count(Count::SpuriousTimeouts), 0);
        assert_eq!(talk.stack.held(), (0, 0));
        talk.wait(10_000);
        talk.quiet();
    }
}

#[test]
fn many_lost_segments_are_each_sent_again_once() {
    let tunables = Tunables { initial_window: 100, ..selective() };
    let program = vec![Instruction::Connect, SEND];
    let mut talk = Talk::client(program, 100 * 600, Tunables { mss: 600, ..tunables });
    talk.shake(Options { mss: Some(600), ..SACK_PERMITTED }, 65_535);
    assert_eq!(talk.all().len(), 100);
    // Every segment of the first 80 is lost; the others come one by one.
    let mut again = Vec::new();
    for n in 81..=100u32 {
        talk.tell(say(ACK).sack(&[(1 + 80 * 600, 1 + n * 600)]));
        again.extend(talk.all());
    }
    let mut una = 0;
    while una < 80 && again.len() < 500 {
        talk.wait(1);
        una += 1;
        talk.tell(say(ACK).ack(if una == 80 { 60_001 } else { 1 + una * 600 }).sack(&[]));
        again.extend(talk.all());
    }
    let data: Vec<_> = again.iter().filter(|s| s.len() > 0).collect();
    assert_eq!(data.len(), 80, "each once");
    assert_eq!(talk.count(Count::RetransmitTimeouts), 0);
    assert!(again.iter().any(|s| s.flags & FIN != 0));
}

#[test]
fn a_recovery_is_undone_if_all_that_was_sent_again_came_twice() {
    // RFC 3708, after recovery has ended: without timestamps only the peer can tell.
    let (mut talk, _) = sender(100, selective());
    talk.wait(50);
    for n in 2..=5 {
        talk.tell(say(ACK).sack(&[block(1, n)]));
    }
    assert_eq!(talk.count(Count::FastRetransmits), 1);
    assert_eq!(numbers(&talk.all()).iter().filter(|n| **n == 0).count(), 1);
    talk.wait(5);
    let highest = 11;
    talk.tell(say(ACK).ack(nth(highest)));
    let reduced = talk.all().len();
    talk.wait(45);
    talk.tell(say(ACK).ack(nth(highest)).sack(&[block(0, 1)]));
    assert_eq!((talk.count(Count::SpuriousRecoveries), talk.count(Count::DsackReceived)), (1, 1));
    assert!(!talk.all().is_empty(), "the window is as before: more than {reduced}");
    // Told again it is nothing new.
    talk.tell(say(ACK).ack(nth(highest)).sack(&[block(0, 1)]));
    assert_eq!((talk.count(Count::SpuriousRecoveries), talk.count(Count::DsackReceived)), (1, 2));
}

#[test]
fn a_recovery_stands_if_something_of_it_did_not_come_twice() {
    let (mut talk, _) = sender(100, selective());
    talk.wait(50);
    // 0 and 1 are taken for lost; only 1 was late.
    for n in 3..=7 {
        talk.tell(say(ACK).sack(&[block(2, n)]));
    }
    let again: Vec<_> = numbers(&talk.all()).into_iter().filter(|n| *n < 10).collect();
    assert_eq!(again, [0, 1]);
    talk.wait(50);
    talk.tell(say(ACK).ack(nth(10)).sack(&[block(1, 2)]));
    talk.tell(say(ACK).ack(nth(11)));
    assert_eq!((talk.count(Count::SpuriousRecoveries), talk.count(Count::DsackReceived)), (0, 1));
}

#[test]
fn a_time_out_is_undone_if_all_that_was_sent_again_came_twice() {
    // All was sent, so that nothing else can tell.
    let (mut talk, _) = sender(10, selective());
    talk.wait(400);
    assert_eq!(talk.count(Count::RetransmitTimeouts), 1);
    let again = numbers(&talk.all());
    assert_eq!(again, [9, 0], "the probe of the tail, and the first");
    talk.tell(say(ACK).ack(nth(1)));
    talk.all();
    talk.tell(say(ACK).ack(nth(10)));
    assert_eq!(talk.count(Count::SpuriousTimeouts), 0);
    talk.wait(10_000);
    talk.quiet();

    let (mut talk, _) = sender(10, selective());
    talk.wait(400);
    talk.all();
    // The acknowledgement of the originals was lost; this one answers what was sent again.
    talk.tell(say(ACK).ack(nth(5)).sack(&[block(0, 1)]));
    assert_eq!(talk.count(Count::SpuriousTimeouts), 1);
    assert_eq!(numbers(&talk.all()), [], "the window is as before, and nothing is taken for lost");
}

/// A hole is told of, and with the third block above it. How long until it is sent again.
fn late_for(talk: &mut Talk, first: u32) -> f64 {
    let start = talk.now;
    for n in 2..=4 {
        talk.tell(say(ACK).ack(nth(first)).sack(&[block(first + 1, first + n)]));
    }
    loop {
        if let Some(again) = talk.all().iter().find(|s| s.seq == nth(first) && s.len() > 0) {
            return (again.at - start) as f64 / 1e6;
        }
        assert!(talk.now < start + 1_000_000_000, "never");
        talk.wait_us(100);
    }
}

#[test]
fn once_segments_have_come_in_disorder_the_late_are_waited_for_also_much_later() {
    let (mut talk, _) = sender(1000, selective());
    assert!(late_for(&mut talk, 0) < 0.1, "three above it, and none was ever late");

    let (mut talk, _) = sender(1000, selective());
    // The segment 0 is late, and all that was in trouble is over.
    talk.tell(say(ACK).sack(&[block(1, 2)]));
    talk.wait(2);
    talk.tell(say(ACK).ack(nth(2)));
    assert_eq!(talk.stack.held(), (0, 0));
    // A quarter of the round trip of 50 ms; round trips that are measured meanwhile move it.
    let waited = late_for(&mut talk, 2);
    assert!((5.0..14.0).contains(&waited), "{waited} ms");
    // It came twice: half a round trip from now on.
    talk.wait(5);
    let sent = talk.all();
    let end = sent.iter().map(|s| s.seq + s.len() as u32).max().unwrap_or(nth(12)).max(nth(12));
    talk.tell(say(ACK).ack(end).sack(&[block(2, 3)]));
    assert_eq!(talk.count(Count::SpuriousRecoveries), 1);
    let more = talk.all();
    assert!(more.len() >= 5, "{}", more.len());
    let first = (more[0].seq - 1) / FULL;
    let longer = late_for(&mut talk, first);
    assert!(longer > 1.6 * waited, "{longer} ms after {waited} ms");
}

#[test]
fn what_the_peer_reported_and_dropped_is_sent_again() {
    // RFC 2018 section 8: 0 is lost, 1 to 4 are told of, and gone when 0 has come.
    let (mut talk, _) = sender(10, selective());
    for n in 2..=5 {
        talk.tell(say(ACK).sack(&[block(1, n)]));
    }
    talk.all();
    talk.wait(50);
    talk.tell(say(ACK).ack(nth(1)));
    talk.all();
    let mut una = 1;
    for _ in 0..10 {
        talk.wait(1000);
        for n in numbers(&talk.all()) {
            una = if n == una { una + 1 } else { una };
        }
        talk.tell(say(ACK).ack(nth(una)));
        for n in numbers(&talk.all()) {
            una = if n == una { una + 1 } else { una };
        }
        talk.tell(say(ACK).ack(nth(una)));
    }
    assert_eq!(una, 10, "all has come: {} time-outs", talk.count(Count::RetransmitTimeouts));
    assert!(talk.count(Count::RetransmitTimeouts) > 0, "that is how it was found");
    assert_eq!(talk.stack.held(), (0, 0));
}
