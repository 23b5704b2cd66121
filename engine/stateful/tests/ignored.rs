// SPDX-License-Identifier: Apache-2.0
//! Packets of sources to ignore open no flow, are not answered, and are counted apart; flows that are open go on with them.
mod net;

use std::{net::IpAddr, sync::Arc};

use net::{CLIENT_PORT, LINKS, SERVER_PORT, START, over_ipv6, request_response, scenario};
use spate_net::checksum::{checksum, sum};
use spate_stateful::{
    Address, Count, IgnoredSources, OffloadRequest, Protocol, Received, Stack, Tuple,
    packet::{Endpoints, LowerHeaders, Options, SegmentHeader, TCP_HEADER, UDP_HEADER, flag},
};

const PROBE: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0x11];
const PORTS: (u16, u16) = (1024, 80);

fn address(text: &str) -> Address {
    text.parse::<IpAddr>().expect("an address").into()
}

/// A stack with clients and servers that ignores the probe's MAC, and addresses of both families.
fn stack(protocol: Protocol, v6: bool) -> (Stack, [Address; 2]) {
    let (client, server, payloads) = request_response(10, 10);
    let mut of = scenario(protocol, client, server, payloads);
    if v6 {
        of = over_ipv6(of);
    }
    let ranges = [("198.18.7.0", "198.18.7.255"), ("2001:db8:7::", "2001:db8:7::ffff")];
    let ranges = ranges.map(|(first, last)| (address(first), address(last)));
    of.ignored = Some(IgnoredSources::new([PROBE], ranges));
    let stations = [0, 1].map(|pool: usize| of.pools[pool].address(0));
    (Stack::new(Arc::new(of), &LINKS, 1, START), stations)
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// With these flags.
    Segment(u8),
    Datagram,
    /// ICMP or ICMPv6 of this type.
    Icmp(u8),
}

/// A frame to a port's station, from and to an address.
fn frame(what: What, port: usize, mac: [u8; 6], [source, destination]: [Address; 2], ports: (u16, u16)) -> Vec<u8> {
    let ends = Endpoints::of(source, destination);
    let mut macs = [0; 12];
    macs[..6].copy_from_slice(&LINKS[port].mac);
    macs[6..].copy_from_slice(&mac);
    let below = LowerHeaders { macs, ends, tos: 0, ttl: 64, id: 0, finish: OffloadRequest::Nothing };
    match what {
        What::Segment(flags) => {
            let mut frame = vec![0; below.len() + TCP_HEADER];
            let head = SegmentHeader {
                source_port: ports.0,
                destination_port: ports.1,
                seq: 1,
                ack: 1,
                flags,
                window: 9,
                ecn: 0,
            };
            below.write_tcp(&mut frame, &head, &Options::default(), (0, 0));
            frame
        }
        What::Datagram => {
            let mut frame = vec![0; below.len() + UDP_HEADER];
            below.write_udp(&mut frame, ports, 0, 0);
            frame
        }
        What::Icmp(kind) => {
            let mut frame = vec![0; below.len() + UDP_HEADER];
            below.write_udp(&mut frame, ports, 0, 0);
            let (protocol, at) = if source.is_v6() { (20, 54) } else { (23, 34) };
            frame[protocol] = if source.is_v6() { 58 } else { 1 };
            frame[at..].copy_from_slice(&[kind, 0, 0, 0, 0, 1, 0, 1]);
            if !source.is_v6() {
                frame[24..26].fill(0);
                let check = checksum(sum(&frame[14..34])).to_be_bytes();
                frame[24..26].copy_from_slice(&check);
            }
            frame
        }
    }
}

/// What a stack made of a frame, whether it has an answer, its flows, and what it counted.
fn outcome(stack: &mut Stack, port: usize, frame: &[u8]) -> (Received, bool, usize, Vec<(&'static str, u64)>) {
    let received = stack.receive(port, frame, START);
    let counted = |client: bool| {
        let counts = stack.counters(0, client).all();
        spate_stateful::COUNTERS
            .iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
            .map(|((name, ..), count)| (*name, count))
    };
    let counts = counted(true).chain(counted(false)).collect();
    (received, stack.is_ready(port), stack.flows(), counts)
}

#[test]
fn ignored_sources_open_nothing_are_not_answered_and_are_counted_apart() {
    let ignored = || (Received::Taken, false, 0, vec![("ignored_packets", 1)]);
    for (mac, v4, v6) in [
        (PROBE, "198.18.9.9", "2001:db8:9::1"),
        (ROUTER, "198.18.7.0", "2001:db8:7::"),
        (ROUTER, "198.18.7.255", "2001:db8:7::ffff"),
    ] {
        for (source, v6) in [(address(v4), false), (address(v6), true)] {
            let segments = [flag::SYN, flag::ACK, flag::SYN | flag::ACK, flag::RST].map(What::Segment);
            let echo = What::Icmp(if v6 { 128 } else { 8 });
            for what in segments.into_iter().chain([What::Datagram, echo]) {
                let protocol = if matches!(what, What::Datagram) { Protocol::Udp } else { Protocol::Tcp };
                for port in [CLIENT_PORT, SERVER_PORT] {
                    let (mut stack, stations) = stack(protocol, v6);
                    let frame = frame(what, port, mac, [source, stations[port]], PORTS);
                    assert_eq!(outcome(&mut stack, port, &frame), ignored(), "{what:?} from {source:?} at port {port}");
                }
            }
        }
    }
    // A datagram of no template's first bytes, or to a port without a server, is no error either.
    let (mut stack, [_, server]) = stack(Protocol::Udp, false);
    let frame = frame(What::Datagram, SERVER_PORT, PROBE, [address("198.18.9.9"), server], (1024, 81));
    assert_eq!(outcome(&mut stack, SERVER_PORT, &frame), ignored());
}

#[test]
fn other_sources_are_served_and_refused_as_ever() {
    for (source, v6) in [("198.18.8.0", false), ("198.18.6.255", false), ("2001:db8:7::1:0", true)] {
        let source = address(source);
        let one = |protocol, what| {
            let (mut stack, [_, server]) = stack(protocol, v6);
            let frame = frame(what, SERVER_PORT, ROUTER, [source, server], PORTS);
            let (received, answers, flows, counts) = outcome(&mut stack, SERVER_PORT, &frame);
            assert!(counts.iter().all(|(name, _)| *name != "ignored_packets"), "{what:?}: {counts:?}");
            (received, answers, flows)
        };
        assert_eq!(one(Protocol::Tcp, What::Segment(flag::SYN)), (Received::Taken, true, 1));
        assert_eq!(one(Protocol::Tcp, What::Segment(flag::ACK)), (Received::Taken, true, 0), "a reset");
        assert_eq!(one(Protocol::Udp, What::Datagram).2, 1);
        let echo = What::Icmp(if v6 { 128 } else { 8 });
        assert_eq!(one(Protocol::Tcp, echo), (Received::Foreign, false, 0), "the port's station answers");
    }
}

#[test]
fn what_is_for_others_stays_so() {
    let (mut stack, [_, server]) = stack(Protocol::Tcp, true);
    let source = address("2001:db8:7::1");
    let elsewhere = address("2001:db8:dead::1");
    for what in [What::Segment(flag::SYN), What::Segment(flag::ACK), What::Icmp(128)] {
        let frame = frame(what, SERVER_PORT, PROBE, [source, elsewhere], PORTS);
        assert_eq!(outcome(&mut stack, SERVER_PORT, &frame), (Received::Foreign, false, 0, vec![]), "{what:?}");
    }
    // Without an answer to its neighbor solicitations a router could not send to others' flows.
    let frame = frame(What::Icmp(135), SERVER_PORT, PROBE, [source, server], PORTS);
    assert_eq!(outcome(&mut stack, SERVER_PORT, &frame), (Received::Foreign, false, 0, vec![]));
}

#[test]
fn flows_of_clients_with_an_ignored_server_go_on() {
    let (mut stack, [client, _]) = stack(Protocol::Tcp, false);
    let server = address("198.18.7.80");
    let tuple = Tuple { local: client, remote: server, local_port: 1024, remote_port: 80 };
    stack.open(0, 0, &tuple, START).expect("a slot");
    // It is of the flow, if not what that waits for.
    let segment = frame(What::Segment(flag::ACK), CLIENT_PORT, PROBE, [server, client], (80, 1024));
    assert_eq!(stack.receive(CLIENT_PORT, &segment, START), Received::Taken);
    let count = |stack: &Stack, count| stack.counters(0, true).get(count);
    assert_eq!([Count::ReceivedPackets, Count::IgnoredPackets].map(|of| count(&stack, of)), [1, 0]);
    // Of another connection: it may be another worker's.
    let stray = frame(What::Segment(flag::ACK), CLIENT_PORT, PROBE, [server, client], (80, 1025));
    stack.set_shared(true);
    assert_eq!(stack.receive(CLIENT_PORT, &stray, START), Received::Elsewhere);
    assert_eq!(count(&stack, Count::IgnoredPackets), 0);
    stack.set_shared(false);
    assert_eq!(stack.receive(CLIENT_PORT, &stray, START), Received::Taken);
    assert_eq!([Count::StraysRefused, Count::IgnoredPackets].map(|of| count(&stack, of)), [0, 1]);
}
