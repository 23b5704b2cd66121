// SPDX-License-Identifier: Apache-2.0
//! Pools of multicast addresses: frames to a group go to the MAC of the group, whatever sends them, and are taken in; without
//! permission a group is neither a source nor a destination.
mod net;

use net::{MS, Net, Path, SERVER_PORT, START, request_response, scenario};
use spate_stateful::{
    Address, Count, OffloadRequest, Pool, Protocol, Received, Scenario, Stack,
    packet::{Endpoints, LowerHeaders, Options, SegmentHeader, TCP_HEADER, flag},
    pool::Order,
};
use std::{net::IpAddr, sync::Arc};

fn address(text: &str) -> Address {
    text.parse::<IpAddr>().unwrap().into()
}

/// Clients and servers in two ranges of multicast addresses.
fn of_groups(protocol: Protocol, clients: [&str; 2], servers: [&str; 2]) -> Scenario {
    let (client, server, payloads) = request_response(300, 3000);
    let mut of = scenario(protocol, client, server, payloads);
    of.pools = [clients, servers]
        .map(|[first, last]| {
            let mut pool = Pool::new(address(first), address(last), Order::Sequential).unwrap();
            pool.allow_multicast = true;
            pool
        })
        .into();
    for tunables in of.templates.iter_mut().flat_map(|template| {
        let (client, server) = (template.client.as_mut(), template.server.as_mut());
        client.map(|client| &mut client.tunables).into_iter().chain(server.map(|server| &mut server.tunables))
    }) {
        tunables.mss = 1440;
    }
    of
}

#[test]
fn flows_between_groups_complete_and_frames_go_to_the_macs_of_groups() {
    // TRex's default prefix, and groups of IPv4, whose MACs have the lower 23 bits.
    for (clients, servers, prefix) in [
        (["ff02::16.0.0.1", "ff02::16.0.0.100"], ["ff02::48.0.0.1", "ff02::48.0.0.100"], [0x33, 0x33]),
        (["224.1.0.1", "224.1.0.100"], ["239.129.2.1", "239.129.2.100"], [0x01, 0x00]),
    ] {
        let mut net = Net::new(of_groups(Protocol::Tcp, clients, servers), Path::default());
        net.record = true;
        for _ in 0..20 {
            net.open(0);
        }
        net.run_for(1000 * MS);
        assert_eq!(
            (net.count(true, Count::FlowsClosed), net.count(false, Count::FlowsClosed)),
            (20, 20),
            "{}",
            net.summary()
        );
        assert_eq!(net.count(true, Count::ReceivedDataBytes), 20 * 3000);
        for (_, _, frame) in &net.sent {
            let lower = if prefix == [0x33, 0x33] { &frame[14 + 24 + 12..14 + 40] } else { &frame[14 + 16..14 + 20] };
            let mac = match prefix {
                [0x33, 0x33] => [0x33, 0x33, lower[0], lower[1], lower[2], lower[3]],
                _ => [0x01, 0x00, 0x5e, lower[1] & 0x7f, lower[2], lower[3]],
            };
            assert_eq!(frame[..6], mac, "to {lower:?}");
            assert_eq!(frame[6] & 1, 0, "frames come from a station");
        }
    }
}

/// What becomes of a SYN from an address to the first server, which is sent to a MAC.
fn syn(of: Scenario, source: &str, mac: [u8; 6]) -> Received {
    let to = of.pools[1].address(0);
    let mut macs = [2; 12];
    macs[..6].copy_from_slice(&mac);
    let ends = Endpoints::of(address(source), to);
    let below = LowerHeaders { macs, ends, tos: 0, ttl: 64, id: 0, finish: OffloadRequest::Nothing };
    let mut frame = vec![0; below.len() + TCP_HEADER];
    let flags = flag::SYN;
    let head = SegmentHeader { source_port: 1024, destination_port: 80, seq: 1, ack: 0, flags, window: 9, ecn: 0 };
    below.write_tcp(&mut frame, &head, &Options::default(), (0, 0));
    Stack::new(Arc::new(of), &net::LINKS, 1, START).receive(SERVER_PORT, &frame, START)
}

#[test]
fn frames_to_a_group_are_taken_with_its_mac_or_the_ports_and_no_other() {
    let of = || of_groups(Protocol::Tcp, ["ff02::1", "ff02::9"], ["ff02::48.0.0.1", "ff02::48.0.0.9"]);
    for source in ["ff02::1", "fe80::1"] {
        assert_eq!(syn(of(), source, [0x33, 0x33, 48, 0, 0, 1]), Received::Taken, "{source}");
        assert_eq!(syn(of(), source, net::LINKS[SERVER_PORT].mac), Received::Taken, "{source}");
        assert_eq!(syn(of(), source, [0x33, 0x33, 48, 0, 0, 2]), Received::Foreign, "{source}");
        assert_eq!(syn(of(), source, [0xff; 6]), Received::Foreign, "{source}");
        assert_eq!(syn(of(), source, [2, 9, 9, 9, 9, 9]), Received::OtherMac, "{source}");
    }
    for nobody in ["::", "::1"] {
        assert_eq!(syn(of(), nobody, [0x33, 0x33, 48, 0, 0, 1]), Received::Foreign, "{nobody}");
    }
}

#[test]
fn without_permission_groups_are_nobody() {
    let mut of = of_groups(Protocol::Tcp, ["ff02::1", "ff02::9"], ["ff02::48.0.0.1", "ff02::48.0.0.9"]);
    of.pools.iter_mut().for_each(|pool| pool.allow_multicast = false);
    assert_eq!(syn(of.clone(), "fe80::1", [0x33, 0x33, 48, 0, 0, 1]), Received::Foreign);
    assert_eq!(syn(of, "ff02::1", net::LINKS[SERVER_PORT].mac), Received::Foreign);
}
