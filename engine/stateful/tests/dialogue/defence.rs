// SPDX-License-Identifier: Apache-2.0
//! What must not disturb a connection (RFC 5961, 5927, 1191), numbers that wrap, long payloads, and want of memory.
use super::peer::{ACK, FIN, MSS, Peer, RST, Reply, SACK_PERMITTED, SEND, SYN, plain, scenario, segment, selective};
use spate_net::checksum::{checksum, sum};
use spate_stateful::{Count, Instruction, Payload, Received, Tunables};

fn idle() -> Peer {
    let mut peer = Peer::client(vec![Instruction::Connect, SEND, Instruction::WaitForPeerClose], 100, plain());
    peer.handshake(MSS, 65_535);
    peer.expect_segment(ACK, 1, 1, 100);
    peer.send(segment(ACK).ack(101));
    peer
}

#[test]
fn only_the_exact_number_resets() {
    // RFC 5961 section 3.2.
    let mut peer = idle();
    for seq in [2, 60_000] {
        peer.send(segment(RST).seq(seq));
        peer.expect_segment(ACK, 101, 1, 0);
    }
    assert_eq!(peer.count(Count::ChallengeAcks), 2);
    for seq in [0, 70_000, 0x8000_0000] {
        peer.send(segment(RST).seq(seq));
        peer.expect_silence();
    }
    assert!(peer.is_open());
    peer.send(segment(RST).seq(1));
    peer.expect_silence();
    peer.expect_closed();
}

#[test]
fn a_syn_is_challenged() {
    // RFC 5961 section 4.2.
    let mut peer = idle();
    for (flags, seq) in [(SYN, 1), (SYN, 500), (SYN | ACK, 0), (SYN, 0x9000_0000)] {
        peer.send(segment(flags).seq(seq).ack(101));
        peer.expect_segment(ACK, 101, 1, 0);
    }
    assert_eq!(peer.count(Count::ChallengeAcks), 4);
    assert!(peer.is_open());
}

#[test]
fn acknowledgements_of_the_future_and_of_long_ago_are_challenged_and_their_data_is_dropped() {
    // RFC 5961 section 5.2.
    let mut peer = idle();
    for ack in [102, 0x7000_0000, 0u32.wrapping_sub(70_000)] {
        peer.send(segment(ACK).ack(ack).data(10));
        peer.expect_segment(ACK, 101, 1, 0);
    }
    assert_eq!((peer.count(Count::ReceivedDataBytes), peer.count(Count::ChallengeAcks)), (0, 3));
    // A little old: only late.
    peer.send(segment(ACK).ack(1).data(10));
    assert_eq!(peer.count(Count::ReceivedDataBytes), 10);
}

#[test]
fn a_segment_without_ack_is_dropped() {
    let mut peer = idle();
    peer.send(segment(0).data(10));
    peer.send(segment(FIN).data(10));
    peer.expect_silence();
    assert_eq!(peer.count(Count::ReceivedDataBytes), 0);
}

/// An ICMP error about a frame that the stack sent.
pub(super) fn icmp(about: &Reply, kind: (u8, u8), mtu: u16) -> Vec<u8> {
    super::net::icmp::error(&about.frame, kind, mtu)
}

#[test]
fn a_link_with_a_smaller_mtu_makes_segments_smaller_and_sent_again() {
    // RFC 1191.
    let mut peer = Peer::client(vec![Instruction::Connect, SEND], 10_000, Tunables { no_delay: true, ..plain() });
    peer.handshake(MSS, 65_535);
    let sent = peer.all();
    assert_eq!(sent[0].len(), 1460);
    // Of what is not in flight: someone else's guess (RFC 5927).
    let other = Reply {
        frame: {
            let mut f = sent[0].frame.clone();
            f[38] ^= 0x40;
            f
        },
        ..sent[0].clone()
    };
    peer.inject(&icmp(&other, (3, 4), 600));
    peer.expect_silence();
    assert_eq!(peer.inject(&icmp(&sent[0], (3, 4), 1000)), Received::Taken);
    let again = peer.all();
    assert_eq!(again.iter().map(|s| s.len()).sum::<usize>(), 10_000);
    assert!(again.iter().all(|s| s.len() <= 960) && again[0].seq == 1);
    assert_eq!((peer.count(Count::MtuReductions), peer.count(Count::RetransmitTimeouts)), (1, 0));
    // The other times that were too long give the same.
    peer.inject(&icmp(&sent[1], (3, 4), 1000));
    peer.expect_silence();
    peer.send(segment(ACK).ack(10_001));
    assert_eq!(peer.count(Count::AckedBytes), 10_000);
}

#[test]
fn an_unreachable_port_ends_a_handshake_and_nothing_else() {
    let mut peer = Peer::client(vec![Instruction::Connect], 1, plain());
    let syn = peer.next();
    peer.inject(&icmp(&syn, (3, 1), 0));
    assert!(peer.is_open(), "a host may be reachable again");
    peer.inject(&icmp(&syn, (3, 3), 0));
    assert_eq!(peer.count(Count::ConnectDrops), 1);
    peer.expect_closed();

    let mut peer = Peer::client(vec![Instruction::Connect, SEND], 100, plain());
    peer.handshake(MSS, 65_535);
    let data = peer.next();
    peer.inject(&icmp(&data, (3, 3), 0));
    assert!(peer.is_open());
    assert_eq!(peer.count(Count::IcmpErrors), 1);
}

#[test]
fn what_cannot_be_read_is_counted_where_its_address_is() {
    const IP: usize = 14;
    let mut peer = idle();
    let (received, good) = (peer.count(Count::ReceivedPackets), peer.frame(segment(ACK).ack(101).data(10)));
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let cut = good[..good.len() - 2].to_vec();
    let mut fragment = good;
    fragment[IP + 6] |= 0x20;
    fragment[IP + 10..IP + 12].fill(0);
    let check = checksum(sum(&fragment[IP..IP + 20])).to_be_bytes();
    fragment[IP + 10..IP + 12].copy_from_slice(&check);
    for (frame, count) in [(damaged, Count::BadChecksums), (cut, Count::Truncated), (fragment, Count::Fragments)] {
        assert_eq!(peer.inject(&frame), Received::Taken);
        assert_eq!(peer.count(count), 1);
        peer.expect_silence();
        let mut elsewhere = frame;
        elsewhere[IP + 16] ^= 0x40;
        assert_eq!(peer.inject(&elsewhere), Received::Foreign);
        assert_eq!(peer.count(count), 1);
    }
    assert_eq!(peer.count(Count::ReceivedPackets), received);
}

/// A client whose initial number is this: its clock counts in it (RFC 6528), so that it starts at the right time.
fn client_at(isn: u32, program: Vec<Instruction>, payload: u64, tunables: Tunables) -> Peer {
    let at = |now: u64| {
        let server = vec![Instruction::Accept, Instruction::WaitForPeerClose];
        let mut peer = Peer::of(scenario(program.clone(), server, payload, tunables.clone()), true, now);
        peer.open();
        peer
    };
    let first = 1_000_000_000;
    let ahead = isn.wrapping_sub(at(first).irs);
    let peer = at(first + (u64::from(ahead) << 12));
    assert_eq!(peer.irs, isn);
    peer
}

#[test]
fn numbers_wrap_on_both_sides() {
    for back in [0, 1, 2, 1460, 5000, 20_000] {
        for tunables in [plain(), selective()] {
            let options = if tunables.sack { SACK_PERMITTED } else { MSS };
            let program = vec![Instruction::Connect, SEND, Instruction::Receive { bytes: 10_000, clear: true }];
            let mut peer = client_at(0u32.wrapping_sub(back), program, 14_600, tunables.clone());
            peer.iss = 0u32.wrapping_sub(back);
            peer.handshake(options, 65_535);
            assert_eq!(peer.all().iter().map(|s| s.len()).sum::<usize>(), 14_600);
            for n in 2..=5 {
                let block = [(1461, 1 + 1460 * n)];
                peer.send(if tunables.sack { segment(ACK).sack(&block) } else { segment(ACK) });
            }
            assert_eq!(peer.next().seq, 1, "sent again");
            peer.send(segment(ACK).ack(14_601));
            peer.send(segment(ACK).ack(14_601).seq(5001).data(5000));
            peer.send(segment(ACK).ack(14_601).seq(1).data(5000));
            let last = peer.all().pop().expect("FIN");
            assert_eq!((last.flags & FIN, last.seq, last.ack), (FIN, 14_601, 10_001));
            peer.send(segment(FIN | ACK).seq(10_001).ack(14_602));
            peer.wait(2000);
            peer.expect_closed();
        }
    }
}

#[test]
fn payloads_longer_than_a_part_are_sent_whole_and_in_order() {
    // 2^28 and some bytes, several times over.
    let len = (1u64 << 28) + 12_345;
    let tunables = Tunables { mss: 65_000, initial_window: 255, window_scale: true, ..selective() };
    let send = Instruction::Send { payload: 0, wait: false };
    let program = vec![Instruction::Connect, send.clone(), send];
    let mut peer = Peer::client(program, len, tunables);
    peer.round_trip = 1;
    let options = spate_stateful::packet::Options { mss: Some(65_000), window_scale: Some(14), ..SACK_PERMITTED };
    peer.handshake(options, 65_535);
    let pattern = Payload::pattern(len);
    let mut expected = vec![0; 65_000];
    let (mut at, mut acked) = (0u64, 0u32);
    for _ in 0..100_000 {
        for s in peer.all() {
            assert_eq!(s.seq, (at as u32).wrapping_add(1));
            // Near the ends, and here and there.
            let offset = at % len;
            let whole = offset + s.len() as u64 <= len;
            if whole && (at % (1 << 22) < 65_000 || len - offset < 200_000 || offset.abs_diff(1 << 28) < 200_000) {
                let expected = &mut expected[..s.len()];
                pattern.fill(0, offset, expected);
                assert!(s.data == expected, "at {at}");
            }
            at += s.len() as u64;
            acked = s.seq.wrapping_add(s.len() as u32).wrapping_add(u32::from(s.flags & FIN != 0));
        }
        if at == 2 * len {
            break;
        }
        peer.send(segment(ACK).ack(acked));
    }
    assert_eq!(at, 2 * len);
    peer.send(segment(ACK).ack(acked));
    peer.send(segment(FIN | ACK).ack(acked));
    assert_eq!(peer.count(Count::AckedBytes), 2 * len);
    peer.wait(2000);
    peer.expect_closed();
}

#[test]
fn a_program_waits_when_its_queue_is_full() {
    // Two payloads in the flow, fourteen beside it; different ones are not joined.
    let mut program = vec![Instruction::Connect];
    for n in 0..40u32 {
        program.push(Instruction::Send { payload: n % 2, wait: false });
    }
    let mut of = scenario(program, vec![Instruction::Accept], 100, plain());
    of.payloads.push(Payload::pattern(50));
    let mut peer = Peer::of(of, true, 1_000_000_000);
    peer.open();
    peer.handshake(MSS, 65_535);
    let mut sent = 0;
    for _ in 0..50 {
        let reply = peer.all();
        sent += reply.iter().map(|s| s.len() as u32).sum::<u32>();
        if reply.iter().any(|s| s.flags & FIN != 0) {
            break;
        }
        assert!(peer.count(Count::QueuedBytes) - peer.count(Count::AckedBytes) <= 16 * 100);
        peer.send(segment(ACK).ack(1 + sent));
    }
    assert_eq!((sent, peer.count(Count::QueuedBytes)), (3000, 3000));
    peer.send(segment(FIN | ACK).ack(3002));
    peer.wait(2000);
    peer.expect_closed();
}

#[test]
fn a_program_waits_when_the_send_buffer_is_full() {
    let program = vec![
        Instruction::Connect,
        Instruction::Send { payload: 0, wait: false },
        Instruction::Send { payload: 0, wait: false },
        Instruction::Send { payload: 0, wait: false },
    ];
    let mut peer = Peer::client(program, 2000, Tunables { send_buffer: 3000, ..plain() });
    peer.handshake(MSS, 65_535);
    assert_eq!(peer.count(Count::QueuedBytes), 4000);
    peer.send(segment(ACK).ack(2001));
    assert_eq!(peer.count(Count::QueuedBytes), 6000);
}

#[test]
fn without_places_for_what_came_out_of_order_flows_go_on() {
    let flows = 1100u16;
    let server = vec![Instruction::Accept, Instruction::WaitForPeerClose];
    let mut of = scenario(vec![Instruction::Connect], server, 1, selective());
    of.most_flows = 2000;
    let mut peer = Peer::of(of, false, 1_000_000_000);
    peer.round_trip = 0;
    let mut numbers = Vec::new();
    for port in 0..flows {
        peer.client_port = 1000 + port;
        peer.handshake(SACK_PERMITTED, 65_535);
        peer.send(segment(ACK).seq(101).data(100));
        peer.all();
        numbers.push(peer.irs);
    }
    assert_eq!(peer.stack.held().0, 1024);
    assert_eq!(peer.count(Count::RecoveryExhausted), u64::from(flows) - 1024);
    for (port, irs) in (0..flows).zip(numbers) {
        (peer.client_port, peer.irs) = (1000 + port, irs);
        peer.send(segment(ACK).seq(1).data(100));
        peer.send(segment(ACK).seq(101).data(100));
        peer.send(segment(FIN | ACK).seq(201));
        peer.send(segment(ACK).seq(202).ack(2));
    }
    assert_eq!(peer.count(Count::ReceivedDataBytes), u64::from(flows) * 200);
    assert_eq!(peer.count(Count::FlowsClosed), u64::from(flows));
    peer.expect_closed();
}

#[test]
fn without_places_for_long_queues_programs_wait_and_go_on() {
    let flows = 1100u16;
    let mut program = vec![Instruction::Connect];
    program.extend([0, 1, 0, 1].map(|payload| Instruction::Send { payload, wait: false }));
    let mut of = scenario(program, vec![Instruction::Accept], 100, plain());
    of.payloads.push(Payload::pattern(50));
    of.most_flows = 2000;
    let mut peer = Peer::of(of, true, 1_000_000_000);
    peer.round_trip = 0;
    let mut numbers = Vec::new();
    for port in 0..flows {
        peer.client_port = 1000 + port;
        peer.open();
        peer.handshake(MSS, 65_535);
        numbers.push((peer.irs, peer.all().iter().map(|s| s.len() as u32).sum::<u32>()));
    }
    assert_eq!(peer.stack.held().1, 1024);
    assert_eq!(peer.count(Count::BacklogExhausted), u64::from(flows) - 1024);
    for (port, (irs, mut sent)) in (0..flows).zip(numbers) {
        (peer.client_port, peer.irs) = (1000 + port, irs);
        while sent < 300 {
            peer.send(segment(ACK).ack(1 + sent));
            let more = peer.all().iter().map(|s| s.len() as u32).sum::<u32>();
            assert!(more > 0, "it stands still after {sent} bytes");
            sent += more;
        }
        peer.send(segment(FIN | ACK).ack(302));
    }
    assert_eq!(peer.count(Count::AckedBytes), u64::from(flows) * 300);
    peer.wait(2000);
    peer.expect_closed();
}

#[test]
fn challenges_are_answered_about_a_thousand_times_a_second_and_the_others_counted() {
    // RFC 5961 section 7.
    let mut peer = idle();
    peer.wait(1000);
    for second in 1..=3u64 {
        let before = peer.count(Count::ChallengeAcks);
        for _ in 0..3000 {
            peer.send(segment(RST).seq(2));
        }
        let answered = peer.count(Count::ChallengeAcks) - before;
        assert!((500..=1500).contains(&answered), "{answered}");
        assert_eq!(peer.all().len() as u64, answered);
        assert_eq!(peer.count(Count::ChallengeAcks) + peer.count(Count::ChallengeAcksSuppressed), 3000 * second);
        peer.wait(1000);
    }
    assert!(peer.is_open());
    // A peer that has not seen the end of the handshake is answered all the same.
    let mut peer = Peer::client(vec![Instruction::Connect, Instruction::WaitForPeerClose], 1, plain());
    peer.handshake(MSS, 65_535);
    peer.expect_segment(ACK, 1, 1, 0);
    for _ in 0..2000 {
        peer.send(segment(SYN | ACK).seq(0).options(MSS));
        peer.expect_segment(ACK, 1, 1, 0);
    }
}

#[test]
fn segments_of_no_flow_are_answered_in_the_order_in_which_they_came() {
    let mut peer = Peer::server(vec![Instruction::Accept], 10, plain());
    for ack in [700, 100, 900, 300] {
        peer.send_only(segment(ACK).ack(ack));
    }
    peer.collect();
    let answers: Vec<_> = peer.all().iter().map(|s| (s.flags, s.seq)).collect();
    assert_eq!(answers, [700, 100, 900, 300].map(|seq| (RST, seq)));
}

#[test]
fn a_fin_half_the_numbers_ahead_of_a_closed_window_is_beyond_it() {
    let tunables = Tunables { receive_buffer: 1000, ..plain() };
    let mut peer = Peer::server(vec![Instruction::Accept, Instruction::WaitForPeerClose], 10, tunables);
    peer.send(segment(super::peer::SYN).seq(0));
    peer.all();
    peer.send(segment(ACK));
    // All that fits, without room for a sign that there is more.
    peer.room = 0;
    peer.send(segment(ACK).data(1000));
    peer.send(segment(FIN | ACK).seq(1001 + i32::MAX as u32));
    assert_eq!(peer.count(Count::BeyondWindowPackets), 1);
    peer.room = usize::MAX;
    peer.send(segment(ACK).seq(1001)); // what waited leaves: the window is open again
    peer.send(segment(ACK).seq(1001).data(100));
    peer.all();
    assert_eq!((peer.count(Count::ReceivedDataBytes), peer.count(Count::AfterClosePackets)), (1100, 0));
    assert_eq!(peer.stack.held(), (0, 0), "no place of a FIN is noted");
}
