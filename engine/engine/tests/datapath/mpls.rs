// SPDX-License-Identifier: Apache-2.0
//! Clients in MPLS, on a port that gives back what it takes, where their servers are behind the label switching router, and towards a
//! router on a packet socket: every packet has its client's labels there and back.
use std::thread;
use std::time::{Duration, Instant};

use spate_engine::datapath::{PollMode, RunState};
use spate_net::{
    ethernet::Link,
    ip::Fixed,
    mpls::Entry,
    vlan::{SERVICE, Tag, Tags},
};
use spate_stateful::{
    Count, Protocol, Scenario,
    envelope::Access,
    mpls::Mpls,
    tunnel::{Kind, TunnelDirection, Tunnels},
};

use crate::answers::{all, one_side, resolved};
use crate::gtpu::{header, words};
use crate::kernel::run_inside;
use crate::packet_socket::{BATCH, PacketSocket, ROOM};
use crate::setup::{start, turn, wait_for};
use crate::slow::{east, link, mac_bytes, mac_of};
use crate::stateful::{a_thousand_flows_pass, beside_forged, keep_only, loopback, over_v4, scenario, v4, v6};

/// Above the bottom: label 100, traffic class 5, TTL 64.
const OUTER: [u8; 4] = [0, 6, 0x4a, 64];

/// An entry at the bottom: its label, traffic class 1, TTL 255.
fn bottom(label: u32) -> u32 {
    label << 12 | 0x3ff
}

/// Client n sends with the label 1000 + n below 100, and 2000 + n is for it; or none, if the last one is popped.
fn tunnels(popped: bool) -> Tunnels {
    let above = [Entry { label: 100, traffic_class: 5, ttl: 64 }];
    Tunnels {
        local: v4(172, 16, 0, 10),
        local_count: 4,
        remote: v4(172, 16, 0, 1),
        uplink: bottom(1000),
        downlink: bottom(if popped { 3 } else { 2000 }),
        step: 1 << 12,
        mirror: true,
        kind: Kind::Mpls(Mpls::new(&above, popped).unwrap()),
    }
}

fn through(tunnels: Tunnels, mut scenario: Scenario) -> Scenario {
    scenario.pools[0].tunnels = Some(tunnels);
    scenario
}

const COUNTS: [Count; 2] = [Count::MplsUnknownTunnel, Count::MplsMalformed];

fn complete(workers: usize, popped: bool, scenario: Scenario) {
    let _turn = turn();
    let datapath = loopback(workers, PollMode::Busy);
    let (pool, mac) = (scenario.pools[0].clone(), datapath.ports()[0].mac);
    let tags = pool.access.tags.unwrap_or_default();
    // Only what is right may pass.
    let right = move |frame: &[u8]| {
        let link = Link::find(frame).unwrap();
        let (labels, packet) = match link.ethertype {
            0x8847 => frame[link.end..].split_at(8),
            _ => frame[link.end..].split_at(0),
        };
        let of = Fixed::read(packet).unwrap();
        let expected = match (pool.contains(of.source), pool.contains(of.destination)) {
            (Some(client), _) => [OUTER, bottom(1000 + client as u32).to_be_bytes()].concat(),
            (None, Some(_)) if popped => Vec::new(),
            (None, Some(client)) => [OUTER, bottom(2000 + client as u32).to_be_bytes()].concat(),
            (None, None) => return false,
        };
        Tags::of(frame) == Some(tags) && frame[..12] == [mac, mac].concat() && labels == expected
    };
    keep_only(&datapath, right);
    a_thousand_flows_pass(&datapath, scenario, COUNTS);
}

#[test]
fn a_thousand_connections_in_labels_complete_with_one_worker_and_with_two() {
    complete(1, false, through(tunnels(false), over_v4(Protocol::Tcp, 1000)));
    complete(2, false, through(tunnels(false), over_v4(Protocol::Udp, 1000)));
}

#[test]
fn connections_to_clients_without_labels_complete() {
    complete(2, true, through(tunnels(true), over_v4(Protocol::Tcp, 1000)));
}

#[test]
fn connections_over_ipv6_in_labels_in_qinq_on_a_link_of_ipv4_complete() {
    let over_v6 = scenario(Protocol::Tcp, 1000, [v6(1, 1), v6(1, 0xff)], [v6(2, 1), v6(2, 0x20)]);
    let mut all = through(tunnels(false), over_v6);
    let tags = Tags::new(&[Tag { ethertype: SERVICE, vlan: 200 }, Tag::customer(7)]);
    all.pools[0].access = Access { tags, gateway: Some(v4(172, 16, 0, 254)), mirror: false };
    complete(2, false, all);
}

/// A packet for the first client behind an EtherType and a label stack; its header says that it has this many bytes.
fn message(ethertype: [u8; 2], labels: &[u32], len: usize) -> Vec<u8> {
    let labels = labels.iter().flat_map(|entry| entry.to_be_bytes()).collect();
    let packet = [header(17, len, [48, 0, 0, 1], [16, 0, 0, 1]), words(&[80, 5, 40, 0]), vec![0; 32]].concat();
    [vec![0; 12], ethertype.to_vec(), labels, packet].concat()
}

#[test]
fn packets_with_a_wrong_label_and_broken_ones_are_counted_beside_flows_that_complete() {
    let _turn = turn();
    const MPLS: [u8; 2] = [0x88, 0x47];
    // The class and the TTL of a label may be any, as may the labels above it.
    let other = 2000 << 12 | 0x0100 | 7;
    for (ethertype, labels, len, counts) in [
        (MPLS, &[bottom(2000)][..], 60, [0, 0]),
        (MPLS, &[77 << 12, 78 << 12, other], 60, [0, 0]),
        (MPLS, &[bottom(2001)], 60, [50, 0]),
        (MPLS, &[bottom(1000)], 60, [50, 0]),
        // Without labels.
        ([8, 0], &[], 60, [50, 0]),
        (MPLS, &[bottom(2000)], 400, [0, 50]),
    ] {
        let counted = beside_forged(
            through(tunnels(false), over_v4(Protocol::Udp, 200)),
            message(ethertype, labels, len),
            COUNTS,
        );
        assert_eq!(counted, (counts, 0), "{labels:x?} {len}");
    }
}

/// A label switching router by the RFC's text alone: it takes the labels of clients off, and puts one on for those that `labels` says.
/// Servers are behind it: they give messages back, for which it is enough to swap addresses and ports.
fn serve(socket: &PacketSocket, messages: usize, labels: fn(u32) -> Option<u32>) {
    let (mut rooms, mut lengths) = (Box::new([[0; ROOM]; BATCH]), [0; BATCH]);
    let (until, own, mut served) = (Instant::now() + Duration::from_secs(10), mac_bytes(&mac_of("sp1")), 0);
    while served < messages {
        assert!(Instant::now() < until, "{served} messages within ten seconds");
        let taken = socket.receive(&mut rooms, &mut lengths).unwrap();
        for (room, len) in rooms.iter().zip(&lengths[..taken]) {
            let frame = &room[..*len];
            if frame[12..14] != [0x88, 0x47] {
                continue;
            }
            // Ethernet, two labels, IPv4, UDP.
            let mut packet = frame[22..].to_vec();
            let n = u32::from_be_bytes(packet[12..16].try_into().unwrap()) - 0x1000_0001;
            assert_eq!((&frame[14..18], &frame[18..22]), (&OUTER[..], &bottom(1000 + n).to_be_bytes()[..]));
            assert_eq!(frame[..6], own);
            for (a, b, len) in [(12, 16, 4), (20, 22, 2)] {
                let (front, back) = packet.split_at_mut(b);
                front[a..a + len].swap_with_slice(&mut back[..len]);
            }
            let behind = match labels(n) {
                Some(label) => [&[0x88, 0x47][..], &(label << 12 | 0x01fd).to_be_bytes()].concat(),
                None => vec![8, 0],
            };
            let answer = [&frame[6..12], &frame[..6], &behind, &packet].concat();
            assert_eq!(socket.send(&[answer]).unwrap(), 1);
            served += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_label_switching_router_on_a_packet_socket_serves_clients() {
    run_inside("mpls::inside_router", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_router() {
    all(&["ip address add 10.9.0.2/16 dev sp1"]);
    let datapath = east(link(&["10.9.0.1/16"], None));
    let socket = PacketSocket::open("sp1").unwrap();
    for (popped, labels) in [(false, (|n| Some(2000 + n)) as fn(u32) -> Option<u32>), (true, |_| None)] {
        let tunnels = Tunnels { local: v4(10, 9, 1, 10), remote: v4(10, 9, 0, 2), mirror: false, ..tunnels(popped) };
        let mut clients = through(tunnels, one_side(over_v4(Protocol::Udp, 200), true));
        clients.templates[0].latency = false;
        let run = start(&datapath, resolved(&datapath, clients));
        serve(&socket, 100, labels);
        wait_for(&run, RunState::Complete, 10);
        let client = &run.template_counters()[0];
        let counts =
            [Count::FlowsAttempted, Count::MessagesReceived, Count::FlowsClosed].map(|count| client.get(count));
        assert_eq!((counts, COUNTS.map(|count| client.get(count))), ([100; 3], [0; 2]));
        assert_eq!(
            [TunnelDirection::Up, TunnelDirection::Down].map(|way| tunnels.encap(way).overhead()),
            [8, if popped { 0 } else { 8 }]
        );
        run.remove();
    }
}
