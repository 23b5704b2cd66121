// SPDX-License-Identifier: Apache-2.0
//! How the congestion window grows and shrinks (RFC 5681, 6928, 9438, 3168), seen from what is sent in a round trip.
use super::peer::{ACK, CWR, ECE, MSS, Peer, SACK_PERMITTED, SEND, SYN, plain, segment, selective};
use spate_stateful::{CongestionControl, Count, Instruction, Tunables, packet::Options};

const FULL: u32 = 1460;
const WIDE: Options = Options { window_scale: Some(14), ..SACK_PERMITTED };

fn wide(control: CongestionControl, initial_window: u8) -> Tunables {
    Tunables { congestion_control: control, initial_window, window_scale: true, ..selective() }
}

/// A sender with a wide window, and how many segments it has sent.
fn sender(tunables: Tunables, round_trip: u64) -> (Peer, u32) {
    let mut peer = Peer::client(vec![Instruction::Connect, SEND], 100_000_000, tunables);
    peer.round_trip = round_trip;
    peer.handshake(WIDE, 65_535);
    // A SYN's window is not scaled: only now it is wide.
    peer.send(segment(ACK));
    let sent = peer.all().len() as u32;
    (peer, sent)
}

/// A round trip: all that was sent is acknowledged. Gives how many segments follow.
fn round(peer: &mut Peer, sent: &mut u32) -> u32 {
    peer.wait(peer.round_trip);
    peer.all();
    let before = *sent;
    peer.send(segment(ACK).ack(1 + before * FULL));
    let new = peer.all().len() as u32;
    *sent += new;
    new
}

/// The first segment in flight is lost, and repaired.
fn lose(peer: &mut Peer, sent: &mut u32, flight: u32) {
    peer.wait(peer.round_trip);
    peer.all();
    let first = *sent - flight;
    for n in 2..=flight {
        peer.send(segment(ACK).ack(1 + first * FULL).sack(&[(1 + (first + 1) * FULL, 1 + (first + n) * FULL)]));
    }
    *sent += peer.all().iter().filter(|s| s.seq > first * FULL + 1).count() as u32;
}

#[test]
fn it_doubles_in_slow_start() {
    for control in [CongestionControl::NewReno, CongestionControl::Cubic] {
        let (mut peer, mut sent) = sender(wide(control, 10), 50);
        assert_eq!(sent, 10);
        assert_eq!([(); 4].map(|()| round(&mut peer, &mut sent)), [20, 40, 80, 160]);
    }
}

#[test]
fn reno_halves_and_grows_by_one_in_a_round_trip() {
    let (mut peer, mut sent) = sender(wide(CongestionControl::NewReno, 40), 50);
    lose(&mut peer, &mut sent, 40);
    round(&mut peer, &mut sent);
    let grown: Vec<_> = (0..6).map(|_| round(&mut peer, &mut sent)).collect();
    assert!((20..=22).contains(&grown[0]), "{grown:?}");
    assert!(grown.windows(2).all(|pair| pair[1] == pair[0] + 1), "{grown:?}");
    assert_eq!(peer.count(Count::FastRetransmits), 1);
}

#[test]
fn cubic_grows_as_its_formula_says() {
    // RFC 9438 section 4.2: W(t) = C (t - K)^3 + W_max with K = cbrt(W_max (1 - beta) / C).
    let (mut peer, mut sent) = sender(wide(CongestionControl::Cubic, 100), 200);
    lose(&mut peer, &mut sent, 100);
    round(&mut peer, &mut sent);
    let start = peer.now;
    let k = (100.0f64 * 0.3 / 0.4).cbrt();
    for n in 0..40 {
        let new = f64::from(round(&mut peer, &mut sent));
        // An acknowledgement of a whole window sets where it should be a round trip later.
        let t = (peer.now - start) as f64 / 1e9;
        let cubic = 0.4 * (t - k).powi(3) + 100.0;
        // Section 4.3, with 200 ms.
        let slope = 3.0 * 0.3 / 1.7;
        let reno = 70.0 + slope * t / 0.2;
        let reno = if reno > 100.0 { 100.0 + (t - 30.0 / slope * 0.2) / 0.2 } else { reno };
        let expected = cubic.max(reno);
        assert!((new - expected).abs() < 0.06 * expected, "round {n}: {new}, not {expected}");
    }
}

#[test]
fn in_short_round_trips_cubic_grows_as_reno_would() {
    // RFC 9438 section 4.3: 70 + 0.53 a round trip.
    let (mut peer, mut sent) = sender(wide(CongestionControl::Cubic, 100), 10);
    lose(&mut peer, &mut sent, 100);
    round(&mut peer, &mut sent);
    let first = round(&mut peer, &mut sent);
    for _ in 1..40 {
        round(&mut peer, &mut sent);
    }
    let last = round(&mut peer, &mut sent);
    assert!((69..=73).contains(&first), "{first}");
    let expected = f64::from(first) + 40.0 * 0.53;
    assert!((f64::from(last) - expected).abs() < 4.0, "{last}, not {expected}");
}

#[test]
fn after_a_pause_it_starts_again() {
    // RFC 5681 section 4.1.
    let program = vec![
        Instruction::Connect,
        SEND,
        Instruction::Delay { min_ns: 5_000_000_000, max_ns: 5_000_000_000 },
        SEND,
        Instruction::WaitForPeerClose,
    ];
    let mut peer = Peer::client(program, 70 * u64::from(FULL), wide(CongestionControl::Cubic, 10));
    peer.handshake(WIDE, 65_535);
    let mut sent = peer.all().len() as u32;
    assert_eq!([(); 2].map(|()| round(&mut peer, &mut sent)), [20, 40]);
    round(&mut peer, &mut sent);
    peer.wait(5_010);
    assert_eq!(peer.all().len(), 10);
}

#[test]
fn a_short_flight_does_not_widen_it() {
    // It was not what limited us (RFC 9438 section 5.8, RFC 7661).
    let step = |n: u64| [SEND, Instruction::Delay { min_ns: n, max_ns: n }];
    let mut program = vec![Instruction::Connect];
    for _ in 0..10 {
        program.extend(step(1_000_000));
    }
    program.push(Instruction::Send { payload: 1, wait: true });
    let mut of = super::peer::scenario(program, vec![Instruction::Accept], 100, wide(CongestionControl::NewReno, 10));
    of.payloads.push(spate_stateful::Payload::pattern(1_000_000));
    let mut peer = Peer::of(of, true, 1_000_000_000);
    peer.open();
    peer.handshake(WIDE, 65_535);
    for n in 1..=10 {
        peer.all();
        peer.send(segment(ACK).ack(1 + 100 * n));
        peer.wait(2);
    }
    assert_eq!(peer.all().len(), 10);
}

#[test]
fn an_echoed_mark_reduces_once_a_window_and_is_answered_with_cwr() {
    // RFC 3168 section 6.1.2.
    let tunables =
        Tunables { ecn: true, initial_window: 20, congestion_control: CongestionControl::NewReno, ..plain() };
    let mut peer = Peer::client(vec![Instruction::Connect, SEND], 1_000_000, tunables);
    peer.expect_segment(SYN | ECE | CWR, 0, 0, 0);
    peer.wait(50);
    peer.send(segment(SYN | ACK | ECE).seq(0).ack(1).options(MSS));
    assert_eq!(peer.all().len(), 20);
    for n in 1..=20 {
        peer.send(segment(ACK | ECE).ack(1 + n * FULL));
    }
    let sent = peer.all();
    assert_eq!(peer.count(Count::CongestionEchoes), 1);
    assert!((9..=11).contains(&sent.len()), "{}", sent.len());
    assert!(sent[0].flags & CWR != 0 && sent[1..].iter().all(|s| s.flags & CWR == 0));
    assert!(sent.iter().all(|s| s.ecn == 2));
    // In the next window again.
    peer.send(segment(ACK | ECE).ack(1 + 21 * FULL));
    assert_eq!(peer.count(Count::CongestionEchoes), 2);
}

#[test]
fn after_a_loss_new_data_carries_cwr_and_what_is_sent_again_is_not_capable() {
    let tunables = Tunables { ecn: true, initial_window: 10, ..plain() };
    let mut peer = Peer::client(vec![Instruction::Connect, SEND], 1_000_000, tunables);
    peer.expect_segment(SYN | ECE | CWR, 0, 0, 0);
    peer.send(segment(SYN | ACK | ECE).seq(0).ack(1).options(MSS));
    peer.all();
    for _ in 0..3 {
        peer.send(segment(ACK));
    }
    let sent = peer.all();
    let again = sent.iter().find(|s| s.seq == 1).expect("the first again");
    assert_eq!((again.ecn, again.flags & CWR), (0, 0));
    // Two more went with the duplicates.
    peer.send(segment(ACK).ack(1 + 12 * FULL));
    let new = peer.next();
    assert_eq!((new.ecn, new.flags & CWR), (2, CWR));
}
