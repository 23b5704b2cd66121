// SPDX-License-Identifier: Apache-2.0
//! Ends of connections in every order (RFC 9293 section 3.6), TIME-WAIT (RFC 6191), resets.
use super::peer::{ACK, FIN, MSS, RST, SYN, Talk, about, plain, say};
use spate_stateful::{Count, Instruction, Tunables};

fn closing_client() -> Talk {
    let mut talk = Talk::client(vec![Instruction::Connect], 1, plain());
    talk.shake(MSS, 65_535);
    talk.hears(FIN | ACK, 1, 1, 0);
    talk
}

fn server(after: &[Instruction]) -> Talk {
    let program = [&[Instruction::Accept, Instruction::WaitForPeerClose], after].concat();
    let mut talk = Talk::server(program, 3000, plain());
    talk.shake(MSS, 65_535);
    talk
}

#[test]
fn we_close_first() {
    // FIN-WAIT-1, FIN-WAIT-2, TIME-WAIT.
    let mut talk = closing_client();
    talk.tell(say(ACK).ack(2));
    talk.quiet();
    talk.tell(say(FIN | ACK).ack(2));
    talk.hears(ACK, 2, 2, 0);
    assert_eq!((talk.count(Count::FlowsClosed), talk.stack.flows()), (1, 1));
    talk.wait(990);
    assert_eq!(talk.stack.flows(), 1);
    talk.wait(20);
    talk.gone();
    talk.quiet();
}

#[test]
fn our_fin_is_acknowledged_with_theirs() {
    let mut talk = closing_client();
    talk.tell(say(FIN | ACK).ack(2));
    talk.hears(ACK, 2, 2, 0);
    talk.wait(1010);
    talk.gone();
}

#[test]
fn both_close_at_once() {
    // CLOSING.
    let mut talk = closing_client();
    talk.tell(say(FIN | ACK).ack(1));
    talk.hears(ACK, 2, 2, 0);
    assert!(talk.is_open());
    talk.tell(say(ACK).seq(2).ack(2));
    assert!(!talk.is_open());
    talk.wait(1010);
    talk.gone();
}

#[test]
fn they_close_first() {
    // CLOSE-WAIT, LAST-ACK.
    let mut talk = server(&[]);
    talk.tell(say(FIN | ACK));
    talk.hears(FIN | ACK, 1, 2, 0);
    talk.tell(say(ACK).seq(2).ack(2));
    talk.quiet();
    talk.gone();
}

#[test]
fn a_fin_is_sent_again_until_it_is_acknowledged() {
    let mut talk = server(&[]);
    talk.tell(say(FIN | ACK));
    talk.hears(FIN | ACK, 1, 2, 0);
    for expected in [200.0, 400.0, 800.0] {
        about(talk.after(FIN | ACK, 1, 2, 0), expected);
    }
    talk.tell(say(ACK).seq(2).ack(2));
    talk.gone();
}

#[test]
fn data_still_flows_to_a_peer_that_has_closed() {
    let mut talk = server(&[Instruction::Send { payload: 0, wait: false }]);
    talk.tell(say(FIN | ACK));
    talk.hears(ACK, 1, 2, 1460);
    talk.hears(ACK, 1461, 2, 1460);
    talk.hears(FIN | ACK, 2921, 2, 80);
    talk.tell(say(ACK).seq(2).ack(3002));
    assert_eq!(talk.count(Count::AckedBytes), 3000);
    talk.gone();
}

#[test]
fn data_still_comes_after_we_have_closed() {
    let mut talk = closing_client();
    talk.tell(say(ACK).ack(1).data(100));
    talk.tell(say(ACK).seq(101).ack(2).data(1400));
    talk.tell(say(ACK).seq(1501).ack(2).data(1460));
    let acks = talk.all();
    assert_eq!(acks.last().map(|ack| (ack.flags, ack.seq, ack.ack)), Some((ACK, 2, 2961)));
    talk.tell(say(FIN | ACK).seq(2961).ack(2).data(10));
    talk.hears(ACK, 2, 2972, 0);
    assert_eq!(talk.count(Count::ReceivedDataBytes), 2970);
    talk.wait(1010);
    talk.gone();
}

#[test]
fn a_repeated_fin_is_acknowledged_and_time_wait_begins_anew() {
    let mut talk = closing_client();
    talk.tell(say(FIN | ACK).ack(2));
    talk.hears(ACK, 2, 2, 0);
    talk.wait(900);
    talk.tell(say(FIN | ACK).ack(2));
    talk.hears(ACK, 2, 2, 0);
    talk.wait(900);
    assert_eq!(talk.stack.flows(), 1);
    talk.wait(110);
    talk.gone();
}

#[test]
fn a_reset_in_time_wait_is_of_a_connection_that_has_ended_well() {
    // RFC 1337: the peer got the last acknowledgement twice and has no such connection any more.
    let mut talk = closing_client();
    talk.tell(say(FIN | ACK).ack(2));
    talk.hears(ACK, 2, 2, 0);
    talk.tell(say(RST).seq(2));
    talk.quiet();
    assert_eq!((talk.count(Count::ResetsReceived), talk.count(Count::FlowsClosed), talk.stack.flows()), (0, 1, 1));
    talk.wait(1010);
    talk.gone();
}

#[test]
fn a_newer_syn_ends_time_wait() {
    let mut talk = Talk::server(vec![Instruction::Accept], 1, plain());
    talk.shake(MSS, 65_535);
    talk.hears(FIN | ACK, 1, 1, 0);
    talk.tell(say(FIN | ACK).ack(2));
    talk.hears(ACK, 2, 2, 0);
    let old = talk.irs;
    talk.tell(say(SYN).seq(0).options(MSS));
    assert!(talk.all().iter().all(|heard| heard.flags == ACK), "an old SYN is challenged");
    talk.wait(1);
    talk.iss = talk.iss.wrapping_add(1000);
    talk.tell(say(SYN).seq(0).options(MSS));
    talk.hears(SYN | ACK, 0, 1, 0);
    assert!((talk.irs.wrapping_sub(old) as i32) > 2, "numbers lie behind those of before");
    assert_eq!(talk.count(Count::TimeWaitReused), 1);
    talk.tell(say(ACK));
    assert_eq!(talk.count(Count::FlowsEstablished), 2);
}

#[test]
fn a_peer_that_never_closes_is_forgotten_after_a_minute() {
    let mut talk = closing_client();
    talk.tell(say(ACK).ack(2));
    talk.wait(59_900);
    assert!(talk.is_open());
    talk.wait(200);
    talk.gone();
}

#[test]
fn a_reset_is_said_once_with_the_next_number() {
    let mut talk = Talk::client(vec![Instruction::Connect, Instruction::Reset], 1, plain());
    talk.shake(MSS, 65_535);
    talk.hears(RST | ACK, 1, 1, 0);
    talk.quiet();
    talk.gone();
    assert_eq!((talk.count(Count::ResetsSent), talk.count(Count::FlowsClosed)), (1, 1));
}

#[test]
fn a_fin_out_of_order_waits_for_what_is_before_it() {
    let mut talk = server(&[]);
    talk.tell(say(FIN | ACK).seq(101).data(50));
    talk.hears(ACK, 1, 1, 0);
    talk.tell(say(ACK).data(100));
    talk.hears(FIN | ACK, 1, 152, 0);
    talk.tell(say(ACK).seq(152).ack(2));
    talk.gone();
    assert_eq!(talk.count(Count::ReceivedDataBytes), 150);
}

#[test]
fn an_end_that_is_not_answered_gives_up() {
    let mut talk = Talk::client(vec![Instruction::Connect], 1, Tunables { minimum_rto_ns: 1_000_000, ..plain() });
    talk.shake(MSS, 65_535);
    let mut last = 0.0;
    talk.hears(FIN | ACK, 1, 1, 0);
    for _ in 0..12 {
        let wait = talk.after(FIN | ACK, 1, 1, 0);
        assert!(wait >= last, "{wait} after {last}");
        assert!(wait < 120_001.0);
        last = wait;
    }
    talk.wait(130_000);
    assert_eq!(talk.count(Count::TimeoutDrops), 1);
    talk.gone();
}
