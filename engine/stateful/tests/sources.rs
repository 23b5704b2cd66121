// SPDX-License-Identifier: Apache-2.0
//! Packets from addresses that no host has are invalid (RFC 1122 sections 3.2.1.3 and 4.2.3.10): they open nothing and are not
//! answered.
mod net;

use std::{net::IpAddr, sync::Arc};

use net::{LINKS, SERVER_PORT, START, over_ipv6, request_response, scenario};
use spate_stateful::{
    Address, OffloadRequest, Protocol, Received, Stack,
    packet::{Endpoints, LowerHeaders, Options, SegmentHeader, TCP_HEADER, UDP_HEADER, flag},
};

const PORTS: (u16, u16) = (1024, 80);

/// A packet of flags (of TCP), or none (of UDP), to the first server.
fn received(protocol: Protocol, source: &str, flags: u8) -> (Received, bool, usize) {
    let source: IpAddr = source.parse().unwrap();
    let (client, server, payloads) = request_response(10, 10);
    let mut of = scenario(protocol, client, server, payloads);
    if source.is_ipv6() {
        of = over_ipv6(of);
    }
    let to = of.pools[1].address(0);
    let ends = match source {
        IpAddr::V4(v4) => Endpoints::V4 { source: v4.to_bits(), destination: to.as_v4().unwrap() },
        IpAddr::V6(v6) => Endpoints::V6 { source: Address(v6.to_bits()), destination: to },
    };
    let mut macs = [2; 12];
    macs[..6].copy_from_slice(&LINKS[SERVER_PORT].mac);
    let below = LowerHeaders { macs, ends, tos: 0, ttl: 64, id: 0, finish: OffloadRequest::Nothing };
    let mut frame = vec![0; below.len() + if flags == 0 { UDP_HEADER } else { TCP_HEADER }];
    if flags == 0 {
        below.write_udp(&mut frame, PORTS, 0, 0);
    } else {
        let head =
            SegmentHeader { source_port: PORTS.0, destination_port: PORTS.1, seq: 1, ack: 1, flags, window: 9, ecn: 0 };
        below.write_tcp(&mut frame, &head, &Options::default(), (0, 0));
    }
    let mut stack = Stack::new(Arc::new(of), &LINKS, 1, START);
    let what = stack.receive(SERVER_PORT, &frame, START);
    (what, stack.is_ready(SERVER_PORT), stack.flows())
}

#[test]
fn those_that_no_host_has_are_foreign() {
    for source in [
        "0.0.0.0",
        "127.0.0.1",
        "224.0.0.1",
        "239.255.255.255",
        "255.255.255.255",
        "::",
        "::1",
        "ff02::1",
        "::ffff:198.18.0.1",
    ] {
        assert_eq!(received(Protocol::Tcp, source, flag::SYN), (Received::Foreign, false, 0), "SYN from {source}");
        assert_eq!(received(Protocol::Tcp, source, flag::ACK), (Received::Foreign, false, 0), "ACK from {source}");
        assert_eq!(received(Protocol::Udp, source, 0), (Received::Foreign, false, 0), "UDP from {source}");
    }
}

#[test]
fn all_others_are_served() {
    for source in ["1.0.0.0", "198.18.0.255", "240.0.0.1", "2001:db8::", "fe80::1", "::2", "64:ff9b::1.2.3.4"] {
        assert_eq!(received(Protocol::Tcp, source, flag::SYN), (Received::Taken, true, 1), "SYN from {source}");
        assert_eq!(received(Protocol::Tcp, source, flag::ACK), (Received::Taken, true, 0), "ACK from {source}");
        let (what, _, flows) = received(Protocol::Udp, source, 0);
        assert_eq!((what, flows), (Received::Taken, 1), "UDP from {source}");
    }
}
