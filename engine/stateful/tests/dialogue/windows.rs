// SPDX-License-Identifier: Apache-2.0
//! The peer's window: closed, narrow, scaled (RFC 9293 sections 3.8.6, 3.7.4; RFC 7323 section 2).
use super::peer::{ACK, FIN, MSS, Peer, SEND, about, plain, segment};
use spate_stateful::{Count, Instruction, Tunables, packet::Options};

fn sender(payload: u64, tunables: Tunables, window: u16) -> Peer {
    let mut peer = Peer::client(vec![Instruction::Connect, SEND, Instruction::WaitForPeerClose], payload, tunables);
    peer.handshake(MSS, window);
    peer
}

fn eager() -> Tunables {
    Tunables { no_delay: true, ..plain() }
}

#[test]
fn a_closed_window_is_probed_less_and_less_often() {
    let mut peer = sender(5000, eager(), 0);
    peer.expect_segment(ACK, 1, 1, 0);
    for expected in [200.0, 400.0, 800.0, 1600.0] {
        about(peer.after(ACK, 1, 1, 1), expected);
        peer.send(segment(ACK).window(0));
        peer.expect_silence();
    }
    assert_eq!(peer.count(Count::FastRetransmits), 0, "answers to probes are no sign of loss");
    // Opened again: all of it, the probe's byte first.
    peer.send(segment(ACK).window(10_000));
    let sent = peer.all();
    let mut bytes = vec![false; 5001];
    for s in &sent {
        bytes[s.seq as usize..s.seq as usize + s.len()].fill(true);
    }
    assert!(bytes[1..].iter().all(|sent| *sent), "all of it");
    peer.send(segment(ACK).ack(5001));
    assert_eq!(peer.count(Count::AckedBytes), 5000);
    peer.wait(10_000);
    peer.expect_silence();
}

#[test]
fn a_fin_waits_for_a_closed_window_and_probes_it() {
    // All data is acknowledged, and then the program closes.
    let program = vec![Instruction::Connect, SEND, Instruction::Receive { bytes: 1, clear: true }, Instruction::Close];
    let mut peer = Peer::client(program, 100, plain());
    peer.handshake(MSS, 100);
    peer.expect_segment(ACK, 1, 1, 100);
    peer.send(segment(ACK).ack(101).window(0).data(1));
    peer.wait(50);
    let acknowledgement = peer.next();
    assert_eq!((acknowledgement.flags & FIN, acknowledgement.ack), (0, 2));
    peer.expect_silence();
    about(peer.after(ACK | FIN, 101, 2, 0), 150.0);
    peer.send(segment(ACK).seq(2).ack(101).window(0));
    about(peer.after(ACK | FIN, 101, 2, 0), 400.0);
    peer.send(segment(ACK).seq(2).ack(102).window(1000));
    peer.wait(1000);
    peer.expect_silence();
}

#[test]
fn the_end_of_a_payload_does_not_wait_for_its_other_segments() {
    // Nagle's algorithm in Minshall's variant.
    let mut peer = sender(1460 + 40, plain(), 65_535);
    peer.expect_segment(ACK, 1, 1, 1460);
    peer.expect_segment(ACK, 1461, 1, 40);
}

#[test]
fn a_lost_window_update_is_found_by_a_probe() {
    let mut peer = sender(5000, eager(), 0);
    peer.expect_segment(ACK, 1, 1, 0);
    about(peer.after(ACK, 1, 1, 1), 200.0);
    // The byte was taken, as the window had been opened meanwhile.
    peer.send(segment(ACK).ack(2).window(5000));
    assert_eq!(peer.all().iter().map(|s| s.len()).sum::<usize>(), 4999);
}

#[test]
fn probes_go_on_when_their_byte_is_taken_and_the_window_stays_closed() {
    let mut peer = sender(5000, eager(), 0);
    peer.expect_segment(ACK, 1, 1, 0);
    for taken in 0..4 {
        peer.after(ACK, 1 + taken, 1, 1);
        peer.send(segment(ACK).ack(2 + taken).window(0));
        peer.expect_silence();
    }
    peer.send(segment(ACK).ack(5).window(6000));
    assert_eq!(peer.all().iter().map(|s| s.len()).sum::<usize>(), 4996);
}

#[test]
fn a_peer_that_answers_may_keep_its_window_closed_and_one_that_is_silent_may_not() {
    let mut peer = sender(5000, eager(), 0);
    peer.expect_segment(ACK, 1, 1, 0);
    for _ in 0..30 {
        peer.after(ACK, 1, 1, 1);
        peer.send(segment(ACK).window(0));
    }
    assert!(peer.is_open());
    for _ in 0..12 {
        peer.after(ACK, 1, 1, 1);
    }
    peer.wait(130_000);
    assert_eq!(peer.count(Count::TimeoutDrops), 1);
    peer.expect_closed();
}

#[test]
fn no_more_is_sent_than_the_window_takes() {
    let mut peer = sender(10_000, plain(), 3000);
    peer.expect_segment(ACK, 1, 1, 1460);
    peer.expect_segment(ACK, 1461, 1, 1460);
    // 80 bytes are left: too little to be worth a segment as long as something is in flight.
    peer.expect_silence();
    peer.send(segment(ACK).ack(1461).window(3000));
    peer.expect_segment(ACK, 2921, 1, 1460);
    peer.expect_silence();
}

#[test]
fn the_rest_of_a_send_buffer_is_worth_a_segment() {
    // 1080 bytes are left of both: the peer's window grows no wider than what the buffer holds.
    let mut peer = sender(9000, Tunables { send_buffer: 4000, ..plain() }, 4000);
    for (seq, len) in [(1, 1460), (1461, 1460), (2921, 1080)] {
        peer.expect_segment(ACK, seq, 1, len);
    }
    peer.expect_silence();
}

#[test]
fn a_window_that_never_takes_a_full_segment_is_used() {
    let mut peer = sender(1000, plain(), 400);
    for n in 0..2 {
        peer.expect_segment(ACK, 1 + 400 * n, 1, 400);
        peer.expect_silence();
        peer.send(segment(ACK).ack(401 + 400 * n).window(400));
    }
    peer.expect_segment(ACK, 801, 1, 200);
}

#[test]
fn the_window_is_scaled_by_what_the_peer_said() {
    let tunables = Tunables { window_scale: true, initial_window: 100, ..plain() };
    let mut peer = Peer::client(vec![Instruction::Connect, SEND], 100_000, tunables);
    peer.handshake(Options { window_scale: Some(3), ..MSS }, 1460);
    assert_eq!(peer.all().len(), 1, "not scaled in a SYN");
    peer.send(segment(ACK).ack(1461).window(1460));
    assert_eq!(peer.all().len(), 8, "times 8 after it");
}

#[test]
fn a_window_of_an_older_segment_is_not_taken() {
    let mut peer = sender(20_000, plain(), 1460);
    peer.expect_segment(ACK, 1, 1, 1460);
    peer.send(segment(ACK).seq(1).ack(1).data(10).window(1460));
    peer.send(segment(ACK).seq(11).ack(1461).window(0));
    peer.wait(10);
    peer.all();
    // The numbers are of before.
    peer.send(segment(ACK).seq(1).ack(1461).window(20_000));
    assert_eq!(peer.all().iter().map(|s| s.len()).sum::<usize>(), 0);
}

#[test]
fn a_little_waits_for_an_acknowledgement_unless_nagle_is_off() {
    for (no_delay, at_once) in [(false, 1), (true, 2)] {
        let program = vec![
            Instruction::Connect,
            Instruction::Send { payload: 0, wait: false },
            Instruction::Delay { min_ns: 1_000_000, max_ns: 1_000_000 },
            Instruction::Send { payload: 0, wait: false },
            Instruction::WaitForPeerClose,
        ];
        let mut peer = Peer::client(program, 100, Tunables { no_delay, ..plain() });
        peer.handshake(MSS, 65_535);
        peer.wait(10);
        assert_eq!(peer.all().len(), at_once);
        peer.send(segment(ACK).ack(101));
        assert_eq!(peer.all().len(), 2 - at_once);
    }
}

#[test]
fn silence_is_broken_by_keepalives_and_ends_without_answers() {
    // RFC 9293 section 3.8.4.
    let tunables = Tunables { keepalive_idle_ns: 5_000_000_000, keepalive_interval_ns: 1_000_000_000, ..plain() };
    let mut peer = Peer::client(vec![Instruction::Connect, Instruction::WaitForPeerClose], 1, tunables);
    peer.handshake(MSS, 65_535);
    peer.expect_segment(ACK, 1, 1, 0);
    about(peer.after(ACK, 0, 1, 0), 5000.0);
    about(peer.after(ACK, 0, 1, 0), 1000.0);
    peer.send(segment(ACK));
    about(peer.after(ACK, 0, 1, 0), 5000.0);
    for _ in 1..8 {
        about(peer.after(ACK, 0, 1, 0), 1000.0);
    }
    about(peer.after(super::peer::RST | ACK, 1, 1, 0), 1000.0);
    assert_eq!(peer.count(Count::KeepaliveDrops), 1);
    peer.expect_closed();
}

#[test]
fn a_keepalive_of_the_peer_is_answered() {
    let mut peer = sender(1, plain(), 1000);
    peer.expect_segment(ACK, 1, 1, 1);
    peer.send(segment(ACK).seq(0).ack(2));
    peer.expect_segment(ACK, 2, 1, 0);
}

#[test]
fn a_window_closed_over_what_is_in_flight_is_probed_and_its_connection_not_given_up() {
    // RFC 9293 section 3.8.6.1: a shrunk window.
    let mut peer = sender(5000, eager(), 10_000);
    assert_eq!(peer.all().len(), 4);
    peer.wait(10);
    peer.send(segment(ACK).window(0));
    peer.expect_silence();
    // As often as any closed window, with a byte; for far longer than an end that is silent is waited for.
    let probes: Vec<_> = (0..20)
        .map(|_| {
            let ms = peer.after(ACK, 1, 1, 1);
            peer.send(segment(ACK).window(0));
            peer.expect_silence();
            ms
        })
        .collect();
    about(probes[1], 400.0);
    about(probes[2], 800.0);
    assert!(probes[19] > 100_000.0, "{probes:?}");
    let of = |count| peer.count(count);
    assert_eq!((of(Count::RetransmitTimeouts), of(Count::PersistTimeouts), of(Count::FastRetransmits)), (0, 20, 0));
    // Opened again: all that was in flight.
    peer.send(segment(ACK).window(10_000));
    let mut una = 1;
    for _ in 0..10 {
        let all = peer.all();
        una = all.iter().map(|s| s.seq + s.len() as u32).max().unwrap_or(una).max(una);
        peer.send(segment(ACK).ack(una).window(10_000));
    }
    assert_eq!((una, peer.count(Count::AckedBytes)), (5001, 5000));
    peer.wait(10_000);
    peer.expect_silence();
}

#[test]
fn a_fin_in_flight_when_the_window_closes_is_its_probe() {
    let send = Instruction::Send { payload: 0, wait: false };
    let mut peer = Peer::client(vec![Instruction::Connect, send, Instruction::Close], 100, eager());
    peer.handshake(MSS, 101);
    peer.expect_segment(ACK | FIN, 1, 1, 100);
    peer.send(segment(ACK).ack(101).window(0));
    for _ in 0..15 {
        peer.after(ACK | FIN, 101, 1, 0);
        peer.send(segment(ACK).ack(101).window(0));
    }
    assert_eq!(peer.count(Count::RetransmitTimeouts), 0);
    peer.send(segment(ACK | FIN).ack(102).window(0));
    peer.expect_segment(ACK, 102, 2, 0);
    assert!(!peer.is_open());
}

#[test]
fn probes_end_when_their_byte_was_the_last() {
    let mut peer = sender(1, eager(), 0);
    peer.expect_segment(ACK, 1, 1, 0);
    about(peer.after(ACK, 1, 1, 1), 200.0);
    peer.send(segment(ACK).ack(2).window(0));
    peer.wait(400_000);
    peer.expect_silence();
    assert_eq!((peer.count(Count::PersistTimeouts), peer.is_open()), (1, true));
}
