// SPDX-License-Identifier: Apache-2.0
//! What must not disturb a connection (RFC 5961, 5927, 1191), numbers that wrap, long payloads, and want of memory.
use super::peer::{ACK, FIN, Heard, MSS, RST, SACK_PERMITTED, SEND, SYN, Talk, plain, say, scenario, selective};
use spate_net::checksum::{checksum, sum};
use spate_stateful::{Count, Instruction, Payload, Received, Tunables};

fn idle() -> Talk {
    let mut talk = Talk::client(vec![Instruction::Connect, SEND, Instruction::WaitForPeerClose], 100, plain());
    talk.shake(MSS, 65_535);
    talk.hears(ACK, 1, 1, 100);
    talk.tell(say(ACK).ack(101));
    talk
}

#[test]
fn only_the_exact_number_resets() {
    // RFC 5961 section 3.2.
    let mut talk = idle();
    for seq in [2, 60_000] {
        talk.tell(say(RST).seq(seq));
        talk.hears(ACK, 101, 1, 0);
    }
    assert_eq!(talk.count(Count::ChallengeAcks), 2);
    for seq in [0, 70_000, 0x8000_0000] {
        talk.tell(say(RST).seq(seq));
        talk.quiet();
    }
    assert!(talk.is_open());
    talk.tell(say(RST).seq(1));
    talk.quiet();
    talk.gone();
}

#[test]
fn a_syn_is_challenged() {
    // RFC 5961 section 4.2.
    let mut talk = idle();
    for (flags, seq) in [(SYN, 1), (SYN, 500), (SYN | ACK, 0), (SYN, 0x9000_0000)] {
        talk.tell(say(flags).seq(seq).ack(101));
        talk.hears(ACK, 101, 1, 0);
    }
    assert_eq!(talk.count(Count::ChallengeAcks), 4);
    assert!(talk.is_open());
}

#[test]
fn acknowledgements_of_the_future_and_of_long_ago_are_challenged_and_their_data_is_dropped() {
    // RFC 5961 section 5.2.
    let mut talk = idle();
    for ack in [102, 0x7000_0000, 0u32.wrapping_sub(70_000)] {
        talk.tell(say(ACK).ack(ack).data(10));
        talk.hears(ACK, 101, 1, 0);
    }
    assert_eq!((talk.count(Count::ReceivedDataBytes), talk.count(Count::ChallengeAcks)), (0, 3));
    // A little old: only late.
    talk.tell(say(ACK).ack(1).data(10));
    assert_eq!(talk.count(Count::ReceivedDataBytes), 10);
}

#[test]
fn a_segment_without_ack_is_dropped() {
    let mut talk = idle();
    talk.tell(say(0).data(10));
    talk.tell(say(FIN).data(10));
    talk.quiet();
    assert_eq!(talk.count(Count::ReceivedDataBytes), 0);
}

/// An ICMP error about a frame that the stack sent.
pub(super) fn icmp(about: &Heard, kind: (u8, u8), mtu: u16) -> Vec<u8> {
    super::net::icmp::error(&about.frame, kind, mtu)
}

#[test]
fn a_link_with_a_smaller_mtu_makes_segments_smaller_and_sent_again() {
    // RFC 1191.
    let mut talk = Talk::client(vec![Instruction::Connect, SEND], 10_000, Tunables { no_delay: true, ..plain() });
    talk.shake(MSS, 65_535);
    let sent = talk.all();
    assert_eq!(sent[0].len(), 1460);
    // Of what is not in flight: someone else's guess (RFC 5927).
    let other = Heard {
        frame: {
            let mut f = sent[0].frame.clone();
            f[38] ^= 0x40;
            f
        },
        ..sent[0].clone()
    };
    talk.give(&icmp(&other, (3, 4), 600));
    talk.quiet();
    assert_eq!(talk.give(&icmp(&sent[0], (3, 4), 1000)), Received::Taken);
    let again = talk.all();
    assert_eq!(again.iter().map(|s| s.len()).sum::<usize>(), 10_000);
    assert!(again.iter().all(|s| s.len() <= 960) && again[0].seq == 1);
    assert_eq!((talk.count(Count::MtuReductions), talk.count(Count::RetransmitTimeouts)), (1, 0));
    // The others that were too long tell the same.
    talk.give(&icmp(&sent[1], (3, 4), 1000));
    talk.quiet();
    talk.tell(say(ACK).ack(10_001));
    assert_eq!(talk.count(Count::AckedBytes), 10_000);
}

#[test]
fn an_unreachable_port_ends_a_handshake_and_nothing_else() {
    let mut talk = Talk::client(vec![Instruction::Connect], 1, plain());
    let syn = talk.next();
    talk.give(&icmp(&syn, (3, 1), 0));
    assert!(talk.is_open(), "a host may be reachable again");
    talk.give(&icmp(&syn, (3, 3), 0));
    assert_eq!(talk.count(Count::ConnectDrops), 1);
    talk.gone();

    let mut talk = Talk::client(vec![Instruction::Connect, SEND], 100, plain());
    talk.shake(MSS, 65_535);
    let data = talk.next();
    talk.give(&icmp(&data, (3, 3), 0));
    assert!(talk.is_open());
    assert_eq!(talk.count(Count::IcmpErrors), 1);
}

#[test]
fn what_cannot_be_read_is_counted_where_its_address_is() {
    const IP: usize = 14;
    let mut talk = idle();
    let (received, good) = (talk.count(Count::ReceivedPackets), talk.frame(say(ACK).ack(101).data(10)));
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let cut = good[..good.len() - 2].to_vec();
    let mut fragment = good;
    fragment[IP + 6] |= 0x20;
    fragment[IP + 10..IP + 12].fill(0);
    let check = checksum(sum(&fragment[IP..IP + 20])).to_be_bytes();
    fragment[IP + 10..IP + 12].copy_from_slice(&check);
    for (frame, count) in [(damaged, Count::BadChecksums), (cut, Count::Truncated), (fragment, Count::Fragments)] {
        assert_eq!(talk.give(&frame), Received::Taken);
        assert_eq!(talk.count(count), 1);
        talk.quiet();
        let mut elsewhere = frame;
        elsewhere[IP + 16] ^= 0x40;
        assert_eq!(talk.give(&elsewhere), Received::Foreign);
        assert_eq!(talk.count(count), 1);
    }
    assert_eq!(talk.count(Count::ReceivedPackets), received);
}

/// A client whose initial number is this: its clock counts in it (RFC 6528), so that it starts at the right time.
fn client_at(isn: u32, program: Vec<Instruction>, payload: u64, tunables: Tunables) -> Talk {
    let at = |now: u64| {
        let server = vec![Instruction::Accept, Instruction::WaitForPeerClose];
        let mut talk = Talk::of(scenario(program.clone(), server, payload, tunables.clone()), true, now);
        talk.open();
        talk
    };
    let first = 1_000_000_000;
    let ahead = isn.wrapping_sub(at(first).irs);
    let talk = at(first + (u64::from(ahead) << 12));
    assert_eq!(talk.irs, isn);
    talk
}

#[test]
fn numbers_wrap_on_both_sides() {
    for back in [0, 1, 2, 1460, 5000, 20_000] {
        for tunables in [plain(), selective()] {
            let options = if tunables.sack { SACK_PERMITTED } else { MSS };
            let program = vec![Instruction::Connect, SEND, Instruction::Receive { bytes: 10_000, clear: true }];
            let mut talk = client_at(0u32.wrapping_sub(back), program, 14_600, tunables.clone());
            talk.iss = 0u32.wrapping_sub(back);
            talk.shake(options, 65_535);
            assert_eq!(talk.all().iter().map(|s| s.len()).sum::<usize>(), 14_600);
            for n in 2..=5 {
                let block = [(1461, 1 + 1460 * n)];
                talk.tell(if tunables.sack { say(ACK).sack(&block) } else { say(ACK) });
            }
            assert_eq!(talk.next().seq, 1, "sent again");
            talk.tell(say(ACK).ack(14_601));
            talk.tell(say(ACK).ack(14_601).seq(5001).data(5000));
            talk.tell(say(ACK).ack(14_601).seq(1).data(5000));
            let last = talk.all().pop().expect("FIN");
            assert_eq!((last.flags & FIN, last.seq, last.ack), (FIN, 14_601, 10_001));
            talk.tell(say(FIN | ACK).seq(10_001).ack(14_602));
            talk.wait(2000);
            talk.gone();
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
    let mut talk = Talk::client(program, len, tunables);
    talk.round_trip = 1;
    let options = spate_stateful::packet::Options { mss: Some(65_000), window_scale: Some(14), ..SACK_PERMITTED };
    talk.shake(options, 65_535);
    let pattern = Payload::pattern(len);
    let mut expected = vec![0; 65_000];
    let (mut at, mut acked) = (0u64, 0u32);
    for _ in 0..100_000 {
        for s in talk.all() {
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
        talk.tell(say(ACK).ack(acked));
    }
    assert_eq!(at, 2 * len);
    talk.tell(say(ACK).ack(acked));
    talk.tell(say(FIN | ACK).ack(acked));
    assert_eq!(talk.count(Count::AckedBytes), 2 * len);
    talk.wait(2000);
    talk.gone();
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
    let mut talk = Talk::of(of, true, 1_000_000_000);
    talk.open();
    talk.shake(MSS, 65_535);
    let mut sent = 0;
    for _ in 0..50 {
        let heard = talk.all();
        sent += heard.iter().map(|s| s.len() as u32).sum::<u32>();
        if heard.iter().any(|s| s.flags & FIN != 0) {
            break;
        }
        assert!(talk.count(Count::QueuedBytes) - talk.count(Count::AckedBytes) <= 16 * 100);
        talk.tell(say(ACK).ack(1 + sent));
    }
    assert_eq!((sent, talk.count(Count::QueuedBytes)), (3000, 3000));
    talk.tell(say(FIN | ACK).ack(3002));
    talk.wait(2000);
    talk.gone();
}

#[test]
fn a_program_waits_when_the_send_buffer_is_full() {
    let program = vec![
        Instruction::Connect,
        Instruction::Send { payload: 0, wait: false },
        Instruction::Send { payload: 0, wait: false },
        Instruction::Send { payload: 0, wait: false },
    ];
    let mut talk = Talk::client(program, 2000, Tunables { send_buffer: 3000, ..plain() });
    talk.shake(MSS, 65_535);
    assert_eq!(talk.count(Count::QueuedBytes), 4000);
    talk.tell(say(ACK).ack(2001));
    assert_eq!(talk.count(Count::QueuedBytes), 6000);
}

#[test]
fn without_places_for_what_came_out_of_order_flows_go_on() {
    let flows = 1100u16;
    let server = vec![Instruction::Accept, Instruction::WaitForPeerClose];
    let mut of = scenario(vec![Instruction::Connect], server, 1, selective());
    of.most_flows = 2000;
    let mut talk = Talk::of(of, false, 1_000_000_000);
    talk.round_trip = 0;
    let mut numbers = Vec::new();
    for port in 0..flows {
        talk.client_port = 1000 + port;
        talk.shake(SACK_PERMITTED, 65_535);
        talk.tell(say(ACK).seq(101).data(100));
        talk.all();
        numbers.push(talk.irs);
    }
    assert_eq!(talk.stack.held().0, 1024);
    assert_eq!(talk.count(Count::RecoveryExhausted), u64::from(flows) - 1024);
    for (port, irs) in (0..flows).zip(numbers) {
        (talk.client_port, talk.irs) = (1000 + port, irs);
        talk.tell(say(ACK).seq(1).data(100));
        talk.tell(say(ACK).seq(101).data(100));
        talk.tell(say(FIN | ACK).seq(201));
        talk.tell(say(ACK).seq(202).ack(2));
    }
    assert_eq!(talk.count(Count::ReceivedDataBytes), u64::from(flows) * 200);
    assert_eq!(talk.count(Count::FlowsClosed), u64::from(flows));
    talk.gone();
}

#[test]
fn without_places_for_long_queues_programs_wait_and_go_on() {
    let flows = 1100u16;
    let mut program = vec![Instruction::Connect];
    program.extend([0, 1, 0, 1].map(|payload| Instruction::Send { payload, wait: false }));
    let mut of = scenario(program, vec![Instruction::Accept], 100, plain());
    of.payloads.push(Payload::pattern(50));
    of.most_flows = 2000;
    let mut talk = Talk::of(of, true, 1_000_000_000);
    talk.round_trip = 0;
    let mut numbers = Vec::new();
    for port in 0..flows {
        talk.client_port = 1000 + port;
        talk.open();
        talk.shake(MSS, 65_535);
        numbers.push((talk.irs, talk.all().iter().map(|s| s.len() as u32).sum::<u32>()));
    }
    assert_eq!(talk.stack.held().1, 1024);
    assert_eq!(talk.count(Count::BacklogExhausted), u64::from(flows) - 1024);
    for (port, (irs, mut sent)) in (0..flows).zip(numbers) {
        (talk.client_port, talk.irs) = (1000 + port, irs);
        while sent < 300 {
            talk.tell(say(ACK).ack(1 + sent));
            let more = talk.all().iter().map(|s| s.len() as u32).sum::<u32>();
            assert!(more > 0, "it stands still after {sent} bytes");
            sent += more;
        }
        talk.tell(say(FIN | ACK).ack(302));
    }
    assert_eq!(talk.count(Count::AckedBytes), u64::from(flows) * 300);
    talk.wait(2000);
    talk.gone();
}

#[test]
fn challenges_are_answered_about_a_thousand_times_a_second_and_the_others_counted() {
    // RFC 5961 section 7.
    let mut talk = idle();
    talk.wait(1000);
    for second in 1..=3u64 {
        let before = talk.count(Count::ChallengeAcks);
        for _ in 0..3000 {
            talk.tell(say(RST).seq(2));
        }
        let answered = talk.count(Count::ChallengeAcks) - before;
        assert!((500..=1500).contains(&answered), "{answered}");
        assert_eq!(talk.all().len() as u64, answered);
        assert_eq!(talk.count(Count::ChallengeAcks) + talk.count(Count::ChallengeAcksSuppressed), 3000 * second);
        talk.wait(1000);
    }
    assert!(talk.is_open());
    // A peer that has not seen the end of the handshake is answered all the same.
    let mut talk = Talk::client(vec![Instruction::Connect, Instruction::WaitForPeerClose], 1, plain());
    talk.shake(MSS, 65_535);
    talk.hears(ACK, 1, 1, 0);
    for _ in 0..2000 {
        talk.tell(say(SYN | ACK).seq(0).options(MSS));
        talk.hears(ACK, 1, 1, 0);
    }
}

#[test]
fn segments_of_no_flow_are_answered_in_the_order_in_which_they_came() {
    let mut talk = Talk::server(vec![Instruction::Accept], 10, plain());
    for ack in [700, 100, 900, 300] {
        talk.tell_without_listening(say(ACK).ack(ack));
    }
    talk.listen();
    let answers: Vec<_> = talk.all().iter().map(|s| (s.flags, s.seq)).collect();
    assert_eq!(answers, [700, 100, 900, 300].map(|seq| (RST, seq)));
}

#[test]
fn a_fin_half_the_numbers_ahead_of_a_closed_window_is_beyond_it() {
    let tunables = Tunables { receive_buffer: 1000, ..plain() };
    let mut talk = Talk::server(vec![Instruction::Accept, Instruction::WaitForPeerClose], 10, tunables);
    talk.tell(say(super::peer::SYN).seq(0));
    talk.all();
    talk.tell(say(ACK));
    // All that fits, and no room to say that there is more.
    talk.room = 0;
    talk.tell(say(ACK).data(1000));
    talk.tell(say(FIN | ACK).seq(1001 + i32::MAX as u32));
    assert_eq!(talk.count(Count::BeyondWindowPackets), 1);
    talk.room = usize::MAX;
    talk.tell(say(ACK).seq(1001)); // what waited leaves: the window is open again
    talk.tell(say(ACK).seq(1001).data(100));
    talk.all();
    assert_eq!((talk.count(Count::ReceivedDataBytes), talk.count(Count::AfterClosePackets)), (1100, 0));
    assert_eq!(talk.stack.held(), (0, 0), "no place of a FIN is noted");
}
