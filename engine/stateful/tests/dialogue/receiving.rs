// SPDX-License-Identifier: Apache-2.0
//! What is acknowledged, and when (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2, RFC 2018, RFC 7323).
use super::peer::{ACK, MSS, SACK_PERMITTED, SEND, Talk, about, plain, say, selective};
use spate_stateful::{Count, Instruction, Tunables, packet::Options};

fn receiver(tunables: Tunables, options: Options) -> Talk {
    let mut talk = Talk::server(vec![Instruction::Accept, Instruction::WaitForPeerClose], 1, tunables);
    talk.shake(options, 65_535);
    talk
}

#[test]
fn one_segment_is_acknowledged_later_and_the_second_at_once() {
    let mut talk = receiver(plain(), MSS);
    talk.tell(say(ACK).data(1460));
    talk.quiet();
    about(talk.after(ACK, 1, 1461, 0), 40.0);
    talk.tell(say(ACK).seq(1461).data(1460));
    talk.quiet();
    talk.tell(say(ACK).seq(2921).data(1460));
    talk.hears(ACK, 1, 4381, 0);
    talk.wait(1000);
    talk.quiet();
    assert_eq!(talk.count(Count::DelayedAcks), 1);
}

#[test]
fn without_delay_each_is_acknowledged_at_once() {
    let mut talk = receiver(Tunables { delayed_ack_ns: 0, ..plain() }, MSS);
    talk.tell(say(ACK).data(10));
    talk.hears(ACK, 1, 11, 0);
}

#[test]
fn out_of_order_each_is_acknowledged_at_once_also_if_several_came_together() {
    let mut talk = receiver(plain(), MSS);
    for n in 0..3 {
        talk.tell(say(ACK).seq(1001 + 1000 * n).data(1000));
        talk.hears(ACK, 1, 1, 0);
    }
    for n in 3..6 {
        talk.tell_without_listening(say(ACK).seq(1001 + 1000 * n).data(1000));
    }
    talk.listen();
    for _ in 3..6 {
        talk.hears(ACK, 1, 1, 0);
    }
    talk.quiet();
    // The gap is filled: at once.
    talk.tell(say(ACK).data(1000));
    talk.hears(ACK, 1, 7001, 0);
    talk.quiet();
    assert_eq!((talk.count(Count::ReceivedDataBytes), talk.stack.held()), (7000, (0, 0)));
}

#[test]
fn blocks_tell_the_latest_first_and_join() {
    let mut talk = receiver(selective(), SACK_PERMITTED);
    let mut tell = |seq: u32, blocks: &[(u32, u32)]| {
        talk.tell(say(ACK).seq(seq).data(100));
        let options = talk.hears(ACK, 1, 1, 0).options;
        assert_eq!(&options.sack[..options.sacks], blocks);
    };
    tell(1001, &[(1001, 1101)]);
    tell(3001, &[(3001, 3101), (1001, 1101)]);
    tell(2001, &[(2001, 2101), (1001, 1101), (3001, 3101)]);
    tell(1101, &[(1001, 1201), (2001, 2101), (3001, 3101)]);
    tell(2901, &[(2901, 2901 + 200), (1001, 1201), (2001, 2101)]);
}

#[test]
fn three_blocks_fit_beside_timestamps_and_four_without() {
    for (timestamps, most) in [(false, 4), (true, 3)] {
        let stamp = |say: super::peer::Say| if timestamps { say.timestamps(9, 0) } else { say };
        let mut talk = receiver(
            Tunables { timestamps, ..selective() },
            Options { timestamps: timestamps.then_some((9, 0)), ..SACK_PERMITTED },
        );
        if timestamps {
            talk.all();
            talk.tell(stamp(say(ACK)));
        }
        for n in 1..=6 {
            talk.tell(stamp(say(ACK).seq(1000 * n).data(10)));
        }
        assert_eq!(talk.all().last().map(|ack| ack.options.sacks), Some(most));
    }
}

#[test]
fn overlaps_and_duplicates_count_once() {
    let mut talk = receiver(selective(), SACK_PERMITTED);
    for (seq, len) in [(1, 100), (51, 100), (301, 100), (251, 100), (301, 200), (1, 50), (151, 400), (1, 700)] {
        talk.tell(say(ACK).seq(seq).data(len));
    }
    assert_eq!(talk.all().last().map(|ack| ack.ack), Some(701));
    assert_eq!(talk.count(Count::ReceivedDataBytes), 700);
    assert_eq!(talk.stack.held(), (0, 0));
}

#[test]
fn a_duplicate_is_acknowledged_at_once() {
    let mut talk = receiver(plain(), MSS);
    talk.tell(say(ACK).data(100));
    talk.wait(50);
    talk.hears(ACK, 1, 101, 0);
    talk.tell(say(ACK).data(100));
    talk.hears(ACK, 1, 101, 0);
    assert_eq!((talk.count(Count::DuplicatePackets), talk.count(Count::ReceivedDataBytes)), (1, 100));
}

#[test]
fn data_beyond_the_window_is_not_taken() {
    let mut talk = receiver(Tunables { receive_buffer: 1000, ..plain() }, MSS);
    talk.tell(say(ACK).data(1200));
    assert_eq!(talk.next().ack, 1001);
    talk.tell(say(ACK).seq(5000).data(100));
    talk.hears(ACK, 1, 1001, 0);
    assert_eq!(talk.count(Count::ReceivedDataBytes), 1000);
}

#[test]
fn the_echoed_timestamp_is_of_the_first_segment_an_acknowledgement_is_about() {
    // RFC 7323 section 4.3.
    let options = Options { timestamps: Some((10, 0)), ..SACK_PERMITTED };
    let mut talk = receiver(Tunables { timestamps: true, ..selective() }, options);
    talk.all();
    talk.tell(say(ACK).timestamps(11, 0));
    let mut tell = |seq: u32, len: usize, stamp: u32, echo: u32| {
        talk.tell(say(ACK).seq(seq).data(len).timestamps(stamp, 0));
        talk.wait(50);
        let ack = talk.all().pop().expect("an acknowledgement");
        assert_eq!(ack.options.timestamps.map(|(_, echo)| echo), Some(echo), "seq {seq} stamp {stamp}");
    };
    tell(1, 100, 20, 20);
    // Beyond a hole: not of it.
    tell(201, 100, 21, 20);
    // Of what fills the hole.
    tell(101, 100, 22, 22);
    tell(301, 100, 23, 23);
    // Several, one acknowledgement: the first of them.
    talk.tell(say(ACK).seq(401).data(100).timestamps(30, 0));
    talk.tell(say(ACK).seq(501).data(100).timestamps(31, 0));
    let ack = {
        talk.wait(50);
        talk.all().pop().expect("an acknowledgement")
    };
    assert_eq!(ack.options.timestamps.map(|(_, echo)| echo), Some(30));
}

#[test]
fn segments_of_an_earlier_time_are_dropped_and_answered() {
    // PAWS, RFC 7323 section 5.3.
    let options = Options { timestamps: Some((1000, 0)), ..SACK_PERMITTED };
    let mut talk = receiver(Tunables { timestamps: true, ..selective() }, options);
    talk.tell(say(ACK).timestamps(1001, 0));
    talk.all();
    talk.tell(say(ACK).data(100).timestamps(999, 0));
    talk.hears(ACK, 1, 1, 0);
    assert_eq!((talk.count(Count::OldTimestamps), talk.count(Count::ReceivedDataBytes)), (1, 0));
    talk.tell(say(ACK).data(100).timestamps(1001, 0));
    assert_eq!(talk.count(Count::ReceivedDataBytes), 100);
    // After 24 days the clock may have gone round.
    talk.now += 30 * 24 * 3600 * 1_000_000_000;
    talk.tell(say(ACK).seq(101).data(100).timestamps(5, 0));
    assert_eq!(talk.count(Count::ReceivedDataBytes), 200);
}

#[test]
fn marks_are_echoed_until_the_peer_has_reduced() {
    // RFC 3168 section 6.1.3.
    use super::peer::{CWR, ECE, SYN};
    let mut talk = Talk::server(
        vec![Instruction::Accept, Instruction::WaitForPeerClose],
        1,
        Tunables { ecn: true, delayed_ack_ns: 0, ..plain() },
    );
    talk.tell(say(SYN | ECE | CWR).seq(0).options(MSS));
    talk.hears(SYN | ACK | ECE, 0, 1, 0);
    talk.tell(say(ACK));
    talk.tell(say(ACK).data(100));
    talk.hears(ACK, 1, 101, 0);
    talk.tell(say(ACK).seq(101).data(100).marked());
    talk.hears(ACK | ECE, 1, 201, 0);
    talk.tell(say(ACK).seq(201).data(100));
    talk.hears(ACK | ECE, 1, 301, 0);
    talk.tell(say(ACK | CWR).seq(301).data(100).marked());
    talk.hears(ACK | ECE, 1, 401, 0);
    talk.tell(say(ACK | CWR).seq(401).data(100));
    talk.hears(ACK, 1, 501, 0);
    assert_eq!(talk.count(Count::CongestionMarks), 2);
}

#[test]
fn what_comes_twice_is_reported_once_in_the_first_block() {
    // RFC 2883 section 4.
    let mut talk = receiver(selective(), SACK_PERMITTED);
    talk.tell(say(ACK).data(1000));
    talk.tell(say(ACK).seq(1001).data(1000));
    talk.all();
    let mut tell = |seq: u32, len: usize, blocks: &[(u32, u32)]| {
        talk.tell(say(ACK).seq(seq).data(len));
        let told = talk.next();
        assert_eq!(&told.options.sack[..told.options.sacks], blocks, "{told:?}");
        talk.quiet();
    };
    // Below what is expected: all of it, and a part.
    tell(501, 500, &[(501, 1001)]);
    tell(2501, 100, &[(2501, 2601)]);
    tell(2701, 100, &[(2701, 2801), (2501, 2601)]);
    // Of a range that came out of order, with the range behind it.
    tell(2501, 100, &[(2501, 2601), (2501, 2601), (2701, 2801)]);
    tell(2601, 100, &[(2501, 2801)]);
    tell(2551, 200, &[(2551, 2751), (2501, 2801)]);
    tell(1501, 600, &[(1501, 2001), (2501, 2801)]);
    tell(2101, 400, &[]);
    assert_eq!((talk.count(Count::DsackSent), talk.stack.held()), (4, (0, 0)));
    assert_eq!(talk.count(Count::ReceivedDataBytes), 2800);
}

#[test]
fn what_comes_twice_is_reported_with_data_and_only_where_blocks_were_agreed_on() {
    for (tunables, options, told) in [(selective(), SACK_PERMITTED, 1), (plain(), MSS, 0)] {
        let program = vec![
            Instruction::Accept,
            Instruction::Receive { bytes: 100, clear: true },
            SEND,
            Instruction::WaitForPeerClose,
        ];
        let mut talk = Talk::server(program, 3000, tunables);
        talk.shake(options, 1000);
        talk.tell(say(ACK).data(100).window(1000));
        talk.all();
        talk.tell_without_listening(say(ACK).data(100).window(1000));
        talk.tell(say(ACK).seq(101).ack(1001).window(1000));
        let heard = talk.all();
        assert!(heard[0].len() > 0, "{heard:?}");
        let blocks: Vec<_> = heard.iter().flat_map(|s| s.options.sack[..s.options.sacks].to_vec()).collect();
        assert_eq!(blocks, [(1, 101)][..told]);
        assert_eq!((talk.count(Count::DsackSent), talk.stack.held()), (told as u64, (0, 0)));
    }
}

#[test]
fn acknowledgements_that_were_overtaken_are_taken_in_and_not_answered() {
    let tunables = Tunables { timestamps: true, ..selective() };
    let program = vec![Instruction::Accept, SEND, Instruction::WaitForPeerClose];
    let mut talk = Talk::server(program, 100_000, tunables);
    talk.tell(say(super::peer::SYN).seq(0).options(Options { timestamps: Some((1000, 0)), ..SACK_PERMITTED }));
    talk.all();
    talk.wait(50);
    talk.tell(say(ACK).timestamps(1050, 0));
    let sent = talk.all().len();
    assert_eq!(sent, 10);
    let nth = |n: u32| 1 + n * 1448;
    talk.wait(50);
    // The third acknowledgement comes first.
    talk.tell(say(ACK).ack(nth(2)).timestamps(1110, 0).sack(&[(nth(5), nth(6))]));
    talk.tell(say(ACK).ack(nth(1)).timestamps(1105, 0));
    talk.tell(say(ACK).ack(nth(2)).timestamps(1106, 0).sack(&[(nth(3), nth(4))]));
    assert!(talk.all().iter().all(|s| s.len() > 0), "data only");
    assert_eq!((talk.count(Count::OldTimestamps), talk.count(Count::SackBlocksReceived)), (0, 2));
    // Of long ago, with data, or not in its turn: as RFC 7323 section 5.3 says.
    // Without data within half a second: once.
    let lates = [
        (say(ACK).timestamps(600, 0), 1),
        (say(ACK).data(5).timestamps(1105, 0), 1),
        (say(ACK).seq(0).timestamps(1105, 0), 0),
    ];
    for (late, answers) in lates {
        talk.tell(late.ack(nth(2)));
        assert_eq!(talk.all().iter().filter(|s| s.len() == 0).count(), answers);
    }
    assert_eq!((talk.count(Count::OldTimestamps), talk.count(Count::AcksSuppressed)), (3, 1));
}

#[test]
fn what_came_out_of_order_is_held_once_however_often_it_comes() {
    let until = Instruction::ReceiveUntil(spate_stateful::program::Until::Pattern([1].into()));
    let mut talk = Talk::server(vec![Instruction::Accept, until], 10, selective());
    talk.tell(say(super::peer::SYN).seq(0).options(SACK_PERMITTED));
    talk.all();
    talk.tell(say(ACK));
    talk.tell(say(ACK).seq(1001).data(1000));
    let held = talk.stack.held_chunks();
    assert!(held > 0);
    for _ in 0..200 {
        talk.tell(say(ACK).seq(1001).data(1000));
        talk.tell(say(ACK).seq(1301).data(500));
        assert_eq!(talk.stack.held_chunks(), held);
    }
    // Of what begins before, or ends behind, the rest is held.
    talk.tell(say(ACK).seq(901).data(1100));
    talk.tell(say(ACK).seq(1001).data(1100));
    let more = talk.stack.held_chunks() - held;
    assert!((1..=2).contains(&more), "{more}");
    talk.all();
    talk.tell(say(ACK).data(900));
    assert_eq!(talk.all().last().map(|s| s.ack), Some(2101));
    assert_eq!((talk.count(Count::OutOfOrderDropped), talk.stack.held_chunks()), (0, 0));
    assert_eq!(talk.count(Count::ReceivedDataBytes), 2100);
}
