// SPDX-License-Identifier: Apache-2.0
//! Losses, duplicates and reorderings that are made on purpose are reported exactly: with varied packets, several sending
//! and several receiving workers.
use std::sync::{Arc, Mutex};

use spate_engine::datapath::{
    Blueprint, Disturbance, FieldProgram, PollMode, PortDevice, RunState, Sequence, StreamReceive, StreamSpec,
    Template, Variable, Write,
};
use spate_engine::index::{PortIndex, StreamIndex, WorkerIndex};
use spate_net::Trailer;
use spate_stateful::random::Numbers;

use crate::setup::{MS, open, pps, spec, start, stream, turn, wait_for};

/// What was done to the packets of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub lost: u64,
    pub duplicated: u64,
    pub swapped: u64,
}

/// Loses and duplicates about one packet in this many, and swaps some; which ones follows from the seed. Two packets change
/// places only if they are of one stream and sender and arrive at one queue: nothing else has an order that a receiver could
/// know.
pub fn disturbance(seed: u64, one_in: u64, done: Arc<Mutex<Done>>) -> Box<Disturbance> {
    // Behind a lock since a disturbance is shared by senders.
    let random = Mutex::new(Numbers::new(seed));
    Box::new(move |packets| {
        let mut random = random.lock().unwrap();
        let mut done = done.lock().unwrap();
        let mut order: Vec<usize> = (0..packets.len()).collect();
        let mut touched = vec![false; packets.len()];
        let flow = |index: usize| {
            let (frame, queue) = packets[index];
            Trailer::decode(frame).map(|t| (t.stream, t.sender, queue))
        };
        let mut arrivals = Vec::new();
        for index in 0..packets.len() {
            if touched[index] || flow(index).is_none() {
                continue;
            }
            // A swap needs a neighbor in the same burst, which a machine that keeps up seldom has: it is tried more often.
            match random.below(2 * one_in) {
                0 => {
                    touched[index] = true;
                    done.lost += 1;
                    order[index] = usize::MAX;
                }
                1 => {
                    touched[index] = true;
                    done.duplicated += 1;
                    arrivals.push(index);
                }
                chance if chance % 8 == 2 => {
                    let next = (index + 1..packets.len()).find(|other| flow(*other) == flow(index));
                    if let Some(next) = next {
                        done.swapped += 1;
                        (touched[index], touched[next]) = (true, true);
                        order.swap(index, next);
                    }
                }
                _ => {}
            }
        }
        // Duplicates come after everything else, which is no reordering: they are duplicates.
        let mut all: Vec<usize> = order.into_iter().filter(|index| *index != usize::MAX).collect();
        all.extend(arrivals);
        all
    })
}

/// A stream of UDP packets whose source port is random.
fn random_source_port(id: u16, rate: u64, len: usize, v6: bool) -> StreamSpec {
    let mut frame = vec![0; len];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    let port_at = if v6 {
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14] = 0x60;
        frame[18..20].copy_from_slice(&(len as u16 - 54).to_be_bytes());
        frame[20..22].copy_from_slice(&[17, 64]);
        (frame[37], frame[53]) = (1, 2);
        54
    } else {
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
        frame[26..34].copy_from_slice(&[198, 18, 0, 1, 198, 19, 0, 1]);
        34
    };
    let ports = Sequence::Random { min: 1024, max: 65_535, seed: 7 };
    let program = FieldProgram {
        variables: vec![Variable { sequence: ports, after: None, limit: 0, per_worker: false }],
        writes: vec![Write { variable: 0, offset: port_at, size: 2, add: 0, shift: 0, mask: 0, little_endian: false }],
    };
    let template = Template::new(&Blueprint { frame, program, flow: true, ..Blueprint::default() }).unwrap();
    StreamSpec {
        template,
        receive: StreamReceive { histogram: Some(usize::from(id)), varied: true, ..StreamReceive::default() },
        ..stream(id, 0, Some(0), 60, pps(rate))
    }
}

#[test]
fn a_random_source_port_over_two_senders_and_two_receivers_is_reported_exactly() {
    reported_exactly(PollMode::Busy);
}

#[test]
fn it_is_by_workers_that_sleep_too() {
    reported_exactly(PollMode::Adaptive);
}

fn reported_exactly(poll: PollMode) {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 2, poll);
    assert_eq!(datapath.ports()[0].rx_workers, [0, 1].map(WorkerIndex));
    assert_eq!(datapath.ports()[0].tx_workers, [0, 1].map(WorkerIndex));
    let done = Arc::new(Mutex::new(Done::default()));
    datapath.disturb(PortIndex(0), disturbance(1, 50, Arc::clone(&done)));
    let streams = vec![random_source_port(0, 300_000, 60, false), random_source_port(1, 200_000, 90, true)];
    let run = start(&datapath, spec(5, 0, Some(2000 * MS), streams));
    wait_for(&run, RunState::Complete, 20);
    let done = *done.lock().unwrap();
    let (mut counted, mut sent) = (Done::default(), 0);
    for (counters, packets) in run.counters().iter().zip([600_000, 400_000]) {
        let c = &counters.measured;
        // A worker that is kept from its CPU at the end gives up what is due; all that was sent is accounted for.
        assert_eq!((c.tx_packets + c.tx_dropped, c.misdirected), (packets, 0));
        sent += c.tx_packets;
        assert_eq!((c.sequence_too_high, c.sequence_too_low), (0, 0));
        counted.lost += c.tx_packets - (c.rx_packets - c.duplicates);
        counted.duplicated += c.duplicates;
        counted.swapped += c.out_of_order;
    }
    println!("{done:?}");
    assert_eq!(counted, done);
    assert!(done.lost > 1000 && done.duplicated > 1000 && done.swapped > 100, "{done:?}");
    // Both queues had their half, and every packet that is no duplicate its delay.
    let port = &datapath.port_counters()[0];
    let [(_, a), (_, b)] = port.queues[..] else { panic!("{port:?}") };
    assert!(a.abs_diff(b) < (a + b) / 20, "{port:?}");
    assert_eq!((a + b, port.rx_missed, port.foreign_packets), (sent - done.lost + done.duplicated, 0, 0));
    for (index, counters) in run.counters().iter().enumerate() {
        let c = counters.measured;
        let delays = run.delays(&[StreamIndex(index)]).unwrap();
        assert_eq!((delays.count, delays.negative, delays.unknown), (c.rx_packets - c.duplicates, 0, 0));
        assert_eq!(run.distribution(index).total(), delays.count);
    }
}

#[test]
fn many_streams_over_two_queues_come_back_whole_and_in_order() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 2, PollMode::Busy);
    // Every other over IPv6, whose headers leave room for a trailer in frames of 90 bytes.
    let streams = (0..20).map(|id| match id % 2 {
        0 => random_source_port(id, 20_000, 60, false),
        _ => random_source_port(id, 20_000, 90, true),
    });
    let streams: Vec<_> = streams.collect();
    let run = start(&datapath, spec(6, 100 * MS, Some(500 * MS), streams));
    wait_for(&run, RunState::Complete, 10);
    for counters in run.counters() {
        crate::setup::assert_all_received(&counters.warmup, 2_000);
        crate::setup::assert_all_received(&counters.measured, 10_000);
    }
}

#[test]
fn what_a_wire_doubles_and_reorders_is_reported_by_one_worker_too() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy);
    let done = Arc::new(Mutex::new(Done::default()));
    datapath.disturb(PortIndex(0), disturbance(9, 20, Arc::clone(&done)));
    let run = start(&datapath, spec(5, 0, Some(500 * MS), vec![random_source_port(0, 400_000, 60, false)]));
    wait_for(&run, RunState::Complete, 20);
    let done = *done.lock().unwrap();
    let c = run.counters()[0].measured;
    let lost = c.tx_packets - (c.rx_packets - c.duplicates);
    assert_eq!(Done { lost, duplicated: c.duplicates, swapped: c.out_of_order }, done);
    assert_eq!(c.tx_packets + c.tx_dropped, 200_000);
}
