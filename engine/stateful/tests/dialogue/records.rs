// SPDX-License-Identifier: Apache-2.0
//! What the record of a connection says of its times and of its end.
use rtrb::{Consumer, RingBuffer};

use super::{
    defence::icmp,
    net::MS,
    peer::{ACK, FIN, MSS, RST, Talk, plain, say, scenario},
};
use spate_stateful::{End, Instruction, Record, Recorder, Tunables};

/// The stack is a client that does this, and is recorded.
fn client(program: &[Instruction], tunables: Tunables) -> (Talk, Consumer<Record>) {
    let program = [&[Instruction::Connect], program].concat();
    let mut talk = Talk::of(scenario(program, vec![Instruction::Accept], 10, tunables), true, 1_000 * MS);
    let (out, records) = RingBuffer::new(4);
    talk.stack.record(Recorder { one_in: 1, out });
    talk.open();
    (talk, records)
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
    let (mut talk, mut records) = client(&[SEND, Instruction::Receive { bytes: 20, clear: true }], plain());
    talk.shake(MSS, 65_535);
    talk.hears(ACK, 1, 1, 10);
    talk.wait(30);
    talk.tell(say(ACK).ack(11).data(20));
    talk.hears(FIN | ACK, 11, 21, 0);
    talk.wait(5);
    assert_eq!(records.slots(), 0, "it is open");
    talk.tell(say(FIN | ACK).seq(21).ack(12));
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
    talk.wait(2000);
    talk.gone();
    assert_eq!(records.slots(), 0, "not again");
}

#[test]
fn what_is_sent_again_is_recorded() {
    let (mut talk, mut records) = client(&[SEND], plain());
    talk.shake(MSS, 65_535);
    talk.hears(ACK, 1, 1, 10);
    talk.after(ACK, 1, 1, 10);
    talk.after(ACK, 1, 1, 10);
    talk.tell(say(RST | ACK).ack(11));
    let record = one(&mut records);
    assert_eq!((record.end, record.sent_packets, record.retransmitted), (End::PeerReset, 4, 2));
    assert_eq!((record.sent_bytes, record.received_bytes, record.first_byte_ns), (10, 0, None));
}

#[test]
fn each_end_has_its_reason() {
    let (mut talk, mut records) = client(&[Instruction::Reset], plain());
    talk.shake(MSS, 65_535);
    talk.hears(RST | ACK, 1, 1, 0);
    assert_eq!(one(&mut records).end, End::Reset);

    let (mut talk, mut records) = client(&[], plain());
    talk.wait(200_000);
    let record = one(&mut records);
    assert_eq!((record.end, record.established_ns, record.round_trip_ns), (End::ConnectTimeout, None, None));

    let (mut talk, mut records) = client(&[], plain());
    let syn = talk.next();
    talk.give(&icmp(&syn, (3, 3), 0));
    assert_eq!(one(&mut records).end, End::Icmp);

    let (mut talk, mut records) = client(&[SEND], plain());
    talk.shake(MSS, 65_535);
    talk.wait(2_000_000);
    assert_eq!(one(&mut records).end, End::RetransmissionTimeout);

    let (mut talk, mut records) = client(&[], plain());
    talk.shake(MSS, 65_535);
    talk.hears(FIN | ACK, 1, 1, 0);
    talk.tell(say(ACK).ack(2));
    talk.wait(70_000);
    assert_eq!(one(&mut records).end, End::HalfClosedTimeout);

    let tunables = Tunables { keepalive_idle_ns: 5_000 * MS, keepalive_interval_ns: 1_000 * MS, ..plain() };
    let (mut talk, mut records) = client(&[WAIT], tunables);
    talk.shake(MSS, 65_535);
    talk.wait(20_000);
    assert_eq!(one(&mut records).end, End::Keepalive);

    let (mut talk, mut records) = client(&[WAIT], plain());
    talk.shake(MSS, 65_535);
    talk.stack.clear();
    assert_eq!(one(&mut records).end, End::Aborted);
}
