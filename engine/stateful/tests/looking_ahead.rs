// SPDX-License-Identifier: Apache-2.0
//! Where frames have their addresses and ports is known without reading them: what is fetched ahead is what will be needed.
mod net;

use std::sync::Arc;

use net::{LINKS, SERVER_PORT, START, request_response, scenario};
use proptest::prelude::*;
use spate_net::fast::{self, V4, V6};
use spate_stateful::{
    Address, Hints, OffloadRequest, Prefetched, Protocol, Received, Stack,
    packet::{Content, Endpoints, LowerHeaders, Options, Packet, SegmentHeader, TCP_HEADER, UDP_HEADER},
};

fn below(ends: Endpoints) -> LowerHeaders {
    LowerHeaders { macs: [2; 12], ends, tos: 0, ttl: 64, id: 0, finish: OffloadRequest::Nothing }
}

fn head((source_port, destination_port): (u16, u16)) -> SegmentHeader {
    SegmentHeader { source_port, destination_port, seq: 1, ack: 2, flags: 16, window: 3, ecn: 0 }
}

fn ports(packet: &Packet<'_>) -> (u32, bool) {
    let (source, destination, udp) = match &packet.content {
        Content::Tcp(segment) => (segment.source_port, segment.destination_port, false),
        Content::Udp(datagram) => (datagram.source_port, datagram.destination_port, true),
        Content::Icmp(error) => panic!("{error:?}"),
    };
    (u32::from(source) << 16 | u32::from(destination), udp)
}

proptest! {
    #[test]
    fn ends_are_those_that_are_read(source in any::<u128>(), destination in any::<u128>(), of in any::<(u16, u16)>(), v6: bool, udp: bool) {
        let address = |bits: u128| if v6 { Address(bits) } else { Address::v4(bits as u32) };
        prop_assume!(address(source).is_v6() == v6 && address(destination).is_v6() == v6);
        let below = below(Endpoints::of(address(source), address(destination)));
        let mut frame = vec![0; below.len() + if udp { UDP_HEADER } else { TCP_HEADER }];
        if udp {
            below.write_udp(&mut frame, of, 0, 0);
        } else {
            below.write_tcp(&mut frame, &head(of), &Options::default(), (0, 0));
        }
        let packet = Packet::read(&frame).unwrap();
        let (ports, protocol) = ports(&packet);
        let ends_v4 = || {
            let (source, destination, ports, udp) = fast::ends::<V4>(&frame)?;
            Some((source.into(), destination.into(), ports, udp))
        };
        let ends = fast::ends::<V6>(&frame).or_else(|| ends_v4().filter(|_| !v6));
        prop_assert_eq!(ends, Some((packet.source, packet.destination, ports, protocol)));
        prop_assert!((0..54).all(|len| fast::ends::<V6>(&frame[..len.min(frame.len())]).is_none()));
    }
}

/// Frames of IPv6 are not looked ahead where all flows are over IPv4.
#[test]
fn a_frame_of_a_family_that_no_flow_has_is_foreign() {
    let (client, server, payloads) = request_response(10, 10);
    let mut stack = Stack::new(Arc::new(scenario(Protocol::Tcp, client, server, payloads)), &LINKS, 1, START);
    let address = |last: u128| Address(0x2001_0db8 << 96 | last);
    for udp in [false, true] {
        let mut macs = [2; 12];
        macs[..6].copy_from_slice(&LINKS[SERVER_PORT].mac);
        let below = LowerHeaders { macs, ..below(Endpoints::of(address(1), address(2))) };
        let mut frame = vec![0; below.len() + if udp { UDP_HEADER } else { TCP_HEADER }];
        if udp {
            below.write_udp(&mut frame, (1024, 80), 0, 0);
        } else {
            below.write_tcp(&mut frame, &head((1024, 80)), &Options::default(), (0, 0));
        }
        let mut found = [Prefetched::default()];
        stack.look_ahead([&frame[..]].into_iter(), &mut found);
        let hints = Hints { ahead: Some(&found[0]), ..Hints::default() };
        assert_eq!(stack.receive_hinted(SERVER_PORT, &frame, hints, START), Received::Foreign, "udp: {udp}");
    }
}
