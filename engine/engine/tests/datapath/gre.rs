// SPDX-License-Identifier: Apache-2.0
//! Clients in GRE, on a port that gives back what it takes, where their servers are behind the remote end, and towards a remote end on a
//! packet socket: every packet passes through its client's tunnel there and back.
use std::thread;
use std::time::{Duration, Instant};

use spate_engine::datapath::{PollMode, RunState};
use spate_net::{
    Headers,
    ip::Version,
    oracle::Inner,
    vlan::{SERVICE, Tag, Tags},
};
use spate_stateful::{
    Count, Protocol, Scenario,
    envelope::Access,
    gre::Gre,
    tunnel::{Kind, TunnelDirection, Tunnels},
};

use crate::answers::{all, one_side, resolved};
use crate::gtpu::{header, words};
use crate::kernel::run_inside;
use crate::packet_socket::{BATCH, PacketSocket, ROOM};
use crate::setup::{start, turn, wait_for};
use crate::slow::{east, link};
use crate::stateful::{a_thousand_flows_pass, beside_forged, keep_only, loopback, over_v4, scenario, v4, v6};

/// Client n has the key 0x100 + n.
fn tunnels() -> Tunnels {
    Tunnels {
        local: v4(172, 16, 0, 10),
        local_count: 4,
        remote: v4(172, 16, 0, 1),
        uplink: 0x100,
        downlink: 0x100,
        step: 1,
        mirror: true,
        kind: Kind::Gre(Gre { keyed: true }),
    }
}

/// The same without keys.
fn without_keys(tunnels: Tunnels) -> Tunnels {
    Tunnels { uplink: 0, downlink: 0, step: 0, kind: Kind::Gre(Gre { keyed: false }), ..tunnels }
}

fn through(tunnels: Tunnels, mut scenario: Scenario) -> Scenario {
    scenario.pools[0].tunnels = Some(tunnels);
    scenario
}

const COUNTS: [Count; 3] = [Count::GreUnknownTunnel, Count::GreMalformed, Count::GreOthers];

fn complete(workers: usize, scenario: Scenario) {
    let _turn = turn();
    let datapath = loopback(workers, PollMode::Busy);
    let (pool, mac) = (scenario.pools[0].clone(), datapath.ports()[0].mac);
    let (tags, tunnels) = (pool.access.tags.unwrap_or_default(), pool.tunnels.unwrap());
    let keyed = tunnels.kind == Kind::Gre(Gre { keyed: true });
    // Only what is right may pass.
    let right = move |frame: &[u8]| {
        let headers = Headers::find(frame).unwrap();
        let (protocol, at) = headers.transport.unwrap();
        let inner = Inner::of(&headers, frame).unwrap();
        let (of, packet) = (inner.headers, inner.frame(frame));
        let gre = &frame[at..inner.start + of.at];
        let (client, up) = match pool.contains(of.source(packet)) {
            Some(client) => (client, true),
            None => (pool.contains(of.destination(packet)).unwrap(), false),
        };
        let near = tunnels.near_end(client);
        let ends = if up { (near, tunnels.remote) } else { (tunnels.remote, near) };
        let named: [u8; 2] = if of.version == Version::V6 { [0x86, 0xdd] } else { [8, 0] };
        let expected = match keyed {
            true => [&[0x20, 0][..], &named, &(0x100 + client as u32).to_be_bytes()].concat(),
            false => [&[0, 0][..], &named].concat(),
        };
        Tags::of(frame) == Some(tags)
            && frame[..12] == [mac, mac].concat()
            && protocol == 47
            && (headers.source(frame), headers.destination(frame)) == ends
            && gre == expected
            && inner.start + of.packet_end(packet) == headers.packet_end(frame)
    };
    keep_only(&datapath, right);
    a_thousand_flows_pass(&datapath, scenario, COUNTS);
}

#[test]
fn a_thousand_connections_in_gre_complete_with_one_worker_and_with_two() {
    complete(1, through(tunnels(), over_v4(Protocol::Tcp, 1000)));
    complete(2, through(without_keys(tunnels()), over_v4(Protocol::Udp, 1000)));
}

#[test]
fn connections_over_ipv6_in_gre_over_ipv4_and_over_ipv6_in_qinq_complete() {
    let over_v6 = |protocol| scenario(protocol, 1000, [v6(1, 1), v6(1, 0xff)], [v6(2, 1), v6(2, 0x20)]);
    complete(1, through(tunnels(), over_v6(Protocol::Udp)));
    let outside = Tunnels { local: v6(7, 10), remote: v6(7, 1), ..without_keys(tunnels()) };
    let mut all = through(outside, over_v6(Protocol::Tcp));
    let tags = Tags::new(&[Tag { ethertype: SERVICE, vlan: 200 }, Tag::customer(7)]);
    all.pools[0].access = Access { tags, gateway: Some(v6(7, 0xff)), mirror: false };
    complete(2, all);
}

/// A packet for the first client from the remote end, behind this header of GRE.
fn message(gre: &[u8]) -> Vec<u8> {
    let inner = [header(17, 40, [48, 0, 0, 1], [16, 0, 0, 1]), words(&[80, 5, 20, 0]), vec![0; 12]].concat();
    let outside = header(47, 20 + gre.len() + inner.len(), [172, 16, 0, 1], [172, 16, 0, 10]);
    [vec![0; 12], vec![8, 0], outside, gre.to_vec(), inner].concat()
}

#[test]
fn packets_in_a_wrong_tunnel_and_broken_or_other_ones_are_counted_beside_flows_that_complete() {
    let _turn = turn();
    let (keyed, unkeyed) = (tunnels(), without_keys(tunnels()));
    for (tunnels, gre, counts) in [
        (keyed, &[0x20, 0, 8, 0, 0, 0, 1, 0][..], [0, 0, 0]),
        // With a sequence number.
        (keyed, &[0x30, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 9], [0, 0, 0]),
        (keyed, &[0x20, 0, 8, 0, 0, 0, 1, 1], [50, 0, 0]),
        (keyed, &[0, 0, 8, 0], [50, 0, 0]),
        (unkeyed, &[0x20, 0, 8, 0, 0, 0, 0, 0], [50, 0, 0]),
        // Of PPTP.
        (keyed, &[0x20, 1, 8, 0, 0, 0, 1, 0], [0, 50, 0]),
        (keyed, &[0x20, 0, 0x86, 0xdd, 0, 0, 1, 0], [0, 50, 0]),
        // Ethernet.
        (keyed, &[0x20, 0, 0x65, 0x58, 0, 0, 1, 0], [0, 0, 50]),
    ] {
        let counted = beside_forged(through(tunnels, over_v4(Protocol::Udp, 200)), message(gre), COUNTS);
        assert_eq!(counted, (counts, 0), "{gre:x?}");
    }
}

/// A remote end by the RFC's text alone. Servers are behind it: they give messages back, for which it is enough to swap addresses and
/// ports.
fn serve(socket: &PacketSocket, near_ends: [[u8; 4]; 4], messages: usize) {
    let (mut rooms, mut lengths) = (Box::new([[0; ROOM]; BATCH]), [0; BATCH]);
    let (until, mut served) = (Instant::now() + Duration::from_secs(10), 0);
    while served < messages {
        assert!(Instant::now() < until, "{served} messages within ten seconds");
        let taken = socket.receive(&mut rooms, &mut lengths).unwrap();
        for (room, len) in rooms.iter().zip(&lengths[..taken]) {
            let mut frame = room[..*len].to_vec();
            if frame[12..14] != [8, 0] || frame[23] != 47 {
                continue;
            }
            // Ethernet, an IPv4 header that must not be fragmented, GRE with a key, IPv4, UDP.
            let n = u32::from_be_bytes(frame[54..58].try_into().unwrap()) - 0x1000_0001;
            assert_eq!((frame[14], frame[20], frame[22]), (0x45, 0x40, 64));
            assert_eq!((&frame[26..30], &frame[30..34]), (&near_ends[n as usize % 4][..], &[10, 9, 0, 2][..]));
            assert_eq!((&frame[34..38], &frame[38..42]), (&[0x20, 0, 8, 0][..], &(0x100 + n).to_be_bytes()[..]));
            for (a, b, len) in [(0, 6, 6), (26, 30, 4), (54, 58, 4), (62, 64, 2)] {
                let (front, back) = frame.split_at_mut(b);
                front[a..a + len].swap_with_slice(&mut back[..len]);
            }
            assert_eq!(socket.send(&[frame]).unwrap(), 1);
            served += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_remote_end_on_a_packet_socket_serves_clients() {
    run_inside("gre::inside_remote_end", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_remote_end() {
    all(&["ip address add 10.9.0.2/16 dev sp1"]);
    let datapath = east(link(&["10.9.0.1/16"], None));
    let socket = PacketSocket::open("sp1").unwrap();
    let tunnels = Tunnels { local: v4(10, 9, 1, 10), remote: v4(10, 9, 0, 2), mirror: false, ..tunnels() };
    let mut clients = through(tunnels, one_side(over_v4(Protocol::Udp, 200), true));
    clients.templates[0].latency = false;
    let run = start(&datapath, resolved(&datapath, clients));
    serve(&socket, [10, 11, 12, 13].map(|last| [10, 9, 1, last]), 100);
    wait_for(&run, RunState::Complete, 10);
    let client = &run.template_counters()[0];
    let counts = [Count::FlowsAttempted, Count::MessagesReceived, Count::FlowsClosed].map(|count| client.get(count));
    assert_eq!((counts, COUNTS.map(|count| client.get(count))), ([100; 3], [0; 3]));
    assert_eq!(tunnels.encap(TunnelDirection::Up).overhead(), 28);
}
