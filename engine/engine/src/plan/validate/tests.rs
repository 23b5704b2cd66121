// SPDX-License-Identifier: Apache-2.0
//! One wrong thing a row: the change that makes a good plan wrong, the field that must be named, and words of the remedy.
use super::*;
use crate::index::PortIndex;
use crate::plan::{Macs, PortFacts, rate::LineRate, sending_part};
use contract::{
    Bursts, Checksum, Continuous, FieldProgram, Measure, Next, Packet, Ratio, Share, SizeList, Sizes, Stream, Timing,
    Variable, WeightedSize, rate::Kind, sizes, stream::Transmit,
};
use spate_stateless::{Rate, Successor};

fn good() -> Plan {
    Plan {
        run_id: "run-1".into(),
        profile: "imix".into(),
        namespace: "default".into(),
        run_tag: 7,
        timing: Some(Timing { warmup_ns: 0, duration_ns: 1_000_000_000, drain_ns: 100_000_000, stages: Vec::new() }),
        streams: vec![stream("small", 1), stream("large", 2)],
        ..Plan::default()
    }
}

fn stream(name: &str, id: u32) -> Stream {
    Stream {
        name: name.into(),
        id,
        tx_port: "east".into(),
        rx_port: "west".into(),
        packet: Some(Packet { frame: vec![0; 60].into(), ..Packet::default() }),
        transmit: Some(Transmit::Continuous(Continuous { rate: Some(pps(1000)) })),
        measure: Some(Measure { flow: true, ..Measure::default() }),
        ..Stream::default()
    }
}

fn bursts(plan: &mut Plan, packets: u64) {
    let bursts = Bursts { rate: Some(pps(1000)), packets, count: 1, gap_ns: 0 };
    plan.streams[0].transmit = Some(Transmit::Bursts(bursts));
}

fn next(plan: &mut Plan, stream: &str) {
    plan.streams[0].next = Some(Next { stream: stream.into(), times: 0 });
}

fn sizes(plan: &mut Plan, bytes: u32, weight: u32) {
    let list = SizeList { sizes: vec![WeightedSize { bytes, weight }], ..SizeList::default() };
    let packet = plan.streams[0].packet.as_mut().unwrap();
    packet.sizes = Some(Sizes { kind: Some(sizes::Kind::List(list)) });
}

fn pps(packets: u64) -> contract::Rate {
    rate(Kind::PacketsPerSecond(Ratio { numerator: packets, denominator: 1 }))
}

fn rate(kind: Kind) -> contract::Rate {
    contract::Rate { kind: Some(kind) }
}

fn percent(numerator: u64) -> contract::Rate {
    rate(Kind::LinePercent(Ratio { numerator, denominator: 1 }))
}

fn set_rate(stream: &mut Stream, rate: contract::Rate) {
    stream.transmit = Some(Transmit::Continuous(Continuous { rate: Some(rate) }));
}

fn set_frame(stream: &mut Stream, frame: Vec<u8>) {
    stream.packet.as_mut().unwrap().frame = frame.into();
}

fn sum(offset: u32, start: u32, end: u32) -> Vec<Checksum> {
    vec![Checksum { offset, start, end, ..Checksum::default() }]
}

fn set_sum(plan: &mut Plan, offset: u32, start: u32, end: u32) {
    plan.streams[0].packet.as_mut().unwrap().checksums = sum(offset, start, end);
}

fn site() -> Site {
    let port = |name: &str, line_rate, mtu| PortFacts {
        name: name.into(),
        line_rate,
        mtu,
        claimed_bits: 0,
        macs: Macs::default(),
        loops: Some(false),
        workers: 2,
    };
    Site {
        ports: vec![port("east", LineRate::Known(10_000_000_000), Some(1500)), port("west", LineRate::Unknown, None)],
        workers: 2,
    }
}

#[test]
fn a_good_plan_passes() {
    let mut plan = good();
    set_sum(&mut plan, 24, 14, 34);
    let checked = validate(&plan, &site()).unwrap();
    assert_eq!(checked.streams[0].tx_port, PortIndex(0));
    assert_eq!(checked.streams[0].rx_port, Some(PortIndex(1)));
    assert_eq!(checked.streams[1].rate, Some(Rate::packets_per_second(1000, 1).unwrap()));
    assert_eq!(checked.port_bits[&PortIndex(0)], 2 * 1000 * 84 * 8);
}

#[test]
fn what_is_wrong_is_named_with_its_remedy() {
    type Spoil = fn(&mut Plan);
    let table: &[(Spoil, &str, &str)] = &[
        (|p| p.run_id.clear(), "run_id", "must be 1..128"),
        (|p| p.run_id = "x".repeat(129), "run_id", "must be 1..128"),
        (|p| p.run_id = "a\nb".into(), "run_id", "control character"),
        (|p| p.run = "x".repeat(129), "run", "must be 1..128"),
        (|p| p.run = "a\nb".into(), "run", "control character"),
        (|p| p.profile = "x".repeat(254), "profile", "at most 253"),
        (|p| p.run_tag = 0, "run_tag", "must be 1..65535"),
        (|p| p.run_tag = 65_536, "run_tag", "must be 1..65535"),
        (|p| p.timing = None, "timing", "duration_ns"),
        (|p| p.timing.as_mut().unwrap().warmup_ns = u64::MAX, "timing.warmup_ns", "ten years"),
        (|p| p.timing.as_mut().unwrap().drain_ns = u64::MAX, "timing.drain_ns", "ten years"),
        (|p| p.lease_ns = u64::MAX, "lease_ns", "ten years"),
        (|p| p.share = Some(Share { index: 0, count: 0 }), "share.count", "at least 1"),
        (|p| p.share = Some(Share { index: 2, count: 2 }), "share.index", "less than share.count"),
        (|p| p.share = Some(Share { index: 0, count: 129 }), "share.count", "258 sending workers; must be at most 256"),
        (|p| p.streams.clear(), "streams", "at least one"),
        (|p| p.streams[1].name = "small".into(), "streams[1].name", "streams[0]'s already"),
        (|p| p.streams[0].name.clear(), "streams[0].name", "must be 1..253"),
        (|p| p.streams[0].name = "\u{7}".into(), "streams[0].name", "control character"),
        (|p| p.streams[1].id = 1, "streams[1].id", "streams[0]'s already"),
        (|p| p.streams[1].id = 65_536, "streams[1].id", "must be 0..65535"),
        (|p| p.streams[0].tx_port.clear(), "streams[0].tx_port", "known are east, west"),
        (|p| p.streams[0].tx_port = "north".into(), "streams[0].tx_port", "known are east, west"),
        (|p| p.streams[1].rx_port = "north".into(), "streams[1].rx_port", "\"north\" is no port"),
        (|p| p.streams[0].packet = None, "streams[0].packet", "set frame"),
        (|p| set_frame(&mut p.streams[1], vec![0; 52]), "streams[1].packet.frame", "it must have 60 to 9230"),
        (|p| set_frame(&mut p.streams[1], vec![0; 9231]), "streams[1].packet.frame", "it must have 60 to 9230"),
        (|p| set_frame(&mut p.streams[1], vec![0; 1515]), "streams[1].packet.frame", "at most 1514 on port east"),
        (|p| set_sum(p, 24, 34, 34), "streams[0].packet.checksums[0]", "range of bytes inside"),
        (|p| set_sum(p, 24, 14, 61), "streams[0].packet.checksums[0]", "range of bytes inside"),
        (|p| set_sum(p, 59, 14, 34), "streams[0].packet.checksums[0]", "lie in the bytes covered"),
        (|p| set_sum(p, 44, 34, 60), "streams[0].packet.checksums[0]", "trailer"),
        (|p| set_sum(p, 25, 14, 34), "streams[0].packet.checksums[0]", "even distance"),
        (|p| set_sum(p, u32::MAX, u32::MAX, u32::MAX), "streams[0].packet.checksums[0]", "range of bytes inside"),
        (|p| p.streams[0].transmit = None, "streams[0].transmit", "set continuous, bursts or replay"),
        (|p| p.streams[0].cache = 9, "streams[0].cache", "cannot be combined with measure.flow"),
        (|p| p.streams[0].waits = true, "streams[0].waits", "no stream's next starts"),
        (|p| next(p, "nobody"), "streams[0].next.stream", "no stream of the plan"),
        (|p| next(p, "large"), "streams[0].next", "no end"),
        (
            |p| {
                bursts(p, 1);
                next(p, "small");
            },
            "streams[0].next",
            "in no time",
        ),
        (|p| bursts(p, 0), "streams[0].bursts.packets", "at least 1"),
        (
            |p| p.streams[0].program = Some(FieldProgram { variables: vec![Variable::default()], writes: vec![] }),
            "streams[0].program.variables[0]",
            "set counter, random or list",
        ),
        (
            |p| {
                p.streams[0].program =
                    Some(FieldProgram { variables: vec![], writes: vec![contract::Write::default()] })
            },
            "streams[0].program.writes[0].variable",
            "no variable of it",
        ),
        (|p| sizes(p, 61, 1), "streams[0].packet.sizes.list.sizes[0].bytes", "must be 60..60"),
        (|p| sizes(p, 60, 0), "streams[0].packet.sizes.list.sizes[0].weight", "at least 1"),
        (
            |p| p.streams[0].transmit = Some(Transmit::Continuous(Continuous { rate: None })),
            "streams[0].continuous.rate",
            "set packets_per_second",
        ),
        (|p| set_rate(&mut p.streams[0], pps(0)), "streams[0].continuous.rate", "is 0"),
        (
            |p| {
                p.streams[1].tx_port = "west".into();
                set_rate(&mut p.streams[1], percent(50));
            },
            "streams[1].continuous.rate",
            "--line-rate west=RATE",
        ),
        (|p| set_rate(&mut p.streams[0], percent(101)), "streams", "port east for 10100672000 bit/s"),
    ];
    for (row, (spoil, field, words)) in table.iter().enumerate() {
        let mut plan = good();
        spoil(&mut plan);
        let wrong = validate(&plan, &site()).expect_err(&format!("row {row}: {field}"));
        let found = wrong.0.iter().find(|v| v.field.to_string() == *field);
        let found = found.unwrap_or_else(|| panic!("row {row}: {field} not named in {wrong}"));
        assert!(found.description.contains(words), "row {row}: {words:?} not in {:?}", found.description);
    }
}

#[test]
fn only_much_memory_is_reported() {
    assert_eq!(histograms((64 << 20) - 1), None);
    assert_eq!(histograms(64 << 20).as_deref(), Some("latency histograms take 64 MiB of memory"));
}

#[test]
fn all_faults_are_reported_at_once() {
    let mut plan = good();
    plan.run_tag = 0;
    plan.streams[0].tx_port = "north".into();
    plan.streams[1].packet = None;
    assert_eq!(validate(&plan, &site()).unwrap_err().0.len(), 3);
}

#[test]
fn vlan_tags_do_not_count_against_the_mtu() {
    let mut tagged = vec![0; 1522];
    tagged[12..14].copy_from_slice(&[0x88, 0xa8]);
    tagged[16..18].copy_from_slice(&[0x81, 0x00]);
    let mut plan = good();
    set_frame(&mut plan.streams[0], tagged.clone());
    validate(&plan, &site()).unwrap();
    tagged.push(0);
    set_frame(&mut plan.streams[0], tagged);
    assert_eq!(validate(&plan, &site()).unwrap_err().0[0].field.to_string(), "streams[0].packet.frame");
}

#[test]
fn what_other_runs_claimed_is_not_available() {
    let mut plan = good();
    plan.streams.truncate(1);
    set_rate(&mut plan.streams[0], percent(60));
    let mut site = site();
    validate(&plan, &site).unwrap();
    site.ports[0].claimed_bits = 5_000_000_000;
    let wrong = validate(&plan, &site).unwrap_err().to_string();
    for words in ["port east", "6000000000 bit/s", "available are 5000000000", "10000000000"] {
        assert!(wrong.contains(words), "{words:?} not in {wrong:?}");
    }
}

#[test]
fn a_share_asks_its_port_for_its_part_and_disabled_streams_ask_for_nothing() {
    let mut plan = good();
    set_rate(&mut plan.streams[0], percent(150));
    plan.share = Some(Share { index: 1, count: 2 });
    plan.streams[1].disabled = true;
    let checked = validate(&plan, &site()).unwrap();
    assert_eq!(checked.port_bits[&PortIndex(0)], 7_500_000_000);
}

#[test]
fn a_stream_asks_the_ports_of_the_engines_that_send_it() {
    let some = |first, count| Some(contract::Engines { first, count });
    let mut plan = good();
    set_rate(&mut plan.streams[0], percent(150));
    plan.streams.truncate(1);
    plan.streams[0].engines = some(1, 3);
    for (index, bits) in [(0, None), (1, Some(5_000_000_000)), (3, Some(5_000_000_000)), (4, None)] {
        plan.share = Some(Share { index, count: 5 });
        let found = validate(&plan, &site()).unwrap();
        assert_eq!(found.port_bits.get(&PortIndex(0)).copied().filter(|bits| *bits > 0), bits, "engine {index}");
        let part = (bits.is_some()).then(|| (index - 1, 3));
        assert_eq!(sending_part(&plan.streams[0], found.share), part, "engine {index}");
    }
    // Alone it is all of them.
    plan.share = None;
    assert_eq!(sending_part(&plan.streams[0], (0, 1)), Some((0, 1)));
    let mut plan = good();
    plan.share = Some(Share { index: 0, count: 5 });
    plan.streams[0].engines = some(0, 2);
    let wrong = validate(&plan, &site()).unwrap_err().to_string();
    assert!(wrong.contains("streams[1].engines: has engines of streams[0].engines"), "{wrong}");
    plan.streams[1].engines = some(4, 2);
    let wrong = validate(&plan, &site()).unwrap_err().to_string();
    assert!(wrong.contains("streams[1].engines: engines from 4 to 5; there are 5"), "{wrong}");
}

#[test]
fn without_an_engine_ports_are_taken_as_named_and_percentages_wait() {
    let mut plan = good();
    set_rate(&mut plan.streams[0], percent(100));
    let checked = validate(&plan, &Site::of_plan(&plan)).unwrap();
    assert_eq!(checked.streams[0].rate, None);
    assert!(checked.streams[1].rate.is_some());
}

/// A pcap file of `count` packets of 60 bytes, each a microsecond after the one before.
fn pcap(count: u32) -> Vec<u8> {
    let mut words = vec![0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1];
    for n in 0..count {
        words.extend([0, n, 60, 60]);
        words.extend([0; 15]);
    }
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn replay(plan: &mut Plan, count: u32) {
    let scale = contract::replay::Gap::Scale(Ratio { numerator: 2, denominator: 1 });
    plan.streams[0].packet = None;
    plan.streams[0].transmit = Some(Transmit::Replay(contract::Replay {
        source: Some(contract::replay::Source::Pcap(pcap(count).into())),
        gap: Some(scale),
        ..contract::Replay::default()
    }));
}

#[test]
fn a_replay_asks_its_port_for_its_mean_rate_on_the_engine_that_sends_it() {
    let mut plan = good();
    replay(&mut plan, 11);
    plan.streams.truncate(1);
    let found = validate(&plan, &site()).unwrap();
    // A packet every 2 us of 84 bytes on the medium.
    assert_eq!(found.port_bits[&PortIndex(0)], 500_000 * 84 * 8);
    assert_eq!(found.streams[0].rate, Some(Rate::new(1, 2000).unwrap()));
    let speed = found.timings[0].rate.unwrap();
    assert_eq!((speed.packets(), speed.nanoseconds()), (1, 2));
    for (index, bits) in [(0, 0), (1, 500_000 * 84 * 8)] {
        plan.share = Some(Share { index, count: 2 });
        assert_eq!(validate(&plan, &site()).unwrap().port_bits[&PortIndex(0)], bits, "engine {index}");
    }
}

/// A plan with the halves of a capture of 11 packets, of which the initiator sent every other one. Their ids are 5 and 6.
fn halves() -> Plan {
    let mut file = pcap(11);
    for (n, packet) in file[24..].chunks_mut(16 + 60).enumerate() {
        packet[16 + 11] = (n % 2) as u8;
    }
    let mut plan = good();
    for (index, responder) in [(0, false), (1, true)] {
        let mut one = good();
        replay(&mut one, 1);
        plan.streams[index] = Stream { name: format!("half-{index}"), id: 5 + index as u32, ..one.streams[0].clone() };
        let Some(Transmit::Replay(replay)) = &mut plan.streams[index].transmit else { unreachable!("it was set") };
        replay.source = Some(contract::replay::Source::Pcap(file.clone().into()));
        replay.half = Some(contract::Half { by: contract::SplitBy::Mac.into(), responder, other: 6 - index as u32 });
    }
    let west = &mut plan.streams[1];
    std::mem::swap(&mut west.tx_port, &mut west.rx_port);
    plan
}

#[test]
fn halves_ask_their_ports_for_their_parts_of_the_rate_on_one_engine() {
    let mut plan = halves();
    // A packet of the whole every 2 us, of 84 bytes on the medium.
    let of = |part: u128| 500_000 * 84 * 8 * part / 11;
    let found = validate(&plan, &site()).unwrap();
    assert_eq!((found.port_bits[&PortIndex(0)], found.port_bits[&PortIndex(1)]), (of(6), of(5)));
    assert_eq!(found.streams[1].rate, Some(Rate::new(5, 2000 * 11).unwrap()));
    let speeds: Vec<_> = found.timings.iter().map(|timing| timing.rate).collect();
    assert_eq!(speeds, [Some(Rate::new(1, 2).unwrap()); 2]);
    // Of two engines the one that the lower id chooses.
    for (index, sends) in [(0, false), (1, true)] {
        plan.share = Some(Share { index, count: 2 });
        let found = validate(&plan, &site()).unwrap();
        assert_eq!(found.port_bits.values().map(|bits| *bits > 0).collect::<Vec<_>>(), [sends; 2], "engine {index}");
    }
}

#[test]
fn what_is_wrong_with_a_half_is_reported_by_its_field() {
    let refused = |change: fn(&mut contract::Replay)| {
        let mut plan = halves();
        let Some(Transmit::Replay(replay)) = &mut plan.streams[1].transmit else { unreachable!("it was set") };
        change(replay);
        validate(&plan, &site()).unwrap_err().to_string()
    };
    for (wrong, message) in [
        (
            refused(|replay| replay.half.as_mut().unwrap().by = 0),
            "streams[1].replay.half.by: missing; set SPLIT_BY_MAC",
        ),
        (refused(|replay| replay.min_gap_ns = 1), "streams[1].replay.min_gap_ns: cannot be combined with half"),
        (
            refused(|replay| replay.source = Some(contract::replay::Source::Pcap(pcap(3).into()))),
            "streams[1].replay.pcap: all 3 packets have the same source MAC, so that there is no other side",
        ),
        (
            refused(|replay| {
                let mut file = pcap(2);
                file[24 + 16 + 60 + 4] = 0;
                file[24 + 16 + 60 + 16 + 11] = 1;
                replay.source = Some(contract::replay::Source::Pcap(file.into()));
            }),
            "streams[1].replay.gap: the capture takes no time and is sent more than once",
        ),
    ] {
        assert!(wrong.contains(message), "{message:?} is not in {wrong}");
    }
}

/// Stream 0 replays a capture of 3 packets once and starts stream 1, a burst, which starts it again.
fn chained_replay() -> Plan {
    let mut plan = good();
    bursts(&mut plan, 2);
    plan.streams[1].transmit = plan.streams[0].transmit.take();
    plan.streams[1].waits = true;
    plan.streams[1].next = Some(Next { stream: "small".into(), times: 4 });
    replay(&mut plan, 3);
    loops(&mut plan, 1);
    next(&mut plan, "large");
    plan
}

fn loops(plan: &mut Plan, loops: u64) {
    let Some(Transmit::Replay(replay)) = &mut plan.streams[0].transmit else { unreachable!("it was set") };
    replay.loops = loops;
}

#[test]
fn streams_of_a_chain_with_a_replay_take_turns_on_one_worker_of_the_first_engine() {
    let mut plan = chained_replay();
    let found = validate(&plan, &site()).unwrap();
    let after = |next, times| Some(Successor { next, times });
    let timings: Vec<_> = found.timings.iter().map(|timing| (timing.pinned, timing.waits, timing.next)).collect();
    let expected = [
        (true, false, after(spate_stateless::Next::Scheduled(1), None)),
        (true, true, after(spate_stateless::Next::Elsewhere(0), Some(4))),
    ];
    assert_eq!(timings, expected);
    // The replay is the faster: a packet every 2 us of 84 bytes on the medium.
    for (index, bits) in [(0, 500_000 * 84 * 8), (1, 0)] {
        plan.share = Some(Share { index, count: 2 });
        assert_eq!(validate(&plan, &site()).unwrap().port_bits[&PortIndex(0)], bits, "engine {index}");
    }
    // A replay that nothing comes after, and that comes after nothing, is any engine's.
    plan.streams[0].next = None;
    plan.streams[1] = stream("large", 2);
    let found = validate(&plan, &site()).unwrap();
    assert!(found.timings.iter().all(|timing| !timing.pinned));
}

#[test]
fn what_is_wrong_with_a_chain_with_a_replay_is_reported_by_its_field() {
    type Spoil = fn(&mut Plan);
    let rows: [(Spoil, &str); 6] = [
        (|p| loops(p, 0), "streams[0].next: nothing comes after a replay that has no end: set replay.loops"),
        (
            |p| {
                loops(p, 0);
                p.streams[0].next = None;
            },
            "streams[1].next.stream: \"small\" has no end and starts by itself: set waits there",
        ),
        (
            |p| p.streams[1].waits = false,
            "streams[1].waits: must be true: a capture is replayed in its chain, whose streams take turns, and \"small\" starts",
        ),
        (
            |p| {
                p.streams[1].next = None;
                p.streams[0].waits = true;
            },
            "streams[0].waits: no stream's next starts \"small\"",
        ),
        (
            |p| {
                let one = chained_replay().streams.remove(1);
                replay(p, 1);
                loops(p, 1);
                let bursts = Bursts { rate: Some(pps(1000)), packets: 1, count: 1, gap_ns: 0 };
                p.streams[1] = Stream { transmit: Some(Transmit::Bursts(bursts)), ..one };
            },
            "comes back to it in no time: give one of its streams a start delay or more packets",
        ),
        (
            |p| {
                p.streams = halves().streams;
                p.streams[0].next = Some(Next { stream: "half-1".into(), times: 0 });
            },
            "streams[0].next: \"half-0\" is in no chain: it sends one half of a capture, and the other half has a port",
        ),
    ];
    for (change, message) in rows {
        let mut plan = chained_replay();
        change(&mut plan);
        let wrong = validate(&plan, &site()).unwrap_err().to_string();
        assert!(wrong.contains(message), "{message:?} is not in {wrong}");
    }
}

#[test]
fn a_replay_is_held_to_its_port() {
    let mut small = site();
    small.ports[0].mtu = Some(40);
    let mut plan = good();
    replay(&mut plan, 3);
    let wrong = validate(&plan, &small).unwrap_err().to_string();
    assert!(
        wrong.contains("streams[0].replay.pcap: packet 1: it has 60 bytes; must be at most 54 on port east"),
        "{wrong}"
    );
}
