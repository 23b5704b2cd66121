// SPDX-License-Identifier: Apache-2.0
//! Handshakes: options, losses, refusals, both at once (RFC 9293 section 3.5, RFC 6298, RFC 6928, RFC 7323, RFC 3168).
use super::peer::{
    ACK, CWR, ECE, FIN, MSS, Peer, RST, SACK_PERMITTED, SEND, SYN, about, plain, scenario, segment, selective,
};
use spate_stateful::{Count, Instruction, Tunables, packet::Options};

fn idle() -> Vec<Instruction> {
    vec![Instruction::Connect, Instruction::WaitForPeerClose]
}

fn listening() -> Vec<Instruction> {
    vec![Instruction::Accept, Instruction::WaitForPeerClose]
}

#[test]
fn a_client_connects() {
    let mut peer = Peer::client(idle(), 1, plain());
    let syn = peer.expect_segment(SYN, 0, 0, 0);
    assert_eq!((syn.options.mss, syn.window), (Some(1460), 65_535));
    peer.send(segment(SYN | ACK).seq(0).ack(1).options(MSS));
    peer.expect_segment(ACK, 1, 1, 0);
    assert_eq!(peer.count(Count::FlowsEstablished), 1);
    peer.wait(100_000);
    peer.expect_silence();
}

#[test]
fn a_server_accepts() {
    let mut peer = Peer::server(listening(), 1, plain());
    peer.send(segment(SYN).seq(0).options(MSS));
    peer.expect_segment(SYN | ACK, 0, 1, 0);
    assert_eq!((peer.count(Count::FlowsAccepted), peer.count(Count::FlowsEstablished)), (1, 0));
    peer.send(segment(ACK));
    peer.expect_silence();
    assert_eq!(peer.count(Count::FlowsEstablished), 1);
}

#[test]
fn options_are_offered_and_only_those_of_both_are_used() {
    let all = Tunables { receive_buffer: 1 << 20, ..Tunables::default() };
    let mut peer = Peer::client(idle(), 1, all.clone());
    let syn = peer.expect_segment(SYN, 0, 0, 0).options;
    assert_eq!((syn.window_scale, syn.sack_permitted, syn.timestamps.is_some()), (Some(5), true, true));
    peer.send(segment(SYN | ACK).seq(0).ack(1).options(MSS));
    let ack = peer.expect_segment(ACK, 1, 1, 0);
    assert_eq!((ack.options, ack.window), (Options::default(), 65_535), "nothing was agreed on");

    let mut peer = Peer::server(listening(), 1, all);
    let offered = Options { timestamps: Some((77, 0)), window_scale: Some(2), ..SACK_PERMITTED };
    peer.send(segment(SYN).seq(0).options(offered));
    let answer = peer.expect_segment(SYN | ACK, 0, 1, 0);
    assert_eq!((answer.options.window_scale, answer.options.sack_permitted), (Some(5), true));
    assert_eq!(answer.options.timestamps.map(|(_, echo)| echo), Some(77));
    assert_eq!(answer.window, 65_535, "a SYN's window is not scaled");
    peer.send(segment(ACK).timestamps(78, 0));
    peer.send(segment(ACK).data(10).timestamps(79, 0));
    peer.wait(50);
    let ack = peer.expect_segment(ACK, 1, 11, 0);
    assert_eq!(ack.window, (1 << 20 >> 5) as u16);
    assert_eq!(ack.options.timestamps.map(|(_, echo)| echo), Some(79));
}

#[test]
fn a_syn_is_sent_again_after_1_2_4_s_until_the_connect_time_is_over() {
    let mut peer = Peer::client(idle(), 1, Tunables { connect_timeout_ns: 10_000_000_000, ..plain() });
    peer.expect_segment(SYN, 0, 0, 0);
    for expected in [1000.0, 2000.0, 4000.0] {
        about(peer.after(SYN, 0, 0, 0), expected);
    }
    peer.wait(2990);
    assert!(peer.is_open());
    peer.wait(20);
    assert_eq!((peer.count(Count::ConnectDrops), peer.count(Count::FlowsClosed)), (1, 1));
    peer.expect_closed();
}

#[test]
fn a_syn_ack_is_sent_again_by_time_and_when_asked() {
    let mut peer = Peer::server(listening(), 1, plain());
    peer.send(segment(SYN).seq(0).options(MSS));
    peer.expect_segment(SYN | ACK, 0, 1, 0);
    about(peer.after(SYN | ACK, 0, 1, 0), 1000.0);
    peer.send(segment(SYN).seq(0).options(MSS));
    peer.expect_segment(SYN | ACK, 0, 1, 0);
    peer.send(segment(ACK));
    assert_eq!((peer.count(Count::FlowsEstablished), peer.count(Count::FlowsAccepted)), (1, 1));
    peer.expect_silence();
}

#[test]
fn both_may_connect_at_once() {
    // RFC 9293 figure 7.
    let mut peer = Peer::client(idle(), 1, plain());
    peer.expect_segment(SYN, 0, 0, 0);
    peer.send(segment(SYN).seq(0).options(MSS));
    peer.expect_segment(SYN | ACK, 0, 1, 0);
    peer.send(segment(SYN | ACK).seq(0).ack(1).options(MSS));
    assert_eq!(peer.count(Count::FlowsEstablished), 1);
    peer.send(segment(ACK).data(5));
    peer.wait(50);
    let last = peer.all().pop().expect("an acknowledgement");
    assert_eq!((last.flags, last.seq, last.ack), (ACK, 1, 6));
}

#[test]
fn the_window_of_a_syn_ack_is_not_scaled_where_both_connect_at_once() {
    // RFC 7323 section 2.2: 1000 bytes, not 8000.
    let tunables = Tunables { window_scale: true, no_delay: true, initial_window: 100, ..plain() };
    let send = Instruction::Send { payload: 0, wait: true };
    let mut peer = Peer::client(vec![Instruction::Connect, send, Instruction::WaitForPeerClose], 20_000, tunables);
    peer.next();
    let scaled = Options { window_scale: Some(3), ..MSS };
    peer.send(segment(SYN).seq(0).options(scaled).window(1000));
    peer.all();
    peer.send(segment(SYN | ACK).seq(0).ack(1).options(scaled).window(1000));
    assert_eq!(peer.all().iter().map(super::peer::Reply::len).sum::<usize>(), 1000);
    peer.send(segment(ACK).ack(1001).window(1000));
    assert_eq!(peer.all().iter().map(super::peer::Reply::len).sum::<usize>(), 5 * 1460, "of 8000");
}

#[test]
fn an_old_syn_ack_is_answered_with_rst() {
    // RFC 9293 section 3.10.7.3.
    let mut peer = Peer::client(idle(), 1, plain());
    peer.expect_segment(SYN, 0, 0, 0);
    for flags in [SYN | ACK, ACK, FIN | ACK] {
        peer.send(segment(flags).seq(0).ack(500));
        peer.expect_segment(RST, 500, 0, 0);
    }
    peer.send(segment(RST | ACK).seq(0).ack(500));
    peer.expect_silence();
    peer.send(segment(SYN | ACK).seq(0).ack(1));
    peer.expect_segment(ACK, 1, 1, 0);
}

#[test]
fn a_wrong_acknowledgement_of_a_syn_ack_is_answered_with_rst() {
    // RFC 9293 section 3.10.7.4.
    let mut peer = Peer::server(listening(), 1, plain());
    peer.send(segment(SYN).seq(0).options(MSS));
    peer.expect_segment(SYN | ACK, 0, 1, 0);
    peer.send(segment(ACK).ack(2));
    peer.expect_segment(RST, 2, 0, 0);
    peer.send(segment(ACK).ack(0));
    peer.expect_segment(RST, 0, 0, 0);
    // Anywhere in the window.
    peer.send(segment(ACK).seq(1000).ack(7));
    peer.expect_segment(RST, 7, 0, 0);
    peer.send(segment(ACK).ack(1));
    assert_eq!(peer.count(Count::FlowsEstablished), 1);
}

#[test]
fn a_client_is_refused() {
    let mut peer = Peer::client(idle(), 1, plain());
    peer.expect_segment(SYN, 0, 0, 0);
    peer.send(segment(RST).seq(0));
    assert!(peer.is_open(), "a RST without ACK may be anyone's");
    peer.send(segment(RST | ACK).seq(0).ack(1));
    assert_eq!(peer.count(Count::ResetsReceived), 1);
    peer.expect_silence();
    peer.expect_closed();
}

#[test]
fn a_server_forgets_a_client_that_resets() {
    let mut peer = Peer::server(listening(), 1, plain());
    peer.send(segment(SYN).seq(0).options(MSS));
    peer.expect_segment(SYN | ACK, 0, 1, 0);
    peer.send(segment(RST).seq(1));
    peer.expect_silence();
    peer.expect_closed();
}

#[test]
fn the_initial_window_is_ten_segments_and_one_after_two_lost_syns() {
    for (lost, first) in [(0, 10), (1, 10), (2, 1)] {
        let mut peer = Peer::client(vec![Instruction::Connect, SEND], 100_000, plain());
        while peer.count(Count::SynTimeouts) < lost {
            peer.wait(100);
        }
        let syns = peer.all();
        assert!(syns.iter().all(|syn| syn.flags == SYN));
        peer.send(segment(SYN | ACK).seq(0).ack(1).options(MSS));
        let sent = peer.all();
        assert_eq!(sent.len(), first, "after {lost} lost");
        assert!(sent.iter().all(|s| s.len() == 1460));
    }
}

#[test]
fn after_a_lost_syn_data_waits_3_s() {
    // RFC 6298 section 5.7: without a measure.
    let mut peer = Peer::client(vec![Instruction::Connect, SEND], 100, plain());
    peer.expect_segment(SYN, 0, 0, 0);
    about(peer.after(SYN, 0, 0, 0), 1000.0);
    peer.send(segment(SYN | ACK).seq(0).ack(1).options(MSS));
    peer.expect_segment(ACK, 1, 1, 100);
    about(peer.after(ACK, 1, 1, 100), 3000.0);
}

#[test]
fn segments_are_as_long_as_both_say_less_options() {
    for (ours, theirs, timestamps, expected) in [
        (1460, Some(1000), false, 1000),
        (1000, Some(1460), false, 1000),
        (1460, None, false, 536),
        (1460, Some(1460), true, 1448),
        (1460, Some(20), false, 64),
    ] {
        let tunables = Tunables { mss: ours, timestamps, ..plain() };
        let mut peer = Peer::client(vec![Instruction::Connect, SEND], 3000, tunables);
        let stamps = timestamps.then_some((1, 0));
        peer.handshake(Options { mss: theirs, timestamps: stamps, ..MSS }, 65_535);
        assert_eq!(peer.next().len(), expected, "{ours} {theirs:?}");
    }
}

#[test]
fn congestion_notification_is_agreed_on_by_both() {
    // RFC 3168 section 6.1.1.
    let ecn = Tunables { ecn: true, ..plain() };
    let mut peer = Peer::client(vec![Instruction::Connect, SEND], 100, ecn.clone());
    peer.expect_segment(SYN | ECE | CWR, 0, 0, 0);
    peer.send(segment(SYN | ACK | ECE).seq(0).ack(1).options(MSS));
    assert_eq!(peer.expect_segment(ACK, 1, 1, 100).ecn, 2, "data is ECN-capable");

    for answer in [SYN | ACK, SYN | ACK | ECE | CWR] {
        let mut peer = Peer::client(vec![Instruction::Connect, SEND], 100, ecn.clone());
        peer.expect_segment(SYN | ECE | CWR, 0, 0, 0);
        peer.send(segment(answer).seq(0).ack(1).options(MSS));
        assert_eq!(peer.expect_segment(ACK, 1, 1, 100).ecn, 0);
    }

    let mut peer = Peer::client(idle(), 1, ecn.clone());
    peer.expect_segment(SYN | ECE | CWR, 0, 0, 0);
    about(peer.after(SYN, 0, 0, 0), 1000.0);

    let mut peer = Peer::server(listening(), 1, ecn);
    peer.send(segment(SYN | ECE | CWR).seq(0).options(MSS));
    assert_eq!(peer.expect_segment(SYN | ACK | ECE, 0, 1, 0).ecn, 0);
    let mut peer = Peer::server(listening(), 1, plain());
    peer.send(segment(SYN | ECE | CWR).seq(0).options(MSS));
    peer.expect_segment(SYN | ACK, 0, 1, 0);
}

#[test]
fn what_belongs_to_no_flow_is_refused() {
    // RFC 9293 section 3.10.7.1.
    let mut peer = Peer::server(listening(), 1, plain());
    peer.send(segment(ACK).seq(9).ack(500));
    peer.expect_segment(RST, 500, 0, 0);
    peer.send(segment(FIN).seq(9).data(10));
    peer.expect_segment(RST | ACK, 0, 20, 0);
    peer.send(segment(RST).seq(9));
    peer.expect_silence();
    peer.expect_closed();

    let mut peer = Peer::server(listening(), 1, Tunables { blackhole: true, ..plain() });
    peer.send(segment(ACK).seq(9).ack(500));
    peer.expect_silence();
}

#[test]
fn more_flows_than_places_are_counted_and_the_others_go_on() {
    let mut of = scenario(vec![Instruction::Connect], listening(), 1, selective());
    of.most_flows = 2;
    let mut peer = Peer::of(of, false, 1_000_000_000);
    for port in 1..=3 {
        peer.client_port = port;
        peer.send(segment(SYN).seq(0).options(SACK_PERMITTED));
    }
    assert_eq!((peer.all().len(), peer.count(Count::FlowsExhausted)), (2, 1));
    for port in 1..=2 {
        peer.client_port = port;
        peer.send(segment(RST).seq(1));
    }
    peer.expect_closed();
    peer.send(segment(SYN).seq(0).options(SACK_PERMITTED));
    assert_eq!(peer.all().len(), 1);
}
