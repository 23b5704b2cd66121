// SPDX-License-Identifier: Apache-2.0
//! Losses: timeouts (RFC 6298), fast retransmission with and without selective acknowledgements (RFC 5681, 6582, 6675), by
//! time (RFC 8985), at a pace (RFC 6937), and timeouts that were none (RFC 5682).
use super::peer::{ACK, FIN, MSS, Peer, Reply, SACK_PERMITTED, SEND, about, plain, segment, selective};
use spate_stateful::{CongestionControl, Count, Instruction, Tunables, packet::Options};

const FULL: u32 = 1460;

/// The stack sends as many full segments as its window allows; the first are out.
fn sender(segments: u32, tunables: Tunables) -> (Peer, Vec<Reply>) {
    let options = if tunables.sack { SACK_PERMITTED } else { MSS };
    let program = vec![Instruction::Connect, SEND, Instruction::WaitForPeerClose];
    let mut peer = Peer::client(program, u64::from(segments * FULL), tunables);
    peer.handshake(options, 65_535);
    let sent = peer.all();
    (peer, sent)
}

/// The first byte of the n-th segment, from 0.
fn nth(n: u32) -> u32 {
    1 + n * FULL
}

fn block(from: u32, to: u32) -> (u32, u32) {
    (nth(from), nth(to))
}

/// Which segments these are.
fn numbers(reply: &[Reply]) -> Vec<u32> {
    numbers_of(reply, FULL)
}

/// The indices of these segments of this many bytes.
fn numbers_of(reply: &[Reply], len: u32) -> Vec<u32> {
    reply.iter().filter(|s| s.len() > 0).map(|s| (s.seq - 1) / len).collect()
}

#[test]
fn a_time_out_follows_the_round_trips() {
    // RFC 6298 section 2: 50 ms, variation 25 ms; then 3/4 of the variation.
    let tunables = Tunables { minimum_rto_ns: 1_000_000, initial_window: 1, ..plain() };
    let (mut peer, sent) = sender(10, tunables);
    assert_eq!(sent.len(), 1);
    about(peer.after(ACK, 1, 1, 1460), 150.0);

    let tunables = Tunables { minimum_rto_ns: 1_000_000, initial_window: 1, ..plain() };
    let (mut peer, _) = sender(2, tunables);
    peer.wait(50);
    peer.send(segment(ACK).ack(nth(1)));
    peer.expect_segment(ACK, nth(1), 1, 1460);
    about(peer.after(ACK, nth(1), 1, 1460), 125.0);
}

#[test]
fn a_time_out_is_not_shorter_than_the_minimum_and_doubles() {
    let (mut peer, _) = sender(1, plain());
    for expected in [200.0, 400.0, 800.0, 1600.0] {
        about(peer.after(ACK, 1, 1, 1460), expected);
    }
    for _ in 4..12 {
        peer.after(ACK, 1, 1, 1460);
    }
    peer.wait(130_000);
    assert_eq!((peer.count(Count::TimeoutDrops), peer.count(Count::RetransmitTimeouts)), (1, 13));
    peer.expect_closed();
}

#[test]
fn what_is_sent_again_is_no_measure_and_the_time_out_stays_long() {
    // Karn; RFC 6298 section 5.
    let (mut peer, _) = sender(3, Tunables { initial_window: 1, ..plain() });
    about(peer.after(ACK, 1, 1, 1460), 200.0);
    let measured = peer.count(Count::RoundTrips);
    peer.wait(10);
    peer.send(segment(ACK).ack(nth(1)));
    assert_eq!(peer.count(Count::RoundTrips), measured);
    peer.expect_segment(ACK, nth(1), 1, 1460);
    peer.expect_segment(ACK, nth(2), 1, 1460);
    about(peer.after(ACK, nth(1), 1, 1460), 400.0);
}

#[test]
fn timestamps_measure_what_is_sent_again() {
    // RFC 7323 section 4.
    let tunables = Tunables { initial_window: 1, timestamps: true, ..plain() };
    let mut peer = Peer::client(vec![Instruction::Connect, SEND, Instruction::WaitForPeerClose], 3000, tunables);
    peer.handshake(Options { timestamps: Some((5, 0)), ..MSS }, 65_535);
    peer.next();
    about(peer.after(ACK, 1, 1, 1448), 200.0);
    let again = peer.stack.counters(0, true).get(Count::RoundTrips);
    peer.wait(50);
    let stamp = ((peer.now - 50_000_000) >> 20) as u32;
    peer.send(segment(ACK).ack(1449).timestamps(6, stamp));
    assert_eq!(peer.count(Count::RoundTrips), again + 1);
    // The rest of the payload with it.
    assert_eq!(peer.all().len(), 2);
    about(peer.after(ACK, 1449, 1, 1448), 200.0);
}

#[test]
fn after_a_time_out_one_segment_is_sent_and_then_twice_as_many() {
    let (mut peer, sent) = sender(10, plain());
    assert_eq!(numbers(&sent), (0..10).collect::<Vec<_>>());
    about(peer.after(ACK, nth(0), 1, 1460), 200.0);
    peer.expect_silence();
    peer.send(segment(ACK).ack(nth(1)));
    assert_eq!(numbers(&peer.all()), [1, 2]);
    peer.send(segment(ACK).ack(nth(3)));
    assert_eq!(numbers(&peer.all()), [3, 4, 5, 6]);
    peer.send(segment(ACK).ack(nth(10)));
    peer.wait(10_000);
    peer.expect_silence();
}

#[test]
fn three_duplicates_bring_the_first_segment_again() {
    let (mut peer, _) = sender(10, plain());
    for _ in 0..2 {
        peer.send(segment(ACK));
        peer.expect_silence();
    }
    peer.send(segment(ACK));
    assert_eq!(numbers(&peer.all()), [0]);
    assert_eq!(peer.count(Count::FastRetransmits), 1);
    peer.send(segment(ACK).ack(nth(10)));
    peer.wait(10_000);
    peer.expect_silence();
    assert_eq!(peer.count(Count::RetransmitTimeouts), 0);
}

#[test]
fn what_changes_the_window_or_has_data_is_no_duplicate() {
    // RFC 5681 section 2.
    let (mut peer, _) = sender(10, plain());
    for n in 0..6 {
        peer.send(segment(ACK).window(60_000 - n));
        peer.send(segment(ACK).seq(1 + 10 * u32::from(n)).data(10).window(60_000 - n));
    }
    assert_eq!(numbers(&peer.all()), []);
    assert_eq!(peer.count(Count::FastRetransmits), 0);
}

#[test]
fn a_partial_acknowledgement_brings_the_next_hole() {
    // RFC 6582 section 3.2: the segments 0, 3 and 6 are lost.
    let (mut peer, _) = sender(10, plain());
    for _ in 0..7 {
        peer.send(segment(ACK));
    }
    assert_eq!(numbers(&peer.all()), [0]);
    peer.send(segment(ACK).ack(nth(3)));
    assert_eq!(numbers(&peer.all()), [3]);
    peer.send(segment(ACK).ack(nth(6)));
    assert_eq!(numbers(&peer.all()), [6]);
    peer.send(segment(ACK).ack(nth(10)));
    assert_eq!((peer.count(Count::FastRetransmits), peer.count(Count::RetransmitTimeouts)), (1, 0));
}

#[test]
fn blocks_show_which_segments_are_lost() {
    let (mut peer, _) = sender(10, selective());
    // 0, 2 and 3 are lost.
    peer.send(segment(ACK).sack(&[block(1, 2)]));
    peer.send(segment(ACK).sack(&[block(4, 5), block(1, 2)]));
    peer.expect_silence();
    peer.send(segment(ACK).sack(&[block(4, 6), block(1, 2)]));
    for n in 7..=10 {
        peer.send(segment(ACK).sack(&[block(4, n), block(1, 2)]));
    }
    assert_eq!(numbers(&peer.all()), [0, 2, 3]);
    peer.send(segment(ACK).ack(nth(10)));
    peer.wait(10_000);
    peer.expect_silence();
    assert_eq!((peer.count(Count::FastRetransmits), peer.count(Count::RetransmitTimeouts)), (1, 0));
    assert_eq!(peer.stack.held(), (0, 0));
}

#[test]
fn what_is_late_by_less_than_a_quarter_of_a_round_trip_is_not_sent_again() {
    let (mut peer, _) = sender(3, selective());
    peer.send(segment(ACK).sack(&[block(1, 2)]));
    peer.wait(12);
    peer.send(segment(ACK).ack(nth(2)));
    peer.send(segment(ACK).ack(nth(3)));
    peer.wait(10_000);
    peer.expect_silence();
    assert_eq!(peer.count(Count::RetransmittedPackets), 0);

    let (mut peer, _) = sender(3, selective());
    peer.send(segment(ACK).sack(&[block(1, 2)]));
    about(peer.after(ACK, nth(0), 1, 1460), 12.5);
    assert_eq!(peer.count(Count::FastRetransmits), 1);
}

#[test]
fn a_lost_tail_is_probed_before_the_time_out() {
    // RFC 8985 section 7.2: after two round trips.
    let (mut peer, _) = sender(5, selective());
    about(peer.after(ACK, nth(4), 1, 1460), 100.0);
    assert_eq!((peer.count(Count::TailProbesSent), peer.count(Count::RetransmitTimeouts)), (1, 0));
    // Segments 2 and 3 were lost, 4 now has come.
    peer.wait(50);
    peer.send(segment(ACK).ack(nth(2)).sack(&[block(4, 5)]));
    peer.wait(13);
    // Nothing was delivered since recovery began: one at first (RFC 6937).
    assert_eq!(numbers(&peer.all()), [2]);
    peer.send(segment(ACK).ack(nth(3)).sack(&[block(4, 5)]));
    assert_eq!(numbers(&peer.all()), [3]);
    peer.send(segment(ACK).ack(nth(5)));
    peer.wait(10_000);
    peer.expect_silence();
    assert_eq!(peer.count(Count::RetransmitTimeouts), 0);
}

#[test]
fn a_path_of_microseconds_has_milliseconds_until_its_tail_is_probed() {
    let program = vec![Instruction::Connect, SEND, Instruction::WaitForPeerClose];
    let mut peer = Peer::client(program, u64::from(5 * FULL), selective());
    peer.round_trip = 0;
    peer.handshake(SACK_PERMITTED, 65_535);
    peer.all();
    about(peer.after(ACK, nth(4), 1, 1460), 10.0);
    assert_eq!((peer.count(Count::TailProbesSent), peer.count(Count::RetransmitTimeouts)), (1, 0));
}

#[test]
fn a_probe_is_of_new_data_if_there_is_any() {
    let (mut peer, _) = sender(20, selective());
    about(peer.after(ACK, nth(10), 1, 1460), 100.0);
}

#[test]
fn a_probe_repeats_what_was_sent_and_no_more() {
    // The window takes less than a full segment.
    let mut peer = Peer::client(vec![Instruction::Connect, SEND], 10_000, selective());
    peer.handshake(SACK_PERMITTED, 500);
    peer.expect_segment(ACK, 1, 1, 500);
    about(peer.after(ACK, 1, 1, 500), 200.0);
    assert_eq!((peer.count(Count::TailProbesSent), peer.count(Count::SentDataBytes)), (1, 500));
}

#[test]
fn a_lone_segment_is_probed_when_its_time_out_comes_and_the_time_out_follows() {
    let (mut peer, _) = sender(1, selective());
    about(peer.after(ACK, nth(0), 1, 1460), 200.0);
    assert_eq!((peer.count(Count::TailProbesSent), peer.count(Count::RetransmitTimeouts)), (1, 0));
    about(peer.after(ACK, nth(0), 1, 1460), 200.0);
    assert_eq!(peer.count(Count::RetransmitTimeouts), 1);
    about(peer.after(ACK, nth(0), 1, 1460), 400.0);
}

#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_later() {
    let (mut peer, _) = sender(30, selective());
    for n in 2..=10 {
        peer.send(segment(ACK).sack(&[block(1, n)]));
        peer.wait(1);
    }
    let sent = numbers(&peer.all());
    assert_eq!(sent.iter().filter(|n| **n == 0).count(), 1);
    let newest = sent.iter().max().copied().expect("new data");
    assert!(newest > 10, "{sent:?}");
    peer.wait(50);
    peer.send(segment(ACK).sack(&[block(1, newest + 1)]));
    assert_eq!(numbers(&peer.all()).first(), Some(&0), "again, without a time-out");
    assert_eq!(peer.count(Count::RetransmitTimeouts), 0);
}

#[test]
fn in_recovery_one_segment_goes_for_two_that_arrive() {
    // RFC 6937: Reno halves.
    let reno = Tunables { congestion_control: CongestionControl::NewReno, initial_window: 20, ..selective() };
    let (mut peer, _) = sender(60, reno);
    let mut sent = Vec::new();
    for n in 2..=20 {
        peer.send(segment(ACK).sack(&[block(1, n)]));
        sent.push(peer.all().len());
    }
    let before: usize = sent[..2].iter().sum();
    assert!(before <= 2, "limited transmit: {sent:?}");
    let total: usize = sent.iter().sum();
    assert!((9..=11).contains(&total), "{sent:?}");
    assert!(sent[4..].windows(2).all(|pair| pair[0] + pair[1] <= 1 + 1), "evenly: {sent:?}");
    peer.send(segment(ACK).ack(nth(20)));
    let flight = peer.all();
    assert!(flight.len() <= 2, "no burst: {}", flight.len());
}

#[test]
fn a_time_out_that_was_none_is_undone() {
    // RFC 5682 section 3.1: the path stood still for a while.
    let reno = Tunables { congestion_control: CongestionControl::NewReno, ..selective() };
    let (mut peer, _) = sender(40, reno);
    about(peer.after(ACK, nth(10), 1, 1460), 100.0);
    about(peer.after(ACK, nth(0), 1, 1460), 200.0);
    peer.expect_silence();
    peer.send(segment(ACK).ack(nth(1)));
    let new = numbers(&peer.all());
    assert!(new.len() <= 2 && new.iter().all(|n| *n > 10), "new data only: {new:?}");
    peer.send(segment(ACK).ack(nth(2)));
    assert_eq!(peer.count(Count::SpuriousTimeouts), 1);
    for n in 3..=11 {
        peer.send(segment(ACK).ack(nth(n)));
    }
    let rest = numbers(&peer.all());
    assert!(rest.iter().all(|n| *n > 10), "nothing is sent again: {rest:?}");
    assert!(rest.len() >= 8, "the window is as before: {rest:?}");
    assert_eq!(peer.count(Count::RetransmittedPackets), 1);
}

#[test]
fn a_time_out_with_losses_is_not_undone() {
    let (mut peer, _) = sender(40, selective());
    peer.after(ACK, nth(10), 1, 1460);
    peer.after(ACK, nth(0), 1, 1460);
    peer.send(segment(ACK).ack(nth(1)));
    let new = numbers(&peer.all());
    let last = new.iter().max().copied().expect("new data");
    // What was sent before is lost; of the new segments one has come.
    peer.send(segment(ACK).ack(nth(1)).sack(&[block(last, last + 1)]));
    peer.send(segment(ACK).ack(nth(1)).sack(&[block(last - 1, last + 1)]));
    assert_eq!(numbers(&peer.all()).first(), Some(&1));
    assert_eq!(peer.count(Count::SpuriousTimeouts), 0);
}

#[test]
fn the_first_two_duplicates_let_new_data_go() {
    // RFC 3042.
    let (mut peer, _) = sender(40, plain());
    for n in 10..12 {
        peer.send(segment(ACK));
        peer.expect_segment(ACK, nth(n), 1, 1460);
        peer.expect_silence();
    }
    let (mut peer, _) = sender(40, selective());
    for n in 10..12 {
        peer.send(segment(ACK).sack(&[block(1, n - 8)]));
        peer.expect_segment(ACK, nth(n), 1, 1460);
        peer.expect_silence();
    }
}

#[test]
fn the_first_segment_sent_again_has_its_whole_time() {
    // RFC 6298 section 5: what is acknowledged meanwhile does not move on, nor does the timeout begin before it was sent.
    let (mut peer, _) = sender(10, plain());
    peer.wait(50);
    peer.send(segment(ACK).ack(nth(1)));
    peer.wait(150);
    for _ in 0..3 {
        peer.send(segment(ACK).ack(nth(1)));
    }
    peer.expect_segment(ACK, nth(1), 1, 1460);
    about(peer.after(ACK, nth(1), 1, 1460), 200.0);
}

#[test]
fn a_loss_reported_together_with_much_else_halves_the_window_not_the_rest() {
    // Nine of ten have come, with one acknowledgement: the window was ten, and grew by six before it is reduced.
    let reno = Tunables { congestion_control: CongestionControl::NewReno, ..selective() };
    let (mut peer, _) = sender(60, reno);
    peer.send(segment(ACK).ack(nth(6)).sack(&[block(7, 10)]));
    // What has arrived makes room (RFC 6937): a retransmission first, and no more than the half of sixteen in flight.
    let sent = numbers(&peer.all());
    assert_eq!(sent[0], 6);
    assert!((7..=8).contains(&sent.len()), "{sent:?}");
}

fn timed(segments: u32, tunables: Tunables) -> Peer {
    let tunables = Tunables { timestamps: true, ..tunables };
    let program = vec![Instruction::Connect, SEND, Instruction::WaitForPeerClose];
    let mut peer = Peer::client(program, u64::from(segments) * 1448, tunables);
    peer.handshake(Options { timestamps: Some((5, 0)), ..SACK_PERMITTED }, 65_535);
    peer.all();
    peer
}

fn stamp(now: u64) -> u32 {
    (now >> 20) as u32
}

#[test]
fn a_time_out_is_undone_if_the_original_is_answered() {
    // RFC 3522: all data is sent, so F-RTO (RFC 5682), which needs new data, cannot decide.
    let mut peer = timed(10, selective());
    let first = stamp(peer.now);
    peer.wait(450);
    assert_eq!(peer.count(Count::RetransmitTimeouts), 1);
    let again = numbers_of(&peer.all(), 1448);
    peer.send(segment(ACK).ack(1 + 2 * 1448).timestamps(6, first));
    assert_eq!(peer.count(Count::SpuriousTimeouts), 1);
    peer.send(segment(ACK).ack(1 + 10 * 1448).timestamps(6, first));
    peer.wait(5_000);
    assert_eq!(peer.all().len(), 0, "nothing is sent again after {again:?}");
}

#[test]
fn a_time_out_stands_if_what_was_sent_again_is_answered() {
    let mut peer = timed(10, selective());
    peer.wait(450);
    peer.all();
    let again = stamp(peer.now);
    peer.wait(50);
    peer.send(segment(ACK).ack(1 + 2 * 1448).timestamps(6, again));
    assert_eq!((peer.count(Count::SpuriousTimeouts), peer.count(Count::SpuriousRecoveries)), (0, 0));
}

#[test]
fn a_fast_recovery_is_undone_if_the_original_is_only_late() {
    let mut peer = timed(60, selective());
    let first = stamp(peer.now);
    peer.wait(50);
    for n in 2..=5 {
        peer.send(segment(ACK).sack(&[(1 + 1448, 1 + n * 1448)]).timestamps(6, first));
    }
    assert_eq!(peer.count(Count::FastRetransmits), 1);
    peer.all();
    peer.wait(5);
    peer.send(segment(ACK).ack(1 + 5 * 1448).timestamps(6, first));
    assert_eq!(peer.count(Count::SpuriousRecoveries), 1);
    peer.send(segment(ACK).ack(1 + 10 * 1448).timestamps(6, first));
    let total = numbers_of(&peer.all(), 1448).last().copied().expect("new data");
    assert!(total >= 19, "the window is as before: up to {total}");
}

#[test]
fn a_lone_lost_segment_is_no_spurious_time_out() {
    for (segments, tunables) in [(1, selective()), (3, selective())] {
        let (mut peer, _) = sender(segments, tunables);
        peer.wait(2000);
        peer.all();
        peer.send(segment(ACK).ack(nth(segments)));
        assert_eq!(peer.count(Count::SpuriousTimeouts), 0);
        assert_eq!(peer.stack.held(), (0, 0));
        peer.wait(10_000);
        peer.expect_silence();
    }
}

#[test]
fn many_lost_segments_are_each_sent_again_once() {
    let tunables = Tunables { initial_window: 100, ..selective() };
    let program = vec![Instruction::Connect, SEND];
    let mut peer = Peer::client(program, 100 * 600, Tunables { mss: 600, ..tunables });
    peer.handshake(Options { mss: Some(600), ..SACK_PERMITTED }, 65_535);
    assert_eq!(peer.all().len(), 100);
    // Every segment of the first 80 is lost; the others come one by one.
    let mut again = Vec::new();
    for n in 81..=100u32 {
        peer.send(segment(ACK).sack(&[(1 + 80 * 600, 1 + n * 600)]));
        again.extend(peer.all());
    }
    let mut una = 0;
    while una < 80 && again.len() < 500 {
        peer.wait(1);
        una += 1;
        peer.send(segment(ACK).ack(if una == 80 { 60_001 } else { 1 + una * 600 }).sack(&[]));
        again.extend(peer.all());
    }
    let data: Vec<_> = again.iter().filter(|s| s.len() > 0).collect();
    assert_eq!(data.len(), 80, "each once");
    assert_eq!(peer.count(Count::RetransmitTimeouts), 0);
    assert!(again.iter().any(|s| s.flags & FIN != 0));
}

#[test]
fn a_recovery_is_undone_if_all_that_was_sent_again_came_twice() {
    // RFC 3708, after recovery has ended: without timestamps only a DSACK can show it.
    let (mut peer, _) = sender(100, selective());
    peer.wait(50);
    for n in 2..=5 {
        peer.send(segment(ACK).sack(&[block(1, n)]));
    }
    assert_eq!(peer.count(Count::FastRetransmits), 1);
    assert_eq!(numbers(&peer.all()).iter().filter(|n| **n == 0).count(), 1);
    peer.wait(5);
    let highest = 11;
    peer.send(segment(ACK).ack(nth(highest)));
    let reduced = peer.all().len();
    peer.wait(45);
    peer.send(segment(ACK).ack(nth(highest)).sack(&[block(0, 1)]));
    assert_eq!((peer.count(Count::SpuriousRecoveries), peer.count(Count::DsackReceived)), (1, 1));
    assert!(!peer.all().is_empty(), "the window is as before: more than {reduced}");
    // Reported again it is nothing new.
    peer.send(segment(ACK).ack(nth(highest)).sack(&[block(0, 1)]));
    assert_eq!((peer.count(Count::SpuriousRecoveries), peer.count(Count::DsackReceived)), (1, 2));
}

#[test]
fn a_recovery_stands_if_something_of_it_did_not_come_twice() {
    let (mut peer, _) = sender(100, selective());
    peer.wait(50);
    // 0 and 1 are taken for lost; only 1 was late.
    for n in 3..=7 {
        peer.send(segment(ACK).sack(&[block(2, n)]));
    }
    let again: Vec<_> = numbers(&peer.all()).into_iter().filter(|n| *n < 10).collect();
    assert_eq!(again, [0, 1]);
    peer.wait(50);
    peer.send(segment(ACK).ack(nth(10)).sack(&[block(1, 2)]));
    peer.send(segment(ACK).ack(nth(11)));
    assert_eq!((peer.count(Count::SpuriousRecoveries), peer.count(Count::DsackReceived)), (0, 1));
}

#[test]
fn a_time_out_is_undone_if_all_that_was_sent_again_came_twice() {
    // All data is sent, so that nothing but a DSACK can show it.
    let (mut peer, _) = sender(10, selective());
    peer.wait(400);
    assert_eq!(peer.count(Count::RetransmitTimeouts), 1);
    let again = numbers(&peer.all());
    assert_eq!(again, [9, 0], "the probe of the tail, and the first");
    peer.send(segment(ACK).ack(nth(1)));
    peer.all();
    peer.send(segment(ACK).ack(nth(10)));
    assert_eq!(peer.count(Count::SpuriousTimeouts), 0);
    peer.wait(10_000);
    peer.expect_silence();

    let (mut peer, _) = sender(10, selective());
    peer.wait(400);
    peer.all();
    // The acknowledgement of the originals was lost; this one answers what was sent again.
    peer.send(segment(ACK).ack(nth(5)).sack(&[block(0, 1)]));
    assert_eq!(peer.count(Count::SpuriousTimeouts), 1);
    assert_eq!(numbers(&peer.all()), [], "the window is as before, and nothing is taken for lost");
}

/// SACK reports a hole, and a third block above it. Returns how long it takes until the hole is retransmitted.
fn late_for(peer: &mut Peer, first: u32) -> f64 {
    let start = peer.now;
    for n in 2..=4 {
        peer.send(segment(ACK).ack(nth(first)).sack(&[block(first + 1, first + n)]));
    }
    loop {
        if let Some(again) = peer.all().iter().find(|s| s.seq == nth(first) && s.len() > 0) {
            return (again.at - start) as f64 / 1e6;
        }
        assert!(peer.now < start + 1_000_000_000, "never");
        peer.wait_us(100);
    }
}

#[test]
fn once_segments_have_come_in_disorder_the_late_are_waited_for_also_much_later() {
    let (mut peer, _) = sender(1000, selective());
    assert!(late_for(&mut peer, 0) < 0.1, "three above it, and none was ever late");

    let (mut peer, _) = sender(1000, selective());
    // The segment 0 is late, and the recovery is over.
    peer.send(segment(ACK).sack(&[block(1, 2)]));
    peer.wait(2);
    peer.send(segment(ACK).ack(nth(2)));
    assert_eq!(peer.stack.held(), (0, 0));
    // A quarter of the round trip of 50 ms; round trips that are measured meanwhile move it.
    let waited = late_for(&mut peer, 2);
    assert!((5.0..14.0).contains(&waited), "{waited} ms");
    // It came twice: half a round trip from now on.
    peer.wait(5);
    let sent = peer.all();
    let end = sent.iter().map(|s| s.seq + s.len() as u32).max().unwrap_or(nth(12)).max(nth(12));
    peer.send(segment(ACK).ack(end).sack(&[block(2, 3)]));
    assert_eq!(peer.count(Count::SpuriousRecoveries), 1);
    let more = peer.all();
    assert!(more.len() >= 5, "{}", more.len());
    let first = (more[0].seq - 1) / FULL;
    let longer = late_for(&mut peer, first);
    assert!(longer > 1.6 * waited, "{longer} ms after {waited} ms");
}

#[test]
fn what_the_peer_reported_and_dropped_is_sent_again() {
    // RFC 2018 section 8 (reneging): 0 is lost, 1 to 4 are reported in SACK blocks, and discarded by the peer when 0 arrives.
    let (mut peer, _) = sender(10, selective());
    for n in 2..=5 {
        peer.send(segment(ACK).sack(&[block(1, n)]));
    }
    peer.all();
    peer.wait(50);
    peer.send(segment(ACK).ack(nth(1)));
    peer.all();
    let mut una = 1;
    for _ in 0..10 {
        peer.wait(1000);
        for n in numbers(&peer.all()) {
            una = if n == una { una + 1 } else { una };
        }
        peer.send(segment(ACK).ack(nth(una)));
        for n in numbers(&peer.all()) {
            una = if n == una { una + 1 } else { una };
        }
        peer.send(segment(ACK).ack(nth(una)));
    }
    assert_eq!(una, 10, "all has come: {} time-outs", peer.count(Count::RetransmitTimeouts));
    assert!(peer.count(Count::RetransmitTimeouts) > 0, "that is how it was found");
    assert_eq!(peer.stack.held(), (0, 0));
}
