// SPDX-License-Identifier: Apache-2.0
//! What is acknowledged, and when (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2, RFC 2018, RFC 7323).
use super::peer::{ACK, MSS, Peer, SACK_PERMITTED, SEND, about, plain, segment, selective};
use spate_stateful::{Count, Instruction, Tunables, packet::Options};

fn receiver(tunables: Tunables, options: Options) -> Peer {
    let mut peer = Peer::server(vec![Instruction::Accept, Instruction::WaitForPeerClose], 1, tunables);
    peer.handshake(options, 65_535);
    peer
}

#[test]
fn one_segment_is_acknowledged_later_and_the_second_at_once() {
    let mut peer = receiver(plain(), MSS);
    peer.send(segment(ACK).data(1460));
    peer.expect_silence();
    about(peer.after(ACK, 1, 1461, 0), 40.0);
    peer.send(segment(ACK).seq(1461).data(1460));
    peer.expect_silence();
    peer.send(segment(ACK).seq(2921).data(1460));
    peer.expect_segment(ACK, 1, 4381, 0);
    peer.wait(1000);
    peer.expect_silence();
    assert_eq!(peer.count(Count::DelayedAcks), 1);
}

#[test]
fn without_delay_each_is_acknowledged_at_once() {
    let mut peer = receiver(Tunables { delayed_ack_ns: 0, ..plain() }, MSS);
    peer.send(segment(ACK).data(10));
    peer.expect_segment(ACK, 1, 11, 0);
}

#[test]
fn out_of_order_each_is_acknowledged_at_once_also_if_several_came_together() {
    let mut peer = receiver(plain(), MSS);
    for n in 0..3 {
        peer.send(segment(ACK).seq(1001 + 1000 * n).data(1000));
        peer.expect_segment(ACK, 1, 1, 0);
    }
    for n in 3..6 {
        peer.send_only(segment(ACK).seq(1001 + 1000 * n).data(1000));
    }
    peer.collect();
    for _ in 3..6 {
        peer.expect_segment(ACK, 1, 1, 0);
    }
    peer.expect_silence();
    // The gap is filled: at once.
    peer.send(segment(ACK).data(1000));
    peer.expect_segment(ACK, 1, 7001, 0);
    peer.expect_silence();
    assert_eq!((peer.count(Count::ReceivedDataBytes), peer.stack.held()), (7000, (0, 0)));
}

#[test]
fn blocks_report_the_latest_first_and_join() {
    let mut peer = receiver(selective(), SACK_PERMITTED);
    let mut expect = |seq: u32, blocks: &[(u32, u32)]| {
        peer.send(segment(ACK).seq(seq).data(100));
        let options = peer.expect_segment(ACK, 1, 1, 0).options;
        assert_eq!(&options.sack[..options.sacks], blocks);
    };
    expect(1001, &[(1001, 1101)]);
    expect(3001, &[(3001, 3101), (1001, 1101)]);
    expect(2001, &[(2001, 2101), (1001, 1101), (3001, 3101)]);
    expect(1101, &[(1001, 1201), (2001, 2101), (3001, 3101)]);
    expect(2901, &[(2901, 2901 + 200), (1001, 1201), (2001, 2101)]);
}

#[test]
fn three_blocks_fit_beside_timestamps_and_four_without() {
    for (timestamps, most) in [(false, 4), (true, 3)] {
        let stamp = |segment: super::peer::Segment| if timestamps { segment.timestamps(9, 0) } else { segment };
        let mut peer = receiver(
            Tunables { timestamps, ..selective() },
            Options { timestamps: timestamps.then_some((9, 0)), ..SACK_PERMITTED },
        );
        if timestamps {
            peer.all();
            peer.send(stamp(segment(ACK)));
        }
        for n in 1..=6 {
            peer.send(stamp(segment(ACK).seq(1000 * n).data(10)));
        }
        assert_eq!(peer.all().last().map(|ack| ack.options.sacks), Some(most));
    }
}

#[test]
fn overlaps_and_duplicates_count_once() {
    let mut peer = receiver(selective(), SACK_PERMITTED);
    for (seq, len) in [(1, 100), (51, 100), (301, 100), (251, 100), (301, 200), (1, 50), (151, 400), (1, 700)] {
        peer.send(segment(ACK).seq(seq).data(len));
    }
    assert_eq!(peer.all().last().map(|ack| ack.ack), Some(701));
    assert_eq!(peer.count(Count::ReceivedDataBytes), 700);
    assert_eq!(peer.stack.held(), (0, 0));
}

#[test]
fn a_duplicate_is_acknowledged_at_once() {
    let mut peer = receiver(plain(), MSS);
    peer.send(segment(ACK).data(100));
    peer.wait(50);
    peer.expect_segment(ACK, 1, 101, 0);
    peer.send(segment(ACK).data(100));
    peer.expect_segment(ACK, 1, 101, 0);
    assert_eq!((peer.count(Count::DuplicatePackets), peer.count(Count::ReceivedDataBytes)), (1, 100));
}

#[test]
fn data_beyond_the_window_is_not_taken() {
    let mut peer = receiver(Tunables { receive_buffer: 1000, ..plain() }, MSS);
    peer.send(segment(ACK).data(1200));
    assert_eq!(peer.next().ack, 1001);
    peer.send(segment(ACK).seq(5000).data(100));
    peer.expect_segment(ACK, 1, 1001, 0);
    assert_eq!(peer.count(Count::ReceivedDataBytes), 1000);
}

#[test]
fn the_echoed_timestamp_is_of_the_first_segment_an_acknowledgement_is_about() {
    // RFC 7323 section 4.3.
    let options = Options { timestamps: Some((10, 0)), ..SACK_PERMITTED };
    let mut peer = receiver(Tunables { timestamps: true, ..selective() }, options);
    peer.all();
    peer.send(segment(ACK).timestamps(11, 0));
    let mut receive = |seq: u32, len: usize, stamp: u32, echo: u32| {
        peer.send(segment(ACK).seq(seq).data(len).timestamps(stamp, 0));
        peer.wait(50);
        let ack = peer.all().pop().expect("an acknowledgement");
        assert_eq!(ack.options.timestamps.map(|(_, echo)| echo), Some(echo), "seq {seq} stamp {stamp}");
    };
    receive(1, 100, 20, 20);
    // Beyond a hole: not of it.
    receive(201, 100, 21, 20);
    // Of what fills the hole.
    receive(101, 100, 22, 22);
    receive(301, 100, 23, 23);
    // Several, one acknowledgement: the first of them.
    peer.send(segment(ACK).seq(401).data(100).timestamps(30, 0));
    peer.send(segment(ACK).seq(501).data(100).timestamps(31, 0));
    let ack = {
        peer.wait(50);
        peer.all().pop().expect("an acknowledgement")
    };
    assert_eq!(ack.options.timestamps.map(|(_, echo)| echo), Some(30));
}

#[test]
fn segments_of_an_earlier_time_are_dropped_and_answered() {
    // PAWS, RFC 7323 section 5.3.
    let options = Options { timestamps: Some((1000, 0)), ..SACK_PERMITTED };
    let mut peer = receiver(Tunables { timestamps: true, ..selective() }, options);
    peer.send(segment(ACK).timestamps(1001, 0));
    peer.all();
    peer.send(segment(ACK).data(100).timestamps(999, 0));
    peer.expect_segment(ACK, 1, 1, 0);
    assert_eq!((peer.count(Count::OldTimestamps), peer.count(Count::ReceivedDataBytes)), (1, 0));
    peer.send(segment(ACK).data(100).timestamps(1001, 0));
    assert_eq!(peer.count(Count::ReceivedDataBytes), 100);
    // After 24 days the clock may have gone round.
    peer.now += 30 * 24 * 3600 * 1_000_000_000;
    peer.send(segment(ACK).seq(101).data(100).timestamps(5, 0));
    assert_eq!(peer.count(Count::ReceivedDataBytes), 200);
}

#[test]
fn marks_are_echoed_until_the_peer_has_reduced() {
    // RFC 3168 section 6.1.3.
    use super::peer::{CWR, ECE, SYN};
    let mut peer = Peer::server(
        vec![Instruction::Accept, Instruction::WaitForPeerClose],
        1,
        Tunables { ecn: true, delayed_ack_ns: 0, ..plain() },
    );
    peer.send(segment(SYN | ECE | CWR).seq(0).options(MSS));
    peer.expect_segment(SYN | ACK | ECE, 0, 1, 0);
    peer.send(segment(ACK));
    peer.send(segment(ACK).data(100));
    peer.expect_segment(ACK, 1, 101, 0);
    peer.send(segment(ACK).seq(101).data(100).marked());
    peer.expect_segment(ACK | ECE, 1, 201, 0);
    peer.send(segment(ACK).seq(201).data(100));
    peer.expect_segment(ACK | ECE, 1, 301, 0);
    peer.send(segment(ACK | CWR).seq(301).data(100).marked());
    peer.expect_segment(ACK | ECE, 1, 401, 0);
    peer.send(segment(ACK | CWR).seq(401).data(100));
    peer.expect_segment(ACK, 1, 501, 0);
    assert_eq!(peer.count(Count::CongestionMarks), 2);
}

#[test]
fn what_comes_twice_is_reported_once_in_the_first_block() {
    // RFC 2883 section 4.
    let mut peer = receiver(selective(), SACK_PERMITTED);
    peer.send(segment(ACK).data(1000));
    peer.send(segment(ACK).seq(1001).data(1000));
    peer.all();
    let mut expect = |seq: u32, len: usize, blocks: &[(u32, u32)]| {
        peer.send(segment(ACK).seq(seq).data(len));
        let seen = peer.next();
        assert_eq!(&seen.options.sack[..seen.options.sacks], blocks, "{seen:?}");
        peer.expect_silence();
    };
    // Below what is expected: all of it, and a part.
    expect(501, 500, &[(501, 1001)]);
    expect(2501, 100, &[(2501, 2601)]);
    expect(2701, 100, &[(2701, 2801), (2501, 2601)]);
    // Of a range that came out of order, with the range behind it.
    expect(2501, 100, &[(2501, 2601), (2501, 2601), (2701, 2801)]);
    expect(2601, 100, &[(2501, 2801)]);
    expect(2551, 200, &[(2551, 2751), (2501, 2801)]);
    expect(1501, 600, &[(1501, 2001), (2501, 2801)]);
    expect(2101, 400, &[]);
    assert_eq!((peer.count(Count::DsackSent), peer.stack.held()), (4, (0, 0)));
    assert_eq!(peer.count(Count::ReceivedDataBytes), 2800);
}

#[test]
fn what_comes_twice_is_reported_with_data_and_only_where_blocks_were_agreed_on() {
    for (tunables, options, dsacks) in [(selective(), SACK_PERMITTED, 1), (plain(), MSS, 0)] {
        let program = vec![
            Instruction::Accept,
            Instruction::Receive { bytes: 100, clear: true },
            SEND,
            Instruction::WaitForPeerClose,
        ];
        let mut peer = Peer::server(program, 3000, tunables);
        peer.handshake(options, 1000);
        peer.send(segment(ACK).data(100).window(1000));
        peer.all();
        peer.send_only(segment(ACK).data(100).window(1000));
        peer.send(segment(ACK).seq(101).ack(1001).window(1000));
        let reply = peer.all();
        assert!(reply[0].len() > 0, "{reply:?}");
        let blocks: Vec<_> = reply.iter().flat_map(|s| s.options.sack[..s.options.sacks].to_vec()).collect();
        assert_eq!(blocks, [(1, 101)][..dsacks]);
        assert_eq!((peer.count(Count::DsackSent), peer.stack.held()), (dsacks as u64, (0, 0)));
    }
}

#[test]
fn acknowledgements_that_were_overtaken_are_taken_in_and_not_answered() {
    let tunables = Tunables { timestamps: true, ..selective() };
    let program = vec![Instruction::Accept, SEND, Instruction::WaitForPeerClose];
    let mut peer = Peer::server(program, 100_000, tunables);
    peer.send(segment(super::peer::SYN).seq(0).options(Options { timestamps: Some((1000, 0)), ..SACK_PERMITTED }));
    peer.all();
    peer.wait(50);
    peer.send(segment(ACK).timestamps(1050, 0));
    let sent = peer.all().len();
    assert_eq!(sent, 10);
    let nth = |n: u32| 1 + n * 1448;
    peer.wait(50);
    // The third acknowledgement comes first.
    peer.send(segment(ACK).ack(nth(2)).timestamps(1110, 0).sack(&[(nth(5), nth(6))]));
    peer.send(segment(ACK).ack(nth(1)).timestamps(1105, 0));
    peer.send(segment(ACK).ack(nth(2)).timestamps(1106, 0).sack(&[(nth(3), nth(4))]));
    assert!(peer.all().iter().all(|s| s.len() > 0), "data only");
    assert_eq!((peer.count(Count::OldTimestamps), peer.count(Count::SackBlocksReceived)), (0, 2));
    // From long ago, with data, or out of sequence: as RFC 7323 section 5.3 demands.
    // Without data within half a second: once.
    let lates = [
        (segment(ACK).timestamps(600, 0), 1),
        (segment(ACK).data(5).timestamps(1105, 0), 1),
        (segment(ACK).seq(0).timestamps(1105, 0), 0),
    ];
    for (late, answers) in lates {
        peer.send(late.ack(nth(2)));
        assert_eq!(peer.all().iter().filter(|s| s.len() == 0).count(), answers);
    }
    assert_eq!((peer.count(Count::OldTimestamps), peer.count(Count::AcksSuppressed)), (3, 1));
}

#[test]
fn what_came_out_of_order_is_held_once_however_often_it_comes() {
    let until = Instruction::ReceiveUntil(spate_stateful::program::Until::Pattern([1].into()));
    let mut peer = Peer::server(vec![Instruction::Accept, until], 10, selective());
    peer.send(segment(super::peer::SYN).seq(0).options(SACK_PERMITTED));
    peer.all();
    peer.send(segment(ACK));
    peer.send(segment(ACK).seq(1001).data(1000));
    let held = peer.stack.held_chunks();
    assert!(held > 0);
    for _ in 0..200 {
        peer.send(segment(ACK).seq(1001).data(1000));
        peer.send(segment(ACK).seq(1301).data(500));
        assert_eq!(peer.stack.held_chunks(), held);
    }
    // Of what begins before, or ends behind, the rest is held.
    peer.send(segment(ACK).seq(901).data(1100));
    peer.send(segment(ACK).seq(1001).data(1100));
    let more = peer.stack.held_chunks() - held;
    assert!((1..=2).contains(&more), "{more}");
    peer.all();
    peer.send(segment(ACK).data(900));
    assert_eq!(peer.all().last().map(|s| s.ack), Some(2101));
    assert_eq!((peer.count(Count::OutOfOrderDropped), peer.stack.held_chunks()), (0, 0));
    assert_eq!(peer.count(Count::ReceivedDataBytes), 2100);
}
