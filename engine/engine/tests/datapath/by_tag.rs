// SPDX-License-Identifier: Apache-2.0
//! Packets of streams are counted by the VLAN tags with which they arrive.
use std::sync::{Arc, Mutex};

use spate_engine::datapath::{
    Blueprint, FieldProgram, Measure, PollMode, PortDevice, Run, RunSpec, RunState, Sequence, StreamReceive,
    StreamSpec, TagCounters, TagList, Template, Variable, Write,
};
use spate_engine::index::PortIndex;
use spate_net::{
    tag_list::TagRange,
    vlan::{SERVICE, Tag},
};

use crate::disturbed::{Done, disturbance};
use crate::kernel::run_inside;
use crate::setup::{MS, open, pps, spec, start, stream, turn, wait_for};

/// VLANs 1 to 10, and 7 within 100.
fn list() -> TagList {
    let ranges = [TagRange { outer: None, first: 1, last: 10 }, TagRange { outer: Some(100), first: 7, last: 7 }];
    TagList::new(ranges).unwrap()
}

/// Where VLAN 1 is in the list, and VLAN 7 within 100.
const VLAN_1: usize = TagList::FIRST;
const WITHIN_100: usize = TagList::FIRST + 10;

/// A frame of 68 bytes with these tags: UDP over IPv4, so that its source port is 2 bytes from the given offset.
fn frame(tags: &[Tag]) -> (Vec<u8>, usize) {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    tags.iter().for_each(|tag| frame.extend(tag.bytes()));
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1]);
    let port_at = frame.len();
    frame.resize(68, 0);
    (frame, port_at)
}

/// A stream of such frames from the first port to itself, counted by a list of the run.
fn tagged(id: u16, tags: &[Tag], program: FieldProgram) -> StreamSpec {
    let (frame, _) = frame(tags);
    let template = Template::new(&Blueprint { frame, program, flow: true, ..Blueprint::default() }).unwrap();
    let receive = StreamReceive { by_tag: Some(usize::from(id)), ..StreamReceive::default() };
    StreamSpec { template, receive, ..stream(id, 0, Some(0), 68, pps(10_000)) }
}

/// Takes these values in turn, and writes each into two bytes.
fn program(sequence: Sequence, offset: usize) -> FieldProgram {
    let variable = Variable { sequence, after: None, limit: 0, per_worker: false };
    let write = Write { variable: 0, offset, size: 2, add: 0, shift: 0, mask: 0, little_endian: false };
    FieldProgram { variables: vec![variable], writes: vec![write] }
}

/// A stream for each of these lists of tags, with the number under which its packets are counted.
fn of_each_kind() -> (Vec<StreamSpec>, [usize; 5]) {
    let outer = Tag { ethertype: SERVICE, vlan: 100 };
    let tags: [&[Tag]; 5] =
        [&[Tag::customer(5)], &[outer, Tag::customer(7)], &[Tag::customer(11)], &[], &[outer, Tag::customer(8)]];
    let streams = (0..).zip(tags).map(|(id, tags)| tagged(id, tags, FieldProgram::default())).collect();
    (streams, [VLAN_1 + 4, WITHIN_100, TagList::OTHER, TagList::UNTAGGED, TagList::OTHER])
}

/// A run that counts each of its streams by a list of its own.
fn by_tag(tag: u16, warmup_ns: u64, duration_ns: u64, streams: Vec<StreamSpec>) -> RunSpec {
    let lists = streams.iter().map(|_| Arc::new(list())).collect();
    let measure = Measure { by_tag: lists, ..Measure::default() };
    RunSpec { measure, ..spec(tag, warmup_ns, Some(duration_ns), streams) }
}

/// Tags of a stream with which packets arrived, by their numbers.
fn arrived(run: &Run, stream: usize) -> Vec<(usize, TagCounters)> {
    let (_, counters) = run.counters_by_tag(stream);
    counters.into_iter().enumerate().filter(|(_, counters)| counters.packets > 0).collect()
}

fn whole(packets: u64) -> TagCounters {
    TagCounters { packets, bytes: packets * 72, ..TagCounters::default() }
}

fn each_stream_has_its_tags(workers: usize) {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], workers, PollMode::Busy);
    let (streams, numbers) = of_each_kind();
    let run = start(&datapath, by_tag(4, 50 * MS, 100 * MS, streams));
    wait_for(&run, RunState::Complete, 10);
    for (stream, number) in numbers.into_iter().enumerate() {
        // Those of the warm-up are in the sequence, and not counted.
        assert_eq!(arrived(&run, stream), [(number, whole(1000))], "stream {stream}");
        assert_eq!(run.counters()[stream].warmup.rx_packets, 500);
    }
}

#[test]
fn packets_are_counted_by_one_tag_by_two_without_one_and_with_others() {
    each_stream_has_its_tags(1);
}

#[test]
fn they_are_by_workers_that_hand_packets_over() {
    each_stream_has_its_tags(2);
}

/// The kernel takes the outer tag out of a frame, and its driver in DPDK puts it back.
#[test]
fn packets_are_counted_by_tag_over_veth() {
    run_inside("by_tag::inside_over_veth", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_over_veth() {
    let ports = [("east", PortDevice::Kernel("sp0".into())), ("west", PortDevice::Kernel("sp1".into()))];
    let datapath = open(&ports, 1, PollMode::Auto);
    let (mut streams, numbers) = of_each_kind();
    for stream in &mut streams {
        (stream.rx_port, stream.timing.rate) = (Some(PortIndex(1)), Some(pps(2000)));
    }
    let run = start(&datapath, by_tag(4, 50 * MS, 500 * MS, streams));
    wait_for(&run, RunState::Complete, 10);
    for (stream, number) in numbers.into_iter().enumerate() {
        assert_eq!(arrived(&run, stream), [(number, whole(1000))], "stream {stream}");
    }
}

#[test]
fn what_a_tag_misses_of_its_stream_is_counted() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy);
    // VLANs 8 to 11 in turn, of which the last is not listed.
    let turns = Sequence::Counter { min: 8, max: 11, step: 1, first: 8, down: false };
    let run = start(&datapath, by_tag(4, 50 * MS, 100 * MS, vec![tagged(0, &[Tag::customer(8)], program(turns, 14))]));
    wait_for(&run, RunState::Complete, 10);
    // Each packet of a tag comes after three of others.
    let of_each = TagCounters { missing: 750, sequence_gaps: 250, ..whole(250) };
    let expected = [(TagList::OTHER, whole(250)), (VLAN_1 + 7, of_each), (VLAN_1 + 8, of_each), (VLAN_1 + 9, of_each)];
    assert_eq!(arrived(&run, 0), expected);
    let counters = run.counters()[0].measured;
    assert_eq!((counters.rx_packets, counters.missing, counters.out_of_order), (1000, 0, 0));
}

#[test]
fn what_arrives_on_another_port_is_misdirected_and_has_no_tag() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback), ("b", PortDevice::Loopback)], 1, PollMode::Busy);
    let astray = StreamSpec { rx_port: Some(PortIndex(1)), ..tagged(0, &[Tag::customer(5)], FieldProgram::default()) };
    let run = start(&datapath, by_tag(4, 0, 100 * MS, vec![astray]));
    wait_for(&run, RunState::Complete, 10);
    let counters = run.counters()[0].measured;
    assert_eq!((counters.rx_packets, counters.misdirected), (1000, 1000));
    assert_eq!(arrived(&run, 0), []);
}

/// All packets have one tag: its sequence is that of the stream.
fn a_tag_is_reported_as_its_stream(workers: usize) {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], workers, PollMode::Busy);
    let done = Arc::new(Mutex::new(Done::default()));
    datapath.disturb(PortIndex(0), disturbance(3, 20, Arc::clone(&done)));
    let (_, port_at) = frame(&[Tag::customer(5)]);
    let ports = Sequence::Random { min: 1024, max: 65_535, seed: 7 };
    let mut stream = tagged(0, &[Tag::customer(5)], program(ports, port_at));
    stream.receive.varied = true;
    stream.timing.rate = Some(pps(300_000));
    let run = start(&datapath, by_tag(4, 0, 500 * MS, vec![stream]));
    wait_for(&run, RunState::Complete, 20);
    let c = run.counters()[0].measured;
    let [(number, tag)] = arrived(&run, 0)[..] else { panic!("{:?}", arrived(&run, 0)) };
    assert_eq!(number, VLAN_1 + 4);
    assert_eq!(
        (tag.packets, tag.bytes, tag.missing, tag.duplicates, tag.out_of_order),
        (c.rx_packets, c.rx_bytes, c.missing, c.duplicates, c.out_of_order)
    );
    let done = *done.lock().unwrap();
    assert_eq!((tag.duplicates, tag.out_of_order), (done.duplicated, done.swapped));
    assert!(done.lost > 100 && done.duplicated > 100 && tag.sequence_gaps > 100, "{done:?} {tag:?}");
}

#[test]
fn losses_duplicates_and_reorderings_of_a_tag_are_reported_exactly() {
    a_tag_is_reported_as_its_stream(1);
}

#[test]
fn they_are_where_several_workers_send_and_receive() {
    a_tag_is_reported_as_its_stream(2);
}

#[test]
fn too_many_sequences_are_refused() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy);
    let stream = tagged(0, &[], FieldProgram::default());
    let all = TagList::new([TagRange { outer: None, first: 1, last: 4094 }]).unwrap();
    // 256 workers send it, as engines that share the run would say.
    let measure = Measure { by_tag: (0..8).map(|_| Arc::new(all.clone())).collect(), ..Measure::default() };
    let streams = (0..8).map(|id| StreamSpec {
        id,
        receive: StreamReceive { by_tag: Some(usize::from(id)), ..StreamReceive::default() },
        ..stream.clone()
    });
    let refused = RunSpec { measure, share: (0, 256), ..spec(4, 0, None, streams.collect()) };
    let error = datapath.prepare(refused).map(|_| ()).unwrap_err();
    assert!(error.exhausted, "{error}");
    let message = error.to_string();
    assert!(message.starts_with("streams: the sequences of packets by tag, from 256 workers, need "), "{message}");
    assert!(message.ends_with("name fewer tags, or count fewer streams by tag"), "{message}");
}
