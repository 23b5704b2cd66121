// SPDX-License-Identifier: Apache-2.0
//! Clients in VXLAN, on a port that gives back what it takes, where their servers are behind the remote VTEP, and towards a VTEP on the
//! kernel's UDP: every frame passes through its client's tunnel there and back.
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use spate_engine::datapath::{PollMode, RunState};
use spate_net::{
    Headers,
    oracle::{Inner, Tunnel},
    vlan::{SERVICE, Tag, Tags},
};
use spate_stateful::{
    Count, Protocol, Scenario,
    envelope::Access,
    tunnel::{Kind, TunnelDirection, Tunnels},
    vxlan::Vxlan,
};

use crate::answers::{all, one_side, resolved};
use crate::gtpu::{header, words};
use crate::kernel::run_inside;
use crate::setup::{start, turn, wait_for};
use crate::slow::{east, link, mac_bytes, mac_of};
use crate::stateful::{a_thousand_flows_pass, beside_forged, keep_only, loopback, over_v4, scenario, v4, v6};

/// Client n has the VNI 0x100 + n, and in tunnels the MAC 02:09:00:00:00:00 + n.
fn through(tunnels: Tunnels, mut scenario: Scenario) -> Scenario {
    scenario.pools[0].tunnels = Some(tunnels);
    scenario.pools[0].first_mac = Some([2, 9, 0, 0, 0, 0]);
    scenario
}

fn tunnels() -> Tunnels {
    Tunnels {
        local: v4(172, 16, 0, 10),
        local_count: 4,
        remote: v4(172, 16, 0, 1),
        uplink: 0x100 << 8,
        downlink: 0x100 << 8,
        step: 1 << 8,
        mirror: true,
        kind: Kind::Vxlan(Vxlan::default()),
    }
}

/// The VNI of a frame in VXLAN, and the frame within.
fn within(frame: &[u8]) -> (u32, &[u8]) {
    let headers = Headers::find(frame).unwrap();
    let (_, at) = headers.transport.unwrap();
    assert_eq!(frame[at + 8..at + 12], [8, 0, 0, 0]);
    assert!(u16::from_be_bytes([frame[at], frame[at + 1]]) >= 49_152, "source ports are dynamic ones");
    assert_eq!(frame[at + 15], 0, "reserved bits");
    let inner = Inner::of(&headers, frame).unwrap();
    let Tunnel::Vxlan { vni } = inner.tunnel else { panic!("{inner:?}") };
    (vni, inner.frame(frame))
}

fn complete(workers: usize, scenario: Scenario) {
    let _turn = turn();
    let datapath = loopback(workers, PollMode::Busy);
    let (pool, mac) = (scenario.pools[0].clone(), datapath.ports()[0].mac);
    let tags = pool.access.tags.unwrap_or_default();
    // Only what is right may pass.
    let right = move |frame: &[u8]| {
        let (vni, inner) = within(frame);
        let headers = Headers::find(inner).unwrap();
        let (source, destination) = (headers.source(inner), headers.destination(inner));
        let (client, up) = match pool.contains(source) {
            Some(client) => (client, true),
            None => (pool.contains(destination).unwrap(), false),
        };
        let of_client = pool.mac(client).unwrap();
        let [to, from] = if up { [mac, of_client] } else { [of_client, mac] };
        Tags::of(frame) == Some(tags)
            && frame[..12] == [mac, mac].concat()
            && inner[..12] == [to, from].concat()
            && vni == 0x100 + client as u32
    };
    keep_only(&datapath, right);
    a_thousand_flows_pass(&datapath, scenario, [Count::VxlanUnknownTunnel, Count::VxlanMalformed, Count::VxlanOthers]);
}

#[test]
fn a_thousand_connections_in_vxlan_complete_with_one_worker_and_with_two() {
    complete(1, through(tunnels(), over_v4(Protocol::Tcp, 1000)));
    complete(2, through(tunnels(), over_v4(Protocol::Udp, 1000)));
}

#[test]
fn connections_over_ipv6_in_vxlan_over_ipv6_in_qinq_complete() {
    let over_v6 = |protocol| scenario(protocol, 1000, [v6(1, 1), v6(1, 0xff)], [v6(2, 1), v6(2, 0x20)]);
    let outside = Tunnels { local: v6(7, 10), remote: v6(7, 1), ..tunnels() };
    let mut all = through(outside, over_v6(Protocol::Tcp));
    let tags = Tags::new(&[Tag { ethertype: SERVICE, vlan: 200 }, Tag::customer(7)]);
    all.pools[0].access = Access { tags, gateway: Some(v6(7, 0xff)), mirror: false };
    complete(2, all);
}

/// A datagram of VXLAN for the first client from the remote VTEP, with a frame of this EtherType.
fn message(flags: u8, vni: u32, ethertype: u16) -> Vec<u8> {
    let packet = [header(17, 40, [48, 0, 0, 1], [16, 0, 0, 1]), words(&[80, 5, 20, 0]), vec![0; 12]].concat();
    let inner = [&[2, 9, 0, 0, 0, 0, 2, 0, 0, 0, 0, 7][..], &ethertype.to_be_bytes(), &packet].concat();
    let vxlan = [&[flags, 0, 0, 0], &(vni << 8).to_be_bytes()[..], &inner].concat();
    let outside = header(17, 28 + vxlan.len(), [172, 16, 0, 1], [172, 16, 0, 10]);
    [vec![0; 12], vec![8, 0], outside, words(&[5000, 4789, 8 + vxlan.len() as u16, 0]), vxlan].concat()
}

#[test]
fn frames_in_a_wrong_tunnel_and_broken_or_other_ones_are_counted_beside_flows_that_complete() {
    let _turn = turn();
    for (flags, vni, ethertype, counts) in [
        (8, 0x100, 0x800, [0, 0, 0]),
        (8, 0x101, 0x800, [50, 0, 0]),
        (0, 0x100, 0x800, [0, 50, 0]),
        (8, 0x100, 0x806, [0, 0, 50]),
    ] {
        let counted = beside_forged(
            through(tunnels(), over_v4(Protocol::Udp, 200)),
            message(flags, vni, ethertype),
            [Count::VxlanUnknownTunnel, Count::VxlanMalformed, Count::VxlanOthers],
        );
        assert_eq!(counted, (counts, 0), "{flags} {vni:x} {ethertype:x}");
    }
}

const GATEWAY: [u8; 6] = [2, 7, 7, 7, 7, 7];

/// A VTEP on the kernel's UDP. Servers are behind it: they give messages back, for which it is enough to swap MACs, addresses and ports.
fn serve(socket: &UdpSocket, vteps: [IpAddr; 4], messages: u32) {
    let mut buffer = [0; 2048];
    for _ in 0..messages {
        let (len, from) = socket.recv_from(&mut buffer).expect("a message within ten seconds");
        let message = &mut buffer[..len];
        let n = u32::from_be_bytes(message[34..38].try_into().unwrap()) - 0x1000_0001;
        assert_eq!((&message[..4], &message[4..8]), (&[8, 0, 0, 0][..], &((0x100 + n) << 8).to_be_bytes()[..]));
        assert_eq!(from.ip(), vteps[n as usize % 4]);
        assert_eq!((&message[8..14], &message[14..20]), (&GATEWAY[..], &[2, 9, 0, 0, 0, n as u8][..]));
        let inner = &mut message[8..];
        for (a, b, len) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
            let (front, back) = inner.split_at_mut(b);
            front[a..a + len].swap_with_slice(&mut back[..len]);
        }
        socket.send_to(message, SocketAddr::new(from.ip(), 4789)).unwrap();
    }
}

#[test]
fn a_vtep_on_the_kernels_udp_serves_clients() {
    run_inside("vxlan::inside_vtep", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_vtep() {
    all(&["ip address add 10.9.0.2/16 dev sp1", "ethtool -K sp1 tx off"]);
    let datapath = east(link(&["10.9.0.1/16"], None));
    let vteps = [10, 11, 12, 13].map(|last| IpAddr::from([10, 9, 1, last]));
    let socket = UdpSocket::bind("10.9.0.2:4789").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let kind = Kind::Vxlan(Vxlan { gateway_mac: Some(GATEWAY) });
    let tunnels = Tunnels { local: v4(10, 9, 1, 10), remote: v4(10, 9, 0, 2), mirror: false, kind, ..tunnels() };
    let mut clients = through(tunnels, one_side(over_v4(Protocol::Udp, 200), true));
    clients.templates[0].latency = false;
    let spec = resolved(&datapath, clients);
    assert_eq!(spec.stateful.as_ref().unwrap().links[0].next_hop, mac_bytes(&mac_of("sp1")));
    let run = start(&datapath, spec);
    thread::scope(|scope| scope.spawn(|| serve(&socket, vteps, 100)).join().unwrap());
    wait_for(&run, RunState::Complete, 10);
    let client = &run.template_counters()[0];
    let counts = [Count::FlowsAttempted, Count::MessagesReceived, Count::FlowsClosed, Count::VxlanUnknownTunnel];
    assert_eq!(counts.map(|count| client.get(count)), [100, 100, 100, 0]);
    assert_eq!(tunnels.encap(TunnelDirection::Up).overhead(), 50);
}
