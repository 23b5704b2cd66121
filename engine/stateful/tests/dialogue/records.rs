// SPDX-License-Identifier: Apache-2.0
//! The times and the end in the record of a connection.
use rtrb::{Consumer, RingBuffer};

use super::{
    defence::icmp,
    net::MS,
    peer::{ACK, FIN, MSS, Peer, RST, plain, scenario, segment},
};
use spate_stateful::{End, Instruction, Record, Recorder, Tunables};

/// The stack is a client that does this, and is recorded.
fn client(program: &[Instruction], tunables: Tunables) -> (Peer, Consumer<Record>) {
    let program = [&[Instruction::Connect], program].concat();
    let mut peer = Peer::of(scenario(program, vec![Instruction::Accept], 10, tunables), true, 1_000 * MS);
    let (out, records) = RingBuffer::new(4);
    peer.stack.record(Recorder { one_in: 1, out });
    peer.open();
    (peer, records)
}

/// The one record that there is.
#[track_caller]
fn one(records: &mut Consumer<Record>) -> Record {
    let record = records.pop().expect("a record");
    assert_eq!(records.slots(), 0, "one record");
    record
}

const SEND: Instruction = Instruction::Send { payload: 0, wait: true };
const WAIT: Instruction = Instruction::WaitForPeerClose;

#[test]
fn a_closed_connection_is_recorded_before_time_wait() {
    let (mut peer, mut records) = client(&[SEND, Instruction::Receive { bytes: 20, clear: true }], plain());
    peer.handshake(MSS, 65_535);
    peer.expect_segment(ACK, 1, 1, 10);
    peer.wait(30);
    peer.send(segment(ACK).ack(11).data(20));
    peer.expect_segment(FIN | ACK, 11, 21, 0);
    peer.wait(5);
    assert_eq!(records.slots(), 0, "it is open");
    peer.send(segment(FIN | ACK).seq(21).ack(12));
    let record = one(&mut records);
    assert_eq!((record.end, record.client, record.udp, record.number), (End::Closed, true, false, 0));
    assert_eq!((record.tuple.local_port, record.tuple.remote_port), (1024, 80));
    let start = 1_000 * MS;
    let times = [Some(record.start_ns), record.established_ns, record.first_byte_ns, Some(record.end_ns)];
    assert_eq!(times, [0, 50, 80, 85].map(|ms| Some(start + ms * MS)));
    // SYN, data with the acknowledgement, FIN; and SYN+ACK, data, FIN.
    assert_eq!((record.sent_packets, record.received_packets), (3, 3));
    assert_eq!((record.sent_bytes, record.received_bytes, record.retransmitted), (10, 20, 0));
    // 50, 30 and 5 ms (RFC 6298 section 2).
    let round_trip = record.round_trip_ns.expect("three were measured");
    assert!((42 * MS..42_300_000).contains(&round_trip), "{round_trip}");
    peer.wait(2000);
    peer.expect_closed();
    assert_eq!(records.slots(), 0, "not again");
}

#[test]
fn what_is_sent_again_is_recorded() {
    let (mut peer, mut records) = client(&[SEND], plain());
    peer.handshake(MSS, 65_535);
    peer.expect_segment(ACK, 1, 1, 10);
    peer.after(ACK, 1, 1, 10);
    peer.after(ACK, 1, 1, 10);
    peer.send(segment(RST | ACK).ack(11));
    let record = one(&mut records);
    assert_eq!((record.end, record.sent_packets, record.retransmitted), (End::PeerReset, 4, 2));
    assert_eq!((record.sent_bytes, record.received_bytes, record.first_byte_ns), (10, 0, None));
}

#[test]
fn each_end_has_its_reason() {
    let (mut peer, mut records) = client(&[Instruction::Reset], plain());
    peer.handshake(MSS, 65_535);
    peer.expect_segment(RST | ACK, 1, 1, 0);
    assert_eq!(one(&mut records).end, End::Reset);

    let (mut peer, mut records) = client(&[], plain());
    peer.wait(200_000);
    let record = one(&mut records);
    assert_eq!((record.end, record.established_ns, record.round_trip_ns), (End::ConnectTimeout, None, None));

    let (mut peer, mut records) = client(&[], plain());
    let syn = peer.next();
    peer.inject(&icmp(&syn, (3, 3), 0));
    assert_eq!(one(&mut records).end, End::Icmp);

    let (mut peer, mut records) = client(&[SEND], plain());
    peer.handshake(MSS, 65_535);
    peer.wait(2_000_000);
    assert_eq!(one(&mut records).end, End::RetransmissionTimeout);

    let (mut peer, mut records) = client(&[], plain());
    peer.handshake(MSS, 65_535);
    peer.expect_segment(FIN | ACK, 1, 1, 0);
    peer.send(segment(ACK).ack(2));
    peer.wait(70_000);
    assert_eq!(one(&mut records).end, End::HalfClosedTimeout);

    let tunables = Tunables { keepalive_idle_ns: 5_000 * MS, keepalive_interval_ns: 1_000 * MS, ..plain() };
    let (mut peer, mut records) = client(&[WAIT], tunables);
    peer.handshake(MSS, 65_535);
    peer.wait(20_000);
    assert_eq!(one(&mut records).end, End::Keepalive);

    let (mut peer, mut records) = client(&[WAIT], plain());
    peer.handshake(MSS, 65_535);
    peer.stack.clear();
    assert_eq!(one(&mut records).end, End::Aborted);
}
