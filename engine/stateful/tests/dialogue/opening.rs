// SPDX-License-Identifier: Apache-2.0
//! Handshakes: options, losses, refusals, both at once (RFC 9293 section 3.5, RFC 6298, RFC 6928, RFC 7323, RFC 3168).
use super::peer::{
    ACK, CWR, ECE, FIN, MSS, RST, SACK_PERMITTED, SEND, SYN, Talk, about, plain, say, scenario, selective,
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
    let mut talk = Talk::client(idle(), 1, plain());
    let syn = talk.hears(SYN, 0, 0, 0);
    assert_eq!((syn.options.mss, syn.window), (Some(1460), 65_535));
    talk.tell(say(SYN | ACK).seq(0).ack(1).options(MSS));
    talk.hears(ACK, 1, 1, 0);
    assert_eq!(talk.count(Count::FlowsEstablished), 1);
    talk.wait(100_000);
    talk.quiet();
}

#[test]
fn a_server_accepts() {
    let mut talk = Talk::server(listening(), 1, plain());
    talk.tell(say(SYN).seq(0).options(MSS));
    talk.hears(SYN | ACK, 0, 1, 0);
    assert_eq!((talk.count(Count::FlowsAccepted), talk.count(Count::FlowsEstablished)), (1, 0));
    talk.tell(say(ACK));
    talk.quiet();
    assert_eq!(talk.count(Count::FlowsEstablished), 1);
}

#[test]
fn options_are_offered_and_only_those_of_both_are_used() {
    let all = Tunables { receive_buffer: 1 << 20, ..Tunables::default() };
    let mut talk = Talk::client(idle(), 1, all.clone());
    let syn = talk.hears(SYN, 0, 0, 0).options;
    assert_eq!((syn.window_scale, syn.sack_permitted, syn.timestamps.is_some()), (Some(5), true, true));
    talk.tell(say(SYN | ACK).seq(0).ack(1).options(MSS));
    let ack = talk.hears(ACK, 1, 1, 0);
    assert_eq!((ack.options, ack.window), (Options::default(), 65_535), "nothing was agreed on");

    let mut talk = Talk::server(listening(), 1, all);
    let offered = Options { timestamps: Some((77, 0)), window_scale: Some(2), ..SACK_PERMITTED };
    talk.tell(say(SYN).seq(0).options(offered));
    let answer = talk.hears(SYN | ACK, 0, 1, 0);
    assert_eq!((answer.options.window_scale, answer.options.sack_permitted), (Some(5), true));
    assert_eq!(answer.options.timestamps.map(|(_, echo)| echo), Some(77));
    assert_eq!(answer.window, 65_535, "a SYN's window is not scaled");
    talk.tell(say(ACK).timestamps(78, 0));
    talk.tell(say(ACK).data(10).timestamps(79, 0));
    talk.wait(50);
    let ack = talk.hears(ACK, 1, 11, 0);
    assert_eq!(ack.window, (1 << 20 >> 5) as u16);
    assert_eq!(ack.options.timestamps.map(|(_, echo)| echo), Some(79));
}

#[test]
fn a_syn_is_sent_again_after_1_2_4_s_until_the_connect_time_is_over() {
    let mut talk = Talk::client(idle(), 1, Tunables { connect_timeout_ns: 10_000_000_000, ..plain() });
    talk.hears(SYN, 0, 0, 0);
    for expected in [1000.0, 2000.0, 4000.0] {
        about(talk.after(SYN, 0, 0, 0), expected);
    }
    talk.wait(2990);
    assert!(talk.is_open());
    talk.wait(20);
    assert_eq!((talk.count(Count::ConnectDrops), talk.count(Count::FlowsClosed)), (1, 1));
    talk.gone();
}

#[test]
fn a_syn_ack_is_sent_again_by_time_and_when_asked() {
    let mut talk = Talk::server(listening(), 1, plain());
    talk.tell(say(SYN).seq(0).options(MSS));
    talk.hears(SYN | ACK, 0, 1, 0);
    about(talk.after(SYN | ACK, 0, 1, 0), 1000.0);
    talk.tell(say(SYN).seq(0).options(MSS));
    talk.hears(SYN | ACK, 0, 1, 0);
    talk.tell(say(ACK));
    assert_eq!((talk.count(Count::FlowsEstablished), talk.count(Count::FlowsAccepted)), (1, 1));
    talk.quiet();
}

#[test]
fn both_may_connect_at_once() {
    // RFC 9293 figure 7.
    let mut talk = Talk::client(idle(), 1, plain());
    talk.hears(SYN, 0, 0, 0);
    talk.tell(say(SYN).seq(0).options(MSS));
    talk.hears(SYN | ACK, 0, 1, 0);
    talk.tell(say(SYN | ACK).seq(0).ack(1).options(MSS));
    assert_eq!(talk.count(Count::FlowsEstablished), 1);
    talk.tell(say(ACK).data(5));
    talk.wait(50);
    let last = talk.all().pop().expect("an acknowledgement");
    assert_eq!((last.flags, last.seq, last.ack), (ACK, 1, 6));
}

#[test]
fn the_window_of_a_syn_ack_is_not_scaled_where_both_connect_at_once() {
    // RFC 7323 section 2.2: 1000 bytes, not 8000.
    let tunables = Tunables { window_scale: true, no_delay: true, initial_window: 100, ..plain() };
    let send = Instruction::Send { payload: 0, wait: true };
    let mut talk = Talk::client(vec![Instruction::Connect, send, Instruction::WaitForPeerClose], 20_000, tunables);
    talk.next();
    let scaled = Options { window_scale: Some(3), ..MSS };
    talk.tell(say(SYN).seq(0).options(scaled).window(1000));
    talk.all();
    talk.tell(say(SYN | ACK).seq(0).ack(1).options(scaled).window(1000));
    assert_eq!(talk.all().iter().map(super::peer::Heard::len).sum::<usize>(), 1000);
    talk.tell(say(ACK).ack(1001).window(1000));
    assert_eq!(talk.all().iter().map(super::peer::Heard::len).sum::<usize>(), 5 * 1460, "of 8000");
}

#[test]
fn an_old_syn_ack_is_answered_with_rst() {
    // RFC 9293 section 3.10.7.3.
    let mut talk = Talk::client(idle(), 1, plain());
    talk.hears(SYN, 0, 0, 0);
    for flags in [SYN | ACK, ACK, FIN | ACK] {
        talk.tell(say(flags).seq(0).ack(500));
        talk.hears(RST, 500, 0, 0);
    }
    talk.tell(say(RST | ACK).seq(0).ack(500));
    talk.quiet();
    talk.tell(say(SYN | ACK).seq(0).ack(1));
    talk.hears(ACK, 1, 1, 0);
}

#[test]
fn a_wrong_acknowledgement_of_a_syn_ack_is_answered_with_rst() {
    // RFC 9293 section 3.10.7.4.
    let mut talk = Talk::server(listening(), 1, plain());
    talk.tell(say(SYN).seq(0).options(MSS));
    talk.hears(SYN | ACK, 0, 1, 0);
    talk.tell(say(ACK).ack(2));
    talk.hears(RST, 2, 0, 0);
    talk.tell(say(ACK).ack(0));
    talk.hears(RST, 0, 0, 0);
    // Anywhere in the window.
    talk.tell(say(ACK).seq(1000).ack(7));
    talk.hears(RST, 7, 0, 0);
    talk.tell(say(ACK).ack(1));
    assert_eq!(talk.count(Count::FlowsEstablished), 1);
}

#[test]
fn a_client_is_refused() {
    let mut talk = Talk::client(idle(), 1, plain());
    talk.hears(SYN, 0, 0, 0);
    talk.tell(say(RST).seq(0));
    assert!(talk.is_open(), "a RST without ACK may be anyone's");
    talk.tell(say(RST | ACK).seq(0).ack(1));
    assert_eq!(talk.count(Count::ResetsReceived), 1);
    talk.quiet();
    talk.gone();
}

#[test]
fn a_server_forgets_a_client_that_resets() {
    let mut talk = Talk::server(listening(), 1, plain());
    talk.tell(say(SYN).seq(0).options(MSS));
    talk.hears(SYN | ACK, 0, 1, 0);
    talk.tell(say(RST).seq(1));
    talk.quiet();
    talk.gone();
}

#[test]
fn the_initial_window_is_ten_segments_and_one_after_two_lost_syns() {
    for (lost, first) in [(0, 10), (1, 10), (2, 1)] {
        let mut talk = Talk::client(vec![Instruction::Connect, SEND], 100_000, plain());
        while talk.count(Count::SynTimeouts) < lost {
            talk.wait(100);
        }
        let syns = talk.all();
        assert!(syns.iter().all(|syn| syn.flags == SYN));
        talk.tell(say(SYN | ACK).seq(0).ack(1).options(MSS));
        let sent = talk.all();
        assert_eq!(sent.len(), first, "after {lost} lost");
        assert!(sent.iter().all(|s| s.len() == 1460));
    }
}

#[test]
fn after_a_lost_syn_data_waits_3_s() {
    // RFC 6298 section 5.7: without a measure.
    let mut talk = Talk::client(vec![Instruction::Connect, SEND], 100, plain());
    talk.hears(SYN, 0, 0, 0);
    about(talk.after(SYN, 0, 0, 0), 1000.0);
    talk.tell(say(SYN | ACK).seq(0).ack(1).options(MSS));
    talk.hears(ACK, 1, 1, 100);
    about(talk.after(ACK, 1, 1, 100), 3000.0);
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
        let mut talk = Talk::client(vec![Instruction::Connect, SEND], 3000, tunables);
        let stamps = timestamps.then_some((1, 0));
        talk.shake(Options { mss: theirs, timestamps: stamps, ..MSS }, 65_535);
        assert_eq!(talk.next().len(), expected, "{ours} {theirs:?}");
    }
}

#[test]
fn congestion_notification_is_agreed_on_by_both() {
    // RFC 3168 section 6.1.1.
    let ecn = Tunables { ecn: true, ..plain() };
    let mut talk = Talk::client(vec![Instruction::Connect, SEND], 100, ecn.clone());
    talk.hears(SYN | ECE | CWR, 0, 0, 0);
    talk.tell(say(SYN | ACK | ECE).seq(0).ack(1).options(MSS));
    assert_eq!(talk.hears(ACK, 1, 1, 100).ecn, 2, "data is ECN-capable");

    for answer in [SYN | ACK, SYN | ACK | ECE | CWR] {
        let mut talk = Talk::client(vec![Instruction::Connect, SEND], 100, ecn.clone());
        talk.hears(SYN | ECE | CWR, 0, 0, 0);
        talk.tell(say(answer).seq(0).ack(1).options(MSS));
        assert_eq!(talk.hears(ACK, 1, 1, 100).ecn, 0);
    }

    let mut talk = Talk::client(idle(), 1, ecn.clone());
    talk.hears(SYN | ECE | CWR, 0, 0, 0);
    about(talk.after(SYN, 0, 0, 0), 1000.0);

    let mut talk = Talk::server(listening(), 1, ecn);
    talk.tell(say(SYN | ECE | CWR).seq(0).options(MSS));
    assert_eq!(talk.hears(SYN | ACK | ECE, 0, 1, 0).ecn, 0);
    let mut talk = Talk::server(listening(), 1, plain());
    talk.tell(say(SYN | ECE | CWR).seq(0).options(MSS));
    talk.hears(SYN | ACK, 0, 1, 0);
}

#[test]
fn what_belongs_to_no_flow_is_refused() {
    // RFC 9293 section 3.10.7.1.
    let mut talk = Talk::server(listening(), 1, plain());
    talk.tell(say(ACK).seq(9).ack(500));
    talk.hears(RST, 500, 0, 0);
    talk.tell(say(FIN).seq(9).data(10));
    talk.hears(RST | ACK, 0, 20, 0);
    talk.tell(say(RST).seq(9));
    talk.quiet();
    talk.gone();

    let mut talk = Talk::server(listening(), 1, Tunables { blackhole: true, ..plain() });
    talk.tell(say(ACK).seq(9).ack(500));
    talk.quiet();
}

#[test]
fn more_flows_than_places_are_counted_and_the_others_go_on() {
    let mut of = scenario(vec![Instruction::Connect], listening(), 1, selective());
    of.most_flows = 2;
    let mut talk = Talk::of(of, false, 1_000_000_000);
    for port in 1..=3 {
        talk.client_port = port;
        talk.tell(say(SYN).seq(0).options(SACK_PERMITTED));
    }
    assert_eq!((talk.all().len(), talk.count(Count::FlowsExhausted)), (2, 1));
    for port in 1..=2 {
        talk.client_port = port;
        talk.tell(say(RST).seq(1));
    }
    talk.gone();
    talk.tell(say(SYN).seq(0).options(SACK_PERMITTED));
    assert_eq!(talk.all().len(), 1);
}
