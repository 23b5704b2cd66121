// SPDX-License-Identifier: Apache-2.0
//! A plan with one thing wrong a row; what implied instructions and defaults come to; captures as programs.
use super::super::{Macs, Violations, rate::LineRate};
use super::super::{PortFacts, validate::validate};
use super::*;
use contract::{
    Capture, CountTime, Delay, Gre, Gtpu, Instruction, Jump, Loop, Mpls, MplsLabel, NextTemplates, Nothing,
    OpenConnection, Payload, PayloadCounter, PayloadField, PayloadList, PayloadMatch, Pool, Program, Receive,
    ReceiveMessages, ReceiveUntil, Send, SendMessage, SourcePorts, Timing, Tunables, VariableValue, VlanTag, Vxlan,
    WeightedPool, capture, instruction::Kind, payload, payload_field, receive_until,
};
use spate_stateful::{Address, IgnoredSources, Instruction as Executed, pool::Start};
use std::borrow::Cow;

fn instructions(kinds: Vec<Kind>) -> Option<Program> {
    let instructions = kinds.into_iter().map(|kind| Instruction { kind: Some(kind) }).collect();
    Some(Program { instructions, variables: vec!["n".into(), "since".into()], counters: vec!["seen".into()] })
}

fn send(payload: u32) -> Kind {
    Kind::Send(Send { payload, wait: false })
}

fn receive(bytes: u64) -> Kind {
    Kind::Receive(Receive { bytes, clear: false })
}

fn pool(first: [u8; 4], last: [u8; 4]) -> Pool {
    Pool { first: first.to_vec().into(), last: last.to_vec().into(), ..Pool::default() }
}

/// Gives clients tunnels, with something changed.
fn tunnel(plan: &mut Plan, change: fn(&mut Gtpu)) {
    let mut gtpu = Gtpu {
        local: vec![172, 16, 0, 10].into(),
        local_count: 4,
        remote: vec![172, 16, 0, 1].into(),
        teid: 1,
        ..Gtpu::default()
    };
    change(&mut gtpu);
    part(plan).pools[0].gtpu = Some(gtpu);
}

/// Gives clients VLANs and a gateway, with something changed.
fn tag(plan: &mut Plan, change: fn(&mut Pool)) {
    let pool = &mut part(plan).pools[0];
    pool.vlans = vec![VlanTag { id: 200, tpid: 0x88a8 }, VlanTag { id: 7, tpid: 0 }];
    pool.gateway = vec![15, 255, 255, 254].into();
    change(pool);
}

/// Another template, of clients in VLANs too.
fn second_tagged(plan: &mut Plan, first: [u8; 4], change: fn(&mut Pool)) {
    tag(plan, |_| ());
    let Pool { vlans, gateway, .. } = part(plan).pools[0].clone();
    let mut other = Pool { vlans, gateway, ..pool(first, [first[0], first[1], first[2], 255]) };
    change(&mut other);
    part(plan).pools.push(other);
    let mut template = web(plan).clone();
    template.name = "second".into();
    template.clients[0].pool = 2;
    part(plan).templates.push(template);
}

/// Gives clients tunnels of VXLAN, with something changed.
fn vxlan(plan: &mut Plan, change: fn(&mut Vxlan)) {
    let mut vxlan = Vxlan {
        local: vec![172, 16, 0, 10].into(),
        local_count: 4,
        remote: vec![172, 16, 0, 1].into(),
        vni: 5000,
        inner_gateway_mac: vec![2, 0, 0, 0, 0, 9].into(),
        ..Vxlan::default()
    };
    change(&mut vxlan);
    part(plan).pools[0].vxlan = Some(vxlan);
}

/// Gives clients tunnels of GRE, with something changed.
fn gre(plan: &mut Plan, change: fn(&mut Gre)) {
    let mut gre = Gre {
        local: vec![172, 16, 0, 10].into(),
        local_count: 4,
        remote: vec![172, 16, 0, 1].into(),
        key: Some(5),
        ..Gre::default()
    };
    change(&mut gre);
    part(plan).pools[0].gre = Some(gre);
}

/// Gives clients labels, with something changed.
fn mpls(plan: &mut Plan, change: fn(&mut Mpls)) {
    let label = |label, traffic_class, ttl| MplsLabel { label, traffic_class, ttl };
    let mut mpls = Mpls {
        local: vec![172, 16, 0, 10].into(),
        local_count: 4,
        remote: vec![172, 16, 0, 1].into(),
        labels: vec![label(100, 5, 0), label(1000, 1, 255)],
        ..Mpls::default()
    };
    change(&mut mpls);
    part(plan).pools[0].mpls = Some(mpls);
}

/// Another template, of clients in tunnels too.
fn second(plan: &mut Plan, first: [u8; 4], change: fn(&mut Gtpu)) {
    tunnel(plan, |_| ());
    let other = pool(first, [first[0], first[1], first[2], 255]);
    let mut gtpu = part(plan).pools[0].gtpu.clone().unwrap();
    change(&mut gtpu);
    part(plan).pools.push(Pool { gtpu: Some(gtpu), ..other });
    let mut template = web(plan).clone();
    template.name = "second".into();
    template.clients[0].pool = 2;
    part(plan).templates.push(template);
}

/// Of clients and of servers.
fn mss(plan: &Plan) -> [u16; 2] {
    let template = checked(plan).templates[0].clone();
    [template.client.unwrap().tunables.mss, template.server.unwrap().tunables.mss]
}

fn over_v6(plan: &mut Plan) {
    for (pool, net) in [(0, 1), (1, 2)] {
        let (first, last) = ([&[net; 15][..], &[1]].concat(), [&[net; 15][..], &[9]].concat());
        (part(plan).pools[pool].first, part(plan).pools[pool].last) = (first.into(), last.into());
    }
}

/// Clients and servers with the addresses that TRex gives them by default over IPv6.
fn over_groups(plan: &mut Plan, allowed: bool) {
    for pool in &mut part(plan).pools {
        for end in [&mut pool.first, &mut pool.last] {
            *end = [&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &end[..]].concat().into();
        }
        pool.allow_multicast = allowed;
    }
}

fn bytes(bytes: &[u8]) -> Payload {
    Payload { content: Some(payload::Content::Bytes(bytes.to_vec().into())), fields: vec![] }
}

fn good() -> Plan {
    let template = contract::Template {
        name: "web".into(),
        protocol: TransportProtocol::Tcp.into(),
        client_port: "east".into(),
        server_port: "west".into(),
        client: instructions(vec![send(0), receive(2000)]),
        server: instructions(vec![receive(5), send(1)]),
        destination_port: 80,
        flows_per_second: Some(contract::Ratio { numerator: 1000, denominator: 3 }),
        clients: vec![WeightedPool { pool: 0, weight: 1 }],
        servers: vec![WeightedPool { pool: 1, weight: 1 }],
        ..contract::Template::default()
    };
    let stateful = Stateful {
        payloads: vec![bytes(b"GET /"), Payload { content: Some(payload::Content::Size(2000)), fields: vec![] }],
        pools: vec![pool([16, 0, 0, 1], [16, 0, 0, 255]), pool([48, 0, 0, 1], [48, 0, 0, 255])],
        templates: vec![template],
        ..Stateful::default()
    };
    Plan {
        run_id: "run-1".into(),
        run_tag: 7,
        timing: Some(Timing::default()),
        stateful: Some(stateful),
        ..Plan::default()
    }
}

fn site() -> Site {
    let port = |name: &str, loops| PortFacts {
        name: name.into(),
        line_rate: LineRate::Unknown,
        mtu: Some(1500),
        claimed_bits: 0,
        macs: Macs::default(),
        loops: Some(loops),
        workers: 2,
    };
    Site { ports: vec![port("east", false), port("west", false), port("loop", true)], workers: 2 }
}

fn part(plan: &mut Plan) -> &mut Stateful {
    plan.stateful.as_mut().unwrap()
}

fn record(plan: &mut Plan) -> &mut contract::Records {
    part(plan).records.insert(contract::Records { one_in: 1, ..contract::Records::default() })
}

fn ignoring(plan: &mut Plan) -> &mut contract::IgnoredSources {
    part(plan).ignored_sources.get_or_insert_default()
}

fn prefix(address: &[u8], length: u32) -> contract::Prefix {
    contract::Prefix { address: address.to_vec().into(), length }
}

fn web(plan: &mut Plan) -> &mut contract::Template {
    &mut part(plan).templates[0]
}

fn client(plan: &mut Plan, kinds: Vec<Kind>) {
    web(plan).client = instructions(kinds);
}

fn alone(plan: &mut Plan, kinds: Vec<Kind>) {
    web(plan).server = None;
    web(plan).server_port.clear();
    client(plan, kinds);
}

fn udp(plan: &mut Plan, kinds: Vec<Kind>) {
    alone(plan, kinds);
    web(plan).protocol = TransportProtocol::Udp.into();
}

fn tune(plan: &mut Plan, tunables: Tunables) {
    web(plan).client_tunables = Some(tunables);
}

fn field(plan: &mut Plan, offset: u64, values: Option<payload_field::Values>) {
    part(plan).payloads[0].fields.push(PayloadField { offset, values });
}

fn checked(plan: &Plan) -> Scenario {
    validate(plan, &site()).unwrap().stateful.unwrap()
}

#[test]
fn what_is_implied_is_put_in_and_jumps_still_lead_where_they_did() {
    let mut plan = good();
    let set = |value| Kind::Set(VariableValue { variable: 0, value });
    let again = Kind::Jump(Jump { to: 1, variable: 0, comparison: 0, value: 0 });
    let step = Kind::Add(VariableValue { variable: 0, value: -1 });
    client(&mut plan, vec![set(3), send(0), step.clone(), again]);
    web(&mut plan).server = instructions(vec![receive(15)]);
    let scenario = checked(&plan);
    let template = &scenario.templates[0];
    let executed = &template.client.as_ref().unwrap().program.instructions;
    assert_eq!(executed[0], Executed::Connect);
    assert!(matches!(executed[4], Executed::Jump { to: 2, .. }), "{executed:?}");
    assert_eq!(template.server.as_ref().unwrap().program.instructions[0], Executed::Accept);
    // Written out, it is the same.
    let again = Kind::Jump(Jump { to: 2, variable: 0, comparison: 0, value: 0 });
    client(&mut plan, vec![Kind::Connect(Nothing {}), set(3), send(0), step, again]);
    assert_eq!(checked(&plan).templates[0].client.as_ref().unwrap().program.instructions, *executed);
}

#[test]
fn defaults_are_in_place() {
    let mut plan = good();
    let scenario = checked(&plan);
    let template = &scenario.templates[0];
    let client = template.client.as_ref().unwrap();
    assert_eq!((template.group.as_str(), scenario.most_flows), ("web", MAX_FLOWS));
    assert_eq!((client.port, client.rate), (0, Ratio::new(1000, 3)));
    assert_eq!(client.tunables, spate_stateful::Tunables::default());
    assert_eq!(scenario.pools[0].source_ports, spate_stateful::pool::SourcePorts::default());
    part(&mut plan).most_flows = 1001;
    part(&mut plan).pools[0].source_ports =
        Some(SourcePorts { first: 41_668, step: 17_405, lowest: 0, highest: 63_999 });
    part(&mut plan).pools[0].first_mac = vec![2, 0, 0, 0, 0, 1].into();
    tune(&mut plan, Tunables { mss: 1100, delayed_ack_ns: Some(0), no_timestamps: true, ..Tunables::default() });
    field(&mut plan, 0, Some(payload_field::Values::Counter(PayloadCounter { first: 7, step: 1, width: 3 })));
    let scenario = checked(&plan);
    let tunables = &scenario.templates[0].client.as_ref().unwrap().tunables;
    assert_eq!((tunables.mss, tunables.delayed_ack_ns, tunables.timestamps, tunables.sack), (1100, 0, false, true));
    assert_eq!(scenario.most_flows, 501);
    let ports = scenario.pools[0].source_ports;
    assert_eq!(ports.start, Start::Stepped { first: 41_668, step: 17_405 });
    assert_eq!((ports.lowest, ports.highest), (1024, 63_999));
    assert_eq!(scenario.pools[0].mac(2), Some([2, 0, 0, 0, 0, 3]));
    let mut sent = [0; 5];
    scenario.payloads[0].fill(5, 0, &mut sent);
    assert_eq!(&sent, b"012 /");
}

#[test]
fn sources_to_ignore_are_the_macs_and_all_addresses_of_the_prefixes() {
    let mut plan = good();
    assert_eq!(checked(&plan).ignored, None);
    ignoring(&mut plan);
    assert_eq!(checked(&plan).ignored, None, "none is named");
    let most: Vec<_> = (0..64).map(|n| vec![2, 0, 0, 0, 0, n].into()).collect();
    ignoring(&mut plan).macs = most;
    let v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    ignoring(&mut plan).prefixes =
        vec![prefix(&[10, 1, 2, 3], 8), prefix(&[198, 18, 0, 1], 32), prefix(&v6, 64), prefix(&[0; 16], 0)];
    let macs = (0..64).map(|n| [2, 0, 0, 0, 0, n]);
    let v4 = |first, last| (Address::v4(u32::from_be_bytes(first)), Address::v4(u32::from_be_bytes(last)));
    let network = 0x2001_0db8_u128 << 96;
    let ranges = [
        v4([10, 0, 0, 0], [10, 255, 255, 255]),
        v4([198, 18, 0, 1], [198, 18, 0, 1]),
        (Address(network), Address(network | u128::from(u64::MAX))),
        (Address(0), Address(u128::MAX)),
    ];
    assert_eq!(checked(&plan).ignored, Some(IgnoredSources::new(macs, ranges)));
}

#[test]
fn the_workers_of_each_port_have_room_for_all_flows() {
    let mut plan = good();
    part(&mut plan).most_flows = 1200;
    let most_flows = |west, other| {
        let mut site = Site { workers: 7, ..site() };
        for (port, workers) in site.ports.iter_mut().zip([4, west, other]) {
            port.workers = workers;
        }
        validate(&plan, &site).unwrap().stateful.unwrap().most_flows
    };
    // Clients are on the first port, their servers on the second.
    assert_eq!([most_flows(4, 1), most_flows(3, 1), most_flows(6, 4)], [300, 400, 300]);
}

#[test]
fn segments_fit_where_no_mss_is_asked_for() {
    let mut plan = good();
    assert_eq!(mss(&plan), [1460; 2]);
    over_v6(&mut plan);
    // IPv6 has 20 more of headers.
    assert_eq!(mss(&plan), [1440; 2]);
}

#[test]
fn tunnels_are_as_the_plan_says_and_segments_fit_beside_them() {
    let mut plan = good();
    tunnel(&mut plan, |_| ());
    // The MTU of 1500 without 40 of IP and TCP, and 36 of IP, UDP and GTP-U; servers have none.
    assert_eq!(mss(&plan), [1424, 1460]);
    let scenario = checked(&plan);
    let [local, remote] = [10, 1].map(|last| spate_stateful::Address::v4(172 << 24 | 16 << 16 | last));
    let expected = spate_stateful::tunnel::Tunnels {
        local,
        local_count: 4,
        remote,
        uplink: 1,
        downlink: 1,
        step: 1,
        mirror: false,
        kind: spate_stateful::tunnel::Kind::Gtpu(spate_stateful::gtpu::Gtpu { qfi: None }),
    };
    assert_eq!((scenario.pools[0].tunnels, scenario.pools[1].tunnels), (Some(expected), None));
    tunnel(&mut plan, |g| {
        (g.local, g.remote) = (vec![1; 16].into(), vec![2; 16].into());
        (g.local_count, g.teid, g.teid_step, g.downlink_teid) = (0, 5, 3, 1 << 31);
        (g.qfi, g.mirror) = (Some(0), true);
    });
    // 64 of IPv6, UDP, GTP-U and a container.
    assert_eq!(mss(&plan), [1396; 2]);
    let tunnels = checked(&plan).pools[0].tunnels.unwrap();
    assert_eq!((tunnels.local_count, tunnels.uplink, tunnels.step, tunnels.downlink), (1, 5, 3, 1 << 31));
    // What is asked for stays.
    tune(&mut plan, Tunables { mss: 1300, ..Tunables::default() });
    assert_eq!(mss(&plan)[0], 1300);
    // IPv6 inside takes 20 more.
    over_v6(&mut plan);
    tune(&mut plan, Tunables::default());
    assert_eq!(mss(&plan), [1376; 2]);
    // Pools of the same clients, and others apart.
    for first in [[16, 0, 0, 1], [17, 0, 0, 1]] {
        let mut plan = good();
        second(&mut plan, first, |_| ());
        if first[0] == 17 {
            let gtpu = part(&mut plan).pools[2].gtpu.as_mut().unwrap();
            gtpu.teid = 1000;
        }
        assert_eq!(checked(&plan).templates.len(), 2);
    }
}

#[test]
fn vlans_and_gateways_are_as_the_plan_says_and_segments_fit_within_the_tags() {
    use spate_net::vlan::{SERVICE, Tag, Tags};
    let mut plan = good();
    tag(&mut plan, |_| ());
    let gateway = spate_stateful::Address::v4(0x0fff_fffe);
    let tags = Tags::new(&[Tag { ethertype: SERVICE, vlan: 200 }, Tag::customer(7)]);
    let access = |mirror| spate_stateful::envelope::Access { tags, gateway: Some(gateway), mirror };
    let scenario = checked(&plan);
    assert_eq!((scenario.pools[0].access, scenario.pools[1].access), (access(false), Default::default()));
    // The MTU of 1500 without 40 of IP and TCP, and 8 of tags; servers are met without.
    assert_eq!(mss(&plan), [1452, 1460]);
    tag(&mut plan, |p| p.mirror_vlans = true);
    assert_eq!((checked(&plan).pools[0].access, mss(&plan)), (access(true), [1452; 2]));
    // On one port servers are met in the clients' tags.
    tag(&mut plan, |p| p.mirror_vlans = false);
    web(&mut plan).client_port = "loop".into();
    web(&mut plan).server_port = "loop".into();
    let [clients, servers] = mss(&plan);
    assert_eq!(clients, servers);
    // A gateway alone, and tunnels within tags: it is a next hop of the gNBs.
    let mut plan = good();
    tag(&mut plan, |p| p.vlans.clear());
    assert_eq!((checked(&plan).pools[0].access.tags, mss(&plan)), (None, [1460; 2]));
    tag(&mut plan, |_| ());
    tunnel(&mut plan, |_| ());
    assert_eq!(mss(&plan), [1416, 1460]);
    // The same clients, and others apart, in VLANs of their own.
    for (first, change) in [
        ([16, 0, 0, 1], (|_| ()) as fn(&mut Pool)),
        ([17, 0, 0, 1], |p| p.vlans.truncate(1)),
        ([17, 0, 0, 1], |p| (p.vlans, p.gateway) = (vec![], vec![].into())),
    ] {
        let mut plan = good();
        second_tagged(&mut plan, first, change);
        assert_eq!(checked(&plan).templates.len(), 2);
    }
}

#[test]
fn packets_in_gre_are_as_the_plan_says_and_segments_fit_beside_them() {
    use spate_stateful::{Address, gre::Gre as GreKind, tunnel};
    let mut plan = good();
    gre(&mut plan, |g| g.key_step = 2);
    // 28 of IP, and GRE with a key; servers have none.
    assert_eq!(mss(&plan), [1432, 1460]);
    let [local, remote] = [10, 1].map(|last| Address::v4(172 << 24 | 16 << 16 | last));
    let kind = tunnel::Kind::Gre(GreKind { keyed: true });
    let (uplink, downlink, step) = (5, 5, 2);
    let expected = tunnel::Tunnels { local, local_count: 4, remote, uplink, downlink, step, mirror: false, kind };
    assert_eq!(checked(&plan).pools[0].tunnels, Some(expected));
    gre(&mut plan, |g| (g.key, g.mirror) = (None, true));
    assert_eq!(mss(&plan), [1436; 2]);
    let kind = tunnel::Kind::Gre(GreKind { keyed: false });
    let (uplink, downlink, step) = (0, 0, 0);
    let expected = tunnel::Tunnels { uplink, downlink, step, mirror: true, kind, ..expected };
    assert_eq!(checked(&plan).pools[0].tunnels, Some(expected));
}

#[test]
fn packets_in_labels_are_as_the_plan_says_and_segments_fit_beside_them() {
    use spate_net::mpls::Entry;
    use spate_stateful::{Address, mpls::Mpls as MplsKind, tunnel};
    let mut plan = good();
    mpls(&mut plan, |m| m.label_step = 2);
    // 8 of two entries; servers have none.
    assert_eq!(mss(&plan), [1452, 1460]);
    let [local, remote] = [10, 1].map(|last| Address::v4(172 << 24 | 16 << 16 | last));
    let above = [Entry { label: 100, traffic_class: 5, ttl: 64 }];
    let kind = |popped| tunnel::Kind::Mpls(MplsKind::new(&above, popped).unwrap());
    let bottom = 1000 << 12 | 1 << 9 | 1 << 8 | 255;
    let (uplink, downlink, step) = (bottom, bottom, 2 << 12);
    let expected =
        tunnel::Tunnels { local, local_count: 4, remote, uplink, downlink, step, mirror: false, kind: kind(false) };
    assert_eq!(checked(&plan).pools[0].tunnels, Some(expected));
    mpls(&mut plan, |m| (m.downlink_label, m.mirror) = (Some(16), true));
    let tunnels = checked(&plan).pools[0].tunnels.unwrap();
    assert_eq!((tunnels.downlink >> 12, tunnels.mirror, tunnels.kind), (16, true, kind(false)));
    // Implicit null, which one label for all clients may be, too.
    mpls(&mut plan, |m| (m.downlink_label, m.label_step) = (Some(3), 1));
    assert_eq!(checked(&plan).pools[0].tunnels.unwrap().kind, kind(true));
    // A link of IPv4 carries IPv6 within.
    over_v6(&mut plan);
    assert_eq!(mss(&plan), [1432, 1440]);
}

#[test]
fn frames_in_vxlan_are_as_the_plan_says_and_segments_fit_beside_them() {
    use spate_stateful::{Address, tunnel, vxlan::Vxlan as VxlanKind};
    let mut plan = good();
    vxlan(&mut plan, |v| v.vni_step = 2);
    // 50 of Ethernet, IP, UDP and VXLAN; servers have none. Clients may have MACs.
    part(&mut plan).pools[0].first_mac = vec![2, 0, 0, 0, 1, 0].into();
    assert_eq!(mss(&plan), [1410, 1460]);
    let [local, remote] = [10, 1].map(|last| Address::v4(172 << 24 | 16 << 16 | last));
    let (uplink, downlink, step) = (5000 << 8, 5000 << 8, 2 << 8);
    let kind = tunnel::Kind::Vxlan(VxlanKind { gateway_mac: Some([2, 0, 0, 0, 0, 9]) });
    let expected = tunnel::Tunnels { local, local_count: 4, remote, uplink, downlink, step, mirror: false, kind };
    assert_eq!(checked(&plan).pools[0].tunnels, Some(expected));
    vxlan(&mut plan, |v| (v.mirror, v.inner_gateway_mac) = (true, vec![].into()));
    web(&mut plan).client_port = "loop".into();
    web(&mut plan).server_port = "loop".into();
    assert!(checked(&plan).pools[0].tunnels.unwrap().mirror);
}

#[test]
fn sides_may_be_real() {
    let mut plan = good();
    alone(&mut plan, vec![send(0), receive(99)]);
    let scenario = checked(&plan);
    assert!(scenario.templates[0].server.is_none() && scenario.templates[0].client.is_some());
    let mut plan = good();
    let template = web(&mut plan);
    (template.client, template.flows_per_second) = (None, None);
    template.client_port.clear();
    template.clients.clear();
    let scenario = checked(&plan);
    assert!(scenario.templates[0].client.is_none() && scenario.templates[0].server.is_some());
}

#[test]
fn payloads_and_instructions_are_at_most_as_many_as_flows_can_number() {
    let refused = |plan: &Plan| {
        let violations = validate(plan, &site()).unwrap_err();
        violations.0.iter().map(|v| format!("{}: {}", v.field, v.description)).collect::<Vec<_>>().join("\n")
    };
    let mut plan = good();
    part(&mut plan).payloads.resize(65_536, bytes(b"the last"));
    client(&mut plan, vec![send(0), receive(2000)]);
    assert_eq!(checked(&plan).payloads.len(), 65_536);
    part(&mut plan).payloads.push(bytes(b"one more"));
    let message = refused(&plan);
    assert!(message.contains("stateful.payloads: 65537 of them; must be at most 65536"), "{message}");
    // With `connect`, that is implied or written, a position in the program and its end are of 16 bits.
    let mark = Kind::Set(VariableValue { variable: 0, value: 1 });
    let program = |count: usize, first: Option<Kind>| {
        let mut plan = good();
        let asked = first.into_iter().chain(vec![mark.clone(); count - 2]);
        client(&mut plan, asked.chain([send(0), receive(2000)]).collect());
        web(&mut plan).client.as_mut().unwrap().variables = vec!["v".into()];
        plan
    };
    let first = || Some(Kind::Connect(Nothing {}));
    for plan in [program(65_534, None), program(65_534, first())] {
        let scenario = checked(&plan);
        assert_eq!(scenario.templates[0].client.as_ref().unwrap().program.instructions.len(), 65_535);
    }
    for (plan, most) in [(program(65_535, None), "65534 behind the Connect"), (program(65_535, first()), "65535")] {
        let message = refused(&plan);
        assert!(
            message.contains(&format!("client.instructions: {}", 65_535 + usize::from(most == "65535"))),
            "{message}"
        );
        assert!(message.contains(&format!("must be at most {most}")), "{message}");
    }
    // A payload that takes years to send can have no fields.
    let mut plan = good();
    part(&mut plan).payloads[0].content = Some(payload::Content::Size(1 << 60));
    assert_eq!(checked(&plan).payloads[0].len(), 1 << 60);
    field(&mut plan, 0, Some(payload_field::Values::Counter(PayloadCounter { first: 1, step: 1, width: 4 })));
    let message = refused(&plan);
    assert!(
        message.contains("stateful.payloads[0].fields: are of a payload of 1152921504606846976 bytes"),
        "{message}"
    );
}

#[test]
fn what_is_wrong_is_named_with_its_remedy() {
    type Spoil = fn(&mut Plan);
    let table: &[(Spoil, &str, &str)] = &[
        (|p| part(p).templates.clear(), "templates", "at least one"),
        (|p| part(p).ramp_up_ns = u64::MAX, "ramp_up_ns", "ten years"),
        (|p| part(p).ramp_up_step_ns = 1, "ramp_up_step_ns", "a whole number of these"),
        (|p| (part(p).ramp_up_ns, part(p).ramp_up_step_ns) = (5, 2), "ramp_up_step_ns", "a whole number of these"),
        (|p| part(p).most_flows = u64::MAX, "most_flows", "2147483648 for each worker"),
        (|p| record(p).one_in = 0, "records.one_in", "records every connection"),
        (|p| record(p).path = "a\0b".into(), "records.path", "zero byte"),
        (|p| record(p).most = 1, "records.most", "or set path"),
        (|p| ignoring(p).macs = vec![vec![2; 5].into()], "ignored_sources.macs[0]", "must be 6"),
        (
            |p| ignoring(p).macs = vec![vec![2; 6].into(), vec![3; 6].into()],
            "ignored_sources.macs[1]",
            "a group address",
        ),
        (|p| ignoring(p).macs = vec![vec![2; 6].into(); 65], "ignored_sources.macs", "65 of them; must be at most 64"),
        (|p| ignoring(p).prefixes = vec![prefix(&[10; 5], 8)], "ignored_sources.prefixes[0].address", "16 (IPv6)"),
        (
            |p| ignoring(p).prefixes = vec![prefix(&[10; 4], 33)],
            "ignored_sources.prefixes[0].length",
            "33; must be at most 32",
        ),
        (|p| ignoring(p).prefixes = vec![prefix(&[10; 16], 129)], "ignored_sources.prefixes[0].length", "at most 128"),
        (|p| ignoring(p).prefixes = vec![prefix(&[10; 4], 8); 65], "ignored_sources.prefixes", "must be at most 64"),
        (|p| web(p).name.clear(), "templates[0].name", "must be 1..253"),
        (|p| web(p).group = "a\nb".into(), "templates[0].group", "control character"),
        (
            |p| {
                let again = web(p).clone();
                part(p).templates.push(again);
            },
            "templates[1].name",
            "templates[0]'s already",
        ),
        (|p| web(p).protocol = 0, "templates[0].protocol", "set TRANSPORT_PROTOCOL_TCP"),
        (|p| web(p).protocol = 9, "templates[0].protocol", "not known"),
        (|p| web(p).client_port = "north".into(), "templates[0].client_port", "known are east, west, loop"),
        (|p| web(p).client_port.clear(), "templates[0].client_port", "must name a port"),
        (|p| web(p).server = None, "templates[0].server", "set its program or a capture"),
        (
            |p| {
                alone(p, vec![]);
                web(p).client = None;
                web(p).client_port.clear();
            },
            "templates[0]",
            "set client_port, server_port or both",
        ),
        (|p| web(p).destination_port = 0, "templates[0].destination_port", "must be 1..65535"),
        (|p| web(p).destination_port = 65_536, "templates[0].destination_port", "must be 1..65535"),
        (|p| web(p).flows_per_second = None, "templates[0].flows_per_second", "clients need a rate"),
        (
            |p| web(p).flows_per_second = Some(contract::Ratio { numerator: 0, denominator: 1 }),
            "templates[0].flows_per_second",
            "is 0",
        ),
        (
            |p| web(p).flows_per_second = Some(contract::Ratio { numerator: 1, denominator: 0 }),
            "templates[0].flows_per_second",
            "denominator is 0",
        ),
        (|p| web(p).latency = true, "templates[0].latency", "is for UDP"),
        (|p| web(p).clients.clear(), "templates[0].clients", "at least one pool"),
        (|p| web(p).servers.clear(), "templates[0].servers", "at least one pool"),
        (|p| web(p).clients[0].weight = 0, "templates[0].clients[0].weight", "at least 1"),
        (|p| web(p).servers[0].pool = 2, "templates[0].servers[0].pool", "there is no pool 2; there are 2"),
        (|p| web(p).clients.push(WeightedPool { pool: 1, weight: 65_536 }), "templates[0].clients", "use rounder ones"),
        (
            |p| {
                part(p).pools[1].first = vec![0; 16].into();
                part(p).pools[1].last = vec![0; 16].into();
            },
            "templates[0].servers",
            "different families",
        ),
        (|p| part(p).pools[0].first = vec![1; 5].into(), "pools[0].first", "5 bytes; must be 4"),
        (|p| part(p).pools[0].last = vec![1; 16].into(), "pools[0].last", "different families"),
        (|p| part(p).pools[0].last = vec![1, 0, 0, 0].into(), "pools[0].last", "before first"),
        (|p| part(p).pools[0].order = 9, "pools[0].order", "none that this engine knows"),
        (|p| part(p).pools[0].first_mac = vec![2; 5].into(), "pools[0].first_mac", "must be 6"),
        (|p| part(p).pools[0].first_mac = vec![1; 6].into(), "pools[0].first_mac", "group address"),
        (
            |p| part(p).pools[0].first_mac = vec![2, 255, 255, 255, 255, 9].into(),
            "pools[0].first_mac",
            "differs in its first byte",
        ),
        (|p| over_groups(p, false), "pools[1].allow_multicast", "has multicast addresses"),
        (|p| part(p).pools[0].last = vec![224, 0, 0, 1].into(), "pools[0].allow_multicast", "has multicast addresses"),
        (
            |p| part(p).pools[0].allow_multicast = true,
            "pools[0].allow_multicast",
            "not multicast: use a pool of its own",
        ),
        (
            |p| {
                over_groups(p, true);
                tunnel(p, |_| ());
            },
            "pools[0].allow_multicast",
            "clients in tunnels",
        ),
        (|p| vxlan(p, |v| v.vni = 1 << 24), "pools[0].vxlan.vni", "they have 24 bits"),
        (|p| vxlan(p, |v| v.vni_step = 1 << 20), "pools[0].vxlan.vni", "a lower vni_step or a smaller pool"),
        (|p| vxlan(p, |v| v.remote = vec![1; 16].into()), "pools[0].vxlan.remote", "not of the family of local"),
        (|p| vxlan(p, |v| v.remote = v.local.clone()), "pools[0].vxlan.remote", "a local VTEP's address too"),
        (|p| vxlan(p, |v| v.inner_gateway_mac = vec![].into()), "pools[0].vxlan.inner_gateway_mac", "missing; frames"),
        (
            |p| vxlan(p, |v| v.inner_gateway_mac = vec![1; 6].into()),
            "pools[0].vxlan.inner_gateway_mac",
            "must be 6 bytes",
        ),
        (|p| vxlan(p, |v| v.mirror = true), "pools[0].vxlan.inner_gateway_mac", "and mirror is set"),
        (
            |p| vxlan(p, |v| (v.mirror, v.inner_gateway_mac) = (true, vec![].into())),
            "pools[0].vxlan.mirror",
            "for clients and servers on one loopback port",
        ),
        (
            |p| {
                vxlan(p, |_| ());
                tunnel(p, |_| ());
            },
            "pools[0].vxlan",
            "gtpu is set as well",
        ),
        (
            |p| {
                mpls(p, |_| ());
                gre(p, |_| ());
            },
            "pools[0].mpls",
            "gre is set as well",
        ),
        (|p| gre(p, |g| g.key_step = 1 << 25), "pools[0].gre.key", "a lower key_step or a smaller pool"),
        (|p| gre(p, |g| (g.key, g.key_step) = (None, 1)), "pools[0].gre.key_step", "there are none"),
        (|p| gre(p, |g| g.remote = g.local.clone()), "pools[0].gre.remote", "a local end's address too"),
        (
            |p| {
                gre(p, |_| ());
                part(p).pools[0].first_mac = vec![2, 0, 0, 0, 0, 1].into();
            },
            "pools[0].first_mac",
            "local ends have the port's",
        ),
        (|p| mpls(p, |m| m.labels.clear()), "pools[0].mpls.labels", "0 of them; must be 1..8"),
        (|p| mpls(p, |m| m.labels = vec![MplsLabel::default(); 9]), "pools[0].mpls.labels", "9 of them"),
        (|p| mpls(p, |m| m.labels[0].label = 3), "pools[0].mpls.labels[0].label", "which is in no stack"),
        (|p| mpls(p, |m| m.labels[1].label = 1 << 20), "pools[0].mpls.labels[1].label", "must be 0..1048575"),
        (|p| mpls(p, |m| m.labels[0].traffic_class = 8), "pools[0].mpls.labels[0].traffic_class", "must be 0..7"),
        (|p| mpls(p, |m| m.labels[1].ttl = 256), "pools[0].mpls.labels[1].ttl", "must be 0..255"),
        (|p| mpls(p, |m| m.label_step = 1 << 13), "pools[0].mpls.labels", "they have 20 bits"),
        (
            |p| mpls(p, |m| (m.label_step, m.labels[1].label) = (1, 15)),
            "pools[0].mpls.labels",
            "15 is a reserved label",
        ),
        (
            |p| mpls(p, |m| (m.label_step, m.downlink_label) = (1, Some((1 << 20) - 1))),
            "pools[0].mpls.downlink_label",
            "a lower label_step or a smaller pool",
        ),
        (
            |p| {
                mpls(p, |_| ());
                web(p).client_port = "loop".into();
                web(p).server_port = "loop".into();
            },
            "pools[0].mpls.mirror",
            "set it, or use another server_port (templates[0])",
        ),
        (|p| tag(p, |q| q.vlans[1].id = 4095), "pools[0].vlans[1].id", "4095; must be 1..4094"),
        (|p| tag(p, |q| q.vlans[0].id = 0), "pools[0].vlans[0].id", "0; must be 1..4094"),
        (
            |p| tag(p, |q| q.vlans[0].tpid = 0x9100),
            "pools[0].vlans[0].tpid",
            "0x9100; must be 0x8100 (802.1Q) or 0x88a8",
        ),
        (|p| tag(p, |q| q.vlans.push(VlanTag { id: 1, tpid: 0 })), "pools[0].vlans", "3 of them; must be at most 2"),
        (|p| tag(p, |q| q.gateway = vec![].into()), "pools[0].gateway", "missing; frames with vlans need"),
        (|p| tag(p, |q| q.gateway = vec![1; 3].into()), "pools[0].gateway", "3 bytes; must be 4"),
        (|p| tag(p, |q| q.gateway = vec![1; 16].into()), "pools[0].gateway", "not of the family of the clients"),
        (|p| tag(p, |q| q.gateway = vec![224, 0, 0, 1].into()), "pools[0].gateway", "no address that a host can have"),
        (|p| tag(p, |q| q.gateway = q.first.clone()), "pools[0].gateway", "the address of a client"),
        (
            |p| {
                tunnel(p, |_| ());
                tag(p, |q| q.gateway = vec![172, 16, 0, 13].into());
            },
            "pools[0].gateway",
            "or of a gNB",
        ),
        (|p| part(p).pools[0].mirror_vlans = true, "pools[0].mirror_vlans", "is for vlans, and there are none"),
        (
            |p| {
                tag(p, |q| q.mirror_vlans = true);
                p.share = Some(contract::Share { index: 1, count: 2 });
            },
            "pools[0].mirror_vlans",
            "several engines would stand for the gateway on one link",
        ),
        (
            |p| {
                tag(p, |q| q.mirror_vlans = true);
                web(p).server_port.clear();
                web(p).server = None;
            },
            "pools[0].mirror_vlans",
            "for servers that are emulated here, and there are none",
        ),
        (
            |p| {
                tag(p, |_| ());
                let Pool { vlans, gateway, .. } = part(p).pools[0].clone();
                (part(p).pools[1].vlans, part(p).pools[1].gateway) = (vlans, gateway);
            },
            "templates[0].servers[0].pool",
            "pool 1 has vlans or a gateway, which are for clients",
        ),
        (
            |p| second_tagged(p, [16, 0, 0, 1], |q| q.vlans.truncate(1)),
            "pools[2].vlans",
            "pools[0] has clients of the same addresses, in another range or with other vlans or gateway",
        ),
        (
            |p| {
                second_tagged(p, [17, 0, 0, 1], |q| q.vlans.truncate(1));
                tunnel(p, |_| ());
                let gtpu = part(p).pools[0].gtpu.clone();
                part(p).pools[2].gtpu = gtpu;
            },
            "pools[2].gtpu",
            "has gNBs in common, or other local ends of tunnels, and other vlans",
        ),
        (
            |p| {
                over_groups(p, true);
                tag(p, |q| q.gateway = [&[0xfd][..], &[0; 14], &[1]].concat().into());
            },
            "pools[0].allow_multicast",
            "clients with vlans or a gateway",
        ),
        (|p| tunnel(p, |g| g.local = vec![1; 5].into()), "pools[0].gtpu.local", "5 bytes; must be 4"),
        (|p| tunnel(p, |g| g.remote = vec![].into()), "pools[0].gtpu.remote", "0 bytes; must be 4"),
        (|p| tunnel(p, |g| g.remote = vec![1; 16].into()), "pools[0].gtpu.remote", "not of the family of local"),
        (|p| tunnel(p, |g| g.remote = vec![172, 16, 0, 13].into()), "pools[0].gtpu.remote", "a gNB's address too"),
        (|p| tunnel(p, |g| g.local_count = 65_537), "pools[0].gtpu.local_count", "at most 65536"),
        (|p| tunnel(p, |g| g.local = vec![255; 4].into()), "pools[0].gtpu.local_count", "all of one family"),
        (
            |p| tunnel(p, |g| (g.local, g.remote) = (vec![255; 16].into(), vec![1; 16].into())),
            "pools[0].gtpu.local_count",
            "all of one family",
        ),
        (|p| tunnel(p, |g| g.teid = 0), "pools[0].gtpu.teid", "must be at least 1"),
        (|p| tunnel(p, |g| g.teid_step = 1 << 30), "pools[0].gtpu.teid", "they have 32 bits"),
        (|p| tunnel(p, |g| g.downlink_teid = u32::MAX - 253), "pools[0].gtpu.downlink_teid", "would be 4294967296"),
        (|p| tunnel(p, |g| g.qfi = Some(64)), "pools[0].gtpu.qfi", "must be 0..63"),
        (
            |p| {
                tunnel(p, |_| ());
                p.share = Some(contract::Share { index: 1, count: 3 });
            },
            "pools[0].gtpu.local_count",
            "4 gNBs cannot be shared out to 3 engines as their clients are; use a multiple of 3",
        ),
        (
            |p| {
                tunnel(p, |g| g.mirror = true);
                p.share = Some(contract::Share { index: 1, count: 2 });
            },
            "pools[0].gtpu.mirror",
            "several engines would stand for the UPF on one link",
        ),
        (
            |p| {
                tunnel(p, |g| g.mirror = true);
                p.share = Some(contract::Share { index: 0, count: 2 });
                web(p).client_engines = some(0, 1);
            },
            "pools[0].gtpu.mirror",
            "several engines would stand for the UPF on one link",
        ),
        (
            |p| {
                second_tagged(p, [16, 0, 0, 1], |q| q.vlans.truncate(1));
                let mut third = web(p).clone();
                (third.name, third.client_port, third.server_port) = ("third".into(), "west".into(), "east".into());
                let second = &mut part(p).templates[1];
                (second.client_port, second.server_port) = ("west".into(), "east".into());
                part(p).templates.push(third);
            },
            "pools[2].vlans",
            "pools[0] has clients of the same addresses, in another range or with other vlans or gateway",
        ),
        (
            |p| {
                vxlan(p, |_| ());
                part(p).pools[1] = Pool { allow_multicast: true, ..pool([239, 0, 0, 1], [239, 0, 0, 9]) };
            },
            "pools[0].vxlan",
            "send to multicast groups (stateful.pools[1], templates[0])",
        ),
        (
            |p| {
                tunnel(p, |_| ());
                part(p).pools[0].first_mac = vec![2, 0, 0, 0, 0, 1].into();
            },
            "pools[0].first_mac",
            "local ends have the port's",
        ),
        (
            |p| {
                tunnel(p, |_| ());
                web(p).client_port = "loop".into();
                web(p).server_port = "loop".into();
            },
            "pools[0].gtpu.mirror",
            "set it, or use another server_port (templates[0])",
        ),
        (
            |p| {
                alone(p, vec![send(0), receive(99)]);
                tunnel(p, |g| g.mirror = true);
            },
            "pools[0].gtpu.mirror",
            "servers that are emulated here, and there are none",
        ),
        (
            |p| {
                tunnel(p, |_| ());
                part(p).pools[1].gtpu = part(p).pools[0].gtpu.clone();
            },
            "templates[0].servers[0].pool",
            "which is for clients",
        ),
        (
            |p| {
                tunnel(p, |_| ());
                web(p).client_tunables = Some(Tunables { mss: 1425, ..Tunables::default() });
            },
            "templates[0].client_tunables.mss",
            "must be at most 1424 on port east",
        ),
        (|p| second(p, [16, 0, 0, 9], |_| ()), "pools[2].gtpu", "clients of the same addresses, and other tunnels"),
        (
            |p| {
                second(p, [17, 0, 0, 1], |g| {
                    g.downlink_teid = 100;
                    g.teid = 1000;
                })
            },
            "pools[2].gtpu",
            "gNBs in common and TEIDs of the downlink in the same range",
        ),
        (
            |p| second(p, [17, 0, 0, 1], |g| g.local = vec![172, 16, 9, 1].into()),
            "pools[2].gtpu",
            "the same UPF and TEIDs of the uplink",
        ),
        (
            |p| part(p).pools[0].source_ports = Some(SourcePorts { step: 65_536, ..SourcePorts::default() }),
            "pools[0].source_ports.step",
            "must be 0..65535",
        ),
        (
            |p| part(p).pools[0].source_ports = Some(SourcePorts { highest: 1000, ..SourcePorts::default() }),
            "pools[0].source_ports.highest",
            "below the lowest, which is 1024",
        ),
        (|p| part(p).payloads[0].content = None, "payloads[0]", "set bytes or size"),
        (|p| part(p).payloads[1].content = Some(payload::Content::Size(u64::MAX)), "payloads[1].size", "at most"),
        (|p| field(p, 0, None), "payloads[0].fields[0]", "set list or counter"),
        (
            |p| {
                field(
                    p,
                    4,
                    Some(payload_field::Values::Counter(PayloadCounter { width: 2, ..PayloadCounter::default() })),
                )
            },
            "payloads[0].fields[0].offset",
            "beyond the payload's 5 bytes",
        ),
        (
            |p| {
                field(
                    p,
                    0,
                    Some(payload_field::Values::Counter(PayloadCounter { width: 300, ..PayloadCounter::default() })),
                )
            },
            "payloads[0].fields[0].counter.width",
            "1..20",
        ),
        (
            |p| {
                let values = vec![vec![1; 2].into(), vec![1; 3].into()];
                field(p, 0, Some(payload_field::Values::List(PayloadList { values })));
            },
            "payloads[0].fields[0].list.values[1]",
            "differs from the first",
        ),
        (
            |p| web(p).r#match.push(PayloadMatch { offset: 0, bytes: vec![].into() }),
            "templates[0].match[0].bytes",
            "at least 1",
        ),
        (
            |p| web(p).r#match.push(PayloadMatch { offset: 530, bytes: vec![0; 7].into() }),
            "templates[0].match[0]",
            "at most 536",
        ),
        (|p| tune(p, Tunables { mss: 1, ..Tunables::default() }), "templates[0].client_tunables.mss", "48..65495"),
        (
            |p| tune(p, Tunables { mss: 1461, ..Tunables::default() }),
            "templates[0].client_tunables.mss",
            "at most 1460 on port east",
        ),
        (
            |p| {
                over_v6(p);
                tune(p, Tunables { mss: 1441, ..Tunables::default() });
            },
            "templates[0].client_tunables.mss",
            "at most 1440 on port east",
        ),
        (|p| tune(p, Tunables { ttl: 256, ..Tunables::default() }), "templates[0].client_tunables.ttl", "1..255"),
        (
            |p| tune(p, Tunables { receive_buffer: u32::MAX, ..Tunables::default() }),
            "templates[0].client_tunables.receive_buffer",
            "1..1073725440",
        ),
        (
            |p| tune(p, Tunables { delayed_ack_ns: Some(500_000_001), ..Tunables::default() }),
            "templates[0].client_tunables.delayed_ack_ns",
            "1..500000000",
        ),
        (
            |p| tune(p, Tunables { congestion_control: 9, ..Tunables::default() }),
            "templates[0].client_tunables.congestion_control",
            "none that this engine knows",
        ),
    ];
    check(table);
}

#[test]
fn what_is_wrong_with_programs_is_named_by_the_plans_own_numbers() {
    type Spoil = fn(&mut Plan);
    let table: &[(Spoil, &str, &str)] = &[
        (|p| web(p).client.as_mut().unwrap().instructions[0].kind = None, "client.instructions[0]", "does not know"),
        (|p| client(p, vec![send(0), receive(2000), send(7)]), "client.instructions[2].send.payload", "no payload 7"),
        (|p| part(p).payloads[0] = bytes(b""), "client.instructions[0].send.payload", "is empty"),
        (|p| client(p, vec![send(0), receive(0)]), "client.instructions[1].receive.bytes", "at least 1"),
        (|p| client(p, vec![send(0), receive(2001)]), "client.instructions[1].receive.bytes", "the server sends 2000"),
        (|p| client(p, vec![send(0), Kind::Accept(Nothing {})]), "client.instructions[1].accept", "is for servers"),
        (
            |p| client(p, vec![send(0), Kind::Connect(Nothing {})]),
            "client.instructions[1].connect",
            "must be the first",
        ),
        (|p| alone(p, vec![Kind::Close(Nothing {}), send(0)]), "client.instructions[1]", "nothing leads to it"),
        (
            |p| alone(p, vec![send(0), Kind::Jump(Jump { to: 3, ..Jump::default() })]),
            "client.instructions[1].jump.to",
            "leads to 3; must be 0..2",
        ),
        (
            |p| alone(p, vec![Kind::Loop(Loop { to: u32::MAX, ..Loop::default() })]),
            "client.instructions[0].loop.to",
            "must be 0..1",
        ),
        (
            |p| alone(p, vec![Kind::Mark(1), Kind::Count(0), Kind::Loop(Loop { to: 1, since: 1, duration_ns: 9 })]),
            "client.instructions[2].loop.to",
            "goes back to 1, and nothing on the way takes time",
        ),
        (
            |p| alone(p, vec![Kind::Jump(Jump { comparison: 9, ..Jump::default() })]),
            "client.instructions[0].jump.comparison",
            "none that this engine knows",
        ),
        (
            |p| alone(p, vec![Kind::Set(VariableValue { variable: 2, value: 0 })]),
            "client.instructions[0].set.variable",
            "no variable 2; the program has 2",
        ),
        (|p| alone(p, vec![Kind::Mark(9)]), "client.instructions[0].mark", "no variable 9"),
        (|p| alone(p, vec![Kind::Count(1)]), "client.instructions[0].count", "no counter 1; there are 1"),
        (|p| alone(p, vec![Kind::Count(70_000)]), "client.instructions[0].count", "no counter 70000"),
        (|p| alone(p, vec![Kind::SwitchTemplate(1)]), "client.instructions[0].switch_template", "no template 1"),
        (
            |p| alone(p, vec![Kind::CountTime(CountTime { counter: 1, since: 0 })]),
            "client.instructions[0].count_time.counter",
            "no counter 1; there are 1",
        ),
        (
            |p| alone(p, vec![Kind::CountTime(CountTime { counter: 0, since: 2 })]),
            "client.instructions[0].count_time.since",
            "no variable 2; the program has 2",
        ),
        (|p| alone(p, vec![open(Some(7))]), "client.instructions[0].open_connection.template", "no template 7 with"),
        (|p| alone(p, vec![open(None)]), "client.instructions[0].open_connection.template", "no next_template names"),
        (|p| alone(p, vec![Kind::NextTemplate(7)]), "client.instructions[0].next_template", "no template 7 with"),
        (|p| alone(p, vec![next_of(&[])]), "client.instructions[0].next_templates.templates", "names no template"),
        (|p| alone(p, vec![next_of(&[7, 7])]), "client.instructions[0].next_templates.templates", "7 is there twice"),
        (|p| alone(p, vec![next_of(&[7])]), "client.instructions[0].next_templates.templates", "no template 7 with"),
        (
            |p| alone(p, vec![open(Some(0))]),
            "client.instructions[0].open_connection.template",
            "open connections of this template again, without end",
        ),
        (
            |p| web(p).server = instructions(vec![open(Some(0))]),
            "server.instructions[0].open_connection",
            "is for clients",
        ),
        (
            |p| alone(p, vec![Kind::Delay(Delay { min_ns: 5, max_ns: 4 })]),
            "client.instructions[0].delay.max_ns",
            "must not be greater",
        ),
        (
            |p| alone(p, vec![Kind::Delay(Delay { min_ns: 5, max_ns: u64::MAX })]),
            "client.instructions[0].delay.max_ns",
            "ten years",
        ),
        (
            |p| alone(p, vec![Kind::ReceiveUntil(ReceiveUntil { end: None })]),
            "client.instructions[0].receive_until",
            "set pattern or http_message",
        ),
        (
            |p| {
                let end = Some(receive_until::End::Pattern(vec![b'x'; 65].into()));
                alone(p, vec![Kind::ReceiveUntil(ReceiveUntil { end })]);
            },
            "client.instructions[0].receive_until.pattern",
            "the pattern has 65 bytes; must be 1..64",
        ),
        (|p| udp(p, vec![]), "client.instructions", "at least one"),
        (|p| udp(p, vec![send(0)]), "client.instructions[0].send", "send_message sends a datagram"),
        (
            |p| {
                part(p).payloads[1].content = Some(payload::Content::Size(65_508));
                udp(p, vec![Kind::SendMessage(SendMessage { payload: 1 })]);
            },
            "client.instructions[0].send_message.payload",
            "at most 65507",
        ),
        (
            |p| udp(p, vec![Kind::ReceiveMessages(ReceiveMessages { messages: 1 << 32, clear: false })]),
            "client.instructions[0].receive_messages.messages",
            "at most 4294967295",
        ),
        (|p| web(p).client.as_mut().unwrap().variables = vec![String::new(); 5], "client.variables", "a flow has 4"),
        (
            |p| web(p).client.as_mut().unwrap().counters.push("seen".into()),
            "client.counters[1]",
            "another counter's already",
        ),
    ];
    let table: Vec<_> =
        table.iter().map(|(spoil, field, words)| (*spoil, format!("templates[0].{field}"), *words)).collect();
    check(&table.iter().map(|(spoil, field, words)| (*spoil, field.as_str(), *words)).collect::<Vec<_>>());
}

/// A change that makes a good plan wrong, the field that must be named, and words of the remedy.
type Row<'a> = (fn(&mut Plan), &'a str, &'a str);

fn check(table: &[Row]) {
    assert!(validate(&good(), &site()).is_ok());
    let mut groups = good();
    over_groups(&mut groups, true);
    assert!(checked(&groups).pools.iter().all(|pool| pool.allow_multicast && pool.is_of_groups()));
    for (row, (spoil, field, words)) in table.iter().enumerate() {
        let mut plan = good();
        spoil(&mut plan);
        let wrong = validate(&plan, &site()).expect_err(&format!("row {row}: {field}"));
        let field = format!("stateful.{field}");
        let found = wrong.0.iter().find(|v| v.field.to_string() == field);
        let found = found.unwrap_or_else(|| panic!("row {row}: {field} is not among:\n{wrong}"));
        assert!(found.description.contains(words), "row {row}: {found} does not say {words:?}");
    }
}

#[test]
fn one_port_may_be_both_where_it_loops() {
    let mut plan = good();
    web(&mut plan).client_port = "loop".into();
    web(&mut plan).server_port = "loop".into();
    let scenario = checked(&plan);
    assert_eq!(scenario.templates[0].client.as_ref().unwrap().port, 2);
    // Nobody knows yet.
    web(&mut plan).client_port = "west".into();
    web(&mut plan).server_port = "west".into();
    assert!(validate(&plan, &Site::of_plan(&plan)).is_ok());
}

#[test]
fn tunnels_on_a_port_of_which_it_is_not_known_whether_it_loops_are_taken() {
    let mut plan = good();
    tunnel(&mut plan, |_| ());
    web(&mut plan).server_port = "east".into();
    let refused = |site: &Site| validate(&plan, site).is_err();
    assert!(!refused(&Site::of_plan(&plan)));
    // A router on a stick is none.
    assert!(!refused(&site()));
    let mut loops = site();
    loops.ports[0].loops = Some(true);
    assert!(refused(&loops));
}

#[test]
fn dialogues_are_followed_only_with_servers_that_are_sure_to_answer() {
    let mut plan = good();
    let mut other = web(&mut plan).clone();
    other.name = "other".into();
    other.client = instructions(vec![send(0), receive(2001)]);
    part(&mut plan).templates.push(other);
    assert_eq!(checked(&plan).templates.len(), 2);
    part(&mut plan).templates[1].destination_port = 81;
    let wrong = validate(&plan, &site()).unwrap_err();
    assert_eq!(wrong.0[0].field.to_string(), "stateful.templates[1].client.instructions[1].receive.bytes");
}

/// What is warned of with a plan at a site, of its templates.
fn warned(plan: &Plan, site: &Site) -> Vec<String> {
    let warnings = validate(plan, site).unwrap().warnings;
    warnings.into_iter().filter(|warning| warning.starts_with("stateful")).collect()
}

#[test]
fn servers_that_no_flow_would_come_to_are_refused() {
    type Change = fn(&mut Stateful);
    // A second template whose server sends one byte more.
    let mut plan = good();
    let mut other = web(&mut plan).clone();
    other.name = "other".into();
    other.client = instructions(vec![send(0), receive(2001)]);
    other.server = instructions(vec![receive(5), send(2)]);
    part(&mut plan).payloads.push(Payload { content: Some(payload::Content::Size(2001)), fields: vec![] });
    part(&mut plan).templates.push(other);
    let found = |change: Change| {
        let mut plan = plan.clone();
        change(part(&mut plan));
        validate(&plan, &site()).map(|_| ()).map_err(|wrong| wrong.to_string())
    };
    let expected = "stateful.templates[1].server: no flow reaches them: those of templates[0] have the same addresses and destination \
        port, come first, and do something else; use another destination port, other servers, or match";
    let dead: [Change; 4] = [
        |_| (),
        // Some of the first one's.
        |s| {
            s.pools.push(pool([48, 0, 0, 7], [48, 0, 0, 9]));
            s.templates[1].servers[0].pool = 2;
        },
        |s| {
            s.templates.iter_mut().for_each(|t| t.r#match = vec![PayloadMatch { offset: 0, bytes: (&b"G"[..]).into() }])
        },
        // What does the same with other settings is not the same.
        |s| {
            s.templates[1].server = s.templates[0].server.clone();
            s.templates[1].client = s.templates[0].client.clone();
            s.templates[1].server_tunables = Some(Tunables { ttl: 9, ..Tunables::default() });
        },
    ];
    for (row, change) in dead.into_iter().enumerate() {
        assert_eq!(found(change), Err(expected.to_owned()), "row {row}");
    }
    let mut plan = plan.clone();
    plan.share = Some(contract::Share { index: 1, count: 2 });
    assert_eq!(validate(&plan, &site()).map_err(|wrong| wrong.to_string()).err().as_deref(), Some(expected));
    let asked: [Change; 7] = [
        |s| s.templates[1].destination_port = 81,
        |s| s.templates[1].server_port = "loop".into(),
        |s| s.templates[1].r#match = vec![PayloadMatch { offset: 0, bytes: (&b"G"[..]).into() }],
        |s| s.templates[0].r#match = vec![PayloadMatch { offset: 0, bytes: (&b"G"[..]).into() }],
        // One of its own is enough.
        |s| {
            s.pools.push(pool([48, 0, 0, 7], [48, 0, 1, 0]));
            s.templates[1].servers[0].pool = 2;
        },
        // The same, sent from another payload.
        |s| {
            s.payloads[2] = s.payloads[1].clone();
            s.templates[1].client = s.templates[0].client.clone();
        },
        // Flows of the first go on as its.
        |s| {
            s.templates[0].server = instructions(vec![receive(5), Kind::SwitchTemplate(1)]);
        },
    ];
    for (row, change) in asked.into_iter().enumerate() {
        assert_eq!(found(change), Ok(()), "row {row}");
    }
}

#[test]
fn what_waits_for_nothing_is_warned_of() {
    let mut plan = good();
    client(&mut plan, vec![send(0), receive(1500), receive(500)]);
    let expected = "stateful.templates[0].client.instructions[2].receive.bytes: waits for nothing: 1500 bytes are counted already; set \
        clear in the receives before it, or count on to 2000";
    assert_eq!(warned(&plan, &site()), [expected]);
    client(&mut plan, vec![send(0), receive(1500), receive(2000)]);
    assert_eq!(warned(&plan, &site()), [""; 0]);
}

#[test]
fn messages_that_do_not_fit_the_mtu_are_refused_or_warned_of_where_it_is_not_known() {
    let message = |payload| Kind::SendMessage(SendMessage { payload });
    let plan = |bytes, change: fn(&mut Plan)| {
        let mut plan = good();
        part(&mut plan).payloads[1].content = Some(payload::Content::Size(bytes));
        udp(&mut plan, vec![message(0), message(1)]);
        change(&mut plan);
        plan
    };
    // The MTU of 1500 without IP and UDP, and 36 of a tunnel.
    type Case = (u64, fn(&mut Plan));
    let cases: [Case; 3] = [(1472, |_| ()), (1452, over_v6), (1436, |plan| tunnel(plan, |_| ()))];
    let at = "stateful.templates[0].client.instructions[1].send_message.payload";
    for (most, change) in cases {
        assert_eq!(warned(&plan(most, change), &site()), [""; 0]);
        let wrong = validate(&plan(most + 1, change), &site()).unwrap_err().to_string();
        let expected = format!(
            "{at}: has {} bytes, of which port east takes {most} in one message, as its MTU is 1500; send less at a time, or raise the MTU",
            most + 1
        );
        assert_eq!(wrong, expected);
        let plan = plan(most + 1, change);
        let expected = format!(
            "{at}: has {} bytes, of which a port takes {most} in one message where its MTU is 1500: port east needs one of 1501",
            most + 1
        );
        assert_eq!(warned(&plan, &Site::of_plan(&plan)), [expected]);
    }
}

/// A pcap file of Ethernet frames and when they were captured.
fn pcap(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file: Vec<u8> =
        [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 65_535, 1u32].iter().flat_map(|w| w.to_le_bytes()).collect();
    for (at_ns, frame) in frames {
        let len = frame.len() as u32;
        let header = [(at_ns / 1_000_000_000) as u32, (at_ns % 1_000_000_000) as u32, len, len];
        file.extend(header.iter().flat_map(|w| w.to_le_bytes()));
        file.extend(frame);
    }
    file
}

/// IPv4 between 10.0.0.1:4000 and 10.0.0.2:53 in one direction.
fn frame(from_client: bool, protocol: u8, transport: &[u8], payload: &[u8]) -> Vec<u8> {
    let (ends, ports) = if from_client { ([1, 2], [15, 160, 0, 53]) } else { ([2, 1], [0, 53, 15, 160]) };
    let len = (24 + transport.len() + payload.len()) as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, (len >> 8) as u8, len as u8];
    frame.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, ends[0], 10, 0, 0, ends[1]]);
    [&frame[..], &ports, transport, payload].concat()
}

fn message(from_client: bool, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    frame(from_client, 17, &[(len >> 8) as u8, len as u8, 0, 0], payload)
}

/// Client's bytes from number 1, server's from 101.
fn segment(from_client: bool, flags: u8, at: u32, payload: &[u8]) -> Vec<u8> {
    let start = if from_client { 1 } else { 101 };
    let other = if from_client { 101 } else { 1 };
    let numbers =
        [(start + at).wrapping_sub(u32::from(flags & 2 != 0)).to_be_bytes(), u32::to_be_bytes(other)].concat();
    frame(from_client, 6, &[&numbers[..], &[0x50, flags, 255, 255, 0, 0, 0, 0]].concat(), payload)
}

fn captured(frames: &[(u64, Vec<u8>)]) -> Plan {
    let mut plan = good();
    let template = web(&mut plan);
    (template.client, template.server, template.protocol, template.destination_port) = (None, None, 0, 0);
    template.capture = Some(Capture { source: Some(capture::Source::Pcap(pcap(frames).into())) });
    plan
}

/// The kinds of a program, short.
fn kinds(program: Option<&Program>) -> Vec<String> {
    let short = |kind: &Kind| match kind {
        Kind::Send(send) => format!("send {}{}", send.payload, if send.wait { " wait" } else { "" }),
        Kind::Receive(receive) => format!("receive {}", receive.bytes),
        Kind::SendMessage(send) => format!("message {}", send.payload),
        Kind::ReceiveMessages(receive) => format!("messages {}", receive.messages),
        Kind::Delay(delay) => format!("delay {}", delay.min_ns),
        Kind::KeepaliveNs(ns) => format!("keepalive {ns}"),
        Kind::Connect(_) => "connect".into(),
        Kind::Accept(_) => "accept".into(),
        Kind::Reset(_) => "reset".into(),
        Kind::WaitForPeerClose(_) => "wait".into(),
        other => format!("{other:?}"),
    };
    program.unwrap().instructions.iter().map(|i| short(i.kind.as_ref().unwrap())).collect()
}

fn resolved(plan: &Plan) -> Plan {
    let resolved = session::resolve(plan, &site()).unwrap().into_owned();
    assert!(validate(&resolved, &site()).is_ok() && validate(plan, &site()).is_ok());
    // Nothing is left to resolve.
    assert!(matches!(session::resolve(&resolved, &site()), Ok(Cow::Borrowed(_))));
    resolved
}

#[test]
fn a_session_over_tcp_becomes_turns_and_an_end() {
    const FIN: u8 = 17;
    const RST: u8 = 4;
    let fin = |from_client, at| segment(from_client, FIN, at, &[]);
    let cases = [
        (vec![], vec![], vec![]),
        (vec![fin(true, 5)], vec![], vec!["wait"]),
        (vec![fin(false, 4)], vec!["wait"], vec![]),
        (vec![segment(true, RST, 5, &[])], vec!["reset"], vec!["wait"]),
        (vec![fin(false, 4), segment(true, RST, 5, &[])], vec!["wait", "reset"], vec![]),
        (vec![segment(false, RST, 4, &[])], vec!["wait"], vec!["reset"]),
    ];
    for (end, client_end, server_end) in cases {
        let frames = [
            vec![segment(true, 2, 0, &[]), segment(false, 18, 0, &[]), segment(true, 16, 0, &[])],
            vec![segment(false, 16, 0, b"hi"), segment(true, 16, 0, b"GET"), segment(true, 16, 3, b" /")],
            vec![segment(false, 16, 2, b"ok")],
            end,
        ];
        let frames: Vec<_> = frames.concat().into_iter().map(|frame| (0, frame)).collect();
        let plan = resolved(&captured(&frames));
        let part = plan.stateful.as_ref().unwrap();
        let web = &part.templates[0];
        assert_eq!((web.protocol(), web.destination_port, web.capture.is_none()), (TransportProtocol::Tcp, 53, true));
        // "GET /" was a payload already.
        let sent: Vec<_> = part.payloads.iter().map(|p| p.content.clone()).collect();
        let appended = [b"hi", b"ok"].map(|b| Some(payload::Content::Bytes(b.to_vec().into())));
        assert_eq!((sent.len(), &sent[2..]), (4, &appended[..]));
        let server_sends = if server_end == ["reset"] { "send 3 wait" } else { "send 3" };
        assert_eq!(
            kinds(web.client.as_ref()),
            [&["connect", "receive 2", "send 0", "receive 4"][..], &client_end].concat()
        );
        assert_eq!(
            kinds(web.server.as_ref()),
            [&["accept", "send 2", "receive 5", server_sends][..], &server_end].concat()
        );
    }
}

#[test]
fn a_session_over_udp_keeps_messages_and_the_times_between_those_of_one_side() {
    const US: u64 = 1000;
    const MS: u64 = 1_000_000;
    let mut at = 0;
    let mut after = |ns: u64, from_client: bool, text: &str| {
        at += ns;
        (at, message(from_client, text.as_bytes()))
    };
    let frames = [
        after(0, true, "a"),
        after(50 * US, true, "b"),
        after(51 * US, true, "c"),
        // A reply takes no time of its own.
        after(10 * MS, false, "A"),
        after(900 * MS, false, "A"),
        after(5 * MS, true, "d"),
    ];
    let plan = resolved(&captured(&frames));
    let web = &plan.stateful.as_ref().unwrap().templates[0];
    assert_eq!((web.protocol(), web.destination_port), (TransportProtocol::Udp, 53));
    let keepalive = "keepalive 1400000000";
    assert_eq!(
        kinds(web.client.as_ref()),
        [keepalive, "message 2", "message 3", "delay 51000", "message 4", "messages 2", "message 5"]
    );
    // Equal messages are one payload.
    assert_eq!(
        kinds(web.server.as_ref()),
        [keepalive, "messages 3", "message 6", "delay 700000000", "message 6", "messages 4"]
    );
}

#[test]
fn captures_that_will_not_do_are_refused_by_field() {
    let two = [(0, message(true, b"a"))];
    let refused = |plan: &Plan| session::resolve(plan, &site()).map(|_| ()).unwrap_err();
    let spoilt = |spoil: fn(&mut contract::Template)| {
        let mut plan = captured(&two);
        spoil(web(&mut plan));
        let Violations(wrong) = refused(&plan);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        (wrong[0].field.to_string(), wrong[0].description.clone())
    };
    let source = |source| Some(Capture { source });
    let cases = [
        (spoilt(|t| t.client = instructions(vec![send(0)])), "client", "cannot be combined with capture"),
        (spoilt(|t| t.protocol = TransportProtocol::Tcp.into()), "protocol", "is TRANSPORT_PROTOCOL_UDP"),
    ];
    for ((field, description), expected, words) in cases {
        assert_eq!(field, format!("stateful.templates[0].{expected}"));
        assert!(description.contains(words), "{description}");
    }
    let mut plan = captured(&two);
    web(&mut plan).capture = source(None);
    assert_eq!(refused(&plan).0[0].field.to_string(), "stateful.templates[0].capture.source");
    web(&mut plan).capture = source(Some(capture::Source::Path("/nowhere/at/all.pcap".into())));
    let Violations(wrong) = refused(&plan);
    assert_eq!(wrong[0].field.to_string(), "stateful.templates[0].capture.path");
    assert!(wrong[0].description.contains("is the volume mounted?"), "{}", wrong[0].description);
    // The site's MTU bounds messages.
    let plan = captured(&[(0, message(true, b"a")), (0, message(true, &[0; 1473]))]);
    let Violations(wrong) = refused(&plan);
    assert_eq!(wrong[0].field.to_string(), "stateful.templates[0].capture.pcap");
    assert!(wrong[0].description.starts_with("packet 2: it has 1501 bytes"), "{}", wrong[0].description);
}

/// 5 and 2,000 bytes a flow, 1,000 flows in 3 s.
#[test]
fn templates_count_towards_the_line_rate_of_their_ports_each_way() {
    let mut site = site();
    let checked = validate(&good(), &site).unwrap();
    let client = (5 + 78 + 2 * 84) * 8 * 1000 / 3;
    let server = (2000 + 2 * 78 + 2 * 84) * 8 * 1000 / 3;
    assert_eq!(checked.port_bits, [(PortIndex(0), client), (PortIndex(1), server)].into());
    assert_eq!(checked.warnings, Vec::<String>::new());
    site.ports[1].line_rate = LineRate::Known(server as u64 * 100 / 90);
    let expected = ["port west has to carry 6197333 bit/s on the medium: 90.0 % of its line rate"];
    assert_eq!(validate(&good(), &site).unwrap().warnings, expected);
    site.ports[1].line_rate = LineRate::Known(server as u64 * 100 / 89);
    assert_eq!(validate(&good(), &site).unwrap().warnings, Vec::<String>::new());
    site.ports[1].line_rate = LineRate::Unknown;
    site.ports[1].claimed_bits = 9_993_802_667; // by other runs: 10 Gbit/s in all
    let expected = [
        "port west has to carry 10000000000 bit/s on the medium: its line rate is not known, so nothing was checked against it",
    ];
    assert_eq!(validate(&good(), &site).unwrap().warnings, expected);
    site.ports[1].claimed_bits = 0;
    site.ports[1].line_rate = LineRate::Known(server as u64 - 1);
    let wrong = validate(&good(), &site).unwrap_err().0.remove(0);
    assert_eq!(wrong.field.to_string(), "stateful");
    assert!(wrong.description.starts_with("ask port west for 6197333 bit/s on the medium"), "{}", wrong.description);
    site.ports[1].line_rate = LineRate::Unknown;
    // Of two engines, this has half of the clients' flows, and 128 of 255 servers: to a millionth, rounded up.
    let mut plan = good();
    plan.share = Some(contract::Share { index: 0, count: 2 });
    let served = (2000 + 2 * 78 + 2 * 84) * 8 * 1000 * 501_961 / 3_000_000;
    assert_eq!(validate(&plan, &site).unwrap().port_bits, [(PortIndex(0), client / 2), (PortIndex(1), served)].into());
    // A single server is the first engine's.
    part(&mut plan).pools[1].last = vec![48, 0, 0, 1].into();
    assert_eq!(validate(&plan, &site).unwrap().port_bits[&PortIndex(1)], server);
    plan.share = Some(contract::Share { index: 1, count: 2 });
    assert_eq!(validate(&plan, &site).unwrap().port_bits[&PortIndex(1)], 0);
}

#[test]
fn what_is_not_known_of_the_load_of_templates_is_reported() {
    let mut plan = good();
    let jump = Jump { to: 0, variable: 0, comparison: 0, value: 0 };
    client(
        &mut plan,
        vec![send(0), receive(2000), Kind::Set(VariableValue { variable: 0, value: 0 }), Kind::Jump(jump)],
    );
    let warnings = validate(&plan, &site()).map(|checked| checked.warnings);
    let expected = "stateful.templates[0].client: it jumps, loops or switches";
    assert!(warnings.as_ref().is_ok_and(|all| all.iter().any(|one| one.starts_with(expected))), "{warnings:?}");
}

/// Of 255 clients and as many servers.
#[test]
fn engines_have_parts_of_pools_and_whole_ones_of_servers_behind_a_loopback() {
    let mut plan = good();
    plan.share = Some(contract::Share { index: 1, count: 4 });
    let shared = validate(&plan, &site()).unwrap().stateful.unwrap();
    for pool in &shared.pools {
        assert_eq!((pool.part(), pool.part_last()), (Part { index: 1, of: 4 }, 63));
    }
    let web = &shared.templates[0];
    assert_eq!((web.clients[0].pool, web.servers[0].pool), (0, 1));

    let web = &mut part(&mut plan).templates[0];
    (web.client_port, web.server_port) = ("loop".into(), "loop".into());
    let shared = validate(&plan, &site()).unwrap().stateful.unwrap();
    let web = &shared.templates[0];
    assert_eq!((web.clients[0].pool, web.servers[0].pool), (0, 2));
    assert_eq!(shared.pools[2], validate(&good(), &site()).unwrap().stateful.unwrap().pools[1]);
}

#[test]
fn a_pool_without_a_client_for_each_engine_is_refused() {
    let mut plan = good();
    plan.share = Some(contract::Share { index: 0, count: 3 });
    part(&mut plan).pools[0].last = vec![16, 0, 0, 2].into();
    let wrong = validate(&plan, &site()).unwrap_err().0.remove(0);
    assert_eq!(wrong.field.to_string(), "stateful.templates[0].clients");
    assert!(wrong.description.starts_with("pool 0 has 2 addresses for 3 engines"), "{}", wrong.description);
}

fn some(first: u32, count: u32) -> Option<contract::Engines> {
    Some(contract::Engines { first, count })
}

/// Of five engines the first two have the clients, and the others the servers, on one port that is no loopback.
fn apart() -> Plan {
    let mut plan = good();
    plan.share = Some(contract::Share { index: 0, count: 5 });
    let web = web(&mut plan);
    web.server_port = "east".into();
    (web.client_engines, web.server_engines) = (some(0, 2), some(2, 3));
    plan
}

#[test]
fn engines_have_their_sides_of_templates_and_their_parts_of_addresses() {
    for index in 0..5 {
        let mut plan = apart();
        plan.share = Some(contract::Share { index, count: 5 });
        let scenario = checked(&plan);
        let template = &scenario.templates[0];
        assert_eq!((template.client.is_some(), template.server.is_some()), (index < 2, index >= 2), "engine {index}");
        let part = |side: &[spate_stateful::WeightedPool]| side.first().map(|first| scenario.pools[first.pool].part());
        let clients = (index < 2).then_some(Part { index, of: 2 });
        assert_eq!(part(&template.clients), clients, "engine {index}");
        // Clients connect to all servers, and know in how many parts they are.
        let servers = Part { index: index.saturating_sub(2), of: 3 };
        assert_eq!(part(&template.servers), Some(servers), "engine {index}");
        assert_eq!(scenario.client_part(), clients.unwrap_or(Part::WHOLE), "engine {index}");
        assert_eq!(scenario.server_part(0), servers, "engine {index}");
    }
}

/// One-arm: a device returns frames to the port that they came from. On a loopback port nothing is in between.
#[test]
fn both_sides_may_be_on_one_port() {
    for (port, looped) in [("east", false), ("loop", true)] {
        let mut plan = good();
        let web = web(&mut plan);
        (web.client_port, web.server_port) = (port.into(), port.into());
        // The clients' tags are around frames to them only where these come from the servers themselves.
        tag(&mut plan, |_| ());
        let scenario = checked(&plan);
        assert_eq!(scenario.templates[0].looped, looped);
        assert_eq!(mss(&plan), if looped { [1452, 1452] } else { [1452, 1460] });
        plan.share = Some(contract::Share { index: 1, count: 2 });
        let shared = checked(&plan);
        let whole = shared.pools[shared.templates[0].servers[0].pool].part() == Part::WHOLE;
        assert_eq!(whole, looped, "the link of a loopback port has nobody else");
    }
}

#[test]
fn a_pool_that_several_sides_take_has_a_part_for_each() {
    let mut plan = apart();
    plan.share = Some(contract::Share { index: 3, count: 5 });
    // The servers of another template, on all engines, have the same pool.
    let mut other = web(&mut plan).clone();
    (other.name, other.destination_port) = ("other".into(), 81);
    other.server_engines = None;
    other.server_port = "west".into();
    part(&mut plan).templates.push(other);
    let scenario = checked(&plan);
    let servers = |template: usize| scenario.pools[scenario.templates[template].servers[0].pool].part();
    assert_eq!([servers(0), servers(1)], [Part { index: 1, of: 3 }, Part { index: 3, of: 5 }]);
}

/// In the union of all engines each flow of a template is started once, at its time, and no other.
#[test]
fn engines_with_clients_begin_together_what_one_would() {
    let flows = |index: u32, count: u32, worker: u64| {
        let mut plan = apart();
        plan.share = Some(contract::Share { index, count });
        if count == 1 {
            plan.share = None;
            web(&mut plan).server_port = "west".into();
        }
        let scenario = checked(&plan);
        let Some(client) = &scenario.templates[0].client else { return Vec::new() };
        let share = spate_stateful::tuples::Share::of_engine(worker, 2, scenario.client_part());
        let mut arrivals = spate_stateful::Emulation::flow_schedule(&scenario, &[client.rate], share).unwrap();
        std::iter::from_fn(|| arrivals.take(1_000_000_000)).collect()
    };
    let sorted = |mut all: Vec<spate_stateful::arrivals::DueFlow>| {
        all.sort_by_key(|arrival| arrival.number);
        all
    };
    let one = sorted((0..2).flat_map(|worker| flows(0, 1, worker)).collect());
    assert_eq!(one.len(), 334, "1000 / 3 a second, the first at once");
    let all: Vec<_> = (0..5).flat_map(|index| (0..2).flat_map(move |worker| flows(index, 5, worker))).collect();
    assert_eq!(sorted(all), one);
}

#[test]
fn engines_of_templates_that_cannot_be_are_refused() {
    type Case = (fn(&mut Plan), &'static str, &'static str);
    let cases: [Case; 4] = [
        (|p| web(p).client_engines = some(0, 0), "client_engines.count", "must be at least 1"),
        (|p| web(p).server_engines = some(3, 3), "server_engines", "engines from 3 to 5; there are 5, from 0 on"),
        (|p| web(p).server_port.clear(), "server_engines", "is for emulated servers, and there are none"),
        (|p| alone(p, vec![send(0), receive(2000)]), "server_engines", "is for emulated servers, and there are none"),
    ];
    for (change, field, words) in cases {
        let mut plan = apart();
        change(&mut plan);
        let wrong = validate(&plan, &site()).unwrap_err();
        let field = format!("stateful.templates[0].{field}");
        let found = wrong.0.iter().any(|one| one.field.to_string() == field && one.description.contains(words));
        assert!(found, "{field}: {words}: {wrong}");
    }
    let mut plan = apart();
    let mut other = web(&mut plan).clone();
    (other.name, other.destination_port, other.client_engines) = ("other".into(), 81, some(1, 1));
    part(&mut plan).templates.push(other);
    let wrong = validate(&plan, &site()).unwrap_err().to_string();
    assert!(wrong.contains("stateful.templates[1].client_engines: has engines of stateful.templates[0]"), "{wrong}");
}

fn next_of(templates: &[u32]) -> Kind {
    Kind::NextTemplates(NextTemplates { templates: templates.to_vec() })
}

fn open(template: Option<u32>) -> Kind {
    Kind::OpenConnection(OpenConnection { template })
}

/// A plan whose first template's program opens two connections of a second one, which has no rate.
fn opening() -> Plan {
    let mut plan = good();
    let other = contract::Template {
        name: "other".into(),
        destination_port: 81,
        flows_per_second: None,
        ..web(&mut plan).clone()
    };
    part(&mut plan).templates.push(other);
    client(&mut plan, vec![open(Some(1)), send(0), receive(2000), open(Some(1))]);
    plan
}

#[test]
fn templates_that_programs_open_need_no_rate() {
    let scenario = checked(&opening());
    let rates: Vec<_> = scenario.templates.iter().map(|template| template.client.as_ref().unwrap().rate).collect();
    assert_eq!(rates, [Ratio::new(1000, 3), Ratio::ZERO]);
    assert_eq!(scenario.opened().collect::<Vec<_>>(), [1, 1]);
    // A rate of its own is no harm.
    let mut plan = opening();
    part(&mut plan).templates[1].flows_per_second = Some(contract::Ratio { numerator: 5, denominator: 1 });
    part(&mut plan).templates[1].limit = 9;
    assert_eq!(checked(&plan).templates[1].client.as_ref().unwrap().rate, Ratio::new(5, 1));
}

#[test]
fn templates_that_are_named_together_need_no_rate() {
    let mut plan = opening();
    let third =
        contract::Template { name: "third".into(), destination_port: 82, ..part(&mut plan).templates[1].clone() };
    part(&mut plan).templates.push(third);
    client(&mut plan, vec![next_of(&[1, 2]), open(None), send(0), receive(2000)]);
    let scenario = checked(&plan);
    assert_eq!(scenario.opened().collect::<Vec<_>>(), [1, 2]);
    let rates: Vec<_> = scenario.templates.iter().map(|template| template.client.as_ref().unwrap().rate).collect();
    assert_eq!(rates, [Ratio::new(1000, 3), Ratio::ZERO, Ratio::ZERO]);
}

#[test]
fn templates_that_programs_open_have_their_clients() {
    type Change = fn(&mut Stateful);
    let cases: [(Change, &str, &str); 6] = [
        (|s| s.templates[1].most_open = 3, "[1].most_open", "limit the templates that open them"),
        (|s| s.templates[1].limit = 3, "[1].limit", "is of flows that begin at a rate, and there is none"),
        (
            |s| {
                s.pools.push(pool([17, 0, 0, 1], [17, 0, 0, 9]));
                s.templates[1].clients[0].pool = 2;
            },
            "[0].client.instructions[0].open_connection.template",
            "opened from addresses of pool 0, which is none of its clients; add it there",
        ),
        (
            |s| s.templates[1].client_port = "west".into(),
            "[0].client.instructions[0].open_connection.template",
            "are opened on east, and its clients are on west; use one port",
        ),
        (
            |s| {
                s.templates[1].client_port.clear();
                s.templates[1].client = None;
                s.templates[1].clients.clear();
            },
            "[0].client.instructions[0].open_connection.template",
            "no template 1 with a program of clients",
        ),
        (
            |s| {
                s.templates[1].client = instructions(vec![send(0), receive(2000), Kind::NextTemplate(0)]);
                s.templates[0].client = instructions(vec![send(0), receive(2000), open(Some(1)), open(None)]);
            },
            "[0].client.instructions[3].open_connection.template",
            "connections of template 0 open connections of this template again",
        ),
    ];
    for (change, field, words) in cases {
        let mut plan = opening();
        change(part(&mut plan));
        let wrong = validate(&plan, &site()).map(|_| ()).unwrap_err().0.remove(0);
        assert_eq!(wrong.field.to_string(), format!("stateful.templates{field}"), "{}", wrong.description);
        assert!(wrong.description.contains(words), "{}", wrong.description);
    }
}

#[test]
fn connections_that_a_program_opens_count_with_its_flows() {
    let asks = |plan: &Plan| super::super::flows::demands(&checked(plan)).0;
    let bits = |plan: &Plan, port| {
        let of_port = asks(plan).into_iter().filter(|ask| ask.port == port);
        of_port.map(|ask| ask.bits_per_second()).sum::<u128>()
    };
    let mut plan = good();
    let one = [0, 1].map(|port| bits(&plan, PortIndex(port)));
    client(&mut plan, vec![send(0), receive(2000)]);
    let of_opening = [0, 1].map(|port| bits(&opening(), PortIndex(port)));
    // Each flow asks for three times as much: itself, and two like it.
    for (one, three) in one.into_iter().zip(of_opening) {
        assert!(three.abs_diff(3 * one) <= 3, "{three} bit/s, and {one} of one");
    }
    assert!(
        asks(&opening()).iter().all(|ask| ask.template == TemplateIndex(0)),
        "they follow the rate of what opens them"
    );
}
