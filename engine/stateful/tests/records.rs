// SPDX-License-Identifier: Apache-2.0
//! Records of many flows over a bad network: one for each end that has closed, and their sums are what was counted.
mod net;

use net::{MS, Net, Path, over_ipv6, request_response, scenario};
use rtrb::{Consumer, RingBuffer};
use spate_stateful::{Count, End, Instruction, Payload, Protocol, Record, Recorder, Scenario};
use std::collections::BTreeMap;

const FLOWS: u64 = 400;

/// A network whose flows are recorded, one in `one_in`, in a ring of `room` entries.
fn recorded(scenario: Scenario, path: Path, one_in: u32, room: usize) -> (Net, Consumer<Record>) {
    let mut net = Net::new(scenario, path);
    let (out, records) = RingBuffer::new(room);
    net.stack.record(Recorder { one_in, out });
    (net, records)
}

fn all(records: &mut Consumer<Record>) -> Vec<Record> {
    std::iter::from_fn(|| records.pop().ok()).collect()
}

fn tcp() -> Scenario {
    let (client, server, payloads) = request_response(3_000, 40_000);
    scenario(Protocol::Tcp, client, server, payloads)
}

fn bad() -> Path {
    Path { delay_ns: 5 * MS, loss: 20_000, late: 20_000, duplicates: 10_000, ..Path::default() }
}

#[test]
fn records_add_up_to_what_was_counted() {
    for scenario in [tcp(), over_ipv6(tcp())] {
        let (mut net, mut records) = recorded(scenario, bad(), 1, 2 * FLOWS as usize);
        // In turns: what one flow does is not another's.
        net.room = 3;
        (0..FLOWS).for_each(|_| net.open(0));
        net.run_for(600_000 * MS);
        let records = all(&mut records);
        for client in [true, false] {
            let mine: Vec<_> = records.iter().filter(|record| record.client == client).collect();
            let sum = |of: fn(&Record) -> u64| mine.iter().map(|record| of(record)).sum::<u64>();
            assert_eq!((mine.len() as u64, net.count(client, Count::FlowsClosed)), (FLOWS, FLOWS));
            assert_eq!(sum(|record| record.sent_bytes), net.count(client, Count::SentDataBytes));
            assert_eq!(sum(|record| record.received_bytes), net.count(client, Count::ReceivedDataBytes));
            assert_eq!(sum(|record| record.retransmitted), net.count(client, Count::RetransmittedPackets));
            assert!(net.count(client, Count::RetransmittedPackets) > 0, "the network loses");
            // All but what is sent and received in TIME-WAIT, by the side that closes first.
            assert!(sum(|record| record.sent_packets) <= net.count(client, Count::SentPackets));
            assert!(sum(|record| record.received_packets) <= net.count(client, Count::ReceivedPackets));
            assert!(sum(|record| record.sent_packets) + 2 * FLOWS > net.count(client, Count::SentPackets));
            let bytes = if client { (3_000, 40_000) } else { (40_000, 3_000) };
            for record in mine {
                assert_eq!((record.end, record.sent_bytes, record.received_bytes), (End::Closed, bytes.0, bytes.1));
                let (established, first) = (record.established_ns.unwrap(), record.first_byte_ns.unwrap());
                assert!(record.start_ns < established && established <= first && first < record.end_ns, "{record:?}");
                assert!(record.round_trip_ns.unwrap() > 9 * MS, "{record:?}");
            }
        }
        assert_eq!(net.count(true, Count::RecordsDropped) + net.count(false, Count::RecordsDropped), 0);
    }
}

#[test]
fn datagrams_are_recorded() {
    let client = vec![
        Instruction::SendMessage { payload: 0 },
        Instruction::ReceiveMessages { messages: 1, clear: true },
        Instruction::Close,
    ];
    let server =
        vec![Instruction::ReceiveMessages { messages: 1, clear: true }, Instruction::SendMessage { payload: 1 }];
    let payloads = vec![Payload::pattern(40), Payload::pattern(400)];
    let path = Path { loss: 50_000, ..Path::default() };
    let (mut net, mut records) = recorded(scenario(Protocol::Udp, client, server, payloads), path, 1, 1000);
    (0..FLOWS).for_each(|_| net.open(0));
    net.run_for(60_000 * MS);
    let records = all(&mut records);
    for client in [true, false] {
        let mine: Vec<_> = records.iter().filter(|record| record.client == client).collect();
        let sum = |of: fn(&Record) -> u64| mine.iter().map(|record| of(record)).sum::<u64>();
        assert_eq!(mine.len() as u64, net.count(client, Count::FlowsClosed));
        assert_eq!(sum(|record| record.sent_bytes), net.count(client, Count::MessageBytesSent));
        assert_eq!(sum(|record| record.received_bytes), net.count(client, Count::MessageBytesReceived));
        assert_eq!(sum(|record| record.sent_packets), net.count(client, Count::SentPackets));
        let silent = mine.iter().filter(|record| record.end == End::IdleTimeout).count() as u64;
        assert_eq!(silent, net.count(client, Count::FlowsIdleTimeouts));
        assert!(mine.iter().all(|record| record.udp && record.established_ns == Some(record.start_ns)));
    }
    assert!(net.count(true, Count::FlowsIdleTimeouts) > 0, "the network loses");
}

#[test]
fn one_in_so_many_is_recorded_at_both_ends() {
    let (mut net, mut records) = recorded(tcp(), Path::default(), 4, 2 * FLOWS as usize);
    (0..FLOWS).for_each(|_| net.open(0));
    net.run_for(60_000 * MS);
    let mut ends: BTreeMap<u16, Vec<bool>> = BTreeMap::new();
    for record in all(&mut records) {
        let port = if record.client { record.tuple.local_port } else { record.tuple.remote_port };
        ends.entry(port).or_default().push(record.client);
    }
    assert!((60..=140).contains(&ends.len()), "{} of {FLOWS}", ends.len());
    assert!(ends.values().all(|ends| ends.len() == 2 && ends[0] != ends[1]), "{ends:?}");
}

#[test]
fn records_without_room_are_counted_and_nothing_waits() {
    let (mut net, mut records) = recorded(tcp(), Path::default(), 1, 100);
    (0..FLOWS).for_each(|_| net.open(0));
    net.run_for(60_000 * MS);
    assert_eq!((net.count(true, Count::FlowsClosed), net.count(false, Count::FlowsClosed)), (FLOWS, FLOWS));
    let dropped = net.count(true, Count::RecordsDropped) + net.count(false, Count::RecordsDropped);
    assert_eq!((all(&mut records).len() as u64, dropped), (100, 2 * FLOWS - 100));
}
