// SPDX-License-Identifier: Apache-2.0
//! One wrong thing a row, as in the tests of validation.
use super::*;
use crate::plan::validate::validate;
use contract::{
    Continuous, Counter, FieldProgram, Measure, Packet, Rate, Ratio, Receiver, Reflector, TagRange, Timing, Variable,
    Write, rate, stream, variable,
};

/// Ethernet, IPv4, UDP; the header checksum is right.
fn frame() -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = spate_net::checksum::checksum(spate_net::checksum::sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn stream(name: &str, id: u32, measure: Measure) -> Stream {
    let rate = Rate { kind: Some(rate::Kind::PacketsPerSecond(Ratio { numerator: 1000, denominator: 1 })) };
    Stream {
        name: name.into(),
        id,
        tx_port: "east".into(),
        rx_port: "west".into(),
        packet: Some(Packet { frame: frame().into(), ..Packet::default() }),
        transmit: Some(stream::Transmit::Continuous(Continuous { rate: Some(rate) })),
        measure: Some(measure),
        ..Stream::default()
    }
}

fn flow(latency: bool) -> Measure {
    Measure { flow: true, latency, ..Measure::default() }
}

/// Counted by these tags: by outer VLAN, from the first to the last.
fn by_tag(ranges: &[(u32, u32, u32)]) -> Measure {
    let range = |&(outer_vlan, first_vlan, last_vlan): &(u32, u32, u32)| TagRange { outer_vlan, first_vlan, last_vlan };
    Measure { by_tag: Some(contract::ByTag { ranges: ranges.iter().map(range).collect() }), ..flow(false) }
}

fn marked(field: mark::Field) -> Measure {
    Measure { mark: Some(contract::Mark { field: Some(field) }), ..Measure::default() }
}

fn good() -> Plan {
    let in_group = |name, id| Stream { group: "all".into(), ..stream(name, id, flow(true)) };
    Plan {
        run_id: "run-1".into(),
        run_tag: 7,
        timing: Some(Timing { warmup_ns: 0, duration_ns: 1_000_000_000, drain_ns: 0, stages: Vec::new() }),
        streams: vec![
            stream("alone", 1, flow(true)),
            in_group("all-0", 2),
            in_group("all-1", 3),
            stream("marked", 4, marked(mark::Field::Ipv4Identification(77))),
        ],
        reflectors: vec![Reflector {
            port: "west".into(),
            swap: Reflection::Mac.into(),
            any_mac: true,
            allowed_addresses: vec![AddressRange { first: vec![10, 0, 0, 0].into(), last: vec![10, 0, 0, 255].into() }],
            allowed_ports: vec![PortRange { first: 7, last: 65_535 }],
        }],
        receivers: vec![Receiver { name: "rest".into(), port: "east".into() }],
        clock_bound_ns: 1000,
        ..Plan::default()
    }
}

#[test]
fn a_good_plan_passes_and_says_what_is_measured_where() {
    let plan = good();
    let site = Site::of_plan(&plan);
    let checked = validate(&plan, &site).unwrap();
    let histograms: Vec<_> = checked.measured.streams.iter().map(|s| s.histogram).collect();
    assert_eq!(histograms, [Some(0), Some(1), Some(1), None]);
    assert_eq!(checked.measured.streams[3].mark, Some(Mark::Ipv4Identification(77)));
    let [east, west] = ["east", "west"].map(|name| site.index(name).unwrap());
    let allowed =
        Allowed { addresses: [([10, 0, 0, 0].into(), [10, 0, 0, 255].into())].into(), ports: [(7, 65_535)].into() };
    let reflectors = vec![datapath::Reflector { port: west, swap: Swap::Mac, any_mac: true, allowed }];
    let run = datapath::Measure { reflectors, receivers: vec![east], clock_bound_ns: Some(1000), by_tag: Vec::new() };
    assert_eq!(checked.measured.run, run);
    let packet = checked.streams[3].template.frame();
    assert_eq!(packet[18..20], [0, 77]);
    assert_eq!(spate_net::checksum::fold(spate_net::checksum::sum(&packet[14..34])), 0xffff);
}

#[test]
fn streams_of_a_group_are_counted_by_one_list_of_tags() {
    let mut plan = good();
    plan.streams[0].measure = Some(by_tag(&[(0, 1, 4094)]));
    for stream in &mut plan.streams[1..3] {
        stream.measure = Some(by_tag(&[(100, 1, 2), (0, 7, 7)]));
    }
    let measured = validate(&plan, &Site::of_plan(&plan)).unwrap().measured;
    let lists: Vec<_> = measured.streams.iter().map(|s| s.by_tag).collect();
    assert_eq!(lists, [Some(0), Some(1), Some(1), None]);
    let lens: Vec<_> = measured.run.by_tag.iter().map(|list| list.len()).collect();
    assert_eq!(lens, [4094, 3]);
}

#[test]
fn tags_of_all_streams_are_limited_together() {
    let mut plan = good();
    let streams = 0..65;
    plan.streams = streams.map(|id| stream(&format!("s{id}"), id, by_tag(&[(0, 1, 4094)]))).collect();
    let wrong = validate(&plan, &Site::of_plan(&plan)).unwrap_err().to_string();
    assert!(wrong.contains("streams: are counted by 266110 tags together; must be at most 262144"), "{wrong}");
    plan.streams.pop();
    validate(&plan, &Site::of_plan(&plan)).unwrap();
}

#[test]
fn a_plan_may_only_receive_or_reflect() {
    for keep_reflectors in [true, false] {
        let mut plan = good();
        plan.streams.clear();
        if keep_reflectors {
            plan.receivers.clear();
        } else {
            plan.reflectors.clear();
        }
        validate(&plan, &Site::of_plan(&plan)).unwrap();
    }
}

#[test]
fn what_is_wrong_is_named_with_its_remedy() {
    type Spoil = fn(&mut Plan);
    let table: &[(Spoil, &str, &str)] = &[
        (
            |p| p.streams[0].measure = Some(Measure { latency: true, ..Measure::default() }),
            "streams[0].measure.latency",
            "needs measure.flow",
        ),
        (|p| p.streams[3].measure.as_mut().unwrap().flow = true, "streams[3].measure.mark", "leave out one"),
        (|p| p.streams[3].rx_port.clear(), "streams[3].measure.mark", "needs rx_port"),
        (
            |p| {
                p.streams[3].measure =
                    Some(Measure { mark: Some(contract::Mark { field: None }), ..Measure::default() })
            },
            "streams[3].measure.mark",
            "set ipv4_identification",
        ),
        (
            |p| p.streams[3].measure = Some(marked(mark::Field::Ipv4Identification(0))),
            "streams[3].measure.mark.ipv4_identification",
            "1..65535",
        ),
        (
            |p| p.streams[3].measure = Some(marked(mark::Field::Ipv4Identification(65_536))),
            "streams[3].measure.mark.ipv4_identification",
            "1..65535",
        ),
        (
            |p| p.streams[3].measure = Some(marked(mark::Field::Ipv6FlowLabel(1 << 20))),
            "streams[3].measure.mark.ipv6_flow_label",
            "1..1048575",
        ),
        (|p| p.streams[3].measure = Some(marked(mark::Field::Ipv6FlowLabel(5))), "streams[3].measure.mark", "not IPv6"),
        (
            |p| {
                let counter = variable::Kind::Counter(Counter { min: 0, max: 9, step: 1, first: 0, down: false });
                let variables = vec![Variable { name: "v".into(), kind: Some(counter), ..Variable::default() }];
                let writes = vec![Write { variable: "v".into(), offset: 19, size: 1, ..Write::default() }];
                p.streams[3].program = Some(FieldProgram { variables, writes });
            },
            "streams[3].program.writes[0]",
            "bytes 18..20",
        ),
        (|p| p.streams[2].rx_port = "east".into(), "streams[2].rx_port", "streams[1] of the same group"),
        (|p| p.streams[2].tx_port = "west".into(), "streams[2].tx_port", "make them agree"),
        (|p| p.streams[2].measure = Some(flow(false)), "streams[2].measure", "make them agree"),
        (
            |p| {
                p.streams[1].measure = Some(by_tag(&[(0, 1, 2)]));
                p.streams[2].measure = Some(by_tag(&[(0, 1, 3)]));
            },
            "streams[2].measure",
            "make them agree",
        ),
        (
            |p| p.streams[0].measure = Some(Measure { flow: false, ..by_tag(&[(0, 1, 2)]) }),
            "streams[0].measure.by_tag",
            "needs measure.flow",
        ),
        (
            |p| {
                p.streams[0].measure = Some(by_tag(&[(0, 1, 2)]));
                p.streams[0].rx_port.clear();
            },
            "streams[0].measure.by_tag",
            "needs rx_port",
        ),
        (
            |p| p.streams[0].measure = Some(by_tag(&[(0, 0, 2)])),
            "streams[0].measure.by_tag.ranges[0].first_vlan",
            "0; must be 1..4094",
        ),
        (
            |p| p.streams[0].measure = Some(by_tag(&[(0, 1, 4095)])),
            "streams[0].measure.by_tag.ranges[0].last_vlan",
            "4095; must be 1..4094",
        ),
        (
            |p| p.streams[0].measure = Some(by_tag(&[(0, 1, 1), (0, 9, 8)])),
            "streams[0].measure.by_tag.ranges[1].last_vlan",
            "not before first_vlan 9",
        ),
        (
            |p| p.streams[0].measure = Some(by_tag(&[(4095, 9, 9)])),
            "streams[0].measure.by_tag.ranges[0].outer_vlan",
            "4095; must be 1..4094",
        ),
        (
            |p| p.streams[0].measure = Some(by_tag(&[(0, 1, 9), (5, 1, 9), (5, 9, 9)])),
            "streams[0].measure.by_tag.ranges[2]",
            "name each tag once",
        ),
        (
            |p| p.streams[0].measure = Some(by_tag(&[(0, 1, 4094), (5, 1, 3)])),
            "streams[0].measure.by_tag.ranges",
            "4097 tags; must be at most 4096",
        ),
        (|p| p.streams[2].group = "x".repeat(254), "streams[2].group", "at most 253"),
        (|p| p.streams[2].group = "\n".into(), "streams[2].group", "control character"),
        (|p| p.streams[2].group = "alone".into(), "streams[2].group", "a group; use another"),
        (|p| p.streams[3].name = "all".into(), "streams[3].name", "a group; use another"),
        (|p| p.clock_bound_ns = u64::MAX, "clock_bound_ns", "ten years"),
        (|p| p.reflectors[0].port = "north".into(), "reflectors[0].port", "is no port"),
        (|p| p.reflectors[0].swap = 0, "reflectors[0].swap", "REFLECTION_MAC"),
        (|p| p.reflectors.push(p.reflectors[0].clone()), "reflectors[1].port", "name each port once"),
        (
            |p| p.reflectors[0].allowed_addresses[0].first = vec![11, 0, 0, 0].into(),
            "reflectors[0].allowed_addresses[0]",
            "the lower one first",
        ),
        (
            |p| p.reflectors[0].allowed_addresses[0].last = vec![10; 16].into(),
            "reflectors[0].allowed_addresses[0]",
            "of one IP version",
        ),
        (|p| p.reflectors[0].allowed_ports[0].last = 65_536, "reflectors[0].allowed_ports[0]", "0..65535"),
        (
            |p| p.reflectors[0].allowed_ports = vec![PortRange { first: 7, last: 7 }; 257],
            "reflectors[0].allowed_ports",
            "at most 256",
        ),
        (|p| p.receivers[0].port.clear(), "receivers[0].port", "must name a port"),
        (|p| p.receivers[0].name.clear(), "receivers[0].name", "1..253"),
        (|p| p.receivers[0].name = "\u{7}".into(), "receivers[0].name", "control character"),
        (|p| p.receivers.push(p.receivers[0].clone()), "receivers[1].name", "receivers[0]'s already"),
        (
            |p| p.receivers.push(Receiver { name: "other".into(), port: "east".into() }),
            "receivers[1].port",
            "name each port once",
        ),
    ];
    let site = Site::of_plan(&good());
    for (row, (spoil, field, words)) in table.iter().enumerate() {
        let mut plan = good();
        spoil(&mut plan);
        let wrong = validate(&plan, &site).expect_err(&format!("row {row}: {field}"));
        let found = wrong.0.iter().find(|v| v.field.to_string() == *field && v.description.contains(words));
        assert!(found.is_some(), "row {row}: {field}: {words:?} not in {wrong}");
    }
}
