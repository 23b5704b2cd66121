// SPDX-License-Identifier: Apache-2.0
//! Ends of connections in every order (RFC 9293 section 3.6), TIME-WAIT (RFC 6191), resets.
use super::peer::{ACK, FIN, MSS, Peer, RST, SYN, about, plain, segment};
use spate_stateful::{Count, Instruction, Tunables};

fn closing_client() -> Peer {
    let mut peer = Peer::client(vec![Instruction::Connect], 1, plain());
    peer.handshake(MSS, 65_535);
    peer.expect_segment(FIN | ACK, 1, 1, 0);
    peer
}

fn server(after: &[Instruction]) -> Peer {
    let program = [&[Instruction::Accept, Instruction::WaitForPeerClose], after].concat();
    let mut peer = Peer::server(program, 3000, plain());
    peer.handshake(MSS, 65_535);
    peer
}

#[test]
fn we_close_first() {
    // FIN-WAIT-1, FIN-WAIT-2, TIME-WAIT.
    let mut peer = closing_client();
    peer.send(segment(ACK).ack(2));
    peer.expect_silence();
    peer.send(segment(FIN | ACK).ack(2));
    peer.expect_segment(ACK, 2, 2, 0);
    assert_eq!((peer.count(Count::FlowsClosed), peer.stack.flows()), (1, 1));
    peer.wait(990);
    assert_eq!(peer.stack.flows(), 1);
    peer.wait(20);
    peer.expect_closed();
    peer.expect_silence();
}

#[test]
fn our_fin_is_acknowledged_with_theirs() {
    let mut peer = closing_client();
    peer.send(segment(FIN | ACK).ack(2));
    peer.expect_segment(ACK, 2, 2, 0);
    peer.wait(1010);
    peer.expect_closed();
}

#[test]
fn both_close_at_once() {
    // CLOSING.
    let mut peer = closing_client();
    peer.send(segment(FIN | ACK).ack(1));
    peer.expect_segment(ACK, 2, 2, 0);
    assert!(peer.is_open());
    peer.send(segment(ACK).seq(2).ack(2));
    assert!(!peer.is_open());
    peer.wait(1010);
    peer.expect_closed();
}

#[test]
fn they_close_first() {
    // CLOSE-WAIT, LAST-ACK.
    let mut peer = server(&[]);
    peer.send(segment(FIN | ACK));
    peer.expect_segment(FIN | ACK, 1, 2, 0);
    peer.send(segment(ACK).seq(2).ack(2));
    peer.expect_silence();
    peer.expect_closed();
}

#[test]
fn a_fin_is_sent_again_until_it_is_acknowledged() {
    let mut peer = server(&[]);
    peer.send(segment(FIN | ACK));
    peer.expect_segment(FIN | ACK, 1, 2, 0);
    for expected in [200.0, 400.0, 800.0] {
        about(peer.after(FIN | ACK, 1, 2, 0), expected);
    }
    peer.send(segment(ACK).seq(2).ack(2));
    peer.expect_closed();
}

#[test]
fn data_still_flows_to_a_peer_that_has_closed() {
    let mut peer = server(&[Instruction::Send { payload: 0, wait: false }]);
    peer.send(segment(FIN | ACK));
    peer.expect_segment(ACK, 1, 2, 1460);
    peer.expect_segment(ACK, 1461, 2, 1460);
    peer.expect_segment(FIN | ACK, 2921, 2, 80);
    peer.send(segment(ACK).seq(2).ack(3002));
    assert_eq!(peer.count(Count::AckedBytes), 3000);
    peer.expect_closed();
}

#[test]
fn data_still_comes_after_we_have_closed() {
    let mut peer = closing_client();
    peer.send(segment(ACK).ack(1).data(100));
    peer.send(segment(ACK).seq(101).ack(2).data(1400));
    peer.send(segment(ACK).seq(1501).ack(2).data(1460));
    let acks = peer.all();
    assert_eq!(acks.last().map(|ack| (ack.flags, ack.seq, ack.ack)), Some((ACK, 2, 2961)));
    peer.send(segment(FIN | ACK).seq(2961).ack(2).data(10));
    peer.expect_segment(ACK, 2, 2972, 0);
    assert_eq!(peer.count(Count::ReceivedDataBytes), 2970);
    peer.wait(1010);
    peer.expect_closed();
}

#[test]
fn a_repeated_fin_is_acknowledged_and_time_wait_begins_again() {
    let mut peer = closing_client();
    peer.send(segment(FIN | ACK).ack(2));
    peer.expect_segment(ACK, 2, 2, 0);
    peer.wait(900);
    peer.send(segment(FIN | ACK).ack(2));
    peer.expect_segment(ACK, 2, 2, 0);
    peer.wait(900);
    assert_eq!(peer.stack.flows(), 1);
    peer.wait(110);
    peer.expect_closed();
}

#[test]
fn a_reset_in_time_wait_is_of_a_connection_that_has_ended_well() {
    // RFC 1337: the peer got the last acknowledgement twice and has no such connection any more.
    let mut peer = closing_client();
    peer.send(segment(FIN | ACK).ack(2));
    peer.expect_segment(ACK, 2, 2, 0);
    peer.send(segment(RST).seq(2));
    peer.expect_silence();
    assert_eq!((peer.count(Count::ResetsReceived), peer.count(Count::FlowsClosed), peer.stack.flows()), (0, 1, 1));
    peer.wait(1010);
    peer.expect_closed();
}

#[test]
fn a_newer_syn_ends_time_wait() {
    let mut peer = Peer::server(vec![Instruction::Accept], 1, plain());
    peer.handshake(MSS, 65_535);
    peer.expect_segment(FIN | ACK, 1, 1, 0);
    peer.send(segment(FIN | ACK).ack(2));
    peer.expect_segment(ACK, 2, 2, 0);
    let old = peer.irs;
    peer.send(segment(SYN).seq(0).options(MSS));
    assert!(peer.all().iter().all(|reply| reply.flags == ACK), "an old SYN is challenged");
    peer.wait(1);
    peer.iss = peer.iss.wrapping_add(1000);
    peer.send(segment(SYN).seq(0).options(MSS));
    peer.expect_segment(SYN | ACK, 0, 1, 0);
    assert!((peer.irs.wrapping_sub(old) as i32) > 2, "numbers lie behind those of before");
    assert_eq!(peer.count(Count::TimeWaitReused), 1);
    peer.send(segment(ACK));
    assert_eq!(peer.count(Count::FlowsEstablished), 2);
}

#[test]
fn a_peer_that_never_closes_is_forgotten_after_a_minute() {
    let mut peer = closing_client();
    peer.send(segment(ACK).ack(2));
    peer.wait(59_900);
    assert!(peer.is_open());
    peer.wait(200);
    peer.expect_closed();
}

#[test]
fn a_reset_is_said_once_with_the_next_number() {
    let mut peer = Peer::client(vec![Instruction::Connect, Instruction::Reset], 1, plain());
    peer.handshake(MSS, 65_535);
    peer.expect_segment(RST | ACK, 1, 1, 0);
    peer.expect_silence();
    peer.expect_closed();
    assert_eq!((peer.count(Count::ResetsSent), peer.count(Count::FlowsClosed)), (1, 1));
}

#[test]
fn a_fin_out_of_order_waits_for_what_is_before_it() {
    let mut peer = server(&[]);
    peer.send(segment(FIN | ACK).seq(101).data(50));
    peer.expect_segment(ACK, 1, 1, 0);
    peer.send(segment(ACK).data(100));
    peer.expect_segment(FIN | ACK, 1, 152, 0);
    peer.send(segment(ACK).seq(152).ack(2));
    peer.expect_closed();
    assert_eq!(peer.count(Count::ReceivedDataBytes), 150);
}

#[test]
fn an_end_that_is_not_answered_gives_up() {
    let mut peer = Peer::client(vec![Instruction::Connect], 1, Tunables { minimum_rto_ns: 1_000_000, ..plain() });
    peer.handshake(MSS, 65_535);
    let mut last = 0.0;
    peer.expect_segment(FIN | ACK, 1, 1, 0);
    for _ in 0..12 {
        let wait = peer.after(FIN | ACK, 1, 1, 0);
        assert!(wait >= last, "{wait} after {last}");
        assert!(wait < 120_001.0);
        last = wait;
    }
    peer.wait(130_000);
    assert_eq!(peer.count(Count::TimeoutDrops), 1);
    peer.expect_closed();
}
